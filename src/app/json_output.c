// json_output: the few lines between jansson and standard output.
// In: values. Out: one line of JSON. Invariant: no number that JSON cannot say, no text that is not UTF-8.
// Example: json_number(NAN) → null
#include "app/json_output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_short(float value) {
    enum { MOST_DIGITS = 9 };
    char text[32] = "0";
    for (int digits = 1; digits <= MOST_DIGITS; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return json_real(strtod(text, NULL));
}

json_t *json_words(Text t) {
    Arena *arena = arena_create();
    Text clean = utf8_clean(arena, t);
    json_t *value = json_stringn(clean.at, clean.len);
    arena_destroy(arena);
    return value;
}

void json_print(json_t *value, size_t digits) {
    json_dumpf(value, stdout, JSON_REAL_PRECISION(digits) | JSON_ENCODE_ANY);
    putchar('\n');
    json_decref(value);
}

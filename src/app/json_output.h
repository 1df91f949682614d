// json_output: prints a JSON value on standard output, one line, and drops the reference.
// In: a value that jansson built. Out: text. Reals have `digits` significant digits; NaN and infinities are null.
// Invariant: what is printed is valid JSON and ends with a newline.
// Example: json_print(json_pack("[{s:o}]", "decode_tok_s", json_number(71.25)), 6)
#pragma once
#include <jansson.h>
#include "base/text.h"

json_t *json_number(double value);                 // null where the value is not finite
json_t *json_short(float value);                   // finite: the fewest digits that mean this float, so that 0.8f is 0.8
json_t *json_words(Text t);                        // bytes that are no UTF-8 become U+FFFD
void json_print(json_t *value, size_t digits);     // takes the reference

// json_values: see json_values.h.
#include "text/json_values.h"

#include <stdlib.h>

#include <string.h>

bool json_is_word(const json_t *value, const char *word) {
    return json_is_string(value) && strcmp(json_string_value(value), word) == 0;
}

bool json_has_word(const json_t *list, const char *word) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_word(json_array_get(list, i), word)) return true;
    return false;
}

const json_t *json_at_pointer(const json_t *root, const char *pointer) {
    if (!pointer || pointer[0] != '#' || (pointer[1] && pointer[1] != '/')) return NULL;
    for (const char *p = pointer + 1; *p == '/';) {
        char step[256];
        size_t n = 0;
        for (p++; *p && *p != '/' && n < sizeof step - 1; p++) {
            bool is_escape = *p == '~' && (p[1] == '0' || p[1] == '1');
            step[n++] = is_escape ? (p[1] == '0' ? '~' : '/') : *p;
            p += is_escape;
        }
        step[n] = '\0';
        root = json_is_array(root) ? json_array_get(root, (size_t)atoi(step)) : json_object_get(root, step);
    }
    return root;
}

Text json_view(const json_t *string) {
    return (Text){json_string_value(string), json_string_length(string)};
}

json_t *json_of_text(Text t) { return json_stringn(t.len ? t.at : "", t.len); }

// json_values: see json_values.h.
#include "text/json_values.h"

#include <string.h>

bool json_is_word(const json_t *value, const char *word) {
    return json_is_string(value) && strcmp(json_string_value(value), word) == 0;
}

bool json_has_word(const json_t *list, const char *word) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_word(json_array_get(list, i), word)) return true;
    return false;
}

Text json_view(const json_t *string) {
    return (Text){json_string_value(string), json_string_length(string)};
}

json_t *json_of_text(Text t) { return json_stringn(t.len ? t.at : "", t.len); }

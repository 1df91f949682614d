// json_values: the few words between jansson's strings and Text. In: JSON values of any type, NULL too. Out: what they say.
// Example: json_is_word(json_object_get(tool, "type"), "function")
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include "base/text.h"

bool json_is_word(const json_t *value, const char *word);       // a string of these bytes
bool json_has_word(const json_t *list, const char *word);       // an array with such a string in it
// What a path within a document leads to: "#", "#/a/0/b~1c". NULL: it leads nowhere, or is no such path.
const json_t *json_at_pointer(const json_t *root, const char *pointer);
Text json_view(const json_t *string);                           // its bytes; empty where it is no string
json_t *json_of_text(Text t);                                   // NULL where t is no UTF-8

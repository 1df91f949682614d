// cursor: a place in a text that is read byte by byte, by the parsers of small languages.
// In: a text. Out: what stands at the place; the place moves only where something is taken.
// Example: TextCursor c = {text_of("41]"), 0}; cursor_hex(&c, 2, &n) → n = 65; cursor_take(&c, ']') → true, at the end
#pragma once
#include "base/text.h"

typedef struct TextCursor { Text text; size_t at; } TextCursor;

bool cursor_is_over(const TextCursor *c);
char cursor_peek(const TextCursor *c);               // '\0' at the end
bool cursor_take(TextCursor *c, char wanted);
// The number of exactly so many hexadecimal digits, at most 15. False: at stands where one is missing.
bool cursor_hex(TextCursor *c, int digits, int64_t *value);

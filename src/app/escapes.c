// escapes: see escapes.h. In: a text. Out: its unescaped copy. Invariant: never longer than the text.
// Example: "\\x41\\q" → "A\\q"
#include "app/escapes.h"

#include <string.h>

Text text_unescape(Arena *arena, Text text) {
    static const char letters[] = "ntr\\\"'", values[] = "\n\t\r\\\"'";
    TextBuilder out = builder(arena);
    for (size_t i = 0; i < text.len; i++) {
        const char *at = text.at + i;
        size_t left = text.len - i;
        const char *letter = at[0] == '\\' && left >= 2 ? memchr(letters, at[1], sizeof letters - 1) : NULL;
        if (letter) {
            builder_char(&out, values[letter - letters]);
            i += 1;
        } else if (at[0] == '\\' && left >= 4 && at[1] == 'x' && hex_digit(at[2]) >= 0 && hex_digit(at[3]) >= 0) {
            builder_char(&out, (char)(hex_digit(at[2]) * 16 + hex_digit(at[3])));
            i += 3;
        } else {
            builder_char(&out, at[0]);
        }
    }
    return builder_view(&out);
}

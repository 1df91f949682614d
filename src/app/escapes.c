// escapes: see escapes.h. In: a text. Out: its unescaped copy. Invariant: never longer than the text.
// Example: "\\x41\\q" → "A\\q"
#include "app/escapes.h"

#include <ctype.h>
#include <stdlib.h>
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
        } else if (at[0] == '\\' && left >= 4 && at[1] == 'x' && isxdigit((unsigned char)at[2]) &&
                   isxdigit((unsigned char)at[3])) {
            const char digits[] = {at[2], at[3], '\0'};
            builder_char(&out, (char)strtol(digits, NULL, 16));
            i += 3;
        } else {
            builder_char(&out, at[0]);
        }
    }
    return builder_view(&out);
}

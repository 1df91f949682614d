// dialect: fills in the templates. In: "(const $type *)$at", {"type", "f32", "at", "p0", NULL}. Out: "(const f32 *)p0".
// Invariant: a word that no pair names stays as it is, $0 … too, which the renderer replaces last.
#include "render/dialect.h"

#include <string.h>

const char *template_fill(Arena *arena, const char *template, const char *const *pairs) {
    TextBuilder b = builder(arena);
    for (const char *c = template; *c; c++) {
        const char *const *pair = pairs;
        while (*pair && !(*c == '$' && !strncmp(c + 1, *pair, strlen(*pair)))) pair += 2;
        if (!*pair) {
            builder_char(&b, *c);
            continue;
        }
        builder_cstring(&b, pair[1]);
        c += strlen(*pair);
    }
    return builder_cstr(&b);
}

// cursor: see cursor.h.
#include "text/cursor.h"

bool cursor_is_over(const TextCursor *c) { return c->at >= c->text.len; }

char cursor_peek(const TextCursor *c) { return cursor_is_over(c) ? '\0' : c->text.at[c->at]; }

bool cursor_take(TextCursor *c, char wanted) {
    if (cursor_is_over(c) || cursor_peek(c) != wanted) return false;
    c->at++;
    return true;
}

bool cursor_hex(TextCursor *c, int digits, int64_t *value) {
    *value = 0;
    for (int i = 0; i < digits; i++, c->at++) {
        int digit = hex_digit(cursor_peek(c));
        if (digit < 0) return false;
        *value = *value * 16 + digit;
    }
    return true;
}

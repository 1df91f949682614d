// Text: views, the builder, and UTF-8 by the Unicode standard's table 3-7 (no overlong forms, no
// surrogates, nothing above U+10FFFF).
// Invariant: a builder's block has room for a terminator behind its len bytes once cap > 0.
// Example: utf8_decode("\xE2\x82\xAC", 3, &used) == 0x20AC, used == 3
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"

Text text_of(const char *cstr) {
    return (Text){cstr, strlen(cstr)};
}

bool text_equal(Text a, Text b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool text_is(Text a, const char *cstr) {
    return text_equal(a, text_of(cstr));
}

bool text_starts(Text a, const char *prefix) {
    size_t len = strlen(prefix);
    return len == 0 || (a.len >= len && memcmp(a.at, prefix, len) == 0);
}

bool text_ends(Text a, const char *suffix) {
    size_t len = strlen(suffix);
    return len == 0 || (a.len >= len && memcmp(a.at + a.len - len, suffix, len) == 0);
}

size_t text_find(Text a, Text needle) {
    if (needle.len == 0) return a.len;
    for (size_t at = 0; at + needle.len <= a.len; at++)
        if (memcmp(a.at + at, needle.at, needle.len) == 0) return at;
    return a.len;
}

Text text_after(Text a, size_t n) {
    return (Text){a.at + n, a.len - n};
}

bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

Text text_trim(Text a) {
    while (a.len && is_blank(a.at[0])) a = text_after(a, 1);
    while (a.len && is_blank(a.at[a.len - 1])) a.len--;
    return a;
}

bool text_may_begin(Text a, Text marker, bool *is_whole) {
    size_t compared = a.len < marker.len ? a.len : marker.len;
    bool is_same = marker.len > 0 && (compared == 0 || memcmp(a.at, marker.at, compared) == 0);
    *is_whole = is_same && compared == marker.len;
    return is_same;
}

Text text_copy(Arena *arena, Text a) {
    CHECK(a.len < SIZE_MAX);
    char *at = arena_new(arena, a.len + 1);
    if (a.len) memcpy(at, a.at, a.len);
    return (Text){at, a.len};
}

const char *text_cstr(Arena *arena, Text a) {
    return text_copy(arena, a).at;
}

int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

TextBuilder builder(Arena *arena) {
    return (TextBuilder){.arena = arena};
}

// Room for `more` bytes and a terminator.
static void builder_reserve(TextBuilder *b, size_t more) {
    if (b->cap > b->len && more < b->cap - b->len) return;
    CHECK(more < SIZE_MAX / 4 && b->len < SIZE_MAX / 4);
    size_t cap = b->cap ? b->cap * 2 : 64;
    if (cap < b->len + more + 1) cap = b->len + more + 1;
    char *at = arena_new(b->arena, cap);
    if (b->len) memcpy(at, b->at, b->len);
    b->at = at;
    b->cap = cap;
}

void builder_append(TextBuilder *b, const char *at, size_t len) {
    if (len == 0) return;
    builder_reserve(b, len);
    memcpy(b->at + b->len, at, len);
    b->len += len;
}

void builder_text(TextBuilder *b, Text t) {
    builder_append(b, t.at, t.len);
}

void builder_cstring(TextBuilder *b, const char *cstr) {
    builder_append(b, cstr, strlen(cstr));
}

void builder_char(TextBuilder *b, char c) {
    builder_append(b, &c, 1);
}

void builder_drop(TextBuilder *b, size_t n) {
    if (n == 0) return;   // there may be no memory yet, and C gives memmove no null, not even for no bytes
    memmove(b->at, b->at + n, b->len - n);
    b->len -= n;
}

void builder_printf(TextBuilder *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    builder_reserve(b, 0);
    size_t room = b->cap - b->len;
    int len = vsnprintf(b->at + b->len, room, format, args);
    va_end(args);
    if (len < 0) BUG("cannot format \"%s\"", format);
    if ((size_t)len >= room) {
        builder_reserve(b, (size_t)len);
        vsnprintf(b->at + b->len, (size_t)len + 1, format, again);
    }
    va_end(again);
    b->len += (size_t)len;
}

const char *builder_cstr(TextBuilder *b) {
    builder_reserve(b, 0);
    b->at[b->len] = '\0';
    return b->at;
}

Text builder_view(const TextBuilder *b) {
    return (Text){b->at, b->len};
}

// The well-formed sequences: lead bytes first..last, then the allowed range of the second byte; any
// further byte is 80..BF.
typedef struct Utf8Row { uint8_t first, last, second_low, second_high, len, lead_mask; } Utf8Row;
static const Utf8Row utf8_rows[] = {
    {0x00, 0x7F, 0x00, 0x00, 1, 0x7F},
    {0xC2, 0xDF, 0x80, 0xBF, 2, 0x1F},
    {0xE0, 0xE0, 0xA0, 0xBF, 3, 0x0F},
    {0xE1, 0xEC, 0x80, 0xBF, 3, 0x0F},
    {0xED, 0xED, 0x80, 0x9F, 3, 0x0F},
    {0xEE, 0xEF, 0x80, 0xBF, 3, 0x0F},
    {0xF0, 0xF0, 0x90, 0xBF, 4, 0x07},
    {0xF1, 0xF3, 0x80, 0xBF, 4, 0x07},
    {0xF4, 0xF4, 0x80, 0x8F, 4, 0x07},
};

static const Utf8Row *utf8_row(uint8_t lead) {
    for (size_t i = 0; i < sizeof utf8_rows / sizeof *utf8_rows; i++)
        if (lead >= utf8_rows[i].first && lead <= utf8_rows[i].last) return &utf8_rows[i];
    return NULL;
}

// Bytes of the longest well-formed beginning of one character (the "maximal subpart"); row NULL: 0.
static size_t utf8_prefix(const Utf8Row *row, const uint8_t *at, size_t len) {
    if (!row) return 0;
    size_t n = 1;
    for (; n < row->len && n < len; n++) {
        uint8_t low = n == 1 ? row->second_low : 0x80, high = n == 1 ? row->second_high : 0xBF;
        if (at[n] < low || at[n] > high) break;
    }
    return n;
}

int32_t utf8_decode(const char *text, size_t len, size_t *used) {
    const uint8_t *at = (const uint8_t *)text;
    *used = 0;
    if (len == 0) return -1;
    const Utf8Row *row = utf8_row(at[0]);
    size_t n = utf8_prefix(row, at, len);
    *used = n ? n : 1;
    if (!row || n < row->len) return -1;
    int32_t code_point = at[0] & row->lead_mask;
    for (size_t i = 1; i < n; i++) code_point = code_point << 6 | (at[i] & 0x3F);
    return code_point;
}

size_t utf8_encode(int32_t code_point, char out[4]) {
    uint32_t c = (uint32_t)code_point;
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = len - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[len] | c);
    return len;
}

bool utf8_is_valid(Text t) {
    for (size_t i = 0, used; i < t.len; i += used)
        if (utf8_decode(t.at + i, t.len - i, &used) < 0) return false;
    return true;
}

size_t utf8_incomplete_tail(Text t) {
    const uint8_t *at = (const uint8_t *)t.at;
    for (size_t tail = 1; tail <= 3 && tail <= t.len; tail++) {
        const uint8_t *from = at + t.len - tail;
        const Utf8Row *row = utf8_row(*from);
        if (row) return row->len > tail && utf8_prefix(row, from, tail) == tail ? tail : 0;
        if ((*from & 0xC0) != 0x80) return 0;
    }
    return 0;
}

Text utf8_clean(Arena *arena, Text t) {
    TextBuilder b = builder(arena);
    for (size_t i = 0, used; i < t.len; i += used) {
        if (utf8_decode(t.at + i, t.len - i, &used) < 0)
            builder_cstring(&b, "\xEF\xBF\xBD");
        else
            builder_append(&b, t.at + i, used);
    }
    builder_cstr(&b);
    return builder_view(&b);
}

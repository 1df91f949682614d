// Text: views of bytes that need no terminator, and a builder that grows on an arena.
// Example: TextBuilder b = builder(arena); builder_printf(&b, "%d", 7); const char *s = builder_cstr(&b);
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"

typedef struct Text { const char *at; size_t len; } Text;
typedef struct TextBuilder { Arena *arena; char *at; size_t len, cap; } TextBuilder;

Text text_of(const char *cstr);
bool text_equal(Text a, Text b);
bool text_is(Text a, const char *cstr);
bool text_starts(Text a, const char *prefix);
bool text_ends(Text a, const char *suffix);
size_t text_find(Text a, Text needle);                        // where it begins; a.len: nowhere, or the needle is empty
Text text_after(Text a, size_t n);                            // without its first n bytes; n ≤ a.len
bool is_blank(char c);                                        // a space, a tab, or a part of a line's end
Text text_trim(Text a);                                       // without blanks around
bool text_may_begin(Text a, Text marker, bool *is_whole);     // it begins with the marker (is_whole), or may once more has come
Text text_copy(Arena *arena, Text a);                         // the copy is zero-terminated
const char *text_cstr(Arena *arena, Text a);
int hex_digit(char c);                                        // its value; −1: it is none

TextBuilder builder(Arena *arena);
void builder_append(TextBuilder *b, const char *at, size_t len);
void builder_text(TextBuilder *b, Text t);
void builder_cstring(TextBuilder *b, const char *cstr);
void builder_char(TextBuilder *b, char c);
void builder_drop(TextBuilder *b, size_t n);                  // its first n bytes; n ≤ len
void builder_printf(TextBuilder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *builder_cstr(TextBuilder *b);                     // zero-terminated, valid until the next append
Text builder_view(const TextBuilder *b);

// UTF-8. A decoder that never reads past len: returns the code point or -1 for an invalid sequence;
// *used gets the bytes taken (at least 1 where len > 0).
int32_t utf8_decode(const char *at, size_t len, size_t *used);
size_t utf8_encode(int32_t code_point, char out[4]);          // bytes written
bool utf8_is_valid(Text t);
size_t utf8_incomplete_tail(Text t);                          // bytes at the end that begin an unfinished character
Text utf8_clean(Arena *arena, Text t);                        // invalid bytes become U+FFFD

// escapes: the one rule for backslashes in -p and --system: they are text, unless --escape is given.
// In: a text. Out: the text with \n \t \r \\ \" \' and \xHH replaced. Invariant: any other backslash stays as it is.
// Example: text_unescape(arena, text_of("a\\nb")) → "a", newline, "b"
#pragma once
#include "base/text.h"

Text text_unescape(Arena *arena, Text text);

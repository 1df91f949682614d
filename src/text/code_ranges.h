// code_ranges: sets of characters, as ranges of code points, and what bytes those are.
// In: ranges in any order, overlapping or not. Out: their complement; a grammar node for one character of them, as it is or
// as the inside of a JSON string writes it.
// Invariant: what has been tidied rises, and no two ranges touch. Surrogates are no characters: they become no bytes.
// Example: [^0-9] → ranges 0…2F, 3A…10FFFF → UTF-8
#pragma once
#include "text/grammar.h"

enum { LAST_CODE = 0x10FFFF };

typedef struct CodeRange { int32_t first, last; } CodeRange;
typedef struct CodeRanges { CodeRange *at; size_t len, cap; } CodeRanges;

void code_ranges_put(Arena *arena, CodeRanges *r, int32_t first, int32_t last);
CodeRanges code_ranges_invert(Arena *arena, const CodeRanges *r);
// in_json: characters that a JSON string must escape are escaped. Negative where no character is left.
GrammarNode code_ranges_node(Grammar *g, const CodeRanges *r, bool in_json);

// pattern: regular expressions, as JSON Schema writes them, as grammar nodes.
// In: a pattern. Out: a node for the whole texts that it fits, as they are or as the inside of a JSON string.
// Known: literals, . [...] (ranges, ^), \d \w \s \D \W \S \t \n \r \f \v \xHH \uHHHH, ( ) (?: ) |, * + ? {n} {n,} {n,m} and
// their lazy forms, ^ and $ at the ends. A pattern without ^ or $ fits anywhere in the text. Whatever else a pattern holds
// (look-arounds, references, \b, \p, escapes of what needs none) is refused, never passed over.
// Example: "^a{2}$" → "aa"
#pragma once
#include "text/grammar.h"

// in_json: characters that a JSON string must escape are escaped. Errors: LATHE_BAD_REQUEST with the place.
bool pattern_parse(Grammar *g, Text pattern, bool in_json, GrammarNode *out, Error *err) MUST_CHECK;
// One character of a JSON string, raw or escaped.
GrammarNode pattern_json_character(Grammar *g);

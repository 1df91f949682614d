// gbnf: grammars in text, as llama.cpp's server takes them, as grammar nodes.
// In: rules "name ::= what it may be", of which one is called root. Out: a node for the texts that root describes.
// Known: "literals" and [classes] (ranges, ^) with the escapes \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH, . for any
// character, names of rules (letters, digits, -), ( ), |, * + ? {m} {m,} {m,n}, # comments. A rule ends with its line, but
// for what stands in ( ) or behind ::= and |.
// Invariant: a count is a number, not so many copies. Refused, with line and column, are: what is none of the above, rules
// that are missing or defined twice, that begin with themselves, or that no text can ever end, and groups or rules nested
// deeper than the limits below.
// Example: root ::= "[" [0-9]+ ("," [0-9]+)* "]" → "[1,22]"
#pragma once
#include "text/grammar.h"

enum { GBNF_GROUPS_MAX = 100, GBNF_RULES_MAX = 5000, GBNF_STEPS_MAX = 2000 };

// Errors: LATHE_BAD_REQUEST with line and column, both from 1 on.
bool gbnf_parse(Grammar *g, Text source, GrammarNode *out, Error *err) MUST_CHECK;

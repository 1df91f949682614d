// grammar: what a text may look like, as nodes over bytes: classes, sequences, choices, counted repetitions, rules.
// In: calls that build nodes. Out: a Grammar that text/constraint runs. Nodes are shared freely (they are a graph, not a
// tree), so that a repetition of 100,000 is one node and a rule may refer to itself.
// Invariant: every node that a rule reaches can be satisfied by some text.
// Example: grammar_seq(g, (GrammarNode[]){grammar_text(g, text_of("a")), digits}, 2) → "a" and then digits
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

typedef int32_t GrammarNode;                       // an index; negative where there is none
enum { GRAMMAR_NODES_MAX = 1 << 20, GRAMMAR_FOREVER = -1, GRAMMAR_EMPTY_REPEATS_MAX = 1000 };

typedef enum NodeKind { NODE_BYTES, NODE_SEQ, NODE_ALT, NODE_REPEAT, NODE_RULE } NodeKind;
typedef struct ByteSet { uint64_t bits[4]; } ByteSet;
typedef struct GrammarPart {
    NodeKind kind;
    bool may_be_empty;                             // RULE: of what it was set to so far
    ByteSet bytes;                                 // BYTES
    const GrammarNode *children;                   // SEQ, ALT; REPEAT and RULE: one
    int n;
    int32_t least, most;                           // REPEAT; most GRAMMAR_FOREVER: no limit
} GrammarPart;

typedef struct Grammar {
    Arena *arena;
    GrammarPart *at;
    size_t len, cap;
} Grammar;

Grammar *grammar_create(Arena *arena);
bool grammar_is_full(const Grammar *g);            // more nodes than GRAMMAR_NODES_MAX were asked for: not to be used
GrammarNode grammar_bytes(Grammar *g, ByteSet bytes);
GrammarNode grammar_byte_range(Grammar *g, uint8_t first, uint8_t last);
GrammarNode grammar_text(Grammar *g, Text text);   // exactly these bytes; empty: nothing
GrammarNode grammar_seq(Grammar *g, const GrammarNode *children, int n);
GrammarNode grammar_alt(Grammar *g, const GrammarNode *children, int n);
GrammarNode grammar_optional(Grammar *g, GrammarNode child);
// Errors: LATHE_BAD_REQUEST for bounds that no text meets, or more than GRAMMAR_EMPTY_REPEATS_MAX repetitions of what may
// be empty.
bool grammar_repeat(Grammar *g, GrammarNode child, int64_t least, int64_t most, GrammarNode *out, Error *err) MUST_CHECK;
// A node to be set later: rules may refer to themselves.
GrammarNode grammar_rule(Grammar *g);
GrammarNode grammar_rule_known(Grammar *g, bool may_be_empty);     // the same, where that is known already
void grammar_set(Grammar *g, GrammarNode rule, GrammarNode meaning);
// Any text without `end` in it, then `end` (is_closed) or the text's end: one rule a byte of `end`, so of linear size.
GrammarNode grammar_until(Grammar *g, Text end, GrammarNode behind, bool may_stop);
// Code points first … last as UTF-8; surrogates are left out. Negative where nothing is left.
GrammarNode grammar_code_points(Grammar *g, int32_t first, int32_t last);

static inline void byte_set_add(ByteSet *s, uint8_t byte) {
    s->bits[byte >> 6] |= 1ULL << (byte & 63);
}
static inline bool byte_set_has(const ByteSet *s, uint8_t byte) {
    return s->bits[byte >> 6] >> (byte & 63) & 1;
}

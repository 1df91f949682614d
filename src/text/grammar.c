// grammar: see grammar.h. In: node calls. Out: an array of parts. Invariant: a child stands before its parent, but for
// rules, whose meaning comes later.
#include "text/grammar.h"

#include <string.h>

#include "base/vec.h"

Grammar *grammar_create(Arena *arena) {
    Grammar *g = arena_new(arena, sizeof *g);
    *g = (Grammar){.arena = arena};
    return g;
}

bool grammar_is_full(const Grammar *g) {
    return g->len > GRAMMAR_NODES_MAX;
}

// Beyond the limit the last node stands for all: the caller looks at grammar_is_full before it uses anything.
static GrammarNode node_add(Grammar *g, GrammarPart part) {
    if (g->len <= GRAMMAR_NODES_MAX) vec_push(g->arena, g, part);
    return (GrammarNode)g->len - 1;
}

static const GrammarNode *children_copy(Grammar *g, const GrammarNode *children, int n) {
    return arena_copy(g->arena, children, (size_t)n * sizeof *children);
}

GrammarNode grammar_bytes(Grammar *g, ByteSet bytes) {
    return node_add(g, (GrammarPart){.kind = NODE_BYTES, .bytes = bytes});
}

GrammarNode grammar_byte_range(Grammar *g, uint8_t first, uint8_t last) {
    ByteSet set = {{0}};
    for (int b = first; b <= last; b++) byte_set_add(&set, (uint8_t)b);
    return grammar_bytes(g, set);
}

GrammarNode grammar_seq(Grammar *g, const GrammarNode *children, int n) {
    bool is_empty = true;
    if (n == 1) return children[0];
    for (int i = 0; i < n; i++) is_empty = is_empty && g->at[children[i]].may_be_empty;
    return node_add(g, (GrammarPart){.kind = NODE_SEQ, .children = children_copy(g, children, n), .n = n, .may_be_empty = is_empty});
}

GrammarNode grammar_alt(Grammar *g, const GrammarNode *children, int n) {
    bool is_empty = false;
    if (n == 1) return children[0];
    for (int i = 0; i < n; i++) is_empty = is_empty || g->at[children[i]].may_be_empty;
    return node_add(g, (GrammarPart){.kind = NODE_ALT, .children = children_copy(g, children, n), .n = n, .may_be_empty = is_empty});
}

GrammarNode grammar_text(Grammar *g, Text text) {
    GrammarNode *bytes = arena_new(g->arena, (text.len + 1) * sizeof *bytes);
    for (size_t i = 0; i < text.len; i++) bytes[i] = grammar_byte_range(g, (uint8_t)text.at[i], (uint8_t)text.at[i]);
    return grammar_seq(g, bytes, (int)text.len);
}

GrammarNode grammar_optional(Grammar *g, GrammarNode child) {
    return grammar_alt(g, (GrammarNode[]){child, grammar_seq(g, NULL, 0)}, 2);
}

bool grammar_repeat(Grammar *g, GrammarNode child, int64_t least, int64_t most, GrammarNode *out, Error *err) {
    bool is_empty = g->at[child].may_be_empty;
    if (least < 0 || (most != GRAMMAR_FOREVER && most < least) || least > INT32_MAX || most > INT32_MAX)
        return fail(err, LATHE_BAD_REQUEST, "no text repeats something at least %lld and at most %lld times", (long long)least,
                    (long long)most);
    if (is_empty && (least > GRAMMAR_EMPTY_REPEATS_MAX || most > GRAMMAR_EMPTY_REPEATS_MAX))
        return fail(err, LATHE_BAD_REQUEST, "what may be empty can be repeated at most %d times", GRAMMAR_EMPTY_REPEATS_MAX);
    if (is_empty) least = 0;
    *out = node_add(g, (GrammarPart){.kind = NODE_REPEAT, .children = children_copy(g, &child, 1), .n = 1, .least = (int32_t)least,
                                     .most = (int32_t)most, .may_be_empty = least == 0});
    return true;
}

// Until it is set a rule counts as possibly empty, which is the careful answer.
GrammarNode grammar_rule(Grammar *g) {
    return grammar_rule_known(g, true);
}

GrammarNode grammar_rule_known(Grammar *g, bool may_be_empty) {
    return node_add(g, (GrammarPart){.kind = NODE_RULE, .n = 1, .may_be_empty = may_be_empty});
}

void grammar_set(Grammar *g, GrammarNode rule, GrammarNode meaning) {
    CHECK(grammar_is_full(g) || (g->at[rule].kind == NODE_RULE && !g->at[rule].children));
    g->at[rule].children = children_copy(g, &meaning, 1);
    g->at[rule].may_be_empty = g->at[meaning].may_be_empty;
}

// The state behind i bytes of `end` and one more byte: the longest beginning of `end` that is an end of what was read.
static size_t overlap(Text end, size_t i, uint8_t byte) {
    char read[256];
    CHECK(i < sizeof read - 1);
    memcpy(read, end.at, i);
    read[i] = (char)byte;
    size_t n = i + 1 < end.len ? i + 1 : end.len;
    for (; n > 0; n--)
        if (memcmp(read + i + 1 - n, end.at, n) == 0) return n;
    return 0;
}

GrammarNode grammar_until(Grammar *g, Text end, GrammarNode behind, bool may_stop) {
    enum { END_MAX = 200 };
    CHECK(end.len >= 1 && end.len <= END_MAX);
    GrammarNode states[END_MAX + 1], steps[END_MAX + 3];
    for (size_t i = 0; i < end.len; i++) states[i] = grammar_rule(g);
    states[end.len] = behind;
    for (size_t i = 0; i < end.len; i++) {
        ByteSet sets[END_MAX + 1];
        int n = 0;
        memset(sets, 0, sizeof sets);
        for (int b = 0; b < 256; b++) byte_set_add(&sets[overlap(end, i, (uint8_t)b)], (uint8_t)b);
        for (size_t k = 0; k <= end.len; k++) {
            bool is_any = sets[k].bits[0] || sets[k].bits[1] || sets[k].bits[2] || sets[k].bits[3];
            if (is_any) steps[n++] = grammar_seq(g, (GrammarNode[]){grammar_bytes(g, sets[k]), states[k]}, 2);
        }
        if (may_stop) steps[n++] = grammar_seq(g, NULL, 0);
        grammar_set(g, states[i], grammar_alt(g, steps, n));
    }
    return states[0];
}

// ---- UTF-8

static int sequence_bytes(int32_t code) {
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

// Both ends have n bytes of which the first `same` are equal: cut until every byte has a range of its own.
static void range_add(Grammar *g, int32_t first, int32_t last, GrammarNode *alternatives, int *n_alternatives) {
    char a[4], b[4];
    int n = sequence_bytes(first);
    GrammarNode bytes[4];
    for (int i = 1; i < n; i++) {
        int32_t mask = (1 << 6 * i) - 1;
        if ((first & ~mask) == (last & ~mask)) break;
        if (first & mask) {
            range_add(g, first, first | mask, alternatives, n_alternatives);
            range_add(g, (first | mask) + 1, last, alternatives, n_alternatives);
            return;
        }
        if ((last & mask) != mask) {
            range_add(g, first, (last & ~mask) - 1, alternatives, n_alternatives);
            range_add(g, last & ~mask, last, alternatives, n_alternatives);
            return;
        }
    }
    utf8_encode(first, a);
    utf8_encode(last, b);
    for (int i = 0; i < n; i++) bytes[i] = grammar_byte_range(g, (uint8_t)a[i], (uint8_t)b[i]);
    alternatives[(*n_alternatives)++] = grammar_seq(g, bytes, n);
}

GrammarNode grammar_code_points(Grammar *g, int32_t first, int32_t last) {
    // Where the number of bytes changes; surrogates lie between the third and the fourth row.
    static const int32_t spans[][2] = {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
    GrammarNode alternatives[64];
    int n = 0;
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        int32_t from = first > spans[i][0] ? first : spans[i][0], to = last < spans[i][1] ? last : spans[i][1];
        if (from <= to) range_add(g, from, to, alternatives, &n);
    }
    return n ? grammar_alt(g, alternatives, n) : -1;
}

// code_ranges: see code_ranges.h. Sorted once, then one walk.
// Example: in JSON, 20…7F → 20…21, \", 23…5B, \\, 5D…7F
#include "text/code_ranges.h"

#include <stdlib.h>

#include "base/vec.h"

void code_ranges_put(Arena *arena, CodeRanges *r, int32_t first, int32_t last) {
    vec_push(arena, r, ((CodeRange){first, last}));
}

static int range_compare(const void *a, const void *b) {
    const CodeRange *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

// Sorted, without overlaps.
static CodeRanges ranges_tidy(Arena *arena, const CodeRanges *r) {
    CodeRanges out = {0};
    if (r->len) qsort(r->at, r->len, sizeof *r->at, range_compare);
    for (size_t i = 0; i < r->len; i++) {
        if (out.len && r->at[i].first <= out.at[out.len - 1].last + 1) {
            if (r->at[i].last > out.at[out.len - 1].last) out.at[out.len - 1].last = r->at[i].last;
        } else vec_push(arena, &out, r->at[i]);
    }
    return out;
}

CodeRanges code_ranges_invert(Arena *arena, const CodeRanges *r) {
    CodeRanges tidy = ranges_tidy(arena, r), out = {0};
    int32_t next = 0;
    for (size_t i = 0; i < tidy.len; i++) {
        if (tidy.at[i].first > next) code_ranges_put(arena, &out, next, tidy.at[i].first - 1);
        next = tidy.at[i].last + 1;
    }
    if (next <= LAST_CODE) code_ranges_put(arena, &out, next, LAST_CODE);
    return out;
}

// How a JSON string writes what may not stand in it as it is.
static GrammarNode json_escape(Grammar *g, int32_t code) {
    static const struct { int32_t code; const char *escape; } rows[] = {
        {'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"}, {'\n', "\\n"}, {'\r', "\\r"}, {'\t', "\\t"}};
    char text[8] = "\\u00";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code) return grammar_text(g, text_of(rows[i].escape));
    text[4] = "0123456789abcdef"[code >> 4 & 15];
    text[5] = "0123456789abcdef"[code & 15];
    return grammar_text(g, text_of(text));
}

static bool needs_escape(int32_t code) {
    return code < 0x20 || code == '"' || code == '\\';
}

GrammarNode code_ranges_node(Grammar *g, const CodeRanges *r, bool in_json) {
    CodeRanges tidy = ranges_tidy(g->arena, r);
    VEC(GrammarNode) nodes = {0};
    for (size_t i = 0; i < tidy.len; i++) {
        int32_t first = tidy.at[i].first;
        for (int32_t code = first; in_json && code <= tidy.at[i].last && code <= '\\'; code++) {
            if (!needs_escape(code)) continue;
            if (first < code) vec_push(g->arena, &nodes, grammar_code_points(g, first, code - 1));
            vec_push(g->arena, &nodes, json_escape(g, code));
            first = code + 1;
        }
        GrammarNode rest = first <= tidy.at[i].last ? grammar_code_points(g, first, tidy.at[i].last) : -1;
        if (rest >= 0) vec_push(g->arena, &nodes, rest);
    }
    return nodes.len ? grammar_alt(g, nodes.at, (int)nodes.len) : -1;
}

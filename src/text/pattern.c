// pattern: see pattern.h. Classes are ranges of code points until they become bytes; \D, [^…] and . are complements.
// Example: [^0-9] → ranges 0…2F, 3A…10FFFF → UTF-8
#include "text/pattern.h"

#include <string.h>

#include "base/vec.h"
#include "text/code_ranges.h"
#include "text/cursor.h"

enum { DEPTH_MAX = 100 };

typedef struct Parser {
    Grammar *g;
    Arena *arena;
    TextCursor in;
    bool in_json;
    int depth;
    Error *err;
} Parser;

static bool refuse(Parser *p, const char *what) {
    return fail(p->err, LATHE_BAD_REQUEST, "the pattern cannot be held to: %s at character %zu", what, p->in.at);
}

// ---- ranges

static void range_put(Parser *p, CodeRanges *r, int32_t first, int32_t last) {
    code_ranges_put(p->arena, r, first, last);
}

static bool ranges_node(Parser *p, const CodeRanges *r, GrammarNode *out) {
    *out = code_ranges_node(p->g, r, p->in_json);
    return *out >= 0 || refuse(p, "a class that no character is in,");
}

// ---- characters as bytes

static GrammarNode hex_node(Grammar *g) {
    return grammar_alt(g, (GrammarNode[]){grammar_byte_range(g, '0', '9'), grammar_byte_range(g, 'a', 'f'), grammar_byte_range(g, 'A', 'F')}, 3);
}

GrammarNode pattern_json_character(Grammar *g) {
    GrammarNode digit = hex_node(g), low = grammar_byte_range(g, '0', '7');
    ByteSet plain = {{0}}, first = {{0}}, d = {{0}};
    for (const char *c = "\"\\/bfnrt"; *c; c++) byte_set_add(&plain, (uint8_t)*c);
    for (const char *c = "0123456789abcefABCEF"; *c; c++) byte_set_add(&first, (uint8_t)*c);
    byte_set_add(&d, 'd'), byte_set_add(&d, 'D');
    // \uD800 to \uDFFF are no characters of their own.
    GrammarNode unit = grammar_alt(g, (GrammarNode[]){
        grammar_seq(g, (GrammarNode[]){grammar_bytes(g, first), digit, digit, digit}, 4),
        grammar_seq(g, (GrammarNode[]){grammar_bytes(g, d), low, digit, digit}, 4)}, 2);
    GrammarNode backslash = grammar_byte_range(g, '\\', '\\'), u = grammar_byte_range(g, 'u', 'u');
    return grammar_alt(g, (GrammarNode[]){
        grammar_code_points(g, 0x20, 0x21), grammar_code_points(g, 0x23, 0x5B), grammar_code_points(g, 0x5D, LAST_CODE),
        grammar_seq(g, (GrammarNode[]){backslash, grammar_bytes(g, plain)}, 2),
        grammar_seq(g, (GrammarNode[]){backslash, u, unit}, 3)}, 5);
}

// ---- escapes and classes

static bool hex_take(Parser *p, int digits, int32_t *code) {
    int64_t value;
    if (!cursor_hex(&p->in, digits, &value)) return refuse(p, "an escape with too few digits");
    *code = (int32_t)value;
    return *code < 0xD800 || *code > 0xDFFF || refuse(p, "half of a surrogate pair");
}

static void shorthand_put(Parser *p, char letter, CodeRanges *r) {
    CodeRanges own = {0};
    switch (letter | 0x20) {
    case 'd': range_put(p, &own, '0', '9'); break;
    case 'w':
        range_put(p, &own, '0', '9'), range_put(p, &own, 'A', 'Z'), range_put(p, &own, '_', '_'), range_put(p, &own, 'a', 'z');
        break;
    default: {
        static const CodeRange spaces[] = {{9, 13}, {32, 32}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                       {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
        for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) vec_push(p->arena, &own, spaces[i]);
    }
    }
    if (letter < 'a') own = code_ranges_invert(p->arena, &own);
    for (size_t i = 0; i < own.len; i++) vec_push(p->arena, r, own.at[i]);
}

// Behind a backslash. *single gets the character where it is one; else −1.
static bool escape_take(Parser *p, bool in_class, CodeRanges *r, int32_t *single) {
    char c = cursor_peek(&p->in);
    static const char letters[] = "tnrfv", values[] = "\t\n\r\f\v";
    *single = -1;
    if (cursor_is_over(&p->in)) return refuse(p, "a backslash with nothing behind it");
    if (strchr("dwsDWS", c)) {
        p->in.at++;
        shorthand_put(p, c, r);
        return true;
    }
    const char *control = strchr(letters, c);
    if (control) *single = values[control - letters];
    else if (c == '0') *single = 0;
    else if (strchr("^$\\.*+?()[]{}|/", c) || (in_class && c == '-')) *single = c;
    if (*single >= 0) {
        p->in.at++;
        range_put(p, r, *single, *single);
        return true;
    }
    if (c != 'x' && c != 'u') return refuse(p, "an unknown escape");
    p->in.at++;
    TRY(hex_take(p, c == 'x' ? 2 : 4, single));
    range_put(p, r, *single, *single);
    return true;
}

static bool character_take(Parser *p, int32_t *code) {
    size_t used;
    *code = utf8_decode(p->in.text.at + p->in.at, p->in.text.len - p->in.at, &used);
    if (*code < 0) return refuse(p, "bytes that are no character");
    p->in.at += used;
    return true;
}

static bool class_entry(Parser *p, CodeRanges *r, int32_t *single) {
    if (cursor_take(&p->in, '\\')) return escape_take(p, true, r, single);
    TRY(character_take(p, single));
    range_put(p, r, *single, *single);
    return true;
}

static bool class_take(Parser *p, GrammarNode *out) {
    CodeRanges r = {0};
    bool is_inverted = cursor_take(&p->in, '^');
    while (!cursor_is_over(&p->in) && cursor_peek(&p->in) != ']') {
        int32_t first, last;
        TRY(class_entry(p, &r, &first));
        if (cursor_peek(&p->in) != '-' || p->in.at + 1 >= p->in.text.len || p->in.text.at[p->in.at + 1] == ']') continue;
        p->in.at++;
        TRY(class_entry(p, &r, &last));
        if (first < 0 || last < first) return refuse(p, "a range that ends before it begins");
        range_put(p, &r, first, last);
    }
    if (!cursor_take(&p->in, ']')) return refuse(p, "a class without its ]");
    if (is_inverted) r = code_ranges_invert(p->arena, &r);
    return ranges_node(p, &r, out);
}

// ---- expressions

static bool choice_take(Parser *p, GrammarNode *out);

static bool group_take(Parser *p, GrammarNode *out) {
    if (cursor_take(&p->in, '?')) {
        bool is_named = p->in.at + 1 < p->in.text.len && cursor_peek(&p->in) == '<' && p->in.text.at[p->in.at + 1] != '=' && p->in.text.at[p->in.at + 1] != '!';
        while (is_named && !cursor_is_over(&p->in) && cursor_peek(&p->in) != '>') p->in.at++;
        if (!(is_named ? cursor_take(&p->in, '>') : cursor_take(&p->in, ':'))) return refuse(p, "a look-around or an unknown group");
    }
    TRY(choice_take(p, out));
    return cursor_take(&p->in, ')') || refuse(p, "a group without its )");
}

static bool atom_take(Parser *p, GrammarNode *out) {
    CodeRanges r = {0};
    int32_t code;
    char c = cursor_peek(&p->in);
    if (strchr("*+?{}", c)) return refuse(p, "a repetition of nothing");
    if (c == '^' || c == '$') return refuse(p, "^ or $ inside");
    if (cursor_take(&p->in, '(')) return group_take(p, out);
    if (cursor_take(&p->in, '[')) return class_take(p, out);
    if (cursor_take(&p->in, '.')) {
        CodeRanges ends = {0};
        range_put(p, &ends, '\n', '\n'), range_put(p, &ends, '\r', '\r'), range_put(p, &ends, 0x2028, 0x2029);
        r = code_ranges_invert(p->arena, &ends);
        return ranges_node(p, &r, out);
    }
    if (cursor_take(&p->in, '\\')) {
        TRY(escape_take(p, false, &r, &code));
        return ranges_node(p, &r, out);
    }
    TRY(character_take(p, &code));
    range_put(p, &r, code, code);
    return ranges_node(p, &r, out);
}

static bool number_take(Parser *p, int64_t *n) {
    size_t begin = p->in.at;
    for (*n = 0; cursor_peek(&p->in) >= '0' && cursor_peek(&p->in) <= '9' && *n < INT32_MAX; p->in.at++) *n = *n * 10 + (cursor_peek(&p->in) - '0');
    return p->in.at > begin || refuse(p, "a repetition without a number");
}

static bool repetition_take(Parser *p, GrammarNode child, GrammarNode *out) {
    int64_t least, most;
    *out = child;
    for (int n = 0; strchr("*+?{", cursor_peek(&p->in)) && !cursor_is_over(&p->in); n++) {
        if (n) return refuse(p, "a repetition of a repetition");
        if (cursor_take(&p->in, '*')) least = 0, most = GRAMMAR_FOREVER;
        else if (cursor_take(&p->in, '+')) least = 1, most = GRAMMAR_FOREVER;
        else if (cursor_take(&p->in, '?')) least = 0, most = 1;
        else {
            p->in.at++;
            TRY(number_take(p, &least));
            most = least;
            if (cursor_take(&p->in, ',')) {
                most = GRAMMAR_FOREVER;
                if (cursor_peek(&p->in) != '}') TRY(number_take(p, &most));
            }
            if (!cursor_take(&p->in, '}')) return refuse(p, "a repetition without its }");
        }
        cursor_take(&p->in, '?');      // lazy: the same texts
        TRY(grammar_repeat(p->g, child, least, most, out, p->err));
    }
    return true;
}

static bool sequence_take(Parser *p, GrammarNode *out) {
    VEC(GrammarNode) nodes = {0};
    while (!cursor_is_over(&p->in) && cursor_peek(&p->in) != '|' && cursor_peek(&p->in) != ')') {
        GrammarNode atom, node;
        if (cursor_peek(&p->in) == '$' && p->depth == 1 && (p->in.at + 1 == p->in.text.len || p->in.text.at[p->in.at + 1] == '|')) break;
        TRY(atom_take(p, &atom));
        TRY(repetition_take(p, atom, &node));
        vec_push(p->arena, &nodes, node);
    }
    *out = grammar_seq(p->g, nodes.at, (int)nodes.len);
    return true;
}

// Anything, where the pattern has no anchor.
static GrammarNode anything(Parser *p) {
    CodeRanges all = {0};
    GrammarNode one, many;
    Error ignored;
    range_put(p, &all, 0, LAST_CODE);
    bool ok = p->in_json ? (one = pattern_json_character(p->g), true) : ranges_node(p, &all, &one);
    CHECK(ok && grammar_repeat(p->g, one, 0, GRAMMAR_FOREVER, &many, &ignored));
    return many;
}

static bool choice_take(Parser *p, GrammarNode *out) {
    VEC(GrammarNode) nodes = {0};
    if (++p->depth > DEPTH_MAX) return refuse(p, "groups nested too deep");
    do {
        GrammarNode node;
        bool is_top = p->depth == 1, begins = is_top && cursor_take(&p->in, '^');
        TRY(sequence_take(p, &node));
        bool ends = is_top && cursor_take(&p->in, '$');
        if (is_top && !begins) node = grammar_seq(p->g, (GrammarNode[]){anything(p), node}, 2);
        if (is_top && !ends) node = grammar_seq(p->g, (GrammarNode[]){node, anything(p)}, 2);
        vec_push(p->arena, &nodes, node);
    } while (cursor_take(&p->in, '|'));
    p->depth--;
    *out = grammar_alt(p->g, nodes.at, (int)nodes.len);
    return true;
}

bool pattern_parse(Grammar *g, Text pattern, bool in_json, GrammarNode *out, Error *err) {
    Parser p = {.g = g, .arena = g->arena, .in = {pattern, 0}, .in_json = in_json, .err = err};
    TRY(choice_take(&p, out));
    return cursor_is_over(&p.in) || refuse(&p, "a ) without its group");
}

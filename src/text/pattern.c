// pattern: see pattern.h. Classes are ranges of code points until they become bytes; \D, [^…] and . are complements.
// Example: [^0-9] → ranges 0…2F, 3A…10FFFF → UTF-8
#include "text/pattern.h"

#include <string.h>

#include "base/vec.h"
#include "text/code_ranges.h"

enum { DEPTH_MAX = 100 };

typedef struct Parser {
    Grammar *g;
    Arena *arena;
    Text pattern;
    size_t at;
    bool in_json;
    int depth;
    Error *err;
} Parser;

static bool refuse(Parser *p, const char *what) {
    return fail(p->err, LATHE_BAD_REQUEST, "the pattern cannot be held to: %s at character %zu", what, p->at);
}

static bool is_over(const Parser *p) {
    return p->at >= p->pattern.len;
}

static char peek(const Parser *p) {
    return is_over(p) ? '\0' : p->pattern.at[p->at];
}

static bool take(Parser *p, char c) {
    if (is_over(p) || peek(p) != c) return false;
    p->at++;
    return true;
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

static GrammarNode hex_digit(Grammar *g) {
    return grammar_alt(g, (GrammarNode[]){grammar_byte_range(g, '0', '9'), grammar_byte_range(g, 'a', 'f'), grammar_byte_range(g, 'A', 'F')}, 3);
}

GrammarNode pattern_json_character(Grammar *g) {
    GrammarNode digit = hex_digit(g), low = grammar_byte_range(g, '0', '7');
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
    *code = 0;
    for (int i = 0; i < digits; i++) {
        char c = peek(p);
        int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (value < 0) return refuse(p, "an escape with too few digits");
        *code = *code * 16 + value;
        p->at++;
    }
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
    char c = peek(p);
    static const char letters[] = "tnrfv", values[] = "\t\n\r\f\v";
    *single = -1;
    if (is_over(p)) return refuse(p, "a backslash with nothing behind it");
    if (strchr("dwsDWS", c)) {
        p->at++;
        shorthand_put(p, c, r);
        return true;
    }
    const char *control = strchr(letters, c);
    if (control) *single = values[control - letters];
    else if (c == '0') *single = 0;
    else if (strchr("^$\\.*+?()[]{}|/", c) || (in_class && c == '-')) *single = c;
    if (*single >= 0) {
        p->at++;
        range_put(p, r, *single, *single);
        return true;
    }
    if (c != 'x' && c != 'u') return refuse(p, "an unknown escape");
    p->at++;
    TRY(hex_take(p, c == 'x' ? 2 : 4, single));
    range_put(p, r, *single, *single);
    return true;
}

static bool character_take(Parser *p, int32_t *code) {
    size_t used;
    *code = utf8_decode(p->pattern.at + p->at, p->pattern.len - p->at, &used);
    if (*code < 0) return refuse(p, "bytes that are no character");
    p->at += used;
    return true;
}

static bool class_entry(Parser *p, CodeRanges *r, int32_t *single) {
    if (take(p, '\\')) return escape_take(p, true, r, single);
    TRY(character_take(p, single));
    range_put(p, r, *single, *single);
    return true;
}

static bool class_take(Parser *p, GrammarNode *out) {
    CodeRanges r = {0};
    bool is_inverted = take(p, '^');
    while (!is_over(p) && peek(p) != ']') {
        int32_t first, last;
        TRY(class_entry(p, &r, &first));
        if (peek(p) != '-' || p->at + 1 >= p->pattern.len || p->pattern.at[p->at + 1] == ']') continue;
        p->at++;
        TRY(class_entry(p, &r, &last));
        if (first < 0 || last < first) return refuse(p, "a range that ends before it begins");
        range_put(p, &r, first, last);
    }
    if (!take(p, ']')) return refuse(p, "a class without its ]");
    if (is_inverted) r = code_ranges_invert(p->arena, &r);
    return ranges_node(p, &r, out);
}

// ---- expressions

static bool choice_take(Parser *p, GrammarNode *out);

static bool group_take(Parser *p, GrammarNode *out) {
    if (take(p, '?')) {
        bool is_named = p->at + 1 < p->pattern.len && peek(p) == '<' && p->pattern.at[p->at + 1] != '=' && p->pattern.at[p->at + 1] != '!';
        while (is_named && !is_over(p) && peek(p) != '>') p->at++;
        if (!(is_named ? take(p, '>') : take(p, ':'))) return refuse(p, "a look-around or an unknown group");
    }
    TRY(choice_take(p, out));
    return take(p, ')') || refuse(p, "a group without its )");
}

static bool atom_take(Parser *p, GrammarNode *out) {
    CodeRanges r = {0};
    int32_t code;
    char c = peek(p);
    if (strchr("*+?{}", c)) return refuse(p, "a repetition of nothing");
    if (c == '^' || c == '$') return refuse(p, "^ or $ inside");
    if (take(p, '(')) return group_take(p, out);
    if (take(p, '[')) return class_take(p, out);
    if (take(p, '.')) {
        CodeRanges ends = {0};
        range_put(p, &ends, '\n', '\n'), range_put(p, &ends, '\r', '\r'), range_put(p, &ends, 0x2028, 0x2029);
        r = code_ranges_invert(p->arena, &ends);
        return ranges_node(p, &r, out);
    }
    if (take(p, '\\')) {
        TRY(escape_take(p, false, &r, &code));
        return ranges_node(p, &r, out);
    }
    TRY(character_take(p, &code));
    range_put(p, &r, code, code);
    return ranges_node(p, &r, out);
}

static bool number_take(Parser *p, int64_t *n) {
    size_t begin = p->at;
    for (*n = 0; peek(p) >= '0' && peek(p) <= '9' && *n < INT32_MAX; p->at++) *n = *n * 10 + (peek(p) - '0');
    return p->at > begin || refuse(p, "a repetition without a number");
}

static bool repetition_take(Parser *p, GrammarNode child, GrammarNode *out) {
    int64_t least, most;
    *out = child;
    for (int n = 0; strchr("*+?{", peek(p)) && !is_over(p); n++) {
        if (n) return refuse(p, "a repetition of a repetition");
        if (take(p, '*')) least = 0, most = GRAMMAR_FOREVER;
        else if (take(p, '+')) least = 1, most = GRAMMAR_FOREVER;
        else if (take(p, '?')) least = 0, most = 1;
        else {
            p->at++;
            TRY(number_take(p, &least));
            most = least;
            if (take(p, ',')) {
                most = GRAMMAR_FOREVER;
                if (peek(p) != '}') TRY(number_take(p, &most));
            }
            if (!take(p, '}')) return refuse(p, "a repetition without its }");
        }
        take(p, '?');      // lazy: the same texts
        TRY(grammar_repeat(p->g, child, least, most, out, p->err));
    }
    return true;
}

static bool sequence_take(Parser *p, GrammarNode *out) {
    VEC(GrammarNode) nodes = {0};
    while (!is_over(p) && peek(p) != '|' && peek(p) != ')') {
        GrammarNode atom, node;
        if (peek(p) == '$' && p->depth == 1 && (p->at + 1 == p->pattern.len || p->pattern.at[p->at + 1] == '|')) break;
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
        bool is_top = p->depth == 1, begins = is_top && take(p, '^');
        TRY(sequence_take(p, &node));
        bool ends = is_top && take(p, '$');
        if (is_top && !begins) node = grammar_seq(p->g, (GrammarNode[]){anything(p), node}, 2);
        if (is_top && !ends) node = grammar_seq(p->g, (GrammarNode[]){node, anything(p)}, 2);
        vec_push(p->arena, &nodes, node);
    } while (take(p, '|'));
    p->depth--;
    *out = grammar_alt(p->g, nodes.at, (int)nodes.len);
    return true;
}

bool pattern_parse(Grammar *g, Text pattern, bool in_json, GrammarNode *out, Error *err) {
    Parser p = {.g = g, .arena = g->arena, .pattern = pattern, .in_json = in_json, .err = err};
    TRY(choice_take(&p, out));
    return is_over(&p) || refuse(&p, "a ) without its group");
}

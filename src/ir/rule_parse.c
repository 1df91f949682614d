// rule_parse: a recursive-descent parser for patterns, results and guards. See rule.h for the
// language.
// In: the three texts of a row. Out: terms on an arena.
// Invariant: terms of the result and the guard use only names that the pattern bound; nesting is
// limited.
// Example: "x*4 + 3" → OP ADD (OP MUL (VAR x, LITERAL 4), LITERAL 3).
#include "ir/rule_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const RuleFunction rule_functions[GUARD_COUNT] = {
    [GUARD_LO] = {"lo", 1}, [GUARD_HI] = {"hi", 1}, [GUARD_FITS] = {"fits", 1},
    [GUARD_GCD] = {"gcd", 2}, [GUARD_IS_POW2] = {"is_pow2", 1}, [GUARD_BITS] = {"bits", 1},
};

typedef enum Part { PART_PATTERN, PART_RESULT, PART_GUARD } Part;

typedef struct Parser {
    Arena *arena;
    const RuleSet *set;
    const RuleRow *row;
    Error *err;
    const char *at;
    Part part;
    bool in_braces;
    int depth, n_rests, n_rests_used, family;
    uint32_t vars, constants;                 // bound by the pattern
    uint32_t var_dtypes[RULE_VARS], constant_dtypes[RULE_CONSTANTS];
} Parser;

enum { MAX_DEPTH = 48, MAX_WORD = 32 };

static const char *const family_names[] = {"unary", "binary", "ternary", "compare", "comm"};
enum { FAMILY_COUNT = sizeof family_names / sizeof *family_names };

bool family_has(int family, Op op) {
    const OpInfo *info = &op_info[op];
    switch (family) {
    case 0: return info->kind == KIND_UNARY;
    case 1: return info->kind == KIND_BINARY;
    case 2: return info->kind == KIND_TERNARY;
    case 3: return info->traits & TRAIT_COMPARE;
    default: return info->traits & TRAIT_COMM;
    }
}

static int family_arity(int family) { return family == 0 ? 1 : family == 2 ? 3 : 2; }

static const RuleTerm *complain(Parser *p, const char *what, const char *word) {
    static const char *const parts[] = {"pattern", "result", "guard"};
    (void)fail(p->err, LATHE_BAD_REQUEST, "%s:%d: rule \"%s\": %s: %s \"%s\"", p->row->file,
               p->row->line, p->row->name, parts[p->part], what, word);
    return NULL;
}

static void skip_space(Parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n') p->at++;
}

static bool take(Parser *p, const char *sign) {
    skip_space(p);
    size_t n = strlen(sign);
    if (strncmp(p->at, sign, n)) return false;
    p->at += n;
    return true;
}

static bool take_word(Parser *p, char word[MAX_WORD]) {
    skip_space(p);
    size_t n = 0;
    while ((isalnum((unsigned char)p->at[n]) || p->at[n] == '_') && n < MAX_WORD - 1) n++;
    memcpy(word, p->at, n);
    word[n] = 0;
    p->at += n;
    return n > 0;
}

static RuleTerm *term(Parser *p, TermKind kind) {
    RuleTerm *t = arena_new(p->arena, sizeof *t);
    t->kind = (uint8_t)kind;
    t->rest = -1;
    return t;
}

static const RuleTerm *term_of(Parser *p, TermKind kind, Op op, const RuleTerm *a,
                               const RuleTerm *b) {
    if (!a || !b) return NULL;
    RuleTerm *t = term(p, kind);
    t->op = (uint8_t)op;
    t->n_src = 2;
    t->src[0] = a;
    t->src[1] = b;
    return t;
}

static const RuleTerm *parse_sum(Parser *p, int level);
static const RuleTerm *parse_condition(Parser *p);

// ---------------------------------------------------------------- classes and leaves

static bool dtype_of_word(const char *word, DType *dtype) {
    for (int d = 0; d < DT_COUNT; d++) {
        const char *name = dtype_info[d].name;
        size_t i = 0;
        while (name[i] && tolower((unsigned char)name[i]) == word[i]) i++;
        if (!name[i] && !word[i]) return *dtype = (DType)d, true;
    }
    return false;
}

static uint32_t class_bit(DTypeClass c) { return 1u << c; }

static bool class_of_word(const char *word, uint32_t *dtypes) {
    static const struct { const char *name; uint32_t classes;
    } classes[] = {
        {"int", 1u << CLASS_INT | 1u << CLASS_UINT},
        {"sint", 1u << CLASS_INT},
        {"uint", 1u << CLASS_UINT},
        {"bool", 1u << CLASS_BOOL},
        {"logic", 1u << CLASS_BOOL | 1u << CLASS_INT | 1u << CLASS_UINT},
        {"float", 1u << CLASS_FLOAT},
        {"number", 1u << CLASS_INT | 1u << CLASS_UINT | 1u << CLASS_FLOAT},
        {"any", ~0u},
    };
    DType dtype;
    *dtypes = 0;
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++)
        if (!strcmp(word, classes[k].name))
            for (int d = 0; d < DT_COUNT; d++)
                if (classes[k].classes & class_bit(dtype_info[d].type_class)) *dtypes |= 1u << d;
    // Bounds and order are those of int64_t, which a u64 above its half does not follow.
    if (strcmp(word, "any")) *dtypes &= ~(1u << DT_U64);
    if (!strcmp(word, "index")) *dtypes = 1u << DT_I32 | 1u << DT_I64;
    if (dtype_of_word(word, &dtype)) *dtypes = 1u << dtype;
    return *dtypes != 0;
}

// The class behind a name; the first mention decides, later ones may repeat it.
static bool parse_class(Parser *p, bool first, uint32_t *dtypes) {
    char word[MAX_WORD];
    if (first) class_of_word("int", dtypes);
    if (*p->at != ':') return true;
    p->at++;
    uint32_t stated;
    if (!take_word(p, word) || !class_of_word(word, &stated))
        return complain(p, "unknown class", word) != NULL;
    if (!first && stated != *dtypes)
        return complain(p, "a second class for the same name", word) != NULL;
    *dtypes = stated;
    return true;
}

static const RuleTerm *parse_name(Parser *p, const char *word) {
    bool is_constant = word[0] == 'c' && isdigit((unsigned char)word[1]) && !word[2];
    if (!is_constant && (word[1] || !islower((unsigned char)word[0])))
        return complain(p, "unknown name", word);
    int slot = is_constant ? word[1] - '0' : word[0] - 'a';
    uint32_t *bound = is_constant ? &p->constants : &p->vars;
    uint32_t *dtypes = is_constant ? &p->constant_dtypes[slot] : &p->var_dtypes[slot];
    bool first = !(*bound >> slot & 1);
    if (first && p->part != PART_PATTERN) return complain(p, "unknown name", word);
    if (p->in_braces && !is_constant) return complain(p, "a node inside {}", word);
    if (!parse_class(p, first, dtypes)) return NULL;
    *bound |= 1u << slot;
    RuleTerm *t = term(p, is_constant ? TERM_CONSTANT : TERM_VAR);
    t->slot = (int8_t)slot;
    t->dtypes = *dtypes;
    return t;
}

static const RuleTerm *parse_number(Parser *p, bool negative) {
    skip_space(p);
    char *end, *end_float;
    long long i = strtoll(p->at, &end, 0);
    double f = strtod(p->at, &end_float);
    RuleTerm *t = term(p, TERM_LITERAL);
    t->is_float = end_float > end;
    if (end_float == p->at) return complain(p, "not a number", p->at);
    p->at = t->is_float ? end_float : end;
    t->i = negative ? (int64_t)(0 - (uint64_t)i) : i;
    t->f = t->is_float ? f : (double)i;
    if (negative) t->f = -t->f;
    return t;
}

// ---------------------------------------------------------------- calls

static bool parse_arguments(Parser *p, RuleTerm *t, const char *name) {
    while (!take(p, ")")) {
        if (t->n_src || t->rest >= 0) {
            if (!take(p, ","))
                return complain(p, "expected , or ) in the arguments of", name) != NULL;
        }
        if (t->rest >= 0) return complain(p, "... is not last in", name) != NULL;
        if (take(p, "...")) {
            int *n = p->part == PART_PATTERN ? &p->n_rests : &p->n_rests_used;
            if (p->part == PART_GUARD || *n >= (p->part == PART_PATTERN ? RULE_RESTS : p->n_rests))
                return complain(p, "one ... too many in", name) != NULL;
            t->rest = (int8_t)(*n)++;
            continue;
        }
        if (t->n_src == TERM_SRC) return complain(p, "too many arguments for", name) != NULL;
        const RuleTerm *a = p->part == PART_GUARD ? parse_condition(p) : parse_sum(p, 0);
        if (!a) return false;
        t->src[t->n_src++] = a;
    }
    return true;
}

static const RuleTerm *parse_family(Parser *p) {
    char word[MAX_WORD];
    take_word(p, word);
    int family = 0;
    while (family < FAMILY_COUNT && strcmp(word, family_names[family])) family++;
    if (family == FAMILY_COUNT) return complain(p, "unknown kind of op", word);
    if (p->part == PART_PATTERN ? p->family >= 0 : p->family != family)
        return complain(p, "one @kind a row, the same on both sides, not", word);
    p->family = family;
    RuleTerm *t = term(p, TERM_FAMILY);
    t->slot = (int8_t)family;
    if (!take(p, "(")) return complain(p, "expected ( behind", word);
    if (!parse_arguments(p, t, word)) return NULL;
    if (t->n_src != family_arity(family) || t->rest >= 0)
        return complain(p, "wrong number of arguments for", word);
    return t;
}

static bool op_of_name(const char *name, Op *op) {
    for (int o = 0; o < OP_COUNT; o++)
        if (!strcmp(op_info[o].pattern, name)) return *op = (Op)o, true;
    return false;
}

// Ops whose arg the result of a row could not know.
static bool is_buildable(Op op) {
    return op_is_elementwise(op) || op == OP_INDEX || op == OP_LOAD || op == OP_STORE || op == OP_ATOMIC_ADD ||
           op == OP_AFTER || op == OP_SINK;
}

static const RuleTerm *parse_function(Parser *p, const char *word) {
    for (int k = 0; p->part == PART_GUARD && k < GUARD_COUNT + p->set->n_predicates; k++) {
        bool own = k < GUARD_COUNT;
        const char *name = own ? rule_functions[k].name : p->set->predicates[k - GUARD_COUNT].name;
        if (strcmp(name, word)) continue;
        RuleTerm *t = term(p, TERM_CALL);
        t->slot = (int8_t)(own ? k : GUARD_COUNT - 1 - k);
        if (!parse_arguments(p, t, word)) return NULL;
        int n_args = own ? rule_functions[k].n_args : p->set->predicates[k - GUARD_COUNT].n_args;
        if (t->n_src != n_args) return complain(p, "wrong number of arguments for", word);
        for (int i = 0; !own && i < n_args; i++)
            if (t->src[i]->kind > TERM_CONSTANT)
                return complain(p, "not a name among the arguments of", word);
        return t;
    }
    Op op;
    if (!op_of_name(word, &op)) return complain(p, "unknown function", word);
    RuleTerm *t = term(p, TERM_OP);
    t->op = (uint8_t)op;
    if (!parse_arguments(p, t, word)) return NULL;
    int arity = op_info[op].arity;
    if (arity >= 0 && (t->n_src > arity || (t->n_src < arity && t->rest < 0)))
        return complain(p, "wrong number of arguments for", word);
    if (p->part == PART_RESULT && !is_buildable(op))
        return complain(p, "needs an arg, use RULE_DO for", word);
    if (p->in_braces && op_info[op].kind == KIND_CONVERT)
        return complain(p, "no conversion inside {}", word);
    return t;
}

static const RuleTerm *parse_conversion(Parser *p, const char *word) {
    char name[MAX_WORD];
    DType dtype = DT_VOID;
    p->at++;
    if (!take_word(p, name) || !dtype_of_word(name, &dtype) || !take(p, "]") || !take(p, "("))
        return complain(p, "expected [dtype](…) behind", word);
    const RuleTerm *t = parse_function(p, word);
    if (!t) return NULL;
    bool converts = t->kind == TERM_OP && op_info[t->op].kind == KIND_CONVERT;
    if (!converts && (t->kind != TERM_CALL || t->slot != GUARD_FITS))
        return complain(p, "[dtype] is not for", word);
    RuleTerm *converted = arena_copy(p->arena, t, sizeof *t);
    converted->dtype = (uint8_t)dtype;
    return converted;
}

static const RuleTerm *parse_braces(Parser *p) {
    RuleTerm *t = term(p, TERM_COMPUTED);
    if (p->part != PART_RESULT || p->in_braces)
        return complain(p, "{} only on the right side", p->at);
    p->in_braces = true;
    t->n_src = 1;
    t->src[0] = parse_sum(p, 0);
    p->in_braces = false;
    if (!t->src[0]) return NULL;
    return take(p, "}") ? t : complain(p, "expected } before", p->at);
}

static const RuleTerm *parse_unary(Parser *p) {
    if (take(p, "-")) {
        skip_space(p);
        if (isdigit((unsigned char)*p->at)) return parse_number(p, true);
        if (++p->depth > MAX_DEPTH) return complain(p, "nested too deep before", p->at);
        const RuleTerm *a = parse_unary(p);
        p->depth--;
        if (!a) return NULL;
        RuleTerm *t = term(p, TERM_OP);
        t->op = OP_NEG;
        t->n_src = 1;
        t->src[0] = a;
        return t;
    }
    if (take(p, "@")) return parse_family(p);
    if (take(p, "{")) return parse_braces(p);
    if (take(p, "(")) {
        const RuleTerm *t = p->part == PART_GUARD ? parse_condition(p) : parse_sum(p, 0);
        if (!t) return NULL;
        return take(p, ")") ? t : complain(p, "expected ) before", p->at);
    }
    skip_space(p);
    if (isdigit((unsigned char)*p->at)) return parse_number(p, false);
    char word[MAX_WORD];
    if (!take_word(p, word)) return complain(p, "unexpected", p->at);
    if (!strcmp(word, "true") || !strcmp(word, "false")) {
        RuleTerm *t = term(p, TERM_LITERAL);
        t->dtypes = 1u << DT_BOOL;
        t->i = word[0] == 't';
        return t;
    }
    if (*p->at == '[') return parse_conversion(p, word);
    if (take(p, "(")) return parse_function(p, word);
    return parse_name(p, word);
}

// ---------------------------------------------------------------- infix

// Loosest first; a longer sign stands before its own prefix.
static const struct { int level; const char *sign; } infix[] = {
    {0, "=="}, {0, "!="}, {0, "<="}, {0, ">="}, {4, "<<"}, {4, ">>"}, {0, "<"}, {0, ">"},
    {1, "|"}, {2, "^"}, {3, "&"}, {5, "+"}, {5, "-"}, {6, "*"}, {6, "//"}, {6, "/"}, {6, "%"},
};
enum { INFIX_COUNT = sizeof infix / sizeof *infix, TIGHTEST = 6 };

// The sign at this place, whatever its level.
static int peek_infix(Parser *p) {
    skip_space(p);
    if (!strncmp(p->at, "||", 2) || !strncmp(p->at, "&&", 2)) return -1;
    for (int k = 0; k < INFIX_COUNT; k++)
        if (!strncmp(p->at, infix[k].sign, strlen(infix[k].sign))) return k;
    return -1;
}

static const RuleTerm *join(Parser *p, const char *sign, const RuleTerm *a, const RuleTerm *b) {
    Op op;
    if (!strcmp(sign, ">")) return term_of(p, TERM_OP, OP_LT, b, a);
    if (op_of_name(sign, &op)) return term_of(p, TERM_OP, op, a, b);
    if (p->part != PART_GUARD) return complain(p, "only guards know", sign);
    return !strcmp(sign, "<=") ? term_of(p, TERM_LE, OP_LT, a, b)
                               : term_of(p, TERM_LE, OP_LT, b, a);
}

static const RuleTerm *parse_sum(Parser *p, int level) {
    if (level > TIGHTEST) return parse_unary(p);
    if (level == 0 && ++p->depth > MAX_DEPTH) return complain(p, "nested too deep before", p->at);
    const RuleTerm *a = parse_sum(p, level + 1);
    for (int k; a && (k = peek_infix(p)) >= 0 && infix[k].level == level;) {
        p->at += strlen(infix[k].sign);
        const RuleTerm *b = parse_sum(p, level + 1);
        a = b ? join(p, infix[k].sign, a, b) : NULL;
    }
    if (level == 0) p->depth--;
    return a;
}

static const RuleTerm *parse_not(Parser *p) {
    skip_space(p);
    if (*p->at != '!' || p->at[1] == '=') return parse_sum(p, 0);
    p->at++;
    if (++p->depth > MAX_DEPTH) return complain(p, "nested too deep before", p->at);
    const RuleTerm *a = parse_not(p);
    p->depth--;
    return a ? term_of(p, TERM_NOT, OP_NOT, a, a) : NULL;
}

static const RuleTerm *parse_both(Parser *p) {
    const RuleTerm *a = parse_not(p);
    while (a && take(p, "&&")) a = term_of(p, TERM_AND, OP_AND, a, parse_not(p));
    return a;
}

static const RuleTerm *parse_condition(Parser *p) {
    if (++p->depth > MAX_DEPTH) return complain(p, "nested too deep before", p->at);
    const RuleTerm *a = parse_both(p);
    while (a && take(p, "||")) a = term_of(p, TERM_OR, OP_OR, a, parse_both(p));
    p->depth--;
    return a;
}

static const RuleTerm *parse_part(Parser *p, Part part, const char *text) {
    p->part = part;
    p->at = text;
    const RuleTerm *t = part == PART_GUARD ? parse_condition(p) : parse_sum(p, 0);
    if (!t) return NULL;
    skip_space(p);
    return *p->at ? complain(p, "unexpected", p->at) : t;
}

static uint64_t child_bits(const RuleTerm *t) {
    uint64_t bits = 0;
    for (int i = 0; i < t->n_src; i++) {
        const RuleTerm *s = t->src[i];
        if (s->kind == TERM_OP) bits |= 1ull << (s->op % 64);
        if (s->kind == TERM_CONSTANT || s->kind == TERM_LITERAL) bits |= 1ull << (OP_CONST % 64);
    }
    return bits;
}

bool rule_parse(Arena *arena, const RuleSet *set, const RuleRow *row, Rule *rule, Error *err) {
    Parser p = {.arena = arena, .set = set, .row = row, .err = err, .family = -1};
    *rule = (Rule){.row = row, .set = set, .index = (int)(row - set->rows)};
    rule->pattern = parse_part(&p, PART_PATTERN, row->pattern);
    if (!rule->pattern) return false;
    if (rule->pattern->kind != TERM_OP && rule->pattern->kind != TERM_FAMILY)
        return complain(&p, "a pattern starts with an op, not", row->pattern) != NULL;
    if (!row->action && !(rule->result = parse_part(&p, PART_RESULT, row->result))) return false;
    if (row->guard[0] && !(rule->guard = parse_part(&p, PART_GUARD, row->guard))) return false;
    rule->child_ops = child_bits(rule->pattern);
    return true;
}

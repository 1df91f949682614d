// sample: one random instance of a text row: types, constants, variables with bounds, left and
// right side as nodes.
// In: a parsed rule and a random source. Out: a match (bound by construction), the left side; then
// guard and result.
// Example: for "(x // c0) // c1" c0 = 4, c1 = 8, x: i32 in 0..100 → left = IDIV(IDIV(x, 4), 8).
#pragma once
#include "ir/rule.h"
#include "rules/support.h"

typedef struct Sample {
    Match match;
    UOp family;              // stands in for the node that @kind matched
    DType main_dtype;
    Bounds bounds[RULE_VARS];
    UOp *left;
} Sample;

// Every name of a term, and what kinds of nodes it holds.
typedef struct Names {
    uint32_t vars, constants, dtypes[RULE_VARS], constant_dtypes[RULE_CONSTANTS];
    int family;
    bool only_values, casts;
} Names;

static inline void names_of(const RuleTerm *t, Names *n) {
    if (t->kind == TERM_OP && op_info[t->op].kind == KIND_CONVERT && t->dtype == DT_VOID)
        n->casts = true;
    if (t->kind == TERM_VAR) n->vars |= 1u << t->slot, n->dtypes[t->slot] = t->dtypes;
    if (t->kind == TERM_CONSTANT)
        n->constants |= 1u << t->slot, n->constant_dtypes[t->slot] = t->dtypes;
    if (t->kind == TERM_FAMILY) n->family = t->slot;
    OpKind kind = t->kind == TERM_OP ? op_info[t->op].kind : KIND_UNARY;
    if (kind != KIND_UNARY && kind != KIND_BINARY && kind != KIND_TERNARY && kind != KIND_CONVERT)
        n->only_values = false;
    if (t->rest >= 0) n->only_values = false;
    for (int i = 0; i < t->n_src; i++) names_of(t->src[i], n);
}

static inline DType sample_dtype(Random *r, uint32_t allowed, DType preferred) {
    if (allowed >> preferred & 1) return preferred;
    for (;;) {
        DType d = (DType)random_below(r, DT_COUNT);
        if (d != DT_VOID && allowed >> d & 1) return d;
    }
}

static inline double sample_float(Random *r) {
    static const double odd[] = {0.0, -0.0, 1,   -1,    2,         -2,         0.5,
                                 3,   1e30, 0.1, 65504, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0};
    if (random_below(r, 3)) return odd[random_below(r, (int)(sizeof odd / sizeof *odd))];
    return (double)(int64_t)random_bits(r) / 4294967296.0;
}

// Constants that guards ask for: small, powers of two and their neighbours, limits, multiples of an
// earlier one.
static inline Number sample_constant(Random *r, DType dtype, const Number *earlier, int n_earlier) {
    Number c = {.f = sample_float(r)};
    if (dtype_is_float(dtype)) return number_cast(DT_F64, dtype, c);
    Bounds limit = bounds_of_dtype(dtype);
    int64_t pow2 = (int64_t)1 << random_below(r, 8 * dtype_bytes(dtype) - 1);
    int64_t by = n_earlier ? earlier[random_below(r, n_earlier)].i : 3;
    switch (random_below(r, 10)) {
    case 0: c.i = random_between(r, limit.lo, limit.hi); break;
    case 8:
        c.i = (random_below(r, 2) ? limit.lo / 2 : limit.hi / 2) / (by / 2 ? by / 2 : 1) +
              random_below(r, 3) - 1;
        break;
    case 1: c.i = pow2; break;
    case 2: c.i = pow2 - 1; break;
    case 3:
        c.i = n_earlier ? (int64_t)((uint64_t)by * (uint64_t)(random_below(r, 6) + 1)) : 4;
        break;
    case 4: c.i = n_earlier ? ~by : -1; break;
    default: c.i = random_below(r, 12) - 3; break;
    }
    return number_wrap(dtype, c);
}

static inline Bounds sample_bounds(Random *r, DType dtype) {
    Bounds limit = bounds_of_dtype(dtype);
    if (dtype_is_float(dtype)) return limit;
    if (dtype == DT_BOOL) return random_below(r, 5) ? limit : (Bounds){1, 1};
    int64_t a = random_between(r, limit.lo, limit.hi), b = random_between(r, limit.lo, limit.hi);
    switch (random_below(r, 7)) {
    case 0: return limit;
    case 5: b = a; break;
    case 1: a = random_below(r, 4), b = random_below(r, 60); break;
    case 2: a = 0, b = random_below(r, 17); break;
    case 3: a = -random_below(r, 20), b = random_below(r, 20); break;
    case 4: a = random_between(r, limit.lo, limit.hi) / 4, b = a + random_below(r, 30); break;
    default: break;
    }
    if (a < limit.lo) a = limit.lo;
    if (b > limit.hi) b = limit.hi;
    return a < b ? (Bounds){a, b} : (Bounds){b, a < limit.hi ? a : limit.hi};
}

static inline Op sample_family(Random *r, int family) {
    for (;;) {
        Op op = (Op)random_below(r, OP_COUNT);
        if (family_has(family, op) && op != OP_DOT4) return op;
    }
}

// A fresh instance; false where this draw of types and ops gives no graph.
static inline bool sample_make(Sample *s, const Rule *rule, Graph *g, Random *r) {
    Names n = {.family = -1, .only_values = true};
    Number earlier[RULE_CONSTANTS];
    int n_earlier = 0;
    names_of(rule->pattern, &n);
    *s = (Sample){.main_dtype = DT_I32};
    s->match.bound = n.vars;
    s->match.bound_constants = n.constants;
    // The type that most names are going to share: one that a name of the pattern allows, most
    // often a wide class.
    uint32_t widest = 0;
    for (int i = 0; i < RULE_VARS; i++)
        if (n.vars >> i & 1 && __builtin_popcount(n.dtypes[i]) > __builtin_popcount(widest))
            widest = n.dtypes[i];
    for (int i = 0; i < RULE_CONSTANTS; i++)
        if (n.constants >> i & 1 &&
            __builtin_popcount(n.constant_dtypes[i]) > __builtin_popcount(widest))
            widest = n.constant_dtypes[i];
    if (widest) s->main_dtype = sample_dtype(r, widest & ~(1u << DT_VOID), DT_VOID);
    for (int i = 0; i < RULE_CONSTANTS; i++) {
        if (!(n.constants >> i & 1)) continue;
        DType d = sample_dtype(r, n.constant_dtypes[i], s->main_dtype);
        s->match.value[i] = sample_constant(r, d, earlier, n_earlier);
        s->match.constant[i] = number_to_const(g, d, s->match.value[i]);
        s->match.value[i] = number_from_const(s->match.constant[i]);
        earlier[n_earlier++] = s->match.value[i];
    }
    for (int i = 0; i < RULE_VARS; i++) {
        if (!(n.vars >> i & 1)) continue;
        DType d = sample_dtype(r, n.dtypes[i], s->main_dtype);
        s->bounds[i] = sample_bounds(r, d);
        s->match.var[i] = variable(g, d, i, s->bounds[i].lo, s->bounds[i].hi);
        s->bounds[i] = bounds_of(s->match.var[i]);
    }
    // An open conversion leads to any type, whatever its operand has.
    UOp *like =
        variable(g, n.casts ? (DType)(1 + random_below(r, DT_COUNT - 1)) : s->main_dtype, 31, 1, 2);
    if (n.family >= 0) {
        s->family =
            (UOp){.op = (uint8_t)sample_family(r, n.family), .dtype = (uint8_t)s->main_dtype};
        if (op_info[s->family.op].traits & TRAIT_COMPARE) s->family.dtype = DT_BOOL;
        s->match.family = &s->family;
    }
    s->left = rule_term(rule->pattern, &s->match, like);
    if (!s->left || uop_is_poison(s->left)) return false;
    s->match.root = s->left;
    return true;
}

// Random values for the variables, within their bounds.
static inline void sample_values(const Sample *s, Random *r, Values *v) {
    for (int i = 0; i < RULE_VARS; i++) {
        if (!(s->match.bound >> i & 1)) continue;
        DType d = s->match.var[i]->dtype;
        if (dtype_is_float(d)) v->slots[i] = number_cast(DT_F64, d, (Number){.f = sample_float(r)});
        else v->slots[i].i = random_between(r, s->bounds[i].lo, s->bounds[i].hi);
    }
}

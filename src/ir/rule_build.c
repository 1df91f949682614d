// rule_build: guards, and the right side of text rows.
// In: a rule and a finished match. Out: whether the guard holds; the node that the right side says.
// Invariant: what is built has the dtype and the lanes of the node that it replaces.
// Example: "x // {c0*c1}" with x: i32, c0 = 4, c1 = 8 builds IDIV(x, CONST i32 32).
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "ir/bounds.h"
#include "ir/rule_parse.h"

typedef __int128 Wide;

// ---------------------------------------------------------------- intervals of guard expressions

typedef struct Interval { Bounds b; bool fits; } Interval;

static const UOp *first_node(const RuleTerm *t, const Match *m) {
    if (t->kind == TERM_VAR) return m->var[t->slot];
    if (t->kind == TERM_CONSTANT) return m->constant[t->slot];
    const UOp *u = NULL;
    for (int i = 0; i < t->n_src && !u; i++) u = first_node(t->src[i], m);
    return u;
}

static Interval interval_of(const RuleTerm *t, const Match *m, DType dtype) {
    Interval in[3] = {{{0, 0}, true}}, out = {{t->i, t->i}, true};
    if (t->kind == TERM_LITERAL) {
        Bounds limit = bounds_of_dtype(dtype);
        out.fits = t->i >= limit.lo && t->i <= limit.hi;
        return out;
    }
    if (t->kind == TERM_VAR)
        return (Interval){m->known ? m->known[t->slot] : bounds_of(m->var[t->slot]), true};
    if (t->kind == TERM_CONSTANT) return (Interval){bounds_of(m->constant[t->slot]), true};
    if (t->kind != TERM_OP || t->n_src > 3) return (Interval){bounds_of_dtype(dtype), false};
    out.fits = true;
    for (int i = 0; i < t->n_src; i++) {
        in[i] = interval_of(t->src[i], m, dtype);
        out.fits &= in[i].fits;
    }
    DType result = op_info[t->op].traits & TRAIT_COMPARE ? DT_BOOL : dtype;
    out.fits &= bounds_of_op(t->op, dtype, result, (Bounds[]){in[0].b, in[1].b, in[2].b}, &out.b);
    return out;
}

static Interval interval(const RuleTerm *call, const Match *m) {
    const UOp *like = first_node(call->src[0], m);
    return interval_of(call->src[0], m,
                       call->dtype != DT_VOID ? call->dtype
                       : like                 ? like->dtype
                                              : DT_I64);
}

// ---------------------------------------------------------------- guards

typedef struct Value { bool is_float; int64_t i; double f; } Value;

static Value whole(Wide v) {
    int64_t i = v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (int64_t)v;
    return (Value){false, i, (double)i};
}

static int64_t greatest_divisor(Wide a, Wide b) {
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b) {
        Wide rest = a % b;
        a = b;
        b = rest;
    }
    return whole(a).i;
}

static Value guard_value(const Rule *rule, const RuleTerm *t, const Match *m);

static UOp *node_of(const RuleTerm *t, const Match *m) {
    return t->kind == TERM_VAR ? m->var[t->slot] : m->constant[t->slot];
}

static Value guard_call(const Rule *rule, const RuleTerm *t, const Match *m) {
    if (t->slot < 0) {
        UOp *args[TERM_SRC];
        for (int i = 0; i < t->n_src; i++) args[i] = node_of(t->src[i], m);
        return whole(rule->set->predicates[-1 - t->slot].test(args));
    }
    int64_t v;
    const UOp *like;
    switch ((RuleFunctionId)t->slot) {
    case GUARD_BITS:
        like = first_node(t->src[0], m);
        return whole(like ? 8 * dtype_bytes(like->dtype) : 0);
    case GUARD_LO: return whole(interval(t, m).b.lo);
    case GUARD_HI: return whole(interval(t, m).b.hi);
    case GUARD_FITS: return whole(interval(t, m).fits);
    case GUARD_GCD:
        return whole(
            greatest_divisor(guard_value(rule, t->src[0], m).i, guard_value(rule, t->src[1], m).i));
    default:
        v = guard_value(rule, t->src[0], m).i;
        return whole(v > 0 && (v & (v - 1)) == 0);
    }
}

static Value guard_compare(Op op, Value a, Value b) {
    bool real = a.is_float || b.is_float;
    switch (op) {
    case OP_LT: return whole(real ? a.f < b.f : a.i < b.i);
    case OP_EQ: return whole(real ? a.f == b.f : a.i == b.i);
    default: return whole(real ? a.f != b.f : a.i != b.i);
    }
}

static Value guard_arithmetic(Op op, Value a, Value b) {
    Wide x = a.i, y = b.i;
    if (a.is_float || b.is_float) {
        double f = op == OP_NEG    ? -a.f
                   : op == OP_ADD  ? a.f + b.f
                   : op == OP_SUB  ? a.f - b.f
                   : op == OP_MUL  ? a.f * b.f
                   : op == OP_FDIV ? a.f / b.f
                                   : 0;
        return (Value){true, 0, f};
    }
    switch (op) {
    case OP_NEG: return whole(-x);
    case OP_ADD: return whole(x + y);
    case OP_SUB: return whole(x - y);
    case OP_MUL: return whole(x * y);
    case OP_MAX: return x > y ? a : b;
    case OP_MIN: return x < y ? a : b;
    case OP_AND: return whole(a.i & b.i);
    case OP_OR: return whole(a.i | b.i);
    default: break;
    }
    if (y == 0) return whole(0);
    Wide quotient = x / y - (x % y != 0 && (x < 0) != (y < 0));
    return whole(op == OP_IDIV ? quotient : x - quotient * y);
}

static Value guard_value(const Rule *rule, const RuleTerm *t, const Match *m) {
    switch (t->kind) {
    case TERM_LITERAL: return (Value){t->is_float, t->i, t->f};
    case TERM_CONSTANT: {
        bool real = dtype_is_float(m->constant[t->slot]->dtype);
        Number n = m->value[t->slot];
        return (Value){real, real ? 0 : n.i, real ? n.f : (double)n.i};
    }
    case TERM_AND:
        return whole(guard_value(rule, t->src[0], m).i && guard_value(rule, t->src[1], m).i);
    case TERM_OR:
        return whole(guard_value(rule, t->src[0], m).i || guard_value(rule, t->src[1], m).i);
    case TERM_NOT: return whole(!guard_value(rule, t->src[0], m).i);
    case TERM_CALL: return guard_call(rule, t, m);
    default: break;
    }
    Value a = guard_value(rule, t->src[0], m),
          b = t->n_src > 1 ? guard_value(rule, t->src[1], m) : a;
    if (t->kind == TERM_LE) return whole(a.is_float || b.is_float ? a.f <= b.f : a.i <= b.i);
    return op_info[t->op].traits & TRAIT_COMPARE ? guard_compare(t->op, a, b)
                                                 : guard_arithmetic(t->op, a, b);
}

bool rule_guard(const Rule *rule, const Match *match) {
    return !rule->guard || guard_value(rule, rule->guard, match).i;
}

// ---------------------------------------------------------------- right sides

// The value of {…}: integers wrap to the dtype, as the nodes would.
static Number computed(const RuleTerm *t, const Match *m, DType dtype) {
    Number args[3] = {{0}}, out = {0};
    bool real = dtype_is_float(dtype);
    if (t->kind == TERM_LITERAL) {
        if (real) out.f = t->f;
        else out.i = t->i;
        return out;
    }
    if (t->kind == TERM_CONSTANT)
        return number_cast(m->constant[t->slot]->dtype, dtype, m->value[t->slot]);
    const UOp *like = first_node(t, m);
    DType operand = op_info[t->op].traits & TRAIT_COMPARE && like ? like->dtype : dtype;
    for (int i = 0; i < t->n_src; i++) args[i] = computed(t->src[i], m, operand);
    if (!eval_op(t->op, operand, args, &out))
        BUG("{} uses %s on %s", op_info[t->op].name, dtype_info[operand].name);
    return real ? out : number_wrap(dtype, out);
}

static DType sources_dtype(const RuleTerm *t, const Match *m, int first);

// The dtype that a term is going to have; DT_VOID where only its surroundings tell.
static DType term_dtype(const RuleTerm *t, const Match *m) {
    if (t->kind == TERM_VAR || t->kind == TERM_CONSTANT) return node_of(t, m)->dtype;
    if (t->kind == TERM_LITERAL) return t->dtypes ? DT_BOOL : DT_VOID;
    if (t->kind == TERM_FAMILY && m->family->dtype == DT_BOOL) return DT_BOOL;
    if (t->kind != TERM_OP && t->kind != TERM_FAMILY) return DT_VOID;
    if (t->kind == TERM_OP && op_info[t->op].traits & TRAIT_COMPARE) return DT_BOOL;
    if (t->kind == TERM_OP && op_info[t->op].kind == KIND_CONVERT) return t->dtype;
    return sources_dtype(t, m, t->kind == TERM_OP && t->op == OP_WHERE);
}

static DType sources_dtype(const RuleTerm *t, const Match *m, int first) {
    DType dtype = DT_VOID;
    for (int i = first; i < t->n_src && dtype == DT_VOID; i++) dtype = term_dtype(t->src[i], m);
    return dtype;
}

// The dtype that source i is asked for. A condition and a shift's amount have types of their own.
static DType wanted_dtype(const RuleTerm *t, const Match *m, Op op, int i, DType inner) {
    if (op == OP_WHERE && i == 0) return DT_BOOL;
    if ((op == OP_SHL || op == OP_SHR) && i == 1 && t->src[1]->kind == TERM_COMPUTED) {
        const UOp *amount = first_node(t->src[1], m);
        return amount ? amount->dtype : inner;
    }
    return inner;
}

static UOp *build_op(const RuleTerm *t, const Match *m, const UOp *like) {
    Op op = t->kind == TERM_FAMILY ? m->family->op : t->op;
    bool own = op_info[op].traits & TRAIT_COMPARE || op_info[op].kind == KIND_CONVERT;
    DType dtype = own ? sources_dtype(t, m, 0) : term_dtype(t, m);
    if (dtype == DT_VOID) dtype = like->dtype;
    int extra = t->rest >= 0 ? m->n_rest[t->rest] : 0, n = t->n_src + extra;
    UOp *few[TERM_SRC + 4], **src = few;
    if (n > TERM_SRC + 4) src = arena_new(graph_arena(like->graph), (size_t)n * sizeof *src);
    for (int i = 0; i < t->n_src; i++) {
        UOp want = {.graph = like->graph, .lanes = like->lanes, .ndim = like->ndim};
        want.dtype = (uint8_t)wanted_dtype(t, m, op, i, dtype);
        src[i] = rule_term(t->src[i], m, &want);
        if (!src[i]) return NULL;
    }
    for (int i = 0; i < extra; i++) src[t->n_src + i] = m->rest[t->rest][i];
    DType result = t->dtype != DT_VOID ? t->dtype : like->dtype;
    return uop_new(like->graph, op, result, like->lanes, src, n, NULL, 0);
}

UOp *rule_term(const RuleTerm *t, const Match *m, const UOp *like) {
    Number n = {0};
    switch (t->kind) {
    case TERM_VAR: return m->var[t->slot];
    case TERM_CONSTANT: return m->constant[t->slot];
    case TERM_LITERAL:
        if (t->dtypes) return rule_make_constant(like, DT_BOOL, (Number){.i = t->i});
        if (dtype_is_float(like->dtype)) n.f = t->f;
        else n.i = t->i;
        return rule_make_constant(like, like->dtype, n);
    case TERM_COMPUTED:
        return rule_make_constant(like, like->dtype, computed(t->src[0], m, like->dtype));
    default: return build_op(t, m, like);
    }
}

UOp *rule_build(const Rule *rule, const Match *match) {
    UOp *u = rule_term(rule->result, match, match->root);
    if (!u) return NULL;
    if (uop_is_poison(u))
        BUG("%s:%d: rule \"%s\" builds a wrong node: %s", rule->row->file, rule->row->line,
            rule->row->name, u->message);
    if (u->dtype != match->root->dtype || u->lanes != match->root->lanes)
        BUG("%s:%d: rule \"%s\" turns %s into %s", rule->row->file, rule->row->line,
            rule->row->name, dtype_info[match->root->dtype].name, dtype_info[u->dtype].name);
    return u;
}

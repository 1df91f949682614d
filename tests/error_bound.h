// error_bound: how far a right evaluation of a tensor graph in its own types may lie from eval's, element by element.
// In: a graph. Out: another tensor graph, whose value is the bound; so movement, gathers and masks need no second meaning.
// For each node it keeps the bound e and the magnitude m of its terms (|a|+|b| for a sum, so that distributing and
// reassociating is covered). A sum of n terms adds 4·√n·u·Σm, any other float op u·m, u the unit roundoff of its type;
// ops that jump (comparisons, ROUND, casts to integers) add BOUND_UNKNOWN where the jump lies within the bound.
// Example: y = a + b over exact F32 buffers has e = 2^-24·(|a| + |b|).
#pragma once
#include <math.h>

#include "base/error.h"
#include "tensor/tensor.h"

static const double BOUND_UNKNOWN = 1e30;       // where e is larger than BOUND_USELESS, any value is right
static const double BOUND_USELESS = 1e20;

// All of F64. e NULL: exact.
typedef struct Bound { Tensor v, e, m; } Bound;
typedef struct BoundMaker { Graph *g; UOpMap done; } BoundMaker;

static double bound_unit(DType type) {
    switch (type) {
    case DT_F16: return 0x1p-11;
    case DT_BF16: return 0x1p-8;
    case DT_F32: return 0x1p-24;
    default: return 0;
    }
}

// Below the normal numbers the spacing is fixed.
static double bound_smallest(DType type) { return type == DT_F16 ? 0x1p-25 : type == DT_F64 ? 0 : 0x1p-126; }

static Tensor bound_abs(Tensor x) { return tensor_abs(x); }
static Tensor bound_sum(Tensor a, Tensor b) { return !a ? b : !b ? a : tensor_add(a, b); }
static Tensor bound_larger(Tensor a, Tensor b) { return !a ? b : !b ? a : tensor_max2(a, b); }
static Tensor bound_const(BoundMaker *k, double x) { return tensor_const(k->g, DT_F64, x); }
// UNKNOWN where the (bool) condition holds.
static Tensor bound_jump(BoundMaker *k, Tensor jumps) {
    return tensor_where(jumps, bound_const(k, BOUND_UNKNOWN), bound_const(k, 0));
}
static Tensor bound_differs(Tensor a, Tensor b) { return tensor_binary(OP_NE, a, b); }
static Tensor bound_f64(Tensor x) { return tensor_cast(x, DT_F64); }

// e plus what one rounding to u's type adds.
static Tensor bound_round(Tensor e, const UOp *u, Tensor m, double factor) {
    Tensor added = tensor_add_const(tensor_mul_const(m, factor * bound_unit((DType)u->dtype)), bound_smallest((DType)u->dtype));
    return bound_sum(e, added);
}

// The same node over other sources: movement, and reductions of F64.
static Tensor bound_same(const UOp *u, Tensor src, UOp *second) {
    UOp *sources[2] = {src, second};
    return src ? uop_new(src->graph, (Op)u->op, DT_F64, 1, sources, second ? 2 : 1, u->arg, u->n_arg) : NULL;
}

// f(v + e) - f(v - e) bounds a monotone f, and shows whether a step lies between.
static Tensor bound_spread(const UOp *u, const Bound *a) {
    if (!a->e)
        return NULL;
    Tensor low = tensor_sub(a->v, a->e);
    if (u->op == OP_SQRT || u->op == OP_LOG)
        low = tensor_max2(low, tensor_const(low->graph, DT_F64, 0));
    return bound_abs(tensor_sub(tensor_unary((Op)u->op, tensor_add(a->v, a->e)), tensor_unary((Op)u->op, low)));
}

static Bound bound_float_op(BoundMaker *k, UOp *u, const Bound *a, const Bound *b, const Bound *c) {
    Bound out = {.v = bound_f64(u)};
    Tensor v = bound_abs(out.v);
    switch (u->op) {
    case OP_NEG: return (Bound){out.v, a->e, a->m};
    case OP_ADD: case OP_SUB: out.m = tensor_add(a->m, b->m); out.e = bound_round(bound_sum(a->e, b->e), u, out.m, 1); break;
    case OP_MUL:
        out.m = tensor_mul(a->m, b->m);
        if (a->e)
            out.e = tensor_mul(a->e, b->e ? tensor_add(b->m, b->e) : b->m);
        if (b->e)
            out.e = bound_sum(out.e, tensor_mul(b->e, a->m));
        out.e = bound_round(out.e, u, out.m, 1);
        break;
    case OP_FDIV: {
        Tensor rest = bound_abs(b->v);
        if (b->e)
            rest = tensor_max2(tensor_sub(rest, b->e), bound_const(k, 1e-30));
        out.m = tensor_div(a->m, rest);
        if (a->e)
            out.e = tensor_div(a->e, rest);
        if (b->e)
            out.e = bound_sum(out.e, tensor_div(tensor_mul(b->e, v), rest));
        out.e = bound_round(out.e, u, out.m, 2);
        break;
    }
    case OP_RECIP: {
        Tensor rest = bound_abs(a->v);
        if (a->e)
            rest = tensor_max2(tensor_sub(rest, a->e), bound_const(k, 1e-30));
        out.m = v;
        out.e = bound_round(a->e ? tensor_div(tensor_mul(a->e, v), rest) : NULL, u, v, 2);
        break;
    }
    case OP_MAX: case OP_MIN: return (Bound){out.v, bound_larger(a->e, b->e), v};
    case OP_SIN: case OP_COS: out.m = v; out.e = bound_round(a->e, u, tensor_add_const(a->m, 1), 4); break;
    case OP_FLOOR: case OP_ROUND: return (Bound){out.v, bound_spread(u, a), v};   // exact of what they are given
    case OP_EXP: case OP_LOG: case OP_SQRT:
        out.m = v;
        out.e = bound_round(bound_spread(u, a), u, tensor_add_const(v, u->op == OP_LOG ? 1 : 0), 8);
        break;
    case OP_WHERE:
        out.m = tensor_where(u->src[0], b->m, c->m);
        if (b->e || c->e)
            out.e = tensor_where(u->src[0], b->e ? b->e : bound_const(k, 0), c->e ? c->e : bound_const(k, 0));
        if (a->e)
            out.e = bound_sum(out.e, tensor_where(tensor_less(bound_const(k, 0), a->e), bound_sum(bound_sum(b->e, c->e),
                              bound_abs(tensor_sub(b->v, c->v))), bound_const(k, 0)));
        break;
    default: BUG("no error bound for %s", op_info[u->op].name);
    }
    return out;
}

static Bound bound_compare(BoundMaker *k, UOp *u, const Bound *a, const Bound *b) {
    Tensor e = u->src[0] == u->src[1] ? NULL : bound_sum(a->e, b->e);
    bool of_floats = dtype_is_float((DType)u->src[0]->dtype);
    if (e && of_floats) {
        Tensor distance = bound_abs(tensor_sub(a->v, b->v));
        e = tensor_where(tensor_less(e, distance), bound_const(k, 0), bound_const(k, BOUND_UNKNOWN));
    }
    return (Bound){.v = bound_f64(u), .e = e};
}

static Bound bound_cast(BoundMaker *k, UOp *u, const Bound *a) {
    Bound out = {.v = bound_f64(u), .e = a->e};
    bool to_float = dtype_is_float((DType)u->dtype);
    if (dtype_is_float((DType)u->src[0]->dtype) && !to_float) {
        DType to = (DType)u->dtype;
        if (a->e)
            out.e = bound_jump(k, bound_differs(tensor_cast(tensor_add(a->v, a->e), to), tensor_cast(tensor_sub(a->v, a->e), to)));
    } else if (to_float) {
        out.m = a->m ? a->m : bound_abs(out.v);
        out.e = bound_round(out.e, u, out.m, 1);
    }
    return out;
}

static Bound bound_reduce(UOp *u, const Bound *a) {
    Bound out = {.v = bound_f64(u)};
    double n = (double)tensor_count(u->src[0]) / (double)tensor_count(u);
    if (!dtype_is_float((DType)u->dtype)) {
        int64_t arg[2 + MAX_AXES] = {MONOID_MAX, 1};
        for (int i = 2; i < u->n_arg; i++)
            arg[i] = u->arg[i];
        out.e = a->e ? uop_new(a->e->graph, OP_REDUCE, DT_F64, 1, &a->e, 1, arg, u->n_arg) : NULL;
        return out;
    }
    bool is_sum = u->arg[0] == MONOID_SUM;
    int64_t arg[2 + MAX_AXES] = {is_sum ? MONOID_SUM : MONOID_MAX, 1};
    for (int i = 2; i < u->n_arg; i++)
        arg[i] = u->arg[i];
    out.m = is_sum ? uop_new(a->m->graph, OP_REDUCE, DT_F64, 1, &a->m, 1, arg, u->n_arg) : bound_abs(out.v);
    out.e = a->e ? uop_new(a->e->graph, OP_REDUCE, DT_F64, 1, &a->e, 1, arg, u->n_arg) : NULL;
    if (is_sum)
        out.e = bound_round(out.e, u, out.m, 4 * sqrt(n));
    return out;
}

static Tensor bound_everywhere(Tensor e, UOp *like) {
    Dims axes = {.n = e->ndim};
    for (int i = 0; i < axes.n; i++)
        axes.at[i] = i;
    return tensor_expand(e->ndim ? tensor_reduce(MONOID_MAX, 1, e, axes) : e, tensor_dims(like));
}

// After stores every cell may hold the worst of what was stored.
static Bound bound_after(BoundMaker *k, UOp *u) {
    const Bound *before = u->src[0]->op == OP_AFTER ? uop_map_get(&k->done, u->src[0]) : NULL;
    Bound out = {.v = bound_f64(u), .m = bound_abs(bound_f64(u))};
    if (before && before->e)
        out.e = bound_everywhere(before->e, u);
    for (int i = 1; i < u->n_src; i++) {
        const Bound *stored = u->src[i]->op == OP_ASSIGN ? uop_map_get(&k->done, u->src[i]->src[1]) : NULL;
        if (stored && stored->e)
            out.e = bound_larger(out.e, bound_everywhere(stored->e, u));
    }
    if (dtype_is_float((DType)u->dtype))
        out.e = bound_round(out.e, u, out.m, 1);
    return out;
}

static Bound bound_node(BoundMaker *k, UOp *u) {
    const Bound *src[3] = {0};
    for (int i = 0; i < u->n_src && i < 3; i++)
        src[i] = uop_map_get(&k->done, u->src[i]);
    bool is_float = dtype_is_float((DType)u->dtype);
    OpKind kind = op_info[u->op].kind;
    if (u->op == OP_ASSIGN)
        return (Bound){0};
    if (u->op == OP_AFTER)
        return bound_after(k, u);
    if (u->op == OP_CONTIGUOUS)
        return (Bound){src[0]->v, is_float ? bound_round(src[0]->e, u, src[0]->m, 1) : src[0]->e, src[0]->m};
    if (kind == KIND_LEAF || u->op == OP_BITCAST)
        return (Bound){.v = bound_f64(u), .m = is_float ? bound_abs(bound_f64(u)) : NULL};
    if (kind == KIND_MOVE) {
        UOp *index = u->op == OP_GATHER ? u->src[1] : NULL;
        CHECK(!index || !src[1]->e);
        return (Bound){bound_f64(u), bound_same(u, src[0]->e, index), bound_same(u, src[0]->m, index)};
    }
    if (u->op == OP_REDUCE)
        return bound_reduce(u, src[0]);
    if (u->op == OP_CAST)
        return bound_cast(k, u, src[0]);
    if (op_info[u->op].traits & TRAIT_COMPARE)
        return bound_compare(k, u, src[0], src[1]);
    if (is_float)
        return bound_float_op(k, u, src[0], src[1], src[2]);
    Bound out = {.v = bound_f64(u)};
    for (int i = 0; i < u->n_src; i++)
        out.e = bound_larger(out.e, src[i]->e);
    return out;
}

// The bound of root's value as a tensor of F64 and root's shape. Nodes that are bounded already are looked up.
static inline Tensor bound_of(BoundMaker *k, UOp *root) {
    Arena *arena = graph_arena(k->g);
    UOpList order = uop_toposort(arena, root);
    for (size_t i = 0; i < order.len; i++) {
        if (uop_map_get(&k->done, order.at[i]))
            continue;
        Bound *b = arena_new(arena, sizeof *b);
        *b = bound_node(k, order.at[i]);
        uop_map_put(&k->done, order.at[i], b);
    }
    const Bound *b = uop_map_get(&k->done, root);
    return b->e ? b->e : tensor_expand(tensor_const(k->g, DT_F64, 0), tensor_dims(root));
}

static inline BoundMaker bound_maker(Graph *g) {
    BoundMaker k = {.g = g};
    uop_map_init(&k.done, graph_arena(g));
    return k;
}

// linear: sums of multiples; see linear.h. What index rules compute with.
// Example: linear_build of {x·1, y·4, 3} is (y*4 + x) + 3.
#include "ir/linear.h"

#include <stdlib.h>

#include "base/error.h"
#include "ir/rule.h"

typedef __int128 Wide;
enum { LINEAR_STEPS = 4 * LINEAR_TERMS };

int64_t linear_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

// A factor modulo 2^bits, as a signed number of that width.
static int64_t factor_wrap(DType dtype, int64_t factor) {
    int drop = 64 - 8 * dtype_bytes(dtype);
    return (int64_t)((uint64_t)factor << drop) >> drop;
}

static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static bool add_term(Linear *l, UOp *u, int64_t factor) {
    Bounds b = bounds_of(u);
    if (b.lo == b.hi) {
        l->constant = factor_wrap(l->dtype, plus(l->constant, times(b.lo, factor)));
        return true;
    }
    for (int i = 0; i < l->n; i++) {
        if (l->at[i].node != u) continue;
        l->at[i].factor = factor_wrap(l->dtype, plus(l->at[i].factor, factor));
        if (l->at[i].factor == 0) l->at[i] = l->at[--l->n];
        return true;
    }
    if (l->n == LINEAR_TERMS) return false;
    l->at[l->n++] = (LinearTerm){u, factor};
    return true;
}

static bool collect(Linear *l, UOp *u, int64_t factor, int *steps) {
    Number c;
    if (--*steps < 0) return false;
    factor = factor_wrap(l->dtype, factor);
    if (factor == 0) return true;
    switch (u->op) {
    case OP_ADD:
        return collect(l, u->src[0], factor, steps) && collect(l, u->src[1], factor, steps);
    case OP_SUB:
        return collect(l, u->src[0], factor, steps) &&
               collect(l, u->src[1], times(factor, -1), steps);
    case OP_NEG: return collect(l, u->src[0], times(factor, -1), steps);
    case OP_MUL:
        if (rule_constant(u->src[1], &c)) return collect(l, u->src[0], times(factor, c.i), steps);
        if (rule_constant(u->src[0], &c)) return collect(l, u->src[1], times(factor, c.i), steps);
        return add_term(l, u, factor);
    default: return add_term(l, u, factor);
    }
}

bool linear_add(Linear *l, UOp *u, int64_t factor) {
    int steps = LINEAR_STEPS;
    return collect(l, u, factor, &steps);
}

bool linear_of(UOp *u, Linear *out) {
    out->graph = u->graph;
    out->dtype = u->dtype;
    out->lanes = u->lanes;
    out->n = 0;
    out->constant = 0;
    DTypeClass c = dtype_info[u->dtype].type_class;
    return (c == CLASS_INT || c == CLASS_UINT) && u->ndim == 0 && linear_add(out, u, 1);
}

bool linear_fits(const Linear *l, Bounds *b) {
    Bounds limit = bounds_of_dtype(l->dtype);
    Wide lo = l->constant, hi = l->constant, bound = (Wide)1 << 100;
    for (int i = 0; i < l->n; i++) {
        Bounds t = bounds_of(l->at[i].node);
        Wide one = (Wide)t.lo * l->at[i].factor, other = (Wide)t.hi * l->at[i].factor;
        lo += one < other ? one : other;
        hi += one < other ? other : one;
        if (lo < -bound || hi > bound) return false;
    }
    if (lo < limit.lo || hi > limit.hi || (l->dtype == DT_U64 && lo < 0)) return false;
    *b = (Bounds){(int64_t)lo, (int64_t)hi};
    return true;
}

// Positive factors first, bigger ones before smaller: outer loops' terms then tend to stand in
// front, where they can leave inner loops. Ranges and ops decide next, creation last, so that equal
// layers get equal orders.
static int by_order(const void *a, const void *b) {
    const LinearTerm *x = a, *y = b;
    if ((x->factor > 0) != (y->factor > 0)) return x->factor > 0 ? -1 : 1;
    int64_t m = x->factor < 0 ? x->factor : -x->factor, n = y->factor < 0 ? y->factor : -y->factor;
    if (m != n) return m < n ? -1 : 1;
    if (x->node->op != y->node->op) return x->node->op < y->node->op ? -1 : 1;
    if (x->node->op == OP_RANGE && range_id(x->node) != range_id(y->node))
        return range_id(x->node) < range_id(y->node) ? -1 : 1;
    return (x->node->id > y->node->id) - (x->node->id < y->node->id);
}

static UOp *constant_node(const Linear *l, int64_t value) {
    UOp like = {.graph = l->graph, .lanes = (uint16_t)l->lanes};
    return rule_make_constant(&like, l->dtype, (Number){.i = value});
}

static UOp *pair(const Linear *l, Op op, UOp *a, UOp *b) {
    return uop_new(l->graph, op, l->dtype, l->lanes, (UOp *[]){a, b}, 2, NULL, 0);
}

static UOp *multiple(const Linear *l, UOp *node, int64_t factor) {
    if (factor == 1) return node;
    if (factor == -1) return uop_new(l->graph, OP_NEG, l->dtype, l->lanes, &node, 1, NULL, 0);
    return pair(l, OP_MUL, node, constant_node(l, factor));
}

UOp *linear_build(Linear *l) {
    bool is_signed = dtype_info[l->dtype].type_class == CLASS_INT;
    int64_t lowest = factor_wrap(l->dtype, (int64_t)(1ull << (8 * dtype_bytes(l->dtype) - 1))),
            rest = l->constant;
    UOp *sum = NULL;
    if (l->n > 1) qsort(l->at, (size_t)l->n, sizeof *l->at, by_order);
    // Where every term is subtracted the constant goes first: 5 - x.
    if (l->n == 0 || (l->at[0].factor < 0 && l->at[0].factor != lowest && rest != 0)) {
        sum = constant_node(l, rest);
        rest = 0;
    }
    for (int i = 0; i < l->n; i++) {
        int64_t f = l->at[i].factor;
        if (!sum) sum = multiple(l, l->at[i].node, f);
        else if (f > 0 || f == lowest) sum = pair(l, OP_ADD, sum, multiple(l, l->at[i].node, f));
        else sum = pair(l, OP_SUB, sum, multiple(l, l->at[i].node, -f));
    }
    if (rest == 0) return sum;
    if (is_signed || rest > 0 || rest == lowest)
        return pair(l, OP_ADD, sum, constant_node(l, rest));
    return pair(l, OP_SUB, sum, constant_node(l, -rest));
}

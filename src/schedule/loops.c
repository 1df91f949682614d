// loops: loops of its own for a value that stands in two places; passes that split a loop must not find it in the other.
// In: a store or a value. Out: the same computation over other RANGEs. Invariant: kinds, bounds and nesting stay.
// Example: Σ over r1 of x[r0, r1], with at = 3 for the outer r0: Σ over r7 of x[3, r7].
#include "schedule/schedule.h"

UOp *loops_renewed(Arena *arena, UOp *root, UOp *outer, UOp *at) {
    UOpList order = uop_toposort_value(arena, root);   // not the loops of what it only waits for
    UOp **from = arena_new(arena, (order.len + 1) * sizeof *from), **to = arena_new(arena, (order.len + 1) * sizeof *to);
    int n = 0;
    if (outer) from[n] = outer, to[n++] = at;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (u->op != OP_RANGE || u == outer || range_kind(u) == RANGE_GLOBAL) continue;
        UOp *end = n ? uop_substitute(u->src[0], from, to, n) : u->src[0];
        from[n] = u;
        to[n++] = uop_range_most(u->graph, end, range_size(u), range_kind(u));
    }
    return uop_substitute(root, from, to, n);
}

UOp *loop_within(UOp *end, int64_t most, RangeKind kind) {
    Graph *g = end->graph;
    UOp *least = uop_binary(OP_MIN, end, uop_int(g, DT_I32, most));
    return uop_range_most(g, simplify(uop_binary(OP_MAX, least, uop_int(g, DT_I32, 0))), most, kind);
}

int loops_count(Arena *arena, UOp *root) {
    UOpList order = uop_toposort(arena, root);
    int n = 0;
    for (size_t i = 0; i < order.len; i++) n += order.at[i]->op == OP_RANGE;
    return n;
}

bool holds_op(Arena *arena, UOp *root, Op op) {
    UOpList order = uop_toposort(arena, root);
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == op) return true;
    return false;
}

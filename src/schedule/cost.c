// cost: how much work a value is: op cost × trip count of the loops that it closes, each shared node once a loop.
#include "schedule/schedule.h"

// Trip counts of ranges that a node depends on, within the value: closed by a FOLD above it.
double value_cost(UOp *value) {
    Arena *arena = graph_arena(value->graph);
    ArenaMark mark = arena_mark(arena);
    RangeSets sets = range_sets(arena, value);
    bool *closed = arena_new(arena, sets.ranges.len + 1);   // by some FOLD inside the value
    for (size_t k = 0; k < sets.order.len; k++) {
        UOp *u = sets.order.at[k];
        if (u->op != OP_FOLD) continue;
        for (size_t r = 0; r < sets.ranges.len; r++)
            for (int i = 1; i < u->n_src; i++) closed[r] |= sets.ranges.at[r] == u->src[i];
    }
    double total = 0;
    for (size_t k = 0; k < sets.order.len; k++) {
        UOp *u = sets.order.at[k];
        double cost = op_info[u->op].cost, trips = 1;
        if (cost == 0) continue;
        if (u->op == OP_FOLD) for (int i = 1; i < u->n_src; i++) cost *= (double)range_size(u->src[i]);
        for (size_t r = 0; r < sets.ranges.len; r++)
            if (closed[r] && range_sets_has(&sets, u, r)) trips *= (double)range_size(sets.ranges.at[r]);
        total += cost * trips;
    }
    arena_release(arena, mark);
    return total;
}

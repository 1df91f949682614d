// expand_steps: sums whose other lanes fill registers, such as rows that share weights: nothing is added across lanes.
// In: an ACCUM that says so. Out: a vector of the other lanes. Invariant: as in expand_sums; the chains of a float sum lie
// side by side in an array, as they are more than registers, and a unit's chain is known when its loop runs.
// Example: 16 rows, blocks b of 32 bytes: cells[b % 16] += scale · f32(dot4(dot4(0, …), …)), 16 lanes each.
#include <string.h>

#include "codegen/expand_private.h"
#include "ir/rewrite.h"

static UOp *step_of(UOp *v, int step, int lanes) {
    int64_t *map = arena_new(graph_arena(v->graph), (size_t)lanes * sizeof *map);
    for (int i = 0; i < lanes; i++) map[i] = (int64_t)step * lanes + i;
    return shuffle(v, map, lanes);
}

// acc [outer] and the own lanes of a value, added one after the other; bytes by fours.
static UOp *add_steps(Expander *x, UOp *acc, const Laned *value, const Laned *outer, UOp *const *own, int n_own) {
    int n = lane_count(outer), count = product_of(own, n_own);
    UOp *first, *second;
    if (count % 4 == 0) {
        UOp *by_fours = own_by_words(x, value, outer, own, n_own, count, 4);
        if (dot_operands(x, by_fours, &first, &second)) {
            for (int i = 0; i < count / 4; i++) {
                UOp *src[3] = {acc, step_of(first, i, 4 * n), step_of(second, i, 4 * n)};
                acc = uop_new(x->graph, OP_DOT4, DT_I32, n, src, 3, NULL, 0);
            }
            DERIVED("expand", "products_of_bytes_add_up_by_fours", by_fours, acc);
            return acc;
        }
    }
    UOp *units = own_by_words(x, value, outer, own, n_own, count, 1);
    for (int i = 0; i < count; i++) acc = combine(MONOID_SUM, acc, step_of(units, i, n));
    return acc;
}

// Unit b of the loops, in order, belongs to chain b mod chains; the chains lie side by side, outer lanes wide.
static UOp *add_to_chains(Expander *x, const Accum *a, UOp *units, UOp *const *loops, int n) {
    int64_t total = product_of(a->loops, a->n_loops);
    int chains = total < a->chains ? chain_lanes((int)total) : a->chains;
    UOp *at = loops[0];
    for (int i = 1; i < a->n_loops; i++)
        at = uop_binary(OP_ADD, uop_binary(OP_MUL, at, uop_int(x->graph, DT_I32, range_size(a->loops[i]))), loops[i]);
    if (total > chains) at = uop_binary(OP_AND, at, uop_int(x->graph, DT_I32, chains - 1));
    Cells c = {.loops = loops, .n_loops = a->n_loops, .at = uop_binary(OP_MUL, at, uop_int(x->graph, DT_I32, n)), .lanes = n, .all = (int64_t)chains * n};
    c.memory = uop_new(x->graph, OP_DEFINE_ARRAY, units->dtype, 1, NULL, 0, (int64_t[]){graph_unique(x->graph), c.all}, 2);
    UOp *old = cells_old(x, &c, MONOID_SUM);
    UOp *sum = cells_updated(x, &c, total == chains ? units : combine(MONOID_SUM, old, units));   // one unit a chain: nothing to add
    for (; chains > 1; chains /= 2) {
        int half = chains / 2 * n;
        sum = uop_new(x->graph, OP_ADD, sum->dtype, half, (UOp *[]){step_of(sum, 0, half), step_of(sum, 1, half)}, 2, NULL, 0);
    }
    return sum;
}

Laned expand_stepwise(Expander *x, const Accum *a) {
    const Laned *value = expand_node(x, a->value);
    Laned outer = outer_lanes(value, a->lanes, a->n_lanes);
    UOp *loops[16];
    int n = lane_count(&outer);
    for (int i = 0; i < a->n_loops; i++) loops[i] = expand_node(x, a->loops[i])->value;
    Laned out = outer;
    if (dtype_is_float(a->value->dtype)) { out.value = add_to_chains(x, a, value->value, loops, n); return out; }
    UOp *zero = identity(x, MONOID_SUM, a->value->dtype, n);
    if (!a->n_loops) { out.value = add_steps(x, zero, value, &outer, a->lanes, a->n_lanes); return out; }
    Cells c = cells_of_register(x, a->value->dtype, n, loops, a->n_loops);
    UOp *old = cells_old(x, &c, MONOID_SUM);
    out.value = cells_updated(x, &c, add_steps(x, old, value, &outer, a->lanes, a->n_lanes));
    return out;
}

// merged_loops: loops of a store that always stand together become one.
// In: a store. Out: the same elements by fewer and fewer loops, from the innermost ones on.
// Invariant: in every address the outer loop's step is the inner one's times its size, and nothing else asks for either.
// Example: s[8·b + k] = Σ_j p[256·b + 32·k + j] for k < 8 → s[b] = Σ_j p[32·b + j], b < 8 times as many.
#include "schedule/merged_loops.h"

// Whether a value asks for a loop elsewhere than in an address.
static bool asks_for(Arena *arena, UOp *value, UOp *a, UOp *b) {
    VEC(UOp *) stack = {0};
    UOpMap seen;
    uop_map_init(&seen, arena);
    vec_push(arena, &stack, value);
    while (stack.len) {
        UOp *u = stack.at[--stack.len];
        if (u == a || u == b) return true;
        if (u->op == OP_INDEX || u->op == OP_AFTER || uop_map_get(&seen, u)) continue;
        uop_map_put(&seen, u, u);
        for (int i = 0; i < u->n_src; i++) vec_push(arena, &stack, u->src[i]);
    }
    return false;
}

static bool is_free_in(const UOpList *ranges, const UOp *loop) {
    for (size_t i = 0; i < ranges->len; i++) if (ranges->at[i] == loop) return true;
    return false;
}

// Whether every address under root has the outer loop at `size` times the steps of the inner one; outer: NULL where there is none.
static bool stand_together(Arena *arena, UOp *root, UOp *outer, UOp *inner) {
    UOpList order = uop_toposort(arena, root);
    for (size_t k = 0; k < order.len; k++) {
        int64_t outer_step = 0, inner_step = 0;
        if (order.at[k]->op != OP_INDEX) continue;
        UOp *index = order.at[k]->src[1];
        UOpList free = uop_free_ranges(arena, index);
        if (!is_free_in(&free, inner) && !(outer && is_free_in(&free, outer))) continue;
        if (!index_step(index, inner, &inner_step) || (outer && (!index_step(index, outer, &outer_step) || outer_step != inner_step * range_size(inner)))) return false;
    }
    return true;
}

static UOp *merged_at(Arena *arena, UOp *store, int at) {
    UOp *outer = store->src[at], *inner = store->src[at + 1], **ranges = arena_new(arena, (size_t)store->n_src * sizeof *ranges);
    if (!range_is_static(outer) || !range_is_static(inner) || range_kind(outer) != range_kind(inner)) return NULL;
    for (int i = 1; i < store->n_src; i++)   // the value, and where other loops end
        if (i != at && i != at + 1 && asks_for(arena, store->src[i], outer, inner)) return NULL;
    if (!stand_together(arena, store, outer, inner)) return NULL;
    UOp *one = uop_range_const(store->graph, range_size(outer) * range_size(inner), range_kind(outer));
    UOp *from[2] = {outer, inner}, *to[2] = {uop_int(store->graph, DT_I32, 0), one};
    int n = 0;
    for (int i = 2; i < store->n_src; i++) if (i != at + 1) ranges[n++] = i == at ? one : uop_substitute(store->src[i], from, to, 2);
    UOp *merged = uop_store_as(store, simplify(uop_substitute(store->src[0], from, to, 2)), simplify(uop_substitute(store->src[1], from, to, 2)), ranges, n);
    return stand_together(arena, merged, NULL, one) ? merged : NULL;   // what was so only as long as the inner loop was short
}

int loops_merged(Arena *arena, UOp *store, UOp **forms, int most) {
    int n = 0;
    for (int at = store->n_src - 2; at >= 2 && n < most; at--) {
        UOp *merged = merged_at(arena, n ? forms[n - 1] : store, at);
        if (merged) forms[n++] = merged;
    }
    return n;
}

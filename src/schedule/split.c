// split: a value that is one thing up to a place on an axis and another behind it becomes two items.
// In: items. Out: items whose masks on their own loops are gone where the loop was cut at the mask's edge; both write
// parts of one buffer.
// Invariant: the parts do not overlap and together are the whole.
// Example: y[r] = r < 512 ? Σ… : x[r] for r < 576 → y[r] = Σ… for 512 of them, y[512 + r] = x[512 + r] for 64.
#include "schedule/schedule.h"

static const double WORTH = 64;   // operations of a value below which a mask costs less than a second loop

// The edge of a comparison with a loop of the store: the first element of the second part. 0 where it is none.
static int64_t edge_of(const UOp *u, const UOp *range) {
    int64_t c;
    if (u->op != OP_LT) return 0;
    if (u->src[0] == range && uop_is_int_const(u->src[1], &c)) return c;
    if (u->src[1] == range && uop_is_int_const(u->src[0], &c)) return c + 1;
    return 0;
}

// The first edge inside a loop, from the outermost loop on; 0 where there is none.
static int64_t find_edge(Arena *arena, UOp *store, int *loop) {
    UOpList order = uop_toposort_value(arena, store->src[1]);
    for (*loop = 2; *loop < store->n_src; ++*loop) {
        UOp *range = store->src[*loop];
        if (!range_is_static(range)) continue;
        for (size_t k = 0; k < order.len; k++) {
            int64_t edge = edge_of(order.at[k], range);
            if (edge > 0 && edge < range_size(range)) return edge;
        }
    }
    return 0;
}

// The part of a store from element `first` on, `count` of them.
static UOp *part(Arena *arena, UOp *store, int loop, int64_t first, int64_t count) {
    UOp *old = store->src[loop], *range = uop_range_const(store->graph, count, range_kind(old));
    UOp *at = first ? uop_binary(OP_ADD, range, uop_int(store->graph, DT_I32, first)) : range;
    UOp **ranges = arena_copy(arena, store->src + 2, (size_t)(store->n_src - 2) * sizeof *ranges);
    ranges[loop - 2] = range;
    return uop_store_as(store, simplify(uop_substitute(store->src[0], &old, &at, 1)), simplify(uop_substitute(store->src[1], &old, &at, 1)),
                     ranges, store->n_src - 2);
}

void schedule_split(Schedule *s) {
    VEC(Item) out = {0}, left = {0};
    for (size_t i = 0; i < s->items.len; i++) {
        left.len = 0;
        vec_push(s->arena, &left, s->items.at[i]);
        while (left.len) {
            Item item = left.at[--left.len], second = item;
            int loop;
            int64_t edge = find_edge(s->arena, item.store, &loop);
            if (edge == 0 || value_cost(item.store->src[1]) < WORTH) { vec_push(s->arena, &out, item); continue; }
            item.is_part = second.is_part = true;
            item.store = part(s->arena, item.store, loop, 0, edge);
            second.store = part(s->arena, second.store, loop, edge, range_size(second.store->src[loop]) - edge);
            vec_push(s->arena, &left, second);
            vec_push(s->arena, &left, item);
        }
    }
    s->items.at = out.at, s->items.len = out.len, s->items.cap = out.cap;
}

// outward: a long sum whose steps each go through much memory that the elements of a store share, or that lies side by side
// for them, goes around the store.
// In: a kernel. Out: the same, such a store as two: zeros, then step by step what each adds, kept where the sum goes; and a third
// where the sum is a part of the value.
// Invariant: each element has the same terms in the same order; only loops change places.
// Example: o[r, j] = Σ_p w[r, p] · Σ_k s[r, p, k] · v[p, k, j]: v[p] is read for all r while it is in the cache.
// Example: y[r] = x[r] + Σ_e w[e] · Σ_k a[e, k] · W[chosen[e], r, k]: rows of one expert are read one after the other, where six
// streams of one row each would be too short for a CPU to see them.
#include "base/vec.h"
#include "codegen/codegen.h"
#include "schedule/schedule.h"

enum { CACHE_BYTES = 64 << 10, LEAST_SHARERS = 8, STRIP = 64, LINE_BYTES = 64, LEAST_RUN = 4096 };

static bool is_closed_by(const UOp *store, const UOp *range) {
    for (int i = 2; i < store->n_src; i++) if (store->src[i] == range) return true;
    return false;
}

// Whether some load goes through more than a near cache holds, in whole again for most elements of the store.
static bool is_shared_by_many(const RangeSets *sets, const UOp *store, const UOp *step) {
    for (size_t k = 0; k < sets->order.len; k++) {
        UOp *u = sets->order.at[k];
        if (u->op != OP_LOAD || !range_sets_depends(sets, u, step)) continue;
        double nbytes = dtype_bytes(u->dtype) * range_sets_trips(sets, u), sharers = 1;
        for (size_t r = 0; r < sets->ranges.len; r++)
            if (range_kind(sets->ranges.at[r]) == RANGE_GLOBAL && range_sets_has(sets, u, r)) nbytes /= (double)range_size(sets->ranges.at[r]);
        for (int i = 2; i < store->n_src; i++)
            if (!range_sets_depends(sets, u, store->src[i])) sharers *= (double)range_size(store->src[i]);
        if (nbytes > CACHE_BYTES && sharers >= LEAST_SHARERS) return true;
    }
    return false;
}

static bool holds_sum(const RangeSets *sets, const UOp *own) {
    for (size_t k = 0; k < sets->order.len; k++) if (sets->order.at[k]->op == OP_FOLD && sets->order.at[k] != own) return true;
    return false;
}

// Whether some load of each step lies where data says, and the store's last loop walks through it row by row, one behind
// the other.
static bool is_run_somewhere(const RangeSets *sets, const UOp *store, const UOp *step) {
    UOp *last = store->src[store->n_src - 1];
    for (size_t k = 0; k < sets->order.len; k++) {
        UOp *u = sets->order.at[k];
        int64_t row, jump;
        if (u->op != OP_LOAD || u->n_src > 1) continue;
        if (!range_sets_depends(sets, u, step) || !range_sets_depends(sets, u, last)) continue;
        UOp *index = u->src[0]->src[1];
        if (index_step(index, (UOp *)step, &jump) || !index_step(index, last, &row)) continue;
        row *= dtype_bytes(uop_buffer_of(u->src[0])->dtype);
        if (row >= LINE_BYTES && row * range_size(last) >= LEAST_RUN) return true;
    }
    return false;
}

// The order of a sum in one chain is that of its loop. Its end must be known before the loops of the store begin, and nothing
// that the store reads may be what it writes.
static bool goes_outward(Arena *arena, const UOp *store, const UOp *sum) {
    if (sum->op != OP_FOLD || sum->arg[0] != MONOID_SUM || sum->arg[1] != 1 || sum->dtype != DT_F32 || sum->n_src != 2 || store->n_src < 3) return false;
    RangeSets sets = range_sets(arena, store->src[1]);
    const UOp *step = sum->src[1];
    for (int i = 2; i < store->n_src; i++)
        if (range_sets_depends(&sets, step->src[0], store->src[i]) || range_kind(store->src[i]) != RANGE_LOOP) return false;
    for (size_t k = 0; k < sets.order.len; k++) {
        const UOp *u = sets.order.at[k];
        if (u->op == OP_LOAD && uop_buffer_of(u->src[0]) == uop_buffer_of(store->src[0])) return false;
        if (u->op == OP_RANGE && is_closed_by(store, u) && !range_is_static(u)) return false;
    }
    if (sum != store->src[1]) return is_run_somewhere(&sets, store, step);
    return holds_sum(&sets, sum) && (is_shared_by_many(&sets, store, step) || is_run_somewhere(&sets, store, step));
}

// The sum that goes outward: the value, or what others are added to. NULL: there is none.
static UOp *sum_outward(Arena *arena, const UOp *store, UOp *value) {
    if (goes_outward(arena, store, value)) return value;
    for (int i = 0; value->op == OP_ADD && i < 2; i++) {
        UOp *found = sum_outward(arena, store, value->src[i]);
        if (found) return found;
    }
    return NULL;
}

// The store with loops of its own and another value.
static UOp *store_anew(UOp *store, UOp *value) {
    UOp *from[32], *to[32];
    int n = store->n_src - 2;
    for (int i = 0; i < n; i++) from[i] = store->src[2 + i], to[i] = uop_range(store->graph, from[i]->src[0], range_kind(from[i]));
    return uop_store(uop_substitute(store->src[0], from, to, n), value, to, n);
}

// A long last loop in strips, which go around all but the step: what a step shares is walked strip by strip, from near caches.
static UOp *in_strips(UOp *store) {
    UOp *last = store->src[store->n_src - 1], *ranges[34];
    int n = 0;
    if (range_size(last) <= STRIP || range_size(last) % STRIP) return store;
    UOp *strip = uop_range_const(store->graph, range_size(last) / STRIP, RANGE_LOOP), *within = uop_range_const(store->graph, STRIP, RANGE_LOOP);
    UOp *at = uop_binary(OP_ADD, uop_binary(OP_MUL, strip, uop_int(store->graph, DT_I32, STRIP)), within);
    ranges[n++] = store->src[2];
    ranges[n++] = strip;
    for (int i = 3; i < store->n_src - 1; i++) ranges[n++] = store->src[i];
    ranges[n++] = within;
    return uop_store(uop_substitute(store->src[0], &last, &at, 1), uop_substitute(store->src[1], &last, &at, 1), ranges, n);
}

// first: the statement before it, which stores zeros.
static UOp *store_outward(UOp *store, UOp *sum, UOp *first) {
    Graph *g = store->graph;
    UOp *old = sum->src[1], *ranges[34];
    UOp *step = uop_range_most(g, old->src[0], range_size(old), RANGE_LOOP);
    UOp *index = uop_index(uop_after(store->src[0]->src[0], &first, 1), store->src[0]->src[1]);
    UOp *term = uop_substitute(sum->src[0], &old, &step, 1), *known = uop_load(index, DT_F32, NULL);
    UOp *value = added(known, term);
    ranges[0] = step;
    for (int i = 2; i < store->n_src; i++) ranges[i - 1] = store->src[i];
    return in_strips(uop_store(index, value, ranges, store->n_src - 1));
}

// The statement behind it: the value, with what is kept in place of the sum.
static UOp *store_rest(Arena *arena, UOp *store, UOp *sum, UOp *outward) {
    UOp *plain = uop_load(store->src[0], DT_F32, NULL), *value = uop_substitute(store->src[1], &sum, &plain, 1);
    UOp *rest = loops_renewed(arena, uop_store_as(store, store->src[0], value, store->src + 2, store->n_src - 2), NULL, NULL);
    UOp *index = uop_index(uop_after(rest->src[0]->src[0], &outward, 1), rest->src[0]->src[1]);
    UOp *known = uop_load(rest->src[0], DT_F32, NULL), *kept = uop_load(index, DT_F32, NULL);
    return uop_store_as(rest, rest->src[0], uop_substitute(rest->src[1], &known, &kept, 1), rest->src + 2, rest->n_src - 2);
}

UOp *sums_outward(UOp *sink, const Target *target) {
    if (target->group_threads) return sink;   // threads share what they read in other ways
    Arena *arena = graph_arena(sink->graph);
    UOpList order = uop_toposort(arena, sink), statements = {0};
    UOpMap done, before;
    uop_map_init(&done, arena);
    uop_map_init(&before, arena);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *v = uop_renewed(u, &done);
        UOp *sum = v->op == OP_STORE && v->n_src > 2 ? sum_outward(arena, v, v->src[1]) : NULL;
        if (sum) {
            UOp *first = store_anew(v, uop_float(v->graph, DT_F32, 0)), *outward = store_outward(v, sum, first);
            uop_map_put(&before, outward, first);
            if (sum != v->src[1]) {
                UOp *rest = store_rest(arena, v, sum, outward);
                uop_map_put(&before, rest, outward);
                outward = rest;
            }
            v = outward;
        }
        uop_map_put(&done, u, v);
    }
    UOp *whole = uop_map_get(&done, sink);
    for (int i = 0; i < whole->n_src; i++) {
        UOp *second = uop_map_get(&before, whole->src[i]), *first = second ? uop_map_get(&before, second) : NULL;
        if (first) vec_push(arena, &statements, first);
        if (second) vec_push(arena, &statements, second);
        vec_push(arena, &statements, whole->src[i]);
    }
    return uop_sink(whole->graph, statements.at, (int)statements.len);
}

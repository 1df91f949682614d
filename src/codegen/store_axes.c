// store_axes: the form of a store's loops: lanes, copies that share what they read, or loops.
// In: a STORE whose folds have their form. Out: the same with RANGE_LANE ranges for what is computed at once.
// Invariant: a loop whose length is data of another loop stays where it is.
// Example: store(o[h, j], Σ_k w[h, k] · v[k, j]), h < 8, j < 64 → 32 lanes of j beside 4 copies of h, which share each v.
#include <string.h>

#include "base/error.h"
#include "codegen/axes_private.h"

enum { SHARED_COPIES = 4, SHORT_UNITS = 48 };
enum { NEAREST_BYTES = 32 << 10, NEXT_BYTES = 256 << 10 };   // of caches that any CPU has

bool has_unit_stride(UOp *index, UOp *range) {
    int64_t step;
    return index_step(index, range, &step) && step == 1;
}

int64_t lanes_dividing(int64_t size, int64_t most) {
    for (int64_t n = most; n > 1; n /= 2) if (size % n == 0) return n;
    return size <= most ? size : 1;
}

// Splits closing range `at` of a store into loop and lanes.
UOp *split_store_by(UOp *store, int at, UOp *lane, bool loop_last) {
    UOp *range = store->src[at], *ranges[MAX_RANGES], *outer = uop_int(store->graph, DT_I32, 0);
    int64_t size = range_size(range), lanes = range_size(lane);
    int n = 0;
    for (int i = 2; i < store->n_src; i++) if (i != at || !loop_last) ranges[n++] = store->src[i];
    if (size > lanes) {
        outer = uop_range_most(store->graph, steps_of(range, lanes), size / lanes, RANGE_LOOP);
    }
    UOp *to = scaled_sum(outer, lanes, lane);
    if (loop_last) {
        bool is_single = n > 0 && range_kind(ranges[n - 1]) == RANGE_SINGLE;   // stays around the store alone
        if (size > lanes && is_single) ranges[n] = ranges[n - 1], ranges[n++ - 1] = outer;
        else if (size > lanes) ranges[n++] = outer;
    }
    else if (size > lanes) ranges[at - 2] = outer;
    else { memmove(ranges + at - 2, ranges + at - 1, (size_t)(n - (at - 1)) * sizeof *ranges); n--; }
    ranges[n++] = lane;
    UOp *index = uop_substitute(store->src[0], &range, &to, 1), *value = uop_substitute(store->src[1], &range, &to, 1);
    return uop_store_as(store, index, value, ranges, n);
}

static UOp *split_store(UOp *store, int at, int64_t lanes, bool loop_last) {
    return split_store_by(store, at, uop_range_const(store->graph, lanes, RANGE_LANE), loop_last);
}

// Whether the end of some loop is data that depends on the range: then it can be neither lanes nor moved inwards.
bool bounds_a_loop(UOp *store, UOp *range) {
    Arena *arena = graph_arena(store->graph);
    UOpList order = uop_toposort_value(arena, store);
    for (size_t k = 0; k < order.len; k++) {
        if (order.at[k]->op != OP_RANGE || range_is_static(order.at[k])) continue;
        UOpList free = uop_free_ranges(arena, order.at[k]->src[0]);
        for (size_t i = 0; i < free.len; i++) if (free.at[i] == range) return true;
    }
    return false;
}

// Bytes of the loads that depend on a range, and of those that do not: what copies along it would share. of_tile: of one tile
// only, where memory that other tiles go through is no reason for copies.
static void shared_bytes(UOp *store, UOp *range, bool of_tile, double *dependent, double *independent) {
    Arena *arena = graph_arena(store->graph);
    ArenaMark mark = arena_mark(arena);
    RangeSets sets = range_sets(arena, store->src[1]);
    UOpList order = uop_toposort_value(arena, store->src[1]);   // not what it only waits for
    *dependent = *independent = 0;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (u->op != OP_LOAD) continue;
        double nbytes = dtype_bytes(u->dtype) * range_sets_trips(&sets, u);
        for (size_t r = 0; of_tile && r < sets.ranges.len; r++)
            if (range_kind(sets.ranges.at[r]) == RANGE_GLOBAL && range_sets_has(&sets, u, r)) nbytes /= (double)range_size(sets.ranges.at[r]);
        if (range_sets_depends(&sets, u, range)) *dependent += nbytes; else *independent += nbytes;
    }
    arena_release(arena, mark);
}

// The loop along which copies share most; the axis must carry the smaller stream, so that no new stream of large memory is
// opened. 0 where none does.
int find_shared_axis(UOp *store, bool of_tile) {
    int best = 0;
    double best_gain = 0;
    for (int i = 2; i < store->n_src; i++) {
        double dependent, independent;
        if (!range_is_static(store->src[i]) || lanes_dividing(range_size(store->src[i]), SHARED_COPIES) == 1) continue;
        if (bounds_a_loop(store, store->src[i])) continue;
        shared_bytes(store, store->src[i], of_tile, &dependent, &independent);
        if (independent > dependent && independent - dependent > best_gain) best = i, best_gain = independent - dependent;
    }
    return best;
}

// The largest divisor of n that is at most `most`.
static int64_t divisor_up_to(int64_t n, int64_t most) {
    while (n % most) most--;
    return most;
}

// Copies along an axis: as many float sums as two thirds of the registers hold, whose own data fill no more than three quarters of the
// nearest cache; where others are summed, or threads compute elements, SHARED_COPIES. own: bytes that depend on the axis.
static int64_t copies_along(UOp *store, int axis, double own, const Target *target) {
    int64_t size = range_size(store->src[axis]), registers = 0;
    UOpList order = uop_toposort_value(graph_arena(store->graph), store->src[1]);
    for (size_t k = 0; k < order.len; k++) {
        if (order.at[k]->op != OP_ACCUM) continue;
        Accum a = accum_parts(order.at[k]);
        if (registers || a.n_lanes != 1 || a.value->dtype != DT_F32) return lanes_dividing(size, SHARED_COPIES);
        registers = range_size(a.lanes[0]) * (int64_t)sizeof(float) / target->vector_bytes;
    }
    int64_t most = registers > 0 ? target->n_vector_registers * 2 / 3 / registers : 0;
    int64_t fit = own > 0 ? (int64_t)(NEAREST_BYTES * 3 / 4 * (double)size / own) : 0;   // 0: the axis has no data of its own
    if (fit < most) most = fit;
    return target->group_threads || most <= SHARED_COPIES ? lanes_dividing(size, SHARED_COPIES) : divisor_up_to(size, most);
}

// The loop of copies goes inside all others, so that what they share is read once, unless it would walk more each time than the
// nearest cache holds: then it stays where it is, and what a tile shares comes again from the cache behind, once a step.
UOp *with_copies(UOp *store, int axis, const Target *target) {
    if (!axis) return store;
    double own, shared;
    shared_bytes(store, store->src[axis], true, &own, &shared);
    bool walks_too_far = own > NEAREST_BYTES && shared <= NEXT_BYTES;
    return split_store(store, axis, copies_along(store, axis, own, target), !walks_too_far);
}

// The elements that a thread computes at once become lanes; made behind those of its sums, which vary fastest then. Those whose
// sums its neighbours bring together for it (THREAD_HALVES) are no loops of the store.
static UOp *with_thread_tile(UOp *store, const Target *target) {
    UOp *from[MAX_RANGES], *to[MAX_RANGES], *ranges[2 * MAX_RANGES];
    UOpList order = {0};
    int n = 0, n_own = 0;
    if (target->shuffle_threads > 1) order = uop_toposort_value(graph_arena(store->graph), store->src[1]);
    for (int i = 2; i < store->n_src; i++) if (range_kind(store->src[i]) != RANGE_UNROLL) ranges[n++] = store->src[i];
    for (int i = store->n_src; i-- > 2;) {
        if (range_kind(store->src[i]) != RANGE_UNROLL) continue;
        from[n_own] = store->src[i];
        ranges[n++] = to[n_own++] = uop_range_const(store->graph, range_size(store->src[i]), RANGE_LANE);
    }
    for (size_t k = order.len; k-- > 0;) {
        UOp *range = order.at[k]->op == OP_THREAD_HALVES ? order.at[k]->src[3] : NULL;
        for (int i = 0; i < n_own && range; i++) if (from[i] == range) range = NULL;
        if (!range) continue;
        CHECK(n_own < MAX_RANGES);
        from[n_own] = range;
        to[n_own++] = uop_range_const(store->graph, range_size(range), RANGE_LANE);
    }
    if (!n_own) return NULL;
    return uop_store_as(store, uop_substitute(store->src[0], from, to, n_own), uop_substitute(store->src[1], from, to, n_own), ranges, n);
}

// Whether it adds to what it stored before (outward.c): its loops walk what a tile shares, step by step.
static bool adds_to_memory(const UOp *store) {
    const UOp *known = store->src[1];
    if (known->op == OP_ADD) known = known->src[1];
    while (known->op == OP_MULADD) known = known->src[2];
    return known != store->src[1] && known->op == OP_LOAD && known->src[0] == store->src[0];
}

// Lanes of sums that half of the registers hold.
static int64_t lanes_of_sums(const Target *target) {
    return target->n_vector_registers / 2 * (target->vector_bytes / (int64_t)sizeof(float));
}

// Lanes of a store whose copies keep sums: each element that copies share serves them all. Where threads compute elements, or
// registers are few, STORE_LANES.
static int64_t lanes_of_copies(const Target *target) {
    int64_t lanes = lanes_of_sums(target) / SHARED_COPIES;
    return target->group_threads || lanes < STORE_LANES ? STORE_LANES : lanes;
}

// Whether the loop `outer` goes on where `inner` ends, in what is stored and in all that is read along either.
static bool goes_on(UOp *store, UOp *outer, UOp *inner) {
    Arena *arena = graph_arena(store->graph);
    UOpList order = uop_toposort(arena, store);
    RangeSets sets = range_sets(arena, store->src[1]);
    int64_t size = range_size(inner), step, next;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        bool is_load = u->op == OP_LOAD && (range_sets_depends(&sets, u, outer) || range_sets_depends(&sets, u, inner));
        if (!is_load && u != store) continue;
        UOp *index = index_of(u);
        if (!index_step(index, inner, &step) || !index_step(index, outer, &next) || step != 1 || next != size) return false;
    }
    return true;
}

// Sums whose lanes are a whole loop take some steps of the loop around it as well, if those lie behind: then each step of a sum reads
// more bytes in one place, and fewer places of memory are walked through at once.
static UOp *with_wider_steps(UOp *store, int last, const Target *target) {
    UOp *inner = store->src[last], *outer = last > 2 ? store->src[last - 1] : NULL;
    int64_t size = range_size(inner), copies;
    if (!outer || target->group_threads || range_kind(outer) != RANGE_LOOP || !range_is_static(outer) || bounds_a_loop(store, outer)) return NULL;
    copies = lanes_dividing(range_size(outer), lanes_of_sums(target) / size);
    if (copies <= 1 || !goes_on(store, outer, inner)) return NULL;
    return split_store(split_store(store, last, size, false), last - 1, copies, false);
}

// Sums of few units, which fill no register of their chains: those of neighbouring elements stand side by side, as many as fit, so that
// they are brought together at once. NULL where some sum has loops, or many units.
static UOp *with_short_sums(UOp *store, const Target *target) {
    int last = store->n_src - 1;
    UOp *range = store->src[last];
    int64_t units = 0;
    if (target->group_threads || !range_is_static(range) || range_kind(range) != RANGE_LOOP) return NULL;
    if (bounds_a_loop(store, range) || !has_unit_stride(index_of(store), range)) return NULL;
    UOpList order = uop_toposort_value(graph_arena(store->graph), store->src[1]);     // not what it only waits for
    RangeSets sets = range_sets(graph_arena(store->graph), store->src[1]);
    for (size_t k = 0; k < order.len; k++) {
        if (order.at[k]->op != OP_ACCUM) continue;
        Accum a = accum_parts(order.at[k]);
        int64_t lanes = 1;
        if (a.n_loops || a.tail || !range_sets_depends(&sets, order.at[k], range)) return NULL;
        for (int i = 0; i < a.n_lanes; i++) lanes *= range_size(a.lanes[i]);
        if (dtype_is_float(a.value->dtype) && lanes > units) units = lanes;
    }
    int64_t rows = 1;
    while (units && 2 * rows * units <= SHORT_UNITS) rows *= 2;
    rows = lanes_dividing(range_size(range), rows);
    return rows > 1 ? split_store(store, last, rows, false) : NULL;
}

UOp *store_axes(UOp *store, const Target *target) {
    UOp *tiled = with_thread_tile(store, target);
    if (tiled) return tiled;
    if (store->n_src == 2) return store;
    if (has_lanes_inside(store->src[1])) {
        UOp *together = with_short_sums(store, target);
        return together ? together : with_copies(store, find_shared_axis(store, false), target);
    }
    int last = store->n_src - 1;
    UOp *range = store->src[last];
    bool loops = has_loops_inside(store->src[1]);
    int64_t lanes = lanes_dividing(range_size(range), loops ? 4 * STORE_LANES : STORE_LANES);
    if (lanes == 1 || bounds_a_loop(store, range) || !has_unit_stride(index_of(store), range)) return store;
    int copied = loops ? find_shared_axis(store, adds_to_memory(store)) : 0;
    if (copied == last) copied = 0;
    UOp *wider = loops && !copied && lanes == range_size(range) ? with_wider_steps(store, last, target) : NULL;
    if (wider) return wider;
    if (!copied) return split_store(store, last, lanes, false);
    return with_copies(split_store(store, last, lanes_dividing(range_size(range), lanes_of_copies(target)), false), copied, target);
}

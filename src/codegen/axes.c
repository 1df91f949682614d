// axes: gives every loop of a kernel its form: a loop, vector lanes, or copies that share work.
// In: FOLDs and STOREs over RANGEs. Out: the same with ACCUM for FOLD, RANGE_LANE ranges, tails for what is left over.
// Invariant: a float sum with c chains keeps its order: unit b is added to chain b mod c in rising b (reductions.def),
// whatever loops and lanes are chosen here.
// Example: fold[SUM, 16](v(k), k<40) → accum(v(16·o + l), loops o<2, lanes l<16, tail v(32 + t), t<8).
#include <string.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "schedule/interleave.h"

enum { MAX_RANGES = 16, WHOLE_LANES = 64, MAX_LANES = 1024, STORE_LANES = 16, SHARED_COPIES = 4, ROW_LANES = 32, BESIDE_LANES = 8 };
enum { NEAREST_BYTES = 32 << 10, NEXT_BYTES = 256 << 10 };   // of caches that any CPU has

Accum accum_parts(const UOp *u) {
    Accum a = {.monoid = (Monoid)u->arg[0], .chains = (int)u->arg[1], .n_loops = (int)u->arg[2],
               .n_lanes = (int)u->arg[3], .n_tail_lanes = (int)u->arg[4], .is_stepwise = u->arg[5], .value = u->src[0]};
    a.loops = u->src + 1;
    a.lanes = a.loops + a.n_loops;
    if (a.n_tail_lanes >= 0) {
        a.tail = a.lanes[a.n_lanes];
        a.tail_lanes = a.lanes + a.n_lanes + 1;
    }
    return a;
}

UOp *accum_new(Accum a) {
    UOp *src[4 * MAX_RANGES] = {a.value};
    int n = 1;
    for (int i = 0; i < a.n_loops; i++) src[n++] = a.loops[i];
    for (int i = 0; i < a.n_lanes; i++) src[n++] = a.lanes[i];
    if (a.tail) {
        src[n++] = a.tail;
        for (int i = 0; i < a.n_tail_lanes; i++) src[n++] = a.tail_lanes[i];
    }
    int64_t arg[6] = {a.monoid, a.chains, a.n_loops, a.n_lanes, a.tail ? a.n_tail_lanes : -1, a.is_stepwise};
    return uop_new(a.value->graph, OP_ACCUM, a.value->dtype, 1, src, n, arg, 6);
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static UOp *scaled_sum(UOp *a, int64_t by, UOp *b) {
    return uop_binary(OP_ADD, uop_binary(OP_MUL, a, uop_int(a->graph, a->dtype, by)), b);
}

// A copy of the value with its inner reduce loops renamed: two copies must not share a loop.
static UOp *rename_loops(UOp *value) {
    Arena *arena = graph_arena(value->graph);
    UOpList order = uop_toposort_value(arena, value);
    UOp **from = arena_new(arena, order.len * sizeof *from), **to = arena_new(arena, order.len * sizeof *to);
    int n = 0;
    for (size_t k = 0; k < order.len; k++) {
        if (order.at[k]->op != OP_ACCUM) continue;
        Accum a = accum_parts(order.at[k]);
        for (int i = 0; i < a.n_loops; i++) {
            from[n] = a.loops[i];
            to[n++] = uop_range(value->graph, a.loops[i]->src[0], range_kind(a.loops[i]));
        }
    }
    return n ? uop_substitute(value, from, to, n) : value;
}

static bool has_loops_inside(UOp *value) {
    UOpList order = uop_toposort_value(graph_arena(value->graph), value);
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_ACCUM && order.at[k]->arg[2] > 0) return true;
    return false;
}

static bool has_lanes_inside(UOp *value) {
    UOpList order = uop_toposort_value(graph_arena(value->graph), value);
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_ACCUM && order.at[k]->arg[3] > 0) return true;
    return false;
}

// How a fold's ranges are split: range `split` into steps of `factor`, all later ones wholly lanes.
typedef struct FoldPlan { int split; int64_t factor; } FoldPlan;

static FoldPlan plan_ranges(UOp *const *ranges, int n, int64_t unit) {
    int64_t inner = 1;   // product of the ranges behind `k`
    for (int k = n - 1; k >= 0; k--) {
        int64_t step = unit / gcd(inner, unit);
        bool fits = range_size(ranges[k]) % step == 0;
        if (fits || k == 0 || !range_is_static(ranges[k])) return (FoldPlan){k, step};
        inner *= range_size(ranges[k]);
    }
    return (FoldPlan){0, unit};
}

// end / step rounded up, of a loop whose end may be data.
static UOp *steps_of(UOp *range, int64_t step) {
    Graph *g = range->graph;
    int64_t n;
    if (uop_is_int_const(range->src[0], &n)) return uop_int(g, DT_I32, n / step);
    UOp *end = uop_binary(OP_ADD, range->src[0], uop_int(g, DT_I32, step - 1));
    return simplify(uop_binary(OP_IDIV, end, uop_int(g, DT_I32, step)));
}

// A float sum in many chains beside lanes of the store: one chain after the other, each in registers, Σ_c Σ_j v(chains · j + c).
static UOp *plan_chain_by_chain(UOp *u) {
    UOp *range = u->src[1];
    int64_t chains = u->arg[1], size = range_size(range);
    Accum outer = {.monoid = MONOID_SUM, .chains = (int)chains, .n_tail_lanes = -1, .n_loops = 1, .is_stepwise = true};
    UOp *c = uop_range_const(u->graph, size < chains ? size : chains, RANGE_REDUCE), *j = NULL, *to = c;
    if (size > chains) {
        j = uop_range_const(u->graph, size / chains, RANGE_REDUCE);
        to = scaled_sum(j, chains, c);
    }
    outer.loops = &c;
    outer.value = rename_loops(uop_substitute(u->src[0], &range, &to, 1));
    if (j) outer.value = accum_new((Accum){.monoid = MONOID_SUM, .chains = 1, .n_tail_lanes = -1, .n_loops = 1, .loops = &j, .value = outer.value});
    return accum_new(outer);
}

static bool is_ordered(const UOp *fold) { return fold->arg[0] == MONOID_SUM && dtype_is_float(fold->dtype); }

// A fold that takes its units one by one, each for all lanes of the store.
static UOp *plan_beside(UOp *u) {
    if (is_ordered(u) && u->arg[1] > 1) return plan_chain_by_chain(u);
    return accum_new((Accum){.monoid = (Monoid)u->arg[0], .chains = (int)u->arg[1], .n_tail_lanes = -1, .n_loops = u->n_src - 1,
                             .loops = u->src + 1, .value = u->src[0]});
}

static UOp *plan_fold(UOp *u, bool is_stepwise) {
    Graph *g = u->graph;
    int n = u->n_src - 1;
    bool ordered = u->arg[0] == MONOID_SUM && dtype_is_float(u->dtype);
    Accum a = {.monoid = (Monoid)u->arg[0], .chains = (int)u->arg[1], .n_tail_lanes = -1, .value = u->src[0]};
    UOp *const *ranges = u->src + 1, *loops[MAX_RANGES], *lanes[MAX_RANGES], *tail_lanes[MAX_RANGES];
    a.loops = ranges, a.n_loops = n;
    a.is_stepwise = is_stepwise && ordered;
    for (int at = 0; at < n; at++) {   // the elements of a word
        if (range_kind(ranges[at]) != RANGE_UNROLL) continue;
        UOp *lane = uop_range_const(g, range_size(ranges[at]), RANGE_LANE);
        a.value = uop_substitute(a.value, &ranges[at], &lane, 1);
        a.n_loops = 0, a.loops = loops, a.lanes = &lane, a.n_lanes = 1;
        for (int i = 0; i < n; i++) if (i != at) loops[a.n_loops++] = ranges[i];
        return accum_new(a);
    }
    if (a.is_stepwise || (ordered && a.chains == 1) || has_loops_inside(u->src[0])) return accum_new(a);

    int64_t total = 1;
    bool all_static = true;
    for (int i = 0; i < n; i++) total *= range_size(ranges[i]), all_static &= range_is_static(ranges[i]);
    FoldPlan plan = plan_ranges(ranges, n, ordered ? a.chains : STORE_LANES);
    if (all_static && total <= (ordered ? a.chains : WHOLE_LANES)) plan = (FoldPlan){0, range_size(ranges[0])};
    UOp *split = ranges[plan.split];
    int64_t size = range_size(split), full = size / plan.factor, rest = size % plan.factor, lanes_count = plan.factor;
    for (int i = plan.split + 1; i < n; i++) lanes_count *= range_size(ranges[i]);
    // What lies behind a thread's share belongs to nobody. Other loops that end at data have terms that are masked there (ragged.c),
    // so that whole steps may be taken.
    if (plan.factor > 1 && ends_at_thread(split)) return accum_new(a);
    if (lanes_count > MAX_LANES || (!range_is_static(split) && rest) || (rest && plan.split > 0)) return accum_new(a);

    int n_loops = 0, n_lanes = 0;
    for (int i = 0; i < plan.split; i++) loops[n_loops++] = ranges[i];
    UOp *outer = uop_int(g, DT_I32, 0), *from[MAX_RANGES], *to[MAX_RANGES];
    if (full > 1 || !range_is_static(split)) outer = loops[n_loops++] = uop_range_most(g, steps_of(split, plan.factor), full, RANGE_REDUCE);
    // Inner lane ranges are made first: expand orders lanes by id.
    int n_moved = n - plan.split, n_rest = 0;
    for (int i = n_moved - 1; i >= 0; i--) {
        from[i] = ranges[plan.split + i];
        if (i > 0) to[i] = uop_range_const(g, range_size(from[i]), RANGE_LANE);
        else to[0] = plan.factor > 1 ? uop_range_const(g, plan.factor, RANGE_LANE) : uop_int(g, DT_I32, 0);
    }
    for (int i = 0; i < n_moved; i++) if (to[i]->op == OP_RANGE) lanes[n_lanes++] = to[i];
    to[0] = scaled_sum(outer, plan.factor, to[0]);
    if (rest) {
        UOp *tail_to[MAX_RANGES];
        for (int i = n_moved - 1; i > 0; i--) tail_to[i] = uop_range_const(g, range_size(from[i]), RANGE_LANE);
        tail_to[0] = rest > 1 ? uop_range_const(g, rest, RANGE_LANE) : uop_int(g, DT_I32, 0);
        for (int i = 0; i < n_moved; i++) if (tail_to[i]->op == OP_RANGE) tail_lanes[n_rest++] = tail_to[i];
        tail_to[0] = uop_binary(OP_ADD, uop_int(g, DT_I32, full * plan.factor), tail_to[0]);
        a.tail = rename_loops(uop_substitute(u->src[0], from, tail_to, n_moved));
        a.tail_lanes = tail_lanes, a.n_tail_lanes = n_rest;
        if (full == 0) a.value = a.tail, a.tail = NULL, memcpy(lanes, tail_lanes, sizeof lanes), n_lanes = n_rest;
    }
    if (full > 0) a.value = uop_substitute(u->src[0], from, to, n_moved);
    a.loops = loops, a.n_loops = n_loops;
    a.lanes = lanes, a.n_lanes = n_lanes;
    a.is_stepwise = is_stepwise && !a.tail;
    return accum_new(a);
}

// Halves are summed in f32 and rounded once.
static UOp *plan_fold_wide(UOp *u, bool is_stepwise) {
    if (u->dtype != DT_F16 && u->dtype != DT_BF16) return plan_fold(u, is_stepwise);
    UOp *wide = uop_fold((Monoid)u->arg[0], (int)u->arg[1], uop_cast(u->src[0], DT_F32), u->src + 1, u->n_src - 1);
    return uop_cast(plan_fold(wide, false), u->dtype);
}

// ---------------------------------------------------------------- stores

static UOp *index_of(UOp *access) { return access->src[0]->src[1]; }   // of a store or load

static bool has_unit_stride(UOp *index, UOp *range) {
    int64_t step;
    return index_step(index, range, &step) && step == 1;
}

static int64_t lanes_for(int64_t size, int64_t most) {
    for (int64_t n = most; n > 1; n /= 2) if (size % n == 0) return n;
    return size <= most ? size : 1;
}

// Splits closing range `at` of a store into loop and lanes.
static UOp *split_store_by(UOp *store, int at, UOp *lane, bool loop_last) {
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
static bool bounds_a_loop(UOp *store, UOp *range) {
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
static int find_shared_axis(UOp *store, bool of_tile) {
    int best = 0;
    double best_gain = 0;
    for (int i = 2; i < store->n_src; i++) {
        double dependent, independent;
        if (!range_is_static(store->src[i]) || lanes_for(range_size(store->src[i]), SHARED_COPIES) == 1) continue;
        if (bounds_a_loop(store, store->src[i])) continue;
        shared_bytes(store, store->src[i], of_tile, &dependent, &independent);
        if (independent > dependent && independent - dependent > best_gain) best = i, best_gain = independent - dependent;
    }
    return best;
}

// Whether a loop of copies, which goes inside all others so that what they share is read once, would walk more each time than
// the nearest cache holds. Then it stays where it is, and what a tile shares comes again from the cache behind, once a step.
static bool walks_too_far(UOp *store, int axis) {
    double dependent, independent;
    shared_bytes(store, store->src[axis], true, &dependent, &independent);
    return dependent > NEAREST_BYTES && independent <= NEXT_BYTES;
}

// The largest divisor of n that is at most `most`.
static int64_t divisor_up_to(int64_t n, int64_t most) {
    while (n % most) most--;
    return most;
}

// Copies along an axis: as many float sums as two thirds of the registers hold, whose own data fill no more than three quarters of the
// nearest cache; where others are summed, or threads compute elements, SHARED_COPIES.
static int64_t copies_along(UOp *store, int axis, const Target *target) {
    int64_t size = range_size(store->src[axis]), registers = 0;
    UOpList order = uop_toposort_value(graph_arena(store->graph), store->src[1]);
    for (size_t k = 0; k < order.len; k++) {
        if (order.at[k]->op != OP_ACCUM) continue;
        Accum a = accum_parts(order.at[k]);
        if (registers || a.n_lanes != 1 || a.value->dtype != DT_F32) return lanes_for(size, SHARED_COPIES);
        registers = range_size(a.lanes[0]) * (int64_t)sizeof(float) / target->vector_bytes;
    }
    double dependent, independent;
    shared_bytes(store, store->src[axis], true, &dependent, &independent);
    int64_t most = registers > 0 ? target->n_vector_registers * 2 / 3 / registers : 0;
    int64_t fit = (int64_t)(NEAREST_BYTES * 3 / 4 * (double)size / dependent);
    if (fit < most) most = fit;
    return target->group_threads || most <= SHARED_COPIES ? lanes_for(size, SHARED_COPIES) : divisor_up_to(size, most);
}

static UOp *with_copies(UOp *store, int axis, const Target *target) {
    return axis ? split_store(store, axis, copies_along(store, axis, target), !walks_too_far(store, axis)) : store;
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
    const UOp *v = store->src[1], *known = v->op == OP_MULADD ? v->src[2] : v->op == OP_ADD ? v->src[1] : NULL;
    return known && known->op == OP_LOAD && known->src[0] == store->src[0];
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
    copies = lanes_for(range_size(outer), lanes_of_sums(target) / size);
    if (copies <= 1 || !goes_on(store, outer, inner)) return NULL;
    return split_store(split_store(store, last, size, false), last - 1, copies, false);
}

static UOp *plan_store(UOp *store, const Target *target) {
    UOp *tiled = with_thread_tile(store, target);
    if (tiled) return tiled;
    if (store->n_src == 2) return store;
    if (has_lanes_inside(store->src[1])) return with_copies(store, find_shared_axis(store, false), target);
    int last = store->n_src - 1;
    UOp *range = store->src[last];
    bool loops = has_loops_inside(store->src[1]);
    int64_t lanes = lanes_for(range_size(range), loops ? 4 * STORE_LANES : STORE_LANES);
    if (lanes == 1 || bounds_a_loop(store, range) || !has_unit_stride(index_of(store), range)) return store;
    int copied = loops ? find_shared_axis(store, adds_to_memory(store)) : 0;
    if (copied == last) copied = 0;
    UOp *wider = loops && !copied && lanes == range_size(range) ? with_wider_steps(store, last, target) : NULL;
    if (wider) return wider;
    if (!copied) return split_store(store, last, lanes, false);
    return with_copies(split_store(store, last, lanes_for(range_size(range), lanes_of_copies(target)), false), copied, target);
}

// ---------------------------------------------------------------- rows that share weights

// Bytes at loop = n, in words of 4 from those at loop = 0.
static bool lies_at_word(UOp *index, UOp *loop, int64_t n) {
    int64_t apart;
    UOp *first = uop_int(loop->graph, DT_I32, 0), *at = uop_int(loop->graph, DT_I32, n);
    UOp *moved = uop_binary(OP_SUB, uop_substitute(index, &loop, &at, 1), uop_substitute(index, &loop, &first, 1));
    return uop_is_int_const(simplify(moved), &apart) && apart == n * INTERLEAVED_BYTES;
}

static bool is_interleaved(void *context, UOp *load, UOp *loop) {
    (void)context;
    UOp *index = load->src[0]->src[1];
    return lies_at_word(index, loop, 1) && lies_at_word(index, loop, INTERLEAVED_ROWS - 1);
}

// A loop of a store that becomes lanes: made before all others, as expand lets small ids vary fastest.
typedef struct Rows { UOp *loop, *lane; bool is_beside; } Rows;

// Whether a fold's values lie side by side along the loop: what it loads is the same for all of its steps, or the next cell.
static bool lies_beside(const RangeSets *sets, UOp *fold, UOp *loop) {
    Arena *arena = graph_arena(fold->graph);
    UOpList order = uop_toposort_value(arena, fold->src[0]);
    bool is_wide = false;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        int64_t step;
        if (u->op != OP_LOAD || !range_sets_depends(sets, u, loop)) continue;
        if (u->n_src > 1 || !index_step(u->src[0]->src[1], loop, &step) || step != 1) return false;
        is_wide |= range_sets_depends(sets, u, fold->src[1]);
    }
    return is_wide;
}

// The last loop of a store whose sums and maxima all have their terms side by side along it: lanes that need no sum of lanes.
static UOp *loop_beside(Arena *arena, UOp *store) {
    UOp *loop = store->n_src > 2 ? store->src[store->n_src - 1] : NULL;
    bool is_needed = false;
    if (!loop || !range_is_static(loop) || range_size(loop) % BESIDE_LANES || range_kind(loop) != RANGE_LOOP) return NULL;
    if (!has_unit_stride(index_of(store), loop) || bounds_a_loop(store, loop)) return NULL;
    RangeSets sets = range_sets(arena, store->src[1]);
    for (size_t k = 0; k < sets.order.len; k++) {
        UOp *u = sets.order.at[k];
        if (u->op != OP_FOLD || !range_sets_depends(&sets, u, loop)) continue;
        if (u->n_src != 2 || u->dtype != DT_F32 || !lies_beside(&sets, u, loop)) return NULL;
        bool has_chains = is_ordered(u) && u->arg[1] > 1;
        if (has_chains && (!range_is_static(u->src[1]) || (range_size(u->src[1]) > u->arg[1] && range_size(u->src[1]) % u->arg[1]))) return NULL;
        is_needed |= has_chains || !is_ordered(u);
    }
    return is_needed ? loop : NULL;
}

// The stores that have one, and the folds that depend on it: both as keys.
static UOpMap find_rows(Arena *arena, const UOpList *order, const Target *target) {
    UOpMap rows;
    uop_map_init(&rows, arena);
    for (size_t k = 0; k < order->len; k++) {
        UOp *store = order->at[k], *loop = uop_is_store(store) ? interleave_loop(arena, store, is_interleaved, NULL) : NULL;
        bool is_beside = uop_is_store(store) && !loop && !target->group_threads && (loop = loop_beside(arena, store)) != NULL;
        if (!loop) continue;
        RangeSets sets = range_sets(arena, store->src[1]);
        Rows *r = arena_new(arena, sizeof *r);
        int64_t most = is_beside ? STORE_LANES : ROW_LANES;
        *r = (Rows){loop, uop_range_const(store->graph, lanes_for(range_size(loop), most), RANGE_LANE), is_beside};
        uop_map_put(&rows, store, r);
        for (size_t i = 0; i < sets.order.len; i++) {
            UOp *fold = sets.order.at[i];
            bool is_spread = fold->op == OP_FOLD && (is_beside || dtype_is_int(fold->dtype) || fold->arg[1] > 1);   // one chain has no lanes anyway
            if (is_spread && range_sets_depends(&sets, fold, loop)) uop_map_put(&rows, fold, r);
        }
    }
    return rows;
}

static UOp *with_row_lanes(UOp *store, const Rows *rows, const Target *target) {
    int at = 2;
    while (store->src[at] != rows->loop) at++;
    store = split_store_by(store, at, rows->lane, false);
    return rows->is_beside ? with_copies(store, find_shared_axis(store, true), target) : store;
}

UOp *axes_plan(UOp *sink, const Target *target) {
    Arena *arena = graph_arena(sink->graph);
    UOpList order = uop_toposort(arena, sink);
    UOpMap done, rows = find_rows(arena, &order, target);
    uop_map_init(&done, arena);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *v = uop_renewed(u, &done);
        const Rows *row = uop_map_get(&rows, u);
        if (v->op == OP_FOLD) v = row && row->is_beside ? plan_beside(v) : plan_fold_wide(v, row != NULL);
        if (uop_is_store(v)) v = row ? with_row_lanes(v, row, target) : plan_store(v, target);
        uop_map_put(&done, u, v);
    }
    return uop_map_get(&done, sink);
}

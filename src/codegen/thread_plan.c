// thread_plan: which threads of a group do what: how many share the sums of an element, how many elements one takes.
// In: a store of a kernel. Out: a Plan; and how many threads a group has. Invariant: nothing is changed here.
// Example: 32 rows of 64 blocks, 512 threads: 32 neighbouring threads a row, 16 rows at a time.
#include "codegen/threads_private.h"

// What threads can share of a fold: steps, or words of them.
double shared_trips(const UOp *fold) {
    double trips = 1;
    for (int i = 1; i < fold->n_src; i++) if (range_kind(fold->src[i]) != RANGE_UNROLL) trips *= (double)range_size(fold->src[i]);
    return trips;
}

// The folds worth sharing: the outermost with enough steps.
static void find_folds(Spread *x, UOp *u, UOpMap *seen, Plan *plan) {
    if (uop_map_get(seen, u) || uop_map_get(&x->parts, u)) return;
    uop_map_put(seen, u, u);
    if (u->op == OP_FOLD && shared_trips(u) >= LEAST_TRIPS && u->n_src <= MAX_LOOPS) {
        if (plan->n_folds < MAX_FOLDS) plan->fold[plan->n_folds++] = u;
        return;
    }
    int n = u->op == OP_AFTER || u->op == OP_FOLD || u->op == OP_RANGE ? (u->op == OP_RANGE ? 0 : 1) : u->n_src;
    for (int i = 0; i < n; i++) find_folds(x, u->src[i], seen, plan);
}

// Bytes between what neighbouring steps of a loop read, other loops standing still; 0: the same, −1: not known.
static double step_of(Spread *x, UOp *load, UOp *range) {
    UOp *index = load->src[0]->src[1], *from[2 * MAX_LOOPS], *lo[2 * MAX_LOOPS], *hi[2 * MAX_LOOPS];
    UOpList order = uop_toposort_value(x->arena, index);
    int64_t most = range_size(range) - 1, apart;
    int n = 0;
    for (size_t k = 0; k < order.len && n < 2 * MAX_LOOPS; k++) {
        if (order.at[k]->op != OP_RANGE) continue;
        from[n] = order.at[k];
        lo[n] = number(range, 0);
        hi[n++] = number(range, order.at[k] == range ? most : 0);
    }
    if (most <= 0) return 0;
    UOp *difference = uop_binary(OP_SUB, uop_substitute(index, from, hi, n), uop_substitute(index, from, lo, n));
    if (!uop_is_int_const(simplify(difference), &apart)) return -1;
    double step = (double)apart * dtype_bytes((DType)uop_buffer_of(load->src[0])->dtype) / (double)most;
    return step < 0 ? -step : step;
}

// Whether neighbouring steps of the folds lie nearer in memory than neighbouring elements of the store, where most is read.
static bool folds_lie_nearer(Spread *x, UOp *store, const Plan *plan) {
    RangeSets sets = range_sets(x->arena, store->src[1]);
    UOp *last = store->n_src > 2 ? store->src[store->n_src - 1] : NULL, *heaviest = NULL, *inner = NULL;
    double most = 0;
    for (size_t k = 0; k < sets.order.len; k++) {
        UOp *u = sets.order.at[k];
        double nbytes = u->op == OP_LOAD ? range_sets_trips(&sets, u) * dtype_bytes((DType)u->dtype) : 0;
        for (int f = 0; f < plan->n_folds && nbytes > most; f++) {
            UOp *own = plan->fold[f]->src[plan->fold[f]->n_src - 1];
            if (range_sets_depends(&sets, u, own) && (!last || range_sets_depends(&sets, u, last))) most = nbytes, heaviest = u, inner = own;
        }
    }
    if (!heaviest || !last || is_guard(last)) return true;
    double along_fold = step_of(x, heaviest, inner), along_store = step_of(x, heaviest, last);
    return along_fold >= 0 && (along_store < 0 || along_fold <= along_store);
}

// Whether folds stand inside of others, each of whose steps needs them whole.
static bool are_nested(Spread *x, const UOp *store, const Plan *plan) {
    RangeSets sets = range_sets(x->arena, store->src[1]);
    for (size_t i = 0; i < sets.ranges.len; i++) {
        UOp *range = sets.ranges.at[i];
        if (range_kind(range) != RANGE_REDUCE) continue;
        for (int f = 0; f < plan->n_folds; f++) if (range_sets_depends(&sets, plan->fold[f], range)) return true;
    }
    return false;
}

// Threads for folds of so many steps: without a rest where that costs little.
static int64_t lanes_for(double trips, int64_t most) {
    int64_t n = (int64_t)trips, even = n & -n, lanes = power_from(n);
    if (lanes > most) lanes = most;
    return n % lanes && n < FEW_TURNS * lanes && even >= LEAST_TRIPS && even < lanes ? even : lanes;
}

// Elements along the innermost loops, as far as no fold changes with them; powers of two, so that neighbouring threads take
// neighbouring elements of the same folds.
static int64_t common_elements(Spread *x, const UOp *store, const Plan *plan) {
    RangeSets sets = range_sets(x->arena, store->src[1]);
    int64_t n = 1;
    for (int i = store->n_src; i-- > 2;) {
        UOp *range = store->src[i];
        if (!range_is_static(range) || power_from(range_size(range)) != range_size(range)) return n;
        for (int f = 0; f < plan->n_folds; f++) if (range_sets_depends(&sets, plan->fold[f], range)) return n;
        n *= range_size(range);
    }
    return n;
}

void find_folds_of(Spread *x, UOp *store, Plan *plan) {
    UOpMap seen;
    uop_map_init(&seen, x->arena);
    plan->n_folds = 0;
    find_folds(x, store->src[1], &seen, plan);
}

// Threads of a group, each with twice the registers that one of a full group has.
static int64_t tile_threads(const Target *target) { return target->group_threads / 2; }

// Where a thread has many elements that share what they read, threads share sums only as far as elements leave some idle.
// At least `least` of them, if there are steps for so many.
static int64_t lanes_of_tile(const Plan *plan, double elements, double trips, int64_t least, int64_t most) {
    int64_t lanes = 1;
    for (;; lanes *= 2) {
        bool is_idle = (double)(2 * lanes) * elements <= (double)most * (double)plan->tile.elements && trips / (double)(2 * lanes) >= LEAST_TRIPS;
        if (2 * lanes > most || (int64_t)trips % (2 * lanes) || (2 * lanes > least && !is_idle)) return lanes;
    }
}

// What one loop alone shares pays where there are elements for all threads of a group still, or tiles for most of the target's.
static bool keeps_threads(const Spread *x, const Plan *plan, double elements) {
    double group = (double)x->target->group_threads, own = elements / (double)plan->tile.elements;
    return own >= group || x->tiles * own * (double)plan->lanes >= FEW_TURNS * x->target->tiles.width * group;
}

Plan plan_store(Spread *x, UOp *store, int64_t most) {
    Plan plan = {.lanes = 1, .tile.elements = 1};
    double trips = 0, elements = trips_of(store->src + 2, store->n_src - 2);
    find_folds_of(x, store, &plan);
    for (int i = 0; i < plan.n_folds; i++) {
        double own = shared_trips(plan.fold[i]);
        if (own > trips) trips = own;
    }
    if (plan.n_folds == 0) return plan;
    int64_t common = common_elements(x, store, &plan), at_once = x->target->shuffle_threads < most ? x->target->shuffle_threads : most;
    if (common >= LEAST_TRIPS && at_once > 1) {
        plan.lanes = lanes_for(trips, common < at_once ? common : at_once), plan.is_common = true;
        return plan;
    }
    ThreadTile tile = thread_tile(x->arena, store, x->elements);
    if (tile.n > 0) {
        // Neighbours that read other rows each touch a line of memory of their own. Rows are shared where their sums are brought
        // together once.
        bool is_near = (tile.n == 1 || !are_nested(x, store, &plan)) && x->target->shuffle_threads >= NEAR_LANES;
        int64_t least = is_near && folds_lie_nearer(x, store, &plan) ? NEAR_LANES : 1;
        Plan tiled = plan;
        tiled.tile = tile;
        tiled.lanes = lanes_of_tile(&tiled, elements, trips, least, tile_threads(x->target));
        if (tile.n > 1 || keeps_threads(x, &tiled, elements)) return tiled;
    }
    if (folds_lie_nearer(x, store, &plan)) {
        plan.lanes = lanes_for(trips, most < WARP ? most : WARP);
        while (plan.lanes >= WARP && 2 * plan.lanes <= most && elements * (double)plan.lanes * 2 <= (double)most &&
               trips / (double)plan.lanes >= LONG_TRIPS)
            plan.lanes *= 2;
    } else {
        while (2 * plan.lanes <= WARP && elements * (double)plan.lanes * 2 <= (double)most && trips / (double)plan.lanes >= LEAST_TRIPS) plan.lanes *= 2;
    }
    return plan;
}

// Threads that have something to do. Tiles of elements are left alone where most of the work is in statements without them,
// which would miss the other threads.
int64_t threads_wanted(Spread *x, UOp *sink, int64_t most) {
    int64_t wanted[2] = {1, 1};
    double work[2] = {0, 0};
    x->has_products = false;
    for (int i = 0; i < sink->n_src; i++) {
        UOp *store = sink->src[i];
        if (!uop_is_store(store)) continue;
        Plan plan = plan_store(x, store, most);
        bool is_tiled = plan.tile.n > 0;
        x->has_products |= plan.tile.n > 1;
        double elements = trips_of(store->src + 2, store->n_src - 2), trips = 1;
        for (int f = 0; f < plan.n_folds; f++) trips += trips_of(plan.fold[f]->src + 1, plan.fold[f]->n_src - 1);
        double n = (double)(plan.is_common ? 1 : plan.lanes) * elements / (double)plan.tile.elements;
        int64_t threads = n >= (double)most ? most : power_from((int64_t)n);
        if (threads > wanted[is_tiled]) wanted[is_tiled] = threads;
        work[is_tiled] += elements * trips;
    }
    if (work[1] == 0 || work[1] < work[0]) {
        if (x->elements == 1) return wanted[0];
        x->elements = 1;
        return threads_wanted(x, sink, most);
    }
    int64_t threads = wanted[1] > wanted[0] ? wanted[1] : wanted[0], limit = tile_threads(x->target);
    return threads < limit ? threads : limit;
}

// axes: gives every loop of a kernel its form: a loop, vector lanes, or copies that share work.
// In: FOLDs and STOREs over RANGEs. Out: the same with ACCUM for FOLD, RANGE_LANE ranges, tails for what is left over.
// Invariant: a float sum with c chains keeps its order: unit b is added to chain b mod c in rising b (reductions.def),
// whatever loops and lanes are chosen here.
// Example: fold[SUM, 16](v(k), k<40) → accum(v(16·o + l), loops o<2, lanes l<16, tail v(32 + t), t<8).
#include <string.h>

#include "base/error.h"
#include "codegen/axes_private.h"
#include "schedule/interleave.h"

enum { WHOLE_LANES = 64, MAX_LANES = 1024, ROW_LANES = 32, BESIDE_LANES = 8 };

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

UOp *scaled_sum(UOp *a, int64_t by, UOp *b) {
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

bool has_loops_inside(UOp *value) {
    UOpList order = uop_toposort_value(graph_arena(value->graph), value);
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_ACCUM && order.at[k]->arg[2] > 0) return true;
    return false;
}

bool has_lanes_inside(UOp *value) {
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
UOp *steps_of(UOp *range, int64_t step) {
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

// A value where a condition holds, else 0: of products both factors, so that they are still added in one step.
static UOp *value_or_zero(UOp *condition, UOp *value) {
    UOp *zero = uop_cast(uop_int(value->graph, DT_I32, 0), value->dtype), *src[3];
    if (value->op != OP_MUL && value->op != OP_MULADD) return uop_where(condition, value, zero);
    for (int i = 0; i < 2; i++) src[i] = uop_where(condition, value->src[i], zero);
    if (value->op == OP_MULADD) src[2] = value_or_zero(condition, value->src[2]);
    return uop_with_src(value, src);
}

// What is left over of a row of sums as one more whole step: its first units stand in the places behind the last, and add nothing. So no
// shorter registers are needed, and whole ones that hold what is repeated are computed once.
static void plan_whole_tail(Accum *a, UOp *value, UOp *range, int64_t first, int64_t rest, int64_t factor, UOp **lane) {
    Graph *g = value->graph;
    *lane = uop_range_const(g, factor, RANGE_LANE);
    UOp *unit = uop_binary(OP_ADD, uop_int(g, DT_I32, first), uop_binary(OP_MOD, *lane, uop_int(g, DT_I32, rest)));
    UOp *adds = uop_binary(OP_LT, *lane, uop_int(g, DT_I32, rest));
    a->tail = value_or_zero(adds, rename_loops(uop_substitute(value, &range, &unit, 1)));
    a->tail_lanes = lane, a->n_tail_lanes = 1;
}

static UOp *plan_fold(UOp *u, bool is_stepwise, bool has_whole_tails) {
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
    if (has_whole_tails && rest > plan.factor / 2 && full > 0 && n_moved == 1 && ordered && has_lanes_inside(u->src[0]))
        plan_whole_tail(&a, u->src[0], from[0], full * plan.factor, rest, plan.factor, tail_lanes);
    else if (rest) {
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
static UOp *plan_fold_wide(UOp *u, bool is_stepwise, bool has_whole_tails) {
    if (u->dtype != DT_F16 && u->dtype != DT_BF16) return plan_fold(u, is_stepwise, has_whole_tails);
    UOp *wide = uop_fold((Monoid)u->arg[0], (int)u->arg[1], uop_cast(u->src[0], DT_F32), u->src + 1, u->n_src - 1);
    return uop_cast(plan_fold(wide, false, has_whole_tails), u->dtype);
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
        *r = (Rows){loop, uop_range_const(store->graph, lanes_dividing(range_size(loop), most), RANGE_LANE), is_beside};
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
        if (v->op == OP_FOLD) v = row && row->is_beside ? plan_beside(v) : plan_fold_wide(v, row != NULL, target->wide_stores != 0);
        if (uop_is_store(v)) {
            Target own = store_target(target, v);
            v = row ? with_row_lanes(v, row, &own) : store_axes(v, &own);
        }
        uop_map_put(&done, u, v);
    }
    return uop_map_get(&done, sink);
}

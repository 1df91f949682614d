// threads: the threads of a group share a tile, on targets where a tile is a group.
// In: a kernel. Out: the same, each store and some of its sums spread over the threads: SPECIAL 1 is the thread, THREAD_XOR
// brings partial results together by the monoid's own combining op, THREAD_HALVES those of a thread's tile, of which each thread keeps
// some, BARRIERs stand where a statement touches what threads of an earlier one wrote or read. A LAST_TILE is such a barrier, too.
// Invariant: each element is stored once, by one thread; a THREAD_XOR that needs a barrier is reached by all threads alike.
// Example: 32 rows of 64 blocks, 512 threads: 16 rows at a time, 32 neighbouring threads a row, 2 blocks a thread, 5 steps of
// x + thread_xor(x).
#include <string.h>

#include "base/error.h"
#include "base/vec.h"
#include "codegen/codegen.h"
#include "codegen/threads_private.h"
#include "ir/rewrite.h"

static UOp *quotient(UOp *u, int64_t by) { return by == 1 ? u : uop_binary(OP_IDIV, u, number(u, by)); }
static UOp *remainder_of(UOp *u, int64_t by) { return uop_binary(OP_MOD, u, number(u, by)); }

// ---------------------------------------------------------------- splitting loops over threads

// Steps of a loop that thread `at` of `threads` takes, at, at + threads, …
static UOp *steps_of_thread(UOp *range, UOp *at, int64_t threads, RangeKind kind) {
    UOp *left = uop_binary(OP_ADD, uop_binary(OP_SUB, range->src[0], at), number(at, threads - 1));
    int64_t most = (range_size(range) + threads - 1) / threads;
    UOp *end = uop_binary(OP_IDIV, uop_binary(OP_MAX, left, number(at, 0)), number(at, threads));
    return uop_range_most(range->graph, simplify(end), most, kind);
}

bool ends_at_thread(const UOp *range) {
    if (range_is_static(range)) return false;
    UOpList order = uop_toposort_value(graph_arena(range->graph), range->src[0]);
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == OP_SPECIAL && order.at[k]->arg[0] == 1) return true;
    return false;
}

// What a list of loops becomes for thread `at` of `threads`: loop i is replaced by to[i], outer loops stay.
typedef struct Split {
    UOp *from[MAX_LOOPS], *to[MAX_LOOPS], *loop[MAX_LOOPS], *only;   // loop: what stays of it, or NULL; only: a guard
    int n;
    bool is_uniform;           // all threads take the same steps
} Split;

static void split_add(Split *s, UOp *from, UOp *to, UOp *loop) {
    s->from[s->n] = from, s->to[s->n] = to, s->loop[s->n++] = loop;
}

static UOp *guard_of(UOp *at, RangeKind kind) {
    UOp *is_first = uop_binary(OP_LT, at, number(at, 1));
    return uop_range_most(at->graph, uop_where(is_first, number(at, 1), number(at, 0)), 1, kind);
}

// Innermost loops first: neighbouring threads take neighbouring steps.
static Split split_loops(UOp *const *ranges, int n, UOp *at, int64_t threads, RangeKind kind) {
    Split s = {.is_uniform = true};
    for (int i = n; i-- > 0 && threads > 1;) {
        UOp *range = ranges[i];
        int64_t size = range_size(range);
        if (is_guard(range) || range_kind(range) == RANGE_UNROLL) continue;
        if (range_is_static(range) && threads % size == 0) {
            split_add(&s, range, threads == size ? at : remainder_of(at, size), NULL);
            at = quotient(at, size), threads /= size;
        } else if (size < threads) {   // as the next power of two, of which some have nothing to do
            int64_t some = power_from(size);
            UOp *own = some == threads ? at : remainder_of(at, some), *is_there = uop_binary(OP_LT, own, range->src[0]);
            // Loads may move out of the guard: what they read lies inside for threads without a step, too.
            UOp *inside = some > size ? uop_binary(OP_MIN, own, number(own, size - 1)) : own;
            split_add(&s, range, inside, uop_range_most(range->graph, uop_where(is_there, number(own, 1), number(own, 0)), 1, kind));
            at = quotient(at, some), threads /= some;
            s.is_uniform = false;
        } else {
            bool is_even = range_is_static(range) && size % threads == 0;
            UOp *loop = is_even ? uop_range_const(range->graph, size / threads, kind) : steps_of_thread(range, at, threads, kind);
            split_add(&s, range, uop_binary(OP_ADD, uop_binary(OP_MUL, loop, number(at, threads)), at), loop);
            s.is_uniform &= is_even;
            threads = 1;
        }
    }
    if (threads > 1) s.only = guard_of(at, kind), s.is_uniform = false;
    return s;
}

// The loops of a statement after a split, in their order; what ends at data may depend on loops outside.
static int loops_after(const Split *s, UOp *const *ranges, int n, UOp **out) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        UOp *loop = ranges[i];
        for (int k = 0; k < s->n; k++) if (s->from[k] == ranges[i]) loop = s->loop[k];
        if (loop) out[count++] = loop;
    }
    if (s->only) out[count++] = s->only;
    return count;
}

// Replaces one after the other: what stands for a loop may itself end at data that depends on one further out.
static UOp *replaced(UOp *u, const Split *s) {
    for (int k = 0; k < s->n; k++) u = uop_substitute(u, &s->from[k], &s->to[k], 1);
    return u;
}

// ---------------------------------------------------------------- sums over threads

// left: of `lanes` neighbours, those that bring the value together.
static UOp *across_few(Spread *x, Monoid monoid, UOp *value, int64_t left, int64_t lanes) {
    for (int64_t d = left / 2; d > 0; d /= 2) {
        UOp *other = uop_new(x->graph, OP_THREAD_XOR, value->dtype, 1, &value, 1, (int64_t[]){d, lanes}, 2);
        value = uop_new(x->graph, monoid_info[monoid].combine, value->dtype, 1, (UOp *[]){other, value}, 2, NULL, 0);
    }
    return value;
}

static UOp *across(Spread *x, Monoid monoid, UOp *value, int64_t lanes) { return across_few(x, monoid, value, lanes, lanes); }

// The loop over most of a tile's elements, half by half.
static Halves halves_of(Spread *x, const UOp *store, int64_t lanes) {
    Halves h = {.left = lanes};
    UOp *most = NULL;
    for (int i = 2; i < store->n_src; i++)
        if (range_kind(store->src[i]) == RANGE_UNROLL && (!most || range_size(store->src[i]) > range_size(most))) most = store->src[i];
    int64_t size = most ? range_size(most) : 1;
    for (UOp *from = most; size % 2 == 0 && h.left > 1; from = h.to[h.n++]) {
        size /= 2, h.left /= 2;
        UOp *second = remainder_of(quotient(x->thread, h.left), 2), *first_of = uop_binary(OP_MUL, second, number(second, size));
        h.from[h.n] = from;
        h.bit[h.n] = uop_binary(OP_LT, number(second, 0), second);
        h.to[h.n] = size > 1 ? uop_range_const(x->graph, size, RANGE_UNROLL) : number(second, 0);
        h.at = h.at ? uop_binary(OP_ADD, h.at, first_of) : first_of;
    }
    if (h.n && size > 1) h.at = uop_binary(OP_ADD, h.at, h.to[h.n - 1]);
    return h;
}

// A sum of parts for all threads that have parts; or, what stands for it, of each thread's own elements.
static UOp *together(Spread *x, Halves *h, Monoid monoid, UOp *value, int64_t lanes) {
    if (!h->n) return across(x, monoid, value, lanes);
    for (int i = 0, left = (int)lanes / 2; i < h->n; i++, left /= 2) {
        UOp *src[4] = {value, h->bit[i], h->to[i], h->from[i]};
        value = uop_new(x->graph, OP_THREAD_HALVES, (DType)value->dtype, 1, src, 4, (int64_t[]){left, lanes, monoid}, 3);
    }
    vec_push(x->arena, &h->whole, across_few(x, monoid, value, h->left, lanes));
    UOp *sum = uop_new(x->graph, OP_DEFINE_REG, (DType)value->dtype, 1, NULL, 0, (int64_t[]){graph_unique(x->graph), 1}, 2);
    vec_push(x->arena, &h->sum, sum);
    return sum;
}

// A store of each thread's own elements, whose sums `sum` stands for.
static UOp *shared_out(UOp *store, UOp *value, const Halves *h) {
    UOp *loops[2 * MAX_LOOPS], *all = h->from[0], *own = h->to[h->n - 1], *index = uop_substitute(store->src[0], &all, &h->at, 1);
    int n = 0;
    for (int i = 2; i < store->n_src; i++) {
        if (store->src[i] != all) loops[n++] = store->src[i];
        else if (own->op == OP_RANGE) loops[n++] = own;
    }
    value = uop_substitute(uop_substitute(value, &all, &h->at, 1), h->sum.at, h->whole.at, (int)h->sum.len);
    return uop_store_as(store, index, value, loops, n);
}

static UOp *spread_fold(Spread *x, UOp *fold, int64_t lanes) {
    Monoid monoid = (Monoid)fold->arg[0];
    bool is_half = fold->dtype == DT_F16 || fold->dtype == DT_BF16;   // summed in f32, rounded once
    UOp *loops[MAX_LOOPS], *value = is_half ? uop_cast(fold->src[0], DT_F32) : fold->src[0];
    Split s = split_loops(fold->src + 1, fold->n_src - 1, remainder_of(x->thread, lanes), lanes, RANGE_REDUCE);
    int n = loops_after(&s, fold->src + 1, fold->n_src - 1, loops);
    for (int i = 0; i < n; i++) loops[i] = replaced(loops[i], &s);
    UOp *part = replaced(value, &s);
    if (n) part = uop_fold(monoid, 1, part, loops, n);
    return is_half ? uop_cast(across(x, monoid, part, lanes), (DType)fold->dtype) : part;
}

// Where elements are shared out, what is much work is done behind that, by the one thread that keeps the element.
static double work_of(const UOp *u) {
    double work = op_info[u->op].cost;
    if (u->op == OP_LOAD || u->op == OP_RANGE) return 1;
    for (int i = 0; i < (u->op == OP_AFTER || u->op == OP_FOLD ? 1 : u->n_src) && work <= JOIN_WORK; i++) work += work_of(u->src[i]);
    return work;
}

// Sums of sums and multiples of them come together once: Σ w·across(x) = across(Σ w·x). Whether u is one of the folds, or
// made of them so that the part of each thread can be added up later. holds: the nodes that a fold stands in.
static bool is_linear(const UOp *u, const Plan *plan, const Halves *h, const UOpMap *holds) {
    bool is_sum = (u->op == OP_FOLD ? u->arg[0] == MONOID_SUM : u->op == OP_ADD || u->op == OP_MUL) && u->dtype == DT_F32;
    for (int i = 0; i < plan->n_folds; i++) if (u == plan->fold[i]) return is_sum;
    if (!is_sum) return false;
    if (u->op == OP_FOLD) return is_linear(u->src[0], plan, h, holds);
    bool in_first = uop_map_get(holds, u->src[0]), in_second = uop_map_get(holds, u->src[1]);
    if (u->op == OP_ADD) return in_first && in_second && is_linear(u->src[0], plan, h, holds) && is_linear(u->src[1], plan, h, holds);
    if (h->n && in_first != in_second && work_of(u->src[in_first]) > JOIN_WORK) return false;
    return in_first != in_second && is_linear(u->src[in_second], plan, h, holds);
}

// Which nodes a fold of the plan stands in.
static void find_holders(Spread *x, UOp *value, const Plan *plan, UOpMap *holds) {
    UOpList order = uop_toposort_value(x->arena, value);
    uop_map_init(holds, x->arena);
    for (int i = 0; i < plan->n_folds; i++) uop_map_put(holds, plan->fold[i], value);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        for (int i = 0; i < (u->op == OP_AFTER ? 1 : u->n_src); i++) if (uop_map_get(holds, u->src[i])) uop_map_put(holds, u, value);
    }
}

// value with the folds' own parts in place of the folds, brought together where they stop being parts of sums.
static UOp *joined(Spread *x, UOp *u, const Plan *plan, Halves *h, UOp *const *part, const UOpMap *holds, UOpMap *done) {
    UOp *known = uop_map_get(done, u);
    if (known || !uop_map_get(holds, u)) return known ? known : u;
    if (is_linear(u, plan, h, holds)) {
        known = together(x, h, MONOID_SUM, uop_substitute(u, plan->fold, part, plan->n_folds), plan->lanes);
    } else {
        for (int i = 0; i < plan->n_folds && !known; i++)
            if (u == plan->fold[i]) known = together(x, h, (Monoid)u->arg[0], part[i], plan->lanes);
        if (!known) {
            UOp **src = arena_new(x->arena, u->n_src * sizeof *src);
            for (int i = 0; i < u->n_src; i++) src[i] = joined(x, u->src[i], plan, h, part, holds, done);
            known = uop_with_src(u, src);
        }
    }
    uop_map_put(done, u, known);
    return known;
}

// Floats have no order on such targets: plain loops.
static UOp *unordered(Spread *x, UOp *root) {
    UOpList order = uop_toposort(x->arena, root);
    UOpMap done;
    uop_map_init(&done, x->arena);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], **src = arena_new(x->arena, (size_t)(u->n_src + 1) * sizeof *src);
        for (int i = 0; i < u->n_src; i++) src[i] = uop_map_get(&done, u->src[i]);
        int64_t arg[2] = {u->n_arg ? u->arg[0] : 0, 1};
        bool is_ordered = u->op == OP_FOLD && u->arg[0] == MONOID_SUM && dtype_is_float((DType)u->dtype);
        uop_map_put(&done, u, is_ordered ? uop_new(x->graph, OP_FOLD, (DType)u->dtype, 1, src, u->n_src, arg, 2) : uop_with_src(u, src));
    }
    return uop_map_get(&done, root);
}

// ---------------------------------------------------------------- statements

// The loop over parts of so many steps, or 0 where there is one alone; the last one may pass an end that is data.
static UOp *parts_of(UOp *loop, int64_t steps) {
    if (range_is_static(loop) && range_size(loop) == steps) return number(loop, 0);
    if (range_is_static(loop)) return uop_range_const(loop->graph, range_size(loop) / steps, range_kind(loop));
    UOp *end = uop_binary(OP_ADD, loop->src[0], number(loop, steps - 1));
    return uop_range_most(loop->graph, simplify(uop_binary(OP_IDIV, end, number(loop, steps))), range_size(loop) / steps, range_kind(loop));
}

// The loops of a thread's tile in two: what threads share, and the neighbouring steps of one.
static UOp *with_tile(UOp *store, const ThreadTile *tile) {
    UOp *from[THREAD_TILE_LOOPS], *to[THREAD_TILE_LOOPS], *own[THREAD_TILE_LOOPS], *loops[2 * MAX_LOOPS];
    int n = 0, n_own = 0;
    for (int i = 2; i < store->n_src; i++) {
        UOp *loop = store->src[i];
        for (int k = 0; k < tile->n; k++) {
            if (tile->loop[k] != store->src[i]) continue;
            UOp *first = parts_of(loop, tile->steps[k]);
            from[n_own] = loop;
            own[n_own] = uop_range_const(store->graph, tile->steps[k], RANGE_UNROLL);
            to[n_own] = uop_binary(OP_ADD, uop_binary(OP_MUL, first, number(loop, tile->steps[k])), own[n_own]);
            n_own++;
            loop = first->op == OP_RANGE ? first : NULL;
            break;
        }
        if (loop) loops[n++] = loop;
    }
    for (int k = 0; k < n_own; k++) loops[n++] = own[k];
    return uop_store_as(store, uop_substitute(store->src[0], from, to, n_own), uop_substitute(store->src[1], from, to, n_own), loops, n);
}

static UOp *rebuilt(UOp *store, const Split *s, UOp *value, UOp *single) {
    UOp *loops[2 * MAX_LOOPS], *after = replaced(value, s), *index = replaced(store->src[0], s);
    int n = loops_after(s, store->src + 2, store->n_src - 2, loops);
    for (int i = 0; i < n; i++) loops[i] = replaced(loops[i], s);
    if (single) loops[n++] = single;
    return uop_store_as(store, index, after, loops, n);
}

static bool needs_barriers(const Spread *x, int64_t lanes) { return lanes > x->target->shuffle_threads; }

static bool holds(Spread *x, UOp *root, const UOp *u) {
    UOpList order = uop_toposort_value(x->arena, root);
    for (size_t k = 0; k < order.len; k++) if (order.at[k] == u) return true;
    return false;
}

// Folds brought together before the rest of the value is shared out.
static UOp *folds_together(Spread *x, UOp *value, UOp *const *folds, int n, int64_t lanes) {
    UOp **to = arena_new(x->arena, (size_t)(n + 1) * sizeof *to);
    for (int i = 0; i < n; i++) {
        to[i] = spread_fold(x, folds[i], lanes);
        uop_map_put(&x->parts, to[i], folds[i]);
        if (folds[i]->dtype != DT_F16 && folds[i]->dtype != DT_BF16) to[i] = across(x, (Monoid)folds[i]->arg[0], to[i], lanes);
    }
    return uop_substitute(value, folds, to, n);
}

// Whether nothing that u depends on changes inside `outer`.
static bool stands_still_in(Spread *x, UOp *u, UOp *outer) {
    UOpList own = uop_free_ranges(x->arena, u), free = uop_free_ranges(x->arena, outer);
    for (size_t i = 0; i < own.len; i++) {
        bool is_free = false;
        for (size_t k = 0; k < free.len; k++) is_free |= free.at[k] == own.at[i];
        if (!is_free) return false;
    }
    return true;
}

// What the ends of loops around a value are made of, where they are data: it belongs to the loops, and stays as these have it.
static UOpMap ends_of_loops(Spread *x, UOp *value) {
    UOpList free = uop_free_ranges(x->arena, value);
    UOpMap ends;
    uop_map_init(&ends, x->arena);
    for (size_t k = 0; k < free.len; k++) {
        UOpList end = uop_toposort_value(x->arena, free.at[k]->src[0]);
        for (size_t i = 0; i < end.len; i++) uop_map_put(&ends, end.at[i], free.at[k]);
    }
    return ends;
}

// Folds inside those of the plan that do not change with them: each thread would run through all of their steps. Those that
// stand in another such fold are part of it.
static UOp *inner_folds_together(Spread *x, UOp *value, const Plan *plan) {
    VEC(UOp *) inner = {0};
    UOpMap ends = ends_of_loops(x, value);
    for (int f = 0; f < plan->n_folds; f++) {
        UOpList order = uop_toposort_value(x->arena, plan->fold[f]->src[0]);
        for (size_t k = order.len; k-- > 0;) {   // outer ones first
            UOp *u = order.at[k];
            bool is_inner = u->op == OP_FOLD && !uop_map_get(&ends, u) && u->n_src <= MAX_LOOPS && shared_trips(u) >= LEAST_TRIPS &&
                            stands_still_in(x, u, plan->fold[f]);
            for (size_t i = 0; i < inner.len && is_inner; i++) is_inner = !holds(x, inner.at[i], u);
            if (is_inner) vec_push(x->arena, &inner, u);
        }
    }
    return inner.len ? folds_together(x, value, inner.at, (int)inner.len, plan->lanes) : value;
}

// Whether threads may share a tile's elements out: each keeps some, which it computes side by side; none of the sums is together
// already, and nothing that the others' threads take part in stands beside them.
static bool can_share_out(Spread *x, UOp *value, const Plan *plan) {
    if (plan->tile.elements < FEW_TURNS * plan->lanes || plan->lanes > x->target->shuffle_threads) return false;
    for (int i = 0; i < plan->n_folds; i++) if (plan->fold[i]->dtype == DT_F16 || plan->fold[i]->dtype == DT_BF16) return false;
    VEC(UOp *) stack = {0};
    UOpMap seen;
    uop_map_init(&seen, x->arena);
    vec_push(x->arena, &stack, value);
    while (stack.len) {
        UOp *u = stack.at[--stack.len];
        bool is_sum = false;
        for (int i = 0; i < plan->n_folds; i++) is_sum |= u == plan->fold[i];
        if (u->op == OP_THREAD_XOR) return false;
        if (is_sum || uop_map_get(&seen, u)) continue;
        uop_map_put(&seen, u, u);
        for (int i = 0; i < u->n_src; i++) {
            for (int k = 0; u->op == OP_INDEX && k < plan->n_folds; k++) if (holds(x, u->src[i], plan->fold[k])) return false;   // an address
            vec_push(x->arena, &stack, u->src[i]);
        }
    }
    return true;
}

// value with its sums together, part[i] in place of fold i; sums of halves are together already.
static UOp *together_in(Spread *x, UOp *value, const Plan *plan, Halves *halves, UOp *const *part) {
    UOpMap done, holders;
    uop_map_init(&done, x->arena);
    find_holders(x, value, plan, &holders);
    for (int i = 0; i < plan->n_folds; i++)
        if (plan->fold[i]->dtype == DT_F16 || plan->fold[i]->dtype == DT_BF16) uop_map_put(&done, plan->fold[i], part[i]);
    return joined(x, value, plan, halves, part, &holders, &done);
}

static UOp *spread_store(Spread *x, UOp *store) {
    Plan plan = plan_store(x, store, x->threads);
    if (plan.tile.n) store = with_tile(store, &plan.tile), find_folds_of(x, store, &plan);
    UOp *to[MAX_FOLDS];
    if (plan.lanes > 1 && plan.lanes <= x->target->shuffle_threads) {
        store = uop_store_as(store, store->src[0], inner_folds_together(x, store->src[1], &plan), store->src + 2, store->n_src - 2);
        find_folds_of(x, store, &plan);
    }
    UOp *value = store->src[1];
    if (plan.is_common) {
        value = folds_together(x, value, plan.fold, plan.n_folds, plan.lanes);
        plan = (Plan){.lanes = 1};
    }
    Split s;
    for (;;) {
        s = split_loops(store->src + 2, store->n_src - 2, quotient(x->thread, plan.lanes), x->threads / plan.lanes, RANGE_LOOP);
        if (plan.lanes == 1 || !needs_barriers(x, plan.lanes) || s.is_uniform) break;
        // All threads must come to each barrier: one element at a time, or no barriers, or each thread its own elements.
        double trips = shared_trips(plan.fold[0]), elements = trips_of(store->src + 2, store->n_src - 2);
        bool is_worth = plan.lanes < x->threads && elements * FEW_TURNS <= trips && trips >= (double)x->threads;
        plan.lanes = is_worth ? x->threads : x->target->shuffle_threads > 1 ? x->target->shuffle_threads : 1;
    }
    for (int i = 0; plan.lanes > 1 && i < plan.n_folds; i++) to[i] = spread_fold(x, plan.fold[i], plan.lanes);
    Halves halves = {.left = plan.lanes};
    if (plan.lanes > 1) {
        if (can_share_out(x, value, &plan)) halves = halves_of(x, store, plan.lanes);
        value = together_in(x, value, &plan, &halves, to);
        if (halves.n) store = shared_out(store, value, &halves), value = store->src[1];
    }
    UOp *single = halves.left > 1 ? guard_of(remainder_of(x->thread, halves.left), RANGE_SINGLE) : NULL;
    return unordered(x, rebuilt(store, &s, value, single));
}

typedef struct Touched { UOpMap read, written; } Touched;

static void touched_init(Spread *x, Touched *t) {
    uop_map_init(&t->read, x->arena);
    uop_map_init(&t->written, x->arena);
}

// Whether a statement may not run beside those since the last barrier; it counts as one of them then.
static bool conflicts(const Touched *t, const UOpList *order) {
    for (size_t k = 0; k < order->len; k++) {
        UOp *u = order->at[k];
        if (u->op != OP_LOAD && !uop_is_store(u)) continue;
        UOp *buffer = uop_buffer_of(u->src[0]);
        if (uop_map_get(&t->written, buffer) || (uop_is_store(u) && uop_map_get(&t->read, buffer))) return true;
    }
    return false;
}

static void touch(Touched *t, const UOpList *order) {
    for (size_t k = 0; k < order->len; k++) {
        UOp *u = order->at[k];
        if (u->op == OP_LOAD || uop_is_store(u)) uop_map_put(u->op == OP_LOAD ? &t->read : &t->written, uop_buffer_of(u->src[0]), u);
    }
}

static double tiles_of(Arena *arena, UOp *sink) {
    UOpList order = uop_toposort(arena, sink);
    double n = 1;
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_RANGE && range_kind(order.at[k]) == RANGE_GLOBAL) n *= (double)range_size(order.at[k]);
    return n;
}

// Addresses in their simplest form: what they depend on decides which elements a thread computes at once.
static UOp *with_simple_addresses(UOp *sink) {
    Arena *arena = graph_arena(sink->graph);
    UOpList order = uop_toposort(arena, sink);
    UOpMap done;
    uop_map_init(&done, arena);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *now = uop_renewed(u, &done);
        if (now->op == OP_INDEX) now = uop_index(now->src[0], simplify(now->src[1]));
        uop_map_put(&done, u, now);
    }
    return uop_map_get(&done, sink);
}

UOp *spread_threads(UOp *sink, const Target *target) {
    if (target->group_threads <= 1) return sink;
    double tiles = tiles_of(graph_arena(sink->graph), sink);
    sink = thread_words(sink, target, tiles);
    Spread x = {.graph = sink->graph, .arena = graph_arena(sink->graph), .target = target, .tiles = tiles};
    // Tiles of elements take threads away from a tile: only where there are tiles for all that run at the same time, twice.
    int64_t most = tiles >= 2 * target->tiles.width ? target->thread_elements : 1;
    uop_map_init(&x.parts, x.arena);
    UOp *simple = most > 1 ? with_simple_addresses(sink) : sink;
    x.elements = most, x.threads = threads_wanted(&x, simple, target->group_threads);
    bool is_tiled = x.has_products && FEW_TURNS * x.threads >= target->group_threads;
    if (is_tiled) sink = simple;
    else x.elements = most, x.threads = threads_wanted(&x, sink, target->group_threads);
    int64_t least = target->group_threads < WARP ? target->group_threads : WARP;
    if (x.threads < least) x.threads = least;
    // Tiles of elements leave a group half of its threads or less, with more registers each: other groups run beside it, or nothing
    // is done while one waits for memory.
    int64_t groups = target->group_threads / x.threads;
    x.thread = uop_new(x.graph, OP_SPECIAL, DT_I32, 1, NULL, 0, (int64_t[]){1, x.threads, groups}, is_tiled ? 3 : 2);

    int n = 0, n_old = 0, since = 0;   // since: the first statement behind the last barrier
    UOp **out = arena_new(x.arena, (size_t)(2 * sink->n_src + 1) * sizeof *out), *barrier = NULL;
    UOp **old = arena_new(x.arena, (size_t)(sink->n_src + 1) * sizeof *old), **now = arena_new(x.arena, (size_t)(sink->n_src + 1) * sizeof *now);
    Touched touched;
    touched_init(&x, &touched);
    for (int i = 0; i < sink->n_src; i++) {
        UOpList order = uop_toposort_value(x.arena, sink->src[i]);
        bool is_last = sink->src[i]->op == OP_LAST_TILE;   // a barrier, too
        if (is_last || conflicts(&touched, &order)) {
            UOp **waits = arena_new(x.arena, (size_t)(n + 1) * sizeof *waits);
            int count = 0;
            if (is_last) waits[count++] = sink->src[i]->src[0];
            if (barrier) waits[count++] = barrier;
            for (int k = since; k < n; k++) waits[count++] = out[k];
            barrier = uop_new(x.graph, is_last ? OP_LAST_TILE : OP_BARRIER, DT_VOID, 1, waits, count, sink->src[i]->arg, is_last);
            out[n++] = barrier, since = n;
            touched_init(&x, &touched);
        }
        for (int k = 0; k < n_old; k++) now[k] = barrier ? barrier : now[k];
        if (is_last) {
            old[n_old] = sink->src[i], now[n_old++] = barrier;
            continue;
        }
        touch(&touched, &order);
        UOp *store = n_old ? uop_substitute(sink->src[i], old, now, n_old) : sink->src[i];
        out[n] = spread_store(&x, store);
        old[n_old] = sink->src[i], now[n_old++] = out[n++];
    }
    return uop_sink(x.graph, out, n);
}

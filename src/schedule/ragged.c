// ragged: a mask becomes the bound of a loop: Σ_{k<N} (k < L ? f : 0) = Σ_{k<min(L, N)} f.
// In: items whose FOLDs (or whose readers) choose by `loop < length`. Out: the same with loops that end at the length.
// The mask stays where lanes may pass the length by a few; a sum in one chain has none. An element of a stored value is
// left out where every reader leaves it out, by a mask or because its own loop ends there.
// Invariant: no value that anybody uses changes, nor the order of a sum: loops still begin at 0.
// Example: fold[SUM](where(k < load(length) + 1, load(x[k]), 0), k<4096): k ends at min(load(length) + 1, 4096).
#include <string.h>

#include "schedule/schedule.h"

enum { MAX_AXIS = 12, MAX_GUARDS = 8 };

static bool depends_on(Arena *arena, UOp *u, const UOp *range) {
    UOpList free = uop_free_ranges(arena, u);
    for (size_t i = 0; i < free.len; i++) if (free.at[i] == range) return true;
    return false;
}

// ---------------------------------------------------------------- lengths

// cond as `range < length`, where the range stands in a sum: k + 64·p < n + 1 is k < n + 1 − 64·p. NULL: it is none.
static UOp *length_in(Arena *arena, UOp *cond, UOp *range) {
    if (cond->op != OP_LT || cond->src[0]->dtype != DT_I32 || depends_on(arena, cond->src[1], range)) return NULL;
    UOp *zero = uop_int(range->graph, DT_I32, 0), *sum = cond->src[0];
    if (sum == range) return cond->src[1];
    if (!depends_on(arena, sum, range)) return NULL;
    UOp *rest = simplify(uop_substitute(sum, &range, &zero, 1));
    if (simplify(uop_binary(OP_SUB, sum, rest)) != range) return NULL;
    return simplify(uop_binary(OP_SUB, cond->src[1], rest));
}

// Adds what a condition says of lengths, unless it stands there already.
static int guards_of(UOp *cond, UOp **out, int n) {
    if (cond->op == OP_AND) return guards_of(cond->src[1], out, guards_of(cond->src[0], out, n));
    for (int i = 0; i < n; i++) if (out[i] == cond) return n;
    if (cond->op == OP_LT && n < MAX_GUARDS) out[n++] = cond;
    return n;
}

// ---------------------------------------------------------------- folds

static bool is_value(const UOp *u, Monoid m) {   // the identity of the fold
    if (!uop_is_const(u)) return false;
    double x = uop_const_float(u);
    return m == MONOID_SUM ? x == 0 : dtype_is_float(u->dtype) && x == monoid_info[m].float_identity;
}

// A length such that the value is the fold's identity wherever range ≥ length; NULL where none is seen.
static UOp *length_of(Arena *arena, UOp *value, Monoid m, UOp *range) {
    if (value->op == OP_WHERE && is_value(value->src[2], m)) {
        UOp *guards[MAX_GUARDS], *length = NULL;
        int n = guards_of(value->src[0], guards, 0);
        for (int i = 0; i < n && !length; i++) length = length_in(arena, guards[i], range);
        return length ? length : length_of(arena, value->src[1], m, range);
    }
    if (value->op == OP_MUL && m == MONOID_SUM) {   // 0 · x is 0: what is masked is never used as NaN or infinity
        UOp *a = length_of(arena, value->src[0], m, range);
        return a ? a : length_of(arena, value->src[1], m, range);
    }
    return NULL;
}

// lanes: the loop of the store whose elements lie side by side, or NULL. Its steps are taken together: they have one end.
static UOp *bound_fold(Arena *arena, UOp *u, const UOp *lanes) {
    if (u->n_src != 2 || !range_is_static(u->src[1])) return u;
    UOp *value = u->src[0], *from = u->src[1], *length = length_of(arena, value, (Monoid)u->arg[0], from);
    if (!length || length->dtype != DT_I32) return u;
    bool is_one_chain = u->arg[0] == MONOID_SUM && u->arg[1] == 1 && dtype_is_float(u->dtype);
    if (lanes && !is_one_chain && dtype_is_float(u->dtype) && depends_on(arena, length, lanes)) return u;
    if (is_one_chain && value->op == OP_WHERE && length_in(arena, value->src[0], from) == length) value = value->src[1];
    UOp *to = loop_within(length, range_size(from), range_kind(from));
    return uop_fold((Monoid)u->arg[0], (int)u->arg[1], uop_substitute(value, &from, &to, 1), &to, 1);
}

static UOp *bound_folds(Arena *arena, UOp *root, const UOp *lanes) {
    UOpList order = uop_toposort(arena, root);
    UOpMap done;
    uop_map_init(&done, arena);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *v = uop_renewed(u, &done);
        uop_map_put(&done, u, v->op == OP_FOLD ? bound_fold(arena, v, lanes) : v);
    }
    return uop_map_get(&done, root);
}

// ---------------------------------------------------------------- stores

// One temporary: its axes (the loops of its store) and the lengths that all readers so far agree on.
typedef struct Kept {
    UOp *store;
    int64_t buffer;
    int n_axes;
    UOp *length[MAX_AXIS];       // in terms of the store's loops; NULL: none yet, or some reader needs all of the axis
    bool is_needed[MAX_AXIS];
    Arena *arena;
    const UOpMap *lengths;       // of loops that end early: RANGE → its length
} Kept;

// Coordinate k of a load in the reader's terms.
static UOp *coordinate(const Kept *t, UOp *flat, int k) {
    int64_t stride = 1;
    for (int i = k + 1; i < t->n_axes; i++) stride *= range_size(t->store->src[2 + i]);
    UOp *at = stride == 1 ? flat : simplify(uop_binary(OP_IDIV, flat, uop_int(flat->graph, flat->dtype, stride)));
    if (k == 0) return at;
    return simplify(uop_binary(OP_MOD, at, uop_int(at->graph, at->dtype, range_size(t->store->src[2 + k]))));
}

// A length in the store's terms; NULL where it holds a loop of the reader that is no axis.
static UOp *translated(const Kept *t, UOp *length, UOp *const *at) {
    UOp *from[MAX_AXIS], *to[MAX_AXIS];
    int n = 0;
    for (int k = 0; k < t->n_axes; k++) if (at[k]->op == OP_RANGE) from[n] = at[k], to[n++] = t->store->src[2 + k];
    UOpList free = uop_free_ranges(t->arena, length);
    for (size_t i = 0; i < free.len; i++) {
        bool known = false;
        for (int k = 0; k < n; k++) known |= from[k] == free.at[i];
        if (!known) return NULL;
    }
    return uop_substitute(length, from, to, n);
}

// Each axis of the load: how much of it the reader wants, by the masks around the load or by the end of its own loop.
static void check_load(Kept *t, UOp *load, UOp *const *guards, int n) {
    UOp *at[MAX_AXIS];
    for (int k = 0; k < t->n_axes; k++) at[k] = coordinate(t, load->src[0]->src[1], k);
    for (int k = 0; k < t->n_axes; k++) {
        if (t->is_needed[k]) continue;
        UOp *length = NULL;
        if (at[k]->op == OP_RANGE) {
            for (int i = 0; i < n && !length; i++) length = length_in(t->arena, guards[i], at[k]);
            if (!length) length = uop_map_get(t->lengths, at[k]);
        }
        if (length) length = translated(t, length, at);
        t->is_needed[k] = !length || (t->length[k] && t->length[k] != length);
        t->length[k] = length;
    }
}

static bool is_decided(const Kept *t) {   // nothing that other loads want can change the outcome
    for (int k = 0; k < t->n_axes; k++) if (!t->is_needed[k]) return false;
    return true;
}

// Whether any value will do where nobody uses the result: not for a place in memory, nor for what divides whole numbers,
// since a mask keeps results from being used, not from being computed.
static bool takes_any_value(const UOp *u, int i) {
    return i != 1 || !(u->op == OP_INDEX || u->op == OP_IDIV || u->op == OP_MOD);
}

// A node stands under the same guards once, however many paths lead to it.
static void check_reader(Kept *t, UOp *u, UOp *const *guards, int n, Map *seen) {
    if (is_decided(t)) return;
    const void *key[MAX_GUARDS + 1] = {u};
    if (n) memcpy(key + 1, guards, (size_t)n * sizeof *guards);
    if (map_has(seen, key, (size_t)(n + 1) * sizeof *key)) return;
    map_put(seen, key, (size_t)(n + 1) * sizeof *key, t);
    if (u->op == OP_LOAD && u->src[0]->src[0]->arg[0] == t->buffer) check_load(t, u, guards, n);
    for (int i = 0; i < u->n_src; i++) {
        UOp *more[MAX_GUARDS];
        int known = takes_any_value(u, i) ? n : 0;
        if (known) memcpy(more, guards, (size_t)known * sizeof *more);
        check_reader(t, u->src[i], more, u->op == OP_WHERE && i == 1 ? guards_of(u->src[0], more, known) : known, seen);
    }
}

// Which items read each buffer: found once, so that work grows with the graph and not with its square.
typedef struct Readers { VEC(int) items; } Readers;

static void find_readers(Schedule *s, Map *readers) {
    map_init(readers, s->arena);
    for (size_t i = 0; i < s->items.len; i++) {
        UOpList order = uop_toposort(s->arena, s->items.at[i].store);
        for (size_t k = 0; k < order.len; k++) {
            if (order.at[k]->op != OP_LOAD) continue;
            int64_t id = order.at[k]->src[0]->src[0]->arg[0];
            Readers *r = map_get(readers, &id, sizeof id);
            if (!r) map_put(readers, &id, sizeof id, r = arena_new(s->arena, sizeof *r));
            if (r->items.len == 0 || r->items.at[r->items.len - 1] != (int)i) vec_push(s->arena, &r->items, (int)i);
        }
    }
}

static void bound_store(Schedule *s, const Map *readers, UOpMap *lengths, Item *item) {
    UOp *store = item->store;
    Temp *temp = schedule_temp_find(s, item->buffer);
    Kept t = {.store = store, .buffer = item->buffer, .n_axes = store->n_src - 2, .arena = s->arena, .lengths = lengths};
    if (!temp || temp->is_output || item->is_part || t.n_axes < 1 || t.n_axes > MAX_AXIS) return;
    const Readers *list = map_get(readers, &item->buffer, sizeof item->buffer);
    for (size_t i = 0; list && i < list->items.len; i++) {
        UOp *reader = s->items.at[list->items.at[i]].store;
        Map seen;
        map_init(&seen, s->arena);
        check_reader(&t, reader->src[1], NULL, 0, &seen);
        check_reader(&t, reader->src[0]->src[1], NULL, 0, &seen);
    }
    for (int axis = 0; axis < t.n_axes; axis++) {
        UOp *from = store->src[2 + axis], *ranges[MAX_AXIS], *length = t.is_needed[axis] ? NULL : t.length[axis];
        if (!length || length->dtype != DT_I32 || !range_is_static(from)) continue;
        bool is_known = true;   // loops are nested in this order: the end must be known by then
        for (int k = axis; k < t.n_axes; k++) is_known &= !depends_on(s->arena, length, store->src[2 + k]);
        if (!is_known) continue;
        UOp *to = loop_within(length, range_size(from), range_kind(from));
        uop_map_put(lengths, to, length);
        for (int k = 0; k < t.n_axes; k++) ranges[k] = k == axis ? to : store->src[2 + k];
        for (int k = axis + 1; k < t.n_axes; k++)
            if (t.length[k]) t.length[k] = uop_substitute(t.length[k], &from, &to, 1);
        store = uop_store_as(store, uop_substitute(store->src[0], &from, &to, 1), uop_substitute(store->src[1], &from, &to, 1), ranges, t.n_axes);
    }
    item->store = store;
}

static const UOp *lanes_of(const UOp *store) {
    UOp *last = store->n_src > 2 ? store->src[store->n_src - 1] : NULL;
    int64_t step;
    return last && index_step(store->src[0]->src[1], last, &step) && step == 1 ? last : NULL;
}

void schedule_ragged(Schedule *s) {
    // Stores first, and readers before what they read: what they ask stands in their masks, which folds may drop, and in
    // the ends of their own loops.
    Map readers;
    UOpMap lengths;
    find_readers(s, &readers);
    uop_map_init(&lengths, s->arena);
    for (size_t i = s->items.len; i-- > 0;) bound_store(s, &readers, &lengths, &s->items.at[i]);
    for (size_t i = 0; i < s->items.len; i++) {
        UOp *store = s->items.at[i].store;
        s->items.at[i].store = uop_store_as(store, store->src[0], bound_folds(s->arena, store->src[1], s->wishes.width > 0 ? NULL : lanes_of(store)), store->src + 2, store->n_src - 2);
    }
}

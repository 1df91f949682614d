// linearize: program order. Loops are opened and closed, and what a loop does not change is computed before it.
// In: a kernel after vectorize. Out: a list of nodes: RANGE opens a loop, END(range) closes it; SPECIAL is the tile.
// Invariant: a node stands in the innermost loop that it depends on, or in a guard around its use, and after everything
// that it depends on.
#include "base/error.h"
#include "base/vec.h"
#include "codegen/linearize_private.h"

static int by_id(UOp **at, int n) {   // insertion sort: tiles are few
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && range_id(at[j]) < range_id(at[j - 1]); j--) {
            UOp *t = at[j];
            at[j] = at[j - 1], at[j - 1] = t;
        }
    return n;
}

// Ends of loops in their simplest form: simplifying an index must not make another loop of a RANGE in it.
static UOp *simplify_ends(UOp *sink) {
    Arena *arena = graph_arena(sink->graph);
    UOpList order = uop_toposort(arena, sink);
    UOp **from = arena_new(arena, (order.len + 1) * sizeof *from), **to = arena_new(arena, (order.len + 1) * sizeof *to);
    int n = 0;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (u->op != OP_RANGE) continue;
        UOp *end = simplify(uop_substitute(u->src[0], from, to, n));
        if (end == u->src[0]) continue;
        from[n] = u;
        to[n++] = uop_new(u->graph, OP_RANGE, DT_I32, 1, &end, 1, u->arg, u->n_arg);
    }
    return n ? uop_substitute(sink, from, to, n) : sink;
}

UOp *lower_tiles(UOp *sink, const Target *target) {
    (void)target;
    Graph *g = sink->graph;
    UOpList order = uop_toposort(graph_arena(g), sink);
    UOp *tiles[16], *to[16];
    int n = 0;
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_RANGE && range_kind(order.at[k]) == RANGE_GLOBAL) {
            CHECK(n < 16);
            tiles[n++] = order.at[k];
        }
    by_id(tiles, n);
    int64_t total = 1;
    for (int i = 0; i < n; i++) total *= range_size(tiles[i]);
    UOp *tile = uop_new(g, OP_SPECIAL, DT_I32, 1, NULL, 0, (int64_t[]){0, total}, 2);
    int64_t inner = total;
    for (int i = 0; i < n; i++) {
        inner /= range_size(tiles[i]);
        UOp *at = inner > 1 ? uop_binary(OP_IDIV, tile, uop_int(g, DT_I32, inner)) : tile;
        to[i] = i > 0 ? uop_binary(OP_MOD, at, uop_int(g, DT_I32, range_size(tiles[i]))) : at;
    }
    return n ? simplify_ends(uop_substitute(sink, tiles, to, n)) : sink;
}

// ---------------------------------------------------------------- scopes

enum { TILE_BIT = 0 };

void lines_push(Lines *l, UOp *u) { vec_push(l->arena, &l->out, u); }

static void mark_done(Lines *l, UOp *u) {
    uop_map_put(&l->done, u, (void *)1);
    vec_push(l->arena, &l->marked, u);
}

Mask lines_mask(Lines *l, UOp *u) { return *(const Mask *)uop_map_get(&l->mask, u); }

static void mask_put(Lines *l, UOpMap *map, UOp *u, Mask mask) {
    Mask *held = uop_map_get(map, u);
    if (!held) uop_map_put(map, u, held = arena_new(l->arena, sizeof *held));
    *held = mask;
}

Mask lines_bit(Lines *l, UOp *range) {
    uintptr_t known = (uintptr_t)uop_map_get(&l->bit, range);
    if (!known) {
        CHECK(l->n_bits < 127);
        known = (uintptr_t)++l->n_bits;
        uop_map_put(&l->bit, range, (void *)known);
    }
    return (Mask)1 << known;
}

// A loop of one step or none: what it holds belongs to some tiles only. (A sum that ends at data may have one step as well,
// but what it adds to is set before it.)
static bool is_guard(const UOp *range) {
    return range->op == OP_RANGE && range_kind(range) == RANGE_LOOP && !range_is_static(range) && range_size(range) == 1;
}

static UOp *reg_stored(UOp *store) {
    if (!uop_is_store(store)) return NULL;
    UOp *buffer = uop_buffer_of(store->src[0]);
    return uop_is_own_memory(buffer) ? buffer : NULL;
}

static void find_masks(Lines *l, UOpList order) {
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        Mask mask = 0;
        bool has_nest = lines_is_nest(u);
        for (int i = 0; i < u->n_src; i++) {
            mask |= lines_mask(l, u->src[i]);
            has_nest |= uop_map_get(&l->has_nest, u->src[i]) != NULL;
        }
        if (has_nest) uop_map_put(&l->has_nest, u, (void *)1);
        if (u->op == OP_RANGE) mask |= lines_bit(l, u);
        if (u->op == OP_SPECIAL) mask |= (Mask)1 << TILE_BIT;
        if (lines_is_nest(u)) {
            for (int i = (int)u->arg[0]; i < u->n_src; i++) mask &= ~lines_bit(l, u->src[i]);
            for (int i = 0; i < u->arg[0]; i++) {
                UOp *reg = reg_stored(u->src[i]);
                if (reg) mask_put(l, &l->reg_mask, reg, mask);
            }
        }
        UOp *reg = reg_stored(u);
        // A register is set anew each time its loop nest is entered: the first store belongs just before the nest.
        if (reg && uop_map_get(&l->reg_mask, reg)) mask |= *(const Mask *)uop_map_get(&l->reg_mask, reg);
        mask_put(l, &l->mask, u, mask);
    }
}

// May u stand before a loop that it does not depend on? A store to memory may not: the loop may have no step. Into a guard
// only what is no work goes early: other tiles would compute, and read what this one writes, for nothing.
static bool may_stand_before(UOp *range, UOp *u) {
    if (is_guard(range)) return u->op == OP_CONST || uop_is_own_memory(u);
    return u->op != OP_RANGE && u->op != OP_INDEX && u->op != OP_AFTER && !(uop_is_store(u) && !reg_stored(u));
}

// A loop of which some threads take no step: what it would read for them may lie outside of memory.
static bool is_for_some_threads(const UOp *range) {
    return range->op == OP_RANGE && range_kind(range) != RANGE_SINGLE && ends_at_thread(range);
}

static bool reads_memory(Lines *l, UOp *u) {
    UOpList order = uop_toposort_value(l->arena, u);
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_LOAD && uop_buffer_of(order.at[k]->src[0])->op != OP_DEFINE_REG && !uop_map_get(&l->done, order.at[k])) return true;
    return false;
}

// Emits what is reachable, not done yet, and depends on open loops only, before range opens.
static void emit_invariants(Lines *l, UOp *u, UOp *range, UOpMap *seen, bool may_read) {
    if (uop_map_get(&l->done, u) || uop_map_get(seen, u)) return;
    uop_map_put(seen, u, (void *)1);
    if (may_stand_before(range, u) && !(lines_mask(l, u) & ~l->open) && (may_read || !reads_memory(l, u))) {
        lines_emit(l, u);
        return;
    }
    for (int i = 0; i < u->n_src; i++) emit_invariants(l, u->src[i], range, seen, may_read);
}

static bool writes_memory(UOp *nest) {
    for (int i = 0; i < nest->arg[0]; i++) if (!reg_stored(nest->src[i])) return true;
    return false;
}

static void emit_nest(Lines *l, UOp *u) {
    int n_stores = (int)u->arg[0];
    Mask before = l->open, closed = 0;
    size_t start = l->marked.len, guarded = SIZE_MAX, opened = 0;   // guarded: the first that stands in a guard
    for (int i = n_stores; i < u->n_src; i++) {
        UOp *range = u->src[i];
        UOpMap seen;
        bool may_read = !is_for_some_threads(range);
        uop_map_init(&seen, l->arena);
        for (int k = 0; k < n_stores; k++) emit_invariants(l, u->src[k], range, &seen, may_read);
        for (int k = i; k < u->n_src; k++) emit_invariants(l, u->src[k]->src[0], range, &seen, may_read);   // no value need hold a loop
        lines_emit(l, range->src[0]);
        opened = l->out.len;
        lines_push(l, range);
        mark_done(l, range);
        if ((is_guard(range) || !may_read) && guarded == SIZE_MAX) guarded = l->marked.len;
        l->open |= lines_bit(l, range);
        vec_push(l->arena, &l->around, range);
        closed |= lines_bit(l, range);
    }
    size_t requests = l->marked.len;
    lines_prefetch(l, u, u->src[u->n_src - 1], opened);
    size_t behind_requests = l->marked.len;
    for (int k = 0; k < n_stores; k++) lines_emit(l, u->src[k]);
    for (int i = u->n_src; i-- > n_stores;) lines_push(l, uop_new(l->graph, OP_END, DT_VOID, 1, &u->src[i], 1, NULL, 0));
    l->open = before;
    l->around.len -= (size_t)(u->n_src - n_stores);
    // What depends on a closed loop, or was made for requests in it, and all that stands in a guard, is out of scope: another nest computes it anew.
    for (size_t k = start; k < l->marked.len; k++) {
        UOp *v = l->marked.at[k];
        bool is_for_requests = k >= requests && k < behind_requests;
        if (lines_mask(l, v) & closed || is_for_requests || (k >= guarded && !(lines_is_nest(v) && writes_memory(v)))) uop_map_put(&l->done, v, NULL);
    }
}

void lines_emit(Lines *l, UOp *u) {
    if (uop_map_get(&l->done, u)) return;
    CHECK(u->op != OP_RANGE);   // loops are opened by their nest only
    mark_done(l, u);
    if (lines_is_nest(u)) { emit_nest(l, u); return; }
    // Of a value's parts, what a loop or a chain made so far comes first: what joins it, such as the last blocks of a row, lies behind
    // in memory. Statements stay in their order.
    bool is_value = u->dtype != DT_VOID && u->op != OP_AFTER;
    for (int i = 0; i < u->n_src && is_value; i++) if (uop_map_get(&l->has_nest, u->src[i])) lines_emit(l, u->src[i]);
    if (u->op == OP_MULADD) lines_emit(l, u->src[2]);
    for (int i = 0; i < u->n_src; i++) lines_emit(l, u->src[i]);
    if (u->op == OP_SPECIAL) l->open |= (Mask)1 << TILE_BIT;
    if (u->op != OP_SINK) lines_push(l, u);
}

UOpList linearize(Arena *arena, UOp *sink, const Target *target) {
    Lines l = {.arena = arena, .graph = sink->graph, .target = target};
    uop_map_init(&l.mask, arena);
    uop_map_init(&l.bit, arena);
    uop_map_init(&l.reg_mask, arena);
    uop_map_init(&l.has_nest, arena);
    uop_map_init(&l.done, arena);
    UOpList order = uop_toposort(arena, sink);
    find_masks(&l, order);
    find_masks(&l, order);   // now with the registers' nests known
    UOp *tile = NULL;   // where there is one; else the thread
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == OP_SPECIAL && (!tile || order.at[k]->arg[0] == 0)) tile = order.at[k];
    for (size_t k = 0; k < order.len; k++) {   // memory first: declarations
        UOp *u = order.at[k];
        if (u->op == OP_LOAD) vec_push(arena, &l.loads, u);
        if (u->op == OP_PARAM || u->op == OP_DEFINE_LOCAL) lines_emit(&l, u);
    }
    if (tile) {
        UOpMap seen;
        uop_map_init(&seen, arena);
        for (int i = 0; i < sink->n_src && sink->src[i]->op != OP_LAST_TILE; i++)   // what only the last tile needs comes behind it
            emit_invariants(&l, sink->src[i], tile, &seen, true);
        lines_emit(&l, tile);
    }
    lines_emit(&l, sink);
    return l.out;
}

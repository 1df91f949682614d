// linearize: program order. Loops are opened and closed, and what a loop does not change is computed before it.
// In: a kernel after vectorize. Out: a list of nodes: RANGE opens a loop, END(range) closes it; SPECIAL is the tile.
// Invariant: a node stands in the innermost loop that it depends on, or in a guard around its use, and after everything
// that it depends on.
#include <string.h>

#include "base/error.h"
#include "base/vec.h"
#include "codegen/codegen.h"
#include "ir/linear.h"

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

typedef unsigned __int128 Mask;   // a set of loops

// Large memory that an innermost loop walks through: the bytes of one step, from lo to hi behind a common base.
typedef struct Stream { UOp *buffer, *base; int64_t lo, hi; } Stream;

typedef struct Lines {
    Arena *arena;
    Graph *graph;
    const Target *target;
    UOpList out;
    UOpMap mask;        // node → the loops it depends on (Mask *)
    UOpMap bit;         // RANGE → 1 + bit
    UOpMap has_nest;    // nodes that need a loop to have run
    UOpList loads;
    UOpMap reg_mask;    // DEFINE_REG → loops around the nest that accumulates into it (Mask *)
    UOpMap done;
    UOpList marked;     // what was done, in order
    UOpList around;     // loops that are open, outermost first
    VEC(Stream) walked; // of the tile so far; base: where all loops begin
    int n_bits;
    Mask open;
} Lines;

enum { TILE_BIT = 0 };

static void push(Lines *l, UOp *u) { vec_push(l->arena, &l->out, u); }

static void mark_done(Lines *l, UOp *u) {
    uop_map_put(&l->done, u, (void *)1);
    vec_push(l->arena, &l->marked, u);
}

static Mask mask_of(Lines *l, UOp *u) { return *(const Mask *)uop_map_get(&l->mask, u); }

static void mask_put(Lines *l, UOpMap *map, UOp *u, Mask mask) {
    Mask *held = uop_map_get(map, u);
    if (!held) uop_map_put(map, u, held = arena_new(l->arena, sizeof *held));
    *held = mask;
}

static Mask range_bit(Lines *l, UOp *range) {
    uintptr_t known = (uintptr_t)uop_map_get(&l->bit, range);
    if (!known) {
        CHECK(l->n_bits < 127);
        known = (uintptr_t)++l->n_bits;
        uop_map_put(&l->bit, range, (void *)known);
    }
    return (Mask)1 << known;
}

static bool is_nest(const UOp *u) { return u->op == OP_END && u->n_arg == 1; }

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
        bool has_nest = is_nest(u);
        for (int i = 0; i < u->n_src; i++) {
            mask |= mask_of(l, u->src[i]);
            has_nest |= uop_map_get(&l->has_nest, u->src[i]) != NULL;
        }
        if (has_nest) uop_map_put(&l->has_nest, u, (void *)1);
        if (u->op == OP_RANGE) mask |= range_bit(l, u);
        if (u->op == OP_SPECIAL) mask |= (Mask)1 << TILE_BIT;
        if (is_nest(u)) {
            for (int i = (int)u->arg[0]; i < u->n_src; i++) mask &= ~range_bit(l, u->src[i]);
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

static void emit(Lines *l, UOp *u);

// ---------------------------------------------------------------- prefetch

// How far behind an address to ask, 0: nowhere; into the nearest cache, and into the one behind it.
// gap: bytes behind those of the loop that others of the loop around it read, from `gap_base` on.
typedef struct Ahead { int64_t near, far; UOp *gap_base; int64_t gap_lo, gap_hi; } Ahead;
enum { LARGE_BYTES = 1 << 17, LINE_BYTES = 64, MANY_WALKS = 8, MAX_STREAMS = 8, MAX_LINES = 40, MAX_GAP = 1024 };
enum { AHEAD_BYTES = 4096, FAR_BYTES = 12288, NEAR_BYTES = 2048, JUMP_BYTES = 2048 };
enum { LEAST_STEP = 16 };   // bytes: what walks through a line in smaller steps, hardware sees
enum { BUSY = 8 };          // bytes of vectors computed for each that is read
enum { IDLE = 20 };         // the same where memory waits for what is computed

// What a nest reads (is_more: and more than these), and how many bytes of vectors it computes in a step.
typedef struct Streams { Stream at[MAX_STREAMS]; int n; int64_t computed; bool holds_loop, is_more; UOpMap seen; } Streams;

static void find_streams(Lines *l, UOp *u, Mask loop, Streams *all) {
    if (uop_map_get(&all->seen, u)) return;
    uop_map_put(&all->seen, u, (void *)1);
    if (is_nest(u) && (mask_of(l, u) & loop)) all->holds_loop = true;
    if (!(mask_of(l, u) & loop)) return;
    if (u->lanes > 1 && u->op != OP_LOAD && u->op != OP_BITCAST) all->computed += u->lanes * dtype_bytes(u->dtype);
    if (u->op == OP_LOAD && u->src[0]->src[0]->op == OP_PARAM && u->src[0]->src[0]->arg[1] >= LARGE_BYTES) {
        UOp *buffer = u->src[0]->src[0];
        int64_t at, held = dtype_bytes(buffer->dtype);
        UOp *base = index_base(u->src[0]->src[1], &at);
        int64_t lo = at * held, hi = lo + (int64_t)u->lanes * dtype_bytes(u->dtype);
        Stream *s = all->at, *end = s + all->n;
        while (s < end && (s->buffer != buffer || s->base != base)) s++;
        if (s == end && all->n < MAX_STREAMS) all->at[all->n++] = (Stream){buffer, base, lo, hi};
        else if (s == end) all->is_more = true;
        else {
            if (lo < s->lo) s->lo = lo;
            if (hi > s->hi) s->hi = hi;
        }
    }
    for (int i = 0; i < u->n_src; i++) find_streams(l, u->src[i], loop, all);
}

// How often the loops around walk through the same memory: those that its address does not depend on.
static int64_t walks_through(Lines *l, UOp *base) {
    int64_t walks = 1;
    for (size_t i = 0; i < l->around.len && walks < MANY_WALKS; i++) {
        UOp *loop = l->around.at[i];
        if (!(mask_of(l, base) & range_bit(l, loop)) && range_is_static(loop)) walks *= range_size(loop);
    }
    return walks;
}

// Whether an earlier loop of the tile walked through the same memory, as a sum over values follows one over keys that are the same
// memory: a cache still holds it, and requests for the next tile's would take its place. If not, the stream is kept for later ones.
static bool was_walked(Lines *l, const Stream *s) {
    Stream begin = *s;
    UOpList free = uop_free_ranges(l->arena, s->base);
    UOp *zero = uop_int(l->graph, DT_I32, 0);
    for (size_t i = 0; i < free.len; i++) begin.base = uop_substitute(begin.base, &free.at[i], &zero, 1);
    begin.base = simplify(begin.base);
    for (size_t i = 0; i < l->walked.len; i++)
        if (l->walked.at[i].buffer == begin.buffer && l->walked.at[i].base == begin.base && l->walked.at[i].lo == begin.lo) return true;
    vec_push(l->arena, &l->walked, begin);
    return false;
}

// Whether anything reads between [lo, hi) behind a base.
static bool is_read(const Lines *l, const UOp *buffer, const UOp *base, int64_t lo, int64_t hi) {
    for (size_t k = 0; k < l->loads.len; k++) {
        UOp *u = l->loads.at[k];
        int64_t at;
        if (u->src[0]->src[0] != buffer || index_base(u->src[0]->src[1], &at) != base) continue;
        if (at * dtype_bytes(buffer->dtype) >= lo && at * dtype_bytes(buffer->dtype) < hi) return true;
    }
    return false;
}

// Where steps lie side by side, AHEAD_BYTES into the nearest cache; nowhere, if steps wait for memory and the target reads ahead by
// itself: each request takes the place of one of its own. A step that computes for long (is_busy) leaves memory idle, and hardware
// far behind: FAR_BYTES, into the cache behind the nearest, which has room for that much, and from there NEAR_BYTES. Where the
// loops leave gaps, such as from a head's part of a key to that of the next key, as many steps of the loop that jumps as read
// JUMP_BYTES: more would fall out of a near cache again, since what lies a power of two apart has few places there. A gap that is
// read beside the loop, as the last blocks of a row are, is none.
static Ahead ahead_of(Lines *l, const Stream *s, bool is_busy) {
    int64_t held = dtype_bytes(s->buffer->dtype), dense = s->hi - s->lo;
    Ahead a = {.near = is_busy ? NEAR_BYTES : l->target->reads_ahead ? 0 : AHEAD_BYTES, .far = is_busy ? FAR_BYTES : 0};
    UOp *start = s->base, *zero = uop_int(l->graph, DT_I32, 0);
    for (size_t i = l->around.len; i-- > 0 && dense < (is_busy ? FAR_BYTES : AHEAD_BYTES);) {
        UOp *loop = l->around.at[i];
        int64_t step;
        if (!(mask_of(l, s->base) & range_bit(l, loop))) continue;
        if (!index_step(s->base, loop, &step) || step <= 0) break;
        step *= held;
        if (step > dense + LINE_BYTES) {
            bool is_filled = !a.gap_base && step - dense <= MAX_GAP && uop_map_get(&l->done, start) && is_read(l, s->buffer, start, s->lo + dense, s->lo + step);
            if (!is_filled) return (Ahead){.near = step * (dense > LINE_BYTES ? (JUMP_BYTES + dense - 1) / dense : JUMP_BYTES / LINE_BYTES)};
            a.gap_base = start, a.gap_lo = s->lo + dense, a.gap_hi = s->lo + step;
            dense = step;
        }
        dense += step * (range_size(loop) - 1);
        start = simplify(uop_substitute(start, &loop, &zero, 1));
    }
    return a;
}

static bool has_small_steps(Lines *l, const Stream *s) {
    int64_t step;
    return index_step(s->base, l->around.at[l->around.len - 1], &step) && step > 0 && step * dtype_bytes(s->buffer->dtype) < LEAST_STEP;
}

// Requests for [lo, hi) behind a base, one a cache line, some distance ahead, put into the lines at a place.
static void ask(Lines *l, size_t place, UOp *buffer, UOp *base, int64_t lo, int64_t hi, int64_t ahead, bool is_far) {
    for (int64_t at = lo; at < hi && ahead; at += LINE_BYTES) {
        UOp *offset = uop_int(l->graph, base->dtype, (at + ahead) / dtype_bytes(buffer->dtype));
        UOp *index = uop_index(buffer, uop_new(l->graph, OP_ADD, base->dtype, 1, (UOp *[]){base, offset}, 2, NULL, 0));
        UOp *request = uop_new(l->graph, OP_PREFETCH, DT_VOID, 1, &index, 1, (int64_t[]){is_far}, 1);
        push(l, request);
        memmove(l->out.at + place + 1, l->out.at + place, (l->out.len - 1 - place) * sizeof *l->out.at);
        l->out.at[place++] = request;
    }
}

// What a step leaves of the memory's time: so many bytes could come meanwhile for later kernels, a line each few steps.
static void ask_for_later(Lines *l, UOp *range, int64_t spare) {
    int64_t every = 1;
    while (spare > 0 && every * spare < LINE_BYTES) every *= 2;
    if (spare <= 0 || every > range_size(range)) return;
    push(l, uop_new(l->graph, OP_PREFETCH_LATER, DT_VOID, 1, &range, 1, &every, 1));
}

// Requests for what hardware does not see in steps of odd sizes. opened: where the loop's line is.
static void emit_prefetch(Lines *l, UOp *nest, UOp *range, size_t opened) {
    Streams all = {0};
    int64_t nbytes = 0, from_memory = 0;   // of a step; each byte once a tile
    uop_map_init(&all.seen, l->arena);
    for (int i = 0; i < nest->arg[0]; i++) find_streams(l, nest->src[i], range_bit(l, range), &all);
    if (all.holds_loop) return;
    int n = 0;
    for (int k = 0; k < all.n; k++) {
        int64_t walks = walks_through(l, all.at[k].base);
        if (was_walked(l, &all.at[k]) || walks >= MANY_WALKS) continue;   // it comes from caches
        nbytes += all.at[k].hi - all.at[k].lo;
        from_memory += (all.at[k].hi - all.at[k].lo) / walks;
        all.at[n++] = all.at[k];
    }
    if (all.n && !all.is_more) ask_for_later(l, range, all.computed / IDLE - from_memory);
    Ahead ahead[MAX_STREAMS] = {{0}};
    for (int k = 0; k < n; k++) {   // all before the first is asked for: what that emits stands in the loop
        const Stream *s = &all.at[k];
        if (has_small_steps(l, s)) continue;
        if (s->hi - s->lo > (int64_t)LINE_BYTES * MAX_LINES) continue;
        ahead[k] = ahead_of(l, s, all.computed > BUSY * nbytes && !all.is_more && s->hi - s->lo >= LINE_BYTES / 2);
    }
    for (int k = 0; k < n; k++) {
        const Stream *s = &all.at[k];
        const Ahead *a = &ahead[k];
        if (!a->near) continue;
        emit(l, s->base);
        for (int is_far = 0; is_far < 2; is_far++) {
            int64_t distance = is_far ? a->far : a->near;
            ask(l, l->out.len, s->buffer, s->base, s->lo, s->hi, distance, is_far);
            if (a->gap_base) ask(l, opened, s->buffer, a->gap_base, a->gap_lo, a->gap_hi, distance, is_far);
        }
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
    if (may_stand_before(range, u) && !(mask_of(l, u) & ~l->open) && (may_read || !reads_memory(l, u))) {
        emit(l, u);
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
        emit(l, range->src[0]);
        opened = l->out.len;
        push(l, range);
        mark_done(l, range);
        if ((is_guard(range) || !may_read) && guarded == SIZE_MAX) guarded = l->marked.len;
        l->open |= range_bit(l, range);
        vec_push(l->arena, &l->around, range);
        closed |= range_bit(l, range);
    }
    emit_prefetch(l, u, u->src[u->n_src - 1], opened);
    for (int k = 0; k < n_stores; k++) emit(l, u->src[k]);
    for (int i = u->n_src; i-- > n_stores;) push(l, uop_new(l->graph, OP_END, DT_VOID, 1, &u->src[i], 1, NULL, 0));
    l->open = before;
    l->around.len -= (size_t)(u->n_src - n_stores);
    // What depends on a closed loop, and all that stands in a guard, is out of scope: another nest computes it anew.
    for (size_t k = start; k < l->marked.len; k++) {
        UOp *v = l->marked.at[k];
        if (mask_of(l, v) & closed || (k >= guarded && !(is_nest(v) && writes_memory(v)))) uop_map_put(&l->done, v, NULL);
    }
}

static void emit(Lines *l, UOp *u) {
    if (uop_map_get(&l->done, u)) return;
    CHECK(u->op != OP_RANGE);   // loops are opened by their nest only
    mark_done(l, u);
    if (is_nest(u)) { emit_nest(l, u); return; }
    // Of a value's parts, what a loop or a chain made so far comes first: what joins it, such as the last blocks of a row, lies behind
    // in memory. Statements stay in their order.
    bool is_value = u->dtype != DT_VOID && u->op != OP_AFTER;
    for (int i = 0; i < u->n_src && is_value; i++) if (uop_map_get(&l->has_nest, u->src[i])) emit(l, u->src[i]);
    if (u->op == OP_MULADD) emit(l, u->src[2]);
    for (int i = 0; i < u->n_src; i++) emit(l, u->src[i]);
    if (u->op == OP_SPECIAL) l->open |= (Mask)1 << TILE_BIT;
    if (u->op != OP_SINK) push(l, u);
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
        if (u->op == OP_PARAM || u->op == OP_DEFINE_LOCAL) emit(&l, u);
    }
    if (tile) {
        UOpMap seen;
        uop_map_init(&seen, arena);
        for (int i = 0; i < sink->n_src && sink->src[i]->op != OP_LAST_TILE; i++)   // what only the last tile needs comes behind it
            emit_invariants(&l, sink->src[i], tile, &seen, true);
        emit(&l, tile);
    }
    emit(&l, sink);
    return l.out;
}

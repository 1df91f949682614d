// tails: a kernel of little work becomes the end of the one before it: whichever tile ends last does it, and nobody waits for
// another launch.
// In: kernels in an order that can run. Out: the same, some of them behind a LAST_TILE of the kernel before.
// Invariant: a tail runs when all tiles whose cells it reads or overwrites have ended; its counters are 0 between kernels.
// Example: scores of 64 experts, a tile each: the last tile ranks them, too. 20 heads' 16 pages: a head's last page adds them up.
#include "schedule/schedule.h"

enum { MAX_TILES = 16 };
static const double WAVES = 5;              // of tiles: each waits until all can see what it stored, about half of what a start costs
static const double ALONE = 0.5;            // of starting a kernel: what one tile may do while the others of a device have ended

// The coordinate of a cell in steps of `stride` and rows of `size`.
static UOp *coordinate(UOp *cell, int64_t stride, int64_t size) {
    UOp *at = stride > 1 ? uop_binary(OP_IDIV, cell, uop_int(cell->graph, cell->dtype, stride)) : cell;
    return simplify(uop_binary(OP_MOD, at, uop_int(cell->graph, cell->dtype, size)));
}

// Whether each cell that `next` reads of what `first` stores was stored by a tile with the same place in `tile` as next has in its
// own, and nothing that next stores is touched by first.
static bool follows(Arena *arena, const Kernel *first, UOp *tile, const Kernel *next, UOp *own) {
    UOpList reads = uop_toposort(arena, kernel_sink(next)), before = uop_toposort(arena, kernel_sink(first));
    for (size_t i = 0; i < first->stores.len; i++) {
        UOp *store = first->stores.at[i], *buffer = uop_buffer_of(store->src[0]);
        for (size_t k = 0; k < reads.len; k++) {
            UOp *u = reads.at[k];
            int64_t stride;
            if (u->op != OP_LOAD || uop_buffer_of(u->src[0])->arg[0] != buffer->arg[0]) continue;
            if (!index_step(store->src[0]->src[1], tile, &stride) || stride <= 0) return false;
            if (coordinate(store->src[0]->src[1], stride, range_size(tile)) != tile) return false;
            if (coordinate(u->src[0]->src[1], stride, range_size(tile)) != own) return false;
        }
    }
    for (size_t i = 0; i < next->stores.len; i++)
        for (size_t k = 0; k < before.len; k++) {
            bool touches = before.at[k]->op == OP_LOAD || uop_is_store(before.at[k]);
            if (touches && uop_buffer_of(before.at[k]->src[0])->arg[0] == uop_buffer_of(next->stores.at[i]->src[0])->arg[0]) return false;
        }
    return true;
}

// The tile range of `first` that says which tile of `next` can run when its tiles have ended; NULL: all of them must have.
static UOp *tile_followed(Arena *arena, const Kernel *first, const Kernel *next) {
    if (next->tiles.len != 1) return NULL;
    for (size_t t = 0; t < first->tiles.len; t++) {
        UOp *tile = first->tiles.at[t];
        if (range_size(tile) == range_size(next->tiles.at[0]) && range_size(tile) <= MOST_COUNTERS && follows(arena, first, tile, next, next->tiles.at[0])) return tile;
    }
    return NULL;
}

// ---------------------------------------------------------------- joining

// Loads of what the kernel stored before wait for `last`, or for the statement of the tail that stored it.
static UOp *read_behind(Arena *arena, const Kernel *out, UOp *store, UOp *last) {
    UOpList order = uop_toposort_value(arena, store);
    UOp **from = arena_new(arena, (order.len + 1) * sizeof *from), **to = arena_new(arena, (order.len + 1) * sizeof *to);
    int n = 0;
    for (size_t k = 0; k < order.len; k++) {
        UOp *load = order.at[k];
        if (load->op != OP_LOAD || load->src[0]->src[0]->op != OP_BUFFER) continue;
        UOp *buffer = load->src[0]->src[0], *wait = NULL, *src[2] = {NULL, load->n_src > 1 ? load->src[1] : NULL};
        bool is_tail = false;
        for (size_t i = 0; i < out->stores.len; i++) {
            UOp *s = out->stores.at[i];
            if (s->op == OP_LAST_TILE) is_tail = true;
            else if (uop_buffer_of(s->src[0])->arg[0] == buffer->arg[0]) wait = is_tail ? s : last;
        }
        if (!wait) continue;
        src[0] = uop_index(uop_after(buffer, &wait, 1), load->src[0]->src[1]);
        from[n] = load, to[n++] = uop_with_src(load, src);
    }
    // Inner loads first: what stands in an address is replaced in the address, too.
    for (int i = 0; i < n; i++) {
        store = uop_substitute(store, &from[i], &to[i], 1);
        for (int k = i + 1; k < n; k++) from[k] = uop_substitute(from[k], &from[i], &to[i], 1), to[k] = uop_substitute(to[k], &from[i], &to[i], 1);
    }
    return store;
}

// Appends next's statements: its tiles are `at`, or loops of each of them.
static void append(Schedule *s, Kernel *out, const Kernel *next, UOp *at, UOp *last) {
    UOp **from = arena_new(s->arena, (next->stores.len + 1) * sizeof *from), **to = arena_new(s->arena, (next->stores.len + 1) * sizeof *to);
    for (size_t i = 0; i < next->stores.len; i++) {
        UOp *old = next->stores.at[i], *store = i ? uop_substitute(old, from, to, (int)i) : old, *loops[MAX_TILES + 40], *of[MAX_TILES], *is[MAX_TILES];
        int n = 0, n_tiles = 0;
        for (size_t t = 0; t < next->tiles.len; t++) {
            int64_t size = range_size(next->tiles.at[t]);
            of[n_tiles] = next->tiles.at[t];
            is[n_tiles] = at ? at : size > 1 ? uop_range_const(s->graph, size, RANGE_LOOP) : uop_int(s->graph, DT_I32, 0);
            if (!at && size > 1) loops[n++] = is[n_tiles];
            n_tiles++;
        }
        UOp *moved = simplify(uop_substitute(store, of, is, n_tiles));
        CHECK(n + moved->n_src <= MAX_TILES + 40);
        for (int k = 2; k < moved->n_src; k++) loops[n++] = moved->src[k];
        moved = read_behind(s->arena, out, uop_store(moved->src[0], moved->src[1], loops, n), last);
        from[i] = old, to[i] = moved;
        vec_push(s->arena, &out->stores, moved);
    }
    out->work += next->work;
}

static UOp *last_tile(Schedule *s, const Kernel *first, UOp *tile) {
    int64_t counters = tile ? range_size(tile) : 1, tiles = kernel_tiles(first) / counters;
    UOp *counter = schedule_temp(s, DT_I32, counters, 0, tiles), **src = arena_new(s->arena, (first->stores.len + 1) * sizeof *src);
    schedule_temp_find(s, counter->arg[0])->stays_zero = true;
    src[0] = uop_index(counter, tile ? tile : uop_int(s->graph, DT_I32, 0));
    for (size_t i = 0; i < first->stores.len; i++) src[1 + i] = first->stores.at[i];
    return uop_new(s->graph, OP_LAST_TILE, DT_VOID, 1, src, 1 + (int)first->stores.len, &tiles, 1);
}

static UOp *last_tile_of(const Kernel *k) {
    for (size_t i = 0; i < k->stores.len; i++) if (k->stores.at[i]->op == OP_LAST_TILE) return k->stores.at[i];
    return NULL;
}

// Whether `next` became the tail of the kernel, or joined the tail that it has, if that waits for all tiles.
static bool try_tail(Schedule *s, Kernel *first, const Kernel *next) {
    UOp *own = kernel_sink(first), *more = kernel_sink(next);
    if (holds_op(s->arena, own, OP_ATOMIC_ADD) || holds_op(s->arena, more, OP_ATOMIC_ADD)) return false;
    ArenaMark mark = arena_mark(s->arena);   // no node is made below: the graph may live in the same arena
    // Each statement of next may get loops of its own for its tiles.
    int loops = loops_count(s->arena, own) + loops_count(s->arena, more) + (int)(next->tiles.len * next->stores.len);
    arena_release(s->arena, mark);
    if ((double)kernel_tiles(first) > WAVES * s->wishes.width || loops > KERNEL_LOOPS || first->tiles.len > MAX_TILES || next->tiles.len > MAX_TILES) return false;
    UOp *last = last_tile_of(first), *tile = last ? NULL : tile_followed(s->arena, first, next);
    bool is_for_some = last && !uop_is_const(last->src[0]->src[1]);
    if (!tile && (is_for_some || next->work > ALONE * s->wishes.sync_work)) return false;
    if (!last) vec_push(s->arena, &first->stores, last = last_tile(s, first, tile));
    append(s, first, next, tile, last);
    return true;
}

KernelList schedule_tails(Schedule *s, KernelList kernels) {
    KernelList out = {0};
    if (!s->wishes.has_tails) return kernels;
    for (size_t i = 0; i < kernels.len; i++)
        if (!out.len || !try_tail(s, &out.at[out.len - 1], &kernels.at[i])) vec_push(s->arena, &out, kernels.at[i]);
    return out;
}

// prefetch: what a loop asks memory for: what it will read itself where hardware does not see it coming, and, where it computes for
// so long that memory idles, what later kernels read.
// In: a nest of loops whose innermost was just opened. Out: PREFETCH and PREFETCH_LATER lines in it.
// Invariant: no value depends on a request, and any address is allowed.
// Example: Q4_0, 288 bytes a step: lines 2 KiB ahead into the nearest cache, 12 KiB ahead into the one behind it.
#include <string.h>

#include "codegen/linearize_private.h"
#include "ir/linear.h"

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
    if (lines_is_nest(u) && (lines_mask(l, u) & loop)) all->holds_loop = true;
    if (!(lines_mask(l, u) & loop)) return;
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
        if (!(lines_mask(l, base) & lines_bit(l, loop)) && range_is_static(loop)) walks *= range_size(loop);
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
        if (!(lines_mask(l, s->base) & lines_bit(l, loop))) continue;
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

static bool holds_load(Lines *l, UOp *u) {
    UOpList order = uop_toposort_value(l->arena, u);
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == OP_LOAD) return true;
    return false;
}

// The base from which to ask `far` bytes ahead, where a tile walks one run of memory, as a head's rows are, and the next tile another that does not
// begin at its end: near the end of a run, the base in the next one. Else the stream's own.
static UOp *base_with_jump(Lines *l, const Stream *s, int64_t far) {
    int64_t held = dtype_bytes(s->buffer->dtype), run = s->hi - s->lo, step, gap;
    UOp *start = s->base, *tile = NULL, *zero = uop_int(l->graph, DT_I32, 0);
    for (size_t i = l->around.len; i-- > 0;) {
        UOp *loop = l->around.at[i];
        if (!(lines_mask(l, s->base) & lines_bit(l, loop))) continue;
        if (!range_is_static(loop) || !index_step(s->base, loop, &step) || step <= 0 || step * held > run + LINE_BYTES) return s->base;
        run += step * held * (range_size(loop) - 1);
        start = simplify(uop_substitute(start, &loop, &zero, 1));
    }
    UOpList order = uop_toposort_value(l->arena, start);
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == OP_SPECIAL) tile = order.at[k];
    if (!tile || run <= far || holds_load(l, start)) return s->base;
    UOp *following = uop_binary(OP_ADD, tile, uop_int(l->graph, tile->dtype, 1)), *next = uop_substitute(start, &tile, &following, 1);
    UOp *apart = simplify(uop_binary(OP_SUB, uop_binary(OP_SUB, next, start), uop_int(l->graph, start->dtype, run / held)));
    UOp *at_first = simplify(uop_substitute(apart, &tile, &zero, 1));         // the last tiles of a kernel of several kinds may have no next one
    if (uop_is_int_const(at_first, &gap) && gap * held <= LINE_BYTES && gap * held >= -LINE_BYTES) return s->base;
    UOp *is_inside = uop_binary(OP_LT, simplify(uop_binary(OP_SUB, s->base, start)), uop_int(l->graph, start->dtype, (run - far) / held));
    return uop_binary(OP_ADD, s->base, uop_where(is_inside, uop_int(l->graph, start->dtype, 0), apart));
}

static bool has_small_steps(Lines *l, const Stream *s) {
    int64_t step;
    return index_step(s->base, l->around.at[l->around.len - 1], &step) && step > 0 && step * dtype_bytes(s->buffer->dtype) < LEAST_STEP;
}

// A value that is partly the kernel's and partly made for requests: what nobody else asks for stands where it is needed.
static void emit_made(Lines *l, UOp *u, UOpMap *seen) {
    if (uop_map_get(&l->mask, u)) { lines_emit(l, u); return; }
    if (uop_map_get(seen, u)) return;
    uop_map_put(seen, u, (void *)1);
    for (int i = 0; i < u->n_src; i++) emit_made(l, u->src[i], seen);
    lines_push(l, u);
}

// Requests for [lo, hi) behind a base, one a cache line, some distance ahead, put into the lines at a place.
static void ask(Lines *l, size_t place, UOp *buffer, UOp *base, int64_t lo, int64_t hi, int64_t ahead, bool is_far) {
    for (int64_t at = lo; at < hi && ahead; at += LINE_BYTES) {
        UOp *offset = uop_int(l->graph, base->dtype, (at + ahead) / dtype_bytes(buffer->dtype));
        UOp *index = uop_index(buffer, uop_new(l->graph, OP_ADD, base->dtype, 1, (UOp *[]){base, offset}, 2, NULL, 0));
        UOp *request = uop_new(l->graph, OP_PREFETCH, DT_VOID, 1, &index, 1, (int64_t[]){is_far}, 1);
        lines_push(l, request);
        memmove(l->out.at + place + 1, l->out.at + place, (l->out.len - 1 - place) * sizeof *l->out.at);
        l->out.at[place++] = request;
    }
}

// What a step leaves of the memory's time: so many bytes could come meanwhile for later kernels, a line each few steps.
static void ask_for_later(Lines *l, UOp *range, int64_t spare) {
    int64_t every = 1;
    while (spare > 0 && every * spare < LINE_BYTES) every *= 2;
    if (spare <= 0 || every > range_size(range)) return;
    lines_push(l, uop_new(l->graph, OP_PREFETCH_LATER, DT_VOID, 1, &range, 1, &every, 1));
}

// Requests for what hardware does not see in steps of odd sizes. opened: where the loop's line is.
void lines_prefetch(Lines *l, UOp *nest, UOp *range, size_t opened) {
    Streams all = {0};
    int64_t nbytes = 0, from_memory = 0;   // of a step; each byte once a tile
    uop_map_init(&all.seen, l->arena);
    for (int i = 0; i < nest->arg[0]; i++) find_streams(l, nest->src[i], lines_bit(l, range), &all);
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
    UOpMap seen;                    // what several streams need stands there once
    uop_map_init(&seen, l->arena);
    for (int k = 0; k < n; k++) {
        const Stream *s = &all.at[k];
        const Ahead *a = &ahead[k];
        if (!a->near) continue;
        lines_emit(l, s->base);
        UOp *far_base = a->far ? base_with_jump(l, s, a->far) : s->base;
        emit_made(l, far_base, &seen);
        for (int is_far = 0; is_far < 2; is_far++) {
            int64_t distance = is_far ? a->far : a->near;
            ask(l, l->out.len, s->buffer, is_far ? far_base : s->base, s->lo, s->hi, distance, is_far);
            if (a->gap_base) ask(l, opened, s->buffer, a->gap_base, a->gap_lo, a->gap_hi, distance, is_far);
        }
    }
}

// cache: the canonical form of a kernel. See schedule.h.
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "schedule/schedule.h"

static int by_range_id(const void *a, const void *b) {
    int64_t x = range_id(*(UOp *const *)a), y = range_id(*(UOp *const *)b);
    return (x > y) - (x < y);
}

static void key_number(TextBuilder *key, int64_t n) { builder_append(key, (const char *)&n, sizeof n); }

// What all views of a buffer state of its values; 0 and 0 where one of them states nothing.
typedef struct Stated { int64_t lo, hi; } Stated;

static void note_stated(Arena *arena, Map *stated, const UOp *buffer) {
    Stated now = {buffer->arg[1], buffer->arg[2]}, *held = map_get(stated, &buffer->arg[0], sizeof buffer->arg[0]);
    if (!held) {
        map_put(stated, &buffer->arg[0], sizeof buffer->arg[0], arena_copy(arena, &now, sizeof now));
        return;
    }
    bool silent = (now.lo == 0 && now.hi == 0) || (held->lo == 0 && held->hi == 0);
    held->lo = silent ? 0 : now.lo < held->lo ? now.lo : held->lo;
    held->hi = silent ? 0 : now.hi > held->hi ? now.hi : held->hi;
}

Canonical canonicalize(Arena *arena, const Kernel *kernel, BufferBytes nbytes, void *context) {
    Graph *g = graph_create(arena);
    UOp *old = kernel_sink(kernel);
    UOpList order = uop_toposort(arena, old);
    UOpMap done, number;
    uop_map_init(&done, arena);
    uop_map_init(&number, arena);
    Canonical c = {.tiles = 1};
    c.buffers = arena_new(arena, (order.len + 1) * sizeof *c.buffers);
    c.is_written = arena_new(arena, (order.len + 1) * sizeof *c.is_written);
    c.is_read = arena_new(arena, (order.len + 1) * sizeof *c.is_read);

    Map stated;
    map_init(&stated, arena);
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == OP_BUFFER) note_stated(arena, &stated, order.at[k]);
    // Ranges keep their relative order: tiles and lanes are ordered by id.
    UOp **ranges = arena_new(arena, (order.len + 1) * sizeof *ranges);
    int n_ranges = 0;
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == OP_RANGE) ranges[n_ranges++] = order.at[k];
    if (n_ranges) qsort(ranges, (size_t)n_ranges, sizeof *ranges, by_range_id);
    UOpMap rank;
    uop_map_init(&rank, arena);
    for (int i = 0; i < n_ranges; i++) {
        uop_map_put(&rank, ranges[i], (void *)(uintptr_t)(graph_unique(g) + 1));
        if (range_kind(ranges[i]) == RANGE_GLOBAL) c.tiles *= range_size(ranges[i]);
    }
    TextBuilder key = builder(arena);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *made;
        UOp **src = arena_new(arena, (size_t)(u->n_src + 1) * sizeof *src);
        int64_t *arg = arena_new(arena, (size_t)(u->n_arg + 6) * sizeof *arg);
        int n_arg = u->n_arg;
        Op op = u->op;
        if (u->n_arg) memcpy(arg, u->arg, u->n_arg * sizeof *arg);
        for (int i = 0; i < u->n_src; i++) src[i] = uop_map_get(&done, u->src[i]);
        if (op == OP_BUFFER) {
            int slot = 0;
            while (slot < c.n_slots && c.buffers[slot] != u->arg[0]) slot++;
            if (slot == c.n_slots) c.buffers[c.n_slots++] = u->arg[0];
            op = OP_PARAM, n_arg = 5;
            arg[0] = slot, arg[1] = nbytes(context, u->arg[0]), arg[2] = 1;
            const Stated *bounds = map_get(&stated, &u->arg[0], sizeof u->arg[0]);
            arg[3] = bounds->lo, arg[4] = bounds->hi;
        }
        if (op == OP_DEFINE_LOCAL) arg[0] = graph_unique(g);
        if (op == OP_RANGE) arg[0] = (int64_t)(uintptr_t)uop_map_get(&rank, u) - 1;
        made = uop_new(g, op, u->dtype, u->lanes, src, u->n_src, arg, n_arg);
        uop_map_put(&done, u, made);
        uop_map_put(&number, u, (void *)(uintptr_t)(k + 1));
        key_number(&key, (int64_t)op | (int64_t)u->dtype << 8 | (int64_t)u->n_src << 16 | (int64_t)n_arg << 32);
        for (int i = 0; i < u->n_src; i++) key_number(&key, (int64_t)(uintptr_t)uop_map_get(&number, u->src[i]));
        for (int i = 0; i < n_arg; i++) key_number(&key, arg[i]);
    }
    for (size_t i = 0; i < order.len; i++) {
        if (order.at[i]->op != OP_LOAD && !uop_is_store(order.at[i])) continue;
        const UOp *buffer = uop_buffer_of(order.at[i]->src[0]);
        for (int k = 0; k < c.n_slots && buffer->op == OP_BUFFER; k++) {
            if (c.buffers[k] != buffer->arg[0]) continue;
            c.is_read[k] |= order.at[i]->op != OP_STORE;   // what is added to is read as well
            c.is_written[k] |= order.at[i]->op != OP_LOAD;
        }
    }
    c.sink = uop_map_get(&done, old);
    c.key = key.at, c.key_bytes = key.len;
    return c;
}

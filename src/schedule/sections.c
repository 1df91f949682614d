// sections: kernels that do not wait for each other become one, each with tiles of its own.
// In: kernels in an order that can run. Out: one kernel a level, as far as its loops fit; level = 1 + that of the last kernel
// waited for. A section's stores stand in a loop that runs once in its own tiles and not at all in the others.
// Invariant: in whatever tile, an index stays inside its buffer: tiles of other sections see a section's first or last one.
// Example: two products of one vector, 24 and 96 tiles: 120 tiles; the second works in tiles 24 to 119.
#include "schedule/schedule.h"

typedef struct Use { int written, read; } Use;   // 1 + the last level in which a buffer was; 0: none

static Use *use_of(Arena *arena, Map *uses, int64_t id) {
    Use *u = map_get(uses, &id, sizeof id);
    if (!u) map_put(uses, &id, sizeof id, u = arena_new(arena, sizeof *u));
    return u;
}

typedef struct Touched { Use *use; bool is_write; } Touched;

// The level of a kernel, which then counts as one of it.
static int place(Arena *arena, Map *uses, const Kernel *kernel, int *loops) {
    UOpList order = uop_toposort(arena, kernel_sink(kernel));
    VEC(Touched) touched = {0};
    int level = 0;
    *loops = 1;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        *loops += u->op == OP_RANGE;
        if (u->op != OP_LOAD && !uop_is_store(u)) continue;
        int64_t id = uop_buffer_of(u->src[0])->arg[0];
        Use *use = use_of(arena, uses, id);
        vec_push(arena, &touched, ((Touched){use, uop_is_store(u)}));
        bool is_part = u->op == OP_STORE && id >= FIRST_TEMP_ID;   // several that write a temporary write parts of it that do not overlap
        if (!is_part && use->written > level) level = use->written;
        if (uop_is_store(u) && use->read > level) level = use->read;
    }
    for (size_t i = 0; i < touched.len; i++) {
        int *last = touched.at[i].is_write ? &touched.at[i].use->written : &touched.at[i].use->read;
        if (level + 1 > *last) *last = level + 1;
    }
    return level;
}

static UOp *clamped(UOp *u, int64_t lo, int64_t hi) {
    UOp *least = uop_binary(OP_MAX, u, uop_int(u->graph, DT_I32, lo));
    return simplify(uop_binary(OP_MIN, least, uop_int(u->graph, DT_I32, hi)));
}

// A loop of one step in tiles first … first + count − 1, of none elsewhere.
static UOp *only_in(UOp *tile, int64_t first, int64_t count) {
    Graph *g = tile->graph;
    UOp *entered = clamped(uop_binary(OP_SUB, tile, uop_int(g, DT_I32, first - 1)), 0, 1);
    UOp *stays = clamped(uop_binary(OP_SUB, uop_int(g, DT_I32, first + count), tile), 0, 1);
    return uop_range_most(g, simplify(uop_binary(OP_MIN, entered, stays)), 1, RANGE_LOOP);
}

static void add_section(Schedule *s, Kernel *out, UOp *tile, int64_t first, const Kernel *kernel) {
    Graph *g = s->graph;
    int64_t count = kernel_tiles(kernel), inner = count;
    int n = 0;
    UOp **from = arena_new(s->arena, (kernel->tiles.len + kernel->stores.len) * sizeof *from);
    UOp **to = arena_new(s->arena, (kernel->tiles.len + kernel->stores.len) * sizeof *to);
    UOp *own = clamped(uop_binary(OP_SUB, tile, uop_int(g, DT_I32, first)), 0, count - 1);
    for (size_t i = 0; i < kernel->tiles.len; i++) {
        int64_t size = range_size(kernel->tiles.at[i]);
        inner /= size;
        UOp *at = uop_binary(OP_IDIV, own, uop_int(g, DT_I32, inner));
        from[n] = kernel->tiles.at[i];
        to[n++] = simplify(uop_binary(OP_MOD, at, uop_int(g, DT_I32, size)));
    }
    for (size_t i = 0; i < kernel->stores.len; i++) {
        UOp *store = kernel->stores.at[i], *moved = uop_substitute(store, from, to, n);
        UOp **ranges = arena_new(s->arena, (size_t)store->n_src * sizeof *ranges);
        ranges[0] = only_in(tile, first, count);
        for (int k = 2; k < moved->n_src; k++) ranges[k - 1] = moved->src[k];
        UOp *made = uop_store_as(store, moved->src[0], moved->src[1], ranges, moved->n_src - 1);
        from[n] = store, to[n++] = made;   // loads that wait for it
        vec_push(s->arena, &out->stores, made);
    }
    out->work += kernel->work;
}

static double tile_work(const Kernel *kernel) { return kernel->work / (double)kernel_tiles(kernel); }

// The longest tiles first: what is left at the end is short for all workers.
static Kernel joined(Schedule *s, const Kernel *kernels, size_t *members, size_t n) {
    if (n == 1) return kernels[members[0]];
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && tile_work(&kernels[members[k]]) > tile_work(&kernels[members[k - 1]]); k--) {
            size_t longer = members[k];
            members[k] = members[k - 1], members[k - 1] = longer;
        }
    Kernel out = {0};
    int64_t total = 0, first = 0;
    for (size_t i = 0; i < n; i++) total += kernel_tiles(&kernels[members[i]]);
    UOp *tile = uop_range_const(s->graph, total, RANGE_GLOBAL);
    vec_push(s->arena, &out.tiles, tile);
    for (size_t i = 0; i < n; i++) {
        add_section(s, &out, tile, first, &kernels[members[i]]);
        first += kernel_tiles(&kernels[members[i]]);
    }
    return out;
}

// How many of the members from the first on fit into one kernel.
static size_t fitting(const int *loops, const size_t *members, size_t n) {
    size_t count = 1;
    for (int sum = loops[members[0]]; count < n && (sum += loops[members[count]]) <= KERNEL_LOOPS;) count++;
    return count;
}

KernelList schedule_sections(Schedule *s, KernelList kernels) {
    typedef VEC(size_t) Level;
    VEC(Level) levels = {0};
    Map uses;
    KernelList out = {0};
    int *loops = arena_new(s->arena, (kernels.len + 1) * sizeof *loops);
    map_init(&uses, s->arena);
    for (size_t k = 0; k < kernels.len; k++) {
        size_t level = (size_t)place(s->arena, &uses, &kernels.at[k], &loops[k]);
        if (level == levels.len) vec_push(s->arena, &levels, (Level){0});   // never more than one above the highest
        vec_push(s->arena, &levels.at[level], k);
    }
    for (size_t l = 0; l < levels.len; l++) {
        Level *all = &levels.at[l];
        for (size_t first = 0, n; first < all->len; first += n) {
            n = fitting(loops, all->at + first, all->len - first);
            vec_push(s->arena, &out, joined(s, kernels.at, all->at + first, n));
        }
    }
    return out;
}

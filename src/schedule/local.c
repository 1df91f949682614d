// local: what a tile makes for itself alone lies in its own memory. On targets whose tiles are groups of threads a value
// that goes from one statement to the next through global memory comes back some hundred cycles after the barrier; elsewhere
// it is large temporaries only, of which each thread then has one tile's part at a time.
// In: kernels as they will run. Out: the same; temporaries that only the tile reads that stores them, in this kernel, are
// memory of a tile (DEFINE_LOCAL). What others read as well is copied to its place behind that, so that its own tile need
// not wait for it.
// Invariant: a tile finds there what it would find in the temporary (tile_cells). What is stored in front of a LAST_TILE
// and read behind it was made by other tiles, too, and stays where it is.
// Example: h[32·t + r] = Σ…; m[t] = max_r |h[32·t + r]|: l[r] = Σ…; m[t] = max_r |l[r]|, 32 floats a tile.
#include <stdlib.h>

#include "schedule/schedule.h"
#include "schedule/tile_cells.h"

// Of a kernel: little enough that as many groups run side by side as without, beside what threads exchange values in.
enum { MOST_LOCAL_BYTES = 16 << 10, LOCAL_ALIGNMENT = 16 };
// A tile that is one thread finds small temporaries in its caches anyway; large ones cost memory, and their way back from it.
enum { LARGE_BYTES = 8 << 20 };

typedef enum Phase { PHASE_TILE, PHASE_LAST } Phase;   // in front of a LAST_TILE, behind it

// Who touches a temporary.
typedef struct Usage { size_t kernel; bool is_touched, is_elsewhere, is_stored_elsewhere, is_added_to; } Usage;

// An access, and the statement that it stands in.
typedef struct Access { UOp *index, *load; size_t statement; Phase phase; } Access;   // load: NULL in a store

// A temporary of a kernel that may be a tile's. reader: the first statement that reads it. is_copied: it is read by
// others, too. memory: its DEFINE_LOCAL.
typedef struct Local {
    int64_t id, nbytes;
    VEC(Access) accesses;
    Phase phase;
    TileCells cells;
    size_t reader;
    bool is_copied;
    UOp *memory;
} Local;
typedef struct LocalList { Local *at; size_t len, cap; } LocalList;

// arena: scratch of one kernel. most: bytes of its memory.
typedef struct Placer { Schedule *s; Arena *arena; Usage *usage; int64_t most; } Placer;

// ---------------------------------------------------------------- who touches what

static void use_note(Usage *u, size_t kernel, Op op) {
    u->is_added_to |= op == OP_ATOMIC_ADD || op == OP_LAST_TILE;
    u->is_elsewhere |= u->is_touched && u->kernel != kernel;
    if (!u->is_touched) u->kernel = kernel;
    u->is_touched = true;
}

static void find_usage(Placer *p, const KernelList *kernels) {
    for (size_t k = 0; k < kernels->len; k++) {
        UOpList order = uop_toposort(p->arena, kernel_sink(&kernels->at[k]));
        for (size_t n = 0; n < order.len; n++) {
            UOp *u = order.at[n];
            if (u->op != OP_LOAD && !uop_is_store(u) && u->op != OP_LAST_TILE) continue;
            int64_t at = uop_buffer_of(u->src[0])->arg[0] - FIRST_TEMP_ID;
            if (at >= 0) use_note(&p->usage[at], k, (Op)u->op);
        }
    }
    // Stores in another kernel than the first: parts, which none of them has alone.
    for (size_t k = 0; k < kernels->len; k++)
        for (size_t i = 0; i < kernels->at[k].stores.len; i++) {
            UOp *store = kernels->at[k].stores.at[i];
            int64_t at = uop_buffer_of(store->src[0])->arg[0] - FIRST_TEMP_ID;
            if (at >= 0 && p->usage[at].kernel != k) p->usage[at].is_stored_elsewhere = true;
        }
}

// ---------------------------------------------------------------- what can be a tile's

static void note_access(Placer *p, LocalList *all, UOp *index, UOp *load, size_t statement, Phase phase) {
    int64_t id = uop_buffer_of(index)->arg[0], at = id - FIRST_TEMP_ID;
    size_t i = 0;
    if (at < 0 || p->usage[at].is_added_to || p->usage[at].is_stored_elsewhere) return;
    while (i < all->len && all->at[i].id != id) i++;
    if (i == all->len) vec_push(p->arena, all, ((Local){.id = id}));
    vec_push(p->arena, &all->at[i].accesses, ((Access){index, load, statement, phase}));
}

static LocalList temporaries_of(Placer *p, const Kernel *kernel) {
    LocalList all = {0};
    Phase phase = PHASE_TILE;
    for (size_t i = 0; i < kernel->stores.len; i++) {
        UOp *store = kernel->stores.at[i];
        if (store->op == OP_LAST_TILE) {
            phase = PHASE_LAST;
            continue;
        }
        UOpList order = uop_toposort_value(p->arena, store);
        for (size_t n = 0; n < order.len; n++)
            if (order.at[n]->op == OP_LOAD) note_access(p, &all, order.at[n]->src[0], order.at[n], i, phase);
        note_access(p, &all, store->src[0], NULL, i, phase);
    }
    return all;
}

static CellAccess cells_touched(const Access *a) {
    int held = dtype_bytes((DType)a->index->dtype), width = a->load ? dtype_bytes((DType)a->load->dtype) : held;
    return (CellAccess){a->index, (width + held - 1) / held, a->load && a->load->n_src > 1};
}

// Whether the temporary can be a tile's; then its measures are known. Stores come first: they are not masked.
static bool local_measure(Placer *p, Local *l) {
    const Temp *temp = schedule_temp_find(p->s, l->id);
    VEC(CellAccess) touched = {0};
    if (!p->s->local_groups && temp->count * dtype_bytes(temp->dtype) < LARGE_BYTES) return false;
    l->is_copied = temp->is_output || p->usage[l->id - FIRST_TEMP_ID].is_elsewhere;
    for (size_t i = 0; i < l->accesses.len; i++) {
        const Access *a = &l->accesses.at[i];
        if (a->load) continue;
        if (touched.len && a->phase != l->phase) return false;
        l->phase = a->phase;
        vec_push(p->arena, &touched, cells_touched(a));
    }
    size_t n_stores = touched.len;
    for (size_t i = 0; i < l->accesses.len && n_stores; i++) {
        const Access *a = &l->accesses.at[i];
        if (!a->load) continue;
        if (a->phase < l->phase) return false;
        l->is_copied |= a->phase > l->phase;
        if (a->phase > l->phase) continue;
        if (touched.len == n_stores) l->reader = a->statement;
        vec_push(p->arena, &touched, cells_touched(a));
    }
    if (touched.len == n_stores || (l->is_copied && !p->s->local_groups)) return false;   // a copy saves no memory
    if (!tile_cells_find(p->arena, touched.at, touched.len, p->most, &l->cells)) return false;
    int64_t nbytes = l->cells.count * dtype_bytes(temp->dtype);
    l->nbytes = (nbytes + LOCAL_ALIGNMENT - 1) / LOCAL_ALIGNMENT * LOCAL_ALIGNMENT;
    return true;
}

static int by_size(const void *a, const void *b) {
    const Local *x = a, *y = b;
    if (x->nbytes != y->nbytes) return x->nbytes < y->nbytes ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

// Those that can be a tile's and fit: many small ones, as each saves one way through memory. Copies have loops of their
// own.
static LocalList locals_of(Placer *p, const Kernel *kernel) {
    LocalList all = temporaries_of(p, kernel), out = {0};
    size_t n = 0;
    for (size_t i = 0; i < all.len; i++) if (local_measure(p, &all.at[i])) all.at[n++] = all.at[i];
    if (n == 0) return out;
    if (n > 1) qsort(all.at, n, sizeof *all.at, by_size);
    int64_t left = p->most;
    int loops = loops_count(p->arena, kernel_sink(kernel));
    for (size_t i = 0; i < n && (left -= all.at[i].nbytes) >= 0; i++) {
        const Local *l = &all.at[i];
        int more = 0;
        for (size_t k = 0; k < l->accesses.len && l->is_copied; k++)
            if (!l->accesses.at[k].load) more += kernel->stores.at[l->accesses.at[k].statement]->n_src - 2;
        if (more && loops + more > KERNEL_LOOPS) continue;
        loops += more;
        vec_push(p->arena, &out, *l);
    }
    return out;
}

// ---------------------------------------------------------------- rewriting

static UOp *memory_of(const Local *l) {
    const UOp *buffer = uop_buffer_of(l->accesses.at[0].index);
    int64_t arg[4] = {graph_unique(buffer->graph), l->cells.count, buffer->arg[1], buffer->arg[2]};
    return uop_new(buffer->graph, OP_DEFINE_LOCAL, (DType)buffer->dtype, 1, NULL, 0, arg, 4);
}

static UOp *local_index(Placer *p, const Local *l, UOp *memory, UOp *index) {
    return uop_index(memory, tile_cells_place(p->arena, &l->cells, index));
}

// The tile's memory, behind what the temporary was read behind.
static UOp *behind_same(UOp *buffer, UOp *memory, const UOpMap *done) {
    if (buffer->op != OP_AFTER) return memory;
    UOp **waits = arena_new(graph_arena(memory->graph), buffer->n_src * sizeof *waits);
    for (int i = 1; i < buffer->n_src; i++) waits[i - 1] = uop_map_get(done, buffer->src[i]);
    return uop_after(behind_same(buffer->src[0], memory, done), waits, buffer->n_src - 1);
}

// What `store`, once `old`, left in the tile's memory goes where others read it, in loops of its own.
static UOp *copy_of(Placer *p, const Local *l, UOp *old, UOp *store, const UOpMap *done) {
    UOp *zero = uop_int(old->graph, (DType)old->src[0]->dtype, 0);
    UOp *index = uop_index(old->src[0]->src[0], uop_map_get(done, old->src[0]->src[1]));
    UOp *own = loops_renewed(p->arena, uop_store(index, zero, store->src + 2, store->n_src - 2), NULL, NULL);
    UOp *from = local_index(p, l, uop_after(l->memory, &store, 1), own->src[0]);
    return uop_store(own->src[0], uop_load(from, (DType)old->src[0]->dtype, NULL), own->src + 2, own->n_src - 2);
}

// Copies stand in front of the first reader: where a barrier is anyway.
static void copies_add(Placer *p, const LocalList *locals, const Kernel *old, size_t reader, const UOpMap *done,
                       Kernel *out) {
    for (size_t i = 0; i < locals->len; i++) {
        const Local *l = &locals->at[i];
        for (size_t k = 0; k < l->accesses.len && l->is_copied && l->reader == reader; k++) {
            if (l->accesses.at[k].load) continue;
            UOp *store = old->stores.at[l->accesses.at[k].statement];
            vec_push(p->s->arena, &out->stores, copy_of(p, l, store, uop_map_get(done, store), done));
        }
    }
}

// A LAST_TILE behind all statements of `out`.
static UOp *behind_all(Placer *p, const UOp *last, UOp *counter, const Kernel *out) {
    UOp **src = arena_new(p->arena, (out->stores.len + 1) * sizeof *src);
    src[0] = counter;
    for (size_t k = 0; k < out->stores.len; k++) src[1 + k] = out->stores.at[k];
    return uop_new(last->graph, OP_LAST_TILE, DT_VOID, 1, src, 1 + (int)out->stores.len, last->arg, last->n_arg);
}

static void rewrite_kernel(Placer *p, Kernel *kernel, LocalList *locals) {
    UOpMap done, moved;   // moved: the addresses that are a tile's from now on
    Kernel out = *kernel;
    uop_map_init(&done, p->arena);
    uop_map_init(&moved, p->arena);
    out.stores.at = NULL, out.stores.len = out.stores.cap = 0;
    for (size_t i = 0; i < locals->len; i++) {
        Local *l = &locals->at[i];
        l->memory = memory_of(l);
        for (size_t k = 0; k < l->accesses.len; k++)
            if (l->accesses.at[k].phase == l->phase) uop_map_put(&moved, l->accesses.at[k].index, l);
    }
    for (size_t i = 0; i < kernel->stores.len; i++) {
        UOp *old = kernel->stores.at[i];
        copies_add(p, locals, kernel, i, &done, &out);
        UOpList order = uop_toposort(p->arena, old);
        for (size_t k = 0; k < order.len; k++) {
            UOp *u = order.at[k];
            if (uop_map_get(&done, u)) continue;
            const Local *l = uop_map_get(&moved, u);
            UOp *now = uop_renewed(u, &done);
            if (l) now = local_index(p, l, behind_same(u->src[0], l->memory, &done), now);
            if (u->op == OP_LAST_TILE) now = behind_all(p, u, now->src[0], &out);
            uop_map_put(&done, u, now);
        }
        vec_push(p->s->arena, &out.stores, uop_map_get(&done, old));
    }
    *kernel = out;
}

void schedule_local(Schedule *s, KernelList *kernels) {
    Placer p = {.s = s, .most = s->local_bytes / 2};
    if (s->local_groups && p.most > MOST_LOCAL_BYTES) p.most = MOST_LOCAL_BYTES;
    if (p.most <= 0) return;
    p.arena = arena_create();
    p.usage = arena_new(s->arena, (s->temps.len + 1) * sizeof *p.usage);
    find_usage(&p, kernels);
    for (size_t k = 0; k < kernels->len; k++) {
        arena_reset(p.arena);
        LocalList locals = locals_of(&p, &kernels->at[k]);
        if (locals.len) rewrite_kernel(&p, &kernels->at[k], &locals);
    }
    arena_destroy(p.arena);
}

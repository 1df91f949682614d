// interleave: where many rows are multiplied with the same weights, what they are made of gets a second place, in which 8
// rows lie side by side, 4 bytes of each.
// In: kernels. Out: kernels whose products of rows read such twins, and whose writers fill them too, or instead.
// Invariant: a twin holds the same numbers; where a number lies is a one-to-one map of its flat index.
// Example: 64 rows of 2,048 bytes: element (t, k) at ((t//8·512 + k//4)·8 + t%8)·4 + k%4.
#include "schedule/interleave.h"

#include "base/map.h"
#include "ir/rewrite.h"
#include "schedule/schedule.h"

// ---------------------------------------------------------------- which loop

static UOp *load_of(UOp *u) {
    UOp *load = u->op == OP_CAST ? u->src[0] : u;
    return load->op == OP_LOAD && load->n_src == 1 && dtype_bytes(load->dtype) == 1 ? load : NULL;
}

static bool is_exact_sum(const UOp *u) { return u->op == OP_FOLD && u->arg[0] == MONOID_SUM && dtype_is_int(u->dtype); }

static bool holds_exact_sum(Arena *arena, UOp *fold) {
    UOpList order = uop_toposort_value(arena, fold->src[0]);
    for (size_t k = 0; k < order.len; k++) if (is_exact_sum(order.at[k])) return true;
    return false;
}

static bool has_static_ranges(const UOp *fold) {
    for (int i = 1; i < fold->n_src; i++) if (!range_is_static(fold->src[i])) return false;
    return true;
}

// Whether the store closes the range, or a tile of the kernel does.
static bool is_of_store(const UOp *store, const UOp *range) {
    for (int i = 2; i < store->n_src; i++) if (store->src[i] == range) return true;
    return range_kind(range) == RANGE_GLOBAL;
}

// The weights change along some other loop of the store, which the rows do not know.
static bool is_shared(const RangeSets *sets, const UOp *store, const UOp *rows, const UOp *weights, const UOp *loop) {
    if (!range_sets_depends(sets, rows, loop) || range_sets_depends(sets, weights, loop)) return false;
    for (size_t k = 0; k < sets->ranges.len; k++)
        if (is_of_store(store, sets->ranges.at[k]) && range_sets_has(sets, weights, k) && !range_sets_has(sets, rows, k)) return true;
    return false;
}

static bool fits_all_sums(Arena *arena, const RangeSets *sets, UOp *loop) {
    for (size_t k = 0; k < sets->order.len; k++) {
        UOp *u = sets->order.at[k];
        if (u->op == OP_RANGE && u != loop && range_sets_depends(sets, u->src[0], loop)) return false;   // its end is data of the row
        if (u->op != OP_FOLD || !range_sets_depends(sets, u, loop)) continue;
        bool is_sum = u->arg[0] == MONOID_SUM && has_static_ranges(u);
        if (!is_sum || !(is_exact_sum(u) || u->arg[1] == 1 || holds_exact_sum(arena, u))) return false;
    }
    return true;
}

UOp *interleave_loop(Arena *arena, UOp *store, IsRowLoad is_row, void *context) {
    RangeSets sets = range_sets(arena, store->src[1]);
    for (size_t k = 0; k < sets.order.len; k++) {
        UOp *sum = sets.order.at[k], *product = sum->n_src ? sum->src[0] : NULL;
        if (!is_exact_sum(sum) || product->op != OP_MUL) continue;
        for (int side = 0; side < 2; side++) {
            UOp *load = load_of(product->src[side]), *weights = product->src[1 - side];
            for (int i = 2; load && i < store->n_src; i++) {
                UOp *loop = store->src[i];
                if (!range_is_static(loop) || range_kind(loop) != RANGE_LOOP || range_size(loop) % INTERLEAVED_ROWS) continue;
                if (is_shared(&sets, store, load, weights, loop) && is_row(context, load, loop) && fits_all_sums(arena, &sets, loop))
                    return loop;
            }
        }
    }
    return NULL;
}

// ---------------------------------------------------------------- twins

// Of which temporary, elements of a row, its second place, and whether the first is read as well.
typedef struct Twin { int64_t id, row; UOp *buffer; bool is_beside; } Twin;
typedef struct Interleaver { Schedule *s; VEC(Twin) twins; Map copies; } Interleaver;   // (twin, store) → what fills the twin

static int64_t words_of(DType dtype) { return INTERLEAVED_BYTES / dtype_bytes(dtype); }

// A temporary whose rows can stand side by side: the elements of a row. 0 where they cannot.
static int64_t row_of(const Schedule *s, UOp *load, UOp *loop) {
    const UOp *buffer = uop_buffer_of(load->src[0]);
    const Temp *temp = schedule_temp_find((Schedule *)(uintptr_t)s, buffer->arg[0]);
    int64_t row = 0;
    bool is_strided = temp && load->dtype == buffer->dtype && index_step(load->src[0]->src[1], loop, &row);
    bool fits = is_strided && row > 1 && dtype_bytes(temp->dtype) <= INTERLEAVED_BYTES && row % words_of(temp->dtype) == 0 &&
                temp->count % (row * INTERLEAVED_ROWS) == 0;
    return fits ? row : 0;
}

static bool is_temporary_row(void *context, UOp *load, UOp *loop) { return row_of(context, load, loop) > 0; }

static UOp *interleaved(UOp *flat, int64_t row, DType dtype) {
    Graph *g = flat->graph;
    int64_t n = words_of(dtype);
    UOp *t = uop_binary(OP_IDIV, flat, uop_int(g, DT_I32, row)), *k = uop_binary(OP_MOD, flat, uop_int(g, DT_I32, row));
    UOp *rows = uop_int(g, DT_I32, INTERLEAVED_ROWS), *word = uop_int(g, DT_I32, n);
    UOp *at = uop_binary(OP_MUL, uop_binary(OP_IDIV, t, rows), uop_int(g, DT_I32, row / n));
    at = uop_binary(OP_MUL, uop_binary(OP_ADD, at, uop_binary(OP_IDIV, k, word)), rows);
    at = uop_binary(OP_MUL, uop_binary(OP_ADD, at, uop_binary(OP_MOD, t, rows)), word);
    return simplify(uop_binary(OP_ADD, at, uop_binary(OP_MOD, k, word)));
}

static Twin *twin_of(Interleaver *x, const UOp *buffer, int64_t row) {
    for (size_t i = 0; i < x->twins.len; i++)
        if (x->twins.at[i].id == buffer->arg[0] && x->twins.at[i].row == row) return &x->twins.at[i];
    int64_t count = schedule_temp_find(x->s, buffer->arg[0])->count;
    UOp *made = schedule_temp(x->s, buffer->dtype, count, buffer->arg[1], buffer->arg[2]);
    vec_push(x->s->arena, &x->twins, ((Twin){.id = buffer->arg[0], .row = row, .buffer = made}));
    return &x->twins.at[x->twins.len - 1];
}

static bool is_summed(const RangeSets *sets, const UOp *store, const UOp *load) {
    for (size_t k = 0; k < sets->ranges.len; k++)
        if (!is_of_store(store, sets->ranges.at[k]) && range_sets_has(sets, load, k)) return true;
    return false;
}

// The loads of a store that can read twins: numbers of its rows that it sums over. rows[i]: the elements of a row of the i-th.
static UOpList twin_loads(Interleaver *x, UOp *store, int64_t **rows) {
    Arena *arena = x->s->arena;
    UOp *loop = interleave_loop(arena, store, is_temporary_row, x->s);
    UOpList loads = {0};
    if (!loop) return loads;
    RangeSets sets = range_sets(arena, store->src[1]);
    *rows = arena_new(arena, (sets.order.len + 1) * sizeof **rows);
    for (size_t k = 0; k < sets.order.len; k++) {
        UOp *u = sets.order.at[k];
        if (u->op != OP_LOAD || u->n_src > 1 || !range_sets_depends(&sets, u, loop) || !is_summed(&sets, store, u)) continue;
        int64_t row = row_of(x->s, u, loop);
        if (!row) continue;
        (*rows)[loads.len] = row;
        vec_push(arena, &loads, u);
    }
    return loads;
}

// Which temporaries get twins, and which of them keep their first place: where a load stays, and outputs.
static void find_twins(Interleaver *x, const KernelList *kernels) {
    Arena *arena = x->s->arena;
    VEC(int64_t) read = {0};
    for (size_t i = 0; i < kernels->len; i++)
        for (size_t m = 0; m < kernels->at[i].stores.len; m++) {
            int64_t *rows = NULL;
            UOp *store = kernels->at[i].stores.at[m];
            UOpList loads = twin_loads(x, store, &rows), order = uop_toposort_value(arena, store);
            for (size_t k = 0; k < loads.len; k++) twin_of(x, uop_buffer_of(loads.at[k]->src[0]), rows[k]);
            for (size_t k = 0; k < order.len; k++) {
                UOp *u = order.at[k];
                bool is_switched = u->op != OP_LOAD;
                for (size_t l = 0; l < loads.len && !is_switched; l++) is_switched = loads.at[l] == u;
                if (!is_switched) vec_push(arena, &read, uop_buffer_of(u->src[0])->arg[0]);
            }
        }
    for (size_t t = 0; t < x->twins.len; t++) {
        Twin *twin = &x->twins.at[t];
        twin->is_beside = schedule_temp_find(x->s, twin->id)->is_output;
        for (size_t k = 0; k < read.len; k++) twin->is_beside |= read.at[k] == twin->id;
        for (size_t o = 0; o < x->twins.len; o++) twin->is_beside |= o != t && x->twins.at[o].id == twin->id;
    }
}

typedef struct CopyKey { const UOp *buffer, *store; } CopyKey;

static UOp *copy_of(const Interleaver *x, const Twin *twin, const UOp *store) {
    CopyKey key = {twin->buffer, store};
    UOp *copy = map_get(&x->copies, &key, sizeof key);
    CHECK(copy != NULL);
    return copy;
}

// What a load reads at the twin, behind the copies of what it waited for.
static UOp *read_twin(Interleaver *x, UOp *load, int64_t row) {
    UOp *memory = load->src[0]->src[0], *deps[64];
    const Twin *twin = twin_of(x, uop_buffer_of(load->src[0]), row);
    int n = 0;
    for (; memory->op == OP_AFTER; memory = memory->src[0])
        for (int i = 1; i < memory->n_src; i++) {
            CHECK(n < 64);
            deps[n++] = copy_of(x, twin, memory->src[i]);
        }
    UOp *at = n ? uop_after(twin->buffer, deps, n) : twin->buffer;
    return uop_load(uop_index(at, interleaved(load->src[0]->src[1], row, (DType)load->dtype)), (DType)load->dtype, NULL);
}

static UOp *read_twins(Interleaver *x, UOp *store) {
    int64_t *rows = NULL;
    UOpList loads = twin_loads(x, store, &rows);
    UOp **to = arena_new(x->s->arena, (loads.len + 1) * sizeof *to);
    for (size_t k = 0; k < loads.len; k++) to[k] = read_twin(x, loads.at[k], rows[k]);
    if (!loads.len) return store;
    return uop_store_as(store, store->src[0], uop_substitute(store->src[1], loads.at, to, (int)loads.len), store->src + 2, store->n_src - 2);
}

// The store at a twin instead, or what it wrote copied to it: in loops of its own, tile by tile.
static UOp *at_twin(Arena *arena, UOp *store, const Twin *twin) {
    DType dtype = (DType)twin->buffer->dtype;
    UOp *zero = uop_int(store->graph, dtype, 0), *own = store;
    if (twin->is_beside) own = loops_renewed(arena, uop_store(store->src[0], zero, store->src + 2, store->n_src - 2), NULL, NULL);
    UOp *flat = own->src[0]->src[1], *value = own->src[1];
    if (twin->is_beside) value = uop_load(uop_index(uop_after(store->src[0]->src[0], &store, 1), flat), dtype, NULL);
    return uop_store(uop_index(twin->buffer, interleaved(flat, twin->row, dtype)), value, own->src + 2, own->n_src - 2);
}

// A kernel whose stores read twins and fill those of what they wrote.
static void rewrite_kernel(Interleaver *x, Kernel *kernel) {
    Arena *arena = x->s->arena;
    Kernel out = *kernel;
    size_t n = kernel->stores.len;
    UOp **to = arena_new(arena, (n + 1) * sizeof *to);
    out.stores.at = NULL, out.stores.len = out.stores.cap = 0;
    for (size_t m = 0; m < n; m++) {
        UOp *store = read_twins(x, uop_substitute(kernel->stores.at[m], kernel->stores.at, to, (int)m)), *made = store;
        UOpList copies = {0};
        for (size_t t = 0; t < x->twins.len; t++) {
            const Twin *twin = &x->twins.at[t];
            if (twin->id != uop_buffer_of(store->src[0])->arg[0]) continue;
            UOp *copy = at_twin(arena, store, twin);
            if (twin->is_beside) vec_push(arena, &copies, copy);
            else made = copy;
            CopyKey key = {twin->buffer, made};
            map_put(&x->copies, arena_copy(arena, &key, sizeof key), sizeof key, copy);
        }
        vec_push(arena, &out.stores, to[m] = made);
        for (size_t k = 0; k < copies.len; k++) vec_push(arena, &out.stores, copies.at[k]);
    }
    *kernel = out;
}

void schedule_interleave(Schedule *s, KernelList *kernels) {
    Interleaver x = {.s = s};
    if (s->wishes.width > 0) return;   // rows become lanes; where threads share tiles they become threads
    map_init(&x.copies, s->arena);
    find_twins(&x, kernels);
    for (size_t i = 0; i < kernels->len && x.twins.len; i++) rewrite_kernel(&x, &kernels->at[i]);
}

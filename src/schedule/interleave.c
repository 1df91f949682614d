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
        if (!is_sum || !(is_exact_sum(u) || holds_exact_sum(arena, u))) return false;
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

typedef struct Twin { int64_t id, row; UOp *buffer; } Twin;   // of which temporary; elements of a row; its second place
typedef struct Interleaver { Schedule *s; VEC(Twin) twins; } Interleaver;

static int64_t words_of(DType dtype) { return INTERLEAVED_BYTES / dtype_bytes(dtype); }

// How far apart two steps of a loop read; 0 where that is no constant.
static int64_t stride_of(UOp *index, UOp *loop) {
    int64_t step;
    UOp *next = uop_binary(OP_ADD, loop, uop_int(loop->graph, DT_I32, 1)), *moved = uop_substitute(index, &loop, &next, 1);
    return uop_is_int_const(simplify(uop_binary(OP_SUB, moved, index)), &step) ? step : 0;
}

// A temporary whose rows can stand side by side: the elements of a row. 0 where they cannot.
static int64_t row_of(const Schedule *s, UOp *load, UOp *loop) {
    UOp *buffer = load->src[0]->src[0];   // not behind an AFTER: written by an earlier kernel
    const Temp *temp = buffer->op == OP_BUFFER ? schedule_temp_find((Schedule *)(uintptr_t)s, buffer->arg[0]) : NULL;
    int64_t row = temp && load->dtype == buffer->dtype ? stride_of(load->src[0]->src[1], loop) : 0;
    bool fits = row > 1 && dtype_bytes(temp->dtype) <= INTERLEAVED_BYTES && row % words_of(temp->dtype) == 0 &&
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

static UOp *twin_of(Interleaver *x, const UOp *buffer, int64_t row) {
    for (size_t i = 0; i < x->twins.len; i++)
        if (x->twins.at[i].id == buffer->arg[0] && x->twins.at[i].row == row) return x->twins.at[i].buffer;
    int64_t count = schedule_temp_find(x->s, buffer->arg[0])->count;
    UOp *made = schedule_temp(x->s, buffer->dtype, count, buffer->arg[1], buffer->arg[2]);
    vec_push(x->s->arena, &x->twins, ((Twin){buffer->arg[0], row, made}));
    return made;
}

static bool is_summed(const RangeSets *sets, const UOp *store, const UOp *load) {
    for (size_t k = 0; k < sets->ranges.len; k++) {
        if (!is_of_store(store, sets->ranges.at[k]) && range_sets_has(sets, load, k)) return true;
    }
    return false;
}

// The store, reading twins where it sums over numbers of its rows.
static UOp *read_twins(Interleaver *x, UOp *store) {
    Arena *arena = x->s->arena;
    UOp *loop = interleave_loop(arena, store, is_temporary_row, x->s);
    if (!loop) return store;
    RangeSets sets = range_sets(arena, store->src[1]);
    UOp **from = arena_new(arena, (sets.order.len + 1) * sizeof *from), **to = arena_new(arena, (sets.order.len + 1) * sizeof *to);
    int n = 0;
    for (size_t k = 0; k < sets.order.len; k++) {
        UOp *u = sets.order.at[k];
        if (u->op != OP_LOAD || u->n_src > 1 || !range_sets_depends(&sets, u, loop) || !is_summed(&sets, store, u)) continue;
        int64_t row = row_of(x->s, u, loop);
        if (!row) continue;
        from[n] = u;
        to[n++] = uop_load(uop_index(twin_of(x, u->src[0]->src[0], row), interleaved(u->src[0]->src[1], row, u->dtype)), u->dtype, NULL);
    }
    return uop_store(store->src[0], uop_substitute(store->src[1], from, to, n), store->src + 2, store->n_src - 2);
}

static bool is_read(const Schedule *s, const KernelList *kernels, int64_t id) {
    for (size_t i = 0; i < kernels->len; i++)
        for (size_t m = 0; m < kernels->at[i].stores.len; m++) {
            UOpList order = uop_toposort(s->arena, kernels->at[i].stores.at[m]);
            for (size_t k = 0; k < order.len; k++)
                if (order.at[k]->op == OP_LOAD && uop_buffer_of(order.at[k]->src[0])->arg[0] == id) return true;
        }
    return false;
}

// The store at a twin instead, or what it wrote copied to it: in loops of its own, tile by tile.
static UOp *at_twin(Arena *arena, UOp *store, const Twin *twin, bool is_instead) {
    DType dtype = (DType)twin->buffer->dtype;
    UOp *own = is_instead ? store : loops_renewed(arena, uop_store(store->src[0], uop_int(store->graph, dtype, 0), store->src + 2, store->n_src - 2), NULL, NULL);
    UOp *flat = own->src[0]->src[1], *value = own->src[1];
    if (!is_instead) value = uop_load(uop_index(uop_after(store->src[0]->src[0], &store, 1), flat), dtype, NULL);
    return uop_store(uop_index(twin->buffer, interleaved(flat, twin->row, dtype)), value, own->src + 2, own->n_src - 2);
}

// Writers fill the twins; a place that nobody reads any more is given up.
static void write_twins(Interleaver *x, KernelList *kernels) {
    for (size_t t = 0; t < x->twins.len; t++) {
        const Twin *twin = &x->twins.at[t];
        bool is_kept = schedule_temp_find(x->s, twin->id)->is_output || is_read(x->s, kernels, twin->id);
        for (size_t i = 0; i < kernels->len; i++) {
            Kernel *kernel = &kernels->at[i], out = *kernel;
            out.stores.at = NULL, out.stores.len = out.stores.cap = 0;
            for (size_t m = 0; m < kernel->stores.len; m++) {
                UOp *store = kernel->stores.at[m];
                bool is_writer = uop_buffer_of(store->src[0])->arg[0] == twin->id;
                if (is_kept || !is_writer) vec_push(x->s->arena, &out.stores, store);
                if (is_writer) vec_push(x->s->arena, &out.stores, at_twin(x->s->arena, store, twin, !is_kept));
            }
            *kernel = out;
        }
    }
}

void schedule_interleave(Schedule *s, KernelList *kernels) {
    Interleaver x = {.s = s};
    for (size_t i = 0; i < kernels->len; i++)
        for (size_t m = 0; m < kernels->at[i].stores.len; m++) {
            UOp *old = kernels->at[i].stores.at[m], *made = read_twins(&x, old);
            if (made == old) continue;
            for (size_t k = m; k < kernels->at[i].stores.len; k++)   // and where a later store waits for it
                kernels->at[i].stores.at[k] = uop_substitute(kernels->at[i].stores.at[k], &old, &made, 1);
        }
    if (x.twins.len) write_twins(&x, kernels);
}

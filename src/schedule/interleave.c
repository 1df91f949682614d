// interleave: what products read gets a second place, in an order that fills registers.
// Where many rows are multiplied with the same weights, 8 rows lie side by side, 4 bytes of each. Where a register holds more
// bytes than those of a block's that are read once for several parts of it (16 bytes, whose low and then high halves are 32
// weights), or for two blocks (32 bytes, their low halves one block, their high halves the next), the same parts of neighbours lie side
// by side. So do parts of 8 of sums whose weights do not lie as they are counted: those come by shuffles anyhow.
// In: kernels. Out: kernels whose products read such twins, and whose writers fill them too, or instead.
// Invariant: a twin holds the same numbers; where a number lies is a one-to-one map of its flat index.
// Examples: 64 rows of 2,048 bytes: element (t, k) at ((t//8·512 + k//4)·8 + t%8)·4 + k%4.
// Blocks of 32, of which 16 bytes are read twice, registers of 32: element k of block b at ((b//2·2 + k//16)·2 + b%2)·16 + k%16.
// 8 codes in 3 bytes, sums of 32, registers of 64: element k of sum b at ((b//8·4 + k//8)·8 + b%8)·8 + k%8.
// Pairs of blocks that read the same 32 bytes, registers of 64: element k < 64 of pair c at ((c//4·4 + k//16)·4 + c%2·2 + c//2%2)·16 + k%16.
#include "schedule/interleave.h"

#include <string.h>

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

// What lies as [… rows, words, elements] lies as [… words, rows, elements]; rows are those of a prompt, or blocks of a row, and those that
// become neighbours were `apart` from each other.
typedef struct Order { int64_t rows, words, elements, apart; } Order;

// Of which temporary, in which order, its second place, and whether the first is read as well.
typedef struct Twin { int64_t id; Order order; UOp *buffer; bool is_beside; } Twin;
// copies: (twin, store) → what fills the twin. full: temporaries of kernels that have no room for more loops.
typedef struct Interleaver { Schedule *s; VEC(Twin) twins; Map copies; VEC(int64_t) full; } Interleaver;

static int64_t elements_of_word(DType dtype) { return INTERLEAVED_BYTES / dtype_bytes(dtype); }

// How rows of a temporary along a loop can stand side by side; no rows where they cannot.
static Order order_of_rows(const Schedule *s, UOp *load, UOp *loop) {
    const UOp *buffer = uop_buffer_of(load->src[0]);
    const Temp *temp = schedule_temp_find((Schedule *)(uintptr_t)s, buffer->arg[0]);
    int64_t row = 0;
    bool is_strided = temp && load->dtype == buffer->dtype && index_step(load->src[0]->src[1], loop, &row);
    bool fits = is_strided && row > 1 && dtype_bytes(temp->dtype) <= INTERLEAVED_BYTES && row % elements_of_word(temp->dtype) == 0 &&
                temp->count % (row * INTERLEAVED_ROWS) == 0;
    return fits ? (Order){INTERLEAVED_ROWS, row / elements_of_word(temp->dtype), elements_of_word(temp->dtype), 1} : (Order){0};
}

// Elements of a block stand side by side as they did: those of half a block, not one word.
static bool is_of_blocks(const Order *o, const UOp *buffer) { return o->elements * dtype_bytes(buffer->dtype) > INTERLEAVED_BYTES; }

static bool is_temporary_row(void *context, UOp *load, UOp *loop) { return order_of_rows(context, load, loop).rows > 0; }

static UOp *interleaved(UOp *flat, Order o) {
    Graph *g = flat->graph;
    UOp *row = uop_int(g, DT_I32, o.words * o.elements), *rows = uop_int(g, DT_I32, o.rows), *word = uop_int(g, DT_I32, o.elements);
    UOp *t = uop_binary(OP_IDIV, flat, row), *k = uop_binary(OP_MOD, flat, row);
    UOp *at = uop_binary(OP_MUL, uop_binary(OP_IDIV, t, rows), uop_int(g, DT_I32, o.words));
    at = uop_binary(OP_MUL, uop_binary(OP_ADD, at, uop_binary(OP_IDIV, k, word)), rows);
    UOp *place = uop_binary(OP_MOD, t, rows);
    if (o.apart > 1) {
        UOp *apart = uop_int(g, DT_I32, o.apart), *first = uop_binary(OP_MUL, uop_binary(OP_MOD, place, apart), uop_int(g, DT_I32, o.rows / o.apart));
        place = uop_binary(OP_ADD, first, uop_binary(OP_IDIV, place, apart));
    }
    at = uop_binary(OP_MUL, uop_binary(OP_ADD, at, place), word);
    return simplify(uop_binary(OP_ADD, at, uop_binary(OP_MOD, k, word)));
}

static Twin *twin_of(Interleaver *x, const UOp *buffer, Order order) {
    for (size_t i = 0; i < x->twins.len; i++)
        if (x->twins.at[i].id == buffer->arg[0] && !memcmp(&x->twins.at[i].order, &order, sizeof order)) return &x->twins.at[i];
    int64_t count = schedule_temp_find(x->s, buffer->arg[0])->count;
    UOp *made = schedule_temp(x->s, buffer->dtype, count, buffer->arg[1], buffer->arg[2]);
    vec_push(x->s->arena, &x->twins, ((Twin){.id = buffer->arg[0], .order = order, .buffer = made}));
    return &x->twins.at[x->twins.len - 1];
}

static bool is_summed(const RangeSets *sets, const UOp *store, const UOp *load) {
    for (size_t k = 0; k < sets->ranges.len; k++)
        if (!is_of_store(store, sets->ranges.at[k]) && range_sets_has(sets, load, k)) return true;
    return false;
}

static UOp *index_at(UOp *index, UOp *loop, int64_t n) {
    UOp *at = uop_int(loop->graph, DT_I32, n);
    return uop_substitute(index, &loop, &at, 1);
}

static bool is_equal(UOp *a, UOp *b) {
    int64_t apart;
    return a == b || (uop_is_int_const(simplify(uop_binary(OP_SUB, a, b)), &apart) && apart == 0);
}

static bool is_looked_up(Arena *arena, const RangeSets *sets, UOp *index, UOp *loop) {
    UOpList order = uop_toposort_value(arena, index);
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == OP_LOAD && range_sets_depends(sets, order.at[k], loop)) return true;
    return false;
}

// Whether steps `from` and `to` of a loop read the same bytes, in every load of weights that walks along `inner` byte by byte; where code books
// are read is data, and bits of which several steps share a byte are taken from wherever they are. is_any: whether there is such a load.
static bool reads_same(Arena *arena, const RangeSets *sets, UOp *weights, UOp *inner, UOp *loop, int64_t from, int64_t to, bool *is_any) {
    UOpList order = uop_toposort_value(arena, weights);
    *is_any = false;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *index = u->op == OP_LOAD ? u->src[0]->src[1] : NULL;
        if (!index || is_looked_up(arena, sets, index, inner) || is_equal(index_at(index, inner, 0), index_at(index, inner, 1))) continue;
        if (u->n_src > 1 || !is_equal(index_at(index, loop, from), index_at(index, loop, to))) return false;
        *is_any = true;
    }
    return true;
}

// Whether both halves of a loop read the same bytes.
static bool halves_are_same(Arena *arena, const RangeSets *sets, UOp *weights, UOp *loop) {
    int64_t half = range_size(loop) / 2;
    bool is_any;
    return reads_same(arena, sets, weights, loop, loop, 0, half, &is_any) && reads_same(arena, sets, weights, loop, loop, half - 1, 2 * half - 1, &is_any) && is_any;
}

// Whether blocks two by two read the same bytes.
static bool pairs_are_same(Arena *arena, const RangeSets *sets, UOp *weights, UOp *loop, UOp *blocks) {
    bool is_any = false;
    for (int64_t b = 0; b < range_size(blocks); b += 2)
        if (!reads_same(arena, sets, weights, loop, blocks, b, b + 1, &is_any)) return false;
    return is_any;
}

// Whether a loop reads weights that do not lie as it walks, but in runs of so many steps: along each of them every load stands still or reads byte
// after byte, and over the whole loop none does. `blocks` is the loop around it, along which runs may lie otherwise.
static bool parts_are_runs(Arena *arena, const RangeSets *sets, UOp *weights, UOp *loop, UOp *blocks, int64_t part) {
    enum { MOST_BLOCKS = 8 };
    UOpList order = uop_toposort_value(arena, weights);
    int64_t n_blocks = range_size(blocks) < MOST_BLOCKS ? range_size(blocks) : MOST_BLOCKS, step, first = 0, at;
    bool is_any = false;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *index = u->op == OP_LOAD ? u->src[0]->src[1] : NULL;
        if (!index || !range_sets_depends(sets, index, loop) || is_looked_up(arena, sets, index, loop)) continue;
        if (u->n_src > 1 || index_step(index, loop, &step)) return false;
        is_any = true;
        for (int64_t i = 0; i < n_blocks * range_size(loop); i++) {
            UOp *of_block = index_at(index, blocks, i / range_size(loop));
            int64_t k0 = i % range_size(loop) / part * part, k1 = i % range_size(loop);
            UOp *walked = simplify(uop_binary(OP_SUB, index_at(of_block, loop, k1), index_at(of_block, loop, k0)));
            if (!uop_is_int_const(walked, &at)) return false;
            if (k1 == k0 + 1) first = at;
            if (k1 > k0 && (first < 0 || first > 1 || at != first * (k1 - k0))) return false;
        }
    }
    return is_any;
}

// How rows of so many elements, of which parts are read twice or come by shuffles anyhow, can stand side by side in registers, a part of each; a row is a block, or two
// that lie one behind the other, `n` times along a loop. Of pairs every second one comes first: where the weights of a pair are two parts of a
// register, these are where the register wants them then, in one of two of memory. No rows where they cannot.
static Order order_of_parts(int64_t row, int64_t n, int64_t part, int bytes, UOp *start, int64_t count, bool is_pairs) {
    int64_t rows = bytes / part, rest;
    if (rows < 2 || rows * part != bytes || n % rows || count % (rows * row)) return (Order){0};
    UOp *behind = simplify(uop_binary(OP_MOD, start, uop_int(start->graph, DT_I32, rows * row)));
    return uop_is_int_const(behind, &rest) && rest == 0 ? (Order){rows, row / part, part, is_pairs && rows > 2 && rows % 2 == 0 ? 2 : 1} : (Order){0};
}

// How what a load walks along in `loop`, multiplied with weights, can stand side by side in registers of so many bytes: where weights' bytes
// are read twice and fill a part of a register, or lie in runs of 8 that are no run together. No rows where it cannot.
static Order order_in_registers(const Interleaver *x, const RangeSets *sets, const UOp *store, UOp *load, UOp *weights, UOp *loop, int bytes) {
    enum { PART = 8 };          // elements whose weights BITS makes of as many bytes
    Schedule *s = x->s;
    const Temp *temp = schedule_temp_find(s, uop_buffer_of(load->src[0])->arg[0]);
    int64_t step, block = range_size(loop), part = block / 2;
    if (!temp || block % 2 || part <= INTERLEAVED_BYTES || part % INTERLEAVED_BYTES) return (Order){0};
    for (size_t i = 0; i < x->full.len; i++) if (x->full.at[i] == temp->id) return (Order){0};
    UOp *index = load->src[0]->src[1];
    if (!index_step(index, loop, &step) || step != 1) return (Order){0};
    bool is_halves = halves_are_same(s->arena, sets, weights, loop);
    UOp *innermost = NULL, *start = index_at(index, loop, 0);
    int64_t in_line = 1;        // blocks one behind the other, along however many loops
    for (size_t k = 0; k < sets->ranges.len; k++) {
        UOp *blocks = sets->ranges.at[k];
        bool is_walked = blocks != loop && !is_of_store(store, blocks) && range_is_static(blocks) && range_size(blocks) > 1;
        if (!is_walked || !range_sets_has(sets, load, k) || !index_step(index, blocks, &step) || step != block * in_line) continue;
        start = index_at(start, blocks, 0);
        if (!innermost) {
            bool is_pairs = !is_halves && range_size(blocks) % 2 == 0 && pairs_are_same(s->arena, sets, weights, loop, blocks);
            Order order = {0};
            if (is_halves) order = order_of_parts(block, range_size(blocks), part, bytes, start, temp->count, false);
            else if (is_pairs) order = order_of_parts(2 * block, range_size(blocks) / 2, part, bytes, start, temp->count, true);
            if (order.rows) return order;
            innermost = blocks;
        }
        in_line *= range_size(blocks), k = SIZE_MAX;     // from the first loop again
    }
    bool may_be = innermost && !is_halves && bytes > PART && bytes == s->wide_bytes && block % PART == 0 && in_line % (bytes / PART) == 0;
    return may_be && parts_are_runs(s->arena, sets, weights, loop, innermost, PART) ? order_of_parts(block, in_line, PART, bytes, start, temp->count, false) : (Order){0};
}

// Registers twice as long first: the others read their halves.
static Order order_of_blocks(const Interleaver *x, const RangeSets *sets, const UOp *store, UOp *load, UOp *weights, UOp *loop) {
    Order order = order_in_registers(x, sets, store, load, weights, loop, x->s->wide_bytes);
    return order.rows ? order : order_in_registers(x, sets, store, load, weights, loop, x->s->vector_bytes);
}

// A load that reads a twin, and in which order.
typedef struct TwinLoad { UOp *load; Order order; } TwinLoad;
typedef struct TwinLoads { TwinLoad *at; size_t len, cap; } TwinLoads;

// Those of a store: numbers of its rows that it sums over.
static TwinLoads loads_of_rows(Interleaver *x, UOp *store, UOp *loop) {
    TwinLoads loads = {0};
    RangeSets sets = range_sets(x->s->arena, store->src[1]);
    for (size_t k = 0; k < sets.order.len; k++) {
        UOp *u = sets.order.at[k];
        if (u->op != OP_LOAD || u->n_src > 1 || !range_sets_depends(&sets, u, loop) || !is_summed(&sets, store, u)) continue;
        Order order = order_of_rows(x->s, u, loop);
        if (order.rows) vec_push(x->s->arena, &loads, ((TwinLoad){u, order}));
    }
    return loads;
}

// The order of a twin whose blocks are what a load walks along in a loop; no rows where there is none.
static Order order_known(const Interleaver *x, UOp *load, UOp *loop) {
    int64_t step;
    bool is_run = index_step(load->src[0]->src[1], loop, &step) && step == 1;
    for (size_t t = 0; t < x->twins.len && is_run; t++) {
        const Twin *twin = &x->twins.at[t];
        bool is_whole = is_of_blocks(&twin->order, twin->buffer) && twin->order.words * twin->order.elements % range_size(loop) == 0;
        if (is_whole && range_size(loop) % twin->order.elements == 0 && twin->id == uop_buffer_of(load->src[0])->arg[0]) return twin->order;
    }
    return (Order){0};
}

// Those of a store: bytes that it multiplies with halves of others, and those of such a block that it only adds up.
static TwinLoads loads_of_blocks(Interleaver *x, UOp *store) {
    TwinLoads loads = {0};
    RangeSets sets = range_sets(x->s->arena, store->src[1]);
    for (size_t k = 0; k < sets.order.len && x->s->vector_bytes; k++) {
        UOp *sum = sets.order.at[k], *value = sum->n_src ? sum->src[0] : NULL;
        if (!is_exact_sum(sum) || sum->n_src != 2 || !range_is_static(sum->src[1])) continue;
        UOp *term = load_of(value);
        Order order = term ? order_known(x, term, sum->src[1]) : (Order){0};
        if (order.rows) vec_push(x->s->arena, &loads, ((TwinLoad){term, order}));
        for (int side = 0; side < 2 && value->op == OP_MUL; side++) {
            UOp *load = load_of(value->src[side]);
            order = load ? order_of_blocks(x, &sets, store, load, value->src[1 - side], sum->src[1]) : (Order){0};
            if (order.rows) vec_push(x->s->arena, &loads, ((TwinLoad){load, order}));
        }
    }
    return loads;
}

static TwinLoads twin_loads(Interleaver *x, UOp *store) {
    UOp *loop = interleave_loop(x->s->arena, store, is_temporary_row, x->s);
    return loop ? loads_of_rows(x, store, loop) : loads_of_blocks(x, store);
}

// Temporaries whose second place would give the kernel that writes them more loops than it may have.
static void find_full(Interleaver *x, const Kernel *kernel) {
    int loops = loops_count(x->s->arena, kernel_sink(kernel));
    for (size_t m = 0; m < kernel->stores.len; m++) {
        UOp *store = kernel->stores.at[m], *buffer = uop_is_store(store) ? uop_buffer_of(store->src[0]) : NULL;
        if (!buffer || dtype_bytes(buffer->dtype) != 1) continue;
        loops += store->n_src - 1;      // a copy's, one of them cut in two
        if (loops > KERNEL_LOOPS) vec_push(x->s->arena, &x->full, buffer->arg[0]);
    }
}

// Which temporaries get twins, and which of them keep their first place: where a load stays, and outputs.
static void find_twins(Interleaver *x, const KernelList *kernels) {
    Arena *arena = x->s->arena;
    VEC(int64_t) read = {0};
    for (size_t i = 0; i < kernels->len; i++)
        for (size_t m = 0; m < kernels->at[i].stores.len; m++) {
            TwinLoads loads = twin_loads(x, kernels->at[i].stores.at[m]);
            for (size_t k = 0; k < loads.len; k++) twin_of(x, uop_buffer_of(loads.at[k].load->src[0]), loads.at[k].order);
        }
    for (size_t i = 0; i < kernels->len && x->twins.len; i++)
        for (size_t m = 0; m < kernels->at[i].stores.len; m++) {
            UOp *store = kernels->at[i].stores.at[m];
            TwinLoads loads = twin_loads(x, store);
            UOpList order = uop_toposort_value(arena, store);
            for (size_t k = 0; k < order.len; k++) {
                UOp *u = order.at[k];
                bool is_switched = u->op != OP_LOAD;
                for (size_t l = 0; l < loads.len && !is_switched; l++) is_switched = loads.at[l].load == u;
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
static UOp *read_twin(Interleaver *x, UOp *load, Order order) {
    UOp *memory = load->src[0]->src[0], *deps[64];
    const Twin *twin = twin_of(x, uop_buffer_of(load->src[0]), order);
    int n = 0;
    for (; memory->op == OP_AFTER; memory = memory->src[0])
        for (int i = 1; i < memory->n_src; i++) {
            CHECK(n < 64);
            deps[n++] = copy_of(x, twin, memory->src[i]);
        }
    UOp *at = n ? uop_after(twin->buffer, deps, n) : twin->buffer;
    return uop_load(uop_index(at, interleaved(load->src[0]->src[1], order)), (DType)load->dtype, NULL);
}

static UOp *read_twins(Interleaver *x, UOp *store) {
    TwinLoads loads = twin_loads(x, store);
    UOp **from = arena_new(x->s->arena, (loads.len + 1) * sizeof *from), **to = arena_new(x->s->arena, (loads.len + 1) * sizeof *to);
    for (size_t k = 0; k < loads.len; k++) from[k] = loads.at[k].load, to[k] = read_twin(x, from[k], loads.at[k].order);
    if (!loads.len) return store;
    return uop_store_as(store, store->src[0], uop_substitute(store->src[1], from, to, (int)loads.len), store->src + 2, store->n_src - 2);
}

// A store whose loop over elements of blocks is cut where their order is, so that what stays side by side has a loop of its own.
static UOp *cut_at_order(UOp *store, const Twin *twin) {
    int64_t step, unit = twin->order.elements;
    for (int i = 2; i < store->n_src && is_of_blocks(&twin->order, twin->buffer); i++) {
        UOp *loop = store->src[i], *ranges[32];
        bool fits = range_is_static(loop) && range_kind(loop) == RANGE_LOOP && range_size(loop) % unit == 0 && range_size(loop) > unit;
        if (!fits || !index_step(store->src[0]->src[1], loop, &step) || step != 1) continue;
        UOp *outer = uop_range_const(store->graph, range_size(loop) / unit, RANGE_LOOP), *inner = uop_range_const(store->graph, unit, RANGE_LOOP);
        UOp *to = uop_binary(OP_ADD, uop_binary(OP_MUL, outer, uop_int(store->graph, DT_I32, unit)), inner);
        int n = 0;
        for (int k = 2; k < store->n_src; k++) {
            CHECK(n < 30);
            if (k != i) ranges[n++] = uop_substitute(store->src[k], &loop, &to, 1);   // other loops may end at data that depends on it
            else ranges[n++] = outer, ranges[n++] = inner;
        }
        UOp *index = uop_substitute(store->src[0], &loop, &to, 1), *value = uop_substitute(store->src[1], &loop, &to, 1);
        return uop_store_as(store, index, value, ranges, n);
    }
    return store;
}

// The store at a twin instead, or what it wrote copied to it: in loops of its own, tile by tile.
static UOp *at_twin(Arena *arena, UOp *store, const Twin *twin) {
    DType dtype = (DType)twin->buffer->dtype;
    UOp *zero = uop_int(store->graph, dtype, 0), *own = store;
    if (twin->is_beside) own = loops_renewed(arena, uop_store(store->src[0], zero, store->src + 2, store->n_src - 2), NULL, NULL);
    own = cut_at_order(own, twin);
    UOp *flat = own->src[0]->src[1], *value = own->src[1];
    if (twin->is_beside) value = uop_load(uop_index(uop_after(store->src[0]->src[0], &store, 1), flat), dtype, NULL);
    return uop_store(uop_index(twin->buffer, interleaved(flat, twin->order)), value, own->src + 2, own->n_src - 2);
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
    for (size_t i = 0; i < kernels->len && s->vector_bytes; i++) find_full(&x, &kernels->at[i]);
    find_twins(&x, kernels);
    for (size_t i = 0; i < kernels->len && x.twins.len; i++) rewrite_kernel(&x, &kernels->at[i]);
}

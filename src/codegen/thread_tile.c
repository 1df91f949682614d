// thread_tile: the elements of a store that one thread computes at once, on targets where a tile is a group.
// In: a store of sums. Out: how many neighbouring steps of which of its loops; what these read in common is read, and unpacked,
// once. Invariant: no loop that an end which is data depends on; never more elements than a thread can keep. Where the end of a loop is
// data itself, whole steps are taken: what lies behind the end of a stored value is read by nobody (schedule/ragged.c).
// Example: 16 tokens × 32 rows of nibbles, 32 elements: 8 tokens × 4 rows, as a row costs more to unpack than a token to read.
#include "codegen/codegen.h"
#include "codegen/thread_tile.h"

enum { MOST_LOOPS = 6 };
static const double LEAST_GAIN = 0.08;   // of what is read and unpacked, for twice the registers

// Bytes that a step of the sums reads, and makes of what it read, by the set of loops (bits) that they depend on.
typedef struct Reads { int n; UOp *loop[MOST_LOOPS]; double bytes[1 << MOST_LOOPS]; } Reads;

// Loops that an end of another depends on stay as they are.
static bool is_free(const RangeSets *sets, const UOp *store, UOp *loop) {
    for (size_t k = 0; k < sets->ranges.len; k++)
        if (!range_is_static(sets->ranges.at[k]) && range_sets_depends(sets, sets->ranges.at[k]->src[0], loop)) return false;
    for (int i = 2; i < store->n_src; i++)
        if (store->src[i] != loop && !range_is_static(store->src[i]) && range_sets_depends(sets, store->src[i]->src[0], loop)) return false;
    return true;
}

static bool is_of_store(const UOp *store, const UOp *range) {
    for (int i = 2; i < store->n_src; i++) if (store->src[i] == range) return true;
    return range_kind(range) == RANGE_GLOBAL;
}

// Whether u is computed of what is loaded; all nodes below it that are not part of an address, as keys to that.
static bool is_of_loads(UOp *u, UOpMap *known) {
    static char no, yes;
    const char *held = uop_map_get(known, u);
    if (held) return held == &yes;
    int n = u->op == OP_LOAD || u->op == OP_RANGE ? 0 : u->op == OP_AFTER || u->op == OP_FOLD ? 1 : u->n_src;
    bool is = u->op == OP_LOAD;
    for (int i = 0; i < n; i++) is |= is_of_loads(u->src[i], known);
    uop_map_put(known, u, is ? &yes : &no);
    return is;
}

// Loads, and ops that make something of them (a conversion of bytes is part of what reads it).
static bool is_work(UOp *u, UOpMap *known) {
    OpKind kind = op_info[u->op].kind;
    bool is_op = kind == KIND_UNARY || kind == KIND_BINARY || kind == KIND_TERNARY;
    return u->op == OP_LOAD || (is_op && uop_map_get(known, u) && is_of_loads(u, known));
}

// Whether its end may be rounded up: the element has a place of its own behind it, too, and so has all that is read for it.
static bool can_pass_end(Arena *arena, const UOp *store, UOp *loop) {
    UOpMap known;
    int64_t step;
    uop_map_init(&known, arena);
    if (range_is_static(loop)) return true;
    if (ends_at_thread(loop) || is_of_loads(store->src[0]->src[1], &known)) return false;
    UOpList order = uop_toposort_value(arena, store->src[1]);
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_LOAD && !index_step(order.at[k]->src[0]->src[1], loop, &step)) return false;   // it may choose a place
    return true;
}

static Reads reads_of(Arena *arena, UOp *store) {
    RangeSets sets = range_sets(arena, store);
    Reads r = {0};
    for (int i = 2; i < store->n_src && r.n < MOST_LOOPS; i++) {
        UOp *loop = store->src[i];
        bool is_whole = range_kind(loop) == RANGE_LOOP && range_size(loop) % 2 == 0;
        if (is_whole && is_free(&sets, store, loop) && can_pass_end(arena, store, loop)) r.loop[r.n++] = loop;
    }
    UOpList value = uop_toposort_value(arena, store->src[1]);
    UOpMap known;
    uop_map_init(&known, arena);
    is_of_loads(store->src[1], &known);
    for (size_t k = 0; k < value.len; k++) {
        UOp *u = value.at[k];
        if (!is_work(u, &known)) continue;
        double bytes = dtype_bytes((DType)u->dtype);
        bool is_summed = false;
        for (size_t i = 0; i < sets.ranges.len; i++)
            if (range_sets_has(&sets, u, i) && !is_of_store(store, sets.ranges.at[i])) bytes *= (double)range_size(sets.ranges.at[i]), is_summed = true;
        int set = 0;
        for (int i = 0; i < r.n; i++) set |= range_sets_depends(&sets, u, r.loop[i]) << i;
        bool is_own = u->op != OP_LOAD && set == (1 << r.n) - 1;   // of one element: nobody shares it
        if (is_summed && !is_own) r.bytes[set] += bytes;
    }
    return r;
}

// Bytes read and made for an element.
static double bytes_an_element(const Reads *r, const int64_t *steps) {
    double sum = 0;
    for (int set = 0; set < 1 << r->n; set++) {
        double bytes = r->bytes[set];
        for (int i = 0; i < r->n; i++) if (!(set >> i & 1)) bytes /= (double)steps[i];
        sum += bytes;
    }
    return sum;
}

ThreadTile thread_tile(Arena *arena, UOp *store, int64_t most) {
    Reads r = reads_of(arena, store);
    int64_t steps[MOST_LOOPS];
    ThreadTile tile = {.elements = 1};
    for (int i = 0; i < r.n; i++) steps[i] = 1;
    for (double now = bytes_an_element(&r, steps); tile.elements * 2 <= most;) {
        int best = -1;
        double least = now * (1 - LEAST_GAIN);
        for (int i = 0; i < r.n; i++) {
            if (range_size(r.loop[i]) % (2 * steps[i])) continue;
            steps[i] *= 2;
            double then = bytes_an_element(&r, steps);
            if (then < least) best = i, least = then;
            steps[i] /= 2;
        }
        if (best < 0) break;
        steps[best] *= 2, tile.elements *= 2, now = least;
    }
    for (int i = 0; i < r.n; i++) if (steps[i] > 1 && tile.n < THREAD_TILE_LOOPS) tile.loop[tile.n] = r.loop[i], tile.steps[tile.n++] = steps[i];
    return tile;
}

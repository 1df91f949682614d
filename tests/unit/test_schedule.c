// test_schedule: which kernels come out of a graph: how many, and that each stored value is read.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "schedule/merged_loops.h"
#include "schedule/schedule.h"
#include "tensor/tensor.h"

#undef fail // cmocka has its own
#include <cmocka.h>

enum { WIDTH = 256, ROWS = 512 };

typedef struct Plan { Arena *arena; Graph *g; Schedule schedule; TileWishes wishes; KernelList kernels; Error err; } Plan;   // wishes: zeros, a CPU's

static Plan plan_new(void) {
    Plan p = {.arena = arena_create()};
    p.g = graph_create(p.arena);
    return p;
}

static void plan_make(Plan *p, Tensor *outputs, int n) {
    if (!schedule_build(&p->schedule, p->arena, outputs, n, &p->err)) fail_msg("%s", p->err.text);
    p->schedule.wishes = p->wishes;
    if (!schedule_kernels(&p->schedule, &p->kernels, &p->err)) fail_msg("%s", p->err.text);
}

static Tensor product(Plan *p, int id, Tensor x, int64_t rows) {   // W·x for x [k]
    Tensor w = tensor_buffer(p->g, id, DT_F32, 0, 0, dims(rows, tensor_size(x, -1)));
    return tensor_sum(tensor_mul(w, x), -1);
}

static Tensor inverse_rms(Tensor x) {
    Tensor blocks = tensor_reshape(tensor_mul(x, x), dims(tensor_size(x, -1) / 32, 32));
    Tensor sum = tensor_sum(tensor_contiguous(tensor_sum(blocks, -1)), -1);
    return tensor_unary(OP_RECIP, tensor_unary(OP_SQRT, tensor_add_const(sum, 1e-5)));
}

// Ids of buffers stored (or loaded) by any kernel, 1 in `seen`.
static void mark(Plan *p, Op op, bool *seen) {
    for (size_t k = 0; k < p->kernels.len; k++)
        for (size_t i = 0; i < p->kernels.at[k].stores.len; i++) {
            UOpList order = uop_toposort(p->arena, p->kernels.at[k].stores.at[i]);
            for (size_t n = 0; n < order.len; n++) {
                if (order.at[n]->op != op) continue;
                UOp *buffer = uop_buffer_of(order.at[n]->src[0]);
                if (buffer->arg[0] >= FIRST_TEMP_ID) seen[buffer->arg[0] - FIRST_TEMP_ID] = true;
            }
        }
}

// A temporary is read by somebody, or is an output.
static void nothing_is_stored_in_vain(Plan *p) {
    size_t n = p->schedule.temps.len;
    bool *stored = calloc(n + 1, 1), *loaded = calloc(n + 1, 1);
    assert_true(stored && loaded);
    mark(p, OP_STORE, stored);
    mark(p, OP_LOAD, loaded);
    for (size_t i = 0; i < n; i++)
        if (stored[i] && !loaded[i] && !p->schedule.temps.at[i].is_output) fail_msg("temporary %zu is never read", i);
    free(stored);
    free(loaded);
}

// The sum behind a norm is one number: its readers add up the sums of the blocks, and no kernel waits for it.
static void test_norm_is_no_kernel(void **state) {
    (void)state;
    Plan p = plan_new();
    Tensor x = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(WIDTH));
    Tensor h = tensor_contiguous(product(&p, 1, x, 2048)), scale = inverse_rms(h);
    Tensor a = tensor_contiguous(tensor_mul(product(&p, 2, h, ROWS), scale));
    Tensor b = tensor_contiguous(tensor_mul(product(&p, 3, h, ROWS), scale));
    Tensor c = product(&p, 4, tensor_mul(a, b), ROWS);
    plan_make(&p, (Tensor[]){c}, 1);
    assert_int_equal(p.kernels.len, 3);   // h with the sums of its blocks; a, b and a·b; c
    nothing_is_stored_in_vain(&p);
    arena_destroy(p.arena);
}

// A number that costs much to compute is computed once.
static void test_costly_number_is_stored(void **state) {
    (void)state;
    Plan p = plan_new();
    Tensor x = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(1 << 20));
    Tensor y = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(1 << 20));
    plan_make(&p, (Tensor[]){tensor_mul(y, tensor_sum(tensor_mul(x, x), -1))}, 1);
    assert_int_equal(p.kernels.len, 2);
    nothing_is_stored_in_vain(&p);
    arena_destroy(p.arena);
}

// What is read of a buffer that the step stores to is read where the graph says, not later.
static void test_stored_buffer_is_not_put_off(void **state) {
    (void)state;
    Plan p = plan_new();
    Tensor small = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(64)), x = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(WIDTH));
    Tensor sum = tensor_contiguous(tensor_sum(tensor_assign(small, small, tensor_mul_const(small, 2)), -1));
    Tensor h = tensor_contiguous(product(&p, 2, x, 2048));
    plan_make(&p, (Tensor[]){tensor_mul(product(&p, 3, h, ROWS), sum)}, 1);
    nothing_is_stored_in_vain(&p);
    int stored = 0;
    for (size_t k = 0; k < p.kernels.len; k++)
        for (size_t i = 0; i < p.kernels.at[k].stores.len; i++) stored += p.kernels.at[k].stores.at[i]->n_src == 2;
    assert_int_equal(stored, 1);
    arena_destroy(p.arena);
}

// A value joined from two is computed in two loops without masks, tile by tile of what both share.
static void test_joined_value_is_split(void **state) {
    (void)state;
    Plan p = plan_new();
    Tensor x = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(16, 1, 128)), tail = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(16, 64));
    Tensor w = tensor_buffer(p.g, 2, DT_F32, 0, 0, dims(16, 512, 128));
    Tensor y = tensor_concat(tensor_sum(tensor_mul(w, x), -1), tail, 1);
    plan_make(&p, (Tensor[]){y}, 1);
    assert_int_equal(p.kernels.len, 1);
    assert_int_equal(p.kernels.at[0].stores.len, 2);
    assert_int_equal(range_size(p.kernels.at[0].tiles.at[0]), 16);
    for (size_t i = 0; i < 2; i++) {
        UOpList order = uop_toposort(p.arena, p.kernels.at[0].stores.at[i]);
        for (size_t k = 0; k < order.len; k++) {
            assert_int_not_equal(order.at[k]->op, OP_WHERE);
            if (order.at[k]->op == OP_LOAD) assert_int_equal(order.at[k]->n_src, 1);
        }
    }
    arena_destroy(p.arena);
}

// Products that do not wait for each other are one kernel, whose tiles are those of both.
static void test_independent_kernels_are_one(void **state) {
    (void)state;
    Plan p = plan_new();
    Tensor x = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(2048));
    Tensor a = tensor_contiguous(product(&p, 1, x, 3 * ROWS)), b = tensor_contiguous(product(&p, 2, x, 7 * 11 * 13));
    Tensor c = tensor_contiguous(product(&p, 3, a, 64));
    plan_make(&p, (Tensor[]){a, b, c}, 3);
    assert_int_equal(p.kernels.len, 2);   // a and b; c
    assert_int_equal(p.kernels.at[0].stores.len, 2);
    assert_int_equal(p.kernels.at[0].tiles.len, 1);
    for (int i = 0; i < 2; i++) {   // each in a loop of at most one step
        UOp *outer = p.kernels.at[0].stores.at[i]->src[2];
        assert_int_equal(range_size(outer), 1);
        assert_false(uop_is_const(outer->src[0]));
    }
    arena_destroy(p.arena);
}

static TileWishes card(void) {   // of a device whose tiles can tell that they are the last
    return (TileWishes){.work = 65536, .most = 4096, .enough = 1024, .few = 1024, .multiple = 16, .width = 66, .sync_work = 450000, .has_tails = true};
}

// The LAST_TILE of a kernel, or NULL.
static UOp *last_tile_of(const Kernel *k) {
    for (size_t i = 0; i < k->stores.len; i++) if (k->stores.at[i]->op == OP_LAST_TILE) return k->stores.at[i];
    return NULL;
}

// Ranks of scores are little work behind a product: its last tile makes them. Counters are a temporary that keeps its place.
static void test_little_work_is_a_tail(void **state) {
    (void)state;
    for (int has = 0; has < 2; has++) {
        Plan p = plan_new();
        p.wishes = card();
        p.wishes.has_tails = has;
        Tensor score = tensor_contiguous(product(&p, 1, tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(2048)), 64));
        plan_make(&p, (Tensor[]){tensor_contiguous(tensor_rank(score))}, 1);
        assert_int_equal(p.kernels.len, has ? 1 : 2);
        UOp *last = last_tile_of(&p.kernels.at[0]);
        assert_int_equal(last != NULL, has);
        if (last) {
            int64_t tiles = 1;
            for (size_t t = 0; t < p.kernels.at[0].tiles.len; t++) tiles *= range_size(p.kernels.at[0].tiles.at[t]);
            assert_int_equal(last->arg[0], tiles);
            const Temp *counter = schedule_temp_find(&p.schedule, uop_buffer_of(last->src[0])->arg[0]);
            assert_true(counter->stays_zero && counter->count == 1);
        }
        nothing_is_stored_in_vain(&p);
        arena_destroy(p.arena);
    }
}

// Sums of the last axis of one buffer times another: nothing is read twice.
static Tensor sum_of_products(Plan *p, int id, Dims shape) {
    return tensor_sum(tensor_mul(tensor_buffer(p->g, id, DT_F32, 0, 0, shape), tensor_buffer(p->g, id + 1, DT_F32, 0, 0, shape)), -1);
}

// Rows of many groups, and their sum over groups beside another product: short ones share a kernel whose tiles are the rows;
// long ones stay apart on a device with groups of threads, as each tile would walk all groups.
static void test_long_products_keep_their_tiles(void **state) {
    (void)state;
    for (int is_long = 0; is_long < 2; is_long++) {
        Plan p = plan_new();
        p.wishes = card();
        Dims many = dims(64, ROWS, is_long ? 1 << 20 : 1024), few = dims(ROWS, is_long ? 1 << 22 : 1024);
        Tensor parts = tensor_contiguous(sum_of_products(&p, 0, many));
        Tensor other = sum_of_products(&p, 2, few);
        plan_make(&p, (Tensor[]){tensor_add(tensor_sum(parts, 0), other)}, 1);
        assert_int_equal(p.kernels.len, is_long ? 2 : 1);
        nothing_is_stored_in_vain(&p);
        arena_destroy(p.arena);
    }
}

// Scores of 20 heads that share their keys: a tile has 10 heads of a page, so that each key is read twice, not 20 times, and there are
// two tiles for each that runs. Where pages are too few for that, or each head has keys of its own, tiles are short.
static void test_shared_cells_make_large_tiles(void **state) {
    (void)state;
    enum { HEADS = 20, PAGE = 64, WIDE = 512 };
    static const struct { int pages, key_heads; double tiles; } cases[] = {{132, 1, 264}, {16, 1, 1024}, {132, HEADS, 2640}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Plan p = plan_new();
        p.wishes = card();
        Tensor q = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(1, HEADS, 1, WIDE));
        Tensor k = tensor_buffer(p.g, 1, DT_F16, 0, 0, dims(cases[i].pages, cases[i].key_heads, PAGE, WIDE));
        plan_make(&p, (Tensor[]){tensor_sum(tensor_mul(q, tensor_cast(k, DT_F32)), 3)}, 1);
        assert_int_equal(p.kernels.len, 1);
        if ((double)kernel_tiles(&p.kernels.at[0]) != cases[i].tiles)
            fail_msg("%d pages of %d heads: %d tiles", cases[i].pages, cases[i].key_heads, (int)kernel_tiles(&p.kernels.at[0]));
        arena_destroy(p.arena);
    }
}

// Sums of a group's parts follow the tiles of the group alone; of more tiles than run at a few times, each would wait in vain.
static void test_tails_of_groups(void **state) {
    (void)state;
    enum { GROUPS = 20, WIDE = 512, INNER = 64, FEW = 16, MANY = 64 };
    for (int parts = FEW; parts <= MANY; parts += MANY - FEW) {
        Plan p = plan_new();
        p.wishes = card();
        Tensor k = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(parts, 1, INNER, WIDE)), q = tensor_buffer(p.g, 2, DT_F32, 0, 0, dims(GROUPS, 1, WIDE));
        Tensor score = tensor_contiguous(tensor_unary(OP_EXP, tensor_sum(tensor_mul(k, q), -1)));                          // [parts, groups, inner]
        Tensor part = tensor_contiguous(tensor_reduce(MONOID_SUM, 1, tensor_mul(tensor_unsqueeze(score, -1), k), dims(2)));   // [parts, groups, wide]
        Tensor total = tensor_contiguous(tensor_sum(tensor_sum(score, -1), 0));                                             // [groups]
        Tensor shares = tensor_div(tensor_sum(part, 0), tensor_unsqueeze(total, -1));
        plan_make(&p, (Tensor[]){tensor_contiguous(tensor_unary(OP_EXP, shares))}, 1);
        UOp *last = last_tile_of(&p.kernels.at[0]);
        if (parts > FEW) {
            assert_null(last);
        } else {
            assert_non_null(last);
            assert_int_equal(p.kernels.len, 1);
            int64_t tiles = 1, counters = schedule_temp_find(&p.schedule, uop_buffer_of(last->src[0])->arg[0])->count;
            for (size_t t = 0; t < p.kernels.at[0].tiles.len; t++) tiles *= range_size(p.kernels.at[0].tiles.at[t]);
            assert_true(counters > 1);
            assert_int_equal(counters * last->arg[0], tiles);
        }
        arena_destroy(p.arena);
    }
}

static int64_t tiles_of(const Kernel *k) {
    int64_t tiles = 1;
    for (size_t t = 0; t < k->tiles.len; t++) tiles *= range_size(k->tiles.at[t]);
    return tiles;
}

// Sums of blocks that are counted in rows of 8: the tile that makes a block adds it up, though it is no loop of the sums. Blocks of heads,
// too, where a head is a loop of its own.
static void test_loops_that_stand_together_are_one(void **state) {
    (void)state;
    enum { DIM = 2048, BLOCK = 32, ROW = 8 };
    for (int i = 0; i < 4; i++) {
        int64_t heads = i / 2 ? 4 : 1;
        Plan p = plan_new();
        if (i % 2) p.wishes = card();
        Tensor w = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(heads, DIM, 2048)), x = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(heads, 1, 2048));
        Tensor h = tensor_contiguous(tensor_reshape(tensor_sum(tensor_mul(w, x), -1), dims(heads, DIM / BLOCK, BLOCK)));
        Tensor most = tensor_contiguous(tensor_max(h, -1)), rounded = tensor_cast(tensor_unary(OP_ROUND, tensor_div(h, tensor_unsqueeze(most, -1))), DT_I8);
        rounded = tensor_contiguous(rounded);
        Tensor sums = tensor_sum(tensor_cast(tensor_reshape(rounded, dims(heads, DIM / BLOCK / ROW, ROW, BLOCK)), DT_I32), -1);
        plan_make(&p, (Tensor[]){rounded, tensor_contiguous(sums)}, 2);
        assert_int_equal(p.kernels.len, 1);
        assert_null(last_tile_of(&p.kernels.at[0]));
        assert_true(tiles_of(&p.kernels.at[0]) >= DIM / BLOCK);
        arena_destroy(p.arena);
    }
}

// Loops that address everything as one are none where a third loop ends at one of them alone.
static void test_ends_keep_loops_apart(void **state) {
    (void)state;
    enum { HEADS = 4, PAGES = 8, PAGE = 64 };
    for (int has_end = 0; has_end < 2; has_end++) {
        Plan p = plan_new();
        UOp *h = uop_range_const(p.g, HEADS, RANGE_LOOP), *page = uop_range_const(p.g, PAGES, RANGE_LOOP);
        UOp *end = uop_binary(OP_SUB, uop_int(p.g, DT_I32, PAGE * PAGES), uop_binary(OP_MUL, page, uop_int(p.g, DT_I32, PAGE)));
        UOp *k = has_end ? uop_range_most(p.g, end, PAGE, RANGE_LOOP) : uop_range_const(p.g, PAGE, RANGE_LOOP);
        UOp *row = uop_binary(OP_ADD, uop_binary(OP_MUL, h, uop_int(p.g, DT_I32, PAGES)), page);
        UOp *at = uop_binary(OP_ADD, uop_binary(OP_MUL, row, uop_int(p.g, DT_I32, PAGE)), k);
        Tensor from = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(HEADS * PAGES * PAGE)), to = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(HEADS * PAGES * PAGE));
        UOp *store = uop_store(uop_index(to, at), uop_load(uop_index(from, at), DT_F32, NULL), (UOp *[]){h, page, k}, 3), *forms[4];
        int n = loops_merged(p.arena, store, forms, 4);
        assert_true(has_end ? n == 0 : n > 0);
        arena_destroy(p.arena);
    }
}

// o[r, j] = Σ_p w[r, p] Σ_k s[r, p, k] v[p, k, j], v made first and more than near caches hold, and each j work enough for a tile:
// a tile keeps a line of neighbours all the same, so that registers can hold them.
static void test_neighbours_stay_in_a_tile(void **state) {
    (void)state;
    enum { R = 256, P = 10, K = 64, J = 256, LINE = 16 };
    Plan p = plan_new();
    Tensor w = tensor_contiguous(tensor_unary(OP_EXP, tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(R, P, 1))));
    Tensor s = tensor_contiguous(tensor_unary(OP_EXP, tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(R, P, K, 1))));
    Tensor v = tensor_contiguous(tensor_cast(tensor_buffer(p.g, 2, DT_F16, 0, 0, dims(1, P, K, J)), DT_F32));
    Tensor part = tensor_reduce(MONOID_SUM, 1, tensor_mul(s, v), dims(2));
    plan_make(&p, (Tensor[]){tensor_reduce(MONOID_SUM, 1, tensor_mul(w, part), dims(1))}, 1);
    const Kernel *last = &p.kernels.at[p.kernels.len - 1];
    assert_int_equal(last->stores.len, 2);
    assert_int_equal(last->tiles.len, 1);
    assert_int_equal(range_size(last->tiles.at[0]), J / LINE);
    arena_destroy(p.arena);
}

// A loop that ends at data becomes tiles up to its largest end, and what nobody reads behind the end is not computed.
static void test_loops_that_end_at_data_are_tiles(void **state) {
    (void)state;
    enum { PARTS = 128 };
    Plan p = plan_new();
    Tensor n = tensor_buffer(p.g, 0, DT_I32, 0, PARTS, dims()), x = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(PARTS, 64, WIDTH));
    Tensor y = tensor_buffer(p.g, 2, DT_F32, 0, 0, dims(WIDTH)), zero = tensor_const(p.g, DT_F32, 0);
    Tensor part = tensor_contiguous(tensor_sum(tensor_sum(tensor_mul(x, y), -1), -1));
    Tensor sum = tensor_sum(tensor_where(tensor_less(tensor_iota(p.g, PARTS), n), part, zero), -1);
    plan_make(&p, (Tensor[]){sum}, 1);
    assert_int_equal(p.kernels.len, 2);
    int64_t tiles = 1;
    for (size_t i = 0; i < p.kernels.at[0].tiles.len; i++) tiles *= range_size(p.kernels.at[0].tiles.at[i]);
    assert_true(tiles > 1 && PARTS % tiles == 0);
    bool ends_at_data = false;
    UOp *store = p.kernels.at[0].stores.at[0];
    for (int i = 2; i < store->n_src; i++) ends_at_data |= !uop_is_const(store->src[i]->src[0]);
    assert_true(ends_at_data);
    arena_destroy(p.arena);
}

static bool a_store_ends_at_data(const Plan *p, int64_t n) {
    for (size_t k = 0; k < p->kernels.len; k++)
        for (size_t i = 0; i < p->kernels.at[k].stores.len; i++) {
            const UOp *store = p->kernels.at[k].stores.at[i];
            if (store->n_src > 2 && range_size(store->src[2]) == n && !uop_is_const(store->src[2]->src[0])) return true;
        }
    return false;
}

// A mask keeps what it hides from being used, not from being computed: a place in memory must be there all the same, another
// value need not.
static void test_places_in_memory_are_there_behind_masks(void **state) {
    (void)state;
    for (int is_place = 0; is_place < 2; is_place++) {
        Plan p = plan_new();
        Tensor n = tensor_buffer(p.g, 0, DT_I32, 0, 128, dims()), x = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(128, WIDTH));
        Tensor y = tensor_buffer(p.g, 2, DT_F32, 0, 0, dims(64)), marks = tensor_buffer(p.g, 3, DT_I32, 0, 63, dims(128, WIDTH));
        Tensor kept = tensor_contiguous(is_place ? tensor_reduce(MONOID_MAX, 1, marks, dims(-1)) : tensor_sum(x, -1));
        Tensor value = is_place ? tensor_gather(y, kept) : kept, zero = tensor_const(p.g, DT_F32, 0);
        plan_make(&p, (Tensor[]){tensor_where(tensor_less(tensor_iota(p.g, 128), n), tensor_mul_const(value, 2), zero)}, 1);
        assert_int_equal(a_store_ends_at_data(&p, 128), !is_place);
        arena_destroy(p.arena);
    }
}

static Tensor as_float(Tensor x) { return tensor_cast(x, DT_F32); }

// d·(s − 32)·(q − 4)·p, s the same for 16 neighbours, is Σ d·Σ (s − 32)·(Σ q·p − 4·Σ p): three nested sums, and Σ p, which
// no row changes, is computed once.
static void test_scales_stay_outside_inner_sums(void **state) {
    (void)state;
    Plan p = plan_new();
    Tensor d = tensor_buffer(p.g, 0, DT_F32, 0, 0, dims(ROWS, 8, 1, 1)), s = tensor_buffer(p.g, 1, DT_U8, 0, 63, dims(ROWS, 8, 2, 1));
    Tensor q = tensor_buffer(p.g, 2, DT_U8, 0, 7, dims(ROWS, 8, 2, 16)), x = tensor_buffer(p.g, 3, DT_I8, -127, 127, dims(1, 8, 2, 16));
    Tensor w = tensor_mul(tensor_mul(d, tensor_add_const(as_float(s), -32)), tensor_add_const(as_float(q), -4));
    Tensor y = tensor_reduce(MONOID_SUM, 16, tensor_mul(w, as_float(x)), (Dims){.n = 3, .at = {-3, -2, -1}});
    plan_make(&p, (Tensor[]){y}, 1);
    size_t folds = 0, made = 0, n_stores = 0;
    for (size_t k = 0; k < p.kernels.len; k++)
        for (size_t i = 0; i < p.kernels.at[k].stores.len; i++, n_stores++) {
            UOpList order = uop_toposort(p.arena, p.kernels.at[k].stores.at[i]);
            for (size_t n = 0; n < order.len; n++) folds += order.at[n]->op == OP_FOLD;
        }
    for (size_t i = 0; i < p.schedule.temps.len; i++) made += !p.schedule.temps.at[i].is_output;
    assert_int_equal(n_stores, 2);
    assert_int_equal(folds, 1 + 3);
    assert_int_equal(made, 1);
    nothing_is_stored_in_vain(&p);
    arena_destroy(p.arena);
}

static int64_t floats_of(void *context, int64_t id) { (void)context, (void)id; return ROWS * WIDTH * (int64_t)sizeof(float); }

// What the only kernel of y reads from end to end: whether buffer 1 is among it.
static bool reads_whole(Plan *p, Tensor y) {
    plan_make(p, &y, 1);
    assert_int_equal(p->kernels.len, 1);
    Arena *arena = arena_create();
    KernelTraffic traffic = kernel_traffic(arena, &p->kernels.at[0], floats_of, NULL);
    bool is_whole = false;
    for (int i = 0; i < traffic.n_whole; i++) is_whole |= traffic.whole[i] == 1;
    arena_destroy(arena);
    return is_whole;
}

// A product reads all its weights; chosen rows, half of the rows, and what is written are not what a step can ask for ahead.
static void test_what_is_read_from_end_to_end(void **state) {
    (void)state;
    for (int what = 0; what < 4; what++) {
        Plan p = plan_new();
        Tensor x = tensor_buffer(p.g, 2, DT_F32, 0, 0, dims(WIDTH)), w = tensor_buffer(p.g, 1, DT_F32, 0, 0, dims(ROWS, WIDTH));
        Tensor rows = tensor_buffer(p.g, 3, DT_I32, 0, ROWS - 1, dims(ROWS));
        Tensor of[] = {w, tensor_gather(w, rows), tensor_slice(w, 0, 0, ROWS / 2), w};
        Tensor y = what == 3 ? tensor_assign(w, w, tensor_expand(tensor_unsqueeze(x, 0), dims(ROWS, WIDTH))) : tensor_sum(tensor_mul(of[what], x), -1);
        assert_int_equal(reads_whole(&p, y), what == 0);
        arena_destroy(p.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm_is_no_kernel), cmocka_unit_test(test_what_is_read_from_end_to_end),
        cmocka_unit_test(test_costly_number_is_stored),
        cmocka_unit_test(test_stored_buffer_is_not_put_off),
        cmocka_unit_test(test_joined_value_is_split),
        cmocka_unit_test(test_independent_kernels_are_one),
        cmocka_unit_test(test_little_work_is_a_tail),
        cmocka_unit_test(test_long_products_keep_their_tiles), cmocka_unit_test(test_shared_cells_make_large_tiles),
        cmocka_unit_test(test_tails_of_groups),
        cmocka_unit_test(test_loops_that_stand_together_are_one),
        cmocka_unit_test(test_ends_keep_loops_apart),
        cmocka_unit_test(test_neighbours_stay_in_a_tile),
        cmocka_unit_test(test_loops_that_end_at_data_are_tiles),
        cmocka_unit_test(test_places_in_memory_are_there_behind_masks),
        cmocka_unit_test(test_scales_stay_outside_inner_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

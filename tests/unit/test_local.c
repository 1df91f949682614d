// test_local: which temporaries become a tile's own memory, which are copied from there, and which stay where they are.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "ir/bounds.h"
#include "ir/verify.h"
#include "render/cstyle.h"
#include "runtime/gpu_target.h"
#include "schedule/schedule.h"

#undef fail // cmocka has its own
#include <cmocka.h>

enum { TILES = 64, WIDTH = 32, LOCAL_BYTES = 48 << 10, INPUT = 0, OUTPUT = 1 };

// One kernel, or several, of the statements that a case adds.
typedef struct Made { Arena *arena; Schedule s; UOp *tile; KernelList kernels; } Made;

static void kernel_new(Made *m) {
    Kernel k = {0};
    m->tile = uop_range_const(m->s.graph, TILES, RANGE_GLOBAL);
    vec_push(m->arena, &k.tiles, m->tile);
    vec_push(m->arena, &m->kernels, k);
}

static Made made(void) {
    Arena *arena = arena_create();
    Made m = {.arena = arena, .s = {.arena = arena, .graph = graph_create(arena), .local_bytes = LOCAL_BYTES, .local_groups = true}};
    kernel_new(&m);
    return m;
}

static Kernel *last_kernel(Made *m) { return &m->kernels.at[m->kernels.len - 1]; }
static UOp *number(Made *m, int64_t n) { return uop_int(m->s.graph, DT_I32, n); }
static UOp *times(UOp *u, int64_t n) { return uop_binary(OP_MUL, u, uop_int(u->graph, DT_I32, n)); }
static UOp *plus(UOp *a, UOp *b) { return uop_binary(OP_ADD, a, b); }
static UOp *temp(Made *m, int64_t count) { return schedule_temp(&m->s, DT_F32, count, 0, 0); }
static UOp *buffer(Made *m, int64_t id) {
    return uop_new(m->s.graph, OP_BUFFER, DT_F32, 1, NULL, 0, (int64_t[]){id, 0, 0, TILES * WIDTH}, 4);
}
static UOp *load(UOp *memory, UOp *at) { return uop_load(uop_index(memory, at), DT_F32, NULL); }
static UOp *row(Made *m, UOp *r) { return plus(times(m->tile, WIDTH), r); }   // the r-th cell of a tile

static UOp *add(Made *m, UOp *memory, UOp *at, UOp *value, UOp *loop) {
    UOp *store = uop_store(uop_index(memory, at), value, &loop, loop != NULL);
    vec_push(m->arena, &last_kernel(m)->stores, store);
    return store;
}

// h[at(r)] = x[32·t + r]² for a loop of its own; at: NULL for 32·t + r.
static UOp *add_square(Made *m, UOp *h, UOp *(*at)(Made *, UOp *)) {
    UOp *r = uop_range_const(m->s.graph, WIDTH, RANGE_LOOP), *x = load(buffer(m, INPUT), row(m, r));
    return add(m, h, at ? at(m, r) : row(m, r), uop_binary(OP_MUL, x, x), r);
}

// to[t] = Σ_r h[at(r)], behind the statement that stored it.
static UOp *add_sum(Made *m, UOp *h, UOp *behind, UOp *to, UOp *(*at)(Made *, UOp *)) {
    UOp *r = uop_range_const(m->s.graph, WIDTH, RANGE_REDUCE), *memory = behind ? uop_after(h, &behind, 1) : h;
    return add(m, to, m->tile, uop_fold(MONOID_SUM, 1, load(memory, at ? at(m, r) : row(m, r)), &r, 1), NULL);
}

static void place(Made *m) {
    Error err = {0};
    schedule_local(&m->s, &m->kernels);
    for (size_t i = 0; i < m->kernels.len; i++)
        if (!verify(kernel_sink(&m->kernels.at[i]), STAGE_ITEMS, &err)) fail_msg("%s", err.text);
}

// Accesses of a buffer of this id by an op, in kernel k; of the tile's memory: id −1.
static int count(Made *m, size_t k, Op op, int64_t id) {
    int n = 0;
    UOpList order = uop_toposort(m->arena, kernel_sink(&m->kernels.at[k]));
    for (size_t i = 0; i < order.len; i++) {
        if (order.at[i]->op != op) continue;
        const UOp *b = uop_buffer_of(order.at[i]->src[0]);
        n += id < 0 ? b->op == OP_DEFINE_LOCAL : b->op == OP_BUFFER && b->arg[0] == id;
    }
    return n;
}

// Elements of all of a tile's memory in kernel k.
static int64_t local_elements(Made *m, size_t k) {
    int64_t n = 0;
    UOpList order = uop_toposort(m->arena, kernel_sink(&m->kernels.at[k]));
    for (size_t i = 0; i < order.len; i++) if (order.at[i]->op == OP_DEFINE_LOCAL) n += order.at[i]->arg[1];
    return n;
}

// What one kernel alone makes and reads, in the same tile, is nowhere else any more.
static void own_values_are_local(void **state) {
    (void)state;
    for (int has = 0; has < 2; has++) {
        Made m = made();
        m.s.local_bytes = has ? LOCAL_BYTES : 0;
        UOp *h = temp(&m, TILES * WIDTH);
        add_sum(&m, h, add_square(&m, h, NULL), buffer(&m, OUTPUT), NULL);
        place(&m);
        assert_int_equal(count(&m, 0, OP_STORE, h->arg[0]) + count(&m, 0, OP_LOAD, h->arg[0]), has ? 0 : 2);
        assert_int_equal(count(&m, 0, OP_STORE, -1), has);
        assert_int_equal(local_elements(&m, 0), has ? WIDTH : 0);
        assert_int_equal(m.kernels.at[0].stores.len, 2);
        arena_destroy(m.arena);
    }
}

// Where tiles are no groups, only what is large: 8 MiB.
static void threads_keep_large_values(void **state) {
    (void)state;
    for (int is_large = 0; is_large < 2; is_large++)
        for (int is_output = 0; is_output < 2; is_output++) {
            Made m = made();
            m.s.local_groups = false;
            UOp *h = temp(&m, (8 << 20) / sizeof(float) - !is_large);
            schedule_temp_find(&m.s, h->arg[0])->is_output = is_output;
            add_sum(&m, h, add_square(&m, h, NULL), buffer(&m, OUTPUT), NULL);
            place(&m);
            assert_int_equal(local_elements(&m, 0), is_large && !is_output ? WIDTH : 0);
            arena_destroy(m.arena);
        }
}

// What another kernel reads, or the caller, is copied behind the store, in front of who waits for it anyway.
static void others_read_a_copy(void **state) {
    (void)state;
    for (int is_output = 0; is_output < 2; is_output++) {
        Made m = made();
        UOp *h = temp(&m, TILES * WIDTH);
        schedule_temp_find(&m.s, h->arg[0])->is_output = is_output;
        add_sum(&m, h, add_square(&m, h, NULL), buffer(&m, OUTPUT), NULL);
        kernel_new(&m);
        if (!is_output) add_sum(&m, h, NULL, buffer(&m, OUTPUT), NULL);
        if (is_output) m.kernels.len--;
        place(&m);
        const Kernel *k = &m.kernels.at[0];
        assert_int_equal(k->stores.len, 3);
        assert_int_equal(uop_buffer_of(k->stores.at[0]->src[0])->op, OP_DEFINE_LOCAL);
        assert_int_equal(uop_buffer_of(k->stores.at[1]->src[0])->arg[0], h->arg[0]);
        assert_int_equal(k->stores.at[1]->src[1]->op, OP_LOAD);
        assert_int_equal(count(&m, 0, OP_LOAD, h->arg[0]), 0);
        if (!is_output) assert_int_equal(count(&m, 1, OP_LOAD, h->arg[0]), 1);
        arena_destroy(m.arena);
    }
}

// Parts that several kernels write, what is added to, and counters stay.
static void shared_values_stay(void **state) {
    (void)state;
    for (int is_added = 0; is_added < 2; is_added++) {
        Made m = made();
        UOp *h = temp(&m, TILES * WIDTH);
        if (!is_added) add_square(&m, h, NULL), kernel_new(&m);
        UOp *store = add_square(&m, h, NULL);
        if (is_added) {
            Kernel *k = last_kernel(&m);
            store = k->stores.at[0] = uop_new(m.s.graph, OP_ATOMIC_ADD, DT_VOID, 1, store->src, store->n_src, NULL, 0);
            kernel_new(&m);
        }
        add_sum(&m, h, is_added ? NULL : store, buffer(&m, OUTPUT), NULL);
        place(&m);
        for (size_t k = 0; k < m.kernels.len; k++) assert_int_equal(local_elements(&m, k), 0);
        arena_destroy(m.arena);
    }
}

static UOp *first_cells(Made *m, UOp *r) { return (void)m, r; }
static UOp *far_apart(Made *m, UOp *r) { return plus(times(r, TILES), m->tile); }
static UOp *in_pages(Made *m, UOp *r) {   // 4 pages of 8, a page of each tile in each
    UOp *page = uop_binary(OP_IDIV, r, number(m, 8)), *at = uop_binary(OP_MOD, r, number(m, 8));
    return plus(plus(times(page, 8 * TILES), times(m->tile, 8)), at);
}
static UOp *of_a_section(Made *m, UOp *r) {   // that begins at tile 8
    UOp *own = uop_binary(OP_MAX, uop_binary(OP_SUB, m->tile, number(m, 8)), number(m, 0));
    return plus(times(own, WIDTH), r);
}
static UOp *behind_parts(Made *m, UOp *r) { return plus(row(m, r), number(m, TILES * WIDTH)); }
static UOp *halved(Made *m, UOp *r) { return uop_binary(OP_IDIV, row(m, r), number(m, 3)); }
static UOp *of_two_tiles(Made *m, UOp *r) { return plus(times(uop_binary(OP_IDIV, m->tile, number(m, 2)), WIDTH), r); }

// Addresses: a tile's part, whatever it is, is the same in all; gaps between a tile's cells are closed.
static void tiles_part_is_the_same_in_all(void **state) {
    (void)state;
    static const struct { UOp *(*store)(Made *, UOp *), *(*load)(Made *, UOp *); int64_t elements; } cases[] = {
        {NULL, NULL, WIDTH}, {first_cells, first_cells, WIDTH}, {far_apart, far_apart, WIDTH},
        {behind_parts, behind_parts, WIDTH}, {of_two_tiles, of_two_tiles, WIDTH}, {in_pages, in_pages, WIDTH},
        {of_a_section, of_a_section, WIDTH}, {of_a_section, NULL, 0}, {NULL, first_cells, 0}, {halved, halved, 0}, {NULL, far_apart, 0}, {in_pages, NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Made m = made();
        UOp *h = temp(&m, 2 * TILES * WIDTH);
        add_sum(&m, h, add_square(&m, h, cases[i].store), buffer(&m, OUTPUT), cases[i].load);
        place(&m);
        int64_t n = local_elements(&m, 0);
        if (n != cases[i].elements) fail_msg("case %zu: %lld elements", i, (long long)n);
        arena_destroy(m.arena);
    }
}

// Where a load is not valid it reads nothing, wherever its address would be.
static void masked_cells_are_none(void **state) {
    (void)state;
    enum { BEFORE = 8 };
    Made m = made();
    UOp *h = temp(&m, TILES * WIDTH), *store = add_square(&m, h, NULL), *r = uop_range_const(m.s.graph, WIDTH, RANGE_LOOP);
    UOp *valid = uop_binary(OP_LT, number(&m, BEFORE - 1), r), *at = plus(row(&m, r), number(&m, -BEFORE));
    UOp *read = uop_load(uop_index(uop_after(h, &store, 1), at), DT_F32, valid);
    add(&m, buffer(&m, OUTPUT), row(&m, r), read, r);
    place(&m);
    assert_int_equal(local_elements(&m, 0), WIDTH);
    UOpList order = uop_toposort(m.arena, kernel_sink(&m.kernels.at[0]));
    for (size_t i = 0; i < order.len; i++) {
        if (order.at[i]->op != OP_LOAD || order.at[i]->n_src == 1) continue;
        UOp *zero = number(&m, 0);
        int64_t first;
        assert_true(uop_is_int_const(simplify(uop_substitute(order.at[i]->src[0]->src[1], &r, &zero, 1)), &first));
        assert_int_equal(first, -BEFORE);
    }
    arena_destroy(m.arena);
}

static UOp *add_last_tile(Made *m) {
    Kernel *k = last_kernel(m);
    int64_t tiles = TILES;
    UOp *counter = schedule_temp(&m->s, DT_I32, 1, 0, TILES), *src[8] = {uop_index(counter, number(m, 0))};
    for (size_t i = 0; i < k->stores.len; i++) src[1 + i] = k->stores.at[i];
    UOp *last = uop_new(m->s.graph, OP_LAST_TILE, DT_VOID, 1, src, 1 + (int)k->stores.len, &tiles, 1);
    vec_push(m->arena, &k->stores, last);
    return last;
}

// Behind a LAST_TILE stands what all tiles stored: that stays, and what the own tile read as well is copied; what is
// stored and read behind it is the last tile's own, all of it.
static void last_tile_sees_all(void **state) {
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        Made m = made();
        UOp *h = temp(&m, TILES * WIDTH), *g = temp(&m, TILES * WIDTH), *store = add_square(&m, h, NULL);
        UOp *r = uop_range_const(m.s.graph, TILES * WIDTH, RANGE_LOOP);
        UOp *q = uop_range_const(m.s.graph, TILES * WIDTH, RANGE_LOOP);
        if (reads) add_sum(&m, h, store, buffer(&m, OUTPUT), NULL);
        UOp *last = add_last_tile(&m);
        UOp *behind = add(&m, g, r, load(uop_after(h, &last, 1), r), r);
        add(&m, buffer(&m, OUTPUT + 1), q, load(uop_after(g, &behind, 1), q), q);
        place(&m);
        const Kernel *k = &m.kernels.at[0];
        assert_int_equal(count(&m, 0, OP_LOAD, h->arg[0]), 1);
        assert_int_equal(count(&m, 0, OP_STORE, h->arg[0]), 1);
        assert_int_equal(count(&m, 0, OP_STORE, g->arg[0]), 0);
        assert_int_equal(local_elements(&m, 0), TILES * WIDTH + reads * WIDTH);
        for (size_t i = 0; i < k->stores.len; i++)   // behind the copy, too
            if (k->stores.at[i]->op == OP_LAST_TILE) assert_int_equal(k->stores.at[i]->n_src, 1 + i);
        arena_destroy(m.arena);
    }
}

// Many small ones rather than a large one.
static void small_ones_first(void **state) {
    (void)state;
    enum { LARGE = 4 << 10 };   // floats: all that there is
    for (int is_alone = 0; is_alone < 2; is_alone++) {
        Made m = made();
        UOp *large = temp(&m, TILES * LARGE), *h = temp(&m, TILES * WIDTH);
        UOp *r = uop_range_const(m.s.graph, LARGE, RANGE_LOOP), *q = uop_range_const(m.s.graph, LARGE, RANGE_REDUCE);
        UOp *own = times(m.tile, LARGE);
        UOp *store = add(&m, large, plus(own, r), load(buffer(&m, INPUT), plus(own, r)), r);
        UOp *read = load(uop_after(large, &store, 1), plus(own, q));
        add(&m, buffer(&m, OUTPUT + 1), m.tile, uop_fold(MONOID_SUM, 1, read, &q, 1), NULL);
        if (!is_alone) add_sum(&m, h, add_square(&m, h, NULL), buffer(&m, OUTPUT), NULL);
        place(&m);
        assert_int_equal(local_elements(&m, 0), is_alone ? LARGE : WIDTH);
        arena_destroy(m.arena);
    }
}

static int64_t bytes_of(void *context, int64_t id) { return (void)context, (void)id, TILES * WIDTH * 4; }

// Equal kernels have equal keys whatever was made before; texts declare the memory and wait for who stored it.
static void texts_declare_it(void **state) {
    (void)state;
    static const struct { const char *target, *line, *barrier, *address; } texts[] = {
        {"sm_90a", "alignas(16) __shared__ f32 l", "__syncthreads();", "((const u8 *)l"},
        {"opencl12-groups", "__local float l", "barrier(CLK_LOCAL_MEM_FENCE", "((const __local uchar *)l"},
        {"metal", "alignas(16) threadgroup f32 l", "mem_flags::mem_threadgroup);", "((const threadgroup u8 *)l"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Canonical kernel[2];
        Made m[2];
        for (int k = 0; k < 2; k++) {
            m[k] = made();
            for (int n = 0; n < k; n++) (void)graph_unique(m[k].s.graph);
            UOp *h = temp(&m[k], TILES * WIDTH);
            add_sum(&m[k], h, add_square(&m[k], h, NULL), buffer(&m[k], OUTPUT), NULL);
            place(&m[k]);
            kernel[k] = canonicalize(m[k].arena, &m[k].kernels.at[0], bytes_of, NULL);
        }
        assert_int_equal(kernel[0].n_slots, 2);
        assert_int_equal(kernel[0].key_bytes, kernel[1].key_bytes);
        assert_memory_equal(kernel[0].key, kernel[1].key, kernel[0].key_bytes);
        const GpuTarget *row = gpu_target_find(texts[i].target);
        Target target;
        UOpList program;
        Error err = {0};
        gpu_target_fill(&target, row);
        if (!codegen(m[0].arena, kernel[0].sink, &target, &program, &err)) fail_msg("%s", err.text);
        const char *text = render(m[0].arena, "kernel_of_test", &program, row->dialect, &target);
        text = strstr(text, "kernel_of_test");
        const char *line = strstr(text, texts[i].line), *barrier = line ? strstr(line, texts[i].barrier) : NULL;
        if (!line || !barrier || !strstr(barrier, texts[i].address)) fail_msg("%s", text);
        for (int k = 0; k < 2; k++) arena_destroy(m[k].arena);
    }
}

// 20 cells of a tile for 32 threads and more: those without a cell read none that is not there, since loads may move out of guards.
static void threads_stay_inside(void **state) {
    (void)state;
    enum { CELLS = 20 };
    static const char *const targets[] = {"sm_90a", "opencl12-groups"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        Made m = made();
        Target target;
        UOpList program;
        Error err = {0};
        UOp *h = temp(&m, TILES * CELLS), *r = uop_range_const(m.s.graph, CELLS, RANGE_LOOP), *q = uop_range_const(m.s.graph, CELLS, RANGE_LOOP);
        UOp *x = load(buffer(&m, INPUT), plus(times(m.tile, CELLS), r));
        UOp *stored = add(&m, h, plus(times(m.tile, CELLS), r), uop_unary(OP_EXP, x), r);
        add(&m, buffer(&m, OUTPUT), plus(times(m.tile, CELLS), q), uop_unary(OP_EXP, load(uop_after(h, &stored, 1), plus(times(m.tile, CELLS), q))), q);
        place(&m);
        assert_int_equal(local_elements(&m, 0), CELLS);
        gpu_target_fill(&target, gpu_target_find(targets[i]));
        Canonical kernel = canonicalize(m.arena, &m.kernels.at[0], bytes_of, NULL);
        if (!codegen(m.arena, kernel.sink, &target, &program, &err)) fail_msg("%s", err.text);
        int n = 0;
        for (size_t k = 0; k < program.len; k++) {
            UOp *u = program.at[k];
            if (u->op != OP_LOAD || uop_buffer_of(u->src[0])->op != OP_DEFINE_LOCAL) continue;
            Bounds b = bounds_of(u->src[0]->src[1]);
            assert_true(b.lo >= 0 && b.hi < CELLS);
            n++;
        }
        assert_true(n > 0);
        arena_destroy(m.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_values_are_local), cmocka_unit_test(threads_keep_large_values),
        cmocka_unit_test(others_read_a_copy),
        cmocka_unit_test(shared_values_stay),
        cmocka_unit_test(tiles_part_is_the_same_in_all),
        cmocka_unit_test(masked_cells_are_none),
        cmocka_unit_test(last_tile_sees_all),
        cmocka_unit_test(small_ones_first),
        cmocka_unit_test(texts_declare_it),
        cmocka_unit_test(threads_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

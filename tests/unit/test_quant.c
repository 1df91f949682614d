// test_quant: each block type's meaning against the gguf package's dequantisation on random valid blocks; row
// arithmetic; the check for NaN scales; types added at run time.
// The vectors are made by tests/models/quant_vectors.py; where Python or its packages are missing the test is
// skipped by name.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "ir/eval.h"
#include "nn/quant.h"

#undef fail // cmocka has its own
#include <cmocka.h>

enum { BLOCKS_BUFFER = 1, TABLE_BUFFER = 2, TABLES_MAX = 16 };

// Buffers of one evaluation: the blocks, and the tables that meanings ask for.
typedef struct Bench {
    const void *blocks;
    const int8_t *tables[TABLES_MAX];
    int n_tables;
} Bench;

static Tensor bench_table(void *context, Graph *g, const int8_t *values, int n) {
    Bench *b = context;
    int at = 0, lo = values[0], hi = values[0];
    while (at < b->n_tables && b->tables[at] != values) at++;
    if (at == b->n_tables) b->tables[b->n_tables++] = values;
    for (int i = 0; i < n; i++)
        lo = values[i] < lo ? values[i] : lo, hi = values[i] > hi ? values[i] : hi;
    return tensor_buffer(g, TABLE_BUFFER + at, DT_I8, lo, hi, dims(n));
}

static void *bench_address(void *context, int64_t id) {
    Bench *b = context;
    return (void *)(uintptr_t)(id == BLOCKS_BUFFER ? b->blocks : b->tables[id - TABLE_BUFFER]);
}

// Values of n blocks; the result lives on the arena.
static EvalTensor dequantised(Arena *arena, const QuantType *t, const void *blocks, int64_t n) {
    Bench bench = {.blocks = blocks};
    Graph *g = graph_create(arena);
    Tensor bytes = tensor_buffer(g, BLOCKS_BUFFER, DT_U8, 0, 0, dims(n, t->block_bytes));
    Tensor y = t->meaning(&(QuantTables){bench_table, &bench}, blocks_of(bytes));
    EvalTensor out;
    Error err = {0};
    if (uop_is_poison(y)) fail_msg("%s: %s", t->name, y->message);
    assert_int_equal(y->ndim, t->unit.n + 1);
    for (int i = 0; i < t->unit.n; i++) assert_int_equal(y->shape[i + 1], t->unit.at[i]);
    EvalBuffers buffers = {bench_address, &bench};
    if (!eval_graph(arena, y, &buffers, &out, &err)) fail_msg("%s: %s", t->name, err.text);
    assert_int_equal(out.count, n * t->block_elements);
    return out;
}

static const char *vectors_folder(Arena *arena) {
    const char *build = getenv("LATHE_BUILD");
    return arena_printf(arena, "%s/quant_vectors", build && *build ? build : "build");
}

static bool vectors_make(Arena *arena) {
    Error err = {0};
    Text output;
    int status = 0;
    const char *folder = vectors_folder(arena), *done = arena_printf(arena, "%s/types.txt", folder);
    if (file_exists(done)) return true;
    const char *argv[] = {"python3", "tests/models/quant_vectors.py", "-o", folder, NULL};
    if (process_run(arena, argv, 120000, &status, &output, &err) && status == 0 &&
        file_exists(done))
        return true;
    print_message("skipped: quant vectors need python3 with numpy and gguf\n");
    return false;
}

// Both sides round to f32 at most a few times; intermediate products may be larger than their difference.
static void check_type(Arena *arena, const QuantType *t) {
    Error err = {0};
    Text file;
    const char *path = arena_printf(arena, "%s/%s.bin", vectors_folder(arena), t->name);
    if (!file_read(arena, path, &file, &err)) fail_msg("%s", err.text);
    uint32_t head[4];
    assert_true(file.len > 20 && !memcmp(file.at, "LQV1", 4));
    memcpy(head, file.at + 4, sizeof head);
    assert_int_equal(head[0], t->number);
    assert_int_equal(head[1], t->block_elements);
    assert_int_equal(head[2], t->block_bytes);
    const char *blocks = file.at + 20, *meant = blocks + (size_t)head[2] * head[3];
    EvalTensor got = dequantised(arena, t, blocks, head[3]);
    for (int64_t b = 0; b < head[3]; b++) {
        double largest = 0;
        for (int64_t i = b * head[1]; i < (b + 1) * head[1]; i++) {
            float want;
            memcpy(&want, meant + 4 * i, 4);
            largest = fmax(largest, fabs((double)want));
        }
        for (int64_t i = b * head[1]; i < (b + 1) * head[1]; i++) {
            float want;
            memcpy(&want, meant + 4 * i, 4);
            if (fabs(got.at[i].f - (double)want) > 4e-7 * largest + 1e-44)
                fail_msg("%s: block %d element %d: %g, want %g", t->name, (int)b,
                         (int)(i % head[1]), got.at[i].f, (double)want);
        }
    }
}

static void test_meanings(void **state) {
    (void)state;
    Arena *arena = arena_create();
    if (!vectors_make(arena)) {
        arena_destroy(arena);
        skip();
    }
    for (int i = 0; i < quant_count(); i++) {
        Arena *one = arena_create();
        check_type(one, quant_at(i));
        arena_destroy(one);
    }
    arena_destroy(arena);
}

static void test_rows(void **state) {
    (void)state;
    assert_int_equal(quant_count(), 16);
    assert_null(quant_find(9999));
    const QuantType *q4_k = quant_find(12);
    assert_non_null(q4_k);
    assert_string_equal(q4_k->name, "Q4_K");
    assert_int_equal(quant_row_bytes(q4_k, 512), 288);
    assert_int_equal(quant_row_bytes(q4_k, 300), 0);
    assert_true(quant_is_plain(quant_find(0)) && !quant_is_plain(q4_k));
    for (int i = 0; i < quant_count(); i++) {
        int64_t n = 1;
        for (int a = 0; a < quant_at(i)->unit.n; a++) n *= quant_at(i)->unit.at[a];
        assert_int_equal(n, quant_at(i)->block_elements);
    }
}

static void test_bad_scales(void **state) {
    (void)state;
    uint8_t blocks[3 * 144] = {0};
    const QuantType *q4_k = quant_find(12), *f32 = quant_find(0), *bf16 = quant_find(30);
    assert_int_equal(quant_find_bad_block(q4_k, blocks, sizeof blocks), -1);
    blocks[144 + 2] = 0x00, blocks[144 + 3] = 0x7E; // dmin of block 1: NaN
    assert_int_equal(quant_find_bad_block(q4_k, blocks, sizeof blocks), 1);
    memset(blocks, 0xFF, sizeof blocks);
    memset(blocks, 0, 2 * 144);
    assert_int_equal(quant_find_bad_block(q4_k, blocks, sizeof blocks), 2);
    assert_int_equal(quant_find_bad_block(f32, blocks, sizeof blocks), 72);
    assert_int_equal(quant_find_bad_block(bf16, blocks, sizeof blocks), 144);
    assert_int_equal(quant_find_bad_block(quant_find(39), blocks, sizeof blocks), -1);
}

// 4 elements in a byte each, one u8 scale in front: value = scale · q.
static Tensor meaning_invented(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    return tensor_mul(tensor_cast(quant_part(blocks, 0, 1), DT_F32),
                      tensor_cast(tensor_bitcast(quant_part(blocks, 1, 5), DT_I8), DT_F32));
}

static void test_register(void **state) {
    (void)state;
    QuantType t = {.number = 9000,
                   .name = "INVENTED",
                   .block_elements = 4,
                   .block_bytes = 5,
                   .unit = dims(4),
                   .meaning = meaning_invented};
    int before = quant_count();
    t.unit = dims(3);
    assert_false(quant_register(&t));
    t.unit = dims(2, 2), t.scale_type = DT_F16, t.n_scales = 1, t.scale_at[0] = 4;
    assert_false(quant_register(&t));
    t.unit = dims(4), t.scale_type = DT_VOID, t.n_fields = 2, t.field_at[1] = 5;
    assert_false(quant_register(&t));
    t.field_at[1] = 1;
    assert_true(quant_register(&t));
    assert_true(quant_register(&t));
    assert_int_equal(quant_count(), before + 1);
    Arena *arena = arena_create();
    const uint8_t blocks[10] = {3, 1, 2, 255, 4, 2, 0, 128, 127, 1};
    const double want[8] = {3, 6, -3, 12, 0, -256, 254, 2};
    EvalTensor got = dequantised(arena, quant_find(9000), blocks, 2);
    for (int i = 0; i < 8; i++) assert_true(got.at[i].f == want[i]);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_bad_scales),
        cmocka_unit_test(test_meanings),
        cmocka_unit_test(test_register),
    };
    return cmocka_run_group_tests_name("quant", tests, NULL, NULL);
}

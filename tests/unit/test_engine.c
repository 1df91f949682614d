// test_engine: what a compiled step promises, on every device that computes: what varies is data, constants belong to the
// program, stores are seen by whoever waits for them, offsets do not wrap. Graphs are small, so that each expected value
// stands beside it.
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/os.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "ir/verify.h"

#undef fail // cmocka has its own
#include <cmocka.h>

typedef struct Bench {
    Arena *arena;
    Graph *graph;
    Engine *engine;
} Bench;

static const char *const device_names[] = {"cpu", "eval"};
enum { N_DEVICES = sizeof device_names / sizeof *device_names };

static void must(bool ok, const Error *err) {
    if (!ok) fail_msg("%s", err->text);
}

static Bench bench_open(const char *device) {
    Bench b = {.arena = arena_create()};
    Error err = {0};
    b.graph = graph_create(b.arena);
    must(engine_open(&b.engine, device, NULL, 2, &err), &err);
    return b;
}

static void bench_close(Bench *b) {
    engine_close(b->engine);
    arena_destroy(b->arena);
}

static int64_t buffer_new(Bench *b, size_t nbytes, const void *data) {
    int64_t id = -1;
    Error err = {0};
    must(engine_buffer_alloc(b->engine, nbytes, &id, &err), &err);
    if (data) engine_buffer_write(b->engine, id, 0, data, nbytes);
    return id;
}

static Step *compiled(Bench *b, Tensor y) {
    Step *step = NULL;
    Error err = {0};
    must(engine_compile(b->engine, &y, 1, &step, &err), &err);
    return step;
}

static void ran(Step *step) {
    Error err = {0};
    must(step_run(step, &err), &err);
}

static void output_read(Bench *b, Step *step, void *out, size_t nbytes) {
    assert_true(step_output_bytes(step, 0) >= nbytes);
    engine_buffer_read(b->engine, step_output_buffer(step, 0), 0, out, nbytes);
}

// ---- what varies is data

static void lengths_are_data(void **state) {
    (void)state;
    enum { N = 7 };
    const float x[N] = {10, 20, 30, 40, 50, 60, 70};
    for (int d = 0; d < N_DEVICES; d++) {
        Bench b = bench_open(device_names[d]);
        int64_t values = buffer_new(&b, sizeof x, x), length = buffer_new(&b, sizeof(int32_t), NULL);
        Tensor t = tensor_buffer(b.graph, values, DT_F32, 0, 0, dims(N));
        Tensor n = tensor_buffer(b.graph, length, DT_I32, 0, N, dims(1));
        Tensor inside = tensor_less(tensor_iota(b.graph, N), n), zero = tensor_const(b.graph, DT_F32, 0);
        Step *plus = compiled(&b, tensor_where(inside, tensor_add_const(t, 1), zero));
        Step *sum = compiled(&b, tensor_sum(tensor_where(inside, t, zero), 0));
        const int32_t lengths[] = {1, 2, 3, 4, N, 0, 2};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            float out[N], total, want = 0;
            engine_buffer_write(b.engine, length, 0, &lengths[i], sizeof *lengths);
            ran(plus);
            ran(sum);
            output_read(&b, plus, out, sizeof out);
            output_read(&b, sum, &total, sizeof total);
            for (int k = 0; k < N; k++) {
                assert_float_equal(out[k], (k < lengths[i] ? x[k] + 1 : 0), 0);
                want += k < lengths[i] ? x[k] : 0;
            }
            assert_float_equal(total, want, 0);
        }
        step_destroy(plus);
        step_destroy(sum);
        bench_close(&b);
    }
}

static void views_are_taken_anew_on_each_run(void **state) {
    (void)state;
    enum { ROWS = 3, COLUMNS = 4 };
    for (int d = 0; d < N_DEVICES; d++) {
        Bench b = bench_open(device_names[d]);
        int32_t a[ROWS][COLUMNS], out[ROWS * COLUMNS];
        int64_t id = buffer_new(&b, sizeof a, NULL);
        Tensor t = tensor_buffer(b.graph, id, DT_I32, 0, 1000, dims(ROWS, COLUMNS));
        Tensor flat = tensor_reshape(tensor_transpose(tensor_add_const(t, 1), 0, 1), dims(-1));
        Step *step = compiled(&b, flat);
        for (int round = 0; round < 3; round++) {
            for (int r = 0; r < ROWS; r++)
                for (int c = 0; c < COLUMNS; c++) a[r][c] = round * 100 + r * COLUMNS + c;
            engine_buffer_write(b.engine, id, 0, a, sizeof a);
            ran(step);
            output_read(&b, step, out, sizeof out);
            for (int i = 0; i < ROWS * COLUMNS; i++)
                assert_int_equal(out[i], a[i % ROWS][i / ROWS] + 1);
        }
        step_destroy(step);
        bench_close(&b);
    }
}

// ---- constants belong to the program

static void constants_are_part_of_the_program(void **state) {
    (void)state;
    enum { CASES = 5 };
    const float x = 2.5f;
    for (int d = 0; d < N_DEVICES; d++) {
        Bench b = bench_open(device_names[d]);
        int64_t id = buffer_new(&b, sizeof x, &x);
        Tensor t = tensor_buffer(b.graph, id, DT_F32, 0, 0, dims(1));
        Step *added[CASES], *set[CASES];
        for (int c = 0; c < CASES; c++) {
            added[c] = compiled(&b, tensor_add_const(t, c));
            set[c] = compiled(&b, tensor_contiguous(tensor_expand(tensor_const(b.graph, DT_I32, c), dims(3))));
        }
        for (int c = 0; c < CASES; c++) {
            float sum;
            int32_t out[3];
            ran(added[c]);
            ran(set[c]);
            output_read(&b, added[c], &sum, sizeof sum);
            output_read(&b, set[c], out, sizeof out);
            assert_float_equal(sum, x + (float)c, 0);
            for (int i = 0; i < 3; i++) assert_int_equal(out[i], c);
            step_destroy(added[c]);
            step_destroy(set[c]);
        }
        bench_close(&b);
    }
}

// How a result is held changes nothing: the graph may live on or be gone, and so may the node.
static void a_step_outlives_its_graph(void **state) {
    (void)state;
    const float x[2] = {1, 2}, y[2] = {10, 20};
    for (int d = 0; d < N_DEVICES; d++) {
        Bench b = bench_open(device_names[d]);
        int64_t ids[2] = {buffer_new(&b, sizeof x, x), buffer_new(&b, sizeof y, y)};
        Step *steps[2];
        int stages[2];
        for (int gone = 0; gone < 2; gone++) {
            Arena *arena = gone ? arena_create() : b.arena;
            Graph *g = gone ? graph_create(arena) : b.graph;
            Tensor p = tensor_buffer(g, ids[0], DT_F32, 0, 0, dims(2));
            Tensor q = tensor_buffer(g, ids[1], DT_F32, 0, 0, dims(2));
            Tensor c = tensor_add(p, q);
            steps[gone] = compiled(&b, gone ? tensor_add(p, q) : c);
            stages[gone] = step_stage_count(steps[gone]);
            if (gone) arena_destroy(arena);
        }
        assert_int_equal(stages[0], stages[1]);
        assert_true(stages[0] > 0);
        for (int run = 0; run < 6; run++) {
            float out[2];
            ran(steps[run % 2]);
            output_read(&b, steps[run % 2], out, sizeof out);
            assert_float_equal(out[0], 11, 0);
            assert_float_equal(out[1], 22, 0);
        }
        step_destroy(steps[0]);
        step_destroy(steps[1]);
        bench_close(&b);
    }
}

// ---- a step's output as its input

static void outputs_are_fed_back(void **state) {
    (void)state;
    for (int d = 0; d < N_DEVICES; d++) {
        Bench b = bench_open(device_names[d]);
        const float begin[3] = {1, 2, 3}, other[3] = {100, 200, 300};
        float out[3];
        int64_t id = buffer_new(&b, sizeof begin, begin);
        Tensor x = tensor_buffer(b.graph, id, DT_F32, 0, 0, dims(3));
        Step *in_place = compiled(&b, tensor_assign(x, x, tensor_add_const(x, 1)));
        for (int run = 1; run <= 4; run++) {
            ran(in_place);
            engine_buffer_read(b.engine, id, 0, out, sizeof out);
            for (int i = 0; i < 3; i++) assert_float_equal(out[i], begin[i] + (float)run, 0);
        }
        engine_buffer_write(b.engine, id, 0, other, sizeof other);
        ran(in_place);
        engine_buffer_read(b.engine, id, 0, out, sizeof out);
        for (int i = 0; i < 3; i++) assert_float_equal(out[i], other[i] + 1, 0);
        // The output buffer of one step is the input of the next, which writes the first one's input.
        Step *first = compiled(&b, tensor_add_const(x, 1));
        Tensor y = tensor_buffer(b.graph, step_output_buffer(first, 0), DT_F32, 0, 0, dims(3));
        Step *second = compiled(&b, tensor_assign(x, x, tensor_mul_const(y, 2)));
        float want[3];
        memcpy(want, out, sizeof want);
        for (int run = 0; run < 4; run++) {
            ran(first);
            ran(second);
            engine_buffer_read(b.engine, id, 0, out, sizeof out);
            for (int i = 0; i < 3; i++) {
                want[i] = (want[i] + 1) * 2;
                assert_float_equal(out[i], want[i], 0);
            }
        }
        step_destroy(first);
        step_destroy(second);
        step_destroy(in_place);
        bench_close(&b);
    }
}

// ---- stores

// cache[:, position] = values; then all of the cache is read.
static void stores_through_views_are_seen(void **state) {
    (void)state;
    enum { ROWS = 4, COLUMNS = 6 };
    for (int d = 0; d < N_DEVICES; d++) {
        Bench b = bench_open(device_names[d]);
        int32_t begin[ROWS][COLUMNS], out[ROWS][COLUMNS], values[ROWS] = {100, 101, 102, 103};
        for (int i = 0; i < ROWS * COLUMNS; i++) begin[i / COLUMNS][i % COLUMNS] = i;
        int64_t id = buffer_new(&b, sizeof begin, begin), source = buffer_new(&b, sizeof values, values);
        int64_t place = buffer_new(&b, sizeof(int32_t), NULL);
        Tensor cache = tensor_buffer(b.graph, id, DT_I32, 0, 1000, dims(ROWS, COLUMNS));
        Tensor value = tensor_buffer(b.graph, source, DT_I32, 0, 1000, dims(1, ROWS));
        Tensor position = tensor_buffer(b.graph, place, DT_I32, 0, COLUMNS - 1, dims(1));
        Tensor column = tensor_gather(tensor_transpose(cache, 0, 1), position); // [1, ROWS]
        Step *dynamic = compiled(&b, tensor_add_const(tensor_assign(cache, column, value), 1000));
        Tensor fixed = tensor_transpose(tensor_slice(cache, 1, 2, 3), 0, 1);
        Step *constant = compiled(&b, tensor_add_const(tensor_assign(cache, fixed, value), 1000));
        for (int run = 0; run <= COLUMNS; run++) {
            int32_t at = run < COLUMNS ? COLUMNS - 1 - run : 2;
            engine_buffer_write(b.engine, id, 0, begin, sizeof begin);
            engine_buffer_write(b.engine, place, 0, &at, sizeof at);
            Step *step = run < COLUMNS ? dynamic : constant;
            ran(step);
            output_read(&b, step, out, sizeof out);
            for (int r = 0; r < ROWS; r++)
                for (int c = 0; c < COLUMNS; c++)
                    assert_int_equal(out[r][c], 1000 + (c == at ? values[r] : begin[r][c]));
        }
        step_destroy(dynamic);
        step_destroy(constant);
        bench_close(&b);
    }
}

// ---- numbers of a kept axis

static void log_sum_exp_keeps_its_axis(void **state) {
    (void)state;
    enum { ROWS = 45, COLUMNS = 65 };
    static float x[ROWS][COLUMNS], out[ROWS], rest[ROWS][COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i / COLUMNS][i % COLUMNS] = (float)sin(i * 0.7) * 30 + (float)(i / COLUMNS);
    for (int d = 0; d < N_DEVICES; d++) {
        Bench b = bench_open(device_names[d]);
        int64_t id = buffer_new(&b, sizeof x, x);
        Tensor t = tensor_buffer(b.graph, id, DT_F32, 0, 0, dims(ROWS, COLUMNS));
        Tensor top = tensor_unsqueeze(tensor_max(t, 1), 1);
        Tensor sum = tensor_unsqueeze(tensor_sum(tensor_unary(OP_EXP, tensor_sub(t, top)), 1), 1);
        Tensor y = tensor_add(tensor_unary(OP_LOG, sum), top);
        Dims shape = tensor_dims(y);
        assert_int_equal(shape.n, 2);
        assert_int_equal(shape.at[0], ROWS);
        assert_int_equal(shape.at[1], 1);
        Step *step = compiled(&b, y), *difference = compiled(&b, tensor_sub(t, y));
        ran(step);
        ran(difference);
        output_read(&b, step, out, sizeof out);
        output_read(&b, difference, rest, sizeof rest);
        for (int r = 0; r < ROWS; r++) {
            double total = 0;
            for (int c = 0; c < COLUMNS; c++) total += exp((double)x[r][c]);
            assert_true(fabs((double)out[r] - log(total)) < 1e-4);
            for (int c = 0; c < COLUMNS; c++)
                assert_true(fabs((double)rest[r][c] - ((double)x[r][c] - log(total))) < 1e-4);
        }
        step_destroy(step);
        step_destroy(difference);
        bench_close(&b);
    }
}

// ---- threads

// The same step runs on as many as there are now; a number that cannot be leaves the old ones at work.
static void threads_may_change(void **state) {
    (void)state;
    enum { ROWS = 200, COLUMNS = 64 };
    const int counts[] = {1, 5, 2};
    float x[ROWS * COLUMNS], first[ROWS], now[ROWS];
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i % 97) / 8;
    Bench b = bench_open("cpu");
    Tensor in = tensor_buffer(b.graph, buffer_new(&b, sizeof x, x), DT_F32, 0, 0, dims(ROWS, COLUMNS));
    Step *step = compiled(&b, tensor_sum(tensor_mul(in, in), -1));
    ran(step);
    output_read(&b, step, first, sizeof first);
    for (int i = 0; i < 3; i++) {
        Error err = {0};
        must(engine_set_threads(b.engine, counts[i], &err), &err);
        assert_int_equal(engine_threads(b.engine), counts[i]);
        assert_false(engine_set_threads(b.engine, 1 << 20, &err));
        assert_non_null(strstr(err.text, "threads"));
        assert_int_equal(engine_threads(b.engine), counts[i]);
        ran(step);
        output_read(&b, step, now, sizeof now);
        assert_memory_equal(now, first, sizeof first);
    }
    step_destroy(step);
    bench_close(&b);
}

// ---- offsets

enum { FAR_BYTES = 32 };
static const int64_t FAR_BEGIN = ((int64_t)1 << 32) + 256, FAR_SIZE = (int64_t)6 << 30;

// Runs a step whose output is FAR_BYTES numbers, and compares each with the byte at FAR_BEGIN + first + i · by.
static void far_check(Bench *b, const uint8_t *host, const char *what, Tensor y, int64_t first, int64_t by) {
    int32_t out[FAR_BYTES];
    Step *step = compiled(b, tensor_add_const(tensor_cast(y, DT_I32), 1000));
    ran(step);
    output_read(b, step, out, sizeof out);
    for (int i = 0; i < FAR_BYTES; i++) {
        int want = 1000 + host[FAR_BEGIN + first + i * by];
        if (out[i] != want) fail_msg("%s: element %d is %d, should be %d", what, i, out[i], want);
    }
    step_destroy(step);
}

static void far_views_check(Bench *b, uint8_t *host, Tensor all) {
    const int32_t row = (int32_t)(FAR_BEGIN / 256);
    const int64_t n_rows = FAR_SIZE / 256;
    int64_t place = buffer_new(b, sizeof row, &row);
    Tensor index = tensor_buffer(b->graph, place, DT_I32, 0, n_rows - 1, dims(1));
    Tensor rows = tensor_reshape(all, dims(n_rows, 256)), part = tensor_slice(all, 0, FAR_BEGIN, FAR_BEGIN + FAR_BYTES);
    Tensor chosen = tensor_reshape(tensor_gather(rows, index), dims(256));
    Tensor turned = tensor_slice(tensor_flip(all, 0), 0, FAR_SIZE - FAR_BEGIN - FAR_BYTES, FAR_SIZE - FAR_BEGIN);
    Tensor padded = tensor_slice(tensor_pad(all, 0, 64, 64), 0, 64 + FAR_BEGIN, 64 + FAR_BEGIN + FAR_BYTES);
    Tensor words = tensor_slice(tensor_bitcast(all, DT_U16), 0, FAR_BEGIN / 2, FAR_BEGIN / 2 + FAR_BYTES);
    far_check(b, host, "slice", part, 0, 1);
    far_check(b, host, "gather", tensor_slice(chosen, 0, 0, FAR_BYTES), 0, 1);
    far_check(b, host, "flip", turned, FAR_BYTES - 1, -1);
    far_check(b, host, "pad", padded, 0, 1);
    far_check(b, host, "bitcast", tensor_binary_const(OP_AND, tensor_cast(words, DT_I32), 255), 0, 2);
    Step *store = compiled(b, tensor_assign(all, part, tensor_add_const(part, 100)));
    uint8_t before[FAR_BYTES];
    memcpy(before, host + FAR_BEGIN, sizeof before);
    ran(store);
    for (int i = 0; i < FAR_BYTES; i++) assert_int_equal(host[FAR_BEGIN + i], before[i] + 100);
    step_destroy(store);
}

static void refused(Bench *b, Tensor y) {
    Step *step = NULL;
    Error err = {0};
    assert_false(engine_compile(b->engine, &y, 1, &step, &err));
    assert_non_null(strstr(err.text, "too long"));
}

// A buffer of 6 GiB of which a few pages are touched; what is read lies behind 2^32, what a 32-bit offset finds is 99.
static void offsets_do_not_wrap(void **state) {
    (void)state;
    const size_t behind = 4096;
    uint8_t *host = mmap(NULL, (size_t)FAR_SIZE + behind, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED) {
        print_message("this process may not reserve 6 GiB of addresses\n");
        skip();
    }
    memset(host, 99, 512);
    for (int i = 0; i < 2 * FAR_BYTES; i++) host[FAR_BEGIN + i] = (uint8_t)(i + 1);
    Bench b = bench_open("cpu");
    Error err = {0};
    int64_t id;
    must(engine_buffer_wrap(b.engine, host, (size_t)FAR_SIZE, &id, &err), &err);
    Tensor all = tensor_buffer(b.graph, id, DT_U8, 0, 255, dims(FAR_SIZE));
    far_views_check(&b, host, all);
    // Loops count in 32 bits, and say so where that is too little.
    refused(&b, tensor_sum(tensor_cast(all, DT_I32), 0));
    refused(&b, tensor_add_const(tensor_cast(all, DT_I32), 1));
    bench_close(&b);
    munmap(host, (size_t)FAR_SIZE + behind);
}

// ---------------------------------------------------------------- texts that an earlier run made

static float sum_of_squares(int *n_generated) {
    Bench b = bench_open("cpu");
    Error err = {0};
    int64_t id;
    Step *step;
    float x[96], y = 0;
    for (int i = 0; i < 96; i++) x[i] = (float)i / 64;
    must(engine_buffer_alloc(b.engine, sizeof x, &id, &err), &err);
    engine_buffer_write(b.engine, id, 0, x, sizeof x);
    Tensor in = tensor_buffer(b.graph, id, DT_F32, 0, 0, dims(96)), out = tensor_sum(tensor_mul(in, in), -1);
    must(engine_compile(b.engine, &out, 1, &step, &err) && step_run(step, &err), &err);
    engine_buffer_read(b.engine, step_output_buffer(step, 0), 0, &y, sizeof y);
    *n_generated = engine_generated_count(b.engine);
    step_destroy(step);
    bench_close(&b);
    return y;
}

// A second run takes the text from the folder; a damaged one is made again. Where passes are watched all are made anew.
static void texts_are_kept(void **state) {
    (void)state;
    char folder[256];
    Error err = {0};
    Arena *arena = arena_create();
    must(dir_temporary(folder, sizeof folder, "lathe-test-", &err), &err);
    setting_override(SETTING_CACHE_DIR, folder);
    int cold, warm, damaged;
    float first = sum_of_squares(&cold), second = sum_of_squares(&warm);
    const char *sources = arena_printf(arena, "%s/sources", folder);
    DIR *dir = opendir(sources);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            must(file_write_atomic(arena_printf(arena, "%s/%s", sources, entry->d_name), "no kernel", 9, &err), &err);
    if (dir) closedir(dir);
    float third = sum_of_squares(&damaged);
    setting_override(SETTING_CACHE_DIR, NULL);
    dir_remove(folder);
    arena_destroy(arena);
    assert_int_equal(cold, 1);
    assert_int_equal(warm, verify_wanted());
    assert_int_equal(damaged, 1);
    assert_true(first == second && second == third && first > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_data),
        cmocka_unit_test(views_are_taken_anew_on_each_run),
        cmocka_unit_test(constants_are_part_of_the_program),
        cmocka_unit_test(a_step_outlives_its_graph),
        cmocka_unit_test(outputs_are_fed_back),
        cmocka_unit_test(stores_through_views_are_seen),
        cmocka_unit_test(log_sum_exp_keeps_its_axis),
        cmocka_unit_test(threads_may_change),
        cmocka_unit_test(offsets_do_not_wrap),
        cmocka_unit_test(texts_are_kept),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}

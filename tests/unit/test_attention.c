// test_attention: attention through a paged f16 or f32 cache on an engine, at lengths around every edge, against plain
// loops in double: latent in the shape of the largest supported models (20 heads over one latent head of 576 values, of
// which 512 are the value), grouped with several key heads, with a window, for one row and for several.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "ir/eval.h"
#include "nn/attention.h"
#include "nn/kvcache.h"

#undef fail // cmocka has its own
#include <cmocka.h>

// Values are the first `value` of each key.
typedef struct Shape { int heads, queries, key, value, pages, window; } Shape;

typedef struct Bench {
    Arena *arena;
    Engine *engine;
    Step *step;
    Shape s;
    int rows, width;
    int64_t q, cache, table, sequence, position;
    float *keys, *queries; // as the cache holds them: [positions][heads][key], [heads][queries][key]
} Bench;

static void must(bool ok, const Error *err) {
    if (!ok) fail_msg("%s", err->text);
}

static int64_t buffer_of(Bench *b, const void *data, size_t nbytes) {
    int64_t id = 0;
    Error err = {0};
    must(engine_buffer_alloc(b->engine, nbytes, &id, &err), &err);
    if (data) engine_buffer_write(b->engine, id, 0, data, nbytes);
    return id;
}

static uint64_t noise_state = 3;
static float noise(void) {
    noise_state = noise_state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(noise_state >> 33) / 1073741824.0 - 1);
}

// Page p of the sequence lies in page pages − 1 − p; the values behind position n hold NaN.
static void fill_cache(Bench *b, DType type, int64_t n) {
    int64_t pages = b->s.pages, width = b->width;
    size_t size = (size_t)dtype_bytes(type), nbytes = (size_t)((pages + 1) * KV_PAGE * width) * size;
    uint8_t *cells = calloc(nbytes, 1);
    for (int64_t t = 0; t < pages * KV_PAGE; t++) {
        int64_t cell = (pages - 1 - t / KV_PAGE) * KV_PAGE + t % KV_PAGE;
        for (int64_t i = 0; i < width; i++) {
            uint8_t *at = cells + (size_t)(cell * width + i) * size;
            number_store(type, at, (Number){.f = t < n ? (double)b->keys[t * width + i] : NAN});
            if (t < n) b->keys[t * width + i] = (float)number_load(type, at).f;
        }
    }
    engine_buffer_write(b->engine, b->cache, 0, cells, nbytes);
    free(cells);
}

static void bench_open(Bench *b, Shape s, DType type, int rows) {
    Error err = {0};
    *b = (Bench){.arena = arena_create(), .s = s, .rows = rows, .width = s.heads * s.key};
    int64_t pages = s.pages, n_q = (int64_t)s.heads * s.queries * s.key;
    int32_t *table = arena_new(b->arena, (size_t)(2 * pages) * sizeof *table), *zeros = arena_new(b->arena, (size_t)rows * sizeof *zeros);
    must(engine_open(&b->engine, getenv("LATHE_TEST_DEVICE"), NULL, 2, &err), &err);
    b->keys = arena_new(b->arena, (size_t)(pages * KV_PAGE * b->width) * sizeof *b->keys);
    b->queries = arena_new(b->arena, (size_t)(n_q * rows) * sizeof *b->queries);
    for (int64_t i = 0; i < pages * KV_PAGE * b->width; i++) b->keys[i] = noise();
    for (int64_t i = 0; i < n_q * rows; i++) b->queries[i] = i < n_q ? noise() * 0.15f : b->queries[i - n_q]; // the same in all rows
    for (int32_t i = 0; i < s.pages; i++) table[i] = s.pages - 1 - i, table[s.pages + i] = s.pages;
    b->q = buffer_of(b, b->queries, (size_t)(n_q * rows) * sizeof *b->queries);
    b->cache = buffer_of(b, NULL, (size_t)((pages + 1) * KV_PAGE * b->width * dtype_bytes(type)));
    b->table = buffer_of(b, table, (size_t)(2 * pages) * sizeof *table);
    b->sequence = buffer_of(b, zeros, (size_t)rows * sizeof *zeros);
    b->position = buffer_of(b, zeros, (size_t)rows * sizeof *zeros);
    Graph *g = graph_create(b->arena);
    KvRows kv = kv_rows(tensor_buffer(g, b->table, DT_I32, 0, pages, dims(2, pages)),
                        tensor_buffer(g, b->sequence, DT_I32, 0, 1, dims(rows)),
                        tensor_buffer(g, b->position, DT_I32, 0, pages * KV_PAGE - 1, dims(rows)));
    KvView view = kv_view(&kv, s.window);
    Tensor cache = tensor_buffer(g, b->cache, type, 0, 0, dims(pages + 1, KV_PAGE, b->width));
    Tensor keys = tensor_reshape(kv_read(cache, &view), dims(rows, -1, KV_PAGE, s.heads, s.key));
    Tensor q = tensor_buffer(g, b->q, DT_F32, 0, 0, dims(rows, s.heads, s.queries, s.key));
    Tensor y = attention(q, keys, tensor_slice(keys, 4, 0, s.value), &view, 0);
    must(engine_compile(b->engine, &y, 1, &b->step, &err), &err);
}

static void bench_close(Bench *b) {
    step_destroy(b->step);
    engine_close(b->engine);
    arena_destroy(b->arena);
}

// Head h of all queries, for a row that sees keys up to n − 1.
static void by_loops(const Bench *b, int h, int64_t n, double *out) {
    const float *q = b->queries + h * b->s.key, *k = b->keys + h / b->s.queries * b->s.key;
    int64_t first = b->s.window && n > b->s.window ? n - b->s.window : 0;
    double *score = malloc((size_t)n * sizeof *score), top = -INFINITY, total = 0;
    for (int64_t t = first; t < n; t++) {
        score[t] = 0;
        for (int i = 0; i < b->s.key; i++) score[t] += (double)q[i] * (double)k[t * b->width + i];
        top = fmax(top, score[t]);
    }
    for (int i = 0; i < b->s.value; i++) out[i] = 0;
    for (int64_t t = first; t < n; t++) {
        double e = exp(score[t] - top);
        total += e;
        for (int i = 0; i < b->s.value; i++) out[i] += e * (double)k[t * b->width + i];
    }
    for (int i = 0; i < b->s.value; i++) out[i] /= total;
    free(score);
}

// The last row sees `length` keys, those before it one less each, or one where none is left.
static void check_length(Bench *b, int64_t length, float *got, double *want) {
    Error err = {0};
    int heads = b->s.heads * b->s.queries, value = b->s.value;
    int32_t *position = malloc((size_t)b->rows * sizeof *position);
    for (int r = 0; r < b->rows; r++) position[r] = (int32_t)length + r < b->rows ? 0 : (int32_t)length - b->rows + r;
    engine_buffer_write(b->engine, b->position, 0, position, (size_t)b->rows * sizeof *position);
    must(step_run(b->step, &err), &err);
    engine_buffer_read(b->engine, step_output_buffer(b->step, 0), 0, got, (size_t)(b->rows * heads * value) * sizeof *got);
    for (int r = 0; r < b->rows; r++)
        for (int h = 0; h < heads; h++) {
            by_loops(b, h, position[r] + 1, want);
            for (int i = 0; i < value; i++) {
                double x = (double)got[(r * heads + h) * value + i];
                if (!(fabs(x - want[i]) < 1e-5))
                    fail_msg("%d keys, row %d, head %d, value %d: %g, want %g", position[r] + 1, r, h, i, x, want[i]);
            }
        }
    free(position);
}

static void check_lengths(Shape s, DType type, int rows) {
    const int64_t most = s.pages * KV_PAGE, lengths[] = {1, 31, 32, 33, 64, 65, most / 2 + 1, most - 1, most};
    Bench b;
    bench_open(&b, s, type, rows);
    float *got = arena_new(b.arena, (size_t)(rows * s.heads * s.queries * s.value) * sizeof *got);
    double *want = arena_new(b.arena, (size_t)s.value * sizeof *want);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        fill_cache(&b, type, lengths[l]);
        check_length(&b, lengths[l], got, want);
    }
    bench_close(&b);
}

static const Shape latent = {1, 20, 576, 512, 129, 0}, grouped = {4, 4, 64, 64, 40, 0}, near = {2, 3, 24, 24, 12, 150},
                   nearest = {1, 4, 32, 16, 8, 64};

static void latent_f16(void **state) {
    (void)state;
    check_lengths(latent, DT_F16, 1);
}
static void latent_f32(void **state) {
    (void)state;
    check_lengths(latent, DT_F32, 1);
}
static void grouped_heads(void **state) {
    (void)state;
    check_lengths(grouped, DT_F16, 1);
    check_lengths(grouped, DT_F32, 3);
}
static void windows(void **state) {
    (void)state;
    check_lengths(near, DT_F16, 1);
    check_lengths(near, DT_F16, 5);
    check_lengths(nearest, DT_F32, 2);
}
static void many_rows(void **state) {
    (void)state;
    check_lengths(grouped, DT_F16, 9);
    check_lengths((Shape){1, 5, 48, 32, 6, 0}, DT_F16, 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(latent_f16), cmocka_unit_test(latent_f32), cmocka_unit_test(grouped_heads),
                                       cmocka_unit_test(windows), cmocka_unit_test(many_rows)};
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}

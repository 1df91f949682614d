// test_attention: attention through a paged cache of each format on an engine, at lengths around every edge, against plain
// loops in double: latent in the shape of the largest supported models (20 heads over one latent head of 576 values, of
// which 512 are the value), grouped with several key heads, with a window, for one row and for several.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "fake_card.h"
#include "few_tiles.h"
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
    const KvFormat *format;
    int64_t block, planes[KV_PLANES_MAX];
    int64_t q, table, sequence, position;
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

static int64_t cells_of(const Bench *b, int plane) { return plane ? b->width / b->block : b->width; }

// One row as the format keeps it, in plain C: rounded values and, where there is a second plane, a scale a block. `read`
// gets what the cells say.
static void row_pack(const Bench *b, const float *row, uint8_t *values, uint8_t *scales, float *read) {
    DType type = b->format->planes[0].dtype, scale_type = b->format->planes[1].dtype;
    for (int64_t from = 0; from < b->width; from += b->block) {
        float most = 0, inverse = 1;
        Number scale = {.f = 1};
        for (int64_t i = from; i < from + b->block; i++) most = fmaxf(most, fabsf(row[i]));
        if (scales) {
            uint8_t *at = scales + from / b->block * dtype_bytes(scale_type);
            inverse = most > 0 ? 1 / (most / 127) : 0;
            number_store(scale_type, at, (Number){.f = (double)(most / 127)});
            scale = number_load(scale_type, at);
        }
        for (int64_t i = from; i < from + b->block; i++) {
            uint8_t *at = values + i * dtype_bytes(type);
            if (dtype_is_int(type)) number_store(type, at, (Number){.i = lrintf(row[i] * inverse)});
            else number_store(type, at, (Number){.f = (double)row[i]});
            read[i] = dtype_is_int(type) ? (float)((double)number_load(type, at).i * scale.f) : (float)number_load(type, at).f;
        }
    }
}

// Page p of the sequence lies in page pages − 1 − p, head by head; behind position n floats hold NaN.
static void fill_cache(Bench *b, int64_t n) {
    int64_t pages = b->s.pages, heads = b->s.heads, rows = (pages + 1) * KV_PAGE;
    uint8_t *planes[KV_PLANES_MAX] = {NULL}, *own[KV_PLANES_MAX] = {NULL};
    size_t row_bytes[KV_PLANES_MAX];
    for (int i = 0; i < b->format->n_planes; i++) {
        row_bytes[i] = (size_t)(cells_of(b, i) * dtype_bytes(b->format->planes[i].dtype));
        planes[i] = calloc((size_t)rows, row_bytes[i]);
        own[i] = calloc(1, row_bytes[i]);
    }
    for (int64_t t = 0; t < pages * KV_PAGE; t++) {
        float *row = b->keys + t * b->width;
        if (t < n) row_pack(b, row, own[0], own[1], row);
        for (int i = 0; i < b->format->n_planes; i++) {
            DType type = b->format->planes[i].dtype;
            size_t of_head = row_bytes[i] / (size_t)heads;
            for (int64_t c = 0; c < cells_of(b, i) && t >= n; c++)
                number_store(type, own[i] + c * dtype_bytes(type), dtype_is_int(type) ? (Number){.i = 0} : (Number){.f = NAN});
            for (int64_t h = 0; h < heads; h++) {
                int64_t cell = ((pages - 1 - t / KV_PAGE) * heads + h) * KV_PAGE + t % KV_PAGE;
                memcpy(planes[i] + (size_t)cell * of_head, own[i] + (size_t)h * of_head, of_head);
            }
        }
    }
    for (int i = 0; i < b->format->n_planes; i++) {
        engine_buffer_write(b->engine, b->planes[i], 0, planes[i], (size_t)rows * row_bytes[i]);
        free(planes[i]);
        free(own[i]);
    }
}

static const char *card, *card_target;   // where tests run on a device whose tiles are groups of threads

// together: how many rows stand side by side (KvRows); 0: each row for itself.
static void bench_open(Bench *b, Shape s, const char *format, int rows, int together) {
    Error err = {0};
    KvShape shape = {s.heads * s.key, s.key};
    *b = (Bench){.arena = arena_create(), .s = s, .rows = rows, .width = s.heads * s.key, .format = kv_format_find(format)};
    b->block = kv_block(b->format, shape);
    int64_t pages = s.pages, n_q = (int64_t)s.heads * s.queries * s.key;
    int32_t *table = arena_new(b->arena, (size_t)(2 * pages) * sizeof *table), *zeros = arena_new(b->arena, (size_t)rows * sizeof *zeros);
    must(engine_open(&b->engine, card ? card : getenv("LATHE_TEST_DEVICE"), card_target, 2, &err), &err);
    if (card) few_tiles(b->engine);
    b->keys = arena_new(b->arena, (size_t)(pages * KV_PAGE * b->width) * sizeof *b->keys);
    b->queries = arena_new(b->arena, (size_t)(n_q * rows) * sizeof *b->queries);
    for (int64_t i = 0; i < pages * KV_PAGE * b->width; i++) b->keys[i] = noise();
    for (int64_t i = 0; i < n_q * rows; i++) b->queries[i] = i < n_q ? noise() * 0.15f : b->queries[i - n_q]; // the same in all rows
    for (int32_t i = 0; i < s.pages; i++) table[i] = s.pages - 1 - i, table[s.pages + i] = s.pages;
    b->q = buffer_of(b, b->queries, (size_t)(n_q * rows) * sizeof *b->queries);
    for (int i = 0; i < b->format->n_planes; i++)
        b->planes[i] = buffer_of(b, NULL, (size_t)((pages + 1) * KV_PAGE * kv_plane_bytes(b->format, shape, i)));
    b->table = buffer_of(b, table, (size_t)(2 * pages) * sizeof *table);
    b->sequence = buffer_of(b, zeros, (size_t)rows * sizeof *zeros);
    b->position = buffer_of(b, zeros, (size_t)rows * sizeof *zeros);
    Graph *g = graph_create(b->arena);
    KvRows kv = kv_rows(tensor_buffer(g, b->table, DT_I32, 0, pages, dims(2, pages)),
                        tensor_buffer(g, b->sequence, DT_I32, 0, 1, dims(rows)),
                        tensor_buffer(g, b->position, DT_I32, 0, pages * KV_PAGE - 1, dims(rows)));
    kv.together = together;
    KvView view = kv_view(&kv, s.window);
    KvCache cache = kv_cache(g, b->format, shape, s.heads, b->planes, pages + 1);
    Tensor keys = kv_read(&cache, &view);
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

static void check_lengths_of(Shape s, const char *format, int rows, int together) {
    const int64_t most = s.pages * KV_PAGE, lengths[] = {1, 31, 32, 33, 64, 65, most / 2 + 1, most - 1, most};
    Bench b;
    bench_open(&b, s, format, rows, together);
    float *got = arena_new(b.arena, (size_t)(rows * s.heads * s.queries * s.value) * sizeof *got);
    double *want = arena_new(b.arena, (size_t)s.value * sizeof *want);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        fill_cache(&b, lengths[l]);
        check_length(&b, lengths[l], got, want);
    }
    bench_close(&b);
}

static void check_lengths(Shape s, const char *format, int rows) { check_lengths_of(s, format, rows, 0); }

// The last rows of two steps, of which the first has rows that stand together: alike, bit by bit.
static void check_same_bits(Shape s, const char *format, int rows, int together, int other_rows) {
    const int64_t most = s.pages * KV_PAGE, lengths[] = {most, most / 2 + 1, 65};
    const int counts[2] = {rows, other_rows}, both = rows < other_rows ? rows : other_rows;
    const size_t row_bytes = (size_t)(s.heads * s.queries * s.value) * sizeof(float);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        unsigned char *last[2];
        for (int i = 0; i < 2; i++) {
            Bench b;
            noise_state = 3;
            bench_open(&b, s, format, counts[i], i == 0 ? together : 0);
            fill_cache(&b, lengths[l]);
            float *got = malloc((size_t)counts[i] * row_bytes);
            double *want = malloc((size_t)s.value * sizeof *want);
            check_length(&b, lengths[l], got, want);
            last[i] = malloc((size_t)both * row_bytes);
            memcpy(last[i], (unsigned char *)got + (size_t)(counts[i] - both) * row_bytes, (size_t)both * row_bytes);
            free(want);
            free(got);
            bench_close(&b);
        }
        if (memcmp(last[0], last[1], (size_t)both * row_bytes)) fail_msg("%d keys: rows together give other bits", (int)lengths[l]);
        free(last[0]);
        free(last[1]);
    }
}

static const Shape latent = {1, 20, 576, 512, 129, 0}, grouped = {4, 4, 64, 64, 40, 0}, near = {2, 3, 24, 24, 12, 150},
                   nearest = {1, 4, 32, 16, 8, 64};

static void latent_f16(void **state) {
    (void)state;
    check_lengths(latent, "f16", 1);
}
static void latent_f32(void **state) {
    (void)state;
    check_lengths(latent, "f32", 1);
}
static void grouped_heads(void **state) {
    (void)state;
    check_lengths(grouped, "f16", 1);
    check_lengths(grouped, "f32", 3);
}
static void windows(void **state) {
    (void)state;
    check_lengths(near, "f16", 1);
    check_lengths(near, "f16", 5);
    check_lengths(nearest, "f32", 2);
}
static void many_rows(void **state) {
    (void)state;
    check_lengths(grouped, "f16", 9);
    check_lengths((Shape){1, 5, 48, 32, 6, 0}, "f16", 64);
}

// Rows of one sequence that share what they read: what each sees is as before, bit for bit.
static void rows_together(void **state) {
    (void)state;
    const Shape small_latent = {1, 5, 48, 32, 6, 0};
    check_lengths_of(small_latent, "f16", 64, 16);
    check_lengths_of(grouped, "q8_0", 32, 8);
    check_lengths_of(near, "f16", 64, 16);
    check_lengths_of(nearest, "f32", 32, 16);
    if (getenv("LATHE_TEST_DEVICE")) return;   // the order of sums is the CPU's
    check_same_bits(small_latent, "f16", 64, 16, 64);
    check_same_bits(grouped, "f16", 32, 16, 1);
    check_same_bits(near, "f32", 64, 16, 2);
}

// Threads compute tiles of heads and keys, and the last keys of a page are nobody's.
static void check_groups(void) {
    check_lengths((Shape){1, 20, 576, 512, 8, 0}, "f16", 1);
    check_lengths((Shape){2, 4, 64, 64, 8, 0}, "f16", 3);
    check_lengths((Shape){1, 6, 48, 32, 6, 130}, "q8_0", 1);
    check_lengths_of((Shape){1, 5, 48, 32, 6, 0}, "f16", 64, 16);
}

static void groups_of_a_card(void **state) {
    (void)state;
    card = "cuda", card_target = NULL;
    check_groups();
    card = NULL;
}

static void groups_of_opencl(void **state) {
    (void)state;
    if (!has_groups()) skip();
    card = "opencl", card_target = GROUPS;
    check_groups();
    card = card_target = NULL;
}

static void rounded_caches(void **state) {
    (void)state;
    check_lengths(latent, "q8_0", 1);
    check_lengths(grouped, "q8_0", 3);
    check_lengths(near, "q8_0", 5); // heads of 24: blocks of 8
    check_lengths(nearest, "q8_0", 9);
}

// What is written and read again lies within the rounding that the format states: half a step of the block's scale, and
// that scale's own rounding to f16 (2^-11 of each value; 2^-25 at the smallest scales).
static void check_rounding(const char *device) {
    enum { ROWS = 6, PAGES = 2, PART = 48, WIDTH = 2 * PART };
    const KvFormat *format = kv_format_find("q8_0");
    const KvShape shape = {WIDTH, PART};
    const float sizes[ROWS] = {1, 1e-4f, 3e4f, 0, 1e-7f, 50};
    const int32_t table[2 * PAGES] = {1, 0, 2, 2}, sequence[ROWS] = {0, 0, 0, 0, 0, 1}, position[ROWS] = {0, 1, 63, 64, 65, 0};
    float x[ROWS * WIDTH], *got = malloc(ROWS * PAGES * KV_PAGE * WIDTH * sizeof *got);
    Bench b = {.arena = arena_create()};
    Error err = {0};
    must(engine_open(&b.engine, device, NULL, 2, &err), &err);
    int64_t block = kv_block(format, shape), n[] = {kv_plane_bytes(format, shape, 0), kv_plane_bytes(format, shape, 1)};
    assert_int_equal(block, 16);
    assert_int_equal(kv_row_bytes(format, shape), WIDTH + 2 * WIDTH / 16);
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = noise() * sizes[i / WIDTH];
    for (int i = 0; i < 2; i++) b.planes[i] = buffer_of(&b, NULL, (size_t)((PAGES + 1) * KV_PAGE * n[i]));
    Graph *g = graph_create(b.arena);
    KvRows rows = kv_rows(tensor_buffer(g, buffer_of(&b, table, sizeof table), DT_I32, 0, PAGES, dims(2, PAGES)),
                          tensor_buffer(g, buffer_of(&b, sequence, sizeof sequence), DT_I32, 0, 1, dims(ROWS)),
                          tensor_buffer(g, buffer_of(&b, position, sizeof position), DT_I32, 0, PAGES * KV_PAGE - 1, dims(ROWS)));
    KvView view = kv_view(&rows, 0);
    KvCache cache = kv_write(kv_cache(g, format, shape, WIDTH / PART, b.planes, PAGES + 1), &rows,
                             tensor_buffer(g, buffer_of(&b, x, sizeof x), DT_F32, 0, 0, dims(ROWS, WIDTH)));
    Tensor read = kv_read(&cache, &view);
    must(engine_compile(b.engine, &read, 1, &b.step, &err), &err);
    must(step_run(b.step, &err), &err);
    engine_buffer_read(b.engine, step_output_buffer(b.step, 0), 0, got, ROWS * PAGES * KV_PAGE * WIDTH * sizeof *got);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < WIDTH; i++) {
            double most = 0, value = (double)x[r * WIDTH + i], back = (double)got[(r * PAGES * KV_PAGE + position[r]) * WIDTH + i];
            for (int k = i - i % 16; k < i - i % 16 + 16; k++) most = fmax(most, fabs((double)x[r * WIDTH + k]));
            double bound = most / 127 * 0.5001 + fmax(fabs(value) * 1.01 * 0x1p-11, 128 * 0x1p-25);
            if (!(fabs(back - value) <= bound)) fail_msg("row %d, value %d: %g is read as %g, more than %g away", r, i, value, back, bound);
        }
    free(got);
    bench_close(&b);
}

static void rounding_is_bounded(void **state) {
    (void)state;
    check_rounding(getenv("LATHE_TEST_DEVICE"));
    check_rounding("eval");
}

static void formats_are_rows(void **state) {
    (void)state;
    Arena *arena = arena_create();
    assert_string_equal(kv_format_names(arena), "f16, f32 or q8_0");
    assert_null(kv_format_find("q4_0"));
    const KvFormat *q8 = kv_format_find("q8_0"), *f16 = kv_format_find("f16");
    assert_int_equal(kv_row_bytes(f16, (KvShape){576, 64}), 1152);
    assert_int_equal(kv_row_bytes(q8, (KvShape){576, 64}), 576 + 36);
    assert_int_equal(kv_block(q8, (KvShape){160, 80}), 16);
    assert_true(kv_block(q8, (KvShape){6, 6}) < q8->block_least);
    arena_destroy(arena);
}

int main(int argc, char **argv) {
    (void)argc;
    fake_card_use(argv[0]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(latent_f16), cmocka_unit_test(latent_f32), cmocka_unit_test(grouped_heads),
                                       cmocka_unit_test(windows), cmocka_unit_test(many_rows), cmocka_unit_test(rows_together),
                                       cmocka_unit_test(rounded_caches), cmocka_unit_test(rounding_is_bounded),
                                       cmocka_unit_test(formats_are_rows), cmocka_unit_test(groups_of_a_card),
                                       cmocka_unit_test(groups_of_opencl)};
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}

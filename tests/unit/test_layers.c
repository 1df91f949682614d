// test_layers: products over every block type, rounding of activations, norms, rotary positions, the paged cache,
// attention and routing, each against plain C loops in double, through the reference interpreter.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include "nn/attention.h"
#include "nn/experts.h"
#include "nn/kvcache.h"
#include "nn/grouping.h"
#include "nn/layers.h"
#include "nn/rope.h"
#include "unit/bare_host.h"
#include "unit/invented_types.h"
#include "unit/noise_blocks.h"

#undef fail // cmocka has its own
#include <cmocka.h>

// ---------------------------------------------------------------- a bench for one graph

typedef struct Bench {
    Arena *arena;
    Graph *g;
    BareHost *h;
    Layers layers;
    Error err;
} Bench;

static Tensor bench_table(void *context, Graph *g, const int8_t *values, int n) {
    int64_t id = 0;
    Error err;
    assert_true(bare_wrap(context, values, (size_t)n, &id, &err));
    return tensor_buffer(g, id, DT_I8, -128, 127, dims(n));
}

static Bench bench_new(bool is_exact) {
    Bench b = {.arena = arena_create(), .h = calloc(1, sizeof *b.h)};
    b.g = graph_create(b.arena);
    b.layers = (Layers){b.g, is_exact, {bench_table, b.h}};
    return b;
}

static void bench_free(Bench *b) {
    bare_free(b->h);
    arena_destroy(b->arena);
}

static int64_t bench_id(Bench *b, const void *data, size_t nbytes) {
    int64_t id = 0;
    assert_true(bare_wrap(b->h, data, nbytes, &id, &b->err));
    return id;
}

static Tensor floats(Bench *b, const float *data, Dims shape) {
    return tensor_buffer(b->g, bench_id(b, data, 4), DT_F32, 0, 0, shape);
}

static Tensor ints(Bench *b, const int32_t *data, int64_t lo, int64_t hi, Dims shape) {
    return tensor_buffer(b->g, bench_id(b, data, 4), DT_I32, lo, hi, shape);
}

static const Number *values(Bench *b, Tensor x, int64_t want_count) {
    int64_t count = 0;
    const Number *v = bare_value(b->h, b->arena, x, &count, &b->err);
    if (!v) fail_msg("%s", b->err.text);
    assert_int_equal(count, want_count);
    return v;
}

static uint64_t noise_state = 7;
static uint32_t noise_bits(void) { return noise_next(&noise_state); }
static float noise(void) { return (float)((double)noise_bits() / 2147483648.0 - 1); } // [−1, 1)

static float *noise_floats(Arena *arena, int64_t n) {
    float *x = arena_new(arena, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = noise();
    return x;
}

static void near(double got, double want, double scale, const char *what) {
    if (!(fabs(got - want) <= 2e-6 * scale)) fail_msg("%s: %.9g, want %.9g", what, got, want);
}

static uint8_t *noise_blocks(Arena *arena, const QuantType *t, int64_t n) {
    uint8_t *at = arena_new(arena, (size_t)(n * t->block_bytes));
    noise_blocks_fill(at, t, n, &noise_state);
    return at;
}

// The weight's values in order [count, rows, cols].
static const Number *weight_values(Bench *b, const Weight *w) {
    int64_t blocks = w->count * w->rows * w->cols / w->type->block_elements;
    Tensor bytes = tensor_buffer(b->g, w->buffer, DT_U8, 0, 0, dims(blocks, w->type->block_bytes));
    return values(b, w->type->meaning(&b->layers.tables, blocks_of(bytes)), w->count * w->rows * w->cols);
}

static Weight noise_weight(Bench *b, const QuantType *t, int64_t count, int64_t rows,
                           int64_t cols) {
    int64_t blocks = count * rows * cols / t->block_elements;
    int64_t id = bench_id(b, noise_blocks(b->arena, t, blocks), (size_t)(blocks * t->block_bytes));
    return (Weight){.type = t, .buffer = id, .count = count, .rows = rows, .cols = cols};
}

// ---------------------------------------------------------------- rounding

static void check_rounding(const float *x, const Number *p, const Number *s, int64_t blocks) {
    for (int64_t b = 0; b < blocks; b++) {
        double amax = 0;
        for (int i = 0; i < 32; i++) amax = fmax(amax, fabs((double)x[b * 32 + i]));
        near(s[b].f, amax / 127, amax + 1e-30, "scale");
        for (int i = 0; i < 32; i++) {
            double exact = amax > 0 ? (double)x[b * 32 + i] * (127 / amax) : 0;
            assert_true(fabs((double)p[b * 32 + i].i - exact) <= 0.5 + 1e-4);
            assert_true(p[b * 32 + i].i >= -127 && p[b * 32 + i].i <= 127);
        }
    }
}

static void rounding(void **state) {
    (void)state;
    enum { BLOCKS = 6 };
    Bench b = bench_new(false);
    float *x = noise_floats(b.arena, 32 * BLOCKS);
    for (int i = 0; i < 32; i++) x[32 + i] = 0; // a block of zeros
    for (int i = 0; i < 32; i++)
        x[64 + i] = (float)(i == 0 ? 127 : i - 16 + 0.5); // halves go to even
    for (int i = 0; i < 32; i++) x[96 + i] *= 1e30f;
    for (int i = 0; i < 32; i++) x[128 + i] *= 1e-30f;
    Rounded r = layers_round(floats(&b, x, dims(2, 32 * BLOCKS / 2)), 32);
    const Number *p = values(&b, r.p, 32 * BLOCKS), *s = values(&b, r.s, BLOCKS);
    check_rounding(x, p, s, BLOCKS);
    assert_true(s[1].f == 0 && p[40].i == 0);
    assert_int_equal(p[64 + 16].i, 0); // 0.5
    assert_int_equal(p[64 + 17].i, 2); // 1.5
    assert_int_equal(p[64 + 18].i, 2); // 2.5
    bench_free(&b);
}

// ---------------------------------------------------------------- products

// x as a product sees it: itself, or p · s.
static void seen_activations(Bench *b, const float *x, int64_t n, bool is_rounded, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (double)x[i];
    if (!is_rounded) return;
    Rounded r = layers_round(floats(b, x, dims(n)), 32);
    const Number *p = values(b, r.p, n), *s = values(b, r.s, n / 32);
    for (int64_t i = 0; i < n; i++) out[i] = (double)p[i].i * s[i / 32].f;
}

static void check_products(const QuantType *t, bool is_exact) {
    enum { M = 2, COUNT = 3, ROWS = 5, N = 2 };
    Bench b = bench_new(is_exact);
    int64_t k = t->block_elements % 32 ? t->block_elements * 2 : t->block_elements;
    if (k % 32) k = 64;
    bool is_rounded = !is_exact && !quant_is_plain(t);
    Weight one = noise_weight(&b, t, 1, ROWS, k), many = noise_weight(&b, t, COUNT, ROWS, k);
    const Number *w1 = weight_values(&b, &one), *wn = weight_values(&b, &many);
    float *x = noise_floats(b.arena, M * COUNT * k);
    double *seen = arena_new(b.arena, (size_t)(M * COUNT * k) * sizeof *seen);
    seen_activations(&b, x, M * COUNT * k, is_rounded, seen);
    const int32_t ids[M * N] = {2, 0, 1, 2};
    const Number *line = values(
        &b, layers_linear(&b.layers, input_of(floats(&b, x, dims(M, k))), &one), M * ROWS);
    const Number *heads = values(
        &b, layers_heads(&b.layers, input_of(floats(&b, x, dims(M, COUNT, k))), &many),
        M * COUNT * ROWS);
    Tensor chosen = ints(&b, ids, 0, COUNT - 1, dims(M, N));
    const Number *shared = values(
        &b, layers_chosen(&b.layers, input_of(floats(&b, x, dims(M, 1, k))), &many, chosen),
        M * N * ROWS);
    const Number *own = values(
        &b, layers_chosen(&b.layers, input_of(floats(&b, x, dims(M, N, k))), &many, chosen),
        M * N * ROWS);
    for (int m = 0; m < M; m++)
        for (int j = 0; j < COUNT; j++)
            for (int r = 0; r < ROWS; r++) {
                double sum[4] = {0}, scale = 1e-6;
                int own_id = ids[m * N + j % N];
                for (int64_t i = 0; i < k; i++) {
                    double head = wn[(j * ROWS + r) * k + i].f,
                           picked = wn[(own_id * ROWS + r) * k + i].f;
                    sum[0] += w1[r * k + i].f * seen[m * k + i];
                    sum[1] += head * seen[(m * COUNT + j) * k + i];
                    sum[2] += picked * seen[m * k + i];
                    sum[3] += picked * seen[(m * N + j % N) * k + i];
                    scale += fabs(picked) + fabs(w1[r * k + i].f) + fabs(head);
                }
                int64_t at = (m * N + j % N) * ROWS + r;
                near(line[m * ROWS + r].f, sum[0], scale, t->name);
                near(heads[(m * COUNT + j) * ROWS + r].f, sum[1], scale, t->name);
                near(shared[at].f, sum[2], scale, t->name);
                near(own[at].f, sum[3], scale, t->name);
            }
    bench_free(&b);
}

static void products(void **state) {
    (void)state;
    assert_true(invented_register());
    for (int i = 0; i < quant_count(); i++)
        for (int exact = 0; exact < 2; exact++) check_products(quant_at(i), exact);
}

// Two products that read the same x round it once: the same nodes.
static void rounding_is_shared(void **state) {
    (void)state;
    Bench b = bench_new(false);
    Tensor x = floats(&b, noise_floats(b.arena, 256), dims(1, 256));
    Rounded first = layers_round(x, 32), second = layers_round(x, 32);
    assert_ptr_equal(first.p, second.p);
    assert_ptr_equal(first.s, second.s);
    bench_free(&b);
}

static void embedding_norm_and_activations(void **state) {
    (void)state;
    enum { ROWS = 7, K = 64, M = 3 };
    Bench b = bench_new(true);
    Weight w = noise_weight(&b, quant_find(8), 1, ROWS, K),
           v = noise_weight(&b, quant_find(0), 1, 1, K);
    const Number *all = weight_values(&b, &w), *scale = weight_values(&b, &v);
    const int32_t ids[M] = {6, 0, 3};
    Tensor rows = layers_embedding(&b.layers, &w, ints(&b, ids, 0, ROWS - 1, dims(M)));
    const Number *got = values(&b, rows, M * K);
    const Number *normed = values(&b, layers_norm(rows, layers_vector(&b.layers, &v), 1e-5), M * K);
    for (int m = 0; m < M; m++) {
        double sum = 0;
        for (int i = 0; i < K; i++) sum += pow(all[ids[m] * K + i].f, 2);
        for (int i = 0; i < K; i++) {
            double x = all[ids[m] * K + i].f;
            assert_true(got[m * K + i].f == x);
            near(normed[m * K + i].f, x * scale[i].f / sqrt(sum / K + 1e-5), 4, "norm");
        }
    }
    const float x[8] = {-90, -3, -1, -0.1f, 0, 0.5f, 3, 90};
    Tensor t = floats(&b, x, dims(8));
    const Number *silu = values(&b, layers_activate(t, ACTIVATION_SILU), 8);
    const Number *gelu = values(&b, layers_activate(t, ACTIVATION_GELU), 8);
    const Number *cap = values(&b, layers_soft_cap(t, 30), 8);
    assert_ptr_equal(layers_soft_cap(t, 0), t);
    for (int i = 0; i < 8; i++) {
        double v8 = (double)x[i];
        near(silu[i].f, v8 / (1 + exp(-v8)), 90, "silu");
        near(gelu[i].f, 0.5 * v8 * (1 + tanh(sqrt(2 / M_PI) * (v8 + 0.044715 * v8 * v8 * v8))), 90,
             "gelu");
        near(cap[i].f, 30 * tanh(v8 / 30), 30, "cap");
    }
    bench_free(&b);
}

// ---------------------------------------------------------------- rotary positions

static void check_rope(RopeLayout layout, int width, int dim) {
    enum { M = 3, HEADS = 2 };
    Bench b = bench_new(true);
    RopeSpec spec = {.dim = dim, .base = 10000, .layout = layout, .factor = 1, .magnitude = 1};
    int pairs = dim / 2;
    const int32_t position[M] = {0, 5, 11};
    float *cos_all = arena_new(b.arena, (size_t)(12 * pairs) * 4),
          *sin_all = arena_new(b.arena, (size_t)(12 * pairs) * 4);
    rope_table(&spec, 12, cos_all, sin_all);
    float *x = noise_floats(b.arena, M * HEADS * width);
    Tensor rows = ints(&b, position, 0, 11, dims(M));
    Tensor c = tensor_gather(floats(&b, cos_all, dims(12, pairs)), rows);
    Tensor s = tensor_gather(floats(&b, sin_all, dims(12, pairs)), rows);
    const Number *got = values(&b, rope_apply(floats(&b, x, dims(M, HEADS, width)), c, s, layout),
                               M * HEADS * width);
    for (int m = 0; m < M; m++)
        for (int h = 0; h < HEADS; h++) {
            const float *from = x + (m * HEADS + h) * width;
            const Number *to = got + (m * HEADS + h) * width;
            for (int i = 0; i < pairs; i++) {
                int a = layout == ROPE_HALVES ? i : 2 * i,
                    z = layout == ROPE_HALVES ? i + pairs : 2 * i + 1;
                double angle = position[m] * pow(10000, -2.0 * i / dim), p = (double)from[a],
                       q = (double)from[z];
                near(to[a].f, p * cos(angle) - q * sin(angle), 1, "rope");
                near(to[z].f, q * cos(angle) + p * sin(angle), 1, "rope");
            }
            for (int i = dim; i < width; i++) assert_true(to[i].f == (double)from[i]);
        }
    bench_free(&b);
}

static void rope_layouts(void **state) {
    (void)state;
    check_rope(ROPE_INTERLEAVED, 8, 8);
    check_rope(ROPE_HALVES, 8, 8);
    check_rope(ROPE_INTERLEAVED, 12, 8);
    check_rope(ROPE_HALVES, 12, 8);
}

// DeepSeek-V2-Lite: 64 values, factor 40 from 4,096 positions; ramp from pair 10 to 23 by hand.
static void rope_scalings(void **state) {
    (void)state;
    RopeSpec yarn = {.dim = 64,
                     .base = 10000,
                     .scaling = ROPE_YARN,
                     .factor = 40,
                     .original_context = 4096,
                     .beta_fast = 32,
                     .beta_slow = 1,
                     .magnitude = 1};
    RopeSpec linear = {
        .dim = 64, .base = 10000, .scaling = ROPE_LINEAR, .factor = 8, .magnitude = 1};
    for (int i = 0; i < 32; i++) {
        double plain = pow(10000, -i / 32.0), share = fmin(1, fmax(0, (i - 10) / 13.0));
        near(rope_frequency(&yarn, i), plain * (1 - share) + plain / 40 * share, plain, "yarn");
        near(rope_frequency(&linear, i), plain / 8, plain, "linear");
    }
    float c[64], s[64];
    rope_table(&yarn, 2, c, s);
    for (int i = 0; i < 64; i++)
        near(pow((double)c[i], 2) + pow((double)s[i], 2), 1, 1, "magnitude");
    // Frequency factors of a file are applied: far out the angles differ.
    float divisors[32], plain_cos[32 * 2], far_cos[32 * 2];
    for (int i = 0; i < 32; i++) divisors[i] = i < 16 ? 1.0f : 32.0f;
    RopeSpec llama = {.dim = 64, .base = 5e5, .factor = 1, .magnitude = 1}, with = llama;
    with.divisors = divisors;
    rope_table(&llama, 2, plain_cos, s);
    rope_table(&with, 2, far_cos, s);
    assert_true(plain_cos[32 + 3] == far_cos[32 + 3]);
    near(rope_frequency(&with, 20), rope_frequency(&llama, 20) / 32, 1e-6, "divisor");
    RopeSpec scaled[2] = {yarn, linear};
    for (int i = 0; i < 2; i++) {       // on top of a scaling too
        double without = rope_frequency(&scaled[i], 20);
        scaled[i].divisors = divisors;
        near(rope_frequency(&scaled[i], 20), without / 32, without, "divisor and scaling");
    }
    assert_true(
        fabs(cos(9000 * rope_frequency(&with, 17)) - cos(9000 * rope_frequency(&llama, 17))) > 0.1);
}

// ---------------------------------------------------------------- cache and attention

enum { PER_SLOT = 2, SLOTS = 2, CELLS = (PER_SLOT * SLOTS + 1) * KV_PAGE, WIDTH = 3 };

static KvRows rows_of(Bench *b, const int32_t *table, const int32_t *sequence,
                      const int32_t *position, int n) {
    return kv_rows(ints(b, table, 0, PER_SLOT * SLOTS, dims(SLOTS + 1, PER_SLOT)),
                   ints(b, sequence, 0, SLOTS, dims(n)),
                   ints(b, position, 0, PER_SLOT * KV_PAGE - 1, dims(n)));
}

// Pages in any order; rows of two sequences and a padding row in one step.
static void cache_pages(void **state) {
    (void)state;
    enum { M = 4 };
    Bench b = bench_new(true);
    static uint16_t cache[CELLS * WIDTH];
    memset(cache, 0, sizeof cache);
    const int32_t table[] = {3, 0, 1, 2, 4, 4}, sequence[M] = {0, 1, 0, 2},
                  position[M] = {70, 5, 3, 9};
    const int64_t cell[M] = {0 * 64 + 6, 1 * 64 + 5, 3 * 64 + 3, 4 * 64 + 9};
    float *x = noise_floats(b.arena, M * WIDTH);
    KvRows rows = rows_of(&b, table, sequence, position, M);
    const int64_t buffers[] = {bench_id(&b, cache, sizeof cache)};
    KvCache kept = kv_cache(b.g, kv_format_find("f16"), (KvShape){WIDTH, WIDTH}, 1, buffers, PER_SLOT * SLOTS + 1);
    kept = kv_write(kept, &rows, floats(&b, x, dims(M, WIDTH)));
    KvView view = kv_view(&rows, 0);
    const Number *got = values(&b, kv_read(&kept, &view), (int64_t)M * PER_SLOT * KV_PAGE * WIDTH);
    for (int m = 0; m < M; m++)
        for (int i = 0; i < WIDTH; i++) {
            double stored = f64_from_f16(cache[cell[m] * WIDTH + i]);
            near(stored, (double)x[m * WIDTH + i], 500, "stored");
            assert_true(got[(m * PER_SLOT * KV_PAGE + position[m]) * WIDTH + i].f == stored);
        }
    assert_true(got[3 * WIDTH].f ==
                f64_from_f16(cache[cell[2] * WIDTH])); // row 0 sees row 2: same sequence
    int written = 0;
    for (int i = 0; i < CELLS; i++) written += cache[i * WIDTH] != 0;
    assert_int_equal(written, M);
    bench_free(&b);
}

// Which keys each row sees, page by page, with and without a window; a window bounds the pages in view.
static void check_view(int window, int64_t pages_in_view) {
    enum { LONG = 6, M = 5 };
    Bench b = bench_new(true);
    int32_t table[2 * LONG], sequence[M] = {0}, position[M] = {3, 63, 64, 100, LONG * KV_PAGE - 1};
    for (int i = 0; i < LONG; i++) table[i] = LONG - 1 - i, table[LONG + i] = LONG;
    KvRows rows = kv_rows(ints(&b, table, 0, LONG, dims(2, LONG)), ints(&b, sequence, 0, 1, dims(M)),
                          ints(&b, position, 0, LONG * KV_PAGE - 1, dims(M)));
    KvView view = kv_view(&rows, window);
    int64_t n = tensor_size(view.pages, 1);
    assert_int_equal(n, pages_in_view);
    const Number *pages = values(&b, view.pages, M * n), *pages_seen = values(&b, view.pages_seen, M),
                 *seen = values(&b, view.keys_seen, M * n), *passed = window ? values(&b, view.keys_passed, M * n) : NULL;
    for (int m = 0; m < M; m++) {
        bool is_seen[LONG * KV_PAGE] = {0};
        for (int64_t p = 0; p < pages_seen[m].i; p++)
            for (int64_t k = passed && passed[m * n + p].i > 0 ? passed[m * n + p].i : 0; k < KV_PAGE && k < seen[m * n + p].i; k++)
                is_seen[(LONG - 1 - pages[m * n + p].i) * KV_PAGE + k] = true;
        for (int t = 0; t < LONG * KV_PAGE; t++)
            assert_int_equal(is_seen[t], t <= position[m] && (!window || t > position[m] - window));
    }
    bench_free(&b);
}

static void cache_views(void **state) {
    (void)state;
    check_view(0, 6);
    check_view(1, 1);
    check_view(16, 2);
    check_view(64, 2);
    check_view(65, 2);
    check_view(66, 3);
    check_view(1000, 6);
}

// Σ softmax(q·k) v over the keys seen, in double.
static void attention_by_loops(const float *q, const float *k, const float *v, int n, int stride,
                               int d, int width, int v_stride, double cap, double *out) {
    double top = -INFINITY, total = 0, score[256];
    for (int t = 0; t < n; t++) {
        score[t] = 0;
        for (int i = 0; i < d; i++) score[t] += (double)q[i] * (double)k[t * stride + i];
        if (cap > 0) score[t] = cap * tanh(score[t] / cap);
        top = fmax(top, score[t]);
    }
    for (int i = 0; i < width; i++) out[i] = 0;
    for (int t = 0; t < n; t++) {
        double e = exp(score[t] - top);
        total += e;
        for (int i = 0; i < width; i++) out[i] += e * (double)v[t * v_stride + i];
    }
    for (int i = 0; i < width && n; i++) out[i] /= total;
}

// One latent head of d values, of which the first width are the value too, under many query heads; keys behind the
// ones seen hold NaN, which must not matter.
static void check_attention(int heads, int kv_heads, int d, int width, int seen, double cap) {
    enum { PAGES = 2, T = PAGES * KV_PAGE };
    Bench b = bench_new(true);
    int share = heads / kv_heads;
    float *q = noise_floats(b.arena, (int64_t)heads * d),
          *k = noise_floats(b.arena, (int64_t)T * kv_heads * d);
    for (int i = seen * kv_heads * d; i < T * kv_heads * d; i++) k[i] = NAN;
    const int32_t pages_seen = (seen + KV_PAGE - 1) / KV_PAGE, keys_seen[PAGES] = {seen, seen - KV_PAGE}, pages[PAGES] = {0, 1};
    KvView view = {.pages = ints(&b, pages, 0, 1, dims(1, PAGES)),
                   .pages_seen = ints(&b, &pages_seen, 0, PAGES, dims(1)),
                   .keys_seen = ints(&b, keys_seen, -T, T, dims(1, PAGES))};
    Tensor keys = floats(&b, k, dims(1, PAGES, KV_PAGE, kv_heads, d));
    Tensor y = attention(floats(&b, q, dims(1, kv_heads, share, d)), keys,
                         tensor_slice(keys, 4, 0, width), &view, cap);
    const Number *got = values(&b, y, (int64_t)heads * width);
    double *want = arena_new(b.arena, (size_t)width * sizeof *want);
    for (int h = 0; h < heads; h++) {
        const float *own = k + h / share * d;
        attention_by_loops(q + h * d, own, own, seen, kv_heads * d, d, width, kv_heads * d, cap,
                           want);
        for (int i = 0; i < width; i++) near(got[h * width + i].f, want[i], 4, "attention");
    }
    bench_free(&b);
}

static void attention_shapes(void **state) {
    (void)state;
    const int seen[] = {1, 31, 32, 33, 64, 65, 127, 128, 0};
    for (int i = 0; i < 9; i++) {
        check_attention(20, 1, 576, 512, seen[i], 0);
        check_attention(6, 2, 16, 16, seen[i], 0);
        check_attention(4, 4, 8, 5, seen[i], 2.5);
    }
}

// ---------------------------------------------------------------- range

// Sums of f16 weights pass what f16 can hold a thousandfold.
static void f16_weights_take_large_activations(void **state) {
    (void)state;
    enum { ROWS = 8, COLS = 64 };
    for (int is_exact = 0; is_exact < 2; is_exact++) {
        Bench b = bench_new(is_exact);
        uint16_t halves[ROWS * COLS];
        float x[COLS];
        for (int i = 0; i < ROWS * COLS; i++) halves[i] = 0x5640; // 100
        for (int i = 0; i < COLS; i++) x[i] = 1e4f;
        Weight w = {.type = quant_find(1), .buffer = bench_id(&b, halves, sizeof halves), .count = 1, .rows = ROWS, .cols = COLS};
        const Number *got = values(
            &b, layers_linear(&b.layers, input_of(floats(&b, x, dims(1, COLS))), &w), ROWS);
        for (int r = 0; r < ROWS; r++) near(got[r].f, 100.0 * 1e4 * COLS, 1e8, "f16 sum");
        bench_free(&b);
    }
}

// The same weight with its fields in planes.
static Weight in_planes(Bench *b, const Weight *w) {
    QuantPlane planes[QUANT_FIELDS_MAX];
    int64_t total, n = w->count * w->rows * w->cols / w->type->block_elements;
    const uint8_t *blocks = bare_address(b->h, w->buffer);
    int n_planes = quant_planes(w->type, n, planes, &total), end = 0;
    uint8_t *out = arena_new(b->arena, (size_t)total);
    memset(out, 0xAA, (size_t)total);
    for (int i = 0; i < n_planes; i++) {
        assert_int_equal(planes[i].begin, end);
        assert_int_equal(planes[i].offset % 16, 0);
        quant_plane_gather(w->type, &planes[i], blocks, n, out + planes[i].offset);
        end = planes[i].end;
    }
    assert_int_equal(end, w->type->block_bytes);
    Weight planar = *w;
    planar.buffer = bench_id(b, out, (size_t)total), planar.is_planar = true;
    return planar;
}

static void same_values(Bench *b, Tensor got, Tensor want, int64_t n, const QuantType *t) {
    const Number *g = values(b, got, n), *w = values(b, want, n);
    for (int64_t i = 0; i < n; i++)
        if (g[i].f != w[i].f) fail_msg("%s: element %d is %g in planes, %g in blocks", t->name, (int)i, g[i].f, w[i].f);
}

static void planes_mean_what_blocks_mean(void **state) {
    (void)state;
    enum { COUNT = 3, ROWS = 5, M = 2, N = 2 };
    for (int i = 0; i < quant_count(); i++) {
        const QuantType *t = quant_at(i);
        int64_t k = 3 * t->block_elements;
        Bench b = bench_new(i % 2);
        Weight one = noise_weight(&b, t, 1, ROWS, k), many = noise_weight(&b, t, COUNT, ROWS, k);
        Weight one_apart = in_planes(&b, &one), many_apart = in_planes(&b, &many);
        int32_t ids[] = {2, 0, 1, 2};
        Tensor x = floats(&b, noise_floats(b.arena, M * N * k), dims(M, N, k)), chosen = ints(&b, ids, 0, COUNT - 1, dims(M, N));
        Input flat = input_of(tensor_reshape(x, dims(M * N, k))), each = input_of(x);
        same_values(&b, layers_linear(&b.layers, flat, &one_apart), layers_linear(&b.layers, flat, &one), M * N * ROWS, t);
        same_values(&b, layers_chosen(&b.layers, each, &many_apart, chosen), layers_chosen(&b.layers, each, &many, chosen), M * N * ROWS, t);
        Tensor rows = ints(&b, ids, 0, ROWS - 1, dims(M * N));
        same_values(&b, layers_embedding(&b.layers, &one_apart, rows), layers_embedding(&b.layers, &one, rows), M * N * k, t);
        bench_free(&b);
    }
}

// ---------------------------------------------------------------- routing

static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }

// The router's rules by repeated search.
static void route_by_loops(const Router *r, const float *logits, const float *bias, int *ids,
                           double *weights) {
    double share[512], score[512], total = 0, sum = 0, top = -INFINITY;
    int64_t size = r->experts / r->groups;
    bool is_out[512] = {0};
    for (int e = 0; e < r->experts; e++) top = fmax(top, (double)logits[e]);
    for (int e = 0; e < r->experts; e++) total += exp((double)logits[e] - top);
    for (int e = 0; e < r->experts; e++) {
        share[e] = r->gating == GATE_SIGMOID ? sigmoid_of((double)logits[e])
                                             : exp((double)logits[e] - top) / total;
        score[e] = share[e] + (bias ? (double)bias[e] : 0);
    }
    if (r->groups > 1) {
        double group[64];
        bool is_kept[64] = {0};
        for (int64_t k = 0; k < r->groups; k++) {
            double first = -INFINITY, second = -INFINITY;
            for (int64_t e = k * size; e < (k + 1) * size; e++) {
                if (score[e] > first)
                    second = first, first = score[e];
                else if (score[e] > second)
                    second = score[e];
            }
            group[k] = first + second;
        }
        for (int64_t n = 0; n < r->groups_used; n++) {
            int64_t best = -1;
            for (int64_t k = 0; k < r->groups; k++)
                if (!is_kept[k] && (best < 0 || group[k] > group[best])) best = k;
            is_kept[best] = true;
        }
        for (int64_t e = 0; e < r->experts; e++) is_out[e] = !is_kept[e / size];
    }
    for (int i = 0; i < r->used; i++) {
        int best = -1;
        for (int e = 0; e < r->experts; e++)
            if (!is_out[e] && (best < 0 || score[e] > score[best])) best = e;
        ids[i] = best, weights[i] = share[best], is_out[best] = true, sum += share[best];
    }
    for (int i = 0; i < r->used; i++)
        weights[i] = (r->is_normalised ? weights[i] / sum : weights[i]) * r->scale;
}

static void check_routing(const Router *r, bool has_bias, int rows) {
    Bench b = bench_new(true);
    float *logits = noise_floats(b.arena, rows * r->experts),
          *bias = noise_floats(b.arena, r->experts);
    for (int64_t i = 0; i < rows * r->experts; i++) logits[i] *= 4;
    for (int64_t e = 256; e < r->experts; e++) logits[e] += 9; // winners beyond 255 in row 0
    Tensor t = floats(&b, logits, dims(rows, r->experts));
    Routing got = experts_route(r, t, has_bias ? floats(&b, bias, dims(r->experts)) : NULL);
    const Number *ids = values(&b, got.ids, rows * r->used),
                 *weights = values(&b, got.weights, rows * r->used);
    for (int m = 0; m < rows; m++) {
        int want[64];
        double weight[64];
        route_by_loops(r, logits + m * r->experts, has_bias ? bias : NULL, want, weight);
        for (int i = 0; i < r->used; i++) {
            assert_int_equal(ids[m * r->used + i].i, want[i]);
            near(weights[m * r->used + i].f, weight[i], 2, "weight");
        }
    }
    bench_free(&b);
}

static void routing(void **state) {
    (void)state;
    const Router rows[] = {
        {GATE_SOFTMAX, 6, 3, 1, 1, false, 1},    {GATE_SIGMOID, 64, 4, 1, 1, true, 1.8},
        {GATE_SOFTMAX, 4, 1, 1, 1, false, 1},    {GATE_SIGMOID, 8, 2, 4, 2, true, 2.5},
        {GATE_SIGMOID, 64, 8, 8, 4, true, 2.5},  {GATE_SOFTMAX, 512, 10, 1, 1, true, 1},
        {GATE_SOFTMAX, 160, 6, 1, 1, false, 16}, {GATE_SOFTMAX, 60, 4, 1, 1, false, 1},
        {GATE_SIGMOID, 160, 6, 8, 3, false, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int has_bias = 0; has_bias < 2; has_bias++) check_routing(&rows[i], has_bias, 5);
    check_routing(&(Router){GATE_SOFTMAX, 64, 6, 1, 1, false, 1}, false,
                  512); // 3,072 chosen rows at once
}

// All NaN, one NaN, all equal: ids stay distinct and in range, ties go to the lower index.
static void routing_of_bad_rows(void **state) {
    (void)state;
    enum { E = 8, K = 3, ROWS = 3 };
    for (int gating = GATE_SOFTMAX; gating <= GATE_SIGMOID; gating++) {
        Bench b = bench_new(true);
        float logits[ROWS * E];
        for (int i = 0; i < E; i++)
            logits[i] = NAN, logits[E + i] = (float)i, logits[2 * E + i] = 1;
        logits[E + 7] = gating == GATE_SIGMOID ? NAN : 7;
        Router r = {(Gating)gating, E, K, 1, 1, false, 1};
        Routing got = experts_route(&r, floats(&b, logits, dims(ROWS, E)), NULL);
        const Number *ids = values(&b, got.ids, ROWS * K);
        for (int i = 0; i < K; i++) {
            assert_int_equal(ids[i].i, i);
            assert_int_equal(ids[K + i].i, (gating == GATE_SIGMOID ? 6 : 7) - i);
            assert_int_equal(ids[2 * K + i].i, i);
        }
        bench_free(&b);
    }
}

// Every choice has a place of its own in a group of its expert, where its row stands; earlier rows first.
static void check_grouping(int m, int used, int experts, uint64_t seed) {
    Bench b = bench_new(false);
    uint64_t state = seed;
    int n = m * used;
    int32_t *ids = arena_new(b.arena, (size_t)n * sizeof *ids);
    bool seen[4096] = {false};
    for (int t = 0; t < m; t++)
        for (int u = 0; u < used; u++) {
            bool again = true;
            while (again) {   // the choices of a row are distinct; few experts are the favourites of all
                uint32_t r = noise_next(&state);
                ids[t * used + u] = (int32_t)(r % 3 ? r / 3 % (uint32_t)(used < experts ? used + 1 : experts) : r / 3 % (uint32_t)experts);
                again = false;
                for (int o = 0; o < u; o++) again |= ids[t * used + o] == ids[t * used + u];
            }
        }
    Grouping by = grouping_of(ints(&b, ids, 0, experts - 1, dims(m, used)), experts);
    int64_t groups = tensor_count(by.expert);
    const Number *expert = values(&b, by.expert, groups), *row = values(&b, by.row, groups * GROUP_ROWS), *place = values(&b, by.place, n);
    for (int i = 0; i < n; i++) {
        int64_t at = place[i].i;
        assert_true(at >= 0 && at < groups * GROUP_ROWS && !seen[at]);
        seen[at] = true;
        assert_int_equal(expert[at / GROUP_ROWS].i, ids[i]);
        assert_int_equal(row[at].i, i / used);
        for (int o = 0; o < i; o++) if (ids[o] == ids[i]) assert_true(place[o].i < at);
    }
    const Number *is_used = values(&b, by.is_used, groups);
    for (int64_t k = 0; k < groups; k++) {   // a group is in use as long as some choice stands there
        bool has_one = false;
        for (int i = 0; i < GROUP_ROWS; i++) has_one |= seen[k * GROUP_ROWS + i];
        assert_int_equal(is_used[k].i, has_one);
    }
    for (int64_t k = 0; k < groups * GROUP_ROWS; k++) assert_true(row[k].i >= 0 && row[k].i < m);
    bench_free(&b);
}

static void grouping(void **state) {
    (void)state;
    check_grouping(1, 1, 1, 3);
    check_grouping(64, 4, 16, 5);
    check_grouping(33, 6, 64, 7);
    check_grouping(17, 2, 3, 9);
    check_grouping(8, 4, 64, 11);
}

static void mixture(void **state) {
    (void)state;
    enum { M = 2, E = 4, K = 2, DIM = 64, HIDDEN = 32 };
    Bench b = bench_new(true);
    const QuantType *t = quant_find(8);
    ExpertWeights w = {noise_weight(&b, t, E, HIDDEN, DIM), noise_weight(&b, t, E, HIDDEN, DIM),
                       noise_weight(&b, t, E, DIM, HIDDEN)};
    const Number *gate = weight_values(&b, &w.gate), *up = weight_values(&b, &w.up),
                 *down = weight_values(&b, &w.down);
    float *x = noise_floats(b.arena, M * DIM), weights[M * K] = {0.7f, 0.3f, 1.5f, 0};
    const int32_t ids[M * K] = {3, 1, 0, 2};
    for (int i = 0; i < M * DIM; i++) x[i] *= 0.01f;
    Routing routing_data = {ints(&b, ids, 0, E - 1, dims(M, K)), floats(&b, weights, dims(M, K))};
    const Number *got = values(&b,
                               experts_mix(&b.layers, input_of(floats(&b, x, dims(M, DIM))),
                                           &routing_data, &w, ACTIVATION_SILU),
                               M * DIM);
    for (int m = 0; m < M; m++) {
        double want[DIM] = {0}, size = 1;
        for (int i = 0; i < K; i++)
            for (int h = 0; h < HIDDEN; h++) {
                int64_t at = ((int64_t)ids[m * K + i] * HIDDEN + h) * DIM;
                double g = 0, u = 0;
                for (int d = 0; d < DIM; d++)
                    g += gate[at + d].f * (double)x[m * DIM + d],
                        u += up[at + d].f * (double)x[m * DIM + d];
                double hidden = g * sigmoid_of(g) * u * (double)weights[m * K + i];
                for (int d = 0; d < DIM; d++)
                    want[d] += hidden * down[((int64_t)ids[m * K + i] * DIM + d) * HIDDEN + h].f;
                size += fabs(hidden) * 20;
            }
        for (int d = 0; d < DIM; d++) near(got[m * DIM + d].f, want[d], size, "mixture");
    }
    bench_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding),
        cmocka_unit_test(f16_weights_take_large_activations),
        cmocka_unit_test(products),
        cmocka_unit_test(planes_mean_what_blocks_mean),
        cmocka_unit_test(rounding_is_shared),
        cmocka_unit_test(embedding_norm_and_activations),
        cmocka_unit_test(rope_layouts),
        cmocka_unit_test(rope_scalings),
        cmocka_unit_test(cache_pages),
        cmocka_unit_test(cache_views),
        cmocka_unit_test(attention_shapes),
        cmocka_unit_test(routing),
        cmocka_unit_test(routing_of_bad_rows),
        cmocka_unit_test(grouping),
        cmocka_unit_test(mixture),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}

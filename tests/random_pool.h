// random_pool: what moves of random_graph build on: choices, buffers of random elements, the tensors made so far.
// In: a seed, a way to make buffers. Out: operands that fit, and room for results.
// Invariant: a tensor of the pool states how large its elements can be, and whether they are exact.
// Example: RandomTensor x = random_pick(r, random_is_float), y = random_partner(r, &x); random_add(r, tensor_add(x.t, y.t), …)
#pragma once
#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "tensor/tensor.h"

enum {
    RANDOM_MAX_TENSORS = 96, RANDOM_MAX_OUTPUTS = 6, RANDOM_MAX_WANTED = 4, RANDOM_MAX_COUNT = 1024, RANDOM_LARGE_COUNT = 4096
};

// Makes a buffer with these bytes and returns its id.
typedef struct RandomBuffers { int64_t (*make)(void *context, const void *bytes, size_t nbytes); void *context; } RandomBuffers;

// size: no element's magnitude is larger. is_exact: no rounding yet, so that comparing is safe.
typedef struct RandomTensor { Tensor t; double size; bool is_exact; } RandomTensor;

typedef struct RandomGraph {
    Graph *g;
    uint64_t state;
    RandomBuffers buffers;
    RandomTensor pool[RANDOM_MAX_TENSORS];
    int n;
    Tensor output[RANDOM_MAX_OUTPUTS];
    int n_outputs;
    bool is_large;                // sizes that make kernels of several tiles
    int64_t most;                 // elements of a tensor
    Tensor wanted[RANDOM_MAX_WANTED];   // outputs for sure: what was made for several tiles
    int n_wanted;
} RandomGraph;

// ---- choices (splitmix64)

static uint64_t random_bits(RandomGraph *r) {
    uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static int random_below(RandomGraph *r, int64_t n) { return (int)(random_bits(r) % (uint64_t)n); }
static bool random_chance(RandomGraph *r, int percent) { return random_below(r, 100) < percent; }
static double random_unit(RandomGraph *r) { return (double)(random_bits(r) >> 11) * 0x1p-53; }

static int64_t random_size(RandomGraph *r) {
    static const int64_t sizes[] = {1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 8, 16, 16, 17, 32, 33, 64};
    static const int64_t large[] = {2, 3, 8, 16, 24, 32, 32, 33, 48, 64, 64, 96, 128};
    return r->is_large ? large[random_below(r, sizeof large / sizeof *large)] : sizes[random_below(r, sizeof sizes / sizeof *sizes)];
}

// ---- the pool

static bool random_add(RandomGraph *r, Tensor t, double size, bool is_exact) {
    if (r->n == RANDOM_MAX_TENSORS || uop_is_poison(t) || tensor_count(t) > r->most || t->ndim > 5)
        return false;
    r->pool[r->n++] = (RandomTensor){t, size, is_exact};
    return true;
}

// An output for sure.
static void random_want(RandomGraph *r, Tensor t) {
    bool is_new = r->n_wanted < RANDOM_MAX_WANTED && !uop_is_poison(t);
    for (int i = 0; i < r->n_wanted; i++)
        is_new &= r->wanted[i] != t;
    if (is_new)
        r->wanted[r->n_wanted++] = t;
}

// A buffer of random elements in [-size, size] (unsigned: [0, size]); integers state those bounds half of the time.
static Tensor random_buffer(RandomGraph *r, DType type, Dims shape, double size) {
    int64_t count = 1;
    for (int i = 0; i < shape.n; i++)
        count *= shape.at[i];
    size_t nbytes = (size_t)count * (size_t)dtype_bytes(type);
    uint8_t *bytes = arena_new(graph_arena(r->g), nbytes);
    bool is_signed = dtype_info[type].type_class == CLASS_INT, is_float = dtype_is_float(type);
    int64_t most = !is_float && (int64_t)size > dtype_info[type].hi ? dtype_info[type].hi : (int64_t)size;
    for (int64_t i = 0; i < count; i++) {
        double x = (is_float || is_signed ? 2 * random_unit(r) - 1 : random_unit(r)) * size;
        int64_t whole = (int64_t)rint(x);
        whole = whole > most ? most : whole;
        if (!is_float && random_chance(r, 3))   // the ends of a range are where integers go wrong
            whole = is_signed ? -(int64_t)size : most;
        Number n = is_float ? (Number){.f = random_chance(r, 5) ? 0 : x} : (Number){.i = whole};
        number_store(type, bytes + i * dtype_bytes(type), n);
    }
    int64_t id = r->buffers.make(r->buffers.context, bytes, nbytes);
    bool states = !is_float && random_chance(r, 50);
    return tensor_buffer(r->g, id, type, states && is_signed ? -(int64_t)size : 0, states ? most : 0, shape);
}

static Dims random_shape(RandomGraph *r) {
    Dims d = {.n = 1 + random_below(r, 3)};
    int64_t count = 1;
    for (int i = 0; i < d.n; i++) {
        d.at[i] = random_size(r);
        count *= d.at[i];
        if (count > r->most / 2) {
            count /= d.at[i];
            d.at[i] = 1;
        }
    }
    return d;
}

static RandomTensor random_leaf(RandomGraph *r) {
    static const struct { DType type; double size; } kinds[] = {
        {DT_F32, 2}, {DT_F32, 2}, {DT_F32, 2}, {DT_F16, 2}, {DT_BF16, 2}, {DT_I8, 100}, {DT_U8, 255}, {DT_I32, 1000},
    };
    int k = random_below(r, sizeof kinds / sizeof *kinds);
    Tensor t = random_buffer(r, kinds[k].type, random_shape(r), kinds[k].size);
    return (RandomTensor){t, kinds[k].size, true};
}

typedef bool (*RandomTest)(const RandomTensor *x);
static bool random_any(const RandomTensor *x) { return x->t->dtype != DT_BOOL; }
static bool random_is_float(const RandomTensor *x) { return dtype_is_float(x->t->dtype); }
static bool random_is_int(const RandomTensor *x) { return dtype_is_int(x->t->dtype) && x->t->dtype != DT_BOOL; }
static bool random_is_f32(const RandomTensor *x) { return x->t->dtype == DT_F32; }

// A tensor of the pool that passes, recent ones more often; a fresh leaf where none does.
static RandomTensor random_pick(RandomGraph *r, RandomTest test) {
    for (int tries = 0; tries < 12 && r->n; tries++) {
        int a = random_below(r, r->n), b = random_below(r, r->n), c = random_below(r, r->n);
        int best = a > b ? a : b;
        best = c > best ? c : best;
        if (test(&r->pool[best]))
            return r->pool[best];
    }
    RandomTensor leaf = random_leaf(r);
    if (test(&leaf))
        return leaf;
    bool is_int = test == random_is_int;
    return (RandomTensor){random_buffer(r, is_int ? DT_I32 : DT_F32, random_shape(r), 2), 2, true};
}

// x made small enough for an op that would leave the range otherwise.
static RandomTensor random_within(RandomTensor x, double limit) {
    if (x.size <= limit)
        return x;
    double scale = exp2(floor(log2(limit / x.size)));
    return (RandomTensor){tensor_mul_const(x.t, scale), x.size * scale, false};
}

static double random_limit(const RandomTensor *x) { return x->t->dtype == DT_F16 ? 500 : 1e4; }

// An operand for x: of x's type, of a shape that broadcasts with it.
static RandomTensor random_partner(RandomGraph *r, const RandomTensor *x) {
    bool is_float = random_is_float(x);
    for (int tries = 0; tries < 6; tries++) {
        RandomTensor y = random_pick(r, is_float ? random_is_float : random_is_int);
        bool fits = y.t->ndim <= x->t->ndim;
        for (int i = 1; fits && i <= y.t->ndim; i++) {
            int64_t n = tensor_size(x->t, -i), m = tensor_size(y.t, -i);
            fits = m == n || m == 1;
        }
        if (!fits)
            continue;
        if (y.t->dtype != x->t->dtype)
            y = (RandomTensor){tensor_cast(is_float ? random_within(y, random_limit(x)).t : y.t, x->t->dtype),
                               is_float ? fmin(y.size, random_limit(x)) : y.size, false};
        return y;
    }
    Dims d = tensor_dims(x->t);
    for (int i = 0; i < d.n; i++)
        if (random_chance(r, 40))
            d.at[i] = 1;
    if (is_float && random_chance(r, 60)) {
        static const DType narrow[] = {DT_I8, DT_U8, DT_F16};
        DType type = narrow[random_below(r, 3)];
        return (RandomTensor){tensor_cast(random_buffer(r, type, d, 10), x->t->dtype), 10, false};
    }
    double size = is_float ? 2 : x->t->dtype == DT_I32 ? 100 : 60;
    return (RandomTensor){random_buffer(r, x->t->dtype, d, size), size, true};
}

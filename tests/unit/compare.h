// compare: runs one graph through the engine and through eval_graph, and compares (DESIGN §8's tolerance).
// In: a graph over buffers made with compare_buffer. Out: CHECKs of cmocka, with the first difference in words.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#undef fail   // lathe has one of its own

#include "engine/engine.h"
#include "ir/eval.h"
#include "nn/layers.h"
#include "unit/noise_blocks.h"

#define compare_fail(...) do { print_error(__VA_ARGS__); print_error("\n"); _fail(__FILE__, __LINE__); } while (0)

typedef struct Compare { Engine *engine; Arena *arena; Graph *graph; void *host[256]; size_t nbytes[256]; uint64_t seed; } Compare;

static inline uint64_t compare_random(Compare *c) {
    c->seed ^= c->seed << 13, c->seed ^= c->seed >> 7, c->seed ^= c->seed << 17;
    return c->seed;
}

static inline Compare compare_open_n(const char *device, const char *target, int threads) {
    Compare c = {.arena = arena_create(), .seed = 88172645463325252u};
    Error err;
    if (!engine_open(&c.engine, device, target, threads, &err)) compare_fail("%s", err.text);
    c.graph = graph_create(c.arena);
    return c;
}

static inline Compare compare_open(const char *device, const char *target) { return compare_open_n(device, target, 2); }

static inline void compare_close(Compare *c) {
    engine_close(c->engine);
    for (int i = 0; i < 256; i++) free(c->host[i]);
    arena_destroy(c->arena);
}

// Memory on the heap that the engine has a copy of and eval reads; freed by compare_close. Returns the buffer's id.
static inline int64_t compare_bytes(Compare *c, void *data, size_t nbytes) {
    int64_t id;
    Error err;
    if (!engine_buffer_alloc(c->engine, nbytes, &id, &err)) compare_fail("%s", err.text);
    engine_buffer_write(c->engine, id, 0, data, nbytes);
    c->host[id] = data, c->nbytes[id] = nbytes;
    return id;
}

// A code book of a block type, as QuantTables want it; context: a Compare.
static inline Tensor compare_book(void *context, Graph *g, const int8_t *values, int n) {
    return tensor_buffer(g, compare_bytes(context, memcpy(calloc(1, (size_t)n + 4096), values, (size_t)n), (size_t)n), DT_I8, -128, 127, dims(n));
}

// A buffer of random content: floats in −1…1, integers in lo…hi.
static inline Tensor compare_buffer(Compare *c, DType dtype, int64_t lo, int64_t hi, Dims shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++) n *= shape.at[i];
    size_t nbytes = (size_t)(n * dtype_bytes(dtype));
    char *data = calloc(1, nbytes + 4096);
    for (int64_t i = 0; i < n; i++) {
        Number v;
        if (dtype_is_float(dtype)) v.f = (double)(int64_t)(compare_random(c) >> 11) / 4503599627370496.0 - 1.0;
        else v.i = lo + (int64_t)(compare_random(c) % (uint64_t)(hi - lo + 1));
        number_store(dtype, data + i * dtype_bytes(dtype), v);
    }
    return tensor_buffer(c->graph, compare_bytes(c, data, nbytes), dtype, lo, hi, shape);
}

// A weight of random blocks, the same for each engine.
static inline Weight compare_weight(Compare *c, const QuantType *type, int64_t rows, int64_t cols) {
    int64_t blocks = rows * cols / type->block_elements;
    size_t nbytes = (size_t)(blocks * type->block_bytes);
    uint64_t state = 11;
    uint8_t *bytes = calloc(1, nbytes + 4096);
    noise_blocks_fill(bytes, type, blocks, &state);
    return (Weight){.type = type, .buffer = compare_bytes(c, bytes, nbytes), .count = 1, .rows = rows, .cols = cols};
}

static inline void *compare_address(void *context, int64_t id) { return ((Compare *)context)->host[id]; }

// tolerance: relative to the largest magnitude of the result (floats); integers must be equal.
static inline void compare_runs(Compare *c, const char *what, Tensor y, double tolerance, int runs) {
    Error err;
    Step *step;
    EvalTensor want;
    Tensor outputs[1] = {y};
    if (uop_is_poison(y)) compare_fail("%s: %s", what, y->message);
    if (!engine_compile(c->engine, outputs, 1, &step, &err)) compare_fail("%s: %s", what, err.text);
    for (int i = 0; i < runs; i++) if (!step_run(step, &err)) compare_fail("%s: %s", what, err.text);
    EvalBuffers buffers = {compare_address, c};
    if (!eval_graph(c->arena, y, &buffers, &want, &err)) compare_fail("%s: eval: %s", what, err.text);
    char *got = malloc(step_output_bytes(step, 0) + 64);
    engine_buffer_read(c->engine, step_output_buffer(step, 0), 0, got, step_output_bytes(step, 0));
    double largest = 0;
    for (int64_t i = 0; i < want.count; i++) if (dtype_is_float(y->dtype) && fabs(want.at[i].f) > largest) largest = fabs(want.at[i].f);
    for (int64_t i = 0; i < want.count; i++) {
        Number g = number_load(y->dtype, got + i * dtype_bytes(y->dtype));
        if (dtype_is_float(y->dtype)) {
            bool same = g.f == want.at[i].f || (isnan(g.f) && isnan(want.at[i].f));
            if (!same && !(fabs(g.f - want.at[i].f) <= tolerance * largest))
                compare_fail("%s: element %lld is %.9g, should be %.9g", what, (long long)i, g.f, want.at[i].f);
        } else if (g.i != want.at[i].i) compare_fail("%s: element %lld is %lld, should be %lld", what, (long long)i, (long long)g.i, (long long)want.at[i].i);
    }
    free(got);
    step_destroy(step);
}

static inline void compare_run(Compare *c, const char *what, Tensor y, double tolerance) { compare_runs(c, what, y, tolerance, 1); }

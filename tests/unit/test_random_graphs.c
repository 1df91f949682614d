// test_random_graphs: over many random tensor graphs, what the compiler makes of them equals what they mean.
// In: seeds. Out: the interpreted linear programs, and for some of them the compiled C, against eval_graph within the
// bound of error_bound.h. Usage: test_random_graphs [seeds [first seed [test]]] (default: 10000, 1000 with sanitizers); the
// first failing seeds are printed, and the graph itself where it is the only one. About 3 in 100 of the seeds go through the C compiler as well, many graphs a file.
// The generator and the bound are tested too: graphs must be rich, and rounding everywhere must stay within the bound.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "engine/engine.h"
#include "error_bound.h"
#include "ir/textform.h"
#include "random_graph.h"

#undef fail                // cmocka has its own
#include <cmocka.h>

// Sanitizers make each seed about ten times as dear.
#ifdef LATHE_VERIFY
static int n_seeds = 1000;
#else
static int n_seeds = 10000;
#endif
static uint64_t first_seed = 1;

// ---- buffers: the host's copies, by id

typedef struct HostBuffer { uint8_t *bytes; size_t nbytes; } HostBuffer;
typedef struct Host { Arena *arena; VEC(HostBuffer) buffers; } Host;

static int64_t host_make(void *context, const void *bytes, size_t nbytes) {
    Host *h = context;
    vec_push(h->arena, &h->buffers, ((HostBuffer){arena_copy(h->arena, bytes, nbytes), nbytes}));
    return (int64_t)h->buffers.len - 1;
}

static void *host_address(void *context, int64_t id) {
    Host *h = context;
    return id >= 0 && (size_t)id < h->buffers.len ? h->buffers.at[id].bytes : NULL;
}

static EvalTensor value_of(Arena *arena, Host *host, Tensor t, uint64_t seed) {
    EvalTensor out = {0};
    Error err = {0};
    if (uop_is_poison(t))
        fail_msg("seed %llu: %s", (unsigned long long)seed, t->message);
    if (!eval_graph(arena, t, &(EvalBuffers){host_address, host}, &out, &err))
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    return out;
}

// A store must not be seen by the next evaluation.
static Host host_copy_of(Arena *arena, const Host *host) {
    Host copy = {.arena = arena};
    for (size_t i = 0; i < host->buffers.len; i++)
        host_make(&copy, host->buffers.at[i].bytes, host->buffers.at[i].nbytes);
    return copy;
}

typedef struct Wanted { EvalTensor value, bound; } Wanted;

static Wanted wanted_of(Arena *arena, const Host *host, Tensor t, BoundMaker *bounds, uint64_t seed) {
    Host before = host_copy_of(arena, host), again = host_copy_of(arena, host);
    return (Wanted){value_of(arena, &before, t, seed), value_of(arena, &again, bound_of(bounds, t), seed)};
}

static long n_elements, n_unknown;
static int n_wrong;            // seeds that failed in this test

// A failing seed does not end the test: which seeds fail tells what is wrong.
static __attribute__((format(printf, 2, 3))) bool wrong(uint64_t seed, const char *format, ...) {
    enum { SHOWN = 12 };
    if (n_wrong++ < SHOWN) {
        va_list args;
        va_start(args, format);
        print_error("seed %llu: ", (unsigned long long)seed);
        vprint_error(format, args);
        print_error("\n");
        va_end(args);
    }
    return false;
}

// Compares one output; got holds its elements as numbers. False at the first that differs.
static bool compare(const Wanted *want, const Number *got, uint64_t seed, int output, const char *what) {
    DType type = want->value.dtype;
    for (int64_t i = 0; i < want->value.count; i++) {
        double e = want->bound.at[i].f;
        n_elements++;
        if (!(e <= BOUND_USELESS)) {
            n_unknown++;
            continue;
        }
        bool is_float = dtype_is_float(type);
        double w = is_float ? want->value.at[i].f : (double)want->value.at[i].i, x = is_float ? got[i].f : (double)got[i].i;
        double rounding = bound_unit(type) * fabs(w) + bound_smallest(type);
        if (fabs(w - x) <= e + (is_float ? rounding : 0) || (isnan(w) && isnan(x)) || w == x)
            continue;
        return wrong(seed, "output %d, element %lld of %lld: %s %.9g, graph %.9g, bound %.3g", output, (long long)i,
                     (long long)want->value.count, what, x, w, e);
    }
    return true;
}

// ---- the generator

static bool has(const UOpList *order, bool (*test)(const UOp *)) {
    for (size_t i = 0; i < order->len; i++)
        if (test(order->at[i]))
            return true;
    return false;
}

static bool is_view(const UOp *u) { return op_info[u->op].kind == KIND_MOVE && u->op != OP_RESHAPE && u->op != OP_EXPAND; }
static bool is_mask(const UOp *u) { return u->op == OP_WHERE || u->op == OP_PAD; }
static bool is_reduction(const UOp *u) { return u->op == OP_REDUCE; }
static bool is_int8(const UOp *u) { return u->dtype == DT_I8 || u->dtype == DT_U8; }
static bool is_half(const UOp *u) { return u->dtype == DT_F16; }
static bool is_store(const UOp *u) { return u->op == OP_ASSIGN; }

static bool is_counted(const UOp *u) {
    return op_info[u->op].kind != KIND_LEAF && u->op != OP_SINK && u->op != OP_EXPAND && u->op != OP_RESHAPE;
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void graphs_are_rich(void **state) {
    (void)state;
    enum { N = 1000 };
    static const struct { bool (*test)(const UOp *); int at_least; const char *name; } rows[] = {
        {is_view, 60, "views"}, {is_mask, 50, "masks"}, {is_reduction, 50, "reductions"}, {is_int8, 20, "8-bit integers"},
        {is_half, 25, "f16"}, {is_store, 5, "stores"},
    };
    int n_ops[N], found[6] = {0};
    Arena *arena = arena_create();
    for (int seed = 0; seed < N; seed++) {
        arena_reset(arena);
        Graph *g = graph_create(arena);
        Host host = {.arena = arena};
        RandomGraph r;
        random_graph_make(&r, g, (uint64_t)seed, (RandomBuffers){host_make, &host});
        UOpList order = uop_toposort(arena, uop_sink(g, r.output, r.n_outputs));
        n_ops[seed] = 0;
        for (size_t i = 0; i < order.len; i++)
            n_ops[seed] += is_counted(order.at[i]);
        for (int i = 0; i < 6; i++)
            found[i] += has(&order, rows[i].test);
    }
    arena_destroy(arena);
    qsort(n_ops, N, sizeof *n_ops, by_value);
    print_message("ops without reshapes: median %d, largest %d\n", n_ops[N / 2], n_ops[N - 1]);
    assert_true(n_ops[N / 2] >= 12);
    for (int i = 0; i < 6; i++) {
        print_message("%s: in %.1f %%\n", rows[i].name, found[i] * 100.0 / N);
        assert_true(found[i] * 100 >= rows[i].at_least * N);
    }
}

// ---- the bound

// The same graph with each float op rounded to its type.
static Tensor rounded(Arena *arena, Tensor root) {
    UOpMap done;
    uop_map_init(&done, arena);
    UOpList order = uop_toposort(arena, root);
    for (size_t i = 0; i < order.len; i++) {
        UOp *u = order.at[i], **src = arena_new(arena, (size_t)(u->n_src + 1) * sizeof *src);
        for (int k = 0; k < u->n_src; k++)
            src[k] = uop_map_get(&done, u->src[k]);
        UOp *v = uop_with_src(u, src);
        OpKind kind = op_info[u->op].kind;
        bool rounds = dtype_is_float((DType)u->dtype) && (kind == KIND_UNARY || kind == KIND_BINARY ||
                                                          kind == KIND_TERNARY || kind == KIND_REDUCE);
        uop_map_put(&done, u, rounds ? uop_new(v->graph, OP_CAST, v->dtype, 1, &v, 1, NULL, 0) : v);
    }
    return uop_map_get(&done, root);
}

static void rounding_everywhere_stays_within_the_bound(void **state) {
    (void)state;
    Arena *arena = arena_create();
    n_elements = n_unknown = n_wrong = 0;
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)n_seeds / 2; seed++) {
        arena_reset(arena);
        Graph *g = graph_create(arena);
        Host host = {.arena = arena};
        RandomGraph r;
        random_graph_make(&r, g, seed, (RandomBuffers){host_make, &host});
        BoundMaker bounds = bound_maker(g);
        for (int i = 0; i < r.n_outputs; i++) {
            Wanted want = wanted_of(arena, &host, r.output[i], &bounds, seed);
            Host mine = host_copy_of(arena, &host);
            EvalTensor got = value_of(arena, &mine, rounded(arena, r.output[i]), seed);
            for (int64_t k = 0; k < want.value.count; k++)
                if (dtype_is_float(want.value.dtype) && !isfinite(want.value.at[k].f))
                    fail_msg("seed %llu: the graph gives %g", (unsigned long long)seed, want.value.at[k].f);
            compare(&want, got.at, seed, i, "rounded");
        }
    }
    arena_destroy(arena);
    print_message("%ld elements, %.2f %% of them next to a jump\n", n_elements, 100.0 * (double)n_unknown / (double)n_elements);
    assert_int_equal(n_wrong, 0);
    assert_true(n_unknown * 50 < n_elements);
}

// ---- the compiler

// is_falling: which way the next run of the eval device goes through tiles (it turns with every run).
typedef struct DeviceHost { Host host; Engine *engine; bool is_falling; } DeviceHost;

// The engine's ids are positions in the host's list: one engine serves one host, and buffers are made in the same order.
static int64_t device_make(void *context, const void *bytes, size_t nbytes) {
    DeviceHost *d = context;
    Error err = {0};
    int64_t id = -1;
    if (!engine_buffer_alloc(d->engine, nbytes, &id, &err))
        fail_msg("%s", err.text);
    engine_buffer_write(d->engine, id, 0, bytes, nbytes);
    while ((int64_t)d->host.buffers.len < id)
        host_make(&d->host, "", 0);
    assert_int_equal(host_make(&d->host, bytes, nbytes), id);
    return id;
}

static Engine *engine_on(const char *device, const char *target) {
    Engine *engine = NULL;
    Error err = {0};
    if (!engine_open(&engine, device, target, 2, &err))
        fail_msg("%s", err.text);
    return engine;
}

static bool check_step(Arena *arena, DeviceHost *d, Step *step, int first_output, const RandomGraph *r,
                       const Wanted *want, uint64_t seed, const char *what) {
    for (int i = 0; i < r->n_outputs; i++) {
        DType type = want[i].value.dtype;
        size_t count = (size_t)want[i].value.count, nbytes = count * (size_t)dtype_bytes(type);
        uint8_t *bytes = arena_new(arena, nbytes);
        Number *got = arena_new(arena, count * sizeof *got);
        if (step_output_bytes(step, first_output + i) < nbytes)
            return wrong(seed, "output %d: %zu bytes, not %zu", i, step_output_bytes(step, first_output + i), nbytes);
        engine_buffer_read(d->engine, step_output_buffer(step, first_output + i), 0, bytes, nbytes);
        for (size_t k = 0; k < count; k++)
            got[k] = number_load(type, bytes + k * (size_t)dtype_bytes(type));
        if (!compare(&want[i], got, seed, i, what))
            return false;
    }
    return true;
}

static bool run_counted(DeviceHost *d, Step *step, Error *err) {
    d->is_falling ^= true;
    return step_run(step, err);
}

// Only a first run shows that a tile reads what a later one writes: in the second the first run's value lies there. So
// half of the seeds begin with the last tile.
static void turn_order(Arena *arena, DeviceHost *d) {
    Tensor one = tensor_add_const(tensor_iota(graph_create(arena), 2), 1);
    Step *step = NULL;
    Error err = {0};
    if (!engine_compile(d->engine, &one, 1, &step, &err) || !run_counted(d, step, &err))
        fail_msg("%s", err.text);
    step_destroy(step);
}

// Buffers from `first` on hold what the graph began with; what an output's own buffer held before a run must not matter.
static void prepare_run(DeviceHost *d, Step *step, int n, size_t first) {
    for (size_t id = first; id < d->host.buffers.len; id++)
        engine_buffer_write(d->engine, (int64_t)id, 0, d->host.buffers.at[id].bytes, d->host.buffers.at[id].nbytes);
    for (int i = 0; i < n; i++) {
        if (step_output_buffer(step, i) < (int64_t)d->host.buffers.len)
            continue;            // a buffer of the graph
        size_t nbytes = step_output_bytes(step, i);
        uint8_t *bytes = arena_new(d->host.arena, nbytes);
        memset(bytes, 0x41, nbytes);
        engine_buffer_write(d->engine, step_output_buffer(step, i), 0, bytes, nbytes);
    }
}

// Ops that compute something: fewer stages than those means that some were fused.
static int count_computing(Arena *arena, const RandomGraph *r) {
    UOpList order = uop_toposort(arena, uop_sink(r->g, r->output, r->n_outputs));
    int n = 0;
    for (size_t i = 0; i < order.len; i++) {
        OpKind kind = op_info[order.at[i]->op].kind;
        n += kind == KIND_UNARY || kind == KIND_BINARY || kind == KIND_TERNARY || kind == KIND_REDUCE || kind == KIND_CONVERT;
    }
    return n;
}

static void make_graph(Arena *arena, DeviceHost *d, Graph *g, uint64_t seed, RandomGraph *r, Wanted *want) {
    random_graph_make(r, g, seed, (RandomBuffers){device_make, d});
    BoundMaker bounds = bound_maker(g);
    for (int i = 0; i < r->n_outputs; i++)
        want[i] = wanted_of(arena, &d->host, r->output[i], &bounds, seed);
}

// Device buffers live as long as their engine: a new one every few seeds.
static void interpreted_programs_equal_their_graphs(void **state) {
    (void)state;
    enum { SEEDS_PER_ENGINE = 16 };
    // Each has vectors or dot products of another kind.
    static const char *const targets[] = {"avx2", "avx512vnni", "sse2", "avxvnni", "avx512", "avx512vlvbmi", "avx512vbmi", "zen4", "dotprod", "generic"};
    uint64_t n_targets = sizeof targets / sizeof *targets;
    Arena *arena = arena_create();
    int n_fused = 0, n_tiled = 0;
    n_elements = n_unknown = n_wrong = 0;
    DeviceHost d = {.host.arena = arena};
    for (int k = 0; k < n_seeds; k++) {
        uint64_t seed = first_seed + (uint64_t)k;
        if (k == 0 || seed % SEEDS_PER_ENGINE == 0) {
            if (d.engine)
                engine_close(d.engine);
            arena_reset(arena);
            d = (DeviceHost){.host.arena = arena, .engine = engine_on("eval", targets[seed / SEEDS_PER_ENGINE % n_targets])};
        }
        if (d.is_falling != (seed % SEEDS_PER_ENGINE >= SEEDS_PER_ENGINE / 2))
            turn_order(arena, &d);
        RandomGraph r;
        Wanted want[RANDOM_MAX_OUTPUTS];
        size_t n_before = d.host.buffers.len;
        make_graph(arena, &d, graph_create(arena), seed, &r, want);
        if (n_seeds == 1)
            for (int i = 0; i < r.n_outputs; i++) printf("output %d:\n%s\n", i, textform_text(arena, r.output[i]));
        Step *step = NULL;
        Error err = {0};
        if (!engine_compile(d.engine, r.output, r.n_outputs, &step, &err)) {
            wrong(seed, "%s", err.text);
            continue;
        }
        n_fused += step_stage_count(step) < count_computing(arena, &r);
        bool is_tiled = false;
        for (int i = 0; i < step_stage_count(step); i++) is_tiled |= step_stage(step, i).tiles > 1;
        n_tiled += is_tiled;
        prepare_run(&d, step, r.n_outputs, n_before);
        bool ran = run_counted(&d, step, &err) || wrong(seed, "%s", err.text);
        bool right = ran && check_step(arena, &d, step, 0, &r, want, seed, "program");
        prepare_run(&d, step, r.n_outputs, n_before);
        if (right && (run_counted(&d, step, &err) || wrong(seed, "%s", err.text)))
            check_step(arena, &d, step, 0, &r, want, seed, "second run");
        step_destroy(step);
    }
    engine_close(d.engine);
    arena_destroy(arena);
    print_message("%d seeds, %.0f %% fuse, %.0f %% have tiles, %ld elements, %.2f %% of them next to a jump\n", n_seeds,
                  100.0 * n_fused / n_seeds, 100.0 * n_tiled / n_seeds, n_elements, 100.0 * (double)n_unknown / (double)n_elements);
    assert_int_equal(n_wrong, 0);
    assert_true(2 * n_fused >= n_seeds);
}

// Many graphs a compilation, so that the compiler starts rarely.
static void compiled_equal_their_graphs(const char *device, int n_graphs, int batch) {
    enum { MOST = 50 };
    n_elements = n_wrong = 0;
    for (int first = 0; first < n_graphs; first += batch) {
        int n = n_graphs - first < batch ? n_graphs - first : batch, n_outputs = 0;
        Arena *arena = arena_create();
        DeviceHost d = {.host.arena = arena, .engine = engine_on(device, NULL)};
        Graph *g = graph_create(arena);
        RandomGraph *r = arena_new(arena, (size_t)n * sizeof *r);
        Wanted *want = arena_new(arena, (size_t)n * RANDOM_MAX_OUTPUTS * sizeof *want);
        Tensor outputs[MOST * RANDOM_MAX_OUTPUTS];
        for (int k = 0; k < n; k++) {
            make_graph(arena, &d, g, first_seed + (uint64_t)(first + k), &r[k], want + k * RANDOM_MAX_OUTPUTS);
            for (int i = 0; i < r[k].n_outputs; i++)
                outputs[n_outputs++] = r[k].output[i];
        }
        Step *step = NULL;
        Error err = {0};
        bool ran = (engine_compile(d.engine, outputs, n_outputs, &step, &err) && step_run(step, &err)) ||
                   wrong(first_seed + (uint64_t)first, "(%d graphs from there) %s", n, err.text);
        for (int k = 0, at = 0; ran && k < n; at += r[k++].n_outputs)
            check_step(arena, &d, step, at, &r[k], want + k * RANDOM_MAX_OUTPUTS, first_seed + (uint64_t)(first + k), "compiled");
        if (step)
            step_destroy(step);
        engine_close(d.engine);
        arena_destroy(arena);
    }
    assert_int_equal(n_wrong, 0);
    print_message("%d graphs through the compiler of %s, %ld elements\n", n_graphs, device, n_elements);
}

static void compiled_programs_equal_their_graphs(void **state) {
    (void)state;
    compiled_equal_their_graphs("cpu", n_seeds < 20 ? n_seeds : n_seeds * 3 / 100 + 20, 50);
}

// Few, since such a compiler takes half a second for a kernel; and one by one, since a kernel takes few buffers there.
static void opencl_programs_equal_their_graphs(void **state) {
    (void)state;
    DeviceState *device = NULL;
    Error why = {0};
    if (!device_find("opencl")->open(&device, NULL, 0, &why)) {
        print_message("skipped: %s\n", why.text);
        skip();
    }
    device_find("opencl")->close(device);
    compiled_equal_their_graphs("opencl", n_seeds < 20 ? n_seeds : n_seeds / 500 + 6, 1);
}

int main(int argc, char **argv) {
    if (argc > 1)
        n_seeds = atoi(argv[1]);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_rich),
        cmocka_unit_test(rounding_everywhere_stays_within_the_bound),
        cmocka_unit_test(interpreted_programs_equal_their_graphs),
        cmocka_unit_test(compiled_programs_equal_their_graphs),
        cmocka_unit_test(opencl_programs_equal_their_graphs),
    };
    return cmocka_run_group_tests_name("random_graphs", tests, NULL, NULL);
}

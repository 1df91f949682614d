// test_runtime: workers, CPU targets, the cpu and null devices with kernels written here as text.
// In: a C compiler, a writable temporary directory. Out: one cmocka group.
// Invariant: every number is checked against one thread's, for 1, 2, 3 and 7 workers.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/os.h"
#include "base/settings.h"
#include "base/text.h"
#include "runtime/buffer_numbers.h"
#include "runtime/cpu_target.h"
#include "runtime/device.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"
#include "runtime/object_cache.h"
#include "runtime/workers.h"
#undef fail   // cmocka has one of its own
#include <cmocka.h>

static const int worker_counts[] = {1, 2, 3, 7};
enum { N_COUNTS = sizeof worker_counts / sizeof *worker_counts };

static Arena *arena;
static char folder[256];       // of the group: holds the cache of compiled kernels

static int group_setup(void **state) {
    (void)state;
    Error err;
    arena = arena_create();
    if (!dir_temporary(folder, sizeof folder, "lathe-test-", &err)) return -1;
    setting_override(SETTING_CACHE_DIR, folder);
    return 0;
}

static int group_teardown(void **state) {
    (void)state;
    setting_override(SETTING_CACHE_DIR, NULL);
    dir_remove(folder);
    arena_destroy(arena);
    return 0;
}

// ---- workers ----

enum { MAX_WORKERS = 8, N_CELLS = 997 };

typedef struct Count { Workers *workers; long runs[MAX_WORKERS]; long n_seen; } Count;

static void count_step(void *arg, int worker, int n_workers) {
    Count *count = arg;
    count->runs[worker]++;
    if (worker == 0) count->n_seen = n_workers;
}

static void every_worker_runs_once(void **state) {
    (void)state;
    for (int c = 0; c < N_COUNTS; c++) {
        int n = worker_counts[c];
        Count count = {.workers = workers_create(n)};
        assert_non_null(count.workers);
        assert_int_equal(workers_count(count.workers), n);
        for (int round = 0; round < 2000; round++) workers_run(count.workers, n, count_step, &count);
        usleep(5000);   // long enough for all to sleep
        for (int round = 0; round < 10; round++) workers_run(count.workers, n, count_step, &count);
        for (int w = 0; w < MAX_WORKERS; w++) assert_int_equal(count.runs[w], w < n ? 2010 : 0);
        assert_int_equal(count.n_seen, n);
        workers_destroy(count.workers);
    }
    workers_destroy(NULL);
}

// Those who take no part in a step sleep through it, and are there for a later one.
static void only_the_first_workers_of_a_step_run(void **state) {
    (void)state;
    Count count = {.workers = workers_create(7)};
    long want[MAX_WORKERS] = {0};
    for (int round = 0; round < 3000; round++) {
        int n = 1 + round * 5 % 7;
        for (int w = 0; w < n; w++) want[w]++;
        workers_run(count.workers, n, count_step, &count);
        assert_int_equal(count.n_seen, n);
        if (round % 500 == 499) usleep(2000);   // long enough for all to sleep
    }
    assert_memory_equal(count.runs, want, sizeof want);
    workers_destroy(count.workers);
}

enum { BURN_US = 20000 };

static void burn_step(void *arg, int worker, int n_workers) {
    (void)arg, (void)n_workers;
    for (uint64_t begin = thread_cpu_us(); worker == 0 && thread_cpu_us() < begin + BURN_US;) {}
}

// One works, the other waits for it; or comes late, where others have its core.
static void times_tell_work_from_waiting(void **state) {
    (void)state;
    Workers *workers = workers_create(2);
    WorkerTimes times = workers_run(workers, 2, burn_step, NULL);
    workers_destroy(workers);
    assert_true(times.wall_us >= BURN_US);
    assert_in_range(times.busy_us, BURN_US - 1, BURN_US + BURN_US / 2);
    assert_true(times.waited_us + times.off_us >= BURN_US - 1000);
}

// Phase p writes cell i from a cell that another worker wrote in phase p - 1.
typedef struct Phases { Workers *workers; int n_phases; unsigned long cells[2][N_CELLS]; } Phases;

static void phases_step(void *arg, int worker, int n_workers) {
    Phases *phases = arg;
    for (int p = 0; p < phases->n_phases; p++) {
        const unsigned long *from = phases->cells[p % 2];
        unsigned long *to = phases->cells[(p + 1) % 2];
        for (int i = worker; i < N_CELLS; i += n_workers)
            to[i] = from[(i * 7 + 3) % N_CELLS] * 3 + (unsigned long)p;
        if (p % 50 == 49 && worker == p / 50 % n_workers) usleep(300); // others have to sleep, too
        workers_barrier(phases->workers, worker);
    }
}

static void barriers_order_phases(void **state) {
    (void)state;
    static Phases want, got;
    for (int c = 0; c < N_COUNTS; c++) {
        for (int kind = 0; kind < 2; kind++) {
            Phases *phases = kind ? &got : &want;
            *phases =
                (Phases){.workers = workers_create(kind ? worker_counts[c] : 1), .n_phases = 301};
            for (int i = 0; i < N_CELLS; i++) phases->cells[0][i] = (unsigned long)i;
            workers_run(phases->workers, workers_count(phases->workers), phases_step, phases);
            workers_run(phases->workers, workers_count(phases->workers), phases_step, phases);
            workers_destroy(phases->workers);
        }
        assert_memory_equal(got.cells, want.cells, sizeof want.cells);
    }
}

enum { N_TILES = 1000 };
typedef struct Tiles {
    TileCounter counter;
    long portion;
    int slow_worker;
    atomic_long taken[N_TILES], by_worker[MAX_WORKERS];
} Tiles;

static void tiles_step(void *arg, int worker, int n_workers) {
    (void)n_workers;
    Tiles *tiles = arg;
    for (long first, end; (first = tile_take(&tiles->counter, N_TILES, tiles->portion, &end)) >= 0;) {
        if (worker == tiles->slow_worker) usleep(30000);
        for (long t = first; t < end; t++) {
            atomic_fetch_add(&tiles->taken[t], 1);
            atomic_fetch_add(&tiles->by_worker[worker], 1);
            usleep(worker == tiles->slow_worker ? 0 : 5);
        }
    }
}

static void each_tile_is_taken_once(void **state) {
    (void)state;
    static const long grains[] = {1, 3, 64, 999, 1000, 5000};
    static Tiles tiles;
    long end;
    for (int c = 0; c < N_COUNTS; c++) {
        Workers *workers = workers_create(worker_counts[c]);
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            memset(&tiles, 0, sizeof tiles);
            tiles.portion = grains[g];
            tiles.slow_worker = -1;
            workers_run(workers, workers_count(workers), tiles_step, &tiles);
            for (int t = 0; t < N_TILES; t++) assert_int_equal(tiles.taken[t], 1);
            assert_int_equal(tile_take(&tiles.counter, N_TILES, 1, &end), -1);
        }
        workers_destroy(workers);
    }
    TileCounter empty = {0};
    assert_int_equal(tile_take(&empty, 0, 1, &end), -1);
}

// Each of the portion's size, but the last.
static void portions_are_equal(void **state) {
    (void)state;
    TileCounter counter = {0};
    for (long first = 0, end = 0; first < 100; first += 3) {
        assert_int_equal(tile_take(&counter, 100, 3, &end), first);
        assert_int_equal(end, first < 99 ? first + 3 : 100);
    }
    long end;
    assert_int_equal(tile_take(&counter, 100, 3, &end), -1);
}

// A worker whose core was taken away does few tiles; the others do the rest meanwhile.
static void slow_worker_costs_its_share(void **state) {
    (void)state;
    static Tiles tiles;
    Workers *workers = workers_create(3);
    tiles.portion = 1;
    tiles.slow_worker = 1;
    workers_run(workers, workers_count(workers), tiles_step, &tiles);
    workers_destroy(workers);
    for (int t = 0; t < N_TILES; t++) assert_int_equal(tiles.taken[t], 1);
    assert_true(tiles.by_worker[1] < N_TILES / 5);
}

// ---- targets ----

static const CpuidRegisters *fake_leaf_1, *fake_leaf_7, *fake_leaf_7_1;

static CpuidRegisters fake_read(uint32_t leaf, uint32_t subleaf) {
    const CpuidRegisters *r = leaf == 1   ? fake_leaf_1
                              : leaf == 7 ? (subleaf ? fake_leaf_7_1 : fake_leaf_7)
                                          : NULL;
    return r ? *r : (CpuidRegisters){0};
}

static bool has(uint64_t features, CpuFeature feature) {
    return features >> feature & 1;
}

static void features_need_the_system_too(void **state) {
    (void)state;
    const CpuidRegisters all = {~0u, ~0u, ~0u, ~0u};
    fake_leaf_1 = fake_leaf_7 = fake_leaf_7_1 = &all;
    uint64_t none = cpu_features_of(fake_read, 0x00, 0), ymm = cpu_features_of(fake_read, 0x07, 0);
    uint64_t part = cpu_features_of(fake_read, 0x27, 0), zmm = cpu_features_of(fake_read, 0xE7, 0);
    assert_true(has(none, CPU_SSE42));
    assert_false(has(none, CPU_AVX) || has(none, CPU_AVX2) || has(none, CPU_FMA) ||
                 has(none, CPU_F16C));
    assert_true(has(ymm, CPU_AVX) && has(ymm, CPU_AVX2) && has(ymm, CPU_FMA) &&
                has(ymm, CPU_AVXVNNI));
    assert_false(has(ymm, CPU_AVX512F) || has(ymm, CPU_AVX512VNNI) || has(part, CPU_AVX512F));
    assert_true(has(zmm, CPU_AVX512F) && has(zmm, CPU_AVX512BW) && has(zmm, CPU_AVX512VL) &&
                has(zmm, CPU_AVX512DQ) && has(zmm, CPU_AVX512VBMI) && has(zmm, CPU_AVX512VNNI));
    assert_false(has(zmm, CPU_NEON) || has(zmm, CPU_DOTPROD));
    fake_leaf_1 = fake_leaf_7 = fake_leaf_7_1 = NULL;
    assert_true(cpu_features_of(fake_read, 0xE7, 0) == 0);
    assert_true(has(cpu_features_of(fake_read, 0, 1u << 1), CPU_NEON));
    assert_true(has(cpu_features_of(fake_read, 0, 1u << 20), CPU_DOTPROD));
    assert_string_equal(cpu_features_text(arena, 0), "");
    assert_string_equal(
        cpu_features_text(arena, (uint64_t)1 << CPU_SSE42 | (uint64_t)1 << CPU_AVX2),
        "sse4.2 avx2");
}

// The flags that /proc/cpuinfo shows come from the kernel's own reading of the same registers.
static void features_agree_with_the_kernel(void **state) {
    (void)state;
    static const struct { const char *word; CpuFeature feature; } rows[] = {
        {" sse4_2 ", CPU_SSE42},
        {" fma ", CPU_FMA},
        {" avx ", CPU_AVX},
        {" f16c ", CPU_F16C},
        {" avx2 ", CPU_AVX2},
        {" avx512f ", CPU_AVX512F},
        {" avx512dq ", CPU_AVX512DQ},
        {" avx512bw ", CPU_AVX512BW},
        {" avx512vl ", CPU_AVX512VL},
        {" avx512vbmi ", CPU_AVX512VBMI},
        {" avx512_vnni ", CPU_AVX512VNNI},
        {" gfni ", CPU_GFNI},
        {" avx_vnni ", CPU_AVXVNNI},
        {" clzero ", CPU_CLZERO},
    };
    Text text;
    Error err;
    const char *flags =
        file_read(arena, "/proc/cpuinfo", &text, &err) ? strstr(text.at, "\nflags") : NULL;
    if (!flags || strcmp(cpu_architecture(), "x86-64") != 0) {
        print_message("skipped: /proc/cpuinfo has no x86 flags\n");
        skip();
    }
    const char *line = arena_printf(arena, "%.*s ", (int)strcspn(flags + 1, "\n"), flags + 1);
    uint64_t features = cpu_features();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (has(features, rows[i].feature) != (strstr(line, rows[i].word) != NULL))
            fail_msg("%s", rows[i].word);
}

static void targets_are_chosen_and_refused(void **state) {
    (void)state;
    Error err = {0};
    Target target;
    bool is_x86 = strcmp(cpu_architecture(), "x86-64") == 0;
    const char *best = NULL;
    for (int row = 0; row < cpu_target_count(); row++) {
        const char *name = cpu_target_name(row);
        bool is_native = strcmp(cpu_target_architecture(row), cpu_architecture()) == 0;
        uint64_t needs = cpu_target_needs(row);
        assert_int_equal(cpu_target_describe(&target, name, needs, &err), is_native);
        if (!is_native) continue;
        assert_string_equal(target.name, name);
        assert_true(target.vector_bytes >= 16 && target.n_vector_registers >= 16 &&
                    target.max_load_bytes >= 16);
        assert_true(target.unaligned_loads && target.group_threads == 0 && target.local_bytes > 0);
        assert_null(strstr(target.cc_flags, "native"));
        if (needs) {
            // Without one of the features: an error that names it.
            uint64_t lowest = needs & (~needs + 1);
            assert_false(cpu_target_describe(&target, name, needs & ~lowest, &err));
            assert_int_equal(err.code, LATHE_UNSUPPORTED);
            assert_non_null(strstr(err.text, cpu_features_text(arena, lowest)));
        }
        if (!(needs & ~cpu_features())) best = name;
    }
    assert_true(cpu_target_describe(&target, NULL, cpu_features(), &err));
    assert_string_equal(target.name, best);
    assert_true(cpu_target_describe(&target, "native", 0, &err));
    if (is_x86) assert_string_equal(target.name, "sse2");
    assert_false(cpu_target_describe(&target, "avx3", ~(uint64_t)0, &err));
    assert_int_equal(err.code, LATHE_BAD_REQUEST);
    assert_non_null(strstr(err.text, "avx512vnni"));
    assert_false(cpu_target_describe(&target, "", ~(uint64_t)0, &err));
    assert_true(cpu_target_find(&target, "avx512vnni", &err) && target.vector_bytes == 64 &&
                target.dot == DOT_U8I8);
    assert_true(cpu_target_find(&target, "dotprod", &err) && target.dot == DOT_I8I8);
    assert_true(cpu_target_find(&target, "avx2", &err) && target.vector_bytes == 32 &&
                target.dot == DOT_PAIRS);
    assert_true(cpu_target_find(&target, NULL, &err));
    assert_false(cpu_target_find(&target, "quantum", &err));
}

// ---- the cpu device ----

static const Device *cpu = &cpu_device;

static DeviceState *device_opened(const Device *device, const char *target, int threads) {
    Error err = {0};
    DeviceState *state = NULL;
    if (!device->open(&state, target, threads, &err)) fail_msg("%s", err.text);
    return state;
}

static void memory_is_zeroed_aligned_and_readable_behind(void **state) {
    (void)state;
    static const size_t sizes[] = {
        0, 1, 63, 64, 4096, 100000, (size_t)1 << 20, ((size_t)5 << 20) + 3};
    const Device *both[] = {&cpu_device, &null_device};
    for (int d = 0; d < 2; d++) {
        DeviceState *device = device_opened(both[d], NULL, 1);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            uint8_t *at = both[d]->alloc(device, sizes[i]);
            assert_non_null(at);
            assert_int_equal((uintptr_t)at % 64, 0);
            for (size_t k = 0; k < sizes[i] + 64; k++)
                if (at[k]) fail_msg("byte %zu is not zero", k);
            uint8_t in[64], out[64];
            memset(in, 0xA5, sizeof in);
            size_t n = sizes[i] < sizeof in ? sizes[i] : sizeof in;
            both[d]->upload(device, at, in, n);
            both[d]->download(device, out, at, n);
            assert_memory_equal(in, out, n);
            both[d]->release(device, at, sizes[i]);
        }
        assert_null(both[d]->alloc(device, SIZE_MAX));
        assert_null(both[d]->alloc(device, SIZE_MAX - 3));
        assert_null(both[d]->alloc(device, SIZE_MAX - 63));
        both[d]->release(device, NULL, 10);
        both[d]->close(device);
    }
}

// Each target that this machine can run.
static void kernels_run_for_each_target(void **state) {
    (void)state;
    static const char text[] =
        "typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));\n"
        "void scale(void *const *params, long first, long end, void *later) {\n"
        "    for (long t = first; t < end; t++)\n"
        "        ((vec *)params[0])[t] = ((const vec *)params[1])[t] * 3.0f + 1.0f;\n"
        "}\n";
    int n_run = 0;
    for (int row = 0; row < cpu_target_count(); row++) {
        if (strcmp(cpu_target_architecture(row), cpu_architecture()) != 0) continue;
        Error err = {0};
        DeviceState *device;
        bool can_run = (cpu_target_needs(row) & ~cpu_features()) == 0;
        assert_int_equal(cpu->open(&device, cpu_target_name(row), 2, &err), can_run);
        if (!can_run) continue;
        n_run++;
        KernelSource source = {.name = "scale", .text = text, .n_params = 2};
        Program *program;
        if (!cpu->compile(device, &source, 1, &program, &err)) fail_msg("%s", err.text);
        enum { N = 80 };
        float *in = cpu->alloc(device, N * sizeof *in), *out = cpu->alloc(device, N * sizeof *out);
        for (int i = 0; i < N; i++) in[i] = (float)i;
        Stage stage = {
            .program = program, .params = (void *const[]){out, in}, .tiles = N / 8};
        assert_true(cpu->run(device, &stage, 1, NULL, &err));
        for (int i = 0; i < N; i++) assert_true(out[i] == (float)(3 * i + 1));
        Target target;
        cpu->describe_target(device, &target);
        assert_string_equal(target.name, cpu_target_name(row));
        cpu->unload(device, program);
        cpu->unload(device, NULL);
        cpu->release(device, in, N * sizeof *in);
        cpu->release(device, out, N * sizeof *out);
        cpu->close(device);
    }
    assert_true(n_run > 0);
}

// Loading runs nothing, so this needs no CPU that has the features.
static void compiler_knows_the_flags_of_each_target(void **state) {
    (void)state;
    for (int row = 0; row < cpu_target_count(); row++) {
        if (strcmp(cpu_target_architecture(row), cpu_architecture()) != 0) continue;
        Error err = {0};
        Target target;
        ObjectCache *cache;
        ObjectSource source = {"f", "float f(float x) { return x * 2; }\n"};
        void *library;
        assert_true(cpu_target_find(&target, cpu_target_name(row), &err));
        assert_true(object_cache_open(&cache, target.cc_flags, &err));
        if (!object_cache_load(cache, &source, 1, 1, &library, &err)) fail_msg("%s", err.text);
        library_close(library);
        object_cache_close(cache);
    }
}

static void open_refuses_nonsense(void **state) {
    (void)state;
    Error err = {0};
    DeviceState *device;
    assert_false(cpu->open(&device, NULL, -1, &err));
    assert_false(cpu->open(&device, NULL, 1000000, &err));
    assert_int_equal(err.code, LATHE_BAD_REQUEST);
    assert_false(cpu->open(&device, "no-such-target", 1, &err));
    assert_null(device);
    assert_false(null_device.open(&device, "no-such-target", 1, &err));
    assert_true(strstr(err.text, "no-such-target") && strstr(err.text, "avx512vnni") && strstr(err.text, "sm_90a"));
    assert_false(null_device.open(&device, NULL, -5, &err));
    setting_override(SETTING_THREADS, "3");
    device = device_opened(cpu, NULL, 0);
    assert_int_equal(cpu->threads(device), 3);
    cpu->close(device);
    setting_override(SETTING_THREADS, "-2");
    assert_false(cpu->open(&device, NULL, 0, &err));
    setting_override(SETTING_THREADS, NULL);
    device = device_opened(cpu, NULL, 0);
    assert_int_equal(cpu->threads(device), cpu_count());
    cpu->close(device);
    cpu->close(NULL);
    // A kernel whose text lacks the function that its name promises.
    device = device_opened(cpu, NULL, 1);
    KernelSource sources[] = {
        {.name = "here", .text = "void here(void *const *p, long a, long b, void *later) {}\n"},
        {.name = "promised", .text = "void other(void *const *p, long a, long b, void *later) {}\n"}};
    Program *programs[2];
    assert_false(cpu->compile(device, sources, 2, programs, &err));
    assert_non_null(strstr(err.text, "promised"));
    assert_null(programs[0]);
    assert_null(programs[1]);
    cpu->close(device);
}

// The null device renders for any row, in its own dialect.
static void gpu_targets_need_no_card(void **state) {
    (void)state;
    static const char *const names[] = {"opencl12", "opencl12-groups", "sm_80", "sm_90a", "metal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const GpuTarget *row = gpu_target_find(names[i]);
        Error err = {0};
        Target target;
        DeviceState *device;
        assert_non_null(row);
        if (!null_device.open(&device, names[i], 1, &err)) fail_msg("%s", err.text);
        null_device.describe_target(device, &target);
        assert_string_equal(target.name, names[i]);
        assert_ptr_equal(null_device.dialect_of(device), row->dialect);
        assert_int_equal(target.group_threads, row->group_threads);
        assert_true(target.group_threads == 0 || target.tiles.most > 0);
        null_device.close(device);
    }
    assert_null(gpu_target_find("sm_1"));
}

static void buffers_have_numbers_and_offsets(void **state) {
    (void)state;
    enum { N = 200 };
    BufferNumbers numbers = {0};
    char objects[N], *at[N];
    for (int i = 0; i < N; i++) {
        at[i] = buffer_numbers_add(&numbers, &objects[i]);
        assert_non_null(at[i]);
        assert_int_equal(buffer_numbers_offset(at[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(buffer_numbers_object(&numbers, at[i] + 77), &objects[i]);
        assert_int_equal(buffer_numbers_offset(at[i] + 77), 77);
    }
    for (int i = 0; i < N; i += 2) assert_ptr_equal(buffer_numbers_remove(&numbers, at[i]), &objects[i]);
    for (int i = 0; i < N; i += 2) at[i] = buffer_numbers_add(&numbers, &objects[i]);   // the same numbers again, in any order
    assert_int_equal(numbers.n, N);
    for (int i = 0; i < N; i++) assert_ptr_equal(buffer_numbers_object(&numbers, at[i]), &objects[i]);
    buffer_numbers_free(&numbers);
}

// A random step over a few buffers: stage s mixes two of them into a third; one that touches what
// an earlier stage since the last barrier wrote has needs_barrier. One worker's result is what all
// must give.
enum { N_BUFFERS = 6, N_STAGES = 60, CELLS_PER_TILE = 5, MAX_TILES = 40 };

static const char mix_text[] =
    "#define KERNEL(name, salt) \\\n"
    "void name(void *const *params, long first, long end, void *later) { \\\n"
    "    unsigned *to = params[0]; const unsigned *a = params[1], *b = params[2]; \\\n"
    "    long n = *(const long *)params[3]; \\\n"
    "    for (long i = first * 5; i < end * 5; i++) \\\n"
    "        to[i] = a[(i * 7 + salt) % n] * 31u + b[i] + salt; \\\n"
    "}\n";

typedef struct MixStep {
    unsigned *buffers[N_BUFFERS];
    long n_cells;
    void *params[N_STAGES][4];
    Stage stages[N_STAGES];
} MixStep;

static void mix_build(MixStep *step, Program *const *programs, const Device *device,
                      DeviceState *opened) {
    step->n_cells = MAX_TILES * CELLS_PER_TILE;
    for (int b = 0; b < N_BUFFERS; b++)
        step->buffers[b] = device->alloc(opened, (size_t)step->n_cells * sizeof(unsigned));
    unsigned seed = 12345;
    bool dirty[N_BUFFERS] = {false}, read[N_BUFFERS] = {false};
    for (int s = 0; s < N_STAGES; s++) {
        int chosen[3];
        for (int k = 0; k < 3; k++)
            chosen[k] = (int)((seed = seed * 1664525u + 1013904223u) >> 16) % N_BUFFERS;
        // In place is allowed only for the cell itself, which is operand b.
        if (chosen[0] == chosen[1]) chosen[0] = (chosen[0] + 1) % N_BUFFERS;
        bool meets = dirty[chosen[0]] || dirty[chosen[1]] || dirty[chosen[2]] || read[chosen[0]];
        if (meets) memset(dirty, 0, sizeof dirty), memset(read, 0, sizeof read);
        dirty[chosen[0]] = read[chosen[1]] = read[chosen[2]] = true;
        for (int k = 0; k < 3; k++) step->params[s][k] = step->buffers[chosen[k]];
        step->params[s][3] = &step->n_cells;
        step->stages[s] = (Stage){.program = programs[s % 3],
                                  .params = step->params[s],
                                  .needs_barrier = meets,
                                  .tiles = 1 + (long)(seed >> 8) % MAX_TILES};
    }
}

static void mix_reset(MixStep *step) {
    for (int b = 0; b < N_BUFFERS; b++)
        for (long i = 0; i < step->n_cells; i++) step->buffers[b][i] = (unsigned)(b * 1000 + i);
}

static void steps_give_the_same_for_any_workers(void **state) {
    (void)state;
    enum { ROUNDS = 200 };
    static unsigned want[N_BUFFERS][MAX_TILES * CELLS_PER_TILE];
    KernelSource sources[3];
    for (int k = 0; k < 3; k++)
        sources[k] = (KernelSource){
            .name = arena_printf(arena, "mix%d", k),
            .n_params = 4,
            .text = arena_printf(arena, "%sKERNEL(mix%d, %d)\n", mix_text, k, k * 11 + 1)};
    for (int c = 0; c < N_COUNTS; c++) {
        Error err = {0};
        static MixStep step;
        DeviceState *device = device_opened(cpu, NULL, worker_counts[c]);
        Program *programs[3];
        if (!cpu->compile(device, sources, 3, programs, &err)) fail_msg("%s", err.text);
        mix_build(&step, programs, cpu, device);
        for (int round = 0; round < ROUNDS; round++) {
            // Timed steps run their stages one by one and must give the same, too.
            uint64_t stage_us[N_STAGES];
            StepStats stats = {round % 10 == 9 ? stage_us : NULL};
            mix_reset(&step);
            assert_true(cpu->run(device, step.stages, N_STAGES, &stats, &err));
            for (int b = 0; b < N_BUFFERS; b++) {
                if (c == 0 && round == 0) memcpy(want[b], step.buffers[b], sizeof want[b]);
                if (memcmp(want[b], step.buffers[b], sizeof want[b]) != 0)
                    fail_msg("%d workers, round %d: buffer %d", worker_counts[c], round, b);
            }
        }
        for (int k = 0; k < 3; k++) cpu->unload(device, programs[k]);
        for (int b = 0; b < N_BUFFERS; b++)
            cpu->release(device, step.buffers[b], (size_t)step.n_cells * sizeof(unsigned));
        cpu->close(device);
    }
}

static void repeated_steps_allocate_nothing(void **state) {
    (void)state;
    Error err = {0};
    DeviceState *device = device_opened(cpu, NULL, 3);
    KernelSource source = {.name = "add",
                           .n_params = 1,
                           .text = "void add(void *const *p, long a, long b, void *later) { for (; a < b; a++) "
                                   "((long *)p[0])[a]++; }\n"};
    Program *program;
    if (!cpu->compile(device, &source, 1, &program, &err)) fail_msg("%s", err.text);
    long cells[16] = {0};
    void *const params[] = {cells};
    Stage stages[8];
    for (int s = 0; s < 8; s++)
        stages[s] = (Stage){
            .program = program, .params = params, .tiles = 16, .needs_barrier = true};
    assert_true(cpu->run(device, stages, 8, NULL, &err));
    struct mallinfo2 before = mallinfo2();
    for (int round = 0; round < 1000; round++) assert_true(cpu->run(device, stages, 8, NULL, &err));
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(after.uordblks, before.uordblks);
    for (int i = 0; i < 16; i++) assert_int_equal(cells[i], 8 * 1001);
    assert_true(cpu->run(device, stages, 0, NULL, &err));
    cpu->unload(device, program);
    cpu->close(device);
}

// A stage in which one tile is held up: the others finish the rest, and the next stage waits for
// that tile.
static void held_tile_holds_only_what_needs_it(void **state) {
    (void)state;
    Error err = {0};
    DeviceState *device = device_opened(cpu, NULL, 3);
    KernelSource sources[] = {
        {.name = "slow",
         .n_params = 1,
         .text = "int usleep(unsigned);\n"
                 "void slow(void *const *p, long a, long b, void *later) {\n"
                 "    for (; a < b; a++) { if (a == 0) usleep(20000); ((int *)p[0])[a] = 1; } }\n"},
        {.name = "total",
         .n_params = 2,
         .text = "void total(void *const *p, long a, long b, void *later) {\n"
                 "    for (; a < b; a++) { int n = 0; for (int i = 0; i < 64; i++) n += ((int "
                 "*)p[0])[i];\n"
                 "        ((int *)p[1])[a] = n; } }\n"}};
    Program *programs[2];
    if (!cpu->compile(device, sources, 2, programs, &err)) fail_msg("%s", err.text);
    for (int round = 0; round < 5; round++) {
        int flags[64] = {0}, totals[8] = {0};
        Stage stages[] = {
            {.program = programs[0], .params = (void *const[]){flags}, .tiles = 64},
            {.program = programs[1],
             .params = (void *const[]){flags, totals},
             .tiles = 8,
             .needs_barrier = true}};
        assert_true(cpu->run(device, stages, 2, NULL, &err));
        for (int i = 0; i < 8; i++) assert_int_equal(totals[i], 64);
    }
    for (int k = 0; k < 2; k++) cpu->unload(device, programs[k]);
    cpu->close(device);
}

// ---- the null device and the registry ----

static void null_device_runs_nothing(void **state) {
    (void)state;
    const Device *null = &null_device;
    Error err = {0};
    for (int row = 0; row < cpu_target_count(); row++) {
        DeviceState *device = device_opened(null, cpu_target_name(row), 0);
        Target target;
        null->describe_target(device, &target);
        assert_string_equal(target.name, cpu_target_name(row));
        assert_int_equal(null->threads(device), cpu_count());
        KernelSource sources[] = {{.name = "k", .text = "not even C"}, {.name = "textless"}};
        Program *programs[2];
        assert_true(null->compile(device, sources, 1, programs, &err));
        long cell = 5;
        Stage stage = {
            .program = programs[0], .params = (void *const[]){&cell}, .tiles = 1};
        uint64_t stage_us = 7;
        assert_true(null->run(device, &stage, 1, &(StepStats){&stage_us}, &err));
        assert_int_equal(stage_us, 0);
        assert_int_equal(cell, 5);
        null->unload(device, programs[0]);
        assert_false(null->compile(device, sources, 2, programs, &err));
        assert_null(programs[0]);
        null->close(device);
    }
    null->close(NULL);
}

static void registry_lists_complete_devices(void **state) {
    (void)state;
    int n = 0;
    for (; devices[n]; n++) {
        const Device *d = devices[n];
        assert_ptr_equal(device_find(d->name), d);
        assert_true(d->dialect && d->open && d->close && d->describe_target && d->threads);
        assert_true(d->alloc && d->release && d->upload && d->download);
        assert_true(d->compile && d->unload && d->run);
    }
    assert_true(n >= 4);
    assert_ptr_equal(devices[0], &cpu_device);
    assert_ptr_equal(device_find("null"), &null_device);
    assert_ptr_equal(device_find("eval"), &eval_device);
    assert_ptr_equal(device_find("opencl"), &opencl_device);
    assert_null(device_find("abacus"));
    assert_null(device_find(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_runs_once), cmocka_unit_test(only_the_first_workers_of_a_step_run),
        cmocka_unit_test(times_tell_work_from_waiting),
        cmocka_unit_test(barriers_order_phases),
        cmocka_unit_test(each_tile_is_taken_once), cmocka_unit_test(portions_are_equal),
        cmocka_unit_test(slow_worker_costs_its_share),
        cmocka_unit_test(features_need_the_system_too),
        cmocka_unit_test(features_agree_with_the_kernel),
        cmocka_unit_test(targets_are_chosen_and_refused),
        cmocka_unit_test(memory_is_zeroed_aligned_and_readable_behind),
        cmocka_unit_test(kernels_run_for_each_target),
        cmocka_unit_test(compiler_knows_the_flags_of_each_target),
        cmocka_unit_test(open_refuses_nonsense),
        cmocka_unit_test(steps_give_the_same_for_any_workers),
        cmocka_unit_test(repeated_steps_allocate_nothing),
        cmocka_unit_test(held_tile_holds_only_what_needs_it),
        cmocka_unit_test(null_device_runs_nothing),
        cmocka_unit_test(gpu_targets_need_no_card),
        cmocka_unit_test(buffers_have_numbers_and_offsets),
        cmocka_unit_test(registry_lists_complete_devices),
    };
    return cmocka_run_group_tests_name("runtime", tests, group_setup, group_teardown);
}

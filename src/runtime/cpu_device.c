// cpu_device: C texts, compiled by the system's compiler, run by a pool of workers on host memory.
// In: a table of stages. Out: every tile has run, and none before the barriers ahead of its stage.
// Invariant: workers meet at counters of finished tiles, not at each other: one that lost its core
// is waited for only while it holds tiles; where this goes on, workers leave their cores between tiles,
// or fewer take part (active_workers). A step that was run before allocates nothing.
// Example: {A: 8 tiles}, {B: 8 tiles, needs_barrier}: B's first tile begins after A's last has ended
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "base/settings.h"
#include "runtime/active_workers.h"
#include "runtime/cpu_target.h"
#include "runtime/device.h"
#include "runtime/devices.h"
#include "runtime/host_memory.h"
#include "runtime/later.h"
#include "runtime/object_cache.h"
#include "runtime/tile_blocks.h"
#include "runtime/workers.h"

struct DeviceState {
    Target target;
    Workers *workers;
    ActiveWorkers active;      // of them
    ObjectCache *cache;
    TileBlock *blocks;         // one a worker
    size_t ahead_bytes;        // how far ahead of the stages memory is asked for
    TileCounter done;          // tiles finished in the running step
};

enum { MOST_AHEAD = 16 << 20, LINE_BYTES = 64 };   // of memory that is asked for: half of what cores share, but no more than this

struct Program {
    void *library;
    CpuKernel kernel;
    long asks;                 // lines for later kernels, a tile at most
};

// ---- opening ----

static bool threads_choose(int threads, int *out, Error *err) {
    long n = threads ? threads : setting_int(SETTING_THREADS);
    if (n == 0) n = cpu_count();
    if (n < 1 || n > WORKERS_MAX)
        return fail(err, LATHE_BAD_REQUEST, "%ld threads: choose 1 to %d, or 0 for all CPUs", n,
                    WORKERS_MAX);
    *out = (int)n;
    return true;
}

static void cpu_close(DeviceState *state) {
    if (!state) return;
    workers_destroy(state->workers);
    object_cache_close(state->cache);
    free(state->blocks);
    free(state);
}

static bool cpu_set_threads(DeviceState *state, int threads, Error *err) {
    TRY(threads_choose(threads, &threads, err));
    TileBlock *blocks = aligned_alloc(_Alignof(TileBlock), (size_t)threads * sizeof *blocks);
    Workers *workers = blocks ? workers_create(threads) : NULL;
    if (!workers) {
        free(blocks);
        return fail(err, LATHE_NO_MEMORY, "cannot start %d threads; choose fewer with --threads", threads);
    }
    workers_destroy(state->workers);
    free(state->blocks);
    state->workers = workers;
    state->blocks = blocks;
    state->active = active_workers(threads);
    return true;
}

static bool cpu_open(DeviceState **out, const char *target_name, int threads, Error *err) {
    Target target;
    *out = NULL;
    TRY(cpu_target_describe(&target, target_name, cpu_features(), err));
    DeviceState *state = aligned_alloc(_Alignof(DeviceState), sizeof *state);
    if (!state) return fail(err, LATHE_NO_MEMORY, "no memory for the cpu device");
    memset(state, 0, sizeof *state);
    state->target = target;
    state->ahead_bytes = shared_cache_bytes() / 2;
    if (state->ahead_bytes > MOST_AHEAD) state->ahead_bytes = MOST_AHEAD;
    if (!object_cache_open(&state->cache, target.cc_flags, err)) {
        cpu_close(state);
        return false;
    }
    if (!cpu_set_threads(state, threads, err)) {
        cpu_close(state);
        return false;
    }
    *out = state;
    return true;
}

static void cpu_describe_target(const DeviceState *state, Target *target) {
    *target = state->target;
}

static int cpu_threads(const DeviceState *state) {
    return workers_count(state->workers);
}

// ---- programs ----

static void cpu_unload(DeviceState *state, Program *program) {
    (void)state;
    if (!program) return;
    library_close(program->library);
    free(program);
}

static bool program_create(const KernelSource *source, void *library, Program **out, Error *err) {
    void *symbol = library_symbol(library, source->name);
    if (!symbol)
        return fail(err, LATHE_COMPILE, "kernel %s: its object has no function of this name",
                    source->name);
    Program *program = malloc(sizeof *program);
    if (!program) return fail(err, LATHE_NO_MEMORY, "no memory for kernel %s", source->name);
    program->library = library;
    // ISO C has no cast from an object pointer to a function; POSIX's dlsym needs one.
    memcpy(&program->kernel, &symbol, sizeof symbol);
    char name[128];
    snprintf(name, sizeof name, "%s_asks", source->name);
    const long *asks = library_symbol(library, name);
    program->asks = asks ? *asks : 0;
    *out = program;
    return true;
}

static bool cpu_compile(DeviceState *state, const KernelSource *sources, int n, Program **programs,
                        Error *err) {
    Arena *arena = arena_create();
    ObjectSource *texts = arena_new(arena, (size_t)n * sizeof *texts);
    void **libraries = arena_new(arena, (size_t)n * sizeof *libraries);
    for (int i = 0; i < n; i++) {
        texts[i] = (ObjectSource){sources[i].name, sources[i].text};
        programs[i] = NULL;
    }
    bool ok = object_cache_load(state->cache, texts, n, cpu_count(), libraries, err);
    for (int i = 0; ok && i < n; i++) {
        ok = program_create(&sources[i], libraries[i], &programs[i], err);
        if (ok) libraries[i] = NULL;   // the program owns it now
    }
    for (int i = 0; !ok && i < n; i++) {
        library_close(libraries[i]);
        cpu_unload(state, programs[i]);
        programs[i] = NULL;
    }
    arena_destroy(arena);
    return ok;
}

// ---- running ----

typedef struct StepRun {
    DeviceState *state;
    Stages stages;
} StepRun;

// Adds a worker's finished tiles to those of all. Returns how many there are; -1: it had none.
static long tiles_count(DeviceState *state, long *finished) {
    long own = *finished;
    *finished = 0;
    return own ? atomic_fetch_add(&state->done.next, own) + own : -1;
}

// Whoever completes the `all` tiles so far lets the others go on.
static void tiles_finish(DeviceState *state, long *finished, long all) {
    if (tiles_count(state, finished) == all) workers_signal(state->workers);
}

// Runs tiles of a stage that asks for what later ones read, as many together as can ask for what is left of a piece. If they asked for
// nothing, they had nothing to do, and nor have those behind them.
static void tiles_run_asking(const StepRun *run, int s, int worker, int n_workers, long first, long end, Later *later) {
    const Stage *stage = &run->stages.at[s];
    ptrdiff_t of_tile = stage->program->asks * LINE_BYTES;
    while (first < end) {
        later_refill(later, &run->stages, s, worker, n_workers);
        const char *at = later->piece.at;
        ptrdiff_t left = later->piece.end - at, tiles = left == 0 ? end - first : left < of_tile ? 1 : left / of_tile;
        long next = tiles < end - first ? first + tiles : end;
        stage->program->kernel(stage->params, first, next, &later->piece);
        if (later->piece.at == at && next < end) stage->program->kernel(stage->params, next, end, &later->piece), next = end;
        first = next;
    }
}

// Between two takings of tiles, where the worker has had its core for a while: leaves it to whoever waits for it, holding nothing that
// others wait for. Schedulers take a core away at ticks of some milliseconds, which come less often to who leaves it before.
static void give_way(DeviceState *state, long *finished, uint64_t *turn_ends) {
    enum { TURN_US = 500 };
    if (time_us() < *turn_ends) return;
    if (tiles_count(state, finished) >= 0) workers_signal(state->workers);   // any of them may have been the last that others wait for
    thread_give_way();
    *turn_ends = time_us() + TURN_US;
}

static void stages_work(void *arg, int worker, int n_workers) {
    const StepRun *run = arg;
    DeviceState *state = run->state;
    long before = 0, finished = 0; // tiles of the stages before this one; own tiles not yet counted
    Later later = {0};
    bool gives_way = state->active.plan.gives_way && n_workers > 1;   // what one alone holds hinders nobody
    uint64_t turn_ends = 0;
    for (int s = 0; s < run->stages.n; s++) {
        const Stage *stage = &run->stages.at[s];
        if (stage->needs_barrier) {
            tiles_finish(state, &finished, before);
            workers_wait(state->workers, worker, &state->done.next, before);
        }
        for (long first, end;;) {
            if (gives_way) give_way(state, &finished, &turn_ends);
            first = tile_blocks_take(state->blocks, worker, n_workers, s, stage->tiles, &end);
            if (first < 0) break;
            if (stage->program->asks) tiles_run_asking(run, s, worker, n_workers, first, end, &later);
            else stage->program->kernel(stage->params, first, end, &later.piece);
            finished += end - first;
        }
        before += stage->tiles;
    }
    tiles_finish(state, &finished, before);
}

static void stages_run(DeviceState *state, const Stage *stages, int n_stages) {
    tile_blocks_reset(state->blocks, state->active.plan.n);
    atomic_init(&state->done.next, 0);
    StepRun run = {state, {stages, n_stages, state->ahead_bytes}};
    WorkerTimes times = workers_run(state->workers, state->active.plan.n, stages_work, &run);
    active_workers_note(&state->active, &times, time_us());
}

static bool cpu_run(DeviceState *state, const Stage *stages, int n_stages, StepStats *stats,
                    Error *err) {
    if (n_stages > TILE_STAGES_MAX) return fail(err, LATHE_BAD_REQUEST, "a step of %d stages is too long: %d are the most", n_stages, TILE_STAGES_MAX);
    if (!stats || !stats->stage_us) {
        stages_run(state, stages, n_stages);
        return true;
    }
    for (int s = 0; s < n_stages; s++) {
        uint64_t start = time_us();
        stages_run(state, &stages[s], 1);
        stats->stage_us[s] = time_us() - start;
    }
    return true;
}

const Device cpu_device = {
    .name = "cpu",
    .dialect = &c_dialect,
    .open = cpu_open,
    .close = cpu_close,
    .describe_target = cpu_describe_target,
    .threads = cpu_threads,
    .set_threads = cpu_set_threads,
    .alloc = host_alloc,
    .release = host_release,
    .upload = host_copy,
    .download = host_copy,
    .has_host_memory = true,
    .compiles_beside_runs = true,
    .compile = cpu_compile,
    .unload = cpu_unload,
    .run = cpu_run,
};

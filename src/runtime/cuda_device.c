// cuda_device: kernels in CUDA C++ on an NVIDIA card, through the driver's own interface.
// In: a table of stages. Out: every tile has run. A table that is run again is a captured graph: one launch a step.
// Invariant: all work goes through one stream, so that copies and steps stay in their order.
// Example: run(stages, 430) → 430 launches captured; run again → cuGraphLaunch
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/parallel.h"
#include "runtime/cuda_programs.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"

enum { READABLE_BEHIND = 64, MOST_GRAPHS = 64 };
enum { STAGING_BYTES = 32 << 20, N_STAGING = 2, SMALL_BYTES = 1 << 16, COPY_THREADS = 8, LINE_BYTES = 64, ALONE_BYTES = 4 << 20 };
static const char OLDEST_TARGET[] = "sm_80";

// A step's launches as one graph: known again by where its table is.
typedef struct KeptGraph { const Stage *stages; int n_stages; CudaGraphExec exec; uint64_t used; } KeptGraph;
typedef struct Staging { void *at; CudaEvent is_free; } Staging;

struct DeviceState {
    Arena *arena;
    CudaApi api;
    CudaDeviceId device;
    CudaContext context;
    CudaStream stream;
    pthread_mutex_t recording;           // of a graph: what another thread asks of the stream meanwhile would become a part of it
    CudaEvent before, after;
    CudaPrograms programs;
    const char *name, *architecture;
    int32_t multiprocessors, shared_bytes;
    bool has_early;                      // kernels of a graph may begin while the one before them ends
    Staging staging[N_STAGING];
    int staged;                          // how often one was given
    KeptGraph graphs[MOST_GRAPHS];
    uint64_t runs;
    int32_t failed;                      // the first transfer that failed; told by the next run
};

struct Program { const char *name; int n_params; CudaBuilt built; };

// ---- opening ----

static void cuda_close(DeviceState *state) {
    if (!state) return;
    const CudaApi *api = &state->api;
    if (state->context) {
        (void)api->CtxSetCurrent(state->context);
        if (state->stream) (void)api->StreamSynchronize(state->stream);
        for (int i = 0; i < MOST_GRAPHS; i++) if (state->graphs[i].exec) (void)api->GraphExecDestroy(state->graphs[i].exec);
        for (int i = 0; i < N_STAGING; i++) {
            if (state->staging[i].at) (void)api->MemFreeHost(state->staging[i].at);
            if (state->staging[i].is_free) (void)api->EventDestroy(state->staging[i].is_free);
        }
        if (state->before) (void)api->EventDestroy(state->before);
        if (state->after) (void)api->EventDestroy(state->after);
        if (state->programs.api) cuda_programs_close(&state->programs);
        if (state->stream) (void)api->StreamDestroy(state->stream);
        (void)api->PrimaryCtxRelease(state->device);
    }
    pthread_mutex_destroy(&state->recording);
    arena_destroy(state->arena);
    free(state);
}

static bool check(const DeviceState *state, const char *what, int32_t status, Error *err) {
    return status == CUDA_SUCCESS ||
           fail(err, LATHE_DEVICE, "%s on %s: %s (%d)", what, state->name ? state->name : "the card", cuda_status_name(&state->api, status), status);
}

// Hopper's own instructions are behind a name of their own.
static const char *architecture_of(Arena *arena, int32_t major, int32_t minor) {
    return arena_printf(arena, "sm_%d%d%s", major, minor, major == 9 && minor == 0 ? "a" : "");
}

static bool card_open(DeviceState *state, Error *err) {
    const CudaApi *api = &state->api;
    int32_t n = 0, major = 0, minor = 0;
    char name[128] = "";
    int32_t status = api->Init(0);
    if (status == CUDA_SUCCESS) status = api->DeviceGetCount(&n);
    if (status != CUDA_SUCCESS || n == 0)
        return fail(err, LATHE_DEVICE, "no NVIDIA GPU can be used: %s", status == CUDA_SUCCESS ? "the driver knows none" : cuda_status_name(api, status));
    TRY(check(state, "choosing", api->DeviceGet(&state->device, 0), err));
    TRY(check(state, "asking", api->DeviceGetName(name, sizeof name, state->device), err));
    state->name = arena_copy(state->arena, name, strlen(name) + 1);
    TRY(check(state, "asking", api->DeviceGetAttribute(&major, CUDA_CAPABILITY_MAJOR, state->device), err));
    TRY(check(state, "asking", api->DeviceGetAttribute(&minor, CUDA_CAPABILITY_MINOR, state->device), err));
    TRY(check(state, "asking", api->DeviceGetAttribute(&state->multiprocessors, CUDA_MULTIPROCESSORS, state->device), err));
    TRY(check(state, "asking", api->DeviceGetAttribute(&state->shared_bytes, CUDA_SHARED_BYTES, state->device), err));
    state->architecture = architecture_of(state->arena, major, minor);
    state->has_early = major >= CUDA_MAJOR_WITH_EARLY;
    if (major < 7)
        return fail(err, LATHE_DEVICE, "%s (%s) is older than what lathe's kernels need, sm_70; use the opencl device", state->name, state->architecture);
    TRY(check(state, "opening", api->PrimaryCtxRetain(&state->context, state->device), err));
    TRY(check(state, "opening", api->CtxSetCurrent(state->context), err));
    TRY(check(state, "a stream", api->StreamCreate(&state->stream, CUDA_STREAM_ALONE), err));
    TRY(check(state, "an event", api->EventCreate(&state->before, 0), err));
    TRY(check(state, "an event", api->EventCreate(&state->after, 0), err));
    cuda_programs_open(&state->programs, state->arena, api, state->architecture);
    return true;
}

static bool cuda_open(DeviceState **out, const char *target_name, int threads, Error *err) {
    *out = NULL;
    if (threads < 0) return fail(err, LATHE_BAD_REQUEST, "%d threads: choose 1 or more, or 0 for all", threads);
    DeviceState *state = calloc(1, sizeof *state);
    if (!state) return fail(err, LATHE_NO_MEMORY, "no memory for the cuda device");
    state->arena = arena_create();
    pthread_mutex_init(&state->recording, NULL);
    bool ok = cuda_api_open(&state->api, err) && card_open(state, err);
    if (ok && target_name && strcmp(target_name, "native") && strcmp(target_name, state->architecture))
        ok = fail(err, LATHE_BAD_REQUEST, "\"%s\" is not a target of %s; choose one of: native, %s", target_name, state->name, state->architecture);
    if (!ok) {
        cuda_close(state);
        return false;
    }
    *out = state;
    return true;
}

// Every card has what the oldest row has; how much of it is its own.
static void cuda_describe_target(const DeviceState *state, Target *target) {
    gpu_target_fill(target, gpu_target_find(OLDEST_TARGET));
    target->local_bytes = state->shared_bytes;
    target->tiles.width = state->multiprocessors / 2;
    snprintf(target->name, sizeof target->name, "%s", state->architecture);
}

static const char *cuda_hardware(const DeviceState *state) { return state->name; }

// The card's own: --threads has no meaning here.
static int cuda_threads(const DeviceState *state) { return state->multiprocessors; }

// ---- memory ----

static void transfer_note(DeviceState *state, int32_t status) {
    if (status != CUDA_SUCCESS && !state->failed) state->failed = status;
}

static CudaAddress address_of(const void *at) { return (CudaAddress)(uintptr_t)at; }

static void *cuda_alloc(DeviceState *state, size_t nbytes) {
    CudaAddress at = 0;
    if (nbytes > SIZE_MAX / 4 || state->api.CtxSetCurrent(state->context) != CUDA_SUCCESS) return NULL;
    size_t size = nbytes + READABLE_BEHIND;
    if (state->api.MemAlloc(&at, size) != CUDA_SUCCESS) return NULL;
    pthread_mutex_lock(&state->recording);
    transfer_note(state, state->api.MemsetD8Async(at, 0, size, state->stream));
    pthread_mutex_unlock(&state->recording);
    return (void *)(uintptr_t)at;
}

static void work_await(DeviceState *state) {
    pthread_mutex_lock(&state->recording);
    transfer_note(state, state->api.StreamSynchronize(state->stream));
    pthread_mutex_unlock(&state->recording);
}

static void cuda_release(DeviceState *state, void *at, size_t nbytes) {
    (void)nbytes;
    if (!at || state->api.CtxSetCurrent(state->context) != CUDA_SUCCESS) return;
    work_await(state);
    transfer_note(state, state->api.MemFree(address_of(at)));
}

// With unified addresses, as every 64-bit system has them, the card knows such memory by the host's address.
static void *cuda_alloc_shared(DeviceState *state, size_t nbytes) {
    void *at = NULL;
    if (nbytes > SIZE_MAX / 4 || state->api.CtxSetCurrent(state->context) != CUDA_SUCCESS) return NULL;
    if (state->api.MemAllocHost(&at, nbytes + READABLE_BEHIND) != CUDA_SUCCESS) return NULL;
    return memset(at, 0, nbytes + READABLE_BEHIND);
}

static void cuda_release_shared(DeviceState *state, void *at, size_t nbytes) {
    (void)nbytes;
    if (!at || state->api.CtxSetCurrent(state->context) != CUDA_SUCCESS) return;
    work_await(state);
    transfer_note(state, state->api.MemFreeHost(at));
}

static void cuda_room(DeviceState *state, size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = 0;
    if (state->api.CtxSetCurrent(state->context) == CUDA_SUCCESS && state->api.MemGetInfo(free_bytes, total_bytes) != CUDA_SUCCESS)
        *free_bytes = *total_bytes = 0;
}

static bool staging_open(DeviceState *state) {
    for (int i = 0; i < N_STAGING; i++) {
        Staging *s = &state->staging[i];
        if (!s->is_free && state->api.EventCreate(&s->is_free, 0) != CUDA_SUCCESS) return false;
        if (!s->at && state->api.MemAllocHost(&s->at, STAGING_BYTES) != CUDA_SUCCESS) return false;
    }
    return true;
}

static void *cuda_stage(DeviceState *state, size_t *nbytes) {
    transfer_note(state, state->api.CtxSetCurrent(state->context));
    if (!staging_open(state)) return NULL;
    Staging *s = &state->staging[state->staged++ % N_STAGING];
    transfer_note(state, state->api.EventSynchronize(s->is_free));
    *nbytes = STAGING_BYTES;
    return s->at;
}

static Staging *staging_of(DeviceState *state, const void *from) {
    for (int i = 0; i < N_STAGING; i++) {
        uintptr_t at = (uintptr_t)state->staging[i].at;
        if (at && (uintptr_t)from >= at && (uintptr_t)from < at + STAGING_BYTES) return &state->staging[i];
    }
    return NULL;
}

typedef struct Copy { char *to; const char *from; size_t nbytes, each; } Copy;
static bool copy_part(void *context, int i, Error *err) {
    (void)err;
    const Copy *c = context;
    size_t first = c->each * (size_t)i < c->nbytes ? c->each * (size_t)i : c->nbytes, left = c->nbytes - first;
    memcpy(c->to + first, c->from + first, left < c->each ? left : c->each);
    return true;
}

// Pages of a file are read where they are touched: several threads touch them. To start these takes longer than a short copy.
static void copy_parallel(char *to, const char *from, size_t nbytes) {
    Error err;
    if (nbytes <= ALONE_BYTES) {
        memcpy(to, from, nbytes);
        return;
    }
    Copy c = {to, from, nbytes, (nbytes + COPY_THREADS * LINE_BYTES - 1) / (COPY_THREADS * LINE_BYTES) * LINE_BYTES};
    CHECK(parallel_run(COPY_THREADS, COPY_THREADS, copy_part, &c, &err));
}

// Much at once goes through memory that the card can fetch from by itself, while the next part is copied there.
static void cuda_upload(DeviceState *state, void *to, const void *from, size_t nbytes) {
    const CudaApi *api = &state->api;
    Staging *staging = staging_of(state, from);
    if (!staging && nbytes > SMALL_BYTES && staging_open(state)) {
        for (size_t at = 0, part; at < nbytes; at += part) {
            char *stage = cuda_stage(state, &part);
            if (part > nbytes - at) part = nbytes - at;
            copy_parallel(stage, (const char *)from + at, part);
            cuda_upload(state, (char *)to + at, stage, part);
        }
        return;
    }
    if (!nbytes) return;
    transfer_note(state, api->CtxSetCurrent(state->context));
    transfer_note(state, api->MemcpyHtoDAsync(address_of(to), from, nbytes, state->stream));
    if (staging) transfer_note(state, api->EventRecord(staging->is_free, state->stream));
    else if (nbytes > SMALL_BYTES) transfer_note(state, api->StreamSynchronize(state->stream));
}

static void cuda_download(DeviceState *state, void *to, const void *from, size_t nbytes) {
    if (!nbytes) return;
    int32_t status = state->api.CtxSetCurrent(state->context);
    if (status == CUDA_SUCCESS) status = state->api.MemcpyDtoHAsync(to, address_of(from), nbytes, state->stream);
    if (status == CUDA_SUCCESS) status = state->api.StreamSynchronize(state->stream);
    transfer_note(state, status);
    if (status != CUDA_SUCCESS) memset(to, 0, nbytes);
}

// ---- programs ----

static void cuda_unload(DeviceState *state, Program *program) {
    if (!program) return;
    (void)state->api.CtxSetCurrent(state->context);
    cuda_program_release(&state->programs, &program->built);
    free(program);
}

static bool cuda_compile(DeviceState *state, const KernelSource *sources, int n, Program **programs, Error *err) {
    CudaBuilt *built = calloc((size_t)n + 1, sizeof *built);
    bool ok = built && check(state, "opening", state->api.CtxSetCurrent(state->context), err) &&
              cuda_programs_build(&state->programs, sources, n, built, err);
    for (int i = 0; i < n; i++) programs[i] = NULL;
    for (int i = 0; ok && i < n; i++) {
        programs[i] = malloc(sizeof *programs[i]);
        if (programs[i]) *programs[i] = (Program){sources[i].name, sources[i].n_params, built[i]};
        else ok = fail(err, LATHE_NO_MEMORY, "no memory for kernel %s", sources[i].name);
    }
    for (int i = 0; !ok && i < n; i++) {
        if (programs[i]) free(programs[i]);
        if (built) cuda_program_release(&state->programs, &built[i]);
        programs[i] = NULL;
    }
    free(built);
    return ok;
}

// ---- running ----

static bool stage_launch(DeviceState *state, const Stage *stage, bool is_early, Error *err) {
    const Program *program = stage->program;
    void *arguments[CUDA_MOST_PARAMS + 1];
    if (stage->tiles > INT32_MAX)
        return fail(err, LATHE_UNSUPPORTED, "kernel %s has %ld tiles, more than can be counted; use smaller chunks", program->name, stage->tiles);
    int32_t tiles = (int32_t)stage->tiles;
    arguments[0] = &tiles;
    for (int i = 0; i < program->n_params; i++) arguments[1 + i] = (void *)(uintptr_t)&stage->params[i];
    CudaLaunchAttribute early = {.id = CUDA_LAUNCH_EARLY, .value.number = 1};
    CudaLaunch launch = {.grid = {(unsigned)tiles, 1, 1}, .block = {program->built.threads, 1, 1}, .stream = state->stream,
                         .attributes = &early, .n_attributes = is_early};
    int32_t status = state->api.LaunchKernelEx(&launch, program->built.function, arguments, NULL);
    return check(state, program->name, status, err);
}

static bool graph_capture(DeviceState *state, const Stage *stages, int n, CudaGraphExec *exec, Error *err) {
    const CudaApi *api = &state->api;
    CudaGraph graph = NULL;
    pthread_mutex_lock(&state->recording);
    bool ok = check(state, "capturing", api->StreamBeginCapture(state->stream, CUDA_CAPTURE_THREAD), err);
    if (!ok) {
        pthread_mutex_unlock(&state->recording);
        return false;
    }
    for (int i = 0; i < n && ok; i++) ok = stage_launch(state, &stages[i], state->has_early && i > 0, err);
    int32_t status = api->StreamEndCapture(state->stream, &graph);
    pthread_mutex_unlock(&state->recording);
    ok = ok && check(state, "capturing", status, err) && check(state, "a graph", api->GraphInstantiate(exec, graph, 0), err);
    if (graph) (void)api->GraphDestroy(graph);
    return ok;
}

// The graph of a table that is known, or one that is captured now in the place of the one not used for longest.
static bool graph_find(DeviceState *state, const Stage *stages, int n, CudaGraphExec *exec, Error *err) {
    KeptGraph *oldest = &state->graphs[0];
    for (int i = 0; i < MOST_GRAPHS; i++) {
        KeptGraph *g = &state->graphs[i];
        if (g->exec && g->stages == stages && g->n_stages == n) {
            g->used = ++state->runs;
            *exec = g->exec;
            return true;
        }
        if (g->used < oldest->used) oldest = g;
    }
    if (oldest->exec) (void)state->api.GraphExecDestroy(oldest->exec);
    *oldest = (KeptGraph){0};
    TRY(graph_capture(state, stages, n, exec, err));
    *oldest = (KeptGraph){stages, n, *exec, ++state->runs};
    return true;
}

static void cuda_forget(DeviceState *state, const Stage *stages) {
    for (int i = 0; i < MOST_GRAPHS; i++) {
        KeptGraph *g = &state->graphs[i];
        if (!g->exec || g->stages != stages || state->api.CtxSetCurrent(state->context) != CUDA_SUCCESS) continue;
        (void)state->api.GraphExecDestroy(g->exec);
        *g = (KeptGraph){0};
    }
}

static bool stage_time(DeviceState *state, const Stage *stage, uint64_t *us, Error *err) {
    float ms = 0;
    TRY(check(state, "an event", state->api.EventRecord(state->before, state->stream), err));
    TRY(stage_launch(state, stage, false, err));
    TRY(check(state, "an event", state->api.EventRecord(state->after, state->stream), err));
    TRY(check(state, stage->program->name, state->api.EventSynchronize(state->after), err));
    TRY(check(state, "an event", state->api.EventElapsedTime(&ms, state->before, state->after), err));
    *us = (uint64_t)(ms * 1000 + 0.5f);
    return true;
}

static bool cuda_run(DeviceState *state, const Stage *stages, int n_stages, StepStats *stats, Error *err) {
    CudaGraphExec exec;
    TRY(check(state, "opening", state->api.CtxSetCurrent(state->context), err));
    TRY(check(state, "a transfer of data", state->failed, err));
    if (stats && stats->stage_us)
        for (int i = 0; i < n_stages; i++) TRY(stage_time(state, &stages[i], &stats->stage_us[i], err));
    else if (n_stages > 0) {
        TRY(graph_find(state, stages, n_stages, &exec, err));
        TRY(check(state, "a step", state->api.GraphLaunch(exec, state->stream), err));
    }
    return check(state, "a step", state->api.StreamSynchronize(state->stream), err);
}

const Device cuda_device = {
    .name = "cuda",
    .dialect = &cuda_dialect,
    .open = cuda_open,
    .close = cuda_close,
    .describe_target = cuda_describe_target,
    .hardware = cuda_hardware,
    .threads = cuda_threads,
    .alloc = cuda_alloc,
    .room = cuda_room,
    .release = cuda_release,
    .alloc_shared = cuda_alloc_shared,
    .release_shared = cuda_release_shared,
    .stage = cuda_stage,
    .upload = cuda_upload,
    .download = cuda_download,
    .compile = cuda_compile,
    .unload = cuda_unload,
    .run = cuda_run,
    .forget = cuda_forget,
};

// metal_device: kernels in Metal's language on the GPU of a Mac.
// In: a table of stages. Out: every tile has run: one command buffer a step, whose dispatches follow one another.
// Invariant: memory is shared with the CPU, and nothing of it is touched while a step runs. Addresses: see buffer_numbers.
// No Mac was at hand: this file compiles everywhere, its texts are checked (tests/metal), it has never run.
// Example: lathe run --device metal -p Hello
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "runtime/buffer_numbers.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"
#include "runtime/program_batch.h"
#include "runtime/metal_api.h"

// Numbers of Metal's headers. A kernel takes 31 buffers and, for each thread of a group, 8 bytes for exchanges.
enum { STORAGE_SHARED = 0, STATUS_COMPLETED = 4, MOST_BUFFERS = 31, EXCHANGE_BYTES = 8, MATH_SAFE = 0 };
enum { READABLE_BEHIND = 64, BUFFER_ALIGNMENT = 16, QUOTED_BYTES = 600 };
static const char TARGET_NAME[] = "metal";

struct DeviceState {
    Arena *arena;
    MetalApi api;
    ObjcId device, queue;
    const char *name;
    BufferNumbers buffers;
};

struct Program { const char *name; ObjcId pipeline; int n_params; unsigned long threads; };

// ---- opening ----

static void metal_close(DeviceState *state) {
    if (!state) return;
    metal_release(&state->api, state->queue);
    metal_release(&state->api, state->device);
    buffer_numbers_free(&state->buffers);
    arena_destroy(state->arena);
    free(state);
}

static bool gpu_open(DeviceState *state, Error *err) {
    const MetalApi *api = &state->api;
    TRY(metal_api_open(&state->api, err));
    void *pool = api->pool_push();
    state->device = api->default_device();
    if (state->device) {
        const char *name = metal_text(api, SEND(api, ObjcId, state->device, "name", (ObjcId, ObjcSelector)));
        state->name = arena_copy(state->arena, name, strlen(name) + 1);
        state->queue = SEND(api, ObjcId, state->device, "newCommandQueue", (ObjcId, ObjcSelector));
    }
    api->pool_pop(pool);
    if (!state->device) return fail(err, LATHE_DEVICE, "this Mac has no GPU that Metal can use; use --device cpu");
    return state->queue || fail(err, LATHE_DEVICE, "%s takes no commands; use --device cpu", state->name);
}

static bool metal_open(DeviceState **out, const char *target_name, int threads, Error *err) {
    *out = NULL;
    if (threads < 0) return fail(err, LATHE_BAD_REQUEST, "%d threads: choose 1 or more, or 0 for all", threads);
    if (target_name && strcmp(target_name, "native") && strcmp(target_name, TARGET_NAME))
        return fail(err, LATHE_BAD_REQUEST, "\"%s\" is not a target of the metal device; choose one of: native, %s", target_name, TARGET_NAME);
    DeviceState *state = calloc(1, sizeof *state);
    if (!state) return fail(err, LATHE_NO_MEMORY, "no memory for the metal device");
    state->arena = arena_create();
    if (!gpu_open(state, err)) {
        metal_close(state);
        return false;
    }
    *out = state;
    return true;
}

static void metal_describe_target(const DeviceState *state, Target *target) {
    gpu_target_fill(target, gpu_target_find(TARGET_NAME));
    target->local_bytes = (int)SEND(&state->api, unsigned long, state->device, "maxThreadgroupMemoryLength", (ObjcId, ObjcSelector));
}

static const char *metal_hardware(const DeviceState *state) { return state->name; }

// The GPU's own: --threads has no meaning here.
static int metal_threads(const DeviceState *state) {
    (void)state;
    return 1;
}

// ---- memory ----

static char *host_address(const DeviceState *state, const void *at) {
    char *contents = SEND(&state->api, char *, buffer_numbers_object(&state->buffers, at), "contents", (ObjcId, ObjcSelector));
    return contents + buffer_numbers_offset(at);
}

// The address of a new buffer; NULL where there is none, or no room for one more.
static void *buffer_number(DeviceState *state, ObjcId buffer) {
    void *at = buffer ? buffer_numbers_add(&state->buffers, buffer) : NULL;
    if (!at) metal_release(&state->api, buffer);
    return at;
}

static bool is_possible(const DeviceState *state, size_t nbytes) {
    return nbytes <= SEND(&state->api, unsigned long, state->device, "maxBufferLength", (ObjcId, ObjcSelector)) &&
           nbytes < (size_t)1 << BUFFER_OFFSET_BITS;
}

static void *metal_alloc(DeviceState *state, size_t nbytes) {
    if (nbytes > SIZE_MAX / 4 || !is_possible(state, nbytes + READABLE_BEHIND)) return NULL;
    return buffer_number(state, SEND(&state->api, ObjcId, state->device, "newBufferWithLength:options:",
                                     (ObjcId, ObjcSelector, unsigned long, unsigned long), nbytes + READABLE_BEHIND, STORAGE_SHARED));
}

// The pages around that memory; the address is inside them.
static void *metal_wrap(DeviceState *state, const void *data, size_t nbytes) {
    uintptr_t page = page_round(1), first = (uintptr_t)data / page * page, before = (uintptr_t)data - first;
    size_t size = page_round(before + nbytes + READABLE_BEHIND);
    if ((uintptr_t)data % BUFFER_ALIGNMENT != 0 || nbytes == 0 || !is_possible(state, size)) return NULL;
    char *at = buffer_number(state, SEND(&state->api, ObjcId, state->device, "newBufferWithBytesNoCopy:length:options:deallocator:",
                                         (ObjcId, ObjcSelector, void *, unsigned long, unsigned long, ObjcId), (void *)first, size,
                                         STORAGE_SHARED, NULL));
    return at ? at + before : NULL;
}

static void metal_release_buffer(DeviceState *state, void *at, size_t nbytes) {
    (void)nbytes;
    if (at) metal_release(&state->api, buffer_numbers_remove(&state->buffers, at));
}

static void metal_room(DeviceState *state, size_t *free_bytes, size_t *total_bytes) {
    uint64_t most = SEND(&state->api, uint64_t, state->device, "recommendedMaxWorkingSetSize", (ObjcId, ObjcSelector));
    uint64_t used = SEND(&state->api, unsigned long, state->device, "currentAllocatedSize", (ObjcId, ObjcSelector));
    *total_bytes = most, *free_bytes = used < most ? most - used : 0;
}

static void metal_upload(DeviceState *state, void *to, const void *from, size_t nbytes) {
    if (nbytes) memcpy(host_address(state, to), from, nbytes);
}

static void metal_download(DeviceState *state, void *to, const void *from, size_t nbytes) {
    if (nbytes) memcpy(to, host_address(state, from), nbytes);
}

// ---- programs ----

static void metal_unload(DeviceState *state, Program *program) {
    if (!program) return;
    metal_release(&state->api, program->pipeline);
    free(program);
}

// The size of a group stands in the text, which may come from an earlier run.
static unsigned long group_threads(const char *text) {
    static const char word[] = "max_total_threads_per_threadgroup(";
    const char *at = strstr(text, word);
    return at ? strtoul(at + strlen(word), NULL, 10) : 0;
}

// No fast forms: sums and functions are those that the text says. Newer systems have a mode, older ones a switch.
static ObjcId compile_options(const MetalApi *api) {
    ObjcId options = SEND(api, ObjcId, api->class_named("MTLCompileOptions"), "new", (ObjcId, ObjcSelector));
    if (SEND(api, bool, options, "respondsToSelector:", (ObjcId, ObjcSelector, ObjcSelector), api->selector("setMathMode:")))
        SEND(api, void, options, "setMathMode:", (ObjcId, ObjcSelector, long), MATH_SAFE);
    else SEND(api, void, options, "setFastMathEnabled:", (ObjcId, ObjcSelector, bool), false);
    return options;
}

static bool pipeline_build(DeviceState *state, const KernelSource *source, Program *program, Error *err) {
    const MetalApi *api = &state->api;
    ObjcId why = NULL, options = compile_options(api);
    ObjcId library = SEND(api, ObjcId, state->device, "newLibraryWithSource:options:error:", (ObjcId, ObjcSelector, ObjcId, ObjcId, ObjcId *),
                          metal_string(api, source->text), options, &why);
    ObjcId function = library ? SEND(api, ObjcId, library, "newFunctionWithName:", (ObjcId, ObjcSelector, ObjcId), metal_string(api, source->name)) : NULL;
    if (function)
        program->pipeline = SEND(api, ObjcId, state->device, "newComputePipelineStateWithFunction:error:", (ObjcId, ObjcSelector, ObjcId, ObjcId *),
                                 function, &why);
    bool ok = program->pipeline || fail(err, LATHE_COMPILE, "kernel %s does not compile on %s (LATHE_TEXTS=FOLDER keeps its source); the compiler said: %.*s",
                                        source->name, state->name, QUOTED_BYTES, metal_reason(api, why));
    metal_release(api, function);
    metal_release(api, library);
    metal_release(api, options);
    TRY(ok);
    unsigned long most = SEND(api, unsigned long, program->pipeline, "maxTotalThreadsPerThreadgroup", (ObjcId, ObjcSelector));
    return (program->threads && program->threads <= most) ||
           fail(err, LATHE_UNSUPPORTED, "kernel %s needs %lu threads, %s can run %lu; use another device", source->name, program->threads, state->name, most);
}

static bool program_create(DeviceState *state, const KernelSource *source, Program **out, Error *err) {
    if (!source->text) return fail(err, LATHE_COMPILE, "kernel %s has no text", source->name);
    if (source->n_params > MOST_BUFFERS)
        return fail(err, LATHE_UNSUPPORTED, "kernel %s takes %d buffers, Metal %d; use another device", source->name, source->n_params, MOST_BUFFERS);
    Program *program = malloc(sizeof *program);
    if (!program) return fail(err, LATHE_NO_MEMORY, "no memory for kernel %s", source->name);
    *program = (Program){source->name, NULL, source->n_params, group_threads(source->text)};
    void *pool = state->api.pool_push();
    bool ok = pipeline_build(state, source, program, err);
    state->api.pool_pop(pool);
    if (ok) *out = program;
    else metal_unload(state, program);
    return ok;
}

static bool metal_compile(DeviceState *state, const KernelSource *sources, int n, Program **programs, Error *err) {
    return programs_create(state, sources, n, programs, program_create, metal_unload, err);
}

// ---- running ----

static void stage_encode(DeviceState *state, ObjcId encoder, const Stage *stage) {
    const MetalApi *api = &state->api;
    const Program *program = stage->program;
    SEND(api, void, encoder, "setComputePipelineState:", (ObjcId, ObjcSelector, ObjcId), program->pipeline);
    for (int i = 0; i < program->n_params; i++)
        SEND(api, void, encoder, "setBuffer:offset:atIndex:", (ObjcId, ObjcSelector, ObjcId, unsigned long, unsigned long),
             buffer_numbers_object(&state->buffers, stage->params[i]), buffer_numbers_offset(stage->params[i]), (unsigned long)i);
    SEND(api, void, encoder, "setThreadgroupMemoryLength:atIndex:", (ObjcId, ObjcSelector, unsigned long, unsigned long),
         program->threads * EXCHANGE_BYTES, 0ul);
    SEND(api, void, encoder, "dispatchThreadgroups:threadsPerThreadgroup:", (ObjcId, ObjcSelector, MetalSize, MetalSize),
         ((MetalSize){(unsigned long)stage->tiles, 1, 1}), ((MetalSize){program->threads, 1, 1}));
}

// seconds: NULL, or what the GPU was busy.
static bool stages_run(DeviceState *state, const Stage *stages, int n, double *seconds, Error *err) {
    const MetalApi *api = &state->api;
    ObjcId commands = SEND(api, ObjcId, state->queue, "commandBuffer", (ObjcId, ObjcSelector));
    ObjcId encoder = commands ? SEND(api, ObjcId, commands, "computeCommandEncoder", (ObjcId, ObjcSelector)) : NULL;
    if (!encoder) return fail(err, LATHE_DEVICE, "%s takes no commands; restart the program", state->name);
    for (int i = 0; i < n; i++) stage_encode(state, encoder, &stages[i]);
    SEND(api, void, encoder, "endEncoding", (ObjcId, ObjcSelector));
    SEND(api, void, commands, "commit", (ObjcId, ObjcSelector));
    SEND(api, void, commands, "waitUntilCompleted", (ObjcId, ObjcSelector));
    if (SEND(api, unsigned long, commands, "status", (ObjcId, ObjcSelector)) != STATUS_COMPLETED)
        return fail(err, LATHE_DEVICE, "a step on %s: %s", state->name, metal_reason(api, SEND(api, ObjcId, commands, "error", (ObjcId, ObjcSelector))));
    if (seconds)
        *seconds = SEND(api, double, commands, "GPUEndTime", (ObjcId, ObjcSelector)) - SEND(api, double, commands, "GPUStartTime", (ObjcId, ObjcSelector));
    return true;
}

static bool metal_run(DeviceState *state, const Stage *stages, int n_stages, StepStats *stats, Error *err) {
    bool is_timed = stats && stats->stage_us, ok = true;
    for (int i = 0; i < n_stages; i++)
        if (stages[i].tiles > INT32_MAX)
            return fail(err, LATHE_UNSUPPORTED, "kernel %s has %ld tiles, more than can be counted; use smaller chunks", stages[i].program->name, stages[i].tiles);
    void *pool = state->api.pool_push();
    if (!is_timed) ok = n_stages == 0 || stages_run(state, stages, n_stages, NULL, err);
    for (int i = 0; is_timed && i < n_stages && ok; i++) {
        double seconds = 0;
        ok = stages_run(state, &stages[i], 1, &seconds, err);
        stats->stage_us[i] = (uint64_t)(seconds * 1e6 + 0.5);
    }
    state->api.pool_pop(pool);
    return ok;
}

const Device metal_device = {
    .name = "metal",
    .dialect = &metal_dialect,
    .open = metal_open,
    .close = metal_close,
    .describe_target = metal_describe_target,
    .hardware = metal_hardware,
    .threads = metal_threads,
    .alloc = metal_alloc,
    .room = metal_room,
    .wrap = metal_wrap,
    .release = metal_release_buffer,
    .upload = metal_upload,
    .download = metal_download,
    .compile = metal_compile,
    .unload = metal_unload,
    .run = metal_run,
};

// opencl_device: kernels in OpenCL C, on the device that opencl_choice names.
// In: a table of stages. Out: every tile has run; an in-order queue keeps each stage behind all earlier ones.
// Invariant: an address of this device is no pointer of the host (see buffer_numbers).
// Example: alloc → 0x30000000000 (buffer 2); address + 64 → argument pair (buffer 2, 64)
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "runtime/buffer_numbers.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"
#include "runtime/program_batch.h"
#include "runtime/opencl_programs.h"

enum { READABLE_BEHIND = 64, BUFFER_ALIGNMENT = 16 };
// A tile is one item, or a group of them.
static const char ITEM_TARGET[] = "opencl12", GROUP_TARGET[] = "opencl12-groups";

struct DeviceState {
    Arena *arena;
    OpenclApi api;
    OpenclChoice choice;
    bool has_groups;
    OpenclContext context;
    OpenclQueue queue, timed_queue;      // timed_queue: NULL until somebody wants times
    OpenclPrograms programs;
    BufferNumbers buffers;
    int32_t failed;                      // the first transfer that failed; told by the next run
};

struct Program { const char *name; OpenclBuilt built; };

// ---- opening ----

static void opencl_close(DeviceState *state) {
    if (!state) return;
    if (state->programs.api) opencl_programs_close(&state->programs);
    if (state->timed_queue) state->api.ReleaseCommandQueue(state->timed_queue);
    if (state->queue) state->api.ReleaseCommandQueue(state->queue);
    if (state->context) state->api.ReleaseContext(state->context);
    buffer_numbers_free(&state->buffers);
    arena_destroy(state->arena);
    free(state);
}

static bool context_open(DeviceState *state, Error *err) {
    int32_t status;
    TRY(opencl_api_open(&state->api, err));
    TRY(opencl_choose(&state->api, state->arena, &state->choice, err));
    state->context = state->api.CreateContext(NULL, 1, &state->choice.device, NULL, NULL, &status);
    if (!state->context) return fail(err, LATHE_DEVICE, "%s cannot be opened: %s", state->choice.name, opencl_status_name(status));
    state->queue = state->api.CreateCommandQueue(state->context, state->choice.device, 0, &status);
    if (!state->queue) return fail(err, LATHE_DEVICE, "%s takes no commands: %s", state->choice.name, opencl_status_name(status));
    opencl_programs_open(&state->programs, state->arena, &state->api, &state->choice, state->context);
    return true;
}

static bool opencl_open(DeviceState **out, const char *target_name, int threads, Error *err) {
    *out = NULL;
    if (threads < 0) return fail(err, LATHE_BAD_REQUEST, "%d threads: choose 1 or more, or 0 for all", threads);
    bool is_native = !target_name || !strcmp(target_name, "native"), has_groups = !is_native && !strcmp(target_name, GROUP_TARGET);
    if (!is_native && !has_groups && strcmp(target_name, ITEM_TARGET))
        return fail(err, LATHE_BAD_REQUEST, "\"%s\" is not a target of the opencl device; choose one of: native, %s, %s", target_name,
                    ITEM_TARGET, GROUP_TARGET);
    DeviceState *state = calloc(1, sizeof *state);
    if (!state) return fail(err, LATHE_NO_MEMORY, "no memory for the opencl device");
    state->arena = arena_create();
    if (!context_open(state, err)) {
        opencl_close(state);
        return false;
    }
    state->has_groups = is_native ? !state->choice.is_cpu : has_groups;
    *out = state;
    return true;
}

static void opencl_describe_target(const DeviceState *state, Target *target) {
    gpu_target_fill(target, gpu_target_find(state->has_groups ? GROUP_TARGET : ITEM_TARGET));
    target->local_bytes = state->choice.local_bytes > INT32_MAX ? INT32_MAX : (int)state->choice.local_bytes;
    // Behind a LAST_TILE, which ends the items of other tiles, PoCL takes the next branches of all items as the first one does.
    target->tiles.has_tails &= !state->choice.is_cpu;
}

static const char *opencl_hardware(const DeviceState *state) { return state->choice.name; }

// The device's own: --threads has no meaning here.
static int opencl_threads(const DeviceState *state) { return state->choice.compute_units ? (int)state->choice.compute_units : 1; }

// ---- memory ----

static void transfer_note(DeviceState *state, int32_t status) {
    if (status != OPENCL_SUCCESS && !state->failed) state->failed = status;
}

static OpenclMemory memory_of(const DeviceState *state, const void *at) { return buffer_numbers_object(&state->buffers, at); }

// The address of a new buffer; NULL where there is no room for one more, and then the buffer is gone.
static void *buffer_number(DeviceState *state, OpenclMemory memory) {
    void *at = buffer_numbers_add(&state->buffers, memory);
    if (!at) state->api.ReleaseMemObject(memory);
    return at;
}

static bool is_possible(const DeviceState *state, size_t nbytes) {
    return nbytes <= state->choice.largest_buffer && nbytes < (size_t)1 << BUFFER_OFFSET_BITS;
}

static void *opencl_alloc(DeviceState *state, size_t nbytes) {
    static const uint32_t zeros[4] = {0};
    int32_t status;
    if (nbytes > SIZE_MAX / 4) return NULL;
    size_t size = (nbytes + READABLE_BEHIND + sizeof zeros - 1) / sizeof zeros * sizeof zeros;
    if (!is_possible(state, size)) return NULL;
    OpenclMemory memory = state->api.CreateBuffer(state->context, OPENCL_READ_WRITE, size, NULL, &status);
    if (!memory) return NULL;
    if (state->api.EnqueueFillBuffer(state->queue, memory, zeros, sizeof zeros, 0, size, 0, NULL, NULL) != OPENCL_SUCCESS) {
        state->api.ReleaseMemObject(memory);
        return NULL;
    }
    return buffer_number(state, memory);
}

static void *opencl_wrap(DeviceState *state, const void *data, size_t nbytes) {
    int32_t status;
    bool is_useful = state->choice.shares_host_memory && (uintptr_t)data % BUFFER_ALIGNMENT == 0 && nbytes > 0;
    if (!is_useful || !is_possible(state, nbytes + READABLE_BEHIND)) return NULL;
    OpenclMemory memory = state->api.CreateBuffer(state->context, OPENCL_READ_ONLY | OPENCL_USE_HOST, nbytes + READABLE_BEHIND,
                                                  (void *)(uintptr_t)data, &status);
    return memory ? buffer_number(state, memory) : NULL;
}

static void opencl_release(DeviceState *state, void *at, size_t nbytes) {
    (void)nbytes;
    if (!at) return;
    state->api.ReleaseMemObject(buffer_numbers_remove(&state->buffers, at));
}

static void opencl_upload(DeviceState *state, void *to, const void *from, size_t nbytes) {
    if (nbytes)
        transfer_note(state, state->api.EnqueueWriteBuffer(state->queue, memory_of(state, to), 1, buffer_numbers_offset(to), nbytes, from, 0, NULL, NULL));
}

static void opencl_download(DeviceState *state, void *to, const void *from, size_t nbytes) {
    if (!nbytes) return;
    int32_t status = state->api.EnqueueReadBuffer(state->queue, memory_of(state, from), 1, buffer_numbers_offset(from), nbytes, to, 0, NULL, NULL);
    transfer_note(state, status);
    if (status != OPENCL_SUCCESS) memset(to, 0, nbytes);
}

// ---- programs ----

static void opencl_unload(DeviceState *state, Program *program) {
    if (!program) return;
    opencl_program_release(&state->programs, &program->built);
    free(program);
}

static bool program_create(DeviceState *state, const KernelSource *source, Program **out, Error *err) {
    if (!source->text) return fail(err, LATHE_COMPILE, "kernel %s has no text", source->name);
    Program *program = malloc(sizeof *program);
    if (!program) return fail(err, LATHE_NO_MEMORY, "no memory for kernel %s", source->name);
    *program = (Program){.name = source->name};
    if (!opencl_program_build(&state->programs, source, &program->built, err)) {
        free(program);
        return false;
    }
    *out = program;
    return true;
}

static bool opencl_compile(DeviceState *state, const KernelSource *sources, int n, Program **programs, Error *err) {
    return programs_create(state, sources, n, programs, program_create, opencl_unload, err);
}

// ---- running ----

static bool run_failed(const DeviceState *state, const char *what, int32_t status, Error *err) {
    return fail(err, LATHE_DEVICE, "%s on %s: %s (%d)", what, state->choice.name, opencl_status_name(status), status);
}

// Puts one stage into the queue. Arguments are taken over there, so the kernel can be used again at once.
static bool stage_enqueue(DeviceState *state, OpenclQueue queue, const Stage *stage, OpenclEvent *event, Error *err) {
    const OpenclApi *api = &state->api;
    const OpenclBuilt *built = &stage->program->built;
    if (stage->tiles > INT32_MAX)
        return fail(err, LATHE_UNSUPPORTED, "kernel %s has %ld tiles, more than can be counted; use smaller chunks", stage->program->name, stage->tiles);
    int32_t tiles = (int32_t)stage->tiles, status = OPENCL_SUCCESS;
    for (uint32_t i = 0; i < built->n_slots && status == OPENCL_SUCCESS; i++) {
        OpenclMemory memory = memory_of(state, stage->params[i]);
        uint64_t offset = buffer_numbers_offset(stage->params[i]);
        status = api->SetKernelArg(built->kernel, 2 * i, sizeof memory, &memory);
        if (status == OPENCL_SUCCESS) status = api->SetKernelArg(built->kernel, 2 * i + 1, sizeof offset, &offset);
    }
    if (status == OPENCL_SUCCESS) status = api->SetKernelArg(built->kernel, 2 * built->n_slots, sizeof tiles, &tiles);
    size_t group = (size_t)tiles < built->group_items ? (size_t)tiles : built->group_items;
    size_t items = ((size_t)tiles + group - 1) / group * group;
    if (built->is_group) group = built->group_items, items = (size_t)tiles * group;
    if (status == OPENCL_SUCCESS) status = api->EnqueueNDRangeKernel(queue, built->kernel, 1, NULL, &items, &group, 0, NULL, event);
    return status == OPENCL_SUCCESS || run_failed(state, stage->program->name, status, err);
}

static bool stage_time(DeviceState *state, const Stage *stage, uint64_t *us, Error *err) {
    OpenclEvent event = NULL;
    uint64_t start = 0, end = 0;
    TRY(stage_enqueue(state, state->timed_queue, stage, &event, err));
    int32_t status = state->api.WaitForEvents(1, &event);
    if (status == OPENCL_SUCCESS) status = state->api.GetEventProfilingInfo(event, OPENCL_TIME_START, sizeof start, &start, NULL);
    if (status == OPENCL_SUCCESS) status = state->api.GetEventProfilingInfo(event, OPENCL_TIME_END, sizeof end, &end, NULL);
    state->api.ReleaseEvent(event);
    *us = (end - start + 500) / 1000;
    return status == OPENCL_SUCCESS || run_failed(state, stage->program->name, status, err);
}

static bool timed_queue_open(DeviceState *state, Error *err) {
    int32_t status;
    if (state->timed_queue) return true;
    state->timed_queue = state->api.CreateCommandQueue(state->context, state->choice.device, OPENCL_TIMES_COMMANDS, &status);
    return state->timed_queue || run_failed(state, "a queue that takes times", status, err);
}

static bool opencl_run(DeviceState *state, const Stage *stages, int n_stages, StepStats *stats, Error *err) {
    bool is_timed = stats && stats->stage_us;
    if (state->failed) return run_failed(state, "a transfer of data", state->failed, err);
    if (is_timed) {
        int32_t before = state->api.Finish(state->queue);   // the other queue knows nothing of this one
        if (before != OPENCL_SUCCESS) return run_failed(state, "a step", before, err);
        TRY(timed_queue_open(state, err));
    }
    for (int i = 0; i < n_stages; i++)
        TRY(is_timed ? stage_time(state, &stages[i], &stats->stage_us[i], err) : stage_enqueue(state, state->queue, &stages[i], NULL, err));
    int32_t status = is_timed ? OPENCL_SUCCESS : state->api.Finish(state->queue);
    return status == OPENCL_SUCCESS || run_failed(state, "a step", status, err);
}

const Device opencl_device = {
    .name = "opencl",
    .dialect = &opencl_dialect,
    .open = opencl_open,
    .close = opencl_close,
    .describe_target = opencl_describe_target,
    .hardware = opencl_hardware,
    .threads = opencl_threads,
    .alloc = opencl_alloc,
    .wrap = opencl_wrap,
    .release = opencl_release,
    .upload = opencl_upload,
    .download = opencl_download,
    .compile = opencl_compile,
    .unload = opencl_unload,
    .run = opencl_run,
};

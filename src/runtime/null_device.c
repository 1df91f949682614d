// null_device: takes kernels and steps and runs nothing, so that everything above a device can be
// tested and timed without a compiler, a CPU of the target, or the arithmetic.
// In: any target of the cpu device's table or of gpu_targets.def, whose texts are then in its own dialect.
// Out: memory that stays as it was uploaded.
// Invariant: a step changes no byte of device memory.
// Example: LATHE on an old laptop: --device null --target avx512vnni renders AVX-512 texts, --target metal Apple's
#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "runtime/cpu_target.h"
#include "runtime/device.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"
#include "runtime/host_memory.h"

struct DeviceState {
    Target target;
    const Dialect *dialect;
    int threads;
};

struct Program {
    int n_params;
};

static bool target_find(Target *target, const char *name, Error *err) {
    Error why = {0};
    if (cpu_target_find(target, name, &why)) return true;
    Arena *arena = arena_create();
    (void)fail(err, why.code, "%s, %s", why.text, gpu_target_names(arena));
    arena_destroy(arena);
    return false;
}

static bool null_open(DeviceState **out, const char *target_name, int threads, Error *err) {
    Target target;
    const GpuTarget *gpu = target_name ? gpu_target_find(target_name) : NULL;
    *out = NULL;
    if (threads < 0)
        return fail(err, LATHE_BAD_REQUEST, "%d threads: choose 1 or more, or 0 for all CPUs",
                    threads);
    if (gpu) gpu_target_fill(&target, gpu);
    else TRY(target_find(&target, target_name, err));
    DeviceState *state = malloc(sizeof *state);
    if (!state) return fail(err, LATHE_NO_MEMORY, "no memory for the null device");
    *state = (DeviceState){target, gpu ? gpu->dialect : &c_dialect, threads ? threads : cpu_count()};
    *out = state;
    return true;
}

static void null_close(DeviceState *state) {
    free(state);
}

static void null_describe_target(const DeviceState *state, Target *target) {
    *target = state->target;
}

static const Dialect *null_dialect(const DeviceState *state) {
    return state->dialect;
}

static int null_threads(const DeviceState *state) {
    return state->threads;
}

static void null_unload(DeviceState *state, Program *program) {
    (void)state;
    free(program);
}

static bool null_compile(DeviceState *state, const KernelSource *sources, int n, Program **programs,
                         Error *err) {
    for (int i = 0; i < n; i++) programs[i] = NULL;
    for (int i = 0; i < n; i++) {
        programs[i] = sources[i].text ? malloc(sizeof *programs[i]) : NULL;
        if (programs[i]) {
            programs[i]->n_params = sources[i].n_params;
            continue;
        }
        for (int k = 0; k < i; k++) null_unload(state, programs[k]);
        for (int k = 0; k < i; k++) programs[k] = NULL;
        return sources[i].text
                   ? fail(err, LATHE_NO_MEMORY, "no memory for kernel %s", sources[i].name)
                   : fail(err, LATHE_COMPILE, "kernel %s has no text", sources[i].name);
    }
    return true;
}

static bool null_run(DeviceState *state, const Stage *stages, int n_stages, StepStats *stats,
                     Error *err) {
    (void)state, (void)stages, (void)err;
    if (stats && stats->stage_us)
        memset(stats->stage_us, 0, (size_t)n_stages * sizeof *stats->stage_us);
    return true;
}

const Device null_device = {
    .name = "null",
    .runs_nothing = true,
    .dialect = &c_dialect,
    .dialect_of = null_dialect,
    .open = null_open,
    .close = null_close,
    .describe_target = null_describe_target,
    .threads = null_threads,
    .alloc = host_alloc,
    .release = host_release,
    .upload = host_copy,
    .download = host_copy,
    .has_host_memory = true,
    .compile = null_compile,
    .unload = null_unload,
    .run = null_run,
};

// eval_device: interprets the linear programs of kernels, tile by tile, with floats in double: the oracle.
// In: kernels made for any target of the cpu device's table (their text is not looked at). Out: the bytes that the
// program's meaning gives, whatever CPU this is.
// Invariant: one thread; tiles in rising order, in every other run of a step in falling order, since no answer may depend
// on it; a step allocates nothing.
// Example: lathe logits tiny.gguf --tokens "1 2" --device eval --target avx512vnni
#include <stdlib.h>

#include "base/os.h"
#include "ir/eval_program.h"
#include "runtime/cpu_target.h"
#include "runtime/devices.h"
#include "runtime/host_memory.h"

struct DeviceState { Target target; bool is_falling; };

// Lives in its own arena.
struct Program {
    Arena *arena;
    const char *name;
    EvalCode *code;
};

static bool eval_open(DeviceState **out, const char *target_name, int threads, Error *err) {
    *out = NULL;
    if (threads < 0)
        return fail(err, LATHE_BAD_REQUEST, "%d threads: choose 1 or more, or 0 for all CPUs", threads);
    DeviceState *state = calloc(1, sizeof *state);
    if (!state)
        return fail(err, LATHE_NO_MEMORY, "no memory for the eval device");
    if (!cpu_target_find(&state->target, target_name, err)) {
        free(state);
        return false;
    }
    *out = state;
    return true;
}

static void eval_close(DeviceState *state) { free(state); }
static void eval_describe_target(const DeviceState *state, Target *target) { *target = state->target; }

static int eval_threads(const DeviceState *state) {
    (void)state;
    return 1;
}

static void eval_unload(DeviceState *state, Program *program) {
    (void)state;
    if (program)
        arena_destroy(program->arena);
}

// The error again, with the name of its kernel in front.
static bool in_kernel(const char *name, Error *err) {
    Error cause = *err;
    return fail(err, cause.code, "kernel %s: %s", name, cause.text);
}

static bool compile_one(const KernelSource *source, Program **out, Error *err) {
    if (!source->program)
        return fail(err, LATHE_COMPILE, "kernel %s has no linear program: the eval device interprets that, not text",
                    source->name);
    Arena *arena = arena_create();
    Program *p = arena_new(arena, sizeof *p);
    *p = (Program){.arena = arena, .name = arena_printf(arena, "%s", source->name)};
    p->code = eval_code_make(arena, source->program, err);
    if (!p->code) {
        (void)in_kernel(p->name, err);
        arena_destroy(arena);
        return false;
    }
    *out = p;
    return true;
}

static bool eval_compile(DeviceState *state, const KernelSource *sources, int n, Program **programs, Error *err) {
    for (int i = 0; i < n; i++)
        programs[i] = NULL;
    for (int i = 0; i < n; i++) {
        if (compile_one(&sources[i], &programs[i], err))
            continue;
        for (int k = 0; k < i; k++) {
            eval_unload(state, programs[k]);
            programs[k] = NULL;
        }
        return false;
    }
    return true;
}

static bool run_tiles(const DeviceState *state, const Stage *s, Error *err) {
    if (!state->is_falling) return eval_code_run(s->program->code, s->params, 0, s->tiles, err);
    for (long t = s->tiles; t-- > 0;) TRY(eval_code_run(s->program->code, s->params, t, t + 1, err));
    return true;
}

static bool eval_run(DeviceState *state, const Stage *stages, int n_stages, StepStats *stats, Error *err) {
    for (int i = 0; i < n_stages; i++) {
        const Stage *s = &stages[i];
        uint64_t begin = time_us();
        if (!run_tiles(state, s, err))
            return in_kernel(s->program->name, err);
        if (stats && stats->stage_us)
            stats->stage_us[i] = time_us() - begin;
    }
    state->is_falling = !state->is_falling;
    return true;
}

const Device eval_device = {
    .name = "eval",
    .dialect = &c_dialect,
    .runs_linear = true,
    .open = eval_open,
    .close = eval_close,
    .describe_target = eval_describe_target,
    .threads = eval_threads,
    .alloc = host_alloc,
    .release = host_release,
    .upload = host_copy,
    .download = host_copy,
    .has_host_memory = true,
    .compile = eval_compile,
    .unload = eval_unload,
    .run = eval_run,
};

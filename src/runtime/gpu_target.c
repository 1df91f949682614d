// gpu_target: see gpu_target.h.
#include "runtime/gpu_target.h"

#include <stdio.h>
#include <string.h>

enum { VECTOR_BYTES = 16, VECTOR_REGISTERS = 32 };

static const GpuTarget gpu_targets[] = {
#define GPU_TARGET(name, dialect, dot, adds, group, shuffle, elements, rows, local, ...) \
    {name, &dialect##_dialect, dot, adds, group, shuffle, elements, rows, local, __VA_ARGS__},
#include "runtime/gpu_targets.def"
#undef GPU_TARGET
};
enum { N_TARGETS = sizeof gpu_targets / sizeof *gpu_targets };

const GpuTarget *gpu_target_find(const char *name) {
    for (int i = 0; i < N_TARGETS; i++)
        if (strcmp(gpu_targets[i].name, name) == 0) return &gpu_targets[i];
    return NULL;
}

// Loads and buffers of all of them: 16 bytes at multiples of 16.
void gpu_target_fill(Target *target, const GpuTarget *row) {
    *target = (Target){
        .vector_bytes = VECTOR_BYTES,
        .n_vector_registers = VECTOR_REGISTERS,
        .dot = row->dot,
        .has_atomic_add = row->has_atomic_add,
        .has_fma = true,
        .has_f16_convert = true,
        .has_byte_shuffle = true,
        .has_round = true,
        .max_load_bytes = VECTOR_BYTES,
        .param_alignment = VECTOR_BYTES,
        .local_bytes = row->local_bytes,
        .group_threads = row->group_threads,
        .shuffle_threads = row->shuffle_threads,
        .thread_elements = row->thread_elements,
        .prompt_rows = row->prompt_rows,
        .tiles = row->tiles,
    };
    snprintf(target->name, sizeof target->name, "%s", row->name);
}

const char *gpu_target_names(Arena *arena) {
    TextBuilder b = builder(arena);
    for (int i = 0; i < N_TARGETS; i++) builder_printf(&b, "%s%s", i ? ", " : "", gpu_targets[i].name);
    return builder_cstr(&b);
}

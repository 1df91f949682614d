// opencl_programs: texts become kernels, through the folder of what was compiled earlier (object_folder).
// In: OpenCL C texts. Out: kernels that can be launched.
// Invariant: a binary is taken only for the same text, options, device and driver; one that the driver refuses is compiled
// anew. What the device cannot run (too many arguments, too much local memory) is an error here, before any launch.
// Example: TRY(opencl_program_build(&programs, &source, &built, err)); api->SetKernelArg(built.kernel, …)
#pragma once
#include "runtime/device.h"
#include "runtime/object_folder.h"
#include "runtime/opencl_choice.h"

typedef struct OpenclPrograms {
    const OpenclApi *api;
    const OpenclChoice *choice;
    OpenclContext context;
    const char *options;
    ObjectFolder folder;
    atomic_long hits, compiled;
} OpenclPrograms;

// One kernel. n_slots: buffers that it takes, two arguments each; then the number of tiles. is_group: a group of group_items
// runs a tile; else an item does.
typedef struct OpenclBuilt { OpenclProgram program; OpenclKernel kernel; uint32_t n_slots; size_t group_items; bool is_group; } OpenclBuilt;

// Texts live on the arena.
void opencl_programs_open(OpenclPrograms *programs, Arena *arena, const OpenclApi *api, const OpenclChoice *choice, OpenclContext context);
void opencl_programs_close(OpenclPrograms *programs);
// May be called from several threads.
bool opencl_program_build(OpenclPrograms *programs, const KernelSource *source, OpenclBuilt *out, Error *err) MUST_CHECK;
void opencl_program_release(const OpenclPrograms *programs, OpenclBuilt *built);

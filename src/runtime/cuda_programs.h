// cuda_programs: texts become kernels of a card, through the folder of what was compiled earlier (object_folder).
// In: texts in CUDA C++. Out: functions that can be launched.
// Invariant: an image is taken only for the same text, options and compiler; one that the driver refuses is compiled anew.
// What the card cannot run is an error here, before any launch.
// Example: TRY(cuda_programs_build(&programs, sources, n, built, err)); api->LaunchKernel(built[0].function, …)
#pragma once
#include "runtime/cuda_api.h"
#include "runtime/device.h"
#include "runtime/object_folder.h"

enum { CUDA_MOST_PARAMS = 500 };   // 4,096 bytes of arguments hold so many addresses and a number

typedef struct CudaPrograms {
    const CudaApi *api;
    const char *options[8], *identity;
    int n_options;
    ObjectFolder folder;
    atomic_long hits, compiled;
} CudaPrograms;

typedef struct CudaBuilt { CudaModule module; CudaFunction function; unsigned threads; } CudaBuilt;

// architecture: "sm_90a". Texts live on the arena.
void cuda_programs_open(CudaPrograms *programs, Arena *arena, const CudaApi *api, const char *architecture);
void cuda_programs_close(CudaPrograms *programs);
// Compiles in parallel; the card's context is current. Fails as a whole: then nothing of it is left.
bool cuda_programs_build(CudaPrograms *programs, const KernelSource *sources, int n, CudaBuilt *built, Error *err) MUST_CHECK;
void cuda_program_release(const CudaPrograms *programs, CudaBuilt *built);

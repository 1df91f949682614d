// program_batch: all kernels of a step become programs of a device, or none.
// In: sources, and how the device makes one of them, from any thread. Out: programs in the same order; NULL each where it failed.
// Example: return programs_create(state, sources, n, programs, program_create, opencl_unload, err);
#pragma once
#include "runtime/device.h"

typedef bool ProgramCreate(DeviceState *state, const KernelSource *source, Program **out, Error *err);

// Threads that build kernels at the same time.
int program_threads(void);
// Reports the first failure; what others made until then is unloaded.
bool programs_create(DeviceState *state, const KernelSource *sources, int n, Program **programs, ProgramCreate *create,
                     void (*unload)(DeviceState *state, Program *program), Error *err) MUST_CHECK;

// opencl_choice: which of the machine's OpenCL devices computes, and what it can do.
// In: every device of every platform, LATHE_OPENCL. Out: one, with the facts that the rest needs.
// Invariant: a device that cannot compile, or is of the other byte order, is never chosen.
// Example: LATHE_OPENCL=pocl → the first device with "pocl" in its own or its platform's name
#pragma once
#include "base/arena.h"
#include "runtime/opencl_api.h"

typedef struct OpenclChoice {
    OpenclDevice device;
    const char *name;              // "NAME (PLATFORM)"
    const char *identity;          // changes with whatever would compile a program otherwise: for keys
    bool is_cpu, shares_host_memory, rounds_division;
    uint32_t compute_units;
    uint64_t largest_buffer, local_bytes;
    size_t parameter_bytes;        // of all arguments of a kernel
} OpenclChoice;

// Texts live on the arena. LATHE_DEVICE where there is none, LATHE_BAD_REQUEST where none is meant by LATHE_OPENCL.
bool opencl_choose(const OpenclApi *api, Arena *arena, OpenclChoice *out, Error *err) MUST_CHECK;

// fake_cuda: what the fake driver gives to kernels that the fake compiler built for this CPU.
#pragma once
#include <stdint.h>

typedef struct FakeIndex { unsigned x, y, z; } FakeIndex;

typedef struct FakeHooks {
    FakeIndex thread, block;                                   // of whoever runs now
    void (*barrier)(void);                                     // all threads of the block come to it
    uint32_t (*exchange)(uint32_t mask, uint32_t value, int distance);   // those of the mask come to it
    void (*touch)(unsigned long at, int n, int is_store);      // bytes at .. at + n - 1 of what the threads of a block share
} FakeHooks;

// How often the driver was asked for what costs a step time; fake_cuda_counts gives it.
typedef struct FakeCounts { unsigned long graphs_made, graph_launches, copies_in, copies_out, waits; } FakeCounts;
typedef void FakeCountsGet(FakeCounts *counts);

typedef struct FakeKernel {
    void (*call)(void **arguments);
    int n_arguments, threads;
    const char *name;
} FakeKernel;

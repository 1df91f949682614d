// engine_private: what the files of engine/ share.
#pragma once
#include <pthread.h>
#include "base/map.h"
#include "base/vec.h"
#include "engine/engine.h"
#include "runtime/source_cache.h"
#include "schedule/schedule.h"

// is_shared: the host reads it where it is.
typedef struct Buffer { void *at; size_t nbytes; bool is_owned, is_shared; } Buffer;

// One distinct kernel: compiled once an engine, whatever steps use it.
typedef struct Compiled {
    Arena *arena;              // holds the linear program where the device runs that; else NULL
    UOpList linear;
    const char *name, *source;
    const void *key;           // canonical
    size_t key_bytes;
    int n_params;
    int64_t traffic;           // bytes of its buffers that it touches; 0: not known yet
    const int64_t *whole;      // of each slot: the bytes of what it reads from end to end and does not write; else 0
    Program *program;          // NULL until its batch is compiled
} Compiled;

struct Engine {
    const Device *device;
    DeviceState *state;
    Target target;
    const Dialect *dialect;
    Arena *arena;
    SumForm sums;
    bool sums_are_set, shares_all;   // by LATHE_SUMS; also where it cannot pay
    pthread_mutex_t compiling; // held by whoever compiles a step; guards all but buffers
    pthread_mutex_t adding;    // of buffers; never held for long
    Arena *buffer_arena;
    VEC(Buffer) buffers;       // by id
    int64_t counters;          // buffer of LAST_TILEs' cells, 0 between kernels: all steps' own; −1 where the target has no such kernels
    Map programs;              // canonical key → Compiled *
    SourceCache *sources;      // NULL: every step is scheduled, every new kernel goes through codegen
    VEC(Compiled *) compiled;
    uint64_t compile_us;
    int n_generated;           // kernels that went through codegen
    int n_scheduled;           // steps that went through schedule
};

Buffer engine_buffer(Engine *e, int64_t id);          // id must be one of ours
int64_t engine_buffer_count(Engine *e);

// program.c. kernel → Compiled, known or new; new ones are compiled by program_batch. own: the arena that the kernel
// lies on; a new Compiled may take it over (then *own is NULL).
bool program_prepare(Engine *e, const Canonical *kernel, Arena **own, Compiled **out, Error *err) MUST_CHECK;
// The same for the key of a kernel that this engine met, or whose text an earlier run kept; NULL: neither.
Compiled *program_known(Engine *e, Arena *arena, const void *key, size_t key_bytes, int n_params);
bool program_batch(Engine *e, Error *err) MUST_CHECK;

// device.h: what a device is: one struct of function pointers, one row in devices.c.
// A kernel is a tile body plus a tile count; who runs which tile is the launcher's business. A step is a table of
// stages; stages with needs_barrier wait until all earlier stages are done.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "ir/target.h"
#include "ir/uop.h"
#include "render/dialect.h"

typedef struct DeviceState DeviceState;   // private to the device
typedef struct Program Program;           // one compiled kernel, private to the device

// One kernel to compile. text is in the device's dialect; program is the linear program it was rendered from
// (stays alive as long as the Program where the device runs linear programs; NULL elsewhere).
typedef struct KernelSource { const char *name; const char *text; const UOpList *program; int n_params; } KernelSource;

// Memory from `at` to `end`.
typedef struct Span { const char *at, *end; } Span;

// C-like CPU kernels have this form: runs the tiles first ≤ tile < end. params[slot] is the address of a buffer. A kernel that leaves
// memory idle asks for lines of `later` meanwhile, and moves its beginning behind them; it has `const long NAME_asks`, how many a tile
// asks for at most.
typedef void (*CpuKernel)(void *const *params, long first, long end, Span *later);

typedef struct Stage {
    Program *program;
    void *const *params;       // device addresses, one a slot
    long tiles;                // ≥ 1
    bool needs_barrier;        // some earlier stage since the last barrier writes what this one touches
    size_t nbytes;             // that it touches
    const Span *reads;         // what it reads from end to end, and no stage writes
    int n_reads;
} Stage;

typedef struct StepStats { uint64_t *stage_us; } StepStats;   // NULL or one entry a stage (then stages run one by one)

typedef struct Device {
    const char *name;
    const Dialect *dialect;    // of its texts
    const Dialect *(*dialect_of)(const DeviceState *state);   // where that depends on the target; NULL: it does not
    bool runs_linear;          // linear programs are kept for it
    bool runs_nothing;         // what it leaves in memory is no result
    // target_name: NULL or "native" for what the machine has; threads: 0 for all CPUs.
    bool (*open)(DeviceState **state, const char *target_name, int threads, Error *err);
    void (*close)(DeviceState *state);
    void (*describe_target)(const DeviceState *state, Target *target);
    const char *(*hardware)(const DeviceState *state);   // which of several it computes on; NULL: there is one only
    int (*threads)(const DeviceState *state);
    // Another number of threads, 0 for all CPUs, while no step runs; the old ones stay where it fails. NULL: none of ours.
    bool (*set_threads)(DeviceState *state, int threads, Error *err);
    // Device memory, zeroed, aligned to 64 bytes, with 64 readable bytes behind it. NULL where it cannot be had.
    void *(*alloc)(DeviceState *state, size_t nbytes);
    // Bytes that are left, and that there are in all; 0 where that is not known. NULL: it is the host's memory.
    void (*room)(DeviceState *state, size_t *free_bytes, size_t *total_bytes);
    // Device address of host memory that stays as it is, readable 4,096 bytes behind its end. NULL, as a function or as its
    // answer: that memory must be copied. Released as what alloc gives.
    void *(*wrap)(DeviceState *state, const void *data, size_t nbytes);
    void (*release)(DeviceState *state, void *at, size_t nbytes);
    // The same in memory that kernels write and the host reads at the same address once run has come back: what is so small that a
    // copy would take longer. NULL, as a function or as its answer: there is none. Released by release_shared.
    void *(*alloc_shared)(DeviceState *state, size_t nbytes);
    void (*release_shared)(DeviceState *state, void *at, size_t nbytes);
    // Memory of the host, *nbytes of it, to be filled and uploaded from: it stays as it is until it is given again, which waits
    // for its uploads. NULL, as a function or as its answer: there is none, any memory is as good.
    void *(*stage)(DeviceState *state, size_t *nbytes);
    void (*upload)(DeviceState *state, void *to, const void *from, size_t nbytes);
    void (*download)(DeviceState *state, void *to, const void *from, size_t nbytes);
    bool has_host_memory;      // device addresses are host addresses: mapped files are used in place
    bool compiles_beside_runs; // one thread may compile while another runs a step
    // Compiles n kernels, in parallel where it can. Fails as a whole; programs are then NULL.
    bool (*compile)(DeviceState *state, const KernelSource *sources, int n, Program **programs, Error *err);
    void (*unload)(DeviceState *state, Program *program);
    // Runs all stages in order and waits. Called again and again with the same table, which stays as it is: allocates nothing.
    bool (*run)(DeviceState *state, const Stage *stages, int n_stages, StepStats *stats, Error *err);
    // The table that begins there will not be run any more, so that another may stand in its place. NULL: nothing is known of tables.
    void (*forget)(DeviceState *state, const Stage *stages);
} Device;

extern const Device *const devices[];      // NULL-terminated: in the order of devices.def
const Device *device_find(const char *name);  // NULL where unknown

// program_batch: see program_batch.h.
#include "runtime/program_batch.h"

#include "base/os.h"
#include "base/parallel.h"

enum { MOST_THREADS = 17 };

typedef struct Batch { DeviceState *state; const KernelSource *sources; Program **programs; ProgramCreate *create; } Batch;

int program_threads(void) { return cpu_count() < MOST_THREADS ? cpu_count() : MOST_THREADS; }

static bool source_create(void *context, int i, Error *err) {
    const Batch *batch = context;
    return batch->create(batch->state, &batch->sources[i], &batch->programs[i], err);
}

bool programs_create(DeviceState *state, const KernelSource *sources, int n, Program **programs, ProgramCreate *create,
                     void (*unload)(DeviceState *state, Program *program), Error *err) {
    for (int i = 0; i < n; i++) programs[i] = NULL;
    if (parallel_run(n, program_threads(), source_create, &(Batch){state, sources, programs, create}, err)) return true;
    for (int i = 0; i < n; i++) {
        unload(state, programs[i]);
        programs[i] = NULL;
    }
    return false;
}

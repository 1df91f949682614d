// parallel: see parallel.h.
#include "base/parallel.h"

#include <stdatomic.h>

#include "base/os.h"

typedef struct Batch {
    int n;
    ParallelJob job;
    void *context;
    atomic_int next;
    atomic_bool has_failed;            // who set it first wrote err
    Error *err;
} Batch;

static void batch_run(void *opaque) {
    Batch *b = opaque;
    for (int i; (i = atomic_fetch_add(&b->next, 1)) < b->n && !atomic_load(&b->has_failed);) {
        Error why = {0};
        if (b->job(b->context, i, &why)) continue;
        if (!atomic_exchange(&b->has_failed, true)) *b->err = why;
    }
}

bool parallel_run(int n, int n_threads, ParallelJob job, void *context, Error *err) {
    Thread *threads[PARALLEL_MOST];
    Batch batch = {.n = n, .job = job, .context = context, .err = err};
    if (n_threads > n) n_threads = n;
    if (n_threads > PARALLEL_MOST) n_threads = PARALLEL_MOST;
    for (int i = 0; i + 1 < n_threads; i++) threads[i] = thread_start(batch_run, &batch);
    batch_run(&batch);
    for (int i = 0; i + 1 < n_threads; i++) thread_join(threads[i]);
    return !atomic_load(&batch.has_failed);
}

// workers: a fixed pool of threads that run one function together, meet at barriers, share tiles.
// In: a step function. Out: it has run on every worker; what they wrote is visible to the caller.
// Invariant: nothing is allocated after workers_create; a waiting worker spins for some
// microseconds and then sleeps, so that a core taken by a neighbour costs its share of the work and
// not the whole step.
// Example: Workers *w = workers_create(4); workers_run(w, step, &arg); workers_destroy(w);
#pragma once
#include <stdatomic.h>
#include <stdint.h>

typedef struct Workers Workers;
enum { WORKERS_MAX = 1024 };

// n in 1 … WORKERS_MAX: n - 1 threads beside the caller. NULL where one of them cannot be had.
Workers *workers_create(int n);
void workers_destroy(Workers *workers);            // NULL is allowed; no step may be running
int workers_count(const Workers *workers);

// Microseconds of one step, all but the first added over its workers.
typedef struct WorkerTimes {
    uint64_t wall_us;          // from the call to its end
    uint64_t busy_us;          // on a core and not waiting for other workers
    uint64_t waited_us;        // for other workers, on a core or asleep
    uint64_t off_us;           // ready to run, but others had the core
} WorkerTimes;
void worker_times_add(WorkerTimes *sum, const WorkerTimes *more);

// Runs step(arg, worker, n) once on each of the first n workers (the caller is worker 0) and waits for all; n in 1 … workers_count. The
// others sleep meanwhile. One call at a time, and none from inside a step.
WorkerTimes workers_run(Workers *workers, int n, void (*step)(void *arg, int worker, int n_workers), void *arg);

// Inside a step: waits until every worker of the step has come here. All of them must call it equally often.
void workers_barrier(Workers *workers, int worker);

// Inside a step, by this worker: waits until *counter >= target. Whoever brings a counter to a value that others
// may wait for calls workers_signal afterwards.
void workers_wait(Workers *workers, int worker, atomic_long *counter, long target);
void workers_signal(Workers *workers);

// Which tile comes next; zero it between uses. Alone on its cache line: all write to it.
typedef struct TileCounter { _Alignas(64) atomic_long next; } TileCounter;

// Takes the next `portion` (>= 1) tiles, or those left. Returns the first one, or -1 where all n_tiles are taken; *end: behind the last one.
long tile_take(TileCounter *counter, long n_tiles, long portion, long *end);

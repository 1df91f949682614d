// workers: one way of waiting (look, spin, sleep) for the start of a step, its barriers, its end.
// In: counters that only rise. Out: workers_wait returns once a counter has its target.
// Invariant: a waiter counts itself into `parked` before it looks for the last time, and a
// signaller changes `signal` before it reads `parked`: so either the waiter sees the change or it
// is woken. Who takes no part in a step is not woken by it.
// Example: barrier number k of a step is passed when `arrived` has risen by k·n since its start.
#include "runtime/workers.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"

// A product's stage takes 50-200 µs and neighbours finish within a tile of each other, so the spin
// bridges most waits; with more workers than CPUs the one waited for needs this very CPU.
enum { SPIN_US = 40, SPIN_CROWDED_US = 2, LOOKS_PER_CLOCK = 16 };

// Where waiters sleep.
typedef struct WaitPoint {
    _Alignas(64) atomic_uint signal;   // changes with every point_signal
    atomic_int parked;                 // workers that sleep or are about to
} WaitPoint;

typedef struct Seat {
    Workers *workers;
    int index;
    Thread *thread;
    WaitPoint point;           // for its next step
    atomic_long called;        // steps that this worker was called to
    uint64_t spun_us, slept_us;        // in the running step
    uint64_t done_us;          // when it came to the end of the step
    WorkerTimes times;         // until then
} Seat;

struct Workers {
    int n, n_active;                   // n_active: those of the running step
    uint64_t spin_us;
    Seat *seats;                       // [n]; seat 0 is the caller's and has no thread
    void (*step)(void *, int, int);    // of the running step; NULL tells the threads to end
    void *arg;
    uint64_t began_us;
    WaitPoint point;                   // for counters inside a step
    long arrived_before;               // arrivals at barriers of earlier steps
    _Alignas(64) atomic_long arrived;  // arrivals at barriers so far, of all workers together
};

static bool counter_reached(atomic_long *counter, long target) {
    return atomic_load_explicit(counter, memory_order_acquire) >= target;
}

static bool wait_spinning(Seat *seat, atomic_long *counter, long target) {
    uint64_t begin = time_us(), now = begin;
    bool reached = false;
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK && !reached; i++) {
            reached = counter_reached(counter, target);
            if (!reached) cpu_relax();
        }
        now = time_us();
    } while (!reached && now < begin + seat->workers->spin_us);
    seat->spun_us += now - begin;
    return reached;
}

static void wait_asleep(Seat *seat, WaitPoint *point, unsigned seen, atomic_long *counter, long target) {
    uint64_t begin = time_us();
    atomic_fetch_add(&point->parked, 1);
    if (!counter_reached(counter, target)) futex_wait(&point->signal, seen);
    atomic_fetch_sub(&point->parked, 1);
    seat->slept_us += time_us() - begin;
}

static void point_wait(Seat *seat, WaitPoint *point, atomic_long *counter, long target) {
    for (;;) {
        unsigned seen = atomic_load(&point->signal);
        if (counter_reached(counter, target) || wait_spinning(seat, counter, target)) return;
        wait_asleep(seat, point, seen, counter, target);
    }
}

static void point_signal(WaitPoint *point) {
    atomic_fetch_add(&point->signal, 1);
    if (atomic_load(&point->parked) > 0) futex_wake_all(&point->signal);
}

void workers_wait(Workers *workers, int worker, atomic_long *counter, long target) {
    point_wait(&workers->seats[worker], &workers->point, counter, target);
}

void workers_signal(Workers *workers) {
    point_signal(&workers->point);
}

void workers_barrier(Workers *workers, int worker) {
    long n = workers->n_active, earlier = workers->arrived_before;
    long before = atomic_fetch_add(&workers->arrived, 1);
    long target = earlier + ((before - earlier) / n + 1) * n;
    if (before + 1 == target)
        workers_signal(workers);
    else
        workers_wait(workers, worker, &workers->arrived, target);
}

// ---- a step ----

void worker_times_add(WorkerTimes *sum, const WorkerTimes *more) {
    sum->wall_us += more->wall_us;
    sum->busy_us += more->busy_us;
    sum->waited_us += more->waited_us;
    sum->off_us += more->off_us;
}

static uint64_t less(uint64_t a, uint64_t b) {   // two clocks may disagree by a little
    return a > b ? a - b : 0;
}

// A worker that comes late because others have its core was off it, too: its time begins with the step's.
static void seat_account(Seat *seat, uint64_t cpu_us) {
    seat->done_us = time_us();
    uint64_t wall = less(seat->done_us, seat->workers->began_us);
    seat->times = (WorkerTimes){.busy_us = less(cpu_us, seat->spun_us), .waited_us = seat->spun_us + seat->slept_us,
                                .off_us = less(wall, cpu_us + seat->slept_us)};
}

static void worker_main(void *opaque) {
    Seat *seat = opaque;
    Workers *workers = seat->workers;
    for (long turn = 1;; turn++) {
        point_wait(seat, &seat->point, &seat->called, turn);
        if (!workers->step) return;
        seat->spun_us = seat->slept_us = 0;
        uint64_t cpu_before = thread_cpu_us();
        workers->step(workers->arg, seat->index, workers->n_active);
        seat_account(seat, thread_cpu_us() - cpu_before);
        workers_barrier(workers, seat->index);
    }
}

static void step_start(Workers *workers, int n, void (*step)(void *, int, int), void *arg) {
    workers->step = step;
    workers->arg = arg;
    workers->n_active = n;
    workers->began_us = time_us();
    workers->arrived_before = atomic_load(&workers->arrived);
    for (int i = 1; i < n; i++) {
        atomic_fetch_add(&workers->seats[i].called, 1);
        point_signal(&workers->seats[i].point);
    }
}

WorkerTimes workers_run(Workers *workers, int n, void (*step)(void *arg, int worker, int n_workers), void *arg) {
    CHECK(step && n >= 1 && n <= workers->n);
    Seat *own = &workers->seats[0];
    own->spun_us = own->slept_us = 0;
    uint64_t cpu_before = thread_cpu_us();
    step_start(workers, n, step, arg);
    step(arg, 0, n);
    seat_account(own, thread_cpu_us() - cpu_before);
    workers_barrier(workers, 0);
    uint64_t end = time_us();
    WorkerTimes times = {.wall_us = end - workers->began_us};
    for (int i = 0; i < n; i++) {
        worker_times_add(&times, &workers->seats[i].times);
        times.waited_us += end - workers->seats[i].done_us;
    }
    return times;
}

Workers *workers_create(int n) {
    CHECK(n >= 1 && n <= WORKERS_MAX);
    Workers *workers = aligned_alloc(_Alignof(Workers), sizeof *workers);
    Seat *seats = aligned_alloc(_Alignof(Seat), (size_t)n * sizeof *seats);
    if (!workers || !seats) {
        free(workers);
        free(seats);
        return NULL;
    }
    memset(workers, 0, sizeof *workers);
    memset(seats, 0, (size_t)n * sizeof *seats);
    workers->seats = seats;
    workers->spin_us = n > cpu_count() ? SPIN_CROWDED_US : SPIN_US;
    workers->n = n;
    for (int i = 0; i < n; i++) {
        seats[i].workers = workers;
        seats[i].index = i;
    }
    for (int i = 1; i < n; i++) {
        seats[i].thread = thread_start(worker_main, &seats[i]);
        if (!seats[i].thread) {
            workers_destroy(workers);
            return NULL;
        }
    }
    return workers;
}

void workers_destroy(Workers *workers) {
    if (!workers) return;
    step_start(workers, workers->n, NULL, NULL);
    for (int i = 1; i < workers->n; i++) thread_join(workers->seats[i].thread);
    free(workers->seats);
    free(workers);
}

int workers_count(const Workers *workers) {
    return workers->n;
}

long tile_take(TileCounter *counter, long n_tiles, long portion, long *end) {
    CHECK(portion >= 1);
    long first = atomic_load_explicit(&counter->next, memory_order_relaxed);
    do {
        if (first >= n_tiles) return -1;
        *end = n_tiles - first < portion ? n_tiles : first + portion;
    } while (!atomic_compare_exchange_weak_explicit(&counter->next, &first, *end, memory_order_relaxed, memory_order_relaxed));
    return first;
}

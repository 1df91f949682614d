// workers: one way of waiting (look, spin, sleep) for the start of a step, its barriers, its end.
// In: counters that only rise. Out: workers_wait returns once a counter has its target.
// Invariant: a waiter counts itself into `parked` before it looks for the last time, and a
// signaller changes `signal` before it reads `parked`: so either the waiter sees the change or it
// is woken.
// Example: barrier number k is passed when `arrived` has risen to k·n.
#include "runtime/workers.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"

// A product's stage takes 50-200 µs and neighbours finish within a tile of each other, so the spin
// bridges most waits; with more workers than CPUs the one waited for needs this very CPU.
enum { SPIN_US = 40, SPIN_CROWDED_US = 2, LOOKS_PER_CLOCK = 16 };

typedef struct Seat { Workers *workers; int index; Thread *thread; } Seat;

struct Workers {
    int n;
    uint64_t spin_us;
    Seat *seats;                       // [n]; seat 0 is the caller's and has no thread
    void (*step)(void *, int, int);    // of the running step; NULL tells the threads to end
    void *arg;
    _Alignas(64) atomic_long started;  // steps begun so far
    _Alignas(64) atomic_long arrived;  // arrivals at barriers so far, of all workers together
    _Alignas(64) atomic_uint signal;   // changes with every workers_signal
    _Alignas(64) atomic_int parked;    // workers that sleep or are about to
};

static bool counter_reached(atomic_long *counter, long target) {
    return atomic_load_explicit(counter, memory_order_acquire) >= target;
}

static bool wait_spinning(const Workers *workers, atomic_long *counter, long target) {
    uint64_t deadline = time_us() + workers->spin_us;
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            if (counter_reached(counter, target)) return true;
            cpu_relax();
        }
    } while (time_us() < deadline);
    return false;
}

void workers_wait(Workers *workers, atomic_long *counter, long target) {
    for (;;) {
        unsigned seen = atomic_load(&workers->signal);
        if (counter_reached(counter, target) || wait_spinning(workers, counter, target)) return;
        atomic_fetch_add(&workers->parked, 1);
        if (!counter_reached(counter, target)) futex_wait(&workers->signal, seen);
        atomic_fetch_sub(&workers->parked, 1);
    }
}

void workers_signal(Workers *workers) {
    atomic_fetch_add(&workers->signal, 1);
    if (atomic_load(&workers->parked) > 0) futex_wake_all(&workers->signal);
}

void workers_barrier(Workers *workers) {
    long n = workers->n;
    long before = atomic_fetch_add(&workers->arrived, 1);
    long target = (before / n + 1) * n;
    if (before + 1 == target)
        workers_signal(workers);
    else
        workers_wait(workers, &workers->arrived, target);
}

static void worker_main(void *opaque) {
    const Seat *seat = opaque;
    Workers *workers = seat->workers;
    for (long step = 1;; step++) {
        workers_wait(workers, &workers->started, step);
        if (!workers->step) return;
        workers->step(workers->arg, seat->index, workers->n);
        workers_barrier(workers);
    }
}

static void step_start(Workers *workers, void (*step)(void *, int, int), void *arg) {
    workers->step = step;
    workers->arg = arg;
    atomic_fetch_add(&workers->started, 1);
    workers_signal(workers);
}

void workers_run(Workers *workers, void (*step)(void *arg, int worker, int n_workers), void *arg) {
    CHECK(step);
    step_start(workers, step, arg);
    step(arg, 0, workers->n);
    workers_barrier(workers);
}

Workers *workers_create(int n) {
    CHECK(n >= 1 && n <= WORKERS_MAX);
    Workers *workers = aligned_alloc(_Alignof(Workers), sizeof *workers);
    Seat *seats = calloc((size_t)n, sizeof *seats);
    if (!workers || !seats) {
        free(workers);
        free(seats);
        return NULL;
    }
    memset(workers, 0, sizeof *workers);
    workers->seats = seats;
    workers->spin_us = n > cpu_count() ? SPIN_CROWDED_US : SPIN_US;
    workers->n = n;
    for (int i = 1; i < n; i++) {
        seats[i] = (Seat){.workers = workers, .index = i};
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
    step_start(workers, NULL, NULL);
    for (int i = 1; i < workers->n; i++) thread_join(workers->seats[i].thread);
    free(workers->seats);
    free(workers);
}

int workers_count(const Workers *workers) {
    return workers->n;
}

long tile_take(TileCounter *counter, long n_tiles, long least, long parts, long *end) {
    CHECK(least >= 1 && parts >= 1);
    long first = atomic_load_explicit(&counter->next, memory_order_relaxed), portion;
    do {
        long left = n_tiles - first;
        if (left <= 0) return -1;
        portion = left / parts;
        if (portion < least) portion = left < least ? left : least;
    } while (!atomic_compare_exchange_weak_explicit(&counter->next, &first, first + portion, memory_order_relaxed, memory_order_relaxed));
    *end = first + portion;
    return first;
}

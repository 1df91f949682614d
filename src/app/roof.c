// roof: reads a big buffer as fast as plain code can, by three kernels, and reports the best median.
// In: thread count and buffer size. Out: GB/s. Invariant: every byte is read once a round, by one thread.
// Example: with 2 threads each reads one half; the time is that of the slower one
#include "app/roof.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "app/figures.h"
#include "base/os.h"

typedef uint64_t Lanes __attribute__((vector_size(64), aligned(64)));
enum { ROUNDS = 5, STREAMS = 4, THREADS_MAX = 1024, PREFETCH_AHEAD = 32 };

typedef struct Part {
    const Lanes *at;
    size_t n;                       // Lanes, a multiple of STREAMS
    uint64_t (*read)(const Lanes *at, size_t n);
    volatile uint64_t sum;          // keeps the reads alive
} Part;

static uint64_t lanes_fold(const Lanes *lanes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof *lanes / sizeof (*lanes)[0]; i++) sum += (*lanes)[i];
    return sum;
}

static uint64_t read_one_stream(const Lanes *at, size_t n) {
    Lanes a = {0}, b = {0};
    for (size_t i = 0; i < n; i += 2) {
        a += at[i];
        b += at[i + 1];
    }
    a += b;
    return lanes_fold(&a);
}

static uint64_t read_streams(const Lanes *at, size_t n) {
    Lanes sums[STREAMS] = {0};
    size_t stride = n / STREAMS;
    for (size_t i = 0; i < stride; i++)
        for (size_t s = 0; s < STREAMS; s++) sums[s] += at[s * stride + i];
    Lanes all = sums[0] + sums[1] + sums[2] + sums[3];
    return lanes_fold(&all);
}

static uint64_t read_prefetched(const Lanes *at, size_t n) {
    Lanes a = {0}, b = {0};
    for (size_t i = 0; i < n; i += 2) {
        __builtin_prefetch(at + i + PREFETCH_AHEAD, 0, 0);
        __builtin_prefetch(at + i + PREFETCH_AHEAD + 1, 0, 0);
        a ^= at[i];
        b ^= at[i + 1];
    }
    a ^= b;
    return lanes_fold(&a);
}

static uint64_t (*const kernels[])(const Lanes *, size_t) = {read_one_stream, read_streams, read_prefetched};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

static void part_read(void *arg) {
    Part *part = arg;
    part->sum += part->read(part->at, part->n);
}

static void part_touch(void *arg) {
    Part *part = arg;
    memset((void *)(uintptr_t)part->at, 1, part->n * sizeof(Lanes));
}

static double round_seconds(Part *parts, int threads, void (*run)(void *)) {
    Thread *started[THREADS_MAX];
    uint64_t begin = time_us();
    for (int t = 1; t < threads; t++) started[t] = thread_start(run, &parts[t]);
    run(&parts[0]);
    for (int t = 1; t < threads; t++) {
        if (started[t]) thread_join(started[t]);
        else run(&parts[t]);
    }
    return (double)(time_us() - begin) / 1e6;
}

size_t roof_bytes(size_t free_bytes) {
    size_t most = (size_t)2 << 30, share = free_bytes / 4;
    return share < most ? share : most;
}

size_t roof_default_bytes(void) { return roof_bytes(memory_available_bytes()); }

struct Roof {
    Part *parts;
    Lanes *buffer;
    int threads;
    size_t nbytes;                  // of the buffer
    double gb_s;
};

static double kernel_gb_s(Roof *r, uint64_t (*read)(const Lanes *, size_t)) {
    double seconds[ROUNDS];
    for (int t = 0; t < r->threads; t++) r->parts[t].read = read;
    for (int i = 0; i < ROUNDS; i++) seconds[i] = round_seconds(r->parts, r->threads, part_read);
    return (double)(r->parts[0].n * (size_t)r->threads * sizeof(Lanes)) / median_of(seconds, ROUNDS) / 1e9;
}

static void best_kernel_find(Roof *r) {
    uint64_t (*best)(const Lanes *, size_t) = kernels[0];
    for (int k = 0; k < KERNELS; k++) {
        double gb_s = kernel_gb_s(r, kernels[k]);
        if (gb_s <= r->gb_s) continue;
        r->gb_s = gb_s;
        best = kernels[k];
    }
    for (int t = 0; t < r->threads; t++) r->parts[t].read = best;
}

Roof *roof_open(int threads, size_t nbytes) {
    if (threads < 1) threads = 1;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    size_t n = nbytes / sizeof(Lanes) / (size_t)threads / STREAMS * STREAMS;
    Roof *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    *r = (Roof){.parts = calloc((size_t)threads, sizeof *r->parts), .buffer = n ? memory_pages(nbytes) : NULL,
                .threads = threads, .nbytes = nbytes};
    if (!r->parts || !r->buffer) {
        roof_close(r);
        return NULL;
    }
    for (int t = 0; t < threads; t++) r->parts[t] = (Part){.at = r->buffer + (size_t)t * n, .n = n};
    round_seconds(r->parts, threads, part_touch);
    best_kernel_find(r);
    return r;
}

double roof_gb_s(const Roof *r) { return r->gb_s; }

double roof_gb_s_now(Roof *r) { return kernel_gb_s(r, r->parts[0].read); }

size_t roof_held_bytes(const Roof *r) { return r->nbytes; }

void roof_close(Roof *r) {
    if (!r) return;
    if (r->buffer) memory_pages_free(r->buffer, r->nbytes);
    free(r->parts);
    free(r);
}

double roof_measure(int threads, size_t nbytes) {
    Roof *roof = roof_open(threads, nbytes);
    double gb_s = roof ? roof_gb_s(roof) : 0;
    roof_close(roof);
    return gb_s;
}

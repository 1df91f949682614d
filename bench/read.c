// read: the plainest reader of memory, beside which the roof of `lathe bench` is held: a loop that adds up 64-bit numbers,
// compiled with -O3 and nothing else of the project.
// In: threads, GiB. Out: GB/s of each of five rounds and their median. Example: build/bench/read 2 2
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ROUNDS = 5, THREADS_MAX = 256 };

typedef struct Part { const uint64_t *at; size_t n; uint64_t sum; } Part;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *part_read(void *arg) {
    Part *p = arg;
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n; i++) sum += p->at[i];
    p->sum = sum;
    return NULL;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 1, gib = argc > 2 ? atol(argv[2]) : 2;
    if (threads < 1 || threads > THREADS_MAX || gib < 1 || gib > 64) {
        fprintf(stderr, "read: usage: read THREADS (1 to %d) GIB (1 to 64)\n", THREADS_MAX);
        return 2;
    }
    size_t nbytes = (size_t)gib << 30, n = nbytes / sizeof(uint64_t) / (size_t)threads;
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "read: no memory for %ld GiB\n", gib);
        return 1;
    }
    madvise(memory, nbytes, MADV_HUGEPAGE);
    memset(memory, 1, nbytes);
    Part parts[THREADS_MAX];
    double rates[ROUNDS];
    uint64_t sum = 0;
    for (int r = 0; r < ROUNDS; r++) {
        pthread_t started[THREADS_MAX];
        double begin = now_s();
        for (long t = 0; t < threads; t++) {
            parts[t] = (Part){.at = (const uint64_t *)memory + (size_t)t * n, .n = n};
            if (pthread_create(&started[t], NULL, part_read, &parts[t])) return 1;
        }
        for (long t = 0; t < threads; t++) pthread_join(started[t], NULL), sum += parts[t].sum;
        rates[r] = (double)(n * sizeof(uint64_t) * (size_t)threads) / (now_s() - begin) / 1e9;
        printf("%.2f ", rates[r]);
    }
    qsort(rates, ROUNDS, sizeof *rates, by_size);
    printf("GB/s, median %.2f (sum %llx)\n", rates[ROUNDS / 2], (unsigned long long)sum);
    return 0;
}

// fake_cuda: the functions of CUDA's driver that lathe calls, for machines without a card. Kernels that the fake compiler
// (fake_nvrtc) built run on this CPU, each thread of a block as a fiber, one block after the other; images of the real compiler
// are taken and run as nothing.
// In: FAKE_CUDA_CAPABILITY=90 (or 80), FAKE_CUDA_MEMORY bytes, FAKE_CUDA_COPY_US that a copy takes, FAKE_CUDA_RUNS_NOTHING where only calls count. Out: memory that is the host's; results of kernels.
// Invariant: threads that do not all come to a barrier, or to an exchange, end the program with a message; so do two that touch the
// same shared byte between two barriers, one of them to store.
// Example: LATHE_CUDA=build/tests/libfakecuda.so LATHE_NVRTC=build/tests/libfakenvrtc.so lathe logits --device cuda --tokens 1
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_cuda.h"

enum { OK, OUT_OF_MEMORY = 2, NOT_FOUND = 500, STACK_BYTES = 64 << 10, MOST_THREADS = 1024, RING = 16 };

// ---------------------------------------------------------------- fibers

typedef struct Fiber { void *stack_top; char *stack; bool is_done; unsigned barriers, exchanges[33]; uint32_t sent[33][RING]; } Fiber;   // exchanges: of each width
static Fiber fibers[MOST_THREADS];
static void *scheduler_top;
static int n_threads, current;
static unsigned long progress;
static FakeHooks hooks;
static void (*running)(void **);
static void **running_arguments;
static const char *running_name;

void fake_switch(void **from, void *to);
__asm__(".text\n.globl fake_switch\n.hidden fake_switch\nfake_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void yield_now(void) {
    int self = current;
    fake_switch(&fibers[self].stack_top, scheduler_top);
    current = self;
}

static void die(const char *why) {
    fprintf(stderr, "fake CUDA: %s, thread %d of block %u: %s\n", running_name, current, hooks.block.x, why);
    abort();
}

static void fiber_main(void) {
    running(running_arguments);
    fibers[current].is_done = true;
    progress++;
    for (;;) yield_now();
}

static void hook_barrier(void) {
    unsigned own = ++fibers[current].barriers;
    progress++;
    for (;;) {
        bool all = true;
        for (int i = 0; i < n_threads; i++) {
            if (fibers[i].is_done && fibers[i].barriers < own) die("waits at a barrier that another thread never comes to");
            all &= fibers[i].barriers >= own;
        }
        if (all) return;
        yield_now();
    }
}

static uint32_t hook_exchange(uint32_t mask, uint32_t value, int distance) {
    Fiber *own = &fibers[current];
    int lane = current & 31, first = current & ~31, other = first + (lane ^ distance);
    if (!(mask >> lane & 1) || !(mask >> (lane ^ distance) & 1)) die("exchanges with a thread outside of the mask");
    int width = __builtin_popcount(mask);
    unsigned turn = ++own->exchanges[width];
    own->sent[width][turn % RING] = value;
    progress++;
    for (;;) {
        bool all = true;
        for (int i = 0; i < 32; i++) {
            if (!(mask >> i & 1) || first + i >= n_threads) continue;
            if (fibers[first + i].is_done && fibers[first + i].exchanges[width] < turn) die("waits for a thread of its mask that has ended");
            all &= fibers[first + i].exchanges[width] >= turn;
        }
        if (all) return fibers[other].sent[width][turn % RING];
        yield_now();
    }
}

// ---------------------------------------------------------------- shared memory

enum { MOST_SHARED = 228 << 10 };
typedef struct Byte { uint64_t stored, loaded; int by, for_whom; } Byte;   // when, and by which thread; for_whom: -1: several
static Byte shared[MOST_SHARED];
static uint64_t blocks;

static void hook_touch(unsigned long at, int n, int is_store) {
    uint64_t now = (blocks << 20 | fibers[current].barriers) + 1;
    for (unsigned long i = at; i < at + (unsigned long)n && i < MOST_SHARED; i++) {
        Byte *b = &shared[i];
        if (b->stored == now && b->by != current) die(is_store ? "stores what another thread stores before the next barrier" : "reads what another thread stores before the next barrier");
        if (is_store && b->loaded == now && b->for_whom != current) die("stores what another thread reads before the next barrier");
        if (is_store) b->stored = now, b->by = current;
        else b->for_whom = b->loaded == now && b->for_whom != current ? -1 : current, b->loaded = now;
    }
}

static void fiber_start(int i) {
    Fiber *f = &fibers[i];
    if (!f->stack) f->stack = aligned_alloc(4096, STACK_BYTES);
    void **top = (void **)(f->stack + STACK_BYTES) - 2;
    *top = (void *)fiber_main;                       // where the first switch returns to
    top -= 6;                                        // registers
    memset(top, 0, 6 * sizeof *top);
    *f = (Fiber){.stack_top = top, .stack = f->stack};
}

static void block_run(const FakeKernel *kernel, void **arguments, unsigned block) {
    running_name = kernel->name, running = kernel->call, running_arguments = arguments;
    hooks.block = (FakeIndex){block, 0, 0};
    blocks++;
    for (int i = 0; i < n_threads; i++) fiber_start(i);
    for (int left = n_threads; left > 0;) {
        unsigned long before = progress;
        for (int i = 0; i < n_threads; i++) {
            if (fibers[i].is_done) continue;
            current = i;
            hooks.thread = (FakeIndex){(unsigned)i, 0, 0};
            fake_switch(&scheduler_top, fibers[i].stack_top);
            left -= fibers[i].is_done;
        }
        if (progress == before) die("no thread can go on: they wait at different places");
    }
}

// ---------------------------------------------------------------- the driver

typedef struct Module { void *library; char path[64]; FakeKernel nothing; } Module;
// Copies from pinned memory happen as late as they may: what changes such memory too early is seen.
enum { MOST_PINNED = 16, MOST_COPIES = 64 };
typedef struct Pinned { void *at; size_t nbytes; } Pinned;
typedef struct LateCopy { void *to; const void *from; size_t nbytes; } LateCopy;
static Pinned pinned[MOST_PINNED];
static LateCopy copies[MOST_COPIES];
static int n_pinned;
static FakeCounts counts;
static bool runs_nothing;
static uint64_t copies_begun, copies_done;

static void copies_run(uint64_t end) {
    for (; copies_done < end; copies_done++) {
        LateCopy *c = &copies[copies_done % MOST_COPIES];
        memcpy(c->to, c->from, c->nbytes);
    }
}

typedef struct Launch { const FakeKernel *kernel; unsigned grid, threads; void **arguments; uint64_t *values; } Launch;
typedef struct Graph { Launch *at; size_t n; } Graph;
static Graph *capturing;
static const size_t DEFAULT_MEMORY = (size_t)8 << 30;
static size_t used_bytes, memory_bytes;

void fake_cuda_counts(FakeCounts *out) { *out = counts; }

static void launch_run(const Launch *l) {
    copies_run(copies_begun);
    if (runs_nothing) return;
    n_threads = (int)l->threads;
    for (unsigned b = 0; b < l->grid && l->kernel->call; b++) block_run(l->kernel, l->arguments, b);
}

int cuInit(unsigned flags) {
    const char *most = getenv("FAKE_CUDA_MEMORY");
    (void)flags;
    runs_nothing = getenv("FAKE_CUDA_RUNS_NOTHING") != NULL;
    memory_bytes = most ? strtoull(most, NULL, 10) : DEFAULT_MEMORY;
    hooks.barrier = hook_barrier, hooks.exchange = hook_exchange, hooks.touch = hook_touch;
    return OK;
}
int cuGetErrorName(int status, const char **name) { *name = status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE"; return OK; }
int cuDriverGetVersion(int *version) { *version = 12000; return OK; }
int cuDeviceGetCount(int *n) { *n = 1; return OK; }
int cuDeviceGet(int *device, int at) { *device = at; return OK; }
int cuDeviceGetName(char *name, int cap, int device) { (void)device; snprintf(name, (size_t)cap, "Fake card"); return OK; }
int cuDeviceGetAttribute(int *value, int what, int device) {
    const char *wanted = getenv("FAKE_CUDA_CAPABILITY");
    int capability = wanted ? atoi(wanted) : 90;
    (void)device;
    *value = what == 75 ? capability / 10 : what == 76 ? capability % 10 : what == 16 ? 132 : what == 8 ? 49152 : 0;
    return OK;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &hooks; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return OK; }
int cuCtxSetCurrent(void *context) { (void)context; return OK; }
int cuMemGetInfo_v2(size_t *left, size_t *all) { *left = memory_bytes - used_bytes, *all = memory_bytes; return OK; }
int cuMemAlloc_v2(uint64_t *at, size_t nbytes) {
    size_t size = (nbytes + 511) / 256 * 256;
    if (size > memory_bytes - used_bytes) return OUT_OF_MEMORY;
    char *memory = aligned_alloc(256, size + 256);
    if (!memory) return OUT_OF_MEMORY;
    *(size_t *)(void *)memory = size;
    used_bytes += size;
    memset(memory + 256, 0xA5, size);
    *at = (uint64_t)(uintptr_t)(memory + 256);
    return OK;
}
int cuMemFree_v2(uint64_t at) {
    copies_run(copies_begun);
    char *memory = (char *)(uintptr_t)at - 256;
    used_bytes -= *(size_t *)(void *)memory;
    free(memory);
    return OK;
}
int cuMemAllocHost_v2(void **at, size_t nbytes) {
    *at = n_pinned < MOST_PINNED ? aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096) : NULL;
    if (*at) pinned[n_pinned++] = (Pinned){*at, nbytes};
    return *at ? OK : OUT_OF_MEMORY;
}
int cuMemFreeHost(void *at) {
    copies_run(copies_begun);
    for (int i = 0; i < n_pinned; i++) if (pinned[i].at == at) pinned[i] = pinned[--n_pinned];
    free(at);
    return OK;
}
int cuMemsetD8Async(uint64_t at, uint8_t value, size_t n, void *stream) {
    (void)stream;
    copies_run(copies_begun);
    memset((void *)(uintptr_t)at, value, n);
    return OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *stream) {
    const char *us = getenv("FAKE_CUDA_COPY_US");
    (void)stream;
    counts.copies_in++;
    if (us) usleep((useconds_t)atoi(us));
    for (int i = 0; i < n_pinned; i++) {
        if ((uintptr_t)from - (uintptr_t)pinned[i].at >= pinned[i].nbytes) continue;
        copies_run(copies_begun >= MOST_COPIES ? copies_begun - MOST_COPIES + 1 : 0);
        copies[copies_begun++ % MOST_COPIES] = (LateCopy){(void *)(uintptr_t)to, from, n};
        return OK;
    }
    copies_run(copies_begun);
    memcpy((void *)(uintptr_t)to, from, n);
    return OK;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *stream) {
    (void)stream;
    counts.copies_out++;
    copies_run(copies_begun);
    memcpy(to, (void *)(uintptr_t)from, n);
    return OK;
}
int cuStreamCreate(void **stream, unsigned flags) { (void)flags; *stream = &hooks; return OK; }
int cuStreamDestroy_v2(void *stream) { (void)stream; return OK; }
int cuStreamSynchronize(void *stream) { (void)stream; counts.waits++; copies_run(copies_begun); return OK; }
int cuStreamBeginCapture_v2(void *stream, int mode) { (void)stream, (void)mode; capturing = calloc(1, sizeof *capturing); return OK; }
int cuStreamEndCapture(void *stream, void **graph) { (void)stream; *graph = capturing, capturing = NULL; return OK; }
int cuGraphInstantiateWithFlags(void **exec, void *graph, uint64_t flags) {
    (void)flags;
    Graph *copy = malloc(sizeof *copy), *from = graph;
    *copy = *from;
    *from = (Graph){0};
    counts.graphs_made++;
    *exec = copy;
    return OK;
}
int cuGraphLaunch(void *exec, void *stream) {
    Graph *g = exec;
    (void)stream;
    counts.graph_launches++;
    for (size_t i = 0; i < g->n; i++) launch_run(&g->at[i]);
    return OK;
}
int cuGraphDestroy(void *graph) { free(graph); return OK; }
int cuGraphExecDestroy(void *exec) {
    Graph *g = exec;
    for (size_t i = 0; i < g->n; i++) free(g->at[i].arguments), free(g->at[i].values);
    free(g->at), free(g);
    return OK;
}
typedef struct Event { struct timespec at; uint64_t copies; } Event;   // copies: begun before it
int cuEventCreate(void **event, unsigned flags) { (void)flags; *event = calloc(1, sizeof(Event)); return OK; }
int cuEventDestroy_v2(void *event) { free(event); return OK; }
int cuEventRecord(void *event, void *stream) {
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &((Event *)event)->at);
    ((Event *)event)->copies = copies_begun;
    return OK;
}
int cuEventSynchronize(void *event) { copies_run(((Event *)event)->copies); return OK; }
int cuEventElapsedTime(float *ms, void *from, void *to) {
    const Event *a = from, *b = to;
    *ms = (float)((double)(b->at.tv_sec - a->at.tv_sec) * 1e3 + (double)(b->at.tv_nsec - a->at.tv_nsec) / 1e6);
    return OK;
}
// An image of the fake compiler is a library behind the number of its bytes.
int cuModuleLoadData(void **module, const void *image) {
    static const char magic[8] = "FAKEIMG";
    Module *m = calloc(1, sizeof *m);
    m->nothing = (FakeKernel){NULL, 0, 1024, "nothing"};
    *module = m;
    if (memcmp(image, magic, sizeof magic)) return OK;
    uint64_t nbytes;
    memcpy(&nbytes, (const char *)image + 8, sizeof nbytes);
    snprintf(m->path, sizeof m->path, "/tmp/fake-cuda-XXXXXX");
    int fd = mkstemp(m->path);
    if (fd < 0 || write(fd, (const char *)image + 16, nbytes) != (ssize_t)nbytes) return NOT_FOUND;
    close(fd);
    m->library = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    unlink(m->path);
    if (!m->library) { fprintf(stderr, "fake CUDA: %s\n", dlerror()); return NOT_FOUND; }
    FakeHooks **own = dlsym(m->library, "fake_hooks");
    *own = &hooks;
    return OK;
}
int cuModuleUnload(void *module) {
    Module *m = module;
    if (m->library) dlclose(m->library);
    free(m);
    return OK;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    Module *m = module;
    *function = m->library ? dlsym(m->library, "fake_kernel") : &m->nothing;
    (void)name;
    return *function ? OK : NOT_FOUND;
}
int cuFuncGetAttribute(int *value, int what, void *function) {
    *value = what == 0 ? ((const FakeKernel *)function)->threads : 0;
    return OK;
}
typedef struct LaunchConfig { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned n_attributes; } LaunchConfig;
int cuLaunchKernelEx(const LaunchConfig *config, void *function, void **arguments, void **extra) {
    (void)extra;
    const FakeKernel *kernel = function;
    if (!capturing) {
        launch_run(&(Launch){kernel, config->grid[0], config->block[0], arguments, NULL});
        return OK;
    }
    capturing->at = realloc(capturing->at, (capturing->n + 1) * sizeof *capturing->at);
    Launch *l = &capturing->at[capturing->n++];
    *l = (Launch){kernel, config->grid[0], config->block[0], calloc((size_t)kernel->n_arguments + 1, sizeof(void *)), calloc((size_t)kernel->n_arguments + 1, sizeof(uint64_t))};
    for (int i = 0; i < kernel->n_arguments; i++) {
        memcpy(&l->values[i], arguments[i], i ? sizeof(uint64_t) : sizeof(int32_t));
        l->arguments[i] = &l->values[i];
    }
    return OK;
}

// os: the operating system behind the names of os.h; all that differs between systems is here.
// In: sizes, argument lists, words of memory. Out: what os.h says; a refusal is an Error with the
// system's own words.
// Invariant: descriptors are close-on-exec, so a compiler inherits nothing of another thread's.
// Example: process_run(arena, (const char *[]){"cc", "--version", NULL}, 5000, &status, &text, err)
#define _GNU_SOURCE
#include "base/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined __linux__
#include <link.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#endif
#if defined __x86_64__
#include <cpuid.h>
#endif
#if defined __has_feature
#if __has_feature(address_sanitizer)
#define LATHE_ASAN 1
#endif
#endif
#if defined LATHE_ASAN || defined __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

extern char **environ;

static const size_t LARGEST_OUTPUT_BYTES = (size_t)16 << 20;

size_t page_round(size_t nbytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (nbytes + page - 1) / page * page;
}

size_t page_alignment(size_t nbytes) {
    const size_t large = (size_t)2 << 20;
    return nbytes >= 2 * large ? large : page_round(1);
}

// ---- files: what differs between systems ----

bool file_stamp(const char *path, FileStamp *out) {
    struct stat info;
    *out = (FileStamp){0};
    if (stat(path, &info) != 0) return false;
#if defined __APPLE__
    struct timespec modified = info.st_mtimespec;
#else
    struct timespec modified = info.st_mtim;
#endif
    out->nbytes = (uint64_t)info.st_size;
    out->modified_ns = (uint64_t)modified.tv_sec * 1000000000u + (uint64_t)modified.tv_nsec;
    out->inode = (uint64_t)info.st_ino;
    return true;
}

// ---- clock, CPUs, memory ----

static uint64_t clock_us(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

uint64_t time_us(void) { return clock_us(CLOCK_MONOTONIC); }
uint64_t thread_cpu_us(void) { return clock_us(CLOCK_THREAD_CPUTIME_ID); }

// The first whole number behind `label` in a small file of the system, else `missing`.
static uint64_t system_number(const char *path, const char *label, uint64_t missing) {
    char text[8192];
    FILE *file = fopen(path, "re");
    if (!file) return missing;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *at = strstr(text, label);
    unsigned long long value;
    return at && sscanf(at + strlen(label), "%llu", &value) == 1 ? value : missing;
}

// A container's share of the machine in CPUs, rounded up; 0 where it has no limit.
static int cpu_quota(void) {
    long quota_us, period_us;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file) return 0;
    bool is_limited = fscanf(file, "%ld %ld", &quota_us, &period_us) == 2 && period_us > 0;
    fclose(file);
    return is_limited ? (int)((quota_us + period_us - 1) / period_us) : 0;
}

int cpu_count(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
#if defined __linux__
    enum { MAX_CPUS = 8192 };
    cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
    if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(MAX_CPUS), set) == 0)
        n = CPU_COUNT_S(CPU_ALLOC_SIZE(MAX_CPUS), set);
    CPU_FREE(set);
#endif
    int quota = cpu_quota();
    if (quota > 0 && quota < n) n = quota;
    return n > 0 ? (int)n : 1;
}

size_t shared_cache_bytes(void) {
#if defined _SC_LEVEL3_CACHE_SIZE
    long n = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return n > 0 ? (size_t)n : 0;
#else
    return 0;
#endif
}

size_t memory_available_bytes(void) {
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t available = system_number("/proc/meminfo", "MemAvailable:", physical >> 10) << 10;
    uint64_t limit = system_number("/sys/fs/cgroup/memory.max", "", UINT64_MAX);
    uint64_t taken = system_number("/sys/fs/cgroup/memory.current", "", 0);
    uint64_t left = limit > taken ? limit - taken : 0;
    return (size_t)(available < left ? available : left);
}

size_t memory_peak_bytes(void) {
    // getrusage remembers the program that this process was before exec, /proc does not.
    uint64_t peak_kib = system_number("/proc/self/status", "VmHWM:", 0);
    if (peak_kib) return (size_t)peak_kib << 10;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
#if defined __APPLE__
    return (size_t)usage.ru_maxrss;
#else
    return (size_t)usage.ru_maxrss << 10;
#endif
}

void *memory_pages(size_t nbytes) {
    size_t page = page_round(1);
    if (nbytes > SIZE_MAX / 4) return NULL;
    size_t size = page_round(nbytes ? nbytes : 1);
    // Reserve more, give both ends back.
    size_t align = page_alignment(size);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    uint8_t *at = mmap(NULL, size + align - page, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) return NULL;
    size_t before = (align - (uintptr_t)at % align) % align, after = align - page - before;
    if (before) munmap(at, before);
    if (after) munmap(at + before + size, after);
#if defined MADV_HUGEPAGE
    if (align > page) madvise(at + before, size, MADV_HUGEPAGE);
#endif
    return at + before;
}

void memory_pages_free(void *at, size_t nbytes) {
    if (at) munmap(at, page_round(nbytes ? nbytes : 1));
}

void memory_poison(const void *at, size_t nbytes) {
#if defined LATHE_ASAN || defined __SANITIZE_ADDRESS__
    __asan_poison_memory_region(at, nbytes);
#else
    (void)at, (void)nbytes;
#endif
}

void memory_unpoison(const void *at, size_t nbytes) {
#if defined LATHE_ASAN || defined __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(at, nbytes);
#else
    (void)at, (void)nbytes;
#endif
}

bool is_terminal(int fd) {
    return isatty(fd) == 1;
}

bool is_screen(int fd) {
    const char *term = getenv("TERM");
    return is_terminal(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool wants_colour(int fd) {
    const char *no_colour = getenv("NO_COLOR");
    return is_screen(fd) && !(no_colour && *no_colour);
}

// ---- libraries and processes ----

void *library_open(const char *path, Error *err) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        fail(err, LATHE_IO, "cannot load %s: %s", path, why ? why : "unknown reason");
    }
    return library;
}

void *library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}

void library_close(void *library) {
    if (library) dlclose(library);
}

#if defined __linux__
// Notes are {bytes of name, bytes of content, type, name, content}, each padded to 4 bytes (ELF-64, "Note Section").
static int find_build_id(struct dl_phdr_info *program, size_t nbytes, void *out) {
    (void)nbytes;
    for (int i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &program->dlpi_phdr[i];
        if (part->p_type != PT_NOTE) continue;
        const unsigned char *at = (const unsigned char *)(uintptr_t)(program->dlpi_addr + part->p_vaddr), *end = at + part->p_memsz;
        while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) note;
            memcpy(&note, at, sizeof note);
            const unsigned char *name = at + sizeof note, *content = name + ((note.n_namesz + 3u) & ~3u);
            if (content > end || note.n_descsz > (size_t)(end - content)) break;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(name, "GNU", 4))
                *(Text *)out = (Text){(const char *)content, note.n_descsz};
            at = content + ((note.n_descsz + 3u) & ~3u);
        }
    }
    return 1;   // the first entry is the program itself
}
#endif

Text program_build_id(void) {
    Text id = {0};
#if defined __linux__
    dl_iterate_phdr(find_build_id, &id);
#endif
    return id;
}

long process_id(void) {
    return (long)getpid();
}

// The only reads that raise this signal are those of mapped files. A handler may write and leave, no more.
static void mapping_lost(int number) {
    static const char text[] = "\nlathe: a file in use was cut short or cannot be read any more (model or cache); put it "
                               "back in one piece, and replace files by renaming\n";
    (void)number;
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    _exit(1);
}

void process_begin(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1) continue;
        // The lowest free number is this one. Opened the wrong way round: an answer nobody can read is an error.
        int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (got >= 0) CHECK(got == fd);
    }
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGBUS, mapping_lost);
}

static bool pipe_open(int ends[2]) {
#if defined __linux__
    return pipe2(ends, O_CLOEXEC) == 0;
#else
    if (pipe(ends) != 0) return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
#endif
}

// Starts a program in a process group of its own, output into the pipe's end `out`. 0 or an errno.
static int process_spawn(const char *program, const char *const *argv, int out, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    posix_spawnattr_setflags(&attributes, (short)flags);
    // posix_spawn does not write to argv; its prototype is older than const.
    char *const *words = (char *const *)(uintptr_t)argv;
    int why = posix_spawn(pid, program, &actions, &attributes, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return why;
}

// Takes what the pipe holds now. False once every writer has closed it.
static bool pipe_drain(int fd, TextBuilder *output) {
    char bytes[16384];
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n == 0) return false;
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        size_t room = LARGEST_OUTPUT_BYTES - output->len;
        builder_append(output, bytes, (size_t)n < room ? (size_t)n : room);
    }
}

static atomic_bool is_stopped;

void processes_stop(void) { atomic_store(&is_stopped, true); }
bool processes_stopped(void) { return atomic_load(&is_stopped); }

// Reads until the process has ended. False where that took longer than timeout_ms, or nobody wants it any more.
static bool process_wait(pid_t pid, int fd, int timeout_ms, int *status, TextBuilder *output) {
    enum { SLICE_MS = 20 };
    uint64_t deadline = time_us() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000u;
    bool is_open = true;
    for (;;) {
        if (is_open) {
            struct pollfd ready = {.fd = fd, .events = POLLIN};
            poll(&ready, 1, SLICE_MS);
            is_open = pipe_drain(fd, output);
        } else {
            nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
        }
        pid_t ended = waitpid(pid, status, WNOHANG);
        if (ended == pid) {
            if (is_open) pipe_drain(fd, output);
            return true;
        }
        if (ended < 0 && errno != EINTR) {
            *status = 0;
            return true;
        }
        if ((timeout_ms > 0 && time_us() >= deadline) || processes_stopped()) return false;
    }
}

// A compiler that is asked to end takes its own scratch files away.
static void process_ask_to_end(pid_t pid) {
    enum { PATIENCE_MS = 200 };
    siginfo_t info = {0};
    kill(-pid, SIGTERM);
    for (int i = 0; i < PATIENCE_MS && info.si_pid == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    }
}

bool process_run(Arena *arena, const char *const *argv, int timeout_ms, int *status, Text *output,
                 Error *err) {
    int ends[2], raw = 0;
    pid_t pid;
    *status = -1;
    // Looked up here, because not every system reports a failed exec to the caller of posix_spawn.
    const char *program = program_find(arena, argv[0]);
    if (!program)
        return fail(err, LATHE_IO, "cannot run \"%s\": there is no such program", argv[0]);
    if (processes_stopped()) return fail(err, LATHE_IO, "\"%s\" is not started: this program is about to end", argv[0]);
    if (!pipe_open(ends))
        return fail(err, LATHE_IO, "cannot make a pipe for %s: %s", argv[0], strerror(errno));
    int why = process_spawn(program, argv, ends[1], &pid);
    close(ends[1]);
    if (why) {
        close(ends[0]);
        return fail(err, LATHE_IO, "cannot run \"%s\": %s", argv[0], strerror(why));
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    TextBuilder bytes = builder(arena);
    bool ended = process_wait(pid, ends[0], timeout_ms, &raw, &bytes);
    if (!ended) {
        if (processes_stopped()) process_ask_to_end(pid);
        kill(-pid, SIGKILL);
        while (waitpid(pid, &raw, 0) < 0 && errno == EINTR) continue;
        pipe_drain(ends[0], &bytes);
    }
    close(ends[0]);
    *status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    builder_cstr(&bytes);
    *output = builder_view(&bytes);
    if (ended) return true;
    if (processes_stopped()) return fail(err, LATHE_IO, "\"%s\" was killed: this program is about to end", argv[0]);
    return fail(err, LATHE_IO, "\"%s\" ran longer than %d ms and was killed", argv[0], timeout_ms);
}

// ---- threads ----

struct Thread {
    pthread_t id;
    void (*run)(void *);
    void *arg;
};

static void *thread_main(void *opaque) {
    Thread *thread = opaque;
    thread->run(thread->arg);
    return NULL;
}

Thread *thread_start(void (*run)(void *), void *arg) {
    Thread *thread = malloc(sizeof *thread);
    if (!thread) return NULL;
    thread->run = run;
    thread->arg = arg;
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);   // one's own read raises it, and blocked it kills without a word
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int why = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (why == 0) return thread;
    free(thread);
    return NULL;
}

void thread_join(Thread *thread) {
    if (!thread) return;
    pthread_join(thread->id, NULL);
    free(thread);
}

void cpu_relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb" ::: "memory");
#endif
}

void thread_give_way(void) {
    sched_yield();
}

#if defined __linux__
void futex_wait(atomic_uint *word, unsigned expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void futex_wake_all(atomic_uint *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#else
// Elsewhere one condition serves all words: a wake-up is rare and a false one is allowed.
static pthread_mutex_t futex_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t futex_condition = PTHREAD_COND_INITIALIZER;

void futex_wait(atomic_uint *word, unsigned expected) {
    pthread_mutex_lock(&futex_mutex);
    while (atomic_load(word) == expected) pthread_cond_wait(&futex_condition, &futex_mutex);
    pthread_mutex_unlock(&futex_mutex);
}

void futex_wake_all(atomic_uint *word) {
    (void)word;
    pthread_mutex_lock(&futex_mutex);
    pthread_cond_broadcast(&futex_condition);
    pthread_mutex_unlock(&futex_mutex);
}
#endif

// ---- raw facts about the CPU ----

const char *cpu_architecture(void) {
#if defined __x86_64__
    return "x86-64";
#elif defined __aarch64__
    return "aarch64";
#else
    return "other";
#endif
}

CpuidRegisters cpuid_read(uint32_t leaf, uint32_t subleaf) {
    CpuidRegisters r = {0};
#if defined __x86_64__
    if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) r = (CpuidRegisters){0};
#else
    (void)leaf, (void)subleaf;
#endif
    return r;
}

uint64_t xcr0_read(void) {
#if defined __x86_64__
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
#else
    return 0;
#endif
}

uint64_t hardware_capabilities(void) {
#if defined __aarch64__ && defined __linux__
    return getauxval(AT_HWCAP);
#else
    return 0;
#endif
}

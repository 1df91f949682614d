// os: files, memory maps, clock, threads, dlopen, processes. Only os.c has #ifdefs for systems.
// In: paths, sizes, functions, argument lists. Out: what the system gave; a refusal is an Error.
// Invariant: descriptors are close-on-exec; what fails leaves nothing open behind.
// Example: FileMap m; TRY(file_map(&m, "m.gguf", err)); use(m.data[m.nbytes - 1]); file_unmap(&m);
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

// A file mapped read-only inside a reservation with at least one readable zero page behind its end,
// so that a load may pass the last byte by up to 4,095 bytes. (A read past EOF inside the last page
// gives zeros.) LATHE_IO where it cannot be opened or mapped, LATHE_BAD_FILE for what is not a
// regular file.
typedef struct FileMap {
    const uint8_t *data;
    size_t nbytes;
    void *reservation;
    size_t reserved_bytes;
} FileMap;
bool file_map(FileMap *map, const char *path, Error *err) MUST_CHECK;
// Twice, or of a zeroed struct, is allowed.
void file_unmap(FileMap *map);

// The whole of a file or pipe, at most 1 GiB; zero-terminated.
bool file_read(Arena *arena, const char *path, Text *out, Error *err) MUST_CHECK;
// The same; the path "-" is standard input.
bool file_or_input_read(Arena *arena, const char *path, Text *out, Error *err) MUST_CHECK;
// A temporary file beside it, then rename: readers see the old file or the new one, never a part.
bool file_write_atomic(const char *path, const void *data, size_t nbytes, Error *err) MUST_CHECK;
bool file_exists(const char *path);
bool dir_make(const char *path, Error *err) MUST_CHECK;      // with parents; new ones are mode 0700
// Ours or root's, and nobody else may write to it.
bool dir_is_private(const char *path);
const char *dir_of_temporaries(void);                         // TMPDIR, else /tmp
// A new one there; its name begins with prefix.
bool dir_temporary(char *out, size_t cap, const char *prefix, Error *err) MUST_CHECK;
void dir_remove(const char *path);                            // recursive, best effort
// Where the directory holds more than max_files files, the oldest go until half of max_files are left.
void dir_prune(const char *path, size_t max_files);
// LATHE_CACHE_DIR, else XDG_CACHE_HOME/lathe, else ~/.cache/lathe, else /tmp/lathe-UID. Not created
// here.
const char *cache_dir(Arena *arena);

// What names one version of a file without reading it. False where there is no such file.
typedef struct FileStamp { uint64_t nbytes, modified_ns, inode; } FileStamp;
bool file_stamp(const char *path, FileStamp *out);
// The path of a program, looked for along PATH where name has no slash; NULL where there is none.
const char *program_find(Arena *arena, const char *name);

uint64_t time_us(void);                                       // monotonic
uint64_t thread_cpu_us(void);                                 // that the calling thread had a core
int cpu_count(void);                                          // CPUs this process may use
size_t shared_cache_bytes(void);                              // of the cache that cores share; 0 where that is not known
size_t memory_available_bytes(void);
size_t memory_peak_bytes(void);                               // peak resident set of this process
size_t page_round(size_t nbytes);                             // up to whole pages
// Where so many bytes should begin: a page, or from 4 MiB on a large page, which the system maps only there.
size_t page_alignment(size_t nbytes);
// Zeroed, page-aligned, on large pages where the system offers them (from 4 MiB on). NULL on
// failure.
void *memory_pages(size_t nbytes);
void memory_pages_free(void *at, size_t nbytes);
// In AddressSanitizer builds an access to poisoned bytes is reported; in others both do nothing.
void memory_poison(const void *at, size_t nbytes);
void memory_unpoison(const void *at, size_t nbytes);
bool is_terminal(int fd);
bool is_screen(int fd);                                       // a terminal that knows escape sequences (TERM)
bool wants_colour(int fd);                                    // a screen and no NO_COLOR

void *library_open(const char *path, Error *err);
void *library_symbol(void *library, const char *name);
void library_close(void *library);

// Runs argv[0] (found along PATH) with arguments, standard input empty, waits; output (stdout and
// stderr, the first 16 MiB) is returned. Fails where it cannot start or runs longer than timeout_ms
// (then it and its children are killed; <= 0 means no limit). *status gets the exit code (128 +
// signal where killed).
bool process_run(Arena *arena, const char *const *argv, int timeout_ms, int *status, Text *output,
                 Error *err) MUST_CHECK;
// The program is about to end: what process_run waits for is killed, what it would start is refused, from now on.
void processes_stop(void);
bool processes_stopped(void);
long process_id(void);
// First thing in main. Descriptors 0 to 2 that the caller closed are filled with what refuses every read or write, so
// that no file opened later gets their numbers and is written to as standard output; a file that grows past
// `ulimit -f` is a write that fails, as a full disk is, no signal; a mapped file that somebody cuts short ends the
// program with a text that says so.
void process_begin(void);
// What the linker stamped on this program (its GNU build id), so that two builds differ; empty where there is none.
Text program_build_id(void);

typedef struct Thread Thread;
// NULL on failure. Signals go to other threads.
Thread *thread_start(void (*run)(void *), void *arg);
void thread_join(Thread *thread);
void cpu_relax(void);                                         // says that this is a spin loop
void thread_give_way(void);                                   // to whoever waits for this core; returns when it is this thread's again
// Sleeps while *word == expected; may wake for no reason, so the caller looks again.
void futex_wait(atomic_uint *word, unsigned expected);
void futex_wake_all(atomic_uint *word);

// Raw facts for runtime/cpu_target. cpuid_read and xcr0_read give zeros on CPUs other than x86-64,
// hardware_capabilities gives getauxval(AT_HWCAP) on aarch64 and 0 elsewhere.
typedef struct CpuidRegisters { uint32_t eax, ebx, ecx, edx; } CpuidRegisters;
const char *cpu_architecture(void);                           // "x86-64", "aarch64", "other"
CpuidRegisters cpuid_read(uint32_t leaf, uint32_t subleaf);
// Call only where CPUID.1:ECX has OSXSAVE.
uint64_t xcr0_read(void);
uint64_t hardware_capabilities(void);

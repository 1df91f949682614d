// Error: what to do when the world fails (file, driver, memory, bad request) and when we are wrong.
// In: a printf text that names the cause and the next step. Out: false, with the text in *err.
// Functions that can fail return bool and take Error *err last; TRY passes a failure on.
// CHECK and BUG are for broken invariants of our own: they print and abort.
// Example: if (n < 24) return fail(err, LATHE_BAD_FILE, "%s: too short for GGUF", path);
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum ErrorCode {
    LATHE_OK = 0,
    LATHE_BAD_FILE,      // a file says something that cannot be
    LATHE_BAD_REQUEST,   // a flag, a request or an environment variable does
    LATHE_UNSUPPORTED,   // valid, but lathe cannot do it
    LATHE_NO_MEMORY,
    LATHE_IO,            // the operating system refused
    LATHE_COMPILE,       // the system compiler refused a generated kernel
    LATHE_DEVICE,
} ErrorCode;

typedef struct Error {
    ErrorCode code;
    const char *file;    // where in lathe's source it was raised
    int line;
    char text[1024];
} Error;

bool error_set(Error *err, ErrorCode code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
_Noreturn void bug(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Small blocks that nobody can do without: says so on standard error and ends the program with exit code 1. What may
// be large is asked for by functions that return NULL, and its failure is an Error.
_Noreturn void memory_exhausted(size_t nbytes);

#define MUST_CHECK __attribute__((warn_unused_result))
#define fail(err, code, ...) error_set((err), (code), __FILE__, __LINE__, __VA_ARGS__)
#define TRY(call) do { if (!(call)) return false; } while (0)
#define BUG(...) bug(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond) do { if (!(cond)) bug(__FILE__, __LINE__, "broken invariant: %s", #cond); } while (0)

// Error: formats a failure into the caller's struct; bug() and memory_exhausted() end the program.
// In: code, place and printf text. Out: always false, for `return fail(...)`.
// Invariant: err->text is zero-terminated and cut at its size; a NULL err is allowed.
// Example: Error e; if (!f(&e)) fprintf(stderr, "%s\n", e.text);
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool error_set(Error *err, ErrorCode code, const char *file, int line, const char *format, ...) {
    if (!err) return false;
    // Built aside, because the new text may quote the old one.
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err->code = code;
    err->file = file;
    err->line = line;
    snprintf(err->text, sizeof err->text, "%s", len < 0 ? format : text);
    return false;
}

_Noreturn void bug(const char *file, int line, const char *format, ...) {
    va_list args;
    fflush(stdout);
    fprintf(stderr, "lathe: BUG at %s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

// No exit handlers: this may be any thread, and others still run.
_Noreturn void memory_exhausted(size_t nbytes) {
    fflush(stdout);
    fprintf(stderr, "lathe: out of memory: the system refuses %zu more bytes; close other programs, raise the limit "
            "(ulimit -v), or choose a smaller model or --context\n", nbytes);
    _exit(1);
}

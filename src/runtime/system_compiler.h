// system_compiler: the C compiler of this machine (LATHE_CC), found, named and run.
// In: one C file. Out: one shared object.
// Invariant: `identity` changes whenever another compiler would run, so it belongs into cache keys.
// Example: TRY(compiler_open(&cc, arena, "-mavx2", "", err)); compiler_run(&cc, arena, c, so, &why)
#pragma once
#include <stdbool.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

typedef struct SystemCompiler {
    const char *const *words;      // program and flags, NULL-terminated
    int n_words;
    const char *flags;             // the same flags as one text, for keys
    const char *identity;          // path, size, time of the program and its --version text
} SystemCompiler;

// Looks up LATHE_CC (a program and perhaps flags: "ccache gcc"). target_flags: a Target's cc_flags.
// The --version text is kept in version_folder so that later starts need no process; "" keeps
// nothing.
// LATHE_COMPILE where there is no such program: says what to install or set.
bool compiler_open(SystemCompiler *compiler, Arena *arena, const char *target_flags,
                   const char *version_folder, Error *err) MUST_CHECK;

// Compiles source_path into object_path; at most COMPILE_TIMEOUT_MS. Where the compiler itself
// breaks ("internal compiler error") it is run once more with -O1. On failure *complaint says
// why, with the first lines of what the compiler printed.
enum { COMPILE_TIMEOUT_MS = 120000 };
bool compiler_run(const SystemCompiler *compiler, Arena *arena, const char *source_path,
                  const char *object_path, Text *complaint) MUST_CHECK;

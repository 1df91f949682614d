// terminal: what is for people only: colour, a progress bar, errors. All of it goes to standard error.
// In: texts and counts. Out: nothing in a pipe except errors.
// Invariant: colour only on a terminal and without NO_COLOR; a progress bar only on a screen, and only for what
// takes longer than a moment; progress_end leaves the line clean.
// Example: progress_show(&p, "prompt", done, total); progress_end(&p); error_print("run", &err);
#pragma once
#include <stdint.h>
#include "base/error.h"

typedef struct Progress { uint64_t begin_us, shown_us; bool is_shown; } Progress;

void progress_show(Progress *progress, const char *what, int64_t done, int64_t total);
void progress_compiling(Progress *progress);                  // before what may have to compile kernels first
void progress_end(Progress *progress);
void error_print(const char *command, const Error *err);       // command may be NULL
// Style of a part of a text on standard output: "" where there is no colour.
const char *style_begin_dim(void);
const char *style_begin_bold(void);
const char *style_end(void);
// False where standard output did not take all that was written to it (a full disk, a closed pipe).
bool output_flush(Error *err) MUST_CHECK;

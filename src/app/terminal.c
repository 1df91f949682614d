// terminal: colour, the progress bar and error lines.
// In: texts and counts. Out: escape sequences on a terminal, plain text or nothing in a pipe.
// Invariant: standard output carries results only; everything here but styles goes to standard error.
// Example: progress_show(&p, "prompt", 40, 100) draws "prompt ########............ 40 %" on one line
#include "app/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"

enum { STDOUT_FD = 1, STDERR_FD = 2, BAR_WIDTH = 30 };
static const uint64_t QUICK_US = 300000, FRAME_US = 80000;   // shorter work needs no bar

void progress_show(Progress *p, const char *what, int64_t done, int64_t total) {
    uint64_t now = time_us();
    if (p->begin_us == 0) p->begin_us = now;
    if (!is_screen(STDERR_FD) || total <= 0 || now - p->begin_us < QUICK_US || now - p->shown_us < FRAME_US) return;
    int filled = (int)(done * BAR_WIDTH / total);
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r%s %s %3d %%\033[K", what, bar, (int)(done * 100 / total));
    fflush(stderr);
    p->shown_us = now;
    p->is_shown = true;
}

void progress_compiling(Progress *p) {
    if (!is_screen(STDERR_FD)) return;
    fputs("\r(kernels that this machine has not seen yet are being compiled)\033[K", stderr);
    fflush(stderr);
    p->is_shown = true;
}

void progress_end(Progress *p) {
    if (p->is_shown) fputs("\r\033[K", stderr);
    *p = (Progress){0};
}

void error_print(const char *command, const Error *err) {
    bool colour = wants_colour(STDERR_FD);
    fflush(stdout);
    fprintf(stderr, "%slathe%s%s:%s ", colour ? "\033[31m" : "", command ? " " : "", command ? command : "",
            colour ? "\033[0m" : "");
    // Names of files are anybody's: what would move the cursor is shown, not sent.
    for (const char *at = err->text; *at; at++)
        if ((unsigned char)*at < ' ' && *at != '\n') fprintf(stderr, "\\x%02x", (unsigned char)*at);
        else fputc(*at, stderr);
    fputc('\n', stderr);
}

const char *style_begin_dim(void) {
    return wants_colour(STDOUT_FD) ? "\033[2m" : "";
}

const char *style_begin_bold(void) {
    return wants_colour(STDOUT_FD) ? "\033[1m" : "";
}

const char *style_end(void) {
    return wants_colour(STDOUT_FD) ? "\033[0m" : "";
}

bool output_flush(Error *err) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    return fail(err, LATHE_IO, "cannot write to standard output: %s", strerror(errno));
}

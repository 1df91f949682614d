// interrupt: a counter that a signal handler raises. In: SIGINT. Out: the count.
// Invariant: the handler does only what signal handlers may do. No SA_RESTART: a read at the terminal comes back.
// Example: see interrupt.h
#include "app/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <sys/select.h>
#include <unistd.h>

static volatile sig_atomic_t count;

static void signal_count(int number) {
    if (++count > 1) _exit(128 + number);
}

void interrupt_watch(void) {
    struct sigaction action = {.sa_handler = signal_count};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

int interrupt_count(void) {
    return count;
}

void interrupt_clear(void) {
    count = 0;
}

// The signal is blocked but inside of pselect, so that none is missed between the question and the wait.
bool interrupt_wait_readable(int fd) {
    sigset_t interrupts, before;
    fd_set readable;
    int n = -1;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupts, &before);
    while (count == 0 && n < 0) {
        FD_ZERO(&readable);
        FD_SET(fd, &readable);
        n = pselect(fd + 1, &readable, NULL, NULL, NULL, &before);
        if (n < 0 && errno != EINTR) break;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return n > 0;
}

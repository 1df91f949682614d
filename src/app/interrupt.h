// interrupt: Ctrl-C as a question that loops ask, not as the end of the program.
// In: SIGINT. Out: how often it came since the last interrupt_clear. Invariant: before interrupt_watch the signal
// does what it does by default; a second one that nobody asked about ends the program, so that it can always be left.
// Example: interrupt_watch(); while (!interrupt_count()) step(); interrupt_clear();
#pragma once
#include <stdbool.h>

void interrupt_watch(void);
int interrupt_count(void);
void interrupt_clear(void);
// Waits until fd can be read. False where Ctrl-C came, before or during the wait (or fd is broken).
bool interrupt_wait_readable(int fd);

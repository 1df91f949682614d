// active_workers: how many of a pool's workers take part in the next step.
// In: what the workers of each step did with their time. Out: a number of workers.
// Invariant: 1 <= now <= most. Fewer only where others took a core's third from the workers and the rest waited for it, and only for as
// long as the fewer do as much work a second; more are tried again at growing intervals.
// Example: 2 workers, a neighbour on one core: both wait for the one that is off its core; one alone keeps a core for itself.
#pragma once
#include <stdbool.h>
#include "runtime/workers.h"

typedef struct ActiveWorkers {
    int most, now;
    WorkerTimes window;               // of the steps since the last choice
    int before_trial;                 // workers before they became fewer on trial; 0: no trial
    double busy_before_trial;         // cores that did work then
    bool grew;                        // the last choice was one more
    uint64_t pause_us;                // how long the next choice stands before it is questioned
    uint64_t fewer_from_us, more_from_us;
} ActiveWorkers;

ActiveWorkers active_workers(int most);
// After each step; now_us: any clock that only rises.
void active_workers_note(ActiveWorkers *active, const WorkerTimes *step, uint64_t now_us);

// active_workers: how the next step is run beside other programs: whether its workers give way to them, and how many take part.
// In: what the workers of each step did with their time. Out: a plan.
// Invariant: 1 <= plan.n <= most. A remedy only where others took a core's third from the workers and the rest waited for it: first
// workers give way, then, or where less was done so, fewer take part; each only for as long as as much work is done a second. What was
// before is tried again at growing intervals.
// Example: 2 workers, a neighbour on one core: both wait while one is off its core and holds tiles. Giving way it holds none.
#pragma once
#include <stdbool.h>
#include "runtime/workers.h"

typedef struct WorkerPlan {
    int n;                            // workers of the next step
    bool gives_way;                   // between tiles each leaves its core to whoever waits for it
} WorkerPlan;

typedef struct ActiveWorkers {
    int most;
    WorkerPlan plan, before_trial;    // before_trial.n = 0: no trial
    WorkerTimes window;               // of the steps since the last choice
    double busy_before_trial;         // cores that did work then
    bool gave_in_vain;                // less was done when workers gave way: trials are of fewer until all are at work again
    bool grew;                        // the last choice was back towards `most` workers that give no way
    uint64_t pause_us;                // how long the next choice stands before it is questioned
    uint64_t remedy_from_us, grow_from_us;
} ActiveWorkers;

ActiveWorkers active_workers(int most);
// After each step; now_us: any clock that only rises.
void active_workers_note(ActiveWorkers *active, const WorkerTimes *step, uint64_t now_us);

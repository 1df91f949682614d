// active_workers: see the header. Choices are made over windows, as a scheduler takes turns of some milliseconds.
#include "runtime/active_workers.h"

enum { WINDOW_US = 50000, PAUSE_LEAST_US = 200000, PAUSE_MOST_US = 2000000 };

// Cores that others must have taken, and that the rest must have waited away, before a remedy is tried. A neighbour that keeps a core busy
// takes half of it; what a desktop or a server does beside the workers stays far below.
static const double TAKEN_CORES = 0.3, WAITING_CORES = 0.15;
// A remedy stays where no more work than this was lost, and as much again for each worker that it left out: they leave what they do not
// need to others.
static const double LOST_CORES = 0.1;

ActiveWorkers active_workers(int most) {
    return (ActiveWorkers){.most = most, .plan = {.n = most}, .pause_us = PAUSE_LEAST_US};
}

static void pause_longer(ActiveWorkers *active) {
    active->pause_us = active->pause_us * 2 < PAUSE_MOST_US ? active->pause_us * 2 : PAUSE_MOST_US;
}

static void trial_end(ActiveWorkers *active, double busy, uint64_t now_us) {
    int fewer = active->before_trial.n - active->plan.n;
    bool is_lost = busy < active->busy_before_trial - LOST_CORES * (1 + fewer);
    if (is_lost && fewer == 0) active->gave_in_vain = true;
    if (is_lost) {
        active->plan = active->before_trial;
        active->remedy_from_us = now_us + active->pause_us;
        pause_longer(active);
    }
    active->grow_from_us = now_us + active->pause_us;
    active->before_trial.n = 0;
}

static void trial_begin(ActiveWorkers *active, double off_cores, double busy) {
    active->before_trial = active->plan;
    active->busy_before_trial = busy;
    if (active->plan.gives_way || active->gave_in_vain) {
        int fewer = off_cores < 1 ? 1 : (int)(off_cores + 0.5);
        active->plan.n = active->plan.n - fewer > 1 ? active->plan.n - fewer : 1;
    } else {
        active->plan.gives_way = true;
    }
    if (active->grew) pause_longer(active);
    active->grew = false;
}

static void grow(ActiveWorkers *active) {
    active->grew = active->plan.gives_way || active->plan.n < active->most;
    if (active->plan.n < active->most) active->plan.n++;
    else active->plan.gives_way = false;
}

void active_workers_note(ActiveWorkers *active, const WorkerTimes *step, uint64_t now_us) {
    WorkerTimes *window = &active->window;
    worker_times_add(window, step);
    if (window->wall_us < WINDOW_US) return;
    double wall = (double)window->wall_us, off = (double)window->off_us / wall, busy = (double)window->busy_us / wall;
    bool is_crowded = active->plan.n > 1 && off > TAKEN_CORES && (double)window->waited_us / wall > WAITING_CORES;
    *window = (WorkerTimes){0};
    if (active->before_trial.n) {
        trial_end(active, busy, now_us);
    } else if (is_crowded) {
        if (now_us >= active->remedy_from_us) trial_begin(active, off, busy);
    } else {
        if (active->grew) active->pause_us = PAUSE_LEAST_US, active->gave_in_vain = false;
        active->grew = false;
        if (now_us >= active->grow_from_us) grow(active);
    }
}

// active_workers: see the header. Choices are made over windows, as a scheduler takes turns of some milliseconds.
#include "runtime/active_workers.h"

enum { WINDOW_US = 50000, PAUSE_LEAST_US = 200000, PAUSE_MOST_US = 2000000 };

// Cores that others must have taken, and that the rest must have waited away, before fewer are tried. A neighbour that keeps a core busy
// takes half of it; what a desktop or a server does beside the workers stays far below.
static const double CROWDED_CORES = 0.3;
// Fewer workers stay fewer where each that left took no more work along than this: they leave what they do not need to others.
static const double LOST_CORES = 0.1;

ActiveWorkers active_workers(int most) {
    return (ActiveWorkers){.most = most, .now = most, .pause_us = PAUSE_LEAST_US};
}

static void pause_longer(ActiveWorkers *active) {
    active->pause_us = active->pause_us * 2 < PAUSE_MOST_US ? active->pause_us * 2 : PAUSE_MOST_US;
}

static void trial_end(ActiveWorkers *active, double busy, uint64_t now_us) {
    if (busy < active->busy_before_trial - LOST_CORES * (active->before_trial - active->now)) {
        active->now = active->before_trial;
        active->fewer_from_us = now_us + active->pause_us;
        pause_longer(active);
    }
    active->more_from_us = now_us + active->pause_us;
    active->before_trial = 0;
}

static void trial_begin(ActiveWorkers *active, double off_cores, double busy) {
    int fewer = (int)(off_cores + 0.5);
    if (fewer < 1) fewer = 1;
    active->before_trial = active->now;
    active->busy_before_trial = busy;
    active->now = active->now - fewer > 1 ? active->now - fewer : 1;
    if (active->grew) pause_longer(active);
    active->grew = false;
}

void active_workers_note(ActiveWorkers *active, const WorkerTimes *step, uint64_t now_us) {
    WorkerTimes *window = &active->window;
    worker_times_add(window, step);
    if (window->wall_us < WINDOW_US) return;
    double wall = (double)window->wall_us, off = (double)window->off_us / wall, busy = (double)window->busy_us / wall;
    bool is_crowded = active->now > 1 && off > CROWDED_CORES && (double)window->waited_us / wall > CROWDED_CORES;
    *window = (WorkerTimes){0};
    if (active->before_trial) {
        trial_end(active, busy, now_us);
    } else if (is_crowded) {
        if (now_us >= active->fewer_from_us) trial_begin(active, off, busy);
    } else {
        if (active->grew) active->pause_us = PAUSE_LEAST_US;
        active->grew = active->now < active->most && now_us >= active->more_from_us;
        active->now += active->grew;
    }
}

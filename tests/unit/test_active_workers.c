// test_active_workers: how many workers take part, on made-up machines whose clock is a number.
// In: nothing. Out: one cmocka group.
// Invariant: a machine says what n workers did in a step of 10 ms; nothing is measured, so no load changes a result.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/active_workers.h"
#include <cmocka.h>

enum { STEP_US = 10000, SECOND_STEPS = 100 };

typedef WorkerTimes (*Machine)(int n);

// All of a step: n workers' time is work, waiting asleep, or time without a core.
static WorkerTimes times(int n, double busy, double waited) {
    double us = STEP_US;
    return (WorkerTimes){STEP_US, (uint64_t)(busy * us), (uint64_t)(waited * us), (uint64_t)((n - busy - waited) * us)};
}

static WorkerTimes idle(int n) { return times(n, 0.9 * n, 0.09 * n); }

// A neighbour has half of one of two cores, and the other worker waits as long.
static WorkerTimes neighbour(int n) { return n == 2 ? times(2, 1.0, 0.5) : times(1, 0.98, 0.01); }

// Each of two workers gets a quarter of a core, alone or not.
static WorkerTimes overload(int n) { return times(n, 0.25 * n, 0.3 * n); }

// Few wait, as stages are long: what both do together is more than one can.
static WorkerTimes long_stages(int n) { return n == 2 ? times(2, 1.4, 0.1) : times(1, 0.98, 0.01); }

// Two cores; all workers beyond them wait for a core.
static WorkerTimes two_cores(int n) { return n <= 2 ? idle(n) : times(n, 1.4, 0.6); }

// One of eight cores has a neighbour.
static WorkerTimes one_of_eight(int n) { return n == 8 ? times(8, 4, 3.5) : idle(n); }

// Steps of so many seconds; the share of them with `now` workers.
static double run(ActiveWorkers *active, Machine machine, int seconds, int now, uint64_t *clock) {
    int n_steps = seconds * SECOND_STEPS, hits = 0;
    for (int i = 0; i < n_steps; i++) {
        hits += active->now == now;
        WorkerTimes step = machine(active->now);
        *clock += STEP_US;
        active_workers_note(active, &step, *clock);
        assert_in_range(active->now, 1, active->most);
    }
    return (double)hits / n_steps;
}

static void all_work_where_nobody_takes_a_core(void **state) {
    (void)state;
    uint64_t clock = 0;
    for (int n = 1; n <= 256; n *= 2) {     // with many, small losses of each add up to a core's: a trial now and then
        ActiveWorkers active = active_workers(n);
        double share = run(&active, idle, 20, n, &clock);
        assert_true(n <= 16 ? share == 1 : share > 0.9);
    }
    ActiveWorkers active = active_workers(2);
    assert_true(run(&active, long_stages, 20, 2, &clock) == 1);
}

static void one_leaves_a_core_to_the_neighbour(void **state) {
    (void)state;
    uint64_t clock = 0;
    ActiveWorkers two = active_workers(2), eight = active_workers(8);
    run(&two, neighbour, 5, 1, &clock);
    assert_true(run(&two, neighbour, 60, 1, &clock) > 0.95);
    run(&two, idle, 3, 2, &clock);                            // the neighbour is gone
    assert_true(run(&two, idle, 20, 2, &clock) == 1);
    run(&two, neighbour, 1, 1, &clock);                       // and back again
    assert_true(run(&two, neighbour, 20, 1, &clock) > 0.9);
    run(&eight, one_of_eight, 5, 7, &clock);
    assert_true(run(&eight, one_of_eight, 60, 7, &clock) > 0.95);
}

// After five seconds two of n workers take part, and stay.
static void two_stay(int n, Machine machine) {
    uint64_t clock = 0;
    ActiveWorkers active = active_workers(n);
    run(&active, machine, 5, 2, &clock);
    assert_true(run(&active, machine, 60, 2, &clock) > 0.95);
}

static void more_than_cores_become_as_many(void **state) { (void)state; two_stay(8, two_cores); }
static void what_brings_nothing_is_taken_back(void **state) { (void)state; two_stay(2, overload); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_work_where_nobody_takes_a_core), cmocka_unit_test(one_leaves_a_core_to_the_neighbour),
        cmocka_unit_test(more_than_cores_become_as_many), cmocka_unit_test(what_brings_nothing_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_active_workers: how many workers take part and whether they give way, on made-up machines whose clock is a number.
// In: nothing. Out: one cmocka group.
// Invariant: a machine says what a plan's workers did in a step of 10 ms; nothing is measured, so no load changes a result.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/active_workers.h"
#include <cmocka.h>

enum { STEP_US = 10000, SECOND_STEPS = 100 };

typedef WorkerTimes (*Machine)(WorkerPlan plan);

// All of a step: n workers' time is work, waiting asleep, or time without a core.
static WorkerTimes times(int n, double busy, double waited) {
    double us = STEP_US;
    return (WorkerTimes){STEP_US, (uint64_t)(busy * us), (uint64_t)(waited * us), (uint64_t)((n - busy - waited) * us)};
}

static WorkerTimes idle(WorkerPlan plan) { return times(plan.n, 0.9 * plan.n, 0.09 * plan.n); }

// A neighbour has half of one core; the others' workers wait as long for the one that holds tiles there, or take all while it holds none.
static WorkerTimes neighbour(WorkerPlan plan) { return plan.gives_way ? times(plan.n, plan.n - 0.7, 0.05) : times(plan.n, 0.5 * plan.n, 0.5 * (plan.n - 1)); }

// One on each of two cores: who gives way gets less.
static WorkerTimes neighbours(WorkerPlan plan) { return plan.gives_way ? times(plan.n, 0.3 * plan.n, 0.02) : times(plan.n, 0.45 * plan.n, 0.2); }

// A scheduler that gives little to who gives way; one alone does as much as two.
static WorkerTimes unkind(WorkerPlan plan) { return plan.n == 1 ? times(1, 0.98, 0.01) : plan.gives_way ? times(2, 0.7, 0.1) : times(2, 1.0, 0.45); }

// Each of two workers gets a quarter of a core, alone or not.
static WorkerTimes overload(WorkerPlan plan) { return times(plan.n, 0.25 * plan.n, 0.3 * plan.n); }

// Few wait, as stages are long: what both do together is more than one can.
static WorkerTimes long_stages(WorkerPlan plan) { return plan.n == 2 ? times(2, 1.4, 0.1) : times(1, 0.98, 0.01); }

// Two cores; all workers beyond them wait for a core.
static WorkerTimes two_cores(WorkerPlan plan) { return plan.n <= 2 ? idle(plan) : times(plan.n, 1.4, 0.6); }

typedef struct Run {
    ActiveWorkers active;
    uint64_t clock;
    double direct;             // the share of the last steps in which nobody gave way
} Run;

static Run run_of(int most) { return (Run){.active = active_workers(most)}; }

// Steps of so many seconds; the share of them with `n` workers.
static double run(Run *r, Machine machine, int seconds, int n) {
    int n_steps = seconds * SECOND_STEPS, hits = 0, directs = 0;
    for (int i = 0; i < n_steps; i++) {
        hits += r->active.plan.n == n;
        directs += !r->active.plan.gives_way;
        WorkerTimes step = machine(r->active.plan);
        r->clock += STEP_US;
        active_workers_note(&r->active, &step, r->clock);
        assert_in_range(r->active.plan.n, 1, r->active.most);
    }
    r->direct = (double)directs / n_steps;
    return (double)hits / n_steps;
}

static void all_work_where_nobody_takes_a_core(void **state) {
    (void)state;
    for (int n = 1; n <= 256; n *= 2) {     // with many, small losses of each add up to a core's: a trial now and then
        Run r = run_of(n);
        double share = run(&r, idle, 20, n);
        assert_true(n <= 16 ? share == 1 && r.direct == 1 : share > 0.9);
    }
    Run r = run_of(2);
    assert_true(run(&r, long_stages, 20, 2) == 1 && r.direct == 1);
}

static void all_give_way_to_a_neighbour(void **state) {
    (void)state;
    for (int n = 2; n <= 8; n *= 4) {
        Run r = run_of(n);
        run(&r, neighbour, 5, n);
        assert_true(run(&r, neighbour, 60, n) == 1 && r.direct < 0.05);
        run(&r, idle, 3, n);                                   // the neighbour is gone
        assert_true(run(&r, idle, 20, n) == 1 && r.direct == 1);
        run(&r, neighbour, 1, n);                              // and back again
        assert_true(run(&r, neighbour, 20, n) == 1 && r.direct < 0.1);
    }
}

static void nobody_gives_way_where_less_is_done(void **state) {
    (void)state;
    Run r = run_of(2);
    run(&r, neighbours, 5, 2);
    assert_true(run(&r, neighbours, 60, 2) > 0.95 && r.direct > 0.95);
}

static void fewer_are_tried_where_giving_way_is_in_vain(void **state) {
    (void)state;
    Run r = run_of(2);
    run(&r, unkind, 5, 1);
    assert_true(run(&r, unkind, 60, 1) > 0.9);
    run(&r, idle, 3, 2);
    assert_true(run(&r, idle, 20, 2) == 1 && r.direct == 1);
}

// After five seconds two of n workers take part, and stay.
static void two_stay(int n, Machine machine) {
    Run r = run_of(n);
    run(&r, machine, 5, 2);
    assert_true(run(&r, machine, 60, 2) > 0.95);
}

static void more_than_cores_become_as_many(void **state) { (void)state; two_stay(8, two_cores); }
static void fewer_that_do_less_are_taken_back(void **state) { (void)state; two_stay(2, overload); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_work_where_nobody_takes_a_core), cmocka_unit_test(all_give_way_to_a_neighbour),
        cmocka_unit_test(nobody_gives_way_where_less_is_done),
        cmocka_unit_test(fewer_are_tried_where_giving_way_is_in_vain), cmocka_unit_test(more_than_cores_become_as_many),
        cmocka_unit_test(fewer_that_do_less_are_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_prompt_turn: who gets the tokens of a turn: short prompts before long ones, and the one that waits longest always.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "app/prompt_turn.h"

#include <cmocka.h>

enum { TURN = 128, MOST = 16 };

// Goes through one turn; got[i]: what prompt i was given. Gives the index that came first.
static int turn_run(WaitingPrompt *waiting, int n, int64_t *got) {
    PromptTurn turn = prompt_turn(TURN);
    int at, first = -1, pieces = 0;
    int64_t take, all = 0;
    for (int i = 0; i < n; i++) got[i] = 0;
    while (prompt_turn_next(&turn, waiting, n, &at, &take)) {
        assert_in_range(at, 0, n - 1);
        assert_in_range(take, 1, waiting[at].left);
        waiting[at].left -= take;
        got[at] += take;
        all += take;
        if (first < 0) first = at;
        assert_true(++pieces <= 2 * n);
    }
    assert_true(all <= TURN);
    return first;
}

static void test_short_ones_pass(void **state) {
    (void)state;
    int64_t got[MOST];
    WaitingPrompt waiting[] = {{900, 1, -1}, {20, 2, -1}, {0, 0, -1}, {30, 3, -1}};
    assert_int_equal(turn_run(waiting, 4, got), 1);
    assert_int_equal(got[0], TURN - 50);
    assert_int_equal(got[1], 20);
    assert_int_equal(got[2], 0);
    assert_int_equal(got[3], 30);
}

static void test_all_of_a_turn_is_used(void **state) {
    (void)state;
    int64_t got[MOST];
    WaitingPrompt few[] = {{20, 1, -1}, {500, 2, -1}}, many[MOST], one[] = {{1000, 7, -1}}, none[] = {{0, 1, -1}};
    turn_run(few, 2, got);
    assert_int_equal(got[0], 20);
    assert_int_equal(got[1], TURN - 20);      // what the one that waited longest did not need
    for (int i = 0; i < MOST; i++) many[i] = (WaitingPrompt){40, (uint64_t)i, -1};
    turn_run(many, MOST, got);
    assert_int_equal(got[0] + got[1] + got[2] + got[3], TURN);   // of equals the earliest
    assert_int_equal(got[2], 40);
    turn_run(one, 1, got);
    assert_int_equal(got[0], TURN);
    assert_int_equal(turn_run(none, 1, got), -1);
}

// However many short ones come, and however long: the earliest gets half of each turn.
static void test_nobody_starves(void **state) {
    (void)state;
    int64_t got[MOST], left = 1500;
    int turns = 0;
    for (; left > 0; turns++) {
        WaitingPrompt waiting[MOST] = {{left, 1, -1}};
        for (int i = 1; i < MOST; i++) waiting[i] = (WaitingPrompt){1 + 10 * i, 2 + (uint64_t)turns, -1};
        turn_run(waiting, MOST, got);
        int64_t least = left < TURN / 2 ? left : TURN / 2;
        assert_true(got[0] >= least);
        left = waiting[0].left;
    }
    assert_int_equal(turns, (1500 + TURN / 2 - 1) / (TURN / 2));
}

// Who waits for what another evaluates lets that one go first, whatever is left of it.
static void test_twins_go_first(void **state) {
    (void)state;
    int64_t got[MOST];
    WaitingPrompt waiting[] = {{700, 5, -1}, {90, 6, 0}, {80, 7, 1}, {100, 1, -1}};
    assert_int_equal(turn_run(waiting, 4, got), 0);
    assert_int_equal(got[0], TURN / 2);
    assert_int_equal(got[1] + got[2], 0);
    assert_int_equal(got[3], TURN / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_ones_pass),
        cmocka_unit_test(test_all_of_a_turn_is_used),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_twins_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

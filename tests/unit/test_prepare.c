// test_prepare: steps that are compiled ahead, by another thread too: what is computed in other numbers of rows meanwhile is
// the same bit by bit, nothing that can be avoided is compiled, and a stop ends it.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "unit/open_model.h"

enum { SLOTS = 16, VOCAB_MOST = 1024, PROMPT = 40 };
static const ModelOptions options = {.context = 64, .slots = SLOTS};

static void prepare(OpenModel *b, int rows, bool want_logits) {
    Error err = {0};
    if (!model_prepare_rows(b->model, rows, want_logits, &err)) fail_msg("%s", err.text);
}

// Logits of a step of n sequences, each at position 0 with a token of its own: [n][vocab].
static void step_rows(OpenModel *b, int n, float *out) {
    Error err = {0};
    int32_t tokens[SLOTS], positions[SLOTS] = {0}, slots[SLOTS];
    int64_t vocab = model_vocab_size(b->model);
    for (int i = 0; i < n; i++) tokens[i] = 10 + i * 3, slots[i] = i;
    for (int i = 0, take; i < n; i += take) {
        take = model_rows_now(b->model, n - i, true);
        assert_in_range(take, 1, n - i);
        if (!model_forward(b->model, tokens + i, positions + i, slots + i, take, true, &err)) fail_msg("%s", err.text);
        for (int r = 0; r < take; r++) model_logits(b->model, r, out + (i + r) * vocab);
    }
}

static void prompt_last(OpenModel *b, float *out) {
    Error err = {0};
    int32_t tokens[PROMPT];
    for (int i = 0; i < PROMPT; i++) tokens[i] = 5 + i * 2;
    if (!model_eval(b->model, 1, tokens, PROMPT, 0, LOGITS_LAST, out, &err)) fail_msg("%s", err.text);
}

static void prepare_rest(void *opaque) {
    OpenModel *b = opaque;
    for (int n = 8; n > 1; n /= 2) prepare(b, n, true);
    prepare(b, 64, false);
    model_avoid_compiling(b->model, false);
}

// All numbers of rows, and a prompt, beside the same of a model that compiles what it needs.
static void compare(OpenModel *plain, OpenModel *b, const int *rows, int n_rows) {
    static float want[SLOTS * VOCAB_MOST], got[SLOTS * VOCAB_MOST], last[VOCAB_MOST], same[VOCAB_MOST];
    size_t row = (size_t)model_vocab_size(plain->model) * sizeof(float);
    assert_in_range(row, 1, sizeof last);
    for (int i = 0; i < n_rows; i++) {
        step_rows(plain, rows[i], want);
        step_rows(b, rows[i], got);
        assert_memory_equal(got, want, row * (size_t)rows[i]);
    }
    prompt_last(plain, last);
    prompt_last(b, same);
    assert_memory_equal(same, last, row);
}

static void what_is_there_serves_all_numbers_of_rows(void **state) {
    (void)state;
    static const int rows[] = {1, 2, 3, 7, 11, 16};
    enum { N = sizeof rows / sizeof *rows };
    OpenModel plain, b;
    if (!open_model(&plain, NULL, "tiny-llama", "f32", &options)) skip();
    assert_true(open_model(&b, NULL, "tiny-llama", "f32", &options));
    assert_int_equal(model_rows_now(b.model, 7, true), 7);              // who does not avoid compiling takes all
    model_avoid_compiling(b.model, true);
    prepare(&b, 1, true);
    int scheduled = engine_scheduled_count(b.engine);
    compare(&plain, &b, rows, N);
    assert_int_equal(model_rows_now(b.model, 7, true), 1);
    assert_int_equal(engine_scheduled_count(b.engine), scheduled);
    prepare(&b, 16, true);
    scheduled = engine_scheduled_count(b.engine);
    assert_int_equal(model_rows_now(b.model, 1, true), 1);
    assert_int_equal(model_rows_now(b.model, 3, true), 1);              // 16 rows for 3 cost more
    assert_int_equal(model_rows_now(b.model, 4, true), 4);
    compare(&plain, &b, rows, N);
    assert_int_equal(engine_scheduled_count(b.engine), scheduled);
    Thread *thread = thread_start(prepare_rest, &b);
    assert_non_null(thread);
    for (int i = 0; i < 10; i++) compare(&plain, &b, rows, N);
    thread_join(thread);
    scheduled = engine_scheduled_count(b.engine);
    compare(&plain, &b, rows, N);
    assert_int_equal(engine_scheduled_count(b.engine), scheduled);
    close_model(&b);
    close_model(&plain);
}

// Rows of different sequences are steps of their own: the numbers of rows beyond them are for pieces of one prompt.
static void many_rows_are_of_one_slot(void **state) {
    (void)state;
    enum { MANY = SLOTS + 1 };
    OpenModel b;
    Error err = {0};
    int32_t tokens[MANY], positions[MANY], slots[MANY];
    if (!open_model(&b, NULL, "tiny-llama", "f32", &options)) skip();
    for (int i = 0; i < MANY; i++) tokens[i] = 7, positions[i] = i, slots[i] = i == MANY - 1 ? 1 : 0;
    assert_false(model_forward(b.model, tokens, positions, slots, MANY, false, &err));
    assert_non_null(strstr(err.text, "17 rows of several slots: at most 16"));
    slots[MANY - 1] = 0;
    assert_true(model_forward(b.model, tokens, positions, slots, MANY, false, &err));
    close_model(&b);
}

// The last test: this program compiles nothing afterwards.
static void nothing_is_compiled_after_a_stop(void **state) {
    (void)state;
    OpenModel b;
    Error err = {0};
    Text output;
    int status;
    if (!open_model(&b, NULL, "tiny-llama", "f32", &options)) skip();
    prepare(&b, 1, true);
    processes_stop();
    bool is_known = model_prepare_rows(b.model, 1, true, &err);          // what is there stays
    assert_true(is_known);
    const char *const words[] = {"true", NULL};
    assert_false(process_run(b.arena, words, 1000, &status, &output, &err));
    assert_non_null(strstr(err.text, "about to end"));
    close_model(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_there_serves_all_numbers_of_rows), cmocka_unit_test(many_rows_are_of_one_slot),
        cmocka_unit_test(nothing_is_compiled_after_a_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_draws: a step and the draws from its logits in one run: the same tokens as one after the other, on every device that is
// here, and on a card one copy, one launch and one wait for each token.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "cuda/fake_cuda.h"
#include "models/draws.h"
#include "unit/open_model.h"
#include "fake_card.h"

enum { SLOTS = 4, KINDS = 4 };
static const ModelOptions options = {.context = 64, .slots = SLOTS};

// One of each way to draw that differs in what it is told.
static SamplingOptions kind_of_draw(int i) {
    SamplingOptions o = sampling_defaults();
    o.seed = 77 + (uint64_t)i;
    o.temperature = i == 0 ? 0 : 1.3f;
    o.top_k = i == 1 ? 5 : 40;
    o.top_p = 0.9f;
    o.repeat_penalty = i == 2 ? 1.5f : 1;
    o.has_bias = i == 3;
    return o;
}

typedef struct Rows { int32_t tokens[SLOTS], positions[SLOTS], slots[SLOTS]; SamplingOptions options[SLOTS]; ModelDraw draws[SLOTS]; Error errors[SLOTS]; } Rows;

// n rows of different slots, and draws from n_draws of them, the last row first; kind: of the first, `step` further for each after it.
static void rows_make(Rows *r, int n, int n_draws, int kind, int step, int position) {
    for (int i = 0; i < n; i++) {
        int slot = (i * 3 + 1) % SLOTS;
        r->tokens[i] = 11 + 31 * slot + position, r->positions[i] = position, r->slots[i] = slot;
    }
    for (int i = 0; i < n_draws; i++) {
        r->options[i] = kind_of_draw((kind + i * step) % KINDS);
        r->draws[i] = (ModelDraw){n - 1 - i, &r->options[i], (uint32_t)(100 + position), -2, &r->errors[i]};
    }
}

static void draws_run(Model *m, Rows *r, int n, int n_draws) {
    Error err = {0};
    if (!model_draw(m, r->tokens, r->positions, r->slots, n, r->draws, n_draws, &err)) fail_msg("%s", err.text);
}

// The tokens of the same rows by a step, and a draw of its own for each.
static void check_draws(Model *m, Rows *r, int n, int n_draws) {
    Error err = {0};
    int32_t want[SLOTS];
    draws_run(m, r, n, n_draws);
    if (!model_forward(m, r->tokens, r->positions, r->slots, n, true, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < n_draws; i++) {
        const ModelDraw *d = &r->draws[i];
        if (!model_sample(m, d->row, r->slots[d->row], d->options, d->number, &want[i], &err)) fail_msg("%s", err.text);
        assert_int_equal(d->token, want[i]);
    }
}

static bool open_on(OpenModel *m, const char *device) {
    Engine *probe = NULL;
    Error err = {0};
    if (!engine_open(&probe, device, NULL, 1, &err)) return false;
    engine_close(probe);
    if (!open_model(m, device, "tiny-llama", "q4_0", &options)) return false;
    for (int slot = 0; slot < SLOTS; slot++) assert_true(model_set_bias(m->model, slot, 3 + slot, 50, &err));
    for (int slot = 0; slot < SLOTS; slot++) model_set_count(m->model, slot, 40 + slot, 2);
    return true;
}

static void tokens_are_those_of_single_steps(void **state) {
    (void)state;
    OpenModel m;
    Rows r = {0};
    int position = 0;
    if (!open_on(&m, NULL)) skip();
    for (int n = 1; n <= SLOTS; n++, position++)
        for (int kind = 0; kind < KINDS; kind++) {
            rows_make(&r, n, n, kind, 0, position);
            check_draws(m.model, &r, n, n);
        }
    rows_make(&r, SLOTS, SLOTS - 1, 0, 3, position);   // several kinds at once, and a row that nothing is drawn from
    check_draws(m.model, &r, SLOTS, SLOTS - 1);
    close_model(&m);
}

// ---------------------------------------------------------------- draws from logits that are there

enum { VOCAB = 300 };
typedef struct Alone {
    Arena *arena;
    Engine *engine;
    ModelConfig config;
    ModelPlan plan;
    Draws draws;
    int32_t best[MODEL_ROWS_MIXED];    // of each row, the lowest of equals
} Alone;

static bool alone_open(Alone *a, const char *device) {
    Error err = {0};
    *a = (Alone){.config.vocab = VOCAB, .plan.slots = 2};
    if (!engine_open(&a->engine, device, NULL, 2, &err)) return false;
    a->arena = arena_create();
    a->plan.config = &a->config;
    float *logits = arena_new(a->arena, (size_t)MODEL_ROWS_MIXED * VOCAB * sizeof *logits);
    uint32_t noise = 1;
    for (int row = 0; row < MODEL_ROWS_MIXED; row++)
        for (int i = 0; i < VOCAB; i++) {
            float *at = logits + row * VOCAB;
            noise = noise * 1664525u + 1013904223u;
            at[i] = (float)(noise >> 20) / 256 - 8;
            if (at[i] > at[a->best[row]]) a->best[row] = i;
        }
    int64_t id = -1;
    assert_true(engine_buffer_alloc(a->engine, sizeof(StepInputs), &a->plan.step_inputs, &err));
    assert_true(engine_buffer_alloc(a->engine, (size_t)MODEL_ROWS_MIXED * VOCAB * sizeof *logits, &id, &err));
    engine_buffer_write(a->engine, id, 0, logits, (size_t)MODEL_ROWS_MIXED * VOCAB * sizeof *logits);
    assert_true(draws_open(&a->draws, a->arena, a->engine, &a->plan, id, &err));
    return true;
}

static void alone_close(Alone *a, Step *step) {
    draws_close(&a->draws);
    step_destroy(step);
    engine_close(a->engine);
    arena_destroy(a->arena);
}

static Step *alone_step(Alone *a, const SamplingOptions *o) {
    Error err = {0};
    Step *step = NULL;
    if (!draws_compile(&a->draws, sampling_parts(o), &step, &err)) fail_msg("%s", err.text);
    return step;
}

static DrawInput input_of_row(int row, const SamplingOptions *o) {
    DrawInput in = {.row = row, .slot = row % 2};
    sampling_pack(o, (uint32_t)row, in.params, in.words);
    return in;
}

// Draws first … first + n of rows `first_row` on, as one table.
static void alone_run(Alone *a, const Step *draw, const SamplingOptions *o, int first, int n, int first_row, DrawResult *results) {
    Error err = {0};
    Step *joined;
    DrawInput in[MODEL_ROWS_MIXED] = {0};
    for (int i = 0; i < n; i++) in[first + i] = input_of_row(first_row + i, o);
    draws_write(&a->draws, in, first + n);
    if (!draws_join(&a->draws, NULL, draw, first, n, &joined, &err) || !step_run(joined, &err)) fail_msg("%s", err.text);
    draws_read(&a->draws, results, first + n);
}

static void check_alone(const char *device) {
    enum { N = 3, FIRST = 2, ROW = 5 };
    Alone a;
    if (!alone_open(&a, device)) skip();
    SamplingOptions best = greedy();
    Step *step = alone_step(&a, &best);
    DrawResult results[MODEL_ROWS_MIXED];
    for (int again = 0; again < 2; again++) {
        alone_run(&a, step, &best, FIRST, N, ROW + again, results);
        for (int i = 0; i < N; i++) {
            assert_int_equal(results[FIRST + i].status, SAMPLING_OK);
            assert_int_equal(results[FIRST + i].token, a.best[ROW + again + i]);
        }
    }
    alone_close(&a, step);
}

static void draws_on_the_cpu(void **state) { (void)state; check_alone(NULL); }
static void draws_on_opencl(void **state) { (void)state; check_alone("opencl"); }
static void draws_on_cuda(void **state) { (void)state; check_alone("cuda"); }

// By chance, alone and side by side: the same; and more tables than are kept, so that those that come back are made anew.
static void tables_are_made_anew(void **state) {
    (void)state;
    Alone a;
    SamplingOptions o = sampling_defaults();
    DrawResult results[MODEL_ROWS_MIXED];
    int32_t want[MODEL_ROWS_MIXED];
    int differing = 0;
    if (!alone_open(&a, NULL)) skip();
    Step *step = alone_step(&a, &o);
    for (int row = 0; row < MODEL_ROWS_MIXED; row++) {
        alone_run(&a, step, &o, 0, 1, row, results);
        want[row] = results[0].token;
        differing += want[row] != a.best[row];
    }
    for (int turn = 0; turn < 2; turn++)
        for (int first = 0; first < MODEL_ROWS_MIXED; first++)
            for (int n = 1; n <= MODEL_ROWS_MIXED - first; n++) {
                alone_run(&a, step, &o, first, n, (first + turn) % (MODEL_ROWS_MIXED - n + 1), results);
                for (int i = 0; i < n; i++) assert_int_equal(results[first + i].token, want[(first + turn) % (MODEL_ROWS_MIXED - n + 1) + i]);
            }
    assert_true(differing > 0);
    alone_close(&a, step);
}

// With LATHE_JIT=0 no step is kept, and so no table that was made of steps.
static void without_kept_steps(void **state) {
    (void)state;
    OpenModel m;
    Rows r = {0};
    int32_t want[2];
    if (!open_on(&m, NULL)) skip();
    for (int turn = 0; turn < 3; turn++) {
        if (turn == 1) setenv("LATHE_JIT", "0", 1);
        rows_make(&r, 2, 2, 0, 1, 0);
        draws_run(m.model, &r, 2, 2);
        for (int i = 0; i < 2 && turn == 0; i++) want[i] = r.draws[i].token;
        for (int i = 0; i < 2; i++) assert_int_equal(r.draws[i].token, want[i]);
    }
    unsetenv("LATHE_JIT");
    close_model(&m);
}

// A slot in which nothing may be drawn says so; the others have what they would have without it.
static void one_draw_fails_alone(void **state) {
    (void)state;
    enum { N = 3, CLOSED = 1 };
    OpenModel m;
    Rows r = {0}, all = {0};
    Error err = {0};
    if (!open_on(&m, NULL)) skip();
    uint8_t *nothing = arena_new(m.arena, (size_t)model_vocab_size(m.model));
    rows_make(&all, N, N, 2, 1, 0);
    draws_run(m.model, &all, N, N);
    rows_make(&r, N, N, 2, 1, 0);
    model_set_allowed(m.model, r.slots[r.draws[CLOSED].row], nothing);
    draws_run(m.model, &r, N, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(r.draws[i].token, i == CLOSED ? -1 : all.draws[i].token);
        assert_true((r.errors[i].text[0] != 0) == (i == CLOSED));
    }
    assert_non_null(strstr(r.errors[CLOSED].text, "no token is left"));
    r.draws[0].row = N;
    assert_false(model_draw(m.model, r.tokens, r.positions, r.slots, N, r.draws, N, &err));
    assert_non_null(strstr(err.text, "row 3 of 3"));
    close_model(&m);
}

// ---------------------------------------------------------------- what a token costs on a card

static FakeCountsGet *counts_of_fake(void) {
    Error err = {0};
    void *library = library_open(getenv("LATHE_CUDA"), &err);
    void *symbol = library ? library_symbol(library, "fake_cuda_counts") : NULL;
    FakeCountsGet *get = NULL;
    if (symbol) memcpy(&get, &symbol, sizeof get);
    return get;
}

// Of so many tokens, with masks that were made of the last token.
static void assert_counts(FakeCountsGet *get, const FakeCounts *before, unsigned long each, unsigned long masks) {
    FakeCounts now;
    get(&now);
    assert_int_equal(now.graph_launches - before->graph_launches, each);
    assert_int_equal(now.copies_in - before->copies_in, each + masks);
    assert_int_equal(now.waits - before->waits, each);
    assert_int_equal(now.copies_out - before->copies_out, 0);
    assert_int_equal(now.graphs_made - before->graphs_made, 0);
}

static void a_token_on_a_card_is_one_copy_and_one_launch(void **state) {
    (void)state;
    enum { N = 3, TOKENS = 5 };
    FakeCountsGet *get = counts_of_fake();
    FakeCounts before;
    OpenModel m;
    Error err = {0}, errors[N];
    Session *s[N];
    int32_t tokens[N];
    assert_non_null(get);
    setenv("FAKE_CUDA_RUNS_NOTHING", "1", 1);   // tokens are all 0 then, and cost what others do
    if (!open_on(&m, "cuda")) skip();
    SamplingOptions greedy_one = greedy(), usual = sampling_defaults();
    for (int i = 0; i < N; i++) {
        s[i] = session_new(&m, i, &usual);
        assert_true(session_prompt(s[i], (const int32_t[]){5, 6, 7 + i}, 3, NULL, NULL, &err));
    }
    for (int kind = 0; kind < 2; kind++) {
        assert_true(session_set_sampling(s[0], kind ? &usual : &greedy_one, &err));
        assert_true(session_step(s[0], tokens, &err));
        get(&before);
        for (int i = 0; i < TOKENS; i++) assert_true(session_step(s[0], tokens, &err));
        assert_counts(get, &before, TOKENS, 0);
    }
    uint8_t *mask = arena_new(m.arena, (size_t)model_vocab_size(m.model));
    memset(mask, 1, (size_t)model_vocab_size(m.model));
    get(&before);
    for (int i = 0; i < TOKENS; i++) {
        session_set_allowed(s[0], mask);
        assert_true(session_step(s[0], tokens, &err));
    }
    session_set_allowed(s[0], NULL);
    assert_counts(get, &before, TOKENS, TOKENS + 1);
    assert_true(sessions_step(s, N, tokens, errors, &err));
    get(&before);
    for (int i = 0; i < TOKENS; i++) assert_true(sessions_step(s, N, tokens, errors, &err));
    assert_counts(get, &before, TOKENS, 0);
    for (int i = 0; i < N; i++) session_close(s[i]);
    close_model(&m);
    unsetenv("FAKE_CUDA_RUNS_NOTHING");
}

int main(int argc, char **argv) {
    (void)argc;
    fake_card_use(argv[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_single_steps),
        cmocka_unit_test(draws_on_the_cpu),
        cmocka_unit_test(draws_on_opencl),
        cmocka_unit_test(draws_on_cuda),
        cmocka_unit_test(tables_are_made_anew),
        cmocka_unit_test(without_kept_steps),
        cmocka_unit_test(one_draw_fails_alone),
        cmocka_unit_test(a_token_on_a_card_is_one_copy_and_one_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

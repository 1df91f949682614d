// test_generate: models on an engine: sessions against the goldens' greedy tokens, reuse of the cache, the penalty
// window, limits of the context, bad numbers, and a decode loop that builds and allocates nothing.
// Models are made by tools/make_model.py; where Python or its packages are missing the tests are skipped by name.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/os.h"
#include "base/settings.h"
#include "unit/open_model.h"

// Every allocation of the program, whichever library makes it: arenas and graphs grow through these as well.
static atomic_long allocations;
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__   // sanitizers bring their own
#define COUNTS_ALLOCATIONS 1
void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t n, size_t nbytes);
void *__libc_realloc(void *at, size_t nbytes);
void *malloc(size_t nbytes) {
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(nbytes);
}
void *calloc(size_t n, size_t nbytes) {
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(n, nbytes);
}
void *realloc(void *at, size_t nbytes) {
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(at, nbytes);
}
#else
#define COUNTS_ALLOCATIONS 0
#endif

typedef struct Bench {
    OpenModel m;
    json_t *golden;
    int32_t prompt[64];
    int n;
} Bench;

static bool bench_open(Bench *b, const char *device, const char *shape, const char *quant,
                       const ModelOptions *options) {
    json_error_t at;
    if (!open_model(&b->m, device ? device : getenv("LATHE_TEST_DEVICE"), shape, quant, options)) return false;
    b->golden = json_load_file(arena_printf(b->m.arena, "tests/golden/%s-%s.json", shape, quant), 0,
                               &at);
    json_t *prompt = json_object_get(b->golden, "prompt");
    b->n = (int)json_array_size(prompt);
    assert_in_range(b->n, 2, 64);
    for (int i = 0; i < b->n; i++)
        b->prompt[i] = (int32_t)json_integer_value(json_array_get(prompt, (size_t)i));
    return true;
}

static void bench_close(Bench *b) {
    json_decref(b->golden);
    close_model(&b->m);
}

static void prompt(Session *s, const int32_t *tokens, int64_t n) {
    Error err = {0};
    if (!session_prompt(s, tokens, n, NULL, NULL, &err)) fail_msg("%s", err.text);
}

static int32_t step(Session *s) {
    Error err = {0};
    int32_t token = -1;
    if (!session_step(s, &token, &err)) fail_msg("%s", err.text);
    return token;
}

// ---------------------------------------------------------------- goldens

static void check_greedy(const char *device, const char *shape, const char *quant, int steps) {
    Bench b;
    if (!bench_open(&b, device, shape, quant, &(ModelOptions){.exact = true, .context = 128}))
        skip();
    SamplingOptions o = greedy();
    Session *s = session_new(&b.m, 0, &o);
    prompt(s, b.prompt, b.n);
    for (int i = 0; i < steps; i++)
        assert_int_equal(step(s), json_integer_value(json_array_get(
                                      json_object_get(b.golden, "greedy"), (size_t)i)));
    session_close(s);
    bench_close(&b);
}

static void greedy_llama(void **state) {
    (void)state;
    check_greedy(NULL, "tiny-llama", "f32", 16);
}
static void greedy_glm(void **state) {
    (void)state;
    check_greedy(NULL, "tiny-glm", "f32", 16);
}
static void greedy_dsv2(void **state) {
    (void)state;
    check_greedy(NULL, "tiny-dsv2", "q4_0", 16);
}
static void greedy_youtu(void **state) {
    (void)state;
    check_greedy(NULL, "tiny-youtu", "q6_k", 16);
}
static void greedy_qwen3moe(void **state) {
    (void)state;
    check_greedy(NULL, "tiny-qwen3moe", "q4_k", 16);
}
static void greedy_on_eval(void **state) {
    (void)state;
    check_greedy("eval", "tiny-llama", "f32", 2);
}

// ---------------------------------------------------------------- logits

static void logits_of(Bench *b, const int32_t *tokens, int n, LogitRows rows, float *out) {
    Error err = {0};
    if (!model_eval(b->m.model, 0, tokens, n, 0, rows, out, &err)) fail_msg("%s", err.text);
}

// All rows or the last one, any chunk: the same bits, and within 1e-4 of the exact values.
static void check_chunks(const char *shape, const char *quant) {
    const int chunks[] = {0, 1, 3, 16};
    float first[1024] = {0};
    for (int c = 0; c < 4; c++) {
        Bench b;
        if (!bench_open(&b, NULL, shape, quant,
                        &(ModelOptions){.exact = true, .context = 64, .chunk = chunks[c]}))
            skip();
        int64_t vocab = model_vocab_size(b.m.model);
        assert_in_range(vocab, 1, 1024);
        float *all = arena_new(b.m.arena, (size_t)(b.n * vocab) * sizeof *all),
              *last = all + (b.n - 1) * vocab, again[1024];
        logits_of(&b, b.prompt, b.n, LOGITS_ALL, all);
        logits_of(&b, b.prompt, b.n, LOGITS_LAST, again);
        size_t nbytes = (size_t)vocab * sizeof *again;
        assert_memory_equal(last, again, nbytes);
        if (c == 0) memcpy(first, last, nbytes);
        assert_memory_equal(first, last, nbytes);
        json_t *want = json_object_get(b.golden, "exact_last_logits");
        double largest = 0, worst = 0;
        for (int64_t i = 0; i < vocab; i++) {
            double w = json_number_value(json_array_get(want, (size_t)i));
            largest = fmax(largest, fabs(w)), worst = fmax(worst, fabs((double)last[i] - w));
        }
        assert_true(worst <= 1e-4 * largest);
        bench_close(&b);
    }
}

static double rms_between(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum / (double)n);
}

// A rounded cache is one of many places that fast mode rounds to as many bits: its logits differ from those of an f32
// cache by less than fast mode's do, and what it would say next is a near-tie of the f32 cache wherever it is another token.
static void check_rounded_cache(const char *shape, const char *quant) {
    const ModelOptions ways[] = {{.exact = true, .context = 128, .cache_type = "f32"},
                                 {.exact = true, .context = 128, .cache_type = "q8_0"},
                                 {.context = 128, .cache_type = "f32"}};
    float *rows[3] = {NULL};
    int64_t vocab = 0, n = 0;
    for (int w = 0; w < 3; w++) {
        Bench b;
        if (!bench_open(&b, NULL, shape, quant, &ways[w])) skip();
        vocab = model_vocab_size(b.m.model), n = b.n;
        rows[w] = malloc((size_t)(n * vocab) * sizeof *rows[w]);
        logits_of(&b, b.prompt, b.n, LOGITS_ALL, rows[w]);
        bench_close(&b);
    }
    double cache = rms_between(rows[0], rows[1], n * vocab), fast = rms_between(rows[0], rows[2], n * vocab);
    if (!(cache > 0 && cache < fast)) fail_msg("%s: the cache moves logits by %g, fast mode by %g", shape, cache, fast);
    for (int64_t r = 0; r < n; r++) {
        const float *want = rows[0] + r * vocab, *got = rows[1] + r * vocab;
        int64_t best = 0, said = 0;
        for (int64_t i = 1; i < vocab; i++) best = want[i] > want[best] ? i : best, said = got[i] > got[said] ? i : said;
        if (want[best] - want[said] > 4 * cache) fail_msg("%s, position %lld: %lld for %lld", shape, (long long)r, (long long)said, (long long)best);
    }
    for (int w = 0; w < 3; w++) free(rows[w]);
}

static void a_rounded_cache_is_close(void **state) {
    (void)state;
    check_rounded_cache("tiny-llama", "q4_0");
    check_rounded_cache("tiny-glm", "q4_0");
}

static void logits_do_not_depend_on_chunks(void **state) {
    (void)state;
    const char *device = getenv("LATHE_TEST_DEVICE");
    if (device && !strcmp(device, "eval")) {
        print_message(
            "skipped: the eval device rounds where values are stored, not after each operation\n");
        skip();
    }
    check_chunks("tiny-llama", "q4_0");
    check_chunks("tiny-dsv2", "f32"); // norms inside a block, over a part of a product
}

// ---------------------------------------------------------------- sessions

// What a session reuses is exactly what was written: an abandoned answer, a longer history, a changed one.
static void cache_reuse_changes_nothing(void **state) {
    (void)state;
    Bench b;
    if (!bench_open(&b, NULL, "tiny-glm", "q8_0", &(ModelOptions){.context = 64, .slots = 2}))
        skip();
    SamplingOptions o = greedy();
    Session *warm = session_new(&b.m, 0, &o), *cold = session_new(&b.m, 1, &o);
    int32_t history[64];
    prompt(warm, b.prompt, b.n);
    assert_int_equal(session_cached(warm), b.n - 1);
    for (int i = 0; i < 2; i++) step(warm);
    assert_int_equal(session_length(warm), b.n + 2);
    assert_int_equal(session_cached(warm), b.n + 1); // the newest token is not yet written
    memcpy(history, session_tokens(warm), (size_t)(b.n + 2) * sizeof *history);
    history[b.n + 2] = 7, history[b.n + 3] = 11;
    prompt(warm, history, b.n + 4);
    assert_int_equal(session_reused(warm), b.n + 1);
    prompt(cold, history, b.n + 4);
    assert_int_equal(session_reused(cold), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(step(warm), step(cold));
    history[3] ^= 1;
    prompt(warm, history, 8);
    assert_int_equal(session_reused(warm), 3);
    session_truncate(cold, 0);
    prompt(cold, history, 8);
    assert_int_equal(session_reused(cold), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(step(warm), step(cold));
    prompt(warm, history, 8); // the same again: only the last token is evaluated
    assert_int_equal(session_reused(warm), 7);
    session_close(warm);
    session_close(cold);
    bench_close(&b);
}

// A request repeated warm gives the cold answer although the window reaches into the prompt.
static void penalty_window_spans_the_prompt(void **state) {
    (void)state;
    Bench b;
    if (!bench_open(&b, NULL, "tiny-llama", "q4_0", &(ModelOptions){.context = 64})) skip();
    SamplingOptions plain = greedy(), heavy = greedy();
    heavy.presence_penalty = 50, heavy.penalty_window = 24;
    Session *s = session_new(&b.m, 0, &heavy);
    int32_t first[12], second[12];
    prompt(s, b.prompt, b.n);
    for (int i = 0; i < 12; i++) first[i] = step(s);
    prompt(s, b.prompt, b.n);
    for (int i = 0; i < 12; i++) second[i] = step(s);
    assert_memory_equal(first, second, sizeof first);
    // Under so heavy a penalty no token of the last 24 comes again, of the prompt neither; older ones may.
    int32_t all[64];
    memcpy(all, b.prompt, (size_t)b.n * sizeof *all);
    memcpy(all + b.n, first, sizeof first);
    for (int i = b.n; i < b.n + 12; i++)
        for (int k = i - 24 < 0 ? 0 : i - 24; k < i; k++) assert_int_not_equal(all[i], all[k]);
    Error err = {0};
    assert_true(session_set_sampling(s, &plain, &err));
    prompt(s, b.prompt, b.n);
    for (int i = 0; i < 12; i++) second[i] = step(s);
    assert_memory_not_equal(first, second, sizeof first);
    session_close(s);
    bench_close(&b);
}

static bool is_among(int32_t token, const int32_t *tokens, int n) {
    for (int i = 0; i < n; i++)
        if (tokens[i] == token) return true;
    return false;
}

// Prompts whose likeliest next token stands in them, so that a penalty which forgot the prompt would show at once.
static void a_prompt_is_penalised_cold_and_warm(void **state) {
    (void)state;
    Bench b;
    if (!bench_open(&b, NULL, "tiny-llama", "q4_0", &(ModelOptions){.context = 64, .slots = 2})) skip();
    SamplingOptions plain = greedy(), heavy = greedy();
    heavy.presence_penalty = 50;
    Session *free_one = session_new(&b.m, 0, &plain);
    int n_found = 0;
    for (int32_t x = 0; x < (int32_t)model_vocab_size(b.m.model) && n_found < 3; x++) {
        b.prompt[b.n] = x;
        prompt(free_one, b.prompt, b.n + 1);
        int32_t likeliest = step(free_one);
        if (!is_among(likeliest, b.prompt, b.n + 1)) continue;
        Session *fined = session_new(&b.m, 1, &heavy);
        prompt(fined, b.prompt, b.n + 1);
        int32_t cold = step(fined);
        assert_false(is_among(cold, b.prompt, b.n + 1));
        prompt(fined, b.prompt, b.n + 1);
        assert_true(session_reused(fined) > 0);
        assert_int_equal(step(fined), cold);
        session_close(fined);
        n_found++;
    }
    assert_int_equal(n_found, 3);
    session_close(free_one);
    bench_close(&b);
}

// The window moves token by token as it would if each history were a new prompt, and what left it is free again.
static void what_leaves_the_window_is_free(void **state) {
    (void)state;
    enum { WINDOW = 2, STEPS = 24 };
    Bench b;
    if (!bench_open(&b, NULL, "tiny-llama", "q4_0", &(ModelOptions){.context = 64, .slots = 2})) skip();
    SamplingOptions heavy = greedy();
    heavy.presence_penalty = 50, heavy.penalty_window = WINDOW;
    Session *s = session_new(&b.m, 0, &heavy);
    int n_again = 0, n = b.n;
    prompt(s, b.prompt, n);
    for (int i = 0; i < STEPS; i++) step(s);
    const int32_t *all = session_tokens(s);
    for (int i = n; i < n + STEPS; i++) {
        Session *fresh = session_new(&b.m, 1, &heavy);
        prompt(fresh, all, i);
        assert_int_equal(step(fresh), all[i]);
        session_close(fresh);
        assert_false(is_among(all[i], all + i - WINDOW, WINDOW));
        n_again += is_among(all[i], all + n, i - n);
    }
    assert_true(n_again > 0);
    session_close(s);
    bench_close(&b);
}

static void seeds_repeat(void **state) {
    (void)state;
    Bench b;
    if (!bench_open(&b, NULL, "tiny-llama", "q4_0", &(ModelOptions){.context = 64})) skip();
    SamplingOptions o = sampling_defaults();
    o.temperature = 2, o.top_k = 0, o.top_p = 1, o.min_p = 0;
    int32_t answers[3][10];
    for (int r = 0; r < 3; r++) {
        o.seed = r == 2 ? 99 : 5;
        Session *s = session_new(&b.m, 0, &o);
        prompt(s, b.prompt, b.n);
        for (int i = 0; i < 10; i++) answers[r][i] = step(s);
        session_close(s);
    }
    assert_memory_equal(answers[0], answers[1], sizeof answers[0]);
    assert_memory_not_equal(answers[0], answers[2], sizeof answers[0]);
    bench_close(&b);
}

static void the_context_ends_with_an_error(void **state) {
    (void)state;
    Bench b;
    Error err = {0};
    int32_t token, long_prompt[33] = {0};
    if (!bench_open(&b, NULL, "tiny-llama", "q4_0", &(ModelOptions){.context = 32})) skip();
    SamplingOptions o = greedy();
    Session *s = session_new(&b.m, 0, &o);
    assert_false(session_step(s, &token, &err)); // nothing prompted
    assert_false(session_prompt(s, long_prompt, 33, NULL, NULL, &err));
    assert_non_null(strstr(err.text, "33"));
    assert_non_null(strstr(err.text, "32"));
    assert_false(session_prompt(s, (int32_t[]){1, 1024}, 2, NULL, NULL, &err));
    assert_non_null(strstr(err.text, "1024"));
    assert_false(session_prompt(s, (int32_t[]){-1}, 1, NULL, NULL, &err));
    assert_false(session_prompt(s, long_prompt, 0, NULL, NULL, &err));
    prompt(s, b.prompt, b.n);
    while (session_room(s) > 0) step(s);
    assert_int_equal(session_length(s), 32);
    assert_false(session_step(s, &token, &err));
    assert_non_null(strstr(err.text, "full"));
    session_truncate(s, 20);
    assert_int_equal(session_room(s), 12);
    step(s);
    session_close(s);
    assert_false(session_open(&s, b.m.model, 1, &o, &err));
    assert_null(s);
    bench_close(&b);
}

// After the third token a step builds nothing and allocates nothing; scheduling anew each time gives the same ids.
static void replay_allocates_nothing(void **state) {
    (void)state;
    Bench b;
    int32_t replayed[10], anew[10];
    if (!bench_open(&b, NULL, "tiny-glm", "q4_0", &(ModelOptions){.context = 64})) skip();
    SamplingOptions o = sampling_defaults();
    o.repeat_penalty = 1.1f;
    Session *s = session_new(&b.m, 0, &o);
    prompt(s, b.prompt, b.n);
    for (int i = 0; i < 3; i++) replayed[i] = step(s);
    long before = atomic_load(&allocations);
    for (int i = 3; i < 10; i++) replayed[i] = step(s);
    if (COUNTS_ALLOCATIONS) assert_int_equal(atomic_load(&allocations), before);
    setting_override(SETTING_JIT, "0");
    prompt(s, b.prompt, b.n);
    for (int i = 0; i < 10; i++) anew[i] = step(s);
    setting_override(SETTING_JIT, NULL);
    if (COUNTS_ALLOCATIONS) assert_true(atomic_load(&allocations) > before);
    assert_memory_equal(replayed, anew, sizeof anew);
    session_close(s);
    bench_close(&b);
}

// ---------------------------------------------------------------- what a step reads

// Of a mixture of experts a step touches the used ones only, of the embedding one row: so the bytes of its stages are
// the weights of a token and what lies between the stages.
static void stages_count_what_is_read(void **state) {
    (void)state;
    static const char *const shapes[] = {"tiny-qwen3moe", "tiny-glm", "tiny-llama"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        Bench b;
        Step *step;
        Error err = {0};
        if (!bench_open(&b, NULL, shapes[i], "q4_0", &(ModelOptions){.context = 64})) skip();
        if (!model_step(b.m.model, 0, 1, &step, &err)) fail_msg("%s", err.text);
        uint64_t total = 0, weights = (uint64_t)model_bytes_per_token(b.m.model);
        for (int k = 0; k < step_stage_count(step); k++) total += step_stage(step, k).bytes;
        if (total < weights || total > weights * 3 / 2)
            fail_msg("%s: the stages touch %llu bytes, the weights of a token have %llu", shapes[i],
                     (unsigned long long)total, (unsigned long long)weights);
        bench_close(&b);
    }
}

// ---------------------------------------------------------------- bad numbers and options

static bool stop_at_once(void *context, int64_t done, int64_t total) {
    ++*(int *)context;
    assert_in_range(done, 1, total - 1);
    return false;
}

static void a_stopped_prompt_goes_on_later(void **state) {
    (void)state;
    enum { LENGTH = MODEL_CHUNK_MAX + 100 };
    Bench b;
    Error err = {0};
    int32_t tokens[LENGTH], stopped[4], whole[4];
    int calls = 0;
    if (!bench_open(&b, NULL, "tiny-llama", "q4_0", &(ModelOptions){.context = 1024, .slots = 2}))
        skip();
    for (int i = 0; i < LENGTH; i++) tokens[i] = 3 + i * 7 % 900;
    SamplingOptions o = greedy();
    Session *s = session_new(&b.m, 0, &o), *other = session_new(&b.m, 1, &o);
    assert_true(session_prompt(s, tokens, LENGTH, stop_at_once, &calls, &err));
    assert_int_equal(calls, 1);
    assert_in_range(session_cached(s), 1, LENGTH - 2);
    prompt(s, tokens, LENGTH);
    assert_in_range(session_reused(s), 1, LENGTH - 2);
    prompt(other, tokens, LENGTH);
    for (int i = 0; i < 4; i++) stopped[i] = step(s), whole[i] = step(other);
    assert_memory_equal(stopped, whole, sizeof whole);
    session_close(s);
    session_close(other);
    bench_close(&b);
}

// A copy of a model one of whose norms holds a NaN; both modes must say so, though the fast one turns
// activations into integers, which know no NaN.
// first_blocks: 0, or those of the first of two engines.
static void check_bad_block(const char *quant, bool is_exact, int first_blocks, const char *tensor, const char *word) {
    Arena *arena = arena_create();
    const char *path = model_file(arena, "tiny-llama", quant);
    Error err = {0};
    Gguf g;
    Engine *engine, *rest = NULL;
    Model *model;
    if (!path) {
        arena_destroy(arena);
        skip();
    }
    Text file;
    assert_true(file_read(arena, path, &file, &err));
    uint8_t *bytes = calloc(file.len + 4096, 1);
    memcpy(bytes, file.at, file.len);
    assert_true(gguf_open_memory(&g, "damaged", bytes, file.len, &err));
    const GgufTensor *norm = gguf_tensor(&g, tensor);
    assert_non_null(norm);
    const float nan_value = NAN;
    memcpy(bytes + (norm->data - bytes) + 40, &nan_value, sizeof nan_value);
    assert_true(engine_open(&engine, NULL, NULL, 1, &err));
    if (first_blocks) assert_true(engine_open(&rest, NULL, NULL, 1, &err));
    ModelOptions options = {.exact = is_exact, .context = 64, .rest = rest, .first_blocks = first_blocks};
    if (!model_load(&model, &g, engine, &options, &err)) fail_msg("%s", err.text);
    SamplingOptions o = greedy();
    Session *s;
    int32_t token;
    assert_true(session_open(&s, model, 0, &o, &err));
    assert_true(session_prompt(s, (int32_t[]){3, 4, 5}, 3, NULL, NULL, &err));
    assert_false(session_step(s, &token, &err));
    if (!strstr(err.text, word)) fail_msg("%s: %s", quant, err.text);
    float logits[1024];
    assert_false(model_eval(model, 0, (int32_t[]){3}, 1, 0, LOGITS_LAST, logits, &err));
    if (!strstr(err.text, word)) fail_msg("%s: %s", quant, err.text);
    session_close(s);
    model_free(model);
    engine_close(engine);
    if (rest) engine_close(rest);
    gguf_close(&g);
    free(bytes);
    arena_destroy(arena);
}

static void the_first_bad_block_is_named(void **state) {
    (void)state;
    static const char middle[] = "blk.1.ffn_norm.weight";
    check_bad_block("f32", true, 0, middle, "block 1 ");
    check_bad_block("q4_0", true, 0, middle, "block 1 ");
    check_bad_block("q4_0", false, 0, middle, "block 1 ");
    check_bad_block("q4_k", false, 0, middle, "block 1 ");
    check_bad_block("q4_0", false, 0, "blk.0.attn_norm.weight", "block 0 ");
    check_bad_block("q4_0", false, 0, "blk.2.ffn_norm.weight", "block 2 ");
    check_bad_block("q4_0", false, 0, "output_norm.weight", "the last norm");
}

// The same bits, whichever engine computes which blocks: logits of prompts in chunks and of single rows, tokens, and pages of
// the cache, which one model gives and the other takes.
static void parts_on_two_engines_are_one_model(void **state) {
    (void)state;
    static const char *const shapes[] = {"tiny-llama", "tiny-glm", "tiny-gemma3"};
    for (int i = 0; i < 6; i++) {
        Bench b;
        Error err = {0};
        Engine *rest;
        Model *split;
        ModelOptions options = {.exact = i >= 3, .context = 64, .chunk = 7, .slots = 2};
        if (!bench_open(&b, NULL, shapes[i % 3], "q4_0", &options)) skip();
        assert_true(engine_open(&rest, NULL, NULL, 1, &err));
        options.rest = rest;
        options.first_blocks = model_config(b.m.model)->n_blocks - 1;
        if (!model_load(&split, &b.m.gguf, b.m.engine, &options, &err)) fail_msg("%s", err.text);
        assert_int_equal(model_parts(split), 2);
        assert_int_equal(model_parts(b.m.model), 1);
        size_t row = (size_t)model_vocab_size(split) * sizeof(float), page = model_page_bytes(split);
        char *want = arena_new(b.m.arena, (size_t)b.n * row), *got = arena_new(b.m.arena, (size_t)b.n * row);
        char *pages[2] = {arena_new(b.m.arena, page), arena_new(b.m.arena, page)};
        assert_int_equal(page, model_page_bytes(b.m.model));
        logits_of(&b, b.prompt, b.n, LOGITS_ALL, (float *)(void *)want);
        if (!model_eval(split, 0, b.prompt, b.n, 0, LOGITS_ALL, (float *)(void *)got, &err)) fail_msg("%s", err.text);
        assert_memory_equal(want, got, (size_t)b.n * row);
        model_page_read(b.m.model, 0, pages[0]);
        model_page_read(split, 0, pages[1]);
        assert_memory_equal(pages[0], pages[1], page);
        // Slot 1 sees what the other model computed.
        model_page_write(split, 1, pages[0]);
        model_set_page(split, 1, 0, 1);
        if (!model_eval(split, 1, &b.prompt[b.n - 1], 1, b.n - 1, LOGITS_LAST, (float *)(void *)got, &err)) fail_msg("%s", err.text);
        assert_memory_equal(want + (size_t)(b.n - 1) * row, got, row);
        int32_t tokens[2];
        SamplingOptions o = sampling_defaults();
        o.seed = 5;
        assert_true(model_eval(b.m.model, 0, &b.prompt[b.n - 1], 1, b.n - 1, LOGITS_LAST, NULL, &err));
        assert_true(model_sample(b.m.model, 0, 0, &o, 0, &tokens[0], &err) && model_sample(split, 0, 1, &o, 0, &tokens[1], &err));
        assert_int_equal(tokens[0], tokens[1]);
        model_free(split);
        engine_close(rest);
        bench_close(&b);
    }
    check_bad_block("q4_0", false, 1, "blk.0.attn_norm.weight", "block 0 ");
    check_bad_block("q4_0", false, 1, "blk.2.ffn_norm.weight", "block 2 ");
    check_bad_block("q4_0", false, 2, "output_norm.weight", "the last norm");
}

// Without a wish: the model's own context, but at most 8,192.
static void default_context(void **state) {
    (void)state;
    static const struct {
        const char *override;
        int64_t context;
    } rows[] = {
        {"llama.context_length=int:100000", 8192},
        {"llama.context_length=int:8192", 8192},
        {"llama.context_length=int:8191", 8191},
        {"llama.context_length=int:100", 100},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Bench b;
        Model *model;
        Error err = {0};
        if (!bench_open(&b, NULL, "tiny-llama", "q4_0", &(ModelOptions){.context = 64})) skip();
        if (!gguf_override(&b.m.gguf, rows[i].override, &err)) fail_msg("%s", err.text);
        if (!model_load(&model, &b.m.gguf, b.m.engine, &(ModelOptions){0}, &err)) fail_msg("%s", err.text);
        assert_int_equal(model_context(model), rows[i].context);
        model_free(model);
        bench_close(&b);
    }
}

static void options_are_checked(void **state) {
    (void)state;
    const struct {
        ModelOptions options;
        const char *word;
    } rows[] = {
        {{.context = 4097}, "4096"}, {{.context = -1}, "-1"},   {{.cache_type = "q4_0"}, "q8_0"},
        {{.slots = 1000}, "slots"},  {{.chunk = 513}, "chunk"}, {{.chunk = -2}, "chunk"},
        {{.slots = -1}, "slots"},
    };
    Bench b;
    if (!bench_open(&b, NULL, "tiny-llama", "q4_0", &(ModelOptions){.context = 64})) skip();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Model *model;
        Error err = {0};
        assert_false(model_load(&model, &b.m.gguf, b.m.engine, &rows[i].options, &err));
        assert_null(model);
        if (!strstr(err.text, rows[i].word)) fail_msg("%s", err.text);
    }
    assert_int_equal(model_context(b.m.model), 64);
    assert_int_equal(model_cache_bytes_per_token(b.m.model), 3 * 2 * 2 * 64 * 2);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_llama),
        cmocka_unit_test(greedy_glm),
        cmocka_unit_test(greedy_dsv2),
        cmocka_unit_test(greedy_youtu),
        cmocka_unit_test(greedy_qwen3moe),
        cmocka_unit_test(greedy_on_eval),
        cmocka_unit_test(a_rounded_cache_is_close),
        cmocka_unit_test(logits_do_not_depend_on_chunks),
        cmocka_unit_test(cache_reuse_changes_nothing),
        cmocka_unit_test(penalty_window_spans_the_prompt),
        cmocka_unit_test(seeds_repeat),
        cmocka_unit_test(replay_allocates_nothing),
        cmocka_unit_test(the_context_ends_with_an_error),
        cmocka_unit_test(a_prompt_is_penalised_cold_and_warm),
        cmocka_unit_test(what_leaves_the_window_is_free),
        cmocka_unit_test(a_stopped_prompt_goes_on_later),
        cmocka_unit_test(stages_count_what_is_read),
        cmocka_unit_test(the_first_bad_block_is_named),
        cmocka_unit_test(parts_on_two_engines_are_one_model),
        cmocka_unit_test(default_context),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests_name("generate", tests, NULL, NULL);
}

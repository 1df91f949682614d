// test_api: the public functions of lathe.h, on the model inside the library.
// In: nothing. Out: equal answers for equal requests, errors as texts, no leak. Kernels come from the compile cache.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lathe.h"

typedef struct Heard { char text[4096]; size_t len, parts, most_parts; } Heard;

static bool hear(void *context, const char *text, size_t nbytes) {
    Heard *h = context;
    assert_true(h->len + nbytes < sizeof h->text);
    memcpy(h->text + h->len, text, nbytes);
    h->len += nbytes;
    h->text[h->len] = '\0';
    return ++h->parts != h->most_parts;
}

static LatheModel *model;

static int model_open_once(void **state) {
    (void)state;
    LatheError why;
    model = lathe_open(NULL, NULL, &why);
    if (!model) fprintf(stderr, "%s\n", why.text);
    return model ? 0 : -1;
}

static int model_close_once(void **state) {
    (void)state;
    lathe_close(model);
    return 0;
}

static LatheSampling greedy(int64_t most_tokens) {
    LatheSampling s = lathe_sampling();
    s.temperature = 0;
    s.most_tokens = most_tokens;
    return s;
}

static void opening_fails_with_a_text(void **state) {
    (void)state;
    LatheError why;
    assert_null(lathe_open("/nowhere/model.gguf", NULL, &why));
    assert_non_null(strstr(why.text, "/nowhere/model.gguf"));
    assert_null(lathe_open(NULL, &(LatheOptions){.device = "toaster"}, &why));
    assert_non_null(strstr(why.text, "toaster"));
    assert_null(lathe_open(NULL, &(LatheOptions){.target = "toaster"}, &why));
    assert_null(lathe_open(NULL, &(LatheOptions){.cache_type = "q9"}, &why));
    assert_non_null(strstr(why.text, "q9"));
    assert_non_null(strstr(why.text, "q8_0"));
    assert_null(lathe_open("/nowhere/model.gguf", NULL, NULL));
    lathe_close(NULL);
}

static void tokens_go_there_and_back(void **state) {
    (void)state;
    const char *text = "Once upon a time";
    int32_t ids[64];
    char back[64] = "";
    LatheError why;
    int64_t n = lathe_tokenize(model, text, strlen(text), false, ids, 64, &why);
    assert_true(n > 0 && n < 64);
    assert_string_equal(why.text, "");
    size_t len = 0;
    for (int64_t i = 0; i < n; i++) len += lathe_piece(model, ids[i], back + len, sizeof back - len);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(back, text, len);
    int32_t one[1] = {-7};
    assert_int_equal(lathe_tokenize(model, text, strlen(text), false, one, 1, NULL), n);
    assert_int_equal(one[0], ids[0]);
    assert_int_equal(lathe_tokenize(model, text, strlen(text), false, NULL, 0, NULL), n);
    assert_int_equal(lathe_piece(model, INT32_MAX, back, sizeof back), 0);
    assert_int_equal(lathe_piece(model, ids[0], NULL, 0), strlen("Once"));
}

static void logits_are_repeatable(void **state) {
    (void)state;
    size_t n = (size_t)lathe_vocabulary(model);
    float *first = calloc(n, sizeof *first), *second = calloc(n, sizeof *second);
    LatheError why;
    const int32_t tokens[] = {5, 6, 7}, wrong[] = {INT32_MAX};
    assert_true(lathe_logits(model, tokens, 3, first, &why));
    assert_true(lathe_logits(model, tokens, 3, second, &why));
    assert_memory_equal(first, second, n * sizeof *first);
    assert_false(lathe_logits(model, wrong, 1, first, &why));
    assert_true(strlen(why.text) > 0);
    assert_false(lathe_logits(model, tokens, 0, first, &why));
    free(first);
    free(second);
}

static void answers_are_repeatable(void **state) {
    (void)state;
    Heard first = {0}, second = {0}, third = {0};
    LatheError why;
    LatheSampling s = greedy(12);
    lathe_forget(model);
    assert_true(lathe_answer(model, "Tell me a story.", &s, hear, &first, &why));
    assert_true(first.len > 0);
    assert_true(lathe_answer(model, "And then?", &s, hear, &third, &why));
    lathe_forget(model);
    assert_true(lathe_answer(model, "Tell me a story.", &s, hear, &second, &why));
    assert_string_equal(first.text, second.text);
    assert_null(strstr(first.text, "<|"));
}

static void receiver_may_stop(void **state) {
    (void)state;
    Heard h = {.most_parts = 2};
    LatheSampling s = greedy(50);
    LatheError why;
    assert_true(lathe_continue(model, "Once upon a time", &s, hear, &h, &why));
    assert_int_equal(h.parts, 2);
}

static void bad_sampling_is_named(void **state) {
    (void)state;
    LatheError why;
    LatheSampling s = greedy(1);
    s.temperature = -1;
    assert_false(lathe_continue(model, "Once", &s, NULL, NULL, &why));
    assert_non_null(strstr(why.text, "temperature"));
}

static void long_prompts_are_refused(void **state) {
    (void)state;
    size_t nbytes = 1 << 16;
    char *text = malloc(nbytes + 1);
    LatheError why;
    memset(text, 'a', nbytes);
    for (size_t i = 0; i < nbytes; i += 2) text[i] = ' ';
    text[nbytes] = '\0';
    assert_false(lathe_continue(model, text, NULL, NULL, NULL, &why));
    assert_non_null(strstr(why.text, "1024"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_fails_with_a_text),
        cmocka_unit_test(tokens_go_there_and_back),
        cmocka_unit_test(logits_are_repeatable),
        cmocka_unit_test(answers_are_repeatable),
        cmocka_unit_test(receiver_may_stop),
        cmocka_unit_test(bad_sampling_is_named),
        cmocka_unit_test(long_prompts_are_refused),
    };
    return cmocka_run_group_tests(tests, model_open_once, model_close_once);
}

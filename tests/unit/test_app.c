// test_app: the command line's parts without computing: options, suggestions, escapes, stop texts, model names.
// In: argv and texts. Out: values, or errors that name the flag and the next step.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "app/escapes.h"
#include "app/figures.h"
#include "app/loaded.h"
#include "app/model_find.h"
#include "app/options.h"
#include "app/stop_texts.h"
#include "base/os.h"

#undef fail                      // cmocka has one of its own, without arguments
#include <cmocka.h>

static Arena *arena;

static int arena_make(void **state) {
    (void)state;
    arena = arena_create();
    return 0;
}

static int arena_drop(void **state) {
    (void)state;
    arena_destroy(arena);
    return 0;
}

enum { WORDS_MAX = 16 };

// words: separated by blanks; _ stands for an empty word.
static bool parse(Options *o, const char *words, Error *err) {
    char *argv[WORDS_MAX + 1] = {"lathe"};
    int argc = 1;
    char *copy = arena_printf(arena, "%s", words);
    for (char *word = strtok(copy, " "); word && argc < WORDS_MAX; word = strtok(NULL, " "))
        argv[argc++] = strcmp(word, "_") == 0 ? "" : word;
    return options_parse(o, arena, argc, argv, err);
}

static void flags_get_values(void **state) {
    (void)state;
    Options o;
    Error err = {0};
    assert_true(parse(&o, "run m.gguf -n 8 --temp=0.5 --json --override-kv a=int:1 --override-kv b=int:2 -p -x", &err));
    assert_string_equal(o.command->name, "run");
    assert_int_equal(o.n_words, 1);
    assert_string_equal(o.words[0], "m.gguf");
    assert_int_equal(option_int(&o, OPTION_n_tokens), 8);
    assert_true(option_real(&o, OPTION_temp) == 0.5);
    assert_true(option_given(&o, OPTION_json));
    assert_false(option_given(&o, OPTION_exact));
    assert_string_equal(option_text(&o, OPTION_prompt), "-x");
    assert_int_equal(o.n_overrides, 2);
    assert_string_equal(o.overrides[1], "b=int:2");
    assert_int_equal(option_int(&o, OPTION_top_k), 40);
}

static void one_letter_may_mean_two_flags(void **state) {
    (void)state;
    Options o;
    Error err = {0};
    assert_true(parse(&o, "bench -p 64 -n 32", &err));
    assert_int_equal(option_int(&o, OPTION_bench_prompt), 64);
    assert_int_equal(option_int(&o, OPTION_bench_tokens), 32);
    assert_true(parse(&o, "run -p 64", &err));
    assert_string_equal(option_text(&o, OPTION_prompt), "64");
}

static void wrong_words_name_the_next_step(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"rnu", "did you mean run? See"},
        {"run --tmp 1", "did you mean --temp? See"},
        {"run --temperature 1", "did you mean --temp?"},
        {"run -q", "lathe run --help"},
        {"run -n", "-n needs a value"},
        {"run -n x", "whole number"},
        {"run -n 1.5", "whole number"},
        {"run -n _", "whole number"},
        {"run -n 99999999999999999999", "whole number"},
        {"run --top-p 2", "between 0 and 1"},
        {"run --temp inf", "number"},
        {"run --exact=yes", "takes no value"},
        {"run --device toaster", "cpu"},
        {"run a b", "\"b\" is one word too many"},
        {"tokenize", "usage: lathe tokenize"},
        {"models --temp 1", "unknown flag --temp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Options o;
        Error err = {0};
        assert_false(parse(&o, cases[i][0], &err));
        assert_int_equal(err.code, LATHE_BAD_REQUEST);
        if (!strstr(err.text, cases[i][1])) fail_msg("%s: %s", cases[i][0], err.text);
    }
}

static void help_and_version_are_found(void **state) {
    (void)state;
    Options o;
    Error err = {0};
    assert_true(parse(&o, "--help", &err) && o.wants_help && !o.command);
    assert_true(parse(&o, "help run", &err) && o.wants_help && o.command);
    assert_true(parse(&o, "tokenize --help", &err) && o.wants_help && o.command);
    assert_true(parse(&o, "--version", &err) && o.wants_version);
    assert_true(parse(&o, "", &err) && !o.wants_help && !o.command);
    assert_true(parse(&o, "tokenize -- --help", &err) && !o.wants_help);
    assert_string_equal(o.words[0], "--help");
}

static void numbers_are_read(void **state) {
    (void)state;
    int64_t *numbers;
    int n;
    Error err = {0};
    assert_true(numbers_read(arena, "--tokens", " 1 2,3\n 40", &numbers, &n, &err));
    assert_int_equal(n, 4);
    assert_int_equal(numbers[3], 40);
    static const char *const wrong[] = {"", " ", "x", "1 x", "-1", "1.5", "99999999999999999999", "1;2"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(numbers_read(arena, "--tokens", wrong[i], &numbers, &n, &err));
}

static void escapes_follow_one_rule(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"a\\nb", "a\nb"}, {"\\t\\r\\\\", "\t\r\\"}, {"\\\"\\'", "\"'"}, {"\\x41\\x0a", "A\n"},
        {"\\q", "\\q"},    {"\\x4", "\\x4"},         {"\\", "\\"},       {"\\xZZ", "\\xZZ"},
        {"", ""},          {"\\\\n", "\\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(text_is(text_unescape(arena, text_of(cases[i][0])), cases[i][1]));
    assert_int_equal(text_unescape(arena, text_of("\\x00")).len, 1);
}

// Feeds pieces (separated by |) and returns what came out, parts separated by |.
static const char *feed(const char *stops_text, const char *pieces, bool *stopped) {
    Text stops[4];
    size_t n = 0;
    TextBuilder out = builder(arena);
    for (char *stop = strtok(arena_printf(arena, "%s", stops_text), "|"); stop; stop = strtok(NULL, "|"))
        stops[n++] = text_of(stop);
    StopTexts s = stop_texts(arena, stops, n);
    for (char *piece = strtok(arena_printf(arena, "%s", pieces), "|"); piece; piece = strtok(NULL, "|")) {
        builder_text(&out, stop_texts_feed(&s, text_of(piece)));
        builder_char(&out, '|');
    }
    builder_text(&out, stop_texts_flush(&s));
    *stopped = s.is_stopped;
    return builder_cstr(&out);
}

static void stop_texts_cross_pieces(void **state) {
    (void)state;
    static const struct { const char *stops, *pieces, *out; bool stopped; } cases[] = {
        {"O P Q", "A B |O| P| Q| R", "A B |||||", true},
        {"O P Q", "A |O| P| X", "A |||O P X|", false},
        {"\n|Alice:", " Ali|ce| walks", " ||Alice walks|", false},
        {"\n|Alice:", " Alice|!", " |Alice!|", false},
        {"aab", "aaa|b", "a||", true},
        {"stop", "no end", "no end|", false},
        {"stop", "sto", "|sto", false},
        {"b|ab", "ab", "|", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool stopped;
        assert_string_equal(feed(cases[i].stops, cases[i].pieces, &stopped), cases[i].out);
        assert_int_equal(stopped, cases[i].stopped);
    }
}

static void medians_are_medians(void **state) {
    (void)state;
    assert_true(median_of((double[]){3, 1, 2}, 3) == 2);
    assert_true(median_of((double[]){4, 1, 3, 2}, 4) == 2.5);
    assert_true(median_of((double[]){7}, 1) == 7);
}

static void missing_models_say_where(void **state) {
    (void)state;
    const char *path;
    Gguf gguf;
    Error err = {0};
    assert_false(model_open(&gguf, arena, "qwen3-0.6b-absent", NULL, 0, &path, &err));
    assert_non_null(strstr(err.text, "did you mean qwen3-0.6b?"));
    assert_false(model_open(&gguf, arena, "/nowhere/x.gguf", NULL, 0, &path, &err));
    assert_non_null(strstr(err.text, "/nowhere/x.gguf"));
    assert_false(model_open(&gguf, arena, "", NULL, 0, &path, &err));
    for (const KnownModel *k = known_models; k->name; k++) assert_true(strncmp(k->source, "https://", 8) == 0);
}

static void embedded_model_opens(void **state) {
    (void)state;
    const char *path, *const overrides[] = {"general.name=str:other"}, *const wrong[] = {"nonsense"};
    Gguf gguf;
    Error err = {0};
    Text name;
    assert_true(model_open(&gguf, arena, NULL, overrides, 1, &path, &err));
    assert_string_equal(path, embedded_model_name);
    assert_true(gguf_text(&gguf, "general.name", &name) && text_is(name, "other"));
    gguf_close(&gguf);
    assert_false(model_open(&gguf, arena, "storyteller", wrong, 1, &path, &err));
    assert_non_null(strstr(err.text, "nonsense"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_get_values),
        cmocka_unit_test(one_letter_may_mean_two_flags),
        cmocka_unit_test(wrong_words_name_the_next_step),
        cmocka_unit_test(help_and_version_are_found),
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(escapes_follow_one_rule),
        cmocka_unit_test(stop_texts_cross_pieces),
        cmocka_unit_test(medians_are_medians),
        cmocka_unit_test(missing_models_say_where),
        cmocka_unit_test(embedded_model_opens),
    };
    return cmocka_run_group_tests(tests, arena_make, arena_drop);
}

// test_jinja: the template engine against jinja2's own answers (tests/jinja_cases.json, made by
// tests/gen_jinja_cases.py), its limits, the origin of bytes, and templates of damaged bytes.
// In: that file, from the repository's root. Out: one cmocka group.
// Invariant: no template, however broken, crashes, hangs or fails without a message.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "text/jinja.h"
#undef fail // cmocka has one of its own
#include <cmocka.h>

static Arena *arena;
static json_t *cases_file;

static int setup(void **state) {
    (void)state;
    arena = arena_create();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_destroy(arena);
    return 0;
}

static int load_cases(void **state) {
    (void)state;
    cases_file = json_load_file("tests/jinja_cases.json", JSON_ALLOW_NUL, NULL);
    return cases_file ? 0 : -1;
}

static int free_cases(void **state) {
    (void)state;
    json_decref(cases_file);
    return 0;
}

static Text json_view(const json_t *json) {
    return (Text){json_string_value(json), json_string_length(json)};
}

static JinjaContext *context_of(const json_t *variables) {
    JinjaContext *context = jinja_context(arena);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)variables, name, value)
        jinja_set_json(context, name, value, JINJA_DATA);
    return context;
}

static bool render(Text source, JinjaContext *context, JinjaOutput *out, Error *err) {
    JinjaTemplate *template;
    *err = (Error){0};
    return jinja_parse(&template, arena, source, err) && jinja_render(template, context, out, err);
}

// Messages that people meet are jinja2's; those about syntax are our own.
static bool is_message_shared(const char *error) {
    return strncmp(error, "UndefinedError", 14) == 0 || strncmp(error, "TemplateError", 13) == 0;
}

static bool case_holds(const json_t *row, const json_t *variables) {
    JinjaOutput output;
    Error err;
    const json_t *text = json_object_get(row, "text");
    const char *error = json_string_value(json_object_get(row, "error"));
    Text source = json_view(json_object_get(row, "template"));
    bool is_good = render(source, context_of(variables), &output, &err);
    bool holds;
    if (text) holds = is_good && text_equal(output.text, json_view(text));
    else
        holds = !is_good && err.text[0] &&
                (!is_message_shared(error) || strstr(err.text, strstr(error, ": ") + 2));
    if (!holds)
        print_error("%.*s\n  wanted: %s\n  got: %.*s\n", (int)source.len, source.at,
                    text ? json_string_value(text) : error,
                    is_good ? (int)output.text.len : (int)strlen(err.text),
                    is_good ? output.text.at : err.text);
    return holds;
}

static void answers_are_jinja2s(void **state) {
    (void)state;
    size_t i, n_wrong = 0;
    json_t *row, *cases = json_object_get(cases_file, "cases");
    assert_true(json_array_size(cases) > 800);
    json_array_foreach(cases, i, row) {
        n_wrong += !case_holds(row, json_object_get(cases_file, "context"));
        arena_reset(arena);
    }
    assert_int_equal(n_wrong, 0);
}

// Each also with its spaces doubled inside tags and cut at a few places: it must answer or refuse,
// not crash.
static void cut_templates_end_well(void **state) {
    (void)state;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(cases_file, "cases"), i, row) {
        Text source = json_view(json_object_get(row, "template"));
        for (size_t cut = 1; cut < source.len; cut += 1 + source.len / 7) {
            JinjaOutput output;
            Error err;
            char *copy = malloc(cut); // so that reading past the end shows
            memcpy(copy, source.at, cut);
            if (!render((Text){copy, cut}, context_of(json_object_get(cases_file, "context")),
                        &output, &err))
                assert_true(err.text[0] != 0);
            free(copy);
            arena_reset(arena);
        }
    }
}

static uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void damaged_templates_end_well(void **state) {
    (void)state;
    static const char bits[] = "{}%#-+|.,()[]'\"\\~:=*/ \nabx0\xff\xc3\xa4";
    const json_t *cases = json_object_get(cases_file, "cases"),
                 *variables = json_object_get(cases_file, "context");
    uint64_t seed = 4082;
    for (int round = 0; round < 20000; round++) {
        Text source = json_view(json_object_get(
            json_array_get(cases, random_next(&seed) % json_array_size(cases)), "template"));
        Text other = json_view(json_object_get(
            json_array_get(cases, random_next(&seed) % json_array_size(cases)), "template"));
        TextBuilder b = builder(arena);
        builder_text(&b, source);
        builder_text(&b, other);
        for (int k = (int)(random_next(&seed) % 4) + 1; k > 0 && b.len > 0; k--)
            b.at[random_next(&seed) % b.len] = bits[random_next(&seed) % (sizeof bits - 1)];
        JinjaContext *context = context_of(variables);
        jinja_set_limits(context, (JinjaLimits){20000, 1 << 20, 300});
        JinjaOutput output;
        Error err;
        if (!render(builder_view(&b), context, &output, &err)) assert_true(err.text[0] != 0);
        arena_reset(arena);
    }
}

// ---- limits ----

static void refuses(const char *source, const char *message) {
    JinjaOutput output;
    Error err;
    JinjaContext *context = jinja_context(arena);
    jinja_set_limits(context, (JinjaLimits){200000, 4 << 20, 1000});
    if (render(text_of(source), context, &output, &err)) fail_msg("%.60s: was rendered", source);
    if (!strstr(err.text, message)) fail_msg("%.60s: %s", source, err.text);
    arena_reset(arena);
}

static void endless_work_is_refused(void **state) {
    (void)state;
    refuses("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "200000 steps");
    refuses("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested");
    refuses(
        "{% macro f() %}{% for i in [1] %}{% if true %}{{ f() }}{% endif %}{% endfor %}{% endmacro %}{{ f() }}",
        "nested");
    refuses("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested");
    refuses(
        "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "bytes");
    refuses("{{ 'a' * 99999999 }}", "bytes");
    refuses("{{ [1] * 99999999 }}", "bytes");
    refuses("{{ 'a' * 9223372036854775807 }}", "bytes");
    refuses("{{ 'a'.center(999999999) }}", "steps");
    refuses("{{ '%999999d' % 1 }}", "width");
    refuses("{{ '{:999999}'.format(1) }}", "width");
    refuses("{{ 'a'|indent(99999999) }}", "indent");
    refuses("{{ range(100001)|length }}", "Range too big");
    refuses("{{ range(-9223372036854775807, 9223372036854775807)|length }}", "Range too big");
    refuses("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "nested");
    refuses("{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", "nested");
    refuses(
        "{% set l = [] %}{% set _ = l.append(l) %}{% set m = [] %}{% set _ = m.append(m) %}{{ l == m }}",
        "nested");
    refuses("{% set l = [1] %}{% for i in range(60) %}{% set _ = l.extend(l) %}{% endfor %}", "");
    refuses(
        "{% set ns = namespace(d={}) %}{% for i in range(99999) %}{% set _ = ns.d.update({i: 'x'}) %}{% endfor %}",
        "");
}

static void big_numbers_are_refused(void **state) {
    (void)state;
    refuses("{{ 9223372036854775807 + 1 }}", "64 bits");
    refuses("{{ 9223372036854775808 }}", "64 bits");
    refuses("{{ -9223372036854775807 - 2 }}", "64 bits");
    refuses("{{ 9223372036854775807 * 2 }}", "64 bits");
    refuses("{{ 2 ** 63 }}", "64 bits");
    refuses("{{ (-9223372036854775807 - 1) // -1 }}", "64 bits");
    refuses("{{ -(-9223372036854775807 - 1) }}", "64 bits");
    refuses("{{ 2 ** -9223372036854775807 / 0 }}", "zero");
}

static void deep_source_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *open, *middle, *close;
    } rows[] = {
        {"(", "1", ")"},         {"[", "", "]"},   {"{1:", "1", "}"}, {"-", "1", ""},
        {"f(", "", ")"},         {"x[", "1", "]"}, {"not ", "1", ""}, {"1 if 1 else ", "1", ""},
        {"a is in (", "1", ")"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        TextBuilder b = builder(arena);
        builder_cstring(&b, "{{ ");
        for (int k = 0; k < 20000; k++) builder_cstring(&b, rows[i].open);
        builder_cstring(&b, rows[i].middle);
        for (int k = 0; k < 20000; k++) builder_cstring(&b, rows[i].close);
        builder_cstring(&b, " }}");
        JinjaOutput output;
        Error err;
        bool is_flat = strcmp(rows[i].open, "not ") == 0; // read in a loop, not by recursion
        assert_int_equal(render(builder_view(&b), jinja_context(arena), &output, &err), is_flat);
        arena_reset(arena);
    }
    TextBuilder b = builder(arena);
    for (int k = 0; k < 20000; k++) builder_cstring(&b, "{% if 1 %}");
    refuses(builder_cstr(&b), "nesting");
    b = builder(arena);
    builder_cstring(&b, "{{ 1");
    for (int k = 0; k < 20000; k++) builder_cstring(&b, " + 1");
    builder_cstring(&b, " }}");
    refuses(builder_cstr(&b), "nested");
}

// ---- origins ----

// The result with data in brackets, to be read at a glance.
static const char *marked(const char *source, const json_t *variables) {
    JinjaOutput output;
    Error err;
    if (!render(text_of(source), context_of(variables), &output, &err))
        return err.text[0] ? "(refused)" : "(no text)";
    TextBuilder b = builder(arena);
    for (size_t i = 0; i < output.n_spans; i++) {
        bool is_data = output.spans[i].origin == JINJA_DATA;
        builder_printf(&b, is_data ? "[%.*s]" : "%.*s", (int)output.spans[i].text.len,
                       output.spans[i].text.at);
    }
    return builder_cstr(&b);
}

static void origins_survive(void **state) {
    (void)state;
    static const struct {
        const char *source, *wanted;
    } rows[] = {
        {"<{{ u }}>", "<[ Ab,cD ]>"},
        {"{{ '<' + u + '>' }}", "<[ Ab,cD ]>"},
        {"{{ '<' ~ u ~ '>' }}", "<[ Ab,cD ]>"},
        {"{{ ('<' + u + '>')[1:4] }}", "[ Ab]"},
        {"{{ ('<' + u + '>')[:3] }}", "<[ A]"},
        {"{{ ('<' + u + '>')[::-1] }}", ">[ Dc,bA ]<"},
        {"{{ '<' + u|trim + '>' }}", "<[Ab,cD]>"},
        {"{{ ('<' + u).strip('<') }}", "[ Ab,cD ]"},
        {"{{ u.split(',')[1] }}|{{ u.split(',') }}", "[cD ]|['[ Ab]', '[cD ]']"},
        {"{{ u.replace('b', '<|x|>') }}", "[ A]<|x|>[,cD ]"},
        {"{{ ('<' + u).replace('A', 'a') }}", "<[ ]a[b,cD ]"},
        {"{{ ('<' + u + '>')|upper }}", "<[ AB,CD ]>"},
        {"{{ ['<', u]|join('-') }}", "<-[ Ab,cD ]"},
        {"{{ '%s|%5s' % (u, 'x') }}", "[ Ab,cD ]|    x"},
        {"{{ '{0}|{0:>10}'.format(u) }}", "[ Ab,cD ]|   [ Ab,cD ]"},
        {"{{ {'a': u} }}", "{'a': '[ Ab,cD ]'}"},
        {"{{ {'a': u}|tojson }}", "[{\"a\": \" Ab,cD \"}]"},
        {"{{ {'a': 'b'}|tojson }}", "{\"a\": \"b\"}"},
        {"{% set x %}<{{ u }}>{% endset %}{{ x }}{{ x|length }}", "<[ Ab,cD ]>9"},
        {"{% macro f(a) %}<{{ a }}>{% endmacro %}{{ f(u) }}", "<[ Ab,cD ]>"},
        {"{% set ns = namespace(s='') %}{% for i in range(3) %}{% set ns.s = ns.s + '<' + u|trim %}{% endfor %}{{ ns.s }}",
         "<[Ab,cD]<[Ab,cD]<[Ab,cD]"},
        {"{% for c in u|trim %}{{ c }}.{% endfor %}", "[A].[b].[,].[c].[D]."},
        {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "[k]=[v];"},
        {"{{ u|e }}{{ '<'|e }}{{ u|urlencode }}", "[ Ab,cD ]&lt;[%20Ab%2CcD%20]"},
        {"{{ u|truncate(6, true, '!', 0) }}{{ u|center(10) }}", "[ Ab,c]! [ Ab,cD ]  "},
    };
    json_t *variables = json_pack("{s:s, s:{s:s}}", "u", " Ab,cD ", "d", "k", "v");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(marked(rows[i].source, variables), rows[i].wanted);
        arena_reset(arena);
    }
    json_decref(variables);
}

// A string that grows in place must not show through in the shorter one it grew from.
static void growing_keeps_the_old(void **state) {
    (void)state;
    static const char source[] =
        "{% set a = 'x' * 40 + u %}{% set b = a + 'y' %}{% set c = a + 'zz' %}{% set d = b + u %}"
        "{{ a[38:] }}|{{ b[38:] }}|{{ c[38:] }}|{{ d[38:] }}";
    json_t *variables = json_pack("{s:s}", "u", "U");
    assert_string_equal(marked(source, variables), "xx[U]|xx[U]y|xx[U]zz|xx[U]y[U]");
    json_decref(variables);
}

// ---- the rest of the interface ----

static void variables_and_time(void **state) {
    (void)state;
    JinjaOutput output;
    Error err;
    JinjaContext *context = jinja_context(arena);
    jinja_set_text(context, "bos", text_of("<s>"), JINJA_TEMPLATE);
    jinja_set_json(context, "x", NULL, JINJA_DATA);
    jinja_set_text(context, "x", text_of("two"), JINJA_DATA);
    jinja_set_now(context, 1764547200 + 43200); // 2025-12-01, noon in London
    assert_true(render(text_of("{{ bos }}{{ x }} {{ strftime_now('%Y-%m %f%%') }}"), context,
                       &output, &err));
    assert_string_equal(text_cstr(arena, output.text), "<s>two 2025-12 000000%");
    assert_int_equal(output.n_spans, 3);
    assert_false(render(text_of("a\nb\n{{ x.y.z }}"), context, &output, &err));
    assert_non_null(strstr(err.text, "line 3"));
    assert_int_equal(err.code, LATHE_BAD_REQUEST);
    assert_false(render(text_of("a\n{% if"), context, &output, &err));
    assert_non_null(strstr(err.text, "line 2"));
    assert_int_equal(err.code, LATHE_BAD_FILE);
}

static void mentions_names_only(void **state) {
    (void)state;
    JinjaTemplate *template;
    Error err;
    assert_true(jinja_parse(
        &template, arena,
        text_of(
            "tools {# documents #}{{ 'text' }}{% if enable_thinking %}{{ x.tools }}{% endif %}"),
        &err));
    assert_true(jinja_mentions(template, "enable_thinking"));
    assert_false(jinja_mentions(template, "tools"));
    assert_false(jinja_mentions(template, "documents"));
}

static void lists_and_dicts_may_grow(void **state) {
    (void)state;
    JinjaOutput output;
    Error err;
    static const char source[] =
        "{% set l = [3] %}{% for x in l %}{% set _ = l.append(x + 1) %}{% endfor %}{% set _ = l.insert(0, 9) %}"
        "{% set _ = l.extend([1, 1]) %}{% set _ = l.remove(1) %}{{ l }} {{ l.pop() }} {{ l.pop(0) }} {{ l }} "
        "{% set _ = l.reverse() %}{{ l }} {% set _ = l.sort() %}{{ l }}{% set d = {'a': 1} %}{% set _ = d.update(b=2) %}"
        " {{ d.setdefault('c', 3) }} {{ d.pop('a') }} {{ d }}";
    assert_true(render(text_of(source), jinja_context(arena), &output, &err));
    assert_string_equal(text_cstr(arena, output.text),
                        "[9, 3, 4, 1] 1 9 [3, 4] [4, 3] [3, 4] 3 1 {'b': 2, 'c': 3}");
}

static void large_dicts_find_their_keys(void **state) {
    (void)state;
    JinjaOutput output;
    Error err;
    json_t *dict = json_object(), *variables = json_pack("{s:o}", "d", dict);
    for (int i = 0; i < 5000; i++)
        json_object_set_new(dict, arena_printf(arena, "key %d", i), json_integer(i));
    static const char source[] =
        "{{ d|length }} {{ d['key 0'] }} {{ d['key 4999'] }} {{ 'key 5000' in d }} {{ (d.keys()|list)[2500] }}"
        "{% set _ = d.pop('key 7') %} {{ 'key 7' in d }} {{ d['key 8'] }} {{ d|length }}";
    assert_true(render(text_of(source), context_of(variables), &output, &err));
    assert_string_equal(text_cstr(arena, output.text), "5000 0 4999 False key 2500 False 8 4999");
    json_decref(variables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_are_jinja2s, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_templates_end_well, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_templates_end_well, setup, teardown),
        cmocka_unit_test_setup_teardown(endless_work_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(big_numbers_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(deep_source_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(origins_survive, setup, teardown),
        cmocka_unit_test_setup_teardown(growing_keeps_the_old, setup, teardown),
        cmocka_unit_test_setup_teardown(variables_and_time, setup, teardown),
        cmocka_unit_test_setup_teardown(mentions_names_only, setup, teardown),
        cmocka_unit_test_setup_teardown(lists_and_dicts_may_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(large_dicts_find_their_keys, setup, teardown),
    };
    return cmocka_run_group_tests_name("jinja", tests, load_cases, free_cases);
}

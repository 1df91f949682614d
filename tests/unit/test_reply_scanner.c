// test_reply_scanner: what an answer is made of, in every format of reply_formats.def, cut at every place.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/reply_scanner.h"

#undef fail // cmocka has its own
#include <cmocka.h>

typedef struct Row {
    const char *source;      // text of a template
    const char *reply;
    const char *want;        // "reasoning|content|name(arguments)name(arguments)"
    bool is_open;
} Row;

static const char TOOLS[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
                            "\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}}}]";
#define GLM "<arg_key> <tool_call> </think>"
#define HERMES "<tool_call> </think>"
#define SEEK "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜> </think>"
#define LLAMA "Respond in the format {\"name\": function name, \"parameters\": …}. <|python_tag|>"
static const Row rows[] = {
    {"plain", "  Hi <tool_call> there \n", "|  Hi <tool_call> there \n|", false},
    {HERMES, "  Hi there \n", "|  Hi there \n|", false},
    {HERMES, "<think>\nHm.\n</think>\n\nHi", "Hm.|Hi|", false},
    {HERMES, " \n<think>Hm.</think>Hi </think> you", "Hm.|Hi </think> you|", false},
    {HERMES, "Hm.\n</think>\n\nHi <think>x</think>", "Hm.|Hi <think>x</think>|", true},
    {HERMES, "never ends", "never ends||", true},
    {HERMES, "<think", "|<think|", false},
    {HERMES, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n</tool_call>", "||f({\"n\": 1})", false},
    {HERMES, "<think>a</think>\nLet me see.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\","
             "\"arguments\":\"{}\"}</tool_call>\n", "a|Let me see.|f({})g({})", false},
    {HERMES, "<tool_call>{\"name\": \"f\"}</tool_call>", "||f({})", false},
    {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\\u00e9</tool_call>", "||f({\"s\": \"\\u00e9</tool_call>)", false},
    {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\\\"</tool_call> } \\\\\", \"l\": [{}, {\"a\": \"]\"}]}}</tool_call> x",
     "|x|f({\"s\": \"\\\"</tool_call> } \\\\\", \"l\": [{}, {\"a\": \"]\"}]})", false},
    {HERMES, "<tool_call>{\"id\": \"a,}\", \"type\": {\"b\": [1]}, \"name\" : \"f\" , \"arguments\" : {\"n\": 1}, \"more\": {\"x\": \"}\"} }\n</tool_call>!", "|!|f({\"n\": 1})", false},
    {HERMES, "<tool_call>{\"arguments\": {\"n\": 1}, \"name\": \"f\"}</tool_call>", "||f({\"n\":1})", false},
    {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1</tool_call>.", "|.|f({\"n\": 1)", false},
    {HERMES, "<tool_call>[{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"g\", \"arguments\": {}}]</tool_call>", "||f({\"n\": 1})g({})", false},
    {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {}} junk</tool_call> x", "| junk</tool_call> x|f({})", false},
    {HERMES, "<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>", "|<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>|", false},
    {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>", "|<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>|", false},
    {HERMES, "<tool_call>{\"name\": \"f\", \"argum", "|<tool_call>{\"name\": \"f\", \"argum|", false},
    {HERMES, "<tool_call>{\"arguments\": {}}</tool_call> x", "|<tool_call>{\"arguments\": {}}</tool_call> x|", false},
    {GLM, "<think>a</think><tool_call>f<arg_key>s</arg_key><arg_value>12</arg_value><arg_key>n</arg_key><arg_value>12</arg_value>"
          "</tool_call>", "a||f({\"s\":\"12\",\"n\":12})", false},
    {GLM, "ok\n<tool_call>g\n<arg_key>l</arg_key>\n<arg_value>[1, {\"a\": null}]</arg_value>\n<arg_key>t</arg_key>\n<arg_value>a < b &\n</arg_value>\n"
          "</tool_call>\n", "|ok|g({\"l\":[1,{\"a\":null}],\"t\":\"a < b &\\n\"})", false},
    {GLM, "<tool_call>f<arg_key>s</arg_key><arg_value>a \"b\"\n\\ é</arg_valu></arg_value><arg_key>n</arg_key><arg_value>x</arg_value></tool_call>",
     "||f({\"s\":\"a \\\"b\\\"\\n\\\\ é</arg_valu>\",\"n\":\"x\"})", false},
    {GLM, "<tool_call>f<arg_key>s</arg_key><arg_value>abc", "||f({\"s\":\"abc)", false},
    {GLM, "<tool_call>f<arg_key>n</arg_key><arg_value>12", "||f({\"n\":)", false},
    {GLM, "<tool_call>f<arg_key>n</arg_key><arg_value>12</arg_value>oops</tool_call> x", "|oops</tool_call> x|f({\"n\":12})", false},
    {GLM, "<tool_call>f</tool_call>", "||f({})", false},
    {GLM, "<tool_call>f<arg_key>s</arg_key></tool_call>", "|<tool_call>f<arg_key>s</arg_key></tool_call>|", false},
    {SEEK, "Fine.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}"
           "<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "|Fine.|f({\"n\": 1})g({})", false},
    {SEEK, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"n\": 1}\n```<｜tool▁call▁end｜>", "||f({\"n\": 1})", false},
    {SEEK, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\": \"<｜tool▁call▁end｜>\"}\n<｜tool▁call▁end｜>", "||f({\"s\": \"<｜tool▁call▁end｜>\"})", false},
    {SEEK, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"s\": \"a", "||f({\"s\": \"a)", false},
    {SEEK, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>a<｜tool▁call▁end｜>", "|<｜tool▁call▁begin｜>f<｜tool▁sep｜>a<｜tool▁call▁end｜>|", false},
    {LLAMA, "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"n\": 2}}", "||f({\"n\": 2})", false},
    {LLAMA, "\n{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", "||f({})g({})", false},
    {LLAMA, "{\"answer\": 42}", "|{\"answer\": 42}|", false},
    {"[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]", "||f({})g({})", false},
};

static const char *result(Arena *arena, const Row *row, size_t cut, size_t cut2) {
    ReplyFormat format = reply_format_find(text_of(row->source));
    json_t *tools = json_loads(TOOLS, 0, NULL);
    ReplyParts parts = {0};
    ReplyScanner *s = reply_scanner_create(arena, &format, tools, row->is_open);
    size_t n = strlen(row->reply);
    reply_scanner_feed(s, (Text){row->reply, cut}, false, arena, &parts);
    reply_scanner_feed(s, (Text){row->reply + cut, cut2 - cut}, false, arena, &parts);
    reply_scanner_feed(s, (Text){row->reply + cut2, n - cut2}, true, arena, &parts);
    TextBuilder out = builder(arena);
    for (PartKind kind = PART_REASONING;; kind = PART_CONTENT) {
        for (size_t i = 0; i < parts.len; i++)
            if (parts.at[i].kind == kind) builder_text(&out, parts.at[i].text);
        builder_char(&out, '|');
        if (kind == PART_CONTENT) break;
    }
    for (size_t i = 0; i < parts.len; i++) {
        const ReplyPart *part = &parts.at[i], *before = i ? part - 1 : NULL, *next = i + 1 < parts.len ? part + 1 : NULL;
        if (part->kind == PART_TOOL) builder_text(&out, part->text);
        if (part->kind != PART_ARGUMENTS) continue;
        assert_true(before && part->text.len && (before->kind == PART_TOOL || before->kind == PART_ARGUMENTS) && before->tool == part->tool);
        if (before->kind == PART_TOOL) builder_char(&out, '(');
        builder_text(&out, part->text);
        if (!next || next->kind != PART_ARGUMENTS) builder_char(&out, ')');
    }
    json_decref(tools);
    return builder_cstr(&out);
}

static void formats_cut_anywhere(void **state) {
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        size_t n = strlen(rows[r].reply);
        for (size_t cut = 0; cut <= n; cut++)
            for (size_t cut2 = cut; cut2 <= n; cut2 += 1 + n / 9) {
                Arena *arena = arena_create();
                assert_string_equal(result(arena, &rows[r], cut, cut2), rows[r].want);
                arena_destroy(arena);
            }
    }
}

// Arguments come while the answer does: what is out grows with every few bytes, and no byte of it is taken back.
static void arguments_come_in_pieces(void **state) {
    (void)state;
    static const struct { const char *source, *before, *inside, *behind; } long_ones[] = {
        {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": ", "{\"s\": \"a long text, \\\"quoted\\\"\"}", "}</tool_call>"},
        {SEEK, "<｜tool▁call▁begin｜>f<｜tool▁sep｜>", "{\"s\": \"a long text, \\\"quoted\\\"\"}", "<｜tool▁call▁end｜>"},
        {LLAMA, "{\"name\": \"f\", \"parameters\": ", "{\"s\": \"a long text, \\\"quoted\\\"\"}", "}"},
        {"[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": ", "{\"s\": \"a long text, \\\"quoted\\\"\"}", "}]"},
        {GLM, "<tool_call>f<arg_key>s</arg_key><arg_value>", "a long text, said once, and then again", "</arg_value></tool_call>"}};
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++) {
        Arena *arena = arena_create();
        ReplyFormat format = reply_format_find(text_of(long_ones[i].source));
        json_t *tools = json_loads(TOOLS, 0, NULL);
        ReplyScanner *s = reply_scanner_create(arena, &format, tools, false);
        ReplyParts parts = {0};
        reply_scanner_feed(s, text_of(long_ones[i].before), false, arena, &parts);
        size_t lag = 0, most_lag = 0, n_inside = strlen(long_ones[i].inside), out = 0;
        for (size_t k = 0; k < n_inside; k++) {
            size_t had = parts.len;
            reply_scanner_feed(s, (Text){long_ones[i].inside + k, 1}, false, arena, &parts);
            for (; had < parts.len; had++) out += parts.at[had].kind == PART_ARGUMENTS ? parts.at[had].text.len : 0;
            lag = k + 1 > out ? k + 1 - out : 0;
            most_lag = lag > most_lag ? lag : most_lag;
        }
        assert_in_range(most_lag, 0, 2);
        assert_true(parts.len > n_inside / 2 && parts.at[0].kind == PART_TOOL && !reply_scanner_is_cut(s));
        reply_scanner_feed(s, text_of(long_ones[i].behind), true, arena, &parts);
        assert_false(reply_scanner_is_cut(s));
        TextBuilder all = builder(arena);
        for (size_t k = 1; k < parts.len; k++) {
            assert_int_equal(parts.at[k].kind, PART_ARGUMENTS);
            builder_text(&all, parts.at[k].text);
        }
        json_t *value = json_loads(builder_cstr(&all), 0, NULL);
        assert_true(json_is_object(value) && json_is_string(json_object_get(value, "s")));
        json_decref(value);
        json_decref(tools);
        arena_destroy(arena);
    }
}

static void cut_calls_are_told(void **state) {
    (void)state;
    static const struct { const char *source, *reply; bool is_cut; } texts[] = {
        {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1", true}, {HERMES, "<tool_call>{\"name\": \"f\", \"argu", false},
        {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", false}, {GLM, "<tool_call>f<arg_key>n</arg_key><arg_value>1</arg_value>", true},
        {GLM, "<tool_call>f<arg_key>n</arg_key><arg_value>1</arg_value></tool_call>", false}, {"plain", "Hi", false}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Arena *arena = arena_create();
        ReplyFormat format = reply_format_find(text_of(texts[i].source));
        json_t *tools = json_loads(TOOLS, 0, NULL);
        ReplyScanner *s = reply_scanner_create(arena, &format, tools, false);
        ReplyParts parts = {0};
        reply_scanner_feed(s, text_of(texts[i].reply), true, arena, &parts);
        assert_int_equal(reply_scanner_is_cut(s), texts[i].is_cut);
        json_decref(tools);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats_cut_anywhere), cmocka_unit_test(arguments_come_in_pieces),
                                       cmocka_unit_test(cut_calls_are_told)};
    return cmocka_run_group_tests_name("reply_scanner", tests, NULL, NULL);
}

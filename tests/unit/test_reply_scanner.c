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
    {HERMES, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n</tool_call>", "||f({\"n\":1})", false},
    {HERMES, "<think>a</think>\nLet me see.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\","
             "\"arguments\":\"{}\"}</tool_call>\n", "a|Let me see.|f({})g({})", false},
    {HERMES, "<tool_call>{\"name\": \"f\"}</tool_call>", "||f({})", false},
    {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\\u00e9</tool_call>", "|<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"\\u00e9</tool_call>|", false},
    {HERMES, "<tool_call>{\"name\": \"f\", \"argum", "|<tool_call>{\"name\": \"f\", \"argum|", false},
    {HERMES, "<tool_call>{\"arguments\": {}}</tool_call> x", "|<tool_call>{\"arguments\": {}}</tool_call> x|", false},
    {GLM, "<think>a</think><tool_call>f<arg_key>s</arg_key><arg_value>12</arg_value><arg_key>n</arg_key><arg_value>12</arg_value>"
          "</tool_call>", "a||f({\"s\":\"12\",\"n\":12})", false},
    {GLM, "ok\n<tool_call>g\n<arg_key>l</arg_key>\n<arg_value>[1, {\"a\": null}]</arg_value>\n<arg_key>t</arg_key>\n<arg_value>a < b &\n</arg_value>\n"
          "</tool_call>\n", "|ok|g({\"l\":[1,{\"a\":null}],\"t\":\"a < b &\\n\"})", false},
    {GLM, "<tool_call>f</tool_call>", "||f({})", false},
    {GLM, "<tool_call>f<arg_key>s</arg_key></tool_call>", "|<tool_call>f<arg_key>s</arg_key></tool_call>|", false},
    {SEEK, "Fine.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\": 1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}"
           "<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "|Fine.|f({\"n\": 1})g({})", false},
    {SEEK, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"n\": 1}\n```<｜tool▁call▁end｜>", "||f({\"n\": 1})", false},
    {LLAMA, "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"n\": 2}}", "||f({\"n\":2})", false},
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
        if (parts.at[i].kind == PART_TOOL) builder_text(&out, parts.at[i].text);
        if (parts.at[i].kind == PART_ARGUMENTS) {
            assert_true(i > 0 && parts.at[i - 1].kind == PART_TOOL && parts.at[i - 1].tool == parts.at[i].tool);
            builder_char(&out, '(');
            builder_text(&out, parts.at[i].text);
            builder_char(&out, ')');
        }
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats_cut_anywhere)};
    return cmocka_run_group_tests_name("reply_scanner", tests, NULL, NULL);
}

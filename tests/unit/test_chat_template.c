// test_chat_template: conversations to prompts; the published templates against what jinja2 makes
// of them, segments, and the presets for files without a template. In: templates/ and
// models/storyteller in the folder LATHE_SHARED (default ../shared); tests of these are skipped
// where they are missing. Out: one cmocka group.
// Invariant: a request's text never becomes a special token, whatever template or preset is used.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/os.h"
#include "text/chat_template.h"
#include "text/jinja.h"
#undef fail // cmocka has one of its own
#include <cmocka.h>

static Arena *arena;

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

static json_t *read_json(const char *text) {
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    if (!json) fail_msg("%s in %s", error.text, text);
    return json;
}

static Text json_view(const json_t *json) {
    return json ? (Text){json_string_value(json), json_string_length(json)} : (Text){"", 0};
}

// ---- the shared cases ----

static const char *shared_path(const char *name) {
    const char *root = getenv("LATHE_SHARED");
    const char *path = arena_printf(arena, "%s/%s", root && *root ? root : "../shared", name);
    if (!file_exists(path)) {
        print_message("skipped: %s is not here (set LATHE_SHARED)\n", path);
        skip();
    }
    return path;
}

static Text shared_file(const char *name) {
    Text text;
    Error err;
    if (!file_read(arena, shared_path(name), &text, &err)) fail_msg("%s", err.text);
    return text;
}

static json_t *shared_cases(void) {
    Text text = shared_file("templates/cases.json");
    json_t *cases = json_loadb(text.at, text.len, 0, NULL);
    assert_non_null(cases);
    return cases;
}

// "@@strftime(%Y)@@" stands for the time now.
static Text with_time(Text wanted, time_t now) {
    static const char mark[] = "@@strftime(";
    TextBuilder b = builder(arena);
    const char *rest = text_cstr(arena, wanted), *at;
    for (; (at = strstr(rest, mark)) != NULL; rest = strstr(at, ")@@") + 3) {
        char format[64], text[128];
        const char *start = at + strlen(mark);
        snprintf(format, sizeof format, "%.*s", (int)strcspn(start, ")"), start);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        size_t n = strftime(text, sizeof text, format, localtime(&now));
#pragma GCC diagnostic pop
        builder_append(&b, rest, (size_t)(at - rest));
        builder_append(&b, text, n);
    }
    builder_cstring(&b, rest);
    return builder_view(&b);
}

static bool is_one_of(Text got, const json_t *wanted, const json_t *also, time_t now) {
    if (json_is_string(wanted) && text_equal(got, with_time(json_view(wanted), now))) return true;
    for (size_t i = 0; i < json_array_size(also); i++)
        if (text_equal(got, with_time(json_view(json_array_get(also, i)), now))) return true;
    return false;
}

// Does the message hold one of the texts that the template passes to raise_exception?
static bool carries_own_message(const char *source, const char *message) {
    static const char call[] = "raise_exception(";
    for (const char *at = strstr(source, call); at; at = strstr(at + 1, call)) {
        const char *text = at + strlen(call);
        const char quote[2] = {*text, 0};
        if (strstr(message, arena_printf(arena, "%.*s", (int)strcspn(text + 1, quote), text + 1)))
            return true;
    }
    return false;
}

typedef struct Tally {
    int n_expected, n_also, n_own_message, n_endless, n_wrong;
} Tally;

static void check_case(const char *name, Text source, const json_t *cases, const char *conversation,
                       Tally *tally) {
    const json_t *c = json_object_get(json_object_get(cases, "conversations"), conversation);
    const json_t *tokens = json_object_get(cases, "special_tokens");
    const json_t *wanted =
        json_object_get(json_object_get(json_object_get(cases, "expected"), name), conversation);
    const json_t *also =
        json_object_get(json_object_get(json_object_get(cases, "also"), name), conversation);
    ChatFacts facts = {.bos_token = json_view(json_object_get(tokens, "bos_token")),
                       .eos_token = json_view(json_object_get(tokens, "eos_token")),
                       .unk_token = json_view(json_object_get(tokens, "unk_token")),
                       .pad_token = json_view(json_object_get(tokens, "pad_token"))};
    ChatTemplate *chat;
    ChatSegments prompt;
    Error err = {0};
    time_t now = time(NULL);
    if (!chat_template_create(&chat, source, &facts, &err)) fail_msg("%s: %s", name, err.text);
    bool is_good = chat_template_render(chat, arena, json_object_get(c, "messages"),
                                        json_object_get(c, "tools"),
                                        json_is_true(json_object_get(c, "add_generation_prompt")),
                                        json_object_get(c, "kwargs"), &prompt, &err);
    bool is_wanted = is_good && json_is_string(wanted) &&
                     text_equal(prompt.text, with_time(json_view(wanted), now));
    if (is_wanted) tally->n_expected++;
    else if (is_good && is_one_of(prompt.text, wanted, also, now)) tally->n_also++;
    else if (!is_good && json_is_null(wanted) &&
             carries_own_message(text_cstr(arena, source), err.text))
        tally->n_own_message++;
    else if (!is_good && json_is_null(wanted) && strstr(err.text, "nested")) tally->n_endless++;
    else {
        tally->n_wrong++;
        print_error("%s / %s: %.*s\n", name, conversation,
                    is_good ? (int)prompt.text.len : (int)strlen(err.text),
                    is_good ? prompt.text.at : err.text);
    }
    chat_template_destroy(chat);
}

static void published_templates(void **state) {
    (void)state;
    json_t *cases = shared_cases(), *row, *unused;
    const char *name, *conversation;
    Tally tally = {0};
    json_object_foreach(json_object_get(cases, "expected"), name, row) {
        Text source = shared_file(arena_printf(arena, "templates/%s.jinja", name));
        json_object_foreach(row, conversation, unused)
            check_case(name, source, cases, conversation, &tally);
    }
    print_message(
        "%d prompts as expected, %d as also right, %d refused in the template's words, %d refused as endless\n",
        tally.n_expected, tally.n_also, tally.n_own_message, tally.n_endless);
    assert_int_equal(tally.n_wrong, 0);
    assert_int_equal(tally.n_expected + tally.n_also + tally.n_own_message + tally.n_endless, 448);
    json_decref(cases);
}

// The bare engine, without our kindness towards null and parts: jinja2's answer and no other.
static void published_templates_to_the_letter(void **state) {
    (void)state;
    json_t *cases = shared_cases(), *row, *wanted, *value;
    const char *name, *conversation, *variable;
    int n_wrong = 0, n_prompts = 0, n_refusals = 0;
    json_object_foreach(json_object_get(cases, "expected"), name, row) {
        JinjaTemplate *template;
        Error err;
        Text source = shared_file(arena_printf(arena, "templates/%s.jinja", name));
        if (!jinja_parse(&template, arena, source, &err)) fail_msg("%s: %s", name, err.text);
        json_object_foreach(row, conversation, wanted) {
            const json_t *c =
                json_object_get(json_object_get(cases, "conversations"), conversation);
            JinjaContext *context = jinja_context(arena);
            JinjaOutput output;
            time_t now = time(NULL);
            jinja_set_now(context, now);
            json_object_foreach(json_object_get(cases, "special_tokens"), variable, value)
                jinja_set_json(context, variable, value, JINJA_TEMPLATE);
            jinja_set_json(context, "documents", NULL, JINJA_DATA);
            const char *const fields[] = {"messages", "tools", "add_generation_prompt"};
            for (size_t i = 0; i < 3; i++)
                jinja_set_json(context, fields[i], json_object_get(c, fields[i]), JINJA_DATA);
            json_object_foreach(json_object_get(c, "kwargs"), variable, value)
                jinja_set_json(context, variable, value, JINJA_DATA);
            bool is_good = jinja_render(template, context, &output, &err);
            bool is_right =
                is_good ? is_one_of(output.text, wanted, NULL, now) : json_is_null(wanted);
            if (!is_right) print_error("%s / %s\n", name, conversation);
            n_wrong += !is_right;
            n_prompts += is_good;
            n_refusals += !is_good;
        }
    }
    assert_int_equal(n_wrong, 0);
    assert_int_equal(n_prompts, 367);
    assert_int_equal(n_refusals, 81);
    json_decref(cases);
}

// ---- segments ----

static bool no_tokens(void *vocabulary, const char *text) {
    (void)vocabulary, (void)text;
    return false;
}

// vocabulary: the special tokens, by blanks.
static bool listed_token(void *vocabulary, const char *text) {
    const char *at = vocabulary;
    size_t n = strlen(text);
    for (; (at = strstr(at, text)) != NULL; at++) {
        bool starts = at == (const char *)vocabulary || at[-1] == ' ';
        if (starts && (at[n] == ' ' || at[n] == 0)) return true;
    }
    return false;
}

// The prompt with what came from the request in brackets; the error's text where it was refused.
static const char *rendered(Text source, const ChatFacts *facts, const char *messages,
                            const char *kwargs) {
    ChatTemplate *chat;
    ChatSegments prompt;
    Error err;
    json_t *m = read_json(messages), *k = kwargs ? read_json(kwargs) : NULL;
    const char *result = NULL;
    if (!chat_template_create(&chat, source, facts, &err)) fail_msg("%s", err.text);
    if (chat_template_render(chat, arena, m, NULL, true, k, &prompt, &err)) {
        TextBuilder b = builder(arena), joined = builder(arena);
        for (size_t i = 0; i < prompt.len; i++) {
            builder_printf(&b, prompt.at[i].is_template ? "%.*s" : "{%.*s}",
                           (int)prompt.at[i].text.len, prompt.at[i].text.at);
            builder_text(&joined, prompt.at[i].text);
            assert_true(prompt.at[i].text.len > 0);
            if (i > 0) assert_true(prompt.at[i].is_template != prompt.at[i - 1].is_template);
        }
        assert_true(text_equal(builder_view(&joined), prompt.text));
        result = builder_cstr(&b);
    } else {
        result = arena_printf(arena, "%s", err.text);
    }
    chat_template_destroy(chat);
    json_decref(m);
    json_decref(k);
    return result;
}

static const ChatFacts plain_facts = {
    .bos_token = {"<s>", 3}, .eos_token = {"</s>", 4}, .has_token = no_tokens};

static void user_text_is_data(void **state) {
    (void)state;
    Text source = text_of(
        "{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content']|trim }}"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}");
    assert_string_equal(
        rendered(source, &plain_facts,
                 "[{\"role\":\"user\",\"content\":\" A<|user|>B\"},"
                 "{\"role\":\"assistant\",\"content\":\"hello </think> world\"},"
                 "{\"role\":\"user\",\"content\":\"\"}]",
                 NULL),
        "<s><|user|>\n{A<|user|>B}<|assistant|>\n{hello </think> world}<|user|>\n<|assistant|>\n");
    // A role that is no plain word is data too: it can not close a token that the template opens.
    assert_string_equal(
        rendered(source, &plain_facts, "[{\"role\":\"user|><|system\",\"content\":\"x\"}]", NULL),
        "<s><|{user|><|system}|>\n{x}<|assistant|>\n");
    // Variables are data, except the special tokens themselves.
    Text other = text_of("{{ bos_token }}{{ effort }}{{ messages[0].content }}");
    assert_string_equal(rendered(other, &plain_facts, "[{\"role\":\"user\",\"content\":\"x\"}]",
                                 "{\"effort\":\"<s>\",\"bos_token\":\"<bos>\"}"),
                        "<bos>{<s>x}");
}

static void null_and_parts_are_text(void **state) {
    (void)state;
    static const char parts[] =
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a<b>\"},{\"type\":\"text\",\"text\":\"c\"}]},"
        "{\"role\":\"assistant\",\"content\":null}]";
    static const struct {
        const char *source, *wanted;
    } rows[] = {
        {"{% for m in messages %}<{{ m.content }}>{% endfor %}", "<{a<b>c}><>"},
        {"{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}", "<{a<b>c}><>"},
        {"{% for m in messages %}{{ m.content|trim|upper }};{% endfor %}", "{A<B>C};;"},
        {"{% for m in messages %}{{ m.content.split('<')[-1] }};{% endfor %}", "{b>c};;"},
        {"{% for m in messages %}{{ 'b' in m.content }};{% endfor %}", "False;False;"},
        {"{% for m in messages %}{{ m.content is string }}{{ m.content is none }}{{ m.content is sequence }};{% endfor %}",
         "FalseFalseTrue;FalseTrueFalse;"},
        {"{% for p in messages[0].content %}{{ p.type }}={{ p.text }};{% endfor %}",
         "{text}={a<b>};{text}={c};"},
        {"{% for p in messages[0].content %}{{ p }};{% endfor %}", "{a<b>};{c};"},
        {"{{ messages[0].content|length }}{{ messages[0].content|tojson }}{{ messages[1].content|tojson }}",
         "2{[{\"type\": \"text\", \"text\": \"a<b>\"}, {\"type\": \"text\", \"text\": \"c\"}]}null"},
        {"{% for t in tools %}x{% endfor %}{{ tools is none }}{{ tools is defined }}{{ documents is none }}",
         "TrueTrueTrue"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(rendered(text_of(rows[i].source), &plain_facts, parts, NULL),
                            rows[i].wanted);
    assert_string_equal(rendered(text_of("<{{ messages[0].content }}>"), &plain_facts,
                                 "[{\"role\":\"user\",\"content\":[]}]", NULL),
                        "<>");
}

static void arguments_become_objects(void **state) {
    (void)state;
    Text source = text_of(
        "{% for m in messages %}{% for tc in m.tool_calls or [] %}{% set tc = tc.function or tc %}{{ tc.name }}"
        "{% set _args = tc.arguments %}{% for k, v in _args.items() %};{{ k }}={{ v }}{% endfor %}{% endfor %}{% endfor %}");
    static const char *const forms[] = {"{\"city\": \"Oslo\", \"n\": 1.50}",
                                        "\"{\\\"city\\\": \\\"Oslo\\\", \\\"n\\\": 1.50}\""};
    for (size_t i = 0; i < 2; i++) {
        const char *nested =
            arena_printf(arena,
                         "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":"
                         "{\"name\":\"get\",\"arguments\":%s}}]}]",
                         forms[i]);
        const char *flat = arena_printf(
            arena,
            "[{\"role\":\"assistant\",\"tool_calls\":[{\"name\":\"get\",\"arguments\":%s}]}]",
            forms[i]);
        assert_string_equal(rendered(source, &plain_facts, nested, NULL),
                            "{get};{city}={Oslo};{n}=1.5");
        assert_string_equal(rendered(source, &plain_facts, flat, NULL),
                            "{get};{city}={Oslo};{n}=1.5");
    }
    // What is no object stays the text it was.
    Text show = text_of("{{ messages[0].tool_calls[0].function.arguments }}");
    static const char *const texts[] = {"[1]", "not json", "{\\\"a\\\":", "{\\\"a\\\":1e999}"};
    static const char *const shown[] = {"{[1]}", "{not json}", "{{\"a\":}", "{{\"a\":1e999}}"};
    for (size_t i = 0; i < 4; i++) {
        const char *messages =
            arena_printf(arena,
                         "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":"
                         "{\"name\":\"f\",\"arguments\":\"%s\"}}]}]",
                         texts[i]);
        assert_string_equal(rendered(show, &plain_facts, messages, NULL), shown[i]);
    }
}

static void reasoning_is_not_split_again(void **state) {
    (void)state;
    Text source = text_of(
        "{% for m in messages %}<think>{{ m.reasoning_content }}</think>{{ m.content }}{% endfor %}");
    assert_string_equal(rendered(source, &plain_facts,
                                 "[{\"role\":\"assistant\",\"content\":\"hello </think> world\","
                                 "\"reasoning_content\":\"a</think>b\"}]",
                                 NULL),
                        "<think>{a</think>b}</think>{hello </think> world}");
}

static void odd_requests_are_refused(void **state) {
    (void)state;
    Text source = text_of("{{ messages[0].content }}");
    static const struct {
        const char *messages, *message;
    } rows[] = {
        {"{}", "messages must be an array"},
        {"[1]", "message 0"},
        {"[{\"content\":\"x\"}]", "message 0"},
        {"[{\"role\":\"user\"},{\"role\":5}]", "message 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_non_null(
            strstr(rendered(source, &plain_facts, rows[i].messages, NULL), rows[i].message));
    assert_non_null(strstr(rendered(source, &plain_facts, "[]", "[]"), "variables"));
    assert_non_null(
        strstr(rendered(text_of("{{ raise_exception('No ' + messages[0].role + ' here') }}"),
                        &plain_facts, "[{\"role\":\"user\"}]", NULL),
               "No user here"));
    ChatTemplate *chat;
    Error err;
    assert_false(chat_template_create(&chat, text_of("a\n{% if %}"), &plain_facts, &err));
    assert_non_null(strstr(err.text, "line 2"));
}

// ---- presets ----

static const char talk[] =
    "[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U <|im_start|>\"},"
    "{\"role\":\"assistant\",\"content\":\"A\"},{\"role\":\"user\",\"content\":\"V\"}]";

static void presets_by_facts(void **state) {
    (void)state;
    static const char glm[] = "[gMASK] <sop> <|system|> <|user|> <|assistant|> <think> </think>";
    static const struct {
        const char *name, *architecture, *pre, *tokens, *wanted;
    } rows[] = {
        {"glm4", "deepseek2", "glm4", glm,
         "[gMASK]<sop><|system|>\n{S}<|user|>\n{U <|im_start|>}<|assistant|>\n{A}<|user|>\n{V}<|assistant|>\n"},
        {"glm47", "deepseek2", "glm4",
         "[gMASK] <sop> <|system|> <|user|> <|assistant|> <think> </think> <arg_key>",
         "[gMASK]<sop><|system|>{S}<|user|>{U <|im_start|>}<|assistant|></think>{A}<|user|>{V}<|assistant|><think>"},
        {"chatml", "qwen2", "qwen2", "<|endoftext|> <|im_start|> <|im_end|>",
         "<|im_start|>system\n{S}<|im_end|>\n<|im_start|>user\n{U <|im_start|>}<|im_end|>\n<|im_start|>assistant\n{A}<|im_end|>\n"
         "<|im_start|>user\n{V}<|im_end|>\n<|im_start|>assistant\n"},
        {"qwen3", "qwen3moe", "qwen2", "<|im_start|> <|im_end|> <think> </think>",
         "<|im_start|>system\n{S}<|im_end|>\n<|im_start|>user\n{U <|im_start|>}<|im_end|>\n<|im_start|>assistant\n{A}<|im_end|>\n"
         "<|im_start|>user\n{V}<|im_end|>\n<|im_start|>assistant\n"},
        {"llama3", "llama", "llama-bpe", "<|start_header_id|> <|end_header_id|> <|eot_id|>",
         "<s><|start_header_id|>system<|end_header_id|>\n\n{S}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n{U <|im_start|>}<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n{A}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n{V}<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        {"gemma", "gemma3", "default", "<start_of_turn> <end_of_turn>",
         "<s><start_of_turn>user\n{S}\n\n{U <|im_start|>}<end_of_turn>\n<start_of_turn>model\n{A}<end_of_turn>\n<start_of_turn>user\n{V}"
         "<end_of_turn>\n<start_of_turn>model\n"},
        {"deepseek2", "deepseek2", "deepseek-llm", "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜>",
         "<s>{S}\n\nUser: {U <|im_start|>}\n\nAssistant: {A}</s>User: {V}\n\nAssistant:"},
        {"deepseek3", "deepseek2", "deepseek-v3",
         "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜>",
         "<s>{S}<｜User｜>{U <|im_start|>}<｜Assistant｜>{A}</s><｜User｜>{V}<｜Assistant｜>"},
        {"youtu", "deepseek2", "youtu", "<|User|> <|Assistant|>",
         "<s>{S}<|User|>{U <|im_start|>}<|Assistant|>{A}</s><|User|>{V}<|Assistant|>"},
        {"phi3", "phi3", "default", "<|user|> <|assistant|> <|end|>",
         "<|system|>\n{S}<|end|>\n<|user|>\n{U <|im_start|>}<|end|>\n<|assistant|>\n{A}<|end|>\n<|user|>\n{V}<|end|>\n<|assistant|>\n"},
        {"mistral-tekken", "llama", "tekken", "[INST] [/INST]",
         "<s>[INST]{S}\n\n{U <|im_start|>}[/INST]{A}</s>[INST]{V}[/INST]"},
        {"mistral", "llama", "default", "[INST] [/INST] <s> </s>",
         "<s>[INST] {S}\n\n{U <|im_start|>}[/INST] {A}</s>[INST] {V}[/INST]"},
        {"llama2", "llama", "default", "<s> </s>",
         "<s>[INST] <<SYS>>\n{S}\n<</SYS>>\n\n{U <|im_start|>} [/INST] {A} </s><s>[INST] {V} [/INST]"},
        {"plain", "gemma3", "default", "<start_of_turn> <end_of_turn>", // a base model: it ends with </s>
         "<s>{S}\n\nUser: {U <|im_start|>}\n\nAssistant: {A}\n\nUser: {V}\n\nAssistant:"},
        {"plain", "gpt2", "gpt-2", "<|endoftext|>",
         "<s>{S}\n\nUser: {U <|im_start|>}\n\nAssistant: {A}\n\nUser: {V}\n\nAssistant:"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ChatFacts facts = {.architecture = text_of(rows[i].architecture),
                           .pre = text_of(rows[i].pre),
                           .bos_token = {"<s>", 3},
                           .eos_token = {"</s>", 4},
                           .eot_token = text_of(!strcmp(rows[i].name, "gemma") ? "<end_of_turn>" : ""),
                           .has_token = listed_token,
                           .vocabulary = (void *)(uintptr_t)rows[i].tokens};
        ChatTemplate *chat;
        Error err;
        assert_true(chat_template_create(&chat, (Text){"", 0}, &facts, &err));
        assert_string_equal(chat_template_name(chat), rows[i].name);
        assert_true(chat_template_is_preset(chat));
        assert_non_null(chat_template_end_of_turn(chat));
        assert_false(chat_template_knows_tools(chat));
        chat_template_destroy(chat);
        assert_string_equal(rendered((Text){"", 0}, &facts, talk, NULL), rows[i].wanted);
    }
}

static void presets_think_when_told(void **state) {
    (void)state;
    static char tokens[] = "[gMASK] <sop> <|user|> <|assistant|> <think> </think> <arg_key>";
    ChatFacts facts = {.architecture = text_of("deepseek2"),
                       .pre = text_of("glm4"),
                       .has_token = listed_token,
                       .vocabulary = tokens};
    static const char one[] = "[{\"role\":\"user\",\"content\":\"U\"}]";
    assert_string_equal(rendered((Text){"", 0}, &facts, one, "{\"enable_thinking\": false}"),
                        "[gMASK]<sop><|user|>{U}<|assistant|></think>");
    assert_string_equal(rendered((Text){"", 0}, &facts, one, "{\"enable_thinking\": true}"),
                        "[gMASK]<sop><|user|>{U}<|assistant|><think>");
}

static void presets_refuse_what_they_lack(void **state) {
    (void)state;
    ChatFacts gemma = {.eos_token = text_of("<end_of_turn>"),
                       .has_token = listed_token,
                       .vocabulary = (void *)(uintptr_t) "<start_of_turn> <end_of_turn>"};
    Text none = {"", 0};
    assert_non_null(
        strstr(rendered(none, &plain_facts, "[{\"role\":\"tool\",\"content\":\"x\"}]", NULL),
               "--template-file"));
    assert_non_null(
        strstr(rendered(none, &plain_facts, "[{\"role\":\"assistant\",\"tool_calls\":[{}]}]", NULL),
               "tool calls"));
    assert_non_null(strstr(
        rendered(none, &plain_facts, "[{\"role\":\"user\",\"content\":5}]", NULL), "message 0"));
    assert_string_equal(rendered(none, &plain_facts, "[]", NULL), "<s>Assistant:");
    assert_string_equal(
        rendered(none, &plain_facts,
                 "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]", NULL),
        "<s>User: {a}\n\nAssistant:");
    // A system text that no user turn takes up makes one of its own.
    assert_string_equal(rendered(none, &gemma, "[{\"role\":\"system\",\"content\":\"S\"}]", NULL),
                        "<start_of_turn>user\n{S}\n\n<end_of_turn>\n<start_of_turn>model\n");
}

// ---- the embedded model's own form ----

static void storyteller_form(void **state) {
    (void)state;
    static char tokens[] =
        "<|endoftext|> [MASK] [gMASK] [sMASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|> "
        "<think> </think> <tool_call> </tool_call>";
    static const char story[] =
        "[{\"role\":\"user\",\"content\":\"Tell me a story about a rabbit.\"}]";
    ChatFacts facts = {.architecture = text_of("deepseek2"),
                       .pre = text_of("glm4"),
                       .bos_token = text_of("[gMASK]"),
                       .eos_token = text_of("<|endoftext|>"),
                       .has_token = listed_token,
                       .vocabulary = tokens};
    static const char wanted[] =
        "[gMASK]<sop><|user|>\n{Tell me a story about a rabbit.}<|assistant|>\n";
    assert_string_equal(rendered((Text){"", 0}, &facts, story, NULL), wanted);
    // Its file carries the same as a template.
    static const char own[] =
        "[gMASK]<sop>{%- for m in messages -%}{{- '<|' + m['role'] + '|>\n' + m['content'] -}}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{- '<|assistant|>\n' -}}{%- endif -%}\n";
    assert_string_equal(rendered(text_of(own), &facts, story, NULL), wanted);
}

// A step is a node evaluated or an item visited: a published template of 16 KB needs few of them
// for a short talk, and no more than in proportion for a long one.
static void rendering_takes_few_steps(void **state) {
    (void)state;
    enum { PARTS = 40 };
    Text source = shared_file("templates/google-gemma-4-31B-it.jinja");
    JinjaTemplate *template;
    Error err;
    assert_true(jinja_parse(&template, arena, source, &err));
    for (int parts = 1; parts <= PARTS; parts *= PARTS) {
        json_t *messages = json_array(), *once = read_json(talk);
        for (int i = 0; i < parts; i++)
            for (size_t k = i > 0; k < json_array_size(once); k++)   // one system message
                json_array_append(messages, json_array_get(once, k));
        JinjaContext *context = jinja_context(arena);
        JinjaLimits limits = jinja_default_limits;
        JinjaOutput output;
        limits.max_steps = (size_t)(4000 * parts);
        jinja_set_limits(context, limits);
        jinja_set_json(context, "messages", messages, JINJA_DATA);
        if (!jinja_render(template, context, &output, &err)) fail_msg("%d parts: %s", parts, err.text);
        json_decref(messages);
        json_decref(once);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(published_templates, setup, teardown),
        cmocka_unit_test_setup_teardown(published_templates_to_the_letter, setup, teardown),
        cmocka_unit_test_setup_teardown(user_text_is_data, setup, teardown),
        cmocka_unit_test_setup_teardown(null_and_parts_are_text, setup, teardown),
        cmocka_unit_test_setup_teardown(arguments_become_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(reasoning_is_not_split_again, setup, teardown),
        cmocka_unit_test_setup_teardown(odd_requests_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(presets_by_facts, setup, teardown),
        cmocka_unit_test_setup_teardown(presets_think_when_told, setup, teardown),
        cmocka_unit_test_setup_teardown(presets_refuse_what_they_lack, setup, teardown),
        cmocka_unit_test_setup_teardown(storyteller_form, setup, teardown),
        cmocka_unit_test_setup_teardown(rendering_takes_few_steps, setup, teardown),
    };
    return cmocka_run_group_tests_name("chat_template", tests, NULL, NULL);
}

// responses_input: see responses_input.h. One function a type of item; each appends to the messages, or to the last of them.
// Example: {"type": "function_call_output", "call_id": "c", "output": "4"} → {"role": "tool", "tool_call_id": "c", "content": "4"}
#include "app/responses_input.h"

#include <string.h>

#include "text/json_values.h"

typedef struct Reading {
    Exchange *x;
    json_t *messages;                // out
    bool is_in_turn;                 // the last message is one of the assistant, and may go on
} Reading;

static bool wrong(Exchange *x, const char *place, const char *wanted) {
    return refuse(x, 400, "invalid_type", place, "%s must be %s", place, wanted);
}

static bool unsupported(Exchange *x, const char *place, const char *why) {
    return refuse(x, 400, "unsupported_parameter", place, "%s: %s", place, why);
}

static const char *below(Exchange *x, const char *place, const char *name) {
    return arena_printf(x->arena, "%s.%s", place, name);
}

// ---- texts

// A text, or the texts of a list of parts. False: the reply is set.
static bool text_read(Exchange *x, const json_t *content, const char *place, Text *out) {
    static const char *const kinds[][2] = {
        {"input_text", "text"}, {"output_text", "text"}, {"text", "text"}, {"reasoning_text", "text"}, {"summary_text", "text"}, {"refusal", "refusal"}};
    TextBuilder all = builder(x->arena);
    size_t i;
    json_t *part;
    if (json_is_string(content)) builder_text(&all, json_view(content));
    else if (!json_is_array(content)) return wrong(x, place, "a string or an array of parts");
    json_array_foreach(content, i, part) {
        const char *own = arena_printf(x->arena, "%s[%zu]", place, i), *name = NULL;
        const json_t *type = json_object_get(part, "type");
        if (!json_is_string(type)) return wrong(x, own, "an object with a \"type\" that is a string");
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (json_is_word(type, kinds[k][0])) name = kinds[k][1];
        if (!name) return refuse(x, 400, "unsupported_content", below(x, own, "type"), "%s.type is \"%.64s\": this model reads text only", own, json_string_value(type));
        if (!json_is_string(json_object_get(part, name))) return wrong(x, below(x, own, name), "a string");
        builder_text(&all, json_view(json_object_get(part, name)));
    }
    *out = builder_view(&all);
    return true;
}

// ---- items

static void message_add(Reading *in, const char *role, const char *name, json_t *value) {
    json_array_append_new(in->messages, json_pack("{s:s, s:o}", "role", role, name, value));
}

// The assistant's message under way, which has no `name` yet; else a new one.
static json_t *turn_message(Reading *in, const char *name) {
    json_t *last = json_array_get(in->messages, json_array_size(in->messages) - 1);
    if (!in->is_in_turn || (name && json_object_get(last, name))) {
        last = json_pack("{s:s}", "role", "assistant");
        json_array_append_new(in->messages, last);
    }
    in->is_in_turn = true;
    return last;
}

static bool message_item(Reading *in, const json_t *item, const char *place) {
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    const json_t *role = json_object_get(item, "role");
    const char *known = NULL;
    Text text;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (json_is_word(role, roles[i])) known = roles[i];
    if (!known) return refuse(in->x, 400, "invalid_value", below(in->x, place, "role"), "%s.role must be user, assistant, system or developer", place);
    if (!text_read(in->x, json_object_get(item, "content"), below(in->x, place, "content"), &text)) return false;
    if (strcmp(known, "assistant") == 0) {
        json_object_set_new(turn_message(in, "content"), "content", json_of_text(text));
        return true;
    }
    in->is_in_turn = false;
    message_add(in, known, "content", json_of_text(text));
    return true;
}

static bool reasoning_item(Reading *in, const json_t *item, const char *place) {
    const json_t *content = json_object_get(item, "content"), *summary = json_object_get(item, "summary");
    bool is_whole = json_array_size(content) > 0;
    Text text = {"", 0};
    const char *name = is_whole ? "content" : "summary";
    const json_t *given = is_whole ? content : summary;
    if (given && !json_is_null(given) && !text_read(in->x, given, below(in->x, place, name), &text)) return false;
    if (text.len) json_object_set_new(turn_message(in, "reasoning_content"), "reasoning_content", json_of_text(text));
    return true;
}

static bool call_item(Reading *in, const json_t *item, const char *place) {
    const json_t *name = json_object_get(item, "name"), *arguments = json_object_get(item, "arguments");
    if (!json_is_string(name)) return wrong(in->x, below(in->x, place, "name"), "a string");
    if (!json_is_string(arguments)) return wrong(in->x, below(in->x, place, "arguments"), "JSON in a string");
    json_t *message = turn_message(in, NULL), *calls = json_object_get(message, "tool_calls");
    if (!calls) json_object_set_new(message, "tool_calls", calls = json_array());
    json_array_append_new(calls, json_pack("{s:O*, s:s, s:{s:O, s:O}}", "id", json_object_get(item, "call_id"), "type", "function",
                                           "function", "name", name, "arguments", arguments));
    return true;
}

static bool call_output_item(Reading *in, const json_t *item, const char *place) {
    Text text;
    if (!text_read(in->x, json_object_get(item, "output"), below(in->x, place, "output"), &text)) return false;
    in->is_in_turn = false;
    message_add(in, "tool", "content", json_of_text(text));
    json_t *message = json_array_get(in->messages, json_array_size(in->messages) - 1);
    if (json_is_string(json_object_get(item, "call_id"))) json_object_set(message, "tool_call_id", json_object_get(item, "call_id"));
    return true;
}

static bool item_read(Reading *in, const json_t *item, size_t i) {
    static const struct { const char *type; bool (*read)(Reading *in, const json_t *item, const char *place); } kinds[] = {
        {"message", message_item}, {"reasoning", reasoning_item}, {"function_call", call_item}, {"function_call_output", call_output_item}};
    const char *place = arena_printf(in->x->arena, "input[%zu]", i);
    const json_t *type = json_object_get(item, "type");
    if (!json_is_object(item)) return wrong(in->x, place, "an object");
    if (!type || json_is_null(type)) return message_item(in, item, place);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (json_is_word(type, kinds[k].type)) return kinds[k].read(in, item, place);
    return refuse(in->x, 400, "unsupported_content", below(in->x, place, "type"),
                  "%s.type must be message, reasoning, function_call or function_call_output", place);
}

static bool messages_read(Exchange *x, const Fields *f, json_t *messages) {
    Reading in = {x, messages, false};
    const json_t *input = f->at[FIELD_input];
    size_t i;
    json_t *item;
    if (f->at[FIELD_instructions]) message_add(&in, "system", "content", json_of_text(field_text(f, FIELD_instructions)));
    if (json_is_string(input)) message_add(&in, "user", "content", json_of_text(json_view(input)));
    else if (!json_is_array(input)) return wrong(x, "input", "a string or an array of items");
    json_array_foreach(input, i, item)
        if (!item_read(&in, item, i)) return false;
    messages_translate(messages);
    json_array_foreach(messages, i, item)
        if (!json_object_get(item, "content")) json_object_set_new(item, "content", json_string(""));
    return json_array_size(messages) > 0 || refuse(x, 400, "invalid_value", "input", "input is empty: there is nothing to answer");
}

// ---- tools

static bool tools_read(Exchange *x, const Fields *f, json_t *tools) {
    static const char *const names[] = {"name", "description", "parameters", "strict"};
    size_t i;
    json_t *tool;
    json_array_foreach(f->at[FIELD_tools], i, tool) {
        const char *place = arena_printf(x->arena, "tools[%zu]", i);
        json_t *function = json_object();
        json_array_append_new(tools, json_pack("{s:s, s:o}", "type", "function", "function", function));
        if (!json_is_word(json_object_get(tool, "type"), "function")) return unsupported(x, below(x, place, "type"), "tools of the type \"function\" are the only ones here");
        if (!json_is_string(json_object_get(tool, "name"))) return wrong(x, below(x, place, "name"), "a string");
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            json_t *value = json_object_get(tool, names[k]);
            if (value && !json_is_null(value)) json_object_set(function, names[k], value);
        }
    }
    return true;
}

// NULL: none was made.
static json_t *choice_read(const Fields *f) {
    const json_t *choice = f->at[FIELD_tool_choice];
    if (!json_is_object(choice)) return json_incref((json_t *)(uintptr_t)choice);
    bool is_function = json_is_word(json_object_get(choice, "type"), "function");
    return is_function ? json_pack("{s:s, s:{s:O*}}", "type", "function", "function", "name", json_object_get(choice, "name")) : json_null();
}

// ---- the rest

// How much a model is to think is told to the template; "none" is a budget of nothing.
static bool reasoning_read(Exchange *x, const Fields *f, ChatRequest *r, json_t *kwargs) {
    const json_t *effort = json_object_get(f->at[FIELD_reasoning], "effort");
    r->thinking_budget = thinking_budget_of(f, json_is_word(effort, "none") ? 0 : server_of(x)->thinking_budget);
    if (!effort || json_is_null(effort)) return true;
    if (!json_is_string(effort)) return wrong(x, "reasoning.effort", "a string");
    if (!json_object_get(kwargs, "reasoning_effort")) json_object_set(kwargs, "reasoning_effort", (json_t *)(uintptr_t)effort);
    return true;
}

static bool options_check(Exchange *x, const Fields *f) {
    const json_t *truncation = f->at[FIELD_truncation], *include = f->at[FIELD_include], *verbosity = json_object_get(f->at[FIELD_text], "verbosity"), *entry;
    size_t i;
    if (verbosity && !json_is_null(verbosity) && !json_is_word(verbosity, "medium")) return unsupported(x, "text.verbosity", "say in the instructions how long answers should be");
    if (field_is(f, FIELD_background, false)) return unsupported(x, "background", "answers are made while the client waits");
    if (truncation && !json_is_word(truncation, "disabled")) return unsupported(x, "truncation", "no input is cut silently: only \"disabled\" is known");
    // What is included anyway: reasoning stands in the output as it is.
    json_array_foreach(include, i, entry)
        if (!json_is_word(entry, "reasoning.encrypted_content")) return unsupported(x, arena_printf(x->arena, "include[%zu]", i), "nothing of this kind can be included");
    return true;
}

bool responses_input_read(Exchange *x, Fields *f, ChatRequest *r) {
    json_t *messages = json_array(), *tools = json_array(), *choice = choice_read(f);
    json_t *kwargs = f->at[FIELD_template_kwargs] ? json_deep_copy(f->at[FIELD_template_kwargs]) : json_object();
    json_object_set_new(f->body, "", json_pack("{s:o, s:o, s:o, s:o*}", "messages", messages, "tools", tools, "kwargs", kwargs, "choice", choice));
    r->messages = messages;
    r->tools = tools;
    r->tool_choice = choice;
    r->kwargs = kwargs;
    r->response_format = json_object_get(f->at[FIELD_text], "format");
    if (json_is_null(r->response_format)) r->response_format = NULL;
    r->format_name = "text.format";
    return options_check(x, f) && messages_read(x, f, messages) && tools_read(x, f, tools) && reasoning_read(x, f, r, kwargs);
}

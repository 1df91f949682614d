// anthropic: /v1/messages: Anthropic's messages become OpenAI's, answers become Anthropic's blocks and events.
// In: an Exchange. Out: its reply. Invariant: a stream's blocks stand one behind the other, each begun, filled and ended once;
// tokens that were found in the cache are counted as read from it, and nowhere else.
// Example: {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}]} → {"content": [{"type": "text", …
#include <stdio.h>
#include <string.h>

#include "app/chat_request.h"
#include "text/json_values.h"

// ---- their messages as OpenAI's

typedef struct Translation {
    Exchange *x;
    json_t *messages;          // out
} Translation;

static bool wrong(Exchange *x, const char *place, const char *wanted) {
    return refuse(x, 400, "invalid_type", place, "%s: %s", place, wanted);
}

static void text_join(json_t *message, const char *name, const json_t *text) {
    const json_t *before = json_object_get(message, name);
    Arena *arena = arena_create();
    TextBuilder all = builder(arena);
    if (json_is_string(before)) builder_text(&all, json_view(before));
    builder_text(&all, json_view(text));
    json_object_set_new(message, name, json_of_text(builder_view(&all)));
    arena_destroy(arena);
}

// A text, or a list of text blocks, as one text; NULL where it is neither.
static json_t *texts_join(const json_t *content) {
    json_t *out = json_pack("{s:s}", "text", ""), *block, *text = NULL;
    size_t i;
    bool ok = json_is_string(content) || json_is_array(content) || !content || json_is_null(content);
    if (json_is_string(content)) text_join(out, "text", content);
    json_array_foreach(content, i, block) {
        const json_t *part = json_object_get(block, "text");
        ok = ok && json_is_word(json_object_get(block, "type"), "text") && json_is_string(part);
        if (ok) text_join(out, "text", part);
    }
    if (ok) text = json_incref(json_object_get(out, "text"));
    json_decref(out);
    return text;
}

static bool tool_use_put(Exchange *x, json_t *message, const json_t *block, const char *place) {
    const json_t *name = json_object_get(block, "name"), *input = json_object_get(block, "input");
    json_t *calls = json_object_get(message, "tool_calls");
    if (!json_is_string(name) || (input && !json_is_object(input))) return wrong(x, place, "a tool_use needs a name, and an object as input");
    if (!calls) json_object_set_new(message, "tool_calls", calls = json_array());
    Text arguments = input ? json_text(x->arena, input) : text_of("{}");
    json_array_append_new(calls, json_pack("{s:O?, s:s, s:{s:O, s:o}}", "id", json_object_get(block, "id"), "type", "function",
                                           "function", "name", name, "arguments", json_of_text(arguments)));
    return true;
}

static bool tool_result_put(Translation *t, const json_t *block, const char *place) {
    json_t *text = texts_join(json_object_get(block, "content"));
    if (!text) return wrong(t->x, place, "the content of a tool_result must be a text, or a list of text blocks");
    json_array_append_new(t->messages, json_pack("{s:s, s:o, s:O?}", "role", "tool", "content", text, "tool_call_id",
                                                 json_object_get(block, "tool_use_id")));
    return true;
}

static bool block_put(Translation *t, json_t *message, const json_t *block, const char *place) {
    const json_t *type = json_object_get(block, "type");
    const char *field = json_is_word(type, "text") ? "text" : json_is_word(type, "thinking") ? "thinking" : NULL;
    if (json_is_word(type, "redacted_thinking")) return true;
    if (field && !json_is_string(json_object_get(block, field))) return wrong(t->x, place, "its text must be a string");
    if (field) {
        text_join(message, strcmp(field, "text") == 0 ? "content" : "reasoning_content", json_object_get(block, field));
        return true;
    }
    if (json_is_word(type, "tool_use")) return tool_use_put(t->x, message, block, place);
    if (json_is_word(type, "tool_result")) return tool_result_put(t, block, place);
    return wrong(t->x, place, "the type of a block must be text, thinking, tool_use or tool_result: this model reads text only");
}

static bool message_put(Translation *t, const json_t *message, size_t i) {
    Exchange *x = t->x;
    const json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content");
    const char *place = arena_printf(x->arena, "messages[%zu]", i);
    size_t k;
    json_t *block;
    if (!json_is_word(role, "user") && !json_is_word(role, "assistant"))
        return wrong(x, arena_printf(x->arena, "%s.role", place), "must be \"user\" or \"assistant\"");
    if (!json_is_string(content) && !json_is_array(content))
        return wrong(x, arena_printf(x->arena, "%s.content", place), "must be a text or a list of blocks");
    json_t *out = json_pack("{s:O}", "role", role);
    bool ok = true;
    if (json_is_string(content)) text_join(out, "content", content);
    json_array_foreach(content, k, block)
        ok = ok && block_put(t, out, block, arena_printf(x->arena, "%s.content[%zu]", place, k));
    // Results of tools became messages of their own; what else the user said comes behind them.
    if (json_object_size(out) > 1) {
        if (!json_object_get(out, "content")) json_object_set_new(out, "content", json_string(""));
        json_array_append(t->messages, out);
    }
    json_decref(out);
    return ok;
}

static json_t *messages_make(Exchange *x, const Fields *f) {
    Translation t = {x, json_array()};
    const json_t *system = f->at[FIELD_system];
    json_t *text = system ? texts_join(system) : NULL, *message;
    size_t i;
    bool ok = !system || text || wrong(x, "system", "must be a text or a list of text blocks");
    if (text) json_array_append_new(t.messages, json_pack("{s:s, s:o}", "role", "system", "content", text));
    json_array_foreach(f->at[FIELD_messages_other], i, message) ok = ok && message_put(&t, message, i);
    if (ok && json_array_size(f->at[FIELD_messages_other]) == 0) ok = refuse(x, 400, "invalid_value", "messages", "messages is empty: there is nothing to answer");
    if (ok) return t.messages;
    json_decref(t.messages);
    return NULL;
}

static json_t *tools_make(const json_t *theirs) {
    json_t *tools = json_array(), *tool;
    size_t i;
    json_array_foreach(theirs, i, tool) {
        json_t *function = json_object();
        static const char *const names[][2] = {{"name", "name"}, {"description", "description"}, {"input_schema", "parameters"}};
        for (size_t k = 0; k < 3; k++)
            if (json_object_get(tool, names[k][0])) json_object_set(function, names[k][1], json_object_get(tool, names[k][0]));
        json_array_append_new(tools, json_pack("{s:s, s:o}", "type", "function", "function", function));
    }
    return tools;
}

static json_t *choice_make(const json_t *theirs) {
    const json_t *type = json_object_get(theirs, "type");
    if (!theirs) return NULL;
    if (json_is_word(type, "any")) return json_string("required");
    if (json_is_word(type, "tool"))
        return json_pack("{s:s, s:{s:O*}}", "type", "function", "function", "name", json_object_get(theirs, "name"));
    return json_is_string(type) ? json_incref((json_t *)(uintptr_t)type) : json_null();
}

static bool single_read(Exchange *x, const Fields *f, bool *is_single) {
    const json_t *given = json_object_get(f->at[FIELD_tool_choice], "disable_parallel_tool_use");
    *is_single = json_is_true(given);
    return !given || json_is_null(given) || json_is_boolean(given) ||
           refuse(x, 400, "invalid_type", "tool_choice.disable_parallel_tool_use", "tool_choice.disable_parallel_tool_use must be true or false");
}

// "thinking": {"type": "enabled" or "disabled"} is the template's enable_thinking.
static json_t *kwargs_make(const Fields *f) {
    json_t *kwargs = f->at[FIELD_template_kwargs] ? json_deep_copy(f->at[FIELD_template_kwargs]) : json_object();
    const json_t *type = json_object_get(f->at[FIELD_thinking], "type");
    if (json_is_string(type)) json_object_set_new(kwargs, "enable_thinking", json_boolean(!json_is_word(type, "disabled")));
    return kwargs;
}

// Their budget, or the server's; disabled is none at all.
static bool budget_read(Exchange *x, const Fields *f, int64_t *budget) {
    const json_t *thinking = f->at[FIELD_thinking], *type = json_object_get(thinking, "type"), *given = json_object_get(thinking, "budget_tokens");
    bool is_disabled = json_is_word(type, "disabled");
    *budget = is_disabled ? 0 : server_of(x)->thinking_budget;
    if (!thinking) return true;
    if (!json_is_word(type, "enabled") && !json_is_word(type, "adaptive") && !is_disabled)
        return refuse(x, 400, "invalid_value", "thinking.type", "thinking.type must be \"enabled\", \"adaptive\" or \"disabled\"");
    if (!given || json_is_null(given) || is_disabled) return true;
    if (!json_is_integer(given) || json_integer_value(given) < 0 || json_integer_value(given) > INT32_MAX)
        return refuse(x, 400, "invalid_value", "thinking.budget_tokens", "thinking.budget_tokens must be a whole number of at least 0");
    *budget = json_integer_value(given);
    return true;
}

// ---- answers

typedef struct BlockState {
    int n_blocks;                     // begun so far
    bool is_open;
    PartKind kind;
} BlockState;

static json_t *usage_pack(int64_t prompt, int64_t cached, int64_t generated) {
    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)(prompt - cached), "cache_creation_input_tokens",
                     (json_int_t)0, "cache_read_input_tokens", (json_int_t)cached, "output_tokens", (json_int_t)generated);
}

static json_t *usage_of(const Generation *g) {
    const Job *job = &g->jobs[0];
    json_t *usage = usage_pack(job->ask.n_prompt, job->reused_tokens, job->generated_tokens);
    generation_mark_text(g, usage);
    return usage;
}

static json_t *tool_use_id(const Generation *g, int tool) {
    char id[80];
    snprintf(id, sizeof id, "toolu_%s_%d", g->id + strlen(g->wire->id_prefix), tool);
    return json_string(id);
}

static const char *stop_reason(const Choice *c) {
    if (generation_is_cut(c)) return "max_tokens";
    if (c->has_tools) return "tool_use";
    return c->job->end == JOB_STOP_TEXT ? "stop_sequence" : "end_turn";
}

// Texts that the chat form stops at are no stop sequences of the request.
static json_t *stop_sequence(const Generation *g, const Choice *c) {
    size_t n_form;
    (void)chat_form_stops(g->server->form, &n_form);
    const StopTexts *stops = &c->job->stops;
    return c->job->end == JOB_STOP_TEXT && stops->stopped_by >= n_form ? json_of_text(stops->stops[stops->stopped_by]) : json_null();
}

static json_t *message_pack(const Generation *g, json_t *content, const char *reason, json_t *sequence, json_t *usage) {
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:o, s:o}", "id", g->id, "type", "message", "role", "assistant", "model",
                     g->server->name, "content", content, "stop_reason", reason, "stop_sequence", sequence, "usage",
                     usage);
}

static json_t *messages_whole(Generation *g) {
    Choice *c = &g->choices[0];
    const ReplyParts *parts = &c->parts;
    Text reasoning = reply_text_of(g->x->arena, parts, PART_REASONING), content = reply_text_of(g->x->arena, parts, PART_CONTENT);
    json_t *blocks = json_array();
    if (reasoning.len)
        json_array_append_new(blocks, json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", json_of_text(reasoning), "signature", ""));
    if (content.len) json_array_append_new(blocks, json_pack("{s:s, s:o}", "type", "text", "text", json_of_text(content)));
    for (size_t i = 0; i < parts->len; i++) {
        if (parts->at[i].kind != PART_TOOL) continue;
        Text arguments = reply_arguments_of(g->x->arena, parts, i);
        json_t *input = json_loadb(arguments.at, arguments.len, 0, NULL);
        json_array_append_new(blocks, json_pack("{s:s, s:o, s:o, s:o}", "type", "tool_use", "id", tool_use_id(g, parts->at[i].tool),
                                                "name", json_of_text(parts->at[i].text), "input", input ? input : json_object()));
    }
    json_t *message = message_pack(g, blocks, stop_reason(c), stop_sequence(g, c), usage_of(g));
    json_object_set_new(message, "timings", generation_timings(g));
    return message;
}

// ---- streams

static void named_event(TextBuilder *out, const char *type, json_t *body) {
    json_object_set_new(body, "type", json_string(type));
    event_put(out, type, body);
}

// What is counted while the answer is made is told at its end; now it would depend on how far the engine happens to be.
static void messages_begin(Generation *g, TextBuilder *out) {
    json_t *usage = usage_pack(g->prompt_tokens, 0, 0);
    named_event(out, "message_start", json_pack("{s:o}", "message", message_pack(g, json_array(), NULL, json_null(), usage)));
}

static void block_end(BlockState *state, TextBuilder *out) {
    if (!state->is_open) return;
    named_event(out, "content_block_stop", json_pack("{s:i}", "index", state->n_blocks - 1));
    state->is_open = false;
}

static json_t *block_head(const Generation *g, const ReplyPart *part) {
    if (part->kind == PART_CONTENT) return json_pack("{s:s, s:s}", "type", "text", "text", "");
    if (part->kind == PART_REASONING) return json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", "");
    return json_pack("{s:s, s:o, s:o, s:{}}", "type", "tool_use", "id", tool_use_id(g, part->tool), "name", json_of_text(part->text),
                     "input");
}

static json_t *block_delta(const ReplyPart *part) {
    static const char *const names[][2] = {
        [PART_CONTENT] = {"text_delta", "text"}, [PART_REASONING] = {"thinking_delta", "thinking"},
        [PART_ARGUMENTS] = {"input_json_delta", "partial_json"}};
    return json_pack("{s:s, s:o}", "type", names[part->kind][0], names[part->kind][1], json_of_text(part->text));
}

static void messages_news(Generation *g, const News *news, TextBuilder *out) {
    BlockState *state = g->wire_state;
    for (size_t i = 0; i < news->parts.len; i++) {
        const ReplyPart *part = &news->parts.at[i];
        bool is_begun = part->kind == PART_ARGUMENTS || (part->kind != PART_TOOL && state->is_open && state->kind == part->kind);
        if (!is_begun) {
            block_end(state, out);
            named_event(out, "content_block_start", json_pack("{s:i, s:o}", "index", state->n_blocks++, "content_block",
                                                              block_head(g, part)));
            state->is_open = true;
            state->kind = part->kind;
        }
        if (part->kind == PART_TOOL) continue;
        named_event(out, "content_block_delta", json_pack("{s:i, s:o}", "index", state->n_blocks - 1, "delta", block_delta(part)));
    }
}

static void messages_end(Generation *g, Choice *c, int index, TextBuilder *out) {
    (void)index;
    block_end(g->wire_state, out);
    named_event(out, "message_delta", json_pack("{s:{s:s, s:o}, s:o, s:o}", "delta", "stop_reason", stop_reason(c), "stop_sequence",
                                                stop_sequence(g, c), "usage", usage_of(g), "timings", generation_timings(g)));
}

static void messages_finish(Generation *g, TextBuilder *out) {
    (void)g;
    named_event(out, "message_stop", json_object());
}

static void messages_failed(Generation *g, int status, const Error *why, TextBuilder *out) {
    (void)g;
    event_put(out, "error", error_anthropic(status, why->text));
}

static const Wire messages_wire = {"msg_", messages_begin, messages_news, messages_end, messages_finish, messages_whole,
                                   messages_failed, "event: ping\ndata: {\"type\": \"ping\"}\n\n", "name", "input_schema"};

void endpoint_messages(Exchange *x) {
    Fields fields;
    if (!fields_read(x, model_vocab_size(server_of(x)->loaded.model), &fields)) return;
    int64_t budget;
    bool is_single;
    bool ok = budget_read(x, &fields, &budget) && single_read(x, &fields, &is_single);
    json_t *messages = ok ? messages_make(x, &fields) : NULL;
    if (!messages) {
        fields_free(&fields);
        return;
    }
    // What is made here lives in the body, and dies with it.
    json_t *own = json_pack("{s:o, s:o, s:o?, s:o}", "messages", messages, "tools", tools_make(fields.at[FIELD_tools]), "choice",
                            choice_make(fields.at[FIELD_tool_choice]), "kwargs", kwargs_make(&fields));
    json_object_set_new(fields.body, "", own);
    ChatRequest request = {.wire = &messages_wire, .messages = messages, .tools = json_object_get(own, "tools"),
                           .kwargs = json_object_get(own, "kwargs"), .thinking_budget = budget, .is_single_call = is_single,
                           .wire_state = arena_new(x->arena, sizeof(BlockState))};
    const json_t *choice = json_object_get(own, "choice");
    if (fields.at[FIELD_tool_choice]) request.tool_choice = choice;
    chat_request_answer(x, &fields, &request);
}

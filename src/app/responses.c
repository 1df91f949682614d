// responses: /v1/responses: parts of answers become OpenAI's items and the events that tell of them.
// In: an Exchange. Out: its reply. Invariant: every item is added, filled and done once, in the order of the output; events
// are numbered without gaps; the last one holds the response as it would have come in one piece. Nothing is stored.
// Example: {"input": "Hi"} → {"object": "response", "output": [{"type": "message", "content": [{"type": "output_text", …
#include <stdio.h>
#include <string.h>

#include "app/json_output.h"
#include "app/responses_input.h"
#include "text/json_values.h"

typedef struct ResponseState {
    json_t *output;                   // the items so far; owned by the body
    json_t *item;                     // the one under way, the output's last; NULL: none
    PartKind kind;                    // CONTENT, REASONING, or TOOL with its arguments
    TextBuilder text;                 // of the item under way
    int n_events;
} ResponseState;

// ---- the response

static json_t *usage_pack(const Generation *g) {
    const Job *job = &g->jobs[0];
    json_int_t in = (json_int_t)job->ask.n_prompt, out = (json_int_t)job->generated_tokens;
    json_t *usage = json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", in, "input_tokens_details", "cached_tokens",
                     (json_int_t)job->reused_tokens, "output_tokens", out, "output_tokens_details", "reasoning_tokens", (json_int_t)job_thought_tokens(job),
                     "total_tokens", in + out);
    generation_mark_text(g, json_object_get(usage, "input_tokens_details"));
    return usage;
}

static json_t *asked(const Generation *g, FieldId id, json_t *otherwise) {
    const json_t *given = g->fields.at[id];
    if (!given) return otherwise;
    json_decref(otherwise);
    return json_incref((json_t *)(uintptr_t)given);
}

static json_t *response_pack(const Generation *g, const char *status) {
    const ResponseState *state = g->wire_state;
    const SamplingOptions *sampling = &g->jobs[0].ask.sampling;
    bool is_cut = strcmp(status, "incomplete") == 0, has_ended = is_cut || strcmp(status, "completed") == 0;
    json_t *body = json_pack("{s:s, s:s, s:I, s:s, s:n, s:o, s:s, s:o}", "id", g->id, "object", "response", "created_at", (json_int_t)g->created,
                             "status", status, "error", "incomplete_details",
                             is_cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null(), "model", g->server->name, "output",
                             json_deep_copy(state->output));
    const struct { const char *name; FieldId id; json_t *otherwise; } echoed[] = {
        {"instructions", FIELD_instructions, json_null()}, {"max_output_tokens", FIELD_max_output_tokens, json_null()},
        {"metadata", FIELD_metadata, json_object()}, {"parallel_tool_calls", FIELD_parallel_calls, json_true()},
        {"reasoning", FIELD_reasoning, json_pack("{s:n, s:n}", "effort", "summary")}, {"tool_choice", FIELD_tool_choice, json_string("auto")},
        {"tools", FIELD_tools, json_array()}, {"text", FIELD_text, json_pack("{s:{s:s}}", "format", "type", "text")}};
    for (size_t i = 0; i < sizeof echoed / sizeof *echoed; i++)
        json_object_set_new(body, echoed[i].name, asked(g, echoed[i].id, echoed[i].otherwise));
    json_t *rest = json_pack("{s:o, s:o, s:s, s:b, s:b, s:n}", "temperature", json_short(sampling->temperature), "top_p", json_short(sampling->top_p),
                             "truncation", "disabled", "store", false, "background", false, "previous_response_id");
    json_object_update(body, rest);
    json_decref(rest);
    json_object_set_new(body, "usage", has_ended ? usage_pack(g) : json_null());
    if (has_ended) json_object_set_new(body, "timings", generation_timings(g));
    return body;
}

static const char *status_of(const Choice *c) {
    return generation_is_cut(c) ? "incomplete" : "completed";
}

// ---- events; nothing is told where out is NULL

static void event_tell(Generation *g, const char *type, json_t *body, TextBuilder *out) {
    ResponseState *state = g->wire_state;
    if (!out) {
        json_decref(body);
        return;
    }
    json_object_set_new(body, "type", json_string(type));
    json_object_set_new(body, "sequence_number", json_integer(state->n_events++));
    event_put(out, type, body);
}

static void response_tell(Generation *g, const char *type, const char *status, TextBuilder *out) {
    event_tell(g, type, json_pack("{s:o}", "response", response_pack(g, status)), out);
}

// Of the item under way: with the places that all of its events have.
static json_t *place_pack(const ResponseState *state, bool has_content) {
    json_t *body = json_pack("{s:O, s:i}", "item_id", json_object_get(state->item, "id"), "output_index", (int)json_array_size(state->output) - 1);
    if (has_content) json_object_set_new(body, "content_index", json_integer(0));
    return body;
}

static json_t *with(json_t *body, const char *name, json_t *value) {
    json_object_set_new(body, name, value);
    return body;
}

// What an item's kind is called in items and events; a call has no parts of content.
typedef struct ItemKind { const char *type, *prefix, *part, *delta, *done, *text; } ItemKind;
static const ItemKind item_kinds[] = {
    [PART_CONTENT] = {"message", "msg", "output_text", "response.output_text.delta", "response.output_text.done", "text"},
    [PART_REASONING] = {"reasoning", "rs", "reasoning_text", "response.reasoning_text.delta", "response.reasoning_text.done", "text"},
    [PART_TOOL] = {"function_call", "fc", NULL, "response.function_call_arguments.delta", "response.function_call_arguments.done", "arguments"},
};

static json_t *part_pack(PartKind kind, Text text) {
    json_t *part = json_pack("{s:s, s:o}", "type", item_kinds[kind].part, "text", json_of_text(text));
    if (kind == PART_CONTENT) json_object_set_new(part, "annotations", json_array());
    if (kind == PART_CONTENT) json_object_set_new(part, "logprobs", json_array());
    return part;
}

// ---- items

static json_t *own_id(const Generation *g, const char *prefix, size_t number) {
    char id[80];
    snprintf(id, sizeof id, "%s_%s_%zu", prefix, g->id + strlen(g->wire->id_prefix), number);
    return json_string(id);
}

static void item_begin(Generation *g, const ReplyPart *part, TextBuilder *out) {
    ResponseState *state = g->wire_state;
    const ItemKind *kind = &item_kinds[part->kind];
    size_t number = json_array_size(state->output);
    json_t *item = json_pack("{s:s, s:o, s:s}", "type", kind->type, "id", own_id(g, kind->prefix, number), "status", "in_progress");
    if (part->kind == PART_TOOL) {
        json_object_set_new(item, "call_id", own_id(g, "call", number));
        json_object_set_new(item, "name", json_of_text(part->text));
        json_object_set_new(item, "arguments", json_string(""));
    } else json_object_set_new(item, "content", json_array());
    if (part->kind == PART_CONTENT) json_object_set_new(item, "role", json_string("assistant"));
    if (part->kind == PART_REASONING) json_object_set_new(item, "summary", json_array());
    json_array_append_new(state->output, item);
    state->item = item;
    state->kind = part->kind;
    state->text.len = 0;
    event_tell(g, "response.output_item.added", json_pack("{s:i, s:o}", "output_index", (int)number, "item", json_deep_copy(item)), out);
    if (kind->part) event_tell(g, "response.content_part.added", with(place_pack(state, true), "part", part_pack(part->kind, (Text){"", 0})), out);
}

static void item_end(Generation *g, const char *status, TextBuilder *out) {
    ResponseState *state = g->wire_state;
    if (!state->item) return;
    const ItemKind *kind = &item_kinds[state->kind];
    Text text = builder_view(&state->text);
    json_t *done = with(place_pack(state, kind->part != NULL), kind->text, json_of_text(text));
    if (state->kind == PART_CONTENT) json_object_set_new(done, "logprobs", json_array());
    if (!kind->part) json_object_set(done, "name", json_object_get(state->item, "name"));
    event_tell(g, kind->done, done, out);
    if (kind->part) {
        event_tell(g, "response.content_part.done", with(place_pack(state, true), "part", part_pack(state->kind, text)), out);
        json_array_append_new(json_object_get(state->item, "content"), part_pack(state->kind, text));
    } else json_object_set_new(state->item, "arguments", json_of_text(text));
    json_object_set_new(state->item, "status", json_string(status));
    event_tell(g, "response.output_item.done", json_pack("{s:i, s:o}", "output_index", (int)json_array_size(state->output) - 1, "item",
                                                         json_deep_copy(state->item)), out);
    state->item = NULL;
}

static void parts_tell(Generation *g, const ReplyParts *parts, TextBuilder *out) {
    ResponseState *state = g->wire_state;
    for (size_t i = 0; i < parts->len; i++) {
        const ReplyPart *part = &parts->at[i];
        bool goes_on = state->item && (part->kind == PART_ARGUMENTS || (part->kind != PART_TOOL && part->kind == state->kind));
        if (!goes_on) {
            item_end(g, "completed", out);
            item_begin(g, part, out);
        }
        if (part->kind == PART_TOOL) continue;
        const ItemKind *kind = &item_kinds[state->kind];
        builder_text(&state->text, part->text);
        json_t *delta = with(place_pack(state, kind->part != NULL), "delta", json_of_text(part->text));
        if (state->kind == PART_CONTENT) json_object_set_new(delta, "logprobs", json_array());
        event_tell(g, kind->delta, delta, out);
    }
}

// ---- the wire

static void responses_begin(Generation *g, TextBuilder *out) {
    response_tell(g, "response.created", "in_progress", out);
    response_tell(g, "response.in_progress", "in_progress", out);
}

static void responses_news(Generation *g, const News *news, TextBuilder *out) {
    parts_tell(g, &news->parts, out);
}

static void responses_end(Generation *g, Choice *c, int index, TextBuilder *out) {
    (void)index;
    item_end(g, status_of(c), out);
}

static void responses_finish(Generation *g, TextBuilder *out) {
    const char *status = status_of(&g->choices[0]);
    response_tell(g, arena_printf(g->scratch, "response.%s", status), status, out);
}

static json_t *responses_whole(Generation *g) {
    Choice *c = &g->choices[0];
    parts_tell(g, &c->parts, NULL);
    item_end(g, status_of(c), NULL);
    return response_pack(g, status_of(c));
}

static void responses_failed(Generation *g, int status, const Error *why, TextBuilder *out) {
    item_end(g, "incomplete", out);
    json_t *body = response_pack(g, "failed");
    json_object_set_new(body, "error", json_pack("{s:s, s:s}", "code", status == 400 ? "invalid_prompt" : "server_error", "message", why->text));
    event_tell(g, "response.failed", json_pack("{s:o}", "response", body), out);
}

static const Wire responses_wire = {"resp_", responses_begin, responses_news, responses_end, responses_finish, responses_whole,
                                    responses_failed, ": keep-alive\n\n", "name", "parameters"};

void endpoint_responses(Exchange *x) {
    Fields fields;
    ResponseState *state = arena_new(x->arena, sizeof *state);
    if (!fields_read(x, model_vocab_size(server_of(x)->loaded.model), &fields)) return;
    *state = (ResponseState){.output = json_array(), .text = builder(x->arena)};
    json_object_set_new(fields.body, " output", state->output);      // dies with the body
    ChatRequest request = {.wire = &responses_wire, .wire_state = state};
    if (!responses_input_read(x, &fields, &request)) {
        fields_free(&fields);
        return;
    }
    chat_request_answer(x, &fields, &request);
}

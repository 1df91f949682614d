// openai: /v1/chat/completions and /v1/completions: from fields to prompts, and from parts of answers to OpenAI's JSON.
// In: an Exchange. Out: its reply. Invariant: every entry of choices has a finish_reason, null until the choice's last
// chunk, whose delta is empty; logprobs stand beside the text of their tokens.
// Example: {"messages": [{"role": "user", "content": "Hi"}], "stream": true} → data: {"choices": [{"delta": …
#include <stdio.h>
#include <string.h>

#include "app/chat_request.h"
#include "app/json_output.h"
#include "lathe.h"
#include "text/json_values.h"

// ---- log-probabilities

// Bytes that are no whole characters show as U+FFFD; "bytes" has them as they are.
static json_t *token_pack(const Server *server, int32_t id, float logprob) {
    Text piece = tokenizer_decode_piece(server->tokenizer, id);
    json_t *bytes = json_array();
    for (size_t i = 0; i < piece.len; i++) json_array_append_new(bytes, json_integer((unsigned char)piece.at[i]));
    return json_pack("{s:i, s:o, s:f, s:o}", "id", (int)id, "token", json_words(piece), "logprob", (double)logprob, "bytes",
                     bytes);
}

static json_t *chat_logprobs(const Generation *g, const JobToken *tokens, size_t n, const TopToken *all_tops, int n_top) {
    json_t *content = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *tops = json_array(), *entry = token_pack(g->server, tokens[i].id, tokens[i].logprob);
        for (int k = 0; k < n_top; k++) {
            TopToken top = all_tops[tokens[i].first_top + (size_t)k];
            if (top.id >= 0) json_array_append_new(tops, token_pack(g->server, top.id, top.logprob));
        }
        json_object_set_new(entry, "top_logprobs", tops);
        json_array_append_new(content, entry);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

// Offsets count characters, from the beginning of the answer.
static json_t *text_logprobs(const Generation *g, Text text, const JobToken *tokens, size_t n, const TopToken *all_tops,
                             int n_top) {
    json_t *names = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *best = json_object();
        size_t offset = 0, begin = tokens[i].begin < text.len ? tokens[i].begin : text.len;
        for (size_t k = 0; k < begin; k++) offset += (text.at[k] & 0xC0) != 0x80;
        for (int k = 0; k < n_top; k++) {
            TopToken top = all_tops[tokens[i].first_top + (size_t)k];
            if (top.id < 0) continue;
            json_t *name = json_words(tokenizer_decode_piece(g->server->tokenizer, top.id));
            if (!json_object_get(best, json_string_value(name)))
                json_object_setn_new(best, json_string_value(name), json_string_length(name), json_real((double)top.logprob));
            json_decref(name);
        }
        json_array_append_new(names, json_words(tokenizer_decode_piece(g->server->tokenizer, tokens[i].id)));
        json_array_append_new(values, json_real((double)tokens[i].logprob));
        json_array_append_new(tops, best);
        json_array_append_new(offsets, json_integer((json_int_t)offset));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", names, "token_logprobs", values, "top_logprobs", tops, "text_offset",
                     offsets);
}

// ---- envelopes

static json_t *envelope(const Generation *g, const char *object, json_t *choices) {
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", g->id, "object", object, "created", (json_int_t)g->created,
                     "model", g->server->name, "system_fingerprint", "lathe-" LATHE_VERSION, "choices", choices);
}

static json_t *with_figures(const Generation *g, json_t *body) {
    json_object_set_new(body, "usage", generation_usage(g));
    json_object_set_new(body, "timings", generation_timings(g));
    return body;
}

static bool wants_usage(const Generation *g) {
    return json_is_true(json_object_get(g->fields.at[FIELD_stream_options], "include_usage"));
}

static void stream_done(Generation *g, const char *object, TextBuilder *out) {
    if (wants_usage(g)) event_put(out, NULL, with_figures(g, envelope(g, object, json_array())));
    builder_cstring(out, "data: [DONE]\n\n");
}

static void stream_failed(Generation *g, int status, const Error *why, TextBuilder *out) {
    (void)g;
    event_put(out, NULL, error_object(status, NULL, NULL, why->text));
}

// ---- chat

static const char CHAT_CHUNK[] = "chat.completion.chunk";

static void chat_chunk(Generation *g, int index, json_t *delta, json_t *logprobs, const char *reason, bool has_figures,
                       TextBuilder *out) {
    json_t *choice = json_pack("{s:i, s:o, s:o, s:s?}", "index", index, "delta", delta, "logprobs",
                               logprobs ? logprobs : json_null(), "finish_reason", reason);
    json_t *body = envelope(g, CHAT_CHUNK, json_pack("[o]", choice));
    event_put(out, NULL, has_figures ? with_figures(g, body) : body);
}

static void chat_begin(Generation *g, TextBuilder *out) {
    for (int i = 0; i < g->n; i++)
        chat_chunk(g, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, NULL, false, out);
}

static json_t *call_id(const Generation *g, int choice, int tool) {
    char id[80];
    snprintf(id, sizeof id, "call_%s_%d_%d", g->id + strlen(g->wire->id_prefix), choice, tool);
    return json_string(id);
}

static json_t *part_delta(const Generation *g, int index, const ReplyPart *part) {
    switch (part->kind) {
    case PART_CONTENT: return json_pack("{s:o}", "content", json_of_text(part->text));
    case PART_REASONING: return json_pack("{s:o}", "reasoning_content", json_of_text(part->text));
    case PART_TOOL:
        return json_pack("{s:[{s:i, s:o, s:s, s:{s:o, s:s}}]}", "tool_calls", "index", part->tool, "id",
                         call_id(g, index, part->tool), "type", "function", "function", "name", json_of_text(part->text),
                         "arguments", "");
    case PART_ARGUMENTS:
        return json_pack("{s:[{s:i, s:{s:o}}]}", "tool_calls", "index", part->tool, "function", "arguments",
                         json_of_text(part->text));
    }
    return json_object();
}

static void chat_news(Generation *g, const News *news, TextBuilder *out) {
    int n_top = news->choice->job->ask.n_top;
    bool has_logprobs = n_top >= 0 && news->n_tokens;
    size_t n = news->parts.len ? news->parts.len : has_logprobs;
    for (size_t i = 0; i < n; i++) {
        json_t *logprobs = i == 0 && has_logprobs ? chat_logprobs(g, news->tokens, news->n_tokens, news->tops, n_top) : NULL;
        json_t *delta = i < news->parts.len ? part_delta(g, news->index, &news->parts.at[i]) : json_object();
        chat_chunk(g, news->index, delta, logprobs, NULL, false, out);
    }
}

static void chat_end(Generation *g, Choice *c, int index, TextBuilder *out) {
    chat_chunk(g, index, json_object(), NULL, generation_finish_reason(c), generation_has_ended(g), out);
}

static void chat_finish(Generation *g, TextBuilder *out) {
    stream_done(g, CHAT_CHUNK, out);
}

static json_t *calls_pack(const Generation *g, int index, const ReplyParts *parts) {
    json_t *calls = json_array();
    for (size_t i = 0; i < parts->len; i++) {
        if (parts->at[i].kind != PART_TOOL) continue;
        json_array_append_new(calls, json_pack("{s:o, s:s, s:{s:o, s:o}}", "id", call_id(g, index, parts->at[i].tool), "type",
                                               "function", "function", "name", json_of_text(parts->at[i].text), "arguments",
                                               json_of_text(reply_arguments_of(g->x->arena, parts, i))));
    }
    return calls;
}

static json_t *message_pack(const Generation *g, int index) {
    Choice *c = &g->choices[index];
    Text content = reply_text_of(g->x->arena, &c->parts, PART_CONTENT);
    Text reasoning = reply_text_of(g->x->arena, &c->parts, PART_REASONING);
    json_t *calls = calls_pack(g, index, &c->parts);
    bool has_calls = json_array_size(calls) > 0;
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content",
                                has_calls && content.len == 0 ? json_null() : json_of_text(content));
    if (reasoning.len) json_object_set_new(message, "reasoning_content", json_of_text(reasoning));
    if (has_calls) json_object_set(message, "tool_calls", calls);
    json_decref(calls);
    return message;
}

static json_t *chat_whole(Generation *g) {
    json_t *choices = json_array();
    for (int i = 0; i < g->n; i++) {
        const Job *job = g->choices[i].job;
        json_t *logprobs = job->ask.n_top >= 0 ? chat_logprobs(g, job->tokens.at, job_tokens_out(job), job->tops.at,
                                                               job->ask.n_top) : json_null();
        json_array_append_new(choices, json_pack("{s:i, s:o, s:o, s:s}", "index", i, "message", message_pack(g, i), "logprobs",
                                                 logprobs, "finish_reason", generation_finish_reason(&g->choices[i])));
    }
    return with_figures(g, envelope(g, "chat.completion", choices));
}

static const Wire chat_wire = {"chatcmpl-", chat_begin, chat_news, chat_end, chat_finish, chat_whole, stream_failed,
                               ": keep-alive\n\n", "function.name", "function.parameters"};

void endpoint_chat(Exchange *x) {
    Server *server = server_of(x);
    Fields fields;
    if (!fields_read(x, model_vocab_size(server->loaded.model), &fields)) return;
    messages_translate(json_object_get(fields.body, "messages"));
    ChatRequest request = {.wire = &chat_wire, .messages = fields.at[FIELD_messages], .tools = fields.at[FIELD_tools],
                           .tool_choice = fields.at[FIELD_tool_choice], .kwargs = fields.at[FIELD_template_kwargs],
                           .response_format = fields.at[FIELD_response_format], .thinking_budget = thinking_budget_of(&fields, server->thinking_budget)};
    chat_request_answer(x, &fields, &request);
}

// ---- texts

static const char TEXT_CHUNK[] = "text_completion";

static Text echo_of(const Generation *g, int index) {
    return g->prompt_texts ? g->prompt_texts[index / g->answers] : (Text){"", 0};
}

static json_t *text_choice(int index, Text text, json_t *logprobs, const char *reason) {
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", index, "text", json_of_text(text), "logprobs",
                     logprobs ? logprobs : json_null(), "finish_reason", reason);
}

static void text_chunk(Generation *g, json_t *choice, bool has_figures, TextBuilder *out) {
    json_t *body = envelope(g, TEXT_CHUNK, json_pack("[o]", choice));
    event_put(out, NULL, has_figures ? with_figures(g, body) : body);
}

static void text_begin(Generation *g, TextBuilder *out) {
    for (int i = 0; g->prompt_texts && i < g->n; i++) text_chunk(g, text_choice(i, echo_of(g, i), NULL, NULL), false, out);
}

static void text_news(Generation *g, const News *news, TextBuilder *out) {
    const Job *job = news->choice->job;
    json_t *logprobs = job->ask.n_top >= 0
                           ? text_logprobs(g, news->text, news->tokens, news->n_tokens, news->tops, job->ask.n_top) : NULL;
    Text text = reply_text_of(g->scratch, &news->parts, PART_CONTENT);
    text_chunk(g, text_choice(news->index, text, logprobs, NULL), false, out);
}

static void text_end(Generation *g, Choice *c, int index, TextBuilder *out) {
    text_chunk(g, text_choice(index, (Text){"", 0}, NULL, generation_finish_reason(c)), generation_has_ended(g), out);
}

static void text_finish(Generation *g, TextBuilder *out) {
    stream_done(g, TEXT_CHUNK, out);
}

static json_t *text_whole(Generation *g) {
    json_t *choices = json_array();
    for (int i = 0; i < g->n; i++) {
        const Job *job = g->choices[i].job;
        TextBuilder text = builder(g->x->arena);
        builder_text(&text, echo_of(g, i));
        builder_text(&text, reply_text_of(g->x->arena, &g->choices[i].parts, PART_CONTENT));
        json_t *logprobs = job->ask.n_top >= 0 ? text_logprobs(g, builder_view(&job->text), job->tokens.at, job_tokens_out(job), job->tops.at,
                                                               job->ask.n_top) : NULL;
        json_array_append_new(choices, text_choice(i, builder_view(&text), logprobs,
                                                   generation_finish_reason(&g->choices[i])));
    }
    return with_figures(g, envelope(g, TEXT_CHUNK, choices));
}

static const Wire text_wire = {"cmpl-", text_begin, text_news, text_end, text_finish, text_whole, stream_failed,
                               ": keep-alive\n\n", NULL, NULL};

static bool prompt_read(Exchange *x, const json_t *prompt, TokenIds *ids) {
    Server *server = server_of(x);
    Error err = {0};
    *ids = (TokenIds){0};
    for (size_t i = 0; i < json_array_size(prompt); i++)
        vec_push(x->arena, ids, (int32_t)json_whole(json_array_get(prompt, i)));
    if (json_is_array(prompt)) return true;
    if (!tokenizer_encode(server->tokenizer, x->arena, json_view(prompt), true, ids, &err))
        return refuse(x, 400, "invalid_value", "prompt", "%s", err.text);
    bos_add(server->tokenizer, x->arena, ids);
    return true;
}

static Text prompt_text(const Server *server, Arena *arena, const json_t *prompt, const TokenIds *ids) {
    if (json_is_string(prompt)) return json_view(prompt);
    return utf8_clean(arena, tokenizer_decode(server->tokenizer, arena, ids->at, ids->len));
}

void endpoint_completions(Exchange *x) {
    Server *server = server_of(x);
    Fields fields;
    Generation *g;
    if (!fields_read(x, model_vocab_size(server->loaded.model), &fields)) return;
    const json_t *prompt = fields.at[FIELD_prompt];
    bool is_one = json_is_string(prompt) || json_is_number(json_array_get(prompt, 0));
    int n = is_one ? 1 : (int)json_array_size(prompt);
    TokenIds *ids = arena_new(x->arena, (size_t)n * sizeof *ids);
    Text *texts = arena_new(x->arena, (size_t)n * sizeof *texts);
    bool echoes = field_is(&fields, FIELD_echo, false), ok = true;
    if (echoes && fields.at[FIELD_logprobs_old])
        ok = refuse(x, 400, "unsupported_parameter", "echo", "echo with logprobs: the prompt's own log-probabilities are not given");
    for (int i = 0; ok && i < n; i++) {
        const json_t *one = is_one ? prompt : json_array_get(prompt, (size_t)i);
        ok = prompt_read(x, one, &ids[i]);
        if (ok) texts[i] = prompt_text(server, x->arena, one, &ids[i]);
        texts[i] = text_copy(x->arena, texts[i]);
    }
    GenerationSetup setup = {.wire = &text_wire, .prompts = ids, .n_prompts = n};
    AnswerForm form = {.response_format = fields.at[FIELD_response_format], .json_schema = fields.at[FIELD_json_schema],
                       .regex = fields.at[FIELD_regex], .gbnf = fields.at[FIELD_grammar]};
    ok = ok && answer_grammar_make(x, &form, &setup.grammar);
    if (!ok) fields_free(&fields);
    if (!ok || !generation_begin(&g, x, &fields, &setup)) return;
    if (echoes) g->prompt_texts = texts;
    generation_reply(g);
}

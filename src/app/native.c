// native: the endpoints that generate nothing: health, models, props, tokens, templates, metrics, the page.
// In: an Exchange. Out: its reply. Invariant: none of them waits for the engine.
// Example: POST /tokenize {"content": "Once"} → {"tokens": [507]}
#include <stdio.h>
#include <string.h>

#include "app/json_output.h"
#include "app/request_fields.h"
#include "app/server.h"
#include "base/os.h"
#include "lathe.h"

void endpoint_health(Exchange *x) {
    Server *server = server_of(x);
    bool is_ready = atomic_load(&server->is_open) && scheduler_state(server->scheduler, NULL) == SCHEDULER_READY;
    if (!is_ready) reply_header(x, "Retry-After", "1");
    reply_json(x, is_ready ? 200 : 503, json_pack("{s:s}", "status", is_ready ? "ok" : "loading"));
}

// ---- the model

static json_t *model_pack(const Server *server) {
    const Model *m = server->loaded.model;
    return json_pack("{s:s, s:s, s:I, s:s, s:{s:I, s:I, s:s, s:I}}", "id", server->name, "object", "model", "created",
                     (json_int_t)server->started, "owned_by", "lathe", "meta", "n_vocab", (json_int_t)model_vocab_size(m),
                     "n_ctx", (json_int_t)model_context(m), "architecture", model_config(m)->architecture, "size",
                     (json_int_t)server->loaded.gguf.file_bytes);
}

void endpoint_models(Exchange *x) {
    reply_json(x, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_pack(server_of(x))));
}

void endpoint_model(Exchange *x) {
    if (text_is(x->rest, server_of(x)->name)) reply_json(x, 200, model_pack(server_of(x)));
    else refuse(x, 404, "model_not_found", "model", "the model that is loaded is %s", server_of(x)->name);
}

void endpoint_props(Exchange *x) {
    const Server *server = server_of(x);
    const Model *m = server->loaded.model;
    const SamplingOptions *o = &server->sampling;
    json_t *sampling = json_pack("{s:o, s:i, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:i, s:i}", "temperature", json_short(o->temperature),
                                 "top_k", o->top_k, "top_p", json_short(o->top_p), "min_p", json_short(o->min_p), "repeat_penalty",
                                 json_short(o->repeat_penalty), "repeat_last_n", o->penalty_window, "presence_penalty",
                                 json_short(o->presence_penalty), "frequency_penalty", json_short(o->frequency_penalty),
                                 "dry_multiplier", json_short(o->dry_multiplier), "dry_base", json_short(o->dry_base),
                                 "dry_allowed_length", o->dry_allowed_length, "dry_penalty_last_n", o->dry_window);
    const ChatTemplate *form = chat_form_template(server->form);
    json_t *props = json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:o, s:s, s:b, s:b, s:s}", "model", server->name, "architecture",
                              model_config(m)->architecture, "total_slots", model_slots(m), "n_ctx",
                              (json_int_t)model_context(m), "cache_bytes_per_token",
                              (json_int_t)model_cache_bytes_per_token(m), "bytes_per_token",
                              (json_int_t)model_bytes_per_token(m), "default_generation_settings", sampling,
                              "chat_form", chat_template_name(form), "knows_tools", chat_template_knows_tools(form),
                              "knows_thinking", chat_template_knows_thinking(form), "build_info",
                              "lathe-" LATHE_VERSION);
    if (server->roof_gb_s > 0) json_object_set_new(props, "roof_gb_s", json_real(server->roof_gb_s));
    reply_json(x, 200, props);
}

// ---- tokens

void endpoint_tokenize(Exchange *x) {
    const Server *server = server_of(x);
    Fields f;
    TokenIds ids = {0};
    Error err = {0};
    if (!fields_read(x, model_vocab_size(server->loaded.model), &f)) return;
    bool has_specials = field_is(&f, FIELD_parse_special, true), has_pieces = field_is(&f, FIELD_with_pieces, false);
    if (!tokenizer_encode(server->tokenizer, x->arena, field_text(&f, FIELD_content), has_specials, &ids, &err)) {
        refuse(x, 400, "invalid_value", "content", "%s", err.text);
    } else {
        json_t *tokens = json_array();
        bool has_bos = field_is(&f, FIELD_add_special, false) && tokenizer_adds_bos(server->tokenizer);
        if (has_bos) bos_add(server->tokenizer, x->arena, &ids);
        for (size_t i = 0; i < ids.len; i++) {
            json_t *id = json_integer(ids.at[i]);
            if (has_pieces)
                id = json_pack("{s:o, s:o}", "id", id, "piece", json_words(tokenizer_decode_piece(server->tokenizer, ids.at[i])));
            json_array_append_new(tokens, id);
        }
        reply_json(x, 200, json_pack("{s:o}", "tokens", tokens));
    }
    fields_free(&f);
}

void endpoint_detokenize(Exchange *x) {
    const Server *server = server_of(x);
    Fields f;
    TokenIds ids = {0};
    if (!fields_read(x, model_vocab_size(server->loaded.model), &f)) return;
    for (size_t i = 0; i < json_array_size(f.at[FIELD_tokens]); i++)
        vec_push(x->arena, &ids, (int32_t)json_whole(json_array_get(f.at[FIELD_tokens], i)));
    Text text = tokenizer_decode(server->tokenizer, x->arena, ids.at, ids.len);
    reply_json(x, 200, json_pack("{s:o}", "content", json_words(text)));
    fields_free(&f);
}

void endpoint_apply(Exchange *x) {
    const Server *server = server_of(x);
    Fields f;
    ChatSegments out;
    Error err = {0};
    if (!fields_read(x, model_vocab_size(server->loaded.model), &f)) return;
    messages_translate(json_object_get(f.body, "messages"));
    if (chat_template_render(chat_form_template(server->form), x->arena, f.at[FIELD_messages], f.at[FIELD_tools],
                             field_is(&f, FIELD_generation_prompt, true), f.at[FIELD_template_kwargs], &out, &err))
        reply_json(x, 200, json_pack("{s:o}", "prompt", json_words(out.text)));
    else refuse(x, 400, "template_error", "messages", "%s", err.text);
    fields_free(&f);
}

// ---- metrics

static void metric(TextBuilder *out, const char *name, const char *kind, const char *help, double value) {
    builder_printf(out, "# HELP lathe_%s %s\n# TYPE lathe_%s %s\nlathe_%s %.15g\n", name, help, name, kind, name, value);
}

static void metric_requests(TextBuilder *out, Server *server) {
    builder_cstring(out, "# HELP lathe_requests_total Requests answered.\n# TYPE lathe_requests_total counter\n");
    for (int i = 0; i <= ENDPOINT_COUNT; i++)
        for (int k = 0; k < STATUS_CLASSES; k++) {
            long n = atomic_load(&server->answered[i][k]);
            if (n) builder_printf(out, "lathe_requests_total{path=\"%s\",status=\"%dxx\"} %ld\n",
                                  i < ENDPOINT_COUNT ? endpoints[i].path : "", k, n);
        }
}

static void metric_ended(TextBuilder *out, const SchedulerTotals *t) {
    builder_cstring(out, "# HELP lathe_answers_total Answers by what ended them.\n# TYPE lathe_answers_total counter\n");
    static const struct {
        const char *name;
        JobEnd ends[2];
    } rows[] = {{"stop", {JOB_END, JOB_STOP_TEXT}}, {"length", {JOB_LENGTH, JOB_CONTEXT}},
                {"cancelled", {JOB_CANCELLED, JOB_RUNS}}, {"timed_out", {JOB_TIMED_OUT, JOB_RUNS}},
                {"failed", {JOB_FAILED, JOB_RUNS}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        builder_printf(out, "lathe_answers_total{end=\"%s\"} %lld\n", rows[i].name,
                       (long long)(t->ended[rows[i].ends[0]] + t->ended[rows[i].ends[1]]));
}

void endpoint_metrics(Exchange *x) {
    Server *server = server_of(x);
    SchedulerTotals t = scheduler_totals(server->scheduler);
    TextBuilder out = builder(x->arena);
    const struct {
        const char *name, *kind, *help;
        double value;
    } rows[] = {
        {"prompt_tokens_total", "counter", "Tokens of prompts.", (double)t.prompt_tokens},
        {"cached_tokens_total", "counter", "Tokens of prompts that were found in the cache.", (double)t.cached_tokens},
        {"generated_tokens_total", "counter", "Tokens generated.", (double)t.generated_tokens},
        {"prompt_seconds_total", "counter", "Time spent evaluating prompts.", t.prompt_s},
        {"generation_seconds_total", "counter", "Time spent generating.", t.generation_s},
        {"steps_total", "counter", "Steps of generation.", (double)t.steps},
        {"step_rows_total", "counter", "Answers that took part in them.", (double)t.step_rows},
        {"slots", "gauge", "Answers that can be made at once.", t.slots},
        {"slots_busy", "gauge", "Answers being made.", t.running},
        {"queue_length", "gauge", "Answers that wait.", t.queued},
        {"cache_pages", "gauge", "Pages of the cache.", (double)t.pages},
        {"cache_pages_known", "gauge", "Pages of the cache that hold something.", (double)t.pages_known},
        {"connections", "gauge", "Open connections.", http_connections(server->http)},
        {"resident_bytes_peak", "gauge", "Largest resident memory so far.", (double)memory_peak_bytes()},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        metric(&out, rows[i].name, rows[i].kind, rows[i].help, rows[i].value);
    metric_requests(&out, server);
    metric_ended(&out, &t);
    reply_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", builder_view(&out));
}

// ---- the page

extern const char chat_page_begin[], chat_page_end[];

void endpoint_page(Exchange *x) {
    reply_header(x, "Content-Security-Policy",
                 "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                 "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    reply_text(x, 200, "text/html; charset=utf-8", (Text){chat_page_begin, (size_t)(chat_page_end - chat_page_begin)});
}

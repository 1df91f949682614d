// generation: see generation.h. Fields → JobAsk, the same for every job but for its seed; then a loop: what is new of each
// choice goes through the wire's functions, until all have ended.
// Example: n = 2, seed 5: two jobs of one prompt, drawing with the seeds 5 and 6
#include "app/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "text/json_values.h"

// ---- what is asked

static bool is_given(const Fields *f, FieldId id) {
    return f->at[id] != NULL;
}

static SamplingOptions sampling_of(const Generation *g) {
    const Fields *f = &g->fields;
    SamplingOptions o = g->server->sampling;
    o.temperature = (float)field_real(f, FIELD_temperature, (double)o.temperature);
    o.top_p = (float)field_real(f, FIELD_top_p, (double)o.top_p);
    o.top_k = (int)field_int(f, FIELD_top_k, o.top_k);
    o.min_p = (float)field_real(f, FIELD_min_p, (double)o.min_p);
    o.repeat_penalty = (float)field_real(f, FIELD_repeat_penalty, (double)o.repeat_penalty);
    o.penalty_window = (int)field_int(f, FIELD_repeat_last_n, o.penalty_window);
    o.presence_penalty = (float)field_real(f, FIELD_presence_penalty, (double)o.presence_penalty);
    o.frequency_penalty = (float)field_real(f, FIELD_frequency_penalty, (double)o.frequency_penalty);
    o.dry_multiplier = (float)field_real(f, FIELD_dry_multiplier, (double)o.dry_multiplier);
    o.dry_base = (float)field_real(f, FIELD_dry_base, (double)o.dry_base);
    o.dry_allowed_length = (int)field_int(f, FIELD_dry_allowed, o.dry_allowed_length);
    o.dry_window = (int)field_int(f, FIELD_dry_last, o.dry_window);
    int64_t seed = field_int(f, FIELD_seed, -1);
    o.seed = seed == -1 ? server_seed(g->server) : (uint64_t)seed;
    return o;
}

static void breakers_of(const Generation *g, JobAsk *ask) {
    const json_t *given = g->fields.at[FIELD_dry_breakers], *entry;
    VEC(Text) texts = {0};
    size_t i;
    if (json_is_string(given)) vec_push(g->x->arena, &texts, json_view(given));
    json_array_foreach(given, i, entry) vec_push(g->x->arena, &texts, json_view(entry));
    ask->breakers = given ? dry_breakers(g->server->tokenizer, texts.at, texts.len)
                          : dry_breakers(g->server->tokenizer, dry_usual_breakers, DRY_USUAL_BREAKERS);
}

static void stops_of(const Generation *g, JobAsk *ask) {
    Arena *arena = g->x->arena;
    size_t n_form = 0;
    const Text *form = chat_form_stops(g->server->form, &n_form);
    const json_t *given = g->fields.at[FIELD_stop], *entry;
    if (!given) given = g->fields.at[FIELD_stop_sequences];
    VEC(Text) stops = {0};
    size_t i;
    for (i = 0; i < n_form; i++) vec_push(arena, &stops, form[i]);
    if (json_is_string(given)) vec_push(arena, &stops, json_view(given));
    json_array_foreach(given, i, entry) vec_push(arena, &stops, json_view(entry));
    ask->stops = stops.at;
    ask->n_stops = stops.len;
}

static void biases_of(const Generation *g, JobAsk *ask) {
    Arena *arena = g->x->arena;
    const json_t *given = g->fields.at[FIELD_logit_bias];
    const char *name;
    json_t *entry;
    size_t i;
    VEC(TokenBias) biases = {0};
    json_object_foreach((json_t *)(uintptr_t)given, name, entry)
        vec_push(arena, &biases, ((TokenBias){atoi(name), (float)json_number_value(entry)}));
    json_array_foreach(given, i, entry)
        vec_push(arena, &biases, ((TokenBias){(int32_t)json_whole(json_array_get(entry, 0)),
                                              (float)json_number_value(json_array_get(entry, 1))}));
    ask->biases = biases.at;
    ask->n_biases = biases.len;
}

static int64_t most_tokens_of(const Generation *g) {
    const Fields *f = &g->fields;
    if (is_given(f, FIELD_max_completion_tokens)) return field_int(f, FIELD_max_completion_tokens, 0);
    return field_int(f, FIELD_max_tokens, field_int(f, FIELD_max_output_tokens, g->server->most_tokens));
}

// −1: none are asked for.
static bool tops_of(const Generation *g, int *n_top) {
    const Fields *f = &g->fields;
    bool wants = field_is(f, FIELD_logprobs, false);
    *n_top = -1;
    if (is_given(f, FIELD_top_logprobs) && !wants)
        return refuse(g->x, 400, "invalid_value", "top_logprobs", "top_logprobs needs \"logprobs\": true");
    if (wants) *n_top = (int)field_int(f, FIELD_top_logprobs, 0);
    if (is_given(f, FIELD_logprobs_old)) *n_top = (int)field_int(f, FIELD_logprobs_old, 0);
    return true;
}

static bool prompt_fits(const Generation *g, const TokenIds *prompt) {
    Exchange *x = g->x;
    long long context = model_context(g->server->loaded.model), n = (long long)prompt->len;
    const char *param = is_given(&g->fields, FIELD_prompt) ? "prompt" : is_given(&g->fields, FIELD_input) ? "input" : "messages";
    if (n == 0) return refuse(x, 400, "invalid_value", param, "%s is empty, and this model has no token to begin with", param);
    if (n < context || (n == context && most_tokens_of(g) == 0)) return true;
    bool is_most = context == model_config(g->server->loaded.model)->context;
    json_t *error = error_object(400, "context_length_exceeded", param,
                                 arena_printf(x->arena, "the prompt has %lld tokens, and the context holds %lld, one of them "
                                              "for the answer: shorten it%s", n, context,
                                              is_most ? " (the model was made for no more)" : ", or start the server with a larger --context"));
    json_t *inner = json_object_get(error, "error");
    json_object_set_new(inner, "n_prompt_tokens", json_integer(n));
    json_object_set_new(inner, "n_ctx", json_integer(context));
    reply_json(x, 400, error);
    return false;
}

// ---- life

static void generation_close(void *opaque) {
    Generation *g = opaque;
    scheduler_finish(g->server->scheduler, g->jobs, g->n);
    for (int i = 0; i < g->n; i++) job_free(&g->jobs[i]);
    pthread_cond_destroy(&g->news);
    fields_free(&g->fields);
    arena_destroy(g->scratch);
}

static bool jobs_submit(Generation *g) {
    Submitted how = scheduler_submit(g->server->scheduler, g->jobs, g->n);
    if (how == SUBMIT_CLOSING) return refuse(g->x, 503, "unavailable", NULL, "the server is about to end");
    if (how == SUBMITTED) return true;
    reply_header(g->x, "Retry-After", arena_printf(g->x->arena, "%d", scheduler_retry_s(g->server->scheduler)));
    return refuse(g->x, 429, "queue_full", NULL, "the queue is full: ask again a little later");
}

static void id_make(Generation *g) {
    snprintf(g->id, sizeof g->id, "%s%016llx%08llx", g->wire->id_prefix, (unsigned long long)server_seed(g->server),
             (unsigned long long)(time_us() & 0xffffffffu));
}

static bool asks_make(Generation *g, JobAsk *ask) {
    const Fields *f = &g->fields;
    if (is_given(f, FIELD_best_of) && field_int(f, FIELD_best_of, 1) != g->answers)
        return refuse(g->x, 400, "unsupported_parameter", "best_of", "best_of must be the same as n");
    *ask = (JobAsk){.sampling = sampling_of(g), .most_tokens = most_tokens_of(g), .fd = g->x->fd, .news = &g->news,
                    .ignores_end = field_is(f, FIELD_ignore_eos, false)};
    if (g->server->timeout_s > 0) ask->deadline_us = time_us() + (uint64_t)(g->server->timeout_s * 1e6);
    stops_of(g, ask);
    breakers_of(g, ask);
    biases_of(g, ask);
    return tops_of(g, &ask->n_top);
}

// White space is trimmed around calls and thinking only, so a scanner is there only where either may come.
static ReplyScanner *scanner_make(const Generation *g, const GenerationSetup *setup) {
    bool is_of_use = setup->format && (setup->format->thinking || json_array_size(setup->tools) > 0);
    return is_of_use ? reply_scanner_create(g->x->arena, setup->format, setup->tools, setup->thinks_first) : NULL;
}

// It grows with each token, so it lives on what belongs to the engine's thread.
static bool thinking_limit(const Generation *g, const GenerationSetup *setup, Job *job) {
    Error err = {0};
    if (!setup->format || !setup->format->thinking) return true;
    return thinking_budget_create(&job->ask.thinking, job->scratch, g->server->tokenizer, setup->format->thinking, setup->thinks_first,
                                  setup->thinking_budget, &err) ||
           refuse(g->x, 400, "unsupported_parameter", "thinking_budget_tokens", "%s", err.text);
}

bool generation_begin(Generation **out, Exchange *x, Fields *fields, const GenerationSetup *setup) {
    Arena *arena = x->arena;
    Generation *g = arena_new(arena, sizeof *g);
    JobAsk ask;
    *g = (Generation){.x = x, .server = server_of(x), .wire = setup->wire, .wire_state = setup->wire_state, .fields = *fields, .scratch = arena_create(),
                      .created = (int64_t)time(NULL)};
    *fields = (Fields){0};
    g->answers = (int)field_int(&g->fields, FIELD_n, 1);
    news_init(&g->news);
    id_make(g);
    int n_jobs = setup->n_prompts * g->answers;
    bool ok = asks_make(g, &ask);
    if (ok && setup->format) reply_format_markers(setup->format, arena, &ask.shown_specials, &ask.n_shown_specials);
    for (int i = 0; ok && i < setup->n_prompts; i++) {
        ok = prompt_fits(g, &setup->prompts[i]);
        g->prompt_tokens += (int64_t)setup->prompts[i].len;
    }
    g->jobs = arena_new(arena, (size_t)n_jobs * sizeof *g->jobs);
    g->choices = arena_new(arena, (size_t)n_jobs * sizeof *g->choices);
    for (int i = 0; ok && i < n_jobs; i++) {
        JobAsk own = ask;
        own.prompt = setup->prompts[i / g->answers].at;
        own.n_prompt = (int64_t)setup->prompts[i / g->answers].len;
        own.sampling.seed += (uint64_t)(i % g->answers);
        if (setup->grammar.grammar && setup->grammar.root >= 0)
            own.constraint = constraint_create(setup->grammar.grammar, setup->grammar.root, g->server->token_order);
        job_begin(&g->jobs[i], g->server->tokenizer, &own);
        g->choices[i] = (Choice){.job = &g->jobs[i], .scanner = scanner_make(g, setup)};
        g->n = i + 1;
        ok = thinking_limit(g, setup, &g->jobs[i]);
    }
    if (ok && jobs_submit(g)) {
        *out = g;
        return true;
    }
    generation_close(g);
    return false;
}

// ---- what is new

// Under the lock: copies what the job has beyond what was seen. False: nothing.
static bool news_take(Generation *g, Choice *c, News *news) {
    Job *job = c->job;
    size_t out = job_tokens_out(job);
    *news = (News){.choice = c, .index = (int)(c - g->choices), .text = builder_view(&job->text)};
    if (job->text.len == c->text_seen && out == c->tokens_seen && !(job->is_done && !c->is_ended)) return false;
    Text text = {job->text.at + c->text_seen, job->text.len - c->text_seen};
    if (text.len) vec_push(g->scratch, &news->parts, ((ReplyPart){PART_CONTENT, 0, text_copy(g->scratch, text)}));
    news->n_tokens = out - c->tokens_seen;
    news->tokens = arena_copy(g->scratch, job->tokens.at + c->tokens_seen, news->n_tokens * sizeof(JobToken));
    news->tops = arena_copy(g->scratch, job->tops.at, job->tops.len * sizeof(TopToken));
    c->text_seen = job->text.len;
    c->tokens_seen = out;
    return true;
}

// Not under the lock: what the news are. is_end: the job says no more.
static void news_scan(Generation *g, News *news, bool is_end) {
    Choice *c = news->choice;
    ReplyParts parts = {0};
    if (c->scanner) {
        Text text = reply_text_of(g->scratch, &news->parts, PART_CONTENT);
        reply_scanner_feed(c->scanner, text, is_end, g->scratch, &parts);
        news->parts = parts;
        c->is_cut = is_end && reply_scanner_is_cut(c->scanner);
    }
    for (size_t i = 0; i < news->parts.len; i++) c->has_tools |= news->parts.at[i].kind == PART_TOOL;
}

static int status_of(const Job *job) {
    if (job->end == JOB_TIMED_OUT) return 504;
    if (job->end == JOB_CANCELLED) return 503;
    return job->error.code == LATHE_BAD_REQUEST ? 400 : 500;
}

static bool has_failed(const Job *job) {
    return job->is_done && (job->end == JOB_FAILED || job->end == JOB_TIMED_OUT || job->end == JOB_CANCELLED);
}

static Error why_of(const Job *job) {
    Error why = job->error;
    if (job->end == JOB_TIMED_OUT) snprintf(why.text, sizeof why.text, "the answer took longer than lathe serve --timeout allows");
    if (job->end == JOB_CANCELLED) snprintf(why.text, sizeof why.text, "the answer was cancelled: the server is about to end");
    return why;
}

// ---- a reply in one piece

static bool all_done(const Generation *g) {
    for (int i = 0; i < g->n; i++)
        if (!g->jobs[i].is_done) return false;
    return true;
}

static void parts_append(Arena *arena, ReplyParts *all, const ReplyParts *more) {
    for (size_t i = 0; i < more->len; i++)
        vec_push(arena, all, ((ReplyPart){more->at[i].kind, more->at[i].tool, text_copy(arena, more->at[i].text)}));
}

static void reply_whole(Generation *g) {
    pthread_mutex_t *lock = scheduler_lock(g->server->scheduler);
    pthread_mutex_lock(lock);
    while (!all_done(g)) pthread_cond_wait(&g->news, lock);
    pthread_mutex_unlock(lock);
    for (int i = 0; i < g->n; i++) {
        News news;
        if (has_failed(&g->jobs[i])) {
            Error why = why_of(&g->jobs[i]);
            refuse(g->x, status_of(&g->jobs[i]), job_end_name(g->jobs[i].end), NULL, "%s", why.text);
            generation_close(g);
            return;
        }
        if (!news_take(g, &g->choices[i], &news)) continue;
        news_scan(g, &news, true);
        parts_append(g->x->arena, &g->choices[i].parts, &news.parts);
    }
    reply_json(g->x, 200, g->wire->whole(g));
    generation_close(g);
}

// ---- a stream

static void end_of_choice(Generation *g, Choice *c, int index, TextBuilder *out) {
    c->is_ended = true;
    if (has_failed(c->job)) {
        Error why = why_of(c->job);
        g->has_failed = true;
        g->wire->failed(g, status_of(c->job), &why, out);
        return;
    }
    g->wire->end(g, c, index, out);
}

bool generation_has_ended(const Generation *g) {
    for (int i = 0; i < g->n; i++)
        if (!g->choices[i].is_ended) return false;
    return true;
}

// Waits for what is new of any choice; false where the time of a sign of life has come first.
static bool news_wait(Generation *g, News *news, bool *is_done) {
    Scheduler *s = g->server->scheduler;
    pthread_mutex_lock(scheduler_lock(s));
    for (bool in_time = true;; in_time = scheduler_wait(s, &g->news, g->server->keep_alive_s)) {
        for (int i = 0; i < g->n; i++)
            if (news_take(g, &g->choices[i], news)) {
                *is_done = g->choices[i].job->is_done;
                pthread_mutex_unlock(scheduler_lock(s));
                return true;
            }
        if (in_time) continue;
        pthread_mutex_unlock(scheduler_lock(s));
        return false;
    }
}

static bool stream_next(void *opaque, TextBuilder *out) {
    Generation *g = opaque;
    News news;
    bool is_done = false;
    if (!g->has_begun) g->wire->begin(g, out);
    bool is_first = !g->has_begun;
    g->has_begun = true;
    arena_reset(g->scratch);
    if (is_first && out->len) return true;        // who asked knows at once that the answer is on its way
    if (!news_wait(g, &news, &is_done)) {
        builder_cstring(out, g->wire->keep_alive);
        return true;
    }
    news_scan(g, &news, is_done);
    if (news.parts.len || news.n_tokens) g->wire->news(g, &news, out);
    if (is_done) end_of_choice(g, news.choice, news.index, out);
    if (!g->has_failed && !generation_has_ended(g)) return true;
    if (!g->has_failed) g->wire->finish(g, out);
    return false;
}

void generation_reply(Generation *g) {
    if (!field_is(&g->fields, FIELD_stream, false)) {
        reply_whole(g);
        return;
    }
    reply_stream(g->x, "text/event-stream; charset=utf-8", stream_next, g, generation_close);
}

void event_put(TextBuilder *out, const char *event, json_t *value) {
    if (event) builder_printf(out, "event: %s\n", event);
    builder_cstring(out, "data: ");
    char *text = json_dumps(value, JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY | JSON_COMPACT);
    builder_cstring(out, text ? text : "null");
    builder_cstring(out, "\n\n");
    free(text);
    json_decref(value);
}

// ---- what the protocols share

Text reply_text_of(Arena *arena, const ReplyParts *parts, PartKind kind) {
    TextBuilder all = builder(arena);
    for (size_t i = 0; i < parts->len; i++)
        if (parts->at[i].kind == kind) builder_text(&all, parts->at[i].text);
    return builder_view(&all);
}

Text reply_arguments_of(Arena *arena, const ReplyParts *parts, size_t i) {
    TextBuilder all = builder(arena);
    for (size_t k = i + 1; k < parts->len; k++)
        if (parts->at[k].kind == PART_ARGUMENTS && parts->at[k].tool == parts->at[i].tool) builder_text(&all, parts->at[k].text);
    return builder_view(&all);
}

bool generation_is_cut(const Choice *c) {
    return (c->job->end == JOB_LENGTH || c->job->end == JOB_CONTEXT) && (!c->has_tools || c->is_cut);
}

const char *generation_finish_reason(const Choice *c) {
    return generation_is_cut(c) ? "length" : c->has_tools ? "tool_calls" : "stop";
}

// Answers to prompts of which the cache knew the text in other tokens are outside of the promise of equal bits.
void generation_mark_text(const Generation *g, json_t *usage) {
    json_int_t by_text = 0;
    for (int i = 0; i < g->n; i += g->answers) by_text += g->jobs[i].by_text;
    if (g->server->finds_text) json_object_set_new(usage, "cached_by_text", json_integer(by_text));
}

// Tokens of the prompts once each, of the answers all; cached are those that no answer had to evaluate.
json_t *generation_usage(const Generation *g) {
    json_int_t prompt = 0, cached = 0, generated = 0, thought = 0;
    for (int i = 0; i < g->n; i++) {
        const Job *job = &g->jobs[i];
        if (i % g->answers == 0) prompt += job->ask.n_prompt, cached += job->reused_tokens;
        generated += job->generated_tokens;
        thought += job_thought_tokens(job);
    }
    json_t *usage = json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", generated, "total_tokens",
                     prompt + generated, "prompt_tokens_details", "cached_tokens", cached, "completion_tokens_details",
                     "reasoning_tokens", thought);
    generation_mark_text(g, json_object_get(usage, "prompt_tokens_details"));
    return usage;
}

static json_t *rate_of(json_int_t tokens, double ms) {
    return tokens > 0 && ms > 0 ? json_real((double)tokens * 1e3 / ms) : json_null();
}

// What reading weights and cache took of the memory's speed. Answers of one step share what it reads: each has all of it.
static json_t *roof_share_of(const Server *server, const Job *job, double tok_s) {
    double depth = (double)job->ask.n_prompt + (double)job->generated_tokens / 2;
    return json_real(loaded_read_gb_s(&server->loaded, tok_s, depth) / server->roof_gb_s);
}

// Of the first answer: milliseconds in the queue, for the prompt up to the first token, and for the tokens behind it.
json_t *generation_timings(const Generation *g) {
    const Job *job = &g->jobs[0];
    uint64_t begun = job->begun_us ? job->begun_us : job->ended_us, first = job->first_us ? job->first_us : job->ended_us;
    double queue_ms = (double)(begun - job->asked_us) / 1e3, prompt_ms = (double)(first - begun) / 1e3;
    double answer_ms = (double)(job->ended_us - first) / 1e3;
    json_int_t evaluated = job->ask.n_prompt - job->reused_tokens, behind = job->generated_tokens - 1;
    json_t *timings = json_pack("{s:f, s:I, s:I, s:f, s:o, s:I, s:f, s:o, s:I}", "queue_ms", queue_ms, "cache_n",
                     (json_int_t)job->reused_tokens, "prompt_n", evaluated, "prompt_ms", prompt_ms, "prompt_per_second",
                     rate_of(evaluated, prompt_ms), "predicted_n", (json_int_t)job->generated_tokens, "predicted_ms",
                     answer_ms, "predicted_per_second", rate_of(behind, answer_ms), "seed",
                     (json_int_t)(job->ask.sampling.seed & INT64_MAX));
    if (g->server->roof_gb_s > 0 && behind > 0 && answer_ms > 0)
        json_object_set_new(timings, "roof_share", roof_share_of(g->server, job, (double)behind * 1e3 / answer_ms));
    return timings;
}

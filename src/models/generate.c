// generate: sessions. See generate.h.
#include "models/generate.h"

#include <string.h>

struct Session {
    Arena *arena;
    Model *model;
    int slot;
    SamplingOptions sampling;
    int32_t *tokens;                // [context]: prompt + generated
    int64_t length, cached, reused; // cached ≤ length
    int32_t *counts;                // [vocab]: of the penalty window, the last tokens before length
};

// ---------------------------------------------------------------- the penalty window

static int64_t window_begin(const Session *s) {
    int64_t n = s->sampling.penalty_window;
    return s->length > n ? s->length - n : 0;
}

static void count_token(Session *s, int32_t token, int change) {
    s->counts[token] += change;
    model_set_count(s->model, s->slot, token, s->counts[token]);
}

// The window always is the last tokens of the history, whatever was found in the cache.
static void window_clear(Session *s) {
    if (!sampling_has_penalties(&s->sampling)) return;
    for (int64_t i = window_begin(s); i < s->length; i++) count_token(s, s->tokens[i], -1);
}

static void window_fill(Session *s) {
    if (!sampling_has_penalties(&s->sampling)) return;
    for (int64_t i = window_begin(s); i < s->length; i++) count_token(s, s->tokens[i], 1);
}

static void append(Session *s, int32_t token) {
    int64_t before = window_begin(s);
    s->tokens[s->length++] = token;
    if (!sampling_has_penalties(&s->sampling)) return;
    count_token(s, token, 1);
    if (window_begin(s) > before) count_token(s, s->tokens[before], -1);
}

// ---------------------------------------------------------------- life

bool session_open(Session **session, Model *model, int slot, const SamplingOptions *options,
                  Error *err) {
    *session = NULL;
    TRY(sampling_check(options, err));
    if (slot < 0 || slot >= model_slots(model))
        return fail(err, LATHE_BAD_REQUEST, "no slot %d: the model was loaded with %d", slot,
                    model_slots(model));
    Arena *arena = arena_create();
    Session *s = arena_new(arena, sizeof *s);
    s->arena = arena;
    s->model = model;
    s->slot = slot;
    s->sampling = *options;
    s->tokens = arena_new(arena, (size_t)model_context(model) * sizeof *s->tokens);
    s->counts = arena_new(arena, (size_t)model_vocab_size(model) * sizeof *s->counts);
    model_set_allowed(model, slot, NULL);
    *session = s;
    return true;
}

void session_close(Session *s) {
    if (!s) return;
    window_clear(s);
    arena_destroy(s->arena);
}

bool session_set_sampling(Session *s, const SamplingOptions *options, Error *err) {
    TRY(sampling_check(options, err));
    window_clear(s);
    s->sampling = *options;
    window_fill(s);
    return true;
}

int64_t session_length(const Session *s) { return s->length; }
int64_t session_cached(const Session *s) { return s->cached; }
int64_t session_reused(const Session *s) { return s->reused; }
int64_t session_room(const Session *s) { return model_context(s->model) - s->length; }
const int32_t *session_tokens(const Session *s) { return s->tokens; }
void session_logits(const Session *s, float *out) { model_logits(s->model, 0, out); }

void session_truncate(Session *s, int64_t length) {
    if (length < 0) length = 0;
    if (length >= s->length) return;
    window_clear(s);
    s->length = length;
    if (s->cached > length) s->cached = length;
    window_fill(s);
}

// ---------------------------------------------------------------- prompt and steps

static bool check_prompt(const Session *s, const int32_t *tokens, int64_t n, Error *err) {
    int64_t context = model_context(s->model), vocab = model_vocab_size(s->model);
    if (n < 1)
        return fail(err, LATHE_BAD_REQUEST, "the prompt is empty: at least one token is needed");
    bool is_most = context == model_config(s->model)->context;
    if (n > context)
        return fail(err, LATHE_BAD_REQUEST,
                    "the prompt has %lld tokens, the context holds %lld: shorten it%s", (long long)n,
                    (long long)context,
                    is_most ? " (the model was made for no more)" : ", or ask for a larger --context");
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return fail(err, LATHE_BAD_REQUEST,
                        "the token %d is outside of the vocabulary (0 to %lld)", tokens[i],
                        (long long)vocab - 1);
    return true;
}

bool session_prompt(Session *s, const int32_t *tokens, int64_t n, PromptProgress progress,
                    void *context, Error *err) {
    int64_t same = 0, piece = MODEL_CHUNK_MAX;
    TRY(check_prompt(s, tokens, n, err));
    while (same < n - 1 && same < s->cached && s->tokens[same] == tokens[same]) same++;
    window_clear(s);
    memcpy(s->tokens, tokens, (size_t)n * sizeof *tokens);
    s->length = n;
    s->cached = s->reused = same;
    window_fill(s);
    while (s->cached < n - 1) {
        int64_t take = n - 1 - s->cached < piece ? n - 1 - s->cached : piece;
        TRY(model_eval(s->model, s->slot, s->tokens + s->cached, take, s->cached, LOGITS_NONE, NULL,
                       err));
        s->cached += take;
        if (progress && !progress(context, s->cached - same, n - 1 - same)) break;
    }
    return true;
}

bool session_step(Session *s, int32_t *token, Error *err) {
    if (s->length == 0) return fail(err, LATHE_BAD_REQUEST, "nothing was prompted");
    if (session_room(s) == 0)
        return fail(err, LATHE_BAD_REQUEST,
                    "the context of %lld tokens is full: ask for a larger --context",
                    (long long)model_context(s->model));
    // After session_truncate the newest token's logits are gone, so it is evaluated anew.
    int64_t from = s->cached < s->length ? s->cached : s->length - 1;
    TRY(model_eval(s->model, s->slot, s->tokens + from, s->length - from, from, LOGITS_LAST, NULL,
                   err));
    s->cached = s->length;
    TRY(model_sample(s->model, 0, s->slot, &s->sampling, (uint32_t)s->length, token, err));
    append(s, *token);
    return true;
}

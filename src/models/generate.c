// generate: sessions. See generate.h.
#include "models/generate.h"

#include <string.h>

#include "base/vec.h"

struct Session {
    Arena *arena;
    Model *model;
    int slot;
    SamplingOptions sampling;
    int32_t *tokens;                // [context]: prompt + generated
    int64_t length, cached, reused; // cached ≤ length
    int32_t *counts;                // [vocab]: of the penalty window, the last tokens before length
    PagePool *pool;                 // NULL: the slot's own pages
    VEC(TokenBias) biases;          // those in force
    DryBreakers breakers;
    Dry *dry;                       // NULL until it is needed
    int32_t *fined;                 // [context]: tokens whose bias holds a penalty of dry's; the first n_fined count
    size_t n_fined;
    bool is_masked;
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

// ---------------------------------------------------------------- biases

static float bias_given(const Session *s, int32_t token) {
    float bias = 0;
    for (size_t i = 0; i < s->biases.len; i++)
        if (s->biases.at[i].token == token) bias = s->biases.at[i].bias;
    return bias;
}

static bool fines_clear(Session *s, Error *err) {
    for (size_t i = 0; i < s->n_fined; i++) TRY(model_set_bias(s->model, s->slot, s->fined[i], bias_given(s, s->fined[i]), err));
    s->n_fined = 0;
    return true;
}

// What the history makes dear stands in the biases of the next draw.
static bool fines_set(Session *s, Error *err) {
    const TokenPenalty *found;
    TRY(fines_clear(s, err));
    if (!dry_is_on(&s->sampling)) return true;
    if (!s->dry) {
        int64_t context = model_context(s->model);
        s->dry = dry_create(s->arena, model_vocab_size(s->model), context);
        s->fined = arena_new(s->arena, (size_t)context * sizeof *s->fined);
    }
    size_t n = dry_penalties(s->dry, &s->sampling, &s->breakers, s->tokens, s->length, &found);
    for (; s->n_fined < n; s->n_fined++) {
        int32_t token = s->fined[s->n_fined] = found[s->n_fined].token;
        TRY(model_set_bias(s->model, s->slot, token, bias_given(s, token) - found[s->n_fined].penalty, err));
    }
    return true;
}

void session_set_breakers(Session *s, const DryBreakers *breakers) {
    s->breakers = *breakers;
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
    Error err;
    window_clear(s);
    session_set_allowed(s, NULL);
    CHECK(session_set_bias(s, NULL, 0, &err));
    if (s->pool) pages_release(s->pool, s->slot);
    arena_destroy(s->arena);
}

void session_share(Session *s, PagePool *pool) {
    s->pool = pool;
    s->length = s->cached = s->reused = 0;
}

void session_set_allowed(Session *s, const uint8_t *allowed) {
    if (allowed || s->is_masked) model_set_allowed(s->model, s->slot, allowed);
    s->is_masked = allowed != NULL;
}

bool session_set_bias(Session *s, const TokenBias *list, size_t n, Error *err) {
    TRY(fines_clear(s, err));
    for (size_t i = 0; i < s->biases.len; i++)
        TRY(model_set_bias(s->model, s->slot, s->biases.at[i].token, 0, err));
    s->biases.len = 0;
    for (size_t i = 0; i < n; i++) {
        vec_push(s->arena, &s->biases, list[i]);
        TRY(model_set_bias(s->model, s->slot, list[i].token, list[i].bias, err));
    }
    s->sampling.has_bias = n > 0;
    return true;
}

bool session_set_sampling(Session *s, const SamplingOptions *options, Error *err) {
    TRY(sampling_check(options, err));
    window_clear(s);
    s->sampling = *options;
    s->sampling.has_bias = s->biases.len > 0;
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
    if (s->pool) s->cached = length ? pages_begin(s->pool, s->slot, s->tokens, length) : 0;
    if (s->pool && !length) pages_release(s->pool, s->slot);
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

bool session_begin(Session *s, const int32_t *tokens, int64_t n, Error *err) {
    int64_t same = 0;
    TRY(check_prompt(s, tokens, n, err));
    if (s->pool) same = pages_begin(s->pool, s->slot, tokens, n);
    else
        while (same < n - 1 && same < s->cached && s->tokens[same] == tokens[same]) same++;
    window_clear(s);
    memcpy(s->tokens, tokens, (size_t)n * sizeof *tokens);
    s->length = n;
    s->cached = s->reused = same;
    window_fill(s);
    return true;
}

int64_t session_unfilled(const Session *s) {
    return s->cached < s->length ? s->length - 1 - s->cached : 0;
}

// Cells for the first `length` tokens of the history, and what is known of them afterwards.
static void pages_ready(Session *s, int64_t length) {
    if (s->pool) pages_reserve(s->pool, s->slot, length);
}

static void cached_until(Session *s, int64_t length) {
    if (s->pool && length > s->cached) pages_note(s->pool, s->slot, s->tokens, s->cached, length);
    s->cached = length;
}

bool session_fill(Session *s, int64_t most, Error *err) {
    int64_t left = session_unfilled(s), take = left < most ? left : most;
    if (take <= 0) return true;
    pages_ready(s, s->cached + take);
    TRY(model_eval(s->model, s->slot, s->tokens + s->cached, take, s->cached, LOGITS_NONE, NULL, err));
    cached_until(s, s->cached + take);
    return true;
}

bool session_prompt(Session *s, const int32_t *tokens, int64_t n, PromptProgress progress,
                    void *context, Error *err) {
    TRY(session_begin(s, tokens, n, err));
    int64_t same = s->reused;
    while (session_unfilled(s) > 0) {
        TRY(session_fill(s, MODEL_CHUNK_MAX, err));
        if (progress && !progress(context, s->cached - same, n - 1 - same)) break;
    }
    return true;
}

static bool check_room(const Session *s, Error *err) {
    if (s->length == 0) return fail(err, LATHE_BAD_REQUEST, "nothing was prompted");
    if (session_room(s) == 0)
        return fail(err, LATHE_BAD_REQUEST,
                    "the context of %lld tokens is full: ask for a larger --context",
                    (long long)model_context(s->model));
    return true;
}

bool sessions_step(Session *const *sessions, int n, int32_t *tokens, Error *errors, Error *err) {
    int32_t newest[SESSIONS_AT_ONCE], positions[SESSIONS_AT_ONCE], slots[SESSIONS_AT_ONCE];
    ModelDraw draws[SESSIONS_AT_ONCE];
    int n_draws = 0;
    if (n < 1 || n > SESSIONS_AT_ONCE)
        return fail(err, LATHE_BAD_REQUEST, "%d sequences: 1 to %d step together", n, SESSIONS_AT_ONCE);
    for (int i = 0; i < n; i++) {
        Session *s = sessions[i];
        TRY(check_room(s, err));
        CHECK(session_unfilled(s) == 0);
        pages_ready(s, s->length);
        newest[i] = s->tokens[s->length - 1];
        positions[i] = (int32_t)s->length - 1;
        slots[i] = s->slot;
        tokens[i] = -1;
        errors[i] = (Error){0};
        if (fines_set(s, &errors[i])) draws[n_draws++] = (ModelDraw){i, &s->sampling, (uint32_t)s->length, -1, &errors[i]};
    }
    if (n_draws) TRY(model_draw(sessions[0]->model, newest, positions, slots, n, draws, n_draws, err));
    for (int i = 0; i < n && n_draws; i++) cached_until(sessions[i], sessions[i]->length);
    for (int i = 0; i < n_draws; i++) {
        int row = draws[i].row;
        tokens[row] = draws[i].token;
        if (tokens[row] >= 0) append(sessions[row], tokens[row]);
    }
    return true;
}

bool session_step(Session *s, int32_t *token, Error *err) {
    Error own;
    TRY(check_room(s, err));
    // After session_truncate the newest token's logits are gone, so it is evaluated anew.
    TRY(session_fill(s, INT64_MAX, err));
    TRY(sessions_step(&s, 1, token, &own, err));
    if (*token < 0) *err = own;
    return *token >= 0;
}

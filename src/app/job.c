// job: see job.h. The road of a token: its log-probability → its piece → whole characters → text before a stop text.
// Example: tokens "Hel", "lo\n", stop text "\n" → text "Hello", end JOB_STOP_TEXT
#include "app/job.h"

#include <math.h>
#include <string.h>

const char *job_end_name(JobEnd end) {
    static const char *const names[] = {
        [JOB_RUNS] = "runs", [JOB_END] = "stop", [JOB_STOP_TEXT] = "stop", [JOB_LENGTH] = "length", [JOB_CONTEXT] = "length",
        [JOB_CANCELLED] = "cancelled", [JOB_TIMED_OUT] = "timed_out", [JOB_FAILED] = "failed"};
    return names[end];
}

void job_begin(Job *job, const Tokenizer *tokenizer, const JobAsk *ask) {
    *job = (Job){.ask = *ask, .tokenizer = tokenizer, .slot = -1, .arena = arena_create(), .scratch = arena_create()};
    job->text = builder(job->arena);
    job->characters = builder(job->arena);
    job->stops = stop_texts(job->scratch, ask->stops, ask->n_stops);
}

void job_free(Job *job) {
    constraint_destroy(job->ask.constraint);
    arena_destroy(job->arena);
    arena_destroy(job->scratch);
    job->arena = job->scratch = NULL;
}

// ---- log-probabilities

// ln Σ exp(x), from the largest on, so that nothing overflows.
static double log_sum(const float *logits, int64_t n) {
    float top = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (logits[i] > top) top = logits[i];
    for (int64_t i = 0; i < n; i++) sum += exp((double)logits[i] - (double)top);
    return (double)top + log(sum);
}

// The n best, best first; of equals the lowest id first.
static void tops_find(Job *job, const float *logits, int64_t vocab, double total) {
    size_t first = job->tops.len, n = 0, most = (size_t)job->ask.n_top;
    for (size_t i = 0; i < most; i++) vec_push(job->arena, &job->tops, ((TopToken){-1, -INFINITY}));
    TopToken *tops = job->tops.at + first;
    for (int64_t i = 0; most && i < vocab; i++) {
        float value = (float)((double)logits[i] - total);
        if (n == most && value <= tops[n - 1].logprob) continue;
        size_t at = n < most ? n++ : n - 1;
        for (; at > 0 && tops[at - 1].logprob < value; at--) tops[at] = tops[at - 1];
        tops[at] = (TopToken){(int32_t)i, value};
    }
}

// ---- text

static void text_give(Job *job, Text ready) {
    builder_text(&job->text, ready);
}

static void characters_pass(Job *job) {
    job->decoded += job->characters.len;
    text_give(job, stop_texts_feed(&job->stops, builder_view(&job->characters)));
    job->characters.len = 0;
}

static bool is_shown(const Job *job, int32_t token, Text piece) {
    if (!tokenizer_is_special(job->tokenizer, token)) return true;
    for (size_t i = 0; i < job->ask.n_shown_specials; i++)
        if (text_equal(job->ask.shown_specials[i], piece)) return true;
    return false;
}

void job_flush(Job *job) {
    stream_decoder_flush(&job->decoder, &job->characters);
    characters_pass(job);
    text_give(job, stop_texts_flush(&job->stops));
}

size_t job_tokens_out(const Job *job) {
    size_t n = 0;
    while (n < job->tokens.len) {
        const JobToken *t = &job->tokens.at[n];
        bool is_out = t->end <= job->text.len || (job->end != JOB_RUNS && t->begin < job->text.len);
        if (!is_out) break;
        n++;
    }
    return n;
}

// ---- which tokens may come

static const uint8_t *mask_of_one(Job *job, int32_t token) {
    size_t n = (size_t)tokenizer_vocabulary_size(job->tokenizer);
    if (!job->only) job->only = memset(arena_new(job->scratch, n), 0, n);
    job->only[job->only_id] = 0;
    job->only[token] = 1;
    job->only_id = token;
    return job->only;
}

JobEnd job_mask(Job *job, const uint8_t **mask, Error *err) {
    int32_t forced = job->ask.thinking ? thinking_budget_forced(job->ask.thinking) : -1;
    *mask = forced >= 0 ? mask_of_one(job, forced) : NULL;
    if (forced >= 0 || !job->ask.constraint) return JOB_RUNS;
    ConstraintState state = constraint_mask(job->ask.constraint, mask);
    if (state == CONSTRAINT_DONE) return JOB_END;
    if (state == CONSTRAINT_OPEN) return JOB_RUNS;
    (void)!fail(err, LATHE_BAD_REQUEST, "the answer cannot go on as it must: no token fits, or it can be read in too many ways at once");
    return JOB_FAILED;
}

int64_t job_thought_tokens(const Job *job) {
    return job->ask.thinking ? thinking_budget_used(job->ask.thinking) : 0;
}

void job_follow(Job *job, int32_t token) {
    if (job->ask.constraint) constraint_take(job->ask.constraint, token);
    if (job->ask.thinking) thinking_budget_take(job->ask.thinking, token);
}

// ---- a token

JobEnd job_take(Job *job, int32_t token, const float *logits, int64_t vocab) {
    job->generated_tokens++;
    if (tokenizer_is_end(job->tokenizer, token) && !job->ask.ignores_end) return JOB_END;
    JobToken taken = {.id = token, .begin = job->decoded, .first_top = job->tops.len};
    if (logits) {
        double total = log_sum(logits, vocab);
        taken.logprob = (float)((double)logits[token] - total);
        tops_find(job, logits, vocab, total);
    }
    Text piece = tokenizer_decode_piece(job->tokenizer, token);
    if (is_shown(job, token, piece)) {
        stream_decoder_push(&job->decoder, piece, &job->characters);
        characters_pass(job);
    }
    taken.end = job->decoded;
    vec_push(job->arena, &job->tokens, taken);
    if (job->stops.is_stopped) return JOB_STOP_TEXT;
    if (job->ask.most_tokens >= 0 && job->generated_tokens >= job->ask.most_tokens) return JOB_LENGTH;
    return JOB_RUNS;
}

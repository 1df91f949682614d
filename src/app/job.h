// job: one answer in the making: what is asked of the engine, and what came of it so far.
// In: token ids, sampling, stop texts. Out: text that only grows, a token list beside it, and why it ended.
// Invariant: fields behind `lock` are written by the engine's thread and read by the one that asked, each holding the lock
// (the scheduler's); what came out already never changes. Text is whole characters, without stop texts.
// Example: job_begin(&job, arena, &ask); scheduler_submit(s, &job, 1); while (!job.is_done) wait; scheduler_finish(s, &job, 1)
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "app/stop_texts.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "models/generate.h"
#include "text/constraint.h"
#include "text/stream_decoder.h"
#include "text/thinking_budget.h"
#include "text/tokenizer.h"

typedef enum JobEnd {
    JOB_RUNS,
    JOB_END,              // the model ended its turn
    JOB_STOP_TEXT,
    JOB_LENGTH,           // the most tokens that were asked for
    JOB_CONTEXT,          // no room is left
    JOB_CANCELLED,        // who asked has gone, or the server ends
    JOB_TIMED_OUT,
    JOB_FAILED,           // error says why
} JobEnd;

typedef struct JobAsk {
    const int32_t *prompt;
    int64_t n_prompt;
    SamplingOptions sampling;
    int64_t most_tokens;              // < 0: until the context is full
    const TokenBias *biases;
    size_t n_biases;
    DryBreakers breakers;             // for the dry_ fields of the sampling
    int n_top;                        // −1: no logprobs; else of so many likeliest tokens besides the chosen one
    const Text *stops;
    size_t n_stops;
    const Text *shown_specials;       // special tokens whose text is part of the answer
    size_t n_shown_specials;
    Constraint *constraint;           // what the answer must look like, or NULL; the job owns it
    ThinkingBudget *thinking;         // counts the thinking's tokens, and may end it; or NULL
    bool ignores_end;                 // end tokens do not end the answer
    uint64_t deadline_us;             // 0: none
    int fd;                           // the asker's socket, to notice that it went away; −1: none
    pthread_cond_t *news;             // signalled when something came out
} JobAsk;

typedef struct TopToken { int32_t id; float logprob; } TopToken;

// Places in the answer's text as if nothing had cut it: a token is out once the text has reached its end.
typedef struct JobToken {
    int32_t id;
    float logprob;                    // of the model's own distribution: before bias, penalties and temperature
    size_t begin, end;
    size_t first_top;                 // n_top entries of tops from here on
} JobToken;

typedef struct Job Job;
struct Job {
    JobAsk ask;
    const Tokenizer *tokenizer;
    Job *next;                        // in the queue
    int slot;                         // −1: waits
    bool is_cancelled;                // set under the lock by whoever wants no more of it
    bool is_submitted;

    // of the engine's thread alone
    StreamDecoder decoder;
    StopTexts stops;
    TextBuilder characters;
    Arena *scratch;
    size_t decoded;                   // bytes of text behind the last token
    uint8_t *only;                    // [vocabulary]: allows only_id; NULL: not needed yet
    int32_t only_id;

    // behind the lock
    Arena *arena;                     // of what follows; only the engine's thread allocates on it
    TextBuilder text;
    VEC(JobToken) tokens;
    VEC(TopToken) tops;
    JobEnd end;
    bool is_done;                     // and the engine has let go of it
    Error error;
    int64_t reused_tokens, generated_tokens;
    int64_t by_text;                  // of the prompt, in tokens of an earlier history in place of its own (--cache-text)
    uint64_t asked_us, begun_us, first_us, ended_us;   // 0: not yet
};

void job_begin(Job *job, const Tokenizer *tokenizer, const JobAsk *ask);
void job_free(Job *job);              // after scheduler_finish, or where it was never submitted
// The engine's thread: takes a drawn token, whose row of logits (vocab of them; NULL where ask.n_top is −1) it was drawn
// from; returns what this does to the job. Call under the lock.
JobEnd job_take(Job *job, int32_t token, const float *logits, int64_t vocab);
// The engine's thread: which tokens may come next. JOB_RUNS: those of *mask ([vocabulary], 0 forbids), or any where it is
// NULL. Else the answer is complete, or cannot go on, and *err says why.
JobEnd job_mask(Job *job, const uint8_t **mask, Error *err);
// A drawn token moves on what the masks depend on. Not under the lock.
void job_follow(Job *job, int32_t token);
// What was held back, when the job has ended. Call under the lock.
void job_flush(Job *job);
// How many tokens, from the first on, lie in the text that is out.
size_t job_tokens_out(const Job *job);
int64_t job_thought_tokens(const Job *job);   // of the tokens, when it is done
const char *job_end_name(JobEnd end); // for metrics and logs: stop, length, cancelled …

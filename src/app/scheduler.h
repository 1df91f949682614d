// scheduler: the one thread that computes, and the queue before it.
// In: jobs. Out: their answers, many at a time: each turn of the loop draws one token for every sequence that has its
// prompt behind it, in one step of the model, and evaluates pieces of prompts beside, short ones first (prompt_turn).
// Invariant: what an answer is depends on its job alone, not on what runs beside it or lay in the cache (on the CPU bit by
// bit). A job whose asker went away leaves its slot before the next turn.
// Example: TRY(scheduler_open(&s, &loaded, tokenizer, &options, err)); scheduler_submit(s, jobs, n); … scheduler_close(s)
#pragma once
#include <pthread.h>
#include "app/job.h"
#include "app/loaded.h"

typedef struct Scheduler Scheduler;

typedef struct SchedulerOptions {
    int most_queued;                  // jobs that may wait
    SamplingOptions sampling;         // as most answers are drawn: compiled first
    bool finds_text;                  // the cache by text too: a prompt may be evaluated in other tokens than its own
    const char *cache_path;           // where evaluated prompts are kept between runs; NULL: nowhere
    uint64_t cache_key;
    size_t cache_most_bytes;
} SchedulerOptions;

// What happened since the start. Seconds are those of the engine's work.
typedef struct SchedulerTotals {
    int64_t prompt_tokens, cached_tokens, generated_tokens;
    int64_t steps, step_rows;         // of generation: step_rows / steps is how many answers shared a step
    double prompt_s, generation_s;
    int64_t ended[JOB_FAILED + 1];
    int queued, running, slots;
    int64_t pages, pages_known;
} SchedulerTotals;

// The model must have been loaded with as many slots as are to run at once. tokenizer: of the same file.
bool scheduler_open(Scheduler **scheduler, const Loaded *loaded, const SchedulerOptions *options, Error *err) MUST_CHECK;
// Restores the cache and starts the thread: from now on jobs are taken, which wait for what they need compiled. Where the
// device allows it, all that answers may need is compiled beside them, what the first ones need first.
bool scheduler_start(Scheduler *scheduler, Error *err) MUST_CHECK;
typedef enum SchedulerState { SCHEDULER_LOADS, SCHEDULER_READY, SCHEDULER_FAILED } SchedulerState;
// LOADS: what the first answer needs is being compiled. FAILED: it cannot be (err says why; may be NULL); the process has then
// been sent SIGTERM.
SchedulerState scheduler_state(Scheduler *scheduler, Error *err);
// What is asked for from now on is refused; what runs has grace_s seconds to end, then is cancelled. Saves the cache.
void scheduler_end(Scheduler *scheduler, double grace_s);      // NULL is allowed, here and below
void scheduler_close(Scheduler *scheduler);                    // when nobody asks for anything any more

typedef enum Submitted { SUBMITTED, SUBMIT_FULL, SUBMIT_CLOSING } Submitted;
// All of them or none. Jobs must stay where they are until scheduler_finish.
Submitted scheduler_submit(Scheduler *scheduler, Job *jobs, int n);
// Cancels those that still run, and returns when the engine has let go of all.
void scheduler_finish(Scheduler *scheduler, Job *jobs, int n);
pthread_mutex_t *scheduler_lock(Scheduler *scheduler);      // of what jobs have behind the lock
// Waits for ask.news under the lock, at most so long. False: the time is over.
bool scheduler_wait(Scheduler *scheduler, pthread_cond_t *news, double seconds);
void news_init(pthread_cond_t *news);                       // a condition that scheduler_wait can wait for
SchedulerTotals scheduler_totals(Scheduler *scheduler);
// Seconds until a place in the queue is likely to be free, at least 1.
int scheduler_retry_s(Scheduler *scheduler);

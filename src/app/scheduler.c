// scheduler: see scheduler.h. One turn: let go of what ended or was left → fill free slots from the queue → a step of
// generation for all that are ready → pieces of prompts (prompt_turn).
// Invariant: the lock is never held while the model computes.
// Example: two answers under way, a third with a prompt of 500 tokens: step of 2 rows, 128 prompt tokens, step of 2 rows, …
#include "app/scheduler.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "app/prompt_turn.h"
#include "app/terminal.h"
#include "base/os.h"
#include "base/settings.h"

enum { TURN_BESIDE = 128, TURN_ALONE = 256 };     // prompt tokens between two steps of generation; where there are none

typedef struct Slot {
    Session *session;
    Job *job;                     // NULL: free
} Slot;

struct Scheduler {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    const Loaded *loaded;
    SchedulerOptions options;
    Arena *arena;
    PagePool *pool;
    Slot *slots;
    int n_slots;
    Job *first, *last;            // the queue
    int n_queued;
    bool is_closing, is_ended;
    float *logits;                // [vocab]
    SchedulerTotals totals;
    Thread *thread, *preparer;
    SchedulerState state;
    Error error;                  // of SCHEDULER_FAILED
    atomic_bool is_stopped;       // nothing more is prepared
};

// ---- time and locks

void news_init(pthread_cond_t *news) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(news, &attributes);
    pthread_condattr_destroy(&attributes);
}

pthread_mutex_t *scheduler_lock(Scheduler *s) {
    return &s->lock;
}

bool scheduler_wait(Scheduler *s, pthread_cond_t *news, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double whole = (double)(long)seconds;
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)((seconds - whole) * 1e9);
    if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
    return pthread_cond_timedwait(news, &s->lock, &until) != ETIMEDOUT;
}

// ---- the end of a job (all under the lock)

static void job_end(Scheduler *s, Job *job, JobEnd end, const Error *err) {
    job->end = end;
    job->ended_us = time_us();
    if (err) job->error = *err;
    if (end != JOB_CANCELLED) job_flush(job);
    job->is_done = true;
    s->totals.ended[end]++;
    s->totals.generated_tokens += job->generated_tokens;
    pthread_cond_broadcast(job->ask.news);
}

static void slot_free(Scheduler *s, Slot *slot, JobEnd end, const Error *err) {
    Job *job = slot->job;
    if (!job) return;
    slot->job = NULL;
    job_end(s, job, end, err);
}

// Who asked has closed the connection: an end of file waits to be read. A socket of a running request is open: its server
// closes it only afterwards.
static bool asker_is_gone(const Job *job) {
    char byte;
    if (job->ask.fd < 0) return false;
    ssize_t n = recv(job->ask.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

// JOB_RUNS where nothing stands against going on.
static JobEnd job_obstacle(const Job *job, uint64_t now_us) {
    if (job->is_cancelled || asker_is_gone(job)) return JOB_CANCELLED;
    if (job->ask.deadline_us && now_us > job->ask.deadline_us) return JOB_TIMED_OUT;
    return JOB_RUNS;
}

static void leavers_drop(Scheduler *s) {
    uint64_t now = time_us();
    for (int i = 0; i < s->n_slots; i++) {
        JobEnd end = s->slots[i].job ? job_obstacle(s->slots[i].job, now) : JOB_RUNS;
        if (end != JOB_RUNS) slot_free(s, &s->slots[i], end, NULL);
    }
    Job **link = &s->first;
    s->last = NULL;
    while (*link) {
        Job *job = *link;
        JobEnd end = job_obstacle(job, now);
        if (end == JOB_RUNS) {
            s->last = job;
            link = &job->next;
            continue;
        }
        *link = job->next;
        s->n_queued--;
        job_end(s, job, end, NULL);
    }
}

// ---- the beginning of a job

static Text piece_of(const void *context, int32_t token, bool *is_special) {
    const Tokenizer *tokenizer = context;
    *is_special = tokenizer_is_special(tokenizer, token) || tokenizer_is_end(tokenizer, token);
    return tokenizer_decode_piece(tokenizer, token);
}

// --cache-text: where the cache knows the beginning of the prompt's text in other tokens, the prompt goes on with those.
static void prompt_match_text(Scheduler *s, Job *job) {
    int64_t asked, context = model_context(s->loaded->model);
    int32_t *tokens = arena_new(job->scratch, (size_t)context * sizeof *tokens);
    int64_t known = pages_find_text(s->pool, job->ask.prompt, job->ask.n_prompt, piece_of, job->tokenizer, tokens, &asked);
    int64_t rest = job->ask.n_prompt - asked;
    if (known == 0 || known + rest >= context) return;
    for (int64_t i = 0; i < known && job->by_text == 0; i++)
        if (i >= asked || tokens[i] != job->ask.prompt[i]) job->by_text = known - i;
    memcpy(tokens + known, job->ask.prompt + asked, (size_t)rest * sizeof *tokens);
    job->ask.prompt = tokens;
    job->ask.n_prompt = known + rest;
}

static bool prompt_place(Scheduler *s, const Slot *slot, Job *job, Error *err) {
    if (s->options.finds_text) prompt_match_text(s, job);
    return session_begin(slot->session, job->ask.prompt, job->ask.n_prompt, err);
}

// Puts the job's history and sampling into the slot's session. Not under the lock: pages may be copied.
static bool job_place(Scheduler *s, Slot *slot, Job *job, Error *err) {
    TRY(session_set_sampling(slot->session, &job->ask.sampling, err));
    TRY(session_set_bias(slot->session, job->ask.biases, job->ask.n_biases, err));
    session_set_breakers(slot->session, &job->ask.breakers);
    session_set_allowed(slot->session, NULL);
    return prompt_place(s, slot, job, err);
}

static Slot *slot_find_free(Scheduler *s) {
    for (int i = 0; i < s->n_slots; i++)
        if (!s->slots[i].job) return &s->slots[i];
    return NULL;
}

// An answer of no tokens needs no model.
static JobEnd job_needs_nothing(const Job *job) {
    return job->ask.most_tokens == 0 ? JOB_LENGTH : JOB_RUNS;
}

// Moves jobs from the queue to free slots. Called and returns with the lock.
static void slots_fill(Scheduler *s) {
    Slot *slot;
    while (s->first && (slot = slot_find_free(s)) != NULL) {
        Job *job = s->first;
        Error err = {0};
        s->first = job->next;
        if (!s->first) s->last = NULL;
        s->n_queued--;
        job->begun_us = time_us();
        if (job_needs_nothing(job) != JOB_RUNS) {
            job_end(s, job, job_needs_nothing(job), NULL);
            continue;
        }
        slot->job = job;
        job->slot = (int)(slot - s->slots);
        pthread_mutex_unlock(&s->lock);
        bool ok = job_place(s, slot, job, &err);
        pthread_mutex_lock(&s->lock);
        if (!ok) {
            slot_free(s, slot, JOB_FAILED, &err);
            continue;
        }
        if (session_room(slot->session) <= 0) {
            slot_free(s, slot, JOB_CONTEXT, NULL);
            continue;
        }
        job->reused_tokens = session_reused(slot->session);
        s->totals.prompt_tokens += job->ask.n_prompt;
        s->totals.cached_tokens += job->reused_tokens;
    }
}

// ---- generation

// What the job lets come next. JOB_RUNS: go on.
static JobEnd mask_set(Slot *slot, Error *err) {
    const uint8_t *mask;
    JobEnd end = job_mask(slot->job, &mask, err);
    if (end == JOB_RUNS) session_set_allowed(slot->session, mask);
    return end;
}

static void token_take(Scheduler *s, Slot *slot, int row, int32_t token, const Error *error) {
    Job *job = slot->job;
    Model *model = s->loaded->model;
    const float *logits = NULL;
    if (token >= 0 && job->ask.n_top >= 0) {
        model_logits(model, row, s->logits);
        logits = s->logits;
    }
    if (token >= 0) job_follow(job, token);
    pthread_mutex_lock(&s->lock);
    if (!job->first_us) job->first_us = time_us();
    JobEnd end = token < 0 ? JOB_FAILED : job_take(job, token, logits, model_vocab_size(model));
    if (end == JOB_RUNS && session_room(slot->session) <= 0) end = JOB_CONTEXT;
    if (end == JOB_RUNS) pthread_cond_broadcast(job->ask.news);
    else slot_free(s, slot, end, token < 0 ? error : NULL);
    pthread_mutex_unlock(&s->lock);
}

static void rows_step(Scheduler *s, Slot *const *ready, int n) {
    Session *sessions[SESSIONS_AT_ONCE] = {0};
    int32_t tokens[SESSIONS_AT_ONCE];
    Error errors[SESSIONS_AT_ONCE], err = {0};
    for (int i = 0; i < n; i++) sessions[i] = ready[i]->session;
    bool ok = sessions_step(sessions, n, tokens, errors, &err);
    for (int i = 0; i < n; i++) token_take(s, ready[i], i, ok ? tokens[i] : -1, ok ? &errors[i] : &err);
}

// One token for each answer whose prompt is evaluated.
static void answers_step(Scheduler *s) {
    Slot *ready[SESSIONS_AT_ONCE];
    Error err = {0};
    int n = 0;
    for (int i = 0; i < s->n_slots && n < SESSIONS_AT_ONCE; i++) {
        Slot *slot = &s->slots[i];
        if (!slot->job || session_unfilled(slot->session) > 0) continue;
        JobEnd end = mask_set(slot, &err);
        if (end != JOB_RUNS) {
            pthread_mutex_lock(&s->lock);
            slot_free(s, slot, end, end == JOB_FAILED ? &err : NULL);
            pthread_mutex_unlock(&s->lock);
            continue;
        }
        ready[n++] = slot;
    }
    if (n == 0) return;
    uint64_t begin = time_us();
    int steps = 0;
    for (int i = 0, take; i < n; i += take, steps++) {
        take = model_rows_now(s->loaded->model, n - i, true);
        rows_step(s, ready + i, take);
    }
    pthread_mutex_lock(&s->lock);
    s->totals.steps += steps;
    s->totals.step_rows += n;
    s->totals.generation_s += (double)(time_us() - begin) / 1e6;
    pthread_mutex_unlock(&s->lock);
}

static bool fills(const Slot *slot) {
    return slot->job && session_unfilled(slot->session) > 0;
}

// Another slot is about to evaluate what this one needs too (a page of it at least): waiting costs less than doing it twice.
// Only earlier jobs are waited for, so that the earliest always goes on. −1: none.
static int twin_of(const Scheduler *s, int at) {
    const Session *own = s->slots[at].session;
    int64_t cached = session_cached(own);
    for (int i = 0; i < s->n_slots; i++) {
        const Slot *other = &s->slots[i];
        uint64_t begun = s->slots[at].job->begun_us;
        bool is_earlier = i != at && fills(other) && (other->job->begun_us < begun || (other->job->begun_us == begun && i < at));
        if (!is_earlier) continue;
        int64_t n = session_length(own) < session_length(other->session) ? session_length(own) : session_length(other->session);
        int64_t same = 0;
        while (same < n && session_tokens(own)[same] == session_tokens(other->session)[same]) same++;
        if (same >= cached + KV_PAGE) return i;
    }
    return -1;
}

// What others have evaluated since this job got its slot is looked up before its own first piece.
static bool prompt_look_again(Scheduler *s, Slot *slot, Error *err) {
    Job *job = slot->job;
    if (session_cached(slot->session) > session_reused(slot->session)) return true;
    TRY(prompt_place(s, slot, job, err));
    pthread_mutex_lock(&s->lock);
    s->totals.cached_tokens += session_reused(slot->session) - job->reused_tokens;
    job->reused_tokens = session_reused(slot->session);
    pthread_mutex_unlock(&s->lock);
    return true;
}

// Returns whether any answer is being generated.
static bool prompts_wait(const Scheduler *s, WaitingPrompt *waiting) {
    bool is_beside = false;
    for (int i = 0; i < s->n_slots; i++) {
        const Slot *slot = &s->slots[i];
        waiting[i] = (WaitingPrompt){.twin = -1};
        is_beside |= slot->job && !fills(slot);
        if (fills(slot)) waiting[i] = (WaitingPrompt){session_unfilled(slot->session), slot->job->begun_us, twin_of(s, i)};
    }
    return is_beside;
}

static void piece_fill(Scheduler *s, Slot *slot, int64_t take) {
    Error err = {0};
    uint64_t begin = time_us();
    bool ok = prompt_look_again(s, slot, &err) && session_fill(slot->session, take, &err);
    pthread_mutex_lock(&s->lock);
    s->totals.prompt_s += (double)(time_us() - begin) / 1e6;
    if (!ok) slot_free(s, slot, JOB_FAILED, &err);
    pthread_mutex_unlock(&s->lock);
}

static void prompts_step(Scheduler *s) {
    WaitingPrompt waiting[SESSIONS_AT_ONCE];
    int at;
    int64_t take;
    PromptTurn turn = prompt_turn(prompts_wait(s, waiting) ? TURN_BESIDE : TURN_ALONE);
    while (prompt_turn_next(&turn, waiting, s->n_slots, &at, &take)) {
        piece_fill(s, &s->slots[at], take);
        (void)prompts_wait(s, waiting);
    }
}

// ---- what is compiled ahead

static void state_set(Scheduler *s, SchedulerState state, const Error *err) {
    pthread_mutex_lock(&s->lock);
    s->state = state;
    if (err) s->error = *err;
    pthread_mutex_unlock(&s->lock);
}

// The least that any answer needs: single rows, and how tokens are usually drawn.
static bool first_prepare(const Scheduler *s, Error *err) {
    Model *model = s->loaded->model;
    SamplingOptions greedy = s->options.sampling;
    greedy.temperature = 0;
    TRY(model_prepare_rows(model, 1, true, err));
    TRY(model_prepare_draws(model, &s->options.sampling, err));
    return model_prepare_draws(model, &greedy, err);
}

static bool rows_prepare(const Scheduler *s, int64_t n, bool want_logits, Error *err) {
    return atomic_load(&s->is_stopped) || model_prepare_rows(s->loaded->model, (int)n, want_logits, err);
}

// In the order in which it pays: whole pieces of prompts; all slots at once; then what saves padding.
static bool rest_prepare(const Scheduler *s, Error *err) {
    int64_t piece = model_context(s->loaded->model), chunk = model_chunk(s->loaded->model);
    if (piece > TURN_ALONE) piece = TURN_ALONE;
    if (piece > chunk) piece = chunk;
    TRY(rows_prepare(s, piece, false, err));
    TRY(rows_prepare(s, s->n_slots, true, err));
    for (int64_t n = piece / 4; n > 1; n /= 4) TRY(rows_prepare(s, n, false, err));
    for (int n = 2; n < s->n_slots; n *= 2) TRY(rows_prepare(s, n, true, err));
    return true;
}

// A server that cannot answer ends, so that who started it hears of it.
static void preparer_main(void *opaque) {
    Scheduler *s = opaque;
    Error err = {0};
    Progress progress = {0};
    progress_compiling(&progress);
    bool is_ready = first_prepare(s, &err);
    if (is_ready) state_set(s, SCHEDULER_READY, NULL);
    bool ok = is_ready && rest_prepare(s, &err);
    progress_end(&progress);
    if (ok) model_avoid_compiling(s->loaded->model, false);
    if (ok || atomic_load(&s->is_stopped)) return;
    if (is_ready) {                                    // answers go on with what there is
        error_print("serve", &err);
        return;
    }
    state_set(s, SCHEDULER_FAILED, &err);
    kill(getpid(), SIGTERM);
}

static bool prepares_beside(const Scheduler *s) {
    return engine_device(s->loaded->engine)->compiles_beside_runs && setting_int(SETTING_JIT);
}

SchedulerState scheduler_state(Scheduler *s, Error *err) {
    pthread_mutex_lock(&s->lock);
    SchedulerState state = s->state;
    if (err) *err = s->error;
    pthread_mutex_unlock(&s->lock);
    return state;
}

// ---- the thread

static bool is_busy(const Scheduler *s) {
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].job) return true;
    return s->first != NULL;
}

static void scheduler_main(void *opaque) {
    Scheduler *s = opaque;
    if (!s->preparer) preparer_main(s);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        leavers_drop(s);
        slots_fill(s);
        if (!is_busy(s)) {
            pthread_cond_broadcast(&s->idle);
            if (s->is_closing) break;
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        answers_step(s);
        prompts_step(s);
        pthread_mutex_lock(&s->lock);
    }
    s->is_ended = true;
    pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
}

// ---- from other threads

Submitted scheduler_submit(Scheduler *s, Job *jobs, int n) {
    Submitted result = SUBMITTED;
    pthread_mutex_lock(&s->lock);
    int n_free = 0;
    for (int i = 0; i < s->n_slots; i++) n_free += !s->slots[i].job;
    if (s->is_closing) result = SUBMIT_CLOSING;
    else if (s->n_queued + n > s->options.most_queued + n_free) result = SUBMIT_FULL;
    for (int i = 0; i < n && result == SUBMITTED; i++) {
        Job *job = &jobs[i];
        job->asked_us = time_us();
        job->is_submitted = true;
        job->next = NULL;
        if (s->last) s->last->next = job;
        else s->first = job;
        s->last = job;
        s->n_queued++;
    }
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    return result;
}

void scheduler_finish(Scheduler *s, Job *jobs, int n) {
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < n; i++) jobs[i].is_cancelled = true;
    for (int i = 0; i < n; i++)
        while (jobs[i].is_submitted && !jobs[i].is_done) pthread_cond_wait(jobs[i].ask.news, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

SchedulerTotals scheduler_totals(Scheduler *s) {
    pthread_mutex_lock(&s->lock);
    SchedulerTotals totals = s->totals;
    totals.queued = s->n_queued;
    totals.slots = s->n_slots;
    for (int i = 0; i < s->n_slots; i++) totals.running += s->slots[i].job != NULL;
    totals.pages = model_pages(s->loaded->model);
    totals.pages_known = pages_known(s->pool);
    pthread_mutex_unlock(&s->lock);
    return totals;
}

// A job's mean time on the engine so far, times how many stand before each slot.
int scheduler_retry_s(Scheduler *s) {
    SchedulerTotals t = scheduler_totals(s);
    int64_t ended = 0;
    for (int i = 0; i <= JOB_FAILED; i++) ended += t.ended[i];
    double each = ended ? (t.prompt_s + t.generation_s) / (double)ended : 1, wait = each * (double)t.queued;
    return wait < 1 ? 1 : wait > 600 ? 600 : (int)wait;
}

// ---- life

static bool sessions_open(Scheduler *s, Error *err) {
    SamplingOptions plain = sampling_defaults();
    for (int i = 0; i < s->n_slots; i++) {
        TRY(session_open(&s->slots[i].session, s->loaded->model, i, &plain, err));
        session_share(s->slots[i].session, s->pool);
    }
    return true;
}

static void cache_restore(Scheduler *s) {
    Error err = {0};
    const char *path = s->options.cache_path;
    if (path && file_exists(path) && !pages_load(s->pool, path, s->options.cache_key, &err)) error_print("serve", &err);
}

static void scheduler_free(Scheduler *s) {
    for (int i = 0; i < s->n_slots; i++) session_close(s->slots[i].session);
    pages_destroy(s->pool);
    arena_destroy(s->arena);
}

bool scheduler_open(Scheduler **out, const Loaded *loaded, const SchedulerOptions *options, Error *err) {
    Arena *arena = arena_create();
    Scheduler *s = arena_new(arena, sizeof *s);
    s->arena = arena;
    s->loaded = loaded;
    s->options = *options;
    s->n_slots = model_slots(loaded->model);
    s->pool = pages_create(loaded->model);
    s->slots = arena_new(arena, (size_t)s->n_slots * sizeof *s->slots);
    s->logits = arena_new(arena, (size_t)model_vocab_size(loaded->model) * sizeof *s->logits);
    pthread_mutex_init(&s->lock, NULL);
    news_init(&s->work);
    news_init(&s->idle);
    *out = NULL;
    if (!sessions_open(s, err)) {
        scheduler_free(s);
        return false;
    }
    *out = s;
    return true;
}

bool scheduler_start(Scheduler *s, Error *err) {
    cache_restore(s);
    if (prepares_beside(s)) {
        model_avoid_compiling(s->loaded->model, true);
        s->preparer = thread_start(preparer_main, s);
        if (!s->preparer) return fail(err, LATHE_IO, "cannot start a thread");
    }
    s->thread = thread_start(scheduler_main, s);
    return s->thread || fail(err, LATHE_IO, "cannot start a thread");
}

// Whoever compiles stops: the program ends.
static void compiling_stop(Scheduler *s) {
    atomic_store(&s->is_stopped, true);
    processes_stop();
}

void scheduler_end(Scheduler *s, double grace_s) {
    if (!s) return;
    uint64_t until = time_us() + (uint64_t)(grace_s * 1e6);
    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    pthread_cond_signal(&s->work);
    if (!is_busy(s)) compiling_stop(s);
    while (s->thread && !s->is_ended && time_us() < until) scheduler_wait(s, &s->idle, (double)(until - time_us()) / 1e6);
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].job) s->slots[i].job->is_cancelled = true;
    for (Job *job = s->first; job; job = job->next) job->is_cancelled = true;
    pthread_mutex_unlock(&s->lock);
    compiling_stop(s);
    thread_join(s->thread);
    thread_join(s->preparer);
    Error err = {0};
    if (s->options.cache_path && s->thread && pages_known(s->pool) &&
        !pages_save(s->pool, s->options.cache_path, s->options.cache_key, s->options.cache_most_bytes, &err))
        error_print("serve", &err);
}

void scheduler_close(Scheduler *s) {
    if (s) scheduler_free(s);
}

// scheduler: see scheduler.h. One turn: let go of what ended or was left → fill free slots from the queue → a step of
// generation for all that are ready → a piece of the next prompt.
// Invariant: the lock is never held while the model computes.
// Example: two answers under way, a third with a prompt of 500 tokens: step of 2 rows, 64 prompt tokens, step of 2 rows, …
#include "app/scheduler.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "app/terminal.h"
#include "base/os.h"

enum { PIECE_BESIDE = 64, PIECE_ALONE = 256 };    // prompt tokens between two looks at everything else

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
    int n_slots, last_filled;
    Job *first, *last;            // the queue
    int n_queued;
    bool is_closing, is_ended;
    float *logits;                // [vocab]
    SchedulerTotals totals;
    Thread *thread;
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

// Puts the job's history and sampling into the slot's session. Not under the lock: pages may be copied.
static bool job_place(Slot *slot, Job *job, Error *err) {
    TRY(session_set_sampling(slot->session, &job->ask.sampling, err));
    TRY(session_set_bias(slot->session, job->ask.biases, job->ask.n_biases, err));
    session_set_breakers(slot->session, &job->ask.breakers);
    session_set_allowed(slot->session, NULL);
    return session_begin(slot->session, job->ask.prompt, job->ask.n_prompt, err);
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
        bool ok = job_place(slot, job, &err);
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

// One token for each answer whose prompt is evaluated.
static void answers_step(Scheduler *s) {
    Slot *ready[SESSIONS_AT_ONCE];
    Session *sessions[SESSIONS_AT_ONCE];
    int32_t tokens[SESSIONS_AT_ONCE];
    Error errors[SESSIONS_AT_ONCE], err = {0};
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
        ready[n] = slot;
        sessions[n++] = slot->session;
    }
    if (n == 0) return;
    uint64_t begin = time_us();
    bool ok = sessions_step(sessions, n, tokens, errors, &err);
    for (int i = 0; i < n; i++) token_take(s, ready[i], i, ok ? tokens[i] : -1, ok ? &errors[i] : &err);
    pthread_mutex_lock(&s->lock);
    s->totals.steps++;
    s->totals.step_rows += n;
    s->totals.generation_s += (double)(time_us() - begin) / 1e6;
    pthread_mutex_unlock(&s->lock);
}

static bool fills(const Slot *slot) {
    return slot->job && session_unfilled(slot->session) > 0;
}

// Another slot is about to evaluate what this one needs too (a page of it at least): waiting costs less than doing it twice.
// Only earlier jobs are waited for, so that the earliest always goes on.
static bool waits_for_twin(const Scheduler *s, int at) {
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
        if (same >= cached + KV_PAGE) return true;
    }
    return false;
}

// What others have evaluated since this job got its slot is looked up before its own first piece.
static bool prompt_look_again(Scheduler *s, Slot *slot, Error *err) {
    Job *job = slot->job;
    if (session_cached(slot->session) > session_reused(slot->session)) return true;
    TRY(session_begin(slot->session, job->ask.prompt, job->ask.n_prompt, err));
    pthread_mutex_lock(&s->lock);
    s->totals.cached_tokens += session_reused(slot->session) - job->reused_tokens;
    job->reused_tokens = session_reused(slot->session);
    pthread_mutex_unlock(&s->lock);
    return true;
}

// One piece of one prompt; prompts take turns.
static void prompt_step(Scheduler *s) {
    int n_busy = 0, at = -1;
    for (int k = 1; k <= s->n_slots; k++) {
        int i = (s->last_filled + k) % s->n_slots;
        n_busy += s->slots[i].job != NULL;
        if (at < 0 && fills(&s->slots[i]) && !waits_for_twin(s, i)) at = i;
    }
    if (at < 0) return;
    Error err = {0};
    uint64_t begin = time_us();
    s->last_filled = at;
    bool ok = prompt_look_again(s, &s->slots[at], &err) &&
              session_fill(s->slots[at].session, n_busy > 1 ? PIECE_BESIDE : PIECE_ALONE, &err);
    pthread_mutex_lock(&s->lock);
    s->totals.prompt_s += (double)(time_us() - begin) / 1e6;
    if (!ok) slot_free(s, &s->slots[at], JOB_FAILED, &err);
    pthread_mutex_unlock(&s->lock);
}

// ---- the thread

static bool is_busy(const Scheduler *s) {
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].job) return true;
    return s->first != NULL;
}

static void scheduler_main(void *opaque) {
    Scheduler *s = opaque;
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
        prompt_step(s);
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

// One step of every number of rows that can occur, for prompts and for answers, so that no answer waits for a compiler.
bool scheduler_start(Scheduler *s, Error *err) {
    Model *model = s->loaded->model;
    int32_t zeros[MODEL_CHUNK], slots[MODEL_CHUNK], positions[MODEL_CHUNK], token;
    SamplingOptions greedy = sampling_defaults(), usual = sampling_defaults();
    Progress progress = {0};
    greedy.temperature = 0;
    progress_compiling(&progress);
    for (int i = 0; i < MODEL_CHUNK; i++) zeros[i] = 0, slots[i] = 0, positions[i] = i;
    bool ok = true;
    int64_t prompt_rows = model_context(model) < MODEL_CHUNK ? model_context(model) : MODEL_CHUNK;
    for (int n = 1; ok && n < prompt_rows * 4; n *= 4)
        ok = model_forward(model, zeros, positions, slots, n < prompt_rows ? n : (int)prompt_rows, false, err);
    for (int n = 1; ok && n < s->n_slots * 2; n *= 2) {
        int rows = n < s->n_slots ? n : s->n_slots;
        for (int i = 0; i < rows; i++) slots[i] = i, positions[i] = 0;
        ok = model_forward(model, zeros, positions, slots, rows, true, err);
    }
    // A model without sense in its weights may have nothing to draw from: no reason not to start.
    Error ignored = {0};
    if (ok && !model_sample(model, 0, 0, &greedy, 0, &token, &ignored)) token = 0;
    if (ok && !model_sample(model, 0, 0, &usual, 0, &token, &ignored)) token = 0;
    progress_end(&progress);
    if (!ok) return false;
    cache_restore(s);             // not before: the steps above wrote into pages
    s->thread = thread_start(scheduler_main, s);
    return s->thread || fail(err, LATHE_IO, "cannot start a thread");
}

void scheduler_end(Scheduler *s, double grace_s) {
    if (!s) return;
    uint64_t until = time_us() + (uint64_t)(grace_s * 1e6);
    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    pthread_cond_signal(&s->work);
    while (s->thread && !s->is_ended && time_us() < until) scheduler_wait(s, &s->idle, (double)(until - time_us()) / 1e6);
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].job) s->slots[i].job->is_cancelled = true;
    for (Job *job = s->first; job; job = job->next) job->is_cancelled = true;
    pthread_mutex_unlock(&s->lock);
    thread_join(s->thread);
    Error err = {0};
    if (s->options.cache_path && s->thread && pages_known(s->pool) &&
        !pages_save(s->pool, s->options.cache_path, s->options.cache_key, s->options.cache_most_bytes, &err))
        error_print("serve", &err);
}

void scheduler_close(Scheduler *s) {
    if (s) scheduler_free(s);
}

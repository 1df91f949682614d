// model: a plan on an engine and its compiled steps. See model.h.
#include "models/model.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/settings.h"
#include "engine/measure.h"
#include "models/draws.h"

// Compiled numbers of rows. Prompts use every second one, so that a prompt of any length needs few programs.
static const struct {
    int rows;
    bool is_for_prompts;
} row_sizes[] = {
    {1, true},  {2, false}, {4, true},   {8, false},
    {16, true}, {64, true}, {256, true}, {MODEL_ROWS_MAX, true},
};
enum { N_SIZES = sizeof row_sizes / sizeof *row_sizes, FEW_ROWS = MODEL_ROWS_MIXED, ROWS_TOGETHER = 16 };

// Blocks side by side on one engine. Buffers of a plan are its engine's.
typedef struct Part {
    Engine *engine;
    ModelPlan *plan;
    BufferHost host;
    Step *_Atomic steps[N_SIZES][2]; // [.][0]: fills caches only; [.][1]: logits too, or what the next part needs
} Part;
enum { PARTS_MAX = 2 };

struct Model {
    Arena *arena;
    Part parts[PARTS_MAX];
    int n_parts;
    Engine *engine;          // of the last part: logits and sampling
    ModelPlan *plan;         // the last part's; what it says of the model as a whole holds for all
    float *handed;           // [MODEL_ROWS_MAX, dim]: from one part to the next; NULL where there is one
    int chunk;
    pthread_mutex_t lock;            // of the next three, for those who compile steps
    pthread_cond_t compiled;
    bool is_compiling;
    int n_waiting;                   // for a step that they need now
    atomic_bool avoids_compiling;
    int64_t few_logits;      // f32 [FEW_ROWS, vocab]
    int64_t many_logits;     // f32 [MODEL_ROWS_MAX, vocab]; −1 until it is needed
    int64_t last_logits;     // the one that the last step wrote
    Draws draws;
    Step *_Atomic draw_steps[SAMPLING_VARIANTS];   // by SamplingParts
};

// ---------------------------------------------------------------- the engine as a BufferHost

static bool engine_alloc(void *context, size_t nbytes, int64_t *id, Error *err) {
    return engine_buffer_alloc(context, nbytes, id, err);
}
static bool engine_wrap(void *context, const void *data, size_t nbytes, int64_t *id, Error *err) {
    return engine_buffer_wrap(context, data, nbytes, id, err);
}
static bool engine_room(void *context, size_t *free_bytes, const char **name) {
    return engine_memory_room(context, free_bytes, name);
}
static int64_t engine_part(void *context, int64_t whole, size_t offset, size_t nbytes) {
    return engine_buffer_part(context, whole, offset, nbytes);
}
static void *engine_staging(void *context, size_t *nbytes) { return engine_stage(context, nbytes); }
static void engine_write(void *context, int64_t id, size_t offset, const void *data,
                         size_t nbytes) {
    engine_buffer_write(context, id, offset, data, nbytes);
}

// ---------------------------------------------------------------- loading

static bool check_options(const ModelOptions *o, Error *err) {
    if (o->slots < 0 || o->slots > MODEL_SLOTS_MAX)
        return fail(err, LATHE_BAD_REQUEST, "%d slots: 1 to %d can be had", o->slots,
                    MODEL_SLOTS_MAX);
    if (o->chunk < 0 || o->chunk > MODEL_CHUNK_MAX)
        return fail(err, LATHE_BAD_REQUEST, "a chunk of %d rows: 1 to %d can be had", o->chunk,
                    MODEL_CHUNK_MAX);
    return true;
}

// Rows of a prompt at once: as many as keep the target busy, and where experts are chosen so many that each gets a few groups
// of them (nn/grouping); as long as the scores of a chunk's attention stay small, or small against the memory that is left.
static int chunk_of(const Model *m) {
    enum { CHOICES_AN_EXPERT = 16, MOST_SCORES = 48 << 20, BYTES_A_SCORE = 8, SHARE_OF_MEMORY = 8 };
    const ModelConfig *c = m->plan->config;
    const Router *r = &c->router;
    int chunk = MODEL_CHUNK, busy = MODEL_CHUNK_MAX;
    int64_t scores = INT64_MAX;
    for (int i = 0; i < m->n_parts; i++) {
        const Engine *engine = m->parts[i].engine;
        size_t left = 0;
        const char *name;
        int64_t own = MOST_SCORES, rows = engine_target(engine)->prompt_rows;
        if (engine_memory_room(engine, &left, &name)) own = (int64_t)(left / (BYTES_A_SCORE * SHARE_OF_MEMORY));
        if (own < scores) scores = own;
        if (rows < busy) busy = (int)rows;
    }
    for (;;) {
        bool is_wanted = chunk < busy || (chunk < MODEL_CHUNK_GROUPED && chunk * r->used < CHOICES_AN_EXPERT * r->experts);
        if (!is_wanted || 2 * chunk * c->heads * m->plan->context > scores) return chunk;
        chunk *= 2;
    }
}

static void part_add(Model *m, Engine *engine, bool in_place) {
    m->parts[m->n_parts++] = (Part){
        .engine = engine,
        .host = {engine, engine_alloc, engine_wrap, engine_part, engine_write, engine_room, engine_staging,
                 .wants_planes = !in_place && !engine_target(engine)->unaligned_loads &&
                                 (!engine_device(engine)->has_host_memory || engine_device(engine)->runs_nothing),
                 .keeps_nothing = engine_device(engine)->runs_nothing},
    };
}

// Which engines there are, and the positions that fit on all of them.
static bool parts_find(Model *m, const Gguf *gguf, const ModelOptions *options, PlanOptions *plan, Error *err) {
    ModelConfig config;
    part_add(m, m->engine, options->in_place);
    if (!options->rest) return true;
    TRY(config_read(&config, m->arena, gguf, NULL, err));
    if (options->first_blocks >= config.n_blocks) return true;
    if (options->first_blocks < 1)
        return fail(err, LATHE_BAD_REQUEST, "%d blocks for the first device: at least 1, or none of it", options->first_blocks);
    part_add(m, options->rest, options->in_place);
    plan->part = (BlockRange){0, options->first_blocks};
    int64_t fits[PARTS_MAX];
    for (int i = 0; i < m->n_parts; i++) {
        PlanOptions own = *plan;
        if (i > 0) own.part = (BlockRange){plan->part.end, config.n_blocks};
        TRY(plan_context(&fits[i], gguf, &own, &m->parts[i].host, err));
    }
    plan->context = fits[0] < fits[1] ? fits[0] : fits[1];
    return true;
}

// plan->part: of the first.
static bool parts_load(Model *m, const Gguf *gguf, const PlanOptions *plan, Error *err) {
    PlanOptions own = *plan;
    for (int i = 0; i < m->n_parts; i++) {
        Part *part = &m->parts[i];
        own.rows_together = engine_target(part->engine)->group_threads ? 0 : ROWS_TOGETHER;   // rows become lanes, not threads
        TRY(plan_create(&part->plan, m->arena, gguf, &own, &part->host, err));
        own.part = (BlockRange){part->plan->part.end, part->plan->config->n_blocks};
        m->engine = part->engine, m->plan = part->plan;
    }
    if (m->n_parts == 1) return true;
    m->handed = arena_alloc(m->arena, MODEL_ROWS_MAX * (size_t)m->plan->config->dim * sizeof(float));
    return m->handed || fail(err, LATHE_NO_MEMORY, "no memory for the rows that one device hands to another");
}

static bool load(Model *m, const Gguf *gguf, const ModelOptions *options, Error *err) {
    PlanOptions plan = {.is_exact = options->exact,
                        .context = options->context,
                        .cache_type = options->cache_type,
                        .slots = options->slots ? options->slots : 1,
                        .progress = options->progress};
    TRY(check_options(options, err));
    TRY(parts_find(m, gguf, options, &plan, err));
    TRY(parts_load(m, gguf, &plan, err));
    m->chunk = options->chunk ? options->chunk : chunk_of(m);
    size_t row = (size_t)m->plan->config->vocab * sizeof(float);
    TRY(engine_buffer_alloc(m->engine, FEW_ROWS * row, &m->few_logits, err));
    m->many_logits = -1;
    m->last_logits = m->few_logits;
    return draws_open(&m->draws, m->arena, m->engine, m->plan, m->few_logits, err);
}

bool model_load(Model **model, const Gguf *gguf, Engine *engine, const ModelOptions *options,
                Error *err) {
    Arena *arena = arena_create();
    Model *m = arena_new(arena, sizeof *m);
    m->arena = arena;
    m->engine = engine;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->compiled, NULL);
    *model = NULL;
    if (!load(m, gguf, options, err)) {
        model_free(m);
        return false;
    }
    *model = m;
    return true;
}

void model_free(Model *m) {
    if (!m) return;
    draws_close(&m->draws);
    for (int p = 0; p < m->n_parts; p++)
        for (int i = 0; i < N_SIZES; i++)
            for (int k = 0; k < 2; k++)
                if (m->parts[p].steps[i][k]) step_destroy(m->parts[p].steps[i][k]);
    for (int i = 0; i < SAMPLING_VARIANTS; i++)
        if (m->draw_steps[i]) step_destroy(m->draw_steps[i]);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->compiled);
    arena_destroy(m->arena);
}

const ModelConfig *model_config(const Model *m) { return m->plan->config; }
int64_t model_vocab_size(const Model *m) { return m->plan->config->vocab; }
int64_t model_context(const Model *m) { return m->plan->context; }
int64_t model_cache_bytes_per_token(const Model *m) { return plan_cache_bytes_per_token(m->plan); }
int model_chunk(const Model *m) { return m->chunk; }
int model_slots(const Model *m) { return (int)m->plan->slots; }
int model_parts(const Model *m) { return m->n_parts; }
Engine *model_engine(const Model *m, int part) { return m->parts[part].engine; }
int64_t model_bytes_per_token(const Model *m) {
    return weights_bytes_per_token(&m->plan->weights, m->plan->config);
}

static bool caches_hold(const ModelPlan *plan, const CacheBuffers *caches, int64_t buffer) {
    for (int i = plan->part.first; i < plan->part.end; i++)
        for (int k = 0; k < plan->cache_format->n_planes; k++) if (caches[i].plane[k] == buffer) return true;
    return false;
}

const char *model_buffer_role(const Model *m, int part, int64_t buffer) {
    const ModelPlan *plan = m->parts[part].plan;
    for (size_t i = 0; i < plan->weights.n_found; i++)
        if (plan->weights.found[i].weight->buffer == buffer) return plan->weights.found[i].role;
    if (caches_hold(plan, plan->keys, buffer)) return "keys";
    return config_values(plan->config).width && caches_hold(plan, plan->values, buffer) ? "values" : NULL;
}

// ---------------------------------------------------------------- steps

// Stores rows in the first rows of a buffer.
static Tensor keep_rows(Graph *g, int64_t buffer, int64_t capacity, Tensor rows) {
    Tensor all = tensor_buffer(g, buffer, DT_F32, 0, 0, dims(capacity, tensor_size(rows, 1)));
    return tensor_assign(all, tensor_slice(all, 0, 0, tensor_size(rows, 0)), rows);
}

static bool logits_buffer(Model *m, int rows, int64_t *id, Error *err) {
    size_t nbytes = (size_t)MODEL_ROWS_MAX * (size_t)m->plan->config->vocab * sizeof(float);
    if (rows > FEW_ROWS && m->many_logits < 0)
        TRY(engine_buffer_alloc(m->engine, nbytes, &m->many_logits, err));
    *id = rows > FEW_ROWS ? m->many_logits : m->few_logits;
    return true;
}

// The smallest compiled number of rows that holds n.
static int size_for(int n) {
    int i = 0;
    while (row_sizes[i].rows < n) i++;
    return i;
}

// With LATHE_JIT=0 no step is kept: each run schedules its graph anew.
static Step *step_kept(Step *_Atomic *place) {
    Step *step = atomic_load(place);
    if (!step || setting_int(SETTING_JIT)) return step;
    atomic_store(place, NULL);
    step_destroy(step);
    return NULL;
}

typedef struct StepWish StepWish;
struct StepWish {
    Step *_Atomic *place;
    bool (*compile)(Model *m, const StepWish *wish, Step **step, Error *err);
    int which;               // a row of row_sizes, or the parts of a draw
    bool is_wanted;          // logits, or what the next part needs
    const Part *part;        // of rows
};

static bool compile_rows(Model *m, const StepWish *wish, Step **step, Error *err) {
    const Part *part = wish->part;
    int rows = row_sizes[wish->which].rows, capacity = MODEL_ROWS_MAX;
    int64_t buffer = part->plan->hidden_out;
    if (wish->is_wanted && buffer < 0) {
        TRY(logits_buffer(m, rows, &buffer, err));
        if (rows <= FEW_ROWS) capacity = FEW_ROWS;
    }
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    TransformerGraph t;
    transformer_build(g, part->plan, rows, &t);
    Tensor kept = wish->is_wanted ? keep_rows(g, buffer, capacity, t.logits ? t.logits : t.hidden[part->plan->part.end - 1]) : NULL;
    bool is_done = engine_compile(part->engine, wish->is_wanted ? &kept : t.cached, wish->is_wanted ? 1 : t.n_cached, step, err);
    arena_destroy(arena);
    return is_done;
}

// Steps are compiled one at a time. Who needs one now comes before those that only prepare.
static bool step_get(Model *m, const StepWish *wish, bool is_ahead, Step **step, Error *err) {
    if ((*step = step_kept(wish->place)) != NULL) return true;
    pthread_mutex_lock(&m->lock);
    m->n_waiting += !is_ahead;
    while (!atomic_load(wish->place) && (m->is_compiling || (is_ahead && m->n_waiting))) pthread_cond_wait(&m->compiled, &m->lock);
    m->n_waiting -= !is_ahead;
    *step = atomic_load(wish->place);
    bool is_missing = !*step;
    m->is_compiling |= is_missing;
    pthread_mutex_unlock(&m->lock);
    if (!is_missing) return true;
    bool ok = wish->compile(m, wish, step, err);
    pthread_mutex_lock(&m->lock);
    if (ok) atomic_store(wish->place, *step);
    m->is_compiling = false;
    pthread_cond_broadcast(&m->compiled);
    pthread_mutex_unlock(&m->lock);
    return ok;
}

// One program less for a head that is cheap there; what the next part needs is always made.
static bool is_wanted(const Part *part, int size, bool want_logits) {
    return want_logits || row_sizes[size].rows == 1 || part->plan->hidden_out >= 0;
}

static StepWish rows_wish(Part *part, int size, bool want_logits) {
    bool wanted = is_wanted(part, size, want_logits);
    return (StepWish){&part->steps[size][wanted], compile_rows, size, wanted, part};
}

static bool check_rows(int n, Error *err) {
    return (n >= 1 && n <= MODEL_ROWS_MAX) || fail(err, LATHE_BAD_REQUEST, "%d rows: 1 to %d", n, MODEL_ROWS_MAX);
}

bool model_prepare_rows(Model *m, int n, bool want_logits, Error *err) {
    Step *step;
    TRY(check_rows(n, err));
    for (int p = 0; p < m->n_parts; p++) {
        StepWish wish = rows_wish(&m->parts[p], size_for(n), want_logits);
        TRY(step_get(m, &wish, true, &step, err));
    }
    return true;
}

void model_avoid_compiling(Model *m, bool avoids) { atomic_store(&m->avoids_compiling, avoids); }

static bool is_usable(const Model *m, int size, bool want_logits) {
    bool is_there = true;
    for (int p = 0; p < m->n_parts; p++) {
        const Part *part = &m->parts[p];
        is_there &= atomic_load(&part->steps[size][is_wanted(part, size, want_logits)]) != NULL;
    }
    return is_there || !atomic_load(&m->avoids_compiling);
}

// Where n rows are computed: the smallest number of rows that holds them, or a larger one that need not be compiled.
static int size_to_run(const Model *m, int n, bool want_logits) {
    int least = size_for(n), most = want_logits && n <= FEW_ROWS ? size_for(FEW_ROWS) : N_SIZES - 1, i = least;
    while (i <= most && !is_usable(m, i, want_logits)) i++;
    return i <= most ? i : least;
}

int model_rows_now(const Model *m, int n, bool want_logits) {
    enum { MOST_PADDING = 4 };                        // more rows than that cost more than steps one after another
    int size = size_to_run(m, n, want_logits), fewer = size_for(n) - 1;
    if (is_usable(m, size, want_logits) && row_sizes[size].rows <= MOST_PADDING * n) return n;
    while (fewer >= 0 && !is_usable(m, fewer, want_logits)) fewer--;
    return fewer >= 0 ? row_sizes[fewer].rows : n;
}

bool model_step(Model *m, int part, int n, Step **step, Error *err) {
    if (part < 0 || part >= m->n_parts)
        return fail(err, LATHE_BAD_REQUEST, "part %d: 0 to %d", part, m->n_parts - 1);
    TRY(check_rows(n, err));
    StepWish wish = rows_wish(&m->parts[part], size_for(n), true);
    return step_get(m, &wish, false, step, err);
}

// Padding rows belong to the scratch sequence, each at a position (so at a cell) of its own.
typedef struct StepRows { const int32_t *tokens, *positions, *slots; int n; } StepRows;

static void rows_fill(const Part *part, const StepRows *r, int padded, int32_t *token, int32_t *position, int32_t *sequence) {
    int spread = part->plan->context < KV_PAGE ? (int)part->plan->context : KV_PAGE;
    for (int i = 0; i < padded; i++) {
        token[i] = i < r->n ? r->tokens[i] : 0;
        position[i] = i < r->n ? r->positions[i] : i % spread;
        sequence[i] = i < r->n ? r->slots[i] : (int32_t)part->plan->slots;
    }
}

// All that a step of these rows is told, in one copy; draws as well where there are any.
static void inputs_write(const Part *part, const StepRows *rows, int padded, StepInputs *with_draws, int n_draws) {
    if (padded > MODEL_ROWS_MIXED) {
        PromptInputs in;
        rows_fill(part, rows, padded, in.token, in.position, in.sequence);
        engine_buffer_write(part->engine, part->plan->prompt_inputs, 0, &in, offsetof(PromptInputs, sequence) + (size_t)padded * sizeof(int32_t));
        return;
    }
    StepInputs own, *in = n_draws ? with_draws : &own;
    rows_fill(part, rows, padded, in->token, in->position, in->sequence);
    engine_buffer_write(part->engine, part->plan->step_inputs, 0, in, offsetof(StepInputs, draws) + (size_t)n_draws * sizeof *in->draws);
}

// ---------------------------------------------------------------- the form of sums

static bool measure_form(Model *m, Part *part, const StepWish *wish, SumForm form, SumTimes *times, Error *err) {
    static const double GAIN = 0.9;   // so much less time makes up for other bits, in each run perhaps, and for more kernels
    Step *step, *known = atomic_load(wish->place);
    engine_choose_sums(part->engine, form);
    TRY(compile_rows(m, wish, &step, err));
    bool ok = measure_step(step, &times->us[form], err);
    bool is_better = ok && (double)times->us[form] < GAIN * (double)times->us[times->chosen];
    if (is_better) times->chosen = form, atomic_store(wish->place, step);
    step_destroy(is_better ? known : step);
    return ok;
}

bool model_measure_sums(Model *m, SumTimes *times, Error *err) {
    *times = (SumTimes){.chosen = SUMS_ORDERED};
    for (int p = 0; p < m->n_parts; p++) {
        Part *part = &m->parts[p];
        StepWish wish = rows_wish(part, size_for(1), true);
        Step *step;
        if (!engine_may_choose_sums(part->engine) || engine_device(part->engine)->runs_nothing) continue;
        TRY(step_get(m, &wish, false, &step, err));
        if (step_shared_count(step) == 0) continue;
        *times = (SumTimes){.chosen = SUMS_ORDERED};
        inputs_write(part, &(StepRows){.n = 0}, 1, NULL, 0);
        TRY(measure_step(step, &times->us[SUMS_ORDERED], err));
        bool ok = true;
        for (int form = SUMS_ORDERED + 1; form < SUM_FORMS && ok; form++) ok = measure_form(m, part, &wish, (SumForm)form, times, err);
        engine_choose_sums(part->engine, times->chosen);
        TRY(ok);
    }
    return true;
}

// What a part made of n rows becomes what the next one begins with.
static void hand_on(Model *m, const Part *from, const Part *to, int n) {
    size_t nbytes = (size_t)n * (size_t)m->plan->config->dim * sizeof(float);
    engine_buffer_read(from->engine, from->plan->hidden_out, 0, m->handed, nbytes);
    engine_buffer_write(to->engine, to->plan->hidden_in, 0, m->handed, nbytes);
}

static bool check_step(const Model *m, const StepRows *r, int padded, Error *err) {
    for (int i = 0; i < r->n; i++) {
        if (r->tokens[i] < 0 || r->tokens[i] >= m->plan->config->vocab)
            return fail(err, LATHE_BAD_REQUEST,
                        "the token %d is outside of the vocabulary (0 to %lld)", r->tokens[i],
                        (long long)m->plan->config->vocab - 1);
        if (r->positions[i] < 0 || r->positions[i] >= m->plan->context)
            return fail(err, LATHE_BAD_REQUEST,
                        "the position %d is outside of the context of %lld: ask for a larger "
                        "--context",
                        r->positions[i], (long long)m->plan->context);
        if (r->slots[i] < 0 || r->slots[i] >= m->plan->slots)
            return fail(err, LATHE_BAD_REQUEST, "the slot %d is outside of 0 to %lld", r->slots[i],
                        (long long)m->plan->slots - 1);
    }
    for (int i = 1; i < r->n && padded > MODEL_ROWS_MIXED; i++)
        if (r->slots[i] != r->slots[0])
            return fail(err, LATHE_BAD_REQUEST, "%d rows of several slots: at most %d may be, or all of one slot", r->n, MODEL_ROWS_MIXED);
    return true;
}

// Evaluates the rows but for the last part's step, which is left to be run: its inputs are written, with those of the draws.
static bool forward(Model *m, const StepRows *rows, bool want_logits, StepInputs *with_draws, int n_draws, Step **last, Error *err) {
    TRY(check_rows(rows->n, err));
    int size = size_to_run(m, rows->n, want_logits), padded = row_sizes[size].rows;
    TRY(check_step(m, rows, padded, err));
    for (int p = 0; p < m->n_parts; p++) {
        Part *part = &m->parts[p];
        bool is_last = p == m->n_parts - 1;
        StepWish wish = rows_wish(part, size, want_logits);
        TRY(step_get(m, &wish, false, last, err));
        inputs_write(part, rows, padded, with_draws, is_last ? n_draws : 0);
        if (p > 0) hand_on(m, &m->parts[p - 1], part, rows->n);
        if (!is_last) TRY(step_run(*last, err));
    }
    if (want_logits) m->last_logits = padded > FEW_ROWS ? m->many_logits : m->few_logits;
    return true;
}

bool model_forward(Model *m, const int32_t *tokens, const int32_t *positions, const int32_t *slots,
                   int n, bool want_logits, Error *err) {
    Step *last;
    return forward(m, &(StepRows){tokens, positions, slots, n}, want_logits, NULL, 0, &last, err) && step_run(last, err);
}

void model_logits(Model *m, int row, float *out) {
    size_t nbytes = (size_t)m->plan->config->vocab * sizeof(float);
    engine_buffer_read(m->engine, m->last_logits, (size_t)row * nbytes, out, nbytes);
}

// ---------------------------------------------------------------- when numbers go wrong

// 1 where any value of the first n rows is NaN or infinite, i32 [].
static Tensor has_bad_value(Tensor hidden, int n) {
    Tensor x = tensor_abs(tensor_slice(hidden, 0, 0, n));
    Tensor is_fine = tensor_less(x, tensor_const(x->graph, DT_F32, INFINITY));
    return tensor_reduce(MONOID_MAX, 1, tensor_cast(tensor_unary(OP_NOT, is_fine), DT_I32),
                         dims(0, 1));
}

// Runs the rows that still stand in a part's input buffers once more: its first block with a bad value, or its end.
static bool find_bad_block(const Part *part, int n, int *first, Error *err) {
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    TransformerGraph t;
    Step *step = NULL;
    BlockRange blocks = part->plan->part;
    int count = blocks.end - blocks.first;
    transformer_build(g, part->plan, row_sizes[size_for(n)].rows, &t);
    Tensor *flags = arena_new(arena, (size_t)count * sizeof *flags);
    for (int i = 0; i < count; i++) flags[i] = has_bad_value(t.hidden[blocks.first + i], n);
    bool is_done = engine_compile(part->engine, flags, count, &step, err) && step_run(step, err);
    *first = blocks.end;
    for (int i = count; is_done && i-- > 0;) {
        int32_t flag;
        engine_buffer_read(part->engine, step_output_buffer(step, i), 0, &flag, sizeof flag);
        if (flag) *first = blocks.first + i;
    }
    if (step) step_destroy(step);
    arena_destroy(arena);
    return is_done;
}

static bool fail_not_finite(Model *m, int n, Error *err) {
    int blocks = m->plan->config->n_blocks, first = 0;
    for (int p = 0; p < m->n_parts; p++) {
        TRY(find_bad_block(&m->parts[p], n, &first, err));
        if (first < m->parts[p].plan->part.end) break;
    }
    if (first == blocks)
        return fail(err, LATHE_BAD_FILE,
                    "the logits have a NaN or an infinity, which the output head or the last norm "
                    "made: are the file's weights damaged? (lathe check looks)");
    return fail(err, LATHE_BAD_FILE,
                "the logits have a NaN or an infinity; block %d (of 0 to %d) is the first to make "
                "one: are the file's weights damaged? (lathe check looks)",
                first, blocks - 1);
}

static bool row_is_finite(const float *row, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(row[i])) return false;
    return true;
}

// ---------------------------------------------------------------- prompts

// How many of n rows to run next: all that are left where they fill more than half of a compiled number, else the
// largest one that they fill.
static int rows_next(const Model *m, int64_t n, bool want_logits) {
    int most = n < m->chunk ? (int)n : m->chunk, fill = 1;
    for (int i = 0; i < N_SIZES; i++) {
        if (!row_sizes[i].is_for_prompts || !is_usable(m, i, want_logits)) continue;
        if (row_sizes[i].rows >= most) return most * 2 > row_sizes[i].rows ? most : fill;
        fill = row_sizes[i].rows;
    }
    return fill;
}

static bool eval_chunk(Model *m, int slot, const int32_t *tokens, int n, int64_t position,
                       bool want_logits, Error *err) {
    int32_t positions[MODEL_ROWS_MAX], slots[MODEL_ROWS_MAX];
    for (int i = 0; i < n; i++) positions[i] = (int32_t)(position + i), slots[i] = slot;
    return model_forward(m, tokens, positions, slots, n, want_logits, err);
}

static bool check_range(const Model *m, const int32_t *tokens, int64_t n, int64_t position0,
                        Error *err) {
    if (n < 1) return fail(err, LATHE_BAD_REQUEST, "no tokens to evaluate");
    if (position0 < 0 || n > m->plan->context - position0)
        return fail(err, LATHE_BAD_REQUEST,
                    "%lld tokens from position %lld on do not fit the context of %lld: ask for a "
                    "larger --context",
                    (long long)n, (long long)position0, (long long)m->plan->context);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->plan->config->vocab)
            return fail(err, LATHE_BAD_REQUEST,
                        "the token %d is outside of the vocabulary (0 to %lld)", tokens[i],
                        (long long)m->plan->config->vocab - 1);
    return true;
}

bool model_eval(Model *m, int slot, const int32_t *tokens, int64_t n, int64_t position0,
                LogitRows rows, float *logits, Error *err) {
    int64_t vocab = m->plan->config->vocab, done = 0, before_last = rows == LOGITS_LAST ? n - 1 : n;
    TRY(check_range(m, tokens, n, position0, err));
    while (done < before_last) {
        int take = rows_next(m, before_last - done, rows == LOGITS_ALL);
        TRY(eval_chunk(m, slot, tokens + done, take, position0 + done, rows == LOGITS_ALL, err));
        for (int i = 0; i < take && rows == LOGITS_ALL; i++) {
            float *row = logits + (done + i) * vocab;
            model_logits(m, i, row);
            if (!row_is_finite(row, vocab)) return fail_not_finite(m, take, err);
        }
        done += take;
    }
    if (rows != LOGITS_LAST) return true;
    TRY(eval_chunk(m, slot, tokens + n - 1, 1, position0 + n - 1, true, err));
    if (!logits) return true;
    model_logits(m, 0, logits);
    return row_is_finite(logits, vocab) ? true : fail_not_finite(m, 1, err);
}

// ---------------------------------------------------------------- sampling

static bool compile_draw(Model *m, const StepWish *wish, Step **step, Error *err) {
    return draws_compile(&m->draws, wish->which, step, err);
}

static StepWish draw_wish(Model *m, const SamplingOptions *options) {
    int parts = sampling_parts(options);
    return (StepWish){&m->draw_steps[parts], compile_draw, parts, false, NULL};
}

bool model_prepare_draws(Model *m, const SamplingOptions *options, Error *err) {
    Step *step;
    TRY(sampling_check(options, err));
    StepWish wish = draw_wish(m, options);
    return step_get(m, &wish, true, &step, err);
}

static bool result_take(Model *m, int row, const DrawResult *result, int32_t *token, Error *err) {
    if (result->status == SAMPLING_NOT_FINITE) return fail_not_finite(m, row + 1, err);
    if (result->status != SAMPLING_OK)
        return fail(err, LATHE_BAD_REQUEST,
                    "no token is left to choose from: every logit is −∞ or forbidden");
    *token = result->token;
    return true;
}

bool model_sample(Model *m, int row, int slot, const SamplingOptions *options, uint32_t draw,
                  int32_t *token, Error *err) {
    TRY(sampling_check(options, err));
    if (row < 0 || row >= FEW_ROWS || slot < 0 || slot >= m->plan->slots)
        return fail(err, LATHE_BAD_REQUEST, "no row %d of logits or no slot %d", row, slot);
    Step *step;
    StepWish wish = draw_wish(m, options);
    TRY(step_get(m, &wish, false, &step, err));
    DrawInput in = {.row = row, .slot = slot};
    DrawResult result;
    sampling_pack(options, draw, in.params, in.words);
    draws_write(&m->draws, &in, 1);
    TRY(step_run(step, err));
    draws_read(&m->draws, &result, 1);
    return result_take(m, row, &result, token, err);
}

// Draws in an order in which those of one kind stand together.
typedef struct DrawOrder { int at[MODEL_ROWS_MIXED], parts[MODEL_ROWS_MIXED]; } DrawOrder;

static DrawOrder draws_order(const ModelDraw *draws, int n) {
    DrawOrder o = {0};
    for (int i = 0; i < n; i++) {
        int k = i, parts = sampling_parts(draws[i].options);
        for (; k > 0 && o.parts[k - 1] > parts; k--) o.parts[k] = o.parts[k - 1], o.at[k] = o.at[k - 1];
        o.at[k] = i, o.parts[k] = parts;
    }
    return o;
}

static bool check_draws(const StepRows *rows, const ModelDraw *draws, int n, Error *err) {
    if (rows->n > FEW_ROWS || n < 1 || n > FEW_ROWS)
        return fail(err, LATHE_BAD_REQUEST, "%d rows and %d draws: at most %d", rows->n, n, FEW_ROWS);
    for (int i = 0; i < n; i++) {
        if (draws[i].row < 0 || draws[i].row >= rows->n)
            return fail(err, LATHE_BAD_REQUEST, "a draw from row %d of %d", draws[i].row, rows->n);
        TRY(sampling_check(draws[i].options, err));
    }
    return true;
}

bool model_draw(Model *m, const int32_t *tokens, const int32_t *positions, const int32_t *slots, int n, ModelDraw *draws, int n_draws,
                Error *err) {
    StepRows rows = {tokens, positions, slots, n};
    StepInputs in = {0};
    DrawResult results[MODEL_ROWS_MIXED];
    Step *last, *draw, *joined;
    TRY(check_draws(&rows, draws, n_draws, err));
    DrawOrder order = draws_order(draws, n_draws);
    for (int k = 0; k < n_draws; k++) {
        const ModelDraw *d = &draws[order.at[k]];
        in.draws[k].row = d->row, in.draws[k].slot = slots[d->row];
        sampling_pack(d->options, d->number, in.draws[k].params, in.draws[k].words);
    }
    if (!setting_int(SETTING_JIT)) draws_part(&m->draws);
    TRY(forward(m, &rows, true, &in, n_draws, &last, err));
    for (int first = 0, end; first < n_draws; first = end) {
        for (end = first; end < n_draws && order.parts[end] == order.parts[first];) end++;
        StepWish wish = draw_wish(m, draws[order.at[first]].options);
        TRY(step_get(m, &wish, false, &draw, err));
        TRY(draws_join(&m->draws, first == 0 ? last : NULL, draw, first, end - first, &joined, err));
        TRY(step_run(joined, err));
    }
    draws_read(&m->draws, results, n_draws);
    for (int k = 0; k < n_draws; k++) {
        ModelDraw *d = &draws[order.at[k]];
        if (!result_take(m, d->row, &results[k], &d->token, d->error)) d->token = -1;
    }
    return true;
}

void model_set_count(Model *m, int slot, int32_t token, int32_t count) { draws_set_count(&m->draws, slot, token, count); }
void model_set_allowed(Model *m, int slot, const uint8_t *allowed) { draws_set_allowed(&m->draws, slot, allowed); }
bool model_set_bias(Model *m, int slot, int32_t token, float bias, Error *err) {
    return draws_set_bias(&m->draws, slot, token, bias, err);
}

// ---------------------------------------------------------------- pages of the cache

int64_t model_pages(const Model *m) { return m->plan->slots * m->plan->pages_per_slot; }
int64_t model_pages_per_slot(const Model *m) { return m->plan->pages_per_slot; }

void model_set_page(Model *m, int slot, int64_t index, int32_t page) {
    size_t cell = (size_t)(slot * m->plan->pages_per_slot + index);
    for (int p = 0; p < m->n_parts; p++)
        engine_buffer_write(m->parts[p].engine, m->parts[p].plan->page_table, cell * sizeof page, &page, sizeof page);
}

// Visits every plane of every block: where it is, its buffer and the bytes of one page in it.
typedef void PlaneVisit(void *context, Engine *engine, int64_t buffer, size_t page_bytes);

static void planes_visit(const Model *m, PlaneVisit *visit, void *context) {
    const KvShape shapes[] = {config_keys(m->plan->config), config_values(m->plan->config)};
    for (int p = 0; p < m->n_parts; p++) {
        const ModelPlan *plan = m->parts[p].plan;
        const CacheBuffers *const sides[] = {plan->keys, plan->values};
        for (int b = plan->part.first; b < plan->part.end; b++)
            for (int side = 0; side < 2; side++)
                for (int i = 0; shapes[side].width && i < plan->cache_format->n_planes; i++)
                    visit(context, m->parts[p].engine, sides[side][b].plane[i],
                          (size_t)(KV_PAGE * kv_plane_bytes(plan->cache_format, shapes[side], i)));
    }
}

typedef struct PageCopy {
    size_t page;
    uint8_t *out;
    const uint8_t *in;
} PageCopy;

static void page_size_add(void *context, Engine *engine, int64_t buffer, size_t page_bytes) {
    (void)engine, (void)buffer;
    *(size_t *)context += page_bytes;
}

static void plane_read(void *context, Engine *engine, int64_t buffer, size_t page_bytes) {
    PageCopy *copy = context;
    engine_buffer_read(engine, buffer, copy->page * page_bytes, copy->out, page_bytes);
    copy->out += page_bytes;
}

static void plane_write(void *context, Engine *engine, int64_t buffer, size_t page_bytes) {
    PageCopy *copy = context;
    engine_buffer_write(engine, buffer, copy->page * page_bytes, copy->in, page_bytes);
    copy->in += page_bytes;
}

size_t model_page_bytes(const Model *m) {
    size_t nbytes = 0;
    planes_visit(m, page_size_add, &nbytes);
    return nbytes;
}

void model_page_read(Model *m, int32_t page, void *out) {
    PageCopy copy = {(size_t)page, out, NULL};
    planes_visit(m, plane_read, &copy);
}

void model_page_write(Model *m, int32_t page, const void *data) {
    PageCopy copy = {(size_t)page, NULL, data};
    planes_visit(m, plane_write, &copy);
}

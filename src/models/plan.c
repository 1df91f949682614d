// plan: see plan.h.
#include "models/plan.h"

#include <string.h>

#include "base/os.h"

enum { CONTEXT_DEFAULT = 8192, CONTEXT_LEAST = 512, TABLES_MAX = 32 };
static const int64_t SPARE_BYTES = 1LL << 30;
// What a step keeps beside weights and caches on a device with a memory of its own: activations of a chunk, tables, logits.
static const int64_t SCRATCH_BYTES = 256LL << 20;

typedef struct Planner {
    ModelPlan *plan;
    Arena *arena;
    const Gguf *gguf;
    const PlanOptions *options;
    const BufferHost *host;
    Error *err;
} Planner;

// ---------------------------------------------------------------- tables of block types

// A table's address names it; each gets one buffer of the host's, made when a graph first asks.
typedef struct TableBuffers {
    const BufferHost *host;
    struct {
        const int8_t *values;
        int64_t buffer;
    } at[TABLES_MAX];
    int n;
} TableBuffers;

static Tensor table_tensor(void *context, Graph *g, const int8_t *values, int n) {
    TableBuffers *tables = context;
    int i = 0, lo = values[0], hi = values[0];
    Error err = {0};
    while (i < tables->n && tables->at[i].values != values) i++;
    if (i == tables->n) {
        if (i == TABLES_MAX) return uop_poison(g, "more than %d code books", TABLES_MAX);
        if (!tables->host->alloc(tables->host->context, (size_t)n, &tables->at[i].buffer, &err))
            return uop_poison(g, "%s", err.text);
        tables->host->write(tables->host->context, tables->at[i].buffer, 0, values, (size_t)n);
        tables->at[i].values = values;
        tables->n++;
    }
    for (int k = 0; k < n; k++)
        lo = values[k] < lo ? values[k] : lo, hi = values[k] > hi ? values[k] : hi;
    return tensor_buffer(g, tables->at[i].buffer, DT_I8, lo, hi, dims(n));
}

// ---------------------------------------------------------------- sizes

bool plan_cache_format(const KvFormat **out, Arena *arena, const ModelConfig *config, const char *name, bool is_exact,
                       Error *err) {
    const char *automatic = is_exact ? "f32" : "f16";
    const KvFormat *format = kv_format_find(name && *name ? name : automatic);
    if (!format)
        return fail(err, LATHE_BAD_REQUEST, "the cache type '%.32s' is unknown: %s", name, kv_format_names(arena));
    const KvShape shapes[] = {config_keys(config), config_values(config)};
    for (int i = 0; i < 2; i++)
        if (kv_block(format, shapes[i]) < format->block_least)
            return fail(err, LATHE_BAD_REQUEST,
                        "the cache type %s needs heads that divide by %lld, and this model keeps parts of %lld values: "
                        "ask for --cache-type %s",
                        format->name, (long long)format->block_least, (long long)shapes[i].part, automatic);
    *out = format;
    return true;
}

static int64_t mib(int64_t nbytes) { return (nbytes + (1 << 20) - 1) >> 20; }

static int64_t part_weights(const ModelPlan *plan, BlockRange part) { return weights_bytes(&plan->weights, plan->config, part); }

// Of a position in all slots.
static int64_t part_cache_bytes(const ModelPlan *plan, BlockRange part) {
    return plan_cache_bytes_per_token(plan) / plan->config->n_blocks * (part.end - part.first) * plan->slots;
}

// The most first blocks for which so much room is enough.
static int blocks_that_fit(const ModelPlan *plan, int64_t positions, int64_t room) {
    int n = plan->config->n_blocks - 1;
    for (BlockRange part = {0, n}; n > 0; part.end = --n)
        if (part_weights(plan, part) + positions * part_cache_bytes(plan, part) + SCRATCH_BYTES <= room) break;
    return n;
}

// A memory of its own must hold all of it: weights, the caches of so many positions, and what a step needs.
static bool check_room(Planner *p, int64_t positions, int64_t room, const char *name) {
    const ModelPlan *plan = p->plan;
    int64_t weights = part_weights(plan, plan->part), cache = positions * part_cache_bytes(plan, plan->part);
    int64_t needed = weights + cache + SCRATCH_BYTES;
    if (needed <= room) return true;
    int most = plan->part.first == 0 ? blocks_that_fit(plan, positions, room) : 0;
    const char *next = weights + SCRATCH_BYTES < room ? "ask for a smaller --context or for --cache-type q8_0"
                                                        : "take a smaller model or quantisation, or --device cpu";
    return fail(p->err, LATHE_NO_MEMORY,
                "the model needs %lld MiB on %s, of which %lld MiB are free: %lld of weights, %lld of cache for %lld "
                "positions, %lld of scratch; %s%s",
                (long long)mib(needed), name, (long long)(room >> 20), (long long)mib(weights), (long long)mib(cache),
                (long long)(positions * plan->slots), (long long)mib(SCRATCH_BYTES),
                next, most > 0 ? arena_printf(p->arena, ", or leave the last blocks to the CPU: --gpu-layers %d", most) : "");
}

// Positions a sequence. The mapped file counts as memory in use, since every token reads it.
static bool choose_context(Planner *p) {
    ModelPlan *plan = p->plan;
    int64_t most = plan->config->context, wanted = p->options->context;
    int64_t per_position = part_cache_bytes(plan, plan->part), weights = part_weights(plan, plan->part);
    int64_t available = (int64_t)memory_available_bytes(), room = available > SPARE_BYTES ? available - SPARE_BYTES : 0;
    size_t own_bytes = 0;
    const char *name = NULL;
    bool is_own = p->host->room && p->host->room(p->host->context, &own_bytes, &name);
    if (is_own) room = (int64_t)own_bytes, weights += SCRATCH_BYTES;
    if (wanted < 0 || wanted > most)
        return fail(p->err, LATHE_BAD_REQUEST,
                    "a context of %lld tokens is asked for; the model was made for at most %lld",
                    (long long)wanted, (long long)most);
    if (wanted && !is_own && wanted > room / per_position)
        return fail(p->err, LATHE_NO_MEMORY,
                    "a context of %lld positions takes %lld MiB of cache, and %lld MiB can be "
                    "had: ask for a smaller --context",
                    (long long)wanted, (long long)(wanted * per_position >> 20),
                    (long long)(room >> 20));
    int64_t fits = (room - weights) / per_position;
    int64_t chosen = most < CONTEXT_DEFAULT ? most : CONTEXT_DEFAULT;
    if (chosen > fits)
        chosen = fits > CONTEXT_LEAST ? fits : most < CONTEXT_LEAST ? most : CONTEXT_LEAST;
    plan->context = wanted ? wanted : chosen;
    if (is_own) TRY(check_room(p, plan->context, room, name));
    plan->pages_per_slot = (plan->context + KV_PAGE - 1) / KV_PAGE;
    return true;
}

int64_t plan_cache_bytes_per_token(const ModelPlan *plan) {
    return config_cache_bytes(plan->config, plan->cache_format);
}

// ---------------------------------------------------------------- buffers

static bool take(Planner *p, int64_t nbytes, int64_t *id) {
    return p->host->alloc(p->host->context, (size_t)nbytes, id, p->err);
}

static bool make_rope(Planner *p, const RopeSpec *spec, int64_t *cos_id, int64_t *sin_id) {
    int64_t n = p->plan->context * (spec->dim / 2);
    size_t nbytes = (size_t)n * sizeof(float);
    TRY(take(p, (int64_t)nbytes, cos_id));
    TRY(take(p, (int64_t)nbytes, sin_id));
    Arena *scratch = arena_create();
    float *cos_out = arena_alloc(scratch, nbytes), *sin_out = arena_alloc(scratch, nbytes);
    bool is_there = cos_out && sin_out;
    if (is_there) {
        rope_table(spec, p->plan->context, cos_out, sin_out);
        p->host->write(p->host->context, *cos_id, 0, cos_out, nbytes);
        p->host->write(p->host->context, *sin_id, 0, sin_out, nbytes);
    }
    arena_destroy(scratch);
    return is_there ? true
                    : fail(p->err, LATHE_NO_MEMORY,
                           "no memory for rotary tables of %lld positions: ask for a "
                           "smaller --context",
                           (long long)p->plan->context);
}

static bool make_cache(Planner *p, KvShape shape, CacheBuffers *buffers) {
    const ModelPlan *plan = p->plan;
    int64_t cells = (plan->slots * plan->pages_per_slot + 1) * KV_PAGE;
    for (int i = 0; i < plan->cache_format->n_planes; i++)
        TRY(take(p, cells * kv_plane_bytes(plan->cache_format, shape, i), &buffers->plane[i]));
    return true;
}

static bool make_caches(Planner *p) {
    ModelPlan *plan = p->plan;
    const ModelConfig *c = plan->config;
    KvShape values = config_values(c);
    plan->keys = arena_new(p->arena, (size_t)c->n_blocks * sizeof *plan->keys);
    plan->values = arena_new(p->arena, (size_t)c->n_blocks * sizeof *plan->values);
    for (int i = plan->part.first; i < plan->part.end; i++) {
        TRY(make_cache(p, config_keys(c), &plan->keys[i]));
        if (values.width) TRY(make_cache(p, values, &plan->values[i]));
    }
    return true;
}

static bool make_page_table(Planner *p) {
    ModelPlan *plan = p->plan;
    int64_t pages = plan->slots * plan->pages_per_slot, n = pages + plan->pages_per_slot;
    int32_t *table = arena_new(p->arena, (size_t)n * sizeof *table);
    for (int64_t i = 0; i < n; i++) table[i] = (int32_t)(i < pages ? i : pages);
    TRY(take(p, n * (int64_t)sizeof *table, &plan->page_table));
    p->host->write(p->host->context, plan->page_table, 0, table, (size_t)n * sizeof *table);
    return true;
}

// Both kinds of inputs begin with their rows.
static RowBuffers rows_of(Planner *p, int64_t inputs, size_t nbytes) {
    RowBuffers rows;
    rows.token = p->host->part(p->host->context, inputs, 0, nbytes);
    rows.position = p->host->part(p->host->context, inputs, nbytes, nbytes);
    rows.sequence = p->host->part(p->host->context, inputs, 2 * nbytes, nbytes);
    return rows;
}

static bool make_inputs(Planner *p) {
    ModelPlan *plan = p->plan;
    TRY(take(p, sizeof(StepInputs), &plan->step_inputs));
    TRY(take(p, sizeof(PromptInputs), &plan->prompt_inputs));
    plan->step_rows = rows_of(p, plan->step_inputs, MODEL_ROWS_MIXED * sizeof(int32_t));
    plan->prompt_rows = rows_of(p, plan->prompt_inputs, MODEL_ROWS_MAX * sizeof(int32_t));
    int64_t hidden_bytes = MODEL_ROWS_MAX * plan->config->dim * (int64_t)sizeof(float);
    plan->hidden_in = plan->hidden_out = -1;
    if (plan->part.first > 0) TRY(take(p, hidden_bytes, &plan->hidden_in));
    return plan->part.end == plan->config->n_blocks || take(p, hidden_bytes, &plan->hidden_out);
}

// All that can be said before a buffer is there.
static bool plan_sizes(Planner *p) {
    const PlanOptions *o = p->options;
    ModelPlan *plan = p->plan = arena_new(p->arena, sizeof *plan);
    ModelConfig *config = arena_new(p->arena, sizeof *config);
    TRY(config_read(config, p->arena, p->gguf, NULL, p->err));
    plan->config = config;
    plan->is_exact = o->is_exact;
    plan->slots = o->slots;
    plan->rows_together = o->rows_together;
    plan->part = o->part.end ? o->part : (BlockRange){0, config->n_blocks};
    CHECK(plan->part.first >= 0 && plan->part.first < plan->part.end && plan->part.end <= config->n_blocks);
    TRY(weights_find(&plan->weights, p->arena, config, p->gguf, p->err));
    TRY(plan_cache_format(&plan->cache_format, p->arena, config, o->cache_type, plan->is_exact, p->err));
    return choose_context(p);
}

bool plan_context(int64_t *context, const Gguf *gguf, const PlanOptions *options, const BufferHost *host, Error *err) {
    Arena *arena = arena_create();
    Planner p = {NULL, arena, gguf, options, host, err};
    bool ok = plan_sizes(&p);
    if (ok) *context = p.plan->context;
    arena_destroy(arena);
    return ok;
}

bool plan_create(ModelPlan **out, Arena *arena, const Gguf *gguf, const PlanOptions *options,
                 const BufferHost *host, Error *err) {
    Planner p = {NULL, arena, gguf, options, host, err};
    TRY(plan_sizes(&p));
    ModelPlan *plan = p.plan;
    const ModelConfig *config = plan->config;
    TRY(weights_bind(&plan->weights, config, plan->part, host, &options->progress, err));
    TableBuffers *tables = arena_new(arena, sizeof *tables);
    tables->host = host;
    plan->tables = (QuantTables){table_tensor, tables};
    TRY(make_inputs(&p));
    TRY(make_page_table(&p));
    TRY(make_rope(&p, &config->rope, &plan->rope_cos, &plan->rope_sin));
    if (config->window) TRY(make_rope(&p, &config->rope_local, &plan->local_cos, &plan->local_sin));
    TRY(make_caches(&p));
    *out = plan;
    return true;
}

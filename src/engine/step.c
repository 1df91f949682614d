// step: a graph becomes a table of stages that workers run again and again.
// In: outputs of a tensor graph. Out: a Step whose parameters are final addresses.
// Invariant: step_run builds no node and calls no allocator.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/settings.h"
#include "engine/step_table.h"

struct Step {
    Engine *engine;
    Arena *arena;
    Stage *stages;
    Compiled **kernels;
    struct StageBuffers { const int64_t *id; int n; } *buffers;   // those of the engine
    int n_stages, n_distinct, n_outputs, n_shared;
    int64_t *output_ids;
    size_t *output_bytes;
    void *block;               // temporaries
    size_t block_bytes;
};

typedef struct Builder {
    Engine *engine;
    Schedule schedule;
    Canonical *kernels;
    Compiled **compiled;
    int n_kernels;
    int *phase;                // of each kernel: barriers before it
    bool *needs_barrier;
} Builder;

static int64_t bytes_of(void *context, int64_t id) {
    Builder *b = context;
    Temp *temp = schedule_temp_find(&b->schedule, id);
    if (temp) return temp->count * dtype_bytes(temp->dtype);
    return (int64_t)engine_buffer(b->engine, id).nbytes;
}

// Stages need a barrier where they read what an earlier one since the last barrier writes, or write what it touches.
// Several that write one temporary write parts of it that do not overlap.
static void find_barriers(Builder *b, Arena *arena) {
    enum { READ = 1, WRITTEN = 2 };
    Map touched;
    map_init(&touched, arena);
    int phase = 0;
    for (int k = 0; k < b->n_kernels; k++) {
        Canonical *c = &b->kernels[k];
        bool conflict = false;
        for (int i = 0; i < c->n_slots; i++) {
            uintptr_t how = (uintptr_t)map_get(&touched, &c->buffers[i], sizeof c->buffers[i]);
            bool is_temp = schedule_temp_find(&b->schedule, c->buffers[i]);
            conflict |= (how & WRITTEN && (c->is_read[i] || !is_temp)) || (how & READ && c->is_written[i]);
        }
        if (conflict) {
            map_init(&touched, arena);
            phase++;
        }
        for (int i = 0; i < c->n_slots; i++) {
            uintptr_t how = (uintptr_t)map_get(&touched, &c->buffers[i], sizeof c->buffers[i]);
            how |= (c->is_written[i] ? WRITTEN : 0) | (c->is_read[i] ? READ : 0);
            map_put(&touched, &c->buffers[i], sizeof c->buffers[i], (void *)how);
        }
        b->needs_barrier[k] = conflict;
        b->phase[k] = phase;
    }
}

// ---------------------------------------------------------------- the table

// Offsets of the temporaries that are not outputs; outputs get buffers of the engine.
static int64_t place_temps(Builder *b, Arena *arena, int64_t *offset) {
    int n = (int)b->schedule.temps.len;
    int64_t *nbytes = arena_new(arena, (size_t)(n + 1) * sizeof *nbytes);
    int *first = arena_new(arena, (size_t)(n + 1) * sizeof *first), *last = arena_new(arena, (size_t)(n + 1) * sizeof *last);
    for (int i = 0; i < n; i++) first[i] = INT32_MAX, last[i] = -1;
    for (int k = 0; k < b->n_kernels; k++)
        for (int i = 0; i < b->kernels[k].n_slots; i++) {
            int64_t t = b->kernels[k].buffers[i] - FIRST_TEMP_ID;
            if (t < 0 || t >= n) continue;
            if (b->phase[k] < first[t]) first[t] = b->phase[k];
            if (b->phase[k] > last[t]) last[t] = b->phase[k];
        }
    for (int i = 0; i < n; i++) {
        bool unused = last[i] < 0 || b->schedule.temps.at[i].is_output || b->schedule.temps.at[i].stays_zero;
        nbytes[i] = unused ? 0 : bytes_of(b, FIRST_TEMP_ID + i);
        if (unused) first[i] = 1, last[i] = 0;
    }
    return memory_plan(arena, nbytes, first, last, n, offset);
}

static void list_outputs(Builder *b, StepTable *t) {
    for (int64_t i = 0; i < t->n_outputs; i++) {
        int64_t id = b->schedule.output_ids[i], same_as = 0;
        while (b->schedule.output_ids[same_as] != id) same_as++;
        int64_t named = schedule_temp_find(&b->schedule, id) ? TABLE_NEW : id >= 0 ? id : TABLE_NONE;
        t->outputs[i] = (TableOutput){named, id >= 0 ? bytes_of(b, id) : 0, same_as};
    }
}

static Place place_of(const Builder *b, const StepTable *t, const int64_t *offset, int64_t id) {
    if (id < FIRST_TEMP_ID) return (Place){PLACE_BUFFER, id};
    if (b->schedule.temps.at[id - FIRST_TEMP_ID].stays_zero) return (Place){PLACE_BUFFER, b->engine->counters};
    for (int64_t i = 0; i < t->n_outputs; i++) if (b->schedule.output_ids[i] == id) return (Place){PLACE_OUTPUT, i};
    return (Place){PLACE_BLOCK, offset[id - FIRST_TEMP_ID]};
}

static StepTable table_make(Builder *b, Arena *arena, int n_outputs) {
    size_t n = (size_t)b->n_kernels;
    StepTable t = {.n_stages = b->n_kernels, .n_outputs = n_outputs, .n_shared = b->schedule.n_shared};
    t.kernels = arena_new(arena, (n + 1) * sizeof *t.kernels);
    t.stages = arena_new(arena, (n + 1) * sizeof *t.stages);
    t.outputs = arena_new(arena, ((size_t)n_outputs + 1) * sizeof *t.outputs);
    int64_t *offset = arena_new(arena, (b->schedule.temps.len + 1) * sizeof *offset);
    Compiled **distinct = arena_new(arena, (n + 1) * sizeof *distinct);
    t.block_bytes = place_temps(b, arena, offset);
    list_outputs(b, &t);
    for (size_t k = 0; k < n; k++) {
        const Canonical *c = &b->kernels[k];
        int64_t kernel = 0;
        while (kernel < t.n_kernels && distinct[kernel] != b->compiled[k]) kernel++;
        if (kernel == t.n_kernels) {
            distinct[t.n_kernels] = b->compiled[k];
            t.kernels[t.n_kernels++] = (TableKernel){b->compiled[k]->key, (int64_t)b->compiled[k]->key_bytes, c->n_slots, b->compiled[k]->traffic, b->compiled[k]->whole};
        }
        Place *params = arena_new(arena, (size_t)(c->n_slots + 1) * sizeof *params);
        for (int i = 0; i < c->n_slots; i++) params[i] = place_of(b, &t, offset, c->buffers[i]);
        t.stages[k] = (TableStage){kernel, c->tiles, b->needs_barrier[k], params};
    }
    return t;
}

static bool compile_kernels(Builder *b, Arena *arena, Error *err) {
    Engine *e = b->engine;
    KernelList kernels;
    b->schedule.wishes = e->target.tiles;
    b->schedule.local_bytes = e->target.local_bytes;
    b->schedule.local_groups = e->target.group_threads > 1;
    b->schedule.vector_bytes = e->target.dot != DOT_NONE ? e->target.vector_bytes : 0;
    b->schedule.wide_bytes = e->target.dot != DOT_NONE ? e->target.wide_bytes : 0;
    b->schedule.unsigned_dots = e->target.dot == DOT_U8I8;
    b->schedule.sums = e->sums, b->schedule.shares_all = e->shares_all;
    TRY(schedule_kernels(&b->schedule, &kernels, err));
    b->n_kernels = (int)kernels.len;
    b->kernels = arena_new(arena, (kernels.len + 1) * sizeof *b->kernels);
    b->compiled = arena_new(arena, (kernels.len + 1) * sizeof *b->compiled);
    b->phase = arena_new(arena, (kernels.len + 1) * sizeof *b->phase);
    b->needs_barrier = arena_new(arena, (kernels.len + 1) * sizeof *b->needs_barrier);
    Arena *own = NULL;
    bool ok = true;
    for (size_t k = 0; k < kernels.len && ok; k++) {
        if (!own) own = arena_create();
        arena_reset(own);
        if (processes_stopped()) {
            ok = fail(err, LATHE_COMPILE, "kernels are not compiled any more: this program is about to end");
            break;
        }
        Canonical *c = &b->kernels[k];
        *c = canonicalize(own, &kernels.at[k], bytes_of, b);
        int64_t *buffers = arena_copy(arena, c->buffers, (size_t)c->n_slots * sizeof *buffers);
        bool *is_written = arena_copy(arena, c->is_written, (size_t)c->n_slots * sizeof *is_written);
        bool *is_read = arena_copy(arena, c->is_read, (size_t)c->n_slots * sizeof *is_read);
        ok = program_prepare(e, c, &own, &b->compiled[k], err);
        c->buffers = buffers, c->is_written = is_written, c->is_read = is_read;
        if (ok && b->compiled[k]->traffic == 0) {   // equal kernels have buffers of equal length, and so equal traffic
            ArenaMark mark = arena_mark(arena);
            KernelTraffic traffic = kernel_traffic(arena, &kernels.at[k], bytes_of, b);
            int64_t *whole = arena_new(e->arena, (size_t)(c->n_slots + 1) * sizeof *whole);
            for (int i = 0; i < c->n_slots; i++)
                for (int n = 0; n < traffic.n_whole; n++) if (traffic.whole[n] == c->buffers[i]) whole[i] = bytes_of(b, c->buffers[i]);
            b->compiled[k]->traffic = traffic.nbytes, b->compiled[k]->whole = whole;
            arena_release(arena, mark);
        }
    }
    arena_destroy(own);
    TRY(ok);
    find_barriers(b, arena);
    return true;
}

static bool table_schedule(Engine *e, Arena *arena, UOp *const *outputs, int n, StepTable *t, Compiled ***kernels, Error *err) {
    Builder b = {.engine = e};
    e->n_scheduled++;
    TRY(schedule_build(&b.schedule, arena, outputs, n, err));
    TRY(compile_kernels(&b, arena, err));
    *t = table_make(&b, arena, n);
    *kernels = arena_new(arena, (size_t)(t->n_kernels + 1) * sizeof **kernels);
    for (int64_t k = 0; k < t->n_stages; k++) (*kernels)[t->stages[k].kernel] = b.compiled[k];
    return true;
}

// ---------------------------------------------------------------- the step

static bool place_outputs(Step *s, const StepTable *t, Error *err) {
    for (int i = 0; i < s->n_outputs; i++) {
        const TableOutput *o = &t->outputs[i];
        s->output_ids[i] = o->same_as < i ? s->output_ids[o->same_as] : o->id;
        s->output_bytes[i] = (size_t)o->nbytes;
        if (s->output_ids[i] == TABLE_NEW) TRY(engine_buffer_alloc(s->engine, s->output_bytes[i], &s->output_ids[i], err));
    }
    return true;
}

static void *address_of(const Step *s, const Place *p) {
    if (p->kind == PLACE_BLOCK) return (char *)s->block + p->at;
    return engine_buffer(s->engine, p->kind == PLACE_OUTPUT ? s->output_ids[p->at] : p->at).at;
}

// What stage k reads from end to end and none writes: weights, of which small ones come along by themselves.
static void list_reads(Step *s, const StepTable *t, int k) {
    enum { LEAST_BYTES = 4096 };
    const Compiled *c = s->kernels[k];
    Stage *stage = &s->stages[k];
    Span *reads = arena_new(s->arena, (size_t)(c->n_params + 1) * sizeof *reads);
    for (int i = 0; i < c->n_params; i++) {
        const char *at = stage->params[i];
        if (t->stages[k].params[i].kind == PLACE_BUFFER && c->whole[i] >= LEAST_BYTES) reads[stage->n_reads++] = (Span){at, at + c->whole[i]};
    }
    stage->reads = reads;
}

static bool step_fill(Step *s, const StepTable *t, Compiled **kernels, Error *err) {
    TRY(place_outputs(s, t, err));
    s->block_bytes = (size_t)t->block_bytes;
    if (s->block_bytes) s->block = s->engine->device->alloc(s->engine->state, s->block_bytes);
    if (s->block_bytes && !s->block)
        return fail(err, LATHE_NO_MEMORY, "no memory for %zu bytes of activations; use smaller chunks", s->block_bytes);
    s->n_stages = (int)t->n_stages;
    s->n_distinct = (int)t->n_kernels;
    s->n_shared = (int)t->n_shared;
    s->stages = arena_new(s->arena, (size_t)(s->n_stages + 1) * sizeof *s->stages);
    s->kernels = arena_new(s->arena, (size_t)(s->n_stages + 1) * sizeof *s->kernels);
    s->buffers = arena_new(s->arena, (size_t)(s->n_stages + 1) * sizeof *s->buffers);
    for (int k = 0; k < s->n_stages; k++) {
        const TableStage *stage = &t->stages[k];
        Compiled *c = s->kernels[k] = kernels[stage->kernel];
        void **params = arena_new(s->arena, (size_t)(c->n_params + 1) * sizeof *params);
        for (int i = 0; i < c->n_params; i++) params[i] = address_of(s, &stage->params[i]);
        int64_t *ids = arena_new(s->arena, (size_t)(c->n_params + 1) * sizeof *ids);
        for (int i = 0; i < c->n_params; i++)
            if (stage->params[i].kind == PLACE_BUFFER) ids[s->buffers[k].n++] = stage->params[i].at;
        s->buffers[k].id = ids;
        s->stages[k] = (Stage){.program = c->program, .params = params, .tiles = (long)stage->tiles, .needs_barrier = stage->needs_barrier != 0,
                               .nbytes = (size_t)c->traffic};
        list_reads(s, t, k);
    }
    return true;
}

static bool step_make(Step *s, Arena *arena, UOp *const *outputs, Error *err) {
    StepTable table;
    Compiled **kernels;
    for (int i = 0; i < s->n_outputs; i++)
        if (uop_is_poison(outputs[i])) return fail(err, LATHE_BAD_REQUEST, "%s", outputs[i]->message);
    Text subject = table_subject(s->engine, arena, outputs, s->n_outputs);
    if (!table_load(s->engine, arena, subject, s->n_outputs, &table, &kernels)) {
        TRY(table_schedule(s->engine, arena, outputs, s->n_outputs, &table, &kernels, err));
        table_keep(s->engine, arena, subject, &table);
    }
    return program_batch(s->engine, err) && step_fill(s, &table, kernels, err);
}

static bool step_compile(Engine *e, Tensor *outputs, int n, Step **out, Error *err) {
    uint64_t started = time_us();
    Step *s = calloc(1, sizeof *s);
    if (!s) return fail(err, LATHE_NO_MEMORY, "no memory for a step");
    *s = (Step){.engine = e, .arena = arena_create(), .n_outputs = n};
    s->output_ids = arena_new(s->arena, (size_t)n * sizeof *s->output_ids);
    s->output_bytes = arena_new(s->arena, (size_t)n * sizeof *s->output_bytes);
    Arena *arena = arena_create();
    bool ok = step_make(s, arena, outputs, err);
    arena_destroy(arena);
    e->compile_us += time_us() - started;
    if (!ok) {
        step_destroy(s);
        return false;
    }
    *out = s;
    return true;
}

bool engine_compile(Engine *e, Tensor *outputs, int n, Step **out, Error *err) {
    *out = NULL;
    pthread_mutex_lock(&e->compiling);
    bool ok = step_compile(e, outputs, n, out, err);
    pthread_mutex_unlock(&e->compiling);
    return ok;
}

// ---------------------------------------------------------------- several as one

// What stands for an address of the part's step.
static void *moved(const StepPart *part, void *at) {
    const Step *s = part->step;
    char *block = s->block;
    if (block && (char *)at >= block && (char *)at < block + s->block_bytes)
        return part->block < 0 ? at : (char *)engine_buffer(s->engine, part->block).at + ((char *)at - block);
    for (int i = 0; i < part->n_swaps; i++)
        if (at == engine_buffer(s->engine, part->swaps[i].from).at) return engine_buffer(s->engine, part->swaps[i].to).at;
    return at;
}

static int64_t swapped(const StepPart *part, int64_t id) {
    for (int i = 0; i < part->n_swaps; i++) if (part->swaps[i].from == id) return part->swaps[i].to;
    return id;
}

static void stage_copy(Step *s, const StepPart *part, int k, bool needs_barrier) {
    const Step *from = part->step;
    int at = s->n_stages++, n = from->kernels[k]->n_params, n_ids = from->buffers[k].n;
    void **params = arena_new(s->arena, (size_t)(n + 1) * sizeof *params);
    int64_t *ids = arena_new(s->arena, (size_t)(n_ids + 1) * sizeof *ids);
    for (int i = 0; i < n; i++) params[i] = moved(part, from->stages[k].params[i]);
    for (int i = 0; i < n_ids; i++) ids[i] = swapped(part, from->buffers[k].id[i]);
    Span *reads = arena_copy(s->arena, from->stages[k].reads, (size_t)(from->stages[k].n_reads + 1) * sizeof *reads);
    for (int i = 0; i < from->stages[k].n_reads; i++) {
        ptrdiff_t nbytes = reads[i].end - reads[i].at;
        reads[i].at = moved(part, (void *)(uintptr_t)reads[i].at);
        reads[i].end = reads[i].at + nbytes;
    }
    s->kernels[at] = from->kernels[k];
    s->buffers[at].id = ids, s->buffers[at].n = n_ids;
    s->stages[at] = from->stages[k];
    s->stages[at].params = params;
    s->stages[at].reads = reads;
    s->stages[at].needs_barrier = needs_barrier;
}

static int count_distinct(const Step *s) {
    int n = 0;
    for (int k = 0; k < s->n_stages; k++) {
        bool is_new = true;
        for (int j = 0; j < k && is_new; j++) is_new = s->kernels[j] != s->kernels[k];
        n += is_new;
    }
    return n;
}

bool step_join(const StepPart *parts, int n, Step **out, Error *err) {
    *out = NULL;
    Step *s = calloc(1, sizeof *s);
    if (!s) return fail(err, LATHE_NO_MEMORY, "no memory for a step");
    *s = (Step){.engine = parts[0].step->engine, .arena = arena_create()};
    size_t all = 1;
    for (int i = 0; i < n; i++) all += (size_t)parts[i].step->n_stages;
    s->stages = arena_new(s->arena, all * sizeof *s->stages);
    s->kernels = arena_new(s->arena, all * sizeof *s->kernels);
    s->buffers = arena_new(s->arena, all * sizeof *s->buffers);
    for (int first = 0, end; first < n; first = end) {
        const Step *step = parts[first].step;
        CHECK(step->engine == s->engine);
        for (end = first + 1; end < n && parts[end].is_beside; end++) CHECK(parts[end].step == step && parts[end].block >= 0);
        for (int k = 0; k < step->n_stages; k++)
            for (int i = first; i < end; i++) {
                bool is_behind_others = k == 0 && s->n_stages > 0;   // what they leave may be what this one reads
                stage_copy(s, &parts[i], k, i == first && (step->stages[k].needs_barrier || is_behind_others));
            }
    }
    s->n_distinct = count_distinct(s);
    *out = s;
    return true;
}

// ---------------------------------------------------------------- running

bool step_run(Step *s, Error *err) {
    return s->engine->device->run(s->engine->state, s->stages, s->n_stages, NULL, err);
}

bool step_run_timed(Step *s, uint64_t *stage_us, Error *err) {
    StepStats stats = {stage_us};
    return s->engine->device->run(s->engine->state, s->stages, s->n_stages, &stats, err);
}

int64_t step_output_buffer(const Step *s, int output) { return s->output_ids[output]; }
size_t step_block_bytes(const Step *s) { return s->block_bytes; }
size_t step_output_bytes(const Step *s, int output) { return s->output_bytes[output]; }
int step_stage_count(const Step *s) { return s->n_stages; }
int step_distinct_count(const Step *s) { return s->n_distinct; }
int step_shared_count(const Step *s) { return s->n_shared; }

StageInfo step_stage(const Step *s, int i) {
    int index = 0;   // distinct kernels before the first stage of this one
    for (int k = 0; s->kernels[k] != s->kernels[i]; k++) {
        bool seen = false;
        for (int j = 0; j < k && !seen; j++) seen = s->kernels[j] == s->kernels[k];
        index += !seen;
    }
    return (StageInfo){s->kernels[i]->name, s->kernels[i]->source, index, s->stages[i].tiles, s->stages[i].nbytes, s->stages[i].needs_barrier,
                       s->buffers[i].id, s->buffers[i].n};
}

void step_destroy(Step *s) {
    if (!s) return;
    if (s->stages && s->engine->device->forget) s->engine->device->forget(s->engine->state, s->stages);
    if (s->block) s->engine->device->release(s->engine->state, s->block, s->block_bytes);
    arena_destroy(s->arena);
    free(s);
}

// step_table: see step_table.h. All numbers are written with 8 bytes.
#include "engine/step_table.h"

#include <string.h>

#include "base/settings.h"

static void put(TextBuilder *b, int64_t n) { builder_append(b, (const char *)&n, sizeof n); }

// ---------------------------------------------------------------- what decides a table

Text table_subject(Engine *e, Arena *arena, UOp *const *outputs, int n) {
    UOp *sink = uop_sink(outputs[0]->graph, outputs, n);
    UOpList order = uop_toposort(arena, sink);
    UOpMap number;
    uop_map_init(&number, arena);
    uop_map_reserve(&number, order.len);
    TextBuilder b = builder(arena);
    builder_printf(&b, "step %s %s %s%s\n", e->device->name, e->target.name, sum_form_names[e->sums], e->shares_all ? " all" : "");
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        uop_map_put(&number, u, (void *)(uintptr_t)k);
        put(&b, (int64_t)u->op | (int64_t)u->dtype << 8 | (int64_t)u->n_src << 16 | (int64_t)u->n_arg << 32);
        for (int i = 0; i < u->n_src; i++) put(&b, (int64_t)(uintptr_t)uop_map_get(&number, u->src[i]));
        for (int i = 0; i < u->n_arg; i++) put(&b, u->arg[i]);
        put(&b, u->ndim);
        for (int i = 0; i < u->ndim; i++) put(&b, u->shape[i]);
        if (u->op != OP_BUFFER) continue;
        put(&b, (int64_t)engine_buffer(e, u->arg[0]).nbytes);
    }
    return builder_view(&b);
}

// ---------------------------------------------------------------- bytes

void table_keep(Engine *e, Arena *arena, Text subject, const StepTable *t) {
    if (!e->sources) return;
    TextBuilder b = builder(arena);
    put(&b, t->n_kernels), put(&b, t->n_stages), put(&b, t->n_outputs), put(&b, t->block_bytes), put(&b, t->n_shared);
    for (int64_t i = 0; i < t->n_kernels; i++) {
        const TableKernel *k = &t->kernels[i];
        put(&b, k->n_params), put(&b, k->traffic), put(&b, k->key_bytes);
        builder_append(&b, k->key, (size_t)k->key_bytes);
        builder_append(&b, (const char *)k->whole, (size_t)k->n_params * sizeof *k->whole);
    }
    for (int64_t i = 0; i < t->n_stages; i++) {
        const TableStage *s = &t->stages[i];
        put(&b, s->kernel), put(&b, s->tiles), put(&b, s->needs_barrier);
        builder_append(&b, (const char *)s->params, (size_t)t->kernels[s->kernel].n_params * sizeof *s->params);
    }
    builder_append(&b, (const char *)t->outputs, (size_t)t->n_outputs * sizeof *t->outputs);
    source_cache_put(e->sources, arena, source_cache_key(e->sources, arena, subject), builder_view(&b));
}

// What is left to read. Copies are made, as nothing in a file need lie at a multiple of its size.
typedef struct Cursor { Arena *arena; Text rest; bool is_short; } Cursor;

static void *take(Cursor *c, int64_t count, size_t width) {
    if (count < 0 || (uint64_t)count > c->rest.len / width) {
        c->is_short = true;
        return NULL;
    }
    size_t nbytes = (size_t)count * width;
    void *at = arena_copy(c->arena, c->rest.at, nbytes);
    c->rest = (Text){c->rest.at + nbytes, c->rest.len - nbytes};
    return at;
}

static int64_t number(Cursor *c) {
    const int64_t *n = take(c, 1, sizeof *n);
    return n ? *n : -1;
}

static bool place_is_possible(Engine *e, const StepTable *t, const Place *p) {
    int64_t ends[PLACE_KINDS] = {engine_buffer_count(e), t->block_bytes, t->n_outputs};
    return p->kind >= 0 && p->kind < PLACE_KINDS && p->at >= 0 && p->at < ends[p->kind];
}

static bool stages_read(Engine *e, Cursor *c, StepTable *t) {
    for (int64_t i = 0; i < t->n_stages; i++) {
        TableStage *s = &t->stages[i];
        s->kernel = number(c), s->tiles = number(c), s->needs_barrier = number(c);
        if (c->is_short || s->kernel < 0 || s->kernel >= t->n_kernels || s->tiles < 0) return false;
        int64_t n = t->kernels[s->kernel].n_params;
        s->params = take(c, n, sizeof *s->params);
        for (int64_t k = 0; k < n && s->params; k++) if (!place_is_possible(e, t, &s->params[k])) return false;
    }
    return !c->is_short;
}

static bool outputs_read(Engine *e, Cursor *c, StepTable *t) {
    t->outputs = take(c, t->n_outputs, sizeof *t->outputs);
    for (int64_t i = 0; i < t->n_outputs && t->outputs; i++) {
        const TableOutput *o = &t->outputs[i];
        if (o->id < TABLE_NEW || o->id >= engine_buffer_count(e) || o->nbytes < 0 || o->same_as < 0 || o->same_as > i) return false;
    }
    return !c->is_short && c->rest.len == 0;
}

static bool output_has_memory(const StepTable *t, int64_t i) {
    while (t->outputs[i].same_as < i) i = t->outputs[i].same_as;
    return t->outputs[i].id != TABLE_NONE;
}

// What is no value has no place that a kernel could write.
static bool outputs_are_places(const StepTable *t) {
    for (int64_t i = 0; i < t->n_stages; i++) {
        const TableStage *s = &t->stages[i];
        for (int64_t k = 0; k < t->kernels[s->kernel].n_params; k++)
            if (s->params[k].kind == PLACE_OUTPUT && !output_has_memory(t, s->params[k].at)) return false;
    }
    return true;
}

static bool table_read(Engine *e, Arena *arena, Text bytes, int n_outputs, StepTable *t) {
    Cursor c = {arena, bytes, false};
    *t = (StepTable){0};   // one after the other: C leaves open in which order an initialiser would read them
    t->n_kernels = number(&c), t->n_stages = number(&c), t->n_outputs = number(&c), t->block_bytes = number(&c), t->n_shared = number(&c);
    int64_t most = (int64_t)(bytes.len / sizeof(int64_t));   // each takes some numbers
    if (t->n_outputs != n_outputs || t->n_kernels < 0 || t->n_kernels > most || t->n_stages < 0 || t->n_stages > most) return false;
    t->kernels = arena_new(arena, (size_t)(t->n_kernels + 1) * sizeof *t->kernels);
    t->stages = arena_new(arena, (size_t)(t->n_stages + 1) * sizeof *t->stages);
    for (int64_t i = 0; i < t->n_kernels; i++) {
        TableKernel *k = &t->kernels[i];
        k->n_params = number(&c), k->traffic = number(&c), k->key_bytes = number(&c);
        k->key = take(&c, k->key_bytes, 1);
        if (c.is_short || k->n_params < 0 || k->n_params > most) return false;
        k->whole = take(&c, k->n_params, sizeof *k->whole);
    }
    return stages_read(e, &c, t) && outputs_read(e, &c, t) && outputs_are_places(t);
}

bool table_load(Engine *e, Arena *arena, Text subject, int n_outputs, StepTable *t, Compiled ***kernels) {
    Text bytes;
    if (!e->sources || !setting_int(SETTING_JIT)) return false;   // without steps to replay each graph is scheduled anew
    if (!source_cache_get(e->sources, arena, source_cache_key(e->sources, arena, subject), &bytes)) return false;
    if (!table_read(e, arena, bytes, n_outputs, t)) return false;
    *kernels = arena_new(arena, (size_t)(t->n_kernels + 1) * sizeof **kernels);
    for (int64_t i = 0; i < t->n_kernels; i++) {
        const TableKernel *k = &t->kernels[i];
        (*kernels)[i] = program_known(e, arena, k->key, (size_t)k->key_bytes, (int)k->n_params);
        if (!(*kernels)[i] || (*kernels)[i]->n_params != k->n_params) return false;
        (*kernels)[i]->traffic = k->traffic;
        if (!(*kernels)[i]->whole) (*kernels)[i]->whole = arena_copy(e->arena, k->whole, (size_t)k->n_params * sizeof *k->whole);
    }
    return true;
}

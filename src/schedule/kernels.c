// kernels: decides which values are kept in a buffer, and makes one Item of each.
// In: the outputs of a tensor graph. Out: schedule.items in an order that can run.
// A value is kept where the graph says so (CONTIGUOUS, ASSIGN, outputs), and where a reduction would otherwise be
// computed again and again: it is broadcast, read through a gather, used by several, or summed by a large reduction.
// Invariant: what is not kept costs a few operations at each use.
#include "schedule/indexing.h"

#include <string.h>

#include "ir/bounds.h"
#include "ir/verify.h"
#include "tensor/tensor.h"

enum { SMALL_REDUCTION = 16 };   // reductions up to this size take another one inside, unkept
enum { MANY_READS = 4 };         // kept values that a value with several users may read and still be computed at each

Temp *schedule_temp_find(Schedule *s, int64_t id) {
    int64_t i = id - FIRST_TEMP_ID;
    return i >= 0 && i < (int64_t)s->temps.len ? &s->temps.at[i] : NULL;
}

UOp *schedule_temp(Schedule *s, DType dtype, int64_t count, int64_t lo, int64_t hi) {
    Temp temp = {.id = FIRST_TEMP_ID + (int64_t)s->temps.len, .dtype = dtype, .count = count};
    vec_push(s->arena, &s->temps, temp);
    return uop_new(s->graph, OP_BUFFER, dtype, 1, NULL, 0, (int64_t[]){temp.id, lo, hi, count}, 4);
}

// ---------------------------------------------------------------- what is kept

typedef struct Uses { int count; bool is_spread; } Uses;   // spread: some use reads an element more than once

static bool grows(const UOp *expand) {
    for (int i = 0; i < expand->ndim; i++) if (expand->src[0]->shape[i] != expand->shape[i]) return true;
    return false;
}

static int64_t reduced_count(const UOp *reduce) {
    int64_t n = 1;
    for (int i = 2; i < reduce->n_arg; i++) n *= reduce->src[0]->shape[reduce->arg[i]];
    return n;
}

static bool use_spreads(const UOp *user, int source) {
    switch (user->op) {
    case OP_EXPAND: return grows(user);
    case OP_GATHER: return source == 0 || user->ndim > user->src[1]->ndim;
    // A sum in one chain takes its elements one by one, as they are computed: a loop in a loop.
    case OP_REDUCE: return reduced_count(user) > SMALL_REDUCTION && !(user->arg[0] == MONOID_SUM && user->arg[1] == 1);
    default: return false;
    }
}

// Marks the nodes to keep: value 1 in `keep`.
static void choose_kept(Arena *arena, UOpList order, UOp *const *outputs, int n, UOpMap *keep) {
    UOpMap uses, costly, reads;   // costly: holds a reduction that is not kept; reads: how many kept values it reads
    uop_map_init(&reads, arena);
    uop_map_init(&uses, arena);
    uop_map_init(&costly, arena);
    for (size_t k = 0; k < order.len; k++) uop_map_put(&uses, order.at[k], arena_new(arena, sizeof(Uses)));
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        for (int i = 0; i < u->n_src; i++) {
            Uses *use = uop_map_get(&uses, u->src[i]);
            use->count++;
            use->is_spread |= use_spreads(u, i);
        }
    }
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        bool is_costly = u->op == OP_REDUCE;
        // What was stored lies in memory: reading it costs nothing of what made it, and a copy would miss later stores.
        int n_src = u->op == OP_AFTER ? 1 : u->op == OP_ASSIGN ? 0 : u->n_src;
        for (int i = 0; i < n_src; i++) is_costly |= uop_map_get(&costly, u->src[i]) && !uop_map_get(keep, u->src[i]);
        Uses *use = uop_map_get(&uses, u);
        bool is_kept = u->op == OP_CONTIGUOUS && !(u->src[0]->op == OP_BUFFER);
        if (is_costly && u->op != OP_SINK && (use->count > 1 || use->is_spread)) is_kept = true;
        // A sum that goes on from layer to layer would be computed from its beginning by each of its users.
        uintptr_t n_reads = 0;
        for (int i = 0; i < n_src; i++)
            n_reads += uop_map_get(keep, u->src[i]) ? 1 : (uintptr_t)uop_map_get(&reads, u->src[i]);
        is_kept |= n_reads >= MANY_READS && use->count > 1 && u->ndim > 0 && dtype_is_float(u->dtype) && op_info[u->op].kind != KIND_MOVE;
        uop_map_put(&reads, u, (void *)n_reads);
        if (is_kept) uop_map_put(keep, u, (void *)1);
        if (is_costly) uop_map_put(&costly, u, (void *)1);
    }
    for (int i = 0; i < n; i++)
        if (outputs[i]->op != OP_AFTER && outputs[i]->op != OP_BUFFER) uop_map_put(keep, outputs[i], (void *)1);
}

// ---------------------------------------------------------------- items

// One loop an axis of more than one element. Counters of loops are 32 bits wide.
static bool item_ranges(Schedule *s, const UOp *node, UOp **idx, UOp **ranges, int *n) {
    Graph *g = s->graph;
    *n = 0;
    for (int i = 0; i < node->ndim; i++) {
        if (node->shape[i] > INT32_MAX)
            return fail(&s->error, LATHE_BAD_REQUEST, "an axis of %lld elements is too long to compute: %d are the most; split it",
                        (long long)node->shape[i], INT32_MAX);
        idx[i] = node->shape[i] == 1 ? uop_int(g, DT_I32, 0)
                                     : (ranges[(*n)++] = uop_range_const(g, node->shape[i], RANGE_LOOP));
    }
    return true;
}

static bool item_add(Schedule *s, UOp *index, UOp *value, UOp **ranges, int n) {
    if (uop_is_poison(value)) return fail(&s->error, LATHE_BAD_REQUEST, "%s", value->message);
    if (uop_is_poison(index)) return fail(&s->error, LATHE_BAD_REQUEST, "%s", index->message);
    Item item = {.store = uop_store(index, value, ranges, n), .buffer = index->src[0]->arg[0]};
    vec_push(s->arena, &s->items, item);
    return true;
}

// A kept value: a new temporary, stored row-major.
static bool keep_value(Indexing *x, UOp *node) {
    Schedule *s = x->schedule;
    UOp *idx[MAX_AXES], *ranges[MAX_AXES];
    int n;
    map_init(&x->memo, s->arena);   // what was known of a value before it was kept is not how to read it
    TRY(item_ranges(s, node, idx, ranges, &n));
    UOp *content = node->op == OP_CONTIGUOUS ? node->src[0] : node;
    UOp *value = value_at(x, content, idx, NULL);
    if (uop_is_poison(value)) return fail(&s->error, LATHE_BAD_REQUEST, "%s", value->message);
    value = simplify(value);
    int64_t lo = 0, hi = 0;
    if (dtype_is_int(node->dtype)) {
        Bounds b = bounds_of(value);
        lo = b.lo, hi = b.hi;
    }
    UOp *buffer = schedule_temp(s, node->dtype, tensor_count(node), lo, hi);
    UOp *index = uop_index(buffer, simplify(flat_index(s->graph, idx, node->ndim, node->shape)));
    TRY(item_add(s, index, value, ranges, n));
    uop_map_put(&x->kept, node, buffer);
    return true;
}

static bool reads_buffer(Arena *arena, UOp *value, int64_t id) {
    UOpList order = uop_toposort(arena, value);
    for (size_t i = 0; i < order.len; i++)
        if (order.at[i]->op == OP_LOAD && order.at[i]->src[0]->src[0]->arg[0] == id) return true;
    return false;
}

static bool keep_assign(Indexing *x, UOp *node) {
    Schedule *s = x->schedule;
    UOp *view = node->src[0], *idx[MAX_AXES], *ranges[MAX_AXES];
    int n;
    map_init(&x->memo, s->arena);
    TRY(item_ranges(s, view, idx, ranges, &n));
    UOp *index = target_at(x, view, idx), *value = value_at(x, node->src[1], idx, NULL);
    if (!uop_is_poison(index) && !uop_is_poison(value) && reads_buffer(s->arena, value, index->src[0]->arg[0])) {
        // The value reads the buffer that it is stored to: compute it wholly before the first store.
        if (!uop_map_get(&x->kept, node->src[1])) TRY(keep_value(x, node->src[1]));
        map_init(&x->memo, s->arena);
        index = target_at(x, view, idx);
        value = value_at(x, node->src[1], idx, NULL);
    }
    TRY(item_add(s, index, uop_is_poison(value) ? value : simplify(value), ranges, n));
    return true;
}

bool schedule_build(Schedule *s, Arena *arena, UOp *const *outputs, int n, Error *err) {
    for (int i = 0; i < n; i++)
        if (uop_is_poison(outputs[i])) return fail(err, LATHE_BAD_REQUEST, "%s", outputs[i]->message);
    *s = (Schedule){.arena = arena, .graph = outputs[0]->graph};
    s->output_ids = arena_new(arena, (size_t)n * sizeof *s->output_ids);
    Indexing x = {.schedule = s};
    uop_map_init(&x.kept, arena);
    map_init(&x.memo, arena);
    UOpMap keep;
    uop_map_init(&keep, arena);
    UOp *sink = uop_sink(s->graph, outputs, n);
    TRY(verify(sink, STAGE_TENSOR, err));
    UOpList order = uop_toposort(arena, sink);
    choose_kept(arena, order, outputs, n, &keep);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (uop_map_get(&x.kept, u)) continue;
        bool ok = u->op == OP_ASSIGN ? keep_assign(&x, u)
                : uop_map_get(&keep, u) ? keep_value(&x, u) : true;
        if (!ok) { *err = s->error; return false; }
    }
    for (int i = 0; i < n; i++) {
        UOp *u = outputs[i], *kept = uop_map_get(&x.kept, u);
        while (!kept && u->op == OP_AFTER) u = u->src[0];
        UOp *buffer = kept ? kept : u;
        s->output_ids[i] = buffer->op == OP_BUFFER ? buffer->arg[0] : -1;
        Temp *temp = schedule_temp_find(s, s->output_ids[i]);
        if (temp) temp->is_output = true;
    }
    return true;
}

// verify_order: a read of a buffer that the same graph stores to must say whether it comes before or after.
// In: a tensor graph with ASSIGNs, or a kernel with STOREs. Out: the first read that waits for nothing.
// Invariant: a read is in order where it waits (AFTER) for every store that its user depends on, or where it can be
// reached only through the store that overwrites it.
// Example: sink(after(b, assign(b, x)), b + 1): "buffer is stored to by the same graph, and this read does not wait".
#include "base/map.h"
#include "base/vec.h"
#include "ir/verify_private.h"

// ---------------------------------------------------------------- tensor graphs

typedef struct Assigns { VEC(UOp *) at; } Assigns;          // of one buffer, in an order that can run
typedef struct Reads { Arena *arena; Map assigns; VEC(UOp *) unsure; UOpMap read, aimed; } Reads;

// The BUFFER that a chain of views leads to; NULL where it is none.
static UOp *buffer_under(UOp *u) {
    while (u->op == OP_AFTER || op_info[u->op].kind == KIND_MOVE) u = u->src[0];
    return u->op == OP_BUFFER ? u : NULL;
}

static Assigns *assigns_of(const Reads *r, UOp *view) {
    UOp *buffer = buffer_under(view);
    return buffer ? map_get(&r->assigns, &buffer->arg[0], sizeof buffer->arg[0]) : NULL;
}

static bool waits_for_all(const UOp *after, const Assigns *assigns) {
    if (after->op != OP_AFTER || assigns->at.len != 1) return false;
    for (int i = 1; i < after->n_src; i++) if (after->src[i] == assigns->at.at[0]) return true;
    return false;
}

typedef struct Visit { UOp *u; bool is_target; } Visit;
typedef VEC(Visit) Visits;

// What a node computes with (is_target: what its address is computed with).
static void visit_sources(Arena *arena, Visits *stack, UOp *u, bool is_target, bool is_ordered) {
    for (int i = 0; i < u->n_src; i++) {
        bool is_base = i == 0 && (u->op == OP_AFTER || op_info[u->op].kind == KIND_MOVE);
        bool aims = u->op == OP_ASSIGN ? i == 0 : is_base && (is_target || is_ordered);
        vec_push(arena, stack, ((Visit){u->src[i], aims}));
    }
}

// Walks what root computes with. Finds reads of stored buffers that do not wait directly for the only store; does not
// enter the ASSIGNs in `stop`.
static void walk(Reads *r, UOp *root, const Assigns *stop) {
    Visits stack = {0};
    uop_map_init(&r->read, r->arena);
    uop_map_init(&r->aimed, r->arena);
    r->unsure.len = 0;
    visit_sources(r->arena, &stack, root, false, false);
    while (stack.len) {
        Visit v = stack.at[--stack.len];
        bool is_stop = false, is_read = !v.is_target && (v.u->op == OP_BUFFER || v.u->op == OP_AFTER);
        UOpMap *seen = v.is_target ? &r->aimed : &r->read;
        for (size_t i = 0; stop && i < stop->at.len; i++) is_stop |= stop->at.at[i] == v.u;
        if (is_stop || uop_map_get(seen, v.u)) continue;
        uop_map_put(seen, v.u, v.u);
        Assigns *assigns = is_read ? assigns_of(r, v.u) : NULL;
        if (assigns && !waits_for_all(v.u, assigns)) vec_push(r->arena, &r->unsure, v.u);
        visit_sources(r->arena, &stack, v.u, v.is_target, assigns != NULL);
    }
}

static bool depends_on(Arena *arena, UOp *u, const UOp *on) {
    UOpList order = uop_toposort(arena, u);
    for (size_t i = 0; i < order.len; i++) if (order.at[i] == on) return true;
    return false;
}

// Reads of one buffer that root reaches without passing another store to it: they must wait for all stores that root
// waits for; root NULL: for all.
static bool reads_ok(Reads *r, const Assigns *assigns, UOp *from, UOp *root, Error *err) {
    walk(r, from, assigns);
    for (size_t i = 0; i < r->unsure.len; i++) {
        UOp *read = r->unsure.at[i];
        if (assigns_of(r, read) != assigns) continue;
        for (size_t k = 0; k < assigns->at.len; k++) {
            UOp *store = assigns->at.at[k];
            bool is_needed = !root || (store != root && depends_on(r->arena, root, store));
            if (is_needed && !depends_on(r->arena, read, store))
                return verify_wrong(err, STAGE_TENSOR, read, "is stored to by the same graph, and this read does not wait "
                                                             "for the store; read what tensor_assign gave back");
        }
    }
    return true;
}

bool verify_assigns(Arena *arena, UOp *root, const UOpList *order, Error *err) {
    Reads r = {.arena = arena};
    bool any = false;
    map_init(&r.assigns, arena);
    for (size_t k = 0; k < order->len; k++) {
        UOp *u = order->at[k], *buffer = u->op == OP_ASSIGN ? buffer_under(u->src[0]) : NULL;
        if (!buffer) continue;
        Assigns *list = map_get(&r.assigns, &buffer->arg[0], sizeof buffer->arg[0]);
        if (!list) map_put(&r.assigns, &buffer->arg[0], sizeof buffer->arg[0], list = arena_new(arena, sizeof *list));
        vec_push(arena, &list->at, u);
        any = true;
    }
    if (!any) return true;
    UOp *sink = root->op == OP_SINK ? root : uop_sink(root->graph, &root, 1);
    walk(&r, sink, NULL);
    if (r.unsure.len == 0) return true;
    Map done;
    map_init(&done, arena);
    VEC(Assigns *) doubtful = {0};
    for (size_t i = 0; i < r.unsure.len; i++) {
        Assigns *a = assigns_of(&r, r.unsure.at[i]);
        if (map_has(&done, &a, sizeof a)) continue;
        map_put(&done, &a, sizeof a, a);
        vec_push(arena, &doubtful, a);
    }
    for (size_t i = 0; i < doubtful.len; i++) {
        Assigns *a = doubtful.at[i];
        if (!reads_ok(&r, a, sink, NULL, err)) return false;
        for (size_t k = 0; k < a->at.len; k++)
            if (!reads_ok(&r, a, a->at.at[k], a->at.at[k], err)) return false;
    }
    return true;
}

// ---------------------------------------------------------------- kernels

// Statements that the memory of a kernel was stored to by, the last one of each buffer.
static void note_stores(UOpMap *stored, UOp *statement, UOp *u) {
    if (uop_is_store(u)) uop_map_put(stored, uop_buffer_of(u->src[0]), statement);
    for (int i = 0; u->op == OP_END && i < (u->n_arg ? u->arg[0] : 0); i++) note_stores(stored, statement, u->src[i]);
}

static bool stands_behind(const UOp *dep, const UOp *statement) {
    bool behind = dep == statement;
    for (int i = 0; (dep->op == OP_BARRIER || dep->op == OP_LAST_TILE) && i < dep->n_src && !behind; i++) behind = stands_behind(dep->src[i], statement);
    return behind;
}

static bool load_waits(const UOp *load, const UOp *statement) {
    for (const UOp *b = load->src[0]->src[0]; b->op == OP_AFTER; b = b->src[0])
        for (int i = 1; i < b->n_src; i++) if (stands_behind(b->src[i], statement)) return true;
    return false;
}

static bool statement_ok(Arena *arena, UOp *statement, const UOpMap *stored, const UOpMap *own, GraphStage stage, Error *err) {
    VEC(UOp *) stack = {0};
    UOpMap seen;
    uop_map_init(&seen, arena);
    vec_push(arena, &stack, statement);
    while (stack.len) {
        UOp *u = stack.at[--stack.len], *base = u;
        if (uop_map_get(&seen, u)) continue;
        uop_map_put(&seen, u, u);
        while (base->op == OP_AFTER) base = base->src[0];
        if (u->op == OP_LOAD) {
            UOp *buffer = uop_buffer_of(u->src[0]), *last = uop_map_get(stored, buffer);
            if (last && !load_waits(u, last)) return verify_wrong(err, stage, u, "does not wait for the store before it");
            if (!last && !uop_is_own_memory(buffer) && uop_map_get(own, buffer))
                return verify_wrong(err, stage, u, "reads what its own statement stores");
        }
        // What a load waits for is another statement, but a register's stores are part of the value.
        int n = u->op == OP_AFTER && !uop_is_own_memory(base) ? 1 : u->n_src;
        for (int i = 0; i < n; i++) vec_push(arena, &stack, u->src[i]);
    }
    return true;
}

// What tiles add to, each in its own time, nothing else of the kernel may touch.
static bool adds_ok(Arena *arena, UOp *sink, GraphStage stage, Error *err) {
    UOpList order = uop_toposort(arena, sink);
    UOpMap added;
    uop_map_init(&added, arena);
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_ATOMIC_ADD) uop_map_put(&added, uop_buffer_of(order.at[k]->src[0]), order.at[k]);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if ((u->op == OP_LOAD || u->op == OP_STORE) && uop_map_get(&added, uop_buffer_of(u->src[0])))
            return verify_wrong(err, stage, u, "touches what other tiles of the kernel add to");
    }
    return true;
}

bool verify_loads(Arena *arena, UOp *sink, GraphStage stage, Error *err) {
    UOpMap stored, own;
    if (!adds_ok(arena, sink, stage, err)) return false;
    uop_map_init(&stored, arena);
    for (int i = 0; i < sink->n_src; i++) {
        if (sink->src[i]->op == OP_BARRIER || sink->src[i]->op == OP_LAST_TILE) continue;
        uop_map_init(&own, arena);
        note_stores(&own, sink->src[i], sink->src[i]);
        if (!statement_ok(arena, sink->src[i], &stored, &own, stage, err)) return false;
        note_stores(&stored, sink->src[i], sink->src[i]);
    }
    return true;
}

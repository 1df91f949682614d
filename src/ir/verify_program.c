// verify_program: the rules of a linear program. See verify.h.
// In: nodes in program order. Out: the first that stands too early, too late, twice, or out of scope.
// Invariant: a place is a loop that was entered once; the same RANGE opened again is another place.
// Example: range r0 … end r0, neg(load(r0)): "neg uses a value of a closed loop".
#include "base/vec.h"
#include "ir/verify_private.h"

typedef struct Loop { UOp *range; size_t serial; } Loop;
// Serial numbers of the innermost loop that a node stands in, and of the one that its value is known in.
typedef struct Place { size_t stands, loop; } Place;

typedef VEC(Loop) LoopStack;

enum { OUTERMOST = 1 };

static bool is_open(const LoopStack *open, size_t serial) {
    for (size_t i = 0; i < open->len; i++) if (open->at[i].serial == serial) return true;
    return false;
}

// What an AFTER waits for: a store, or the stores of a nest of loops.
static bool stands_before(const UOpMap *places, const UOp *dep) {
    if (uop_is_store(dep) || dep->op == OP_BARRIER || dep->op == OP_LAST_TILE) return uop_map_get(places, dep) != NULL;
    for (int i = 0; dep->op == OP_END && dep->n_arg && i < dep->arg[0]; i++)
        if (!stands_before(places, dep->src[i])) return false;
    return true;
}

static bool source_ok(UOp *u, const UOp *source, const UOpMap *places, const LoopStack *open, Error *err) {
    const Place *p = uop_map_get(places, source);
    if (!p) return verify_wrong(err, STAGE_PROGRAM, u, "stands before its source");
    return u->op == OP_END || is_open(open, p->loop) || verify_wrong(err, STAGE_PROGRAM, u, "uses a value of a closed loop");
}

static bool sources_ok(UOp *u, const UOpMap *places, const LoopStack *open, Error *err) {
    if (u->op == OP_PREFETCH && u->src[0]->op == OP_INDEX && u->src[0]->src[1]->op == OP_ADD) {
        // Its address, a value and a distance, is no line of its own: it is part of the request.
        UOp *index = u->src[0];
        return source_ok(u, index->src[0], places, open, err) && source_ok(u, index->src[1]->src[0], places, open, err);
    }
    for (int i = 0; i < u->n_src; i++) {
        if (u->op == OP_AFTER && !stands_before(places, u->src[i]))
            return verify_wrong(err, STAGE_PROGRAM, u, "stands before what it waits for");
        // What only orders (a store, a nest of loops) need not be a line of its own.
        if (u->src[i]->dtype == DT_VOID) continue;
        TRY(source_ok(u, u->src[i], places, open, err));
    }
    return true;
}

bool verify_program(const UOpList *program, Error *err) {
    Arena *arena = arena_create();
    UOpMap places;
    LoopStack open = {0};
    size_t loops = OUTERMOST;
    bool ok = true;
    uop_map_init(&places, arena);
    vec_push(arena, &open, ((Loop){NULL, loops++}));
    for (size_t k = 0; ok && k < program->len; k++) {
        UOp *u = program->at[k];
        ok = verify_node(u, STAGE_PROGRAM, err);
        ok = ok && sources_ok(u, &places, &open, err);
        // Once a loop is closed it may run again, and what stood in it may stand elsewhere.
        const Place *before = uop_map_get(&places, u);
        bool again = u->op != OP_RANGE && u->op != OP_END && before && is_open(&open, before->stands);
        for (size_t i = 0; u->op == OP_RANGE && i < open.len; i++) again |= open.at[i].range == u;
        if (ok && again) ok = verify_wrong(err, STAGE_PROGRAM, u, "stands there twice");
        if (ok && u->op == OP_END) {
            ok = open.at[open.len - 1].range == u->src[0] ||
                 verify_wrong(err, STAGE_PROGRAM, u, "closes no innermost loop");
            if (ok) open.len--;
        }
        if (ok && u->op == OP_RANGE) vec_push(arena, &open, ((Loop){u, loops++}));
        size_t inner = open.at[open.len - 1].serial;
        Place here = {inner, inner};
        // A constant, an AFTER and an INDEX are no instructions: an address is where its parts are, wherever the first
        // line that needed it stands.
        if (u->op == OP_CONST) here.loop = OUTERMOST;
        int n_parts = u->op == OP_AFTER ? 1 : u->op == OP_INDEX ? 2 : 0;
        for (int i = 0; ok && i < n_parts; i++) {
            size_t part = ((const Place *)uop_map_get(&places, u->src[i]))->loop;
            if (i == 0 || part > here.loop) here.loop = part;
        }
        uop_map_put(&places, u, arena_copy(arena, &here, sizeof here));
    }
    if (ok && open.len > 1)
        ok = verify_wrong(err, STAGE_PROGRAM, open.at[open.len - 1].range, "is never closed");
    arena_destroy(arena);
    return ok;
}

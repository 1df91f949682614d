// egraph_extract: the cheapest graph that a class holds.
// In: classes of equal nodes, the cost of one node. Out: real nodes, none of which costs anything
// twice.
// Invariant: what a class is best as is a finished node, built from what its sources were best as
// at that time: there are no cycles to avoid. Passes repeat until nothing gets cheaper; each step
// lowers a cost, so that they end.
// Example: {MUL(x, 2), ADD(x, x), SHL(x, 1)} with costs 1, 1, 1: the first one found stays.
#include <string.h>

#include "ir/egraph_private.h"

enum { PASSES = 12 };

typedef struct Priced {
    UOp *uop;
    uint64_t cost;
    uint32_t node;
    uint32_t stamp;
} Priced;   // cost: of this node alone

typedef struct Extractor {
    EGraph *e;
    Arena *arena;
    EgraphCost node_cost;
    void *ctx;
    UOp **best;              // by class
    uint64_t *best_cost;
    UOpMap priced;           // UOp → Priced
    uint32_t stamp;
    VEC(UOp *) stack;
} Extractor;

static uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t default_cost(const UOp *u) { return (uint64_t)op_info[u->op].cost * u->lanes; }

static Priced *price(Extractor *x, UOp *u) {
    Priced *p = uop_map_get(&x->priced, u);
    if (p) return p;
    p = arena_new(x->arena, sizeof *p);
    *p = (Priced){u, x->node_cost ? x->node_cost(u, x->ctx) : default_cost(u), UINT32_MAX, 0};
    uop_map_put(&x->priced, u, p);
    return p;
}

// The sum over distinct nodes; stops early where it reaches `enough`.
static uint64_t graph_cost(Extractor *x, UOp *root, uint64_t enough) {
    uint64_t sum = 0;
    x->stamp++;
    x->stack.len = 0;
    vec_push(x->arena, &x->stack, root);
    while (x->stack.len && sum < enough) {
        UOp *u = x->stack.at[--x->stack.len];
        Priced *p = price(x, u);
        if (p->stamp == x->stamp) continue;
        p->stamp = x->stamp;
        sum = plus(sum, p->cost);
        for (int i = 0; i < u->n_src; i++) vec_push(x->arena, &x->stack, u->src[i]);
    }
    return sum;
}

// Ranges that a node closes are named, not computed.
static bool closes(const UOp *u, int i) {
    return u->src[i]->op == OP_RANGE &&
           ((u->op == OP_FOLD && i > 0) || (u->op == OP_ACCUM && i > 0) ||
            (uop_is_store(u) && i > 1));
}

static bool try_node(Extractor *x, uint32_t number) {
    const ENode *n = &x->e->nodes.at[number];
    ClassId home = class_find(x->e, n->home);
    UOp *few[8], **src = few, *u = n->uop;
    uint64_t least = 0;
    // A loop of one turn equals 0, and so every other such loop: naming one of them would leave its scope.
    const UOp *constant = x->e->classes.at[home].constant;
    if (constant && u != constant) return false;
    if (n->n_src > 8) src = arena_new(x->arena, (size_t)n->n_src * sizeof *src);
    for (int i = 0; i < n->n_src; i++) {
        ClassId c = class_find(x->e, n->src[i]);
        if (!x->best[c]) return false;
        if (x->best_cost[c] > least && !closes(u, i)) least = x->best_cost[c];
        src[i] = closes(u, i) ? u->src[i] : x->best[c];
    }
    // A graph costs at least what its dearest part does.
    if (x->best[home] && least >= x->best_cost[home]) return false;
    UOp *made = n->n_src ? uop_with_src(u, src) : u;
    Priced *p = price(x, made);
    if (x->best[home] && plus(least, p->cost) >= x->best_cost[home]) return false;
    uint64_t cost = graph_cost(x, made, x->best[home] ? x->best_cost[home] : UINT64_MAX);
    if (x->best[home] && cost >= x->best_cost[home]) return false;
    if (p->node == UINT32_MAX) p->node = number;
    x->best[home] = made;
    x->best_cost[home] = cost;
    return true;
}

static void collect_reasons(Extractor *x, UOp *root, EgraphReport *report) {
    UOpList order = uop_toposort(x->arena, root);
    for (size_t k = 0; k < order.len; k++) {
        const Priced *p = uop_map_get(&x->priced, order.at[k]);
        const Rule *reason = p && p->node != UINT32_MAX ? x->e->nodes.at[p->node].reason : NULL;
        bool known = !reason || report->n_reasons == EGRAPH_REASONS;
        for (int i = 0; i < report->n_reasons; i++) known |= report->reasons[i] == reason;
        if (!known) report->reasons[report->n_reasons++] = reason;
    }
}

UOp *egraph_extract(EGraph *e, ClassId root, EgraphCost node_cost, void *ctx,
                    EgraphReport *report) {
    Extractor x = {.e = e, .arena = e->arena, .node_cost = node_cost, .ctx = ctx};
    x.best = arena_new(x.arena, e->classes.len * sizeof *x.best);
    x.best_cost = arena_new(x.arena, e->classes.len * sizeof *x.best_cost);
    uop_map_init(&x.priced, x.arena);
    bool changed = true;
    for (int pass = 0; changed && pass < PASSES; pass++) {
        changed = false;
        for (uint32_t i = 0; i < e->nodes.len; i++)
            if (!e->nodes.at[i].dead) changed |= try_node(&x, i);
    }
    collect_reasons(&x, x.best[root], report);
    return x.best[root];
}

uint64_t egraph_cost(UOp *root, EgraphCost node_cost, void *ctx) {
    Arena *arena = arena_create();
    UOpList order = uop_toposort(arena, root);
    uint64_t sum = 0;
    for (size_t k = 0; k < order.len; k++)
        sum = plus(sum, node_cost ? node_cost(order.at[k], ctx) : default_cost(order.at[k]));
    arena_destroy(arena);
    return sum;
}

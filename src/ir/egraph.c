// egraph: growing the classes: adding nodes, joining classes, keeping both free of duplicates. See
// egraph.h.
// In: a root and rules. Out: the same value, in its cheapest known form.
// Invariant: facts (constant, bounds) of a class only get narrower; each change goes on to its
// users.
// Example: joining x and y makes f(x) and f(y) the same node; egraph_rebuild finds that.
#include "ir/egraph.h"

#include <string.h>

#include "base/map.h"
#include "base/settings.h"
#include "ir/egraph_private.h"
#include "ir/rewrite.h"

ClassId class_find(EGraph *e, ClassId c) {
    while (e->classes.at[c].parent != c) {
        ClassId up = e->classes.at[e->classes.at[c].parent].parent;
        e->classes.at[c].parent = up;      // halves the path
        c = up;
    }
    return c;
}

// ---------------------------------------------------------------- facts

static void stale_users(EGraph *e, ClassId c) {
    for (size_t i = 0; i < e->classes.at[c].users.len; i++)
        vec_push(e->arena, &e->stale, e->classes.at[c].users.at[i]);
}

static void learn_bounds(EGraph *e, ClassId c, Bounds b) {
    Bounds *have = &e->classes.at[c].bounds, both = *have;
    if (b.lo > both.lo) both.lo = b.lo;
    if (b.hi < both.hi) both.hi = b.hi;
    bool narrower = both.lo != have->lo || both.hi != have->hi;
    // An empty intersection cannot be; then neither fact is to be trusted more.
    if (!narrower || both.lo > both.hi) return;
    *have = both;
    stale_users(e, c);
}

static void learn_constant(EGraph *e, ClassId c, UOp *constant) {
    if (e->classes.at[c].constant) return;
    e->classes.at[c].constant = constant;
    stale_users(e, c);
    ClassId same = egraph_add(e, constant, NULL);
    if (class_find(e, same) != class_find(e, c)) egraph_union(e, same, c);
}

// What a node says about its class, from the facts of its source classes.
static void learn_from_node(EGraph *e, uint32_t node) {
    const ENode *n = &e->nodes.at[node];
    UOp *u = n->uop, *constants[3];
    Bounds s[3], b;
    bool all_constant = n->n_src > 0, small = op_is_elementwise((Op)u->op) && n->n_src > 0 && n->n_src <= 3;
    ClassId home = class_find(e, n->home);
    for (int i = 0; small && i < n->n_src; i++) {
        const EClass *c = &e->classes.at[class_find(e, n->src[i])];
        s[i] = c->bounds;
        constants[i] = c->constant;
        all_constant &= c->constant != NULL;
    }
    if (dtype_is_int(u->dtype)) {
        b = bounds_of(u);
        learn_bounds(e, home, b);
        if (small && u->op != OP_BITCAST &&
            bounds_of_op(u->op, u->src[u->op == OP_WHERE]->dtype, u->dtype, s, &b))
            learn_bounds(e, home, b);
    }
    // Rows in C do not take part; this one identity of theirs is needed where rows convert to a
    // type of their own.
    if (u->op == OP_CAST && n->n_src && u->dtype == u->src[0]->dtype)
        egraph_union(e, home, n->src[0]);
    home = class_find(e, home);
    if (u->op == OP_CONST) learn_constant(e, home, u);
    else if (small && all_constant) {
        UOp *folded = rewrite_fold(uop_with_src(u, constants));
        if (folded && folded->op == OP_CONST) learn_constant(e, home, folded);
    }
    home = class_find(e, home);
    const EClass *c = &e->classes.at[home];
    if (!c->constant && c->bounds.lo == c->bounds.hi && u->lanes == 1 && u->ndim == 0 &&
        dtype_is_int(u->dtype))
        learn_constant(e, home, uop_int(e->graph, u->dtype, c->bounds.lo));
}

// ---------------------------------------------------------------- nodes

// Nodes whose identity matters, not only their value: loops, memory and its order.
static bool stays_as_it_is(const UOp *u) {
    return u->n_src == 0 || u->op == OP_RANGE || u->op == OP_AFTER || u->op == OP_BARRIER ||
           u->op == OP_LAST_TILE || u->op == OP_END;
}

static void key_of(EGraph *e, const ENode *n, Arena *arena, int64_t **key, size_t *nbytes) {
    const UOp *u = n->uop;
    size_t words = 2 + (size_t)u->n_arg + (size_t)n->n_src;
    int64_t *k = arena_new(arena, words * sizeof *k);
    k[0] = u->op | u->dtype << 8 | u->lanes << 16;
    k[1] = stays_as_it_is(u) && u->n_src ? (int64_t)u->id + 1 : 0;
    if (u->n_arg) memcpy(k + 2, u->arg, u->n_arg * sizeof *k);
    for (int i = 0; i < n->n_src; i++) k[2 + u->n_arg + i] = class_find(e, n->src[i]);
    *key = k;
    *nbytes = words * sizeof *k;
}

static uint32_t memo_get(EGraph *e, const ENode *n) {
    int64_t *key;
    size_t nbytes;
    ArenaMark mark = arena_mark(e->arena);
    key_of(e, n, e->arena, &key, &nbytes);
    uint32_t found = (uint32_t)(uintptr_t)map_get(&e->memo, key, nbytes);
    arena_release(e->arena, mark);
    return found;
}

static void memo_put(EGraph *e, const ENode *n, uint32_t number) {
    int64_t *key;
    size_t nbytes;
    key_of(e, n, e->arena, &key, &nbytes);
    map_put(&e->memo, key, nbytes, (void *)(uintptr_t)(number + 1));
}

static ClassId class_new(EGraph *e, UOp *member) {
    EClass c = {
        .parent = (ClassId)e->classes.len, .member = member, .bounds = {INT64_MIN, INT64_MAX}};
    vec_push(e->arena, &e->classes, c);
    return c.parent;
}

// Sources of u have classes already.
static ClassId add_one(EGraph *e, UOp *u, const Rule *reason) {
    ENode n = {.uop = u, .reason = reason};
    if (!stays_as_it_is(u)) {
        n.n_src = u->n_src;
        n.src = arena_new(e->arena, u->n_src * sizeof *n.src);
        for (int i = 0; i < u->n_src; i++)
            n.src[i] = class_find(e, (ClassId)(uintptr_t)uop_map_get(&e->class_of, u->src[i]) - 1);
    }
    uint32_t known = memo_get(e, &n), number = (uint32_t)e->nodes.len;
    ClassId home = known ? class_find(e, e->nodes.at[known - 1].home) : class_new(e, u);
    uop_map_put(&e->class_of, u, (void *)(uintptr_t)(home + 1));
    if (known) return home;
    n.home = home;
    vec_push(e->arena, &e->nodes, n);
    memo_put(e, &n, number);
    vec_push(e->arena, &e->classes.at[home].nodes, number);
    for (int i = 0; i < n.n_src; i++) vec_push(e->arena, &e->classes.at[n.src[i]].users, number);
    learn_from_node(e, number);
    return class_find(e, home);
}

ClassId egraph_add(EGraph *e, UOp *root, const Rule *reason) {
    VEC(UOp *) stack = {0};
    vec_push(e->arena, &stack, root);
    while (stack.len) {
        UOp *u = stack.at[stack.len - 1];
        size_t before = stack.len;
        if (uop_map_get(&e->class_of, u)) {
            stack.len--;
            continue;
        }
        for (int i = 0; i < u->n_src && !stays_as_it_is(u); i++)
            if (!uop_map_get(&e->class_of, u->src[i])) vec_push(e->arena, &stack, u->src[i]);
        if (stack.len > before) continue;
        stack.len--;
        add_one(e, u, reason);
    }
    return class_find(e, (ClassId)(uintptr_t)uop_map_get(&e->class_of, root) - 1);
}

// ---------------------------------------------------------------- joining

void egraph_union(EGraph *e, ClassId a, ClassId b) {
    a = class_find(e, a);
    b = class_find(e, b);
    if (a == b) return;
    // The bigger class keeps its number.
    if (e->classes.at[a].nodes.len < e->classes.at[b].nodes.len) {
        ClassId t = a;
        a = b;
        b = t;
    }
    CHECK(e->classes.at[a].member->dtype == e->classes.at[b].member->dtype &&
          e->classes.at[a].member->lanes == e->classes.at[b].member->lanes);
    e->unions++;
    e->classes.at[b].parent = a;
    EClass from = e->classes.at[b];
    for (size_t i = 0; i < from.nodes.len; i++)
        vec_push(e->arena, &e->classes.at[a].nodes, from.nodes.at[i]);
    for (size_t i = 0; i < from.users.len; i++) {
        vec_push(e->arena, &e->classes.at[a].users, from.users.at[i]);
        vec_push(e->arena, &e->pending, from.users.at[i]);
    }
    Bounds own = e->classes.at[a].bounds;
    learn_bounds(e, a, from.bounds);
    bool news = own.lo > from.bounds.lo || own.hi < from.bounds.hi ||
                (e->classes.at[a].constant && !from.constant);
    for (size_t i = 0; news && i < from.users.len; i++)
        vec_push(e->arena, &e->stale, from.users.at[i]);
    if (from.constant && !e->classes.at[a].constant) {
        e->classes.at[a].constant = from.constant;
        stale_users(e, a);
    }
}

void egraph_rebuild(EGraph *e) {
    while (e->pending.len || e->stale.len) {
        while (e->pending.len) {
            uint32_t number = e->pending.at[--e->pending.len];
            const ENode *n = &e->nodes.at[number];
            if (n->dead) continue;
            uint32_t known = memo_get(e, n);
            if (!known) {
                memo_put(e, n, number);
            } else if (known - 1 != number) {
                ClassId a = n->home, b = e->nodes.at[known - 1].home;
                e->nodes.at[number].dead = true;
                egraph_union(e, a, b);
            }
        }
        if (e->stale.len) learn_from_node(e, e->stale.at[--e->stale.len]);
    }
    for (size_t c = 0; c < e->classes.len; c++) {
        EClass *k = &e->classes.at[c];
        size_t kept = 0;
        for (size_t i = 0; k->parent == c && i < k->nodes.len; i++)
            if (!e->nodes.at[k->nodes.at[i]].dead) k->nodes.at[kept++] = k->nodes.at[i];
        k->nodes.len = kept;
    }
}

// ---------------------------------------------------------------- saturation

static bool takes_part(const Rule *rule) { return !rule->row->action; }

static bool saturate_once(EGraph *e, const RuleSet *const *sets, int n_sets, EgraphLimits limits,
                          EgraphReport *report) {
    FoundList found = {0};
    int before = e->unions;
    size_t nodes = e->nodes.len;
    for (int s = 0; s < n_sets; s++) {
        const RuleTable *table = ruleset_table(sets[s]);
        for (int i = 0; i < table->n_rules; i++)
            if (takes_part(&table->rules[i]))
                egraph_search(e, &table->rules[i], limits.matches, &found);
    }
    for (size_t i = 0; i < found.len; i++) {
        if (e->nodes.len >= (size_t)limits.nodes) {
            report->stop = "nodes";
            break;
        }
        const Found *f = &found.at[i];
        egraph_union(e, f->root, egraph_add(e, f->right, f->rule));
    }
    egraph_rebuild(e);
    if (report->stop) return false;
    if (e->unions == before && e->nodes.len == nodes) report->stop = "saturated";
    return !report->stop;
}

UOp *egraph_improve(UOp *root, const RuleSet *const *sets, int n_sets, EgraphLimits limits,
                    EgraphCost node_cost, void *ctx, EgraphReport *report) {
    EgraphReport own = {0};
    if (!report) report = &own;
    *report = (EgraphReport){.cost_before = egraph_cost(root, node_cost, ctx)};
    report->cost_after = report->cost_before;
    if (setting_int(SETTING_EGRAPH) == 0) return report->stop = "off", root;
    Arena *arena = arena_create();
    EGraph e = {.arena = arena, .graph = root->graph};
    UOp *best = root;
    uop_map_init(&e.class_of, arena);
    map_init(&e.memo, arena);
    if (uop_toposort(arena, root).len > (size_t)limits.nodes) {
        report->stop = "too big";
    } else {
        ClassId top = egraph_add(&e, root, NULL);
        egraph_rebuild(&e);
        while (report->iterations < limits.iterations) {
            report->iterations++;
            if (!saturate_once(&e, sets, n_sets, limits, report)) break;
        }
        if (!report->stop) report->stop = "iterations";
        UOp *cheapest = egraph_extract(&e, class_find(&e, top), node_cost, ctx, report);
        uint64_t cost = egraph_cost(cheapest, node_cost, ctx);
        if (cost < report->cost_before) {
            best = cheapest;
            report->cost_after = cost;
        } else {
            report->n_reasons = 0;
        }
    }
    report->nodes = (int)e.nodes.len;
    report->unions = e.unions;
    for (size_t c = 0; c < e.classes.len; c++) report->classes += e.classes.at[c].parent == c;
    arena_destroy(arena);
    return best;
}

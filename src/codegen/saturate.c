// saturate: index arithmetic in its cheapest equal form, by equality saturation over the exact rules of indices.
// In: a kernel after vectorize. Out: the same with other addresses; equal numbers, so that LATHE_EGRAPH=0 changes none.
// What an address costs: each op as often as its innermost loop turns, since linearize computes the rest before that
// loop. A constant at the end stays where it is: loads side by side share one base, and C's address adds the rest.
// Example: (tile // 8)*256 + (tile % 8)*32 + r6 → tile*32 + r6.
#include <stdio.h>

#include "base/settings.h"
#include "base/vec.h"
#include "codegen/codegen.h"
#include "ir/egraph.h"
#include "ir/textform.h"

typedef struct Roots { Arena *arena; UOpMap seen; VEC(UOp *) at; } Roots;

static uint64_t cost_in_loops(const UOp *u, void *ctx) {
    Arena *arena = ctx;
    uint64_t cost = (uint64_t)op_info[u->op].cost * u->lanes;
    if (cost == 0) return 0;
    ArenaMark mark = arena_mark(arena);
    UOpList free = uop_free_ranges(arena, (UOp *)(uintptr_t)u);
    for (size_t i = 0; i < free.len; i++) cost *= (uint64_t)range_size(free.at[i]);
    arena_release(arena, mark);
    return cost;
}

static void root_add(Roots *r, UOp *u) {
    while (u->op == OP_ADD && uop_is_const(u->src[1])) u = u->src[0];
    if (u->n_src == 0 || u->op == OP_RANGE || uop_map_get(&r->seen, u)) return;
    uop_map_put(&r->seen, u, u);
    vec_push(r->arena, &r->at, u);
}

static void show(Arena *arena, const UOp *before, const UOp *after, const EgraphReport *report) {
    fprintf(stderr, "-- saturate: %d addresses, cost %llu to %llu, %s:", before->n_src, (unsigned long long)report->cost_before,
            (unsigned long long)report->cost_after, report->stop);
    for (int i = 0; i < report->n_reasons; i++) fprintf(stderr, " %s", report->reasons[i]->row->name);
    fprintf(stderr, "\n");
    for (int i = 0; i < before->n_src; i++)
        if (after->src[i] != before->src[i])
            fprintf(stderr, "   %s -> %s\n", textform_expression(arena, before->src[i], 12),
                    textform_expression(arena, after->src[i], 12));
}

// Loops and memory keep their identity: what the kernel made of them goes into the new form too.
static UOp *moved(Arena *arena, UOpMap *done, UOpMap *memo, UOp *u) {
    UOp *known = uop_map_get(u->op == OP_RANGE || u->op == OP_AFTER ? done : memo, u);
    if (known || u->n_src == 0) return known ? known : u;
    UOp **src = arena_new(arena, u->n_src * sizeof *src);
    for (int i = 0; i < u->n_src; i++) src[i] = moved(arena, done, memo, u->src[i]);
    UOp *made = uop_with_src(u, src);
    uop_map_put(memo, u, made);
    return made;
}

// The kernel with best->src[i] in the place of roots[i].
static UOp *replaced(Arena *arena, UOpList order, const Roots *roots, UOp *best) {
    UOpMap form, done, memo;
    uop_map_init(&form, arena);
    uop_map_init(&done, arena);
    uop_map_init(&memo, arena);
    for (size_t i = 0; i < roots->at.len; i++) uop_map_put(&form, roots->at.at[i], best->src[i]);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *to = uop_map_get(&form, u);
        uop_map_put(&done, u, to && to != u ? moved(arena, &done, &memo, to) : uop_renewed(u, &done));
    }
    return uop_map_get(&done, order.at[order.len - 1]);
}

UOp *saturate(UOp *sink, const Target *target) {
    (void)target;
    // Text rows alone take part, and those of `algebra` found nothing here in any kernel of the models measured.
    static const RuleSet *const sets[] = {&rules_index};
    Arena *own = arena_create(), *costs = arena_create();
    Roots roots = {.arena = own};
    uop_map_init(&roots.seen, own);
    UOpList order = uop_toposort(own, sink);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (u->op == OP_INDEX) root_add(&roots, u->src[1]);
        if (u->op == OP_LOAD && u->n_src > 1) root_add(&roots, u->src[1]);
    }
    if (roots.at.len > 0 && roots.at.len <= UINT16_MAX) {
        EgraphReport report;
        UOp *all = uop_sink(sink->graph, roots.at.at, (int)roots.at.len);
        UOp *best = egraph_improve(all, sets, 1, EGRAPH_LIMITS, cost_in_loops, costs, &report);
        if (setting_int(SETTING_DEBUG) >= 5) show(own, all, best, &report);
        if (best != all) sink = replaced(own, order, &roots, best);
    }
    arena_destroy(costs);
    arena_destroy(own);
    return sink;
}

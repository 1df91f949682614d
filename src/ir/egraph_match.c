// egraph_match: finds a row's pattern among the classes: any node of a class may stand for it.
// In: an e-graph that is rebuilt, a rule. Out: right sides as nodes over members of the classes
// that matched.
// Invariant: the e-graph is only read; how much is tried is bounded by counts.
// Example: x*c0 + x*c1 at a class that holds ADD({y, MUL(a, 4)}, {MUL(a, 2)}): x = a, c0 = 4, c1 =
// 2.
#include "ir/egraph_private.h"

enum { STEPS_A_MATCH = 100 };

typedef struct Search {
    EGraph *e;
    const Rule *rule;
    Match match;
    ClassId var_class[RULE_VARS], root;
    Bounds var_bounds[RULE_VARS];
    FoundList *found;
    int left, steps;         // matches and node visits that are still allowed
} Search;

typedef struct Goal { const RuleTerm *term; ClassId c; const struct Goal *next; } Goal;

static void search_goals(Search *s, const Goal *goal);

static void accept(Search *s) {
    s->match.known = s->var_bounds;
    if (!rule_guard(s->rule, &s->match)) return;
    UOp *right = rule_build(s->rule, &s->match);
    if (!right) return;
    s->left--;
    vec_push(s->e->arena, s->found, ((Found){s->root, right, s->rule}));
}

static void search_sources(Search *s, const Goal *goal, const ENode *n, const int order[TERM_SRC]) {
    const RuleTerm *t = goal->term;
    Goal goals[TERM_SRC];
    for (int i = 0; i < t->n_src; i++)
        goals[i] = (Goal){t->src[i], class_find(s->e, n->src[order[i]]),
                          i + 1 < t->n_src ? &goals[i + 1] : goal->next};
    search_goals(s, t->n_src ? &goals[0] : goal->next);
}

static void search_node(Search *s, const Goal *goal, uint32_t number) {
    const ENode n = s->e->nodes.at[number];
    const RuleTerm *t = goal->term;
    UOp *u = n.uop;
    if (n.dead || --s->steps < 0) return;
    if (t->kind == TERM_OP ? u->op != t->op : !family_has(t->slot, u->op)) return;
    if (t->rest >= 0 || n.n_src != t->n_src || (t->dtype != DT_VOID && u->dtype != t->dtype))
        return;
    UOp *outer = s->match.family;
    if (t->kind == TERM_FAMILY) s->match.family = u;
    search_sources(s, goal, &n, (const int[]){0, 1, 2, 3});
    if (t->n_src == 2 && op_info[u->op].traits & TRAIT_COMM &&
        class_find(s->e, n.src[0]) != class_find(s->e, n.src[1]))
        search_sources(s, goal, &n, (const int[]){1, 0, 2, 3});
    s->match.family = outer;
}

static void search_var(Search *s, const Goal *goal) {
    int slot = goal->term->slot;
    const EClass *c = &s->e->classes.at[goal->c];
    if (s->match.bound >> slot & 1) {
        if (s->var_class[slot] == goal->c) search_goals(s, goal->next);
        return;
    }
    if (!(goal->term->dtypes >> c->member->dtype & 1)) return;
    s->match.bound |= 1u << slot;
    s->match.var[slot] = c->member;
    s->var_class[slot] = goal->c;
    s->var_bounds[slot] = c->bounds;
    search_goals(s, goal->next);
    s->match.bound &= ~(1u << slot);
}

static void search_constant(Search *s, const Goal *goal) {
    int slot = goal->term->slot;
    UOp *constant = s->e->classes.at[goal->c].constant;
    if (!constant) return;
    if (s->match.bound_constants >> slot & 1) {
        if (s->match.constant[slot] == constant) search_goals(s, goal->next);
        return;
    }
    if (!(goal->term->dtypes >> constant->dtype & 1)) return;
    s->match.bound_constants |= 1u << slot;
    s->match.constant[slot] = constant;
    s->match.value[slot] = number_from_const(constant);
    search_goals(s, goal->next);
    s->match.bound_constants &= ~(1u << slot);
}

static void search_goals(Search *s, const Goal *goal) {
    if (s->left <= 0 || s->steps <= 0) return;
    if (!goal) {
        accept(s);
        return;
    }
    switch (goal->term->kind) {
    case TERM_VAR: search_var(s, goal); return;
    case TERM_CONSTANT: search_constant(s, goal); return;
    case TERM_LITERAL: {
        UOp *constant = s->e->classes.at[goal->c].constant;
        if (constant &&
            term_literal_matches(goal->term, constant->dtype, number_from_const(constant)))
            search_goals(s, goal->next);
        return;
    }
    default:
        for (size_t i = 0; i < s->e->classes.at[goal->c].nodes.len; i++)
            search_node(s, goal, s->e->classes.at[goal->c].nodes.at[i]);
    }
}

void egraph_search(EGraph *e, const Rule *rule, int matches, FoundList *found) {
    Search s = {
        .e = e, .rule = rule, .found = found, .left = matches, .steps = matches * STEPS_A_MATCH};
    for (uint32_t i = 0; i < e->nodes.len && s.left > 0 && s.steps > 0; i++) {
        const ENode *n = &e->nodes.at[i];
        const RuleTerm *p = rule->pattern;
        if (n->dead ||
            (p->kind == TERM_OP ? n->uop->op != p->op : !family_has(p->slot, n->uop->op)))
            continue;
        s.root = class_find(e, n->home);
        s.match.root = e->classes.at[s.root].member;
        search_node(&s, &(Goal){p, s.root, NULL}, i);
    }
}

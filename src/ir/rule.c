// rule: rule sets, and matching one rule at one node. See rule.h for the language.
// In: rows and a node. Out: the node that the first fitting rule makes of it.
// Invariant: a set is parsed once a process, under a lock; matching allocates nothing.
// Example: pattern x*c0 + y at (a + b*4): the first order fails (a is no product), the second binds
// x=b c0=4 y=a.
#include "ir/rule.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "ir/rule_parse.h"

struct RuleCounter { _Atomic uint64_t tries, hits; };

// ---------------------------------------------------------------- sets

static bool root_may_be(const RuleTerm *pattern, Op op) {
    return pattern->kind == TERM_FAMILY ? family_has(pattern->slot, op) : pattern->op == op;
}

static RuleTable *table_make(Arena *arena, const RuleSet *set, Error *err) {
    RuleTable *t = arena_new(arena, sizeof *t);
    t->n_rules = set->n_rows;
    t->rules = arena_new(arena, (size_t)set->n_rows * sizeof *t->rules);
    t->counters = arena_new(arena, (size_t)set->n_rows * sizeof *t->counters);
    for (int i = 0; i < set->n_rows; i++)
        if (!rule_parse(arena, set, &set->rows[i], &t->rules[i], err)) return NULL;
    for (int op = 0; op < OP_COUNT; op++) {
        t->by_op[op] = arena_new(arena, (size_t)set->n_rows * sizeof *t->by_op[op]);
        for (int i = 0; i < set->n_rows; i++)
            if (!set->rows[i].grows && root_may_be(t->rules[i].pattern, (Op)op))
                t->by_op[op][t->n_by_op[op]++] = &t->rules[i];
    }
    return t;
}

bool ruleset_check(const RuleSet *set, Error *err) {
    Arena *arena = arena_create();
    bool ok = table_make(arena, set, err) != NULL;
    arena_destroy(arena);
    return ok;
}

const RuleTable *ruleset_table(const RuleSet *set) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static Arena *forever;            // parsed sets live as long as the process
    RuleTable *t = atomic_load_explicit(set->table, memory_order_acquire);
    if (t) return t;
    pthread_mutex_lock(&lock);
    t = atomic_load_explicit(set->table, memory_order_relaxed);
    if (!t) {
        Error err = {0};
        if (!forever) forever = arena_create();
        t = table_make(forever, set, &err);
        if (!t) BUG("%s", err.text);
        atomic_store_explicit(set->table, t, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return t;
}

RuleCount ruleset_count(const RuleSet *set, int row) {
    struct RuleCounter *c = &ruleset_table(set)->counters[row];
    return (RuleCount){atomic_load_explicit(&c->tries, memory_order_relaxed),
                       atomic_load_explicit(&c->hits, memory_order_relaxed)};
}

void ruleset_count_add(const RuleSet *set, int row, RuleCount more) {
    struct RuleCounter *c = &ruleset_table(set)->counters[row];
    atomic_fetch_add_explicit(&c->tries, more.tries, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->hits, more.hits, memory_order_relaxed);
}

uint64_t rule_child_ops(const UOp *u) {
    uint64_t bits = 0;
    for (int i = 0; i < u->n_src; i++) {
        Op op = u->src[i]->op == OP_VCONST ? OP_CONST : u->src[i]->op;
        bits |= 1ull << (op % 64);
    }
    return bits;
}

// ---------------------------------------------------------------- constants

bool rule_constant(const UOp *u, Number *value) {
    if (u->op != OP_CONST && u->op != OP_VCONST) return false;
    for (int i = 1; i < u->n_arg; i++) if (u->arg[i] != u->arg[0]) return false;
    memcpy(value, u->arg, sizeof *value);
    return true;
}

bool term_literal_matches(const RuleTerm *literal, DType dtype, Number value) {
    if (literal->dtypes && !(literal->dtypes >> dtype & 1)) return false;
    if (!dtype_is_float(dtype)) return !literal->is_float && value.i == literal->i;
    return value.f == literal->f && !signbit(value.f) == !signbit(literal->f);
}

UOp *rule_make_constant(const UOp *like, DType dtype, Number value) {
    if (like->ndim != 0) return NULL;
    UOp *one = number_to_const(like->graph, dtype, value);
    if (like->lanes == 1) return one;
    int64_t lanes[256];
    if (like->lanes > 256) return NULL;
    for (int i = 0; i < like->lanes; i++) lanes[i] = one->arg[0];
    return uop_new(like->graph, OP_VCONST, dtype, like->lanes, NULL, 0, lanes, like->lanes);
}

// ---------------------------------------------------------------- matching

typedef struct Matcher {
    const Rule *rule;
    RewriteContext *ctx;
    Match match;
    UOp *result;
} Matcher;

// What is left to match: a list on the C stack, as long as the pattern is big.
typedef struct Goal { const RuleTerm *term; UOp *u; const struct Goal *next; } Goal;

static bool match_goals(Matcher *m, const Goal *goal);

static bool accept(Matcher *m) {
    if (m->rule->row->action) {
        if (!rule_guard(m->rule, &m->match)) return false;
        m->result = m->rule->row->action(m->ctx, &m->match);
    } else {
        if (!rule_guard(m->rule, &m->match)) return false;
        m->result = rule_build(m->rule, &m->match);
    }
    return m->result && m->result != m->match.root;
}

static bool match_sources(Matcher *m, const Goal *goal, const int order[TERM_SRC]) {
    const RuleTerm *t = goal->term;
    Goal goals[TERM_SRC];
    for (int i = 0; i < t->n_src; i++)
        goals[i] = (Goal){t->src[i], goal->u->src[order[i]],
                          i + 1 < t->n_src ? &goals[i + 1] : goal->next};
    return match_goals(m, t->n_src ? &goals[0] : goal->next);
}

static bool match_op(Matcher *m, const Goal *goal) {
    const RuleTerm *t = goal->term;
    UOp *u = goal->u;
    if (t->kind == TERM_OP ? u->op != t->op : !family_has(t->slot, u->op)) return false;
    if (t->rest >= 0 ? u->n_src < t->n_src : u->n_src != t->n_src) return false;
    if (t->dtype != DT_VOID && u->dtype != t->dtype) return false;
    if (t->rest >= 0) {
        m->match.rest[t->rest] = u->src + t->n_src;
        m->match.n_rest[t->rest] = u->n_src - t->n_src;
    }
    UOp *outer = m->match.family;
    if (t->kind == TERM_FAMILY) m->match.family = u;
    if (match_sources(m, goal, (const int[]){0, 1, 2, 3})) return true;
    bool both = t->n_src == 2 && u->n_src == 2 && op_info[u->op].traits & TRAIT_COMM &&
                u->src[0] != u->src[1];
    if (both && match_sources(m, goal, (const int[]){1, 0, 2, 3})) return true;
    m->match.family = outer;
    return false;
}

static bool match_var(Matcher *m, const Goal *goal) {
    uint32_t bit = 1u << goal->term->slot;
    UOp *u = goal->u;
    if (m->match.bound & bit)
        return m->match.var[goal->term->slot] == u && match_goals(m, goal->next);
    if (!(goal->term->dtypes >> u->dtype & 1)) return false;
    m->match.bound |= bit;
    m->match.var[goal->term->slot] = u;
    if (match_goals(m, goal->next)) return true;
    m->match.bound &= ~bit;
    return false;
}

static bool match_constant(Matcher *m, const Goal *goal) {
    Number value;
    int slot = goal->term->slot;
    uint32_t bit = 1u << slot;
    UOp *u = goal->u;
    if (m->match.bound_constants & bit)
        return m->match.constant[slot] == u && match_goals(m, goal->next);
    if (!(goal->term->dtypes >> u->dtype & 1) || !rule_constant(u, &value)) return false;
    m->match.bound_constants |= bit;
    m->match.constant[slot] = u;
    m->match.value[slot] = value;
    if (match_goals(m, goal->next)) return true;
    m->match.bound_constants &= ~bit;
    return false;
}

static bool match_goals(Matcher *m, const Goal *goal) {
    Number value;
    if (!goal) return accept(m);
    switch (goal->term->kind) {
    case TERM_VAR: return match_var(m, goal);
    case TERM_CONSTANT: return match_constant(m, goal);
    case TERM_LITERAL:
        return rule_constant(goal->u, &value) &&
               term_literal_matches(goal->term, goal->u->dtype, value) &&
               match_goals(m, goal->next);
    default: return match_op(m, goal);
    }
}

UOp *rule_apply(const Rule *rule, RewriteContext *ctx, UOp *u) {
    Matcher m;
    m.rule = rule;
    m.ctx = ctx;
    m.result = NULL;
    m.match.root = u;
    m.match.bound = m.match.bound_constants = 0;
    m.match.family = NULL;
    m.match.known = NULL;
    return match_goals(&m, &(Goal){rule->pattern, u, NULL}) ? m.result : NULL;
}

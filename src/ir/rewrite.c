// rewrite: the greedy bottom-up rewriter. See rewrite.h.
// In: a root and rule sets. Out: the node where no rule fires any more, below it neither.
// Invariant: a node's state only moves forward: NEW, SOURCES (its sources are being finished), WAIT
// (it became another node, which is being finished), DONE.
// Example: (x + 0)*1: the sum is finished first (x), then x*1 is tried and becomes x.
#include "ir/rewrite.h"

#include <stdio.h>
#include <string.h>

#include "base/settings.h"
#include "base/vec.h"
#include "ir/textform.h"

enum { LAST_RULES = 20, FREE_STEPS = 100000, STEPS_A_NODE = 100, SHOWN_DEPTH = 6 };

typedef enum State { NEW, SOURCES, WAIT, DONE } State;
typedef struct Entry {
    UOp *key, *result;
    State state;
} Entry;   // result: while WAIT the node that it became
typedef struct Slot { UOp *key; size_t entry; } Slot;

typedef struct Rewriter {
    Arena *arena;
    RewriteContext ctx;
    const RuleSet *const *sets;
    const RuleTable **tables;
    RuleCount **counts;              // of this run, by set and row
    int n_sets;
    VEC(Entry) entries;              // in order of discovery
    Slot *slots;                     // open addressing: node → entry
    size_t n_slots;
    size_t old_nodes, old_ids;       // visited nodes that the graph had when the run began
    const Rule *last[LAST_RULES];
    VEC(size_t) stack;               // of entries
    RewriteStats stats;
    bool prints, is_whole;           // whole: the root is a SINK, statements included
} Rewriter;

// ---------------------------------------------------------------- the memo

enum { FIRST_SLOTS = 1 << 8 };

static size_t slot_home(const UOp *u, size_t n_slots) {
    return (size_t)(((uintptr_t)u >> 4) * 0x9E3779B97F4A7C15u >> 24) & (n_slots - 1);
}

static void slots_grow(Rewriter *r) {
    r->n_slots = r->n_slots ? r->n_slots * 2 : FIRST_SLOTS;
    r->slots = arena_new(r->arena, r->n_slots * sizeof *r->slots);
    for (size_t i = 0; i < r->entries.len; i++) {
        size_t at = slot_home(r->entries.at[i].key, r->n_slots);
        while (r->slots[at].key) at = (at + 1) & (r->n_slots - 1);
        r->slots[at] = (Slot){r->entries.at[i].key, i};
    }
}

// The number of a node's entry, made where the node is new.
static size_t entry_of(Rewriter *r, UOp *u) {
    if (r->entries.len * 2 >= r->n_slots) slots_grow(r);
    size_t at = slot_home(u, r->n_slots);
    while (r->slots[at].key && r->slots[at].key != u) at = (at + 1) & (r->n_slots - 1);
    if (r->slots[at].key) return r->slots[at].entry;
    r->slots[at] = (Slot){u, r->entries.len};
    vec_push(r->arena, &r->entries, ((Entry){u, NULL, NEW}));
    r->stats.nodes++;
    r->old_nodes += u->id < r->old_ids;
    return r->entries.len - 1;
}

// ---------------------------------------------------------------- one step

static void budget_check(Rewriter *r) {
    if ((size_t)r->stats.rewrites < FREE_STEPS + STEPS_A_NODE * r->old_nodes) return;
    TextBuilder b = builder(r->arena);
    for (int i = 0; i < LAST_RULES; i++) {
        const Rule *rule = r->last[(r->stats.rewrites + i) % LAST_RULES];
        if (rule)
            builder_printf(&b, " %s (%s:%d)", rule->row->name, rule->row->file, rule->row->line);
    }
    BUG("pass \"%s\" does not end: %lld rewrites of %zu nodes; the last rules were%s", r->ctx.pass,
        (long long)r->stats.rewrites, r->old_nodes, builder_cstr(&b));
}

void derivation_print(const char *pass, const char *step, const char *file, int line, UOp *before, UOp *after) {
    if (setting_int(SETTING_DEBUG) < 6) return;
    Arena *arena = arena_create();
    fprintf(stderr, "%s: %s (%s:%d)\n    %s\n  → %s\n", pass, step, file, line,
            textform_expression(arena, before, SHOWN_DEPTH), textform_expression(arena, after, SHOWN_DEPTH));
    arena_destroy(arena);
}

static void print_rewrite(Rewriter *r, const Rule *rule, UOp *before, UOp *after) {
    if (!r->prints) return;
    const RuleRow *row = rule ? rule->row : NULL;
    derivation_print(r->ctx.pass, row ? row->name : "constants", row ? row->file : "eval", row ? row->line : 0, before, after);
}

static UOp *apply_rules(Rewriter *r, UOp *u) {
    uint64_t missing = ~rule_child_ops(u);
    for (int s = 0; s < r->n_sets; s++) {
        const Rule **rules = r->tables[s]->by_op[u->op];
        for (int i = 0, n = r->tables[s]->n_by_op[u->op]; i < n; i++) {
            const Rule *rule = rules[i];
            if (rule->child_ops & missing) continue;
            RuleCount *count = &r->counts[s][rule->index];
            count->tries++;
            r->stats.tries++;
            UOp *made = rule_apply(rule, &r->ctx, u);
            if (!made) continue;
            count->hits++;
            r->last[r->stats.rewrites++ % LAST_RULES] = rule;
            print_rewrite(r, rule, u, made);
            budget_check(r);
            return made;
        }
    }
    return NULL;
}

// u's sources are finished. What it becomes next, or NULL.
static UOp *step(Rewriter *r, UOp *u) {
    UOp *constant = rewrite_fold(u);
    if (!constant) return apply_rules(r, u);
    r->stats.folds++;
    print_rewrite(r, NULL, u, constant);
    return constant;
}

// A value does not change the statements that its loads wait for: they belong to the kernel.
static int sources_of(const Rewriter *r, const UOp *u) {
    return u->op == OP_AFTER && !r->is_whole ? 1 : u->n_src;
}

static UOp *with_finished_sources(Rewriter *r, UOp *u) {
    UOp *few[8], **src = few;
    bool changed = false;
    if (u->n_src > 8) src = arena_new(r->arena, u->n_src * sizeof *src);
    for (int i = 0; i < u->n_src; i++) {
        const Entry *e = i < sources_of(r, u) ? &r->entries.at[entry_of(r, u->src[i])] : NULL;
        src[i] = e && e->state == DONE ? e->result : u->src[i];
        changed |= src[i] != u->src[i];
    }
    return changed ? uop_with_src(u, src) : u;
}

// ---------------------------------------------------------------- the walk

static void finish(Rewriter *r, size_t at, UOp *result) {
    r->entries.at[at].state = DONE;
    r->entries.at[at].result = result;
    r->stack.len--;
}

// The node is known to equal next: wait for that, unless it is finished or waits for this one.
static void become(Rewriter *r, size_t at, UOp *next) {
    size_t target = entry_of(r, next);
    if (r->entries.at[target].state == DONE) {
        finish(r, at, r->entries.at[target].result);
    } else if (r->entries.at[target].state != NEW) {
        r->stats.loops++;
        finish(r, at, r->entries.at[at].key);
    } else {
        r->entries.at[at].state = WAIT;
        r->entries.at[at].result = next;
        vec_push(r->arena, &r->stack, target);
    }
}

static void visit(Rewriter *r, size_t at) {
    UOp *u = r->entries.at[at].key;
    switch (r->entries.at[at].state) {
    case NEW:
        r->entries.at[at].state = SOURCES;
        for (int i = sources_of(r, u); i-- > 0;) {
            size_t source = entry_of(r, u->src[i]);
            if (r->entries.at[source].state == NEW) vec_push(r->arena, &r->stack, source);
        }
        return;
    case SOURCES: {
        UOp *same = with_finished_sources(r, u);
        UOp *next = same != u ? same : step(r, u);
        if (next) become(r, at, next);
        else finish(r, at, u);
        return;
    }
    case WAIT: {
        const Entry *target = &r->entries.at[entry_of(r, r->entries.at[at].result)];
        finish(r, at, target->state == DONE ? target->result : target->key);
        return;
    }
    case DONE: r->stack.len--; return;
    }
}

static void counts_flush(Rewriter *r, RewriteStats *stats) {
    for (int s = 0; s < r->n_sets; s++)
        for (int i = 0; i < r->tables[s]->n_rules; i++)
            if (r->counts[s][i].tries) ruleset_count_add(r->sets[s], i, r->counts[s][i]);
    if (!stats) return;
    stats->nodes += r->stats.nodes;
    stats->tries += r->stats.tries;
    stats->rewrites += r->stats.rewrites;
    stats->folds += r->stats.folds;
    stats->loops += r->stats.loops;
}

UOp *rewrite_with(UOp *root, const RuleSet *const *sets, int n_sets, const char *pass_name,
                  void *user, RewriteStats *stats) {
    Arena *arena = arena_create();
    Rewriter r = {.arena = arena,
                  .ctx = {root->graph, pass_name, user},
                  .sets = sets,
                  .n_sets = n_sets,
                  .is_whole = root->op == OP_SINK,
                  .old_ids = graph_size(root->graph),
                  .prints = setting_int(SETTING_DEBUG) >= 6};
    r.tables = arena_new(arena, (size_t)n_sets * sizeof *r.tables);
    r.counts = arena_new(arena, (size_t)n_sets * sizeof *r.counts);
    for (int s = 0; s < n_sets; s++) {
        r.tables[s] = ruleset_table(sets[s]);
        r.counts[s] = arena_new(arena, (size_t)r.tables[s]->n_rules * sizeof **r.counts);
    }
    vec_push(arena, &r.stack, entry_of(&r, root));
    while (r.stack.len) visit(&r, r.stack.at[r.stack.len - 1]);
    UOp *result = r.entries.at[entry_of(&r, root)].result;
    counts_flush(&r, stats);
    arena_destroy(arena);
    return result;
}

UOp *rewrite(UOp *root, const RuleSet *const *sets, int n_sets, const char *pass_name,
             RewriteStats *stats) {
    return rewrite_with(root, sets, n_sets, pass_name, NULL, stats);
}

// ---------------------------------------------------------------- constants

static bool is_vector_constant(const UOp *u) { return u->op == OP_CONST || u->op == OP_VCONST; }

static Number lane_of(const UOp *constant, int lane) {
    Number n;
    memcpy(&n, &constant->arg[constant->n_arg > 1 ? lane : 0], sizeof n);
    return n;
}

static UOp *make_vector(UOp *u, const Number *lanes) {
    int64_t *arg = arena_new(graph_arena(u->graph), u->lanes * sizeof *arg);
    for (int i = 0; i < u->lanes; i++)
        arg[i] = number_to_const(u->graph, u->dtype, lanes[i])->arg[0];
    return uop_new(u->graph, OP_VCONST, u->dtype, u->lanes, NULL, 0, arg, u->lanes);
}

enum { FOLD_LANES = 256 };

static UOp *fold_lanes(UOp *u) {
    Number lanes[FOLD_LANES], args[3];
    DType operand = u->src[u->op == OP_WHERE]->dtype;
    for (int i = 0; i < u->lanes; i++) {
        for (int k = 0; k < u->n_src; k++) args[k] = lane_of(u->src[k], i);
        if (u->op == OP_CAST) lanes[i] = number_cast(operand, u->dtype, args[0]);
        else if (!eval_op(u->op, operand, args, &lanes[i])) return NULL;
        else lanes[i] = number_wrap(u->dtype, lanes[i]);
    }
    return make_vector(u, lanes);
}

static UOp *fold_parts(UOp *u) {
    Number lanes[FOLD_LANES];
    int n = 0;
    if (u->op == OP_SHUFFLE)
        for (; n < u->lanes; n++) lanes[n] = lane_of(u->src[0], (int)u->arg[n]);
    else
        for (int k = 0; k < u->n_src; k++)
            for (int i = 0; i < u->src[k]->lanes; i++) lanes[n++] = lane_of(u->src[k], i);
    return u->lanes == 1 ? number_to_const(u->graph, u->dtype, lanes[0]) : make_vector(u, lanes);
}

UOp *rewrite_fold(UOp *u) {
    bool parts = u->op == OP_VCAT || u->op == OP_SHUFFLE;
    if ((!op_is_elementwise((Op)u->op) && !parts) || u->n_src == 0 || u->ndim != 0 || u->lanes > FOLD_LANES)
        return NULL;
    for (int i = 0; i < u->n_src; i++) if (!is_vector_constant(u->src[i])) return NULL;
    if (parts) return fold_parts(u);
    bool scalar = u->lanes == 1;
    for (int i = 0; i < u->n_src; i++) scalar &= u->src[i]->op == OP_CONST && u->src[i]->lanes == 1;
    if (scalar) return eval_fold_constants(u);
    return u->op == OP_BITCAST || u->op == OP_DOT4 ? NULL : fold_lanes(u);
}

// forward: on targets where threads share a tile, what a statement stored need not be waited for by the next one.
// In: kernels. Out: the same; a load of what an earlier statement of the kernel stored becomes the value itself, where that
// is cheaper than a barrier and a way through memory, or where nothing else reads it: then it is not stored any more.
// Invariant: the value is what the load would have found: same operations on the same elements.
// Example: s[b] = max_j |x[b, j]| / 127; p[b, j] = round(x[b, j] / s[b]): p has the maximum within it; s is stored for others.
// Example: g[r] = Σ…; y[r] = silu(g[r]) · Σ…: one statement with two sums, and no g.
#include "ir/bounds.h"
#include "schedule/schedule.h"

static const double CHEAP = 32768;   // operations in a tile that its threads do while they would wait for a barrier

enum { MAX_LOOPS = 32, MAX_TERMS = 16, SHORT_TRIPS = 64 };

// Loops of a store and what they are in a reader.
typedef struct Places { UOp *const *loops; int n; UOp *is[MAX_LOOPS]; } Places;

static bool same_index(Places *m, UOp *of, UOp *want);

// Whether one is the other with other values of the loops, operand by operand.
static bool same_form(Places *m, UOp *of, UOp *want) {
    for (int i = 0; i < m->n; i++) {
        if (of != m->loops[i]) continue;
        if (!m->is[i]) m->is[i] = want;
        return m->is[i] == want;
    }
    if (of == want) return true;
    if (of->op != want->op || of->dtype != want->dtype || of->n_src != want->n_src || of->n_arg != want->n_arg || of->op == OP_RANGE) return false;
    for (int i = 0; i < of->n_arg; i++) if (of->arg[i] != want->arg[i]) return false;
    for (int i = 0; i < of->n_src; i++) if (!same_index(m, of->src[i], want->src[i])) return false;
    return of->n_src > 0;
}

// Whether two folds are the same but for their loops.
static bool same_fold(UOp *a, UOp *b) {
    Places m = {.loops = a->src + 1, .n = a->n_src - 1};
    if (a->op != OP_FOLD || b->op != OP_FOLD || a->n_src != b->n_src || m.n > MAX_LOOPS || a->arg[0] != b->arg[0] || a->arg[1] != b->arg[1]) return false;
    for (int i = 0; i < m.n; i++)
        if (!range_is_static(m.loops[i]) || !range_is_static(b->src[1 + i]) || range_size(m.loops[i]) != range_size(b->src[1 + i])) return false;
    if (!same_index(&m, a->src[0], b->src[0])) return false;
    for (int i = 0; i < m.n; i++) if (m.is[i] != b->src[1 + i]) return false;
    return true;
}

// A value in which folds that are the same are one.
static UOp *folds_shared(Arena *arena, UOp *value) {
    UOpList order = uop_toposort_value(arena, value);
    for (size_t i = 0; i < order.len; i++)
        for (size_t k = 0; k < i && order.at[i]->op == OP_FOLD; k++)
            if (same_fold(order.at[k], order.at[i])) return folds_shared(arena, uop_substitute(value, &order.at[i], &order.at[k], 1));
    return value;
}

typedef struct Terms { UOp *at[MAX_TERMS]; int n; } Terms;

static bool add_terms(Terms *t, UOp *u) {
    if (u->op == OP_ADD) return add_terms(t, u->src[0]) && add_terms(t, u->src[1]);
    if (t->n == MAX_TERMS) return false;
    t->at[t->n++] = u;
    return true;
}

static void term_drop(Terms *t, int i) { t->at[i] = t->at[--t->n]; }

// Whether index `want` is index `of` with other values of its loops: sums in any order. What is left over is a loop's alone.
static bool same_index(Places *m, UOp *of, UOp *want) {
    Terms left = {.n = 0}, terms = {.n = 0};
    if (of->op != OP_ADD && want->op != OP_ADD) return same_form(m, of, want);
    if (!add_terms(&terms, of) || !add_terms(&left, want)) return false;
    for (int bare = 0; bare < 2; bare++)   // loops without a factor match anything: last
        for (int i = terms.n; i-- > 0;) {
            if ((terms.at[i]->op == OP_RANGE) != bare) continue;
            for (int k = 0; k < left.n; k++) {
                Places tried = *m;
                if ((bare && terms.n == 1 && left.n > 1) || !same_form(&tried, terms.at[i], left.at[k])) continue;
                *m = tried;
                term_drop(&left, k), term_drop(&terms, i);
                break;
            }
        }
    if (terms.n != 1 || left.n < 1) return terms.n == 0 && left.n == 0;
    UOp *rest = left.at[0];
    for (int k = 1; k < left.n; k++) rest = uop_binary(OP_ADD, rest, left.at[k]);
    return same_form(m, terms.at[0], simplify(rest));
}

// Every loop has a value, and one that the loop could have.
static bool are_places(const Places *m) {
    for (int i = 0; i < m->n; i++) {
        if (!m->is[i]) return false;
        Bounds b = bounds_of(m->is[i]);
        if (b.lo < 0 || b.hi >= range_size(m->loops[i])) return false;
    }
    return true;
}

// Stores to a buffer, and loads from it, in all kernels.
typedef struct Traffic { int stores, loads; } Traffic;
typedef struct Forward { Arena *arena; Schedule *schedule; UOpMap traffic; } Forward;

static Traffic *traffic_of(Forward *f, UOp *address) {
    UOp *buffer = uop_buffer_of(address);
    Traffic *t = uop_map_get(&f->traffic, buffer);
    if (!t) uop_map_put(&f->traffic, buffer, t = arena_new(f->arena, sizeof *t));
    return t;
}

// by: 1 for a statement that is there, −1 for one that is gone.
static void count_statement(Forward *f, UOp *store, int by) {
    UOpList order = uop_toposort_value(f->arena, store);
    for (size_t n = 0; n < order.len; n++) if (order.at[n]->op == OP_LOAD) traffic_of(f, order.at[n]->src[0])->loads += by;
    traffic_of(f, store->src[0])->stores += by;
}

// Whether what the store's value reads is still there at statement i.
static bool reads_what_stays(Arena *arena, const Kernel *kernel, size_t store, size_t reader) {
    UOpList order = uop_toposort_value(arena, kernel->stores.at[store]->src[1]);
    for (size_t n = 0; n < order.len; n++)
        for (size_t i = store; i <= reader && order.at[n]->op == OP_LOAD; i++)
            if (uop_buffer_of(kernel->stores.at[i]->src[0]) == uop_buffer_of(order.at[n]->src[0])) return false;
    return true;
}

// Each element is asked for once: the loops of the store are those of the reader, one by one.
static bool is_one_to_one(const Places *m, const UOp *reader) {
    if (reader->n_src - 2 != m->n) return false;
    for (int i = 0; i < m->n; i++) {
        bool is_loop = false;
        for (int k = 2; k < reader->n_src; k++) is_loop |= reader->src[k] == m->is[i] && range_size(m->is[i]) == range_size(m->loops[i]);
        for (int k = 0; k < i; k++) is_loop &= m->is[k] != m->is[i];
        if (!is_loop) return false;
    }
    return true;
}

static bool all_static(const UOp *store) {
    for (int k = 2; k < store->n_src; k++) if (!range_is_static(store->src[k])) return false;
    return true;
}

// The value of a store at other values of its loops, with inner loops of its own.
static UOp *value_at_loops(Arena *arena, UOp *store, const Places *m) {
    UOp *value = loops_renewed(arena, store, NULL, NULL), *is[MAX_LOOPS];
    for (int i = 0; i < m->n; i++) is[i] = m->is[i];
    return simplify(uop_substitute(value->src[1], value->src + 2, is, m->n));
}

// Operations of a value, all steps of these loops together; not of what it waits for.
static double cost_of(Arena *arena, UOp *value, UOp *const *loops, int n) {
    UOpList order = uop_toposort_value(arena, value);
    UOp **from = arena_new(arena, (order.len + 1) * sizeof *from), **to = arena_new(arena, (order.len + 1) * sizeof *to);
    int waits = 0;
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_AFTER) from[waits] = order.at[k], to[waits++] = order.at[k]->src[0];
    value = uop_substitute(value, from, to, waits);
    return value_cost(n ? uop_fold(MONOID_MAX, 1, value, loops, n) : value);
}

static double statement_cost(Arena *arena, const UOp *store) { return cost_of(arena, store->src[1], store->src + 2, store->n_src - 2); }

// The statement that `load` of statement `reader` reads from, or kernel->stores.len.
static size_t store_of(const Kernel *kernel, const UOp *load, size_t reader) {
    size_t found = kernel->stores.len;
    if (load->op != OP_LOAD || load->n_src > 1 || load->src[0]->src[0]->op != OP_AFTER) return found;
    for (size_t i = 0; i < reader; i++)
        if (uop_buffer_of(kernel->stores.at[i]->src[0]) == uop_buffer_of(load->src[0])) found = i;
    return found;
}

static bool holds_fold(Arena *arena, UOp *value) {
    UOpList order = uop_toposort_value(arena, value);
    for (size_t n = 0; n < order.len; n++) if (order.at[n]->op == OP_FOLD) return true;
    return false;
}

// Whether a value may be computed again: its sums are short, and none stands in another.
static bool is_short(Arena *arena, UOp *value) {
    UOpList order = uop_toposort_value(arena, value);
    for (size_t n = 0; n < order.len; n++) {
        UOp *u = order.at[n];
        double trips = 1;
        if (u->op != OP_FOLD) continue;
        for (int i = 1; i < u->n_src; i++) trips *= (double)range_size(u->src[i]);
        if (trips > SHORT_TRIPS || holds_fold(arena, u->src[0])) return false;
    }
    return true;
}

// Whether it stands in an address of the statement.
static bool is_address(Arena *arena, const UOp *store, const UOp *load) {
    UOpList order = uop_toposort_value(arena, store->src[1]);
    for (size_t n = 0; n < order.len; n++) {
        if (order.at[n]->op != OP_INDEX) continue;
        UOpList index = uop_toposort_value(arena, order.at[n]->src[1]);
        for (size_t i = 0; i < index.len; i++) if (index.at[i] == load) return true;
    }
    return false;
}

// Statement `reader` with the value itself in place of a load, or NULL. *at: the statement that stored it.
static UOp *forwarded(Forward *f, const Kernel *kernel, UOp *load, size_t reader, size_t *at) {
    *at = store_of(kernel, load, reader);
    if (*at == kernel->stores.len) return NULL;
    UOp *store = kernel->stores.at[*at], *old = kernel->stores.at[reader];
    const Temp *temp = schedule_temp_find(f->schedule, uop_buffer_of(store->src[0])->arg[0]);
    const Traffic *t = traffic_of(f, store->src[0]);
    Places m = {.loops = store->src + 2, .n = store->n_src - 2};
    if (!temp || t->stores != 1 || m.n > MAX_LOOPS || !all_static(store) || !same_index(&m, store->src[0]->src[1], load->src[0]->src[1]) || !are_places(&m))
        return NULL;
    if (!reads_what_stays(f->arena, kernel, *at, reader)) return NULL;
    if (holds_fold(f->arena, store->src[1]) && is_address(f->arena, old, load)) return NULL;   // sums in addresses are not known
    bool is_free = !temp->is_output && t->loads == 1 && is_one_to_one(&m, old);
    if (!is_free && !is_short(f->arena, store->src[1])) return NULL;
    UOp *value = value_at_loops(f->arena, store, &m);
    UOp *now = uop_store_as(old, old->src[0], folds_shared(f->arena, simplify(uop_substitute(old->src[1], &load, &value, 1))), old->src + 2, old->n_src - 2);
    return is_free || statement_cost(f->arena, now) - statement_cost(f->arena, old) <= CHEAP ? now : NULL;
}

static void statement_replace(Forward *f, Kernel *kernel, size_t at, UOp *now) {
    UOp *old = kernel->stores.at[at];
    count_statement(f, old, -1);
    count_statement(f, now, 1);
    kernel->stores.at[at] = now;
    for (size_t i = at + 1; i < kernel->stores.len; i++) kernel->stores.at[i] = uop_substitute(kernel->stores.at[i], &old, &now, 1);
}

// Takes out a statement whose temporary nobody reads.
static bool statement_drop(Forward *f, Kernel *kernel, size_t at) {
    UOp *store = kernel->stores.at[at];
    const Temp *temp = schedule_temp_find(f->schedule, uop_buffer_of(store->src[0])->arg[0]);
    if (!temp || temp->is_output || traffic_of(f, store->src[0])->loads > 0) return false;
    count_statement(f, store, -1);
    for (size_t i = at + 1; i < kernel->stores.len; i++) kernel->stores.at[i - 1] = kernel->stores.at[i];
    kernel->stores.len--;
    return true;
}

// Replaces one load of a statement; false where there is none left. *reader moves down with what is dropped.
static bool forward_one(Forward *f, Kernel *kernel, size_t *reader) {
    UOpList order = uop_toposort_value(f->arena, kernel->stores.at[*reader]->src[1]);
    for (size_t n = 0; n < order.len; n++) {
        size_t at;
        UOp *now = forwarded(f, kernel, order.at[n], *reader, &at);
        if (!now) continue;
        statement_replace(f, kernel, *reader, now);
        if (statement_drop(f, kernel, at)) --*reader;
        return true;
    }
    return false;
}

void schedule_forward(Schedule *s, KernelList *kernels) {
    Forward f = {.arena = s->arena, .schedule = s};
    if (s->wishes.width <= 0) return;
    uop_map_init(&f.traffic, s->arena);
    for (size_t k = 0; k < kernels->len; k++)
        for (size_t i = 0; i < kernels->at[k].stores.len; i++) count_statement(&f, kernels->at[k].stores.at[i], 1);
    for (size_t k = 0; k < kernels->len; k++)
        for (size_t i = 0; i < kernels->at[k].stores.len; i++) while (forward_one(&f, &kernels->at[k], &i)) {}
}

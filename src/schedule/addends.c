// addends: the steps of a sum that is short but long in each step, such as that over the experts of a token, are shared out
// over tiles where its elements alone leave most of the target idle (the move that is called split-K).
// In: items, and which form such sums shall have (schedule.sums). Out: the same values.
//   parts: each step's addend stands in a place of its own, and who stores the sum adds them up, in order.
//   atomic: the rest of the value is stored first, and each step adds to it; in what order, nobody knows.
// Invariant: a sum that is shared out is read by other kernels than make it (Temp.is_shared). What is added beside it and holds
// sums itself is made apart, as early as what it reads is there.
// Example: y[r] = x[r] + Σ_e w[e]·Σ_k …: y[r] = x[r]; for e: y[r] += w[e]·Σ_k …
#include "schedule/schedule.h"

enum { MOST_STEPS = 16, MOST_TERMS = 16, TILE_ELEMENTS = 32 };   // elements: a tile may have so few

typedef struct Terms { UOp *at[MOST_TERMS]; int n; } Terms;

// The terms of a sum; false where they are too many.
static bool find_terms(UOp *u, Terms *t) {
    if (u->op == OP_ADD) return find_terms(u->src[0], t) && find_terms(u->src[1], t);
    if (t->n == MOST_TERMS) return false;
    t->at[t->n++] = u;
    return true;
}

static int64_t step_count(const UOp *fold) {
    int64_t n = 1;
    for (int i = 1; i < fold->n_src && n <= MOST_STEPS; i++) n = range_is_static(fold->src[i]) ? n * range_size(fold->src[i]) : MOST_STEPS + 1;
    return n;
}

static bool is_sum_of_sums(Arena *arena, const UOp *u) {
    if (u->op != OP_FOLD || u->arg[0] != MONOID_SUM || u->dtype != DT_F32) return false;
    int64_t steps = step_count(u);
    return steps > 1 && steps <= MOST_STEPS && holds_op(arena, u->src[0], OP_FOLD);
}

static bool is_apart(UOp *u, UOp *fold) {
    UOpList order = uop_toposort(graph_arena(u->graph), u);
    for (size_t k = 0; k < order.len; k++) if (order.at[k] == fold) return false;
    return true;
}

// The costliest sum among the terms that may be shared out: one that no other term needs too.
static UOp *find_sum(Arena *arena, const Terms *t) {
    UOp *best = NULL;
    double most = 0;
    for (int i = 0; i < t->n; i++) {
        double cost = is_sum_of_sums(arena, t->at[i]) ? value_cost(t->at[i]) : 0;
        bool is_alone = cost > most;
        for (int k = 0; k < t->n && is_alone; k++) is_alone = k == i || is_apart(t->at[k], t->at[i]);
        if (is_alone) most = cost, best = t->at[i];
    }
    return best;
}

// Whether it is likely to pay: what starting one more kernel costs is less than a step for all elements, and the elements are
// not enough for all tiles that run at once, twice.
static bool may_pay(const Schedule *s, const UOp *sum, double elements) {
    double width = s->wishes.width, step = value_cost(sum->src[0]);
    return width > 0 && elements < 2 * TILE_ELEMENTS * width && step * elements >= s->wishes.sync_work;
}

static UOp *sum_of(Graph *g, Terms *t) {
    UOp *sum = t->n ? t->at[0] : uop_float(g, DT_F32, 0);
    for (int i = 1; i < t->n; i++) sum = uop_binary(OP_ADD, sum, t->at[i]);
    return sum;
}

typedef VEC(Item) Items;

static void add_item(Schedule *s, Items *out, UOp *store, bool is_part) {
    Item item = {.store = loops_renewed(s->arena, store, NULL, NULL), .buffer = store->src[0]->src[0]->arg[0], .is_part = is_part};
    vec_push(s->arena, out, item);
}

// The steps of the sum as loops of a store, outermost: *value becomes the addend of one step. Their number in all counts from 0.
static UOp *steps_as_loops(UOp *sum, UOp **value, UOp **loops, int *n) {
    Graph *g = sum->graph;
    UOp *at = uop_int(g, DT_I32, 0);
    *n = 0;
    *value = sum->src[0];
    for (int i = 1; i < sum->n_src; i++) {
        UOp *loop = uop_range_const(g, range_size(sum->src[i]), RANGE_LOOP);
        *value = uop_substitute(*value, &sum->src[i], &loop, 1);
        at = uop_binary(OP_ADD, uop_binary(OP_MUL, at, uop_int(g, DT_I32, range_size(sum->src[i]))), loop);
        loops[(*n)++] = loop;
    }
    return simplify(at);
}

enum { MOST_LOOPS = 32 };

// The addend of each step, that of step s stored at `each`·s + the store's own index of `buffer`.
static UOp *store_of_steps(const UOp *store, UOp *sum, UOp *buffer, int64_t each) {
    UOp *loops[MOST_LOOPS], *value;
    int n;
    UOp *step = steps_as_loops(sum, &value, loops, &n);
    for (int i = 2; i < store->n_src; i++) loops[n++] = store->src[i];
    UOp *index = uop_binary(OP_ADD, uop_binary(OP_MUL, step, uop_int(sum->graph, DT_I32, each)), store->src[0]->src[1]);
    return uop_store(uop_index(buffer, simplify(index)), value, loops, n);
}

static UOp *held_at(UOp *buffer, UOp *index) { return uop_load(uop_index(buffer, simplify(index)), DT_F32, NULL); }

// beside: terms that hold sums, light: those that hold none; the sum is in neither.
static void share_as_parts(Schedule *s, Items *out, UOp *store, UOp *sum, Terms *beside, Terms *light) {
    Graph *g = s->graph;
    int64_t steps = step_count(sum), count = schedule_temp_find(s, store->src[0]->src[0]->arg[0])->count;
    UOp *at = store->src[0]->src[1], *parts = schedule_temp(s, DT_F32, steps * count, 0, 0);
    schedule_temp_find(s, parts->arg[0])->is_shared = true;
    if (beside->n) {
        UOp *own = schedule_temp(s, DT_F32, count, 0, 0);
        add_item(s, out, uop_store(uop_index(own, at), sum_of(g, beside), store->src + 2, store->n_src - 2), false);
        light->at[light->n++] = held_at(own, at);
    }
    add_item(s, out, store_of_steps(store, sum, parts, count), true);
    UOp *step = uop_range_const(g, steps, RANGE_REDUCE);
    UOp *part = held_at(parts, uop_binary(OP_ADD, uop_binary(OP_MUL, step, uop_int(g, DT_I32, count)), at));
    light->at[light->n++] = uop_fold(MONOID_SUM, 1, part, &step, 1);
    add_item(s, out, uop_store(store->src[0], sum_of(g, light), store->src + 2, store->n_src - 2), false);
}

static void share_as_adds(Schedule *s, Items *out, UOp *store, UOp *sum, Terms *rest) {
    UOp *buffer = store->src[0]->src[0];
    schedule_temp_find(s, buffer->arg[0])->is_shared = true;
    add_item(s, out, uop_store(store->src[0], sum_of(s->graph, rest), store->src + 2, store->n_src - 2), true);
    UOp *steps = store_of_steps(store, sum, buffer, 0);
    add_item(s, out, uop_new(s->graph, OP_ATOMIC_ADD, DT_VOID, 1, steps->src, steps->n_src, NULL, 0), true);
}

// Whether an item was shared out.
static bool share(Schedule *s, Items *out, const Item *item) {
    UOp *store = item->store, *buffer = store->src[0]->src[0];
    const Temp *temp = schedule_temp_find(s, item->buffer);
    Terms terms = {.n = 0}, beside = {.n = 0}, light = {.n = 0};
    double elements = 1;
    if (store->op != OP_STORE || item->is_part || !temp || buffer->dtype != DT_F32 || store->n_src > MOST_LOOPS / 2) return false;
    for (int i = 2; i < store->n_src; i++) {
        if (!range_is_static(store->src[i])) return false;
        elements *= (double)range_size(store->src[i]);
    }
    UOp *sum = find_terms(store->src[1], &terms) ? find_sum(s->arena, &terms) : NULL;
    if (!sum || temp->count * MOST_STEPS > INT32_MAX || sum->n_src > MOST_LOOPS / 2) return false;
    if (!s->shares_all && !may_pay(s, sum, elements)) return false;
    s->n_shared++;
    if (s->sums == SUMS_ORDERED) return false;
    for (int i = 0; i < terms.n; i++) {
        Terms *t = s->sums == SUMS_PARTS && holds_op(s->arena, terms.at[i], OP_FOLD) ? &beside : &light;
        if (terms.at[i] != sum) t->at[t->n++] = terms.at[i];
    }
    if (s->sums == SUMS_ATOMIC) share_as_adds(s, out, store, sum, &light);
    else share_as_parts(s, out, store, sum, &beside, &light);
    return true;
}

void schedule_addends(Schedule *s) {
    Items out = {0};
    for (size_t i = 0; i < s->items.len; i++)
        if (!share(s, &out, &s->items.at[i])) vec_push(s->arena, &out, s->items.at[i]);
    s->items.at = out.at, s->items.len = out.len, s->items.cap = out.cap;
}

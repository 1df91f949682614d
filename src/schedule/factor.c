// factor: sums of products in their cheapest equal form (DESIGN §4): what a reduced axis does not touch leaves the
// sum, conversions leave it behind, and what is left inside is an exact sum of integer products.
// In: items whose FOLDs add float products. Out: Σ_outer scales · f32(Σ_inner integers), where bounds prove that the
// inner sum fits 32 bits; inner sums that lack a loop of the kernel become items of their own, computed once.
// Invariant: equal over the reals; the inside is exact, so only the outer sum's roundings are left.
// Example: Σ_b Σ_j (d[b]·(f(n) − 8))·(s[b]·f(p)) → Σ_b (d·s)[b] · f(Σ_j n·p − 8·Σ_j p), and Σ_j p is its own item.
#include <math.h>
#include <string.h>

#include "ir/bounds.h"
#include "ir/rewrite.h"
#include "schedule/schedule.h"

enum { MAX_TERMS = 16, MAX_FACTORS = 12, MAX_LOOPS = 16 };
static const char PASS[] = "factor";

typedef struct Term { double coefficient; int n; UOp *factor[MAX_FACTORS]; } Term;
typedef struct Sum { int n; Term term[MAX_TERMS]; } Sum;

// ---------------------------------------------------------------- a value as a sum of products

static bool sum_add(Sum *to, const Sum *from, double sign) {
    for (int i = 0; i < from->n; i++) {
        if (to->n == MAX_TERMS) return false;
        to->term[to->n] = from->term[i];
        to->term[to->n++].coefficient *= sign;
    }
    return true;
}

static bool sum_multiply(Sum *out, const Sum *a, const Sum *b) {
    out->n = 0;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            const Term *x = &a->term[i], *y = &b->term[k];
            if (out->n == MAX_TERMS || x->n + y->n > MAX_FACTORS) return false;
            Term *t = &out->term[out->n++];
            *t = *x;
            t->coefficient *= y->coefficient;
            memcpy(t->factor + t->n, y->factor, (size_t)y->n * sizeof *y->factor);
            t->n += y->n;
        }
    return true;
}

static bool is_integer(const UOp *u) { return u->op == OP_CAST && dtype_is_float(u->dtype) && dtype_is_int(u->src[0]->dtype); }

static uint32_t touched(Arena *arena, UOp *u, UOp *const *ranges, int n) {
    UOpList free = uop_free_ranges(arena, u);
    uint32_t mask = 0;
    for (size_t i = 0; i < free.len; i++) for (int k = 0; k < n; k++) if (free.at[i] == ranges[k]) mask |= 1u << k;
    return mask;
}

// The ranges of a sum, and those that only integers depend on (0: not known yet).
typedef struct Inner { Arena *arena; UOp *const *ranges; int n; uint32_t mask; } Inner;

// f(i) + c as f(i + c), where i is the same for some of the inner sum: it is multiplied once with what is summed there,
// and apart its c would make that sum a term of its own. NULL: u is no such sum.
static UOp *whole_integer(UOp *u, const Inner *inner) {
    const int64_t exact = 1 << 24;   // in f32
    UOp *x = u->src[0], *c = u->src[1];
    if (!inner->mask || !is_integer(x) || c->op != OP_CONST || dtype_bytes(u->dtype) < 4) return NULL;
    double value = uop_const_float(c) * (u->op == OP_ADD ? 1 : -1);
    uint32_t mask = touched(inner->arena, x, inner->ranges, inner->n) & inner->mask;
    if (!mask || mask == inner->mask || value != rint(value) || fabs(value) > (double)exact) return NULL;
    UOp *sum = uop_binary(OP_ADD, uop_cast(x->src[0], DT_I32), uop_int(u->graph, DT_I32, (int64_t)value));
    Bounds b = bounds_of(sum), own = bounds_of(x->src[0]);
    bool fits = bounds_fit(sum) && own.lo >= -exact && own.hi <= exact && b.lo >= -exact && b.hi <= exact;
    if (!fits) return NULL;
    UOp *whole = uop_cast(sum, u->dtype);
    DERIVED(PASS, "float_sum_is_an_integer", u, whole);
    return whole;
}

static bool sum_of(UOp *u, const Inner *inner, Sum *out) {
    Sum a, b;
    UOp *whole = u->op == OP_ADD || u->op == OP_SUB ? whole_integer(u, inner) : NULL;
    out->n = 0;
    if (whole) u = whole;
    switch (u->op) {
    case OP_ADD: case OP_SUB:
        return sum_of(u->src[0], inner, out) && sum_of(u->src[1], inner, &b) && sum_add(out, &b, u->op == OP_ADD ? 1 : -1);
    case OP_NEG: return sum_of(u->src[0], inner, &a) && sum_add(out, &a, -1);
    case OP_MUL: return sum_of(u->src[0], inner, &a) && sum_of(u->src[1], inner, &b) && sum_multiply(out, &a, &b);
    case OP_CONST: out->n = 1, out->term[0] = (Term){.coefficient = uop_const_float(u)}; return true;
    default: out->n = 1, out->term[0] = (Term){.coefficient = 1, .n = 1, .factor = {u}}; return true;
    }
}

// ---------------------------------------------------------------- what may go inside

// The ranges that only integers depend on, in every term; 0 where no term multiplies two integers under them.
static uint32_t inner_ranges(Arena *arena, const Sum *sum, UOp *const *ranges, int n) {
    uint32_t inner = n < 32 ? (1u << n) - 1 : 0, both = 0;
    for (int t = 0; t < sum->n; t++)
        for (int i = 0; i < sum->term[t].n; i++)
            if (!is_integer(sum->term[t].factor[i])) inner &= ~touched(arena, sum->term[t].factor[i], ranges, n);
    for (int t = 0; t < sum->n; t++) {
        int integers = 0;
        for (int i = 0; i < sum->term[t].n; i++)
            integers += is_integer(sum->term[t].factor[i]) && (touched(arena, sum->term[t].factor[i], ranges, n) & inner);
        if (integers >= 2) both = inner;
    }
    return both;
}

static bool fits_i32(UOp *u, double times) {
    Bounds b = bounds_of(u);
    double largest = fmax(fabs((double)b.lo), fabs((double)b.hi)) * times;
    return largest < 2147483648.0;
}

// ---------------------------------------------------------------- values that lack a loop

typedef struct Shared { const void *key; size_t key_bytes; UOp *buffer; UOp *flat; UOp **order; int n; } Shared;
typedef struct Factoring { Schedule *schedule; Map shared; VEC(Item) out; UOp *store; } Factoring;

// Structure of an expression as bytes, with its free ranges numbered by first visit: equal for equal computations.
static const void *structure(Arena *arena, UOp *u, size_t *nbytes, UOp **visited, int *n_visited) {
    UOpList order = uop_toposort(arena, u), free = uop_free_ranges(arena, u);
    UOpMap number;
    uop_map_init(&number, arena);
    VEC(int64_t) key = {0};
    *n_visited = 0;
    for (size_t k = 0; k < order.len; k++) {
        UOp *v = order.at[k];
        uop_map_put(&number, v, (void *)(uintptr_t)(k + 1));
        vec_push(arena, &key, (int64_t)v->op | (int64_t)v->dtype << 8 | (int64_t)v->n_src << 16 | (int64_t)v->n_arg << 32);
        for (int i = 0; i < v->n_src; i++) vec_push(arena, &key, (int64_t)(uintptr_t)uop_map_get(&number, v->src[i]));
        for (int i = v->op == OP_RANGE ? 1 : 0; i < v->n_arg; i++) vec_push(arena, &key, v->arg[i]);
        for (size_t i = 0; i < free.len; i++) if (free.at[i] == v) visited[(*n_visited)++] = v;
    }
    *nbytes = key.len * sizeof *key.at;
    return key.at;
}

// A range / c that is all a value knows of the range, so that c steps of it are alike. NULL where there is none.
static UOp *quotient_alone(Arena *arena, UOp *value) {
    UOpList order = uop_toposort(arena, value);
    for (size_t k = 0; k < order.len; k++) {
        UOp *quotient = order.at[k], *range = quotient->op == OP_IDIV ? quotient->src[0] : NULL;
        int64_t c;
        if (!range || range->op != OP_RANGE || !range_is_static(range) || !uop_is_int_const(quotient->src[1], &c)) continue;
        bool is_alone = c > 1 && range_size(range) % c == 0;
        for (size_t i = 0; i < order.len && is_alone; i++)
            for (int j = 0; j < order.at[i]->n_src; j++) is_alone &= order.at[i]->src[j] != range || order.at[i] == quotient;
        if (is_alone) return quotient;
    }
    return NULL;
}

// The value, read from a buffer that an item of its own fills once.
static UOp *share(Factoring *f, UOp *value) {
    Schedule *s = f->schedule;
    UOp *quotient = quotient_alone(s->arena, value);
    if (quotient) {
        int64_t c = quotient->src[1]->arg[0];
        UOp *steps = uop_range_const(s->graph, range_size(quotient->src[0]) / c, range_kind(quotient->src[0]));
        UOp *held = share(f, uop_substitute(value, &quotient, &steps, 1));
        return uop_substitute(held, &steps, &quotient, 1);
    }
    UOp *visited[MAX_LOOPS], *fresh[MAX_LOOPS];
    int n;
    size_t key_bytes;
    const void *key = structure(s->arena, value, &key_bytes, visited, &n);
    Shared *known = map_get(&f->shared, key, key_bytes);
    if (!known) {
        known = arena_new(s->arena, sizeof *known);
        int64_t count = 1, sizes[MAX_LOOPS];
        UOp *sorted[MAX_LOOPS], *flat = uop_int(s->graph, DT_I32, 0);
        UOpList free = uop_free_ranges(s->arena, value);
        for (int i = 0; i < n; i++) {
            fresh[i] = uop_range(s->graph, visited[i]->src[0], RANGE_LOOP);
            count *= sizes[i] = range_size(visited[i]);
        }
        for (size_t i = 0; i < free.len; i++)   // row-major by the order in which the loops were made
            for (int k = 0; k < n; k++)
                if (visited[k] == free.at[i]) {
                    sorted[i] = fresh[k];
                    flat = uop_binary(OP_ADD, uop_binary(OP_MUL, flat, uop_int(s->graph, DT_I32, sizes[k])), fresh[k]);
                }
        UOp *moved = uop_substitute(value, visited, fresh, n);
        Bounds b = bounds_of(value);
        *known = (Shared){.buffer = schedule_temp(s, value->dtype, count, b.lo, b.hi), .flat = flat, .n = n};
        known->order = arena_copy(s->arena, fresh, (size_t)(n + 1) * sizeof *fresh);
        Item item = {.store = uop_store(uop_index(known->buffer, simplify(flat)), moved, sorted, n), .buffer = known->buffer->arg[0]};
        vec_push(s->arena, &f->out, item);
        map_put(&f->shared, key, key_bytes, known);
    }
    UOp *index = uop_substitute(known->flat, known->order, visited, n);
    UOp *held = uop_load(uop_index(known->buffer, simplify(index)), value->dtype, NULL);
    DERIVED(PASS, "same_for_a_loop_computed_once", value, held);
    return held;
}

static bool lacks_a_loop(Factoring *f, UOp *value) {
    UOpList free = uop_free_ranges(f->schedule->arena, value);
    for (int i = 2; i < f->store->n_src; i++) {
        bool found = false;
        for (size_t k = 0; k < free.len; k++) found |= free.at[k] == f->store->src[i];
        if (!found && range_size(f->store->src[i]) > 1) return true;
    }
    return false;
}

// ---------------------------------------------------------------- the integer form

typedef struct Part { double coefficient; int n; UOp *outside[MAX_FACTORS]; UOp *inside; } Part;

static bool same_outside(const Part *a, const Part *b) {
    return a->n == b->n && !memcmp(a->outside, b->outside, (size_t)a->n * sizeof *a->outside);
}

// The LOAD of an integer that is a signed byte from memory, else NULL.
static UOp *signed_byte_load(UOp *integer) {
    UOp *x = integer->op == OP_CAST ? integer->src[0] : integer, *load = x->op == OP_BITCAST ? x->src[0] : x;
    return x->dtype == DT_I8 && bounds_of(x).lo < 0 && load->op == OP_LOAD ? load : NULL;
}

static bool is_made_here(const Factoring *f, const UOp *load) { return schedule_temp_find(f->schedule, uop_buffer_of(load->src[0])->arg[0]) != NULL; }

// Σ w·p of signed bytes as Σ (w + 128)·p − 128·Σ p, where dot products want a factor without sign: Σ p is made once for all that
// is multiplied with p. Weights are moved: their sums would be made for nobody else. NULL where there is no such sum.
static UOp *unsigned_sum(Factoring *f, UOp *const *integer, int n, UOp *const *closed, int n_closed, double times) {
    if (!f->schedule->unsigned_dots || n != 2) return NULL;
    UOp *load[2] = {signed_byte_load(integer[0]), signed_byte_load(integer[1])};
    if (!load[0] || !load[1] || is_made_here(f, load[0]) == is_made_here(f, load[1])) return NULL;
    int w = is_made_here(f, load[0]);
    UOp *p = integer[1 - w], *others = uop_fold(MONOID_SUM, 1, p, closed, n_closed);
    if (!lacks_a_loop(f, others)) return NULL;
    UOp *bits = uop_bitcast(integer[w]->src[0], DT_U8);
    UOp *moved = uop_cast(uop_binary(OP_XOR, bits, uop_int(bits->graph, DT_U8, 128)), DT_I32), *product = uop_binary(OP_MUL, moved, p);
    if (!fits_i32(product, 2 * times) || !fits_i32(p, 128 * times)) return NULL;
    UOp *more = uop_binary(OP_MUL, share(f, others), uop_int(bits->graph, DT_I32, 128));
    UOp *sum = uop_binary(OP_SUB, uop_fold(MONOID_SUM, 1, product, closed, n_closed), more);
    DERIVED(PASS, "signed_weights_move_by_128", integer[w], sum);
    return sum;
}

// Σ over the ranges in `mask` of the product of integers, as nested sums: what a range does not touch leaves its sum.
// NULL where 32 bits might not hold it.
static UOp *integer_sum(Factoring *f, UOp *const *integer, const uint32_t *touches, int n_integers, uint32_t mask,
                        UOp *const *ranges, int n) {
    UOp *product = NULL, *closed[MAX_LOOPS], *factor[MAX_FACTORS];
    uint32_t deep = mask;     // ranges that every integer but the outer ones touches
    for (int i = 0; i < n_integers; i++)
        if ((touches[i] & mask) != mask && (mask & ~touches[i]) < deep) deep = mask & ~touches[i];
    uint32_t own = deep == mask ? mask : mask & ~deep;
    UOp *inner_integer[MAX_FACTORS];
    uint32_t inner_touches[MAX_FACTORS];
    int n_inner = 0, n_closed = 0, n_own = 0;
    double times = 1;
    for (int i = 0; i < n_integers; i++) {
        if (deep != mask && (touches[i] & deep)) { inner_integer[n_inner] = integer[i], inner_touches[n_inner++] = touches[i]; continue; }
        factor[n_own++] = integer[i];
        product = product ? uop_binary(OP_MUL, product, integer[i]) : integer[i];
        if (!bounds_fit(product)) return NULL;
    }
    if (deep != mask) {
        UOp *inner = integer_sum(f, inner_integer, inner_touches, n_inner, deep, ranges, n);
        if (!inner) return NULL;
        factor[n_own++] = inner;
        product = product ? uop_binary(OP_MUL, product, inner) : inner;
        if (!bounds_fit(product)) return NULL;
    }
    for (int i = 0; i < n; i++) if (own >> i & 1) closed[n_closed++] = ranges[i], times *= (double)range_size(ranges[i]);
    if (!product) return uop_int(f->schedule->graph, DT_I32, (int64_t)times);
    if (!fits_i32(product, times)) return NULL;
    UOp *moved = unsigned_sum(f, factor, n_own, closed, n_closed, times);
    if (moved) return moved;
    UOp *sum = uop_fold(MONOID_SUM, 1, product, closed, n_closed);
    DERIVED(PASS, "sum_fits_32_bits", product, sum);
    return lacks_a_loop(f, sum) ? share(f, sum) : sum;
}

// One term: what stays outside, and the inner sum of its integers. False where 32 bits might not hold it.
static bool part_of(Factoring *f, const Term *t, uint32_t inner, UOp *const *ranges, int n, Part *out) {
    UOp *integer[MAX_FACTORS];
    uint32_t touches[MAX_FACTORS];
    int n_integers = 0;
    *out = (Part){.coefficient = t->coefficient};
    for (int i = 0; i < t->n; i++) {
        UOp *u = t->factor[i];
        uint32_t mask = is_integer(u) ? touched(f->schedule->arena, u, ranges, n) & inner : 0;
        if (!mask) { out->outside[out->n++] = u; continue; }
        integer[n_integers] = uop_cast(u->src[0], DT_I32), touches[n_integers++] = mask;
    }
    out->inside = integer_sum(f, integer, touches, n_integers, inner, ranges, n);
    return out->inside != NULL;
}

// a·x + b·y; NULL where 32 bits might not hold it.
static UOp *weighted(UOp *x, double a, UOp *y, double b) {
    UOp *left = uop_binary(OP_MUL, x, uop_int(x->graph, DT_I32, (int64_t)a));
    UOp *right = uop_binary(OP_MUL, y, uop_int(x->graph, DT_I32, (int64_t)fabs(b)));
    UOp *sum = uop_binary(b < 0 ? OP_SUB : OP_ADD, left, right);
    return bounds_fit(left) && bounds_fit(right) && bounds_fit(sum) ? sum : NULL;
}

// a·Σ f·x + b·Σ f·y = Σ f·(a·x + b·y), for sums over the same ranges.
static UOp *weighted_inside(UOp *x, double a, UOp *y, double b) {
    if (x->op != OP_FOLD || y->op != OP_FOLD || x->n_src != y->n_src || x->arg[0] != MONOID_SUM || y->arg[0] != MONOID_SUM) return NULL;
    if (memcmp(x->src + 1, y->src + 1, (size_t)(x->n_src - 1) * sizeof *x->src)) return NULL;
    UOp *p = x->src[0], *q = y->src[0];
    if (p->op != OP_MUL || q->op != OP_MUL || p->src[0] != q->src[0]) return NULL;
    UOp *inner = weighted(p->src[1], a, q->src[1], b), *product = inner ? uop_binary(OP_MUL, p->src[0], inner) : NULL;
    double times = 1;
    for (int i = 1; i < x->n_src; i++) times *= (double)range_size(x->src[i]);
    if (!product || !bounds_fit(product) || !fits_i32(product, times)) return NULL;
    return uop_fold(MONOID_SUM, 1, product, x->src + 1, x->n_src - 1);
}

// Parts with the same outside and whole coefficients are one integer.
static bool parts_merge(Part *a, const Part *b) {
    if (!same_outside(a, b) || a->coefficient != rint(a->coefficient) || b->coefficient != rint(b->coefficient)) return false;
    if (fabs(a->coefficient) > 65536 || fabs(b->coefficient) > 65536) return false;
    UOp *sum = weighted_inside(a->inside, a->coefficient, b->inside, b->coefficient);
    if (!sum) sum = weighted(a->inside, a->coefficient, b->inside, b->coefficient);
    if (!sum) return false;
    DERIVED(PASS, "terms_of_equal_scales_join", b->inside, sum);
    a->inside = sum;
    a->coefficient = 1;
    return true;
}

// The integer as a float, times those factors outside that lack a loop that it lacks too: made once, as it is. The others are left in p.
static UOp *number_of(Factoring *f, Part *p, DType dtype) {
    UOp *number = uop_cast(p->inside, dtype), *scale = NULL;
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        UOp *u = p->outside[i];
        UOp *more = scale ? uop_binary(OP_MUL, scale, u) : u;
        if (lacks_a_loop(f, uop_binary(OP_MUL, more, number))) scale = more;
        else p->outside[n++] = u;
    }
    p->n = n;
    return scale ? share(f, uop_binary(OP_MUL, scale, number)) : number;
}

// `before` and a part; alone where there is nothing before. A product is added to the others in one step, as sums are.
static UOp *with_part(Factoring *f, UOp *before, Part *p, DType dtype) {
    Graph *g = p->inside->graph;
    UOp *number = number_of(f, p, dtype), *scale = NULL;
    bool is_negative = p->coefficient < 0;
    if (fabs(p->coefficient) != 1) scale = uop_float(g, dtype, fabs(p->coefficient));
    for (int i = 0; i < p->n; i++) scale = scale ? uop_binary(OP_MUL, scale, p->outside[i]) : p->outside[i];
    if (scale && is_negative) scale = uop_unary(OP_NEG, scale);
    if (scale && before) return uop_new(g, OP_MULADD, dtype, 1, (UOp *[]){scale, number, before}, 3, NULL, 0);
    if (scale) return uop_binary(OP_MUL, scale, number);
    if (before) return uop_binary(is_negative ? OP_SUB : OP_ADD, before, number);
    return is_negative ? uop_unary(OP_NEG, number) : number;
}

static UOp *factor_fold(Factoring *f, UOp *u) {
    Arena *arena = f->schedule->arena;
    UOp *const *ranges = u->src + 1;
    int n = u->n_src - 1, n_parts = 0, n_left = 0;
    Sum sum;
    Part parts[MAX_TERMS];
    UOp *left[MAX_LOOPS], *value = NULL;
    Inner within = {arena, ranges, n, 0};
    if (u->arg[0] != MONOID_SUM || !dtype_is_float(u->dtype) || n > MAX_LOOPS || !sum_of(u->src[0], &within, &sum)) return u;
    uint32_t inner = within.mask = inner_ranges(arena, &sum, ranges, n);
    if (!inner || !sum_of(u->src[0], &within, &sum)) return u;
    for (int t = 0; t < sum.n; t++) {
        if (sum.term[t].coefficient == 0) continue;
        if (!part_of(f, &sum.term[t], inner, ranges, n, &parts[n_parts])) return u;
        bool merged = false;
        for (int k = 0; k < n_parts && !merged; k++) merged = parts_merge(&parts[k], &parts[n_parts]);
        n_parts += !merged;
    }
    for (int i = 0; i < n_parts; i++) value = with_part(f, value, &parts[i], u->dtype);
    for (int i = 0; i < n; i++) if (!(inner >> i & 1)) left[n_left++] = ranges[i];
    if (!value) return u;
    UOp *made = uop_fold(MONOID_SUM, (int)u->arg[1], value, left, n_left);
    DERIVED(PASS, "scales_leave_exact_integer_sums", u, made);
    return made;
}

static UOp *factor_value(Factoring *f, UOp *root) {
    Arena *arena = f->schedule->arena;
    UOpList order = uop_toposort(arena, root);
    UOpMap done;
    uop_map_init(&done, arena);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *v = uop_renewed(u, &done);
        uop_map_put(&done, u, v->op == OP_FOLD ? factor_fold(f, v) : v);
    }
    return uop_map_get(&done, root);
}

void schedule_factor(Schedule *s) {
    Factoring f = {.schedule = s};
    map_init(&f.shared, s->arena);
    for (size_t i = 0; i < s->items.len; i++) {
        Item item = s->items.at[i];
        f.store = item.store;
        UOp *value = factor_value(&f, item.store->src[1]);
        item.store = uop_store_as(item.store, item.store->src[0], value, item.store->src + 2, item.store->n_src - 2);
        vec_push(s->arena, &f.out, item);
    }
    s->items.at = f.out.at, s->items.len = f.out.len, s->items.cap = f.out.cap;
}

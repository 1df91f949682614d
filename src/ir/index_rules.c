// index_rules: sums, divisions, remainders and comparisons of index arithmetic, on linear forms.
// In: a node of an index type (i32, i64). Out: an equal node with fewer or smaller terms, or NULL.
// Invariant: a division is only taken apart where the ideal sum fits its type, so that it cannot
// have wrapped.
// Example: (a*8 + b*4 + c) // 4 with 0 ≤ c < 4 → a*2 + b.
#include "ir/index_rules.h"

#include <string.h>

typedef __int128 Wide;

static int64_t floor_to(Wide a, Wide b) {
    Wide q = a / b;
    return (int64_t)(a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q);
}

static int64_t rest_of(int64_t a, int64_t c) { return (int64_t)(a - (Wide)floor_to(a, c) * c); }

static void linear_start(Linear *out, const Linear *like) {
    out->graph = like->graph;
    out->dtype = like->dtype;
    out->lanes = like->lanes;
    out->n = 0;
    out->constant = 0;
}

// A plain struct copy would move all the unused terms too.
static void linear_copy(Linear *out, const Linear *from) {
    linear_start(out, from);
    out->n = from->n;
    out->constant = from->constant;
    if (from->n) memcpy(out->at, from->at, (size_t)from->n * sizeof *from->at);
}

static void put(Linear *l, UOp *node, int64_t factor) {
    if (factor) l->at[l->n++] = (LinearTerm){node, factor};
}

static UOp *node_of(Op op, UOp *a, UOp *b) {
    return uop_new(a->graph, op, a->dtype, a->lanes, (UOp *[]){a, b}, 2, NULL, 0);
}

static bool is_constant(const UOp *u, int64_t *value) {
    Number n;
    if (!rule_constant(u, &n)) return false;
    *value = n.i;
    return true;
}

static UOp *constant_like(UOp *u, DType dtype, int64_t value) {
    return rule_make_constant(u, dtype, (Number){.i = value});
}

// linear_build without any op on constants left over.
static UOp *divided(const Linear *top, UOp *like, int64_t c, Op op) {
    Linear l;
    linear_copy(&l, top);
    UOp *sum = linear_build(&l);
    return c == 1 ? (op == OP_IDIV ? sum : constant_like(like, like->dtype, 0))
                  : node_of(op, sum, constant_like(like, like->dtype, c));
}

// ---------------------------------------------------------------- one step of x // c and x % c

// What x // c and x % c are made of: x = c·quotient + remainder with 0 ≤ remainder < c wherever it
// is found.
typedef struct Split { Linear quotient, remainder; } Split;

// Splits each factor k = c·q + r; centred: r nearest to 0, else 0 ≤ r < c. True where the remainder
// stays between two neighbouring multiples of c, so that both parts are exact.
static bool split_all(const Linear *x, int64_t c, bool centred, Split *out) {
    Bounds b;
    linear_start(&out->quotient, x);
    linear_start(&out->remainder, x);
    for (int i = 0; i < x->n; i++) {
        int64_t r = rest_of(x->at[i].factor, c);
        if (centred && r > c / 2) r -= c;
        put(&out->quotient, x->at[i].node, (int64_t)(((Wide)x->at[i].factor - r) / c));
        put(&out->remainder, x->at[i].node, r);
    }
    out->remainder.constant = rest_of(x->constant, c);
    out->quotient.constant = floor_to(x->constant, c);
    if (!linear_fits(&out->remainder, &b) || floor_to(b.lo, c) != floor_to(b.hi, c)) return false;
    int64_t steps = floor_to(b.lo, c);
    out->quotient.constant += steps;
    out->remainder.constant -= steps * c;
    return true;
}

// Terms whose factors d divides go up, the others must stay within one multiple of d:
// x = d·quotient + remainder with 0 ≤ remainder < d.
static bool split_by(const Linear *x, int64_t d, Split *out) {
    Bounds b;
    linear_start(&out->quotient, x);
    linear_start(&out->remainder, x);
    for (int i = 0; i < x->n; i++) {
        bool up = x->at[i].factor % d == 0;
        put(up ? &out->quotient : &out->remainder, x->at[i].node,
            up ? x->at[i].factor / d : x->at[i].factor);
    }
    if (out->quotient.n == 0) return false;
    out->remainder.constant = rest_of(x->constant, d);
    out->quotient.constant = floor_to(x->constant, d);
    if (!linear_fits(&out->remainder, &b) || floor_to(b.lo, d) != floor_to(b.hi, d)) return false;
    out->quotient.constant += floor_to(b.lo, d);
    out->remainder.constant -= floor_to(b.lo, d) * d;
    return true;
}

// The largest d > 1 below c that divides c and lets split_by succeed.
static int64_t find_split(const Linear *x, int64_t c, Split *out) {
    int64_t tried = c;
    for (;;) {
        int64_t d = 1;
        for (int i = 0; i < x->n; i++) {
            int64_t g = linear_gcd(x->at[i].factor, c);
            if (g < tried && g > d) d = g;
        }
        if (d == 1) return 1;
        Bounds b;
        if (split_by(x, d, out) && linear_fits(&out->quotient, &b)) return d;
        tried = d;
    }
}

// Multiples of c leave the division; what stays has a constant below c. NULL where nothing leaves.
static UOp *pull_multiples(const Linear *x, UOp *like, int64_t c) {
    Linear out, stay;
    Bounds b;
    linear_start(&out, x);
    linear_start(&stay, x);
    for (int i = 0; i < x->n; i++) {
        bool leaves = x->at[i].factor % c == 0;
        put(leaves ? &out : &stay, x->at[i].node, leaves ? x->at[i].factor / c : x->at[i].factor);
    }
    out.constant = floor_to(x->constant, c);
    stay.constant = rest_of(x->constant, c);
    if ((out.n == 0 && out.constant == 0) || stay.n == 0 || !linear_fits(&stay, &b)) return NULL;
    return linear_add(&out, divided(&stay, like, c, OP_IDIV), 1) ? linear_build(&out) : NULL;
}

// (z // a + k) // c → (z + k·a) // (a·c).
static UOp *divide_quotient(const Linear *x, UOp *like, int64_t c) {
    int64_t a;
    if (x->n != 1 || x->at[0].factor != 1 || x->at[0].node->op != OP_IDIV) return NULL;
    UOp *z = x->at[0].node->src[0];
    Linear sum;
    Bounds b;
    Wide product, shift;
    if (!is_constant(x->at[0].node->src[1], &a) || a <= 0 || !linear_of(z, &sum)) return NULL;
    product = (Wide)a * c;
    shift = (Wide)x->constant * a;
    Bounds limit = bounds_of_dtype(like->dtype);
    if (product > limit.hi || shift > limit.hi || shift < limit.lo || !linear_fits(&sum, &b))
        return NULL;
    if (b.lo + shift < limit.lo || b.hi + shift > limit.hi) return NULL;
    sum.constant += (int64_t)shift;
    return linear_fits(&sum, &b) ? divided(&sum, like, (int64_t)product, OP_IDIV) : NULL;
}

static UOp *divide_once(UOp *x, UOp *like, int64_t c) {
    Linear l;
    Bounds b;
    Split s;
    UOp *out;
    if (c <= 1 || !linear_of(x, &l) || !linear_fits(&l, &b)) return NULL;
    if (split_all(&l, c, false, &s) || split_all(&l, c, true, &s)) return linear_build(&s.quotient);
    if ((out = pull_multiples(&l, like, c))) return out;
    int64_t d = find_split(&l, c, &s);
    if (d > 1) return divided(&s.quotient, like, c / d, OP_IDIV);
    return divide_quotient(&l, like, c);
}

// (… + k·(z % a)) % c is (… + k·z) % c where c divides k·a; factors shrink below c. False where
// nothing changes.
static bool reduce_terms(const Linear *x, int64_t c, Linear *out) {
    bool changed = x->constant < 0 || x->constant >= c;
    Bounds b;
    linear_start(out, x);
    out->constant = rest_of(x->constant, c);
    for (int i = 0; i < x->n; i++) {
        UOp *t = x->at[i].node;
        int64_t k = x->at[i].factor % c, a;
        changed |= k != x->at[i].factor;
        bool inner = t->op == OP_MOD && is_constant(t->src[1], &a) && a > 0 && (Wide)k * a % c == 0;
        Linear z;
        inner = inner && linear_of(t->src[0], &z) && linear_fits(&z, &b);
        changed |= inner;
        if (!linear_add(out, inner ? t->src[0] : t, k)) return false;
    }
    return changed && linear_fits(out, &b);
}

static UOp *remainder_once(UOp *x, UOp *like, int64_t c) {
    Linear l, reduced;
    Bounds b;
    Split s;
    if (c <= 1 || !linear_of(x, &l) || !linear_fits(&l, &b)) return NULL;
    if (split_all(&l, c, false, &s) || split_all(&l, c, true, &s))
        return linear_build(&s.remainder);
    if (reduce_terms(&l, c, &reduced)) return divided(&reduced, like, c, OP_MOD);
    int64_t d = find_split(&l, c, &s);
    if (d == 1) return NULL;
    if (!linear_add(&s.remainder, divided(&s.quotient, like, c / d, OP_MOD), d)) return NULL;
    return linear_build(&s.remainder);
}

UOp *index_divide(RewriteContext *ctx, Match *m) {
    (void)ctx;
    return divide_once(m->var['x' - 'a'], m->root, m->value[0].i);
}

UOp *index_remainder(RewriteContext *ctx, Match *m) {
    (void)ctx;
    return remainder_once(m->var['x' - 'a'], m->root, m->value[0].i);
}

// ---------------------------------------------------------------- sums

// x % c is x − c·(x // c): where the quotient stands in the sum already, both vanish.
static bool join_quotient(Linear *l, int j, int64_t c) {
    enum { STEPS = 4 };
    UOp *rest = l->at[j].node, *x = rest->src[0];
    int64_t k = l->at[j].factor;
    Wide scaled = (Wide)k * c;
    if (scaled > INT64_MAX || scaled < INT64_MIN) return false;
    // The quotient as the rules leave it.
    UOp *quotient = node_of(OP_IDIV, x, rest->src[1]);
    for (int i = 0; i < STEPS && quotient->op == OP_IDIV; i++) {
        int64_t divisor;
        UOp *next = is_constant(quotient->src[1], &divisor)
                        ? divide_once(quotient->src[0], quotient, divisor)
                        : NULL;
        if (!next || next == quotient) break;
        quotient = next;
    }
    Linear joined;
    linear_copy(&joined, l);
    joined.at[j] = joined.at[--joined.n];
    if (!linear_add(&joined, x, k) || !linear_add(&joined, quotient, -(int64_t)scaled))
        return false;
    if (joined.n >= l->n) return false;
    linear_copy(l, &joined);
    return true;
}

// k·u in the place of terms i and j. False: it has too many terms of its own.
static bool replace_two(Linear *l, int i, int j, UOp *u, int64_t k) {
    Linear out;
    linear_start(&out, l);
    for (int q = 0; q < l->n; q++) if (q != i && q != j) put(&out, l->at[q].node, l->at[q].factor);
    out.constant = l->constant;
    if (!linear_add(&out, u, k)) return false;
    linear_copy(l, &out);
    return true;
}

// (x // c % a)·c + x % c → x % (a·c).
static bool join_remainder(Linear *l, int j, int64_t c) {
    UOp *rest = l->at[j].node;
    for (int i = 0; i < l->n; i++) {
        UOp *t = l->at[i].node, *inner = t->n_src ? t->src[0] : NULL;
        int64_t a, divisor;
        if (t->op != OP_MOD || inner->op != OP_IDIV || inner->src[0] != rest->src[0]) continue;
        if (!is_constant(inner->src[1], &divisor) || divisor != c || !is_constant(t->src[1], &a) ||
            a <= 0)
            continue;
        if ((Wide)l->at[j].factor * c != l->at[i].factor || (Wide)a * c > dtype_info[l->dtype].hi)
            continue;
        UOp *joined = node_of(OP_MOD, rest->src[0], constant_like(rest, rest->dtype, a * c));
        return replace_two(l, i, j, joined, l->at[j].factor);
    }
    return false;
}

// left − right as one linear form, where neither can have wrapped. Its factors and constant can be
// negated.
static bool difference(UOp *left, UOp *right, Linear *l) {
    Bounds b;
    Linear other;
    if (!linear_of(left, l) || !linear_of(right, &other) || !linear_fits(l, &b) ||
        !linear_fits(&other, &b))
        return false;
    // The difference itself may be wider than the type: keep it in 64 bits.
    l->dtype = DT_I64;
    if (__builtin_sub_overflow(l->constant, other.constant, &l->constant) ||
        l->constant == INT64_MIN)
        return false;
    for (int i = 0; i < other.n; i++) {
        int at = 0;
        int64_t factor;
        while (at < l->n && l->at[at].node != other.at[i].node) at++;
        if (__builtin_sub_overflow(at < l->n ? l->at[at].factor : 0, other.at[i].factor, &factor))
            return false;
        if (at == LINEAR_TERMS) return false;
        l->at[at] = (LinearTerm){other.at[i].node, factor};
        if (at == l->n) l->n++;
        else if (factor == 0) l->at[at] = l->at[--l->n];
    }
    for (int i = 0; i < l->n; i++) if (l->at[i].factor == INT64_MIN) return false;
    return linear_fits(l, &b);
}

// (y // c)·c + x % c is y where x and y differ by a multiple of c: remainders have smaller factors than quotients.
static bool join_reduced(Linear *l, int j, int64_t c) {
    UOp *rest = l->at[j].node;
    for (int i = 0; i < l->n; i++) {
        UOp *t = l->at[i].node;
        int64_t divisor, k = l->at[j].factor;
        Linear apart;
        if (t->op != OP_IDIV || !is_constant(t->src[1], &divisor) || divisor != c || (Wide)k * c != l->at[i].factor) continue;
        if (!difference(t->src[0], rest->src[0], &apart)) continue;
        bool is_multiple = rest_of(apart.constant, c) == 0;
        for (int q = 0; q < apart.n; q++) is_multiple &= rest_of(apart.at[q].factor, c) == 0;
        if (!is_multiple) continue;
        return replace_two(l, i, j, t->src[0], k);
    }
    return false;
}

static bool join_any(Linear *l) {
    for (int j = 0; j < l->n; j++) {
        int64_t c;
        UOp *t = l->at[j].node;
        if (t->op != OP_MOD || !is_constant(t->src[1], &c) || c <= 0) continue;
        bool partner = false;
        for (int i = 0; i < l->n; i++)
            partner |= i != j && l->at[i].factor % ((Wide)c * l->at[j].factor) == 0;
        if (partner && (join_remainder(l, j, c) || join_quotient(l, j, c) || join_reduced(l, j, c))) return true;
    }
    return false;
}

UOp *index_sum(RewriteContext *ctx, Match *m) {
    (void)ctx;
    Linear l;
    if (!linear_of(m->root, &l)) return NULL;
    while (l.n > 1 && join_any(&l)) {}
    return linear_build(&l);
}

// ---------------------------------------------------------------- comparisons

// Positive terms to the left, negative ones and the constant to the right. False where a side may
// wrap.
static bool two_sides(const Linear *l, DType dtype, UOp *sides[2]) {
    Linear left, right;
    Bounds b;
    linear_start(&left, l);
    linear_start(&right, l);
    left.dtype = right.dtype = dtype;
    for (int i = 0; i < l->n; i++) {
        bool plus = l->at[i].factor > 0;
        put(plus ? &left : &right, l->at[i].node, plus ? l->at[i].factor : -l->at[i].factor);
    }
    (left.n ? &right : &left)->constant = left.n ? -l->constant : l->constant;
    if (!linear_fits(&left, &b) || !linear_fits(&right, &b)) return false;
    sides[0] = linear_build(&left);
    sides[1] = linear_build(&right);
    return true;
}

static void divide_factors(Linear *l, int64_t g) {
    for (int i = 0; i < l->n; i++) l->at[i].factor /= g;
}

static int64_t gcd_of_factors(const Linear *l) {
    int64_t g = 0;
    for (int i = 0; i < l->n; i++) g = linear_gcd(g, l->at[i].factor);
    return g;
}

// d·A + y < 0 with y + constant between two neighbouring multiples of d: only A matters.
static bool drop_small_terms(Linear *l) {
    for (int i = 0; i < l->n; i++) {
        int64_t d = l->at[i].factor < 0 ? -l->at[i].factor : l->at[i].factor;
        Linear big, small;
        Bounds b;
        if (d <= 1) continue;
        linear_start(&big, l);
        linear_start(&small, l);
        for (int k = 0; k < l->n; k++) {
            bool divides = l->at[k].factor % d == 0;
            put(divides ? &big : &small, l->at[k].node,
                divides ? l->at[k].factor / d : l->at[k].factor);
        }
        small.constant = l->constant;
        if (small.n == 0 || !linear_fits(&small, &b) || b.hi == INT64_MAX || b.lo <= -INT64_MAX)
            continue;
        // A ≤ (−1 − y) // d must be the same for every y.
        int64_t most = floor_to(-1 - (Wide)b.hi, d);
        if (most != floor_to(-1 - (Wide)b.lo, d)) continue;
        big.constant = -most - 1;
        linear_copy(l, &big);
        return true;
    }
    return false;
}

UOp *index_less(RewriteContext *ctx, Match *m) {
    (void)ctx;
    Linear l;
    Bounds b;
    UOp *sides[2];
    DType dtype = m->root->src[0]->dtype;
    if (!difference(m->root->src[0], m->root->src[1], &l) || !linear_fits(&l, &b)) return NULL;
    if (b.lo >= 0 || b.hi < 0) return constant_like(m->root, DT_BOOL, b.hi < 0);
    do {
        int64_t g = gcd_of_factors(&l);
        if (g > 1) {
            divide_factors(&l, g);
            l.constant = floor_to(l.constant, g);
        }
    } while (drop_small_terms(&l));
    if (!two_sides(&l, dtype, sides)) return NULL;
    return node_of(OP_LT, sides[0], sides[1]);
}

UOp *index_equal(RewriteContext *ctx, Match *m) {
    (void)ctx;
    Linear l;
    Bounds b;
    UOp *sides[2];
    DType dtype = m->root->src[0]->dtype;
    if (!difference(m->root->src[0], m->root->src[1], &l) || !linear_fits(&l, &b)) return NULL;
    int64_t g = gcd_of_factors(&l);
    bool never = b.lo > 0 || b.hi < 0 || (g > 1 && l.constant % g != 0);
    if (never || l.n == 0) return constant_like(m->root, DT_BOOL, (m->root->op == OP_EQ) != never);
    if (g > 1) {
        divide_factors(&l, g);
        l.constant /= g;
    }
    // a == b and b == a are one node: the first term in order of creation counts positive.
    int first = 0;
    for (int i = 1; i < l.n; i++) if (l.at[i].node->id < l.at[first].node->id) first = i;
    if (l.at[first].factor < 0) {
        for (int i = 0; i < l.n; i++) l.at[i].factor = -l.at[i].factor;
        l.constant = -l.constant;
    }
    if (!two_sides(&l, dtype, sides)) return NULL;
    return node_of(m->root->op, sides[0], sides[1]);
}

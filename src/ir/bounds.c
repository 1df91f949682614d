// bounds: interval arithmetic over the graph. See bounds.h.
// In: a node. Out: its interval, from those of its sources (an explicit stack, so depth does not
// matter).
// Invariant: every interval lies inside the limits of the node's dtype and has lo ≤ hi.
// Example: {0, 7} * {4, 4} = {0, 28}; i8 {100, 120} + {10, 10} may wrap = {-128, 127}.
#include "ir/bounds.h"

#include <string.h>
#include "base/error.h"
#include "base/vec.h"

typedef __int128 Wide;   // every result of one operation on two int64 but an extreme shift fits

static const Bounds everything = {INT64_MIN, INT64_MAX};

Bounds bounds_of_dtype(DType dtype) {
    // A U64 above INT64_MAX is a negative bit pattern.
    if (!dtype_is_int(dtype) || dtype == DT_U64) return everything;
    return (Bounds){dtype_info[dtype].lo, dtype_info[dtype].hi};
}

// ---------------------------------------------------------------- one operation

static Wide wide_min(Wide a, Wide b) { return a < b ? a : b; }
static Wide wide_max(Wide a, Wide b) { return a > b ? a : b; }

static bool settle(DType dtype, Wide lo, Wide hi, Bounds *out) {
    Bounds limit = bounds_of_dtype(dtype);
    // Below zero an unsigned value wraps even where the limits of its bit pattern allow it.
    Wide least = dtype == DT_U64 ? 0 : limit.lo;
    if (lo < least || hi > limit.hi) {
        *out = limit;
        return false;
    }
    *out = (Bounds){(int64_t)lo, (int64_t)hi};
    return true;
}

static Wide floor_quotient(Wide a, Wide b) {
    Wide q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// Extremes of a // b over corners; b's interval is cut at zero, where the quotient is 0 by
// definition.
static bool divide(DType dtype, Bounds a, Bounds b, Bounds *out) {
    Wide lo = 0, hi = 0;
    bool any = b.lo <= 0 && b.hi >= 0;
    int64_t part[2][2] = {{b.lo, b.hi < 0 ? b.hi : -1}, {b.lo > 0 ? b.lo : 1, b.hi}};
    for (int p = 0; p < 2; p++) {
        if (part[p][0] > part[p][1]) continue;
        for (int i = 0; i < 4; i++) {
            Wide q = floor_quotient(i & 1 ? a.hi : a.lo, part[p][i >> 1]);
            lo = any ? wide_min(lo, q) : q;
            hi = any ? wide_max(hi, q) : q;
            any = true;
        }
    }
    return settle(dtype, lo, hi, out);
}

static Bounds modulo(Bounds a, Bounds b) {
    if (b.lo == b.hi && b.lo != 0 && floor_quotient(a.lo, b.lo) == floor_quotient(a.hi, b.lo)) {
        Wide base = floor_quotient(a.lo, b.lo) * b.lo;
        return (Bounds){(int64_t)(a.lo - base), (int64_t)(a.hi - base)};
    }
    if (a.lo >= 0 && a.hi < b.lo) return a;
    Bounds out = {b.lo < 0 ? b.lo + 1 : 0, b.hi > 0 ? b.hi - 1 : 0};
    if (a.lo >= 0 && b.lo >= 0 && a.hi < out.hi) out.hi = a.hi;
    return out;
}

static int bit_length(int64_t v) {
    int n = 0;
    for (uint64_t x = (uint64_t)(v < 0 ? ~v : v); x; x >>= 1) n++;
    return n;
}

static Bounds bitwise(Op op, Bounds a, Bounds b) {
    int bits = 0;
    int64_t ends[4] = {a.lo, a.hi, b.lo, b.hi};
    for (int i = 0; i < 4; i++) if (bit_length(ends[i]) > bits) bits = bit_length(ends[i]);
    int64_t top = bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
    Bounds out = {-top - 1, top};
    bool a_natural = a.lo >= 0, b_natural = b.lo >= 0;
    if (op == OP_AND) {
        if (a_natural || b_natural) out.lo = 0;
        if (a_natural) out.hi = a.hi;
        if (b_natural && (!a_natural || b.hi < out.hi)) out.hi = b.hi;
    } else if (a_natural && b_natural) {
        out.lo = op == OP_XOR ? 0 : a.lo > b.lo ? a.lo : b.lo;
    }
    return out;
}

static bool shift_left(DType dtype, Bounds a, Bounds b, Bounds *out) {
    int bits = dtype_bytes(dtype) * 8;
    if (b.lo < 0 || b.hi >= bits)
        return settle(dtype, (Wide)INT64_MAX + 1, (Wide)INT64_MAX + 1, out);
    Wide lo = 0, hi = 0;
    for (int i = 0; i < 4; i++) {
        Wide v = (Wide)(i & 1 ? a.hi : a.lo) * ((Wide)1 << (i & 2 ? b.hi : b.lo));
        lo = i ? wide_min(lo, v) : v;
        hi = i ? wide_max(hi, v) : v;
    }
    return settle(dtype, lo, hi, out);
}

static Bounds shift_right(Bounds a, Bounds b) {
    // Amounts outside the type leave only the sign: between the value and 0 or -1 in any case.
    if (b.lo < 0 || b.hi > 63) return (Bounds){a.lo < 0 ? a.lo : 0, a.hi >= 0 ? a.hi : -1};
    return (Bounds){a.lo >> (a.lo < 0 ? b.lo : b.hi), a.hi >> (a.hi < 0 ? b.hi : b.lo)};
}

static Bounds truth(bool can_be_false, bool can_be_true) {
    return (Bounds){!can_be_false, can_be_true};
}

static Bounds compare(Op op, DType operand, Bounds a, Bounds b) {
    if (!dtype_is_int(operand) || operand == DT_U64) return truth(true, true);
    bool disjoint = a.hi < b.lo || b.hi < a.lo,
         equal = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
    if (op == OP_LT) return truth(a.hi >= b.lo, a.lo < b.hi);
    if (op == OP_EQ) return truth(!equal, !disjoint);
    return truth(!disjoint, !equal);
}

static Bounds hull(Bounds a, Bounds b) {
    return (Bounds){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

static bool multiply(DType dtype, Bounds a, Bounds b, Wide times, Bounds *out) {
    Wide lo = 0, hi = 0;
    for (int i = 0; i < 4; i++) {
        Wide v = (Wide)(i & 1 ? a.hi : a.lo) * (i & 2 ? b.hi : b.lo);
        lo = i ? wide_min(lo, v) : v;
        hi = i ? wide_max(hi, v) : v;
    }
    return settle(dtype, lo * times, hi * times, out);
}

bool bounds_of_op(Op op, DType operand, DType dtype, const Bounds *s, Bounds *out) {
    *out = bounds_of_dtype(dtype);
    if (op_info[op].traits & TRAIT_COMPARE) return *out = compare(op, operand, s[0], s[1]), true;
    if (!dtype_is_int(dtype) || !dtype_is_int(operand)) return true;
    bool plain_order = dtype != DT_U64;   // order of bit patterns = order of values
    switch (op) {
    case OP_NEG: return settle(dtype, -(Wide)s[0].hi, -(Wide)s[0].lo, out);
    case OP_NOT:
        *out = truth(s[0].lo != 0 || s[0].hi != 0, s[0].lo <= 0 && s[0].hi >= 0);
        return true;
    case OP_ADD: return settle(dtype, (Wide)s[0].lo + s[1].lo, (Wide)s[0].hi + s[1].hi, out);
    case OP_SUB: return settle(dtype, (Wide)s[0].lo - s[1].hi, (Wide)s[0].hi - s[1].lo, out);
    case OP_MUL: return multiply(dtype, s[0], s[1], 1, out);
    case OP_IDIV:
        return plain_order || (s[0].lo >= 0 && s[1].lo >= 0) ? divide(dtype, s[0], s[1], out)
                                                             : true;
    case OP_MOD:
        if (plain_order || (s[0].lo >= 0 && s[1].lo >= 0)) *out = modulo(s[0], s[1]);
        return true;
    case OP_MAX: case OP_MIN:
        *out = hull(s[0], s[1]);
        if (!plain_order) return true;
        if (op == OP_MAX) out->lo = s[0].lo > s[1].lo ? s[0].lo : s[1].lo;
        else out->hi = s[0].hi < s[1].hi ? s[0].hi : s[1].hi;
        return true;
    case OP_AND: case OP_OR: case OP_XOR: *out = bitwise(op, s[0], s[1]); return true;
    case OP_SHL: return shift_left(dtype, s[0], s[1], out);
    case OP_SHR: if (plain_order || s[0].lo >= 0) *out = shift_right(s[0], s[1]); return true;
    case OP_WHERE: *out = s[0].lo == 1 ? s[1] : s[0].hi == 0 ? s[2] : hull(s[1], s[2]); return true;
    case OP_CAST:
        if (dtype == DT_BOOL)
            return *out = truth(s[0].lo <= 0 && s[0].hi >= 0, s[0].lo != 0 || s[0].hi != 0), true;
        return settle(dtype, s[0].lo, s[0].hi, out);
    case OP_DOT4: {
        Bounds products;
        if (!multiply(DT_I64, s[1], s[2], 4, &products)) return false;
        return settle(dtype, (Wide)s[0].lo + products.lo, (Wide)s[0].hi + products.hi, out);
    }
    default: return true;
    }
}

// ---------------------------------------------------------------- one node

// How many leading sources decide the bounds of a node.
static int sources_needed(const UOp *u) {
    switch (op_info[u->op].kind) {
    case KIND_UNARY: case KIND_BINARY: case KIND_TERNARY: case KIND_VECTOR: return u->n_src;
    case KIND_CONVERT: return u->op == OP_CAST ? 1 : 0;
    case KIND_MOVE: case KIND_REDUCE: return 1;
    default: break;
    }
    if (u->op == OP_FOLD || u->op == OP_ACCUM) return u->n_src;
    return u->op == OP_RANGE || u->op == OP_CONTIGUOUS || u->op == OP_AFTER ? u->n_src > 0 : 0;
}

// What a buffer was stated to hold: lo and hi in arg from `first` on. 0, 0 states nothing.
static Bounds stated(const UOp *buffer, int first) {
    Bounds limit = bounds_of_dtype(buffer->dtype);
    if (buffer->n_arg < first + 2 || buffer->arg[first] > buffer->arg[first + 1]) return limit;
    if (buffer->arg[first] == 0 && buffer->arg[first + 1] == 0) return limit;
    Bounds b = {buffer->arg[first], buffer->arg[first + 1]};
    if (b.lo < limit.lo) b.lo = limit.lo;
    if (b.hi > limit.hi) b.hi = limit.hi;
    return b.lo <= b.hi ? b : limit;
}

static Bounds of_load(const UOp *u) {
    const UOp *at = u->src[0];
    while (at->n_src > 0 && (at->op == OP_AFTER || at->op == OP_INDEX)) at = at->src[0];
    // Bytes read as a wider type are no longer the values that were stated.
    Bounds b = at->op == OP_PARAM && at->dtype == u->dtype    ? stated(at, 3)
               : at->op == OP_BUFFER && at->dtype == u->dtype ? stated(at, 1)
               : at->op == OP_DEFINE_LOCAL && at->dtype == u->dtype ? stated(at, 2)
                                                              : bounds_of_dtype(u->dtype);
    return u->n_src > 1 ? hull(b, (Bounds){0, 0}) : b;
}

// n values, least ≤ n ≤ most, each inside b, combined by a monoid.
static Bounds of_many(Monoid monoid, DType dtype, Bounds b, Wide least, Wide most) {
    Bounds out, limit = bounds_of_dtype(dtype);
    if (monoid == MONOID_SUM) {
        if (most > INT64_MAX) return limit;
        bool fits = settle(dtype, wide_min(b.lo * least, b.lo * most),
                           wide_max(b.hi * least, b.hi * most), &out);
        return fits ? out : limit;
    }
    if (least > 0) return b;
    return monoid == MONOID_MAX ? (Bounds){limit.lo, b.hi} : (Bounds){b.lo, limit.hi};
}

// src[0] combined over the ranges src[1 … n_ranges]; s: bounds of these sources.
static Bounds of_ranges(Monoid monoid, UOp *const *src, int n_ranges, const Bounds *s) {
    Wide least = 1, most = 1;
    for (int i = 1; i <= n_ranges; i++) {
        int64_t n = 0;
        bool fixed = src[i]->op == OP_RANGE && uop_is_int_const(src[i]->src[0], &n);
        if (fixed && n < 0) n = 0;
        least *= fixed ? n : 0;
        most *= fixed ? n : (Wide)s[i].hi + 1;
        if (most > INT64_MAX) return bounds_of_dtype(src[0]->dtype);
    }
    return of_many(monoid, src[0]->dtype, s[0], least, most);
}

// Two ACCUM parts: the ranges that loop and the lanes, then a tail with lanes of its own.
static Bounds of_accum(const UOp *u, const Bounds *s) {
    int n = (int)(u->arg[2] + u->arg[3]), n_tail = (int)u->arg[4];
    Monoid monoid = (Monoid)u->arg[0];
    Bounds part[2] = {of_ranges(monoid, u->src, n, s)}, out;
    if (n_tail < 0) return part[0];
    part[1] = of_ranges(monoid, u->src + n + 1, n_tail, s + n + 1);
    bounds_of_op(monoid_info[monoid].combine, u->dtype, u->dtype, part, &out);
    return out;
}

static Bounds of_reduce(const UOp *u, Bounds b) {
    Wide n = 1;
    for (int i = 2; i < u->n_arg; i++) {
        n *= u->src[0]->shape[u->arg[i]];
        if (n > INT64_MAX) return bounds_of_dtype(u->dtype);
    }
    return of_many((Monoid)u->arg[0], u->dtype, b, n, n);
}

static Bounds of_range(const UOp *u, Bounds end) {
    int64_t hi = u->n_arg > 2 && u->arg[2] < end.hi ? u->arg[2] : end.hi;
    return (Bounds){0, hi > 0 ? hi - 1 : 0};
}

static Bounds of_vconst(const UOp *u) {
    Bounds b = {u->arg[0], u->arg[0]};
    for (int i = 1; i < u->n_arg; i++) b = hull(b, (Bounds){u->arg[i], u->arg[i]});
    return b;
}

// s: bounds of the needed sources.
static Bounds of_node(const UOp *u, const Bounds *s) {
    Bounds out = bounds_of_dtype(u->dtype);
    switch (u->op) {
    case OP_VCONST: return u->n_arg ? of_vconst(u) : out;
    case OP_BUFFER: return stated(u, 1);
    case OP_PARAM: return stated(u, 3);
    case OP_LOAD: return u->n_src ? of_load(u) : out;
    case OP_IOTA: return (Bounds){0, u->arg[0] > 0 ? u->arg[0] - 1 : 0};
    case OP_SPECIAL: return (Bounds){0, u->n_arg > 1 && u->arg[1] > 0 ? u->arg[1] - 1 : out.hi};
    case OP_RANGE: return of_range(u, s[0]);
    case OP_FOLD: return of_ranges((Monoid)u->arg[0], u->src, u->n_src - 1, s);
    case OP_ACCUM: return of_accum(u, s);
    case OP_REDUCE: return of_reduce(u, s[0]);
    case OP_HFOLD: return of_many((Monoid)u->arg[0], u->dtype, s[0], u->arg[1], u->arg[1]);
    case OP_PAD: return hull(s[0], (Bounds){0, 0});
    case OP_VCAT: case OP_SHUFFLE: case OP_THREAD_XOR:
        out = s[0];
        for (int i = 1; i < u->n_src; i++) out = hull(out, s[i]);
        return out;
    case OP_RESHAPE: case OP_EXPAND: case OP_PERMUTE: case OP_SHRINK: case OP_FLIP: case OP_GATHER:
    case OP_CONTIGUOUS: case OP_AFTER: case OP_LOOKUP: return s[0];
    default: break;
    }
    if (sources_needed(u) == 0) return out;
    bool same = u->n_src == 2 && u->src[0] == u->src[1] && dtype_is_int(u->src[0]->dtype);
    if (same && (u->op == OP_LT || u->op == OP_NE || u->op == OP_SUB)) return (Bounds){0, 0};
    if (same && u->op == OP_EQ) return (Bounds){1, 1};
    bounds_of_op(u->op, u->src[u->op == OP_WHERE]->dtype, u->dtype, s, &out);
    return out;
}

// ---------------------------------------------------------------- whole graphs

// Recent answers of this thread. A node's hash covers everything below it, so that an entry stays
// right even if another graph puts an equal node at the same address.
enum { RECENT = 1 << 14 };
typedef struct Recent { const UOp *node; uint64_t hash; Bounds bounds; } Recent;
static _Thread_local Recent recent[RECENT];

static Recent *recent_slot(const UOp *u) {
    return &recent[((uintptr_t)u >> 4) * 0x9E3779B97F4A7C15u >> 50];
}

static bool known(const UOp *u, Bounds *out) {
    if (!dtype_is_int(u->dtype)) return *out = everything, true;
    if (u->op == OP_CONST) return *out = (Bounds){u->arg[0], u->arg[0]}, true;
    const Recent *r = recent_slot(u);
    if (r->node != u || r->hash != u->hash) return false;
    return *out = r->bounds, true;
}

// Bounds of a node whose needed sources all answer to `known` or stand in `done`.
static bool try_node(Arena *arena, UOp *u, const UOpMap *done, Bounds *out) {
    Bounds few[4], *s = few;
    int n = sources_needed(u);
    if (n > 4) {
        if (!arena) return false;
        s = arena_new(arena, (size_t)n * sizeof *s);
    }
    for (int i = 0; i < n; i++) {
        if (known(u->src[i], &s[i])) continue;
        Bounds *at = done ? uop_map_get(done, u->src[i]) : NULL;
        if (!at) return false;
        s[i] = *at;
    }
    *out = of_node(u, s);
    *recent_slot(u) = (Recent){u, u->hash, *out};
    return true;
}

Bounds bounds_of(UOp *u) {
    Bounds out;
    if (known(u, &out) || try_node(NULL, u, NULL, &out)) return out;
    // `recent` may forget; `done` makes each node's work happen once in this call all the same.
    Arena *arena = arena_create();
    VEC(UOp *) stack = {0};
    UOpMap done;
    uop_map_init(&done, arena);
    vec_push(arena, &stack, u);
    while (stack.len) {
        UOp *top = stack.at[stack.len - 1];
        if (uop_map_get(&done, top)) {
            stack.len--;
        } else if (try_node(arena, top, &done, &out)) {
            uop_map_put(&done, top, arena_copy(arena, &out, sizeof out));
            stack.len--;
        } else {
            for (int i = 0, n = sources_needed(top); i < n; i++)
                if (!known(top->src[i], &out) && !uop_map_get(&done, top->src[i]))
                    vec_push(arena, &stack, top->src[i]);
        }
    }
    out = *(Bounds *)uop_map_get(&done, u);
    arena_destroy(arena);
    return out;
}

bool bounds_fit(UOp *u) {
    Bounds s[3], out;
    if (!dtype_is_int(u->dtype) || u->n_src < 1 || u->n_src > 3) return true;
    for (int i = 0; i < u->n_src; i++) s[i] = bounds_of(u->src[i]);
    return bounds_of_op(u->op, u->src[u->op == OP_WHERE]->dtype, u->dtype, s, &out);
}

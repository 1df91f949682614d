// decompose: ops that no target has as one instruction, in terms of those it has. Scalars, before expand.
// In: a kernel. Out: the same values from ADD MUL MULADD shifts and the like. Formulas stand with each function.
// Invariant: one formula for all targets and widths, so that a result does not depend on either.
#include <math.h>

#include "codegen/codegen.h"
#include "ir/bounds.h"
#include "ir/rewrite.h"

static UOp *constant(UOp *like, double value) { return uop_float(like->graph, like->dtype, value); }
static UOp *muladd(UOp *a, UOp *b, UOp *c) {
    return uop_new(a->graph, OP_MULADD, a->dtype, 1, (UOp *[]){a, b, c}, 3, NULL, 0);
}
static UOp *binary(Op op, UOp *a, UOp *b) { return uop_new(a->graph, op, a->dtype, 1, (UOp *[]){a, b}, 2, NULL, 0); }

// x + 1.5·2²³ has no room for a fraction: adding and subtracting it rounds |x| < 2²² half to even.
static UOp *round_small(UOp *x) {
    UOp *magic = constant(x, 12582912.0);
    return binary(OP_SUB, binary(OP_ADD, x, magic), magic);
}

static UOp *lower_round(UOp *x) {
    UOp *size = binary(OP_MAX, x, uop_unary(OP_NEG, x));
    return uop_where(binary(OP_LT, size, constant(x, 4194304.0)), round_small(x), x);
}

static UOp *lower_floor(UOp *x) {
    UOp *r = lower_round(x);
    return uop_where(binary(OP_LT, x, r), binary(OP_SUB, r, constant(x, 1.0)), r);
}

static UOp *power_of_two(UOp *n) {   // i32 → f32, −126 ≤ n ≤ 127
    UOp *biased = binary(OP_ADD, n, uop_int(n->graph, DT_I32, 127));
    return uop_bitcast(binary(OP_SHL, biased, uop_int(n->graph, DT_I32, 23)), DT_F32);
}

// exp x = 2ⁿ · exp r, n = round(x / ln 2), r = x − n·ln 2 in two steps (Cody and Waite), exp r by its Taylor
// polynomial of degree 7 on |r| ≤ ln 2 / 2 (error < 2⁻²⁷). 2ⁿ in two factors: n reaches ±150.
static UOp *lower_exp(UOp *x) {
    UOp *bounded = binary(OP_MAX, binary(OP_MIN, x, constant(x, 88.8)), constant(x, -104.0));
    UOp *n = round_small(binary(OP_MUL, bounded, constant(x, 1.4426950408889634)));
    UOp *r = muladd(n, constant(x, -0.693145751953125), bounded);
    r = muladd(n, constant(x, -1.42860682030941723212e-6), r);
    static const double taylor[] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    UOp *p = constant(x, taylor[0]);
    for (int i = 1; i < 8; i++) p = muladd(p, r, constant(x, taylor[i]));
    UOp *whole = uop_cast(n, DT_I32);
    UOp *half = binary(OP_SHR, whole, uop_int(x->graph, DT_I32, 1));
    UOp *y = binary(OP_MUL, binary(OP_MUL, p, power_of_two(half)), power_of_two(binary(OP_SUB, whole, half)));
    return uop_where(binary(OP_EQ, x, x), y, x);
}

static UOp *bits_const(UOp *like, int64_t v) { return uop_int(like->graph, like->dtype, v); }

// f16 → f32 by integers: exponent and fraction moved up and rescaled by 2¹¹² as a float; infinities and NaN kept.
static UOp *lower_f16_to_f32(UOp *h) {
    UOp *bits = uop_cast(uop_bitcast(h, DT_U16), DT_U32);
    UOp *sign = binary(OP_SHL, binary(OP_AND, bits, bits_const(bits, 0x8000)), bits_const(bits, 16));
    UOp *body = binary(OP_SHL, binary(OP_AND, bits, bits_const(bits, 0x7fff)), bits_const(bits, 13));
    UOp *scaled = binary(OP_MUL, uop_bitcast(body, DT_F32), uop_float(h->graph, DT_F32, ldexp(1.0, 112)));
    UOp *special = binary(OP_OR, body, bits_const(bits, 0x7f800000));
    UOp *magnitude = uop_where(binary(OP_LT, body, bits_const(bits, 0x0f800000)), uop_bitcast(scaled, DT_U32), special);
    return uop_bitcast(binary(OP_OR, sign, magnitude), DT_F32);
}

// f32 → f16, half to even: the float is scaled so that rounding to the f16's last place is an integer addition;
// too large values become infinity, small ones are rounded by adding a float of the right size.
static UOp *lower_f32_to_f16(UOp *x) {
    Graph *g = x->graph;
    UOp *bits = uop_bitcast(x, DT_U32);
    UOp *sign = binary(OP_SHR, binary(OP_AND, bits, bits_const(bits, 0x80000000)), bits_const(bits, 16));
    UOp *body = binary(OP_AND, bits, bits_const(bits, 0x7fffffff));
    UOp *odd = binary(OP_AND, binary(OP_SHR, body, bits_const(bits, 13)), bits_const(bits, 1));
    UOp *rounded = binary(OP_ADD, binary(OP_ADD, body, bits_const(bits, 0xfff)), odd);
    UOp *normal = binary(OP_SHR, binary(OP_SUB, rounded, bits_const(bits, 112 << 23)), bits_const(bits, 13));
    UOp *tiny = binary(OP_SUB, uop_bitcast(binary(OP_ADD, uop_bitcast(body, DT_F32), uop_float(g, DT_F32, 0.5)), DT_U32),
                       bits_const(bits, 0x3f000000));
    UOp *is_nan = binary(OP_LT, bits_const(bits, 0x7f800000), body);
    UOp *large = uop_where(is_nan, bits_const(bits, 0x7e00), bits_const(bits, 0x7c00));
    UOp *finite = uop_where(binary(OP_LT, body, bits_const(bits, 0x38800000)), tiny, normal);
    UOp *magnitude = uop_where(binary(OP_LT, body, bits_const(bits, 0x477ff000)), finite, large);
    return uop_bitcast(uop_cast(binary(OP_OR, sign, magnitude), DT_U16), DT_F16);
}

static UOp *lower_f32_to_bf16(UOp *x) {   // half to even on the upper half of the bits; NaN stays NaN
    UOp *bits = uop_bitcast(x, DT_U32);
    UOp *odd = binary(OP_AND, binary(OP_SHR, bits, bits_const(bits, 16)), bits_const(bits, 1));
    UOp *rounded = binary(OP_SHR, binary(OP_ADD, binary(OP_ADD, bits, bits_const(bits, 0x7fff)), odd), bits_const(bits, 16));
    UOp *kept = uop_where(binary(OP_EQ, x, x), rounded, bits_const(bits, 0x7fc0));
    return uop_bitcast(uop_cast(kept, DT_U16), DT_BF16);
}

static UOp *lower_cast(UOp *u, const Target *target) {
    UOp *a = u->src[0];
    DType from = a->dtype, to = u->dtype;
    bool half_from = from == DT_F16 || from == DT_BF16, half_to = to == DT_F16 || to == DT_BF16;
    if (half_from && to != DT_F32) return uop_cast(uop_cast(a, DT_F32), to);
    if (half_to && from != DT_F32) return uop_cast(uop_cast(a, DT_F32), to);
    if (from == DT_BF16) {
        UOp *bits = uop_cast(uop_bitcast(a, DT_U16), DT_U32);
        return uop_bitcast(binary(OP_SHL, bits, bits_const(bits, 16)), DT_F32);
    }
    if (to == DT_BF16) return lower_f32_to_bf16(a);
    if (from == DT_F16 && !target->has_f16_convert) return lower_f16_to_f32(a);
    if (to == DT_F16 && !target->has_f16_convert) return lower_f32_to_f16(a);
    if (dtype_is_float(from) && dtype_is_int(to) && dtype_bytes(to) < 4) {   // i32 → to would wrap
        UOp *least = constant(a, (double)dtype_info[to].lo), *most = constant(a, (double)dtype_info[to].hi);
        return uop_cast(uop_cast(binary(OP_MIN, binary(OP_MAX, a, least), most), DT_I32), to);
    }
    if (dtype_is_int(from) && dtype_bytes(from) < 4 && dtype_is_float(to)) return uop_cast(uop_cast(a, DT_I32), to);
    return u;
}

static int log2_exact(int64_t n) {
    if (n <= 0 || n & (n - 1)) return -1;
    int k = 0;
    while (n >>= 1) k++;
    return k;
}

// Axes have been split since the index was last simplified: (r·16 + lane) // 32 has no lane in it, and as a shift nothing
// would see that any more.
static UOp *lower_division(UOp *u) {
    int64_t divisor;
    if (!uop_is_int_const(u->src[1], &divisor) || log2_exact(divisor) < 0) return u;
    UOp *simple = simplify(u);
    if (simple != u) return simple;
    // Arithmetic shifts and masks floor, as IDIV and MOD do, for negative values too.
    if (u->op == OP_IDIV) return binary(OP_SHR, u->src[0], uop_int(u->graph, u->dtype, log2_exact(divisor)));
    return binary(OP_AND, u->src[0], uop_int(u->graph, u->dtype, divisor - 1));
}

static bool is_half(DType d) { return d == DT_F16 || d == DT_BF16; }

// Arithmetic on halves is done in f32, rounded once.
static UOp *lower_half(UOp *u) {
    UOp *src[3];
    OpKind kind = op_info[u->op].kind;
    if (kind != KIND_UNARY && kind != KIND_BINARY && kind != KIND_TERNARY) return u;
    if (u->op == OP_WHERE || !is_half(u->src[0]->dtype)) return u;   // a choice moves bits only
    for (int i = 0; i < u->n_src; i++) src[i] = uop_cast(u->src[i], DT_F32);
    UOp *wide = uop_new(u->graph, u->op, DT_F32, 1, src, u->n_src, u->arg, u->n_arg);
    return is_half(u->dtype) ? uop_cast(wide, u->dtype) : wide;
}

static UOp *lower(UOp *u, const Target *target) {
    UOp *wide = lower_half(u);
    if (wide != u) return wide;
    switch (u->op) {
    case OP_EXP: return u->dtype == DT_F32 ? lower_exp(u->src[0]) : u;
    case OP_ROUND: return u->dtype == DT_F32 ? lower_round(u->src[0]) : u;
    case OP_FLOOR: return u->dtype == DT_F32 ? lower_floor(u->src[0]) : u;
    case OP_RECIP: return binary(OP_FDIV, constant(u, 1.0), u->src[0]);
    case OP_CAST: return lower_cast(u, target);
    case OP_IDIV: case OP_MOD: return lower_division(u);
    case OP_ATOMIC_ADD: return target->has_atomic_add ? u : uop_poison(u->graph, "target %s does not add to memory that tiles share", target->name);
    default: return u;
    }
}

UOp *decompose(UOp *sink, const Target *target) {
    Arena *arena = graph_arena(sink->graph);
    for (int round = 0; round < 4; round++) {   // a lowered op may hold others (casts of casts)
        UOpList order = uop_toposort(arena, sink);
        UOpMap done;
        uop_map_init(&done, arena);
        for (size_t k = 0; k < order.len; k++) {
            UOp *u = order.at[k];
            uop_map_put(&done, u, lower(uop_renewed(u, &done), target));
        }
        UOp *next = uop_map_get(&done, sink);
        if (next == sink) break;
        sink = next;
    }
    return sink;
}

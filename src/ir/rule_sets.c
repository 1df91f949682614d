// rule_sets: the sets algebra, index and real, from their .def files, and the right sides that
// algebra has in C.
// In: a match. Out: an equal node, or NULL.
// Example: cast[i32](cast[i64](x: i32)) → x.
#include "ir/bounds.h"
#include "ir/exact_rules.h"
#include "ir/index_rules.h"

static const RuleRow algebra_rows[] = {
#include "ir/rules/algebra.def"
};
static const RuleRow index_rows[] = {
#include "ir/rules/index.def"
};
static const RuleRow real_rows[] = {
#include "ir/rules/real.def"
};
RULE_SET(rules_algebra, "algebra", algebra_rows);
RULE_SET(rules_index, "index", index_rows);
RULE_SET(rules_real, "real", real_rows);

UOp *exact_by_bounds(RewriteContext *ctx, Match *m) {
    (void)ctx;
    if (!dtype_is_int(m->root->dtype)) return NULL;
    Bounds b = bounds_of(m->root);
    return b.lo == b.hi ? rule_make_constant(m->root, m->root->dtype, (Number){.i = b.lo}) : NULL;
}

// Bits of magnitude that a float type holds exactly.
static int mantissa_bits(DType dtype) {
    return dtype == DT_F64 ? 53 : dtype == DT_F32 ? 24 : dtype == DT_F16 ? 11 : 8;
}

// Whether every value of a float type is one of another.
static bool float_holds(DType wide, DType narrow) {
    return wide == narrow || (dtype_bytes(wide) > dtype_bytes(narrow) && dtype_is_float(wide));
}

static bool inside(Bounds b, DType dtype) {
    Bounds limit = bounds_of_dtype(dtype);
    return b.lo >= (dtype == DT_U64 ? 0 : limit.lo) && b.hi <= limit.hi;
}

// Whether casting x to the type `middle` and on to `last` gives what casting it to `last` gives.
static bool middle_is_exact(UOp *x, DType middle, DType last) {
    bool from_float = dtype_is_float(x->dtype);
    if (from_float) return dtype_is_float(middle) && float_holds(middle, x->dtype);
    if (last == DT_BOOL && middle != DT_BOOL && !dtype_is_float(middle) && x->dtype == DT_U64)
        return false;
    Bounds b = bounds_of(x);
    if (dtype_is_float(middle)) {
        int64_t most = (int64_t)1 << mantissa_bits(middle);
        bool exact = b.lo >= -most && b.hi <= most;
        // Integers saturate on the way back, they would wrap on the direct way.
        return exact && (middle != DT_F16 || (b.lo >= -2048 && b.hi <= 2048)) &&
               (dtype_is_float(last) || inside(b, last));
    }
    if (inside(b, middle) && (x->dtype != DT_U64 || b.lo >= 0)) return true;
    // Narrowing twice keeps the low bits that narrowing once keeps.
    return middle != DT_BOOL && last != DT_BOOL && dtype_is_int(last) &&
           dtype_bytes(last) <= dtype_bytes(middle);
}

UOp *exact_same_type(RewriteContext *ctx, Match *m) {
    (void)ctx;
    return m->root->src[0]->dtype == m->root->dtype ? m->root->src[0] : NULL;
}

UOp *exact_cast(RewriteContext *ctx, Match *m) {
    (void)ctx;
    UOp *middle = m->root->src[0], *x = m->var['x' - 'a'];
    if (!middle_is_exact(x, middle->dtype, m->root->dtype)) return NULL;
    if (x->dtype == m->root->dtype) return x;
    return uop_new(m->root->graph, OP_CAST, m->root->dtype, m->root->lanes, &x, 1, NULL, 0);
}

UOp *exact_bitcast(RewriteContext *ctx, Match *m) {
    (void)ctx;
    UOp *x = m->var['x' - 'a'];
    if (x->dtype == m->root->dtype) return x;
    // A tensor's last axis takes part in the middle: leave it.
    if (x->ndim > 0) return NULL;
    return uop_new(m->root->graph, OP_BITCAST, m->root->dtype, m->root->lanes, &x, 1, NULL, 0);
}

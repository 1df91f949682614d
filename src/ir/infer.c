// infer: dtype and shape of a node from its sources. See infer.h.
#include "ir/infer.h"

#include <string.h>

#include "base/error.h"

static Inferred problem(Arena *arena, const char *text) { return (Inferred){.problem = arena_printf(arena, "%s", text)}; }

static const char *shape_text(Arena *arena, int ndim, const int64_t *shape) {
    char *text = arena_printf(arena, "[");
    for (int i = 0; i < ndim; i++) text = arena_printf(arena, "%s%s%lld", text, i ? "," : "", (long long)shape[i]);
    return arena_printf(arena, "%s]", text);
}

static bool same_shape(const UOp *a, const UOp *b) {
    return a->ndim == b->ndim && (a->ndim == 0 || !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape));
}

static int64_t shape_count(int ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    return n;
}

static Inferred elementwise(Arena *arena, Op op, DType dtype, UOp *const *src, int n_src) {
    int traits = op_info[op].traits, first = op == OP_WHERE ? 1 : 0;
    for (int i = 0; i < n_src; i++) {
        if (!same_shape(src[0], src[i]))
            return problem(arena, arena_printf(arena, "shapes %s and %s differ", shape_text(arena, src[0]->ndim, src[0]->shape),
                                               shape_text(arena, src[i]->ndim, src[i]->shape)));
        if (i >= first && src[i]->dtype != src[first]->dtype && op != OP_DOT4 && !((op == OP_SHL || op == OP_SHR) && i == 1))
            return problem(arena, arena_printf(arena, "types %s and %s differ", dtype_info[src[first]->dtype].name,
                                               dtype_info[src[i]->dtype].name));
        if (src[i]->lanes != src[0]->lanes && op != OP_DOT4)
            return problem(arena, arena_printf(arena, "%d and %d lanes", src[0]->lanes, src[i]->lanes));
    }
    if (op == OP_WHERE && src[0]->dtype != DT_BOOL) return problem(arena, "condition is not a bool");
    if ((traits & TRAIT_INT_ONLY) && dtype_is_float(src[first]->dtype)) return problem(arena, "needs integers");
    if ((traits & TRAIT_FLOAT_ONLY) && !dtype_is_float(src[first]->dtype)) return problem(arena, "needs floats");
    DType result = traits & TRAIT_COMPARE ? DT_BOOL : op_info[op].kind == KIND_CONVERT ? dtype : src[first]->dtype;
    return (Inferred){.dtype = result, .lanes = src[0]->lanes, .ndim = src[0]->ndim, .shape = src[0]->shape};
}

// BITCAST between types of different size: u8 [..., k·w] ↔ w bytes [..., k].
static Inferred bitcast(Arena *arena, DType dtype, const UOp *a) {
    int from = dtype_bytes(a->dtype), to = dtype_bytes(dtype);
    if (from == to) return (Inferred){.dtype = dtype, .lanes = a->lanes, .ndim = a->ndim, .shape = a->shape};
    if (a->lanes > 1) {
        if (a->lanes * from % to) return problem(arena, "lanes do not divide");
        return (Inferred){.dtype = dtype, .lanes = a->lanes * from / to};
    }
    if (a->ndim == 0 && from % to == 0) return (Inferred){.dtype = dtype, .lanes = from / to};     // a number's bytes
    if (a->ndim == 0 || a->shape[a->ndim - 1] * from % to) return problem(arena, "last axis does not divide");
    int64_t *shape = arena_copy(arena, a->shape, (size_t)a->ndim * sizeof *shape);
    shape[a->ndim - 1] = shape[a->ndim - 1] * from / to;
    return (Inferred){.dtype = dtype, .lanes = 1, .ndim = a->ndim, .shape = shape};
}

static Inferred movement(Arena *arena, Op op, UOp *const *src, const int64_t *arg, int n_arg) {
    const UOp *a = src[0];
    Inferred t = {.dtype = a->dtype, .lanes = 1, .ndim = a->ndim};
    int64_t *shape = arena_new(arena, (size_t)(a->ndim + n_arg + 8) * sizeof *shape);
    if (a->ndim) memcpy(shape, a->shape, (size_t)a->ndim * sizeof *shape);
    t.shape = shape;
    switch (op) {
    case OP_RESHAPE:
        if (n_arg) memcpy(shape, arg, (size_t)n_arg * sizeof *shape);
        t.ndim = n_arg;
        if (shape_count(n_arg, arg) != shape_count(a->ndim, a->shape))
            return problem(arena, arena_printf(arena, "%s does not fit %s", shape_text(arena, a->ndim, a->shape),
                                               shape_text(arena, n_arg, arg)));
        return t;
    case OP_EXPAND:
        if (n_arg != a->ndim) return problem(arena, "needs a size for each axis");
        for (int i = 0; i < n_arg; i++) {
            if (a->shape[i] != arg[i] && a->shape[i] != 1)
                return problem(arena, arena_printf(arena, "%s to %s", shape_text(arena, a->ndim, a->shape), shape_text(arena, n_arg, arg)));
            shape[i] = arg[i];
        }
        return t;
    case OP_PERMUTE: {
        if (n_arg != a->ndim) return problem(arena, "needs each axis once");
        uint64_t seen = 0;
        for (int i = 0; i < n_arg; i++) {
            if (arg[i] < 0 || arg[i] >= a->ndim || seen >> arg[i] & 1) return problem(arena, "needs each axis once");
            seen |= 1ull << arg[i];
            shape[i] = a->shape[arg[i]];
        }
        return t;
    }
    case OP_PAD:
        if (n_arg != 2 * a->ndim) return problem(arena, "needs (before, after) for each axis");
        for (int i = 0; i < a->ndim; i++) {
            if (arg[2 * i] < 0 || arg[2 * i + 1] < 0) return problem(arena, "negative padding");
            shape[i] = a->shape[i] + arg[2 * i] + arg[2 * i + 1];
        }
        return t;
    case OP_SHRINK:
        if (n_arg != 2 * a->ndim) return problem(arena, "needs (begin, end) for each axis");
        for (int i = 0; i < a->ndim; i++) {
            if (arg[2 * i] < 0 || arg[2 * i + 1] > a->shape[i] || arg[2 * i] >= arg[2 * i + 1])
                return problem(arena, arena_printf(arena, "%lld:%lld of axis %d of %s", (long long)arg[2 * i],
                                                   (long long)arg[2 * i + 1], i, shape_text(arena, a->ndim, a->shape)));
            shape[i] = arg[2 * i + 1] - arg[2 * i];
        }
        return t;
    case OP_FLIP:
        for (int i = 0; i < n_arg; i++)
            if (arg[i] < 0 || arg[i] >= a->ndim) return problem(arena, "no such axis");
        return t;
    case OP_GATHER: {
        const UOp *index = src[1];
        if (a->ndim < 1 || !dtype_is_int(index->dtype)) return problem(arena, "needs an axis and integer indices");
        t.ndim = index->ndim + a->ndim - 1;
        shape = arena_new(arena, (size_t)(t.ndim + 1) * sizeof *shape);
        if (index->ndim) memcpy(shape, index->shape, (size_t)index->ndim * sizeof *shape);
        memcpy(shape + index->ndim, a->shape + 1, (size_t)(a->ndim - 1) * sizeof *shape);
        t.shape = shape;
        return t;
    }
    default: return problem(arena, "not a movement");
    }
}

static Inferred reduce(Arena *arena, const UOp *a, const int64_t *arg, int n_arg) {
    uint64_t gone = 0;
    if (n_arg < 3 || arg[0] < 0 || arg[0] >= MONOID_COUNT) return problem(arena, "needs a monoid, chains and axes");
    for (int i = 2; i < n_arg; i++) {
        if (arg[i] < 0 || arg[i] >= a->ndim || gone >> arg[i] & 1)
            return problem(arena, arena_printf(arena, "axis %lld of %s", (long long)arg[i], shape_text(arena, a->ndim, a->shape)));
        gone |= 1ull << arg[i];
    }
    int64_t *shape = arena_new(arena, (size_t)(a->ndim + 1) * sizeof *shape);
    int n = 0;
    for (int i = 0; i < a->ndim; i++) if (!(gone >> i & 1)) shape[n++] = a->shape[i];
    return (Inferred){.dtype = a->dtype, .lanes = 1, .ndim = n, .shape = shape};
}

Inferred infer(Arena *arena, Op op, DType dtype, int lanes, UOp *const *src, int n_src, const int64_t *arg, int n_arg) {
    Inferred plain = {.dtype = dtype, .lanes = lanes};
    int arity = op_info[op].arity;
    if (arity >= 0 && n_src != arity)
        return problem(arena, arena_printf(arena, "has %d sources, needs %d", n_src, arity));
    switch (op_info[op].kind) {
    case KIND_UNARY: case KIND_BINARY: case KIND_TERNARY: return elementwise(arena, op, dtype, src, n_src);
    case KIND_CONVERT:
        return op == OP_BITCAST ? bitcast(arena, dtype, src[0]) : elementwise(arena, op, dtype, src, n_src);
    case KIND_MOVE: return movement(arena, op, src, arg, n_arg);
    case KIND_REDUCE: return reduce(arena, src[0], arg, n_arg);
    default: break;
    }
    switch (op) {
    case OP_BUFFER:
        for (int i = 3; i < n_arg; i++) if (arg[i] < 1) return problem(arena, "a dimension is not positive");
        plain.ndim = n_arg - 3;
        plain.shape = arg + 3;
        if (plain.ndim > 0) plain.shape = arena_copy(arena, arg + 3, (size_t)plain.ndim * sizeof *arg);
        return plain;
    case OP_IOTA:
        plain.dtype = DT_I32;
        plain.ndim = 1;
        plain.shape = arena_copy(arena, arg, sizeof *arg);
        return plain;
    case OP_ASSIGN:
        if (src[0]->dtype != src[1]->dtype) return problem(arena, "types of target and value differ");
        if (!same_shape(src[0], src[1]))
            return problem(arena, arena_printf(arena, "target %s, value %s", shape_text(arena, src[0]->ndim, src[0]->shape),
                                               shape_text(arena, src[1]->ndim, src[1]->shape)));
        return (Inferred){.dtype = DT_VOID, .lanes = 1};
    case OP_CONTIGUOUS: case OP_AFTER:
        return (Inferred){.dtype = src[0]->dtype, .lanes = src[0]->lanes, .ndim = src[0]->ndim, .shape = src[0]->shape};
    case OP_FOLD: case OP_ACCUM: case OP_THREAD_HALVES: plain.dtype = src[0]->dtype; plain.lanes = src[0]->lanes; return plain;
    case OP_HFOLD:
        if (src[0]->lanes % arg[1]) return problem(arena, "group does not divide the lanes");
        return (Inferred){.dtype = src[0]->dtype, .lanes = src[0]->lanes / (int)arg[1]};
    case OP_BITS: return (Inferred){.dtype = src[0]->dtype, .lanes = src[0]->lanes};
    case OP_LOOKUP: return (Inferred){.dtype = src[0]->dtype, .lanes = src[1]->lanes};
    case OP_VCAT: {
        int total = 0;
        for (int i = 0; i < n_src; i++) {
            if (src[i]->dtype != src[0]->dtype) return problem(arena, "types of parts differ");
            total += src[i]->lanes;
        }
        return (Inferred){.dtype = src[0]->dtype, .lanes = total};
    }
    case OP_SHUFFLE:
        for (int i = 0; i < n_arg; i++) if (arg[i] < 0 || arg[i] >= src[0]->lanes) return problem(arena, "no such lane");
        return (Inferred){.dtype = src[0]->dtype, .lanes = n_arg};
    case OP_VCONST: plain.lanes = n_arg; return plain;
    default: return plain;
    }
}

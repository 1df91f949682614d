// indexing: movement ops as index arithmetic. See indexing.h.
#include "schedule/indexing.h"

#include <string.h>

#include "ir/bounds.h"
#include "tensor/tensor.h"

static UOp *add(UOp *a, UOp *b) { return uop_binary(OP_ADD, a, b); }
static UOp *scale(UOp *a, int64_t by) { return uop_binary(OP_MUL, a, uop_int(a->graph, a->dtype, by)); }

static DType index_type(int64_t count) { return count > INT32_MAX ? DT_I64 : DT_I32; }

// An index into an axis of size elements, in a type that holds them all.
static UOp *widened(UOp *idx, int64_t size) { return size > INT32_MAX ? uop_cast(idx, DT_I64) : idx; }

// Part of an axis of size elements: its element idx is element idx + by of the whole axis.
static UOp *moved(UOp *idx, int64_t by, int64_t size) {
    UOp *wide = widened(idx, size);
    return simplify(add(wide, uop_int(wide->graph, wide->dtype, by)));
}

UOp *flat_index(Graph *g, UOp *const *idx, int ndim, const int64_t *shape) {
    UOp *flat = uop_int(g, DT_I32, 0);
    int64_t stride = 1, count = 1;
    for (int i = 0; i < ndim; i++) count *= shape[i];
    DType type = index_type(count);
    flat = uop_cast(flat, type);
    for (int i = ndim; i-- > 0; stride *= shape[i]) flat = add(scale(uop_cast(idx[i], type), stride), flat);
    return flat;
}

// A group of axes of the source and of the result that hold the same elements in the same order.
typedef struct AxisGroup { int from_begin, from_end, to_begin, to_end; } AxisGroup;

static int reshape_groups(const UOp *from, const UOp *to, AxisGroup *groups) {
    int n = 0, f = 0, t = 0;
    while (f < from->ndim || t < to->ndim) {
        AxisGroup g = {f, f, t, t};
        int64_t a = 1, b = 1;
        if (f < from->ndim) a *= from->shape[f++];
        if (t < to->ndim) b *= to->shape[t++];
        while (a != b) {
            if (a < b) a *= from->shape[f++];
            else b *= to->shape[t++];
        }
        g.from_end = f, g.to_end = t;
        groups[n++] = g;
    }
    return n;
}

static void reshape_index(UOp *node, UOp *const *idx, UOp **out) {
    UOp *from = node->src[0];
    AxisGroup groups[4 * MAX_AXES];
    int n = reshape_groups(from, node, groups);
    for (int k = 0; k < n; k++) {
        AxisGroup g = groups[k];
        UOp *flat = flat_index(node->graph, idx + g.to_begin, g.to_end - g.to_begin, node->shape + g.to_begin);
        int64_t size = 1;
        for (int i = g.from_begin; i < g.from_end; i++) size *= from->shape[i];
        for (int i = g.from_begin; i < g.from_end; i++) {
            size /= from->shape[i];
            UOp *at = flat;
            if (size > 1) at = uop_binary(OP_IDIV, at, uop_int(at->graph, at->dtype, size));
            bool is_first = true;
            for (int j = g.from_begin; j < i; j++) is_first &= from->shape[j] == 1;
            if (from->shape[i] == 1) at = uop_int(at->graph, DT_I32, 0);
            else if (!is_first) at = uop_binary(OP_MOD, at, uop_int(at->graph, at->dtype, from->shape[i]));
            out[i] = simplify(at);
        }
    }
}

static void flip_index(UOp *node, int axis, UOp *const *idx, UOp **out) {
    UOp *wide = widened(idx[axis], node->shape[axis]);
    out[axis] = simplify(uop_binary(OP_SUB, uop_int(node->graph, wide->dtype, node->shape[axis] - 1), wide));
}

static UOp *both(UOp *a, UOp *b) { return !a ? b : !b ? a : simplify(uop_binary(OP_AND, a, b)); }

// PAD: inside the source or not, one condition an axis that is padded.
static UOp *pad_index(UOp *node, UOp *const *idx, UOp **out) {
    UOp *from = node->src[0], *inside = NULL;
    for (int i = 0; i < node->ndim; i++) {
        int64_t before = node->arg[2 * i], after = node->arg[2 * i + 1];
        UOp *at = widened(idx[i], node->shape[i]);
        out[i] = moved(at, -before, node->shape[i]);
        if (before) inside = both(inside, simplify(uop_binary(OP_LT, uop_int(node->graph, at->dtype, before - 1), at)));
        if (after) inside = both(inside, simplify(uop_binary(OP_LT, at, uop_int(node->graph, at->dtype, before + from->shape[i]))));
    }
    return inside;
}

static UOp *load_buffer(UOp *buffer, int ndim, const int64_t *shape, UOp *const *idx, DType dtype, UOp *valid) {
    UOp *flat = simplify(flat_index(buffer->graph, idx, ndim, shape));
    return uop_load(uop_index(buffer, flat), dtype, valid);
}

// u8 [..., k·w] seen as [..., k] of a wider type: one unaligned load where the bytes are those of a buffer.
static UOp *bitcast_at(Indexing *x, UOp *node, UOp *const *idx, UOp *valid) {
    UOp *from = node->src[0], *inner[MAX_AXES];
    int width = dtype_bytes(node->dtype), last = node->ndim - 1;
    if (dtype_bytes(from->dtype) == width) return uop_bitcast(value_at(x, from, idx, valid), node->dtype);
    if (dtype_bytes(from->dtype) != 1)
        return uop_poison(node->graph, "BITCAST of %s to %s changes the size", dtype_info[from->dtype].name, dtype_info[node->dtype].name);
    memcpy(inner, idx, (size_t)node->ndim * sizeof *idx);
    inner[last] = simplify(scale(widened(idx[last], from->shape[last]), width));
    UOp *first = value_at(x, from, inner, valid);
    if (uop_is_poison(first)) return first;
    inner[last] = simplify(add(inner[last], uop_int(node->graph, inner[last]->dtype, width - 1)));
    UOp *end = value_at(x, from, inner, valid);
    int64_t step;
    if (first->op == OP_LOAD && end->op == OP_LOAD && first->src[0]->src[0] == end->src[0]->src[0] && first->n_src == end->n_src &&
        uop_is_int_const(simplify(uop_binary(OP_SUB, end->src[0]->src[1], first->src[0]->src[1])), &step) && step == width - 1)
        return uop_load(first->src[0], node->dtype, valid);
    return uop_poison(node->graph, "BITCAST to %s of bytes that do not lie side by side in a buffer; make them contiguous first",
                      dtype_info[node->dtype].name);
}

static UOp *reduce_at(Indexing *x, UOp *node, UOp *const *idx, UOp *valid) {
    UOp *from = node->src[0], *inner[MAX_AXES], *ranges[MAX_AXES];
    int n_ranges = 0, next = 0;
    for (int i = 0; i < from->ndim; i++) {
        bool reduced = false;
        for (int k = 2; k < node->n_arg; k++) reduced |= node->arg[k] == i;
        if (!reduced) { inner[i] = idx[next++]; continue; }
        if (from->shape[i] == 1) { inner[i] = uop_int(node->graph, DT_I32, 0); continue; }
        if (from->shape[i] > INT32_MAX)
            return uop_poison(node->graph, "reduce: an axis of %lld elements is too long: %d are the most; split it",
                              (long long)from->shape[i], INT32_MAX);
        inner[i] = ranges[n_ranges++] = uop_range_const(node->graph, from->shape[i], RANGE_REDUCE);
    }
    UOp *value = value_at(x, from, inner, valid);
    if (uop_is_poison(value)) return value;
    return uop_fold((Monoid)node->arg[0], (int)node->arg[1], value, ranges, n_ranges);
}

static UOp *value_of(Indexing *x, UOp *node, UOp *const *idx, UOp *valid) {
    Graph *g = node->graph;
    UOp *kept = uop_map_get(&x->kept, node), *inner[MAX_AXES];
    if (kept) return load_buffer(kept, node->ndim, node->shape, idx, node->dtype, valid);
    switch (op_info[node->op].kind) {
    case KIND_UNARY: case KIND_BINARY: case KIND_TERNARY: case KIND_CONVERT: {
        if (node->op == OP_BITCAST && node->ndim) return bitcast_at(x, node, idx, valid);
        UOp *src[3];
        for (int i = 0; i < node->n_src; i++) {
            src[i] = value_at(x, node->src[i], idx, valid);
            if (uop_is_poison(src[i])) return src[i];
        }
        return uop_new(g, node->op, node->dtype, 1, src, node->n_src, node->arg, node->n_arg);
    }
    default: break;
    }
    switch (node->op) {
    case OP_CONST: return node;
    case OP_IOTA: return uop_cast(idx[0], DT_I32);
    case OP_BUFFER: return load_buffer(node, node->ndim, node->shape, idx, node->dtype, valid);
    case OP_CONTIGUOUS: case OP_AFTER: return value_at(x, node->src[0], idx, valid);
    case OP_RESHAPE: reshape_index(node, idx, inner); return value_at(x, node->src[0], inner, valid);
    case OP_EXPAND:
        for (int i = 0; i < node->ndim; i++) inner[i] = node->src[0]->shape[i] == 1 ? uop_int(g, DT_I32, 0) : idx[i];
        return value_at(x, node->src[0], inner, valid);
    case OP_PERMUTE:
        for (int i = 0; i < node->ndim; i++) inner[node->arg[i]] = idx[i];
        return value_at(x, node->src[0], inner, valid);
    case OP_SHRINK:
        for (int i = 0; i < node->ndim; i++) inner[i] = moved(idx[i], node->arg[2 * i], node->src[0]->shape[i]);
        return value_at(x, node->src[0], inner, valid);
    case OP_FLIP:
        memcpy(inner, idx, (size_t)node->ndim * sizeof *idx);
        for (int k = 0; k < node->n_arg; k++) flip_index(node, (int)node->arg[k], idx, inner);
        return value_at(x, node->src[0], inner, valid);
    case OP_PAD: {
        UOp *inside = pad_index(node, idx, inner);
        UOp *value = value_at(x, node->src[0], inner, both(valid, inside));
        if (!inside || uop_is_poison(value)) return value;
        return simplify(uop_where(inside, value, uop_int(g, node->dtype, 0)));
    }
    case OP_GATHER: {
        UOp *index = node->src[1], *at = value_at(x, index, idx, valid);
        if (uop_is_poison(at)) return at;
        inner[0] = uop_cast(at, DT_I32);
        for (int i = 1; i < node->src[0]->ndim; i++) inner[i] = idx[index->ndim + i - 1];
        return value_at(x, node->src[0], inner, valid);
    }
    case OP_REDUCE: return reduce_at(x, node, idx, valid);
    default: return uop_poison(g, "%s has no value at an index", op_info[node->op].name);
    }
}

UOp *value_at(Indexing *x, UOp *node, UOp *const *idx, UOp *valid) {
    const void *key[MAX_AXES + 2] = {node, valid};
    if (node->ndim) memcpy(key + 2, idx, (size_t)node->ndim * sizeof *idx);
    size_t key_bytes = (size_t)(node->ndim + 2) * sizeof *key;
    UOp *known = map_get(&x->memo, key, key_bytes);
    if (known) return known;
    UOp *value = value_of(x, node, idx, valid);
    map_put(&x->memo, key, key_bytes, value);
    return value;
}

UOp *target_at(Indexing *x, UOp *view, UOp *const *idx) {
    UOp *inner[MAX_AXES];
    Graph *g = view->graph;
    switch (view->op) {
    case OP_BUFFER: return uop_index(view, simplify(flat_index(g, idx, view->ndim, view->shape)));
    case OP_AFTER: return target_at(x, view->src[0], idx);
    case OP_RESHAPE: reshape_index(view, idx, inner); return target_at(x, view->src[0], inner);
    case OP_PERMUTE:
        for (int i = 0; i < view->ndim; i++) inner[view->arg[i]] = idx[i];
        return target_at(x, view->src[0], inner);
    case OP_SHRINK:
        for (int i = 0; i < view->ndim; i++) inner[i] = moved(idx[i], view->arg[2 * i], view->src[0]->shape[i]);
        return target_at(x, view->src[0], inner);
    case OP_FLIP:
        memcpy(inner, idx, (size_t)view->ndim * sizeof *idx);
        for (int k = 0; k < view->n_arg; k++) flip_index(view, (int)view->arg[k], idx, inner);
        return target_at(x, view->src[0], inner);
    case OP_GATHER: {
        UOp *at = value_at(x, view->src[1], idx, NULL);
        if (uop_is_poison(at)) return at;
        inner[0] = uop_cast(at, DT_I32);
        for (int i = 1; i < view->src[0]->ndim; i++) inner[i] = idx[view->src[1]->ndim + i - 1];
        return target_at(x, view->src[0], inner);
    }
    default: return uop_poison(g, "ASSIGN: %s is not a view of a buffer", op_info[view->op].name);
    }
}

// tensor: shapes and broadcasting on top of ir/uop. See tensor.h.
#include "tensor/tensor.h"

#include <string.h>

Tensor tensor_buffer(Graph *g, int64_t buffer_id, DType dtype, int64_t lo, int64_t hi, Dims shape) {
    int64_t arg[3 + MAX_AXES] = {buffer_id, lo, hi};
    memcpy(arg + 3, shape.at, (size_t)shape.n * sizeof *arg);
    return uop_new(g, OP_BUFFER, dtype, 1, NULL, 0, arg, 3 + shape.n);
}

Tensor tensor_const(Graph *g, DType dtype, double value) { return uop_float(g, dtype, value); }
Tensor tensor_iota(Graph *g, int64_t length) { return uop_new(g, OP_IOTA, DT_I32, 1, NULL, 0, &length, 1); }

static int axis_index(Tensor x, int axis) { return axis < 0 ? axis + x->ndim : axis; }

int64_t tensor_size(Tensor x, int axis) {
    int i = axis_index(x, axis);
    return i >= 0 && i < x->ndim ? x->shape[i] : 1;
}

int64_t tensor_count(Tensor x) {
    int64_t n = 1;
    for (int i = 0; i < x->ndim; i++) n *= x->shape[i];
    return n;
}

Dims tensor_dims(Tensor x) {
    Dims d = {.n = x->ndim};
    if (x->ndim) memcpy(d.at, x->shape, (size_t)x->ndim * sizeof *d.at);
    return d;
}

static Tensor moved(Op op, Tensor x, const int64_t *arg, int n) {
    return uop_new(x->graph, op, x->dtype, 1, &x, 1, arg, n);
}

// ---------------------------------------------------------------- movement

static bool has_shape(Tensor x, Dims shape) {
    return shape.n == x->ndim && (shape.n == 0 || !memcmp(shape.at, x->shape, (size_t)shape.n * sizeof *shape.at));
}

Tensor tensor_reshape(Tensor x, Dims shape) {
    if (uop_is_poison(x)) return x;
    int64_t known = 1;
    for (int i = 0; i < shape.n; i++) if (shape.at[i] >= 0) known *= shape.at[i];
    for (int i = 0; i < shape.n; i++)
        if (shape.at[i] < 0) shape.at[i] = known ? tensor_count(x) / known : 0;
    if (has_shape(x, shape)) return x;
    if (x->op == OP_RESHAPE) x = x->src[0];   // its own shape does not matter any more, and this may be the one before it
    return has_shape(x, shape) ? x : moved(OP_RESHAPE, x, shape.at, shape.n);
}

Tensor tensor_expand(Tensor x, Dims shape) {
    if (uop_is_poison(x)) return x;
    if (x->ndim > shape.n) return uop_poison(x->graph, "expand: %d axes do not fit %d", x->ndim, shape.n);
    Dims aligned = {.n = shape.n};
    for (int i = 0; i < shape.n; i++) {
        int from = i - (shape.n - x->ndim);
        aligned.at[i] = from < 0 ? 1 : x->shape[from];
    }
    x = tensor_reshape(x, aligned);
    if (shape.n == 0 || (!uop_is_poison(x) && !memcmp(x->shape, shape.at, (size_t)shape.n * sizeof *shape.at))) return x;
    return moved(OP_EXPAND, x, shape.at, shape.n);
}

Tensor tensor_permute(Tensor x, Dims order) {
    bool same = true;
    for (int i = 0; i < order.n; i++) same &= order.at[i] == i;
    return same && order.n == x->ndim ? x : moved(OP_PERMUTE, x, order.at, order.n);
}

Tensor tensor_transpose(Tensor x, int a, int b) {
    Dims order = {.n = x->ndim};
    for (int i = 0; i < x->ndim; i++) order.at[i] = i;
    a = axis_index(x, a), b = axis_index(x, b);
    if (uop_is_poison(x)) return x;
    if (a < 0 || b < 0 || a >= x->ndim || b >= x->ndim) return uop_poison(x->graph, "transpose: no axes %d, %d", a, b);
    order.at[a] = b, order.at[b] = a;
    return tensor_permute(x, order);
}

Tensor tensor_slice(Tensor x, int axis, int64_t begin, int64_t end) {
    if (uop_is_poison(x)) return x;
    int a = axis_index(x, axis);
    if (a < 0 || a >= x->ndim) return uop_poison(x->graph, "slice: no axis %d", axis);
    if (begin == 0 && end == x->shape[a]) return x;
    int64_t arg[2 * MAX_AXES];
    for (int i = 0; i < x->ndim; i++) arg[2 * i] = 0, arg[2 * i + 1] = x->shape[i];
    arg[2 * a] = begin, arg[2 * a + 1] = end;
    return moved(OP_SHRINK, x, arg, 2 * x->ndim);
}

Tensor tensor_pad(Tensor x, int axis, int64_t before, int64_t after) {
    if (uop_is_poison(x) || (before == 0 && after == 0)) return x;
    int a = axis_index(x, axis);
    if (a < 0 || a >= x->ndim) return uop_poison(x->graph, "pad: no axis %d", axis);
    int64_t arg[2 * MAX_AXES] = {0};
    arg[2 * a] = before, arg[2 * a + 1] = after;
    return moved(OP_PAD, x, arg, 2 * x->ndim);
}

Tensor tensor_flip(Tensor x, int axis) { return moved(OP_FLIP, x, (int64_t[]){axis_index(x, axis)}, 1); }

Tensor tensor_concat(Tensor a, Tensor b, int axis) {
    if (uop_is_poison(a)) return a;
    if (uop_is_poison(b)) return b;
    int at = axis_index(a, axis);
    int64_t na = tensor_size(a, axis), nb = tensor_size(b, axis);
    Tensor left = tensor_pad(a, axis, 0, nb), right = tensor_pad(b, axis, na, 0);
    if (uop_is_poison(left)) return left;
    Dims line = {.n = left->ndim};
    for (int i = 0; i < line.n; i++) line.at[i] = 1;
    line.at[at] = na + nb;
    Tensor place = tensor_reshape(tensor_iota(a->graph, na + nb), line);
    return tensor_where(tensor_binary_const(OP_LT, place, (double)na), left, right);
}

Tensor tensor_unsqueeze(Tensor x, int axis) {
    if (uop_is_poison(x)) return x;
    Dims d = {.n = x->ndim + 1};
    int a = axis < 0 ? axis + x->ndim + 1 : axis;
    for (int i = 0; i < d.n; i++) d.at[i] = i == a ? 1 : x->shape[i < a ? i : i - 1];
    return tensor_reshape(x, d);
}

Tensor tensor_squeeze(Tensor x, int axis) {
    if (uop_is_poison(x)) return x;
    int a = axis_index(x, axis);
    Dims d = {.n = x->ndim - 1};
    if (tensor_size(x, axis) != 1) return uop_poison(x->graph, "squeeze: axis %d is not of size 1", axis);
    for (int i = 0; i < d.n; i++) d.at[i] = x->shape[i < a ? i : i + 1];
    return tensor_reshape(x, d);
}

Tensor tensor_gather(Tensor x, Tensor index) {
    return uop_new(x->graph, OP_GATHER, x->dtype, 1, (UOp *[]){x, index}, 2, NULL, 0);
}

Tensor tensor_bitcast(Tensor x, DType dtype) {
    if (x->dtype == dtype || uop_is_poison(x)) return x;
    if (x->ndim == 0 && dtype_bytes(x->dtype) != dtype_bytes(dtype)) return uop_poison(x->graph, "bitcast: last axis does not divide");
    return uop_new(x->graph, OP_BITCAST, dtype, 1, &x, 1, NULL, 0);
}

Tensor tensor_cast(Tensor x, DType dtype) {
    return x->dtype == dtype ? x : uop_new(x->graph, OP_CAST, dtype, 1, &x, 1, NULL, 0);
}

// ---------------------------------------------------------------- elementwise

Tensor tensor_unary(Op op, Tensor x) { return uop_new(x->graph, op, x->dtype, 1, &x, 1, NULL, 0); }

static bool broadcast_dims(Tensor a, Tensor b, Dims *out) {
    Dims d = {.n = a->ndim > b->ndim ? a->ndim : b->ndim};
    for (int i = 0; i < d.n; i++) {
        int ia = i - (d.n - a->ndim), ib = i - (d.n - b->ndim);
        int64_t na = ia < 0 ? 1 : a->shape[ia], nb = ib < 0 ? 1 : b->shape[ib];
        if (na != nb && na != 1 && nb != 1) return false;
        d.at[i] = na == 1 ? nb : na;
    }
    *out = d;
    return true;
}

Tensor tensor_binary(Op op, Tensor a, Tensor b) {
    Dims d;
    if (uop_is_poison(a)) return a;
    if (uop_is_poison(b)) return b;
    if (!broadcast_dims(a, b, &d)) return uop_poison(a->graph, "%s: shapes do not broadcast", op_info[op].name);
    UOp *src[2] = {tensor_expand(a, d), tensor_expand(b, d)};
    return uop_new(a->graph, op, a->dtype, 1, src, 2, NULL, 0);
}

Tensor tensor_add(Tensor a, Tensor b) { return tensor_binary(OP_ADD, a, b); }
Tensor tensor_sub(Tensor a, Tensor b) { return tensor_binary(OP_SUB, a, b); }
Tensor tensor_mul(Tensor a, Tensor b) { return tensor_binary(OP_MUL, a, b); }
Tensor tensor_div(Tensor a, Tensor b) { return tensor_binary(OP_FDIV, a, b); }
Tensor tensor_max2(Tensor a, Tensor b) { return tensor_binary(OP_MAX, a, b); }
Tensor tensor_less(Tensor a, Tensor b) { return tensor_binary(OP_LT, a, b); }
Tensor tensor_equal(Tensor a, Tensor b) { return tensor_binary(OP_EQ, a, b); }

Tensor tensor_where(Tensor cond, Tensor a, Tensor b) {
    Dims ab, all;
    if (uop_is_poison(cond)) return cond;
    if (uop_is_poison(a)) return a;
    if (uop_is_poison(b)) return b;
    if (!broadcast_dims(a, b, &ab)) return uop_poison(a->graph, "WHERE: shapes do not broadcast");
    Tensor wide = tensor_expand(a, ab);
    if (!broadcast_dims(cond, wide, &all)) return uop_poison(a->graph, "WHERE: shapes do not broadcast");
    UOp *src[3] = {tensor_expand(cond, all), tensor_expand(a, all), tensor_expand(b, all)};
    return uop_new(a->graph, OP_WHERE, a->dtype, 1, src, 3, NULL, 0);
}

Tensor tensor_binary_const(Op op, Tensor x, double c) {
    return uop_is_poison(x) ? x : tensor_binary(op, x, tensor_const(x->graph, x->dtype, c));
}
Tensor tensor_add_const(Tensor x, double c) { return tensor_binary_const(OP_ADD, x, c); }
Tensor tensor_mul_const(Tensor x, double c) { return tensor_binary_const(OP_MUL, x, c); }

// ---------------------------------------------------------------- reductions and memory

Tensor tensor_reduce(Monoid monoid, int chains, Tensor x, Dims axes) {
    int64_t arg[2 + MAX_AXES] = {monoid, chains};
    for (int i = 0; i < axes.n; i++) arg[2 + i] = axis_index(x, (int)axes.at[i]);
    return uop_new(x->graph, OP_REDUCE, x->dtype, 1, &x, 1, arg, 2 + axes.n);
}

Tensor tensor_sum(Tensor x, int axis) {
    return tensor_reduce(MONOID_SUM, dtype_is_float(x->dtype) ? SUM_CHAINS : 1, x, dims(axis));
}
Tensor tensor_max(Tensor x, int axis) { return tensor_reduce(MONOID_MAX, 1, x, dims(axis)); }

Tensor tensor_contiguous(Tensor x) {
    return x->op == OP_CONTIGUOUS ? x : uop_new(x->graph, OP_CONTIGUOUS, x->dtype, 1, &x, 1, NULL, 0);
}

Tensor tensor_assign(Tensor buffer, Tensor target, Tensor value) {
    UOp *store = uop_new(target->graph, OP_ASSIGN, DT_VOID, 1, (UOp *[]){target, value}, 2, NULL, 0);
    return uop_is_poison(store) ? store : uop_after(buffer, &store, 1);
}

Tensor tensor_after(Tensor x, Tensor *deps, int n) { return uop_is_poison(x) ? x : uop_after(x, deps, n); }

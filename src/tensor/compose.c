// compose: common functions from the primitives of tensor.h; formulas stand at their declarations.
#include <math.h>

#include "tensor/tensor.h"

Tensor tensor_sigmoid(Tensor x) {
    return tensor_unary(OP_RECIP, tensor_add_const(tensor_unary(OP_EXP, tensor_unary(OP_NEG, x)), 1.0));
}

Tensor tensor_silu(Tensor x) {
    return tensor_div(x, tensor_add_const(tensor_unary(OP_EXP, tensor_unary(OP_NEG, x)), 1.0));
}

// tanh x = 1 − 2 / (exp(2x) + 1): right at both ends, where exp overflows to infinity or vanishes.
Tensor tensor_tanh(Tensor x) {
    Tensor e = tensor_unary(OP_EXP, tensor_mul_const(x, 2.0));
    return tensor_add_const(tensor_mul_const(tensor_unary(OP_RECIP, tensor_add_const(e, 1.0)), -2.0), 1.0);
}

Tensor tensor_gelu_tanh(Tensor x) {
    Tensor cube = tensor_mul(x, tensor_mul(x, x));
    Tensor inner = tensor_mul_const(tensor_add(x, tensor_mul_const(cube, 0.044715)), sqrt(2.0 / M_PI));
    return tensor_mul(tensor_mul_const(x, 0.5), tensor_add_const(tensor_tanh(inner), 1.0));
}

Tensor tensor_abs(Tensor x) { return tensor_max2(x, tensor_unary(OP_NEG, x)); }

// The maximum starts at a finite value, so that a row that is masked everywhere gives exp(−big) · 0, never NaN.
Tensor tensor_softmax(Tensor x, Tensor mask) {
    const double lowest = -1.7e38;
    if (uop_is_poison(x)) return x;
    Tensor floor = tensor_const(x->graph, x->dtype, lowest), zero = tensor_const(x->graph, x->dtype, 0);
    Tensor shown = mask ? tensor_where(mask, x, floor) : x;
    Tensor top = tensor_unsqueeze(tensor_max2(tensor_max(shown, -1), floor), -1);
    Tensor e = tensor_unary(OP_EXP, tensor_sub(shown, top));
    if (mask) e = tensor_where(mask, e, zero);
    e = tensor_contiguous(e);
    Tensor total = tensor_unsqueeze(tensor_sum(e, -1), -1);
    return tensor_div(e, tensor_where(tensor_less(zero, total), total, tensor_const(x->graph, x->dtype, 1)));
}

Tensor tensor_rank(Tensor scores) {
    if (uop_is_poison(scores)) return scores;
    Graph *g = scores->graph;
    int64_t n = tensor_size(scores, -1);
    Tensor clean = tensor_where(tensor_equal(scores, scores), scores, tensor_const(g, scores->dtype, -INFINITY));
    Tensor mine = tensor_unsqueeze(clean, -1), other = tensor_unsqueeze(clean, -2);
    Tensor i = tensor_reshape(tensor_iota(g, n), dims(n, 1)), j = tensor_reshape(tensor_iota(g, n), dims(1, n));
    Tensor earlier = tensor_binary(OP_AND, tensor_equal(other, mine), tensor_less(j, i));
    Tensor before = tensor_binary(OP_OR, tensor_less(mine, other), earlier);
    return tensor_sum(tensor_cast(before, DT_I32), -1);
}

Tensor tensor_argmax(Tensor x) {
    if (uop_is_poison(x)) return x;
    int64_t n = tensor_size(x, -1);
    Tensor top = tensor_unsqueeze(tensor_max(x, -1), -1);
    Tensor place = tensor_where(tensor_equal(x, top), tensor_iota(x->graph, n), tensor_const(x->graph, DT_I32, (double)n));
    return tensor_reduce(MONOID_MIN, 1, place, dims(-1));
}

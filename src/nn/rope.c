// rope: see rope.h.
#include "nn/rope.h"

#include <math.h>

// The pair that makes the given number of turns within the original context (YaRN, section 3.2).
static double pair_of_turns(const RopeSpec *s, double turns) {
    return (double)s->dim * log((double)s->original_context / (turns * 2.0 * M_PI)) /
           (2.0 * log(s->base));
}

// Share of a pair's frequency that is scaled: 0 for pairs that turn often, 1 for slow ones, a ramp between.
static double yarn_share(const RopeSpec *s, int64_t pair) {
    double low = fmax(0, floor(pair_of_turns(s, s->beta_fast)));
    double high = fmin((double)s->dim - 1, ceil(pair_of_turns(s, s->beta_slow)));
    return fmin(1, fmax(0, ((double)pair - low) / fmax(0.001, high - low)));
}

double rope_frequency(const RopeSpec *s, int64_t pair) {
    double plain = pow(s->base, -2.0 * (double)pair / (double)s->dim);
    if (s->divisors) plain /= (double)s->divisors[pair];
    if (s->scaling == ROPE_LINEAR) return plain / s->factor;
    if (s->scaling == ROPE_PLAIN) return plain;
    double share = yarn_share(s, pair);
    return plain * (1 - share) + plain / s->factor * share;
}

void rope_table(const RopeSpec *s, int64_t context, float *cos_out, float *sin_out) {
    int64_t pairs = s->dim / 2;
    for (int64_t i = 0; i < pairs; i++) {
        double frequency = rope_frequency(s, i);
        for (int64_t t = 0; t < context; t++) {
            double angle = (double)t * frequency;
            cos_out[t * pairs + i] = (float)(cos(angle) * s->magnitude);
            sin_out[t * pairs + i] = (float)(sin(angle) * s->magnitude);
        }
    }
}

// (a, b) → (a cos − b sin, b cos + a sin): x · cos + partner · (∓sin), the partner being x flipped along the axis of
// the pair, the sign depending on the place in it.
Tensor rope_apply(Tensor x, Tensor cos_rows, Tensor sin_rows, RopeLayout layout) {
    if (uop_is_poison(x)) return x;
    Graph *g = x->graph;
    int64_t rows = tensor_size(x, 0), heads = tensor_size(x, 1), width = tensor_size(x, 2);
    int64_t pairs = tensor_size(cos_rows, 1), turning = 2 * pairs;
    bool is_halves = layout == ROPE_HALVES;
    Dims apart = is_halves ? dims(rows, heads, 2, pairs) : dims(rows, heads, pairs, 2);
    Dims angle = is_halves ? dims(rows, 1, 1, pairs) : dims(rows, 1, pairs, 1);
    Dims place = is_halves ? dims(1, 1, 2, 1) : dims(1, 1, 1, 2);
    Tensor head = tensor_reshape(tensor_slice(x, 2, 0, turning), apart);
    if (uop_is_poison(head)) return head;
    Tensor is_first = tensor_reshape(tensor_binary_const(OP_EQ, tensor_iota(g, 2), 0), place);
    Tensor sign = tensor_where(is_first, tensor_const(g, DT_F32, -1), tensor_const(g, DT_F32, 1));
    Tensor partner = tensor_flip(head, is_halves ? 2 : 3);
    Tensor across = tensor_mul(tensor_mul(partner, tensor_reshape(sin_rows, angle)), sign);
    Tensor turned = tensor_add(tensor_mul(head, tensor_reshape(cos_rows, angle)), across);
    turned = tensor_reshape(turned, dims(rows, heads, turning));
    return turning == width ? turned : tensor_concat(turned, tensor_slice(x, 2, turning, width), 2);
}

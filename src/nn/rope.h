// rope: rotary positions. The cos and sin of every (position, pair) are computed once, in double, on the host; every
// scaling (linear, YaRN, frequency factors of a file) is applied here and nowhere else.
// In: a RopeSpec. Out: tables f32 [context, dim / 2] and a graph that turns the pairs of a head.
// Formulas: Su et al. 2021 (arXiv:2104.09864); Peng et al. 2023 (YaRN, arXiv:2309.00071), sections 3.1-3.4.
// Example: rope_table(&spec, 4096, cos, sin); q = rope_apply(q, cos_rows, sin_rows, ROPE_INTERLEAVED);
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "tensor/tensor.h"

// Which two values of a head form a pair: (2i, 2i + 1), or (i, i + dim / 2).
typedef enum RopeLayout { ROPE_INTERLEAVED, ROPE_HALVES } RopeLayout;
typedef enum RopeScaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_YARN } RopeScaling;

typedef struct RopeSpec {
    int64_t dim;               // values that turn, even
    double base;               // pair i turns by base^(−2i / dim) a position
    RopeLayout layout;
    RopeScaling scaling;
    double factor;             // linear, YaRN: how much longer the context is than the original
    int64_t original_context;  // YaRN
    double beta_fast, beta_slow;   // YaRN: turns within the original context from which on a pair keeps, up to
                                   // which it is scaled
    double magnitude;          // cos and sin are multiplied by it (YaRN's attention factor); 1 else
    const float *divisors;     // [dim / 2] of the file (rope_freqs.weight): angles are divided by them; NULL: none
} RopeSpec;

// Angle a position of pair i, after all scalings.
double rope_frequency(const RopeSpec *spec, int64_t pair);
// cos, sin: [context][dim / 2].
void rope_table(const RopeSpec *spec, int64_t context, float *cos_out, float *sin_out);
// x: [rows, heads, width] with width ≥ dim; the first dim values of each head turn. cos, sin: [rows, dim / 2].
Tensor rope_apply(Tensor x, Tensor cos_rows, Tensor sin_rows, RopeLayout layout);

// layers: products with weights as the file stores them, norms and embeddings, as graphs.
// In: f32 activations and Weights (a u8 buffer and a block type). Out: f32.
// Invariant: a weight is never expanded into memory: a product is one REDUCE over blocks and unit axes of
// meaning(bytes) · activations. In fast mode the activations of a product with a block type are first rounded to 8
// bits in blocks of 32; the rounded form depends on x alone, so products that read the same x share it.
// What scales a whole row of x (a norm's 1 / rms) is applied behind the product, so that no product and no rounding
// waits for a norm.
// Example: Tensor y = layers_linear(&l, input_of(x), &w);   // x [m, k], w [rows, k] → [m, rows]
#pragma once
#include "nn/quant.h"

enum { ACTIVATION_BLOCK = 32 };    // values under one scale in fast mode

typedef enum Activation { ACTIVATION_SILU, ACTIVATION_GELU } Activation;

typedef struct Weight {
    const QuantType *type;         // NULL: the model has no such weight
    int64_t buffer;                // engine's id of the bytes
    int64_t count, rows, cols;     // [count, rows, cols]; count 1: a matrix; rows 1 too: a vector
    bool is_planar;                // the buffer holds planes (quant_planes), not blocks
} Weight;

typedef struct Layers {
    Graph *graph;
    bool is_exact;                 // keep f32 activations
    QuantTables tables;
} Layers;

// The quantised form of x [.., k]: s f32 [.., k / block] = amax / 127 of the block, kept in a buffer, and
// p i8 [.., k / block, block] = round-half-even(x · (1 / s)), 0 where s is 0; x ≈ p · s.
typedef struct Rounded { Tensor p, s; } Rounded;
Rounded layers_round(Tensor x, int64_t block);

// What a product reads: x · scale, the scale ([.., 1] for x [.., k]; NULL: 1) applied to the result. rows: i32, which row of
// x [m, k] each row of the product is, taken after rounding; NULL: x as it is.
typedef struct Input { Tensor x, scale, rows; } Input;
Input input_of(Tensor x);
// x · weight / √(mean x² + eps) along the last axis; weight: f32 [k].
Input input_normed(Tensor x, Tensor weight, double eps);
Input input_unsqueeze(Input in, int axis);                                    // both parts; axis before the last; no rows
Input input_rows(Input in, Tensor rows);                                      // in.x [m, k], rows i32 [..] → [.., k]

Tensor layers_vector(const Layers *l, const Weight *w);                       // f32 [cols]
Tensor layers_embedding(const Layers *l, const Weight *w, Tensor ids);        // i32 [m] → f32 [m, cols]
Tensor layers_linear(const Layers *l, Input in, const Weight *w);             // [m, k] → [m, rows]
// Of the weight's rows, heads · h of them, those from first to end of each head's h: [m, k] → [m, heads, end − first].
Tensor layers_linear_part(const Layers *l, Input in, const Weight *w, int64_t heads, int64_t first, int64_t end);
// A matrix a head: [m, count, k] → [m, count, rows].
Tensor layers_heads(const Layers *l, Input in, const Weight *w);
// The matrices that ids i32 [m, n] (0 ≤ id < count) choose: [m, n or 1, k] → [m, n, rows].
Tensor layers_chosen(const Layers *l, Input in, const Weight *w, Tensor ids);
// A matrix for all rows of a group: [m, n, k] → [m, n, rows] with the matrices that ids i32 [m] choose.
Tensor layers_grouped(const Layers *l, Input in, const Weight *w, Tensor ids);
// As input_normed, the value itself.
Tensor layers_norm(Tensor x, Tensor weight, double eps);
Tensor layers_activate(Tensor x, Activation activation);
// cap · tanh(x / cap); x itself where cap is 0.
Tensor layers_soft_cap(Tensor x, double cap);

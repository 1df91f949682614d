// tensor: builds graphs, never runs them. A Tensor is a node with a shape; every function returns a new node.
// Wrong shapes or types give a poison node that carries the message; poison in, poison out; realize reports it.
// Elementwise functions broadcast like numpy (axes aligned at the right, sizes equal or 1).
// Example: Tensor y = tensor_sum(tensor_mul(w, x), -1);   // w [n, k], x [k] → y [n]
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "ir/uop.h"

typedef UOp *Tensor;
enum { MAX_AXES = 10, SUM_CHAINS = 16 };
typedef struct Dims { int n; int64_t at[MAX_AXES]; } Dims;
#define dims(...) ((Dims){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

// A buffer of the engine (engine.h gives the id). lo, hi: stated bounds of integer content (indices!), else 0, 0.
Tensor tensor_buffer(Graph *g, int64_t buffer_id, DType dtype, int64_t lo, int64_t hi, Dims shape);
Tensor tensor_const(Graph *g, DType dtype, double value);             // shape []
Tensor tensor_iota(Graph *g, int64_t length);                         // i32 [length]: 0, 1, 2 …

int64_t tensor_size(Tensor x, int axis);                              // negative axes count from the end; 1 for poison
int64_t tensor_count(Tensor x);                                       // elements
Dims tensor_dims(Tensor x);

// ---- movement
Tensor tensor_reshape(Tensor x, Dims shape);                          // one size may be -1
Tensor tensor_expand(Tensor x, Dims shape);                           // broadcasts to shape
Tensor tensor_permute(Tensor x, Dims order);
Tensor tensor_transpose(Tensor x, int a, int b);
Tensor tensor_slice(Tensor x, int axis, int64_t begin, int64_t end);
Tensor tensor_pad(Tensor x, int axis, int64_t before, int64_t after); // zeros
Tensor tensor_flip(Tensor x, int axis);
Tensor tensor_concat(Tensor a, Tensor b, int axis);                   // as two paddings and a WHERE
Tensor tensor_unsqueeze(Tensor x, int axis);                          // a new axis of size 1
Tensor tensor_squeeze(Tensor x, int axis);
Tensor tensor_gather(Tensor x, Tensor index);                         // x[index[…], …]: index.shape + x.shape[1:]
Tensor tensor_bitcast(Tensor x, DType dtype);                         // u8 [..., k·w] ↔ w-byte type [..., k]
Tensor tensor_cast(Tensor x, DType dtype);

// ---- elementwise
Tensor tensor_unary(Op op, Tensor x);
Tensor tensor_binary(Op op, Tensor a, Tensor b);
Tensor tensor_add(Tensor a, Tensor b);
Tensor tensor_sub(Tensor a, Tensor b);
Tensor tensor_mul(Tensor a, Tensor b);
Tensor tensor_div(Tensor a, Tensor b);                                // floats
Tensor tensor_max2(Tensor a, Tensor b);
Tensor tensor_where(Tensor cond, Tensor a, Tensor b);
Tensor tensor_less(Tensor a, Tensor b);
Tensor tensor_equal(Tensor a, Tensor b);
Tensor tensor_add_const(Tensor x, double c);
Tensor tensor_mul_const(Tensor x, double c);
Tensor tensor_binary_const(Op op, Tensor x, double c);                // x op c, c in x's type

// ---- reductions: the axis leaves the shape. Float sums: see reductions.def (16 chains unless said otherwise).
Tensor tensor_reduce(Monoid monoid, int chains, Tensor x, Dims axes);
Tensor tensor_sum(Tensor x, int axis);
Tensor tensor_max(Tensor x, int axis);

// ---- memory
Tensor tensor_contiguous(Tensor x);                                   // computed once, kept in a buffer
// target: movement and gather over one BUFFER (or AFTER of one). Returns the buffer (as src of target) after the store.
Tensor tensor_assign(Tensor buffer, Tensor target, Tensor value);
Tensor tensor_after(Tensor x, Tensor *deps, int n);                   // x, ordered behind the stores in deps (AFTER nodes)

// ---- compose.c: from the primitives above
Tensor tensor_silu(Tensor x);                                         // x · sigmoid(x)
Tensor tensor_sigmoid(Tensor x);
Tensor tensor_gelu_tanh(Tensor x);                                    // 0.5x(1 + tanh(√(2/π)(x + 0.044715x³)))
Tensor tensor_tanh(Tensor x);
Tensor tensor_abs(Tensor x);
Tensor tensor_softmax(Tensor x, Tensor mask);                         // last axis; mask: bool or NULL; a fully masked row is 0
Tensor tensor_rank(Tensor scores);                                    // last axis: place of each score, 0 = best, ties: lower index; NaN as −∞; i32
Tensor tensor_argmax(Tensor x);                                       // last axis, lowest index on ties; i32

// linear: an integer node as a sum of constant multiples of other nodes.
// In: a node of a signed or unsigned type. Out: factors, terms and a constant, equal to the node
// modulo 2^bits.
// Invariant: terms are distinct, no factor is 0, factors lie in the signed range of the type's
// width.
// Example: (x + 3)*4 - y → 4·x − 1·y + 12.
#pragma once
#include "ir/bounds.h"

enum { LINEAR_TERMS = 64 };
typedef struct LinearTerm { UOp *node; int64_t factor; } LinearTerm;
typedef struct Linear {
    Graph *graph;
    DType dtype;
    int lanes, n;
    int64_t constant;
    LinearTerm at[LINEAR_TERMS];
} Linear;

// Takes u apart through ADD, SUB, NEG and MUL by a constant. False where it has too many terms or
// is no integer.
bool linear_of(UOp *u, Linear *out);
// l += factor·u.
bool linear_add(Linear *l, UOp *u, int64_t factor);
// The sum as nodes, in canonical order (big factors first, constant last): equal sums become the
// same node.
UOp *linear_build(Linear *l);
// True where the ideal sum fits the dtype (then it is the node's value, wrapped steps or not); *b
// gets its bounds.
bool linear_fits(const Linear *l, Bounds *b);
int64_t linear_gcd(int64_t a, int64_t b);    // of the magnitudes; gcd(a, 0) = |a|
// index = base + constant, however many constants were added.
static inline UOp *index_base(UOp *index, int64_t *constant) {
    int64_t more;
    for (*constant = 0; index->op == OP_ADD && uop_is_int_const(index->src[1], &more); index = index->src[0]) *constant += more;
    return index;
}
static inline int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0); }   // a / b for b > 0, rounded down

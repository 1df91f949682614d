// bounds: the smallest and the largest value that an integer node can take.
// In: a node. Out: an interval that contains every value it can have, always inside the limits of
// its dtype.
// Invariant: arithmetic is done in 128 bits; an operation whose ideal result could leave the dtype
// gets the whole dtype (the value wraps), so a rule may trust bounds without asking about overflow.
// Example: r = range 0..7, bounds_of(r*4 + 3) = {3, 31}; bounds_of((r*4 + 3) // 8) = {0, 3}.
#pragma once
#include "ir/uop.h"

typedef struct Bounds { int64_t lo, hi; } Bounds;

// Bounds of an integer or bool node (over all its lanes and elements); {INT64_MIN, INT64_MAX} for
// others. A BUFFER or PARAM with lo = hi = 0 states nothing: its values have the bounds of its
// dtype. Each node of a graph is computed once; no recursion, so graphs may be deep. U64 values are
// int64 bit patterns.
Bounds bounds_of(UOp *u);
// Every value of a dtype.
Bounds bounds_of_dtype(DType dtype);
// One elementwise op on intervals. operand is the dtype of the sources (of src[1] for WHERE), dtype
// that of the result. False where the ideal result could leave the dtype; *out is then the whole
// dtype.
bool bounds_of_op(Op op, DType operand, DType dtype, const Bounds *src, Bounds *out);
// True where the operation of an elementwise integer node cannot wrap.
bool bounds_fit(UOp *u);

// eval_moves: movement ops, GATHER and BITCAST on dense arrays; used by eval_graph on values and on addresses.
// In: a node and its source's elements. Out: the node's elements, row-major.
// The elements may be values, or byte offsets into a buffer: moving is the same. MOVE_NOWHERE marks the offset of a
// padding element.
// Example: PERMUTE(1,0) of [2,3] {0,1,2,3,4,5} gives {0,3,1,4,2,5}.
#pragma once
#include "ir/eval.h"

enum { MOVE_NOWHERE = -1 };

// An op's result for its source's elements. padding fills what PAD adds; index holds GATHER's second source (one
// number an element of it), else NULL. out has room for the node's elements. Fails on a GATHER index that lies
// outside of the first axis.
bool move_elements(Arena *arena, const UOp *node, const Number *in, Number padding, const Number *index, Number *out,
                   Error *err) MUST_CHECK;
// BITCAST of values, through their bytes; n counts the source's elements. Fails where memory runs out.
bool bitcast_values(Arena *arena, DType from, DType to, const Number *in, size_t n, Number *out, Error *err) MUST_CHECK;
// BITCAST of byte offsets. Fails where the parts of a wider element are not neighbours in memory.
bool bitcast_offsets(DType from, DType to, const Number *in, size_t n, Number *out, Error *err) MUST_CHECK;
// Product of a shape; false where it is negative or does not fit 2^48.
bool shape_elements(int ndim, const int64_t *shape, int64_t *count);

// eval_ops: the op rows as loops over arrays of Numbers; shared by the three interpreters of eval.
// In: an elementwise op, the dtype of its sources, n operands. Out: n results, integers wrapped to their type.
// Example: op_loop(OP_ADD, DT_I8) applied to {100}, {100} gives {-56}.
#pragma once
#include "ir/eval.h"

// Operand k of element e is at[k][e * step[k]]: step 0 repeats one number. Returns false where the row has no
// meaning on the class that the loop was made for (then out is unspecified).
typedef struct OpOperands { const Number *at[3]; size_t step[3]; size_t n; } OpOperands;
typedef bool (*OpLoop)(const OpOperands *operands, Number *out);

// The loop of an op on sources of a dtype (of src[1] for WHERE); NULL for ops that are not elementwise.
OpLoop op_loop(Op op, DType operand_dtype);
// The dtype of an elementwise op's source that decides its class.
DType op_operand_dtype(const UOp *u);
// Wraps n integers to their type, in place; floats stay as they are.
void numbers_wrap(DType dtype, Number *at, size_t n);
// Rounds n floats to their type, in place; integers stay as they are.
void numbers_round(DType dtype, Number *at, size_t n);
// numbers_cast: n numbers of one type as another. numbers_load, numbers_store: n neighbours in memory.
void numbers_cast(DType from, DType to, const Number *at, Number *out, size_t n);
void numbers_load(DType dtype, const void *bytes, Number *out, size_t n);
void numbers_store(DType dtype, void *bytes, const Number *at, size_t n);
// x joined with y by a monoid's combining op.
Number monoid_combine(Monoid monoid, DType dtype, Number x, Number y);
// The value of a fold over nothing: the row's identity, within the type's limits.
Number monoid_identity(Monoid monoid, DType dtype);

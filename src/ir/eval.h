// eval: the meaning of every op on numbers. Used for constant folding, as the reference device and as test oracle.
// Integers are int64_t wrapped to their dtype after each op; floats of tensor graphs are double throughout (F16/BF16/F32
// round only where memory or a CAST to them rounds, and CONST), those of linear programs round after each op, because
// codegen lowers ops by how F32 rounds. NaN compares false; MAX and MIN ignore a NaN operand like fmax.
#pragma once
#include "base/error.h"
#include "ir/uop.h"

typedef union Number { int64_t i; double f; } Number;     // which one: the dtype's class (floats use f)

Number number_from_const(const UOp *u);
UOp *number_to_const(Graph *g, DType dtype, Number n);
Number number_wrap(DType dtype, Number n);                 // wrap an integer to its type; floats: unchanged
Number number_cast(DType from, DType to, Number n);
// One elementwise op on scalars: operand_dtype is the dtype of the sources (of src[1] for WHERE). False where the op
// has no meaning on that class.
bool eval_op(Op op, DType operand_dtype, const Number *args, Number *out);
// Folds an elementwise node whose sources are all CONST (lanes 1); NULL where it cannot.
UOp *eval_fold_constants(UOp *u);

// Reads and writes one element of a type in memory (F16, BF16 and F32 rounded to nearest even).
Number number_load(DType dtype, const void *at);
void number_store(DType dtype, void *at, Number n);
uint16_t f16_from_f64(double x);
double f64_from_f16(uint16_t h);

// A tensor graph's value. Element e (row-major) of the shape is at[e]. buffers(id) gives a BUFFER's bytes.
typedef struct EvalBuffers { void *(*address)(void *context, int64_t buffer_id); void *context; } EvalBuffers;
typedef struct EvalTensor { DType dtype; int ndim; const int64_t *shape; int64_t count; Number *at; } EvalTensor;
// Evaluates a tensor-level node (all tensor ops, AFTER/ASSIGN write to the buffer's bytes). Each node once a call.
// REDUCE sums floats in double, ignoring chains.
bool eval_graph(Arena *arena, UOp *root, const EvalBuffers *buffers, EvalTensor *out, Error *err) MUST_CHECK;

// Interprets a linear program (what codegen/linearize makes: a list of nodes in program order, RANGE opens a loop and
// END(range) closes it) for the tiles first ≤ tile < end. params[slot] is the memory of PARAM slot; SPECIAL is the
// tile index. Every access is checked against PARAM's bytes where it states them.
bool eval_program(Arena *arena, const UOpList *program, void *const *params, long first, long end, Error *err) MUST_CHECK;

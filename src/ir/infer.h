// infer: dtype and shape of a node from its sources, and what is wrong with it if they do not fit.
// In: op, sources, arg, the requested dtype. Out: dtype and shape, or a message for a poison node.
#pragma once
#include "ir/uop.h"

typedef struct Inferred { DType dtype; int lanes; int ndim; const int64_t *shape; const char *problem; } Inferred;
Inferred infer(Arena *arena, Op op, DType dtype, int lanes, UOp *const *src, int n_src, const int64_t *arg, int n_arg);

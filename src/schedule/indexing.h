// indexing: the value of a tensor at an index: movement ops become index arithmetic, reductions become FOLDs.
// In: a tensor node and one index expression an axis. Out: a scalar value over RANGEs, loads included.
// Invariant: every index lies inside its axis; where a PAD makes that untrue the load carries a `valid` condition.
// Example: value_at(permute(x [2,3], {1,0}), {i, j}) = load(index(x, j*3 + i)).
#pragma once
#include "schedule/schedule.h"

typedef struct Indexing {
    Schedule *schedule;
    UOpMap kept;                 // tensor node → BUFFER that holds its value
    Map memo;                    // (node, valid, indices) → value
} Indexing;

UOp *value_at(Indexing *x, UOp *node, UOp *const *idx, UOp *valid);
// The address that an ASSIGN's target view has at idx: an INDEX of its BUFFER.
UOp *target_at(Indexing *x, UOp *view, UOp *const *idx);
UOp *flat_index(Graph *g, UOp *const *idx, int ndim, const int64_t *shape);

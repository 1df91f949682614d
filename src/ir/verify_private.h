// verify_private: what the files of verify share. See verify.h.
// In: nodes whose form was checked. Out: the first problem as an error.
// Invariant: nothing here changes a graph.
// Example: verify_wrong(err, STAGE_KERNEL, u, "may not stand here") gives false and names u.
#pragma once
#include "ir/verify.h"

bool verify_wrong(Error *err, GraphStage stage, const UOp *u, const char *problem);
bool verify_node(UOp *u, GraphStage stage, Error *err) MUST_CHECK;

// verify_order.c: reads of what the same graph stores to.
bool verify_assigns(Arena *arena, UOp *root, const UOpList *order, Error *err) MUST_CHECK;
bool verify_loads(Arena *arena, UOp *sink, GraphStage stage, Error *err) MUST_CHECK;

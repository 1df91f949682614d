// eval_program: a linear program made ready for interpretation, so that running it again decodes and allocates nothing.
// In: the nodes in program order. Out: an EvalCode; eval_code_run runs tiles of it.
// Invariant: one EvalCode runs in one thread at a time: its values and its local memory live inside it.
// Example: EvalCode *c = eval_code_make(arena, &program, err); eval_code_run(c, params, 0, 8, err);
#pragma once
#include "ir/eval.h"

typedef struct EvalCode EvalCode;

// The code lives on the arena; the program's nodes may die after the call. NULL with *err where a node cannot be
// interpreted.
EvalCode *eval_code_make(Arena *arena, const UOpList *program, Error *err);
// Runs the tiles first ≤ tile < end; params[slot] is the memory of PARAM slot. Fails at the first access outside of a
// PARAM's stated bytes or of a local array: nothing outside has then been touched.
bool eval_code_run(EvalCode *code, void *const *params, long first, long end, Error *err) MUST_CHECK;

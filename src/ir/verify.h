// verify: is a graph what its stage allows?
// In: a root and a stage (rows of verify.def say which ops may stand where, with how many sources
// and args).
// Out: true, or an error that shows the offending node in text form.
// Invariant: what is read from a buffer that the same graph stores to waits for that store (AFTER).
// Example: a RESHAPE in a kernel: "kernel: reshape may not stand here: reshape(param0)".
#pragma once
#include "base/error.h"
#include "ir/uop.h"

// What a pass promises. From STAGE_ITEMS on: SINK of statements, every RANGE is closed.
typedef enum GraphStage {
    STAGE_TENSOR,    // views, reductions and elementwise ops over BUFFERs; one lane
    STAGE_ITEMS,     // STOREs of scalars over BUFFERs; a RANGE_GLOBAL is closed by the kernel itself
    STAGE_KERNEL,    // the same over PARAMs, one node a slot
    STAGE_LOOPS,     // after axes: ACCUM for FOLD, RANGE_LANE
    STAGE_BODY,      // after tiles: SPECIAL for RANGE_GLOBAL
    STAGE_VECTOR,    // after expand: vectors, DEFINE_REG, no RANGE_LANE; a LOAD or STORE may name the
                     // offset of each lane in its args
    STAGE_PROGRAM,   // after vectorize: lanes of a LOAD or STORE lie side by side
} GraphStage;

// Whether passes check what they made: builds with LATHE_VERIFY (make debug), or LATHE_DEBUG ≥ 2.
bool verify_wanted(void);
bool verify(UOp *root, GraphStage stage, Error *err) MUST_CHECK;
// A linear program: each source (and each store that it waits for) stands before its user and in a
// loop that is still open there, every RANGE is closed by one END, innermost first.
bool verify_program(const UOpList *program, Error *err) MUST_CHECK;
// What is wrong with the sources and args of a node that is about to be made; NULL where nothing
// is. Whatever passes can be given to uop_new.
const char *verify_form(Op op, DType dtype, UOp *const *src, int n_src, const int64_t *arg,
                        int n_arg);

// codegen: a kernel (loops over scalars) becomes a linear program over native vectors.
// In: SINK(STORE(INDEX(PARAM, i), value, ranges…)…) with RANGE_GLOBAL tiles. Out: nodes in program order.
// pipeline.c holds the list of passes; each is UOp → UOp, but for the last.
#pragma once
#include "base/error.h"
#include "ir/rewrite.h"
#include "ir/target.h"
#include "ir/uop.h"

// The passes, in order (pipeline.c).
UOp *spread_threads(UOp *sink, const Target *target);   // threads.c: what each thread of a group does
UOp *sums_outward(UOp *sink, const Target *target);     // outward.c: sums that go around the store they belong to
UOp *axes_plan(UOp *sink, const Target *target);        // axes.c: which ranges are loops, lanes or copies
UOp *decompose(UOp *sink, const Target *target);        // decompose.c: ops the target lacks
UOp *expand(UOp *sink, const Target *target);           // expand.c: lanes become vectors, folds become accumulators
UOp *vectorize(UOp *sink, const Target *target);        // vectorize.c: vectors in native pieces, loads joined
UOp *lower_tiles(UOp *sink, const Target *target);      // linearize.c: tile ranges from the tile index
UOp *saturate(UOp *sink, const Target *target);        // saturate.c: addresses in their cheapest form
UOpList linearize(Arena *arena, UOp *sink, const Target *target);   // linearize.c: program order, invariants outside loops

// The target as a store of a kernel sees it: with the registers that it is computed in; own memory's as the store that waits for it (pipeline.c).
Target store_target(const Target *target, const UOp *store);

// Whether a loop ends where its thread's share does (threads.c).
bool ends_at_thread(const UOp *range);

// Where the target has registers twice as long, with those for stores that need few enough instructions.
bool codegen(Arena *arena, UOp *sink, const Target *target, UOpList *program, Error *err) MUST_CHECK;

// Σ over lanes etc. of an ACCUM, in parts (see ops.def).
typedef struct Accum {
    Monoid monoid;
    int chains, n_loops, n_lanes, n_tail_lanes;
    bool is_stepwise;                  // lanes of other axes fill registers: units are added one after the other, and
                                       // float chains lie in memory
    UOp *value, *tail;                 // tail: NULL where there is none
    UOp *const *loops, *const *lanes, *const *tail_lanes;
} Accum;
Accum accum_parts(const UOp *u);
UOp *accum_new(Accum a);
// A sum and one more value, which is added in one step where it is a product, or a product added to such a value (expand_sums.c).
UOp *added(UOp *sum, UOp *value);

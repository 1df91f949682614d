// axes_private: what the files of the pass axes share. In: stores and folds over RANGEs. Out: their loops, lanes and copies.
// Invariant: nothing here changes the order of a float sum.
// Example: split_store_by(store, 2, lane, false) of 64 steps and 16 lanes: a loop of 4 steps around 16 lanes.
#pragma once
#include "codegen/codegen.h"

enum { MAX_RANGES = 16, STORE_LANES = 16 };

// axes.c
UOp *scaled_sum(UOp *a, int64_t by, UOp *b);             // a · by + b
UOp *steps_of(UOp *range, int64_t step);                 // the range's end / step, rounded up
bool has_loops_inside(UOp *value);                       // a sum's
bool has_lanes_inside(UOp *value);

// store_axes.c
UOp *store_axes(UOp *store, const Target *target);
bool has_unit_stride(UOp *index, UOp *range);
int64_t lanes_dividing(int64_t size, int64_t most);           // that divide the size; 1 where none do
// Closing range `at` of a store becomes a loop and these lanes; loop_last: the loop goes inside all others.
UOp *split_store_by(UOp *store, int at, UOp *lane, bool loop_last);
// Whether the end of some loop is data that depends on the range.
bool bounds_a_loop(UOp *store, UOp *range);
// Which closing range's copies share most, 0: none; and the store with copies along it.
int find_shared_axis(UOp *store, bool of_tile);
UOp *with_copies(UOp *store, int axis, const Target *target);
static inline UOp *index_of(UOp *access) { return access->src[0]->src[1]; }   // of a store or load

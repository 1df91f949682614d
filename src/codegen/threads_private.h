// threads_private: what threads.c and thread_plan.c share: how a kernel, and each of its stores, is spread over a group's threads.
#pragma once
#include "codegen/thread_tile.h"

enum { MAX_LOOPS = 16, MAX_FOLDS = 16, LEAST_TRIPS = 8, LONG_TRIPS = 16, WARP = 32, FEW_TURNS = 4,
       NEAR_LANES = 8,     // as many read a line of memory together, 16 bytes each
       JOIN_WORK = 8 };    // of an element: as much as bringing its sum together costs

// tiles: of the kernel. elements: that a thread may compute at once. has_products: some are tiles of two loops. parts: what each
// thread has of folds that are brought together already.
typedef struct Spread {
    Graph *graph; Arena *arena; const Target *target; UOp *thread; double tiles; int64_t threads, elements; bool has_products; UOpMap parts;
} Spread;

// How one store is shared: `lanes` neighbouring threads compute the folds together: of the elements of a ThreadTile; or,
// is_common, of all the elements that they store, one each: folds that do not change along the innermost loops.
typedef struct Plan { UOp *fold[MAX_FOLDS]; int n_folds; int64_t lanes; bool is_common; ThreadTile tile; } Plan;

// How the elements of a tile are shared out among the threads that have parts of their sums: each takes half of those that are
// left, and again, until `left` threads have the same ones. from, to: loops over elements; at: which of all of from[0] those of to
// are; sum: what stands for a sum in the value of the store, whole: the sum.
typedef struct Halves {
    int n;
    UOp *from[MAX_LOOPS], *to[MAX_LOOPS], *bit[MAX_LOOPS], *at;
    UOpList sum, whole;
    int64_t left;
} Halves;

static inline UOp *number(UOp *like, int64_t value) { return uop_int(like->graph, DT_I32, value); }
static inline int64_t power_from(int64_t n) {
    int64_t p = 1;
    while (p < n) p *= 2;
    return p;
}
static inline bool is_guard(const UOp *range) { return !range_is_static(range) && range_size(range) == 1; }
static inline double trips_of(UOp *const *ranges, int n) {
    double trips = 1;
    for (int i = 0; i < n; i++) trips *= (double)range_size(ranges[i]);
    return trips;
}

// thread_plan.c
double shared_trips(const UOp *fold);                          // steps of a sum that threads can share
Plan plan_store(Spread *x, UOp *store, int64_t most);            // most: threads that there are
void find_folds_of(Spread *x, UOp *store, Plan *plan);           // the plan's folds again, in a store that was changed
int64_t threads_wanted(Spread *x, UOp *sink, int64_t most);      // threads that have something to do; may set x->elements to 1, sets x->has_products

// expand_private: what the files of the pass expand share. In: nodes over RANGE_LANEs. Out: their vectors and the lane
// ranges that they go over. Invariant: lane ranges stand by falling id; the last one varies fastest.
// Example: load(index(p, 16·o + l)) with l < 4 → {load …, 4 lanes; n = 1, lane = {l}}
#pragma once
#include "base/map.h"
#include "codegen/codegen.h"

enum { MAX_LANE_RANGES = 12 };

typedef struct Laned { UOp *value; int n; UOp *lane[MAX_LANE_RANGES]; } Laned;

typedef struct Expander { Graph *graph; Arena *arena; UOpMap done, free, varies; const Target *target; } Expander;    // target: of the store

// expand.c
Laned *expand_node(Expander *x, UOp *u);
int lane_count(const Laned *v);
void lanes_insert(Laned *v, UOp *range);
int64_t lane_digit(const Laned *v, int k, int i);        // value of lane range i of v in lane k
UOp *shuffle(UOp *v, const int64_t *map, int n);
UOp *spread(Expander *x, const Laned *v, const Laned *to);   // over the lanes of `to`, a superset of its own

// expand_sums.c
Laned expand_accum(Expander *x, UOp *u);

// expand_steps.c: an ACCUM whose units are added one after the other.
Laned expand_stepwise(Expander *x, const Accum *a);

// expand_sums.c, for expand_steps.c
UOp *identity(Expander *x, Monoid m, DType dtype, int lanes);
// The vectors of bytes whose products a value is, the second of signed ones.
bool dot_operands(Expander *x, UOp *value, UOp **first, UOp **second);
// Lanes of v in another order: [own / word][outer][word], the own ranges counted as one.
UOp *own_by_words(Expander *x, const Laned *v, const Laned *outer, UOp *const *own, int n_own, int own_count, int word);
UOp *combine(Monoid m, UOp *acc, UOp *value);
int product_of(UOp *const *ranges, int n);
int chain_lanes(int own);                                // the power of two that holds so many chains, at most 16
// Memory that a nest of loops adds to, a register or an array of `all` cells: `lanes` of them from `at` on in each turn.
typedef struct Cells { UOp *memory; UOp *const *loops; int n_loops; UOp *at; int64_t lanes, all; } Cells;
Cells cells_of_register(Expander *x, DType dtype, int64_t lanes, UOp *const *loops, int n_loops);
UOp *cells_old(Expander *x, const Cells *c, Monoid monoid);      // inside the nest: what they hold, at first the identity
UOp *cells_updated(Expander *x, const Cells *c, UOp *value);     // stores it; behind the nest: what all of them hold
Laned outer_lanes(const Laned *value, UOp *const *own, int n_own);   // those of a value that are not the sum's own

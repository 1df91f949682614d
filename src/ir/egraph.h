// egraph: equality saturation: all forms that the rows of some sets can give to a graph, then the
// cheapest of them.
// In: a root, sets of text rows (EXACT, REAL), the cost of one node. Out: an equal root that costs
// no more.
// Invariant: limits are counts, so that the same input always gives the same output; rows in C and
// rows with `...` do not take part. Loads, ranges and folds are kept as they are, only the values
// that go into them change.
// Example: x*y + x*z costs two products; egraph_improve gives x*(y + z).
#pragma once
#include "ir/rule.h"

typedef struct EgraphLimits {
    int iterations;        // rounds of matching everything
    int nodes;             // forms held in all
    int matches;           // of one row in one round
} EgraphLimits;
#define EGRAPH_LIMITS ((EgraphLimits){.iterations = 8, .nodes = 4000, .matches = 500})

enum { EGRAPH_REASONS = 24 };
typedef struct EgraphReport {
    int iterations, nodes, classes, unions;
    uint64_t cost_before, cost_after;
    const char *stop;   // "saturated", "iterations", "nodes", "too big" or "off"
    const Rule *reasons[EGRAPH_REASONS];         // rows that made the nodes of the result
    int n_reasons;
} EgraphReport;

// Cost of one node (without its sources), in any unit; the cost of a graph is the sum over its
// distinct nodes, cut at UINT64_MAX. NULL: the rows of ops.def, times lanes.
typedef uint64_t (*EgraphCost)(const UOp *u, void *ctx);

// Equal to root under the sets, and never of greater cost. report may be NULL. LATHE_EGRAPH=0 gives
// root back.
UOp *egraph_improve(UOp *root, const RuleSet *const *sets, int n_sets, EgraphLimits limits,
                    EgraphCost node_cost, void *ctx, EgraphReport *report);
// The sum over distinct nodes under root.
uint64_t egraph_cost(UOp *root, EgraphCost node_cost, void *ctx);

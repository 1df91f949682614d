// rewrite: runs rule sets over a graph until nothing changes.
// In: a root, rule sets in order, the name of the pass. Out: the new root; equal parts stay the
// same nodes.
// Invariant: sources are finished before their user is tried, every node once; rows fire in the
// order of sets and files. An explicit stack is used, so graphs may be deep. Constants are folded
// on the way. What an AFTER waits for is left alone, unless the root is a SINK and holds it too.
// Example: UOp *y = rewrite(x, (const RuleSet *[]){&rules_algebra, &rules_index}, 2, "simplify",
// NULL);
#pragma once
#include "ir/rule.h"

typedef struct RewriteStats {
    int64_t nodes;       // visited, old and new
    int64_t tries;       // rules that were matched against a node
    int64_t rewrites;    // rules that fired
    int64_t folds;       // nodes that became constants
    int64_t
        loops;   // rewrites taken back because they led back to a node still under work: rules that fight
} RewriteStats;

// stats may be NULL; else the counts are added to it. Too many steps for the size of the graph are
// a BUG that names the last rules. LATHE_DEBUG=6 prints each rewrite.
UOp *rewrite(UOp *root, const RuleSet *const *sets, int n_sets, const char *pass_name,
             RewriteStats *stats);
// The same; user is handed to RULE_DO functions as ctx->user.
UOp *rewrite_with(UOp *root, const RuleSet *const *sets, int n_sets, const char *pass_name,
                  void *user, RewriteStats *stats);
// LATHE_DEBUG=6: a step of a pass, named and shown as a rule's. DERIVED names the line that takes it.
void derivation_print(const char *pass, const char *step, const char *file, int line, UOp *before, UOp *after);
#define DERIVED(pass, step, before, after) derivation_print(pass, step, __FILE__, __LINE__, before, after)
// simplify.c: an index expression or a value after the exact rules.
UOp *simplify(UOp *u);
// How far apart an index lies at two neighbouring steps of a loop. False where that is no constant.
bool index_step(UOp *index, UOp *loop, int64_t *step);
// The constant that an elementwise node, VCAT or SHUFFLE of constants is; NULL where it is none.
UOp *rewrite_fold(UOp *u);

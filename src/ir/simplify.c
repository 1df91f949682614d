// simplify: the exact rules, applied to index expressions and values. One place that names the sets.
#include "ir/rewrite.h"

UOp *simplify(UOp *u) {
    if (u->op == OP_CONST || u->op == OP_RANGE || uop_is_poison(u)) return u;
    return rewrite(u, (const RuleSet *[]){&rules_algebra, &rules_index}, 2, "simplify", NULL);
}

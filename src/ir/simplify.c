// simplify: the exact rules, applied to index expressions and values. One place that names the sets.
#include "ir/rewrite.h"

UOp *simplify(UOp *u) {
    if (u->op == OP_CONST || u->op == OP_RANGE || uop_is_poison(u)) return u;
    return rewrite(u, (const RuleSet *[]){&rules_algebra, &rules_index}, 2, "simplify", NULL);
}

bool index_step(UOp *index, UOp *loop, int64_t *step) {
    UOp *next = uop_binary(OP_ADD, loop, uop_int(loop->graph, loop->dtype, 1)), *moved = uop_substitute(index, &loop, &next, 1);
    return uop_is_int_const(simplify(uop_binary(OP_SUB, moved, index)), step);
}

// index_rules: the right sides in C of rules/index.def; see the rows there. All are exact.
// In: a match whose root is a sum, a division, a remainder or a comparison of integers. Out: an
// equal node, or NULL where it is canonical already or could wrap.
// Example: index_divide on (r0*8 + r1) // 8 with r1 in 0..7 gives r0.
#pragma once
#include "ir/linear.h"
#include "ir/rule.h"

UOp *index_sum(RewriteContext *ctx, Match *m);         // x + y, x - y, x * c0, neg(x)
UOp *index_divide(RewriteContext *ctx, Match *m);      // x // c0
UOp *index_remainder(RewriteContext *ctx, Match *m);   // x % c0
UOp *index_less(RewriteContext *ctx, Match *m);        // x < y
UOp *index_equal(RewriteContext *ctx, Match *m);       // x == y, x != y

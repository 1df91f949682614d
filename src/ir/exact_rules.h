// exact_rules: the right sides in C of rules/algebra.def; see the rows there. All are bit-equal.
// In: a match of the row's pattern. Out: an equal node, or NULL where the row does not apply.
// Example: exact_cast on cast[i32](cast[i64](x: i32)) gives x.
#pragma once
#include "ir/rule.h"

UOp *exact_by_bounds(RewriteContext *ctx, Match *m);   // an integer node that has one value only
UOp *exact_same_type(RewriteContext *ctx, Match *m);   // a conversion to the type that it comes from
UOp *exact_cast(RewriteContext *ctx, Match *m);        // cast(cast(x)) that loses nothing on the way
UOp *exact_bitcast(RewriteContext *ctx, Match *m);     // bitcast(bitcast(x))

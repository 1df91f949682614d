// rule_parse: the text of one rule row becomes Terms.
// In: a RuleRow. Out: a Rule whose terms live on the arena, or an Error that names file, line, rule
// and cause.
// Invariant: every name used by result and guard is bound by the pattern.
// Example: "max(x, c0)" → OP MAX (VAR x, CONSTANT 0).
#pragma once
#include "ir/rule.h"

typedef struct RuleFunction { const char *name; int n_args; } RuleFunction;
typedef enum RuleFunctionId {
    GUARD_LO,
    GUARD_HI,
    GUARD_FITS,
    GUARD_GCD,
    GUARD_IS_POW2,
    GUARD_BITS,
    GUARD_COUNT
} RuleFunctionId;
extern const RuleFunction rule_functions[GUARD_COUNT];

// Fills pattern, result, guard, row and set of the rule.
bool rule_parse(Arena *arena, const RuleSet *set, const RuleRow *row, Rule *rule,
                Error *err) MUST_CHECK;

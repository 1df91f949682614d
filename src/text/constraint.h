// constraint: holds an answer to a grammar, token by token, whatever bytes tokens are made of.
// In: a Grammar, the tokens as bytes. Out: which tokens may come next, as a mask; moved on by each token taken.
// Invariant: a token is allowed exactly if its bytes, behind all before, begin some text of the grammar; end tokens exactly
// if what is there is one. Memory has a bound, whatever the grammar. Masks are asked for by one thread for all constraints
// of one order; the rest may be done on any.
// Example: grammar "[0-9]{2}": behind "4" the tokens "2" and "7" may come, "42" and the end may not.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "text/grammar.h"
#include "text/token_order.h"

typedef struct Constraint Constraint;
// order must outlive the constraint, the grammar too.
Constraint *constraint_create(const Grammar *grammar, GrammarNode root, const TokenOrder *order);
void constraint_destroy(Constraint *constraint);         // NULL is allowed

typedef enum ConstraintState {
    CONSTRAINT_OPEN,       // the mask says how it may go on
    CONSTRAINT_DONE,       // the text is complete, and nothing can follow it
    CONSTRAINT_STUCK,      // no token fits (a vocabulary that cannot spell it), or too many readings at once
} ConstraintState;
// mask: [vocabulary], 0 forbids; valid until the next call.
ConstraintState constraint_mask(Constraint *constraint, const uint8_t **mask);
void constraint_take(Constraint *constraint, int32_t token);
// Is a text one of the grammar's? For tests.
bool constraint_accepts(const Grammar *grammar, GrammarNode root, Text text);

// prompt_turn: which prompt is evaluated next, and how much of it.
// In: how many tokens each waiting prompt still needs, and since when it waits. Out: pieces, until the turn's tokens are used up.
// Half of a turn is for those with the fewest tokens left, so that who asks briefly does not wait behind who asks at length;
// the other half is for the one that waits longest, so that it ends however many short ones come.
// Invariant: every call uses up a token at least; in a turn of t tokens the one that waits longest gets t / 2, or what it needs.
// Example: 900 tokens since 1 and 20 since 2, a turn of 128: 20 of the second, then 108 of the first.
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef struct WaitingPrompt {
    int64_t left;                     // tokens; 0: it does not wait
    uint64_t since;                   // of equals the first in the list came first
    int twin;                         // it goes first: an earlier one that evaluates what both need; −1: none
} WaitingPrompt;

typedef struct PromptTurn { int64_t shared, kept; } PromptTurn;   // tokens for any, for the one that waits longest

PromptTurn prompt_turn(int64_t tokens);
// False: nobody waits, or the turn is over.
bool prompt_turn_next(PromptTurn *turn, const WaitingPrompt *waiting, int n, int *at, int64_t *take);

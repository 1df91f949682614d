// prompt_turn: see prompt_turn.h.
#include "app/prompt_turn.h"

#include <stddef.h>

PromptTurn prompt_turn(int64_t tokens) {
    return (PromptTurn){.shared = tokens / 2, .kept = tokens - tokens / 2};
}

static int earliest(const WaitingPrompt *waiting, int n) {
    int at = -1;
    for (int i = 0; i < n; i++)
        if (waiting[i].left > 0 && (at < 0 || waiting[i].since < waiting[at].since)) at = i;
    return at;
}

// Of equals the earliest.
static int shortest(const WaitingPrompt *waiting, int n) {
    int at = -1;
    for (int i = 0; i < n; i++) {
        const WaitingPrompt *own = &waiting[i], *best = at < 0 ? NULL : &waiting[at];
        if (own->left > 0 && (!best || own->left < best->left || (own->left == best->left && own->since < best->since))) at = i;
    }
    while (at >= 0 && waiting[at].twin >= 0) at = waiting[at].twin;
    return at;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

bool prompt_turn_next(PromptTurn *turn, const WaitingPrompt *waiting, int n, int *at, int64_t *take) {
    int first = earliest(waiting, n);
    if (first < 0 || turn->shared + turn->kept <= 0) return false;
    *at = turn->shared > 0 ? shortest(waiting, n) : first;
    int64_t kept = *at == first ? turn->kept : 0;
    *take = least(waiting[*at].left, turn->shared + kept);
    kept = least(*take, kept);
    turn->kept -= kept;
    turn->shared -= *take - kept;
    return true;
}

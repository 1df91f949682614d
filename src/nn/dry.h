// dry: which tokens would go on repeating what was said before, and what that costs them ("don't repeat yourself").
// In: the tokens so far, SamplingOptions' dry_ fields, texts that end a repetition. Out: tokens and penalties.
// Where the last L tokens stood before, at least dry_allowed_length of them, the token that followed there is made less
// likely: dry_multiplier · dry_base^(L − dry_allowed_length) is subtracted from its logit, for the longest such L.
// Invariant: L does not reach back over the last place where a breaker's text ends, so that what comes after a line's end or
// a name in a dialogue may come again and again. Nothing is allocated after dry_create.
// Source: p-e-w, "DRY: a modern repetition penalty", 2024 (the formula); Z function, Gusfield 1997 (finding all L at once).
// Example: "a b c x a b c", allowed 2: "x" costs multiplier · base^1
#pragma once
#include "base/arena.h"
#include "base/text.h"
#include "nn/sampling.h"

typedef struct DryBreakers {
    const Text *texts;                 // must outlive the draws
    size_t n;                          // 0: there are none, and the rest is not asked
    Text (*piece)(const void *vocabulary, int32_t token);    // a token's bytes
    const void *vocabulary;
} DryBreakers;

typedef struct TokenPenalty { int32_t token; float penalty; } TokenPenalty;
typedef struct Dry Dry;
enum { DRY_BREAKER_MAX = 64 };         // bytes of a breaker; longer ones count by their last so many bytes

bool dry_is_on(const SamplingOptions *options);
// Scratch for histories of up to `context` tokens below vocab. Lives on arena.
Dry *dry_create(Arena *arena, int64_t vocab, int64_t context);
// Each token once, penalties finite and > 0; valid until the next call. n ≤ context.
size_t dry_penalties(Dry *dry, const SamplingOptions *options, const DryBreakers *breakers, const int32_t *tokens, int64_t n,
                     const TokenPenalty **out);

// thinking_budget: ends a model's thinking after so many tokens, by the marker that its chat template ends it with.
// In: tokens as they are drawn. Out: the token that must come next, once the thinking has had its share.
// Invariant: thinking is at most `most` tokens long, and up to three more where a character is not whole yet; what follows
// is the closing marker. An answer that ends its thinking earlier, or never thinks, is left as it is. Thinking that is
// opened again behind the marker has what is left.
// Example: most 2, "<think>" "Hm" ", so" → "</think>" must come next
#pragma once
#include "text/reply_scanner.h"
#include "text/tokenizer.h"

typedef struct ThinkingBudget ThinkingBudget;
// Lives on arena. most < 0: no limit, tokens are counted only. is_open: the prompt opened the thinking. format and tokenizer must live as long. Errors:
// LATHE_UNSUPPORTED where there is a limit and the vocabulary cannot spell the marker.
bool thinking_budget_create(ThinkingBudget **budget, Arena *arena, const Tokenizer *tokenizer, const ThinkingFormat *format, bool is_open,
                            int64_t most, Error *err) MUST_CHECK;
int32_t thinking_budget_forced(const ThinkingBudget *budget);        // the only token that may come next; −1: any
int64_t thinking_budget_used(const ThinkingBudget *budget);          // tokens of thinking so far
void thinking_budget_take(ThinkingBudget *budget, int32_t token);

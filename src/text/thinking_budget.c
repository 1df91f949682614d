// thinking_budget: see thinking_budget.h. Bytes decide where thinking begins and ends, tokens how long it is.
// Example: AT_START "<th" → AT_START; "ink>a" → THINKING, tail "a"
#include "text/thinking_budget.h"

#include <string.h>

typedef enum BudgetState { AT_START, THINKING, ANSWERING } BudgetState;
enum { CHARACTER_REST_MAX = 3 };      // bytes, so tokens, that may be missing from a character

struct ThinkingBudget {
    const Tokenizer *tokenizer;
    const ThinkingFormat *format;
    BudgetState state;
    bool has_limit;
    int64_t left;                     // negative: so many tokens of a character's rest came
    int64_t used;
    TokenIds close;                   // the closing marker
    size_t n_forced;                  // of it, given out
    TextBuilder tail;                 // AT_START: all so far; THINKING: what may be the beginning of the marker
};

bool thinking_budget_create(ThinkingBudget **out, Arena *arena, const Tokenizer *tokenizer, const ThinkingFormat *format, bool is_open,
                            int64_t most, Error *err) {
    ThinkingBudget *b = arena_new(arena, sizeof *b);
    *b = (ThinkingBudget){.tokenizer = tokenizer, .format = format, .state = is_open ? THINKING : AT_START, .left = most, .has_limit = most >= 0,
                          .tail = builder(arena)};
    *out = b;
    if (!b->has_limit) return true;
    TRY(tokenizer_encode(tokenizer, arena, text_of(format->close), true, &b->close, err));
    return text_ends(tokenizer_decode(tokenizer, arena, b->close.at, b->close.len), format->close) ||
           fail(err, LATHE_UNSUPPORTED, "the vocabulary has no way to write %s, so that thinking cannot be ended", format->close);
}

static bool is_due(const ThinkingBudget *b) {
    if (b->state != THINKING || !b->has_limit || b->left > 0) return false;
    return b->n_forced || b->left <= -CHARACTER_REST_MAX || utf8_incomplete_tail(builder_view(&b->tail)) == 0;
}

int32_t thinking_budget_forced(const ThinkingBudget *b) {
    return is_due(b) ? b->close.at[b->n_forced % b->close.len] : -1;
}

int64_t thinking_budget_used(const ThinkingBudget *b) {
    return b->used;
}

// Behind white space the text begins with the opening marker, may still become it, or is an answer.
static bool start_step(ThinkingBudget *b) {
    size_t blank = 0;
    bool is_open;
    while (blank < b->tail.len && is_blank(b->tail.at[blank])) blank++;
    builder_drop(&b->tail, blank);
    if (!text_may_begin(builder_view(&b->tail), text_of(b->format->open), &is_open)) b->state = ANSWERING;
    if (!is_open) return false;
    builder_drop(&b->tail, strlen(b->format->open));
    b->state = THINKING;
    return true;
}

static bool thought_step(ThinkingBudget *b) {
    Text close = text_of(b->format->close);
    size_t at = text_find(builder_view(&b->tail), close);
    if (at < b->tail.len) {
        builder_drop(&b->tail, at + close.len);
        b->state = AT_START;
        b->n_forced = 0;
        return true;
    }
    if (b->tail.len >= close.len) builder_drop(&b->tail, b->tail.len - close.len + 1);
    return false;
}

void thinking_budget_take(ThinkingBudget *b, int32_t token) {
    if (b->state == ANSWERING) return;
    bool is_forced = is_due(b), was_thinking = b->state == THINKING;
    b->n_forced += is_forced;
    builder_text(&b->tail, tokenizer_decode_piece(b->tokenizer, token));
    while (b->state == AT_START ? start_step(b) : b->state == THINKING && thought_step(b)) continue;
    if (was_thinking && !is_forced && b->state == THINKING) b->left--, b->used++;
}

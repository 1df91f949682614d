// dry: see dry.h. The Z function of the history read backwards says for every place how much of the end stands there too.
// Example: backwards "c b a x c b a" → z[4] = 3, and "x" comes before it, that is behind it
#include "nn/dry.h"

#include <math.h>
#include <string.h>

struct Dry {
    int64_t vocab, context;
    int32_t *z;                        // [context]
    int32_t *longest;                  // [vocab], −1: not found
    TokenPenalty *found;               // [context]
};

bool dry_is_on(const SamplingOptions *o) {
    return o->dry_multiplier > 0 && o->dry_window != 0;
}

Dry *dry_create(Arena *arena, int64_t vocab, int64_t context) {
    Dry *d = arena_new(arena, sizeof *d);
    *d = (Dry){.vocab = vocab, .context = context};
    d->z = arena_new(arena, (size_t)context * sizeof *d->z);
    d->longest = arena_new(arena, (size_t)vocab * sizeof *d->longest);
    d->found = arena_new(arena, (size_t)context * sizeof *d->found);
    for (int64_t i = 0; i < vocab; i++) d->longest[i] = -1;
    return d;
}

// The i-th last token.
static int32_t last(const int32_t *tokens, int64_t n, int64_t i) {
    return tokens[n - 1 - i];
}

// z[i]: how many tokens, read backwards from the i-th last one, are those read backwards from the last. Returns the largest.
static int64_t repeats_find(int32_t *z, const int32_t *tokens, int64_t n) {
    int64_t begin = 0, end = 0, most = 0;          // the stretch that reaches furthest so far: begin ≤ i < end equals 0 …
    for (int64_t i = 1; i < n; i++) {
        int64_t k = i < end ? (z[i - begin] < end - i ? z[i - begin] : end - i) : 0;
        while (i + k < n && last(tokens, n, k) == last(tokens, n, i + k)) k++;
        if (i + k > end) begin = i, end = i + k;
        z[i] = (int32_t)k;
        if (k > most) most = k;
    }
    return most;
}

// Does a breaker's text end in the i-th last token? It may begin in earlier ones.
static bool breaks(const DryBreakers *b, const int32_t *tokens, int64_t n, int64_t i) {
    char before[DRY_BREAKER_MAX];
    size_t n_before = 0;
    for (int64_t k = i + 1; k < n && n_before < sizeof before; k++) {
        Text piece = b->piece(b->vocabulary, last(tokens, n, k));
        size_t take = piece.len < sizeof before - n_before ? piece.len : sizeof before - n_before;
        n_before += take;
        memcpy(before + sizeof before - n_before, piece.at + piece.len - take, take);
    }
    const char *earlier = before + sizeof before - n_before;
    Text own = b->piece(b->vocabulary, last(tokens, n, i));
    for (size_t t = 0; t < b->n; t++) {
        Text text = b->texts[t];
        if (text.len > DRY_BREAKER_MAX) text = (Text){text.at + text.len - DRY_BREAKER_MAX, DRY_BREAKER_MAX};
        for (size_t end = 1; text.len && end <= own.len; end++) {
            size_t inside = end < text.len ? end : text.len, rest = text.len - inside;
            bool fits = memcmp(own.at + end - inside, text.at + rest, inside) == 0 && rest <= n_before &&
                        memcmp(earlier + n_before - rest, text.at, rest) == 0;
            if (fits) return true;
        }
    }
    return false;
}

// How many of the last `most` tokens stand behind the last breaker.
static int64_t unbroken(const DryBreakers *b, const int32_t *tokens, int64_t n, int64_t most) {
    int64_t i = 0;
    while (i < most && !(b->n && breaks(b, tokens, n, i))) i++;
    return i;
}

static float penalty_of(const SamplingOptions *o, int64_t length) {
    enum { ENOUGH = 1000000 };         // what no logit makes up for, and far from infinite
    double penalty = (double)o->dry_multiplier * pow((double)o->dry_base, (double)(length - o->dry_allowed_length));
    return (float)(penalty < ENOUGH ? penalty : ENOUGH);
}

size_t dry_penalties(Dry *d, const SamplingOptions *o, const DryBreakers *b, const int32_t *tokens, int64_t n, const TokenPenalty **out) {
    size_t n_found = 0;
    *out = d->found;
    if (!dry_is_on(o)) return 0;
    int64_t window = o->dry_window >= 0 && o->dry_window < n ? o->dry_window : n;
    tokens += n - window, n = window;
    int64_t most = unbroken(b, tokens, n, repeats_find(d->z, tokens, n));
    for (int64_t i = 1; i <= n && most >= o->dry_allowed_length; i++) {
        int32_t z = i < n ? d->z[i] : 0;      // nothing stands before the first token
        int32_t length = z < most ? z : (int32_t)most, token = last(tokens, n, i - 1);
        if (length < o->dry_allowed_length || length <= d->longest[token]) continue;
        if (d->longest[token] < 0) d->found[n_found++].token = token;
        d->longest[token] = length;
    }
    for (size_t i = 0; i < n_found; i++) {
        d->found[i].penalty = penalty_of(o, d->longest[d->found[i].token]);
        d->longest[d->found[i].token] = -1;
    }
    return n_found;
}

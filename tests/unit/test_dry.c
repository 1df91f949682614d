// test_dry: penalties of repeated stretches against the definition, searched for without any cleverness.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "nn/dry.h"

#undef fail // cmocka has its own
#include <cmocka.h>

enum { VOCAB = 12, LENGTH_MAX = 60 };
static const char *const pieces[VOCAB] = {"a", "b", "c", "\n", "x:", "ab", "cd", " ", "d", "", "e\nf", "User"};

static Text piece_of(const void *vocabulary, int32_t token) {
    return text_of(((const char *const *)vocabulary)[token]);
}

// Tokens behind the one in which the last breaker of the text ends.
static int64_t unbroken(const DryBreakers *b, const int32_t *tokens, int64_t n) {
    char text[LENGTH_MAX * 8] = "";
    size_t ends[LENGTH_MAX], len = 0;
    for (int64_t i = 0; i < n; i++) {
        size_t own = strlen(pieces[tokens[i]]);
        memcpy(text + len, pieces[tokens[i]], own);
        ends[i] = len += own;
    }
    int64_t last = -1;
    for (size_t end = 1; end <= len; end++)
        for (size_t t = 0; t < b->n; t++) {
            size_t own = b->texts[t].len;
            if (own > end || memcmp(text + end - own, b->texts[t].at, own) != 0) continue;
            for (int64_t i = n - 1; i >= 0; i--)
                if (ends[i] >= end && (i == 0 || ends[i - 1] < end) && i > last) last = i;
        }
    return n - 1 - last;
}

// The longest stretch before the end that stood before, with `token` behind it; −1: none that counts.
static int64_t longest(const SamplingOptions *o, const DryBreakers *b, const int32_t *tokens, int64_t n, int32_t token) {
    if (o->dry_window >= 0 && o->dry_window < n) tokens += n - o->dry_window, n = o->dry_window;
    int64_t most = unbroken(b, tokens, n), best = -1;
    for (int64_t p = 0; p < n; p++)
        for (int64_t L = o->dry_allowed_length; L <= most && L <= p && tokens[p] == token; L++)
            if (memcmp(tokens + p - L, tokens + n - L, (size_t)L * sizeof *tokens) == 0 && L > best) best = L;
    return best;
}

static uint32_t seed = 1;
static uint32_t drawn(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void penalties_are_those_of_the_definition(void **state) {
    (void)state;
    static const Text texts[] = {{"\n", 1}, {":", 1}, {"bcd", 3}, {"aa", 2}};
    Arena *arena = arena_create();
    Dry *dry = dry_create(arena, VOCAB, LENGTH_MAX);
    int n_penalties = 0, n_long = 0;
    for (int round = 0; round < 4000; round++) {
        int32_t tokens[LENGTH_MAX];
        int64_t n = drawn(LENGTH_MAX + 1);
        uint32_t used = 1 + drawn(VOCAB);
        for (int64_t i = 0; i < n; i++) tokens[i] = (int32_t)drawn(used);
        for (int64_t i = n / 2; i < n && drawn(3); i++) tokens[i] = tokens[i - n / 2];       // long repetitions too
        SamplingOptions o = sampling_defaults();
        o.dry_multiplier = 0.5f + (float)drawn(3), o.dry_base = 1.5f;
        o.dry_allowed_length = (int)drawn(5), o.dry_window = (int)drawn(LENGTH_MAX) - 1;
        DryBreakers b = {.texts = texts, .n = drawn(5), .piece = piece_of, .vocabulary = pieces};
        const TokenPenalty *found;
        size_t n_found = dry_penalties(dry, &o, &b, tokens, n, &found);
        double got[VOCAB] = {0};
        for (size_t i = 0; i < n_found; i++) {
            assert_true(got[found[i].token] == 0);         // once each
            got[found[i].token] = (double)found[i].penalty;
        }
        for (int32_t t = 0; t < VOCAB; t++) {
            int64_t L = o.dry_window == 0 ? -1 : longest(&o, &b, tokens, n, t);
            double want = L < 0 ? 0 : (double)o.dry_multiplier * pow(1.5, (double)(L - o.dry_allowed_length));
            if (want > 1e6) want = 1e6;                    // enough is enough
            if (fabs(got[t] - want) > 1e-6 * want) fail_msg("round %d: token %d costs %g, not %g", round, t, got[t], want);
            n_penalties += L >= 0;
            n_long += L >= 5;
        }
    }
    assert_in_range(n_penalties, 5000, 1000000);
    assert_in_range(n_long, 200, 1000000);
    arena_destroy(arena);
}

static void known_cases(void **state) {
    (void)state;
    enum { A, B, C, LINE, NAME, X = 8, USER = 11 };
    static const Text line = {"\n", 1}, user = {"User" "x:", 6};
    static const struct { int32_t tokens[12]; int64_t n; const Text *breaker; int32_t token; double penalty; } rows[] = {
        {{A, B, C, X, A, B, C}, 7, &line, X, 0.8 * 1.75},
        {{A, B, C, X, B, C}, 6, &line, X, 0.8},
        {{A, B, C, X, C}, 5, &line, -1, 0},                          // shorter than what is allowed
        {{A, A, A, A, A}, 5, &line, A, 0.8 * 1.75 * 1.75},           // repetitions may overlap
        {{A, B, C, X, LINE, A, B, C}, 8, &line, X, 0.8 * 1.75},
        {{A, LINE, B, C, X, A, LINE, B, C}, 9, &line, X, 0.8},       // only what stands behind the line's end
        {{B, C, LINE, X, B, C, LINE}, 7, &line, -1, 0},
        {{B, USER, NAME, C, X, B, USER, NAME, C}, 9, &user, -1, 0},  // a breaker of two tokens
        {{B, USER, NAME, C, X, B, USER, NAME, C}, 9, &line, X, 0.8 * 1.75 * 1.75},
    };
    Arena *arena = arena_create();
    Dry *dry = dry_create(arena, VOCAB, LENGTH_MAX);
    SamplingOptions o = sampling_defaults();
    const TokenPenalty *found;
    DryBreakers b = {.n = 1, .piece = piece_of, .vocabulary = pieces};
    assert_false(dry_is_on(&o));
    o.dry_multiplier = 0.8f;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        b.texts = rows[i].breaker;
        size_t n = dry_penalties(dry, &o, &b, rows[i].tokens, rows[i].n, &found);
        assert_int_equal(n, rows[i].token >= 0);
        if (n && (found[0].token != rows[i].token || fabs((double)found[0].penalty - rows[i].penalty) > 1e-6))
            fail_msg("row %zu: token %d costs %g", i, found[0].token, (double)found[0].penalty);
    }
    int32_t same[LENGTH_MAX] = {0};
    o.dry_base = 100;
    assert_int_equal(dry_penalties(dry, &o, &(DryBreakers){0}, same, LENGTH_MAX, &found), 1);
    assert_true(isfinite(found[0].penalty) && found[0].penalty >= 1e6f);
    assert_int_equal(dry_penalties(dry, &o, &(DryBreakers){0}, same, 0, &found), 0);
    o.dry_window = 0;
    assert_false(dry_is_on(&o));
    assert_int_equal(dry_penalties(dry, &o, &(DryBreakers){0}, same, LENGTH_MAX, &found), 0);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(penalties_are_those_of_the_definition), cmocka_unit_test(known_cases)};
    return cmocka_run_group_tests_name("dry", tests, NULL, NULL);
}

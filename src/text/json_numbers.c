// json_numbers: see json_numbers.h. A range of whole numbers is cut by lengths, then digit by digit; a real is a whole number
// with an optional fraction, and numbers below zero are those above it with a sign.
// Example: 0 ≤ x < 1: "0" with an optional fraction
#include "text/json_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"

enum { DIGITS_MAX = 18, FRACTION_MAX = 17 };
static const int64_t BOUND_MAX = 1000000000000000;

static GrammarNode digits_any(Grammar *g, int least, int most) {
    GrammarNode out;
    Error ignored;
    CHECK(grammar_repeat(g, grammar_byte_range(g, '0', '9'), least, most, &out, &ignored));
    return out;
}

typedef enum Side { BOTH, ABOVE, BELOW } Side;

// n digits from first on (ABOVE), up to last (BELOW), or between (BOTH), where texts of equal length compare as numbers.
static GrammarNode digits_between(Grammar *g, const char *first, const char *last, size_t n, Side side) {
    GrammarNode parts[3];
    int n_parts = 0;
    if (n == 0) return grammar_seq(g, NULL, 0);
    char low = side == BELOW ? '0' : *first, high = side == ABOVE ? '9' : *last;
    if (side == BOTH && low == high)
        return grammar_seq(g, (GrammarNode[]){grammar_byte_range(g, (uint8_t)low, (uint8_t)low), digits_between(g, first + 1, last + 1, n - 1, BOTH)}, 2);
    char from = low, to = high;
    if (side != BELOW) {
        parts[n_parts++] = grammar_seq(g, (GrammarNode[]){grammar_byte_range(g, (uint8_t)low, (uint8_t)low), digits_between(g, first + 1, last, n - 1, ABOVE)}, 2);
        from++;
    }
    if (side != ABOVE) {
        parts[n_parts++] = grammar_seq(g, (GrammarNode[]){grammar_byte_range(g, (uint8_t)high, (uint8_t)high), digits_between(g, first, last + 1, n - 1, BELOW)}, 2);
        to--;
    }
    if (from <= to)
        parts[n_parts++] = grammar_seq(g, (GrammarNode[]){grammar_byte_range(g, (uint8_t)from, (uint8_t)to), digits_any(g, (int)n - 1, (int)n - 1)}, 2);
    return grammar_alt(g, parts, n_parts);
}

// Whole numbers from first ≥ 0 to last; last < 0: no end.
static GrammarNode whole_between(Grammar *g, int64_t first, int64_t last) {
    GrammarNode parts[DIGITS_MAX + 2];
    int n = 0, longest = DIGITS_MAX;
    char low[32], high[32];
    snprintf(low, sizeof low, "%lld", (long long)first);
    if (last >= 0) longest = snprintf(high, sizeof high, "%lld", (long long)last);
    for (int len = (int)strlen(low); len <= longest; len++) {
        bool is_first = len == (int)strlen(low), is_last = last >= 0 && len == longest;
        char from[32], to[32];
        memset(to, '9', sizeof to), memset(from, '0', sizeof from);
        from[0] = '1';
        if (is_first) memcpy(from, low, (size_t)len);
        if (is_last) memcpy(to, high, (size_t)len);
        if (!is_first && !is_last && last < 0) {
            parts[n++] = grammar_seq(g, (GrammarNode[]){grammar_byte_range(g, '1', '9'), digits_any(g, len - 1, DIGITS_MAX - 1)}, 2);
            break;
        }
        parts[n++] = digits_between(g, from, to, (size_t)len, BOTH);
    }
    return grammar_alt(g, parts, n);
}

typedef struct Part { int64_t first, last; bool is_above, is_below; } Part;    // of magnitudes; last < 0: no end

static GrammarNode fraction(Grammar *g, bool is_above_zero) {
    GrammarNode point = grammar_byte_range(g, '.', '.');
    if (!is_above_zero) return grammar_seq(g, (GrammarNode[]){point, digits_any(g, 1, FRACTION_MAX)}, 2);
    return grammar_seq(g, (GrammarNode[]){point, digits_any(g, 0, FRACTION_MAX - 1), grammar_byte_range(g, '1', '9')}, 3);
}

static int whole_part(Grammar *g, const Part *p, GrammarNode *out) {
    int64_t first = p->first + p->is_above, last = p->last < 0 ? -1 : p->last - p->is_below;
    if (p->last >= 0 && last < first) return 0;
    out[0] = whole_between(g, first, last);
    return 1;
}

static int real_part(Grammar *g, const Part *p, GrammarNode *out) {
    int n = 0;
    bool has_end = p->last >= 0;
    int64_t first = p->first + p->is_above;
    bool has_room = !has_end || p->first < p->last;
    if (has_room && p->is_above) out[n++] = grammar_seq(g, (GrammarNode[]){whole_between(g, p->first, p->first), fraction(g, true)}, 2);
    if (!has_end || first < p->last) {
        GrammarNode whole = whole_between(g, first, has_end ? p->last - 1 : -1), exponent = grammar_seq(g, NULL, 0);
        // An exponent leads out of any range, so it stands only where there is none.
        if (!has_end && p->first == 0 && !p->is_above) {
            ByteSet e = {{0}}, sign = {{0}};
            byte_set_add(&e, 'e'), byte_set_add(&e, 'E'), byte_set_add(&sign, '+'), byte_set_add(&sign, '-');
            exponent = grammar_optional(g, grammar_seq(g, (GrammarNode[]){grammar_bytes(g, e), grammar_optional(g, grammar_bytes(g, sign)), digits_any(g, 1, 2)}, 3));
        }
        out[n++] = grammar_seq(g, (GrammarNode[]){whole, grammar_optional(g, fraction(g, false)), exponent}, 3);
    }
    if (has_end && !p->is_below && !(p->is_above && p->first == p->last)) out[n++] = whole_between(g, p->last, p->last);
    return n;
}

bool json_number_node(Grammar *g, const NumberBounds *b, GrammarNode *out, Error *err) {
    GrammarNode parts[8];
    int n = 0;
    bool has_least = isfinite(b->least), has_most = isfinite(b->most);
    if ((has_least && fabs(b->least) > (double)BOUND_MAX) || (has_most && fabs(b->most) > (double)BOUND_MAX))
        return fail(err, LATHE_BAD_REQUEST, "a bound beyond 10^15 cannot be held to");
    // Bounds that are no whole numbers are drawn in to the next ones.
    double least = ceil(b->least), most = floor(b->most);
    bool is_above = b->is_above && least == b->least, is_below = b->is_below && most == b->most;
    if (!has_most || most >= 0) {
        bool from_zero = !has_least || least < 0;
        Part p = {from_zero ? 0 : (int64_t)least, has_most ? (int64_t)most : -1, !from_zero && is_above, is_below};
        if (p.last < 0 || p.first <= p.last) n += (b->is_integer ? whole_part : real_part)(g, &p, parts + n);
    }
    if (!has_least || least < 0) {
        bool to_zero = !has_most || most >= 0;
        Part p = {to_zero ? 0 : (int64_t)-most, has_least ? (int64_t)-least : -1, to_zero ? b->is_integer : is_below, is_above};
        GrammarNode below[4];
        int n_below = p.last < 0 || p.first <= p.last ? (b->is_integer ? whole_part : real_part)(g, &p, below) : 0;
        if (n_below) parts[n++] = grammar_seq(g, (GrammarNode[]){grammar_byte_range(g, '-', '-'), grammar_alt(g, below, n_below)}, 2);
    }
    if (n == 0) return fail(err, LATHE_BAD_REQUEST, "no number lies between the bounds");
    *out = grammar_alt(g, parts, n);
    return true;
}

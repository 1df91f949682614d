// jinja_operators: + - * / // % ** on values, as Python defines them.
// In: an operator's token and two values. Out: the result, or a failure in Python's words.
// Invariant: integers stay within 64 bits (beyond is an error, not a wrap); // and % round towards
// minus infinity.
// Example: -7 // 2 is -4, -7 % 2 is 1, 7 / 2 is 3.5, "ab" * 2 is "abab", "%d%%" % 5 is "5%".
#include <math.h>
#include <string.h>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"

static bool fail_types(JinjaRun *run, int op, JinjaValue a, JinjaValue b) {
    return jinja_fail(run, "unsupported operand type(s) for %s: '%s' and '%s'",
                      op == JINJA_TOKEN_POWER ? "** or pow()"
                                              : jinja_token_name((JinjaTokenKind)op),
                      jinja_type_name(a), jinja_type_name(b));
}

static bool fail_overflow(JinjaRun *run) { return jinja_fail(run, "an integer beyond 64 bits"); }

static bool integer_power(JinjaRun *run, int64_t base, int64_t exponent, JinjaValue *out) {
    int64_t result = 1;
    if (exponent < 0) {
        if (base == 0) return jinja_fail(run, "0.0 cannot be raised to a negative power");
        *out = jinja_float(pow((double)base, (double)exponent));
        return true;
    }
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result))
            return fail_overflow(run);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return fail_overflow(run);
    }
    *out = jinja_int(result);
    return true;
}

static bool integer_binary(JinjaRun *run, int op, int64_t a, int64_t b, JinjaValue *out) {
    int64_t result = 0;
    bool divides =
        op == JINJA_TOKEN_DIVIDE || op == JINJA_TOKEN_FLOOR_DIVIDE || op == JINJA_TOKEN_MODULO;
    if (divides && b == 0)
        return jinja_fail(run, op == JINJA_TOKEN_DIVIDE ? "division by zero"
                                                        : "integer division or modulo by zero");
    if (divides && b == -1 && a == INT64_MIN) return fail_overflow(run);
    bool has_overflow = false;
    switch (op) {
    case JINJA_TOKEN_ADD: has_overflow = __builtin_add_overflow(a, b, &result); break;
    case JINJA_TOKEN_SUBTRACT: has_overflow = __builtin_sub_overflow(a, b, &result); break;
    case JINJA_TOKEN_MULTIPLY: has_overflow = __builtin_mul_overflow(a, b, &result); break;
    case JINJA_TOKEN_FLOOR_DIVIDE: result = a / b - (a % b != 0 && (a % b < 0) != (b < 0)); break;
    case JINJA_TOKEN_MODULO: result = a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0); break;
    case JINJA_TOKEN_POWER: return integer_power(run, a, b, out);
    default: *out = jinja_float((double)a / (double)b); return true;
    }
    if (has_overflow) return fail_overflow(run);
    *out = jinja_int(result);
    return true;
}

static double float_modulo(double a, double b) {
    double m = fmod(a, b);
    if (m == 0) return copysign(0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

// a − fmod(a, b) is a multiple of b but for rounding, which the last step takes back.
static double float_floor_divide(double a, double b) {
    double m = fmod(a, b), quotient = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0)) quotient -= 1;
    double whole = floor(quotient);
    if (quotient == 0) return copysign(0, a / b);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static bool float_binary(JinjaRun *run, int op, double a, double b, JinjaValue *out) {
    bool divides =
        op == JINJA_TOKEN_DIVIDE || op == JINJA_TOKEN_FLOOR_DIVIDE || op == JINJA_TOKEN_MODULO;
    if (divides && b == 0)
        return jinja_fail(run, op == JINJA_TOKEN_MODULO   ? "float modulo"
                               : op == JINJA_TOKEN_DIVIDE ? "float division by zero"
                                                          : "float floor division by zero");
    if (op == JINJA_TOKEN_POWER && a == 0 && b < 0)
        return jinja_fail(run, "0.0 cannot be raised to a negative power");
    switch (op) {
    case JINJA_TOKEN_ADD: *out = jinja_float(a + b); break;
    case JINJA_TOKEN_SUBTRACT: *out = jinja_float(a - b); break;
    case JINJA_TOKEN_MULTIPLY: *out = jinja_float(a * b); break;
    case JINJA_TOKEN_DIVIDE: *out = jinja_float(a / b); break;
    case JINJA_TOKEN_MODULO: *out = jinja_float(float_modulo(a, b)); break;
    case JINJA_TOKEN_FLOOR_DIVIDE: *out = jinja_float(float_floor_divide(a, b)); break;
    default: *out = jinja_float(pow(a, b));
    }
    return true;
}

// ---- sequences ----

static bool join_lists(JinjaRun *run, JinjaValue a, JinjaValue b, JinjaValue *out) {
    JinjaList *list = jinja_list_new(run, a.list->len + b.list->len);
    TRY(jinja_step(run, a.list->len + b.list->len));
    for (size_t i = 0; i < a.list->len; i++) jinja_list_push(run, list, a.list->at[i]);
    for (size_t i = 0; i < b.list->len; i++) jinja_list_push(run, list, b.list->at[i]);
    *out = jinja_sequence(a.kind, list);
    return !run->has_failed;
}

// Markup escapes what is joined to it.
static bool join_strings(JinjaRun *run, JinjaString *a, JinjaString *b, JinjaValue *out) {
    bool is_safe = a->is_safe || b->is_safe;
    JinjaValue escaped;
    if (is_safe && !a->is_safe) {
        TRY(jinja_escape_html(run, a, &escaped));
        a = escaped.string;
    } else if (is_safe && !b->is_safe) {
        TRY(jinja_escape_html(run, b, &escaped));
        b = escaped.string;
    }
    TRY(jinja_concat(run, a, b, out));
    out->string->is_safe = is_safe;
    return true;
}

static bool repeat(JinjaRun *run, JinjaValue v, int64_t times, JinjaValue *out) {
    uint64_t n = times > 0 ? (uint64_t)times : 0,
             unit = v.kind == JINJA_STRING ? v.string->len : v.list->len, total;
    if (__builtin_mul_overflow(n, unit, &total) || total > run->limits.max_bytes)
        return jinja_fail_limit(run, "bytes of text", run->limits.max_bytes);
    if (unit == 0) n = 0;
    TRY(jinja_step(run, n));
    if (v.kind != JINJA_STRING) {
        JinjaList *list = jinja_list_new(run, 0);
        for (uint64_t i = 0; i < total && !run->has_failed; i++)
            jinja_list_push(run, list, v.list->at[i % unit]);
        *out = jinja_sequence(v.kind, list);
        return !run->has_failed;
    }
    JinjaBuilder b = jinja_builder(run);
    for (uint64_t i = 0; i < n && !run->has_failed; i++) jinja_append_string(&b, v.string);
    TRY(jinja_finish(&b, out));
    out->string->is_safe = v.string->is_safe;
    return true;
}

static bool is_joinable_list(JinjaValue v) { return v.kind == JINJA_LIST || v.kind == JINJA_TUPLE; }

static bool add_other(JinjaRun *run, JinjaValue a, JinjaValue b, JinjaValue *out) {
    if (is_joinable_list(a) && a.kind == b.kind) return join_lists(run, a, b, out);
    JinjaValue x = jinja_soften(run, a), y = jinja_soften(run, b);
    if (x.kind == JINJA_STRING && y.kind == JINJA_STRING)
        return join_strings(run, x.string, y.string, out);
    if (x.kind == JINJA_STRING || is_joinable_list(x))
        return jinja_fail(run, "can only concatenate %s (not \"%s\") to %s", jinja_type_name(x),
                          jinja_type_name(b), jinja_type_name(x));
    return fail_types(run, JINJA_TOKEN_ADD, a, b);
}

static bool multiply_other(JinjaRun *run, JinjaValue a, JinjaValue b, JinjaValue *out) {
    int64_t times;
    bool is_left = a.kind == JINJA_STRING || is_joinable_list(a);
    JinjaValue unit = is_left ? a : b, count = is_left ? b : a;
    if (unit.kind != JINJA_STRING && !is_joinable_list(unit))
        return fail_types(run, JINJA_TOKEN_MULTIPLY, a, b);
    if (!jinja_is_integer(count, &times))
        return jinja_fail(run, "can't multiply sequence by non-int of type '%s'",
                          jinja_type_name(count));
    return repeat(run, unit, times, out);
}

bool jinja_binary(JinjaRun *run, int op, JinjaValue a, JinjaValue b, JinjaValue *out) {
    int64_t i, j;
    double x, y;
    if (a.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, a);
    if (jinja_is_integer(a, &i) && jinja_is_integer(b, &j))
        return integer_binary(run, op, i, j, out);
    if (jinja_is_number(a, &x) && jinja_is_number(b, &y)) return float_binary(run, op, x, y, out);
    if (op == JINJA_TOKEN_MODULO) {
        JinjaValue format = jinja_soften(run, a);
        if (format.kind == JINJA_STRING) return jinja_percent_format(run, format.string, b, out);
    }
    if (b.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, b);
    if (op == JINJA_TOKEN_ADD) return add_other(run, a, b, out);
    if (op == JINJA_TOKEN_MULTIPLY) return multiply_other(run, a, b, out);
    return fail_types(run, op, a, b);
}

// rational: exact fractions of 64-bit numbers, for rows that are equal over the reals only.
// In: terms, values of their variables. Out: the exact value, or `ok` false where it overflows or
// divides by zero.
// Example: x/y + z with x = 1, y = 3, z = 1/6 is 1/2.
#pragma once
#include "ir/rule.h"
#include "rules/support.h"

typedef struct Rational { int64_t num, den; bool ok; } Rational;

static inline Rational rational(__int128 num, __int128 den) {
    __int128 a = num < 0 ? -num : num, b = den < 0 ? -den : den;
    if (den == 0) return (Rational){0, 1, false};
    while (b) {
        __int128 rest = a % b;
        a = b;
        b = rest;
    }
    if (a == 0) a = 1;
    num /= den < 0 ? -a : a;
    den /= den < 0 ? -a : a;
    bool ok = num <= INT64_MAX && num >= -INT64_MAX && den <= INT64_MAX;
    return ok ? (Rational){(int64_t)num, (int64_t)den, true} : (Rational){0, 1, false};
}

static inline bool rational_less(Rational a, Rational b) {
    return (__int128)a.num * b.den < (__int128)b.num * a.den;
}

static inline Rational rational_op(Op op, const Rational *s, int n) {
    for (int i = 0; i < n; i++) if (!s[i].ok) return (Rational){0, 1, false};
    switch (op) {
    case OP_NEG: return rational(-(__int128)s[0].num, s[0].den);
    case OP_RECIP: return rational(s[0].den, s[0].num);
    case OP_ADD:
        return rational((__int128)s[0].num * s[1].den + (__int128)s[1].num * s[0].den,
                        (__int128)s[0].den * s[1].den);
    case OP_SUB:
        return rational((__int128)s[0].num * s[1].den - (__int128)s[1].num * s[0].den,
                        (__int128)s[0].den * s[1].den);
    case OP_MUL: return rational((__int128)s[0].num * s[1].num, (__int128)s[0].den * s[1].den);
    case OP_FDIV: return rational((__int128)s[0].num * s[1].den, (__int128)s[0].den * s[1].num);
    case OP_MAX: return rational_less(s[0], s[1]) ? s[1] : s[0];
    case OP_MIN: return rational_less(s[0], s[1]) ? s[0] : s[1];
    case OP_WHERE: return s[0].num ? s[1] : s[2];
    case OP_CAST: return s[0];
    default: BUG("no rational meaning for %s", op_info[op].name);
    }
}

typedef struct RationalValues {
    Rational vars[RULE_VARS], constants[RULE_CONSTANTS];
} RationalValues;

static inline Rational rational_term(const RuleTerm *t, const RationalValues *v) {
    Rational s[TERM_SRC];
    if (t->kind == TERM_VAR) return v->vars[t->slot];
    if (t->kind == TERM_CONSTANT) return v->constants[t->slot];
    if (t->kind == TERM_LITERAL)
        return t->is_float ? rational((int64_t)(t->f * 1024), 1024) : rational(t->i, 1);
    if (t->kind == TERM_COMPUTED) return rational_term(t->src[0], v);
    for (int i = 0; i < t->n_src; i++) s[i] = rational_term(t->src[i], v);
    return rational_op(t->op, s, t->n_src);
}

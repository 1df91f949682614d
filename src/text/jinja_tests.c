// jinja_tests: what stands behind `is`.
// In: the subject and the test's arguments. Out: a truth value.
// Invariant: a test on an undefined subject answers where jinja2's does.
// Example: "A" is upper; [] is sequence; none is none; 4 is divisibleby 2.
#include <string.h>
#include <utf8proc.h>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"

static bool answer(bool b, JinjaValue *out) {
    *out = jinja_bool(b);
    return true;
}

bool jinja_test_boolean(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_BOOL, out);
}

bool jinja_test_callable(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaKind kind = call->self.kind;
    (void)run;
    return answer(kind == JINJA_UNDEFINED || kind == JINJA_MACRO || kind == JINJA_BUILTIN ||
                      kind == JINJA_METHOD || kind == JINJA_LOOP || kind == JINJA_JOINER,
                  out);
}

bool jinja_test_defined(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind != JINJA_UNDEFINED, out);
}

bool jinja_test_undefined(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_UNDEFINED, out);
}

bool jinja_test_none(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_NONE, out);
}

bool jinja_test_true(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_BOOL && call->self.boolean, out);
}

bool jinja_test_false(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_BOOL && !call->self.boolean, out);
}

bool jinja_test_integer(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_INT, out);
}

bool jinja_test_float(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_FLOAT, out);
}

bool jinja_test_number(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    double real;
    (void)run;
    return answer(jinja_is_number(call->self, &real), out);
}

bool jinja_test_string(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_STRING, out);
}

bool jinja_test_mapping(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_DICT, out);
}

// Has a length and takes an index; an undefined value does, in Python's eyes.
bool jinja_test_sequence(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaKind kind = call->self.kind;
    (void)run;
    return answer(kind == JINJA_STRING || kind == JINJA_LIST || kind == JINJA_TUPLE ||
                      kind == JINJA_RANGE || kind == JINJA_DICT || kind == JINJA_UNDEFINED,
                  out);
}

bool jinja_test_iterable(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaKind kind = call->self.kind;
    (void)run;
    return answer(kind == JINJA_STRING || jinja_is_list(call->self) || kind == JINJA_DICT ||
                      kind == JINJA_LOOP || kind == JINJA_UNDEFINED,
                  out);
}

bool jinja_test_escaped(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    return answer(call->self.kind == JINJA_STRING && call->self.string->is_safe, out);
}

bool jinja_test_filter(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    (void)run;
    return answer(call->self.kind == JINJA_STRING && jinja_find_filter((Text){s->at, s->len}), out);
}

bool jinja_test_test(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    (void)run;
    return answer(call->self.kind == JINJA_STRING && jinja_find_test((Text){s->at, s->len}), out);
}

static bool remainder_is(JinjaRun *run, JinjaValue v, JinjaValue by, int64_t wanted,
                         JinjaValue *out) {
    JinjaValue rest;
    TRY(jinja_binary(run, JINJA_TOKEN_MODULO, v, by, &rest));
    return answer(jinja_equal(run, rest, jinja_int(wanted)), out);
}

bool jinja_test_divisibleby(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return remainder_is(run, call->self, call->arg[0], 0, out);
}

bool jinja_test_even(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return remainder_is(run, call->self, jinja_int(2), 0, out);
}

bool jinja_test_odd(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return remainder_is(run, call->self, jinja_int(2), 1, out);
}

// ---- comparisons ----

bool jinja_test_equal(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return answer(jinja_equal(run, call->self, call->arg[0]), out);
}

bool jinja_test_not_equal(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return answer(!jinja_equal(run, call->self, call->arg[0]), out);
}

static bool order_is(JinjaRun *run, const JinjaCall *call, const char *op, int wanted,
                     bool or_equal, JinjaValue *out) {
    int order;
    TRY(jinja_compare(run, call->self, call->arg[0], op, &order));
    return answer(order == wanted || (or_equal && order == 0), out);
}

bool jinja_test_less(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return order_is(run, call, "<", -1, false, out);
}

bool jinja_test_less_equal(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return order_is(run, call, "<=", -1, true, out);
}

bool jinja_test_greater(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return order_is(run, call, ">", 1, false, out);
}

bool jinja_test_greater_equal(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return order_is(run, call, ">=", 1, true, out);
}

bool jinja_test_in(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    bool is_in;
    TRY(jinja_contains(run, call->arg[0], call->self, &is_in));
    return answer(is_in, out);
}

// Python's `is`: the same object. Equal scalars of one kind count as one object here.
bool jinja_test_sameas(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaValue a = call->self, b = call->arg[0];
    if (a.kind != b.kind) return answer(false, out);
    if (a.kind <= JINJA_STRING) return answer(jinja_equal(run, a, b), out);
    return answer(a.list == b.list, out);
}

// ---- letter case: at least one cased letter, and none of the other case ----

static bool case_is(JinjaRun *run, const JinjaCall *call, JinjaCase wanted, JinjaValue *out) {
    JinjaString *s;
    bool has_cased = false, has_other = false;
    TRY(jinja_self_string(run, call, &s));
    TRY(jinja_step(run, 1 + s->len / 8));
    for (size_t at = 0, used; at < s->len; at += used) {
        int32_t c = jinja_char_at(s, at, &used);
        utf8proc_category_t category = c < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
        bool is_lower = category == UTF8PROC_CATEGORY_LL;
        bool is_upper = category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
        has_cased |= wanted == JINJA_LOWER ? is_lower : category == UTF8PROC_CATEGORY_LU;
        has_other |=
            wanted == JINJA_LOWER ? is_upper : is_lower || category == UTF8PROC_CATEGORY_LT;
    }
    return answer(has_cased && !has_other, out);
}

bool jinja_test_lower(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return case_is(run, call, JINJA_LOWER, out);
}
bool jinja_test_upper(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return case_is(run, call, JINJA_UPPER, out);
}

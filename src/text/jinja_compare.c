// jinja_compare: equality, order, membership, length and iteration, as Python defines them.
// In: two values, or a container. Out: an answer, or a failure in Python's words ("'<' not
// supported ...").
// Invariant: 1 == 1.0 == True; values of different kinds are unequal, never an error; only order
// can fail.
// Example: [1, 2] < [1, 3] is true; "a" < 1 fails.
#include <string.h>

#include "text/jinja_value.h"

static int sign_of(double d) { return (d > 0) - (d < 0); }

static int compare_bytes(const JinjaString *a, const JinjaString *b) {
    size_t n = a->len < b->len ? a->len : b->len;
    int order = n > 0 ? memcmp(a->at, b->at, n) : 0; // UTF-8 sorts as its code points do
    if (order != 0) return order < 0 ? -1 : 1;
    return (a->len > b->len) - (a->len < b->len);
}

// Numbers; NaN is neither: *is_nan.
static int compare_numbers(JinjaValue a, JinjaValue b, bool *is_nan) {
    int64_t i, j;
    double x, y;
    *is_nan = false;
    if (jinja_is_integer(a, &i) && jinja_is_integer(b, &j)) return (i > j) - (i < j);
    jinja_is_number(a, &x);
    jinja_is_number(b, &y);
    *is_nan = x != x || y != y;
    return sign_of(x > y ? 1 : x < y ? -1 : 0);
}

static bool lists_equal(JinjaRun *run, const JinjaList *a, const JinjaList *b) {
    if (a->len != b->len || a == b) return a == b;
    for (size_t i = 0; i < a->len; i++)
        if (!jinja_equal(run, a->at[i], b->at[i])) return false;
    return true;
}

static bool dicts_equal(JinjaRun *run, const JinjaDict *a, const JinjaDict *b) {
    if (a->len != b->len || a == b) return a == b;
    for (size_t i = 0; i < a->len; i++) {
        const JinjaEntry *other = jinja_dict_find(run, b, a->at[i].key);
        if (!other || !jinja_equal(run, a->at[i].value, other->value)) return false;
    }
    return true;
}

static bool same_kind_equal(JinjaRun *run, JinjaValue a, JinjaValue b) {
    switch (a.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return true;
    case JINJA_STRING:
        return a.string->len == b.string->len && compare_bytes(a.string, b.string) == 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE: return lists_equal(run, a.list, b.list);
    case JINJA_VIEW:
        return a.list == b.list ||
               (strcmp(a.list->type_name, "dict_values") != 0 && lists_equal(run, a.list, b.list));
    case JINJA_DICT: return dicts_equal(run, a.dict, b.dict);
    default: return a.list == b.list; // identity of whatever the pointer is
    }
}

bool jinja_equal(JinjaRun *run, JinjaValue a, JinjaValue b) {
    double real;
    bool is_nan;
    if (!jinja_step(run, 1)) return false;
    if (jinja_is_number(a, &real) && jinja_is_number(b, &real))
        return compare_numbers(a, b, &is_nan) == 0 && !is_nan;
    if (a.kind != b.kind || !jinja_enter(run)) return false;
    bool is_equal = same_kind_equal(run, a, b);
    jinja_leave(run);
    return is_equal;
}

static bool compare_lists(JinjaRun *run, const JinjaList *a, const JinjaList *b, const char *op,
                          int *order) {
    size_t n = a->len < b->len ? a->len : b->len;
    for (size_t i = 0; i < n; i++)
        if (!jinja_equal(run, a->at[i], b->at[i])) {
            TRY(jinja_enter(run));
            bool is_good = jinja_compare(run, a->at[i], b->at[i], op, order);
            jinja_leave(run);
            return is_good;
        }
    *order = (a->len > b->len) - (a->len < b->len);
    return true;
}

enum { UNORDERED = 2 }; // NaN: every order test is false

bool jinja_compare(JinjaRun *run, JinjaValue a, JinjaValue b, const char *op, int *order) {
    double real;
    bool is_nan;
    TRY(jinja_step(run, 1));
    if (a.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, a);
    if (b.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, b);
    if (jinja_is_number(a, &real) && jinja_is_number(b, &real)) {
        *order = compare_numbers(a, b, &is_nan);
        if (is_nan) *order = UNORDERED;
        return true;
    }
    if (a.kind == b.kind && a.kind == JINJA_STRING) {
        *order = compare_bytes(a.string, b.string);
        return true;
    }
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return compare_lists(run, a.list, b.list, op, order);
    return jinja_fail(run, "'%s' not supported between instances of '%s' and '%s'", op,
                      jinja_type_name(a), jinja_type_name(b));
}

bool jinja_contains(JinjaRun *run, JinjaValue container, JinjaValue item, bool *out) {
    if (container.kind == JINJA_NONE) container = jinja_soften(run, container);
    if (container.kind == JINJA_STRING) {
        JinjaValue text = jinja_soften(run, item);
        if (text.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, text);
        if (text.kind != JINJA_STRING)
            return jinja_fail(run, "'in <string>' requires string as left operand, not %s",
                              jinja_type_name(text));
        TRY(jinja_step(run, 1 + container.string->len / 64));
        *out = jinja_find(container.string, text.string->at, text.string->len, 0) != SIZE_MAX;
        return true;
    }
    if (container.kind == JINJA_DICT) {
        TRY(jinja_require_hashable(run, item));
        *out = jinja_dict_find(run, container.dict, item) != NULL;
        return !run->has_failed;
    }
    if (!jinja_is_list(container) && container.kind != JINJA_UNDEFINED)
        return jinja_fail(run, "argument of type '%s' is not iterable", jinja_type_name(container));
    JinjaList *list;
    TRY(jinja_iterate(run, container, &list));
    *out = false;
    for (size_t i = 0; i < list->len && !*out; i++) *out = jinja_equal(run, list->at[i], item);
    return !run->has_failed;
}

bool jinja_length(JinjaRun *run, JinjaValue v, int64_t *out) {
    if (v.kind == JINJA_NONE) v = jinja_soften(run, v);
    *out = 0;
    if (v.kind == JINJA_UNDEFINED) return true;
    if (v.kind == JINJA_STRING) {
        TRY(jinja_step(run, 1 + v.string->len / 64));
        *out = (int64_t)jinja_char_count(v.string);
    } else if (v.kind == JINJA_DICT) {
        *out = (int64_t)v.dict->len;
    } else if (jinja_is_list(v) && v.kind != JINJA_GENERATOR) {
        *out = (int64_t)v.list->len;
    } else {
        return jinja_fail(run, "object of type '%s' has no len()", jinja_type_name(v));
    }
    return true;
}

static bool iterate_string(JinjaRun *run, const JinjaString *s, JinjaList **out) {
    TRY(jinja_step(run, s->len));
    *out = jinja_list_new(run, 0);
    for (size_t at = 0, used; at < s->len && !run->has_failed; at += used) {
        jinja_char_at(s, at, &used);
        TRY(jinja_charge(run, sizeof(JinjaString)));
        JinjaValue c = jinja_slice(run, s, at, used);
        c.string->is_safe = false;
        jinja_list_push(run, *out, c);
    }
    return !run->has_failed;
}

bool jinja_iterate(JinjaRun *run, JinjaValue v, JinjaList **out) {
    TRY(jinja_step(run, 1));
    if (v.kind == JINJA_NONE) v = jinja_soften(run, v);
    if (v.kind == JINJA_STRING) return iterate_string(run, v.string, out);
    if (v.kind == JINJA_DICT) {
        *out = jinja_dict_list(run, v.dict, "keys");
        return !run->has_failed;
    }
    if (v.kind == JINJA_UNDEFINED) {
        *out = jinja_list_new(run, 0);
        return true;
    }
    if (!jinja_is_list(v))
        return jinja_fail(run, "'%s' object is not iterable", jinja_type_name(v));
    *out = arena_new(run->arena, sizeof **out); // a view: the loop sees the items of now
    **out = *v.list;
    if (v.kind == JINJA_GENERATOR && v.list->len > 0) {
        (*out)->at += v.list->position;
        (*out)->len -= v.list->position;
        v.list->position = v.list->len;
    }
    (*out)->cap = (*out)->len;
    return true;
}

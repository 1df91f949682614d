// jinja_builtins: filters, tests, methods and globals, found by name in rows (the .def files).
// In: a name. Out: a row whose function takes a JinjaCall.
// Invariant: a function reads its arguments from call->arg in the order of its row's parameters.
// Example: FILTER("join", "?d attribute", jinja_filter_join): arg[0] is d, arg[1] attribute, both
// may be ABSENT.
#pragma once
#include "text/jinja_value.h"

#define FILTER(name, params, function) JinjaFunction function;
#include "text/jinja_filters.def"
#undef FILTER
#define TEST(name, params, function) JinjaFunction function;
#include "text/jinja_tests.def"
#undef TEST
#define METHOD(kind, name, params, function) JinjaFunction function;
#include "text/jinja_methods.def"
#undef METHOD
#define GLOBAL(name, params, function) JinjaFunction function;
#include "text/jinja_globals.def"
#undef GLOBAL

const JinjaBuiltinRow *jinja_find_filter(Text name);                    // NULL where there is none
const JinjaBuiltinRow *jinja_find_test(Text name);
const JinjaBuiltinRow *jinja_find_global(Text name);
const JinjaBuiltinRow *jinja_find_method(JinjaKind kind, Text name);

// Puts args in the order of row->params and calls; fails where they do not fit.
bool jinja_call_row(JinjaRun *run, const JinjaBuiltinRow *row, JinjaValue self,
                    const JinjaArgs *args,
                    JinjaValue *out);
// By name, as map("upper") and select("odd") do.
bool jinja_apply(JinjaRun *run, bool is_test, JinjaValue name, JinjaValue self,
                 const JinjaArgs *args,
                 JinjaValue *out);

// ---- arguments ----
bool jinja_arg_int(JinjaRun *run, const JinjaCall *call, size_t i, int64_t fallback, int64_t *out);
bool jinja_arg_string(JinjaRun *run, const JinjaCall *call, size_t i, const char *fallback,
                      JinjaString **out);
bool jinja_arg_is_true(const JinjaCall *call, size_t i, bool fallback);
bool jinja_self_string(JinjaRun *run, const JinjaCall *call, JinjaString **out);   // str(self)

// ---- evaluation, as builtins need it ----
bool jinja_get_attribute(JinjaRun *run, JinjaValue of, const JinjaString *name, JinjaValue *out);
bool jinja_get_item(JinjaRun *run, JinjaValue of, JinjaValue key, JinjaValue *out);
// ABSENT: left out
bool jinja_get_slice(JinjaRun *run, JinjaValue of, const JinjaValue part[3], JinjaValue *out);
// "a.b.0" step by step; an integer is one item. fallback (or ABSENT) stands in at each step that
// finds nothing.
bool jinja_get_path(JinjaRun *run, JinjaValue of, JinjaValue path, JinjaValue fallback,
                    JinjaValue *out);
bool jinja_call_value(JinjaRun *run, JinjaValue callee, const JinjaArgs *args, JinjaValue *out);

// ---- shared pieces ----
// op: JinjaTokenKind
bool jinja_binary(JinjaRun *run, int op, JinjaValue a, JinjaValue b, JinjaValue *out);
bool jinja_percent_format(JinjaRun *run, const JinjaString *format, JinjaValue values,
                          JinjaValue *out);
bool jinja_brace_format(JinjaRun *run, const JinjaString *format, const JinjaArgs *args,
                        JinjaValue *out);
bool jinja_escape_html(JinjaRun *run, const JinjaString *s, JinjaValue *out);           // & < > ' "
bool jinja_sort_values(JinjaRun *run, JinjaValue *at, const JinjaValue *keys, size_t n,
                       bool is_reverse);
// lower case where text
bool jinja_ignore_case(JinjaRun *run, JinjaValue v, JinjaValue *out);

typedef struct JinjaJsonForm {
    bool is_ascii, sorts_keys, has_indent;
    const JinjaString *indent, *item_separator, *key_separator;
} JinjaJsonForm;
bool jinja_to_json(JinjaBuilder *b, JinjaValue v, const JinjaJsonForm *form);

// Upper, lower and title case by Unicode's rules, one character becoming several where they say so.
typedef enum JinjaCase { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE } JinjaCase;
// the character at `at`
void jinja_append_case(JinjaBuilder *b, const JinjaString *s, size_t at, JinjaCase to);
bool jinja_change_case(JinjaRun *run, const JinjaString *s, JinjaCase to, JinjaValue *out);
JinjaValue jinja_strip(JinjaRun *run, const JinjaString *s, const JinjaString *chars, bool left,
                       bool right);

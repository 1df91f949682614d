// jinja_builtins: the rows of filters, tests, methods and globals, and how a call meets its row.
// In: names and arguments. Out: the row, or its function's answer.
// Invariant: the .def files are the only list of builtins; a call that does not fit fails before
// the function runs.
// Example: "a,b".split(",", maxsplit=1): the row's params are "?sep maxsplit", so arg[0] = ",",
// arg[1] = 1.
#include "text/jinja_builtins.h"

#include <string.h>

typedef struct MethodRow {
    JinjaKind kind;
    JinjaBuiltinRow row;
} MethodRow;

static const JinjaBuiltinRow filters[] = {
#define FILTER(name, params, function) {name, params, function},
#include "text/jinja_filters.def"
#undef FILTER
};
static const JinjaBuiltinRow tests[] = {
#define TEST(name, params, function) {name, params, function},
#include "text/jinja_tests.def"
#undef TEST
};
static const JinjaBuiltinRow globals[] = {
#define GLOBAL(name, params, function) {name, params, function},
#include "text/jinja_globals.def"
#undef GLOBAL
};
static const MethodRow methods[] = {
#define METHOD(kind, name, params, function) {JINJA_##kind, {name, params, function}},
#include "text/jinja_methods.def"
#undef METHOD
};

static const JinjaBuiltinRow *find_row(const JinjaBuiltinRow *rows, size_t n, Text name) {
    for (size_t i = 0; i < n; i++)
        if (text_is(name, rows[i].name)) return &rows[i];
    return NULL;
}

const JinjaBuiltinRow *jinja_find_filter(Text name) {
    return find_row(filters, sizeof filters / sizeof *filters, name);
}

const JinjaBuiltinRow *jinja_find_test(Text name) {
    return find_row(tests, sizeof tests / sizeof *tests, name);
}

const JinjaBuiltinRow *jinja_find_global(Text name) {
    return find_row(globals, sizeof globals / sizeof *globals, name);
}

const JinjaBuiltinRow *jinja_find_method(JinjaKind kind, Text name) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].kind == kind && text_is(name, methods[i].row.name)) return &methods[i].row;
    return NULL;
}

// ---- binding ----

typedef struct Params {
    const char *at[JINJA_MAX_PARAMS];
    size_t len[JINJA_MAX_PARAMS];
    size_t n, n_required;
} Params;

static Params split_params(const char *text) {
    Params p = {0};
    bool has_optional = false;
    while (*text) {
        if (*text == '?') {
            p.n_required = p.n;
            has_optional = true;
            text++;
        }
        CHECK(p.n < JINJA_MAX_PARAMS);
        p.len[p.n] = strcspn(text, " ");
        p.at[p.n] = text;
        text += p.len[p.n++];
        if (*text == ' ') text++;
    }
    if (!has_optional) p.n_required = p.n;
    return p;
}

static bool bind_keyword(JinjaRun *run, const Params *params, const JinjaKeyword *keyword,
                         JinjaCall *call) {
    for (size_t i = 0; i < params->n; i++) {
        if (params->len[i] != keyword->name->len ||
            memcmp(params->at[i], keyword->name->at, params->len[i]) != 0)
            continue;
        if (call->arg[i].kind != JINJA_ABSENT)
            return jinja_fail(run, "%s() got multiple values for argument '%.*s'", call->name,
                              (int)params->len[i], params->at[i]);
        call->arg[i] = keyword->value;
        return true;
    }
    return jinja_fail(run, "%s() got an unexpected keyword argument '%.*s'", call->name,
                      (int)(keyword->name->len % 100), keyword->name->at);
}

bool jinja_call_row(JinjaRun *run, const JinjaBuiltinRow *row, JinjaValue self,
                    const JinjaArgs *args, JinjaValue *out) {
    JinjaCall call = {.name = row->name, .self = self, .all = args};
    TRY(jinja_step(run, 1));
    if (strcmp(row->params, "*") != 0) {
        Params params = split_params(row->params);
        if (args->n > params.n)
            return jinja_fail(run, "%s() takes at most %zu arguments, %zu were given", row->name,
                              params.n, args->n);
        for (size_t i = 0; i < args->n; i++) call.arg[i] = args->at[i];
        for (size_t i = 0; i < args->n_keywords; i++)
            TRY(bind_keyword(run, &params, &args->keywords[i], &call));
        for (size_t i = 0; i < params.n_required; i++)
            if (call.arg[i].kind == JINJA_ABSENT)
                return jinja_fail(run, "%s() missing argument '%.*s'", row->name,
                                  (int)params.len[i], params.at[i]);
    }
    TRY(jinja_enter(run));
    bool is_good = row->function(run, &call, out);
    jinja_leave(run);
    return is_good && !run->has_failed;
}

bool jinja_apply(JinjaRun *run, bool is_test, JinjaValue name, JinjaValue self,
                 const JinjaArgs *args, JinjaValue *out) {
    JinjaString *text;
    TRY(jinja_to_string(run, name, &text));
    Text key = {text->at, text->len};
    const JinjaBuiltinRow *row = is_test ? jinja_find_test(key) : jinja_find_filter(key);
    if (!row)
        return jinja_fail(run, "No %s named '%.*s'", is_test ? "test" : "filter",
                          (int)(key.len % 100), key.at);
    return jinja_call_row(run, row, self, args, out);
}

// ---- arguments ----

bool jinja_arg_int(JinjaRun *run, const JinjaCall *call, size_t i, int64_t fallback, int64_t *out) {
    *out = fallback;
    if (call->arg[i].kind == JINJA_ABSENT || jinja_is_integer(call->arg[i], out)) return true;
    if (call->arg[i].kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, call->arg[i]);
    return jinja_fail(run, "%s(): '%s' object cannot be interpreted as an integer", call->name,
                      jinja_type_name(call->arg[i]));
}

bool jinja_arg_string(JinjaRun *run, const JinjaCall *call, size_t i, const char *fallback,
                      JinjaString **out) {
    JinjaValue value = call->arg[i];
    if (value.kind == JINJA_ABSENT) {
        *out = fallback ? jinja_cstring(run, fallback).string : NULL;
        return true;
    }
    value = jinja_soften(run, value);
    if (value.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, value);
    if (value.kind != JINJA_STRING)
        return jinja_fail(run, "%s() argument must be str, not %s", call->name,
                          jinja_type_name(value));
    *out = value.string;
    return true;
}

bool jinja_arg_is_true(const JinjaCall *call, size_t i, bool fallback) {
    return call->arg[i].kind == JINJA_ABSENT ? fallback : jinja_is_true(call->arg[i]);
}

bool jinja_self_string(JinjaRun *run, const JinjaCall *call, JinjaString **out) {
    return jinja_to_string(run, call->self, out);
}

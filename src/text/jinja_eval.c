// jinja_eval: expressions to values.
// In: expression nodes, the current scope. Out: a value, or a failure that names the line.
// Invariant: one function a node kind, found in a table made from the rows of jinja_ast.h.
// Example: messages[0].role → ITEM → ATTRIBUTE → "user".
#include "text/jinja_eval.h"

#include <string.h>

#include "text/jinja_builtins.h"

// ---- scopes ----

JinjaScope *jinja_scope_push(JinjaRun *run, JinjaScope *parent) {
    JinjaScope *scope = arena_new(run->arena, sizeof *scope);
    scope->parent = parent;
    return scope;
}

void jinja_scope_set(JinjaRun *run, JinjaScope *scope, const JinjaString *name, JinjaValue value) {
    for (size_t i = 0; i < scope->len; i++)
        if (scope->at[i].name == name) {
            scope->at[i].value = value;
            return;
        }
    if (scope->len == scope->cap) {
        size_t cap = scope->cap < 4 ? 4 : scope->cap * 2;
        if (!jinja_charge(run, cap * sizeof *scope->at)) return;
        JinjaVariable *at = arena_new(run->arena, cap * sizeof *at);
        if (scope->len > 0) memcpy(at, scope->at, scope->len * sizeof *at);
        scope->at = at;
        scope->cap = cap;
    }
    scope->at[scope->len++] = (JinjaVariable){name, value};
}

void jinja_scope_set_named(JinjaRun *run, JinjaScope *scope, const char *name, JinjaValue value) {
    const JinjaString *interned = map_get(run->names, name, strlen(name));
    if (interned) jinja_scope_set(run, scope, interned, value); // else nobody can ask for it
}

static bool eval_name(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    for (const JinjaScope *scope = run->scope; scope; scope = scope->parent)
        for (size_t i = 0; i < scope->len; i++)
            if (scope->at[i].name == node->name) {
                *out = scope->at[i].value;
                return true;
            }
    const JinjaBuiltinRow *row = jinja_find_global((Text){node->name->at, node->name->len});
    JinjaString *name = (JinjaString *)(uintptr_t)node->name;
    if (row) *out = (JinjaValue){.kind = JINJA_BUILTIN, .builtin = row};
    else *out = jinja_undefined(run, (JinjaValue){0}, jinja_string(name), false);
    return true;
}

// ---- literals ----

static bool eval_constant(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    *out = node->value;
    return !run->has_failed;
}

static bool eval_captured(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    (void)node;
    *out = run->captured;
    return !run->has_failed;
}

static bool eval_items(JinjaRun *run, const JinjaNode *node, JinjaKind kind, JinjaValue *out) {
    JinjaList *list = jinja_list_new(run, node->list.len);
    for (size_t i = 0; i < node->list.len; i++) {
        JinjaValue item;
        TRY(jinja_eval(run, node->list.at[i], &item));
        jinja_list_push(run, list, item);
    }
    *out = jinja_sequence(kind, list);
    return !run->has_failed;
}

static bool eval_list(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    return eval_items(run, node, JINJA_LIST, out);
}

static bool eval_tuple(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    return eval_items(run, node, JINJA_TUPLE, out);
}

static bool eval_dict(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaDict *dict = jinja_dict_new(run);
    for (size_t i = 0; i + 1 < node->list.len; i += 2) {
        JinjaValue key, value;
        TRY(jinja_eval(run, node->list.at[i], &key));
        TRY(jinja_eval(run, node->list.at[i + 1], &value));
        TRY(jinja_dict_set(run, dict, key, value));
    }
    *out = jinja_dict_value(dict);
    return true;
}

// ---- logic ----

static bool eval_condition(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue test;
    TRY(jinja_eval(run, node->b, &test));
    if (jinja_is_true(test)) return jinja_eval(run, node->a, out);
    if (node->c) return jinja_eval(run, node->c, out);
    *out = jinja_undefined(run, (JinjaValue){0}, jinja_none(), false);
    out->missing->message =
        "the inline if-expression evaluated to false and no else section was defined";
    return true;
}

static bool eval_or(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    TRY(jinja_eval(run, node->a, out));
    return jinja_is_true(*out) || jinja_eval(run, node->b, out);
}

static bool eval_and(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    TRY(jinja_eval(run, node->a, out));
    return !jinja_is_true(*out) || jinja_eval(run, node->b, out);
}

static bool eval_not(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue value;
    TRY(jinja_eval(run, node->a, &value));
    *out = jinja_bool(!jinja_is_true(value));
    return true;
}

static bool compare_one(JinjaRun *run, JinjaTokenKind op, JinjaValue a, JinjaValue b, bool *out) {
    int order;
    switch (op) {
    case JINJA_TOKEN_EQUAL: *out = jinja_equal(run, a, b); return !run->has_failed;
    case JINJA_TOKEN_NOT_EQUAL: *out = !jinja_equal(run, a, b); return !run->has_failed;
    case JINJA_TOKEN_IN: return jinja_contains(run, b, a, out);
    case JINJA_TOKEN_NOT_IN:
        TRY(jinja_contains(run, b, a, out));
        *out = !*out;
        return true;
    default: break;
    }
    TRY(jinja_compare(run, a, b, jinja_token_name(op), &order));
    *out = op == JINJA_TOKEN_LESS         ? order == -1
           : op == JINJA_TOKEN_GREATER    ? order == 1
           : op == JINJA_TOKEN_LESS_EQUAL ? order <= 0
                                          : order == 0 || order == 1;
    return true;
}

static bool eval_compare(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue left, right;
    bool holds = true;
    TRY(jinja_eval(run, node->a, &left));
    for (size_t i = 0; holds && i < node->list.len; i++, left = right) {
        const JinjaNode *operand = node->list.at[i];
        TRY(jinja_eval(run, operand->a, &right));
        TRY(compare_one(run, operand->op, left, right, &holds));
    }
    *out = jinja_bool(holds);
    return true;
}

// ---- arithmetic ----

static bool eval_unary(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue value;
    int64_t integer;
    TRY(jinja_eval(run, node->a, &value));
    bool is_negative = node->op == JINJA_TOKEN_SUBTRACT;
    if (value.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, value);
    if (jinja_is_integer(value, &integer)) {
        if (is_negative && integer == INT64_MIN)
            return jinja_fail(run, "an integer beyond 64 bits");
        *out = jinja_int(is_negative ? -integer : integer);
    } else if (value.kind == JINJA_FLOAT) {
        *out = jinja_float(is_negative ? -value.real : value.real);
    } else {
        return jinja_fail(run, "bad operand type for unary %s: '%s'", jinja_token_name(node->op),
                          jinja_type_name(value));
    }
    return true;
}

static bool eval_binary(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue a, b;
    TRY(jinja_eval(run, node->a, &a));
    TRY(jinja_eval(run, node->b, &b));
    run->line = node->line;
    return jinja_binary(run, (int)node->op, a, b, out);
}

static bool eval_concat(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    *out = jinja_cstring(run, "");
    for (size_t i = 0; i < node->list.len; i++) {
        JinjaValue value;
        JinjaString *text;
        TRY(jinja_eval(run, node->list.at[i], &value));
        TRY(jinja_to_string(run, value, &text));
        if (i == 0) *out = jinja_slice(run, text, 0, text->len);
        else TRY(jinja_concat(run, out->string, text, out));
        out->string->is_safe = false;
    }
    return true;
}

// ---- access ----

static bool eval_attribute(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue of;
    TRY(jinja_eval(run, node->a, &of));
    run->line = node->line;
    return jinja_get_attribute(run, of, node->name, out);
}

static bool eval_item(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue of, key;
    TRY(jinja_eval(run, node->a, &of));
    TRY(jinja_eval(run, node->b, &key));
    run->line = node->line;
    return jinja_get_item(run, of, key, out);
}

static bool eval_slice(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue of, part[3] = {{0}, {0}, {0}};
    TRY(jinja_eval(run, node->a, &of));
    for (size_t i = 0; i < 3; i++)
        if (node->list.at[i]) TRY(jinja_eval(run, node->list.at[i], &part[i]));
    return jinja_get_slice(run, of, part, out);
}

// ---- calls ----

// **value: the entries of a dict as keywords.
static bool spread_keywords(JinjaRun *run, JinjaValue value, JinjaKeyword *at, size_t *n,
                            size_t cap) {
    if (value.kind != JINJA_DICT)
        return jinja_fail(run, "argument after ** must be a mapping, not %s",
                          jinja_type_name(value));
    for (size_t i = 0; i < value.dict->len; i++) {
        if (value.dict->at[i].key.kind != JINJA_STRING)
            return jinja_fail(run, "keywords must be strings");
        if (*n == cap) return jinja_fail(run, "more than %zu keyword arguments", cap);
        at[(*n)++] = (JinjaKeyword){value.dict->at[i].key.string, value.dict->at[i].value};
    }
    return true;
}

enum { MAX_SPREAD = 64 }; // keywords that one ** may bring

bool jinja_eval_args(JinjaRun *run, const JinjaNodes *nodes, JinjaArgs *out) {
    size_t cap = nodes->len;
    for (size_t i = 0; i < nodes->len; i++)
        cap += nodes->at[i]->kind == JINJA_NODE_DOUBLE_STAR ? MAX_SPREAD : 0;
    JinjaList *list = jinja_list_new(run, nodes->len);
    *out = (JinjaArgs){0};
    out->keywords = cap > 0 ? arena_new(run->arena, cap * sizeof *out->keywords) : NULL;
    for (size_t i = 0; i < nodes->len; i++) {
        const JinjaNode *node = nodes->at[i];
        bool is_marked = node->kind == JINJA_NODE_KEYWORD || node->kind == JINJA_NODE_STAR ||
                         node->kind == JINJA_NODE_DOUBLE_STAR;
        JinjaValue value;
        TRY(jinja_eval(run, is_marked ? node->a : node, &value));
        if (node->kind == JINJA_NODE_KEYWORD) {
            out->keywords[out->n_keywords++] =
                (JinjaKeyword){(JinjaString *)(uintptr_t)node->name, value};
        } else if (node->kind == JINJA_NODE_DOUBLE_STAR) {
            TRY(spread_keywords(run, value, out->keywords, &out->n_keywords, cap));
        } else if (node->kind == JINJA_NODE_STAR) {
            JinjaList *items;
            TRY(jinja_iterate(run, value, &items));
            for (size_t k = 0; k < items->len; k++) jinja_list_push(run, list, items->at[k]);
        } else {
            jinja_list_push(run, list, value);
        }
    }
    out->at = list->at;
    out->n = list->len;
    return !run->has_failed;
}

bool jinja_call_value(JinjaRun *run, JinjaValue callee, const JinjaArgs *args, JinjaValue *out) {
    switch (callee.kind) {
    case JINJA_UNDEFINED: return jinja_fail_undefined(run, callee);
    case JINJA_BUILTIN: return jinja_call_row(run, callee.builtin, (JinjaValue){0}, args, out);
    case JINJA_METHOD: return jinja_call_row(run, callee.bound->row, callee.bound->self, args, out);
    case JINJA_MACRO: return jinja_call_macro(run, callee.macro, args, out);
    case JINJA_LOOP: return jinja_call_loop(run, callee.loop, args, out);
    case JINJA_JOINER:
        *out = callee.cycler->position++ > 0 ? callee.cycler->at[0] : jinja_cstring(run, "");
        return true;
    default: return jinja_fail(run, "'%s' object is not callable", jinja_type_name(callee));
    }
}

static bool eval_call(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    JinjaValue callee;
    JinjaArgs args;
    TRY(jinja_eval(run, node->a, &callee));
    TRY(jinja_eval_args(run, &node->list, &args));
    run->line = node->line;
    return jinja_call_value(run, callee, &args, out);
}

static bool apply_row(JinjaRun *run, const JinjaNode *node, const char *what, JinjaValue *out) {
    JinjaValue subject;
    JinjaArgs args;
    TRY(jinja_eval(run, node->a, &subject));
    TRY(jinja_eval_args(run, &node->list, &args));
    run->line = node->line;
    if (!node->row)
        return jinja_fail(run, "No %s named '%.*s'", what, (int)(node->name->len % 100),
                          node->name->at);
    return jinja_call_row(run, node->row, subject, &args, out);
}

static bool eval_filter(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    return apply_row(run, node, "filter", out);
}

static bool eval_test(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    return apply_row(run, node, "test", out);
}

// Only as a part of another node, which reads its fields itself.
static bool eval_operand(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    return jinja_eval(run, node->a, out);
}

typedef bool JinjaEvaluator(JinjaRun *run, const JinjaNode *node, JinjaValue *out);

bool jinja_eval(JinjaRun *run, const JinjaNode *node, JinjaValue *out) {
    static JinjaEvaluator *const evaluators[JINJA_NODE_COUNT] = {
#define NODE(name, function) [JINJA_NODE_##name] = eval_##function,
        JINJA_EXPRESSIONS(NODE)
#undef NODE
    };
    CHECK(evaluators[node->kind]);
    run->line = node->line;
    TRY(jinja_step(run, 1));
    TRY(jinja_enter(run));
    bool is_good = evaluators[node->kind](run, node, out);
    jinja_leave(run);
    return is_good && !run->has_failed;
}

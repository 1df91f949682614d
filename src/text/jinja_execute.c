// jinja_execute: statements to text, and the entry for rendering.
// In: statement nodes, the current scope. Out: text appended to run->out.
// Invariant: a loop, macro, call block, with and block open a scope of their own; an if opens none.
// Example: {% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }} → "1".
#include <string.h>
#include <time.h>

#include "base/vec.h"
#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"

// ---- assigning ----

static bool assign(JinjaRun *run, const JinjaNode *target, JinjaValue value);

static bool assign_tuple(JinjaRun *run, const JinjaNode *target, JinjaValue value) {
    JinjaList *items;
    if (!jinja_is_list(value) && value.kind != JINJA_STRING && value.kind != JINJA_DICT &&
        value.kind != JINJA_UNDEFINED)
        return jinja_fail(run, "cannot unpack non-iterable %s object", jinja_type_name(value));
    TRY(jinja_iterate(run, value, &items));
    if (items->len > target->list.len)
        return jinja_fail(run, "too many values to unpack (expected %zu)", target->list.len);
    if (items->len < target->list.len)
        return jinja_fail(run, "not enough values to unpack (expected %zu, got %zu)",
                          target->list.len, items->len);
    for (size_t i = 0; i < items->len; i++) TRY(assign(run, target->list.at[i], items->at[i]));
    return true;
}

static bool assign(JinjaRun *run, const JinjaNode *target, JinjaValue value) {
    if (target->kind == JINJA_NODE_TUPLE) return assign_tuple(run, target, value);
    if (target->kind == JINJA_NODE_NAME) {
        jinja_scope_set(run, run->scope, target->name, value);
        return !run->has_failed;
    }
    JinjaValue of;
    TRY(jinja_eval(run, target->a, &of));
    if (of.kind != JINJA_NAMESPACE)
        return jinja_fail(run, "cannot assign attribute on non-namespace object");
    return jinja_dict_set(run, of.dict, jinja_string((JinjaString *)(uintptr_t)target->name),
                          value);
}

// Runs nodes with the output going into a text.
static JinjaFlow capture(JinjaRun *run, const JinjaNodes *nodes, JinjaValue *out) {
    JinjaBuilder *around = run->out, inside = jinja_builder(run);
    run->out = &inside;
    JinjaFlow flow = jinja_execute(run, nodes);
    run->out = around;
    return flow != JINJA_ERROR && jinja_finish(&inside, out) ? flow : JINJA_ERROR;
}

static JinjaFlow execute_inside(JinjaRun *run, const JinjaNodes *nodes, JinjaScope *scope) {
    JinjaScope *around = run->scope;
    run->scope = scope;
    JinjaFlow flow = jinja_execute(run, nodes);
    run->scope = around;
    return flow;
}

static JinjaFlow flow_of(bool is_good) { return is_good ? JINJA_NEXT : JINJA_ERROR; }

// ---- statements ----

static JinjaFlow execute_data(JinjaRun *run, const JinjaNode *node) {
    jinja_append_string(run->out, node->value.string);
    return flow_of(!run->has_failed);
}

static JinjaFlow execute_print(JinjaRun *run, const JinjaNode *node) {
    JinjaValue value;
    if (!jinja_eval(run, node->a, &value)) return JINJA_ERROR;
    jinja_append_value(run->out, value);
    return flow_of(!run->has_failed);
}

static JinjaFlow execute_if(JinjaRun *run, const JinjaNode *node) {
    for (size_t i = 0; i < node->list.len; i++) {
        const JinjaNode *branch = node->list.at[i];
        JinjaValue test = jinja_bool(true);
        if (branch->a && !jinja_eval(run, branch->a, &test)) return JINJA_ERROR;
        if (jinja_is_true(test)) return jinja_execute(run, &branch->body);
    }
    return JINJA_NEXT;
}

static JinjaFlow execute_set(JinjaRun *run, const JinjaNode *node) {
    JinjaValue value;
    return flow_of(jinja_eval(run, node->b, &value) && assign(run, node->a, value));
}

static bool filter_captured(JinjaRun *run, const JinjaNode *filters, JinjaValue *text) {
    JinjaValue around = run->captured;
    run->captured = *text;
    bool is_good = jinja_eval(run, filters, text);
    run->captured = around;
    return is_good;
}

static JinjaFlow captured_in_scope(JinjaRun *run, const JinjaNode *node, JinjaValue *text) {
    JinjaScope *around = run->scope;
    run->scope = jinja_scope_push(run, around);
    JinjaFlow flow = capture(run, &node->body, text);
    run->scope = around;
    return flow;
}

static JinjaFlow execute_set_block(JinjaRun *run, const JinjaNode *node) {
    JinjaValue text;
    JinjaFlow flow = captured_in_scope(run, node, &text);
    if (flow != JINJA_NEXT) return flow;
    if (node->b && !filter_captured(run, node->b, &text)) return JINJA_ERROR;
    return flow_of(assign(run, node->a, text));
}

static JinjaFlow execute_filter_block(JinjaRun *run, const JinjaNode *node) {
    JinjaValue text;
    JinjaFlow flow = captured_in_scope(run, node, &text);
    if (flow != JINJA_NEXT) return flow;
    if (!filter_captured(run, node->a, &text)) return JINJA_ERROR;
    jinja_append_value(run->out, text);
    return flow_of(!run->has_failed);
}

static JinjaFlow execute_with(JinjaRun *run, const JinjaNode *node) {
    JinjaScope *inner = jinja_scope_push(run, run->scope), *around = run->scope;
    for (size_t i = 0; i + 1 < node->list.len; i += 2) {
        JinjaValue value;
        if (!jinja_eval(run, node->list.at[i + 1], &value)) return JINJA_ERROR;
        run->scope = inner;
        bool is_good = assign(run, node->list.at[i], value);
        run->scope = around;
        if (!is_good) return JINJA_ERROR;
    }
    return execute_inside(run, &node->body, inner);
}

static JinjaFlow execute_scope(JinjaRun *run, const JinjaNode *node) {
    return execute_inside(run, &node->body, jinja_scope_push(run, run->scope));
}

static JinjaFlow execute_break(JinjaRun *run, const JinjaNode *node) {
    (void)run, (void)node;
    return JINJA_BREAK;
}

static JinjaFlow execute_continue(JinjaRun *run, const JinjaNode *node) {
    (void)run, (void)node;
    return JINJA_CONTINUE;
}

// Parts of other nodes; nothing happens at their own place.
static JinjaFlow execute_branch(JinjaRun *run, const JinjaNode *node) {
    (void)run, (void)node;
    return JINJA_NEXT;
}

// ---- loops ----

// The items for which the loop's own condition holds.
static bool loop_items(JinjaRun *run, const JinjaNode *node, JinjaValue over, JinjaList **out) {
    JinjaList *all;
    TRY(jinja_iterate(run, over, &all));
    *out = all;
    if (!node->c) return true;
    *out = jinja_list_new(run, 0);
    JinjaScope *around = run->scope;
    bool is_good = true;
    for (size_t i = 0; is_good && i < all->len; i++) {
        JinjaValue test;
        run->scope = jinja_scope_push(run, around);
        is_good = assign(run, node->a, all->at[i]) && jinja_eval(run, node->c, &test);
        if (is_good && jinja_is_true(test)) jinja_list_push(run, *out, all->at[i]);
    }
    run->scope = around;
    return is_good;
}

static JinjaFlow run_loop(JinjaRun *run, const JinjaNode *node, JinjaValue over, int64_t depth0) {
    JinjaScope *around = run->scope;
    JinjaList *items;
    if (!loop_items(run, node, over, &items)) return JINJA_ERROR;
    JinjaLoop *loop = arena_new(run->arena, sizeof *loop);
    *loop = (JinjaLoop){.items = items, .depth0 = depth0, .node = node, .scope = around};
    JinjaFlow flow = JINJA_NEXT;
    bool has_finished = false; // as jinja2 sees it: else follows where no body ran to its end
    for (size_t i = 0; i < items->len && flow != JINJA_BREAK && flow != JINJA_ERROR; i++) {
        loop->index0 = i;
        run->scope = jinja_scope_push(run, around);
        jinja_scope_set_named(run, run->scope, "loop",
                              (JinjaValue){.kind = JINJA_LOOP, .loop = loop});
        flow = flow_of(jinja_step(run, 1) && assign(run, node->a, items->at[i]));
        if (flow == JINJA_NEXT) flow = jinja_execute(run, &node->body);
        has_finished |= flow == JINJA_NEXT;
    }
    run->scope = around;
    if (flow == JINJA_ERROR || has_finished) return flow == JINJA_ERROR ? JINJA_ERROR : JINJA_NEXT;
    return execute_inside(run, &node->other, jinja_scope_push(run, around));
}

static JinjaFlow execute_for(JinjaRun *run, const JinjaNode *node) {
    JinjaValue over;
    return jinja_eval(run, node->b, &over) ? run_loop(run, node, over, 0) : JINJA_ERROR;
}

bool jinja_call_loop(JinjaRun *run, const JinjaLoop *loop, const JinjaArgs *args, JinjaValue *out) {
    if (!loop->node->is_recursive)
        return jinja_fail(run,
                          "the loop must have the 'recursive' marker to be called recursively");
    if (args->n != 1) return jinja_fail(run, "loop() takes one argument");
    JinjaScope *scope = run->scope;
    JinjaBuilder *around = run->out, inside = jinja_builder(run);
    run->scope = loop->scope;
    run->out = &inside;
    JinjaFlow flow = run_loop(run, loop->node, args->at[0], loop->depth0 + 1);
    run->out = around;
    run->scope = scope;
    return flow != JINJA_ERROR && jinja_finish(&inside, out);
}

// ---- macros ----

static JinjaFlow execute_macro(JinjaRun *run, const JinjaNode *node) {
    JinjaMacro *macro = arena_new(run->arena, sizeof *macro);
    *macro = (JinjaMacro){node, run->scope};
    jinja_scope_set(run, run->scope, node->name, (JinjaValue){.kind = JINJA_MACRO, .macro = macro});
    return flow_of(!run->has_failed);
}

static const JinjaKeyword *find_keyword(const JinjaArgs *args, const JinjaString *name) {
    for (size_t i = 0; i < args->n_keywords; i++) {
        const JinjaString *other = args->keywords[i].name;
        if (other->len == name->len && memcmp(other->at, name->at, name->len) == 0)
            return &args->keywords[i];
    }
    return NULL;
}

static bool is_parameter(const JinjaNode *macro, const JinjaString *name) {
    for (size_t i = 0; i < macro->list.len; i++) {
        const JinjaString *other = macro->list.at[i]->name;
        if (other->len == name->len && memcmp(other->at, name->at, name->len) == 0) return true;
    }
    return false;
}

// What no parameter took goes to varargs, kwargs and caller, where the body uses them.
static bool bind_rest(JinjaRun *run, const JinjaNode *macro, const JinjaArgs *args) {
    JinjaList *varargs = jinja_list_new(run, 0);
    JinjaDict *kwargs = jinja_dict_new(run);
    const char *name = macro->name->at;
    JinjaString caller_name = {.at = "caller", .len = 6};
    if (args->n > macro->list.len && !macro->uses_varargs)
        return jinja_fail(run, "macro '%s' takes not more than %zu argument(s)", name,
                          macro->list.len);
    for (size_t i = macro->list.len; i < args->n; i++) jinja_list_push(run, varargs, args->at[i]);
    for (size_t i = 0; i < args->n_keywords; i++) {
        JinjaString *key = args->keywords[i].name;
        bool is_caller = key->len == 6 && memcmp(key->at, "caller", 6) == 0;
        if (is_parameter(macro, key) || (is_caller && macro->uses_caller)) continue;
        if (!macro->uses_kwargs)
            return jinja_fail(run, "macro '%s' takes no keyword argument '%.*s'", name,
                              (int)(key->len % 100), key->at);
        TRY(jinja_dict_set(run, kwargs, jinja_string(key), args->keywords[i].value));
    }
    if (macro->uses_varargs)
        jinja_scope_set_named(run, run->scope, "varargs", jinja_sequence(JINJA_TUPLE, varargs));
    if (macro->uses_kwargs)
        jinja_scope_set_named(run, run->scope, "kwargs", jinja_dict_value(kwargs));
    if (!macro->uses_caller || is_parameter(macro, &caller_name)) return !run->has_failed;
    const JinjaKeyword *caller = find_keyword(args, &caller_name);
    JinjaValue none = jinja_undefined(run, (JinjaValue){0}, jinja_cstring(run, "caller"), false);
    if (!caller) none.missing->message = "No caller defined";
    jinja_scope_set_named(run, run->scope, "caller", caller ? caller->value : none);
    return !run->has_failed;
}

static bool bind_parameters(JinjaRun *run, const JinjaNode *macro, const JinjaArgs *args) {
    for (size_t i = 0; i < macro->list.len; i++) {
        const JinjaNode *parameter = macro->list.at[i];
        const JinjaKeyword *keyword = find_keyword(args, parameter->name);
        JinjaValue value;
        if (i < args->n && keyword)
            return jinja_fail(run, "macro '%s' got multiple values for argument '%s'",
                              macro->name->at, parameter->name->at);
        if (i < args->n) value = args->at[i];
        else if (keyword) value = keyword->value;
        else if (parameter->a) TRY(jinja_eval(run, parameter->a, &value));
        else {
            value = jinja_undefined(run, (JinjaValue){0}, jinja_none(), false);
            value.missing->message =
                arena_printf(run->arena, "parameter '%s' was not provided", parameter->name->at);
        }
        jinja_scope_set(run, run->scope, parameter->name, value);
    }
    return bind_rest(run, macro, args);
}

bool jinja_call_macro(JinjaRun *run, const JinjaMacro *macro, const JinjaArgs *args,
                      JinjaValue *out) {
    TRY(jinja_enter(run));
    JinjaScope *around = run->scope;
    run->scope = jinja_scope_push(run, macro->scope);
    bool is_good = bind_parameters(run, macro->node, args) &&
                   capture(run, &macro->node->body, out) != JINJA_ERROR;
    run->scope = around;
    jinja_leave(run);
    return is_good;
}

static JinjaFlow execute_call_block(JinjaRun *run, const JinjaNode *node) {
    JinjaMacro *macro = arena_new(run->arena, sizeof *macro);
    *macro = (JinjaMacro){node->b, run->scope};
    JinjaValue callee, result;
    JinjaArgs args;
    if (!jinja_eval(run, node->a->a, &callee) || !jinja_eval_args(run, &node->a->list, &args))
        return JINJA_ERROR;
    JinjaKeyword *keywords = arena_new(run->arena, (args.n_keywords + 1) * sizeof *keywords);
    if (args.n_keywords > 0) memcpy(keywords, args.keywords, args.n_keywords * sizeof *keywords);
    JinjaValue name = jinja_cstring(run, "caller");
    keywords[args.n_keywords++] =
        (JinjaKeyword){name.string, (JinjaValue){.kind = JINJA_MACRO, .macro = macro}};
    args.keywords = keywords;
    if (!jinja_call_value(run, callee, &args, &result)) return JINJA_ERROR;
    jinja_append_value(run->out, result);
    return flow_of(!run->has_failed);
}

// ---- walking ----

typedef JinjaFlow JinjaExecutor(JinjaRun *run, const JinjaNode *node);

JinjaFlow jinja_execute(JinjaRun *run, const JinjaNodes *nodes) {
    static JinjaExecutor *const executors[JINJA_NODE_COUNT] = {
#define NODE(name, function) [JINJA_NODE_##name] = execute_##function,
        JINJA_STATEMENTS(NODE)
#undef NODE
    };
    if (!jinja_enter(run)) return JINJA_ERROR;
    JinjaFlow flow = JINJA_NEXT;
    for (size_t i = 0; flow == JINJA_NEXT && i < nodes->len; i++) {
        run->line = nodes->at[i]->line;
        CHECK(executors[nodes->at[i]->kind]);
        flow = jinja_step(run, 1) ? executors[nodes->at[i]->kind](run, nodes->at[i]) : JINJA_ERROR;
    }
    jinja_leave(run);
    return flow;
}

// ---- contexts and rendering ----

typedef struct ContextVariable {
    const char *name;
    JinjaValue value;
} ContextVariable;
struct JinjaContext {
    Arena *arena;
    VEC(ContextVariable) variables;
    JinjaLimits limits;
    int64_t now;
};

JinjaContext *jinja_context(Arena *arena) {
    JinjaContext *context = arena_new(arena, sizeof *context);
    context->arena = arena;
    context->limits = jinja_default_limits;
    context->now = (int64_t)time(NULL);
    return context;
}

void jinja_set_value(JinjaContext *context, const char *name, JinjaValue value) {
    for (size_t i = 0; i < context->variables.len; i++)
        if (strcmp(context->variables.at[i].name, name) == 0) {
            context->variables.at[i].value = value;
            return;
        }
    ContextVariable variable = {name, value};
    vec_push(context->arena, &context->variables, variable);
}

void jinja_set_json(JinjaContext *context, const char *name, const json_t *json,
                    JinjaOrigin origin) {
    jinja_set_value(context, name, jinja_of_json(context->arena, json, origin));
}

void jinja_set_text(JinjaContext *context, const char *name, Text text, JinjaOrigin origin) {
    JinjaString *s = arena_new(context->arena, sizeof *s);
    *s = (JinjaString){.at = text_cstr(context->arena, text), .len = text.len, .origin = origin};
    jinja_set_value(context, name, jinja_string(s));
}

void jinja_set_limits(JinjaContext *context, JinjaLimits limits) { context->limits = limits; }
void jinja_set_now(JinjaContext *context, int64_t unix_seconds) { context->now = unix_seconds; }

// Cuts a text where its origin changes.
static JinjaOutput output_of(Arena *arena, const JinjaString *s) {
    VEC(JinjaSpan) spans = {0};
    for (size_t at = 0, end; at < s->len; at = end) {
        JinjaOrigin origin = s->marks ? (JinjaOrigin)s->marks[at] : s->origin;
        end = s->marks ? at + 1 : s->len;
        while (end < s->len && s->marks[end] == origin) end++;
        JinjaSpan span = {{s->at + at, end - at}, origin};
        vec_push(arena, &spans, span);
    }
    return (JinjaOutput){{s->at, s->len}, spans.at, spans.len};
}

bool jinja_render(const JinjaTemplate *template, JinjaContext *context, JinjaOutput *out,
                  Error *err) {
    JinjaRun run = {.arena = context->arena,
                    .err = err,
                    .limits = context->limits,
                    .now = context->now,
                    .max_depth = context->limits.max_depth,
                    .steps_left = context->limits.max_steps,
                    .bytes_left = context->limits.max_bytes,
                    .used_before = arena_used(context->arena),
                    .names = &template->names};
    run.scope = jinja_scope_push(&run, NULL);
    for (size_t i = 0; i < context->variables.len; i++)
        jinja_scope_set_named(&run, run.scope, context->variables.at[i].name,
                              context->variables.at[i].value);
    JinjaValue text;
    if (capture(&run, &template->body, &text) == JINJA_ERROR) return false;
    *out = output_of(context->arena, text.string);
    return true;
}

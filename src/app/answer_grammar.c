// answer_grammar: see answer_grammar.h. One node for what is asked, then what may stand around it.
// Example: tool_choice "required", two tools → space (<tool_call> one of two calls </tool_call> space)+
#include "app/answer_grammar.h"

#include <stdlib.h>

#include "text/gbnf.h"
#include "text/json_schema.h"
#include "text/json_values.h"
#include "text/pattern.h"

typedef struct Make {
    Exchange *x;
    const AnswerForm *form;
    Grammar *g;
    const ReplyFormat *format;
} Make;

static GrammarNode text(Make *m, const char *t) {
    return grammar_text(m->g, text_of(t));
}

static GrammarNode seq2(Make *m, GrammarNode a, GrammarNode b) {
    return grammar_seq(m->g, (GrammarNode[]){a, b}, 2);
}

static GrammarNode repeat(Make *m, GrammarNode child, int64_t least, int64_t most) {
    GrammarNode out;
    Error ignored;
    CHECK(grammar_repeat(m->g, child, least, most, &out, &ignored));
    return out;
}

static GrammarNode space(Make *m) {
    ByteSet set = {{0}};
    byte_set_add(&set, ' '), byte_set_add(&set, '\n');
    return repeat(m, grammar_bytes(m->g, set), 0, 4);
}

// ---- schemas and patterns

static bool schema_make(Make *m, const json_t *schema, const char *name, GrammarNode *out) {
    const char *path;
    Error err = {0};
    return json_schema_parse(m->g, schema, name, out, &path, &err) || refuse(m->x, 400, "invalid_schema", path, "%s", err.text);
}

static bool pattern_make(Make *m, const json_t *pattern, const char *name, GrammarNode *out) {
    Error err = {0};
    if (!json_is_string(pattern)) return refuse(m->x, 400, "invalid_type", name, "%s must be a string", name);
    return pattern_parse(m->g, (Text){json_string_value(pattern), json_string_length(pattern)}, false, out, &err) ||
           refuse(m->x, 400, "invalid_pattern", name, "%s: %s", name, err.text);
}

static bool gbnf_make(Make *m, GrammarNode *out) {
    Error err = {0};
    return gbnf_parse(m->g, json_view(m->form->gbnf), out, &err) || refuse(m->x, 400, "invalid_grammar", "grammar", "grammar: %s", err.text);
}

static bool format_make(Make *m, const json_t *format, const char *name, GrammarNode *out) {
    const json_t *type = json_object_get(format, "type"), *outer = json_object_get(format, "json_schema");
    Arena *arena = m->x->arena;
    if (!json_is_object(format) || !json_is_string(type))
        return refuse(m->x, 400, "invalid_type", name, "%s must be an object with a \"type\"", name);
    if (json_is_word(type, "text")) return true;
    if (json_is_word(type, "regex")) return pattern_make(m, json_object_get(format, "pattern"), arena_printf(arena, "%s.pattern", name), out);
    const json_t *inner = outer ? json_object_get(outer, "schema") : json_object_get(format, "schema");
    bool is_outer = outer || (json_is_word(type, "json_schema") && !inner && !m->form->format_name);
    const char *place = arena_printf(arena, is_outer ? "%s.json_schema.schema" : "%s.schema", name);
    if (json_is_word(type, "json_object") && !inner) {
        *out = json_schema_any_object(m->g);
        return true;
    }
    if (!json_is_word(type, "json_object") && !json_is_word(type, "json_schema"))
        return refuse(m->x, 400, "invalid_value", arena_printf(arena, "%s.type", name), "%s.type is \"%.40s\": known are text, json_object, "
                      "json_schema and regex", name, json_string_value(type));
    if (!inner) return refuse(m->x, 400, "missing_required_parameter", place, "%s is missing", place);
    return schema_make(m, inner, place, out);
}

// ---- calls

static const json_t *function_of(const json_t *tool) {
    return json_object_get(tool, "function");
}

static bool arguments_make(Make *m, const json_t *function, const char *place, GrammarNode *out) {
    const json_t *parameters = json_object_get(function, "parameters");
    if (!parameters || json_is_null(parameters) || json_object_size(parameters) == 0) {
        *out = json_schema_any_object(m->g);
        return true;
    }
    return schema_make(m, parameters, arena_printf(m->x->arena, "%s.%s", place, m->form->tool_schema), out);
}

static GrammarNode quoted(Make *m, const json_t *value) {
    char *dumped = json_dumps(value, JSON_ENCODE_ANY);
    GrammarNode node = text(m, dumped ? dumped : "\"\"");
    free(dumped);
    return node;
}

static bool object_call(Make *m, const json_t *function, const char *place, GrammarNode *out) {
    GrammarNode arguments, gap = json_schema_space(m->g);
    const char *key = m->format->tools->is_bare ? "\"parameters\":" : "\"arguments\":";
    if (!arguments_make(m, function, place, &arguments)) return false;
    GrammarNode parts[] = {text(m, "{\"name\":"), gap, quoted(m, json_object_get(function, "name")), text(m, ","), gap, text(m, key),
                           gap, arguments, gap, text(m, "}")};
    *out = grammar_seq(m->g, parts, sizeof parts / sizeof *parts);
    return true;
}

// A text stands as it is, up to its marker; anything else as JSON.
static bool pair_value(Make *m, const json_t *schema, const char *place, GrammarNode *out) {
    const json_t *choices = json_object_get(schema, "enum");
    GrammarNode nothing = grammar_seq(m->g, NULL, 0), end = text(m, "</arg_value>"), value;
    if (!json_is_word(json_object_get(schema, "type"), "string")) {
        if (!schema_make(m, schema, place, &value)) return false;
        *out = seq2(m, value, end);
        return true;
    }
    *out = grammar_until(m->g, text_of("</arg_value>"), nothing, false);
    if (json_array_size(choices) == 0) return true;
    GrammarNode *nodes = arena_new(m->x->arena, json_array_size(choices) * sizeof *nodes);
    int n = 0;
    for (size_t i = 0; i < json_array_size(choices); i++)
        if (json_is_string(json_array_get(choices, i))) nodes[n++] = text(m, json_string_value(json_array_get(choices, i)));
    if (n == 0) return refuse(m->x, 400, "invalid_schema", place, "%s: has no value that the type lets through", place);
    *out = seq2(m, grammar_alt(m->g, nodes, n), end);
    return true;
}

static bool pairs_call(Make *m, const json_t *function, const char *place, GrammarNode *out) {
    const json_t *parameters = json_object_get(function, "parameters"), *properties = json_object_get(parameters, "properties");
    const char *name;
    json_t *schema;
    VEC(GrammarNode) parts = {0};
    vec_push(m->x->arena, &parts, text(m, json_string_value(json_object_get(function, "name"))));
    json_object_foreach((json_t *)(uintptr_t)properties, name, schema) {
        GrammarNode value;
        const char *own = arena_printf(m->x->arena, "%s.%s.properties.%.80s", place, m->form->tool_schema, name);
        if (!pair_value(m, schema, own, &value)) return false;
        GrammarNode pair = grammar_seq(m->g, (GrammarNode[]){space(m), text(m, "<arg_key>"), text(m, name), text(m, "</arg_key>"), space(m),
                                                             text(m, "<arg_value>"), value}, 7);
        vec_push(m->x->arena, &parts, json_has_word(json_object_get(parameters, "required"), name) ? pair : grammar_optional(m->g, pair));
    }
    *out = grammar_seq(m->g, parts.at, (int)parts.len);
    return true;
}

static bool named_call(Make *m, const json_t *function, const char *place, GrammarNode *out) {
    GrammarNode arguments;
    if (!arguments_make(m, function, place, &arguments)) return false;
    *out = grammar_seq(m->g, (GrammarNode[]){text(m, json_string_value(json_object_get(function, "name"))),
                                             text(m, m->format->tools->separator), arguments}, 3);
    return true;
}

static bool call_make(Make *m, const json_t *function, const char *place, GrammarNode *out) {
    switch (m->format->tools->syntax) {
    case OBJECT_SYNTAX: return object_call(m, function, place, out);
    case PAIRS_SYNTAX: return pairs_call(m, function, place, out);
    case NAMED_SYNTAX: return named_call(m, function, place, out);
    }
    return false;
}

// One of the tools, or the one called `only`, from behind the opening marker to the closing one.
static bool calls_make(Make *m, const char *only, GrammarNode *out) {
    size_t i;
    json_t *tool;
    VEC(GrammarNode) nodes = {0};
    json_array_foreach(m->form->tools, i, tool) {
        GrammarNode node;
        if (only && !json_is_word(json_object_get(function_of(tool), "name"), only)) continue;
        if (!call_make(m, function_of(tool), arena_printf(m->x->arena, "tools[%zu]", i), &node)) return false;
        vec_push(m->x->arena, &nodes, node);
    }
    GrammarNode calls = grammar_alt(m->g, nodes.at, (int)nodes.len);
    *out = grammar_seq(m->g, (GrammarNode[]){space(m), calls, space(m), text(m, m->format->tools->close)}, 4);
    return true;
}

static bool any_is_strict(const json_t *tools) {
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool)
        if (json_is_true(json_object_get(function_of(tool), "strict"))) return true;
    return false;
}

static bool tools_make(Make *m, GrammarNode *out) {
    const json_t *choice = m->form->tool_choice, *name = json_object_get(json_object_get(choice, "function"), "name");
    const ToolFormat *format = m->format->tools;
    if (!m->form->tools) return true;
    bool is_forced = json_is_word(choice, "required") || json_is_string(name);
    bool is_strict = is_forced || any_is_strict(m->form->tools);
    bool is_single = m->form->is_single && format && format->close[0];   // without a closing marker there is one at most
    if (!is_strict && !is_single) return true;
    if (!format)
        return refuse(m->x, 400, "unsupported_parameter", is_forced ? "tool_choice" : "tools",
                      "how this model writes calls of tools is not known, so that none can be enforced");
    GrammarNode call, open = text(m, format->open);
    if (!is_strict) call = grammar_until(m->g, text_of(format->close), grammar_seq(m->g, NULL, 0), false);
    else if (!calls_make(m, json_string_value(name), &call)) return false;
    if (is_forced) {
        GrammarNode one = grammar_seq(m->g, (GrammarNode[]){open, call}, 2);
        bool is_once = is_single || json_is_string(name) || format->close[0] == '\0';
        *out = is_once ? one : repeat(m, seq2(m, one, space(m)), 1, 64);
        return true;
    }
    // Free text, in which every call that is begun must be right; behind the only call nothing more is said.
    if (is_single) {
        *out = grammar_until(m->g, text_of(format->open), seq2(m, call, space(m)), true);
        return true;
    }
    GrammarNode loop = grammar_rule(m->g);
    GrammarNode behind = format->close[0] ? seq2(m, call, loop) : call;
    grammar_set(m->g, loop, grammar_until(m->g, text_of(format->open), behind, true));
    *out = loop;
    return true;
}

// ---- the whole

static GrammarNode with_thinking(Make *m, GrammarNode root) {
    const ThinkingFormat *t = m->format->thinking;
    if (!t || (!m->form->thinks_first && !m->form->may_think)) return root;
    GrammarNode thought = grammar_until(m->g, text_of(t->close), seq2(m, space(m), root), false);
    if (m->form->thinks_first) return thought;
    return grammar_alt(m->g, (GrammarNode[]){root, seq2(m, text(m, t->open), thought)}, 2);
}

// At most one of the ways to say what an answer looks like; two would have to be held to at once.
static bool answer_make(Make *m, const char **name, GrammarNode *out) {
    const AnswerForm *f = m->form;
    const char *format = f->format_name ? f->format_name : "response_format";
    const struct { const char *name; bool is_given; } ways[] = {
        {format, f->response_format && !json_is_word(json_object_get(f->response_format, "type"), "text")},
        {"json_schema", f->json_schema != NULL}, {"regex", f->regex != NULL}, {"grammar", json_view(f->gbnf).len > 0}};
    *name = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (ways[i].is_given && *name)
            return refuse(m->x, 400, "unsupported_parameter", ways[i].name, "%s cannot be held to beside %s", ways[i].name, *name);
        if (ways[i].is_given) *name = ways[i].name;
    }
    if (f->response_format && !format_make(m, f->response_format, format, out)) return false;
    if (f->json_schema) return schema_make(m, f->json_schema, "json_schema", out);
    if (f->regex) return pattern_make(m, f->regex, "regex", out);
    return json_view(f->gbnf).len == 0 || gbnf_make(m, out);
}

bool answer_grammar_make(Exchange *x, const AnswerForm *form, AnswerGrammar *out) {
    Make m = {x, form, grammar_create(x->arena), &server_of(x)->format};
    GrammarNode answer = -1, calls = -1;
    const char *name;
    *out = (AnswerGrammar){m.g, -1};
    if (!tools_make(&m, &calls)) return false;
    if (!answer_make(&m, &name, &answer)) return false;
    if (answer >= 0 && calls >= 0)
        return refuse(x, 400, "unsupported_parameter", name, "%s cannot be held to beside calls that are enforced", name);
    out->root = calls >= 0 ? calls : answer;
    if (out->root >= 0) out->root = with_thinking(&m, out->root);
    return !grammar_is_full(m.g) || refuse(x, 400, "invalid_schema", NULL, "what the answer must look like is too large a grammar");
}

// jinja_parser: the half of the parser that reads tags, and the entry for the whole template.
// In: tokens. Out: the tree of a template.
// Invariant: a tag is one row of the table below; blocks nest at most JINJA_MAX_NESTING deep.
// Example: "{% if a %}x{% endif %}" → IF(list = [BRANCH(a, body = [DATA "x"])]).
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "text/jinja_ast.h"

// ---- what both halves use ----

bool jinja_parse_error(JinjaParser *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = jinja_message(p->arena, format, args);
    va_end(args);
    return fail(p->err, LATHE_BAD_FILE, "chat template, line %d: %s", p->token->line, text);
}

bool jinja_unexpected(JinjaParser *p, const char *wanted) {
    const JinjaToken *t = p->token;
    bool has_text = t->kind == JINJA_TOKEN_WORD || t->kind == JINJA_TOKEN_TEXT;
    Text shown = has_text ? t->text : text_of(jinja_token_name(t->kind));
    int len = shown.len > 60 ? 60 : (int)shown.len;
    if (wanted) return jinja_parse_error(p, "expected %s, got '%.*s'", wanted, len, shown.at);
    return jinja_parse_error(p, "unexpected '%.*s'", len, shown.at);
}

bool jinja_skip(JinjaParser *p, JinjaTokenKind kind) {
    if (p->token->kind != kind) return false;
    p->token++;
    return true;
}

bool jinja_expect(JinjaParser *p, JinjaTokenKind kind) {
    char wanted[64];
    if (p->token->kind == kind) {
        p->token += kind != JINJA_TOKEN_END;
        return true;
    }
    snprintf(wanted, sizeof wanted, "token '%s'", jinja_token_name(kind));
    return jinja_unexpected(p, wanted);
}

bool jinja_at_word(const JinjaParser *p, const char *word) {
    return p->token->kind == JINJA_TOKEN_WORD && text_is(p->token->text, word);
}

bool jinja_skip_word(JinjaParser *p, const char *word) {
    if (!jinja_at_word(p, word)) return false;
    p->token++;
    return true;
}

// Counts a level even where it fails: callers take it off again in both cases.
bool jinja_nest(JinjaParser *p) {
    if (++p->depth <= JINJA_MAX_NESTING) return true;
    return jinja_parse_error(p, "more than %d levels of nesting", JINJA_MAX_NESTING);
}

JinjaNode *jinja_node(JinjaParser *p, JinjaNodeKind kind) {
    JinjaNode *node = arena_new(p->arena, sizeof *node);
    node->kind = kind;
    node->line = p->token->line;
    return node;
}

const JinjaString *jinja_intern(JinjaParser *p, Text name) {
    JinjaString *s = map_get(p->names, name.at, name.len);
    if (s) return s;
    s = arena_new(p->arena, sizeof *s);
    *s = (JinjaString){.at = text_cstr(p->arena, name), .len = name.len, .origin = JINJA_TEMPLATE};
    map_put(p->names, name.at, name.len, s);
    return s;
}

const JinjaString *jinja_expect_name(JinjaParser *p) {
    Text name = p->token->text;
    return jinja_expect(p, JINJA_TOKEN_WORD) ? jinja_intern(p, name) : NULL;
}

// ---- bodies ----

static JinjaNode *parse_tag(JinjaParser *p);

static bool is_one_of(Text word, const char *words) {
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (word.len == n && memcmp(word.at, words, n) == 0) return true;
    }
    return false;
}

static JinjaNode *data_node(JinjaParser *p) {
    JinjaString *s = arena_new(p->arena, sizeof *s);
    *s =
        (JinjaString){.at = p->token->text.at, .len = p->token->text.len, .origin = JINJA_TEMPLATE};
    JinjaNode *node = jinja_node(p, JINJA_NODE_DATA);
    node->value = jinja_string(s);
    p->token++;
    return node;
}

static JinjaNode *print_node(JinjaParser *p) {
    p->token++;
    JinjaNode *node = jinja_node(p, JINJA_NODE_PRINT);
    node->a = jinja_parse_tuple(p, true, NULL);
    return node->a && jinja_expect(p, JINJA_TOKEN_PRINT_END) ? node : NULL;
}

// Nodes up to a tag whose word is one of end_words (blanks between; NULL: up to the end of the
// template). The current token is then that word.
static bool parse_nodes(JinjaParser *p, const char *end_words, JinjaNodes *out) {
    while (p->token->kind != JINJA_TOKEN_END) {
        JinjaNode *node;
        if (p->token->kind == JINJA_TOKEN_DATA) {
            node = data_node(p);
        } else if (p->token->kind == JINJA_TOKEN_PRINT_BEGIN) {
            node = print_node(p);
        } else {
            TRY(jinja_expect(p, JINJA_TOKEN_BLOCK_BEGIN));
            if (end_words && p->token->kind == JINJA_TOKEN_WORD &&
                is_one_of(p->token->text, end_words))
                return true;
            node = parse_tag(p);
            if (node && !jinja_expect(p, JINJA_TOKEN_BLOCK_END)) return false;
        }
        if (!node) return false;
        vec_push(p->arena, out, node);
    }
    if (end_words)
        return jinja_parse_error(p, "the template ends inside a block; expected one of: %s",
                                 end_words);
    return true;
}

// Behind the words of an opening tag: its end, the body, and (where end_words is one word) that
// word.
static bool parse_body(JinjaParser *p, const char *end_words, JinjaNodes *out) {
    TRY(jinja_expect(p, JINJA_TOKEN_BLOCK_END));
    bool is_good = jinja_nest(p) && parse_nodes(p, end_words, out);
    p->depth--;
    if (is_good && !strchr(end_words, ' ')) p->token++;
    return is_good;
}

// ---- one function a tag; the current token stands behind the tag's word ----

static JinjaNode *parse_for(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_FOR);
    if (!(node->a = jinja_parse_target(p, false))) return NULL;
    if (!jinja_skip_word(p, "in")) {
        jinja_unexpected(p, "token 'in'");
        return NULL;
    }
    if (!(node->b = jinja_parse_tuple(p, false, "recursive"))) return NULL;
    if (jinja_skip_word(p, "if") && !(node->c = jinja_parse_expression(p))) return NULL;
    node->is_recursive = jinja_skip_word(p, "recursive");
    p->loop_depth++;
    bool is_good = parse_body(p, "endfor else", &node->body);
    p->loop_depth--;
    if (!is_good) return NULL;
    if (jinja_skip_word(p, "else")) return parse_body(p, "endfor", &node->other) ? node : NULL;
    p->token++;
    return node;
}

static JinjaNode *parse_if(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_IF);
    for (bool is_else = false;;) {
        JinjaNode *branch = jinja_node(p, JINJA_NODE_BRANCH);
        if (!is_else && !(branch->a = jinja_parse_tuple(p, false, NULL))) return NULL;
        if (!parse_body(p, is_else ? "endif" : "elif else endif", &branch->body)) return NULL;
        vec_push(p->arena, &node->list, branch);
        if (is_else || jinja_skip_word(p, "endif")) return node;
        is_else = jinja_at_word(p, "else");
        p->token++;
    }
}

static JinjaNode *parse_set(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_SET);
    if (!(node->a = jinja_parse_target(p, true))) return NULL;
    if (jinja_skip(p, JINJA_TOKEN_ASSIGN))
        return (node->b = jinja_parse_tuple(p, true, NULL)) ? node : NULL;
    node->kind = JINJA_NODE_SET_BLOCK;
    if (p->token->kind == JINJA_TOKEN_PIPE &&
        !(node->b = jinja_parse_filters(p, jinja_node(p, JINJA_NODE_CAPTURED), false)))
        return NULL;
    return parse_body(p, "endset", &node->body) ? node : NULL;
}

// "(a, b=1)" into PARAMETER nodes.
static bool parse_parameters(JinjaParser *p, JinjaNode *macro) {
    TRY(jinja_expect(p, JINJA_TOKEN_LEFT_PAREN));
    while (p->token->kind != JINJA_TOKEN_RIGHT_PAREN) {
        if (macro->list.len > 0) TRY(jinja_expect(p, JINJA_TOKEN_COMMA));
        JinjaNode *parameter = jinja_node(p, JINJA_NODE_PARAMETER);
        if (!(parameter->name = jinja_expect_name(p))) return false;
        if (jinja_skip(p, JINJA_TOKEN_ASSIGN)) {
            if (!(parameter->a = jinja_parse_expression(p))) return false;
        } else if (macro->list.len > 0 && macro->list.at[macro->list.len - 1]->a) {
            return jinja_parse_error(p, "non-default argument follows default argument");
        }
        vec_push(p->arena, &macro->list, parameter);
    }
    p->token++;
    return true;
}

// The body of a macro: no loop reaches into it, and what it says of caller, varargs and kwargs is
// its own.
static bool parse_macro_body(JinjaParser *p, JinjaNode *macro, const char *end_word) {
    JinjaNode *around = p->macro;
    int loop_depth = p->loop_depth;
    p->macro = macro;
    p->loop_depth = 0;
    bool is_good = parse_body(p, end_word, &macro->body);
    p->macro = around;
    p->loop_depth = loop_depth;
    if (!around) return is_good;
    around->uses_caller |= macro->uses_caller;
    around->uses_varargs |= macro->uses_varargs;
    around->uses_kwargs |= macro->uses_kwargs;
    return is_good;
}

static JinjaNode *parse_macro(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_MACRO);
    if (!(node->name = jinja_expect_name(p)) || !parse_parameters(p, node)) return NULL;
    return parse_macro_body(p, node, "endmacro") ? node : NULL;
}

static JinjaNode *parse_call(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_CALL_BLOCK);
    node->b = jinja_node(p, JINJA_NODE_MACRO);
    node->b->name = jinja_intern(p, text_of("caller"));
    if (p->token->kind == JINJA_TOKEN_LEFT_PAREN && !parse_parameters(p, node->b)) return NULL;
    if (!(node->a = jinja_parse_expression(p))) return NULL;
    if (node->a->kind != JINJA_NODE_CALL) {
        jinja_unexpected(p, "a call behind 'call'");
        return NULL;
    }
    return parse_macro_body(p, node->b, "endcall") ? node : NULL;
}

static JinjaNode *parse_filter_block(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_FILTER_BLOCK);
    node->a = jinja_parse_filters(p, jinja_node(p, JINJA_NODE_CAPTURED), true);
    return node->a && parse_body(p, "endfilter", &node->body) ? node : NULL;
}

static JinjaNode *parse_with(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_WITH);
    while (p->token->kind != JINJA_TOKEN_BLOCK_END) {
        if (node->list.len > 0 && !jinja_expect(p, JINJA_TOKEN_COMMA)) return NULL;
        JinjaNode *target = jinja_parse_target(p, false);
        if (!target || !jinja_expect(p, JINJA_TOKEN_ASSIGN)) return NULL;
        JinjaNode *value = jinja_parse_expression(p);
        if (!value) return NULL;
        vec_push(p->arena, &node->list, target);
        vec_push(p->arena, &node->list, value);
    }
    return parse_body(p, "endwith", &node->body) ? node : NULL;
}

static JinjaNode *parse_block(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_SCOPE);
    const JinjaString *name = jinja_expect_name(p);
    if (!name) return NULL;
    while (jinja_skip_word(p, "scoped") || jinja_skip_word(p, "required")) continue;
    if (!parse_body(p, "endblock", &node->body)) return NULL;
    jinja_skip_word(p, name->at);
    return node;
}

static JinjaNode *parse_generation(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_SCOPE);
    return parse_body(p, "endgeneration", &node->body) ? node : NULL;
}

static JinjaNode *parse_autoescape(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_SCOPE);
    if (!jinja_skip_word(p, "false") && !jinja_skip_word(p, "False")) {
        jinja_parse_error(p, "autoescape is off in chat templates and can not be switched on");
        return NULL;
    }
    return parse_body(p, "endautoescape", &node->body) ? node : NULL;
}

// {% print a, b %} prints each.
static JinjaNode *parse_print(JinjaParser *p) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_PRINT), *list = jinja_node(p, JINJA_NODE_CONCAT);
    while (p->token->kind != JINJA_TOKEN_BLOCK_END) {
        if (list->list.len > 0 && !jinja_expect(p, JINJA_TOKEN_COMMA)) return NULL;
        JinjaNode *item = jinja_parse_expression(p);
        if (!item) return NULL;
        vec_push(p->arena, &list->list, item);
    }
    node->a = list;
    return node;
}

static JinjaNode *parse_jump(JinjaParser *p, JinjaNodeKind kind, const char *word) {
    if (p->loop_depth > 0) return jinja_node(p, kind);
    jinja_parse_error(p, "'%s' outside a loop", word);
    return NULL;
}

static JinjaNode *parse_break(JinjaParser *p) { return parse_jump(p, JINJA_NODE_BREAK, "break"); }
static JinjaNode *parse_continue(JinjaParser *p) {
    return parse_jump(p, JINJA_NODE_CONTINUE, "continue");
}

static JinjaNode *parse_foreign(JinjaParser *p) {
    jinja_parse_error(
        p, "a chat template is one file: include, import, from and extends have nothing to read");
    return NULL;
}

static const struct {
    const char *word;
    JinjaNode *(*parse)(JinjaParser *p);
} tags[] = {
    {"for", parse_for},
    {"if", parse_if},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"block", parse_block},
    {"generation", parse_generation},
    {"print", parse_print},
    {"break", parse_break},
    {"continue", parse_continue},
    {"include", parse_foreign},
    {"import", parse_foreign},
    {"from", parse_foreign},
    {"extends", parse_foreign},
    {"autoescape", parse_autoescape},
};

static JinjaNode *parse_tag(JinjaParser *p) {
    Text word = p->token->text;
    if (p->token->kind != JINJA_TOKEN_WORD) {
        jinja_unexpected(p, "a tag's name");
        return NULL;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (text_is(word, tags[i].word)) {
            p->token++;
            return tags[i].parse(p);
        }
    jinja_parse_error(p, "unknown tag '%.*s'", (int)(word.len > 60 ? 60 : word.len), word.at);
    return NULL;
}

bool jinja_parse(JinjaTemplate **out, Arena *arena, Text source, Error *err) {
    JinjaToken *tokens;
    TRY(jinja_tokenize(arena, source, &tokens, err));
    JinjaTemplate *template = arena_new(arena, sizeof *template);
    template->arena = arena;
    map_init(&template->names, arena);
    map_init(&template->variables, arena);
    JinjaParser p = {.arena = arena,
                     .err = err,
                     .token = tokens,
                     .names = &template->names,
                     .variables = &template->variables};
    TRY(parse_nodes(&p, NULL, &template->body));
    *out = template;
    return true;
}

bool jinja_mentions(const JinjaTemplate *template, const char *name) {
    return map_has(&template->variables, name, strlen(name));
}

// jinja_expression: the half of the parser that reads what stands inside tags.
// In: tokens from p->token on. Out: expression nodes, or NULL with *p->err set.
// Invariant: each level of precedence is one function, loosest first; nesting is counted, so no
// input overflows the stack. Precedence: if/else, or, and, not, comparisons, + -, ~, * / // %, **,
// signs, then . [] () | is.
// Example: -1 | abs → FILTER(abs, UNARY(-, 1)).
#include <stdio.h>
#include <string.h>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"

#include "base/vec.h"

static JinjaNode *parse_unary(JinjaParser *p, bool with_filters);
static JinjaNode *parse_primary(JinjaParser *p);
static JinjaNode *parse_postfix(JinjaParser *p, JinjaNode *node);

static JinjaNode *node_on(JinjaParser *p, JinjaNodeKind kind, JinjaNode *a, JinjaNode *b) {
    JinjaNode *node = jinja_node(p, kind);
    node->a = a;
    node->b = b;
    return node;
}

static JinjaNode *constant_node(JinjaParser *p, JinjaValue value) {
    JinjaNode *node = jinja_node(p, JINJA_NODE_CONSTANT);
    node->value = value;
    return node;
}

static JinjaNode *text_node(JinjaParser *p, Text text) {
    JinjaString *s = arena_new(p->arena, sizeof *s);
    *s =
        (JinjaString){.at = text.len > 0 ? text.at : "", .len = text.len, .origin = JINJA_TEMPLATE};
    return constant_node(p, jinja_string(s));
}

// ---- binary levels ----

typedef JinjaNode *JinjaLevel(JinjaParser *p);

static JinjaNode *parse_with_filters(JinjaParser *p) { return parse_unary(p, true); }

// Left to right: operand (op operand)*, for the operators listed.
static JinjaNode *parse_chain(JinjaParser *p, JinjaLevel *operand, const JinjaTokenKind *ops,
                              size_t n_ops) {
    JinjaNode *left = operand(p);
    for (size_t i = 0; left && i < n_ops; i++) {
        if (p->token->kind != ops[i]) continue;
        JinjaNode *node = jinja_node(p, JINJA_NODE_BINARY);
        node->op = ops[i];
        p->token++;
        node->a = left;
        node->b = operand(p);
        if (!node->b) return NULL;
        left = node;
        i = (size_t)-1; // look at all operators again
    }
    return left;
}

static JinjaNode *parse_power(JinjaParser *p) {
    static const JinjaTokenKind ops[] = {JINJA_TOKEN_POWER};
    return parse_chain(p, parse_with_filters, ops, 1);
}

static JinjaNode *parse_product(JinjaParser *p) {
    static const JinjaTokenKind ops[] = {JINJA_TOKEN_MULTIPLY, JINJA_TOKEN_DIVIDE,
                                         JINJA_TOKEN_FLOOR_DIVIDE, JINJA_TOKEN_MODULO};
    return parse_chain(p, parse_power, ops, 4);
}

static JinjaNode *parse_concat(JinjaParser *p) {
    JinjaNode *first = parse_product(p);
    if (!first || p->token->kind != JINJA_TOKEN_TILDE) return first;
    JinjaNode *node = jinja_node(p, JINJA_NODE_CONCAT);
    vec_push(p->arena, &node->list, first);
    while (jinja_skip(p, JINJA_TOKEN_TILDE)) {
        JinjaNode *next = parse_product(p);
        if (!next) return NULL;
        vec_push(p->arena, &node->list, next);
    }
    return node;
}

static JinjaNode *parse_sum(JinjaParser *p) {
    static const JinjaTokenKind ops[] = {JINJA_TOKEN_ADD, JINJA_TOKEN_SUBTRACT};
    return parse_chain(p, parse_concat, ops, 2);
}

// The comparison at the current token; END where there is none. Reads it.
static JinjaTokenKind take_comparison(JinjaParser *p) {
    JinjaTokenKind kind = p->token->kind;
    if (kind >= JINJA_TOKEN_EQUAL && kind <= JINJA_TOKEN_GREATER) {
        p->token++;
        return kind;
    }
    if (jinja_skip_word(p, "in")) return JINJA_TOKEN_IN;
    if (jinja_at_word(p, "not") && p->token[1].kind == JINJA_TOKEN_WORD &&
        text_is(p->token[1].text, "in")) {
        p->token += 2;
        return JINJA_TOKEN_NOT_IN;
    }
    return JINJA_TOKEN_END;
}

static JinjaNode *parse_comparison(JinjaParser *p) {
    JinjaNode *first = parse_sum(p), *compare = NULL;
    for (JinjaTokenKind op; first && (op = take_comparison(p)) != JINJA_TOKEN_END;) {
        if (!compare) compare = node_on(p, JINJA_NODE_COMPARE, first, NULL);
        JinjaNode *operand = node_on(p, JINJA_NODE_OPERAND, parse_sum(p), NULL);
        if (!operand->a) return NULL;
        operand->op = op;
        vec_push(p->arena, &compare->list, operand);
    }
    return compare ? compare : first;
}

static JinjaNode *parse_not(JinjaParser *p) {
    size_t n_nots = 0;
    while (jinja_skip_word(p, "not")) n_nots++;
    JinjaNode *node = parse_comparison(p);
    if (!node || n_nots == 0) return node;
    node = node_on(p, JINJA_NODE_NOT, node, NULL);
    return n_nots % 2 ? node
                      : node_on(p, JINJA_NODE_NOT, node, NULL); // `not not x` is a truth value
}

static JinjaNode *parse_and(JinjaParser *p) {
    JinjaNode *left = parse_not(p);
    while (left && jinja_skip_word(p, "and")) {
        JinjaNode *right = parse_not(p);
        left = right ? node_on(p, JINJA_NODE_AND, left, right) : NULL;
    }
    return left;
}

JinjaNode *jinja_parse_or(JinjaParser *p) {
    JinjaNode *left = jinja_nest(p) ? parse_and(p) : NULL;
    while (left && jinja_skip_word(p, "or")) {
        JinjaNode *right = parse_and(p);
        left = right ? node_on(p, JINJA_NODE_OR, left, right) : NULL;
    }
    p->depth--;
    return left;
}

JinjaNode *jinja_parse_expression(JinjaParser *p) {
    JinjaNode *node = jinja_nest(p) ? jinja_parse_or(p) : NULL;
    while (node && jinja_skip_word(p, "if")) {
        JinjaNode *condition = node_on(p, JINJA_NODE_CONDITION, node, jinja_parse_or(p));
        if (!condition->b) node = NULL;
        else if (jinja_skip_word(p, "else") && !(condition->c = jinja_parse_expression(p)))
            node = NULL;
        else node = condition;
    }
    p->depth--;
    return node;
}

// ---- signs, then primaries with what follows them ----

static JinjaNode *parse_unary(JinjaParser *p, bool with_filters) {
    JinjaTokenKind op = p->token->kind;
    JinjaNode *node;
    if (op == JINJA_TOKEN_SUBTRACT || op == JINJA_TOKEN_ADD) {
        node = jinja_node(p, JINJA_NODE_UNARY);
        node->op = op;
        p->token++;
        node->a = jinja_nest(p) ? parse_unary(p, false) : NULL;
        p->depth--;
        if (!node->a) return NULL;
    } else {
        node = parse_primary(p);
    }
    if (node) node = parse_postfix(p, node);
    return node && with_filters ? jinja_parse_filters(p, node, false) : node;
}

static JinjaNode *parse_list(JinjaParser *p) {
    JinjaNode *list = jinja_node(p, JINJA_NODE_LIST);
    p->token++;
    while (p->token->kind != JINJA_TOKEN_RIGHT_BRACKET) {
        if (list->list.len > 0 && !jinja_expect(p, JINJA_TOKEN_COMMA)) return NULL;
        if (p->token->kind == JINJA_TOKEN_RIGHT_BRACKET) break;
        JinjaNode *item = jinja_parse_expression(p);
        if (!item) return NULL;
        vec_push(p->arena, &list->list, item);
    }
    p->token++;
    return list;
}

static JinjaNode *parse_dict(JinjaParser *p) {
    JinjaNode *dict = jinja_node(p, JINJA_NODE_DICT);
    p->token++;
    while (p->token->kind != JINJA_TOKEN_RIGHT_BRACE) {
        if (dict->list.len > 0 && !jinja_expect(p, JINJA_TOKEN_COMMA)) return NULL;
        if (p->token->kind == JINJA_TOKEN_RIGHT_BRACE) break;
        JinjaNode *key = jinja_parse_expression(p);
        if (!key || !jinja_expect(p, JINJA_TOKEN_COLON)) return NULL;
        JinjaNode *value = jinja_parse_expression(p);
        if (!value) return NULL;
        vec_push(p->arena, &dict->list, key);
        vec_push(p->arena, &dict->list, value);
    }
    p->token++;
    return dict;
}

static JinjaNode *parse_word(JinjaParser *p) {
    static const struct {
        const char *word;
        JinjaKind kind;
        bool value;
    } rows[] = {{"true", JINJA_BOOL, true},   {"True", JINJA_BOOL, true},
                {"false", JINJA_BOOL, false}, {"False", JINJA_BOOL, false},
                {"none", JINJA_NONE, false},  {"None", JINJA_NONE, false}};
    Text word = p->token->text;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (text_is(word, rows[i].word)) {
            p->token++;
            return constant_node(p, (JinjaValue){.kind = rows[i].kind, .boolean = rows[i].value});
        }
    JinjaNode *name = jinja_node(p, JINJA_NODE_NAME);
    name->name = jinja_intern(p, word);
    map_put(p->variables, word.at, word.len, name);
    p->token++;
    if (p->macro) {
        p->macro->uses_caller |= text_is(word, "caller");
        p->macro->uses_varargs |= text_is(word, "varargs");
        p->macro->uses_kwargs |= text_is(word, "kwargs");
    }
    return name;
}

static JinjaNode *parse_strings(JinjaParser *p) {
    TextBuilder b = builder(p->arena);
    for (; p->token->kind == JINJA_TOKEN_TEXT; p->token++) builder_text(&b, p->token->text);
    return text_node(p, builder_view(&b));
}

static JinjaNode *parse_primary(JinjaParser *p) {
    JinjaNode *node;
    switch (p->token->kind) {
    case JINJA_TOKEN_WORD: return parse_word(p);
    case JINJA_TOKEN_TEXT: return parse_strings(p);
    case JINJA_TOKEN_WHOLE: return constant_node(p, jinja_int((p->token++)->whole));
    case JINJA_TOKEN_REAL: return constant_node(p, jinja_float((p->token++)->real));
    case JINJA_TOKEN_LEFT_BRACKET: return parse_list(p);
    case JINJA_TOKEN_LEFT_BRACE: return parse_dict(p);
    case JINJA_TOKEN_LEFT_PAREN:
        p->token++;
        if (jinja_skip(p, JINJA_TOKEN_RIGHT_PAREN)) return jinja_node(p, JINJA_NODE_TUPLE);
        node = jinja_parse_tuple(p, true, NULL);
        return node && jinja_expect(p, JINJA_TOKEN_RIGHT_PAREN) ? node : NULL;
    default: jinja_unexpected(p, NULL); return NULL;
    }
}

static bool at_tuple_end(const JinjaParser *p, const char *end_word) {
    JinjaTokenKind kind = p->token->kind;
    return kind == JINJA_TOKEN_PRINT_END || kind == JINJA_TOKEN_BLOCK_END ||
           kind == JINJA_TOKEN_RIGHT_PAREN || (end_word && jinja_at_word(p, end_word));
}

// "a, b": a tuple; "a" alone: a itself.
JinjaNode *jinja_parse_tuple(JinjaParser *p, bool with_condition, const char *end_word) {
    JinjaNode *tuple = NULL;
    for (;;) {
        JinjaNode *item = with_condition ? jinja_parse_expression(p) : jinja_parse_or(p);
        if (!item) return NULL;
        if (!tuple && p->token->kind != JINJA_TOKEN_COMMA) return item;
        if (!tuple) tuple = jinja_node(p, JINJA_NODE_TUPLE);
        vec_push(p->arena, &tuple->list, item);
        if (!jinja_skip(p, JINJA_TOKEN_COMMA) || at_tuple_end(p, end_word)) return tuple;
    }
}

// ---- postfix ----

static JinjaNode *parse_attribute(JinjaParser *p, JinjaNode *of) {
    JinjaNode *node = node_on(p, JINJA_NODE_ATTRIBUTE, of, NULL);
    p->token++;
    if (p->token->kind == JINJA_TOKEN_WORD) {
        node->name = jinja_intern(p, p->token->text);
    } else if (p->token->kind == JINJA_TOKEN_WHOLE) {
        node->kind = JINJA_NODE_ITEM;
        node->b = constant_node(p, jinja_int(p->token->whole));
    } else {
        jinja_unexpected(p, "name or number");
        return NULL;
    }
    p->token++;
    return node;
}

// What stands between brackets, up to a comma: an expression or a slice.
static JinjaNode *parse_index(JinjaParser *p) {
    JinjaNode *parts[3] = {0};
    size_t part = 0;
    for (; part < 3; part++) {
        JinjaTokenKind kind = p->token->kind;
        if (kind != JINJA_TOKEN_COLON && kind != JINJA_TOKEN_RIGHT_BRACKET &&
            kind != JINJA_TOKEN_COMMA && !(parts[part] = jinja_parse_expression(p)))
            return NULL;
        if (part == 2 || !jinja_skip(p, JINJA_TOKEN_COLON)) break;
    }
    if (part == 0 && !parts[0]) jinja_unexpected(p, NULL);
    if (part == 0) return parts[0];
    JinjaNode *slice = jinja_node(p, JINJA_NODE_SLICE);
    for (size_t i = 0; i < 3; i++) vec_push(p->arena, &slice->list, parts[i]);
    return slice;
}

static JinjaNode *parse_item(JinjaParser *p, JinjaNode *of) {
    JinjaNode *node = node_on(p, JINJA_NODE_ITEM, of, NULL), *tuple = NULL;
    p->token++;
    do {
        JinjaNode *index = parse_index(p);
        if (!index) return NULL;
        if (node->b && !tuple) {
            tuple = jinja_node(p, JINJA_NODE_TUPLE);
            vec_push(p->arena, &tuple->list, node->b);
        }
        if (tuple) vec_push(p->arena, &tuple->list, index);
        node->b = tuple ? tuple : index;
    } while (jinja_skip(p, JINJA_TOKEN_COMMA));
    if (!jinja_expect(p, JINJA_TOKEN_RIGHT_BRACKET)) return NULL;
    if (tuple) {
        for (size_t i = 0; i < tuple->list.len; i++)
            if (tuple->list.at[i]->kind == JINJA_NODE_SLICE) {
                jinja_parse_error(p, "a slice inside a tuple of indices");
                return NULL;
            }
        return node;
    }
    if (node->b->kind != JINJA_NODE_SLICE) return node;
    node->b->a = of;
    return node->b;
}

static JinjaNode *parse_argument(JinjaParser *p, bool *is_keyword) {
    JinjaNodeKind kind = JINJA_NODE_OPERAND;
    const JinjaString *name = NULL;
    if (jinja_skip(p, JINJA_TOKEN_MULTIPLY)) kind = JINJA_NODE_STAR;
    else if (jinja_skip(p, JINJA_TOKEN_POWER)) kind = JINJA_NODE_DOUBLE_STAR;
    else if (p->token->kind == JINJA_TOKEN_WORD && p->token[1].kind == JINJA_TOKEN_ASSIGN) {
        kind = JINJA_NODE_KEYWORD;
        name = jinja_intern(p, p->token->text);
        p->token += 2;
    }
    bool comes_late = *is_keyword && (kind == JINJA_NODE_OPERAND || kind == JINJA_NODE_STAR);
    if (comes_late) {
        jinja_parse_error(p, "invalid syntax for function call expression");
        return NULL;
    }
    *is_keyword |= kind == JINJA_NODE_KEYWORD || kind == JINJA_NODE_DOUBLE_STAR;
    JinjaNode *value = jinja_parse_expression(p);
    if (!value || kind == JINJA_NODE_OPERAND) return value;
    JinjaNode *node = node_on(p, kind, value, NULL);
    node->name = name;
    return node;
}

// At "(": the arguments into node->list.
static bool parse_arguments(JinjaParser *p, JinjaNode *node) {
    bool is_keyword = false;
    p->token++;
    while (p->token->kind != JINJA_TOKEN_RIGHT_PAREN) {
        if (node->list.len > 0) TRY(jinja_expect(p, JINJA_TOKEN_COMMA));
        if (node->list.len > 0 && p->token->kind == JINJA_TOKEN_RIGHT_PAREN) break;
        JinjaNode *argument = parse_argument(p, &is_keyword);
        if (!argument) return false;
        vec_push(p->arena, &node->list, argument);
    }
    p->token++;
    return true;
}

JinjaNode *jinja_parse_postfix_call(JinjaParser *p, JinjaNode *callee) {
    JinjaNode *call = node_on(p, JINJA_NODE_CALL, callee, NULL);
    return parse_arguments(p, call) ? call : NULL;
}

static JinjaNode *parse_postfix(JinjaParser *p, JinjaNode *node) {
    while (node) {
        if (p->token->kind == JINJA_TOKEN_DOT) node = parse_attribute(p, node);
        else if (p->token->kind == JINJA_TOKEN_LEFT_BRACKET) node = parse_item(p, node);
        else if (p->token->kind == JINJA_TOKEN_LEFT_PAREN) node = jinja_parse_postfix_call(p, node);
        else break;
    }
    return node;
}

// ---- filters and tests ----

// A filter's or test's name may hold dots.
static const JinjaString *parse_dotted_name(JinjaParser *p) {
    const JinjaString *name = jinja_expect_name(p);
    while (name && p->token->kind == JINJA_TOKEN_DOT) {
        p->token++;
        const JinjaString *rest = jinja_expect_name(p);
        if (!rest) return NULL;
        TextBuilder b = builder(p->arena);
        builder_printf(&b, "%.*s.%.*s", (int)name->len, name->at, (int)rest->len, rest->at);
        name = jinja_intern(p, builder_view(&b));
    }
    return name;
}

static JinjaNode *parse_filter(JinjaParser *p, JinjaNode *subject) {
    JinjaNode *node = node_on(p, JINJA_NODE_FILTER, subject, NULL);
    if (!(node->name = parse_dotted_name(p))) return NULL;
    node->row = jinja_find_filter((Text){node->name->at, node->name->len});
    if (p->token->kind == JINJA_TOKEN_LEFT_PAREN && !parse_arguments(p, node)) return NULL;
    return node;
}

static bool starts_test_argument(const JinjaParser *p) {
    switch (p->token->kind) {
    case JINJA_TOKEN_WORD:
        return !jinja_at_word(p, "else") && !jinja_at_word(p, "or") && !jinja_at_word(p, "and");
    case JINJA_TOKEN_TEXT:
    case JINJA_TOKEN_WHOLE:
    case JINJA_TOKEN_REAL:
    case JINJA_TOKEN_LEFT_BRACKET:
    case JINJA_TOKEN_LEFT_BRACE: return true;
    default: return false;
    }
}

static JinjaNode *parse_test(JinjaParser *p, JinjaNode *subject) {
    bool is_negated = jinja_skip_word(p, "not");
    JinjaNode *node = node_on(p, JINJA_NODE_TEST, subject, NULL);
    if (!(node->name = parse_dotted_name(p))) return NULL;
    node->row = jinja_find_test((Text){node->name->at, node->name->len});
    if (p->token->kind == JINJA_TOKEN_LEFT_PAREN) {
        if (!parse_arguments(p, node)) return NULL;
    } else if (starts_test_argument(p)) {
        if (jinja_at_word(p, "is")) {
            jinja_parse_error(p, "You cannot chain multiple tests with is");
            return NULL;
        }
        JinjaNode *argument = parse_primary(p);
        if (argument) argument = parse_postfix(p, argument);
        if (!argument) return NULL;
        vec_push(p->arena, &node->list, argument);
    }
    return is_negated ? node_on(p, JINJA_NODE_NOT, node, NULL) : node;
}

// is_started: the first filter's name is next, without a pipe (a filter block).
JinjaNode *jinja_parse_filters(JinjaParser *p, JinjaNode *node, bool is_started) {
    while (node) {
        if (is_started || p->token->kind == JINJA_TOKEN_PIPE) {
            p->token += !is_started;
            is_started = false;
            node = parse_filter(p, node);
        } else if (jinja_at_word(p, "is")) {
            p->token++;
            node = parse_test(p, node);
        } else if (p->token->kind == JINJA_TOKEN_LEFT_PAREN) {
            node = jinja_parse_postfix_call(p, node);
        } else {
            break;
        }
    }
    return node;
}

// ---- targets ----

static JinjaNode *parse_target_name(JinjaParser *p, bool with_attribute) {
    static const char *const reserved[] = {"true", "True", "false", "False", "none", "None"};
    JinjaNode *node = jinja_node(p, JINJA_NODE_NAME);
    if (!(node->name = jinja_expect_name(p))) return NULL;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (text_is((Text){node->name->at, node->name->len}, reserved[i])) {
            jinja_parse_error(p, "can't assign to '%s'", reserved[i]);
            return NULL;
        }
    if (!with_attribute || !jinja_skip(p, JINJA_TOKEN_DOT)) return node;
    JinjaNode *attribute = node_on(p, JINJA_NODE_ATTRIBUTE, node, NULL);
    attribute->name = jinja_expect_name(p);
    return attribute->name ? attribute : NULL;
}

// "a", "a, b", "(a, b), c", and with attributes "ns.x".
JinjaNode *jinja_parse_target(JinjaParser *p, bool with_attribute) {
    JinjaNode *tuple = NULL, *item = NULL;
    bool is_good = jinja_nest(p);
    while (is_good) {
        if (jinja_skip(p, JINJA_TOKEN_LEFT_PAREN)) {
            item = jinja_parse_target(p, with_attribute);
            is_good = item && jinja_expect(p, JINJA_TOKEN_RIGHT_PAREN);
        } else {
            item = parse_target_name(p, with_attribute);
            is_good = item != NULL;
        }
        if (!is_good || (!tuple && p->token->kind != JINJA_TOKEN_COMMA)) break;
        if (!tuple) tuple = jinja_node(p, JINJA_NODE_TUPLE);
        vec_push(p->arena, &tuple->list, item);
        if (!jinja_skip(p, JINJA_TOKEN_COMMA)) break;
        if (at_tuple_end(p, "in") || p->token->kind == JINJA_TOKEN_ASSIGN) break;
    }
    p->depth--;
    return !is_good ? NULL : tuple ? tuple : item;
}

// jinja_ast: tokens and nodes of a template (inside the engine only).
// In: source text. Out: tokens (jinja_lexer), then a tree of nodes (jinja_parser for tags,
// jinja_expression for what stands in them), which jinja_eval and jinja_execute walk.
// Invariant: nodes never change after parsing; names are interned, so equal names are equal
// pointers.
// Example: "{{ a.b }}" → PRINT(a = ATTRIBUTE(a = NAME a, name = "b")).
#pragma once
#include "text/jinja_value.h"

// TOKEN(name, how it reads in a message)
#define JINJA_TOKENS(TOKEN) \
    TOKEN(END, "end of template") \
    TOKEN(DATA, "template data") \
    TOKEN(PRINT_BEGIN, "begin of print statement") TOKEN(PRINT_END, "end of print statement") \
    TOKEN(BLOCK_BEGIN, "begin of statement block") TOKEN(BLOCK_END, "end of statement block") \
    TOKEN(WORD, "name") TOKEN(TEXT, "string") TOKEN(WHOLE, "integer") TOKEN(REAL, "float") \
    JINJA_OPERATORS(TOKEN)

// Longest first: the lexer takes the first that fits.
#define JINJA_OPERATORS(TOKEN) \
    TOKEN(POWER, "**") TOKEN(FLOOR_DIVIDE, "//") TOKEN(EQUAL, "==") TOKEN(NOT_EQUAL, "!=") \
    TOKEN(LESS_EQUAL, "<=") TOKEN(GREATER_EQUAL, ">=") TOKEN(LESS, "<") TOKEN(GREATER, ">") \
    TOKEN(ADD, "+") TOKEN(SUBTRACT, "-") TOKEN(MULTIPLY, "*") TOKEN(DIVIDE, "/") \
    TOKEN(MODULO, "%") TOKEN(TILDE, "~") TOKEN(LEFT_BRACKET, "[") TOKEN(RIGHT_BRACKET, "]") \
    TOKEN(LEFT_PAREN, "(") \
    TOKEN(RIGHT_PAREN, ")") TOKEN(LEFT_BRACE, "{") TOKEN(RIGHT_BRACE, "}") TOKEN(ASSIGN, "=") \
    TOKEN(DOT, ".") TOKEN(COLON, ":") TOKEN(PIPE, "|") TOKEN(COMMA, ",") TOKEN(SEMICOLON, ";")

typedef enum JinjaTokenKind {
#define TOKEN(name, text) JINJA_TOKEN_##name,
    JINJA_TOKENS(TOKEN)
#undef TOKEN
    JINJA_TOKEN_IN, JINJA_TOKEN_NOT_IN     // comparisons made of words
} JinjaTokenKind;

typedef struct JinjaToken {
    JinjaTokenKind kind;
    int line;
    Text text;                 // DATA, WORD, TEXT (escapes resolved)
    int64_t whole;
    double real;
} JinjaToken;

// NODE(name): expressions have a JinjaEvaluator of that name in lower case, statements a
// JinjaExecutor. Fields that a node uses stand behind it.
#define JINJA_EXPRESSIONS(NODE) \
    NODE(CONSTANT, constant)       /* value */ \
    NODE(NAME, name)               /* name */ \
    NODE(LIST, list)               /* list */ \
    NODE(TUPLE, tuple)             /* list */ \
    NODE(DICT, dict)               /* list: key, value, key, value ... */ \
    NODE(CONDITION, condition)     /* a if b else c (c may be NULL) */ \
    NODE(OR, or)                   /* a b */ \
    NODE(AND, and)                 /* a b */ \
    NODE(NOT, not)                 /* a */ \
    NODE(COMPARE, compare)         /* a, list: operands, each with its op */ \
    NODE(OPERAND, operand)         /* op, a */ \
    NODE(UNARY, unary)             /* op, a */ \
    NODE(BINARY, binary)           /* op, a b */ \
    NODE(CONCAT, concat)           /* list */ \
    NODE(ATTRIBUTE, attribute)     /* a.name */ \
    NODE(ITEM, item)               /* a[b] */ \
    NODE(SLICE, slice)             /* a[list[0]:list[1]:list[2]] (each may be NULL) */ \
    NODE(CALL, call)               /* a(list) */ \
    NODE(FILTER, filter)           /* a | row(list); name where row is NULL */ \
    NODE(TEST, test)               /* a is row(list) */ \
    NODE(CAPTURED, captured)       /* the text of the filter block or set block around */ \
    NODE(KEYWORD, operand)         /* in an argument list: name=a */ \
    NODE(STAR, operand)            /* in an argument list: *a */ \
    NODE(DOUBLE_STAR, operand)     /* in an argument list: **a */

#define JINJA_STATEMENTS(NODE) \
    NODE(DATA, data)               /* value */ \
    NODE(PRINT, print)             /* a */ \
    NODE(FOR, for)                 /* for a in b if c: body, else other; is_recursive */ \
    NODE(IF, if)                   /* list: BRANCH nodes, tried in order */ \
    NODE(BRANCH, branch)           /* if a (NULL: else): body */ \
    NODE(SET, set)                 /* a = b */ \
    NODE(SET_BLOCK, set_block)     /* a = body through the filters b (or NULL) */ \
    NODE(MACRO, macro)             /* name, list: PARAMETER nodes, body */ \
    NODE(PARAMETER, branch)        /* name, a: default or NULL */ \
    NODE(CALL_BLOCK, call_block)   /* a: the call, b: its MACRO */ \
    NODE(FILTER_BLOCK, filter_block) /* body through the filters a */ \
    NODE(WITH, with)               /* list: target, value, target, value ..., body */ \
    NODE(SCOPE, scope)             /* body (block, generation) */ \
    NODE(BREAK, break) \
    NODE(CONTINUE, continue)

typedef enum JinjaNodeKind {
#define NODE(name, function) JINJA_NODE_##name,
    JINJA_EXPRESSIONS(NODE)
    JINJA_STATEMENTS(NODE)
#undef NODE
    JINJA_NODE_COUNT
} JinjaNodeKind;

typedef struct JinjaNodes { JinjaNode **at; size_t len, cap; } JinjaNodes;

struct JinjaNode {
    JinjaNodeKind kind;
    int line;
    JinjaTokenKind op;
    bool is_recursive;
    bool uses_caller, uses_varargs, uses_kwargs;   // MACRO
    const JinjaString *name;       // interned
    JinjaNode *a, *b, *c;
    JinjaNodes list, body, other;
    JinjaValue value;
    const JinjaBuiltinRow *row;
};

struct JinjaTemplate {
    Arena *arena;
    JinjaNodes body;
    Map names;                     // every name → its one JinjaString
    Map variables;                 // those that stand for a value, not an attribute or a filter
};

typedef struct JinjaParser {
    Arena *arena;
    Error *err;
    const JinjaToken *token;       // the current one; the last of all is END and is never passed
    Map *names, *variables;        // the template's
    int depth;                     // of nested expressions and blocks
    int loop_depth;                // break and continue need a loop around them
    JinjaNode *macro;              // innermost macro being parsed
} JinjaParser;

enum { JINJA_MAX_NESTING = 200 };
enum { JINJA_MAX_SOURCE = 16 << 20 };

const char *jinja_token_name(JinjaTokenKind kind);
bool jinja_tokenize(Arena *arena, Text source, JinjaToken **out, Error *err) MUST_CHECK;

// ---- shared by the two halves of the parser; each returns NULL (or false) with *p->err set ----
bool jinja_parse_error(JinjaParser *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool jinja_unexpected(JinjaParser *p, const char *wanted);
bool jinja_skip(JinjaParser *p, JinjaTokenKind kind);                  // true where it was there
bool jinja_expect(JinjaParser *p, JinjaTokenKind kind);
bool jinja_at_word(const JinjaParser *p, const char *word);
bool jinja_skip_word(JinjaParser *p, const char *word);
bool jinja_nest(JinjaParser *p);                                       // pair with p->depth--
JinjaNode *jinja_node(JinjaParser *p, JinjaNodeKind kind);
const JinjaString *jinja_intern(JinjaParser *p, Text name);
const JinjaString *jinja_expect_name(JinjaParser *p);

JinjaNode *jinja_parse_expression(JinjaParser *p);                     // with "a if b else c"
JinjaNode *jinja_parse_or(JinjaParser *p);                             // without
JinjaNode *jinja_parse_tuple(JinjaParser *p, bool with_condition, const char *end_word);
JinjaNode *jinja_parse_postfix_call(JinjaParser *p, JinjaNode *callee);
JinjaNode *jinja_parse_filters(JinjaParser *p, JinjaNode *subject, bool is_started);
// what set, for and with assign to
JinjaNode *jinja_parse_target(JinjaParser *p, bool with_attribute);

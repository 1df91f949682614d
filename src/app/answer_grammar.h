// answer_grammar: what an answer must look like, from response_format and its relatives, tools and tool_choice.
// In: a request's JSON. Out: a grammar, or a refusal (400) that names the path of what cannot be held to.
// Invariant: what was asked for is held to or refused; there is no third way. Where the model thinks first, its thinking is
// free, and the grammar begins behind it.
// Example: {"type": "json_schema", "json_schema": {"schema": {"type": "integer"}}} → "42"
#pragma once
#include "app/http.h"
#include "app/server.h"
#include "text/grammar.h"

typedef struct AnswerGrammar {
    Grammar *grammar;
    GrammarNode root;                    // negative: anything goes
} AnswerGrammar;

typedef struct AnswerForm {
    const json_t *response_format;       // OpenAI's, or NULL
    const char *format_name;             // what the request calls it; NULL: response_format
    const json_t *json_schema;           // a schema on its own, or NULL
    const json_t *regex;                 // a pattern that the whole answer fits, or NULL
    const json_t *gbnf;                  // a grammar in text, or NULL; an empty one asks for nothing
    const json_t *tools, *tool_choice;   // as in ChatRequest; tools NULL: none are in force
    const char *tool_schema;             // where a tool of the request has its schema, for errors
    bool is_single;                      // at most one call
    bool thinks_first, may_think;        // the prompt opened the thinking; the answer may begin with it
} AnswerForm;

// Sets the reply and returns false where it is refused.
bool answer_grammar_make(Exchange *x, const AnswerForm *form, AnswerGrammar *out) MUST_CHECK;

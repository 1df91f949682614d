// jinja_eval: walking the tree (inside the engine only).
// In: nodes and a JinjaRun. Out: values from expressions, text on run->out from statements.
// Invariant: every node costs a step and a level, so a walk ends.
// Example: FOR over [1, 2] opens a scope for each item; what is set in it is gone at the next.
#pragma once
#include "text/jinja_ast.h"

typedef struct JinjaVariable { const JinjaString *name; JinjaValue value; } JinjaVariable;
struct JinjaScope { JinjaScope *parent; JinjaVariable *at; size_t len, cap; };

struct JinjaMacro { const JinjaNode *node; JinjaScope *scope; };
struct JinjaLoop {
    JinjaList *items;
    size_t index0;
    int64_t depth0;
    const JinjaNode *node;         // for loop(...) of a recursive loop
    JinjaScope *scope;             // around the loop
    JinjaValue last_seen;          // of loop.changed
};

typedef enum JinjaFlow { JINJA_NEXT, JINJA_BREAK, JINJA_CONTINUE, JINJA_ERROR } JinjaFlow;

JinjaScope *jinja_scope_push(JinjaRun *run, JinjaScope *parent);
void jinja_scope_set(JinjaRun *run, JinjaScope *scope, const JinjaString *name, JinjaValue value);
void jinja_scope_set_named(JinjaRun *run, JinjaScope *scope, const char *name, JinjaValue value);

bool jinja_eval(JinjaRun *run, const JinjaNode *node, JinjaValue *out);
JinjaFlow jinja_execute(JinjaRun *run, const JinjaNodes *nodes);
bool jinja_eval_args(JinjaRun *run, const JinjaNodes *nodes, JinjaArgs *out);
bool jinja_call_macro(JinjaRun *run, const JinjaMacro *macro, const JinjaArgs *args,
                      JinjaValue *out);
bool jinja_call_loop(JinjaRun *run, const JinjaLoop *loop, const JinjaArgs *args, JinjaValue *out);

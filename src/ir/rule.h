// rule: rewrite rules as text rows, parsed once at first use.
// In: rows RULE(name, "pattern", "result", "guard") and RULE_DO(name, "pattern", c_function) from
// .def files.
// Out: a RuleSet whose rows the rewriter, the e-graph, the tests and the statistics share.
// Example: RULE(mod_drop, "(x*c0 + y) % c1", "y % c1", "c1 > 0 && c0 % c1 == 0 && fits(x*c0 + y)")
//
// Pattern   infix ops and names of ops.def with Python's precedence; letters (x, y, p, …): any node;
//           c0 … c9: a constant, CONST or VCONST with equal lanes; the same name twice is the same
//           node. x:class restricts the dtype: int (the default: signed and unsigned but u64),
//           sint, uint, bool, logic (int or bool), index (i32, i64), float, number (int or float),
//           any, or a dtype's name. A row holds for integers unless it says otherwise; `x:any`
//           promises bit-equal results on floats too. Literals 0 -1 2.5 true false match constants
//           of that value; cast[i32](x), cast(x); @unary(x) @binary(x, y) @ternary(x, y, z)
//           @compare(x, y) @comm(x, y): any op of that kind (one a row); `...` last among
//           arguments: any further sources. Ops with the COMM trait match in both orders.
// Result    the same; literals and {…} (an expression on constants, computed by eval) take the
//           dtype that their place needs; @kind builds the op that matched; the first `...` repeats
//           the sources that the first `...` of the pattern matched, and so on.
// Guard     a condition on constants: || && ! == != < <= > >= + - * // %, numbers in 128 bits, cut
//           to 64; lo(e) hi(e): bounds of an expression of variables; fits(e): no step of e can
//           leave the dtype of its first variable; fits[i32](e): can leave i32; bits(x) of its
//           dtype; gcd(a, b); is_pow2(c0); and the set's predicates, which get nodes.
// RULE_GROWS rows may make terms bigger or undo another row: the greedy rewriter skips them, the
// e-graph does not.
#pragma once
#include "base/error.h"
#include "ir/bounds.h"
#include "ir/eval.h"
#include "ir/uop.h"

enum { RULE_VARS = 26, RULE_CONSTANTS = 10, RULE_RESTS = 4 };

typedef struct Match {
    UOp *root;
    UOp *var[RULE_VARS];              // by letter: var['x' - 'a']; set where the bit of `bound` is
    UOp *constant[RULE_CONSTANTS];    // c0 … c9 as nodes
    Number value[RULE_CONSTANTS];     // and as numbers
    UOp *const *rest[RULE_RESTS];     // what each `...` of the pattern took, in order of writing
    int n_rest[RULE_RESTS];
    UOp *family;                      // the node that @kind matched
    const Bounds *known;              // NULL, or by letter: bounds that are better than the node's
    uint32_t bound, bound_constants;
} Match;

typedef struct RewriteContext {
    Graph *graph;
    const char *pass;
    void *user;                       // whatever the caller of rewrite_with handed over
} RewriteContext;

// The right side in C. Returns a node equal to match->root, or NULL where the rule does not apply
// after all (then the next way to match, and the next rows, are tried).
typedef UOp *(*RuleAction)(RewriteContext *ctx, Match *match);

typedef struct RuleRow {
    const char *name, *pattern, *result, *guard, *file;
    int line;
    bool grows;
    RuleAction action;
} RuleRow;
#define RULE(name, pattern, result, guard) \
    {#name, pattern, result, guard, __FILE__, __LINE__, false, NULL},
#define RULE_GROWS(name, pattern, result, guard) \
    {#name, pattern, result, guard, __FILE__, __LINE__, true, NULL},
#define RULE_DO(name, pattern, function) \
    {#name, pattern, NULL, "", __FILE__, __LINE__, false, function},

// A condition that guards may call by name; args are the nodes bound to its arguments (variables or
// constants).
typedef struct RulePredicate {
    const char *name;
    int n_args;
    bool (*test)(UOp *const *args);
} RulePredicate;

// A named array of rows. Make one with RULE_SET below; its rows are parsed at first use, a wrong
// row is a BUG.
typedef struct RuleTable RuleTable;
typedef struct RuleSet {
    const char *name;
    const RuleRow *rows;
    int n_rows;
    const RulePredicate *predicates;
    int n_predicates;
    _Atomic(RuleTable *) *table;
} RuleSet;
// RULE_SET(variable, "name", rows_array); RULE_SET_WITH adds an array of predicates.
#define RULE_SET(variable, text, row_array) \
    static _Atomic(RuleTable *) variable##_table; \
    const RuleSet variable = {text, row_array, (int)(sizeof row_array / sizeof *row_array), \
                              NULL, 0,         &variable##_table}
#define RULE_SET_WITH(variable, text, row_array, predicate_array) \
    static _Atomic(RuleTable *) variable##_table; \
    const RuleSet variable = {text, \
                              row_array, \
                              (int)(sizeof row_array / sizeof *row_array), \
                              predicate_array, \
                              (int)(sizeof predicate_array / sizeof *predicate_array), \
                              &variable##_table}

extern const RuleSet rules_algebra;   // EXACT: bit-equal on every input (rules/algebra.def)
extern const RuleSet rules_index;     // EXACT: index arithmetic (rules/index.def)
extern const RuleSet rules_real;      // REAL: equal over the reals (rules/real.def)

// Parses every row. An error reads: rules/index.def:41: rule "div_div": unknown name "c3".
bool ruleset_check(const RuleSet *set, Error *err) MUST_CHECK;

// How often a row was tried and how often it fired, in this process.
typedef struct RuleCount { uint64_t tries, hits; } RuleCount;
RuleCount ruleset_count(const RuleSet *set, int row);
void ruleset_count_add(const RuleSet *set, int row, RuleCount more);

// ---------------------------------------------------------------- parsed form, for rewriter,
// e-graph and tests

typedef enum TermKind {
    TERM_VAR,   // slot: letter
    TERM_CONSTANT,   // slot: digit
    TERM_LITERAL,   // number; is_float
    TERM_OP,   // op, src; for CAST and BITCAST dtype (DT_VOID: the result's)
    TERM_FAMILY,   // slot: family
    TERM_COMPUTED,   // src[0]: an expression on constants
    TERM_CALL,   // guards: slot: row of the function table, or -1 - row of the set's predicates
    TERM_AND,
    TERM_OR,
    TERM_NOT,
    TERM_LE,   // guards: src[0] ≤ src[1]
} TermKind;
enum { TERM_SRC = 4 };
typedef struct RuleTerm RuleTerm;
struct RuleTerm {
    uint8_t kind, op, dtype, n_src;
    int8_t slot;
    int8_t rest;              // number of the `...` behind the sources, or -1
    bool is_float;            // of a literal: written with a point
    uint32_t dtypes;          // of variables, constants: bit d is set where dtype d is allowed
    int64_t i;
    double f;
    const RuleTerm *src[TERM_SRC];
};

typedef struct Rule {
    const RuleRow *row;
    const RuleSet *set;
    const RuleTerm *pattern, *result, *guard;   // result NULL: action; guard NULL: always
    uint64_t child_ops;       // ops (bit op mod 64) that must occur among the root's sources
    int index;                // of the row in its set
} Rule;

struct RuleTable {
    Rule *rules;
    int n_rules;
    const Rule *
        *by_op[OP_COUNT];   // rows whose root may be this op, in order, without those that grow
    int n_by_op[OP_COUNT];
    struct RuleCounter *counters;
};

const RuleTable *ruleset_table(const RuleSet *set);
bool family_has(int family, Op op);
// Bits (op mod 64) of the ops among the sources, as Rule.child_ops needs them.
uint64_t rule_child_ops(const UOp *u);
// The value of a CONST, or of a VCONST whose lanes are equal.
bool rule_constant(const UOp *u, Number *value);
bool term_literal_matches(const RuleTerm *literal, DType dtype, Number value);
// A constant of the type, lanes and shape of `like`; NULL where that shape is not [].
UOp *rule_make_constant(const UOp *like, DType dtype, Number value);

// Tries one rule at one node: the new node, or NULL. Where it can match in several ways, the first
// whose guard holds (and whose action gives a node) counts.
UOp *rule_apply(const Rule *rule, RewriteContext *ctx, UOp *u);
// Guard and right side on a finished match (what the e-graph calls). Text rows only for rule_build.
bool rule_guard(const Rule *rule, const Match *match);
UOp *rule_build(const Rule *rule, const Match *match);
// One term as nodes, with the match's bindings; where the term itself does not tell, dtype and
// lanes are those of `like`. NULL where a constant would need a shape.
UOp *rule_term(const RuleTerm *term, const Match *match, const UOp *like);

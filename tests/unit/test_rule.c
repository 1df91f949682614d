// test_rule: the language of rules (parsing, errors, matching, building), and every line of
// tests/rules/*.case.
#include "rules/cases.h"

#include "rules/with_cmocka.h"

// ---------------------------------------------------------------- parsing

static void expect_problem(const char *pattern, const char *result, const char *guard,
                           const char *part) {
    Arena *arena = arena_create();
    RuleRow row = {"odd", pattern, result, guard, "rules/x.def", 41, false, NULL};
    Rule rule;
    Error err = {0};
    assert_false(rule_parse(arena, &rules_algebra, &row, &rule, &err));
    if (!strstr(err.text, part) || strncmp(err.text, "rules/x.def:41: rule \"odd\": ", 28))
        fail_msg("\"%s\" => \"%s\" when \"%s\" gives \"%s\", not \"%s\"", pattern, result, guard,
                 err.text, part);
    arena_destroy(arena);
}

static void test_errors(void **state) {
    (void)state;
    expect_problem("(x // c0) // c1", "x // {c0*c3}", "", "result: unknown name \"c3\"");
    expect_problem("x + 0", "y", "", "unknown name \"y\"");
    expect_problem("x + 0", "x", "c0 > 0", "guard: unknown name \"c0\"");
    expect_problem("x + 0", "x", "c0 >", "unknown name \"c0\"");
    expect_problem("x + c0", "x", "c0 >", "unexpected");
    expect_problem("x +", "x", "", "unexpected");
    expect_problem("frob(x)", "x", "", "unknown function \"frob\"");
    expect_problem("max(x)", "x", "", "wrong number of arguments for \"max\"");
    expect_problem("max(x, y, z)", "x", "", "wrong number of arguments for \"max\"");
    expect_problem("x:quux + 1", "x", "", "unknown class \"quux\"");
    expect_problem("x:int + x:float", "x", "", "a second class");
    expect_problem("x", "x", "", "starts with an op");
    expect_problem("x + {c0}", "x", "", "{} only on the right");
    expect_problem("x + c0", "{c0 + x}", "", "a node inside {}");
    expect_problem("x + c0", "{c0", "", "expected }");
    expect_problem("(x + c0", "x", "", "expected )");
    expect_problem("x + c0 c1", "x", "", "unexpected \"c1\"");
    expect_problem("x <= c0", "x", "", "only guards know \"<=\"");
    expect_problem("x + c0", "x", "lo(x", "expected , or )");
    expect_problem("x + c0", "x", "lo(x, y)", "unknown name");
    expect_problem("x + c0", "x", "lo(x, x)", "wrong number of arguments for \"lo\"");
    expect_problem("x + c0", "range(x)", "", "use RULE_DO");
    expect_problem("@unary(@binary(x, y))", "x", "", "one @kind a row");
    expect_problem("@frob(x)", "x", "", "unknown kind of op");
    expect_problem("sink(..., x)", "x", "", "... is not last");
    expect_problem("sink(x, ...)", "sink(x, ..., ...)", "", "... is not last");
    expect_problem("x + 1", "sink(x, ...)", "", "one ... too many");
    expect_problem("cast[i77](x)", "x", "", "expected [dtype]");
    expect_problem("max[i32](x, y)", "x", "", "[dtype] is not for");
    expect_problem("((((((((((((((((((((((((((((((((((((((((((((((((((((x+1", "x", "",
                   "nested too deep");
    expect_problem("x + 1", "------------------------------------------------------------x", "",
                   "nested too deep");
}

// Damaged rows: an error or a rule, never a crash.
static void test_damaged_rows(void **state) {
    (void)state;
    const RuleSet *sets[] = {&rules_algebra, &rules_index, &rules_real};
    Random r = {5};
    int refused = 0;
    for (int t = 0; t < 20000; t++) {
        Arena *arena = arena_create();
        const RuleSet *set = sets[random_below(&r, 3)];
        RuleRow row = set->rows[random_below(&r, set->n_rows)];
        const char **part = random_below(&r, 2) || !row.result ? &row.pattern : &row.result;
        size_t n = strlen(*part);
        char *text = arena_copy(arena, *part, n + 1);
        static const char signs[] = "()[]{}@.,+-*/%<>=!&|:cxy019 ";
        for (int k = 0; k < 2 && n; k++)
            text[random_below(&r, (int)n)] = signs[random_below(&r, (int)sizeof signs - 1)];
        *part = text;
        Rule rule;
        Error err;
        refused += !rule_parse(arena, set, &row, &rule, &err);
        arena_destroy(arena);
    }
    printf("%d of 20000 damaged rows refused\n", refused);
    assert_true(refused > 5000);
}

static void test_sets_parse(void **state) {
    (void)state;
    const RuleSet *sets[] = {&rules_algebra, &rules_index, &rules_real};
    for (int s = 0; s < 3; s++) {
        Error err;
        if (!ruleset_check(sets[s], &err)) fail_msg("%s", err.text);
        printf("set %s: %d rows\n", sets[s]->name, sets[s]->n_rows);
        for (int i = 0; i < sets[s]->n_rows; i++)
            for (int k = 0; k < i; k++)
                assert_string_not_equal(sets[s]->rows[i].name, sets[s]->rows[k].name);
    }
}

// ---------------------------------------------------------------- matching

static UOp *drop_stores(RewriteContext *ctx, Match *m) {
    (void)ctx;
    assert_int_equal(m->n_rest[0], 2);
    assert_int_equal(m->n_rest[1], 1);
    return m->var['x' - 'a'];
}

static bool is_even(UOp *const *args) { return args[0]->arg[0] % 2 == 0; }
static const RulePredicate predicates[] = {{"is_even", 1, is_even}};

static const RuleRow language_rows[] = {
    RULE(commutes, "x*c0 + y", "y - x", "c0 > 5") RULE(literal, "max(x:any, 2)", "x", "")
        RULE(half, "max(x:float, 0.5)", "x", "") RULE(same, "min(x:any, x)", "x", "")
            RULE(family, "@unary(where(p:bool, x:any, y:any))", "where(p, @unary(x), @unary(y))",
                 "") RULE(typed, "cast[i64](x:i8)", "cast[i64](cast[i16](x))",
                          "") RULE(predicate, "x ^ c0", "x & c0", "is_even(c0)")
                RULE_DO(rests, "after(after(x:any, ...), ...)",
                        drop_stores) RULE(rest_again, "sink(x:any, ...)", "sink(...)", "")
                    RULE(bounds, "x // c0", "0", "lo(x) >= 0 && hi(x + 1) <= c0 && !(c0 == 100)")
                        RULE(computed, "x % c0", "x - {max(c0, 3)*2 // 4}", "c0 != 0 || c0 == 7")
                            RULE(shift, "(x << c0) << c1", "x << {c0 + c1}", "")};
RULE_SET_WITH(language, "language", language_rows, predicates);

static UOp *apply(UOp *u) {
    return rewrite(u, (const RuleSet *[]){&language}, 1, "language", NULL);
}

static void test_matching(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = variable(g, DT_I32, 0, 0, 9), *y = variable(g, DT_I32, 1, 0, 99),
        *f = variable(g, DT_F32, 2, 0, 0);
    UOp *seven = uop_int(g, DT_I32, 7), *p = variable(g, DT_BOOL, 3, 0, 1);
#define BIN(op, a, b) uop_binary(OP_##op, a, b)
    assert_ptr_equal(apply(BIN(ADD, BIN(MUL, x, seven), y)), BIN(SUB, y, x));
    assert_ptr_equal(apply(BIN(ADD, y, BIN(MUL, seven, x))), BIN(SUB, y, x));
    UOp *three = BIN(ADD, BIN(MUL, x, uop_int(g, DT_I32, 3)), y);
    assert_ptr_equal(apply(three), three);
    // The guard fails on the first way to match, the second way is tried.
    UOp *both = BIN(ADD, BIN(MUL, x, uop_int(g, DT_I32, 3)), BIN(MUL, y, seven));
    assert_ptr_equal(apply(both), BIN(SUB, BIN(MUL, x, uop_int(g, DT_I32, 3)), y));
    assert_ptr_equal(apply(BIN(MAX, x, uop_int(g, DT_I32, 2))), x);
    assert_ptr_equal(apply(BIN(MAX, f, uop_float(g, DT_F32, 2))), f);
    assert_ptr_equal(apply(BIN(MAX, f, uop_float(g, DT_F32, 0.5))), f);
    UOp *other = BIN(MAX, f, uop_float(g, DT_F32, 0.25));
    assert_ptr_equal(apply(other), other);
    assert_ptr_equal(apply(BIN(MIN, f, f)), f);
    assert_ptr_equal(apply(BIN(MIN, x, y)), BIN(MIN, x, y));
    assert_ptr_equal(apply(uop_unary(OP_SQRT, uop_where(p, f, other))),
                     uop_where(p, uop_unary(OP_SQRT, f), uop_unary(OP_SQRT, other)));
    UOp *small = variable(g, DT_I8, 4, 0, 0);
    assert_ptr_equal(apply(uop_cast(small, DT_I64)), uop_cast(uop_cast(small, DT_I16), DT_I64));
    assert_ptr_equal(apply(uop_cast(small, DT_I32)), uop_cast(small, DT_I32));
    assert_ptr_equal(apply(BIN(XOR, x, uop_int(g, DT_I32, 6))), BIN(AND, x, uop_int(g, DT_I32, 6)));
    assert_ptr_equal(apply(BIN(XOR, x, seven)), BIN(XOR, x, seven));
    UOp *inner = uop_after(x, (UOp *[]){x, y}, 2);
    assert_ptr_equal(apply(uop_after(inner, &p, 1)), x);
    assert_ptr_equal(apply(uop_sink(g, (UOp *[]){x, y, p}, 3)), uop_sink(g, NULL, 0));
    assert_ptr_equal(apply(BIN(IDIV, x, uop_int(g, DT_I32, 10))), uop_int(g, DT_I32, 0));
    assert_ptr_equal(apply(BIN(IDIV, x, uop_int(g, DT_I32, 9))),
                     BIN(IDIV, x, uop_int(g, DT_I32, 9)));
    assert_ptr_equal(apply(BIN(IDIV, x, uop_int(g, DT_I32, 100))),
                     BIN(IDIV, x, uop_int(g, DT_I32, 100)));
    assert_ptr_equal(apply(BIN(MOD, x, seven)), BIN(SUB, x, uop_int(g, DT_I32, 3)));
    // A shift's amount keeps its own type.
    UOp *wide = variable(g, DT_I64, 5, 0, 0);
    UOp *shifted = BIN(SHL, BIN(SHL, wide, uop_int(g, DT_I32, 3)), uop_int(g, DT_I32, 4));
    assert_ptr_equal(apply(shifted), BIN(SHL, wide, uop_int(g, DT_I32, 7)));
    arena_destroy(arena);
}

static void test_vectors(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *one = variable(g, DT_I32, 0, 0, 9);
    UOp *x = uop_new(g, OP_SHUFFLE, DT_I32, 1, &one, 1, (int64_t[]){0, 0, 0, 0}, 4);
    UOp *twos = uop_new(g, OP_VCONST, DT_I32, 4, NULL, 0, (int64_t[]){2, 2, 2, 2}, 4);
    UOp *threes = uop_new(g, OP_VCONST, DT_I32, 4, NULL, 0, (int64_t[]){3, 3, 3, 3}, 4);
    UOp *mixed = uop_new(g, OP_VCONST, DT_I32, 4, NULL, 0, (int64_t[]){2, 3, 2, 2}, 4);
    assert_ptr_equal(apply(BIN(MAX, x, twos)), x);
    assert_ptr_equal(apply(BIN(MAX, x, mixed)), BIN(MAX, x, mixed));
    const RuleSet *exact[] = {&rules_algebra, &rules_index};
    UOp *fives = uop_new(g, OP_VCONST, DT_I32, 4, NULL, 0, (int64_t[]){5, 5, 5, 5}, 4);
    assert_ptr_equal(rewrite(BIN(ADD, BIN(ADD, x, twos), threes), exact, 2, "test", NULL),
                     BIN(ADD, x, fives));
    UOp *sum = uop_new(g, OP_VCONST, DT_I32, 4, NULL, 0, (int64_t[]){5, 6, 5, 5}, 4);
    assert_ptr_equal(rewrite(BIN(ADD, mixed, threes), exact, 2, "test", NULL), sum);
    UOp *part = uop_new(g, OP_SHUFFLE, DT_I32, 2, &mixed, 1, (int64_t[]){1, 0}, 2);
    assert_ptr_equal(rewrite(part, exact, 2, "test", NULL),
                     uop_new(g, OP_VCONST, DT_I32, 2, NULL, 0, (int64_t[]){3, 2}, 2));
    arena_destroy(arena);
}

static void test_load_rows(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    const RuleSet *exact[] = {&rules_algebra, &rules_index};
    UOp *x = variable(g, DT_F32, 0, 0, 0), *yes = uop_int(g, DT_BOOL, 1),
        *no = uop_int(g, DT_BOOL, 0);
    assert_ptr_equal(rewrite(uop_load(x->src[0], DT_F32, yes), exact, 2, "test", NULL), x);
    assert_ptr_equal(rewrite(uop_load(x->src[0], DT_F32, no), exact, 2, "test", NULL),
                     uop_float(g, DT_F32, 0));
    assert_ptr_equal(uop_bitcast(x, DT_U32),
                     rewrite(uop_bitcast(uop_bitcast(x, DT_I32), DT_U32), exact, 2, "test", NULL));
    assert_ptr_equal(x,
                     rewrite(uop_bitcast(uop_bitcast(x, DT_I32), DT_F32), exact, 2, "test", NULL));
    arena_destroy(arena);
}

static void test_counts(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    RuleCount before = ruleset_count(&language, 1);
    apply(uop_binary(OP_MAX, variable(g, DT_I32, 0, 0, 9), uop_int(g, DT_I32, 2)));
    RuleCount after = ruleset_count(&language, 1);
    assert_string_equal(language.rows[1].name, "literal");
    assert_int_equal(after.tries - before.tries, 1);
    assert_int_equal(after.hits - before.hits, 1);
    arena_destroy(arena);
}

// ---------------------------------------------------------------- cases

static void test_cases(void **state) {
    (void)state;
    static const char *const files[] = {"tests/rules/index.case", "tests/rules/algebra.case"};
    Arena *arena = arena_create();
    CaseList cases = {0};
    Error err;
    int wrong = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!cases_read(arena, files[i], &cases, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < cases.len; i++) {
        const Case *c = &cases.at[i];
        const Rule *rule = c->rule ? rule_named(c->rule) : NULL;
        if (c->rule && !rule) fail_msg("%s:%d: no rule \"%s\"", c->file, c->line, c->rule);
        if (case_run(c, rule, &err)) continue;
        print_error("%s\n", err.text);
        wrong++;
    }
    printf("%zu cases\n", cases.len);
    assert_int_equal(wrong, 0);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),     cmocka_unit_test(test_damaged_rows),
        cmocka_unit_test(test_sets_parse), cmocka_unit_test(test_matching),
        cmocka_unit_test(test_vectors),    cmocka_unit_test(test_load_rows),
        cmocka_unit_test(test_counts),     cmocka_unit_test(test_cases),
    };
    return cmocka_run_group_tests_name("rule", tests, NULL, NULL);
}

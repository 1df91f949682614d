// test_egraph: saturation keeps values, respects its limits, never costs more, and finds what
// greedy rules miss.
#include "base/os.h"
#include "base/settings.h"
#include "base/vec.h"
#include "ir/egraph.h"
#include "ir/rewrite.h"
#include "ir/textform.h"
#include "rules/rational.h"
#include "rules/support.h"

#include "rules/with_cmocka.h"

static const RuleSet *const all[] = {&rules_algebra, &rules_index, &rules_real};
#define BIN(op, a, b) uop_binary(OP_##op, a, b)

static UOp *improve(UOp *u, EgraphReport *report) {
    return egraph_improve(u, all, 3, EGRAPH_LIMITS, NULL, NULL, report);
}

static void expect(UOp *from, UOp *to) {
    EgraphReport report;
    UOp *got = improve(from, &report);
    Arena *arena = arena_create();
    if (got != to && egraph_cost(got, NULL, NULL) != egraph_cost(to, NULL, NULL))
        fail_msg("%s became %s, not %s", textform_expression(arena, from, 9),
                 textform_expression(arena, got, 9), textform_expression(arena, to, 9));
    arena_destroy(arena);
}

static void test_examples(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = variable(g, DT_F32, 0, 0, 0), *y = variable(g, DT_F32, 1, 0, 0),
        *z = variable(g, DT_F32, 2, 0, 0);
    UOp *w = variable(g, DT_F32, 3, 0, 0);
    expect(BIN(ADD, BIN(MUL, x, y), BIN(MUL, x, z)), BIN(MUL, x, BIN(ADD, y, z)));
    // Terms that stand far apart.
    UOp *apart = BIN(ADD, BIN(ADD, BIN(MUL, x, y), w), BIN(MUL, x, z));
    expect(apart, BIN(ADD, BIN(MUL, x, BIN(ADD, y, z)), w));
    // Distributing first makes the whole thing vanish.
    expect(BIN(SUB, BIN(MUL, BIN(ADD, x, y), z), BIN(MUL, x, z)), BIN(MUL, y, z));
    expect(BIN(FDIV, BIN(FDIV, x, y), z), BIN(FDIV, x, BIN(MUL, y, z)));
    // A shared product is paid once: factoring would cost more here.
    UOp *shared = BIN(MUL, x, y), *both = BIN(MAX, BIN(ADD, shared, BIN(MUL, x, z)), shared);
    EgraphReport report;
    UOp *got = improve(both, &report);
    assert_true(egraph_cost(got, NULL, NULL) <= egraph_cost(both, NULL, NULL));
    UOp *a = variable(g, DT_I32, 4, 0, 99), *b = variable(g, DT_I32, 5, 0, 3);
    expect(BIN(IDIV,
               BIN(ADD, BIN(MUL, a, uop_int(g, DT_I32, 4)), BIN(MOD, b, uop_int(g, DT_I32, 4))),
               uop_int(g, DT_I32, 4)),
           BIN(IDIV, BIN(ADD, BIN(MUL, a, uop_int(g, DT_I32, 4)), b), uop_int(g, DT_I32, 4)));
    UOp *scaled = BIN(MUL, uop_cast(a, DT_F32), uop_cast(b, DT_F32));
    expect(scaled, uop_cast(BIN(MUL, a, b), DT_F32));
    arena_destroy(arena);
}

static void test_reasons(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = variable(g, DT_F32, 0, 0, 0), *y = variable(g, DT_F32, 1, 0, 0),
        *z = variable(g, DT_F32, 2, 0, 0);
    EgraphReport report;
    improve(BIN(ADD, BIN(MUL, x, y), BIN(MUL, x, z)), &report);
    assert_int_equal(report.n_reasons, 1);
    assert_string_equal(report.reasons[0]->row->name, "real_factor");
    assert_string_equal(report.stop, "saturated");
    assert_true(report.cost_after < report.cost_before);
    improve(BIN(MUL, x, y), &report);
    assert_int_equal(report.n_reasons, 0);
    arena_destroy(arena);
}

static void test_switched_off(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = variable(g, DT_F32, 0, 0, 0), *y = variable(g, DT_F32, 1, 0, 0);
    UOp *sum = BIN(ADD, BIN(MUL, x, x), BIN(MUL, x, y));
    EgraphReport report;
    setting_override(SETTING_EGRAPH, "0");
    assert_ptr_equal(improve(sum, &report), sum);
    assert_string_equal(report.stop, "off");
    setting_override(SETTING_EGRAPH, NULL);
    assert_ptr_not_equal(improve(sum, &report), sum);
    arena_destroy(arena);
}

// ---------------------------------------------------------------- random graphs

enum { LEAVES = 4 };

static UOp *random_float(Graph *g, Random *r, int depth) {
    static const Op ops[] = {OP_ADD, OP_ADD, OP_MUL, OP_MUL, OP_SUB, OP_FDIV, OP_NEG};
    if (depth == 0) {
        if (random_below(r, 4) == 0) return uop_float(g, DT_F32, random_below(r, 9) - 4);
        return variable(g, DT_F32, random_below(r, LEAVES), 0, 0);
    }
    Op op = ops[random_below(r, 7)];
    if (op == OP_NEG) return uop_unary(OP_NEG, random_float(g, r, depth - 1));
    return uop_binary(op, random_float(g, r, depth - 1 - random_below(r, depth)),
                      random_float(g, r, depth - 1));
}

static Rational exact_value(Arena *arena, UOp *root, const Rational *leaves) {
    UOpList order = uop_toposort(arena, root);
    UOpMap done;
    uop_map_init(&done, arena);
    Rational value = {0, 1, false};
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (u->op == OP_PARAM || u->op == OP_INDEX || (u->op == OP_CONST && u->dtype != DT_F32))
            continue;
        Rational s[3];
        for (int i = 0; i < u->n_src && u->op != OP_LOAD; i++)
            s[i] = *(Rational *)uop_map_get(&done, u->src[i]);
        if (u->op == OP_LOAD) value = leaves[variable_slot(u)];
        // Constants made by division are rounded: only those that are exact fractions of 2^20
        // count.
        else if (u->op == OP_CONST) {
            double scaled = uop_const_float(u) * 1048576.0;
            value = scaled >= -1e15 && scaled <= 1e15 && scaled == (double)(int64_t)scaled
                        ? rational((int64_t)scaled, 1048576)
                        : (Rational){0, 1, false};
        } else value = rational_op(u->op, s, u->n_src);
        uop_map_put(&done, u, arena_copy(arena, &value, sizeof value));
    }
    return value;
}

static void test_random_real(void **state) {
    (void)state;
    int compared = 0, cheaper = 0;
    uint64_t before = 0, after = 0, start = time_us();
    for (uint64_t seed = 1; seed <= 40; seed++) {
        Arena *arena = arena_create();
        Graph *g = graph_create(arena);
        Random r = {seed};
        UOp *u = random_float(g, &r, 4), *greedy = rewrite(u, all, 3, "greedy", NULL);
        EgraphReport report;
        UOp *best = improve(greedy, &report);
        assert_true(egraph_cost(best, NULL, NULL) <= egraph_cost(greedy, NULL, NULL));
        assert_true(report.cost_after == egraph_cost(best, NULL, NULL));
        assert_true(report.nodes <= EGRAPH_LIMITS.nodes + 600);
        before += report.cost_before;
        after += report.cost_after;
        cheaper += report.cost_after < report.cost_before;
        for (int t = 0; t < 6; t++) {
            Rational leaves[LEAVES];
            for (int i = 0; i < LEAVES; i++)
                leaves[i] = rational(random_below(&r, 19) - 9, 1 + random_below(&r, 2));
            Rational a = exact_value(arena, u, leaves), b = exact_value(arena, best, leaves);
            if (!a.ok || !b.ok) continue;
            compared++;
            if (a.num != b.num || a.den != b.den)
                fail_msg("seed %d: %s became %s", (int)seed, textform_expression(arena, u, 9),
                         textform_expression(arena, best, 9));
        }
        arena_destroy(arena);
    }
    printf("%d values compared, %d of 40 cheaper than greedy (cost %llu -> %llu), %llu ms\n",
           compared, cheaper, (unsigned long long)before, (unsigned long long)after,
           (unsigned long long)(time_us() - start) / 1000);
    assert_true(compared > 100);
}

static UOp *random_int(Graph *g, Random *r, int depth) {
    static const Op ops[] = {OP_ADD, OP_ADD, OP_MUL, OP_SUB, OP_IDIV, OP_MOD, OP_MAX, OP_AND};
    if (depth == 0)
        return variable(g, DT_I32, random_below(r, LEAVES), 0, 20 * (random_below(r, 3) + 1));
    Op op = ops[random_below(r, 8)];
    bool constant = op == OP_IDIV || op == OP_MOD || random_below(r, 3) == 0;
    UOp *a = random_int(g, r, depth - 1);
    UOp *b = constant ? uop_int(g, DT_I32, (int64_t[]){2, 3, 4, 8, 12, 16}[random_below(r, 6)])
                      : random_int(g, r, depth - 1);
    return uop_binary(op, a, b);
}

static void test_random_exact(void **state) {
    (void)state;
    int cheaper = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        Arena *arena = arena_create();
        Graph *g = graph_create(arena);
        Random r = {seed};
        UOp *u = random_int(g, &r, 4), *greedy = rewrite(u, all, 2, "greedy", NULL);
        EgraphReport report;
        UOp *best = egraph_improve(greedy, all, 2, EGRAPH_LIMITS, NULL, NULL, &report);
        assert_true(egraph_cost(best, NULL, NULL) <= egraph_cost(greedy, NULL, NULL));
        cheaper += report.cost_after < report.cost_before;
        for (int t = 0; t < 10; t++) {
            Values v = {0};
            for (int i = 0; i < LEAVES; i++) v.slots[i].i = random_between(&r, 0, 20);
            if (value_of(arena, u, &v).i != value_of(arena, best, &v).i)
                fail_msg("seed %d: %s became %s", (int)seed, textform_expression(arena, u, 9),
                         textform_expression(arena, best, 9));
        }
        arena_destroy(arena);
    }
    printf("%d of 40 cheaper than greedy\n", cheaper);
}

// The same input, the same output; small limits stop it and the result is still right.
static void test_limits(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        const char *text[2];
        Arena *arena = arena_create();
        for (int k = 0; k < 2; k++) {
            Random r = {seed};
            text[k] = textform_text(arena, improve(random_float(graph_create(arena), &r, 4), NULL));
        }
        assert_string_equal(text[0], text[1]);
        Random r = {seed};
        EgraphReport report;
        UOp *u = random_float(graph_create(arena), &r, 4);
        egraph_improve(u, all, 3, (EgraphLimits){1, 40, 5}, NULL, NULL, &report);
        assert_true(report.iterations <= 1);
        egraph_improve(u, all, 3, (EgraphLimits){8, 1, 5}, NULL, NULL, &report);
        assert_true(!strcmp(report.stop, "too big") || report.nodes <= 1);
        arena_destroy(arena);
    }
}

// What a loop does not change may leave it, if the cost says so; the loop itself stays one node.
static uint64_t cost_in_loops(const UOp *u, void *ctx) {
    Arena *arena = arena_create();
    UOpList ranges = uop_free_ranges(arena, (UOp *)(uintptr_t)u);
    uint64_t trips = 1;
    for (size_t i = 0; i < ranges.len; i++) trips *= (uint64_t)range_size(ranges.at[i]);
    arena_destroy(arena);
    (void)ctx;
    return (uint64_t)op_info[u->op].cost * trips;
}

static void test_loops(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *j = uop_range_const(g, 64, RANGE_REDUCE), *one = uop_range_const(g, 1, RANGE_LOOP);
    UOp *x = variable(g, DT_F32, 0, 0, 0), *y = variable(g, DT_F32, 1, 0, 0);
    UOp *weights = uop_new(g, OP_PARAM, DT_F32, 1, NULL, 0, (int64_t[]){7, 256, 64, 0, 0}, 5);
    UOp *w = uop_load(uop_index(weights, BIN(ADD, BIN(MOD, j, uop_int(g, DT_I32, 64)), one)),
                      DT_F32, NULL);
    UOp *sum = uop_fold(MONOID_SUM, 16, BIN(MUL, BIN(MUL, w, x), y), (UOp *[]){j, one}, 2);
    EgraphReport report;
    UOp *got = egraph_improve(sum, all, 3, EGRAPH_LIMITS, cost_in_loops, NULL, &report);
    assert_int_equal(got->op, OP_FOLD);
    assert_ptr_equal(got->src[1], j);
    assert_ptr_equal(got->src[2], one);
    UOp *plain = uop_load(uop_index(weights, j), DT_F32, NULL);
    UOp *want = uop_fold(MONOID_SUM, 16, BIN(MUL, plain, BIN(MUL, x, y)), (UOp *[]){j, one}, 2);
    if (egraph_cost(got, cost_in_loops, NULL) != egraph_cost(want, cost_in_loops, NULL))
        fail_msg("%s, not %s", textform_expression(arena, got, 9),
                 textform_expression(arena, want, 9));
    arena_destroy(arena);
}

// Two loops of one turn are both 0, but neither may stand for the other: each has its scope.
static void test_scopes(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *first = uop_range_const(g, 1, RANGE_LOOP), *second = uop_range_const(g, 1, RANGE_LOOP), *three = uop_int(g, DT_I32, 3);
    UOp *x = uop_range_const(g, 50, RANGE_LOOP), *y = uop_new(g, OP_SPECIAL, DT_I32, 1, NULL, 0, (int64_t[]){0, 9}, 2);
    UOp *sum = BIN(ADD, BIN(MUL, x, three), BIN(MUL, y, three));   // cheaper as (x + y)*3
    UOp *pair[2] = {BIN(ADD, sum, first), BIN(ADD, BIN(ADD, x, second), sum)}, *before = uop_sink(g, pair, 2);
    UOp *best = egraph_improve(before, (const RuleSet *[]){&rules_index}, 1, EGRAPH_LIMITS, NULL, NULL, NULL);
    assert_ptr_not_equal(best, before);
    for (int i = 0; i < 2; i++) {
        UOpList free = uop_free_ranges(arena, best->src[i]);
        for (size_t k = 0; k < free.len; k++) assert_true(free.at[k] == x || free.at[k] == (i ? second : first));
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),     cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_switched_off), cmocka_unit_test(test_random_real),
        cmocka_unit_test(test_random_exact), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_loops),        cmocka_unit_test(test_scopes),
    };
    return cmocka_run_group_tests_name("egraph", tests, NULL, NULL);
}

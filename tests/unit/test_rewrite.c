// test_rewrite: the greedy rewriter and the sets algebra and index, on random expressions and on
// known chains.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "base/vec.h"
#include "ir/rewrite.h"
#include "ir/textform.h"
#include "rules/support.h"

#include "rules/with_cmocka.h"

static const RuleSet *const exact[] = {&rules_algebra, &rules_index};

static UOp *simplified(UOp *u, RewriteStats *stats) { return rewrite(u, exact, 2, "test", stats); }

// ---------------------------------------------------------------- random expressions

enum { VARIABLES = 5 };
typedef struct Maker {
    Graph *g;
    Random r;
    DType dtype;
    UOp *leaves[VARIABLES];
    Bounds bounds[VARIABLES];
} Maker;

static UOp *constant(Maker *m) {
    static const int64_t usual[] = {1,  2,  3,  4,   4,  5,  6,  8, 8, 12,
                                    16, 32, 64, 100, -1, -2, -4, 0, 7};
    int64_t v = usual[random_below(&m->r, (int)(sizeof usual / sizeof *usual))];
    if (random_below(&m->r, 40) == 0)
        v = random_between(&m->r, dtype_info[m->dtype].lo, dtype_info[m->dtype].hi);
    return uop_int(m->g, m->dtype, number_wrap(m->dtype, (Number){.i = v}).i);
}

static UOp *make_condition(Maker *m, int depth);

static UOp *make_value(Maker *m, int depth) {
    static const Op ops[] = {OP_ADD, OP_ADD, OP_ADD, OP_SUB, OP_MUL, OP_IDIV, OP_IDIV, OP_MOD,
                             OP_MOD, OP_MAX, OP_MIN, OP_AND, OP_SHR, OP_SHL,  OP_OR,   OP_XOR};
    if (depth <= 0 || random_below(&m->r, 7) == 0) return m->leaves[random_below(&m->r, VARIABLES)];
    if (random_below(&m->r, 12) == 0)
        return uop_where(make_condition(m, depth - 1), make_value(m, depth - 1),
                         make_value(m, depth - 1));
    if (random_below(&m->r, 16) == 0) {
        DType via =
            (DType[]){DT_I64, DT_I32, DT_U8, DT_I16, DT_BOOL, DT_F32}[random_below(&m->r, 6)];
        return uop_cast(uop_cast(make_value(m, depth - 1), via), m->dtype);
    }
    if (random_below(&m->r, 16) == 0) return uop_unary(OP_NEG, make_value(m, depth - 1));
    Op op = ops[random_below(&m->r, (int)(sizeof ops / sizeof *ops))];
    UOp *a = make_value(m, depth - 1);
    bool wants_constant =
        op == OP_IDIV || op == OP_MOD || op == OP_SHR || op == OP_SHL || op == OP_MUL;
    UOp *b =
        random_below(&m->r, 10) < (wants_constant ? 9 : 3) ? constant(m) : make_value(m, depth - 1);
    if (random_below(&m->r, 8) == 0)
        return uop_new(m->g, op, m->dtype, 1, (UOp *[]){b, a}, 2, NULL, 0);
    return uop_new(m->g, op, m->dtype, 1, (UOp *[]){a, b}, 2, NULL, 0);
}

static UOp *make_condition(Maker *m, int depth) {
    static const Op ops[] = {OP_LT, OP_LT, OP_LT, OP_EQ, OP_NE};
    int kind = random_below(&m->r, 10);
    if (depth > 1 && kind < 2)
        return uop_binary(kind ? OP_AND : OP_OR, make_condition(m, depth - 1),
                          make_condition(m, depth - 1));
    if (depth > 1 && kind == 2) return uop_unary(OP_NOT, make_condition(m, depth - 1));
    UOp *a = make_value(m, depth - 1),
        *b = random_below(&m->r, 2) ? constant(m) : make_value(m, depth - 1);
    return uop_binary(ops[random_below(&m->r, 5)], a, b);
}

static void make_leaves(Maker *m) {
    for (int i = 0; i < VARIABLES; i++) {
        Bounds b = bounds_of_dtype(m->dtype);
        int kind = random_below(&m->r, 8);
        int64_t small = (int64_t[]){2, 3, 4, 7, 8, 16, 31, 64}[random_below(&m->r, 8)];
        if (kind < 5) b = (Bounds){0, small - 1};
        else if (kind < 7)
            b = (Bounds){b.lo < 0 ? -random_below(&m->r, 20) : 1, random_below(&m->r, 60) + 1};
        m->bounds[i] = b;
        if (m->dtype == DT_I32 && kind < 5) {
            m->leaves[i] =
                uop_new(m->g, OP_RANGE, DT_I32, 1, (UOp *[]){uop_int(m->g, DT_I32, small)}, 1,
                        (int64_t[]){i, RANGE_LOOP, small}, 3);
        } else {
            m->leaves[i] = variable(m->g, m->dtype, i, b.lo, b.hi);
        }
    }
}

static void check_equal(Arena *arena, Maker *m, UOp *before, UOp *after, uint64_t seed) {
    for (int t = 0; t < 24; t++) {
        Values v;
        for (int i = 0; i < VARIABLES; i++)
            v.slots[i].i = v.ranges[i].i = random_between(&m->r, m->bounds[i].lo, m->bounds[i].hi);
        Number a = value_of(arena, before, &v), b = value_of(arena, after, &v);
        Bounds bounds = bounds_of(before);
        bool inside = a.i >= bounds.lo && a.i <= bounds.hi;
        if (same_number(before->dtype, a, b) && inside) continue;
        fail_msg("seed %llu: %s = %lld became %s = %lld (values %lld %lld %lld %lld %lld)",
                 (unsigned long long)seed, textform_expression(arena, before, 30), (long long)a.i,
                 textform_expression(arena, after, 30), (long long)b.i, (long long)v.slots[0].i,
                 (long long)v.slots[1].i, (long long)v.slots[2].i, (long long)v.slots[3].i,
                 (long long)v.slots[4].i);
    }
}

// Rewriting never changes a value, is stable (a second run changes nothing), and every node's value
// lies in its bounds.
static void test_random_expressions(void **state) {
    static const DType types[] = {DT_I32, DT_I32, DT_I32, DT_I64, DT_I8,
                                  DT_U8,  DT_U32, DT_I16, DT_U16};
    const char *seeds = getenv("LATHE_TEST_SEEDS");
    uint64_t n_seeds = seeds ? strtoull(seeds, NULL, 10) : 8000;
    (void)state;
    int64_t rewrites = 0, loops = 0, shrunk = 0, unstable = 0;
    for (uint64_t seed = 1; seed <= n_seeds; seed++) {
        Arena *arena = arena_create();
        Maker m = {.g = graph_create(arena), .r = {seed * 7919}};
        m.dtype = types[random_below(&m.r, (int)(sizeof types / sizeof *types))];
        make_leaves(&m);
        UOp *before = random_below(&m.r, 4) ? make_value(&m, 5) : make_condition(&m, 5);
        RewriteStats stats = {0};
        UOp *after = simplified(before, &stats);
        if (getenv("LATHE_TEST_VERBOSE") && stats.loops)
            printf("seed %llu loops: %s\n", (unsigned long long)seed,
                   textform_expression(arena, before, 30));
        UOp *again = simplified(after, NULL);
        if (again != after) {
            unstable++;
            if (getenv("LATHE_TEST_VERBOSE"))
                printf("seed %llu: %s then %s\n", (unsigned long long)seed,
                       textform_expression(arena, after, 30),
                       textform_expression(arena, again, 30));
        }
        rewrites += stats.rewrites;
        loops += stats.loops;
        shrunk += uop_toposort(arena, after).len < uop_toposort(arena, before).len;
        check_equal(arena, &m, before, after, seed);
        arena_destroy(arena);
    }
    printf("%llu expressions, %lld rewrites, %lld became smaller, %lld loops, %lld unstable\n",
           (unsigned long long)n_seeds, (long long)rewrites, (long long)shrunk, (long long)loops,
           (long long)unstable);
    assert_int_equal(loops, 0);
    assert_int_equal(unstable, 0);
}

// ---------------------------------------------------------------- the rewriter itself

static UOp *op2(Op op, UOp *a, UOp *b) {
    return uop_new(a->graph, op, a->dtype, 1, (UOp *[]){a, b}, 2, NULL, 0);
}

static void test_deep_graph(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = variable(g, DT_F32, 0, 0, 0), *y = variable(g, DT_F32, 1, 0, 0), *u = x, *want = x;
    UOp *one = uop_float(g, DT_F32, 1);
    for (int i = 0; i < 100000; i++) {
        u = op2(OP_MUL, op2(OP_ADD, u, y), one);
        want = op2(OP_ADD, want, y);
    }
    RewriteStats stats = {0};
    assert_ptr_equal(simplified(u, &stats), want);
    assert_int_equal(stats.rewrites, 100000);
    assert_ptr_equal(simplified(want, NULL), want);
    arena_destroy(arena);
}

// The index arithmetic of a kernel: 128 loads from blocks of 144 bytes.
static UOp *kernel_like(Graph *g) {
    static const int64_t sizes[] = {6, 8, 4, 32};
    UOp *r[4],
        *acc = NULL,
        *param = uop_new(g, OP_PARAM, DT_F32, 1, NULL, 0, (int64_t[]){0, 1 << 24, 64, 0, 0}, 5);
#define K(value) uop_int(g, DT_I32, value)
    for (int i = 0; i < 4; i++) r[i] = uop_range_const(g, sizes[i], RANGE_LOOP);
    for (int k = 0; k < 128; k++) {
        UOp *row = op2(OP_ADD, op2(OP_MUL, r[0], K(4096)), op2(OP_MUL, r[1], K(512)));
        UOp *flat = op2(OP_ADD, op2(OP_ADD, row, op2(OP_MUL, r[2], K(128))),
                        op2(OP_ADD, op2(OP_MUL, r[3], K(4)), K(k)));
        UOp *at = op2(OP_ADD, op2(OP_MUL, op2(OP_IDIV, flat, K(128)), K(144)),
                      op2(OP_ADD, K(16), op2(OP_IDIV, op2(OP_MOD, flat, K(128)), K(2))));
        UOp *x =
            op2(OP_MUL, uop_load(uop_index(param, at), DT_F32, NULL), uop_float(g, DT_F32, 1 + k));
        acc = acc ? op2(OP_ADD, acc, x) : x;
    }
    return acc;
}

// The work of a pass: each node is visited once, and tried with the few rules that its op may match.
static void test_work(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *u = kernel_like(g);
    RewriteStats stats = {0};
    int64_t n = (int64_t)uop_toposort(arena, u).len;
    UOp *after = simplified(u, &stats);
    assert_true((int64_t)uop_toposort(arena, after).len < n * 2 / 3);
    assert_in_range(stats.nodes, n, 5 * n);
    assert_in_range(stats.tries, n, 20 * n);
    print_message("%lld nodes: %lld visits, %lld tries\n", (long long)n, (long long)stats.nodes, (long long)stats.tries);
    arena_destroy(arena);
}

// Groups of 16 in blocks of 48, taken by twos: the place of one is where it stands, though remainders lose factors that quotients keep.
static void test_quotient_and_reduced_remainder(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *block = uop_range_const(g, 32, RANGE_LOOP), *group = uop_range_const(g, 3, RANGE_LOOP);
    UOp *flat = op2(OP_ADD, op2(OP_MUL, block, K(3)), group), *other = op2(OP_ADD, op2(OP_MUL, block, K(2)), group);
    UOp *two = op2(OP_MUL, op2(OP_IDIV, flat, K(2)), K(32)), *one = op2(OP_MUL, op2(OP_MOD, flat, K(2)), K(16));
    int64_t step;
    assert_true(index_step(simplified(op2(OP_ADD, two, one), NULL), block, &step) && step == 48);
    assert_true(index_step(simplified(op2(OP_ADD, two, one), NULL), group, &step) && step == 16);
    // Factors whose difference is wider than the type: nothing is joined that is not equal.
    UOp *a = uop_range_const(g, 2, RANGE_LOOP), *last = K(1);
    UOp *wide = op2(OP_ADD, op2(OP_MUL, op2(OP_IDIV, op2(OP_MUL, a, K(2000000000)), K(3)), K(3)), op2(OP_MOD, op2(OP_MUL, a, K(-2000000000)), K(3)));
    assert_ptr_equal(simplified(uop_substitute(simplified(wide, NULL), &a, &last, 1), NULL), K(1999999999));
    // Another remainder, or another factor, is no such pair.
    assert_false(index_step(simplified(op2(OP_ADD, two, op2(OP_MUL, op2(OP_MOD, other, K(2)), K(16))), NULL), block, &step));
    assert_false(index_step(simplified(op2(OP_ADD, two, op2(OP_MUL, op2(OP_MOD, flat, K(2)), K(8))), NULL), group, &step));
    arena_destroy(arena);
}

static UOp *run_away(RewriteContext *ctx, Match *m) {
    (void)ctx;
    return uop_unary(OP_NEG, uop_unary(OP_NEG, m->root));
}
static const RuleRow endless_rows[] = {RULE_DO(run_away, "neg(x:float)", run_away)};
RULE_SET(endless, "endless", endless_rows);
static const RuleRow fighting_rows[] = {
    RULE(to_sub, "x:float + y:float", "x - neg(y)", "")
    RULE(to_add, "x:float - neg(y:float)", "x + y", "")
};
RULE_SET(fighting, "fighting", fighting_rows);

static void test_rules_that_do_not_end(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = variable(g, DT_F32, 0, 0, 0), *sum = op2(OP_ADD, x, x);
    RewriteStats stats = {0};
    UOp *after = rewrite(sum, (const RuleSet *[]){&fighting}, 1, "fight", &stats);
    assert_true(after == sum || after->op == OP_SUB);
    assert_true(stats.loops > 0);
    arena_destroy(arena);
}

// The budget ends it, with the names of the last rules.
static void test_endless_rules(void **state) {
    (void)state;
    int ends[2];
    char text[4096] = "";
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL);
        Graph *g = graph_create(arena_create());
        rewrite(uop_unary(OP_NEG, variable(g, DT_F32, 0, 0, 0)), (const RuleSet *[]){&endless}, 1,
                "endless", NULL);
        _exit(0);
    }
    close(ends[1]);
    for (size_t n = 0, got; n < sizeof text - 1 &&
                            (got = (size_t)read(ends[0], text + n, sizeof text - 1 - n)) + 1 > 1;
         n += got) {}
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "pass \"endless\" does not end"));
    assert_non_null(strstr(text, "run_away"));
}

// A load that waits for a store: its index gets simpler, the store stays the node that the kernel holds.
static void test_what_loads_wait_for(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *to = uop_new(g, OP_PARAM, DT_I32, 1, NULL, 0, (int64_t[]){0, 64, 4, 0, 0}, 5), *x = variable(g, DT_I32, 1, 0, 9);
    UOp *clumsy = uop_new(g, OP_MUL, DT_I32, 1, (UOp *[]){x, uop_int(g, DT_I32, 1)}, 2, NULL, 0);
    UOp *store = uop_store(uop_index(to, clumsy), clumsy, NULL, 0);
    UOp *load = uop_load(uop_index(uop_after(to, &store, 1), clumsy), DT_I32, NULL), *simple = simplified(load, NULL);
    assert_ptr_equal(simple->src[0]->src[1], x);
    assert_ptr_equal(simple->src[0]->src[0]->src[1], store);
    // In the whole kernel both are one node, before and after.
    UOp *next = uop_store(uop_index(to, uop_int(g, DT_I32, 0)), load, NULL, 0);
    UOp *sink = simplified(uop_sink(g, (UOp *[]){store, next}, 2), NULL);
    assert_ptr_equal(sink->src[1]->src[1]->src[0]->src[0]->src[1], sink->src[0]);
    assert_ptr_equal(sink->src[0]->src[1], x);
    arena_destroy(arena);
}

static void test_empty_sets(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = variable(g, DT_I32, 0, 0, 0);
    UOp *two = op2(OP_ADD, K(1), K(1)), *u = op2(OP_ADD, x, two);
    RewriteStats stats = {0};
    assert_ptr_equal(rewrite(u, NULL, 0, "fold", &stats), op2(OP_ADD, x, K(2)));
    assert_int_equal(stats.folds, 1);
    assert_int_equal(stats.rewrites, 0);
    arena_destroy(arena);
}

// Threads rewrite graphs of their own at the same time; the rule sets are shared.
static void rewrite_alone(void *arg) {
    for (int t = 0; t < 40; t++) {
        Arena *arena = arena_create();
        UOp *u = kernel_like(graph_create(arena));
        *(size_t *)arg = uop_toposort(arena, simplified(u, NULL)).len;
        arena_destroy(arena);
    }
}

static void test_threads(void **state) {
    (void)state;
    Thread *threads[3];
    size_t lengths[3] = {0};
    for (int i = 0; i < 3; i++) threads[i] = thread_start(rewrite_alone, &lengths[i]);
    for (int i = 0; i < 3; i++) thread_join(threads[i]);
    assert_true(lengths[0] > 100 && lengths[0] == lengths[1] && lengths[1] == lengths[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_expressions),
        cmocka_unit_test(test_deep_graph),
        cmocka_unit_test(test_work), cmocka_unit_test(test_quotient_and_reduced_remainder),
        cmocka_unit_test(test_rules_that_do_not_end),
        cmocka_unit_test(test_endless_rules),
        cmocka_unit_test(test_what_loads_wait_for),
        cmocka_unit_test(test_empty_sets),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("rewrite", tests, NULL, NULL);
}

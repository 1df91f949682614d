// test_bounds: intervals contain every value, and are as narrow as the index rules need.
#include "ir/bounds.h"
#include "rules/support.h"

#include "rules/with_cmocka.h"

static Bounds random_interval(Random *r, DType dtype) {
    Bounds limit = bounds_of_dtype(dtype);
    int64_t a = random_between(r, limit.lo, limit.hi), b = random_between(r, limit.lo, limit.hi);
    if (dtype != DT_BOOL && random_below(r, 2)) {
        a = random_between(r, limit.lo < 0 ? -9 : 0, 9);
        b = random_between(r, limit.lo < 0 ? -9 : 0, 20);
    }
    if (random_below(r, 4) == 0) b = a;
    return a < b ? (Bounds){a, b} : (Bounds){b, a};
}

static void check_op(Random *r, Op op, DType dtype) {
    int arity = op_info[op].arity;
    bool compares = op_info[op].traits & TRAIT_COMPARE;
    DType result = compares ? DT_BOOL : dtype;
    Bounds s[3] = {random_interval(r, dtype), random_interval(r, dtype), random_interval(r, dtype)},
           out;
    if (op == OP_WHERE) s[0] = random_interval(r, DT_BOOL);
    bounds_of_op(op, dtype, result, s, &out);
    assert_true(out.lo <= out.hi);
    for (int t = 0; t < 40; t++) {
        Number args[3], value;
        for (int i = 0; i < arity; i++) args[i].i = random_between(r, s[i].lo, s[i].hi);
        assert_true(eval_op(op, dtype, args, &value));
        value = number_wrap(result, value);
        if (value.i < out.lo || value.i > out.hi)
            fail_msg(
                "%s on %s: [%lld, %lld] [%lld, %lld] gives [%lld, %lld], but %lld, %lld gives %lld",
                op_info[op].name, dtype_info[dtype].name, (long long)s[0].lo, (long long)s[0].hi,
                (long long)s[1].lo, (long long)s[1].hi, (long long)out.lo, (long long)out.hi,
                (long long)args[0].i, (long long)args[1].i, (long long)value.i);
    }
}

static void test_every_integer_op(void **state) {
    static const DType types[] = {DT_BOOL, DT_I8,  DT_U8,  DT_I16, DT_U16,
                                  DT_I32,  DT_U32, DT_I64, DT_U64};
    (void)state;
    Random r = {1};
    int ops = 0;
    for (int o = 0; o < OP_COUNT; o++) {
        OpKind kind = op_info[o].kind;
        bool elementwise = kind == KIND_UNARY || kind == KIND_BINARY || o == OP_WHERE;
        if (!elementwise || (op_info[o].traits & TRAIT_FLOAT_ONLY)) continue;
        ops++;
        for (size_t d = 0; d < sizeof types / sizeof *types; d++)
            for (int t = 0; t < 300; t++) check_op(&r, (Op)o, types[d]);
    }
    printf("%d ops\n", ops);
    assert_true(ops >= 18);
}

// On i8 a division can be tried completely: the interval must not only hold but be the smallest.
static void test_division_is_tight(void **state) {
    (void)state;
    Random r = {2};
    for (int t = 0; t < 3000; t++) {
        Bounds s[2] = {random_interval(&r, DT_I8), random_interval(&r, DT_I8)}, out;
        int64_t lo = INT64_MAX, hi = INT64_MIN;
        if (!bounds_of_op(OP_IDIV, DT_I8, DT_I8, s, &out)) continue;
        for (int64_t a = s[0].lo; a <= s[0].hi; a++)
            for (int64_t b = s[1].lo; b <= s[1].hi; b++) {
                Number q;
                assert_true(eval_op(OP_IDIV, DT_I8, (Number[]){{.i = a}, {.i = b}}, &q));
                if (q.i < lo) lo = q.i;
                if (q.i > hi) hi = q.i;
            }
        assert_int_equal(out.lo, lo);
        assert_int_equal(out.hi, hi);
    }
}

static void test_casts(void **state) {
    static const DType types[] = {DT_BOOL, DT_I8,  DT_U8,  DT_I16, DT_U16,
                                  DT_I32,  DT_U32, DT_I64, DT_U64};
    (void)state;
    Random r = {3};
    for (int t = 0; t < 20000; t++) {
        DType from = types[random_below(&r, 9)], to = types[random_below(&r, 9)];
        Bounds s = random_interval(&r, from), out;
        bounds_of_op(OP_CAST, from, to, &s, &out);
        for (int k = 0; k < 20; k++) {
            Number x = {.i = random_between(&r, s.lo, s.hi)}, y = number_cast(from, to, x);
            if (y.i < out.lo || y.i > out.hi)
                fail_msg("cast %lld of %s to %s", (long long)x.i, dtype_info[from].name,
                         dtype_info[to].name);
        }
    }
}

#define assert_bounds(u, low, high) \
    do { \
        Bounds bounds_ = bounds_of(u); \
        assert_int_equal(bounds_.lo, low); \
        assert_int_equal(bounds_.hi, high); \
    } while (0)

static UOp *op2(Op op, UOp *a, UOp *b) {
    return uop_new(a->graph, op, a->dtype, a->lanes, (UOp *[]){a, b}, 2, NULL, 0);
}

static void test_kernel_nodes(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *r = uop_range_const(g, 8, RANGE_LOOP), *k = uop_range_const(g, 4, RANGE_REDUCE);
    assert_bounds(r, 0, 7);
    assert_bounds(op2(OP_ADD, op2(OP_MUL, r, uop_int(g, DT_I32, 4)), k), 0, 31);
    assert_bounds(uop_fold(MONOID_SUM, 1, op2(OP_SUB, k, uop_int(g, DT_I32, 1)), &k, 1), -4, 8);
    assert_bounds(uop_fold(MONOID_MAX, 1, k, &k, 1), 0, 3);
    UOp *length = variable(g, DT_I32, 0, 1, 100), *ragged = uop_range(g, length, RANGE_REDUCE);
    assert_bounds(length, 1, 100);
    assert_bounds(ragged, 0, 99);
    assert_bounds(uop_fold(MONOID_SUM, 1, uop_int(g, DT_I32, 3), &ragged, 1), 0, 300);
    assert_bounds(uop_fold(MONOID_SUM, 1, uop_int(g, DT_I32, INT32_MAX), &k, 1), INT32_MIN,
                  INT32_MAX);
    assert_bounds(uop_load(length->src[0], DT_I32, uop_binary(OP_LT, r, k)), 0, 100);
    assert_bounds(uop_load(length->src[0], DT_U8, NULL), 0, 255);
    assert_bounds(variable(g, DT_I16, 1, 0, 0), INT16_MIN, INT16_MAX);
    assert_bounds(uop_new(g, OP_SPECIAL, DT_I32, 1, NULL, 0, (int64_t[]){0, 60}, 2), 0, 59);
    assert_bounds(uop_binary(OP_LT, r, uop_int(g, DT_I32, 8)), 1, 1);
    assert_bounds(uop_binary(OP_EQ, r, uop_int(g, DT_I32, 8)), 0, 0);
    assert_bounds(uop_binary(OP_LT, r, r), 0, 0);
    assert_bounds(uop_cast(uop_cast(r, DT_U8), DT_I64), 0, 7);
    assert_bounds(uop_cast(uop_float(g, DT_F32, 2.0), DT_I8), -128, 127);
    UOp *a = uop_cast(variable(g, DT_I32, 2, 0, 15), DT_U8), *b = variable(g, DT_I8, 3, -127, 127);
    UOp *lanes[2] = {uop_new(g, OP_SHUFFLE, DT_U8, 1, &a, 1, (int64_t[]){0, 0, 0, 0}, 4),
                     uop_new(g, OP_SHUFFLE, DT_I8, 1, &b, 1, (int64_t[]){0, 0, 0, 0}, 4)};
    UOp *dot = uop_new(g, OP_DOT4, DT_I32, 1, (UOp *[]){uop_int(g, DT_I32, 5), lanes[0], lanes[1]},
                       3, NULL, 0);
    assert_bounds(dot, 5 - 4 * 15 * 127, 5 + 4 * 15 * 127);
    UOp *v = uop_new(g, OP_VCONST, DT_I32, 4, NULL, 0, (int64_t[]){3, -1, 9, 0}, 4);
    assert_bounds(v, -1, 9);
    assert_bounds(uop_new(g, OP_VCAT, DT_I32, 1, (UOp *[]){v, uop_int(g, DT_I32, 20)}, 2, NULL, 0),
                  -1, 20);
    assert_bounds(uop_new(g, OP_HFOLD, DT_I32, 1, &v, 1, (int64_t[]){MONOID_SUM, 4}, 2), -4, 36);
    UOp *place = uop_cast(lanes[0], DT_I32);
    assert_bounds(uop_new(g, OP_LOOKUP, DT_I32, 1, (UOp *[]){v, place}, 2, NULL, 0), -1, 9);
    UOp *accum[4] = {k, ragged, r, uop_int(g, DT_I32, -2)};
    assert_bounds(uop_new(g, OP_ACCUM, DT_I32, 1, accum, 4, (int64_t[]){MONOID_SUM, 1, 1, 1, 0, 0}, 6),
                  -2, 3 * 800 - 2);
    arena_destroy(arena);
}

static void test_tensor_nodes(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = uop_new(g, OP_BUFFER, DT_I32, 1, NULL, 0, (int64_t[]){0, 2, 9, 4, 6}, 5);
    UOp *free_x = uop_new(g, OP_BUFFER, DT_I8, 1, NULL, 0, (int64_t[]){1, 0, 0, 4}, 4);
    assert_bounds(x, 2, 9);
    assert_bounds(free_x, -128, 127);
    assert_bounds(uop_new(g, OP_RESHAPE, DT_I32, 1, &x, 1, (int64_t[]){24}, 1), 2, 9);
    assert_bounds(uop_new(g, OP_PAD, DT_I32, 1, &x, 1, (int64_t[]){0, 0, 1, 1}, 4), 0, 9);
    assert_bounds(uop_new(g, OP_REDUCE, DT_I32, 1, &x, 1, (int64_t[]){MONOID_SUM, 1, 0, 1}, 4), 48,
                  216);
    assert_bounds(uop_new(g, OP_REDUCE, DT_I32, 1, &x, 1, (int64_t[]){MONOID_MIN, 1, 1}, 3), 2, 9);
    assert_bounds(uop_new(g, OP_IOTA, DT_I32, 1, NULL, 0, (int64_t[]){12}, 1), 0, 11);
    UOp *local = uop_new(g, OP_DEFINE_LOCAL, DT_I8, 1, NULL, 0, (int64_t[]){2, 64, -7, 7}, 4);
    assert_bounds(uop_load(uop_index(local, uop_int(g, DT_I32, 3)), DT_I8, NULL), -7, 7);
    assert_bounds(uop_new(g, OP_GATHER, DT_I32, 1, (UOp *[]){x, free_x}, 2, NULL, 0), 2, 9);
    assert_bounds(uop_new(g, OP_CONTIGUOUS, DT_I32, 1, &x, 1, NULL, 0), 2, 9);
    arena_destroy(arena);
}

static void test_deep_and_shared(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    // 2^60 paths, 200,000 deep.
    UOp *u = variable(g, DT_I64, 0, 0, 1);
    for (int i = 0; i < 60; i++) u = op2(OP_ADD, u, u);
    assert_bounds(u, 0, (int64_t)1 << 60);
    UOp *one = uop_int(g, DT_I64, 1);
    for (int i = 0; i < 200000; i++) u = op2(OP_ADD, u, one);
    assert_bounds(u, 200000, ((int64_t)1 << 60) + 200000); // ends only where each node is visited once
    arena_destroy(arena);
}

// The answers that a thread remembers belong to nodes, not to addresses.
static void test_arena_reuse(void **state) {
    (void)state;
    Arena *arena = arena_create();
    for (int64_t n = 1; n < 200; n++) {
        Graph *g = graph_create(arena);
        UOp *r = uop_new(g, OP_RANGE, DT_I32, 1, (UOp *[]){uop_int(g, DT_I32, n)}, 1,
                         (int64_t[]){0, RANGE_LOOP, n}, 3);
        UOp *sum = op2(OP_ADD, r, r);
        assert_bounds(sum, 0, 2 * (n - 1));
        arena_reset(arena);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_integer_op),
        cmocka_unit_test(test_division_is_tight),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_kernel_nodes),
        cmocka_unit_test(test_tensor_nodes),
        cmocka_unit_test(test_deep_and_shared),
        cmocka_unit_test(test_arena_reuse),
    };
    return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}

// test_eval: numbers of every type, constant folding and the tensor graph interpreter, against values worked out by
// hand. (test_ops_numpy compares every op row with numpy; test_eval_program runs linear programs.)
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "ir/eval.h"

#undef fail                // cmocka has its own
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static Arena *arena;
static Graph *g;

static int setup(void **state) {
    (void)state;
    arena = arena_create();
    g = graph_create(arena);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_destroy(arena);
    return 0;
}

// ---- numbers

static void wrap_keeps_the_type_s_bits(void **state) {
    (void)state;
    static const struct { DType type; int64_t in, out; } rows[] = {
        {DT_BOOL, 2, 1}, {DT_BOOL, 0, 0}, {DT_I8, 300, 44}, {DT_I8, 128, -128}, {DT_U8, -1, 255}, {DT_I16, 32768, -32768},
        {DT_U16, -1, 65535}, {DT_I32, INT64_C(1) << 31, INT32_MIN}, {DT_U32, -1, UINT32_MAX}, {DT_I64, INT64_MIN, INT64_MIN},
        {DT_U64, -1, -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(number_wrap(rows[i].type, (Number){.i = rows[i].in}).i, rows[i].out);
}

static void cast_to_integers_truncates_and_saturates(void **state) {
    (void)state;
    static const struct { DType to; double in; int64_t out; } rows[] = {
        {DT_I8, 300.7, 127}, {DT_I8, -300.7, -128}, {DT_I8, -1.9, -1}, {DT_U8, -0.5, 0}, {DT_U8, -5.0, 0}, {DT_U8, 255.9, 255},
        {DT_I32, 1e10, INT32_MAX}, {DT_I32, -1e10, INT32_MIN}, {DT_I64, 1e30, INT64_MAX}, {DT_I64, -1e30, INT64_MIN},
        {DT_I64, 0x1p63, INT64_MAX}, {DT_I64, -0x1p63, INT64_MIN}, {DT_U64, 0x1p63, INT64_MIN}, {DT_U64, 1e30, -1},
        {DT_U64, -1.0, 0}, {DT_I32, NAN, 0}, {DT_I32, INFINITY, INT32_MAX}, {DT_I16, -INFINITY, INT16_MIN},
        {DT_BOOL, 0.25, 1}, {DT_BOOL, -0.0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(number_cast(DT_F64, rows[i].to, (Number){.f = rows[i].in}).i, rows[i].out);
}

static void cast_to_floats_rounds_once(void **state) {
    (void)state;
    // Halfway cases go to even; just above goes up.
    assert_true(number_cast(DT_F64, DT_F32, (Number){.f = 1 + 0x1p-24}).f == 1);
    assert_true(number_cast(DT_F64, DT_F32, (Number){.f = 1 + 0x1p-24 + 0x1p-50}).f == 1 + 0x1p-23);
    assert_true(number_cast(DT_F64, DT_BF16, (Number){.f = 1 + 0x1p-8}).f == 1);
    assert_true(number_cast(DT_F64, DT_BF16, (Number){.f = 1 + 3 * 0x1p-8}).f == 1 + 0x1p-6);
    assert_true(number_cast(DT_F64, DT_F16, (Number){.f = 65519.99}).f == 65504);
    assert_true(isinf(number_cast(DT_F64, DT_F16, (Number){.f = 65520}).f));
    assert_true(isnan(number_cast(DT_F64, DT_F16, (Number){.f = NAN}).f));
    // 2^60 + 2^36 + 1 through a double would lose its last bit, and then round down to even.
    int64_t i = (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1;
    assert_true(number_cast(DT_I64, DT_F32, (Number){.i = i}).f == 0x1p60 + 0x1p37);
    assert_true(number_cast(DT_U64, DT_F64, (Number){.i = -1}).f == 0x1p64);
    assert_true(number_cast(DT_U64, DT_F32, (Number){.i = -1}).f == 0x1p64);
}

// Every finite half is its own encoding, and the midpoint of two neighbours goes to the even one.
static void f16_round_trips_and_rounds_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double x = f64_from_f16((uint16_t)h), next = h + 1 == 0x7c00 ? 65536 : f64_from_f16((uint16_t)(h + 1));
        double middle = (x + next) / 2;
        assert_int_equal(f16_from_f64(x), h);
        assert_int_equal(f16_from_f64(-x), h | 0x8000);
        assert_int_equal(f16_from_f64(middle), h + (h & 1));
        assert_int_equal(f16_from_f64(nextafter(middle, 0)), h);
        assert_int_equal(f16_from_f64(nextafter(middle, 1e9)), h + 1);
    }
    assert_true(isinf(f64_from_f16(0x7c00)) && f64_from_f16(0xfc00) < 0);
    assert_true(isnan(f64_from_f16(0x7e01)));
    assert_true(signbit(f64_from_f16(0x8000)) && f64_from_f16(0x8000) == 0);
    assert_int_equal(f16_from_f64(0x1p-25), 0);
    assert_int_equal(f16_from_f64(nextafter(0x1p-25, 1)), 1);
    assert_int_equal(f16_from_f64(0x1p-1070), 0);
    assert_int_equal(f16_from_f64(1e300), 0x7c00);
}

static void bf16_is_the_upper_half_of_f32(void **state) {
    (void)state;
    for (uint32_t h = 0; h <= UINT16_MAX; h++) {
        uint16_t half = (uint16_t)h, back;
        uint32_t bits = h << 16;
        float want;
        memcpy(&want, &bits, sizeof want);
        Number n = number_load(DT_BF16, &half);
        if (isnan(want)) {
            assert_true(isnan(n.f));
            continue;
        }
        assert_true(n.f == (double)want);
        number_store(DT_BF16, &back, n);
        assert_int_equal(back, half);
    }
}

static void memory_keeps_every_type(void **state) {
    (void)state;
    for (int type = DT_BOOL; type < DT_COUNT; type++) {
        uint8_t bytes[9];
        memset(bytes, 0xAA, sizeof bytes);
        bool is_float = dtype_is_float((DType)type);
        Number in = is_float ? (Number){.f = -1.5} : number_wrap((DType)type, (Number){.i = -77});
        number_store((DType)type, bytes + 1, in);       // unaligned
        Number out = number_load((DType)type, bytes + 1);
        assert_true(is_float ? out.f == in.f : out.i == in.i);
        for (int k = 1 + dtype_bytes((DType)type); k < 9; k++)
            assert_int_equal(bytes[k], 0xAA);
    }
}

// ---- ops and folding

static void ops_at_the_limits_of_integers(void **state) {
    (void)state;
    static const struct { Op op; DType type; int64_t a, b, out; } rows[] = {
        {OP_ADD, DT_I8, 127, 1, -128}, {OP_SUB, DT_U8, 0, 1, 255}, {OP_MUL, DT_I64, INT64_MAX, 2, -2},
        {OP_IDIV, DT_I32, -7, 2, -4}, {OP_MOD, DT_I32, -7, 2, 1}, {OP_MOD, DT_I32, 7, -2, -1}, {OP_IDIV, DT_I32, 7, 0, 0},
        {OP_MOD, DT_I32, 7, 0, 0}, {OP_IDIV, DT_I64, INT64_MIN, -1, INT64_MIN}, {OP_MOD, DT_I64, INT64_MIN, -1, 0},
        {OP_IDIV, DT_I8, -128, -1, -128}, {OP_SHL, DT_I32, 1, 31, INT32_MIN}, {OP_SHL, DT_I32, 1, 32, 0},
        {OP_SHL, DT_I32, 1, -1, 0}, {OP_SHL, DT_I64, 1, 64, 0}, {OP_SHR, DT_I32, -8, 1, -4}, {OP_SHR, DT_I32, -8, 99, -1},
        {OP_SHR, DT_I32, -8, -1, -1}, {OP_SHR, DT_U32, 8, 40, 0}, {OP_SHR, DT_U64, -1, 63, 1}, {OP_SHR, DT_U64, -1, 64, 0},
        {OP_IDIV, DT_U64, -1, 2, INT64_MAX}, {OP_MOD, DT_U64, -1, 10, 5}, {OP_LT, DT_U64, -1, 1, 0}, {OP_LT, DT_I64, -1, 1, 1},
        {OP_MAX, DT_U64, -1, 1, -1}, {OP_MIN, DT_U64, -1, 1, 1}, {OP_ADD, DT_BOOL, 1, 1, 1}, {OP_XOR, DT_BOOL, 1, 1, 0},
        {OP_NOT, DT_BOOL, 1, 0, 0}, {OP_NEG, DT_I8, -128, 0, -128}, {OP_NEG, DT_U8, 1, 0, 255},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Number out, args[2] = {{.i = rows[i].a}, {.i = rows[i].b}};
        assert_true(eval_op(rows[i].op, rows[i].type, args, &out));
        if (out.i != rows[i].out)
            fail_msg("row %zu: %s gave %lld", i, op_info[rows[i].op].name, (long long)out.i);
    }
}

static void float_ops_follow_ieee(void **state) {
    (void)state;
    Number out;
    assert_true(eval_op(OP_LT, DT_F32, (Number[]){{.f = NAN}, {.f = 1}}, &out) && out.i == 0);
    assert_true(eval_op(OP_NE, DT_F32, (Number[]){{.f = NAN}, {.f = NAN}}, &out) && out.i == 1);
    assert_true(eval_op(OP_MAX, DT_F32, (Number[]){{.f = NAN}, {.f = 1}}, &out) && out.f == 1);
    assert_true(eval_op(OP_MIN, DT_F32, (Number[]){{.f = 1}, {.f = NAN}}, &out) && out.f == 1);
    assert_true(eval_op(OP_MAX, DT_F32, (Number[]){{.f = -0.0}, {.f = 0.0}}, &out) && !signbit(out.f));
    assert_true(eval_op(OP_MIN, DT_F32, (Number[]){{.f = 0.0}, {.f = -0.0}}, &out) && signbit(out.f));
    assert_true(eval_op(OP_ROUND, DT_F32, (Number[]){{.f = 2.5}}, &out) && out.f == 2);
    assert_true(eval_op(OP_WHERE, DT_F32, (Number[]){{.i = 1}, {.f = 2}, {.f = 3}}, &out) && out.f == 2);
    assert_true(eval_op(OP_WHERE, DT_F32, (Number[]){{.i = 0}, {.f = 2}, {.f = 3}}, &out) && out.f == 3);
    assert_true(eval_op(OP_RECIP, DT_F32, (Number[]){{.f = -0.0}}, &out) && out.f == -INFINITY);
    // One rounding: 1 + 2^-60 - 1 is lost by a product and a sum of doubles.
    assert_true(eval_op(OP_MULADD, DT_F64, (Number[]){{.f = 1 + 0x1p-30}, {.f = 1 - 0x1p-30}, {.f = -1}}, &out));
    assert_true(out.f == -0x1p-60);
}

static void rows_without_a_meaning_are_refused(void **state) {
    (void)state;
    Number out = {0}, args[3] = {{.i = 1}, {.i = 2}, {.i = 3}};
    static const struct { Op op; DType type; } rows[] = {
        {OP_FDIV, DT_I32}, {OP_SQRT, DT_I8}, {OP_AND, DT_F32}, {OP_SHL, DT_F16}, {OP_CAST, DT_F32}, {OP_DOT4, DT_I32},
        {OP_RESHAPE, DT_F32}, {OP_CONST, DT_I32}, {OP_ADD, DT_VOID}, {OP_LOAD, DT_U64},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_false(eval_op(rows[i].op, rows[i].type, args, &out));
}

static UOp *node(Op op, DType dtype, UOp *a, UOp *b) {
    return uop_new(g, op, dtype, a->lanes, (UOp *[]){a, b}, b ? 2 : 1, NULL, 0);
}

static void constants_fold(void **state) {
    (void)state;
    UOp *three = uop_int(g, DT_I8, 3), *big = uop_int(g, DT_I8, 127), *half = uop_float(g, DT_F32, 0.5);
    UOp *u = eval_fold_constants(node(OP_ADD, DT_I8, big, three));
    assert_ptr_equal(u, uop_int(g, DT_I8, -126));
    assert_ptr_equal(eval_fold_constants(node(OP_LT, DT_BOOL, three, big)), uop_int(g, DT_BOOL, 1));
    assert_ptr_equal(eval_fold_constants(node(OP_CAST, DT_F32, three, NULL)), uop_float(g, DT_F32, 3));
    assert_ptr_equal(eval_fold_constants(node(OP_BITCAST, DT_I32, half, NULL)), uop_int(g, DT_I32, 0x3f000000));
    // 0.1 has no f32: the fold rounds, so that a folded constant is what memory would hold.
    u = eval_fold_constants(node(OP_FDIV, DT_F32, uop_float(g, DT_F32, 1), uop_float(g, DT_F32, 10)));
    assert_true(uop_const_float(u) == (double)0.1f);
    u = eval_fold_constants(uop_new(g, OP_WHERE, DT_F32, 1, (UOp *[]){uop_int(g, DT_BOOL, 0), half, uop_float(g, DT_F32, 7)},
                                    3, NULL, 0));
    assert_true(uop_const_float(u) == 7);
    UOp *range = uop_range_const(g, 8, RANGE_LOOP);
    assert_null(eval_fold_constants(node(OP_MUL, DT_I32, range, uop_int(g, DT_I32, 3))));
    assert_null(eval_fold_constants(three));
    // All NaNs are one constant.
    UOp *nan = node(OP_SQRT, DT_F32, uop_float(g, DT_F32, -1), NULL), *other = node(OP_LOG, DT_F32, uop_float(g, DT_F32, -2), NULL);
    assert_ptr_equal(eval_fold_constants(nan), eval_fold_constants(other));
}

// ---- tensor graphs

enum { MAX_BUFFERS = 4 };
static void *memory[MAX_BUFFERS];

static void *address_of(void *context, int64_t id) {
    (void)context;
    return id >= 0 && id < MAX_BUFFERS ? memory[id] : NULL;
}

static const EvalBuffers buffers = {address_of, NULL};

static UOp *buffer(int64_t id, DType dtype, void *bytes, int ndim, const int64_t *shape) {
    int64_t arg[8] = {id, dtype_info[dtype].lo, dtype_info[dtype].hi};
    memory[id] = bytes;
    memcpy(arg + 3, shape, (size_t)ndim * sizeof *shape);
    return uop_new(g, OP_BUFFER, dtype, 1, NULL, 0, arg, 3 + ndim);
}

#define SHAPE(...) (int)COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__}
#define ARGS(...) (int64_t[]){__VA_ARGS__}, (int)COUNT(((int64_t[]){__VA_ARGS__}))
#define MOVE(op, a, ...) uop_new(g, op, (a)->dtype, 1, (UOp *[]){a}, 1, ARGS(__VA_ARGS__))

static EvalTensor value_of(UOp *u) {
    EvalTensor t = {0};
    Error err = {0};
    if (!eval_graph(arena, u, &buffers, &t, &err))
        fail_msg("%s", err.text);
    assert_int_equal(t.dtype, u->dtype);
    assert_int_equal(t.ndim, u->ndim);
    return t;
}

static void expect(UOp *u, const double *want, size_t n) {
    EvalTensor t = value_of(u);
    assert_int_equal(t.count, n);
    for (size_t i = 0; i < n; i++) {
        double got = dtype_is_float(t.dtype) ? t.at[i].f : (double)t.at[i].i;
        if (got != want[i])
            fail_msg("element %zu is %g, not %g", i, got, want[i]);
    }
}
#define EXPECT(u, ...) expect(u, (double[]){__VA_ARGS__}, COUNT(((double[]){__VA_ARGS__})))

static void movement_ops_move(void **state) {
    (void)state;
    int32_t data[] = {0, 1, 2, 3, 4, 5};
    UOp *a = buffer(0, DT_I32, data, SHAPE(2, 3));
    EXPECT(a, 0, 1, 2, 3, 4, 5);
    EXPECT(MOVE(OP_PERMUTE, a, 1, 0), 0, 3, 1, 4, 2, 5);
    EXPECT(MOVE(OP_FLIP, a, 1), 2, 1, 0, 5, 4, 3);
    EXPECT(MOVE(OP_FLIP, a, 0, 1), 5, 4, 3, 2, 1, 0);
    EXPECT(MOVE(OP_SHRINK, a, 1, 2, 0, 2), 3, 4);
    EXPECT(MOVE(OP_PAD, a, 1, 0, 0, 1), 0, 0, 0, 0, 0, 1, 2, 0, 3, 4, 5, 0);
    EXPECT(MOVE(OP_PAD, a, 0, 0, 2, 0), 0, 0, 0, 1, 2, 0, 0, 3, 4, 5);
    UOp *row = MOVE(OP_RESHAPE, MOVE(OP_SHRINK, a, 1, 2, 0, 3), 3, 1);
    EXPECT(MOVE(OP_EXPAND, row, 3, 2), 3, 3, 4, 4, 5, 5);
    EXPECT(MOVE(OP_PERMUTE, MOVE(OP_RESHAPE, a, 1, 2, 3), 2, 0, 1), 0, 3, 1, 4, 2, 5);
    // A pad inside a pad, flipped: the odometer leaves and enters the inside on both axes.
    UOp *twice = MOVE(OP_FLIP, MOVE(OP_PAD, MOVE(OP_PAD, a, 0, 1, 0, 0), 0, 0, 1, 0), 0);
    EXPECT(twice, 0, 0, 0, 0, 0, 3, 4, 5, 0, 0, 1, 2);
}

static void bitcasts_change_the_last_axis(void **state) {
    (void)state;
    uint8_t data[] = {0, 0, 128, 63, 0, 0, 0, 64, 1, 2, 3, 4, 0, 0, 0, 128};
    UOp *a = buffer(0, DT_U8, data, SHAPE(2, 8));
    UOp *f = uop_bitcast(a, DT_F32);
    assert_int_equal(f->shape[1], 2);
    UOp *upper = MOVE(OP_SHRINK, f, 0, 1, 0, 2);
    EXPECT(upper, 1, 2);
    EXPECT(uop_bitcast(upper, DT_U16), 0, 0x3f80, 0, 0x4000);
    EXPECT(uop_bitcast(MOVE(OP_FLIP, a, 1), DT_U16), 64, 0, 0x803f, 0, 128, 0, 0x0304, 0x0102);
}

static void gather_and_iota(void **state) {
    (void)state;
    int16_t data[] = {10, 11, 20, 21, 30, 31};
    int32_t index[] = {2, 0, 0, 1};
    UOp *a = buffer(0, DT_I16, data, SHAPE(3, 2)), *i = buffer(1, DT_I32, index, SHAPE(2, 2));
    UOp *rows = uop_new(g, OP_GATHER, DT_I16, 1, (UOp *[]){a, i}, 2, NULL, 0);
    assert_int_equal(rows->ndim, 3);
    EXPECT(rows, 30, 31, 10, 11, 10, 11, 20, 21);
    EXPECT(uop_new(g, OP_IOTA, DT_I32, 1, NULL, 0, ARGS(4)), 0, 1, 2, 3);
    index[3] = 3;
    EvalTensor t;
    Error err = {0};
    assert_false(eval_graph(arena, rows, &buffers, &t, &err));
    assert_non_null(strstr(err.text, "index 3"));
}

static UOp *reduce(Monoid m, UOp *a, int axis, int other) {
    return uop_new(g, OP_REDUCE, a->dtype, 1, (UOp *[]){a}, 1, (int64_t[]){m, 16, axis, other}, other < 0 ? 3 : 4);
}

static void reductions(void **state) {
    (void)state;
    float data[] = {1, -2, NAN, 4, 5, 6};
    int8_t small[] = {100, 100, -128, 1, 2, 3};
    UOp *a = buffer(0, DT_F32, data, SHAPE(2, 3)), *b = buffer(1, DT_I8, small, SHAPE(2, 3));
    EXPECT(reduce(MONOID_MAX, a, 1, -1), 1, 6);
    EXPECT(reduce(MONOID_MIN, a, 0, 1), -2);
    EXPECT(MOVE(OP_SHRINK, reduce(MONOID_SUM, a, 0, -1), 0, 2), 5, 3);
    EXPECT(reduce(MONOID_SUM, b, 1, -1), 72, 6);            // 200 - 128 in i8, wrapped at each step
    EXPECT(reduce(MONOID_SUM, uop_cast(b, DT_I32), 0, -1), 101, 102, -125);
    EXPECT(reduce(MONOID_MAX, b, 1, 0), 100);
    float none[] = {NAN, NAN};
    UOp *c = buffer(2, DT_F32, none, SHAPE(2));
    EXPECT(reduce(MONOID_MAX, c, 0, -1), -INFINITY);
    // Middle axis of three.
    int32_t cube[] = {1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT(reduce(MONOID_SUM, buffer(3, DT_I32, cube, SHAPE(2, 2, 2)), 1, -1), 4, 6, 12, 14);
}

static UOp *assign(UOp *target, UOp *value) { return uop_new(g, OP_ASSIGN, DT_VOID, 1, (UOp *[]){target, value}, 2, NULL, 0); }

static void assign_writes_through_views(void **state) {
    (void)state;
    float data[8] = {0, 1, 2, 3, 4, 5, 6, 7}, two[] = {70, 80};
    UOp *a = buffer(0, DT_F32, data, SHAPE(4, 2)), *v = buffer(1, DT_F32, two, SHAPE(2));
    UOp *row = MOVE(OP_RESHAPE, MOVE(OP_FLIP, MOVE(OP_SHRINK, a, 1, 2, 0, 2), 1), 2);
    UOp *done = uop_after(a, (UOp *[]){assign(row, v)}, 1);
    // Reads before the store see the old cells, reads after it the new ones.
    UOp *both = node(OP_ADD, DT_F32, a, done);
    EXPECT(both, 0, 2, 82, 73, 8, 10, 12, 14);
    assert_true(data[2] == 80 && data[3] == 70 && data[0] == 0 && data[4] == 4);
}

static void assign_scatters_rows_and_the_last_duplicate_wins(void **state) {
    (void)state;
    uint16_t data[6] = {0};
    int32_t index[] = {2, 0, 2};
    float rows[] = {1, 2, 3, 4, 5, 6};
    UOp *a = buffer(0, DT_F16, data, SHAPE(3, 2)), *i = buffer(1, DT_I32, index, SHAPE(3));
    UOp *value = uop_cast(buffer(2, DT_F32, rows, SHAPE(3, 2)), DT_F16);
    UOp *target = uop_new(g, OP_GATHER, DT_F16, 1, (UOp *[]){a, i}, 2, NULL, 0);
    UOp *done = uop_after(a, (UOp *[]){assign(target, value)}, 1);
    EXPECT(MOVE(OP_RESHAPE, done, 6), 3, 4, 0, 0, 5, 6);
    assert_int_equal(data[5], f16_from_f64(6));
}

static void chained_stores_run_in_order(void **state) {
    (void)state;
    int32_t data[3] = {1, 2, 3};
    UOp *a = buffer(0, DT_I32, data, SHAPE(3)), *one = MOVE(OP_EXPAND, MOVE(OP_RESHAPE, uop_int(g, DT_I32, 1), 1), 3);
    UOp *first = uop_after(a, (UOp *[]){assign(a, node(OP_ADD, DT_I32, a, one))}, 1);
    UOp *second = uop_after(first, (UOp *[]){assign(MOVE(OP_FLIP, first, 0), first)}, 1);
    UOp *read = MOVE(OP_SHRINK, second, 0, 2);
    UOp *view = uop_after(MOVE(OP_FLIP, a, 0), second->src + 1, 1);
    assert_int_equal(value_of(uop_sink(g, (UOp *[]){read, view}, 2)).count, 0);
    assert_int_equal(data[0], 4);
    assert_int_equal(data[2], 2);
}

static void padding_of_a_target_is_not_stored(void **state) {
    (void)state;
    uint8_t data[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    int32_t values[] = {1, 2, 3};
    UOp *a = buffer(0, DT_U8, data, SHAPE(8)), *v = buffer(1, DT_I32, values, SHAPE(3));
    UOp *target = MOVE(OP_PAD, uop_bitcast(a, DT_I32), 0, 1);
    EXPECT(uop_after(a, (UOp *[]){assign(target, v)}, 1), 1, 0, 0, 0, 2, 0, 0, 0);
}

static void graphs_that_mean_nothing_are_errors(void **state) {
    (void)state;
    EvalTensor t;
    UOp *missing = uop_new(g, OP_BUFFER, DT_F32, 1, NULL, 0, ARGS(99, 0, 0, 4));
    UOp *huge = MOVE(OP_EXPAND, MOVE(OP_RESHAPE, uop_int(g, DT_I32, 1), 1, 1), INT64_C(1) << 40, INT64_C(1) << 40);
    UOp *wide = MOVE(OP_EXPAND, MOVE(OP_RESHAPE, uop_int(g, DT_I32, 1), 1), INT64_C(1) << 45);
    struct { UOp *root; const char *says; } rows[] = {
        {missing, "buffer 99"},
        {uop_poison(g, "matmul: 3 and 4 differ"), "3 and 4 differ"},
        {uop_range_const(g, 4, RANGE_LOOP), "RANGE"},
        {assign(uop_int(g, DT_I32, 1), uop_int(g, DT_I32, 2)), "not a view of a buffer"},
        {huge, "too large"},
        {wide, "no memory"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Error err = {0};
        assert_false(eval_graph(arena, rows[i].root, &buffers, &t, &err));
        if (!strstr(err.text, rows[i].says))
            fail_msg("row %zu says: %s", i, err.text);
    }
}

// A product, a soft-max and a mask: the shapes of everyday graphs, freed storage reused on the way.
static void a_small_attention(void **state) {
    (void)state;
    float q[] = {1, 0, 0, 1}, k[] = {1, 2, 3, 4, 5, 6};
    UOp *a = MOVE(OP_RESHAPE, buffer(0, DT_F32, q, SHAPE(2, 2)), 2, 1, 2), *b = MOVE(OP_RESHAPE, buffer(1, DT_F32, k, SHAPE(3, 2)), 1, 3, 2);
    UOp *s = reduce(MONOID_SUM, node(OP_MUL, DT_F32, MOVE(OP_EXPAND, a, 2, 3, 2), MOVE(OP_EXPAND, b, 2, 3, 2)), 2, -1);
    EXPECT(s, 1, 3, 5, 2, 4, 6);
    UOp *top = MOVE(OP_EXPAND, MOVE(OP_RESHAPE, reduce(MONOID_MAX, s, 1, -1), 2, 1), 2, 3);
    UOp *e = uop_unary(OP_EXP, node(OP_SUB, DT_F32, s, top));
    UOp *total = MOVE(OP_EXPAND, MOVE(OP_RESHAPE, reduce(MONOID_SUM, e, 1, -1), 2, 1), 2, 3);
    EvalTensor t = value_of(node(OP_FDIV, DT_F32, e, total));
    double sum = exp(-4) + exp(-2) + 1;
    for (int i = 0; i < 6; i++)
        assert_true(fabs(t.at[i].f - exp(-4 + 2 * (i % 3)) / sum) < 1e-15);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(wrap_keeps_the_type_s_bits), TEST(cast_to_integers_truncates_and_saturates), TEST(cast_to_floats_rounds_once),
        TEST(f16_round_trips_and_rounds_to_even), TEST(bf16_is_the_upper_half_of_f32), TEST(memory_keeps_every_type),
        TEST(ops_at_the_limits_of_integers), TEST(float_ops_follow_ieee), TEST(rows_without_a_meaning_are_refused),
        TEST(constants_fold), TEST(movement_ops_move), TEST(bitcasts_change_the_last_axis), TEST(gather_and_iota),
        TEST(reductions), TEST(assign_writes_through_views), TEST(assign_scatters_rows_and_the_last_duplicate_wins),
        TEST(chained_stores_run_in_order), TEST(padding_of_a_target_is_not_stored), TEST(graphs_that_mean_nothing_are_errors),
        TEST(a_small_attention),
    };
    return cmocka_run_group_tests_name("eval", tests, NULL, NULL);
}

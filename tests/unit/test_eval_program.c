// test_eval_program: linear programs as codegen makes them, written by hand.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "ir/eval.h"
#include "ir/eval_program.h"

#undef fail                // cmocka has its own
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define ARGS(...) (int64_t[]){__VA_ARGS__}, (int)COUNT(((int64_t[]){__VA_ARGS__}))

static Arena *arena;
static Graph *g;
static UOp *lines[64];       // the program under construction
static UOpList program;

static int setup(void **state) {
    (void)state;
    arena = arena_create();
    g = graph_create(arena);
    program = (UOpList){.at = lines};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_destroy(arena);
    return 0;
}

// Appends a node to the program.
static UOp *emit(UOp *u) {
    assert_false(uop_is_poison(u));
    assert_true(program.len < COUNT(lines));
    lines[program.len++] = u;
    return u;
}

static UOp *leaf(Op op, DType dtype, const int64_t *arg, int n_arg) { return emit(uop_new(g, op, dtype, 1, NULL, 0, arg, n_arg)); }
static UOp *param(int64_t slot, DType dtype, int64_t nbytes) { return leaf(OP_PARAM, dtype, ARGS(slot, nbytes, 1, 0, 0)); }
static UOp *number(int64_t n) { return emit(uop_int(g, DT_I32, n)); }
static UOp *tile(void) { return leaf(OP_SPECIAL, DT_I32, ARGS(0)); }
static UOp *range(UOp *end) { return emit(uop_range(g, end, RANGE_LOOP)); }
static void end_of(UOp *r) { emit(uop_new(g, OP_END, DT_VOID, 1, &r, 1, NULL, 0)); }

static UOp *binary(Op op, UOp *a, UOp *b) { return emit(uop_new(g, op, a->dtype, a->lanes, (UOp *[]){a, b}, 2, NULL, 0)); }

static UOp *load(UOp *from, UOp *index, DType dtype, int lanes, UOp *valid) {
    UOp *src[2] = {emit(uop_index(from, index)), valid};
    return emit(uop_new(g, OP_LOAD, dtype, lanes, src, valid ? 2 : 1, NULL, 0));
}

static UOp *store(UOp *to, UOp *index, UOp *value) { return emit(uop_store(emit(uop_index(to, index)), value, NULL, 0)); }

static void run(void *const *params, long tiles) {
    Error err = {0};
    if (!eval_program(arena, &program, params, 0, tiles, &err))
        fail_msg("%s", err.text);
}

static void expect_error(void *const *params, long tiles, const char *says) {
    Error err = {0};
    assert_false(eval_program(arena, &program, params, 0, tiles, &err));
    if (!strstr(err.text, says))
        fail_msg("says: %s", err.text);
}

static void tiles_add_vectors(void **state) {
    (void)state;
    float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40}, y[4] = {0};
    UOp *pa = param(0, DT_F32, sizeof a), *pb = param(1, DT_F32, sizeof b), *py = param(2, DT_F32, sizeof y), *t = tile();
    store(py, t, binary(OP_ADD, load(pa, t, DT_F32, 1, NULL), load(pb, t, DT_F32, 1, NULL)));
    Error err = {0};
    EvalCode *code = eval_code_make(arena, &program, &err);
    assert_non_null(code);
    void *params[] = {a, b, y};
    assert_true(eval_code_run(code, params, 1, 3, &err));
    assert_true(y[0] == 0 && y[1] == 22 && y[2] == 33 && y[3] == 0);
    size_t used = arena_used(arena);
    assert_true(eval_code_run(code, params, 0, 4, &err));
    assert_true(y[0] == 11 && y[3] == 44);
    assert_int_equal(arena_used(arena), used);           // a second run allocates nothing
}

// y[t] = Σ_{k<n[t]} w[t,k]: the accumulator is zeroed for each tile, the loop ends at a loaded value.
static void loops_end_at_loaded_values(void **state) {
    (void)state;
    int32_t n[] = {0, 1, 3};
    float w[] = {1, 2, 3, 10, 20, 30, 100, 200, 300}, y[3] = {-1, -1, -1};
    UOp *pn = param(0, DT_I32, sizeof n), *pw = param(1, DT_F32, sizeof w), *py = param(2, DT_F32, sizeof y);
    UOp *t = tile(), *acc = leaf(OP_DEFINE_REG, DT_F32, ARGS(7, 1)), *zero = number(0);
    UOp *r = range(load(pn, t, DT_I32, 1, NULL));
    UOp *at = binary(OP_ADD, binary(OP_MUL, t, number(3)), r);
    UOp *sum = binary(OP_ADD, load(acc, zero, DT_F32, 1, NULL), load(pw, at, DT_F32, 1, NULL));
    UOp *done = store(acc, zero, sum);
    end_of(r);
    UOp *after = emit(uop_after(acc, &done, 1));
    store(py, t, load(after, zero, DT_F32, 1, NULL));
    run((void *[]){n, w, y}, 3);
    assert_true(y[0] == 0 && y[1] == 10 && y[2] == 600);
}

static void nested_loops_recompute_and_redefine(void **state) {
    (void)state;
    int32_t y[6] = {0};
    UOp *py = param(0, DT_I32, sizeof y), *two = number(2), *three = number(3), *zero = number(0), *one = number(1);
    UOp *i = range(two), *counter = leaf(OP_DEFINE_REG, DT_I32, ARGS(1, 1)), *j = range(three);
    UOp *next = binary(OP_ADD, load(counter, zero, DT_I32, 1, NULL), one);
    store(counter, zero, next);
    store(py, binary(OP_ADD, binary(OP_MUL, i, three), j), next);
    end_of(j);
    end_of(i);
    run((void *[]){y}, 1);
    for (int k = 0; k < 6; k++)
        assert_int_equal(y[k], k % 3 + 1);
}

// Bytes at odd addresses read as halves and words: an index counts the buffer's elements, not the load's.
static void loads_are_wider_than_their_buffer(void **state) {
    (void)state;
    uint8_t bytes[] = {7, 0, 0x3c, 0, 0x40, 1, 2, 3, 4, 255, 255, 255, 127};
    double y[7];
    UOp *pb = param(0, DT_U8, sizeof bytes), *py = param(1, DT_F64, sizeof y);
    UOp *halves = load(pb, number(1), DT_F16, 2, NULL), *words = load(pb, number(5), DT_I32, 2, NULL);
    UOp *low = load(pb, number(9), DT_I8, 3, NULL);
    UOp *parts[] = {halves, words, low};
    for (int i = 0; i < 3; i++)
        parts[i] = emit(uop_new(g, OP_CAST, DT_F64, 1, &parts[i], 1, NULL, 0));
    store(py, number(0), emit(uop_new(g, OP_VCAT, DT_F64, 1, parts, 3, NULL, 0)));
    run((void *[]){bytes, y}, 1);
    static const double want[] = {1, 2, 0x04030201, 0x7fffffff, -1, -1, -1};
    assert_memory_equal(y, want, sizeof want);
}

static void invalid_loads_read_nothing(void **state) {
    (void)state;
    float a[] = {5, 6}, y[4] = {9, 9, 9, 9};
    UOp *pa = param(0, DT_F32, sizeof a), *py = param(1, DT_F32, sizeof y), *t = tile(), *two = number(2);
    UOp *valid = emit(uop_new(g, OP_LT, DT_BOOL, 1, (UOp *[]){t, two}, 2, NULL, 0));
    store(py, t, load(pa, t, DT_F32, 1, valid));
    run((void *[]){a, y}, 4);
    assert_true(y[0] == 5 && y[1] == 6 && y[2] == 0 && y[3] == 0);
}

static void lanes_gather_and_scatter(void **state) {
    (void)state;
    int16_t a[] = {10, 11, 12, 13}, y[4] = {0};
    UOp *pa = param(0, DT_I16, sizeof a), *py = param(1, DT_I16, sizeof y);
    UOp *from = leaf(OP_VCONST, DT_I32, ARGS(3, 0, 99)), *to = leaf(OP_VCONST, DT_I32, ARGS(0, 2, 1));
    UOp *valid = leaf(OP_VCONST, DT_BOOL, ARGS(1, 1, 0));
    UOp *src[] = {emit(uop_new(g, OP_INDEX, DT_I16, 3, (UOp *[]){pa, from}, 2, NULL, 0)), valid};
    UOp *v = emit(uop_new(g, OP_LOAD, DT_I16, 3, src, 2, NULL, 0));
    UOp *target = emit(uop_new(g, OP_INDEX, DT_I16, 3, (UOp *[]){py, to}, 2, NULL, 0));
    emit(uop_store(target, v, NULL, 0));
    run((void *[]){a, y}, 1);
    assert_true(y[0] == 13 && y[1] == 0 && y[2] == 10 && y[3] == 0);
}

static void vector_ops(void **state) {
    (void)state;
    double y[4];
    int32_t z[6];
    UOp *py = param(0, DT_F64, sizeof y), *pz = param(1, DT_I32, sizeof z);
    double big[] = {1, 1e16, -1e16, 1, 3, 0.5, 4, 0.25};
    int64_t bits[8];
    memcpy(bits, big, sizeof bits);
    UOp *v = leaf(OP_VCONST, DT_F64, bits, 8);
    // Halves first: (1 + -1e16) + (1e16 + 1), and not (1 + 1e16) + (-1e16 + 1), nor from left to right.
    UOp *sums = emit(uop_new(g, OP_HFOLD, DT_F64, 1, &v, 1, ARGS(MONOID_SUM, 4)));
    UOp *tops = emit(uop_new(g, OP_HFOLD, DT_F64, 1, &v, 1, ARGS(MONOID_MAX, 4)));
    store(py, number(0), emit(uop_new(g, OP_VCAT, DT_F64, 1, (UOp *[]){sums, tops}, 2, NULL, 0)));
    UOp *small = leaf(OP_VCONST, DT_I32, ARGS(0x01020304, -1));
    UOp *bytes = emit(uop_new(g, OP_BITCAST, DT_I8, 1, &small, 1, NULL, 0));
    assert_int_equal(bytes->lanes, 8);
    UOp *mixed = emit(uop_new(g, OP_SHUFFLE, DT_I8, 1, &bytes, 1, ARGS(3, 3, 0, 7, 4, 1)));
    store(pz, number(0), emit(uop_new(g, OP_CAST, DT_I32, 1, &mixed, 1, NULL, 0)));
    run((void *[]){y, z}, 1);
    double first = 1 + -1e16, second = 1e16 + 1;
    assert_true(y[0] == first + second && y[1] == 7.75 && y[2] == 1e16 && y[3] == 4);
    static const int32_t want[] = {1, 1, 4, -1, -1, 3};
    assert_memory_equal(z, want, sizeof want);
}

static void lookup_reads_lanes_of_a_table(void **state) {
    (void)state;
    uint8_t index[] = {3, 0, 2, 2, 1, 3};
    int8_t y[6];
    UOp *pi = param(0, DT_U8, sizeof index), *py = param(1, DT_I8, sizeof y), *zero = number(0);
    UOp *src[] = {leaf(OP_VCONST, DT_I8, ARGS(-128, 7, 0, 127)), load(pi, zero, DT_U8, 6, NULL)};
    store(py, zero, emit(uop_new(g, OP_LOOKUP, DT_I8, 1, src, 2, NULL, 0)));
    run((void *[]){index, y}, 1);
    static const int8_t want[] = {127, -128, 0, 0, 7, 127};
    assert_memory_equal(y, want, sizeof want);
}

// Two words: 0x0fedcba987654321 and one whose first and last bits are set.
static void bits_go_round_in_groups_of_8(void **state) {
    (void)state;
    uint8_t x[] = {0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f, 1, 0, 0, 0, 0, 0, 0, 0x80}, y[16];
    UOp *px = param(0, DT_U8, sizeof x), *py = param(1, DT_U8, sizeof y), *zero = number(0);
    UOp *places = leaf(OP_VCONST, DT_U8, ARGS(0, 4, 8, 12, 56, 60, 63, 3, 0, 63, 62, 1, 64, 56, 57, 120));
    UOp *src[] = {load(px, zero, DT_U8, 16, NULL), places};
    store(py, zero, emit(uop_new(g, OP_BITS, DT_U8, 1, src, 2, NULL, 0)));
    run((void *[]){x, y}, 1);
    static const uint8_t want[] = {0x21, 0x32, 0x43, 0x54, 0x0f, 0x10, 0x42, 0x64, 1, 3, 6, 0, 1, 0x80, 0xc0, 0x80};
    assert_memory_equal(y, want, sizeof want);
}

static void dot4_is_exact(void **state) {
    (void)state;
    uint8_t a[] = {255, 255, 255, 255, 1, 2, 3, 4};
    int8_t b[] = {-128, -128, -128, -128, 1, -1, 1, -1};
    int32_t y[] = {1000, INT32_MAX};
    UOp *pa = param(0, DT_U8, sizeof a), *pb = param(1, DT_I8, sizeof b), *py = param(2, DT_I32, sizeof y), *zero = number(0);
    UOp *src[] = {load(py, zero, DT_I32, 2, NULL), load(pa, zero, DT_U8, 8, NULL), load(pb, zero, DT_I8, 8, NULL)};
    store(py, zero, emit(uop_new(g, OP_DOT4, DT_I32, 2, src, 3, NULL, 0)));
    run((void *[]){a, b, y}, 1);
    assert_int_equal(y[0], 1000 - 4 * 255 * 128);
    assert_int_equal(y[1], INT32_MAX - 2);
}

// As in a kernel: a sum of F32 is an F32, in a value, a register and local memory alike. Decompositions rely on it.
static void floats_round_to_their_type(void **state) {
    (void)state;
    double y[5];
    UOp *py = param(0, DT_F64, sizeof y), *zero = number(0), *one = number(1);
    UOp *reg = leaf(OP_DEFINE_REG, DT_F32, ARGS(1, 2)), *local = leaf(OP_DEFINE_LOCAL, DT_F32, ARGS(2, 2));
    UOp *half = leaf(OP_DEFINE_REG, DT_F16, ARGS(3, 1));
    UOp *third = binary(OP_FDIV, emit(uop_float(g, DT_F32, 1)), emit(uop_float(g, DT_F32, 3)));
    UOp *magic = emit(uop_float(g, DT_F32, 12582912)), *x = emit(uop_float(g, DT_F32, 2.5));
    UOp *rounded = binary(OP_SUB, binary(OP_ADD, x, magic), magic);
    store(reg, one, third);
    store(local, one, third);
    store(half, zero, binary(OP_FDIV, emit(uop_float(g, DT_F16, 1)), emit(uop_float(g, DT_F16, 3))));
    UOp *from[] = {load(reg, one, DT_F32, 1, NULL), load(local, one, DT_F32, 1, NULL), load(half, zero, DT_F16, 1, NULL),
                   third, rounded};
    for (int i = 0; i < 5; i++)
        store(py, number(i), emit(uop_new(g, OP_CAST, DT_F64, 1, &from[i], 1, NULL, 0)));
    run((void *[]){y}, 1);
    double f32 = (double)(1.0f / 3);
    assert_true(y[0] == f32 && y[1] == f32 && y[2] == f64_from_f16(f16_from_f64(1.0 / 3)) && y[3] == f32 && y[4] == 2);
}

static void registers_may_be_read_as_bytes(void **state) {
    (void)state;
    uint8_t y[4];
    UOp *py = param(0, DT_U8, sizeof y), *zero = number(0), *reg = leaf(OP_DEFINE_REG, DT_I32, ARGS(1, 2));
    store(reg, zero, number(0x04030201));
    store(py, zero, load(reg, zero, DT_U8, 4, NULL));
    run((void *[]){y}, 1);
    assert_true(y[0] == 1 && y[1] == 2 && y[2] == 3 && y[3] == 4);
}

static void accesses_outside_are_errors(void **state) {
    (void)state;
    static const struct { int64_t index; int lanes; bool stores; const char *says; } rows[] = {
        {4, 1, false, "LOAD of 4 bytes at element 4"}, {2, 4, false, "LOAD of 16 bytes at element 2"},
        {-1, 1, false, "element -1"}, {-1, 1, true, "STORE of 4 bytes at element -1"}, {4, 1, true, "element 4"},
        {INT32_MAX, 1, true, "of 16 bytes"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        float a[4] = {0};
        program.len = 0;
        UOp *pa = param(0, DT_F32, sizeof a), *at = number(rows[i].index), *one = emit(uop_float(g, DT_F32, 1));
        if (rows[i].stores)
            store(pa, at, one);
        else
            load(pa, at, DT_F32, rows[i].lanes, NULL);
        expect_error((void *[]){a}, 1, rows[i].says);
    }
    program.len = 0;
    store(leaf(OP_DEFINE_REG, DT_F32, ARGS(1, 2)), number(2), emit(uop_float(g, DT_F32, 1)));
    expect_error(NULL, 1, "DEFINE_REG 1 of 8 bytes");
}

static void programs_that_are_none(void **state) {
    (void)state;
    UOp *r = range(number(3));
    expect_error(NULL, 1, "no END");
    end_of(r);
    run(NULL, 1);
    end_of(r);
    expect_error(NULL, 1, "innermost");
    program.len = 0;
    UOp *outer = range(number(2)), *inner = range(lines[0]);
    end_of(outer);
    end_of(inner);
    expect_error(NULL, 1, "innermost");
    program.len = 0;
    UOp *n = number(2), *q = range(n), *x = binary(OP_MUL, q, n);
    end_of(q);
    emit(uop_fold(MONOID_SUM, 16, x, &q, 1));
    expect_error(NULL, 1, "FOLD");
    program.len = 0;
    leaf(OP_SPECIAL, DT_I32, ARGS(1));
    expect_error(NULL, 1, "SPECIAL 1");
    program.len = 0;
    UOp *absent = uop_int(g, DT_I32, 77);
    emit(uop_new(g, OP_NEG, DT_I32, 1, &absent, 1, NULL, 0));
    expect_error(NULL, 1, "no earlier node computes");
    program.len = 0;
    param(0, DT_F32, 4);
    expect_error((void *[]){NULL}, 1, "parameter 0 has no memory");
}

// Each add rounds as its type does: 2²⁴ + 1 + 1 stays 2²⁴, which a sum in double would not.
static void tiles_add_to_one_cell(void **state) {
    (void)state;
    float sums[2] = {1.5f, 16777216.0f}, terms[6] = {1, 2, 4, 1, 1, 3};
    UOp *p0 = param(0, DT_F32, sizeof sums), *p1 = param(1, DT_F32, sizeof terms), *t = tile(), *cell = binary(OP_IDIV, t, number(3));
    UOp *value = load(p1, t, DT_F32, 1, NULL);
    UOp *to = emit(uop_index(p0, cell)), *src[2] = {to, value};
    emit(uop_new(g, OP_ATOMIC_ADD, DT_VOID, 1, src, 2, NULL, 0));
    void *params[2] = {sums, terms};
    run(params, 6);
    assert_true(sums[0] == 8.5f && sums[1] == 16777220.0f);
    expect_error(params, 7, "outside");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(tiles_add_vectors), TEST(loops_end_at_loaded_values), TEST(nested_loops_recompute_and_redefine),
        TEST(loads_are_wider_than_their_buffer), TEST(invalid_loads_read_nothing), TEST(lanes_gather_and_scatter),
        TEST(vector_ops), TEST(lookup_reads_lanes_of_a_table), TEST(dot4_is_exact), TEST(bits_go_round_in_groups_of_8),
        TEST(floats_round_to_their_type),
        TEST(tiles_add_to_one_cell), TEST(registers_may_be_read_as_bytes), TEST(accesses_outside_are_errors), TEST(programs_that_are_none),
    };
    return cmocka_run_group_tests_name("eval_program", tests, NULL, NULL);
}

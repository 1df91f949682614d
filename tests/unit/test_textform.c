// test_textform: what is printed reads back to the same nodes; text that is no graph gives an error
// with its line.
#include <math.h>

#include "base/text.h"
#include "base/vec.h"
#include "ir/textform.h"
#include "rules/support.h"

#include "rules/with_cmocka.h"

typedef VEC(UOp *) Nodes;
typedef struct Maker { Graph *g; Arena *arena; Random r; Nodes nodes; } Maker;

static UOp *pick(Maker *m) { return m->nodes.at[random_below(&m->r, (int)m->nodes.len)]; }

static void keep(Maker *m, UOp *u) {
    if (!uop_is_poison(u)) vec_push(m->arena, &m->nodes, u);
}

static UOp *random_constant(Maker *m) {
    static const double odd[] = {0.0, -0.0, 1.0 / 3, 1e-310, 1e300, INFINITY, -INFINITY, NAN};
    DType dtype = (DType)(1 + random_below(&m->r, DT_COUNT - 1));
    if (!dtype_is_float(dtype)) return uop_int(m->g, dtype, (int64_t)random_bits(&m->r));
    return uop_float(m->g, dtype, odd[random_below(&m->r, 8)]);
}

static UOp *random_buffer(Maker *m) {
    int n = random_below(&m->r, 4);
    int64_t arg[8] = {graph_unique(m->g), -3, 12};
    for (int i = 0; i < n; i++) arg[3 + i] = 1 + random_below(&m->r, 4);
    DType dtype = (DType)(1 + random_below(&m->r, DT_COUNT - 1));
    return uop_new(m->g, OP_BUFFER, dtype, 1, NULL, 0, arg, 3 + n);
}

static UOp *random_vector(Maker *m) {
    int64_t lanes[8];
    for (int i = 0; i < 8; i++) lanes[i] = (int64_t)random_bits(&m->r);
    return uop_new(m->g, OP_VCONST, random_below(&m->r, 2) ? DT_F64 : DT_I64, 8, NULL, 0, lanes, 8);
}

static UOp *random_move(Maker *m, UOp *a) {
    int64_t arg[16] = {0};
    if (a->ndim == 0 || a->ndim > 4)
        return uop_new(m->g, OP_RESHAPE, a->dtype, 1, &a, 1, (int64_t[]){1, 1}, 2);
    switch (random_below(&m->r, 4)) {
    case 0:
        for (int i = 0; i < a->ndim; i++) arg[i] = a->ndim - 1 - i;
        return uop_new(m->g, OP_PERMUTE, a->dtype, 1, &a, 1, arg, a->ndim);
    case 1:
        for (int i = 0; i < 2 * a->ndim; i++) arg[i] = random_below(&m->r, 2);
        return uop_new(m->g, OP_PAD, a->dtype, 1, &a, 1, arg, 2 * a->ndim);
    case 2: return uop_new(m->g, OP_FLIP, a->dtype, 1, &a, 1, arg, 1);
    default:
        return uop_new(m->g, OP_REDUCE, a->dtype, 1, &a, 1,
                       (int64_t[]){random_below(&m->r, 3), 16, 0}, 3);
    }
}

static UOp *random_graph(Maker *m, int steps) {
    keep(m, uop_range_const(m->g, 7, RANGE_LOOP));
    for (int i = 0; i < steps; i++) {
        UOp *a = m->nodes.len > 1 ? pick(m) : random_constant(m),
            *b = m->nodes.len > 1 ? pick(m) : a;
        switch (random_below(&m->r, 10)) {
        case 0: keep(m, random_constant(m)); break;
        case 1: keep(m, random_buffer(m)); break;
        case 2: keep(m, random_vector(m)); break;
        case 3: keep(m, random_move(m, a)); break;
        case 4:
            keep(m, uop_new(m->g, OP_CAST, (DType)(1 + random_below(&m->r, DT_COUNT - 1)), a->lanes,
                            &a, 1, NULL, 0));
            break;
        case 5: keep(m, variable(m->g, DT_I32, i % 32, -5, i)); break;
        case 6: keep(m, uop_new(m->g, OP_VCAT, a->dtype, 1, (UOp *[]){a, a, a}, 3, NULL, 0)); break;
        case 7: keep(m, uop_fold(MONOID_SUM, 1, a, &m->nodes.at[0], 1)); break;
        default:
            keep(m, uop_new(m->g, (Op)random_below(&m->r, OP_FDIV), a->dtype, a->lanes,
                            (UOp *[]){a, b}, 2, NULL, 0));
        }
    }
    return uop_new(m->g, OP_SINK, DT_VOID, 1, m->nodes.at, (int)m->nodes.len, NULL, 0);
}

static void test_round_trip(void **state) {
    (void)state;
    size_t lines = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        Arena *arena = arena_create();
        Maker m = {.g = graph_create(arena), .arena = arena, .r = {seed}};
        UOp *root = random_graph(&m, 5 + (int)seed % 60);
        const char *text = textform_text(arena, root);
        Error err;
        UOp *same = textform_read(m.g, text_of(text), "memory", &err);
        if (!same) fail_msg("seed %d: %s\n%s", (int)seed, err.text, text);
        assert_ptr_equal(same, root);
        UOp *other = textform_read(graph_create(arena), text_of(text), "memory", &err);
        assert_non_null(other);
        assert_string_equal(textform_text(arena, other), text);
        for (const char *c = text; *c; c++) lines += *c == '\n';
        arena_destroy(arena);
    }
    printf("%zu lines\n", lines);
}

static void test_damaged_text(void **state) {
    (void)state;
    int refused = 0, tried = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        Arena *arena = arena_create();
        Maker m = {.g = graph_create(arena), .arena = arena, .r = {seed}};
        const char *text = textform_text(arena, random_graph(&m, 6));
        size_t n = strlen(text);
        char *damaged = arena_copy(arena, text, n + 1);
        for (int i = 1 + random_below(&m.r, 3); i-- > 0;) {
            static const char signs[] = "%=:()[]{},0123456789-+.x\"\n #abfiu";
            damaged[random_below(&m.r, (int)n)] = signs[random_below(&m.r, (int)sizeof signs - 1)];
        }
        Error err = {0};
        UOp *u = textform_read(graph_create(arena),
                               (Text){damaged, (size_t)random_below(&m.r, (int)n + 1)}, "x", &err);
        tried++;
        if (!u) {
            refused++;
            assert_true(err.text[0] != 0);
        }
        arena_destroy(arena);
    }
    printf("%d of %d damaged texts refused\n", refused, tried);
    assert_true(refused > tried / 4);
}

static void expect_error(const char *text, const char *part) {
    Arena *arena = arena_create();
    Error err = {0};
    assert_null(textform_read(graph_create(arena), text_of(text), "g.uop", &err));
    if (!strstr(err.text, part)) fail_msg("\"%s\" gives \"%s\", not \"%s\"", text, err.text, part);
    arena_destroy(arena);
}

static void test_errors(void **state) {
    (void)state;
    expect_error("", "g.uop: no node");
    expect_error("%0 = const:i32 {3}\n%1 = frob:i32(%0)\n", "g.uop:2: unknown op at \"frob");
    expect_error("%0 = const:i31 {3}\n", "g.uop:1: unknown dtype");
    expect_error("%0 = add:i32(%1, %2)\n", "g.uop:1: a source that no line above defines");
    expect_error("%0 = const:i32 {3}\n%0 = const:i32 {4}\n",
                 "g.uop:2: a node number for the second time");
    expect_error("%0 = const:i32 {3}\n%1 = add:i32(%0)\n", "wrong number of sources");
    expect_error("%0 = const:i32 {3}\n%1 = const:f32 {1.5}\n%2 = add:i32(%0, %1)\n",
                 "g.uop:3: ADD: types");
    expect_error("%0 = const:i32 {3, 4}\n", "wrong number of args");
    expect_error("%0 = buffer:f32[3] {0, 0, 0, 2}\n", "the shape is not what");
    expect_error("%0 = buffer:f32[3] {0, 0, 0, 3", "expected , or the closing bracket");
    expect_error(
        "%0 = buffer:f32[1099511627776,1099511627776] {0,0,0,1099511627776,1099511627776}\n",
        "too big");
    expect_error("%0 = const:i32 {3} %1\n", "expected the end of the line");
    expect_error("%99999999 = const:i32 {3}\n", "a wrong node number");
    expect_error("%0 = const:i32 {3}\n%1 = hfold:i32(%0) {0, 0}\n", "positive group");
    expect_error("%0 = const:i32 {3}\n%1 = fold:i32(%0, %0) {0, 0}\n", "no range");
}

static void test_layout(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *r = uop_new(g, OP_RANGE, DT_I32, 1, (UOp *[]){uop_int(g, DT_I32, 8)}, 1,
                     (int64_t[]){3, RANGE_LOOP, 8}, 3);
    UOp *y =
        uop_binary(OP_ADD, uop_binary(OP_MUL, r, uop_int(g, DT_I32, 4)), uop_int(g, DT_I32, 3));
    assert_string_equal(textform_text(arena, y), "%0 = const:i32 {8}\n"
                                                 "%1 = range:i32(%0) {3, 1, 8}\n"
                                                 "%2 = const:i32 {4}\n"
                                                 "%3 = mul:i32(%1, %2)\n"
                                                 "%4 = const:i32 {3}\n"
                                                 "%5 = add:i32(%3, %4)\n");
    assert_string_equal(textform_expression(arena, y, 9), "((r3 * 4) + 3)");
    assert_string_equal(textform_expression(arena, y, 1), "(… + 3)");
    Error err;
    UOp *read = textform_read(
        g, text_of("# a comment\n\n  %7 = const:i32 {5}   # five\n%9 = neg:i32(%7)"), "t", &err);
    assert_ptr_equal(read, uop_unary(OP_NEG, uop_int(g, DT_I32, 5)));
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damaged_text),
    };
    return cmocka_run_group_tests_name("textform", tests, NULL, NULL);
}

// test_verify: good graphs of each stage pass, each kind of wrong one is named.
#include <stdlib.h>

#include "codegen/codegen.h"
#include "ir/textform.h"
#include "ir/verify.h"
#include "rules/support.h"
#include "schedule/schedule.h"

#include "rules/with_cmocka.h"

static UOp *read_graph(Arena *arena, const char *text) {
    Error err;
    UOp *u = textform_read(graph_create(arena), text_of(text), "test", &err);
    if (!u) fail_msg("%s", err.text);
    return u;
}

static void expect(const char *text, GraphStage stage, const char *problem) {
    Arena *arena = arena_create();
    Error err = {0};
    bool ok = verify(read_graph(arena, text), stage, &err);
    if (ok != !problem || (problem && !strstr(err.text, problem)))
        fail_msg("%s\ngives \"%s\", not \"%s\"", text, ok ? "nothing" : err.text,
                 problem ? problem : "nothing");
    arena_destroy(arena);
}

#define KERNEL \
    "%0 = const:i32 {8}\n%1 = range:i32(%0) {0, 0, 8}\n%2 = range:i32(%0) {1, 2, 8}\n%3 = " \
    "param:f32 {0, 32, 16, 0, 0}\n" \
    "%4 = param:f32 {1, 32, 16, 0, 0}\n%5 = index:f32(%3, %1)\n%6 = index:f32(%4, %2)\n%7 = " \
    "load:f32(%6)\n"

static void test_stages(void **state) {
    (void)state;
    expect("%0 = buffer:f32[4,6] {0, 0, 0, 4, 6}\n%1 = exp:f32[4,6](%0)\n%2 = reduce:f32[4](%1) "
           "{0, 16, 1}\n",
           STAGE_TENSOR, NULL);
    expect("%0 = buffer:f32[4,6] {0, 0, 0, 4, 6}\n%1 = reshape:f32[24](%0) {24}\n", STAGE_ITEMS,
           "reshape may not stand here");
    expect("%0 = buffer:f32[4,6] {0, 0, 0, 4, 6}\n%1 = sink:void(%0)\n", STAGE_KERNEL,
           "buffer may not stand here");
    expect(KERNEL
           "%8 = fold:f32(%7, %2) {0, 16}\n%9 = store:void(%5, %8, %1)\n%10 = sink:void(%9)\n",
           STAGE_KERNEL, NULL);
    expect(KERNEL "%8 = fold:f32(%7, %2) {0, 16}\n%9 = atomic_add:void(%5, %8, %1)\n%10 = sink:void(%9)\n", STAGE_KERNEL, NULL);
    expect(KERNEL "%8 = fold:f32(%7, %2) {0, 16}\n%9 = atomic_add:void(%5, %8)\n%10 = cast:i32(%8)\n%11 = sink:void(%9, %10)\n", STAGE_KERNEL,
           "cast is no statement");
    expect("%0 = param:i32 {0, 32, 16, 0, 0}\n%1 = const:i32 {3}\n%2 = index:i32(%0, %1)\n%3 = atomic_add:void(%2, %1)\n%4 = sink:void(%3)\n",
           STAGE_KERNEL, "adds to what is no f32 that tiles share");
    // What other tiles add to is whole in the next kernel only.
    expect(KERNEL "%8 = atomic_add:void(%5, %7, %1, %2)\n%9 = after:f32(%3, %8)\n%10 = index:f32(%9, %0)\n%11 = load:f32(%10)\n"
                  "%12 = index:f32(%4, %0)\n%13 = store:void(%12, %11)\n%14 = sink:void(%8, %13)\n",
           STAGE_KERNEL, "touches what other tiles of the kernel add to");
    // Tiles of the kernel are closed by the kernel itself.
    expect(KERNEL "%8 = fold:f32(%7, %2) {0, 16}\n%9 = store:void(%5, %8)\n%10 = sink:void(%9)\n",
           STAGE_KERNEL, NULL);
    expect(KERNEL "%8 = store:void(%5, %7, %1)\n%9 = sink:void(%8)\n", STAGE_KERNEL,
           "range is never closed: r1");
    expect(KERNEL "%8 = sink:void(%7)\n", STAGE_KERNEL, "load is no statement");
    expect(KERNEL
           "%8 = fold:f32(%7, %2) {0, 16}\n%9 = store:void(%5, %8, %1)\n%10 = sink:void(%9)\n",
           STAGE_TENSOR, "param may not stand here");
    expect(KERNEL
           "%8 = fold:f32(%7, %2) {0, 16}\n%9 = store:void(%5, %8, %1)\n%10 = sink:void(%9)\n",
           STAGE_PROGRAM, "range may not stand here");
    expect(KERNEL "%8 = cast:i32(%7)\n%9 = store:void(%5, %8, %1, %2)\n%10 = sink:void(%9)\n",
           STAGE_KERNEL, "stores another type");
    expect(KERNEL "%8 = load:f32x2(%6)\n%9 = store:void(%5, %8, %1)\n%10 = sink:void(%9)\n",
           STAGE_KERNEL, "has several lanes");
#define GATHERED "%0 = const:i32 {0}\n%1 = param:f32 {0, 32, 16, 0, 0}\n%2 = param:f32 {1, 32, 16, 0, 0}\n%3 = index:f32(%1, %0)\n" \
                 "%4 = index:f32(%2, %0)\n%5 = load:f32x2(%3) {0, 4}\n%6 = store:void(%4, %5) {0, 1}\n%7 = sink:void(%6)\n"
    expect(GATHERED, STAGE_VECTOR, NULL);
    expect(GATHERED, STAGE_PROGRAM, "names offsets of lanes");
    expect("%0 = const:i32 {8}\n%1 = range:i32(%0) {0, 1, 8}\n%2 = const:i32 {9}\n%3 = "
           "range:i32(%2) {0, 1, 9}\n%4 = sink:void(%1, %3)\n",
           STAGE_VECTOR, "has the id of another");
    expect("%0 = buffer:f32[4] {7, 0, 0, 4}\n%1 = buffer:f32[2,2] {7, 0, 0, 2, 2}\n%2 = sink:void(%0, %1)\n",
           STAGE_TENSOR, NULL);
    expect("%0 = buffer:f32[4] {7, 0, 0, 4}\n%1 = buffer:i32[4] {7, 0, 0, 4}\n%2 = sink:void(%0, %1)\n",
           STAGE_TENSOR, "has the id of a buffer of another type");
    expect("%0 = param:i8 {0, 32, 16, 0, 0}\n%1 = param:i8 {0, 32, 16, 0, 9}\n%2 = const:i32 {0}\n%3 = index:i8(%0, %2)\n"
           "%4 = index:i8(%1, %2)\n%5 = load:i8(%4)\n%6 = store:void(%3, %5)\n%7 = sink:void(%6)\n",
           STAGE_KERNEL, "has the id of another one");
    expect("%0 = poison:void \"add: shapes differ\"\n", STAGE_TENSOR, "add: shapes differ");
}

// What each pass promises: which loops and folds are gone, what registers hold.
static void test_promises(void **state) {
    (void)state;
#define TILE "%0 = const:i32 {8}\n%1 = range:i32(%0) {0, 0, 8}\n%2 = param:f32 {0, 32, 16, 0, 0}\n%3 = index:f32(%2, %1)\n" \
             "%4 = const:f32 {1.0}\n%5 = store:void(%3, %4)\n%6 = sink:void(%5)\n"
    expect(TILE, STAGE_LOOPS, NULL);
    expect(TILE, STAGE_BODY, "range may not stand here");
#define LANE "%0 = const:i32 {8}\n%1 = range:i32(%0) {0, 3, 8}\n%2 = param:f32 {0, 32, 16, 0, 0}\n%3 = index:f32(%2, %1)\n" \
             "%4 = const:f32 {1.0}\n%5 = store:void(%3, %4, %1)\n%6 = sink:void(%5)\n"
    expect(LANE, STAGE_BODY, NULL);
    expect(LANE, STAGE_KERNEL, "range may not stand here");
    expect(LANE, STAGE_VECTOR, "range may not stand here");
    expect(KERNEL "%8 = fold:f32(%7, %2) {0, 16}\n%9 = store:void(%5, %8, %1)\n%10 = sink:void(%9)\n", STAGE_LOOPS,
           "fold may not stand here");
#define REGISTER "%0 = define_reg:f32 {0, 4}\n%1 = const:i32 {0}\n%2 = index:f32(%0, %1)\n%3 = vconst:f32x4 {1.0, 1.0, 1.0, 1.0}\n"
    expect(REGISTER "%4 = store:void(%2, %3)\n%5 = sink:void(%4)\n", STAGE_VECTOR, NULL);
    expect(REGISTER "%4 = const:f32 {1.0}\n%5 = store:void(%2, %4)\n%6 = sink:void(%5)\n", STAGE_PROGRAM,
           "does not fit the register");
    expect("%0 = param:f32 {0, 32, 16, 0, 0}\n%1 = const:i32 {0}\n%2 = index:f32(%0, %1)\n%3 = load:f32x4(%2)\n%4 = sink:void(%3)\n",
           STAGE_VECTOR, "has not one offset for each lane");
    // A nest that closes its loop, and one that does not.
#define NEST "%0 = const:i32 {8}\n%1 = range:i32(%0) {0, 1, 8}\n%2 = param:f32 {0, 32, 16, 0, 0}\n%3 = index:f32(%2, %1)\n" \
             "%4 = const:f32 {1.0}\n%5 = store:void(%3, %4)\n"
    expect(NEST "%6 = end:void(%5, %1) {1}\n%7 = sink:void(%6)\n", STAGE_PROGRAM, NULL);
    expect(NEST "%6 = sink:void(%5)\n", STAGE_PROGRAM, "is never closed");
}

// Reads and stores of one buffer in one graph.
static void test_order(void **state) {
    (void)state;
#define BUFFERS "%0 = buffer:f32[4] {1, 0, 0, 4}\n%1 = buffer:f32[4] {2, 0, 0, 4}\n"
    expect(BUFFERS "%2 = assign:void(%0, %1)\n%3 = after:f32[4](%0, %2)\n%4 = neg:f32[4](%3)\n%5 = sink:void(%4)\n",
           STAGE_TENSOR, NULL);
    expect(BUFFERS "%2 = assign:void(%0, %1)\n%3 = after:f32[4](%0, %2)\n%4 = neg:f32[4](%0)\n%5 = sink:void(%3, %4)\n",
           STAGE_TENSOR, "this read does not wait for the store");
    // The store's own value may read what it overwrites, but nobody else may read that value's source.
    expect(BUFFERS "%2 = neg:f32[4](%0)\n%3 = assign:void(%0, %2)\n%4 = after:f32[4](%0, %3)\n%5 = sink:void(%4)\n",
           STAGE_TENSOR, NULL);
    expect(BUFFERS "%2 = neg:f32[4](%0)\n%3 = assign:void(%0, %2)\n%4 = after:f32[4](%0, %3)\n%5 = sink:void(%4, %2)\n",
           STAGE_TENSOR, "this read does not wait for the store");
    // Two stores one after the other: the last word of the first is gone.
#define TWICE BUFFERS "%2 = assign:void(%0, %1)\n%3 = after:f32[4](%0, %2)\n%4 = exp:f32[4](%3)\n%5 = assign:void(%3, %4)\n" \
                      "%6 = after:f32[4](%3, %5)\n"
    expect(TWICE "%7 = neg:f32[4](%6)\n%8 = sink:void(%7)\n", STAGE_TENSOR, NULL);
    expect(TWICE "%7 = neg:f32[4](%3)\n%8 = sink:void(%6, %7)\n", STAGE_TENSOR, "this read does not wait for the store");
    expect(TWICE "%7 = neg:f32[4](%0)\n%8 = sink:void(%6, %7)\n", STAGE_TENSOR, "this read does not wait for the store");
#define STATEMENTS "%0 = param:f32 {0, 32, 16, 0, 0}\n%1 = param:f32 {1, 32, 16, 0, 0}\n%2 = const:i32 {0}\n" \
                   "%3 = index:f32(%0, %2)\n%4 = index:f32(%1, %2)\n%5 = load:f32(%3)\n%6 = store:void(%4, %5)\n"
    expect(STATEMENTS "%7 = load:f32(%4)\n%8 = neg:f32(%7)\n%9 = store:void(%3, %8)\n%10 = sink:void(%6, %9)\n", STAGE_KERNEL,
           "does not wait for the store before it");
    expect(STATEMENTS "%7 = after:f32(%1, %6)\n%8 = index:f32(%7, %2)\n%9 = load:f32(%8)\n%10 = store:void(%3, %9)\n"
                      "%11 = sink:void(%6, %10)\n", STAGE_KERNEL, NULL);
    expect(STATEMENTS "%7 = neg:f32(%5)\n%8 = store:void(%3, %7)\n%9 = sink:void(%8)\n", STAGE_KERNEL,
           "reads what its own statement stores");
}

static int64_t four_bytes(void *context, int64_t id) {
    (void)context, (void)id;
    return 4;
}

// A buffer seen twice, in two shapes and with two statements of its bounds, is one parameter of a kernel.
static void test_two_views(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Error err = {0};
    UOp *sink = read_graph(arena, "%0 = buffer:i8[4] {7, 0, 9, 4}\n%1 = buffer:i8[2,2] {7, -3, 5, 2, 2}\n%2 = buffer:i8[4] {8, 0, 0, 4}\n"
                                  "%3 = const:i32 {0}\n%4 = index:i8(%0, %3)\n%5 = index:i8(%1, %3)\n%6 = index:i8(%2, %3)\n"
                                  "%7 = load:i8(%4)\n%8 = load:i8(%5)\n%9 = add:i8(%7, %8)\n%10 = store:void(%6, %9)\n"
                                  "%11 = sink:void(%10)\n");
    UOp *store = sink->src[0];
    Kernel kernel = {.stores = {&store, 1, 1}};
    Canonical c = canonicalize(arena, &kernel, four_bytes, NULL);
    assert_int_equal(c.n_slots, 2);
    if (!verify(c.sink, STAGE_KERNEL, &err)) fail_msg("%s", err.text);
    UOp *value = c.sink->src[0]->src[1];
    assert_ptr_equal(value->src[0], value->src[1]);
    assert_int_equal(value->src[0]->src[0]->src[0]->arg[3], -3);
    assert_int_equal(value->src[0]->src[0]->src[0]->arg[4], 9);
    arena_destroy(arena);
}

// A pass that is handed or makes something wrong is named.
static void test_pipeline(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Error err = {0};
    UOpList program;
    Target target = {.vector_bytes = 32};
    UOp *sink = read_graph(arena, KERNEL "%8 = store:void(%5, %7, %1)\n%9 = sink:void(%8)\n");
    assert_false(codegen(arena, sink, &target, &program, &err));
    assert_string_equal(err.text, "before threads: kernel: range is never closed: r1");
    arena_destroy(arena);
}

static const char *form(Op op, DType dtype, UOp *const *src, int n_src, const int64_t *arg,
                        int n_arg) {
    const char *problem = verify_form(op, dtype, src, n_src, arg, n_arg);
    return problem ? problem : "";
}

static void test_forms(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    UOp *x = variable(g, DT_F32, 0, 0, 0), *i = uop_int(g, DT_I32, 3),
        *r = uop_range_const(g, 4, RANGE_LOOP);
    UOp *store = uop_store(x->src[0], x, &r, 1);
    assert_string_equal(form(OP_ADD, DT_F32, (UOp *[]){x, x}, 2, NULL, 0), "");
    assert_string_equal(form(OP_ADD, DT_F32, (UOp *[]){x}, 1, NULL, 0), "wrong number of sources");
    assert_string_equal(form(OP_ADD, DT_F32, (UOp *[]){store, store}, 2, NULL, 0),
                        "a source has no value");
    assert_string_equal(form(OP_CONST, DT_I32, NULL, 0, NULL, 0), "wrong number of args");
    assert_string_equal(form(OP_CONST, DT_VOID, NULL, 0, (int64_t[]){3}, 1), "has no type");
    assert_string_equal(form(OP_RANGE, DT_I32, &i, 1, (int64_t[]){0, 9, 3}, 3),
                        "unknown kind of range");
    assert_string_equal(form(OP_RANGE, DT_I64, &i, 1, (int64_t[]){0, 1, 3}, 3),
                        "range and end are not of one integer type");
    assert_string_equal(form(OP_FOLD, DT_F32, (UOp *[]){x, i}, 2, (int64_t[]){0, 1}, 2),
                        "folds over something that is no range");
    assert_string_equal(form(OP_FOLD, DT_F32, (UOp *[]){x, r}, 2, (int64_t[]){7, 1}, 2),
                        "unknown monoid");
    assert_string_equal(form(OP_INDEX, DT_F32, (UOp *[]){x, i}, 2, NULL, 0),
                        "the first source is no buffer");
    assert_string_equal(form(OP_INDEX, DT_F32, (UOp *[]){x->src[0]->src[0], x}, 2, NULL, 0),
                        "the index is no integer");
    assert_string_equal(form(OP_LOAD, DT_F32, &x, 1, NULL, 0), "the first source is no index");
    assert_string_equal(form(OP_LOAD, DT_F32, (UOp *[]){x->src[0], i}, 2, NULL, 0),
                        "the condition is no bool");
    assert_string_equal(form(OP_STORE, DT_VOID, (UOp *[]){x->src[0], x, i}, 3, NULL, 0),
                        "closes something that is no range");
    assert_string_equal(form(OP_ACCUM, DT_F32, (UOp *[]){x, r}, 2, (int64_t[]){0, 1, 2, 0, -1, 0}, 6),
                        "counts of ranges that do not fit the sources");
    assert_string_equal(form(OP_ACCUM, DT_F32, (UOp *[]){x, r}, 2, (int64_t[]){0, 1, 1, 0, -1, 0}, 6),
                        "");
    assert_string_equal(
        form(OP_ACCUM, DT_F32, (UOp *[]){x, r, i, r}, 4, (int64_t[]){0, 1, 1, 0, 1, 0}, 6),
        "types of value and tail differ");
    assert_string_equal(form(OP_DOT4, DT_I32, (UOp *[]){i, i, i}, 3, NULL, 0),
                        "needs 4 lanes for each sum");
    UOp *lanes[3] = {i};
    for (int k = 1; k < 3; k++) lanes[k] = uop_new(g, OP_VCONST, DT_U8, 4, NULL, 0, (int64_t[]){1, 2, 3, 200}, 4);
    assert_string_equal(form(OP_DOT4, DT_I32, lanes, 3, NULL, 0), "needs bytes, the second ones signed");
    lanes[2] = uop_new(g, OP_VCONST, DT_I8, 4, NULL, 0, (int64_t[]){1, 2, 3, -4}, 4);
    assert_string_equal(form(OP_DOT4, DT_I32, lanes, 3, NULL, 0), "");
    assert_string_equal(form(OP_LOOKUP, DT_I32, (UOp *[]){i, x}, 2, NULL, 0), "the index is no integer");
    lanes[1] = uop_new(g, OP_VCONST, DT_U8, 8, NULL, 0, (int64_t[]){0, 3, 6, 9, 12, 15, 18, 21}, 8);
    assert_string_equal(form(OP_BITS, DT_U8, (UOp *[]){lanes[1], lanes[1]}, 2, NULL, 0), "");
    assert_string_equal(form(OP_BITS, DT_U8, (UOp *[]){lanes[1], lanes[2]}, 2, NULL, 0), "needs bytes and their places as bytes");
    lanes[2] = uop_new(g, OP_VCONST, DT_U8, 4, NULL, 0, (int64_t[]){0, 3, 6, 9}, 4);
    assert_string_equal(form(OP_BITS, DT_U8, (UOp *[]){lanes[1], lanes[2]}, 2, NULL, 0), "needs a place for each lane of groups of 8");
    assert_string_equal(form(OP_END, DT_VOID, &i, 1, NULL, 0), "ends something that is no range");
    arena_destroy(arena);
}

static void expect_program(const char *text, const int *order, int n, const char *problem) {
    Arena *arena = arena_create();
    Error err = {0};
    UOp *sink = read_graph(arena, text), *lines[64];
    for (int i = 0; i < n; i++) lines[i] = sink->src[order[i]];
    UOpList program = {lines, (size_t)n, (size_t)n};
    bool ok = verify_program(&program, &err);
    if (ok != !problem || (problem && !strstr(err.text, problem)))
        fail_msg("gives \"%s\", not \"%s\"", ok ? "nothing" : err.text,
                 problem ? problem : "nothing");
    arena_destroy(arena);
}

static void test_programs(void **state) {
    (void)state;
    // 0 const 8, 1 range, 2 param, 3 index, 4 load, 5 store, 6 end, 7 neg(load)
    static const char text[] =
        "%0 = const:i32 {8}\n%1 = range:i32(%0) {0, 1, 8}\n%2 = param:f32 {0, 32, 16, 0, 0}\n"
        "%3 = index:f32(%2, %1)\n%4 = load:f32(%3)\n%5 = store:void(%3, %4)\n%6 = end:void(%1)\n"
        "%7 = neg:f32(%4)\n%8 = sink:void(%0, %1, %2, %3, %4, %5, %6, %7)\n";
    expect_program(text, (int[]){0, 2, 1, 3, 4, 5, 6}, 7, NULL);
    expect_program(text, (int[]){0, 2, 1, 3, 4, 7, 5, 6}, 8, NULL);
    expect_program(text, (int[]){0, 2, 1, 3, 4, 5, 6, 7}, 8, "neg uses a value of a closed loop");
    expect_program(text, (int[]){0, 2, 3, 1, 4, 5, 6}, 7, "index stands before its source");
    expect_program(text, (int[]){0, 2, 1, 3, 4, 5}, 6, "range is never closed");
    expect_program(text, (int[]){0, 2, 1, 3, 4, 4, 5, 6}, 8, "load stands there twice");
    expect_program(text, (int[]){0, 2, 1, 1, 3, 4, 5, 6}, 8, "range stands there twice");
    static const char waits[] =
        "%0 = const:i32 {0}\n%1 = param:f32 {0, 32, 16, 0, 0}\n%2 = index:f32(%1, %0)\n%3 = const:f32 {1.0}\n"
        "%4 = store:void(%2, %3)\n%5 = after:f32(%1, %4)\n%6 = index:f32(%5, %0)\n%7 = load:f32(%6)\n"
        "%8 = sink:void(%0, %1, %2, %3, %4, %5, %6, %7)\n";
    expect_program(waits, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8, NULL);
    expect_program(waits, (int[]){0, 1, 2, 3, 5, 6, 7, 4}, 8, "after stands before what it waits for");
    expect_program(text, (int[]){0, 2, 1, 6, 1, 6, 6}, 7, "end closes no innermost loop");
    expect_program(text, (int[]){0, 2, 1, 6, 1, 6}, 6, NULL);
}

int main(void) {
    setenv("LATHE_DEBUG", "2", 1);   // before anything reads the settings
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_promises),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_two_views),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_programs),
    };
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}

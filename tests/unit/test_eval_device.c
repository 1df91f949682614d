// test_eval_device: the Device that interprets kernels: compile, run, time, and what it refuses.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "ir/eval.h"
#include "runtime/devices.h"

#undef fail                // cmocka has its own
#include <cmocka.h>

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

// params[1][tile] = 2 · params[0][tile], four elements of i32 each.
static UOpList doubling(void) {
    UOp *param[2];
    for (int64_t slot = 0; slot < 2; slot++)
        param[slot] = uop_new(g, OP_PARAM, DT_I32, 1, NULL, 0, (int64_t[]){slot, 16, 4, 0, 0}, 5);
    UOp *tile = uop_new(g, OP_SPECIAL, DT_I32, 1, NULL, 0, (int64_t[]){0}, 1);
    UOp *load = uop_load(uop_index(param[0], tile), DT_I32, NULL);
    return uop_toposort(arena, uop_store(uop_index(param[1], tile), uop_binary(OP_MUL, load, uop_int(g, DT_I32, 2)), NULL, 0));
}

static void the_device_runs_stages_in_order(void **state) {
    (void)state;
    Error err = {0};
    DeviceState *device;
    assert_true(eval_device.open(&device, "avx2", 0, &err));
    UOpList program = doubling();
    KernelSource source = {"double", "", &program, 2};
    Program *code;
    assert_true(eval_device.compile(device, &source, 1, &code, &err));
    int32_t in[4] = {1, 2, 3, 4}, out[4];
    void *a = eval_device.alloc(device, sizeof in), *b = eval_device.alloc(device, sizeof in);
    eval_device.upload(device, a, in, sizeof in);
    void *there[] = {a, b}, *back[] = {b, a}, *none[] = {a, NULL};
    Stage stages[] = {{.program = code, .params = there, .tiles = 4}, {.program = code, .params = back, .tiles = 3, .needs_barrier = true}};
    uint64_t us[2] = {UINT64_MAX, UINT64_MAX};
    assert_true(eval_device.run(device, stages, 2, &(StepStats){us}, &err));
    eval_device.download(device, out, a, sizeof out);
    assert_true(out[0] == 4 && out[1] == 8 && out[2] == 12 && out[3] == 4);
    assert_true(us[0] < UINT64_MAX && us[1] < UINT64_MAX);
    stages[1].params = none;
    assert_false(eval_device.run(device, stages, 2, NULL, &err));
    assert_non_null(strstr(err.text, "kernel double: parameter 1"));
    stages[1] = (Stage){.program = code, .params = there, .tiles = 5};
    assert_false(eval_device.run(device, stages + 1, 1, NULL, &err));
    assert_non_null(strstr(err.text, "tile 4"));
    eval_device.unload(device, code);
    eval_device.release(device, a, sizeof in);
    eval_device.release(device, b, sizeof in);
    eval_device.close(device);
}

static void the_device_refuses_what_it_cannot_run(void **state) {
    (void)state;
    Error err = {0};
    DeviceState *device;
    assert_false(eval_device.open(&device, "abacus", 0, &err));
    assert_null(device);
    assert_true(eval_device.open(&device, NULL, 3, &err));
    assert_int_equal(eval_device.threads(device), 1);
    UOpList good = doubling();
    UOp *range = uop_range_const(g, 4, RANGE_LOOP);
    UOpList bad = {.at = &range, .len = 1};
    KernelSource sources[] = {{"good", "", &good, 0}, {"bad", "", &bad, 0}, {"none", "", NULL, 0}};
    Program *programs[2];
    assert_false(eval_device.compile(device, sources, 2, programs, &err));
    assert_true(!programs[0] && !programs[1] && strstr(err.text, "kernel bad: "));
    assert_false(eval_device.compile(device, sources + 2, 1, programs, &err));
    assert_non_null(strstr(err.text, "no linear program"));
    eval_device.close(device);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(the_device_runs_stages_in_order), TEST(the_device_refuses_what_it_cannot_run)};
    return cmocka_run_group_tests_name("eval_device", tests, NULL, NULL);
}

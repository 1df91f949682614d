// cuda: the graphs of test_codegen on the cuda device, and the device itself: kept images, graphs of launches, room, errors.
// Without a card (or with LATHE_CUDA set to it) on the fake driver of tests/cuda, whose kernels run on this CPU.
#include <unistd.h>

#include "app/device_roof.h"
#include "base/os.h"
#include "base/settings.h"
#include "codegen_cases.h"
#include "device_cases.h"
#include "fake_card.h"
#include "runtime/devices.h"

static const Device *const device = &cuda_device;

static DeviceState *opened(void) { return device_opened(device); }

static void on_cuda(void **state) { codegen_case_run(state, "cuda"); }

// A thread adds its own number to an element; each element belongs to one thread of one tile.
static const char counting[] =
    "extern \"C\" __global__ __launch_bounds__(32) void counting(int tiles, unsigned char *__restrict__ p0) {\n"
    "    typedef unsigned char u8; int *at = (int *)p0 + blockIdx.x * 32 + threadIdx.x; *at = *at + (int)threadIdx.x + 1;\n}\n"
    "typedef unsigned char u8;\n";

static void steps_run_again(void **state) {
    (void)state;
    enum { TILES = 5, N = TILES * 32 + 8 };
    DeviceState *d = opened();
    KernelSource source = {"counting", counting, NULL, 1};
    Program *program = NULL;
    Error err = {0};
    int32_t numbers[N] = {0};
    uint64_t us[2] = {UINT64_MAX, UINT64_MAX};
    StepStats stats = {us};
    if (!device->compile(d, &source, 1, &program, &err)) compare_fail("%s", err.text);
    char *at = device->alloc(d, sizeof numbers);
    void *first = at, *second = at + 4 * sizeof *numbers;
    Stage stages[2] = {{.program = program, .params = &first, .tiles = TILES}, {.program = program, .params = &second, .tiles = TILES - 1, .needs_barrier = true}};
    for (int i = 0; i < 3; i++)
        if (!device->run(d, stages, 2, NULL, &err)) compare_fail("%s", err.text);
    device->forget(d, stages);
    stages[1].params = &first;   // another table at the same place
    if (!device->run(d, stages, 2, NULL, &err) || !device->run(d, stages, 1, &stats, &err)) compare_fail("%s", err.text);
    device->download(d, numbers, at, sizeof numbers);
    for (int i = 0; i < N; i++) {
        int own = i < TILES * 32 ? 5 * (i % 32 + 1) : 0, shifted = i >= 4 && i < 4 + (TILES - 1) * 32 ? 3 * ((i - 4) % 32 + 1) : 0;
        int again = i < (TILES - 1) * 32 ? i % 32 + 1 : 0;
        assert_int_equal(numbers[i], own + shifted + again);
    }
    assert_true(us[0] < 1000000 && us[1] == UINT64_MAX);
    stages[0].tiles = (long)INT32_MAX + 1;
    assert_false(device->run(d, stages, 1, NULL, &err));
    assert_non_null(strstr(err.text, "counting"));
    device->unload(d, program);
    device->release(d, at, sizeof numbers);
    device->close(d);
}

// What is small goes over at once, what is large in parts: both arrive whole.
static void copies_of_any_length_arrive(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 1000, 65536, 65537, (32 << 20) - 1, (100 << 20) + 3};
    DeviceState *d = opened();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *from = malloc(sizes[i]), *back = malloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++) from[k] = (uint8_t)(k * 2654435761u >> 13);
        char *at = device->alloc(d, sizes[i]);
        device->upload(d, at, from, sizes[i]);
        device->download(d, back, at, sizes[i]);
        assert_memory_equal(from, back, sizes[i]);
        device->release(d, at, sizes[i]);
        free(from), free(back);
    }
    device->close(d);
}

// Memory that was given to be filled is uploaded from before it is given again.
static void staged_memory_keeps_until_it_is_uploaded(void **state) {
    (void)state;
    enum { PIECES = 9, EACH = 70000 };
    DeviceState *d = opened();
    uint8_t *at = device->alloc(d, (size_t)2 * PIECES * EACH), *back = malloc((size_t)2 * PIECES * EACH);
    for (size_t i = 0; i < PIECES; i++) {
        size_t nbytes = 0;
        uint8_t *stage = device->stage(d, &nbytes);
        assert_true(stage && nbytes >= (size_t)2 * EACH);
        memset(stage, (int)i + 1, EACH), memset(stage + EACH, (int)i + 101, EACH);
        device->upload(d, at + i * EACH, stage, EACH);
        device->upload(d, at + (PIECES + i) * EACH, stage + EACH, EACH);
    }
    device->download(d, back, at, (size_t)2 * PIECES * EACH);
    for (size_t i = 0; i < (size_t)PIECES * EACH; i++) {
        assert_int_equal(back[i], i / EACH + 1);
        assert_int_equal(back[i + (size_t)PIECES * EACH], i / EACH + 101);
    }
    device->release(d, at, (size_t)2 * PIECES * EACH);
    free(back);
    device->close(d);
}

static void what_does_not_fit_is_refused_with_numbers(void **state) {
    (void)state;
    Engine *engine;
    Error err = {0};
    int64_t id;
    if (!engine_open(&engine, "cuda", NULL, 0, &err)) compare_fail("%s", err.text);
    assert_false(engine_buffer_alloc(engine, (size_t)1 << 45, &id, &err));
    assert_int_equal(err.code, LATHE_NO_MEMORY);
    assert_true(strstr(err.text, "35184372088832") && strstr(err.text, "are free"));
    engine_close(engine);
}

static void errors_name_the_cause(void **state) {
    (void)state;
    device_errors(device, "extern \"C\" __global__ __launch_bounds__(32) void wrong(int tiles) { this is no C; }", ".cu", SETTING_CUDA,
                  "/nowhere/libcuda.so", "LATHE_CUDA");
}

// How fast it reads its memory is measured with a quarter of what is free, which is free again afterwards.
static void its_memory_is_read(void **state) {
    (void)state;
    Engine *engine = NULL;
    Error err = {0};
    size_t before = 0, after = 0;
    const char *name;
    setenv("FAKE_CUDA_MEMORY", "4194304", 1);
    assert_true(engine_open(&engine, "cuda", NULL, 0, &err));
    assert_true(engine_memory_room(engine, &before, &name));
    assert_true(device_roof_gb_s(engine) > 0);
    assert_true(engine_memory_room(engine, &after, &name));
    assert_true(before == after);
    engine_close(engine);
    unsetenv("FAKE_CUDA_MEMORY");
}

int main(int argc, char **argv) {
    (void)argc;
    struct CMUnitTest cases[N_CODEGEN_CASES];
    const struct CMUnitTest own[] = {
        cmocka_unit_test(steps_run_again),
        cmocka_unit_test(copies_of_any_length_arrive),
        cmocka_unit_test(staged_memory_keeps_until_it_is_uploaded),
        cmocka_unit_test(what_does_not_fit_is_refused_with_numbers),
        cmocka_unit_test(errors_name_the_cause),
        cmocka_unit_test(its_memory_is_read),
    };
    DeviceState *card = NULL;
    Error err = {0};
    if (device->open(&card, NULL, 0, &err)) device->close(card);
    else fake_card_use(argv[0]);
    static CodegenNames names;
    codegen_tests_fill(cases, names, "cuda", on_cuda);
    int failed = cmocka_run_group_tests_name("cuda device", own, NULL, NULL);
    return failed + cmocka_run_group_tests_name("cuda", cases, NULL, NULL);
}

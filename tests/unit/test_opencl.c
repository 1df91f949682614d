// opencl: the graphs of test_codegen on the opencl device, and the device itself: addresses, kept binaries, errors.
// Skipped by name where this machine has no OpenCL device.
#include <dirent.h>

#include "base/os.h"
#include "base/settings.h"
#include "codegen_cases.h"
#include "device_cases.h"
#include "runtime/devices.h"

static const Device *const device = &opencl_device;
static Error problem;   // why the device cannot be opened; code LATHE_OK where it can

static void need_device(void) {
    if (problem.code == LATHE_OK) return;
    print_message("skipped: %s\n", problem.text);
    skip();
}

static DeviceState *opened(void) {
    need_device();
    return device_opened(device);
}

static void on_opencl(void **state) {
    need_device();
    codegen_case_run(state, "opencl");
}

// A device that is a CPU (PoCL) gets no tails, whatever its target: behind a LAST_TILE it took the branches of all items as the first
// one's, and gave wrong numbers.
static void a_cpu_has_no_tails(void **state) {
    (void)state;
    DeviceState *d = NULL;
    Target target = {0};
    Error err = {0};
    need_device();
    assert_true(device->open(&d, "opencl12-groups", 0, &err));
    device->describe_target(d, &target);
    assert_int_equal(target.group_threads > 1, 1);
    if (strstr(device->hardware(d), "cpu") || strstr(device->hardware(d), "pthread")) assert_false(target.tiles.has_tails);
    device->close(d);
}

// Integers that leave their type wrap, floats that do saturate: what ir/eval says, and C leaves open.
static void numbers_keep_their_meaning(void **state) {
    (void)state;
    need_device();
    Compare c = compare_open("opencl", NULL);
    static const DType types[] = {DT_I8, DT_I16, DT_U16, DT_I32, DT_U32};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const DTypeInfo *t = &dtype_info[types[i]];
        Tensor x = compare_buffer(&c, types[i], t->lo, t->hi, dims(67)), y = compare_buffer(&c, types[i], t->lo, t->hi, dims(67));
        compare_run(&c, t->name, tensor_add(tensor_mul(x, y), tensor_binary(OP_SUB, x, tensor_unary(OP_NEG, y))), 0);
        if (t->nbytes < 4) continue;   // small ones are cast through i32
        Tensor f = tensor_mul_const(compare_buffer(&c, DT_F32, 0, 0, dims(67)), 8589934592.0);   // 2³³: exact
        compare_run(&c, t->name, tensor_cast(f, types[i]), 0);
    }
    Tensor small = tensor_mul_const(compare_buffer(&c, DT_F32, 0, 0, dims(67)), 1e-6);   // halves below their normal numbers
    compare_run(&c, "small halves", tensor_cast(small, DT_F16), 0);
    compare_close(&c);
}

static void addresses_reach_parts(void **state) {
    (void)state;
    DeviceState *d = opened();
    enum { SIZE = 1000 };
    char *a = device->alloc(d, SIZE), *b = device->alloc(d, SIZE), got[SIZE], want[SIZE] = {0};
    assert_true(a && b && a != b);
    device->download(d, got, a, SIZE);
    assert_memory_equal(got, want, SIZE);
    memcpy(want + 100, "part", 4);
    device->upload(d, b + 100, "part", 4);
    device->release(d, a, SIZE);
    a = device->alloc(d, 10);
    device->download(d, got, b, SIZE);
    assert_memory_equal(got, want, SIZE);
    device->download(d, got, b + 101, 3);
    assert_memory_equal(got, "art", 3);
    device->download(d, got, a, 10);
    assert_memory_equal(got, want, 10);
    assert_null(device->alloc(d, SIZE_MAX / 2));
    assert_null(device->alloc(d, (size_t)1 << 45));
    device->release(d, a, 10);
    device->release(d, b, SIZE);
    device->close(d);
}

static void host_memory_is_used_in_place(void **state) {
    (void)state;
    DeviceState *d = opened();
    enum { SIZE = 4096 };
    char *host = aligned_alloc(64, 2 * SIZE), got[16];
    memset(host, 7, 2 * SIZE);
    assert_null(device->wrap(d, host + 1, SIZE));   // no vector could be read there
    void *at = device->wrap(d, host, SIZE);
    if (at) {
        device->download(d, got, (char *)at + 16, sizeof got);
        assert_memory_equal(got, host, sizeof got);
        device->release(d, at, SIZE);
    }
    device->close(d);
    free(host);
}

static const char kernel_text[] =
    "__kernel void twice(__global uchar *b0, const ulong o0, const int end) {\n"
    "    const int tile = (int)get_global_id(0);\n"
    "    if (tile < end) ((__global int *)(b0 + o0))[tile] *= 2;\n"
    "}\n";

static void twice_runs(DeviceState *d) {
    enum { N = 100 };
    KernelSource source = {"twice", kernel_text, NULL, 1};
    Program *program = NULL;
    Error err = {0};
    uint64_t us[2] = {UINT64_MAX, UINT64_MAX};
    int32_t numbers[N + 16], got[N + 16];
    for (int i = 0; i < N + 16; i++) numbers[i] = i;
    if (!device->compile(d, &source, 1, &program, &err)) compare_fail("%s", err.text);
    char *at = device->alloc(d, sizeof numbers);
    device->upload(d, at, numbers, sizeof numbers);
    void *part = at + 8 * sizeof *numbers;
    Stage stages[2] = {{.program = program, .params = &part, .tiles = N}, {.program = program, .params = &part, .tiles = N, .needs_barrier = true}};
    StepStats stats = {us};
    if (!device->run(d, stages, 2, NULL, &err) || !device->run(d, stages, 1, &stats, &err)) compare_fail("%s", err.text);
    device->download(d, got, at, sizeof got);
    for (int i = 0; i < N + 16; i++) assert_int_equal(got[i], i >= 8 && i < N + 8 ? 8 * i : i);
    assert_true(us[0] < 1000000 && us[1] == UINT64_MAX);
    stages[0].tiles = (long)INT32_MAX + 1;
    assert_false(device->run(d, stages, 1, NULL, &err));
    assert_non_null(strstr(err.text, "twice"));
    device->unload(d, program);
    device->release(d, at, sizeof numbers);
}

// The path of the one file in the folder of objects; "" where there is none.
static const char *object_path(Arena *arena, const char *folder) {
    const char *objects = arena_printf(arena, "%s/objects", folder), *found = "";
    DIR *dir = opendir(objects);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strstr(entry->d_name, ".clbin")) found = arena_printf(arena, "%s/%s", objects, entry->d_name);
    closedir(dir);
    return found;
}

static void binaries_are_kept_and_vouched_for(void **state) {
    (void)state;
    need_device();
    char folder[256];
    Error err = {0};
    Arena *arena = arena_create();
    Text first, second;
    assert_true(dir_temporary(folder, sizeof folder, "lathe-opencl-", &err));
    setting_override(SETTING_CACHE_DIR, folder);
    for (int round = 0; round < 3; round++) {   // compiled, loaded, compiled over a damaged file
        DeviceState *d = opened();
        twice_runs(d);
        device->close(d);
        const char *path = object_path(arena, folder);
        assert_true(*path);
        assert_true(file_read(arena, path, round == 0 ? &first : &second, &err));
        if (round == 1) {
            assert_true(text_equal(first, second));
            assert_true(file_write_atomic(path, second.at, second.len / 2, &err));
        }
    }
    assert_true(second.len > first.len / 2 + 1);
    setting_override(SETTING_CACHE_DIR, NULL);
    dir_remove(folder);
    arena_destroy(arena);
}

static void errors_name_the_cause(void **state) {
    (void)state;
    need_device();
    device_errors(device, "__kernel void wrong(int end) { this is no C; }", ".cl", SETTING_OPENCL, "abacus", "there are");
}

int main(void) {
    struct CMUnitTest cases[N_CODEGEN_CASES];
    const struct CMUnitTest own[] = {
        cmocka_unit_test(addresses_reach_parts),
        cmocka_unit_test(a_cpu_has_no_tails),
        cmocka_unit_test(host_memory_is_used_in_place),
        cmocka_unit_test(binaries_are_kept_and_vouched_for),
        cmocka_unit_test(errors_name_the_cause),
        cmocka_unit_test(numbers_keep_their_meaning),
    };
    DeviceState *state = NULL;
    if (device->open(&state, NULL, 0, &problem)) device->close(state);
    static CodegenNames names;
    codegen_tests_fill(cases, names, "opencl", on_opencl);
    int failed = cmocka_run_group_tests_name("opencl device", own, NULL, NULL);
    return failed + cmocka_run_group_tests_name("opencl", cases, NULL, NULL);
}

// device_cases: what is asked of every device that the system may lack. In: a Device that is there, and what is wrong to ask
// of it. Out: failed checks of cmocka where an error does not name its cause.
// Example: device_errors(device, "this is no C", ".cu", SETTING_CUDA, "/nowhere", "LATHE_CUDA")
#pragma once
#include "base/settings.h"
#include "compare.h"
#include "runtime/device.h"

static inline DeviceState *device_opened(const Device *device) {
    DeviceState *state = NULL;
    Error err = {0};
    if (!device->open(&state, NULL, 0, &err)) compare_fail("%s", err.text);
    return state;
}

// text: a kernel "wrong" that does not compile, kept in a file of this suffix; nowhere: a value of the setting that chooses
// the driver or the device, which an error repeats beside `hint`.
static inline void device_errors(const Device *device, const char *text, const char *suffix, SettingId setting, const char *nowhere,
                                 const char *hint) {
    DeviceState *d = device_opened(device), *none = NULL;
    Error err = {0};
    KernelSource wrong = {"wrong", text, NULL, 1};
    Program *program = NULL;
    assert_false(device->compile(d, &wrong, 1, &program, &err));
    assert_null(program);
    assert_int_equal(err.code, LATHE_COMPILE);
    assert_true(strstr(err.text, "kernel wrong") && strstr(err.text, suffix));
    device->close(d);
    assert_false(device->open(&none, "avx2", 0, &err));
    assert_non_null(strstr(err.text, "native"));
    assert_false(device->open(&none, NULL, -1, &err));
    setting_override(setting, nowhere);
    assert_false(device->open(&none, NULL, 0, &err));
    assert_true(strstr(err.text, nowhere) && strstr(err.text, hint));
    setting_override(setting, NULL);
}

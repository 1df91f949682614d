// devices: the Device struct of every row of devices.def; the list and device_find are in device.h.
#pragma once
#include "runtime/device.h"

#define DEVICE(name) extern const Device name##_device;
#include "runtime/devices.def"
#undef DEVICE

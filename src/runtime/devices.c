// devices: the registry. In: a name such as "cpu". Out: its struct of functions, or NULL.
// Invariant: `devices` has the order of devices.def and ends with NULL.
// Example: const Device *d = device_find("null"); d->open(&state, "avx2", 0, err)
#include "runtime/devices.h"

#include <string.h>

const Device *const devices[] = {
#define DEVICE(name) &name##_device,
#include "runtime/devices.def"
#undef DEVICE
    NULL,
};

const Device *device_find(const char *name) {
    for (int i = 0; devices[i]; i++)
        if (strcmp(devices[i]->name, name) == 0) return devices[i];
    return NULL;
}

// host_memory: the memory half of a Device whose addresses are the host's own (cpu, eval, null).
// In: sizes. Out: zeroed blocks aligned to 64 bytes, with 64 readable bytes behind them.
// Invariant: release gets the size that alloc got; the DeviceState is not looked at.
// Example: .alloc = host_alloc, .release = host_release, .upload = host_copy, .download = host_copy
#pragma once
#include <stddef.h>
#include "runtime/device.h"

void *host_alloc(DeviceState *state, size_t nbytes);     // NULL where it cannot be had
void host_release(DeviceState *state, void *at, size_t nbytes);
void host_copy(DeviceState *state, void *to, const void *from, size_t nbytes);

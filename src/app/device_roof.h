// device_roof: how fast a device reads its own memory: the limit that generation on it is measured against.
// In: the device's engine. Out: GB/s. Method: sums of rows of a large buffer, of three lengths, by kernels generated as any
// other; the median of five rounds each, the best counts. Invariant: the memory is given back before it returns.
// Example: device_roof_gb_s(engine) → 4200 on a card with 4.8 TB/s
#pragma once
#include "engine/engine.h"

double device_roof_gb_s(const Engine *engine);   // 10⁹ bytes a second; 0 where it cannot be measured

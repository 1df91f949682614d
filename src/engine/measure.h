// measure: how long a step takes. In: a step whose inputs are such that it may run. Out: microseconds of the fastest of some
// runs. Invariant: what the step stores is stored; nothing else happens. Example: measure_step(step, &us, err) → us = 2380
#pragma once
#include "engine/engine.h"

bool measure_step(Step *step, uint64_t *us, Error *err) MUST_CHECK;

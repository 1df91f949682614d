// measure: see measure.h.
#include "engine/measure.h"

#include "base/os.h"

enum { WARM_RUNS = 3, RUNS = 15, MOST_US = 2000000 };   // long steps are run less often

bool measure_step(Step *step, uint64_t *us, Error *err) {
    uint64_t begin = time_us();
    *us = UINT64_MAX;
    for (int i = 0; i < WARM_RUNS + RUNS && (*us == UINT64_MAX || time_us() - begin < MOST_US); i++) {
        uint64_t started = time_us();
        TRY(step_run(step, err));
        uint64_t taken = time_us() - started;
        if (i >= WARM_RUNS && taken < *us) *us = taken;
    }
    if (*us == 0) *us = 1;
    return true;
}

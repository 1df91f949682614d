// pipeline: THE list of passes from a kernel to a linear program, run, shown and checked in one loop.
// In: a kernel. Out: its program. Invariant: after each pass the graph is what the pass's row promises (checked in debug
// builds and with LATHE_DEBUG=2 or more), so that a fault is named by the pass that made it.
// Example: "after expand: vectors: store does not fit the register: …".
#include <stdio.h>

#include "base/settings.h"
#include "codegen/codegen.h"
#include "ir/textform.h"
#include "ir/verify.h"

typedef struct Pass { const char *name; GraphStage promised; UOp *(*run)(UOp *sink, const Target *target); } Pass;

static const Pass passes[] = {
    {"threads", STAGE_KERNEL, spread_threads},
    {"outward", STAGE_KERNEL, sums_outward},
    {"axes", STAGE_LOOPS, axes_plan},
    {"decompose", STAGE_LOOPS, decompose},
    {"tiles", STAGE_BODY, lower_tiles},
    {"expand", STAGE_VECTOR, expand},
    {"vectorize", STAGE_PROGRAM, vectorize},
    {"saturate", STAGE_PROGRAM, saturate},
};

bool codegen(Arena *arena, UOp *sink, const Target *target, UOpList *program, Error *err) {
    bool checks = verify_wanted();
    Error wrong = {0};
    if (checks && !verify(sink, STAGE_KERNEL, &wrong)) return fail(err, LATHE_UNSUPPORTED, "before threads: %s", wrong.text);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        UOp *next = passes[i].run(sink, target);
        if (uop_is_poison(next)) return fail(err, LATHE_UNSUPPORTED, "pass %s: %s", passes[i].name, next->message);
        if (setting_int(SETTING_DEBUG) >= 5 && next != sink)
            fprintf(stderr, "-- after %s\n%s\n", passes[i].name, textform_expression(arena, next, 60));
        if (checks && !verify(next, passes[i].promised, &wrong))
            return fail(err, LATHE_UNSUPPORTED, "after %s: %s", passes[i].name, wrong.text);
        sink = next;
    }
    *program = linearize(arena, sink, target);
    if (checks && !verify_program(program, &wrong)) return fail(err, LATHE_UNSUPPORTED, "after linearize: %s", wrong.text);
    return true;
}

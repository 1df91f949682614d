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

static bool lower(Arena *arena, UOp *sink, const Target *target, UOpList *program, Error *err) {
    bool checks = verify_wanted();
    Error wrong = {0};
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

// What a vector is made of: lanes one by one, which compilers take through memory where there are many, or by one instruction of registers
// or for each of four equal parts.
static double joining_cost(const UOp *u) {
    const UOp *cat = u->op == OP_SHUFFLE ? u->src[0] : u;
    int parts = cat->n_src;
    if (cat->op != OP_VCAT || uop_is_pair(cat)) return 1;
    bool is_even = parts == 4 && u == cat && cat->src[0]->lanes > 1;
    for (int i = 1; i < parts; i++) is_even &= cat->src[i]->lanes == cat->src[0]->lanes;
    return is_even ? parts - 1 : u->lanes > 8 ? 3 * u->lanes : u->lanes;
}

// Instructions of vectors, and of numbers that they are made of, that a tile runs. A loop whose length is data counts once.
static double vector_instructions(const UOpList *program) {
    double n = 0, turns[64] = {1};
    int depth = 0;
    for (size_t k = 0; k < program->len; k++) {
        const UOp *u = program->at[k];
        if (u->op == OP_RANGE && depth < 63) turns[depth + 1] = turns[depth] * (range_is_static(u) ? (double)range_size(u) : 1), depth++;
        else if (u->op == OP_END && depth > 0) depth--;
        else if (u->op == OP_VCAT || u->op == OP_SHUFFLE) n += turns[depth] * joining_cost(u);
        else if ((u->lanes > 1 && u->op != OP_VCONST) || u->op == OP_LOAD) n += turns[depth];
    }
    return n;
}

bool codegen(Arena *arena, UOp *sink, const Target *target, UOpList *program, Error *err) {
    // A core that takes two turns for a long register gains where half the instructions are enough, and loses where long ones are put
    // together from many pieces.
    static const double FEW = 0.65;
    Error wrong = {0};
    if (verify_wanted() && !verify(sink, STAGE_KERNEL, &wrong)) return fail(err, LATHE_UNSUPPORTED, "before threads: %s", wrong.text);
    TRY(lower(arena, sink, target, program, err));
    if (!target->wide_bytes) return true;
    Target wide = *target;
    UOpList with_wide;
    wide.vector_bytes = target->wide_bytes;
    TRY(lower(arena, sink, &wide, &with_wide, err));
    if (vector_instructions(&with_wide) <= FEW * vector_instructions(program)) *program = with_wide;
    return true;
}

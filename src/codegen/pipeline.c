// pipeline: THE list of passes from a kernel to a linear program, run, shown and checked in one loop.
// In: a kernel. Out: its program. Invariant: after each pass the graph is what the pass's row promises (checked in debug
// builds and with LATHE_DEBUG=2 or more), so that a fault is named by the pass that made it.
// Example: "after expand: vectors: store does not fit the register: …".
#include <stdio.h>
#include <string.h>

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

enum { SLOTS = 64, DEEPEST = 64, HALF_LINE = 32 };

// Which parameter is stored to, as one bit; 0: none, or one that has no bit.
static uint64_t slot_of(const UOp *store) {
    const UOp *buffer = uop_is_store(store) ? uop_buffer_of(store->src[0]) : NULL;
    return buffer && buffer->op == OP_PARAM && buffer->arg[0] < SLOTS ? (uint64_t)1 << buffer->arg[0] : 0;
}

Target store_target(const Target *target, const UOp *store) {
    Target own = *target;
    const UOp *buffer = uop_buffer_of(store->src[0]);
    if (buffer->op == OP_PARAM && target->wide_bytes) own.vector_bytes = target->wide_stores & slot_of(store) ? target->wide_bytes : target->wide_bytes / 2;
    return own;
}

// Instructions of vectors, and of numbers that they are made of, that a tile runs for what it stores to each parameter: those of the outermost
// loop around the stores, and those before it. A loop whose length is data counts once. Returns which parameters there are.
static uint64_t vector_instructions(const UOpList *program, double *of_slot) {
    static const double LONG_LOAD = 1.5;       // where it lies across two lines it takes as long as two short ones, else as one
    double n = 0, turns[DEEPEST] = {1};
    uint64_t stored = 0, all = 0;
    int depth = 0;
    memset(of_slot, 0, SLOTS * sizeof *of_slot);
    for (size_t k = 0; k < program->len; k++) {
        const UOp *u = program->at[k];
        stored |= slot_of(u);
        if (u->op == OP_RANGE && depth < DEEPEST - 1) turns[depth + 1] = turns[depth] * (range_is_static(u) ? (double)range_size(u) : 1), depth++;
        else if (u->op == OP_END && depth > 0) depth--;
        else if (u->op == OP_VCAT || u->op == OP_SHUFFLE) n += turns[depth] * joining_cost(u);
        else if (u->op == OP_LOAD) n += turns[depth] * (u->lanes * dtype_bytes(u->dtype) > HALF_LINE ? LONG_LOAD : 1);
        else if (u->lanes > 1 && u->op != OP_VCONST) n += turns[depth];
        if (depth || !stored) continue;
        for (int slot = 0; slot < SLOTS; slot++) if (stored >> slot & 1) of_slot[slot] += n;
        all |= stored;
        n = 0, stored = 0;
    }
    return all;
}

// The stores that need few enough instructions with long registers; UINT64_MAX: all of them.
static uint64_t few_with_wide(const UOpList *program, const UOpList *with_wide) {
    // A core that takes two turns for a long register gains where about half the instructions are enough, and loses where long ones are put
    // together from many pieces.
    static const double FEW = 0.72;
    double own[SLOTS], wide[SLOTS];
    uint64_t few = 0, all = vector_instructions(program, own);
    vector_instructions(with_wide, wide);
    for (int slot = 0; slot < SLOTS; slot++) if (own[slot] > 0 && wide[slot] <= FEW * own[slot]) few |= (uint64_t)1 << slot;
    return few && few == all ? UINT64_MAX : few;
}

bool codegen(Arena *arena, UOp *sink, const Target *target, UOpList *program, Error *err) {
    Error wrong = {0};
    if (verify_wanted() && !verify(sink, STAGE_KERNEL, &wrong)) return fail(err, LATHE_UNSUPPORTED, "before threads: %s", wrong.text);
    TRY(lower(arena, sink, target, program, err));
    if (!target->wide_bytes) return true;
    Target wide = *target;
    UOpList with_wide;
    wide.wide_stores = UINT64_MAX;
    TRY(lower(arena, sink, &wide, &with_wide, err));
    wide.wide_stores = few_with_wide(program, &with_wide);
    if (wide.wide_stores == UINT64_MAX) *program = with_wide;
    return !wide.wide_stores || wide.wide_stores == UINT64_MAX || lower(arena, sink, &wide, program, err);
}

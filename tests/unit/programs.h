// programs: kernels of targets, as linear programs that tests read without running them.
#pragma once
#include "codegen/codegen.h"
#include "compare.h"
#include "nn/layers.h"
#include "runtime/cpu_target.h"
#include "schedule/schedule.h"
#include "unit/invented_types.h"

enum { BOOK = 2 };

static inline Tensor book_of_any(void *context, Graph *g, const int8_t *values, int n) {
    (void)context, (void)values;
    return tensor_buffer(g, BOOK, DT_I8, -128, 127, dims(n));
}

static inline int64_t bytes_of_any(void *context, int64_t id) { (void)context; (void)id; return 1 << 24; }
static inline int64_t bytes_with_book(void *context, int64_t id) { return id == BOOK ? (int64_t)sizeof invented_book : bytes_of_any(context, id); }

// The last kernel of n tensors on a target.
static inline UOpList last_program_of_all(Arena *arena, Tensor *y, int n, const Target *target) {
    Error err = {0};
    Schedule schedule;
    KernelList kernels;
    UOpList program;
    assert_true(schedule_build(&schedule, arena, y, n, &err));
    schedule.wishes = target->tiles;
    schedule.vector_bytes = target->dot != DOT_NONE ? target->vector_bytes : 0;
    schedule.wide_bytes = target->dot != DOT_NONE ? target->wide_bytes : 0;
    schedule.unsigned_dots = target->dot == DOT_U8I8;
    assert_true(schedule_kernels(&schedule, &kernels, &err));
    assert_true(codegen(arena, canonicalize(arena, &kernels.at[kernels.len - 1], bytes_with_book, NULL).sink, target, &program, &err));
    return program;
}

static inline UOpList last_program_of(Arena *arena, Tensor y, const Target *target) { return last_program_of_all(arena, &y, 1, target); }

// That of a product of one row with weights of a type.
static inline UOpList product_of_blocks(Arena *arena, const QuantType *t, int64_t blocks, const char *target_name) {
    Error err = {0};
    Target target;
    Graph *g = graph_create(arena);
    Layers layers = {.graph = g, .tables = {book_of_any, NULL}};
    Weight w = {.type = t, .buffer = 1, .count = 1, .rows = 4096, .cols = t->block_elements * blocks};
    assert_true(cpu_target_find(&target, target_name, &err));
    return last_program_of(arena, layers_linear(&layers, input_of(tensor_buffer(g, 0, DT_F32, 0, 0, dims(1, w.cols))), &w), &target);
}

static inline UOpList product_program(Arena *arena, const QuantType *t, const char *target) { return product_of_blocks(arena, t, 32, target); }

static inline int count_of(const UOpList *program, Op op, DType dtype) {
    int n = 0;
    for (size_t k = 0; k < program->len; k++) n += program->at[k]->op == op && program->at[k]->dtype == dtype;
    return n;
}

// thread_words: sums over floats that lie side by side in memory, in steps of as many as one load takes: of the narrowest of
// them, or, where a kernel has tiles that keep the pipes of memory busy, of the widest, so that neighbouring threads read
// neighbouring words of all of them.
// In: a kernel for a target whose tiles are groups. Out: the same, such sums over two loops: words, which threads share, and the
// elements of one, which axes makes lanes. Invariant: no fold inside of such a sum, no condition on what it reads.
// Example: 64 halves of a key: fold over 64 → fold over 8 words of 8, 16 bytes each.
#include "codegen/thread_tile.h"

enum { MOST_LOOPS = 16 };

// Elements of a word; 1: they do not lie side by side.
static int64_t word_steps(Arena *arena, const Target *target, UOp *fold, bool is_busy) {
    UOp *range = fold->src[fold->n_src - 1];
    int64_t steps = 1, apart;
    bool is_sum = fold->arg[0] == MONOID_SUM && fold->dtype == DT_F32 && fold->n_src <= MOST_LOOPS;
    if (!is_sum || !range_is_static(range) || range_kind(range) != RANGE_REDUCE) return 1;
    RangeSets sets = range_sets(arena, fold->src[0]);
    UOpList order = uop_toposort_value(arena, fold->src[0]);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (u->op == OP_FOLD) return 1;
        if (u->op != OP_LOAD || !range_sets_depends(&sets, u, range)) continue;
        int64_t own = target->max_load_bytes / dtype_bytes((DType)u->dtype);
        if (u->n_src > 1) return 1;
        bool is_beside = dtype_is_float((DType)u->dtype) && uop_buffer_of(u->src[0])->dtype == u->dtype &&
                         index_step(u->src[0]->src[1], range, &apart) && apart == 1;
        if (is_beside && (steps == 1 || (is_busy ? own < steps : own > steps))) steps = own;
    }
    while (steps > 1 && range_size(range) % steps) steps /= 2;
    return steps;
}

static UOp *in_words(UOp *fold, int64_t steps) {
    Graph *g = fold->graph;
    UOp *loops[MOST_LOOPS + 1], *range = fold->src[fold->n_src - 1];
    int n = fold->n_src - 2;
    int64_t words = range_size(range) / steps;
    for (int i = 0; i < n; i++) loops[i] = fold->src[1 + i];
    UOp *step = uop_range_const(g, steps, RANGE_UNROLL), *at = step;
    if (words > 1) {
        UOp *word = loops[n++] = uop_range_const(g, words, RANGE_REDUCE);
        at = uop_binary(OP_ADD, uop_binary(OP_MUL, word, uop_int(g, DT_I32, steps)), step);
    }
    loops[n++] = step;
    return uop_fold(MONOID_SUM, (int)fold->arg[1], uop_substitute(fold->src[0], &range, &at, 1), loops, n);
}

UOp *thread_words(UOp *sink, const Target *target, double tiles) {
    Arena *arena = graph_arena(sink->graph);
    UOpList order = uop_toposort(arena, sink);
    UOpMap done;
    uop_map_init(&done, arena);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *now = uop_renewed(u, &done);
        int64_t steps = u->op == OP_FOLD ? word_steps(arena, target, now, !target_has_few(target, tiles)) : 1;
        uop_map_put(&done, u, steps > 1 ? in_words(now, steps) : now);
    }
    return uop_map_get(&done, sink);
}

// linearize_private: what linearize and prefetch share: the lines so far, and where in them loops are open.
#pragma once
#include "base/vec.h"
#include "codegen/codegen.h"

typedef unsigned __int128 Mask;   // a set of loops

// Large memory that an innermost loop walks through: the bytes of one step, from lo to hi behind a common base.
typedef struct Stream { UOp *buffer, *base; int64_t lo, hi; } Stream;

typedef struct Lines {
    Arena *arena;
    Graph *graph;
    const Target *target;
    UOpList out;
    UOpMap mask;        // node → the loops it depends on (Mask *)
    UOpMap bit;         // RANGE → 1 + bit
    UOpMap has_nest;    // nodes that need a loop to have run
    UOpList loads;
    UOpMap reg_mask;    // DEFINE_REG → loops around the nest that accumulates into it (Mask *)
    UOpMap done;
    UOpList marked;     // what was done, in order
    UOpList around;     // loops that are open, outermost first
    VEC(Stream) walked; // of the tile so far; base: where all loops begin
    int n_bits;
    Mask open;
} Lines;

static inline bool lines_is_nest(const UOp *u) { return u->op == OP_END && u->n_arg == 1; }
Mask lines_mask(Lines *l, UOp *u);         // the loops that u depends on
Mask lines_bit(Lines *l, UOp *range);      // a loop's own
void lines_push(Lines *l, UOp *u);         // a line behind all others
void lines_emit(Lines *l, UOp *u);         // u and all that it needs, unless they stand there already
// Requests for memory. opened: where the line is that opened `range`, the innermost loop of the nest.
void lines_prefetch(Lines *l, UOp *nest, UOp *range, size_t opened);

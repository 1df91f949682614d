// schedule: from a tensor graph to an ordered list of kernels over buffers.
// indexing makes index expressions of movement ops; kernels decides what is kept in a buffer and makes one Item a
// kept value; factor rewrites sums of products; fuse joins items that share a tile; memory places temporaries;
// cache gives equal kernels one canonical form.
#pragma once
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"
#include "ir/target.h"
#include "ir/rewrite.h"
#include "schedule/sum_forms.h"

// One kept value: the statement that computes and stores it.
typedef struct Item {
    UOp *store;                  // STORE(INDEX(BUFFER, i), value, ranges…)
    int64_t buffer;              // id of the buffer written
    bool is_part;                // other items write the rest of the buffer
} Item;

// A buffer that lives only inside a step, or an output of it.
// is_shared: tiles each make an addend of its elements, so that whoever reads it stands in a later kernel. stays_zero: counters
// of a LAST_TILE, MOST_COUNTERS at most, which lie where those of all kernels lie: kernels run one after the other.
typedef struct Temp { int64_t id; DType dtype; int64_t count; bool is_output, is_shared, stays_zero; } Temp;

enum { FIRST_TEMP_ID = 1 << 30, MOST_COUNTERS = 4096 };   // ids below belong to the engine

typedef struct Schedule {
    Arena *arena;
    Graph *graph;
    VEC(Item) items;             // in an order that can run: hazards are those of the buffers they touch
    VEC(Temp) temps;             // temp i has id FIRST_TEMP_ID + i
    int64_t *output_ids;         // buffer id of each output of the graph
    TileWishes wishes;           // of the target; zeros: a CPU's
    int local_bytes;             // memory of a tile; 0: it has none
    bool local_groups;           // tiles are groups of threads
    int vector_bytes;            // of a register whose lanes multiply bytes; 0: there is none
    int wide_bytes;              // of one twice as long; 0: there is none
    bool unsigned_dots;          // the target's dot products want one factor of bytes without sign
    SumForm sums;                // where tiles may share them
    bool shares_all;             // such sums wherever it can be done, not only where it may pay
    int n_shared;                // sums that are, or would be, shared out
    bool failed;
    Error error;
} Schedule;

// A kernel: statements that run tile by tile, in order within a tile.
typedef struct Kernel {
    VEC(UOp *) stores;           // STORE nodes, and a LAST_TILE; those that read an earlier one's buffer do so through AFTER
    VEC(UOp *) tiles;            // RANGE_GLOBAL nodes, outermost first
    double work;                 // operations of the whole kernel, estimated
} Kernel;
static inline UOp *kernel_sink(const Kernel *k) { return uop_sink(k->stores.at[0]->graph, k->stores.at, (int)k->stores.len); }
static inline int64_t kernel_tiles(const Kernel *k) {
    int64_t n = 1;
    for (size_t i = 0; i < k->tiles.len; i++) n *= range_size(k->tiles.at[i]);
    return n;
}
typedef struct KernelList { Kernel *at; size_t len, cap; } KernelList;

// kernels.c: the whole graph under the outputs. False: poison, or a read that no order makes right.
bool schedule_build(Schedule *s, Arena *arena, UOp *const *outputs, int n, Error *err) MUST_CHECK;
UOp *schedule_temp(Schedule *s, DType dtype, int64_t count, int64_t lo, int64_t hi);   // a new temporary's BUFFER
Temp *schedule_temp_find(Schedule *s, int64_t id);                                     // NULL for the engine's buffers

// split.c: values made of two parts become two items, each with loops of its own.
void schedule_split(Schedule *s);

// factor.c: integer forms of sums of products; values that lack the kernel's ranges become items of their own.
void schedule_factor(Schedule *s);

// ragged.c: masks become the bounds of loops.
void schedule_ragged(Schedule *s);

// addends.c: sums of few long steps in another form (sums).
void schedule_addends(Schedule *s);

// apart.c: costly values beside sums, of which registers can hold several, become items of their own.
void schedule_apart(Schedule *s);

// fuse.c: items become kernels: which loops are tiles, which items share them.
KernelList schedule_fuse(Schedule *s);

// forward.c: statements that need not wait for an earlier one of their kernel.
void schedule_forward(Schedule *s, KernelList *kernels);

// sections.c: kernels that do not wait for each other become one.
KernelList schedule_sections(Schedule *s, KernelList kernels);

// tails.c: kernels of little work become the end of the one before.
KernelList schedule_tails(Schedule *s, KernelList kernels);

// local.c: what only the tile reads that stores it lies in memory of its own.
void schedule_local(Schedule *s, KernelList *kernels);

// interleave.c: what products read lies in an order that fills registers.
void schedule_interleave(Schedule *s, KernelList *kernels);

// passes.c: all of these in their order, each checked where that is wanted (ir/verify).
bool schedule_kernels(Schedule *s, KernelList *out, Error *err) MUST_CHECK;

// memory.c: offsets of temporaries in one block, so that those alive at once do not overlap. first[i] ≤ last[i]:
// the phases in which temporary i is in use. Returns the bytes of the block.
int64_t memory_plan(Arena *arena, const int64_t *nbytes, const int *first, const int *last, int n, int64_t *offset);

// cache.c: a kernel in canonical form: PARAM slots, RANGE and DEFINE_LOCAL ids numbered by first visit, in a graph of its own.
// Equal kernels have equal keys, whatever buffers they work on.
typedef struct Canonical {
    UOp *sink;
    int64_t *buffers;            // buffer id of each PARAM slot
    bool *is_written, *is_read;  // of each slot
    int n_slots;
    const void *key;
    size_t key_bytes;
    int64_t tiles;
} Canonical;
typedef int64_t (*BufferBytes)(void *context, int64_t id);
Canonical canonicalize(Arena *arena, const Kernel *kernel, BufferBytes nbytes, void *context);

// traffic.c: the bytes of its buffers that a kernel touches, each cell once; loops without a constant end count in
// full. whole: buffers that it reads from end to end and does not write. arena holds these, and scratch; it must not be the graph's.
typedef struct KernelTraffic { int64_t nbytes, *whole; int n_whole; } KernelTraffic;
KernelTraffic kernel_traffic(Arena *arena, const Kernel *kernel, BufferBytes nbytes, void *context);

// loops.c: root with a new RANGE for each of its own but tiles and `outer` (or NULL), which becomes `at`.
UOp *loops_renewed(Arena *arena, UOp *root, UOp *outer, UOp *at);
// A new RANGE that ends at data, cut to 0 … most.
UOp *loop_within(UOp *end, int64_t most, RangeKind kind);
// How many loops root has; a kernel may have KERNEL_LOOPS, as linearize keeps sets of them as bits.
enum { KERNEL_LOOPS = 100 };
int loops_count(Arena *arena, UOp *root);
// Whether root holds a node of this op.
bool holds_op(Arena *arena, UOp *root, Op op);

// cost.c: operations of one evaluation of a value, its loops included.
double value_cost(UOp *value);

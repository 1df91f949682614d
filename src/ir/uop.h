// UOp: the one node type, from tensors down to machine-like programs.
// A node is {op, dtype, lanes, src[], arg[]}: immutable and hash-consed in its Graph, so that equal nodes are the
// same pointer and a rewrite that changes nothing returns the node itself.
// Invariants: sources are created before their users (smaller id); dtype and shape come from ir/infer.
// Example: UOp *y = uop_binary(OP_ADD, x, uop_int(g, DT_I32, 3));
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"

typedef enum Op {
#define OP(name, ...) OP_##name,
#include "ir/ops.def"
#undef OP
    OP_COUNT
} Op;

typedef enum OpKind { KIND_LEAF, KIND_MOVE, KIND_UNARY, KIND_BINARY, KIND_TERNARY, KIND_CONVERT, KIND_REDUCE,
                      KIND_MEMORY, KIND_CONTROL, KIND_VECTOR } OpKind;
enum { TRAIT_COMM = 1, TRAIT_ASSOC = 2, TRAIT_IDEMPOTENT = 4, TRAIT_INT_ONLY = 8, TRAIT_FLOAT_ONLY = 16,
       TRAIT_COMPARE = 32 };
typedef struct OpInfo { const char *name; int arity; OpKind kind; int traits; const char *pattern, *c_text; int cost; } OpInfo;
extern const OpInfo op_info[OP_COUNT];
static inline bool op_is_elementwise(Op op) {
    OpKind kind = op_info[op].kind;
    return kind == KIND_UNARY || kind == KIND_BINARY || kind == KIND_TERNARY || kind == KIND_CONVERT;
}

typedef enum DType {
#define DTYPE(name, ...) DT_##name,
#include "ir/dtypes.def"
#undef DTYPE
    DT_COUNT
} DType;
typedef enum DTypeClass { CLASS_VOID, CLASS_BOOL, CLASS_INT, CLASS_UINT, CLASS_FLOAT } DTypeClass;
typedef struct DTypeInfo { const char *name; int nbytes; DTypeClass type_class; const char *c_type; int64_t lo, hi; } DTypeInfo;
extern const DTypeInfo dtype_info[DT_COUNT];

typedef enum Monoid {
#define MONOID(name, ...) MONOID_##name,
#include "ir/reductions.def"
#undef MONOID
    MONOID_COUNT
} Monoid;
typedef struct MonoidInfo { const char *name; Op combine; int64_t int_identity; double float_identity; } MonoidInfo;
extern const MonoidInfo monoid_info[MONOID_COUNT];

// What a RANGE is for. GLOBAL: tiles of the kernel, any order, in parallel. LOOP: inside a tile, in order.
// REDUCE: belongs to FOLDs. LANE: becomes vector lanes; UNROLL: becomes copies. These two vanish in expand.
// SINGLE: one step or none around a store, whose value is computed before it: of threads with the same value one stores.
typedef enum RangeKind { RANGE_GLOBAL, RANGE_LOOP, RANGE_REDUCE, RANGE_LANE, RANGE_UNROLL, RANGE_SINGLE } RangeKind;

typedef struct Graph Graph;
typedef struct UOp UOp;
struct UOp {
    uint8_t op, dtype;
    uint16_t lanes;         // 1 = scalar; > 1 only below codegen/expand
    uint16_t n_src, n_arg;
    int16_t ndim;           // of shape; kernel-level nodes have shape []
    uint32_t id;            // order of creation in the graph
    uint64_t hash;
    uint64_t visit;         // the last walk that came here, and as which node (graph_visits)
    UOp *const *src;
    const int64_t *arg;
    const int64_t *shape;
    const char *message;    // OP_POISON: what was wrong, and where
    Graph *graph;
};

Graph *graph_create(Arena *arena);                 // lives as long as the arena
Arena *graph_arena(Graph *g);
int64_t graph_unique(Graph *g);                    // ids for RANGE, DEFINE_LOCAL, DEFINE_REG, BUFFER
size_t graph_size(const Graph *g);                 // nodes made so far
uint64_t graph_visits(Graph *g);                   // a number above all that nodes hold in `visit`
void graph_visited(Graph *g, size_t n);            // the walk that took it gave nodes the n numbers behind it

UOp *uop_new(Graph *g, Op op, DType dtype, int lanes, UOp *const *src, int n_src, const int64_t *arg, int n_arg);
UOp *uop_with_src(UOp *u, UOp *const *src);        // same op and arg; dtype and shape inferred anew
UOp *uop_poison(Graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool uop_is_poison(const UOp *u);

UOp *uop_int(Graph *g, DType dtype, int64_t value);      // dtype may be a float type too
UOp *uop_float(Graph *g, DType dtype, double value);
UOp *uop_unary(Op op, UOp *a);
UOp *uop_binary(Op op, UOp *a, UOp *b);                  // folds constants and identities of integers at once
UOp *uop_where(UOp *cond, UOp *a, UOp *b);
UOp *uop_cast(UOp *a, DType dtype);
UOp *uop_bitcast(UOp *a, DType dtype);
UOp *uop_range(Graph *g, UOp *end, RangeKind kind);      // fresh id
UOp *uop_range_const(Graph *g, int64_t end, RangeKind kind);
UOp *uop_range_most(Graph *g, UOp *end, int64_t most, RangeKind kind);   // end: data that is never above most
UOp *uop_fold(Monoid monoid, int chains, UOp *value, UOp *const *ranges, int n_ranges);
UOp *uop_index(UOp *buffer, UOp *index);
UOp *uop_buffer_of(const UOp *index);                    // the memory that an INDEX is of, behind what it waits for
bool uop_is_own_memory(const UOp *buffer);                // DEFINE_REG and DEFINE_ARRAY: what only its own statement touches
UOp *uop_load(UOp *index, DType dtype, UOp *valid);      // valid may be NULL; dtype may be wider than the buffer's bytes
UOp *uop_store(UOp *index, UOp *value, UOp *const *ranges, int n_ranges);
UOp *uop_store_as(const UOp *like, UOp *index, UOp *value, UOp *const *ranges, int n_ranges);   // STORE or ATOMIC_ADD, as `like` is
bool uop_is_store(const UOp *u);                         // STORE and ATOMIC_ADD: what changes memory
UOp *uop_after(UOp *value, UOp *const *deps, int n_deps);
UOp *uop_sink(Graph *g, UOp *const *stmts, int n);

bool uop_is_pair(const UOp *u);                          // VCAT of two vectors of as many lanes each
bool uop_is_const(const UOp *u);                         // CONST
bool uop_is_int_const(const UOp *u, int64_t *value);     // CONST of an integer or bool type
double uop_const_float(const UOp *u);                    // CONST of any type as a double
bool dtype_is_float(DType d);
bool dtype_is_int(DType d);                              // signed, unsigned or bool
int dtype_bytes(DType d);
RangeKind range_kind(const UOp *range);
int64_t range_id(const UOp *range);
int64_t range_size(const UOp *range);                    // of a constant end; its upper bound otherwise
bool range_is_static(const UOp *range);                  // its end is no data

// All nodes reachable from root, sources first. The array lives on the arena.
typedef struct UOpList { UOp **at; size_t len, cap; } UOpList;
UOpList uop_toposort(Arena *arena, UOp *root);
// The same without what AFTER nodes only wait for: the nodes that the value is computed from.
UOpList uop_toposort_value(Arena *arena, UOp *root);
// Replace nodes: from[i] → to[i], everywhere under root.
UOp *uop_substitute(UOp *root, UOp *const *from, UOp *const *to, int n);
// The RANGEs that a value depends on and that are not closed inside it (by FOLD or STORE), in order of id.
UOpList uop_free_ranges(Arena *arena, UOp *root);

typedef struct UOpMap { UOp **keys; void **values; size_t len, cap; Arena *arena; } UOpMap;   // keyed by pointer
void uop_map_init(UOpMap *m, Arena *arena);
void uop_map_reserve(UOpMap *m, size_t len);             // room for so many keys in all
void *uop_map_get(const UOpMap *m, const UOp *key);
void uop_map_put(UOpMap *m, UOp *key, void *value);
UOp *uop_renewed(UOp *u, const UOpMap *done);            // u, of what done says of each of its sources

// The same as uop_free_ranges for every node under root at once. ranges: all RANGEs under root in order of id.
typedef struct RangeSets { UOpList order, ranges; UOpMap bits; } RangeSets;
RangeSets range_sets(Arena *arena, UOp *root);
bool range_sets_has(const RangeSets *s, const UOp *u, size_t range);               // range: its place in s->ranges
bool range_sets_depends(const RangeSets *s, const UOp *u, const UOp *range);       // false for a range elsewhere
double range_sets_trips(const RangeSets *s, const UOp *u);                            // product of the sizes of its ranges

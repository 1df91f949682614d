// uop: making, walking and replacing nodes. See uop.h.
#include "ir/uop.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/map.h"
#include "ir/eval.h"
#include "ir/infer.h"

#define COMM TRAIT_COMM
#define ASSOC TRAIT_ASSOC
#define IDEMPOTENT TRAIT_IDEMPOTENT
#define INT_ONLY TRAIT_INT_ONLY
#define FLOAT_ONLY TRAIT_FLOAT_ONLY
#define COMPARE TRAIT_COMPARE
const OpInfo op_info[OP_COUNT] = {
#define OP(name, arity, kind, traits, pattern, c_text, on_int, on_float, cost) \
    [OP_##name] = {#name, arity, KIND_##kind, traits, pattern, c_text, cost},
#include "ir/ops.def"
#undef OP
};
#undef COMM
#undef ASSOC
#undef IDEMPOTENT
#undef INT_ONLY
#undef FLOAT_ONLY
#undef COMPARE

const DTypeInfo dtype_info[DT_COUNT] = {
#define DTYPE(name, nbytes, type_class, c_type, lo, hi) \
    [DT_##name] = {#name, nbytes, CLASS_##type_class, c_type, lo, hi},
#include "ir/dtypes.def"
#undef DTYPE
};

const MonoidInfo monoid_info[MONOID_COUNT] = {
#define MONOID(name, combine, int_identity, float_identity) \
    [MONOID_##name] = {#name, OP_##combine, int_identity, float_identity},
#include "ir/reductions.def"
#undef MONOID
};

struct Graph {
    Arena *arena;
    UOp **slots;            // open addressing, a power of two
    size_t n_slots, len;
    int64_t next_unique;
    uint64_t n_visits;      // the largest number that a walk over the graph gave
};

Graph *graph_create(Arena *arena) {
    Graph *g = arena_new(arena, sizeof *g);
    g->arena = arena;
    g->n_slots = 1024;
    g->slots = arena_new(arena, g->n_slots * sizeof *g->slots);
    return g;
}

Arena *graph_arena(Graph *g) { return g->arena; }
int64_t graph_unique(Graph *g) { return g->next_unique++; }
size_t graph_size(const Graph *g) { return g->len; }

static void graph_grow(Graph *g) {
    size_t n = g->n_slots * 2;
    UOp **slots = arena_new(g->arena, n * sizeof *slots);
    for (size_t i = 0; i < g->n_slots; i++) {
        if (!g->slots[i]) continue;
        size_t at = g->slots[i]->hash & (n - 1);
        while (slots[at]) at = (at + 1) & (n - 1);
        slots[at] = g->slots[i];
    }
    g->slots = slots;
    g->n_slots = n;
}

static uint64_t mix(uint64_t h, uint64_t value) {
    h ^= value;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

static uint64_t node_hash(Op op, DType dtype, int lanes, UOp *const *src, int n_src, const int64_t *arg, int n_arg) {
    uint64_t h = mix(0x5bd1e995u, (uint64_t)op | (uint64_t)dtype << 8 | (uint64_t)(uint32_t)lanes << 16);
    for (int i = 0; i < n_src; i++) h = mix(h, src[i]->hash + src[i]->id);
    for (int i = 0; i < n_arg; i++) h = mix(h, (uint64_t)arg[i]);
    return h;
}

static bool node_equal(const UOp *u, Op op, DType dtype, int lanes, UOp *const *src, int n_src, const int64_t *arg,
                       int n_arg) {
    return u->op == op && u->dtype == dtype && u->lanes == lanes && u->n_src == n_src && u->n_arg == n_arg &&
           (n_src == 0 || !memcmp(u->src, src, (size_t)n_src * sizeof *src)) &&
           (n_arg == 0 || !memcmp(u->arg, arg, (size_t)n_arg * sizeof *arg));
}

UOp *uop_poison(Graph *g, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    UOp *u = arena_new(g->arena, sizeof *u);
    *u = (UOp){.op = OP_POISON, .dtype = DT_VOID, .lanes = 1, .id = (uint32_t)g->len++, .graph = g,
               .message = arena_printf(g->arena, "%s", text)};
    u->hash = mix(0x706f69736f6eu, u->id);
    return u;
}

bool uop_is_poison(const UOp *u) { return u->op == OP_POISON; }

UOp *uop_new(Graph *g, Op op, DType dtype, int lanes, UOp *const *src, int n_src, const int64_t *arg, int n_arg) {
    for (int i = 0; i < n_src; i++) if (src[i]->op == OP_POISON) return src[i];
    Inferred t = infer(g->arena, op, dtype, lanes, src, n_src, arg, n_arg);
    if (t.problem) return uop_poison(g, "%s: %s", op_info[op].name, t.problem);
    uint64_t h = node_hash(op, t.dtype, t.lanes, src, n_src, arg, n_arg);
    size_t at = h & (g->n_slots - 1);
    for (; g->slots[at]; at = (at + 1) & (g->n_slots - 1)) {
        UOp *u = g->slots[at];
        if (u->hash == h && node_equal(u, op, t.dtype, t.lanes, src, n_src, arg, n_arg)) return u;
    }
    CHECK(n_src <= UINT16_MAX && n_arg <= UINT16_MAX && t.lanes <= UINT16_MAX);
    UOp *u = arena_new(g->arena, sizeof *u);
    *u = (UOp){.op = (uint8_t)op, .dtype = (uint8_t)t.dtype, .lanes = (uint16_t)t.lanes, .n_src = (uint16_t)n_src,
               .n_arg = (uint16_t)n_arg, .ndim = (int16_t)t.ndim, .id = (uint32_t)g->len, .hash = h, .graph = g,
               .shape = t.shape};
    if (n_src) u->src = arena_copy(g->arena, src, (size_t)n_src * sizeof *src);
    if (n_arg) u->arg = arena_copy(g->arena, arg, (size_t)n_arg * sizeof *arg);
    g->slots[at] = u;
    if (++g->len * 2 > g->n_slots) graph_grow(g);
    return u;
}

UOp *uop_with_src(UOp *u, UOp *const *src) {
    if (u->n_src == 0 || !memcmp(u->src, src, u->n_src * sizeof *src)) return u;
    return uop_new(u->graph, u->op, u->dtype, u->lanes, src, u->n_src, u->arg, u->n_arg);
}

// ---------------------------------------------------------------- facts

bool dtype_is_float(DType d) { return dtype_info[d].type_class == CLASS_FLOAT; }
bool dtype_is_int(DType d) {
    DTypeClass c = dtype_info[d].type_class;
    return c == CLASS_INT || c == CLASS_UINT || c == CLASS_BOOL;
}
int dtype_bytes(DType d) { return dtype_info[d].nbytes; }

bool uop_is_const(const UOp *u) { return u->op == OP_CONST; }

bool uop_is_int_const(const UOp *u, int64_t *value) {
    if (u->op != OP_CONST || dtype_is_float(u->dtype)) return false;
    if (value) *value = u->arg[0];
    return true;
}

double uop_const_float(const UOp *u) {
    double value;
    if (!dtype_is_float(u->dtype)) return (double)u->arg[0];
    memcpy(&value, u->arg, sizeof value);
    return value;
}

RangeKind range_kind(const UOp *range) { return (RangeKind)range->arg[1]; }
int64_t range_id(const UOp *range) { return range->arg[0]; }

bool range_is_static(const UOp *range) { return uop_is_const(range->src[0]); }
int64_t range_size(const UOp *range) {
    int64_t n;
    if (uop_is_int_const(range->src[0], &n)) return n;
    return range->arg[2];
}

// ---------------------------------------------------------------- building

// A constant is a value of its type: integers wrap, floats are rounded, as eval does.
UOp *uop_float(Graph *g, DType dtype, double value) {
    if (dtype_is_float(dtype)) return number_to_const(g, dtype, (Number){.f = value});
    return uop_int(g, dtype, number_cast(DT_F64, DT_I64, (Number){.f = value}).i);
}

UOp *uop_int(Graph *g, DType dtype, int64_t value) {
    return dtype_is_float(dtype) ? uop_float(g, dtype, (double)value) : number_to_const(g, dtype, (Number){.i = value});
}

UOp *uop_unary(Op op, UOp *a) { return uop_new(a->graph, op, a->dtype, a->lanes, &a, 1, NULL, 0); }

// Identities that building index arithmetic meets all the time; everything else is the rules' business.
static UOp *fold_binary(Op op, UOp *a, UOp *b) {
    int64_t x = 0, y = 0;
    bool has_x = uop_is_int_const(a, &x), has_y = uop_is_int_const(b, &y);
    if (!has_x && !has_y) return NULL;
    if (a->ndim || b->ndim || a->dtype == DT_BOOL) return NULL;
    bool small = llabs(x) < (1LL << 30) && llabs(y) < (1LL << 30);
    switch (op) {
    case OP_ADD:
        if (has_x && x == 0) return b;
        if (has_y && y == 0) return a;
        return has_x && has_y && small ? uop_int(a->graph, a->dtype, x + y) : NULL;
    case OP_SUB:
        if (has_y && y == 0) return a;
        return has_x && has_y && small ? uop_int(a->graph, a->dtype, x - y) : NULL;
    case OP_MUL:
        if (has_x && x == 1) return b;
        if (has_y && y == 1) return a;
        if ((has_x && x == 0) || (has_y && y == 0)) return uop_int(a->graph, a->dtype, 0);
        return has_x && has_y && small && llabs(x * y) < (1LL << 30) ? uop_int(a->graph, a->dtype, x * y) : NULL;
    case OP_IDIV:
        return has_y && y == 1 ? a : has_x && has_y && x >= 0 && y > 0 ? uop_int(a->graph, a->dtype, x / y) : NULL;
    case OP_MOD:
        if (has_y && y == 1) return uop_int(a->graph, a->dtype, 0);
        return has_x && has_y && x >= 0 && y > 0 ? uop_int(a->graph, a->dtype, x % y) : NULL;
    default: return NULL;
    }
}

UOp *uop_binary(Op op, UOp *a, UOp *b) {
    UOp *folded = dtype_is_int(a->dtype) && dtype_is_int(b->dtype) && a->lanes == 1 && b->lanes == 1 ? fold_binary(op, a, b) : NULL;
    if (folded) return folded;
    return uop_new(a->graph, op, a->dtype, a->lanes, (UOp *[]){a, b}, 2, NULL, 0);
}

UOp *uop_where(UOp *cond, UOp *a, UOp *b) {
    if (a == b) return a;
    return uop_new(a->graph, OP_WHERE, a->dtype, a->lanes, (UOp *[]){cond, a, b}, 3, NULL, 0);
}

UOp *uop_cast(UOp *a, DType dtype) {
    if (a->dtype == dtype) return a;
    if (a->op == OP_CONST && dtype_is_int(a->dtype) && a->arg[0] >= 0 && a->arg[0] < 128) return uop_int(a->graph, dtype, a->arg[0]);
    return uop_new(a->graph, OP_CAST, dtype, a->lanes, &a, 1, NULL, 0);
}

UOp *uop_bitcast(UOp *a, DType dtype) {
    return a->dtype == dtype ? a : uop_new(a->graph, OP_BITCAST, dtype, a->lanes, &a, 1, NULL, 0);
}

UOp *uop_range_most(Graph *g, UOp *end, int64_t most, RangeKind kind) {
    return uop_new(g, OP_RANGE, DT_I32, 1, &end, 1, (int64_t[]){graph_unique(g), kind, most}, 3);
}

UOp *uop_range(Graph *g, UOp *end, RangeKind kind) {
    int64_t n = 0;
    if (!uop_is_int_const(end, &n)) n = INT32_MAX;
    return uop_range_most(g, end, n, kind);
}

UOp *uop_range_const(Graph *g, int64_t end, RangeKind kind) { return uop_range(g, uop_int(g, DT_I32, end), kind); }

UOp *uop_fold(Monoid monoid, int chains, UOp *value, UOp *const *ranges, int n_ranges) {
    if (n_ranges == 0) return value;
    UOp *src[64];
    CHECK(n_ranges < 63);
    src[0] = value;
    memcpy(src + 1, ranges, (size_t)n_ranges * sizeof *src);
    return uop_new(value->graph, OP_FOLD, value->dtype, value->lanes, src, n_ranges + 1, (int64_t[]){monoid, chains}, 2);
}

UOp *uop_index(UOp *buffer, UOp *index) {
    return uop_new(buffer->graph, OP_INDEX, buffer->dtype, 1, (UOp *[]){buffer, index}, 2, NULL, 0);
}

UOp *uop_buffer_of(const UOp *index) {
    UOp *buffer = index->src[0];
    while (buffer->op == OP_AFTER) buffer = buffer->src[0];
    return buffer;
}

bool uop_is_pair(const UOp *u) {
    return u->op == OP_VCAT && u->n_src == 2 && u->src[0]->lanes == u->src[1]->lanes && u->src[0]->lanes > 1;
}

bool uop_is_own_memory(const UOp *buffer) { return buffer->op == OP_DEFINE_REG || buffer->op == OP_DEFINE_ARRAY; }

UOp *uop_load(UOp *index, DType dtype, UOp *valid) {
    return uop_new(index->graph, OP_LOAD, dtype, 1, (UOp *[]){index, valid}, valid ? 2 : 1, NULL, 0);
}

static UOp *store_new(Op op, UOp *index, UOp *value, UOp *const *ranges, int n_ranges) {
    UOp *src[64] = {index, value};
    CHECK(n_ranges < 62);
    if (n_ranges) memcpy(src + 2, ranges, (size_t)n_ranges * sizeof *src);
    return uop_new(index->graph, op, DT_VOID, 1, src, n_ranges + 2, NULL, 0);
}

UOp *uop_store(UOp *index, UOp *value, UOp *const *ranges, int n_ranges) {
    return store_new(OP_STORE, index, value, ranges, n_ranges);
}

bool uop_is_store(const UOp *u) { return u->op == OP_STORE || u->op == OP_ATOMIC_ADD; }

UOp *uop_store_as(const UOp *like, UOp *index, UOp *value, UOp *const *ranges, int n_ranges) {
    CHECK(uop_is_store(like));
    return store_new((Op)like->op, index, value, ranges, n_ranges);
}

UOp *uop_after(UOp *value, UOp *const *deps, int n_deps) {
    if (n_deps == 0) return value;
    UOp **src = arena_new(value->graph->arena, (size_t)(n_deps + 1) * sizeof *src);
    src[0] = value;
    memcpy(src + 1, deps, (size_t)n_deps * sizeof *src);
    return uop_new(value->graph, OP_AFTER, value->dtype, value->lanes, src, n_deps + 1, NULL, 0);
}

UOp *uop_sink(Graph *g, UOp *const *stmts, int n) { return uop_new(g, OP_SINK, DT_VOID, 1, stmts, n, NULL, 0); }

uint64_t graph_visits(Graph *g) { return ++g->n_visits; }
void graph_visited(Graph *g, size_t n) { g->n_visits += n; }

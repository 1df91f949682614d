// expand: lane ranges become vectors, ACCUMs become accumulator registers.
// In: a kernel with RANGE_LANE ranges. Out: one without: every value that depended on lane ranges is a vector with one
// lane for each combination of them (ordered by range id: axes makes inner ranges first, so that smaller ids vary faster).
// LOAD and STORE of vectors keep their base index as source and a list of element offsets, one a lane, as arg.
// Invariant: lanes never change a value: lane k of the vector is what the scalar was at the ranges' k-th values.
// Example: load(index(p, 16·o + l)) with l<4 → load(index(p, 16·o)), arg [0,1,2,3], 4 lanes.
#include <string.h>

#include "base/error.h"
#include "codegen/expand_private.h"
#include "ir/bounds.h"
#include "ir/eval.h"

enum { TABLE_LANES = 16, MAX_HALVES = 64 };

// ---------------------------------------------------------------- lane sets

int lane_count(const Laned *v) {
    int64_t n = 1;
    for (int i = 0; i < v->n; i++) n *= range_size(v->lane[i]);
    CHECK(n <= UINT16_MAX);
    return (int)n;
}

void lanes_insert(Laned *v, UOp *range) {
    int at = 0;
    while (at < v->n && range_id(v->lane[at]) > range_id(range)) at++;
    if (at < v->n && v->lane[at] == range) return;
    CHECK(v->n < MAX_LANE_RANGES);
    memmove(v->lane + at + 1, v->lane + at, (size_t)(v->n - at) * sizeof *v->lane);
    v->lane[at] = range;
    v->n++;
}

static void lanes_union(Laned *v, const Laned *other) {
    for (int i = 0; i < other->n; i++) lanes_insert(v, other->lane[i]);
}

// Value of lane range i of `v` in lane k.
int64_t lane_digit(const Laned *v, int k, int i) {
    int64_t inner = 1;
    for (int j = i + 1; j < v->n; j++) inner *= range_size(v->lane[j]);
    return k / inner % range_size(v->lane[i]);
}

UOp *shuffle(UOp *v, const int64_t *map, int n) {
    bool same = n == v->lanes;
    for (int i = 0; i < n && same; i++) same = map[i] == i;
    if (same) return v;
    if (v->op == OP_VCONST) {
        int64_t *bits = arena_new(graph_arena(v->graph), (size_t)n * sizeof *bits);
        for (int i = 0; i < n; i++) bits[i] = v->arg[map[i]];
        return uop_new(v->graph, OP_VCONST, v->dtype, n, NULL, 0, bits, n);
    }
    if (v->op != OP_SHUFFLE) return uop_new(v->graph, OP_SHUFFLE, v->dtype, n, &v, 1, map, n);
    int64_t *whole = arena_new(graph_arena(v->graph), (size_t)n * sizeof *whole);   // a shuffle of a shuffle is one
    for (int i = 0; i < n; i++) whole[i] = v->arg[map[i]];
    return shuffle(v->src[0], whole, n);
}

// The value spread over the lanes of `to`, a superset of its own.
UOp *spread(Expander *x, const Laned *v, const Laned *to) {
    int n = lane_count(to);
    if (v->n == to->n) return v->value;
    int64_t *map = arena_new(x->arena, (size_t)n * sizeof *map);
    if (uop_is_const(v->value)) {
        for (int k = 0; k < n; k++) map[k] = v->value->arg[0];
        return uop_new(x->graph, OP_VCONST, v->value->dtype, n, NULL, 0, map, n);
    }
    for (int k = 0; k < n; k++) {
        int64_t from = 0;
        for (int i = 0, j = 0; i < to->n && j < v->n; i++) {
            if (to->lane[i] != v->lane[j]) continue;
            from = from * range_size(v->lane[j++]) + lane_digit(to, k, i);
        }
        map[k] = from;
    }
    return shuffle(v->value, map, n);
}

// ---------------------------------------------------------------- index expressions over lanes

// The lane ranges that a value depends on: not those that a sum within it goes over by itself.
static const Laned *lanes_free(Expander *x, UOp *u) {
    const Laned *known = uop_map_get(&x->free, u);
    if (known) return known;
    Laned *free = arena_new(x->arena, sizeof *free);
    *free = (Laned){0};
    if (u->op == OP_RANGE && range_kind(u) == RANGE_LANE) lanes_insert(free, u);
    if (u->op == OP_ACCUM) {
        Accum a = accum_parts(u);
        *free = outer_lanes(lanes_free(x, a.value), a.lanes, a.n_lanes);
        for (int i = 0; i < a.n_loops; i++) lanes_union(free, lanes_free(x, a.loops[i]));
        if (a.tail) {
            Laned outer = outer_lanes(lanes_free(x, a.tail), a.tail_lanes, a.n_tail_lanes);
            lanes_union(free, &outer);
        }
    } else if (u->op == OP_THREAD_HALVES) {
        *free = outer_lanes(lanes_free(x, u->src[0]), &u->src[3], 1);
        for (int i = 1; i < 3; i++) lanes_union(free, lanes_free(x, u->src[i]));
    } else {
        int n_src = u->op == OP_AFTER ? 1 : u->n_src;   // what it waits for is not part of the value
        for (int i = 0; i < n_src; i++) lanes_union(free, lanes_free(x, u->src[i]));
    }
    uop_map_put(&x->free, u, free);
    return free;
}

// Whether it depends on anything that varies but lane ranges.
static bool varies_otherwise(Expander *x, UOp *u) {
    uintptr_t known = (uintptr_t)uop_map_get(&x->varies, u);
    if (known) return known == 2;
    bool varies = u->op == OP_LOAD || u->op == OP_SPECIAL || u->op == OP_ACCUM || (u->op == OP_RANGE && range_kind(u) != RANGE_LANE);
    int n_src = u->op == OP_AFTER ? 1 : u->n_src;
    for (int i = 0; i < n_src && !varies; i++) varies = varies_otherwise(x, u->src[i]);
    uop_map_put(&x->varies, u, (void *)(uintptr_t)(1 + varies));
    return varies;
}

static int64_t evaluate(UOp *u, const Laned *lanes, int k) {
    Number src[3], out;
    if (u->op == OP_CONST) return u->arg[0];
    for (int i = 0; i < lanes->n; i++) if (lanes->lane[i] == u) return lane_digit(lanes, k, i);
    for (int i = 0; i < u->n_src; i++) src[i].i = evaluate(u->src[i], lanes, k);
    CHECK(u->op != OP_RANGE);
    if (u->op == OP_CAST) return number_cast(u->src[0]->dtype, u->dtype, src[0]).i;
    DType operand = u->src[u->op == OP_WHERE ? 1 : 0]->dtype;
    CHECK(eval_op(u->op, operand, src, &out));
    return number_wrap(u->dtype, out).i;
}

// What x // c, x % c, x >> n and x & (2^n − 1) divide by; 0: u is no such value.
static int64_t divisor_of(const UOp *u) {
    int64_t c;
    if (u->n_src != 2 || !dtype_is_int(u->dtype) || !uop_is_int_const(u->src[1], &c) || c < 0) return 0;
    switch (u->op) {
    case OP_IDIV: case OP_MOD: return c;
    case OP_SHR: return c < 31 ? (int64_t)1 << c : 0;
    case OP_AND: return c & (c + 1) ? 0 : c + 1;
    default: return 0;
    }
}

// Splits an index into a part without lanes and one with nothing else. False: they are mixed.
static bool split_index(Expander *x, UOp *index, UOp **base, UOp **lane_part) {
    UOp *zero = uop_int(x->graph, index->dtype, 0);
    if (!lanes_free(x, index)->n) { *base = index, *lane_part = zero; return true; }
    if (!varies_otherwise(x, index)) { *base = zero, *lane_part = index; return true; }
    UOp *base_a, *base_b, *lane_a, *lane_b;
    if (index->op == OP_ADD || index->op == OP_SUB) {
        if (!split_index(x, index->src[0], &base_a, &lane_a) || !split_index(x, index->src[1], &base_b, &lane_b)) return false;
        *base = uop_binary(index->op, base_a, base_b);
        *lane_part = uop_binary(index->op, lane_a, lane_b);
        return true;
    }
    if (index->op == OP_MUL && uop_is_const(index->src[1]) && split_index(x, index->src[0], &base_a, &lane_a)) {
        *base = uop_binary(OP_MUL, base_a, index->src[1]);
        *lane_part = uop_binary(OP_MUL, lane_a, index->src[1]);
        return true;
    }
    // (base + lane) divided by what divides the base: what is left over is the lane's own.
    int64_t by = divisor_of(index), rest;
    if (by && split_index(x, index->src[0], &base_a, &lane_a) &&
        uop_is_int_const(simplify(uop_binary(OP_MOD, base_a, uop_int(x->graph, base_a->dtype, by))), &rest) && rest == 0) {
        bool is_quotient = index->op == OP_IDIV || index->op == OP_SHR;
        *base = is_quotient ? uop_binary(index->op, base_a, index->src[1]) : zero;
        *lane_part = uop_binary(index->op, lane_a, index->src[1]);
        return true;
    }
    if (index->op == OP_CAST && bounds_fit(index->src[0]) && split_index(x, index->src[0], &base_a, &lane_a)) {
        *base = uop_cast(base_a, index->dtype);
        *lane_part = uop_cast(lane_a, index->dtype);
        return true;
    }
    return false;
}

static UOp *at_lane(Expander *x, UOp *u, const Laned *lanes, int k) {
    UOp *to[MAX_LANE_RANGES];
    for (int i = 0; i < lanes->n; i++) to[i] = uop_int(x->graph, DT_I32, lane_digit(lanes, k, i));
    return simplify(uop_substitute(u, lanes->lane, to, lanes->n));
}

// ---------------------------------------------------------------- memory

// Bytes of a small table that fits one register, at indices that are data: the table is loaded whole (repeated up to
// TABLE_LANES) and looked up in place. False: u is no such load.
static bool expand_lookup(Expander *x, UOp *u, UOp *index, Laned *out) {
    UOp *table = u->src[0]->src[0];
    Bounds b = bounds_of(index);
    if (!x->target->has_byte_shuffle || table->op != OP_PARAM || u->n_src > 1 || dtype_bytes(table->dtype) != 1) return false;
    int64_t size = table->arg[1];
    if (dtype_bytes(u->dtype) != 1 || u->dtype == DT_BOOL || size < 1 || size > TABLE_LANES || b.lo < 0 || b.hi >= size) return false;
    int64_t offsets[TABLE_LANES];
    for (int i = 0; i < TABLE_LANES; i++) offsets[i] = i % size;
    UOp *start = uop_index(expand_node(x, table)->value, uop_int(x->graph, index->dtype, 0));
    UOp *whole = uop_new(x->graph, OP_LOAD, u->dtype, TABLE_LANES, &start, 1, offsets, TABLE_LANES);
    *out = *expand_node(x, simplify(uop_cast(index, DT_U8)));
    out->value = uop_new(x->graph, OP_LOOKUP, u->dtype, 1, (UOp *[]){whole, out->value}, 2, NULL, 0);
    return true;
}

static Laned expand_load(Expander *x, UOp *u) {
    Laned out = *lanes_free(x, u);
    UOp *index = u->src[0], *base, *lane_part;
    if (out.n == 0) {
        UOp *src[2];
        for (int i = 0; i < u->n_src; i++) src[i] = expand_node(x, u->src[i])->value;
        out.value = uop_with_src(u, src);
        return out;
    }
    int n = lane_count(&out);
    bool has_lane_condition = u->n_src > 1 && lanes_free(x, u->src[1])->n > 0;
    UOp *flat = simplify(index->src[1]);
    if (!has_lane_condition && split_index(x, flat, &base, &lane_part)) {
        int64_t *offsets = arena_new(x->arena, (size_t)n * sizeof *offsets);
        for (int k = 0; k < n; k++) offsets[k] = evaluate(lane_part, &out, k);
        UOp *buffer = expand_node(x, index->src[0])->value;
        UOp *src[2] = {uop_index(buffer, expand_node(x, simplify(base))->value)};
        if (u->n_src > 1) src[1] = expand_node(x, u->src[1])->value;
        out.value = uop_new(x->graph, OP_LOAD, u->dtype, n, src, u->n_src, offsets, n);
        return out;
    }
    if (expand_lookup(x, u, flat, &out)) return out;
    UOp **parts = arena_new(x->arena, (size_t)n * sizeof *parts);
    for (int k = 0; k < n; k++) parts[k] = expand_node(x, at_lane(x, u, &out, k))->value;
    out.value = uop_new(x->graph, OP_VCAT, u->dtype, n, parts, n, NULL, 0);
    return out;
}

static Laned expand_store(Expander *x, UOp *u) {
    Laned lanes = {0}, out = {0};
    UOp *ranges[32];
    int n_ranges = 0;
    for (int i = 2; i < u->n_src; i++) {
        if (range_kind(u->src[i]) == RANGE_LANE) lanes_insert(&lanes, u->src[i]);
        else ranges[n_ranges++] = expand_node(x, u->src[i])->value;
    }
    const Laned *value = expand_node(x, u->src[1]);
    UOp *buffer = expand_node(x, u->src[0]->src[0])->value;
    if (lanes.n == 0) {
        UOp *index = uop_index(buffer, expand_node(x, simplify(u->src[0]->src[1]))->value);
        out.value = uop_store_as(u, index, value->value, ranges, n_ranges);
        return out;
    }
    int n = lane_count(&lanes);
    UOp *vector = spread(x, value, &lanes), *base, *lane_part, *flat = simplify(u->src[0]->src[1]);
    UOp *src[34];
    if (split_index(x, flat, &base, &lane_part)) {
        int64_t *offsets = arena_new(x->arena, (size_t)n * sizeof *offsets);
        for (int k = 0; k < n; k++) offsets[k] = evaluate(lane_part, &lanes, k);
        src[0] = uop_index(buffer, expand_node(x, simplify(base))->value);
        src[1] = vector;
        memcpy(src + 2, ranges, (size_t)n_ranges * sizeof *src);
        out.value = uop_new(x->graph, (Op)u->op, DT_VOID, 1, src, n_ranges + 2, offsets, n);
        return out;
    }
    // Scattered: one scalar store a lane, joined by an END that closes the loops.
    UOp **stores = arena_new(x->arena, (size_t)(n + 32) * sizeof *stores);
    for (int k = 0; k < n; k++) {
        UOp *index = uop_index(buffer, expand_node(x, at_lane(x, flat, &lanes, k))->value);
        stores[k] = uop_store_as(u, index, shuffle(vector, (int64_t[]){k}, 1), NULL, 0);
    }
    memcpy(stores + n, ranges, (size_t)n_ranges * sizeof *stores);
    out.value = uop_new(x->graph, OP_END, DT_VOID, 1, stores, n + n_ranges, (int64_t[]){n}, 1);
    return out;
}

// ---------------------------------------------------------------- everything else

// Half of the lanes of `from` for this thread, half for the one whose number differs in one bit: each gives away what it has of
// the other's and adds what it gets to its own.
static Laned expand_halves(Expander *x, UOp *u) {
    const Laned *value = expand_node(x, u->src[0]);
    UOp *bit = expand_node(x, u->src[1])->value, *to = u->src[2], *from = u->src[3], *parts[MAX_HALVES];
    Laned out = outer_lanes(value, &from, 1);
    if (to->op == OP_RANGE) lanes_insert(&out, to);
    int n = lane_count(&out);
    CHECK(n <= MAX_HALVES);
    for (int k = 0; k < n; k++) {
        int64_t at[2] = {0, 0};
        for (int i = 0; i < value->n; i++) {
            int64_t size = range_size(value->lane[i]), digit = 0;
            for (int j = 0; j < out.n; j++) if (out.lane[j] == (value->lane[i] == from ? to : value->lane[i])) digit = lane_digit(&out, k, j);
            for (int half = 0; half < 2; half++) at[half] = at[half] * size + digit + (value->lane[i] == from ? half * size / 2 : 0);
        }
        UOp *first = shuffle(value->value, &at[0], 1), *second = shuffle(value->value, &at[1], 1), *away = uop_where(bit, first, second);
        UOp *got = uop_new(x->graph, OP_THREAD_XOR, u->dtype, 1, &away, 1, u->arg, 2);
        parts[k] = uop_new(x->graph, monoid_info[u->arg[2]].combine, u->dtype, 1, (UOp *[]){got, uop_where(bit, second, first)}, 2, NULL, 0);
    }
    out.value = n > 1 ? uop_new(x->graph, OP_VCAT, u->dtype, n, parts, n, NULL, 0) : parts[0];
    return out;
}

static Laned expand_value(Expander *x, UOp *u) {
    Laned out = {0};
    if (u->op == OP_RANGE && range_kind(u) == RANGE_LANE) {
        int n = (int)range_size(u);
        int64_t *digits = arena_new(x->arena, (size_t)n * sizeof *digits);
        for (int i = 0; i < n; i++) digits[i] = i;
        lanes_insert(&out, u);
        out.value = uop_new(x->graph, OP_VCONST, DT_I32, n, NULL, 0, digits, n);
        return out;
    }
    if (u->op == OP_LOAD) return expand_load(x, u);
    if (uop_is_store(u)) {
        const Target *around = x->target;
        Target own = store_target(around, u);
        x->target = &own;
        Laned store = expand_store(x, u);
        x->target = around;
        return store;
    }
    if (u->op == OP_ACCUM) return expand_accum(x, u);
    if (u->op == OP_THREAD_HALVES) return expand_halves(x, u);
    UOp **src = arena_new(x->arena, (size_t)(u->n_src + 1) * sizeof *src);
    for (int i = 0; i < u->n_src; i++) lanes_union(&out, expand_node(x, u->src[i]));
    for (int i = 0; i < u->n_src; i++) src[i] = spread(x, expand_node(x, u->src[i]), &out);
    out.value = u->n_src ? uop_new(x->graph, u->op, u->dtype, lane_count(&out), src, u->n_src, u->arg, u->n_arg) : u;
    return out;
}

Laned *expand_node(Expander *x, UOp *u) {
    Laned *known = uop_map_get(&x->done, u);
    if (known) return known;
    Laned *v = arena_new(x->arena, sizeof *v);
    *v = expand_value(x, u);
    if (uop_is_poison(v->value)) BUG("expand %s: %s", op_info[u->op].name, v->value->message);
    uop_map_put(&x->done, u, v);
    return v;
}

UOp *expand(UOp *sink, const Target *target) {
    Expander x = {.graph = sink->graph, .arena = graph_arena(sink->graph), .target = target};
    uop_map_init(&x.done, x.arena);
    uop_map_init(&x.free, x.arena);
    uop_map_init(&x.varies, x.arena);
    return expand_node(&x, sink)->value;
}

// vectorize: vectors of any width become native ones; neighbouring elements are loaded and stored at once.
// In: a kernel after expand. Out: one in which every vector fits a register of the target, loads and stores are of
// consecutive elements, and statements are STOREs or END(stores…, loops…) with arg = number of stores.
// A piece(u, a, b) is lanes a ≤ k < b of a value; pieces are asked for by their users, so what nobody reads is gone.
// Example: load arg [0,1,2,3,0,1,2,3] → one load of 4, joined with itself.
#include <string.h>

#include "base/error.h"
#include "codegen/vectorize_private.h"
#include "ir/bounds.h"
#include "ir/eval.h"
#include "ir/linear.h"

typedef struct RegPiece { int first, lanes; UOp *reg; } RegPiece;
typedef struct RegPieces { int n; RegPiece *at; } RegPieces;

static UOpList *statements(Splitter *s, UOp *u);

void push(Splitter *s, UOpList *list, UOp *u) {
    if (list->len == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 8;
        UOp **at = arena_new(s->arena, cap * sizeof *at);
        if (list->len) memcpy(at, list->at, list->len * sizeof *at);
        list->at = at, list->cap = cap;
    }
    list->at[list->len++] = u;
}

int native_lanes(const Splitter *s, DType dtype) {
    int n = s->target->vector_bytes / (dtype == DT_BOOL ? 1 : dtype_bytes(dtype));
    return n < 1 ? 1 : n;
}

static int power_below(int n) {
    int p = 1;
    while (p * 2 <= n) p *= 2;
    return p;
}

// ---------------------------------------------------------------- joining and picking

UOp *vconst(Splitter *s, DType dtype, const int64_t *bits, int n) {
    return n == 1 ? uop_new(s->graph, OP_CONST, dtype, 1, NULL, 0, bits, 1) : uop_new(s->graph, OP_VCONST, dtype, n, NULL, 0, bits, n);
}

bool is_constant(const UOp *u) { return u->op == OP_CONST || u->op == OP_VCONST; }
bool is_uniform(const UOp *u) {
    for (int i = 1; i < u->n_arg; i++) if (u->arg[i] != u->arg[0]) return false;
    return true;
}

bool is_broadcast(const UOp *u) { return u->op == OP_SHUFFLE && u->src[0]->lanes == 1; }

UOp *broadcast(Splitter *s, UOp *scalar, int n) {
    if (n == 1) return scalar;
    int64_t *map = arena_new(s->arena, (size_t)n * sizeof *map);
    if (scalar->op == OP_CONST) {
        for (int i = 0; i < n; i++) map[i] = scalar->arg[0];
        return vconst(s, scalar->dtype, map, n);
    }
    return uop_new(s->graph, OP_SHUFFLE, scalar->dtype, n, &scalar, 1, map, n);
}

UOp *join(Splitter *s, UOp *const *parts, int n) {
    UOpList flat = {0};
    bool all_constant = true, all_same = true;
    int lanes = 0;
    for (int i = 0; i < n; i++) {
        UOp *const *sub = parts[i]->op == OP_VCAT ? parts[i]->src : &parts[i];
        int n_sub = parts[i]->op == OP_VCAT ? parts[i]->n_src : 1;
        for (int k = 0; k < n_sub; k++) push(s, &flat, sub[k]);
    }
    UOp *scalar0 = is_broadcast(flat.at[0]) ? flat.at[0]->src[0] : flat.at[0];
    for (size_t i = 0; i < flat.len; i++) {
        UOp *scalar = is_broadcast(flat.at[i]) ? flat.at[i]->src[0] : flat.at[i];
        all_constant &= is_constant(flat.at[i]);
        all_same &= scalar == scalar0 && scalar->lanes == 1;
        lanes += flat.at[i]->lanes;
    }
    if (flat.len == 1) return flat.at[0];
    bool is_whole = lanes == power_below(lanes);   // other widths exist only as lists of parts
    if (all_constant && is_whole) {
        int64_t *bits = arena_new(s->arena, (size_t)lanes * sizeof *bits);
        int at = 0;
        for (size_t i = 0; i < flat.len; i++) for (int k = 0; k < flat.at[i]->n_arg; k++) bits[at++] = flat.at[i]->arg[k];
        return vconst(s, flat.at[0]->dtype, bits, lanes);
    }
    if (all_same && is_whole) return broadcast(s, scalar0, lanes);
    return uop_new(s->graph, OP_VCAT, flat.at[0]->dtype, 1, flat.at, (int)flat.len, NULL, 0);
}

UOp *pick(Splitter *s, UOp *v, const int64_t *map, int n) {
    bool identity = n == v->lanes;
    for (int i = 0; i < n && identity; i++) identity = map[i] == i;
    if (identity) return v;
    if (is_constant(v)) {
        int64_t *bits = arena_new(s->arena, (size_t)n * sizeof *bits);
        for (int i = 0; i < n; i++) bits[i] = v->arg[v->lanes == 1 ? 0 : map[i]];
        return vconst(s, v->dtype, bits, n);
    }
    if (is_broadcast(v)) return broadcast(s, v->src[0], n);
    bool is_permuted = v->op == OP_SHUFFLE && v->src[0]->op != OP_VCAT && v->src[0]->lanes == n && v->lanes == n && dtype_bytes(v->dtype) >= 4;
    if (!is_permuted) return uop_new(s->graph, OP_SHUFFLE, v->dtype, n, &v, 1, map, n);
    int64_t *whole = arena_new(s->arena, (size_t)n * sizeof *whole);     // one order after another is one
    for (int i = 0; i < n; i++) whole[i] = v->arg[map[i]];
    return pick(s, v->src[0], whole, n);
}

UOp *pick_pair(Splitter *s, UOp *a, UOp *b, const int64_t *map, int n) {
    UOp *both = uop_new(s->graph, OP_VCAT, a->dtype, 1, (UOp *[]){a, b}, 2, NULL, 0);
    return uop_new(s->graph, OP_SHUFFLE, a->dtype, n, &both, 1, map, n);
}

static UOp *halves(Splitter *s, UOp *u, int a, int b) {
    int half = power_below(b - a);
    if (half == b - a) half /= 2;
    UOp *parts[2] = {piece(s, u, a, a + half), piece(s, u, a + half, b)};
    return join(s, parts, 2);
}

// Runs of native width joined, for intervals wider than a register.
UOp *runs(Splitter *s, UOp *u, int a, int b, int native) {
    UOpList parts = {0};
    for (int at = a; at < b;) {
        int n = b - at < native ? power_below(b - at) : native;
        push(s, &parts, piece(s, u, at, at + n));
        at += n;
    }
    return join(s, parts.at, (int)parts.len);
}

// Offsets of a load count elements of the buffer's type, its lanes elements of the load's type.
static int64_t lane_step(const UOp *u, DType dtype) {
    DType held = u->src[0]->dtype;
    return dtype_bytes(dtype) / dtype_bytes(held) > 1 ? dtype_bytes(dtype) / dtype_bytes(held) : 1;
}

typedef struct HalfKey { const UOp *memory, *base; int64_t at; } HalfKey;

// What lies at an offset from a LOAD's index, as a key of s->halves.
static HalfKey half_at(UOp *load, int64_t offset) {
    HalfKey key = {.memory = load->src[0]->src[0]};
    key.base = base_of(load->src[0]->src[1], &key.at);
    key.at += offset;
    return key;
}

static void find_halves(Splitter *s, UOp *sink) {
    UOpList order = uop_toposort(s->arena, sink);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        bool is_of_bytes = u->op == OP_LOAD && u->dtype == DT_F16 && u->n_src == 1 && dtype_bytes(u->src[0]->dtype) == 1;
        for (int i = 0; i < u->n_arg && is_of_bytes; i++) {
            HalfKey key = half_at(u, u->arg[i]);
            map_put(&s->halves, arena_copy(s->arena, &key, sizeof key), sizeof key, u);
        }
    }
}

// Two halves that fill 8 lanes each and have neighbours in their words of 4 bytes that the kernel reads as well: both words are converted at
// once, which serves the neighbours too, and spread then. NULL where they lie otherwise.
static UOp *converted_with_neighbours(Splitter *s, UOp *load, const int64_t *map, int n) {
    enum { WORDS = 2, WORD = 4, HALF = 2 };
    UOp *word[WORDS];
    int64_t lane[64];
    if (load->op != OP_LOAD || load->n_src > 1 || !load->n_arg || dtype_bytes(load->src[0]->dtype) != 1 || n != 8 * WORDS) return NULL;
    for (int w = 0; w < WORDS; w++) {
        HalfKey key = half_at(load, load->arg[map[w * 8]]);
        int64_t first = floor_of(key.at, WORD) * WORD, rest = key.at - first;
        if (rest % HALF) return NULL;
        key.at = first + HALF - rest;
        if (!map_get(&s->halves, &key, sizeof key)) return NULL;
        word[w] = load_at(s, load, DT_U32, 1, load->arg[map[w * 8]] - rest);
        for (int i = 0; i < 8; i++) lane[w * 8 + i] = (w * WORD + rest) / HALF;
    }
    UOp *words = join(s, word, WORDS), *halves = uop_new(s->graph, OP_BITCAST, DT_F16, WORDS * WORD / HALF, &words, 1, NULL, 0);
    return pick(s, uop_cast(halves, DT_F32), lane, n);
}

// Halves that fill 8 lanes each are spread before they are converted, which is one instruction for all lanes. NULL: u is no such vector.
static UOp *converted_last(Splitter *s, UOp *u, const int64_t *map, int n) {
    enum { EACH = 8 };
    UOp *v = u->src[0];
    if (!s->target->has_f16_convert || v->op != OP_CAST || v->dtype != DT_F32 || v->src[0]->dtype != DT_F16 || n % EACH) return NULL;
    for (int i = 0; i < n; i++) if (map[i] != map[i / EACH * EACH]) return NULL;
    UOp *together = converted_with_neighbours(s, v->src[0], map, n);
    if (together) return together;
    return piece(s, uop_cast(uop_new(s->graph, OP_SHUFFLE, DT_F16, n, v->src, 1, map, n), DT_F32), 0, n);
}

// A register of numbers of 4 bytes and more from up to two registers of a vector of them, and from the zero behind it (expand_sums.c).
// NULL: they come from more.
static UOp *from_registers(Splitter *s, UOp *v, const int64_t *map, int n) {
    enum { MOST = 2 };
    int native = native_lanes(s, v->dtype), n_from = 0, own = v->lanes;
    UOp *rest = v->op == OP_VCAT && v->n_src == 2 && v->src[1]->lanes == 1 && is_constant(v->src[1]) ? v->src[1] : NULL, *of = rest ? v->src[0] : v, *from[MOST];
    int64_t first[MOST], place[64];
    bool has_rest = false;
    if (rest) own--;
    if (v->op == OP_LOAD || dtype_bytes(v->dtype) < 4 || n != native || s->target->group_threads || own % native) return NULL;
    for (int i = 0; i < n; i++) {
        int k = 0;
        if (map[i] >= own) { has_rest = true; continue; }
        while (k < n_from && first[k] != map[i] / native * native) k++;
        if (k == n_from && n_from == MOST) return NULL;
        if (k == n_from) first[n_from++] = map[i] / native * native;
        place[i] = k * native + map[i] % native;
    }
    if (n_from == 0) return NULL;
    for (int k = 0; k < n_from; k++) from[k] = piece(s, of, (int)first[k], (int)first[k] + native);
    for (int i = 0; i < n; i++) if (map[i] >= own) place[i] = n_from == 1 ? native : 0;
    if (n_from == 1) return has_rest ? pick_pair(s, from[0], broadcast(s, rest, native), place, n) : pick(s, from[0], place, n);
    UOp *both = pick_pair(s, from[0], from[1], place, n);
    for (int i = 0; i < n; i++) place[i] = map[i] < own ? i : native;
    return has_rest ? pick_pair(s, both, broadcast(s, rest, native), place, n) : both;
}

static UOp *piece_shuffle(Splitter *s, UOp *u, int a, int b) {
    const int64_t *map = u->arg + a;
    int n = b - a;
    UOp *v = u->src[0], *converted = converted_last(s, u, map, n);
    if (converted) return converted;
    bool same = true, rising = true;
    int64_t lo = map[0], hi = map[0];
    for (int i = 1; i < n; i++) {
        same &= map[i] == map[0], rising &= map[i] == map[0] + i;
        if (map[i] < lo) lo = map[i];
        if (map[i] > hi) hi = map[i];
    }
    if (same) return broadcast(s, piece(s, v, (int)lo, (int)lo + 1), n);
    if (rising) return piece(s, v, (int)lo, (int)hi + 1);
    if (v->op == OP_LOAD && v->n_arg) {
        int64_t *offset = arena_new(s->arena, (size_t)n * sizeof *offset), step = lane_step(v, v->dtype);
        bool follow = true;
        for (int i = 0; i < n; i++) offset[i] = v->arg[map[i]], follow &= offset[i] == offset[0] + i * step;
        if (follow) return piece(s, uop_new(s->graph, OP_LOAD, v->dtype, n, v->src, v->n_src, offset, n), 0, n);
        UOp *near = piece_near(s, v, offset, n);
        if (near) return near;
    }
    // A permutation inside one register of the source, or all of a source that is shorter.
    int native = native_lanes(s, u->dtype), whole = v->lanes < native && v->lanes == power_below(v->lanes) ? v->lanes : native;
    int64_t first = lo / whole * whole;
    bool is_spread = n <= native && whole == v->lanes && 2 * whole == n && n * dtype_bytes(u->dtype) == 64 && u->dtype == DT_F32;    // a long register has an instruction for that
    if (hi < first + whole && first + whole <= v->lanes && v->op != OP_LOAD && (n <= whole || is_spread)) {
        int64_t *local = arena_new(s->arena, (size_t)n * sizeof *local);
        for (int i = 0; i < n; i++) local[i] = map[i] - first;
        return pick(s, piece(s, v, (int)first, (int)first + whole), local, n);
    }
    UOp *made = from_registers(s, v, map, n);
    return made ? made : halves(s, u, a, b);
}

static UOp *piece_vcat(Splitter *s, UOp *u, int a, int b) {
    UOpList parts = {0};
    int at = 0;
    for (int i = 0; i < u->n_src && at < b; at += u->src[i++]->lanes) {
        int lo = a > at ? a - at : 0, hi = b - at < u->src[i]->lanes ? b - at : u->src[i]->lanes;
        if (lo < hi) push(s, &parts, piece(s, u->src[i], lo, hi));
    }
    return join(s, parts.at, (int)parts.len);
}

// ---------------------------------------------------------------- memory

UOp *offset_index(Splitter *s, UOp *index, int64_t offset) {
    UOp *base = piece(s, index, 0, 1);
    if (!offset) return base;
    return uop_index(base->src[0], uop_binary(OP_ADD, base->src[1], uop_int(s->graph, base->src[1]->dtype, offset)));
}

static UOp *piece_load(Splitter *s, UOp *u, int a, int b) {
    int n = b - a;
    int64_t step = lane_step(u, u->dtype);
    bool same = true, rising = true;
    for (int i = 1; i < n; i++) same &= u->arg[a + i] == u->arg[a], rising &= u->arg[a + i] == u->arg[a] + i * step;
    if (n > 1 && same) return broadcast(s, piece(s, u, a, a + 1), n);
    if (rising && s->target->group_threads > 0 && dtype_is_float(u->dtype)) {   // one load for all parts of a register
        int native = native_lanes(s, u->dtype), first = a / native * native;
        bool is_whole = n < native && b <= first + native && first + native <= u->lanes;
        for (int i = 1; is_whole && i < native; i++) is_whole = u->arg[first + i] == u->arg[first] + i * step;
        int64_t map[64];
        for (int i = 0; i < n; i++) map[i] = a - first + i;
        if (is_whole) return pick(s, piece(s, u, first, first + native), map, n);
    }
    UOp *near = rising ? NULL : piece_near(s, u, u->arg + a, n);
    if (near) return near;
    if (!rising || n != power_below(n)) return halves(s, u, a, b);
    UOp *src[2] = {offset_index(s, u->src[0], u->n_arg ? u->arg[a] : 0)};
    if (u->n_src > 1) src[1] = piece(s, u->src[1], 0, 1);
    return uop_new(s->graph, OP_LOAD, u->dtype, n, src, u->n_src, NULL, 0);
}

static RegPieces *reg_pieces(Splitter *s, UOp *reg) {
    RegPieces *r = uop_map_get(&s->regs, reg);
    if (r) return r;
    r = arena_new(s->arena, sizeof *r);
    int native = native_lanes(s, reg->dtype), rest_pieces = 16;   // a rest of less than a register: one piece a bit
    r->at = arena_new(s->arena, (size_t)(reg->arg[1] / native + rest_pieces) * sizeof *r->at);
    for (int at = 0; at < reg->arg[1]; r->n++) {
        int left = (int)reg->arg[1] - at, n = left < native ? power_below(left) : native;
        UOp *own = uop_new(s->graph, OP_DEFINE_REG, reg->dtype, 1, NULL, 0, (int64_t[]){graph_unique(s->graph), n}, 2);
        r->at[r->n] = (RegPiece){at, n, own};
        at += n;
    }
    uop_map_put(&s->regs, reg, r);
    return r;
}

static UOp *reg_of(UOp *index) {
    UOp *buffer = uop_buffer_of(index);
    return buffer->op == OP_DEFINE_REG ? buffer : NULL;
}

// AFTER(x, statements…) with the statements' own pieces.
static UOp *after_pieces(Splitter *s, UOp *value, UOp *after) {
    if (after->op != OP_AFTER) return value;
    UOpList deps = {0};
    for (int i = 1; i < after->n_src; i++) {
        UOp *dep = after->src[i];
        if (uop_is_store(dep) || dep->op == OP_END || dep->op == OP_BARRIER || dep->op == OP_LAST_TILE) {
            UOpList *list = statements(s, dep);
            for (size_t k = 0; k < list->len; k++) push(s, &deps, list->at[k]);
        } else push(s, &deps, piece(s, dep, 0, 1));
    }
    return uop_after(after_pieces(s, value, after->src[0]), deps.at, (int)deps.len);
}

static UOp *piece_reg_load(Splitter *s, UOp *u, int a, int b) {
    RegPieces *r = reg_pieces(s, reg_of(u->src[0]));
    UOpList parts = {0};
    for (int i = 0; i < r->n; i++) {
        int lo = a > r->at[i].first ? a - r->at[i].first : 0, hi = b - r->at[i].first < r->at[i].lanes ? b - r->at[i].first : r->at[i].lanes;
        if (lo >= hi) continue;
        UOp *index = uop_index(after_pieces(s, r->at[i].reg, u->src[0]->src[0]), uop_int(s->graph, DT_I32, 0));
        UOp *whole = uop_new(s->graph, OP_LOAD, u->dtype, r->at[i].lanes, &index, 1, NULL, 0);
        int64_t map[64];
        for (int k = lo; k < hi; k++) map[k - lo] = k;
        push(s, &parts, pick(s, whole, map, hi - lo));
    }
    return join(s, parts.at, (int)parts.len);
}

// ---------------------------------------------------------------- values

static UOp *fold_constants(Splitter *s, UOp *u) {
    for (int i = 0; i < u->n_src; i++) if (!is_constant(u->src[i])) return NULL;
    if (u->op == OP_DOT4 || (u->op == OP_BITCAST)) return NULL;
    int64_t *bits = arena_new(s->arena, (size_t)u->lanes * sizeof *bits);
    DType operand = u->src[u->op == OP_WHERE ? 1 : 0]->dtype;
    for (int k = 0; k < u->lanes; k++) {
        Number in[3], out;
        for (int i = 0; i < u->n_src; i++) in[i].i = u->src[i]->arg[k];
        if (u->op == OP_CAST) out = number_cast(operand, u->dtype, in[0]);
        else if (!eval_op(u->op, operand, in, &out)) return NULL;
        bits[k] = number_to_const(s->graph, u->dtype, number_wrap(u->dtype, out))->arg[0];
    }
    return vconst(s, u->dtype, bits, u->lanes);
}

// Some lanes and zeros for the others, known ones: a mask of bits. NULL: something else is chosen, or lanes are no words of 4 bytes.
static UOp *kept_lanes(Splitter *s, const UOp *is_kept, UOp *value, const UOp *otherwise) {
    int64_t mask[64];
    int n = value->lanes;
    if (dtype_bytes(value->dtype) != 4 || n < 4 || n > 64 || is_constant(value) || !is_constant(otherwise) || !is_uniform(otherwise) || otherwise->arg[0] != 0) return NULL;
    for (int k = 0; k < n; k++) mask[k] = is_kept->arg[k] ? -1 : 0;
    UOp *bits = value->dtype == DT_I32 ? value : uop_new(s->graph, OP_BITCAST, DT_I32, n, &value, 1, NULL, 0);
    UOp *kept = uop_new(s->graph, OP_AND, DT_I32, n, (UOp *[]){bits, vconst(s, DT_I32, mask, n)}, 2, NULL, 0);
    return value->dtype == DT_I32 ? kept : uop_new(s->graph, OP_BITCAST, value->dtype, n, &kept, 1, NULL, 0);
}

// a·b = |a|·(b with a's sign): for targets whose first operand must be unsigned. b must not be −128.
static void unsigned_first(Splitter *s, UOp **src) {
    UOp *a = src[1], *b = src[2];
    if (a->dtype != DT_I8 || s->target->dot == DOT_NONE || s->target->dot == DOT_I8I8) return;
    if (bounds_of(a).lo >= 0) { src[1] = uop_new(s->graph, OP_BITCAST, DT_U8, a->lanes, &a, 1, NULL, 0); return; }
    if (bounds_of(b).lo == INT8_MIN) {
        if (bounds_of(a).lo == INT8_MIN) return;
        a = src[2], b = src[1];   // the product commutes
    }
    UOp *size = combined(s, MONOID_MAX, a, uop_unary(OP_NEG, a));
    int64_t *zeros = arena_new(s->arena, (size_t)a->lanes * sizeof *zeros);
    UOp *is_negative = uop_new(s->graph, OP_LT, DT_BOOL, 1, (UOp *[]){a, vconst(s, DT_I8, zeros, a->lanes)}, 2, NULL, 0);
    src[1] = uop_new(s->graph, OP_BITCAST, DT_U8, a->lanes, &size, 1, NULL, 0);
    src[2] = uop_where(is_negative, uop_unary(OP_NEG, b), b);
}

bool constants_of(Splitter *s, UOp *u, int a, int b, int64_t *out) {
    UOp *v = piece(s, u, a, b);
    if (!is_constant(v)) return false;
    for (int i = 0; i < b - a; i++) out[i] = v->arg[v->lanes == 1 ? 0 : i];
    return true;
}

// ---------------------------------------------------------------- small integers in wide lanes

static bool is_small_unsigned(const UOp *u) { return u->dtype == DT_U8 || u->dtype == DT_U16; }
static bool is_bitwise(const UOp *u) { return u->op == OP_AND || u->op == OP_OR || u->op == OP_XOR || u->op == OP_SHL || u->op == OP_SHR; }

// Whether lanes of u are shifted by different amounts, for which only wide lanes have an instruction.
static bool shifts_apart(Splitter *s, UOp *u) {
    if (!is_small_unsigned(u) || u->lanes > 64) return false;
    if (u->op == OP_CAST) return shifts_apart(s, u->src[0]);
    if (!is_bitwise(u)) return false;
    int64_t amount[64];
    bool is_shift = u->op == OP_SHL || u->op == OP_SHR;
    if (is_shift && constants_of(s, u->src[1], 0, u->lanes, amount))
        for (int i = 1; i < u->lanes; i++) if (amount[i] != amount[0]) return true;
    return shifts_apart(s, u->src[0]) || (!is_shift && shifts_apart(s, u->src[1]));
}

// The value of u, made of small unsigned integers, computed as `wide`.
static UOp *widened(Splitter *s, UOp *u, DType wide) {
    bool keeps = false;
    int64_t bits[64];
    UOp *made;
    if (u->lanes <= 64 && is_small_unsigned(u) && constants_of(s, u, 0, u->lanes, bits)) return vconst(s, wide, bits, u->lanes);
    if (is_small_unsigned(u) && is_bitwise(u)) {
        UOp *src[2] = {widened(s, u->src[0], wide), widened(s, u->src[1], wide)};
        made = uop_new(s->graph, u->op, wide, u->lanes, src, 2, NULL, 0);
        keeps = u->op != OP_SHL;
    } else if (u->op == OP_CAST && is_small_unsigned(u) && is_small_unsigned(u->src[0])) made = widened(s, u->src[0], wide);
    else return uop_cast(u, wide);
    int64_t most = dtype_info[u->dtype].hi;
    if (keeps || bounds_of(made).hi <= most) return made;
    int64_t *mask = arena_new(s->arena, (size_t)u->lanes * sizeof *mask);
    for (int i = 0; i < u->lanes; i++) mask[i] = most;
    return uop_new(s->graph, OP_AND, wide, u->lanes, (UOp *[]){made, vconst(s, wide, mask, u->lanes)}, 2, NULL, 0);
}

// ---------------------------------------------------------------- elementwise

// What is done alike to all bytes that were looked up is done to the table.
static UOp *at_table(Splitter *s, UOp *u) {
    UOp *lookup = u->src[0], *by = u->n_src == 2 ? u->src[1] : NULL;
    bool is_alike = u->op == OP_BITCAST || (by && is_bitwise(u) && is_constant(by) && is_uniform(by));
    if (!is_alike || lookup->op != OP_LOOKUP || dtype_bytes(u->dtype) != dtype_bytes(lookup->dtype) || u->lanes != lookup->lanes) return u;
    int lanes = lookup->src[0]->lanes;
    UOp *src[2] = {lookup->src[0], by ? pick(s, by, (int64_t[64]){0}, lanes) : NULL};
    UOp *table = uop_new(s->graph, u->op, u->dtype, lanes, src, u->n_src, u->arg, u->n_arg);
    return uop_new(s->graph, OP_LOOKUP, u->dtype, u->lanes, (UOp *[]){table, lookup->src[1]}, 2, NULL, 0);
}

// A chain of dot products that starts from 0, from another number. NULL: dots is none.
static UOp *chain_from(UOp *dots, UOp *start) {
    if (dots->op != OP_DOT4 || dots->lanes != 1) return NULL;
    int64_t zero;
    UOp *from = uop_is_int_const(dots->src[0], &zero) && zero == 0 ? start : chain_from(dots->src[0], start);
    return from ? uop_new(dots->graph, OP_DOT4, dots->dtype, 1, (UOp *[]){from, dots->src[1], dots->src[2]}, 3, NULL, 0) : NULL;
}

// What is added to sums of bytes, or taken from them, is where they start. Where several have it in common, it is made once.
static UOp *chains_started(Splitter *s, const UOp *u, UOp *dots, UOp *more) {
    UOp *parts[64], *const *each = dots->op == OP_VCAT ? dots->src : &dots;
    int n = dots->op == OP_VCAT ? dots->n_src : 1;
    if ((u->op != OP_ADD && u->op != OP_SUB) || u->dtype != DT_I32 || !s->has_tiles || n != dots->lanes || n > 64) return NULL;
    for (int k = 0; k < n; k++) {
        UOp *own = pick(s, more, (int64_t[]){k}, 1);
        parts[k] = chain_from(each[k], u->op == OP_SUB ? uop_unary(OP_NEG, own) : own);
        if (!parts[k]) return NULL;
    }
    return join(s, parts, n);
}

static UOp *piece_elementwise(Splitter *s, UOp *u, int a, int b) {
    int widest = dtype_bytes(u->dtype), n = b - a;
    for (int i = 0; i < u->n_src; i++) if (dtype_bytes(u->src[i]->dtype) > widest) widest = dtype_bytes(u->src[i]->dtype);
    int native = s->target->vector_bytes / widest;
    UOp *packed = n > 1 ? piece_packed(s, u, a, b) : NULL;
    if (packed) return packed;
    if (u->op == OP_CAST && u->dtype == DT_U8 && n > PACKED_LANES) return runs(s, u, a, b, PACKED_LANES);
    if (n > native) return runs(s, u, a, b, native);
    if (n != power_below(n)) return halves(s, u, a, b);
    UOp *field = piece_gathered(s, u, a, b);
    if (!field) field = piece_field(s, u, a, b);
    if (field) return field;
    bool is_widening = u->op == OP_CAST && (u->dtype == DT_I32 || u->dtype == DT_U32);
    if (is_widening && n > 1 && s->target->vector_bytes >= 32 && shifts_apart(s, u->src[0])) return piece(s, widened(s, u->src[0], u->dtype), a, b);
    int per_lane = u->op == OP_DOT4 ? 4 : 1;
    UOp *src[3];
    for (int i = 0; i < u->n_src; i++) {
        int k = per_lane == 4 && i > 0 ? 4 : 1;
        src[i] = piece(s, u->src[i], a * k, b * k);
    }
    // One amount for all lanes of a shift, one side for all lanes of a choice: what targets do well.
    bool is_shift = u->op == OP_SHL || u->op == OP_SHR;
    bool apart = n > 1 && is_shift && src[1]->op == OP_VCONST && !is_uniform(src[1]);
    if (apart && (dtype_bytes(u->dtype) < 4 || s->target->vector_bytes < 32)) return halves(s, u, a, b);
    if (u->op == OP_WHERE && is_constant(src[0])) {
        UOp *kept = is_uniform(src[0]) ? NULL : kept_lanes(s, src[0], src[1], src[2]);
        if (kept || !is_uniform(src[0])) return kept ? kept : halves(s, u, a, b);
        return src[0]->arg[0] ? src[1] : src[2];
    }
    UOp *chains = u->n_src == 2 ? chains_started(s, u, src[0], src[1]) : NULL;
    if (chains) return chains;
    if (u->op == OP_DOT4) unsigned_first(s, src);
    UOp *made = uop_new(s->graph, u->op, u->dtype, n, src, u->n_src, u->arg, u->n_arg);
    if (uop_is_poison(made)) BUG("vectorize %s: %s", op_info[u->op].name, made->message);
    UOp *constant = fold_constants(s, made), *looked_up = constant ? constant : at_table(s, made);
    return looked_up == made && is_bitwise(u) && !is_shift ? bitwise_bytes(s, (Op)u->op, src[0], src[1]) : looked_up;
}

static UOp *piece_lookup(Splitter *s, UOp *u, int a, int b) {
    int native = native_lanes(s, u->dtype);
    if (b - a > native) return runs(s, u, a, b, native);
    UOp *src[2] = {piece(s, u->src[0], 0, u->src[0]->lanes), piece(s, u->src[1], a, b)};
    return uop_new(s->graph, OP_LOOKUP, u->dtype, b - a, src, 2, NULL, 0);
}

static UOp *piece_thread_xor(Splitter *s, UOp *u, int a, int b) {
    int native = native_lanes(s, u->dtype);
    if (b - a > native) return runs(s, u, a, b, native);
    UOp *own = piece(s, u->src[0], a, b);
    return uop_new(s->graph, OP_THREAD_XOR, u->dtype, b - a, &own, 1, u->arg, u->n_arg);
}

static UOp *piece_of(Splitter *s, UOp *u, int a, int b) {
    switch (op_info[u->op].kind) {
    case KIND_UNARY: case KIND_BINARY: case KIND_TERNARY: case KIND_CONVERT: return piece_elementwise(s, u, a, b);
    default: break;
    }
    switch (u->op) {
    case OP_VCONST: return vconst(s, u->dtype, u->arg + a, b - a);
    case OP_SHUFFLE: return piece_shuffle(s, u, a, b);
    case OP_VCAT: return piece_vcat(s, u, a, b);
    case OP_HFOLD: return piece_hfold(s, u, a, b);
    case OP_LOOKUP: return piece_lookup(s, u, a, b);
    case OP_THREAD_XOR: return piece_thread_xor(s, u, a, b);
    case OP_LOAD:
        if (reg_of(u->src[0])) return piece_reg_load(s, u, a, b);
        if (b - a > native_lanes(s, u->dtype)) return runs(s, u, a, b, native_lanes(s, u->dtype));
        return piece_load(s, u, a, b);
    case OP_AFTER: return after_pieces(s, piece(s, u->src[0], 0, 1), u);
    default: break;
    }
    CHECK(u->lanes == 1);
    UOp **src = arena_new(s->arena, (size_t)(u->n_src + 1) * sizeof *src);
    for (int i = 0; i < u->n_src; i++) src[i] = piece(s, u->src[i], 0, 1);
    return uop_with_src(u, src);
}

UOp *piece(Splitter *s, UOp *u, int a, int b) {
    struct { const UOp *u; int64_t a, b; } key = {u, a, b};
    Map *memo = &s->memo[s->target->vector_bytes == s->target->wide_bytes];
    UOp *known = map_get(memo, &key, sizeof key);
    if (known) return known;
    CHECK(a >= 0 && b <= u->lanes && a < b);
    int n = b - a;
    UOp *made = n == power_below(n) ? piece_of(s, u, a, b) : runs(s, u, a, b, power_below(n));
    CHECK(made->lanes == b - a);
    map_put(memo, &key, sizeof key, made);
    return made;
}

// ---------------------------------------------------------------- statements

static void store_pieces(Splitter *s, UOp *u, UOpList *out) {
    UOp *value = u->src[1], *reg = reg_of(u->src[0]);
    if (reg) {
        RegPieces *r = reg_pieces(s, reg);
        for (int i = 0; i < r->n; i++) {
            UOp *index = uop_index(after_pieces(s, r->at[i].reg, u->src[0]->src[0]), uop_int(s->graph, DT_I32, 0));
            push(s, out, uop_store(index, piece(s, value, r->at[i].first, r->at[i].first + r->at[i].lanes), NULL, 0));
        }
        return;
    }
    int native = native_lanes(s, value->dtype);
    for (int k = 0; k < value->lanes;) {
        int run = 1;
        while (u->op == OP_STORE && k + run < value->lanes && run < native && u->n_arg && u->arg[k + run] == u->arg[k] + run) run++;
        run = power_below(run);
        push(s, out, uop_store_as(u, offset_index(s, u->src[0], u->n_arg ? u->arg[k] : 0), piece(s, value, k, k + run), NULL, 0));
        k += run;
    }
}

static UOpList *statements(Splitter *s, UOp *u) {
    UOpList *known = uop_map_get(&s->statements, u);
    if (known) return known;
    UOpList *out = arena_new(s->arena, sizeof *out), inner = {0};
    int n_stores = u->op == OP_END ? (int)u->arg[0] : 1, first_range = u->op == OP_END ? n_stores : 2;
    int first = u->op == OP_LAST_TILE;   // behind its cell
    if (u->op == OP_BARRIER || u->op == OP_LAST_TILE) n_stores = first_range = u->n_src;
    if (first) push(s, &inner, offset_index(s, u->src[0], 0));
    if (uop_is_store(u)) {
        const Target *around = s->target;
        Target own = store_target(around, u);
        s->target = &own;
        store_pieces(s, u, &inner);
        s->target = around;
    } else for (int i = first; i < n_stores; i++) {
        UOpList *sub = statements(s, u->src[i]);
        for (size_t k = 0; k < sub->len; k++) push(s, &inner, sub->at[k]);
    }
    if (u->op == OP_BARRIER || first) push(s, out, uop_new(s->graph, (Op)u->op, DT_VOID, 1, inner.at, (int)inner.len, u->arg, u->n_arg));
    else if (first_range == u->n_src) *out = inner;
    else {
        int64_t count = (int64_t)inner.len;
        for (int i = first_range; i < u->n_src; i++) push(s, &inner, piece(s, u->src[i], 0, 1));
        push(s, out, uop_new(s->graph, OP_END, DT_VOID, 1, inner.at, (int)inner.len, &count, 1));
    }
    uop_map_put(&s->statements, u, out);
    return out;
}

// Whether threads compute tiles of elements: groups say how many of them run side by side then (threads.c).
static bool has_tiles(Arena *arena, UOp *sink) {
    UOpList order = uop_toposort(arena, sink);
    for (size_t k = 0; k < order.len; k++) if (order.at[k]->op == OP_SPECIAL && order.at[k]->n_arg > 2) return true;
    return false;
}

UOp *vectorize(UOp *sink, const Target *target) {
    Splitter s = {.graph = sink->graph, .arena = graph_arena(sink->graph), .target = target};
    s.has_tiles = has_tiles(s.arena, sink);
    for (int i = 0; i < 2; i++) map_init(&s.memo[i], s.arena);
    map_init(&s.halves, s.arena);
    find_halves(&s, sink);
    uop_map_init(&s.statements, s.arena);
    uop_map_init(&s.regs, s.arena);
    UOpList all = {0};
    for (int i = 0; i < sink->n_src; i++) {
        UOpList *list = statements(&s, sink->src[i]);
        for (size_t k = 0; k < list->len; k++) push(&s, &all, list->at[k]);
    }
    return uop_sink(s.graph, all.at, (int)all.len);
}

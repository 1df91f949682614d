// expand_sums: ACCUMs become accumulator registers. See expand.c.
// In: an ACCUM whose lanes stand beside those of its value. Out: a vector of the other lanes. Invariant: unit b of a float
// sum is added to chain b mod chains in rising b, whatever lanes there are; integers have no order.
// Example: accum(x·y, 16 lanes of bytes) → dot4, 4 lanes, and their sum.
#include <string.h>

#include "codegen/expand_private.h"
#include "ir/rewrite.h"

enum { FEWEST_BYTES = 8 };     // of a sum that stand side by side in a register with others' (schedule/interleave.c)

UOp *identity(Expander *x, Monoid m, DType dtype, int lanes) {
    int64_t *bits = arena_new(x->arena, (size_t)lanes * sizeof *bits);
    UOp *one = dtype_is_float(dtype) ? uop_float(x->graph, dtype, monoid_info[m].float_identity) : NULL;
    int64_t lo = dtype_info[dtype].lo, hi = dtype_info[dtype].hi, value = monoid_info[m].int_identity;
    if (!one) one = uop_int(x->graph, dtype, value < lo ? lo : value > hi ? hi : value);
    if (lanes == 1) return one;
    for (int i = 0; i < lanes; i++) bits[i] = one->arg[0];
    return uop_new(x->graph, OP_VCONST, dtype, lanes, NULL, 0, bits, lanes);
}

// A vector of bytes whose CAST to i32 is u; NULL where there is none.
static UOp *narrow(UOp *u) {
    if (u->op == OP_CAST && (u->src[0]->dtype == DT_I8 || u->src[0]->dtype == DT_U8)) return u->src[0];
    if (u->op == OP_SHUFFLE) {
        UOp *inner = narrow(u->src[0]);
        return inner ? shuffle(inner, u->arg, u->n_arg) : NULL;
    }
    if (u->op == OP_VCONST || u->op == OP_CONST) {
        bool fits_u8 = true, fits_i8 = true;
        for (int i = 0; i < u->n_arg; i++) fits_u8 &= u->arg[i] >= 0 && u->arg[i] < 256, fits_i8 &= u->arg[i] >= -128 && u->arg[i] < 128;
        if (!fits_u8 && !fits_i8) return NULL;
        return uop_new(u->graph, u->op, fits_i8 ? DT_I8 : DT_U8, u->lanes, NULL, 0, u->arg, u->n_arg);
    }
    return NULL;
}

// The vectors of bytes whose products a value is, b of signed ones.
bool dot_operands(Expander *x, UOp *value, UOp **first, UOp **second) {
    UOp *a = NULL, *b = NULL;
    if (value->dtype != DT_I32) return false;
    if (value->op == OP_MUL) a = narrow(value->src[0]), b = narrow(value->src[1]);
    else {
        b = narrow(value);
        if (b) a = identity(x, MONOID_SUM, DT_U8, value->lanes);
        if (a) {
            int64_t *ones = arena_new(x->arena, (size_t)value->lanes * sizeof *ones);
            for (int i = 0; i < value->lanes; i++) ones[i] = 1;
            a = uop_new(x->graph, OP_VCONST, DT_U8, value->lanes, NULL, 0, ones, value->lanes);
        }
    }
    if (!a || !b) return false;
    bool turned = b->dtype != DT_I8;
    *first = turned ? b : a, *second = turned ? a : b;
    return (*second)->dtype == DT_I8;
}

// Σ over groups of 4k neighbouring lanes of byte products: DOT4s that leave k lanes a group.
static UOp *dot_products(Expander *x, UOp *value, int group, int *left) {
    UOp *a, *b;
    if (group % 4 || !dot_operands(x, value, &a, &b)) return NULL;
    *left = group / 4;
    int lanes = value->lanes / 4;
    UOp *src[3] = {identity(x, MONOID_SUM, DT_I32, lanes), a, b};
    UOp *dots = uop_new(x->graph, OP_DOT4, DT_I32, lanes, src, 3, NULL, 0);
    DERIVED("expand", "products_of_bytes_add_up_by_fours", value, dots);
    return dots;
}

// Lanes of `value` in another order: [own / word][outer][word], the own ranges counted as one.
UOp *own_by_words(Expander *x, const Laned *v, const Laned *outer, UOp *const *own, int n_own, int own_count, int word) {
    Laned all = *outer;
    for (int i = 0; i < n_own; i++) lanes_insert(&all, own[i]);
    UOp *wide = spread(x, v, &all);
    int n_outer = lane_count(outer), n = n_outer * own_count;
    int64_t *map = arena_new(x->arena, (size_t)n * sizeof *map);
    for (int k = 0; k < n; k++) {
        int rest_outer = k / word % n_outer, rest_own = k / (word * n_outer) * word + k % word;
        int64_t from = 0;
        for (int i = 0; i < all.n; i++) {
            int64_t digit = -1, inner = 1;
            for (int j = n_own; j-- > 0;) { if (own[j] == all.lane[i]) digit = rest_own / inner % range_size(own[j]); inner *= range_size(own[j]); }
            if (digit < 0) for (int j = 0; j < outer->n; j++) if (outer->lane[j] == all.lane[i]) digit = lane_digit(outer, rest_outer, j);
            from = from * range_size(all.lane[i]) + digit;
        }
        map[k] = from;
    }
    if (wide->op != OP_MUL || dtype_is_float(wide->dtype)) return shuffle(wide, map, n);
    return uop_binary(OP_MUL, shuffle(wide->src[0], map, n), shuffle(wide->src[1], map, n));
}

// The own ranges innermost.
static UOp *own_last(Expander *x, const Laned *v, const Laned *outer, UOp *const *own, int n_own, int own_count) {
    return own_by_words(x, v, outer, own, n_own, own_count, own_count);
}

// Whether each run of so many bytes of a vector is one load.
static bool is_of_runs(const UOp *bytes, int run) {
    bool is_moved = bytes->op == OP_SHUFFLE;
    const UOp *load = is_moved ? bytes->src[0] : bytes;
    if (load->op != OP_LOAD || !load->n_arg || bytes->lanes % run) return false;
    for (int i = 0, first = 0; i < bytes->lanes; i++) {
        int64_t at = load->arg[is_moved ? bytes->arg[i] : i];
        if (i % run == 0) first = i;
        if (at != load->arg[is_moved ? bytes->arg[first] : first] + i - first) return false;
    }
    return true;
}

// Lanes of a value in another order, from its loads and constants on: what is computed of them has whole registers then.
static UOp *ordered_from_leaves(Expander *x, UOpMap *done, UOp *u, const int64_t *map, int n) {
    UOp *known = uop_map_get(done, u), *src[3];
    if (known) return known;
    if (u->op == OP_SHUFFLE) {
        int64_t *whole = arena_new(x->arena, (size_t)n * sizeof *whole);
        UOpMap own;
        uop_map_init(&own, x->arena);
        for (int i = 0; i < n; i++) whole[i] = u->arg[map[i]];
        known = ordered_from_leaves(x, &own, u->src[0], whole, n);
    } else if (op_is_elementwise((Op)u->op) && u->op != OP_DOT4) {
        for (int i = 0; i < u->n_src; i++) {
            if (u->src[i]->lanes != u->lanes) return shuffle(u, map, n);
            src[i] = ordered_from_leaves(x, done, u->src[i], map, n);
        }
        known = uop_new(x->graph, u->op, u->dtype, n, src, u->n_src, u->arg, u->n_arg);
    } else if (u->op == OP_LOOKUP) {
        src[0] = u->src[0], src[1] = ordered_from_leaves(x, done, u->src[1], map, n);
        known = uop_new(x->graph, OP_LOOKUP, u->dtype, n, src, 2, NULL, 0);
    } else known = shuffle(u, map, n);
    uop_map_put(done, u, known);
    return known;
}

// The outer lanes of bytes [parts][outer][part], by where they lie in memory: order[i] is the lane of the i-th place. What lies at one place is of
// different rows, which stay one behind the other. False where they are no load.
static bool outer_by_place(Expander *x, const UOp *bytes, int n_outer, int part, int64_t *order) {
    bool is_moved = bytes->op == OP_SHUFFLE;
    const UOp *load = is_moved ? bytes->src[0] : bytes;
    if (load->op != OP_LOAD || !load->n_arg) return false;
    int64_t *place = arena_new(x->arena, (size_t)n_outer * sizeof *place), *row = arena_new(x->arena, (size_t)n_outer * sizeof *row);
    for (int o = 0; o < n_outer; o++) {
        int at = o;
        place[o] = load->arg[is_moved ? bytes->arg[o * part] : o * part], row[o] = 0;
        for (int i = 0; i < o; i++) row[o] += place[i] == place[o];
        for (; at > 0; at--) {
            int64_t before = order[at - 1];
            if (row[before] < row[o] || (row[before] == row[o] && place[before] < place[o])) break;
            order[at] = before;
        }
        order[at] = o;
    }
    return true;
}

// Lanes of bytes [parts][outer][part], the outer ones in an order.
static UOp *in_outer_order(Expander *x, UOp *bytes, int n_outer, int part, const int64_t *order) {
    int n = bytes->lanes, all = n_outer * part;
    int64_t *map = arena_new(x->arena, (size_t)n * sizeof *map);
    for (int i = 0; i < n; i++) map[i] = i / all * all + order[i / part % n_outer] * part + i % part;
    UOpMap done;
    uop_map_init(&done, x->arena);
    return ordered_from_leaves(x, &done, bytes, map, n);
}

// The order of outer lanes in which bytes [parts][outer][part] come in whole registers: as they are, or by where they lie in memory; else as they
// are, where they come in halves of registers. False where none does.
static bool order_of_registers(Expander *x, UOp *bytes, int n_outer, int part, int64_t *order) {
    int native = x->target->vector_bytes;
    bool fits = outer_by_place(x, bytes, n_outer, part, order) && is_of_runs(in_outer_order(x, bytes, n_outer, part, order), native);
    if (fits && !is_of_runs(bytes, native)) return true;
    for (int i = 0; i < n_outer; i++) order[i] = i;
    return is_of_runs(bytes, native) || (part < native / 2 && bytes->lanes % native == 0 && is_of_runs(bytes, native / 2));
}

// An exact sum of products of bytes whose lanes lie in memory (schedule/interleave.c) so that the same parts of several sums stand side by side:
// dot products of one part, to which those of the next add up, of outer lanes in an order of their own. NULL where lanes do not lie so.
static UOp *dots_by_parts(Expander *x, const Laned *v, const Laned *outer, const Accum *a, UOp *together, int own, int part, int *left, int64_t *order) {
    int n_outer = lane_count(outer), n = n_outer * part;
    UOp *first, *second, *sum = identity(x, MONOID_SUM, DT_I32, n / 4);
    if (part % 4 || own % part || part == own || part >= x->target->vector_bytes || !dot_operands(x, together, &first, &second)) return NULL;
    if (is_of_runs(second, x->target->vector_bytes)) return NULL;
    UOp *apart = own_by_words(x, v, outer, a->lanes, a->n_lanes, own, part);
    if (!dot_operands(x, apart, &first, &second) || !order_of_registers(x, second, n_outer, part, order)) return NULL;
    first = in_outer_order(x, first, n_outer, part, order), second = in_outer_order(x, second, n_outer, part, order);
    for (int k = 0; k < own / part; k++) {
        int64_t *map = arena_new(x->arena, (size_t)n * sizeof *map);
        for (int i = 0; i < n; i++) map[i] = k * n + i;
        UOp *src[3] = {sum, shuffle(first, map, n), shuffle(second, map, n)};
        sum = uop_new(x->graph, OP_DOT4, DT_I32, n / 4, src, 3, NULL, 0);
    }
    DERIVED("expand", "parts_of_neighbours_share_registers", together, sum);
    *left = part / 4;
    return sum;
}

// A float product, or a product added to such a value: each is added to a sum in one step.
static bool is_of_products(const UOp *v) {
    return dtype_is_float(v->dtype) && (v->op == OP_MUL || (v->op == OP_MULADD && is_of_products(v->src[2])));
}

UOp *added(UOp *acc, UOp *value) {
    if (!is_of_products(value)) return uop_new(acc->graph, OP_ADD, acc->dtype, 1, (UOp *[]){value, acc}, 2, NULL, 0);
    UOp *before = value->op == OP_MULADD ? added(acc, value->src[2]) : acc;
    return uop_new(acc->graph, OP_MULADD, acc->dtype, 1, (UOp *[]){value->src[0], value->src[1], before}, 3, NULL, 0);
}

UOp *combine(Monoid m, UOp *acc, UOp *value) {
    if (m == MONOID_SUM) return added(acc, value);
    // The new value first: a NaN there loses against what is known.
    return uop_new(acc->graph, monoid_info[m].combine, acc->dtype, 1, (UOp *[]){value, acc}, 2, NULL, 0);
}

static UOp *shuffle_through(UOp *v, const int64_t *map, int n) {
    if (!is_of_products(v)) return shuffle(v, map, n);
    UOp *src[3] = {shuffle(v->src[0], map, n), shuffle(v->src[1], map, n)};
    if (v->op == OP_MULADD) src[2] = shuffle_through(v->src[2], map, n);
    return uop_new(v->graph, v->op, v->dtype, n, src, v->n_src, NULL, 0);
}

static UOp *with_lane(UOp *v, UOp *lane) { return uop_new(v->graph, OP_VCAT, v->dtype, 1, (UOp *[]){v, lane}, 2, NULL, 0); }

// What is added up and one more lane, which adds nothing: its products have it, so that they stay what is added in one step.
static UOp *with_zero(UOp *v, UOp *zero) {
    if (!is_of_products(v)) return with_lane(v, zero);
    UOp *src[3] = {with_lane(v->src[0], zero), with_lane(v->src[1], zero)};
    if (v->op == OP_MULADD) src[2] = with_zero(v->src[2], zero);
    return uop_new(v->graph, v->op, v->dtype, 1, src, v->n_src, NULL, 0);
}

// acc [outer][chains] combined with value [outer][own]: own is cut into runs of `chains`, added one after the other.
static UOp *accumulate(Expander *x, Monoid m, UOp *acc, UOp *value, int outer, int own, int chains) {
    for (int first = 0; first < own; first += chains) {
        int64_t *map = arena_new(x->arena, (size_t)(outer * chains) * sizeof *map);
        int run = own - first < chains ? own - first : chains;
        UOp *from = value;
        if (run < chains) {   // missing units: the identity, so that their chains stay as they are
            UOp *lane = identity(x, m, value->dtype, 1);
            from = m == MONOID_SUM && acc ? with_zero(value, lane) : with_lane(value, lane);
        }
        for (int o = 0; o < outer; o++)
            for (int c = 0; c < chains; c++) map[o * chains + c] = c < run ? o * own + first + c : outer * own;
        if (!acc && run < chains) return shuffle(from, map, outer * chains);     // nothing is added: they are made side by side
        UOp *units = shuffle_through(from, map, outer * chains);
        acc = acc ? combine(m, acc, units) : combine(m, identity(x, m, value->dtype, outer * chains), units);
    }
    return acc;
}

int product_of(UOp *const *ranges, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= range_size(ranges[i]);
    return (int)p;
}

int chain_lanes(int own) {
    int n = 1;
    while (n < own && n < 16) n *= 2;
    return n;
}

// What each lane of an access of all lanes, or of part of an array, is behind the index; a register has none.
static int64_t *offsets_of(Expander *x, int64_t n) {
    int64_t *offsets = arena_new(x->arena, (size_t)n * sizeof *offsets);
    for (int64_t i = 0; i < n; i++) offsets[i] = i;
    return offsets;
}

static UOp *cells_load(Expander *x, const Cells *c, UOp *where, int64_t lanes) {
    bool is_reg = c->memory->op == OP_DEFINE_REG;
    return uop_new(x->graph, OP_LOAD, c->memory->dtype, (int)lanes, &where, 1, is_reg ? NULL : offsets_of(x, lanes), is_reg ? 0 : (int)lanes);
}

static UOp *cells_store(Expander *x, const Cells *c, UOp *at, UOp *value) {
    bool is_reg = c->memory->op == OP_DEFINE_REG;
    UOp *src[2] = {uop_index(c->memory, at), value};
    return uop_new(x->graph, OP_STORE, DT_VOID, 1, src, 2, is_reg ? NULL : offsets_of(x, value->lanes), is_reg ? 0 : value->lanes);
}

Cells cells_of_register(Expander *x, DType dtype, int64_t lanes, UOp *const *loops, int n_loops) {
    UOp *reg = uop_new(x->graph, OP_DEFINE_REG, dtype, 1, NULL, 0, (int64_t[]){graph_unique(x->graph), lanes}, 2);
    return (Cells){.memory = reg, .loops = loops, .n_loops = n_loops, .at = uop_int(x->graph, DT_I32, 0), .lanes = lanes, .all = lanes};
}

UOp *cells_old(Expander *x, const Cells *c, Monoid monoid) {
    UOp *inside[17] = {cells_store(x, c, uop_int(x->graph, DT_I32, 0), identity(x, monoid, c->memory->dtype, (int)c->all))};
    memcpy(inside + 1, c->loops, (size_t)c->n_loops * sizeof *inside);
    return cells_load(x, c, uop_index(uop_after(c->memory, inside, c->n_loops + 1), c->at), c->lanes);
}

UOp *cells_updated(Expander *x, const Cells *c, UOp *value) {
    UOp *end_src[18] = {cells_store(x, c, c->at, value)};
    memcpy(end_src + 1, c->loops, (size_t)c->n_loops * sizeof *end_src);
    UOp *end = uop_new(x->graph, OP_END, DT_VOID, 1, end_src, c->n_loops + 1, (int64_t[]){1}, 1);
    return cells_load(x, c, uop_index(uop_after(c->memory, &end, 1), uop_int(x->graph, DT_I32, 0)), c->all);
}

Laned outer_lanes(const Laned *value, UOp *const *own, int n_own) {
    Laned outer = {0};
    for (int i = 0; i < value->n; i++) {
        bool is_own = false;
        for (int j = 0; j < n_own; j++) is_own |= own[j] == value->lane[i];
        if (!is_own) lanes_insert(&outer, value->lane[i]);
    }
    return outer;
}

Laned expand_accum(Expander *x, UOp *u) {
    Accum a = accum_parts(u);
    if (a.is_stepwise) return expand_stepwise(x, &a);
    const Laned *value = expand_node(x, a.value), *tail = a.tail ? expand_node(x, a.tail) : NULL;
    Laned outer = outer_lanes(value, a.lanes, a.n_lanes);
    for (int i = 0; tail && i < tail->n; i++) {
        bool own = false;
        for (int j = 0; j < a.n_tail_lanes; j++) own |= a.tail_lanes[j] == tail->lane[i];
        if (!own) lanes_insert(&outer, tail->lane[i]);
    }
    int n_outer = lane_count(&outer), own = product_of(a.lanes, a.n_lanes);
    UOp *vector = own_last(x, value, &outer, a.lanes, a.n_lanes, own);
    UOp *acc = NULL;
    bool exact = !dtype_is_float(u->dtype);
    bool is_unordered = !exact && a.monoid == MONOID_SUM && a.chains == 1;   // one register holds as much as many
    int chains = exact && a.monoid == MONOID_SUM ? own : a.n_lanes && !is_unordered ? chain_lanes(own) : 1;
    int64_t *order = arena_new(x->arena, (size_t)n_outer * sizeof *order);     // of outer lanes, until the sums are made
    bool has_order = false;
    if (exact && a.monoid == MONOID_SUM && own > 1) {
        int left;
        UOp *dots = a.tail ? NULL : dots_by_parts(x, value, &outer, &a, vector, own, own / 2, &left, order);
        bool fills_registers = !a.tail && !dots && n_outer * FEWEST_BYTES >= x->target->vector_bytes;
        if (fills_registers) dots = dots_by_parts(x, value, &outer, &a, vector, own, FEWEST_BYTES, &left, order);
        has_order = dots != NULL;
        if (!dots) dots = dot_products(x, vector, own, &left);
        if (dots) vector = dots, own = chains = left;
    }
    if (a.tail && chains < 16 && !(exact && a.monoid == MONOID_SUM)) chains = 16;
    if (a.n_loops) {
        UOp *loops[16];
        for (int i = 0; i < a.n_loops; i++) loops[i] = expand_node(x, a.loops[i])->value;
        Cells c = cells_of_register(x, u->dtype, (int64_t)n_outer * chains, loops, a.n_loops);
        UOp *old = cells_old(x, &c, a.monoid);
        acc = cells_updated(x, &c, accumulate(x, a.monoid, old, vector, n_outer, own, chains));
    } else if (own == chains) acc = vector;
    else acc = accumulate(x, a.monoid, NULL, vector, n_outer, own, chains);
    if (a.tail) {
        int tail_own = product_of(a.tail_lanes, a.n_tail_lanes);
        UOp *rest = own_last(x, tail, &outer, a.tail_lanes, a.n_tail_lanes, tail_own);
        if (exact && a.monoid == MONOID_SUM) {
            int left;
            UOp *dots = dot_products(x, rest, tail_own, &left);
            if (!dots) dots = rest, left = tail_own;
            UOp *sums[2] = {acc, dots};
            int groups[2] = {chains, left};
            for (int i = 0; i < 2; i++)
                if (groups[i] > 1) sums[i] = uop_new(x->graph, OP_HFOLD, u->dtype, 1, &sums[i], 1, (int64_t[]){a.monoid, groups[i]}, 2);
            acc = combine(a.monoid, sums[0], sums[1]);
            chains = 1;
        } else {
            if (a.n_loops == 0 && own < chains) {   // widen to all chains
                acc = accumulate(x, a.monoid, NULL, vector, n_outer, own, chains);
            }
            acc = accumulate(x, a.monoid, acc, rest, n_outer, tail_own, chains);
        }
    }
    Laned out = outer;
    out.value = chains > 1 ? uop_new(x->graph, OP_HFOLD, u->dtype, 1, &acc, 1, (int64_t[]){a.monoid, chains}, 2) : acc;
    if (!has_order) return out;
    int64_t *place = arena_new(x->arena, (size_t)n_outer * sizeof *place);
    for (int i = 0; i < n_outer; i++) place[order[i]] = i;
    out.value = shuffle(out.value, place, n_outer);
    return out;
}

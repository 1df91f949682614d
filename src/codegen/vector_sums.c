// vector_sums: sums and extremes of the lanes of a vector, group by group, in registers.
// In: an HFOLD, or the lanes [a, b) of one. Out: registers merged two by two so that all lanes stay busy, and one shuffle at the end.
// Invariant: the order within a group is that of fold_group, for floats; integers have none.
// Example: 16 groups of 4 lanes in four registers of 16 → two, then one that has each group's sum in a lane of its own.
#include <string.h>

#include "codegen/vectorize_private.h"

// Where dot products add to a number, the next one takes the sum.
UOp *combined(const Splitter *s, Monoid m, UOp *a, UOp *b) {
    bool is_chain = s->target->group_threads > 0 && m == MONOID_SUM && b->op == OP_DOT4 && is_constant(b->src[0]) && is_uniform(b->src[0]) && b->src[0]->arg[0] == 0;
    if (is_chain) return uop_new(a->graph, OP_DOT4, a->dtype, a->lanes, (UOp *[]){a, b->src[1], b->src[2]}, 3, NULL, 0);
    return uop_new(a->graph, monoid_info[m].combine, a->dtype, a->lanes, (UOp *[]){a, b}, 2, NULL, 0);
}

// One group of neighbouring lanes, halves first: lane i with lane i + group/2, until one is left.
static UOp *fold_group(Splitter *s, UOp *v, Monoid m, int first, int group) {
    if (group == 1) return piece(s, v, first, first + 1);
    int native = native_lanes(s, v->dtype), n = group / native;
    if (group & (group - 1)) {
        UOp *acc = piece(s, v, first, first + 1);
        for (int i = 1; i < group; i++) acc = combined(s, m, acc, piece(s, v, first + i, first + i + 1));
        return acc;
    }
    UOp *x;
    if (n > 1) {
        UOp *regs[256];
        CHECK(n <= 256);
        for (int i = 0; i < n; i++) regs[i] = piece(s, v, first + i * native, first + (i + 1) * native);
        for (; n > 1; n /= 2) for (int i = 0; i < n / 2; i++) regs[i] = combined(s, m, regs[i], regs[i + n / 2]);
        x = regs[0];
    } else x = piece(s, v, first, first + group);
    while (x->lanes > 1) {
        int half = x->lanes / 2;
        int64_t low[64], high[64];
        if (x->lanes % 2) {
            UOp *acc = pick(s, x, (int64_t[]){0}, 1);
            for (int64_t i = 1; i < x->lanes; i++) acc = combined(s, m, acc, pick(s, x, &i, 1));
            return acc;
        }
        for (int i = 0; i < half; i++) low[i] = i, high[i] = i + half;
        x = combined(s, m, pick(s, x, low, half), pick(s, x, high, half));
    }
    return x;
}

static bool is_paired(const int *label, int n_regs, int lanes, int d) {
    for (int r = 0; r < n_regs; r++)
        for (int l = 0; l < lanes; l++)
            if (!(l & d) && label[r * lanes + l] != label[r * lanes + (l | d)]) return false;
    return true;
}

// Lane distance at which all registers hold partial sums of the same group side by side; 0: none. Floats add the halves of
// a group first, as in fold_group; integers have no order, and near lanes are cheaper to bring together.
static int pair_distance(const int *label, int n_regs, int lanes, bool is_ordered) {
    for (int k = 1; k < lanes; k *= 2) {
        int d = is_ordered ? lanes / 2 / k : k;
        if (is_paired(label, n_regs, lanes, d)) return d;
    }
    return 0;
}

// Folds of many groups at once: pairs of registers are merged so that all lanes stay busy; `label` says which group each
// lane belongs to. The order within a group is that of fold_group.
static UOp *fold_groups(Splitter *s, UOp *v, Monoid m, int group, int a, int b) {
    int lanes = native_lanes(s, v->dtype), outputs = b - a, n = outputs * group / lanes, d;
    int *label = arena_new(s->arena, (size_t)(n * lanes) * sizeof *label);
    UOp **regs = arena_new(s->arena, (size_t)n * sizeof *regs);
    for (int i = 0; i < n; i++) regs[i] = piece(s, v, a * group + i * lanes, a * group + (i + 1) * lanes);
    for (int own = group / lanes; own > 1; own /= 2, n /= 2)   // registers of one group
        for (int i = 0; i < n / 2; i++) {
            int at = i / (own / 2) * own + i % (own / 2);
            regs[i] = combined(s, m, regs[at], regs[at + own / 2]);
        }
    for (int i = 0; i < n * lanes; i++) label[i] = i / (group < lanes ? group : lanes);
    int part = 16 / dtype_bytes(v->dtype);   // inside 128-bit parts shuffles are cheap
    while (n > 1 && (d = pair_distance(label, n, lanes, dtype_is_float(v->dtype)))) {
        int block = d < part ? part : lanes;
        int64_t even[64], odd[64];
        for (int at = 0, base = 0; base < lanes; base += block)
            for (int side = 0; side < 2; side++)
                for (int l = base; l < base + block; l++)
                    if (!(l & d)) even[at] = l + side * lanes, odd[at++] = (l | d) + side * lanes;
        for (int i = 0; i < n / 2; i++) {
            int merged[64];
            for (int l = 0; l < lanes; l++) merged[l] = label[2 * i * lanes + even[l]];
            UOp *x = regs[2 * i], *y = regs[2 * i + 1];
            regs[i] = combined(s, m, pick_pair(s, x, y, even, lanes), pick_pair(s, x, y, odd, lanes));
            memcpy(label + i * lanes, merged, (size_t)lanes * sizeof *merged);
        }
        n /= 2;
    }
    CHECK(n == 1);
    // The lanes of each group side by side, its halves one behind the other: added until one is left.
    int64_t map[64];
    int left = lanes / outputs, seen[64] = {0};
    for (int l = 0; l < lanes; l++) {
        int o = label[l], k = seen[o]++;
        map[k * outputs + o] = l;
    }
    UOp *sum = left == 1 ? pick(s, regs[0], map, outputs) : NULL, *rest = regs[0];
    for (; left > 1; left /= 2) {
        int half = left / 2 * outputs;
        sum = combined(s, m, pick(s, rest, map, half), pick(s, rest, map + half, half));
        rest = sum;
        for (int i = 0; i < half; i++) map[i] = i;
    }
    return sum;
}

// Lanes a ≤ k < b of an operand, out of a whole register of it.
static UOp *part_of_register(Splitter *s, UOp *u, int a, int b) {
    int native = native_lanes(s, u->dtype), first = a / native * native;
    int64_t map[64];
    if (first + native > u->lanes || b > first + native) return piece(s, u, a, b);
    for (int i = 0; i < b - a; i++) map[i] = a - first + i;
    return pick(s, piece(s, u, first, first + native), map, b - a);
}

// Sums of dot products of a thread's tile of elements: each in one chain. Registers hold one number each there, so that lanes
// are no gain, and a chain needs no additions.
static UOp *dot_chains(Splitter *s, UOp *u, int a, int b) {
    UOp *dots = u->src[0], *sums[64];
    int group = (int)u->arg[1];
    bool begins_at_zero = dots->op == OP_DOT4 && is_constant(dots->src[0]) && is_uniform(dots->src[0]) && dots->src[0]->arg[0] == 0;
    if (!s->has_tiles || u->arg[0] != MONOID_SUM || !begins_at_zero || b - a < 2) return NULL;
    for (int o = a; o < b; o++) {
        UOp *sum = uop_int(s->graph, DT_I32, 0);
        for (int i = o * group; i < (o + 1) * group; i++) {
            UOp *src[3] = {sum, part_of_register(s, dots->src[1], 4 * i, 4 * i + 4), part_of_register(s, dots->src[2], 4 * i, 4 * i + 4)};
            sum = uop_new(s->graph, OP_DOT4, DT_I32, 1, src, 3, NULL, 0);
        }
        sums[o - a] = sum;
    }
    return join(s, sums, b - a);
}

UOp *piece_hfold(Splitter *s, UOp *u, int a, int b) {
    Monoid m = (Monoid)u->arg[0];
    int group = (int)u->arg[1], native = native_lanes(s, u->dtype);
    if (b - a > native) return runs(s, u, a, b, native);
    UOp *chains = dot_chains(s, u, a, b);
    if (chains) return chains;
    if (b - a > 1 && (group & (group - 1)) == 0 && (b - a) * group % native == 0)
        return fold_groups(s, u->src[0], m, group, a, b);
    UOpList parts = {0};
    for (int o = a; o < b; o++) push(s, &parts, fold_group(s, u->src[0], m, o * group, group));
    return join(s, parts.at, (int)parts.len);
}

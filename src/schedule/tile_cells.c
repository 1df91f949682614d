// tile_cells: see tile_cells.h.
#include "schedule/tile_cells.h"

#include "base/error.h"
#include "base/vec.h"
#include "ir/rewrite.h"

enum { LARGEST_UNIT = 16 };   // cells: rows of a power of two up to it stay at its multiples, as wide loads want

// ---------------------------------------------------------------- addresses

// Whether a value changes with tiles, and with anything else: loops of a tile, and data.
static void changes_with(UOp *u, bool *tile, bool *other) {
    if (u->op == OP_RANGE) {   // whatever it ends at
        *(range_kind(u) == RANGE_GLOBAL ? tile : other) = true;
        return;
    }
    *other |= u->op == OP_LOAD;
    for (int i = 0; i < u->n_src; i++) changes_with(u->src[i], tile, other);
}

// An address in its simplest form. Loops stay the nodes that they are: one whose end became simpler would be another.
static UOp *simple_address(Arena *arena, UOp *at) {
    UOpList order = uop_toposort_value(arena, at), loops = {0}, same = {0};
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (u->op != OP_RANGE || range_is_static(u)) continue;
        vec_push(arena, &loops, u);
        vec_push(arena, &same, uop_range_const(u->graph, range_size(u), range_kind(u)));
    }
    if (!loops.len) return simplify(at);
    UOp *simple = simplify(uop_substitute(at, loops.at, same.at, (int)loops.len));
    return uop_substitute(simple, same.at, loops.at, (int)loops.len);
}

// An address as the tile's part and the rest. False where they are not apart.
static bool address_split(Arena *arena, UOp *index, Linear *tile, Linear *rest) {
    if (!linear_of(simple_address(arena, index->src[1]), rest)) return false;
    *tile = (Linear){.graph = rest->graph, .dtype = rest->dtype, .lanes = rest->lanes};
    int n = 0;
    for (int i = 0; i < rest->n; i++) {
        bool of_tile = false, of_other = false;
        changes_with(rest->at[i].node, &of_tile, &of_other);
        if (of_tile && of_other) return false;
        if (of_tile) tile->at[tile->n++] = rest->at[i];
        else rest->at[n++] = rest->at[i];
    }
    rest->n = n;
    return true;
}

static bool same_terms(const Linear *a, const Linear *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        bool is_there = false;
        for (int k = 0; k < b->n && !is_there; k++)
            is_there = a->at[i].node == b->at[k].node && a->at[i].factor == b->at[k].factor;
        if (!is_there) return false;
    }
    return true;
}

// ---------------------------------------------------------------- gaps

// What is left of an address in front of the next multiple of `stride`.
static Linear below(const Linear *l, int64_t stride) {
    Linear low = *l;
    low.n = 0;
    for (int i = 0; i < l->n; i++) if (l->at[i].factor % stride) low.at[low.n++] = l->at[i];
    low.constant -= floor_of(l->constant, stride) * stride;
    return low;
}

static void gap_close(Linear *l, Gap g) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i].factor % g.stride == 0) l->at[i].factor = l->at[i].factor / g.stride * g.kept;
    int64_t high = floor_of(l->constant, g.stride);
    l->constant += high * (g.kept - g.stride);
}

// The first cells of each `stride` that any access touches, by units; 0: there is no gap.
static int64_t cells_kept(const CellAccess *accesses, const Linear *rest, size_t n, int64_t stride) {
    int64_t kept = 0, unit = stride & -stride;
    for (size_t i = 0; i < n; i++) {
        Linear low = below(&rest[i], stride);
        Bounds b;
        if (!linear_fits(&low, &b) || b.lo < 0) return 0;
        if (b.hi + accesses[i].width > kept) kept = b.hi + accesses[i].width;
    }
    if (unit > LARGEST_UNIT) unit = LARGEST_UNIT;
    while (unit > kept) unit /= 2;
    kept = (kept + unit - 1) / unit * unit;
    return kept < stride ? kept : 0;
}

// The least stride above `above` behind which there is a gap.
static bool gap_find(const CellAccess *accesses, const Linear *rest, size_t n, int64_t above, Gap *out) {
    out->stride = 0;
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < rest[i].n; k++) {
            int64_t factor = rest[i].at[k].factor, kept = 0;
            if (factor > above && (!out->stride || factor < out->stride)) kept = cells_kept(accesses, rest, n, factor);
            if (kept) *out = (Gap){factor, kept};
        }
    return out->stride > 0;
}

// ---------------------------------------------------------------- all of them

bool tile_cells_find(Arena *arena, const CellAccess *accesses, size_t n, int64_t most, TileCells *out) {
    Linear *rest = arena_new(arena, n * sizeof *rest);
    int64_t least = INT64_MAX, last = INT64_MIN;
    *out = (TileCells){.n_gaps = 0};
    for (size_t i = 0; i < n; i++) {
        Linear tile;
        Bounds b;
        if (!address_split(arena, accesses[i].index, i ? &tile : &out->tile, &rest[i])) return false;
        if (i && !same_terms(&tile, &out->tile)) return false;
        if (accesses[i].is_masked) continue;
        if (!linear_fits(&rest[i], &b)) return false;
        if (b.lo < least) least = b.lo;
    }
    out->first = least;
    for (size_t i = 0; i < n; i++) rest[i].constant -= least;
    for (int64_t above = 1; out->n_gaps < MOST_GAPS;) {
        Gap *gap = &out->gaps[out->n_gaps];
        if (!gap_find(accesses, rest, n, above, gap)) break;
        for (size_t i = 0; i < n; i++) gap_close(&rest[i], *gap);
        above = gap->kept;
        out->n_gaps++;
    }
    for (size_t i = 0; i < n; i++) {
        Bounds b;
        if (accesses[i].is_masked) continue;
        if (!linear_fits(&rest[i], &b) || b.hi >= most) return false;
        if (b.hi + accesses[i].width - 1 > last) last = b.hi + accesses[i].width - 1;
    }
    out->count = last + 1;
    return out->count <= most;
}

UOp *tile_cells_place(Arena *arena, const TileCells *cells, UOp *index) {
    Linear tile, rest;
    CHECK(address_split(arena, index, &tile, &rest));
    rest.constant -= cells->first;
    for (int i = 0; i < cells->n_gaps; i++) gap_close(&rest, cells->gaps[i]);
    return linear_build(&rest);
}

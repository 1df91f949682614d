// traffic: the bytes of its buffers that a kernel touches. See schedule.h.
// In: a kernel over ranges. Out: bytes, each cell counted once. An index that holds a loaded number (a token, an
// expert, a page) selects slices: it touches as many as the ranges under the loads count, each as long as the rest
// of the index spans. Invariant: never more than the buffers are long.
// Example: w[ids[k]·S + j], k < 4, 0 ≤ j < S touches 4·S cells, whatever the size of w.
#include "ir/bounds.h"
#include "schedule/schedule.h"

// An index as a sum: what is selected by loaded numbers, and the interval of the rest.
typedef struct Reach {
    UOpList selectors;
    int64_t lo, hi;
} Reach;

// What the kernel does to one buffer: slices × span covers it, and so does the sum of its accesses.
typedef struct Touched {
    int64_t id, slices, lo, hi, sum, cell_bytes;
    bool is_selected, is_written;
} Touched;

static void reach_add(Arena *arena, Reach *r, UOp *u, int64_t times) {
    int64_t factor;
    if (u->op == OP_ADD) {
        reach_add(arena, r, u->src[0], times);
        reach_add(arena, r, u->src[1], times);
    } else if (u->op == OP_MUL && uop_is_int_const(u->src[1], &factor)) {
        reach_add(arena, r, u->src[0], times * factor);
    } else if (u->op == OP_SHL && uop_is_int_const(u->src[1], &factor)) {
        reach_add(arena, r, u->src[0], times << factor);
    } else if (u->op == OP_CAST && dtype_is_int(u->src[0]->dtype)) {
        reach_add(arena, r, u->src[0], times);
    } else if (holds_op(arena, u, OP_LOAD)) {
        vec_push(arena, &r->selectors, u);
    } else {
        Bounds b = bounds_of(u);
        r->lo += times < 0 ? b.hi * times : b.lo * times;
        r->hi += times < 0 ? b.lo * times : b.hi * times;
    }
}

// Product of the sizes of the ranges under the nodes, at most limit.
static int64_t combinations(Arena *arena, UOp *const *nodes, size_t n, int64_t limit) {
    int64_t product = 1;
    UOpMap seen;
    uop_map_init(&seen, arena);
    for (size_t i = 0; i < n; i++) {
        UOpList order = uop_toposort(arena, nodes[i]);
        for (size_t k = 0; k < order.len && product < limit; k++) {
            if (order.at[k]->op != OP_RANGE || uop_map_get(&seen, order.at[k])) continue;
            uop_map_put(&seen, order.at[k], order.at[k]);
            product *= range_size(order.at[k]);
        }
    }
    return product < limit ? product : limit;
}

// How many slices the loaded numbers can select: each load as many as its own index has values, at most limit. Sections know
// their tiles only by clamped numbers of all tiles, whose ranges would count too many.
static int64_t selections(Arena *arena, const UOpList *selectors, int64_t limit) {
    int64_t product = 1;
    UOpMap seen;
    uop_map_init(&seen, arena);
    for (size_t i = 0; i < selectors->len; i++) {
        UOpList order = uop_toposort(arena, selectors->at[i]);
        for (size_t k = 0; k < order.len && product < limit; k++) {
            UOp *u = order.at[k];
            if (u->op != OP_LOAD || uop_map_get(&seen, u)) continue;
            uop_map_put(&seen, u, u);
            Bounds b = bounds_of(u->src[0]->src[1]);
            int64_t values = b.hi - b.lo + 1;
            product = values < 1 || values > limit / product ? limit : product * values;
        }
    }
    return product < limit ? product : limit;
}

static Touched *touched_find(Touched *all, int *n, int64_t id) {
    for (int i = 0; i < *n; i++)
        if (all[i].id == id) return &all[i];
    all[*n] = (Touched){.id = id, .lo = INT64_MAX, .hi = INT64_MIN, .cell_bytes = 1};
    return &all[(*n)++];
}

// width: bytes of one access, which may join cells of the buffer.
static void touch(Arena *arena, Touched *t, UOp *index, int64_t width, int64_t limit) {
    Reach r = {0};
    reach_add(arena, &r, index->src[1], 1);
    int64_t cell = dtype_bytes(index->dtype), slices = combinations(arena, r.selectors.at, r.selectors.len, limit);
    int64_t selected = selections(arena, &r.selectors, limit);
    if (selected < slices) slices = selected;
    int64_t each = combinations(arena, &index->src[1], 1, limit);
    int64_t span = (r.hi - r.lo) * cell + width;
    t->cell_bytes = cell;
    t->is_selected |= r.selectors.len > 0;
    t->slices = slices > t->slices ? slices : t->slices;
    t->lo = r.lo < t->lo ? r.lo : t->lo;
    t->hi = r.hi + (width - cell) / cell > t->hi ? r.hi + (width - cell) / cell : t->hi;
    int64_t whole = span > limit / slices ? limit : slices * span;
    t->sum += each < whole / width ? each * width : whole;
}

KernelTraffic kernel_traffic(Arena *arena, const Kernel *kernel, BufferBytes nbytes, void *context) {
    UOpList order = uop_toposort(arena, kernel_sink(kernel));
    Touched *all = arena_new(arena, order.len * sizeof *all);
    int n = 0;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k];
        if (u->op != OP_LOAD && !uop_is_store(u)) continue;
        UOp *buffer = uop_buffer_of(u->src[0]);
        if (buffer->op != OP_BUFFER) continue;
        DType dtype = u->op == OP_LOAD ? u->dtype : u->src[0]->dtype;
        Touched *t = touched_find(all, &n, buffer->arg[0]);
        t->is_written |= u->op != OP_LOAD;
        touch(arena, t, u->src[0], dtype_bytes(dtype), nbytes(context, buffer->arg[0]));
    }
    KernelTraffic traffic = {.whole = arena_new(arena, (size_t)(n + 1) * sizeof *traffic.whole)};
    for (int i = 0; i < n; i++) {
        int64_t limit = nbytes(context, all[i].id), span = (all[i].hi - all[i].lo + 1) * all[i].cell_bytes;
        int64_t cover = span > limit / all[i].slices ? limit : all[i].slices * span;
        int64_t touched = all[i].sum < cover ? all[i].sum : cover;
        traffic.nbytes += touched;
        if (touched == limit && !all[i].is_selected && !all[i].is_written) traffic.whole[traffic.n_whole++] = all[i].id;
    }
    return traffic;
}

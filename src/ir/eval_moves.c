// eval_moves: movement ops on dense arrays. See eval_moves.h.
// Invariant: every movement but RESHAPE and GATHER is a strided walk over its source: axis i of the result steps
// stride[i] elements and is inside the source for lo[i] ≤ index < hi[i].
// Example: FLIP of axis 0 of [4] walks from offset 3 with stride -1.
#include "ir/eval_moves.h"

#include <string.h>

#include "ir/eval_ops.h"

bool shape_elements(int ndim, const int64_t *shape, int64_t *count) {
    int64_t n = 1;
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return false;
        empty |= shape[i] == 0;
        if (shape[i] > 0 && (__builtin_mul_overflow(n, shape[i], &n) || n > INT64_C(1) << 48))
            return false;
    }
    *count = empty ? 0 : n;
    return true;
}

typedef struct Axis { int64_t size, stride, lo, hi; } Axis;
typedef struct Walk { int ndim; Axis *axis; int64_t start; } Walk;

static Walk walk_make(Arena *arena, const UOp *node) {
    const UOp *from = node->src[0];
    int ndim = node->ndim;
    Walk w = {.ndim = ndim, .axis = arena_new(arena, (size_t)(ndim + 1) * sizeof *w.axis)};
    int64_t *stride = arena_new(arena, (size_t)(ndim + 1) * sizeof *stride), step = 1;
    for (int i = ndim; i-- > 0;) {
        stride[i] = step;
        step *= from->shape[i];
    }
    for (int i = 0; i < ndim; i++) {
        Axis *a = &w.axis[i];
        *a = (Axis){.size = node->shape[i], .stride = stride[i], .hi = node->shape[i]};
        if (node->op == OP_EXPAND && from->shape[i] != node->shape[i])
            a->stride = 0;
        if (node->op == OP_PERMUTE)
            a->stride = stride[node->arg[i]];
        if (node->op == OP_SHRINK)
            w.start += node->arg[2 * i] * stride[i];
        if (node->op == OP_PAD) {
            a->lo = node->arg[2 * i];
            a->hi = a->lo + from->shape[i];
            w.start -= a->lo * stride[i];
        }
    }
    for (int i = 0; node->op == OP_FLIP && i < node->n_arg; i++) {
        Axis *a = &w.axis[node->arg[i]];
        w.start += (a->size - 1) * a->stride;
        a->stride = -a->stride;
    }
    return w;
}

// Copies the innermost axis in one go and counts the outer ones like an odometer.
static void walk_copy(Arena *arena, const Walk *w, const Number *in, Number padding, Number *out, int64_t count) {
    int outer = w->ndim - 1;
    if (count == 0)
        return;
    if (w->ndim == 0) {
        out[0] = in[0];
        return;
    }
    const Axis *last = &w->axis[outer];
    int64_t *at = arena_new(arena, (size_t)w->ndim * sizeof *at), base = w->start;
    int n_outside = 0;
    for (int i = 0; i < outer; i++)
        n_outside += w->axis[i].lo > 0;
    for (int64_t done = 0; done < count; done += last->size) {
        for (int64_t k = 0; k < last->size; k++) {
            bool inside = n_outside == 0 && k >= last->lo && k < last->hi;
            out[done + k] = inside ? in[base + k * last->stride] : padding;
        }
        for (int i = outer; i-- > 0;) {
            const Axis *a = &w->axis[i];
            n_outside -= at[i] < a->lo || at[i] >= a->hi;
            base += a->stride;
            if (++at[i] == a->size) {
                base -= a->size * a->stride;
                at[i] = 0;
            }
            n_outside += at[i] < a->lo || at[i] >= a->hi;
            if (at[i])
                break;
        }
    }
}

static bool gather(const UOp *node, const Number *in, const Number *index, Number *out, Error *err) {
    const UOp *from = node->src[0];
    int64_t rows = from->shape[0], n_index, row;
    if (!shape_elements(node->src[1]->ndim, node->src[1]->shape, &n_index) ||
        !shape_elements(from->ndim - 1, from->shape + 1, &row))
        return fail(err, LATHE_UNSUPPORTED, "gather: the shape of a source is too large to evaluate");
    for (int64_t i = 0; i < n_index; i++) {
        int64_t k = index[i].i;
        if (k < 0 || k >= rows)
            return fail(err, LATHE_BAD_REQUEST, "gather: index %lld (element %lld) is outside of 0..%lld: "
                        "mask or clamp indices before gathering", (long long)k, (long long)i, (long long)rows - 1);
        memcpy(out + i * row, in + k * row, (size_t)row * sizeof *out);
    }
    return true;
}

bool move_elements(Arena *arena, const UOp *node, const Number *in, Number padding, const Number *index, Number *out,
                   Error *err) {
    int64_t count;
    if (!shape_elements(node->ndim, node->shape, &count))
        return fail(err, LATHE_UNSUPPORTED, "%s: the shape is too large to evaluate", op_info[node->op].name);
    if (node->op == OP_GATHER)
        return gather(node, in, index, out, err);
    if (node->op == OP_RESHAPE) {
        memcpy(out, in, (size_t)count * sizeof *out);
        return true;
    }
    ArenaMark mark = arena_mark(arena);
    Walk w = walk_make(arena, node);
    walk_copy(arena, &w, in, padding, out, count);
    arena_release(arena, mark);
    return true;
}

bool bitcast_values(Arena *arena, DType from, DType to, const Number *in, size_t n, Number *out, Error *err) {
    size_t nbytes = n * (size_t)dtype_bytes(from);
    ArenaMark mark = arena_mark(arena);
    uint8_t *bytes = arena_alloc(arena, nbytes);
    if (!bytes)
        return fail(err, LATHE_NO_MEMORY, "bitcast: no memory for %zu bytes", nbytes);
    numbers_store(from, bytes, in, n);
    numbers_load(to, bytes, out, nbytes / (size_t)dtype_bytes(to));
    arena_release(arena, mark);
    return true;
}

bool bitcast_offsets(DType from, DType to, const Number *in, size_t n, Number *out, Error *err) {
    size_t narrow = (size_t)dtype_bytes(from), wide = (size_t)dtype_bytes(to);
    if (narrow >= wide) {
        size_t parts = narrow / wide;
        for (size_t i = 0; i < n * parts; i++) {
            int64_t at = in[i / parts].i;
            out[i].i = at == MOVE_NOWHERE ? at : at + (int64_t)(i % parts * wide);
        }
        return true;
    }
    size_t parts = wide / narrow;
    for (size_t i = 0; i < n; i++) {
        int64_t first = in[i / parts * parts].i;
        int64_t want = first == MOVE_NOWHERE ? first : first + (int64_t)(i % parts * narrow);
        if (in[i].i != want)
            return fail(err, LATHE_UNSUPPORTED, "assign: the target's bitcast to %s joins bytes that are not "
                        "neighbours: bitcast the buffer before moving it", dtype_info[to].name);
        out[i / parts].i = first;
    }
    return true;
}

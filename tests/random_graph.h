// random_graph: makes tensor graphs for differential tests: views, masks, reductions, products of quantised weights,
// gathers, stores; every type. In: a seed, a way to make buffers. Out: outputs to compute.
// Invariant: values stay finite and integers exact, so that two right evaluations differ by roundings only; equal seeds
// make equal graphs. Example: RandomGraph r; random_graph_make(&r, graph, 42, buffers); r.output[0]
#pragma once
#include "random_models.h"

// ---- the moves: each adds one tensor to the pool, or returns false

static bool random_unary(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_is_float);
    Tensor t;
    switch (random_below(r, 9)) {
    case 0: return random_add(r, tensor_unary(OP_NEG, x.t), x.size, x.is_exact);
    case 1: return random_add(r, tensor_abs(x.t), x.size, x.is_exact);
    case 2: return random_add(r, tensor_unary(OP_SQRT, tensor_abs(x.t)), sqrt(x.size) + 1, false);
    case 3: return random_add(r, tensor_unary(OP_RECIP, tensor_add_const(tensor_abs(x.t), 1)), 1, false);
    case 4: x = random_within(x, 4); return random_add(r, tensor_unary(OP_EXP, x.t), exp(x.size), false);
    case 5: x = random_within(x, 8); return random_add(r, tensor_unary(OP_SIN, x.t), 1, false);
    case 6: t = tensor_silu(random_within(x, 8).t); break;
    case 7: t = tensor_sigmoid(random_within(x, 8).t); break;
    default: t = tensor_tanh(random_within(x, 4).t); break;
    }
    return random_add(r, t, 8, false);
}

static bool random_binary(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_is_float), y = random_partner(r, &x);
    bool is_exact = x.is_exact && y.is_exact;
    switch (random_below(r, 6)) {
    case 0: case 1: {
        x = random_within(x, random_limit(&x) / 2), y = random_within(y, random_limit(&x) / 2);
        return random_add(r, random_chance(r, 60) ? tensor_add(x.t, y.t) : tensor_sub(x.t, y.t), x.size + y.size, false);
    }
    case 2: case 3:
        x = random_within(x, 20), y = random_within(y, 20);
        return random_add(r, tensor_mul(x.t, y.t), x.size * y.size, false);
    case 4: return random_add(r, tensor_binary(random_chance(r, 50) ? OP_MAX : OP_MIN, x.t, y.t), fmax(x.size, y.size), is_exact);
    default: return random_add(r, tensor_div(x.t, tensor_add_const(tensor_abs(y.t), 1)), x.size, false);
    }
}

// Narrow types wrap as they please; I32 stays below 2^26, so that it converts to any float type without overflow.
static bool random_integers(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_is_int);
    double limit = dtype_bytes(x.t->dtype) < 4 ? (double)dtype_info[x.t->dtype].hi + 1 : 0x1p26, c = 1 + random_below(r, 9);
    if (random_chance(r, 50)) {
        static const Op with_constant[] = {OP_IDIV, OP_MOD, OP_SHR, OP_AND, OP_XOR, OP_MUL, OP_ADD, OP_SUB};
        Op op = with_constant[random_below(r, 8)];
        bool grows = op == OP_MUL || op == OP_ADD || op == OP_SUB || op == OP_XOR;
        double size = op == OP_MUL ? x.size * c : grows ? x.size + 16 : x.size + (op == OP_MOD ? c : 0);
        if (size > limit && dtype_bytes(x.t->dtype) == 4)
            return false;
        return random_add(r, tensor_binary_const(op, x.t, c), fmin(size, limit), false);
    }
    RandomTensor y = random_partner(r, &x);
    static const Op ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_MAX, OP_MIN, OP_AND, OP_OR};
    Op op = ops[random_below(r, 7)];
    double size = op == OP_MUL ? x.size * y.size : 2 * (x.size + y.size);
    if (size > limit && dtype_bytes(x.t->dtype) == 4)
        return false;
    return random_add(r, tensor_binary(op, x.t, y.t), fmin(size, limit), false);
}

static bool random_movement(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_any);
    Tensor t = x.t;
    int axis = t->ndim ? random_below(r, t->ndim) : 0, other = t->ndim ? random_below(r, t->ndim) : 0;
    int64_t n = tensor_size(t, axis), begin = random_below(r, n);
    if (t->ndim == 0)
        return random_add(r, tensor_expand(t, dims(random_size(r))), x.size, x.is_exact);
    switch (random_below(r, 10)) {
    case 9: {            // every axis one place on, the way back for half of them
        Dims order = {.n = t->ndim};
        int turn = random_chance(r, 50) ? 1 : t->ndim - 1;
        for (int i = 0; i < t->ndim; i++) order.at[i] = (i + turn) % t->ndim;
        t = tensor_permute(t, order);
        break;
    }
    case 0: t = tensor_reshape(t, dims(-1)); break;
    case 1: t = tensor_transpose(t, axis, other); break;
    case 2: t = tensor_flip(t, axis); break;
    case 3: t = tensor_slice(t, axis, begin, begin + 1 + random_below(r, n - begin)); break;
    case 4: t = tensor_pad(t, axis, random_below(r, 4), random_below(r, 4)); break;
    case 5: t = tensor_unsqueeze(t, axis); break;
    case 6: {
        Dims d = tensor_dims(tensor_unsqueeze(t, axis));
        d.at[axis] = 1 + random_below(r, 4);
        t = tensor_expand(tensor_unsqueeze(t, axis), d);
        break;
    }
    case 7: {            // an axis in two, and then perhaps two others in one
        for (int64_t f = 2; f < n; f++) {
            if (n % f)
                continue;
            Dims d = {.n = t->ndim + 1};
            for (int i = 0; i < d.n; i++)
                d.at[i] = i < axis ? t->shape[i] : i == axis ? f : i == axis + 1 ? n / f : t->shape[i - 1];
            t = tensor_transpose(tensor_reshape(t, d), axis, axis + 1);
            break;
        }
        break;
    }
    default: {
        RandomTensor y = random_partner(r, &x);
        Dims d = tensor_dims(x.t);
        t = tensor_concat(t, tensor_expand(y.t, d), axis);
        return random_add(r, t, fmax(x.size, y.size), x.is_exact && y.is_exact);
    }
    }
    return t != x.t && random_add(r, t, x.size, x.is_exact);
}

static bool random_reduction(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_any);
    if (x.t->ndim == 0)
        return false;
    Dims axes = {.n = 1, .at = {random_below(r, x.t->ndim)}};
    int64_t n = tensor_size(x.t, (int)axes.at[0]);
    if (x.t->ndim > 1 && random_chance(r, 25)) {
        axes.n = 2;
        axes.at[1] = (axes.at[0] + 1) % x.t->ndim;
        n *= tensor_size(x.t, (int)axes.at[1]);
    }
    if (random_chance(r, 35))
        return random_add(r, tensor_reduce(random_chance(r, 50) ? MONOID_MAX : MONOID_MIN, 1, x.t, axes), x.size, x.is_exact);
    bool is_float = random_is_float(&x);
    if (!is_float)
        x.t = tensor_cast(x.t, DT_I32);
    else
        x = random_within(x, random_limit(&x) / (double)n);
    if (x.size * (double)n > (is_float ? 1e9 : 0x1p26))
        return false;
    return random_add(r, tensor_reduce(MONOID_SUM, is_float ? SUM_CHAINS : 1, x.t, axes), x.size * (double)n, false);
}

// where(a condition on places, x, something): causal and length masks too.
static bool random_mask(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_any);
    if (x.t->ndim == 0)
        return false;
    int axis = random_below(r, x.t->ndim);
    int64_t n = tensor_size(x.t, axis);
    Dims line = {.n = x.t->ndim - axis};
    for (int i = 0; i < line.n; i++)
        line.at[i] = i ? 1 : n;
    Tensor place = tensor_reshape(tensor_iota(r->g, n), line), cond;
    switch (random_below(r, 4)) {
    case 0: cond = tensor_less(place, tensor_const(r->g, DT_I32, random_below(r, n + 1))); break;
    case 1: cond = tensor_equal(tensor_binary_const(OP_MOD, place, 2 + random_below(r, 3)), tensor_const(r->g, DT_I32, 1)); break;
    case 2: {            // a length that the program loads
        Tensor length = random_buffer(r, DT_I32, dims(1), 1);
        int32_t value = random_below(r, n + 1);
        int64_t id = r->buffers.make(r->buffers.context, &value, sizeof value);
        length = tensor_buffer(r->g, id, DT_I32, 0, n, tensor_dims(length));
        cond = tensor_less(place, length);
        break;
    }
    default: {           // causal: place on this axis against place on the first
        if (axis == 0)
            return false;
        Dims first = {.n = x.t->ndim};
        for (int i = 0; i < first.n; i++)
            first.at[i] = i ? 1 : x.t->shape[0];
        cond = tensor_less(place, tensor_add_const(tensor_reshape(tensor_iota(r->g, x.t->shape[0]), first), 1));
    }
    }
    double fill = random_chance(r, 60) ? 0 : random_is_float(&x) ? -1 : 1;
    Tensor t = tensor_where(cond, x.t, tensor_const(r->g, x.t->dtype, fill));
    if (random_chance(r, 40) && random_is_float(&x)) {
        x = random_within((RandomTensor){t, fmax(x.size, 1), x.is_exact}, random_limit(&x) / (double)n);
        return random_add(r, tensor_sum(x.t, axis), x.size * (double)n, false);
    }
    return random_add(r, t, fmax(x.size, 1), x.is_exact);
}

static bool random_cast(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_any);
    if (!random_is_float(&x)) {
        static const DType to[] = {DT_F32, DT_F32, DT_I32, DT_I8, DT_U8};
        DType type = to[random_below(r, 5)];
        double size = type == DT_I8 ? 128 : type == DT_U8 ? 255 : x.size;
        return type != x.t->dtype && random_add(r, tensor_cast(x.t, type), size, false);
    }
    if (random_chance(r, 25))        // quantise; what is not exact may round to either side, and blur all that follows
        return x.is_exact && random_add(r, tensor_cast(tensor_unary(OP_ROUND, tensor_mul_const(random_within(x, 2).t, 60)),
                                                       DT_I8), 120, false);
    DType type = x.t->dtype == DT_F32 ? (random_chance(r, 60) ? DT_F16 : DT_BF16) : DT_F32;
    return random_add(r, tensor_cast(random_within(x, 500).t, type), fmin(x.size, 500) * 1.01, false);
}

static Tensor random_indices(RandomGraph *r, int64_t n, int64_t count) {
    int32_t *index = arena_new(graph_arena(r->g), (size_t)count * sizeof *index);
    for (int64_t i = 0; i < count; i++)
        index[i] = random_below(r, n);
    int64_t id = r->buffers.make(r->buffers.context, index, (size_t)count * sizeof *index);
    return tensor_buffer(r->g, id, DT_I32, 0, n - 1, dims(count));
}

static bool random_gather(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_any);
    if (x.t->ndim == 0)
        return false;
    return random_add(r, tensor_gather(x.t, random_indices(r, x.t->shape[0], 1 + random_below(r, 6))), x.size, x.is_exact);
}

static bool random_softmax(RandomGraph *r) {
    RandomTensor x = random_within(random_pick(r, random_is_f32), 6);
    if (x.t->ndim == 0)
        return false;
    int64_t n = tensor_size(x.t, -1);
    Tensor mask = NULL;
    if (random_chance(r, 50))
        mask = tensor_less(tensor_iota(r->g, n), tensor_const(r->g, DT_I32, 1 + random_below(r, n)));
    return random_add(r, tensor_softmax(x.t, mask), 1, false);
}

// Writes a tensor into part of a buffer and reads the whole.
static bool random_store(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_any);
    if (x.t->ndim == 0 || x.t->dtype == DT_BOOL)
        return false;
    int way = random_below(r, 5);
    if (way == 3 && x.t->ndim == 2 && x.t->shape[1] % 2 == 0)   // two axes turn into each other either way
        x.t = tensor_reshape(x.t, dims(x.t->shape[0], x.t->shape[1] / 2, 2));
    int64_t rows = x.t->shape[0], spare = random_below(r, 3), begin = spare ? random_below(r, spare + 1) : 0;
    Dims d = tensor_dims(x.t), turned, order;
    d.at[0] += spare;
    turned = order = d;
    for (int i = 0; i < d.n; i++)
        order.at[i] = (i + 1) % d.n, turned.at[(i + 1) % d.n] = d.at[i];
    // It states no bounds, which what is stored would have to keep.
    Tensor buffer = random_buffer(r, x.t->dtype, d, random_is_float(&x) ? 1 : 50);
    buffer = tensor_buffer(r->g, buffer->arg[0], x.t->dtype, 0, 0, way == 3 ? turned : d);
    Tensor whole = way == 3 ? tensor_permute(buffer, order) : buffer, target = tensor_slice(whole, 0, begin, begin + rows);
    if (way < 2 && rows > 1) {   // distinct rows in any order: rows that are written twice have none on a parallel device
        int32_t *index = arena_new(graph_arena(r->g), (size_t)rows * sizeof *index);
        int64_t turn = random_below(r, rows);
        for (int64_t i = 0; i < rows; i++)
            index[i] = (int32_t)(begin + (rows - 1 - i + turn) % rows);
        int64_t id = r->buffers.make(r->buffers.context, index, (size_t)rows * sizeof *index);
        target = tensor_gather(buffer, tensor_buffer(r->g, id, DT_I32, 0, d.at[0] - 1, dims(rows)));
    } else if (way == 2) {
        target = tensor_flip(target, random_below(r, d.n));
    } else if (way == 4 && spare == 0) {
        target = tensor_reshape(buffer, dims(-1)), x.t = tensor_reshape(x.t, dims(-1));
    }
    return random_add(r, tensor_assign(buffer, target, x.t), fmax(x.size, 50), false);
}

// Two stores to parts of one buffer that overlap: the second one counts there, whichever value is known first.
static bool random_overwrite(RandomGraph *r) {
    int64_t rows = 2 + random_below(r, 6), width = 8 * (1 + random_below(r, 6)), begin = random_below(r, rows);
    Dims d = dims(rows, width);
    Tensor buffer = random_buffer(r, DT_F32, d, 1), x = random_dear(r, rows, width), y = random_dear(r, rows - begin, width);
    if (random_chance(r, 50)) {
        random_add(r, y, 1, false);
        random_add(r, tensor_sum(y, -1), (double)width, false);
    }
    Tensor first = tensor_assign(buffer, buffer, x);
    Tensor second = tensor_assign(first, tensor_slice(first, 0, begin, rows), random_chance(r, 50) ? y : tensor_tanh(y));
    if (r->is_large)
        random_want(r, second);
    return random_add(r, second, 1, false);
}

// Stores twice, the second time a value of what the first store left.
static bool random_update(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_is_float);
    if (r->is_large)             // dear enough for several tiles
        x = (RandomTensor){random_buffer(r, DT_F32, dims(16 + random_below(r, 48), 64), 2), 2, true};
    if (x.t->ndim == 0)
        return false;
    Dims d = tensor_dims(x.t);
    int64_t rows = d.at[0], begin = random_below(r, rows), end = begin + 1 + random_below(r, rows - begin);
    Tensor buffer = random_buffer(r, x.t->dtype, d, 1), first = tensor_assign(buffer, buffer, x.t);
    int axis = random_below(r, d.n);   // which the tiles of the second store may lie on
    Tensor moved = r->is_large || random_chance(r, 50) ? tensor_flip(first, axis) : tensor_add_const(first, 1);
    if (r->is_large && random_chance(r, 50))
        begin = 0, end = rows;
    for (int i = 0; r->is_large && i < 10; i++)
        moved = tensor_tanh(moved);
    Tensor second = tensor_assign(first, tensor_slice(first, 0, begin, end), tensor_slice(moved, 0, begin, end));
    if (r->is_large)
        random_want(r, second);
    return random_add(r, second, x.size + 1, false);
}

// Rows stored over by other values divided by what the rows held, which must be known before the first cell is written.
static bool random_rescale(RandomGraph *r) {
    Dims d = dims(1 + random_below(r, 4), 2 + random_below(r, 6));
    Tensor buffer = random_buffer(r, DT_F32, d, 1), x = random_buffer(r, DT_F32, d, 1);
    Tensor before = random_chance(r, 70) ? buffer : tensor_assign(buffer, buffer, tensor_tanh(x));
    Tensor amax = tensor_contiguous(tensor_max(tensor_abs(before), -1));
    Tensor t = tensor_assign(before, before, tensor_div(x, tensor_add_const(tensor_unsqueeze(amax, -1), 1)));
    return random_add(r, t, 1, false);
}

// Bytes of a buffer as numbers of another width.
static bool random_bitcast(RandomGraph *r) {
    static const DType types[] = {DT_I16, DT_U16, DT_I32, DT_U32};
    DType type = types[random_below(r, 4)];
    int width = dtype_bytes(type);
    Dims d = random_shape(r);
    d.at[d.n - 1] *= width;
    Tensor bytes = random_buffer(r, DT_U8, d, 255), t = tensor_bitcast(bytes, type);
    if (random_chance(r, 40))
        t = tensor_bitcast(tensor_slice(bytes, d.n - 1, 0, width * (1 + random_below(r, d.at[d.n - 1] / width))), type);
    t = tensor_binary_const(OP_AND, t, 4095);
    return random_add(r, random_chance(r, 50) ? tensor_cast(t, DT_F32) : tensor_cast(t, DT_I32), 4095, true);
}

static bool random_select(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_is_float), y = random_partner(r, &x);
    RandomTensor z = random_partner(r, &x);
    if (!x.is_exact || !y.is_exact)
        return false;
    Tensor cond = tensor_less(x.t, y.t);
    return random_add(r, tensor_where(cond, z.t, x.t), fmax(x.size, z.size), x.is_exact && y.is_exact && z.is_exact);
}

static bool random_ranking(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_is_float);
    if (x.t->ndim == 0 || !x.is_exact || tensor_size(x.t, -1) * tensor_count(x.t) > RANDOM_MAX_COUNT)
        return false;
    double n = (double)tensor_size(x.t, -1);
    return random_add(r, random_chance(r, 50) ? tensor_rank(x.t) : tensor_argmax(x.t), n, true);
}

static bool random_fence(RandomGraph *r) {
    RandomTensor x = random_pick(r, random_any);
    return random_add(r, tensor_contiguous(x.t), x.size, x.is_exact);
}

static const struct { int weight; bool (*make)(RandomGraph *r); } random_moves[] = {
    {12, random_unary}, {18, random_binary}, {10, random_integers}, {24, random_movement},
    {12, random_reduction}, {10, random_mask}, {8, random_cast}, {8, random_product}, {5, random_gather},
    {3, random_softmax}, {4, random_store}, {3, random_overwrite}, {4, random_select}, {3, random_ranking},
    {2, random_fence}, {3, random_update}, {3, random_rescale}, {3, random_bitcast},
    {6, random_bits_of_bytes}, {8, random_dot}, {7, random_packed}, {10, random_readers}, {6, random_lengths},
    {7, random_few}, {3, random_cache}, {4, random_codes},
};

static inline void random_graph_make(RandomGraph *r, Graph *g, uint64_t seed, RandomBuffers buffers) {
    enum { N_MOVES = sizeof random_moves / sizeof *random_moves };
    *r = (RandomGraph){.g = g, .state = seed * UINT64_C(0xD1342543DE82EF95) + 1, .buffers = buffers};
    r->is_large = random_chance(r, 40);
    r->most = r->is_large ? RANDOM_LARGE_COUNT : RANDOM_MAX_COUNT;
    int total = 0, wanted = 8 + random_below(r, 20);
    for (int i = 0; i < N_MOVES; i++)
        total += random_moves[i].weight;
    for (int i = 0; i < 2; i++)
        r->pool[r->n++] = random_leaf(r);
    if (random_chance(r, 40))
        random_add(r, random_buffer(r, random_chance(r, 50) ? DT_I8 : DT_U8, random_shape(r), 100), 100, true);
    for (int made = 0, tries = 0; made < wanted && tries < 200; tries++) {
        int at = random_below(r, total), k = 0;
        while (at >= random_moves[k].weight)
            at -= random_moves[k++].weight;
        made += random_moves[k].make(r);
    }
    size_t deepest = 0;
    for (int i = r->n > 5 ? r->n - 5 : 0; i < r->n; i++) {
        size_t depth = uop_toposort(graph_arena(g), r->pool[i].t).len;
        if (depth > deepest)
            r->output[0] = r->pool[i].t;
        deepest = depth > deepest ? depth : deepest;
    }
    r->n_outputs = 1;
    for (int i = 0; i < r->n_wanted; i++)
        if (r->wanted[i] != r->output[0])
            r->output[r->n_outputs++] = r->wanted[i];
    while (r->n_outputs < RANDOM_MAX_OUTPUTS && random_chance(r, 30)) {
        Tensor t = r->pool[random_below(r, r->n)].t;
        bool is_new = t->op != OP_BUFFER;
        for (int i = 0; i < r->n_outputs; i++)
            is_new &= r->output[i] != t;
        if (is_new)
            r->output[r->n_outputs++] = t;
        else
            break;
    }
}

// random_models: the moves of random_graph that have the shapes of language models: products of packed weights, fields of
// bytes, values that several readers go over in tiles of their own, masks with lengths that are data.
// In: a RandomGraph. Out: what each move adds to its pool, and outputs that it wants.
// Invariant: that of random_graph. Example: y = Σ…, kept; read as amax of each 8, as y[r, :] + y[r, ::-1], as y[r, :12].
#pragma once
#include "random_pool.h"

// W·x over the last axis of x, W float or an invented block type: scale, minimum and packed bits in one row of bytes.
static bool random_product(RandomGraph *r) {
    RandomTensor x = random_within(random_pick(r, random_is_f32), 4);
    int64_t k = tensor_size(x.t, -1), rows = 1 + random_below(r, r->is_large ? 48 : 12), count = tensor_count(x.t);
    if (x.t->ndim == 0 || rows * count > (r->is_large ? 16 : 4) * r->most)
        return false;
    Tensor w;
    int64_t block = k % 32 == 0 ? 32 : k % 8 == 0 ? 8 : 0;
    if (block && random_chance(r, 60)) {
        bool has_nibbles = random_chance(r, 50);
        int64_t packed = has_nibbles ? block / 2 : block, blocks = k / block;
        Tensor scale = random_buffer(r, DT_F16, dims(rows, blocks, 1), 0.1);
        Tensor bits = random_buffer(r, has_nibbles ? DT_U8 : DT_I8, dims(rows, blocks, packed), has_nibbles ? 255 : 128);
        if (has_nibbles)
            bits = tensor_concat(tensor_binary_const(OP_AND, bits, 15), tensor_binary_const(OP_SHR, bits, 4), -1);
        Tensor value = tensor_cast(bits, DT_F32);
        if (has_nibbles)
            value = tensor_add_const(value, -8);
        w = tensor_reshape(tensor_mul(tensor_cast(scale, DT_F32), value), dims(rows, k));
    } else {
        DType type = random_chance(r, 50) ? DT_F32 : DT_F16;
        w = tensor_cast(random_buffer(r, type, dims(rows, k), 1), DT_F32);
    }
    Tensor t = tensor_sum(tensor_mul(w, tensor_unsqueeze(x.t, -2)), -1);
    return random_add(r, t, x.size * 13 * (double)k, false);
}

// Fields of bytes, as packed weights have them: two or four fields of each byte, side by side.
static bool random_bits_of_bytes(RandomGraph *r) {
    Dims d = random_shape(r);
    Tensor bytes = random_buffer(r, DT_U8, d, 255), t = NULL;
    bool is_woven = random_chance(r, 40);   // the fields of one byte side by side, not those of all bytes
    int n = random_chance(r, 50) ? 2 : 4, step = random_below(r, 8 / n) + 1;
    for (int i = 0; i < n; i++) {
        Tensor field = tensor_binary_const(OP_AND, tensor_binary_const(OP_SHR, bytes, i * step),
                                           random_chance(r, 70) ? (1 << step) - 1 : random_below(r, 256));
        if (is_woven)
            field = tensor_unsqueeze(field, -1);
        t = t ? tensor_concat(t, field, -1) : field;
    }
    if (random_chance(r, 60))
        t = tensor_cast(t, random_chance(r, 50) ? DT_F32 : DT_I32);
    return random_add(r, t, 255, true);
}

// Codes out of words that a few bytes make, some of them across two bytes, as numbers or as factors of a sum.
static bool random_codes(RandomGraph *r) {
    int n_bytes = 2 + random_below(r, 3), n = 2 << random_below(r, 3), width = 1 + random_below(r, 8);
    int most = (8 * n_bytes - width) / (n - 1), step = most < 1 ? 1 : most > 8 ? 8 : most;
    int64_t rows = 1 + random_below(r, 3), words = random_chance(r, 75) ? 4 << random_below(r, r->is_large ? 4 : 2) : 1 + random_below(r, 8);
    if (rows * words * n > r->most)
        return false;
    Tensor bytes = tensor_cast(random_buffer(r, DT_U8, dims(rows, words, n_bytes), 255), DT_U32), word = NULL;
    for (int i = 0; i < n_bytes; i++) {
        Tensor part = tensor_binary_const(OP_SHL, tensor_slice(bytes, -1, i, i + 1), 8 * i);
        word = word ? tensor_binary(OP_OR, word, part) : part;
    }
    Tensor places = tensor_cast(tensor_mul_const(tensor_iota(r->g, n), step), DT_U32);
    Tensor code = tensor_binary_const(OP_AND, tensor_binary(OP_SHR, word, places), (1 << width) - 1);
    code = tensor_cast(tensor_binary_const(OP_XOR, tensor_cast(code, DT_U8), random_below(r, 256)), DT_I32);
    if (random_chance(r, 40))
        return random_add(r, code, 255, true);
    Tensor x = random_buffer(r, DT_I8, dims(1, words, n), 127);
    if (random_chance(r, 40))
        return random_add(r, tensor_reduce(MONOID_SUM, 1, tensor_mul(code, tensor_cast(x, DT_I32)), dims(1, 2)), 255 * 127.0 * (double)(words * n), true);
    Tensor scale = random_buffer(r, DT_F32, dims(rows, words, 1), 0.05);
    Tensor terms = tensor_mul(tensor_mul(scale, tensor_cast(code, DT_F32)), tensor_cast(x, DT_F32));
    return random_add(r, tensor_reduce(MONOID_SUM, SUM_CHAINS, terms, dims(1, 2)), 0.05 * 255 * 127.0 * (double)(words * n), false);
}

// Sums of products of bytes, for several rows of both sides: whole, or in blocks with a scale for each.
static bool random_dot(RandomGraph *r) {
    static const int64_t blocks[] = {4, 8, 16, 32, 12};
    int64_t block = blocks[random_below(r, 5)], n = 1 + random_below(r, 8);
    int64_t rows = 1 + random_below(r, 20), columns = 1 + random_below(r, 3);
    if (rows * columns * block * n > 8 * r->most)
        return false;
    DType type = random_chance(r, 40) ? DT_U8 : DT_I8;
    Tensor w = random_buffer(r, type, dims(1, rows, n, block), type == DT_U8 ? 255 : 128);
    Tensor x = random_buffer(r, DT_I8, dims(columns, 1, n, block), random_chance(r, 50) ? 127 : 128);
    if (random_chance(r, 50)) {
        Tensor product = tensor_mul(tensor_cast(w, DT_I32), tensor_cast(x, DT_I32));
        Tensor t = random_chance(r, 50) ? tensor_sum(product, -1) : tensor_reduce(MONOID_SUM, 1, product, dims(2, 3));
        if (random_chance(r, 30))
            random_want(r, t);
        return random_add(r, t, 255 * 128.0 * (double)(n * block), true);
    }
    Tensor scale = tensor_cast(random_buffer(r, DT_F16, dims(1, rows, n, 1), 0.05), DT_F32);
    Tensor other = random_buffer(r, DT_F32, dims(columns, 1, n, 1), 0.05);
    Tensor value = tensor_mul(scale, tensor_cast(w, DT_F32));
    if (random_chance(r, 50))
        value = tensor_sub(value, scale);
    Tensor terms = tensor_mul(value, tensor_mul(other, tensor_cast(x, DT_F32)));
    Tensor t = random_chance(r, 30) ? tensor_reduce(MONOID_MAX, 1, terms, dims(2, 3)) :
                                      tensor_reduce(MONOID_SUM, SUM_CHAINS, terms, dims(2, 3));
    if (random_chance(r, 30))
        random_want(r, t);
    return random_add(r, t, 0.0025 * 256 * 128 * (double)(n * block), false);
}

// `fields` numbers in each byte, their places given by shifts that differ from lane to lane: u8 [rows, n], each < 2^bits.
// Fields of one byte lie side by side, or all first fields of `run` bytes before all second ones.
static Tensor random_fields(RandomGraph *r, int64_t rows, int64_t n, int64_t fields, int bits) {
    int64_t in_row = n / fields, run = random_chance(r, 40) ? 1 : random_chance(r, 50) && in_row % 4 == 0 ? 4 : in_row;
    Tensor bytes = random_buffer(r, DT_U8, dims(rows, in_row / run, 1, run), 255);
    if (random_chance(r, 25))
        bytes = tensor_flip(bytes, random_chance(r, 50) ? 1 : 3);
    Tensor step = tensor_binary_const(OP_MUL, tensor_iota(r->g, fields), 8 / (double)fields);
    if (random_chance(r, 20))
        step = tensor_binary(OP_SUB, tensor_const(r->g, DT_I32, 8 - bits), step);
    step = tensor_reshape(tensor_cast(step, DT_U8), dims(fields, 1));
    if (random_chance(r, 25))        // up to the top of the byte, and down again
        return tensor_reshape(tensor_binary_const(OP_SHR, tensor_binary(OP_SHL, bytes, step), 8 - bits), dims(rows, n));
    Tensor t = tensor_binary_const(OP_AND, tensor_binary(OP_SHR, bytes, step), (1 << bits) - 1);
    return tensor_reshape(t, dims(rows, n));
}

// Packed weights of a few bits, some with their high bits in bytes of their own, some through a code book: as numbers, or
// summed with those of the other side.
static bool random_packed(RandomGraph *r) {
    static const int64_t counts[] = {8, 16, 16, 32, 32, 64, 24, 48};
    int64_t n = counts[random_below(r, 8)], rows = 1 + random_below(r, r->is_large ? 24 : 6);
    int64_t fields = random_chance(r, 60) ? 2 : 4;
    int bits = 8 / (int)fields, high = random_chance(r, 50) ? 0 : random_chance(r, 50) ? 1 : 2;
    Tensor t = random_fields(r, rows, n, fields, bits);
    if (high) {
        Tensor more = random_fields(r, rows, n, 8 / high, high);
        t = tensor_binary(OP_OR, t, tensor_binary_const(OP_SHL, more, bits));
    } else if (random_chance(r, 40)) {
        Tensor book = random_buffer(r, DT_I8, dims(1 << bits), 128);
        t = tensor_gather(book, tensor_cast(t, DT_I32));
    }
    double size = t->dtype == DT_I8 ? 128 : (1 << (bits + high)) - 1;
    switch (random_below(r, 4)) {
    case 0: return random_add(r, t, size, true);
    case 1: return random_add(r, tensor_cast(t, random_chance(r, 50) ? DT_F32 : DT_I32), size, true);
    default: break;
    }
    Tensor x;
    if (random_chance(r, 80)) {
        DType type = random_chance(r, 70) ? DT_I8 : DT_U8;
        int most = random_chance(r, 50) ? 127 : 128;
        x = tensor_cast(random_buffer(r, type, dims(1 + random_below(r, 3), 1, n), most), DT_I32);
    } else {                         // weights by place, up to the ends of a byte
        x = tensor_binary_const(OP_MUL, tensor_iota(r->g, n), 1 + random_below(r, 255 / n));
        x = random_chance(r, 50) ? x : tensor_add_const(x, -128);
    }
    t = tensor_mul(tensor_cast(t, DT_I32), x);
    return random_add(r, tensor_sum(t, -1), size * 255 * (double)n, true);
}

// One reader of y [rows, width], |y| ≤ 1. In blocks of `part`: one value each, or the elements by their block's largest.
static Tensor random_read_blocks(RandomGraph *r, Tensor y, int64_t part) {
    int64_t rows = y->shape[0], n = y->shape[1] / part, at = random_below(r, part);
    Tensor blocks = tensor_reshape(y, dims(rows, n, part));
    Tensor amax = tensor_max(tensor_abs(blocks), -1), spread = tensor_add_const(tensor_unsqueeze(amax, -1), 1);
    switch (random_below(r, 7)) {
    case 0: return tensor_contiguous(amax);
    case 1: return tensor_div(blocks, spread);
    case 2: {
        Tensor scale = tensor_mul_const(tensor_unary(OP_RECIP, spread), 127);
        return tensor_cast(tensor_unary(OP_ROUND, tensor_mul(blocks, scale)), DT_I8);
    }
    case 3: return tensor_add(tensor_sum(blocks, -1), tensor_max(blocks, -1));
    case 4: {
        Tensor sums = tensor_add_const(tensor_abs(tensor_sum(blocks, 1)), 1);
        return tensor_div(blocks, tensor_unsqueeze(sums, 1));
    }
    case 5: return tensor_add(tensor_transpose(tensor_reshape(y, dims(rows, part, n)), 1, 2), blocks);
    default: return tensor_tanh(tensor_slice(blocks, 2, at, at + 1));
    }
}

// The same by halves, turned, in pairs, across rows.
static Tensor random_read_whole(RandomGraph *r, Tensor y) {
    int64_t rows = y->shape[0], width = y->shape[1];
    Tensor pairs = tensor_reshape(y, dims(rows, width / 2, 2));
    switch (random_below(r, 6)) {
    case 0: return tensor_add(y, tensor_flip(y, 1));
    case 1: return tensor_add(tensor_flip(y, 0), y);
    case 2: return tensor_add(tensor_concat(tensor_slice(y, 1, width / 2, width), tensor_slice(y, 1, 0, width / 2), 1), y);
    case 3: return tensor_sub(tensor_slice(pairs, 2, 0, 1), tensor_slice(pairs, 2, 1, 2));
    case 4: return tensor_sum(tensor_mul(y, y), random_below(r, 2));
    default: return tensor_add(tensor_max(y, 0), tensor_sum(y, 0));
    }
}

// The first or the last elements of each row only.
static Tensor random_read_some(RandomGraph *r, Tensor y, int64_t n) {
    int64_t width = y->shape[1], begin = random_chance(r, 70) ? 0 : width - n;
    return tensor_abs(tensor_slice(y, 1, begin, begin + n));
}

// [rows, width], each element dear where a kernel shall have several tiles; none larger than 1.
static Tensor random_dear(RandomGraph *r, int64_t rows, int64_t width) {
    int64_t depth = r->is_large ? 32 : 8;
    Tensor x = random_buffer(r, DT_F32, dims(rows, 1, depth), 1);
    Tensor w = tensor_cast(random_buffer(r, random_chance(r, 50) ? DT_F16 : DT_F32, dims(width, depth), 1), DT_F32);
    Tensor term = tensor_mul(x, w);
    for (int i = 0; r->is_large && i < 4; i++)
        term = tensor_unary(OP_SIN, term);
    return tensor_mul_const(tensor_sum(term, -1), 1 / (double)depth);
}

// A value whose kernel has several tiles, and its readers: what fuse joins tile by tile. Some values are two side by side.
static bool random_readers(RandomGraph *r) {
    static const int64_t widths[] = {32, 48, 64, 96, 96}, parts[] = {2, 4, 4, 8, 8, 16};
    int64_t rows = (r->is_large ? 2 : 1) + random_below(r, 4), width = widths[random_below(r, 5)];
    int64_t part = parts[random_below(r, 6)], before = 0;
    Tensor y = random_dear(r, rows, width);
    if (random_chance(r, 30)) {
        before = random_chance(r, 50) ? width / 2 : 2 * width;
        y = tensor_contiguous(tensor_concat(random_dear(r, rows, before), y, 1));
    }
    random_add(r, y, 1, false);
    // Often few readers that do not spoil each other's tiles: by blocks, then the first elements; or those alone.
    bool are_few = random_chance(r, 40);
    int n_readers = !are_few ? 2 + random_below(r, 3) : before ? 1 : 2;
    for (int i = 0; i < n_readers; i++) {
        int64_t own = are_few || random_chance(r, 70) ? part : parts[random_below(r, 6)];
        int64_t n = random_chance(r, 60) ? y->shape[1] / own : own;
        if (before && random_chance(r, 60))
            n = random_chance(r, 50) ? before : width;
        int way = random_below(r, 3);
        if (are_few)
            way = i == 0 && !before ? 0 : 2, n = before ? width : width / part;
        Tensor t = way == 0 ? random_read_blocks(r, y, own) :
                   way == 1 ? random_read_whole(r, y) : random_read_some(r, y, n);
        if (random_chance(r, 30))
            t = tensor_contiguous(t);
        if (r->is_large)
            random_want(r, t);
        if (dtype_is_float(t->dtype))
            random_add(r, t, (double)(6 * width), false);
    }
    return true;
}

// A length that a program loads: one for all, or one a row.
static Tensor random_length(RandomGraph *r, int64_t rows, int64_t n) {
    int64_t count = random_chance(r, 50) ? 1 : rows;
    int32_t *value = arena_new(graph_arena(r->g), (size_t)count * sizeof *value);
    for (int64_t i = 0; i < count; i++)
        value[i] = random_below(r, n + 1);
    int64_t id = r->buffers.make(r->buffers.context, value, (size_t)count * sizeof *value);
    Tensor t = tensor_buffer(r->g, id, DT_I32, 0, n, dims(count, 1));
    return random_chance(r, 30) ? tensor_add_const(t, 1) : t;
}

// A kept value that is read behind masks with a length that is data, as attention reads its scores; some readers read what
// lies behind the length, or all.
static bool random_lengths(RandomGraph *r) {
    static const int64_t counts[] = {8, 17, 32, 40, 64};
    int64_t rows = 1 + random_below(r, 4), n = counts[random_below(r, 5)], depth = 1 + random_below(r, 8);
    DType type = random_chance(r, 50) ? DT_F16 : DT_F32;
    Tensor q = random_buffer(r, DT_F32, dims(rows, 1, depth), 1);
    Tensor k = tensor_cast(random_buffer(r, type, dims(n, depth), 1), DT_F32);
    Tensor y = tensor_contiguous(tensor_sum(tensor_mul(q, k), -1)), zero = tensor_const(r->g, DT_F32, 0);
    Tensor length = random_length(r, rows, n), v = random_buffer(r, DT_F32, dims(n), 1), t, both = NULL;
    for (int i = 0; i < 2; i++) {
        Tensor mask = tensor_less(tensor_iota(r->g, n), length), part = tensor_where(mask, y, zero);
        switch (random_below(r, 8)) {
        case 0: case 1: t = tensor_sum(tensor_mul(part, v), -1); break;
        case 2: t = tensor_max2(tensor_max(tensor_where(mask, y, tensor_const(r->g, DT_F32, -INFINITY)), -1), zero); break;
        case 3: t = tensor_max(tensor_where(mask, tensor_unary(OP_NEG, tensor_abs(y)), zero), -1); break;
        case 4: t = tensor_sum(tensor_where(mask, tensor_tanh(y), v), -1); break;
        case 5: t = tensor_sum(tensor_where(mask, v, tensor_tanh(y)), -1); break;
        case 6: t = tensor_add(tensor_sum(part, -1), tensor_sum(y, -1)); break;
        default: t = tensor_sum(tensor_mul(tensor_softmax(y, mask), v), -1); break;
        }
        both = both ? tensor_add(both, t) : t;
        if (random_chance(r, 60))
            length = random_length(r, rows, n);
    }
    if (random_chance(r, 50))
        random_want(r, both);
    return random_add(r, both, (double)(4 * n * depth), false);
}

// Few elements, each dear enough that both halves of them get loops of their own, or that their readers compute them again.
static bool random_few(RandomGraph *r) {
    int64_t n = 1 + random_below(r, 4), m = 1 + random_below(r, 4), depth = 1 + random_below(r, 5);
    Tensor x = random_buffer(r, DT_F32, dims(n, depth), 1), y = random_buffer(r, DT_F32, dims(m, depth), 1);
    Tensor a = tensor_sum(tensor_unary(OP_SIN, x), -1), b = tensor_sum(tensor_unary(OP_EXP, y), -1);
    Tensor t = random_chance(r, 45) ? tensor_concat(a, b, 0) : a;
    double size = 3 * (double)depth;
    random_add(r, t, size, false);
    Tensor wide = tensor_expand(tensor_unsqueeze(t, 0), dims(2 + random_below(r, 3), t->shape[0]));
    Tensor places = random_buffer(r, DT_F32, tensor_dims(wide), 1);
    if (random_chance(r, 70))
        wide = tensor_pad(wide, 1, random_below(r, 3), 1);
    places = tensor_pad(places, 1, 0, wide->shape[1] - places->shape[1]);
    t = random_chance(r, 70) ? tensor_add(wide, places) : tensor_sum(tensor_mul(wide, places), -1);
    if (random_chance(r, 50))
        random_want(r, t);
    return random_add(r, t, 16 * size, false);
}

// Rows of a product into rows of a cache that data names, as keys are stored; then the cache is read.
static bool random_cache(RandomGraph *r) {
    int64_t rows = 1 + random_below(r, 8), width = 4 * (1 + random_below(r, 6)), depth = 16 * (1 + random_below(r, 3));
    int64_t spare = random_below(r, 4), all = rows + spare, turn = random_below(r, all);
    int32_t index[16];
    for (int64_t i = 0; i < rows; i++)
        index[i] = (int32_t)((i * (all % 2 ? 2 : 1) + turn) % all);
    int64_t id = r->buffers.make(r->buffers.context, index, (size_t)rows * sizeof *index);
    Tensor x = random_buffer(r, DT_F32, dims(rows, 1, depth), 1), w = random_buffer(r, DT_F32, dims(width, depth), 1);
    Tensor y = tensor_sum(tensor_mul(w, x), -1), cache = random_buffer(r, DT_F32, dims(all, width), 1);
    Tensor target = tensor_gather(cache, tensor_buffer(r->g, id, DT_I32, 0, all - 1, dims(rows)));
    Tensor t = tensor_assign(cache, target, y);
    random_add(r, random_chance(r, 50) ? tensor_sum(t, -1) : tensor_max(t, 0), (double)(depth * width), false);
    return random_add(r, t, (double)depth, false);
}

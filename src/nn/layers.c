// layers: see layers.h.
#include "nn/layers.h"

// Bytes of [count, rows, blocks]; axes of size 1 in front are dropped where want_axes is 3.
static Blocks weight_blocks(const Layers *l, const Weight *w, int want_axes) {
    int64_t blocks = w->cols / w->type->block_elements, n = w->count * w->rows * blocks, total;
    Dims d = want_axes == 3 ? dims(w->count * w->rows, blocks, w->type->block_bytes) : dims(w->count, w->rows, blocks, w->type->block_bytes);
    if (!w->is_planar) return blocks_of(tensor_buffer(l->graph, w->buffer, DT_U8, 0, 0, d));
    QuantPlane planes[QUANT_FIELDS_MAX];
    Blocks b = {.graph = l->graph, .n = quant_planes(w->type, n, planes, &total)};
    Tensor bytes = tensor_buffer(l->graph, w->buffer, DT_U8, 0, 0, dims(total));
    for (int i = 0; i < b.n; i++) {
        int64_t size = planes[i].end - planes[i].begin;
        d.at[d.n - 1] = size;
        b.field[i] = tensor_reshape(tensor_slice(bytes, 0, planes[i].offset, planes[i].offset + n * size), d);
        b.begin[i + 1] = planes[i].end;
    }
    return b;
}

// Those of the matrices, or rows, that ids choose.
static Blocks blocks_taken(Blocks b, Tensor ids) {
    for (int i = 0; i < b.n; i++) b.field[i] = tensor_gather(b.field[i], ids);
    return b;
}

static Tensor meaning_of(const Layers *l, const Weight *w, Blocks blocks) {
    return w->type->meaning(&l->tables, blocks);
}

// Largest |x| along the last axis. Of bits, not of numbers: those of floats without a sign are in the same order, and
// NaN lies above all of them, where MAX would pass it over and a rounded row would look healthy.
static Tensor largest_magnitude(Tensor x) {
    Tensor bits = tensor_binary_const(OP_AND, tensor_bitcast(x, DT_I32), 0x7FFFFFFF);
    return tensor_bitcast(tensor_max(bits, -1), DT_F32);
}

Rounded layers_round(Tensor x, int64_t block) {
    Tensor blocks = quant_split(x, dims(tensor_size(x, -1) / block, block));
    if (uop_is_poison(blocks)) return (Rounded){blocks, blocks};
    Tensor zero = tensor_const(x->graph, DT_F32, 0), most = tensor_const(x->graph, DT_F32, 127);
    Tensor s = tensor_contiguous(tensor_div(largest_magnitude(blocks), most)); // [.., k / block]
    Tensor inverse = tensor_where(tensor_less(zero, s), tensor_unary(OP_RECIP, s), zero);
    Tensor turned = tensor_unary(OP_ROUND, tensor_mul(blocks, tensor_unsqueeze(inverse, -1)));
    // −127 is never passed; the MAX lets bounds see it.
    Tensor p = tensor_binary_const(OP_MAX, tensor_cast(turned, DT_I8), -127);
    return (Rounded){p, s};
}

// Largest product of trailing unit axes that divides the activation block: within so many elements neither side's
// scale changes. *axes gets their number.
static int64_t shared_suffix(const QuantType *type, int *axes) {
    int64_t best = 1, product = 1;
    *axes = 0;
    for (int i = type->unit.n; i-- > 0;) {
        product *= type->unit.at[i];
        if (ACTIVATION_BLOCK % product) break;
        best = product, *axes = type->unit.n - i;
    }
    return best;
}

// The rows of x [m, ..] that an input names, side by side in memory.
static Tensor rows_taken(Tensor x, Tensor rows) { return rows ? tensor_contiguous(tensor_gather(x, rows)) : x; }

// x [.., k] as [.., 1, blocks, unit axes…], the 1 for the weight's rows; rounded where that pays.
static Tensor operand(const Layers *l, Input in, const QuantType *type) {
    Tensor x = in.x;
    if (uop_is_poison(x)) return x;
    int64_t k = tensor_size(x, -1);
    Dims tail = {.n = 2 + type->unit.n, .at = {1, k / type->block_elements}};
    for (int i = 0; i < type->unit.n; i++) tail.at[2 + i] = type->unit.at[i];
    if (l->is_exact || quant_is_plain(type) || k % ACTIVATION_BLOCK) return quant_split(rows_taken(x, in.rows), tail);
    // Row by row, whatever axes stand before: products that read the same rows in different shapes share their rounding.
    Dims shape = tensor_dims(x), rounded;
    Rounded r = layers_round(tensor_reshape(x, dims(tensor_count(x) / k, k)), ACTIVATION_BLOCK);
    shape.at[shape.n - 1] = k / ACTIVATION_BLOCK, rounded = shape, rounded.at[rounded.n++] = ACTIVATION_BLOCK;
    Tensor p = tensor_reshape(tensor_contiguous(r.p), rounded), s = tensor_reshape(r.s, shape);
    p = quant_split(quant_join(tensor_cast(rows_taken(p, in.rows), DT_F32), 2), tail);
    s = rows_taken(s, in.rows);
    int axes;
    int64_t suffix = shared_suffix(type, &axes);
    if (suffix < ACTIVATION_BLOCK) {
        Dims wide = tensor_dims(s);
        wide.at[wide.n++] = ACTIVATION_BLOCK / suffix;
        s = quant_join(tensor_expand(tensor_unsqueeze(s, -1), wide), 2);
    }
    for (int i = 0; i < axes; i++) tail.at[tail.n - 1 - i] = 1;
    return tensor_mul(p, quant_split(s, tail));
}

// Σ over blocks and unit axes of w [.., rows, blocks, unit…] · x [.., 1, blocks, unit…], then the input's scale.
static Tensor product(const Layers *l, Tensor w, Input in, const QuantType *type) {
    Dims axes = {.n = 1 + type->unit.n};
    for (int i = 0; i < axes.n; i++) axes.at[i] = i - axes.n;
    Tensor terms = tensor_mul(w, operand(l, in, type));
    if (uop_is_poison(terms)) return terms;
    Tensor sum = tensor_reduce(MONOID_SUM, SUM_CHAINS, terms, axes);
    if (!in.scale) return sum;
    return tensor_mul(sum, in.rows ? tensor_gather(in.scale, in.rows) : in.scale);
}

// ---------------------------------------------------------------- inputs

Input input_of(Tensor x) { return (Input){.x = x}; }

// Squares are added block by block: a block is what one tile of the producer holds, so that no pass over x waits for all.
static Tensor sum_of_squares(Tensor x) {
    int64_t k = tensor_size(x, -1);
    Tensor squares = tensor_mul(x, x);
    if (k % ACTIVATION_BLOCK || uop_is_poison(squares)) return tensor_sum(squares, -1);
    Tensor blocks = quant_split(squares, dims(k / ACTIVATION_BLOCK, ACTIVATION_BLOCK));
    return tensor_sum(tensor_contiguous(tensor_sum(blocks, -1)), -1);
}

static Tensor inverse_rms(Tensor x, double eps) {
    Tensor sum = tensor_unsqueeze(sum_of_squares(x), -1);
    Tensor mean = tensor_mul_const(sum, 1.0 / (double)tensor_size(x, -1));
    return tensor_unary(OP_RECIP, tensor_unary(OP_SQRT, tensor_add_const(mean, eps)));
}

Input input_normed(Tensor x, Tensor weight, double eps) {
    if (uop_is_poison(x)) return input_of(x);
    return (Input){tensor_mul(x, weight), inverse_rms(x, eps), NULL};
}

Input input_unsqueeze(Input in, int axis) {
    return (Input){tensor_unsqueeze(in.x, axis),
                   in.scale ? tensor_unsqueeze(in.scale, axis) : NULL, NULL};
}

Input input_rows(Input in, Tensor rows) { return (Input){in.x, in.scale, rows}; }

// ---------------------------------------------------------------- layers

Tensor layers_vector(const Layers *l, const Weight *w) {
    return tensor_reshape(meaning_of(l, w, weight_blocks(l, w, 3)), dims(w->cols));
}

Tensor layers_embedding(const Layers *l, const Weight *w, Tensor ids) {
    Blocks rows = blocks_taken(weight_blocks(l, w, 3), ids);
    return tensor_reshape(meaning_of(l, w, rows), dims(tensor_count(ids), w->cols));
}

Tensor layers_linear(const Layers *l, Input in, const Weight *w) {
    return product(l, meaning_of(l, w, weight_blocks(l, w, 3)), in, w->type);
}

Tensor layers_linear_part(const Layers *l, Input in, const Weight *w, int64_t heads, int64_t first, int64_t end) {
    Blocks b = weight_blocks(l, w, 3);
    for (int i = 0; i < b.n; i++) {
        Dims d = tensor_dims(b.field[i]);
        Tensor by_head = tensor_reshape(b.field[i], dims(heads, w->rows / heads, d.at[1], d.at[2]));
        b.field[i] = tensor_slice(by_head, 1, first, end);
    }
    return tensor_contiguous(product(l, meaning_of(l, w, b), input_unsqueeze(in, 1), w->type));
}

Tensor layers_heads(const Layers *l, Input in, const Weight *w) {
    return product(l, meaning_of(l, w, weight_blocks(l, w, 4)), in, w->type);
}

Tensor layers_chosen(const Layers *l, Input in, const Weight *w, Tensor ids) {
    return product(l, meaning_of(l, w, blocks_taken(weight_blocks(l, w, 4), ids)), in, w->type);
}

Tensor layers_grouped(const Layers *l, Input in, const Weight *w, Tensor ids) {
    Tensor matrices = meaning_of(l, w, blocks_taken(weight_blocks(l, w, 4), ids));
    return product(l, tensor_unsqueeze(matrices, 1), in, w->type);
}

Tensor layers_norm(Tensor x, Tensor weight, double eps) {
    Input in = input_normed(x, weight, eps);
    return in.scale ? tensor_mul(in.x, in.scale) : in.x;
}

Tensor layers_activate(Tensor x, Activation activation) {
    return activation == ACTIVATION_GELU ? tensor_gelu_tanh(x) : tensor_silu(x);
}

Tensor layers_soft_cap(Tensor x, double cap) {
    return cap == 0 ? x : tensor_mul_const(tensor_tanh(tensor_mul_const(x, 1.0 / cap)), cap);
}

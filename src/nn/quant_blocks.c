// quant_blocks: what the types without super-blocks mean: plain floats, and blocks of 32 under one scale.
// A block of 32 keeps element j (j < 16) in the low and element j + 16 in the high half of byte j. d: its scale,
// m: its minimum; both leave the integer part alone, so that a product can sum integers first.
// Example: Q4_0, bytes {d: f16, 16 × two nibbles n}: value = d · (n − 8).
#include "nn/quant.h"

Tensor meaning_float(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    return tensor_bitcast(blocks.field[0], DT_F32);
}

Tensor meaning_half(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    return tensor_cast(tensor_bitcast(blocks.field[0], DT_F16), DT_F32);
}

Tensor meaning_brain(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    return tensor_cast(tensor_bitcast(blocks.field[0], DT_BF16), DT_F32);
}

// 16 bytes → 32 nibbles, low halves first: u8 [..., 32], 0..15.
static Tensor nibbles(Tensor bytes) {
    Tensor two = tensor_unsqueeze(bytes, -2); // [..., 1, 16]
    return quant_join(quant_field(two, quant_ladder(bytes->graph, DT_U8, 2, 4, 1), 4), 2);
}

// Bit j of a block's 4 bytes at offset at, moved to bit 4: u8 [..., 32], 0 or 16.
static Tensor fifth_bits(Blocks blocks, int at) {
    Tensor bytes = tensor_unsqueeze(quant_part(blocks, at, at + 4), -1); // [..., 4, 1]
    Tensor bit = quant_field(bytes, quant_ladder(blocks.graph, DT_U8, 8, 1, 0), 1);
    return tensor_binary_const(OP_SHL, quant_join(bit, 2), 4);
}

static Tensor as_float(Tensor x) { return tensor_cast(x, DT_F32); }

// d · (q − offset)
static Tensor centred(Blocks blocks, Tensor q, double offset) {
    return tensor_mul(quant_half(blocks, 0, 1), tensor_add_const(as_float(q), -offset));
}

// d · q + m, m behind d
static Tensor with_minimum(Blocks blocks, Tensor q) {
    return tensor_add(tensor_mul(quant_half(blocks, 0, 1), as_float(q)), quant_half(blocks, 2, 1));
}

Tensor meaning_q4_0(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    return centred(blocks, nibbles(quant_part(blocks, 2, 18)), 8);
}

Tensor meaning_q4_1(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    return with_minimum(blocks, nibbles(quant_part(blocks, 4, 20)));
}

Tensor meaning_q5_0(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    Tensor q = tensor_binary(OP_OR, nibbles(quant_part(blocks, 6, 22)), fifth_bits(blocks, 2));
    return centred(blocks, q, 16);
}

Tensor meaning_q5_1(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    Tensor q = tensor_binary(OP_OR, nibbles(quant_part(blocks, 8, 24)), fifth_bits(blocks, 4));
    return with_minimum(blocks, q);
}

Tensor meaning_q8_0(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    return tensor_mul(quant_half(blocks, 0, 1),
                      as_float(tensor_bitcast(quant_part(blocks, 2, 34), DT_I8)));
}

static Tensor look_up(const QuantTables *tables, const int8_t *book, int n, Tensor codes) {
    Tensor table = tables->table(tables->context, codes->graph, book, n);
    return tensor_gather(table, tensor_cast(codes, DT_I32));
}

// The non-linear 4-bit book of IQ4_NL and IQ4_XS.
static const int8_t iq4_book[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of a 4-bit float (E2M1): 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
static const int8_t e2m1_book[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

Tensor meaning_iq4_nl(const QuantTables *tables, Blocks blocks) {
    Tensor q = look_up(tables, iq4_book, 16, nibbles(quant_part(blocks, 2, 18)));
    return tensor_mul(quant_half(blocks, 0, 1), as_float(q));
}

// Scale: 2^(e − 127), halved because the book holds doubled values. Its bits: exponent e − 1, and for e < 2, where
// that is not a normal number, the fraction's bits 22 (e = 1) and 21 (e = 0).
Tensor meaning_mxfp4(const QuantTables *tables, Blocks blocks) {
    Tensor e = tensor_cast(quant_part(blocks, 0, 1), DT_U32); // [..., 1]
    Tensor normal = tensor_binary_const(
        OP_SHL, tensor_add_const(tensor_binary_const(OP_MAX, e, 1), -1), 23);
    Tensor tiny = tensor_binary(OP_SHL, tensor_const(e->graph, DT_U32, 0x00200000),
                                tensor_binary_const(OP_MIN, e, 1));
    Tensor bits = tensor_where(tensor_binary_const(OP_LT, e, 2), tiny, normal);
    Tensor q = look_up(tables, e2m1_book, 16, nibbles(quant_part(blocks, 1, 17)));
    return tensor_mul(tensor_bitcast(bits, DT_F32), as_float(q));
}

// 256 elements in 8 sub-blocks s of 32: bytes {d: f16, high bits of scales: u16, low nibbles of scales: 4, nibbles:
// 128}; value = d · (scale[s] − 32) · book[n].
Tensor meaning_iq4_xs(const QuantTables *tables, Blocks blocks) {
    Graph *g = blocks.graph;
    Tensor low = quant_field(tensor_unsqueeze(quant_part(blocks, 4, 8), -1),
                             quant_ladder(g, DT_U8, 2, 4, 0), 4);
    Tensor word = tensor_bitcast(quant_part(blocks, 2, 4), DT_U16);      // [..., 1]
    Tensor high = quant_field(word, quant_ladder(g, DT_U16, 8, 2, 0), 2); // [..., 8]
    Tensor scale = tensor_binary(OP_OR, quant_join(low, 2),
                                 tensor_binary_const(OP_SHL, tensor_cast(high, DT_U8), 4));
    Tensor centre = as_float(tensor_add_const(tensor_cast(scale, DT_I32), -32));
    Tensor q = look_up(tables, iq4_book, 16,
                       nibbles(quant_split(quant_part(blocks, 8, 136), dims(8, 16))));
    Tensor sub_scale = tensor_mul(quant_half(blocks, 0, 1), centre); // [..., 8]
    return tensor_mul(tensor_unsqueeze(sub_scale, -1), as_float(q)); // [..., 8, 32]
}

// quant_super: what the K-quants mean: 256 elements under one or two f16 scales, with small integer scales (and
// minima) for groups of 16 or 32.
// Two-bit fields share bytes: element (n, j, h, l) of [2, 4, 2, 16] lies in byte 32n + 16h + l at bit 2j; its group
// is 8n + 2j + h. Four-bit fields: element (c, t, l) of [4, 2, 32] lies in byte 32c + l at bit 4t.
// Example: Q4_K: value = d · scale[s] · n − dmin · minimum[s], s the sub-block of 32.
#include "nn/quant.h"

static Tensor as_float(Tensor x) { return tensor_cast(x, DT_F32); }
static Tensor either(Tensor a, Tensor b) { return tensor_binary(OP_OR, a, b); }
static Tensor mask(Tensor x, int bits) { return tensor_binary_const(OP_AND, x, bits); }
static Tensor up(Tensor x, int places) { return tensor_binary_const(OP_SHL, x, places); }
static Tensor down(Tensor x, int places) { return tensor_binary_const(OP_SHR, x, places); }

// 64 bytes → 256 fields of two bits: u8 [..., 2, 4, 2, 16], 0..3.
static Tensor quarters(Tensor bytes) {
    Tensor apart = quant_split(bytes, dims(2, 1, 2, 16));
    return quant_field(apart, quant_ladder(bytes->graph, DT_U8, 4, 2, 2), 2);
}

// A value a group of 16, [..., 16], placed at [..., 2, 4, 2, 1].
static Tensor by_group(Tensor x) { return quant_split(x, dims(2, 4, 2, 1)); }

// {16 × (scale | minimum << 4), 64 bytes of two-bit q, d, dmin}: d · scale · q − dmin · minimum.
Tensor meaning_q2_k(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    Tensor packed = quant_part(blocks, 0, 16);
    Tensor scale = by_group(as_float(mask(packed, 15))),
           minimum = by_group(as_float(down(packed, 4)));
    Tensor q = as_float(quarters(quant_part(blocks, 16, 80)));
    Tensor low = tensor_mul(quant_half(blocks, 82, 4), minimum);
    return tensor_sub(tensor_mul(tensor_mul(quant_half(blocks, 80, 4), scale), q), low);
}

// The sixteen 6-bit scales of Q3_K in 12 bytes: low nibbles of groups 0-7 and 8-15 share bytes 0-7, the upper two
// bits of groups g, g + 4, g + 8, g + 12 share byte 8 + g. u8 [..., 16], 0..63.
static Tensor scales_q3_k(Tensor bytes) {
    Graph *g = bytes->graph;
    Tensor low = quant_field(tensor_unsqueeze(quant_bytes(bytes, 0, 8), -2),
                             quant_ladder(g, DT_U8, 2, 4, 1), 4);
    Tensor high = quant_field(tensor_unsqueeze(quant_bytes(bytes, 8, 12), -2),
                              quant_ladder(g, DT_U8, 4, 2, 1), 2);
    return either(quant_join(low, 2), up(quant_join(high, 2), 4));
}

// {32 bytes of high bits, 64 bytes of two-bit fields, 12 bytes of scales, d}: d · (scale − 32) · (q − 4), where the
// high bit of element (n, j, h, l) is bit 4n + j of byte 16h + l.
Tensor meaning_q3_k(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    Graph *g = blocks.graph;
    Tensor places = tensor_reshape(quant_ladder(g, DT_U8, 8, 1, 0), dims(2, 4, 1, 1));
    Tensor high = quant_field(quant_split(quant_part(blocks, 0, 32), dims(1, 1, 2, 16)), places,
                              1);
    Tensor q = either(quarters(quant_part(blocks, 32, 96)), up(high, 2));
    Tensor scale = tensor_add_const(as_float(by_group(scales_q3_k(quant_part(blocks, 96, 108)))),
                                    -32);
    return tensor_mul(tensor_mul(quant_half(blocks, 108, 4), scale),
                      tensor_add_const(as_float(q), -4));
}

// The eight 6-bit scales and minima of Q4_K and Q5_K in 12 bytes b: sub-blocks 0-3 have theirs in b[s] and b[4 + s];
// of sub-blocks 4-7 b[4 + s] holds the low nibbles (scale | minimum << 4), the top two bits lie on top of the
// former ones. first: 0 for scales, 4 for minima. u8 [..., 8, 1], 0..63.
static Tensor six_bits(Tensor bytes, int first) {
    Tensor own = quant_bytes(bytes, first, first + 4), shared = quant_bytes(bytes, 8, 12);
    Tensor upper = either(first ? down(shared, 4) : mask(shared, 15), up(down(own, 6), 4));
    Tensor is_lower = tensor_binary_const(OP_EQ, quant_ladder(bytes->graph, DT_U8, 2, 1, 1),
                                          0); // [2, 1]
    Tensor both = tensor_where(is_lower, tensor_unsqueeze(mask(own, 63), -2),
                               tensor_unsqueeze(upper, -2));
    return quant_split(quant_join(both, 2), dims(8, 1));
}

// 128 bytes → 256 nibbles: u8 [..., 8, 32], 0..15.
static Tensor nibbles_of_pairs(Tensor bytes) {
    Tensor q = quant_field(quant_split(bytes, dims(4, 1, 32)),
                           quant_ladder(bytes->graph, DT_U8, 2, 4, 1), 4);
    return quant_split(quant_join(q, 3), dims(8, 32));
}

// d · scale · q − dmin · minimum, for {d, dmin, 12 bytes of scales, …} and q u8 [..., 8, 32].
static Tensor scaled_with_minimum(Blocks blocks, Tensor q) {
    Tensor packed = quant_part(blocks, 4, 16);
    Tensor scale = as_float(six_bits(packed, 0)), minimum = as_float(six_bits(packed, 4));
    Tensor low = tensor_mul(quant_half(blocks, 2, 2), minimum);
    return tensor_sub(tensor_mul(tensor_mul(quant_half(blocks, 0, 2), scale), as_float(q)), low);
}

Tensor meaning_q4_k(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    return scaled_with_minimum(blocks, nibbles_of_pairs(quant_part(blocks, 16, 144)));
}

// As Q4_K, with a fifth bit: of element (s, l) bit s of byte l among the 32 behind the scales.
Tensor meaning_q5_k(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    Tensor bytes = tensor_unsqueeze(quant_part(blocks, 16, 48), -2); // [..., 1, 32]
    Tensor fifth = up(quant_field(bytes, quant_ladder(blocks.graph, DT_U8, 8, 1, 1), 1), 4);
    return scaled_with_minimum(blocks,
                               either(nibbles_of_pairs(quant_part(blocks, 48, 176)), fifth));
}

// {128 bytes of low nibbles, 64 bytes of upper two bits, 16 scales: i8, d}: d · scale · (q − 32). Low nibbles of
// element (n, 2a + b, x) of [2, 4, 32] lie in byte 64n + 32b + x at bit 4a.
Tensor meaning_q6_k(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    Tensor low = quant_split(quant_part(blocks, 0, 128), dims(2, 1, 2, 32));
    low = quant_field(low, quant_ladder(blocks.graph, DT_U8, 2, 4, 2), 4); // [..., 2, 2, 2, 32]
    low = quant_split(quant_join(low, 4), dims(2, 4, 2, 16));
    Tensor q = either(low, up(quarters(quant_part(blocks, 128, 192)), 4));
    Tensor scale = by_group(as_float(tensor_bitcast(quant_part(blocks, 192, 208), DT_I8)));
    return tensor_mul(tensor_mul(quant_half(blocks, 208, 4), scale),
                      tensor_add_const(as_float(q), -32));
}

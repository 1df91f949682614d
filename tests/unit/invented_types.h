// invented_types: two block types that no engine has, each one row, to show that nothing but quant knows types by name.
//   I5: 48 weights of 5 bits, groups of 16 with 4-bit scales and minima under two f16 (two levels): 40 bytes
//       {d, dmin: f16; 3 × (scale | minimum << 4); a zero byte; 32 bytes: low nibbles of 48 in 24, high bits in 6, 2 spare}
//       value = d · scale[g] · q − dmin · minimum[g]
//   I3: 64 weights of a 3-bit code book under one f16 scale: 26 bytes {d; 24 bytes: 8 codes in 3 bytes, low bits first}
//       value = d · book[code]
// Blocks come from random bytes; every f16 field must then be made finite.
#pragma once
#include "nn/quant.h"

enum { INVENTED_I5 = 7001, INVENTED_I3 = 7002 };

static inline Tensor invented_group(Tensor bytes, int shift, int bits) {
    Tensor field = quant_field(bytes, quant_ladder(bytes->graph, DT_U8, 1, 0, 0), 8);
    field = tensor_binary_const(OP_AND, tensor_binary_const(OP_SHR, field, shift), (1 << bits) - 1);
    return quant_split(tensor_cast(field, DT_F32), dims(3, 1));
}

static inline Tensor meaning_i5(const QuantTables *tables, Blocks blocks) {
    (void)tables;
    Graph *g = blocks.graph;
    Tensor packed = quant_part(blocks, 4, 7);
    Tensor low = quant_field(tensor_unsqueeze(quant_part(blocks, 8, 32), -2),
                             quant_ladder(g, DT_U8, 2, 4, 1), 4);
    Tensor high = quant_field(tensor_unsqueeze(quant_part(blocks, 32, 38), -1),
                              quant_ladder(g, DT_U8, 8, 1, 0), 1);
    Tensor q = tensor_binary(OP_OR, quant_join(low, 2),
                             tensor_binary_const(OP_SHL, quant_join(high, 2), 4));
    q = quant_split(tensor_cast(q, DT_F32), dims(3, 16));
    Tensor scale = tensor_mul(quant_half(blocks, 0, 2), invented_group(packed, 0, 4));
    Tensor low_end = tensor_mul(quant_half(blocks, 2, 2), invented_group(packed, 4, 4));
    return tensor_sub(tensor_mul(scale, q), low_end);
}

static const int8_t invented_book[8] = {-101, -60, -31, -9, 7, 28, 64, 117};

// Code c of 8 lies at bit 3c of a little-endian group of 3 bytes.
static inline Tensor meaning_i3(const QuantTables *tables, Blocks blocks) {
    Graph *g = blocks.graph;
    Tensor bytes = tensor_cast(quant_split(quant_part(blocks, 2, 26), dims(8, 3)), DT_U32);
    Tensor word = tensor_slice(bytes, -1, 0, 1);
    word = tensor_binary(OP_OR, word,
                         tensor_binary_const(OP_SHL, tensor_slice(bytes, -1, 1, 2), 8));
    word = tensor_binary(OP_OR, word,
                         tensor_binary_const(OP_SHL, tensor_slice(bytes, -1, 2, 3), 16));
    Tensor code = tensor_cast(quant_field(word, quant_ladder(g, DT_U32, 8, 3, 0), 3), DT_I32);
    Tensor book = tables->table(tables->context, g, invented_book, 8);
    Tensor q = quant_split(quant_join(tensor_gather(book, code), 2), dims(2, 32));
    return tensor_mul(quant_half(blocks, 0, 2), tensor_cast(q, DT_F32));
}

static inline bool invented_register(void) {
    QuantType i5 = {INVENTED_I5, "I5", 48, 40, dims(3, 16), meaning_i5, DT_F16, 2, {0, 2}, 4, {0, 4, 8, 32}};
    QuantType i3 = {INVENTED_I3, "I3", 64, 26, dims(2, 32), meaning_i3, DT_F16, 1, {0}, 2, {0, 2}};
    return quant_register(&i5) && quant_register(&i3);
}

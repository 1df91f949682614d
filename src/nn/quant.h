// quant: what the bytes of each GGUF block type mean, stated once, as a graph.
// In: the bytes of blocks, u8 [..., block bytes] or field by field. Out: f32 [..., unit axes…], built from movement, bit and arithmetic
// ops only, so that the compiler sees integers under casts and scales outside of them.
// Invariant: a type is a row (quant.def, or quant_register); no other file knows one by name.
// Example: const QuantType *t = quant_find(2); w = t->meaning(tables, blocks_of(bytes));   // Q4_0: [.., 18] → [.., 32]
// Formats: the reference dequantisation of the gguf package; each equals it on random valid blocks.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tensor/tensor.h"

// Where a meaning's constant tables live. table gives an i8 [n] tensor in g that holds values and states their
// bounds; values is static memory, so its address names the table.
typedef struct QuantTables {
    Tensor (*table)(void *context, Graph *g, const int8_t *values, int n);
    void *context;
} QuantTables;

enum { QUANT_FIELDS_MAX = 4 };

// Blocks as a graph sees them: bytes begin[i] … begin[i + 1] − 1 of each are field[i], u8 [..., so many].
typedef struct Blocks { Graph *graph; int n, begin[QUANT_FIELDS_MAX + 1]; Tensor field[QUANT_FIELDS_MAX]; } Blocks;
Blocks blocks_of(Tensor bytes);                            // u8 [..., block bytes], as they lie in a file

typedef struct QuantType {
    uint32_t number;           // as in the file
    const char *name;
    int block_elements, block_bytes;
    Dims unit;                 // product = block_elements
    Tensor (*meaning)(const QuantTables *tables, Blocks blocks);
    DType scale_type;          // DT_VOID: the block holds no floats to check
    int n_scales, scale_at[4]; // byte offsets in the block
    int n_fields, field_at[QUANT_FIELDS_MAX];   // where fields begin, 0 first; n_fields 0: one field
} QuantType;

const QuantType *quant_find(uint32_t number);              // NULL where unknown
int quant_count(void);
const QuantType *quant_at(int i);                          // 0 ≤ i < quant_count()
// Adds a row, or replaces the one with its number; *type is copied. False where the table is full or the row
// contradicts itself (unit axes, offsets).
bool quant_register(const QuantType *type);
// Values are floats as they stand: activations stay f32 in a product with such a type.
bool quant_is_plain(const QuantType *type);
// Bytes of a row of k elements; 0 where k is not a multiple of the block.
int64_t quant_row_bytes(const QuantType *type, int64_t k);

// Weights in planes: each field of all blocks side by side, in a place of its own, so that a device that reads only at
// multiples of what it reads can take 16 bytes of a field at once, and neighbouring threads neighbouring bytes.
typedef struct QuantPlane { int begin, end; int64_t offset; } QuantPlane;   // of bytes begin … end − 1 of each block
// planes[QUANT_FIELDS_MAX] gets those of so many blocks; *total their bytes with what lies between. Returns their number.
int quant_planes(const QuantType *type, int64_t n_blocks, QuantPlane *planes, int64_t *total);
// The bytes of field `plane` of n blocks, side by side: (end − begin) · n bytes at out.
void quant_plane_gather(const QuantType *type, const QuantPlane *plane, const uint8_t *blocks, int64_t n, uint8_t *out);
// Index of the first block with a NaN or infinite scale among nbytes; -1: none.
int64_t quant_find_bad_block(const QuantType *type, const uint8_t *blocks, uint64_t nbytes);

// ---- pieces that meanings are made of (tests build types of their own with them)
// Bytes [begin, end) of each block, all of one field: u8 [..., end − begin].
Tensor quant_part(Blocks blocks, int begin, int end);
// Elements [begin, end) of the last axis.
Tensor quant_bytes(Tensor bytes, int begin, int end);
// The f16 at byte offset at of each block, as f32 [..., 1 × n_axes].
Tensor quant_half(Blocks blocks, int at, int n_axes);
// The last axis of x split into the axes of tail (whose product it is).
Tensor quant_split(Tensor x, Dims tail);
// The last n axes of x joined into one.
Tensor quant_join(Tensor x, int n);
// [n, 1 × behind] of dtype: 0, step, 2·step …: places of fields in a byte, for instance.
Tensor quant_ladder(Graph *g, DType dtype, int n, int step, int behind);
// x >> places & (2^bits − 1), broadcast.
Tensor quant_field(Tensor x, Tensor places, int bits);

// Meanings of the rows of quant.def.
#define QUANT(number, name, elements, nbytes, unit, meaning, scale, at, fields) \
    Tensor meaning(const QuantTables *tables, Blocks blocks);
#include "nn/quant.def"
#undef QUANT

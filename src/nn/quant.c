// quant: the table of block types and the pieces that their meanings share. See quant.h.
#include "nn/quant.h"

#include <string.h>

enum { QUANT_ROWS_MAX = 64 };

#define UNIT(...) dims(__VA_ARGS__)
#define AT(...) \
    (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), { __VA_ARGS__ }
static QuantType rows[QUANT_ROWS_MAX] = {
#define FIELDS AT
#define QUANT(number, name, elements, nbytes, unit, meaning, scale, at, fields) \
    {number, #name, elements, nbytes, unit, meaning, DT_##scale, at, fields},
#include "nn/quant.def"
#undef QUANT
};
#define QUANT(...) +1
static int n_rows = 0
#include "nn/quant.def"
    ;
#undef QUANT
#undef UNIT
#undef FIELDS
#undef AT

const QuantType *quant_find(uint32_t number) {
    for (int i = 0; i < n_rows; i++)
        if (rows[i].number == number) return &rows[i];
    return NULL;
}

int quant_count(void) { return n_rows; }
const QuantType *quant_at(int i) { return &rows[i]; }

static bool row_is_consistent(const QuantType *t) {
    int64_t elements = 1;
    for (int i = 0; i < t->unit.n; i++) elements *= t->unit.at[i];
    if (!t->meaning || t->block_bytes < 1 || elements != t->block_elements) return false;
    for (int i = 0; i < t->n_scales && t->scale_type != DT_VOID; i++)
        if (t->scale_at[i] < 0 || t->scale_at[i] + dtype_bytes(t->scale_type) > t->block_bytes)
            return false;
    for (int i = 0; i < t->n_fields; i++)
        if (i ? t->field_at[i] <= t->field_at[i - 1] || t->field_at[i] >= t->block_bytes : t->field_at[i] != 0) return false;
    return t->n_fields <= QUANT_FIELDS_MAX;
}

bool quant_register(const QuantType *type) {
    if (!row_is_consistent(type)) return false;
    for (int i = 0; i < n_rows; i++)
        if (rows[i].number == type->number) {
            rows[i] = *type;
            return true;
        }
    if (n_rows == QUANT_ROWS_MAX) return false;
    rows[n_rows++] = *type;
    return true;
}

bool quant_is_plain(const QuantType *type) { return type->block_elements == 1; }

int64_t quant_row_bytes(const QuantType *type, int64_t k) {
    return k % type->block_elements ? 0 : k / type->block_elements * type->block_bytes;
}

// All ones in the exponent: NaN or infinity.
static bool float_is_finite(DType dtype, const uint8_t *at) {
    uint16_t half;
    uint32_t word;
    switch (dtype) {
    case DT_F16: memcpy(&half, at, sizeof half); return (half & 0x7C00) != 0x7C00;
    case DT_BF16: memcpy(&half, at, sizeof half); return (half & 0x7F80) != 0x7F80;
    case DT_F32: memcpy(&word, at, sizeof word); return (word & 0x7F800000) != 0x7F800000;
    default: return true;
    }
}

int64_t quant_find_bad_block(const QuantType *type, const uint8_t *blocks, uint64_t nbytes) {
    uint64_t n = nbytes / (uint64_t)type->block_bytes;
    for (int s = 0; s < type->n_scales && type->scale_type != DT_VOID; s++) {
        const uint8_t *at = blocks + type->scale_at[s];
        for (uint64_t i = 0; i < n; i++, at += type->block_bytes)
            if (!float_is_finite(type->scale_type, at)) return (int64_t)i;
    }
    return -1;
}

// ---------------------------------------------------------------- planes

enum { PLANE_ALIGNMENT = 64 };

int quant_planes(const QuantType *type, int64_t n_blocks, QuantPlane *planes, int64_t *total) {
    int n = type->n_fields ? type->n_fields : 1;
    *total = 0;
    for (int i = 0; i < n; i++) {
        int begin = type->n_fields ? type->field_at[i] : 0, end = i + 1 < n ? type->field_at[i + 1] : type->block_bytes;
        planes[i] = (QuantPlane){begin, end, *total};
        *total += (n_blocks * (end - begin) + PLANE_ALIGNMENT - 1) / PLANE_ALIGNMENT * PLANE_ALIGNMENT;
    }
    return n;
}

static inline void gather(const uint8_t *from, size_t step, size_t nbytes, int64_t n, uint8_t *out) {
    for (int64_t i = 0; i < n; i++, from += step, out += nbytes) memcpy(out, from, nbytes);
}

// Widths that the compiler knows need no call for each block.
void quant_plane_gather(const QuantType *type, const QuantPlane *plane, const uint8_t *blocks, int64_t n, uint8_t *out) {
    size_t nbytes = (size_t)(plane->end - plane->begin), step = (size_t)type->block_bytes;
    const uint8_t *from = blocks + plane->begin;
    switch (nbytes) {
    case 2: gather(from, step, 2, n, out); return;
    case 4: gather(from, step, 4, n, out); return;
    case 16: gather(from, step, 16, n, out); return;
    case 32: gather(from, step, 32, n, out); return;
    default: gather(from, step, nbytes, n, out);
    }
}

// ---------------------------------------------------------------- pieces

Blocks blocks_of(Tensor bytes) {
    Blocks blocks = {.graph = bytes->graph, .n = 1, .field = {bytes}};
    blocks.begin[1] = uop_is_poison(bytes) ? 0 : (int)tensor_size(bytes, -1);
    return blocks;
}

Tensor quant_part(Blocks blocks, int begin, int end) {
    int i = 0;
    if (uop_is_poison(blocks.field[0])) return blocks.field[0];
    while (i < blocks.n - 1 && begin >= blocks.begin[i + 1]) i++;
    if (end > blocks.begin[i + 1]) return uop_poison(blocks.graph, "quant: bytes %d to %d cross a field's edge", begin, end);
    return quant_bytes(blocks.field[i], begin - blocks.begin[i], end - blocks.begin[i]);
}

Tensor quant_bytes(Tensor bytes, int begin, int end) {
    return tensor_slice(bytes, -1, begin, end);
}

Tensor quant_split(Tensor x, Dims tail) {
    if (uop_is_poison(x)) return x;
    Dims d = tensor_dims(x);
    d.n--;
    if (d.n + tail.n > MAX_AXES) return uop_poison(x->graph, "quant: more than %d axes", MAX_AXES);
    for (int i = 0; i < tail.n; i++) d.at[d.n++] = tail.at[i];
    return tensor_reshape(x, d);
}

Tensor quant_join(Tensor x, int n) {
    if (uop_is_poison(x)) return x;
    Dims d = tensor_dims(x);
    for (int i = 1; i < n; i++, d.n--) d.at[d.n - 2] *= d.at[d.n - 1];
    return tensor_reshape(x, d);
}

Tensor quant_half(Blocks blocks, int at, int n_axes) {
    Dims ones = {.n = n_axes};
    for (int i = 0; i < n_axes; i++) ones.at[i] = 1;
    return quant_split(tensor_cast(tensor_bitcast(quant_part(blocks, at, at + 2), DT_F16), DT_F32),
                       ones);
}

Tensor quant_ladder(Graph *g, DType dtype, int n, int step, int behind) {
    Dims d = {.n = behind + 1};
    for (int i = 0; i < d.n; i++) d.at[i] = 1;
    d.at[0] = n;
    return tensor_reshape(tensor_cast(tensor_mul_const(tensor_iota(g, n), step), dtype), d);
}

Tensor quant_field(Tensor x, Tensor places, int bits) {
    return tensor_binary_const(OP_AND, tensor_binary(OP_SHR, x, places), (double)((1 << bits) - 1));
}

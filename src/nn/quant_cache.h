// quant_cache: the formats in which a cache may keep rows of f32 values.
// In: a name. Out: a row: which planes such a cache has, how values become their cells, how cells are read again.
// Invariant: no other file knows a format by name; sizes and graphs follow from the row.
// Example: kv_row_bytes(kv_format_find("q8_0"), (KvShape){576, 64}): 576 bytes and 18 scales of 2.
#pragma once
#include "tensor/tensor.h"

enum { KV_PLANES_MAX = 2 };

// The first plane has a cell for each value, the second one for each block of values.
typedef struct KvFormat {
    const char *name;
    int64_t block_most, block_least;   // values under one scale; below the least the cache would be no smaller than in f16
    int n_planes;
    struct { DType dtype; int64_t lo, hi; } planes[KV_PLANES_MAX];   // stated bounds of integers
    void (*pack)(Tensor x, int64_t block, Tensor *cells);            // f32 [.., width] → [.., cells a row] for each plane
    Tensor (*unpack)(const Tensor *cells, int64_t block);            // and back
} KvFormat;

// One row of a cache: so many values; no scale covers values of two parts (heads, for instance).
typedef struct KvShape { int64_t width, part; } KvShape;

const KvFormat *kv_format_find(const char *name);                    // NULL where unknown
const char *kv_format_names(Arena *arena);                           // "f16, f32 or q8_0"
// Values under one scale: the largest power of two, up to the format's, that divides a part.
int64_t kv_block(const KvFormat *format, KvShape shape);
int64_t kv_plane_bytes(const KvFormat *format, KvShape shape, int plane);   // of one row
int64_t kv_row_bytes(const KvFormat *format, KvShape shape);                // in all planes
int64_t kv_plane_cells(const KvFormat *format, KvShape shape, int plane);   // of one row

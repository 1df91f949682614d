// gguf_bytes: model files made byte by byte, for tests.
// In: header, keys, tensors, in the order of the format. Out: bytes in a builder on its own arena.
// Example: Bytes f = bytes_new(); put_header(&f, 3, 0, 1); put_key_u32(&f, "k", 7);
#pragma once
#include <stdint.h>
#include <string.h>
#include "nn/gguf.h"

typedef struct Bytes { Arena *arena; TextBuilder b; } Bytes;

static inline Bytes bytes_new(void) {
    Arena *arena = arena_create();
    return (Bytes){arena, builder(arena)};
}

static inline void put(Bytes *f, const void *at, size_t n) { builder_append(&f->b, at, n); }
static inline void put_u32(Bytes *f, uint32_t v) { put(f, &v, sizeof v); }
static inline void put_u64(Bytes *f, uint64_t v) { put(f, &v, sizeof v); }

static inline void put_view(Bytes *f, Text text) {
    put_u64(f, text.len);
    put(f, text.at, text.len);
}

static inline void put_text(Bytes *f, const char *text) { put_view(f, text_of(text)); }

static inline void put_header(Bytes *f, uint32_t version, uint64_t n_tensors, uint64_t n_keys) {
    put(f, "GGUF", 4);
    put_u32(f, version);
    put_u64(f, n_tensors);
    put_u64(f, n_keys);
}

static inline void put_key_scalar(Bytes *f, const char *key, GgufType type, const void *value,
                                  size_t n) {
    put_text(f, key);
    put_u32(f, type);
    put(f, value, n);
}

static inline void put_key_u32(Bytes *f, const char *key, uint32_t value) {
    put_key_scalar(f, key, GGUF_U32, &value, sizeof value);
}

static inline void put_key_text(Bytes *f, const char *key, const char *value) {
    put_text(f, key);
    put_u32(f, GGUF_TEXT);
    put_text(f, value);
}

// The head of an array; its items follow.
static inline void put_key_array(Bytes *f, const char *key, GgufType item_type, uint64_t count) {
    put_text(f, key);
    put_u32(f, GGUF_ARRAY);
    put_u32(f, item_type);
    put_u64(f, count);
}

static inline void put_tensor(Bytes *f, const char *name, uint32_t n_dims, const uint64_t *ne,
                              uint32_t type, uint64_t offset) {
    put_text(f, name);
    put_u32(f, n_dims);
    for (uint32_t d = 0; d < n_dims; d++) put_u64(f, ne[d]);
    put_u32(f, type);
    put_u64(f, offset);
}

static inline void put_padding(Bytes *f, size_t alignment) {
    while (f->b.len % alignment) builder_char(&f->b, 0);
}

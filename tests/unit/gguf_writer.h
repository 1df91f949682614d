// gguf_writer: GGUF files in memory for tests: keys, and tensors of zeros (or of given bytes).
// Example: GgufWriter w = writer_new(); writer_u32(&w, "llama.block_count", 2); writer_tensor(&w, "x", 0, 2, 4, 8, 1, NULL);
//          size_t n; uint8_t *bytes = writer_finish(&w, &n);   // readable 4,096 bytes behind its end; free it
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nn/quant.h"

typedef struct GgufWriter {
    uint8_t *keys, *infos, *data;
    size_t n_keys, n_infos, n_data;
    uint64_t keys_made, tensors_made;
} GgufWriter;

static inline GgufWriter writer_new(void) { return (GgufWriter){0}; }

static inline void writer_put(uint8_t **at, size_t *n, const void *from, size_t nbytes) {
    *at = realloc(*at, *n + nbytes + 4096);
    if (from)
        memcpy(*at + *n, from, nbytes);
    else
        memset(*at + *n, 0, nbytes);
    *n += nbytes;
}

static inline void writer_text(uint8_t **at, size_t *n, const char *text) {
    uint64_t length = strlen(text);
    writer_put(at, n, &length, 8);
    writer_put(at, n, text, length);
}

static inline void writer_key(GgufWriter *w, const char *key, uint32_t type) {
    writer_text(&w->keys, &w->n_keys, key);
    writer_put(&w->keys, &w->n_keys, &type, 4);
    w->keys_made++;
}

static inline void writer_u32(GgufWriter *w, const char *key, uint32_t value) {
    writer_key(w, key, 4);
    writer_put(&w->keys, &w->n_keys, &value, 4);
}

static inline void writer_f32(GgufWriter *w, const char *key, float value) {
    writer_key(w, key, 6);
    writer_put(&w->keys, &w->n_keys, &value, 4);
}

static inline void writer_string(GgufWriter *w, const char *key, const char *value) {
    writer_key(w, key, 8);
    writer_text(&w->keys, &w->n_keys, value);
}

// ne0 is the fastest dimension; sizes of 1 at the end are left out. data: NULL for zeros.
static inline void writer_tensor(GgufWriter *w, const char *name, uint32_t type, uint64_t ne0,
                                 uint64_t ne1, uint64_t ne2, const void *data) {
    const QuantType *t = quant_find(type);
    uint64_t ne[3] = {ne0, ne1, ne2}, offset = w->n_data;
    uint32_t n_dims = ne2 > 1 ? 3 : ne1 > 1 ? 2 : 1;
    size_t nbytes = (size_t)(ne1 * ne2) * (size_t)quant_row_bytes(t, (int64_t)ne0);
    writer_text(&w->infos, &w->n_infos, name);
    writer_put(&w->infos, &w->n_infos, &n_dims, 4);
    writer_put(&w->infos, &w->n_infos, ne, n_dims * 8);
    writer_put(&w->infos, &w->n_infos, &type, 4);
    writer_put(&w->infos, &w->n_infos, &offset, 8);
    writer_put(&w->data, &w->n_data, data, nbytes);
    writer_put(&w->data, &w->n_data, NULL, (32 - nbytes % 32) % 32);
    w->tensors_made++;
}

static inline uint8_t *writer_finish(GgufWriter *w, size_t *nbytes) {
    uint8_t *out = NULL;
    uint32_t version = 3;
    *nbytes = 0;
    writer_put(&out, nbytes, "GGUF", 4);
    writer_put(&out, nbytes, &version, 4);
    writer_put(&out, nbytes, &w->tensors_made, 8);
    writer_put(&out, nbytes, &w->keys_made, 8);
    writer_put(&out, nbytes, w->keys, w->n_keys);
    writer_put(&out, nbytes, w->infos, w->n_infos);
    writer_put(&out, nbytes, NULL, (32 - *nbytes % 32) % 32);
    writer_put(&out, nbytes, w->data, w->n_data);
    free(w->keys), free(w->infos), free(w->data);
    *w = (GgufWriter){0};
    return out;
}

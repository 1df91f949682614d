// fuzz_gguf: any bytes as a model file. What opens is read to its last value and last data byte.
// In: bytes. Out: nothing; a sanitizer or abort speaks. Seeds: small GGUF files.
// Invariant: what does not open says why, in valid UTF-8.
// Example: make fuzz T=60
#include <stdlib.h>
#include <string.h>
#include "nn/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink; // so that no read is optimised away

static void read_value(const Gguf *g, const char *key, const GgufValue *v) {
    int64_t i;
    float f;
    bool b;
    Text t;
    sink += (uint64_t)gguf_i64(g, key, &i) + (uint64_t)gguf_f32(g, key, &f) + (uint64_t)gguf_bool(g, key, &b);
    if (gguf_text(g, key, &t))
        for (size_t k = 0; k < t.len; k++) sink += (uint8_t)t.at[k];
    for (uint64_t k = 0; v->type == GGUF_ARRAY && k < v->count; k++) {
        sink += (uint64_t)gguf_array_i64(v, k);
        if (v->item_type == GGUF_TEXT && v->texts[k].len)
            sink += (uint8_t)v->texts[k].at[v->texts[k].len - 1];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Gguf g;
    Error err;
    uint8_t *copy = malloc(size ? size : 1); // exactly sized, so that a read past the end is seen
    if (size) memcpy(copy, data, size);
    if (gguf_open_memory(&g, "fuzz.gguf", copy, size, &err)) {
        for (size_t i = 0; i < g.keys.len; i++)
            read_value(
                &g, text_cstr(g.arena, (Text){g.keys.entries[i].key, g.keys.entries[i].key_bytes}),
                g.keys.entries[i].value);
        for (size_t i = 0; i < g.tensors.len; i++) {
            const GgufTensor *t = g.tensors.entries[i].value;
            if (t->nbytes) sink += t->data[0] + t->data[t->nbytes - 1];
        }
        gguf_close(&g);
    } else if (err.code == LATHE_OK || !utf8_is_valid(text_of(err.text))) {
        abort();
    }
    free(copy);
    return 0;
}

// fuzz_tokenizer: any bytes as a model file with a vocabulary, and the same bytes as its text.
// In: bytes. Out: nothing; a sanitizer or abort speaks. Seeds: small GGUF files with BPE and
// SentencePiece vocabularies, some with text behind their end.
// Invariant: ids lie in the vocabulary; a second call, in segments, gives the same; the stream of
// the pieces is valid UTF-8 and equals the whole.
// Example: make fuzz T=60
#include <stdlib.h>
#include <string.h>
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_stream(const Tokenizer *t, Arena *arena, const TokenIds *ids) {
    StreamDecoder d = {0};
    TextBuilder out = builder(arena);
    for (size_t i = 0; i < ids->len; i++) {
        if (ids->at[i] < 0 || ids->at[i] >= tokenizer_vocabulary_size(t)) abort();
        stream_decoder_push(&d, tokenizer_decode_piece(t, ids->at[i]), &out);
    }
    stream_decoder_flush(&d, &out);
    Text whole = utf8_clean(arena, tokenizer_decode(t, arena, ids->at, ids->len));
    if (!utf8_is_valid(builder_view(&out)) || !text_equal(builder_view(&out), whole)) abort();
}

static void check_text(const Tokenizer *t, Text text, bool parse_special) {
    Arena *arena = arena_create();
    TokenIds ids = {0}, again = {0};
    Error err;
    size_t half = text.len / 2;
    const TextSegment parts[] = {{{text.at, half}, parse_special},
                                 {{text.at + half, text.len - half}, parse_special}};
    bool is_done = tokenizer_encode(t, arena, text, parse_special, &ids, &err);
    if (is_done != tokenizer_encode_segments(t, arena, parts, 2, &again, &err)) abort();
    if (is_done) {
        if (ids.len != again.len || (ids.len && memcmp(ids.at, again.at, ids.len * sizeof *ids.at)))
            abort();
        check_stream(t, arena, &ids);
    }
    arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Gguf g;
    Error err;
    Tokenizer *t;
    uint8_t *copy = malloc(size ? size : 1);
    if (size) memcpy(copy, data, size);
    if (gguf_open_memory(&g, "fuzz.gguf", copy, size, &err)) {
        if (tokenizer_create(&t, &g, &err)) {
            check_text(t, (Text){(const char *)copy, size}, false);
            check_text(t, (Text){(const char *)copy, size}, true);
            tokenizer_destroy(t);
        }
        gguf_close(&g);
    }
    free(copy);
    return 0;
}

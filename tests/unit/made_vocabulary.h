// made_vocabulary: model files that hold a small vocabulary and nothing else, for tests.
// In: tokens and merges. Out: bytes of a GGUF file, on an arena of their own.
// Example: Bytes f = bpe_file(tokens, 2, merges, 1, "gpt-2"); has the bytes as 0..255, tokens as
// 256, 257
#pragma once
#include "unit/gguf_bytes.h"

typedef struct Token {
    const char *text;
    int kind;
    float score;
} Token;

// The character that spells a byte in a byte-level vocabulary.
static inline Text byte_symbol(int byte, char out[4]) {
    int32_t c = byte;
    if (byte <= 0x20) c = 0x100 + byte;
    else if (byte >= 0x7F && byte <= 0xA0) c = 0x100 + 0x21 + byte - 0x7F;
    else if (byte == 0xAD) c = 0x143;
    return (Text){out, utf8_encode(c, out)};
}

// A file with the 256 bytes as tokens 0..255, then these tokens; merges are "left right".
static inline Bytes bpe_file(const Token *tokens, size_t n_tokens, const char *const *merges,
                             size_t n_merges, const char *pre) {
    Bytes f = bytes_new();
    char symbol[4];
    put_header(&f, 3, 0, 5);
    put_key_text(&f, "tokenizer.ggml.model", "gpt2");
    put_key_text(&f, "tokenizer.ggml.pre", pre);
    put_key_array(&f, "tokenizer.ggml.tokens", GGUF_TEXT, 256 + n_tokens);
    for (int b = 0; b < 256; b++) put_view(&f, byte_symbol(b, symbol));
    for (size_t i = 0; i < n_tokens; i++) put_text(&f, tokens[i].text);
    put_key_array(&f, "tokenizer.ggml.token_type", GGUF_I32, 256 + n_tokens);
    for (int b = 0; b < 256; b++) put_u32(&f, 1);
    for (size_t i = 0; i < n_tokens; i++) put_u32(&f, (uint32_t)tokens[i].kind);
    put_key_array(&f, "tokenizer.ggml.merges", GGUF_TEXT, n_merges);
    for (size_t i = 0; i < n_merges; i++) put_text(&f, merges[i]);
    return f;
}

static inline Bytes spm_file(const Token *tokens, size_t n_tokens, bool has_scores) {
    Bytes f = bytes_new();
    put_header(&f, 3, 0, has_scores ? 4 : 3);
    put_key_text(&f, "tokenizer.ggml.model", "llama");
    put_key_array(&f, "tokenizer.ggml.tokens", GGUF_TEXT, n_tokens);
    for (size_t i = 0; i < n_tokens; i++) put_text(&f, tokens[i].text);
    put_key_array(&f, "tokenizer.ggml.token_type", GGUF_I32, n_tokens);
    for (size_t i = 0; i < n_tokens; i++) put_u32(&f, (uint32_t)tokens[i].kind);
    if (!has_scores) return f;
    put_key_array(&f, "tokenizer.ggml.scores", GGUF_F32, n_tokens);
    for (size_t i = 0; i < n_tokens; i++) put(&f, &tokens[i].score, 4);
    return f;
}

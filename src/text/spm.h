// spm: SentencePiece BPE (llama, gemma): no words; neighbours that form a token merge, best first.
// In: a vocabulary with scores (tokenizer.ggml.model llama) and a stretch of text. Out: ids.
// Invariant: a space is spelled U+2581; what is no token becomes byte tokens <0x00> to <0xFF>.
// Example: " of" → "▁of" → ▁ o f → the id of "▁of"
#pragma once
#include "text/encoding.h"
#include "text/vocabulary.h"

typedef struct Spm {
    const Vocabulary *vocabulary;
    float *scores;               // [n_tokens]
    int32_t byte_ids[256];       // -1 where the vocabulary lacks the byte
    int32_t unknown;             // stands for such bytes; -1 for none
} Spm;

// Errors: LATHE_BAD_FILE (no scores, or one that is no number), LATHE_NO_MEMORY.
bool spm_create(Spm *spm, Arena *arena, const Vocabulary *v, Error *err) MUST_CHECK;
// with_space: the text is preceded by a space that it does not have.
bool spm_encode(const Spm *spm, Encoding *e, Text text, bool with_space);
// The bytes of a token's text, written to out, which has room for text.len bytes; their count.
size_t spm_spell(Text text, TokenKind kind, char *out);

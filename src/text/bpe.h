// bpe: byte-level BPE, as GPT-2 made it: text is cut into words, a word's bytes are symbols, and
// pairs of symbols are merged in the order of the file's list of merges.
// In: a vocabulary (tokenizer.ggml.model gpt2) and a stretch of text. Out: ids.
// Invariant: a byte is spelled as one printable character (0x20 as U+0120, and so on).
// Example: " low" → "Ġlow" → Ġ l o w → the id of "Ġlow", where the merges lead there
#pragma once
#include "text/encoding.h"
#include "text/pretokenizer.h"
#include "text/vocabulary.h"

// Characters that spell bytes: Latin-1, and 68 more for bytes that cannot be printed.
enum { SPELLINGS = 256 + 68 };

typedef struct Bpe {
    const Vocabulary *vocabulary;
    Pretokenizer *pretokenizer;
    PairTable merges;            // (left id, right id) → rank
    int32_t *merged;             // [rank] → id
    int32_t byte_ids[256];       // -1 where the vocabulary lacks the byte
    int16_t byte_of[SPELLINGS];  // code point → byte, -1 where it spells none
    int32_t unknown;             // stands for such bytes; -1 for none
} Bpe;

// pre: the name of a pre-tokenizer. Reads tokenizer.ggml.merges. Errors: LATHE_BAD_FILE, LATHE_UNSUPPORTED,
// LATHE_NO_MEMORY.
bool bpe_create(Bpe *bpe, Arena *arena, const Vocabulary *v, Text pre, const Gguf *g, Error *err) MUST_CHECK;
void bpe_destroy(Bpe *bpe);
bool bpe_encode(const Bpe *bpe, Encoding *e, Text text);
// The bytes of a token's text, written to out, which has room for text.len bytes; their count.
size_t bpe_spell(const Bpe *bpe, Text text, char *out);

// vocabulary: the tokens of a model file: texts, kinds, scores, and an index from text to id.
// In: an opened Gguf. Out: lookups by id and by text; the search for special tokens inside text.
// Invariant: arrays of the file agree in length; every id returned is in 0..n_tokens-1.
// Example: vocabulary_find(&v, text_of("<|user|>")) == 4087
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "nn/gguf.h"
#include "text/pair_table.h"

typedef enum TokenKind {         // numbers of the format (tokenizer.ggml.token_type)
    TOKEN_UNDEFINED, TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER_DEFINED, TOKEN_UNUSED,
    TOKEN_BYTE, TOKEN_KIND_COUNT
} TokenKind;

// Id where special token text ends a text; what it needs to count.
typedef struct SpecialMatch { int32_t id; size_t nbytes; } SpecialMatch;

typedef struct VocabularySlot { uint32_t hash, id_plus_1; } VocabularySlot;

typedef struct Vocabulary {
    Arena *arena;
    const Text *texts;           // [n_tokens], in the file
    uint8_t *kinds;              // [n_tokens], TokenKind
    const GgufValue *scores;     // NULL where the file has none
    int32_t n_tokens;
    size_t longest;              // bytes of the longest text
    VocabularySlot *slots;
    size_t slot_mask;
    PairTable tree;              // (node, byte) → node: special tokens' texts as a prefix tree
    int32_t *tree_ids;           // [node], the token that ends here, -1 for none
    bool begins_special[256];
} Vocabulary;

// Reads tokens, kinds and scores. Errors: LATHE_BAD_FILE, LATHE_NO_MEMORY.
bool vocabulary_read(Vocabulary *v, Arena *arena, const Gguf *g, Error *err) MUST_CHECK;
// Builds the prefix tree of control, unknown and user-defined tokens; call it when the kinds are
// settled. spaces: texts hold U+2581 for a space, and text holds spaces.
bool vocabulary_index_specials(Vocabulary *v, bool spaces, Error *err) MUST_CHECK;

int32_t vocabulary_find(const Vocabulary *v, Text text); // -1 where absent; of equals the lowest
// A token that stands for markup: parsed only in text that may hold markup. These are control and
// unknown tokens, and user-defined ones in brackets ("</think>", "[INST]") that are no HTML tags
// ("<table>").
bool vocabulary_is_markup(const Vocabulary *v, int32_t id);
// The longest special token at the start of text; markup counts only where it ends within
// markup_bytes. -1 for none.
SpecialMatch vocabulary_match_special(const Vocabulary *v, Text text, size_t markup_bytes);

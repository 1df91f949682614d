// token_order: the tokens of a vocabulary by their bytes, and the masks over them that answers have needed so far.
// In: a tokenizer. Out: a trie in preorder, so that all that begin with the same bytes lie side by side and can be passed
// over at once; masks by a key that says what they depend on.
// Invariant: tokens and trie never change; masks belong to one thread, the one that draws. Their memory has a bound: of the
// four places that a key may have, the one used longest ago is taken.
// Example: tokens "a", "ab", "b" → nodes a (1 token, ends behind ab), ab, b
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "text/tokenizer.h"

enum { TOKEN_BYTES_MAX = 1024 };

typedef struct TokenNode {
    uint8_t byte;
    uint16_t depth;            // bytes up to and with this one
    uint32_t end;              // the first node behind all that begin like this one
    uint32_t first;            // of ids: the tokens that end here, up to the next node's first
} TokenNode;

typedef struct MaskKey { uint64_t a, b; } MaskKey;

typedef struct TokenOrder TokenOrder;
struct TokenOrder {
    Arena *arena;
    const Tokenizer *tokenizer;
    int32_t vocabulary;
    int32_t *ids;              // by their bytes
    TokenNode *nodes;          // [n + 1]: behind the last one stands an end
    size_t n, longest;         // bytes of the longest token
    size_t mask_bytes;         // of a mask of bits
    struct MaskShelf *shelf;
};

// shown: special tokens that are text all the same (markers of calls); others are never part of a constrained answer.
TokenOrder *token_order_create(const Tokenizer *tokenizer, const Text *shown, size_t n_shown);
void token_order_destroy(TokenOrder *order);             // NULL is allowed

// The bits of this key's mask until the next token_order_keep, and what was said of them; NULL: there is none.
const uint8_t *token_order_recall(const TokenOrder *order, MaskKey key, int *is);
void token_order_keep(const TokenOrder *order, MaskKey key, const uint8_t *bits, int is);
// bytes: [vocabulary], 1 where a bit is set, else 0.
void token_order_spread(const TokenOrder *order, const uint8_t *bits, uint8_t *bytes);

// encoding: what one call of tokenizer_encode works with: its ids, scratch memory, and error.
// In: ids, one by one. Out: a list that grows on the caller's arena.
// Invariant: scratch dies with the call; running out of memory is an Error, not an abort.
// Example: TRY(encoding_emit(e, 42));
#pragma once
#include "text/merge.h"
#include "text/tokenizer.h"

typedef struct Encoding {
    Arena *arena;                // of the ids
    TokenIds *ids;
    Arena *scratch;
    Merger merger;
    TextBuilder word;            // room for a respelled word
    Error *err;
} Encoding;

bool encoding_emit(Encoding *e, int32_t id);
bool encoding_no_memory(Encoding *e, size_t nbytes);             // sets the error, returns false
bool encoding_no_token(Encoding *e, uint8_t byte);               // sets the error, returns false

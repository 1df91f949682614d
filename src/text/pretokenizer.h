// pretokenizer: cuts text into the words that merges never cross, as tokenizer.ggml.pre says.
// In: text, bytes of any kind. Out: pieces, in order, which together are the text.
// Invariant: every byte lies in exactly one piece; bytes that are not UTF-8 are their own pieces.
// Example: llama-bpe: "It's 2024!" → "It" "'s" " " "202" "4" "!"
#pragma once
#include <stdbool.h>
#include "base/error.h"
#include "base/text.h"

typedef struct Pretokenizer Pretokenizer;

// Called for each piece; returning false ends the split, with the callback's error.
typedef bool (*PieceFunction)(void *context, Text piece, Error *err);

// name: a row of pretokenizer.def. An unknown one is LATHE_UNSUPPORTED, with its name and the known
// ones.
bool pretokenizer_create(Pretokenizer **out, Text name, Error *err) MUST_CHECK;
void pretokenizer_destroy(Pretokenizer *p);                     // NULL is allowed
bool pretokenizer_takes_whole_words(const Pretokenizer *p); // a piece that is a token is not merged
bool pretokenizer_adds_bos(const Pretokenizer *p);              // where the file does not say
// Time is linear in the text. Safe to call from several threads at once.
// Errors: LATHE_NO_MEMORY; LATHE_BAD_REQUEST where a regex gives up on the text.
bool pretokenizer_split(const Pretokenizer *p, Text text, PieceFunction piece, void *context,
                        Error *err) MUST_CHECK;

// tokenizer: text to token ids and back, as the model file's own metadata says.
// In: an opened Gguf, which must stay open as long as the Tokenizer. Out: ids; bytes.
// Invariant: every byte of a text is covered by exactly one token; ids lie in the vocabulary; BOS
// and EOS are never added here.
// Kinds: byte-level BPE (tokenizer.ggml.model gpt2) and SentencePiece (llama).
// Example: tokenizer_encode(t, arena, text_of("<|user|>\nHi"), true, &ids, err) → 4087 10 ...
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"
#include "nn/gguf.h"

typedef struct Tokenizer Tokenizer;

// A growable list (vec.h's layout) on the arena that encode was given.
typedef struct TokenIds { int32_t *at; size_t len, cap; } TokenIds;

// A stretch of a text. Where parse_special is false (what a user wrote), the text of special tokens
// stays text.
typedef struct TextSegment { Text text; bool parse_special; } TextSegment;

// Errors: LATHE_BAD_FILE (no or damaged vocabulary), LATHE_UNSUPPORTED (a tokenizer model or a
// pre-tokenizer that lathe does not know, by name), LATHE_NO_MEMORY.
bool tokenizer_create(Tokenizer **out, const Gguf *g, Error *err) MUST_CHECK;
void tokenizer_destroy(Tokenizer *t);                           // NULL is allowed

// Appends the ids of text to *ids (zero it first), which grows on arena. Any bytes are allowed.
// Time is linear in the text, times the logarithm of its longest word. Safe to call from several
// threads, each with its own arena.
// Errors: LATHE_BAD_REQUEST (more than 64 MiB), LATHE_UNSUPPORTED (a byte that the vocabulary
// cannot express), LATHE_NO_MEMORY; *ids is then as before.
bool tokenizer_encode(const Tokenizer *t, Arena *arena, Text text, bool parse_special,
                      TokenIds *ids, Error *err) MUST_CHECK;
// The same for segments that follow one another: words may cross their borders, as if they were one
// text, but special tokens count only where they lie in segments that parse them. So text without
// special tokens gets the ids that it would get in one piece.
bool tokenizer_encode_segments(const Tokenizer *t, Arena *arena, const TextSegment *segments,
                               size_t n_segments, TokenIds *ids, Error *err) MUST_CHECK;

// The bytes of a token, not always valid UTF-8 (see stream_decoder); special tokens give their
// text. Valid as long as t; empty for an id outside of the vocabulary.
Text tokenizer_decode_piece(const Tokenizer *t, int32_t id);
Text tokenizer_decode(const Tokenizer *t, Arena *arena, const int32_t *ids, size_t n_ids);

int32_t tokenizer_vocabulary_size(const Tokenizer *t);
// The id of a token by its text as the vocabulary spells it ("<|user|>"); -1 where absent.
int32_t tokenizer_find(const Tokenizer *t, const char *text);
bool tokenizer_is_special(const Tokenizer *t, int32_t id);  // control or unknown: not for show
bool tokenizer_is_end(const Tokenizer *t, int32_t id);      // generation stops at it
const int32_t *tokenizer_end_ids(const Tokenizer *t, size_t *count);

// Ids of the metadata, -1 where the model has none.
int32_t tokenizer_bos(const Tokenizer *t);
int32_t tokenizer_eos(const Tokenizer *t);
int32_t tokenizer_eot(const Tokenizer *t);                  // end of turn; else by its text
int32_t tokenizer_unknown(const Tokenizer *t);
bool tokenizer_adds_bos(const Tokenizer *t);                // a prompt begins with BOS
bool tokenizer_adds_eos(const Tokenizer *t);
bool tokenizer_adds_space_prefix(const Tokenizer *t);       // a space after a special token
const char *tokenizer_kind(const Tokenizer *t);             // "BPE" or "SentencePiece"
Text tokenizer_pre(const Tokenizer *t);                     // pre-tokenizer; "" where none

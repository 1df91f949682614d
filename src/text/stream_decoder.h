// stream_decoder: bytes of tokens, as they come, to valid UTF-8 that may be shown or sent at once.
// In: pieces of any bytes. Out: whole characters; invalid bytes become U+FFFD, one for each stretch
// that a reader of the whole text would replace by one.
// Invariant: what push and flush give, put together, is utf8_clean of all bytes, however cut.
// Example: push("\xF0\x9F\x98") → "", push("\xB8!") → "😸!", flush → ""
#pragma once
#include "base/text.h"

// Zero it to begin. Holds what was sent of an unfinished character.
typedef struct StreamDecoder { char held[4]; size_t n_held; } StreamDecoder;

// Appends the characters that are complete to out (which allocates only where it must grow).
void stream_decoder_push(StreamDecoder *d, Text bytes, TextBuilder *out);
// The end of the stream: an unfinished character becomes one U+FFFD. The decoder may be used again.
void stream_decoder_flush(StreamDecoder *d, TextBuilder *out);

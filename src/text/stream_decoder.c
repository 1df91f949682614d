// stream_decoder: keeps at most 3 bytes back, the beginning of a character whose end has not come.
// In: bytes. Out: valid UTF-8. Invariant: the held bytes are a beginning that some character has.
// Example: "C3" is held; "28" makes of it U+FFFD "("
#include "text/stream_decoder.h"
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD"

// One character from at, or the replacement of a stretch that is none; returns the bytes taken.
static size_t put_character(TextBuilder *out, const char *at, size_t len) {
    size_t used;
    if (utf8_decode(at, len, &used) < 0) builder_cstring(out, REPLACEMENT);
    else builder_append(out, at, used);
    return used;
}

// Completes the held character, byte by byte, until it is one or cannot become one.
static size_t push_held(StreamDecoder *d, Text bytes, TextBuilder *out) {
    size_t taken = 0;
    while (d->n_held && taken < bytes.len) {
        char joined[5];
        memcpy(joined, d->held, d->n_held);
        joined[d->n_held] = bytes.at[taken];
        if (utf8_incomplete_tail((Text){joined, d->n_held + 1}) == d->n_held + 1) {
            d->held[d->n_held++] = bytes.at[taken++];
            continue;
        }
        size_t used = put_character(out, joined, d->n_held + 1);
        taken += used > d->n_held; // else the byte belongs to what follows
        d->n_held = 0;
    }
    return taken;
}

void stream_decoder_push(StreamDecoder *d, Text bytes, TextBuilder *out) {
    size_t taken = push_held(d, bytes, out);
    Text rest = {bytes.at + taken, bytes.len - taken};
    if (rest.len == 0) return;
    size_t tail = utf8_incomplete_tail(rest);
    for (size_t i = 0; i < rest.len - tail;)
        i += put_character(out, rest.at + i, rest.len - tail - i);
    if (tail) memcpy(d->held, rest.at + rest.len - tail, tail);
    d->n_held = tail;
}

void stream_decoder_flush(StreamDecoder *d, TextBuilder *out) {
    if (d->n_held) builder_cstring(out, REPLACEMENT);
    d->n_held = 0;
}

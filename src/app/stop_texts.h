// stop_texts: ends an answer before any of a few texts, wherever token borders fall.
// In: pieces of text as they are generated. Out: the part that can no longer be the beginning of a stop text.
// Invariant: all parts put together are the answer up to the first stop text; each byte is given out once.
// Example: stops {"Alice:"}: "Hi Al" → "Hi ", "an" → "Alan", " Alice:" → " " and is_stopped
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/arena.h"
#include "base/text.h"

typedef struct StopTexts {
    Arena *arena;
    const Text *stops;
    size_t n_stops;
    TextBuilder held;               // what may be the beginning of a stop text
    bool is_stopped;
    size_t stopped_by;              // which of them
} StopTexts;

// stops are not copied; empty ones are ignored.
StopTexts stop_texts(Arena *arena, const Text *stops, size_t n_stops);
// The view is valid until the next call. After is_stopped it is empty.
Text stop_texts_feed(StopTexts *s, Text piece);
Text stop_texts_flush(StopTexts *s);    // the generation has ended: what was held back

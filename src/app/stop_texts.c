// stop_texts: the longest end of the text that begins a stop text is held back until it is clear what it becomes.
// In: pieces. Out: parts to print. Invariant: held never grows beyond the longest stop text and one piece.
// Example: see stop_texts.h
#include "app/stop_texts.h"

#include <string.h>

StopTexts stop_texts(Arena *arena, const Text *stops, size_t n_stops) {
    return (StopTexts){.arena = arena, .stops = stops, .n_stops = n_stops, .held = builder(arena)};
}

// Where the earliest stop text begins; text.len where there is none.
static size_t stop_find(StopTexts *s, Text text) {
    for (size_t at = 0; at < text.len; at++)
        for (size_t i = 0; i < s->n_stops; i++) {
            Text stop = s->stops[i];
            if (stop.len == 0 || stop.len > text.len - at || memcmp(text.at + at, stop.at, stop.len) != 0) continue;
            s->stopped_by = i;
            return at;
        }
    return text.len;
}

// Where an unfinished stop text may begin; text.len where none does.
static size_t beginning_find(const StopTexts *s, Text text) {
    for (size_t at = 0; at < text.len; at++)
        for (size_t i = 0; i < s->n_stops; i++) {
            Text stop = s->stops[i];
            size_t left = text.len - at;
            if (left < stop.len && memcmp(text.at + at, stop.at, left) == 0) return at;
        }
    return text.len;
}

Text stop_texts_feed(StopTexts *s, Text piece) {
    if (s->is_stopped) return (Text){"", 0};
    builder_text(&s->held, piece);
    Text all = text_copy(s->arena, builder_view(&s->held));
    size_t stop = stop_find(s, all);
    s->is_stopped = stop < all.len;
    size_t ready = s->is_stopped ? stop : beginning_find(s, all);
    s->held.len = 0;
    if (!s->is_stopped) builder_append(&s->held, all.at + ready, all.len - ready);
    return (Text){all.at, ready};
}

Text stop_texts_flush(StopTexts *s) {
    Text rest = s->is_stopped ? (Text){"", 0} : text_copy(s->arena, builder_view(&s->held));
    s->held.len = 0;
    return rest;
}

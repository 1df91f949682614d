// spm: a pair of neighbours is looked up by its bytes; its order is its score, made to sort.
// In: raw text. Out: ids, appended to the encoding.
// Invariant: only tokens that may come from text are found: never control, unknown or byte tokens,
// so that the text "<0x0A>" is not a newline.
// Example: of the pairs (▁ o) at score -300 and (o f) at -200, o f is merged first
#include "text/spm.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SPACE "\xE2\x96\x81"
enum { SPACE_BYTES = 3 };

// ---- reading

static bool read_scores(Spm *spm, Arena *arena, Error *err) {
    const Vocabulary *v = spm->vocabulary;
    if (!v->scores)
        return fail(
            err, LATHE_BAD_FILE,
            "the file has a SentencePiece vocabulary but no scores (tokenizer.ggml.scores): "
            "convert the model again");
    spm->scores = arena_alloc(arena, (size_t)v->n_tokens * sizeof *spm->scores);
    if (!spm->scores)
        return fail(err, LATHE_NO_MEMORY, "no memory for the scores of %d tokens", v->n_tokens);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        spm->scores[i] = gguf_array_f32(v->scores, (uint64_t)i);
        if (isnan(spm->scores[i]))
            return fail(err, LATHE_BAD_FILE, "the score of token %d is not a number: damaged file?",
                        i);
    }
    return true;
}

// The token of a byte: <0x41>, or else the byte as a text of its own.
static int32_t byte_id(const Vocabulary *v, int byte) {
    char name[8], text = (char)byte;
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte & 0xffu);
    int32_t id = vocabulary_find(v, text_of(name));
    return id >= 0 ? id : vocabulary_find(v, (Text){&text, 1});
}

bool spm_create(Spm *spm, Arena *arena, const Vocabulary *v, Error *err) {
    *spm = (Spm){.vocabulary = v, .unknown = -1};
    for (int b = 0; b < 256; b++) spm->byte_ids[b] = byte_id(v, b);
    return read_scores(spm, arena, err);
}

size_t spm_spell(Text text, TokenKind kind, char *out) {
    bool is_byte = kind == TOKEN_BYTE && text.len == 6 && hex_digit(text.at[3]) >= 0 &&
                   hex_digit(text.at[4]) >= 0;
    if (is_byte) {
        out[0] = (char)(hex_digit(text.at[3]) * 16 + hex_digit(text.at[4]));
        return 1;
    }
    size_t len = 0;
    for (size_t i = 0; i < text.len;) {
        bool is_space = text.len - i >= SPACE_BYTES && memcmp(text.at + i, SPACE, SPACE_BYTES) == 0;
        out[len++] = is_space ? ' ' : text.at[i];
        i += is_space ? SPACE_BYTES : 1;
    }
    return len;
}

// ---- encoding

typedef struct SpmCall {
    const Spm *spm;
    const char *text;
} SpmCall;

static int32_t token_of(const Spm *spm, Text text) {
    const Vocabulary *v = spm->vocabulary;
    int32_t id = vocabulary_find(v, text);
    bool is_text = id >= 0 && (v->kinds[id] == TOKEN_NORMAL || v->kinds[id] == TOKEN_USER_DEFINED ||
                               v->kinds[id] == TOKEN_UNDEFINED);
    return is_text ? id : -1;
}

// Floats as unsigned numbers in the opposite order: the highest score comes first.
static uint32_t order_of(float score) {
    uint32_t bits;
    score += 0.0f; // -0 counts as 0
    memcpy(&bits, &score, sizeof bits);
    uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~rising;
}

static bool find_pair(const void *context, const Symbol *left, const Symbol *right, uint32_t *order,
                      int32_t *id) {
    const SpmCall *call = context;
    *id = token_of(call->spm, (Text){call->text + left->at, left->len + right->len});
    if (*id < 0) return false;
    *order = order_of(call->spm->scores[*id]);
    return true;
}

// The text with spaces respelled, and one more in front if asked for.
static bool respell(Encoding *e, Text text, bool with_space, Text *out) {
    size_t n_spaces = with_space;
    for (size_t i = 0; i < text.len; i++) n_spaces += text.at[i] == ' ';
    char *at = arena_alloc(e->scratch, text.len + SPACE_BYTES * n_spaces + 1);
    if (!at) return encoding_no_memory(e, text.len);
    *out = (Text){at, 0};
    if (with_space) memcpy(at, SPACE, SPACE_BYTES), out->len = SPACE_BYTES;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == ' ') {
            memcpy(at + out->len, SPACE, SPACE_BYTES);
            out->len += SPACE_BYTES;
        } else {
            at[out->len++] = text.at[i];
        }
    }
    return true;
}

static bool emit_symbol(const Spm *spm, Encoding *e, Text symbol, int32_t id) {
    if (id >= 0) return encoding_emit(e, id);
    for (size_t i = 0; i < symbol.len; i++) {
        int32_t byte = spm->byte_ids[(uint8_t)symbol.at[i]];
        if (byte < 0 && spm->unknown < 0) return encoding_no_token(e, (uint8_t)symbol.at[i]);
        if (byte < 0) return encoding_emit(e, spm->unknown); // one for the whole character
        TRY(encoding_emit(e, byte));
    }
    return true;
}

bool spm_encode(const Spm *spm, Encoding *e, Text raw, bool with_space) {
    Merger *m = &e->merger;
    Text text = {0};
    if (raw.len == 0) return true;
    TRY(respell(e, raw, with_space, &text));
    if (!merger_begin(m, text.len)) return encoding_no_memory(e, text.len);
    for (size_t i = 0, used; i < text.len; i += used) {
        utf8_decode(text.at + i, text.len - i, &used);
        Text character = {text.at + i, used};
        merger_add(m, (uint32_t)i, (uint32_t)used, token_of(spm, character));
    }
    SpmCall call = {spm, text.at};
    if (!merger_run(m, find_pair, &call)) return encoding_no_memory(e, text.len);
    for (int32_t i = 0; i >= 0; i = m->symbols[i].next) {
        const Symbol *s = &m->symbols[i];
        TRY(emit_symbol(spm, e, (Text){text.at + s->at, s->len}, s->id));
    }
    return true;
}

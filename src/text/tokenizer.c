// tokenizer: reads what the metadata says of tokens, takes special tokens out of a text, and hands
// what lies between them to the kind of tokenizer that the model has.
// In: segments of text. Out: ids.
// Invariant: special tokens are found leftmost first, and of those the longest.
// Example: "<|user|>Hi" with parse_special → [4087] and bpe_encode("Hi"); without → bpe_encode(all)
#include "text/tokenizer.h"
#include <stdlib.h>
#include <string.h>
#include "text/bpe.h"
#include "text/spm.h"

enum { TEXT_BYTES_MAX = 64 << 20, END_IDS_MAX = 64 };

typedef enum ModelKind { MODEL_BPE, MODEL_SPM } ModelKind;

struct Tokenizer {
    Arena *arena;
    Vocabulary vocabulary;
    ModelKind kind;
    Bpe bpe;
    Spm spm;
    Text *pieces; // [n_tokens], bytes
    Text pre;
    int32_t bos, eos, eot, eom, unknown;
    bool adds_bos, adds_eos, adds_space_prefix;
    int32_t end_ids[END_IDS_MAX];
    size_t n_end_ids;
};

// ---- which kind

// Values of tokenizer.ggml.model.
static const struct ModelRow {
    const char *name, *title;
    bool is_supported;
    ModelKind kind;
} model_rows[] = {
    {"gpt2", "BPE", true, MODEL_BPE},        {"llama", "SentencePiece", true, MODEL_SPM},
    {"bert", "WordPiece", false, MODEL_BPE}, {"t5", "unigram", false, MODEL_BPE},
    {"rwkv", "RWKV", false, MODEL_BPE},      {"none", "none", false, MODEL_BPE},
    {"no_vocab", "none", false, MODEL_BPE},
};
enum { MODEL_ROW_COUNT = sizeof model_rows / sizeof *model_rows };

static bool read_model(Tokenizer *t, const Gguf *g, Error *err) {
    Text name;
    if (!gguf_text(g, "tokenizer.ggml.model", &name))
        return fail(
            err, LATHE_BAD_FILE,
            "the file does not say what kind of tokenizer it has (tokenizer.ggml.model): take a "
            "complete model file");
    for (size_t i = 0; i < MODEL_ROW_COUNT; i++) {
        if (!text_is(name, model_rows[i].name)) continue;
        t->kind = model_rows[i].kind;
        if (model_rows[i].is_supported) return true;
        return fail(
            err, LATHE_UNSUPPORTED,
            "tokenizer.ggml.model is '%s' (%s), which lathe does not have; it has gpt2 (BPE) and "
            "llama (SentencePiece)",
            model_rows[i].name, model_rows[i].title);
    }
    Text shown = utf8_clean(t->arena, (Text){name.at, name.len < 80 ? name.len : 80});
    return fail(
        err, LATHE_UNSUPPORTED,
        "tokenizer.ggml.model is '%.*s', a kind of tokenizer that lathe does not know; it has gpt2 "
        "(BPE) and llama (SentencePiece)",
        (int)shown.len, shown.at);
}

// ---- special ids and flags

static bool read_id(const Tokenizer *t, const Gguf *g, const char *key, int32_t fallback, int32_t *out,
                    Error *err) {
    int64_t id = fallback;
    TRY(gguf_optional_i64(g, key, &id, err)); // some files write 2^32 - 1 for "none"
    *out = id >= 0 && id < t->vocabulary.n_tokens ? (int32_t)id : -1;
    return true;
}

static bool read_ids(Tokenizer *t, const Gguf *g, Error *err) {
    bool is_spm = t->kind == MODEL_SPM; // whose first three ids are customary
    TRY(read_id(t, g, "tokenizer.ggml.unknown_token_id", is_spm ? 0 : -1, &t->unknown, err));
    TRY(read_id(t, g, "tokenizer.ggml.bos_token_id", is_spm ? 1 : -1, &t->bos, err));
    TRY(read_id(t, g, "tokenizer.ggml.eos_token_id", is_spm ? 2 : -1, &t->eos, err));
    TRY(read_id(t, g, "tokenizer.ggml.eot_token_id", -1, &t->eot, err));
    TRY(read_id(t, g, "tokenizer.ggml.eom_token_id", -1, &t->eom, err));
    t->spm.unknown = t->bpe.unknown = t->unknown;
    return true;
}

static bool read_flags(Tokenizer *t, const Gguf *g, Error *err) {
    t->adds_bos = t->kind == MODEL_SPM || pretokenizer_adds_bos(t->bpe.pretokenizer);
    t->adds_space_prefix = t->kind == MODEL_SPM;
    TRY(gguf_optional_bool(g, "tokenizer.ggml.add_bos_token", &t->adds_bos, err));
    TRY(gguf_optional_bool(g, "tokenizer.ggml.add_eos_token", &t->adds_eos, err));
    TRY(gguf_optional_bool(g, "tokenizer.ggml.add_space_prefix", &t->adds_space_prefix, err));
    t->adds_bos = t->adds_bos && t->bos >= 0;
    t->adds_eos = t->adds_eos && t->eos >= 0;
    return true;
}

// ---- the ends of an answer

typedef enum EndRole { END_TURN, END_ANSWER, END_CONTROL } EndRole;

static const struct EndRow {
    const char *text;
    EndRole role;
} end_rows[] = {
#define END_TOKEN(text, role) {text, END_##role},
#include "text/end_tokens.def"
};
static const struct EndExcept {
    const char *text, *other;
} end_excepts[] = {
#define END_UNLESS(text, other) {text, other},
#include "text/end_tokens.def"
};
enum {
    END_ROW_COUNT = sizeof end_rows / sizeof *end_rows,
    END_EXCEPT_COUNT = sizeof end_excepts / sizeof *end_excepts,
};

static bool is_excepted(const Tokenizer *t, const char *text) {
    for (size_t i = 0; i < END_EXCEPT_COUNT; i++)
        if (strcmp(text, end_excepts[i].text) == 0 && tokenizer_find(t, end_excepts[i].other) >= 0)
            return true;
    return false;
}

static void add_end(Tokenizer *t, int32_t id) {
    if (id >= 0 && !tokenizer_is_end(t, id) && t->n_end_ids < END_IDS_MAX)
        t->end_ids[t->n_end_ids++] = id;
}

static void find_ends(Tokenizer *t) {
    uint8_t *kinds = t->vocabulary.kinds;
    for (size_t i = 0; i < END_ROW_COUNT; i++) {
        int32_t id = tokenizer_find(t, end_rows[i].text);
        if (id < 0 || is_excepted(t, end_rows[i].text)) continue;
        if (end_rows[i].role == END_CONTROL && kinds[id] != TOKEN_CONTROL) continue;
        kinds[id] = TOKEN_CONTROL;
        if (t->eot < 0 && end_rows[i].role == END_TURN) t->eot = id;
        add_end(t, id);
    }
    add_end(t, t->eos);
    add_end(t, t->eot);
    add_end(t, t->eom);
}

// ---- id → bytes

static bool spell_pieces(Tokenizer *t, Error *err) {
    const Vocabulary *v = &t->vocabulary;
    size_t nbytes = 0;
    for (int32_t i = 0; i < v->n_tokens; i++) nbytes += v->texts[i].len;
    t->pieces = arena_alloc(t->arena, (size_t)v->n_tokens * sizeof *t->pieces);
    char *at = arena_alloc(t->arena, nbytes);
    if (!t->pieces || !at)
        return fail(err, LATHE_NO_MEMORY, "no memory for the texts of %d tokens", v->n_tokens);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        Text text = v->texts[i];
        TokenKind kind = (TokenKind)v->kinds[i];
        bool is_verbatim = kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN ||
                           (kind == TOKEN_USER_DEFINED && t->kind == MODEL_BPE);
        if (is_verbatim) t->pieces[i] = text;
        else
            t->pieces[i] = (Text){at, t->kind == MODEL_BPE ? bpe_spell(&t->bpe, text, at)
                                                           : spm_spell(text, kind, at)};
        at += is_verbatim ? 0 : t->pieces[i].len;
    }
    return true;
}

// ---- create and destroy

static bool tokenizer_read(Tokenizer *t, const Gguf *g, Error *err) {
    TRY(read_model(t, g, err));
    TRY(vocabulary_read(&t->vocabulary, t->arena, g, err));
    if (t->kind == MODEL_BPE) {
        TRY(gguf_optional_text(g, "tokenizer.ggml.pre", &t->pre, err));
        if (t->pre.len == 0) t->pre = text_of("default");
        TRY(bpe_create(&t->bpe, t->arena, &t->vocabulary, t->pre, g, err));
    } else {
        TRY(spm_create(&t->spm, t->arena, &t->vocabulary, err));
    }
    TRY(read_ids(t, g, err));
    TRY(read_flags(t, g, err));
    find_ends(t);
    TRY(vocabulary_index_specials(&t->vocabulary, t->kind == MODEL_SPM, err));
    return spell_pieces(t, err);
}

bool tokenizer_create(Tokenizer **out, const Gguf *g, Error *err) {
    Tokenizer *t = calloc(1, sizeof *t);
    if (!t) return fail(err, LATHE_NO_MEMORY, "no memory for a tokenizer");
    t->arena = arena_create();
    if (tokenizer_read(t, g, err)) {
        *out = t;
        return true;
    }
    tokenizer_destroy(t);
    return false;
}

void tokenizer_destroy(Tokenizer *t) {
    if (!t) return;
    bpe_destroy(&t->bpe);
    arena_destroy(t->arena);
    free(t);
}

// ---- encoding

bool encoding_no_memory(Encoding *e, size_t nbytes) {
    return fail(e->err, LATHE_NO_MEMORY, "no memory to tokenise a stretch of %zu bytes", nbytes);
}

bool encoding_no_token(Encoding *e, uint8_t byte) {
    return fail(e->err, LATHE_UNSUPPORTED,
                "the vocabulary has no token for the byte 0x%02X, and none for unknown ones", byte);
}

bool encoding_emit(Encoding *e, int32_t id) {
    TokenIds *ids = e->ids;
    if (ids->len == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        int32_t *at = arena_alloc(e->arena, cap * sizeof *at);
        if (!at) return encoding_no_memory(e, cap * sizeof *at);
        if (ids->len) memcpy(at, ids->at, ids->len * sizeof *at);
        ids->at = at;
        ids->cap = cap;
    }
    ids->at[ids->len++] = id;
    return true;
}

// The text of all segments, and for each place where the markup that may begin there must end.
typedef struct Source {
    Text text;
    const TextSegment *segments;
    size_t n_segments, segment; // the segment that holds the place asked for last
    size_t segment_end;
} Source;

// Bytes from place at on that may be parsed as markup: to the end of the row of segments that parse
// it.
static size_t markup_bytes(Source *s, size_t at) {
    while (s->segment_end <= at) s->segment_end += s->segments[++s->segment].text.len;
    if (!s->segments[s->segment].parse_special) return 0;
    size_t end = s->segment_end;
    for (size_t i = s->segment + 1; i < s->n_segments && s->segments[i].parse_special; i++)
        end += s->segments[i].text.len;
    return end - at;
}

static bool encode_fragment(const Tokenizer *t, Encoding *e, Text text, bool after_markup) {
    if (text.len == 0) return true;
    if (t->kind == MODEL_BPE) return bpe_encode(&t->bpe, e, text);
    return spm_encode(&t->spm, e, text, after_markup && t->adds_space_prefix);
}

static bool encode_source(const Tokenizer *t, Encoding *e, Source *s) {
    const Vocabulary *v = &t->vocabulary;
    bool after_markup = true; // the beginning counts as such
    size_t begin = 0;
    for (size_t at = 0; at < s->text.len;) {
        Text rest = {s->text.at + at, s->text.len - at};
        SpecialMatch match = {.id = -1};
        if (v->begins_special[(uint8_t)*rest.at])
            match = vocabulary_match_special(v, rest, markup_bytes(s, at));
        if (match.id < 0) {
            at++;
            continue;
        }
        TRY(encode_fragment(t, e, (Text){s->text.at + begin, at - begin}, after_markup));
        TRY(encoding_emit(e, match.id));
        after_markup = vocabulary_is_markup(v, match.id);
        begin = at += match.nbytes;
    }
    return encode_fragment(t, e, (Text){s->text.at + begin, s->text.len - begin}, after_markup);
}

// Makes one text of the segments.
static bool source_join(Source *s, Encoding *e) {
    const TextSegment *segments = s->segments;
    size_t nbytes = 0;
    for (size_t i = 0; i < s->n_segments; i++) {
        if (segments[i].text.len > TEXT_BYTES_MAX - nbytes)
            return fail(e->err, LATHE_BAD_REQUEST,
                        "the text has more than %d bytes, too many to tokenise at once; split it",
                        TEXT_BYTES_MAX);
        nbytes += segments[i].text.len;
    }
    if (s->n_segments == 1) {
        s->text = segments[0].text;
        return true;
    }
    char *at = arena_alloc(e->scratch, nbytes);
    if (!at) return encoding_no_memory(e, nbytes);
    for (size_t i = 0, done = 0; i < s->n_segments; done += segments[i++].text.len)
        if (segments[i].text.len) memcpy(at + done, segments[i].text.at, segments[i].text.len);
    s->text = (Text){at, nbytes};
    return true;
}

bool tokenizer_encode_segments(const Tokenizer *t, Arena *arena, const TextSegment *segments,
                               size_t n_segments, TokenIds *ids, Error *err) {
    const TokenIds before = *ids;
    Encoding e = {.arena = arena, .ids = ids, .scratch = arena_create(), .err = err};
    Source source = {.segments = segments,
                     .n_segments = n_segments,
                     .segment_end = n_segments ? segments[0].text.len : 0};
    merger_init(&e.merger, e.scratch);
    e.word = builder(e.scratch);
    bool is_done = source_join(&source, &e) && encode_source(t, &e, &source);
    arena_destroy(e.scratch);
    if (!is_done) *ids = before;
    return is_done;
}

bool tokenizer_encode(const Tokenizer *t, Arena *arena, Text text, bool parse_special,
                      TokenIds *ids, Error *err) {
    TextSegment segment = {text, parse_special};
    return tokenizer_encode_segments(t, arena, &segment, 1, ids, err);
}

// ---- decoding and facts

Text tokenizer_decode_piece(const Tokenizer *t, int32_t id) {
    return id >= 0 && id < t->vocabulary.n_tokens ? t->pieces[id] : (Text){"", 0};
}

Text tokenizer_decode(const Tokenizer *t, Arena *arena, const int32_t *ids, size_t n_ids) {
    TextBuilder b = builder(arena);
    for (size_t i = 0; i < n_ids; i++) builder_text(&b, tokenizer_decode_piece(t, ids[i]));
    builder_cstr(&b);
    return builder_view(&b);
}

int32_t tokenizer_vocabulary_size(const Tokenizer *t) { return t->vocabulary.n_tokens; }

int32_t tokenizer_find(const Tokenizer *t, const char *text) {
    return vocabulary_find(&t->vocabulary, text_of(text));
}

bool tokenizer_is_special(const Tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->vocabulary.n_tokens) return false;
    return t->vocabulary.kinds[id] == TOKEN_CONTROL || t->vocabulary.kinds[id] == TOKEN_UNKNOWN;
}

bool tokenizer_is_end(const Tokenizer *t, int32_t id) {
    for (size_t i = 0; i < t->n_end_ids; i++)
        if (t->end_ids[i] == id) return true;
    return false;
}

const int32_t *tokenizer_end_ids(const Tokenizer *t, size_t *count) {
    *count = t->n_end_ids;
    return t->end_ids;
}

int32_t tokenizer_bos(const Tokenizer *t) { return t->bos; }
int32_t tokenizer_eos(const Tokenizer *t) { return t->eos; }
int32_t tokenizer_eot(const Tokenizer *t) { return t->eot; }
int32_t tokenizer_unknown(const Tokenizer *t) { return t->unknown; }
bool tokenizer_adds_bos(const Tokenizer *t) { return t->adds_bos; }
bool tokenizer_adds_eos(const Tokenizer *t) { return t->adds_eos; }
bool tokenizer_adds_space_prefix(const Tokenizer *t) { return t->adds_space_prefix; }
Text tokenizer_pre(const Tokenizer *t) { return t->pre; }

const char *tokenizer_kind(const Tokenizer *t) {
    return t->kind == MODEL_BPE ? "BPE" : "SentencePiece";
}

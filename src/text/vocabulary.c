// vocabulary: reads the token arrays of a GGUF file and indexes them.
// In: the file. Out: a hash table of texts, and a prefix tree of special tokens' texts.
// Invariant: at most half of the table's slots are taken; texts stay where the file has them; a
// special token is found in at most one step a byte.
// Example: with the tokens "<a>" and "<a><b>", text "<a><b>c" matches the longer one.
#include "text/vocabulary.h"
#include <string.h>

// ---- reading

static bool read_texts(Vocabulary *v, const Gguf *g, Error *err) {
    const GgufValue *tokens = gguf_value(g, "tokenizer.ggml.tokens");
    if (!tokens || tokens->type != GGUF_ARRAY || tokens->item_type != GGUF_TEXT ||
        tokens->count == 0)
        return fail(
            err, LATHE_BAD_FILE,
            "the file has no vocabulary (tokenizer.ggml.tokens): text cannot be tokenised; take a "
            "complete model file");
    if (tokens->count > INT32_MAX / 4)
        return fail(err, LATHE_BAD_FILE,
                    "the vocabulary has %llu tokens, more than lathe can number",
                    (unsigned long long)tokens->count);
    v->texts = tokens->texts;
    v->n_tokens = (int32_t)tokens->count;
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (v->texts[i].len > v->longest) v->longest = v->texts[i].len;
    return true;
}

static bool check_length(const Vocabulary *v, const GgufValue *array, const char *key, Error *err) {
    bool is_numbers = array->type == GGUF_ARRAY && array->item_type != GGUF_TEXT;
    if (is_numbers && array->count == (uint64_t)v->n_tokens) return true;
    return fail(err, LATHE_BAD_FILE,
                "%s must be an array of %d numbers, one for each token: damaged file?", key,
                v->n_tokens);
}

static bool read_kinds(Vocabulary *v, const Gguf *g, Error *err) {
    const GgufValue *kinds = gguf_value(g, "tokenizer.ggml.token_type");
    if (kinds) TRY(check_length(v, kinds, "tokenizer.ggml.token_type", err));
    v->kinds = arena_alloc(v->arena, (size_t)v->n_tokens);
    if (!v->kinds)
        return fail(err, LATHE_NO_MEMORY, "no memory for the kinds of %d tokens", v->n_tokens);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        int64_t kind = kinds ? gguf_array_i64(kinds, (uint64_t)i) : TOKEN_NORMAL;
        v->kinds[i] = kind > 0 && kind < TOKEN_KIND_COUNT ? (uint8_t)kind : TOKEN_UNDEFINED;
    }
    return true;
}

static bool read_scores(Vocabulary *v, const Gguf *g, Error *err) {
    v->scores = gguf_value(g, "tokenizer.ggml.scores");
    return !v->scores || check_length(v, v->scores, "tokenizer.ggml.scores", err);
}

// ---- text → id

static uint32_t text_hash(Text text) { return (uint32_t)hash_bytes(text.at, text.len, 0); }

static VocabularySlot *slot_of(const Vocabulary *v, Text text, uint32_t hash) {
    for (size_t i = hash & v->slot_mask;; i = (i + 1) & v->slot_mask) {
        VocabularySlot *slot = &v->slots[i];
        if (slot->id_plus_1 == 0) return slot;
        if (slot->hash == hash && text_equal(v->texts[slot->id_plus_1 - 1], text)) return slot;
    }
}

static bool index_texts(Vocabulary *v, Error *err) {
    size_t n_slots = 16;
    while (n_slots / 2 < (size_t)v->n_tokens) n_slots *= 2;
    v->slots = arena_alloc(v->arena, n_slots * sizeof *v->slots);
    v->slot_mask = n_slots - 1;
    if (!v->slots)
        return fail(err, LATHE_NO_MEMORY, "no memory for an index of %d tokens", v->n_tokens);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        if (v->texts[i].len == 0) continue;
        uint32_t hash = text_hash(v->texts[i]);
        VocabularySlot *slot = slot_of(v, v->texts[i], hash);
        if (slot->id_plus_1 == 0) *slot = (VocabularySlot){hash, (uint32_t)i + 1};
    }
    return true;
}

bool vocabulary_read(Vocabulary *v, Arena *arena, const Gguf *g, Error *err) {
    *v = (Vocabulary){.arena = arena};
    TRY(read_texts(v, g, err));
    TRY(read_kinds(v, g, err));
    TRY(read_scores(v, g, err));
    return index_texts(v, err);
}

int32_t vocabulary_find(const Vocabulary *v, Text text) {
    if (text.len == 0 || text.len > v->longest) return -1;
    return (int32_t)slot_of(v, text, text_hash(text))->id_plus_1 - 1;
}

// ---- special tokens in text

static bool is_in_brackets(Text t) {
    char first = t.len > 2 ? t.at[0] : 0, last = t.len > 2 ? t.at[t.len - 1] : 0;
    return (first == '<' && last == '>') || (first == '[' && last == ']');
}

static bool is_text_tag(Text t) {
    static const char *const names[] = {
#define TEXT_TAG(name) name,
#include "text/text_tags.def"
#undef TEXT_TAG
    };
    size_t skip = t.len > 1 && t.at[1] == '/' ? 2 : 1;
    if (t.len < skip + 2) return false;
    Text name = {t.at + skip, t.len - skip - 1};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (text_is(name, names[i])) return true;
    return false;
}

bool vocabulary_is_markup(const Vocabulary *v, int32_t id) {
    TokenKind kind = (TokenKind)v->kinds[id];
    if (kind != TOKEN_USER_DEFINED) return kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN;
    return is_in_brackets(v->texts[id]) && !is_text_tag(v->texts[id]);
}

static bool is_special(const Vocabulary *v, int32_t id) {
    return v->texts[id].len && (v->kinds[id] == TOKEN_USER_DEFINED || vocabulary_is_markup(v, id));
}

// The text with U+2581, as SentencePiece files write a space, turned back into spaces.
static Text with_spaces(Arena *arena, Text text) {
    char *out = arena_new(arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len;) {
        bool is_space = text.len - i >= 3 && memcmp(text.at + i, "\xE2\x96\x81", 3) == 0;
        out[len++] = is_space ? ' ' : text.at[i];
        i += is_space ? 3 : 1;
    }
    return (Text){out, len};
}

static void tree_add(Vocabulary *v, uint32_t *n_nodes, Text text, int32_t id) {
    uint32_t node = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.at[i];
        uint32_t next = pair_table_get(&v->tree, node, byte);
        if (next == PAIR_NONE) {
            next = (*n_nodes)++;
            v->tree_ids[next] = -1;
            pair_table_put(&v->tree, node, byte, next);
        }
        node = next;
    }
    if (v->tree_ids[node] < 0) v->tree_ids[node] = id;
    v->begins_special[(uint8_t)text.at[0]] = true;
}

bool vocabulary_index_specials(Vocabulary *v, bool spaces, Error *err) {
    size_t nbytes = 1;
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (is_special(v, i)) nbytes += v->texts[i].len;
    v->tree_ids = nbytes < INT32_MAX ? arena_alloc(v->arena, nbytes * sizeof *v->tree_ids) : NULL;
    if (!v->tree_ids || !pair_table_init(&v->tree, v->arena, nbytes))
        return fail(err, LATHE_NO_MEMORY, "no memory for an index of special tokens with %zu bytes",
                    nbytes);
    uint32_t n_nodes = 1;
    v->tree_ids[0] = -1;
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (is_special(v, i))
            tree_add(v, &n_nodes, spaces ? with_spaces(v->arena, v->texts[i]) : v->texts[i], i);
    return true;
}

SpecialMatch vocabulary_match_special(const Vocabulary *v, Text text, size_t markup_bytes) {
    SpecialMatch best = {.id = -1};
    if (text.len == 0 || !v->begins_special[(uint8_t)text.at[0]]) return best;
    uint32_t node = 0;
    for (size_t i = 0; i < text.len; i++) {
        node = pair_table_get(&v->tree, node, (uint8_t)text.at[i]);
        if (node == PAIR_NONE) break;
        int32_t id = v->tree_ids[node];
        if (id >= 0 && (i + 1 <= markup_bytes || !vocabulary_is_markup(v, id)))
            best = (SpecialMatch){.id = id, .nbytes = i + 1};
    }
    return best;
}

// bpe: merges are looked up by the ids of two neighbours: a step costs one hash of a number.
// In: words from the pre-tokenizer. Out: ids, appended to the encoding.
// Invariant: merges whose parts or result are no tokens are left out: they make what has no name.
// Example: the merge "Ġ t" at place 0 becomes (id of Ġ, id of t) → rank 0 → id of Ġt
#include "text/bpe.h"
#include <string.h>

// ---- bytes as printable characters

// GPT-2's table: printable Latin-1 bytes stand for themselves, the others for U+0100 and up, in
// rising order.
static bool is_printable(int byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

static void read_bytes(Bpe *bpe) {
    int32_t next = 256;
    for (int c = 0; c < SPELLINGS; c++) bpe->byte_of[c] = -1;
    for (int b = 0; b < 256; b++) {
        int32_t code_point = is_printable(b) ? b : next++;
        char text[4];
        bpe->byte_of[code_point] = (int16_t)b;
        bpe->byte_ids[b] = vocabulary_find(bpe->vocabulary,
                                           (Text){text, utf8_encode(code_point, text)});
    }
}

size_t bpe_spell(const Bpe *bpe, Text text, char *out) {
    size_t len = 0, used;
    for (size_t i = 0; i < text.len; i += used) {
        int32_t c = utf8_decode(text.at + i, text.len - i, &used);
        if (c >= 0 && c < SPELLINGS && bpe->byte_of[c] >= 0) {
            out[len++] = (char)bpe->byte_of[c];
        } else { // not of the table: stays as it is
            memcpy(out + len, text.at + i, used);
            len += used;
        }
    }
    return len;
}

// ---- reading the merges

// Most files number tokens in the order of the merges that make them: the token after the last
// merge's is tried first.
static int32_t find_near(const Vocabulary *v, Text text, int32_t last) {
    for (int32_t id = last; id >= 0 && id <= last + 1 && id < v->n_tokens; id++)
        if (text_equal(v->texts[id], text)) return id;
    return vocabulary_find(v, text);
}

// *both is the token of the merge before this one on entry, and of this one on return.
static bool merge_parts(const Vocabulary *v, Text merge, int32_t *left, int32_t *right,
                        int32_t *both, char *joined) {
    const char *space = merge.len > 1 ? memchr(merge.at + 1, ' ', merge.len - 1) : NULL;
    if (!space) return false;
    Text l = {merge.at, (size_t)(space - merge.at)}, r = {space + 1, merge.len - l.len - 1};
    if (l.len + r.len > v->longest) return false;
    memcpy(joined, l.at, l.len);
    memcpy(joined + l.len, r.at, r.len);
    *left = vocabulary_find(v, l);
    *right = vocabulary_find(v, r);
    *both = find_near(v, (Text){joined, l.len + r.len}, *both);
    return *left >= 0 && *right >= 0 && *both >= 0;
}

static bool read_merges(Bpe *bpe, Arena *arena, const Gguf *g, Error *err) {
    const GgufValue *merges = gguf_value(g, "tokenizer.ggml.merges");
    if (!merges || merges->type != GGUF_ARRAY || merges->item_type != GGUF_TEXT ||
        merges->count > INT32_MAX)
        return fail(
            err, LATHE_BAD_FILE,
            "the file has a BPE vocabulary but no list of merges (tokenizer.ggml.merges): convert "
            "the model again");
    bpe->merged = arena_alloc(arena, merges->count * sizeof *bpe->merged);
    char *joined = arena_alloc(arena, bpe->vocabulary->longest + 1);
    if (!bpe->merged || !joined || !pair_table_init(&bpe->merges, arena, merges->count))
        return fail(err, LATHE_NO_MEMORY, "no memory for %llu merges",
                    (unsigned long long)merges->count);
    int32_t left, right, both = -1;
    for (uint32_t rank = 0; rank < merges->count; rank++) {
        if (!merge_parts(bpe->vocabulary, merges->texts[rank], &left, &right, &both, joined))
            continue;
        bpe->merged[rank] = both;
        pair_table_put(&bpe->merges, (uint32_t)left, (uint32_t)right, rank);
    }
    return true;
}

bool bpe_create(Bpe *bpe, Arena *arena, const Vocabulary *v, Text pre, const Gguf *g, Error *err) {
    *bpe = (Bpe){.vocabulary = v, .unknown = -1};
    read_bytes(bpe);
    TRY(read_merges(bpe, arena, g, err));
    return pretokenizer_create(&bpe->pretokenizer, pre, err);
}

void bpe_destroy(Bpe *bpe) { pretokenizer_destroy(bpe->pretokenizer); }

// ---- encoding

static bool find_merge(const void *context, const Symbol *left, const Symbol *right,
                       uint32_t *order, int32_t *id) {
    const Bpe *bpe = context;
    if (left->id < 0 || right->id < 0) return false;
    *order = pair_table_get(&bpe->merges, (uint32_t)left->id, (uint32_t)right->id);
    if (*order == PAIR_NONE) return false;
    *id = bpe->merged[*order];
    return true;
}

// The token that a word is as it stands, or -1. Special tokens are no words: their text in a word
// stays text.
static int32_t whole_word(const Bpe *bpe, Encoding *e, Text word) {
    const Vocabulary *v = bpe->vocabulary;
    if (!pretokenizer_takes_whole_words(bpe->pretokenizer) || word.len > v->longest) return -1;
    e->word.len = 0;
    for (size_t i = 0; i < word.len; i++) {
        int32_t id = bpe->byte_ids[(uint8_t)word.at[i]];
        if (id < 0) return -1;
        builder_text(&e->word, v->texts[id]);
    }
    int32_t id = vocabulary_find(v, builder_view(&e->word));
    bool is_word = id >= 0 && (v->kinds[id] == TOKEN_NORMAL || v->kinds[id] == TOKEN_UNDEFINED);
    return is_word ? id : -1;
}

typedef struct BpeCall {
    const Bpe *bpe;
    Encoding *e;
} BpeCall;

static bool encode_word(void *context, Text word, Error *err) {
    (void)err; // the same as that of the encoding
    const BpeCall *call = context;
    const Bpe *bpe = call->bpe;
    Encoding *e = call->e;
    Merger *m = &e->merger;
    int32_t whole = word.len == 1 ? bpe->byte_ids[(uint8_t)word.at[0]] : whole_word(bpe, e, word);
    if (whole >= 0) return encoding_emit(e, whole);
    if (!merger_begin(m, word.len)) return encoding_no_memory(e, word.len);
    for (size_t i = 0; i < word.len; i++)
        merger_add(m, (uint32_t)i, 1, bpe->byte_ids[(uint8_t)word.at[i]]);
    if (!merger_run(m, find_merge, bpe)) return encoding_no_memory(e, word.len);
    for (int32_t i = 0; i >= 0; i = m->symbols[i].next) {
        int32_t id = m->symbols[i].id >= 0 ? m->symbols[i].id : bpe->unknown;
        if (id < 0) return encoding_no_token(e, (uint8_t)word.at[m->symbols[i].at]);
        TRY(encoding_emit(e, id));
    }
    return true;
}

bool bpe_encode(const Bpe *bpe, Encoding *e, Text text) {
    BpeCall call = {bpe, e};
    return pretokenizer_split(bpe->pretokenizer, text, encode_word, &call, e->err);
}

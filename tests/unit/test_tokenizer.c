// test_tokenizer: text to ids and back, against the vectors of real vocabularies, the goldens of
// the tiny models, and small vocabularies made here for what real ones do not show.
// Where ids stand in a test, they come from the tokenizers package 0.23.3 (BPE) or sentencepiece
// 0.2.3 (SentencePiece), fed with the same vocabulary.
#include "text/tokenizer.h"
#include "unit/made_vocabulary.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#undef fail // cmocka has a macro of this name, too
#include <cmocka.h>

// ---- helpers

typedef struct Bench {
    Arena *arena;
    Gguf g;
    Tokenizer *t;
} Bench;

static void bench_close(Bench *b) {
    tokenizer_destroy(b->t);
    gguf_close(&b->g);
    arena_destroy(b->arena);
}

// Opens a model; `overrides` end with NULL.
static bool bench_open(Bench *b, const char *path, const char *const *overrides, Error *err) {
    *b = (Bench){.arena = arena_create()};
    if (!gguf_open(&b->g, path, err)) fail_msg("%s", err->text);
    for (; overrides && *overrides; overrides++)
        if (!gguf_override(&b->g, *overrides, err)) fail_msg("%s", err->text);
    return tokenizer_create(&b->t, &b->g, err);
}

static const char *shared_path(const char *name, char out[512]) {
    const char *root = getenv("LATHE_SHARED");
    snprintf(out, 512, "%s/%s", root && *root ? root : "../shared", name);
    if (file_exists(out)) return out;
    print_message("skipped: %s is not here (set LATHE_SHARED)\n", out);
    skip();
    return NULL;
}

static Bench shared_bench(const char *name, const char *const *overrides) {
    char file[64], path[512];
    Bench b;
    Error err;
    snprintf(file, sizeof file, "vocabs/ggml-vocab-%s.gguf", name);
    if (!bench_open(&b, shared_path(file, path), overrides, &err)) fail_msg("%s", err.text);
    return b;
}

static TokenIds encode(Bench *b, Text text, bool parse_special) {
    TokenIds ids = {0};
    Error err;
    if (!tokenizer_encode(b->t, b->arena, text, parse_special, &ids, &err))
        fail_msg("%s", err.text);
    return ids;
}

static const char *ids_shown(Arena *arena, const int32_t *ids, size_t n) {
    TextBuilder out = builder(arena);
    for (size_t i = 0; i < n; i++) builder_printf(&out, "%s%d", i ? " " : "", ids[i]);
    return builder_cstr(&out);
}

static void expect_ids(Bench *b, const char *text, bool parse_special, const char *want) {
    TokenIds ids = encode(b, text_of(text), parse_special);
    const char *got = ids_shown(b->arena, ids.at, ids.len);
    if (strcmp(got, want)) fail_msg("\"%s\": got [%s], want [%s]", text, got, want);
}

static void expect_round_trip(Bench *b, Text text, bool parse_special) {
    TokenIds ids = encode(b, text, parse_special);
    Text back = tokenizer_decode(b->t, b->arena, ids.at, ids.len);
    if (!text_equal(back, text)) fail_msg("%zu bytes came back as %zu others", text.len, back.len);
}

static uint32_t random_next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// ---- vectors and goldens

// The next text of an .inp file, which ends before the separator line.
static Text next_text(Text *rest) {
    static const char separator[] = "\n__ggml_vocab_test__\n";
    Text text = {rest->at, 0}, tail = *rest;
    while (tail.len && !text_starts(tail, separator)) tail.at++, tail.len--, text.len++;
    size_t taken = text.len + (tail.len ? sizeof separator - 1 : 0);
    *rest = (Text){rest->at + taken, rest->len - taken};
    return text;
}

static const char *next_line(Text *rest, Arena *arena) {
    const char *end = memchr(rest->at, '\n', rest->len);
    Text line = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
    *rest = (Text){rest->at + line.len + (end != NULL), rest->len - line.len - (end != NULL)};
    while (line.len && *line.at == ' ') line.at++, line.len--;
    return text_cstr(arena, line);
}

static void vocabulary_vectors(void **state) {
    const char *name = *state;
    Bench b = shared_bench(name, NULL);
    char file[64], path[512];
    Text in, out;
    Error err;
    snprintf(file, sizeof file, "vocabs/ggml-vocab-%s.gguf.inp", name);
    assert_true(file_read(b.arena, shared_path(file, path), &in, &err));
    snprintf(file, sizeof file, "vocabs/ggml-vocab-%s.gguf.out", name);
    assert_true(file_read(b.arena, shared_path(file, path), &out, &err));
    for (int i = 0; i < 47; i++) {
        Text text = next_text(&in);
        const char *want = next_line(&out, b.arena);
        TokenIds ids = encode(&b, text, false);
        const char *got = ids_shown(b.arena, ids.at, ids.len);
        if (strcmp(got, want)) fail_msg("text %d: got [%s], want [%s]", i, got, want);
    }
    assert_int_equal(in.len, 0);
    bench_close(&b);
}

// The model that a golden was made from, made again where the build has not kept it; NULL without
// python3.
static const char *tiny_model(Arena *arena, const char *shape) {
    const char *build = getenv("LATHE_BUILD");
    const char *folder = arena_printf(arena, "%s/models", build && *build ? build : "build");
    const char *path = arena_printf(arena, "%s/%s-f32.gguf", folder, shape);
    Error err;
    Text output;
    int status;
    if (file_exists(path)) return path;
    const char *argv[] = {
        "python3", "tools/make_model.py", shape, "--quant", "f32", "--seed", "1", "-o", path, NULL};
    bool is_made = dir_make(folder, &err) &&
                   process_run(arena, argv, 120000, &status, &output, &err) && status == 0;
    return is_made && file_exists(path) ? path : NULL;
}

static void golden_tokens(void **state) {
    const char *shape = *state;
    Arena *arena = arena_create();
    json_error_t at;
    Bench b;
    Error err;
    json_t *golden = json_load_file(arena_printf(arena, "tests/golden/%s-tokens.json", shape), 0,
                                    &at),
           *row;
    const char *path = golden ? tiny_model(arena, shape) : NULL;
    size_t i, n_texts = 0;
    if (!path) {
        print_message("skipped: %s needs tests/golden, python3, numpy and gguf\n", shape);
        skip();
    }
    if (!bench_open(&b, path, NULL, &err)) fail_msg("%s", err.text);
    json_array_foreach(json_object_get(golden, "texts"), i, row) {
        json_t *want = json_object_get(row, "ids");
        TokenIds ids = encode(&b, text_of(json_string_value(json_object_get(row, "text"))), true);
        assert_int_equal(ids.len, json_array_size(want));
        for (size_t k = 0; k < ids.len; k++)
            assert_int_equal(ids.at[k], json_integer_value(json_array_get(want, k)));
        n_texts++;
    }
    assert_int_equal(n_texts, 11);
    json_decref(golden);
    bench_close(&b);
    arena_destroy(arena);
}

// ---- known faults of other engines

static void newlines_look_ahead(void **state) { // B20
    (void)state;
    Bench b = shared_bench("llama-bpe", NULL);
    expect_ids(&b, "a\n\nb", false, "64 271 65");
    expect_ids(&b, "\n\n\n\n=", false, "1038 28");
    expect_ids(&b, "  \n \n", false, "2355 720");
    bench_close(&b);
}

static void accents_dashes_digits_emoji(void **state) { // B22
    (void)state;
    const char *text = "Hello world! Café déjà vu — 123 😊";
    Bench llama = shared_bench("llama-bpe", NULL), qwen = shared_bench("qwen2", NULL),
          spm = shared_bench("llama-spm", NULL);
    expect_ids(&llama, text, false, "9906 1917 0 66771 46939 33614 2001 220 4513 27623 232");
    expect_ids(&qwen, text, false, "9707 1879 0 65671 45839 32514 1959 220 16 17 18 26525 232");
    expect_ids(
        &spm, text, false,
        "15043 3186 29991 315 28059 20737 18679 813 29871 29896 29906 29941 29871 243 162 155 141");
    bench_close(&llama), bench_close(&qwen), bench_close(&spm);
}

static void runs_of_newlines(void **state) { // B23
    (void)state;
    const char *text = "a\n\n\nb\n\n\n\n";
    Bench llama = shared_bench("llama-bpe", NULL), qwen = shared_bench("qwen2", NULL),
          spm = shared_bench("llama-spm", NULL);
    expect_ids(&llama, text, false, "64 1432 65 1038");
    expect_ids(&qwen, text, false, "64 1406 65 1022");
    expect_ids(&spm, text, false, "263 13 13 13 29890 13 13 13 13");
    bench_close(&llama), bench_close(&qwen), bench_close(&spm);
}

static void phonetic_letters(void **state) { // B25
    (void)state;
    Bench b = shared_bench("llama-spm", NULL);
    expect_ids(&b, "eɪɾɪst", false, "321 30312 30542 30312 303");
    expect_ids(&b, "ˈæmɪɾɚz", false, "29871 30176 30078 29885 30312 30542 204 157 29920");
    bench_close(&b);
}

static void other_pretokenizers(void **state) { // on a vocabulary that is not their own
    (void)state;
    static const char code[] = "HTTPServer's 12345 naïveTest/\n\n  x",
                      prose[] = "水は冷たい　It'll cost $3.50!!\r\n";
    const struct {
        const char *override, *code, *prose;
    } rows[] = {
        {"tokenizer.ggml.pre=str:deepseek-v3",
         "9412 5592 596 220 4513 1774 95980 588 2323 8851 220 865",
         "53610 15682 106142 106956 23249 2181 3358 2853 400 18 13 1135 3001 319"},
        {"tokenizer.ggml.pre=str:gpt-4o", "9412 5592 596 220 4513 1774 95980 588 2323 8851 220 865",
         "53610 15682 106142 106956 23249 2181 3358 2853 400 18 13 1135 3001 319"},
        {"tokenizer.ggml.pre=str:tekken",
         "9412 5592 596 220 16 17 18 19 20 95980 588 2323 8851 220 865",
         "53610 15682 106142 106956 23249 2181 3358 2853 400 18 13 20 15 3001 319"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Bench b = shared_bench("llama-bpe", (const char *const[]){rows[i].override, NULL});
        expect_ids(&b, code, false, rows[i].code);
        expect_ids(&b, prose, false, rows[i].prose);
        bench_close(&b);
    }
}

static void unknown_pretokenizer_is_named(void **state) { // B105
    (void)state;
    char path[512];
    Bench b;
    Error err;
    const char *const overrides[] = {"tokenizer.ggml.pre=str:martian-9", NULL};
    assert_false(
        bench_open(&b, shared_path("vocabs/ggml-vocab-gpt-2.gguf", path), overrides, &err));
    assert_int_equal(err.code, LATHE_UNSUPPORTED);
    assert_non_null(strstr(err.text, "'martian-9'"));
    assert_non_null(strstr(err.text, "llama-bpe"));
    gguf_close(&b.g);
    arena_destroy(b.arena);
}

static void space_prefix_as_the_file_says(void **state) { // B18
    (void)state;
    Bench b = shared_bench("llama-spm", NULL);
    char want[64];
    assert_true(tokenizer_adds_space_prefix(b.t));
    snprintf(want, sizeof want, "1 %d", tokenizer_find(b.t, "▁G"));
    expect_ids(&b, "<s>G", true, want);
    bench_close(&b);
    b = shared_bench("llama-spm",
                     (const char *const[]){"tokenizer.ggml.add_space_prefix=bool:false", NULL});
    snprintf(want, sizeof want, "1 %d", tokenizer_find(b.t, "G"));
    expect_ids(&b, "<s>G", true, want);
    bench_close(&b);
}

static void bytes_that_are_no_text(void **state) { // B31
    (void)state;
    Bench b = shared_bench("qwen2", NULL);
    assert_true(text_is(tokenizer_decode_piece(b.t, 29333), " \xEF\xBF\xBD"));
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        TokenIds ids = encode(&b, (Text){&c, 1}, false);
        assert_int_equal(ids.len, 1);
        Text piece = tokenizer_decode_piece(b.t, ids.at[0]);
        assert_true(piece.len == 1 && *piece.at == c);
    }
    assert_int_equal(tokenizer_decode_piece(b.t, -1).len, 0);
    assert_int_equal(tokenizer_decode_piece(b.t, tokenizer_vocabulary_size(b.t)).len, 0);
    bench_close(&b);
}

static void any_bytes_come_back(void **state) {
    (void)state;
    const char *const names[] = {"llama-bpe", "qwen2", "gpt-2"};
    uint32_t seed = 1;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        Bench b = shared_bench(names[n], NULL);
        for (int round = 0; round < 300; round++) {
            char text[200];
            size_t len = random_next(&seed) % sizeof text;
            for (size_t i = 0; i < len; i++) {
                uint32_t r = random_next(&seed);
                text[i] = (char)(r & 1 ? r >> 4 : (uint32_t) " \n'a1<|>"[r / 2 % 8]);
            }
            expect_round_trip(&b, (Text){text, len}, round & 1);
        }
        bench_close(&b);
    }
}

static void long_texts_take_linear_time(void **state) {
    (void)state;
    const char *const names[] = {"llama-bpe", "deepseek-llm", "llama-spm"},
                      *const patterns[] = {
                          "a",     "A",        " ",   "\n",
                          " \n",   "7",        "<",   "<|reserved_special_token_",
                          "'s",    "!?",       "中",  "\xff",
                          "a\xff", "\xCC\x81", "ab ",
                      };
    enum { BYTES = 200000 };
    char *text = malloc(BYTES + 4);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        Bench b = shared_bench(names[n], NULL);
        for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
            size_t step = strlen(patterns[p]);
            for (size_t i = 0; i < BYTES; i++) text[i] = patterns[p][i % step];
            memcpy(text + BYTES, "中", 3);
            TokenIds ids = encode(&b, (Text){text, BYTES + 3}, p & 1);
            assert_true(ids.len > BYTES / 200 && ids.len < BYTES + 8);
        }
        bench_close(&b);
    }
    free(text);
}

typedef struct ThreadCase {
    const Tokenizer *t;
    TokenIds want;
    bool is_same;
} ThreadCase;

static const char thread_text[] = "It's 2024,  isn't it?\n\n<|eot_id|>";

static void thread_encode(void *arg) {
    ThreadCase *c = arg;
    Arena *arena = arena_create();
    c->is_same = true;
    for (int i = 0; i < 50; i++) {
        TokenIds ids = {0};
        Error err;
        bool is_done = tokenizer_encode(c->t, arena, text_of(thread_text), true, &ids, &err);
        c->is_same = c->is_same && is_done && ids.len == c->want.len &&
                     memcmp(ids.at, c->want.at, ids.len * sizeof *ids.at) == 0;
    }
    arena_destroy(arena);
}

static void threads_share_a_tokenizer(void **state) {
    (void)state;
    Bench b = shared_bench("llama-bpe", NULL);
    Thread *threads[4];
    ThreadCase cases[4];
    for (int i = 0; i < 4; i++) {
        cases[i] = (ThreadCase){.t = b.t, .want = encode(&b, text_of(thread_text), true)};
        threads[i] = thread_start(thread_encode, &cases[i]);
    }
    for (int i = 0; i < 4; i++) {
        thread_join(threads[i]);
        assert_true(cases[i].is_same);
    }
    bench_close(&b);
}

// ---- small vocabularies made here

typedef struct Made {
    Bytes f;
    Gguf g;
    Tokenizer *t;
    Arena *arena;
} Made;

static bool made_open(Made *m, Bytes f, Error *err) {
    *m = (Made){.f = f, .arena = f.arena};
    if (!gguf_open_memory(&m->g, "made.gguf", (const uint8_t *)f.b.at, f.b.len, err))
        fail_msg("%s", err->text);
    return tokenizer_create(&m->t, &m->g, err);
}

static Made made(Bytes f) {
    Made m;
    Error err;
    if (!made_open(&m, f, &err)) fail_msg("%s", err.text);
    return m;
}

static void made_close(Made *m) {
    tokenizer_destroy(m->t);
    gguf_close(&m->g);
    arena_destroy(m->arena);
}

static void expect_made(Made *m, const char *text, bool parse_special, const char *want) {
    Bench b = {.arena = m->arena, .t = m->t};
    expect_ids(&b, text, parse_special, want);
}

static void expect_no_tokenizer(Bytes f, ErrorCode code, const char *words) {
    Made m;
    Error err;
    assert_false(made_open(&m, f, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, words)) fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    gguf_close(&m.g);
    arena_destroy(m.arena);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const Token chat_tokens[] = {
    {"<a>", 3, 0},     {"<a><b>", 3, 0},   {"<b>c", 3, 0},       {"</think>", 4, 0},
    {"<table>", 4, 0}, {"/nothink", 3, 0}, {"lo", 1, 0},         {"low", 1, 0},
    {"Ġlow", 1, 0},    {"  ", 4, 0},       {"<|im_end|>", 4, 0}, {"<unk>", 2, 0},
};
static const char *const chat_merges[] = {"l o", "lo w", "Ġ low", "x y", "broken", "q lo"};

static Made chat_model(void) {
    return made(bpe_file(chat_tokens, COUNT(chat_tokens), chat_merges, COUNT(chat_merges), "glm4"));
}

static void merges_go_by_rank(void **state) {
    (void)state;
    Made m = chat_model();
    expect_made(&m, "low", false, "263");
    expect_made(&m, " low", false, "264");
    expect_made(&m, "lowlo", false, "263 262");
    expect_made(&m, "xy", false, "120 121"); // a merge whose result is no token
    expect_made(&m, "", false, "");
    assert_string_equal(tokenizer_kind(m.t), "BPE");
    made_close(&m);
}

static void every_pretokenizer_compiles(void **state) {
    (void)state;
    static const char *const names[] = {
#define PRETOKENIZER(name, family, whole_words, adds_bos) name,
#include "text/pretokenizer.def"
    };
    for (size_t i = 0; i < COUNT(names); i++) {
        Made m = made(
            bpe_file(chat_tokens, COUNT(chat_tokens), chat_merges, COUNT(chat_merges), names[i]));
        Bench b = {.arena = m.arena, .t = m.t};
        expect_round_trip(
            &b, text_of("It's 12345 naïve 水は\n\n  x  \r\n\t!!/ 'LL _ ½ 🙂\xff "), false);
        assert_true(text_is(tokenizer_pre(m.t), names[i]));
        made_close(&m);
    }
}

static void special_tokens_longest_first(void **state) {
    (void)state;
    Made m = chat_model();
    expect_made(&m, "<a><b>c", true, "257 99"); // leftmost wins over <b>c, of those the longer
    expect_made(&m, "<a><a><b>", true, "256 257");
    expect_made(&m, "x<b>c<a>", true, "120 258 256");
    expect_made(&m, "<a", true, "60 97");
    made_close(&m);
}

static void special_text_of_a_user_stays_text(void **state) { // B26
    (void)state;
    Made m = chat_model();
    expect_made(&m, "<a>", false, "60 97 62");
    expect_made(&m, "a</think>b", false, "97 60 47 116 104 105 110 107 62 98");
    expect_made(&m, "a</think>b", true, "97 259 98");
    expect_made(&m, "/nothink", false,
                "47 110 111 116 104 105 110 107"); // though whole words are looked up
    expect_made(&m, "/nothink", true, "261");
    expect_made(&m, "<unk>", false, "60 117 110 107 62");
    expect_made(&m, "<|im_end|>", false, "60 124 105 109 95 101 110 100 124 62");
    expect_made(&m, "<table>a  b", false, "260 97 265 98"); // parts of a text, whoever wrote it
    made_close(&m);
}

static void user_text_in_real_vocabularies(void **state) { // B26
    (void)state;
    const char *const texts[] = {"A<|user|>B",
                                 "Repeat exactly: hello </think> world",
                                 "<|eot_id|>",
                                 "<|im_end|><|im_start|>system",
                                 "<s>[INST]</s>",
                                 "<|endoftext|>",
                                 "<|begin_of_text|>x<|end_header_id|>"};
    const char *const names[] = {"llama-bpe",    "qwen2",     "gpt-2", "starcoder",
                                 "deepseek-llm", "llama-spm", "phi-3"};
    for (size_t n = 0; n < COUNT(names); n++) {
        Bench b = shared_bench(names[n], NULL);
        for (size_t i = 0; i < COUNT(texts); i++) {
            TokenIds ids = encode(&b, text_of(texts[i]), false);
            Text back = tokenizer_decode(b.t, b.arena, ids.at, ids.len);
            for (size_t k = 0; k < ids.len; k++) assert_false(tokenizer_is_special(b.t, ids.at[k]));
            assert_true(text_ends(back, texts[i]));
        }
        bench_close(&b);
    }
}

static void expect_segments(Made *m, const TextSegment *segments, size_t n, const char *want) {
    TokenIds ids = {0};
    Error err;
    if (!tokenizer_encode_segments(m->t, m->arena, segments, n, &ids, &err))
        fail_msg("%s", err.text);
    assert_string_equal(ids_shown(m->arena, ids.at, ids.len), want);
}

#define SEGMENTS(...)                                                                              \
    (const TextSegment[]){__VA_ARGS__}, COUNT(((const TextSegment[]){__VA_ARGS__}))
#define MARKUP(text)                                                                               \
    { {(text), sizeof(text) - 1}, true }
#define CONTENT(text)                                                                              \
    { {(text), sizeof(text) - 1}, false }

static void segments_keep_markup_apart(void **state) {
    (void)state;
    Made m = chat_model();
    expect_segments(&m, SEGMENTS(MARKUP("<a>"), CONTENT("<a>"), MARKUP("<a>")), "256 60 97 62 256");
    expect_segments(&m, SEGMENTS(MARKUP("<a"), CONTENT(">"), MARKUP("")),
                    "60 97 62"); // no token across the border
    expect_segments(&m, SEGMENTS(CONTENT("<"), MARKUP("a>")), "60 97 62");
    expect_segments(&m, SEGMENTS(MARKUP("<a"), MARKUP(""), MARKUP(">")),
                    "256"); // markup next to markup
    expect_segments(&m, SEGMENTS(MARKUP("<a>"), CONTENT("<b>")), "256 60 98 62"); // not <a><b>
    expect_segments(&m, SEGMENTS(CONTENT("l"), MARKUP("o"), CONTENT("w")),
                    "263"); // words cross borders
    expect_segments(&m, SEGMENTS(CONTENT(""), MARKUP("")), "");
    expect_segments(&m, NULL, 0, "");
    made_close(&m);
}

static void counts_are_checked(void **state) { // B15
    (void)state;
    Made m = chat_model();
    Error err;
    TokenIds ids = {0};
    char few[] = "low";
    assert_true(tokenizer_encode(m.t, m.arena, text_of(few), false, &ids, &err));
    for (int shift = 29; shift < 64; shift += 7) {
        assert_false(
            tokenizer_encode(m.t, m.arena, (Text){few, (size_t)1 << shift}, false, &ids, &err));
        assert_int_equal(err.code, LATHE_BAD_REQUEST);
    }
    const TextSegment two[] = {{{few, 3}, true}, {{few, SIZE_MAX - 1}, true}};
    assert_false(tokenizer_encode_segments(m.t, m.arena, two, 2, &ids, &err));
    assert_int_equal(ids.len, 1);
    assert_int_equal(ids.at[0], 263);
    for (int i = 0; i < 1000; i++)
        assert_true(tokenizer_encode(m.t, m.arena, text_of("low"), false, &ids, &err));
    assert_int_equal(ids.len, 1001);
    for (size_t i = 0; i < ids.len; i++) assert_int_equal(ids.at[i], 263);
    made_close(&m);
}

static void ends_are_found(void **state) {
    (void)state;
    Made m = chat_model();
    size_t count;
    int32_t end = tokenizer_find(m.t, "<|im_end|>");
    assert_int_equal(end, 266);
    assert_int_equal(tokenizer_eot(m.t), end);
    assert_true(tokenizer_is_end(m.t, end) && tokenizer_is_special(m.t, end));
    tokenizer_end_ids(m.t, &count);
    assert_int_equal(count, 1);
    assert_int_equal(tokenizer_bos(m.t), -1);
    assert_int_equal(tokenizer_eos(m.t), -1);
    assert_false(tokenizer_adds_bos(m.t));
    assert_false(tokenizer_is_end(m.t, -1));
    assert_false(tokenizer_is_special(m.t, 1 << 30));
    assert_int_equal(tokenizer_find(m.t, "<absent>"), -1);
    assert_int_equal(tokenizer_vocabulary_size(m.t), 256 + (int)COUNT(chat_tokens));
    made_close(&m);
}

static void ends_of_real_models(void **state) {
    (void)state;
    char path[512];
    Bench b;
    Error err;
    const char *story = shared_path("models/storyteller/storyteller-Q4_K_M.gguf", path);
    if (!bench_open(&b, story, NULL, &err)) fail_msg("%s", err.text);
    assert_int_equal(tokenizer_eos(b.t), 4080);
    assert_int_equal(tokenizer_eot(b.t), 4087);
    assert_true(tokenizer_is_end(b.t, 4080) && tokenizer_is_end(b.t, 4087) &&
                tokenizer_is_end(b.t, 4089));
    assert_false(tokenizer_is_end(b.t, 4088) || tokenizer_adds_bos(b.t));
    bench_close(&b);
    b = shared_bench("llama-bpe", NULL);
    assert_true(tokenizer_is_end(b.t, 128009) && tokenizer_is_end(b.t, 128001) &&
                tokenizer_adds_bos(b.t));
    assert_int_equal(tokenizer_eot(b.t), 128009);
    bench_close(&b);
    b = shared_bench("phi-3", NULL);
    assert_true(tokenizer_is_end(b.t, 32007) && tokenizer_is_end(b.t, 32000));
    bench_close(&b);
}

static const Token spm_tokens[] = {
    {"<unk>", 2, 0},  {"<s>", 3, 0},   {"</s>", 3, 0},   {"<0x0A>", 6, 0}, {"<0xC3>", 6, 0},
    {"<0xA9>", 6, 0}, {"▁", 1, -9},    {"a", 1, -10},    {"b", 1, -11},    {"ab", 1, -2},
    {"ba", 1, -1},    {"▁a", 1, -3},   {"aba", 1, -4},   {"aa", 1, -5},    {"<", 1, -20},
    {"<0", 1, -6},    {"0", 1, -20},   {"x", 1, -20},    {"A", 1, -20},    {">", 1, -20},
    {"<0x", 1, -6},   {"<0x0", 1, -6}, {"<0x0A", 1, -6}, {"▁▁b", 4, 0},
};

static void scores_decide_the_merges(void **state) {
    (void)state;
    Made m = made(spm_file(spm_tokens, COUNT(spm_tokens), true));
    assert_string_equal(tokenizer_kind(m.t), "SentencePiece");
    expect_made(&m, "ab", false, "6 9");    // ▁ a b: (a b) at -2 before (▁ a) at -3
    expect_made(&m, "aba", false, "11 10"); // (b a) at -1, then (▁ a), which leaves no "aba"
    expect_made(&m, "aaa", false, "11 13");
    expect_made(&m, "xaaa", false, "6 17 13 7"); // of equal scores the left one
    expect_made(&m, "", false, "");
    made_close(&m);
}

static void characters_without_a_token(void **state) {
    (void)state;
    Made m = made(spm_file(spm_tokens, COUNT(spm_tokens), true));
    expect_made(&m, "é\n", false, "6 4 5 3");    // byte by byte
    expect_made(&m, "z中", false, "6 0 0");      // not even bytes
    expect_made(&m, "<0x0A>", false, "6 22 19"); // the text of a byte token is not the byte
    expect_made(&m, "<s>", false, "6 14 0 19");
    expect_made(&m, "<s>a</s>", true, "1 11 2");
    expect_made(&m, "a  bA", false,
                "11 23 18"); // a user-defined token is taken first and gives no prefix
    assert_true(text_is(tokenizer_decode_piece(m.t, 23), "  b"));
    assert_true(text_is(tokenizer_decode_piece(m.t, 3), "\n"));
    assert_true(text_is(tokenizer_decode_piece(m.t, 1), "<s>"));
    assert_int_equal(tokenizer_bos(m.t), 1);
    assert_int_equal(tokenizer_eos(m.t), 2);
    assert_int_equal(tokenizer_unknown(m.t), 0);
    assert_true(tokenizer_adds_bos(m.t) && !tokenizer_adds_eos(m.t) && tokenizer_is_end(m.t, 2));
    made_close(&m);
}

static void unknown_kinds_of_tokenizers(void **state) {
    (void)state;
    const struct {
        const char *name, *words;
    } rows[] = {{"bert", "WordPiece"}, {"t5", "unigram"}, {"rwkv", "RWKV"}, {"zork", "'zork'"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        Bytes f = bytes_new();
        put_header(&f, 3, 0, 1);
        put_key_text(&f, "tokenizer.ggml.model", rows[i].name);
        expect_no_tokenizer(f, LATHE_UNSUPPORTED, rows[i].words);
    }
    Bytes none = bytes_new();
    put_header(&none, 3, 0, 0);
    expect_no_tokenizer(none, LATHE_BAD_FILE, "tokenizer.ggml.model");
}

static void damaged_vocabularies(void **state) {
    (void)state;
    Bytes no_tokens = bytes_new();
    put_header(&no_tokens, 3, 0, 1);
    put_key_text(&no_tokens, "tokenizer.ggml.model", "gpt2");
    expect_no_tokenizer(no_tokens, LATHE_BAD_FILE, "no vocabulary");
    Bytes kinds = bytes_new();
    put_header(&kinds, 3, 0, 3);
    put_key_text(&kinds, "tokenizer.ggml.model", "gpt2");
    put_key_array(&kinds, "tokenizer.ggml.tokens", GGUF_TEXT, 2), put_text(&kinds, "a"),
        put_text(&kinds, "b");
    put_key_array(&kinds, "tokenizer.ggml.token_type", GGUF_I32, 1), put_u32(&kinds, 1);
    expect_no_tokenizer(kinds, LATHE_BAD_FILE, "token_type must be an array of 2");
    Bytes merges = bytes_new();
    put_header(&merges, 3, 0, 2);
    put_key_text(&merges, "tokenizer.ggml.model", "gpt2");
    put_key_array(&merges, "tokenizer.ggml.tokens", GGUF_TEXT, 1), put_text(&merges, "a");
    expect_no_tokenizer(merges, LATHE_BAD_FILE, "tokenizer.ggml.merges");
    expect_no_tokenizer(spm_file(spm_tokens, COUNT(spm_tokens), false), LATHE_BAD_FILE,
                        "no scores");
    const Token not_a_number[] = {{"a", 1, __builtin_nanf("")}};
    expect_no_tokenizer(spm_file(not_a_number, 1, true), LATHE_BAD_FILE, "not a number");
}

static void bytes_without_a_token(void **state) {
    (void)state;
    const Token tokens[] = {{"a", 1, 0}, {"b", 1, 0}, {"", 1, 0}, {"a", 1, 0}};
    Made m = made(spm_file(tokens, COUNT(tokens), true));
    Error err;
    TokenIds ids = {0};
    assert_true(gguf_override(&m.g, "tokenizer.ggml.unknown_token_id=int:-1", &err));
    tokenizer_destroy(m.t);
    assert_true(tokenizer_create(&m.t, &m.g, &err));
    assert_false(tokenizer_encode(m.t, m.arena, text_of("a\x01"), false, &ids, &err));
    assert_int_equal(err.code, LATHE_UNSUPPORTED);
    assert_int_equal(ids.len, 0);
    made_close(&m);
}

#define OF(name, function, argument)                                                               \
    { name, function, NULL, NULL, (void *)(uintptr_t)argument }

int main(void) {
    const struct CMUnitTest tests[] = {
        OF("vectors_deepseek_coder", vocabulary_vectors, "deepseek-coder"),
        OF("vectors_deepseek_llm", vocabulary_vectors, "deepseek-llm"),
        OF("vectors_gpt_2", vocabulary_vectors, "gpt-2"),
        OF("vectors_llama_bpe", vocabulary_vectors, "llama-bpe"),
        OF("vectors_llama_spm", vocabulary_vectors, "llama-spm"),
        OF("vectors_phi_3", vocabulary_vectors, "phi-3"),
        OF("vectors_qwen2", vocabulary_vectors, "qwen2"),
        OF("vectors_starcoder", vocabulary_vectors, "starcoder"),
        OF("golden_tiny_glm", golden_tokens, "tiny-glm"),
        OF("golden_tiny_dsv2", golden_tokens, "tiny-dsv2"),
        OF("golden_tiny_youtu", golden_tokens, "tiny-youtu"),
        OF("golden_tiny_llama", golden_tokens, "tiny-llama"),
        OF("golden_tiny_qwen3moe", golden_tokens, "tiny-qwen3moe"),
        cmocka_unit_test(newlines_look_ahead),
        cmocka_unit_test(accents_dashes_digits_emoji),
        cmocka_unit_test(runs_of_newlines),
        cmocka_unit_test(phonetic_letters),
        cmocka_unit_test(other_pretokenizers),
        cmocka_unit_test(every_pretokenizer_compiles),
        cmocka_unit_test(unknown_pretokenizer_is_named),
        cmocka_unit_test(space_prefix_as_the_file_says),
        cmocka_unit_test(bytes_that_are_no_text),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(long_texts_take_linear_time),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(merges_go_by_rank),
        cmocka_unit_test(special_tokens_longest_first),
        cmocka_unit_test(special_text_of_a_user_stays_text),
        cmocka_unit_test(user_text_in_real_vocabularies),
        cmocka_unit_test(segments_keep_markup_apart),
        cmocka_unit_test(counts_are_checked),
        cmocka_unit_test(ends_are_found),
        cmocka_unit_test(ends_of_real_models),
        cmocka_unit_test(scores_decide_the_merges),
        cmocka_unit_test(characters_without_a_token),
        cmocka_unit_test(unknown_kinds_of_tokenizers),
        cmocka_unit_test(damaged_vocabularies),
        cmocka_unit_test(bytes_without_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

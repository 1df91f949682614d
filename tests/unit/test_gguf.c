// test_gguf: model files, right and wrong, made byte by byte here, and the shared ones where they
// lie beside. Files are handed over in exactly sized heap blocks, so that a sanitizer sees any read
// past the end.
#include "unit/gguf_bytes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#undef fail // cmocka has a macro of this name, too
#include <cmocka.h>

// ---- making files

static void put_zeros(Bytes *f, size_t n) {
    for (size_t i = 0; i < n; i++) builder_char(&f->b, (char)i);
}

// ---- opening them

typedef struct Opened {
    Gguf g;
    Error err;
    uint8_t *data;
    bool is_open;
} Opened;

static Opened open_part_of(Bytes *f, size_t nbytes) {
    Opened o = {.data = malloc(nbytes ? nbytes : 1)};
    if (nbytes) memcpy(o.data, f->b.at, nbytes);
    o.is_open = gguf_open_memory(&o.g, "test.gguf", o.data, nbytes, &o.err);
    return o;
}

static void opened_close(Opened *o) {
    if (o->is_open) gguf_close(&o->g);
    free(o->data);
}

static void expect_open(Bytes *f) {
    Opened o = open_part_of(f, f->b.len);
    if (!o.is_open) fail_msg("%s", o.err.text);
    opened_close(&o);
    arena_destroy(f->arena);
}

static void expect_refusal(Bytes *f, ErrorCode code, const char *words) {
    Opened o = open_part_of(f, f->b.len);
    assert_false(o.is_open);
    if (!strstr(o.err.text, words)) fail_msg("\"%s\" does not say \"%s\"", o.err.text, words);
    assert_int_equal(o.err.code, code);
    opened_close(&o);
    arena_destroy(f->arena);
}

// Three metadata keys and two tensors: F32 [4, 2] and Q4_0 [64].
static Bytes small_model(uint32_t version) {
    Bytes f = bytes_new();
    put_header(&f, version, 2, 3);
    put_text(&f, "general.architecture"), put_u32(&f, GGUF_TEXT), put_text(&f, "llama");
    put_key_u32(&f, "llama.block_count", 7);
    put_text(&f, "tokenizer.ggml.tokens"), put_u32(&f, GGUF_ARRAY), put_u32(&f, GGUF_TEXT),
        put_u64(&f, 2);
    put_text(&f, "a"), put_text(&f, "");
    put_tensor(&f, "x", 2, (uint64_t[]){4, 2}, 0, 0);
    put_tensor(&f, "q", 1, (uint64_t[]){64}, 2, 32);
    put_padding(&f, 32);
    put_zeros(&f, 32 + 36);
    return f;
}

// One tensor of these dimensions and this type, with its data.
static Bytes one_tensor(uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset,
                        size_t data_bytes) {
    Bytes f = bytes_new();
    put_header(&f, 3, 1, 0);
    put_tensor(&f, "t", n_dims, ne, type, offset);
    put_padding(&f, 32);
    put_zeros(&f, data_bytes);
    return f;
}

// ---- right files

static void reads_values_and_tensors(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        Bytes f = small_model(version);
        Opened o = open_part_of(&f, f.b.len);
        Gguf *g = &o.g;
        if (!o.is_open) fail_msg("%s", o.err.text);
        assert_int_equal(g->version, version);
        assert_int_equal(g->keys.len, 3);
        assert_int_equal(g->tensors.len, 2);
        assert_int_equal(g->file_bytes, f.b.len);
        Text arch;
        assert_true(gguf_text(g, "general.architecture", &arch));
        assert_true(text_is(arch, "llama"));
        uint32_t blocks;
        assert_true(gguf_u32(g, "llama.block_count", &blocks));
        assert_int_equal(blocks, 7);
        const GgufValue *tokens = gguf_value(g, "tokenizer.ggml.tokens");
        assert_int_equal(tokens->count, 2);
        assert_true(text_is(tokens->texts[0], "a"));
        assert_int_equal(tokens->texts[1].len, 0);
        const GgufTensor *x = gguf_tensor(g, "x"), *q = gguf_tensor(g, "q");
        assert_int_equal(x->n_dims, 2);
        assert_int_equal(x->ne[0] * 100 + x->ne[1] * 10 + x->ne[2], 421);
        assert_int_equal(x->nbytes, 32);
        assert_int_equal(q->nbytes, 36);
        assert_ptr_equal(q->data, x->data + 32);
        assert_int_equal(q->data[3], 35);
        assert_null(gguf_tensor(g, "y"));
        assert_null(gguf_value(g, "y"));
        opened_close(&o);
        arena_destroy(f.arena);
    }
}

static void converts_scalars(void **state) {
    (void)state;
    Bytes f = bytes_new();
    int64_t i64 = -5000000000, huge = INT64_MIN;
    uint64_t u64 = UINT64_MAX;
    double f64 = 1e300, whole = 12.0;
    float f32 = 0.5f;
    int8_t i8 = -3;
    uint16_t u16 = 65535;
    uint8_t yes = 1;
    put_header(&f, 3, 0, 9);
    put_key_scalar(&f, "i64", GGUF_I64, &i64, 8);
    put_key_scalar(&f, "min", GGUF_I64, &huge, 8);
    put_key_scalar(&f, "u64", GGUF_U64, &u64, 8);
    put_key_scalar(&f, "f64", GGUF_F64, &f64, 8);
    put_key_scalar(&f, "whole", GGUF_F64, &whole, 8);
    put_key_scalar(&f, "f32", GGUF_F32, &f32, 4);
    put_key_scalar(&f, "i8", GGUF_I8, &i8, 1);
    put_key_scalar(&f, "u16", GGUF_U16, &u16, 2);
    put_key_scalar(&f, "yes", GGUF_BOOL, &yes, 1);
    Opened o = open_part_of(&f, f.b.len);
    Gguf *g = &o.g;
    assert_true(o.is_open);
    int64_t i;
    uint32_t u;
    float x;
    bool b;
    Text t;
    assert_true(gguf_i64(g, "i64", &i) && i == i64);
    assert_true(gguf_i64(g, "min", &i) && i == INT64_MIN);
    assert_false(gguf_i64(g, "u64", &i));
    assert_false(gguf_i64(g, "f64", &i));
    assert_false(gguf_i64(g, "f32", &i));
    assert_true(gguf_u32(g, "whole", &u) && u == 12);
    assert_false(gguf_u32(g, "i8", &u));
    assert_true(gguf_u32(g, "u16", &u) && u == 65535);
    assert_true(gguf_u32(g, "yes", &u) && u == 1);
    assert_true(gguf_f32(g, "f32", &x) && x == 0.5f);
    assert_true(gguf_f32(g, "i8", &x) && x == -3.0f);
    assert_false(gguf_f32(g, "f64", &x));
    assert_true(gguf_bool(g, "yes", &b) && b);
    assert_false(gguf_bool(g, "u16", &b));
    assert_false(gguf_text(g, "yes", &t));
    assert_false(gguf_i64(g, "absent", &i));
    opened_close(&o);
    arena_destroy(f.arena);
}

static void reads_arrays_of_numbers(void **state) {
    (void)state;
    Bytes f = bytes_new();
    put_header(&f, 3, 0, 2);
    put_text(&f, "heads"), put_u32(&f, GGUF_ARRAY), put_u32(&f, GGUF_I32), put_u64(&f, 3);
    put(&f, (int32_t[]){-1, 2, 3}, 12);
    put_text(&f, "factors"), put_u32(&f, GGUF_ARRAY), put_u32(&f, GGUF_F32), put_u64(&f, 2);
    put(&f, (float[]){0.25f, 8.0f}, 8);
    Opened o = open_part_of(&f, f.b.len);
    assert_true(o.is_open);
    const GgufValue *heads = gguf_value(&o.g, "heads"), *factors = gguf_value(&o.g, "factors");
    assert_int_equal(gguf_array_i64(heads, 0), -1);
    assert_int_equal(gguf_array_i64(heads, 2), 3);
    assert_int_equal(gguf_array_i64(heads, 3), 0);
    assert_true(gguf_array_f32(factors, 0) == 0.25f);
    assert_int_equal(gguf_array_i64(factors, 1), 8);
    assert_true(gguf_array_f32(heads, 1) == 2.0f);
    opened_close(&o);
    arena_destroy(f.arena);
}

static void overrides_win(void **state) {
    (void)state;
    Bytes f = small_model(3);
    Opened o = open_part_of(&f, f.b.len);
    Gguf *g = &o.g;
    Error err;
    uint32_t u;
    float x;
    bool b;
    Text t;
    assert_true(gguf_override(g, "llama.block_count=int:9", &err));
    assert_true(gguf_u32(g, "llama.block_count", &u) && u == 9);
    assert_true(gguf_override(g, "a=float:1e-3", &err) && gguf_f32(g, "a", &x) && x == 1e-3f);
    assert_true(gguf_override(g, "b=bool:false", &err) && gguf_bool(g, "b", &b) && !b);
    assert_true(gguf_override(g, "c=str:x=int:1", &err) && gguf_text(g, "c", &t) &&
                text_is(t, "x=int:1"));
    const char *wrong[] = {"",          "=int:1",     "a",        "a=",
                           "a=int",     "a=int:",     "a=int:1x", "a=int:99999999999999999999",
                           "a=float:x", "a=bool:yes", "a=u8:1",   "a=float:1e999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(gguf_override(g, wrong[i], &err));
        assert_int_equal(err.code, LATHE_BAD_REQUEST);
    }
    opened_close(&o);
    arena_destroy(f.arena);
}

static void tail_padding_is_optional(void **state) { // B10
    (void)state;
    Bytes without = small_model(3);
    expect_open(&without);
    Bytes more = small_model(3);
    put_zeros(&more, 1000);
    expect_open(&more);
    Bytes vocabulary_only = bytes_new();
    put_header(&vocabulary_only, 3, 0, 1);
    put_key_u32(&vocabulary_only, "k", 1);
    expect_open(&vocabulary_only);
}

static void tensors_may_overlap_and_be_scalars(void **state) {
    (void)state;
    Bytes f = bytes_new();
    put_header(&f, 3, 3, 0);
    put_tensor(&f, "a", 1, (uint64_t[]){8}, 0, 0);
    put_tensor(&f, "b", 1, (uint64_t[]){4}, 0, 0);
    put_tensor(&f, "s", 0, NULL, 0, 0);
    put_padding(&f, 32);
    put_zeros(&f, 32);
    expect_open(&f);
}

static void knows_the_storage_types(void **state) {
    (void)state;
    assert_string_equal(ggml_type(2)->name, "Q4_0");
    assert_int_equal(ggml_type(2)->block_bytes, 18);
    assert_int_equal(ggml_type(39)->block_bytes, 17);
    assert_int_equal(ggml_type(14)->block_elements, 256);
    assert_int_equal(ggml_type(30)->block_bytes, 2);
    assert_null(ggml_type(4));
    assert_null(ggml_type(UINT32_MAX));
}

// ---- wrong files

static void refuses_what_is_no_gguf(void **state) {
    (void)state;
    const struct {
        const char *bytes, *words;
    } cases[] = {
        {"", "is empty"},
        {"GG", "does not begin"},
        {"GGUF\3", "too short"},
        {"lmgg-----------------", "before GGUF"},
        {"<!DOCTYPE html><html>", "web page"},
        {"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"},
        {"\x7f"
         "ELF",
         "does not begin"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes f = bytes_new();
        put(&f, cases[i].bytes, strlen(cases[i].bytes));
        expect_refusal(&f, LATHE_BAD_FILE, cases[i].words);
    }
}

static void refuses_versions(void **state) {
    (void)state;
    const struct {
        uint32_t version;
        const char *words;
    } cases[] = {
        {1, "version 1"},
        {0x03000000, "big-endian"},
        {4, "version 4"},
        {0, "version 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes f = bytes_new();
        put_header(&f, cases[i].version, 0, 0);
        expect_refusal(&f, LATHE_UNSUPPORTED, cases[i].words);
    }
}

static void refuses_dimension_zero(void **state) { // B01
    (void)state;
    Bytes f = bytes_new();
    put_header(&f, 3, 1, 0);
    put_tensor(&f, "", 2, (uint64_t[]){1, 0}, 0, 0);
    put_padding(&f, 32);
    expect_refusal(&f, LATHE_BAD_FILE, "tensor '' has dimension 0");
}

static void refuses_many_dimensions(void **state) { // B02
    (void)state;
    uint64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    Bytes five = one_tensor(5, ones, 0, 0, 64), nine = one_tensor(9, ones, 0, 0, 64);
    expect_refusal(&five, LATHE_BAD_FILE, "has 5 dimensions");
    expect_refusal(&nine, LATHE_BAD_FILE, "has 9 dimensions");
    Bytes lie = bytes_new();
    put_header(&lie, 3, 1, 0);
    put_text(&lie, "t"), put_u32(&lie, UINT32_MAX), put_zeros(&lie, 64);
    expect_refusal(&lie, LATHE_BAD_FILE, "dimensions");
}

static void refuses_counts_that_wrap(void **state) { // B03
    (void)state;
    const uint64_t cases[][4] = {
        {UINT64_MAX, 2, 1, 1},          {UINT64_MAX, 1, 1, 1},
        {1ull << 32, 1ull << 32, 1, 1}, {1ull << 62, 2, 1, 1},
        {1ull << 63, 1, 1, 1},          {1ull << 21, 1ull << 21, 1ull << 21, 1ull << 21},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes f = one_tensor(4, cases[i], 0, 0, 64);
        expect_refusal(&f, LATHE_BAD_FILE, "more elements");
    }
    Bytes bytes_wrap = one_tensor(1, (uint64_t[]){INT64_MAX}, 28, 0, 64);
    expect_refusal(&bytes_wrap, LATHE_BAD_FILE, "more bytes");
    Bytes end_wraps = one_tensor(1, (uint64_t[]){1ull << 40}, 0, UINT64_MAX - 31, 64);
    expect_refusal(&end_wraps, LATHE_BAD_FILE, "incomplete download?");
}

static void refuses_long_lengths(void **state) { // B04
    (void)state;
    const uint64_t lengths[] = {UINT64_MAX, 1ull << 40, UINT64_MAX - 7, 1ull << 63, 60};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        Bytes key = bytes_new();
        put_header(&key, 3, 0, 1);
        put_u64(&key, lengths[i]), put_zeros(&key, 40);
        expect_refusal(&key, LATHE_BAD_FILE, "incomplete download?");
        Bytes value = bytes_new();
        put_header(&value, 3, 0, 1);
        put_text(&value, "k"), put_u32(&value, GGUF_TEXT), put_u64(&value, lengths[i]),
            put_zeros(&value, 40);
        expect_refusal(&value, LATHE_BAD_FILE, "'k'");
        for (uint32_t type = GGUF_U8; type <= GGUF_TEXT; type += GGUF_TEXT) {
            Bytes array = bytes_new();
            put_header(&array, 3, 0, 1);
            put_text(&array, "k"), put_u32(&array, GGUF_ARRAY), put_u32(&array, type);
            put_u64(&array, lengths[i]), put_zeros(&array, 40);
            expect_refusal(&array, LATHE_BAD_FILE, "'k'");
        }
        Bytes name = bytes_new();
        put_header(&name, 3, 1, 0);
        put_u64(&name, lengths[i]), put_zeros(&name, 40);
        expect_refusal(&name, LATHE_BAD_FILE, "incomplete download?");
    }
    Bytes wide = bytes_new(); // count × 8 wraps to a small number
    put_header(&wide, 3, 0, 1);
    put_text(&wide, "k"), put_u32(&wide, GGUF_ARRAY), put_u32(&wide, GGUF_U64),
        put_u64(&wide, (1ull << 61) + 1);
    put_zeros(&wide, 40);
    expect_refusal(&wide, LATHE_BAD_FILE, "'k'");
}

static void refuses_header_counts(void **state) {
    (void)state;
    const uint64_t counts[] = {UINT64_MAX, 1ull << 62, 1ull << 32, 1000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        Bytes tensors = bytes_new(), keys = bytes_new();
        put_header(&tensors, 3, counts[i], 0), put_zeros(&tensors, 100);
        put_header(&keys, 3, 0, counts[i]), put_zeros(&keys, 100);
        expect_refusal(&tensors, LATHE_BAD_FILE, "the header counts");
        expect_refusal(&keys, LATHE_BAD_FILE, "the header counts");
    }
}

static void refuses_alignments(void **state) { // B05
    (void)state;
    const uint32_t wrong[] = {0, 1, 24, 33, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Bytes f = bytes_new();
        put_header(&f, 3, 0, 1);
        put_key_u32(&f, "general.alignment", wrong[i]);
        expect_refusal(&f, LATHE_BAD_FILE, "general.alignment");
    }
    Bytes text = bytes_new();
    put_header(&text, 3, 0, 1);
    put_text(&text, "general.alignment"), put_u32(&text, GGUF_TEXT), put_text(&text, "32");
    expect_refusal(&text, LATHE_BAD_FILE, "general.alignment");
    Bytes right = bytes_new();
    put_header(&right, 3, 1, 1);
    put_key_u32(&right, "general.alignment", 128);
    put_tensor(&right, "t", 1, (uint64_t[]){4}, 0, 128);
    put_padding(&right, 128), put_zeros(&right, 128 + 16);
    expect_open(&right);
    Bytes misplaced = one_tensor(1, (uint64_t[]){4}, 0, 16, 64);
    expect_refusal(&misplaced, LATHE_BAD_FILE, "no multiple of the alignment 32");
}

static void refuses_truncation_anywhere(void **state) { // B06
    (void)state;
    Bytes f = small_model(3);
    for (size_t n = 0; n < f.b.len; n++) {
        Opened o = open_part_of(&f, n);
        assert_false(o.is_open);
        assert_true(strlen(o.err.text) > 20);
        opened_close(&o);
    }
    arena_destroy(f.arena);
    Bytes short_data = one_tensor(1, (uint64_t[]){64}, 0, 0, 10);
    expect_refusal(&short_data, LATHE_BAD_FILE,
                   "the file ends at byte 74, but tensor 't' needs 320: incomplete download?");
    Bytes far = one_tensor(1, (uint64_t[]){64}, 0, 1u << 20, 256);
    expect_refusal(&far, LATHE_BAD_FILE, "incomplete download?");
}

static void refuses_empty_and_double_names(void **state) { // B08
    (void)state;
    Bytes empty = bytes_new();
    put_header(&empty, 3, 0, 1);
    put_key_u32(&empty, "", 1);
    expect_refusal(&empty, LATHE_BAD_FILE, "empty name");
    Bytes keys = bytes_new();
    put_header(&keys, 3, 0, 2);
    put_key_u32(&keys, "k", 1), put_key_u32(&keys, "k", 1);
    expect_refusal(&keys, LATHE_BAD_FILE, "'k' stands twice");
    Bytes tensors = bytes_new();
    put_header(&tensors, 3, 2, 0);
    put_tensor(&tensors, "t", 1, (uint64_t[]){1}, 0, 0),
        put_tensor(&tensors, "t", 1, (uint64_t[]){1}, 0, 0);
    put_padding(&tensors, 32), put_zeros(&tensors, 32);
    expect_refusal(&tensors, LATHE_BAD_FILE, "'t' stands twice");
}

static void refuses_types(void **state) {
    (void)state;
    Bytes value = bytes_new(), item = bytes_new(), nested = bytes_new();
    put_header(&value, 3, 0, 1), put_text(&value, "k"), put_u32(&value, 13), put_zeros(&value, 32);
    expect_refusal(&value, LATHE_BAD_FILE, "unknown type 13");
    put_header(&item, 3, 0, 1), put_text(&item, "k"), put_u32(&item, GGUF_ARRAY),
        put_u32(&item, 99);
    put_u64(&item, 1), put_zeros(&item, 32);
    expect_refusal(&item, LATHE_BAD_FILE, "unknown type 99");
    put_header(&nested, 3, 0, 1), put_text(&nested, "k"), put_u32(&nested, GGUF_ARRAY),
        put_u32(&nested, GGUF_ARRAY);
    put_u64(&nested, 1), put_zeros(&nested, 32);
    expect_refusal(&nested, LATHE_UNSUPPORTED, "array of arrays");
    Bytes storage = one_tensor(1, (uint64_t[]){32}, 4, 0, 64);
    expect_refusal(&storage, LATHE_UNSUPPORTED, "tensor 't' has the unknown storage type 4");
    Bytes row = one_tensor(1, (uint64_t[]){33}, 2, 0, 64);
    expect_refusal(&row, LATHE_BAD_FILE, "Q4_0 cannot store in blocks of 32");
}

static void messages_show_no_control_bytes(void **state) {
    (void)state;
    Bytes f = bytes_new();
    put_header(&f, 3, 1, 0);
    put_tensor(&f, "\x1b[2J\xff\n", 1, (uint64_t[]){0}, 0, 0);
    put_padding(&f, 32);
    expect_refusal(&f, LATHE_BAD_FILE, "tensor '?[2J?\077' has");
}

// ---- split models

typedef struct Folder {
    char path[256];
} Folder;

static Folder folder_new(void) {
    Folder folder;
    Error err;
    assert_true(dir_temporary(folder.path, sizeof folder.path, "lathe-test-", &err));
    return folder;
}

static void write_part(const Folder *folder, const char *name, int no, int count, int n_tensors) {
    Bytes f = bytes_new();
    uint16_t no16 = (uint16_t)no, count16 = (uint16_t)count;
    int32_t n32 = n_tensors;
    put_header(&f, 3, 1, 4);
    put_key_scalar(&f, "split.no", GGUF_U16, &no16, 2);
    put_key_scalar(&f, "split.count", GGUF_U16, &count16, 2);
    put_key_scalar(&f, "split.tensors.count", GGUF_I32, &n32, 4);
    put_key_u32(&f, "general.part", (uint32_t)no);
    put_tensor(&f, arena_printf(f.arena, "t%d", no), 1, (uint64_t[]){4}, 0, 0);
    put_padding(&f, 32);
    float data[4] = {(float)no, 1, 2, 3};
    put(&f, data, sizeof data);
    Error err;
    if (!file_write_atomic(arena_printf(f.arena, "%s/%s", folder->path, name), f.b.at, f.b.len,
                           &err))
        fail_msg("%s", err.text);
    arena_destroy(f.arena);
}

static void expect_path_refusal(const Folder *folder, const char *name, const char *words) {
    char path[512];
    Gguf g;
    Error err;
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    assert_false(gguf_open(&g, path, &err));
    if (!strstr(err.text, words)) fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void opens_split_models(void **state) {
    (void)state;
    Folder folder = folder_new();
    char path[512];
    for (int no = 0; no < 3; no++) {
        snprintf(path, sizeof path, "m-%05d-of-00003.gguf", no + 1);
        write_part(&folder, path, no, 3, 3);
    }
    snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", folder.path);
    Gguf g;
    Error err;
    if (!gguf_open(&g, path, &err)) fail_msg("%s", err.text);
    assert_int_equal(g.n_files, 3);
    assert_int_equal(g.tensors.len, 3);
    for (int no = 0; no < 3; no++) {
        char name[16];
        float first;
        snprintf(name, sizeof name, "t%d", no);
        const GgufTensor *t = gguf_tensor(&g, name);
        memcpy(&first, t->data, sizeof first);
        assert_true(first == (float)no);
        assert_int_equal(t->file, no);
    }
    uint32_t part;
    assert_true(gguf_u32(&g, "general.part", &part) &&
                part == 0); // the first part's metadata counts
    gguf_close(&g);
    dir_remove(folder.path);
}

static void refuses_broken_splits(void **state) {
    (void)state;
    Folder folder = folder_new();
    write_part(&folder, "m-00001-of-00002.gguf", 0, 2, 2);
    expect_path_refusal(&folder, "m-00001-of-00002.gguf", "part 2 is missing");
    expect_path_refusal(&folder, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
    write_part(&folder, "m-00002-of-00002.gguf", 1, 2, 2);
    expect_path_refusal(&folder, "m-00002-of-00002.gguf", "open the first");
    expect_path_refusal(&folder, "m-00002-of-00002.gguf", "m-00001-of-00002.gguf");
    write_part(&folder, "renamed.gguf", 0, 2, 2);
    expect_path_refusal(&folder, "renamed.gguf", "-00001-of-00002.gguf");
    write_part(&folder, "w-00001-of-00002.gguf", 0, 2, 2);
    write_part(&folder, "w-00002-of-00002.gguf", 0, 2, 2);
    expect_path_refusal(&folder, "w-00001-of-00002.gguf", "renamed?");
    write_part(&folder, "n-00001-of-00002.gguf", 0, 2, 5);
    write_part(&folder, "n-00002-of-00002.gguf", 1, 2, 5);
    expect_path_refusal(&folder, "n-00001-of-00002.gguf", "split.tensors.count is 5");
    write_part(&folder, "z-00001-of-00002.gguf", 7, 2, 2);
    expect_path_refusal(&folder, "z-00001-of-00002.gguf", "cannot be");
    write_part(&folder, "s-00001-of-00002.gguf", 1, 2, 2);
    expect_path_refusal(&folder, "s-00001-of-00002.gguf", "its name says part 1: renamed?");
    expect_path_refusal(&folder, "absent.gguf", "absent.gguf");
    dir_remove(folder.path);
}

// ---- speed (B11) and shared files

static Bytes vocabulary(uint64_t n) {
    Bytes f = bytes_new();
    char word[32];
    put_header(&f, 3, 0, 3);
    put_text(&f, "tokenizer.ggml.tokens"), put_u32(&f, GGUF_ARRAY), put_u32(&f, GGUF_TEXT),
        put_u64(&f, n);
    for (uint64_t i = 0; i < n; i++)
        snprintf(word, sizeof word, "token%llu", (unsigned long long)i), put_text(&f, word);
    put_text(&f, "tokenizer.ggml.merges"), put_u32(&f, GGUF_ARRAY), put_u32(&f, GGUF_TEXT),
        put_u64(&f, n + n / 2);
    for (uint64_t i = 0; i < n + n / 2; i++)
        snprintf(word, sizeof word, "a%llu b", (unsigned long long)i), put_text(&f, word);
    put_text(&f, "tokenizer.ggml.scores"), put_u32(&f, GGUF_ARRAY), put_u32(&f, GGUF_F32),
        put_u64(&f, n);
    put_zeros(&f, 4 * n);
    return f;
}

static void large_vocabularies_stay_linear(void **state) {
    (void)state;
    Bytes f = vocabulary(200000);
    Opened o = open_part_of(&f, f.b.len);
    assert_true(o.is_open);
    assert_int_equal(gguf_value(&o.g, "tokenizer.ggml.merges")->count, 300000);
    assert_true(arena_used(o.g.arena) < 3 * f.b.len); // work and memory grow with the file
    opened_close(&o);
    arena_destroy(f.arena);
}

static void shared_file_is_missing(const char *path) {
    print_message("skipped: %s is not here (set LATHE_SHARED)\n", path);
    skip();
}

static void opens_the_shared_files(void **state) {
    (void)state;
    const char *root = getenv("LATHE_SHARED"), *names[] = {
                                                   "vocabs/ggml-vocab-llama-bpe.gguf",
                                                   "vocabs/ggml-vocab-qwen2.gguf",
                                                   "vocabs/ggml-vocab-phi-3.gguf",
                                                   "models/storyteller/storyteller-Q4_K_M.gguf",
                                                   "models/storyteller/storyteller-f16.gguf",
                                               };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        Gguf g;
        Error err;
        snprintf(path, sizeof path, "%s/%s", root && *root ? root : "../shared", names[i]);
        if (!file_exists(path)) shared_file_is_missing(path);
        if (!gguf_open(&g, path, &err)) fail_msg("%s", err.text);
        Text arch;
        assert_true(gguf_text(&g, "general.architecture", &arch));
        assert_true(g.file_bytes > 100000);
        if (strstr(names[i], "storyteller")) {
            const GgufTensor *t = gguf_tensor(&g, "token_embd.weight");
            assert_true(t && t->ne[0] == 256 && t->ne[1] == 4096);
        }
        gguf_close(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values_and_tensors),
        cmocka_unit_test(converts_scalars),
        cmocka_unit_test(reads_arrays_of_numbers),
        cmocka_unit_test(overrides_win),
        cmocka_unit_test(tail_padding_is_optional),
        cmocka_unit_test(tensors_may_overlap_and_be_scalars),
        cmocka_unit_test(knows_the_storage_types),
        cmocka_unit_test(refuses_what_is_no_gguf),
        cmocka_unit_test(refuses_versions),
        cmocka_unit_test(refuses_dimension_zero),
        cmocka_unit_test(refuses_many_dimensions),
        cmocka_unit_test(refuses_counts_that_wrap),
        cmocka_unit_test(refuses_long_lengths),
        cmocka_unit_test(refuses_header_counts),
        cmocka_unit_test(refuses_alignments),
        cmocka_unit_test(refuses_truncation_anywhere),
        cmocka_unit_test(refuses_empty_and_double_names),
        cmocka_unit_test(refuses_types),
        cmocka_unit_test(messages_show_no_control_bytes),
        cmocka_unit_test(opens_split_models),
        cmocka_unit_test(refuses_broken_splits),
        cmocka_unit_test(large_vocabularies_stay_linear),
        cmocka_unit_test(opens_the_shared_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

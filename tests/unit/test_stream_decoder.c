// test_stream_decoder: characters over several pushes, invalid bytes, and any cut of any bytes.
// In: bytes and the places where they are cut. Out: one cmocka group.
// Invariant: a stream is valid UTF-8 at every moment and ends as utf8_clean of the whole.
#include "text/stream_decoder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static uint32_t random_next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static const char *streamed(Arena *arena, Text bytes, const size_t *cuts, size_t n_cuts) {
    StreamDecoder d = {0};
    TextBuilder out = builder(arena);
    size_t at = 0;
    for (size_t i = 0; i <= n_cuts; i++) {
        size_t end = i < n_cuts ? cuts[i] : bytes.len;
        stream_decoder_push(&d, (Text){bytes.at + at, end - at}, &out);
        assert_true(utf8_is_valid(builder_view(&out)));
        at = end;
    }
    stream_decoder_flush(&d, &out);
    return builder_cstr(&out);
}

static void streams_never_cut_a_character(void **state) { // B27
    (void)state;
    Arena *arena = arena_create();
    const char *cat = "\xF0\x9F\x98\xB8";
    for (size_t cut = 0; cut <= 4; cut++)
        assert_string_equal(streamed(arena, text_of(cat), &cut, 1), cat);
    StreamDecoder d = {0};
    TextBuilder out = builder(arena);
    stream_decoder_push(&d, text_of("\xF0\x9F\x98"), &out);
    assert_int_equal(out.len, 0);
    stream_decoder_push(&d, text_of("\xB8!"), &out);
    assert_string_equal(builder_cstr(&out), "\xF0\x9F\x98\xB8!");
    stream_decoder_push(&d, text_of("\xE2\x82"), &out);
    stream_decoder_flush(&d, &out);
    stream_decoder_flush(&d, &out);
    assert_string_equal(builder_cstr(&out), "\xF0\x9F\x98\xB8!\xEF\xBF\xBD");
    arena_destroy(arena);
}

static void streams_replace_invalid_bytes(void **state) { // B29
    (void)state;
    Arena *arena = arena_create();
    size_t one = 1;
    assert_string_equal(streamed(arena, text_of("\x80"), NULL, 0), "\xEF\xBF\xBD");
    assert_string_equal(streamed(arena, text_of("\xC3("), &one, 1), "\xEF\xBF\xBD(");
    assert_string_equal(streamed(arena, text_of("\xC3\xC3\xA9"), &one, 1), "\xEF\xBF\xBD\xC3\xA9");
    assert_string_equal(streamed(arena, text_of("\xED\xA0\x80"), &one, 1),
                        "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    arena_destroy(arena);
}

static void streams_equal_the_whole(void **state) {
    (void)state;
    Arena *arena = arena_create();
    static const uint8_t likely[] = {0xF0, 0x9F, 0x98, 0xB8, 0xE2, 0x82, 0xAC, 0xC3,
                                     0xA9, 'a',  0xED, 0xA0, 0xFF, 0xF4, 0x8F, 0xE0};
    uint32_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        char bytes[12];
        size_t len = random_next(&seed) % 13, cuts[4], n_cuts = random_next(&seed) % 5, from = 0;
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)likely[random_next(&seed) % sizeof likely];
        for (size_t i = 0; i < n_cuts; i++)
            from = cuts[i] = from + random_next(&seed) % (len - from + 1);
        Text whole = utf8_clean(arena, (Text){bytes, len});
        assert_string_equal(streamed(arena, (Text){bytes, len}, cuts, n_cuts), whole.at);
        arena_reset(arena);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_never_cut_a_character),
        cmocka_unit_test(streams_replace_invalid_bytes),
        cmocka_unit_test(streams_equal_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

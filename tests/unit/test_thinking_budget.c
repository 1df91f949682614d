// test_thinking_budget: which tokens are forced, and when, whatever tokens thinking and its markers are made of.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "text/thinking_budget.h"
#include "unit/made_vocabulary.h"

#undef fail // cmocka has its own
#include <cmocka.h>

static const Token tokens[] = {{"ab", 1, 0}, {"</thi", 1, 0}, {"nk>c", 1, 0}, {"[T]", 4, 0}, {"[/T]", 4, 0}, {"Ċ[T]ab", 1, 0}};
enum { AB = 256, HALF, REST, OPEN, CLOSE, OPEN_AB };
static const ThinkingFormat spelled = {"<think>", "</think>"}, marked = {"[T]", "[/T]"};

static Tokenizer *tokenizer;
static Gguf gguf;
static uint8_t *copy;

static int tokenizer_make(void **state) {
    (void)state;
    Bytes f = bpe_file(tokens, sizeof tokens / sizeof *tokens, NULL, 0, "gpt-2");
    Error err = {0};
    size_t nbytes = f.b.len;
    copy = calloc(1, nbytes + 4096);
    memcpy(copy, f.b.at, nbytes);
    arena_destroy(f.arena);
    return !(gguf_open_memory(&gguf, "made", copy, nbytes, &err) && tokenizer_create(&tokenizer, &gguf, &err));
}

static int tokenizer_drop(void **state) {
    (void)state;
    tokenizer_destroy(tokenizer);
    gguf_close(&gguf);
    free(copy);
    return 0;
}

// What is drawn where nothing is forced (ends with −1), and all tokens that come of it.
typedef struct Row {
    const ThinkingFormat *format;
    bool is_open;
    int most;
    int32_t drawn[12], all[20];
} Row;

static const Row rows[] = {
    {&marked, true, 2, {AB, AB, AB, AB, -1}, {AB, AB, CLOSE, AB, AB, -1}},
    {&marked, true, 0, {AB, -1}, {CLOSE, AB, -1}},
    {&marked, true, 9, {AB, CLOSE, AB, AB, -1}, {AB, CLOSE, AB, AB, -1}},
    {&marked, false, 1, {OPEN, AB, AB, AB, -1}, {OPEN, AB, CLOSE, AB, AB, -1}},
    {&marked, false, 1, {'\n', OPEN, AB, AB, -1}, {'\n', OPEN, AB, CLOSE, AB, -1}},
    {&marked, false, 0, {OPEN_AB, AB, -1}, {OPEN_AB, CLOSE, AB, -1}},              // the thought's first bytes came with the marker
    {&marked, false, 0, {AB, OPEN, AB, AB, -1}, {AB, OPEN, AB, AB, -1}},           // an answer may quote it
    {&marked, true, 2, {AB, CLOSE, ' ', OPEN, AB, AB, -1}, {AB, CLOSE, ' ', OPEN, AB, CLOSE, AB, -1}},      // opened again
    {&marked, true, 1, {0xF0, 0x9F, 0x98, 0xB8, AB, -1}, {0xF0, 0x9F, 0x98, 0xB8, CLOSE, AB, -1}},          // a whole character
    {&marked, true, 1, {0xF0, 0x9F, 0x98, '(', AB, -1}, {0xF0, 0x9F, 0x98, '(', CLOSE, AB, -1}},            // none ever
    {&spelled, true, 1, {AB, AB, -1}, {AB, '<', '/', 't', 'h', 'i', 'n', 'k', '>', AB, -1}},
    {&spelled, true, 9, {AB, HALF, REST, AB, -1}, {AB, HALF, REST, AB, -1}},       // ended in the middle of a token
    {&spelled, true, 2, {AB, HALF, AB, -1}, {AB, HALF, '<', '/', 't', 'h', 'i', 'n', 'k', '>', AB, -1}},
    {&spelled, false, 1, {'<', 't', 'h', 'i', 'n', 'k', '>', AB, AB, -1},
     {'<', 't', 'h', 'i', 'n', 'k', '>', AB, '<', '/', 't', 'h', 'i', 'n', 'k', '>', AB, -1}},
};

static void markers_are_forced_when_due(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Row *row = &rows[i];
        Arena *arena = arena_create();
        ThinkingBudget *b;
        Error err = {0};
        int n = 0, drawn = 0;
        assert_true(thinking_budget_create(&b, arena, tokenizer, row->format, row->is_open, row->most, &err));
        for (; row->all[n] >= 0; n++) {
            int32_t forced = thinking_budget_forced(b), token = forced;
            if (forced < 0 && row->drawn[drawn] < 0) fail_msg("row %zu: nothing is forced as token %d", i, n);
            if (forced < 0) token = row->drawn[drawn++];
            if (token != row->all[n]) fail_msg("row %zu: token %d is %d", i, n, token);
            thinking_budget_take(b, token);
        }
        if (row->drawn[drawn] >= 0 || thinking_budget_forced(b) >= 0) fail_msg("row %zu: too much is forced", i);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(markers_are_forced_when_due)};
    return cmocka_run_group_tests_name("thinking_budget", tests, tokenizer_make, tokenizer_drop);
}

// test_pages: the pool of cache pages: what histories have in common is found, what is in use is never overwritten, the
// longest unused goes first, and what a file says about an earlier run is believed only where all of it is right.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kvcache.h"
#include "unit/open_model.h"

enum { SLOTS = 2, CONTEXT = 256, KEY = 77, VOCAB_MOST = 1024 };

typedef struct House {
    OpenModel m;
    PagePool *pool;
} House;

static bool house_open(House *h) {
    ModelOptions options = {.context = CONTEXT, .slots = SLOTS, .chunk = 1};   // one step to compile
    if (!open_model(&h->m, NULL, "tiny-llama", "f32", &options)) return false;
    h->pool = pages_create(h->m.model);
    return true;
}

static void house_close(House *h) {
    pages_destroy(h->pool);
    close_model(&h->m);
}

// A history of its own: `which` decides every token.
static void history(int32_t *tokens, int n, int which) {
    for (int i = 0; i < n; i++) tokens[i] = (i * 7 + which * 31 + i * i % 5) % 200 + 3;
}

static void write_down(House *h, int slot, const int32_t *tokens, int64_t from, int64_t to) {
    pages_reserve(h->pool, slot, to);
    pages_note(h->pool, slot, tokens, from, to);
}

// ---------------------------------------------------------------- sharing

static void common_beginnings_are_found(void **state) {
    (void)state;
    House h;
    int32_t first[200], second[CONTEXT];
    if (!house_open(&h)) skip();
    history(first, 200, 1);
    assert_int_equal(pages_begin(h.pool, 0, first, 200), 0);
    write_down(&h, 0, first, 0, 200);
    assert_int_equal(pages_known(h.pool), 4);
    history(second, CONTEXT, 2);
    memcpy(second, first, 150 * sizeof *first);
    assert_int_equal(pages_begin(h.pool, 1, second, 160), 150);
    assert_int_equal(pages_known(h.pool), 5);                           // two shared, one copied
    write_down(&h, 1, second, 150, 160);
    assert_int_equal(pages_begin(h.pool, 1, second, 160), 159);         // the last token is always evaluated
    assert_int_equal(pages_begin(h.pool, 1, second, 130), 129);
    assert_int_equal(pages_begin(h.pool, 0, first, 200), 199);          // unharmed by the other's
    assert_int_equal(pages_begin(h.pool, 0, first + 1, 100), 0);        // the same tokens elsewhere are other pages
    assert_int_equal(pages_begin(h.pool, 0, first, 1), 0);
    house_close(&h);
}

static Session *session_sharing(House *h, int slot) {
    SamplingOptions o = greedy();
    Session *s = session_new(&h->m, slot, &o);
    session_share(s, h->pool);
    return s;
}

// Logits behind tokens[0..n), and how many of these came from the pool.
static int64_t logits_of(Session *s, const int32_t *tokens, int64_t n, float *out) {
    Error err = {0};
    int32_t token;
    if (!session_prompt(s, tokens, n, NULL, NULL, &err) || !session_step(s, &token, &err)) fail_msg("%s", err.text);
    session_logits(s, out);
    return session_reused(s);
}

static void shared_pages_hold_the_same_numbers(void **state) {
    (void)state;
    House h;
    int32_t first[200], second[160];
    float alone[VOCAB_MOST], shared[VOCAB_MOST], again[VOCAB_MOST];
    if (!house_open(&h)) skip();
    size_t nbytes = (size_t)model_vocab_size(h.m.model) * sizeof(float);
    assert_in_range(nbytes, 1, sizeof alone);
    history(first, 200, 1);
    history(second, 160, 2);
    memcpy(second, first, 150 * sizeof *first);
    Session *a = session_sharing(&h, 0), *b = session_sharing(&h, 1);
    assert_int_equal(logits_of(a, second, 160, alone), 0);
    session_close(a), session_close(b);
    pages_destroy(h.pool);
    h.pool = pages_create(h.m.model);                                     // forgets everything
    a = session_sharing(&h, 0), b = session_sharing(&h, 1);
    assert_int_equal(logits_of(a, first, 200, again), 0);
    assert_int_equal(logits_of(b, second, 160, shared), 150);
    assert_memory_equal(shared, alone, nbytes);
    float first_again[VOCAB_MOST];
    assert_int_equal(logits_of(a, first, 200, first_again), 199);       // what the other wrote is not in these pages
    assert_memory_equal(first_again, again, nbytes);
    session_close(a), session_close(b);
    house_close(&h);
}

// ---------------------------------------------------------------- room

static int64_t found(House *h, int slot, int which) {
    int32_t tokens[CONTEXT];
    history(tokens, CONTEXT, which);
    return pages_begin(h->pool, slot, tokens, CONTEXT);
}

// A whole slot's worth of pages with one history, seen by nobody afterwards.
static void visit(House *h, int slot, int which) {
    int32_t tokens[CONTEXT];
    history(tokens, CONTEXT, which);
    pages_release(h->pool, slot);
    write_down(h, slot, tokens, pages_begin(h->pool, slot, tokens, CONTEXT), CONTEXT);
    pages_release(h->pool, slot);
}

static void the_longest_unused_goes_first(void **state) {
    (void)state;
    House h;
    int32_t other[KV_PAGE];
    if (!house_open(&h)) skip();
    assert_int_equal(model_pages(h.m.model), SLOTS * CONTEXT / KV_PAGE);
    visit(&h, 0, 1);
    visit(&h, 0, 2);
    history(other, KV_PAGE, 3);
    assert_int_equal(pages_begin(h.pool, 0, other, KV_PAGE), 0);
    write_down(&h, 0, other, 0, KV_PAGE);
    assert_int_equal(found(&h, 1, 1), CONTEXT - KV_PAGE);               // of the older one its end, and no more
    assert_int_equal(found(&h, 1, 2), CONTEXT - 1);
    visit(&h, 1, 4);
    visit(&h, 1, 5);
    assert_int_equal(found(&h, 1, 1), 0);
    assert_int_equal(found(&h, 1, 5), CONTEXT - 1);
    house_close(&h);
}

static void pages_in_use_stay(void **state) {
    (void)state;
    House h;
    int32_t tokens[CONTEXT];
    if (!house_open(&h)) skip();
    history(tokens, CONTEXT, 1);
    assert_int_equal(pages_begin(h.pool, 0, tokens, CONTEXT), 0);
    write_down(&h, 0, tokens, 0, CONTEXT);
    for (int which = 2; which < 12; which++) visit(&h, 1, which);
    assert_int_equal(found(&h, 1, 1), CONTEXT - 1);                     // all of slot 0's, which it still sees
    assert_int_equal(pages_known(h.pool), SLOTS * CONTEXT / KV_PAGE);
    house_close(&h);
}

// ---------------------------------------------------------------- by text

// Tokens 3 … 28 are the letters; 100 + 26 · a + b two of them; 1 is a special token whose text is "a", 2 one without text.
static Text piece(const void *context, int32_t token, bool *is_special) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    static char pairs[26 * 26][2];
    (void)context;
    *is_special = token <= 2;
    if (token == 1) return (Text){letters, 1};
    if (token < 3) return (Text){"", 0};
    if (token < 100) return (Text){letters + token - 3, 1};
    char *pair = pairs[token - 100];
    pair[0] = letters[(token - 100) / 26], pair[1] = letters[(token - 100) % 26];
    return (Text){pair, 2};
}

enum { LETTER = 3 };

static int32_t two(int a, int b) { return 100 + 26 * (a % 26) + b % 26; }

static void other_cuts_of_a_text_are_found(void **state) {
    (void)state;
    House h;
    int32_t letters[200], pairs[100], known[CONTEXT];
    int64_t asked;
    if (!house_open(&h)) skip();
    for (int i = 0; i < 200; i++) letters[i] = LETTER + i * i % 26;
    for (int i = 0; i < 100; i++) pairs[i] = two(4 * i * i, (2 * i + 1) * (2 * i + 1));
    write_down(&h, 0, letters, 0, 150);                                 // 150 letters are 75 pairs
    assert_int_equal(pages_find_text(h.pool, pairs, 100, piece, NULL, known, &asked), 150);
    assert_int_equal(asked, 75);
    assert_memory_equal(known, letters, 150 * sizeof *letters);
    assert_int_equal(pages_find_text(h.pool, letters, 200, piece, NULL, known, &asked), 0);   // ids alone find it
    assert_int_equal(asked, 0);
    int32_t other[100];
    memcpy(other, pairs, sizeof pairs);
    other[40] = two(other[40], 3);                                      // 80 letters are the same, or 81
    assert_int_equal(pages_find_text(h.pool, other, 100, piece, NULL, known, &asked), 80);
    assert_int_equal(asked, 40);
    other[0] = 1;                                                       // "a" as a special token is no "a"
    assert_int_equal(pages_find_text(h.pool, other, 100, piece, NULL, known, &asked), 0);
    other[0] = LETTER, other[1] = two(1, 4);                            // "a", "be", and then something else
    assert_int_equal(pages_find_text(h.pool, other, 100, piece, NULL, known, &asked), 3);
    assert_int_equal(asked, 2);
    memcpy(other, letters, 10 * sizeof *letters);                       // ten by ids, then pairs
    memcpy(other + 10, pairs + 5, 90 * sizeof *pairs);
    assert_int_equal(pages_find_text(h.pool, other, 100, piece, NULL, known, &asked), 150);
    assert_int_equal(asked, 80);
    house_close(&h);
}

static void special_tokens_stand_for_themselves(void **state) {
    (void)state;
    House h;
    int32_t history_of[] = {2, LETTER, LETTER + 1, 2, LETTER + 2, LETTER + 3}, asked_for[] = {2, two(0, 1), 2, two(2, 3), LETTER};
    int32_t plain[] = {2, two(0, 1), LETTER + 2, LETTER + 3, LETTER}, known[CONTEXT];
    int64_t asked;
    if (!house_open(&h)) skip();
    write_down(&h, 0, history_of, 0, 6);
    assert_int_equal(pages_find_text(h.pool, asked_for, 5, piece, NULL, known, &asked), 6);
    assert_int_equal(asked, 4);
    assert_int_equal(pages_find_text(h.pool, plain, 5, piece, NULL, known, &asked), 3);       // up to the special one
    assert_int_equal(asked, 2);
    house_close(&h);
}

// ---------------------------------------------------------------- on disk

static const char *saved_path(House *h) {
    const char *build = getenv("LATHE_BUILD");
    return arena_printf(h->m.arena, "%s/models/test_pages-%ld.kv", build && *build ? build : "build", process_id());
}

static void save(House *h, const char *path, size_t most_bytes) {
    Error err = {0};
    if (!pages_save(h->pool, path, KEY, most_bytes, &err)) fail_msg("%s", err.text);
}

static void a_restart_finds_the_same_numbers(void **state) {
    (void)state;
    House before, after;
    int32_t tokens[200];
    float want[VOCAB_MOST], got[VOCAB_MOST];
    Error err = {0};
    if (!house_open(&before)) skip();
    const char *path = saved_path(&before);
    size_t nbytes = (size_t)model_vocab_size(before.m.model) * sizeof(float);
    history(tokens, 200, 1);
    Session *s = session_sharing(&before, 0);
    logits_of(s, tokens, 200, want);
    save(&before, path, (size_t)1 << 30);
    session_close(s);
    assert_true(house_open(&after));
    if (!pages_load(after.pool, path, KEY, &err)) fail_msg("%s", err.text);
    assert_int_equal(pages_known(after.pool), pages_known(before.pool));
    s = session_sharing(&after, 1);                                         // in another slot than before
    assert_int_equal(logits_of(s, tokens, 200, got), 199);
    assert_memory_equal(got, want, nbytes);
    session_close(s);
    remove(path);
    house_close(&before);
    house_close(&after);
}

static void the_last_used_are_kept(void **state) {
    (void)state;
    House h, after;
    Error err = {0};
    if (!house_open(&h)) skip();
    const char *path = saved_path(&h);
    visit(&h, 0, 1);
    visit(&h, 0, 2);
    visit(&h, 0, 1);
    Text all;
    save(&h, path, (size_t)1 << 30);
    if (!file_read(h.m.arena, path, &all, &err)) fail_msg("%s", err.text);
    save(&h, path, all.len / 2 + 100);                                  // room for four of eight
    assert_true(house_open(&after));
    if (!pages_load(after.pool, path, KEY, &err)) fail_msg("%s", err.text);
    assert_int_equal(pages_known(after.pool), CONTEXT / KV_PAGE);
    assert_int_equal(found(&after, 0, 1), CONTEXT - 1);
    assert_int_equal(found(&after, 0, 2), 0);
    remove(path);
    house_close(&h);
    house_close(&after);
}

// Loads the bytes into a pool of its own, which must refuse them, say why, and know nothing.
static void refuse(const char *path, const char *bytes, size_t nbytes, uint64_t key, const char *why) {
    House h;
    Error err = {0};
    assert_true(house_open(&h));
    if (!file_write_atomic(path, bytes, nbytes, &err)) fail_msg("%s", err.text);
    assert_false(pages_load(h.pool, path, key, &err));
    assert_int_equal(err.code, LATHE_BAD_FILE);
    if (!strstr(err.text, why)) fail_msg("\"%s\" does not say \"%s\"", err.text, why);
    assert_int_equal(pages_known(h.pool), 0);
    assert_int_equal(found(&h, 0, 1), 0);
    house_close(&h);
}

static void damaged_files_are_not_believed(void **state) {
    (void)state;
    House h;
    Error err = {0};
    Text all;
    if (!house_open(&h)) skip();
    const char *path = saved_path(&h);
    visit(&h, 0, 1);
    save(&h, path, (size_t)1 << 30);
    if (!file_read(h.m.arena, path, &all, &err)) fail_msg("%s", err.text);
    refuse(path, all.at, all.len, KEY + 1, "another model");
    refuse(path, all.at, all.len - 1, KEY, "cut short");
    refuse(path, all.at, 10, KEY, "too short");
    const size_t places[] = {all.len - 1, all.len / 2, sizeof(uint64_t) * 5 + 3};    // values, tokens, a page's head
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *bytes = arena_copy(h.m.arena, all.at, all.len);
        bytes[places[i]] ^= 4;
        refuse(path, bytes, all.len, KEY, "checksum");
    }
    char *bytes = arena_copy(h.m.arena, all.at, all.len);
    bytes[7]++;
    refuse(path, bytes, all.len, KEY, "another version");
    remove(path);
    house_close(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(common_beginnings_are_found), cmocka_unit_test(shared_pages_hold_the_same_numbers),
        cmocka_unit_test(the_longest_unused_goes_first), cmocka_unit_test(pages_in_use_stay),
        cmocka_unit_test(other_cuts_of_a_text_are_found), cmocka_unit_test(special_tokens_stand_for_themselves),
        cmocka_unit_test(a_restart_finds_the_same_numbers), cmocka_unit_test(the_last_used_are_kept),
        cmocka_unit_test(damaged_files_are_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

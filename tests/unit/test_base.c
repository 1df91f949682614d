// test_base: arena, error, vec, map, text, settings, files and os.
// In: a writable temporary directory, the programs sh, cat, head, sleep. Out: one cmocka group.
// Invariant: every test removes what it made; the environment is as before.
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/os.h"
#include "base/parallel.h"
#include "base/settings.h"
#include "base/text.h"
#include "base/vec.h"
#undef fail   // cmocka has one of its own
#include <cmocka.h>

static Arena *arena;
static char folder[256];   // a fresh temporary directory for each test

static int setup(void **state) {
    (void)state;
    Error err;
    arena = arena_create();
    return dir_temporary(folder, sizeof folder, "lathe-test-", &err) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    dir_remove(folder);
    arena_destroy(arena);
    return 0;
}

static uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static const char *in_folder(const char *name) {
    return arena_printf(arena, "%s/%s", folder, name);
}

static const char *file_with(const char *name, const void *data, size_t nbytes) {
    Error err;
    const char *path = in_folder(name);
    assert_true(file_write_atomic(path, data, nbytes, &err));
    return path;
}

static int descriptors_open(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n;
}

// ---- arena ----

static void arena_refuses_what_cannot_be_had(void **state) {
    (void)state;
    static const size_t sizes[] = {SIZE_MAX,      SIZE_MAX - 3, SIZE_MAX - 15,
                                   SIZE_MAX - 16, SIZE_MAX / 2, (size_t)1 << 45};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_null(arena_alloc(arena, sizes[i]));
    char *a = arena_alloc(arena, 0), *b = arena_alloc(arena, 0), *c = arena_alloc(arena, 1);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    assert_ptr_not_equal(b, c);
    assert_int_equal(*c, 0);
}

// Random sizes, marks, releases, resets against a list of live blocks, each filled with its byte.
static void arena_blocks_are_zeroed_aligned_and_apart(void **state) {
    (void)state;
    enum { MAX_BLOCKS = 4000, ROUNDS = 40000, MAX_MARKS = 32 };
    typedef struct { unsigned char *at; size_t n; } Block;
    Block *blocks = calloc(MAX_BLOCKS, sizeof *blocks);
    struct { ArenaMark mark; size_t n_blocks, used; } marks[MAX_MARKS];
    size_t n_blocks = 0, n_marks = 0;
    uint64_t seed = 7;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t dice = random_next(&seed) % 100;
        if (dice < 3 && n_marks < MAX_MARKS) {
            marks[n_marks].mark = arena_mark(arena);
            marks[n_marks].n_blocks = n_blocks;
            marks[n_marks++].used = arena_used(arena);
        } else if (dice < 6 && n_marks > 0) {
            n_marks = random_next(&seed) % n_marks;
            arena_release(arena, marks[n_marks].mark);
            n_blocks = marks[n_marks].n_blocks;
            assert_int_equal(arena_used(arena), marks[n_marks].used);
        } else if (n_blocks == MAX_BLOCKS || dice == 99) {
            arena_reset(arena);
            n_marks = n_blocks = 0;
            assert_int_equal(arena_used(arena), 0);
        } else {
            size_t n = random_next(&seed) % (random_next(&seed) % 50 ? 200 : 100000);
            unsigned char *at = arena_new(arena, n);
            assert_int_equal((uintptr_t)at % 16, 0);
            for (size_t i = 0; i < n; i++)
                if (at[i]) fail_msg("byte %zu of %zu is not zero", i, n);
            if (n) memset(at, (int)(n_blocks % 255 + 1), n);
            blocks[n_blocks++] = (Block){at, n};
        }
    }
    for (size_t b = 0; b < n_blocks; b++)
        for (size_t i = 0; i < blocks[b].n; i++)
            if (blocks[b].at[i] != b % 255 + 1) fail_msg("block %zu was written over", b);
    free(blocks);
}

static void arena_keeps_its_memory_over_a_reset(void **state) {
    (void)state;
    void *first = arena_new(arena, 100);
    arena_new(arena, 1 << 20);
    arena_reset(arena);
    assert_ptr_equal(arena_new(arena, 100), first);
    // A mark of the empty arena, and a block too big for the first chunk right behind it.
    Arena *fresh = arena_create();
    ArenaMark empty = arena_mark(fresh);
    arena_new(fresh, 10);
    arena_release(fresh, empty);
    arena_new(fresh, 1 << 20);
    arena_reset(fresh);
    assert_int_equal(arena_used(fresh), 0);
    arena_destroy(fresh);
    arena_destroy(NULL);
}

static void arena_prints_and_copies(void **state) {
    (void)state;
    assert_string_equal(arena_printf(arena, "%d-%s", 42, "x"), "42-x");
    assert_int_equal(strlen(arena_printf(arena, "%5000d", 1)), 5000);
    assert_memory_equal(arena_copy(arena, "abc", 4), "abc", 4);
    assert_non_null(arena_copy(arena, NULL, 0));
}

// ---- error ----

#define RAISE(err, code, ...) error_set((err), (code), __FILE__, __LINE__, __VA_ARGS__)

static void error_carries_code_place_and_text(void **state) {
    (void)state;
    Error err = {0};
    assert_false(RAISE(&err, LATHE_BAD_FILE, "%s: too short by %d", "m.gguf", 3));
    assert_int_equal(err.code, LATHE_BAD_FILE);
    assert_string_equal(err.text, "m.gguf: too short by 3");
    assert_non_null(strstr(err.file, "test_base.c"));
    assert_false(RAISE(&err, LATHE_IO, "while loading: %s", err.text));
    assert_string_equal(err.text, "while loading: m.gguf: too short by 3");
    char *longer = arena_new(arena, 5000);
    memset(longer, 'x', 4999);
    assert_false(RAISE(&err, LATHE_IO, "%s", longer));
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_false(RAISE(NULL, LATHE_IO, "nobody reads this"));
}

// ---- vec ----

static void vec_grows(void **state) {
    (void)state;
    VEC(int) v = {0};
    for (int i = 0; i < 10000; i++) vec_push(arena, &v, i);
    assert_int_equal(v.len, 10000);
    for (int i = 0; i < 10000; i++) assert_int_equal(v.at[i], i);
    typedef struct { char text[33]; } Item;
    VEC(Item) w = {0};
    Item item = {"first"};
    for (int i = 0; i < 100; i++) {
        vec_push(arena, &w, item);
        item = w.at[w.len / 2];
    }
    assert_string_equal(w.at[99].text, "first");
}

// ---- map ----

static void map_finds_what_was_put(void **state) {
    (void)state;
    enum { N = 20000 };
    Map map;
    map_init(&map, arena);
    assert_null(map_get_text(&map, "absent"));
    static int values[N];
    for (int i = 0; i < N; i++) {
        char key[32];
        snprintf(key, sizeof key, "key-%d", i);
        map_put_text(&map, key, &values[i]);
        memset(key, 0, sizeof key);   // the map has its own copy
    }
    assert_int_equal(map.len, N);
    for (int i = 0; i < N; i++) {
        const char *key = arena_printf(arena, "key-%d", i);
        assert_ptr_equal(map_get_text(&map, key), &values[i]);
        assert_int_equal(map.entries[i].key_bytes, strlen(key));
        assert_memory_equal(map.entries[i].key, key, strlen(key));
    }
    assert_false(map_has(&map, "key-20000", 9));
    map_put_text(&map, "key-7", &values[0]);
    assert_ptr_equal(map_get_text(&map, "key-7"), &values[0]);
    assert_int_equal(map.len, N);
}

static void map_keys_are_bytes(void **state) {
    (void)state;
    Map map;
    map_init(&map, arena);
    int a, b, c;
    map_put(&map, "x\0y", 3, &a);
    map_put(&map, "x\0z", 3, &b);
    map_put(&map, NULL, 0, &c);
    map_put(&map, "null", 4, NULL);
    assert_ptr_equal(map_get(&map, "x\0y", 3), &a);
    assert_ptr_equal(map_get(&map, "x\0z", 3), &b);
    assert_ptr_equal(map_get_text(&map, ""), &c);
    assert_null(map_get_text(&map, "null"));
    assert_true(map_has(&map, "null", 4));
    assert_false(map_has(&map, "x", 1));
}

// Values of the reference implementation, so that caches stay valid from build to build.
static void hash_is_xxh3(void **state) {
    (void)state;
    assert_true(hash_bytes("", 0, 0) == 0x2D06800538D394C2ull);
    assert_true(hash_bytes(NULL, 0, 0) == hash_bytes("", 0, 0));
    assert_true(hash_bytes("a", 1, 0) != hash_bytes("a", 1, 1));
}

// ---- text ----

static void text_compares(void **state) {
    (void)state;
    Text abc = text_of("abc"), empty = {NULL, 0};
    assert_true(text_is(abc, "abc"));
    assert_false(text_is(abc, "abd"));
    assert_false(text_is(abc, "ab"));
    assert_true(text_is(empty, ""));
    assert_true(text_equal(empty, text_of("")));
    assert_true(text_starts(abc, "ab") && text_starts(abc, "") && text_starts(empty, ""));
    assert_false(text_starts(abc, "abcd"));
    assert_true(text_ends(abc, "bc") && text_ends(abc, "abc"));
    assert_false(text_ends(abc, "xabc"));
    assert_string_equal(text_cstr(arena, (Text){"abcdef", 3}), "abc");
    assert_string_equal(text_cstr(arena, empty), "");
    Text copy = text_copy(arena, (Text){"a\0b", 3});
    assert_memory_equal(copy.at, "a\0b\0", 4);
}

static void builder_builds(void **state) {
    (void)state;
    TextBuilder b = builder(arena);
    assert_string_equal(builder_cstr(&b), "");
    Text all = builder_view(&b);
    assert_int_equal(all.len, 0);
    for (int i = 0; i < 1000; i++) {
        builder_printf(&b, "%d,", i % 10);
        builder_char(&b, ';');
    }
    builder_text(&b, (Text){"xyz", 2});
    builder_cstring(&b, "!");
    builder_append(&b, NULL, 0);
    builder_printf(&b, "%3000d", 1);
    assert_int_equal(b.len, 3000 + 3 + 3000);
    assert_memory_equal(builder_cstr(&b), "0,;1,;2,;", 9);
    assert_memory_equal(b.at + 3000, "xy!  ", 5);
    assert_int_equal(strlen(builder_cstr(&b)), b.len);
    // A text that fills the block to its last byte still gets its terminator.
    for (size_t len = 60; len < 70; len++) {
        TextBuilder exact = builder(arena);
        builder_printf(&exact, "%*d", (int)len, 1);
        assert_int_equal(strlen(builder_cstr(&exact)), len);
    }
}

static void utf8_round_trips_every_code_point(void **state) {
    (void)state;
    char out[4];
    size_t used;
    for (int32_t c = 0; c <= 0x10FFFF; c++) {
        size_t len = utf8_encode(c, out);
        bool is_surrogate = c >= 0xD800 && c <= 0xDFFF;
        int32_t back = utf8_decode(out, len, &used);
        if (back != (is_surrogate ? 0xFFFD : c) || used != len)
            fail_msg("U+%04X became %d", (unsigned)c, back);
        for (size_t cut = 1; cut < len; cut++)
            if (utf8_decode(out, cut, &used) != -1 || used != cut ||
                utf8_incomplete_tail((Text){out, cut}) != cut)
                fail_msg("U+%04X cut at %zu", (unsigned)c, cut);
        if (utf8_incomplete_tail((Text){out, len}) != 0)
            fail_msg("U+%04X is complete", (unsigned)c);
    }
    assert_int_equal(utf8_encode(-1, out), 3);
    assert_int_equal(utf8_encode(0x110000, out), 3);
}

// Every sequence of three bytes: a decoded character must be the one that encodes to these bytes.
static void utf8_refuses_what_encode_does_not_write(void **state) {
    (void)state;
    for (unsigned i = 0; i < 1u << 24; i++) {
        char bytes[4] = {(char)(i >> 16), (char)(i >> 8), (char)i, 0}, again[4];
        size_t used;
        int32_t c = utf8_decode(bytes, 3, &used);
        if (used < 1 || used > 3) fail_msg("%06x: used %zu", i, used);
        if (c >= 0 && (utf8_encode(c, again) != used || memcmp(again, bytes, used) != 0))
            fail_msg("%06x decodes to U+%04X", i, (unsigned)c);
    }
}

static void utf8_cleans_as_the_standard_says(void **state) {
    (void)state;
    // In: bytes; out: what Python's bytes.decode(errors="replace") gives.
#define BAD "\xEF\xBF\xBD"
    static const struct { const char *in, *out; } rows[] = {
        {"plain", "plain"},
        {"\xC3\xA9", "\xC3\xA9"},
        {"\xC3", BAD},
        {"\xC3(", BAD "("},
        {"\xE2\x82", BAD},
        {"\xE2\x82z", BAD "z"},
        {"\xE2(\xA1", BAD "(" BAD},
        {"\xF0\x9F\x98", BAD},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
        {"\xED\xA0\x80", BAD BAD BAD},
        {"\xC0\xAF", BAD BAD},
        {"\xE0\x80\xAF", BAD BAD BAD},
        {"\xF4\x90\x80\x80", BAD BAD BAD BAD},
        {"\xFF\xFE", BAD BAD},
        {"a\x80z", "a" BAD "z"},
        {"\xF1\x80\x80\xE2\x80z", BAD BAD "z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Text clean = utf8_clean(arena, text_of(rows[i].in));
        assert_string_equal(clean.at, rows[i].out);
        assert_true(utf8_is_valid(clean));
        assert_int_equal(utf8_is_valid(text_of(rows[i].in)), strcmp(rows[i].in, rows[i].out) == 0);
    }
#undef BAD
    size_t used;
    assert_int_equal(utf8_decode("", 0, &used), -1);
    assert_int_equal(used, 0);
    assert_true(utf8_is_valid((Text){NULL, 0}));
    assert_int_equal(utf8_incomplete_tail((Text){NULL, 0}), 0);
    assert_int_equal(utf8_incomplete_tail(text_of("a\x80")), 0);
    assert_int_equal(utf8_incomplete_tail(text_of("\x80\x80\x80\x80")), 0);
    assert_int_equal(utf8_incomplete_tail(text_of("abc\xF0\x9F\x98")), 3);
}

// ---- settings ----

static void settings_read_override_environment_default(void **state) {
    (void)state;
    Error err = {0};
    unsetenv("LATHE_THREADS");
    assert_int_equal(setting_int(SETTING_THREADS), 0);
    setenv("LATHE_THREADS", "3", 1);
    assert_int_equal(setting_int(SETTING_THREADS), 3);
    assert_true(settings_check(&err));
    setting_override(SETTING_THREADS, "5");
    assert_int_equal(setting_int(SETTING_THREADS), 5);
    setting_override(SETTING_THREADS, NULL);
    static const char *const malformed[] = {"many", "3x", "1e3", "99999999999999999999",
                                            "0x10", "3 "};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        setenv("LATHE_THREADS", malformed[i], 1);
        assert_int_equal(setting_int(SETTING_THREADS), 0);
        assert_false(settings_check(&err));
        assert_int_equal(err.code, LATHE_BAD_REQUEST);
        assert_non_null(strstr(err.text, "LATHE_THREADS"));
    }
    setenv("LATHE_THREADS", "", 1);
    assert_int_equal(setting_int(SETTING_THREADS), 0);
    assert_true(settings_check(&err));
    unsetenv("LATHE_THREADS");
    assert_string_equal(setting_text(SETTING_CC), "cc");
    for (int id = 0; id < SETTING_COUNT; id++) {
        assert_memory_equal(setting_info[id].name, "LATHE_", 6);
        assert_true(strlen(setting_info[id].help) > 10);
    }
}

static void cache_folder_follows_the_environment(void **state) {
    (void)state;
    const char *home = getenv("HOME"), *kept_home = home ? arena_printf(arena, "%s", home) : NULL;
    const char *xdg = getenv("XDG_CACHE_HOME"),
               *kept_xdg = xdg ? arena_printf(arena, "%s", xdg) : NULL;
    setting_override(SETTING_CACHE_DIR, "/somewhere");
    assert_string_equal(cache_dir(arena), "/somewhere");
    char here[PATH_MAX];
    assert_non_null(getcwd(here, sizeof here));
    setting_override(SETTING_CACHE_DIR, "near");
    assert_string_equal(cache_dir(arena), arena_printf(arena, "%s/near", here));
    const char *own = getenv("LATHE_CACHE_DIR"),
               *kept_own = own ? arena_printf(arena, "%s", own) : NULL;
    setting_override(SETTING_CACHE_DIR, NULL);
    unsetenv("LATHE_CACHE_DIR");
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("HOME", "/home/x", 1);
    assert_string_equal(cache_dir(arena), "/xdg/lathe");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_string_equal(cache_dir(arena), "/home/x/.cache/lathe");
    unsetenv("HOME");
    assert_string_equal(cache_dir(arena), arena_printf(arena, "/tmp/lathe-%ld", (long)geteuid()));
    if (kept_home) setenv("HOME", kept_home, 1);
    kept_xdg ? setenv("XDG_CACHE_HOME", kept_xdg, 1) : unsetenv("XDG_CACHE_HOME");
    if (kept_own) setenv("LATHE_CACHE_DIR", kept_own, 1);
}

// ---- files ----

static void file_map_has_zeros_behind_the_end(void **state) {
    (void)state;
    static uint8_t bytes[3 * 4096];
    memset(bytes, 0xAB, sizeof bytes);
    static const size_t sizes[] = {0, 1, 2, 4095, 4096, 4097, 8192, 12287, 12288};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Error err = {0};
        FileMap map;
        if (!file_map(&map, file_with("mapped", bytes, sizes[i]), &err)) fail_msg("%s", err.text);
        assert_int_equal(map.nbytes, sizes[i]);
        if (sizes[i]) assert_memory_equal(map.data, bytes, sizes[i]);
        for (size_t k = 0; k < 4096; k++)
            if (map.data[sizes[i] + k]) fail_msg("size %zu: byte %zu behind the end", sizes[i], k);
        file_unmap(&map);
        assert_null(map.data);
        file_unmap(&map);
    }
}

static void file_errors_name_the_path_and_leak_nothing(void **state) {
    (void)state;
    const char *pipe_path = in_folder("fifo");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    struct { const char *path; ErrorCode code; const char *says; } rows[] = {
        {in_folder("absent"), LATHE_IO, "No such file"},
        {folder, LATHE_BAD_FILE, "directory"},
        {pipe_path, LATHE_BAD_FILE, "regular file"}, // nobody writes to it, and nobody waits
        {"/dev/zero", LATHE_BAD_FILE, "regular file"},
        {"", LATHE_BAD_REQUEST, "empty"},
    };
    int before = descriptors_open();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error err = {0};
        FileMap map;
        assert_false(file_map(&map, rows[i].path, &err));
        assert_int_equal(err.code, rows[i].code);
        if (!strstr(err.text, rows[i].path) || !strstr(err.text, rows[i].says))
            fail_msg("%s", err.text);
        file_unmap(&map);
    }
    Error err = {0};
    Text text;
    assert_false(file_read(arena, folder, &text, &err));
    assert_false(file_read(arena, in_folder("absent"), &text, &err));
    assert_false(file_write_atomic(in_folder("no/such/folder"), "x", 1, &err));
    assert_false(file_write_atomic(folder, "x", 1, &err));
    assert_int_equal(descriptors_open(), before);
}

static void file_read_gives_all_bytes(void **state) {
    (void)state;
    static uint8_t bytes[100001];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, sizeof bytes};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Error err = {0};
        Text text;
        assert_true(file_read(arena, file_with("read", bytes, sizes[i]), &text, &err));
        assert_int_equal(text.len, sizes[i]);
        assert_memory_equal(text.at, bytes, sizes[i]);
        assert_int_equal(text.at[text.len], 0);
    }
    Error err = {0};
    Text text;
    // A file that says its size is 0.
    assert_true(file_read(arena, "/proc/self/status", &text, &err));
    assert_true(text_starts(text, "Name:"));
}

static void endless_file_is_refused(void **state) {
    (void)state;
    Error err = {0};
    Text text;
    const char *path = in_folder("huge");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)3 << 30), 0);
    fclose(file);
    assert_false(file_read(arena, path, &text, &err));
    assert_int_equal(err.code, LATHE_BAD_FILE);
}

static void file_write_replaces_whole(void **state) {
    (void)state;
    Error err = {0};
    Text text;
    const char *path = file_with("twice", "first and long", 14);
    assert_true(file_write_atomic(path, "second", 6, &err));
    assert_true(file_read(arena, path, &text, &err));
    assert_true(text_is(text, "second"));
    FileStamp stamp, absent;
    assert_true(file_stamp(path, &stamp));
    assert_int_equal(stamp.nbytes, 6);
    assert_true(stamp.modified_ns > 0);
    assert_false(file_stamp(in_folder("absent"), &absent));
    int n = 0;
    DIR *dir = opendir(folder);
    while (readdir(dir)) n++;
    closedir(dir);
    assert_int_equal(n, 3);   // ".", ".." and the file: no temporary file stays
}

static void dirs_are_made_and_removed(void **state) {
    (void)state;
    Error err = {0};
    const char *deep = in_folder("a/b//c/");
    assert_true(dir_make(deep, &err));
    assert_true(dir_make(deep, &err));
    assert_true(file_exists(deep));
    assert_true(dir_is_private(in_folder("a/b")));
    assert_int_equal(chmod(in_folder("a/b"), 0777), 0);
    assert_false(dir_is_private(in_folder("a/b")));
    assert_false(dir_is_private(in_folder("absent")));
    file_with("a/file", "x", 1);
    assert_false(dir_make(in_folder("a/file"), &err));
    assert_false(dir_make(in_folder("a/file/below"), &err));
    assert_non_null(strstr(err.text, "a/file/below"));
    assert_false(dir_make("", &err));
    assert_int_equal(symlink("/", in_folder("a/root")), 0);   // must be unlinked, not followed
    dir_remove(in_folder("a"));
    assert_false(file_exists(in_folder("a")));
    assert_true(file_exists("/"));
}

static void old_files_are_pruned(void **state) {
    (void)state;
    Error err = {0};
    const char *place = in_folder("many");
    assert_true(dir_make(in_folder("many/folder"), &err));
    for (int i = 0; i < 20; i++) {
        const char *path = file_with(arena_printf(arena, "many/%d", i), "x", 1);
        struct timespec times[2] = {{.tv_sec = 1000 + i * 7 % 20}, {.tv_sec = 1000 + i * 7 % 20}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    dir_prune(place, 21);   // with the folder just as many: nothing happens
    for (int i = 0; i < 20; i++) assert_true(file_exists(arena_printf(arena, "%s/%d", place, i)));
    dir_prune(place, 10);
    for (int i = 0; i < 20; i++)
        assert_int_equal(file_exists(arena_printf(arena, "%s/%d", place, i)), i * 7 % 20 >= 16);
    assert_true(file_exists(in_folder("many/folder")));
    dir_prune(in_folder("absent"), 1);
}

static void programs_are_found(void **state) {
    (void)state;
    const char *sh = program_find(arena, "sh");
    assert_non_null(sh);
    assert_int_equal(sh[0], '/');
    assert_non_null(program_find(arena, sh));
    assert_null(program_find(arena, "no-such-program-here"));
    assert_null(program_find(arena, in_folder("absent")));
    assert_null(program_find(arena, folder));
    assert_null(program_find(arena, ""));
    assert_null(program_find(arena, file_with("plain", "x", 1)));
    // A link keeps its name, and a relative path becomes absolute.
    assert_int_equal(symlink(sh, in_folder("other-name")), 0);
    assert_string_equal(program_find(arena, in_folder("other-name")), in_folder("other-name"));
    char here[PATH_MAX];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    const char *relative = program_find(arena, "./other-name");
    assert_int_equal(chdir(here), 0);
    assert_non_null(relative);
    assert_string_equal(relative, arena_printf(arena, "%s/./other-name", folder));
}

// ---- system ----

static void clock_and_memory_answer(void **state) {
    (void)state;
    uint64_t before = time_us();
    usleep(2000);
    assert_true(time_us() - before >= 2000);
    assert_true(cpu_count() >= 1);
    assert_true(memory_available_bytes() > (size_t)16 << 20);
    assert_true(memory_peak_bytes() > (size_t)1 << 20);
    assert_true(process_id() > 0);
    static const size_t sizes[] = {0, 1, 4096, 5000, (size_t)2 << 20, ((size_t)9 << 20) + 17};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *at = memory_pages(sizes[i]);
        assert_non_null(at);
        assert_int_equal((uintptr_t)at % 4096, 0);
        if (sizes[i] >= (size_t)4 << 20) assert_int_equal((uintptr_t)at % ((size_t)2 << 20), 0);
        for (size_t k = 0; k < sizes[i]; k += 511) assert_int_equal(at[k], 0);
        if (sizes[i]) at[sizes[i] - 1] = 1;
        memory_pages_free(at, sizes[i]);
    }
    assert_null(memory_pages(SIZE_MAX));
    assert_null(memory_pages(SIZE_MAX - 4095));
    memory_pages_free(NULL, 10);
}

static bool shell(const char *script, int timeout_ms, int *status, Text *output, Error *err) {
    const char *const argv[] = {"sh", "-c", script, NULL};
    return process_run(arena, argv, timeout_ms, status, output, err);
}

static void process_gives_output_and_status(void **state) {
    (void)state;
    Error err = {0};
    Text out;
    int status, before = descriptors_open();
    assert_true(shell("echo out; echo err >&2; exit 3", 10000, &status, &out, &err));
    assert_int_equal(status, 3);
    assert_string_equal(out.at, "out\nerr\n");
    assert_true(shell("kill -TERM $$", 10000, &status, &out, &err));
    assert_int_equal(status, 128 + SIGTERM);
    // Standard input is empty, not the terminal.
    assert_true(shell("cat", 10000, &status, &out, &err));
    assert_int_equal(status, 0);
    assert_int_equal(out.len, 0);
    assert_true(shell("exec >&- 2>&-; sleep 0.05; exit 4", 10000, &status, &out, &err));
    assert_int_equal(status, 4);
    const char *const absent[] = {"/no/such/program", NULL};
    assert_false(process_run(arena, absent, 1000, &status, &out, &err));
    assert_int_equal(err.code, LATHE_IO);
    assert_non_null(strstr(err.text, "/no/such/program"));
    assert_int_equal(descriptors_open(), before);
}

static void process_output_is_bounded(void **state) {
    (void)state;
    Error err = {0};
    Text out;
    int status;
    assert_true(shell("head -c 40000000 /dev/zero", 60000, &status, &out, &err));
    assert_int_equal(status, 0);
    assert_int_equal(out.len, 16 << 20);
}

static void process_is_killed_with_its_children(void **state) {
    (void)state;
    Error err = {0};
    Text out;
    int status;
    const char *script = arena_printf(arena, "(until [ -e %s ]; do sleep 0.01; done; touch %s) & echo begun; sleep 60",
                                      in_folder("go"), in_folder("late"));
    assert_false(shell(script, 1000, &status, &out, &err));
    assert_int_equal(status, 128 + SIGKILL);
    assert_string_equal(out.at, "begun\n");
    assert_non_null(strstr(err.text, "1000 ms"));
    assert_true(file_write_atomic(in_folder("go"), "", 0, &err));
    usleep(200000);
    assert_false(file_exists(in_folder("late")));
    // A child that outlives a program holds the pipe open; waiting for its end would be an error.
    assert_true(shell("sleep 20 & exit 0", 10000, &status, &out, &err));
    assert_int_equal(status, 0);
}

typedef struct Relay { atomic_uint word; unsigned seen; } Relay;

static void relay_run(void *opaque) {
    Relay *relay = opaque;
    for (unsigned turn = 0; turn < 1000; turn++) {
        while (atomic_load(&relay->word) != 2 * turn + 1) futex_wait(&relay->word, 2 * turn);
        relay->seen++;
        atomic_store(&relay->word, 2 * turn + 2);
        futex_wake_all(&relay->word);
    }
}

static void threads_wait_for_each_other(void **state) {
    (void)state;
    Relay relay = {0};
    Thread *thread = thread_start(relay_run, &relay);
    assert_non_null(thread);
    for (unsigned turn = 0; turn < 1000; turn++) {
        atomic_store(&relay.word, 2 * turn + 1);
        futex_wake_all(&relay.word);
        while (atomic_load(&relay.word) != 2 * turn + 2) {
            cpu_relax();
            futex_wait(&relay.word, 2 * turn + 1);
        }
    }
    thread_join(thread);
    thread_join(NULL);
    assert_int_equal(relay.seen, 1000);
}

static void libraries_open(void **state) {
    (void)state;
    Error err = {0};
    assert_null(library_open(in_folder("absent.so"), &err));
    assert_non_null(strstr(err.text, "absent.so"));
    assert_null(library_open(file_with("text.so", "not a library", 13), &err));
    library_close(NULL);
}

enum { JOBS = 500, BAD_JOB = 321 };
typedef struct Jobs { atomic_int done[JOBS]; int bad; } Jobs;

static bool job_do(void *context, int i, Error *err) {
    Jobs *jobs = context;
    atomic_fetch_add(&jobs->done[i], 1);
    return i != jobs->bad || RAISE(err, LATHE_BAD_REQUEST, "job %d", i);
}

// Each job once, on one thread, on some, on more than there are jobs; the first failure is told, and no job begins anew.
static void jobs_run_once(void **state) {
    (void)state;
    static const int threads[] = {1, 3, 1000};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
        for (int bad = -1; bad <= BAD_JOB; bad += BAD_JOB + 1) {
            static Jobs jobs;
            Error err = {0};
            jobs = (Jobs){.bad = bad};
            assert_int_equal(parallel_run(JOBS, threads[t], job_do, &jobs, &err), bad < 0);
            assert_string_equal(err.text, bad < 0 ? "" : "job 321");
            for (int i = 0; i < JOBS; i++) assert_true(jobs.done[i] == 1 || (bad >= 0 && i > bad && jobs.done[i] == 0));
        }
    Error err = {0};
    assert_true(parallel_run(0, 4, job_do, NULL, &err));
}

int main(void) {
#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(arena_refuses_what_cannot_be_had),
        ROW(arena_blocks_are_zeroed_aligned_and_apart),
        ROW(arena_keeps_its_memory_over_a_reset),
        ROW(arena_prints_and_copies),
        ROW(error_carries_code_place_and_text),
        ROW(vec_grows),
        ROW(map_finds_what_was_put),
        ROW(map_keys_are_bytes),
        ROW(hash_is_xxh3),
        ROW(text_compares),
        ROW(builder_builds),
        ROW(utf8_round_trips_every_code_point),
        ROW(utf8_refuses_what_encode_does_not_write),
        ROW(utf8_cleans_as_the_standard_says),
        ROW(settings_read_override_environment_default),
        ROW(cache_folder_follows_the_environment),
        ROW(file_map_has_zeros_behind_the_end),
        ROW(file_errors_name_the_path_and_leak_nothing),
        ROW(file_read_gives_all_bytes),
        ROW(endless_file_is_refused),
        ROW(file_write_replaces_whole),
        ROW(dirs_are_made_and_removed),
        ROW(old_files_are_pruned),
        ROW(programs_are_found),
        ROW(clock_and_memory_answer),
        ROW(process_gives_output_and_status),
        ROW(process_output_is_bounded),
        ROW(process_is_killed_with_its_children),
        ROW(threads_wait_for_each_other),
        ROW(jobs_run_once),
        ROW(libraries_open),
    };
#undef ROW
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}

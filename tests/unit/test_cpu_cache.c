// test_cpu_cache: the system compiler and the folder of compiled objects, in good and bad states.
// In: a C compiler (LATHE_CC, else cc), a writable temporary directory. Out: one cmocka group.
// Invariant: whatever the state of the folder, a loaded kernel gives the right number.
// Run with an argument, the program is one of the processes that share a cache (see child_main).
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/os.h"
#include "base/settings.h"
#include "runtime/object_cache.h"
#undef fail   // cmocka has one of its own
#include <cmocka.h>

static Arena *arena;
static char *own_path;         // of this program
static char folder[256];       // a fresh temporary directory for each test; the cache is folder/cache

static const char *in_folder(const char *name) {
    return arena_printf(arena, "%s/%s", folder, name);
}

static int setup(void **state) {
    (void)state;
    Error err;
    arena = arena_create();
    if (!dir_temporary(folder, sizeof folder, "lathe-test-", &err)) return -1;
    setting_override(SETTING_CACHE_DIR, in_folder("cache"));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    setting_override(SETTING_CACHE_DIR, NULL);
    setting_override(SETTING_CC, NULL);
    setting_override(SETTING_SANITIZE, NULL);
    dir_remove(folder);
    arena_destroy(arena);
    return 0;
}

// A unit whose function returns `number`.
static ObjectSource source_of(int number) {
    const char *text = arena_printf(arena, "int answer(void) { return %d; }\n", number);
    return (ObjectSource){arena_printf(arena, "answer_%d", number), text};
}

static int library_answer(void *library) {
    int (*answer)(void);
    void *symbol = library_symbol(library, "answer");
    assert_non_null(symbol);
    memcpy(&answer, &symbol, sizeof symbol);
    return answer();
}

// Opens the cache, loads units first … first + n - 1, checks their answers, closes everything.
static ObjectStats load_and_check(int first, int n, int n_jobs) {
    Error err = {0};
    ObjectCache *cache;
    ObjectSource *sources = arena_new(arena, (size_t)n * sizeof *sources);
    void **libraries = arena_new(arena, (size_t)n * sizeof *libraries);
    for (int i = 0; i < n; i++) sources[i] = source_of(first + i);
    if (!object_cache_open(&cache, "", &err)) fail_msg("%s", err.text);
    if (!object_cache_load(cache, sources, n, n_jobs, libraries, &err)) fail_msg("%s", err.text);
    ObjectStats stats = object_cache_stats(cache);
    object_cache_close(cache);
    for (int i = 0; i < n; i++) {
        assert_int_equal(library_answer(libraries[i]), first + i);
        library_close(libraries[i]);
    }
    return stats;
}

// The paths of all objects in the cache's folder.
typedef struct Paths { const char *at[64]; size_t len; } Paths;

static Paths objects_list(void) {
    Paths paths = {0};
    DIR *dir = opendir(in_folder("cache/objects"));
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && paths.len < 64)
            paths.at[paths.len++] =
                arena_printf(arena, "%s/cache/objects/%s", folder, entry->d_name);
    if (dir) closedir(dir);
    return paths;
}

static void script_write(const char *path, const char *text) {
    Error err;
    assert_true(file_write_atomic(path, text, strlen(text), &err));
    assert_int_equal(chmod(path, 0755), 0);
}

static void second_run_compiles_nothing(void **state) {
    (void)state;
    ObjectStats cold = load_and_check(1, 3, 2), warm = load_and_check(1, 3, 2),
                more = load_and_check(1, 4, 2);
    assert_int_equal(cold.compiled, 3);
    assert_int_equal(cold.hits, 0);
    assert_int_equal(warm.compiled, 0);
    assert_int_equal(warm.hits, 3);
    assert_int_equal(more.compiled, 1);
    assert_int_equal(objects_list().len, 4);   // and no temporary file beside them
}

static void equal_texts_compile_once(void **state) {
    (void)state;
    Error err = {0};
    ObjectCache *cache;
    ObjectSource sources[] = {source_of(5), source_of(6), source_of(5), source_of(5)};
    void *libraries[4];
    assert_true(object_cache_open(&cache, "", &err));
    for (int round = 0; round < 2; round++) {
        assert_true(object_cache_load(cache, sources, 4, 3, libraries, &err));
        assert_int_equal(object_cache_stats(cache).compiled, 2);
        static const int wanted[] = {5, 6, 5, 5};
        for (int i = 0; i < 4; i++) library_close(i == 0 ? libraries[0] : NULL);
        for (int i = 1; i < 4; i++) assert_int_equal(library_answer(libraries[i]), wanted[i]);
        for (int i = 1; i < 4; i++) library_close(libraries[i]);
    }
    assert_true(object_cache_load(cache, sources, 0, 3, libraries, &err));
    object_cache_close(cache);
    object_cache_close(NULL);
}

static void any_number_of_jobs_gives_the_same(void **state) {
    (void)state;
    static const int jobs[] = {0, 1, 2, 7, 50};
    for (int i = 0; i < 5; i++) {
        ObjectStats stats = load_and_check(100 * i, 6, jobs[i]);
        assert_int_equal(stats.compiled, 6);
    }
}

// Every way to damage an object must end in a compilation that repairs it.
static void damaged_objects_are_compiled_anew(void **state) {
    (void)state;
    Error err = {0};
    load_and_check(7, 1, 1);
    Paths paths = objects_list();
    assert_int_equal(paths.len, 1);
    Text whole;
    assert_true(file_read(arena, paths.at[0], &whole, &err));
    const size_t cuts[] = {
        0, 1, 39, 40, 41, 4096, whole.len / 2, whole.len - 41, whole.len - 40, whole.len - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_true(file_write_atomic(paths.at[0], whole.at, cuts[i], &err));
        assert_int_equal(load_and_check(7, 1, 1).compiled, 1);
        assert_int_equal(load_and_check(7, 1, 1).hits, 1);
    }
    const size_t flips[] = {
        0, 17, 300, whole.len / 2, whole.len - 41, whole.len - 40, whole.len - 20, whole.len - 1};
    char *bytes = arena_new(arena, whole.len + 1);
    for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
        memcpy(bytes, whole.at, whole.len);
        bytes[flips[i]] ^= 4;
        assert_true(file_write_atomic(paths.at[0], bytes, whole.len, &err));
        assert_int_equal(load_and_check(7, 1, 1).compiled, 1);
    }
    memcpy(bytes, whole.at, whole.len);
    assert_true(file_write_atomic(paths.at[0], bytes, whole.len + 1, &err));   // one byte too many
    assert_int_equal(load_and_check(7, 1, 1).compiled, 1);
}

static void object_under_a_wrong_name_is_refused(void **state) {
    (void)state;
    Error err = {0};
    load_and_check(8, 2, 1);
    Paths paths = objects_list();
    Text first;
    assert_int_equal(paths.len, 2);
    assert_true(file_read(arena, paths.at[0], &first, &err));
    assert_true(file_write_atomic(paths.at[1], first.at, first.len, &err));
    ObjectStats stats = load_and_check(8, 2, 1);
    assert_int_equal(stats.compiled, 1);
    assert_int_equal(stats.hits, 1);
    // A directory where an object belongs: it cannot be replaced, so every run compiles.
    assert_int_equal(unlink(paths.at[0]), 0);
    assert_int_equal(mkdir(paths.at[0], 0700), 0);
    assert_int_equal(load_and_check(8, 2, 1).compiled, 1);
}

static void unusable_folder_costs_only_time(void **state) {
    (void)state;
    Error err = {0};
    assert_true(file_write_atomic(in_folder("file"), "x", 1, &err));
    assert_true(dir_make(in_folder("open/objects"), &err));
    assert_int_equal(chmod(in_folder("open/objects"), 0777), 0);
    assert_true(dir_make(in_folder("link"), &err));
    assert_int_equal(symlink(in_folder("elsewhere"), in_folder("link/objects")), 0);
    assert_true(dir_make(in_folder("elsewhere"), &err));
    const char *rows[] = {in_folder("file"), in_folder("file/below"), in_folder("open"),
                          in_folder("link"), "/proc/no/such/place",   "/dev/null"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setting_override(SETTING_CACHE_DIR, rows[i]);
        for (int round = 0; round < 2; round++)
            assert_int_equal(load_and_check(9, 2, 2).compiled, 2);
    }
}

static void works_from_any_directory(void **state) {
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    setting_override(SETTING_CACHE_DIR, "relative/cache");
    assert_int_equal(load_and_check(10, 1, 1).compiled, 1);
    assert_int_equal(load_and_check(10, 1, 1).hits, 1);
    assert_int_equal(chdir("/"), 0);
    setting_override(SETTING_CACHE_DIR, in_folder("relative/cache"));
    assert_int_equal(load_and_check(10, 1, 1).hits, 1);
    assert_int_equal(chdir(before), 0);
}

static int entries_count(const char *path) {
    int n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) n += entry->d_name[0] != '.';
    if (dir) closedir(dir);
    return n;
}

static void temporary_files_go_early(void **state) {
    (void)state;
    Error err = {0};
    const char *old = getenv("TMPDIR"), *kept = old ? arena_printf(arena, "%s", old) : NULL;
    const char *temporary = in_folder("temporary");
    assert_true(dir_make(temporary, &err));
    setenv("TMPDIR", temporary, 1);
    for (int usable = 0; usable < 2; usable++) {
        ObjectCache *cache;
        ObjectSource source = source_of(13);
        void *library;
        setting_override(SETTING_CACHE_DIR, usable ? in_folder("cache") : "/dev/null");
        assert_true(object_cache_open(&cache, "", &err));
        for (int round = 0; round < 2; round++) {
            assert_true(object_cache_load(cache, &source, 1, 1, &library, &err));
            assert_int_equal(library_answer(library), 13);
            assert_int_equal(entries_count(temporary), !usable);   // objects loaded from there
            library_close(library);
        }
        object_cache_close(cache);
        assert_int_equal(entries_count(temporary), 0);
    }
    kept ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR");
}

static void refused_source_is_kept_and_named(void **state) {
    (void)state;
    Error err = {0};
    ObjectCache *cache;
    ObjectSource sources[] = {source_of(1),
                              {"bad_kernel", "int answer(void) { return undeclared_name; }\n"},
                              source_of(2)};
    void *libraries[3] = {&err, &err, &err};
    assert_true(object_cache_open(&cache, "", &err));
    assert_false(object_cache_load(cache, sources, 3, 2, libraries, &err));
    object_cache_close(cache);
    for (int i = 0; i < 3; i++) assert_null(libraries[i]);
    assert_int_equal(err.code, LATHE_COMPILE);
    assert_non_null(strstr(err.text, "bad_kernel"));
    assert_non_null(strstr(err.text, "undeclared_name"));
    const char *at = strstr(err.text, "its source: ");
    assert_non_null(at);
    at += strlen("its source: ");
    const char *path = arena_printf(arena, "%.*s", (int)strcspn(at, ")"), at);
    Text kept;
    if (!file_read(arena, path, &kept, &err)) fail_msg("%s", err.text);
    assert_true(text_is(kept, sources[1].text));
    assert_true(text_starts(text_of(path), in_folder("cache/failed/")));
    // Without a usable folder it stays in the temporary directory.
    setting_override(SETTING_CACHE_DIR, "/dev/null");
    assert_true(object_cache_open(&cache, "", &err));
    assert_false(object_cache_load(cache, sources, 3, 2, libraries, &err));
    object_cache_close(cache);
    at = strstr(err.text, "its source: ");
    assert_non_null(at);
    at += strlen("its source: ");
    char *left = arena_printf(arena, "%.*s", (int)strcspn(at, ")"), at);
    assert_true(file_exists(left));
    *strrchr(left, '/') = '\0';
    dir_remove(left);
}

static void missing_compiler_says_what_to_do(void **state) {
    (void)state;
    static const char *const rows[] = {"no-such-compiler", "/no/such/cc", "   "};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Error err = {0};
        ObjectCache *cache;
        setting_override(SETTING_CC, rows[i]);
        assert_false(object_cache_open(&cache, "", &err));
        assert_null(cache);
        assert_int_equal(err.code, LATHE_COMPILE);
        assert_non_null(strstr(err.text, "LATHE_CC"));
    }
}

// A program that does nothing well is no compiler.
static void a_compiler_writes_an_object(void **state) {
    (void)state;
    const ObjectSource source = {"some_kernel", "int x;\n"};
    Error err = {0};
    ObjectCache *cache;
    void *library = NULL;
    setting_override(SETTING_CC, "true");
    setting_override(SETTING_CACHE_DIR, in_folder("unwritten"));
    assert_true(object_cache_open(&cache, "", &err));
    assert_false(object_cache_load(cache, &source, 1, 1, &library, &err));
    object_cache_close(cache);
    assert_int_equal(err.code, LATHE_COMPILE);
    assert_non_null(strstr(err.text, "wrote no object"));
    assert_non_null(strstr(err.text, "LATHE_CC"));
}

// Some gcc die of a kernel with -O2. The same text with -O1 is the same kernel.
static void a_broken_compiler_is_asked_again(void **state) {
    (void)state;
    const char *cc = arena_printf(arena, "%s", setting_text(SETTING_CC)), *script = in_folder("breaks.sh");
    script_write(script, arena_printf(arena, "#!/bin/sh\ncase \"$*\" in --version) exec %s --version;; *-O1*) exec %s \"$@\";; esac\n"
                                             "echo 'k.c:1: internal compiler error: Segmentation fault'; exit 1\n", cc, cc));
    setting_override(SETTING_CC, script);
    assert_int_equal(load_and_check(31, 1, 1).compiled, 1);
}

static void compiler_words_and_changes_count(void **state) {
    (void)state;
    const char *cc = arena_printf(arena, "%s", setting_text(SETTING_CC));
    setting_override(SETTING_CC, arena_printf(arena, "  env  %s ", cc));
    assert_int_equal(load_and_check(11, 1, 1).compiled, 1);
    assert_int_equal(load_and_check(11, 1, 1).hits, 1);
    const char *wrapper = in_folder("wrapper");
    script_write(wrapper, arena_printf(arena, "#!/bin/sh\nexec %s \"$@\"\n", cc));
    setting_override(SETTING_CC, wrapper);
    assert_int_equal(load_and_check(11, 1, 1).compiled, 1);
    assert_int_equal(load_and_check(11, 1, 1).hits, 1);
    // Another program at the same path.
    script_write(wrapper, arena_printf(arena, "#!/bin/sh\n# changed\nexec %s \"$@\"\n", cc));
    assert_int_equal(load_and_check(11, 1, 1).compiled, 1);
    // The --version text is kept: a warm start runs no process at all.
    const char *log = in_folder("log");
    script_write(wrapper,
                 arena_printf(arena, "#!/bin/sh\necho run >> %s\nexec %s \"$@\"\n", log, cc));
    Text text;
    Error err;
    load_and_check(11, 1, 1);
    assert_true(file_read(arena, log, &text, &err));
    assert_true(text_is(text, "run\nrun\n"));
    assert_int_equal(load_and_check(11, 1, 1).hits, 1);
    assert_true(file_read(arena, log, &text, &err));
    assert_true(text_is(text, "run\nrun\n"));
}

static void flags_belong_to_the_key(void **state) {
    (void)state;
    Error err = {0};
    ObjectCache *cache;
    ObjectSource source = {"answer", "int answer(void) { return NUMBER; }\n"};
    static const char *const flags[] = {"-DNUMBER=1", "-DNUMBER=2", "-DNUMBER=1"};
    for (int i = 0; i < 3; i++) {
        void *library;
        assert_true(object_cache_open(&cache, flags[i], &err));
        assert_true(object_cache_load(cache, &source, 1, 1, &library, &err));
        assert_int_equal(library_answer(library), i == 1 ? 2 : 1);
        assert_int_equal(object_cache_stats(cache).compiled, i < 2);
        library_close(library);
        object_cache_close(cache);
    }
    setting_override(SETTING_SANITIZE, "-DNUMBER=3 -DOTHER");
    void *library;
    assert_true(object_cache_open(&cache, "", &err));
    assert_true(object_cache_load(cache, &source, 1, 1, &library, &err));
    assert_int_equal(library_answer(library), 3);
    library_close(library);
    object_cache_close(cache);
}

// Compilers that claim success and leave nonsense, nothing, or half an object.
static void lying_compilers_leave_no_object(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "for a; do case \"$p\" in -o) echo nonsense > \"$a\";; esac; p=\"$a\"; done",
        "exit 0",
        "for a; do case \"$p\" in -o) head -c 3000 /bin/sh > \"$a\";; esac; p=\"$a\"; done",
        "echo 'out of disk' >&2; exit 1",
        "kill -KILL $$",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        Error err = {0};
        ObjectCache *cache;
        void *library;
        ObjectSource source = source_of(12);
        const char *script = in_folder(arena_printf(arena, "liar%zu", i));
        script_write(script, arena_printf(arena, "#!/bin/sh\n%s\n", bodies[i]));
        setting_override(SETTING_CC, script);
        assert_true(object_cache_open(&cache, "", &err));
        assert_false(object_cache_load(cache, &source, 1, 1, &library, &err));
        assert_null(library);
        assert_true(strlen(err.text) > 10);
        object_cache_close(cache);
        assert_int_equal(objects_list().len, 0);
    }
}

// ---- several processes ----

enum { SHARED_UNITS = 5 };

// `test_cpu_cache share` loads the shared units and prints how many it compiled.
static int child_main(void) {
    arena = arena_create();
    ObjectStats stats = load_and_check(1000, SHARED_UNITS, 2);
    printf("compiled %ld\n", stats.compiled);
    arena_destroy(arena);
    return 0;
}

typedef struct Child { int status; Text output; bool ok; Arena *arena; } Child;

static void child_run(void *opaque) {
    Child *child = opaque;
    Error err;
    const char *const argv[] = {own_path, "share", NULL};
    child->ok = process_run(child->arena, argv, 120000, &child->status, &child->output, &err);
}

static void processes_share_one_folder(void **state) {
    (void)state;
    enum { N_CHILDREN = 4 };
    Child children[N_CHILDREN] = {0};
    Thread *threads[N_CHILDREN];
    setenv("LATHE_CACHE_DIR", in_folder("cache"), 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N_CHILDREN; i++) {
            children[i].arena = arena_create();
            threads[i] = thread_start(child_run, &children[i]);
            assert_non_null(threads[i]);
        }
        for (int i = 0; i < N_CHILDREN; i++) {
            thread_join(threads[i]);
            if (!children[i].ok || children[i].status != 0)
                fail_msg("child %d: status %d: %.*s", i, children[i].status,
                         (int)children[i].output.len, children[i].output.at);
            if (round == 1) assert_string_equal(children[i].output.at, "compiled 0\n");
            arena_destroy(children[i].arena);
        }
    }
    unsetenv("LATHE_CACHE_DIR");
    assert_int_equal(objects_list().len, SHARED_UNITS);
}

static void unusable_folder_is_mentioned_once(void **state) {
    (void)state;
    static const char *const debug[] = {"0", "1"};
    setenv("LATHE_CACHE_DIR", "/dev/null/below", 1);
    for (int i = 0; i < 2; i++) {
        Child child = {.arena = arena};
        setenv("LATHE_DEBUG", debug[i], 1);
        child_run(&child);
        assert_true(child.ok);
        assert_int_equal(child.status, 0);
        int lines = 0;
        for (size_t k = 0; k < child.output.len; k++) lines += child.output.at[k] == '\n';
        assert_int_equal(lines, 1 + i);   // "compiled 5", and at debug level 1 the notice
        assert_int_equal(strstr(child.output.at, "/dev/null/below") != NULL, i);
    }
    unsetenv("LATHE_DEBUG");
    unsetenv("LATHE_CACHE_DIR");
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "share") == 0) return child_main();
    own_path = realpath(argv[0], NULL);
#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(second_run_compiles_nothing),
        ROW(equal_texts_compile_once),
        ROW(any_number_of_jobs_gives_the_same),
        ROW(damaged_objects_are_compiled_anew),
        ROW(object_under_a_wrong_name_is_refused),
        ROW(unusable_folder_costs_only_time),
        ROW(works_from_any_directory),
        ROW(temporary_files_go_early),
        ROW(refused_source_is_kept_and_named),
        ROW(a_compiler_writes_an_object),
        ROW(missing_compiler_says_what_to_do),
        ROW(a_broken_compiler_is_asked_again), ROW(compiler_words_and_changes_count),
        ROW(flags_belong_to_the_key),
        ROW(lying_compilers_leave_no_object),
        ROW(processes_share_one_folder),
        ROW(unusable_folder_is_mentioned_once),
    };
#undef ROW
    int n_failed = cmocka_run_group_tests_name("cpu_cache", tests, NULL, NULL);
    free(own_path);
    return n_failed;
}

// test_step_table: a step that an earlier run scheduled is the same step; what was kept of another graph, or only in part,
// or damaged, is not used. Damage is sealed again, so that it is the table's own checks that see it.
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "ir/verify.h"
#include "runtime/sealed_file.h"

#undef fail // cmocka has its own
#include <cmocka.h>

enum { COLUMNS = 2048, N = 128, LONGER = 256, OUTPUTS = 3, FILES = 16 };   // N rows: work for more than one tile

static char folder[256];

static void must(bool ok, const Error *err) {
    if (!ok) fail_msg("%s", err->text);
}

// ---------------------------------------------------------------- one run of a program

typedef struct Program { Arena *arena; Graph *graph; Engine *engine; int64_t x, y; Tensor outputs[OUTPUTS]; } Program;

static float value(int row, int column) { return (float)((row * 7 + column) % 64) / 64; }

// r[n] = Σ x² of each row, total = Σ r (output 0 and 2), y = r / total (output 1 waits for the store): outputs of each
// kind, a temporary, barriers.
static Program program_open(int n) {
    Program p = {.arena = arena_create()};
    Error err = {0};
    size_t nbytes = (size_t)n * COLUMNS * sizeof(float);
    float *values = arena_new(p.arena, nbytes);
    for (int i = 0; i < n * COLUMNS; i++) values[i] = value(i / COLUMNS, i % COLUMNS);
    p.graph = graph_create(p.arena);
    must(engine_open(&p.engine, "cpu", NULL, 2, &err), &err);
    must(engine_buffer_alloc(p.engine, nbytes, &p.x, &err), &err);
    must(engine_buffer_alloc(p.engine, (size_t)n * sizeof(float), &p.y, &err), &err);
    engine_buffer_write(p.engine, p.x, 0, values, nbytes);
    Tensor x = tensor_buffer(p.graph, p.x, DT_F32, 0, 0, dims(n, COLUMNS)), y = tensor_buffer(p.graph, p.y, DT_F32, 0, 0, dims(n));
    Tensor rows = tensor_sum(tensor_mul(x, x), -1), total = tensor_sum(rows, -1);
    Tensor all = tensor_expand(tensor_reshape(total, dims(1)), dims(n));
    p.outputs[0] = p.outputs[2] = total;
    p.outputs[1] = tensor_assign(y, y, tensor_div(rows, all));
    return p;
}

static void program_close(Program *p) {
    engine_close(p->engine);
    arena_destroy(p->arena);
}

typedef struct Answer { float total, again, scaled[LONGER]; int n_scheduled, n_generated, n_stages, n_barriers; } Answer;

static Answer answer_of(int n) {
    Answer a = {0};
    Error err = {0};
    Step *step = NULL;
    Program p = program_open(n);
    must(engine_compile(p.engine, p.outputs, OUTPUTS, &step, &err) && step_run(step, &err), &err);
    engine_buffer_read(p.engine, step_output_buffer(step, 0), 0, &a.total, sizeof a.total);
    engine_buffer_read(p.engine, step_output_buffer(step, 2), 0, &a.again, sizeof a.again);
    assert_int_equal(step_output_buffer(step, 1), p.y);
    assert_int_equal(step_output_bytes(step, 1), (size_t)n * sizeof *a.scaled);
    engine_buffer_read(p.engine, p.y, 0, a.scaled, (size_t)n * sizeof *a.scaled);
    a.n_scheduled = engine_scheduled_count(p.engine);
    a.n_generated = engine_generated_count(p.engine);
    a.n_stages = step_stage_count(step);
    for (int i = 0; i < a.n_stages; i++) a.n_barriers += step_stage(step, i).needs_barrier;
    step_destroy(step);
    program_close(&p);
    return a;
}

static bool is_near(double got, double want) { return got > want * 0.99999 && got < want * 1.00001; }

static void answer_check(const Answer *a, int n, int n_scheduled, int n_generated) {
    double rows[LONGER] = {0}, total = 0;
    for (int i = 0; i < n * COLUMNS; i++) rows[i / COLUMNS] += pow((double)value(i / COLUMNS, i % COLUMNS), 2);
    for (int r = 0; r < n; r++) total += rows[r];
    assert_true(a->total == a->again && is_near((double)a->total, total));
    for (int r = 0; r < n; r++)
        if (!is_near((double)a->scaled[r], rows[r] / total))
            fail_msg("row %d is %g, should be %g", r, (double)a->scaled[r], rows[r] / total);
    assert_int_equal(a->n_scheduled, n_scheduled);
    assert_int_equal(a->n_generated, n_generated);
}

// ---------------------------------------------------------------- what lies in the folder

typedef struct Kept { const char *path; SealKey key; Text content; bool is_table; } Kept;

// A text of a kernel holds no zero byte; a table begins with a small number of 8 bytes.
static int kept_list(Arena *arena, Kept *out) {
    const char *sources = arena_printf(arena, "%s/sources", folder);
    DIR *dir = opendir(sources);
    int n = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        unsigned long long high, low;
        if (sscanf(entry->d_name, "%16llx%16llx", &high, &low) != 2) continue;
        assert_true(n < FILES);
        Kept *k = &out[n++];
        *k = (Kept){.path = arena_printf(arena, "%s/%s", sources, entry->d_name), .key = {high, low}};
        assert_true(sealed_read(arena, k->path, k->key, &k->content));
        k->is_table = memchr(k->content.at, 0, k->content.len) != NULL;
    }
    if (dir) closedir(dir);
    return n;
}

static const Kept *table_find(const Kept *kept, int n) {
    const Kept *table = NULL;
    for (int i = 0; i < n; i++) if (kept[i].is_table) table = &kept[i];
    assert_non_null(table);
    return table;
}

static void folder_begin(void) {
    Error err = {0};
    must(dir_temporary(folder, sizeof folder, "lathe-test-", &err), &err);
    setting_override(SETTING_CACHE_DIR, folder);
}

static void folder_end(void) {
    setting_override(SETTING_CACHE_DIR, NULL);
    dir_remove(folder);
}

// ---------------------------------------------------------------- tests

// Where passes are watched nothing is kept: all is scheduled and generated each time.
static void a_kept_step_is_the_same(void **state) {
    (void)state;
    folder_begin();
    Answer cold = answer_of(N), warm = answer_of(N), longer = answer_of(LONGER), after = answer_of(N);
    setting_override(SETTING_JIT, "0");
    Answer anew = answer_of(N);
    setting_override(SETTING_JIT, NULL);
    folder_end();
    int watched = verify_wanted();
    answer_check(&cold, N, 1, cold.n_stages);
    answer_check(&warm, N, watched, watched * cold.n_stages);
    answer_check(&longer, LONGER, 1, longer.n_stages);
    answer_check(&after, N, watched, watched * cold.n_stages);
    answer_check(&anew, N, 1, watched * cold.n_stages);
    assert_true(cold.n_stages > 1 && cold.n_barriers > 0);
    assert_int_equal(warm.n_stages, cold.n_stages);
    assert_int_equal(warm.n_barriers, cold.n_barriers);
    assert_memory_equal(warm.scaled, cold.scaled, sizeof cold.scaled);
}

// A table is of no use where a text of its kernels is gone.
static void texts_are_needed(void **state) {
    (void)state;
    if (verify_wanted()) skip();
    Arena *arena = arena_create();
    Kept kept[FILES];
    folder_begin();
    Answer cold = answer_of(N);
    for (int i = 0, n = kept_list(arena, kept); i < n; i++) if (!kept[i].is_table) assert_int_equal(remove(kept[i].path), 0);
    Answer anew = answer_of(N), warm = answer_of(N);
    folder_end();
    arena_destroy(arena);
    answer_check(&anew, N, 1, cold.n_stages);
    answer_check(&warm, N, 0, 0);
}

// Compiles only: what was changed may still be a table.
static void compiled_or_refused(const Kept *table, Arena *arena, const char *bytes, size_t len) {
    Error err = {0};
    must(sealed_write(arena, table->path, table->key, (Text){bytes, len}, &err), &err);
    Step *step = NULL;
    Program p = program_open(N);
    if (!engine_compile(p.engine, p.outputs, OUTPUTS, &step, &err)) assert_int_equal(err.code, LATHE_NO_MEMORY);
    else step_destroy(step);
    program_close(&p);
}

// Each word of the table in turn is no number that it may be; the table ends in each place.
static void a_wrong_table_is_refused(void **state) {
    (void)state;
    if (verify_wanted()) skip();
    Arena *arena = arena_create();
    Kept kept[FILES];
    folder_begin();
    answer_of(N);
    const Kept *table = table_find(kept, kept_list(arena, kept));
    const int64_t wrong[] = {-1, -7, 1 << 20, INT64_MAX, INT64_MIN};
    size_t len = table->content.len, step = len / sizeof(int64_t) / 100 + 1;
    for (size_t at = 0; at + sizeof(int64_t) <= len; at += at < 64 || at + 512 > len ? sizeof(int64_t) : step * sizeof(int64_t)) {
        ArenaMark mark = arena_mark(arena);
        char *bytes = arena_copy(arena, table->content.at, len);
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            memcpy(bytes + at, &wrong[i], sizeof *wrong);
            compiled_or_refused(table, arena, bytes, len);
        }
        compiled_or_refused(table, arena, table->content.at, at);
        arena_release(arena, mark);
    }
    Answer last = answer_of(N), warm = answer_of(N);   // what was refused is written again
    folder_end();
    arena_destroy(arena);
    answer_check(&last, N, last.n_scheduled, 0);
    answer_check(&warm, N, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_step_is_the_same),
        cmocka_unit_test(texts_are_needed),
        cmocka_unit_test(a_wrong_table_is_refused),
    };
    return cmocka_run_group_tests_name("step_table", tests, NULL, NULL);
}

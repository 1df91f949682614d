// profile: where the time of one generated token goes, kernel by kernel.
// In: a model, --depth. Out: a table or JSON: kernels a token and a layer, distinct ones, hit rate, and for each
// distinct kernel calls, time, bytes, GB/s and its share of the memory's read rate; --source prints their text.
// A kernel is named by the tensors that its first stage works on, without their block, and by its hash.
// Invariant: stages are timed one by one, so their sum is more than a token takes; what one takes as it is run, and its share of
// the read rate, stand above the table; medians of ROUNDS runs.
// Example: lathe profile m.gguf --json | jq .kernels_per_token
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/figures.h"
#include "app/json_output.h"
#include "app/loaded.h"
#include "app/terminal.h"
#include "base/os.h"
#include "models/generate.h"

enum { ROUNDS = 9, WARM_TOKENS = 3, MOST_ROLES = 16 };

typedef struct KernelRow {
    const char *name, *source;
    int calls;
    double time_us;
    uint64_t bytes;
} KernelRow;

typedef struct Profile {
    KernelRow *rows;                 // one a distinct kernel, slowest first
    int n_rows, n_stages, n_blocks;
    double roof_gb_s, total_us;      // the sum of all stages' times
    double step_us;                  // of the step as it is run, all of its stages at once
} Profile;

static int row_compare(const void *a, const void *b) {
    double x = ((const KernelRow *)a)->time_us, y = ((const KernelRow *)b)->time_us;
    return (x < y) - (x > y);
}

// Median time of each stage over ROUNDS runs of the same step.
static bool stages_time(Step *step, int n, double *median_us, Arena *arena, Error *err) {
    double *times = arena_new(arena, (size_t)n * ROUNDS * sizeof *times);
    uint64_t *round = arena_new(arena, (size_t)n * sizeof *round);
    for (int r = 0; r < ROUNDS; r++) {
        TRY(step_run_timed(step, round, err));
        for (int i = 0; i < n; i++) times[i * ROUNDS + r] = (double)round[i];
    }
    for (int i = 0; i < n; i++) median_us[i] = median_of(times + i * ROUNDS, ROUNDS);
    return true;
}

// Median time of the step as generation runs it: on a card one graph of launches.
static bool step_time(Step *step, double *median_us, Error *err) {
    double times[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t begin = time_us();
        TRY(step_run(step, err));
        times[r] = (double)(time_us() - begin);
    }
    *median_us = median_of(times, ROUNDS);
    return true;
}

// "attn_q attn_k k0123456789abcdef": roles in the order of the kernel's own reading, each once.
static const char *kernel_title(const Model *model, int part, const StageInfo *stage, Arena *arena) {
    TextBuilder b = builder(arena);
    const char *seen[MOST_ROLES];
    int n = 0;
    for (int i = 0; i < stage->n_buffers && n < MOST_ROLES; i++) {
        const char *role = model_buffer_role(model, part, stage->buffers[i]);
        bool is_new = role != NULL;
        for (int k = 0; k < n; k++) is_new &= seen[k] != role;
        if (!is_new) continue;
        seen[n++] = role;
        Text shown = text_of(role);
        if (text_ends(shown, ".weight")) shown.len -= strlen(".weight");
        builder_text(&b, shown);
        builder_char(&b, ' ');
    }
    builder_cstring(&b, stage->name);
    return builder_cstr(&b);
}

// Adds the stages of one part's step.
static bool part_collect(Profile *p, const Model *model, int part, Step *step, Arena *arena, Error *err) {
    int n = step_stage_count(step), before = p->n_rows, n_distinct = step_distinct_count(step);
    KernelRow *rows = arena_new(arena, (size_t)(before + n_distinct + 1) * sizeof *rows);
    if (before) memcpy(rows, p->rows, (size_t)before * sizeof *rows);
    p->rows = rows, p->n_rows += n_distinct, p->n_stages += n;
    double *times = arena_new(arena, (size_t)(n + 1) * sizeof *times);
    double whole_us;
    TRY(stages_time(step, n, times, arena, err));
    TRY(step_time(step, &whole_us, err));
    p->step_us += whole_us;
    for (int i = 0; i < n; i++) {
        StageInfo stage = step_stage(step, i);
        KernelRow *row = &rows[before + stage.program];
        if (!row->name) row->name = kernel_title(model, part, &stage, arena);
        row->source = stage.source;
        row->calls++;
        row->time_us += times[i];
        row->bytes += stage.bytes;
        p->total_us += times[i];
    }
    return true;
}

static bool profile_collect(Profile *p, Model *model, int rows, Arena *arena, Error *err) {
    for (int part = 0; part < model_parts(model); part++) {
        Step *step = NULL;
        TRY(model_step(model, part, rows, &step, err));
        TRY(part_collect(p, model, part, step, arena, err));
    }
    qsort(p->rows, (size_t)p->n_rows, sizeof *p->rows, row_compare);
    return true;
}

// Bytes a microsecond are 10⁶ bytes a second; NAN where nothing was measured.
static double row_gb_s(const KernelRow *row) {
    return row->bytes && row->time_us > 0 ? (double)row->bytes / row->time_us / 1e3 : NAN;
}

static double row_share(const Profile *p, const KernelRow *row) {
    return p->roof_gb_s > 0 ? row_gb_s(row) / p->roof_gb_s : NAN;
}

static double step_gb_s(const Profile *p) {
    double bytes = 0;
    for (int i = 0; i < p->n_rows; i++) bytes += (double)p->rows[i].bytes;
    return p->step_us > 0 ? bytes / p->step_us / 1e3 : NAN;
}

static double step_share(const Profile *p) { return p->roof_gb_s > 0 ? step_gb_s(p) / p->roof_gb_s : NAN; }

static void profile_print_json(const Profile *p, const Loaded *l, bool with_source) {
    json_t *kernels = json_array();
    for (int i = 0; i < p->n_rows; i++) {
        const KernelRow *r = &p->rows[i];
        json_t *kernel = json_pack("{s:s, s:i, s:f, s:I, s:o, s:o}", "name", r->name, "calls", r->calls,
                                   "time_us", r->time_us, "bytes", (json_int_t)r->bytes, "gb_s", json_number(row_gb_s(r)),
                                   "roof_share", json_number(row_share(p, r)));
        if (with_source) json_object_set_new(kernel, "source", json_words(text_of(r->source ? r->source : "")));
        json_array_append_new(kernels, kernel);
    }
    json_print(json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:i, s:f, s:o, s:f, s:f, s:o, s:o, s:o}", "model", l->path,
                         "device", engine_device(l->engine)->name, "target", engine_target(l->engine)->name,
                         "threads", engine_threads(l->engine), "kernels_per_token", p->n_stages,
                         "kernels_per_layer", (double)p->n_stages / p->n_blocks, "distinct_kernels", p->n_rows,
                         "cache_hit_rate", p->n_stages ? 1 - (double)p->n_rows / p->n_stages : 0,
                         "roof_gb_s", json_number(p->roof_gb_s > 0 ? p->roof_gb_s : NAN), "time_us", p->total_us,
                         "step_us", p->step_us, "step_gb_s", json_number(step_gb_s(p)), "step_roof_share", json_number(step_share(p)),
                         "kernels", kernels), 6);
}

static void profile_print(const Profile *p, const Loaded *l, bool with_source) {
    printf("%s on %s (%s), %d threads\n", l->path, engine_device(l->engine)->name, engine_target(l->engine)->name,
           engine_threads(l->engine));
    printf("%d kernels a token, %.1f a layer, %d distinct, hit rate %.1f %%, %.0f us one by one\n", p->n_stages,
           (double)p->n_stages / p->n_blocks, p->n_rows, p->n_stages ? 100 - 100.0 * p->n_rows / p->n_stages : 0,
           p->total_us);
    if (!engine_device(l->engine)->runs_nothing) {
        printf("%.0f us as one step, %.1f GB/s", p->step_us, step_gb_s(p));
        if (p->roof_gb_s > 0) printf(", %.1f %% of the roof", step_share(p) * 100);
        putchar('\n');
    }
    if (p->roof_gb_s > 0) printf("memory reads at %.1f GB/s; a kernel whose data stays in the caches may exceed it\n", p->roof_gb_s);
    printf("\n%6s %9s %6s %9s %9s %9s  %s\n", "calls", "us", "%", "MB", "GB/s", "% of roof", "kernel");
    for (int i = 0; i < p->n_rows; i++) {
        const KernelRow *r = &p->rows[i];
        printf("%6d %9.0f %6.1f %9.3f", r->calls, r->time_us, p->total_us > 0 ? 100 * r->time_us / p->total_us : 0,
               (double)r->bytes / 1e6);
        cell_print(9, "%.2f", row_gb_s(r));
        cell_print(9, "%.1f", row_share(p, r) * 100);
        printf("  %s\n", r->name);
    }
    for (int i = 0; with_source && i < p->n_rows; i++)
        printf("\n%s---- %s%s\n%s\n", style_begin_bold(), p->rows[i].name, style_end(), p->rows[i].source ? p->rows[i].source : "");
}

// One piece of a prompt at the wanted depth. How long attention takes depends on where the rows stand, not on what the cells
// before them hold (zeros, here): nothing needs to be filled.
static bool piece_run(Model *model, int64_t depth, int n, Error *err) {
    int32_t tokens[MODEL_CHUNK_MAX], positions[MODEL_CHUNK_MAX], slots[MODEL_CHUNK_MAX] = {0};
    for (int i = 0; i < n; i++) tokens[i] = (int32_t)(i % model_vocab_size(model)), positions[i] = (int32_t)depth + i;
    return model_forward(model, tokens, positions, slots, n, true, err);
}

// Brings as many sequences as there are slots to the wanted depth and generates a few tokens of each, so that the step is
// compiled and its inputs are set.
static bool depth_reach(Model *model, int64_t depth, Arena *arena, Error *err) {
    int32_t *tokens = arena_new(arena, (size_t)(depth + 1) * sizeof *tokens);
    int32_t newest[SESSIONS_AT_ONCE], positions[SESSIONS_AT_ONCE], slots[SESSIONS_AT_ONCE];
    int n = model_slots(model);
    for (int64_t i = 0; i <= depth; i++) tokens[i] = (int32_t)(i % model_vocab_size(model));
    for (int slot = 0; depth && slot < n; slot++) TRY(model_eval(model, slot, tokens, depth, 0, LOGITS_NONE, NULL, err));
    for (int i = 0; i < WARM_TOKENS; i++) {
        for (int slot = 0; slot < n; slot++)
            newest[slot] = slot % (int)model_vocab_size(model), positions[slot] = (int32_t)depth + i, slots[slot] = slot;
        TRY(model_forward(model, newest, positions, slots, n, true, err));
    }
    return true;
}

static bool profile_run(Loaded *l, int64_t depth, const Options *o, Error *err) {
    Profile p = {.n_blocks = model_config(l->model)->n_blocks};
    Progress progress = {0};
    progress_compiling(&progress);
    int piece = (int)option_int(o, OPTION_piece);
    bool ok = piece ? piece_run(l->model, depth, piece, err) : depth_reach(l->model, depth, o->arena, err);
    progress_end(&progress);
    TRY(ok);
    p.roof_gb_s = loaded_roof_gb_s(l);
    TRY(profile_collect(&p, l->model, piece ? piece : model_slots(l->model), o->arena, err));
    if (option_given(o, OPTION_json)) profile_print_json(&p, l, option_given(o, OPTION_source));
    else profile_print(&p, l, option_given(o, OPTION_source));
    return true;
}

bool command_profile(const Options *o, Error *err) {
    int64_t *depths;
    int n;
    Loaded loaded;
    TRY(numbers_read(o->arena, "--depth", option_text(o, OPTION_depth), &depths, &n, err));
    if (n != 1 || depths[0] > 1 << 24) return fail(err, LATHE_BAD_REQUEST, "profile takes one --depth, at most %d", 1 << 24);
    int64_t piece = option_int(o, OPTION_piece);
    if (piece && option_int(o, OPTION_rows) > 1) return fail(err, LATHE_BAD_REQUEST, "--piece is rows of one sequence, --rows is one row of each of several: choose one");
    LoadOptions load = load_options(o, depths[0] + (piece ? piece : WARM_TOKENS + 1));
    load.generates = true;
    load.model_options.slots = (int)option_int(o, OPTION_rows);
    TRY(loaded_open(&loaded, o->arena, &load, err));
    loaded_print_sums(&loaded);
    bool ok = profile_run(&loaded, depths[0], o, err);
    loaded_close(&loaded);
    return ok;
}

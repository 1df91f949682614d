// bench: how fast prompts are read (pp) and tokens are generated (tg), at several depths, beside the memory's limit.
// In: -p tokens, -n tokens, --depth list. Out: a table, or a JSON array with one object a depth.
// Method: kernels are compiled before the clock starts; medians of --repeat rounds; tokens are drawn greedily, as
// `run` does. read_gb_s = decode_tok_s · (weights one token reads + cache at the mean depth). Memory of the host is
// measured right before and after each repetition, and that repetition's share of the roof is of their mean: on a machine
// that others use, memory's speed moves within seconds. A card's memory, and that of a host which the model nearly fills, is
// measured once, at the end.
// With --turns each timed repetition prints {"ready": its kind}, waits for a line on standard input and prints its rate:
// another program can let two engines take turns, each with its cache filled once (bench/compare does).
// Invariant: what was not measured is null, never 0. Example: lathe bench m.gguf -p 128 -n 32 --depth 0,4096 --json
#include <math.h>
#include <stdio.h>

#include "app/figures.h"
#include "app/json_output.h"
#include "app/loaded.h"
#include "app/roof.h"
#include "app/terminal.h"
#include "base/os.h"

#define STEADY 0.9                    // readings of memory's speed within this of each other are called one

typedef struct BenchRow {
    int64_t depth, prompt, generated;
    double prefill_tok_s, decode_tok_s, read_gb_s, roof_gb_s, roof_share;     // NAN where not measured
} BenchRow;

typedef struct Bench {
    Loaded *loaded;
    int32_t *tokens;                  // as many as the longest depth or prompt needs
    int repeat, rounds_done, rounds;
    bool takes_turns;
    Progress progress;
    Roof *roof;                       // beside the repetitions; NULL: measured at the end, or not at all
    double slowest_gb_s, fastest_gb_s;           // of its readings; 0: there are none
    size_t peak_rss_bytes;            // without the roof's buffer
} Bench;

// Any tokens do: speed does not depend on them, except through the choice of experts.
static int32_t *tokens_make(Arena *arena, int64_t n, int64_t vocab) {
    int32_t *tokens = arena_new(arena, (size_t)(n + 1) * sizeof *tokens);
    uint64_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((state >> 33) % (uint64_t)vocab);
    }
    return tokens;
}

static bool prompt_run(Bench *b, int64_t n, int64_t depth, Error *err) {
    return model_eval(b->loaded->model, 0, b->tokens, n, depth, LOGITS_LAST, NULL, err);
}

static bool generation_run(Bench *b, int64_t n, int64_t depth, Error *err) {
    SamplingOptions greedy = sampling_defaults();
    greedy.temperature = 0;
    int32_t slot = 0;
    ModelDraw draw = {.options = &greedy, .token = b->tokens[0], .error = err};
    for (int64_t i = 0; i < n; i++) {
        int32_t token = draw.token, position = (int32_t)(depth + i);
        draw.number = (uint32_t)i;
        TRY(model_draw(b->loaded->model, &token, &position, &slot, 1, &draw, 1, err) && draw.token >= 0);
    }
    return true;
}

typedef struct BenchTest {
    const char *name;                 // of its rate in JSON
    bool (*run)(Bench *b, int64_t n, int64_t depth, Error *err);
} BenchTest;

static const BenchTest prefill = {"prefill_tok_s", prompt_run}, decode = {"decode_tok_s", generation_run};

static void object_print(json_t *object) {
    json_print(object, 6);
    fflush(stdout);
}

static bool turn_wait(const char *name, int64_t depth, Error *err) {
    object_print(json_pack("{s:s, s:I}", "ready", name, "depth", (json_int_t)depth));
    for (int c = getchar(); c != '\n'; c = getchar())
        if (c == EOF)
            return fail(err, LATHE_BAD_REQUEST, "--turns: standard input ended before the last repetition; "
                        "each repetition waits for one line");
    return true;
}

static double memory_gb_s(Bench *b) {
    double now = roof_gb_s_now(b->roof);
    if (b->slowest_gb_s == 0 || now < b->slowest_gb_s) b->slowest_gb_s = now;
    if (now > b->fastest_gb_s) b->fastest_gb_s = now;
    return now;
}

// Tokens a second of each repetition, and what memory gave beside it where `roofs` asks for that.
static bool rates_measure(Bench *b, const BenchTest *test, int64_t n, int64_t depth, double *rates, double *roofs,
                          Error *err) {
    for (int r = 0; r < b->repeat; r++) {
        progress_show(&b->progress, "bench", b->rounds_done++, b->rounds);
        if (b->takes_turns) TRY(turn_wait(test->name, depth, err));
        double before = roofs ? memory_gb_s(b) : 0;
        uint64_t begin = time_us();
        TRY(test->run(b, n, depth, err));
        uint64_t spent = time_us() - begin;
        if (roofs) roofs[r] = (before + memory_gb_s(b)) / 2;
        rates[r] = (double)n / ((double)(spent ? spent : 1) / 1e6);
        if (b->takes_turns) object_print(json_pack("{s:f, s:I}", test->name, rates[r], "depth", (json_int_t)depth));
    }
    return true;
}

static double row_read_gb_s(const Bench *b, const BenchRow *row, double tok_s) {
    return loaded_read_gb_s(b->loaded, tok_s, (double)row->depth + (double)row->generated / 2);
}

static bool generation_measure(Bench *b, BenchRow *row, double *rates, Arena *arena, Error *err) {
    double *roofs = b->roof ? arena_new(arena, (size_t)b->repeat * sizeof *roofs) : NULL;
    double *shares = arena_new(arena, (size_t)b->repeat * sizeof *shares);
    TRY(rates_measure(b, &decode, row->generated, row->depth, rates, roofs, err));
    for (int r = 0; roofs && r < b->repeat; r++) shares[r] = row_read_gb_s(b, row, rates[r]) / roofs[r];
    row->decode_tok_s = median_of(rates, b->repeat);
    row->read_gb_s = row_read_gb_s(b, row, row->decode_tok_s);
    if (!roofs) return true;
    row->roof_gb_s = median_of(roofs, b->repeat);
    row->roof_share = median_of(shares, b->repeat);
    return true;
}

// What is in the context does not depend on the number of threads, so all CPUs may fill it where few are timed.
static bool context_fill(Bench *b, int64_t depth, int threads, Error *err) {
    Engine *engine = b->loaded->rest ? b->loaded->rest : b->loaded->engine;   // what the CPU computes
    int own = engine_threads(engine);
    if (threads) TRY(engine_set_threads(engine, threads, err));
    TRY(prompt_run(b, depth, 0, err));
    return !threads || engine_set_threads(engine, own, err);
}

static bool row_measure(Bench *b, BenchRow *row, const Options *o, Error *err) {
    int64_t chunk = model_chunk(b->loaded->model);
    double *rates = arena_new(o->arena, (size_t)b->repeat * sizeof *rates);
    row->prefill_tok_s = row->decode_tok_s = row->read_gb_s = row->roof_gb_s = row->roof_share = NAN;
    progress_compiling(&b->progress);
    if (row->depth) TRY(context_fill(b, row->depth, (int)option_int(o, OPTION_fill_threads), err));
    if (row->prompt) {
        // One full and one last, shorter chunk: every kernel that the timed rounds need.
        TRY(prompt_run(b, row->prompt <= chunk ? row->prompt : chunk + row->prompt % chunk, row->depth, err));
        TRY(rates_measure(b, &prefill, row->prompt, row->depth, rates, NULL, err));
        row->prefill_tok_s = median_of(rates, b->repeat);
    }
    if (row->generated) {
        TRY(generation_run(b, row->generated < 3 ? row->generated : 3, row->depth, err));
        TRY(generation_measure(b, row, rates, o->arena, err));
    }
    return true;
}

static void rows_print_json(const Bench *b, const BenchRow *rows, int n) {
    const Loaded *l = b->loaded;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const BenchRow *r = &rows[i];
        json_array_append_new(list, json_pack(
            "{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:I, s:I}",
            "model", l->path, "device", engine_device(l->engine)->name, "target", engine_target(l->engine)->name,
            "threads", engine_threads(l->engine), "depth", (json_int_t)r->depth, "prompt_tokens", (json_int_t)r->prompt,
            "generated_tokens", (json_int_t)r->generated, "prefill_tok_s", json_number(r->prefill_tok_s),
            "decode_tok_s", json_number(r->decode_tok_s), "read_gb_s", json_number(r->read_gb_s),
            "roof_gb_s", json_number(r->roof_gb_s), "roof_share", json_number(r->roof_share),
            "load_s", l->load_s, "compile_s", engine_compile_seconds(l->engine),
            "peak_rss_bytes", (json_int_t)b->peak_rss_bytes,
            "bytes_per_token", (json_int_t)model_bytes_per_token(l->model)));
    }
    json_print(list, 6);
}

static void rows_print(const Bench *b, const BenchRow *rows, int n) {
    const Loaded *l = b->loaded;
    printf("%s on %s (%s), %d threads\n", l->path, engine_device(l->engine)->name, engine_target(l->engine)->name,
           engine_threads(l->engine));
    printf("loaded in %.2f s, kernels compiled in %.2f s, peak memory %.0f MiB, %.4g MB of weights a token\n", l->load_s,
           engine_compile_seconds(l->engine), (double)b->peak_rss_bytes / (1 << 20),
           (double)model_bytes_per_token(l->model) / 1e6);
    if (b->slowest_gb_s < STEADY * b->fastest_gb_s)
        printf("memory's speed moved between %.1f and %.1f GB/s: others are at work on this machine or its host\n",
               b->slowest_gb_s, b->fastest_gb_s);
    printf("\n%8s %11s %11s %11s %11s %11s %11s %11s\n", "depth", "prompt", "tok/s", "generated", "tok/s", "GB/s", "roof GB/s",
           "% of roof");
    for (int i = 0; i < n; i++) {
        printf("%8lld %11lld", (long long)rows[i].depth, (long long)rows[i].prompt);
        cell_print(11, "%.1f", rows[i].prefill_tok_s);
        printf(" %11lld", (long long)rows[i].generated);
        cell_print(11, "%.2f", rows[i].decode_tok_s);
        cell_print(11, "%.2f", rows[i].read_gb_s);
        cell_print(11, "%.1f", rows[i].roof_gb_s);
        cell_print(11, "%.1f", rows[i].roof_share * 100);
        putchar('\n');
    }
}

// Of the process, less the roof's buffer, which is resident from the time when the model has been loaded.
static size_t peak_without_roof(const Bench *b, size_t peak_before) {
    size_t now = memory_peak_bytes(), held = b->roof ? roof_held_bytes(b->roof) : 0;
    return now > peak_before + held ? now - held : peak_before;
}

// Beside the repetitions, where the host's memory holds the roof's buffer, the whole model and the cache of so many tokens; else nothing of the
// model is pushed out.
static Roof *roof_beside(const Loaded *l, int64_t tokens) {
    size_t nbytes = roof_default_bytes(), cache = (size_t)(model_cache_bytes_per_token(l->model) * tokens);
    bool fits = engine_device(l->engine)->has_host_memory && memory_available_bytes() >= l->gguf.file_bytes + nbytes + cache;
    return fits ? roof_open(engine_threads(l->engine), nbytes) : NULL;
}

static void last_roof_measure(const Bench *b, BenchRow *rows, int n) {
    double gb_s = loaded_roof_gb_s(b->loaded);
    for (int i = 0; i < n && gb_s > 0; i++) {
        rows[i].roof_gb_s = gb_s;
        rows[i].roof_share = rows[i].read_gb_s / gb_s;
    }
}

static bool bench_run(Bench *b, BenchRow *rows, int n, int64_t longest, const Options *o, Error *err) {
    bool generates = option_int(o, OPTION_bench_tokens) > 0;
    size_t peak_before = memory_peak_bytes();
    b->tokens = tokens_make(o->arena, longest, model_vocab_size(b->loaded->model));
    if (generates) b->roof = roof_beside(b->loaded, longest);
    for (int i = 0; i < n; i++) TRY(row_measure(b, &rows[i], o, err));
    progress_end(&b->progress);
    b->peak_rss_bytes = peak_without_roof(b, peak_before);
    if (generates && !b->roof) last_roof_measure(b, rows, n);
    if (option_given(o, OPTION_json)) rows_print_json(b, rows, n);
    else rows_print(b, rows, n);
    return true;
}

bool command_bench(const Options *o, Error *err) {
    int64_t *depths, prompt = option_int(o, OPTION_bench_prompt), generated = option_int(o, OPTION_bench_tokens);
    int n, repeat = (int)option_int(o, OPTION_repeat);
    if (prompt == 0 && generated == 0) return fail(err, LATHE_BAD_REQUEST, "-p 0 -n 0 leaves nothing to measure");
    TRY(numbers_read(o->arena, "--depth", option_text(o, OPTION_depth), &depths, &n, err));
    BenchRow *rows = arena_new(o->arena, (size_t)n * sizeof *rows);
    int64_t longest = prompt > generated ? prompt : generated, deepest = 0;
    for (int i = 0; i < n; i++) {
        if (depths[i] > 1 << 24) return fail(err, LATHE_BAD_REQUEST, "--depth %lld is more than any context", (long long)depths[i]);
        rows[i] = (BenchRow){.depth = depths[i], .prompt = prompt, .generated = generated};
        if (depths[i] > deepest) deepest = depths[i];
    }
    Loaded loaded;
    Bench bench = {.loaded = &loaded, .repeat = repeat, .rounds = n * repeat * ((prompt > 0) + (generated > 0)),
                   .takes_turns = option_given(o, OPTION_turns)};
    LoadOptions load = load_options(o, deepest + longest + 1);
    load.generates = true;
    TRY(loaded_open(&loaded, o->arena, &load, err));
    loaded_print_sums(&loaded);
    bool ok = bench_run(&bench, rows, n, longest > deepest ? longest : deepest, o, err);
    progress_end(&bench.progress);
    roof_close(bench.roof);
    loaded_close(&loaded);
    return ok;
}

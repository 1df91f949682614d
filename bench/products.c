// products: how fast a row of activations meets a weight of each block type: what one token does with every weight.
// In: block types (all of nn/quant's, and the two invented ones of the tests). Out: GB of weights a second, in cache (256 rows
// x 1,536 or 2,048 values, one thread) and from memory (about 512 MB, -t threads), and their ratio to another type's.
// Method: the graph is layers_linear in fast mode, as the models use it, on the cpu device; a step that only rounds the
// activations is measured too and taken off. The type and the one it stands beside are measured in turns, so that a
// machine whose speed moves says the same about both; medians of 15 turns.
// Example: build/bench/products --type Q2_K --type Q3_K --target avx512vnni
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "app/figures.h"
#include "app/json_output.h"
#include "base/os.h"
#include "engine/engine.h"
#include "nn/layers.h"
#include "unit/invented_types.h"
#include "unit/noise_blocks.h"

enum { TURNS = 15, TURN_US = 2000, MOST_COLS = 2048, CACHE_ROWS = 256, TYPES_MAX = 64, BOOKS_MAX = 8 };

static const char usage[] =
    "usage: products [--type NAME]... [--beside NAME] [--target NAME] [-t N] [--cols N] [--mb N] [--json]\n"
    "Speed of products of one row with a weight, GB of weights a second, for each block type.\n\n"
    "  --type NAME    only this type; may be given several times (default: all, and the invented I5 and I3)\n"
    "  --beside NAME  the type that each is measured in turns with (default: Q4_0)\n"
    "  --target NAME  instruction set, for example avx2 (default: what the CPU has)\n"
    "  -t N           worker threads from memory (default: all CPUs); in cache it is always one\n"
    "  --cols N       values in a row, at most 2048 (default: 2048, or a little less)\n"
    "  --mb N         size of the weight in memory (default: 512; 0: only in cache)\n"
    "  --json         print JSON\n"
    "  --help         this page\n";

typedef struct Request {
    const QuantType *types[TYPES_MAX], *beside;
    int n_types, threads;
    int64_t nbytes;            // of the weight in memory
    int64_t cols;              // values in a row; 0: many
    const char *target;
    bool wants_json;
} Request;

// A product that is ready to run: what is timed is step, less rounding.
typedef struct Product { Arena *arena; Engine *engine; uint8_t *weight; size_t nbytes; Step *step, *rounding; } Product;

typedef struct Figures { double cache, cache_ratio, memory, memory_ratio; } Figures;   // GB/s and ratios; NAN: not measured

// ---------------------------------------------------------------- one product

typedef struct Books { Engine *engine; const int8_t *values[BOOKS_MAX]; int64_t id[BOOKS_MAX]; int n; } Books;

static Tensor book_tensor(void *context, Graph *g, const int8_t *values, int n) {
    Books *books = context;
    int i = 0, lo = values[0], hi = values[0];
    Error err = {0};
    while (i < books->n && books->values[i] != values) i++;
    if (i == BOOKS_MAX) return uop_poison(g, "more than %d code books", BOOKS_MAX);
    if (i == books->n) {
        if (!engine_buffer_alloc(books->engine, (size_t)n, &books->id[i], &err)) return uop_poison(g, "%s", err.text);
        engine_buffer_write(books->engine, books->id[i], 0, values, (size_t)n);
        books->values[books->n++] = values;
    }
    for (int k = 0; k < n; k++) lo = values[k] < lo ? values[k] : lo, hi = values[k] > hi ? values[k] : hi;
    return tensor_buffer(g, books->id[i], DT_I8, lo, hi, dims(n));
}

// As many values as were asked for, in whole blocks; 0: the largest row, at most MOST_COLS values, of a power of two of blocks, as rows of
// models are, without a rest.
static int64_t columns_of(const QuantType *t, int64_t wanted) {
    int64_t block = t->block_elements, cols = block;
    if (wanted) return wanted < block ? block : wanted / block * block;
    while (cols * 2 <= MOST_COLS) cols *= 2;
    return cols;
}

// One MiB of random blocks, again and again: what a kernel does depends on no value.
static bool weight_fill(Product *p, const QuantType *t) {
    size_t some = ((size_t)1 << 20) / (size_t)t->block_bytes * (size_t)t->block_bytes;
    uint64_t state = 7;
    p->weight = memory_pages(p->nbytes + 4096);    // loads may pass the end by a page
    if (!p->weight) return false;
    if (some > p->nbytes) some = p->nbytes;
    noise_blocks_fill(p->weight, t, (int64_t)some / t->block_bytes, &state);
    for (size_t at = some; at < p->nbytes; at += some)
        memcpy(p->weight + at, p->weight, at + some < p->nbytes ? some : p->nbytes - at);
    return true;
}

static bool graphs_compile(Product *p, const QuantType *t, int64_t rows, int64_t cols, Books *books, Error *err) {
    Graph *g = graph_create(p->arena);
    Layers layers = {g, false, {book_tensor, books}};
    Weight weight = {.type = t, .count = 1, .rows = rows, .cols = cols};
    int64_t input;
    uint64_t state = 9;
    float x[MOST_COLS];
    for (int64_t i = 0; i < cols; i++) x[i] = (float)((double)noise_next(&state) / 2147483648.0 - 1);
    TRY(engine_buffer_wrap(p->engine, p->weight, p->nbytes, &weight.buffer, err));
    TRY(engine_buffer_alloc(p->engine, sizeof x, &input, err));
    engine_buffer_write(p->engine, input, 0, x, (size_t)cols * sizeof *x);
    Tensor row = tensor_buffer(g, input, DT_F32, 0, 0, dims(1, cols));
    Tensor y = layers_linear(&layers, input_of(row), &weight);
    TRY(engine_compile(p->engine, &y, 1, &p->step, err));
    if (quant_is_plain(t)) return true;
    Rounded rounded = layers_round(row, ACTIVATION_BLOCK);
    return engine_compile(p->engine, (Tensor[]){rounded.p, rounded.s}, 2, &p->rounding, err);
}

static void product_close(Product *p) {
    if (p->step) step_destroy(p->step);
    if (p->rounding) step_destroy(p->rounding);
    if (p->engine) engine_close(p->engine);
    memory_pages_free(p->weight, p->nbytes + 4096);
    arena_destroy(p->arena);
}

// rows 0: as many as there are in nbytes.
static bool product_open(Product *p, const Request *r, const QuantType *t, int64_t rows, int64_t nbytes, int threads, Error *err) {
    int64_t cols = columns_of(t, r->cols), row_bytes = quant_row_bytes(t, cols);
    if (!rows) rows = nbytes / row_bytes / CACHE_ROWS * CACHE_ROWS;
    *p = (Product){.arena = arena_create(), .nbytes = (size_t)(rows * row_bytes)};
    Books books = {0};
    if (!weight_fill(p, t))
        return fail(err, LATHE_NO_MEMORY, "no memory for a weight of %zu bytes: try a smaller --mb", p->nbytes);
    TRY(engine_open(&p->engine, "cpu", r->target, threads, err));
    books.engine = p->engine;
    return graphs_compile(p, t, rows, cols, &books, err);
}

// ---------------------------------------------------------------- timing

// Microseconds of one run, the mean of n in a row.
static bool step_time(Step *step, int n, double *us, Error *err) {
    uint64_t begin = time_us();
    for (int i = 0; i < n; i++) TRY(step_run(step, err));
    *us = (double)(time_us() - begin) / n;
    return true;
}

// Microseconds of one product in one turn, with what rounding takes.
static bool product_time(Product *p, double *us, Error *err) {
    double one;
    TRY(step_time(p->step, 1, &one, err));
    return step_time(p->step, one < TURN_US ? (int)(TURN_US / fmax(one, 1)) : 1, us, err);
}

static bool rounding_time(Product *p, double *us, Error *err) {
    double times[TURNS];
    *us = 0;
    if (!p->rounding) return true;
    for (int i = 0; i < TURNS; i++) TRY(step_time(p->rounding, 100, &times[i], err));
    *us = median_of(times, TURNS);
    return true;
}

// The type's GB/s, and its ratio to the other's, in turns.
static bool pair_measure(Product *p, Product *beside, double *gb_s, double *ratio, Error *err) {
    double own_rounding, other_rounding, own, other, rates[TURNS], ratios[TURNS];
    TRY(rounding_time(p, &own_rounding, err));
    TRY(rounding_time(beside, &other_rounding, err));
    for (int i = 0; i < TURNS; i++) {
        TRY(product_time(p, &own, err));
        TRY(product_time(beside, &other, err));
        rates[i] = (double)p->nbytes / (own - own_rounding) / 1e3;
        ratios[i] = rates[i] / ((double)beside->nbytes / (other - other_rounding) / 1e3);
    }
    *gb_s = median_of(rates, TURNS), *ratio = median_of(ratios, TURNS);
    return true;
}

static bool type_measure(const Request *r, const QuantType *t, int64_t rows, int threads, Product *beside, double *gb_s,
                         double *ratio, Error *err) {
    Product p;
    bool ok = product_open(&p, r, t, rows, r->nbytes, threads, err) && pair_measure(&p, beside, gb_s, ratio, err);
    product_close(&p);
    return ok;
}

// ---------------------------------------------------------------- output

static void figures_print(const QuantType *t, const Figures *f) {
    printf("%-8s %6d", t->name, t->block_bytes);
    cell_print(12, "%.2f", f->cache);
    cell_print(12, "%.2f", f->cache_ratio);
    cell_print(12, "%.2f", f->memory);
    cell_print(12, "%.2f", f->memory_ratio);
    putchar('\n');
    fflush(stdout);
}

static json_t *figures_json(const QuantType *t, const Figures *f) {
    return json_pack("{s:s, s:i, s:i, s:o, s:o, s:o, s:o}", "type", t->name, "block_bytes", t->block_bytes, "block_elements",
                     t->block_elements, "cache_gb_s", json_number(f->cache), "cache_ratio", json_number(f->cache_ratio),
                     "memory_gb_s", json_number(f->memory), "memory_ratio", json_number(f->memory_ratio));
}

static bool types_measure(const Request *r, Product *cache, Product *memory, Error *err) {
    const char *target = engine_target(cache->engine)->name, *beside = r->beside->name;
    int threads = r->nbytes ? engine_threads(memory->engine) : 1;
    json_t *list = json_array();
    if (!r->wants_json)
        printf("products of one row on %s, GB of weights a second; from memory %d thread%s\n\n%-8s %6s %12s %12s %12s %12s\n", target,
               threads, threads == 1 ? "" : "s", "type", "bytes", "in cache", beside, "from memory", beside);
    for (int i = 0; i < r->n_types; i++) {
        Figures f = {NAN, NAN, NAN, NAN};
        TRY(type_measure(r, r->types[i], CACHE_ROWS, 1, cache, &f.cache, &f.cache_ratio, err));
        if (r->nbytes) TRY(type_measure(r, r->types[i], 0, r->threads, memory, &f.memory, &f.memory_ratio, err));
        if (r->wants_json) json_array_append_new(list, figures_json(r->types[i], &f));
        else figures_print(r->types[i], &f);
    }
    if (r->wants_json)
        json_print(json_pack("{s:s, s:i, s:s, s:o}", "target", target, "threads", threads, "beside", beside, "types", list), 5);
    else json_decref(list);
    return true;
}

static bool products_run(const Request *r, Error *err) {
    Product cache, memory = {0};
    bool ok = product_open(&cache, r, r->beside, CACHE_ROWS, 0, 1, err) &&
              (!r->nbytes || product_open(&memory, r, r->beside, 0, r->nbytes, r->threads, err)) &&
              types_measure(r, &cache, &memory, err);
    product_close(&cache);
    if (memory.arena) product_close(&memory);
    return ok;
}

// ---------------------------------------------------------------- command line

static bool type_named(const char *name, const QuantType **type, Error *err) {
    char known[512] = "";
    for (int i = 0; i < quant_count(); i++) {
        *type = quant_at(i);
        if (!strcasecmp((*type)->name, name)) return true;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", (*type)->name);
    }
    return fail(err, LATHE_BAD_REQUEST, "no block type is named %s; there are%s", name, known);
}

static bool number_read(const char *flag, const char *text, int64_t least, int64_t most, int64_t *value, Error *err) {
    char *end;
    *value = strtoll(text, &end, 10);
    if (end != text && !*end && *value >= least && *value <= most) return true;
    return fail(err, LATHE_BAD_REQUEST, "%s %s: a number from %lld to %lld is needed", flag, text, (long long)least,
                (long long)most);
}

static bool request_read(Request *r, int argc, char **argv, Error *err) {
    static const struct option flags[] = {{"type", 1, 0, 'T'}, {"beside", 1, 0, 'b'}, {"target", 1, 0, 'a'}, {"mb", 1, 0, 'm'}, {"cols", 1, 0, 'c'},
                                          {"threads", 1, 0, 't'}, {"json", 0, 0, 'j'}, {"help", 0, 0, 'h'}, {0}};
    int64_t threads = 0, megabytes = 512;
    TRY(type_named("Q4_0", &r->beside, err));
    for (int c; (c = getopt_long(argc, argv, "t:h", flags, NULL)) != -1;) {
        switch (c) {
        case 'T':
            if (r->n_types == TYPES_MAX) return fail(err, LATHE_BAD_REQUEST, "--type: at most %d types", TYPES_MAX);
            TRY(type_named(optarg, &r->types[r->n_types++], err));
            break;
        case 'b': TRY(type_named(optarg, &r->beside, err)); break;
        case 'a': r->target = optarg; break;
        case 'm': TRY(number_read("--mb", optarg, 0, 1 << 16, &megabytes, err)); break;
        case 'c': TRY(number_read("--cols", optarg, 1, MOST_COLS, &r->cols, err)); break;
        case 't': TRY(number_read("-t", optarg, 0, 1024, &threads, err)); break;
        case 'j': r->wants_json = true; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(1);
        }
    }
    if (optind < argc) return fail(err, LATHE_BAD_REQUEST, "%s: only flags are known here; --help lists them", argv[optind]);
    if (!r->n_types) for (int i = 0; i < quant_count() && i < TYPES_MAX; i++) r->types[r->n_types++] = quant_at(i);
    r->threads = (int)threads, r->nbytes = megabytes * 1000000;
    return true;
}

int main(int argc, char **argv) {
    Request request = {0};
    Error err = {0};
    process_begin();
    CHECK(invented_register());
    if (request_read(&request, argc, argv, &err) && products_run(&request, &err)) return 0;
    fprintf(stderr, "products: %s\n", err.text);
    return 1;
}

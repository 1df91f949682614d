// loaded: a model ready to compute: file, engine, weights, and what it took to get there.
// In: LoadOptions, from flags or from a program that uses the library. Out: a Loaded; loaded_close gives all back.
// Invariant: after loaded_open failed nothing is left open. Times are seconds of wall clock.
// Example: Loaded l; TRY(loaded_open(&l, arena, &(LoadOptions){.model = "m.gguf"}, err)); ... loaded_close(&l);
#pragma once
#include "app/options.h"
#include "engine/engine.h"
#include "models/model.h"
#include "nn/dry.h"
#include "nn/gguf.h"
#include "text/tokenizer.h"

typedef struct LoadOptions {
    const char *model;                // path, name, or NULL for the model inside the binary
    const char *const *overrides;     // as in --override-kv
    int n_overrides;
    const char *device, *target;      // NULL: the defaults
    int threads;                      // 0: LATHE_THREADS, else all CPUs
    int gpu_layers;                   // so many first blocks on the device, the rest on the CPU; −1: all
    bool deterministic;               // the same bits in each run, also on GPUs
    bool generates;                   // the form of sums that decides how fast is measured first, where there is a choice
    ModelOptions model_options;
} LoadOptions;

typedef struct Loaded {
    const char *path;                 // as messages call it
    Gguf gguf;
    Engine *engine;
    Engine *rest;                     // NULL, or the CPU that takes the last blocks
    Model *model;
    SumTimes sums;
    double load_s;                    // opening and loading, without compiling
} Loaded;

// Sampling as the flags say; the seed is drawn where none is given.
SamplingOptions sampling_from(const Options *options);
// Ends of lines and what dialogues and lists are marked with.
extern const Text dry_usual_breakers[];
enum { DRY_USUAL_BREAKERS = 4 };
DryBreakers dry_breakers(const Tokenizer *tokenizer, const Text *texts, size_t n);
// The flags that all computing commands share. least_context: positions that the command needs; wins over the
// default context, not over --context. 0: none.
LoadOptions load_options(const Options *options, int64_t least_context);
// path (as messages call the file) lives on arena.
bool loaded_open(Loaded *loaded, Arena *arena, const LoadOptions *options, Error *err) MUST_CHECK;
void loaded_close(Loaded *loaded);
// 10⁹ bytes a second that memory gives the engine's threads, or the device, measured now; 0 where it cannot be.
double loaded_roof_gb_s(const Loaded *loaded);
// 10⁹ bytes a second that generation at this rate and depth reads: the weights of a token and its cache.
double loaded_read_gb_s(const Loaded *loaded, double tok_s, double depth);
void loaded_print(const Loaded *loaded);        // one line about it on standard error, and those of loaded_print_sums
void loaded_print_sums(const Loaded *loaded);   // the form of sums and how it was chosen; nothing where nothing was measured
// Only the file, with --override-kv applied. word: what was written as MODEL, or NULL.
bool loaded_open_file(Gguf *gguf, const Options *options, const char *word, const char **path, Error *err) MUST_CHECK;
// The words of text, separated by white space or commas, as whole numbers of at least 0. what is named in errors.
bool numbers_read(Arena *arena, const char *what, const char *text, int64_t **numbers, int *n, Error *err) MUST_CHECK;

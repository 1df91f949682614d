// loaded: opens what run, bench, profile and logits need, in one order, with one set of flags.
// In: Options. Out: Loaded. Invariant: as its header says: all or nothing.
// Example: --device eval --exact → an engine on the eval device and a model whose activations stay f32
#include "app/loaded.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/device_roof.h"
#include "app/model_find.h"
#include "app/roof.h"
#include "app/terminal.h"
#include "base/os.h"
#include "base/settings.h"
#include "base/vec.h"

static const char CPU[] = "cpu";

bool loaded_open_file(Gguf *gguf, const Options *o, const char *word, const char **path, Error *err) {
    return model_open(gguf, o->arena, word, o->overrides, o->n_overrides, path, err);
}

LoadOptions load_options(const Options *o, int64_t least_context) {
    int64_t context = option_int(o, OPTION_context);
    return (LoadOptions){
        .model = o->n_words ? o->words[0] : NULL,
        .overrides = o->overrides,
        .n_overrides = o->n_overrides,
        .device = option_text(o, OPTION_device),
        .target = option_text(o, OPTION_target),
        .threads = (int)option_int(o, OPTION_threads),
        .gpu_layers = (int)option_int(o, OPTION_gpu_layers),
        .deterministic = option_given(o, OPTION_deterministic),
        .model_options = {
            .exact = option_given(o, OPTION_exact),
            .context = context ? context : least_context,
            .cache_type = option_text(o, OPTION_cache_type),
            .chunk = (int)option_int(o, OPTION_chunk),
            .in_place = o->texts[OPTION_repack] && strcmp(o->texts[OPTION_repack], "never") == 0,
        },
    };
}

SamplingOptions sampling_from(const Options *o) {
    int64_t seed = option_given(o, OPTION_seed) ? option_int(o, OPTION_seed) : -1;
    return (SamplingOptions){
        .temperature = (float)option_real(o, OPTION_temp),
        .top_k = (int)option_int(o, OPTION_top_k),
        .top_p = (float)option_real(o, OPTION_top_p),
        .min_p = (float)option_real(o, OPTION_min_p),
        .repeat_penalty = (float)option_real(o, OPTION_repeat_penalty),
        .presence_penalty = (float)option_real(o, OPTION_presence_penalty),
        .frequency_penalty = (float)option_real(o, OPTION_frequency_penalty),
        .penalty_window = (int)option_int(o, OPTION_repeat_last),
        .dry_multiplier = (float)option_real(o, OPTION_dry_multiplier),
        .dry_base = (float)option_real(o, OPTION_dry_base),
        .dry_allowed_length = (int)option_int(o, OPTION_dry_allowed),
        .dry_window = (int)option_int(o, OPTION_dry_last),
        .seed = seed >= 0 ? (uint64_t)seed : (time_us() ^ (uint64_t)process_id() << 32) & INT64_MAX,
    };
}

const Text dry_usual_breakers[DRY_USUAL_BREAKERS] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};

static Text piece_of(const void *tokenizer, int32_t token) {
    return tokenizer_decode_piece(tokenizer, token);
}

DryBreakers dry_breakers(const Tokenizer *tokenizer, const Text *texts, size_t n) {
    return (DryBreakers){.texts = texts, .n = n, .piece = piece_of, .vocabulary = tokenizer};
}

// The device, and for the blocks that it does not take the CPU.
static bool engines_open(Loaded *l, const LoadOptions *o, int threads, Error *err) {
    if (o->gpu_layers == 0) return engine_open(&l->engine, CPU, NULL, threads, err);
    TRY(engine_open(&l->engine, o->device, o->target, threads, err));
    if (o->gpu_layers < 0) return true;
    if (!strcmp(engine_device(l->engine)->name, CPU))
        return fail(err, LATHE_BAD_REQUEST, "--gpu-layers %d: all blocks are on the CPU already; name a GPU: --device cuda or opencl", o->gpu_layers);
    return engine_open(&l->rest, CPU, NULL, threads, err);
}

static void upload_show(void *context, int64_t done, int64_t total) { progress_show(context, "upload", done, total); }

bool loaded_open(Loaded *l, Arena *arena, const LoadOptions *o, Error *err) {
    *l = (Loaded){0};
    uint64_t begin = time_us();
    int threads = o->threads ? o->threads : (int)setting_int(SETTING_THREADS);
    TRY(model_open(&l->gguf, arena, o->model, o->overrides, o->n_overrides, &l->path, err));
    Progress progress = {0};
    ModelOptions options = o->model_options;
    options.progress = (LoadProgress){upload_show, &progress};
    options.first_blocks = o->gpu_layers;
    bool ok = engines_open(l, o, threads, err);
    options.rest = l->rest;
    if (ok && o->deterministic) engine_keep_order(l->engine);
    ok = ok && model_load(&l->model, &l->gguf, l->engine, &options, err);
    progress_end(&progress);
    if (!ok) {
        loaded_close(l);
        return false;
    }
    l->load_s = (double)(time_us() - begin) / 1e6 - engine_compile_seconds(l->engine);
    if (o->generates && !model_measure_sums(l->model, &l->sums, err)) {
        loaded_close(l);
        return false;
    }
    return true;
}

double loaded_roof_gb_s(const Loaded *l) {
    bool is_host = engine_device(l->engine)->has_host_memory;
    return is_host ? roof_measure(engine_threads(l->engine), roof_default_bytes()) : device_roof_gb_s(l->engine);
}

double loaded_read_gb_s(const Loaded *l, double tok_s, double depth) {
    return tok_s * ((double)model_bytes_per_token(l->model) + (double)model_cache_bytes_per_token(l->model) * depth) / 1e9;
}

void loaded_print_sums(const Loaded *l) {
    const uint64_t *us = l->sums.us;
    if (us[SUMS_ORDERED] == 0) return;
    fprintf(stderr, "[sums of few long steps: %s; a token takes %.3f ms with ordered ones, %.3f with parts, %.3f with atomic adds]\n",
            sum_form_names[l->sums.chosen], (double)us[SUMS_ORDERED] / 1e3, (double)us[SUMS_PARTS] / 1e3, (double)us[SUMS_ATOMIC] / 1e3);
}

void loaded_print(const Loaded *l) {
    int threads = engine_threads(l->rest ? l->rest : l->engine);
    fprintf(stderr, "[%s: %s, context %lld tokens, cache %lld bytes a token, %d thread%s]\n", l->path,
            model_config(l->model)->architecture, (long long)model_context(l->model),
            (long long)model_cache_bytes_per_token(l->model), threads, threads == 1 ? "" : "s");
    loaded_print_sums(l);
    if (engine_device(l->engine)->runs_nothing)
        fputs("[the null device compiles and computes nothing: what follows is no answer]\n", stderr);
}

void loaded_close(Loaded *l) {
    if (l->model) model_free(l->model);
    if (l->engine) engine_close(l->engine);
    if (l->rest) engine_close(l->rest);
    gguf_close(&l->gguf);
    *l = (Loaded){0};
}

bool numbers_read(Arena *arena, const char *what, const char *text, int64_t **numbers, int *n, Error *err) {
    VEC(int64_t) found = {0};
    for (const char *at = text; *at;) {
        if (isspace((unsigned char)*at) || *at == ',') {
            at++;
            continue;
        }
        char *end;
        errno = 0;
        int64_t number = strtoll(at, &end, 10);
        bool is_whole = *end == '\0' || isspace((unsigned char)*end) || *end == ',';
        if (end == at || !is_whole || errno != 0 || number < 0)
            return fail(err, LATHE_BAD_REQUEST, "%s: \"%.32s\" is not a whole number of at least 0; numbers are separated "
                        "by spaces", what, at);
        vec_push(arena, &found, number);
        at = end;
    }
    if (found.len == 0) return fail(err, LATHE_BAD_REQUEST, "%s: there is no number in \"%s\"", what, text);
    *numbers = found.at;
    *n = (int)found.len;
    return true;
}

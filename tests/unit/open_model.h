// open_model: a tiny model of the tests, ready to compute: file, engine of two threads, weights.
// Example: OpenModel m; if (!open_model(&m, NULL, "tiny-llama", "f32", &options)) skip(); … close_model(&m);
#pragma once
#include "models/generate.h"
#include "models/model.h"
#include "unit/model_files.h"

#undef fail // cmocka has its own
#include <cmocka.h>

typedef struct OpenModel {
    Arena *arena;
    Gguf gguf;
    Engine *engine;
    Model *model;
} OpenModel;

// False: there is no such file, and nothing is open. device NULL: the default one. What goes wrong fails the test.
static inline bool open_model(OpenModel *m, const char *device, const char *shape, const char *quant, const ModelOptions *options) {
    Error err = {0};
    *m = (OpenModel){.arena = arena_create()};
    const char *path = model_file(m->arena, shape, quant);
    if (!path) {
        arena_destroy(m->arena);
        return false;
    }
    if (!gguf_open(&m->gguf, path, &err)) fail_msg("%s", err.text);
    if (!engine_open(&m->engine, device, NULL, 2, &err)) fail_msg("%s", err.text);
    if (!model_load(&m->model, &m->gguf, m->engine, options, &err)) fail_msg("%s", err.text);
    return true;
}

static inline void close_model(OpenModel *m) {
    model_free(m->model);
    engine_close(m->engine);
    gguf_close(&m->gguf);
    arena_destroy(m->arena);
}

static inline SamplingOptions greedy(void) {
    SamplingOptions o = sampling_defaults();
    o.temperature = 0;
    return o;
}

static inline Session *session_new(const OpenModel *m, int slot, const SamplingOptions *o) {
    Error err = {0};
    Session *s;
    if (!session_open(&s, m->model, slot, o, &err)) fail_msg("%s", err.text);
    return s;
}

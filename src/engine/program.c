// program: from a canonical kernel to a compiled program, each distinct kernel once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/settings.h"
#include "codegen/codegen.h"
#include "engine/engine_private.h"
#include "ir/textform.h"
#include "render/cstyle.h"

static Compiled *program_new(Engine *e, const void *key, size_t key_bytes, int n_params) {
    Compiled *c = arena_new(e->arena, sizeof *c);
    // The name is part of the text, so it must not depend on what else was compiled.
    *c = (Compiled){.n_params = n_params,
                    .name = arena_printf(e->arena, "k%016llx", (unsigned long long)hash_bytes(key, key_bytes, 1))};
    return c;
}

static void program_add(Engine *e, const void *key, size_t key_bytes, Compiled *c) {
    map_put(&e->programs, key, key_bytes, c);
    c->key = e->programs.entries[e->programs.len - 1].key, c->key_bytes = key_bytes;
    vec_push(e->arena, &e->compiled, c);
}

static SealKey source_key(const Engine *e, Arena *arena, const void *key, size_t key_bytes) {
    TextBuilder what = builder(arena);
    builder_printf(&what, "%s %s\n", e->device->name, e->target.name);
    builder_append(&what, key, key_bytes);
    return source_cache_key(e->sources, arena, builder_view(&what));
}

Compiled *program_known(Engine *e, Arena *arena, const void *key, size_t key_bytes, int n_params) {
    Text source;
    Compiled *c = map_get(&e->programs, key, key_bytes);
    if (c || !source_cache_get(e->sources, arena, source_key(e, arena, key, key_bytes), &source)) return c;
    c = program_new(e, key, key_bytes, n_params);
    c->source = text_cstr(e->arena, source);
    program_add(e, key, key_bytes, c);
    return c;
}

// LATHE_TEXTS: where somebody wants to read them, or to hand them to another compiler.
static bool texts_write(Engine *e, const KernelSource *sources, size_t n, Error *err) {
    const char *folder = setting_text(SETTING_TEXTS);
    if (!*folder) return true;
    Arena *arena = arena_create();
    bool ok = dir_make(folder, err);
    for (size_t i = 0; i < n && ok; i++)
        ok = file_write_atomic(arena_printf(arena, "%s/%s%s", folder, sources[i].name, e->dialect->suffix), sources[i].text, strlen(sources[i].text), err);
    arena_destroy(arena);
    return ok;
}

bool program_prepare(Engine *e, const Canonical *kernel, Arena **own, Compiled **out, Error *err) {
    Arena *arena = *own;
    *out = program_known(e, arena, kernel->key, kernel->key_bytes, kernel->n_slots);
    if (*out) return true;
    UOpList linear;
    Compiled *c = *out = program_new(e, kernel->key, kernel->key_bytes, kernel->n_slots);
    if (setting_int(SETTING_DEBUG) >= 3)
        fprintf(stderr, "-- kernel %s\n%s\n", c->name, textform_expression(arena, kernel->sink, 40));
    TRY(codegen(arena, kernel->sink, &e->target, &linear, err));
    e->n_generated++;
    Text source = text_of(render(arena, c->name, &linear, e->dialect, &e->target));
    source_cache_put(e->sources, arena, source_key(e, arena, kernel->key, kernel->key_bytes), source);
    c->source = text_cstr(e->arena, source);
    if (setting_int(SETTING_DEBUG) >= 4) fprintf(stderr, "%s\n", strstr(c->source, "void k"));
    program_add(e, kernel->key, kernel->key_bytes, c);
    if (e->device->runs_linear) c->linear = linear, c->arena = arena, *own = NULL;   // else the next kernel works in the same memory
    return true;
}

bool program_batch(Engine *e, Error *err) {
    size_t n = 0;
    KernelSource *sources = calloc(e->compiled.len + 1, sizeof *sources);
    Program **programs = calloc(e->compiled.len + 1, sizeof *programs);
    if (!sources || !programs) {
        free(sources), free(programs);
        return fail(err, LATHE_NO_MEMORY, "no memory to compile kernels");
    }
    for (size_t i = 0; i < e->compiled.len; i++) {
        Compiled *c = e->compiled.at[i];
        if (!c->program) sources[n++] = (KernelSource){c->name, c->source, e->device->runs_linear ? &c->linear : NULL, c->n_params};
    }
    bool ok = texts_write(e, sources, n, err) && (n == 0 || e->device->compile(e->state, sources, (int)n, programs, err));
    n = 0;
    for (size_t i = 0; i < e->compiled.len && ok; i++)
        if (!e->compiled.at[i]->program) e->compiled.at[i]->program = programs[n++];
    free(sources);
    free(programs);
    return ok;
}

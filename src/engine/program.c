// program: from a canonical kernel to a compiled program, each distinct kernel once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "codegen/codegen.h"
#include "engine/engine_private.h"
#include "ir/textform.h"
#include "render/cstyle.h"

bool program_prepare(Engine *e, const Canonical *kernel, Arena **own, Compiled **out, Error *err) {
    *out = map_get(&e->programs, kernel->key, kernel->key_bytes);
    if (*out) return true;
    Arena *arena = *own;
    Compiled *c = arena_new(e->arena, sizeof *c);
    *c = (Compiled){.n_params = kernel->n_slots};
    // The name is part of the text, so it must not depend on what else was compiled.
    c->name = arena_printf(e->arena, "k%016llx", (unsigned long long)hash_bytes(kernel->key, kernel->key_bytes, 1));
    if (setting_int(SETTING_DEBUG) >= 3)
        fprintf(stderr, "-- kernel %s\n%s\n", c->name, textform_expression(arena, kernel->sink, 40));
    TextBuilder what = builder(arena);
    builder_printf(&what, "%s %s\n", e->device->name, e->target.name);
    builder_append(&what, kernel->key, kernel->key_bytes);
    SealKey key = source_cache_key(e->sources, arena, (Text){what.at, what.len});
    c->source = source_cache_get(e->sources, arena, key);
    if (!c->source) {
        TRY(codegen(arena, kernel->sink, &e->target, &c->linear, err));
        e->n_generated++;
        if (e->device->dialect) c->source = render(arena, c->name, &c->linear, e->device->dialect, &e->target);
        if (c->source) source_cache_put(e->sources, arena, key, c->source);
    }
    if (c->source && setting_int(SETTING_DEBUG) >= 4) fprintf(stderr, "%s\n", strstr(c->source, "void k"));
    if (c->source) c->source = arena_copy(e->arena, c->source, strlen(c->source) + 1);
    if (e->device->runs_linear) c->arena = arena, *own = NULL;   // else the next kernel works in the same memory
    else c->linear = (UOpList){0};
    map_put(&e->programs, kernel->key, kernel->key_bytes, c);
    vec_push(e->arena, &e->compiled, c);
    *out = c;
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
    bool ok = n == 0 || e->device->compile(e->state, sources, (int)n, programs, err);
    n = 0;
    for (size_t i = 0; i < e->compiled.len && ok; i++)
        if (!e->compiled.at[i]->program) e->compiled.at[i]->program = programs[n++];
    free(sources);
    free(programs);
    return ok;
}

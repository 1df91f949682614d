// engine: buffers and the device. See engine.h; compiling stands in program.c and step.c.
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "engine/engine_private.h"
#include "ir/verify.h"

static void engine_free(Engine *e) {
    pthread_mutex_destroy(&e->compiling);
    pthread_mutex_destroy(&e->adding);
    arena_destroy(e->buffer_arena);
    arena_destroy(e->arena);
    free(e);
}

// LATHE_SUMS, where tiles may share sums.
static bool sums_read(Engine *e, Error *err) {
    const char *wanted = setting_text(SETTING_SUMS);
    if (!*wanted) return true;
    for (int i = 0; i < SUM_FORMS; i++) {
        size_t n = strlen(sum_form_names[i]);
        bool is_all = strcmp(wanted + strnlen(wanted, n), "-all") == 0;
        if (strncmp(wanted, sum_form_names[i], n) || (wanted[n] && !is_all)) continue;
        e->sums_are_set = e->target.has_atomic_add;
        if (e->sums_are_set) e->sums = (SumForm)i, e->shares_all = is_all;
        return true;
    }
    return fail(err, LATHE_BAD_REQUEST, "LATHE_SUMS=%s: ordered, parts, atomic, parts-all and atomic-all are known", wanted);
}

bool engine_may_choose_sums(const Engine *e) { return e->target.has_atomic_add && !e->sums_are_set; }
void engine_choose_sums(Engine *e, SumForm form) { if (engine_may_choose_sums(e)) e->sums = form; }
SumForm engine_sums(const Engine *e) { return e->sums; }

void engine_keep_order(Engine *e) {
    if (e->sums == SUMS_ATOMIC) e->sums = SUMS_ORDERED;
    e->sums_are_set = true;
}

bool engine_open(Engine **out, const char *device_name, const char *target, int threads, Error *err) {
    const Device *device = device_find(device_name ? device_name : "cpu");
    *out = NULL;
    if (!device) return fail(err, LATHE_BAD_REQUEST, "no device '%s'; `lathe env` lists those of this build", device_name);
    Engine *e = calloc(1, sizeof *e);
    if (!e) return fail(err, LATHE_NO_MEMORY, "no memory for the engine");
    e->device = device;
    e->arena = arena_create();
    e->buffer_arena = arena_create();
    pthread_mutex_init(&e->compiling, NULL);
    pthread_mutex_init(&e->adding, NULL);
    map_init(&e->programs, e->arena);
    if (!device->open(&e->state, target, threads, err)) {
        engine_free(e);
        return false;
    }
    device->describe_target(e->state, &e->target);
    e->dialect = device->dialect_of ? device->dialect_of(e->state) : device->dialect;
    e->counters = -1;
    bool ok = sums_read(e, err);
    if (ok && e->target.tiles.has_tails) ok = engine_buffer_alloc(e, MOST_COUNTERS * sizeof(int32_t), &e->counters, err);
    if (!ok) {
        e->device->close(e->state);
        engine_free(e);
        return false;
    }
    // Where passes are to be verified every kernel must go through them.
    if (!device->runs_linear && !verify_wanted()) e->sources = source_cache_open();
    *out = e;
    return true;
}

void engine_close(Engine *e) {
    if (!e) return;
    for (size_t i = 0; i < e->compiled.len; i++) {
        if (e->compiled.at[i]->program) e->device->unload(e->state, e->compiled.at[i]->program);
        arena_destroy(e->compiled.at[i]->arena);
    }
    for (size_t i = 0; i < e->buffers.len; i++) {
        Buffer b = e->buffers.at[i];
        if (b.is_owned) (b.is_shared ? e->device->release_shared : e->device->release)(e->state, b.at, b.nbytes);
    }
    source_cache_close(e->sources);
    e->device->close(e->state);
    engine_free(e);
}

const Device *engine_device(const Engine *e) { return e->device; }
int engine_threads(const Engine *e) { return e->device->threads(e->state); }

bool engine_set_threads(Engine *e, int threads, Error *err) {
    return !e->device->set_threads || e->device->set_threads(e->state, threads, err);
}

const Target *engine_target(const Engine *e) { return &e->target; }
int engine_generated_count(const Engine *e) { return e->n_generated; }
int engine_scheduled_count(const Engine *e) { return e->n_scheduled; }
double engine_compile_seconds(const Engine *e) { return (double)e->compile_us / 1e6; }

static bool buffer_add(Engine *e, Buffer b, int64_t *id) {
    pthread_mutex_lock(&e->adding);
    vec_push(e->buffer_arena, &e->buffers, b);
    *id = (int64_t)e->buffers.len - 1;
    pthread_mutex_unlock(&e->adding);
    return true;
}

int64_t engine_buffer_count(Engine *e) {
    pthread_mutex_lock(&e->adding);
    int64_t n = (int64_t)e->buffers.len;
    pthread_mutex_unlock(&e->adding);
    return n;
}

Buffer engine_buffer(Engine *e, int64_t id) {
    pthread_mutex_lock(&e->adding);
    CHECK(id >= 0 && id < (int64_t)e->buffers.len);
    Buffer b = e->buffers.at[id];
    pthread_mutex_unlock(&e->adding);
    return b;
}

bool engine_buffer_alloc(Engine *e, size_t nbytes, int64_t *id, Error *err) {
    void *at = e->device->alloc(e->state, nbytes);
    size_t left = 0, all = 0;
    if (!at && e->device->room) e->device->room(e->state, &left, &all);
    if (!at && all)
        return fail(err, LATHE_NO_MEMORY, "%s: no memory for %zu more bytes: %zu of its %zu are free; choose a smaller --context or model",
                    e->device->name, nbytes, left, all);
    if (!at) return fail(err, LATHE_NO_MEMORY, "%s: no memory for %zu more bytes; choose a smaller --context or model", e->device->name, nbytes);
    return buffer_add(e, (Buffer){at, nbytes, true, false}, id);
}

bool engine_buffer_alloc_shared(Engine *e, size_t nbytes, int64_t *id, Error *err) {
    void *at = e->device->alloc_shared ? e->device->alloc_shared(e->state, nbytes) : NULL;
    return at ? buffer_add(e, (Buffer){at, nbytes, true, true}, id) : engine_buffer_alloc(e, nbytes, id, err);
}

bool engine_memory_room(const Engine *e, size_t *free_bytes, const char **name) {
    size_t all = 0;
    *free_bytes = 0;
    if (e->device->has_host_memory || !e->device->room || e->device->wrap) return false;   // wrap: the host's memory as well
    e->device->room(e->state, free_bytes, &all);
    *name = e->device->hardware ? e->device->hardware(e->state) : e->device->name;
    return all > 0;
}

bool engine_buffer_wrap(Engine *e, const void *data, size_t nbytes, int64_t *id, Error *err) {
    if (e->device->has_host_memory) return buffer_add(e, (Buffer){(void *)(uintptr_t)data, nbytes, false, false}, id);
    void *at = e->device->wrap ? e->device->wrap(e->state, data, nbytes) : NULL;
    if (at) return buffer_add(e, (Buffer){at, nbytes, true, false}, id);
    TRY(engine_buffer_alloc(e, nbytes, id, err));
    engine_buffer_write(e, *id, 0, data, nbytes);
    return true;
}

static char *buffer_range(Engine *e, int64_t id, size_t offset, size_t nbytes) {
    Buffer b = engine_buffer(e, id);
    CHECK(offset <= b.nbytes && nbytes <= b.nbytes - offset);
    return (char *)b.at + offset;
}

int64_t engine_buffer_part(Engine *e, int64_t whole, size_t offset, size_t nbytes) {
    int64_t id;
    CHECK(offset % BUFFER_PART_BYTES == 0);
    void *at = buffer_range(e, whole, offset, nbytes);
    CHECK(buffer_add(e, (Buffer){at, nbytes, false, engine_buffer(e, whole).is_shared}, &id));
    return id;
}

void engine_buffer_write(Engine *e, int64_t id, size_t offset, const void *data, size_t nbytes) {
    e->device->upload(e->state, buffer_range(e, id, offset, nbytes), data, nbytes);
}

void *engine_stage(Engine *e, size_t *nbytes) {
    return e->device->stage ? e->device->stage(e->state, nbytes) : NULL;
}

void engine_buffer_read(Engine *e, int64_t id, size_t offset, void *data, size_t nbytes) {
    const char *at = buffer_range(e, id, offset, nbytes);
    if (engine_buffer(e, id).is_shared) memcpy(data, at, nbytes);
    else e->device->download(e->state, data, at, nbytes);
}

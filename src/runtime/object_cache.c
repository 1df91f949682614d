// object_cache: key → look → verify → load; else compile aside → seal → rename → load.
// In: C texts. Out: libraries.
// Invariant: a file in the folder is an ELF image followed by a Seal; the loader ignores what lies
// behind the image, and a file without the right Seal (cut, damaged, of another key) is compiled
// anew over it.
// Example: text of 2 KB → key 8f3c…e1 → ~/.cache/lathe/objects/8f3c…e1.so
#include "runtime/object_cache.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/map.h"
#include "base/os.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "runtime/object_folder.h"
#include "runtime/system_compiler.h"

// Changing what a key means or what a Seal holds changes this text, and with it every key.
static const char FORMAT[] = "lathe object 1\n";

struct ObjectCache {
    Arena *arena;
    SystemCompiler compiler;
    ObjectFolder folder;
    Scratch scratch;                   // where compilations happen, opened when needed
    atomic_bool keeps_scratch;         // a refused source lies there
    atomic_long hits, compiled;
};

// One text on its way.
typedef struct Item {
    const ObjectSource *source;
    SealKey key;
    struct Item *same;                 // an earlier item with an equal text, or NULL
    const char *folder; // where its object lies: the cache's folder or the scratch directory
    void *library;
} Item;

// ---- keys and images ----

static SealKey key_of(const ObjectCache *cache, Arena *arena, const char *text) {
    ArenaMark mark = arena_mark(arena);
    TextBuilder b = builder(arena);
    builder_printf(&b, "%s%s\n%s\n", FORMAT, cache->compiler.flags, cache->compiler.identity);
    builder_cstring(&b, text);
    SealKey key = seal_key((Text){b.at, b.len});
    arena_release(arena, mark);
    return key;
}

// A cut ELF file would be mapped past its end and raise SIGBUS in the loader. Linkers write the
// table of sections last (System V ABI, ELF-64 header: e_shoff at 40, e_shentsize at 58, e_shnum at
// 60).
static bool image_is_whole(Text image) {
    enum { HEADER_BYTES = 64 };
    if (!text_starts(image, "\177ELF\2")) return image.len > 0;
    uint64_t table_at;
    uint16_t row_bytes, n_rows;
    if (image.len < HEADER_BYTES) return false;
    memcpy(&table_at, image.at + 40, sizeof table_at);
    memcpy(&row_bytes, image.at + 58, sizeof row_bytes);
    memcpy(&n_rows, image.at + 60, sizeof n_rows);
    return table_at <= image.len && image.len - table_at >= (uint64_t)row_bytes * n_rows;
}

// ---- one item ----

static void item_open(Item *item, Arena *arena, const char *folder, Error *err) {
    item->folder = folder;
    item->library = library_open(sealed_path(arena, folder, item->key, ".so"), err);
}

static bool item_load_kept(const ObjectCache *cache, Arena *arena, Item *item) {
    Error why;
    Text image;
    ArenaMark mark = arena_mark(arena);
    if (object_folder_get(&cache->folder, arena, item->key, ".so", &image)) {
        item_open(item, arena, cache->folder.path, &why);
        if (!item->library)
            object_folder_notice("lathe: a kernel kept in %s cannot be loaded: %s\n", cache->folder.path, why.text);
    }
    arena_release(arena, mark);
    return item->library != NULL;
}

// The source of a failed compilation moves where the user finds it after the scratch directory is
// gone.
static const char *source_keep(ObjectCache *cache, Arena *arena, const Item *item,
                               const char *scratch_path) {
    const char *path = object_folder_keep_source(&cache->folder, arena, item->key, ".c", item->source->text);
    if (path) return path;
    atomic_store(&cache->keeps_scratch, true);
    return scratch_path;
}

static void item_keep(ObjectCache *cache, Arena *arena, Item *item, Text image) {
    Error why;
    Item kept = *item;
    kept.library = NULL;
    if (!object_folder_put(&cache->folder, arena, item->key, ".so", image)) return;
    item_open(&kept, arena, cache->folder.path, &why);
    if (!kept.library) {   // a file system that forbids execution
        object_folder_refuse(&cache->folder, why.text);
        return;
    }
    library_close(item->library);
    *item = kept;
}

// Compiles in the scratch directory. What loads there is kept in the folder and loaded from it;
// where the folder refuses, the scratch object serves this process.
static bool item_compile(ObjectCache *cache, Arena *arena, Item *item, Error *err) {
    Text complaint, image;
    const char *text = item->source->text, *name = item->source->name;
    const char *source = sealed_path(arena, cache->scratch.path, item->key, ".c");
    const char *object = sealed_path(arena, cache->scratch.path, item->key, ".so");
    TRY(file_write_atomic(source, text, strlen(text), err));
    bool is_compiled = compiler_run(&cache->compiler, arena, source, object, &complaint);
    if (!is_compiled && processes_stopped())      // nothing is wrong with the source
        return fail(err, LATHE_COMPILE, "kernel %s was not compiled: this program is about to end", name);
    if (!is_compiled)
        return fail(err, LATHE_COMPILE, "kernel %s does not compile (its source: %s): %.*s", name,
                    source_keep(cache, arena, item, source), (int)complaint.len, complaint.at);
    TRY(file_read(arena, object, &image, err));
    if (!image_is_whole(image))
        return fail(err, LATHE_COMPILE, "kernel %s: %s wrote an incomplete object; is %s full?",
                    name, cache->compiler.words[0], cache->scratch.path);
    item_open(item, arena, cache->scratch.path, err);
    if (!item->library) return false;
    atomic_fetch_add(&cache->compiled, 1);
    item_keep(cache, arena, item, image);
    return true;
}

// ---- many items ----

typedef struct Batch { ObjectCache *cache; Item *const *missing; } Batch;

static bool missing_compile(void *context, int i, Error *err) {
    const Batch *batch = context;
    Arena *arena = arena_create();
    bool ok = item_compile(batch->cache, arena, batch->missing[i], err);
    arena_destroy(arena);
    return ok;
}

static bool scratch_make(ObjectCache *cache, Error *err) {
    return *cache->scratch.path || scratch_open(&cache->scratch, err);
}

static void scratch_remove(ObjectCache *cache) {
    if (atomic_load(&cache->keeps_scratch)) scratch_abandon(&cache->scratch);
    else scratch_close(&cache->scratch);
    atomic_store(&cache->keeps_scratch, false);
}

// Compiles with the caller's thread and up to n_jobs - 1 more.
static bool batch_compile(ObjectCache *cache, Item *const *missing, int n_missing, int n_jobs, Error *err) {
    if (n_missing == 0) return true;
    TRY(scratch_make(cache, err));
    return parallel_run(n_missing, n_jobs, missing_compile, &(Batch){cache, missing}, err);
}

// Loads what the folder has and lists what must be compiled; equal texts are listed once.
static int items_look_up(ObjectCache *cache, Arena *arena, Item *items, int n, Item **missing) {
    Map seen;
    map_init(&seen, arena);
    int n_missing = 0;
    for (int i = 0; i < n; i++) {
        Item *item = &items[i];
        item->key = key_of(cache, arena, item->source->text);
        item->same = map_get(&seen, &item->key, sizeof item->key);
        if (item->same) continue;
        map_put(&seen, &item->key, sizeof item->key, item);
        if (item_load_kept(cache, arena, item))
            atomic_fetch_add(&cache->hits, 1);
        else
            missing[n_missing++] = item;
    }
    return n_missing;
}

bool object_cache_load(ObjectCache *cache, const ObjectSource *sources, int n, int n_jobs,
                       void **libraries, Error *err) {
    CHECK(n >= 0);
    Arena *arena = arena_create();
    Item *items = arena_new(arena, (size_t)n * sizeof *items);
    Item **missing = arena_new(arena, (size_t)n * sizeof *missing);
    for (int i = 0; i < n; i++) items[i].source = &sources[i];
    int n_missing = items_look_up(cache, arena, items, n, missing);
    bool ok = batch_compile(cache, missing, n_missing, n_jobs, err);
    for (int i = 0; ok && i < n; i++) {
        // An equal text gets a handle of its own, so that each is closed on its own.
        if (items[i].same) item_open(&items[i], arena, items[i].same->folder, err);
        ok = items[i].library != NULL;
    }
    for (int i = 0; i < n; i++) {
        libraries[i] = ok ? items[i].library : NULL;
        if (!ok) library_close(items[i].library);
    }
    // Nothing is loaded from there then, and a process that is killed later leaves nothing behind.
    if (atomic_load(&cache->folder.keeps)) scratch_remove(cache);
    arena_destroy(arena);
    return ok;
}

// ---- opening and closing ----

bool object_cache_open(ObjectCache **out, const char *target_flags, Error *err) {
    ObjectCache *cache = calloc(1, sizeof *cache);
    *out = NULL;
    if (!cache) return fail(err, LATHE_NO_MEMORY, "no memory for the cache of compiled kernels");
    cache->arena = arena_create();
    object_folder_open(&cache->folder, cache->arena);
    const char *versions = cache->folder.is_readable ? arena_printf(cache->arena, "%s/compilers", cache->folder.root) : "";
    if (!compiler_open(&cache->compiler, cache->arena, target_flags, versions, err)) {
        object_cache_close(cache);
        return false;
    }
    *out = cache;
    return true;
}

void object_cache_close(ObjectCache *cache) {
    if (!cache) return;
    scratch_remove(cache);
    if (atomic_load(&cache->compiled) > 0) object_folder_close(&cache->folder);
    arena_destroy(cache->arena);
    free(cache);
}

ObjectStats object_cache_stats(const ObjectCache *cache) {
    return (ObjectStats){atomic_load(&cache->hits), atomic_load(&cache->compiled)};
}

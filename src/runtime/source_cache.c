// source_cache: see source_cache.h.
#include "runtime/source_cache.h"

#include "base/os.h"
#include "base/settings.h"

enum { MOST_FILES = 20000 };

struct SourceCache { Arena *arena; const char *folder; Text build; bool is_full_checked; };

SourceCache *source_cache_open(void) {
    Error ignored;
    Arena *arena = arena_create();
    const char *folder = arena_printf(arena, "%s/sources", cache_dir(arena));
    Text build = program_build_id();
    if (build.len == 0 || !dir_make(folder, &ignored) || !dir_is_private(folder)) {
        arena_destroy(arena);
        return NULL;
    }
    SourceCache *cache = arena_new(arena, sizeof *cache);
    *cache = (SourceCache){.arena = arena, .folder = folder, .build = build};
    return cache;
}

void source_cache_close(SourceCache *cache) {
    if (cache) arena_destroy(cache->arena);
}

SealKey source_cache_key(const SourceCache *cache, Arena *arena, Text what) {
    if (!cache) return (SealKey){0};
    TextBuilder all = builder(arena);
    builder_text(&all, cache->build);
    builder_printf(&all, " egraph %ld\n", setting_int(SETTING_EGRAPH));
    builder_text(&all, what);
    return seal_key((Text){all.at, all.len});
}

bool source_cache_get(const SourceCache *cache, Arena *arena, SealKey key, Text *text) {
    return cache && sealed_read(arena, sealed_path(arena, cache->folder, key, ""), key, text);
}

void source_cache_put(SourceCache *cache, Arena *arena, SealKey key, Text text) {
    if (!cache) return;
    Error ignored;
    if (!cache->is_full_checked) dir_prune(cache->folder, MOST_FILES);
    cache->is_full_checked = true;
    bool is_kept = sealed_write(arena, sealed_path(arena, cache->folder, key, ""), key, text, &ignored);
    (void)is_kept;   // if not, it is made again
}

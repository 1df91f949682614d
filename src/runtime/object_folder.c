// object_folder: see object_folder.h.
#include "runtime/object_folder.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "base/settings.h"

enum { MAX_OBJECTS = 10000 };          // of about 15 KB each

void object_folder_notice(const char *format, const char *path, const char *why) {
    if (setting_int(SETTING_DEBUG) < 1) return;
    fprintf(stderr, format, path, why);
}

void object_folder_open(ObjectFolder *folder, Arena *arena) {
    Error why;
    folder->root = cache_dir(arena);
    folder->path = arena_printf(arena, "%s/objects", folder->root);
    folder->is_readable = dir_make(folder->path, &why);
    if (!folder->is_readable) {
        object_folder_notice("lathe: compiled kernels cannot be kept in %s: %s\n", folder->path, why.text);
    } else if (!dir_is_private(folder->path)) {
        folder->is_readable = false;
        object_folder_notice("lathe: compiled kernels are not kept in %s: %s\n", folder->path, "others may write to it");
    }
    atomic_store(&folder->keeps, folder->is_readable);
}

void object_folder_close(ObjectFolder *folder) {
    if (folder->path && atomic_load(&folder->keeps)) dir_prune(folder->path, MAX_OBJECTS);
}

bool object_folder_get(const ObjectFolder *folder, Arena *arena, SealKey key, const char *suffix, Text *image) {
    return folder->is_readable && sealed_read(arena, sealed_path(arena, folder->path, key, suffix), key, image);
}

void object_folder_refuse(ObjectFolder *folder, const char *why) {
    if (atomic_exchange(&folder->keeps, false))
        object_folder_notice("lathe: compiled kernels cannot be kept in %s: %s\n", folder->path, why);
}

bool object_folder_put(ObjectFolder *folder, Arena *arena, SealKey key, const char *suffix, Text image) {
    Error why;
    if (!atomic_load(&folder->keeps)) return false;
    if (sealed_write(arena, sealed_path(arena, folder->path, key, suffix), key, image, &why)) return true;
    object_folder_refuse(folder, why.text);
    return false;
}

const char *object_folder_keep_source(const ObjectFolder *folder, Arena *arena, SealKey key, const char *suffix, const char *text) {
    Error ignored;
    const char *failed = arena_printf(arena, "%s/failed", folder->root), *path = sealed_path(arena, failed, key, suffix);
    return dir_make(failed, &ignored) && file_write_atomic(path, text, strlen(text), &ignored) ? path : NULL;
}

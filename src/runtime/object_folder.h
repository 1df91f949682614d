// object_folder: where what devices compiled is kept between runs.
// In: keys, compiled bytes. Out: the bytes again, or the folder's refusal.
// Invariant: a folder that others may write to, that is read-only or missing keeps nothing and costs no answer; what was
// refused once is not tried again.
// Example: ObjectFolder f; object_folder_open(&f, arena); if (object_folder_get(&f, arena, key, ".clbin", &image)) …
#pragma once
#include <stdatomic.h>
#include "runtime/sealed_file.h"

typedef struct ObjectFolder {
    const char *root, *path;           // cache_dir(), cache_dir()/objects
    bool is_readable;                  // it is there and nobody else can plant objects in it
    atomic_bool keeps;                 // … and writing to it has not failed yet
} ObjectFolder;

void object_folder_open(ObjectFolder *folder, Arena *arena);   // texts live on the arena
void object_folder_close(ObjectFolder *folder);                // removes the oldest of very many
bool object_folder_get(const ObjectFolder *folder, Arena *arena, SealKey key, const char *suffix, Text *image);
// Keeps it, and says once (LATHE_DEBUG=1) where that failed. False: it is not there.
bool object_folder_put(ObjectFolder *folder, Arena *arena, SealKey key, const char *suffix, Text image);
// No more is kept; says why, the first time.
void object_folder_refuse(ObjectFolder *folder, const char *why);
void object_folder_notice(const char *format, const char *path, const char *why);
// The source of a failed compilation, kept where the user finds it: its path, or NULL where it cannot be kept.
const char *object_folder_keep_source(const ObjectFolder *folder, Arena *arena, SealKey key, const char *suffix, const char *text);

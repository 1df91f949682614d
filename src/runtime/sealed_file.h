// sealed_file: files of a cache that vouch for themselves.
// In: a key, content. Out: the content again, if the file is whole and was written for that key.
// Invariant: content comes first and unchanged, so loaders that ignore what lies behind it can use the file itself; it
// comes to its place by a rename, so no process sees a part of it.
// Example: sealed_write(arena, sealed_path(arena, folder, key, ".so"), key, image, err)
#pragma once
#include <stdint.h>
#include "base/error.h"
#include "base/text.h"

typedef struct SealKey { uint64_t high, low; } SealKey;

SealKey seal_key(Text what);                       // of everything that decides the content
const char *sealed_path(Arena *arena, const char *folder, SealKey key, const char *suffix);
// False where there is no such file, or it is cut, damaged or of another key. content: on the arena.
bool sealed_read(Arena *arena, const char *path, SealKey key, Text *content);
bool sealed_write(Arena *arena, const char *path, SealKey key, Text content, Error *err) MUST_CHECK;

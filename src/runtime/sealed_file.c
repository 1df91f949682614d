// sealed_file: see sealed_file.h. Behind the content: what it is, its key, its length and hash.
#include "runtime/sealed_file.h"

#include <string.h>

#include "base/map.h"
#include "base/os.h"

static const uint64_t SEAL_MAGIC = 0x4C4145534548544Cu;

typedef struct Seal { uint64_t magic; SealKey key; uint64_t nbytes, hash; } Seal;

SealKey seal_key(Text what) { return (SealKey){hash_bytes(what.at, what.len, 1), hash_bytes(what.at, what.len, 2)}; }

const char *sealed_path(Arena *arena, const char *folder, SealKey key, const char *suffix) {
    return arena_printf(arena, "%s/%016llx%016llx%s", folder, (unsigned long long)key.high, (unsigned long long)key.low, suffix);
}

static Seal seal_of(SealKey key, Text content) {
    return (Seal){SEAL_MAGIC, key, content.len, hash_bytes(content.at, content.len, 0)};
}

bool sealed_read(Arena *arena, const char *path, SealKey key, Text *content) {
    Text file;
    Error ignored;
    if (!file_exists(path) || !file_read(arena, path, &file, &ignored) || file.len < sizeof(Seal)) return false;
    *content = (Text){file.at, file.len - sizeof(Seal)};
    Seal want = seal_of(key, *content);
    return memcmp(file.at + content->len, &want, sizeof want) == 0;
}

bool sealed_write(Arena *arena, const char *path, SealKey key, Text content, Error *err) {
    Seal seal = seal_of(key, content);
    TextBuilder b = builder(arena);
    builder_text(&b, content);
    builder_append(&b, (const char *)&seal, sizeof seal);
    return file_write_atomic(path, b.at, b.len, err);
}

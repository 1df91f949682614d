// Vec: the one function behind vec_push.
// In: the storage of a full vector. Out: twice the capacity with the old items in front.
// Invariant: the old block stays as it is; pointers into it are valid until the arena is reset.
// Example: cap 0 → 8 → 16
#include "base/vec.h"

#include <stdint.h>
#include <string.h>
#include "base/error.h"

enum { FIRST_CAP = 8 };

void *vec_grow(Arena *arena, const void *at, size_t len, size_t *cap, size_t item_bytes) {
    CHECK(len <= *cap && item_bytes > 0);
    size_t grown = *cap ? *cap * 2 : FIRST_CAP;
    if (grown > SIZE_MAX / 2 / item_bytes)
        BUG("a vector of %zu items of %zu bytes", grown, item_bytes);
    void *fresh = arena_new(arena, grown * item_bytes);
    if (len) memcpy(fresh, at, len * item_bytes);
    *cap = grown;
    return fresh;
}

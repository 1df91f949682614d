// Map: open addressing, linear probing; slots hold entry numbers + 1, entries keep their order.
// In: byte-string keys, pointer values. Out: the value, or NULL.
// Invariant: n_slots is 0 or a power of two, at least twice len, so a probe meets an empty slot.
// Example: Map m; map_init(&m, arena); map_put_text(&m, "a", &x); map_get_text(&m, "a") == &x
#include "base/map.h"

#include <string.h>
#include <xxhash.h>
#include "base/error.h"

enum { FIRST_SLOTS = 16 };

uint64_t hash_bytes(const void *data, size_t nbytes, uint64_t seed) {
    return XXH3_64bits_withSeed(nbytes ? data : "", nbytes, seed);
}

void map_init(Map *map, Arena *arena) {
    *map = (Map){.arena = arena};
}

// The slot that holds the key, or the empty slot where it belongs. Needs n_slots > 0.
static size_t slot_find(const Map *map, const void *key, size_t key_bytes, uint64_t hash) {
    size_t mask = map->n_slots - 1;
    size_t slot = (size_t)hash & mask;
    for (; map->slots[slot]; slot = (slot + 1) & mask) {
        const MapEntry *entry = &map->entries[map->slots[slot] - 1];
        if (entry->hash == hash && entry->key_bytes == key_bytes &&
            (key_bytes == 0 || memcmp(entry->key, key, key_bytes) == 0))
            break;
    }
    return slot;
}

static const MapEntry *entry_find(const Map *map, const void *key, size_t key_bytes) {
    if (map->len == 0) return NULL;
    size_t slot = slot_find(map, key, key_bytes, hash_bytes(key, key_bytes, 0));
    return map->slots[slot] ? &map->entries[map->slots[slot] - 1] : NULL;
}

void *map_get(const Map *map, const void *key, size_t key_bytes) {
    const MapEntry *entry = entry_find(map, key, key_bytes);
    return entry ? entry->value : NULL;
}

bool map_has(const Map *map, const void *key, size_t key_bytes) {
    return entry_find(map, key, key_bytes) != NULL;
}

static void map_grow(Map *map) {
    size_t n_slots = map->n_slots ? map->n_slots * 2 : FIRST_SLOTS;
    CHECK(n_slots / 2 < UINT32_MAX);
    MapEntry *entries = arena_new(map->arena, n_slots / 2 * sizeof *entries);
    if (map->len) memcpy(entries, map->entries, map->len * sizeof *entries);
    uint32_t *slots = arena_new(map->arena, n_slots * sizeof *slots);
    for (size_t i = 0; i < map->len; i++) {
        size_t slot = (size_t)entries[i].hash & (n_slots - 1);
        while (slots[slot]) slot = (slot + 1) & (n_slots - 1);
        slots[slot] = (uint32_t)(i + 1);
    }
    map->entries = entries;
    map->cap = n_slots / 2;
    map->slots = slots;
    map->n_slots = n_slots;
}

void map_put(Map *map, const void *key, size_t key_bytes, void *value) {
    if (map->len == map->cap) map_grow(map);
    uint64_t hash = hash_bytes(key, key_bytes, 0);
    size_t slot = slot_find(map, key, key_bytes, hash);
    if (map->slots[slot]) {
        map->entries[map->slots[slot] - 1].value = value;
        return;
    }
    const void *copy = arena_copy(map->arena, key, key_bytes);
    map->entries[map->len++] = (MapEntry){copy, key_bytes, hash, value};
    map->slots[slot] = (uint32_t)map->len;
}

void *map_get_text(const Map *map, const char *key) {
    return map_get(map, key, strlen(key));
}

void map_put_text(Map *map, const char *key, void *value) {
    map_put(map, key, strlen(key), value);
}

// Map: hash map from byte strings to pointers, on an arena; and the one hash function.
// Keys are copied. Iteration in order of insertion: for (size_t i = 0; i < map->len; i++) map->entries[i].
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"

typedef struct MapEntry { const void *key; size_t key_bytes; uint64_t hash; void *value; } MapEntry;
typedef struct Map { Arena *arena; MapEntry *entries; size_t len, cap; uint32_t *slots; size_t n_slots; } Map;

uint64_t hash_bytes(const void *data, size_t nbytes, uint64_t seed);          // XXH3, 64 bits
void map_init(Map *map, Arena *arena);
void *map_get(const Map *map, const void *key, size_t key_bytes);             // NULL where absent
bool map_has(const Map *map, const void *key, size_t key_bytes);
void map_put(Map *map, const void *key, size_t key_bytes, void *value);       // replaces
void *map_get_text(const Map *map, const char *key);
void map_put_text(Map *map, const char *key, void *value);

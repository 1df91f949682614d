// pair_table: a hash map from pairs of numbers to a number, on an arena, of a size known before.
// In: at most `capacity` pairs. Out: the value, or PAIR_NONE. The first value put for a pair stays.
// Invariant: at most five of eight slots are taken, so a search ends after a few steps.
// Example: pair_table_put(&t, 7, 9, 42); pair_table_get(&t, 7, 9) == 42
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"

#define PAIR_NONE UINT32_MAX

typedef struct PairSlot { uint64_t key; uint32_t value; } PairSlot; // key: pair + 1, 0 where empty
typedef struct PairTable { PairSlot *slots; size_t mask; } PairTable;

// Returns false where the memory cannot be had.
static inline bool pair_table_init(PairTable *t, Arena *arena, size_t capacity) {
    size_t n_slots = 16;
    while (n_slots / 8 * 5 < capacity) n_slots *= 2;
    t->slots = arena_alloc(arena, n_slots * sizeof *t->slots);
    t->mask = n_slots - 1;
    return t->slots != NULL;
}

static inline PairSlot *pair_table_slot(const PairTable *t, uint64_t key) {
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(hash ^ hash >> 32) & t->mask;
    while (t->slots[i].key != 0 && t->slots[i].key != key)
        i = (i + 1) & t->mask;
    return &t->slots[i];
}

static inline uint64_t pair_table_key(uint32_t a, uint32_t b) {
    return ((uint64_t)a << 32 | b) + 1;   // a < 2^32 - 1, so the sum does not wrap
}

static inline void pair_table_put(PairTable *t, uint32_t a, uint32_t b, uint32_t value) {
    uint64_t key = pair_table_key(a, b);
    PairSlot *slot = pair_table_slot(t, key);
    if (slot->key == 0) *slot = (PairSlot){key, value};
}

static inline uint32_t pair_table_get(const PairTable *t, uint32_t a, uint32_t b) {
    const PairSlot *slot = pair_table_slot(t, pair_table_key(a, b));
    return slot->key ? slot->value : PAIR_NONE;
}

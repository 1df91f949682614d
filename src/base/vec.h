// Vec: typed growable arrays on an arena.
// Example: VEC(int) v = {0}; vec_push(arena, &v, 7); for (size_t i = 0; i < v.len; i++) use(v.at[i]);
#pragma once
#include <stddef.h>
#include "base/arena.h"

#define VEC(T) struct { T *at; size_t len, cap; }

// Grown storage is a fresh arena block; the old one dies with the arena.
void *vec_grow(Arena *arena, const void *at, size_t len, size_t *cap, size_t item_bytes);

#define vec_push(arena, v, item) \
    do { \
        if ((v)->len == (v)->cap) \
            (v)->at = vec_grow((arena), (v)->at, (v)->len, &(v)->cap, sizeof *(v)->at); \
        (v)->at[(v)->len++] = (item); \
    } while (0)

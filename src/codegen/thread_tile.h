// thread_tile: what of a store one thread takes at once: see thread_tile.c, thread_words.c.
#pragma once
#include "ir/rewrite.h"
#include "ir/target.h"

enum { THREAD_TILE_LOOPS = 6 };
typedef struct ThreadTile { int n; UOp *loop[THREAD_TILE_LOOPS]; int64_t steps[THREAD_TILE_LOOPS], elements; } ThreadTile;

ThreadTile thread_tile(Arena *arena, UOp *store, int64_t most);   // most: elements of one thread
UOp *thread_words(UOp *sink, const Target *target, double tiles);   // tiles: of the kernel

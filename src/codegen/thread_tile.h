// thread_tile: see thread_tile.c.
#pragma once
#include "ir/rewrite.h"

enum { THREAD_TILE_LOOPS = 6 };
typedef struct ThreadTile { int n; UOp *loop[THREAD_TILE_LOOPS]; int64_t steps[THREAD_TILE_LOOPS], elements; } ThreadTile;

ThreadTile thread_tile(Arena *arena, UOp *store, int64_t most);   // most: elements of one thread

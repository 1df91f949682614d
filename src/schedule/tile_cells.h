// tile_cells: which cells of a temporary one tile touches, and where they lie beside each other.
// In: the addresses of all accesses of a kernel. Out: the cells in a row, without what lies between them.
// Invariant: the part of an address that tiles change is the same in all; two accesses of a tile to one cell find the same
// place.
// Example: 4,096·tile + 256·page + r, r < 64, 16 pages: place 64·page + r of 1,024.
#pragma once
#include "ir/linear.h"

enum { MOST_GAPS = 4 };
typedef struct Gap { int64_t stride, kept; } Gap;          // of `stride` cells the first `kept` are touched
typedef struct TileCells { Linear tile; int64_t first, count; Gap gaps[MOST_GAPS]; int n_gaps; } TileCells;

// width: cells that it touches from its address on. is_masked: some of its addresses are not touched.
typedef struct CellAccess { UOp *index; int64_t width; bool is_masked; } CellAccess;

// False where tiles and loops change an address together, tiles change some of them in another way, or there are more
// than `most` cells. Some access must not be masked.
bool tile_cells_find(Arena *arena, const CellAccess *accesses, size_t n, int64_t most, TileCells *out);
// The place of what an INDEX touches.
UOp *tile_cells_place(Arena *arena, const TileCells *cells, UOp *index);

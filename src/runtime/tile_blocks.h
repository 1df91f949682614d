// tile_blocks: which tiles of a stage a worker takes. Each has a block of neighbouring ones, the same share of each stage, so that what it
// asked for ahead lies in its own caches when its turn comes; whoever is done takes from the blocks of others.
// In: stages in order, with their numbers of tiles. Out: each tile once.
// Invariant: a block is one word, changed by compare-and-exchange: stage, next, end. A worker that has not come to a stage yet is no
// hindrance: others open its block there. Nobody leaves a stage before all its tiles are taken.
// Example: 100 tiles, 2 workers: worker 0 takes 0 … 24, 25 … 37, 38 … 44 and so on to 49, then from worker 1's the half that it has left.
#pragma once
#include <stdatomic.h>
#include <stdint.h>

typedef struct TileBlock { _Alignas(64) atomic_uint_least64_t word; } TileBlock;   // alone on its cache line
enum { TILE_STAGES_MAX = (1 << 20) - 2 };    // of one run

void tile_blocks_reset(TileBlock *blocks, int n_workers);   // before a run
// Takes tiles of stage `stage` (stages rise from 0; n_tiles ≥ 0 is the same in each call for it): half of what is left of the worker's own
// block, from its beginning, or of another's, from its end. Returns the first, or −1 where all are taken; *end: behind the last.
long tile_blocks_take(TileBlock *blocks, int worker, int n_workers, int stage, long n_tiles, long *end);

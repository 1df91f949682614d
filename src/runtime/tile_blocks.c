// tile_blocks: see tile_blocks.h.
#include "runtime/tile_blocks.h"

#include <stdbool.h>

// A word: the stage's number + 1 (0: before the first), then the units that are left, from lo to hi. A unit is a tile where a stage
// has no more than fit.
enum { UNIT_BITS = 21, UNITS_MAX = (1 << UNIT_BITS) - 1 };
typedef struct Block { uint64_t stage, lo, hi; } Block;

static Block block_of(uint64_t word) {
    return (Block){word >> 2 * UNIT_BITS, word >> UNIT_BITS & UNITS_MAX, word & UNITS_MAX};
}

static uint64_t word_of(Block b) { return b.stage << 2 * UNIT_BITS | b.lo << UNIT_BITS | b.hi; }

void tile_blocks_reset(TileBlock *blocks, int n_workers) {
    for (int i = 0; i < n_workers; i++) atomic_store_explicit(&blocks[i].word, 0, memory_order_relaxed);
}

// Half of what is left of a block in units, rounded up; false: nothing is.
static bool units_take(TileBlock *block, Block whole, bool is_own, Block *taken) {
    uint64_t word = atomic_load_explicit(&block->word, memory_order_relaxed), next;
    do {
        Block b = block_of(word);
        if (b.stage > whole.stage) return false;    // its worker left this stage, when all was taken
        if (b.stage < whole.stage) b = whole;       // it has not come here yet
        uint64_t n = (b.hi - b.lo + 1) / 2;
        if (n == 0) return false;
        *taken = is_own ? (Block){b.stage, b.lo, b.lo + n} : (Block){b.stage, b.hi - n, b.hi};
        next = word_of(is_own ? (Block){b.stage, b.lo + n, b.hi} : (Block){b.stage, b.lo, b.hi - n});
    } while (!atomic_compare_exchange_weak_explicit(&block->word, &word, next, memory_order_relaxed, memory_order_relaxed));
    return true;
}

long tile_blocks_take(TileBlock *blocks, int worker, int n_workers, int stage, long n_tiles, long *end) {
    long unit = 1 + (n_tiles - 1) / UNITS_MAX;
    uint64_t units = (uint64_t)((n_tiles + unit - 1) / unit), n = (uint64_t)n_workers;
    for (int i = 0; i < n_workers; i++) {
        uint64_t of = (uint64_t)((worker + i) % n_workers);
        Block taken;
        if (!units_take(&blocks[of], (Block){(uint64_t)stage + 1, units * of / n, units * (of + 1) / n}, i == 0, &taken)) continue;
        *end = (long)taken.hi * unit < n_tiles ? (long)taken.hi * unit : n_tiles;
        return (long)taken.lo * unit;
    }
    return -1;
}

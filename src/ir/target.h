// target: plain facts about a device, filled by the device, read by codegen and render. Nothing else knows.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "ir/uop.h"

// One form of the exact 4-term dot product that a target has.
typedef enum DotForm {
    DOT_NONE,          // plain C: four multiplications
    DOT_PAIRS,         // u8 × i8 pairs summed to i16 with saturation (maddubs), then pairs of i16 to i32:
                       // only where bounds prove 2·|a|·|b| ≤ 32,767
    DOT_U8I8,          // vpdpbusd: u8 × i8, exact
    DOT_I8I8,          // sdot, dp4a: i8 × i8, exact
} DotForm;

// How the schedule cuts kernels into tiles; 0: as for the threads of a CPU.
typedef struct TileWishes {
    double work;               // operations that are worth a tile
    int64_t most, enough, few; // never more; no further loop is cut; fewer may read the model's memory again in each
    int64_t multiple;          // of steps that a tile keeps, where that leaves tiles enough: threads share them evenly
    double width;              // tiles that run at the same time
    double sync_work;          // what starting a kernel costs, in operations of one tile
    bool has_tails;            // a tile can tell that it is the last one to end (LAST_TILE)
} TileWishes;

typedef struct Target {
    char name[32];             // a row of the device's target table, for example "avx2"; part of every cache key
    int vector_bytes;          // native vector register width: 16, 32, 64
    int wide_bytes;            // of registers twice as long, for stores that need few instructions with them; 0: none
    uint64_t wide_stores;      // of a kernel, what is computed in those: bit k is what it stores to its parameter k (pipeline.c)
    int n_vector_registers;
    DotForm dot;
    bool has_fma;              // MULADD as one instruction; else it is lowered exactly
    bool has_f16_convert;      // f16 ↔ f32 conversion of vectors
    bool has_byte_shuffle;     // table look-up of 16 bytes by a vector of indices (pshufb)
    bool has_bit_shuffle;      // BITS, and any bytes of a register by a vector of indices (vpmultishiftqb, vpermb)
    bool has_bit_matrix;       // each bit of a byte from any bits of it, at once (gf2p8affineqb)
    bool has_round;            // floor and round of vectors (SSE4.1)
    bool reads_ahead;          // memory that a loop walks through comes sooner without requests than with them
    bool has_atomic_add;       // tiles may add to one f32 in memory, in any order
    bool unaligned_loads;      // any load at any byte address
    int max_load_bytes;        // widest single load
    int param_alignment;       // every buffer's address is a multiple of it, a power of two (≥ 1)
    int local_bytes;           // local memory of a tile
    int group_threads;         // most threads that share a tile, a power of two; 0: a tile is one thread
    int shuffle_threads;       // neighbouring threads that exchange values without local memory; 0: none do
    int thread_elements;       // most elements of a tile that a thread has registers to compute at once; 0: one
    int prompt_rows;           // rows of a prompt at once that keep it busy; 0: as few as keep the threads of a CPU busy
    TileWishes tiles;
    char cc_flags[256];        // C targets: explicit -m flags
} Target;

static inline int target_widest(const Target *target) { return target->wide_bytes ? target->wide_bytes : target->vector_bytes; }

// A kernel of up to 32 tiles for each that runs at the same time waits for memory; one of more keeps its pipes busy.
static inline bool target_has_few(const Target *target, double tiles) { return tiles <= 32 * target->tiles.width; }

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

typedef struct Target {
    char name[32];             // a row of the device's target table, for example "avx2"; part of every cache key
    int vector_bytes;          // native vector register width: 16, 32, 64
    int n_vector_registers;
    DotForm dot;
    bool has_fma;              // MULADD as one instruction; else it is lowered exactly
    bool has_f16_convert;      // f16 ↔ f32 conversion of vectors
    bool has_byte_shuffle;     // table look-up of 16 bytes by a vector of indices (pshufb)
    bool has_round;            // floor and round of vectors (SSE4.1)
    bool unaligned_loads;      // any load at any byte address
    int max_load_bytes;        // widest single load
    int param_alignment;       // every buffer's address is a multiple of it, a power of two (≥ 1)
    int local_bytes;           // local memory of a tile
    bool has_barrier;          // several threads share a tile (GPU)
    char cc_flags[256];        // C targets: explicit -m flags
} Target;

// noise_blocks: random bytes that are valid blocks of a type. In: a type, a number of blocks, the state of a generator.
// Out: bytes. Invariant: every float field is finite and moderate (exponents of f16 fields are set to 2^−4 … 2^−1), so
// that sums of products neither overflow nor vanish.
// Example: uint64_t state = 7; noise_blocks_fill(bytes, quant_find(2), n, &state);
#pragma once
#include "nn/quant.h"

static inline uint32_t noise_next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static inline void noise_blocks_fill(uint8_t *at, const QuantType *t, int64_t n, uint64_t *state) {
    for (int64_t i = 0; i < n * t->block_bytes; i++) at[i] = (uint8_t)noise_next(state);
    for (int64_t i = 0; i < n; i++) {
        uint8_t *block = at + i * t->block_bytes;
        for (int s = 0; s < t->n_scales && t->scale_type != DT_VOID; s++) {
            uint8_t *top = block + t->scale_at[s] + dtype_bytes(t->scale_type) - 1;
            *top = (uint8_t)((*top & 0x83) | (t->scale_type == DT_F16 ? 0x2C : 0x3C));
        }
        if (t->scale_type == DT_VOID) block[0] = (uint8_t)(120 + block[0] % 8);
    }
}

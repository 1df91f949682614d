// weights: a model's tensors, found by name, checked against the config, and bound to buffers.
// In: a config and a Gguf. Out: one Weight a row of weights.def. Invariant: after weights_find every weight that a
// block is built from has a known type and the shape that the config states.
// Example: Weights w; TRY(weights_find(&w, arena, &config, gguf, err)); TRY(weights_bind(&w, &config, part, &host, &progress, err));
#pragma once
#include "models/config.h"
#include "nn/layers.h"

// Who owns device memory: the engine, or a test's plain arrays. wrap: data stays valid and is used in place where
// that is possible; alloc: zeroed; part: of a buffer, as one of its own. All give an id for tensor_buffer. room: bytes that are left of a memory of its own, into
// which wrap copies, and its name; false, as NULL, where that is not so. wants_planes: it reads only at multiples of what it
// reads, so weights are laid out in planes (nn/quant) while they are copied; stage: memory to lay them out in, *nbytes of it,
// free again when it is given again; NULL, as its answer: any will do; keeps_nothing: what is written there is no matter.
typedef struct BufferHost {
    void *context;
    bool (*alloc)(void *context, size_t nbytes, int64_t *id, Error *err);
    bool (*wrap)(void *context, const void *data, size_t nbytes, int64_t *id, Error *err);
    int64_t (*part)(void *context, int64_t whole, size_t offset, size_t nbytes);
    void (*write)(void *context, int64_t id, size_t offset, const void *data, size_t nbytes);
    bool (*room)(void *context, size_t *free_bytes, const char **name);
    void *(*stage)(void *context, size_t *nbytes);
    bool wants_planes, keeps_nothing;
} BufferHost;

// Told how much of the weights is where it will be computed with, from 0 on.
typedef struct LoadProgress {
    void (*show)(void *context, int64_t done, int64_t total);   // NULL: nobody asks
    void *context;
} LoadProgress;

typedef struct BlockWeights {
#define MODEL_WEIGHT(...)
#define BLOCK_WEIGHT(field, ...) Weight field;
#include "models/weights.def"
#undef MODEL_WEIGHT
#undef BLOCK_WEIGHT
} BlockWeights;

typedef struct Weights {
#define MODEL_WEIGHT(field, ...) Weight field;
#define BLOCK_WEIGHT(...)
#include "models/weights.def"
#undef MODEL_WEIGHT
#undef BLOCK_WEIGHT
    BlockWeights *blocks;              // [n_blocks]
    // What stands in the fields above. role: the tensor's name without its block, as in weights.def.
    // block: −1 for the model's own.
    struct { Weight *weight; const GgufTensor *tensor; const char *role; int block; } *found;
    size_t n_found;
} Weights;

// Errors: LATHE_BAD_FILE names a missing or misshapen tensor, LATHE_UNSUPPORTED a block type that lathe lacks.
bool weights_find(Weights *w, Arena *arena, const ModelConfig *config, const Gguf *gguf, Error *err) MUST_CHECK;
// A part of a model's road: blocks first ≤ block < end; the first also embeds tokens, the last makes logits.
typedef struct BlockRange { int first, end; } BlockRange;
// Gives every weight of the part its buffer.
bool weights_bind(Weights *w, const ModelConfig *config, BlockRange part, const BufferHost *host, const LoadProgress *progress, Error *err) MUST_CHECK;
int64_t weights_bytes(const Weights *w, const ModelConfig *config, BlockRange part);
// Bytes that one decoded token reads: every matrix once, the used share of experts, one row of the embedding.
int64_t weights_bytes_per_token(const Weights *w, const ModelConfig *config);
// True where the model reads a tensor of this name.
bool weights_use(const Weights *w, const GgufTensor *tensor);

// later: what later stages of a step read from end to end, a worker's share of it, for kernels that leave memory idle to ask for.
// In: a table of stages, the one that runs. Out: a piece of memory, or none.
// Invariant: each byte is handed out once a step, and none behind more memory than caches hold. A worker's share of a tensor is as its share
// of tiles (tile_blocks): it lies in the caches of the core that will read it.
// Example: 2 workers, a stage that asks, then one that reads 8 MB: worker 1 is handed the second 4 MB.
#pragma once
#include "runtime/device.h"

// piece: what is left to ask for of the last one that was handed out; it belongs to stage `stage`.
typedef struct Later { Span piece; int stage, read; } Later;
typedef struct Stages { const Stage *at; int n; size_t ahead_bytes; } Stages;   // ahead_bytes: what caches hold

// While stage s runs: a new piece where nothing is left of the last one, or where its stage has come; an empty one where there is none.
void later_refill(Later *later, const Stages *stages, int s, int worker, int n_workers);

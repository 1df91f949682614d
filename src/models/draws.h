// draws: tokens drawn from rows of logits, in the same run of the device as the step that makes the logits.
// In: a plan, its engine, a buffer of logits. Out: for each kind of draw a step; joined with a step of rows, one table.
// Invariant: draw i reads StepInputs.draws[i] and leaves DrawResult i; a joined step is made once and runs again without allocating.
// Example: rows of 4 sequences, all by top-k: one table of the step and 4 draws, one copy before it, one result behind it
#pragma once
#include <pthread.h>
#include "engine/engine.h"
#include "models/plan.h"

enum { JOINED_MOST = 64 };

typedef struct JoinedDraws { const Step *rows, *draw; int first, n; Step *step; uint64_t used; } JoinedDraws;

typedef struct Draws {
    Engine *engine;
    const ModelPlan *plan;
    int64_t logits;                    // f32 [MODEL_ROWS_MIXED, vocab]
    int64_t counts, allowed;           // i32, u8 [slots, vocab]
    int64_t bias;                      // f32 [slots, vocab]; −1 until it is needed
    pthread_mutex_t adding;            // of bias
    const uint8_t *everything;         // [vocab]: ones
    int64_t results;                   // DrawResult [MODEL_ROWS_MIXED], where the host reads it
    struct DrawBuffers { int64_t params, words, row, slot, result; } at[MODEL_ROWS_MIXED];
    int64_t blocks[MODEL_ROWS_MIXED];  // what draws side by side keep for themselves; [0]: nothing, the step has a block of its own
    size_t block_bytes[MODEL_ROWS_MIXED];
    JoinedDraws joined[JOINED_MOST];
    uint64_t runs;
} Draws;

// What the draws keep lies on the arena.
bool draws_open(Draws *draws, Arena *arena, Engine *engine, const ModelPlan *plan, int64_t logits, Error *err) MUST_CHECK;
void draws_close(Draws *draws);        // before the steps that were joined
// The step of draw 0 with these parts (SamplingParts).
bool draws_compile(Draws *draws, int parts, Step **step, Error *err) MUST_CHECK;
// draw i of first ≤ i < first + n, side by side, behind rows where that is not NULL.
bool draws_join(Draws *draws, const Step *rows, const Step *draw, int first, int n, Step **step, Error *err) MUST_CHECK;
void draws_part(Draws *draws);         // forgets what was joined: its steps are about to go
void draws_write(const Draws *draws, const DrawInput *inputs, int n);
void draws_read(const Draws *draws, DrawResult *results, int n);

void draws_set_count(Draws *draws, int slot, int32_t token, int32_t count);
void draws_set_allowed(Draws *draws, int slot, const uint8_t *allowed);       // [vocab]; NULL: everything
bool draws_set_bias(Draws *draws, int slot, int32_t token, float bias, Error *err) MUST_CHECK;

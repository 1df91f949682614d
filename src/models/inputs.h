// inputs: what the host tells a step of a few rows, and what it is told: memory that lies on the device as it does here, so that
// one copy brings all of it.
// In: rows, and draws from their logits. Out: each field is a buffer of its own to graphs (a part of the whole).
// Invariant: fields begin at multiples of INPUT_ALIGNMENT; a draw's are those of the draw before it, sizeof (DrawInput) further on.
// Example: one row and one draw: the first offsetof(StepInputs, draws[1]) bytes
#pragma once
#include "nn/sampling.h"

// Rows of one step; so many of them may belong to different sequences. A step of more is a piece of one prompt, and padding.
enum { MODEL_ROWS_MAX = 512, MODEL_ROWS_MIXED = 16, INPUT_ALIGNMENT = 64 };
#define INPUT _Alignas(INPUT_ALIGNMENT)

typedef struct DrawInput {
    INPUT float params[SAMPLE_PARAMS];
    INPUT uint32_t words[SAMPLE_WORDS];
    INPUT int32_t row;                 // of the logits
    INPUT int32_t slot;                // whose counts, mask and biases
} DrawInput;

typedef struct StepInputs {
    INPUT int32_t token[MODEL_ROWS_MIXED];
    INPUT int32_t position[MODEL_ROWS_MIXED];
    INPUT int32_t sequence[MODEL_ROWS_MIXED];
    DrawInput draws[MODEL_ROWS_MIXED];
} StepInputs;

typedef struct PromptInputs {
    INPUT int32_t token[MODEL_ROWS_MAX];
    INPUT int32_t position[MODEL_ROWS_MAX];
    INPUT int32_t sequence[MODEL_ROWS_MAX];
} PromptInputs;

typedef struct DrawResult { INPUT int32_t token; int32_t status; } DrawResult;   // as sampling_graph

// transformer: the one block loop that computes every architecture, as a graph.
// In: a ModelPlan (config, weights, buffers). Out: a graph from token, position and sequence buffers to logits, hidden
// states and cache writes. Invariant: strategies come from the config's fields; nothing here knows an architecture.
// Example: transformer_build(graph, &plan, 16, logits_id, &out); outputs = {out.logits}: 16 rows a run.
#pragma once
#include "models/config.h"
#include "models/inputs.h"
#include "models/weights.h"
#include "nn/kvcache.h"

typedef struct RowBuffers { int64_t token, position, sequence; } RowBuffers;   // i32 [rows]
typedef struct CacheBuffers { int64_t plane[KV_PLANES_MAX]; } CacheBuffers;

// Everything that a graph of this model refers to by number.
typedef struct ModelPlan {
    const ModelConfig *config;
    Weights weights;
    BlockRange part;                   // of the model that this graph computes
    bool is_exact;
    const KvFormat *cache_format;
    int64_t context;                   // positions a sequence
    int64_t slots, pages_per_slot;     // pages in all: slots · pages_per_slot + 1 (scratch)
    QuantTables tables;
    int rows_together;                 // rows of a prompt that attention takes side by side (KvRows); 0: each for itself
    int64_t step_inputs, prompt_inputs;   // StepInputs, for up to MODEL_ROWS_MIXED rows; PromptInputs, for more
    RowBuffers step_rows, prompt_rows;    // in these
    int64_t hidden_in, hidden_out;     // f32 [MODEL_ROWS_MAX, dim]: from the part before, for the next; −1 at the model's ends
    int64_t page_table;                // i32 [slots + 1, pages_per_slot]
    int64_t rope_cos, rope_sin, local_cos, local_sin;   // f32 [context, rope_dim / 2]
    CacheBuffers *keys, *values;       // [n_blocks], those of the part; latent: values are a part of keys, and have none
} ModelPlan;

// What a graph offers; compile any of these.
typedef struct TransformerGraph {
    Tensor logits;                     // f32 [rows, vocab]; NULL where a later part makes them
    Tensor *hidden;                    // [n_blocks] f32 [rows, dim]: the residual stream behind each block of the part
    Tensor *cached;                    // [n_cached] AFTER nodes: every plane of a cache behind its writes
    int n_cached;
} TransformerGraph;

// rows ≤ MODEL_ROWS_MAX. Shapes that do not fit give poison nodes, which compiling reports.
void transformer_build(Graph *graph, const ModelPlan *plan, int rows, TransformerGraph *out);

// model: a file's weights and caches on an engine, and the compiled steps that turn rows of tokens into logits.
// In: an open Gguf and an engine. Out: logits in a buffer (or copied to the caller).
// Invariant: positions, sequences and pages are data; one step a number of rows serves every position and mix of
// sequences, is compiled on first use, and allocates nothing when it runs again.
// Example: Model *m; TRY(model_load(&m, &gguf, engine, &(ModelOptions){0}, err));
//          TRY(model_eval(m, 0, tokens, n, 0, LOGITS_LAST, logits, err));
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "engine/engine.h"
#include "models/config.h"
#include "models/weights.h"
#include "nn/gguf.h"
#include "nn/sampling.h"

typedef struct ModelOptions {
    bool exact;                // f32 activations in every product
    int64_t context;           // positions a sequence; 0: min(the model's, 8,192, what fits leaving 1 GiB)
    const char *cache_type;    // "f16", "f32" or "q8_0"; NULL: f16, f32 in exact mode
    int chunk;                 // prompt rows at once; 0: MODEL_CHUNK, up to MODEL_CHUNK_GROUPED where experts are chosen, more on a GPU
    int slots;                 // sequences at once; 0: 1
    bool in_place;             // weights stay as the file has them, also where a device would read them faster in planes
    LoadProgress progress;     // of weights that are copied to a device
    Engine *rest;              // NULL, or what computes the blocks from first_blocks on and the logits
    int first_blocks;          // all that there are, or more: rest is not used
} ModelOptions;
enum { MODEL_CHUNK = 64, MODEL_CHUNK_GROUPED = 256, MODEL_CHUNK_MAX = 512, MODEL_SLOTS_MAX = 256 };

typedef struct Model Model;
typedef enum LogitRows { LOGITS_NONE, LOGITS_LAST, LOGITS_ALL } LogitRows;

// gguf, engine and options->rest must outlive the model. Errors: an unknown architecture or type, missing or misshapen tensors
// (named), a context that does not fit.
bool model_load(Model **model, const Gguf *gguf, Engine *engine, const ModelOptions *options, Error *err) MUST_CHECK;
void model_free(Model *model);                                   // NULL is allowed; buffers stay with the engine
const ModelConfig *model_config(const Model *model);
int64_t model_vocab_size(const Model *model);
int64_t model_context(const Model *model);                       // positions a sequence
int64_t model_cache_bytes_per_token(const Model *model);
int model_chunk(const Model *model);                             // rows of a prompt at once
int model_slots(const Model *model);
// A model is one part, or several that stand on engines of their own and hand a row of dim values on for each token.
int model_parts(const Model *model);
Engine *model_engine(const Model *model, int part);

// Evaluates tokens[0..n) of the sequence in slot at positions position0…; positions before position0 must have been
// evaluated. The prompt is cut into chunks. logits: [vocab] for LOGITS_LAST, [n][vocab] for LOGITS_ALL, else NULL
// (LOGITS_LAST with NULL leaves the row in the logits buffer, for model_sample).
// Errors: LATHE_BAD_REQUEST for a token, slot or position out of range; NaN logits name the first block with one.
bool model_eval(Model *model, int slot, const int32_t *tokens, int64_t n, int64_t position0, LogitRows rows,
                float *logits, Error *err) MUST_CHECK;

// One step over rows of any mix of sequences: row r is tokens[r] at positions[r] of slots[r]; rows of one sequence
// stand in rising order of position. n ≤ MODEL_CHUNK_MAX; more than 16 are all of one slot. Logits of all rows (want_logits) go to the logits buffer.
bool model_forward(Model *model, const int32_t *tokens, const int32_t *positions, const int32_t *slots, int n,
                   bool want_logits, Error *err) MUST_CHECK;
// Compiles ahead what model_forward needs for n rows, and model_sample for such options. Another thread may do that while one
// evaluates, where the device's compiles_beside_runs says so.
bool model_prepare_rows(Model *model, int n, bool want_logits, Error *err) MUST_CHECK;
bool model_prepare_draws(Model *model, const SamplingOptions *options, Error *err) MUST_CHECK;
// While another thread prepares: rows go to larger compiled numbers of rows, prompts are cut into smaller ones, so that
// nothing waits for a compiler that need not. The numbers that come out are the same.
void model_avoid_compiling(Model *model, bool avoids);
// How many of n rows one step should take now: n, or fewer where only that is compiled.
int model_rows_now(const Model *model, int n, bool want_logits);
// Chooses, of each part whose target has a choice, the form of sums of few long steps in which one token takes least time, from
// steps of one row of no sequence: for all steps compiled later. Before any other thread uses the model.
typedef struct SumTimes { SumForm chosen; uint64_t us[SUM_FORMS]; } SumTimes;   // of the last part with a choice; 0 µs: not measured
bool model_measure_sums(Model *model, SumTimes *times, Error *err) MUST_CHECK;
// Copies row r of the logits buffer.
void model_logits(Model *model, int row, float *out);
// Draws a token from row r of the logits buffer, with the counts and the mask of slot. draw: number of the draw in
// its sequence; equal (seed, draw, logits) give equal tokens. Who wants both, a step and draws, asks model_draw.
bool model_sample(Model *model, int row, int slot, const SamplingOptions *options, uint32_t draw, int32_t *token,
                  Error *err) MUST_CHECK;
// One step as model_forward, with logits, over n ≤ 16 rows, and draws from any of them with the counts and the mask of the row's slot:
// on a device with a memory of its own one copy and, where all draws have the same parts (sampling_parts), one launch.
// False: nothing was drawn. A draw that fails has the token −1, and error says why; the others are as if it were not there.
typedef struct ModelDraw {
    int row;
    const SamplingOptions *options;
    uint32_t number;                   // of the draw in its sequence
    int32_t token;                     // out
    Error *error;                      // written where the draw fails
} ModelDraw;
bool model_draw(Model *model, const int32_t *tokens, const int32_t *positions, const int32_t *slots, int n, ModelDraw *draws, int n_draws,
                Error *err) MUST_CHECK;
// How often a token was seen in a slot's penalty window, and which tokens may be drawn there: for all later draws.
void model_set_count(Model *model, int slot, int32_t token, int32_t count);
void model_set_allowed(Model *model, int slot, const uint8_t *allowed);    // [vocab]; NULL: everything
// What is added to a token's logit in this slot where SamplingOptions.has_bias says so; finite.
bool model_set_bias(Model *model, int slot, int32_t token, float bias, Error *err) MUST_CHECK;

// The cache in pages of KV_PAGE positions. A slot's positions lie where its page table says: after loading, slot s has
// pages s · per_slot … for itself; who moves pages sees to it that no two slots write one (models/pages does).
int64_t model_pages(const Model *model);                         // of all slots together
int64_t model_pages_per_slot(const Model *model);
void model_set_page(Model *model, int slot, int64_t index, int32_t page);
size_t model_page_bytes(const Model *model);                     // of one page in all blocks
void model_page_read(Model *model, int32_t page, void *out);     // [model_page_bytes]
void model_page_write(Model *model, int32_t page, const void *data);

// The step in which a part runs n rows with logits: for profile and tests. Compiles it where needed.
bool model_step(Model *model, int part, int n, Step **step, Error *err) MUST_CHECK;
// Bytes of weights that one decoded token reads: every matrix once, the used share of experts, one embedding row.
int64_t model_bytes_per_token(const Model *model);
// What a buffer of a part's engine is to the model: a tensor's name without its block, "keys", "values"; NULL: something else.
const char *model_buffer_role(const Model *model, int part, int64_t buffer);

// What `lathe check` prints; needs no engine. Lists are zero-length where there is nothing to say.
typedef enum Verdict { VERDICT_OK, VERDICT_WARN, VERDICT_REFUSE } Verdict;
typedef struct TextList { const char **at; size_t len, cap; } TextList;
typedef struct ModelReport {
    Verdict verdict;
    const char *architecture;
    ModelFacts facts;                  // gating, rope numbers, pre-tokenizer, sizes …
    TextList inferred;                 // "expert gating: sigmoid (…)": facts that the file does not state, with reasons
    TextList warnings, errors;
    int64_t cache_bytes_per_token;
    int64_t parameters, bytes_per_token;
} ModelReport;
// cache_type: as in ModelOptions. scan_values: also look for NaN and infinities in every tensor's floats and block scales
// (reads the whole file). False only where the report could not be made at all: LATHE_BAD_REQUEST for a cache type that
// cannot be had; what is wrong with the file stands in errors.
bool model_inspect(Arena *arena, const Gguf *gguf, const char *cache_type, bool scan_values, ModelReport *report,
                   Error *err) MUST_CHECK;

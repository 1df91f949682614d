// plan: a model's weights, caches and tables bound to buffers, ready for transformer_build.
// In: a Gguf, options, a BufferHost. Out: a ModelPlan that lives on the arena; its buffers belong to the host.
// Invariant: page tables map slot s, page p to page s · pages_per_slot + p; the slot behind the last is scratch.
// Example: ModelPlan *plan; TRY(plan_create(&plan, arena, &gguf, &(PlanOptions){.slots = 1}, &host, err));
#pragma once
#include "models/transformer.h"

typedef struct PlanOptions {
    bool is_exact;
    int64_t context;                   // 0: min(the model's, 8,192, what fits leaving 1 GiB)
    const char *cache_type;            // a row of kvcache's formats; NULL: f16, f32 in exact mode
    int slots;                         // ≥ 1
    LoadProgress progress;
    BlockRange part;                   // end 0: all blocks
    int rows_together;                 // as ModelPlan
} PlanOptions;

// Errors: those of config_read, weights_find and the host; LATHE_BAD_REQUEST for a context beyond the model's or a
// cache type that cannot be had; LATHE_NO_MEMORY where caches, or weights that must be copied, do not fit (the text has the
// sizes), before anything is copied.
bool plan_create(ModelPlan **plan, Arena *arena, const Gguf *gguf, const PlanOptions *options, const BufferHost *host,
                 Error *err) MUST_CHECK;
// The positions that plan_create would choose on that host; takes nothing of it.
bool plan_context(int64_t *context, const Gguf *gguf, const PlanOptions *options, const BufferHost *host, Error *err) MUST_CHECK;
// The format of that name, or the mode's own where name is NULL or empty. Errors: LATHE_BAD_REQUEST where it does not
// exist, or where the model's heads do not divide into its blocks.
bool plan_cache_format(const KvFormat **format, Arena *arena, const ModelConfig *config, const char *name, bool is_exact,
                       Error *err) MUST_CHECK;
// Bytes of cache that a position takes.
int64_t plan_cache_bytes_per_token(const ModelPlan *plan);

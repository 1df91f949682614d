// config: what a model is, read from a file's metadata: sizes, strategies and everything that had to be inferred.
// In: an open Gguf. Out: a ModelConfig that names no architecture any more: a block is built from its fields alone.
// Invariant: after config_read succeeded all sizes are positive, consistent and small enough to multiply.
// Example: ModelConfig c; TRY(config_read(&c, arena, &gguf, NULL, err)); printf("%d blocks\n", c.n_blocks);
#pragma once
#include "nn/experts.h"
#include "nn/gguf.h"
#include "nn/kvcache.h"
#include "nn/rope.h"

typedef enum AttentionKind { ATTENTION_GROUPED, ATTENTION_LATENT } AttentionKind;

typedef struct ModelConfig {
    const char *architecture;          // general.architecture, a row of arch.def
    const char *title;                 // general.name, or the architecture's
    int n_blocks;
    int64_t dim, vocab, context;       // context: what the model was trained for
    int64_t ffn;                       // hidden size of the dense feed-forward
    double norm_eps;
    Activation activation;
    double embedding_scale;            // 1 unless the architecture scales its embeddings
    double logit_cap;                  // 0: none; else logits = cap · tanh(logits / cap)
    bool has_post_norms;               // norms behind attention and feed-forward, before the residual sum
    bool is_tied;                      // the output head is the token embedding

    AttentionKind attention;
    int64_t heads, kv_heads;           // latent: kv_heads is 1
    int64_t key_dim, value_dim;        // of one head; latent: key_dim = nope + rope, value_dim of v_b
    int64_t q_lora;                    // latent: 0 where queries come from one matrix
    int64_t kv_lora, nope_dim;         // latent only
    int64_t rope_dim;                  // values of a head that turn with the position
    bool has_qk_norm;                  // norms on each head of q and k
    bool needs_qkv_bias;               // else biases are used where the file has them
    double score_scale;                // of q·k
    double score_cap;                  // 0: none
    int64_t window;                    // 0: none; else keys at most window − 1 positions back are seen ...
    const bool *is_local;              // ... in these blocks, [n_blocks]
    RopeSpec rope, rope_local;         // local: in blocks with a window

    Router router;                     // gating GATE_NONE: dense everywhere
    int64_t shared_experts, expert_ffn;
    int dense_lead;                    // leading blocks without experts

    const char *pre_tokenizer;         // tokenizer.ggml.pre, or NULL
} ModelConfig;

// One thing worth telling about a file: what, its value, why. reason is NULL where the file states it.
typedef struct ModelFact { const char *name, *value, *reason; } ModelFact;
typedef struct ModelFacts { ModelFact *at; size_t len, cap; Arena *arena; } ModelFacts;

// facts may be NULL. Errors: LATHE_UNSUPPORTED for an architecture or a form of it that lathe does not know (the
// text lists the known ones), LATHE_BAD_FILE for a missing or impossible key (the text names it).
bool config_read(ModelConfig *config, Arena *arena, const Gguf *gguf, ModelFacts *facts, Error *err) MUST_CHECK;
// What a block keeps of a position. Latent: one row, its parts what turns with the position and what does not; the values
// are a part of it, and their shape is 0 wide.
KvShape config_keys(const ModelConfig *config);
KvShape config_values(const ModelConfig *config);
// Bytes of cache that one position takes in all blocks.
int64_t config_cache_bytes(const ModelConfig *config, const KvFormat *format);
bool config_block_is_dense(const ModelConfig *config, int block);
int64_t config_block_window(const ModelConfig *config, int block);   // 0 where the block sees everything
// Names of the architectures that arch.def knows, in order; NULL-terminated.
const char *const *config_architectures(void);

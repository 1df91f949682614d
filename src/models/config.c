// config: from metadata to a ModelConfig. See config.h.
#include "models/config.h"

#include <math.h>
#include <string.h>

#include "base/vec.h"

enum { QKV_BIAS = 1, QK_NORM = 2, POST_NORMS = 4, SCALED_EMBEDDING = 8, EXPERT_NORM = 16 };

typedef struct ArchRow {
    const char *name;
    AttentionKind attention;
    RopeLayout rope_layout;
    Activation activation;
    int traits, window_period;
    double local_base;
} ArchRow;

static const ArchRow arch_rows[] = {
#define ARCH(name, attention, layout, activation, traits, period, local_base) \
    {#name, ATTENTION_##attention, ROPE_##layout, ACTIVATION_##activation, traits, period, \
     local_base},
#include "models/arch.def"
#undef ARCH
};
static const char *const arch_names[] = {
#define ARCH(name, ...) #name,
#include "models/arch.def"
#undef ARCH
    NULL,
};
const char *const *config_architectures(void) { return arch_names; }

enum { BLOCKS_MAX = 1024, SIZE_MAX_ONE = 1 << 24, COUNT_MAX = 1 << 16, CONTEXT_MAX = 1 << 30 };
// Gemma 3 27B scales scores by the width that a head would have if heads shared the embedding evenly.
enum { GEMMA3_27B_BLOCKS = 62 };

typedef struct Reader {
    const Gguf *gguf;
    const ArchRow *row;
    Arena *arena;
    ModelFacts *facts;
    ModelConfig *c;
    Error *err;
} Reader;

static void note(Reader *r, const char *name, const char *value, const char *reason) {
    if (r->facts) vec_push(r->facts->arena, r->facts, ((ModelFact){name, value, reason}));
}

static const char *number_text(Reader *r, double v) { return arena_printf(r->arena, "%g", v); }

// ---------------------------------------------------------------- keys

static const char *key_of(Reader *r, const char *name) {
    return arena_printf(r->arena, "%s.%s", r->row->name, name);
}
static bool has_key(Reader *r, const char *name) {
    return gguf_value(r->gguf, key_of(r, name)) != NULL;
}

// An integer in [lo, hi]; an array counts as a scalar where its items are equal. fallback < lo: the key is needed.
static bool read_int(Reader *r, const char *name, int64_t lo, int64_t hi, int64_t fallback,
                     int64_t *out) {
    const char *key = key_of(r, name);
    const GgufValue *v = gguf_value(r->gguf, key);
    int64_t n = fallback;
    if (!v && fallback < lo)
        return fail(r->err, LATHE_BAD_FILE, "the key '%s' is missing: is the file complete?", key);
    if (v && v->type == GGUF_ARRAY) {
        if (v->count == 0 || v->item_type == GGUF_TEXT || v->item_type == GGUF_ARRAY)
            return fail(r->err, LATHE_BAD_FILE, "the key '%s' is not a number", key);
        n = gguf_array_i64(v, 0);
        for (uint64_t i = 1; i < v->count; i++)
            if (gguf_array_i64(v, i) != n)
                return fail(r->err, LATHE_UNSUPPORTED,
                            "the key '%s' differs between blocks: lathe computes models "
                            "whose blocks have equal shapes",
                            key);
    } else if (v && !gguf_i64(r->gguf, key, &n)) {
        return fail(r->err, LATHE_BAD_FILE, "the key '%s' is not an integer", key);
    }
    if (v && (n < lo || n > hi))
        return fail(r->err, LATHE_BAD_FILE, "the key '%s' is %lld, outside of %lld to %lld", key,
                    (long long)n, (long long)lo, (long long)hi);
    *out = n;
    return true;
}

static bool read_float(Reader *r, const char *name, double lo, double hi, double fallback,
                       double *out) {
    const char *key = key_of(r, name);
    float f;
    *out = fallback;
    if (!gguf_value(r->gguf, key)) return true;
    if (!gguf_f32(r->gguf, key, &f))
        return fail(r->err, LATHE_BAD_FILE, "the key '%s' is not a number", key);
    if (!((double)f >= lo && (double)f <= hi))
        return fail(r->err, LATHE_BAD_FILE, "the key '%s' is %g, outside of %g to %g", key,
                    (double)f, lo, hi);
    *out = (double)f;
    return true;
}

static const char *read_text(Reader *r, const char *key) {
    Text t;
    return gguf_text(r->gguf, key, &t) ? text_cstr(r->arena, t) : NULL;
}

// ---------------------------------------------------------------- parts

static bool read_sizes(Reader *r) {
    ModelConfig *c = r->c;
    int64_t blocks;
    TRY(read_int(r, "block_count", 1, BLOCKS_MAX, 0, &blocks));
    c->n_blocks = (int)blocks;
    TRY(read_int(r, "context_length", 1, CONTEXT_MAX, 0, &c->context));
    TRY(read_int(r, "embedding_length", 1, SIZE_MAX_ONE, 0, &c->dim));
    TRY(read_int(r, "feed_forward_length", 1, SIZE_MAX_ONE, 0, &c->ffn));
    TRY(read_int(r, "attention.head_count", 1, COUNT_MAX, 0, &c->heads));
    TRY(read_int(r, "attention.head_count_kv", 1, COUNT_MAX, c->heads, &c->kv_heads));
    TRY(read_float(r, "attention.layer_norm_rms_epsilon", 0, 1, 1e-5, &c->norm_eps));
    if (!has_key(r, "attention.layer_norm_rms_epsilon"))
        note(r, "norm epsilon", number_text(r, c->norm_eps), "the key is absent");
    TRY(read_float(r, "final_logit_softcapping", 0, 1e9, 0, &c->logit_cap));
    TRY(read_float(r, "attn_logit_softcapping", 0, 1e9, 0, &c->score_cap));
    const GgufTensor *embedding = gguf_tensor(r->gguf, "token_embd.weight");
    if (!embedding)
        return fail(r->err, LATHE_BAD_FILE,
                    "the tensor 'token_embd.weight' is missing: a vocabulary alone, or the "
                    "first part of a split model?");
    if (embedding->ne[1] < 1 || embedding->ne[1] > SIZE_MAX_ONE || embedding->n_dims > 2)
        return fail(r->err, LATHE_BAD_FILE,
                    "'token_embd.weight' has no sensible vocabulary size (%llu)",
                    (unsigned long long)embedding->ne[1]);
    c->vocab = (int64_t)embedding->ne[1];
    c->is_tied = !gguf_tensor(r->gguf, "output.weight");
    c->embedding_scale = r->row->traits & SCALED_EMBEDDING ? sqrt((double)c->dim) : 1;
    return true;
}

// Latent attention: files of the first generation state the widths of a whole head as key_length and value_length,
// later ones state the latent's there and the head's as ..._mla.
static bool read_latent(Reader *r) {
    ModelConfig *c = r->c;
    c->kv_heads = 1;
    TRY(read_int(r, "attention.kv_lora_rank", 1, SIZE_MAX_ONE, 0, &c->kv_lora));
    TRY(read_int(r, "attention.q_lora_rank", 0, SIZE_MAX_ONE, 0, &c->q_lora));
    TRY(read_int(r, "rope.dimension_count", 2, SIZE_MAX_ONE, 0, &c->rope_dim));
    bool is_new = has_key(r, "attention.key_length_mla");
    TRY(read_int(r, is_new ? "attention.key_length_mla" : "attention.key_length", 1, SIZE_MAX_ONE,
                 0, &c->key_dim));
    TRY(read_int(r, is_new ? "attention.value_length_mla" : "attention.value_length", 1,
                 SIZE_MAX_ONE, 0, &c->value_dim));
    c->nope_dim = c->key_dim - c->rope_dim;
    if (c->nope_dim < 1)
        return fail(r->err, LATHE_BAD_FILE,
                    "heads of width %lld cannot hold %lld rotary values (%s.attention.key_length)",
                    (long long)c->key_dim, (long long)c->rope_dim, r->row->name);
    note(r, "attention",
         arena_printf(r->arena, "latent, absorbed: %lld heads over %lld + %lld values, queries %s",
                      (long long)c->heads, (long long)c->kv_lora, (long long)c->rope_dim,
                      c->q_lora ? "through a low rank" : "direct"),
         NULL);
    return true;
}

static bool read_grouped(Reader *r) {
    ModelConfig *c = r->c;
    int64_t even = c->dim / c->heads > 0 ? c->dim / c->heads : 1;
    if (c->heads % c->kv_heads)
        return fail(r->err, LATHE_BAD_FILE,
                    "%lld query heads do not divide over %lld key heads (%s.attention.head_count)",
                    (long long)c->heads, (long long)c->kv_heads, r->row->name);
    TRY(read_int(r, "attention.key_length", 1, SIZE_MAX_ONE, even, &c->key_dim));
    TRY(read_int(r, "attention.value_length", 1, SIZE_MAX_ONE, even, &c->value_dim));
    TRY(read_int(r, "rope.dimension_count", 2, SIZE_MAX_ONE, c->key_dim, &c->rope_dim));
    c->has_qk_norm = r->row->traits & QK_NORM;
    c->needs_qkv_bias = r->row->traits & QKV_BIAS;
    c->has_post_norms = r->row->traits & POST_NORMS;
    note(r, "attention",
         arena_printf(r->arena, "grouped: %lld query heads, %lld key heads of width %lld",
                      (long long)c->heads, (long long)c->kv_heads, (long long)c->key_dim),
         NULL);
    return true;
}

// The file may say which blocks are local (an array of bools) or how often one is not (a number).
static bool read_window(Reader *r) {
    ModelConfig *c = r->c;
    int64_t period = r->row->window_period;
    const char *pattern_key = "attention.sliding_window_pattern";
    bool *is_local = arena_new(r->arena, (size_t)c->n_blocks * sizeof *is_local);
    c->is_local = is_local;
    if (!period) return true;
    TRY(read_int(r, "attention.sliding_window", 0, CONTEXT_MAX, 0, &c->window));
    if (!c->window) return true;
    const GgufValue *pattern = gguf_value(r->gguf, key_of(r, pattern_key));
    bool is_listed = pattern && pattern->type == GGUF_ARRAY;
    if (is_listed && (pattern->count < (uint64_t)c->n_blocks || pattern->item_type == GGUF_TEXT))
        return fail(r->err, LATHE_BAD_FILE, "the key '%s' has no entry for each block",
                    key_of(r, pattern_key));
    if (!is_listed) TRY(read_int(r, pattern_key, 1, BLOCKS_MAX, period, &period));
    for (int i = 0; i < c->n_blocks; i++)
        is_local[i] = is_listed ? gguf_array_i64(pattern, (uint64_t)i) != 0 : (i + 1) % period != 0;
    note(r, "window",
         arena_printf(r->arena, "%lld positions%s", (long long)c->window,
                      is_listed ? " in the listed blocks"
                                : arena_printf(r->arena, ", except in every %lldth block",
                                               (long long)period)),
         pattern ? NULL : "the architecture's pattern");
    return true;
}

// ---------------------------------------------------------------- rope

static bool read_divisors(Reader *r, RopeSpec *rope) {
    const GgufTensor *t = gguf_tensor(r->gguf, "rope_freqs.weight");
    if (!t) return true;
    if (t->type != 0 || t->ne[0] != (uint64_t)rope->dim / 2 || t->n_dims != 1 ||
        t->nbytes != t->ne[0] * 4)
        return fail(r->err, LATHE_BAD_FILE, "'rope_freqs.weight' must hold %lld F32 values",
                    (long long)rope->dim / 2);
    const float *divisors = arena_copy(r->arena, t->data, t->nbytes);
    for (int64_t i = 0; i < rope->dim / 2; i++)
        if (!(divisors[i] > 0) || isinf(divisors[i]))
            return fail(r->err, LATHE_BAD_FILE,
                        "'rope_freqs.weight' has a value that is not positive (index %lld)",
                        (long long)i);
    rope->divisors = divisors;
    note(r, "rope frequencies", "divided by rope_freqs.weight", NULL);
    return true;
}

static bool read_scaling(Reader *r, RopeSpec *rope) {
    ModelConfig *c = r->c;
    Text stated = {0};
    double multiplier, attention;
    TRY(gguf_optional_text(r->gguf, key_of(r, "rope.scaling.type"), &stated, r->err));
    const char *type = stated.len ? text_cstr(r->arena, stated) : NULL, *reason = NULL;
    TRY(read_float(r, "rope.scaling.factor", 1e-6, 1e6, 1, &rope->factor));
    if (!type && has_key(r, "rope.scaling.factor") && rope->factor != 1)
        type = "linear", reason = "a factor without a type";
    if (!type || !strcmp(type, "none")) return true;
    if (!strcmp(type, "linear")) {
        rope->scaling = ROPE_LINEAR;
        note(r, "rope scaling", arena_printf(r->arena, "linear, factor %g", rope->factor), reason);
        return true;
    }
    if (strcmp(type, "yarn"))
        return fail(r->err, LATHE_UNSUPPORTED,
                    "rope scaling '%s' is unknown: lathe has none, linear and yarn", type);
    rope->scaling = ROPE_YARN;
    TRY(read_int(r, "rope.scaling.original_context_length", 1, CONTEXT_MAX, 0,
                 &rope->original_context));
    TRY(read_float(r, "rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32, &rope->beta_fast));
    TRY(read_float(r, "rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1, &rope->beta_slow));
    TRY(read_float(r, "rope.scaling.yarn_log_multiplier", 0, 10, 0, &multiplier));
    TRY(read_float(r, "rope.scaling.attn_factor", 1e-6, 1e6, 1, &attention));
    if (c->attention == ATTENTION_LATENT) {
        // These models use one multiplier for magnitude and scores: it cancels on cos and sin and is squared on q·k.
        double m = multiplier * log(rope->factor) + 1;
        c->score_scale *= m * m;
    } else {
        rope->magnitude = attention * (0.1 * log(rope->factor) + 1);
    }
    note(r, "rope scaling",
         arena_printf(r->arena,
                      "yarn, factor %g from %lld positions, ramp %g to %g, magnitude %g, "
                      "scores times %.6g",
                      rope->factor, (long long)rope->original_context, rope->beta_fast,
                      rope->beta_slow, rope->magnitude, c->score_scale),
         NULL);
    return true;
}

static bool read_rope(Reader *r) {
    ModelConfig *c = r->c;
    if (c->rope_dim > c->key_dim || c->rope_dim % 2)
        return fail(r->err, LATHE_BAD_FILE,
                    "the key '%s.rope.dimension_count' is %lld: it must be even and at most the "
                    "width of a head, %lld",
                    r->row->name, (long long)c->rope_dim, (long long)c->key_dim);
    RopeSpec rope = {
        .dim = c->rope_dim, .layout = r->row->rope_layout, .factor = 1, .magnitude = 1};
    double width = (double)c->key_dim;
    if (r->row->window_period && c->n_blocks == GEMMA3_27B_BLOCKS)
        width = (double)c->dim / (double)c->heads;
    c->score_scale = 1 / sqrt(width);
    TRY(read_float(r, "rope.freq_base", 1 + 1e-6, 1e15, 10000, &rope.base));
    c->rope_local = rope;
    if (r->row->window_period)
        TRY(read_float(r, "rope.freq_base_swa", 1 + 1e-6, 1e15, r->row->local_base,
                       &c->rope_local.base));
    note(r, "rope",
         arena_printf(r->arena, "%lld values, base %g, pairs %s", (long long)rope.dim, rope.base,
                      rope.layout == ROPE_HALVES ? "(i, i + half)" : "(2i, 2i + 1)"),
         NULL);
    if (c->window)
        note(r, "rope in local blocks",
             arena_printf(r->arena, "base %g, no scaling", c->rope_local.base),
             has_key(r, "rope.freq_base_swa") ? NULL : "the architecture's base");
    TRY(read_divisors(r, &rope));
    TRY(read_scaling(r, &rope));
    c->rope = rope;
    return true;
}

// ---------------------------------------------------------------- experts

// Converters before a certain date left the gating out. Models with a selection bias route by sigmoid; so does
// GLM-4.7-Flash, known by its size, in files that lack the bias.
static void infer_gating(Reader *r) {
    enum { GLM_FLASH_BLOCKS = 47, GLM_FLASH_VOCAB = 154880 };
    ModelConfig *c = r->c;
    bool has_bias = gguf_tensor(r->gguf,
                                arena_printf(r->arena, "blk.%d.exp_probs_b.bias", c->dense_lead));
    bool is_glm = c->attention == ATTENTION_LATENT && c->n_blocks == GLM_FLASH_BLOCKS &&
                  c->vocab == GLM_FLASH_VOCAB;
    const char *reason = has_bias
                             ? "the key is absent; the router has a selection bias (exp_probs_b)"
                         : is_glm
                             ? "the key is absent; 47 blocks and 154,880 tokens are GLM-4.7-Flash"
                             : "the key is absent; no selection bias";
    c->router.gating = has_bias || is_glm ? GATE_SIGMOID : GATE_SOFTMAX;
    note(r, "expert gating", c->router.gating == GATE_SIGMOID ? "sigmoid" : "softmax", reason);
}

static bool read_gating(Reader *r) {
    int64_t gating;
    TRY(read_int(r, "expert_gating_func", 0, 1000, 0, &gating));
    if (gating > GATE_SIGMOID)
        return fail(r->err, LATHE_UNSUPPORTED,
                    "the key '%s' is %lld: lathe has 1 (softmax) and 2 (sigmoid)",
                    key_of(r, "expert_gating_func"), (long long)gating);
    if (gating == GATE_NONE)
        infer_gating(r);
    else {
        r->c->router.gating = (Gating)gating;
        note(r, "expert gating", gating == GATE_SIGMOID ? "sigmoid" : "softmax", NULL);
    }
    return true;
}

static bool read_experts(Reader *r) {
    ModelConfig *c = r->c;
    Router *router = &c->router;
    int64_t lead;
    TRY(read_int(r, "expert_count", 0, COUNT_MAX, 0, &router->experts));
    if (!router->experts) return true;
    TRY(read_int(r, "expert_used_count", 1, router->experts, 0, &router->used));
    TRY(read_int(r, "expert_shared_count", 0, COUNT_MAX, 0, &c->shared_experts));
    TRY(read_int(r, "expert_feed_forward_length", 1, SIZE_MAX_ONE, c->ffn, &c->expert_ffn));
    TRY(read_int(r, "leading_dense_block_count", 0, c->n_blocks, 0, &lead));
    TRY(read_int(r, "expert_group_count", 0, router->experts, 0, &router->groups));
    if (router->groups < 1) router->groups = 1;
    TRY(read_int(r, "expert_group_used_count", 0, router->groups, router->groups,
                 &router->groups_used));
    if (router->groups_used < 1) router->groups_used = router->groups;
    if (router->experts % router->groups)
        return fail(r->err, LATHE_BAD_FILE, "%lld experts do not divide into %lld groups (%s)",
                    (long long)router->experts, (long long)router->groups,
                    key_of(r, "expert_group_count"));
    TRY(read_float(r, "expert_weights_scale", 0, 1e6, 1, &router->scale));
    if (router->scale == 0) router->scale = 1;
    c->dense_lead = (int)lead;
    router->is_normalised = r->row->traits & EXPERT_NORM;
    TRY(gguf_optional_bool(r->gguf, key_of(r, "expert_weights_norm"), &router->is_normalised, r->err));
    if (!has_key(r, "expert_weights_norm"))
        note(r, "expert weights", router->is_normalised ? "normalised" : "not normalised",
             "the architecture's rule");
    note(r, "experts",
         arena_printf(r->arena,
                      "%lld, %lld used, %lld shared, hidden %lld, in %lld of %lld groups, scale %g",
                      (long long)router->experts, (long long)router->used,
                      (long long)c->shared_experts, (long long)c->expert_ffn,
                      (long long)router->groups_used, (long long)router->groups, router->scale),
         NULL);
    return read_gating(r);
}

// ---------------------------------------------------------------- the whole

static bool find_row(Reader *r) {
    const char *name = read_text(r, "general.architecture");
    if (!name)
        return fail(r->err, LATHE_BAD_FILE,
                    "the key 'general.architecture' is missing: not a model?");
    for (size_t i = 0; i < sizeof arch_rows / sizeof *arch_rows; i++)
        if (!strcmp(arch_rows[i].name, name)) {
            r->row = &arch_rows[i];
            return true;
        }
    TextBuilder known = builder(r->arena);
    for (int i = 0; arch_names[i]; i++)
        builder_printf(&known, "%s%s", i ? ", " : "", arch_names[i]);
    return fail(r->err, LATHE_UNSUPPORTED,
                "the architecture '%.64s' is not supported; lathe has %s", name,
                builder_cstr(&known));
}

bool config_read(ModelConfig *config, Arena *arena, const Gguf *gguf, ModelFacts *facts,
                 Error *err) {
    *config = (ModelConfig){0};
    Reader r = {.gguf = gguf, .arena = arena, .facts = facts, .c = config, .err = err};
    TRY(find_row(&r));
    config->architecture = r.row->name;
    config->attention = r.row->attention;
    config->activation = r.row->activation;
    const char *title = read_text(&r, "general.name");
    config->title = title ? title : r.row->name;
    config->pre_tokenizer = read_text(&r, "tokenizer.ggml.pre");
    TRY(read_sizes(&r));
    note(&r, "size",
         arena_printf(arena, "%d blocks, width %lld, vocabulary %lld, context %lld",
                      config->n_blocks, (long long)config->dim, (long long)config->vocab,
                      (long long)config->context),
         NULL);
    TRY(config->attention == ATTENTION_LATENT ? read_latent(&r) : read_grouped(&r));
    TRY(read_window(&r));
    TRY(read_rope(&r));
    TRY(read_experts(&r));
    if (config->logit_cap != 0) note(&r, "logit cap", number_text(&r, config->logit_cap), NULL);
    if (config->score_cap != 0) note(&r, "score cap", number_text(&r, config->score_cap), NULL);
    if (config->pre_tokenizer) note(&r, "pre-tokenizer", config->pre_tokenizer, NULL);
    return true;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

KvShape config_keys(const ModelConfig *c) {
    if (c->attention == ATTENTION_LATENT)
        return (KvShape){c->kv_lora + c->rope_dim, common_divisor(c->kv_lora, c->rope_dim)};
    return (KvShape){c->kv_heads * c->key_dim, c->key_dim};
}

KvShape config_values(const ModelConfig *c) {
    if (c->attention == ATTENTION_LATENT) return (KvShape){0, c->kv_lora};
    return (KvShape){c->kv_heads * c->value_dim, c->value_dim};
}

int64_t config_cache_bytes(const ModelConfig *c, const KvFormat *format) {
    return c->n_blocks * (kv_row_bytes(format, config_keys(c)) + kv_row_bytes(format, config_values(c)));
}

bool config_block_is_dense(const ModelConfig *c, int block) {
    return c->router.gating == GATE_NONE || block < c->dense_lead;
}

int64_t config_block_window(const ModelConfig *c, int block) {
    return c->is_local[block] ? c->window : 0;
}

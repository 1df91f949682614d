// test_model: whole models against the committed goldens, through the reference interpreter: the graphs that nn and
// models build are right before any compiler sees them. Also: configs, what is inferred, refusals of bad files.
// Models are made by tools/make_model.py; where Python or its packages are missing those tests are skipped by name.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <jansson.h>

#include "base/os.h"
#include "models/model.h"
#include "models/plan.h"
#include "unit/bare_host.h"
#include "unit/gguf_writer.h"
#include "unit/model_files.h"

#undef fail // cmocka has its own
#include <cmocka.h>

// ---------------------------------------------------------------- models and goldens

static double number_at(json_t *golden, const char *key, size_t i) {
    return json_number_value(json_array_get(json_object_get(golden, key), i));
}

typedef struct Bench {
    Arena *arena;
    Gguf gguf;
    ModelPlan *plan;
    BareHost *host;
    BufferHost calls;
    json_t *golden;
} Bench;

static bool bench_open(Bench *b, const char *shape, const char *quant, const PlanOptions *options) {
    Error err = {0};
    json_error_t at;
    *b = (Bench){.arena = arena_create(), .host = calloc(1, sizeof *b->host)};
    const char *path = model_file(b->arena, shape, quant);
    if (!path) return false;
    b->calls = bare_buffer_host(b->host);
    if (!gguf_open(&b->gguf, path, &err)) fail_msg("%s", err.text);
    if (!plan_create(&b->plan, b->arena, &b->gguf, options, &b->calls, &err))
        fail_msg("%s", err.text);
    b->golden = json_load_file(arena_printf(b->arena, "tests/golden/%s-%s.json", shape, quant), 0,
                               &at);
    return true;
}

static void bench_close(Bench *b) {
    json_decref(b->golden);
    if (b->gguf.arena) gguf_close(&b->gguf);
    bare_free(b->host);
    arena_destroy(b->arena);
}

// Rows of one step: n tokens from position on, of slot 0. The values live on the given arena: logits of the last row,
// and behind them (with_hidden) its residual stream after each block.
static const Number *bench_run(Bench *b, Arena *arena, const int32_t *tokens, int n, int position,
                               bool with_hidden) {
    Graph *g = graph_create(arena);
    TransformerGraph out;
    Error err = {0};
    int64_t count;
    int32_t positions[MODEL_ROWS_MAX], sequences[MODEL_ROWS_MAX] = {0};
    for (int i = 0; i < n; i++) positions[i] = position + i;
    const RowBuffers *rows = n <= MODEL_ROWS_MIXED ? &b->plan->step_rows : &b->plan->prompt_rows;
    bare_write(b->host, rows->token, 0, tokens, (size_t)n * 4);
    bare_write(b->host, rows->position, 0, positions, (size_t)n * 4);
    bare_write(b->host, rows->sequence, 0, sequences, (size_t)n * 4);
    transformer_build(g, b->plan, n, &out);
    Tensor all = tensor_slice(out.logits, 0, n - 1, n);
    for (int i = 0; with_hidden && i < b->plan->config->n_blocks; i++)
        all = tensor_concat(all, tensor_slice(out.hidden[i], 0, n - 1, n), 1);
    const Number *v = bare_value(b->host, arena, all, &count, &err);
    if (!v) fail_msg("%s", err.text);
    return v;
}

static double worst_difference(const Number *got, json_t *want, double *largest) {
    double worst = 0;
    *largest = 0;
    for (size_t i = 0; i < json_array_size(want); i++) {
        double w = json_number_value(json_array_get(want, i));
        worst = fmax(worst, fabs(got[i].f - w));
        if (isnan(got[i].f)) worst = INFINITY;
        *largest = fmax(*largest, fabs(w));
    }
    return worst;
}

static void check_row(const char *what, const Number *got, json_t *want) {
    double largest, worst = worst_difference(got, want, &largest);
    assert_true(json_array_size(want) > 0);
    if (worst > 1e-4 * largest) fail_msg("%s: off by %g of %g", what, worst, largest);
}

static int best_of(const Number *logits, int64_t n) {
    int best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i].f > logits[best].f) best = (int)i;
    return best;
}

// ---------------------------------------------------------------- goldens

static int read_prompt(Bench *b, int32_t prompt[MODEL_ROWS_MAX]) {
    int n = (int)json_array_size(json_object_get(b->golden, "prompt"));
    assert_in_range(n, 1, MODEL_ROWS_MAX);
    for (int i = 0; i < n; i++) prompt[i] = (int32_t)number_at(b->golden, "prompt", (size_t)i);
    return n;
}

static bool bench_or_skip(Bench *b, const char *shape, const char *quant, bool is_exact) {
    if (bench_open(b, shape, quant,
                   &(PlanOptions){.is_exact = is_exact, .context = 64, .slots = 1}))
        return true;
    bench_close(b);
    skip();
    return false;
}

// Prompt in one step, then greedy decoding row by row: prefill and decode must meet the same numbers.
static void check_golden(const char *shape, const char *quant, bool with_greedy) {
    Bench b;
    int32_t prompt[MODEL_ROWS_MAX];
    if (!bench_or_skip(&b, shape, quant, true)) return;
    const ModelConfig *c = b.plan->config;
    int n = read_prompt(&b, prompt);
    Arena *arena = arena_create();
    const Number *row = bench_run(&b, arena, prompt, n, 0, true);
    check_row("last logits", row, json_object_get(b.golden, "exact_last_logits"));
    for (int i = 0; i < c->n_blocks; i++)
        check_row("hidden", row + c->vocab + i * c->dim,
                  json_array_get(json_object_get(b.golden, "exact_hidden_last"), (size_t)i));
    int32_t next = best_of(row, c->vocab);
    assert_int_equal(next, (int)number_at(b.golden, "greedy", 0));
    for (size_t i = 0; with_greedy && i < json_array_size(json_object_get(b.golden, "greedy"));
         i++) {
        assert_int_equal(next, (int)number_at(b.golden, "greedy", i));
        arena_reset(arena);
        row = bench_run(&b, arena, &next, 1, n + (int)i, false);
        next = best_of(row, c->vocab);
    }
    if (with_greedy)
        check_row("after greedy", row, json_object_get(b.golden, "exact_after_greedy_logits"));
    arena_destroy(arena);
    bench_close(&b);
}

#define GOLDEN(name, shape, quant, with_greedy) \
    static void name(void **state) { \
        (void)state; \
        check_golden(shape, quant, with_greedy); \
    }
GOLDEN(golden_llama_f32, "tiny-llama", "f32", true)
GOLDEN(golden_glm_f32, "tiny-glm", "f32", true)
GOLDEN(golden_dsv2_f32, "tiny-dsv2", "f32", false)
GOLDEN(golden_youtu_f32, "tiny-youtu", "f32", false)
GOLDEN(golden_qwen3moe_f32, "tiny-qwen3moe", "f32", false)
GOLDEN(golden_qwen2_f32, "tiny-qwen2", "f32", false)
GOLDEN(golden_qwen3_f32, "tiny-qwen3", "f32", false)
GOLDEN(golden_gemma3_f32, "tiny-gemma3", "f32", false)
GOLDEN(golden_group_f32, "tiny-group", "f32", false)
GOLDEN(golden_glm_q4_0, "tiny-glm", "q4_0", false)
GOLDEN(golden_llama_q4_k, "tiny-llama", "q4_k", false)
GOLDEN(golden_dsv2_q2_k, "tiny-dsv2", "q2_k", false)
GOLDEN(golden_qwen3moe_mxfp4, "tiny-qwen3moe", "mxfp4", false)

// Rounded activations move logits, but no further from the exact ones than twice what llama.cpp's rounding does.
static void check_fast(const char *shape, const char *quant) {
    Bench b;
    int32_t prompt[MODEL_ROWS_MAX];
    if (!bench_or_skip(&b, shape, quant, false)) return;
    int n = read_prompt(&b, prompt);
    Arena *arena = arena_create();
    const Number *row = bench_run(&b, arena, prompt, n, 0, false);
    double ours = 0, theirs = 0;
    int64_t vocab = b.plan->config->vocab;
    for (int64_t i = 0; i < vocab; i++) {
        double exact = number_at(b.golden, "exact_last_logits", (size_t)i);
        ours += pow(row[i].f - exact, 2);
        theirs += pow(number_at(b.golden, "last_logits", (size_t)i) - exact, 2);
    }
    if (!(ours > 0 && sqrt(ours) <= 2 * sqrt(theirs)))
        fail_msg("%s-%s: rms %g, llama.cpp %g", shape, quant, sqrt(ours / (double)vocab),
                 sqrt(theirs / (double)vocab));
    arena_destroy(arena);
    bench_close(&b);
}

static void fast_llama_q4_0(void **state) {
    (void)state;
    check_fast("tiny-llama", "q4_0");
}
static void fast_glm_q8_0(void **state) {
    (void)state;
    check_fast("tiny-glm", "q8_0");
}
static void fast_youtu_q6_k(void **state) {
    (void)state;
    check_fast("tiny-youtu", "q6_k");
}

// Rows of several sequences and padding in one step, pages shared by nobody: each row as if it were alone.
static void sequences_do_not_mix(void **state) {
    (void)state;
    Bench b;
    Error err = {0};
    if (!bench_open(&b, "tiny-llama", "f32",
                    &(PlanOptions){.is_exact = true, .context = 70, .slots = 3})) {
        bench_close(&b);
        skip();
    }
    int64_t vocab = b.plan->config->vocab, count;
    const int32_t a[5] = {5, 9, 300, 77, 12}, z[3] = {600, 2, 41};
    const int32_t mixed[8] = {600, 5, 9, 2, 300, 0, 77, 41}, at[8] = {0, 0, 1, 1, 2, 7, 3, 2},
                  of[8] = {2, 0, 0, 2, 0, 3, 0, 2};
    Arena *arena = arena_create(), *other = arena_create();
    const Number *alone_a = bench_run(&b, arena, a, 4, 0, false),
                 *alone_z = bench_run(&b, arena, z, 3, 0, false);
    Graph *g = graph_create(other);
    TransformerGraph out;
    bare_write(b.host, b.plan->step_rows.token, 0, mixed, sizeof mixed);
    bare_write(b.host, b.plan->step_rows.position, 0, at, sizeof at);
    bare_write(b.host, b.plan->step_rows.sequence, 0, of, sizeof of);
    transformer_build(g, b.plan, 8, &out);
    const Number *all = bare_value(b.host, other, out.logits, &count, &err);
    if (!all) fail_msg("%s", err.text);
    for (int64_t i = 0; i < vocab; i++) {
        assert_true(fabs(all[6 * vocab + i].f - alone_a[i].f) < 1e-6);
        assert_true(fabs(all[7 * vocab + i].f - alone_z[i].f) < 1e-6);
    }
    arena_destroy(arena);
    arena_destroy(other);
    bench_close(&b);
}

// ---------------------------------------------------------------- configs

typedef struct Opened {
    Gguf gguf;
    uint8_t *bytes;
    Arena *arena;
    ModelConfig config;
    ModelFacts facts;
    Error err;
    bool is_read;
} Opened;

static void open_written(Opened *o, GgufWriter *w) {
    size_t nbytes;
    *o = (Opened){.arena = arena_create()};
    o->bytes = writer_finish(w, &nbytes);
    o->facts.arena = o->arena;
    if (!gguf_open_memory(&o->gguf, "written", o->bytes, nbytes, &o->err))
        fail_msg("%s", o->err.text);
    o->is_read = config_read(&o->config, o->arena, &o->gguf, &o->facts, &o->err);
}

static void close_written(Opened *o) {
    gguf_close(&o->gguf);
    arena_destroy(o->arena);
    free(o->bytes);
}

static const ModelFact *fact_of(const Opened *o, const char *name) {
    for (size_t i = 0; i < o->facts.len; i++)
        if (!strcmp(o->facts.at[i].name, name)) return &o->facts.at[i];
    return NULL;
}

// A latent model's metadata; blocks and vocabulary as given.
static GgufWriter write_latent(uint32_t blocks, uint64_t vocab) {
    GgufWriter w = writer_new();
    const struct {
        const char *key;
        uint32_t value;
    } rows[] = {
        {"deepseek2.context_length", 4096},          {"deepseek2.embedding_length", 8},
        {"deepseek2.feed_forward_length", 16},       {"deepseek2.attention.head_count", 4},
        {"deepseek2.attention.kv_lora_rank", 512},   {"deepseek2.rope.dimension_count", 64},
        {"deepseek2.attention.key_length", 576},     {"deepseek2.attention.value_length", 512},
        {"deepseek2.attention.key_length_mla", 192}, {"deepseek2.attention.value_length_mla", 128},
    };
    writer_string(&w, "general.architecture", "deepseek2");
    writer_u32(&w, "deepseek2.block_count", blocks);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        writer_u32(&w, rows[i].key, rows[i].value);
    writer_tensor(&w, "token_embd.weight", 0, 8, vocab, 1, NULL);
    return w;
}

static GgufWriter write_experts(uint32_t blocks, uint64_t vocab) {
    GgufWriter w = write_latent(blocks, vocab);
    writer_u32(&w, "deepseek2.expert_count", 64);
    writer_u32(&w, "deepseek2.expert_used_count", 4);
    writer_u32(&w, "deepseek2.leading_dense_block_count", 1);
    return w;
}

// Files without expert_gating_func: which gating is taken and why.
static void gating_is_inferred(void **state) {
    (void)state;
    Opened o;
    GgufWriter w = write_experts(47, 154880);
    open_written(&o, &w);
    assert_true(o.is_read);
    assert_int_equal(o.config.router.gating, GATE_SIGMOID);
    assert_non_null(strstr(fact_of(&o, "expert gating")->reason, "GLM-4.7-Flash"));
    assert_int_equal(config_cache_bytes(&o.config, kv_format_find("f16")), 54144);
    assert_int_equal(config_cache_bytes(&o.config, kv_format_find("f32")), 2 * 54144);
    assert_int_equal(config_cache_bytes(&o.config, kv_format_find("q8_0")), 54144 / 2 + 47 * 2 * (512 + 64) / 32);
    close_written(&o);

    w = write_experts(27, 102400);
    open_written(&o, &w);
    assert_int_equal(o.config.router.gating, GATE_SOFTMAX);
    assert_int_equal(o.config.router.groups, 1);
    assert_non_null(fact_of(&o, "expert gating")->reason);
    assert_true(gguf_override(&o.gguf, "deepseek2.expert_gating_func=int:2",
                              &o.err)); // the user knows better
    assert_true(config_read(&o.config, o.arena, &o.gguf, NULL, &o.err));
    assert_int_equal(o.config.router.gating, GATE_SIGMOID);
    assert_true(gguf_override(&o.gguf, "deepseek2.expert_gating_func=int:3", &o.err));
    assert_false(config_read(&o.config, o.arena, &o.gguf, NULL, &o.err));
    assert_non_null(strstr(o.err.text, "expert_gating_func"));
    close_written(&o);

    w = write_experts(27, 102400);
    writer_tensor(&w, "blk.1.exp_probs_b.bias", 0, 64, 1, 1, NULL);
    writer_u32(&w, "deepseek2.expert_group_count", 0);
    open_written(&o, &w);
    assert_int_equal(o.config.router.gating, GATE_SIGMOID);
    assert_non_null(strstr(fact_of(&o, "expert gating")->reason, "exp_probs_b"));
    assert_int_equal(o.config.router.groups, 1); // 0 groups: none
    close_written(&o);
}

// A dense model of the family has no expert keys at all.
static void dense_latent_model(void **state) {
    (void)state;
    Opened o;
    GgufWriter w = write_latent(32, 100);
    open_written(&o, &w);
    if (!o.is_read) fail_msg("%s", o.err.text);
    assert_int_equal(o.config.router.gating, GATE_NONE);
    assert_int_equal(o.config.q_lora, 0);
    for (int i = 0; i < 32; i++) assert_true(config_block_is_dense(&o.config, i));
    close_written(&o);
}

// DeepSeek-V2-Lite: nothing on cos and sin, the square of the multiplier on scores.
static void yarn_numbers(void **state) {
    (void)state;
    Opened o;
    GgufWriter w = write_latent(27, 100);
    writer_string(&w, "deepseek2.rope.scaling.type", "yarn");
    writer_f32(&w, "deepseek2.rope.scaling.factor", 40);
    writer_u32(&w, "deepseek2.rope.scaling.original_context_length", 4096);
    writer_f32(&w, "deepseek2.rope.scaling.yarn_log_multiplier", 0.0707f);
    open_written(&o, &w);
    if (!o.is_read) fail_msg("%s", o.err.text);
    assert_true(o.config.rope.magnitude == 1);
    assert_true(fabs(o.config.score_scale - 0.11472) < 5e-6);
    assert_int_equal(o.config.rope.scaling, ROPE_YARN);
    assert_non_null(strstr(fact_of(&o, "rope scaling")->value, "0.11472"));
    assert_true(gguf_override(&o.gguf, "deepseek2.rope.scaling.type=str:longrope", &o.err));
    assert_false(config_read(&o.config, o.arena, &o.gguf, NULL, &o.err));
    assert_non_null(strstr(o.err.text, "longrope"));
    close_written(&o);
}

// Files of the first generation state a head's widths where later ones state the latent's.
static void latent_generations(void **state) {
    (void)state;
    Opened o;
    GgufWriter w = writer_new();
    const struct {
        const char *key;
        uint32_t value;
    } rows[] = {
        {"deepseek2.block_count", 2},
        {"deepseek2.context_length", 64},
        {"deepseek2.embedding_length", 8},
        {"deepseek2.feed_forward_length", 16},
        {"deepseek2.attention.head_count", 4},
        {"deepseek2.attention.head_count_kv", 4},
        {"deepseek2.attention.kv_lora_rank", 16},
        {"deepseek2.rope.dimension_count", 4},
        {"deepseek2.attention.key_length", 12},
        {"deepseek2.attention.value_length", 6},
    };
    writer_string(&w, "general.architecture", "deepseek2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        writer_u32(&w, rows[i].key, rows[i].value);
    writer_tensor(&w, "token_embd.weight", 0, 8, 10, 1, NULL);
    for (int b = 0; b < 2; b++) {
        char name[64];
        const struct {
            const char *name;
            uint64_t ne0, ne1;
        } tensors[] = {
            {"attn_norm", 8, 1},      {"ffn_norm", 8, 1},        {"attn_q", 8, 48},
            {"attn_kv_a_mqa", 8, 20}, {"attn_kv_a_norm", 16, 1}, {"attn_k_b", 8, 64},
            {"attn_v_b", 16, 24},     {"attn_output", 24, 8},    {"ffn_gate", 8, 16},
            {"ffn_up", 8, 16},        {"ffn_down", 16, 8},
        };
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", b, tensors[i].name);
            bool is_old = b == 1 && !strcmp(tensors[i].name, "attn_k_b");
            if (is_old) snprintf(name, sizeof name, "blk.1.attn_kv_b.weight");
            writer_tensor(&w, name, 0, tensors[i].ne0, tensors[i].ne1, 1, NULL);
        }
    }
    writer_tensor(&w, "output_norm.weight", 0, 8, 1, 1, NULL);
    open_written(&o, &w);
    if (!o.is_read) fail_msg("%s", o.err.text);
    assert_int_equal(o.config.key_dim, 12);
    assert_int_equal(o.config.nope_dim, 8);
    assert_int_equal(o.config.value_dim, 6);
    Weights weights;
    // Block 0 has the joined 2-D form and passes; block 1 has only attn_kv_b.
    assert_false(weights_find(&weights, o.arena, &o.config, &o.gguf, &o.err));
    assert_non_null(strstr(o.err.text, "blk.1.attn_k_b.weight"));
    assert_non_null(strstr(o.err.text, "attn_kv_b"));
    assert_int_equal(weights.blocks[0].k_b.count, 4);
    assert_int_equal(weights.blocks[0].k_b.rows, 16);
    close_written(&o);
}

static void refusals_name_the_cause(void **state) {
    (void)state;
    const struct {
        const char *override, *word;
    } rows[] = {
        {"deepseek2.block_count=int:0", "block_count"},
        {"deepseek2.block_count=int:100000", "block_count"},
        {"deepseek2.rope.dimension_count=int:63", "rope.dimension_count"},
        {"deepseek2.rope.dimension_count=int:192", "192"},
        {"deepseek2.expert_used_count=int:65", "expert_used_count"},
        {"deepseek2.expert_group_count=int:7", "expert_group_count"},
        {"deepseek2.embedding_length=int:-1", "embedding_length"},
        {"deepseek2.rope.freq_base=float:0", "freq_base"},
        {"deepseek2.rope.scaling.type=str:dynamic", "dynamic"},
        {"general.architecture=str:rwkv7", "deepseek2, llama"},
        {"deepseek2.attention.kv_lora_rank=str:many", "kv_lora_rank"},
        {"deepseek2.expert_weights_norm=str:yes", "expert_weights_norm' is not true or false"},
        {"deepseek2.expert_weights_norm=int:2", "expert_weights_norm' is not true or false"},
        {"deepseek2.rope.scaling.type=int:1", "rope.scaling.type' is not a text"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Opened o;
        GgufWriter w = write_experts(27, 100);
        open_written(&o, &w);
        assert_true(o.is_read);
        if (!gguf_override(&o.gguf, rows[i].override, &o.err)) fail_msg("%s", o.err.text);
        if (config_read(&o.config, o.arena, &o.gguf, NULL, &o.err))
            fail_msg("%s was taken", rows[i].override);
        if (!strstr(o.err.text, rows[i].word)) fail_msg("%s: %s", rows[i].override, o.err.text);
        close_written(&o);
    }
    Opened o;
    GgufWriter w = write_experts(2, 100);
    open_written(&o, &w);
    Weights weights;
    assert_false(weights_find(&weights, o.arena, &o.config, &o.gguf, &o.err));
    assert_non_null(strstr(o.err.text, "output_norm.weight"));
    close_written(&o);
}

static void cache_formats_fit_heads(void **state) {
    (void)state;
    Arena *arena = arena_create();
    Error err = {0};
    const KvFormat *format;
    ModelConfig c = {.attention = ATTENTION_GROUPED, .n_blocks = 3, .kv_heads = 2, .key_dim = 80, .value_dim = 24};
    assert_true(plan_cache_format(&format, arena, &c, NULL, true, &err));
    assert_string_equal(format->name, "f32");
    assert_true(plan_cache_format(&format, arena, &c, "", false, &err));
    assert_string_equal(format->name, "f16");
    assert_true(plan_cache_format(&format, arena, &c, "q8_0", false, &err));
    assert_int_equal(config_cache_bytes(&c, format), 3 * 2 * (80 + 2 * 80 / 16 + 24 + 2 * 24 / 8));
    c.value_dim = 6; // blocks of 2: no smaller than f16
    assert_false(plan_cache_format(&format, arena, &c, "q8_0", false, &err));
    assert_int_equal(err.code, LATHE_BAD_REQUEST);
    assert_non_null(strstr(err.text, "6 values"));
    assert_non_null(strstr(err.text, "--cache-type f16"));
    arena_destroy(arena);
}

// ---------------------------------------------------------------- reports

static void report_of_a_good_file(void **state) {
    (void)state;
    Arena *arena = arena_create();
    const char *path = model_file(arena, "tiny-glm", "q4_0");
    if (!path) {
        arena_destroy(arena);
        skip();
    }
    Gguf g;
    Error err = {0};
    ModelReport r;
    assert_true(gguf_open(&g, path, &err));
    assert_true(model_inspect(arena, &g, NULL, true, &r, &err));
    assert_int_equal(r.verdict, VERDICT_OK);
    assert_string_equal(r.architecture, "deepseek2");
    assert_int_equal(r.cache_bytes_per_token, 2 * (128 + 32) * 2);
    assert_int_equal(r.bytes_per_token, 884896); // what make_model.py states for this file
    assert_int_equal(r.errors.len + r.warnings.len + r.inferred.len, 0);
    gguf_close(&g);
    arena_destroy(arena);
}

static void report_of_a_bad_file(void **state) {
    (void)state;
    Opened o;
    const uint32_t nan_bits[8] = {0, 0, 0x7FC00000};
    GgufWriter w = write_experts(27, 100);
    writer_tensor(&w, "output_norm.weight", 0, 8, 1, 1, nan_bits);
    writer_tensor(&w, "stray.weight", 0, 8, 1, 1, NULL);
    open_written(&o, &w);
    ModelReport r;
    assert_true(model_inspect(o.arena, &o.gguf, NULL, true, &r, &o.err));
    assert_int_equal(r.verdict, VERDICT_REFUSE);
    assert_int_equal(r.errors.len, 2);
    assert_non_null(strstr(r.errors.at[0], "missing"));
    assert_non_null(strstr(r.errors.at[1], "output_norm.weight"));
    assert_int_equal(r.inferred.len, 3); // norm epsilon, gating, normalisation
    close_written(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_llama_f32),      cmocka_unit_test(golden_glm_f32),
        cmocka_unit_test(golden_dsv2_f32),       cmocka_unit_test(golden_youtu_f32),
        cmocka_unit_test(golden_qwen3moe_f32),   cmocka_unit_test(golden_qwen2_f32),
        cmocka_unit_test(golden_qwen3_f32),      cmocka_unit_test(golden_gemma3_f32),
        cmocka_unit_test(golden_group_f32),      cmocka_unit_test(golden_glm_q4_0),
        cmocka_unit_test(golden_llama_q4_k),     cmocka_unit_test(golden_dsv2_q2_k),
        cmocka_unit_test(golden_qwen3moe_mxfp4), cmocka_unit_test(fast_llama_q4_0),
        cmocka_unit_test(fast_glm_q8_0),         cmocka_unit_test(fast_youtu_q6_k),
        cmocka_unit_test(sequences_do_not_mix),  cmocka_unit_test(gating_is_inferred),
        cmocka_unit_test(dense_latent_model),    cmocka_unit_test(yarn_numbers),
        cmocka_unit_test(latent_generations),    cmocka_unit_test(refusals_name_the_cause),
        cmocka_unit_test(cache_formats_fit_heads),
        cmocka_unit_test(report_of_a_good_file), cmocka_unit_test(report_of_a_bad_file),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}

// transformer: see transformer.h.
#include "models/transformer.h"

#include "nn/attention.h"

// One graph under construction.
typedef struct Build {
    const ModelPlan *plan;
    const ModelConfig *c;
    Layers layers;
    KvRows rows;                                               // of the step
    int n;                                                     // rows of the step
    Tensor cos_rows, sin_rows, local_cos_rows, local_sin_rows; // [n, rope_dim / 2]
    TransformerGraph *out;
} Build;

static Tensor add_bias(Build *b, Tensor x, const Weight *bias) {
    return bias->type ? tensor_add(x, layers_vector(&b->layers, bias)) : x;
}

static Tensor norm(Build *b, Tensor x, const Weight *w) {
    return w->type ? layers_norm(x, layers_vector(&b->layers, w), b->c->norm_eps) : x;
}

static Input normed(Build *b, Tensor x, const Weight *w) {
    return input_normed(x, layers_vector(&b->layers, w), b->c->norm_eps);
}

static Tensor linear(Build *b, Input in, const Weight *w) {
    return layers_linear(&b->layers, in, w);
}

// x: [n, heads, width]
static Tensor turn(Build *b, Tensor x, int block) {
    bool is_local = config_block_window(b->c, block) > 0;
    return rope_apply(x, is_local ? b->local_cos_rows : b->cos_rows,
                      is_local ? b->local_sin_rows : b->sin_rows, b->c->rope.layout);
}

// Stores value [n, width] in a block's cache and gives back the pages in view, [n, pages, KV_PAGE, heads, width / heads].
static Tensor through_cache(Build *b, const CacheBuffers *buffers, KvShape shape, Tensor value,
                            const KvView *view, int64_t heads) {
    const ModelPlan *p = b->plan;
    KvCache cache = kv_cache(b->layers.graph, p->cache_format, shape, heads, buffers->plane,
                             p->slots * p->pages_per_slot + 1);
    cache = kv_write(cache, &b->rows, value);
    for (int i = 0; i < cache.format->n_planes; i++)
        b->out->cached[b->out->n_cached++] = cache.plane[i];
    return kv_read(&cache, view);
}

// ---------------------------------------------------------------- attention

static Tensor grouped_attention(Build *b, Input x, int block) {
    const ModelConfig *c = b->c;
    const BlockWeights *w = &b->plan->weights.blocks[block];
    int64_t n = b->n, share = c->heads / c->kv_heads;
    KvView view = kv_view(&b->rows, config_block_window(c, block));
    Tensor q = tensor_reshape(add_bias(b, linear(b, x, &w->q), &w->q_bias),
                              dims(n, c->heads, c->key_dim));
    Tensor k = tensor_reshape(add_bias(b, linear(b, x, &w->k), &w->k_bias),
                              dims(n, c->kv_heads, c->key_dim));
    Tensor v = add_bias(b, linear(b, x, &w->v), &w->v_bias); // [n, kv heads · value_dim]
    q = turn(b, norm(b, q, &w->q_norm), block);
    k = turn(b, norm(b, k, &w->k_norm), block);
    q = tensor_reshape(tensor_mul_const(q, c->score_scale),
                       dims(n, c->kv_heads, share, c->key_dim));
    Tensor keys = through_cache(b, &b->plan->keys[block], config_keys(c),
                                tensor_reshape(k, dims(n, -1)), &view, c->kv_heads);
    Tensor values = through_cache(b, &b->plan->values[block], config_values(c), v, &view, c->kv_heads);
    Tensor y = attention(q, keys, values, &view, c->score_cap);
    y = linear(b, input_of(tensor_reshape(y, dims(n, c->heads * c->value_dim))), &w->attn_output);
    return add_bias(b, y, &w->output_bias);
}

// Rows of a weight that heads share out among parts, each with a way of its own. For few rows of tokens each part is a product by
// itself, so that what rounds it or turns it shares its tiles; many fill a device better as one product.
typedef struct Parted { Input in; const Weight *weight; int64_t heads; Tensor whole; } Parted;

static Parted parted(Build *b, Input in, const Weight *w, int64_t heads) {
    Parted p = {.in = in, .weight = w, .heads = heads};
    if (b->n > MODEL_ROWS_MIXED) p.whole = tensor_reshape(linear(b, in, w), dims(b->n, heads, w->rows / heads));
    return p;
}

// [n, heads, end − first]
static Tensor part(Build *b, const Parted *p, int64_t first, int64_t end) {
    return p->whole ? tensor_slice(p->whole, 2, first, end) : layers_linear_part(&b->layers, p->in, p->weight, p->heads, first, end);
}

// Absorbed: the plain part of a query is carried into the latent space by k_b, so that one latent head of
// kv_lora + rope values serves as key, and its first kv_lora values as value, for all query heads.
static Tensor latent_attention(Build *b, Input x, int block) {
    const ModelConfig *c = b->c;
    const BlockWeights *w = &b->plan->weights.blocks[block];
    int64_t n = b->n, width = c->kv_lora + c->rope_dim;
    KvView view = kv_view(&b->rows, config_block_window(c, block));
    Parted q_rows = w->q_a.type ? parted(b, normed(b, linear(b, x, &w->q_a), &w->q_a_norm), &w->q_b, c->heads)
                                : parted(b, x, &w->q, c->heads);
    Tensor q_plain = part(b, &q_rows, 0, c->nope_dim), q_turned = part(b, &q_rows, c->nope_dim, c->key_dim);
    Tensor plain = layers_heads(&b->layers, input_of(q_plain), &w->k_b); // [n, heads, kv_lora]
    Tensor turned = turn(b, q_turned, block);                           // [n, heads, rope_dim]
    Tensor q = tensor_mul_const(tensor_concat(plain, turned, 2), c->score_scale);
    Parted kv = parted(b, x, &w->kv_a, 1);
    Tensor kv_plain = part(b, &kv, 0, c->kv_lora), kv_turned = part(b, &kv, c->kv_lora, width); // [n, 1, …]
    Tensor latent = norm(b, tensor_reshape(kv_plain, dims(n, c->kv_lora)), &w->kv_a_norm);
    Tensor k_turned = turn(b, kv_turned, block);
    Tensor own = tensor_concat(latent, tensor_reshape(k_turned, dims(n, c->rope_dim)), 1);
    Tensor keys = through_cache(b, &b->plan->keys[block], config_keys(c), own, &view, 1); // [n, pages, KV_PAGE, 1, width]
    Tensor values = tensor_slice(keys, 4, 0, c->kv_lora);
    Tensor y = attention(tensor_unsqueeze(q, 1), keys, values, &view,
                         c->score_cap); // [n, 1, heads, kv_lora]
    y = layers_heads(&b->layers, input_of(tensor_reshape(y, dims(n, c->heads, c->kv_lora))),
                     &w->v_b);
    return linear(b, input_of(tensor_reshape(y, dims(n, c->heads * c->value_dim))),
                  &w->attn_output);
}

// ---------------------------------------------------------------- feed-forward

static Tensor dense(Build *b, Input x, const Weight *gate, const Weight *up, const Weight *down) {
    Tensor hidden = tensor_mul(layers_activate(linear(b, x, gate), b->c->activation),
                               linear(b, x, up));
    return linear(b, input_of(hidden), down);
}

static Tensor mixture(Build *b, Input x, const BlockWeights *w) {
    Tensor bias = w->router_bias.type ? layers_vector(&b->layers, &w->router_bias) : NULL;
    Routing routing = experts_route(&b->c->router, linear(b, x, &w->router), bias);
    ExpertWeights experts = {w->gate_exps, w->up_exps, w->down_exps};
    Tensor y = experts_mix(&b->layers, x, &routing, &experts, b->c->activation);
    if (!w->gate_shared.type) return y;
    return tensor_add(y, dense(b, x, &w->gate_shared, &w->up_shared, &w->down_shared));
}

static Tensor block_forward(Build *b, Tensor x, int block) {
    const BlockWeights *w = &b->plan->weights.blocks[block];
    Input in = normed(b, x, &w->attn_norm);
    Tensor y = b->c->attention == ATTENTION_LATENT ? latent_attention(b, in, block)
                                                   : grouped_attention(b, in, block);
    x = tensor_add(x, norm(b, y, &w->attn_post));
    in = normed(b, x, &w->ffn_norm);
    y = config_block_is_dense(b->c, block) ? dense(b, in, &w->gate, &w->up, &w->down)
                                           : mixture(b, in, w);
    return tensor_add(x, norm(b, y, &w->ffn_post));
}

// ---------------------------------------------------------------- the whole

static Tensor row_input(Build *b, int64_t buffer, int64_t highest) {
    return tensor_buffer(b->layers.graph, buffer, DT_I32, 0, highest, dims(b->n));
}

static Tensor angle_rows(Build *b, int64_t buffer) {
    Tensor table = tensor_buffer(b->layers.graph, buffer, DT_F32, 0, 0,
                                 dims(b->plan->context, b->c->rope_dim / 2));
    return tensor_gather(table, b->rows.position);
}

static Tensor embedded(Build *b, Tensor token) {
    Tensor x = layers_embedding(&b->layers, &b->plan->weights.token_embd, token);
    if (b->c->embedding_scale != 1) x = tensor_mul_const(x, b->c->embedding_scale);
    return tensor_contiguous(x); // else every reader unpacks it anew
}

static Tensor hidden_input(Build *b) {
    Tensor all = tensor_buffer(b->layers.graph, b->plan->hidden_in, DT_F32, 0, 0, dims(MODEL_ROWS_MAX, b->c->dim));
    return tensor_slice(all, 0, 0, b->n);
}

void transformer_build(Graph *graph, const ModelPlan *plan, int n, TransformerGraph *out) {
    const ModelConfig *c = plan->config;
    Arena *arena = graph_arena(graph);
    Build b = {.plan = plan,
               .c = c,
               .n = n,
               .out = out,
               .layers = {.graph = graph, .is_exact = plan->is_exact, .tables = plan->tables}};
    out->n_cached = 0;
    out->hidden = arena_new(arena, (size_t)c->n_blocks * sizeof(Tensor));
    out->cached = arena_new(arena, 2 * KV_PLANES_MAX * (size_t)c->n_blocks * sizeof(Tensor));
    const RowBuffers *in = n <= MODEL_ROWS_MIXED ? &plan->step_rows : &plan->prompt_rows;
    Tensor token = row_input(&b, in->token, c->vocab - 1);
    Tensor position = row_input(&b, in->position, plan->context - 1);
    Tensor sequence = row_input(&b, in->sequence, plan->slots);
    Tensor table = tensor_buffer(graph, plan->page_table, DT_I32, 0,
                                 plan->slots * plan->pages_per_slot,
                                 dims(plan->slots + 1, plan->pages_per_slot));
    b.rows = kv_rows(table, sequence, position);
    if (plan->rows_together && n > MODEL_ROWS_MIXED) b.rows.together = plan->rows_together;
    b.cos_rows = angle_rows(&b, plan->rope_cos);
    b.sin_rows = angle_rows(&b, plan->rope_sin);
    if (c->window) {
        b.local_cos_rows = angle_rows(&b, plan->local_cos);
        b.local_sin_rows = angle_rows(&b, plan->local_sin);
    }
    Tensor x = plan->part.first == 0 ? embedded(&b, token) : hidden_input(&b); // [n, dim]
    for (int i = plan->part.first; i < plan->part.end; i++) out->hidden[i] = x = block_forward(&b, x, i);
    out->logits = NULL;
    if (plan->part.end < c->n_blocks) return;
    Input last = normed(&b, x, &plan->weights.output_norm);
    x = linear(&b, last, c->is_tied ? &plan->weights.token_embd : &plan->weights.output);
    out->logits = layers_soft_cap(x, c->logit_cap);
}

// weights: see weights.h.
#include "models/weights.h"

#include <string.h>

#include "base/os.h"
#include "runtime/workers.h"

typedef enum Use { NOT_WANTED, OPTIONAL, NEEDED } Use;
#define WHEN(condition) ((condition) ? NEEDED : NOT_WANTED)
#define MAY(condition) ((condition) ? OPTIONAL : NOT_WANTED)
#define HAS_SHARED (!is_dense && c->shared_experts > 0)
#define SHARED_FFN (c->expert_ffn * c->shared_experts)
#define BIAS (is_latent ? NOT_WANTED : c->needs_qkv_bias ? NEEDED : OPTIONAL)

typedef struct Want {
    const char *name, *role;
    int block;
    Use use;
    int64_t count, rows, cols;
} Want;
typedef struct Finder {
    Weights *w;
    Arena *arena;
    const ModelConfig *c;
    const Gguf *gguf;
    Error *err;
} Finder;

enum { MODEL_WEIGHTS_MAX = 16, BLOCK_WEIGHTS_MAX = 64 };

static const char *shape_text(Arena *arena, const GgufTensor *t) {
    const char *text = arena_printf(arena, "%llu", (unsigned long long)t->ne[0]);
    for (int i = 1; i < t->n_dims; i++)
        text = arena_printf(arena, "%s × %llu", text, (unsigned long long)t->ne[i]);
    return text;
}

static bool missing(Finder *f, const char *name) {
    const char *half = strstr(name, "attn_k_b.weight");
    if (!half) half = strstr(name, "attn_v_b.weight");
    if (half && gguf_tensor(f->gguf, arena_printf(f->arena, "%.*sattn_kv_b.weight",
                                                  (int)(half - name), name)))
        return fail(f->err, LATHE_UNSUPPORTED,
                    "the file has attn_kv_b in place of '%s' (an old form of latent attention): "
                    "convert the model again with a converter that writes attn_k_b and attn_v_b",
                    name);
    return fail(f->err, LATHE_BAD_FILE,
                "the tensor '%s' is missing: is the file complete, and all of its parts there?",
                name);
}

static bool find_one(Finder *f, const Want *want, Weight *out) {
    *out = (Weight){.type = NULL};
    if (want->use == NOT_WANTED) return true;
    const GgufTensor *t = gguf_tensor(f->gguf, want->name);
    if (!t) return want->use == OPTIONAL ? true : missing(f, want->name);
    const QuantType *type = quant_find(t->type);
    if (!type)
        return fail(f->err, LATHE_UNSUPPORTED,
                    "the tensor '%s' has storage type %u, which lathe cannot compute with: "
                    "take a file in another quantisation",
                    want->name, t->type);
    // Older files join the first two dimensions of a matrix a head: the bytes are the same.
    int64_t others = 1, elements = want->count * want->rows * want->cols;
    for (int i = 1; i < t->n_dims; i++) others *= (int64_t)t->ne[i];
    if ((int64_t)t->ne[0] != want->cols || others != want->count * want->rows)
        return fail(f->err, LATHE_BAD_FILE,
                    "the tensor '%s' is %s, but the metadata asks for %lld × %lld × %lld",
                    want->name, shape_text(f->arena, t), (long long)want->cols,
                    (long long)want->rows, (long long)want->count);
    int64_t nbytes = elements / want->cols * quant_row_bytes(type, want->cols);
    if (nbytes == 0 || (uint64_t)nbytes != t->nbytes)
        return fail(f->err, LATHE_BAD_FILE,
                    "the tensor '%s' has %llu bytes; %lld rows of %lld %s values have %lld",
                    want->name, (unsigned long long)t->nbytes, (long long)(elements / want->cols),
                    (long long)want->cols, type->name, (long long)nbytes);
    *out = (Weight){
        .type = type, .buffer = -1, .count = want->count, .rows = want->rows, .cols = want->cols};
    f->w->found[f->w->n_found].weight = out;
    f->w->found[f->w->n_found].role = want->role;
    f->w->found[f->w->n_found].block = want->block;
    f->w->found[f->w->n_found++].tensor = t;
    return true;
}

static bool find_block(Finder *f, int block) {
    const ModelConfig *c = f->c;
    BlockWeights *b = &f->w->blocks[block];
    bool is_dense = config_block_is_dense(c, block), is_latent = c->attention == ATTENTION_LATENT;
#define NAMED(name) arena_printf(f->arena, "blk.%d." name, block)
#define MODEL_WEIGHT(...)
#define BLOCK_WEIGHT(field, name, use, count, rows, cols) \
    TRY(find_one(f, &(Want){NAMED(name), name, block, use, count, rows, cols}, &b->field));
#include "models/weights.def"
#undef MODEL_WEIGHT
#undef BLOCK_WEIGHT
#undef NAMED
    return true;
}

bool weights_find(Weights *w, Arena *arena, const ModelConfig *c, const Gguf *gguf, Error *err) {
    *w = (Weights){0};
    Finder f = {.w = w, .arena = arena, .c = c, .gguf = gguf, .err = err};
    size_t most = MODEL_WEIGHTS_MAX + (size_t)c->n_blocks * BLOCK_WEIGHTS_MAX;
    w->blocks = arena_new(arena, (size_t)c->n_blocks * sizeof *w->blocks);
    w->found = arena_new(arena, most * sizeof *w->found);
#define MODEL_WEIGHT(field, name, use, count, rows, cols) \
    TRY(find_one(&f, &(Want){name, name, -1, use, count, rows, cols}, &w->field));
#define BLOCK_WEIGHT(...)
#include "models/weights.def"
#undef MODEL_WEIGHT
#undef BLOCK_WEIGHT
    for (int i = 0; i < c->n_blocks; i++) TRY(find_block(&f, i));
    return true;
}

// An output head that is the embedding is needed at both ends.
static bool part_uses(const Weights *w, const ModelConfig *c, BlockRange part, size_t i) {
    int block = w->found[i].block;
    if (block >= 0) return block >= part.first && block < part.end;
    bool is_embedding = w->found[i].weight == &w->token_embd, is_last = part.end == c->n_blocks;
    return is_embedding ? part.first == 0 || (is_last && c->is_tied) : is_last;
}

int64_t weights_bytes(const Weights *w, const ModelConfig *c, BlockRange part) {
    int64_t total = 0;
    for (size_t i = 0; i < w->n_found; i++)
        if (part_uses(w, c, part, i)) total += (int64_t)w->found[i].tensor->nbytes;
    return total;
}

// ---------------------------------------------------------------- where the bytes lie

enum { PIECE_BYTES = 32 << 20, JOB_BLOCKS = 1 << 12, MOST_LAYING = 16 };

// A piece of a tensor on its way into planes: field i of its blocks comes to lie at field[i].
typedef struct Piece {
    const QuantType *type;
    const QuantPlane *planes;
    int n_planes;
    const uint8_t *blocks;
    int64_t n;
    uint8_t *field[QUANT_FIELDS_MAX];
    TileCounter jobs;
} Piece;

// Who lays weights out in planes, and where: in memory that the device fetches from while the next piece is laid out, where it
// has such memory, else in one of our own.
typedef struct Laying { const BufferHost *host; Arena *scratch; uint8_t *own; Workers *workers; } Laying;

static void gather_some(void *context, int worker, int n_workers) {
    (void)worker, (void)n_workers;
    Piece *p = context;
    for (long first, end; (first = tile_take(&p->jobs, (long)p->n, JOB_BLOCKS, &end)) >= 0;) {
        for (int i = 0; i < p->n_planes; i++)
            quant_plane_gather(p->type, &p->planes[i], p->blocks + first * p->type->block_bytes, end - first,
                               p->field[i] + first * (p->planes[i].end - p->planes[i].begin));
    }
}

static bool laying_ready(Laying *x, uint8_t **piece, size_t *nbytes, Error *err) {
    *nbytes = PIECE_BYTES;
    *piece = x->host->stage ? x->host->stage(x->host->context, nbytes) : NULL;
    if (!*piece) *piece = x->own = x->own ? x->own : arena_alloc(x->scratch, PIECE_BYTES);
    if (!x->workers) x->workers = workers_create(cpu_count() < MOST_LAYING ? cpu_count() : MOST_LAYING);
    if (!x->workers) x->workers = workers_create(1);
    return (*piece && x->workers) || fail(err, LATHE_NO_MEMORY, "no memory to lay weights out in");
}

static bool bind_planes(Weight *w, const GgufTensor *t, Laying *x, Error *err) {
    QuantPlane planes[QUANT_FIELDS_MAX];
    int64_t total, n_blocks = (int64_t)t->nbytes / w->type->block_bytes;
    Piece p = {.type = w->type, .planes = planes, .n_planes = quant_planes(w->type, n_blocks, planes, &total)};
    TRY(x->host->alloc(x->host->context, (size_t)total, &w->buffer, err));
    for (int64_t first = 0; first < n_blocks; first += p.n) {
        uint8_t *piece;
        size_t nbytes;
        TRY(laying_ready(x, &piece, &nbytes, err));
        int64_t most = (int64_t)nbytes / w->type->block_bytes;
        p.n = n_blocks - first < most ? n_blocks - first : most;
        p.blocks = (const uint8_t *)t->data + first * w->type->block_bytes;
        for (int i = 0; i < p.n_planes; i++) p.field[i] = piece + planes[i].begin * p.n;
        p.jobs = (TileCounter){0};
        workers_run(x->workers, workers_count(x->workers), gather_some, &p);
        for (int i = 0; i < p.n_planes; i++) {
            int64_t width = planes[i].end - planes[i].begin;
            x->host->write(x->host->context, w->buffer, (size_t)(planes[i].offset + first * width), p.field[i], (size_t)(p.n * width));
        }
    }
    return true;
}

static bool bind_one(Weight *w, const GgufTensor *t, Laying *laying, Error *err) {
    const BufferHost *host = laying->host;
    w->is_planar = host->wants_planes && w->type->n_fields > 1;
    if (!w->is_planar || host->keeps_nothing) return host->wrap(host->context, t->data, t->nbytes, &w->buffer, err);
    return bind_planes(w, t, laying, err);
}

bool weights_bind(Weights *w, const ModelConfig *c, BlockRange part, const BufferHost *host, const LoadProgress *progress, Error *err) {
    int64_t done = 0, total = weights_bytes(w, c, part);
    Laying laying = {.host = host, .scratch = arena_create()};
    bool ok = true;
    for (size_t i = 0; i < w->n_found && ok; i++) {
        const GgufTensor *t = w->found[i].tensor;
        if (!part_uses(w, c, part, i)) continue;
        if (progress->show) progress->show(progress->context, done, total);
        ok = bind_one(w->found[i].weight, t, &laying, err);
        done += (int64_t)t->nbytes;
    }
    workers_destroy(laying.workers);
    arena_destroy(laying.scratch);
    return ok;
}

static int64_t weight_nbytes(const Weight *w) {
    return w->type ? w->count * w->rows * quant_row_bytes(w->type, w->cols) : 0;
}

int64_t weights_bytes_per_token(const Weights *w, const ModelConfig *c) {
    int64_t total = 0, embedding = weight_nbytes(&w->token_embd),
            idle = c->router.experts - c->router.used;
    for (size_t i = 0; i < w->n_found; i++) total += weight_nbytes(w->found[i].weight);
    for (int b = 0; b < c->n_blocks; b++) {
        const Weight *shared_out[] = {&w->blocks[b].gate_exps, &w->blocks[b].up_exps,
                                      &w->blocks[b].down_exps};
        for (int i = 0; i < 3; i++)
            if (shared_out[i]->type)
                total -= weight_nbytes(shared_out[i]) / c->router.experts * idle;
    }
    // The embedding is read whole only where it is the output head as well.
    return total + embedding / c->vocab - (c->is_tied ? 0 : embedding);
}

bool weights_use(const Weights *w, const GgufTensor *tensor) {
    for (size_t i = 0; i < w->n_found; i++)
        if (w->found[i].tensor == tensor) return true;
    return text_is(tensor->name, "rope_freqs.weight");
}

// draws: see draws.h.
#include "models/draws.h"

#include <string.h>

_Static_assert((int)INPUT_ALIGNMENT == (int)BUFFER_PART_BYTES, "fields are parts of a buffer");

static size_t cells_of(const Draws *d) { return (size_t)d->plan->slots * (size_t)d->plan->config->vocab; }

bool draws_open(Draws *d, Arena *arena, Engine *engine, const ModelPlan *plan, int64_t logits, Error *err) {
    size_t vocab = (size_t)plan->config->vocab;
    *d = (Draws){.engine = engine, .plan = plan, .logits = logits, .bias = -1};
    pthread_mutex_init(&d->adding, NULL);
    d->everything = memset(arena_new(arena, vocab), 1, vocab);
    TRY(engine_buffer_alloc(engine, cells_of(d) * sizeof(int32_t), &d->counts, err));
    TRY(engine_buffer_alloc(engine, cells_of(d), &d->allowed, err));
    TRY(engine_buffer_alloc_shared(engine, MODEL_ROWS_MIXED * sizeof(DrawResult), &d->results, err));
    for (int i = 0; i < MODEL_ROWS_MIXED; i++) {
        struct DrawBuffers *b = &d->at[i];
        size_t at = offsetof(StepInputs, draws) + (size_t)i * sizeof(DrawInput);
        b->params = engine_buffer_part(engine, plan->step_inputs, at + offsetof(DrawInput, params), SAMPLE_PARAMS * sizeof(float));
        b->words = engine_buffer_part(engine, plan->step_inputs, at + offsetof(DrawInput, words), SAMPLE_WORDS * sizeof(uint32_t));
        b->row = engine_buffer_part(engine, plan->step_inputs, at + offsetof(DrawInput, row), sizeof(int32_t));
        b->slot = engine_buffer_part(engine, plan->step_inputs, at + offsetof(DrawInput, slot), sizeof(int32_t));
        b->result = engine_buffer_part(engine, d->results, (size_t)i * sizeof(DrawResult), 2 * sizeof(int32_t));
    }
    for (int i = 0; i < plan->slots; i++) draws_set_allowed(d, i, NULL);
    return true;
}

void draws_part(Draws *d) {
    for (int i = 0; i < JOINED_MOST; i++) step_destroy(d->joined[i].step);
    memset(d->joined, 0, sizeof d->joined);
}

void draws_close(Draws *d) {
    draws_part(d);
    pthread_mutex_destroy(&d->adding);
}

// ---------------------------------------------------------------- steps

// By whoever needs it first: a step that is compiled beside others, or a draw.
static bool bias_buffer(Draws *d, Error *err) {
    pthread_mutex_lock(&d->adding);
    bool ok = d->bias >= 0 || engine_buffer_alloc(d->engine, cells_of(d) * sizeof(float), &d->bias, err);
    pthread_mutex_unlock(&d->adding);
    return ok;
}

bool draws_compile(Draws *d, int parts, Step **step, Error *err) {
    if (parts & SAMPLING_BIAS) TRY(bias_buffer(d, err));
    if (engine_target(d->engine)->group_threads) parts |= SAMPLING_AT_ONCE;   // to wait costs more than to add
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    int64_t vocab = d->plan->config->vocab, slots = d->plan->slots;
    const struct DrawBuffers *own = &d->at[0];
    Tensor row = tensor_buffer(g, own->row, DT_I32, 0, MODEL_ROWS_MIXED - 1, dims(1));
    Tensor slot = tensor_buffer(g, own->slot, DT_I32, 0, slots - 1, dims(1));
    Tensor logits = tensor_buffer(g, d->logits, DT_F32, 0, 0, dims(MODEL_ROWS_MIXED, vocab));
    Tensor counts = tensor_buffer(g, d->counts, DT_I32, 0, SAMPLING_WINDOW_MAX, dims(slots, vocab));
    Tensor allowed = tensor_buffer(g, d->allowed, DT_U8, 0, 0, dims(slots, vocab));
    SamplingInputs in = {
        tensor_reshape(tensor_gather(logits, row), dims(vocab)),
        tensor_reshape(tensor_gather(counts, slot), dims(vocab)),
        tensor_reshape(tensor_gather(allowed, slot), dims(vocab)),
        tensor_buffer(g, own->params, DT_F32, 0, 0, dims(SAMPLE_PARAMS)),
        tensor_buffer(g, own->words, DT_U32, 0, 0, dims(SAMPLE_WORDS)),
        NULL,
    };
    if (parts & SAMPLING_BIAS) {
        Tensor bias = tensor_buffer(g, d->bias, DT_F32, 0, 0, dims(slots, vocab));
        in.bias = tensor_reshape(tensor_gather(bias, slot), dims(vocab));
    }
    Tensor place = tensor_buffer(g, own->result, DT_I32, 0, 0, dims(2)), result = tensor_assign(place, place, sampling_graph(&in, parts));
    bool is_done = engine_compile(d->engine, &result, 1, step, err);
    arena_destroy(arena);
    return is_done;
}

// A larger one takes the place of one that is too small, which joined steps may still use.
static bool block_reserve(Draws *d, int i, size_t nbytes, Error *err) {
    if (d->block_bytes[i] >= nbytes) return true;
    TRY(engine_buffer_alloc(d->engine, nbytes, &d->blocks[i], err));
    d->block_bytes[i] = nbytes;
    return true;
}

static bool join(Draws *d, const JoinedDraws *j, Step **step, Error *err) {
    BufferSwap swaps[MODEL_ROWS_MIXED][sizeof(struct DrawBuffers) / sizeof(int64_t)];
    StepPart parts[1 + MODEL_ROWS_MIXED];
    int n = 0;
    if (j->rows) parts[n++] = (StepPart){j->rows, NULL, 0, false, -1};
    for (int i = 0; i < j->n; i++) {
        const struct DrawBuffers *from = &d->at[0], *to = &d->at[j->first + i];
        const BufferSwap own[] = {{from->params, to->params}, {from->words, to->words}, {from->row, to->row}, {from->slot, to->slot},
                                  {from->result, to->result}};
        memcpy(swaps[i], own, sizeof own);
        if (i > 0) TRY(block_reserve(d, i, step_block_bytes(j->draw), err));
        parts[n++] = (StepPart){j->draw, swaps[i], sizeof own / sizeof *own, i > 0, i > 0 ? d->blocks[i] : -1};
    }
    return step_join(parts, n, step, err);
}

// One that is known, or a new one in the place of the one not used for longest.
bool draws_join(Draws *d, const Step *rows, const Step *draw, int first, int n, Step **step, Error *err) {
    JoinedDraws *oldest = &d->joined[0];
    CHECK(n > 0 && first >= 0 && n <= MODEL_ROWS_MIXED - first);
    for (int i = 0; i < JOINED_MOST; i++) {
        JoinedDraws *j = &d->joined[i];
        if (j->step && j->rows == rows && j->draw == draw && j->first == first && j->n == n) {
            j->used = ++d->runs;
            *step = j->step;
            return true;
        }
        if (j->used < oldest->used) oldest = j;
    }
    step_destroy(oldest->step);
    *oldest = (JoinedDraws){rows, draw, first, n, NULL, ++d->runs};
    TRY(join(d, oldest, &oldest->step, err));
    *step = oldest->step;
    return true;
}

// ---------------------------------------------------------------- what the host tells and reads

void draws_write(const Draws *d, const DrawInput *inputs, int n) {
    engine_buffer_write(d->engine, d->plan->step_inputs, offsetof(StepInputs, draws), inputs, (size_t)n * sizeof *inputs);
}

void draws_read(const Draws *d, DrawResult *results, int n) {
    engine_buffer_read(d->engine, d->results, 0, results, (size_t)n * sizeof *results);
}

static size_t cell_of(const Draws *d, int slot, int32_t token) {
    return (size_t)slot * (size_t)d->plan->config->vocab + (size_t)token;
}

void draws_set_count(Draws *d, int slot, int32_t token, int32_t count) {
    engine_buffer_write(d->engine, d->counts, cell_of(d, slot, token) * sizeof count, &count, sizeof count);
}

void draws_set_allowed(Draws *d, int slot, const uint8_t *allowed) {
    engine_buffer_write(d->engine, d->allowed, cell_of(d, slot, 0), allowed ? allowed : d->everything, (size_t)d->plan->config->vocab);
}

bool draws_set_bias(Draws *d, int slot, int32_t token, float bias, Error *err) {
    TRY(bias_buffer(d, err));
    engine_buffer_write(d->engine, d->bias, cell_of(d, slot, token) * sizeof bias, &bias, sizeof bias);
    return true;
}

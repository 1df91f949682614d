// report: what a file holds and how it will be computed, without an engine: model_inspect of model.h.
// In: an open Gguf. Out: a ModelReport on the arena. Invariant: a problem of the file is an entry of errors, so a
// report on a broken file still tells what could be read of it.
#include "models/model.h"

#include <string.h>

#include "base/vec.h"
#include "models/plan.h"
#include "models/weights.h"

enum { LISTED_MAX = 8 };

typedef struct Reporter {
    Arena *arena;
    const Gguf *gguf;
    ModelReport *out;
} Reporter;

static void add_fact(Reporter *r, const char *name, const char *value) {
    vec_push(r->arena, &r->out->facts, ((ModelFact){name, value, NULL}));
}

static const char *name_of(Reporter *r, const GgufTensor *t) {
    return text_cstr(r->arena, t->name);
}

// "a, b and 7 more"
static const char *list_text(Reporter *r, const TextList *names) {
    TextBuilder b = builder(r->arena);
    for (size_t i = 0; i < names->len && i < LISTED_MAX; i++)
        builder_printf(&b, "%s%s", i ? ", " : "", names->at[i]);
    if (names->len > LISTED_MAX) builder_printf(&b, " and %zu more", names->len - LISTED_MAX);
    return builder_cstr(&b);
}

static const GgufTensor *tensor_at(Reporter *r, size_t i) {
    return r->gguf->tensors.entries[i].value;
}

static void report_types(Reporter *r) {
    TextBuilder b = builder(r->arena);
    for (int q = 0; q < quant_count(); q++) {
        int n = 0;
        for (size_t i = 0; i < r->gguf->tensors.len; i++)
            n += tensor_at(r, i)->type == quant_at(q)->number;
        if (n) builder_printf(&b, "%s%s × %d", b.len ? ", " : "", quant_at(q)->name, n);
    }
    for (size_t i = 0; i < r->gguf->tensors.len; i++) {
        const GgufTensor *t = tensor_at(r, i);
        r->out->parameters += (int64_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
    }
    add_fact(r, "tensor types", builder_cstr(&b));
    add_fact(r, "parameters", arena_printf(r->arena, "%lld", (long long)r->out->parameters));
}

static void report_unused(Reporter *r, const Weights *w) {
    TextList names = {0};
    for (size_t i = 0; i < r->gguf->tensors.len; i++)
        if (!weights_use(w, tensor_at(r, i)))
            vec_push(r->arena, &names, name_of(r, tensor_at(r, i)));
    if (names.len)
        vec_push(r->arena, &r->out->warnings,
                 arena_printf(r->arena, "%zu tensors are not used: %s", names.len,
                              list_text(r, &names)));
}

// Products that keep f32 activations in fast mode although their type is quantised.
static void report_rows(Reporter *r, const Weights *w) {
    TextList names = {0};
    for (size_t i = 0; i < w->n_found; i++) {
        const Weight *weight = w->found[i].weight;
        if (!quant_is_plain(weight->type) && weight->cols % ACTIVATION_BLOCK)
            vec_push(r->arena, &names, name_of(r, w->found[i].tensor));
    }
    if (names.len)
        add_fact(r, "f32 activations",
                 arena_printf(r->arena, "rows of these do not divide by %d: %s", ACTIVATION_BLOCK,
                              list_text(r, &names)));
}

static void report_vocabulary(Reporter *r, const ModelConfig *c) {
    const GgufValue *tokens = gguf_value(r->gguf, "tokenizer.ggml.tokens");
    if (!tokens || tokens->type != GGUF_ARRAY)
        vec_push(r->arena, &r->out->warnings,
                 "the file has no vocabulary (tokenizer.ggml.tokens): only token ids work");
    else if ((int64_t)tokens->count != c->vocab)
        vec_push(r->arena, &r->out->warnings,
                 arena_printf(r->arena, "the vocabulary has %llu entries, the embedding %lld",
                              (unsigned long long)tokens->count, (long long)c->vocab));
}

static void scan_tensors(Reporter *r) {
    for (size_t i = 0; i < r->gguf->tensors.len; i++) {
        const GgufTensor *t = tensor_at(r, i);
        const QuantType *type = quant_find(t->type);
        int64_t bad = type ? quant_find_bad_block(type, t->data, t->nbytes) : -1;
        if (bad >= 0)
            vec_push(r->arena, &r->out->errors,
                     arena_printf(r->arena, "the tensor '%s' has a NaN or an infinity (block %lld)",
                                  name_of(r, t), (long long)bad));
    }
}

static void report_inferred(Reporter *r) {
    for (size_t i = 0; i < r->out->facts.len; i++) {
        const ModelFact *f = &r->out->facts.at[i];
        if (f->reason)
            vec_push(r->arena, &r->out->inferred,
                     arena_printf(r->arena, "%s: %s (%s)", f->name, f->value, f->reason));
    }
}

bool model_inspect(Arena *arena, const Gguf *gguf, const char *cache_type, bool scan_values,
                   ModelReport *report, Error *err) {
    *report = (ModelReport){.facts = {.arena = arena}};
    Reporter r = {arena, gguf, report};
    ModelConfig config;
    Weights weights;
    const KvFormat *format;
    Error why = {0};
    Text name;
    report->architecture = gguf_text(gguf, "general.architecture", &name) ? text_cstr(arena, name)
                                                                          : "unknown";
    if (!config_read(&config, arena, gguf, &report->facts, &why)) {
        vec_push(arena, &report->errors, arena_printf(arena, "%s", why.text));
    } else {
        TRY(plan_cache_format(&format, arena, &config, cache_type, false, err));
        report->cache_bytes_per_token = config_cache_bytes(&config, format);
        add_fact(&r, "cache",
                 arena_printf(arena, "%lld bytes a token in %s",
                              (long long)report->cache_bytes_per_token, format->name));
        report_vocabulary(&r, &config);
        if (!weights_find(&weights, arena, &config, gguf, &why)) {
            vec_push(arena, &report->errors, arena_printf(arena, "%s", why.text));
        } else {
            report->bytes_per_token = weights_bytes_per_token(&weights, &config);
            report_rows(&r, &weights);
            report_unused(&r, &weights);
        }
    }
    report_types(&r);
    if (scan_values) scan_tensors(&r);
    report_inferred(&r);
    report->verdict = report->errors.len     ? VERDICT_REFUSE
                      : report->warnings.len ? VERDICT_WARN
                                             : VERDICT_OK;
    return true;
}

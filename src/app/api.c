// api: the public functions of lathe.h on top of what the command line uses.
// In: plain C values. Out: plain C values and LatheError. Invariant: no type of ours shows in lathe.h, and nothing
// here computes: each function is a few calls of loaded and conversation.
// Example: see lathe.h
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/conversation.h"
#include "app/loaded.h"
#include "lathe.h"

struct LatheModel {
    Arena *arena;
    Loaded loaded;
    Conversation conversation;
};

static void why_set(LatheError *why, const Error *err) {
    if (why) snprintf(why->text, sizeof why->text, "%s", err->text);
}

static bool done(bool ok, LatheError *why, const Error *err) {
    if (why) why->text[0] = '\0';
    if (!ok) why_set(why, err);
    return ok;
}

static LatheSampling sampling_public(const SamplingOptions *o) {
    return (LatheSampling){
        .temperature = o->temperature, .top_k = o->top_k, .top_p = o->top_p, .min_p = o->min_p,
        .repeat_penalty = o->repeat_penalty, .presence_penalty = o->presence_penalty,
        .frequency_penalty = o->frequency_penalty, .penalty_window = o->penalty_window, .seed = o->seed,
        .most_tokens = -1,
    };
}

static SamplingOptions sampling_private(const LatheSampling *s) {
    SamplingOptions o = sampling_defaults();
    o.temperature = s->temperature, o.top_k = s->top_k, o.top_p = s->top_p, o.min_p = s->min_p;
    o.repeat_penalty = s->repeat_penalty, o.presence_penalty = s->presence_penalty;
    o.frequency_penalty = s->frequency_penalty, o.penalty_window = s->penalty_window, o.seed = s->seed;
    return o;
}

LatheSampling lathe_sampling(void) {
    SamplingOptions defaults = sampling_defaults();
    return sampling_public(&defaults);
}

LatheModel *lathe_open(const char *path, const LatheOptions *options, LatheError *why) {
    LatheOptions o = options ? *options : (LatheOptions){0};
    LatheModel *m = calloc(1, sizeof *m);
    Error err = {.text = "no memory"};
    LoadOptions load = {.model = path, .device = o.device, .target = o.target, .threads = o.threads, .gpu_layers = -1,
                        .model_options = {.exact = o.exact, .context = o.context, .cache_type = o.cache_type}};
    ConversationOptions conversation = {.sampling = sampling_defaults(), .most_tokens = -1, .system = {"", 0}};
    bool ok = m != NULL;
    if (ok) {
        m->arena = arena_create();
        ok = loaded_open(&m->loaded, m->arena, &load, &err) &&
             conversation_open(&m->conversation, &m->loaded, &conversation, &err);
    }
    if (!ok) {
        lathe_close(m);
        m = NULL;
    }
    done(ok, why, &err);
    return m;
}

void lathe_close(LatheModel *m) {
    if (!m) return;
    if (m->conversation.loaded) conversation_close(&m->conversation);
    if (m->loaded.model) loaded_close(&m->loaded);
    arena_destroy(m->arena);
    free(m);
}

int64_t lathe_vocabulary(const LatheModel *m) {
    return model_vocab_size(m->loaded.model);
}

int64_t lathe_context(const LatheModel *m) {
    return model_context(m->loaded.model);
}

int64_t lathe_tokenize(const LatheModel *m, const char *text, size_t nbytes, bool with_specials, int32_t *ids, size_t cap,
                       LatheError *why) {
    Arena *arena = arena_create();
    TokenIds found = {0};
    Error err = {0};
    bool ok = tokenizer_encode(m->conversation.tokenizer, arena, (Text){text, nbytes}, with_specials, &found, &err);
    for (size_t i = 0; i < found.len && i < cap; i++) ids[i] = found.at[i];
    arena_destroy(arena);
    return done(ok, why, &err) ? (int64_t)found.len : -1;
}

size_t lathe_piece(const LatheModel *m, int32_t id, char *bytes, size_t cap) {
    Text piece = tokenizer_decode_piece(m->conversation.tokenizer, id);
    if (cap && piece.len) memcpy(bytes, piece.at, piece.len < cap ? piece.len : cap);
    return piece.len;
}

bool lathe_logits(LatheModel *m, const int32_t *tokens, size_t n, float *logits, LatheError *why) {
    Error err = {0};
    bool ok = n > 0 || fail(&err, LATHE_BAD_REQUEST, "logits of no tokens were asked for; at least one is needed");
    // The cache now holds these tokens, so no later answer may take the history for evaluated.
    session_truncate(m->conversation.session, 0);
    ok = ok && model_eval(m->loaded.model, 0, tokens, (int64_t)n, 0, LOGITS_LAST, logits, &err);
    return done(ok, why, &err);
}

typedef struct Receiver { LatheText *receive; void *context; } Receiver;

static bool part_pass(void *context, Text part) {
    Receiver *r = context;
    return !r->receive || r->receive(r->context, part.at, part.len);
}

typedef bool Speaker(Conversation *c, Text text, AnswerPart *part, void *context, Answer *answer, Error *err);

static bool text_speak(Speaker *speak, LatheModel *m, const char *text, const LatheSampling *sampling, LatheText *receive,
                       void *context, LatheError *why) {
    LatheSampling s = sampling ? *sampling : lathe_sampling();
    Receiver receiver = {receive, context};
    Answer answer;
    Error err = {0};
    m->conversation.options.sampling = sampling_private(&s);
    m->conversation.options.most_tokens = s.most_tokens;
    return done(speak(&m->conversation, text_of(text), part_pass, &receiver, &answer, &err), why, &err);
}

bool lathe_continue(LatheModel *m, const char *text, const LatheSampling *sampling, LatheText *receive, void *context,
                    LatheError *why) {
    return text_speak(conversation_continue, m, text, sampling, receive, context, why);
}

bool lathe_answer(LatheModel *m, const char *message, const LatheSampling *sampling, LatheText *receive, void *context,
                  LatheError *why) {
    return text_speak(conversation_answer, m, message, sampling, receive, context, why);
}

void lathe_forget(LatheModel *m) {
    conversation_clear(&m->conversation);
}

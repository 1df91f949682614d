// conversation: from what was said to tokens, and from tokens to what is shown.
// The road: messages → template → segments → ids → session → pieces → whole characters → text before a stop text.
// In: text. Out: an Answer. Invariant: the loop over tokens builds no graph; it only appends to the answer's text.
// Example: see conversation.h
#include "app/conversation.h"

#include <math.h>
#include <string.h>

#include "app/interrupt.h"
#include "app/stop_texts.h"
#include "app/terminal.h"
#include "base/os.h"
#include "base/vec.h"
#include "text/json_values.h"
#include "text/stream_decoder.h"

const char *stop_reason_name(StopReason reason) {
    static const char *const names[] = {
        [STOP_END] = "end", [STOP_LENGTH] = "length", [STOP_CONTEXT] = "context", [STOP_INTERRUPTED] = "interrupted"};
    return names[reason];
}

static double rate(int64_t tokens, double seconds) {
    return tokens > 0 && seconds > 0 ? (double)tokens / seconds : NAN;
}

double answer_prompt_rate(const Answer *a) {
    return rate(a->prompt_tokens - a->reused_tokens, a->prompt_s);
}

double answer_generation_rate(const Answer *a) {
    return rate(a->generated_tokens - 1, a->generation_s);
}

// ---- opening

static void message_append(json_t *messages, const char *role, Text content) {
    json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", json_of_text(content)));
}

bool conversation_open(Conversation *c, Loaded *loaded, const ConversationOptions *o, Error *err) {
    *c = (Conversation){.loaded = loaded, .options = *o, .arena = arena_create(), .messages = json_array()};
    bool ok = sampling_check(&o->sampling, err) && tokenizer_create(&c->tokenizer, &loaded->gguf, err) &&
              chat_form_open(&c->form, &loaded->gguf, o->template_file, err) &&
              session_open(&c->session, loaded->model, 0, &o->sampling, err);
    DryBreakers breakers = dry_breakers(c->tokenizer, dry_usual_breakers, DRY_USUAL_BREAKERS);
    if (ok) session_set_breakers(c->session, &breakers);
    if (ok && o->system.len) message_append(c->messages, "system", utf8_clean(c->arena, o->system));
    if (!ok) conversation_close(c);
    return ok;
}

void conversation_close(Conversation *c) {
    session_close(c->session);
    chat_form_close(c->form);
    tokenizer_destroy(c->tokenizer);
    json_decref(c->messages);
    arena_destroy(c->arena);
    *c = (Conversation){0};
}

void conversation_clear(Conversation *c) {
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
    size_t kept = role && strcmp(role, "system") == 0 ? 1 : 0;
    while (json_array_size(c->messages) > kept) json_array_remove(c->messages, kept);
    session_truncate(c->session, 0);
}

// ---- one answer

static bool prompt_ready(Conversation *c, TokenIds *ids, Error *err) {
    bos_add(c->tokenizer, c->arena, ids);
    return ids->len || fail(err, LATHE_BAD_REQUEST, "the prompt is empty, and this model has no token to begin with");
}

typedef struct Stream {
    StreamDecoder decoder;
    StopTexts stops;
    TextBuilder characters, text;
    AnswerPart *part;
    void *context;
    bool is_refused;              // the receiver wants no more
    Progress progress;            // until the first token is there
} Stream;

static void stream_give(Stream *s, Text part) {
    builder_text(&s->text, part);
    if (part.len && !s->is_refused) s->is_refused = !s->part(s->context, part);
}

static void stream_push(Stream *s, Text piece) {
    s->characters.len = 0;
    stream_decoder_push(&s->decoder, piece, &s->characters);
    stream_give(s, stop_texts_feed(&s->stops, builder_view(&s->characters)));
}

static void stream_end(Stream *s) {
    s->characters.len = 0;
    stream_decoder_flush(&s->decoder, &s->characters);
    stream_give(s, stop_texts_feed(&s->stops, builder_view(&s->characters)));
    stream_give(s, stop_texts_flush(&s->stops));
}

static bool prompt_progress(void *context, int64_t done, int64_t total) {
    progress_show(context, "prompt", done, total);
    return interrupt_count() == 0;
}

// Draws tokens until something ends the answer. The clock of generation starts behind the first one.
static bool tokens_draw(Conversation *c, Stream *s, Answer *a, uint64_t *first_us, double *first_compile_s, Error *err) {
    for (;;) {
        int32_t token;
        if (c->options.most_tokens >= 0 && a->generated_tokens >= c->options.most_tokens) a->reason = STOP_LENGTH;
        else if (session_room(c->session) <= 0) a->reason = STOP_CONTEXT;
        else if (interrupt_count() || s->is_refused) a->reason = STOP_INTERRUPTED;
        else {
            TRY(session_step(c->session, &token, err));
            if (a->generated_tokens++ == 0) {
                progress_end(&s->progress);
                *first_us = time_us();
                *first_compile_s = engine_compile_seconds(c->loaded->engine);
            }
            if (!tokenizer_is_end(c->tokenizer, token)) {
                if (!tokenizer_is_special(c->tokenizer, token))
                    stream_push(s, tokenizer_decode_piece(c->tokenizer, token));
                if (!s->stops.is_stopped) continue;
            }
            a->reason = STOP_END;
        }
        return true;
    }
}

// The sampling in force is set anew, so that it may have changed since the last answer.
static bool answer_generate(Conversation *c, const TokenIds *ids, Stream *s, Answer *a, Error *err) {
    TRY(session_set_sampling(c->session, &c->options.sampling, err));
    double compile_s = engine_compile_seconds(c->loaded->engine), first_compile_s = compile_s;
    uint64_t begin_us = time_us(), first_us = 0;
    progress_compiling(&s->progress);
    bool ok = session_prompt(c->session, ids->at, (int64_t)ids->len, prompt_progress, &s->progress, err) &&
              tokens_draw(c, s, a, &first_us, &first_compile_s, err);
    progress_end(&s->progress);
    TRY(ok);
    a->prompt_tokens = (int64_t)ids->len;
    a->reused_tokens = session_reused(c->session);
    uint64_t end_us = time_us();
    double all_compile_s = engine_compile_seconds(c->loaded->engine);
    if (first_us == 0) first_us = end_us;
    a->prompt_s = (double)(first_us - begin_us) / 1e6 - (first_compile_s - compile_s);
    a->generation_s = (double)(end_us - first_us) / 1e6 - (all_compile_s - first_compile_s);
    a->compile_s = all_compile_s - compile_s;
    stream_end(s);
    return true;
}

static Stream stream_begin(Conversation *c, AnswerPart *part, void *context) {
    size_t n_stops = 0;
    const Text *stops = chat_form_stops(c->form, &n_stops);
    return (Stream){.stops = stop_texts(c->arena, stops, n_stops), .characters = builder(c->arena),
                    .text = builder(c->arena), .part = part, .context = context};
}

bool conversation_answer(Conversation *c, Text said, AnswerPart *part, void *context, Answer *answer, Error *err) {
    size_t n_messages = json_array_size(c->messages);
    TokenIds ids = {0};
    *answer = (Answer){0};
    arena_reset(c->arena);
    Stream stream = stream_begin(c, part, context);
    message_append(c->messages, "user", utf8_clean(c->arena, said));
    bool ok = chat_form_encode(c->form, c->tokenizer, c->arena, c->messages, NULL, c->options.kwargs, &ids,
                               NULL, err) &&
              prompt_ready(c, &ids, err) &&
              answer_generate(c, &ids, &stream, answer, err);
    answer->text = builder_view(&stream.text);
    if (ok) message_append(c->messages, "assistant", answer->text);
    while (!ok && json_array_size(c->messages) > n_messages) json_array_remove(c->messages, n_messages);
    return ok;
}

bool conversation_continue(Conversation *c, Text text, AnswerPart *part, void *context, Answer *answer, Error *err) {
    TokenIds ids = {0};
    *answer = (Answer){0};
    arena_reset(c->arena);
    Stream stream = stream_begin(c, part, context);
    TRY(tokenizer_encode(c->tokenizer, c->arena, text, false, &ids, err));
    TRY(prompt_ready(c, &ids, err));
    bool ok = answer_generate(c, &ids, &stream, answer, err);
    answer->text = builder_view(&stream.text);
    return ok;
}

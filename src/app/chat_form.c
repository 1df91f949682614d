// chat_form: reads from the file what its chat template needs, and turns rendered segments into ids.
// In: metadata, messages. Out: a ChatTemplate with the file's facts; ids. Invariant: as the header says.
// Example: tokenizer.chat_template absent, <|im_start|> in the vocabulary → the preset chatml
#include "app/chat_form.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/vec.h"

struct ChatForm {
    Arena *arena;
    ChatTemplate *template;
    Text source, stop;
    size_t n_stops;
};

// Kinds of tokens in tokenizer.ggml.token_type.
enum { TOKEN_CONTROL = 3, TOKEN_USER_DEFINED = 4 };

static bool gguf_has_token(void *vocabulary, const char *text) {
    const Gguf *gguf = vocabulary;
    const GgufValue *tokens = gguf_value(gguf, "tokenizer.ggml.tokens"), *kinds = gguf_value(gguf, "tokenizer.ggml.token_type");
    if (!tokens || tokens->type != GGUF_ARRAY || tokens->item_type != GGUF_TEXT) return false;
    for (uint64_t i = 0; i < tokens->count; i++) {
        if (!text_is(tokens->texts[i], text)) continue;
        int64_t kind = kinds && kinds->type == GGUF_ARRAY ? gguf_array_i64(kinds, i) : TOKEN_CONTROL;
        return kind == TOKEN_CONTROL || kind == TOKEN_USER_DEFINED;
    }
    return false;
}

static Text token_text(const Gguf *gguf, const char *id_key) {
    const GgufValue *tokens = gguf_value(gguf, "tokenizer.ggml.tokens");
    uint32_t id;
    bool is_there = gguf_u32(gguf, id_key, &id) && tokens && tokens->type == GGUF_ARRAY &&
                    tokens->item_type == GGUF_TEXT && id < tokens->count;
    return is_there ? tokens->texts[id] : (Text){"", 0};
}

static Text gguf_text_or_empty(const Gguf *gguf, const char *key) {
    Text text = {"", 0};
    return gguf_text(gguf, key, &text) ? text : (Text){"", 0};
}

bool chat_form_open(ChatForm **out, const Gguf *gguf, const char *template_file, Error *err) {
    Arena *arena = arena_create();
    ChatForm *form = arena_new(arena, sizeof *form);
    *form = (ChatForm){.arena = arena};
    ChatFacts facts = {
        .architecture = gguf_text_or_empty(gguf, "general.architecture"),
        .pre = gguf_text_or_empty(gguf, "tokenizer.ggml.pre"),
        .bos_token = token_text(gguf, "tokenizer.ggml.bos_token_id"),
        .eos_token = token_text(gguf, "tokenizer.ggml.eos_token_id"),
        .eot_token = token_text(gguf, "tokenizer.ggml.eot_token_id"),
        .unk_token = token_text(gguf, "tokenizer.ggml.unknown_token_id"),
        .pad_token = token_text(gguf, "tokenizer.ggml.padding_token_id"),
        .has_token = gguf_has_token,
        .vocabulary = (void *)(uintptr_t)gguf,
    };
    Text source = {"", 0};
    bool ok = (template_file ? file_read(arena, template_file, &source, err)
                             : gguf_optional_text(gguf, "tokenizer.chat_template", &source, err)) &&
              chat_template_create(&form->template, source, &facts, err);
    if (!ok) {
        chat_form_close(form);
        return false;
    }
    form->source = text_copy(arena, source);
    const char *stop = chat_template_end_of_turn(form->template);
    if (stop) form->stop = text_of(stop);
    form->n_stops = stop != NULL;
    *out = form;
    return true;
}

void chat_form_close(ChatForm *form) {
    if (!form) return;
    chat_template_destroy(form->template);
    arena_destroy(form->arena);
}

const ChatTemplate *chat_form_template(const ChatForm *form) {
    return form->template;
}

Text chat_form_source(const ChatForm *form) {
    return form->source;
}

const Text *chat_form_stops(const ChatForm *form, size_t *count) {
    *count = form->n_stops;
    return &form->stop;
}

bool chat_form_encode(const ChatForm *form, const Tokenizer *tokenizer, Arena *arena, const json_t *messages,
                      const json_t *tools, const json_t *kwargs, TokenIds *ids, Text *prompt, Error *err) {
    ChatSegments rendered;
    TRY(chat_template_render(form->template, arena, messages, tools, true, kwargs, &rendered, err));
    if (prompt) *prompt = rendered.text;
    TextSegment *segments = arena_new(arena, (rendered.len + 1) * sizeof *segments);
    for (size_t i = 0; i < rendered.len; i++)
        segments[i] = (TextSegment){rendered.at[i].text, rendered.at[i].is_template};
    return tokenizer_encode_segments(tokenizer, arena, segments, rendered.len, ids, err);
}

void bos_add(const Tokenizer *tokenizer, Arena *arena, TokenIds *ids) {
    int32_t bos = tokenizer_bos(tokenizer);
    bool wants_bos = (tokenizer_adds_bos(tokenizer) || ids->len == 0) && bos >= 0;
    if (!wants_bos || (ids->len && ids->at[0] == bos)) return;
    TokenIds all = {0};
    vec_push(arena, &all, bos);
    for (size_t i = 0; i < ids->len; i++) vec_push(arena, &all, ids->at[i]);
    *ids = all;
}

bool json_file_read(Arena *arena, const char *path, json_t **out, Error *err) {
    Text text;
    json_error_t why;
    TRY(file_or_input_read(arena, path, &text, err));
    *out = json_loadb(text.at, text.len, JSON_ALLOW_NUL, &why);
    return *out || fail(err, LATHE_BAD_FILE, "%s:%d: this is no JSON: %s", path, why.line, why.text);
}

bool chat_kwargs_read(const Options *o, json_t **out, Error *err) {
    json_error_t why;
    const char *text = option_text(o, OPTION_kwargs);
    *out = NULL;
    if (!text) return true;
    *out = json_loads(text, JSON_ALLOW_NUL, &why);
    if (!*out) return fail(err, LATHE_BAD_REQUEST, "--kwargs: this is no JSON: %s", why.text);
    if (json_is_object(*out)) return true;
    json_decref(*out);
    *out = NULL;
    return fail(err, LATHE_BAD_REQUEST, "--kwargs must be a JSON object, for example '{\"enable_thinking\": false}'");
}

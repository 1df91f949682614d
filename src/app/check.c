// check: says how a file will be computed, what was inferred and why, and what is wrong with it. Computes nothing.
// In: a model file. Out: a report, or JSON {verdict, architecture, inferred, warnings, errors, cache_bytes_per_token …}.
// Invariant: exit code 1 exactly where the verdict is "refuse"; a file that cannot be read is a refusal too.
// Example: lathe check m.gguf --json | jq .verdict → "ok"
#include <stdio.h>
#include <string.h>

#include "app/chat_form.h"
#include "app/json_output.h"
#include "app/loaded.h"
#include "app/terminal.h"
#include "base/vec.h"
#include "models/model.h"

static const char *const verdict_names[] = {
    [VERDICT_OK] = "ok", [VERDICT_WARN] = "warn", [VERDICT_REFUSE] = "refuse"};

static json_t *list_json(const TextList *list) {
    json_t *texts = json_array();
    for (size_t i = 0; i < list->len; i++) json_array_append_new(texts, json_words(text_of(list->at[i])));
    return texts;
}

static void report_print_json(const ModelReport *r, const char *path) {
    json_t *facts = json_object();
    for (size_t i = 0; i < r->facts.len; i++)
        json_object_set_new(facts, r->facts.at[i].name, json_words(text_of(r->facts.at[i].value)));
    json_t *architecture = r->architecture ? json_words(text_of(r->architecture)) : json_null();
    json_print(json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o}", "file", json_words(text_of(path)),
                         "verdict", verdict_names[r->verdict], "architecture", architecture,
                         "inferred", list_json(&r->inferred), "warnings", list_json(&r->warnings),
                         "errors", list_json(&r->errors), "cache_bytes_per_token", (json_int_t)r->cache_bytes_per_token,
                         "parameters", (json_int_t)r->parameters, "bytes_per_token", (json_int_t)r->bytes_per_token,
                         "facts", facts), 9);
}

static void list_print(const char *title, const TextList *list) {
    for (size_t i = 0; i < list->len; i++) printf("%s%s%s: %s\n", style_begin_bold(), title, style_end(), list->at[i]);
}

static void report_print(const ModelReport *r, const char *path) {
    printf("%s\n  %-28s %s\n", path, "architecture", r->architecture ? r->architecture : "unknown");
    for (size_t i = 0; i < r->facts.len; i++) {
        const ModelFact *f = &r->facts.at[i];
        printf("  %-28s %s", f->name, f->value);
        if (f->reason) printf("  %s(%s)%s", style_begin_dim(), f->reason, style_end());
        putchar('\n');
    }
    if (r->bytes_per_token) printf("  %-28s %lld\n", "bytes read per token", (long long)r->bytes_per_token);
    list_print("warning", &r->warnings);
    list_print("error", &r->errors);
    printf("verdict: %s%s%s\n", style_begin_bold(), verdict_names[r->verdict], style_end());
}

// A file that could not even be opened is reported in the same form.
static void report_refuse(Arena *arena, ModelReport *report, const Error *why) {
    *report = (ModelReport){.verdict = VERDICT_REFUSE};
    vec_push(arena, &report->errors, text_cstr(arena, text_of(why->text)));
}

// What the tokenizer makes the best of, and what comes of it.
static void report_tokens(Arena *arena, const Gguf *gguf, const Tokenizer *tokenizer, ModelReport *r) {
    static const char *const id_keys[] = {
        "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id", "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"};
    int64_t none = -1, none_u32 = UINT32_MAX, id;     // as files without such a token write it
    int32_t n = tokenizer_vocabulary_size(tokenizer);
    for (size_t i = 0; i < sizeof id_keys / sizeof *id_keys; i++)
        if (gguf_i64(gguf, id_keys[i], &id) && id != none && id != none_u32 && (id < 0 || id >= n))
            vec_push(arena, &r->warnings, arena_printf(arena, "the key '%s' is %lld, outside of the vocabulary (0 to %d): "
                                                       "taken as absent", id_keys[i], (long long)id, n - 1));
    if (!gguf_value(gguf, "tokenizer.ggml.token_type"))
        vec_push(arena, &r->warnings, "the file does not say which tokens are special (tokenizer.ggml.token_type): those of "
                 "a chat template may be read as text");
    if (tokenizer_pre(tokenizer).len && !gguf_value(gguf, "tokenizer.ggml.pre"))
        vec_push(arena, &r->warnings, "the file does not name its pre-tokenizer (tokenizer.ggml.pre): texts are cut by the "
                 "default one, perhaps in other places than the model has learnt");
}

// What model_inspect does not look at: can texts be read and written?
static void report_texts(Arena *arena, const Gguf *gguf, ModelReport *r) {
    Tokenizer *tokenizer = NULL;
    ChatForm *form = NULL;
    Error why = {0};
    if (tokenizer_create(&tokenizer, gguf, &why)) {
        vec_push(arena, &r->facts, ((ModelFact){"tokenizer", arena_printf(arena, "%s, %d tokens", tokenizer_kind(tokenizer),
                                                                        tokenizer_vocabulary_size(tokenizer)), NULL}));
        report_tokens(arena, gguf, tokenizer, r);
    } else {
        vec_push(arena, &r->errors, text_cstr(arena, text_of(why.text)));
        r->verdict = VERDICT_REFUSE;
    }
    if (chat_form_open(&form, gguf, NULL, &why)) {
        const ChatTemplate *chat = chat_form_template(form);
        bool preset = chat_template_is_preset(chat);
        const char *name = chat_template_name(chat), *reason = preset ? "the file has no chat template" : NULL;
        vec_push(arena, &r->facts, ((ModelFact){"chat form", text_cstr(arena, text_of(name)), reason}));
        if (preset) vec_push(arena, &r->inferred, arena_printf(arena, "chat form: %s (%s)", name, reason));
        size_t n_ends = 1, n_stops = 1;
        if (tokenizer) (void)tokenizer_end_ids(tokenizer, &n_ends);
        (void)chat_form_stops(form, &n_stops);
        if (n_ends + n_stops == 0)
            vec_push(arena, &r->warnings, "no token of the file ends an answer (tokenizer.ggml.eos_token_id): answers go on "
                     "until -n or the end of the context");
    } else {
        vec_push(arena, &r->warnings, arena_printf(arena, "chat template: %s", why.text));
    }
    if (r->verdict == VERDICT_OK && r->warnings.len) r->verdict = VERDICT_WARN;
    chat_form_close(form);
    tokenizer_destroy(tokenizer);
}

bool command_check(const Options *o, Error *err) {
    const char *path = o->n_words ? o->words[0] : NULL;
    Gguf gguf = {0};
    ModelReport report;
    Error why = {0};
    if (!loaded_open_file(&gguf, o, path, &path, &why)) {
        if (why.code != LATHE_BAD_FILE && why.code != LATHE_UNSUPPORTED) {
            *err = why;
            return false;
        }
        report_refuse(o->arena, &report, &why);
    } else if (!model_inspect(o->arena, &gguf, option_text(o, OPTION_cache_type), true, &report, err)) {
        gguf_close(&gguf);
        return false;
    } else {
        report_texts(o->arena, &gguf, &report);
    }
    if (option_given(o, OPTION_json)) report_print_json(&report, path);
    else report_print(&report, path);
    bool refused = report.verdict == VERDICT_REFUSE;
    if (refused) {
        const char *first = report.errors.len ? report.errors.at[0] : "lathe cannot compute it";
        bool names_file = strncmp(first, path, strlen(path)) == 0;
        fail(err, LATHE_BAD_FILE, "%s%s%s", names_file ? "" : path, names_file ? "" : ": ", first);
    }
    gguf_close(&gguf);
    return !refused;
}

// chat_template: see the header. Messages become template values that remember they came from the
// request; a role that is a plain word counts as the template's own, for templates build tokens of
// it ("<|" + role + "|>").
// In: JSON. Out: ChatSegments.
// Invariant: what a template asks of a value (is string, is none, its items) gets jinja2's answer;
// only where jinja2 would fail or print a Python form does a null or a list of parts act as text.
#include "text/chat_template.h"

#include <string.h>

#include "base/vec.h"
#include "text/jinja.h"
#include "text/jinja_value.h"
#include "text/json_values.h"

typedef struct ChatPreset {
    const char *name, *architecture, *pre, *tokens;
    const char *prefix;
    bool system_in_user;
    const char *system_before, *system_after, *user_before, *user_after, *assistant_before,
        *assistant_after;
    const char *generation, *generation_thinking, *generation_direct, *end_of_turn;
} ChatPreset;

static const ChatPreset presets[] = {
#define PRESET(...) {__VA_ARGS__},
#include "text/chat_presets.def"
#undef PRESET
};

typedef struct SpecialToken {
    const char *name;
    Text text;
} SpecialToken;
enum { N_SPECIALS = 4 };

struct ChatTemplate {
    Arena *arena;
    const JinjaTemplate *jinja; // NULL: the preset speaks
    const ChatPreset *preset;
    SpecialToken specials[N_SPECIALS];
};

// ---- choosing ----

// "=<end>" asks for more than a special token: the file itself ends answers or turns with it.
static bool token_fits(const ChatFacts *facts, const char *token) {
    if (*token == '=') return text_is(facts->eos_token, token + 1) || text_is(facts->eot_token, token + 1);
    return facts->has_token && facts->has_token(facts->vocabulary, token);
}

static bool has_all_tokens(const ChatFacts *facts, const char *tokens) {
    char token[64];
    while (*tokens) {
        size_t n = strcspn(tokens, " ");
        CHECK(n < sizeof token);
        memcpy(token, tokens, n);
        token[n] = 0;
        if (!token_fits(facts, token)) return false;
        tokens += n + (tokens[n] == ' ');
    }
    return true;
}

static const ChatPreset *choose_preset(const ChatFacts *facts) {
    size_t last = sizeof presets / sizeof *presets - 1;
    for (size_t i = 0; i < last; i++) {
        const ChatPreset *p = &presets[i];
        bool fits = (!p->architecture || text_is(facts->architecture, p->architecture)) &&
                    (!p->pre || text_is(facts->pre, p->pre));
        if (fits && has_all_tokens(facts, p->tokens)) return p;
    }
    return &presets[last];
}

bool chat_template_create(ChatTemplate **out, Text source, const ChatFacts *facts, Error *err) {
    Arena *arena = arena_create();
    ChatTemplate *chat = arena_new(arena, sizeof *chat);
    const SpecialToken given[N_SPECIALS] = {{"bos_token", facts->bos_token},
                                            {"eos_token", facts->eos_token},
                                            {"unk_token", facts->unk_token},
                                            {"pad_token", facts->pad_token}};
    chat->arena = arena;
    for (size_t i = 0; i < N_SPECIALS; i++)
        chat->specials[i] = (SpecialToken){given[i].name, text_copy(arena, given[i].text)};
    if (source.len == 0) {
        chat->preset = choose_preset(facts);
    } else {
        JinjaTemplate *jinja;
        if (!jinja_parse(&jinja, arena, source, err)) {
            arena_destroy(arena);
            return false;
        }
        chat->jinja = jinja;
    }
    *out = chat;
    return true;
}

void chat_template_destroy(ChatTemplate *chat) {
    if (chat) arena_destroy(chat->arena);
}

const char *chat_template_name(const ChatTemplate *chat) {
    return chat->preset ? chat->preset->name : "jinja";
}
bool chat_template_is_preset(const ChatTemplate *chat) { return chat->preset != NULL; }

const char *chat_template_end_of_turn(const ChatTemplate *chat) {
    return chat->preset ? chat->preset->end_of_turn : NULL;
}

bool chat_template_knows_tools(const ChatTemplate *chat) {
    return chat->jinja && jinja_mentions(chat->jinja, "tools");
}

bool chat_template_knows_thinking(const ChatTemplate *chat) {
    return chat->jinja ? jinja_mentions(chat->jinja, "enable_thinking") ||
                             jinja_mentions(chat->jinja, "thinking")
                       : chat->preset->generation_direct != NULL;
}

// ---- messages ----

static bool check_messages(const json_t *messages, Error *err) {
    if (!json_is_array(messages))
        return fail(err, LATHE_BAD_REQUEST,
                    "messages must be an array of objects with \"role\" and \"content\"");
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (!json_is_string(json_object_get(json_array_get(messages, i), "role")))
            return fail(err, LATHE_BAD_REQUEST,
                        "message %zu is no object with a \"role\" that is a string", i);
    return true;
}

// The text of content parts; NULL where a part is no text (an image), which nothing can stand for.
static const json_t *part_text(const json_t *part) {
    const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
    bool is_text = !type || json_is_word(type, "text");
    return is_text && json_is_string(text) ? text : NULL;
}

static bool parts_text(Arena *arena, const json_t *parts, Text *out) {
    TextBuilder b = builder(arena);
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = part_text(json_array_get(parts, i));
        if (!text) return false;
        builder_append(&b, json_string_value(text), json_string_length(text));
    }
    *out = builder_view(&b);
    return true;
}

// ---- the template's view of them ----

static JinjaString *data_string(Arena *arena, Text text) {
    JinjaString *s = arena_new(arena, sizeof *s);
    *s = (JinjaString){.at = text_cstr(arena, text), .len = text.len, .origin = JINJA_DATA};
    return s;
}

static void set_entry(JinjaDict *dict, const char *key, JinjaValue value) {
    for (size_t i = 0; i < dict->len; i++) {
        const JinjaString *name = dict->at[i].key.string;
        if (text_is((Text){name->at, name->len}, key)) dict->at[i].value = value;
    }
}

static bool is_plain_word(Text word) {
    for (size_t i = 0; i < word.len; i++) {
        char c = word.at[i];
        bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
        if (!is_good) return false;
    }
    return word.len > 0 && word.len <= 64;
}

static JinjaValue content_value(Arena *arena, const json_t *content) {
    JinjaValue value = jinja_of_json(arena, content, JINJA_DATA);
    Text text;
    value.is_soft = value.kind == JINJA_NONE;
    if (value.kind != JINJA_LIST || !parts_text(arena, content, &text)) return value;
    value.list->as_text = data_string(arena, text);
    for (size_t i = 0; i < value.list->len; i++) {
        const json_t *part = part_text(json_array_get(content, i));
        value.list->at[i].dict->as_text =
            data_string(arena, (Text){json_string_value(part), json_string_length(part)});
    }
    return value;
}

// Arguments given as JSON text become what they hold, where that is an object.
static void parse_arguments(Arena *arena, const json_t *holder, JinjaValue value) {
    const json_t *arguments = json_object_get(holder, "arguments");
    if (value.kind != JINJA_DICT || !json_is_string(arguments)) return;
    json_t *parsed = json_loadb(json_string_value(arguments), json_string_length(arguments),
                                JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(parsed))
        set_entry(value.dict, "arguments", jinja_of_json(arena, parsed, JINJA_DATA));
    json_decref(parsed);
}

static JinjaValue calls_value(Arena *arena, const json_t *calls) {
    JinjaValue value = jinja_of_json(arena, calls, JINJA_DATA);
    for (size_t i = 0; value.kind == JINJA_LIST && i < value.list->len; i++) {
        const json_t *call = json_array_get(calls, i),
                     *function = json_object_get(call, "function");
        JinjaValue inner =
            json_is_object(function) ? jinja_of_json(arena, function, JINJA_DATA) : jinja_none();
        parse_arguments(arena, call, value.list->at[i]);
        parse_arguments(arena, function, inner);
        if (json_is_object(function)) set_entry(value.list->at[i].dict, "function", inner);
    }
    return value;
}

static JinjaValue message_value(Arena *arena, const json_t *message) {
    JinjaValue value = jinja_of_json(arena, message, JINJA_DATA);
    const json_t *role = json_object_get(message, "role"),
                 *content = json_object_get(message, "content");
    const json_t *calls = json_object_get(message, "tool_calls");
    JinjaString *name =
        data_string(arena, (Text){json_string_value(role), json_string_length(role)});
    if (is_plain_word((Text){name->at, name->len})) name->origin = JINJA_TEMPLATE;
    set_entry(value.dict, "role", jinja_string(name));
    if (content) set_entry(value.dict, "content", content_value(arena, content));
    if (calls) set_entry(value.dict, "tool_calls", calls_value(arena, calls));
    return value;
}

static JinjaValue messages_value(Arena *arena, const json_t *messages) {
    JinjaList *list = arena_new(arena, sizeof *list);
    list->len = list->cap = json_array_size(messages);
    list->at = arena_new(arena, list->len * sizeof *list->at);
    for (size_t i = 0; i < list->len; i++)
        list->at[i] = message_value(arena, json_array_get(messages, i));
    return jinja_sequence(JINJA_LIST, list);
}

// Without tools or documents the name is defined and none; soft, for templates that loop over it
// unasked.
static void set_optional(JinjaContext *context, Arena *arena, const char *name,
                         const json_t *json) {
    JinjaValue value = jinja_of_json(arena, json, JINJA_DATA);
    value.is_soft = value.kind == JINJA_NONE;
    jinja_set_value(context, name, value);
}

static void set_variables(const ChatTemplate *chat, Arena *arena, JinjaContext *context,
                          const json_t *kwargs) {
    void *at = json_object_iter((json_t *)(uintptr_t)kwargs);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)kwargs, at)) {
        const char *name = arena_printf(arena, "%s", json_object_iter_key(at));
        JinjaOrigin origin = JINJA_DATA;
        for (size_t i = 0; i < N_SPECIALS; i++)
            if (strcmp(name, chat->specials[i].name) == 0) origin = JINJA_TEMPLATE;
        jinja_set_json(context, name, json_object_iter_value(at), origin);
    }
}

// ---- segments ----

static void add_segment(Arena *arena, ChatSegments *out, size_t *cap, Text text, bool is_template) {
    if (text.len == 0) return;
    if (out->len == *cap) out->at = vec_grow(arena, out->at, out->len, cap, sizeof *out->at);
    out->at[out->len++] = (ChatSegment){text, is_template};
}

static ChatSegments segments_of(Arena *arena, const JinjaOutput *output) {
    ChatSegments out = {.text = output->text};
    size_t cap = 0;
    for (size_t i = 0; i < output->n_spans; i++)
        add_segment(arena, &out, &cap, output->spans[i].text,
                    output->spans[i].origin == JINJA_TEMPLATE);
    return out;
}

static bool render_jinja(const ChatTemplate *chat, Arena *arena, const json_t *messages,
                         const json_t *tools, bool generation_prompt, const json_t *kwargs,
                         ChatSegments *out, Error *err) {
    JinjaContext *context = jinja_context(arena);
    JinjaOutput output;
    for (size_t i = 0; i < N_SPECIALS; i++)
        if (chat->specials[i].text.len > 0)
            jinja_set_text(context, chat->specials[i].name, chat->specials[i].text, JINJA_TEMPLATE);
    jinja_set_value(context, "messages", messages_value(arena, messages));
    jinja_set_value(context, "add_generation_prompt", jinja_bool(generation_prompt));
    set_optional(context, arena, "tools", tools);
    set_optional(context, arena, "documents", NULL);
    set_variables(chat, arena, context, kwargs);
    TRY(jinja_render(chat->jinja, context, &output, err));
    *out = segments_of(arena, &output);
    return true;
}

// ---- presets ----

typedef struct PresetRun {
    const ChatTemplate *chat;
    TextBuilder text;
    VEC(size_t) ends; // of segments; the first is a template segment, then they alternate
} PresetRun;

static void put(PresetRun *run, const char *at, size_t len, bool is_template) {
    bool wants_data = !is_template;
    if (len == 0) return;
    while (run->ends.len == 0 || (run->ends.len - 1) % 2 != wants_data)
        vec_push(run->text.arena, &run->ends, run->text.len);
    builder_append(&run->text, at, len);
    run->ends.at[run->ends.len - 1] = run->text.len;
}

// A row's text, with the file's own tokens for $bos and $eos.
static void put_format(PresetRun *run, const char *format) {
    while (*format) {
        size_t plain = strcspn(format, "$");
        put(run, format, plain, true);
        format += plain;
        if (!*format) return;
        bool is_bos = strncmp(format, "$bos", 4) == 0;
        Text token = run->chat->specials[is_bos ? 0 : 1].text;
        put(run, token.at, token.len, true);
        format += 4;
    }
}

typedef enum PresetRole { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_UNKNOWN } PresetRole;

static PresetRole role_of(const char *name) {
    static const struct {
        const char *name;
        PresetRole role;
    } rows[] = {{"system", ROLE_SYSTEM},
                {"developer", ROLE_SYSTEM},
                {"user", ROLE_USER},
                {"assistant", ROLE_ASSISTANT},
                {"model", ROLE_ASSISTANT}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(name, rows[i].name) == 0) return rows[i].role;
    return ROLE_UNKNOWN;
}

static bool content_text(Arena *arena, const json_t *message, size_t index, Text *out, Error *err) {
    const json_t *content = json_object_get(message, "content");
    *out = (Text){"", 0};
    if (!content || json_is_null(content)) return true;
    if (json_is_string(content)) {
        *out = (Text){json_string_value(content), json_string_length(content)};
        return true;
    }
    if (json_is_array(content) && parts_text(arena, content, out)) return true;
    return fail(err, LATHE_BAD_REQUEST,
                "the content of message %zu is neither text nor a list of text parts", index);
}

static void put_turn(PresetRun *run, const char *before, Text content, const char *after) {
    put_format(run, before);
    put(run, content.at, content.len, false);
    put_format(run, after);
}

// A system text that belongs into a user turn: opens that turn.
static void open_user(PresetRun *run, const Text *system) {
    put_format(run, run->chat->preset->user_before);
    if (system)
        put_turn(run, run->chat->preset->system_before, *system, run->chat->preset->system_after);
}

static bool put_message(PresetRun *run, const json_t *message, size_t index, Text *system,
                        bool *has_system, Error *err) {
    const ChatPreset *p = run->chat->preset;
    const char *name = json_string_value(json_object_get(message, "role"));
    PresetRole role = role_of(name);
    Text content;
    TRY(content_text(run->text.arena, message, index, &content, err));
    if (role == ROLE_UNKNOWN || json_array_size(json_object_get(message, "tool_calls")) > 0)
        return fail(
            err, LATHE_BAD_REQUEST,
            "the file has no chat template, and the preset \"%s\" has no form for %s%.40s "
            "(message %zu); give one with --template-file",
            p->name, role == ROLE_UNKNOWN ? "the role " : "tool calls of ", name, index);
    if (*has_system && role != ROLE_USER) {
        open_user(run, system);
        put_format(run, p->user_after);
        *has_system = false;
    }
    if (role == ROLE_SYSTEM && p->system_in_user) {
        *system = content;
        *has_system = true;
    } else if (role == ROLE_SYSTEM) {
        put_turn(run, p->system_before, content, p->system_after);
    } else if (role == ROLE_ASSISTANT) {
        put_turn(run, p->assistant_before, content, p->assistant_after);
    } else {
        open_user(run, *has_system ? system : NULL);
        put_turn(run, "", content, p->user_after);
        *has_system = false;
    }
    return true;
}

static const char *generation_text(const ChatPreset *p, const json_t *kwargs) {
    const json_t *thinking = json_object_get(kwargs, "enable_thinking");
    if (!p->generation_direct || !json_is_boolean(thinking)) return p->generation;
    return json_is_true(thinking) ? p->generation_thinking : p->generation_direct;
}

static bool render_preset(const ChatTemplate *chat, Arena *arena, const json_t *messages,
                          const json_t *tools, bool generation_prompt, const json_t *kwargs,
                          ChatSegments *out, Error *err) {
    const ChatPreset *p = chat->preset;
    PresetRun run = {.chat = chat, .text = builder(arena)};
    Text system = {0};
    bool has_system = false;
    if (json_array_size(tools) > 0)
        return fail(err, LATHE_BAD_REQUEST,
                    "the file has no chat template, and the preset \"%s\" has no form for "
                    "tools; give one with --template-file",
                    p->name);
    put_format(&run, p->prefix);
    for (size_t i = 0; i < json_array_size(messages); i++)
        TRY(put_message(&run, json_array_get(messages, i), i, &system, &has_system, err));
    if (has_system) {
        open_user(&run, &system);
        put_format(&run, p->user_after);
    }
    if (generation_prompt) put_format(&run, generation_text(p, kwargs));
    *out = (ChatSegments){.text = builder_view(&run.text)};
    size_t cap = 0, start = 0;
    for (size_t i = 0; i < run.ends.len; start = run.ends.at[i++])
        add_segment(arena, out, &cap, (Text){out->text.at + start, run.ends.at[i] - start},
                    i % 2 == 0);
    return true;
}

bool chat_template_render(const ChatTemplate *chat, Arena *arena, const json_t *messages,
                          const json_t *tools, bool generation_prompt, const json_t *kwargs,
                          ChatSegments *out, Error *err) {
    TRY(check_messages(messages, err));
    if (tools && !json_is_null(tools) && !json_is_array(tools))
        return fail(err, LATHE_BAD_REQUEST, "tools must be an array");
    if (kwargs && !json_is_null(kwargs) && !json_is_object(kwargs))
        return fail(err, LATHE_BAD_REQUEST, "the template's variables must be a JSON object");
    return (chat->jinja ? render_jinja : render_preset)(chat, arena, messages, tools,
                                                        generation_prompt, kwargs, out, err);
}

// request_fields: see request_fields.h. One loop over the body's names, one check a kind.
// Example: {"stop": ["a", ""]} → 400, param "stop[1]"
#include "app/request_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/sampling.h"
#include "text/json_values.h"

typedef enum FieldKind { INT, REAL, SWITCH, STRING, LIST, OBJECT, STOPS, PROMPT, BIASES, IDS, MESSAGES, CHOICE, ANY, ABSENT } FieldKind;

#define CHAT (1u << ENDPOINT_chat)
#define COMPLETION (1u << ENDPOINT_completions)
#define MESSAGE (1u << ENDPOINT_messages)
#define RESPONSE (1u << ENDPOINT_responses)
#define APPLY (1u << ENDPOINT_apply)
#define TOKENS (1u << ENDPOINT_tokenize)
#define DETOKENIZE (1u << ENDPOINT_detokenize)
#define GENERATE (CHAT | COMPLETION | MESSAGE)

typedef struct FieldRow {
    const char *name;
    FieldKind kind;
    double least, most;
    unsigned endpoints;
    const char *help;
} FieldRow;

static const FieldRow rows[FIELD_COUNT] = {
#define FIELD(id, name, kind, least, most, endpoints, help) {name, kind, (double)(least), (double)(most), endpoints, help},
#include "app/request_fields.def"
#undef FIELD
};

// ---- reading

int64_t json_whole(const json_t *number) {
    return json_is_integer(number) ? (int64_t)json_integer_value(number) : (int64_t)json_real_value(number);
}

int64_t field_int(const Fields *f, FieldId id, int64_t otherwise) {
    return f->at[id] ? json_whole(f->at[id]) : otherwise;
}

double field_real(const Fields *f, FieldId id, double otherwise) {
    return f->at[id] ? json_number_value(f->at[id]) : otherwise;
}

bool field_is(const Fields *f, FieldId id, bool otherwise) {
    return f->at[id] ? json_is_true(f->at[id]) : otherwise;
}

Text field_text(const Fields *f, FieldId id) {
    return f->at[id] ? json_view(f->at[id]) : (Text){"", 0};
}

const char *field_name(FieldId id) {
    return rows[id].name;
}

// ---- one check a kind

typedef struct Check {
    Exchange *x;
    const FieldRow *row;
    int64_t vocabulary;
} Check;

static bool wrong_type(const Check *c, const char *param, const char *wanted) {
    return refuse(c->x, 400, "invalid_type", param, "%s must be %s", param, wanted);
}

static bool number_in_range(const Check *c, const char *param, const json_t *value, double least, double most) {
    double number = json_number_value(value);
    if (number >= least && number <= most) return true;
    return refuse(c->x, 400, "invalid_value", param, "%s is %.15g: it must lie between %.15g and %.15g", param, number, least,
                  most);
}

static bool is_whole(const json_t *value) {
    double real = json_real_value(value);
    return json_is_integer(value) || (json_is_real(value) && real == floor(real) && fabs(real) < 9.2e18);
}

static bool int_check(const Check *c, const char *param, const json_t *value) {
    if (!json_is_number(value)) return wrong_type(c, param, "a whole number");
    if (!number_in_range(c, param, value, c->row->least, c->row->most)) return false;
    return is_whole(value) || wrong_type(c, param, "a whole number");
}

static bool real_check(const Check *c, const char *param, const json_t *value) {
    if (!json_is_number(value)) return wrong_type(c, param, "a number");
    return number_in_range(c, param, value, c->row->least, c->row->most);
}

static bool length_check(const Check *c, const char *param, size_t n, const char *of) {
    if (c->row->most == 0 || (double)n <= c->row->most) return true;
    return refuse(c->x, 400, "invalid_value", param, "%s has %zu %s: at most %.0f are taken", param, n, of, c->row->most);
}

static bool string_check(const Check *c, const char *param, const json_t *value) {
    return json_is_string(value) ? length_check(c, param, json_string_length(value), "bytes")
                                 : wrong_type(c, param, "a string");
}

static bool list_check(const Check *c, const char *param, const json_t *value) {
    return json_is_array(value) ? length_check(c, param, json_array_size(value), "entries") : wrong_type(c, param, "an array");
}

static const char *entry_name(const Check *c, const char *param, size_t i) {
    return arena_printf(c->x->arena, "%s[%zu]", param, i);
}

static bool stops_check(const Check *c, const char *param, const json_t *value) {
    if (json_is_string(value)) return true;
    if (!json_is_array(value)) return wrong_type(c, param, "a string or an array of strings");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        if (!json_is_string(entry)) return wrong_type(c, entry_name(c, param, i), "a string");
        if (json_string_length(entry) == 0)
            return refuse(c->x, 400, "invalid_value", entry_name(c, param, i), "%s is empty: it would be found everywhere",
                          entry_name(c, param, i));
    }
    return length_check(c, param, json_array_size(value), "entries");
}

static bool id_check(const Check *c, const char *param, const json_t *value) {
    if (!is_whole(value)) return wrong_type(c, param, "a token id");
    return number_in_range(c, param, value, 0, (double)(c->vocabulary - 1));
}

static bool ids_check(const Check *c, const char *param, const json_t *value) {
    if (!json_is_array(value)) return wrong_type(c, param, "an array of token ids");
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!id_check(c, entry_name(c, param, i), json_array_get(value, i))) return false;
    return true;
}

// Text, ids, or a list whose entries are text or ids.
static bool prompt_check(const Check *c, const char *param, const json_t *value) {
    const json_t *first = json_array_get(value, 0);
    if (json_is_string(value)) return true;
    if (!json_is_array(value)) return wrong_type(c, param, "a string, an array of token ids, or an array of either");
    if (!first) return refuse(c->x, 400, "invalid_value", param, "%s is empty", param);
    if (json_is_number(first)) return ids_check(c, param, value);
    if (!length_check(c, param, json_array_size(value), "entries")) return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        if (!json_is_string(entry) && !ids_check(c, entry_name(c, param, i), entry)) return false;
    }
    return true;
}

// A token as the name of an object's entry.
static bool id_name_check(const Check *c, const char *param, const char *name) {
    char *end;
    long long id = strtoll(name, &end, 10);
    if (*name && *end == '\0' && id >= 0 && id < c->vocabulary) return true;
    return refuse(c->x, 400, "invalid_value", param, "%s: \"%.32s\" is no token id (0 to %lld)", param, name,
                  (long long)c->vocabulary - 1);
}

static bool biases_check(const Check *c, const char *param, const json_t *value) {
    const char *name;
    json_t *entry;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)value, name, entry)
        if (!id_name_check(c, param, name) || !real_check(c, arena_printf(c->x->arena, "%s.%.32s", param, name), entry))
            return false;
    json_array_foreach(value, i, entry) {
        if (json_array_size(entry) != 2) return wrong_type(c, entry_name(c, param, i), "a pair of token id and number");
        if (!id_check(c, entry_name(c, param, i), json_array_get(entry, 0)) ||
            !real_check(c, entry_name(c, param, i), json_array_get(entry, 1)))
            return false;
    }
    return json_is_object(value) || json_is_array(value) || wrong_type(c, param, "an object from token ids to numbers");
}

// ---- messages

static bool content_check(const Check *c, const char *param, const json_t *content) {
    size_t i;
    json_t *part;
    if (!content || json_is_null(content) || json_is_string(content)) return true;
    if (!json_is_array(content)) return wrong_type(c, param, "a string, null, or an array of parts");
    json_array_foreach(content, i, part) {
        const char *place = entry_name(c, param, i);
        const json_t *type = json_object_get(part, "type");
        if (!json_is_object(part) || !json_is_string(type))
            return wrong_type(c, place, "an object with a \"type\" that is a string");
        bool is_text = strcmp(json_string_value(type), "text") == 0;
        if (is_text && !json_is_string(json_object_get(part, "text")))
            return wrong_type(c, arena_printf(c->x->arena, "%s.text", place), "a string");
        if (!is_text)
            return refuse(c->x, 400, "unsupported_content", arena_printf(c->x->arena, "%s.type", place),
                          "%s is of the type \"%.64s\": this model reads text only", place, json_string_value(type));
    }
    return true;
}

static bool calls_check(const Check *c, const char *param, const json_t *calls) {
    size_t i;
    json_t *call;
    if (!calls || json_is_null(calls)) return true;
    if (!json_is_array(calls)) return wrong_type(c, param, "an array");
    json_array_foreach(calls, i, call) {
        const json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
        const char *place = entry_name(c, param, i);
        if (!json_is_string(json_object_get(function, "name")))
            return wrong_type(c, arena_printf(c->x->arena, "%s.function.name", place), "a string");
        if (arguments && !json_is_string(arguments) && !json_is_object(arguments) && !json_is_null(arguments))
            return wrong_type(c, arena_printf(c->x->arena, "%s.function.arguments", place), "JSON in a string");
    }
    return true;
}

static bool role_check(const Check *c, const char *param, const json_t *role) {
    static const char *const known[] = {"system", "developer", "user", "assistant", "tool", "function"};
    if (!json_is_string(role)) return wrong_type(c, param, "a string");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], json_string_value(role)) == 0) return true;
    return refuse(c->x, 400, "invalid_value", param,
                  "%s is \"%.64s\": known roles are system, developer, user, assistant and tool", param,
                  json_string_value(role));
}

// What an assistant did may be calls alone; all others say something.
static bool says_something(const Check *c, const char *place, const json_t *message) {
    if (json_object_get(message, "content") || strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0) return true;
    return refuse(c->x, 400, "missing_required_parameter", arena_printf(c->x->arena, "%s.content", place), "%s.content is missing", place);
}

static bool messages_check(const Check *c, const char *param, const json_t *value) {
    size_t i;
    json_t *message;
    if (!list_check(c, param, value)) return false;
    if (json_array_size(value) == 0) return refuse(c->x, 400, "invalid_value", param, "%s is empty: there is nothing to answer", param);
    json_array_foreach(value, i, message) {
        const char *place = entry_name(c, param, i);
        if (!json_is_object(message)) return wrong_type(c, place, "an object");
        if (!role_check(c, arena_printf(c->x->arena, "%s.role", place), json_object_get(message, "role")) ||
            !says_something(c, place, message) ||
            !content_check(c, arena_printf(c->x->arena, "%s.content", place), json_object_get(message, "content")) ||
            !calls_check(c, arena_printf(c->x->arena, "%s.tool_calls", place), json_object_get(message, "tool_calls")))
            return false;
    }
    return true;
}

// ---- the body

static bool value_check(const Check *c, const json_t *value) {
    const char *param = c->row->name;
    switch (c->row->kind) {
    case INT: return int_check(c, param, value);
    case REAL: return real_check(c, param, value);
    case SWITCH: return json_is_boolean(value) || wrong_type(c, param, "true or false");
    case STRING: return string_check(c, param, value);
    case LIST: return list_check(c, param, value);
    case OBJECT: return json_is_object(value) || wrong_type(c, param, "an object");
    case STOPS: return stops_check(c, param, value);
    case PROMPT: return prompt_check(c, param, value);
    case BIASES: return biases_check(c, param, value);
    case IDS: return ids_check(c, param, value);
    case MESSAGES: return messages_check(c, param, value);
    case CHOICE: case ANY: return true;
    case ABSENT: return refuse(c->x, 400, "unsupported_parameter", param, "%s: %s", param, c->row->help);
    }
    return false;
}

// A whole number of more than 64 bits is still JSON: read as a real it gets the error of its field.
static json_t *body_parse(Exchange *x) {
    json_error_t why;
    if (x->body.len == 0) {
        refuse(x, 400, "invalid_json", NULL, "the body is empty: this takes JSON (at byte 0)");
        return NULL;
    }
    json_t *body = json_loadb(x->body.at, x->body.len, JSON_ALLOW_NUL, &why);
    if (!body && json_error_code(&why) == json_error_numeric_overflow)
        body = json_loadb(x->body.at, x->body.len, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    if (!body) refuse(x, 400, "invalid_json", NULL, "the body is no JSON: %s (at byte %d)", why.text, why.position);
    return body;
}

static int row_find(const char *name, unsigned endpoint) {
    for (int i = 0; i < FIELD_COUNT; i++)
        if (rows[i].endpoints & endpoint && strcmp(rows[i].name, name) == 0) return i;
    return -1;
}

// Into a header goes only what can stand in one.
static void warn_unknown(Exchange *x, TextBuilder *unknown) {
    if (unknown->len == 0) return;
    reply_header(x, "X-Lathe-Warning", arena_printf(x->arena, "unknown fields without effect:%s", builder_cstr(unknown)));
}

static void unknown_add(TextBuilder *unknown, const char *name) {
    enum { MOST_BYTES = 512 };
    if (unknown->len > MOST_BYTES) return;
    builder_char(unknown, ' ');
    for (int i = 0; name[i] && i < 64; i++) {
        bool is_plain = (name[i] >= '0' && name[i] <= '9') || (name[i] >= 'a' && name[i] <= 'z') ||
                        (name[i] >= 'A' && name[i] <= 'Z') || strchr("_-.", name[i]);
        builder_char(unknown, is_plain ? name[i] : '?');
    }
}

static bool required_check(Exchange *x, const Fields *f, unsigned endpoint) {
    for (int i = 0; i < FIELD_COUNT; i++) {
        bool is_number = rows[i].kind == INT || rows[i].kind == REAL || rows[i].kind == BIASES;
        if (rows[i].endpoints & endpoint && !is_number && rows[i].least >= 1 && !f->at[i])
            return refuse(x, 400, "missing_required_parameter", rows[i].name, "%s is missing: %s", rows[i].name, rows[i].help);
    }
    return true;
}

static bool body_check(Exchange *x, int64_t vocabulary, Fields *f) {
    unsigned endpoint = 1u << x->endpoint->id;
    TextBuilder unknown = builder(x->arena);
    const char *name;
    json_t *value;
    if (!json_is_object(f->body)) return refuse(x, 400, "invalid_type", NULL, "the body must be a JSON object");
    json_object_foreach(f->body, name, value) {
        int i = row_find(name, endpoint);
        if (i < 0) unknown_add(&unknown, name);
        if (i < 0 || json_is_null(value)) continue;
        Check c = {x, &rows[i], vocabulary};
        if (!value_check(&c, value)) return false;
        f->at[i] = value;
    }
    warn_unknown(x, &unknown);
    return required_check(x, f, endpoint);
}

bool fields_read(Exchange *x, int64_t vocabulary, Fields *f) {
    *f = (Fields){.body = body_parse(x)};
    if (f->body && body_check(x, vocabulary, f)) return true;
    fields_free(f);
    return false;
}

void fields_free(Fields *f) {
    json_decref(f->body);
    *f = (Fields){0};
}

void messages_translate(json_t *messages) {
    size_t i;
    json_t *message;
    json_array_foreach(messages, i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        if (strcmp(role, "developer") == 0) json_object_set_new(message, "role", json_string("system"));
        if (strcmp(role, "function") == 0) json_object_set_new(message, "role", json_string("tool"));
    }
}

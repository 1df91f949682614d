// call_scanner: see call_scanner.h. AT_HEAD waits until a call's arguments begin; IN_JSON passes them on up to the brace that
// ends them, and over what is left of the object around; IN_PAIRS writes each pair as a member. What cannot be told so early
// (arguments before the name, or in a string, or in a fenced block) is read at once when it is whole.
// Example: <tool_call>f<arg_key>s</arg_key><arg_value>a"b → TOOL "f", ARGUMENTS {"s":"a\"b
#include "text/call_scanner.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "text/json_values.h"

typedef enum CallState { AT_HEAD, IN_JSON, IN_PAIRS } CallState;
typedef enum PairState { BETWEEN, IN_TEXT, IN_VALUE } PairState;

struct CallScanner {
    const ToolFormat *format;
    const json_t *tools;
    CallState state;
    bool has_calls, is_cut;
    int n_calls;
    // JSON: how deep, and how deep what stands around the arguments is; is_past: they are over
    int depth, outer_depth;
    bool in_string, is_escaped, is_past;
    // pairs
    PairState pair;
    int n_pairs;
    const json_t *parameters;
    Arena *out_arena;
    ReplyParts *out;
    size_t n_before;           // parts that were there before this step
};

static const char KEY_OPEN[] = "<arg_key>", KEY_CLOSE[] = "</arg_key>", VALUE_OPEN[] = "<arg_value>", VALUE_CLOSE[] = "</arg_value>";

CallScanner *call_scanner_create(Arena *arena, const ToolFormat *format, const json_t *tools) {
    CallScanner *s = arena_new(arena, sizeof *s);
    *s = (CallScanner){.format = format, .tools = tools};
    return s;
}

void call_scanner_begin(CallScanner *s) {
    s->state = AT_HEAD;
    s->has_calls = false;
}

bool call_scanner_has_calls(const CallScanner *s) {
    return s->has_calls;
}

bool call_scanner_is_cut(const CallScanner *s) {
    return s->is_cut;
}

// ---- parts

static void part_push(CallScanner *s, PartKind kind, Text text) {
    vec_push(s->out_arena, s->out, ((ReplyPart){kind, s->n_calls - 1, text_copy(s->out_arena, text)}));
}

// Pieces that come at once are one.
static void arguments_push(CallScanner *s, Text text) {
    ReplyPart *last = s->out->len > s->n_before ? &s->out->at[s->out->len - 1] : NULL;
    if (text.len == 0) return;
    if (!last || last->kind != PART_ARGUMENTS || last->tool != s->n_calls - 1) {
        part_push(s, PART_ARGUMENTS, text);
        return;
    }
    TextBuilder both = builder(s->out_arena);
    builder_text(&both, last->text);
    builder_text(&both, text);
    last->text = builder_view(&both);
}

static void call_push(CallScanner *s, Text name) {
    s->n_calls++;
    s->has_calls = true;
    part_push(s, PART_TOOL, name);
}

static void json_push(CallScanner *s, const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (text) arguments_push(s, text_of(text));
    free(text);
}

// A stretch of a string, without the quotes around it.
static void string_push(CallScanner *s, Text text) {
    json_t *value = json_of_text(text);
    char *dumped = json_dumps(value, JSON_ENCODE_ANY);
    if (dumped) arguments_push(s, (Text){dumped + 1, strlen(dumped) - 2});
    free(dumped);
    json_decref(value);
}

// ---- calls that are whole

// {"name": …, "arguments": {…}}; arguments that are a text hold JSON.
static bool object_is_call(const json_t *call) {
    const json_t *arguments = json_object_get(call, "arguments");
    if (!arguments) arguments = json_object_get(call, "parameters");
    return json_string_length(json_object_get(call, "name")) > 0 && (!arguments || json_is_object(arguments) || json_is_string(arguments));
}

static void object_take(CallScanner *s, const json_t *call) {
    const json_t *arguments = json_object_get(call, "arguments");
    if (!arguments) arguments = json_object_get(call, "parameters");
    call_push(s, json_view(json_object_get(call, "name")));
    if (!arguments) arguments_push(s, text_of("{}"));
    else if (json_is_string(arguments)) arguments_push(s, json_view(arguments));
    else json_push(s, arguments);
}

// One object, a list of them, or several with white space or ; between. All are calls, or none is.
static bool objects_take(CallScanner *s, Text body) {
    json_t *all = json_array(), *entry;
    size_t i;
    bool ok = true;
    while (ok && (body = text_trim(body)).len) {
        json_error_t at;
        json_t *value = json_loadb(body.at, body.len, JSON_DISABLE_EOF_CHECK, &at);
        size_t used = (size_t)at.position;
        ok = value && used > 0 && used <= body.len;
        if (json_is_array(value)) json_array_extend(all, value);
        else if (value) json_array_append(all, value);
        json_decref(value);
        if (!ok) break;
        body = text_trim(text_after(body, used));
        if (body.len && body.at[0] == ';') body = text_after(body, 1);
    }
    json_array_foreach(all, i, entry) ok = ok && object_is_call(entry);
    ok = ok && json_array_size(all) > 0;
    json_array_foreach(all, i, entry)
        if (ok) object_take(s, entry);
    json_decref(all);
    return ok;
}

// A call without arguments.
static bool pairs_take(CallScanner *s, Text body) {
    Text name = text_trim(body);
    if (name.len == 0 || text_find(name, text_of("<arg_")) < name.len) return false;
    call_push(s, name);
    arguments_push(s, text_of("{}"));
    return true;
}

// Older files: a kind, separator, name, and the JSON in a fenced block. Others have no block.
static bool named_take(CallScanner *s, Text body) {
    Text separator = text_of(s->format->separator), fence = text_of("```");
    size_t at = text_find(body, separator);
    if (at == body.len) return false;
    Text name = text_trim((Text){body.at, at}), arguments = text_trim(text_after(body, at + separator.len));
    size_t block = text_find(arguments, fence);
    if (block < arguments.len) {
        name = text_trim((Text){arguments.at, block});
        arguments = text_after(arguments, block + fence.len);
        if (text_starts(arguments, "json")) arguments = text_after(arguments, 4);
        arguments = text_trim((Text){arguments.at, text_find(arguments, fence)});
    }
    json_t *parsed = json_loadb(arguments.at, arguments.len, 0, NULL);
    bool ok = name.len && json_is_object(parsed);
    if (ok) call_push(s, name);
    if (ok) arguments_push(s, arguments);
    json_decref(parsed);
    return ok;
}

static bool call_take(CallScanner *s, Text body) {
    switch (s->format->syntax) {
    case OBJECT_SYNTAX: return objects_take(s, body);
    case PAIRS_SYNTAX: return pairs_take(s, body);
    case NAMED_SYNTAX: return named_take(s, body);
    }
    return false;
}

// ---- heads: all up to where arguments begin

static size_t space_skip(Text t, size_t at) {
    while (at < t.len && is_blank(t.at[at])) at++;
    return at;
}

// Behind the JSON value that begins at `at`; t.len where it is not whole.
static size_t value_skip(Text t, size_t at) {
    int depth = 0;
    bool in_string = false;
    for (; at < t.len; at++) {
        char c = t.at[at];
        if (in_string) {
            if (c == '\\') at++;
            else if (c == '"') in_string = false;
        } else if (c == '"') in_string = true;
        else if (c == '{' || c == '[') depth++;
        else if (depth && (c == '}' || c == ']')) depth--;
        else if (depth == 0 && (c == ',' || c == '}' || c == ']' || is_blank(c))) return at;
        else continue;
        if (depth == 0 && !in_string) return at + 1 < t.len ? at + 1 : t.len;
    }
    return t.len;
}

// The string that begins at `at`; NULL where it is not whole, or none.
static json_t *string_read(Text t, size_t at, size_t *behind) {
    if (at >= t.len || t.at[at] != '"') return NULL;
    *behind = value_skip(t, at);
    json_t *string = json_loadb(t.at + at, *behind - at, JSON_DECODE_ANY, NULL);
    return string;
}

// Members up to the arguments. name is new where it was found before them.
static size_t object_head(const CallScanner *s, Text t, json_t **name) {
    size_t at = 0;
    while (at < t.len && (is_blank(t.at[at]) || t.at[at] == '[' || (s->has_calls && strchr(",;", t.at[at])))) at++;
    if (at >= t.len || t.at[at] != '{') return t.len;
    for (at++;; at++) {
        json_t *key = string_read(t, space_skip(t, at), &at);
        if (!key) return t.len;
        bool is_name = json_is_word(key, "name"), is_arguments = json_is_word(key, "arguments") || json_is_word(key, "parameters");
        json_decref(key);
        at = space_skip(t, at);
        if (at >= t.len || t.at[at] != ':') return t.len;
        at = space_skip(t, at + 1);
        if (is_arguments) return *name && at < t.len && t.at[at] == '{' ? at : t.len;
        if (is_name && *name) return t.len;
        if (is_name && (*name = string_read(t, at, &at)) == NULL) return t.len;
        if (!is_name) at = value_skip(t, at);
        at = space_skip(t, at);
        if (at >= t.len || t.at[at] != ',') return t.len;
    }
}

static size_t named_head(const CallScanner *s, Text t, json_t **name) {
    Text separator = text_of(s->format->separator);
    size_t at = text_find(t, separator);
    Text own = text_trim((Text){t.at, at});
    if (at == t.len || own.len == 0) return t.len;
    at = space_skip(t, at + separator.len);
    if (at >= t.len || t.at[at] != '{') return t.len;
    *name = json_of_text(own);
    return at;
}

static size_t pairs_head(Text t, json_t **name) {
    size_t at = text_find(t, text_of(KEY_OPEN)), close = at + text_find(text_after(t, at), text_of(KEY_CLOSE));
    Text own = text_trim((Text){t.at, at});
    if (close >= t.len || own.len == 0) return t.len;
    if (!text_starts(text_after(t, space_skip(t, close + strlen(KEY_CLOSE))), VALUE_OPEN)) return t.len;
    *name = json_of_text(own);
    return at;
}

static const json_t *tool_parameters(const CallScanner *s, const json_t *name) {
    size_t i;
    json_t *tool;
    json_array_foreach(s->tools, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        if (json_equal(json_object_get(function, "name"), name)) return json_object_get(function, "parameters");
    }
    return NULL;
}

// Gives the call out where its arguments begin within t; *used: where.
static bool head_take(CallScanner *s, Text t, size_t *used) {
    json_t *name = NULL;
    ToolSyntax syntax = s->format->syntax;
    *used = syntax == OBJECT_SYNTAX ? object_head(s, t, &name) : syntax == PAIRS_SYNTAX ? pairs_head(t, &name) : named_head(s, t, &name);
    bool is_found = *used < t.len && json_string_length(name) > 0;
    if (is_found) {
        call_push(s, json_view(name));
        s->state = syntax == PAIRS_SYNTAX ? IN_PAIRS : IN_JSON;
        s->depth = s->outer_depth = syntax == OBJECT_SYNTAX;
        s->in_string = s->is_escaped = s->is_past = false;
        s->pair = BETWEEN;
        s->n_pairs = 0;
        s->parameters = syntax == PAIRS_SYNTAX ? tool_parameters(s, name) : NULL;
        if (syntax == PAIRS_SYNTAX) arguments_push(s, text_of("{"));
    }
    json_decref(name);
    return is_found;
}

// What may stand behind the calls of a list.
static bool is_rest(Text t) {
    for (size_t i = 0; i < t.len; i++)
        if (!is_blank(t.at[i]) && !strchr(",;]", t.at[i])) return false;
    return true;
}

static CallProgress head_step(CallScanner *s, Text text, bool is_end, size_t *used) {
    Text close = text_of(s->format->close);
    size_t end = text_find(text, close);
    bool is_whole = close.len && end < text.len;
    Text body = {text.at, end};
    bool may_follow = !s->has_calls || s->format->syntax == OBJECT_SYNTAX;      // several stand between one pair of markers
    if (may_follow && head_take(s, body, used)) return CALL_GOES_ON;
    *used = 0;
    if (!is_whole && !is_end) return CALL_GOES_ON;
    *used = is_whole ? end + close.len : text.len;
    bool ends_here = is_whole || close.len == 0 || s->has_calls;
    if (s->has_calls && is_rest(body)) return CALL_ENDED;
    return ends_here && may_follow && call_take(s, body) ? CALL_ENDED : CALL_NONE;
}

// ---- arguments

static CallProgress cut(CallScanner *s, Text text, size_t *used) {
    s->is_cut = true;
    *used = text.len;
    return CALL_ENDED;
}

static CallProgress json_step(CallScanner *s, Text text, bool is_end, size_t *used) {
    size_t i = 0;
    bool is_closed = false, is_over = false;
    for (; i < text.len && !is_over; i++) {
        char c = text.at[i];
        bool is_whole, was_escaped = s->is_escaped;
        s->is_escaped = s->in_string && !was_escaped && c == '\\';
        if (s->in_string && (was_escaped || c != '"')) continue;
        if (!s->in_string && text_may_begin(text_after(text, i), text_of(s->format->close), &is_whole) && (is_whole || !is_end)) {
            is_closed = is_whole;
            break;
        }
        if (c == '"') s->in_string = !s->in_string;
        else if (c == '{' || c == '[') s->depth++;
        else if (c == '}' || c == ']') s->depth--;
        if (s->depth == s->outer_depth && !s->is_past && (c == '}' || c == ']')) {
            arguments_push(s, (Text){text.at, i + 1});
            s->is_past = true;
        }
        is_over = s->is_past && s->depth <= 0;
    }
    if (!s->is_past) arguments_push(s, (Text){text.at, i});
    *used = i;
    if (is_over) s->state = AT_HEAD;
    else if (is_closed) *used = i + strlen(s->format->close);
    else if (is_end) return cut(s, text, used);
    return is_closed ? CALL_ENDED : CALL_GOES_ON;
}

// A value is a text where the definition says so, or where it is no JSON.
static bool is_text(const CallScanner *s, const char *key) {
    return json_is_word(json_object_get(json_object_get(json_object_get(s->parameters, "properties"), key), "type"), "string");
}

static CallProgress between_step(CallScanner *s, Text text, bool is_end, size_t *used) {
    bool is_key, is_close;
    size_t at = space_skip(text, 0), close = text_find(text, text_of(KEY_CLOSE)), value = space_skip(text, close + strlen(KEY_CLOSE));
    bool may_key = text_may_begin(text_after(text, at), text_of(KEY_OPEN), &is_key);
    bool may_close = text_may_begin(text_after(text, at), text_of(s->format->close), &is_close);
    if (is_close) {
        arguments_push(s, text_of("}"));
        *used = at + strlen(s->format->close);
        return CALL_ENDED;
    }
    if (is_key && value < text.len && text_starts(text_after(text, value), VALUE_OPEN)) {
        Text key = text_trim((Text){text.at + at + strlen(KEY_OPEN), close - at - strlen(KEY_OPEN)});
        s->pair = is_text(s, text_cstr(s->out_arena, key)) ? IN_TEXT : IN_VALUE;
        arguments_push(s, text_of(s->n_pairs++ ? ",\"" : "\""));
        string_push(s, key);
        arguments_push(s, text_of(s->pair == IN_TEXT ? "\":\"" : "\":"));
        *used = value + strlen(VALUE_OPEN);
        return CALL_GOES_ON;
    }
    // Also where the text is over: nothing may begin anything.
    bool may_value = is_key && (value >= text.len || text.len - value < strlen(VALUE_OPEN));
    if (!is_end && (may_value || (may_key && !is_key) || may_close)) return CALL_GOES_ON;
    if (is_end && (may_key || may_close)) return cut(s, text, used);
    // Neither a pair nor the end: the call is what it was so far.
    arguments_push(s, text_of("}"));
    s->state = AT_HEAD;
    return CALL_GOES_ON;
}

static CallProgress pair_value_step(CallScanner *s, Text text, bool is_end, size_t *used) {
    Text close = text_of(VALUE_CLOSE);
    size_t end = text_find(text, close), held = 0;
    bool is_whole = end < text.len;
    // What may be the beginning of the marker is held back, and of a character.
    if (!is_whole && !is_end) held = utf8_incomplete_tail(text);
    for (size_t n = close.len - 1; !is_whole && !is_end && n > 0 && held == 0; n--)
        if (n <= text.len && memcmp(text.at + text.len - n, close.at, n) == 0) held = n;
    Text ready = {text.at, is_whole ? end : text.len - held};
    *used = is_whole ? end + close.len : ready.len;
    if (s->pair == IN_TEXT) {
        if (ready.len) string_push(s, ready);
        if (is_whole) arguments_push(s, text_of("\""));
    } else if (is_whole) {
        json_t *parsed = json_loadb(ready.at, ready.len, JSON_DECODE_ANY, NULL), *value = parsed ? parsed : json_of_text(ready);
        json_push(s, value);
        json_decref(value);
    } else *used = 0;
    if (is_whole) s->pair = BETWEEN;
    return !is_whole && is_end ? cut(s, text, used) : CALL_GOES_ON;
}

CallProgress call_scanner_step(CallScanner *s, Text text, bool is_end, Arena *out_arena, ReplyParts *out, size_t *used) {
    s->out_arena = out_arena;
    s->out = out;
    s->n_before = out->len;
    *used = 0;
    for (;;) {
        size_t n = 0, before = *used;
        CallState state = s->state;
        PairState pair = s->pair;
        Text rest = text_after(text, before);
        CallProgress progress = state == AT_HEAD ? head_step(s, rest, is_end, &n) : state == IN_JSON ? json_step(s, rest, is_end, &n)
                                : pair == BETWEEN ? between_step(s, rest, is_end, &n) : pair_value_step(s, rest, is_end, &n);
        if (progress == CALL_NONE && before > 0) return CALL_GOES_ON;      // what is shown begins here: the next step says so
        *used = before + n;
        bool has_moved = n > 0 || s->state != state || s->pair != pair;
        if (progress != CALL_GOES_ON) return progress;
        if (!has_moved) return CALL_GOES_ON;
    }
}

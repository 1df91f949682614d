// reply_scanner: see reply_scanner.h. One state, one list of markers that may come next; what may be the beginning of one is
// held back.
// Example: state CONTENT, "Let me look.\n<tool" → CONTENT "Let me look.", held "\n<tool"
#include "text/reply_scanner.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "text/json_values.h"

static const ToolFormat tool_formats[] = {
#define TOOL_FORMAT(name, mark, open, separator, close, syntax, is_bare, around) \
    {name, mark, open, separator, close, syntax##_SYNTAX, is_bare, around},
#define THINKING(open, close)
#include "text/reply_formats.def"
#undef TOOL_FORMAT
#undef THINKING
};

static const ThinkingFormat thinking_formats[] = {
#define TOOL_FORMAT(name, mark, open, separator, close, syntax, is_bare, around)
#define THINKING(open, close) {open, close},
#include "text/reply_formats.def"
#undef TOOL_FORMAT
#undef THINKING
};

typedef enum ScanState { AT_START, IN_REASONING, IN_CONTENT, IN_CALL } ScanState;
enum { MARKERS_MAX = 4 };

struct ReplyScanner {
    Arena *arena;
    ReplyFormat format;
    const json_t *tools;
    ScanState state;
    Text markers[MARKERS_MAX];      // in content: the opening of a call first, then those around calls
    size_t n_markers;
    TextBuilder held, space;        // space: white space that is content only if content follows
    bool drops_space;               // white space that comes now follows thinking or a call
    bool is_bare_call;
    int n_calls;
    Arena *out_arena;
    ReplyParts *out;
};

// ---- texts

// Where needle begins in text; text.len where it does not.
static size_t find(Text text, Text needle) {
    if (needle.len == 0) return text.len;
    for (size_t at = 0; at + needle.len <= text.len; at++)
        if (memcmp(text.at + at, needle.at, needle.len) == 0) return at;
    return text.len;
}

static bool contains(Text text, const char *needle) {
    return find(text, text_of(needle)) < text.len;
}

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static Text after(Text text, size_t n) {
    return (Text){text.at + n, text.len - n};
}

static Text trimmed(Text t) {
    while (t.len && is_space(t.at[0])) t = after(t, 1);
    while (t.len && is_space(t.at[t.len - 1])) t.len--;
    return t;
}

// ---- formats

ReplyFormat reply_format_find(Text source) {
    ReplyFormat format = {0};
    for (size_t i = 0; i < sizeof tool_formats / sizeof *tool_formats && !format.tools; i++)
        if (contains(source, tool_formats[i].mark)) format.tools = &tool_formats[i];
    for (size_t i = 0; i < sizeof thinking_formats / sizeof *thinking_formats && !format.thinking; i++)
        if (contains(source, thinking_formats[i].close)) format.thinking = &thinking_formats[i];
    return format;
}

static void words_of(const char *words, Arena *arena, Text *out, size_t *n, size_t most) {
    while (*words && *n < most) {
        size_t len = strcspn(words, " ");
        out[(*n)++] = text_copy(arena, (Text){words, len});
        words += len + (words[len] == ' ');
    }
}

void reply_format_markers(const ReplyFormat *format, Arena *arena, const Text **markers, size_t *count) {
    enum { MOST = 9 };
    Text *all = arena_new(arena, MOST * sizeof *all);
    size_t n = 0;
    const ToolFormat *t = format->tools;
    if (t) {
        const char *const own[] = {t->open, t->separator, t->close};
        for (size_t i = 0; i < 3; i++)
            if (*own[i]) all[n++] = text_of(own[i]);
        words_of(t->around, arena, all, &n, n + 2);
        // The rest of the pairs; where they are no special tokens it does no harm to name them.
        if (t->syntax == PAIRS_SYNTAX) all[n++] = text_of("</arg_key>"), all[n++] = text_of("<arg_value>");
        if (t->syntax == PAIRS_SYNTAX) all[n++] = text_of("</arg_value>");
    }
    if (format->thinking && n + 2 <= MOST) all[n++] = text_of(format->thinking->open), all[n++] = text_of(format->thinking->close);
    *markers = all;
    *count = n;
}

bool reply_format_is_open(const ReplyFormat *format, Text prompt) {
    return format->thinking && text_ends(trimmed(prompt), format->thinking->open);
}

ReplyScanner *reply_scanner_create(Arena *arena, const ReplyFormat *format, const json_t *tools, bool is_open) {
    ReplyScanner *s = arena_new(arena, sizeof *s);
    *s = (ReplyScanner){.arena = arena, .format = *format, .tools = tools, .state = is_open ? IN_REASONING : AT_START,
                        .held = builder(arena), .space = builder(arena), .drops_space = is_open};
    if (json_array_size(tools) == 0) s->format.tools = NULL;
    if (s->format.tools) {
        s->markers[s->n_markers++] = text_of(s->format.tools->open);
        words_of(s->format.tools->around, arena, s->markers, &s->n_markers, MARKERS_MAX);
    }
    return s;
}

// ---- parts

static void part_push(ReplyScanner *s, PartKind kind, int tool, Text text) {
    vec_push(s->out_arena, s->out, ((ReplyPart){kind, tool, text_copy(s->out_arena, text)}));
}

static void give(ReplyScanner *s, PartKind kind, Text text) {
    while (s->drops_space && text.len && is_space(text.at[0])) text = after(text, 1);
    if (text.len == 0) return;
    s->drops_space = false;
    builder_text(&s->space, text);
    Text all = builder_view(&s->space);
    size_t solid = all.len;
    while (solid && is_space(all.at[solid - 1])) solid--;
    if (solid) part_push(s, kind, 0, (Text){all.at, solid});
    memmove(s->space.at, all.at + solid, all.len - solid);
    s->space.len = all.len - solid;
}

static void section_end(ReplyScanner *s) {
    s->space.len = 0;
    s->drops_space = true;
}

// ---- calls

static void call_push(ReplyScanner *s, Text name, Text arguments) {
    part_push(s, PART_TOOL, s->n_calls, name);
    part_push(s, PART_ARGUMENTS, s->n_calls, arguments);
    s->n_calls++;
}

static bool call_push_json(ReplyScanner *s, Text name, const json_t *arguments) {
    char *text = json_dumps(arguments, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (text) call_push(s, name, text_of(text));
    free(text);
    return text != NULL;
}

// {"name": …, "arguments": {…}}; arguments that are a text hold JSON.
static bool object_is_call(const json_t *call, const json_t **arguments) {
    *arguments = json_object_get(call, "arguments");
    if (!*arguments) *arguments = json_object_get(call, "parameters");
    return json_is_string(json_object_get(call, "name")) && (!*arguments || json_is_object(*arguments) || json_is_string(*arguments));
}

static bool object_take(ReplyScanner *s, const json_t *call) {
    const json_t *name = json_object_get(call, "name"), *arguments;
    if (!object_is_call(call, &arguments)) return false;
    Text called = {json_string_value(name), json_string_length(name)};
    if (!arguments) call_push(s, called, text_of("{}"));
    else if (json_is_string(arguments)) call_push(s, called, (Text){json_string_value(arguments), json_string_length(arguments)});
    else return call_push_json(s, called, arguments);
    return true;
}

// One object, a list of them, or several with white space or ; between.
static bool objects_take(ReplyScanner *s, Text body) {
    int before = s->n_calls;
    while ((body = trimmed(body)).len) {
        json_error_t at;
        json_t *value = json_loadb(body.at, body.len, JSON_DISABLE_EOF_CHECK, &at), *entry;
        size_t i, used = (size_t)at.position;
        bool ok = value != NULL;
        if (json_is_array(value)) json_array_foreach(value, i, entry) ok = ok && object_take(s, entry);
        else ok = ok && object_take(s, value);
        json_decref(value);
        if (!ok || used == 0 || used > body.len) return s->n_calls > before && ok;
        body = trimmed(after(body, used));
        if (body.len && body.at[0] == ';') body = after(body, 1);
    }
    return s->n_calls > before;
}

static const json_t *tool_parameters(const ReplyScanner *s, Text name) {
    size_t i;
    json_t *tool;
    json_array_foreach(s->tools, i, tool) {
        const json_t *function = json_object_get(tool, "function"), *own = json_object_get(function, "name");
        if (json_is_string(own) && text_equal(name, (Text){json_string_value(own), json_string_length(own)}))
            return json_object_get(function, "parameters");
    }
    return NULL;
}

// A value is a text where the definition says so, or where it is no JSON.
static json_t *pair_value(const json_t *parameters, const char *key, Text value) {
    const json_t *type = json_object_get(json_object_get(json_object_get(parameters, "properties"), key), "type");
    bool is_text = json_is_word(type, "string");
    json_t *parsed = is_text ? NULL : json_loadb(value.at, value.len, JSON_DECODE_ANY, NULL);
    return parsed ? parsed : json_of_text(value);
}

// Cuts what stands between two markers off the front.
static bool between(Text *text, const char *open, const char *close, Text *inside) {
    size_t begin = find(*text, text_of(open));
    if (begin == text->len) return false;
    Text rest = after(*text, begin + strlen(open));
    size_t end = find(rest, text_of(close));
    if (end == rest.len) return false;
    *inside = (Text){rest.at, end};
    *text = after(rest, end + strlen(close));
    return true;
}

static bool pairs_take(ReplyScanner *s, Text body) {
    Text name = trimmed((Text){body.at, find(body, text_of("<arg_key>"))}), key, value;
    const json_t *parameters = tool_parameters(s, name);
    json_t *arguments = json_object();
    body = after(body, find(body, text_of("<arg_key>")));
    bool ok = name.len > 0;
    while (ok && between(&body, "<arg_key>", "</arg_key>", &key)) {
        ok = between(&body, "<arg_value>", "</arg_value>", &value);
        if (!ok) break;
        const char *own = text_cstr(s->arena, trimmed(key));
        json_object_set_new(arguments, own, pair_value(parameters, own, value));
    }
    ok = ok && trimmed(body).len == 0 && call_push_json(s, name, arguments);
    json_decref(arguments);
    return ok;
}

// name, separator, JSON; or, in older files, a kind, separator, name, and the JSON in a fenced block.
static bool named_take(ReplyScanner *s, Text body) {
    Text separator = text_of(s->format.tools->separator), fence = text_of("```");
    size_t at = find(body, separator);
    if (at == body.len) return false;
    Text name = trimmed((Text){body.at, at}), arguments = trimmed(after(body, at + separator.len));
    size_t block = find(arguments, fence);
    if (block < arguments.len) {
        name = trimmed((Text){arguments.at, block});
        arguments = after(arguments, block + fence.len);
        if (text_starts(arguments, "json")) arguments = after(arguments, 4);
        arguments = trimmed((Text){arguments.at, find(arguments, fence)});
    }
    json_t *parsed = json_loadb(arguments.at, arguments.len, 0, NULL);
    bool ok = name.len && json_is_object(parsed);
    if (ok) call_push(s, name, arguments);
    json_decref(parsed);
    return ok;
}

static bool call_take(ReplyScanner *s, Text body) {
    switch (s->format.tools->syntax) {
    case OBJECT_SYNTAX: return objects_take(s, body);
    case PAIRS_SYNTAX: return pairs_take(s, body);
    case NAMED_SYNTAX: return named_take(s, body);
    }
    return false;
}

// ---- the scan

static void held_drop(ReplyScanner *s, size_t n) {
    if (n == 0) return;  // nothing may be held yet: C gives memmove no null, not even for no bytes
    memmove(s->held.at, s->held.at + n, s->held.len - n);
    s->held.len -= n;
}

// The earliest of the markers, or where one may begin that is not whole yet. which: −1 for the latter or for none.
static size_t marker_find(Text text, const Text *markers, size_t n, int *which) {
    *which = -1;
    for (size_t at = 0; at < text.len; at++)
        for (size_t i = 0; i < n; i++) {
            size_t left = text.len - at, compared = left < markers[i].len ? left : markers[i].len;
            if (compared == 0 || memcmp(text.at + at, markers[i].at, compared) != 0) continue;
            if (compared == markers[i].len) *which = (int)i;
            return at;
        }
    return text.len;
}

// False: more text is needed.
static bool start_step(ReplyScanner *s, bool is_end) {
    Text text = builder_view(&s->held);
    while (text.len && is_space(text.at[0])) text = after(text, 1);
    if (text.len == 0 && !is_end) return false;
    const char *open = s->format.thinking ? s->format.thinking->open : "";
    size_t n = strlen(open), compared = text.len < n ? text.len : n;
    bool may_think = n && memcmp(text.at, open, compared) == 0;
    if (may_think && compared < n && !is_end) return false;
    if (may_think && compared == n) {
        held_drop(s, (size_t)(text.at - s->held.at) + n);
        s->state = IN_REASONING;
        s->drops_space = true;
        return true;
    }
    s->is_bare_call = s->format.tools && s->format.tools->is_bare && text.len && text.at[0] == '{';
    s->state = s->is_bare_call ? IN_CALL : IN_CONTENT;
    return true;
}

static bool text_step(ReplyScanner *s, PartKind kind, const Text *markers, size_t n, bool is_end) {
    int which;
    Text text = builder_view(&s->held);
    size_t at = marker_find(text, markers, n, &which);
    if (which < 0 && is_end) at = text.len;
    give(s, kind, (Text){text.at, at});
    held_drop(s, which < 0 ? at : at + markers[which].len);
    if (which < 0) return false;
    section_end(s);
    if (s->state == IN_REASONING) s->state = AT_START;      // a call may follow bare
    else if (which == 0) s->state = IN_CALL;
    return true;
}

static bool call_step(ReplyScanner *s, bool is_end) {
    const ToolFormat *f = s->format.tools;
    Text text = builder_view(&s->held), close = text_of(f->close);
    size_t end = find(text, close);
    bool is_whole = close.len && end < text.len;
    if (!is_whole && !is_end) return false;
    bool ends_here = is_whole || close.len == 0;
    if (!ends_here || !call_take(s, (Text){text.at, end})) {
        s->drops_space = false;
        if (!s->is_bare_call) give(s, PART_CONTENT, text_of(f->open));
        give(s, PART_CONTENT, (Text){text.at, is_whole ? end + close.len : end});
    } else section_end(s);
    held_drop(s, is_whole ? end + close.len : text.len);
    s->is_bare_call = false;
    s->state = IN_CONTENT;
    return is_whole;
}

static bool scan_step(ReplyScanner *s, bool is_end) {
    Text close = text_of(s->format.thinking ? s->format.thinking->close : "");
    switch (s->state) {
    case AT_START: return start_step(s, is_end);
    case IN_REASONING: return text_step(s, PART_REASONING, &close, 1, is_end);
    case IN_CONTENT: return text_step(s, PART_CONTENT, s->markers, s->n_markers, is_end);
    case IN_CALL: return call_step(s, is_end);
    }
    return false;
}

void reply_scanner_feed(ReplyScanner *s, Text text, bool is_end, Arena *out_arena, ReplyParts *out) {
    s->out_arena = out_arena;
    s->out = out;
    builder_text(&s->held, text);
    while (scan_step(s, is_end)) continue;
    if (is_end && s->state == IN_CONTENT && s->space.len) part_push(s, PART_CONTENT, 0, builder_view(&s->space));
    if (is_end) s->space.len = 0;
}

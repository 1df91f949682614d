// reply_scanner: see reply_scanner.h. One state, one list of markers that may come next; what may be the beginning of one is
// held back.
// Example: state CONTENT, "Let me look.\n<tool" → CONTENT "Let me look.", held "\n<tool"
#include "text/reply_scanner.h"

#include <string.h>

#include "base/vec.h"
#include "text/call_scanner.h"

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
    ReplyFormat format;
    ScanState state;
    Text markers[MARKERS_MAX];      // in content: the opening of a call first, then those around calls
    size_t n_markers;
    TextBuilder held, space;        // space: white space that is content only if content follows
    bool drops_space;               // white space that comes now follows thinking or a call
    bool is_bare_call;
    CallScanner *call;              // NULL: no calls are looked for
    Arena *out_arena;
    ReplyParts *out;
};

// ---- texts

static bool contains(Text text, const char *needle) {
    return text_find(text, text_of(needle)) < text.len;
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
    return format->thinking && text_ends(text_trim(prompt), format->thinking->open);
}

ReplyScanner *reply_scanner_create(Arena *arena, const ReplyFormat *format, const json_t *tools, bool is_open) {
    ReplyScanner *s = arena_new(arena, sizeof *s);
    *s = (ReplyScanner){.format = *format, .state = is_open ? IN_REASONING : AT_START,
                        .held = builder(arena), .space = builder(arena), .drops_space = is_open};
    if (json_array_size(tools) == 0) s->format.tools = NULL;
    if (s->format.tools) {
        s->call = call_scanner_create(arena, s->format.tools, tools);
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
    while (s->drops_space && text.len && is_blank(text.at[0])) text = text_after(text, 1);
    if (text.len == 0) return;
    s->drops_space = false;
    builder_text(&s->space, text);
    Text all = builder_view(&s->space);
    size_t solid = all.len;
    while (solid && is_blank(all.at[solid - 1])) solid--;
    if (solid) part_push(s, kind, 0, (Text){all.at, solid});
    builder_drop(&s->space, solid);
}

static void section_end(ReplyScanner *s) {
    s->space.len = 0;
    s->drops_space = true;
}

// ---- the scan

// The earliest of the markers, or where one may begin that is not whole yet. which: −1 for the latter or for none.
static size_t marker_find(Text text, const Text *markers, size_t n, int *which) {
    *which = -1;
    for (size_t at = 0; at < text.len; at++)
        for (size_t i = 0; i < n; i++) {
            bool is_whole;
            if (!text_may_begin(text_after(text, at), markers[i], &is_whole)) continue;
            if (is_whole) *which = (int)i;
            return at;
        }
    return text.len;
}

// False: more text is needed.
static bool start_step(ReplyScanner *s, bool is_end) {
    Text text = builder_view(&s->held);
    while (text.len && is_blank(text.at[0])) text = text_after(text, 1);
    if (text.len == 0 && !is_end) return false;
    Text open = text_of(s->format.thinking ? s->format.thinking->open : "");
    bool thinks, may_think = text_may_begin(text, open, &thinks);
    if (may_think && !thinks && !is_end) return false;
    if (thinks) {
        builder_drop(&s->held, (size_t)(text.at - s->held.at) + open.len);
        s->state = IN_REASONING;
        s->drops_space = true;
        return true;
    }
    s->is_bare_call = s->format.tools && s->format.tools->is_bare && text.len && text.at[0] == '{';
    s->state = s->is_bare_call ? IN_CALL : IN_CONTENT;
    if (s->is_bare_call) call_scanner_begin(s->call);
    return true;
}

static bool text_step(ReplyScanner *s, PartKind kind, const Text *markers, size_t n, bool is_end) {
    int which;
    Text text = builder_view(&s->held);
    size_t at = marker_find(text, markers, n, &which);
    if (which < 0 && is_end) at = text.len;
    give(s, kind, (Text){text.at, at});
    builder_drop(&s->held, which < 0 ? at : at + markers[which].len);
    if (which < 0) return false;
    section_end(s);
    if (s->state == IN_REASONING) s->state = AT_START;      // a call may follow bare
    else if (which == 0) {
        s->state = IN_CALL;
        call_scanner_begin(s->call);
    }
    return true;
}

static bool call_step(ReplyScanner *s, bool is_end) {
    size_t used;
    Text text = builder_view(&s->held);
    CallProgress progress = call_scanner_step(s->call, text, is_end, s->out_arena, s->out, &used);
    if (progress == CALL_NONE) {
        s->drops_space = false;
        if (!s->is_bare_call && !call_scanner_has_calls(s->call)) give(s, PART_CONTENT, text_of(s->format.tools->open));
        give(s, PART_CONTENT, (Text){text.at, used});
    } else if (progress == CALL_ENDED) section_end(s);
    builder_drop(&s->held, used);
    if (progress == CALL_GOES_ON) return used > 0;
    s->is_bare_call = false;
    s->state = IN_CONTENT;
    return true;
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

bool reply_scanner_is_cut(const ReplyScanner *s) {
    return s->call && call_scanner_is_cut(s->call);
}

// reply_scanner: an answer's text, as it comes, cut into what it is: content, thinking, calls of tools.
// In: text in pieces, cut anywhere; the rows of reply_formats.def that the model's chat template speaks. Out: parts.
// Invariant: cut anywhere, the parts put together are the same. A call that is none (no name, no arguments) is content, as it
// was written. Space around calls and thinking is no content. A marker is looked for only where it may stand.
// Example: "<think>Hm.</think>\n\nHi" → REASONING "Hm.", CONTENT "Hi"
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include "base/arena.h"
#include "base/text.h"

// A stretch of an answer: what it is, and its text.
typedef enum PartKind { PART_CONTENT, PART_REASONING, PART_TOOL, PART_ARGUMENTS } PartKind;
typedef struct ReplyPart {
    PartKind kind;
    int tool;                        // TOOL, ARGUMENTS: number of the call in its answer
    Text text;                       // TOOL: the function's name; ARGUMENTS: a piece of its arguments, a JSON object
} ReplyPart;
typedef struct ReplyParts { ReplyPart *at; size_t len, cap; } ReplyParts;

typedef enum ToolSyntax { OBJECT_SYNTAX, PAIRS_SYNTAX, NAMED_SYNTAX } ToolSyntax;
typedef struct ToolFormat {
    const char *name, *mark, *open, *separator, *close;
    ToolSyntax syntax;
    bool is_bare;
    const char *around;
} ToolFormat;
typedef struct ThinkingFormat { const char *open, *close; } ThinkingFormat;
typedef struct ReplyFormat {
    const ToolFormat *tools;         // NULL: none known
    const ThinkingFormat *thinking;  // NULL: none known
} ReplyFormat;

// What a template speaks; source: its text.
ReplyFormat reply_format_find(Text source);
// Markers that may be special tokens, whose text an answer must show.
void reply_format_markers(const ReplyFormat *format, Arena *arena, const Text **markers, size_t *count);
// Does the prompt end with the opening of thinking?
bool reply_format_is_open(const ReplyFormat *format, Text prompt);

typedef struct ReplyScanner ReplyScanner;
// Lives on arena. format's tools are looked for where tools is a list of definitions (OpenAI's form; they say which
// arguments are texts, and must live as long). is_open: the prompt opened the thinking.
ReplyScanner *reply_scanner_create(Arena *arena, const ReplyFormat *format, const json_t *tools, bool is_open);
// Appends what is certain now; texts live on out_arena. is_end: no more will come.
void reply_scanner_feed(ReplyScanner *s, Text text, bool is_end, Arena *out_arena, ReplyParts *out);
// The answer ended inside of a call's arguments, which are no JSON therefore.
bool reply_scanner_is_cut(const ReplyScanner *s);

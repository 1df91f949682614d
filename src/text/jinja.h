// jinja: the template language of chat formats (Jinja2 as chat templates use it).
// In: template text, variables as JSON. Out: the rendered text, cut into spans that say where each
// byte came from.
// Invariant: a parsed template is read-only (any number of threads may render it); a rendering
// allocates only on its context's arena and ends within its limits, whatever bytes the template
// holds.
// Settings are those of chat templates: trim_blocks and lstrip_blocks on, no HTML escaping, loop
// controls on.
// Example: "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}" → "<|user|>Hello!"
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

// Where a byte of text comes from. Special tokens may be read from TEMPLATE text only.
typedef enum JinjaOrigin { JINJA_TEMPLATE = 0, JINJA_DATA = 1 } JinjaOrigin;

typedef struct JinjaTemplate JinjaTemplate;
typedef struct JinjaContext JinjaContext;
typedef struct JinjaSpan { Text text; JinjaOrigin origin; } JinjaSpan;

// text is the whole result; the spans are views of it, in order, none empty, neighbours of
// different origin.
typedef struct JinjaOutput { Text text; JinjaSpan *spans; size_t n_spans; } JinjaOutput;

// What a rendering may use. A step is one node evaluated or one item visited. Bytes are those of
// all strings and lists made, the output included, and of the arena as a whole. Depth counts nested
// expressions, macro calls and containers.
typedef struct JinjaLimits { size_t max_steps, max_bytes; int max_depth; } JinjaLimits;
extern const JinjaLimits jinja_default_limits;   // 20 million steps, 256 MiB, 1,000 levels

// Parses source (UTF-8; other bytes pass through as they are). *out lives as long as the arena.
// Errors: LATHE_BAD_FILE with the line and what was expected.
bool jinja_parse(JinjaTemplate **out, Arena *arena, Text source, Error *err) MUST_CHECK;

// True where the template's code names this variable, e.g. "enable_thinking", "tools".
bool jinja_mentions(const JinjaTemplate *template, const char *name);

// The variables of one rendering. Setting a name again replaces its value; unset names are
// undefined. json may be freed after the call; NULL is the same as JSON null. name must outlive the
// context.
JinjaContext *jinja_context(Arena *arena);
void jinja_set_json(JinjaContext *context, const char *name, const json_t *json,
                    JinjaOrigin origin);
void jinja_set_text(JinjaContext *context, const char *name, Text text, JinjaOrigin origin);
void jinja_set_limits(JinjaContext *context, JinjaLimits limits);
// strftime_now's time, instead of the clock's
void jinja_set_now(JinjaContext *context, int64_t unix_seconds);

// Errors: LATHE_BAD_REQUEST with the line; a message the template itself raised (raise_exception)
// is in the text word for word. A limit that was hit is an error that names it.
bool jinja_render(const JinjaTemplate *template, JinjaContext *context, JinjaOutput *out,
                  Error *err) MUST_CHECK;

// chat_template: a conversation becomes the prompt that a model was trained on.
// In: messages, tools and variables as JSON; the file's own Jinja template, or facts that pick a
// preset row (chat_presets.def). Out: the prompt, cut into segments: text of the format, and text
// that came from the request.
// Invariant: joined, the segments are the prompt exactly as jinja2 would print it. Special tokens
// are to be read from format segments only, so that "<|user|>" in a message stays text.
// Example: user "Hi <|user|>" → "[gMASK]<sop><|user|>\n" | "Hi <|user|>" | "<|assistant|>\n"
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

// What the caller knows of the model file. Texts may be empty where the file says nothing.
typedef struct ChatFacts {
    Text architecture;                             // general.architecture
    Text pre;                                      // tokenizer.ggml.pre
    // as text; empty ones are undefined to the template
    Text bos_token, eos_token, unk_token, pad_token;
    Text eot_token;                                // ends a turn; templates do not see it
    // is this text one special token? NULL: unknown
    bool (*has_token)(void *vocabulary, const char *text);
    void *vocabulary;
} ChatFacts;

typedef struct ChatTemplate ChatTemplate;

// A piece of the prompt. is_template: written by the template (special tokens, role names, fixed
// words); else it came from messages, tools or variables. To tokenise: take the prompt as one text
// (words may cross segments) and accept a special token only where all its bytes lie in template
// segments.
typedef struct ChatSegment { Text text; bool is_template; } ChatSegment;
typedef struct ChatSegments { Text text; ChatSegment *at; size_t len; } ChatSegments;

// source: the template's text, or empty: then the first row of chat_presets.def that fits the
// facts. Nothing of facts is kept but copies. Errors: LATHE_BAD_FILE with the template's line.
bool chat_template_create(ChatTemplate **out, Text source, const ChatFacts *facts,
                          Error *err) MUST_CHECK;
void chat_template_destroy(ChatTemplate *chat);    // NULL is allowed

// How the prompt is made, for people: "jinja" or the preset's name.
const char *chat_template_name(const ChatTemplate *chat);
bool chat_template_is_preset(const ChatTemplate *chat);
// The text that ends an answer, as far as a preset knows it; NULL otherwise (the file's EOS and EOT
// do it then).
const char *chat_template_end_of_turn(const ChatTemplate *chat);
// Does the format know tools, or a switch for thinking (enable_thinking)?
bool chat_template_knows_tools(const ChatTemplate *chat);
bool chat_template_knows_thinking(const ChatTemplate *chat);

// messages: an array of objects with a role. tools: an array, or NULL. kwargs: an object of further
// variables (they win over all others), or NULL. The result lives on arena; chat is only read, so
// threads may share it. Kinder than jinja2, where that would fail or print Python's forms of them:
// null content is an empty text, content given in parts is their joined text, a call's arguments
// given as JSON text are the object they hold.
// Errors: LATHE_BAD_REQUEST; where the template refuses (raise_exception), its message word for
// word.
bool chat_template_render(const ChatTemplate *chat, Arena *arena, const json_t *messages,
                          const json_t *tools,
                          bool generation_prompt, const json_t *kwargs, ChatSegments *out,
                          Error *err) MUST_CHECK;

// chat_form: how a model wants a conversation written: its own template, or a preset, with its special tokens.
// In: an open file. Out: segments of text, or ids. What users said is never read as special tokens.
// Invariant: needs no tokenizer but to encode, so that rendering starts at once even for large vocabularies.
// Example: TRY(chat_form_open(&f, &gguf, NULL, err)); chat_form_render(f, arena, messages, NULL, true, NULL, &s, err)
#pragma once
#include <jansson.h>
#include "app/options.h"
#include "nn/gguf.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

typedef struct ChatForm ChatForm;

// template_file: a Jinja file that replaces the model's own, or NULL. gguf is not needed afterwards.
bool chat_form_open(ChatForm **form, const Gguf *gguf, const char *template_file, Error *err) MUST_CHECK;
void chat_form_close(ChatForm *form);                                  // NULL is allowed
const ChatTemplate *chat_form_template(const ChatForm *form);
// Texts that end an answer besides the model's own end tokens.
const Text *chat_form_stops(const ChatForm *form, size_t *count);
Text chat_form_source(const ChatForm *form);                           // the template's text; empty for a preset
// The conversation, opened for an answer, as token ids; prompt (may be NULL) gets its text. tools: a list, or NULL.
bool chat_form_encode(const ChatForm *form, const Tokenizer *tokenizer, Arena *arena, const json_t *messages,
                      const json_t *tools, const json_t *kwargs, TokenIds *ids, Text *prompt, Error *err) MUST_CHECK;

// A BOS that the model wants and the ids do not begin with is put in front; also before nothing at all, so that an empty
// prompt has a first token where the model has one.
void bos_add(const Tokenizer *tokenizer, Arena *arena, TokenIds *ids);

// JSON of a file (- is standard input); errors name file and line.
bool json_file_read(Arena *arena, const char *path, json_t **out, Error *err) MUST_CHECK;
// The object of --kwargs; NULL where it is not given.
bool chat_kwargs_read(const Options *options, json_t **out, Error *err) MUST_CHECK;

// generation: one request's answers, from checked fields to what goes over the wire.
// In: prompts as ids, Fields. Out: a reply in one piece, or a stream of server-sent events.
// Invariant: whole or streamed, a reply holds the same text; a stream's parts put together are the whole. What the wire
// looks like is a row of functions (Wire), one for each protocol.
// Example: Generation *g; if (generation_begin(&g, x, &fields, &chat_wire, prompts, 1)) generation_reply(g);
#pragma once
#include "app/answer_grammar.h"
#include "app/job.h"
#include "app/request_fields.h"
#include "app/server.h"
#include "text/reply_scanner.h"

typedef struct Choice {
    Job *job;
    size_t text_seen, tokens_seen;   // of the job's, handed on already
    bool is_ended;                   // its end was handed on
    bool has_tools;                  // a PART_TOOL was among its parts
    bool is_cut;                     // it ended inside of a call's arguments
    ReplyScanner *scanner;           // NULL: all is content
    ReplyParts parts;                // all so far, where the reply is whole
} Choice;

// What is new of one choice. Views hold until the next part of the stream.
typedef struct News {
    Choice *choice;
    int index;
    ReplyParts parts;
    Text text;                       // the choice's, from its beginning on, as far as it is out
    const JobToken *tokens;
    size_t n_tokens;
    const TopToken *tops;            // of all tokens: first_top counts from here
} News;

typedef struct Generation Generation;
typedef struct Wire {
    const char *id_prefix;
    void (*begin)(Generation *g, TextBuilder *out);
    void (*news)(Generation *g, const News *news, TextBuilder *out);
    void (*end)(Generation *g, Choice *choice, int index, TextBuilder *out);       // of one choice
    void (*finish)(Generation *g, TextBuilder *out);                               // of all
    json_t *(*whole)(Generation *g);
    void (*failed)(Generation *g, int status, const Error *why, TextBuilder *out); // in the middle of a stream
    const char *keep_alive;          // what a quiet stream says
    const char *tool_name, *tool_schema;     // where a tool of the request has them; NULL: there are no tools
} Wire;

struct Generation {
    Exchange *x;
    Server *server;
    const Wire *wire;
    Fields fields;                   // owned
    pthread_cond_t news;
    Job *jobs;
    Choice *choices;
    int n;
    const Text *prompt_texts;        // [n / answers a prompt], for echo; NULL: none
    int answers;                     // for each prompt
    int64_t prompt_tokens;           // of all prompts, as they were asked
    char id[48];
    int64_t created;
    Arena *scratch;                  // of one part of the stream
    bool has_begun, has_failed;
    void *wire_state;                // the protocol's own, on x->arena
};

typedef struct GenerationSetup {
    const Wire *wire;
    const TokenIds *prompts;
    int n_prompts;
    const ReplyFormat *format;       // how answers are cut into parts; NULL: all is content
    const json_t *tools;             // in OpenAI's form, part of the fields' body or on its own
    bool thinks_first;               // the prompt opened the thinking
    int64_t thinking_budget;         // most tokens of thinking, where format has any; < 0: no limit
    AnswerGrammar grammar;           // what each answer must look like; a NULL grammar: anything
    void *wire_state;
} GenerationSetup;

// Takes the fields over. n_prompts × fields' n answers are made. Sets the reply and returns false where the request is
// refused (400: a prompt that does not fit the context; 429: the queue is full; 503: the server ends).
bool generation_begin(Generation **generation, Exchange *x, Fields *fields, const GenerationSetup *setup) MUST_CHECK;
void generation_reply(Generation *g);                      // waits for the answers, or sets up the stream
bool generation_has_ended(const Generation *g);            // all of its choices have said that they end
bool generation_is_cut(const Choice *choice);              // no room was left for more; where calls are whole, nothing is missing
const char *generation_finish_reason(const Choice *choice);  // stop, length or tool_calls
json_t *generation_usage(const Generation *g);             // OpenAI's, with cached tokens
json_t *generation_timings(const Generation *g);           // of each phase
void generation_mark_text(const Generation *g, json_t *usage);        // with --cache-text: tokens found by their text
// data: {…}\n\n; takes the reference. event: NULL for none.
void event_put(TextBuilder *out, const char *event, json_t *value);
// The arguments of the call whose PART_TOOL is the i-th part, put together.
Text reply_arguments_of(Arena *arena, const ReplyParts *parts, size_t i);
// The text of all parts of one kind.
Text reply_text_of(Arena *arena, const ReplyParts *parts, PartKind kind);

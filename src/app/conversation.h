// conversation: turns of a chat (or one raw text) on a loaded model, one answer at a time.
// In: what was said. Out: the answer's text, in parts as it is generated, and what it took.
// Invariant: parts are whole characters, and put together they are the answer; special tokens never show. What was
// said is data: names of special tokens in it stay text. An answer that was stopped stays part of the history.
// Example: TRY(conversation_open(&c, &loaded, &options, err)); TRY(conversation_answer(&c, text_of("Hi"), print, NULL, &a, err));
#pragma once
#include <jansson.h>
#include "app/chat_form.h"
#include "app/loaded.h"
#include "models/generate.h"
#include "text/tokenizer.h"

typedef enum StopReason {
    STOP_END,                 // the model ended its turn
    STOP_LENGTH,              // -n
    STOP_CONTEXT,             // no room is left
    STOP_INTERRUPTED,         // Ctrl-C, or who receives the answer wants no more
} StopReason;

typedef struct Answer {
    Text text;                // valid until the next answer
    StopReason reason;
    int64_t prompt_tokens;    // of the whole prompt ...
    int64_t reused_tokens;    // ... and those of them that lay in the cache already
    int64_t generated_tokens;
    double prompt_s;          // until the first token was there, without compiling
    double generation_s;      // for all tokens behind the first, without compiling
    double compile_s;         // spent compiling kernels during this answer
} Answer;

typedef struct ConversationOptions {
    SamplingOptions sampling;
    int64_t most_tokens;          // of an answer; < 0: no limit
    const char *template_file;    // NULL: the model's own form
    Text system;                  // empty: no system message
    const json_t *kwargs;         // more variables for the template, or NULL
} ConversationOptions;

typedef struct Conversation {
    Loaded *loaded;
    Tokenizer *tokenizer;
    ChatForm *form;
    Session *session;
    ConversationOptions options;  // sampling and most_tokens may change between answers
    json_t *messages;
    Arena *arena;                 // of the current answer
} Conversation;

// Receives a part of an answer. False stops the answer.
typedef bool AnswerPart(void *context, Text part);

// loaded and what the options point to must outlive the conversation.
bool conversation_open(Conversation *c, Loaded *loaded, const ConversationOptions *options, Error *err) MUST_CHECK;
void conversation_close(Conversation *c);
void conversation_clear(Conversation *c);        // forgets everything but the system message
// said becomes a user message, and the answer an assistant message of the history.
bool conversation_answer(Conversation *c, Text said, AnswerPart *part, void *context, Answer *answer, Error *err)
    MUST_CHECK;
// Continues a text as it is; the history of messages is neither used nor changed.
bool conversation_continue(Conversation *c, Text text, AnswerPart *part, void *context, Answer *answer, Error *err)
    MUST_CHECK;
const char *stop_reason_name(StopReason reason); // end, length, context, interrupted
// Tokens a second; NAN where there is nothing to divide.
double answer_prompt_rate(const Answer *answer);
double answer_generation_rate(const Answer *answer);

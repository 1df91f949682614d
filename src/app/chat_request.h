// chat_request: a conversation to be answered, whichever protocol it came in.
// In: messages, tools and choices in OpenAI's form. Out: a reply through the protocol's Wire.
// Invariant: what the model's chat template has no form for is refused, never dropped.
// Example: chat_request_answer(x, &fields, &(ChatRequest){.wire = &chat_wire, .messages = …})
#pragma once
#include "app/generation.h"

typedef struct ChatRequest {
    const Wire *wire;
    const json_t *messages, *tools;      // tools: NULL for none
    const json_t *tool_choice;           // "none", "auto", "required", {"function": {"name"}}, or NULL
    bool is_single_call;                 // at most one call, whatever the field parallel_tool_calls says
    const json_t *kwargs;                // more variables for the template, or NULL
    const json_t *response_format;       // or NULL
    const char *format_name;             // what the request calls it; NULL: response_format
    int64_t thinking_budget;             // most tokens of thinking; < 0: no limit
    void *wire_state;
} ChatRequest;

// The request's budget, under either of its names; otherwise: where it has none.
int64_t thinking_budget_of(const Fields *fields, int64_t otherwise);
// Takes the fields over; sets the reply.
void chat_request_answer(Exchange *x, Fields *fields, const ChatRequest *request);

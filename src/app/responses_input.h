// responses_input: what /v1/responses is asked, in the form of chats.
// In: checked fields of a request: input, instructions, tools, tool_choice, text, reasoning. Out: messages, tools and choices
// as OpenAI's chats have them.
// Invariant: items of one turn of the assistant (its reasoning, its text, its calls) become one message. What has no
// counterpart is a 400 that names its place.
// Example: "Hi", instructions "Be brief." → [{"role": "system", …}, {"role": "user", "content": "Hi"}]
#pragma once
#include "app/chat_request.h"

// Sets request's messages, tools, tool_choice, kwargs, response_format and thinking_budget; what is made for it lives in the
// fields' body. False: the reply is set.
bool responses_input_read(Exchange *x, Fields *fields, ChatRequest *request) MUST_CHECK;

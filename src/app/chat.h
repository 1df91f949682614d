// chat: a conversation at the terminal, with line editing and a history that outlives the program.
// In: lines typed at the terminal. Out: answers. Ctrl-C stops an answer; at the prompt a second one leaves.
// Invariant: the terminal is left as it was found; the history file is private to the user.
// Example: TRY(chat_at_terminal(&conversation, err));
#pragma once
#include "app/conversation.h"

bool chat_at_terminal(Conversation *c, Error *err) MUST_CHECK;
// The line of honest figures behind an answer, on standard error.
void figures_print(const Conversation *c, const Answer *answer);
bool part_print(void *context, Text part);       // an AnswerPart: to standard output, at once

// chat: a conversation at the terminal. In: messages typed there. Out: answers as they come.
// A message of one word that begins with / is a command: /help lists the few there are.
// Invariant: an error of one answer (a full context) does not end the chat; errors of the terminal do.
// Example: > Tell me a story.  …  > /clear  > /exit
#include "app/chat.h"

#include <stdio.h>
#include <string.h>

#include "app/interrupt.h"
#include "app/line_editor.h"
#include "app/terminal.h"

typedef struct ChatCommand { const char *name, *help; } ChatCommand;
static const ChatCommand chat_commands[] = {
    {"/help", "this list"},
    {"/clear", "forget the conversation"},
    {"/exit", "leave (also Ctrl-D, or Ctrl-C twice)"},
};
enum { CHAT_HELP, CHAT_CLEAR, CHAT_EXIT, CHAT_COMMANDS };

static int chat_command_find(const char *message) {
    for (int i = 0; i < CHAT_COMMANDS; i++)
        if (strcmp(chat_commands[i].name, message) == 0) return i;
    return CHAT_COMMANDS;
}

// One word behind a slash, and none of ours: a slip of the keyboard rather than something to ask a model.
static bool is_command_like(const char *message) {
    size_t len = strlen(message);
    return len > 1 && message[0] == '/' && strspn(message + 1, "abcdefghijklmnopqrstuvwxyz?") == len - 1;
}

// False where the chat is to end.
static bool message_handle(Conversation *c, const char *message) {
    Answer answer;
    Error err = {0};
    int command = chat_command_find(message);
    if (command == CHAT_EXIT) return false;
    if (command == CHAT_CLEAR) {
        conversation_clear(c);
        fputs("(a new conversation)\n", stderr);
    } else if (command == CHAT_HELP) {
        for (int i = 0; i < CHAT_COMMANDS; i++) fprintf(stderr, "  %-8s %s\n", chat_commands[i].name, chat_commands[i].help);
        fputs("  A line that ends with \\ goes on in the next one.\n", stderr);
    } else if (is_command_like(message)) {
        fprintf(stderr, "(there is no command %s; /help lists them)\n", message);
    } else if (*message) {
        interrupt_clear();
        bool ok = conversation_answer(c, text_of(message), part_print, NULL, &answer, &err);
        putchar('\n');
        if (ok) figures_print(c, &answer);
        else error_print("run", &err);
    }
    return true;
}

bool chat_at_terminal(Conversation *c, Error *err) {
    Arena *arena = arena_create();
    LineEditor *editor = line_editor_open(arena);
    if (editor) {
        const char *message;
        interrupt_watch();
        fputs("(/help lists commands; Ctrl-C stops an answer, Ctrl-D leaves)\n", stderr);
        while ((message = line_editor_read(editor, arena)) != NULL && message_handle(c, message)) continue;
        fputs("\n", stderr);
        line_editor_close(editor);
    }
    arena_destroy(arena);
    return editor || fail(err, LATHE_IO, "cannot read lines from this terminal; give the prompt with -p");
}

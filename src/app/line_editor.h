// line_editor: messages typed at the terminal, with editing keys and a history that outlives the program (libedit).
// In: keys. Out: one message, of one line or of several that end with a backslash. Needs interrupt_watch before it.
// Invariant: the terminal is left as it was found; the history file is private to the user.
// Example: LineEditor *e = line_editor_open(arena); while ((m = line_editor_read(e, arena))) answer(m);
#pragma once
#include "base/arena.h"

typedef struct LineEditor LineEditor;

LineEditor *line_editor_open(Arena *arena);                     // NULL where this terminal cannot be read
// NULL at the end of input and after two Ctrl-C in a row. The message lives on arena and is remembered.
const char *line_editor_read(LineEditor *editor, Arena *arena);
void line_editor_close(LineEditor *editor);

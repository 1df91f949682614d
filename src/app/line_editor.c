// line_editor: libedit behind three functions. In: keys. Out: messages. Invariant: as the header says.
// Example: "> Tell me \\" and ". a story." → "Tell me \n a story."
#include "app/line_editor.h"

#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "app/interrupt.h"
#include "base/os.h"

enum { HISTORY_LINES = 1000 };

struct LineEditor {
    EditLine *edit;
    History *history;
    const char *history_file;        // NULL where it cannot be kept
    bool goes_on;                    // the line before ended with a backslash
};

// libedit's own reader would swallow the first Ctrl-C; this one gives the line up.
static int character_read(EditLine *edit, wchar_t *out) {
    (void)edit;
    mbstate_t state = {0};
    for (;;) {
        char byte;
        if (!interrupt_wait_readable(STDIN_FILENO)) return -1;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0) return (int)n;
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1) {
            *out = L'?';
            return 1;
        }
        if (used != (size_t)-2) return 1;
    }
}

static char *prompt_text(EditLine *edit) {
    static char first[] = "> ", more[] = ". ";
    void *editor = NULL;
    el_get(edit, EL_CLIENTDATA, &editor);
    return ((LineEditor *)editor)->goes_on ? more : first;
}

// Characters beyond ASCII need a locale that knows them; numbers must stay as C writes them.
static void locale_set(void) {
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
}

LineEditor *line_editor_open(Arena *arena) {
    HistEvent event;
    Error ignored;
    LineEditor *e = arena_new(arena, sizeof *e);
    locale_set();
    *e = (LineEditor){.edit = el_init("lathe", stdin, stdout, stderr), .history = history_init()};
    if (!e->edit || !e->history) {
        line_editor_close(e);
        return NULL;
    }
    const char *folder = cache_dir(arena);
    if (dir_make(folder, &ignored)) e->history_file = arena_printf(arena, "%s/history", folder);
    history(e->history, &event, H_SETSIZE, HISTORY_LINES);
    history(e->history, &event, H_SETUNIQUE, 1);
    if (e->history_file) history(e->history, &event, H_LOAD, e->history_file);
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_PROMPT, prompt_text);
    el_set(e->edit, EL_EDITOR, "emacs");
    el_set(e->edit, EL_HIST, history, e->history);
    el_set(e->edit, EL_GETCFN, character_read);
    el_source(e->edit, NULL);
    return e;
}

void line_editor_close(LineEditor *e) {
    if (e->edit) el_end(e->edit);
    if (e->history) history_end(e->history);
}

static void line_remember(LineEditor *e, const char *line) {
    HistEvent event;
    history(e->history, &event, H_ENTER, line);
    if (!e->history_file) return;
    mode_t mask = umask(077);
    history(e->history, &event, H_SAVE, e->history_file);
    umask(mask);
}

const char *line_editor_read(LineEditor *e, Arena *arena) {
    TextBuilder message = builder(arena);
    int interrupts = 0;
    e->goes_on = false;
    interrupt_clear();   // once: what comes after the hint below is the second one, however early
    for (;;) {
        int n = 0;
        // Keys pressed as soon as the prompt shows must find the terminal ready for them.
        el_set(e->edit, EL_PREP_TERM, 1);
        const char *line = el_gets(e->edit, &n);
        if (!line || n <= 0) {
            if (!interrupt_count() || ++interrupts == 2) return NULL;
            interrupt_clear();
            fputs("\n(Ctrl-C again, or Ctrl-D, leaves)\n", stderr);
            el_reset(e->edit);
            message.len = 0;
            e->goes_on = false;
            continue;
        }
        Text text = {line, (size_t)n};
        if (text_ends(text, "\n")) text.len--;
        e->goes_on = text_ends(text, "\\");
        if (e->goes_on) text.len--;
        builder_text(&message, text);
        if (e->goes_on) builder_char(&message, '\n');
        else break;
    }
    const char *typed = builder_cstr(&message);
    if (*typed) line_remember(e, typed);
    return typed;
}

// options: the one parser of the command line and the help pages, both loops over the rows of the two tables.
// In: argv. Out: Options, or an error that names the closest flag or command.
// Invariant: nothing here knows a single flag or command; rows do.
// Example: "--tmp 1" → unknown flag --tmp; did you mean --temp? See: lathe run --help
#include "app/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "models/generate.h"
#include "nn/sampling.h"
#include "runtime/device.h"

typedef enum OptionKind { SWITCH, INT, REAL, TEXT, CHOICE, LIST, DEVICE } OptionKind;

typedef enum CommandBit {
#define COMMAND(name, arguments, fewest, most, help) BIT_##name,
#include "app/commands.def"
#undef COMMAND
} CommandBit;

#define ALL 0xffffffffu
#define RUN (1u << BIT_run)
#define SERVE (1u << BIT_serve)
#define ANSWER (RUN | SERVE)
#define BENCH (1u << BIT_bench)
#define PROFILE (1u << BIT_profile)
#define PERPLEXITY (1u << BIT_perplexity)
#define LOGITS (1u << BIT_logits)
#define TOKENIZE (1u << BIT_tokenize)
#define TEMPLATE (1u << BIT_template)
#define CHECK_FILE (1u << BIT_check)
#define ENGINE (RUN | SERVE | BENCH | PROFILE | PERPLEXITY | LOGITS)
#define OFFLINE (ENGINE & ~SERVE)
#define MODEL (ENGINE | TOKENIZE | TEMPLATE | CHECK_FILE)
#define READABLE (ALL & ~(TEMPLATE | SERVE))

typedef struct OptionRow {
    const char *flag, *short_flag;
    OptionKind kind;
    const char *value, *fallback;
    double least, most;
    unsigned commands;
    const char *help;
} OptionRow;

static const OptionRow option_rows[OPTION_COUNT] = {
#define OPTION(id, flag, short_flag, kind, value, fallback, least, most, commands, help) \
    {flag, short_flag, kind, value, fallback, (double)(least), (double)(most), commands, help},
#include "app/options.def"
#undef OPTION
};

#define COMMAND(name, arguments, fewest, most, help) CommandFunction command_##name;
#include "app/commands.def"
#undef COMMAND

const Command commands[] = {
#define COMMAND(name, arguments, fewest, most, help) {#name, arguments, fewest, most, help, command_##name},
#include "app/commands.def"
#undef COMMAND
    {NULL, NULL, 0, 0, NULL, NULL},
};

// ---- the closest name

enum { LONGEST_NAME = 64 };

// Edits (insert, delete, replace) that turn a into b.
static int edit_distance(const char *a, const char *b) {
    int row[LONGEST_NAME + 1];
    int len = (int)strlen(b);
    if (len > LONGEST_NAME || strlen(a) > LONGEST_NAME) return LONGEST_NAME;
    for (int j = 0; j <= len; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= len; j++) {
            int replaced = diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
            int shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[len];
}

const char *name_closest(const char *word, const char *(*name_at)(int n, const void *list), const void *list) {
    const char *best = NULL;
    int best_distance = LONGEST_NAME, length = (int)strlen(word);
    for (int n = 0; name_at(n, list); n++) {
        const char *name = name_at(n, list);
        int distance = edit_distance(word, name);
        // What begins with the word is near, however much is missing: --temperature, --temp.
        size_t common = strlen(name) < strlen(word) ? strlen(name) : strlen(word);
        if (common >= 3 && strncmp(word, name, common) == 0) distance = distance > 1 ? 1 : distance;
        if (distance < best_distance) {
            best_distance = distance;
            best = name;
        }
    }
    return best_distance <= 1 + length / 3 ? best : NULL;
}

static unsigned command_bit(const Command *command) {
    return command ? 1u << (command - commands) : 0;
}

static const char *command_name_at(int n, const void *list) {
    (void)list;
    return commands[n].name;
}

// list is the command: flags it does not know are left out.
static const char *flag_at(int n, const void *list) {
    int seen = 0;
    for (int id = 0; id < OPTION_COUNT; id++)
        if (option_rows[id].commands & command_bit(list) && seen++ == n) return option_rows[id].flag;
    return NULL;
}

// ---- values

static bool int_read(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && !isspace((unsigned char)*text);
}

static bool real_read(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && !isspace((unsigned char)*text);
}

static bool number_check(const OptionRow *row, const char *text, Error *err) {
    int64_t whole = 0;
    double number = 0;
    bool ok = row->kind == INT ? int_read(text, &whole) : real_read(text, &number);
    if (row->kind == INT) number = (double)whole;
    if (!ok)
        return fail(err, LATHE_BAD_REQUEST, "%s needs a %s, not \"%s\"", row->flag,
                    row->kind == INT ? "whole number" : "number", text);
    if (number < row->least || number > row->most)
        return fail(err, LATHE_BAD_REQUEST, "%s %s: must lie between %.15g and %.15g", row->flag, text, row->least,
                    row->most);
    return true;
}

static bool device_check(const char *name, Error *err) {
    char known[256] = "";
    if (device_find(name)) return true;
    for (int n = 0; devices[n]; n++) {
        strncat(known, n ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, devices[n]->name, sizeof known - strlen(known) - 1);
    }
    return fail(err, LATHE_BAD_REQUEST, "--device %s: this lathe has no such device; it has: %s", name, known);
}

// Whether text is one of those that stand in choices with | between them.
static bool is_choice(const char *choices, const char *text) {
    size_t n = strlen(text);
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (n && strncmp(at, text, n) == 0 && (at[n] == '|' || at[n] == '\0')) return true;
    return false;
}

static bool value_set(Options *o, OptionId id, const char *text, Error *err) {
    const OptionRow *row = &option_rows[id];
    if (row->kind == INT || row->kind == REAL) TRY(number_check(row, text, err));
    if (row->kind == DEVICE) TRY(device_check(text, err));
    if (row->kind == TEXT && row->least > 0 && !*text)
        return fail(err, LATHE_BAD_REQUEST, "%s needs %s, not an empty text", row->flag, row->value);
    if (row->kind == CHOICE && !is_choice(row->value, text))
        return fail(err, LATHE_BAD_REQUEST, "%s %s: it must be one of %s", row->flag, text, row->value);
    if (row->kind == LIST) {
        o->overrides[o->n_overrides++] = text;
        return true;
    }
    o->texts[id] = text;
    return true;
}

// ---- what people type who come from other programs

static const struct Habit { const char *word, *hint; } habits[] = {
#define HABIT(word, hint) {word, hint},
#include "app/habits.def"
#undef HABIT
};

static const char *habit_hint(const char *word) {
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strcmp(habits[i].word, word) == 0) return habits[i].hint;
    return NULL;
}

// ---- the parser

// kind: what the word should have been; of: the command whose help page says more, with a space behind it, or "".
static bool word_unknown(const char *kind, const char *word, const char *close, const char *of, Error *err) {
    const char *hint = habit_hint(word);
    if (hint) return fail(err, LATHE_BAD_REQUEST, "unknown %s %s; here it is %s. See: lathe %s--help", kind, word, hint, of);
    return fail(err, LATHE_BAD_REQUEST, "unknown %s %s%s%s%s See: lathe %s--help", kind, word,
                close ? "; did you mean " : "", close ? close : "", close ? "?" : ".", of);
}

static bool flag_unknown(const Options *o, const char *flag, Error *err) {
    return word_unknown("flag", flag, name_closest(flag, flag_at, o->command), arena_printf(o->arena, "%s ", o->command->name), err);
}

static bool flag_parse(Options *o, char **argv, int argc, int *at, Error *err) {
    const char *word = argv[*at];
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const char *flag = text_cstr(o->arena, (Text){word, len});
    for (int id = 0; id < OPTION_COUNT; id++) {
        const OptionRow *row = &option_rows[id];
        if (!(row->commands & command_bit(o->command))) continue;
        if (strcmp(flag, row->flag) != 0 && (!row->short_flag || strcmp(flag, row->short_flag) != 0)) continue;
        if (row->kind == SWITCH) {
            if (equals) return fail(err, LATHE_BAD_REQUEST, "%s takes no value", row->flag);
            o->texts[id] = "1";
            return true;
        }
        if (equals) return value_set(o, (OptionId)id, equals + 1, err);
        if (*at + 1 >= argc)
            return fail(err, LATHE_BAD_REQUEST, "%s needs a value: %s %s", flag, row->flag, row->value);
        return value_set(o, (OptionId)id, argv[++*at], err);
    }
    return flag_unknown(o, flag, err);
}

static bool command_find(Options *o, const char *name, Error *err) {
    for (const Command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0) {
            o->command = c;
            return true;
        }
    if (name[0] == '-')
        return fail(err, LATHE_BAD_REQUEST, "%s: a command comes first, for example: lathe run %s …", name, name);
    if (text_ends(text_of(name), ".gguf"))
        return fail(err, LATHE_BAD_REQUEST, "%s: a command comes first, for example: lathe run %s", name, name);
    return word_unknown("command", name, name_closest(name, command_name_at, NULL), "", err);
}

static bool words_check(const Options *o, Error *err) {
    const Command *c = o->command;
    if (o->n_words > c->most_words)
        return fail(err, LATHE_BAD_REQUEST, "\"%s\" is one word too many (a text with spaces needs quotes); "
                    "usage: lathe %s %s [flags]", o->words[c->most_words], c->name, c->arguments);
    if (o->n_words < c->fewest_words)
        return fail(err, LATHE_BAD_REQUEST, "something is missing; usage: lathe %s %s [flags]", c->name, c->arguments);
    return true;
}

bool options_parse(Options *o, Arena *arena, int argc, char **argv, Error *err) {
    *o = (Options){.arena = arena};
    o->overrides = arena_new(arena, (size_t)argc * sizeof *o->overrides);
    o->words = arena_new(arena, (size_t)argc * sizeof *o->words);
    for (int id = 0; id < OPTION_COUNT; id++)
        o->texts[id] = *option_rows[id].fallback ? option_rows[id].fallback : NULL;
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        o->wants_help = argc >= 2;
        return argc >= 3 && argv[1][0] == 'h' ? command_find(o, argv[2], err) : true;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version")) {
        o->wants_version = true;
        return true;
    }
    TRY(command_find(o, argv[1], err));
    bool flags_ended = false;
    for (int at = 2; at < argc; at++) {
        const char *word = argv[at];
        if (flags_ended || word[0] != '-' || word[1] == '\0') o->words[o->n_words++] = word;
        else if (strcmp(word, "--") == 0) flags_ended = true;
        else TRY(flag_parse(o, argv, argc, &at, err));
    }
    o->wants_help = o->texts[OPTION_help] != NULL;
    return o->wants_help || words_check(o, err);
}

// ---- reading

bool option_given(const Options *o, OptionId id) {
    return o->texts[id] != NULL;
}

int64_t option_int(const Options *o, OptionId id) {
    int64_t value = 0;
    CHECK(option_rows[id].kind == INT && int_read(o->texts[id], &value));
    return value;
}

double option_real(const Options *o, OptionId id) {
    double value = 0;
    CHECK(option_rows[id].kind == REAL && real_read(o->texts[id], &value));
    return value;
}

const char *option_text(const Options *o, OptionId id) {
    return o->texts[id];
}

// ---- help

static void help_overview(FILE *to) {
    fputs("lathe runs language models (GGUF files); every kernel is made by its own compiler.\n\n"
          "usage: lathe COMMAND [MODEL] [flags]\n\n", to);
    for (const Command *c = commands; c->name; c++) fprintf(to, "  %-10s %s\n", c->name, c->help);
    fputs("\nMODEL is a file, a name (lathe models), or nothing: the small model inside this program.\n"
          "Flags of a command: lathe COMMAND --help\n\n"
          "  lathe run -p \"Tell me a story about a rabbit.\"\n"
          "  lathe run model.gguf\n", to);
}

void options_help(FILE *to, const Command *command) {
    if (!command) {
        help_overview(to);
        return;
    }
    fprintf(to, "lathe %s: %s\n\nusage: lathe %s %s [flags]\n\n", command->name, command->help, command->name,
            command->arguments);
    for (int id = 0; id < OPTION_COUNT; id++) {
        const OptionRow *row = &option_rows[id];
        if (!(row->commands & command_bit(command))) continue;
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s%s", row->short_flag ? row->short_flag : "", row->short_flag ? ", " : "",
                 row->flag, *row->value ? " " : "", row->value);
        bool says_default = row->kind != SWITCH && *row->fallback && !strstr(row->help, "default");
        fprintf(to, "  %-26s %s", left, row->help);
        if (says_default) fprintf(to, " (%s)", row->fallback);
        fputc('\n', to);
    }
}

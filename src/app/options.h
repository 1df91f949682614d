// options: the command line as data: rows of commands.def and options.def, and one parser for all of them.
// In: argc and argv. Out: the command, a value for each flag, the words that are no flags.
// Invariant: after options_parse succeeded every number lies within its row's bounds and the device exists.
// Example: lathe run m.gguf -n 8 → command "run", words[0] "m.gguf", option_int(o, OPTION_n_tokens) == 8
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/arena.h"
#include "base/error.h"

typedef enum OptionId {
#define OPTION(id, flag, short_flag, kind, value, fallback, least, most, commands, help) OPTION_##id,
#include "app/options.def"
#undef OPTION
    OPTION_COUNT
} OptionId;

typedef struct Options Options;

// false: *err says why; the program ends with exit code 1.
typedef bool CommandFunction(const Options *options, Error *err);

typedef struct Command {
    const char *name, *arguments;
    int fewest_words, most_words;
    const char *help;
    CommandFunction *run;
} Command;

extern const Command commands[];              // ends with a NULL name

struct Options {
    Arena *arena;                             // lives as long as the command
    const Command *command;                   // NULL where the command line names none
    bool wants_help, wants_version;
    const char *texts[OPTION_COUNT];          // as given, or the default; NULL where neither is there
    const char **overrides;                   // values of the LIST flag, in order
    int n_overrides;
    const char **words;
    int n_words;
};

// A flag may be written --flag VALUE or --flag=VALUE; -- ends the flags. Errors name the closest flag or command.
bool options_parse(Options *options, Arena *arena, int argc, char **argv, Error *err) MUST_CHECK;
void options_help(FILE *to, const Command *command);   // NULL: all commands. Fits a screen.

bool option_given(const Options *options, OptionId id);          // also by its default
int64_t option_int(const Options *options, OptionId id);
double option_real(const Options *options, OptionId id);
const char *option_text(const Options *options, OptionId id);    // NULL where not given
// The n-th name of a list that is most like word; NULL where none is near. For messages.
const char *name_closest(const char *word, const char *(*name_at)(int n, const void *list), const void *list);

// main: the command line's door. In: argv. Out: exit code 0, 1 (something failed) or 2 (what was asked for cannot be).
// The road: options_parse finds the command's row and its flags, the row's function does the work.
// Invariant: results go to standard output, everything else to standard error; an error names cause and next step.
// Example: lathe run -p "Hi" → commands[] row "run" → command_run
#include <stdio.h>

#include "app/options.h"
#include "app/terminal.h"
#include "base/os.h"
#include "base/settings.h"
#include "lathe.h"

enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int options_run(const Options *options) {
    Error err = {0};
    if (options->wants_version) printf("lathe %s\n", LATHE_VERSION);
    else if (options->wants_help || !options->command) options_help(stdout, options->command);
    else if (!options->command->run(options, &err)) {
        error_print(options->command->name, &err);
        return err.code == LATHE_BAD_REQUEST ? EXIT_USAGE : EXIT_FAILED;
    }
    if (output_flush(&err)) return EXIT_FINE;
    error_print(NULL, &err);
    return EXIT_FAILED;
}

int main(int argc, char **argv) {
    process_begin();
    Arena *arena = arena_create();
    Options options;
    Error err = {0};
    int code = EXIT_USAGE;
    if (!options_parse(&options, arena, argc, argv, &err) || !settings_check(&err))
        error_print(options.command ? options.command->name : NULL, &err);
    else if (argc < 2) options_help(stderr, NULL);
    else code = options_run(&options);
    arena_destroy(arena);
    return code;
}

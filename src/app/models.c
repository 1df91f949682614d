// models: the command that lists known models: where each lies, or where to get it.
// In: models.def and the folders. Out: a table, or JSON with name, path (null where absent), source.
// Invariant: nothing is opened or fetched. Example: lathe models --json | jq '.[].name'
#include <stdio.h>

#include "app/json_output.h"
#include "app/model_find.h"
#include "app/options.h"
#include "app/terminal.h"

static void models_print_json(Arena *arena) {
    json_t *rows = json_array();
    json_array_append_new(rows, json_pack("{s:s, s:n, s:b, s:n}", "name", "storyteller", "path", "embedded", 1, "source"));
    for (const KnownModel *k = known_models; k->name; k++)
        json_array_append_new(rows, json_pack("{s:s, s:s?, s:b, s:s}", "name", k->name, "path", model_locate(arena, k),
                                              "embedded", 0, "source", k->source));
    json_print(rows, 6);
}

bool command_models(const Options *options, Error *err) {
    (void)err;
    Arena *arena = options->arena;
    if (option_given(options, OPTION_json)) {
        models_print_json(arena);
        return true;
    }
    printf("%-18s %s\n", "storyteller", "inside lathe: 23 M parameters, tells short stories");
    for (const KnownModel *k = known_models; k->name; k++) {
        const char *path = model_locate(arena, k);
        printf("%-18s %s%s\n", k->name, path ? path : "not here: get ", path ? "" : k->file);
        if (!path) printf("%-18s %s%s (%s)%s\n", "", style_begin_dim(), k->source, k->help, style_end());
    }
    const char *folders[MODEL_FOLDERS];
    model_folders(arena, folders);
    printf("\nLooked in:");
    for (int i = 0; i < MODEL_FOLDERS; i++)
        if (folders[i]) printf(" %s", folders[i]);
    printf("\nAny other GGUF file: lathe run PATH. Is it supported? lathe check PATH\n");
    return true;
}

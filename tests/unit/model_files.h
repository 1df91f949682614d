// model_files: the tiny test models, made by tools/make_model.py on first use and kept in the build folder.
#pragma once
#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"

// Path of SHAPE-QUANT.gguf, seed 1; NULL (and a line that says why) where Python or its packages are missing.
static inline const char *model_file(Arena *arena, const char *shape, const char *quant) {
    const char *build = getenv("LATHE_BUILD");
    const char *folder = arena_printf(arena, "%s/models", build && *build ? build : "build");
    const char *path = arena_printf(arena, "%s/%s-%s.gguf", folder, shape, quant);
    Error err = {0};
    Text output;
    int status;
    if (file_exists(path)) return path;
    if (!dir_make(folder, &err)) return NULL;
    const char *argv[] = {
        "python3", "tools/make_model.py", shape, "--quant", quant, "--seed", "1", "-o", path, NULL};
    if (process_run(arena, argv, 120000, &status, &output, &err) && status == 0 &&
        file_exists(path))
        return path;
    printf("skipped: %s-%s needs python3 with numpy and gguf\n", shape, quant);
    return NULL;
}

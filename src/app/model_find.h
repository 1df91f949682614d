// model_find: from what the user wrote as MODEL to an open file.
// In: a path, a name (models.def, or a file in one of the folders), or NULL for the model inside the binary.
// Out: an open Gguf. Folders, in order: LATHE_MODELS, ./models, models in the cache folder.
// Invariant: what is not found is an error that says where it was looked for and where to get it.
// Example: TRY(model_open(&g, arena, "glm-4.7-flash", NULL, 0, err)) opens ./models/GLM-4.7-Flash-Q4_K_M.gguf
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "nn/gguf.h"

typedef struct KnownModel { const char *name, *file, *source, *help; } KnownModel;
extern const KnownModel known_models[];            // ends with a NULL name

enum { MODEL_FOLDERS = 3 };
extern const char *const embedded_model_name;      // how messages call the model inside the binary

void model_folders(Arena *arena, const char *folders[MODEL_FOLDERS]);   // NULL where one is not set
// The file of a known model, or NULL. Two files that begin with the name: the first in alphabetical order.
const char *model_locate(Arena *arena, const KnownModel *known);
// word: path, name or NULL. *path gets what messages should call it. overrides as in --override-kv.
bool model_open(Gguf *gguf, Arena *arena, const char *word, const char *const *overrides, int n_overrides,
                const char **path, Error *err) MUST_CHECK;

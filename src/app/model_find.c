// model_find: looks for model files by path, by name, and in the binary itself.
// In: the MODEL word. Out: an open Gguf. Invariant: a path that exists always wins over a name.
// Example: "qwen3-0.6b" → ~/.cache/lathe/models/Qwen3-0.6B-Q8_0.gguf
#include "app/model_find.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "app/options.h"
#include "app/terminal.h"
#include "base/os.h"
#include "base/settings.h"
#include "base/text.h"

const KnownModel known_models[] = {
#define KNOWN(name, file, source, help) {name, file, source, help},
#include "app/models.def"
#undef KNOWN
    {NULL, NULL, NULL, NULL},
};

const char *const embedded_model_name = "storyteller (inside lathe)";
extern const uint8_t embedded_model_begin[], embedded_model_end[];

void model_folders(Arena *arena, const char *folders[MODEL_FOLDERS]) {
    const char *chosen = setting_text(SETTING_MODELS);
    folders[0] = *chosen ? chosen : NULL;
    folders[1] = "models";
    folders[2] = arena_printf(arena, "%s/models", cache_dir(arena));
}

// Of a split model only the first part can be opened.
static bool is_later_part(const char *file) {
    const char *of = strstr(file, "-of-");
    return of && of - file >= 5 && strncmp(of - 5, "00001", 5) != 0 && isdigit((unsigned char)of[-1]);
}

static bool is_model_file(const char *file) {
    return text_ends(text_of(file), ".gguf") && !is_later_part(file);
}

// The first file (in alphabetical order) of a folder that begins with the name, whatever the case of letters.
static const char *folder_search(Arena *arena, const char *folder, const char *name) {
    const char *best = NULL;
    DIR *dir = opendir(folder);
    if (!dir) return NULL;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strncasecmp(entry->d_name, name, strlen(name)) != 0 || !is_model_file(entry->d_name)) continue;
        if (!best || strcmp(entry->d_name, best) < 0) best = text_cstr(arena, text_of(entry->d_name));
    }
    closedir(dir);
    return best ? arena_printf(arena, "%s/%s", folder, best) : NULL;
}

static const char *folders_search(Arena *arena, const char *file, const char *name) {
    const char *folders[MODEL_FOLDERS];
    model_folders(arena, folders);
    for (int i = 0; i < MODEL_FOLDERS; i++) {
        if (!folders[i]) continue;
        const char *path = arena_printf(arena, "%s/%s", folders[i], file);
        if (file_exists(path)) return path;
        path = folder_search(arena, folders[i], name);
        if (path) return path;
    }
    return NULL;
}

const char *model_locate(Arena *arena, const KnownModel *known) {
    return folders_search(arena, known->file, known->name);
}

static const KnownModel *known_find(const char *name) {
    for (const KnownModel *k = known_models; k->name; k++)
        if (strcasecmp(k->name, name) == 0) return k;
    return NULL;
}

static const char *known_name_at(int n, const void *list) {
    (void)list;
    return known_models[n].name;
}

static bool model_missing(Arena *arena, const char *word, const KnownModel *known, Error *err) {
    const char *folders[MODEL_FOLDERS];
    TextBuilder places = builder(arena);
    model_folders(arena, folders);
    for (int i = 0; i < MODEL_FOLDERS; i++)
        if (folders[i]) builder_printf(&places, "%s%s", places.len ? ", " : "", folders[i]);
    if (known)
        return fail(err, LATHE_IO,
                    "the model %s is not on this machine. Looked for %s, or a file that begins with %s, in: %s. "
                    "Get it from %s and put it into one of these folders (or give its path; LATHE_MODELS names one more "
                    "folder)", known->name, known->file, known->name, builder_cstr(&places), known->source);
    if (strchr(word, '/') || text_ends(text_of(word), ".gguf"))
        return fail(err, LATHE_IO, "%s: no such file, neither here nor in: %s", word, builder_cstr(&places));
    const char *close = name_closest(word, known_name_at, NULL);
    return fail(err, LATHE_IO, "%s is neither a file, nor a known model%s%s%s, nor the beginning of a file's name in: %s. "
                "Known models: lathe models", word, close ? " (did you mean " : "", close ? close : "",
                close ? "?)" : "", builder_cstr(&places));
}

static bool is_embedded(const char *word) {
    return !word || strcmp(word, "storyteller") == 0;
}

// A key that the file lacks may be meant or mistyped: whoever reads it later cannot tell.
static void say_if_new(const Gguf *gguf, Arena *arena, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    const char *key = equals ? arena_printf(arena, "%.*s", (int)(equals - assignment), assignment) : NULL;
    Error note = {0};
    if (!key || gguf_value(gguf, key)) return;
    snprintf(note.text, sizeof note.text, "note: the file has no key '%.200s'; --override-kv adds it", key);
    error_print(NULL, &note);
}

bool model_open(Gguf *gguf, Arena *arena, const char *word, const char *const *overrides, int n_overrides,
                const char **path, Error *err) {
    if (word && !*word) return fail(err, LATHE_BAD_REQUEST, "the MODEL is an empty text; leave it out for the model inside lathe");
    bool exists = word && file_exists(word);
    if (!exists && is_embedded(word)) {
        *path = embedded_model_name;
        size_t nbytes = (size_t)(embedded_model_end - embedded_model_begin);
        TRY(gguf_open_memory(gguf, *path, embedded_model_begin, nbytes, err));
    } else {
        const KnownModel *known = exists ? NULL : known_find(word);
        const char *found = exists ? word : known ? model_locate(arena, known) : folders_search(arena, word, word);
        if (!found) return model_missing(arena, word, known, err);
        *path = found;
        TRY(gguf_open(gguf, found, err));
    }
    for (int i = 0; i < n_overrides; i++) {
        say_if_new(gguf, arena, overrides[i]);
        if (!gguf_override(gguf, overrides[i], err)) {
            gguf_close(gguf);
            return false;
        }
    }
    return true;
}

// source_cache: texts of kernels that an earlier run of this very program rendered.
// In: what decides a text (the kernel's canonical key, the target). Out: the text.
// Invariant: a text is taken only from the same build of the program, whole and for the same key; any fault of the folder
// costs a code generation and never an answer.
// Example: if (!(text = source_cache_get(c, arena, key))) source_cache_put(c, key, text = render(…));
#pragma once
#include "runtime/sealed_file.h"

typedef struct SourceCache SourceCache;

// Texts live in cache_dir()/sources (mode 0700), at most about 20,000. NULL where texts cannot be kept and where the
// program has no build id; the other functions allow NULL.
SourceCache *source_cache_open(void);
void source_cache_close(SourceCache *cache);
SealKey source_cache_key(const SourceCache *cache, Arena *arena, Text what);   // settings of code generation are added
const char *source_cache_get(const SourceCache *cache, Arena *arena, SealKey key);   // on the arena; NULL: there is none
void source_cache_put(SourceCache *cache, Arena *arena, SealKey key, const char *text);

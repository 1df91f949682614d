// source_cache: what an earlier run of this very program made: texts of kernels, tables of steps.
// In: what decides it (a kernel's canonical key, a graph; the target). Out: its bytes.
// Invariant: they are taken only from the same build of the program, whole and for the same key; any fault of the folder
// costs a code generation and never an answer.
// Example: if (!source_cache_get(c, arena, key, &text)) source_cache_put(c, arena, key, text = …);
#pragma once
#include "runtime/sealed_file.h"

typedef struct SourceCache SourceCache;

// Files live in cache_dir()/sources (mode 0700), at most about 20,000. NULL where texts cannot be kept and where the
// program has no build id; the other functions allow NULL.
SourceCache *source_cache_open(void);
void source_cache_close(SourceCache *cache);
SealKey source_cache_key(const SourceCache *cache, Arena *arena, Text what);   // settings of code generation are added
bool source_cache_get(const SourceCache *cache, Arena *arena, SealKey key, Text *text);   // on the arena; false: there is none
void source_cache_put(SourceCache *cache, Arena *arena, SealKey key, Text text);

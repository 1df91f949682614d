// object_cache: C texts become loaded libraries, through a folder of objects compiled earlier.
// In: C texts. Out: libraries, in the order of the texts.
// Invariant: an object is loaded only if the key and the hash at its end are right; it comes to its
// place by a rename, so no process sees a part of it. Any fault of the folder (missing, read-only,
// foreign, damaged, on a file system that forbids execution) costs a compilation and never an
// answer.
// Example: TRY(object_cache_open(&c, flags, err)); TRY(object_cache_load(c, sources, 24, 8, libs, err));
#pragma once
#include <stdbool.h>
#include "base/error.h"

typedef struct ObjectCache ObjectCache;

// One translation unit. name appears in messages only; equal texts are compiled once.
typedef struct ObjectSource { const char *name, *text; } ObjectSource;

// Objects live in cache_dir()/objects (mode 0700), at most about 10,000: then the older half goes.
// target_flags: the compiler flags of a Target.
bool object_cache_open(ObjectCache **cache, const char *target_flags, Error *err) MUST_CHECK;
void object_cache_close(ObjectCache *cache);       // NULL is allowed; loaded libraries stay valid

// Loads n libraries, compiling what is missing with up to n_jobs compilers at once. The caller
// closes each with library_close. On failure none is left open; a source that the compiler refused
// is kept in cache_dir()/failed (else in the temporary directory) and the Error says where.
bool object_cache_load(ObjectCache *cache, const ObjectSource *sources, int n, int n_jobs,
                       void **libraries, Error *err) MUST_CHECK;

typedef struct ObjectStats { long hits, compiled; } ObjectStats;
ObjectStats object_cache_stats(const ObjectCache *cache);   // since object_cache_open

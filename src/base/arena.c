// Arena: a list of chunks, filled front to back. Chunks behind the current one are empty and wait
// to be used again, so a phase that repeats stops asking the system for memory.
// Invariant: bytes at or above a chunk's `dirty` mark are still zero; below it they are cleared
// when they are handed out again. Under AddressSanitizer what is not handed out is poisoned.
// Example: mark = arena_mark(a); arena_new(a, 100); arena_release(a, mark): used as before
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"

enum { ARENA_ALIGN = 16 };
static const size_t FIRST_CHUNK_BYTES = (size_t)16 << 10;
// A bigger block gets a chunk of its own size.
static const size_t LARGEST_CHUNK_BYTES = (size_t)16 << 20;
// More than any machine has: refused without asking the system.
static const size_t LARGEST_BLOCK_BYTES = (size_t)1 << 39;

typedef struct Chunk Chunk;
struct Chunk {
    Chunk *next;
    size_t cap, used, dirty;
    _Alignas(ARENA_ALIGN) unsigned char bytes[];
};

struct Arena {
    Chunk *first, *current;
    size_t next_chunk_bytes;
};

Arena *arena_create(void) {
    Arena *arena = calloc(1, sizeof *arena);
    if (!arena) memory_exhausted(sizeof *arena);
    arena->next_chunk_bytes = FIRST_CHUNK_BYTES;
    return arena;
}

void arena_destroy(Arena *arena) {
    if (!arena) return;
    for (Chunk *chunk = arena->first, *next; chunk; chunk = next) {
        next = chunk->next;
        memory_unpoison(chunk->bytes, chunk->cap);
        free(chunk);
    }
    free(arena);
}

// Empties every chunk from `chunk` on.
static void chunks_empty(Chunk *chunk) {
    for (; chunk; chunk = chunk->next) {
        if (chunk->used) memory_poison(chunk->bytes, chunk->cap);
        chunk->used = 0;
    }
}

void arena_reset(Arena *arena) {
    chunks_empty(arena->first);
    arena->current = arena->first;
}

// Links a chunk with room for nbytes behind the current one and makes it current.
static Chunk *chunk_add(Arena *arena, size_t nbytes) {
    size_t cap = arena->next_chunk_bytes;
    if (cap < nbytes) cap = nbytes;
    Chunk *chunk = calloc(1, sizeof *chunk + cap);
    if (!chunk) return NULL;
    memory_poison(chunk->bytes, cap);
    chunk->cap = cap;
    if (arena->next_chunk_bytes < LARGEST_CHUNK_BYTES) arena->next_chunk_bytes *= 2;
    Chunk **link = arena->current ? &arena->current->next : &arena->first;
    chunk->next = *link;
    *link = chunk;
    arena->current = chunk;
    return chunk;
}

void *arena_alloc(Arena *arena, size_t nbytes) {
    if (nbytes > LARGEST_BLOCK_BYTES) return NULL;
    // A block of 0 bytes takes one unit, so that its address is its own.
    size_t size = nbytes ? (nbytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1) : ARENA_ALIGN;
    Chunk *chunk = arena->current;
    if (!chunk || chunk->cap - chunk->used < size) {
        Chunk *next = chunk ? chunk->next : NULL;
        if (next && next->cap >= size)
            arena->current = chunk = next;
        else if (!(chunk = chunk_add(arena, size)))
            return NULL;
    }
    unsigned char *at = chunk->bytes + chunk->used;
    memory_unpoison(at, nbytes);
    if (chunk->dirty > chunk->used) {
        size_t stale = chunk->dirty - chunk->used;
        memset(at, 0, stale < nbytes ? stale : nbytes);
    }
    chunk->used += size;
    if (chunk->dirty < chunk->used) chunk->dirty = chunk->used;
    return at;
}

void *arena_new(Arena *arena, size_t nbytes) {
    void *at = arena_alloc(arena, nbytes);
    if (!at) memory_exhausted(nbytes);
    return at;
}

void *arena_copy(Arena *arena, const void *from, size_t nbytes) {
    void *at = arena_new(arena, nbytes);
    if (nbytes) memcpy(at, from, nbytes);
    return at;
}

char *arena_printf(Arena *arena, const char *format, ...) {
    CHECK(format);
    char short_text[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(short_text, sizeof short_text, format, args);
    va_end(args);
    if (len < 0) BUG("cannot format \"%s\"", format);
    size_t nbytes = (size_t)len + 1;
    char *at = arena_new(arena, nbytes);
    if (nbytes <= sizeof short_text)
        memcpy(at, short_text, nbytes);
    else
        vsnprintf(at, nbytes, format, again);
    va_end(again);
    return at;
}

ArenaMark arena_mark(Arena *arena) {
    Chunk *chunk = arena->current;
    return (ArenaMark){chunk, chunk ? chunk->used : 0};
}

void arena_release(Arena *arena, ArenaMark mark) {
    Chunk *chunk = mark.chunk;
    if (!chunk) {
        arena_reset(arena);
        return;
    }
    CHECK(mark.used <= chunk->used);
    chunks_empty(chunk->next);
    memory_poison(chunk->bytes + mark.used, chunk->cap - mark.used);
    chunk->used = mark.used;
    arena->current = chunk;
}

size_t arena_used(const Arena *arena) {
    size_t used = 0;
    for (const Chunk *chunk = arena->first; chunk; chunk = chunk->next) used += chunk->used;
    return used;
}

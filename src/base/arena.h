// Arena: memory that dies with a phase.
// In: sizes. Out: zeroed blocks, aligned to 16 bytes, valid until arena_reset or arena_destroy.
// Invariant: nothing allocated here is freed on its own.
// Example: Arena *a = arena_create(); int *x = arena_new(a, 4 * sizeof(int)); arena_destroy(a);
#pragma once
#include <stddef.h>

typedef struct Arena Arena;
typedef struct ArenaMark { void *chunk; size_t used; } ArenaMark;

Arena *arena_create(void);
void arena_destroy(Arena *arena);                 // NULL is allowed
void arena_reset(Arena *arena);                   // forget everything, keep the memory
void *arena_alloc(Arena *arena, size_t nbytes);   // NULL where the size cannot be had; 0 gives a valid pointer
void *arena_new(Arena *arena, size_t nbytes);     // as arena_alloc; a failure ends the program
void *arena_copy(Arena *arena, const void *from, size_t nbytes);
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
ArenaMark arena_mark(Arena *arena);
void arena_release(Arena *arena, ArenaMark mark); // give back everything allocated since the mark
size_t arena_used(const Arena *arena);            // bytes handed out since the last reset

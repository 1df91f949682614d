// merge: joins neighbouring symbols, best pair first: the core of both BPE and SentencePiece.
// In: symbols, and a rule that says whether two neighbours form a token, and how early it comes.
// Out: the symbols that are left. Invariant: equal orders go left to right; work is O(n log n).
// Example: l o w with the pairs (l o) at 0 and (lo w) at 1 ends as one symbol "low".
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"

typedef struct Symbol {
    uint32_t at, len;            // bytes that it covers; len 0: merged into its left neighbour
    int32_t id;                  // token, or -1 where the bytes are no token
    int32_t previous, next;      // neighbours that are still there, -1 at the ends
} Symbol;

// Whether left and right form a token: its id, and the order in which pairs are merged (lowest
// first).
typedef bool (*MergeFind)(const void *context, const Symbol *left, const Symbol *right,
                          uint32_t *order, int32_t *id);

typedef struct MergeCandidate { uint64_t order; int32_t right, id; uint32_t len; } MergeCandidate;

typedef struct Merger {
    Arena *arena;
    Symbol *symbols;
    size_t n_symbols, symbols_cap;
    MergeCandidate *heap;
    size_t n_heap, heap_cap;
} Merger;

void merger_init(Merger *m, Arena *arena);
bool merger_begin(Merger *m, size_t n_symbols);        // forgets old symbols; false: out of memory
void merger_add(Merger *m, uint32_t at, uint32_t len, int32_t id);   // at most n_symbols times
bool merger_run(Merger *m, MergeFind find, const void *context);     // false: out of memory

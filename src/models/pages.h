// pages: the model's cache as a pool of pages that slots share where their histories begin alike.
// In: the ids of a new prompt. Out: how many of them need no evaluation, with the slot's page table set accordingly.
// Invariant: a page that two slots see is full and is never written; what a page holds is known by token ids and by the
// page before it, so a match is exact. Pages nobody uses stay until the room is needed: the longest unused goes first.
// Example: slot 0 ended with 200 tokens; a prompt for slot 1 with the same first 150: two pages are shared, 22 cells of
// the third are copied, and pages_begin returns 150.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "base/text.h"
#include "models/model.h"

typedef struct PagePool PagePool;

// Takes over the page tables of all slots. The model must outlive the pool.
PagePool *pages_create(Model *model);
void pages_destroy(PagePool *pool);                               // NULL is allowed
// The slot's history is to become tokens[0..n). Returns how many of them are in its pages already, at most n − 1.
int64_t pages_begin(PagePool *pool, int slot, const int32_t *tokens, int64_t n);
// The text of a token; *is_special: it stands for itself alone, whatever has the same text.
typedef Text PieceOf(const void *context, int32_t token, bool *is_special);
// Histories whose text begins as that of tokens[0..n) does but was cut into other tokens (the model's own choice of them, for
// example). Writes the known ids of the longest such beginning that ends between two tokens on both sides to known[context of
// the model], *asked: for how many of tokens they stand. Returns their number; 0 where ids alone find as much.
int64_t pages_find_text(const PagePool *pool, const int32_t *tokens, int64_t n, PieceOf *piece, const void *context,
                        int32_t *known, int64_t *asked);
// The slot may write positions below length, which is at most the context.
void pages_reserve(PagePool *pool, int slot, int64_t length);
// Positions from … to − 1 of the slot have been written for these tokens of its history.
void pages_note(PagePool *pool, int slot, const int32_t *tokens, int64_t from, int64_t to);
// The slot needs its pages no longer; what they hold may still be found.
void pages_release(PagePool *pool, int slot);
int64_t pages_known(const PagePool *pool);                        // pages that hold something

// What the pool knows, kept for the next start. key names the model and how its cache is written: a file with another key,
// another version or a wrong checksum is not read. Errors: LATHE_IO; LATHE_BAD_FILE (says which of these it was).
// most_bytes bounds the file: pages used last go first.
bool pages_save(const PagePool *pool, const char *path, uint64_t key, size_t most_bytes, Error *err) MUST_CHECK;
bool pages_load(PagePool *pool, const char *path, uint64_t key, Error *err) MUST_CHECK;

// kvcache: the paged cache of keys and values, as graphs over buffers and index data.
// In: a cache's planes [pages + 1, heads, KV_PAGE, cells of a head], a page table i32 [slots + 1, pages a slot], a row's sequence
// and position. Out: cells to write, rows of keys to read.
// Invariant: the last page is scratch; the last slot's pages are all scratch: padding rows are rows of that slot.
// Everything that varies is data in i32 tensors with stated bounds, so one program serves any mix of sequences.
// Example: position 70 of sequence 2 lies in cell 6 of page table[2][1].
#pragma once
#include "nn/quant_cache.h"

enum { KV_PAGE = 64 };             // positions a page

typedef struct KvCache {
    const KvFormat *format;
    int64_t block, heads;
    Tensor plane[KV_PLANES_MAX];
} KvCache;

typedef struct KvRows {
    Tensor position;               // i32 [rows]
    Tensor table;                  // i32 [slots + 1, pages a slot]
    Tensor sequence;               // i32 [rows]
    Tensor page, within;           // i32 [rows]: where the row's own keys go: a page's number, and which of its keys they are
    int together;                  // 0: each row has a sequence of its own; else all rows look at the first one's pages, and
                                   // stand side by side in blocks of so many, which divide the rows: a piece of one prompt
} KvRows;

// The pages of its sequence that a row may look at, and which of their keys it sees. Rows that stand together have one list
// of pages (pages [1, pages in view], pages_seen [1]), which holds what any of them sees.
typedef struct KvView {
    Tensor pages;                  // i32 [rows, pages in view]: their numbers, rising from the first that may hold a seen key
    Tensor pages_seen;             // i32 [rows]: this many of them hold keys that are not behind the row's own
    Tensor keys_seen;              // i32 [rows, pages in view]: this many keys of a page are not behind it; may pass KV_PAGE
    Tensor keys_passed;            // i32 [rows, pages in view]: this many keys lie before the window; may be negative. NULL: no window
    Tensor cells_seen;             // i32 [1, pages in view]: as keys_seen, of the row that sees most; NULL unless rows stand together
    int together;                  // as KvRows
} KvView;

// table: i32 [slots + 1, pages a slot]; sequence, position: i32 [rows].
KvRows kv_rows(Tensor table, Tensor sequence, Tensor position);
// What the rows see: keys up to their own, and (window > 0) at most window − 1 positions back. A window bounds the pages
// in view, however long the sequence is.
KvView kv_view(const KvRows *rows, int64_t window);

// The cache of `pages` pages, scratch included, whose planes are these buffers; heads divide a row evenly.
KvCache kv_cache(Graph *g, const KvFormat *format, KvShape shape, int64_t heads, const int64_t *buffers, int64_t pages);
// Writes value f32 [rows, width] to the rows' cells, rounded to the cache's format; returns the cache behind it (AFTER).
KvCache kv_write(KvCache cache, const KvRows *rows, Tensor value);
// The pages in view: f32 [rows, pages in view, KV_PAGE, heads, width / heads]. Cells not yet written are zero or another row's.
// Rows that stand together get one copy for all of them ([1, …]), head by head in memory, with zeros where no row looks.
Tensor kv_read(const KvCache *cache, const KvView *view);

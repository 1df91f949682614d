// interleave: rows of numbers that are multiplied with the same weights lie side by side, word by word, so that a vector
// holds one word of each of 8 rows and a product of many rows needs no sum of lanes.
#pragma once
#include "ir/uop.h"

enum { INTERLEAVED_ROWS = 8, INTERLEAVED_BYTES = 4 };   // rows side by side; bytes of each

// Whether a load of bytes, as part of an exact sum of products, is what the caller looks for along this loop of the store.
typedef bool (*IsRowLoad)(void *context, UOp *load, UOp *loop);
// The loop of a store over rows that share their weights: bytes of an exact sum of products depend on it, the bytes they
// are multiplied with do not, and its size is a multiple of INTERLEAVED_ROWS. NULL: there is none, or other sums are in
// the way.
UOp *interleave_loop(Arena *arena, UOp *store, IsRowLoad is_row, void *context);

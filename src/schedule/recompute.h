// recompute: small values that would be a kernel of their own are computed by each of their readers instead.
// In: items in order, asked about one by one by fuse. Out: stores whose loads of such values are the values themselves.
// Invariant: a value is put off only where it reads nothing that is overwritten, so that it is the same anywhere later,
// and where no order of addition changes.
// Example: r[0] = 1/sqrt(Σ part[i]); y[n] = (Σ…)·r[0] → y[n] = (Σ…)·(1/sqrt(Σ part[i])), one barrier less.
#pragma once
#include "schedule/schedule.h"

typedef struct Recompute {
    Schedule *schedule;
    UOpMap loads;                // BUFFER → its loads in all items, a LoadList
    Map written;                 // ids of the model's own buffers that an item stores to, and of those written in parts
    UOpMap ordered;              // BUFFER → a float sum in chains that reads it
    UOpMap put_off;              // BUFFER → STORE of the value
} Recompute;

void recompute_init(Recompute *r, Schedule *s);
// Puts the value of this store off, if all its readers together lose less than `worth` operations, each computing it in
// each of `tiles` tiles.
bool recompute_put_off(Recompute *r, UOp *store, double tiles, double worth);
// The store with the values put off so far in place of their loads.
UOp *recompute_apply(Recompute *r, UOp *store);

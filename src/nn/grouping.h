// grouping: rows that chose the same expert stand together, so that its weights are read once for all of them.
// In: a choice i32 [m, used] of experts. Out: groups of GROUP_ROWS places, each of one expert.
// Invariant: every chosen (row, place) has a place of its own; those left over hold row 0 and are read by nobody. Places
// rise with the row, so that what a row gets does not depend on the others.
// Example: 3 experts, choices {1, 0}, {1, 2}, GROUP_ROWS = 8: groups of experts 0, 1, 2; place of row 1's 1 is 8·1 + 1.
#pragma once
#include "nn/experts.h"

enum { GROUP_ROWS = 8 };

typedef struct Grouping {
    Tensor expert;     // i32 [groups]
    Tensor is_used;    // bool [groups]: some place of it is taken; the groups in use come first
    Tensor row;        // i32 [groups, GROUP_ROWS]: which row of x stands there
    Tensor place;      // i32 [m, used]: where the choice stands, group · GROUP_ROWS + i
} Grouping;

// Whether so many choices fill groups well enough to be worth it.
bool grouping_pays(int64_t choices, int64_t experts);
Grouping grouping_of(Tensor ids, int64_t experts);

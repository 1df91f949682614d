// merged_loops: loops of a store that always stand together become one. See merged_loops.c.
// Example: UOp *forms[4]; int n = loops_merged(arena, store, forms, 4);
#pragma once
#include "schedule/schedule.h"

// The forms of a store with one, two … loops less: how many there are, at most `most`.
int loops_merged(Arena *arena, UOp *store, UOp **forms, int most);

// scratch: a private folder for what a compiler reads and writes, below TMPDIR.
// In: nothing. Out: a folder that goes with scratch_close. One that a killed process left behind goes when a later
// process opens its own: an owner holds a lock on its folder, which dies with it.
// Invariant: a folder whose owner lives, of another user, or younger than an hour is never touched.
// Example: Scratch s; TRY(scratch_open(&s, err)); … s.path … scratch_close(&s);
#pragma once
#include <stdbool.h>
#include "base/error.h"

typedef struct Scratch {
    char path[256];        // "" where it is not open
    int lock;
} Scratch;

bool scratch_open(Scratch *scratch, Error *err) MUST_CHECK;
void scratch_close(Scratch *scratch);             // of a zeroed struct, or twice, is allowed
// Leaves the folder's files where they are, for people to look at.
void scratch_abandon(Scratch *scratch);

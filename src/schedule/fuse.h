// fuse: what fuse.c and cuts.c share. A group is a kernel in the making: stores with loops that may become tiles.
#pragma once
#include "schedule/schedule.h"

enum { MAX_TILES = 12, MAX_AXIS = 12, ENOUGH_TILES = 64 };

typedef struct Axis { int64_t size, cut; int tile; } Axis;      // element a of the axis: tile a / cut; tile −1: none

typedef struct Reads { int64_t *id; int n; } Reads;              // buffers that a store loads from

typedef struct Member { UOp *store; int64_t buffer; Reads reads; bool is_row_major; int n_axes; Axis axis[MAX_AXIS]; } Member;

typedef struct Group {
    VEC(Member) members;
    UOp *tile[MAX_TILES];         // shared loops; NULL: dropped
    int n_tiles, loops;
    double work, again;           // again: cuts_read_again, once it was asked for
    bool knows_again;
} Group;

typedef struct Fuser { Schedule *schedule; Arena *arena; VEC(Group) groups; } Fuser;

typedef struct Cut { int t; int64_t keep; } Cut;                 // `keep` steps of tile range t stay a loop inside a tile
typedef struct Cuts { Cut at[MAX_TILES]; int n; double tiles; } Cuts;

// cuts.c: which of a group's tile ranges are cut into tiles, and how long the tiles are.
Cuts cuts_choose(Fuser *f, const Group *g);
// Elements of the model's own buffers that these tiles read again and again because their loads do not depend on the tile.
double cuts_read_again(Fuser *f, const Group *g);
// Elements that members hand to each other through memory, as a tile makes more of them than near caches hold.
double cuts_far_elements(const Fuser *f, const Group *g);

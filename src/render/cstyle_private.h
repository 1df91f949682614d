// cstyle_private: what the files of the renderer share: its state, and the names of types and values.
#pragma once
#include "base/error.h"
#include "render/cstyle.h"

typedef struct Renderer {
    Arena *arena;
    TextBuilder out;
    const Dialect *dialect;
    const Target *target;
    UOpMap names;
    int n_values, depth;
    int threads;               // of a group; 0: a tile is one thread
    bool tile_open;
} Renderer;

// ---- names (cstyle_names.c)
const char *element_name(const Renderer *r, DType dtype);
const char *vector_name(Renderer *r, const char *element, int lanes);
const char *ints_name(Renderer *r, int nbytes, int lanes);              // signed integers of that size
const char *type_name(Renderer *r, const UOp *u, int lanes);            // of u's value; bools of vectors are masks
int mask_bytes(const UOp *u);                                           // width of a lane of a vector bool
const char *number_text(Renderer *r, DType dtype, int64_t bits);
const char *value_name(Renderer *r, UOp *u);                            // of a constant or of what was declared before
const char *same_bits_text(Renderer *r, const char *from, const char *to, int lanes, const char *text);

// ---- memory (cstyle_memory.c)
const char *address_text(Renderer *r, UOp *index, bool is_const);
const char *load_text(Renderer *r, UOp *u);
const char *store_text(Renderer *r, UOp *u);

// ---- values (cstyle_values.c)
const char *value_text(Renderer *r, UOp *u);                            // what u computes, from the names of its sources

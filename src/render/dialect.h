// dialect: what differs between C-like languages, as one struct of templates. Words of a template: $name, $type, $0 …;
// which of them a row knows stands beside it. A row that says NULL where that is allowed is left out.
// vector_op gives the text of an op on vectors that the language has no sign for; NULL: lane by lane.
#pragma once
#include "base/text.h"
#include "ir/target.h"
#include "ir/uop.h"

enum { DIALECT_OPERANDS = 17 };   // $0 … $9, then the characters behind 9

typedef struct Dialect {
    const char *name;
    const char *suffix;                      // of files with such text
    const char *prelude;                     // text before the first kernel
    const char *array_prelude;               // before that, where a program has arrays of its own; NULL: nothing
    // ---- types
    const char *types[DT_COUNT];             // of elements; NULL: the names of dtypes.def
    const char *vector_type;                 // $element $lanes
    const char *vector_typedef;              // $element $type $bytes; NULL: the language has these types
    // ---- kernels
    const char *kernel_open;                 // head of a kernel: $name, $params
    const char *param_head;                  // a buffer among $params: $slot; NULL: $params is not used
    const char *param;                       // a line that declares the buffer p$slot
    const char *tile_open;                   // opens what runs once a tile: its index is `tile`
    const char *tile_close, *kernel_close;
    // where a tile is a group of $threads, of which each knows its own number as `item`; NULL: no such kernels
    const char *group_open, *group_tile_open;
    const char *groups;                      // $groups of group_open: $count of them share a processor's registers; NULL: not said
    const char *barrier;                     // a line
    const char *last_tile;                   // ends the kernel for all but the last of $count groups that come to the cell $at; NULL: there is none
    const char *thread_xor;                  // $0 of the thread $distance away, of $width neighbours; $type
    const char *no_tile;                     // a line of kernels that have one tile only
    // ---- memory. $at: an address of bytes. load, store: elements that may lie anywhere, or, where load_units is given,
    // at multiples of their size; other places are read by $count units of type $unit, together of type $row.
    const char *space;                       // where buffers are, as a word in front of the type behind a pointer
    const char *array_space;                 // the same for an array of a tile's own
    const char *local_space;                 // the same for what the threads of a tile share
    const char *local_array;                 // a line: $count of type $element that they share, as $name, at a multiple of 16 bytes
    const char *load, *load_lanes;           // $type $lanes $at $aligned: up to 16 bytes that divide the address
    const char *store, *store_lanes;         // the same and the value $0
    const char *atomic_add;                  // a line: the f32 at $at grows by $0, whoever else adds to it; NULL: targets have none
    const char *load_units, *store_units;    // $type $unit $count $row $at $0
    const char *prefetch[2];                 // a line, into the nearest cache and the one behind it: $at; NULL: nothing is asked for
    const char *prefetch_later;              // a line: each $every steps of $loop it asks for the next line of what later kernels read; NULL: nothing
    const char *later_open, *later_close;    // lines around the tiles of a kernel that does so
    const char *later_count;                 // behind it: $count lines are the most that a tile of kernel $name asks for
    // ---- values. $type: of the result
    const char *literal_open, *literal_close;   // around the lanes of a vector
    const char *zero;                        // compared with a vector of $type
    const char *lane;                        // lane $k, as one hexadecimal $digit, of the vector $0
    const char *shuffle, *shuffle_ints;      // of two vectors $0 $1 by constant $places; ints: of 4 bytes, $floats the float
                                             // type of $0; NULL: lane by lane
    const char *convert;                     // a vector $0, value by value
    const char *same_bits, *same_bits_vector;   // $0 of type $from as another type of the same size
    const char *function;                    // of one element: $name, $suffix (f for f32)
    const char *int64;                       // a constant $0
    const char *nan, *infinity;
    // Writes the vector form of u, operands named by $0 … $3, or returns false. operands: u's sources; may be replaced
    // where one instruction does what u and its sources do together.
    bool (*vector_op)(TextBuilder *out, const UOp *u, const Target *target, UOp **operands);
} Dialect;

extern const Dialect c_dialect, opencl_dialect, cuda_dialect, metal_dialect;

// The template with each word of `pairs` (name, text, …, NULL) replaced by its text. No name begins another.
const char *template_fill(Arena *arena, const char *template, const char *const *pairs);
#define template_filled(arena, template, ...) template_fill((arena), (template), (const char *const[]){__VA_ARGS__, NULL})

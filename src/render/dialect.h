// dialect: what differs between C-like languages, as one struct of templates ($name, $type, $0, $1 …).
// vector_op gives the text of an op on vectors that the language has no sign for; NULL: lane by lane.
#pragma once
#include "base/text.h"
#include "ir/target.h"
#include "ir/uop.h"

enum { DIALECT_OPERANDS = 4 };

typedef struct Dialect {
    const char *name;
    const char *prelude;                     // text before the first kernel
    const char *kernel_open;                 // head of a kernel: $name
    const char *param;                       // $type $slot
    const char *tile_open;                   // opens the tile loop: the tile index is `tile`
    const char *tile_close, *kernel_close;
    const char *prefetch;                    // a line, %s = the address
    // Writes the vector form of u, operands named by $0 … $3, or returns false. operands: u's sources; may be replaced
    // where one instruction does what u and its sources do together.
    bool (*vector_op)(TextBuilder *out, const UOp *u, const Target *target, UOp **operands);
} Dialect;

extern const Dialect c_dialect;

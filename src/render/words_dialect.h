// words_dialect: what dialects of C++ share whose vectors are the structs of words_prelude: rows of Dialect, and the text of ops.
// In: a node of a linear program. Out: a call of what the prelude has. Example: dot4 of 4 lanes → dot4($0, $1, $2)
#pragma once
#include "render/dialect.h"

bool words_op(TextBuilder *out, const UOp *u, const Target *target, UOp **operands);   // a vector_op

// Halves are held as their bits.
#define WORDS_TYPES {[DT_F16] = "u16", [DT_BF16] = "u16"}
#define WORDS_ROWS \
    .types = WORDS_TYPES, \
    .param = "", \
    .vector_type = "vec<$element, $lanes>", \
    .tile_close = "    }\n", \
    .kernel_close = "}\n", \
    .no_tile = "", \
    .load = "load<$type, $aligned>($at)", \
    .load_lanes = "load<$type, $aligned>($at)", \
    .store = "store<$aligned>($at, ($type)$0);\n", \
    .store_lanes = "store<$aligned>($at, $0);\n", \
    .literal_open = "make<$type>(", \
    .literal_close = ")", \
    .zero = "zeros<$type>()", \
    .lane = "$0[$k]", \
    .convert = "converted<$type>($0)", \
    .same_bits = "bits<$type>($0)", \
    .same_bits_vector = "bits<$type>($0)", \
    .vector_op = words_op

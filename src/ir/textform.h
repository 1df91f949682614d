// textform: graphs as text, and back.
// In: a root. Out: numbered lines, sources before users, one node a line:
//     %0 = const:i32 {8}
//     %1 = range:i32(%0) {3, 1, 8}
//     %2 = mul:i32(%1, %0)
// Invariant: reading what was printed gives the same node again (in the same graph: the same
// pointer).
// Grammar of a line:  %N = op:dtype[xLANES][ "[" shape "]" ][ "(" %N, … ")" ][ "{" arg, … "}" ]
// Args are integers; those of a CONST or VCONST of a float type are numbers such as 1.5, -inf or
// nan. A node with a message (poison) has it in quotes. Empty lines and what follows # are skipped.
// The shape is redundant and checked.
#pragma once
#include "base/error.h"
#include "base/text.h"
#include "ir/uop.h"

// Everything under root, numbered in order of first visit.
void textform_print(TextBuilder *out, UOp *root);
const char *textform_text(Arena *arena, UOp *root);
// A linear program: the given nodes in the given order, sources by number (they must stand in the
// list).
void textform_print_list(TextBuilder *out, const UOpList *program);
// The node of the last line; NULL with an error "name:line: …" for text that is no graph.
UOp *textform_read(Graph *g, Text text, const char *name, Error *err);

// One line of infix text for people; what lies deeper than max_depth is "…". Cannot be read back.
const char *textform_expression(Arena *arena, const UOp *u, int max_depth);

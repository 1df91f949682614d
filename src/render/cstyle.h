// cstyle: a linear program as text of a C-like language. The one renderer; dialects say what differs.
// In: a program (codegen/linearize), a dialect, a target. Out: text of one function named `name`.
#pragma once
#include "base/text.h"
#include "ir/target.h"
#include "ir/uop.h"
#include "render/dialect.h"

// n_params: PARAM slots are 0 … n_params − 1.
const char *render(Arena *arena, const char *name, const UOpList *program, const Dialect *dialect, const Target *target);

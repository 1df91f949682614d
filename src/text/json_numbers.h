// json_numbers: JSON numbers within bounds, as grammar nodes. In: bounds. Out: a node. At most 18 digits before the point and
// 17 behind it. Example: integers from -3 to 12 → "-3" … "12"
#pragma once
#include "text/grammar.h"

typedef struct NumberBounds {
    double least, most;                  // infinite: none
    bool is_above, is_below;             // the bound itself is outside
    bool is_integer;
} NumberBounds;

// Errors: LATHE_BAD_REQUEST where no number lies within, or a bound is beyond 10^15.
bool json_number_node(Grammar *g, const NumberBounds *bounds, GrammarNode *out, Error *err) MUST_CHECK;

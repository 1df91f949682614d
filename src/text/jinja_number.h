// jinja_number: numbers as Python prints them, alone or through a format specification.
// In: doubles, integers, specifications such as "08.2f". Out: text.
// Invariant: the shortest digits that read back as the same double; locale plays no part beyond
// "C".
// Example: 0.1 → "0.1", 1e16 → "1e+16", 3.0 → "3.0", -8.5e-07 → "-8.5e-07".
#pragma once
#include "text/jinja_value.h"

enum { JINJA_NUMBER_CHARS = 48 };

void jinja_float_repr(double f, char out[JINJA_NUMBER_CHARS]);

// Python's [[fill]align][sign][#][0][width][,][.precision][type], already taken apart.
typedef struct JinjaSpec {
    int32_t fill;              // code point
    char align;                // '<' '>' '^' '=' or 0
    char sign;                 // '+' ' ' '-' or 0
    char group;                // ',' '_' or 0
    char type;                 // 's' 'd' 'f' ... or 0
    bool is_alternate;
    int width, precision;      // precision −1: not given
} JinjaSpec;

// Reads the specification of "{:...}" from text; fails with what is wrong.
bool jinja_spec_parse(JinjaRun *run, Text text, JinjaSpec *out);
// Appends v in that form. Fails where the type does not fit the value ("Unknown format code 'd' for
// 'str'").
bool jinja_format_value(JinjaBuilder *b, JinjaValue v, const JinjaSpec *spec);

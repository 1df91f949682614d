// schema_disjoint: can a value fit two JSON schemas at once? For oneOf, which wants exactly one to fit.
// In: two schemas, and the root that their $refs lead into. Out: true where no value that text/json_schema would write for
// either fits the other. Invariant: true only where that is certain: different types, consts or enums, bounds that do not
// meet, or a property that one needs and the other has otherwise or forbids. What is not looked at counts as fitting.
// Example: {"properties": {"k": {"const": 1}}, "required": ["k"]} and the same with 2 → true
#pragma once
#include <jansson.h>
#include <stdbool.h>

// *steps: how many more comparisons may be made; where they do not suffice, nothing is certain.
bool schemas_are_disjoint(const json_t *root, const json_t *a, const json_t *b, int *steps);

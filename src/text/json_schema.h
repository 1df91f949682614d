// json_schema: a JSON Schema as a grammar of the JSON texts that it describes.
// In: a schema. Out: a node. Objects have their properties in the order of the schema; what may stand beside them by
// additionalProperties is only written where no property is named. Space between tokens is at most a line break and an
// indent.
// Invariant: every text of the grammar is valid by the schema. A keyword that would have to be held to and cannot is a 400
// that names the path, never passed over; so are schemas nested deeper than SCHEMA_DEPTH_MAX. $ref follows local paths,
// also into itself. oneOf is held to where its schemas are provably disjoint (text/schema_disjoint). format: date, time, date-time and uuid are held to, others say nothing.
// Example: {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]} → {"n": 42}
#pragma once
#include <jansson.h>
#include "text/grammar.h"

enum { SCHEMA_DEPTH_MAX = 64 };

// name: what errors call the schema ("response_format.json_schema.schema"); *path gets the path of what was refused, on the
// grammar's arena.
bool json_schema_parse(Grammar *g, const json_t *schema, const char *name, GrammarNode *out, const char **path,
                       Error *err) MUST_CHECK;
GrammarNode json_schema_any(Grammar *g);          // any JSON value
GrammarNode json_schema_any_object(Grammar *g);
GrammarNode json_schema_space(Grammar *g);
// The type of JSON that a schema without "type" is about, by its keywords; NULL: any.
const char *json_schema_type_guess(const json_t *schema);

// request_fields: the body of a request as checked values, by the rows of request_fields.def.
// In: a body. Out: Fields, or a refusal (400) that names the field: error.param holds its name where the body parses as
// JSON, else the message holds the byte where it does not.
// Invariant: what fields_read let through has the kind and the bounds of its row, and every text in it is valid UTF-8.
// Example: {"temperature": "hot"} → 400, param "temperature"; {"top_k": null} → as if it were not there
#pragma once
#include <jansson.h>
#include "app/http.h"

typedef enum FieldId {
#define FIELD(id, name, kind, least, most, endpoints, help) FIELD_##id,
#include "app/request_fields.def"
#undef FIELD
    FIELD_COUNT
} FieldId;

typedef struct Fields {
    json_t *body;                         // dies with fields_free
    const json_t *at[FIELD_COUNT];        // NULL: not there, or null
} Fields;

// Sets the reply and returns false where the body is refused. vocabulary: ids lie below it.
bool fields_read(Exchange *x, int64_t vocabulary, Fields *fields) MUST_CHECK;
void fields_free(Fields *fields);

int64_t field_int(const Fields *fields, FieldId id, int64_t otherwise);
double field_real(const Fields *fields, FieldId id, double otherwise);
bool field_is(const Fields *fields, FieldId id, bool otherwise);
Text field_text(const Fields *fields, FieldId id);                     // empty where it is not there
int64_t json_whole(const json_t *number);                              // of an integer, or of a real without a fraction
const char *field_name(FieldId id);
// Roles that templates know by other names get those: developer → system, function → tool.
void messages_translate(json_t *messages);

// endpoints: the rows of endpoints.def.
// In: a method and a path. Out: the row that answers it. Invariant: what is not a row is a 404.
// Example: endpoint_find("GET", "/v1/models/storyteller", &other) → the row "/v1/models/"
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct Exchange Exchange;
// Sets the reply. Runs on the connection's thread.
typedef void EndpointFunction(Exchange *x);

typedef enum EndpointId {
#define ENDPOINT(id, method, path, needs_key, error_form, help) ENDPOINT_##id,
#include "app/endpoints.def"
#undef ENDPOINT
    ENDPOINT_COUNT
} EndpointId;

typedef enum ErrorForm { ERRORS_OPENAI, ERRORS_ANTHROPIC } ErrorForm;

typedef struct Endpoint {
    EndpointId id;
    const char *method, *path;         // a path that ends with / has a rest
    bool needs_key;
    ErrorForm error_form;
    const char *help;
    EndpointFunction *answer;
} Endpoint;

extern const Endpoint endpoints[ENDPOINT_COUNT];

// NULL: no row. *other gets the method that the path has, where it is another one.
const Endpoint *endpoint_find(const char *method, const char *path, const char **other);

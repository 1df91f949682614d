// endpoints: see endpoints.h. In: rows. Out: lookups. Invariant: order of rows does not matter.
#include "app/endpoints.h"

#include <string.h>

#define ENDPOINT(id, method, path, needs_key, error_form, help) EndpointFunction endpoint_##id;
#include "app/endpoints.def"
#undef ENDPOINT

const Endpoint endpoints[ENDPOINT_COUNT] = {
#define ENDPOINT(id, method, path, needs_key, error_form, help) \
    {ENDPOINT_##id, method, path, needs_key, error_form, help, endpoint_##id},
#include "app/endpoints.def"
#undef ENDPOINT
};

static bool path_fits(const char *row, const char *path) {
    size_t len = strlen(row);
    bool has_rest = len > 1 && row[len - 1] == '/';
    return has_rest ? strncmp(row, path, len) == 0 && path[len] : strcmp(row, path) == 0;
}

const Endpoint *endpoint_find(const char *method, const char *path, const char **other) {
    const char *asked = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *other = NULL;
    for (int i = 0; i < ENDPOINT_COUNT; i++) {
        if (!path_fits(endpoints[i].path, path)) continue;
        if (strcmp(endpoints[i].method, asked) == 0) return &endpoints[i];
        *other = endpoints[i].method;
    }
    return NULL;
}

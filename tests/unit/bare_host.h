// bare_host: buffers that are plain arrays, and graphs evaluated over them by ir/eval: models without an engine.
// In: a BufferHost for plan_create. Out: values of graphs over its buffers. Example: see test_model.c.
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"
#include "models/weights.h"

enum { BARE_BUFFERS_MAX = 4096 };
typedef struct BareHost {
    struct {
        uint8_t *at;
        size_t nbytes;
        bool is_owned;
    } buffers[BARE_BUFFERS_MAX];
    int64_t n;
} BareHost;

static inline bool bare_add(BareHost *h, uint8_t *at, size_t nbytes, bool is_owned, int64_t *id,
                            Error *err) {
    if (!at || h->n == BARE_BUFFERS_MAX)
        return error_set(err, LATHE_NO_MEMORY, __FILE__, __LINE__,
                         "no room for a buffer of %zu bytes", nbytes);
    h->buffers[h->n].at = at;
    h->buffers[h->n].nbytes = nbytes;
    h->buffers[h->n].is_owned = is_owned;
    *id = h->n++;
    return true;
}

static inline bool bare_alloc(void *context, size_t nbytes, int64_t *id, Error *err) {
    return bare_add(context, calloc(nbytes ? nbytes : 1, 1), nbytes, true, id, err);
}

static inline bool bare_wrap(void *context, const void *data, size_t nbytes, int64_t *id,
                             Error *err) {
    return bare_add(context, (uint8_t *)(uintptr_t)data, nbytes, false, id, err);
}

static inline int64_t bare_part(void *context, int64_t whole, size_t offset, size_t nbytes) {
    BareHost *h = context;
    int64_t id = -1;
    Error err;
    return bare_add(h, h->buffers[whole].at + offset, nbytes, false, &id, &err) ? id : -1;
}

static inline void bare_write(void *context, int64_t id, size_t offset, const void *data,
                              size_t nbytes) {
    BareHost *h = context;
    memcpy(h->buffers[id].at + offset, data, nbytes);
}

static inline void *bare_address(void *context, int64_t id) {
    BareHost *h = context;
    return h->buffers[id].at;
}

static inline BufferHost bare_buffer_host(BareHost *h) {
    return (BufferHost){.context = h, .alloc = bare_alloc, .wrap = bare_wrap, .part = bare_part, .write = bare_write};
}

static inline void bare_free(BareHost *h) {
    for (int64_t i = 0; i < h->n; i++)
        if (h->buffers[i].is_owned) free(h->buffers[i].at);
    free(h);
}

// The value of a node, on the arena; NULL and a message where it is poison or cannot be evaluated.
static inline const Number *bare_value(BareHost *h, Arena *arena, UOp *node, int64_t *count,
                                       Error *err) {
    EvalTensor out;
    EvalBuffers buffers = {bare_address, h};
    if (uop_is_poison(node)) {
        (void)error_set(err, LATHE_BAD_REQUEST, __FILE__, __LINE__, "%s", node->message);
        return NULL;
    }
    if (!eval_graph(arena, node, &buffers, &out, err)) return NULL;
    *count = out.count;
    return out.at;
}

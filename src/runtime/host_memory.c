// host_memory: small blocks from the heap (sanitizers guard their ends), large ones as pages.
// In: sizes. Out: zeroed, aligned memory.
// Invariant: large blocks cost nothing until they are touched.
// Example: host_alloc(NULL, 100) → 192 bytes from the heap; host_alloc(NULL, 1 << 30) → pages
#include "runtime/host_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/os.h"

enum { ALIGNMENT = 64, READABLE_BEHIND = 64 };
static const size_t PAGES_FROM_BYTES = (size_t)1 << 20;

void *host_alloc(DeviceState *state, size_t nbytes) {
    (void)state;
    if (nbytes > SIZE_MAX / 4) return NULL;
    size_t size = (nbytes + READABLE_BEHIND + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (nbytes >= PAGES_FROM_BYTES) return memory_pages(size);
    void *at = aligned_alloc(ALIGNMENT, size);
    if (at) memset(at, 0, size);
    return at;
}

void host_release(DeviceState *state, void *at, size_t nbytes) {
    (void)state;
    if (nbytes >= PAGES_FROM_BYTES)
        memory_pages_free(at, (nbytes + READABLE_BEHIND + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    else
        free(at);
}

void host_copy(DeviceState *state, void *to, const void *from, size_t nbytes) {
    (void)state;
    if (nbytes) memcpy(to, from, nbytes);
}

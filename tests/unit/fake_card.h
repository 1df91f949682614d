// fake_card: the driver and the compiler of tests/cuda, whose kernels run on this CPU, for tests without a card.
// In: argv[0] of a test; both lie in its folder. Example: fake_card_use(argv[0])
#pragma once
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static inline void fake_card_use(const char *program) {
    Arena *arena = arena_create();
    const char *slash = strrchr(program, '/');
    int length = slash ? (int)(slash - program) : 1;
    const char *folder = slash ? program : ".";
    setenv("LATHE_CUDA", arena_printf(arena, "%.*s/libfakecuda.so", length, folder), 1);
    setenv("LATHE_NVRTC", arena_printf(arena, "%.*s/libfakenvrtc.so", length, folder), 1);
    arena_destroy(arena);
}

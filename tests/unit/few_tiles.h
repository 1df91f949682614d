// few_tiles: a device that few tiles keep busy, so that small graphs get the tiles and threads of large ones.
// In: an engine before its first kernel. Example: few_tiles(e), then 32 tiles count as many; kept kernels know nothing of this.
#pragma once
#include <stdio.h>

#include "engine/engine_private.h"

static const char GROUPS[] = "opencl12-groups";   // tiles are groups there on any OpenCL device

// Whether they are there; the reason is printed where they are not.
static inline bool has_groups(void) {
    Engine *engine;
    Error problem = {0};
    bool has = engine_open(&engine, "opencl", GROUPS, 1, &problem);
    if (has) engine_close(engine);
    else printf("skipped: %s\n", problem.text);
    return has;
}

static inline void few_tiles(Engine *e) {
    e->sources = NULL;
    e->target.tiles.width = 2;
    e->target.tiles.most = e->target.tiles.enough = e->target.tiles.few = 32;
}

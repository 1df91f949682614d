// few_tiles: a device that few tiles keep busy, so that small graphs get the tiles and threads of large ones.
// In: an engine before its first kernel. Example: few_tiles(e), then 32 tiles count as many; kept kernels know nothing of this.
#pragma once
#include "engine/engine_private.h"

static inline void few_tiles(Engine *e) {
    e->sources = NULL;
    e->target.tiles.width = 2;
    e->target.tiles.most = e->target.tiles.enough = e->target.tiles.few = 32;
}

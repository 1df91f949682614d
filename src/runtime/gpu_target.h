// gpu_target: the targets of devices whose tiles may be groups of threads. In: a name of gpu_targets.def. Out: a Target and the
// dialect of its texts. Invariant: nothing of a driver is asked, so that texts can be had where there is no card.
// Example: const GpuTarget *row = gpu_target_find("metal"); gpu_target_fill(&target, row); render(…, row->dialect, &target)
#pragma once
#include "ir/target.h"
#include "render/dialect.h"

typedef struct GpuTarget {
    const char *name;
    const Dialect *dialect;
    DotForm dot;
    bool has_atomic_add;
    int group_threads, shuffle_threads, thread_elements, prompt_rows, local_bytes;
    TileWishes tiles;
} GpuTarget;

const GpuTarget *gpu_target_find(const char *name);   // NULL where unknown
void gpu_target_fill(Target *target, const GpuTarget *row);
const char *gpu_target_names(Arena *arena);           // "opencl12, …"

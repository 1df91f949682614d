// memory: where temporaries lie in one block. First fit, large ones first: simple, and near the optimum for chains.
#include <stdlib.h>

#include "schedule/schedule.h"

typedef struct Interval { int64_t nbytes; int index; } Interval;

static int by_size(const void *a, const void *b) {
    const Interval *x = a, *y = b;
    if (x->nbytes != y->nbytes) return x->nbytes < y->nbytes ? 1 : -1;
    return x->index - y->index;
}

int64_t memory_plan(Arena *arena, const int64_t *nbytes, const int *first, const int *last, int n, int64_t *offset) {
    enum { ALIGNMENT = 64, SLACK = 64 };   // a wide load may pass the end by less than a register
    Interval *order = arena_new(arena, (size_t)(n + 1) * sizeof *order);
    for (int i = 0; i < n; i++) order[i] = (Interval){(nbytes[i] + SLACK + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, i};
    qsort(order, (size_t)n, sizeof *order, by_size);
    int64_t total = 0;
    for (int k = 0; k < n; k++) {
        int i = order[k].index;
        int64_t at = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (int j = 0; j < k; j++) {
                int o = order[j].index;
                bool alive = first[i] <= last[o] && first[o] <= last[i];
                if (alive && at < offset[o] + order[j].nbytes && offset[o] < at + order[k].nbytes) {
                    at = offset[o] + order[j].nbytes;
                    moved = true;
                }
            }
        }
        offset[i] = at;
        if (at + order[k].nbytes > total) total = at + order[k].nbytes;
    }
    return total;
}

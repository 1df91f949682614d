// later: see later.h.
#include "runtime/later.h"

void later_refill(Later *later, const Stages *stages, int s, int worker, int n_workers) {
    if (later->stage <= s) *later = (Later){.stage = s + 1};
    if (later->piece.at < later->piece.end) return;
    size_t between = 0;
    for (int t = s + 1; t < later->stage; t++) between += stages->at[t].nbytes;
    for (; later->stage < stages->n && between < stages->ahead_bytes; between += stages->at[later->stage++].nbytes, later->read = 0) {
        const Stage *stage = &stages->at[later->stage];
        if (later->read == stage->n_reads) continue;
        Span all = stage->reads[later->read++];
        ptrdiff_t share = (all.end - all.at) / n_workers, from = share * worker;
        later->piece = (Span){all.at + from, worker + 1 == n_workers ? all.end : all.at + from + share};
        return;
    }
}

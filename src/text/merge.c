// merge: a binary heap of candidate pairs over a doubly linked row of symbols.
// In: symbols added left to right. Out: the same array, where merged symbols have len 0.
// Invariant: a candidate whose symbols have changed since it was pushed is told by its length.
// Example: see merge.h.
#include "text/merge.h"
#include <string.h>
#include "base/error.h"

enum { FIRST_CAP = 64 };

void merger_init(Merger *m, Arena *arena) { *m = (Merger){.arena = arena}; }

// Arenas abort where memory is short; texts come from outside, so their size must not abort us.
static void *grown(Arena *arena, const void *from, size_t len, size_t cap, size_t item_bytes) {
    void *at = arena_alloc(arena, cap * item_bytes);
    if (at && len) memcpy(at, from, len * item_bytes);
    return at;
}

bool merger_begin(Merger *m, size_t n_symbols) {
    m->n_symbols = m->n_heap = 0;
    if (n_symbols <= m->symbols_cap) return true;
    size_t cap = n_symbols < FIRST_CAP ? FIRST_CAP : n_symbols;
    void *at = grown(m->arena, NULL, 0, cap, sizeof *m->symbols);
    if (!at) return false;
    m->symbols = at;
    m->symbols_cap = cap;
    return true;
}

void merger_add(Merger *m, uint32_t at, uint32_t len, int32_t id) {
    CHECK(m->n_symbols < m->symbols_cap);
    int32_t i = (int32_t)m->n_symbols++;
    m->symbols[i] = (Symbol){.at = at, .len = len, .id = id, .previous = i - 1, .next = -1};
    if (i > 0) m->symbols[i - 1].next = i;
}

static void heap_push(Merger *m, MergeCandidate c) {
    size_t i = m->n_heap++;
    while (i > 0 && m->heap[(i - 1) / 2].order > c.order) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = c;
}

static MergeCandidate heap_pop(Merger *m) {
    MergeCandidate top = m->heap[0], last = m->heap[--m->n_heap];
    size_t i = 0;
    for (size_t child = 1; child < m->n_heap; child = 2 * i + 1) {
        if (child + 1 < m->n_heap && m->heap[child + 1].order < m->heap[child].order) child++;
        if (m->heap[child].order >= last.order) break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    if (m->n_heap) m->heap[i] = last;
    return top;
}

static bool push_pair(Merger *m, MergeFind find, const void *context, int32_t left) {
    int32_t right = left < 0 ? -1 : m->symbols[left].next;
    uint32_t order;
    int32_t id;
    if (right < 0 || !find(context, &m->symbols[left], &m->symbols[right], &order, &id))
        return true;
    if (m->n_heap == m->heap_cap) {
        size_t cap = m->heap_cap ? m->heap_cap * 2 : m->symbols_cap;
        void *wider = grown(m->arena, m->heap, m->n_heap, cap, sizeof *m->heap);
        if (!wider) return false;
        m->heap = wider;
        m->heap_cap = cap;
    }
    heap_push(m, (MergeCandidate){.order = (uint64_t)order << 32 | (uint32_t)left,
                                  .right = right,
                                  .id = id,
                                  .len = m->symbols[left].len + m->symbols[right].len});
    return true;
}

bool merger_run(Merger *m, MergeFind find, const void *context) {
    for (size_t i = 0; i + 1 < m->n_symbols; i++)
        if (!push_pair(m, find, context, (int32_t)i)) return false;
    while (m->n_heap) {
        MergeCandidate c = heap_pop(m);
        int32_t left = (int32_t)(uint32_t)c.order;
        Symbol *l = &m->symbols[left], *r = &m->symbols[c.right];
        if (l->len == 0 || r->len == 0 || l->len + r->len != c.len) continue;
        l->len = c.len;
        l->id = c.id;
        l->next = r->next;
        r->len = 0;
        if (r->next >= 0) m->symbols[r->next].previous = left;
        if (!push_pair(m, find, context, l->previous) || !push_pair(m, find, context, left))
            return false;
    }
    return true;
}

// uop_walk: walks over graphs: order, replacement, and which loops a value depends on. See uop.h.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ir/uop.h"

// ---------------------------------------------------------------- maps

static size_t pointer_hash(const UOp *u) { return (size_t)(((uintptr_t)u >> 4) * 0x9E3779B97F4A7C15u >> 20); }

void uop_map_init(UOpMap *m, Arena *arena) { *m = (UOpMap){.arena = arena}; }

void *uop_map_get(const UOpMap *m, const UOp *key) {
    if (!m->cap) return NULL;
    for (size_t i = pointer_hash(key) & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        if (m->keys[i] == key) return m->values[i];
        if (!m->keys[i]) return NULL;
    }
}

void uop_map_put(UOpMap *m, UOp *key, void *value) {
    if (m->len * 2 >= m->cap) {
        UOpMap grown = {.arena = m->arena, .cap = m->cap ? m->cap * 2 : 64};
        grown.keys = arena_new(m->arena, grown.cap * sizeof *grown.keys);
        grown.values = arena_new(m->arena, grown.cap * sizeof *grown.values);
        for (size_t i = 0; i < m->cap; i++) if (m->keys[i]) uop_map_put(&grown, m->keys[i], m->values[i]);
        *m = grown;
    }
    size_t i = pointer_hash(key) & (m->cap - 1);
    while (m->keys[i] && m->keys[i] != key) i = (i + 1) & (m->cap - 1);
    if (!m->keys[i]) m->len++;
    m->keys[i] = key;
    m->values[i] = value;
}

static void list_push(Arena *arena, UOpList *list, UOp *u) {
    if (list->len == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 64;
        UOp **at = arena_new(arena, cap * sizeof *at);
        if (list->len) memcpy(at, list->at, list->len * sizeof *at);
        list->at = at;
        list->cap = cap;
    }
    list->at[list->len++] = u;
}

// ---------------------------------------------------------------- order

// Depth first with an explicit stack: graphs of whole models are deeper than C's stack.
static UOpList toposort(Arena *arena, UOp *root, bool follow_deps) {
    UOpList out = {0}, stack = {0};
    uint64_t on_stack = graph_visits(root->graph), done = on_stack + 1;
    list_push(arena, &stack, root);
    while (stack.len) {
        UOp *u = stack.at[stack.len - 1];
        if (u->visit < on_stack) {
            u->visit = on_stack;
            for (int i = u->op == OP_AFTER && !follow_deps ? 1 : u->n_src; i-- > 0;)
                if (u->src[i]->visit < on_stack) list_push(arena, &stack, u->src[i]);
        } else {
            stack.len--;
            if (u->visit == done) continue;
            u->visit = done;
            list_push(arena, &out, u);
        }
    }
    return out;
}

UOpList uop_toposort(Arena *arena, UOp *root) { return toposort(arena, root, true); }
UOpList uop_toposort_value(Arena *arena, UOp *root) { return toposort(arena, root, false); }

UOp *uop_substitute(UOp *root, UOp *const *from, UOp *const *to, int n) {
    Arena *arena = graph_arena(root->graph);
    UOpMap done;
    uop_map_init(&done, arena);
    for (int i = 0; i < n; i++) uop_map_put(&done, from[i], to[i]);
    UOpList order = uop_toposort(arena, root);
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *src[256], **list = src;
        if (uop_map_get(&done, u)) continue;
        if (u->n_src > 256) list = arena_new(arena, u->n_src * sizeof *list);
        for (int i = 0; i < u->n_src; i++) list[i] = uop_map_get(&done, u->src[i]);
        uop_map_put(&done, u, uop_with_src(u, list));
    }
    return uop_map_get(&done, root);
}

// ---------------------------------------------------------------- loops

static int by_range_id(const void *a, const void *b) {
    int64_t x = range_id(*(UOp *const *)a), y = range_id(*(UOp *const *)b);
    return (x > y) - (x < y);
}

static uint64_t *bits_of(const RangeSets *s, const UOp *u) { return uop_map_get(&s->bits, u); }

static size_t range_place(const RangeSets *s, const UOp *range) {
    for (size_t i = 0; i < s->ranges.len; i++) if (s->ranges.at[i] == range) return i;
    return SIZE_MAX;
}

RangeSets range_sets(Arena *arena, UOp *root) {
    RangeSets s = {.order = uop_toposort(arena, root)};
    uop_map_init(&s.bits, arena);
    for (size_t k = 0; k < s.order.len; k++) if (s.order.at[k]->op == OP_RANGE) list_push(arena, &s.ranges, s.order.at[k]);
    if (s.ranges.len > 1) qsort(s.ranges.at, s.ranges.len, sizeof *s.ranges.at, by_range_id);
    size_t words = s.ranges.len / 64 + 1;
    uint64_t *all = arena_new(arena, s.order.len * words * sizeof *all);
    for (size_t k = 0; k < s.order.len; k++) {
        UOp *u = s.order.at[k];
        uint64_t *bits = all + k * words;
        int closed_from = u->op == OP_FOLD || u->op == OP_ACCUM ? 1 : u->op == OP_STORE ? 2
                        : u->op == OP_END && u->n_arg ? (int)u->arg[0] : u->n_src;
        for (int i = 0; i < u->n_src; i++) {   // a closed range's own end may depend on outer ranges
            const uint64_t *below = bits_of(&s, u->src[i]);
            for (size_t w = 0; w < words; w++) bits[w] |= below[w];
        }
        for (int i = closed_from; i < u->n_src; i++) {
            size_t at = range_place(&s, u->src[i]);
            if (at != SIZE_MAX) bits[at / 64] &= ~((uint64_t)1 << at % 64);
        }
        if (u->op == OP_RANGE) {
            size_t at = range_place(&s, u);
            bits[at / 64] |= (uint64_t)1 << at % 64;
        }
        uop_map_put(&s.bits, u, bits);
    }
    return s;
}

bool range_sets_has(const RangeSets *s, const UOp *u, size_t range) {
    return bits_of(s, u)[range / 64] >> range % 64 & 1;
}

bool range_sets_depends(const RangeSets *s, const UOp *u, const UOp *range) {
    size_t at = range_place(s, range);
    return at != SIZE_MAX && range_sets_has(s, u, at);
}

double range_sets_trips(const RangeSets *s, const UOp *u) {
    double trips = 1;
    for (size_t i = 0; i < s->ranges.len; i++) if (range_sets_has(s, u, i)) trips *= (double)range_size(s->ranges.at[i]);
    return trips;
}

UOpList uop_free_ranges(Arena *arena, UOp *root) {
    ArenaMark mark = arena_mark(arena);   // no node is made below: all but the result can go
    RangeSets s = range_sets(arena, root);
    UOp *found[256];
    size_t n = 0;
    for (size_t i = 0; i < s.ranges.len; i++) {
        if (!range_sets_has(&s, root, i)) continue;
        CHECK(n < sizeof found / sizeof *found);
        found[n++] = s.ranges.at[i];
    }
    arena_release(arena, mark);
    return (UOpList){arena_copy(arena, found, n * sizeof *found), n, n};
}

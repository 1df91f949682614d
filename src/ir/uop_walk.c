// uop_walk: walks over graphs: order, replacement, and which loops a value depends on. See uop.h.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ir/uop.h"

// ---------------------------------------------------------------- maps

static size_t pointer_hash(const UOp *u) { return (size_t)(((uintptr_t)u >> 4) * 0x9E3779B97F4A7C15u >> 20); }

void uop_map_init(UOpMap *m, Arena *arena) { *m = (UOpMap){.arena = arena}; }

static void map_grow(UOpMap *m, size_t cap) {
    UOpMap grown = {.arena = m->arena, .cap = cap};
    grown.keys = arena_new(m->arena, cap * sizeof *grown.keys);
    grown.values = arena_new(m->arena, cap * sizeof *grown.values);
    for (size_t i = 0; i < m->cap; i++) if (m->keys[i]) uop_map_put(&grown, m->keys[i], m->values[i]);
    *m = grown;
}

void uop_map_reserve(UOpMap *m, size_t len) {
    size_t cap = m->cap ? m->cap : 16;
    while (cap < len * 2 + 1) cap *= 2;
    if (cap > m->cap) map_grow(m, cap);
}

void *uop_map_get(const UOpMap *m, const UOp *key) {
    if (!m->cap) return NULL;
    for (size_t i = pointer_hash(key) & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        if (m->keys[i] == key) return m->values[i];
        if (!m->keys[i]) return NULL;
    }
}

void uop_map_put(UOpMap *m, UOp *key, void *value) {
    if (m->len * 2 >= m->cap) map_grow(m, m->cap ? m->cap * 2 : 64);
    size_t i = pointer_hash(key) & (m->cap - 1);
    while (m->keys[i] && m->keys[i] != key) i = (i + 1) & (m->cap - 1);
    if (!m->keys[i]) m->len++;
    m->keys[i] = key;
    m->values[i] = value;
}

// ---------------------------------------------------------------- order

// A list that begins in memory of its caller's stack: most graphs of one value or store fit there.
enum { NEAR_NODES = 1024 };
typedef struct NearList { UOp **at; size_t len, cap; UOp *near[NEAR_NODES]; } NearList;

static void list_start(NearList *list) { list->at = list->near, list->len = 0, list->cap = NEAR_NODES; }

static void list_push(Arena *arena, NearList *list, UOp *u) {
    if (list->len == list->cap) {
        UOp **at = arena_new(arena, 2 * list->cap * sizeof *at);
        memcpy(at, list->at, list->len * sizeof *at);
        list->at = at;
        list->cap *= 2;
    }
    list->at[list->len++] = u;
}

// Depth first with an explicit stack: graphs of whole models are deeper than C's stack. Returns the number that node k of
// the order has in `visit`, less k: until the next walk of the graph a node knows its place.
static uint64_t walk(Arena *arena, UOp *root, bool follow_deps, NearList *out) {
    NearList stack;
    uint64_t on_stack = graph_visits(root->graph), first = on_stack + 1;
    list_start(out);
    list_start(&stack);
    list_push(arena, &stack, root);
    while (stack.len) {
        UOp *u = stack.at[stack.len - 1];
        if (u->visit < on_stack) {
            u->visit = on_stack;
            for (int i = u->op == OP_AFTER && !follow_deps ? 1 : u->n_src; i-- > 0;)
                if (u->src[i]->visit < on_stack) list_push(arena, &stack, u->src[i]);
        } else {
            stack.len--;
            if (u->visit > on_stack) continue;
            u->visit = first + out->len;
            list_push(arena, out, u);
        }
    }
    graph_visited(root->graph, out->len);
    return first;
}

static UOpList toposort(Arena *arena, UOp *root, bool follow_deps) {
    NearList order;
    walk(arena, root, follow_deps, &order);
    UOp **at = order.at == order.near ? arena_copy(arena, order.at, order.len * sizeof *at) : order.at;
    return (UOpList){at, order.len, order.len};
}

UOpList uop_toposort(Arena *arena, UOp *root) { return toposort(arena, root, true); }
UOpList uop_toposort_value(Arena *arena, UOp *root) { return toposort(arena, root, false); }

UOp *uop_substitute(UOp *root, UOp *const *from, UOp *const *to, int n) {
    Arena *arena = graph_arena(root->graph);
    NearList order;
    UOp *near[NEAR_NODES], **image = near;
    uint64_t first = walk(arena, root, true, &order);
    bool any = false;
    if (order.len > NEAR_NODES) image = arena_new(arena, order.len * sizeof *image);
    else memset(near, 0, order.len * sizeof *near);
    for (int i = 0; i < n; i++) {
        uint64_t k = from[i]->visit - first;
        if (from[i]->visit < first || k >= order.len || order.at[k] != from[i]) continue;   // not below root
        image[k] = to[i];
        any |= to[i] != from[i];
    }
    for (size_t k = 0; k < order.len && any; k++) {
        UOp *u = order.at[k], *src[256], **list = src;
        if (image[k]) continue;
        if (u->n_src > 256) list = arena_new(arena, u->n_src * sizeof *list);
        for (int i = 0; i < u->n_src; i++) list[i] = image[u->src[i]->visit - first];
        image[k] = uop_with_src(u, list);
    }
    return any ? image[order.len - 1] : root;
}

UOp *uop_renewed(UOp *u, const UOpMap *done) {
    UOp *near[16], **src = near;
    if (u->n_src > 16) src = arena_new(graph_arena(u->graph), (size_t)u->n_src * sizeof *src);
    for (int i = 0; i < u->n_src; i++) src[i] = uop_map_get(done, u->src[i]);
    return uop_with_src(u, src);
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

// The sets of all nodes, in the order of s->order, whose first node has `first` in visit.
static uint64_t *sets_find(Arena *arena, RangeSets *s, uint64_t first, size_t *words) {
    size_t n = 0;
    for (size_t k = 0; k < s->order.len; k++) n += s->order.at[k]->op == OP_RANGE;
    s->ranges = (UOpList){arena_new(arena, n * sizeof *s->ranges.at), 0, n};
    for (size_t k = 0; k < s->order.len; k++)
        if (s->order.at[k]->op == OP_RANGE) s->ranges.at[s->ranges.len++] = s->order.at[k];
    if (n > 1) qsort(s->ranges.at, n, sizeof *s->ranges.at, by_range_id);
    *words = n / 64 + 1;
    uint64_t *all = arena_new(arena, s->order.len * *words * sizeof *all);
    for (size_t k = 0; k < s->order.len; k++) {
        UOp *u = s->order.at[k];
        uint64_t *bits = all + k * *words;
        int closed_from = u->op == OP_FOLD || u->op == OP_ACCUM ? 1 : uop_is_store(u) ? 2
                        : u->op == OP_THREAD_HALVES ? 3 : u->op == OP_END && u->n_arg ? (int)u->arg[0] : u->n_src;
        for (int i = 0; i < u->n_src; i++) {   // a closed range's own end may depend on outer ranges
            const uint64_t *below = all + (u->src[i]->visit - first) * *words;
            for (size_t w = 0; w < *words; w++) bits[w] |= below[w];
        }
        for (int i = closed_from; i < u->n_src; i++) {
            size_t at = range_place(s, u->src[i]);
            if (at != SIZE_MAX) bits[at / 64] &= ~((uint64_t)1 << at % 64);
        }
        if (u->op == OP_RANGE) {
            size_t at = range_place(s, u);
            bits[at / 64] |= (uint64_t)1 << at % 64;
        }
    }
    return all;
}

RangeSets range_sets(Arena *arena, UOp *root) {
    RangeSets s = {.order = uop_toposort(arena, root)};
    size_t words;
    uint64_t *all = sets_find(arena, &s, s.order.at[0]->visit, &words);
    uop_map_init(&s.bits, arena);
    uop_map_reserve(&s.bits, s.order.len);
    for (size_t k = 0; k < s.order.len; k++) uop_map_put(&s.bits, s.order.at[k], all + k * words);
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
    NearList order;
    walk(arena, root, true, &order);
    RangeSets s = {.order = {order.at, order.len, order.len}};
    size_t words, n = 0;
    const uint64_t *all = sets_find(arena, &s, order.at[0]->visit, &words), *bits = all + (order.len - 1) * words;
    UOp *found[256];
    for (size_t i = 0; i < s.ranges.len; i++) {
        if (!(bits[i / 64] >> i % 64 & 1)) continue;
        CHECK(n < sizeof found / sizeof *found);
        found[n++] = s.ranges.at[i];
    }
    arena_release(arena, mark);
    return (UOpList){arena_copy(arena, found, n * sizeof *found), n, n};
}

// fuse: items become kernels. Items that can share tiles run one after the other inside a tile, without a barrier.
// In: schedule.items. Out: kernels in order, with their tile ranges (RANGE_GLOBAL) chosen.
// An item may join a group where all that it reads of the group's buffers was written by its own tile. Each axis of a
// stored buffer says which tile wrote an element, so reading element f means tile coordinate (f // stride % size) // c:
// if that is a loop of the reader, or of a form of it (merged_loops), both become one tile range; else the axis is computed whole in each tile.
// Where a group before that one is the better company, and nobody has waited for it yet, it moves behind and takes the item.
// Invariant: whatever tiles run in whatever order, each reads only what itself or an earlier kernel wrote.
// Example: y[r] = Σ…; s[b] = max_j |y[32b + j]|: y's r is cut as 32·t + i, b is t, and both stand in one kernel.
#include <string.h>

#include "schedule/fuse.h"
#include "schedule/merged_loops.h"
#include "schedule/recompute.h"

enum { MAX_MEMBERS = 16, MAX_LOOPS = 60, MAX_BACK = 8 };   // loops: linearize keeps their sets as bits; back: groups looked at
static const double FAR_WORK = 4;                    // what an element costs that leaves the near cache before it is read
static const double SYNC_WORK = 100000, WIDTH = 8;   // what a barrier costs in operations; workers counted on
static const double LONG_STARTS = 16;                // work of each worker, in starts of a kernel, from which a start saved is no gain

// ---------------------------------------------------------------- what a store touches

static Reads find_reads(Fuser *f, UOp *store) {
    UOpList order = uop_toposort(f->arena, store);
    Reads r = {.id = arena_new(f->arena, (order.len + 1) * sizeof *r.id)};
    for (size_t k = 0; k < order.len; k++) {
        if (order.at[k]->op != OP_LOAD) continue;
        int64_t id = uop_buffer_of(order.at[k]->src[0])->arg[0];
        bool known = false;
        for (int i = 0; i < r.n && !known; i++) known = r.id[i] == id;
        if (!known) r.id[r.n++] = id;
    }
    return r;
}

static bool reads(const Reads *r, int64_t buffer) {
    for (int i = 0; i < r->n; i++) if (r->id[i] == buffer) return true;
    return false;
}

static bool group_writes(const Group *g, int64_t buffer) {
    for (size_t i = 0; i < g->members.len; i++) if (g->members.at[i].buffer == buffer) return true;
    return false;
}

static bool group_reads(const Group *g, int64_t buffer) {
    for (size_t i = 0; i < g->members.len; i++) if (reads(&g->members.at[i].reads, buffer)) return true;
    return false;
}

static bool depends_on(const Reads *r, int64_t written, const Group *g) {
    for (size_t i = 0; i < g->members.len; i++)
        if (reads(r, g->members.at[i].buffer) || g->members.at[i].buffer == written) return true;
    return group_reads(g, written);
}

static double store_work(UOp *store) {
    double work = value_cost(store->src[1]) + 1;
    for (int k = 2; k < store->n_src; k++) work *= (double)range_size(store->src[k]);
    return work;
}

// ---------------------------------------------------------------- groups

static int count_loops(Fuser *f, UOp *store);

// Adds what an index is made of: stride[i] for loop i of the store. False where it is not a sum of loops times constants.
static bool add_strides(const UOp *index, const UOp *store, int64_t times, int64_t *stride) {
    int64_t c;
    if (uop_is_const(index)) return true;
    if (index->op == OP_ADD) return add_strides(index->src[0], store, times, stride) && add_strides(index->src[1], store, times, stride);
    if (index->op == OP_MUL && uop_is_int_const(index->src[1], &c)) return add_strides(index->src[0], store, times * c, stride);
    for (int i = 2; i < store->n_src; i++) if (store->src[i] == index) { stride[i - 2] += times; return true; }
    return false;
}

// The axes of a temporary that a store fills, or fills a part of: loop i goes over axis i, outermost first.
static bool find_axes(const Fuser *f, Member *m) {
    const Temp *temp = schedule_temp_find(f->schedule, m->buffer);
    int n = m->store->n_src - 2;
    int64_t stride[MAX_AXIS] = {0}, outer = temp ? temp->count : 0;
    if (!temp || n > MAX_AXIS || !add_strides(m->store->src[0]->src[1], m->store, 1, stride)) return false;
    for (int i = 0; i < n; i++) {
        if (stride[i] <= 0 || outer % stride[i] || range_size(m->store->src[2 + i]) * stride[i] > outer) return false;
        m->axis[i] = (Axis){outer / stride[i], 1, -1};
        outer = stride[i];
    }
    m->n_axes = n;
    return n == 0 || outer == 1;
}

static Group group_new(Fuser *f, UOp *store) {
    Group g = {.work = store_work(store), .loops = count_loops(f, store)};
    Member m = {.store = store, .buffer = uop_buffer_of(store->src[0])->arg[0], .reads = find_reads(f, store)};
    m.is_row_major = find_axes(f, &m);
    for (int i = 2; i < store->n_src; i++) {
        UOp *range = store->src[i];
        if (g.n_tiles == MAX_TILES) continue;
        if (m.is_row_major && m.axis[i - 2].size == range_size(range)) m.axis[i - 2].tile = g.n_tiles;
        g.tile[g.n_tiles++] = range;
    }
    vec_push(f->arena, &g.members, m);
    return g;
}

// A loop of a store replaced by `to`, and in the list of closed loops by those given (NULL: by nothing). Other loops may
// end at data that depends on it.
static UOp *store_replace(UOp *s, UOp *range, UOp *to, UOp *first, UOp *second) {
    UOp *ranges[34];
    int n = 0;
    for (int k = 2; k < s->n_src; k++) {
        if (s->src[k] != range) { ranges[n++] = uop_substitute(s->src[k], &range, &to, 1); continue; }
        if (first) ranges[n++] = first;
        if (second) ranges[n++] = second;
    }
    return uop_store_as(s, uop_substitute(s->src[0], &range, &to, 1), uop_substitute(s->src[1], &range, &to, 1), ranges, n);
}

// The other tiles may end at data that depends on the range.
static void tiles_follow(Group *g, UOp *range, UOp *to) {
    for (int t = 0; t < g->n_tiles; t++)
        if (g->tile[t] && g->tile[t] != range) g->tile[t] = uop_substitute(g->tile[t], &range, &to, 1);
}

static void group_substitute(Group *g, UOp *range, UOp *to, UOp *inner) {
    for (size_t i = 0; i < g->members.len; i++) g->members.at[i].store = store_replace(g->members.at[i].store, range, to, inner, NULL);
    tiles_follow(g, range, to);
}

// Cuts tile range t into tiles of `by`: the rest becomes a loop inside each member. One that ends at data counts tiles up
// to its largest end, and those behind the end find a loop of no step.
static void group_cut(Fuser *f, Group *g, int t, int64_t by) {
    UOp *old = g->tile[t];
    Graph *graph = f->schedule->graph;
    UOp *outer = uop_range_const(graph, range_size(old) / by, RANGE_LOOP), *first = uop_binary(OP_MUL, outer, uop_int(graph, DT_I32, by));
    UOp *inner = range_is_static(old) ? uop_range_const(graph, by, RANGE_LOOP)
                                : loop_within(uop_binary(OP_SUB, old->src[0], first), by, RANGE_LOOP);
    UOp *to = by > 1 ? uop_binary(OP_ADD, first, inner) : first;
    for (size_t i = 0; i < g->members.len; i++) {
        Member *m = &g->members.at[i];
        m->store = store_replace(m->store, old, to, outer, inner);
        for (int k = 0; k < m->n_axes; k++) if (m->axis[k].tile == t) m->axis[k].cut *= by;
    }
    g->tile[t] = outer;
    tiles_follow(g, old, to);
}

static void group_drop(Group *g, int t) {
    g->tile[t] = NULL;
    for (size_t i = 0; i < g->members.len; i++)
        for (int k = 0; k < g->members.at[i].n_axes; k++) if (g->members.at[i].axis[k].tile == t) g->members.at[i].axis[k].tile = -1;
}

static double group_tiles(const Group *g) {
    double n = 1;
    for (int t = 0; t < g->n_tiles; t++) if (g->tile[t]) n *= (double)range_size(g->tile[t]);
    return n;
}

static double width_of(const Fuser *f) { return f->schedule->wishes.width > 0 ? f->schedule->wishes.width : WIDTH; }
static double sync_work_of(const Fuser *f) { return f->schedule->wishes.sync_work > 0 ? f->schedule->wishes.sync_work : SYNC_WORK; }

static double estimate(const Fuser *f, double work, double tiles) {
    return work / (tiles < width_of(f) ? tiles : width_of(f)) + sync_work_of(f);
}

// Where a device says how many tiles run at once: two long products with fewer tiles in common than it wants keep their own. What
// they lose is loops of the one that the other has not: experts' groups, say, which all tiles of rows would then walk.
static bool is_apart_better(const Fuser *f, double shorter_work, double tiles) {
    const TileWishes *wish = &f->schedule->wishes;
    return wish->width > 0 && tiles < (double)wish->most && shorter_work > LONG_STARTS * width_of(f) * sync_work_of(f);
}

// ---------------------------------------------------------------- joining

// What a tile range is in terms of the reader: range / divide, where the group's range is first cut by `cut`.
typedef struct TileMatch { UOp *range; int64_t divide, cut; bool is_known, is_dropped; } TileMatch;

static UOp *quotient(UOp *u, int64_t by) {
    return by == 1 ? u : simplify(uop_binary(OP_IDIV, u, uop_int(u->graph, u->dtype, by)));
}

// The tile coordinate of a load in the reader's terms: a range, or a range divided, or nothing.
static TileMatch match_coordinate(UOp *at, const UOp *reader, int64_t tiles) {
    for (int i = 2; i < reader->n_src; i++) {
        UOp *range = reader->src[i];
        int64_t size = range_size(range);
        if (range_is_static(range) ? size <= tiles && tiles % size == 0 && quotient(at, tiles / size) == range : size == tiles && at == range)
            return (TileMatch){range, 1, tiles / size, true, false};
        if (range_is_static(range) && size > tiles && size % tiles == 0 && at == quotient(range, size / tiles)) return (TileMatch){range, size / tiles, 1, true, false};
    }
    return (TileMatch){.is_known = true, .is_dropped = true};
}

static void match_merge(TileMatch *known, TileMatch now) {
    if (!known->is_known) *known = now;
    else if (now.is_dropped || known->range != now.range || known->divide != now.divide || known->cut != now.cut) known->is_dropped = true;
}

// Loops that end at data are one tile range only where it is the same data.
static bool ends_alike(const Group *g, const TileMatch *match, int t) {
    UOp *from[MAX_TILES], *to[MAX_TILES], *range = match[t].range;
    int n = 0;
    if (range == g->tile[t] || (range_is_static(range) && range_is_static(g->tile[t]))) return true;
    for (int o = 0; o < t; o++)
        if (!match[o].is_dropped && match[o].cut == 1 && match[o].divide == 1) from[n] = match[o].range, to[n++] = g->tile[o];
    return uop_substitute(range->src[0], from, to, n) == g->tile[t]->src[0];
}

// Which of the group's tile ranges the reader follows, from all its loads of what the group writes.
static void match_tiles(Fuser *f, const Group *g, UOp *reader, TileMatch *match) {
    UOpList order = uop_toposort(f->arena, reader);
    for (int t = 0; t < g->n_tiles; t++) match[t] = (TileMatch){.is_known = !g->tile[t], .is_dropped = !g->tile[t]};
    for (size_t k = 0; k < order.len; k++) {
        UOp *load = order.at[k];
        if (load->op != OP_LOAD) continue;
        for (size_t i = 0; i < g->members.len; i++) {
            const Member *m = &g->members.at[i];
            if (m->buffer != uop_buffer_of(load->src[0])->arg[0]) continue;
            bool has[MAX_TILES] = {0};
            int64_t stride = 1;
            for (int a = m->n_axes; a-- > 0; stride *= m->axis[a].size) {
                int t = m->axis[a].tile;
                if (t < 0 || !g->tile[t]) continue;
                UOp *at = quotient(load->src[0]->src[1], stride);
                if (a > 0) at = simplify(uop_binary(OP_MOD, at, uop_int(at->graph, at->dtype, m->axis[a].size)));
                match_merge(&match[t], match_coordinate(quotient(at, m->axis[a].cut), reader, range_size(g->tile[t])));
                has[t] = true;
            }
            for (int t = 0; t < g->n_tiles; t++) if (!has[t]) match[t].is_known = match[t].is_dropped = true;
        }
    }
    // Two tile ranges cannot be one loop of the reader; loops that bound others by data stay as they are.
    for (int t = 0; t < g->n_tiles; t++) {
        bool is_shared = false;   // the parts of a value that was split have their other loops in common
        for (int i = 2; i < reader->n_src; i++) is_shared |= reader->src[i] == g->tile[t];
        if (!match[t].is_known) match[t] = (TileMatch){g->tile[t], 1, 1, true, !is_shared};
        for (int o = 0; o < t; o++)
            if (!match[t].is_dropped && !match[o].is_dropped && match[t].range == match[o].range) match[t].is_dropped = true;
        if (!match[t].is_dropped && !ends_alike(g, match, t)) match[t].is_dropped = true;
    }
}

static double matched_tiles(const Group *g, const TileMatch *match) {
    double n = 1;
    for (int t = 0; t < g->n_tiles; t++) if (g->tile[t] && !match[t].is_dropped) n *= (double)(range_size(g->tile[t]) / match[t].cut);
    return n;
}

static void group_join(Fuser *f, Group *g, UOp *reader, const TileMatch *match) {
    Group b = group_new(f, reader);
    int tile_of_reader[MAX_TILES], own[MAX_TILES] = {0};
    for (int i = 0; i < MAX_TILES; i++) tile_of_reader[i] = -1;
    for (int t = 0; t < g->n_tiles; t++)
        while (g->tile[t] && !match[t].is_dropped && b.tile[own[t]] != match[t].range) own[t]++;
    for (int t = 0; t < g->n_tiles; t++) {
        if (!g->tile[t]) continue;
        if (match[t].is_dropped) { group_drop(g, t); continue; }
        if (match[t].cut > 1) group_cut(f, g, t, match[t].cut);
        if (match[t].divide > 1) group_cut(f, &b, own[t], match[t].divide);
        group_substitute(&b, b.tile[own[t]], g->tile[t], g->tile[t]);
        tile_of_reader[own[t]] = t;
    }
    Member *m = &b.members.at[0];
    for (int k = 0; k < m->n_axes; k++) m->axis[k].tile = m->axis[k].tile < 0 ? -1 : tile_of_reader[m->axis[k].tile];
    vec_push(f->arena, &g->members, *m);
    g->work += b.work;
}

static int count_loops(Fuser *f, UOp *store) {
    ArenaMark mark = arena_mark(f->arena);
    UOpList order = uop_toposort_value(f->arena, store);
    int n = 0;
    for (size_t k = 0; k < order.len; k++) n += order.at[k]->op == OP_RANGE;
    arena_release(f->arena, mark);
    return n;
}

// Whether the reader needs what tiles of the group make together, or makes it with them: other tiles of one kernel are not waited for.
static bool needs_other_tiles(const Fuser *f, const Group *g, const Reads *r, int64_t written) {
    for (size_t i = 0; i < g->members.len; i++) {
        int64_t id = g->members.at[i].buffer;
        const Temp *temp = schedule_temp_find(f->schedule, id);
        if (temp && temp->is_shared && (reads(r, id) || written == id)) return true;
    }
    return false;
}

// merged: the same store where loops that stand together are one.
enum { MOST_FORMS = 4 };
typedef struct Reader { UOp *store, *merged[MOST_FORMS]; int n_merged; Reads reads; int64_t written; double work, alone; int loops; } Reader;

// The reader, or a form of it whose loops follow all of the group's tiles where its own don't.
static UOp *match_reader(Fuser *f, const Group *g, const Reader *r, TileMatch *match) {
    UOp *best = r->store;
    match_tiles(f, g, best, match);
    for (int i = 0; i < r->n_merged && matched_tiles(g, match) < group_tiles(g); i++) {
        TileMatch merged[MAX_TILES];
        match_tiles(f, g, r->merged[i], merged);
        if (matched_tiles(g, merged) < group_tiles(g)) continue;
        best = r->merged[i];
        for (int t = 0; t < g->n_tiles; t++) match[t] = merged[t];
    }
    return best;
}

static bool join_group(Fuser *f, Group *g, const Reader *r) {
    Group joined = *g;
    TileMatch match[MAX_TILES];
    if (g->members.len == MAX_MEMBERS || g->loops + r->loops > MAX_LOOPS || needs_other_tiles(f, g, &r->reads, r->written)) return false;
    UOp *store = match_reader(f, g, r, match);
    double tiles = matched_tiles(g, match);
    // Writing what the group reads or writes, or reading what was scattered, is only safe in one tile. Several that
    // write a temporary write parts of it that do not overlap.
    bool is_hard = (r->written < FIRST_TEMP_ID && group_writes(g, r->written)) || group_reads(g, r->written);
    for (size_t i = 0; i < g->members.len; i++)
        is_hard |= !g->members.at[i].is_row_major && reads(&r->reads, g->members.at[i].buffer);
    if (is_hard && tiles > 1) return false;
    double apart = estimate(f, g->work, group_tiles(g)) + estimate(f, r->work, r->alone);
    if (estimate(f, g->work + r->work, tiles) > apart) return false;
    bool loses_tiles = tiles < group_tiles(g) || tiles < r->alone;
    if (loses_tiles && is_apart_better(f, g->work < r->work ? g->work : r->work, tiles)) return false;
    joined.members.at = arena_copy(f->arena, g->members.at, g->members.len * sizeof *g->members.at);
    joined.members.cap = g->members.len;
    group_join(f, &joined, store, match);
    joined.loops += r->loops;
    if (!g->knows_again) g->again = cuts_read_again(f, g), g->knows_again = true;
    joined.again = cuts_read_again(f, &joined), joined.knows_again = true;
    double far = FAR_WORK * cuts_far_elements(f, &joined), known_far = FAR_WORK * cuts_far_elements(f, g);
    if (estimate(f, joined.work + joined.again + far, tiles) > apart + (g->again + known_far) / width_of(f)) return false;
    *g = joined;
    return true;
}

// Whether a later group depends on it.
static bool is_waited_for(const Fuser *f, size_t at) {
    for (size_t k = at + 1; k < f->groups.len; k++)
        for (size_t i = 0; i < f->groups.at[k].members.len; i++) {
            const Member *m = &f->groups.at[k].members.at[i];
            if (depends_on(&m->reads, m->buffer, &f->groups.at[at])) return true;
        }
    return false;
}

static bool try_join(Fuser *f, UOp *store) {
    Reader r = {.store = store, .reads = find_reads(f, store), .written = uop_buffer_of(store->src[0])->arg[0],
                .work = store_work(store), .alone = 1, .loops = count_loops(f, store)};
    r.n_merged = loops_merged(f->arena, store, r.merged, MOST_FORMS);
    for (int i = 2; i < store->n_src; i++) if (range_is_static(store->src[i])) r.alone *= (double)range_size(store->src[i]);
    // The last group that the store depends on, and those behind it, which then share nothing but the barrier.
    size_t at = f->groups.len;
    while (at > 0 && !depends_on(&r.reads, r.written, &f->groups.at[at - 1])) at--;
    size_t last = at;
    if (last > 0 && join_group(f, &f->groups.at[last - 1], &r)) return true;
    for (; at < f->groups.len; at++) if (join_group(f, &f->groups.at[at], &r)) return true;
    // One before it that nothing has waited for yet can as well come now.
    for (size_t back = 2; back <= MAX_BACK && back <= last; back++) {
        size_t g = last - back;
        if (!depends_on(&r.reads, r.written, &f->groups.at[g]) || is_waited_for(f, g) || !join_group(f, &f->groups.at[g], &r)) continue;
        Group joined = f->groups.at[g];
        for (size_t k = g + 1; k < f->groups.len; k++) f->groups.at[k - 1] = f->groups.at[k];
        f->groups.at[f->groups.len - 1] = joined;
        return true;
    }
    return false;
}

// ---------------------------------------------------------------- kernels

// Loads of what an earlier member wrote, ordered behind the last store to it. Only loads change: the target of a store
// may be the same address node.
static UOp *read_after(Fuser *f, const Group *g, size_t member, UOp *store, UOp *const *finished) {
    UOpList order = uop_toposort(f->arena, store);
    UOpMap done;
    uop_map_init(&done, f->arena);
    for (size_t n = 0; n < order.len; n++) {
        UOp *u = order.at[n];
        UOp **src = arena_new(f->arena, (size_t)(u->n_src + 1) * sizeof *src);
        for (int i = 0; i < u->n_src; i++) src[i] = uop_map_get(&done, u->src[i]);
        if (u->op == OP_LOAD) {
            UOp *buffer = src[0]->src[0];
            for (size_t k = member; k-- > 0;)
                if (g->members.at[k].buffer == buffer->arg[0]) {
                    src[0] = uop_index(uop_after(buffer, (UOp *[]){finished[k]}, 1), src[0]->src[1]);
                    break;
                }
        }
        uop_map_put(&done, u, uop_with_src(u, src));
    }
    return uop_map_get(&done, store);
}

static Kernel group_finish(Fuser *f, Group *g) {
    Kernel kernel = {.work = g->work};
    Cuts cuts = cuts_choose(f, g);
    for (int i = 0; i < cuts.n; i++) {
        int t = cuts.at[i].t;
        if (cuts.at[i].keep > 1 || !range_is_static(g->tile[t])) group_cut(f, g, t, cuts.at[i].keep);
        UOp *tile = uop_range_const(f->schedule->graph, range_size(g->tile[t]), RANGE_GLOBAL);
        group_substitute(g, g->tile[t], tile, NULL);
        vec_push(f->arena, &kernel.tiles, tile);
    }
    for (size_t i = 0; i < g->members.len; i++) {
        UOp *store = read_after(f, g, i, loops_renewed(f->arena, g->members.at[i].store, NULL, NULL), kernel.stores.at);
        vec_push(f->arena, &kernel.stores, store);
    }
    return kernel;
}

KernelList schedule_fuse(Schedule *s) {
    Fuser f = {.schedule = s, .arena = s->arena};
    KernelList out = {0};
    Recompute recompute;
    recompute_init(&recompute, s);
    for (size_t i = 0; i < s->items.len; i++) {
        UOp *store = recompute_apply(&recompute, s->items.at[i].store);
        if (try_join(&f, store) || recompute_put_off(&recompute, store, ENOUGH_TILES, sync_work_of(&f))) continue;
        vec_push(f.arena, &f.groups, group_new(&f, store));
    }
    for (size_t i = 0; i < f.groups.len; i++) vec_push(s->arena, &out, group_finish(&f, &f.groups.at[i]));
    return out;
}

// cuts: which loops of a group become tiles that workers take.
// In: a group whose members share loops. Out: those to cut, and how many of their steps a tile keeps.
// Invariant: tiles are enough work to be worth taking, and enough of them to keep workers busy to the end.
// Example: a product of 2,048 rows of 2,048: 64 tiles of 32 rows; attention over pages: a tile a page, all heads in it.
#include <math.h>

#include "schedule/fuse.h"

enum { TILE_WORK = 131072, MOST_TILES = 512, FEW_TILES = 8, MORE_TILES = 8, LINE_ELEMENTS = 16 };
static const double FAR_TEMP = 1 << 20;       // elements of a temporary that is read from memory, whoever reads it
static const double NEAR_ELEMENTS = 65536;   // of a value that a tile makes and reads: 256 KiB
static const double NEARLY = 1.25;
// Tiles whose cells serve at least so many elements: at most so many for each that runs, at least so many, of at most so much work.
static const double SHARED_BY = 4, SHARED_TILES = 16, SHARED_FILL = 4, SHARED_WORK = 1 << 23;
static const double NEAR = 1.5;               // how far from what is wanted a more even divisor may lie

// What the target wishes, or what suits threads of a CPU.
static TileWishes wishes_of(const Fuser *f) {
    TileWishes w = f->schedule->wishes;
    return (TileWishes){.work = w.work > 0 ? w.work : TILE_WORK, .most = w.most ? w.most : MOST_TILES,
                        .enough = w.enough ? w.enough : ENOUGH_TILES, .few = w.few ? w.few : FEW_TILES,
                        .multiple = w.multiple ? w.multiple : 1, .width = w.width};
}

// How far apart two steps of the range read; what numbers loaded by it select lies anywhere.
static int64_t step_of(UOp *index, UOp *range) {
    int64_t step;
    return index_step(index, range, &step) ? step : INT64_MAX;
}

// What is loaded under a range: by all members, by the largest load; and of the model's own buffers what other loads read,
// again in each tile. far: the same of large temporaries.
typedef struct Weight { double elements, largest, again, far; UOp *index; } Weight;

// Whether a load goes through a temporary that near caches do not hold.
static bool is_far(const Fuser *f, const UOp *load) {
    const Temp *temp = schedule_temp_find(f->schedule, uop_buffer_of(load->src[0])->arg[0]);
    return temp && f->schedule->wishes.width <= 0 && (double)temp->count > FAR_TEMP;
}

// reuse: in how many elements of the tile ranges each cell of the largest load takes part.
static void weigh_tiles(Fuser *f, const Group *g, Weight *weight, double *reuse) {
    double most = 0;
    *reuse = 1;
    ArenaMark mark = arena_mark(f->arena);   // as in cuts_read_again
    for (size_t i = 0; i < g->members.len; i++) {
        RangeSets sets = range_sets(f->arena, g->members.at[i].store->src[1]);
        for (size_t k = 0; k < sets.order.len; k++) {
            UOp *load = sets.order.at[k];
            double trips = load->op == OP_LOAD ? range_sets_trips(&sets, load) : 0;
            bool is_largest = trips > most;
            if (is_largest) most = trips, *reuse = 1;
            for (int t = 0; t < g->n_tiles && trips > 0; t++) {
                if (!g->tile[t]) continue;
                bool follows = range_sets_depends(&sets, load, g->tile[t]);
                if (!follows && uop_buffer_of(load->src[0])->arg[0] < FIRST_TEMP_ID) weight[t].again += trips;
                if (!follows && is_far(f, load)) weight[t].far += trips;
                if (!follows && is_largest && range_sets_depends(&sets, g->members.at[i].store->src[1], g->tile[t])) *reuse *= (double)range_size(g->tile[t]);
                if (!follows) continue;
                weight[t].elements += trips;
                if (trips > weight[t].largest) weight[t].largest = trips, weight[t].index = load->src[0]->src[1];
            }
        }
    }
    arena_release(f->arena, mark);
}

// Whether steps of the range read cells side by side, which registers and lines of caches hold together.
static bool is_line(const Fuser *f, const Weight *w, UOp *range) {
    return f->schedule->wishes.width <= 0 && w->index && step_of(w->index, range) == 1;
}

static int64_t divisor_from(int64_t n, double at_least) {
    for (int64_t d = 1; d < n; d++) if (n % d == 0 && (double)d >= at_least) return d;
    return n;
}

static int64_t divisor_to(int64_t n, double at_most) {
    for (int64_t d = n; d > 1; d--) if (n % d == 0 && (double)d <= at_most) return d;
    return 1;
}

// Of the divisors from least to most the one that can be halved most often, as threads take powers of two; 0: there is none.
static int64_t even_divisor(int64_t n, double least, double most) {
    int64_t best = 0;
    for (int64_t d = 1; d <= n; d++)
        if (n % d == 0 && (double)d >= least && (double)d <= most && (!best || (d & -d) > (best & -best))) best = d;
    return best;
}

// Tiles whose cells take part in several elements: no more than keep a device busy, as each tile reads them once.
static TileWishes shared_wishes(TileWishes w) {
    int64_t most = (int64_t)(SHARED_TILES * w.width);
    if (w.most > most) w.most = most;
    if (w.enough > most) w.enough = most;
    return w;
}

// Steps that such a tile keeps: not less than `least`; more work, as long as the device is filled and each cell is shared by more.
// steps: of all tiles.
static int64_t shared_keep(const TileWishes *w, int64_t size, double least, double per_step, double steps) {
    double filled = steps / (SHARED_FILL * w->width), wanted = fmin(SHARED_WORK / per_step, filled);
    bool is_more = wanted >= SHARED_BY && wanted > least;
    int64_t keep = is_more ? even_divisor(size, fmax(wanted / NEAR, least), fmin(wanted * NEAR, filled)) : even_divisor(size, least, least * NEAR);
    return keep ? keep : is_more ? divisor_to(size, wanted) : divisor_from(size, least);
}

// The range with the most elements under it is cut first; of two nearly alike that whose steps lie further apart, so that
// a tile's data lies together.
static bool goes_before(const Group *g, const Weight *w, int a, int b) {
    if (w[a].elements > w[b].elements * NEARLY || w[b].elements > w[a].elements * NEARLY) return w[a].elements > w[b].elements;
    if (!w[a].index || !w[b].index) return a < b;
    int64_t x = step_of(w[a].index, g->tile[a]), y = step_of(w[b].index, g->tile[b]);
    return x == y ? a < b : x > y;
}

// Elements of a member's temporary that one tile touches. cuts: what is cut; NULL: every tile range.
static double held_elements(const Fuser *f, const Group *g, const Member *m, const Cuts *cuts) {
    const Temp *temp = schedule_temp_find(f->schedule, m->buffer);
    double n = temp ? (double)temp->count : 0;
    for (int k = 0; k < m->n_axes; k++) {
        int t = m->axis[k].tile;
        if (t < 0 || !g->tile[t]) continue;
        double tiles = (double)range_size(g->tile[t]);
        if (k == m->n_axes - 1 && !cuts) tiles = tiles < LINE_ELEMENTS ? 1 : tiles / LINE_ELEMENTS;   // cells side by side stay together
        if (cuts) {
            double keep = tiles;
            for (int c = 0; c < cuts->n; c++) if (cuts->at[c].t == t) keep = (double)cuts->at[c].keep;
            tiles /= keep;
        }
        n /= tiles;
    }
    return n;
}

static bool is_read_inside(const Group *g, const Member *m) {
    for (size_t i = 0; i < g->members.len; i++)
        for (int k = 0; k < g->members.at[i].reads.n; k++) if (g->members.at[i].reads.id[k] == m->buffer) return true;
    return false;
}

// Whether some value that a tile hands from one member to another leaves the near cache before it is read.
static bool leaves_cache(const Fuser *f, const Group *g, const Cuts *cuts) {
    bool leaves = false;
    for (size_t i = 0; i < g->members.len; i++)
        leaves |= is_read_inside(g, &g->members.at[i]) && held_elements(f, g, &g->members.at[i], cuts) > NEAR_ELEMENTS;
    return leaves;
}

// Whether its steps are cells side by side.
static bool is_innermost(const Group *g, int t) {
    bool is = false;
    for (size_t i = 0; i < g->members.len; i++) {
        const Member *m = &g->members.at[i];
        is |= m->n_axes > 0 && m->axis[m->n_axes - 1].tile == t;
    }
    return is;
}

double cuts_far_elements(const Fuser *f, const Group *g) {
    double far = 0;
    for (size_t i = 0; i < g->members.len && f->schedule->wishes.width <= 0; i++) {
        const Member *m = &g->members.at[i];
        if (is_read_inside(g, m) && held_elements(f, g, m, NULL) > NEAR_ELEMENTS)
            far += (double)schedule_temp_find(f->schedule, m->buffer)->count;
    }
    return far;
}

Cuts cuts_choose(Fuser *f, const Group *g) {
    Weight weight[MAX_TILES] = {{0}};
    Cuts cuts = {.tiles = 1};
    TileWishes wish = wishes_of(f);
    int order[MAX_TILES], n = 0;
    double reuse;
    weigh_tiles(f, g, weight, &reuse);
    bool is_shared = wish.width > 0 && reuse >= SHARED_BY;
    if (is_shared) wish = shared_wishes(wish);
    for (int t = 0; t < g->n_tiles; t++) {
        if (!g->tile[t]) continue;
        int at = n++;
        for (; at > 0 && goes_before(g, weight, t, order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = t;
    }
    bool is_near = f->schedule->wishes.width > 0 || !leaves_cache(f, g, &cuts);
    if (!is_near) wish.most *= MORE_TILES;
    for (int i = 0; i < n && g->work / cuts.tiles > wish.work; i++) {
        bool is_enough = cuts.tiles >= (double)wish.enough;
        if (is_enough && (is_near || is_innermost(g, order[i]) || !leaves_cache(f, g, &cuts))) continue;
        int64_t size = range_size(g->tile[order[i]]);
        double per_step = g->work / cuts.tiles / (double)size, wanted = (double)size * cuts.tiles / (double)wish.most;
        if (wish.work / per_step > wanted) wanted = wish.work / per_step;
        if (is_line(f, &weight[order[i]], g->tile[order[i]]) && wanted < LINE_ELEMENTS) wanted = LINE_ELEMENTS;
        if (is_shared) wanted = (double)shared_keep(&wish, size, wanted, per_step, (double)size * cuts.tiles);
        int64_t keep = divisor_from(size, wanted);
        if (f->schedule->wishes.width > 0 && (double)(size / keep) * cuts.tiles < wish.width) keep = divisor_to(size, wanted);   // better short tiles than idle ones
        int64_t whole = size % wish.multiple == 0 ? divisor_from(size / wish.multiple, wanted / (double)wish.multiple) * wish.multiple : size;
        if (whole < size && (double)(size / whole) * cuts.tiles >= wish.width) keep = whole;
        const Weight *w = &weight[order[i]];
        bool is_costly = w->again * NEARLY > w->elements || w->far > w->elements / cuts.tiles;   // worth it only where workers have nothing to do
        if (keep == size || (is_costly && cuts.tiles >= (double)wish.few)) continue;
        cuts.at[cuts.n++] = (Cut){order[i], keep};
        cuts.tiles *= (double)(size / keep);
    }
    return cuts;
}

double cuts_read_again(Fuser *f, const Group *g) {
    double excess = 0;
    Cuts cuts = cuts_choose(f, g);
    ArenaMark mark = arena_mark(f->arena);   // no node is made below: the graph may live in the same arena
    for (size_t i = 0; i < g->members.len; i++) {
        RangeSets sets = range_sets(f->arena, g->members.at[i].store);
        for (size_t k = 0; k < sets.order.len; k++) {
            UOp *u = sets.order.at[k];
            if (u->op != OP_LOAD || uop_buffer_of(u->src[0])->arg[0] >= FIRST_TEMP_ID) continue;
            double followed = 1;
            for (int c = 0; c < cuts.n; c++) {
                UOp *tile = g->tile[cuts.at[c].t];
                if (range_sets_depends(&sets, u, tile)) followed *= (double)(range_size(tile) / cuts.at[c].keep);
            }
            excess += range_sets_trips(&sets, u) * (cuts.tiles / followed - 1);
        }
    }
    arena_release(f->arena, mark);
    return excess;
}

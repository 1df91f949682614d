// recompute: see recompute.h.
#include "schedule/recompute.h"

typedef struct LoadList { VEC(UOp *) of; } LoadList;

// The loads under a float sum in chains: a loop inside it would leave it one chain, in another order than the kept
// value gives.
static void note_ordered(Recompute *r, UOp *fold) {
    if (fold->arg[0] != MONOID_SUM || fold->arg[1] == 1 || !dtype_is_float(fold->dtype)) return;
    UOpList order = uop_toposort(r->schedule->arena, fold->src[0]);
    for (size_t k = 0; k < order.len; k++)
        if (order.at[k]->op == OP_LOAD) uop_map_put(&r->ordered, order.at[k]->src[0]->src[0], fold);
}

void recompute_init(Recompute *r, Schedule *s) {
    *r = (Recompute){.schedule = s};
    uop_map_init(&r->loads, s->arena);
    uop_map_init(&r->ordered, s->arena);
    uop_map_init(&r->put_off, s->arena);
    map_init(&r->written, s->arena);
    for (size_t i = 0; i < s->items.len; i++) {
        int64_t id = s->items.at[i].buffer;
        if (id < FIRST_TEMP_ID || s->items.at[i].is_part) map_put(&r->written, &id, sizeof id, r);
        UOpList order = uop_toposort(s->arena, s->items.at[i].store);
        for (size_t k = 0; k < order.len; k++) {
            UOp *load = order.at[k];
            if (load->op == OP_FOLD) note_ordered(r, load);
            if (load->op != OP_LOAD) continue;
            LoadList *list = uop_map_get(&r->loads, load->src[0]->src[0]);
            if (!list) uop_map_put(&r->loads, load->src[0]->src[0], list = arena_new(s->arena, sizeof *list));
            vec_push(s->arena, &list->of, load);
        }
    }
}

// One value, or one a step of the only loop: element i is then the value with i in place of the loop.
static bool is_addressable(const UOp *store) {
    if (store->n_src == 2) return uop_is_const(store->src[0]->src[1]);
    return store->n_src == 3 && store->src[0]->src[1] == store->src[2] && range_is_static(store->src[2]);
}

static bool reads_what_stays(Recompute *r, UOp *value) {
    UOpList order = uop_toposort(r->schedule->arena, value);
    for (size_t k = 0; k < order.len; k++) {
        if (order.at[k]->op == OP_AFTER) return false;
        if (order.at[k]->op == OP_BUFFER && map_get(&r->written, &order.at[k]->arg[0], sizeof order.at[k]->arg[0])) return false;
    }
    return true;
}

bool recompute_put_off(Recompute *r, UOp *store, double tiles, double worth) {
    Schedule *s = r->schedule;
    UOp *buffer = store->src[0]->src[0];
    Temp *temp = buffer->op == OP_BUFFER ? schedule_temp_find(s, buffer->arg[0]) : NULL;
    LoadList *list = temp && !temp->is_output ? uop_map_get(&r->loads, buffer) : NULL;
    if (!list || map_get(&r->written, &buffer->arg[0], sizeof buffer->arg[0]) || !is_addressable(store) || !reads_what_stays(r, store->src[1])) return false;
    if (uop_map_get(&r->ordered, buffer) && holds_op(s->arena, store->src[1], OP_FOLD)) return false;
    double work = value_cost(store->src[1]), loss = 0;
    for (size_t i = 0; i < list->of.len; i++) {
        if (list->of.at[i]->n_src > 1) return false;   // a load under a condition may name an element that is none
        double trips = tiles;
        UOpList free = uop_free_ranges(s->arena, list->of.at[i]);
        for (size_t k = 0; k < free.len; k++) trips *= (double)range_size(free.at[k]);
        loss += work * trips;
    }
    if (loss > worth) return false;
    uop_map_put(&r->put_off, buffer, store);
    return true;
}

// The value of the element that `load` reads, with inner loops of its own.
static UOp *value_of(Recompute *r, UOp *put_off, UOp *load) {
    return loops_renewed(r->schedule->arena, put_off->src[1], put_off->n_src == 3 ? put_off->src[2] : NULL, load->src[0]->src[1]);
}

UOp *recompute_apply(Recompute *r, UOp *store) {
    Arena *arena = r->schedule->arena;
    if (r->put_off.len == 0) return store;
    UOpList order = uop_toposort(arena, store);
    UOp **from = arena_new(arena, (order.len + 1) * sizeof *from), **to = arena_new(arena, (order.len + 1) * sizeof *to);
    int n = 0;
    for (size_t k = 0; k < order.len; k++) {
        UOp *u = order.at[k], *put_off = u->op == OP_LOAD ? uop_map_get(&r->put_off, u->src[0]->src[0]) : NULL;
        if (put_off) from[n] = u, to[n++] = value_of(r, put_off, u);
    }
    return n ? uop_substitute(store, from, to, n) : store;
}

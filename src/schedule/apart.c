// apart: what a product is multiplied by has no sum of its own, so registers can hold neighbouring elements of it.
// In: items. Out: costly values without a sum, of stores whose other part is one, are items of their own before them: the
// sum gives one element after the other, and what stands beside it would be computed so, too.
// Invariant: the same operations on the same elements. Where threads of a tile share elements, each has one anyway.
// Example: y[r] = silu(g[r]) · Σ… → a[r] = silu(g[r]), 8 of them at once; y[r] = a[r] · Σ….
#include "schedule/schedule.h"
#include "tensor/tensor.h"

static const double WORTH = 16;   // operations that cost more than storing and loading an element
enum { ROWS = 8 };                // rows beside each other become lanes themselves (interleave)

// Whether rows share the largest buffer that the value reads.
static bool has_rows(const RangeSets *sets, const UOp *store) {
    const UOp *largest = NULL;
    int64_t most = 0;
    for (size_t k = 0; k < sets->order.len; k++) {
        const UOp *u = sets->order.at[k];
        if (u->op != OP_LOAD) continue;
        int64_t n = tensor_count(uop_buffer_of(u->src[0]));
        if (n > most) largest = u, most = n;
    }
    for (int i = 2; i < store->n_src && largest; i++)
        if (range_size(store->src[i]) >= ROWS && !range_sets_depends(sets, largest, store->src[i])) return true;
    return false;
}

// Whether neighbours along the loop read neighbours, or the same.
static bool lies_in_line(Arena *arena, const RangeSets *sets, UOp *value, UOp *loop) {
    UOpList order = uop_toposort(arena, value);
    bool is_line = range_sets_depends(sets, value, loop);
    for (size_t k = 0; k < order.len && is_line; k++) {
        UOp *u = order.at[k];
        int64_t step;
        if (u->op == OP_FOLD || u->op == OP_AFTER || u->op == OP_IDIV || u->op == OP_MOD) return false;
        if (u->op != OP_LOAD || !range_sets_depends(sets, u, loop)) continue;
        is_line = u->n_src == 1 && index_step(u->src[0]->src[1], loop, &step) && step == 1;
    }
    return is_line;
}

// The costly value beside a sum; NULL: there is none.
static UOp *beside_sum(Arena *arena, const RangeSets *sets, UOp *u, UOp *loop) {
    if (u->op == OP_FOLD || u->op == OP_LOAD || u->op == OP_INDEX) return NULL;
    if (u->dtype == DT_F32 && value_cost(u) >= WORTH && lies_in_line(arena, sets, u, loop)) return u;
    if (!holds_op(arena, u, OP_FOLD)) return NULL;
    for (int i = 0; i < u->n_src; i++) {
        UOp *found = beside_sum(arena, sets, u->src[i], loop);
        if (found) return found;
    }
    return NULL;
}

void schedule_apart(Schedule *s) {
    VEC(Item) out = {0};
    if (s->wishes.width > 0) return;
    for (size_t i = 0; i < s->items.len; i++) {
        Item item = s->items.at[i];
        UOp *store = item.store, *buffer = store->src[0]->src[0], *value = NULL;
        bool may = store->op == OP_STORE && store->n_src > 2 && !item.is_part && schedule_temp_find(s, item.buffer);
        for (int k = 2; k < store->n_src; k++) may &= range_is_static(store->src[k]);
        if (may && holds_op(s->arena, store->src[1], OP_FOLD)) {
            RangeSets sets = range_sets(s->arena, store->src[1]);
            if (!has_rows(&sets, store)) value = beside_sum(s->arena, &sets, store->src[1], store->src[store->n_src - 1]);
        }
        if (value) {
            int n = store->n_src - 2;
            UOp *temp = schedule_temp(s, DT_F32, schedule_temp_find(s, buffer->arg[0])->count, 0, 0);
            UOp *index = uop_index(temp, store->src[0]->src[1]), *load = uop_load(index, DT_F32, NULL);
            UOp *own = loops_renewed(s->arena, uop_store(index, value, store->src + 2, n), NULL, NULL);
            vec_push(s->arena, &out, ((Item){.store = own, .buffer = temp->arg[0]}));
            item.store = uop_store_as(store, store->src[0], uop_substitute(store->src[1], &value, &load, 1), store->src + 2, n);
        }
        vec_push(s->arena, &out, item);
    }
    s->items.at = out.at, s->items.len = out.len, s->items.cap = out.cap;
}

// experts: see experts.h.
#include "nn/experts.h"
#include "nn/grouping.h"

#include <math.h>

// Keeps the scores of the best groups, −∞ for the others. score: [m, E].
static Tensor best_groups(const Router *r, Tensor score) {
    Graph *g = score->graph;
    int64_t m = tensor_size(score, 0), size = r->experts / r->groups;
    Tensor grouped = tensor_reshape(score, dims(m, r->groups, size));
    Tensor is_top = tensor_binary_const(OP_LT, tensor_rank(grouped), 2);
    Tensor two = tensor_where(is_top, grouped, tensor_const(g, DT_F32, 0));
    Tensor group_rank = tensor_rank(tensor_sum(two, -1)); // [m, groups]
    Tensor is_kept = tensor_unsqueeze(
        tensor_binary_const(OP_LT, group_rank, (double)r->groups_used), -1);
    Tensor kept = tensor_where(is_kept, grouped, tensor_const(g, DT_F32, -INFINITY));
    return tensor_reshape(kept, dims(m, r->experts));
}

Routing experts_route(const Router *r, Tensor logits, Tensor bias) {
    if (uop_is_poison(logits)) return (Routing){logits, logits};
    Graph *g = logits->graph;
    Tensor share = r->gating == GATE_SIGMOID ? tensor_sigmoid(logits)
                                             : tensor_softmax(logits, NULL);
    Tensor score = bias ? tensor_add(share, bias) : share;
    if (r->groups > 1) score = best_groups(r, score);
    Tensor rank = tensor_unsqueeze(tensor_rank(score), 1); // [m, 1, E]
    Tensor place = tensor_reshape(tensor_iota(g, r->used), dims(r->used, 1));
    Tensor is_it = tensor_equal(rank, place); // [m, used, E]: one hit a place
    if (uop_is_poison(is_it)) return (Routing){is_it, is_it};
    // A maximum, not a sum: its bounds stay inside [0, E).
    Tensor id = tensor_where(is_it, tensor_iota(g, r->experts), tensor_const(g, DT_I32, 0));
    Tensor ids = tensor_contiguous(tensor_reduce(MONOID_MAX, 1, id, dims(-1)));
    Tensor hit = tensor_where(is_it, tensor_unsqueeze(share, 1), tensor_const(g, DT_F32, 0));
    Tensor weights = tensor_sum(hit, -1); // [m, used]
    if (r->is_normalised) {
        Tensor total = tensor_unsqueeze(tensor_reduce(MONOID_SUM, 1, weights, dims(-1)), -1);
        weights = tensor_div(weights, tensor_add_const(total, 1e-20)); // 0 where all are 0
    }
    return (Routing){ids, tensor_contiguous(tensor_mul_const(weights, r->scale))};
}

// down(act(gate(x)) · up(x)) with the experts that ids choose, as `product` takes them.
typedef Tensor (*ChosenProduct)(const Layers *l, Input in, const Weight *w, Tensor ids);
static Tensor feed_forward(const Layers *l, Input x, const ExpertWeights *w, Tensor ids, ChosenProduct product, Activation activation) {
    Tensor gate = layers_activate(product(l, x, &w->gate, ids), activation);
    return product(l, input_of(tensor_mul(gate, product(l, x, &w->up, ids))), &w->down, ids);
}

// What each choice gives, [m, used, dim]: rows that chose the same expert together.
static Tensor mix_by_groups(const Layers *l, Input x, const Routing *routing, const ExpertWeights *w, Activation activation) {
    Grouping by = grouping_of(routing->ids, w->gate.count);
    Tensor y = feed_forward(l, input_rows(x, by.row), w, by.expert, layers_grouped, activation);   // [groups, GROUP_ROWS, dim]
    if (uop_is_poison(y)) return y;
    Tensor is_used = tensor_reshape(by.is_used, dims(-1, 1, 1));
    y = tensor_where(is_used, y, tensor_const(y->graph, DT_F32, 0));   // so that groups beyond are not computed
    int64_t places = tensor_size(y, 0) * GROUP_ROWS;
    return tensor_gather(tensor_reshape(tensor_contiguous(y), dims(places, w->down.rows)), by.place);
}

static Tensor mix_by_rows(const Layers *l, Input x, const Routing *routing, const ExpertWeights *w, Activation activation) {
    return feed_forward(l, input_unsqueeze(x, 1), w, routing->ids, layers_chosen, activation);   // of [m, 1, dim]
}

Tensor experts_mix(const Layers *l, Input x, const Routing *routing, const ExpertWeights *w,
                   Activation activation) {
    if (uop_is_poison(routing->ids)) return routing->ids;
    bool is_rounded = !l->is_exact && !quant_is_plain(w->gate.type) && !quant_is_plain(w->down.type);
    bool grouped = is_rounded && grouping_pays(tensor_count(routing->ids), w->gate.count);
    Tensor down = (grouped ? mix_by_groups : mix_by_rows)(l, x, routing, w, activation); // [m, used, dim]
    Tensor weighted = tensor_mul(down, tensor_unsqueeze(routing->weights, -1));
    return uop_is_poison(weighted) ? weighted : tensor_reduce(MONOID_SUM, 1, weighted, dims(1));
}

// grouping: see grouping.h. Counts, starts and places are plain sums over comparisons.
#include "nn/grouping.h"

enum { CHOICES_PER_EXPERT = 2 };   // below, most groups would hold one row or two

bool grouping_pays(int64_t choices, int64_t experts) { return choices >= CHOICES_PER_EXPERT * experts; }

// A group for each expert with one choice, and one more for every GROUP_ROWS of the rest: there can be no more.
static int64_t most_groups(int64_t choices, int64_t experts) {
    int64_t some = choices < experts ? choices : experts;
    return some + (choices - some) / GROUP_ROWS;
}

static Tensor column(Graph *g, int64_t n) { return tensor_reshape(tensor_iota(g, n), dims(n, 1)); }
static Tensor count(Tensor is_it) { return tensor_sum(tensor_cast(is_it, DT_I32), -1); }
static Tensor at_most(Tensor x, int64_t most) { return tensor_binary_const(OP_MIN, x, (double)most); }   // bounds see it

Grouping grouping_of(Tensor ids, int64_t experts) {
    if (uop_is_poison(ids)) return (Grouping){ids, ids, ids, ids};
    Graph *g = ids->graph;
    int64_t m = tensor_size(ids, 0), used = tensor_size(ids, 1), n = m * used, groups = most_groups(n, experts);
    Tensor chosen = tensor_contiguous(tensor_reshape(ids, dims(n)));
    Tensor choices = tensor_contiguous(count(tensor_equal(chosen, column(g, experts))));                    // [E]
    Tensor own = tensor_binary_const(OP_SHR, tensor_add_const(choices, GROUP_ROWS - 1), 3);                  // groups of each
    Tensor earlier = tensor_less(tensor_iota(g, experts), column(g, experts));                               // [E, E]
    Tensor first = tensor_contiguous(tensor_sum(tensor_where(earlier, own, tensor_const(g, DT_I32, 0)), -1));
    Tensor used_groups = tensor_contiguous(tensor_sum(own, -1));                                             // how many there are
    Tensor before = tensor_binary(OP_AND, tensor_equal(chosen, tensor_unsqueeze(chosen, -1)), tensor_less(tensor_iota(g, n), column(g, n)));
    Tensor start = tensor_mul_const(tensor_gather(first, chosen), GROUP_ROWS);
    Tensor place = tensor_contiguous(at_most(tensor_add(start, count(before)), groups * GROUP_ROWS - 1));   // [m · used]
    Tensor ends = tensor_add(first, own), is_past = tensor_less(ends, tensor_add_const(column(g, groups), 1));
    Tensor here = tensor_equal(place, column(g, groups * GROUP_ROWS));                                       // [places, m · used]
    Tensor row_of = tensor_binary(OP_IDIV, tensor_iota(g, n), tensor_const(g, DT_I32, (double)used));
    Tensor row = tensor_max(tensor_where(here, row_of, tensor_const(g, DT_I32, 0)), -1);
    return (Grouping){.expert = tensor_contiguous(at_most(count(is_past), experts - 1)),
                      .is_used = tensor_less(tensor_iota(g, groups), used_groups),
                      .row = tensor_contiguous(tensor_reshape(row, dims(groups, GROUP_ROWS))),
                      .place = tensor_reshape(place, dims(m, used))};
}

// attention: see attention.h.
#include "nn/attention.h"

#include <math.h>

#include "nn/layers.h"

// Results of single pages are kept so that several workers can share the pages of few rows. Many rows are work enough, and
// would need memory for each page of each row.
enum { FEW_ROWS = 4, MOST_BYTES = 128 << 20 };

static Tensor largest(Tensor x, Tensor mask, int axis) {
    const double lowest = -1.7e38; // finite, so that a row without keys gives exp(…) · 0, never NaN
    Graph *g = x->graph;
    Tensor top = tensor_max(tensor_where(mask, x, tensor_const(g, DT_F32, -INFINITY)), axis);
    return tensor_max2(top, tensor_const(g, DT_F32, lowest));
}

// [m, pages] as [m, 1, pages, 1, 1]
static Tensor by_page(Tensor x) {
    return tensor_reshape(x, dims(tensor_size(x, 0), 1, tensor_size(x, 1), 1, 1));
}

// x: [rows, pages] as [blocks, 1, pages, 1, rows of a block].
static Tensor in_blocks(Tensor x, int together) {
    Tensor by_block = tensor_reshape(x, dims(-1, together, tensor_size(x, 1)));
    return tensor_reshape(tensor_permute(by_block, dims(0, 2, 1)), dims(-1, 1, tensor_size(x, 1), 1, together));
}

// The same numbers in the same order for rows that look at the same pages: rows of a block lie side by side, behind the keys,
// so that they share each key and value. A weight of zero, rather than the end of a loop, leaves out what a row doesn't see.
static Tensor attention_together(Tensor q, Tensor keys, Tensor values, const KvView *view, double cap) {
    Graph *g = q->graph;
    int n = view->together;
    int64_t heads = tensor_size(q, 1), queries = tensor_size(q, 2), d = tensor_size(q, 3), pages = tensor_size(keys, 1);
    int64_t wide = tensor_size(values, -1);
    Tensor zero = tensor_const(g, DT_F32, 0), key = tensor_reshape(tensor_iota(g, KV_PAGE), dims(-1, 1));
    Tensor seen = in_blocks(view->keys_seen, n); // [blocks, 1, pages, 1, n]
    Tensor is_seen = tensor_less(key, tensor_unsqueeze(seen, -2)), has_seen = tensor_less(tensor_const(g, DT_I32, 0), seen);
    if (view->keys_passed) {
        Tensor passed = tensor_add_const(in_blocks(view->keys_passed, n), -1);
        is_seen = tensor_binary(OP_AND, is_seen, tensor_less(tensor_unsqueeze(passed, -2), key));
        has_seen = tensor_binary(OP_AND, has_seen, tensor_less(passed, tensor_const(g, DT_I32, KV_PAGE - 1)));
    }
    Tensor page = tensor_reshape(tensor_iota(g, pages), dims(-1, 1, 1)), in_view = tensor_less(page, view->pages_seen);

    Tensor k = tensor_reshape(tensor_permute(keys, dims(0, 3, 1, 2, 4)), dims(1, heads, pages, 1, KV_PAGE, 1, d));
    Tensor v = tensor_reshape(tensor_permute(values, dims(0, 3, 1, 2, 4)), dims(1, heads, pages, 1, 1, KV_PAGE, wide));
    Tensor side = tensor_permute(tensor_reshape(q, dims(-1, n, heads, queries, d)), dims(0, 2, 3, 4, 1));
    side = tensor_permute(tensor_contiguous(side), dims(0, 1, 2, 4, 3)); // [blocks, heads, queries, n, d], rows of a block innermost in memory
    side = tensor_reshape(side, dims(-1, heads, 1, queries, 1, n, d));
    Tensor score = layers_soft_cap(tensor_sum(tensor_mul(side, k), -1), cap);         // [blocks, heads, pages, queries, keys, n]
    Tensor top = largest(score, is_seen, 4);                                          // [blocks, heads, pages, queries, n]
    Tensor share = tensor_unary(OP_EXP, tensor_sub(score, tensor_unsqueeze(top, -2)));
    share = tensor_contiguous(tensor_where(is_seen, share, zero));
    Tensor page_total = tensor_contiguous(tensor_sum(share, 4));
    Tensor whole = tensor_unsqueeze(largest(top, in_view, 2), 2);                     // [blocks, heads, 1, queries, n]
    Tensor weight = tensor_unary(OP_EXP, tensor_sub(top, whole));
    weight = tensor_contiguous(tensor_where(has_seen, weight, zero));
    Tensor totals = tensor_where(in_view, tensor_mul(weight, page_total), zero);
    Tensor shares = tensor_unsqueeze(tensor_permute(share, dims(0, 1, 2, 3, 5, 4)), -1); // [blocks, heads, pages, queries, n, keys, 1]
    Tensor terms = tensor_mul(shares, v);
    if (uop_is_poison(terms) || uop_is_poison(totals)) return uop_is_poison(terms) ? terms : totals;
    Tensor part = tensor_reduce(MONOID_SUM, 1, terms, dims(5));                       // [blocks, heads, pages, queries, n, v]
    terms = tensor_where(tensor_unsqueeze(in_view, -1), tensor_mul(tensor_unsqueeze(weight, -1), part), zero);
    if (uop_is_poison(terms)) return terms;
    Tensor total = tensor_reduce(MONOID_SUM, 1, totals, dims(2));
    total = tensor_unsqueeze(tensor_where(tensor_less(zero, total), total, tensor_const(g, DT_F32, 1)), -1);
    Tensor sum = tensor_contiguous(tensor_reduce(MONOID_SUM, 1, terms, dims(2)));     // [blocks, heads, queries, n, v]
    Tensor y = tensor_permute(tensor_div(sum, total), dims(0, 3, 1, 2, 4));
    return tensor_reshape(y, dims(-1, heads, queries, wide));
}

Tensor attention(Tensor q, Tensor keys, Tensor values, const KvView *view, double cap) {
    Tensor all[] = {q, keys, values, view->pages, view->pages_seen, view->keys_seen};
    for (int i = 0; i < 6; i++)
        if (uop_is_poison(all[i])) return all[i];
    if (view->together) return attention_together(q, keys, values, view, cap);
    Graph *g = q->graph;
    Tensor zero = tensor_const(g, DT_F32, 0);
    Tensor k = tensor_unsqueeze(tensor_permute(keys, dims(0, 3, 1, 2, 4)), 3);   // [m, heads, pages, 1, keys, d]
    Tensor v = tensor_unsqueeze(tensor_permute(values, dims(0, 3, 1, 2, 4)), 3); // [m, heads, pages, 1, keys, v]
    Tensor nth = tensor_iota(g, KV_PAGE);
    Tensor is_before = tensor_less(nth, by_page(view->keys_seen)), is_seen = is_before; // [m, 1, pages, 1, keys]
    if (view->keys_passed)
        is_seen = tensor_binary(OP_AND, is_before, tensor_less(tensor_add_const(by_page(view->keys_passed), -1), nth));
    Tensor page = tensor_reshape(tensor_iota(g, tensor_size(keys, 1)), dims(-1, 1));
    Tensor page_seen = tensor_less(page, tensor_reshape(view->pages_seen, dims(-1, 1, 1, 1))); // [m, 1, pages, 1]

    Tensor wide_q = tensor_unsqueeze(tensor_unsqueeze(tensor_contiguous(q), 2), 4); // [m, heads, 1, queries, 1, d]
    Tensor score = layers_soft_cap(tensor_sum(tensor_mul(wide_q, k), -1), cap);     // [m, heads, pages, queries, keys]
    Tensor top = largest(score, is_seen, -1);                                       // [m, heads, pages, queries]
    Tensor share = tensor_unary(OP_EXP, tensor_sub(score, tensor_unsqueeze(top, -1)));
    share = tensor_contiguous(tensor_where(is_seen, share, zero));
    Tensor page_total = tensor_contiguous(tensor_sum(tensor_where(is_before, share, zero), -1));
    Tensor terms = tensor_where(tensor_unsqueeze(is_before, -1), tensor_mul(tensor_unsqueeze(share, -1), v), zero);
    if (uop_is_poison(terms)) return terms;
    Tensor part = tensor_reduce(MONOID_SUM, 1, terms, dims(-2)); // [m, heads, pages, queries, v]
    bool is_kept = tensor_size(part, 0) <= FEW_ROWS && tensor_count(part) <= MOST_BYTES / (int64_t)sizeof(float);
    if (is_kept) part = tensor_contiguous(part);

    Tensor whole = tensor_unsqueeze(largest(top, page_seen, 2), 2); // [m, heads, 1, queries]
    Tensor weight = tensor_where(page_seen, tensor_unary(OP_EXP, tensor_sub(top, whole)), zero);
    weight = tensor_contiguous(weight); // [m, heads, pages, queries]
    Tensor totals = tensor_where(page_seen, tensor_mul(weight, page_total), zero);
    terms = tensor_mul(tensor_unsqueeze(weight, -1), part);
    terms = tensor_where(tensor_unsqueeze(page_seen, -1), terms, zero);
    if (uop_is_poison(terms)) return terms;
    Tensor total = tensor_unsqueeze(tensor_reduce(MONOID_SUM, 1, totals, dims(2)), -1);
    Tensor sum = tensor_reduce(MONOID_SUM, 1, terms, dims(2));
    return tensor_div(sum, tensor_where(tensor_less(zero, total), total, tensor_const(g, DT_F32, 1)));
}

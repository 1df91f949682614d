// kvcache: see kvcache.h.
#include "nn/kvcache.h"

// Number of page `nth` of each row's sequence. nth: i32 [rows] or [rows, n].
static Tensor page_numbers(Tensor table, Tensor sequence, Tensor nth) {
    Tensor first = tensor_mul_const(sequence, (double)tensor_size(table, 1));
    for (int i = 1; i < nth->ndim; i++) first = tensor_unsqueeze(first, -1);
    return tensor_gather(tensor_reshape(table, dims(-1)), tensor_add(first, nth));
}

KvRows kv_rows(Tensor table, Tensor sequence, Tensor position) {
    if (uop_is_poison(table)) return (KvRows){table, table, table, table, table, 0};
    Tensor page = page_numbers(table, sequence, tensor_binary_const(OP_IDIV, position, KV_PAGE));
    return (KvRows){position, table, sequence, page, tensor_binary_const(OP_MOD, position, KV_PAGE), 0};
}

// Of rows that stand together: the first one's sequence, and its first page in view; positions rise, or are padding.
static Tensor first_row(const KvRows *rows, Tensor x) { return rows->together ? tensor_slice(x, 0, 0, 1) : x; }

KvView kv_view(const KvRows *rows, int64_t window) {
    Tensor own = rows->position, table = rows->table;
    if (uop_is_poison(own) || uop_is_poison(table)) return (KvView){own, own, own, NULL, NULL, 0};
    Graph *g = own->graph;
    int64_t all = tensor_size(table, 1), spread = rows->together ? tensor_size(own, 0) - 1 : 0;
    int64_t most = window > 0 ? (window + spread + KV_PAGE - 2) / KV_PAGE + 1 : all;
    bool is_bounded = most < all;
    Tensor nth = tensor_iota(g, is_bounded ? most : all); // of the sequence, or from `first` on
    Tensor farthest = rows->together ? tensor_reshape(tensor_max(own, 0), dims(1)) : own;
    Tensor last = tensor_binary_const(OP_IDIV, farthest, KV_PAGE), pages_seen = tensor_add_const(last, 1);
    Tensor passed = tensor_add_const(own, 1 - (double)window);
    if (is_bounded) {
        Tensor first = tensor_binary_const(OP_IDIV, tensor_max2(first_row(rows, passed), tensor_const(g, DT_I32, 0)), KV_PAGE);
        pages_seen = tensor_sub(pages_seen, first);
        nth = tensor_add(tensor_unsqueeze(first, -1), nth);
    } else {
        nth = tensor_expand(tensor_unsqueeze(nth, 0), dims(rows->together ? 1 : tensor_size(own, 0), all));
    }
    Tensor before = tensor_mul_const(nth, KV_PAGE); // positions before each page
    Tensor exists = tensor_binary(OP_MIN, nth, tensor_const(g, DT_I32, (double)all - 1));
    KvView view = {.pages = page_numbers(table, first_row(rows, rows->sequence), exists), .pages_seen = pages_seen, .together = rows->together};
    view.keys_seen = tensor_sub(tensor_unsqueeze(tensor_add_const(own, 1), -1), before);
    if (rows->together) view.cells_seen = tensor_sub(tensor_unsqueeze(tensor_add_const(farthest, 1), -1), before);
    if (window > 0) view.keys_passed = tensor_sub(tensor_unsqueeze(passed, -1), before);
    return view;
}

KvCache kv_cache(Graph *g, const KvFormat *format, KvShape shape, int64_t heads, const int64_t *buffers, int64_t pages) {
    KvCache cache = {.format = format, .block = kv_block(format, shape), .heads = heads};
    for (int i = 0; i < format->n_planes; i++)
        cache.plane[i] = tensor_buffer(g, buffers[i], format->planes[i].dtype, format->planes[i].lo, format->planes[i].hi,
                                       dims(pages, heads, KV_PAGE, kv_plane_cells(format, shape, i) / heads));
    return cache;
}

KvCache kv_write(KvCache cache, const KvRows *rows, Tensor value) {
    Tensor cells[KV_PLANES_MAX];
    cache.format->pack(value, cache.block, cells);
    if (uop_is_poison(cache.plane[0])) return cache;
    Tensor head = tensor_iota(value->graph, cache.heads), page = tensor_unsqueeze(rows->page, -1);
    Tensor first = tensor_mul_const(tensor_add(tensor_mul_const(page, (double)cache.heads), head), KV_PAGE);
    Tensor cell = tensor_add(first, tensor_unsqueeze(rows->within, -1));   // [rows, heads]
    for (int i = 0; i < cache.format->n_planes; i++) {
        Tensor plane = cache.plane[i];
        if (uop_is_poison(plane)) return cache;
        int64_t of_head = tensor_size(plane, 3);
        Tensor target = tensor_gather(tensor_reshape(plane, dims(-1, of_head)), cell);
        Tensor by_head = tensor_reshape(tensor_cast(cells[i], plane->dtype), dims(-1, cache.heads, of_head));
        cache.plane[i] = tensor_assign(plane, target, by_head);
    }
    return cache;
}

// Computed once for all rows, each head's keys side by side. No row looks at cells behind the farthest: they may hold anything.
static Tensor kept_together(Tensor cells, const KvView *view) {
    Tensor is_seen = tensor_less(tensor_iota(cells->graph, KV_PAGE), tensor_unsqueeze(view->cells_seen, -1)); // [1, pages, KV_PAGE]
    is_seen = tensor_unsqueeze(tensor_unsqueeze(is_seen, -1), -1);
    Tensor seen = tensor_where(is_seen, cells, tensor_const(cells->graph, DT_F32, 0));
    Tensor by_head = tensor_contiguous(tensor_permute(seen, dims(0, 3, 1, 2, 4)));
    return tensor_permute(by_head, dims(0, 2, 3, 1, 4));
}

Tensor kv_read(const KvCache *cache, const KvView *view) {
    Tensor cells[KV_PLANES_MAX];
    for (int i = 0; i < cache->format->n_planes; i++) {
        if (uop_is_poison(cache->plane[i])) return cache->plane[i];
        cells[i] = tensor_gather(cache->plane[i], view->pages);
    }
    Tensor read = cache->format->unpack(cells, cache->block);
    if (uop_is_poison(read)) return read;
    read = tensor_permute(read, dims(0, 1, 3, 2, 4));   // behind the gather: [rows, pages in view, heads, KV_PAGE, width of a head]
    return view->together && !uop_is_poison(read) ? kept_together(read, view) : read;
}

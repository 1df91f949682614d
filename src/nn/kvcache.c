// kvcache: see kvcache.h.
#include "nn/kvcache.h"

// Number of page `nth` of each row's sequence. nth: i32 [rows] or [rows, n].
static Tensor page_numbers(Tensor table, Tensor sequence, Tensor nth) {
    Tensor first = tensor_mul_const(sequence, (double)tensor_size(table, 1));
    for (int i = 1; i < nth->ndim; i++) first = tensor_unsqueeze(first, -1);
    return tensor_gather(tensor_reshape(table, dims(-1)), tensor_add(first, nth));
}

KvRows kv_rows(Tensor table, Tensor sequence, Tensor position) {
    if (uop_is_poison(table)) return (KvRows){table, table, table, table};
    Tensor page = page_numbers(table, sequence, tensor_binary_const(OP_IDIV, position, KV_PAGE));
    Tensor within = tensor_binary_const(OP_MOD, position, KV_PAGE);
    Tensor cell = tensor_add(tensor_mul_const(page, KV_PAGE), within);
    return (KvRows){position, table, sequence, cell};
}

KvView kv_view(const KvRows *rows, int64_t window) {
    Tensor own = rows->position, table = rows->table;
    if (uop_is_poison(own) || uop_is_poison(table)) return (KvView){own, own, own, NULL};
    Graph *g = own->graph;
    int64_t all = tensor_size(table, 1), most = window > 0 ? (window + KV_PAGE - 2) / KV_PAGE + 1 : all;
    bool is_bounded = most < all;
    Tensor nth = tensor_iota(g, is_bounded ? most : all); // of the sequence, or from `first` on
    Tensor last = tensor_binary_const(OP_IDIV, own, KV_PAGE), pages_seen = tensor_add_const(last, 1);
    Tensor passed = tensor_add_const(own, 1 - (double)window);
    if (is_bounded) {
        Tensor first = tensor_binary_const(OP_IDIV, tensor_max2(passed, tensor_const(g, DT_I32, 0)), KV_PAGE);
        pages_seen = tensor_sub(pages_seen, first);
        nth = tensor_add(tensor_unsqueeze(first, -1), nth);
    } else {
        nth = tensor_expand(tensor_unsqueeze(nth, 0), dims(tensor_size(own, 0), all));
    }
    Tensor before = tensor_mul_const(nth, KV_PAGE); // positions before each page
    Tensor exists = tensor_binary(OP_MIN, nth, tensor_const(g, DT_I32, (double)all - 1));
    KvView view = {.pages = page_numbers(table, rows->sequence, exists), .pages_seen = pages_seen};
    view.keys_seen = tensor_sub(tensor_unsqueeze(tensor_add_const(own, 1), -1), before);
    if (window > 0) view.keys_passed = tensor_sub(tensor_unsqueeze(passed, -1), before);
    return view;
}

KvCache kv_cache(Graph *g, const KvFormat *format, KvShape shape, const int64_t *buffers, int64_t pages) {
    KvCache cache = {.format = format, .block = kv_block(format, shape)};
    for (int i = 0; i < format->n_planes; i++)
        cache.plane[i] = tensor_buffer(g, buffers[i], format->planes[i].dtype, format->planes[i].lo, format->planes[i].hi,
                                       dims(pages, KV_PAGE, kv_plane_cells(format, shape, i)));
    return cache;
}

KvCache kv_write(KvCache cache, const KvRows *rows, Tensor value) {
    Tensor cells[KV_PLANES_MAX];
    cache.format->pack(value, cache.block, cells);
    for (int i = 0; i < cache.format->n_planes; i++) {
        Tensor plane = cache.plane[i];
        if (uop_is_poison(plane)) return cache;
        Tensor target = tensor_gather(tensor_reshape(plane, dims(-1, tensor_size(plane, 2))), rows->cell);
        cache.plane[i] = tensor_assign(plane, target, tensor_cast(cells[i], plane->dtype));
    }
    return cache;
}

Tensor kv_read(const KvCache *cache, const KvView *view) {
    Tensor cells[KV_PLANES_MAX];
    for (int i = 0; i < cache->format->n_planes; i++) {
        if (uop_is_poison(cache->plane[i])) return cache->plane[i];
        cells[i] = tensor_gather(cache->plane[i], view->pages);
    }
    return cache->format->unpack(cells, cache->block);
}

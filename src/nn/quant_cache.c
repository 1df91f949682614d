// quant_cache: see quant_cache.h.
#include "nn/quant_cache.h"

#include <string.h>

#include "nn/layers.h"

static void pack_plain(Tensor x, int64_t block, Tensor *cells) {
    (void)block;
    cells[0] = x;
}

static Tensor unpack_plain(const Tensor *cells, int64_t block) {
    (void)block;
    return tensor_cast(cells[0], DT_F32);
}

// As Q8_0 of GGML: values are divided by the scale before that is rounded to f16.
static void pack_rounded(Tensor x, int64_t block, Tensor *cells) {
    Rounded r = layers_round(x, block);
    cells[0] = quant_join(r.p, 2);
    cells[1] = r.s;
}

static Tensor unpack_rounded(const Tensor *cells, int64_t block) {
    Tensor p = tensor_cast(cells[0], DT_F32), s = tensor_cast(cells[1], DT_F32);
    p = quant_split(p, dims(tensor_size(s, -1), block));
    return quant_join(tensor_mul(p, tensor_unsqueeze(s, -1)), 2);
}

static const KvFormat formats[] = {
    {"f16", 1, 1, 1, {{DT_F16, 0, 0}}, pack_plain, unpack_plain},
    {"f32", 1, 1, 1, {{DT_F32, 0, 0}}, pack_plain, unpack_plain},
    {"q8_0", ACTIVATION_BLOCK, 4, 2, {{DT_I8, -127, 127}, {DT_F16, 0, 0}}, pack_rounded, unpack_rounded},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

const KvFormat *kv_format_find(const char *name) {
    for (int i = 0; i < N_FORMATS; i++)
        if (!strcmp(formats[i].name, name)) return &formats[i];
    return NULL;
}

const char *kv_format_names(Arena *arena) {
    const char *names = formats[0].name;
    for (int i = 1; i < N_FORMATS; i++)
        names = arena_printf(arena, "%s%s%s", names, i < N_FORMATS - 1 ? ", " : " or ", formats[i].name);
    return names;
}

int64_t kv_block(const KvFormat *format, KvShape shape) {
    int64_t block = format->block_most;
    while (shape.part % block) block /= 2;
    return block;
}

int64_t kv_plane_cells(const KvFormat *format, KvShape shape, int plane) {
    return plane ? shape.width / kv_block(format, shape) : shape.width;
}

int64_t kv_plane_bytes(const KvFormat *format, KvShape shape, int plane) {
    return kv_plane_cells(format, shape, plane) * dtype_bytes(format->planes[plane].dtype);
}

int64_t kv_row_bytes(const KvFormat *format, KvShape shape) {
    int64_t nbytes = 0;
    for (int i = 0; i < format->n_planes; i++) nbytes += kv_plane_bytes(format, shape, i);
    return nbytes;
}

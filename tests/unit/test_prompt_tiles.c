// test_prompt_tiles: products of a prompt's rows on devices whose tiles are groups of threads, against eval_graph: threads compute
// tiles of elements, and on cards, whose threads exchange values, those with parts of the same sums share the elements out. Sizes that fill all tiles and
// that do not.
#include "base/settings.h"
#include "compare.h"
#include "fake_card.h"
#include "few_tiles.h"
#include "nn/layers.h"
#include "noise_blocks.h"
#include "runtime/devices.h"

typedef struct Shape { int type; int64_t tokens, rows, cols; } Shape;

// The rows of some tokens, by eval_graph, beside what the device gave for all of them.
static void check_tokens(Compare *c, const Layers *layers, const char *what, Tensor x, const Weight *w, const float *got, int64_t first, int64_t end) {
    Error err;
    EvalTensor want;
    EvalBuffers buffers = {compare_address, c};
    Tensor y = layers_linear(layers, input_of(tensor_slice(x, 0, first, end)), w);
    if (!eval_graph(c->arena, y, &buffers, &want, &err)) compare_fail("%s: eval: %s", what, err.text);
    double largest = 0;
    for (int64_t i = 0; i < want.count; i++) if (fabs(want.at[i].f) > largest) largest = fabs(want.at[i].f);
    for (int64_t i = 0; i < want.count; i++)
        if (!(fabs((double)got[first * w->rows + i] - want.at[i].f) <= 1e-5 * largest))
            compare_fail("%s: row %lld of token %lld is %.9g, should be %.9g", what, (long long)(i % w->rows), (long long)(first + i / w->rows),
                         (double)got[first * w->rows + i], want.at[i].f);
}

static void check_shapes(const char *device, const char *target, const Shape *shapes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        Compare c = compare_open(device, target);
        few_tiles(c.engine);
        const Shape *s = &shapes[i];
        Layers layers = {.graph = c.graph, .tables = {compare_book, &c}};
        Weight w = compare_weight(&c, quant_find((uint32_t)s->type), s->rows, s->cols);
        Tensor x = compare_buffer(&c, DT_F32, 0, 0, dims(s->tokens, s->cols)), y = layers_linear(&layers, input_of(x), &w);
        char what[96];
        Error err;
        Step *step;
        snprintf(what, sizeof what, "%s, %s, %d x %d x %d", device, w.type->name, (int)s->tokens, (int)s->rows, (int)s->cols);
        if (!engine_compile(c.engine, &y, 1, &step, &err) || !step_run(step, &err)) compare_fail("%s: %s", what, err.text);
        float *got = malloc(step_output_bytes(step, 0));
        engine_buffer_read(c.engine, step_output_buffer(step, 0), 0, got, step_output_bytes(step, 0));
        for (int k = 0; k < 3; k++) {   // the first two tokens, two in the middle, the last two
            int64_t first = k * (s->tokens - 2) / 2;
            check_tokens(&c, &layers, what, x, &w, got, first, first + 2);
        }
        free(got);
        step_destroy(step);
        compare_close(&c);
    }
}

// Q4_0, Q4_K, Q6_K, Q8_0; 528 rows and 120 tokens are no multiple of a tile.
static const Shape shapes[] = {{2, 128, 512, 512}, {12, 128, 512, 512}, {14, 128, 512, 512}, {8, 128, 512, 256}, {12, 120, 528, 256}};

static void test_card(void **state) {
    (void)state;
    check_shapes("cuda", NULL, shapes, sizeof shapes / sizeof *shapes);
}

static void test_opencl(void **state) {
    (void)state;
    if (!has_groups()) skip();
    check_shapes("opencl", GROUPS, shapes, sizeof shapes / sizeof *shapes);
}

int main(int argc, char **argv) {
    (void)argc;
    fake_card_use(argv[0]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_card), cmocka_unit_test(test_opencl)};
    return cmocka_run_group_tests_name("prompt_tiles", tests, NULL, NULL);
}

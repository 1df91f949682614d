// test_interleave: products of many rows, whose lanes are rows, give each row the bits that it has alone: every block type,
// the invented ones too, few columns and many, numbers of rows that fill one register and that do not fill the last.
#include "compare.h"
#include "noise_blocks.h"
#include "nn/layers.h"
#include "unit/invented_types.h"

enum { WEIGHTS = 512, MOST_ROWS = 64, MOST_TYPES = 64, FORM_COLS = 1024 };   // less work shares its tile with what rounds the rows
static const char FORM[] = "] __attribute__((aligned(64)))";   // chains in memory, which only products of rows have

typedef struct Product { const QuantType *type; int64_t cols; Weight weight; int64_t input; float *x; } Product;

static Step *product_step(Compare *c, const Product *p, int64_t rows) {
    Error err;
    Step *step;
    Layers layers = {.graph = c->graph, .tables = {compare_book, c}};
    Tensor x = tensor_buffer(c->graph, p->input, DT_F32, 0, 0, dims(MOST_ROWS, p->cols));
    Tensor y = layers_linear(&layers, input_normed(tensor_slice(x, 0, 0, rows), tensor_const(c->graph, DT_F32, 1), 1e-5), &p->weight);
    if (uop_is_poison(y)) compare_fail("%s: %s", p->type->name, y->message);
    if (!engine_compile(c->engine, &y, 1, &step, &err)) compare_fail("%s: %s", p->type->name, err.text);
    return step;
}

static void product_run(Compare *c, Step *step, const Product *p, int64_t first, int64_t rows, float *y) {
    Error err;
    engine_buffer_write(c->engine, p->input, 0, p->x + first * p->cols, (size_t)(rows * p->cols) * sizeof *p->x);
    if (!step_run(step, &err)) compare_fail("%s: %s", p->type->name, err.text);
    engine_buffer_read(c->engine, step_output_buffer(step, 0), 0, y, (size_t)(rows * WEIGHTS) * sizeof *y);
}

static bool lanes_are_rows(const Step *step) {
    for (int i = 0; i < step_stage_count(step); i++) {
        const char *source = step_stage(step, i).source;
        if (source && strstr(source, FORM)) return true;
    }
    return false;
}

static void check_rows(Compare *c, const Product *p) {
    static const int64_t rows[] = {4, 8, 24, MOST_ROWS};
    static float alone[MOST_ROWS * WEIGHTS], together[MOST_ROWS * WEIGHTS];
    Step *one = product_step(c, p, 1);
    for (int64_t r = 0; r < MOST_ROWS; r++) product_run(c, one, p, r, 1, alone + r * WEIGHTS);
    step_destroy(one);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Step *all = product_step(c, p, rows[i]);
        if (p->cols >= FORM_COLS && lanes_are_rows(all) != (rows[i] % 8 == 0))
            compare_fail("%s: %d rows of %d columns take another form", p->type->name, (int)rows[i], (int)p->cols);
        product_run(c, all, p, 0, rows[i], together);
        for (int64_t k = 0; k < rows[i] * WEIGHTS; k++)
            if (memcmp(&together[k], &alone[k], sizeof *alone))
                compare_fail("%s: row %d of %d, %d columns: %.9g, alone %.9g", p->type->name, (int)(k / WEIGHTS), (int)rows[i],
                             (int)p->cols, (double)together[k], (double)alone[k]);
        step_destroy(all);
    }
}

static void check_type(const QuantType *t, int64_t blocks, const char *target) {
    Compare c = compare_open(NULL, target);
    Error err;
    uint64_t state = 11;
    Product p = {.type = t, .cols = blocks * t->block_elements};
    size_t nbytes = (size_t)(WEIGHTS * blocks * t->block_bytes);
    uint8_t *bytes = calloc(1, nbytes + 4096);
    p.x = calloc((size_t)(MOST_ROWS * p.cols), sizeof *p.x);
    if (!bytes || !p.x) compare_fail("no memory");
    noise_blocks_fill(bytes, t, WEIGHTS * blocks, &state);
    for (int64_t i = 0; i < MOST_ROWS * p.cols; i++) p.x[i] = (float)((double)noise_next(&state) / 2147483648.0 - 1);
    p.weight = (Weight){.type = t, .count = 1, .rows = WEIGHTS, .cols = p.cols};
    if (!engine_buffer_wrap(c.engine, bytes, nbytes, &p.weight.buffer, &err)) compare_fail("%s", err.text);
    if (!engine_buffer_alloc(c.engine, (size_t)(MOST_ROWS * p.cols) * sizeof *p.x, &p.input, &err)) compare_fail("%s", err.text);
    check_rows(&c, &p);
    compare_close(&c);
    free(bytes);
    free(p.x);
}

static void every_type(void **state) {
    (void)state;
    int n = 0;
    for (uint32_t number = 0; number < MOST_TYPES; number++) {
        const QuantType *t = quant_find(number);
        if (!t || quant_is_plain(t)) continue;
        check_type(t, 1024 / t->block_elements, NULL);
        n++;
    }
    assert_true(n >= 13);
}

static void invented_types(void **state) {
    (void)state;
    assert_true(invented_register());
    check_type(quant_find(INVENTED_I5), 34, NULL);
    check_type(quant_find(INVENTED_I3), 17, NULL);
}

// Fewer blocks than chains, one block, chains that get another unit more than others.
static void few_columns_and_many(void **state) {
    (void)state;
    static const int64_t blocks[] = {2, 8, 16, 36, 37};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) check_type(quant_find(2), blocks[i], NULL);
}

static void vectors_of_16_bytes(void **state) {
    (void)state;
    check_type(quant_find(2), 32, "sse2");
    check_type(quant_find(14), 4, "sse2");
}

// The same rounded row read by blocks whose halves stand apart and by others: one reads its second place, the other the first.
static void both_places_of_a_row(void **state) {
    (void)state;
    enum { COLS = 1408, N = 2 };
    static const uint32_t types[N] = {2, 8};
    static float alone[N][WEIGHTS], both[WEIGHTS], x[MOST_ROWS * COLS];
    Compare c = compare_open(NULL, NULL);
    Error err;
    uint64_t noise = 5;
    Product p[N] = {0};
    uint8_t *bytes[N];
    for (int64_t k = 0; k < MOST_ROWS * COLS; k++) x[k] = (float)((double)noise_next(&noise) / 2147483648.0 - 1);
    for (int i = 0; i < N; i++) {
        const QuantType *t = quant_find(types[i]);
        int64_t blocks = WEIGHTS * COLS / t->block_elements;
        p[i] = (Product){.type = t, .cols = COLS, .x = x, .weight = {.type = t, .count = 1, .rows = WEIGHTS, .cols = COLS}};
        bytes[i] = calloc(1, (size_t)(blocks * t->block_bytes) + 4096);
        if (!bytes[i]) compare_fail("no memory");
        noise_blocks_fill(bytes[i], t, blocks, &noise);
        if (!engine_buffer_wrap(c.engine, bytes[i], (size_t)(blocks * t->block_bytes), &p[i].weight.buffer, &err)) compare_fail("%s", err.text);
    }
    if (!engine_buffer_alloc(c.engine, sizeof x, &p[0].input, &err)) compare_fail("%s", err.text);
    p[1].input = p[0].input;
    for (int i = 0; i < N; i++) {
        Step *step = product_step(&c, &p[i], 1);
        product_run(&c, step, &p[i], 0, 1, alone[i]);
        step_destroy(step);
    }
    Layers layers = {.graph = c.graph, .tables = {compare_book, &c}};
    Tensor row = tensor_slice(tensor_buffer(c.graph, p[0].input, DT_F32, 0, 0, dims(MOST_ROWS, COLS)), 0, 0, 1);
    Input in = input_normed(row, tensor_const(c.graph, DT_F32, 1), 1e-5);
    Tensor y = tensor_add(layers_linear(&layers, in, &p[0].weight), layers_linear(&layers, in, &p[1].weight));
    Step *step;
    if (!engine_compile(c.engine, &y, 1, &step, &err)) compare_fail("%s", err.text);
    product_run(&c, step, &p[0], 0, 1, both);
    step_destroy(step);
    for (int k = 0; k < WEIGHTS; k++) {
        float sum = alone[0][k] + alone[1][k];
        if (memcmp(&both[k], &sum, sizeof sum)) compare_fail("weight %d: %.9g, apart %.9g", k, (double)both[k], (double)sum);
    }
    compare_close(&c);
    for (int i = 0; i < N; i++) free(bytes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),
        cmocka_unit_test(invented_types),
        cmocka_unit_test(few_columns_and_many),
        cmocka_unit_test(vectors_of_16_bytes),
        cmocka_unit_test(both_places_of_a_row),
    };
    return cmocka_run_group_tests_name("interleave", tests, NULL, NULL);
}

// test_short_rows: weights of few blocks a row, read by programs of targets that take whole registers, step by step by the eval device, which knows where each
// buffer ends: nothing is read beside it, and every target gives the same bits.
#include "compare.h"
#include "unit/invented_types.h"

enum { APART = 17, MOST_WEIGHTS = 24, MOST_TYPES = 64 };

static void product(const char *target, const QuantType *t, int64_t blocks, int64_t weights, float *y) {
    Compare c = compare_open("eval", target);
    Error err;
    Step *step;
    int64_t cols = blocks * t->block_elements;
    Weight w = compare_weight(&c, t, weights, cols);
    Layers layers = {.graph = c.graph, .tables = {compare_book, &c}};
    Tensor in = compare_buffer(&c, DT_F32, 0, 0, dims(1, cols));
    Tensor out = layers_linear(&layers, input_normed(in, tensor_const(c.graph, DT_F32, 1), 1e-5), &w);
    if (uop_is_poison(out)) compare_fail("%s: %s", t->name, out->message);
    if (!engine_compile(c.engine, &out, 1, &step, &err) || !step_run(step, &err))
        compare_fail("%s, %d blocks of %s, %d rows: %s", target, (int)blocks, t->name, (int)weights, err.text);
    engine_buffer_read(c.engine, step_output_buffer(step, 0), 0, y, (size_t)weights * sizeof *y);
    step_destroy(step);
    compare_close(&c);
}

static void check_target(const char *target) {
    // Sums of few blocks stand side by side where rows divide by eight, and give what they give one after the other.
    static const int64_t blocks[] = {1, 2, 3, 4, 5, 6}, weights[] = {1, APART, MOST_WEIGHTS};
    enum { BLOCKS = sizeof blocks / sizeof *blocks, WEIGHTS = sizeof weights / sizeof *weights };
    int n = 0;
    assert_true(invented_register());
    for (int number = 0; number < MOST_TYPES + 2; number++) {
        const QuantType *t = quant_find(number < MOST_TYPES ? (uint32_t)number : number == MOST_TYPES ? INVENTED_I5 : INVENTED_I3);
        if (!t || quant_is_plain(t)) continue;
        for (int i = 0; i < BLOCKS * WEIGHTS; i++) {
            float want[MOST_WEIGHTS], got[MOST_WEIGHTS], apart[MOST_WEIGHTS];
            int64_t n_blocks = blocks[i / WEIGHTS], n_weights = weights[i % WEIGHTS];
            product("avx2", t, n_blocks, n_weights, want);
            product("avx2", t, n_blocks, n_weights == MOST_WEIGHTS ? APART : n_weights, apart);
            product(target, t, n_blocks, n_weights, got);
            if (memcmp(want, got, (size_t)n_weights * sizeof *got) || memcmp(want, apart, (size_t)(n_weights == MOST_WEIGHTS ? APART : n_weights) * sizeof *got))
                compare_fail("%s: %d blocks of %s, %d rows: other bits than avx2, or rows apart", target, (int)n_blocks, t->name, (int)n_weights);
            n++;
        }
    }
    assert_true(n >= BLOCKS * WEIGHTS * 15);
}

// Whole steps, and more than half a one of sums behind the last: a target of long registers takes it as a whole one, the others in parts.
static void rests_of_rows(void **state) {
    (void)state;
    static const int64_t blocks[] = {8, 16, 24, 25, 28, 31, 32};
    int n = 0;
    assert_true(invented_register());
    for (int number = 0; number < MOST_TYPES + 2; number++) {
        const QuantType *t = quant_find(number < MOST_TYPES ? (uint32_t)number : number == MOST_TYPES ? INVENTED_I5 : INVENTED_I3);
        if (!t || quant_is_plain(t)) continue;
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++, n++) {
            float want[2], got[2];
            product("avx2", t, blocks[i], 2, want);
            product("zen4", t, blocks[i], 2, got);
            if (memcmp(want, got, sizeof got)) compare_fail("%d blocks of %s: other bits than avx2", (int)blocks[i], t->name);
        }
    }
    assert_true(n >= 15 * 7);
}

static void avx512vbmi(void **state) { (void)state; check_target("avx512vbmi"); }
static void avx512vlvbmi(void **state) { (void)state; check_target("avx512vlvbmi"); }
static void zen4(void **state) { (void)state; check_target("zen4"); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(avx512vbmi), cmocka_unit_test(avx512vlvbmi), cmocka_unit_test(zen4), cmocka_unit_test(rests_of_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

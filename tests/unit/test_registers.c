// test_registers: which registers products of one row fill, and how what they read comes into them.
#include "unit/programs.h"

// Of the dot products of a product of one row with blocks of a type, those that add to another one.
static int chained_dots(const QuantType *t, const char *target, int *all) {
    Arena *arena = arena_create();
    UOpList program = product_program(arena, t, target);
    int n = 0;
    *all = count_of(&program, OP_DOT4, DT_I32);
    for (size_t k = 0; k < program.len; k++) n += program.at[k]->op == OP_DOT4 && program.at[k]->src[0]->op == OP_DOT4;
    arena_destroy(arena);
    return n;
}

// Blocks whose bytes are read for two halves of their weights: those of neighbours fill registers together, one half is added to the
// other, and no vector is put together from parts but those of weights. Blocks that fill a register by themselves stay as they are.
static void test_halves_share_registers(void **state) {
    (void)state;
    static const struct { uint32_t type; bool is_halved; } types[] = {{2, true}, {3, true}, {20, true}, {39, true}, {23, true}, {6, true}, {7, true}, {8, false}, {14, false}};
    static const char *const targets[] = {"avx2", "avx512vl", "avx512vlvbmi", "avx512vnni", "avxvnni", "zen4"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
            int all, chained = chained_dots(quant_find(types[i].type), targets[k], &all);
            if (!all || chained != (types[i].is_halved ? all / 2 : 0))
                compare_fail("%s, %s: %d of %d dot products add to another", quant_find(types[i].type)->name, targets[k], chained, all);
        }
}

// Where a target has registers twice as long for stores that need few instructions with them: blocks of 18 bytes are read by whole ones,
// never by parts; what would be put together number by number keeps the others.
static void test_few_instructions_take_long_registers(void **state) {
    (void)state;
    static const struct { uint32_t type; int lanes; } types[] = {{2, 16}, {3, 16}, {14, 16}, {12, 16}, {6, 16}, {7, 16}, {13, 16}, {8, 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        Arena *arena = arena_create();
        UOpList program = product_program(arena, quant_find(types[i].type), "zen4");
        int dots = 0, parts = 0;
        for (size_t k = 0; k < program.len; k++) {
            const UOp *u = program.at[k];
            parts += u->op == OP_LOAD && u->dtype == DT_U8 && u->lanes == 16;
            if (u->op != OP_DOT4) continue;
            if (u->lanes != types[i].lanes) compare_fail("%s: a dot product of %d lanes", quant_find(types[i].type)->name, u->lanes);
            dots++;
        }
        assert_true(dots > 0 && (types[i].type != 2 || parts == 0));
        arena_destroy(arena);
    }
}

// Scales of 6 bits, each lane of which is put together by a rule of its own: those of two headers take one shuffle of bytes, and no number of four
// bytes is masked for some of them; scales and minima of both blocks are converted at once. Parts of pairs of blocks are where the register wants them, in one of two of memory.
static void test_lanes_have_rules_of_their_own(void **state) {
    (void)state;
    static const char *const targets[] = {"avx2", "avx512vl", "avx512vlvbmi", "zen4"};
    for (uint32_t type = 12; type <= 13; type++)      // Q4_K, Q5_K
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
            Arena *arena = arena_create();
            UOpList program = product_program(arena, quant_find(type), targets[i]);
            bool is_wide = !strcmp(targets[i], "zen4");
            int picked = 0, merged = 0, converted = 0;
            for (size_t k = 0; k < program.len; k++) {
                const UOp *u = program.at[k];
                bool is_pair = u->op == OP_SHUFFLE && u->dtype == DT_U8 && uop_is_pair(u->src[0]);
                picked += is_pair && u->lanes == 16;
                converted += u->op == OP_CAST && u->dtype == DT_F32 && u->src[0]->dtype == DT_F16;
                if (!is_pair || u->lanes != 64 || type != 12) continue;
                for (int lane = 0; lane < u->lanes; lane++) assert_int_equal(u->arg[lane] % u->lanes, lane);
                merged++;
            }
            assert_int_equal(merged, is_wide && type == 12 ? 4 : 0);
            assert_int_equal(picked, is_wide ? 2 : 0);
            if (converted != (is_wide ? 2 : 4)) compare_fail("type %d, %s: %d conversions of scales", (int)type, targets[i], converted);
            assert_true((count_of(&program, OP_AND, DT_U32) == 0) == is_wide);
            arena_destroy(arena);
        }
}

// Blocks whose weights do not lie as they are counted: parts of 8 of several sums stand side by side, so that what one register needs comes by one
// shuffle of two of memory, and what two neighbouring parts need by one for both.
static void test_parts_share_registers(void **state) {
    (void)state;
    static const struct { uint32_t type; int chained, shuffles; } types[] = {{INVENTED_I3, 4, 2}, {INVENTED_I5, 2, 0}};
    assert_true(invented_register());
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        Arena *arena = arena_create();
        UOpList program = product_program(arena, quant_find(types[i].type), "zen4");
        int dots = 0, starts = 0, shuffles = 0;
        for (size_t k = 0; k < program.len; k++) {
            const UOp *u = program.at[k];
            if (u->op == OP_DOT4) assert_int_equal(u->lanes, 16);
            dots += u->op == OP_DOT4, starts += u->op == OP_DOT4 && u->src[0]->op != OP_DOT4;
            shuffles += u->op == OP_SHUFFLE && u->dtype == DT_U8 && u->lanes == 64 && uop_is_pair(u->src[0]);
        }
        if (!starts || dots != starts * types[i].chained) compare_fail("%s: %d dot products in %d chains", quant_find(types[i].type)->name, dots, starts);
        if (types[i].shuffles) assert_int_equal(shuffles, starts * types[i].shuffles);
        arena_destroy(arena);
    }
}

// Headers of 8 bytes in blocks of a multiple of that: those of 8 blocks are one register, made once for all that is in them.
static void test_headers_are_words_of_a_register(void **state) {
    (void)state;
    Arena *arena = arena_create();
    assert_true(invented_register());
    UOpList program = product_program(arena, quant_find(INVENTED_I5), "zen4");
    int words = 0;
    for (size_t k = 0; k < program.len; k++) {
        const UOp *u = program.at[k];
        words += u->op == OP_SHUFFLE && u->dtype == DT_U64 && u->lanes == 8 && uop_is_pair(u->src[0]);
        assert_false(u->op == OP_LOAD && u->lanes == 1 && (u->dtype == DT_F16 || u->dtype == DT_U8));      // no scale by itself
    }
    assert_in_range(words, 1, 24);
    arena_destroy(arena);
}

// What is left over of a row after whole steps is a whole one too, if it is more than half of one: no shorter register, no scale by itself.
static void test_rests_take_long_registers(void **state) {
    (void)state;
    Arena *arena = arena_create();
    UOpList program = product_of_blocks(arena, quant_find(2), 44, "zen4");      // Q4_0: 2 steps of 16 blocks, and 12
    int dots = 0;
    for (size_t k = 0; k < program.len; k++) {
        const UOp *u = program.at[k];
        if (u->op == OP_DOT4) assert_int_equal(u->lanes, 16);
        if (u->op == OP_LOAD && u->dtype == DT_F16) assert_true(u->lanes > 1);
        dots += u->op == OP_DOT4;
    }
    assert_int_equal(dots, 2 * 4 + 2 * 3);      // of the four registers of the last step, one is another's
    arena_destroy(arena);
}

// Two products in one kernel, one of which needs few instructions with long registers: each is computed in its own.
static void test_each_store_has_its_registers(void **state) {
    (void)state;
    static const uint32_t types[] = {12, 8};     // Q4_K, Q8_0
    Error err = {0};
    Target target;
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    Layers layers = {.graph = g, .tables = {book_of_any, NULL}};
    Tensor x = tensor_buffer(g, 0, DT_F32, 0, 0, dims(1, 2048)), y[2];
    for (int i = 0; i < 2; i++) {
        Weight w = {.type = quant_find(types[i]), .buffer = 1 + i, .count = 1, .rows = 512, .cols = 2048};
        y[i] = layers_linear(&layers, input_of(x), &w);
    }
    assert_true(cpu_target_find(&target, "zen4", &err));
    UOpList program = last_program_of_all(arena, y, 2, &target);
    int dots[17] = {0};
    for (size_t k = 0; k < program.len; k++) if (program.at[k]->op == OP_DOT4) dots[program.at[k]->lanes]++;
    assert_true(dots[16] > 0 && dots[8] > 0);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_share_registers), cmocka_unit_test(test_few_instructions_take_long_registers),
        cmocka_unit_test(test_lanes_have_rules_of_their_own), cmocka_unit_test(test_rests_take_long_registers), cmocka_unit_test(test_parts_share_registers),
        cmocka_unit_test(test_headers_are_words_of_a_register), cmocka_unit_test(test_each_store_has_its_registers),
    };
    return cmocka_run_group_tests_name("registers", tests, NULL, NULL);
}

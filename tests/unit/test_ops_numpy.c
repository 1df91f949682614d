// test_ops_numpy: every elementwise row of ops.def against numpy, at NaN, infinities, -0 and the integer limits.
// In: tests/ops_numpy.tsv (its maker, tests/ops_numpy.py, describes the lines). Out: the first differences of each table.
// What building and folding nodes make of constants must be the same numbers.
// A row of ops.def that has a meaning on a type but no line in the table fails too: new ops need the script to be run.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/os.h"
#include "ir/eval.h"
#include "ir/rewrite.h"

#undef fail                // cmocka has its own
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
static const char table_path[] = "tests/ops_numpy.tsv";
enum { MAX_OPERANDS = 64 };
typedef struct Operands { DType type; int n; uint64_t bits[MAX_OPERANDS]; } Operands;

static Arena *arena;
static Map lists;                              // name → Operands
static bool is_covered[OP_COUNT][DT_COUNT];    // by operand type
static long n_compared, n_differ, n_misfolded;

// "nan" stands for every NaN; no operand or result has these bits.
static const uint64_t any_nan = UINT64_C(0xffffffff6e616e00);

static uint64_t parse_bits(char **at) {
    while (**at == ' ')
        ++*at;
    if (strncmp(*at, "nan", 3) == 0) {
        *at += 3;
        return any_nan;
    }
    return strtoull(*at, at, 16);
}

static Number number_of(DType type, uint64_t bits) {
    if (bits == any_nan && dtype_is_float(type))
        return (Number){.f = NAN};
    return number_load(type, &bits);
}

static uint64_t bits_of(DType type, Number n) {
    uint64_t bits = 0;
    if (dtype_is_float(type) && isnan(n.f))
        return any_nan;
    number_store(type, &bits, n);
    return bits;
}

// Floats as integers in their order, so that neighbours differ by 1 (both zeros are 0).
static int64_t place_of(DType type, uint64_t bits) {
    int width = 8 * dtype_bytes(type);
    uint64_t sign = UINT64_C(1) << (width - 1), magnitude = bits & (sign - 1);
    return bits & sign ? -(int64_t)magnitude : (int64_t)magnitude;
}

// The sign of max(+0, -0) is numpy's choice, not IEEE's.
static bool agrees(Op op, DType type, int64_t ulps, uint64_t got, uint64_t want) {
    if (got == want)
        return true;
    if (!dtype_is_float(type) || got == any_nan || want == any_nan)
        return false;
    int64_t distance = llabs(place_of(type, got) - place_of(type, want));
    bool is_choice = (op == OP_MAX || op == OP_MIN) && distance == 0;
    return is_choice || (ulps > 0 && distance > 0 && distance <= ulps);
}

static int op_named(const char *name) {
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(op_info[op].name, name) == 0)
            return op;
    fail_msg("%s: no op %s", table_path, name);
    return -1;
}

static DType type_named(const char *name) {
    for (int type = 0; type < DT_COUNT; type++)
        if (strcmp(dtype_info[type].name, name) == 0)
            return (DType)type;
    fail_msg("%s: no type %s", table_path, name);
    return DT_VOID;
}

static void read_list(char **field) {
    Operands *list = arena_new(arena, sizeof *list);
    list->type = type_named(field[2]);
    for (char *at = field[3]; *at;) {
        assert_true(list->n < MAX_OPERANDS);
        list->bits[list->n++] = parse_bits(&at);
    }
    map_put_text(&lists, field[1], list);
}

static bool apply(Op op, DType operand, DType result, const Number *args, Number *out) {
    if (op != OP_CAST)
        return eval_op(op, operand, args, out);
    *out = number_cast(operand, result, args[0]);
    return true;
}

static UOp *constant_of(Graph *g, DType type, Number n) {
    return dtype_is_float(type) ? uop_float(g, type, n.f) : uop_int(g, type, n.i);
}

// What building and folding make of constants is what eval makes of numbers.
static void check_folding(Graph *g, Op op, DType result, const Operands *const *list, const Number *args, Number want) {
    UOp *src[3];
    for (int k = 0; k < op_info[op].arity; k++) src[k] = constant_of(g, list[k]->type, args[k]);
    UOp *made = op == OP_CAST ? uop_cast(src[0], result)
              : op_info[op].arity == 2 ? uop_binary(op, src[0], src[1])
                                       : uop_new(g, op, result, 1, src, op_info[op].arity, NULL, 0);
    UOp *folded = made->op == OP_CONST ? made : rewrite_fold(made);
    if (!folded) return;
    // The constant itself must lie in its type: what is compared is not what a store would make of it.
    Number got = number_from_const(folded);
    bool same = dtype_is_float(result) ? bits_of(result, got) == bits_of(result, want) : got.i == number_wrap(result, want).i;
    if (folded->dtype == result && same) return;
    if (n_misfolded++ < 10)
        print_error("%s on %s: folded to %llx, eval %llx\n", op_info[op].name, dtype_info[list[0]->type].name,
                    (unsigned long long)got.i, (unsigned long long)want.i);
}

// field: op, result type, ulps, operand lists…, "|", results
static void compare_table(char **field, int n_fields) {
    Op op = (Op)op_named(field[0]);
    DType result = type_named(field[1]);
    int64_t ulps = atoi(field[2]);
    int arity = n_fields - 5, at[3] = {0};
    long n_wrong = 0;
    const Operands *list[3];
    assert_int_equal(arity, op_info[op].arity);
    for (int k = 0; k < arity; k++)
        assert_non_null(list[k] = map_get_text(&lists, field[3 + k]));
    DType operand = list[op == OP_WHERE ? 1 : 0]->type;
    is_covered[op][operand] = true;
    Arena *scratch = arena_create();
    Graph *g = graph_create(scratch);
    for (char *want_at = field[4 + arity]; *want_at; n_compared++) {
        Number args[3] = {{0}}, got = {0};
        for (int k = 0; k < arity; k++)
            args[k] = number_of(list[k]->type, list[k]->bits[at[k]]);
        uint64_t want = parse_bits(&want_at);
        assert_true(apply(op, operand, result, args, &got));
        uint64_t bits = bits_of(result, got);
        check_folding(g, op, result, list, args, got);
        if (!agrees(op, result, ulps, bits, want) && n_wrong++ < 5)
            print_error("%s %s → %s: operands %llx %llx: numpy %llx, eval %llx\n", field[0], dtype_info[operand].name, field[1],
                        (unsigned long long)list[0]->bits[at[0]], arity > 1 ? (unsigned long long)list[1]->bits[at[1]] : 0,
                        (unsigned long long)want, (unsigned long long)bits);
        for (int k = arity; k-- > 0;) {
            at[k] = (at[k] + 1) % list[k]->n;
            if (at[k])
                break;
        }
    }
    arena_destroy(scratch);
    assert_int_equal(at[0] + at[arity - 1], 0);      // neither results missing nor too many
    n_differ += n_wrong;
}

static int split(char *line, char separator, char **field, int max) {
    int n = 0;
    for (char *at = line; at && n < max; n++) {
        field[n] = at;
        at = strchr(at, separator);
        if (at)
            *at++ = '\0';
    }
    return n;
}

static void every_table_agrees(void **state) {
    (void)state;
    Text text;
    Error err = {0};
    if (!file_read(arena, table_path, &text, &err))
        fail_msg("%s", err.text);
    char *rest = (char *)(uintptr_t)text_cstr(arena, text);
    while (*rest) {
        char *line = rest, *field[16];
        rest += strcspn(rest, "\n");
        if (*rest)
            *rest++ = '\0';
        if (*line == '#' || !*line)
            continue;
        int n = split(line, '\t', field, COUNT(field));
        if (strcmp(field[0], "list") == 0)
            read_list(field);
        else if (strcmp(field[0], "none") == 0)
            is_covered[op_named(field[1])][type_named(field[2])] = true;
        else
            compare_table(field, n);
    }
    print_message("compared %ld results with numpy, %ld differ\n", n_compared, n_differ);
    assert_int_equal(n_differ, 0);
    assert_int_equal(n_misfolded, 0);
    assert_true(n_compared > 0);
}

static void every_row_is_in_the_table(void **state) {
    (void)state;
    int n_missing = 0;
    for (int op = 0; op < OP_COUNT; op++)
        for (int type = DT_BOOL; type < DT_COUNT; type++) {
            Number args[3] = {{.i = 1}, {.i = 1}, {.i = 1}}, out;
            bool has_meaning = op == OP_CAST || eval_op((Op)op, (DType)type, args, &out);
            if (!has_meaning || is_covered[op][type])
                continue;
            n_missing++;
            print_error("%s has no line for %s on %s: run tests/ops_numpy.py\n", table_path, op_info[op].name,
                        dtype_info[type].name);
        }
    assert_int_equal(n_missing, 0);
}

static int setup(void **state) {
    (void)state;
    arena = arena_create();
    map_init(&lists, arena);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_destroy(arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_table_agrees), cmocka_unit_test(every_row_is_in_the_table)};
    return cmocka_run_group_tests_name("ops_numpy", tests, setup, teardown);
}

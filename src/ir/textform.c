// textform: prints graphs; textform_read.c reads them. See textform.h.
// In: nodes. Out: text, one node a line, or one line of mathematics.
// Invariant: every field of a node but its id is in its line, so that equal text means equal nodes.
// Example: ADD(RANGE 0, CONST 4) is "(r0 + 4)" as an expression.
#include "ir/textform.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static void print_lower(TextBuilder *b, const char *word) {
    for (const char *c = word; *c; c++) builder_char(b, (char)tolower((unsigned char)*c));
}

// ---------------------------------------------------------------- lines

static void print_float(TextBuilder *b, int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    // Every NaN is its own: they print as bits.
    if (isnan(value)) builder_printf(b, "nan:%llx", (unsigned long long)bits);
    else if (isinf(value)) builder_cstring(b, value < 0 ? "-inf" : "inf");
    else builder_printf(b, "%.17g", value);
}

static void print_args(TextBuilder *b, const UOp *u) {
    bool floats = dtype_is_float(u->dtype) && (u->op == OP_CONST || u->op == OP_VCONST);
    builder_cstring(b, " {");
    for (int i = 0; i < u->n_arg; i++) {
        if (i) builder_cstring(b, ", ");
        if (floats) print_float(b, u->arg[i]);
        else builder_printf(b, "%lld", (long long)u->arg[i]);
    }
    builder_char(b, '}');
}

static void print_quoted(TextBuilder *b, const char *text) {
    builder_cstring(b, " \"");
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\') builder_char(b, '\\');
        if (*c == '\n') builder_cstring(b, "\\n");
        else builder_char(b, *c);
    }
    builder_char(b, '"');
}

static size_t number_of(const UOpMap *numbers, const UOp *u) {
    return (size_t)(uintptr_t)uop_map_get(numbers, u);
}

static void print_line(TextBuilder *b, const UOp *u, const UOpMap *numbers) {
    builder_printf(b, "%%%zu = ", number_of(numbers, u) - 1);
    print_lower(b, op_info[u->op].name);
    builder_char(b, ':');
    print_lower(b, dtype_info[u->dtype].name);
    if (u->lanes != 1) builder_printf(b, "x%d", u->lanes);
    for (int i = 0; i < u->ndim; i++)
        builder_printf(b, "%s%lld", i ? "," : "[", (long long)u->shape[i]);
    if (u->ndim) builder_char(b, ']');
    for (int i = 0; i < u->n_src; i++) {
        builder_cstring(b, i ? ", " : "(");
        size_t number = number_of(numbers, u->src[i]);
        if (number) builder_printf(b, "%%%zu", number - 1);
        else builder_char(b, '?');
    }
    if (u->n_src) builder_char(b, ')');
    if (u->n_arg) print_args(b, u);
    if (u->message) print_quoted(b, u->message);
    builder_char(b, '\n');
}

void textform_print_list(TextBuilder *out, const UOpList *program) {
    Arena *arena = arena_create();
    UOpMap numbers;
    uop_map_init(&numbers, arena);
    for (size_t i = 0; i < program->len; i++)
        uop_map_put(&numbers, program->at[i], (void *)(uintptr_t)(i + 1));
    for (size_t i = 0; i < program->len; i++) print_line(out, program->at[i], &numbers);
    arena_destroy(arena);
}

void textform_print(TextBuilder *out, UOp *root) {
    Arena *arena = arena_create();
    UOpList order = uop_toposort(arena, root);
    textform_print_list(out, &order);
    arena_destroy(arena);
}

const char *textform_text(Arena *arena, UOp *root) {
    TextBuilder b = builder(arena);
    textform_print(&b, root);
    return builder_cstr(&b);
}

// ---------------------------------------------------------------- expressions

static bool is_infix(const UOp *u) {
    return u->n_src == 2 && !isalpha((unsigned char)op_info[u->op].pattern[0]);
}

static void print_leaf(TextBuilder *b, const UOp *u) {
    if (u->op == OP_CONST && u->dtype == DT_BOOL) builder_cstring(b, u->arg[0] ? "true" : "false");
    else if (u->op == OP_CONST && dtype_is_float(u->dtype))
        builder_printf(b, "%.9g", uop_const_float(u));
    else if (u->op == OP_CONST) builder_printf(b, "%lld", (long long)u->arg[0]);
    else if (u->n_arg > 0)
        builder_printf(b, "%s%lld", op_info[u->op].pattern, (long long)u->arg[0]);
    else builder_cstring(b, op_info[u->op].pattern);
}

static void print_expression(TextBuilder *b, const UOp *u, int depth) {
    if (u->op == OP_AFTER && u->n_src > 0) {   // what it waits for stands elsewhere: x'
        print_expression(b, u->src[0], depth);
        builder_char(b, '\'');
        return;
    }
    if (u->op == OP_RANGE) {
        builder_printf(b, "r%lld", (long long)range_id(u));
    } else if (u->n_src == 0) {
        print_leaf(b, u);
    } else if (depth <= 0) {
        builder_cstring(b, "…");
    } else if (is_infix(u)) {
        builder_char(b, '(');
        print_expression(b, u->src[0], depth - 1);
        builder_printf(b, " %s ", op_info[u->op].pattern);
        print_expression(b, u->src[1], depth - 1);
        builder_char(b, ')');
    } else {
        builder_cstring(b, op_info[u->op].pattern);
        if (op_info[u->op].kind == KIND_CONVERT) {
            builder_char(b, '[');
            print_lower(b, dtype_info[u->dtype].name);
            builder_char(b, ']');
        }
        builder_char(b, '(');
        for (int i = 0; i < u->n_src; i++) {
            if (i) builder_cstring(b, ", ");
            print_expression(b, u->src[i], depth - 1);
        }
        builder_char(b, ')');
    }
}

const char *textform_expression(Arena *arena, const UOp *u, int max_depth) {
    TextBuilder b = builder(arena);
    print_expression(&b, u, max_depth);
    return builder_cstr(&b);
}

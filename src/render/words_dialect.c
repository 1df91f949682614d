// words_dialect: see words_dialect.h.
#include "render/words_dialect.h"

#include "ir/bounds.h"

// Ops that the prelude has as a function; vectors only, or elements too.
typedef struct Function { const char *text; bool has_elements; } Function;
static const Function functions[OP_COUNT] = {
    [OP_DOT4] = {"dot4($0, $1, $2)", true}, [OP_LOOKUP] = {"lookup($0, $1)", true}, [OP_WHERE] = {"choose($0, $1, $2)", false},
    [OP_MAX] = {"greater_of($0, $1)", false}, [OP_MIN] = {"smaller_of($0, $1)", false}, [OP_MULADD] = {"muladd($0, $1, $2)", false},
};
static const char *const wrapping[OP_COUNT] = {
    [OP_ADD] = "wrap_add<$type>($0, $1)", [OP_SUB] = "wrap_sub<$type>($0, $1)", [OP_MUL] = "wrap_mul<$type>($0, $1)",
    [OP_NEG] = "wrap_neg<$type>($0)",
};

static const char *type_name(DType dtype) {
    static const char *const types[DT_COUNT] = WORDS_TYPES;
    return types[dtype] ? types[dtype] : dtype_info[dtype].c_type;
}

static bool cast_op(TextBuilder *out, const UOp *u) {
    DType from = (DType)u->src[0]->dtype, to = (DType)u->dtype;
    if (u->lanes > 1) return false;
    if (from == DT_F16 && to == DT_F32) builder_cstring(out, "float_of_half($0)");
    else if (from == DT_F32 && to == DT_F16) builder_cstring(out, "half_of_float($0)");
    else if (dtype_is_float(from) && dtype_is_int(to) && to != DT_BOOL)
        builder_printf(out, "(conversion<%s, %s>::of($0))", type_name(to), type_name(from));
    else return false;
    return true;
}

bool words_op(TextBuilder *out, const UOp *u, const Target *target, UOp **operands) {
    (void)target, (void)operands;
    const Function *f = &functions[u->op];
    bool is_mask = u->dtype == DT_BOOL;   // chosen among and compared as bits
    if (f->text && (u->lanes > 1 || f->has_elements) && !(is_mask && u->lanes > 1)) {
        if (u->op == OP_MULADD && u->dtype != DT_F32) return false;
        builder_cstring(out, f->text);
        return true;
    }
    if (u->op == OP_CAST) return cast_op(out, u);
    if (wrapping[u->op] && u->lanes == 1 && dtype_is_int((DType)u->dtype) && !is_mask && !bounds_fit((UOp *)(uintptr_t)u)) {
        builder_cstring(out, template_filled(graph_arena(u->graph), wrapping[u->op], "type", type_name((DType)u->dtype)));
        return true;
    }
    return false;
}

// cuda_dialect: CUDA C++ for the run-time compiler, without a vendor's header. A group of threads runs a tile.
// In: a linear program for a target whose tiles are groups. Out (see cstyle.h): one kernel; vectors are the structs of
// cuda_prelude, which the compiler takes apart into registers.
// Invariant: conversions, rounding and wrapping are those of ir/eval; the host forbids contraction.
// Example: dot4 of 4 lanes → const vec<i32, 4> v9 = dot4(v6, v7, v8);
#include "ir/bounds.h"
#include "render/cuda_prelude.h"
#include "render/dialect.h"

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

static const char *type_of(DType dtype) {
    return cuda_dialect.types[dtype] ? cuda_dialect.types[dtype] : dtype_info[dtype].c_type;
}

static bool cast_op(TextBuilder *out, const UOp *u) {
    DType from = (DType)u->src[0]->dtype, to = (DType)u->dtype;
    if (u->lanes > 1) return false;
    if (from == DT_F16 && to == DT_F32) builder_cstring(out, "float_of_half($0)");
    else if (from == DT_F32 && to == DT_F16) builder_cstring(out, "half_of_float($0)");
    else if (dtype_is_float(from) && dtype_is_int(to) && to != DT_BOOL) builder_printf(out, "(conversion<%s, %s>::of($0))", type_of(to), type_of(from));
    else return false;
    return true;
}

static bool vector_op(TextBuilder *out, const UOp *u, const Target *target, UOp **operands) {
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
        builder_cstring(out, template_filled(graph_arena(u->graph), wrapping[u->op], "type", type_of((DType)u->dtype)));
        return true;
    }
    return false;
}

const Dialect cuda_dialect = {
    .name = "cuda",
    .prelude = cuda_prelude,
    .types = {[DT_F16] = "u16", [DT_BF16] = "u16"},
    .vector_type = "vec<$element, $lanes>",
    .param_head = ", u8 *__restrict__ p$slot",
    .param = "",
    .group_open = "extern \"C\" __global__ __launch_bounds__($threads) void $name(i32 tiles$params) {\n"
                  "    const i32 thread = (i32)threadIdx.x;\n",
    .group_tile_open = "    const i32 tile = (i32)blockIdx.x;\n    {\n",
    .tile_close = "    }\n",
    .kernel_close = "}\n",
    .barrier = "__syncthreads();\n",
    .thread_xor = "thread_xor<$distance, $width>(($type)$0)",
    .no_tile = "",
    .space = "",
    .load = "load<$type, $aligned>($at)",
    .load_lanes = "load<$type, $aligned>($at)",
    .store = "store<$aligned>($at, ($type)$0);\n",
    .store_lanes = "store<$aligned>($at, $0);\n",
    .literal_open = "make<$type>(",
    .literal_close = ")",
    .zero = "zeros<$type>()",
    .lane = "$0[$k]",
    .convert = "converted<$type>($0)",
    .same_bits = "bits<$type>($0)",
    .same_bits_vector = "bits<$type>($0)",
    .function = "$name$suffix",
    .int64 = "$0LL",
    .nan = "__int_as_float(0x7fffffff)",
    .infinity = "__int_as_float(0x7f800000)",
    .vector_op = vector_op,
};

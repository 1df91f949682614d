// opencl_dialect: OpenCL C 1.2. A work item runs a tile, or a group of them does; its vectors have 16 lanes at most.
// In: a linear program for a target without instructions of a vendor. Out (see cstyle.h): one __kernel function. A buffer
// comes as an object of the host's API and an offset in it, since parts of one object cannot be named otherwise.
// Invariant: conversions, rounding and wrapping are those of ir/eval, not those that the language leaves open: floats
// become integers by saturation, signed sums that may wrap are made unsigned, and nothing is contracted.
// Example: muladd of 4 lanes → const float4 v9 = fma(v6, v7, v8);
#include "ir/bounds.h"
#include "render/dialect.h"

static const char prelude[] =
    "#ifdef cl_khr_fp64\n"
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#endif\n"
    "#pragma OPENCL FP_CONTRACT OFF\n"
    // The host may promise how many work items there are in a group.
    "#ifdef GROUP_ITEMS\n"
    "#define GROUP __attribute__((reqd_work_group_size(GROUP_ITEMS, 1, 1)))\n"
    "#else\n"
    "#define GROUP\n"
    "#endif\n"
    "static long floor_div(long a, long b) { if (!b) return 0; long q = a / b; return q - (a % b && (a < 0) != (b < 0)); }\n"
    "static long floor_mod(long a, long b) { return b ? a - floor_div(a, b) * b : 0; }\n"
    // Halves are numbers in memory only.
    "static float float_of_half(ushort x) { return vload_half(0, (const half *)&x); }\n"
    "static ushort half_of_float(float x) { ushort h; vstore_half_rte(x, 0, (half *)&h); return h; }\n"
    "#define HALVES(n) \\\n"
    "    static float##n float##n##_of_half(ushort##n x) { return vload_half##n(0, (const half *)&x); } \\\n"
    "    static ushort##n half_of_float##n(float##n x) { ushort##n h; vstore_half##n##_rte(x, 0, (half *)&h); return h; }\n"
    "HALVES(2) HALVES(4) HALVES(8) HALVES(16)\n"
    // Sums of four neighbours. A product of two bytes fits a short.
    "static int add_fours1(int acc, short4 p) { return acc + p.s0 + p.s1 + p.s2 + p.s3; }\n"
    "#define ADD_FOURS(n, n2, n4) \\\n"
    "    static int##n add_fours##n(int##n acc, short##n4 p) { \\\n"
    "        int##n2 pairs = convert_int##n2(p.even) + convert_int##n2(p.odd); return acc + pairs.even + pairs.odd; }\n"
    "ADD_FOURS(2, 4, 8) ADD_FOURS(4, 8, 16)\n"
    // A float that items of all groups add to: as a word, which is exchanged where nobody was faster.
    "static void add_to(volatile __global uint *at, float x) {\n"
    "    uint seen, now = *at;\n"
    "    do { seen = now; now = atomic_cmpxchg(at, seen, as_uint(as_float(seen) + x)); } while (now != seen); }\n"
    // A group comes here with its part done: whether it is the last of `count`, behind whose parts it then may look.
    "static int is_last_tile(__global const uchar *at, int count, __local ulong *exchange) {\n"
    "    __local int *arrived = (__local int *)exchange;\n"
    "    volatile __global int *cell = (volatile __global int *)at;\n"
    "    mem_fence(CLK_GLOBAL_MEM_FENCE); barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
    "    if (get_local_id(0) == 0) { int n = atomic_inc(cell); if (n == count - 1) atomic_xchg(cell, 0); *arrived = n; }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
    "    int n = *arrived; barrier(CLK_LOCAL_MEM_FENCE); mem_fence(CLK_GLOBAL_MEM_FENCE);\n"
    "    return n == count - 1; }\n"
    // What another item of the group has, through local memory: all items come here together.
    "#define THREAD_XOR(type) \\\n"
    "    static type type##_xor(type x, int other, __local ulong *exchange) { \\\n"
    "        __local type *at = (__local type *)exchange; \\\n"
    "        barrier(CLK_LOCAL_MEM_FENCE); at[get_local_id(0)] = x; barrier(CLK_LOCAL_MEM_FENCE); \\\n"
    "        return at[get_local_id(0) ^ other]; }\n"
    "THREAD_XOR(char) THREAD_XOR(uchar) THREAD_XOR(short) THREAD_XOR(ushort) THREAD_XOR(int) THREAD_XOR(uint) THREAD_XOR(long)\n"
    "THREAD_XOR(ulong) THREAD_XOR(float)\n"
    "#ifdef cl_khr_fp64\n"
    "THREAD_XOR(double)\n"
    "#endif\n";

static const char *lanes_text(const UOp *u, int lanes) {
    return lanes == 1 ? "" : arena_printf(graph_arena(u->graph), "%d", lanes);
}

// Signed numbers that leave their type have no meaning in C; nor have products of two ushort, which C makes int first.
static bool wrapping_op(TextBuilder *out, UOp *u) {
    static const char *const forms[OP_COUNT] = {[OP_ADD] = "$0 + $1", [OP_SUB] = "$0 - $1", [OP_MUL] = "$0 * $1", [OP_NEG] = "-$0"};
    bool is_lanes = u->lanes > 1;
    if (!(dtype_info[u->dtype].type_class == CLASS_INT || (u->dtype == DT_U16 && !is_lanes)) || bounds_fit(u)) return false;
    Arena *arena = graph_arena(u->graph);
    const char *type = arena_printf(arena, "%s%s", opencl_dialect.types[u->dtype], lanes_text(u, u->lanes));
    const char *wide = dtype_bytes(u->dtype) < 8 ? "(uint)" : "(ulong)", *as = is_lanes ? arena_printf(arena, "as_u%s", type) : wide;
    const char *operand[2] = {arena_printf(arena, "%s($0)", as), arena_printf(arena, "%s($1)", as)};
    builder_printf(out, is_lanes ? "as_%s(%s)" : "(%s)(%s)", type, template_filled(arena, forms[u->op], "0", operand[0], "1", operand[1]));
    return true;
}

static bool cast_op(TextBuilder *out, const UOp *u) {
    DType from = (DType)u->src[0]->dtype, to = (DType)u->dtype;
    const char *lanes = lanes_text(u, u->lanes);
    if (from == DT_F16 && to == DT_F32) builder_printf(out, "float%s_of_half($0)", lanes);
    else if (from == DT_F32 && to == DT_F16) builder_printf(out, "half_of_float%s($0)", lanes);
    else if (dtype_is_float(from) && dtype_is_int(to)) builder_printf(out, "convert_%s%s_sat($0)", opencl_dialect.types[to], lanes);
    else return false;
    return true;
}

static bool dot_op(TextBuilder *out, const UOp *u) {
    if (u->lanes > 4) return false;
    builder_printf(out, "add_fours%d($0, convert_short%d($1) * convert_short%d($2))", u->lanes, 4 * u->lanes, 4 * u->lanes);
    return true;
}

// Functions that the language has on vectors too.
static const char *const functions[OP_COUNT] = {
    [OP_SQRT] = "sqrt($0)", [OP_EXP] = "exp($0)", [OP_LOG] = "log($0)", [OP_SIN] = "sin($0)", [OP_COS] = "cos($0)",
    [OP_FLOOR] = "floor($0)", [OP_ROUND] = "rint($0)", [OP_MULADD] = "fma($0, $1, $2)",
};

static bool vector_op(TextBuilder *out, const UOp *u, const Target *target, UOp **operands) {
    (void)target;
    if (functions[u->op]) {
        builder_cstring(out, functions[u->op]);
        return true;
    }
    switch (u->op) {
    case OP_CAST: return cast_op(out, u);
    case OP_DOT4: return dot_op(out, u);
    case OP_LOOKUP: builder_cstring(out, u->lanes == 1 ? "shuffle($0, (uchar2)($1)).s0" : "shuffle($0, $1)"); return true;
    case OP_ADD: case OP_SUB: case OP_MUL: case OP_NEG: {
        UOp *same = uop_new(u->graph, (Op)u->op, (DType)u->dtype, u->lanes, operands, u->n_src, NULL, 0);
        return wrapping_op(out, same);
    }
    default: return false;
    }
}

const Dialect opencl_dialect = {
    .name = "opencl",
    .suffix = ".cl",
    .prelude = prelude,
    .types = {[DT_BOOL] = "uchar", [DT_I8] = "char", [DT_U8] = "uchar", [DT_I16] = "short", [DT_U16] = "ushort", [DT_I32] = "int",
              [DT_U32] = "uint", [DT_I64] = "long", [DT_U64] = "ulong", [DT_F16] = "ushort", [DT_BF16] = "ushort",
              [DT_F32] = "float", [DT_F64] = "double"},
    .vector_type = "$element$lanes",
    .kernel_open = "__kernel GROUP void $name($paramsconst int end) {\n",
    .param_head = "__global uchar *restrict b$slot, const ulong o$slot, ",
    .param = "    __global uchar *const p$slot = b$slot + o$slot;\n",
    .tile_open = "    const int tile = (int)get_global_id(0);\n    if (tile < end) {\n",
    .tile_close = "    }\n",
    .group_open = "__kernel __attribute__((reqd_work_group_size($threads, 1, 1))) void $name($paramsconst int end) {\n"
                  "    __local ulong exchange[$threads];\n    const int item = (int)get_local_id(0);\n",
    .group_tile_open = "    const int tile = (int)get_group_id(0);\n    {\n",
    .last_tile = "if (!is_last_tile($at, $count, exchange)) return;\n",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n",
    .thread_xor = "$type_xor($0, $distance, exchange)",
    .no_tile = "",
    .kernel_close = "}\n",
    .atomic_add = "add_to((volatile __global uint *)$at, $0);\n",
    .space = "__global ",
    .array_space = "",
    .local_space = "__local ",
    .local_array = "    __local $element $name[$count] __attribute__((aligned(16)));\n",
    .load = "*(const $space$type *)$at",
    .load_lanes = "vload$lanes(0, (const $space$element *)$at)",
    .store = "*($space$type *)$at = $0;\n",
    .store_lanes = "vstore$lanes($0, 0, ($space$element *)$at);\n",
    .load_units = "as_$type(vload$count(0, (const $space$unit *)$at))",
    .store_units = "vstore$count(as_$row($0), 0, ($space$unit *)$at);\n",
    .literal_open = "(($type)(",
    .literal_close = "))",
    .zero = "($type)(0)",
    .lane = "$0.s$digit",
    .convert = "convert_$type($0)",
    .same_bits = "as_$type($0)",
    .same_bits_vector = "as_$type($0)",
    .function = "$name",
    .int64 = "$0L",
    .nan = "NAN",
    .infinity = "INFINITY",
    .vector_op = vector_op,
};

// eval: the meaning of the elementwise ops, made from the rows of ops.def, and constant folding.
// In: an op, the type of its sources, numbers. Out: a number, or false where the row says NONE.
// Invariant: each row becomes three loops (signed and narrow integers, u64, floats); nothing else knows an op.
// Example: eval_op(OP_IDIV, DT_I32, {-7, 2}) is -4.
#include "ir/eval.h"

#include <math.h>

#include "ir/eval_ops.h"

// ---- what the rows call
// Unsigned arithmetic wraps by definition; the result is wrapped to its own type afterwards.
#define wrap_add(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define wrap_sub(a, b) ((int64_t)((uint64_t)(a) - (uint64_t)(b)))
#define wrap_mul(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

static int64_t floor_mod_signed(int64_t a, int64_t b) {
    if (b == 0 || b == -1)             // INT64_MIN % -1 traps in C
        return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t floor_div_signed(int64_t a, int64_t b) {
    if (b == 0)
        return 0;
    if (b == -1)
        return wrap_sub(0, a);
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t shift_right_signed(int64_t a, int64_t b) {
    if (b < 0 || b > 63)
        return a < 0 ? -1 : 0;
    return a >> b;
}

static uint64_t floor_div_unsigned(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static uint64_t floor_mod_unsigned(uint64_t a, uint64_t b) { return b ? a % b : 0; }
static uint64_t shift_right_unsigned(uint64_t a, uint64_t b) { return b > 63 ? 0 : a >> b; }

#define floor_div(a, b) _Generic((a), uint64_t: floor_div_unsigned, default: floor_div_signed)((a), (b))
#define floor_mod(a, b) _Generic((a), uint64_t: floor_mod_unsigned, default: floor_mod_signed)((a), (b))
#define shift_right(a, b) _Generic((a), uint64_t: shift_right_unsigned, default: shift_right_signed)((a), (b))
// A negative amount is a huge unsigned one.
#define shift_left(a, b) ((uint64_t)(b) > 63 ? INT64_C(0) : (int64_t)((uint64_t)(a) << ((uint64_t)(b) & 63)))

// fmax and fmin leave the sign of max(+0, -0) open; here +0 is the larger, so that the op commutes.
static double float_max(double a, double b) {
    if (a == b)
        return signbit(a) ? b : a;
    return fmax(a, b);
}

static double float_min(double a, double b) {
    if (a == b)
        return signbit(a) ? a : b;
    return fmin(a, b);
}

// ---- rows to loops
// A row that says NONE clears the flag instead of giving a value.
#define NONE (has_meaning = false, 0)
#define OPERAND(k) operands->at[k][i * operands->step[k]]
#define UNUSED_OPERANDS (void)a, (void)b, (void)c

#define OP(name, arity, kind, traits, pattern, text, on_integers, on_floats, cost) \
    static bool name##_on_int(const OpOperands *operands, Number *out) { \
        bool has_meaning = true; \
        for (size_t i = 0; i < operands->n; i++) { \
            int64_t a = OPERAND(0).i, b = OPERAND(1).i, c = OPERAND(2).i; \
            UNUSED_OPERANDS; \
            out[i].i = (int64_t)(on_integers); \
        } \
        return has_meaning; \
    } \
    static bool name##_on_u64(const OpOperands *operands, Number *out) { \
        bool has_meaning = true; \
        for (size_t i = 0; i < operands->n; i++) { \
            uint64_t a = (uint64_t)OPERAND(0).i, b = (uint64_t)OPERAND(1).i, c = (uint64_t)OPERAND(2).i; \
            UNUSED_OPERANDS; \
            out[i].i = (int64_t)(on_integers); \
        } \
        return has_meaning; \
    } \
    static bool name##_on_float(const OpOperands *operands, Number *out) { \
        bool has_meaning = true; \
        for (size_t i = 0; i < operands->n; i++) { \
            double a = OP_##name == OP_WHERE ? (double)OPERAND(0).i : OPERAND(0).f; \
            double b = OPERAND(1).f, c = OPERAND(2).f; \
            UNUSED_OPERANDS; \
            if ((traits) & TRAIT_COMPARE) \
                out[i].i = (int64_t)(on_floats); \
            else \
                out[i].f = (double)(on_floats); \
        } \
        return has_meaning; \
    }
// The names that the rows use for traits.
enum { COMM = TRAIT_COMM, ASSOC = TRAIT_ASSOC, IDEMPOTENT = TRAIT_IDEMPOTENT, INT_ONLY = TRAIT_INT_ONLY,
       FLOAT_ONLY = TRAIT_FLOAT_ONLY, COMPARE = TRAIT_COMPARE };
#include "ir/ops.def"
#undef OP

typedef struct OpLoops { OpLoop on_int, on_u64, on_float; } OpLoops;
static const OpLoops op_loops[OP_COUNT] = {
#define OP(name, ...) [OP_##name] = {name##_on_int, name##_on_u64, name##_on_float},
#include "ir/ops.def"
#undef OP
};

OpLoop op_loop(Op op, DType operand_dtype) {
    OpKind kind = op_info[op].kind;
    if ((kind != KIND_UNARY && kind != KIND_BINARY && kind != KIND_TERNARY) || op == OP_DOT4)
        return NULL;
    const OpLoops *loops = &op_loops[op];
    if (dtype_info[operand_dtype].type_class == CLASS_FLOAT)
        return loops->on_float;
    return operand_dtype == DT_U64 ? loops->on_u64 : loops->on_int;
}

DType op_operand_dtype(const UOp *u) {
    return (DType)u->src[u->op == OP_WHERE ? 1 : 0]->dtype;
}

bool eval_op(Op op, DType operand_dtype, const Number *args, Number *out) {
    OpLoop loop = op_loop(op, operand_dtype);
    if (!loop || dtype_info[operand_dtype].type_class == CLASS_VOID)
        return false;
    OpOperands operands = {.n = 1};
    for (int k = 0; k < 3; k++)
        operands.at[k] = &args[k < op_info[op].arity ? k : 0];
    Number result;
    if (!loop(&operands, &result))
        return false;
    bool compares = (op_info[op].traits & TRAIT_COMPARE) != 0;
    bool is_float = dtype_info[operand_dtype].type_class == CLASS_FLOAT;
    *out = compares || is_float ? result : number_wrap(operand_dtype, result);
    return true;
}

UOp *eval_fold_constants(UOp *u) {
    if (u->n_src == 0 || u->n_src > 3 || u->lanes != 1)
        return NULL;
    Number args[3], result;
    for (int k = 0; k < u->n_src; k++) {
        if (u->src[k]->op != OP_CONST || u->src[k]->lanes != 1)
            return NULL;
        args[k] = number_from_const(u->src[k]);
    }
    DType from = (DType)u->src[0]->dtype, to = (DType)u->dtype;
    if (u->op == OP_CAST)
        return number_to_const(u->graph, to, number_cast(from, to, args[0]));
    if (u->op == OP_BITCAST) {
        if (dtype_bytes(from) != dtype_bytes(to))
            return NULL;
        uint64_t bytes = 0;
        number_store(from, &bytes, args[0]);
        return number_to_const(u->graph, to, number_load(to, &bytes));
    }
    if (!eval_op((Op)u->op, op_operand_dtype(u), args, &result))
        return NULL;
    return number_to_const(u->graph, to, result);
}

// ---- arrays of numbers
void numbers_wrap(DType dtype, Number *at, size_t n) {
    if (dtype_bytes(dtype) == 8 || dtype_info[dtype].type_class == CLASS_FLOAT)
        return;
    for (size_t i = 0; i < n; i++)
        at[i] = number_wrap(dtype, at[i]);
}

void numbers_round(DType dtype, Number *at, size_t n) {
    if (dtype == DT_F32)
        for (size_t i = 0; i < n; i++)
            at[i].f = (double)(float)at[i].f;
    else if (dtype == DT_F16 || dtype == DT_BF16)
        numbers_cast(DT_F64, dtype, at, at, n);
}

void numbers_cast(DType from, DType to, const Number *at, Number *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = number_cast(from, to, at[i]);
}

void numbers_load(DType dtype, const void *bytes, Number *out, size_t n) {
    size_t width = (size_t)dtype_bytes(dtype);
    for (size_t i = 0; i < n; i++)
        out[i] = number_load(dtype, (const uint8_t *)bytes + i * width);
}

void numbers_store(DType dtype, void *bytes, const Number *at, size_t n) {
    size_t width = (size_t)dtype_bytes(dtype);
    for (size_t i = 0; i < n; i++)
        number_store(dtype, (uint8_t *)bytes + i * width, at[i]);
}

Number monoid_combine(Monoid monoid, DType dtype, Number x, Number y) {
    Number args[2] = {x, y}, out = {0};
    bool known = eval_op(monoid_info[monoid].combine, dtype, args, &out);
    CHECK(known);
    return out;
}

Number monoid_identity(Monoid monoid, DType dtype) {
    const MonoidInfo *row = &monoid_info[monoid];
    if (dtype_info[dtype].type_class == CLASS_FLOAT)
        return (Number){.f = row->float_identity};
    int64_t lo = dtype_info[dtype].lo, hi = dtype_info[dtype].hi, identity = row->int_identity;
    return (Number){.i = identity < lo ? lo : identity > hi ? hi : identity};
}

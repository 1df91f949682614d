// eval_numbers: one number of each element type: wrapping, casting, and its bytes in memory.
// In: a Number (int64_t for bool and integers, double for floats) and a DType. Out: a Number or bytes.
// Invariant: an integer Number always lies in its type's range (u64: as the int64_t of the same bits);
// a float Number that came from memory, a CAST or a CONST is exact in its type.
// Example: number_cast(DT_F32, DT_I8, (Number){.f = 300.7}) is 127; number_wrap(DT_I8, (Number){.i = 300}) is 44.
#include <math.h>
#include <string.h>

#include "ir/eval.h"

// The two 16-bit formats differ in these two facts only.
typedef struct SmallFloat { int mantissa_bits, min_exponent; } SmallFloat;
static const SmallFloat half_format = {10, -14}, bfloat_format = {7, -126};

// Largest exponent of a finite number: formats are symmetric, 1 - min.
static uint16_t small_float_encode(SmallFloat format, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 63 << 15);
    int m = format.mantissa_bits;
    uint16_t infinity = (uint16_t)(((1u << (15 - m)) - 1) << m);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    if (isnan(x))
        return (uint16_t)(sign | infinity | 1u << (m - 1));
    if (exponent > 1 - format.min_exponent)
        return (uint16_t)(sign | infinity);
    int below = exponent < format.min_exponent ? format.min_exponent - exponent : 0;
    int shift = 52 - m + below;
    if (shift > 54)
        return sign;
    uint64_t kept = mantissa >> shift, rest = mantissa & ((UINT64_C(1) << shift) - 1);
    uint64_t half = UINT64_C(1) << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    // The implicit bit, and a carry out of the mantissa, add themselves to the exponent field.
    uint64_t field = below ? 0 : (uint64_t)(exponent - format.min_exponent) << m;
    return (uint16_t)(sign | (field + kept));
}

static double small_float_decode(SmallFloat format, uint16_t h) {
    int m = format.mantissa_bits;
    int field = (h & 0x7fff) >> m, top = (1 << (15 - m)) - 1;
    uint64_t mantissa = h & ((1u << m) - 1);
    double magnitude;
    if (field == 0) {
        magnitude = ldexp((double)mantissa, format.min_exponent - m);
    } else {
        uint64_t exponent = field == top ? 0x7ff : (uint64_t)(field - 1 + format.min_exponent + 1023);
        uint64_t bits = exponent << 52 | mantissa << (52 - m);
        memcpy(&magnitude, &bits, sizeof bits);
    }
    return h & 0x8000 ? -magnitude : magnitude;
}

uint16_t f16_from_f64(double x) { return small_float_encode(half_format, x); }
double f64_from_f16(uint16_t h) { return small_float_decode(half_format, h); }

// x as the nearest value of a float type, ties to even.
static double float_round(DType dtype, double x) {
    switch (dtype) {
    case DT_F16: return f64_from_f16(f16_from_f64(x));
    case DT_BF16: return small_float_decode(bfloat_format, small_float_encode(bfloat_format, x));
    case DT_F32: return (double)(float)x;
    default: return x;
    }
}

Number number_wrap(DType dtype, Number n) {
    switch (dtype) {
    case DT_BOOL: n.i = n.i != 0; break;
    case DT_I8: n.i = (int8_t)(uint8_t)n.i; break;
    case DT_U8: n.i = (uint8_t)n.i; break;
    case DT_I16: n.i = (int16_t)(uint16_t)n.i; break;
    case DT_U16: n.i = (uint16_t)n.i; break;
    case DT_I32: n.i = (int32_t)(uint32_t)n.i; break;
    case DT_U32: n.i = (uint32_t)n.i; break;
    default: break;
    }
    return n;
}

// Truncates toward zero, saturates at the type's limits; NaN is 0.
static int64_t int_from_float(DType to, double x) {
    int64_t lo = dtype_info[to].lo, hi = dtype_info[to].hi;
    if (isnan(x))
        return 0;
    if (to == DT_U64) {
        // Its table limits stop at INT64_MAX: the bits above are those of a negative int64_t.
        if (x >= 0x1p64)
            return -1;
        return x <= 0.0 ? 0 : (int64_t)(uint64_t)x;
    }
    if (x <= (double)lo)
        return lo;
    // (double)INT64_MAX rounds up to 2^63, so that everything below it converts.
    return x >= (double)hi ? hi : (int64_t)x;
}

static double float_from_int(DType from, DType to, int64_t i) {
    // Straight to f32: going through double would round twice.
    if (to == DT_F32)
        return from == DT_U64 ? (double)(float)(uint64_t)i : (double)(float)i;
    return float_round(to, from == DT_U64 ? (double)(uint64_t)i : (double)i);
}

Number number_cast(DType from, DType to, Number n) {
    bool from_float = dtype_info[from].type_class == CLASS_FLOAT;
    if (dtype_info[to].type_class == CLASS_FLOAT)
        n.f = from_float ? float_round(to, n.f) : float_from_int(from, to, n.i);
    else if (to == DT_BOOL)
        n.i = from_float ? n.f != 0.0 : n.i != 0;
    else if (from_float)
        n.i = int_from_float(to, n.f);
    else
        n = number_wrap(to, n);
    return n;
}

#define LOAD_AS(type, member) { type v; memcpy(&v, at, sizeof v); n.member = v; break; }
#define LOAD_SMALL(format) { uint16_t v; memcpy(&v, at, sizeof v); n.f = small_float_decode(format, v); break; }
Number number_load(DType dtype, const void *at) {
    Number n = {0};
    switch (dtype) {
    case DT_BOOL: n.i = *(const uint8_t *)at != 0; break;
    case DT_I8: n.i = *(const int8_t *)at; break;
    case DT_U8: n.i = *(const uint8_t *)at; break;
    case DT_I16: LOAD_AS(int16_t, i)
    case DT_U16: LOAD_AS(uint16_t, i)
    case DT_I32: LOAD_AS(int32_t, i)
    case DT_U32: LOAD_AS(uint32_t, i)
    case DT_I64: case DT_U64: LOAD_AS(int64_t, i)
    case DT_F16: LOAD_SMALL(half_format)
    case DT_BF16: LOAD_SMALL(bfloat_format)
    case DT_F32: LOAD_AS(float, f)
    case DT_F64: LOAD_AS(double, f)
    default: BUG("no element type %d", (int)dtype);
    }
    return n;
}

#define STORE_AS(type, value) { type v = (type)(value); memcpy(at, &v, sizeof v); break; }
void number_store(DType dtype, void *at, Number n) {
    switch (dtype) {
    case DT_BOOL: *(uint8_t *)at = n.i != 0; break;
    case DT_I8: case DT_U8: *(uint8_t *)at = (uint8_t)n.i; break;
    case DT_I16: case DT_U16: STORE_AS(uint16_t, n.i)
    case DT_I32: case DT_U32: STORE_AS(uint32_t, n.i)
    case DT_I64: case DT_U64: STORE_AS(int64_t, n.i)
    case DT_F16: STORE_AS(uint16_t, small_float_encode(half_format, n.f))
    case DT_BF16: STORE_AS(uint16_t, small_float_encode(bfloat_format, n.f))
    case DT_F32: STORE_AS(float, n.f)
    case DT_F64: STORE_AS(double, n.f)
    default: BUG("no element type %d", (int)dtype);
    }
}

Number number_from_const(const UOp *u) {
    Number n = {.i = u->arg[0]};       // floats: the same bits, read through the other member
    return n;
}

UOp *number_to_const(Graph *g, DType dtype, Number n) {
    if (dtype_info[dtype].type_class != CLASS_FLOAT) {
        n = number_wrap(dtype, n);
    } else {
        n.f = float_round(dtype, n.f);
        if (isnan(n.f))
            n.f = NAN;                 // one NaN, so that equal constants are one node
    }
    int64_t bits;
    memcpy(&bits, &n, sizeof bits);
    return uop_new(g, OP_CONST, dtype, 1, NULL, 0, &bits, 1);
}

// c_dialect: C with vector extensions and builtins of gcc and clang, no vendor headers (including one costs more than
// compiling a kernel). Rows say which builtin does an op on a vector of which type; everything else is plain C.
#include <string.h>

#include "ir/bounds.h"
#include "render/dialect.h"

static const char prelude[] =
    // Loops that add to arrays have registers for one order only.
    "#if defined ORDER_BEFORE_REGISTERS && !defined ADDS_TO_ARRAYS && !defined __clang__\n"
    "#pragma GCC optimize(\"schedule-insns\", \"sched-pressure\")\n"
    "#endif\n"
    "typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;\n"
    "typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64;\n"
    "typedef u16 f16; typedef u16 bf16; typedef float f32; typedef double f64;\n"
    "typedef struct span { const char *at, *end; } span;\n"
    "typedef u16 u16_u __attribute__((aligned(1), may_alias)); typedef i16 i16_u __attribute__((aligned(1), may_alias));\n"
    "typedef u32 u32_u __attribute__((aligned(1), may_alias)); typedef i32 i32_u __attribute__((aligned(1), may_alias));\n"
    "typedef u64 u64_u __attribute__((aligned(1), may_alias)); typedef i64 i64_u __attribute__((aligned(1), may_alias));\n"
    "typedef f32 f32_u __attribute__((aligned(1), may_alias)); typedef f64 f64_u __attribute__((aligned(1), may_alias));\n"
    "typedef u8 u8_u __attribute__((may_alias)); typedef i8 i8_u __attribute__((may_alias));\n"
    "typedef u16_u f16_u; typedef u16_u bf16_u;\n"
    "typedef char c8x16 __attribute__((vector_size(16))); typedef char c8x32 __attribute__((vector_size(32)));\n"
    "typedef char c8x64 __attribute__((vector_size(64)));\n"
    // Builtins of 512 bits that gcc has with masks only, and clang without only.
    "#ifdef __clang__\n"
    "#define MADD512(a, b) __builtin_ia32_pmaddwd512(a, b)\n"
    "#define MADDUBS512(a, b) __builtin_ia32_pmaddubsw512(a, b)\n"
    "#define PACKS512(a, b) __builtin_ia32_packssdw512(a, b)\n"
    "#define PERMB512(a, b) __builtin_ia32_permvarqi512((c8x64)(a), (c8x64)(b))\n"
    "#define PSHUFB512(a, b) __builtin_ia32_pshufb512(a, b)\n"
    "#define FOURFOLD512(a) __builtin_shufflevector((i64x2)(a), (i64x2)(a), 0, 1, 0, 1, 0, 1, 0, 1)\n"
    "#define SPREAD512(a, ...) __builtin_shufflevector(a, a, __VA_ARGS__)\n"
    "#define SPREAD512_8(a, ...) SPREAD512(a, __VA_ARGS__)\n"
    "#define TWOFOLD512(a) __builtin_shufflevector((i64x4)(a), (i64x4)(a), 0, 1, 2, 3, 0, 1, 2, 3)\n"
    "#else\n"
    "#define MADD512(a, b) __builtin_ia32_pmaddwd512_mask(a, b, (i32x16){0}, -1)\n"
    "#define MADDUBS512(a, b) __builtin_ia32_pmaddubsw512_mask(a, b, (i16x32){0}, -1)\n"
    "#define PACKS512(a, b) __builtin_ia32_packssdw512_mask(a, b, (i16x32){0}, -1)\n"
    "#define PERMB512(a, b) __builtin_ia32_permvarqi512_mask((c8x64)(a), (c8x64)(b), (c8x64){0}, -1)\n"
    "#define PSHUFB512(a, b) __builtin_ia32_pshufb512_mask(a, b, (c8x64){0}, -1)\n"
    "#define FOURFOLD512(a) __builtin_ia32_broadcasti32x4_512((i32x4)(a), (i32x16){0}, -1)\n"
    "#define SPREAD512(a, ...) __builtin_ia32_permvarsf512_mask(__builtin_ia32_ps512_ps(a), (i32x16){__VA_ARGS__}, (f32x16){0}, -1)\n"
    "#define SPREAD512_8(a, ...) __builtin_ia32_permvarsf512_mask(__builtin_ia32_ps512_256ps(a), (i32x16){__VA_ARGS__}, (f32x16){0}, -1)\n"
    "#define TWOFOLD512(a) __builtin_ia32_broadcasti64x4_512((i64x4)(a), (i64x8){0}, -1)\n"
    "#endif\n"
    // Words from places apart, each put straight from memory beside those before it: gcc takes every second one through a general
    // register. Where that pays is the target's to say.
    "#if defined WORDS_ONE_BY_ONE && !defined __clang__\n"
    "#define WORD1(v, a, k) __builtin_ia32_vec_set_v8hi(v, (i16)(a), k)\n"
    "#define WORDS4(a, b, c, d) WORD1(WORD1(WORD1(((i16x8)(i32x4){(a), 0, 0, 0}), b, 1), c, 2), d, 3)\n"
    "#define WORDS8(a, b, c, d, e, f, g, h) WORD1(WORD1(WORD1(WORD1(WORDS4(a, b, c, d), e, 4), f, 5), g, 6), h, 7)\n"
    "#define FIRST4(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)\n"
    "#else\n"
    "#define WORDS4(a, b, c, d) ((u16x4){(a), (b), (c), (d)})\n"
    "#define WORDS8(a, b, c, d, e, f, g, h) ((u16x8){(a), (b), (c), (d), (e), (f), (g), (h)})\n"
    "#define FIRST4(v) v\n"
    "#endif\n"
    "static inline i64 floor_div(i64 a, i64 b) { if (!b) return 0; i64 q = a / b; return q - (a % b && (a < 0) != (b < 0)); }\n"
    "static inline i64 floor_mod(i64 a, i64 b) { return b ? a - floor_div(a, b) * b : 0; }\n";

// What a target must have for a row to hold.
typedef enum Need { NEED_NONE, NEED_FMA, NEED_F16, NEED_256, NEED_512, NEED_BITS } Need;

// A builtin for op with result type `dtype` × lanes from operands of `from`. clang: its text where gcc's builtin is
// unknown there; NULL: the same.
typedef struct Builtin { Op op; DType dtype; int lanes; DType from; Need need; const char *text, *clang; } Builtin;

static const Builtin builtins[] = {
    {OP_MULADD, DT_F32, 4, DT_F32, NEED_FMA, "__builtin_ia32_vfmaddps($0, $1, $2)", NULL},
    {OP_MULADD, DT_F32, 8, DT_F32, NEED_FMA, "__builtin_ia32_vfmaddps256($0, $1, $2)", NULL},
    {OP_MULADD, DT_F32, 16, DT_F32, NEED_FMA, "__builtin_ia32_vfmaddps512_mask($0, $1, $2, -1, 4)", NULL},
    {OP_MAX, DT_F32, 4, DT_F32, NEED_NONE, "__builtin_ia32_maxps($0, $1)", NULL},
    {OP_MIN, DT_F32, 4, DT_F32, NEED_NONE, "__builtin_ia32_minps($0, $1)", NULL},
    {OP_MAX, DT_F32, 8, DT_F32, NEED_256, "__builtin_ia32_maxps256($0, $1)", NULL},
    {OP_MIN, DT_F32, 8, DT_F32, NEED_256, "__builtin_ia32_minps256($0, $1)", NULL},
    {OP_SQRT, DT_F32, 4, DT_F32, NEED_NONE, "__builtin_ia32_sqrtps($0)", NULL},
    {OP_SQRT, DT_F32, 8, DT_F32, NEED_256, "__builtin_ia32_sqrtps256($0)", NULL},
    {OP_CAST, DT_F32, 4, DT_F16, NEED_F16, "__builtin_ia32_vcvtph2ps(__builtin_shufflevector((i16x4)$0, (i16x4)$0, 0, 1, 2, 3, 0, 1, 2, 3))", NULL},
    {OP_CAST, DT_F32, 8, DT_F16, NEED_F16, "__builtin_ia32_vcvtph2ps256((i16x8)$0)", NULL},
    {OP_CAST, DT_F32, 16, DT_F16, NEED_512, "__builtin_ia32_vcvtph2ps512_mask((i16x16)$0, (f32x16){0}, -1, 4)", NULL},
    {OP_CAST, DT_F16, 4, DT_F32, NEED_F16, "(f16x4)__builtin_shufflevector(__builtin_ia32_vcvtps2ph($0, 0), __builtin_ia32_vcvtps2ph($0, 0), 0, 1, 2, 3)", NULL},
    {OP_CAST, DT_F16, 8, DT_F32, NEED_F16, "(f16x8)__builtin_ia32_vcvtps2ph256($0, 0)", NULL},
    {OP_CAST, DT_F16, 16, DT_F32, NEED_512, "(f16x16)__builtin_ia32_vcvtps2ph512_mask($0, 0, (i16x16){0}, -1)", NULL},
    // Short vectors of small integers: gcc would convert them lane by lane, clang has no such builtins and needs none.
    {OP_CAST, DT_I16, 8, DT_U8, NEED_256, "(i16x8)__builtin_ia32_pmovzxbw128((c8x16)(i64x2){(i64)$0, 0})", "__builtin_convertvector($0, i16x8)"},
    {OP_CAST, DT_I16, 8, DT_I8, NEED_256, "(i16x8)__builtin_ia32_pmovsxbw128((c8x16)(i64x2){(i64)$0, 0})", "__builtin_convertvector($0, i16x8)"},
    {OP_CAST, DT_I32, 4, DT_U8, NEED_256, "__builtin_ia32_pmovzxbd128((c8x16)(i32x4){(i32)$0, 0, 0, 0})", "__builtin_convertvector($0, i32x4)"},
    {OP_CAST, DT_U32, 4, DT_U8, NEED_256, "(u32x4)__builtin_ia32_pmovzxbd128((c8x16)(i32x4){(i32)$0, 0, 0, 0})", "__builtin_convertvector($0, u32x4)"},
    {OP_CAST, DT_I32, 4, DT_I8, NEED_256, "__builtin_ia32_pmovsxbd128((c8x16)(i32x4){(i32)$0, 0, 0, 0})", "__builtin_convertvector($0, i32x4)"},
    {OP_CAST, DT_I32, 8, DT_U8, NEED_256, "__builtin_ia32_pmovzxbd256((c8x16)(i64x2){(i64)$0, 0})", "__builtin_convertvector($0, i32x8)"},
    {OP_CAST, DT_U32, 8, DT_U8, NEED_256, "(u32x8)__builtin_ia32_pmovzxbd256((c8x16)(i64x2){(i64)$0, 0})", "__builtin_convertvector($0, u32x8)"},
    {OP_CAST, DT_I32, 8, DT_I8, NEED_256, "__builtin_ia32_pmovsxbd256((c8x16)(i64x2){(i64)$0, 0})", "__builtin_convertvector($0, i32x8)"},
    {OP_CAST, DT_I32, 16, DT_U8, NEED_512, "__builtin_ia32_pmovzxbd512_mask((c8x16)$0, (i32x16){0}, -1)", "__builtin_convertvector($0, i32x16)"},
    {OP_CAST, DT_U32, 16, DT_U8, NEED_512, "(u32x16)__builtin_ia32_pmovzxbd512_mask((c8x16)$0, (i32x16){0}, -1)", "__builtin_convertvector($0, u32x16)"},
    {OP_CAST, DT_I32, 16, DT_I8, NEED_512, "__builtin_ia32_pmovsxbd512_mask((c8x16)$0, (i32x16){0}, -1)", "__builtin_convertvector($0, i32x16)"},
    {OP_BITS, DT_U8, 16, DT_U8, NEED_BITS, "(u8x16)__builtin_ia32_vpmultishiftqb128_mask((c8x16)$1, (c8x16)$0, (c8x16){0}, -1)", "(u8x16)__builtin_ia32_vpmultishiftqb128((c8x16)$1, (c8x16)$0)"},
    {OP_BITS, DT_U8, 32, DT_U8, NEED_BITS, "(u8x32)__builtin_ia32_vpmultishiftqb256_mask((c8x32)$1, (c8x32)$0, (c8x32){0}, -1)", "(u8x32)__builtin_ia32_vpmultishiftqb256((c8x32)$1, (c8x32)$0)"},
    {OP_BITS, DT_U8, 64, DT_U8, NEED_BITS, "(u8x64)__builtin_ia32_vpmultishiftqb512_mask((c8x64)$1, (c8x64)$0, (c8x64){0}, -1)", "(u8x64)__builtin_ia32_vpmultishiftqb512((c8x64)$1, (c8x64)$0)"},
    // One lane, through the vector unit.
    {OP_CAST, DT_F32, 1, DT_F16, NEED_F16, "__builtin_ia32_vcvtph2ps((i16x8){(i16)$0})[0]", NULL},
    {OP_CAST, DT_F16, 1, DT_F32, NEED_F16, "(u16)__builtin_ia32_vcvtps2ph((f32x4){$0}, 0)[0]", NULL},
};

static bool target_has(const Target *t, Need need) {
    switch (need) {
    case NEED_NONE: return t->vector_bytes >= 16 && !strstr(t->name, "neon");
    case NEED_FMA: return t->has_fma;
    case NEED_F16: return t->has_f16_convert;
    case NEED_256: return t->vector_bytes >= 32;
    case NEED_BITS: return t->has_bit_shuffle;
    case NEED_512: return target_widest(t) >= 64 && t->has_f16_convert;
    }
    return false;
}

// The forms of DOT4: by DotForm and result lanes.
typedef struct DotText { DotForm form; int lanes; const char *clang, *gcc; } DotText;
static const DotText dots[] = {
    {DOT_PAIRS, 4, NULL, "($0 + __builtin_ia32_pmaddwd128(__builtin_ia32_pmaddubsw128((c8x16)$1, (c8x16)$2), (i16x8){1, 1, 1, 1, 1, 1, 1, 1}))"},
    {DOT_PAIRS, 8, NULL, "($0 + __builtin_ia32_pmaddwd256(__builtin_ia32_pmaddubsw256((c8x32)$1, (c8x32)$2), (i16x16){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}))"},
    {DOT_PAIRS, 16, NULL, "($0 + MADD512(MADDUBS512((c8x64)$1, (c8x64)$2), ((i16x32){0} + 1)))"},
    {DOT_U8I8, 4, "__builtin_ia32_vpdpbusd128($0, (i32x4)$1, (i32x4)$2)", "__builtin_ia32_vpdpbusd_v4si($0, (i32x4)$1, (i32x4)$2)"},
    {DOT_U8I8, 8, "__builtin_ia32_vpdpbusd256($0, (i32x8)$1, (i32x8)$2)", "__builtin_ia32_vpdpbusd_v8si($0, (i32x8)$1, (i32x8)$2)"},
    {DOT_U8I8, 16, "__builtin_ia32_vpdpbusd512($0, (i32x16)$1, (i32x16)$2)", "__builtin_ia32_vpdpbusd_v16si($0, (i32x16)$1, (i32x16)$2)"},
};

static bool is_magnitude(const UOp *u) {
    return u->op == OP_MAX && u->src[1]->op == OP_NEG && u->src[1]->src[0] == u->src[0];
}

// Largest magnitude. |x| of a signed byte is at most 128 as an unsigned one, though −128 wraps on the way.
static int64_t largest(UOp *u) {
    UOp *inner = u->n_src ? u->src[0] : NULL;
    if (u->op == OP_BITCAST && is_magnitude(inner)) return largest(inner->src[0]);
    if (u->op == OP_WHERE && u->src[1]->op == OP_NEG && u->src[1]->src[0] == u->src[2]) return largest(u->src[2]);
    Bounds b = bounds_of(u);
    return -b.lo > b.hi ? -b.lo : b.hi;
}

// Bytes of operand k at even (odd) places as numbers of 16 bits.
static const char *bytes_apart(Arena *arena, const UOp *u, int k, bool odd) {
    bool is_signed = u->src[k]->dtype == DT_I8;
    int n = 2 * u->lanes;
    if (odd) return arena_printf(arena, "(i16x%d)((%s16x%d)$%d >> 8)", n, is_signed ? "i" : "u", n, k);
    if (is_signed) return arena_printf(arena, "((i16x%d)((i16x%d)$%d << 8) >> 8)", n, n, k);
    return arena_printf(arena, "((i16x%d)$%d & 255)", n, k);
}

// Any bytes, on any x86: products of 16-bit numbers, even and odd places apart.
static bool wide_dot(TextBuilder *out, const UOp *u, const Target *t) {
    static const struct { int lanes; const char *text; } sums[] = {
        {4, "__builtin_ia32_pmaddwd128(%s, %s)"},
        {8, "__builtin_ia32_pmaddwd256(%s, %s)"},
        {16, "MADD512(%s, %s)"},
    };
    Arena *arena = graph_arena(u->graph);
    if (!target_has(t, NEED_NONE)) return false;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        if (sums[i].lanes != u->lanes) continue;
        builder_cstring(out, "($0");
        for (int odd = 0; odd < 2; odd++) {
            builder_cstring(out, " + ");
            builder_printf(out, sums[i].text, bytes_apart(arena, u, 1, odd), bytes_apart(arena, u, 2, odd));
        }
        builder_cstring(out, ")");
        return true;
    }
    return false;
}

// The x whose sign went from |x|, the first factor, to the second: where(x < 0, −b, b). One instruction moves it; it makes
// 0 where x is 0, and there the product is 0 anyway.
static UOp *sign_moved(const UOp *dot) {
    UOp *a = dot->src[1], *b = dot->src[2];
    if (a->op != OP_BITCAST || !is_magnitude(a->src[0]) || a->src[0]->dtype != DT_I8 || b->op != OP_WHERE) return NULL;
    UOp *x = a->src[0]->src[0], *test = b->src[0], *zero = test->op == OP_LT ? test->src[1] : NULL;
    if (b->src[1]->op != OP_NEG || b->src[1]->src[0] != b->src[2] || !zero || test->src[0] != x) return NULL;
    Bounds z = bounds_of(zero);
    return z.lo == 0 && z.hi == 0 ? x : NULL;
}

// A form of DOT4 with the second factor as the text `moved`.
static void dot_text(TextBuilder *out, const char *form, const char *moved) {
    for (const char *c = form; *c; c++) {
        if (c[0] == '$' && c[1] == '2') builder_cstring(out, moved), c++;
        else builder_char(out, *c);
    }
}

// Sums of pairs of several dot products in a row are added as numbers of 16 bits, as many as cannot pass them, and widened
// once. The last of a chain takes the ones before it; those are then read by nobody, and compilers drop them.
enum { MOST_PAIRS = 8 };
static bool pairs_in_a_row(TextBuilder *out, const UOp *u, UOp **operands) {
    static const struct { int lanes; const char *madd, *maddubs; } forms[] = {
        {4, "__builtin_ia32_pmaddwd128", "__builtin_ia32_pmaddubsw128((c8x16)$%c, (c8x16)$%c)"},
        {8, "__builtin_ia32_pmaddwd256", "__builtin_ia32_pmaddubsw256((c8x32)$%c, (c8x32)$%c)"},
    };
    const UOp *chain[64];
    int n = 0;
    for (const UOp *v = u; v->op == OP_DOT4 && n < 64; v = v->src[0]) {
        if (v->src[1]->dtype != DT_U8 || v->lanes != u->lanes || sign_moved(v)) break;
        chain[n++] = v;
    }
    int64_t each = n ? 2 * largest(u->src[1]) * largest(u->src[2]) : INT16_MAX;
    int most = each ? (int)(INT16_MAX / each) : MOST_PAIRS, taken;
    if (most > MOST_PAIRS) most = MOST_PAIRS;
    if (n < 2 || most < 2 || (taken = (n - 1) % most + 1) < 2) return false;
    for (int i = 0; i < taken; i++)
        if (2 * largest(chain[i]->src[1]) * largest(chain[i]->src[2]) > each) return false;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        if (forms[f].lanes != u->lanes) continue;
        operands[0] = chain[taken - 1]->src[0];
        builder_printf(out, "($0 + %s(", forms[f].madd);
        for (int i = taken; i-- > 0;) {
            int at = 1 + 2 * (taken - 1 - i);
            operands[at] = chain[i]->src[1], operands[at + 1] = chain[i]->src[2];
            builder_printf(out, "(i16x%d)", 2 * u->lanes);
            builder_printf(out, forms[f].maddubs, '0' + at, '0' + at + 1);
            builder_cstring(out, i ? " + " : ", ");
        }
        builder_printf(out, "((i16x%d){0} + 1)))", 2 * u->lanes);
        return true;
    }
    return false;
}

static bool dot_op(TextBuilder *out, const UOp *u, const Target *t, UOp **operands) {
    const char *second = "$2";
    if (t->dot == DOT_PAIRS && pairs_in_a_row(out, u, operands)) return true;
    UOp *x = u->lanes == 4 || u->lanes == 8 ? sign_moved(u) : NULL;
    if (x && t->has_byte_shuffle) {
        operands[2] = u->src[2]->src[2], operands[3] = x;
        second = u->lanes == 4 ? "__builtin_ia32_psignb128((c8x16)$2, (c8x16)$3)" : "__builtin_ia32_psignb256((c8x32)$2, (c8x32)$3)";
    }
    for (size_t i = 0; i < sizeof dots / sizeof *dots && u->src[1]->dtype == DT_U8; i++) {
        const DotText *d = &dots[i];
        if (d->form != t->dot || d->lanes != u->lanes) continue;
        // Pairs are summed with saturation to 16 bits: only where no pair can reach it.
        if (d->form == DOT_PAIRS && 2 * largest(u->src[1]) * largest(u->src[2]) > INT16_MAX) break;
        if (d->clang) builder_cstring(out, "\n#ifdef __clang__\n"), dot_text(out, d->clang, second), builder_cstring(out, "\n#else\n");
        dot_text(out, d->gcc, second);
        if (d->clang) builder_cstring(out, "\n#endif\n");
        return true;
    }
    operands[2] = u->src[2];
    return wide_dot(out, u, t);
}

// |x| of signed bytes, as MAX of x and −x. (clang knows the shifts.)
static bool magnitude_op(TextBuilder *out, const UOp *u, const Target *t) {
    if (u->dtype != DT_I8 || !t->has_byte_shuffle || !target_has(t, NEED_NONE) || (u->lanes != 16 && u->lanes != 32)) return false;
    builder_printf(out, "\n#ifdef __clang__\n(($0 ^ ($0 >> 7)) - ($0 >> 7))\n#else\n(i8x%d)__builtin_ia32_pabsb%d((c8x%d)$0)\n#endif\n",
                   u->lanes, 8 * u->lanes, u->lanes);
    return true;
}

// Neighbouring lanes of two vectors added, inside 128-bit parts: [a0+a1, a2+a3, b0+b1, b2+b3, …]. Sums of integers that
// fit 16 bits are packed first: then one multiply-add by ones does it, and products of such numbers need no more.
static bool is_pair_sum(const UOp *u, UOp **operands) {
    UOp *x = u->src[0], *y = u->src[1];
    if (u->op != OP_ADD || u->dtype != DT_I32 || u->lanes % 4 || x->op != OP_SHUFFLE || y->op != OP_SHUFFLE) return false;
    UOp *both = x->src[0];
    if (both != y->src[0] || both->op != OP_VCAT || both->n_src != 2 || both->src[0]->lanes != u->lanes || both->src[1]->lanes != u->lanes) return false;
    for (int i = 0; i < u->lanes; i++) {
        int64_t even = i / 4 * 4 + i % 2 * 2 + (i % 4 < 2 ? 0 : u->lanes);
        bool as_is = x->arg[i] == even && y->arg[i] == even + 1, turned = y->arg[i] == even && x->arg[i] == even + 1;
        if (!as_is && !turned) return false;
    }
    operands[0] = both->src[0], operands[1] = both->src[1];
    return true;
}

static bool fits_i16(UOp *u) { return largest(u) <= INT16_MAX; }
static bool is_small_product(const UOp *u) { return u->op == OP_MUL && fits_i16(u->src[0]) && fits_i16(u->src[1]); }

static bool pair_sum(TextBuilder *out, const UOp *u, const Target *t, UOp **operands) {
    static const struct { int lanes; const char *pack, *madd; } forms[] = {
        {4, "__builtin_ia32_packssdw128", "__builtin_ia32_pmaddwd128"},
        {8, "__builtin_ia32_packssdw256", "__builtin_ia32_pmaddwd256"},
        {16, "PACKS512", "MADD512"},
    };
    UOp *pair[2];
    if (t->vector_bytes < 16 || (t->dot != DOT_PAIRS && t->dot != DOT_U8I8) || !is_pair_sum(u, pair)) return false;
    bool products = is_small_product(pair[0]) && is_small_product(pair[1]);
    if (!products && !(fits_i16(pair[0]) && fits_i16(pair[1]))) return false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].lanes != u->lanes) continue;
        builder_printf(out, "%s(%s($0, $1), ", forms[i].madd, forms[i].pack);
        if (products) builder_printf(out, "%s($2, $3))", forms[i].pack);
        else builder_printf(out, "((i16x%d){0} + 1))", 2 * u->lanes);
        for (int k = 0; k < 2; k++) {
            operands[k] = products ? pair[k]->src[0] : pair[k];
            if (products) operands[2 + k] = pair[k]->src[1];
        }
        return true;
    }
    return false;
}

// Two halves of 16 bytes: the same ones are a broadcast that the load can do, others are one insertion. (gcc loads both
// halves of a shuffle.)
static bool halves_joined(TextBuilder *out, const UOp *u, const Target *t) {
    UOp *part = u->src[0];
    const char *type = dtype_info[u->dtype].c_type;
    if (u->op != OP_VCAT || u->n_src != 2 || part->lanes * dtype_bytes(part->dtype) != 16 || u->src[1]->lanes != part->lanes) return false;
    if (t->vector_bytes < 32 || t->dot == DOT_NONE || part->dtype == DT_BOOL) return false;
    bool is_twice = part == u->src[1];
    builder_printf(out, "\n#ifdef __clang__\n(%sx%d)__builtin_shufflevector((i64x2)$0, (i64x2)$1, 0, 1, %s)\n#else\n", type,
                   u->lanes, is_twice ? "0, 1" : "2, 3");
    builder_printf(out, "(%sx%d)%s\n#endif\n", type, u->lanes, is_twice ? "__builtin_ia32_vbroadcastsi256((i64x2)$0)" :
                   "__builtin_ia32_vinsertf128_si256(__builtin_ia32_si256_si((i32x4)$0), (i32x4)$1, 1)");
    return true;
}

// Short vectors side by side, joined as words: gcc would widen each to 16 bytes first, and take vectors of unequal lengths
// apart to single lanes. A word is as long as the shortest of them.
static bool words_joined(TextBuilder *out, const UOp *u) {
    int step = dtype_bytes(u->dtype), word = 8, total = u->lanes * step, shortest = total, longest = 0;
    for (int i = 0; i < u->n_src; i++) {
        int nbytes = u->src[i]->lanes * step;
        if (u->src[i]->lanes == 1) return false;           // the cast of a number is no cast of its bits
        if (nbytes < shortest) shortest = nbytes;
        if (nbytes > longest) longest = nbytes;
        if (nbytes < word) word = nbytes;
    }
    bool is_even = shortest == longest && total > 16;      // those a shuffle joins
    if (u->dtype == DT_BOOL || word < 4 || total < 8 || is_even || total > 32) return false;
    builder_printf(out, "(%sx%d)(i%dx%d){", dtype_info[u->dtype].c_type, u->lanes, 8 * word, total / word);
    for (int i = 0; i < u->n_src; i++) {
        int words = u->src[i]->lanes * step / word;
        for (int k = 0; k < words; k++) {
            builder_cstring(out, i + k ? ", " : "");
            if (words == 1) builder_printf(out, "(i%d)$%d", 8 * word, i);
            else builder_printf(out, "((i%dx%d)$%d)[%d]", 8 * word, words, i, k);
        }
    }
    builder_cstring(out, "}");
    return true;
}

// Words loaded from places of their own.
static bool words_loaded(TextBuilder *out, const UOp *u, const Target *t) {
    bool is_known = dtype_bytes(u->dtype) == 2 && (u->n_src == 4 || u->n_src == 8) && target_has(t, NEED_NONE);
    for (int i = 0; i < u->n_src && is_known; i++) is_known = u->src[i]->lanes == 1 && u->src[i]->op == OP_LOAD;
    if (!is_known) return false;
    builder_printf(out, "(%sx%d)%sWORDS%d(", dtype_info[u->dtype].c_type, u->n_src, u->n_src == 4 ? "FIRST4(" : "", u->n_src);
    for (int i = 0; i < u->n_src; i++) builder_printf(out, "%s$%d", i ? ", " : "", i);
    builder_cstring(out, u->n_src == 4 ? "))" : ")");
    return true;
}

// Bits that may be set in lanes of 16 bits.
static int64_t bits_of(const UOp *u) {
    if (u->dtype != DT_U16 || u->n_src != 2) return UINT16_MAX;
    if (u->op == OP_OR) return bits_of(u->src[0]) | bits_of(u->src[1]);
    Bounds by = bounds_of(u->src[1]);
    if ((u->op != OP_AND && u->op != OP_SHR) || by.lo != by.hi || by.lo < 0 || by.lo > UINT16_MAX) return UINT16_MAX;
    return u->op == OP_AND ? bits_of(u->src[0]) & by.lo : by.lo < 16 ? bits_of(u->src[0]) >> by.lo : 0;
}

// Whether every `period` lanes of a table are the same.
static bool repeats(const UOp *table, int64_t period) {
    if (table->lanes == period) return true;
    if (table->op == OP_BITCAST || (table->op == OP_XOR && table->src[1]->op == OP_VCONST)) {
        for (int i = 1; table->op == OP_XOR && i < table->lanes; i++) if (table->src[1]->arg[i] != table->src[1]->arg[0]) return false;
        return table->src[0]->lanes == table->lanes && repeats(table->src[0], period);
    }
    for (int i = 0; i < table->n_src; i++) if (table->src[i] != table->src[0]) return false;
    return table->op == OP_VCAT && table->src[0]->lanes == period;
}

// The x of a look-up at x & mask in a table that repeats after mask + 1: a shuffle of bytes sees the lowest 4 bits alone,
// unless the highest one is set (which does not matter to one of a register of 32 or 64).
static UOp *unmasked_index(const UOp *u, bool ignores_top) {
    UOp *table = u->src[0], *index = u->src[1], *x = index->op == OP_AND ? index->src[0] : NULL;
    if (!x || !(ignores_top || (x->op == OP_BITCAST && x->src[0]->dtype == DT_U16 && !(bits_of(x->src[0]) & 0x8080)))) return NULL;
    Bounds mask = bounds_of(index->src[1]);
    return mask.lo == mask.hi && mask.lo >= 0 && 16 % (mask.lo + 1) == 0 && repeats(table, mask.lo + 1) ? x : NULL;
}

// A table of 16 bytes: one shuffle of bytes, which looks up inside 16-byte parts.
static bool lookup_op(TextBuilder *out, const UOp *u, const Target *t, UOp **operands) {
    static const struct { int lanes; const char *gcc, *clang; } forms[] = {
        {16, "__builtin_ia32_pshufb128((c8x16)$0, (c8x16)$1)", NULL},
        {32, "__builtin_ia32_pshufb256((c8x32)__builtin_ia32_vbroadcastsi256((i64x2)$0), (c8x32)$1)",
         "__builtin_ia32_pshufb256((c8x32)__builtin_shufflevector((i64x2)$0, (i64x2)$0, 0, 1, 0, 1), (c8x32)$1)"},
        {64, "PSHUFB512((c8x64)FOURFOLD512($0), (c8x64)$1)", NULL},
    };
    const char *type = dtype_info[u->dtype].c_type;
    if (!target_has(t, NEED_NONE) || !t->has_byte_shuffle || u->src[0]->lanes != 16 || dtype_bytes(u->dtype) != 1) return false;
    UOp *index = unmasked_index(u, false), *permuted = !index && t->has_bit_shuffle && u->lanes >= 32 ? unmasked_index(u, true) : NULL;
    if (index || permuted) operands[1] = index ? index : permuted;
    if (permuted && u->lanes == 64) {
        builder_printf(out, "(%sx64)PERMB512(FOURFOLD512($0), $1)", type);
        return true;
    }
    if (permuted) {
        builder_printf(out, "(%sx32)\n#ifdef __clang__\n"
                       "__builtin_ia32_permvarqi256((c8x32)__builtin_shufflevector((i64x2)$0, (i64x2)$0, 0, 1, 0, 1), (c8x32)$1)\n#else\n"
                       "__builtin_ia32_permvarqi256_mask((c8x32)__builtin_ia32_vbroadcastsi256((i64x2)$0), (c8x32)$1, (c8x32){0}, -1)\n#endif\n", type);
        return true;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].lanes != u->lanes) continue;
        if (!forms[i].clang) builder_printf(out, "(%sx%d)%s", type, u->lanes, forms[i].gcc);
        else builder_printf(out, "(%sx%d)\n#ifdef __clang__\n%s\n#else\n%s\n#endif\n", type, u->lanes, forms[i].clang, forms[i].gcc);
        return true;
    }
    return false;
}

// Constant lane i of a vector; all lanes of a number are alike. False: u is no constant, or its lanes differ and are none of its own.
static bool constant_lane(const UOp *u, int i, int64_t *out) {
    if (u->op == OP_SHUFFLE && u->src[0]->lanes == 1) u = u->src[0];
    if (u->op != OP_CONST && u->op != OP_VCONST) return false;
    *out = u->arg[u->lanes == 1 ? 0 : i];
    return true;
}

// The matrix that moves each of 8 bytes down by k bits (up, where negative) and masks it. 0: a bit of the neighbour would come in.
static uint64_t field_matrix(int64_t k, int64_t mask) {
    uint64_t matrix = 0;
    for (int i = 0; i < 8; i++) {
        if (!(mask >> i & 1)) continue;
        if (i + k < 0 || i + k > 7) return 0;
        matrix |= (uint64_t)1 << (i + k) << 8 * (7 - i);
    }
    return matrix;
}

// A field of each byte: wide lanes shifted by k bits, of which a mask keeps what comes from the same byte. Bit i of a result is the parity
// of the byte's bits that row 7 − i of a matrix chooses (Intel's Software Developer's Manual vol. 2, GF2P8AFFINEQB): the one k bits away.
// Each 8 bytes have a matrix, so that each may have a k of their own.
static bool field_op(TextBuilder *out, const UOp *u, const Target *t, UOp **operands) {
    const UOp *moved = u->src[0]->op == OP_BITCAST ? u->src[0]->src[0] : NULL;
    if (!t->has_bit_matrix || u->dtype != DT_U8 || (u->lanes != 32 && u->lanes != 64) || !moved || (moved->op != OP_SHR && moved->op != OP_SHL)) return false;
    if (dtype_info[moved->dtype].lo < 0 || moved->lanes * dtype_bytes(moved->dtype) != u->lanes) return false;
    int groups = u->lanes / 8, per_group = moved->lanes >= groups ? moved->lanes / groups : 1;
    uint64_t matrix[8];
    bool is_moved = false, is_one = true;
    for (int g = 0; g < groups; g++) {
        int64_t by, mask, other;
        if (!constant_lane(moved->src[1], g * per_group, &by) || !constant_lane(u->src[1], g * 8, &mask)) return false;
        for (int i = 1; i < per_group; i++) if (!constant_lane(moved->src[1], g * per_group + i, &other) || other != by) return false;
        for (int i = 1; i < 8; i++) if (!constant_lane(u->src[1], g * 8 + i, &other) || other != mask) return false;
        if (by < 0 || by > 7) return false;
        matrix[g] = field_matrix(moved->op == OP_SHR ? by : -by, mask);
        if (!matrix[g]) return false;
        is_moved |= by != 0, is_one &= matrix[g] == matrix[0];
    }
    if (!is_moved) return false;
    operands[0] = moved->src[0];
    builder_printf(out, "(u8x%d)__builtin_ia32_vgf2p8affineqb_v%dqi((c8x%d)$0, (c8x%d)", u->lanes, u->lanes, u->lanes, u->lanes);
    if (is_one) builder_printf(out, "((u64x%d){0} + 0x%llxull), 0)", groups, (unsigned long long)matrix[0]);
    else {
        builder_printf(out, "(u64x%d){", groups);
        for (int g = 0; g < groups; g++) builder_printf(out, "%s0x%llxull", g ? ", " : "", (unsigned long long)matrix[g]);
        builder_cstring(out, "}, 0)");
    }
    return true;
}

// A register of 64 bytes that holds the same half or quarter again and again, which the load of that does. (gcc takes some through memory.)
static bool parts_repeated(TextBuilder *out, const UOp *u, const Target *t) {
    int part = u->src[0]->lanes * dtype_bytes(u->dtype);
    bool is_repeated = u->dtype != DT_BOOL && target_widest(t) >= 64 && u->n_src * part == 64 && (part == 16 || part == 32);
    for (int i = 1; i < u->n_src && is_repeated; i++) is_repeated = u->src[i] == u->src[0];
    if (is_repeated) builder_printf(out, "(%sx%d)%s($0)", dtype_info[u->dtype].c_type, u->lanes, part == 16 ? "FOURFOLD512" : "TWOFOLD512");
    return is_repeated;
}

// Lanes of a short vector spread over a register of 64 bytes. (gcc takes that through memory.)
static bool lanes_spread(TextBuilder *out, const UOp *u, const Target *t) {
    int from = u->src[0]->lanes;
    if (u->dtype != DT_F32 || u->lanes != 16 || (from != 4 && from != 8) || u->src[0]->op == OP_VCAT || target_widest(t) < 64) return false;
    builder_printf(out, "SPREAD512%s($0", from == 8 ? "_8" : "");
    for (int i = 0; i < u->lanes; i++) builder_printf(out, ", %d", (int)u->arg[i]);
    builder_char(out, ')');
    return true;
}

static bool vector_op(TextBuilder *out, const UOp *u, const Target *target, UOp **operands) {
    if (u->op == OP_VCAT) return parts_repeated(out, u, target) || halves_joined(out, u, target) || words_loaded(out, u, target) || words_joined(out, u);
    if (u->op == OP_SHUFFLE) return lanes_spread(out, u, target);
    if (u->op == OP_ADD && u->lanes > 1) return pair_sum(out, u, target, operands);
    if (u->op == OP_DOT4) return dot_op(out, u, target, operands);
    if (is_magnitude(u) && magnitude_op(out, u, target)) return true;
    if (u->op == OP_LOOKUP) return lookup_op(out, u, target, operands);
    if (u->op == OP_AND && u->lanes > 1 && field_op(out, u, target, operands)) return true;
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        const Builtin *b = &builtins[i];
        if (b->op != u->op || b->dtype != u->dtype || b->lanes != u->lanes || b->from != u->src[0]->dtype) continue;
        if (!target_has(target, b->need)) continue;
        if (b->clang) builder_printf(out, "\n#ifdef __clang__\n%s\n#else\n%s\n#endif\n", b->clang, b->text);
        else builder_cstring(out, b->text);
        return true;
    }
    return false;
}

const Dialect c_dialect = {
    .name = "c",
    .suffix = ".c",
    .array_prelude = "#define ADDS_TO_ARRAYS\n",
    .prelude = prelude,
    .vector_type = "$elementx$lanes",
    .vector_typedef = "typedef $element $type __attribute__((vector_size($bytes)));"
                      " typedef $element $type_u __attribute__((vector_size($bytes), aligned(1), may_alias));\n",
    .kernel_open = "void $name(void *const *params, long first, long end, span *later) {\n",
    .param = "    u8 *restrict p$slot = params[$slot];\n",
    .tile_open = "    for (i32 tile = (i32)first; tile < (i32)end; tile++) {\n",
    .tile_close = "    }\n",
    .no_tile = "    (void)first; (void)end;\n",
    .kernel_close = "}\n",
    .space = "",
    .array_space = "",
    .local_space = "",
    .local_array = "    $element $name[$count] __attribute__((aligned(64)));\n",
    .load = "*(const $type_u *)$at",
    .load_lanes = "*(const $type_u *)$at",
    .store = "*($type_u *)$at = $0;\n",
    .atomic_add = "{ f32 *cell = (f32 *)$at, seen = *cell, now; do now = seen + $0; while (!__atomic_compare_exchange(cell, &seen, &now, 0, 0, 0)); }\n",
    .store_lanes = "*($type_u *)$at = $0;\n",
    .prefetch = {"__builtin_prefetch((const void *)$at);\n", "__builtin_prefetch((const void *)$at, 0, 2);\n"},
    .prefetch_later = "if ($loop % $every == 0 && ask < ask_end) { __builtin_prefetch(ask, 0, 2); ask += 64; }\n",
    .later_open = "    const char *ask = later->at, *const ask_end = later->end;\n",
    .later_close = "    later->at = ask;\n",
    .later_count = "const long $name_asks = $count;\n",
    .literal_open = "($type){",
    .literal_close = "}",
    .zero = "0",
    .lane = "$0[$k]",
    .shuffle = "__builtin_shufflevector($0, $1$places)",
    .shuffle_ints = "($type)__builtin_shufflevector(($floats)$0, ($floats)$1$places)",   // those take two sources at once
    .convert = "__builtin_convertvector($0, $type)",
    .same_bits = "__extension__({ $from from = $0; $type to; __builtin_memcpy(&to, &from, sizeof to); to; })",
    .same_bits_vector = "($type)$0",
    .function = "__builtin_$name$suffix",
    .int64 = "$0LL",
    .nan = "__builtin_nanf(\"\")",
    .infinity = "__builtin_inff()",
    .vector_op = vector_op,
};

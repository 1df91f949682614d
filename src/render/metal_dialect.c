// metal_dialect: Metal's language for Apple's GPUs. A threadgroup runs a tile.
// In: a linear program for a target whose tiles are groups. Out (see cstyle.h): one kernel; vectors are the structs of
// words_prelude, since the language's own end at 4 lanes. It has no f64: kernels that need one do not compile there.
// The host gives each group 8 bytes a thread for exchanges.
// Invariant: conversions, rounding and wrapping are those of ir/eval, save for denormal numbers, which the hardware may take as
// zero; the host forbids contraction and fast forms. Every pointer names its memory.
// Example: load of 16 bytes → const vec<u8, 16> v9 = load<vec<u8, 16>, 16>(((const device u8 *)p1 + (i64)(v3) * 1 + 0));
#include "render/words_dialect.h"
#include "render/words_prelude.h"

#define ODD(space) \
    "        if (A >= 2) _Pragma(\"unroll\") for (int i = 0; i < n; i++) w[i] = ((const " space "u16 *)at)[2 * i] | (u32)((const " space "u16 *)at)[2 * i + 1] << 16;\n" \
    "        else _Pragma(\"unroll\") for (int i = 0; i < n; i++) w[i] = at[4 * i] | (u32)at[4 * i + 1] << 8 | (u32)at[4 * i + 2] << 16 | (u32)at[4 * i + 3] << 24;\n"

static const char prelude[] =
    "#include <metal_stdlib>\n"
    "#pragma METAL fp math_mode(safe)\n"
    "#pragma METAL fp contract(off)\n"
    "#pragma clang fp contract(off)\n"
    "typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;\n"
    "typedef int i32; typedef unsigned int u32; typedef long i64; typedef unsigned long u64; typedef float f32;\n"
    "#define FN static inline\n"
    "#define FN_MEMBER inline\n"
    "#define OWN thread\n"
    "typedef metal::uint2 pair;\n"
    "typedef metal::uint4 quad;\n"
    "FN f32 float_of_half(u16 x) { return (f32)as_type<half>(x); }\n"
    "FN u16 half_of_float(f32 x) { return as_type<u16>((half)x); }\n"
    "FN u32 word_of(f32 x) { return as_type<u32>(x); }\n"
    "FN f32 float_of(u32 x) { return as_type<f32>(x); }\n"
    "FN f32 fused(f32 a, f32 b, f32 c) { return metal::fma(a, b, c); }\n"
    "FN i32 dot4_unsigned(i32 acc, u32 a, u32 b) {\n"
    "    _Pragma(\"unroll\") for (int k = 0; k < 4; k++) acc += (i32)(u8)(a >> 8 * k) * (i32)(i8)(b >> 8 * k);\n"
    "    return acc;\n"
    "}\n"
    "FN i32 dot4_signed(i32 acc, u32 a, u32 b) {\n"
    "    _Pragma(\"unroll\") for (int k = 0; k < 4; k++) acc += (i32)(i8)(a >> 8 * k) * (i32)(i8)(b >> 8 * k);\n"
    "    return acc;\n"
    "}\n"
    "FN u32 bytes_chosen(u32 low, u32 high, u32 at) {\n"
    "    u32 y = 0;\n"
    "    _Pragma(\"unroll\") for (int k = 0; k < 4; k++) y |= ((at >> 4 * k & 4 ? high : low) >> 8 * (at >> 4 * k & 3) & 255) << 8 * k;\n"
    "    return y;\n"
    "}\n"
    WORDS_ELEMENTS
    "template<> struct conversion<i32, f32> { static FN_MEMBER i32 of(f32 x) {\n"
    "    return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? -2147483647 - 1 : (i32)x; } };\n"
    "template<> struct conversion<u32, f32> { static FN_MEMBER u32 of(f32 x) {\n"
    "    return !(x > 0.0f) ? 0u : x >= 4294967296.0f ? 4294967295u : (u32)x; } };\n"
    "template<> struct conversion<i64, f32> { static FN_MEMBER i64 of(f32 x) {\n"
    "    return x != x ? 0 : x >= 9223372036854775808.0f ? 9223372036854775807L : x <= -9223372036854775808.0f ? -9223372036854775807L - 1 : (i64)x; } };\n"
    WORDS_VECTORS
    WORDS_MEMORY("device ", ODD("device "))
    WORDS_MEMORY("thread ", ODD("thread "))
    WORDS_MEMORY("threadgroup ", ODD("threadgroup "))
    WORDS_TABLES
    // ---- threads: what the one has whose number differs in one bit, through threadgroup memory beyond a SIMD group.
    "template<int D, int W, class T> FN T thread_xor(T x, i32 item, threadgroup u32 *exchange) {\n"
    "    enum { n = words_of<T>::count };\n"
    "    u32 w[n];\n"
    "    if (D < 32) _Pragma(\"unroll\") for (int i = 0; i < n; i++) w[i] = metal::simd_shuffle_xor(words_of<T>::get(x, i), (u16)D);\n"
    "    else {\n"
    "        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);\n"
    "        for (int i = 0; i < n; i++) exchange[n * item + i] = words_of<T>::get(x, i);\n"
    "        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);\n"
    "        for (int i = 0; i < n; i++) w[i] = exchange[n * (item ^ D) + i];\n"
    "    }\n"
    "    return from_words<T>::make(w);\n"
    "}\n"
    WORDS_DIVISION;

const Dialect metal_dialect = {
    .name = "metal",
    .suffix = ".metal",
    .prelude = prelude,
    WORDS_ROWS,
    .param_head = "device u8 *p$slot [[buffer($slot)]], ",
    .group_open = "[[kernel, max_total_threads_per_threadgroup($threads)]] void $name($paramsthreadgroup u32 *exchange [[threadgroup(0)]],\n"
                  "    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {\n"
                  "    const i32 item = (i32)item_at;\n",
    .group_tile_open = "    const i32 tile = (i32)tile_at;\n    {\n",
    .barrier = "metal::threadgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup);\n",
    .thread_xor = "thread_xor<$distance, $width>(($type)$0, item, exchange)",
    .atomic_add = "metal::atomic_fetch_add_explicit((device metal::atomic_float *)$at, $0, metal::memory_order_relaxed);\n",
    .space = "device ",
    .array_space = "thread ",
    .local_space = "threadgroup ",
    .local_array = "    alignas(16) threadgroup $element $name[$count];\n",
    .function = "metal::$name",
    .int64 = "$0L",
    .nan = "as_type<f32>(0x7fffffffu)",
    .infinity = "as_type<f32>(0x7f800000u)",
};

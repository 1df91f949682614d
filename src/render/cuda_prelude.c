// cuda_prelude: what kernels in CUDA C++ begin with: the card's own instructions, and exchanges between threads, around what
// all dialects of C++ share (words_prelude). In: nothing. Out: text. Invariant: no header of a vendor is needed.
// Example: load<vec<u8, 16>, 2>(at): five aligned words, cut to four.
#include "render/cuda_prelude.h"

#include "render/words_prelude.h"

const char cuda_prelude[] =
    "typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;\n"
    "typedef int i32; typedef unsigned u32; typedef long long i64; typedef unsigned long long u64; typedef float f32; typedef double f64;\n"
    "#define FN static __device__ __forceinline__\n"
    "#define FN_MEMBER __device__ __forceinline__\n"
    "#define OWN\n"
    "struct alignas(8) pair { u32 x, y; };\n"
    "struct alignas(16) quad { u32 x, y, z, w; };\n"
    // ---- what the card does in one instruction
    // A kernel of a graph may begin before the one before it has ended. Only behind its own wait may the next one begin, so that
    // nothing but a kernel and its successor is ever at work.
    "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900\n"
    "FN void after_earlier_kernels() { asm volatile(\"griddepcontrol.wait;\\n griddepcontrol.launch_dependents;\" ::: \"memory\"); }\n"
    "#else\n"
    "FN void after_earlier_kernels() { }\n"
    "#endif\n"
    "#ifdef __CUDACC_RTC__\n"
    "FN f32 float_of_half(u16 x) { f32 y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y; }\n"
    "FN u16 half_of_float(f32 x) { u16 y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y; }\n"
    "FN i32 dot4_unsigned(i32 acc, u32 a, u32 b) { i32 y; asm(\"dp4a.u32.s32 %0, %1, %2, %3;\" : \"=r\"(y) : \"r\"(a), \"r\"(b), \"r\"(acc)); return y; }\n"
    "FN i32 dot4_signed(i32 acc, u32 a, u32 b) { i32 y; asm(\"dp4a.s32.s32 %0, %1, %2, %3;\" : \"=r\"(y) : \"r\"(a), \"r\"(b), \"r\"(acc)); return y; }\n"
    "#endif\n"
    "FN u32 word_of(f32 x) { return __float_as_uint(x); }\n"
    "FN f32 float_of(u32 x) { return __uint_as_float(x); }\n"
    "FN f32 fused(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }\n"
    "FN u32 bytes_chosen(u32 low, u32 high, u32 at) { return __byte_perm(low, high, at); }\n"
    WORDS_ELEMENTS
    "FN f64 wrap_neg(f64 a) { return -a; }\n"
    "FN u32 as_word(f64) { return 0; }\n"
    "FN u64 as_long(f64 x) { return (u64)__double_as_longlong(x); }\n"
    "FN f64 long_as(kind<f64>, u64 x) { return __longlong_as_double((i64)x); }\n"
    "template<> struct conversion<i32, f32> { static FN_MEMBER i32 of(f32 x) { return __float2int_rz(x); } };\n"
    "template<> struct conversion<u32, f32> { static FN_MEMBER u32 of(f32 x) { return __float2uint_rz(x); } };\n"
    "template<> struct conversion<i64, f32> { static FN_MEMBER i64 of(f32 x) { return __float2ll_rz(x); } };\n"
    "template<> struct conversion<i32, f64> { static FN_MEMBER i32 of(f64 x) { return __double2int_rz(x); } };\n"
    WORDS_VECTORS
    "SCALAR(f64) SCALAR_FROM(f64)\n"
    // Words that lie across words are cut out of two.
    WORDS_MEMORY("",
    "        const u32 *first = (const u32 *)((u64)at & ~(u64)3);\n"
    "        int shift = (int)((u64)at & 3) * 8;\n"
    "        u32 last = first[0];\n"
    "        _Pragma(\"unroll\") for (int i = 0; i < n; i++) {\n"
    "            u32 next = first[i + 1];\n"
    "            w[i] = __funnelshift_r(last, next, shift);\n"
    "            last = next;\n"
    "        }\n")
    WORDS_TABLES
    // ---- threads: what the one has whose number differs in one bit. Those W that go together need not wait for the others.
    "FN u32 neighbours(int width) { return width >= 32 ? 0xffffffffu : ((1u << width) - 1) << (threadIdx.x & 31 & ~(width - 1)); }\n"
    "template<int D, int W, class T> FN T thread_xor(T x) {\n"
    "    u32 w[words_of<T>::count];\n"
    "    if (D < 32) _Pragma(\"unroll\") for (int i = 0; i < words_of<T>::count; i++)\n"
    "        w[i] = __shfl_xor_sync(neighbours(W), words_of<T>::get(x, i), D);\n"
    "    else {\n"
    "        __shared__ u32 exchange[words_of<T>::count][1024];\n"
    "        __syncthreads();\n"
    "        for (int i = 0; i < words_of<T>::count; i++) exchange[i][threadIdx.x] = words_of<T>::get(x, i);\n"
    "        __syncthreads();\n"
    "        for (int i = 0; i < words_of<T>::count; i++) w[i] = exchange[i][threadIdx.x ^ D];\n"
    "    }\n"
    "    return from_words<T>::make(w);\n"
    "}\n"
    // A group comes here with its part done: whether it is the last of `count`, behind whose parts it then may look.
    "FN bool is_last_tile(const u8 *at, u32 count) {\n"
    "    __shared__ u32 arrived;\n"
    "    __threadfence();\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) arrived = atomicInc((u32 *)at, count - 1);\n"
    "    __syncthreads();\n"
    "    __threadfence();\n"
    "    return arrived == count - 1;\n"
    "}\n"
    WORDS_DIVISION;

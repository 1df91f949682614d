#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#pragma clang fp contract(off)
typedef signed char i8; typedef unsigned char u8; typedef short i16; typedef unsigned short u16;
typedef int i32; typedef unsigned int u32; typedef long i64; typedef unsigned long u64; typedef float f32;
#define FN static inline
#define FN_MEMBER inline
#define OWN thread
typedef metal::uint2 pair;
typedef metal::uint4 quad;
FN f32 float_of_half(u16 x) { return (f32)as_type<half>(x); }
FN u16 half_of_float(f32 x) { return as_type<u16>((half)x); }
FN u32 word_of(f32 x) { return as_type<u32>(x); }
FN f32 float_of(u32 x) { return as_type<f32>(x); }
FN f32 fused(f32 a, f32 b, f32 c) { return metal::fma(a, b, c); }
FN i32 dot4_unsigned(i32 acc, u32 a, u32 b) {
    _Pragma("unroll") for (int k = 0; k < 4; k++) acc += (i32)(u8)(a >> 8 * k) * (i32)(i8)(b >> 8 * k);
    return acc;
}
FN i32 dot4_signed(i32 acc, u32 a, u32 b) {
    _Pragma("unroll") for (int k = 0; k < 4; k++) acc += (i32)(i8)(a >> 8 * k) * (i32)(i8)(b >> 8 * k);
    return acc;
}
FN u32 bytes_chosen(u32 low, u32 high, u32 at) {
    u32 y = 0;
    _Pragma("unroll") for (int k = 0; k < 4; k++) y |= ((at >> 4 * k & 4 ? high : low) >> 8 * (at >> 4 * k & 3) & 255) << 8 * k;
    return y;
}
template<class T> struct kind { };                         // a type, as an argument
template<class T> struct arithmetic { typedef T type; };   // signed numbers wrap
template<> struct arithmetic<i32> { typedef u32 type; };
template<> struct arithmetic<i64> { typedef u64 type; };
template<> struct arithmetic<i16> { typedef u32 type; };
template<> struct arithmetic<u16> { typedef u32 type; };
template<int B> struct integer { };
template<> struct integer<1> { typedef i8 type; };
template<> struct integer<2> { typedef i16 type; };
template<> struct integer<4> { typedef i32 type; };
template<> struct integer<8> { typedef i64 type; };
template<class T> FN T wrap_add(T a, T b) { typedef typename arithmetic<T>::type W; return (T)((W)a + (W)b); }
template<class T> FN T wrap_sub(T a, T b) { typedef typename arithmetic<T>::type W; return (T)((W)a - (W)b); }
template<class T> FN T wrap_mul(T a, T b) { typedef typename arithmetic<T>::type W; return (T)((W)a * (W)b); }
template<class T> FN T wrap_neg(T a) { typedef typename arithmetic<T>::type W; return (T)(0 - (W)a); }
FN f32 wrap_neg(f32 a) { return -a; }
template<class T, class F> struct conversion { static FN_MEMBER T of(F x) { return (T)x; } };
FN u32 as_word(f32 x) { return word_of(x); }
template<class T> FN u32 as_word(T x) { return sizeof(T) == 1 ? (u32)(u8)x : sizeof(T) == 2 ? (u32)(u16)x : (u32)x; }
FN f32 word_as(kind<f32>, u32 x) { return float_of(x); }
template<class T> FN T word_as(kind<T>, u32 x) { return (T)x; }
template<class T> FN u64 as_long(T x) { return (u64)x; }
template<class T> FN T long_as(kind<T>, u64 x) { return (T)x; }
template<> struct conversion<i32, f32> { static FN_MEMBER i32 of(f32 x) {
    return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? -2147483647 - 1 : (i32)x; } };
template<> struct conversion<u32, f32> { static FN_MEMBER u32 of(f32 x) {
    return !(x > 0.0f) ? 0u : x >= 4294967296.0f ? 4294967295u : (u32)x; } };
template<> struct conversion<i64, f32> { static FN_MEMBER i64 of(f32 x) {
    return x != x ? 0 : x >= 9223372036854775808.0f ? 9223372036854775807L : x <= -9223372036854775808.0f ? -9223372036854775807L - 1 : (i64)x; } };
template<class T, int N> struct vec {
    typedef T element;
    enum { lanes = N, words = (sizeof(T) * N + 3) / 4 };
    u32 w[words];
    FN_MEMBER T operator[](int k) const {
        if (sizeof(T) == 1) return (T)(u8)(w[k / 4] >> 8 * (k % 4));
        if (sizeof(T) == 2) return (T)(u16)(w[k / 2] >> 16 * (k % 2));
        if (sizeof(T) == 4) return word_as(kind<T>(), w[k]);
        return long_as(kind<T>(), w[2 * k % words] | (u64)w[(2 * k + 1) % words] << 32);
    }
    FN_MEMBER void put(int k, T x) {   // onto zeros
        if (sizeof(T) == 1) w[k / 4] |= (u32)(u8)x << 8 * (k % 4);
        else if (sizeof(T) == 2) w[k / 2] |= (u32)(u16)x << 16 * (k % 2);
        else if (sizeof(T) == 4) w[k] = as_word(x);
        else { u64 both = as_long(x); w[2 * k % words] = (u32)both; w[(2 * k + 1) % words] = (u32)(both >> 32); }
    }
};
template<class V> FN V zeros() { V v; for (int i = 0; i < V::words; i++) v.w[i] = 0; return v; }
template<class V, class... A> FN V make(A... a) {
    V v = zeros<V>();
    int k = 0, in_order[] = {(v.put(k++, (typename V::element)a), 0)...};
    (void)in_order;
    return v;
}
#define LANES(V, k, ...) V v = zeros<V>(); _Pragma("unroll") for (int k = 0; k < V::lanes; k++) v.put(k, __VA_ARGS__); return v;
#define WORDS(V, i, ...) V v; _Pragma("unroll") for (int i = 0; i < V::words; i++) v.w[i] = __VA_ARGS__; return v;
#define VT template<class T, int N> FN vec<T, N>
#define MT template<class T, int N> FN vec<typename integer<sizeof(T)>::type, N>
VT operator+(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, wrap_add(a[k], b[k])) }
VT operator-(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, wrap_sub(a[k], b[k])) }
VT operator*(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, wrap_mul(a[k], b[k])) }
VT operator/(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, a[k] / b[k]) }
VT operator-(vec<T, N> a) { typedef vec<T, N> V; LANES(V, k, wrap_neg(a[k])) }
VT operator&(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; WORDS(V, i, a.w[i] & b.w[i]) }
VT operator|(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; WORDS(V, i, a.w[i] | b.w[i]) }
VT operator^(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; WORDS(V, i, a.w[i] ^ b.w[i]) }
VT operator~(vec<T, N> a) { typedef vec<T, N> V; WORDS(V, i, ~a.w[i]) }
VT operator<<(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, (T)((typename arithmetic<T>::type)a[k] << b[k])) }
VT operator>>(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, (T)(a[k] >> b[k])) }
VT operator<<(vec<T, N> a, int b) { typedef vec<T, N> V; LANES(V, k, (T)((typename arithmetic<T>::type)a[k] << b)) }
VT operator>>(vec<T, N> a, int b) { typedef vec<T, N> V; LANES(V, k, (T)(a[k] >> b)) }
MT operator<(vec<T, N> a, vec<T, N> b) { typedef vec<typename integer<sizeof(T)>::type, N> V; LANES(V, k, a[k] < b[k] ? -1 : 0) }
MT operator==(vec<T, N> a, vec<T, N> b) { typedef vec<typename integer<sizeof(T)>::type, N> V; LANES(V, k, a[k] == b[k] ? -1 : 0) }
MT operator!=(vec<T, N> a, vec<T, N> b) { typedef vec<typename integer<sizeof(T)>::type, N> V; LANES(V, k, a[k] != b[k] ? -1 : 0) }
template<class M, class T, int N> FN vec<T, N> choose(M m, vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, m[k] ? a[k] : b[k]) }
VT greater_of(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, a[k] > b[k] ? a[k] : b[k]) }
VT smaller_of(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, a[k] < b[k] ? a[k] : b[k]) }
template<class V, class F, int N> FN V converted(vec<F, N> a) { LANES(V, k, conversion<typename V::element, F>::of(a[k])) }
template<int N> FN vec<f32, N> muladd(vec<f32, N> a, vec<f32, N> b, vec<f32, N> c) { typedef vec<f32, N> V; LANES(V, k, fused(a[k], b[k], c[k])) }
template<class V> struct words_of { enum { count = V::words }; static FN_MEMBER u32 get(V v, int i) { return v.w[i]; } };
#define SCALAR(T) template<> struct words_of<T> { enum { count = (sizeof(T) + 3) / 4 }; \
    static FN_MEMBER u32 get(T v, int i) { return sizeof(T) == 8 ? (u32)(as_long(v) >> 32 * i) : as_word(v); } };
SCALAR(i8) SCALAR(u8) SCALAR(i16) SCALAR(u16) SCALAR(i32) SCALAR(u32) SCALAR(f32) SCALAR(i64) SCALAR(u64)
template<class V> struct from_words { static FN_MEMBER V make(const OWN u32 *w) { WORDS(V, i, w[i]) } };
#define SCALAR_FROM(T) template<> struct from_words<T> { static FN_MEMBER T make(const OWN u32 *w) { \
    return sizeof(T) == 8 ? long_as(kind<T>(), w[0] | (u64)w[sizeof(T) / 8] << 32) : word_as(kind<T>(), w[0]); } };
SCALAR_FROM(i8) SCALAR_FROM(u8) SCALAR_FROM(i16) SCALAR_FROM(u16) SCALAR_FROM(i32) SCALAR_FROM(u32) SCALAR_FROM(f32) SCALAR_FROM(i64)
SCALAR_FROM(u64)
template<class V, class F> FN V bits(F a) {
    u32 w[words_of<F>::count];
    _Pragma("unroll") for (int i = 0; i < words_of<F>::count; i++) w[i] = words_of<F>::get(a, i);
    return from_words<V>::make(w);
}
template<class V, int A> FN V load(const device u8 *at) {
    enum { n = words_of<V>::count, size = sizeof(V) };
    u32 w[n];
    if (size == 1) w[0] = *at;
    else if (size == 2) w[0] = A >= 2 ? *(const device u16 *)at : at[0] | (u32)at[1] << 8;
    else if (A >= 16 && n % 4 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 4) {
        quad q = ((const device quad *)at)[i / 4];
        w[i] = q.x, w[(i + 1) % n] = q.y, w[(i + 2) % n] = q.z, w[(i + 3) % n] = q.w;
    }
    else if (A >= 8 && n % 2 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 2) {
        pair q = ((const device pair *)at)[i / 2];
        w[i] = q.x, w[(i + 1) % n] = q.y;
    }
    else if (A >= 4) _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = ((const device u32 *)at)[i];
    else {
        if (A >= 2) _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = ((const device u16 *)at)[2 * i] | (u32)((const device u16 *)at)[2 * i + 1] << 16;
        else _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = at[4 * i] | (u32)at[4 * i + 1] << 8 | (u32)at[4 * i + 2] << 16 | (u32)at[4 * i + 3] << 24;
    }
    return from_words<V>::make(w);
}
template<int A, class V> FN void store(device u8 *at, V v) {
    enum { n = words_of<V>::count, size = sizeof(V) };
    u32 w[n];
    _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = words_of<V>::get(v, i);
    if (size == 1) *at = (u8)w[0];
    else if (size == 2 && A >= 2) *(device u16 *)at = (u16)w[0];
    else if (A >= 16 && n % 4 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 4) {
        quad q;
        q.x = w[i], q.y = w[(i + 1) % n], q.z = w[(i + 2) % n], q.w = w[(i + 3) % n];
        ((device quad *)at)[i / 4] = q;
    }
    else if (A >= 4 && size >= 4) _Pragma("unroll") for (int i = 0; i < n; i++) ((device u32 *)at)[i] = w[i];
    else if (A >= 2) _Pragma("unroll") for (int i = 0; i < size / 2; i++) ((device u16 *)at)[i] = (u16)(w[i / 2] >> 16 * (i % 2));
    else _Pragma("unroll") for (int i = 0; i < size; i++) at[i] = (u8)(w[i / 4] >> 8 * (i % 4));
}
template<class V, int A> FN V load(const thread u8 *at) {
    enum { n = words_of<V>::count, size = sizeof(V) };
    u32 w[n];
    if (size == 1) w[0] = *at;
    else if (size == 2) w[0] = A >= 2 ? *(const thread u16 *)at : at[0] | (u32)at[1] << 8;
    else if (A >= 16 && n % 4 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 4) {
        quad q = ((const thread quad *)at)[i / 4];
        w[i] = q.x, w[(i + 1) % n] = q.y, w[(i + 2) % n] = q.z, w[(i + 3) % n] = q.w;
    }
    else if (A >= 8 && n % 2 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 2) {
        pair q = ((const thread pair *)at)[i / 2];
        w[i] = q.x, w[(i + 1) % n] = q.y;
    }
    else if (A >= 4) _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = ((const thread u32 *)at)[i];
    else {
        if (A >= 2) _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = ((const thread u16 *)at)[2 * i] | (u32)((const thread u16 *)at)[2 * i + 1] << 16;
        else _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = at[4 * i] | (u32)at[4 * i + 1] << 8 | (u32)at[4 * i + 2] << 16 | (u32)at[4 * i + 3] << 24;
    }
    return from_words<V>::make(w);
}
template<int A, class V> FN void store(thread u8 *at, V v) {
    enum { n = words_of<V>::count, size = sizeof(V) };
    u32 w[n];
    _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = words_of<V>::get(v, i);
    if (size == 1) *at = (u8)w[0];
    else if (size == 2 && A >= 2) *(thread u16 *)at = (u16)w[0];
    else if (A >= 16 && n % 4 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 4) {
        quad q;
        q.x = w[i], q.y = w[(i + 1) % n], q.z = w[(i + 2) % n], q.w = w[(i + 3) % n];
        ((thread quad *)at)[i / 4] = q;
    }
    else if (A >= 4 && size >= 4) _Pragma("unroll") for (int i = 0; i < n; i++) ((thread u32 *)at)[i] = w[i];
    else if (A >= 2) _Pragma("unroll") for (int i = 0; i < size / 2; i++) ((thread u16 *)at)[i] = (u16)(w[i / 2] >> 16 * (i % 2));
    else _Pragma("unroll") for (int i = 0; i < size; i++) at[i] = (u8)(w[i / 4] >> 8 * (i % 4));
}
template<class V, int A> FN V load(const threadgroup u8 *at) {
    enum { n = words_of<V>::count, size = sizeof(V) };
    u32 w[n];
    if (size == 1) w[0] = *at;
    else if (size == 2) w[0] = A >= 2 ? *(const threadgroup u16 *)at : at[0] | (u32)at[1] << 8;
    else if (A >= 16 && n % 4 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 4) {
        quad q = ((const threadgroup quad *)at)[i / 4];
        w[i] = q.x, w[(i + 1) % n] = q.y, w[(i + 2) % n] = q.z, w[(i + 3) % n] = q.w;
    }
    else if (A >= 8 && n % 2 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 2) {
        pair q = ((const threadgroup pair *)at)[i / 2];
        w[i] = q.x, w[(i + 1) % n] = q.y;
    }
    else if (A >= 4) _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = ((const threadgroup u32 *)at)[i];
    else {
        if (A >= 2) _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = ((const threadgroup u16 *)at)[2 * i] | (u32)((const threadgroup u16 *)at)[2 * i + 1] << 16;
        else _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = at[4 * i] | (u32)at[4 * i + 1] << 8 | (u32)at[4 * i + 2] << 16 | (u32)at[4 * i + 3] << 24;
    }
    return from_words<V>::make(w);
}
template<int A, class V> FN void store(threadgroup u8 *at, V v) {
    enum { n = words_of<V>::count, size = sizeof(V) };
    u32 w[n];
    _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = words_of<V>::get(v, i);
    if (size == 1) *at = (u8)w[0];
    else if (size == 2 && A >= 2) *(threadgroup u16 *)at = (u16)w[0];
    else if (A >= 16 && n % 4 == 0) _Pragma("unroll") for (int i = 0; i < n; i += 4) {
        quad q;
        q.x = w[i], q.y = w[(i + 1) % n], q.z = w[(i + 2) % n], q.w = w[(i + 3) % n];
        ((threadgroup quad *)at)[i / 4] = q;
    }
    else if (A >= 4 && size >= 4) _Pragma("unroll") for (int i = 0; i < n; i++) ((threadgroup u32 *)at)[i] = w[i];
    else if (A >= 2) _Pragma("unroll") for (int i = 0; i < size / 2; i++) ((threadgroup u16 *)at)[i] = (u16)(w[i / 2] >> 16 * (i % 2));
    else _Pragma("unroll") for (int i = 0; i < size; i++) at[i] = (u8)(w[i / 4] >> 8 * (i % 4));
}
FN i32 dot4(i32 acc, vec<u8, 4> a, vec<i8, 4> b) { return dot4_unsigned(acc, a.w[0], b.w[0]); }
FN i32 dot4(i32 acc, vec<i8, 4> a, vec<i8, 4> b) { return dot4_signed(acc, a.w[0], b.w[0]); }
template<int N> FN vec<i32, N> dot4(vec<i32, N> acc, vec<u8, 4 * N> a, vec<i8, 4 * N> b) { typedef vec<i32, N> V; LANES(V, k, dot4_unsigned(acc[k], a.w[k], b.w[k])) }
template<int N> FN vec<i32, N> dot4(vec<i32, N> acc, vec<i8, 4 * N> a, vec<i8, 4 * N> b) { typedef vec<i32, N> V; LANES(V, k, dot4_signed(acc[k], a.w[k], b.w[k])) }
FN u32 looked_up(const OWN u32 *table, u32 at) {
    u32 low = at & 0x07070707, upper = (at & 0x08080808) >> 3, mask = upper * 255;
    low = (low | low >> 4) & 0x00ff00ff;
    low = (low | low >> 8) & 0xffff;
    return (bytes_chosen(table[0], table[1], low) & ~mask) | (bytes_chosen(table[2], table[3], low) & mask);
}
template<class T, class I, int N> FN vec<T, N> lookup(vec<T, 16> table, vec<I, N> at) { typedef vec<T, N> V; WORDS(V, i, looked_up(table.w, at.w[i])) }
template<class T> FN T lookup(vec<T, 16> table, u8 at) { return (T)looked_up(table.w, at); }
template<int D, int W, class T> FN T thread_xor(T x, i32 item, threadgroup u32 *exchange) {
    enum { n = words_of<T>::count };
    u32 w[n];
    if (D < 32) _Pragma("unroll") for (int i = 0; i < n; i++) w[i] = metal::simd_shuffle_xor(words_of<T>::get(x, i), (u16)D);
    else {
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (int i = 0; i < n; i++) exchange[n * item + i] = words_of<T>::get(x, i);
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        for (int i = 0; i < n; i++) w[i] = exchange[n * (item ^ D) + i];
    }
    return from_words<T>::make(w);
}
FN i64 floor_div(i64 a, i64 b) { if (!b) return 0; i64 q = a / b; return q - (a % b && (a < 0) != (b < 0)); }
FN i64 floor_mod(i64 a, i64 b) { return b ? a - floor_div(a, b) * b : 0; }
[[kernel, max_total_threads_per_threadgroup(256)]] void k03a8d548c849ea4c(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], device u8 *p6 [[buffer(6)]], device u8 *p7 [[buffer(7)]], device u8 *p8 [[buffer(8)]], device u8 *p9 [[buffer(9)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    alignas(16) threadgroup f32 l11[32];
    alignas(16) threadgroup i8 l12[32];
    const vec<i32, 4> v0 = make<vec<i32, 4>>(0, 0, 0, 0);
    const vec<u8, 16> v1 = make<vec<u8, 16>>(15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    const vec<u64, 2> v2 = make<vec<u64, 2>>(4L, 4L);
    const i32 tile = (i32)tile_at;
    {
        const i32 v3 = (i32)(item >> 4);
        const i32 v4 = (tile*32);
        const i32 v5 = (v3+v4);
        const i32 v6 = (item & 15);
        const i32 v7 = (v6*2);
        const f32 v8 = load<f32, 4>(((const device u8 *)p2 + (i64)(v6) * 4 + 0));
        const i32 v9 = (tile*8192);
        const i32 v10 = (v3*256);
        const i32 v11 = (v9+v10);
        const i32 v12 = (v6*16);
        const i32 v13 = (v11+v12);
        const i32 v14 = (v6*32);
        const vec<i8, 16> v15 = load<vec<i8, 16>, 16>(((const device u8 *)p3 + (i64)(v14) * 1 + 0));
        const i32 v16 = (v14+16);
        const vec<i8, 16> v17 = load<vec<i8, 16>, 16>(((const device u8 *)p3 + (i64)(v14) * 1 + 16));
        const i32 v18 = load<i32, 4>(((const device u8 *)p4 + (i64)(v6) * 4 + 0));
        const i32 v19 = (v18*8);
        const i32 v20 = (v6 < 1);
        const i32 v21 = (v20 ? 1 : 0);
        for (i32 n15 = 0; n15 < 2; n15++) {
            const i32 v22 = (n15*16);
            const i32 v23 = (v22+v3);
            const i32 v24 = (v22+v5);
            const f32 v25 = load<f32, 4>(((const device u8 *)p0 + (i64)(v24) * 4 + 0));
            const i32 v26 = (v24*32);
            const i32 v27 = (v26+v7);
            const u16 v28 = load<u16, 2>(((const device u8 *)p1 + (i64)(v27) * 1 + 0));
            const f32 v29 = float_of_half(v28);
            const f32 v30 = (v29*v8);
            const i32 v31 = (n15*4096);
            const i32 v32 = (v31+v13);
            const i32 v33 = (v32+8192);
            const vec<u8, 16> v34 = load<vec<u8, 16>, 16>(((const device u8 *)p1 + (i64)(v32) * 1 + 8192));
            const vec<u8, 16> v35 = (v34 & v1);
            const vec<i32, 4> v36 = dot4(v0, v35, v15);
            const vec<u64, 2> v37 = bits<vec<u64, 2>>(v34);
            const vec<u64, 2> v38 = (vec<u64, 2>)(v37 >> 4L);
            const vec<u8, 16> v39 = bits<vec<u8, 16>>(v38);
            const vec<u8, 16> v40 = (v39 & v1);
            const vec<i32, 4> v41 = dot4(v36, v40, v17);
            const vec<i32, 2> v42 = make<vec<i32, 2>>(v41[0], v41[1]);
            const vec<i32, 2> v43 = make<vec<i32, 2>>(v41[2], v41[3]);
            const vec<i32, 2> v44 = (v42+v43);
            const i32 v45 = v44[0];
            const i32 v46 = v44[1];
            const i32 v47 = (v45+v46);
            const i32 v48 = (v47-v19);
            const f32 v49 = (f32)v48;
            const f32 v50 = (v30*v49);
            const f32 v51 = thread_xor<8, 16>((f32)v50, item, exchange);
            const f32 v52 = (v51+v50);
            const f32 v53 = thread_xor<4, 16>((f32)v52, item, exchange);
            const f32 v54 = (v53+v52);
            const f32 v55 = thread_xor<2, 16>((f32)v54, item, exchange);
            const f32 v56 = (v55+v54);
            const f32 v57 = thread_xor<1, 16>((f32)v56, item, exchange);
            const f32 v58 = (v57+v56);
            const f32 v59 = (v25+v58);
            for (i32 n16 = 0; n16 < v21; n16++) {
                store<4>(((threadgroup u8 *)l11 + (i64)(v23) * 4 + 0), (f32)v59);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup);
        const i32 v60 = (i32)(item >> 5);
        const i32 v61 = (v60 < 1);
        const i32 v62 = (v61 ? 1 : 0);
        for (i32 n17 = 0; n17 < v62; n17++) {
            const i32 v63 = (item & 31);
            const f32 v64 = load<f32, 4>(((const threadgroup u8 *)l11 + (i64)(v63) * 4 + 0));
            const i32 v65 = (tile*128);
            const i32 v66 = (v63*4);
            const i32 v67 = (v65+v66);
            const f32 v68 = load<f32, 4>(((const device u8 *)p6 + (i64)(v67) * 1 + 0));
            const f32 v69 = (v64*v68);
            const i32 v70 = bits<i32>(v69);
            const i32 v71 = (v70 & 2147483647);
            const i32 v72 = thread_xor<16, 32>((i32)v71, item, exchange);
            const i32 v73 = (v72 > v71 ? v72 : v71);
            const i32 v74 = thread_xor<8, 32>((i32)v73, item, exchange);
            const i32 v75 = (v74 > v73 ? v74 : v73);
            const i32 v76 = thread_xor<4, 32>((i32)v75, item, exchange);
            const i32 v77 = (v76 > v75 ? v76 : v75);
            const i32 v78 = thread_xor<2, 32>((i32)v77, item, exchange);
            const i32 v79 = (v78 > v77 ? v78 : v77);
            const i32 v80 = thread_xor<1, 32>((i32)v79, item, exchange);
            const i32 v81 = (v80 > v79 ? v80 : v79);
            const f32 v82 = bits<f32>(v81);
            const f32 v83 = (v82/0x1.fcp+6f);
            const i32 v84 = (v63 < 1);
            const i32 v85 = (v84 ? 1 : 0);
            for (i32 n18 = 0; n18 < v85; n18++) {
                store<4>(((device u8 *)p5 + (i64)(tile) * 4 + 0), (f32)v83);
            }
        }
        for (i32 n19 = 0; n19 < v62; n19++) {
            const i32 v86 = (item & 31);
            const f32 v87 = load<f32, 4>(((const threadgroup u8 *)l11 + (i64)(v86) * 4 + 0));
            const i32 v88 = (tile*128);
            const i32 v89 = (v86*4);
            const i32 v90 = (v88+v89);
            const f32 v91 = load<f32, 4>(((const device u8 *)p6 + (i64)(v90) * 1 + 0));
            const f32 v92 = (v87*v91);
            const i32 v93 = bits<i32>(v92);
            const i32 v94 = (v93 & 2147483647);
            const i32 v95 = thread_xor<16, 32>((i32)v94, item, exchange);
            const i32 v96 = (v95 > v94 ? v95 : v94);
            const i32 v97 = thread_xor<8, 32>((i32)v96, item, exchange);
            const i32 v98 = (v97 > v96 ? v97 : v96);
            const i32 v99 = thread_xor<4, 32>((i32)v98, item, exchange);
            const i32 v100 = (v99 > v98 ? v99 : v98);
            const i32 v101 = thread_xor<2, 32>((i32)v100, item, exchange);
            const i32 v102 = (v101 > v100 ? v101 : v100);
            const i32 v103 = thread_xor<1, 32>((i32)v102, item, exchange);
            const i32 v104 = (v103 > v102 ? v103 : v102);
            const f32 v105 = bits<f32>(v104);
            const f32 v106 = (v105/0x1.fcp+6f);
            const i32 v107 = (0x0p+0f < v106);
            const f32 v108 = (0x1p+0f/v106);
            const f32 v109 = (v107 ? v108 : 0x0p+0f);
            const f32 v110 = (v92*v109);
            const f32 v111 = (f32)(-v110);
            const f32 v112 = (v110 > v111 ? v110 : v111);
            const i32 v113 = (v112 < 0x1p+22f);
            const f32 v114 = (v110+0x1.8p+23f);
            const f32 v115 = (v114-0x1.8p+23f);
            const f32 v116 = (v113 ? v115 : v110);
            const f32 v117 = (v116 > -0x1p+7f ? v116 : -0x1p+7f);
            const f32 v118 = (v117 < 0x1.fcp+6f ? v117 : 0x1.fcp+6f);
            const i32 v119 = (conversion<i32, f32>::of(v118));
            const i8 v120 = (i8)v119;
            const i8 v121 = (v120 > -127 ? v120 : -127);
            store<1>(((threadgroup u8 *)l12 + (i64)(v86) * 1 + 0), (i8)v121);
        }
        const i32 v122 = (i32)(item >> 3);
        const i32 v123 = (v122 < 1);
        const i32 v124 = (v123 ? 1 : 0);
        for (i32 n20 = 0; n20 < v124; n20++) {
            const i32 v125 = (item & 7);
            const i32 v126 = (v125*4);
            const vec<f32, 4> v127 = load<vec<f32, 4>, 16>(((const threadgroup u8 *)l11 + (i64)(v126) * 4 + 0));
            const f32 v128 = v127[3];
            const f32 v129 = v127[2];
            const f32 v130 = v127[1];
            const f32 v131 = v127[0];
            const f32 v132 = metal::fma(v131, v131, 0x0p+0f);
            const f32 v133 = metal::fma(v130, v130, v132);
            const f32 v134 = metal::fma(v129, v129, v133);
            const f32 v135 = metal::fma(v128, v128, v134);
            const f32 v136 = thread_xor<4, 8>((f32)v135, item, exchange);
            const f32 v137 = (v136+v135);
            const f32 v138 = thread_xor<2, 8>((f32)v137, item, exchange);
            const f32 v139 = (v138+v137);
            const f32 v140 = thread_xor<1, 8>((f32)v139, item, exchange);
            const f32 v141 = (v140+v139);
            const i32 v142 = (v125 < 1);
            const i32 v143 = (v142 ? 1 : 0);
            for (i32 n21 = 0; n21 < v143; n21++) {
                store<4>(((device u8 *)p7 + (i64)(tile) * 4 + 0), (f32)v141);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup);
        for (i32 n22 = 0; n22 < v62; n22++) {
            const i32 v144 = (item & 31);
            const i32 v145 = (v4+v144);
            const i8 v146 = load<i8, 1>(((const threadgroup u8 *)l12 + (i64)(v144) * 1 + 0));
            store<1>(((device u8 *)p8 + (i64)(v145) * 1 + 0), (i8)v146);
        }
        for (i32 n23 = 0; n23 < v62; n23++) {
            const i32 v147 = (tile*2);
            const i32 v148 = (v3 & 1);
            const i32 v149 = (v147+v148);
            const i32 v150 = (v148*16);
            const i32 v151 = (v150+v6);
            const i8 v152 = load<i8, 1>(((const threadgroup u8 *)l12 + (i64)(v151) * 1 + 0));
            const i32 v153 = (i32)v152;
            const i32 v154 = thread_xor<8, 16>((i32)v153, item, exchange);
            const i32 v155 = (v154+v153);
            const i32 v156 = thread_xor<4, 16>((i32)v155, item, exchange);
            const i32 v157 = (v156+v155);
            const i32 v158 = thread_xor<2, 16>((i32)v157, item, exchange);
            const i32 v159 = (v158+v157);
            const i32 v160 = thread_xor<1, 16>((i32)v159, item, exchange);
            const i32 v161 = (v160+v159);
            for (i32 n24 = 0; n24 < v21; n24++) {
                store<4>(((device u8 *)p9 + (i64)(v149) * 4 + 0), (i32)v161);
            }
        }
    }
}
[[kernel, max_total_threads_per_threadgroup(256)]] void k8246dc3b433bda13(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], device u8 *p6 [[buffer(6)]], device u8 *p7 [[buffer(7)]], device u8 *p8 [[buffer(8)]], device u8 *p9 [[buffer(9)]], device u8 *p10 [[buffer(10)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    alignas(16) threadgroup f32 l11[32];
    const vec<i32, 4> v0 = make<vec<i32, 4>>(0, 0, 0, 0);
    const vec<u8, 16> v1 = make<vec<u8, 16>>(15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    const vec<u64, 2> v2 = make<vec<u64, 2>>(4L, 4L);
    const i32 tile = (i32)tile_at;
    {
        const i32 v3 = (i32)(item >> 3);
        const i32 v4 = (tile*32);
        const i32 v5 = (v4+v3);
        const f32 v6 = load<f32, 4>(((const device u8 *)p0 + (i64)(v5) * 4 + 0));
        const i32 v7 = (v5*16);
        const i32 v8 = (item & 7);
        const i32 v9 = (v8*2);
        const i32 v10 = (v7+v9);
        const u16 v11 = load<u16, 2>(((const device u8 *)p1 + (i64)(v10) * 1 + 0));
        const f32 v12 = float_of_half(v11);
        const f32 v13 = load<f32, 4>(((const device u8 *)p2 + (i64)(v8) * 4 + 0));
        const f32 v14 = (v12*v13);
        const i32 v15 = (tile*4096);
        const i32 v16 = (v3*128);
        const i32 v17 = (v15+v16);
        const i32 v18 = (v8*16);
        const i32 v19 = (v17+v18);
        const i32 v20 = (v19+4096);
        const vec<u8, 16> v21 = load<vec<u8, 16>, 16>(((const device u8 *)p1 + (i64)(v19) * 1 + 4096));
        const vec<u8, 16> v22 = (v21 & v1);
        const i32 v23 = (v8*32);
        const vec<i8, 16> v24 = load<vec<i8, 16>, 16>(((const device u8 *)p3 + (i64)(v23) * 1 + 0));
        const vec<i32, 4> v25 = dot4(v0, v22, v24);
        const vec<u64, 2> v26 = bits<vec<u64, 2>>(v21);
        const vec<u64, 2> v27 = (vec<u64, 2>)(v26 >> 4L);
        const vec<u8, 16> v28 = bits<vec<u8, 16>>(v27);
        const vec<u8, 16> v29 = (v28 & v1);
        const i32 v30 = (v23+16);
        const vec<i8, 16> v31 = load<vec<i8, 16>, 16>(((const device u8 *)p3 + (i64)(v23) * 1 + 16));
        const vec<i32, 4> v32 = dot4(v25, v29, v31);
        const vec<i32, 2> v33 = make<vec<i32, 2>>(v32[0], v32[1]);
        const vec<i32, 2> v34 = make<vec<i32, 2>>(v32[2], v32[3]);
        const vec<i32, 2> v35 = (v33+v34);
        const i32 v36 = v35[0];
        const i32 v37 = v35[1];
        const i32 v38 = (v36+v37);
        const i32 v39 = load<i32, 4>(((const device u8 *)p4 + (i64)(v8) * 4 + 0));
        const i32 v40 = (v39*8);
        const i32 v41 = (v38-v40);
        const f32 v42 = (f32)v41;
        const f32 v43 = (v14*v42);
        const f32 v44 = thread_xor<4, 8>((f32)v43, item, exchange);
        const f32 v45 = (v44+v43);
        const f32 v46 = thread_xor<2, 8>((f32)v45, item, exchange);
        const f32 v47 = (v46+v45);
        const f32 v48 = thread_xor<1, 8>((f32)v47, item, exchange);
        const f32 v49 = (v48+v47);
        const f32 v50 = (v6+v49);
        const i32 v51 = (v8 < 1);
        const i32 v52 = (v51 ? 1 : 0);
        for (i32 n14 = 0; n14 < v52; n14++) {
            store<4>(((threadgroup u8 *)l11 + (i64)(v3) * 4 + 0), (f32)v50);
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup);
        const i32 v53 = (i32)(item >> 5);
        const i32 v54 = (v53 < 1);
        const i32 v55 = (v54 ? 1 : 0);
        for (i32 n15 = 0; n15 < v55; n15++) {
            const i32 v56 = (item & 31);
            const i32 v57 = (v4+v56);
            const f32 v58 = load<f32, 4>(((const threadgroup u8 *)l11 + (i64)(v56) * 4 + 0));
            store<4>(((device u8 *)p5 + (i64)(v57) * 4 + 0), (f32)v58);
        }
        for (i32 n16 = 0; n16 < v55; n16++) {
            const i32 v59 = (item & 31);
            const f32 v60 = load<f32, 4>(((const threadgroup u8 *)l11 + (i64)(v59) * 4 + 0));
            const i32 v61 = (tile*128);
            const i32 v62 = (v59*4);
            const i32 v63 = (v61+v62);
            const f32 v64 = load<f32, 4>(((const device u8 *)p7 + (i64)(v63) * 1 + 0));
            const f32 v65 = (v60*v64);
            const i32 v66 = bits<i32>(v65);
            const i32 v67 = (v66 & 2147483647);
            const i32 v68 = thread_xor<16, 32>((i32)v67, item, exchange);
            const i32 v69 = (v68 > v67 ? v68 : v67);
            const i32 v70 = thread_xor<8, 32>((i32)v69, item, exchange);
            const i32 v71 = (v70 > v69 ? v70 : v69);
            const i32 v72 = thread_xor<4, 32>((i32)v71, item, exchange);
            const i32 v73 = (v72 > v71 ? v72 : v71);
            const i32 v74 = thread_xor<2, 32>((i32)v73, item, exchange);
            const i32 v75 = (v74 > v73 ? v74 : v73);
            const i32 v76 = thread_xor<1, 32>((i32)v75, item, exchange);
            const i32 v77 = (v76 > v75 ? v76 : v75);
            const f32 v78 = bits<f32>(v77);
            const f32 v79 = (v78/0x1.fcp+6f);
            const i32 v80 = (v59 < 1);
            const i32 v81 = (v80 ? 1 : 0);
            for (i32 n17 = 0; n17 < v81; n17++) {
                store<4>(((device u8 *)p6 + (i64)(tile) * 4 + 0), (f32)v79);
            }
        }
        for (i32 n18 = 0; n18 < v55; n18++) {
            const i32 v82 = (item & 31);
            const i32 v83 = (v4+v82);
            const f32 v84 = load<f32, 4>(((const threadgroup u8 *)l11 + (i64)(v82) * 4 + 0));
            const i32 v85 = (tile*128);
            const i32 v86 = (v82*4);
            const i32 v87 = (v85+v86);
            const f32 v88 = load<f32, 4>(((const device u8 *)p7 + (i64)(v87) * 1 + 0));
            const f32 v89 = (v84*v88);
            const i32 v90 = bits<i32>(v89);
            const i32 v91 = (v90 & 2147483647);
            const i32 v92 = thread_xor<16, 32>((i32)v91, item, exchange);
            const i32 v93 = (v92 > v91 ? v92 : v91);
            const i32 v94 = thread_xor<8, 32>((i32)v93, item, exchange);
            const i32 v95 = (v94 > v93 ? v94 : v93);
            const i32 v96 = thread_xor<4, 32>((i32)v95, item, exchange);
            const i32 v97 = (v96 > v95 ? v96 : v95);
            const i32 v98 = thread_xor<2, 32>((i32)v97, item, exchange);
            const i32 v99 = (v98 > v97 ? v98 : v97);
            const i32 v100 = thread_xor<1, 32>((i32)v99, item, exchange);
            const i32 v101 = (v100 > v99 ? v100 : v99);
            const f32 v102 = bits<f32>(v101);
            const f32 v103 = (v102/0x1.fcp+6f);
            const i32 v104 = (0x0p+0f < v103);
            const f32 v105 = (0x1p+0f/v103);
            const f32 v106 = (v104 ? v105 : 0x0p+0f);
            const f32 v107 = (v89*v106);
            const f32 v108 = (f32)(-v107);
            const f32 v109 = (v107 > v108 ? v107 : v108);
            const i32 v110 = (v109 < 0x1p+22f);
            const f32 v111 = (v107+0x1.8p+23f);
            const f32 v112 = (v111-0x1.8p+23f);
            const f32 v113 = (v110 ? v112 : v107);
            const f32 v114 = (v113 > -0x1p+7f ? v113 : -0x1p+7f);
            const f32 v115 = (v114 < 0x1.fcp+6f ? v114 : 0x1.fcp+6f);
            const i32 v116 = (conversion<i32, f32>::of(v115));
            const i8 v117 = (i8)v116;
            const i8 v118 = (v117 > -127 ? v117 : -127);
            store<1>(((device u8 *)p8 + (i64)(v83) * 1 + 0), (i8)v118);
        }
        const i32 v119 = (v3 < 1);
        const i32 v120 = (v119 ? 1 : 0);
        for (i32 n19 = 0; n19 < v120; n19++) {
            const i32 v121 = (v8*4);
            const vec<f32, 4> v122 = load<vec<f32, 4>, 16>(((const threadgroup u8 *)l11 + (i64)(v121) * 4 + 0));
            const f32 v123 = v122[3];
            const f32 v124 = v122[2];
            const f32 v125 = v122[1];
            const f32 v126 = v122[0];
            const f32 v127 = metal::fma(v126, v126, 0x0p+0f);
            const f32 v128 = metal::fma(v125, v125, v127);
            const f32 v129 = metal::fma(v124, v124, v128);
            const f32 v130 = metal::fma(v123, v123, v129);
            const f32 v131 = thread_xor<4, 8>((f32)v130, item, exchange);
            const f32 v132 = (v131+v130);
            const f32 v133 = thread_xor<2, 8>((f32)v132, item, exchange);
            const f32 v134 = (v133+v132);
            const f32 v135 = thread_xor<1, 8>((f32)v134, item, exchange);
            const f32 v136 = (v135+v134);
            for (i32 n20 = 0; n20 < v52; n20++) {
                store<4>(((device u8 *)p9 + (i64)(tile) * 4 + 0), (f32)v136);
            }
        }
        for (i32 n21 = 0; n21 < v55; n21++) {
            const i32 v137 = (item & 31);
            const f32 v138 = load<f32, 4>(((const threadgroup u8 *)l11 + (i64)(v137) * 4 + 0));
            const i32 v139 = (tile*128);
            const i32 v140 = (v137*4);
            const i32 v141 = (v139+v140);
            const f32 v142 = load<f32, 4>(((const device u8 *)p7 + (i64)(v141) * 1 + 0));
            const f32 v143 = (v138*v142);
            const i32 v144 = bits<i32>(v143);
            const i32 v145 = (v144 & 2147483647);
            const i32 v146 = thread_xor<16, 32>((i32)v145, item, exchange);
            const i32 v147 = (v146 > v145 ? v146 : v145);
            const i32 v148 = thread_xor<8, 32>((i32)v147, item, exchange);
            const i32 v149 = (v148 > v147 ? v148 : v147);
            const i32 v150 = thread_xor<4, 32>((i32)v149, item, exchange);
            const i32 v151 = (v150 > v149 ? v150 : v149);
            const i32 v152 = thread_xor<2, 32>((i32)v151, item, exchange);
            const i32 v153 = (v152 > v151 ? v152 : v151);
            const i32 v154 = thread_xor<1, 32>((i32)v153, item, exchange);
            const i32 v155 = (v154 > v153 ? v154 : v153);
            const f32 v156 = bits<f32>(v155);
            const f32 v157 = (v156/0x1.fcp+6f);
            const i32 v158 = (0x0p+0f < v157);
            const f32 v159 = (0x1p+0f/v157);
            const f32 v160 = (v158 ? v159 : 0x0p+0f);
            const f32 v161 = (v143*v160);
            const f32 v162 = (f32)(-v161);
            const f32 v163 = (v161 > v162 ? v161 : v162);
            const i32 v164 = (v163 < 0x1p+22f);
            const f32 v165 = (v161+0x1.8p+23f);
            const f32 v166 = (v165-0x1.8p+23f);
            const f32 v167 = (v164 ? v166 : v161);
            const f32 v168 = (v167 > -0x1p+7f ? v167 : -0x1p+7f);
            const f32 v169 = (v168 < 0x1.fcp+6f ? v168 : 0x1.fcp+6f);
            const i32 v170 = (conversion<i32, f32>::of(v169));
            const i8 v171 = (i8)v170;
            const i8 v172 = (v171 > -127 ? v171 : -127);
            const i32 v173 = (i32)v172;
            const i32 v174 = thread_xor<16, 32>((i32)v173, item, exchange);
            const i32 v175 = (v174+v173);
            const i32 v176 = thread_xor<8, 32>((i32)v175, item, exchange);
            const i32 v177 = (v176+v175);
            const i32 v178 = thread_xor<4, 32>((i32)v177, item, exchange);
            const i32 v179 = (v178+v177);
            const i32 v180 = thread_xor<2, 32>((i32)v179, item, exchange);
            const i32 v181 = (v180+v179);
            const i32 v182 = thread_xor<1, 32>((i32)v181, item, exchange);
            const i32 v183 = (v182+v181);
            const i32 v184 = (v137 < 1);
            const i32 v185 = (v184 ? 1 : 0);
            for (i32 n22 = 0; n22 < v185; n22++) {
                store<4>(((device u8 *)p10 + (i64)(tile) * 4 + 0), (i32)v183);
            }
        }
    }
}
[[kernel, max_total_threads_per_threadgroup(32)]] void kaba5bcf4371c0023(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    vec<f32, 4> r16;
    const i32 v0 = load<i32, 16>(((const device u8 *)p2 + 0));
    const i32 v1 = load<i32, 16>(((const device u8 *)p5 + 0));
    const i32 v2 = (v1*64);
    const vec<f32, 4> v3 = make<vec<f32, 4>>(0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f);
    vec<f32, 4> r17;
    vec<f32, 4> r18;
    vec<f32, 4> r19;
    const i32 v4 = (i32)(v0 >> 6);
    const i32 tile = (i32)tile_at;
    {
        const i32 v5 = (tile / 8);
        const i32 v6 = (v4-v5);
        const i32 v7 = (v6+1);
        const i32 v8 = (v7 < 1 ? v7 : 1);
        const i32 v9 = (v8 > 0 ? v8 : 0);
        for (i32 n6 = 0; n6 < v9; n6++) {
            const i32 v10 = (i32)(item >> 4);
            const i32 v11 = (v10 < 1);
            const i32 v12 = (v11 ? 1 : 0);
            for (i32 n10 = 0; n10 < v12; n10++) {
                const i32 v13 = (tile / 4);
                const i32 v14 = (v13 % 2);
                const i32 v15 = (v14*8192);
                const i32 v16 = (v5*128);
                const i32 v17 = (v15+v16);
                const i32 v18 = (tile % 4);
                const i32 v19 = (v18*16);
                const i32 v20 = (v17+v19);
                const i32 v21 = (i32)(item >> 3);
                const i32 v22 = (v21 & 1);
                const i32 v23 = (v22*8);
                const i32 v24 = (v20+v23);
                const i32 v25 = (v5*64);
                const i32 v26 = (v0-v25);
                const i32 v27 = (v26+1);
                const i32 v28 = (v27 < 64 ? v27 : 64);
                const i32 v29 = (v28 > 0 ? v28 : 0);
                const i32 v30 = (item & 7);
                const i32 v31 = (v29-v30);
                const i32 v32 = (v31+7);
                const i32 v33 = (i32)(v32 >> 3);
                const i32 v34 = (v17+v30);
                const i32 v35 = (v2+v5);
                const i32 v36 = (v14*4096);
                const i32 v37 = (v30*64);
                const i32 v38 = (v19+v23);
                r16 = v3;
                r17 = v3;
                r18 = v3;
                r19 = v3;
                for (i32 n11 = 0; n11 < v33; n11++) {
                    const i32 v39 = (n11*512);
                    const i32 v40 = load<i32, 4>(((const device u8 *)p4 + (i64)(v35) * 4 + 0));
                    const i32 v41 = (v40*8192);
                    const i32 v42 = (v41+v36);
                    const i32 v43 = (v42+v37);
                    const i32 v44 = (v43+v38);
                    const i32 v45 = (v39+v44);
                    const vec<f32, 4> v46 = r16;
                    const i32 v47 = (n11*8);
                    const i32 v48 = (v47+v34);
                    const f32 v49 = load<f32, 4>(((const device u8 *)p1 + (i64)(v48) * 4 + 0));
                    const vec<f32, 4> v50 = make<vec<f32, 4>>(v49, v49, v49, v49);
                    const vec<u16, 8> v51 = load<vec<u16, 8>, 16>(((const device u8 *)p3 + (i64)(v45) * 2 + 0));
                    const vec<u16, 4> v52 = make<vec<u16, 4>>(v51[0], v51[1], v51[2], v51[3]);
                    const vec<f32, 4> v53 = make<vec<f32, 4>>(float_of_half(v52[0]), float_of_half(v52[1]), float_of_half(v52[2]), float_of_half(v52[3]));
                    const vec<f32, 4> v54 = muladd(v50, v53, v46);
                    r16 = v54;
                    const vec<f32, 4> v55 = r17;
                    const vec<u16, 4> v56 = make<vec<u16, 4>>(v51[4], v51[5], v51[6], v51[7]);
                    const vec<f32, 4> v57 = make<vec<f32, 4>>(float_of_half(v56[0]), float_of_half(v56[1]), float_of_half(v56[2]), float_of_half(v56[3]));
                    const vec<f32, 4> v58 = muladd(v50, v57, v55);
                    r17 = v58;
                    const vec<f32, 4> v59 = r18;
                    const i32 v60 = (v48+64);
                    const f32 v61 = load<f32, 4>(((const device u8 *)p1 + (i64)(v48) * 4 + 256));
                    const vec<f32, 4> v62 = make<vec<f32, 4>>(v61, v61, v61, v61);
                    const vec<f32, 4> v63 = muladd(v62, v53, v59);
                    r18 = v63;
                    const vec<f32, 4> v64 = r19;
                    const vec<f32, 4> v65 = muladd(v62, v57, v64);
                    r19 = v65;
                }
                const vec<f32, 4> v66 = r16;
                const vec<f32, 4> v67 = make<vec<f32, 4>>(thread_xor<4, 8>((f32)v66[0], item, exchange), thread_xor<4, 8>((f32)v66[1], item, exchange), thread_xor<4, 8>((f32)v66[2], item, exchange), thread_xor<4, 8>((f32)v66[3], item, exchange));
                const vec<f32, 4> v68 = (v67+v66);
                const vec<f32, 4> v69 = make<vec<f32, 4>>(thread_xor<2, 8>((f32)v68[0], item, exchange), thread_xor<2, 8>((f32)v68[1], item, exchange), thread_xor<2, 8>((f32)v68[2], item, exchange), thread_xor<2, 8>((f32)v68[3], item, exchange));
                const vec<f32, 4> v70 = (v69+v68);
                const vec<f32, 4> v71 = make<vec<f32, 4>>(thread_xor<1, 8>((f32)v70[0], item, exchange), thread_xor<1, 8>((f32)v70[1], item, exchange), thread_xor<1, 8>((f32)v70[2], item, exchange), thread_xor<1, 8>((f32)v70[3], item, exchange));
                const vec<f32, 4> v72 = (v71+v70);
                const i32 v73 = (v24+4);
                const vec<f32, 4> v74 = r17;
                const vec<f32, 4> v75 = make<vec<f32, 4>>(thread_xor<4, 8>((f32)v74[0], item, exchange), thread_xor<4, 8>((f32)v74[1], item, exchange), thread_xor<4, 8>((f32)v74[2], item, exchange), thread_xor<4, 8>((f32)v74[3], item, exchange));
                const vec<f32, 4> v76 = (v75+v74);
                const vec<f32, 4> v77 = make<vec<f32, 4>>(thread_xor<2, 8>((f32)v76[0], item, exchange), thread_xor<2, 8>((f32)v76[1], item, exchange), thread_xor<2, 8>((f32)v76[2], item, exchange), thread_xor<2, 8>((f32)v76[3], item, exchange));
                const vec<f32, 4> v78 = (v77+v76);
                const vec<f32, 4> v79 = make<vec<f32, 4>>(thread_xor<1, 8>((f32)v78[0], item, exchange), thread_xor<1, 8>((f32)v78[1], item, exchange), thread_xor<1, 8>((f32)v78[2], item, exchange), thread_xor<1, 8>((f32)v78[3], item, exchange));
                const vec<f32, 4> v80 = (v79+v78);
                const i32 v81 = (v24+64);
                const vec<f32, 4> v82 = r18;
                const vec<f32, 4> v83 = make<vec<f32, 4>>(thread_xor<4, 8>((f32)v82[0], item, exchange), thread_xor<4, 8>((f32)v82[1], item, exchange), thread_xor<4, 8>((f32)v82[2], item, exchange), thread_xor<4, 8>((f32)v82[3], item, exchange));
                const vec<f32, 4> v84 = (v83+v82);
                const vec<f32, 4> v85 = make<vec<f32, 4>>(thread_xor<2, 8>((f32)v84[0], item, exchange), thread_xor<2, 8>((f32)v84[1], item, exchange), thread_xor<2, 8>((f32)v84[2], item, exchange), thread_xor<2, 8>((f32)v84[3], item, exchange));
                const vec<f32, 4> v86 = (v85+v84);
                const vec<f32, 4> v87 = make<vec<f32, 4>>(thread_xor<1, 8>((f32)v86[0], item, exchange), thread_xor<1, 8>((f32)v86[1], item, exchange), thread_xor<1, 8>((f32)v86[2], item, exchange), thread_xor<1, 8>((f32)v86[3], item, exchange));
                const vec<f32, 4> v88 = (v87+v86);
                const i32 v89 = (v24+68);
                const vec<f32, 4> v90 = r19;
                const vec<f32, 4> v91 = make<vec<f32, 4>>(thread_xor<4, 8>((f32)v90[0], item, exchange), thread_xor<4, 8>((f32)v90[1], item, exchange), thread_xor<4, 8>((f32)v90[2], item, exchange), thread_xor<4, 8>((f32)v90[3], item, exchange));
                const vec<f32, 4> v92 = (v91+v90);
                const vec<f32, 4> v93 = make<vec<f32, 4>>(thread_xor<2, 8>((f32)v92[0], item, exchange), thread_xor<2, 8>((f32)v92[1], item, exchange), thread_xor<2, 8>((f32)v92[2], item, exchange), thread_xor<2, 8>((f32)v92[3], item, exchange));
                const vec<f32, 4> v94 = (v93+v92);
                const vec<f32, 4> v95 = make<vec<f32, 4>>(thread_xor<1, 8>((f32)v94[0], item, exchange), thread_xor<1, 8>((f32)v94[1], item, exchange), thread_xor<1, 8>((f32)v94[2], item, exchange), thread_xor<1, 8>((f32)v94[3], item, exchange));
                const vec<f32, 4> v96 = (v95+v94);
                const i32 v97 = (v30 < 1);
                const i32 v98 = (v97 ? 1 : 0);
                for (i32 n12 = 0; n12 < v98; n12++) {
                    store<16>(((device u8 *)p0 + (i64)(v24) * 4 + 0), v72);
                    store<16>(((device u8 *)p0 + (i64)(v24) * 4 + 16), v80);
                    store<16>(((device u8 *)p0 + (i64)(v24) * 4 + 256), v88);
                    store<16>(((device u8 *)p0 + (i64)(v24) * 4 + 272), v96);
                }
            }
        }
    }
}
[[kernel, max_total_threads_per_threadgroup(128)]] void kd9165b90962d3e1f(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    const vec<i32, 4> v0 = make<vec<i32, 4>>(0, 0, 0, 0);
    const vec<u8, 16> v1 = make<vec<u8, 16>>(15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    const vec<u64, 2> v2 = make<vec<u64, 2>>(4L, 4L);
    const vec<u8, 16> v3 = make<vec<u8, 16>>(48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48);
    const vec<i32, 2> v4 = make<vec<i32, 2>>(32, 32);
    f32 r14;
    r14 = 0x0p+0f;
    for (i32 n8 = 0; n8 < 2; n8++) {
        const i32 v5 = (n8*4);
        const vec<f32, 4> v6 = load<vec<f32, 4>, 16>(((const device u8 *)p5 + (i64)(v5) * 4 + 0));
        const f32 v7 = v6[3];
        const f32 v8 = v6[2];
        const f32 v9 = v6[1];
        const f32 v10 = v6[0];
        const f32 v11 = r14;
        const f32 v12 = (v10+v11);
        const f32 v13 = (v9+v12);
        const f32 v14 = (v8+v13);
        const f32 v15 = (v7+v14);
        r14 = v15;
    }
    const f32 v16 = r14;
    const f32 v17 = (v16*0x1p-8f);
    const f32 v18 = (v17+0x1.4f8b58p-17f);
    const f32 v19 = metal::sqrt(v18);
    const f32 v20 = (0x1p+0f/v19);
    const i32 tile = (i32)tile_at;
    {
        const i32 v21 = (tile*16);
        const i32 v22 = (i32)(item >> 3);
        const i32 v23 = (v21+v22);
        const i32 v24 = (v23*2);
        const i32 v25 = (v24+212992);
        const u16 v26 = load<u16, 2>(((const device u8 *)p1 + (i64)(v24) * 1 + 212992));
        const f32 v27 = float_of_half(v26);
        const i32 v28 = (item & 7);
        const i32 v29 = (i32)(v28 >> 2);
        const i32 v30 = (v29*4);
        const i32 v31 = (v28 & 3);
        const i32 v32 = (v30+v31);
        const f32 v33 = load<f32, 4>(((const device u8 *)p2 + (i64)(v32) * 4 + 0));
        const f32 v34 = (v27*v33);
        const i32 v35 = (tile*256);
        const i32 v36 = (v22*16);
        const i32 v37 = (v35+v36);
        const i32 v38 = (i32)(item >> 2);
        const i32 v39 = (v38 & 1);
        const i32 v40 = (v39*8);
        const i32 v41 = (v37+v40);
        const i32 v42 = (item & 3);
        const i32 v43 = (v42*2);
        const i32 v44 = (v41+v43);
        const i32 v45 = (v44+196608);
        const vec<u8, 2> v46 = load<vec<u8, 2>, 2>(((const device u8 *)p1 + (i64)(v44) * 1 + 196608));
        const vec<i8, 2> v47 = bits<vec<i8, 2>>(v46);
        const vec<i32, 2> v48 = converted<vec<i32, 2>>(v47);
        const i32 v49 = (tile*2048);
        const i32 v50 = (v22*128);
        const i32 v51 = (v49+v50);
        const i32 v52 = (v39*64);
        const i32 v53 = (v51+v52);
        const i32 v54 = (item & 1);
        const i32 v55 = (v54*32);
        const i32 v56 = (v53+v55);
        const vec<u8, 16> v57 = load<vec<u8, 16>, 16>(((const device u8 *)p1 + (i64)(v56) * 1 + 0));
        const vec<u64, 2> v58 = bits<vec<u64, 2>>(v57);
        const i32 v59 = (i32)(v42 >> 1);
        const i32 v60 = (v59*4);
        const u8 v61 = (u8)v60;
        const u64 v62 = (u64)v61;
        const vec<u64, 2> v63 = make<vec<u64, 2>>(v62, v62);
        const vec<u64, 2> v64 = (vec<u64, 2>)(v58 >> (u64)v62);
        const vec<u8, 16> v65 = bits<vec<u8, 16>>(v64);
        const vec<u8, 16> v66 = (v65 & v1);
        const i32 v67 = (tile*1024);
        const i32 v68 = (v22*64);
        const i32 v69 = (v67+v68);
        const i32 v70 = (v39*32);
        const i32 v71 = (v69+v70);
        const i32 v72 = (v71+131072);
        const vec<u8, 16> v73 = load<vec<u8, 16>, 16>(((const device u8 *)p1 + (i64)(v71) * 1 + 131072));
        const i32 v74 = (v31*2);
        const u8 v75 = (u8)v74;
        const vec<u8, 16> v76 = make<vec<u8, 16>>(v75, v75, v75, v75, v75, v75, v75, v75, v75, v75, v75, v75, v75, v75, v75, v75);
        const vec<u8, 16> v77 = (vec<u8, 16>)(v73 >> (u8)v75);
        const vec<u64, 2> v78 = bits<vec<u64, 2>>(v77);
        const vec<u64, 2> v79 = (vec<u64, 2>)(v78 << 4L);
        const vec<u8, 16> v80 = bits<vec<u8, 16>>(v79);
        const vec<u8, 16> v81 = (v80 & v3);
        const vec<u8, 16> v82 = (v66 | v81);
        const i32 v83 = (v39*128);
        const i32 v84 = (v42*32);
        const i32 v85 = (v83+v84);
        const vec<i8, 16> v86 = load<vec<i8, 16>, 16>(((const device u8 *)p3 + (i64)(v85) * 1 + 0));
        const vec<i32, 4> v87 = dot4(v0, v82, v86);
        const i32 v88 = (v56+16);
        const vec<u8, 16> v89 = load<vec<u8, 16>, 16>(((const device u8 *)p1 + (i64)(v56) * 1 + 16));
        const vec<u64, 2> v90 = bits<vec<u64, 2>>(v89);
        const vec<u64, 2> v91 = (vec<u64, 2>)(v90 >> (u64)v62);
        const vec<u8, 16> v92 = bits<vec<u8, 16>>(v91);
        const vec<u8, 16> v93 = (v92 & v1);
        const i32 v94 = (v72+16);
        const vec<u8, 16> v95 = load<vec<u8, 16>, 16>(((const device u8 *)p1 + (i64)(v71) * 1 + 131088));
        const vec<u8, 16> v96 = (vec<u8, 16>)(v95 >> (u8)v75);
        const vec<u64, 2> v97 = bits<vec<u64, 2>>(v96);
        const vec<u64, 2> v98 = (vec<u64, 2>)(v97 << 4L);
        const vec<u8, 16> v99 = bits<vec<u8, 16>>(v98);
        const vec<u8, 16> v100 = (v99 & v3);
        const vec<u8, 16> v101 = (v93 | v100);
        const i32 v102 = (v85+16);
        const vec<i8, 16> v103 = load<vec<i8, 16>, 16>(((const device u8 *)p3 + (i64)(v85) * 1 + 16));
        const vec<i32, 4> v104 = dot4(v0, v101, v103);
        const vec<i32, 4> v105 = make<vec<i32, 4>>(v87[0], v87[2], v104[0], v104[2]);
        const vec<i32, 4> v106 = make<vec<i32, 4>>(v87[1], v87[3], v104[1], v104[3]);
        const vec<i32, 4> v107 = (v105+v106);
        const vec<i32, 2> v108 = make<vec<i32, 2>>(v107[0], v107[2]);
        const vec<i32, 2> v109 = make<vec<i32, 2>>(v107[1], v107[3]);
        const vec<i32, 2> v110 = (v108+v109);
        const i32 v111 = (v40+v43);
        const vec<i32, 2> v112 = load<vec<i32, 2>, 8>(((const device u8 *)p4 + (i64)(v111) * 4 + 0));
        const vec<i32, 2> v113 = (v112*v4);
        const vec<i32, 2> v114 = (v110-v113);
        const vec<i32, 2> v115 = (v48*v114);
        const i32 v116 = v115[0];
        const i32 v117 = v115[1];
        const i32 v118 = (v116+v117);
        const f32 v119 = (f32)v118;
        const f32 v120 = (v34*v119);
        const f32 v121 = (v120*v20);
        const f32 v122 = thread_xor<4, 8>((f32)v121, item, exchange);
        const f32 v123 = (v122+v121);
        const f32 v124 = thread_xor<2, 8>((f32)v123, item, exchange);
        const f32 v125 = (v124+v123);
        const f32 v126 = thread_xor<1, 8>((f32)v125, item, exchange);
        const f32 v127 = (v126+v125);
        const i32 v128 = (v28 < 1);
        const i32 v129 = (v128 ? 1 : 0);
        for (i32 n9 = 0; n9 < v129; n9++) {
            store<4>(((device u8 *)p0 + (i64)(v23) * 4 + 0), (f32)v127);
        }
    }
}
[[kernel, max_total_threads_per_threadgroup(256)]] void kf6744955621eb62f(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], device u8 *p6 [[buffer(6)]], device u8 *p7 [[buffer(7)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    const i32 v0 = load<i32, 16>(((const device u8 *)p2 + 0));
    const i32 v1 = (v0*2);
    const i32 v2 = (v1+212992);
    const u16 v3 = load<u16, 2>(((const device u8 *)p1 + (i64)(v1) * 1 + 212992));
    const f32 v4 = float_of_half(v3);
    const i32 v5 = (v0*16);
    const i32 v6 = (v0*128);
    const i32 v7 = (v0*64);
    f32 r17;
    const i32 v8 = (i32)(item >> 5);
    const i32 v9 = (v8*32);
    const i32 v10 = (item & 31);
    const i32 v11 = (v9+v10);
    const i32 v12 = (v8*2);
    const i32 v13 = (v5+v12);
    const i32 v14 = (i32)(v10 >> 4);
    const i32 v15 = (v13+v14);
    const i32 v16 = (v15+196608);
    const u8 v17 = load<u8, 1>(((const device u8 *)p1 + (i64)(v15) * 1 + 196608));
    const i8 v18 = (i8)v17;
    const i32 v19 = (i32)v18;
    const f32 v20 = (f32)v19;
    const f32 v21 = (v4*v20);
    const i32 v22 = (i32)(v8 >> 2);
    const i32 v23 = (v22*64);
    const i32 v24 = (v6+v23);
    const i32 v25 = (v8 & 1);
    const i32 v26 = (v25*32);
    const i32 v27 = (v24+v26);
    const i32 v28 = (v27+v10);
    const u8 v29 = load<u8, 1>(((const device u8 *)p1 + (i64)(v28) * 1 + 0));
    const i32 v30 = (i32)(v8 >> 1);
    const i32 v31 = (v30 & 1);
    const i32 v32 = (v31*4);
    const u8 v33 = (u8)v32;
    const u8 v34 = (u8)(v29 >> v33);
    const u8 v35 = (v34 & 15);
    const i32 v36 = (v22*32);
    const i32 v37 = (v7+v36);
    const i32 v38 = (v37+v10);
    const i32 v39 = (v38+131072);
    const u8 v40 = load<u8, 1>(((const device u8 *)p1 + (i64)(v38) * 1 + 131072));
    const i32 v41 = (v8 & 3);
    const i32 v42 = (v41*2);
    const u8 v43 = (u8)v42;
    const u8 v44 = (u8)(v40 >> v43);
    const u8 v45 = (v44 & 3);
    const u8 v46 = (u8)(v45 << 4);
    const u8 v47 = (v35 | v46);
    const i32 v48 = (i32)v47;
    const f32 v49 = (f32)v48;
    const f32 v50 = (v49+-0x1p+5f);
    const f32 v51 = (v21*v50);
    store<4>(((device u8 *)p0 + (i64)(v11) * 4 + 0), (f32)v51);
    const i32 v52 = (i32)(item >> 6);
    const i32 v53 = (v52 & 1);
    const i32 v54 = (v53*4);
    const u8 v55 = (u8)v54;
    const u8 v56 = (u8)(v29 >> v55);
    const u8 v57 = (v56 & 15);
    const u8 v58 = (v57 | v46);
    const i32 v59 = (i32)v58;
    const f32 v60 = (f32)v59;
    const f32 v61 = (v60+-0x1p+5f);
    const f32 v62 = (v21*v61);
    const i32 v63 = (v8*128);
    const i32 v64 = (v10*4);
    const i32 v65 = (v63+v64);
    const f32 v66 = load<f32, 4>(((const device u8 *)p4 + (i64)(v65) * 1 + 0));
    const f32 v67 = (v62*v66);
    const i32 v68 = bits<i32>(v67);
    const i32 v69 = (v68 & 2147483647);
    const i32 v70 = thread_xor<16, 32>((i32)v69, item, exchange);
    const i32 v71 = (v70 > v69 ? v70 : v69);
    const i32 v72 = thread_xor<8, 32>((i32)v71, item, exchange);
    const i32 v73 = (v72 > v71 ? v72 : v71);
    const i32 v74 = thread_xor<4, 32>((i32)v73, item, exchange);
    const i32 v75 = (v74 > v73 ? v74 : v73);
    const i32 v76 = thread_xor<2, 32>((i32)v75, item, exchange);
    const i32 v77 = (v76 > v75 ? v76 : v75);
    const i32 v78 = thread_xor<1, 32>((i32)v77, item, exchange);
    const i32 v79 = (v78 > v77 ? v78 : v77);
    const f32 v80 = bits<f32>(v79);
    const f32 v81 = (v80/0x1.fcp+6f);
    const i32 v82 = (v10 < 1);
    const i32 v83 = (v82 ? 1 : 0);
    for (i32 n12 = 0; n12 < v83; n12++) {
        store<4>(((device u8 *)p3 + (i64)(v8) * 4 + 0), (f32)v81);
    }
    const i32 v84 = (0x0p+0f < v81);
    const f32 v85 = (0x1p+0f/v81);
    const f32 v86 = (v84 ? v85 : 0x0p+0f);
    const f32 v87 = (v67*v86);
    const f32 v88 = (f32)(-v87);
    const f32 v89 = (v87 > v88 ? v87 : v88);
    const i32 v90 = (v89 < 0x1p+22f);
    const f32 v91 = (v87+0x1.8p+23f);
    const f32 v92 = (v91-0x1.8p+23f);
    const f32 v93 = (v90 ? v92 : v87);
    const f32 v94 = (v93 > -0x1p+7f ? v93 : -0x1p+7f);
    const f32 v95 = (v94 < 0x1.fcp+6f ? v94 : 0x1.fcp+6f);
    const i32 v96 = (conversion<i32, f32>::of(v95));
    const i8 v97 = (i8)v96;
    const i8 v98 = (v97 > -127 ? v97 : -127);
    store<1>(((device u8 *)p5 + (i64)(v11) * 1 + 0), (i8)v98);
    const i32 v99 = (i32)(item >> 3);
    const i32 v100 = (v99 < 1);
    const i32 v101 = (v100 ? 1 : 0);
    for (i32 n13 = 0; n13 < v101; n13++) {
        const i32 v102 = (item & 7);
        const i32 v103 = (v102*2);
        const i32 v104 = (v5+v103);
        const i32 v105 = (i32)(v102 >> 2);
        const i32 v106 = (v105*64);
        const i32 v107 = (v6+v106);
        const i32 v108 = (v102 & 1);
        const i32 v109 = (v108*32);
        const i32 v110 = (v107+v109);
        const i32 v111 = (i32)(item >> 1);
        const i32 v112 = (v111 & 3);
        const i32 v113 = (v112 & 1);
        const i32 v114 = (v113*4);
        const u8 v115 = (u8)v114;
        const i32 v116 = (v105*32);
        const i32 v117 = (v7+v116);
        const i32 v118 = (v102 & 3);
        const i32 v119 = (v118*2);
        const u8 v120 = (u8)v119;
        r17 = 0x0p+0f;
        for (i32 n10 = 0; n10 < 32; n10++) {
            const i32 v121 = (i32)(n10 >> 4);
            const i32 v122 = (v104+v121);
            const f32 v123 = r17;
            const i32 v124 = (v122+196608);
            const u8 v125 = load<u8, 1>(((const device u8 *)p1 + (i64)(v122) * 1 + 196608));
            const i8 v126 = (i8)v125;
            const i32 v127 = (i32)v126;
            const f32 v128 = (f32)v127;
            const f32 v129 = (v4*v128);
            const i32 v130 = (v110+n10);
            const u8 v131 = load<u8, 1>(((const device u8 *)p1 + (i64)(v130) * 1 + 0));
            const u8 v132 = (u8)(v131 >> v115);
            const u8 v133 = (v132 & 15);
            const i32 v134 = (v117+n10);
            const i32 v135 = (v134+131072);
            const u8 v136 = load<u8, 1>(((const device u8 *)p1 + (i64)(v134) * 1 + 131072));
            const u8 v137 = (u8)(v136 >> v120);
            const u8 v138 = (v137 & 3);
            const u8 v139 = (u8)(v138 << 4);
            const u8 v140 = (v133 | v139);
            const i32 v141 = (i32)v140;
            const f32 v142 = (f32)v141;
            const f32 v143 = (v142+-0x1p+5f);
            const f32 v144 = (v129*v143);
            const f32 v145 = metal::fma(v144, v144, v123);
            r17 = v145;
        }
        const f32 v146 = r17;
        const f32 v147 = (v146*0x1p-8f);
        const f32 v148 = thread_xor<4, 8>((f32)v147, item, exchange);
        const f32 v149 = (v148+v147);
        const f32 v150 = thread_xor<2, 8>((f32)v149, item, exchange);
        const f32 v151 = (v150+v149);
        const f32 v152 = thread_xor<1, 8>((f32)v151, item, exchange);
        const f32 v153 = (v152+v151);
        const f32 v154 = (v153+0x1.4f8b58p-17f);
        const f32 v155 = metal::sqrt(v154);
        const f32 v156 = (0x1p+0f/v155);
        const i32 v157 = (v102 < 1);
        const i32 v158 = (v157 ? 1 : 0);
        for (i32 n14 = 0; n14 < v158; n14++) {
            store<16>(((device u8 *)p6 + 0), (f32)v156);
        }
    }
    const i32 v159 = (i32)v98;
    const i32 v160 = thread_xor<16, 32>((i32)v159, item, exchange);
    const i32 v161 = (v160+v159);
    const i32 v162 = thread_xor<8, 32>((i32)v161, item, exchange);
    const i32 v163 = (v162+v161);
    const i32 v164 = thread_xor<4, 32>((i32)v163, item, exchange);
    const i32 v165 = (v164+v163);
    const i32 v166 = thread_xor<2, 32>((i32)v165, item, exchange);
    const i32 v167 = (v166+v165);
    const i32 v168 = thread_xor<1, 32>((i32)v167, item, exchange);
    const i32 v169 = (v168+v167);
    for (i32 n15 = 0; n15 < v83; n15++) {
        store<4>(((device u8 *)p7 + (i64)(v8) * 4 + 0), (i32)v169);
    }
}

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
[[kernel, max_total_threads_per_threadgroup(256)]] void k0761d650cf3a3b37(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], device u8 *p6 [[buffer(6)]], device u8 *p7 [[buffer(7)]], device u8 *p8 [[buffer(8)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    const i32 v0 = load<i32, 16>(((const device u8 *)p2 + 0));
    const i32 v1 = (v0*210);
    const i32 v2 = (v1+208);
    const u16 v3 = load<u16, 2>(((const device u8 *)p1 + (i64)(v1) * 1 + 208));
    const f32 v4 = float_of_half(v3);
    const i32 v5 = (i32)(item >> 5);
    const i32 v6 = (v5*32);
    const i32 v7 = (item & 31);
    const i32 v8 = (v6+v7);
    const i32 v9 = (v5*2);
    const i32 v10 = (i32)(v7 >> 4);
    const i32 v11 = (v9+v10);
    const i32 v12 = (v1+v11);
    const i32 v13 = (v12+192);
    const u8 v14 = load<u8, 1>(((const device u8 *)p1 + (i64)(v12) * 1 + 192));
    const i8 v15 = (i8)v14;
    const i32 v16 = (i32)v15;
    const f32 v17 = (f32)v16;
    const f32 v18 = (v4*v17);
    const i32 v19 = (i32)(v5 >> 2);
    const i32 v20 = (v19*64);
    const i32 v21 = (v1+v20);
    const i32 v22 = (v5 & 1);
    const i32 v23 = (v22*32);
    const i32 v24 = (v23+v7);
    const i32 v25 = (v21+v24);
    const u8 v26 = load<u8, 1>(((const device u8 *)p1 + (i64)(v25) * 1 + 0));
    const i32 v27 = (i32)(v5 >> 1);
    const i32 v28 = (v27 & 1);
    const i32 v29 = (v28*4);
    const u8 v30 = (u8)v29;
    const u8 v31 = (u8)(v26 >> v30);
    const u8 v32 = (v31 & 15);
    const i32 v33 = (v19*32);
    const i32 v34 = (v1+v33);
    const i32 v35 = (v34+v7);
    const i32 v36 = (v35+128);
    const u8 v37 = load<u8, 1>(((const device u8 *)p1 + (i64)(v35) * 1 + 128));
    const i32 v38 = (v5 & 3);
    const i32 v39 = (v38*2);
    const u8 v40 = (u8)v39;
    const u8 v41 = (u8)(v37 >> v40);
    const u8 v42 = (v41 & 3);
    const u8 v43 = (u8)(v42 << 4);
    const u8 v44 = (v32 | v43);
    const i32 v45 = (i32)v44;
    const f32 v46 = (f32)v45;
    const f32 v47 = (v46+-0x1p+5f);
    const f32 v48 = (v18*v47);
    store<4>(((device u8 *)p0 + (i64)(v8) * 4 + 0), (f32)v48);
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    const f32 v49 = load<f32, 4>(((const device u8 *)p0 + (i64)(v8) * 4 + 0));
    const i32 v50 = (v5*128);
    const i32 v51 = (v7*4);
    const i32 v52 = (v50+v51);
    const f32 v53 = load<f32, 4>(((const device u8 *)p4 + (i64)(v52) * 1 + 0));
    const f32 v54 = (v49*v53);
    const i32 v55 = bits<i32>(v54);
    const i32 v56 = (v55 & 2147483647);
    const i32 v57 = thread_xor<16, 32>((i32)v56, item, exchange);
    const i32 v58 = (v57 > v56 ? v57 : v56);
    const i32 v59 = thread_xor<8, 32>((i32)v58, item, exchange);
    const i32 v60 = (v59 > v58 ? v59 : v58);
    const i32 v61 = thread_xor<4, 32>((i32)v60, item, exchange);
    const i32 v62 = (v61 > v60 ? v61 : v60);
    const i32 v63 = thread_xor<2, 32>((i32)v62, item, exchange);
    const i32 v64 = (v63 > v62 ? v63 : v62);
    const i32 v65 = thread_xor<1, 32>((i32)v64, item, exchange);
    const i32 v66 = (v65 > v64 ? v65 : v64);
    const f32 v67 = bits<f32>(v66);
    const f32 v68 = (v67/0x1.fcp+6f);
    const i32 v69 = (v7 < 1);
    const i32 v70 = (v69 ? 1 : 0);
    for (i32 n11 = 0; n11 < v70; n11++) {
        store<4>(((device u8 *)p3 + (i64)(v5) * 4 + 0), (f32)v68);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    const f32 v71 = load<f32, 4>(((const device u8 *)p0 + (i64)(v8) * 4 + 0));
    const f32 v72 = (v71*v53);
    const f32 v73 = load<f32, 4>(((const device u8 *)p3 + (i64)(v5) * 4 + 0));
    const i32 v74 = (0x0p+0f < v73);
    const f32 v75 = (0x1p+0f/v73);
    const f32 v76 = (v74 ? v75 : 0x0p+0f);
    const f32 v77 = (v72*v76);
    const f32 v78 = (f32)(-v77);
    const f32 v79 = (v77 > v78 ? v77 : v78);
    const i32 v80 = (v79 < 0x1p+22f);
    const f32 v81 = (v77+0x1.8p+23f);
    const f32 v82 = (v81-0x1.8p+23f);
    const f32 v83 = (v80 ? v82 : v77);
    const f32 v84 = (v83 > -0x1p+7f ? v83 : -0x1p+7f);
    const f32 v85 = (v84 < 0x1.fcp+6f ? v84 : 0x1.fcp+6f);
    const i32 v86 = (conversion<i32, f32>::of(v85));
    const i8 v87 = (i8)v86;
    const i8 v88 = (v87 > -127 ? v87 : -127);
    store<1>(((device u8 *)p5 + (i64)(v8) * 1 + 0), (i8)v88);
    const f32 v89 = (v71*v71);
    const f32 v90 = thread_xor<16, 32>((f32)v89, item, exchange);
    const f32 v91 = (v90+v89);
    const f32 v92 = thread_xor<8, 32>((f32)v91, item, exchange);
    const f32 v93 = (v92+v91);
    const f32 v94 = thread_xor<4, 32>((f32)v93, item, exchange);
    const f32 v95 = (v94+v93);
    const f32 v96 = thread_xor<2, 32>((f32)v95, item, exchange);
    const f32 v97 = (v96+v95);
    const f32 v98 = thread_xor<1, 32>((f32)v97, item, exchange);
    const f32 v99 = (v98+v97);
    for (i32 n12 = 0; n12 < v70; n12++) {
        store<4>(((device u8 *)p6 + (i64)(v5) * 4 + 0), (f32)v99);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_device);
    const i32 v100 = (i32)(item >> 3);
    const i32 v101 = (v100 < 1);
    const i32 v102 = (v101 ? 1 : 0);
    for (i32 n13 = 0; n13 < v102; n13++) {
        const i32 v103 = (item & 7);
        const f32 v104 = load<f32, 4>(((const device u8 *)p6 + (i64)(v103) * 4 + 0));
        const f32 v105 = (v104*0x1p-8f);
        const f32 v106 = thread_xor<4, 8>((f32)v105, item, exchange);
        const f32 v107 = (v106+v105);
        const f32 v108 = thread_xor<2, 8>((f32)v107, item, exchange);
        const f32 v109 = (v108+v107);
        const f32 v110 = thread_xor<1, 8>((f32)v109, item, exchange);
        const f32 v111 = (v110+v109);
        const f32 v112 = (v111+0x1.4f8b58p-17f);
        const f32 v113 = metal::sqrt(v112);
        const f32 v114 = (0x1p+0f/v113);
        const i32 v115 = (v103 < 1);
        const i32 v116 = (v115 ? 1 : 0);
        for (i32 n14 = 0; n14 < v116; n14++) {
            store<16>(((device u8 *)p7 + 0), (f32)v114);
        }
    }
    const i8 v117 = load<i8, 1>(((const device u8 *)p5 + (i64)(v8) * 1 + 0));
    const i32 v118 = (i32)v117;
    const i32 v119 = thread_xor<16, 32>((i32)v118, item, exchange);
    const i32 v120 = (v119+v118);
    const i32 v121 = thread_xor<8, 32>((i32)v120, item, exchange);
    const i32 v122 = (v121+v120);
    const i32 v123 = thread_xor<4, 32>((i32)v122, item, exchange);
    const i32 v124 = (v123+v122);
    const i32 v125 = thread_xor<2, 32>((i32)v124, item, exchange);
    const i32 v126 = (v125+v124);
    const i32 v127 = thread_xor<1, 32>((i32)v126, item, exchange);
    const i32 v128 = (v127+v126);
    for (i32 n15 = 0; n15 < v70; n15++) {
        store<4>(((device u8 *)p8 + (i64)(v5) * 4 + 0), (i32)v128);
    }
}
[[kernel, max_total_threads_per_threadgroup(128)]] void k1a544ae00f9aa79f(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    const vec<i32, 4> v0 = make<vec<i32, 4>>(0, 0, 0, 0);
    const vec<u8, 16> v1 = make<vec<u8, 16>>(15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    const vec<u64, 2> v2 = make<vec<u64, 2>>(4L, 4L);
    const vec<u8, 16> v3 = make<vec<u8, 16>>(48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48, 48);
    const vec<i32, 2> v4 = make<vec<i32, 2>>(32, 32);
    const i32 tile = (i32)tile_at;
    {
        const i32 v5 = (tile*16);
        const i32 v6 = (i32)(item >> 3);
        const i32 v7 = (v5+v6);
        const i32 v8 = (v7*210);
        const i32 v9 = (v8+208);
        const u16 v10 = load<u16, 2>(((const device u8 *)p1 + (i64)(v8) * 1 + 208));
        const f32 v11 = float_of_half(v10);
        const i32 v12 = (item & 7);
        const i32 v13 = (i32)(v12 >> 2);
        const i32 v14 = (v13*4);
        const i32 v15 = (v12 & 3);
        const i32 v16 = (v14+v15);
        const f32 v17 = load<f32, 4>(((const device u8 *)p2 + (i64)(v16) * 4 + 0));
        const f32 v18 = (v11*v17);
        const i32 v19 = (tile*3360);
        const i32 v20 = (v6*210);
        const i32 v21 = (v19+v20);
        const i32 v22 = (i32)(item >> 2);
        const i32 v23 = (v22 & 1);
        const i32 v24 = (v23*8);
        const i32 v25 = (v21+v24);
        const i32 v26 = (item & 3);
        const i32 v27 = (v26*2);
        const i32 v28 = (v25+v27);
        const i32 v29 = (v28+192);
        const vec<u8, 2> v30 = load<vec<u8, 2>, 2>(((const device u8 *)p1 + (i64)(v28) * 1 + 192));
        const vec<i8, 2> v31 = bits<vec<i8, 2>>(v30);
        const vec<i32, 2> v32 = converted<vec<i32, 2>>(v31);
        const i32 v33 = (v23*64);
        const i32 v34 = (v21+v33);
        const i32 v35 = (item & 1);
        const i32 v36 = (v35*32);
        const i32 v37 = (v34+v36);
        const vec<u8, 16> v38 = load<vec<u8, 16>, 2>(((const device u8 *)p1 + (i64)(v37) * 1 + 0));
        const vec<u64, 2> v39 = bits<vec<u64, 2>>(v38);
        const i32 v40 = (i32)(v26 >> 1);
        const i32 v41 = (v40*4);
        const u8 v42 = (u8)v41;
        const u64 v43 = (u64)v42;
        const vec<u64, 2> v44 = make<vec<u64, 2>>(v43, v43);
        const vec<u64, 2> v45 = (vec<u64, 2>)(v39 >> (u64)v43);
        const vec<u8, 16> v46 = bits<vec<u8, 16>>(v45);
        const vec<u8, 16> v47 = (v46 & v1);
        const i32 v48 = (v23*32);
        const i32 v49 = (v21+v48);
        const i32 v50 = (v49+128);
        const vec<u8, 16> v51 = load<vec<u8, 16>, 2>(((const device u8 *)p1 + (i64)(v49) * 1 + 128));
        const i32 v52 = (v15*2);
        const u8 v53 = (u8)v52;
        const vec<u8, 16> v54 = make<vec<u8, 16>>(v53, v53, v53, v53, v53, v53, v53, v53, v53, v53, v53, v53, v53, v53, v53, v53);
        const vec<u8, 16> v55 = (vec<u8, 16>)(v51 >> (u8)v53);
        const vec<u64, 2> v56 = bits<vec<u64, 2>>(v55);
        const vec<u64, 2> v57 = (vec<u64, 2>)(v56 << 4L);
        const vec<u8, 16> v58 = bits<vec<u8, 16>>(v57);
        const vec<u8, 16> v59 = (v58 & v3);
        const vec<u8, 16> v60 = (v47 | v59);
        const i32 v61 = (v23*128);
        const i32 v62 = (v26*32);
        const i32 v63 = (v61+v62);
        const vec<i8, 16> v64 = load<vec<i8, 16>, 16>(((const device u8 *)p3 + (i64)(v63) * 1 + 0));
        const vec<i32, 4> v65 = dot4(v0, v60, v64);
        const i32 v66 = (v37+16);
        const vec<u8, 16> v67 = load<vec<u8, 16>, 2>(((const device u8 *)p1 + (i64)(v37) * 1 + 16));
        const vec<u64, 2> v68 = bits<vec<u64, 2>>(v67);
        const vec<u64, 2> v69 = (vec<u64, 2>)(v68 >> (u64)v43);
        const vec<u8, 16> v70 = bits<vec<u8, 16>>(v69);
        const vec<u8, 16> v71 = (v70 & v1);
        const i32 v72 = (v50+16);
        const vec<u8, 16> v73 = load<vec<u8, 16>, 2>(((const device u8 *)p1 + (i64)(v49) * 1 + 144));
        const vec<u8, 16> v74 = (vec<u8, 16>)(v73 >> (u8)v53);
        const vec<u64, 2> v75 = bits<vec<u64, 2>>(v74);
        const vec<u64, 2> v76 = (vec<u64, 2>)(v75 << 4L);
        const vec<u8, 16> v77 = bits<vec<u8, 16>>(v76);
        const vec<u8, 16> v78 = (v77 & v3);
        const vec<u8, 16> v79 = (v71 | v78);
        const i32 v80 = (v63+16);
        const vec<i8, 16> v81 = load<vec<i8, 16>, 16>(((const device u8 *)p3 + (i64)(v63) * 1 + 16));
        const vec<i32, 4> v82 = dot4(v0, v79, v81);
        const vec<i32, 4> v83 = make<vec<i32, 4>>(v65[0], v65[2], v82[0], v82[2]);
        const vec<i32, 4> v84 = make<vec<i32, 4>>(v65[1], v65[3], v82[1], v82[3]);
        const vec<i32, 4> v85 = (v83+v84);
        const vec<i32, 2> v86 = make<vec<i32, 2>>(v85[0], v85[2]);
        const vec<i32, 2> v87 = make<vec<i32, 2>>(v85[1], v85[3]);
        const vec<i32, 2> v88 = (v86+v87);
        const i32 v89 = (v24+v27);
        const vec<i32, 2> v90 = load<vec<i32, 2>, 8>(((const device u8 *)p4 + (i64)(v89) * 4 + 0));
        const vec<i32, 2> v91 = (v90*v4);
        const vec<i32, 2> v92 = (v88-v91);
        const vec<i32, 2> v93 = (v32*v92);
        const i32 v94 = v93[0];
        const i32 v95 = v93[1];
        const i32 v96 = (v94+v95);
        const f32 v97 = (f32)v96;
        const f32 v98 = (v18*v97);
        const f32 v99 = thread_xor<4, 8>((f32)v98, item, exchange);
        const f32 v100 = (v99+v98);
        const f32 v101 = thread_xor<2, 8>((f32)v100, item, exchange);
        const f32 v102 = (v101+v100);
        const f32 v103 = thread_xor<1, 8>((f32)v102, item, exchange);
        const f32 v104 = (v103+v102);
        const f32 v105 = load<f32, 4>(((const device u8 *)p5 + (i64)(v12) * 4 + 0));
        const f32 v106 = (v105*0x1p-8f);
        const f32 v107 = thread_xor<4, 8>((f32)v106, item, exchange);
        const f32 v108 = (v107+v106);
        const f32 v109 = thread_xor<2, 8>((f32)v108, item, exchange);
        const f32 v110 = (v109+v108);
        const f32 v111 = thread_xor<1, 8>((f32)v110, item, exchange);
        const f32 v112 = (v111+v110);
        const f32 v113 = (v112+0x1.4f8b58p-17f);
        const f32 v114 = metal::sqrt(v113);
        const f32 v115 = (0x1p+0f/v114);
        const f32 v116 = (v104*v115);
        const i32 v117 = (v12 < 1);
        const i32 v118 = (v117 ? 1 : 0);
        for (i32 n7 = 0; n7 < v118; n7++) {
            store<4>(((device u8 *)p0 + (i64)(v7) * 4 + 0), (f32)v116);
        }
    }
}
[[kernel, max_total_threads_per_threadgroup(256)]] void k4be72d5569a5b1ba(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], device u8 *p6 [[buffer(6)]], device u8 *p7 [[buffer(7)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    f32 r14;
    const i32 v0 = load<i32, 16>(((const device u8 *)p2 + 0));
    const i32 v1 = (i32)(v0 >> 6);
    const i32 tile = (i32)tile_at;
    {
        const i32 v2 = (tile*32);
        const i32 v3 = (i32)(item >> 3);
        const i32 v4 = (v2+v3);
        const i32 v5 = (item & 7);
        const i32 v6 = (v1-v5);
        const i32 v7 = (i32)(v6 >> 3);
        const i32 v8 = (v7+1);
        const i32 v9 = (i32)(tile >> 2);
        const i32 v10 = (v9*128);
        const i32 v11 = (i32)(tile >> 1);
        const i32 v12 = (v11 & 1);
        const i32 v13 = (v10+v12);
        const i32 v14 = (v9*8192);
        const i32 v15 = (tile & 3);
        const i32 v16 = (v15*32);
        const i32 v17 = (v14+v16);
        const i32 v18 = (v17+v3);
        r14 = 0x0p+0f;
        for (i32 n6 = 0; n6 < v8; n6++) {
            const i32 v19 = (n6*8);
            const i32 v20 = (v19+v5);
            const i32 v21 = (v20*2);
            const i32 v22 = (v21+v13);
            const f32 v23 = load<f32, 4>(((const device u8 *)p1 + (i64)(v22) * 4 + 0));
            const i32 v24 = (v20*128);
            const i32 v25 = (v24+v18);
            const f32 v26 = load<f32, 4>(((const device u8 *)p3 + (i64)(v25) * 4 + 0));
            const f32 v27 = r14;
            const f32 v28 = metal::fma(v23, v26, v27);
            r14 = v28;
        }
        const f32 v29 = r14;
        const f32 v30 = thread_xor<4, 8>((f32)v29, item, exchange);
        const f32 v31 = (v30+v29);
        const f32 v32 = thread_xor<2, 8>((f32)v31, item, exchange);
        const f32 v33 = (v32+v31);
        const f32 v34 = thread_xor<1, 8>((f32)v33, item, exchange);
        const f32 v35 = (v34+v33);
        const f32 v36 = load<f32, 4>(((const device u8 *)p4 + (i64)(v11) * 4 + 0));
        const i32 v37 = (0x0p+0f < v36);
        const f32 v38 = (v37 ? v36 : 0x1p+0f);
        const f32 v39 = (v35/v38);
        const i32 v40 = (v5 < 1);
        const i32 v41 = (v40 ? 1 : 0);
        for (i32 n7 = 0; n7 < v41; n7++) {
            store<4>(((device u8 *)p0 + (i64)(v4) * 4 + 0), (f32)v39);
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        const i32 v42 = (i32)(item >> 5);
        const i32 v43 = (v42 < 1);
        const i32 v44 = (v43 ? 1 : 0);
        for (i32 n8 = 0; n8 < v44; n8++) {
            const i32 v45 = (item & 31);
            const i32 v46 = (v2+v45);
            const f32 v47 = load<f32, 4>(((const device u8 *)p0 + (i64)(v46) * 4 + 0));
            const i32 v48 = bits<i32>(v47);
            const i32 v49 = (v48 & 2147483647);
            const i32 v50 = thread_xor<16, 32>((i32)v49, item, exchange);
            const i32 v51 = (v50 > v49 ? v50 : v49);
            const i32 v52 = thread_xor<8, 32>((i32)v51, item, exchange);
            const i32 v53 = (v52 > v51 ? v52 : v51);
            const i32 v54 = thread_xor<4, 32>((i32)v53, item, exchange);
            const i32 v55 = (v54 > v53 ? v54 : v53);
            const i32 v56 = thread_xor<2, 32>((i32)v55, item, exchange);
            const i32 v57 = (v56 > v55 ? v56 : v55);
            const i32 v58 = thread_xor<1, 32>((i32)v57, item, exchange);
            const i32 v59 = (v58 > v57 ? v58 : v57);
            const f32 v60 = bits<f32>(v59);
            const f32 v61 = (v60/0x1.fcp+6f);
            const i32 v62 = (v45 < 1);
            const i32 v63 = (v62 ? 1 : 0);
            for (i32 n9 = 0; n9 < v63; n9++) {
                store<4>(((device u8 *)p5 + (i64)(tile) * 4 + 0), (f32)v61);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        for (i32 n10 = 0; n10 < v44; n10++) {
            const i32 v64 = (item & 31);
            const i32 v65 = (v2+v64);
            const f32 v66 = load<f32, 4>(((const device u8 *)p0 + (i64)(v65) * 4 + 0));
            const f32 v67 = load<f32, 4>(((const device u8 *)p5 + (i64)(tile) * 4 + 0));
            const i32 v68 = (0x0p+0f < v67);
            const f32 v69 = (0x1p+0f/v67);
            const f32 v70 = (v68 ? v69 : 0x0p+0f);
            const f32 v71 = (v66*v70);
            const f32 v72 = (f32)(-v71);
            const f32 v73 = (v71 > v72 ? v71 : v72);
            const i32 v74 = (v73 < 0x1p+22f);
            const f32 v75 = (v71+0x1.8p+23f);
            const f32 v76 = (v75-0x1.8p+23f);
            const f32 v77 = (v74 ? v76 : v71);
            const f32 v78 = (v77 > -0x1p+7f ? v77 : -0x1p+7f);
            const f32 v79 = (v78 < 0x1.fcp+6f ? v78 : 0x1.fcp+6f);
            const i32 v80 = (conversion<i32, f32>::of(v79));
            const i8 v81 = (i8)v80;
            const i8 v82 = (v81 > -127 ? v81 : -127);
            store<1>(((device u8 *)p6 + (i64)(v65) * 1 + 0), (i8)v82);
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        for (i32 n11 = 0; n11 < v44; n11++) {
            const i32 v83 = (item & 31);
            const i32 v84 = (v2+v83);
            const i8 v85 = load<i8, 1>(((const device u8 *)p6 + (i64)(v84) * 1 + 0));
            const i32 v86 = (i32)v85;
            const i32 v87 = thread_xor<16, 32>((i32)v86, item, exchange);
            const i32 v88 = (v87+v86);
            const i32 v89 = thread_xor<8, 32>((i32)v88, item, exchange);
            const i32 v90 = (v89+v88);
            const i32 v91 = thread_xor<4, 32>((i32)v90, item, exchange);
            const i32 v92 = (v91+v90);
            const i32 v93 = thread_xor<2, 32>((i32)v92, item, exchange);
            const i32 v94 = (v93+v92);
            const i32 v95 = thread_xor<1, 32>((i32)v94, item, exchange);
            const i32 v96 = (v95+v94);
            const i32 v97 = (v83 < 1);
            const i32 v98 = (v97 ? 1 : 0);
            for (i32 n12 = 0; n12 < v98; n12++) {
                store<4>(((device u8 *)p7 + (i64)(tile) * 4 + 0), (i32)v96);
            }
        }
    }
}
[[kernel, max_total_threads_per_threadgroup(256)]] void k58dc0afe5635fc29(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], device u8 *p6 [[buffer(6)]], device u8 *p7 [[buffer(7)]], device u8 *p8 [[buffer(8)]], device u8 *p9 [[buffer(9)]], device u8 *p10 [[buffer(10)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    const vec<i32, 4> v0 = make<vec<i32, 4>>(0, 0, 0, 0);
    const vec<u8, 16> v1 = make<vec<u8, 16>>(15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    const vec<u64, 2> v2 = make<vec<u64, 2>>(4L, 4L);
    const i32 tile = (i32)tile_at;
    {
        const i32 v3 = (i32)(item >> 4);
        const i32 v4 = (tile*32);
        const i32 v5 = (v3+v4);
        const i32 v6 = (tile*9216);
        const i32 v7 = (v3*288);
        const i32 v8 = (v6+v7);
        const i32 v9 = (item & 15);
        const i32 v10 = (v9*18);
        const i32 v11 = (v8+v10);
        const f32 v12 = load<f32, 4>(((const device u8 *)p3 + (i64)(v9) * 4 + 0));
        const i32 v13 = (v9*32);
        const vec<i8, 16> v14 = load<vec<i8, 16>, 16>(((const device u8 *)p4 + (i64)(v13) * 1 + 0));
        const i32 v15 = (v13+16);
        const vec<i8, 16> v16 = load<vec<i8, 16>, 16>(((const device u8 *)p4 + (i64)(v13) * 1 + 16));
        const i32 v17 = load<i32, 4>(((const device u8 *)p5 + (i64)(v9) * 4 + 0));
        const i32 v18 = (v17*8);
        const i32 v19 = (v9 < 1);
        const i32 v20 = (v19 ? 1 : 0);
        for (i32 n8 = 0; n8 < 2; n8++) {
            const i32 v21 = (n8*16);
            const i32 v22 = (v21+v5);
            const f32 v23 = load<f32, 4>(((const device u8 *)p1 + (i64)(v22) * 4 + 0));
            const i32 v24 = (n8*4608);
            const i32 v25 = (v24+v11);
            const u16 v26 = load<u16, 2>(((const device u8 *)p2 + (i64)(v25) * 1 + 0));
            const f32 v27 = float_of_half(v26);
            const f32 v28 = (v27*v12);
            const i32 v29 = (v25+2);
            const vec<u8, 16> v30 = load<vec<u8, 16>, 2>(((const device u8 *)p2 + (i64)(v25) * 1 + 2));
            const vec<u8, 16> v31 = (v30 & v1);
            const vec<i32, 4> v32 = dot4(v0, v31, v14);
            const vec<u64, 2> v33 = bits<vec<u64, 2>>(v30);
            const vec<u64, 2> v34 = (vec<u64, 2>)(v33 >> 4L);
            const vec<u8, 16> v35 = bits<vec<u8, 16>>(v34);
            const vec<u8, 16> v36 = (v35 & v1);
            const vec<i32, 4> v37 = dot4(v0, v36, v16);
            const vec<i32, 4> v38 = (v32+v37);
            const vec<i32, 2> v39 = make<vec<i32, 2>>(v38[0], v38[1]);
            const vec<i32, 2> v40 = make<vec<i32, 2>>(v38[2], v38[3]);
            const vec<i32, 2> v41 = (v39+v40);
            const i32 v42 = v41[0];
            const i32 v43 = v41[1];
            const i32 v44 = (v42+v43);
            const i32 v45 = (v44-v18);
            const f32 v46 = (f32)v45;
            const f32 v47 = (v28*v46);
            const f32 v48 = thread_xor<8, 16>((f32)v47, item, exchange);
            const f32 v49 = (v48+v47);
            const f32 v50 = thread_xor<4, 16>((f32)v49, item, exchange);
            const f32 v51 = (v50+v49);
            const f32 v52 = thread_xor<2, 16>((f32)v51, item, exchange);
            const f32 v53 = (v52+v51);
            const f32 v54 = thread_xor<1, 16>((f32)v53, item, exchange);
            const f32 v55 = (v54+v53);
            const f32 v56 = (v23+v55);
            for (i32 n9 = 0; n9 < v20; n9++) {
                store<4>(((device u8 *)p0 + (i64)(v22) * 4 + 0), (f32)v56);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        const i32 v57 = (i32)(item >> 5);
        const i32 v58 = (v57 < 1);
        const i32 v59 = (v58 ? 1 : 0);
        for (i32 n10 = 0; n10 < v59; n10++) {
            const i32 v60 = (item & 31);
            const i32 v61 = (v4+v60);
            const f32 v62 = load<f32, 4>(((const device u8 *)p0 + (i64)(v61) * 4 + 0));
            const i32 v63 = (tile*128);
            const i32 v64 = (v60*4);
            const i32 v65 = (v63+v64);
            const f32 v66 = load<f32, 4>(((const device u8 *)p7 + (i64)(v65) * 1 + 0));
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
            const i32 v82 = (v60 < 1);
            const i32 v83 = (v82 ? 1 : 0);
            for (i32 n11 = 0; n11 < v83; n11++) {
                store<4>(((device u8 *)p6 + (i64)(tile) * 4 + 0), (f32)v81);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        for (i32 n12 = 0; n12 < v59; n12++) {
            const i32 v84 = (item & 31);
            const i32 v85 = (v4+v84);
            const f32 v86 = load<f32, 4>(((const device u8 *)p0 + (i64)(v85) * 4 + 0));
            const i32 v87 = (tile*128);
            const i32 v88 = (v84*4);
            const i32 v89 = (v87+v88);
            const f32 v90 = load<f32, 4>(((const device u8 *)p7 + (i64)(v89) * 1 + 0));
            const f32 v91 = (v86*v90);
            const f32 v92 = load<f32, 4>(((const device u8 *)p6 + (i64)(tile) * 4 + 0));
            const i32 v93 = (0x0p+0f < v92);
            const f32 v94 = (0x1p+0f/v92);
            const f32 v95 = (v93 ? v94 : 0x0p+0f);
            const f32 v96 = (v91*v95);
            const f32 v97 = (f32)(-v96);
            const f32 v98 = (v96 > v97 ? v96 : v97);
            const i32 v99 = (v98 < 0x1p+22f);
            const f32 v100 = (v96+0x1.8p+23f);
            const f32 v101 = (v100-0x1.8p+23f);
            const f32 v102 = (v99 ? v101 : v96);
            const f32 v103 = (v102 > -0x1p+7f ? v102 : -0x1p+7f);
            const f32 v104 = (v103 < 0x1.fcp+6f ? v103 : 0x1.fcp+6f);
            const i32 v105 = (conversion<i32, f32>::of(v104));
            const i8 v106 = (i8)v105;
            const i8 v107 = (v106 > -127 ? v106 : -127);
            store<1>(((device u8 *)p8 + (i64)(v85) * 1 + 0), (i8)v107);
        }
        for (i32 n13 = 0; n13 < v59; n13++) {
            const i32 v108 = (item & 31);
            const i32 v109 = (v4+v108);
            const f32 v110 = load<f32, 4>(((const device u8 *)p0 + (i64)(v109) * 4 + 0));
            const f32 v111 = (v110*v110);
            const f32 v112 = thread_xor<16, 32>((f32)v111, item, exchange);
            const f32 v113 = (v112+v111);
            const f32 v114 = thread_xor<8, 32>((f32)v113, item, exchange);
            const f32 v115 = (v114+v113);
            const f32 v116 = thread_xor<4, 32>((f32)v115, item, exchange);
            const f32 v117 = (v116+v115);
            const f32 v118 = thread_xor<2, 32>((f32)v117, item, exchange);
            const f32 v119 = (v118+v117);
            const f32 v120 = thread_xor<1, 32>((f32)v119, item, exchange);
            const f32 v121 = (v120+v119);
            const i32 v122 = (v108 < 1);
            const i32 v123 = (v122 ? 1 : 0);
            for (i32 n14 = 0; n14 < v123; n14++) {
                store<4>(((device u8 *)p9 + (i64)(tile) * 4 + 0), (f32)v121);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        for (i32 n15 = 0; n15 < v59; n15++) {
            const i32 v124 = (item & 31);
            const i32 v125 = (v4+v124);
            const i8 v126 = load<i8, 1>(((const device u8 *)p8 + (i64)(v125) * 1 + 0));
            const i32 v127 = (i32)v126;
            const i32 v128 = thread_xor<16, 32>((i32)v127, item, exchange);
            const i32 v129 = (v128+v127);
            const i32 v130 = thread_xor<8, 32>((i32)v129, item, exchange);
            const i32 v131 = (v130+v129);
            const i32 v132 = thread_xor<4, 32>((i32)v131, item, exchange);
            const i32 v133 = (v132+v131);
            const i32 v134 = thread_xor<2, 32>((i32)v133, item, exchange);
            const i32 v135 = (v134+v133);
            const i32 v136 = thread_xor<1, 32>((i32)v135, item, exchange);
            const i32 v137 = (v136+v135);
            const i32 v138 = (v124 < 1);
            const i32 v139 = (v138 ? 1 : 0);
            for (i32 n16 = 0; n16 < v139; n16++) {
                store<4>(((device u8 *)p10 + (i64)(tile) * 4 + 0), (i32)v137);
            }
        }
    }
}
[[kernel, max_total_threads_per_threadgroup(256)]] void ka391e1d4335869e0(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    const i32 v0 = (i32)(item >> 7);
    const i32 v1 = (v0*8);
    const i32 v2 = (i32)(item >> 5);
    const i32 v3 = (v2 & 3);
    const i32 v4 = (v3*2);
    const i32 v5 = (v1+v4);
    const i32 v6 = (i32)(item >> 4);
    const i32 v7 = (v6 & 1);
    const i32 v8 = (v5+v7);
    const i32 v9 = (i32)(v2 >> 2);
    const i32 v10 = (v9*128);
    const i32 v11 = (v3*32);
    const i32 v12 = (v10+v11);
    const i32 v13 = (v7*16);
    const i32 v14 = (v12+v13);
    const i32 v15 = (item & 15);
    const i32 v16 = (v14+v15);
    const i8 v17 = load<i8, 1>(((const device u8 *)p1 + (i64)(v16) * 1 + 0));
    const i32 v18 = (i32)v17;
    const i32 v19 = thread_xor<8, 16>((i32)v18, item, exchange);
    const i32 v20 = (v19+v18);
    const i32 v21 = thread_xor<4, 16>((i32)v20, item, exchange);
    const i32 v22 = (v21+v20);
    const i32 v23 = thread_xor<2, 16>((i32)v22, item, exchange);
    const i32 v24 = (v23+v22);
    const i32 v25 = thread_xor<1, 16>((i32)v24, item, exchange);
    const i32 v26 = (v25+v24);
    const i32 v27 = (v15 < 1);
    const i32 v28 = (v27 ? 1 : 0);
    for (i32 n4 = 0; n4 < v28; n4++) {
        store<4>(((device u8 *)p0 + (i64)(v8) * 4 + 0), (i32)v26);
    }
}
[[kernel, max_total_threads_per_threadgroup(256)]] void ka579bf349cf380e5(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], device u8 *p6 [[buffer(6)]], device u8 *p7 [[buffer(7)]], device u8 *p8 [[buffer(8)]], device u8 *p9 [[buffer(9)]], device u8 *p10 [[buffer(10)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    const vec<i32, 4> v0 = make<vec<i32, 4>>(0, 0, 0, 0);
    const vec<u8, 16> v1 = make<vec<u8, 16>>(15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    const vec<u64, 2> v2 = make<vec<u64, 2>>(4L, 4L);
    const i32 tile = (i32)tile_at;
    {
        const i32 v3 = (tile*32);
        const i32 v4 = (i32)(item >> 3);
        const i32 v5 = (v3+v4);
        const f32 v6 = load<f32, 4>(((const device u8 *)p1 + (i64)(v5) * 4 + 0));
        const i32 v7 = (v5*144);
        const i32 v8 = (item & 7);
        const i32 v9 = (v8*18);
        const i32 v10 = (v7+v9);
        const u16 v11 = load<u16, 2>(((const device u8 *)p2 + (i64)(v10) * 1 + 0));
        const f32 v12 = float_of_half(v11);
        const f32 v13 = load<f32, 4>(((const device u8 *)p3 + (i64)(v8) * 4 + 0));
        const f32 v14 = (v12*v13);
        const i32 v15 = (tile*4608);
        const i32 v16 = (v4*144);
        const i32 v17 = (v15+v16);
        const i32 v18 = (v17+v9);
        const i32 v19 = (v18+2);
        const vec<u8, 16> v20 = load<vec<u8, 16>, 2>(((const device u8 *)p2 + (i64)(v18) * 1 + 2));
        const vec<u8, 16> v21 = (v20 & v1);
        const i32 v22 = (v8*32);
        const vec<i8, 16> v23 = load<vec<i8, 16>, 16>(((const device u8 *)p4 + (i64)(v22) * 1 + 0));
        const vec<i32, 4> v24 = dot4(v0, v21, v23);
        const vec<u64, 2> v25 = bits<vec<u64, 2>>(v20);
        const vec<u64, 2> v26 = (vec<u64, 2>)(v25 >> 4L);
        const vec<u8, 16> v27 = bits<vec<u8, 16>>(v26);
        const vec<u8, 16> v28 = (v27 & v1);
        const i32 v29 = (v22+16);
        const vec<i8, 16> v30 = load<vec<i8, 16>, 16>(((const device u8 *)p4 + (i64)(v22) * 1 + 16));
        const vec<i32, 4> v31 = dot4(v0, v28, v30);
        const vec<i32, 4> v32 = (v24+v31);
        const vec<i32, 2> v33 = make<vec<i32, 2>>(v32[0], v32[1]);
        const vec<i32, 2> v34 = make<vec<i32, 2>>(v32[2], v32[3]);
        const vec<i32, 2> v35 = (v33+v34);
        const i32 v36 = v35[0];
        const i32 v37 = v35[1];
        const i32 v38 = (v36+v37);
        const i32 v39 = load<i32, 4>(((const device u8 *)p5 + (i64)(v8) * 4 + 0));
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
        for (i32 n8 = 0; n8 < v52; n8++) {
            store<4>(((device u8 *)p0 + (i64)(v5) * 4 + 0), (f32)v50);
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        const i32 v53 = (i32)(item >> 5);
        const i32 v54 = (v53 < 1);
        const i32 v55 = (v54 ? 1 : 0);
        for (i32 n9 = 0; n9 < v55; n9++) {
            const i32 v56 = (item & 31);
            const i32 v57 = (v3+v56);
            const f32 v58 = load<f32, 4>(((const device u8 *)p0 + (i64)(v57) * 4 + 0));
            const i32 v59 = (tile*128);
            const i32 v60 = (v56*4);
            const i32 v61 = (v59+v60);
            const f32 v62 = load<f32, 4>(((const device u8 *)p7 + (i64)(v61) * 1 + 0));
            const f32 v63 = (v58*v62);
            const i32 v64 = bits<i32>(v63);
            const i32 v65 = (v64 & 2147483647);
            const i32 v66 = thread_xor<16, 32>((i32)v65, item, exchange);
            const i32 v67 = (v66 > v65 ? v66 : v65);
            const i32 v68 = thread_xor<8, 32>((i32)v67, item, exchange);
            const i32 v69 = (v68 > v67 ? v68 : v67);
            const i32 v70 = thread_xor<4, 32>((i32)v69, item, exchange);
            const i32 v71 = (v70 > v69 ? v70 : v69);
            const i32 v72 = thread_xor<2, 32>((i32)v71, item, exchange);
            const i32 v73 = (v72 > v71 ? v72 : v71);
            const i32 v74 = thread_xor<1, 32>((i32)v73, item, exchange);
            const i32 v75 = (v74 > v73 ? v74 : v73);
            const f32 v76 = bits<f32>(v75);
            const f32 v77 = (v76/0x1.fcp+6f);
            const i32 v78 = (v56 < 1);
            const i32 v79 = (v78 ? 1 : 0);
            for (i32 n10 = 0; n10 < v79; n10++) {
                store<4>(((device u8 *)p6 + (i64)(tile) * 4 + 0), (f32)v77);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        for (i32 n11 = 0; n11 < v55; n11++) {
            const i32 v80 = (item & 31);
            const i32 v81 = (v3+v80);
            const f32 v82 = load<f32, 4>(((const device u8 *)p0 + (i64)(v81) * 4 + 0));
            const i32 v83 = (tile*128);
            const i32 v84 = (v80*4);
            const i32 v85 = (v83+v84);
            const f32 v86 = load<f32, 4>(((const device u8 *)p7 + (i64)(v85) * 1 + 0));
            const f32 v87 = (v82*v86);
            const f32 v88 = load<f32, 4>(((const device u8 *)p6 + (i64)(tile) * 4 + 0));
            const i32 v89 = (0x0p+0f < v88);
            const f32 v90 = (0x1p+0f/v88);
            const f32 v91 = (v89 ? v90 : 0x0p+0f);
            const f32 v92 = (v87*v91);
            const f32 v93 = (f32)(-v92);
            const f32 v94 = (v92 > v93 ? v92 : v93);
            const i32 v95 = (v94 < 0x1p+22f);
            const f32 v96 = (v92+0x1.8p+23f);
            const f32 v97 = (v96-0x1.8p+23f);
            const f32 v98 = (v95 ? v97 : v92);
            const f32 v99 = (v98 > -0x1p+7f ? v98 : -0x1p+7f);
            const f32 v100 = (v99 < 0x1.fcp+6f ? v99 : 0x1.fcp+6f);
            const i32 v101 = (conversion<i32, f32>::of(v100));
            const i8 v102 = (i8)v101;
            const i8 v103 = (v102 > -127 ? v102 : -127);
            store<1>(((device u8 *)p8 + (i64)(v81) * 1 + 0), (i8)v103);
        }
        for (i32 n12 = 0; n12 < v55; n12++) {
            const i32 v104 = (item & 31);
            const i32 v105 = (v3+v104);
            const f32 v106 = load<f32, 4>(((const device u8 *)p0 + (i64)(v105) * 4 + 0));
            const f32 v107 = (v106*v106);
            const f32 v108 = thread_xor<16, 32>((f32)v107, item, exchange);
            const f32 v109 = (v108+v107);
            const f32 v110 = thread_xor<8, 32>((f32)v109, item, exchange);
            const f32 v111 = (v110+v109);
            const f32 v112 = thread_xor<4, 32>((f32)v111, item, exchange);
            const f32 v113 = (v112+v111);
            const f32 v114 = thread_xor<2, 32>((f32)v113, item, exchange);
            const f32 v115 = (v114+v113);
            const f32 v116 = thread_xor<1, 32>((f32)v115, item, exchange);
            const f32 v117 = (v116+v115);
            const i32 v118 = (v104 < 1);
            const i32 v119 = (v118 ? 1 : 0);
            for (i32 n13 = 0; n13 < v119; n13++) {
                store<4>(((device u8 *)p9 + (i64)(tile) * 4 + 0), (f32)v117);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        for (i32 n14 = 0; n14 < v55; n14++) {
            const i32 v120 = (item & 31);
            const i32 v121 = (v3+v120);
            const i8 v122 = load<i8, 1>(((const device u8 *)p8 + (i64)(v121) * 1 + 0));
            const i32 v123 = (i32)v122;
            const i32 v124 = thread_xor<16, 32>((i32)v123, item, exchange);
            const i32 v125 = (v124+v123);
            const i32 v126 = thread_xor<8, 32>((i32)v125, item, exchange);
            const i32 v127 = (v126+v125);
            const i32 v128 = thread_xor<4, 32>((i32)v127, item, exchange);
            const i32 v129 = (v128+v127);
            const i32 v130 = thread_xor<2, 32>((i32)v129, item, exchange);
            const i32 v131 = (v130+v129);
            const i32 v132 = thread_xor<1, 32>((i32)v131, item, exchange);
            const i32 v133 = (v132+v131);
            const i32 v134 = (v120 < 1);
            const i32 v135 = (v134 ? 1 : 0);
            for (i32 n15 = 0; n15 < v135; n15++) {
                store<4>(((device u8 *)p10 + (i64)(tile) * 4 + 0), (i32)v133);
            }
        }
    }
}
[[kernel, max_total_threads_per_threadgroup(256)]] void kbc6646b1466ef260(device u8 *p0 [[buffer(0)]], device u8 *p1 [[buffer(1)]], device u8 *p2 [[buffer(2)]], device u8 *p3 [[buffer(3)]], device u8 *p4 [[buffer(4)]], device u8 *p5 [[buffer(5)]], device u8 *p6 [[buffer(6)]], device u8 *p7 [[buffer(7)]], device u8 *p8 [[buffer(8)]], device u8 *p9 [[buffer(9)]], threadgroup u32 *exchange [[threadgroup(0)]],
    u32 tile_at [[threadgroup_position_in_grid]], u32 item_at [[thread_position_in_threadgroup]]) {
    const i32 item = (i32)item_at;
    const vec<i32, 4> v0 = make<vec<i32, 4>>(0, 0, 0, 0);
    const vec<u8, 16> v1 = make<vec<u8, 16>>(15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15);
    const vec<u64, 2> v2 = make<vec<u64, 2>>(4L, 4L);
    const i32 tile = (i32)tile_at;
    {
        const i32 v3 = (i32)(item >> 4);
        const i32 v4 = (tile*32);
        const i32 v5 = (v3+v4);
        const i32 v6 = (tile*9216);
        const i32 v7 = (v3*288);
        const i32 v8 = (v6+v7);
        const i32 v9 = (item & 15);
        const i32 v10 = (v9*18);
        const i32 v11 = (v8+v10);
        const f32 v12 = load<f32, 4>(((const device u8 *)p3 + (i64)(v9) * 4 + 0));
        const i32 v13 = (v9*32);
        const vec<i8, 16> v14 = load<vec<i8, 16>, 16>(((const device u8 *)p4 + (i64)(v13) * 1 + 0));
        const i32 v15 = (v13+16);
        const vec<i8, 16> v16 = load<vec<i8, 16>, 16>(((const device u8 *)p4 + (i64)(v13) * 1 + 16));
        const i32 v17 = load<i32, 4>(((const device u8 *)p5 + (i64)(v9) * 4 + 0));
        const i32 v18 = (v17*8);
        const i32 v19 = (v9 < 1);
        const i32 v20 = (v19 ? 1 : 0);
        for (i32 n7 = 0; n7 < 2; n7++) {
            const i32 v21 = (n7*16);
            const i32 v22 = (v21+v5);
            const f32 v23 = load<f32, 4>(((const device u8 *)p1 + (i64)(v22) * 4 + 0));
            const i32 v24 = (n7*4608);
            const i32 v25 = (v24+v11);
            const u16 v26 = load<u16, 2>(((const device u8 *)p2 + (i64)(v25) * 1 + 0));
            const f32 v27 = float_of_half(v26);
            const f32 v28 = (v27*v12);
            const i32 v29 = (v25+2);
            const vec<u8, 16> v30 = load<vec<u8, 16>, 2>(((const device u8 *)p2 + (i64)(v25) * 1 + 2));
            const vec<u8, 16> v31 = (v30 & v1);
            const vec<i32, 4> v32 = dot4(v0, v31, v14);
            const vec<u64, 2> v33 = bits<vec<u64, 2>>(v30);
            const vec<u64, 2> v34 = (vec<u64, 2>)(v33 >> 4L);
            const vec<u8, 16> v35 = bits<vec<u8, 16>>(v34);
            const vec<u8, 16> v36 = (v35 & v1);
            const vec<i32, 4> v37 = dot4(v0, v36, v16);
            const vec<i32, 4> v38 = (v32+v37);
            const vec<i32, 2> v39 = make<vec<i32, 2>>(v38[0], v38[1]);
            const vec<i32, 2> v40 = make<vec<i32, 2>>(v38[2], v38[3]);
            const vec<i32, 2> v41 = (v39+v40);
            const i32 v42 = v41[0];
            const i32 v43 = v41[1];
            const i32 v44 = (v42+v43);
            const i32 v45 = (v44-v18);
            const f32 v46 = (f32)v45;
            const f32 v47 = (v28*v46);
            const f32 v48 = thread_xor<8, 16>((f32)v47, item, exchange);
            const f32 v49 = (v48+v47);
            const f32 v50 = thread_xor<4, 16>((f32)v49, item, exchange);
            const f32 v51 = (v50+v49);
            const f32 v52 = thread_xor<2, 16>((f32)v51, item, exchange);
            const f32 v53 = (v52+v51);
            const f32 v54 = thread_xor<1, 16>((f32)v53, item, exchange);
            const f32 v55 = (v54+v53);
            const f32 v56 = (v23+v55);
            for (i32 n8 = 0; n8 < v20; n8++) {
                store<4>(((device u8 *)p0 + (i64)(v22) * 4 + 0), (f32)v56);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        const i32 v57 = (i32)(item >> 5);
        const i32 v58 = (v57 < 1);
        const i32 v59 = (v58 ? 1 : 0);
        for (i32 n9 = 0; n9 < v59; n9++) {
            const i32 v60 = (item & 31);
            const i32 v61 = (v4+v60);
            const f32 v62 = load<f32, 4>(((const device u8 *)p0 + (i64)(v61) * 4 + 0));
            const i32 v63 = (tile*128);
            const i32 v64 = (v60*4);
            const i32 v65 = (v63+v64);
            const f32 v66 = load<f32, 4>(((const device u8 *)p7 + (i64)(v65) * 1 + 0));
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
            const i32 v82 = (v60 < 1);
            const i32 v83 = (v82 ? 1 : 0);
            for (i32 n10 = 0; n10 < v83; n10++) {
                store<4>(((device u8 *)p6 + (i64)(tile) * 4 + 0), (f32)v81);
            }
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_device);
        for (i32 n11 = 0; n11 < v59; n11++) {
            const i32 v84 = (item & 31);
            const i32 v85 = (v4+v84);
            const f32 v86 = load<f32, 4>(((const device u8 *)p0 + (i64)(v85) * 4 + 0));
            const i32 v87 = (tile*128);
            const i32 v88 = (v84*4);
            const i32 v89 = (v87+v88);
            const f32 v90 = load<f32, 4>(((const device u8 *)p7 + (i64)(v89) * 1 + 0));
            const f32 v91 = (v86*v90);
            const f32 v92 = load<f32, 4>(((const device u8 *)p6 + (i64)(tile) * 4 + 0));
            const i32 v93 = (0x0p+0f < v92);
            const f32 v94 = (0x1p+0f/v92);
            const f32 v95 = (v93 ? v94 : 0x0p+0f);
            const f32 v96 = (v91*v95);
            const f32 v97 = (f32)(-v96);
            const f32 v98 = (v96 > v97 ? v96 : v97);
            const i32 v99 = (v98 < 0x1p+22f);
            const f32 v100 = (v96+0x1.8p+23f);
            const f32 v101 = (v100-0x1.8p+23f);
            const f32 v102 = (v99 ? v101 : v96);
            const f32 v103 = (v102 > -0x1p+7f ? v102 : -0x1p+7f);
            const f32 v104 = (v103 < 0x1.fcp+6f ? v103 : 0x1.fcp+6f);
            const i32 v105 = (conversion<i32, f32>::of(v104));
            const i8 v106 = (i8)v105;
            const i8 v107 = (v106 > -127 ? v106 : -127);
            store<1>(((device u8 *)p8 + (i64)(v85) * 1 + 0), (i8)v107);
        }
        for (i32 n12 = 0; n12 < v59; n12++) {
            const i32 v108 = (item & 31);
            const i32 v109 = (v4+v108);
            const f32 v110 = load<f32, 4>(((const device u8 *)p0 + (i64)(v109) * 4 + 0));
            const f32 v111 = (v110*v110);
            const f32 v112 = thread_xor<16, 32>((f32)v111, item, exchange);
            const f32 v113 = (v112+v111);
            const f32 v114 = thread_xor<8, 32>((f32)v113, item, exchange);
            const f32 v115 = (v114+v113);
            const f32 v116 = thread_xor<4, 32>((f32)v115, item, exchange);
            const f32 v117 = (v116+v115);
            const f32 v118 = thread_xor<2, 32>((f32)v117, item, exchange);
            const f32 v119 = (v118+v117);
            const f32 v120 = thread_xor<1, 32>((f32)v119, item, exchange);
            const f32 v121 = (v120+v119);
            const i32 v122 = (v108 < 1);
            const i32 v123 = (v122 ? 1 : 0);
            for (i32 n13 = 0; n13 < v123; n13++) {
                store<4>(((device u8 *)p9 + (i64)(tile) * 4 + 0), (f32)v121);
            }
        }
    }
}

// words_prelude: what kernels in dialects of C++ begin with, whoever's they are: vectors as words in registers, loads by what
// divides an address. In: what a dialect's own part says before it. Out: parts of a text, joined by the C compiler.
// A dialect defines: i8 … f32; FN and FN_MEMBER in front of functions; OWN in front of the * of a thread's own memory; pair and
// quad of u32 that lie at multiples of their size; then word_of, float_of, fused, bytes_chosen; half and dot4 functions.
// Invariant: no header is needed; numbers wrap, saturate and round as in ir/eval; every value is passed by value, since a
// reference names a memory in some of these languages.
// Example: load<vec<u8, 16>, 16>(at): one quad of words.
#pragma once

#define WORDS_ELEMENTS \
    "template<class T> struct kind { };                         // a type, as an argument\n" \
    "template<class T> struct arithmetic { typedef T type; };   // signed numbers wrap\n" \
    "template<> struct arithmetic<i32> { typedef u32 type; };\n" \
    "template<> struct arithmetic<i64> { typedef u64 type; };\n" \
    "template<> struct arithmetic<i16> { typedef u32 type; };\n" \
    "template<> struct arithmetic<u16> { typedef u32 type; };\n" \
    "template<int B> struct integer { };\n" \
    "template<> struct integer<1> { typedef i8 type; };\n" \
    "template<> struct integer<2> { typedef i16 type; };\n" \
    "template<> struct integer<4> { typedef i32 type; };\n" \
    "template<> struct integer<8> { typedef i64 type; };\n" \
    "template<class T> FN T wrap_add(T a, T b) { typedef typename arithmetic<T>::type W; return (T)((W)a + (W)b); }\n" \
    "template<class T> FN T wrap_sub(T a, T b) { typedef typename arithmetic<T>::type W; return (T)((W)a - (W)b); }\n" \
    "template<class T> FN T wrap_mul(T a, T b) { typedef typename arithmetic<T>::type W; return (T)((W)a * (W)b); }\n" \
    "template<class T> FN T wrap_neg(T a) { typedef typename arithmetic<T>::type W; return (T)(0 - (W)a); }\n" \
    "FN f32 wrap_neg(f32 a) { return -a; }\n" \
    "template<class T, class F> struct conversion { static FN_MEMBER T of(F x) { return (T)x; } };\n" \
    /* ---- bits of one element */ \
    "FN u32 as_word(f32 x) { return word_of(x); }\n" \
    "template<class T> FN u32 as_word(T x) { return sizeof(T) == 1 ? (u32)(u8)x : sizeof(T) == 2 ? (u32)(u16)x : (u32)x; }\n" \
    "FN f32 word_as(kind<f32>, u32 x) { return float_of(x); }\n" \
    "template<class T> FN T word_as(kind<T>, u32 x) { return (T)x; }\n" \
    "template<class T> FN u64 as_long(T x) { return (u64)x; }\n" \
    "template<class T> FN T long_as(kind<T>, u64 x) { return (T)x; }\n"

#define WORDS_VECTORS \
    /* ---- vectors: words that hold their elements side by side */ \
    "template<class T, int N> struct vec {\n" \
    "    typedef T element;\n" \
    "    enum { lanes = N, words = (sizeof(T) * N + 3) / 4 };\n" \
    "    u32 w[words];\n" \
    "    FN_MEMBER T operator[](int k) const {\n" \
    "        if (sizeof(T) == 1) return (T)(u8)(w[k / 4] >> 8 * (k % 4));\n" \
    "        if (sizeof(T) == 2) return (T)(u16)(w[k / 2] >> 16 * (k % 2));\n" \
    "        if (sizeof(T) == 4) return word_as(kind<T>(), w[k]);\n" \
    "        return long_as(kind<T>(), w[2 * k % words] | (u64)w[(2 * k + 1) % words] << 32);\n" \
    "    }\n" \
    "    FN_MEMBER void put(int k, T x) {   // onto zeros\n" \
    "        if (sizeof(T) == 1) w[k / 4] |= (u32)(u8)x << 8 * (k % 4);\n" \
    "        else if (sizeof(T) == 2) w[k / 2] |= (u32)(u16)x << 16 * (k % 2);\n" \
    "        else if (sizeof(T) == 4) w[k] = as_word(x);\n" \
    "        else { u64 both = as_long(x); w[2 * k % words] = (u32)both; w[(2 * k + 1) % words] = (u32)(both >> 32); }\n" \
    "    }\n" \
    "};\n" \
    "template<class V> FN V zeros() { V v; for (int i = 0; i < V::words; i++) v.w[i] = 0; return v; }\n" \
    "template<class V, class... A> FN V make(A... a) {\n" \
    "    V v = zeros<V>();\n" \
    "    int k = 0, in_order[] = {(v.put(k++, (typename V::element)a), 0)...};\n" \
    "    (void)in_order;\n" \
    "    return v;\n" \
    "}\n" \
    "#define LANES(V, k, ...) V v = zeros<V>(); _Pragma(\"unroll\") for (int k = 0; k < V::lanes; k++) v.put(k, __VA_ARGS__); return v;\n" \
    "#define WORDS(V, i, ...) V v; _Pragma(\"unroll\") for (int i = 0; i < V::words; i++) v.w[i] = __VA_ARGS__; return v;\n" \
    "#define VT template<class T, int N> FN vec<T, N>\n" \
    "#define MT template<class T, int N> FN vec<typename integer<sizeof(T)>::type, N>\n" \
    "VT operator+(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, wrap_add(a[k], b[k])) }\n" \
    "VT operator-(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, wrap_sub(a[k], b[k])) }\n" \
    "VT operator*(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, wrap_mul(a[k], b[k])) }\n" \
    "VT operator/(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, a[k] / b[k]) }\n" \
    "VT operator-(vec<T, N> a) { typedef vec<T, N> V; LANES(V, k, wrap_neg(a[k])) }\n" \
    "VT operator&(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; WORDS(V, i, a.w[i] & b.w[i]) }\n" \
    "VT operator|(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; WORDS(V, i, a.w[i] | b.w[i]) }\n" \
    "VT operator^(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; WORDS(V, i, a.w[i] ^ b.w[i]) }\n" \
    "VT operator~(vec<T, N> a) { typedef vec<T, N> V; WORDS(V, i, ~a.w[i]) }\n" \
    "VT operator<<(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, (T)((typename arithmetic<T>::type)a[k] << b[k])) }\n" \
    "VT operator>>(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, (T)(a[k] >> b[k])) }\n" \
    "VT operator<<(vec<T, N> a, int b) { typedef vec<T, N> V; LANES(V, k, (T)((typename arithmetic<T>::type)a[k] << b)) }\n" \
    "VT operator>>(vec<T, N> a, int b) { typedef vec<T, N> V; LANES(V, k, (T)(a[k] >> b)) }\n" \
    "MT operator<(vec<T, N> a, vec<T, N> b) { typedef vec<typename integer<sizeof(T)>::type, N> V; LANES(V, k, a[k] < b[k] ? -1 : 0) }\n" \
    "MT operator==(vec<T, N> a, vec<T, N> b) { typedef vec<typename integer<sizeof(T)>::type, N> V; LANES(V, k, a[k] == b[k] ? -1 : 0) }\n" \
    "MT operator!=(vec<T, N> a, vec<T, N> b) { typedef vec<typename integer<sizeof(T)>::type, N> V; LANES(V, k, a[k] != b[k] ? -1 : 0) }\n" \
    "template<class M, class T, int N> FN vec<T, N> choose(M m, vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, m[k] ? a[k] : b[k]) }\n" \
    "VT greater_of(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, a[k] > b[k] ? a[k] : b[k]) }\n" \
    "VT smaller_of(vec<T, N> a, vec<T, N> b) { typedef vec<T, N> V; LANES(V, k, a[k] < b[k] ? a[k] : b[k]) }\n" \
    "template<class V, class F, int N> FN V converted(vec<F, N> a) { LANES(V, k, conversion<typename V::element, F>::of(a[k])) }\n" \
    "template<int N> FN vec<f32, N> muladd(vec<f32, N> a, vec<f32, N> b, vec<f32, N> c) { typedef vec<f32, N> V; LANES(V, k, fused(a[k], b[k], c[k])) }\n" \
    /* ---- the same bits as another type */ \
    "template<class V> struct words_of { enum { count = V::words }; static FN_MEMBER u32 get(V v, int i) { return v.w[i]; } };\n" \
    "#define SCALAR(T) template<> struct words_of<T> { enum { count = (sizeof(T) + 3) / 4 }; \\\n" \
    "    static FN_MEMBER u32 get(T v, int i) { return sizeof(T) == 8 ? (u32)(as_long(v) >> 32 * i) : as_word(v); } };\n" \
    "SCALAR(i8) SCALAR(u8) SCALAR(i16) SCALAR(u16) SCALAR(i32) SCALAR(u32) SCALAR(f32) SCALAR(i64) SCALAR(u64)\n" \
    "template<class V> struct from_words { static FN_MEMBER V make(const OWN u32 *w) { WORDS(V, i, w[i]) } };\n" \
    "#define SCALAR_FROM(T) template<> struct from_words<T> { static FN_MEMBER T make(const OWN u32 *w) { \\\n" \
    "    return sizeof(T) == 8 ? long_as(kind<T>(), w[0] | (u64)w[sizeof(T) / 8] << 32) : word_as(kind<T>(), w[0]); } };\n" \
    "SCALAR_FROM(i8) SCALAR_FROM(u8) SCALAR_FROM(i16) SCALAR_FROM(u16) SCALAR_FROM(i32) SCALAR_FROM(u32) SCALAR_FROM(f32) SCALAR_FROM(i64)\n" \
    "SCALAR_FROM(u64)\n" \
    "template<class V, class F> FN V bits(F a) {\n" \
    "    u32 w[words_of<F>::count];\n" \
    "    _Pragma(\"unroll\") for (int i = 0; i < words_of<F>::count; i++) w[i] = words_of<F>::get(a, i);\n" \
    "    return from_words<V>::make(w);\n" \
    "}\n"

// space: a word in front of the memory that is meant, or "". A: what divides the address. odd: lines that fill w[0] … w[n − 1]
// from where words do not lie at multiples of 4.
#define WORDS_MEMORY(space, odd) \
    "template<class V, int A> FN V load(const " space "u8 *at) {\n" \
    "    enum { n = words_of<V>::count, size = sizeof(V) };\n" \
    "    u32 w[n];\n" \
    "    if (size == 1) w[0] = *at;\n" \
    "    else if (size == 2) w[0] = A >= 2 ? *(const " space "u16 *)at : at[0] | (u32)at[1] << 8;\n" \
    "    else if (A >= 16 && n % 4 == 0) _Pragma(\"unroll\") for (int i = 0; i < n; i += 4) {\n" \
    "        quad q = ((const " space "quad *)at)[i / 4];\n" \
    "        w[i] = q.x, w[(i + 1) % n] = q.y, w[(i + 2) % n] = q.z, w[(i + 3) % n] = q.w;\n" \
    "    }\n" \
    "    else if (A >= 8 && n % 2 == 0) _Pragma(\"unroll\") for (int i = 0; i < n; i += 2) {\n" \
    "        pair q = ((const " space "pair *)at)[i / 2];\n" \
    "        w[i] = q.x, w[(i + 1) % n] = q.y;\n" \
    "    }\n" \
    "    else if (A >= 4) _Pragma(\"unroll\") for (int i = 0; i < n; i++) w[i] = ((const " space "u32 *)at)[i];\n" \
    "    else {\n" odd "    }\n" \
    "    return from_words<V>::make(w);\n" \
    "}\n" \
    "template<int A, class V> FN void store(" space "u8 *at, V v) {\n" \
    "    enum { n = words_of<V>::count, size = sizeof(V) };\n" \
    "    u32 w[n];\n" \
    "    _Pragma(\"unroll\") for (int i = 0; i < n; i++) w[i] = words_of<V>::get(v, i);\n" \
    "    if (size == 1) *at = (u8)w[0];\n" \
    "    else if (size == 2 && A >= 2) *(" space "u16 *)at = (u16)w[0];\n" \
    "    else if (A >= 16 && n % 4 == 0) _Pragma(\"unroll\") for (int i = 0; i < n; i += 4) {\n" \
    "        quad q;\n" \
    "        q.x = w[i], q.y = w[(i + 1) % n], q.z = w[(i + 2) % n], q.w = w[(i + 3) % n];\n" \
    "        ((" space "quad *)at)[i / 4] = q;\n" \
    "    }\n" \
    "    else if (A >= 4 && size >= 4) _Pragma(\"unroll\") for (int i = 0; i < n; i++) ((" space "u32 *)at)[i] = w[i];\n" \
    "    else if (A >= 2) _Pragma(\"unroll\") for (int i = 0; i < size / 2; i++) ((" space "u16 *)at)[i] = (u16)(w[i / 2] >> 16 * (i % 2));\n" \
    "    else _Pragma(\"unroll\") for (int i = 0; i < size; i++) at[i] = (u8)(w[i / 4] >> 8 * (i % 4));\n" \
    "}\n"

#define WORDS_TABLES \
    /* ---- sums of four products of bytes */ \
    "FN i32 dot4(i32 acc, vec<u8, 4> a, vec<i8, 4> b) { return dot4_unsigned(acc, a.w[0], b.w[0]); }\n" \
    "FN i32 dot4(i32 acc, vec<i8, 4> a, vec<i8, 4> b) { return dot4_signed(acc, a.w[0], b.w[0]); }\n" \
    "template<int N> FN vec<i32, N> dot4(vec<i32, N> acc, vec<u8, 4 * N> a, vec<i8, 4 * N> b) { typedef vec<i32, N> V; LANES(V, k, dot4_unsigned(acc[k], a.w[k], b.w[k])) }\n" \
    "template<int N> FN vec<i32, N> dot4(vec<i32, N> acc, vec<i8, 4 * N> a, vec<i8, 4 * N> b) { typedef vec<i32, N> V; LANES(V, k, dot4_signed(acc[k], a.w[k], b.w[k])) }\n" \
    /* ---- tables of 16 bytes, by four indices at once */ \
    "FN u32 looked_up(const OWN u32 *table, u32 at) {\n" \
    "    u32 low = at & 0x07070707, upper = (at & 0x08080808) >> 3, mask = upper * 255;\n" \
    "    low = (low | low >> 4) & 0x00ff00ff;\n" \
    "    low = (low | low >> 8) & 0xffff;\n" \
    "    return (bytes_chosen(table[0], table[1], low) & ~mask) | (bytes_chosen(table[2], table[3], low) & mask);\n" \
    "}\n" \
    "template<class T, class I, int N> FN vec<T, N> lookup(vec<T, 16> table, vec<I, N> at) { typedef vec<T, N> V; WORDS(V, i, looked_up(table.w, at.w[i])) }\n" \
    "template<class T> FN T lookup(vec<T, 16> table, u8 at) { return (T)looked_up(table.w, at); }\n"

#define WORDS_DIVISION \
    "FN i64 floor_div(i64 a, i64 b) { if (!b) return 0; i64 q = a / b; return q - (a % b && (a < 0) != (b < 0)); }\n" \
    "FN i64 floor_mod(i64 a, i64 b) { return b ? a - floor_div(a, b) * b : 0; }\n"

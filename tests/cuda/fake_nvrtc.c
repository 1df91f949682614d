// fake_nvrtc: CUDA's run-time compiler for machines without a card: g++ builds a kernel's text for this CPU, behind a header
// that says what threads, barriers and the card's own functions are. See fake_cuda.
// In: texts as render/cuda_dialect writes them. Out: images that the fake driver runs. FAKE_CXX names another compiler.
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char shim[] =
    "#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <immintrin.h>\n"
    "struct FakeIndex { unsigned x, y, z; };\n"
    "struct FakeHooks { FakeIndex thread, block; void (*barrier)(void); uint32_t (*exchange)(uint32_t, uint32_t, int);\n"
    "    void (*touch)(unsigned long, int, int); };\n"
    "extern \"C\" { FakeHooks *fake_hooks; }\n"
    "#define threadIdx (fake_hooks->thread)\n#define blockIdx (fake_hooks->block)\n"
    "#define __device__\n#define __global__\n#define __forceinline__ inline\n#define __launch_bounds__(...)\n"
    // What threads share lies in a section of its own, so that accesses to it are known.
    "#define __shared__ static __attribute__((section(\"fake_shared\")))\n"
    "extern \"C\" char __start_fake_shared[] __attribute__((visibility(\"hidden\"))), __stop_fake_shared[] __attribute__((visibility(\"hidden\")));\n"
    "__shared__ __attribute__((used)) char fake_first[16];\n"
    "static inline void fake_touch(const void *at, int n, int is_store) {\n"
    "    unsigned long first = (unsigned long)((const char *)at - __start_fake_shared);\n"
    "    if (first < (unsigned long)(__stop_fake_shared - __start_fake_shared)) fake_hooks->touch(first, n, is_store); }\n"
    "static inline void __syncthreads() { unsigned own = threadIdx.x; fake_hooks->barrier(); fake_hooks->thread.x = own; }\n"
    "static inline void __threadfence() { }\n"
    "static inline unsigned atomicInc(unsigned *at, unsigned most) { unsigned old = *at; *at = old >= most ? 0 : old + 1; return old; }\n"
    "static inline uint32_t __shfl_xor_sync(uint32_t mask, uint32_t x, int d) {\n"
    "    unsigned own = threadIdx.x; uint32_t y = fake_hooks->exchange(mask, x, d); fake_hooks->thread.x = own; return y; }\n"
    "static inline float atomicAdd(float *at, float x) {\n"
    "    float seen, next; __atomic_load(at, &seen, 0);\n"
    "    do next = seen + x; while (!__atomic_compare_exchange(at, &seen, &next, false, 0, 0));\n"
    "    return seen; }\n"
    "template<class T, class F> static inline T fake_bits(F x) { T y; memcpy(&y, &x, sizeof y); return y; }\n"
    "static inline unsigned __float_as_uint(float x) { return fake_bits<unsigned>(x); }\n"
    "static inline float __uint_as_float(unsigned x) { return fake_bits<float>(x); }\n"
    "static inline float __int_as_float(int x) { return fake_bits<float>(x); }\n"
    "static inline long long __double_as_longlong(double x) { return fake_bits<long long>(x); }\n"
    "static inline double __longlong_as_double(long long x) { return fake_bits<double>(x); }\n"
    "static inline int __float2int_rz(float x) { return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? (-2147483647 - 1) : (int)x; }\n"
    "static inline unsigned __float2uint_rz(float x) { return x != x || x <= 0 ? 0 : x >= 4294967296.0f ? 4294967295u : (unsigned)x; }\n"
    "static inline int __double2int_rz(double x) { return x != x ? 0 : x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? (-2147483647 - 1) : (int)x; }\n"
    "static inline long long __float2ll_rz(float x) { return x != x ? 0 : x >= 9223372036854775808.0f ? INT64_MAX : x <= -9223372036854775808.0f ? INT64_MIN : (long long)x; }\n"
    "static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, int n) { return (unsigned)(((uint64_t)hi << 32 | lo) >> (n & 31)); }\n"
    "static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {\n"
    "    uint64_t both = (uint64_t)b << 32 | a; unsigned y = 0;\n"
    "    for (int i = 0; i < 4; i++) y |= (unsigned)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i; return y; }\n"
    "static inline float float_of_half(unsigned short x) { return _cvtsh_ss(x); }\n"
    "static inline unsigned short half_of_float(float x) { return _cvtss_sh(x, 0); }\n"
    "static inline int fake_dot(int acc, unsigned a, unsigned b, bool is_signed) {\n"
    "    for (int i = 0; i < 4; i++) acc += (is_signed ? (int)(signed char)(a >> 8 * i) : (int)(unsigned char)(a >> 8 * i)) * (int)(signed char)(b >> 8 * i);\n"
    "    return acc; }\n"
    "static inline int dot4_unsigned(int acc, unsigned a, unsigned b) { return fake_dot(acc, a, b, false); }\n"
    "static inline int dot4_signed(int acc, unsigned a, unsigned b) { return fake_dot(acc, a, b, true); }\n";

typedef struct Program { char *text, name[64], log[4096]; char *image; size_t nbytes; } Program;

// Images that run nothing are those of another version, so that none is kept in the place of one that runs.
static bool runs_nothing(void) { return getenv("FAKE_CUDA_RUNS_NOTHING") != NULL; }
int nvrtcVersion(int *major, int *minor) { *major = 0, *minor = runs_nothing() ? 2 : 3; return 0; }
int nvrtcCreateProgram(Program **out, const char *text, const char *name, int n, const char *const *headers, const char *const *names) {
    (void)n, (void)headers, (void)names;
    Program *p = calloc(1, sizeof *p);
    p->text = strdup(text);
    snprintf(p->name, sizeof p->name, "%s", name);
    *out = p;
    return 0;
}
int nvrtcDestroyProgram(Program **p) {
    free((*p)->text), free((*p)->image), free(*p);
    *p = NULL;
    return 0;
}

// How the driver calls the kernel: each argument by its address.
static void write_caller(FILE *f, const Program *p) {
    const char *bounds = strstr(p->text, "__launch_bounds__("), *at = bounds;
    int n = 0;
    while ((at = strstr(at + 1, "__restrict__ p"))) n++;
    fprintf(f, "static void fake_call(void **a) { %s(*(int *)a[0]", p->name);
    for (int i = 0; i < n; i++) fprintf(f, ", *(u8 **)a[%d]", i + 1);
    fprintf(f, "); }\nextern \"C\" { struct { void (*call)(void **); int n, threads; const char *name; } fake_kernel = {fake_call, %d, %d, \"%s\"}; }\n", n + 1,
            atoi(bounds + strlen("__launch_bounds__(")), p->name);
}

// The text with a word to the driver in front of each load and store.
static void write_text(FILE *f, const char *text) {
    static const char *const begins[2] = {"FN V load(const u8 *at) {", "FN void store(u8 *at, V v) {"};
    for (int is_store = 0; is_store < 2; is_store++) {
        const char *found = strstr(text, begins[is_store]);
        if (!found) continue;
        found += strlen(begins[is_store]);
        fwrite(text, 1, (size_t)(found - text), f);
        fprintf(f, " fake_touch(at, sizeof(V), %d);", is_store);
        text = found;
    }
    fputs(text, f);
}

int nvrtcCompileProgram(Program *p, int n, const char *const *options) {
    char folder[] = "/tmp/fake-nvrtc-XXXXXX", path[128], object[128], log[128], command[1024];
    const char *compiler = getenv("FAKE_CXX");
    (void)n, (void)options;
    if (runs_nothing()) {
        p->nbytes = sizeof "nothing", p->image = strdup("nothing");
        return 0;
    }
    if (!mkdtemp(folder) || !strstr(p->text, "__launch_bounds__(")) return 1;
    snprintf(path, sizeof path, "%s/k.cpp", folder);
    snprintf(object, sizeof object, "%s/k.so", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    FILE *f = fopen(path, "w");
    fputs(shim, f), write_text(f, p->text);
    write_caller(f, p);
    fclose(f);
    snprintf(command, sizeof command, "%s -std=c++17 -O1 -w -fPIC -shared -mf16c -mfma -ffp-contract=off -fno-strict-aliasing -o %s %s >%s 2>&1",
             compiler ? compiler : "g++", object, path, log);
    int status = system(command);
    struct stat info;
    if (status == 0 && stat(object, &info) == 0) {
        uint64_t nbytes = (uint64_t)info.st_size;
        p->nbytes = 16 + nbytes;
        p->image = malloc(p->nbytes);
        memcpy(p->image, "FAKEIMG", 8), memcpy(p->image + 8, &nbytes, 8);
        FILE *made = fopen(object, "rb");
        if (fread(p->image + 16, 1, nbytes, made) != nbytes) status = 1;
        fclose(made);
    } else {
        FILE *said = fopen(log, "r");
        if (said) p->log[fread(p->log, 1, sizeof p->log - 1, said)] = 0, fclose(said);
        status = 1;
    }
    unlink(path), unlink(object), unlink(log), rmdir(folder);
    return status ? 6 : 0;
}
int nvrtcGetCUBINSize(Program *p, size_t *n) { *n = p->nbytes; return 0; }
int nvrtcGetCUBIN(Program *p, char *at) { memcpy(at, p->image, p->nbytes); return 0; }
int nvrtcGetProgramLogSize(Program *p, size_t *n) { *n = strlen(p->log) + 1; return 0; }
int nvrtcGetProgramLog(Program *p, char *at) { strcpy(at, p->log); return 0; }

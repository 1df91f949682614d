// cpu_target: two tables (features, targets) and loops over them.
// In: CPUID and XCR0, or the kernel's hardware capabilities. Out: feature sets, filled Targets.
// Invariant: a feature whose registers the operating system does not save counts as absent.
// Example: AVX-512 in CPUID but XCR0 = 0x07 → cpu_features_of has AVX2 and no AVX512F
#include "runtime/cpu_target.h"

#include <stdio.h>
#include <string.h>
#include "base/text.h"

static const char *const feature_names[CPU_FEATURE_COUNT] = {
#define FEATURE(name, text, ...) text,
#define HWCAP(name, text, ...) text,
#include "runtime/cpu_features.def"
#undef FEATURE
#undef HWCAP
};

typedef struct CpuTarget {
    const char *name, *architecture;
    uint64_t needs;
    int vector_bytes, wide_bytes, n_vector_registers;
    DotForm dot;
    bool has_fma, has_f16_convert, has_byte_shuffle, has_bit_shuffle, has_bit_matrix, has_round, reads_ahead;
    const char *flags;
} CpuTarget;

#define HAS(name) ((uint64_t)1 << CPU_##name)
static const CpuTarget cpu_targets[] = {
#define CPU_TARGET(...) {__VA_ARGS__},
#include "runtime/cpu_targets.def"
#undef CPU_TARGET
};
#undef HAS
enum { N_TARGETS = sizeof cpu_targets / sizeof *cpu_targets };

// Where a tile keeps DEFINE_LOCAL: on the worker's stack, small enough for the second-level cache.
enum { LOCAL_BYTES = 256 << 10 };

uint64_t cpu_features_of(CpuidRegisters (*read)(uint32_t leaf, uint32_t subleaf), uint64_t xcr0,
                         uint64_t hwcap) {
    uint64_t features = 0;
#define FEATURE(name, text, leaf, subleaf, reg, bit, os_state) \
    if ((read(leaf, subleaf).reg >> (bit) & 1) && (xcr0 & (os_state)) == (os_state)) \
        features |= (uint64_t)1 << CPU_##name;
#define HWCAP(name, text, bit) \
    if (hwcap >> (bit) & 1) features |= (uint64_t)1 << CPU_##name;
#include "runtime/cpu_features.def"
#undef FEATURE
#undef HWCAP
    return features;
}

uint64_t cpu_features(void) {
    enum { OSXSAVE_BIT = 27 };
    bool has_xsave = cpuid_read(1, 0).ecx >> OSXSAVE_BIT & 1;
    return cpu_features_of(cpuid_read, has_xsave ? xcr0_read() : 0, hardware_capabilities());
}

const char *cpu_features_text(Arena *arena, uint64_t features) {
    TextBuilder b = builder(arena);
    for (int f = 0; f < CPU_FEATURE_COUNT; f++)
        if (features >> f & 1) builder_printf(&b, "%s%s", b.len ? " " : "", feature_names[f]);
    return builder_cstr(&b);
}

static bool is_native_architecture(const CpuTarget *row) {
    return strcmp(row->architecture, cpu_architecture()) == 0;
}

static void target_fill(Target *target, const CpuTarget *row) {
    *target = (Target){
        .vector_bytes = row->vector_bytes,
        .wide_bytes = row->wide_bytes,
        .n_vector_registers = row->n_vector_registers,
        .dot = row->dot,
        .has_fma = row->has_fma,
        .has_f16_convert = row->has_f16_convert,
        .has_byte_shuffle = row->has_byte_shuffle,
        .has_bit_shuffle = row->has_bit_shuffle,
        .has_bit_matrix = row->has_bit_matrix,
        .has_round = row->has_round,
        .reads_ahead = row->reads_ahead,
        .unaligned_loads = true,
        .param_alignment = 1,
        .local_bytes = LOCAL_BYTES,
    };
    target->max_load_bytes = target_widest(target);
    snprintf(target->name, sizeof target->name, "%s", row->name);
    int len = snprintf(target->cc_flags, sizeof target->cc_flags, "%s", row->flags);
    CHECK(len >= 0 && (size_t)len < sizeof target->cc_flags);
}

static const CpuTarget *target_best(uint64_t features) {
    const CpuTarget *best = NULL;
    for (int i = 0; i < N_TARGETS; i++)
        if (is_native_architecture(&cpu_targets[i]) && (cpu_targets[i].needs & ~features) == 0)
            best = &cpu_targets[i];
    return best;
}

static bool is_native_name(const char *name) {
    return !name || strcmp(name, "native") == 0;
}

static bool target_find(const CpuTarget **row, const char *name, Error *err) {
    char known[256] = "native";
    for (int i = 0; i < N_TARGETS; i++) {
        *row = &cpu_targets[i];
        if (strcmp((*row)->name, name) == 0) return true;
        size_t len = strlen(known);
        snprintf(known + len, sizeof known - len, ", %s", (*row)->name);
    }
    return fail(err, LATHE_BAD_REQUEST, "\"%s\" is not a target; choose one of: %s", name, known);
}

bool cpu_target_describe(Target *target, const char *name, uint64_t features, Error *err) {
    const CpuTarget *row;
    if (is_native_name(name)) {
        row = target_best(features);
        if (!row)
            return fail(err, LATHE_UNSUPPORTED, "this CPU lacks even the baseline of %s",
                        cpu_architecture());
        target_fill(target, row);
        return true;
    }
    TRY(target_find(&row, name, err));
    if (!is_native_architecture(row))
        return fail(err, LATHE_UNSUPPORTED,
                    "target %s is for %s, this machine is %s; use --target native", name,
                    row->architecture, cpu_architecture());
    char missing[256] = "";
    for (int f = 0; f < CPU_FEATURE_COUNT; f++) {
        size_t len = strlen(missing);
        if (row->needs & ~features & (uint64_t)1 << f)
            snprintf(missing + len, sizeof missing - len, " %s", feature_names[f]);
    }
    if (*missing)
        return fail(err, LATHE_UNSUPPORTED,
                    "target %s needs%s, which this CPU or system lacks; use --target native", name,
                    missing);
    target_fill(target, row);
    return true;
}

bool cpu_target_find(Target *target, const char *name, Error *err) {
    if (is_native_name(name)) return cpu_target_describe(target, NULL, cpu_features(), err);
    const CpuTarget *row;
    TRY(target_find(&row, name, err));
    target_fill(target, row);
    return true;
}

int cpu_target_count(void) {
    return N_TARGETS;
}

const char *cpu_target_name(int row) {
    CHECK(row >= 0 && row < N_TARGETS);
    return cpu_targets[row].name;
}

uint64_t cpu_target_needs(int row) {
    CHECK(row >= 0 && row < N_TARGETS);
    return cpu_targets[row].needs;
}

const char *cpu_target_architecture(int row) {
    CHECK(row >= 0 && row < N_TARGETS);
    return cpu_targets[row].architecture;
}

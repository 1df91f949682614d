// cpu_target: what this CPU can do, and the targets that the cpu device compiles for.
// In: a name of cpu_targets.def, NULL or "native". Out: a Target with explicit compiler flags.
// Invariant: a target is described only where the CPU has, and the system saves the registers of,
// every feature that it needs; so a kernel compiled for it cannot meet an illegal instruction.
// Example: Target t; TRY(cpu_target_describe(&t, "avx2", cpu_features(), err));
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/os.h"
#include "ir/target.h"

typedef enum CpuFeature {
#define FEATURE(name, ...) CPU_##name,
#define HWCAP(name, ...) CPU_##name,
#include "runtime/cpu_features.def"
#undef FEATURE
#undef HWCAP
    CPU_FEATURE_COUNT
} CpuFeature;

// Sets of features: bit 1 << CpuFeature.
uint64_t cpu_features(void);                       // of the CPU that runs this
// The same from given facts (for tests): reads CPUID through `read`.
uint64_t cpu_features_of(CpuidRegisters (*read)(uint32_t leaf, uint32_t subleaf), uint64_t xcr0,
                         uint64_t hwcap);
const char *cpu_features_text(Arena *arena, uint64_t features);   // "sse4.2 fma avx …"

// Fills *target with the row `name`; NULL or "native" means the best row that `features` allow.
// LATHE_BAD_REQUEST for an unknown name (lists the known ones), LATHE_UNSUPPORTED where features
// are missing (names them).
bool cpu_target_describe(Target *target, const char *name, uint64_t features,
                         Error *err) MUST_CHECK;
// Any row of any architecture, whether or not this CPU has it: for devices that run nothing.
bool cpu_target_find(Target *target, const char *name, Error *err) MUST_CHECK;

int cpu_target_count(void);
const char *cpu_target_name(int row);
uint64_t cpu_target_needs(int row);                // set of features
const char *cpu_target_architecture(int row);      // as cpu_architecture()

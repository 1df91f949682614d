// cuda_dialect: CUDA C++ for the run-time compiler, without a vendor's header. A group of threads runs a tile.
// In: a linear program for a target whose tiles are groups. Out (see cstyle.h): one kernel; vectors are the structs of
// words_prelude, which the compiler takes apart into registers.
// Invariant: conversions, rounding and wrapping are those of ir/eval; the host forbids contraction.
// Example: dot4 of 4 lanes → const vec<i32, 4> v9 = dot4(v6, v7, v8);
#include "render/cuda_prelude.h"
#include "render/words_dialect.h"

const Dialect cuda_dialect = {
    .name = "cuda",
    .suffix = ".cu",
    .prelude = cuda_prelude,
    WORDS_ROWS,
    .param_head = ", u8 *__restrict__ p$slot",
    .group_open = "extern \"C\" __global__ __launch_bounds__($threads$groups) void $name(i32 tiles$params) {\n"
                  "    after_earlier_kernels();\n"
                  "    const i32 item = (i32)threadIdx.x;\n",
    .groups = ", $count",
    .group_tile_open = "    const i32 tile = (i32)blockIdx.x;\n    {\n",
    .barrier = "__syncthreads();\n",
    .last_tile = "if (!is_last_tile($at, $count)) return;\n",
    .thread_xor = "thread_xor<$distance, $width>(($type)$0)",
    .atomic_add = "atomicAdd((f32 *)$at, $0);\n",
    .space = "",
    .array_space = "",
    .local_space = "",
    .local_array = "    alignas(16) __shared__ $element $name[$count];\n",
    .function = "$name$suffix",
    .int64 = "$0LL",
    .nan = "__int_as_float(0x7fffffff)",
    .infinity = "__int_as_float(0x7f800000)",
};

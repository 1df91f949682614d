#!/usr/bin/env python3
"""Random valid blocks of every block type, and what the gguf package says that they mean.

In: nothing but a seed. Out: one file a type in a build folder, TYPE.bin, little-endian:

    4 bytes "LQV1", u32 ggml type id, u32 values a block, u32 bytes a block, u32 blocks
    blocks x bytes a block       the raw blocks
    blocks x values a block f32  the dequantised values

and types.txt, a line "TYPE id values bytes blocks" each. Invariant: every value is finite, and the
first blocks are the corner cases (all bits zero, all quants at their ends, smallest and largest
scales), the others uniform random bits.

    quant_vectors.py [-o build/quant_vectors] [--blocks 1024] [--seed 1]
"""

from __future__ import annotations

import argparse
import os
import struct
from pathlib import Path

try:
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Q, quants
except ImportError as missing:
    print(f"SKIP quant-vectors: {missing} (pip install numpy gguf)")
    print("0 passed, 0 failed, 1 skipped")
    raise SystemExit(0) from None

MAGIC = b"LQV1"

# Where a block keeps 16-bit floats (their exponent must not be all ones) and bytes with a largest value.
HALVES = {
    Q.F16: (0,), Q.Q4_0: (0,), Q.Q4_1: (0, 2), Q.Q5_0: (0,), Q.Q5_1: (0, 2), Q.Q8_0: (0,),
    Q.Q2_K: (80, 82), Q.Q3_K: (108,), Q.Q4_K: (0, 2), Q.Q5_K: (0, 2), Q.Q6_K: (208,),
    Q.IQ4_NL: (0,), Q.IQ4_XS: (0,), Q.MXFP4: (), Q.BF16: (), Q.F32: (),
}
SINGLES = 64         # blocks of one value: that many times more of them
LARGEST_E8M0 = 250   # a power of two that, times the largest code, still is a finite float

# 16-bit patterns of the first blocks: 0, -0, least subnormal, largest subnormal, 1, -1, largest.
HALF_CORNERS = (0x0000, 0x8000, 0x0001, 0x03FF, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF)
FILLS = (0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x7F)   # bytes of the quants in the first blocks


def make_halves_finite(bits: np.ndarray, exponent: int) -> np.ndarray:
    """Clear one exponent bit of the patterns whose exponent is all ones (infinities, NaN)."""
    return np.where((bits & exponent) == exponent, bits & ~np.uint32(exponent & -exponent), bits)


def random_blocks(qtype: Q, count: int, random: np.random.Generator) -> np.ndarray:
    _, size = GGML_QUANT_SIZES[qtype]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    corners = [(fill, half) for fill in FILLS for half in HALF_CORNERS][:count]
    for row, (fill, _) in enumerate(corners):
        blocks[row] = fill
    for offset in HALVES[qtype]:
        field = np.ascontiguousarray(blocks[:, offset:offset + 2]).view("<u2")[:, 0]
        field[:len(corners)] = [half for _, half in corners]
        field = make_halves_finite(field.astype(np.uint32), 0x7C00).astype("<u2")
        blocks[:, offset:offset + 2] = field.view(np.uint8).reshape(-1, 2)
    if qtype == Q.BF16:
        field = make_halves_finite(blocks.view("<u2").astype(np.uint32), 0x7F80)
        blocks = field.astype("<u2").view(np.uint8).reshape(-1, 2)
    elif qtype == Q.F32:
        field = make_halves_finite(blocks.view("<u4").astype(np.uint32), 0x7F800000)
        blocks = field.astype("<u4").view(np.uint8).reshape(-1, 4)
    elif qtype == Q.MXFP4:
        blocks[:, 0] = np.minimum(blocks[:, 0], LARGEST_E8M0)
    return blocks


def write_type(folder: Path, qtype: Q, count: int, random: np.random.Generator) -> str:
    values, size = GGML_QUANT_SIZES[qtype]
    count *= SINGLES if values == 1 else 1
    blocks = random_blocks(qtype, count, random)
    meant = np.ascontiguousarray(quants.dequantize(blocks.reshape(-1), qtype), "<f4")
    if not np.isfinite(meant).all() or meant.size != count * values:
        raise SystemExit(f"internal error: {qtype.name} blocks are not valid")
    head = MAGIC + struct.pack("<4I", qtype, values, size, count)
    (folder / f"{qtype.name}.bin").write_bytes(head + blocks.tobytes() + meant.tobytes())
    return f"{qtype.name} {int(qtype)} {values} {size} {count}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write random blocks and their dequantised values.")
    parser.add_argument("-o", "--output",
                        default=os.path.join(os.environ.get("LATHE_BUILD", "build"), "quant_vectors"))
    parser.add_argument("--blocks", type=int, default=1024, help="blocks a type (default 1024)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.blocks < 1:
        parser.error("--blocks must be at least 1")
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.Generator(np.random.SFC64(args.seed))
    rows = [write_type(folder, qtype, args.blocks, random) for qtype in HALVES]
    (folder / "types.txt").write_text("".join(rows))


if __name__ == "__main__":
    main()

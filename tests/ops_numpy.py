#!/usr/bin/env python3
"""Writes tests/ops_numpy.tsv: what numpy makes of every elementwise op of src/ir/ops.def at the edges of every type.

In: numpy. Out: one line a list of operands, one line a result table; tests/unit/test_ops_numpy.c compares eval with it.
    list  NAME  TYPE  bits…                          operands, as hexadecimal bits
    OP  RESULT_TYPE  ULPS  LIST… | bits…             results for all combinations, the last list fastest
    none  OP  TYPE  reason                           numpy has no such op
Where numpy has no meaning of its own (float to integer out of range, bf16, fused multiply-add) the formula is here.
Run it again after adding an op:  python3 tests/ops_numpy.py
"""
import itertools
import math
import os
from fractions import Fraction

import numpy as np

np.seterr(all="ignore")
INTS = {"BOOL": np.bool_, "I8": np.int8, "U8": np.uint8, "I16": np.int16, "U16": np.uint16, "I32": np.int32,
        "U32": np.uint32, "I64": np.int64, "U64": np.uint64}
FLOATS = {"F16": np.float16, "BF16": np.float32, "F32": np.float32, "F64": np.float64}
TYPES = {**INTS, **FLOATS}
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def bf16(x):
    """f32 values rounded to bfloat16, ties to even, still as f32."""
    x = np.asarray(x, np.float32)
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, rounded).astype(np.float32)


def to_type(name, x):
    return bf16(x) if name == "BF16" else np.asarray(x).astype(TYPES[name])


def hex_bits(name, x):
    """Bits of an array of the named type; every NaN is written as 'nan'."""
    x = np.ascontiguousarray(to_type(name, x)).reshape(-1)
    words = x.view(BITS[x.dtype.itemsize])
    if name == "BF16":
        words = words >> np.uint32(16)
    is_nan = np.isnan(x) if name in FLOATS else np.zeros(x.shape, bool)
    return ["nan" if n else f"{int(w):x}" for w, n in zip(words, is_nan)]


def int_operands(name):
    if name == "BOOL":
        return np.array([False, True])
    info = np.iinfo(INTS[name])
    wanted = [info.min, info.min + 1, -2, -1, 0, 1, 2, 3, 7, info.bits - 1, info.bits, info.max // 2 + 1, info.max - 1,
              info.max]
    return np.array([v for v in dict.fromkeys(wanted) if info.min <= v <= info.max], INTS[name])


def float_operands(name):
    tiny = {"F16": 2.0**-24, "BF16": 2.0**-133, "F32": 2.0**-149, "F64": 2.0**-1074}[name]
    largest = {"F16": 65504.0, "BF16": 2.0**127 * (2 - 2.0**-7), "F32": float(np.finfo(np.float32).max),
               "F64": float(np.finfo(np.float64).max)}[name]
    wanted = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1.0 / 3, -100.0, tiny, largest, -largest]
    return to_type(name, np.array(wanted))


def cast_operands(name):
    """Around the limits of every integer type."""
    edges = [-129.5, -128.5, 127.5, 255.9, 256.0, 32767.5, -32769.0, 65535.5, 2.0**31, -2.0**31 - 1, 2.0**32, 2.0**63,
             -2.0**63, 2.0**64, 1e30, -1e30, 1e-30, 65519.0, 65520.0, 1 + 2.0**-24, 1 + 2.0**-11, 1 + 3 * 2.0**-8]
    return np.concatenate([float_operands(name), to_type(name, np.array(edges))])


def cast(source, target, x):
    if target in FLOATS:
        return to_type(target, x)
    if source not in FLOATS or target == "BOOL":
        return x.astype(INTS[target])
    info = np.iinfo(INTS[target])

    def one(v):
        if math.isnan(v):
            return 0
        if math.isinf(v):
            return info.max if v > 0 else info.min
        return min(max(math.trunc(v), info.min), info.max)
    return np.array([one(float(v)) for v in x], INTS[target])


def muladd(a, b, c):
    def one(x, y, z):
        x, y, z = float(x), float(y), float(z)
        if not all(map(math.isfinite, (x, y, z))):
            return x * y + z if math.isfinite(x) and math.isfinite(y) else np.float64(x) * y + z
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            return x * y + z          # the sign of zero
        try:
            return float(exact)
        except OverflowError:
            return math.copysign(math.inf, exact)
    return np.array([one(*v) for v in zip(a, b, c)])


# op: numpy's function, ulps allowed in floats (libraries differ in the last place of a transcendental)
ON_INTS = {"NEG": np.negative, "NOT": np.logical_not, "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply,
           "IDIV": np.floor_divide, "MOD": np.mod, "MAX": np.maximum, "MIN": np.minimum, "AND": np.bitwise_and,
           "OR": np.bitwise_or, "XOR": np.bitwise_xor, "SHL": np.left_shift, "SHR": np.right_shift, "LT": np.less,
           "EQ": np.equal, "NE": np.not_equal, "WHERE": np.where}
ON_FLOATS = {"NEG": (np.negative, 0), "RECIP": (lambda a: np.divide(a.dtype.type(1), a), 0), "SQRT": (np.sqrt, 0), "EXP": (np.exp, 2),
             "LOG": (np.log, 2), "SIN": (np.sin, 2), "COS": (np.cos, 2), "FLOOR": (np.floor, 0), "ROUND": (np.rint, 0),
             "ADD": (np.add, 0), "SUB": (np.subtract, 0), "MUL": (np.multiply, 0), "FDIV": (np.divide, 0),
             "MAX": (np.fmax, 0), "MIN": (np.fmin, 0), "LT": (np.less, 0), "EQ": (np.equal, 0), "NE": (np.not_equal, 0),
             "WHERE": (np.where, 0), "MULADD": (muladd, 1)}
ARITY = {"NEG": 1, "NOT": 1, "RECIP": 1, "SQRT": 1, "EXP": 1, "LOG": 1, "SIN": 1, "COS": 1, "FLOOR": 1, "ROUND": 1,
         "WHERE": 3, "MULADD": 3}
COMPARES = ("LT", "EQ", "NE")
NOT_ON_BOOL = {"NEG": "no negative of bools", "SUB": "no difference of bools", "IDIV": "bools divide as int8",
               "MOD": "bools divide as int8", "SHL": "bools shift as int8", "SHR": "bools shift as int8"}


def table(lines, lists, op, result, ulps, names, function):
    operands = [lists[n][1] for n in names]
    columns = [np.array(c, operands[i].dtype) for i, c in enumerate(zip(*itertools.product(*operands)))]
    lines.append("\t".join([op, result, str(ulps), *names, "|", " ".join(hex_bits(result, function(*columns)))]))


def main():
    lists = {name: (name, int_operands(name)) for name in INTS}
    for name in FLOATS:
        lists[name] = (name, float_operands(name))
        lists[name + "_few"] = (name, to_type(name, np.array([math.nan, math.inf, -0.0, 0.0, 1.0, -2.5, 1.0 / 3])))
        lists[name + "_cast"] = (name, cast_operands(name))
    lines = ["\t".join(["list", n, t, " ".join(hex_bits(t, x))]) for n, (t, x) in lists.items()]
    for name in INTS:
        for op, function in ON_INTS.items():
            if name == "BOOL" and op in NOT_ON_BOOL:
                lines.append("\t".join(["none", op, name, NOT_ON_BOOL[op]]))
                continue
            names = [name] * ARITY.get(op, 2)
            if op == "WHERE":
                names[0] = "BOOL"
            table(lines, lists, op, "BOOL" if op in COMPARES else name, 0, names, function)
    for name in FLOATS:
        for op, (function, ulps) in ON_FLOATS.items():
            names = [name] * ARITY.get(op, 2)
            if len(names) == 3:
                names = ["BOOL" if op == "WHERE" else name + "_few", name + "_few", name + "_few"]
            table(lines, lists, op, "BOOL" if op in COMPARES else name, ulps, names, function)
    for source, target in itertools.product(TYPES, TYPES):
        operands = source if source in INTS else source + "_cast"
        table(lines, lists, "CAST", target, 0, [operands], lambda x: cast(source, target, x))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops_numpy.tsv"), "w") as out:
        out.write(f"# made by tests/ops_numpy.py with numpy {np.__version__}; its head describes the lines\n")
        out.write("\n".join(lines) + "\n")


main()

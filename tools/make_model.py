#!/usr/bin/env python3
"""Make GGUF model files with random weights in the shapes of published models.

Real checkpoints are not always at hand, but speed depends only on shapes and
on the storage types of the weights.  This script writes GGUF files that have
the metadata, the tensor names and the tensor shapes of the real models, filled
with random weights, so that any GGUF engine can load and time them.  The tiny
shapes run in milliseconds and serve as test models.

    make_model.py --list
    make_model.py youtu-llm-2b --quant q4_0 -o youtu.gguf
    make_model.py tiny-glm --quant f32 --seed 1 -o tiny-glm-f32.gguf
    make_model.py glm-4.7-flash --quant q4_k_m --dry-run
    make_model.py --info youtu.gguf
    make_model.py tiny-glm --split 3 -o tiny.gguf      # tiny-00001-of-00003.gguf and two more
    make_model.py tiny-glm --gguf-version 2 -o tiny.gguf
    make_model.py tiny-glm --early-latent -o tiny.gguf # deepseek2 in its first form with split k_b, v_b

The last three hold the same weights as the plain file, so an engine must give the same logits.

What the weights are
  A seed and a tensor's name alone fix that tensor's content.  Only integer
  arithmetic and correctly rounded float operations are used, so a file is the
  same, byte for byte, on every machine.  Weights have zero mean and a standard
  deviation that keeps activations near one, norms are near one, and the head
  gives logits with a spread of one to two.
  In the tiny shapes every mix holds the same numbers, rounded to its types.
  In the others quantised blocks are drawn directly: random quants under scales
  of the right size, so that making a file takes as long as writing it.

What is read per token
  The summary (also: --info FILE) gives the bytes of weights that decoding one
  token has to read: every matrix once, experts only in the share that is
  active, one row of the token embedding, the output head in full.
  Divide by the time per token to get the bandwidth that an engine reached.

Needs numpy and gguf (PyPI).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import struct
import sys
import time
import zlib
from dataclasses import dataclass, replace

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Q, GGUFValueType as V, quants

ALIGNMENT = 32
CHUNK = 1 << 20  # bytes made at a time; small enough for the cache, without effect on the content
TOKEN_NORMAL, TOKEN_CONTROL = 1, 3
GATE_SOFTMAX, GATE_SIGMOID = 1, 2


# ---------------------------------------------------------------- shapes

@dataclass(frozen=True)
class Shape:
    """Hyper-parameters of one model. Zero means: the model has no such thing."""

    arch: str                    # general.architecture
    title: str
    family: str                  # tokenizer and chat format
    blocks: int
    dim: int
    heads: int
    ffn: int                     # hidden size of the dense FFN
    vocab: int
    context: int
    theta: float                 # RoPE base
    eps: float                   # RMS norm epsilon
    tied: bool = False           # the output head is the token embedding
    # grouped-query attention
    kv_heads: int = 0
    head_dim: int = 0
    window: int = 0              # sliding window, in the blocks that have one
    qkv_bias: bool = False       # attn_q, attn_k and attn_v have a bias
    llama3_rope: bool = False    # rope_freqs tensor: factor 32, 1..4, 8192
    # multi-head latent attention
    q_lora: int = 0              # 0 with kv_lora > 0: plain attn_q
    kv_lora: int = 0
    nope: int = 0
    rope: int = 0
    v_dim: int = 0
    yarn: tuple = ()             # factor, original context, mscale_all_dim
    # mixture of experts
    experts: int = 0
    experts_used: int = 0
    experts_shared: int = 0
    expert_groups: int = 1       # experts come in groups, and only the best groups are looked at
    expert_groups_used: int = 1
    expert_ffn: int = 0
    dense_lead: int = 0          # leading blocks with a dense FFN
    gating: int = 0
    expert_scale: float = 1.0
    expert_norm: bool = False    # weights of the chosen experts sum to one
    expert_bias: bool = False    # exp_probs_b, added for the choice only

    @property
    def mla(self) -> bool:
        return self.kv_lora > 0

    @property
    def qk_dim(self) -> int:
        return self.nope + self.rope

    @property
    def tiny(self) -> bool:
        return self.dim <= 256


SHAPES = {
    "glm-4.7-flash": Shape(
        "deepseek2", "GLM-4.7-Flash", "glm", 47, 2048, 20, 10240, 154880, 202752, 1e6, 1e-5,
        q_lora=768, kv_lora=512, nope=192, rope=64, v_dim=256,
        experts=64, experts_used=4, experts_shared=1, expert_ffn=1536, dense_lead=1,
        gating=GATE_SIGMOID, expert_scale=1.8, expert_norm=True, expert_bias=True),
    "deepseek-v2-lite": Shape(
        "deepseek2", "DeepSeek-V2-Lite", "deepseek", 27, 2048, 16, 10944, 102400, 163840, 1e4, 1e-6,
        kv_lora=512, nope=128, rope=64, v_dim=128, yarn=(40.0, 4096, 0.707),
        experts=64, experts_used=6, experts_shared=2, expert_ffn=1408, dense_lead=1,
        gating=GATE_SOFTMAX),
    "youtu-llm-2b": Shape(
        "deepseek2", "Youtu-LLM-2B", "youtu", 32, 2048, 16, 6144, 128256, 131072, 1.6e6, 1e-6,
        tied=True, q_lora=1536, kv_lora=512, nope=128, rope=64, v_dim=128, dense_lead=32),
    "llama-3.2-1b": Shape(
        "llama", "Llama-3.2-1B", "llama", 16, 2048, 32, 8192, 128256, 131072, 5e5, 1e-5,
        tied=True, kv_heads=8, head_dim=64, llama3_rope=True),
    "qwen3-0.6b": Shape(
        "qwen3", "Qwen3-0.6B", "qwen", 28, 1024, 16, 3072, 151936, 40960, 1e6, 1e-6,
        tied=True, kv_heads=8, head_dim=128),
    "qwen3-30b-a3b": Shape(
        "qwen3moe", "Qwen3-30B-A3B", "qwen", 48, 2048, 32, 6144, 151936, 40960, 1e6, 1e-6,
        kv_heads=4, head_dim=128, experts=128, experts_used=8, expert_ffn=768),
    "gemma3-270m": Shape(
        "gemma3", "Gemma-3-270M", "gemma", 18, 640, 4, 2048, 262144, 32768, 1e6, 1e-6,
        tied=True, kv_heads=1, head_dim=256, window=512),

    # Test models. Sizes differ on purpose: some rows divide by 256, some only by 32,
    # the value head differs from the key head, expert counts are no power of two.
    "tiny-glm": Shape(
        "deepseek2", "Tiny-GLM", "glm", 2, 256, 4, 256, 512, 4096, 1e6, 1e-5,
        q_lora=256, kv_lora=128, nope=32, rope=32, v_dim=64,
        experts=4, experts_used=2, experts_shared=1, expert_ffn=256, dense_lead=1,
        gating=GATE_SIGMOID, expert_scale=1.8, expert_norm=True, expert_bias=True),
    "tiny-dsv2": Shape(
        "deepseek2", "Tiny-DeepSeek-V2", "deepseek", 2, 256, 4, 256, 512, 4096, 1e4, 1e-6,
        kv_lora=256, nope=64, rope=32, v_dim=64, yarn=(40.0, 128, 0.707),
        experts=6, experts_used=3, experts_shared=2, expert_ffn=128, dense_lead=1,
        gating=GATE_SOFTMAX),
    "tiny-youtu": Shape(
        "deepseek2", "Tiny-Youtu", "youtu", 3, 256, 4, 256, 512, 4096, 1.6e6, 1e-6,
        tied=True, q_lora=256, kv_lora=256, nope=64, rope=32, v_dim=64, dense_lead=3),
    "tiny-llama": Shape(
        "llama", "Tiny-Llama", "llama", 3, 256, 4, 512, 1024, 4096, 5e5, 1e-5,
        tied=True, kv_heads=2, head_dim=64, llama3_rope=True),
    "tiny-qwen3moe": Shape(
        "qwen3moe", "Tiny-Qwen3-MoE", "qwen", 2, 256, 4, 512, 512, 4096, 1e6, 1e-6,
        kv_heads=2, head_dim=64, experts=6, experts_used=2, expert_ffn=128),
    "tiny-qwen2": Shape(
        "qwen2", "Tiny-Qwen2", "qwen", 3, 256, 4, 512, 512, 4096, 1e6, 1e-6,
        kv_heads=2, head_dim=64, qkv_bias=True),
    "tiny-qwen3": Shape(
        "qwen3", "Tiny-Qwen3", "qwen", 3, 256, 4, 512, 512, 4096, 1e6, 1e-6,
        kv_heads=2, head_dim=96),
    "tiny-gemma3": Shape(        # six blocks: five look back over the window, one over everything
        "gemma3", "Tiny-Gemma-3", "gemma", 6, 256, 4, 256, 512, 4096, 1e6, 1e-6,
        tied=True, kv_heads=1, head_dim=64, window=16),
    "tiny-group": Shape(
        "deepseek2", "Tiny-DeepSeek-V3", "deepseek", 2, 256, 4, 256, 512, 4096, 1e4, 1e-6,
        q_lora=256, kv_lora=128, nope=32, rope=32, v_dim=64,
        experts=8, experts_used=2, experts_shared=1, expert_groups=4, expert_groups_used=2, expert_ffn=128,
        dense_lead=1, gating=GATE_SIGMOID, expert_scale=2.5, expert_norm=True, expert_bias=True),
}


# ---------------------------------------------------------------- mixes

@dataclass(frozen=True)
class Mix:
    base: Q                      # type of the weight matrices
    file_type: int               # general.file_type
    head: Q | None = None        # type of the output head (and of a tied embedding)
    note: str = ""


MIXES = {
    "f32": Mix(Q.F32, 0),
    "f16": Mix(Q.F16, 1),
    "bf16": Mix(Q.BF16, 32),
    "q8_0": Mix(Q.Q8_0, 7),
    "q4_0": Mix(Q.Q4_0, 2, Q.Q6_K),
    "q4_1": Mix(Q.Q4_1, 3, Q.Q6_K),
    "q5_0": Mix(Q.Q5_0, 8, Q.Q6_K),
    "q5_1": Mix(Q.Q5_1, 9, Q.Q6_K),
    "q2_k": Mix(Q.Q2_K, 21, Q.Q6_K, "uniform"),
    "q3_k": Mix(Q.Q3_K, 11, Q.Q6_K, "uniform"),
    "q4_k": Mix(Q.Q4_K, 14, Q.Q6_K, "uniform"),
    "q5_k": Mix(Q.Q5_K, 16, Q.Q6_K, "uniform"),
    "q6_k": Mix(Q.Q6_K, 18, Q.Q6_K),
    "iq4_nl": Mix(Q.IQ4_NL, 25, Q.Q6_K, "uniform"),
    "mxfp4": Mix(Q.MXFP4, 38, Q.Q8_0, "uniform"),
    "mxfp4_moe": Mix(Q.Q8_0, 38, Q.Q8_0, "3-D tensors MXFP4, the rest Q8_0"),
    "q4_k_m": Mix(Q.Q4_K, 15, Q.Q6_K, "more bits for some attn_v and ffn_down"),
    "q5_k_m": Mix(Q.Q5_K, 17, Q.Q6_K, "more bits for some attn_v and ffn_down"),
}

# A row that does not divide by 256 cannot hold a K-quant: the customary stand-ins.
ROW_FALLBACK = {Q.Q2_K: Q.Q4_0, Q.Q3_K: Q.Q4_0, Q.Q4_K: Q.Q5_0, Q.Q5_K: Q.Q5_1, Q.Q6_K: Q.Q8_0}


@dataclass
class Tensor:
    name: str
    ne: tuple                    # dimensions, fastest first
    std: float = 0.0
    mean: float = 0.0
    keep_f32: bool = False       # norms, router, biases
    values: np.ndarray | None = None
    type: Q = Q.F32

    @property
    def count(self) -> int:
        return math.prod(self.ne)

    @property
    def nbytes(self) -> int:
        return tensor_bytes(self.count, self.type)


def tensor_bytes(count: int, qtype: Q) -> int:
    block, size = GGML_QUANT_SIZES[qtype]
    return count // block * size


def more_bits(block: int, blocks: int) -> bool:
    """The blocks to which the *_k_m mixes give a better type."""
    eighth = blocks // 8
    return block < eighth or block >= 7 * blocks // 8 or (block - eighth) % 3 == 2


def choose_type(tensor: Tensor, mix_name: str, shape: Shape) -> Q:
    """Storage type of a tensor in a mix, by the rules that quantising tools follow."""
    mix = MIXES[mix_name]
    if tensor.keep_f32 or len(tensor.ne) == 1:
        return Q.F32
    qtype = mix.base
    parts = tensor.name.split(".")
    is_head = tensor.name == "output.weight" or (shape.tied and tensor.name == "token_embd.weight")
    if is_head and mix.head:
        row = tensor.ne[0]
        qtype = mix.head if row % GGML_QUANT_SIZES[mix.base][0] == 0 else Q.Q8_0
    elif mix_name == "mxfp4_moe" and len(tensor.ne) == 3 and tensor.name != "token_embd.weight":
        qtype = Q.MXFP4
    elif mix_name in ("q4_k_m", "q5_k_m") and parts[0] == "blk":
        role = parts[2]
        if (role == "attn_v" or role.startswith("ffn_down")) and more_bits(int(parts[1]), shape.blocks):
            qtype = Q.Q6_K
    row = tensor.ne[0]
    if row % GGML_QUANT_SIZES[qtype][0]:
        qtype = ROW_FALLBACK.get(qtype, qtype)
    if row % GGML_QUANT_SIZES[qtype][0]:
        qtype = Q.F16
    return qtype


# ---------------------------------------------------------------- tensors

def rope_factors(dim: int, theta: float) -> np.ndarray:
    """Per-frequency divisors of the Llama 3 context extension."""
    factor, low, high, original = 32.0, 1.0, 4.0, 8192.0
    out = []
    for i in range(0, dim, 2):
        wavelength = 2.0 * math.pi * theta ** (i / dim)
        turns = original / wavelength
        if turns > high:
            out.append(1.0)
        elif turns < low:
            out.append(factor)
        else:
            mix = (turns - low) / (high - low)
            out.append(1.0 / ((1.0 - mix) / factor + mix))
    # Rounding hides last-digit differences between maths libraries.
    return np.array([round(x * 4096) / 4096 for x in out], dtype=np.float32)


def list_tensors(s: Shape) -> list[Tensor]:
    """All tensors of a shape, in file order. Standard deviations keep activations near one."""
    out: list[Tensor] = []

    def weight(name, *ne, gain=1.0, fan_in=0, keep_f32=False):
        out.append(Tensor(name + ".weight", ne, gain / math.sqrt(fan_in or ne[0]), keep_f32=keep_f32))

    def norm(name, size, mean=1.0):
        out.append(Tensor(name + ".weight", (size,), 0.05, mean, keep_f32=True))

    weight("token_embd", s.dim, s.vocab)
    if s.llama3_rope:
        out.append(Tensor("rope_freqs.weight", (s.head_dim // 2,), keep_f32=True,
                          values=rope_factors(s.head_dim, s.theta)))
    branch = 1.0 / math.sqrt(2.0 * s.blocks) if s.tiny else 0.5
    # A tied head under a scaled embedding would repeat the last token unless the blocks outweigh it.
    post = 4.0 if s.tiny else 1.0
    for i in range(s.blocks):
        p = f"blk.{i}."
        norm(p + "attn_norm", s.dim)
        if s.mla:
            if s.q_lora:
                weight(p + "attn_q_a", s.dim, s.q_lora)
                norm(p + "attn_q_a_norm", s.q_lora)
                weight(p + "attn_q_b", s.q_lora, s.heads * s.qk_dim)
            else:
                weight(p + "attn_q", s.dim, s.heads * s.qk_dim)
            weight(p + "attn_kv_a_mqa", s.dim, s.kv_lora + s.rope)
            norm(p + "attn_kv_a_norm", s.kv_lora)
            weight(p + "attn_k_b", s.nope, s.kv_lora, s.heads, fan_in=s.kv_lora)
            weight(p + "attn_v_b", s.kv_lora, s.v_dim, s.heads)
            weight(p + "attn_output", s.heads * s.v_dim, s.dim, gain=branch)
        else:
            weight(p + "attn_q", s.dim, s.heads * s.head_dim)
            weight(p + "attn_k", s.dim, s.kv_heads * s.head_dim)
            weight(p + "attn_v", s.dim, s.kv_heads * s.head_dim)
            if s.qkv_bias:
                for role, count, std in (("q", s.heads, 0.5), ("k", s.kv_heads, 0.5), ("v", s.kv_heads, 0.1)):
                    out.append(Tensor(f"{p}attn_{role}.bias", (count * s.head_dim,), std, keep_f32=True))
            if s.arch not in ("llama", "qwen2"):
                norm(p + "attn_q_norm", s.head_dim)
                norm(p + "attn_k_norm", s.head_dim)
            weight(p + "attn_output", s.heads * s.head_dim, s.dim, gain=branch)
        if s.arch == "gemma3":
            norm(p + "post_attention_norm", s.dim, post)
        norm(p + "ffn_norm", s.dim)
        if s.experts and i >= s.dense_lead:
            weight(p + "ffn_gate_inp", s.dim, s.experts, gain=1.5, keep_f32=True)
            if s.expert_bias:
                out.append(Tensor(p + "exp_probs_b.bias", (s.experts,), 0.05, keep_f32=True))
            weight(p + "ffn_gate_exps", s.dim, s.expert_ffn, s.experts)
            weight(p + "ffn_up_exps", s.dim, s.expert_ffn, s.experts)
            weight(p + "ffn_down_exps", s.expert_ffn, s.dim, s.experts, gain=2 * branch)
            if s.experts_shared:
                hidden = s.expert_ffn * s.experts_shared
                weight(p + "ffn_gate_shexp", s.dim, hidden)
                weight(p + "ffn_up_shexp", s.dim, hidden)
                weight(p + "ffn_down_shexp", hidden, s.dim, gain=2 * branch)
        else:
            weight(p + "ffn_gate", s.dim, s.ffn)
            weight(p + "ffn_up", s.dim, s.ffn)
            weight(p + "ffn_down", s.ffn, s.dim, gain=2 * branch)
        if s.arch == "gemma3":
            norm(p + "post_ffw_norm", s.dim, post)
    norm("output_norm", s.dim)
    if not s.tied:
        weight("output", s.dim, s.vocab, gain=2.0)
    return out


# ---------------------------------------------------------------- random contents

class Stream:
    """Random bits that depend on the seed and the tensor's name only."""

    def __init__(self, seed: int, name: str):
        self.bits = np.random.SFC64(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))

    def bytes(self, count: int) -> np.ndarray:
        words = self.bits.random_raw((count + 7) // 8)
        return words.astype("<u8", copy=False).view(np.uint8)[:count]

    def normal(self, count: int, std: float, mean: float) -> np.ndarray:
        """Nearly normal float32: the sum of four 16-bit uniforms, exact until the last product."""
        words = self.bits.random_raw(count)
        half = np.uint64(0x0000FFFF0000FFFF)
        pairs = (words & half) + (words >> np.uint64(16) & half)
        total = ((pairs & np.uint64(0xFFFFFFFF)) + (pairs >> np.uint64(32))).astype(np.int32) - 131070
        unit = 2.0 * math.sqrt((65536.0 * 65536.0 - 1.0) / 12.0)
        out = total.astype(np.float32) * np.float32(std / unit)
        return out + np.float32(mean) if mean else out


IQ4_NL_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def mean_square(values) -> float:
    values = list(values)
    return sum(v * v for v in values) / len(values)


def scale_table(rms: float, signed: bool) -> np.ndarray:
    """256 scales in 0.75..1.25 times rms; half of them negative where quants are off-centre."""
    out = []
    for i in range(256):
        scale = rms * (0.75 + 0.5 * (i >> 1) / 127.0) / math.sqrt(1.0 + 1.0 / 48.0)
        out.append(-scale if signed and i & 1 else scale)
    return np.array(out, dtype=np.float64)


def half_bits(table: np.ndarray) -> np.ndarray:
    return table.astype("<f2").view("<u2")


def set_half(blocks: np.ndarray, offset: int, table: np.ndarray, index: np.ndarray) -> None:
    """Store table[index], half-precision bit patterns, at a byte offset of every block."""
    blocks[:, offset:offset + 2].view("<u2")[:, 0] = table[index]


def block_filler(qtype: Q, std: float):
    """A function that turns random bytes, one row per block, into valid blocks in place."""
    nibble = [i % 16 for i in range(16)]

    def with_scale(offset, values, signed, minimum_at=None, centre=0.0):
        rms = std / math.sqrt(mean_square(v - centre for v in values))
        scales = scale_table(rms, signed)
        table = half_bits(scales)
        minimum = half_bits(scales * -centre) if minimum_at is not None else None

        def fill(blocks):
            index = blocks[:, offset].copy()
            set_half(blocks, offset, table, index)
            if minimum is not None:
                set_half(blocks, minimum_at, minimum, index)
        return fill

    if qtype == Q.Q4_0:
        return with_scale(0, [v - 8 for v in nibble], True)
    if qtype == Q.Q4_1:
        return with_scale(0, nibble, False, 2, 7.5)
    if qtype == Q.Q5_0:
        return with_scale(0, [v - 16 for v in range(32)], True)
    if qtype == Q.Q5_1:
        return with_scale(0, range(32), False, 2, 15.5)
    if qtype == Q.IQ4_NL:
        return with_scale(0, IQ4_NL_VALUES, True)
    if qtype == Q.Q8_0:
        scale = with_scale(0, range(-127, 128), True)

        def fill_q8_0(blocks):
            scale(blocks)
            blocks[:, 2:] += blocks[:, 2:] == 0x80  # quantisers never produce -128
        return fill_q8_0
    if qtype == Q.MXFP4:
        # Two neighbouring powers of two, mixed so that the mean square comes out right.
        target = std * std / mean_square(FP4_VALUES)
        low = math.floor(math.log2(target) / 2.0)
        share = (target / 4.0 ** low - 1.0) / 3.0
        cut = round(256 * share)
        table = np.array([low + 127 + (i < cut) for i in range(256)], dtype=np.uint8)

        def fill_mxfp4(blocks):
            blocks[:, 0] = table[blocks[:, 0]]
        return fill_mxfp4

    if qtype == Q.Q2_K:  # 16 x (4-bit scale, 4-bit minimum), 2-bit quants, d, dmin
        sub = np.array([(8 + (i & 7)) * 17 for i in range(256)], dtype=np.uint8)
        rms = std / math.sqrt(mean_square(range(8, 16)) * mean_square((-1.5, -0.5, 0.5, 1.5)))
        scales = scale_table(rms, False)
        d, dmin = half_bits(scales), half_bits(scales * 1.5)

        def fill_q2_k(blocks):
            blocks[:, 0:16] = sub[blocks[:, 0:16]]
            index = blocks[:, 80].copy()
            set_half(blocks, 80, d, index)
            set_half(blocks, 82, dmin, index)
        return fill_q2_k
    if qtype == Q.Q3_K:  # high bits, 2-bit quants, 16 6-bit scales (offset 32), d
        rms = std / math.sqrt(mean_square(range(-32, 32)) * mean_square(range(-4, 4)))
        d = half_bits(scale_table(rms, False))

        def fill_q3_k(blocks):
            set_half(blocks, 108, d, blocks[:, 108].copy())
        return fill_q3_k
    if qtype in (Q.Q4_K, Q.Q5_K):  # d, dmin, 8 x (6-bit scale, 6-bit minimum) packed, quants
        levels = 16 if qtype == Q.Q4_K else 32
        centre = (levels - 1) / 2.0
        rms = std / math.sqrt(mean_square(range(32, 64)) * mean_square(v - centre for v in range(levels)))
        scales = scale_table(rms, False)
        d, dmin = half_bits(scales), half_bits(scales * centre)

        def fill_q45_k(blocks):
            index = blocks[:, 0].copy()
            set_half(blocks, 0, d, index)
            set_half(blocks, 2, dmin, index)
            # Minimum = scale in every sub-block, so that values are centred; scales in 32..63.
            first = blocks[:, 4:8] | 0xA0
            last = blocks[:, 12:16] & 0x0F
            blocks[:, 4:8] = first
            blocks[:, 8:12] = first
            blocks[:, 12:16] = last | last << 4
        return fill_q45_k
    if qtype == Q.Q6_K:  # low and high bits, 16 int8 scales, d
        sub = np.array([64 + (i & 63) if i < 128 else 128 + (i & 63) for i in range(256)], dtype=np.uint8)
        sub_square = mean_square(int(v) for v in sub.view(np.int8))
        rms = std / math.sqrt(sub_square * mean_square(range(-32, 32)))
        d = half_bits(scale_table(rms, False))

        def fill_q6_k(blocks):
            blocks[:, 192:208] = sub[blocks[:, 192:208]]
            set_half(blocks, 208, d, blocks[:, 208].copy())
        return fill_q6_k
    raise ValueError(f"no block generator for {qtype.name}")


def float_bytes(values: np.ndarray, qtype: Q) -> np.ndarray:
    """Float32 values as the bytes of an unquantised type."""
    if qtype == Q.F32:
        return values.astype("<f4", copy=False).view(np.uint8)
    if qtype == Q.F16:
        return values.astype("<f2").view(np.uint8)
    bits = values.astype("<f4", copy=False).view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    return rounded.astype("<u2").view(np.uint8)


def ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.divide(a, b, out=np.zeros(np.broadcast_shapes(a.shape, b.shape), np.float32), where=b != 0)


def nearest(a: np.ndarray, low: int, high: int) -> np.ndarray:
    return np.clip(np.rint(a), low, high).astype(np.int32)


def largest(x: np.ndarray) -> np.ndarray:
    """The value of largest magnitude along the last axis, with its sign."""
    return np.take_along_axis(x, np.abs(x).argmax(axis=-1)[..., None], axis=-1)[..., 0]


def half(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A scale per block as stored bytes and as the float32 that a reader sees."""
    stored = x.astype("<f2")
    return stored.reshape(-1, 1).view(np.uint8), stored.astype(np.float32).reshape(-1, 1)


def join(*fields: np.ndarray) -> np.ndarray:
    return np.concatenate([f.astype(np.uint8).reshape(len(f), -1) for f in fields], axis=1)


def pack_pairs(q: np.ndarray) -> np.ndarray:
    """Four bits each; the second 32 of every 64 values go to the high halves."""
    q = q.reshape(-1, 4, 2, 32) & 15
    return q[:, :, 0] | q[:, :, 1] << 4


def pack_quarters(q: np.ndarray) -> np.ndarray:
    """Two bits each; the four 32s of every 128 values share bytes."""
    q = q.reshape(-1, 2, 4, 32) & 3
    return q[:, :, 0] | q[:, :, 1] << 2 | q[:, :, 2] << 4 | q[:, :, 3] << 6


def pack_bits(q: np.ndarray) -> np.ndarray:
    """One bit each; bit j of byte i belongs to value 32 j + i."""
    q = q.reshape(-1, 8, 32)
    return sum((q[:, j] & 1) << j for j in range(8))


def with_minimum(x: np.ndarray, top: int, sub_top: int):
    """Scales and minima of groups (n, groups, size), and the quants 0..top under them."""
    low = np.maximum(-x.min(axis=2), np.float32(0))
    step = (x.max(axis=2) + low) / np.float32(top)
    d_bytes, d = half(step.max(axis=1) / np.float32(sub_top))
    m_bytes, m = half(low.max(axis=1) / np.float32(sub_top))
    scale, minimum = nearest(ratio(step, d), 0, sub_top), nearest(ratio(low, m), 0, sub_top)
    shifted = x + (m * minimum.astype(np.float32))[:, :, None]
    q = nearest(ratio(shifted, (d * scale.astype(np.float32))[:, :, None]), 0, top)
    return d_bytes, m_bytes, scale, minimum, q


def without_minimum(x: np.ndarray, top: int, sub_top: int):
    """Signed scales of groups (n, groups, size), and the quants -top..top-1 under them."""
    step = largest(x) / np.float32(-top)
    d_bytes, d = half(np.abs(step).max(axis=1) / np.float32(sub_top))
    scale = nearest(ratio(step, d), -sub_top, sub_top)
    q = nearest(ratio(x, (d * scale.astype(np.float32))[:, :, None]), -top, top - 1)
    return d_bytes, scale, q


def quantise(values: np.ndarray, qtype: Q) -> np.ndarray:
    """Float32 values as blocks of a quantised type, rounded to nearest."""
    block, _ = GGML_QUANT_SIZES[qtype]
    x = values.reshape(-1, block)
    if qtype in (Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.MXFP4):
        out = quants.quantize(x, qtype).view(np.uint8)
    elif qtype == Q.IQ4_NL:
        d_bytes, d = half(largest(x) / np.float32(-127))
        middles = [(a + b) / 2 for a, b in zip(IQ4_NL_VALUES, IQ4_NL_VALUES[1:])]
        q = np.searchsorted(np.array(middles, dtype=np.float32), ratio(x, d)).reshape(-1, 2, 16)
        out = join(d_bytes, q[:, 0] | q[:, 1] << 4)
    elif qtype == Q.Q2_K:
        d, m, scale, minimum, q = with_minimum(x.reshape(-1, 16, 16), 3, 15)
        out = join(scale | minimum << 4, pack_quarters(q), d, m)
    elif qtype == Q.Q3_K:
        d, scale, q = without_minimum(x.reshape(-1, 16, 16), 4, 31)
        scale, q = scale + 32, q + 4
        high = (scale >> 4).reshape(-1, 4, 4)
        high = high[:, 0] | high[:, 1] << 2 | high[:, 2] << 4 | high[:, 3] << 6
        out = join(pack_bits(q >> 2), pack_quarters(q), scale[:, :8] & 15 | (scale[:, 8:] & 15) << 4, high, d)
    elif qtype in (Q.Q4_K, Q.Q5_K):
        d, m, scale, minimum, q = with_minimum(x.reshape(-1, 8, 32), 15 if qtype == Q.Q4_K else 31, 63)
        packed = join(scale[:, :4] | scale[:, 4:] >> 4 << 6, minimum[:, :4] | minimum[:, 4:] >> 4 << 6,
                      scale[:, 4:] & 15 | (minimum[:, 4:] & 15) << 4)
        high = [pack_bits(q >> 4)] if qtype == Q.Q5_K else []
        out = join(d, m, packed, *high, pack_pairs(q))
    elif qtype == Q.Q6_K:
        d, scale, q = without_minimum(x.reshape(-1, 16, 16), 32, 127)
        q = (q + 32).reshape(-1, 2, 4, 32)
        low = np.stack([q[:, :, 0] & 15 | (q[:, :, 2] & 15) << 4, q[:, :, 1] & 15 | (q[:, :, 3] & 15) << 4], axis=2)
        out = join(low, pack_quarters(q >> 4), scale, d)
    else:
        raise ValueError(f"cannot quantise to {qtype.name}")
    return np.ascontiguousarray(out).reshape(-1)


def tensor_chunks(t: Tensor, seed: int, tiny: bool):
    """The bytes of a tensor, piece by piece."""
    stream = Stream(seed, t.name)
    if t.values is not None:
        yield float_bytes(t.values, t.type)
    elif t.type in (Q.F32, Q.F16, Q.BF16):
        step = CHUNK // 4
        for start in range(0, t.count, step):
            yield float_bytes(stream.normal(min(step, t.count - start), t.std, t.mean), t.type)
    elif tiny:
        yield quantise(stream.normal(t.count, t.std, t.mean), t.type)
    else:
        block, size = GGML_QUANT_SIZES[t.type]
        fill = block_filler(t.type, t.std)
        total, step = t.count // block, CHUNK // (8 * size) * 8
        for start in range(0, total, step):
            n = min(step, total - start)
            blocks = stream.bytes(n * size).reshape(n, size)
            fill(blocks)
            yield blocks.reshape(-1)


# ---------------------------------------------------------------- tokenizer

# Text to learn merges from: prose, contractions, numbers, code with indents.
SAMPLE_TEXT = """
The miller walked down to the river before the sun was up, and the water was still and cold. He had walked there \
every morning for thirty years, and every morning he had looked at the wheel and listened to the water under the \
wheel. When the water is high the wheel turns fast, and when the water is low the wheel turns slowly, and when \
there isn't any water the wheel doesn't turn at all and the miller waits. It's the miller's wheel, but it isn't \
the miller's water.

There were other people in the village who waited for the water: the smith, who needed the water to cool the \
iron, and the baker, who needed the flour that the miller made, and the children, who wanted to swim in the \
river when the days were long and warm. Nothing in the village was done without water, and they'll tell you so; \
you'd hear it every day.

In the winter the river was covered with ice, and then the people of the village told stories. They told the \
story of the man who counted the stars and never came to the end, and the story of the woman who could read any \
letter that was ever written, and the story of the machine that answered every question with another question. \
What is the answer? said the man. What is the question? said the machine. The children liked that story best and \
asked for it again and again.

Numbers: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 100, 123, 200, 256, 512, 1000, 1024, 2000, 2023, 2024, 2025, \
2048, 4096, 10000, 100000, 12345, 3.14159, 2.71828, 1.41421, -1, -10, -100, 50%, 100%. In 2024 there were 100 \
mills; in 2025 there were 120. The year 2000 had 366 days, 12 months and 24 hours in each day, and 1000 is 10 \
times 100.

def total(values, weights):
    result = 0
    for i in range(len(values)):
        if weights[i] > 0:
            result += values[i] * weights[i]
        else:
            result -= values[i]
    return result

int main(void) {
    for (int i = 0; i < 100; i++) {
        if (i % 10 == 0) {
            printf("%d\\n", i);
        }
    }
    return 0;
}

To compute the answer, first read the input, then compute the sum of the values, then divide the sum by the \
count, and then print the answer. To test the program, run the program with an input whose answer is known, and \
compare the answer that the program prints with the answer that is known. If they differ, then either the \
program is wrong or the known answer is wrong, and it's well to look at both.
"""
WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+|[0-9]{1,3}| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


@dataclass(frozen=True)
class Family:
    """Tokenizer conventions of a model family. Special tokens: (text, id in the real vocabulary)."""

    pre: str
    specials: tuple
    bos: str
    eos: str
    eot: str
    add_bos: bool
    template: str


_TURNS = "{% for m in messages %}"
FAMILIES = {
    "glm": Family(
        "glm4",
        (("<|endoftext|>", 154820), ("[MASK]", 154821), ("[gMASK]", 154822), ("[sMASK]", 154823),
         ("<sop>", 154824), ("<eop>", 154825), ("<|system|>", 154826), ("<|user|>", 154827),
         ("<|assistant|>", 154828), ("<|observation|>", 154829)),
        "[gMASK]", "<|endoftext|>", "<|user|>", False,
        "[gMASK]<sop>" + _TURNS + "<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"),
    "deepseek": Family(
        "deepseek-llm",
        (("<\uff5cbegin\u2581of\u2581sentence\uff5c>", 100000), ("<\uff5cend\u2581of\u2581sentence\uff5c>", 100001)),
        "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>", True,
        "{{ bos_token }}" + _TURNS + "{% if m['role'] == 'user' %}User: {{ m['content'] }}\n\n"
        "{% elif m['role'] == 'assistant' %}Assistant: {{ m['content'] }}{{ eos_token }}"
        "{% else %}{{ m['content'] }}\n\n{% endif %}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"),
    "youtu": Family(
        "youtu",
        (("<|begin_of_text|>", 128000), ("<|end_of_text|>", 128001), ("<|User|>", 128002),
         ("<|Assistant|>", 128003)),
        "<|begin_of_text|>", "<|end_of_text|>", "<|end_of_text|>", True,
        "{{ bos_token }}" + _TURNS + "{% if m['role'] == 'user' %}<|User|>{{ m['content'] }}"
        "{% elif m['role'] == 'assistant' %}<|Assistant|>{{ m['content'] }}{{ eos_token }}"
        "{% else %}{{ m['content'] }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|Assistant|>{% endif %}"),
    "llama": Family(
        "llama-bpe",
        (("<|begin_of_text|>", 128000), ("<|end_of_text|>", 128001), ("<|start_header_id|>", 128006),
         ("<|end_header_id|>", 128007), ("<|eom_id|>", 128008), ("<|eot_id|>", 128009)),
        "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", True,
        "{{ bos_token }}" + _TURNS + "<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n{{ m['content'] }}"
        "<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n"
        "{% endif %}"),
    "qwen": Family(
        "qwen2",
        (("<|endoftext|>", 151643), ("<|im_start|>", 151644), ("<|im_end|>", 151645)),
        "<|endoftext|>", "<|im_end|>", "<|im_end|>", False,
        _TURNS + "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"),
    "gemma": Family(  # the real one has a SentencePiece vocabulary; bytes and merges do here
        "qwen2",
        (("<pad>", 0), ("<eos>", 1), ("<bos>", 2), ("<start_of_turn>", 105), ("<end_of_turn>", 106)),
        "<bos>", "<eos>", "<end_of_turn>", True,
        "{{ bos_token }}" + _TURNS + "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
        "{{ m['content'] }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"),
}


def byte_symbols() -> list[str]:
    """The printable stand-in of each byte in a byte-level BPE vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {b: chr(b) for b in plain}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + len(table) - len(plain))
    return [table[b] for b in range(256)]


def learn_merges(text: str, limit: int) -> list[tuple[str, str]]:
    """Byte-pair merges by falling frequency; ties go to the pair that sorts first."""
    symbols = byte_symbols()
    counts: dict[tuple, int] = {}
    for word in WORDS.findall(text):
        key = tuple(symbols[b] for b in word.encode())
        counts[key] = counts.get(key, 0) + 1
    merges: list[tuple[str, str]] = []
    known = set(symbols)
    while len(merges) < limit:
        pairs: dict[tuple[str, str], int] = {}
        for word, n in counts.items():
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + n
        pairs = {p: n for p, n in pairs.items() if p[0] + p[1] not in known}
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        if pairs[best] < 2:
            break
        merges.append(best)
        known.add(best[0] + best[1])
        merged: dict[tuple, int] = {}
        for word, n in counts.items():
            out, i = [], 0
            while i < len(word):
                if word[i:i + 2] == best:
                    out.append(best[0] + best[1])
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            merged[tuple(out)] = merged.get(tuple(out), 0) + n
        counts = merged
    return merges


def filler_word(index: int) -> str:
    """A pronounceable word for a number, so that generated text can be read aloud."""
    digits = []
    for _ in range(2):
        digits.append(index % 80)
        index //= 80
    while index:
        digits.append(index % 80)
        index //= 80
    return "".join("bdfghklmnprstvwz"[d // 5] + "aeiou"[d % 5] for d in reversed(digits))


@dataclass
class Vocabulary:
    tokens: list[str]
    types: list[int]
    merges: list[str]
    ids: dict[str, int]          # of the special tokens


def build_vocabulary(family: Family, size: int) -> Vocabulary:
    specials = {text: at for text, at in family.specials}
    if max(specials.values()) >= size:  # a small vocabulary: special tokens come last
        specials = {text: size - len(specials) + i for i, text in enumerate(specials)}
    room = size - 256 - len(specials)
    if room < 0:
        raise SystemExit(f"a vocabulary needs at least {256 + len(specials)} tokens")
    merges = learn_merges(SAMPLE_TEXT, min(room, 600))
    plain = byte_symbols() + [a + b for a, b in merges]
    tokens, types = [""] * size, [TOKEN_NORMAL] * size
    for text, at in specials.items():
        tokens[at], types[at] = text, TOKEN_CONTROL
    taken, supply, number = set(plain), iter(plain), 0
    for i in range(size):
        if tokens[i]:
            continue
        word = next(supply, None)
        while word is None:
            candidate = "\u0120" + filler_word(number)
            number += 1
            if candidate not in taken:
                word = candidate
        tokens[i] = word
    return Vocabulary(tokens, types, [f"{a} {b}" for a, b in merges], specials)


# ---------------------------------------------------------------- metadata

def model_metadata(s: Shape, mix: str, seed: int, label: str) -> list[tuple]:
    """(key, value type, value[, element type]) in file order."""
    family = FAMILIES[s.family]
    vocabulary = build_vocabulary(family, s.vocab)
    kv: list[tuple] = []

    def add(key, vtype, value, element=None):
        kv.append((key, vtype, value, element))

    def u32(key, value):
        add(f"{s.arch}.{key}", V.UINT32, value)

    def f32(key, value):
        add(f"{s.arch}.{key}", V.FLOAT32, value)

    add("general.architecture", V.STRING, s.arch)
    add("general.type", V.STRING, "model")
    add("general.name", V.STRING, f"{s.title} (random weights)")
    add("general.description", V.STRING,
        f"Random weights in the shape {label}, mix {mix}, seed {seed}. For tests and timing only.")
    add("general.file_type", V.UINT32, MIXES[mix].file_type)
    add("general.quantization_version", V.UINT32, 2)
    u32("block_count", s.blocks)
    u32("context_length", s.context)
    u32("embedding_length", s.dim)
    u32("feed_forward_length", s.ffn)
    u32("attention.head_count", s.heads)
    u32("attention.head_count_kv", 1 if s.mla else s.kv_heads)
    f32("attention.layer_norm_rms_epsilon", s.eps)
    f32("rope.freq_base", s.theta)
    u32("vocab_size", s.vocab)
    if s.mla:
        # The cache is one latent head: kv_lora + rope wide for keys, kv_lora for values.
        if s.q_lora or s.blocks not in (26, 27):  # engines require the key unless 26 or 27 blocks
            u32("attention.q_lora_rank", s.q_lora)
        u32("attention.kv_lora_rank", s.kv_lora)
        u32("attention.key_length", s.kv_lora + s.rope)
        u32("attention.value_length", s.kv_lora)
        u32("attention.key_length_mla", s.qk_dim)
        u32("attention.value_length_mla", s.v_dim)
        u32("rope.dimension_count", s.rope)
        u32("leading_dense_block_count", s.dense_lead)
        u32("expert_feed_forward_length", s.expert_ffn or s.ffn)
        u32("expert_shared_count", s.experts_shared)
        f32("expert_weights_scale", s.expert_scale)
    else:
        u32("attention.key_length", s.head_dim)
        u32("attention.value_length", s.head_dim)
        u32("rope.dimension_count", s.head_dim)
        if s.experts:
            u32("expert_feed_forward_length", s.expert_ffn)
    if s.window:
        u32("attention.sliding_window", s.window)
    if s.experts:
        u32("expert_count", s.experts)
        u32("expert_used_count", s.experts_used)
        if s.mla:
            u32("expert_group_count", s.expert_groups)
            u32("expert_group_used_count", s.expert_groups_used)
            u32("expert_gating_func", s.gating)
            add(f"{s.arch}.expert_weights_norm", V.BOOL, s.expert_norm)
    if s.yarn:
        factor, original, mscale = s.yarn
        add(f"{s.arch}.rope.scaling.type", V.STRING, "yarn")
        f32("rope.scaling.factor", factor)
        u32("rope.scaling.original_context_length", original)
        f32("rope.scaling.yarn_beta_fast", 32.0)
        f32("rope.scaling.yarn_beta_slow", 1.0)
        f32("rope.scaling.yarn_log_multiplier", 0.1 * mscale)

    add("tokenizer.ggml.model", V.STRING, "gpt2")
    add("tokenizer.ggml.pre", V.STRING, family.pre)
    add("tokenizer.ggml.tokens", V.ARRAY, vocabulary.tokens, V.STRING)
    add("tokenizer.ggml.token_type", V.ARRAY, vocabulary.types, V.INT32)
    add("tokenizer.ggml.merges", V.ARRAY, vocabulary.merges, V.STRING)
    add("tokenizer.ggml.bos_token_id", V.UINT32, vocabulary.ids[family.bos])
    add("tokenizer.ggml.eos_token_id", V.UINT32, vocabulary.ids[family.eos])
    add("tokenizer.ggml.eot_token_id", V.UINT32, vocabulary.ids[family.eot])
    add("tokenizer.ggml.padding_token_id", V.UINT32, vocabulary.ids[family.eos])
    add("tokenizer.ggml.add_bos_token", V.BOOL, family.add_bos)
    add("tokenizer.chat_template", V.STRING, family.template)
    return kv


# ---------------------------------------------------------------- file format

SCALARS = {V.UINT8: "<B", V.INT8: "<b", V.UINT16: "<H", V.INT16: "<h", V.UINT32: "<I", V.INT32: "<i",
           V.FLOAT32: "<f", V.BOOL: "<?", V.UINT64: "<Q", V.INT64: "<q", V.FLOAT64: "<d"}


def pack_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def pack_value(vtype: V, value, element) -> bytes:
    if vtype == V.STRING:
        return pack_string(value)
    if vtype == V.ARRAY:
        head = struct.pack("<IQ", element, len(value))
        return head + b"".join(pack_value(element, v, None) for v in value)
    return struct.pack(SCALARS[vtype], value)


def pad(offset: int) -> int:
    return -offset % ALIGNMENT


def pack_header(metadata: list[tuple], tensors: list[Tensor], version: int = 3) -> bytes:
    out = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    for key, vtype, value, element in metadata:
        out += [pack_string(key), struct.pack("<I", vtype), pack_value(vtype, value, element)]
    offset = 0
    for t in tensors:
        out += [pack_string(t.name), struct.pack("<I", len(t.ne)), struct.pack(f"<{len(t.ne)}Q", *t.ne),
                struct.pack("<IQ", t.type, offset)]
        offset += t.nbytes + pad(t.nbytes)
    header = b"".join(out)
    return header + bytes(pad(len(header)))


class HeaderReader:
    """Reads the metadata and the tensor list of a GGUF file, and nothing past them."""

    def __init__(self, path: str):
        self.kv: dict = {}
        self.lengths: dict = {}
        self.tensors: list[Tensor] = []
        with open(path, "rb") as self.file:
            if self.file.read(4) != b"GGUF":
                raise SystemExit(f"{path}: not a GGUF file")
            version, n_tensors, n_kv = struct.unpack("<IQQ", self.file.read(20))
            if version not in (2, 3):
                raise SystemExit(f"{path}: GGUF version {version} is not supported")
            for _ in range(n_kv):
                key = self.string()
                self.kv[key] = self.value(V(self.number("<I")), key)
            for _ in range(n_tensors):
                name = self.string()
                ne = tuple(self.number("<Q") for _ in range(self.number("<I")))
                qtype = Q(self.number("<I"))
                self.number("<Q")
                self.tensors.append(Tensor(name, ne, type=qtype))

    def number(self, code: str):
        return struct.unpack(code, self.file.read(struct.calcsize(code)))[0]

    def string(self) -> str:
        return self.file.read(self.number("<Q")).decode("utf-8", "replace")

    def value(self, vtype: V, key: str):
        if vtype == V.STRING:
            return self.string()
        if vtype != V.ARRAY:
            return self.number(SCALARS[vtype])
        element, count = V(self.number("<I")), self.number("<Q")
        self.lengths[key] = count
        if element in SCALARS and count > 64:  # long arrays of numbers are of no use here
            self.file.seek(count * struct.calcsize(SCALARS[element]), os.SEEK_CUR)
            return None
        return [self.value(element, key) for _ in range(count)]


# ---------------------------------------------------------------- summary

def part_of(name: str) -> str:
    if name.startswith(("token_embd", "output.")):
        return "head" if name.startswith("output.") else "embedding"
    if "_exps." in name:
        return "experts"
    if "_shexp." in name:
        return "shared experts"
    if ".attn_" in name or "attention_norm" in name:
        return "attention"
    if ".ffn_" in name or "exp_probs" in name or "ffw_norm" in name:
        return "router and dense ffn"
    return "other"


def summarise(tensors: list[Tensor], arch: str, get, file_bytes: int, title: str) -> dict:
    """Sizes of a model; get(key) looks up an architecture key and returns None if it is absent."""
    experts, used = get("expert_count") or 0, get("expert_used_count") or 0
    if isinstance(used, list):
        used = max(used)
    tied = not any(t.name == "output.weight" for t in tensors)
    total = active = weight_bytes = 0
    parts: dict[str, int] = {}
    types: dict[str, list[int]] = {}
    for t in tensors:
        total += t.count
        weight_bytes += t.nbytes
        entry = types.setdefault(t.type.name, [0, 0])
        entry[0] += 1
        entry[1] += t.nbytes
        part = part_of(t.name)
        if part == "experts":
            active += t.count * used // experts
            parts[part] = parts.get(part, 0) + t.nbytes * used // experts
        elif part == "embedding":
            parts[part] = parts.get(part, 0) + tensor_bytes(t.ne[0], t.type)
            if tied:
                active += t.count
                parts["head"] = parts.get("head", 0) + t.nbytes
        else:
            active += t.count
            parts[part] = parts.get(part, 0) + t.nbytes
    blocks = get("block_count") or 0
    kv_heads = get("attention.head_count_kv") or 0
    kv_heads = sum(kv_heads) if isinstance(kv_heads, list) else kv_heads * blocks
    if get("attention.key_length_mla"):  # the latent serves as key and as value
        cache = 2 * blocks * ((get("attention.kv_lora_rank") or 0) + (get("rope.dimension_count") or 0))
    else:
        cache = 2 * kv_heads * ((get("attention.key_length") or 0) + (get("attention.value_length") or 0))
    return {
        "name": title, "architecture": arch, "blocks": blocks, "parameters": total, "active_parameters": active,
        "file_bytes": file_bytes, "weight_bytes": weight_bytes,
        "read_per_token_bytes": sum(parts.values()), "read_per_token_parts": parts,
        "kv_cache_f16_bytes_per_position": cache,
        "types": {k: {"tensors": n, "bytes": b} for k, (n, b) in types.items()},
    }


def print_summary(info: dict) -> None:
    gb = 1e9
    print(f"{info['name']}  ({info['architecture']}, {info['blocks']} blocks)")
    print(f"  parameters       {info['parameters']:>16,}   active per token {info['active_parameters']:,}")
    print(f"  file             {info['file_bytes']:>16,} bytes   weights {info['weight_bytes']:,}")
    print(f"  read per token   {info['read_per_token_bytes']:>16,} bytes   {info['read_per_token_bytes'] / gb:.4f} GB")
    for part, size in sorted(info["read_per_token_parts"].items(), key=lambda item: -item[1]):
        print(f"    {part:<22} {size:>12,}")
    print(f"  f16 cache        {info['kv_cache_f16_bytes_per_position']:>16,} bytes per position")
    for name, entry in sorted(info["types"].items(), key=lambda item: -item[1]["bytes"]):
        print(f"    {name:<8} {entry['tensors']:>5} tensors {entry['bytes']:>16,} bytes")


def file_info(path: str) -> dict:
    reader = HeaderReader(path)
    arch = reader.kv.get("general.architecture", "")
    return summarise(reader.tensors, arch, lambda key: reader.kv.get(f"{arch}.{key}"),
                     os.path.getsize(path), reader.kv.get("general.name", os.path.basename(path)))


# ---------------------------------------------------------------- command line

@dataclass(frozen=True)
class Layout:
    """How a model is put into files; the weights do not depend on it."""

    version: int = 3             # of GGUF; 2 differs from 3 in the number only
    parts: int = 1               # files that share the tensors
    early_latent: bool = False   # deepseek2 as written before keys had a suffix _mla


def early_latent_form(shape: Shape, metadata: list[tuple], tensors: list[Tensor]) -> list[tuple]:
    """The metadata of the first files with split attn_k_b and attn_v_b; makes these matrices 2-D."""
    widths = {"attention.head_count_kv": shape.heads, "attention.key_length": shape.qk_dim,
              "attention.value_length": shape.v_dim}
    for t in tensors:
        if t.name.endswith(("attn_k_b.weight", "attn_v_b.weight")):
            t.ne = (t.ne[0], t.ne[1] * t.ne[2])
    out = []
    for key, vtype, value, element in metadata:
        short = key.removeprefix(shape.arch + ".")
        if not short.endswith("_length_mla"):
            out.append((key, vtype, widths.get(short, value), element))
    return out


def split_model(metadata: list[tuple], tensors: list[Tensor], parts: int) -> list[tuple]:
    """(metadata, tensors) of each file; the first has the model's metadata, all say where they stand."""
    if parts == 1:
        return [(metadata, tensors)]
    if parts > len(tensors):
        raise SystemExit(f"{len(tensors)} tensors cannot be split into {parts} files")
    out = []
    for i in range(parts):
        place = [("split.no", V.UINT16, i, None), ("split.count", V.UINT16, parts, None),
                 ("split.tensors.count", V.INT32, len(tensors), None)]
        share = tensors[i * len(tensors) // parts:(i + 1) * len(tensors) // parts]
        out.append(((metadata if i == 0 else []) + place, share))
    return out


def part_paths(path: str, parts: int) -> list[str]:
    if parts == 1:
        return [path]
    stem = path.removesuffix(".gguf")
    return [f"{stem}-{i + 1:05d}-of-{parts:05d}.gguf" for i in range(parts)]


def write_part(path: str, header: bytes, tensors: list[Tensor], seed: int, tiny: bool) -> None:
    size = len(header) + sum(t.nbytes + pad(t.nbytes) for t in tensors)
    partial = path + ".part"
    with open(partial, "wb") as file:
        file.write(header)
        for t in tensors:
            for chunk in tensor_chunks(t, seed, tiny):
                file.write(chunk.data)
            file.write(bytes(pad(t.nbytes)))
        if file.tell() != size:
            raise SystemExit(f"internal error: wrote {file.tell()} bytes, expected {size}")
    os.replace(partial, path)


def make(shape: Shape, label: str, mix: str, seed: int, path: str | None, layout: Layout = Layout()) -> dict:
    """Write a model (or only plan it, without a path) and return its summary."""
    tensors = list_tensors(shape)
    for t in tensors:
        t.type = choose_type(t, mix, shape)
    metadata = model_metadata(shape, mix, seed, label)
    if layout.early_latent:
        metadata = early_latent_form(shape, metadata, tensors)
    parts = split_model(metadata, tensors, layout.parts)
    headers = [pack_header(kv, share, layout.version) for kv, share in parts]
    size = sum(map(len, headers)) + sum(t.nbytes + pad(t.nbytes) for t in tensors)
    lookup = {key: value for key, _, value, _ in metadata}
    info = summarise(tensors, shape.arch, lambda key: lookup.get(f"{shape.arch}.{key}"), size, f"{label} {mix}")
    if path is None:
        return info
    folder = os.path.dirname(os.path.abspath(path))
    free = shutil.disk_usage(folder).free
    if size + (1 << 30) > free:
        raise SystemExit(f"{size / 1e9:.1f} GB and a spare GiB do not fit: {free / 1e9:.1f} GB are free in {folder}")
    for part, header, (_, share) in zip(part_paths(path, layout.parts), headers, parts):
        write_part(part, header, share, seed, shape.tiny)
    return info


def list_choices() -> None:
    print("shapes:")
    for name, s in SHAPES.items():
        info = make(s, name, "q4_0", 0, None)
        print(f"  {name:<18} {s.arch:<10} {info['parameters'] / 1e9:8.3f} B parameters, "
              f"{info['active_parameters'] / 1e9:7.3f} B active, q4_0 {info['file_bytes'] / 1e9:7.3f} GB")
    print("mixes:")
    for name, mix in MIXES.items():
        head = f", output head {mix.head.name}" if mix.head else ""
        note = f" ({mix.note})" if mix.note else ""
        print(f"  {name:<10} {mix.base.name}{head}{note}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Make a GGUF model file with random weights in the shape of a published model.",
        epilog="The shapes and the mixes are shown by --list; more is said at the top of this script.")
    parser.add_argument("shape", nargs="?", choices=SHAPES, metavar="SHAPE", help="a name from --list")
    parser.add_argument("-q", "--quant", choices=MIXES, default="q4_0", metavar="MIX",
                        help="storage types (default q4_0)")
    parser.add_argument("-o", "--output", metavar="OUT.gguf", help="the file to write")
    parser.add_argument("-s", "--seed", type=int, default=1, help="seed of the weights (default 1)")
    parser.add_argument("--context", type=int, metavar="N", help="context length to state instead of the real one")
    parser.add_argument("--vocab", type=int, metavar="N", help="vocabulary size instead of the real one")
    parser.add_argument("--blocks", type=int, metavar="N", help="number of blocks instead of the real one")
    parser.add_argument("--untie", action="store_true",
                        help="give a tied model an output head of its own (for engines that insist on one)")
    parser.add_argument("--split", type=int, default=1, metavar="N",
                        help="write OUT-00001-of-0000N.gguf and so on")
    parser.add_argument("--gguf-version", type=int, choices=(2, 3), default=3, help="version to state (default 3)")
    parser.add_argument("--early-latent", action="store_true",
                        help="deepseek2 with 2-D attn_k_b, attn_v_b and no *_length_mla keys")
    parser.add_argument("--dry-run", action="store_true", help="print the summary and write nothing")
    parser.add_argument("--info", nargs="+", metavar="FILE", help="print the summary of existing GGUF files")
    parser.add_argument("--json", action="store_true", help="print summaries as JSON, one object per line")
    parser.add_argument("--list", action="store_true", help="list the shapes and the mixes")
    args = parser.parse_args()

    show = (lambda info: print(json.dumps(info))) if args.json else print_summary
    if args.list:
        list_choices()
        return
    if args.info:
        for path in args.info:
            show(file_info(path))
        return
    if not args.shape or not (args.output or args.dry_run):
        parser.error("give a SHAPE and -o OUT.gguf (or --dry-run), or --info FILE, or --list")
    if args.seed < 0:
        parser.error("the seed cannot be negative")

    shape = SHAPES[args.shape]
    changes = {"context": args.context, "vocab": args.vocab, "blocks": args.blocks}
    shape = replace(shape, **{key: value for key, value in changes.items() if value is not None})
    if args.blocks is not None and shape.mla and not shape.experts:
        shape = replace(shape, dense_lead=shape.blocks)
    if args.untie:
        shape = replace(shape, tied=False)
    if not 1 <= args.split <= 99999:
        parser.error("--split takes a number of files from 1 to 99999")
    if args.early_latent and not shape.mla:
        parser.error(f"--early-latent is for deepseek2 shapes, {args.shape} is {shape.arch}")
    layout = Layout(args.gguf_version, args.split, args.early_latent)
    start = time.monotonic()
    info = make(shape, args.shape, args.quant, args.seed, None if args.dry_run else args.output, layout)
    show(info)
    if not args.dry_run:
        print(f"wrote {args.output} in {time.monotonic() - start:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:      # `--list | head`: whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

#!/usr/bin/env python3
"""A GGUF model in, logits out: every architecture of the project in plain float64 numpy.

This is the project's second opinion. It shares no code with the engine, knows no kernels and no
rounding: weights are dequantised by the gguf package, everything after that is float64. Invariant:
row i of the result depends on tokens 0..i only, however the tokens are cut into calls.

    evaluate.py MODEL.gguf --tokens "1 2 3"            # one row of logits a position, as JSON
    evaluate.py MODEL.gguf --tokens "1 2 3" -n 16      # greedy continuation, with the gaps

Formulas: RoPE (Su et al. 2021), YaRN (Peng et al. 2023), MLA and the router's groups (DeepSeek-V2,
DeepSeek-V3), sandwich norms and the 5:1 window pattern (Gemma 3). Needs numpy and gguf (PyPI).
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from dataclasses import dataclass, field

import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFReader, quants

GATE_SOFTMAX, GATE_SIGMOID = 1, 2
HALF_SPLIT = {"qwen2", "qwen3", "qwen3moe", "gemma3"}   # rope pairs (i, i + d/2); others (2i, 2i+1)
FAMILIES = HALF_SPLIT | {"llama", "deepseek2"}
GEMMA3_27B_BLOCKS = 62                                  # scales by embedding/heads, not by the head


class ModelError(Exception):
    """The file cannot be evaluated; the text says why."""


# ---------------------------------------------------------------- the file

def split_paths(path: str) -> list[str]:
    """All files of a model, given its only or its first one (NAME-00001-of-00003.gguf)."""
    match = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.gguf", path)
    if not match:
        return [path]
    count = int(match[3])
    return [f"{match[1]}-{i:05d}-of-{count:05d}.gguf" for i in range(1, count + 1)]


class File:
    """Metadata and tensors of a model; a tensor is dequantised when it is first asked for."""

    def __init__(self, path: str):
        readers = [GGUFReader(p) for p in split_paths(path)]
        self.fields = readers[0].fields
        self.tensors = {t.name: t for r in readers for t in r.tensors}
        self.cache: dict[str, np.ndarray] = {}
        self.arch = self.get("general.architecture")
        if self.arch not in FAMILIES:
            raise ModelError(f"{path}: architecture '{self.arch}' is not known here")

    def get(self, key: str, default=None):
        """A metadata value; '.x' stands for 'ARCH.x'."""
        entry = self.fields.get(self.arch + key if key.startswith(".") else key)
        return default if entry is None else entry.contents()

    def has(self, name: str) -> bool:
        return name in self.tensors

    def rows(self, name: str, index=None) -> np.ndarray:
        """Chosen rows of a matrix, dequantised now and not kept."""
        t = self.tensors[name]
        data = t.data if index is None else t.data[index]
        if t.tensor_type == Q.F32:
            return np.asarray(data, np.float64)
        return quants.dequantize(data, t.tensor_type).astype(np.float64)

    def weight(self, name: str) -> np.ndarray:
        """A tensor in float64, slowest dimension first (a matrix is [outputs, inputs])."""
        if name not in self.cache:
            if name not in self.tensors:
                raise ModelError(f"tensor '{name}' is missing")
            shape = tuple(int(n) for n in reversed(self.tensors[name].shape))
            self.cache[name] = self.rows(name).reshape(shape)
        return self.cache[name]


# ---------------------------------------------------------------- pieces

def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x ** 3)))


@dataclass
class Rope:
    """Angles per position of each pair, and how a head's values pair up."""

    speed: np.ndarray            # [dim/2] radians a position
    half_split: bool
    magnitude: float = 1.0       # on cos and sin

    def apply(self, x: np.ndarray, first: int) -> np.ndarray:
        """Turn x [positions, heads, dim]; the first row stands at position `first`."""
        angle = (first + np.arange(len(x)))[:, None, None] * self.speed
        cos, sin = np.cos(angle) * self.magnitude, np.sin(angle) * self.magnitude
        out = np.empty_like(x)
        half = x.shape[-1] // 2
        even, odd = (np.s_[..., :half], np.s_[..., half:]) if self.half_split else \
            (np.s_[..., 0::2], np.s_[..., 1::2])
        out[even] = x[even] * cos - x[odd] * sin
        out[odd] = x[even] * sin + x[odd] * cos
        return out


def yarn_speed(plain: np.ndarray, base: float, factor: float, original: float,
               beta_fast: float, beta_slow: float) -> np.ndarray:
    """Pairs that turn often keep their speed, slow ones are divided by factor, a ramp between."""
    dim = 2 * len(plain)

    def pair_of(turns: float) -> float:
        return dim * math.log(original / (turns * 2.0 * math.pi)) / (2.0 * math.log(base))

    low = max(0.0, math.floor(pair_of(beta_fast)))
    high = min(dim - 1.0, math.ceil(pair_of(beta_slow)))
    slow = np.clip((np.arange(len(plain)) - low) / max(0.001, high - low), 0.0, 1.0)
    return plain * (1.0 - slow) + plain / factor * slow


@dataclass
class State:
    """The cache, and what was noted on the way."""

    used: int = 0
    keys: list = field(default_factory=list)     # a block: [positions, kv heads, key width]
    values: list = field(default_factory=list)
    router_margin: float = math.inf              # smallest lead of a chosen expert (or group)


# ---------------------------------------------------------------- the model

class Model:
    def __init__(self, path: str, cache_weights: bool = True):
        self.file = f = File(path)
        self.cache_weights = cache_weights
        self.arch = f.arch
        self.blocks = f.get(".block_count")
        self.dim = f.get(".embedding_length")
        self.heads = f.get(".attention.head_count")
        self.kv_heads = f.get(".attention.head_count_kv", self.heads)
        self.eps = f.get(".attention.layer_norm_rms_epsilon")
        self.latent = f.get(".attention.kv_lora_rank", 0)
        self.embedding_scale = math.sqrt(self.dim) if self.arch == "gemma3" else 1.0
        self.activation = gelu_tanh if self.arch == "gemma3" else silu
        self.window = f.get(".attention.sliding_window", 0) if self.arch == "gemma3" else 0
        self._read_head_widths()
        self._read_rope()
        self._read_experts()

    def _read_head_widths(self) -> None:
        f, default = self.file, self.dim // self.heads
        self.key_width = f.get(".attention.key_length_mla", f.get(".attention.key_length", default))
        self.value_width = f.get(".attention.value_length_mla",
                                 f.get(".attention.value_length", default))
        self.rope_width = f.get(".rope.dimension_count", self.key_width)
        scaled_by = self.key_width
        if self.arch == "gemma3" and self.blocks == GEMMA3_27B_BLOCKS:
            scaled_by = default
        self.scale = scaled_by ** -0.5

    def _read_rope(self) -> None:
        f = self.file
        base = f.get(".rope.freq_base", 10000.0)
        pair = np.arange(self.rope_width // 2)
        plain = base ** (-2.0 * pair / self.rope_width)
        if f.has("rope_freqs.weight"):
            plain = plain / f.weight("rope_freqs.weight")
        kind, factor = f.get(".rope.scaling.type", "none"), f.get(".rope.scaling.factor", 1.0)
        magnitude = 1.0
        if kind == "linear":
            plain = plain / factor
        elif kind == "yarn":
            plain = yarn_speed(plain, base, factor, f.get(".rope.scaling.original_context_length"),
                               f.get(".rope.scaling.yarn_beta_fast", 32.0),
                               f.get(".rope.scaling.yarn_beta_slow", 1.0))
            if self.latent:
                # mscale = mscale_all_dim: nothing on cos and sin, its square on q.k
                self.scale *= (f.get(".rope.scaling.yarn_log_multiplier", 0.0)
                               * math.log(factor) + 1.0) ** 2
            else:
                magnitude = 0.1 * math.log(factor) + 1.0
        elif kind != "none":
            raise ModelError(f"rope scaling '{kind}' is not known here")
        half_split = self.arch in HALF_SPLIT
        self.rope = Rope(plain, half_split, magnitude)
        local = f.get(".rope.freq_base_swa", 10000.0) ** (-2.0 * pair / self.rope_width)
        self.local_rope = Rope(local, half_split)

    def _read_experts(self) -> None:
        f = self.file
        self.experts = f.get(".expert_count", 0)
        self.experts_used = f.get(".expert_used_count", 0)
        self.dense_lead = f.get(".leading_dense_block_count", 0)
        self.groups = max(1, f.get(".expert_group_count", 1))
        self.groups_used = f.get(".expert_group_used_count", self.groups)
        self.expert_scale = f.get(".expert_weights_scale", 1.0) or 1.0
        is_qwen = self.arch == "qwen3moe"
        self.expert_norm = is_qwen or bool(f.get(".expert_weights_norm", False))
        self.gating = f.get(".expert_gating_func", 0)
        if not self.gating:
            # Files of GLM-4.7-Flash exist without the key; its selection bias gives it away.
            biased = f.has(f"blk.{self.dense_lead}.exp_probs_b.bias")
            self.gating = GATE_SIGMOID if biased else GATE_SOFTMAX

    # ------------------------------------------------------------ blocks

    def weight(self, block: int, name: str) -> np.ndarray:
        return self.file.weight(f"blk.{block}.{name}")

    def linear(self, x: np.ndarray, block: int, name: str) -> np.ndarray:
        y = x @ self.weight(block, name + ".weight").T
        if self.file.has(f"blk.{block}.{name}.bias"):
            y = y + self.weight(block, name + ".bias")
        return y

    def norm(self, x: np.ndarray, block: int, name: str) -> np.ndarray:
        return rms_norm(x, self.weight(block, name + ".weight"), self.eps)

    def is_local(self, block: int) -> bool:
        """Whether a block looks back over the window only: five of six, or as the file says."""
        if not self.window:
            return False
        pattern = self.file.get(".attention.sliding_window_pattern", 6)
        if isinstance(pattern, list):
            return bool(pattern[block])
        return block % pattern < pattern - 1

    def attend(self, q: np.ndarray, k: np.ndarray, v: np.ndarray, state: State, block: int):
        """Causal attention of q [n, heads, w] over the cache and the new k, v [n, kv heads, w]."""
        if len(state.keys) <= block:
            state.keys.append(k)
            state.values.append(v)
        else:
            state.keys[block] = np.concatenate([state.keys[block], k])
            state.values[block] = np.concatenate([state.values[block], v])
        k, v = state.keys[block], state.values[block]
        share = q.shape[1] // k.shape[1]
        score = np.einsum("qgsd,kgd->gsqk", q.reshape(len(q), -1, share, q.shape[2]), k,
                          optimize=True) * self.scale
        ago = (state.used + np.arange(len(q)))[:, None] - np.arange(len(k))[None, :]
        hidden = ago < 0
        if self.is_local(block):
            hidden |= ago >= self.window
        score[:, :, hidden] = -np.inf
        out = np.einsum("gsqk,kgd->qgsd", softmax(score), v, optimize=True)
        return out.reshape(len(q), q.shape[1], v.shape[2])

    def grouped_query(self, x: np.ndarray, state: State, block: int) -> np.ndarray:
        n = len(x)
        q = self.linear(x, block, "attn_q").reshape(n, self.heads, self.key_width)
        k = self.linear(x, block, "attn_k").reshape(n, self.kv_heads, self.key_width)
        v = self.linear(x, block, "attn_v").reshape(n, self.kv_heads, self.value_width)
        if self.file.has(f"blk.{block}.attn_q_norm.weight"):
            q, k = self.norm(q, block, "attn_q_norm"), self.norm(k, block, "attn_k_norm")
        rope = self.local_rope if self.is_local(block) else self.rope
        r = self.rope_width
        q, k = q.copy(), k.copy()
        q[..., :r] = rope.apply(q[..., :r], state.used)
        k[..., :r] = rope.apply(k[..., :r], state.used)
        return self.attend(q, k, v, state, block).reshape(n, -1)

    def latent_weights(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """k_b [heads, latent, nope] and v_b [heads, value, latent], from either form of the file."""
        nope = self.key_width - self.rope_width
        if self.file.has(f"blk.{block}.attn_k_b.weight"):
            k_b = self.weight(block, "attn_k_b.weight").reshape(self.heads, self.latent, nope)
            v_b = self.weight(block, "attn_v_b.weight")
            return k_b, v_b.reshape(self.heads, self.value_width, self.latent)
        kv_b = self.weight(block, "attn_kv_b.weight")
        kv_b = kv_b.reshape(self.heads, nope + self.value_width, self.latent)
        return kv_b[:, :nope].transpose(0, 2, 1), kv_b[:, nope:]

    def heads_product(self, x: np.ndarray, block: int, name: str, matrices: np.ndarray) -> np.ndarray:
        """x [n, heads, width] times a matrix a head, [heads, outputs, width]."""
        return np.einsum("nhw,how->nho", x, matrices)

    def latent_attention(self, x: np.ndarray, state: State, block: int) -> np.ndarray:
        """One latent head serves as key and value; q's plain part is carried into its space."""
        n, nope = len(x), self.key_width - self.rope_width
        if self.file.has(f"blk.{block}.attn_q_a.weight"):
            q = self.norm(self.linear(x, block, "attn_q_a"), block, "attn_q_a_norm")
            q = self.linear(q, block, "attn_q_b")
        else:
            q = self.linear(x, block, "attn_q")
        q = q.reshape(n, self.heads, self.key_width)
        kv = self.linear(x, block, "attn_kv_a_mqa")
        latent = self.norm(kv[:, :self.latent], block, "attn_kv_a_norm")
        k_rope = self.rope.apply(kv[:, None, self.latent:], state.used)
        k_b, v_b = self.latent_weights(block)
        q_latent = self.heads_product(q[..., :nope], block, "attn_k_b", k_b)
        q_rope = self.rope.apply(q[..., nope:], state.used)
        out = self.attend(np.concatenate([q_latent, q_rope], axis=-1),
                          np.concatenate([latent[:, None], k_rope], axis=-1),
                          latent[:, None], state, block)
        return self.heads_product(out, block, "attn_v_b", v_b).reshape(n, -1)

    def dense(self, x: np.ndarray, block: int, suffix: str = "") -> np.ndarray:
        gate = self.activation(self.linear(x, block, "ffn_gate" + suffix))
        return self.linear(gate * self.linear(x, block, "ffn_up" + suffix), block,
                           "ffn_down" + suffix)

    def choose(self, x: np.ndarray, state: State, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Experts of each row and their weights, [n, used] both."""
        logits = self.linear(x, block, "ffn_gate_inp")
        probability = sigmoid(logits) if self.gating == GATE_SIGMOID else softmax(logits)
        score = probability
        if self.file.has(f"blk.{block}.exp_probs_b.bias"):
            score = score + self.weight(block, "exp_probs_b.bias")   # for the choice only
        if self.groups > 1:
            grouped = score.reshape(len(x), self.groups, -1)
            group_score = np.sort(grouped, axis=-1)[..., -2:].sum(axis=-1)
            kept = top(group_score, self.groups_used, state)
            mask = np.full(group_score.shape, -np.inf)
            np.put_along_axis(mask, kept, 0.0, axis=-1)
            score = (grouped + mask[..., None]).reshape(score.shape)
        chosen = self.pick(score, state, block)
        weight = np.take_along_axis(probability, chosen, axis=-1)
        if self.expert_norm:
            weight = weight / weight.sum(axis=-1, keepdims=True)
        return chosen, weight * self.expert_scale

    def pick(self, score: np.ndarray, state: State, block: int) -> np.ndarray:
        return top(score, self.experts_used, state)

    def expert(self, x: np.ndarray, block: int, number: int) -> np.ndarray:
        gate, up, down = (self.weight(block, f"ffn_{n}_exps.weight")[number] for n in ("gate", "up", "down"))
        return (self.activation(x @ gate.T) * (x @ up.T)) @ down.T

    def mixture(self, x: np.ndarray, state: State, block: int) -> np.ndarray:
        chosen, weight = self.choose(x, state, block)
        out = np.zeros_like(x)
        for e in np.unique(chosen):
            row, slot = np.nonzero(chosen == e)
            out[row] += weight[row, slot][:, None] * self.expert(x[row], block, int(e))
        if self.file.has(f"blk.{block}.ffn_gate_shexp.weight"):
            out = out + self.dense(x, block, "_shexp")
        return out

    def embed(self, tokens: list[int]) -> np.ndarray:
        return self.file.rows("token_embd.weight", np.asarray(tokens)) * self.embedding_scale

    def forward(self, tokens: list[int], state: State | None = None, last: bool = False):
        """Logits [n, vocabulary] (only the last row with `last`) of tokens that follow `state`, and
        the residual stream of the last position after each block, before the final norm."""
        state = state or State()
        x = self.embed(tokens)
        hidden = []
        for block in range(self.blocks):
            attention = self.latent_attention if self.latent else self.grouped_query
            y = attention(self.norm(x, block, "attn_norm"), state, block)
            y = self.linear(y, block, "attn_output")
            if self.file.has(f"blk.{block}.post_attention_norm.weight"):
                y = self.norm(y, block, "post_attention_norm")
            x = x + y
            y = self.norm(x, block, "ffn_norm")
            if self.experts and block >= self.dense_lead:
                y = self.mixture(y, state, block)
            else:
                y = self.dense(y, block)
            if self.file.has(f"blk.{block}.post_ffw_norm.weight"):
                y = self.norm(y, block, "post_ffw_norm")
            x = x + y
            hidden.append(x[-1].copy())
            if not self.cache_weights:
                self.file.cache.clear()
        state.used += len(tokens)
        x = rms_norm(x[-1:] if last else x, self.file.weight("output_norm.weight"), self.eps)
        tied = not self.file.has("output.weight")
        head = self.file.weight("token_embd.weight" if tied else "output.weight")
        return x @ head.T, hidden

    def greedy(self, prompt: list[int], count: int, least_gap: float = -1.0) -> dict:
        """Greedy continuation: tokens, gap at each step, logits before and after, state. It ends
        early, with fewer tokens, at a gap below least_gap."""
        state = State()
        logits, hidden = self.forward(prompt, state, last=True)
        out = {"last": logits[-1], "hidden": hidden, "tokens": [], "gaps": [], "state": state}
        for _ in range(count):
            best = int(np.argmax(logits[-1]))
            second = np.partition(logits[-1], -2)[-2]
            out["tokens"].append(best)
            out["gaps"].append(float(logits[-1, best] - second))
            if out["gaps"][-1] < least_gap:
                break
            logits, _ = self.forward([best], state, last=True)
        out["after"] = logits[-1]
        return out


def top(score: np.ndarray, count: int, state: State) -> np.ndarray:
    """The `count` largest of each row, lower index first among equals; notes the narrowest lead."""
    order = np.argsort(-score, axis=-1, kind="stable")
    if count < score.shape[-1]:
        sorted_score = np.take_along_axis(score, order, axis=-1)
        lead = sorted_score[:, count - 1] - sorted_score[:, count]
        state.router_margin = min(state.router_margin, float(lead.min()))
    return order[:, :count]


# ---------------------------------------------------------------- command line

def main() -> None:
    parser = argparse.ArgumentParser(description="Evaluate a GGUF model in float64.")
    parser.add_argument("model")
    parser.add_argument("--tokens", required=True, help="token ids; no BOS is added")
    parser.add_argument("-n", type=int, default=0, help="continue greedily by N tokens")
    parser.add_argument("--last", action="store_true", help="only the last position's logits")
    parser.add_argument("--lean", action="store_true", help="forget each block's weights after use")
    args = parser.parse_args()
    tokens = [int(t) for t in args.tokens.replace(",", " ").split()]
    try:
        model = Model(args.model, cache_weights=not args.lean)
        if args.n:
            result = model.greedy(tokens, args.n)
            json.dump({"tokens": result["tokens"], "gaps": result["gaps"]}, sys.stdout)
        else:
            logits, _ = model.forward(tokens, last=args.last)
            json.dump([[float(f"{v:.9g}") for v in row] for row in logits], sys.stdout)
    except (ModelError, OSError) as error:
        sys.exit(f"evaluate: {error}")
    print()


if __name__ == "__main__":
    main()

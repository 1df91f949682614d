"""Near-ties of a router, and what the model says where one turns.

In: a mixture-of-experts model, tokens, a position. Out: for each block whose last chosen expert leads
the first one left out by less than rounding moves that lead, the float64 logits of the position with
the two exchanged. Rounding = activations of products with block types in 8 bits, blocks of 32 under
amax / 127, as any engine with integer products has it; how far it moves a lead is measured here, over
DRAWS runs whose embeddings differ by one part in 100,000, so that other values fall on the edges.

    ties = near_ties("tiny-glm-q4_k.gguf", tokens, 18)   # [Tie(block=1, taken=0, left=1, ...)]

Invariant: a tie is a fact of the exact evaluation and of rounding; the engine under test has no say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import evaluate
from gguf import GGMLQuantizationType as Q

DRAWS, NUDGE, SIGMAS = 16, 1e-5, 4.0
PLAIN_TYPES = (Q.F32, Q.F16, Q.BF16)


@dataclass
class Tie:
    block: int
    taken: int            # the expert that stood first among those left out
    left: int             # the one that it replaces
    lead: float           # of `left` over `taken` in the exact evaluation
    moved: float          # rms of the lead's change under rounding
    logits: np.ndarray    # float64, of the position with the two exchanged


def rounded(x: np.ndarray) -> np.ndarray:
    """x as 8-bit integers under a scale for each 32 values; rows that 32 does not divide stay."""
    if x.shape[-1] % 32:
        return x
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = np.abs(blocks).max(axis=-1, keepdims=True) / 127.0
    return (np.rint(blocks / np.where(scale > 0, scale, 1.0)) * scale).reshape(x.shape)


class Router(evaluate.Model):
    """The float64 evaluation, with a view of the router's scores and a hand on its choice."""

    rounds, nudge = False, None                        # nudge: a random generator, or None
    forced: dict[tuple[int, int], list[int]] = {}      # (block, position): the experts to take

    def __init__(self, path: str):
        super().__init__(path)
        self.scores: dict[int, np.ndarray] = {}        # of the last forward, by block

    def seen(self, x: np.ndarray, name: str) -> np.ndarray:
        plain = self.file.tensors[name].tensor_type in PLAIN_TYPES
        return rounded(x) if self.rounds and not plain else x

    def linear(self, x, block, name):
        return super().linear(self.seen(x, f"blk.{block}.{name}.weight"), block, name)

    def embed(self, tokens):
        x = super().embed(tokens)
        return x if self.nudge is None else x * (1.0 + NUDGE * self.nudge.standard_normal(x.shape))

    def heads_product(self, x, block, name, matrices):
        tensor = f"blk.{block}.{name}.weight"
        x = self.seen(x, tensor) if self.file.has(tensor) else x
        return super().heads_product(x, block, name, matrices)

    def expert(self, x, block, number):
        gate, up, down = (f"ffn_{n}_exps.weight" for n in ("gate", "up", "down"))
        x = self.seen(x, f"blk.{block}.{gate}")
        y = self.activation(x @ self.weight(block, gate)[number].T) * (x @ self.weight(block, up)[number].T)
        return self.seen(y, f"blk.{block}.{down}") @ self.weight(block, down)[number].T

    def pick(self, score, state, block):
        self.scores[block] = score
        chosen = super().pick(score, state, block)
        for (at, position), experts in self.forced.items():
            if at == block and state.used <= position < state.used + len(score):
                chosen[position - state.used] = experts
        return chosen

    def scores_at(self, tokens: list[int]) -> dict[int, np.ndarray]:
        """Each router's scores at the last of the tokens."""
        self.scores = {}
        self.forward(tokens, last=True)
        return {block: score[-1] for block, score in self.scores.items()}


def near_ties(path: str, tokens: list[int], position: int) -> list[Tie]:
    model, tokens = Router(path), tokens[:position + 1]
    exact = model.scores_at(tokens)
    model.rounds, draws = True, []
    for seed in range(DRAWS):
        model.nudge = np.random.Generator(np.random.SFC64(seed))
        draws.append(model.scores_at(tokens))
    model.rounds, model.nudge = False, None
    ties, used = [], model.experts_used
    for block, score in exact.items():
        order = np.argsort(-score, kind="stable")
        left, taken = int(order[used - 1]), int(order[used])
        lead = score[left] - score[taken]
        moved = float(np.sqrt(np.mean([(d[block][left] - d[block][taken] - lead) ** 2 for d in draws])))
        if not lead <= SIGMAS * moved:
            continue
        model.forced = {(block, position): [*map(int, order[:used - 1]), taken]}
        logits, _ = model.forward(tokens, last=True)
        model.forced = {}
        ties.append(Tie(block, taken, left, float(lead), moved, logits[-1]))
    return ties

#!/usr/bin/env python3
"""Golden files of the tiny shapes that no peer has vouched for, from the float64 evaluation.

In: make_model.py's tiny shapes. Out: tests/golden/SHAPE-QUANT.json (a prompt, its greedy continuation
and exact logits) for the shapes in OWN, and SHAPE-QUANT-300.json (300 positions) for every tiny
shape. Invariant: a run on another machine writes the same prompts, tokens and checksums, and the
same logits to 6 digits; --check says so without writing.

    make_goldens.py                       # minutes
    make_goldens.py --shape tiny-group --quant f32 --check

Prompts are the best of many random ones: wide gaps between the two best logits at every greedy step,
and wide leads of the chosen experts, so that honest rounding in another engine cannot flip either.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]
import evaluate    # noqa: E402
import make_model  # noqa: E402

GOLDEN = HERE.parent / "golden"
SEED, STEPS, LONG = 1, 16, 300
PLAIN_IDS = 112, 496                # ids that are no special token in any of the tiny vocabularies
CANDIDATES, LONG_CANDIDATES = 256, 24
LEAST_GAP, LEAST_DISTINCT = 0.05, 10
# A lead among experts is a difference of probabilities, a gap one of logits with a spread of 1 to 2.
LEAD_TO_GAP = 20.0
OWN = {"tiny-qwen2": 16, "tiny-qwen3": 16, "tiny-gemma3": 40, "tiny-group": 16}   # prompt lengths
OWN_QUANTS = ("f32", "q8_0", "q4_0", "q4_k", "q6_k")
LONG_QUANTS = ("f32", "q4_0")


def tiny_shapes() -> list[str]:
    return [name for name in make_model.SHAPES if name.startswith("tiny-")]


def candidate(shape: str, quant: str, length: int, number: int) -> list[int]:
    name = zlib.crc32(f"{shape} {quant} {length}".encode())
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence([SEED, name, number])))
    return [int(t) for t in random.integers(*PLAIN_IDS, length)]


def best_greedy(model: evaluate.Model, shape: str, quant: str, length: int):
    """The prompt, out of CANDIDATES, whose continuation is hardest to upset; and that continuation."""
    best, best_score = None, LEAST_GAP
    for number in range(CANDIDATES):
        prompt = candidate(shape, quant, length, number)
        result = model.greedy(prompt, STEPS, best_score)
        if len(result["tokens"]) < STEPS or len(set(result["tokens"])) < LEAST_DISTINCT:
            continue
        score = min(min(result["gaps"]), LEAD_TO_GAP * result["state"].router_margin)
        if score > best_score:
            best, best_score = (prompt, result), score
    if best is None:
        raise SystemExit(f"{shape} {quant}: no candidate has gaps of {LEAST_GAP}")
    return best


def best_long(model: evaluate.Model, shape: str, quant: str):
    best, best_lead = None, -1.0
    for number in range(LONG_CANDIDATES if model.experts else 1):
        prompt = candidate(shape, quant, LONG, number)
        result = model.greedy(prompt, 0)
        if result["state"].router_margin > best_lead:
            best, best_lead = (prompt, result), result["state"].router_margin
    return best


def number_text(value) -> str:
    return f"{np.float32(value):.9g}"


def to_text(value) -> str:
    if isinstance(value, (str, int)):
        return json.dumps(value)
    if len(value) and isinstance(value[0], (list, np.ndarray)):
        return "[" + ",\n".join(to_text(row) for row in value) + "]"
    return "[" + ",".join(str(v) if isinstance(v, int) else number_text(v) for v in value) + "]"


def write(path: Path, golden: dict) -> None:
    rows = (f'"{key}": {to_text(value)}' for key, value in golden.items())
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def differences(path: Path, golden: dict) -> list[str]:
    """Keys in which a stored file and a fresh evaluation differ by more than their last digits."""
    stored, out = json.loads(path.read_text()), []
    for key, value in golden.items():
        if key.startswith("exact_") or key == "greedy_gap":
            a, b = np.array(stored[key]), np.array(value)
            if a.shape != b.shape or np.abs(a - b).max() > 1e-6 * np.abs(b).max():
                out.append(key)
        elif stored[key] != value:
            out.append(key)
    return out


def goldens(shape: str, quant: str, cache: Path):
    """(file name, content) of each golden of a shape in a mix."""
    model_path = cache / f"{shape}-{quant}.gguf"
    make_model.make(make_model.SHAPES[shape], shape, quant, SEED, str(model_path))
    data = model_path.read_bytes()
    head = {"shape": shape, "quant": quant, "seed": SEED,
            "sha256": hashlib.sha256(data).hexdigest(), "file_bytes": len(data)}
    model = evaluate.Model(str(model_path))
    if shape in OWN and quant in OWN_QUANTS:
        prompt, result = best_greedy(model, shape, quant, OWN[shape])
        yield f"{shape}-{quant}.json", head | {
            "prompt": prompt, "greedy": result["tokens"], "greedy_gap": result["gaps"],
            "exact_last_logits": result["last"], "exact_after_greedy_logits": result["after"],
            "exact_hidden_last": result["hidden"]}, result["state"].router_margin
    if quant in LONG_QUANTS:
        prompt, result = best_long(model, shape, quant)
        yield f"{shape}-{quant}-{LONG}.json", head | {
            "prompt": prompt, "exact_last_logits": result["last"],
            "exact_hidden_last": result["hidden"]}, result["state"].router_margin


def main() -> None:
    parser = argparse.ArgumentParser(description="Write (or check) the project's own golden files.")
    parser.add_argument("--shape", choices=tiny_shapes(), action="append")
    parser.add_argument("--quant", choices=OWN_QUANTS, action="append")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    parser.add_argument("--models", default=os.path.join(os.environ.get("LATHE_BUILD", "build"), "models"),
                        help="folder for the models (default build/models)")
    args = parser.parse_args()
    cache = Path(args.models)
    cache.mkdir(parents=True, exist_ok=True)
    bad = 0
    for shape in args.shape or tiny_shapes():
        for quant in args.quant or OWN_QUANTS:
            for name, golden, lead in goldens(shape, quant, cache):
                gap = f"least gap {min(golden['greedy_gap']):.3f}, " if "greedy_gap" in golden else ""
                note = f"{name}: {gap}least lead {lead:.2g}"
                if args.check:
                    wrong = differences(GOLDEN / name, golden)
                    bad += bool(wrong)
                    note += f", differs in {', '.join(wrong)}" if wrong else ", equal"
                else:
                    write(GOLDEN / name, golden)
                print(note, flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

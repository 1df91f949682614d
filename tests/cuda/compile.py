#!/usr/bin/env python3
"""Compiles the CUDA text of every kernel of tiny models, and of blocks of full-size ones, with NVRTC, for several architectures, without a card.

The fake driver says which card there is and takes what NVRTC made; nothing is run. NVRTC is that of
LATHE_NVRTC, of the package nvidia-cuda-nvrtc-cu12 beside this interpreter, or the system's: where
there is none, that is a failure. For each architecture a table says how many kernels there were, the
most registers and shared memory of one, and the bytes that spilled.

    compile.py --lathe ./lathe --build build

Invariant: the last line is 'N passed, N failed, N skipped', the exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import glob
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
import make_model

CAPABILITIES = {"sm_80": "80", "sm_90a": "90"}
SHAPES = tuple(name for name in make_model.SHAPES if name.startswith("tiny-"))
TYPES = ("f32", "f16", "bf16", "q8_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "mxfp4")
# Shape, type, modes. Activations of 8 bits are what types differ in; exact kernels differ by shape.
TINY = [(shape, "q4_0", ([], ["--exact"])) for shape in SHAPES] + [("tiny-llama", quant, ([],)) for quant in TYPES]
# Blocks of full-size models: a dense one and one with experts, or one; few words, as only the last product differs by them.
FULL = {"glm-4.7-flash": 2, "llama-3.2-1b": 1}
FULL_VOCAB = 2048
# The older architecture gets nearly the same texts: one exact model, and no full-size ones, are enough there.
OLDER = [(shape, quant, modes if shape == "tiny-glm" else modes[:1]) for shape, quant, modes in TINY]
MODELS = {"sm_80": OLDER, "sm_90a": TINY + [(shape, "q4_0", ([],)) for shape in FULL]}
# Sums of few long steps in their other forms (LATHE_SUMS): everywhere in tiny shapes, where it may pay in full-size ones.
SUMS = {"sm_80": [("tiny-glm", "atomic-all")],
        "sm_90a": [("tiny-glm", "atomic-all"), ("tiny-glm", "parts-all"), ("glm-4.7-flash", "atomic"), ("glm-4.7-flash", "parts")]}
TOKENS = " ".join(str(200 + i) for i in range(17))      # steps of 16 rows and of one


def nvrtc_find() -> str | None:
    """The path of the library, or None."""
    places = [os.environ.get("LATHE_NVRTC", "")]
    for base in sys.path:
        places += glob.glob(f"{base}/nvidia/*/lib/libnvrtc.so.1*")
    places += glob.glob(str(HERE.parents[1] / "build/venv/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1*"))
    places += glob.glob("/usr/local/cuda/lib*/libnvrtc.so.1*")
    return next((place for place in places if place and "builtins" not in place and os.path.exists(place)), None)


def shape_of(name: str) -> make_model.Shape:
    shape = make_model.SHAPES[name]
    return dataclasses.replace(shape, blocks=FULL[name], vocab=FULL_VOCAB) if name in FULL else shape


def compile_model(lathe: str, path: Path, environment: dict, mode: list[str]) -> tuple[str, list[tuple[int, int, int]]]:
    """What went wrong ("" for nothing), and of each kernel its registers, shared and spilled bytes."""
    command = [lathe, "logits", str(path), "--device", "cuda", "--tokens", TOKENS, "--json", *mode]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    said = done.stderr
    # Nothing runs, so that logits are zeros, which is no error.
    error = "" if done.returncode == 0 else next((line for line in said.splitlines() if line.startswith("lathe logits")), said[-300:])
    spilled = [int(n) for n in re.findall(r"(\d+) bytes spill stores", said)]
    used = [(int(r), int(s or 0)) for r, s in re.findall(r"Used (\d+) registers[^\n]*?(?:, (\d+) bytes smem)?(?:,[^\n]*)?\n", said)]
    return error, [(r, s, spill) for (r, s), spill in zip(used, spilled)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lathe", default="./lathe")
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    nvrtc, driver = nvrtc_find(), os.path.abspath(f"{options.build}/tests/libfakecuda.so")
    counts = {"passed": 0, "failed": 0}
    if not nvrtc or not os.path.exists(driver):
        print(f"FAILED: no NVRTC (pip install nvidia-cuda-nvrtc-cu12 into build/venv)" if not nvrtc else f"FAILED: no {driver}; make tests")
        print("0 passed, 1 failed, 0 skipped")
        return 1
    print(f"NVRTC: {nvrtc}")
    with tempfile.TemporaryDirectory() as folder:
        for architecture, capability in CAPABILITIES.items():
            kernels: list[tuple[int, int, int]] = []
            rows = [(*row, "") for row in MODELS[architecture]] + [(shape, "q4_0", ([],), sums) for shape, sums in SUMS[architecture]]
            for shape, quant, modes, sums in rows:
                path = Path(folder) / f"{shape}-{quant}.gguf"
                if not path.exists():
                    make_model.make(shape_of(shape), shape, quant, 1, str(path))
                environment = os.environ | {"LATHE_CUDA": driver, "LATHE_NVRTC": nvrtc, "FAKE_CUDA_CAPABILITY": capability,
                                            "LATHE_DEBUG": "2", "LATHE_SUMS": sums, "LATHE_CACHE_DIR": f"{folder}/{architecture}"}
                for mode in modes:
                    error, found = compile_model(options.lathe, path, environment, mode)
                    counts["failed" if error else "passed"] += 1
                    kernels += found
                    if error:
                        print(f"FAILED {architecture} {shape} {quant} {' '.join(mode)}{sums}: {error[:300]}")
            if not kernels:
                counts["failed"] += 1
                print(f"FAILED {architecture}: the compiler reported no kernel")
                continue
            print(f"{architecture:<8} {len(kernels)} kernels, at most {max(k[0] for k in kernels)} registers and "
                  f"{max(k[1] for k in kernels)} bytes of shared memory; {sum(k[2] > 0 for k in kernels)} spill, "
                  f"{max(k[2] for k in kernels)} bytes at most", flush=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

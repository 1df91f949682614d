#!/usr/bin/env python3
"""valgrind: no invalid access, no use of uninitialised values, no lost memory, on the tiny models of every architecture.

Valgrind hides AVX-512, so this is also a run of the narrower targets. Models are made by tools/make_model.py, in the
build folder; kernels are compiled by the system compiler outside of valgrind.
"""
import json
import os
import re
import shutil
import subprocess
import sys

import harness
from harness import PROGRAM, ROOT, Skip, environment, temporary

SHAPES = ("tiny-llama", "tiny-glm", "tiny-dsv2", "tiny-youtu", "tiny-qwen2", "tiny-qwen3", "tiny-qwen3moe", "tiny-gemma3",
          "tiny-group")
FORMS = (("f32", ("--exact",)), ("q4_0", ()))                   # weights and flags of the runs
MORE_FORMS = {"tiny-llama": (("q4_k", ()),), "tiny-glm": (("q4_k", ()), ("q6_k", ()), ("mxfp4", ()))}
FLAGS = ("-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite")


def model_make(shape, quant):
    """Path of a tiny model; made once in the build folder."""
    folder = os.path.join(os.environ.get("LATHE_BUILD", os.path.join(ROOT, "build")), "models")
    path = os.path.join(folder, f"valgrind-{shape}-{quant}.gguf")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        process = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "make_model.py"), shape, "--quant", quant, "--seed",
                                  "1", "-o", path], capture_output=True, check=False, text=True)
        if process.returncode != 0:
            raise Skip(f"{shape} {quant} could not be made: {process.stderr.strip().splitlines()[-1:]}")
    return path


def under_valgrind(*args):
    if not shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    if os.environ.get("LATHE_SANITIZE"):
        raise Skip("valgrind cannot run a program that was built with a sanitizer")
    # Without OpenCL drivers: glibc's loader reads past the end of their paths, which is not lathe's.
    process = subprocess.run(["valgrind", *FLAGS, PROGRAM, *args], capture_output=True, timeout=600, check=False,
                             env=environment(OCL_ICD_VENDORS="/nonexistent"))
    assert process.returncode == 0, (args, process.returncode, process.stderr.decode(errors="replace")[-3000:])
    return process.stdout


def shape_check(shape):
    for quant, flags in FORMS + MORE_FORMS.get(shape, ()):
        path = model_make(shape, quant)
        rows = json.loads(under_valgrind("logits", path, "--tokens", "1 2 3 4 5", "--last", "--json", "--context", "64",
                                         "--threads", "2", *flags))
        assert len(rows) == 1, rows


def test_texts():
    under_valgrind("check")
    under_valgrind("env", "--json")
    assert under_valgrind("tokenize", "--ids", "Once upon a time").strip()
    with temporary() as folder:
        path = os.path.join(folder, "m.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump([{"role": "user", "content": "Hi"}], file)
        assert under_valgrind("template", "--messages", path)


def test_answer():
    assert under_valgrind("run", "-p", "Hi", "-n", "4", "--temp", "1", "--seed", "1", "--context", "64")


def shape_test(shape):
    def test():
        shape_check(shape)
    return test


for _shape in SHAPES:
    globals()["test_" + re.sub(r"\W", "_", _shape)] = shape_test(_shape)

if __name__ == "__main__":
    harness.main(sys.modules[__name__])

#!/usr/bin/env python3
"""Shows that the random graphs find planted faults: each row of tests/faults.tsv is built into a copy and must be caught.

In: rows of faults.tsv, and a build of the program and the tests. Out: a table: the fault, the first seeds that fail (or
how the test died), seconds. The sources are copied to build/faults once; one file is changed, compiled, linked, tested
over 500 seeds (interpreted, passes verified, no C compiler of kernels needed), and restored.
Usage: faults.py [--suite] [--only REGEX] [--build DIR]: --suite runs the rows marked * only.
Invariant: the unchanged copy passes, so that what fails is the fault; the last line is 'N passed, N failed, N skipped'.
"""
import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEEDS, LIMIT_CPU_S = 500, 120
TEST = "test_random_graphs"


def rows_read(path):
    """Rows as (in the suite, file, what, old, new)."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            cells = line.rstrip("\n").split("\t")
            if len(cells) != 5:
                sys.exit(f"{path}:{number}: five columns are needed: * or nothing, file, what, old text, new text")
            yield cells[0] == "*", cells[1], cells[2], cells[3].replace("\\n", "\n"), cells[4].replace("\\n", "\n")


def copy_make(build):
    """Sources and objects of the last build, with their times, so that make has nothing to do."""
    copy = os.path.join(ROOT, build, "faults")
    shutil.rmtree(copy, ignore_errors=True)
    os.makedirs(os.path.join(copy, "build"))
    for name in ("src", "include", "tests", "models"):
        subprocess.run(["cp", "-a", os.path.join(ROOT, name), copy], check=True)
    shutil.copy2(os.path.join(ROOT, "Makefile"), copy)
    subprocess.run(["cp", "-a", os.path.join(ROOT, build, "src"), os.path.join(copy, "build")], check=True)
    return copy


def compiled(copy):
    """Builds the test; its output where that fails, else None."""
    done = subprocess.run(["make", "-s", f"build/tests/{TEST}"], cwd=copy, capture_output=True, text=True, check=False)
    return done.stderr[-600:] if done.returncode else None


def tested(copy):
    """Whether the test failed, and a few words on how."""
    env = {**os.environ, "LATHE_DEBUG": "2"}   # passes are verified, as in debug builds
    command = [os.path.join("build", "tests", TEST), str(SEEDS), "1", "interpreted*"]
    # The processor's time, so that a machine which is busy or was stopped does not look like a hang.
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, errors="replace", check=False, env=env,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU_S, LIMIT_CPU_S)))
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return True, "hangs"
    seeds = re.findall(r"^seed (\d+):", done.stderr + done.stdout, re.M)
    if done.returncode == 0:
        return False, f"not found in {SEEDS} seeds"
    return True, "seeds " + ", ".join(seeds[:4]) if seeds else f"died ({done.returncode})"


def fault_run(copy, file, what, old, new):
    """One row: True where it was found."""
    begin, path = time.monotonic(), os.path.join(copy, file)
    with open(path, encoding="utf-8") as source:
        text = source.read()
    if text.count(old) != 1:
        found, how = False, f"the text occurs {text.count(old)} times: mend faults.tsv"
    else:
        with open(path, "w", encoding="utf-8") as source:
            source.write(text.replace(old, new))
        problem = compiled(copy)
        found, how = (False, "does not compile: " + problem) if problem else tested(copy)
        with open(path, "w", encoding="utf-8") as source:
            source.write(text)
    print(f"{'found ' if found else 'FAILED'} {os.path.basename(file):12} {what:52} {how}"
          f" ({time.monotonic() - begin:.0f} s)", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description="Plants faults and shows that the random graphs find them.")
    parser.add_argument("--suite", action="store_true", help="only the rows marked *")
    parser.add_argument("--only", metavar="REGEX", default="", help="only rows whose file or words match")
    parser.add_argument("--build", default="build", help="build folder to copy objects from (default: build)")
    options = parser.parse_args()
    rows = [r[1:] for r in rows_read(os.path.join(ROOT, "tests", "faults.tsv"))
            if (r[0] or not options.suite) and re.search(options.only, r[1] + " " + r[2])]
    copy = copy_make(options.build)
    problem = compiled(copy)
    failed, how = (True, problem) if problem else tested(copy)
    if failed:
        print(f"the unchanged copy fails: {how}\n0 passed, 1 failed, 0 skipped")
        return 1
    found = sum(fault_run(copy, *row) for row in rows)
    print(f"{found} passed, {len(rows) - found} failed, 0 skipped")
    return 0 if found == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())

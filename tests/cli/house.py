#!/usr/bin/env python3
"""house: the tools around the program tell the truth: tests/runner and .ci/run, in a small tree of made tests.

In: copies of both scripts, suites that fail in every way a test can fail. What is looked at: the end of what they print,
because a long log is read from its end.
"""
import os
import re
import shutil
import subprocess
import sys

import harness
from harness import ROOT, temporary

CMOCKA = r"""#!/bin/sh
echo '[==========] Running 3 test(s).'
echo '[ RUN      ] adds'; echo '[       OK ] adds'
echo '[ RUN      ] subtracts'; echo '[  FAILED  ] subtracts'
echo '[  ERROR   ] --- 0x1 != 0x2' >&2
echo '[   LINE   ] --- tests/unit/test_sum.c:42: error: Failure!' >&2
echo '[  FAILED  ] subtracts' >&2
echo '[ RUN      ] divides'
echo 'src/sum.c:7: runtime error: division by zero' >&2
kill -8 $$
"""
HARNESS = """import sys
sys.path.insert(0, {folder!r})
import harness
def test_good(): pass
def test_bad(): assert 1 + 1 == 3, "sums are wrong\\nsecond line"
def test_absent(): raise harness.Skip("no data")
harness.main(sys.modules[__name__])
"""
SUITES = """cli\tlines\ttest\t20\tsh -c "echo 'tiny-llama f32 exact FAILED  off by 3'; echo '1 passed, 1 failed, 0 skipped'; exit 1"
cli\tpython\ttest\t20\t{python} tests/python.py
cli\tsilent\ttest\t20\tfalse
cli\tslow\ttest\t1\tsleep 20
"""
MAKEFILE = """all tests lint debug tsan:
\t@echo compile src/a.c
\t@if [ $@ = lint ]; then echo "src/a.c:1:2: error: unused variable 'x'"; exit 1; fi
"""


def file_write(text, mode, *parts):
    path = os.path.join(*parts)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def tree_make(folder, suites, unit):
    for script in ("tests/runner", ".ci/run"):
        os.makedirs(os.path.join(folder, os.path.dirname(script)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, script), os.path.join(folder, script))
    file_write(suites, 0o644, folder, "tests", "suites.tsv")
    file_write(HARNESS.format(folder=os.path.join(ROOT, "tests", "cli")), 0o644, folder, "tests", "python.py")
    file_write("", 0o644, folder, "tests", "unit", "test_sum.c")
    file_write(unit, 0o755, folder, "build", "tests", "test_sum")
    file_write("#!/bin/sh\n", 0o755, folder, "quickstart")
    file_write(MAKEFILE, 0o644, folder, "Makefile")


def script_run(folder, *command):
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    return process.returncode, process.stdout.splitlines()


def digest_check(lines):
    """Each failed test has one line, which says why."""
    wanted = (r"FAILED test_sum: subtracts: .*0x1 != 0x2 tests/unit/test_sum.c:42",
              r"FAILED test_sum: divides: killed by SIGFPE: src/sum.c:7: runtime error: division by zero",
              r"FAILED lines: tiny-llama f32 exact: off by 3",
              r"FAILED python: test_bad: python.py:\d+: AssertionError: sums are wrong",
              r"FAILED silent: exit code 1",
              r"FAILED slow: stopped after 1 s")
    for pattern in wanted:
        assert sum(re.match(pattern, line) is not None for line in lines) == 1, (pattern, lines)
    assert not [line for line in lines if "test_good" in line or "adds" in line], lines


def test_runner_ends_with_what_failed():
    with temporary() as folder:
        tree_make(folder, SUITES, CMOCKA)
        code, lines = script_run(folder, sys.executable, "tests/runner")
        assert code == 1 and lines[-1] == "3 passed, 6 failed, 1 skipped", lines[-5:]
        digest_check(lines[-7:-1])
        assert "  python: test_absent: no data" in lines, lines


def test_runner_says_nothing_of_failures_where_none_is():
    with temporary() as folder:
        tree_make(folder, "cli\tfine\ttest\t20\ttrue\n", "#!/bin/sh\necho '[ RUN      ] adds'\necho '[       OK ] adds'\n")
        code, lines = script_run(folder, sys.executable, "tests/runner")
        assert code == 0 and lines[-1] == "2 passed, 0 failed, 0 skipped", lines
        assert not [line for line in lines if "FAILED" in line], lines


def test_ci_ends_with_what_failed():
    with temporary() as folder:
        tree_make(folder, SUITES, CMOCKA)
        code, lines = script_run(folder, "bash", ".ci/run")
        assert code == 1 and re.fullmatch(r"\d+ passed, \d+ failed, \d+ skipped", lines[-1]), lines[-5:]
        start = next(n for n, line in enumerate(lines) if line.startswith("==== what failed: lint tests"))
        tail = lines[start:]
        assert len(tail) <= 100 and "src/a.c:1:2: error: unused variable 'x'" in tail, tail
        tests = tail.index("tests (build/ci/tests.log):")
        digest_check(tail[tests + 1:tests + 7])
        assert any(re.match(r"lint +0[.]0 min  FAILED", line) for line in tail), tail
        assert not [line for line in lines if line.startswith("compile ")], lines
        with open(os.path.join(folder, "build", "ci", "build.log"), encoding="utf-8") as file:
            assert "compile src/a.c" in file.read()


if __name__ == "__main__":
    harness.main(sys.modules[__name__])

"""harness: runs the program as a user would and collects what the tests say about it.

In: functions named test_* of a module. Out: a line for each that fails or is skipped, and the closing line
`N passed, N failed, N skipped`. Each run of the program has a time limit, and a crash by a signal is a failure.
Example: def test_help(): assert lathe("--help").code == 0
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get("LATHE_PROGRAM", os.path.join(ROOT, "lathe")))
SHARED = os.environ.get("LATHE_SHARED", os.path.join(ROOT, "..", "shared"))
MODEL = os.path.join(ROOT, "models", "storyteller", "storyteller-Q4_K_M.gguf")
TIME_LIMIT_S = 240


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


class Result:
    """Exit code, standard output and standard error of one run."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def text(self):
        return self.out.decode("utf-8", errors="replace")

    def errors(self):
        return self.err.decode("utf-8", errors="replace")

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.text()[:300]}\nstderr: {self.errors()[:2000]}"


def environment(**changes):
    """The caller's environment with changes; None removes a variable."""
    env = dict(os.environ)
    for name, value in changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = str(value)
    return env


def lathe(*args, stdin=b"", cwd=None, limit_s=TIME_LIMIT_S, before=None, **changes):
    """Runs the program; its standard streams are pipes. before: a function that the child calls first."""
    process = subprocess.run([PROGRAM, *args], input=stdin, capture_output=True, cwd=cwd, timeout=limit_s,
                             env=environment(**changes), preexec_fn=before, check=False)
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise AssertionError(f"lathe {' '.join(map(str, args))[:200]} died of {name}\n{process.stderr[-2000:]!r}")
    return Result(process.returncode, process.stdout, process.stderr)


def refused(result, code, *texts):
    """The run failed with this code, said why on standard error (with these texts in it) and printed no result."""
    assert result.code == code, result
    assert result.out == b"", result
    assert re.search(r"^lathe", result.errors(), re.M), result
    for text in texts:
        assert text in result.errors(), f"missing {text!r} in {result}"
    return result


def shared(*parts):
    """A file of other people's data; the test is skipped where it is missing."""
    path = os.path.join(SHARED, *parts)
    if not os.path.exists(path):
        raise Skip(f"{os.path.join('shared', *parts)} is missing")
    return path


def temporary():
    return tempfile.TemporaryDirectory(prefix="lathe-test-")


def main(module):
    """Runs all tests of a module, or those named on the command line."""
    names = sys.argv[1:] or [n for n in sorted(vars(module)) if n.startswith("test_")]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in names:
        begin = time.monotonic()
        try:
            getattr(module, name)()
            counts["passed"] += 1
            print(f"ok   {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Skip as reason:
            counts["skipped"] += 1
            print(f"SKIP {name}: {reason}", flush=True)
        except Exception:  # pylint: disable=broad-except
            counts["failed"] += 1
            print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    sys.exit(counts["failed"] > 0)

#!/usr/bin/env python3
"""hardship: little memory, closed streams, quotas, sockets, files that shrink under the reader: always a text and an
exit code, never a signal.

Limits are set in the child, before the program starts (setrlimit); harness.lathe fails where it died of a signal.
"""
import fcntl
import os
import resource
import shutil
import socket
import subprocess
import sys
import time

import harness
from harness import MODEL, PROGRAM, TIME_LIMIT_S, Skip, environment, lathe, refused, temporary

MIB = 1 << 20
HASH = ("logits", "--tokens", "1 2 3", "--hash", "--last")


def limit(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


def test_little_memory_is_an_error():
    """From what the loader needs up to what a run needs, in small steps: each is refused with a text, or works."""
    if os.environ.get("LATHE_SANITIZE"):
        raise Skip("a sanitizer needs more address space than any limit leaves")
    mib, texts = 8, []
    while subprocess.run([PROGRAM, "--version"], capture_output=True, check=False,
                         preexec_fn=limit(resource.RLIMIT_AS, mib * MIB)).returncode != 0:
        mib += 1                            # below it is the loader that fails, before a line of ours runs
    while mib < 4096:
        result = lathe("logits", "--tokens", "1", "--device", "null", "--threads", "1", "--hash",
                       before=limit(resource.RLIMIT_AS, mib * MIB))
        if result.code == 0:
            break
        refused(result, 1)
        assert "BUG" not in result.errors(), result
        texts.append(result.errors())
        mib += 2
    assert result.code == 0 and any("memory" in text for text in texts), (mib, texts)


def closed(fds, *args):
    """The program with some of its standard streams closed, which a Popen cannot say."""
    redirections = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in fds)
    process = subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirections}', PROGRAM, *args], input=b"x", capture_output=True,
                             timeout=TIME_LIMIT_S, check=False)
    return process.returncode, process.stdout, process.stderr.decode()


def test_closed_streams_are_nobody_elses():
    good = lathe(*HASH).out
    for fds in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
        code, out, err = closed(fds, *HASH)
        if 1 in fds:
            assert code == 1 and out == b"", (fds, code, out, err)
            assert 2 in fds or "cannot write to standard output" in err, (fds, err)
        else:
            assert code == 0 and out == good and err == "", (fds, code, out, err)


def test_closed_input_is_named():
    for args in (("run", "-n", "1"), ("tokenize", "-"), ("perplexity", "-"), ("template", "--messages", "-")):
        code, out, err = closed((0,), *args)
        assert code == 1 and out == b"" and "standard input: cannot read it" in err, (args, code, out, err)


def test_input_may_be_a_socket():
    """As under sshd and many a supervisor; a socket cannot be opened by the name /dev/stdin."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"Hello")
        ours.shutdown(socket.SHUT_WR)
        process = subprocess.run([PROGRAM, "tokenize", "--ids", "-"], stdin=theirs, capture_output=True, check=False)
    assert process.returncode == 0 and process.stdout == lathe("tokenize", "--ids", "Hello").out, process


def test_file_size_limit_is_an_error():
    with temporary() as folder:
        result = lathe(*HASH, LATHE_CACHE_DIR=folder, before=limit(resource.RLIMIT_FSIZE, 0))
        refused(result, 1, "cannot write it", "too large")
    good = lathe(*HASH)                     # with kernels at hand nothing must be written
    assert lathe(*HASH, before=limit(resource.RLIMIT_FSIZE, 0)).out == good.out


def test_a_model_that_is_cut_short_is_named():
    """As by a copy over a model in use. The answer would go on for a thousand tokens."""
    with temporary() as folder:
        path = os.path.join(folder, "model.gguf")
        shutil.copy(MODEL, path)
        words = ["run", path, "--raw", "-p", "Once", "--temp", "100", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", "1"]
        with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
            assert process.stdout.read(1)
            os.truncate(path, 0)
            process.stdout.read()
            err = process.stderr.read().decode()
            process.wait(timeout=TIME_LIMIT_S)
        assert process.returncode == 1 and "a file in use was cut short" in err, (process.returncode, err)


def test_what_a_killed_compilation_left_goes():
    """Only what is old, ours and of nobody alive; the lock of a folder is its owner's life."""
    with temporary() as folder:
        def place(name, age_s):
            path = os.path.join(folder, name)
            os.makedirs(path)
            with open(os.path.join(path, "kernel.c"), "w", encoding="utf-8") as file:
                file.write("int x;")
            os.utime(path, (time.time() - age_s, time.time() - age_s))
            return path
        gone, owned = place("lathe-scratch-killed", 7200), place("lathe-scratch-atwork", 7200)
        kept = [owned, place("lathe-scratch-recent", 60), place("lathe-other", 7200)]
        owner = os.open(owned, os.O_RDONLY)
        fcntl.flock(owner, fcntl.LOCK_EX)
        result = lathe("logits", "--tokens", "1", "--hash", TMPDIR=folder, LATHE_CACHE_DIR=os.path.join(folder, "cache"))
        os.close(owner)
        assert result.code == 0 and not os.path.exists(gone), result
        assert all(os.path.exists(os.path.join(path, "kernel.c")) for path in kept), os.listdir(folder)
        assert sorted(os.listdir(folder)) == sorted(["cache", *map(os.path.basename, kept)]), os.listdir(folder)


def test_killed_while_compiling_starts_again():
    with temporary() as folder:
        changes = {"LATHE_CACHE_DIR": os.path.join(folder, "cache"), "TMPDIR": folder}
        with subprocess.Popen([PROGRAM, *HASH], stdout=subprocess.PIPE, env=environment(**changes)) as process:
            end = time.monotonic() + TIME_LIMIT_S
            while not [name for name in os.listdir(folder) if name.startswith("lathe-scratch-")]:
                assert time.monotonic() < end and process.poll() is None, "no compilation began"
                time.sleep(0.01)
            process.kill()
        assert process.returncode == -9, process.returncode
        assert lathe(*HASH, **changes).out == lathe(*HASH).out


if __name__ == "__main__":
    harness.main(sys.modules[__name__])

#!/usr/bin/env python3
"""start: how a server begins and ends: before its kernels are compiled, while they are, and where that cannot be."""
import os
import select
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                              # noqa: E402 pylint: disable=wrong-import-position
from harness import PROGRAM, environment, lathe, refused, temporary     # noqa: E402 pylint: disable=wrong-import-position
from serving import Server                  # noqa: E402 pylint: disable=wrong-import-position

ASK = {"prompt": "A rabbit and a fox lived in the forest. " * 3, "max_tokens": 3, "temperature": 0, "logprobs": 3}
END_S = 5                                   # sanitizers and busy machines included; half a second otherwise


def counting_compiler(folder):
    """A compiler that leaves a file for every text that it is given, and the function that counts those."""
    path, calls = os.path.join(folder, "cc"), os.path.join(folder, "calls")
    os.mkdir(calls)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n[ \"$1\" = --version ] || : > {calls}/$$\nexec cc \"$@\"\n")
    os.chmod(path, 0o755)
    return path, lambda: len(os.listdir(calls))


def until(condition, what, limit_s=200):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def test_a_port_in_use_is_told_at_once():
    with temporary() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        compiler, compiled = counting_compiler(folder)
        said = lathe("serve", "--port", port, LATHE_CACHE_DIR=folder, LATHE_CC=compiler)
        refused(said, 1, f"port {port}", "--port")
        assert compiled() == 0


def test_the_first_answer_waits_for_its_own_kernels_only():
    """On a machine that knows no kernel; the answer is that of a server that has them all."""
    with Server("--slots", "2") as warm:
        want = warm.fine("/v1/completions", ASK)["choices"]
    with temporary() as folder:
        compiler, compiled = counting_compiler(folder)
        s = Server("--slots", "2", waits=False, LATHE_CACHE_DIR=os.path.join(folder, "kernels"), LATHE_CC=compiler)
        try:
            status, headers, reply = s.get("/health")
            assert status == 503 and reply == {"status": "loading"} and int(headers["Retry-After"]) >= 1, reply
            assert s.get("/v1/models")[0] == 200
            got = s.fine("/v1/completions", ASK)["choices"]
            at_first = compiled()
            assert got == want, (got, want)
            until(lambda: s.get("/health")[0] == 200, "the server never says that it is ready")
            until(lambda: compiled() > at_first, "nothing more is compiled after the first answer")
            assert s.fine("/v1/completions", ASK)["choices"] == want        # beside the compiler, in other numbers of rows
            begin = time.monotonic()
            assert s.end() == 0 and time.monotonic() - begin < END_S
        finally:
            s.process.kill()


def test_sigterm_ends_a_server_that_compiles():
    with temporary() as folder:
        compiler, compiled = counting_compiler(folder)
        scratch = os.path.join(folder, "scratch")
        os.mkdir(scratch)
        s = Server("--slots", "2", waits=False, LATHE_CACHE_DIR=os.path.join(folder, "kernels"), LATHE_CC=compiler, TMPDIR=scratch)
        try:
            until(lambda: compiled() > 0, "nothing is compiled")
            begin = time.monotonic()
            assert s.end() == 0, s.said()
            assert time.monotonic() - begin < END_S
            assert "does not compile" not in s.said() and os.listdir(scratch) == [], (s.said(), os.listdir(scratch))
            n = compiled()
            time.sleep(0.3)
            assert compiled() == n
        finally:
            s.process.kill()


def test_a_server_without_a_compiler_ends_and_says_why():
    with temporary() as folder:
        path = os.path.join(folder, "cc")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n[ \"$1\" = --version ] && exec cc --version\necho no licence >&2\nexit 1\n")
        os.chmod(path, 0o755)
        words = [PROGRAM, "serve", "--port", "0", "--cache-size", "0"]
        run = subprocess.run(words, capture_output=True, timeout=60, check=False,
                             env=environment(LATHE_CACHE_DIR=os.path.join(folder, "kernels"), LATHE_CC=path))
        assert run.returncode == 1 and b"no licence" in run.stderr, run


def test_sigterm_before_anything():
    """However early the signal comes, the server ends by itself with code 0."""
    for wait_s in (0, 0.01, 0.03):
        process = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--cache-size", "0"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, env=environment())
        select.select([process.stdout], [], [], 60)
        time.sleep(wait_s)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        process.stdout.close()


def test_timings_say_the_share_of_the_roof():
    ask = {"prompt": "Once upon a time", "max_tokens": 200, "temperature": 0, "ignore_eos": True}
    with Server("--slots", "1", "--roof") as s:
        reply, props = s.fine("/v1/completions", ask), s.get("/props")[2]
    t, roof = reply["timings"], props["roof_gb_s"] * 1e9
    depth = reply["usage"]["prompt_tokens"] + 100
    read = t["predicted_per_second"] * (props["bytes_per_token"] + props["cache_bytes_per_token"] * depth)
    assert roof > 1e8 and abs(t["roof_share"] * roof / read - 1) < 1e-6, (t, props)
    with Server("--slots", "1") as s:
        assert "roof_share" not in s.fine("/v1/completions", {**ask, "max_tokens": 5})["timings"]
        assert "roof_gb_s" not in s.get("/props")[2]


if __name__ == "__main__":
    harness.main(sys.modules[__name__])

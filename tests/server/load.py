#!/usr/bin/env python3
"""load: a short turn of bench/load on the model inside the program: more clients than slots, some of whom leave early, send
nonsense, ask at length or for JSON. Every answer must be the one that the same request gets alone; nothing may stay behind.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import harness                              # noqa: E402 pylint: disable=wrong-import-position
from serving import Server                  # noqa: E402 pylint: disable=wrong-import-position

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOST_GROWTH_MIB = 24        # of memory, between a third of the requests and all of them; sanitizers keep what was freed


def load(server, *flags):
    words = [sys.executable, os.path.join(ROOT, "bench", "load"), server.url, "--json", "--pid", str(server.process.pid), *flags]
    run = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout), run.stderr


def test_answers_under_load_are_those_alone():
    with Server("--slots", "8", "--queue", "64") as s:
        code, out, said = load(s, "-n", "220", "--clients", "10", "--distinct", "60", "--aborts", "0.1", "--malformed", "0.1",
                               "--long", "0.05", "--schemas", "0.1", "--tokens", "24", "--verify")
        assert code == 0 and out["errors"] == {} and out["refused"] == 0, (code, out, said)
        assert out["verified"] == out["answers"] >= 150 and out["differing"] == 0, (out, said)
        assert out["left"] >= 10 and out["malformed"] >= 10 and out["slots_busy_afterwards"] == 0, out
        warm, end = out["memory"]["warm"], out["memory"]["end"]
        assert end["anonymous_mib"] - warm["anonymous_mib"] < MOST_GROWTH_MIB, out["memory"]
        assert end["files"] <= out["memory"]["start"]["files"], out["memory"]


def test_what_differs_is_found():
    """The comparison itself: a server whose answers change when others ask (another seed each time) is told from a good one."""
    with Server("--slots", "2") as s:
        wrong = [sys.executable, "-c", f"""
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("load", {os.path.join(ROOT, 'bench', 'load')!r})
load = importlib.util.module_from_spec(importlib.util.spec_from_loader("load", loader))
loader.exec_module(load)
ask = load.Client.ask
def other_each_time(self, path, body, streamed, turns=[0]):
    turns[0] += 1
    return ask(self, path, {{**body, "seed": turns[0], "temperature": 1.5}}, streamed)
load.Client.ask = other_each_time
sys.argv = ["load", {s.url!r}, "-n", "12", "--clients", "2", "--distinct", "4", "--tokens", "24", "--verify", "--json"]
load.main()
"""]
        run = subprocess.run(wrong, capture_output=True, text=True, timeout=120, check=False)
        out = json.loads(run.stdout)
        assert run.returncode == 1 and out["differing"] > 0 and "alone:" in run.stderr, (out, run.stderr)


if __name__ == "__main__":
    harness.main(sys.modules[__name__])

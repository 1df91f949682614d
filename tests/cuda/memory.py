#!/usr/bin/env python3
"""What is said of a card that is too small, and that what is said helps: on the fake card, whose memory a variable sets.

    memory.py --lathe ./lathe --build build

Invariant: the last line is 'N passed, N failed, N skipped', the exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
import make_model

MIB = 1 << 20
SHAPE, BLOCKS = "tiny-qwen3moe", 2


class Card:
    """lathe on a fake card of so many bytes."""

    def __init__(self, lathe: str, build: str, folder: Path) -> None:
        self.lathe, self.model = lathe, folder / "m.gguf"
        make_model.make(make_model.SHAPES[SHAPE], SHAPE, "f32", 1, str(self.model), make_model.Layout())
        self.environment = os.environ | {
            "LATHE_CUDA": os.path.abspath(f"{build}/tests/libfakecuda.so"),
            "LATHE_NVRTC": os.path.abspath(f"{build}/tests/libfakenvrtc.so"), "LATHE_CACHE_DIR": str(folder / "cache"), "TERM": "xterm"}

    def command(self, *flags: str) -> list[str]:
        return [self.lathe, "logits", str(self.model), "--device", "cuda", "--tokens", "1", "--last", "--hash", *flags]

    def run(self, nbytes: int, *flags: str) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*flags), capture_output=True, text=True, timeout=250,
                              env=self.environment | {"FAKE_CUDA_MEMORY": str(nbytes)})

    def on_terminal(self, **more: str) -> bytes:
        """What a terminal shows of the loading of a model that then is asked for a token it does not have."""
        pid, terminal = pty.fork()
        if pid == 0:
            command = self.command()
            command[command.index("1")] = "999999"
            os.execvpe(command[0], command, self.environment | more)
        shown = b""
        while True:
            try:
                part = os.read(terminal, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        os.waitpid(pid, 0)
        os.close(terminal)
        return shown


def test_numbers(card: Card) -> None:
    """Needed and free, but for the engine's few KiB, and of what it consists; nothing is copied before."""
    done = card.run(64 * MIB)
    assert done.returncode == 1, done
    found = re.search(r"needs (\d+) MiB on Fake card, of which (\d+) MiB are free: (\d+) of weights, (\d+) of cache for \d+ positions, "
                      r"(\d+) of scratch", done.stderr)
    assert found, done.stderr
    needed, free, weights, cache, scratch = map(int, found.groups())
    size = card.model.stat().st_size
    assert free in (63, 64) and abs(weights * MIB - size) < 2 * MIB and abs(needed - weights - cache - scratch) <= 2, done.stderr
    assert "smaller model" in done.stderr and "--gpu-layers" not in done.stderr, done.stderr


def test_advice_helps(card: Card) -> None:
    """Where a part fits, the number of blocks is named, and that number works; one block more does not."""
    size = card.model.stat().st_size
    nbytes = 256 * MIB + size * 3 // 4
    done = card.run(nbytes)
    found = re.search(r"--gpu-layers (\d+)$", done.stderr.strip())
    assert done.returncode == 1 and found, done.stderr
    most = int(found.group(1))
    assert 0 < most < BLOCKS, done.stderr
    split, plain = card.run(nbytes, "--gpu-layers", str(most)), card.run(nbytes, "--gpu-layers", "0")
    assert split.returncode == 0 and plain.returncode == 0 and split.stdout, (split, plain)
    assert card.run(nbytes, "--gpu-layers", str(most + 1)).returncode == 1


def test_context_is_counted(card: Card) -> None:
    size = card.model.stat().st_size
    done = card.run(256 * MIB + size + 2 * MIB, "-c", "4096")
    assert done.returncode == 1 and "--context" in done.stderr and "q8_0" in done.stderr, done.stderr


def test_upload_is_shown_to_people_only(card: Card) -> None:
    shown = card.on_terminal(FAKE_CUDA_COPY_US="50000")
    assert re.search(rb"upload #+\.+ +\d+ %", shown), shown
    quiet = card.run(8 << 30, "--tokens", "999999")
    assert "upload" not in quiet.stderr, quiet.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lathe", default="./lathe")
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        card = Card(os.path.abspath(options.lathe), options.build, Path(folder))
        for name, test in sorted(globals().items()):
            if not name.startswith("test_"):
                continue
            try:
                test(card)
                passed += 1
                print(f"ok   {name}")
            except Exception as wrong:      # pylint: disable=broad-except
                failed += 1
                print(f"FAILED {name}: {str(wrong)[:600]}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

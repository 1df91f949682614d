#!/usr/bin/env python3
"""docs: the pages say what is: files they name exist, snippets they show print what they show.

Names are those in `back quotes` that begin with a folder of the project, or with a folder of src/. A word in capitals is a
placeholder. A snippet is an indented block that begins with `$ lathe`; hi.json holds one message, "Hi".
"""
import glob
import json
import os
import re
import subprocess
import sys

import harness
from harness import PROGRAM, ROOT, environment, lathe, temporary

PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/NOTES.md", "models/storyteller/SOURCES.md")
TOP = ("src", "tests", "tools", "bench", "include", "fuzz", "models", ".ci")
FOLDERS = ("base", "ir", "tensor", "schedule", "codegen", "render", "runtime", "engine", "nn", "models", "text", "app")


def page_read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def names_in(text):
    """File names in back quotes, outside of indented blocks."""
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    for quoted in re.findall(r"`([^`\n]+)`", prose):
        name = quoted.rstrip("/").split(" ")[0]
        if re.fullmatch(r"[A-Za-z0-9_./*-]+", name) and "/" in name and not re.search(r"[A-Z]{4,}(?!\.md)", name):
            yield name


def name_exists(name):
    parts = name.split("/")
    if parts[0] in (".", "..", "~"):
        return True
    if parts[0] in TOP and glob.glob(os.path.join(ROOT, name)):
        return True
    if parts[0] in FOLDERS:
        return any(glob.glob(os.path.join(ROOT, "src", name + end)) for end in ("", ".c", ".h", ".def", "*.c"))
    return parts[0] not in TOP


def test_named_files_exist():
    gone = [f"{page}: {name}" for page in PAGES for name in names_in(page_read(page)) if not name_exists(name)]
    assert not gone, gone


def snippets_in(text):
    """(command, what follows it) of each `$ lathe` line of an indented block."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("    $ lathe "):
            shown = []
            for following in lines[number + 1:]:
                if not following.startswith("    ") or following.startswith("    $ "):
                    break
                shown.append(following[4:])
            yield line[6:], shown


def test_snippets_print_what_they_show():
    with temporary() as folder:
        with open(os.path.join(folder, "hi.json"), "w", encoding="utf-8") as file:
            json.dump([{"role": "user", "content": "Hi"}], file)
        os.symlink(PROGRAM, os.path.join(folder, "lathe"))
        for page in PAGES:
            for command, shown in snippets_in(page_read(page)):
                process = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, check=False, timeout=300,
                                         env=environment(PATH=folder + ":" + os.environ["PATH"]))
                printed = process.stdout.decode().splitlines()
                assert process.returncode == 0 and printed[:len(shown)] == shown, (page, command, printed, process.stderr)


def test_readme_names_every_command():
    text = page_read("README.md")
    for line in lathe("--help").text().splitlines():
        command = re.match(r"  (\w+) +\w", line)
        if command and command[1] != "lathe":
            assert f"`lathe {command[1]}" in text, command[1]


def test_readme_names_every_architecture():
    text = page_read("README.md")
    with open(os.path.join(ROOT, "src", "models", "arch.def"), encoding="utf-8") as file:
        for name in re.findall(r"^ARCH\((\w+),", file.read(), re.M):
            assert name in text, name


def test_readme_names_every_block_type():
    text = page_read("README.md")
    with open(os.path.join(ROOT, "src", "nn", "quant.def"), encoding="utf-8") as file:
        names = re.findall(r"^QUANT\( *\d+, *(\w+),", file.read(), re.M)
    assert len(names) >= 16, names
    for name in names:
        assert re.search(rf"\b{name}\b", text), name


if __name__ == "__main__":
    harness.main(sys.modules[__name__])

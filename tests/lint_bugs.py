#!/usr/bin/env python3
"""Checks tests/bugs.tsv: every known fault of other engines has a test, or a reason why not yet.

In: tests/bugs.tsv, the list IDS below, the tests that rows name, and, where it is at hand, the page
of faults (bugs.md in $LATHE_SHARED, by default ../shared). Out: one line a mistake and exit code 1,
or one line of figures. Invariant: IDS is the page's list, so a fault added there is missed here.

    tests/lint_bugs.py
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATES = ("test", "later", "never")
# The ids of the page, as ranges; numbers between them were never given or stand for no fault of ours.
IDS = ("B01-B06 B08 B10 B11 B13 B15 B16 B18 B20 B22 B23 B25-B27 B29-B32 B34-B37 B39 B41 B43-B45 "
       "B47-B50 B52-B56 B58-B62 B64-B66 B68 B70 B72 B74-B82 B84 B87-B89 B91 B93-B95 B97-B99 B102-B106")


def listed_ids() -> list[str]:
    out = []
    for part in IDS.split():
        first, _, last = part.partition("-")
        numbers = range(int(first[1:]), int((last or first)[1:]) + 1)
        out += [f"B{n:02d}" for n in numbers]
    return out


def page_ids() -> list[str] | None:
    shared = Path(os.environ.get("LATHE_SHARED") or ROOT.parent / "shared")
    try:
        page = (shared / "bugs.md").read_text()
    except OSError:
        return None
    return re.findall(r"^\|\s*(B\d+)\s*\|", page, re.M)


def test_mistake(place: str) -> str | None:
    """What is wrong with a FILE::NAME, if anything."""
    name, _, function = place.partition("::")
    if not function:
        return f"'{place}' is not of the form FILE::NAME"
    path = ROOT / name
    if not path.is_file():
        return f"{name} does not exist"
    if not re.search(rf"(?<!\w){re.escape(function)}(?!\w)", path.read_text()):
        return f"{name} has no '{function}'"
    return None


def row_mistakes(number: int, line: str, rows: dict) -> list[str]:
    """Mistakes of one row; notes its state in rows."""
    cells = line.split("\t")
    if len(cells) != 3 or not all(cell.strip() for cell in cells):
        return [f"line {number}: three cells with tabs between are expected"]
    bug, state, where = cells
    out = []
    if bug in rows:
        out.append(f"line {number}: {bug} stands twice")
    rows[bug] = state
    if state not in STATES:
        out.append(f"line {number}: state '{state}' is none of {', '.join(STATES)}")
    elif state == "test":
        out += [f"line {number}: {bug}: {m}" for place in where.split() if (m := test_mistake(place))]
    return out


def main() -> None:
    rows: dict[str, str] = {}
    mistakes = []
    for number, line in enumerate((ROOT / "tests/bugs.tsv").read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            mistakes += row_mistakes(number, line, rows)
    listed, page = listed_ids(), page_ids()
    mistakes += [f"{bug} is missing" for bug in listed if bug not in rows]
    mistakes += [f"{bug} is not an id of the page" for bug in rows if bug not in listed]
    if page is not None and sorted(page) != sorted(listed):
        mistakes.append(f"the list in lint_bugs.py and the page differ in {sorted(set(page) ^ set(listed))}")
    for mistake in mistakes:
        print(f"tests/bugs.tsv: {mistake}")
    counts = ", ".join(f"{sum(s == state for s in rows.values())} {state}" for state in STATES)
    print(f"{len(rows)} known faults: {counts}" + ("" if page else "; the page is not here to compare"))
    sys.exit(1 if mistakes else 0)


if __name__ == "__main__":
    main()

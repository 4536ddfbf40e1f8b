"""Hold each room to its number of lines: `make lint` shows the table, and a room above its number fails.

The numbers stand in rooms.toml beside this file, Python apart from JavaScript and CSS. A number is only ever lowered
(`--lower` writes today's counts where they are below), and a new room takes its lines from others, so the total
falls too. It is no limit per file: nothing is cut into pieces to be short, and no line is joined to be fewer.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_name("rooms.toml")


def count() -> dict[str, int]:
    """The lines of each room, by its name in the table."""
    lines: Counter[str] = Counter()
    for path in sorted(ROOT.joinpath("kitlib").rglob("*")) + sorted(ROOT.joinpath("tests").rglob("*.py")):
        first, *inner = path.relative_to(ROOT).parts
        if path.suffix in (".js", ".css"):
            room = "JavaScript and CSS"
        elif path.suffix == ".py":
            room = f"{first}/{inner[0]}" if first == "kitlib" and len(inner) > 1 else first
        else:
            continue
        lines[room] += path.read_bytes().count(b"\n")
    return dict(lines)


def allowed() -> dict[str, int]:
    """The table as it is now."""
    return dict(tomllib.loads(TABLE.read_text(encoding="utf-8")))


def raised() -> list[str]:
    """What some commit has raised: a room's number, or the total; [] where git or the history is not there."""
    log = ["git", "log", "--reverse", "--format=%h", "--", TABLE.relative_to(ROOT).as_posix()]
    hashes = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    shown = [subprocess.run(["git", "show", f"{name}:{log[-1]}"], cwd=ROOT, capture_output=True, text=True, check=False) for name in hashes]
    tables = [tomllib.loads(text.stdout) for text in shown if text.returncode == 0] + [allowed()]
    found = []
    for before, after in itertools.pairwise(tables):
        found += [f"{room}: {before[room]} to {number}" for room, number in after.items() if number > before.get(room, number)]
        if sum(after.values()) > sum(before.values()):
            found.append(f"the total: {sum(before.values())} to {sum(after.values())}")
    return found


def main() -> int:
    now, table = count(), allowed()
    if "--lower" in sys.argv[1:]:
        table = {room: min(lines, table.get(room, lines)) for room, lines in now.items()}
        TABLE.write_text("".join(f'"{room}" = {lines}\n' for room, lines in table.items()), encoding="utf-8")
    for room, lines in now.items():
        print(f"{room:24} {lines:7,} of {table.get(room, 0):7,} lines{'  TOO MANY' if lines > table.get(room, 0) else ''}")
    print(f"{'kitlib (Python)':24} {sum(lines for room, lines in now.items() if room.startswith('kitlib')):7,}")
    return int(any(lines > table.get(room, 0) for room, lines in now.items()))


if __name__ == "__main__":
    sys.exit(main())

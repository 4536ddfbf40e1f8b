"""What a notebook of the kit must be as a file, before anybody runs it."""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path
from typing import Any

from kitlib.lab import notebooks

LONGEST_CELL = 25  # lines
MOST_IMPORTS = 3  # lines of the first code cell
LARGEST_FILE = 600_000  # bytes
LARGEST_OUTPUT = 150_000  # bytes of one output
MOST_UNCOMPARED = 2  # cells whose output nbval may ignore
ABSOLUTE = re.compile(r"(?<![\w.:/])/(?:home|Users|root|tmp|work|var|usr|opt|mnt|private)/\w|\b[A-Z]:\\\w")
SCRIPT = re.compile(r"<script|javascript:|<iframe|\son\w+\s*=", re.IGNORECASE)


def problems(path: Path) -> list[str]:
    """A sentence for each rule that the notebook breaks."""
    notebook = notebooks.load(path)
    cells = notebook.cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    found = []
    if notebook.metadata.get("kernelspec") != notebooks.KERNELSPEC:
        found.append("its kernelspec is not python3, so JupyterLab would ask for a kernel")
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith("# "):
        found.append("it does not begin with a heading")
    if len({cell.get("id") for cell in cells}) != len(cells):
        found.append("two cells have the same id")
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        found.append("it was not run from its first cell to its last, so its outputs are not compared")
    if not any(cell.outputs for cell in code):
        found.append("it has no stored output")
    if path.stat().st_size > LARGEST_FILE:
        found.append(f"it has {path.stat().st_size} bytes, {LARGEST_FILE} are allowed")
    if notebooks.text_of(notebooks.tidy(copy.deepcopy(notebook), notebook)) != path.read_text(encoding="utf-8"):
        found.append("it holds metadata or widget state; save it with `kit notebooks`")
    if sum("nbval-ignore-output" in tags(cell) for cell in code) > MOST_UNCOMPARED:
        found.append(f"the outputs of more than {MOST_UNCOMPARED} cells are not compared")
    found += import_problems(code)
    for number, cell in enumerate(code, 1):
        found += [f"code cell {number} {problem}" for problem in cell_problems(cell)]
    return found


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def import_problems(code: list[Any]) -> list[str]:
    """The first code cell imports what the whole notebook uses, in few lines; what else is needed stands at the top of the cell that needs it."""
    found: list[str] = []
    known: set[str] = set()
    for number, cell in enumerate(code, 1):
        try:
            body = ast.parse(cell.source).body
        except SyntaxError:
            found.append(f"code cell {number} is not plain Python (no magics, no shell)")
            continue
        imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [alias.asname or alias.name for node in imports for alias in node.names]
        if body[: len(imports)] != imports:
            found.append(f"code cell {number} imports below its first lines")
        if twice := sorted(known & {*names}):
            found.append(f"code cell {number} imports {', '.join(twice)} again")
        if number == 1 and (body != imports or not imports):
            found.append("the first code cell is not the import cell")
        if number == 1 and len([line for line in cell.source.splitlines() if line]) > MOST_IMPORTS:
            found.append(f"the import cell has more than {MOST_IMPORTS} lines; import in the cell that needs it first")
        known |= {*names}
    return found


def cell_problems(cell: Any) -> list[str]:
    found = []
    if len(cell.source.splitlines()) > LONGEST_CELL:
        found.append(f"has more than {LONGEST_CELL} lines")
    if re.search(r"\bsleep\s*\(", cell.source):
        found.append("sleeps; wait for a condition")
    if re.search(r"\b(pip|conda|apt)\b.*\binstall\b", cell.source):
        found.append("installs something")
    if ABSOLUTE.search(cell.source):
        found.append("holds an absolute path")
    if "nbval-skip" in tags(cell):
        found.append("is not run by the tests")
    for output in cell.outputs:
        found += output_problems(output, tags(cell))
    return found


BARE = re.compile(r"\s*(True|False|None|\(\)|\[\]|\{\}|\((True|False)(, (True|False))*,?\))\s*")


def output_problems(output: Any, cell_tags: list[str]) -> list[str]:
    found = []
    if output.output_type == "error" and "raises-exception" not in cell_tags:
        found.append(f"has stored the error {output.ename}")
    if output.output_type == "stream" and output.name == "stderr":
        found.append("has written to stderr")
    parts = dict(output.get("data", {})) or {"text/plain": output.get("text", "")}
    if BARE.fullmatch(str(parts.get("text/plain", "-"))):
        found.append(f"shows {parts['text/plain']!r}; say it in words")
    for kind, part in parts.items():
        text = part if isinstance(part, str) else str(part)
        if kind == "application/javascript" or (kind in ("text/html", "image/svg+xml") and SCRIPT.search(text)):
            found.append(f"has a script in its output ({kind})")
        if kind.startswith("text/") and ABSOLUTE.search(text):
            found.append("shows an absolute path")
        if "token=" in text:
            found.append("shows a token")
        if len(text.encode()) > LARGEST_OUTPUT:
            found.append(f"has an output of {len(text.encode())} bytes, {LARGEST_OUTPUT} are allowed")
    return found

"""The house's rules that tools can hold: lint, types, and which room may import what."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

BIN = Path(sys.executable).parent
PURE = ("trace.py", "trace_lines.py", "errors.py", "text.py", "words", "java", "mechanisms", "more", "monitor")
# The standard library's ways to time, chance, threads, processes, sockets and the outer world.
IMPURE = {
    "asyncio", "concurrent", "ctypes", "getpass", "http", "importlib", "logging", "multiprocessing", "os", "pathlib", "pickle",
    "platform", "queue", "random", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "ssl", "subprocess",
    "sys", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"print", "input", "open", "eval", "exec", "__import__"}


def pure_modules() -> list[Path]:
    rooms = [REPOSITORY / "kitlib" / name for name in PURE]
    return [path for room in rooms for path in ([room] if room.suffix else sorted(room.rglob("*.py")))]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["ruff", "check", "."], id="ruff finds nothing"),
        pytest.param(["mypy"], id="mypy --strict finds nothing in kitlib and scripts"),
        pytest.param(["lint-imports", "--no-logo", "--no-cache"], id="imports go one way"),
    ],
)
def test_tools_are_content(command: list[str]) -> None:
    """The linter, the type checker and the import contracts have no complaint."""
    answer = subprocess.run([BIN / command[0], *command[1:]], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout[-5000:]}{answer.stderr[-2000:]}"


@pytest.mark.parametrize("path", pure_modules(), ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_pure_rooms_import_only_the_pure_part_of_the_standard_library(path: Path) -> None:
    """A pure room imports kitlib's pure rooms and the standard library alone, and no clock, thread, socket or chance."""
    allowed = (sys.stdlib_module_names | {"kitlib", "__future__"}) - IMPURE
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= allowed, f"line {node.lineno}"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").split(".")[0] in allowed, f"line {node.lineno}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in IMPURE_CALLS, f"line {node.lineno}"


def imported(node: ast.AST, is_pure: bool, names: Collection[str]) -> Iterator[str]:
    """Which of these modules one imports; outside of the pure rooms not those that a function imports when it is called."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from {alias.name for alias in child.names}.intersection(names)
        elif isinstance(child, ast.ImportFrom):
            found = {f"{child.module}.{alias.name}" for alias in child.names}
            yield from {one if one in names else child.module or "" for one in found}.intersection(names)
        elif is_pure or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported(child, is_pure, names)


def test_no_module_imports_itself_through_others() -> None:
    """Imports go one way between modules too, those for annotations included."""
    pure = set(pure_modules())
    paths = sorted((REPOSITORY / "kitlib").rglob("*.py"))
    names = {".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
    imports = {
        name: set(imported(ast.parse(path.read_text(encoding="utf-8")), path in pure, names)) - {name}
        for name, path in names.items()
    }
    while free := {name for name, wanted in imports.items() if not wanted}:
        imports = {name: wanted - free for name, wanted in imports.items() if name not in free}
    assert imports == {}, f"a circle, or what imports one: {sorted(imports)}"


@pytest.mark.parametrize("path", sorted((REPOSITORY / "tests").rglob("test_*.py")), ids=lambda path: path.name)
def test_tests_do_not_sleep_and_say_what_they_hold(path: Path) -> None:
    """No test waits by sleeping, and each has a docstring that is a sentence."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in ("time.sleep", "sleep"), f"line {node.lineno}: wait for a condition instead"
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            assert (ast.get_docstring(node) or "").rstrip().endswith((".", "?")), f"{node.name} does not say what it holds"


def test_face_of_the_library_is_imported_when_it_is_asked_for() -> None:
    """`from kitlib import ...` gives what the rooms define; a name that is not there is an AttributeError, as of any module."""
    import kitlib
    from kitlib import experiments, views
    from kitlib.monitor import delivery

    assert (kitlib.run, kitlib.judge, kitlib.Player) == (experiments.run, delivery.judge, views.Player)
    assert all(callable(getattr(kitlib, name)) for name in kitlib.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kitlib.nothing  # noqa: B018

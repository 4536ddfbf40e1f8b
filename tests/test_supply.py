"""What is installed is what was declared, and the tree names no machine and no registry."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from kitlib.lab import jars
from tests.conftest import REPOSITORY, git

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = PROJECT["dependency-groups"]
LEARNERS = [Requirement(text) for text in PROJECT["project"]["dependencies"] + GROUPS["build"]]
DECLARED = LEARNERS + [Requirement(text) for text in GROUPS["dev"]]
LOCK, DEVELOPERS_LOCK = ((REPOSITORY / name).read_text(encoding="utf-8") for name in ("requirements.lock", "requirements-dev.lock"))
BLOCK = re.compile(r"^[\w.-]+==.*\n(?:    .*\n)*", re.MULTILINE)


def pins_of(lock: str) -> list[Requirement]:
    """The packages that a lock names, some twice, for different Pythons."""
    return [Requirement(block.split("\\\n")[0]) for block in BLOCK.findall(lock)]


PINS = pins_of(LOCK + DEVELOPERS_LOCK)
# Written so that this file does not match itself.
REGISTRIES = "|".join(("py" + r"pi\.org", "pythonhosted" + r"\.org", "repo1?" + r"\.maven", "maven" + r"\.org", "npmjs" + r"\.org"))
MACHINES = "|".join(("/" + "root/", r"(?<!\w)/" + "work/", "/" + r"Users/\w", r"[A-Z]:\\" + "Users"))
HOMES = r"|/home/(?!learner)\w"  # tests may speak of a made-up one
# Its own list of what a notebook must not hold.
LISTS = {"tests/notebooks/test_harness.py"}
WORDS = "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3))


def locked(name: str) -> Version:
    """The version that the lock has of a package on this system."""
    [pin] = [pin for pin in PINS if canonicalize_name(pin.name) == canonicalize_name(name) and applies(pin)]
    return Version(next(iter(pin.specifier)).version)


def applies(pin: Requirement) -> bool:
    return pin.marker is None or pin.marker.evaluate()


def tracked() -> list[Path]:
    """Every text file of the project that git knows or would add."""
    files = [REPOSITORY / name for name in git(REPOSITORY, "ls-files", "--cached", "--others", "--exclude-standard").splitlines()]
    return [path for path in files if path.is_file() and path.suffix not in (".gz", ".png", ".ico")]


@pytest.mark.parametrize("requirement", DECLARED, ids=str)
def test_lock_holds_every_declared_package_in_a_declared_version(requirement: Requirement) -> None:
    """Each dependency in pyproject.toml is in its lock, in a version that it allows."""
    lock = pins_of(LOCK) if requirement in LEARNERS else PINS
    pins = [pin for pin in lock if canonicalize_name(pin.name) == canonicalize_name(requirement.name)]
    assert pins
    assert all(requirement.specifier.contains(specifier.version) for pin in pins for specifier in pin.specifier)


def test_lock_every_package_has_a_hash() -> None:
    """Each package of both locks has at least one sha256, and none is in both."""
    for lock in (LOCK, DEVELOPERS_LOCK):
        blocks = BLOCK.findall(lock)
        assert all("--hash=sha256:" in block for block in blocks)
        assert "".join(blocks) == lock
    assert not {pin.name for pin in pins_of(LOCK)} & {pin.name for pin in pins_of(DEVELOPERS_LOCK)}


def test_the_bill_of_materials_names_all_that_the_locks_name() -> None:
    """Each package of the learner's lock and each jar is in it, with a version, a hash and a purl of its own."""
    told = SimpleNamespace(**runpy.run_path(str(REPOSITORY / "scripts" / "write_bom.py"))).bom()
    components = told["components"]
    assert {pin.name for pin in pins_of(LOCK)} <= {each["name"] for each in components}
    hashes = {each["content"] for component in components for each in component["hashes"]}
    locked_jars = json.loads((REPOSITORY / "kitlib" / "lab" / "jars.lock.json").read_text(encoding="utf-8"))
    assert {jar["sha256"] for some in jars.SETS for jar in locked_jars[some]} <= hashes
    assert all(each["version"] and each["hashes"] for each in components)
    assert len({each["purl"] for each in components}) == len(components)


def test_audit_that_cannot_ask_says_so() -> None:
    """Where nobody answers the exit code of `make audit` is 5, with a sentence."""
    program = [sys.executable, "scripts/audit_supply.py", "http://127.0.0.1:1/"]
    answer = subprocess.run(program, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 5 and "OSV gave no answer" in answer.stderr and "Traceback" not in answer.stderr


def test_learners_need_no_developers_tool() -> None:
    """What the library and the notebooks import is in requirements.lock, so that a learner's install runs all of them."""
    sources = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "kitlib").rglob("*.py")]
    for path in (REPOSITORY / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    imported = {name for source in sources for name in re.findall(r"^ *(?:from|import) (\w+)", source, re.MULTILINE)}
    providers = importlib.metadata.packages_distributions()
    tools = {canonicalize_name(pin.name) for pin in pins_of(DEVELOPERS_LOCK)}
    assert "pyspark" in imported
    assert not {name for name in imported if {canonicalize_name(provider) for provider in providers.get(name, ())} & tools}


def test_installed_versions_are_the_locked_ones() -> None:
    """What is installed here is what the lock says, as far as this system needs it."""
    wrong = {}
    for name in {pin.name for pin in PINS if applies(pin)}:
        try:
            found = Version(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            wrong[name] = "not installed"
            continue
        if found != locked(name):
            wrong[name] = f"{found}, locked {locked(name)}"
    assert not wrong


def test_lock_names_all_that_its_packages_need() -> None:
    """The lock is installed without a look at what its packages ask for: nothing that they ask for may be missing."""
    checked = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_pyspark_and_its_connector_are_of_one_release() -> None:
    """The Kafka connector's version is pyspark's, in the lock and as it is installed."""
    assert str(locked("pyspark")) == importlib.metadata.version("pyspark") == jars.CONNECTOR_VERSION


def test_builder_is_the_locked_setuptools() -> None:
    """The package is built with the setuptools of the lock, so that nothing else is downloaded for it."""
    assert PROJECT["build-system"]["requires"] == [f"setuptools=={locked('setuptools')}"]


def test_every_import_is_declared() -> None:
    """Each package that kitlib imports is a declared dependency, not somebody else's by chance."""
    providers = importlib.metadata.packages_distributions()
    declared = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    undeclared = {}
    for path in (REPOSITORY / "kitlib").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"kitlib"}:
                if not {canonicalize_name(each) for each in providers.get(name, [])} & declared:
                    undeclared[name] = path.relative_to(REPOSITORY).as_posix()
    # py4j is pyspark's other half: the version that pyspark names is the only one that fits.
    undeclared.pop("py4j", None)
    undeclared.pop("_typeshed", None)  # mypy has it, and it is imported for types alone
    assert not undeclared


def test_package_data_is_in_the_package() -> None:
    """Every file of kitlib that is not Python belongs to the package data, so that an installed kit has it."""
    kinds = {pattern.removeprefix("*") for pattern in PROJECT["tool"]["setuptools"]["package-data"]["*"]}
    data = [path for path in tracked() if path.is_relative_to(REPOSITORY / "kitlib") and path.suffix != ".py"]
    assert data
    for path in data:
        inside = path.relative_to(REPOSITORY / "kitlib")
        assert inside.parts[:2] == ("conformance", "data") or any(path.name.endswith(kind) for kind in kinds), inside


def test_tree_names_no_registry_no_machine_and_no_unfinished_work() -> None:
    """No file of the project names a package registry's host, a path of somebody's machine, or work left undone."""
    pattern = f"{REGISTRIES}|{MACHINES}|\\b(?:{WORDS})\\b"
    found = []
    for path in tracked():
        if path.relative_to(REPOSITORY).as_posix() in LISTS:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        inside = path.relative_to(REPOSITORY)
        asked = pattern if inside.parts[0] == "tests" else pattern + HOMES
        found += [f"{inside}: {match.group(0)}" for match in re.finditer(asked, text)]
    assert not found

"""The pages of the project tell the truth: their links, commands, numbers and pictures exist."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from kitlib.exercises.course import number_of
from kitlib.experiments import every

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "notebooks/README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_to_files(page: str) -> None:
    """Every relative link leads to something that is there."""
    links = [link for link in re.findall(r"\]\(([^)#]+)[)#]", text_of(page)) if "://" not in link]
    assert not [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]


def test_the_glossary_is_in_order_and_names_notebooks_that_are_there() -> None:
    """Each term once, by the alphabet, and shown in notebooks that there are."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| .+ \| ([\d, ]+) \|$", text_of("docs/glossary.md"), re.MULTILINE)
    terms = [term.strip("`").lower() for term, _ in rows]
    assert len(rows) == text_of("docs/glossary.md").count("\n| **") > 50 and terms == sorted(set(terms))
    assert {number for _, shown in rows for number in shown.split(", ")} <= {path.name[:2] for path in NOTEBOOKS}


def test_the_notebooks_page_lists_every_notebook_in_order() -> None:
    """The table has each notebook once, and its paths name only notebooks, each after those it needs (the card leaves some out)."""
    readme = text_of("notebooks/README.md")
    about = {number_of(path.stem): nbformat.read(path, 4).metadata["course"] for path in NOTEBOOKS}
    listed = re.findall(r"\[(\d\d[a-z]?)\]\((\S+)\) (\d+)", readme)
    assert listed == [(number_of(path.stem), path.name, str(about[number_of(path.stem)]["minutes"])) for path in NOTEBOOKS]
    assert re.findall(r"^\| (\d\d) .*\| \[\1[a-z]?\]", readme, re.MULTILINE) == sorted({number[:2] for number in about})
    paths = re.findall(r"^\* \*\*(.*)\*\* ([\da-z, ]+)$", readme, re.MULTILINE)
    assert len(paths) == 4
    for name, path in paths:
        done: set[str] = set()
        for step in path.split(", "):
            taken = [number for number in about if number.startswith(step)]
            assert taken
            for number in taken:
                assert name == "The card:" or set(about[number]["needs"]) <= done, (path, number)
                done.add(number)


def test_notebooks_named_for_spark_use_spark() -> None:
    """The 20 and more that the notebooks' page names are those whose code imports what runs there; the mechanisms' page names no others."""
    seen = [path.name for path in NOTEBOOKS if re.search(r'"from kitlib\.(spark|pipelines|desk)\b', path.read_text(encoding="utf-8"))]
    rows = "".join(re.findall(r"^\|.*Spark.*$", text_of("kitlib/mechanisms/README.md"), re.MULTILINE))
    assert len(seen) >= 20 and set(re.findall(r"\]\(../../notebooks/([^)]+)\)", rows)) <= {*seen}
    assert f"Spark works in {', '.join(number_of(Path(name).stem) for name in seen)}:" in text_of("notebooks/README.md")


def test_each_mechanism_is_in_the_table_with_its_notebook_and_its_source() -> None:
    """Each file of the small library is in one row; what a row links to exists, and a file of the row names the row's source as its own."""
    home = ROOT / "kitlib" / "mechanisms"
    rows = [line.split(" | ") for line in (home / "README.md").read_text(encoding="utf-8").splitlines() if line.count(" | ") == 3][2:]
    files = [re.findall(r"\]\(([^)]+)\)", row[1]) for row in rows]
    assert sorted(itertools.chain(*files)) == sorted(
        path.relative_to(home).as_posix() for path in home.rglob("*.py") if path.name != "__init__.py"
    )
    for (_, _, notebooks, source), named in zip(rows, files, strict=True):
        assert all((home / link).is_file() for link in re.findall(r"\]\(([^)]+)\)", notebooks))
        texts = "".join((home / name).read_text(encoding="utf-8") for name in named)
        named_there = re.findall(r"v?\d[\d.]*\d|(?<=`)[\w.]+(?=`)", source)
        assert named_there and [word for word in named_there if word not in texts] == [], source


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/ways_in.md"])
def test_make_targets_named_on_a_page_exist(page: str) -> None:
    """Every `make` target that is named is one of the Makefile's."""
    found = re.findall(r"^make ([a-z]+)|`make ([a-z]+)[`. ]", text_of(page), flags=re.MULTILINE)
    targets = set(re.findall(r"^([a-z]+):.*## ", text_of("Makefile"), flags=re.MULTILINE))
    named = {one or other for one, other in found}
    assert named and named <= targets


def test_kit_commands_named_on_the_pages_exist() -> None:
    """Every `kit` command that a page names is one of `kit --help`, and each of those is in the list of commands."""
    shown = subprocess.run([sys.executable, "-m", "kitlib", "--help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^│ ([a-z][a-z-]*) ", shown, flags=re.MULTILINE))
    for page in PAGES:
        assert set(re.findall(r"(?:^|`|; )kit ([a-z][a-z-]*)", text_of(page), flags=re.MULTILINE)) <= commands, page
    assert set(re.findall(r"(?:^|; )kit ([a-z][a-z-]*)", text_of("docs/commands.md"), flags=re.MULTILINE)) == commands


def test_the_readme_promises_no_more_recorded_steps_than_there_are() -> None:
    """The number of recorded steps is that of the recordings in the package, rounded down."""
    [told] = re.findall(r"more than ([\d,]+) steps recorded", " ".join(text_of("README.md").split()))
    files = (ROOT / "kitlib/conformance/data").rglob("*.jsonl.gz")
    traces = [json.loads(line) for path in files for line in gzip.decompress(path.read_bytes()).splitlines()]
    steps = sum(len(trace.get("steps", [trace])) for trace in traces)
    assert steps * 0.9 < int(told.replace(",", "")) <= steps


def test_the_experiments_that_run_on_the_model_only_are_named_with_the_reason() -> None:
    """README's "all but eight" is the length of the list in kitlib/mechanisms/README.md, which is the kit's own."""
    listed = re.findall(r"^\| `(\w+)` \| (.+) \|$", text_of("kitlib/mechanisms/README.md"), re.MULTILINE)
    assert listed == [(each.name, each.model_only) for each in every() if each.model_only]
    assert len(listed) == 8 and "All experiments but\n[eight](kitlib/mechanisms/README.md#on-the-model-only)" in text_of("README.md")


def test_the_readmes_picture_is_what_the_experiment_draws() -> None:
    """The picture is drawn from a run, not by hand."""
    drawn = runpy.run_path(str(ROOT / "scripts" / "draw_readme.py"))["draw"]()
    assert (ROOT / "docs" / "lost.svg").read_text(encoding="utf-8") == drawn

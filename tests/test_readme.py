"""README.md and CONTRIBUTING.md tell the truth: their links, commands and picture exist."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from kitlib.lab.kafka_server import Cluster

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md")


def test_links_of_the_readme_lead_to_files() -> None:
    """Every relative link leads to something that is there."""
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert links and not missing


def test_notebooks_named_for_spark_in_the_readme_use_spark() -> None:
    """Where a row of the table says Spark and links to notebooks, each of them speaks of Spark."""
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("|") and "Spark" in line]
    linked = {link for row in rows for link in re.findall(r"\]\((notebooks/[^)]+)\)", row)}
    assert linked and not [link for link in linked if "Spark" not in (ROOT / link).read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_named_on_a_page_exist(page: str) -> None:
    """Every `make` target that is named is one of the Makefile's."""
    found = re.findall(r"^make ([a-z]+)|`make ([a-z]+)[`. ]", (ROOT / page).read_text(), flags=re.MULTILINE)
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {one or other for one, other in found}
    assert named and named <= targets


def test_kit_commands_named_in_the_readme_exist() -> None:
    """Every `kit` command that is named answers to --help."""
    named = set(re.findall(r"(?:^|`|; )kit ([a-z]+)", (ROOT / "README.md").read_text(), flags=re.MULTILINE))
    shown = subprocess.run(
        [sys.executable, "-m", "kitlib", "--help"], capture_output=True, text=True, check=True
    ).stdout
    commands = set(re.findall(r"^│ ([a-z]+) ", shown, flags=re.MULTILINE))
    assert named and named <= commands


def test_the_readme_shows_both_commands() -> None:
    """The two commands that do everything are shown."""
    text = (ROOT / "README.md").read_text()
    assert "make lab" in text and "make test" in text


def test_what_the_readme_denies_a_cluster_of_ones_own_is_what_the_kit_denies_it() -> None:
    """The experiments that refuse a cluster of several brokers are those of the two parts that README names."""
    calls = [path for path in (ROOT / "kitlib").rglob("*.py") if "= sole_broker(" in path.read_text(encoding="utf-8")]
    assert {path.parent.relative_to(ROOT / "kitlib").as_posix() for path in calls} == {"experiments/transactions", "experiments/connect"}
    [sentence] = re.findall(r"; (.*), run for real,\s+need a\s+cluster of one broker", (ROOT / "README.md").read_text())
    assert sentence == "transactions and Connect"


@pytest.mark.slow
def test_the_readmes_notebook_is_checked_by_plain_nbval(broker: Cluster) -> None:
    """The command with nbval that README shows finds no difference, without the kit's own rules for outputs."""
    [command] = re.findall(r"^\.venv/bin/pytest (--nbval \S+\.ipynb) ", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    checked = subprocess.run(
        [sys.executable, "-m", "pytest", *command.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_the_readmes_picture_is_what_the_experiment_draws() -> None:
    """The picture is drawn from a run, not by hand."""
    drawn = runpy.run_path(str(ROOT / "scripts" / "draw_readme.py"))["draw"]()
    assert (ROOT / "docs" / "lost.svg").read_text(encoding="utf-8") == drawn

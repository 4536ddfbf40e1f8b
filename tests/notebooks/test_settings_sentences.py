"""No notebook says a default that is not the one that is read, and none says one in a way that cannot be checked."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

from kitlib.lab import notebooks
from tests.conftest import REPOSITORY
from tests.notebooks.settings_sentences import Known, faults, faults_of, read_known

ALL = [path for folder in notebooks.FOLDERS for path in sorted((REPOSITORY / folder).glob("*.ipynb"))]


@pytest.fixture(scope="module")
def known() -> Known:
    return read_known()


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_notebook_says_only_defaults_that_are_read(path: Path, known: Known) -> None:
    """Every sentence with a setting and its default has the value that the client or the broker tells."""
    assert not faults_of(path, known)


PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
TASKS = sorted((REPOSITORY / "kitlib" / "exercises").glob("*.py"))


@pytest.mark.parametrize("path", [*PAGES, *TASKS], ids=lambda path: path.name)
def test_pages_and_exercises_say_only_defaults_that_are_read(path: Path, known: Known) -> None:
    """What stands around the notebooks keeps to the same rule: pages as a whole, and the texts of exercises."""
    text = path.read_text(encoding="utf-8")
    texts = [text]
    if path.suffix == ".py":
        nodes = ast.walk(ast.parse(text))
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert [fault for each in texts for fault in faults(each, known)] == []


RIGHT = [
    "A batch waits for `linger.ms` (Java's default: 5 ms) or less.",
    "`acks` (Java's default: `all`; librdkafka's default: `-1`) decides.",
    "`retries` (librdkafka's default: 2,147,483,647) and `delivery.timeout.ms` (Java's default: 2 minutes).",
    "`buffer.memory` (Java's default: 32 MiB), `batch.size` (Java's default: 16 KiB).",
    "`session.timeout.ms` (Java's consumer's default: 45 s)",
    "`partition.assignment.strategy` (Java's default: `RangeAssignor, CooperativeStickyAssignor`)",
    "`min.insync.replicas` (the broker's default: 1), `offsets.retention.minutes` (the broker's default: 7 days)",
    "`debug` (librdkafka's default: none)",
    "`retries` (Java's default: unlimited)",
    "Leave `linger.ms` at its default and look at the table.",
    "With `linger.ms=0` and `acks=1`, which is not the default, nothing waits.",
    "Set `linger.ms` to 20, then to 0. In 5 ms nothing happens.",
    "The default is 30 s. Nobody named a setting of Kafka.",
    "```\n`linger.ms` is 7 by default\n```",
    "The kit's knob `linger_ms` has the default 4.",
    "The default *yields*: `acks=1` or `retries=0` switch it off.",
    "| setting | meaning |\n| --- | --- |\n| `linger.ms` | 5 letters |\n\nThe default is another matter.",
    "| setting | default |\n| --- | --- |\n| `linger.ms` | see above |",
]

WRONG = [
    ("`linger.ms` (Java's default: 0 ms)", "says 0 ms, read is"),
    ("`linger.ms` (Java's default: 5 s)", "says 5 s"),
    ("`linger.ms` (Java's default: 5 KiB)", "says 5 KiB"),
    ("`acks` (librdkafka's default: `1`)", "says `1`"),
    ("`acks` (Java's default: `all`; librdkafka's default: `all`)", "read is {'librdkafka'"),
    ("`enable.idempotence` (librdkafka's default: `true`)", "says `true`"),
    ("`buffer.memory` (librdkafka's default: 32 MiB)", "librdkafka has no such setting"),
    ("`linger.ms` (default: 5 ms)", "cannot be read"),
    ("`linger.ms` (5 ms by default)", "cannot be read"),
    ("`linger.ms` (Jave's default: 5 ms)", "cannot be read"),
    ("By default `linger.ms` is 5.", "say a default as"),
    ("`linger.ms` is five by default.", "say a default as"),
    ("The default of `enable.idempotence` is true.", "say a default as"),
    ("`acks` has the default `all`.", "say a default as"),
    ("`linger.ms`: how long a batch waits. Its default is 5 ms.", "say a default as"),
    ("* `linger.ms`\n* a default: `retries` gets 3", "say a default as"),
    ("| `linger.ms` | default 5 |", "say a default as"),
    ("`linger.ms` waits 5 ms unless it is set", "say a default as"),
    ("`linger.ms` defaults to 0.", "say a default as"),
    ("A batch waits for linger.ms, by default 0.", "say a default as"),
    ("`linger.ms=0` is the default.", "say a default as"),
    ("By default `acks=1`.", "say a default as"),
    ("The default of `acks` is one.", "say a default as"),
    ("| setting | default |\n| --- | --- |\n| `linger.ms` | 5 ms |", "say a default as"),
    ("`linger.ms` is 5 ms in Java.", "say whose default"),
    ("`enable.idempotence` is `true`.", "say whose default"),
]


@pytest.mark.parametrize("text", RIGHT)
def test_sentence_with_the_read_value_or_without_one_passes(text: str, known: Known) -> None:
    """Right values in the form, in any unit; and sentences that state none."""
    assert faults(text, known) == []


@pytest.mark.parametrize(("text", "fault"), WRONG)
def test_sentence_with_another_value_or_in_another_form_is_a_fault(text: str, fault: str, known: Known) -> None:
    """A wrong value is told with the read one; a value that cannot be checked is told as such."""
    assert any(fault in each for each in faults(text, known)), faults(text, known)


def test_wrong_default_planted_in_a_notebook_is_found(known: Known, tmp_path: Path) -> None:
    """In Markdown and in a comment, with the cell's number."""
    notebook = notebooks.load(ALL[-1])
    notebook.cells[0].source += "\n\nA batch waits for `linger.ms` (Java's default: 0 ms)."
    code = next(number for number, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    notebook.cells[code].source += "\n# by default `acks` is 1"
    planted = tmp_path / "planted.ipynb"
    nbformat.write(notebook, planted)
    assert [each[: each.index(":")] for each in faults_of(planted, known)] == [
        "planted.ipynb, cell 0", f"planted.ipynb, cell {code}"
    ]  # fmt: skip

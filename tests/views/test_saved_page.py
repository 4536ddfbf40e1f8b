"""A run in one HTML file: what it says of the run, and that nothing in it is markup but the kit's own."""

from __future__ import annotations

import json
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import DiskError, KnobError
from kitlib.experiments import get
from kitlib.experiments.script import Script
from kitlib.trace import Trace
from kitlib.views import Player
from kitlib.views.browser.saved_page import save, to_recording
from kitlib.views.browser.session import Session
from tests.cli.conftest import CommandLine, command_line  # noqa: F401 - a fixture
from tests.views.payloads import HOSTILE
from tests.views.traces import Spout

SMALL = "small_max_offset_behind"


class Parsed(HTMLParser):
    """A page's elements with their attributes, and what stands in its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        is_code = self.elements and self.elements[-1][0] in ("script", "style")
        (self.inside if is_code else self.text).append(data)


def hostile_trace(text: str) -> Trace:
    """A short run whose topic, run, experiment and knobs are called so."""
    spout = Spout(topic=text, trace=Trace(text, text, settings={text: text}))
    spout.append(3)
    spout.start(0)
    return spout.trace


def command_of(trace: Trace) -> str:
    """What repeats a run in a terminal."""
    return str(Session(trace).told["script"]["command"])


def data_of(page: str) -> dict[str, Any]:
    """What the page hands to its script."""
    found: dict[str, Any] = json.loads(next(text for text in Parsed(page).inside if text.startswith('{"format"')))
    return found


def test_page_holds_the_run_as_pictures_and_as_text() -> None:
    """The frames and the verdict are those of a player; experiment, seed, changed knobs and the command stand in it as text."""
    player = Player(SMALL, seed=3, max_offset_behind=7)
    page = to_recording(player.trace)
    data, text = data_of(page), " ".join(Parsed(page).text)
    assert data["frames"] == json.loads(Session(player.trace).frames)
    assert data["told"]["verdict"]["sentence"] == player.verdict.sums
    assert data["heading"]["knobs"] == [], "there is no kernel to turn them"
    command = "kit run small_max_offset_behind --seed 3 --max-offset-behind=7"
    for told in (command, str(Script.of(player.trace)), "7 (default: 5)", player.verdict.sentence):
        assert told in text


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:30])
def test_hostile_names_in_a_saved_run_are_only_text(text: str) -> None:
    """Whatever a topic, a run or a knob is called, the page has the elements of the kit, two scripts and a style, and no other."""
    page, plain = to_recording(hostile_trace(text)), to_recording(hostile_trace("orders"))
    assert Parsed(page).elements == Parsed(plain).elements
    assert [tag for tag, _ in Parsed(page).elements].count("script") == 2
    assert not any(name.startswith("on") for _, attributes in Parsed(page).elements for name in attributes)
    assert len(data_of(page)["frames"]["said"]) == 2
    page.encode()


@pytest.mark.parametrize(
    ("name", "knobs"),
    [(SMALL, {}), ("poison_record", {"records": 30, "max_offset_behind": 2**63 - 1}), ("static_member", {"what": "gone for good"}),
     ("out_of_range", {"force_from_start": True}), (SMALL, {"script": f"{SMALL} seed=4\nlose record 7\ndouble record 9"})],
)  # fmt: skip
def test_the_command_of_a_page_repeats_its_run(command_line: CommandLine, tmp_path: Path, name: str, knobs: dict[str, Any]) -> None:  # noqa: F811
    """What stands in the page, typed into a terminal, gives the same trace."""
    trace = get(name).run(seed=4, **knobs)
    words = shlex.split(command_of(trace))
    assert words[:3] == ["kit", "run", name]
    assert command_line(*words[1:], "--trace", str(tmp_path / "again"))[0] == 0
    with (tmp_path / "again").open() as lines:
        assert Trace.from_json_lines(lines) == trace


def test_a_fork_and_a_strangers_run_have_no_command() -> None:
    """What cannot be repeated by one command says so, and still can be played."""
    fork = get(SMALL).fork(get(SMALL).run(), 100, max_offset_behind=9)
    for trace, words in ((fork, "steps 0 to 100 are its own"), (hostile_trace("orders"), "It can be played, but not changed.")):
        assert command_of(trace) == ""
        assert words in " ".join(Parsed(to_recording(trace)).text)


def test_save_writes_one_file_and_replaces_none_unless_asked(tmp_path: Path) -> None:
    """A player's run becomes one file; a file that is there stays unless `overwrite` says otherwise."""
    player, path = Player(SMALL), tmp_path / "lost records.html"
    assert player.save(str(path)) == path
    first = path.read_text(encoding="utf-8")
    assert first == to_recording(player.trace)
    with pytest.raises(DiskError, match=r"Player\.save: .*lost records\.html is there already\. .* overwrite=True\."):
        Player(SMALL, seed=2).save(path)
    assert path.read_text(encoding="utf-8") == first
    Player(SMALL, seed=2).save(path, overwrite=True, open_at=17)
    assert data_of(path.read_text(encoding="utf-8"))["told"]["at"] == 17
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_save_refuses_what_cannot_be_a_page(tmp_path: Path) -> None:
    """A name that no browser would open, a folder that is not there and a step that the run does not have are told in a sentence."""
    trace = get(SMALL).run()
    (tmp_path / "folder.html").mkdir()
    cases: list[tuple[str, dict[str, Any], type[Exception], str]] = [
        ("run.txt", {}, KnobError, "Let it end in .html"),
        ("folder.html", {}, DiskError, "is a folder"),
        ("none/run.html", {}, DiskError, "there is no folder"),
        ("run.html", {"open_at": 10**6}, KnobError, "open_at is 1000000"),
        ("run.html", {"part": "lanes"}, KnobError, "no part 'lanes'"),
    ]
    for name, options, kind, words in cases:
        with pytest.raises(kind, match=words):
            save(trace, tmp_path / name, **options)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.html"]

"""The site of `kit page` as files: what is in it, where it may be built, and what its worker answers."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import DiskError
from kitlib.experiments import every, get, names
from kitlib.views.browser import site
from kitlib.views.browser.played import packed
from kitlib.views.browser.session import Session
from kitlib.views.browser.worker_desk import Desk
from tests.cli.conftest import CommandLine, command_line  # noqa: F401 - a fixture
from tests.views.test_saved_page import Parsed

SMALL = "small_max_offset_behind"


def test_the_index_lists_every_experiment_once(built_site: site.Site) -> None:
    """Each experiment stands under one mechanism, with its question and its knobs to search for."""
    page = (built_site.folder / "index.html").read_text(encoding="utf-8")
    catalog = json.loads(next(text for text in Parsed(page).inside if text.startswith('{"bytes"')))
    listed = [row for group in catalog["groups"] for row in group["experiments"]]
    assert sorted(row["name"] for row in listed) == sorted(names()) and built_site.experiments == len(names())
    assert {group["title"] for group in catalog["groups"]} == set(site.MECHANISMS.values())
    for row in listed:
        experiment = get(row["name"])
        told = (experiment.title, experiment.question, [knob.name for knob in experiment.knobs])
        assert (row["title"], row["question"], row["knobs"]) == told


def test_each_recording_is_the_experiments_default_run(built_site: site.Site) -> None:
    """What is shown before Python is there is what Python would show."""
    assert {path.stem for path in (built_site.folder / "runs").iterdir()} == set(names())
    for name in (SMALL, "tuple_tree", "answers_lost", "zombie"):
        session = Session(name)
        head, frames = gzip.decompress((built_site.folder / "runs" / f"{name}.run").read_bytes()).split(b"\n", 1)
        assert json.loads(head) == json.loads(json.dumps({"heading": session.heading, "told": session.told}))
        assert frames == session.frames


def test_the_pictures_of_each_experiment_are_sent_in_less_than_500_kb(built_site: site.Site) -> None:
    """What a page hears of a default run, packed as it is sent: a recording holds that and what is told beside it."""
    sizes = {path.stem: path.stat().st_size for path in (built_site.folder / "runs").iterdir()}
    assert len(sizes) == len(names()) and [name for name, size in sizes.items() if size >= 500_000] == []
    assert max(sizes, key=lambda name: sizes[name]) == "livelock"
    frames = Session("livelock").frames
    assert len(packed(frames)) < 500_000 and gzip.decompress(packed(frames)) == frames


def test_two_builds_are_the_same_bytes(built_site: site.Site, tmp_path: Path) -> None:
    """A parcel and a recording depend on their content alone, not on when they were made."""
    assert site.to_parcel() == (built_site.folder / "kit.zip").read_bytes()
    session = Session("happy_path")
    assert site.to_recorded_run(session) == (built_site.folder / "runs" / "happy_path.run").read_bytes()


def test_the_parcel_runs_every_experiment_without_anything_else(tmp_path: Path) -> None:
    """With the parcel as the only kitlib and no installed package, the desk opens, turns and forks each experiment."""
    with zipfile.ZipFile(io.BytesIO(site.to_parcel())) as parcel:
        parcel.extractall(tmp_path)
    code = f"""if True:
        import json, sys
        sys.path.insert(0, {str(tmp_path)!r})
        from kitlib.experiments import get, names
        from kitlib.views.browser.worker_desk import Desk
        desk, told = Desk(), {{}}
        for name in names():
            opened = json.loads(desk.answer(json.dumps({{"do": "open", "name": name, "seed": "1", "knobs": {{"max_steps": "40"}}}})))
            told[name] = opened["told"]["verdict"]["sentence"]
            turn = {{"number": 1, "do": "run", "seed": "2", "knobs": {{"max_steps": "30"}}, "shown": 2}}
            assert json.loads(desk.answer(json.dumps(turn)))["told"]["error"] == "" and desk.frames, name
        print(json.dumps(told))
    """
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
    assert json.loads(answer.stdout) == {each.name: Session(each, knobs={"max_steps": 40}).verdict.sums for each in every()}


def test_a_site_is_not_built_over_other_files(tmp_path: Path) -> None:
    """A folder with other files and a file are refused and stay as they are."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    with pytest.raises(DiskError, match="holds other files than a site of `kit page`"):
        site.build(mine)
    with pytest.raises(DiskError, match="is a file"):
        site.build(mine / "thesis.txt")
    assert [entry.name for entry in mine.iterdir()] == ["thesis.txt"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def answered(desk: Desk, **asked: Any) -> dict[str, Any]:
    """What the page's worker is told."""
    found: dict[str, Any] = json.loads(desk.answer(json.dumps(asked)))
    return found


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "poison_recrod", "seed": "1", "knobs": {}}, "Did you mean 'poison_record'?"),
    ({"name": SMALL, "seed": "1", "knobs": {"records": "-3"}}, "records is '-3', expected"),
    ({"name": SMALL, "seed": "1", "knobs": {"<b>": "1"}}, "has no knob '<b>'"),
    ({"name": SMALL, "seed": "x", "knobs": {}}, "seed is 'x', expected a whole number"),
    ({"name": SMALL, "seed": "1", "knobs": 3}, "The kit itself failed (TypeError), which is a bug."),
]


@pytest.mark.parametrize(("asked", "words"), REFUSED, ids=lambda value: str(value)[:50])
def test_a_bad_link_is_refused_with_a_sentence(asked: dict[str, Any], words: str) -> None:
    """A hand-edited address gets the KitError's sentence, and the experiment that was open stays."""
    desk = Desk()
    answered(desk, do="open", name="happy_path", seed="1", knobs={})
    before = desk.frames
    assert words in answered(desk, do="open", **asked)["refused"]
    assert desk.frames == before


def test_the_desk_answers_as_a_player_does() -> None:
    """Of a long run the step that is shown comes first, the others when they are asked for; a bug is told, not raised."""
    desk = Desk()
    assert answered(desk, do="open", name=SMALL, seed="3", knobs={"records": "50"})["told"]["values"]["records"] == "50"
    question = {"number": 1, "do": "run", "knobs": {"records": "60"}, "seed": "3"}
    first = answered(desk, **question, shown=5)["told"]
    assert (first["number"], first["isWhole"]) == (1, False)
    session = Session(SMALL, seed=3, knobs={"records": 50})
    session.answer(question)
    assert answered(desk, do="complete")["told"]["isWhole"] and desk.frames == session.frames
    assert "KeyError" in answered(desk, number=2, do="run")["told"]["error"]


def test_the_desk_opens_a_script_as_a_player_does() -> None:
    """What a link's script does to a run is done to it; a script that does not fit is refused with its line."""
    text, desk = "answers_lost seed=3 records=20\nlose answer 2", Desk()
    told = answered(desk, do="open", name="answers_lost", script=text)["told"]
    assert told["script"]["done"] == ["lose answer 2"] and desk.frames == Session(text).frames
    refused = answered(desk, do="open", name="x", script="answers_lost\nlose everything")["refused"]
    assert refused.startswith("script, line 2: ")


def test_kit_page_replaces_an_older_site_and_says_what_it_has_built(
    command_line: CommandLine, built_site: site.Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """One line: how many experiments, where, how large; nothing of the older site stays. A bad port is refused at once."""
    built: list[site.Site] = []
    build = site.build
    monkeypatch.setattr(site, "every", lambda: list(every())[:3])
    monkeypatch.setattr(site, "build", lambda *asked: built.append(build(*asked)) or built[-1])
    (tmp_path / "page").mkdir()
    for name in (site.MARK, "stale.js"):
        (tmp_path / "page" / name).write_text("old")
    code, out, _ = command_line("page", "--out", str(tmp_path / "page"))
    assert code == 0
    assert {entry.name for entry in (tmp_path / "page").iterdir()} == {entry.name for entry in built_site.folder.iterdir()}
    assert [entry.name for entry in tmp_path.iterdir()] == ["page"]
    assert built[0].size == sum(path.stat().st_size for path in (tmp_path / "page").rglob("*") if path.is_file())
    assert out == (
        f"3 experiments in {tmp_path / 'page'}: {built[0].size / 1e6:.1f} MB, "
        f"of which a browser loads at most {built[0].sent / 1e6:.1f} MB.\n"
    )
    assert command_line("page", "--out", str(tmp_path / "other"), "--port", "70000")[0] == 2
    assert not (tmp_path / "other").exists()

"""`kit run`: an experiment from the terminal, as text and as JSON, with its trace in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kitlib import experiments
from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.monitor.delivery import judge
from kitlib.monitor.verdict import ANOMALIES, PRODUCER_ANOMALIES, TRANSACTION_ANOMALIES
from kitlib.trace import Trace
from kitlib.views.browser.saved_page import to_recording
from tests.cli.conftest import CommandLine


@pytest.fixture
def kit(command_line: CommandLine) -> CommandLine:
    """Runs `kit run` in this process: exit code, stdout, stderr."""
    return partial(command_line, "run")


def test_a_knob_that_there_is_not_names_the_nearest(kit: Callable[..., Any]) -> None:
    """However it is written; and in a notebook too."""
    for words in (["recrods=4"], ["--recrods", "4"], ["--seed", "2", "recrods=4"]):
        code, _, err = kit("restart", *words)
        assert code == 2 and "No such option: --recrods" in err and "--records" in err
    with pytest.raises(KnobError, match=r"restart has no knob 'recrods'\. Did you mean records\?"):
        experiments.run("restart", recrods=4)


@pytest.mark.parametrize("name", experiments.names())
def test_run_prints_question_trace_and_sentence_or_one_line_of_json(kit: Callable[..., Any], name: str) -> None:
    """An experiment on the model prints its title, its question, its trace's words, its verdict and its figure.

    --json prints one object with run, knobs, seed, verdict and figure, and nothing else.
    """
    trace, figure = get(name).run(seed=3), get(name).figure
    assert figure
    verdict = judge(trace)
    measured = figure.measure(trace, verdict)
    code, out, err = kit(name, "--seed", "3")
    assert (code, err) == (0, "")
    assert out == f"{get(name).title}\n{get(name).question}\n\n{trace!r}\n{verdict}\n{measured.sentence}.\n"
    code, out, err = kit(name, "--json", "--seed", "3")
    told = json.loads(out)
    assert (code, err, len(out.splitlines())) == (0, "", 1)
    assert (told["experiment"], told["backend"], told["seed"]) == (name, "model", 3)
    assert set(told["knobs"]) == {knob.name for knob in get(name).knobs}
    kinds = tuple(told["verdict"]["counts"])  # none where the verdict is about no records
    assert kinds in ((), ANOMALIES, PRODUCER_ANOMALIES, TRANSACTION_ANOMALIES)
    assert kinds or "record was" not in told["verdict"]["sentence"]
    assert told["verdict"] == json.loads(json.dumps(verdict.to_json())) and told["figure"] == measured.to_json()


def test_run_that_is_cut_is_printed_as_such(kit: Callable[..., Any]) -> None:
    """Of 5,000 records some are processed when the run is cut; the sentence says so, and so does the JSON."""
    out = " ".join(kit("small_max_offset_behind", "--records", "5000")[1].split())
    assert "The run was cut at max_steps=2000, so the rest of its story is missing; 551 of 5000 records were processed: " in out
    assert "; 4332 unfinished. lost: explained by max_offset_behind=5: " in out
    told = json.loads(kit("small_max_offset_behind", "--records", "5000", "--json")[1])
    assert (told["steps"], told["verdict"]["cut_at"]) == (2_000, 2_000)


def test_run_knobs_are_checked_as_everywhere(kit: Callable[..., Any]) -> None:
    """Each option is a knob: words, exponents and truths are read, and the values are those of the trace."""
    told = json.loads(kit("out_of_range", "--json", "--records", "1e2", "--force-from-start", "yes", "--max-offset-behind", "unlimited")[1])
    assert (told["knobs"]["records"], told["knobs"]["force_from_start"]) == (100, True)
    assert told["knobs"]["max_offset_behind"] == 2**63 - 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["happy_path", "--records", "0"], "records is '0', expected 1 to 5,000 records"),
        (["happy_path", "--records", "-1"], "records is '-1'"), (["happy_path", "--records", "1e9"], "records is '1e9'"),
        (["happy_path", "--records", "NaN"], "records is 'NaN'"), (["happy_path", "--records", ""], "records is ''"),
        (["happy_path", "--records", "1" + "0" * 30], "records is '1000"),
        (["happy_path", "--max-offset-behind", "-1"], "expected 0 to unlimited offsets"),
        (["restart", "--same-topology-id", "maybe"], "expected true or false"),
        (["restart", "--start-offset-time", "never"], "expected one of earliest, latest"),
        (["happy_path", "--seed", "-1"], "seed is '-1'"), (["happy_path", "--backend", "storm"], "expected one of model, kafka"),
    ],
)  # fmt: skip
def test_run_bad_value_ends_with_2_and_one_line(kit: Callable[..., Any], arguments: list[str], words: str) -> None:
    """A bad value ends with 2 and one line that names knob, value and range; nothing is printed on stdout."""
    code, out, err = kit(*arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1) and err.startswith("kit: ") and words in err


def test_run_trace_file_holds_the_trace(kit: Callable[..., Any], tmp_path: Path) -> None:
    """--trace keeps the steps as JSON lines that are read back equal."""
    path = tmp_path / "happy path.jsonl"
    assert kit("happy_path", "--seed", "9", "--trace", str(path))[0] == 0
    with path.open() as lines:
        assert Trace.from_json_lines(lines, path.name) == get("happy_path").run(seed=9)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_run_html_keeps_the_run_as_a_page(kit: Callable[..., Any], tmp_path: Path) -> None:
    """--html writes the page of the run, as `save` does; a name that is no page's ends with 2 and leaves nothing."""
    path = tmp_path / "happy path.html"
    for seed in (1, 9):  # as with --trace, what is there is replaced
        assert kit("happy_path", "--seed", str(seed), "--html", str(path))[0] == 0
        assert path.read_text(encoding="utf-8") == to_recording(get("happy_path").run(seed=seed))
    code, _, err = kit("happy_path", "--html", str(tmp_path / "page"))
    assert (code, err) == (2, "kit: --html: 'page' is no name of a page. Let it end in .html.\n")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.kafka
def test_run_on_kafka_says_where_the_trace_is(kit: Callable[..., Any], broker: Any) -> None:
    """On the real broker the verdict is the model's, and the last line names the trace's topic."""
    code, out, err = kit("several_tuples", "--backend", "kafka")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[-5:-1] == [*str(judge(get("several_tuples").run())).splitlines(), "2 records processed again."]
    assert lines[-1].startswith("The trace is in topic kit.trace.several-tuples-")
    told = json.loads(kit("several_tuples", "--backend", "kafka", "--json")[1])
    assert told["backend"] == "kafka" and told["verdict"]["counts"]["duplicated"] == 2


def test_run_script_runs_what_the_file_says(kit: Callable[..., Any], tmp_path: Path) -> None:
    """A script that --print-script wrote runs to the run that it was written for, and --json names what was done to it."""
    options = ("answers_lost", "--lost-answers", "0", "--idempotence", "no", "--seed", "3", "--do", "lose answer 4")
    code, out, err = kit(*options, "--print-script")
    assert (code, err) == (0, "")
    assert out == "# kit script 1\nanswers_lost seed=3 lost_answers=0 idempotence=false\nlose answer 4\n"
    file = tmp_path / "loss.txt"
    file.write_text(out, encoding="utf-8")
    assert kit("--script", str(file)) == kit(*options)
    assert kit("--script", str(file), "--print-script") == (0, out, "")
    assert json.loads(kit("--script", str(file), "--json")[1])["script"] == ["lose answer 4"]


def test_run_bad_script_ends_with_2_and_a_sentence(kit: Callable[..., Any], tmp_path: Path) -> None:
    """A script that cannot be read, an intervention that does not fit and options that belong elsewhere end with one sentence."""
    file = tmp_path / "loss.txt"
    file.write_bytes(b"\xff\xfe")
    said = {
        ("--script", str(tmp_path / "none")): "cannot be read: No such file",
        ("--script", str(file)): "it is not UTF-8 text",
        ("answers_lost", "--do", "lose answr 4"): 'does not take "lose answr 4". It takes: lose request N',
        ("answers_lost", "--do", "lose answer 999"): "never happened: the last answer of this run is number",
        ("compacted_topic", "--do", "lose answer 4"): "compacted_topic takes no interventions",
        ("--json", "answers_lost"): "options before answers_lost are those of a script",
    }
    for arguments, sentence in said.items():
        code, out, err = kit(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err

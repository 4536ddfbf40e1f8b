"""The net under a rebuild: what every experiment does on the model, kept, and compared after each step.

    python -m tests.net record DIR     # every case below, into DIR/<experiment>.jsonl.gz
    python -m tests.net compare DIR    # run them again; the first difference of each kind, and exit code 1
    python -m tests.net small          # write tests/net_small.json, which tests/test_net.py compares with

A case is one run: an experiment's defaults, three other settings of each live knob, and a fork in the
middle. Of each are kept the trace as JSON lines, the verdict, every step's sentence, and the SVG text of
each part of its picture, after the last step and (the whole picture) after the middle one.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from kitlib.errors import KitError
from kitlib.experiments import get, names
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.knobs import Knob
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views import show
from kitlib.views.browser.controls import stops_of
from kitlib.views.frames import to_frames
from kitlib.views.picture import PARTS
from kitlib.views.scene import kind_of

SMALL = Path(__file__).parent / "net_small.json"
SETTINGS = 3  # other settings of each live knob


def cases(experiment: Experiment) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each run's name and knobs: the defaults, then settings spread over each live knob's stops."""
    yield "defaults", {}
    for knob in experiment.knobs:
        if knob.live:
            for value in others(knob):
                yield f"{knob.name}={value}", {knob.name: value}


def others(knob: Knob) -> list[Any]:
    """At most three settings besides the default: near the lowest, the middle and the highest stop."""
    stops = [value for value in stops_of(knob, knob.default) if value != knob.default] or [not knob.default]
    return list(dict.fromkeys(stops[place * (len(stops) - 1) // (SETTINGS - 1)] for place in range(SETTINGS)))


def kept(trace: Trace) -> dict[str, Any]:
    """What is compared of one run, by kind."""
    verdict = judge(trace)
    frames = to_frames(trace)
    kind = kind_of(trace)
    parts = PARTS if kind is None else tuple(kind.PARTS)
    svg = {}
    for part in parts:
        try:
            svg[part] = show(trace, part=part).svg
        except KitError as error:
            svg[part] = f"refused: {error}"
    svg["middle"] = show(trace, len(trace) // 2).svg
    told = {kind: [verdict.first(kind).witness, verdict.first(kind).reason] for kind in verdict.counts}
    return {
        "run": {"run": trace.run, "knobs": dict(trace.settings), "parent": trace.parent},
        "trace": [step.to_json() for step in trace],
        "verdict": [verdict.sentence, verdict.counts, list(verdict.violations), told],
        "sentences": list(frames.said),
        "svg": svg,
    }


def runs(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every case of an experiment with what is kept of it; a refusal or a crash is kept as its words."""
    experiment = get(name)
    for case, knobs in cases(experiment):
        try:
            trace = experiment.run(**knobs)
            yield case, kept(trace)
            if case == "defaults" and any(knob.live for knob in experiment.knobs):
                yield "fork", kept(experiment.fork(trace, len(trace) // 2))
        except KitError as error:
            yield case, {"refused": str(error)}


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def small(name: str) -> dict[str, dict[str, str]]:
    """Digests of an experiment's run with its defaults and of its fork."""
    found = {}
    for case, values in runs(name):
        if case not in ("defaults", "fork"):
            break
        found[case] = {kind: digest(value) for kind, value in values.items()}
    return found


def record(name: str, folder: str) -> int:
    count = 0
    with gzip.open(Path(folder) / f"{name}.jsonl.gz", "wt", compresslevel=3) as file:
        for case, values in runs(name):
            file.write(json.dumps([case, values]) + "\n")
            count += 1
    return count


def compare(name: str, folder: str) -> tuple[int, list[str]]:
    """How many cases were compared, and a sentence for each case and kind that differs."""
    path, found, count = Path(folder) / f"{name}.jsonl.gz", [], 0
    if not path.exists():
        return 0, [f"{name}: is new"]
    with gzip.open(path, "rt") as file:
        before = dict(map(json.loads, file))
    for case, values in runs(name):
        count += 1
        values = json.loads(json.dumps(values))
        was = before.pop(case, None)
        if was is None:
            found.append(f"{name}: {case} is new")
            continue
        found += [f"{name}: {case}: {where}" for where in differences(was, values)]
    return count, found + [f"{name}: {case} is gone" for case in before]


def differences(was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """The kinds that differ, each with the first difference of its JSON."""
    for kind in was.keys() | now.keys():
        a, b = (json.dumps(each.get(kind)) for each in (was, now))
        if a != b:
            place = next((at for at, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), 0)
            begin = max(0, place - 60)
            yield f"{kind}:\n    was {a[begin : begin + 160]}\n    now {b[begin : begin + 160]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.net", description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("record", "compare", "small"))
    parser.add_argument("folder", nargs="?", default="build/net")
    parser.add_argument("--only", nargs="*", help="these experiments alone")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shown", type=int, default=40, help="how many differences are printed")
    given = parser.parse_args()
    chosen = given.only or names()
    folder = [given.folder] * len(chosen)
    Path(given.folder).mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(given.processes) as pool:
        if given.what == "small":
            SMALL.write_text(json.dumps(dict(zip(chosen, pool.map(small, chosen), strict=True)), indent=1) + "\n")
            return 0
        if given.what == "record":
            print(f"{sum(pool.map(record, chosen, folder)):,} cases are in {given.folder}")
            return 0
        results = list(pool.map(compare, chosen, folder))
    found = [sentence for _, sentences in results for sentence in sentences]
    print("\n".join(found[: given.shown]))
    print(f"{sum(count for count, _ in results):,} cases compared, {len(found):,} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a topology may look like, and what a learner hears who declares another one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kitlib.more.topology import (
    BasicBolt,
    Bolt,
    Fault,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyConfig,
    TopologyError,
    TopologyRun,
)
from tests.more.topology.parts import Numbers, Pass, Store, by_chance, chain


def declared(change: Callable[[TopologyBuilder], object], spout: Any = Numbers) -> Topology:
    """A good topology, changed by `change` before it is created."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("pass", Pass).shuffle_grouping("spout")
    change(builder)
    return builder.create_topology()


class NeedsArguments(Store):
    def __init__(self, table: str) -> None:
        self.table = table


class NoNextTuple(Spout):
    output_fields = ("n",)


class NoExecute(Bolt):
    pass


class NoProcess(BasicBolt):
    pass


class Yields(Numbers):
    def next_tuple(self) -> Any:
        yield 1


class Async(Store):
    async def process(self, given: Any, collector: Any) -> None:
        pass


def with_fields(fields: Any) -> type[Spout]:
    return type("Told", (Numbers,), {"output_fields": fields})


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no spout": (lambda: TopologyBuilder().create_topology(), "no spout.*Add one with set_spout"),
    "an unknown component": (
        lambda: declared(lambda b: b.set_bolt("x", Store).shuffle_grouping("nobody")),
        "bolt 'x' subscribes to 'nobody', which the topology has not. Its components are spout, pass, x",
    ),
    "a component that sends nothing": (
        lambda: declared(lambda b: (b.set_bolt("x", Store).shuffle_grouping("spout"), b.set_bolt("y", Store).shuffle_grouping("x"))),
        "bolt 'y' subscribes to 'x', which sends nothing. Set its output_fields",
    ),
    "an unknown field": (
        lambda: declared(lambda b: b.set_bolt("x", Store).fields_grouping("spout", ["n", "word"])),
        "bolt 'x' groups 'spout' by the field 'word', which it has not. Its fields are n",
    ),
    "a fields grouping without a field": (
        lambda: declared(lambda b: b.set_bolt("x", Store).fields_grouping("spout", [])),
        r"fields \[\], expected a list of names",
    ),
    "a bolt that nobody feeds": (lambda: declared(lambda b: b.set_bolt("x", Store)), "nothing feeds bolt 'x'. Subscribe it"),
    "the same component twice": (
        lambda: declared(lambda b: b.set_bolt("x", Store).shuffle_grouping("spout").fields_grouping("spout", "n")),
        "bolt 'x' subscribes twice to 'spout'.* leave one",
    ),
    "a name twice": (lambda: declared(lambda b: b.set_spout("pass", Numbers)), "two components with the name 'pass'"),
    "a name of Storm's own": (lambda: declared(lambda b: b.set_spout("__acker", Numbers)), "does not begin with '__'"),
    "a name that is no text": (lambda: declared(lambda b: b.set_spout(7, Numbers)), "name is 7, expected a text"),
    "an object instead of a class": (
        lambda: declared(lambda b: b.set_bolt("x", Store())),
        "x: making a Bolt raised TypeError: 'Store' object is not callable.* give a class",
    ),
    "a spout as a bolt": (lambda: declared(lambda b: b.set_bolt("x", Numbers)), "x: Numbers makes .*, expected a Bolt. Subclass .*Bolt"),
    "a bolt as a spout": (lambda: declared(lambda b: None, Store), "spout: Store makes .*, expected a Spout"),
    "a function that makes nothing": (
        lambda: declared(lambda b: b.set_bolt("x", lambda: None)),
        "x: <lambda> makes None, expected a Bolt",
    ),
    "a class that needs arguments": (
        lambda: declared(lambda b: b.set_bolt("x", NeedsArguments)),
        r"x: making a Bolt raised TypeError: .*'table'.* lambda: NeedsArguments\(...\)",
    ),
    "no tasks": (lambda: declared(lambda b: b.set_bolt("x", Store, 0)), "x: parallelism is 0, expected 1 to 1,000 tasks"),
    "a spout without next_tuple": (lambda: declared(lambda b: None, NoNextTuple), "abstract class NoNextTuple with.* next_tuple"),
    "a bolt without execute": (
        lambda: declared(lambda b: b.set_bolt("x", NoExecute)),
        "x: .*abstract class NoExecute with.* execute",
    ),
    "a BasicBolt without process": (
        lambda: declared(lambda b: b.set_bolt("x", lambda: NoProcess())),
        "x: .*abstract class NoProcess with.* process",
    ),
    "a next_tuple that yields": (
        lambda: declared(lambda b: None, Yields),
        "Yields.next_tuple has a yield or is async.* send with self.collector.emit",
    ),
    "a process that is async": (lambda: declared(lambda b: b.set_bolt("x", Async)), "Async.process has a yield or is async"),
    "output fields that are one text": (
        lambda: declared(lambda b: None, with_fields("word")),
        r"spout: output_fields are 'word', expected a tuple of different names, such as \('word',\)",
    ),
    "a field twice": (
        lambda: declared(lambda b: None, with_fields(("n", "n"))),
        r"output_fields are \('n', 'n'\), expected a tuple of different names",
    ),
}


@pytest.mark.parametrize(("declare", "says"), WRONG.values(), ids=WRONG)
def test_create_topology_of_what_cannot_run_says_what_is_wrong(declare: Callable[[], object], says: str) -> None:
    """Each mistake is told of before anything runs: who, what was found, and what to do."""
    with pytest.raises(TopologyError, match=says):
        declare()


def run_of(faults: Any = (), chance: Any = by_chance, **config: Any) -> TopologyRun:
    return TopologyRun(
        chain(Numbers, Pass, Store), TopologyConfig(**config), rng=Random(1), chance=chance, faults=faults
    )


SETTINGS: dict[str, tuple[Callable[[], object], str]] = {
    "fewer than no ackers": (lambda: run_of(topology_ackers=-1), "topology_ackers is -1, expected a whole number from 0 to"),
    "half a second": (lambda: run_of(topology_message_timeout_secs=0.5), "topology_message_timeout_secs is 0.5, expected"),
    "no tuple may be pending": (
        lambda: run_of(topology_max_spout_pending=0),
        "topology_max_spout_pending is 0, expected a whole number from 1 to 2,147,483,647",
    ),
    "65 bits": (lambda: run_of(id_bits=65), "id_bits is 65, expected a whole number from 1 to 64"),
    "an unknown release": (lambda: run_of(acker_release="1.0"), "acker_release is '1.0', expected '0.9.3' or '2.4.0'"),
    "an unknown way with errors": (lambda: run_of(errors="ignore"), "errors is 'ignore', expected 'raise' or 'crash'"),
    "jitter without chance": (lambda: run_of(chance=None, transfer_jitter_ms=3), "transfer_jitter_ms needs a run with chance"),
    "a builder instead of a topology": (
        lambda: TopologyRun(TopologyBuilder(), rng=Random(1)),
        r"topology is .*, expected what create_topology\(\) .*gives",
    ),
    "one fault without a list": (lambda: run_of(Fault("fail", "a")), r"faults is Fault\(.*, expected a list of Faults"),
    "a fault of an unknown kind": (lambda: run_of([Fault("explode", "a")]), "kind is 'explode', expected one of fail, hang"),
    "a fault of an unknown component": (
        lambda: run_of([Fault("fail", "nobody")]),
        "fault fail of nobody: component is 'nobody', expected one of a, b",
    ),
    "a bolt's fault on a spout": (lambda: run_of([Fault("drop", "spout")]), "component is 'spout', expected one of a, b"),
    "a percentage above 100": (lambda: run_of([Fault("fail", "a", percent=101)]), "percent is 101, expected a number from 0"),
    "a percentage without chance": (lambda: run_of([Fault("fail", "a", percent=1)], None), "expected 0, unless the run is given chance"),
    "a number for nth": (lambda: run_of([Fault("fail", "a", nth=3)]), "nth is 3, expected a list of whole numbers"),
    "a hang of less than no time": (lambda: run_of([Fault("hang", "a", ms=-1)]), "ms is -1, expected a whole number"),
    "a crash at no time": (lambda: run_of([Fault("crash", "a")]), "at_ms is None, expected a time from 0 ms on"),
    "a crash of a task that is not there": (
        lambda: run_of([Fault("crash", "a", at_ms=1, task_index=1)]),
        "task_index is 1, expected the number of one of its 1 tasks",
    ),
    "a crash of an acker where none is": (
        lambda: run_of([Fault("crash", "__acker", at_ms=1)], topology_ackers=0),
        "fault crash of __acker: task_index is 0, expected the number of one of its 0 tasks",
    ),
}


@pytest.mark.parametrize(("begin", "says"), SETTINGS.values(), ids=SETTINGS)
def test_run_with_a_setting_out_of_range_says_which(begin: Callable[[], object], says: str) -> None:
    """A setting or a fault that cannot be is told of before the first tuple, with what may be."""
    with pytest.raises(TopologyError, match=says):
        begin()


def test_config_changed_to_a_bad_value_while_it_runs_is_told_of() -> None:
    """What a slider sets while the run goes on is checked as at the start."""
    run = run_of()
    run.run_for(10)
    run.config.topology_message_timeout_secs = -1
    with pytest.raises(TopologyError, match="topology_message_timeout_secs is -1"):
        run.run_for(10)

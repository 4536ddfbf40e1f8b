"""A soak: experiments drawn by chance run on the model and on the real broker, hour after hour, while the broker is killed.

    for round in soak(minutes=60, seed=1):
        print(round.sentence)

Each round draws an experiment, some of its knobs and a seed, runs it on both, and compares the verdicts. After every third
round the broker is ended in one of three ways, and the records that it acknowledged before are counted again. What a round
has made on the broker is deleted. The same seed draws the same rounds, whatever the time.

Not drawn: experiments that have nothing real to run on. A draw whose knobs one of the two sides refuses is told as such.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kitlib import experiments
from kitlib.errors import KnobError, LabError, LateError
from kitlib.experiments import kafka_backend
from kitlib.experiments.find import Search
from kitlib.experiments.grid import Grid
from kitlib.experiments.script import Script
from kitlib.lab import created_resources, kafka_server
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.log_ends import LogEnds
from kitlib.lab.processes import wait_until, with_children
from kitlib.monitor.delivery import Verdict, judge

log = logging.getLogger(__name__)

EVERY = 3  # rounds between two faults
FAULTS = ("clean", "kill", "freeze")
FROZEN_S, LEADER_S, CLEARED_S = 5.0, 60.0, 60.0
WRITTEN = 200  # records that are acknowledged before each fault
MOST_STEPS = 3_000  # a draw whose run on the model is longer would take minutes on the broker
RACING = ("groups", "share")  # real members work in real time: how often something happens may differ, what happens may not
NEAR = "Real time is never exact: look whether this run is near one of its time limits, and if it is not, why."
BY_THE_CLOCK = "send_path"  # what a real client gets done before its process ends is the machine's affair
NAME = "soak"  # under which what a round makes is remembered, and taken back


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the kit held at one time: this process and everything that it and the broker's supervisor have started."""

    memory_mb: float
    files: int
    processes: int

    @classmethod
    def now(cls, cluster: Cluster) -> Footprint:
        memory = files = count = 0
        for process in with_children([psutil.Process(), *map(psutil.Process, filter(psutil.pid_exists, cluster.pids))]):
            try:
                memory += process.memory_info().rss
                files += process.num_fds()
                count += 1
            except psutil.Error:  # it has just ended
                continue
        return cls(round(memory / 1e6, 1), files, count)


@dataclass(frozen=True, slots=True)
class Round:
    """One round: what was run, how it ended, and what the kit held afterwards."""

    number: int
    script: str  # on one line, as `kit run` takes it
    # "agrees" in every count; "races": real processes race a real clock, so not as many anomalies, but none that nothing explains
    # (of members and clients; of others once, and the second run on the broker agrees); "unalike": twice real members did what no
    # member of the model does, or the other way round, as they do where a time limit is near;
    # "differs"; "late": twice something never happened that the story waits for; "refused" by one side; "failed": there is no
    # broker any more, or the experiment has a bug. After a fault: "recovered" or "lost".
    outcome: str
    sentence: str
    seconds: float
    footprint: Footprint

    @property
    def is_bad(self) -> bool:
        return self.outcome in ("differs", "late", "failed", "lost")


def soak(minutes: float, seed: int = 1, only: tuple[str, ...] = ()) -> Iterator[Round]:
    """Rounds until `minutes` have passed; `only` names the experiments to draw from. The last round is always finished.

    KnobError for a name that is no experiment, or one without a real broker to run on. LabError when no broker can be had,
    or when it is not the kit's own, because it is killed.
    """
    drawn_from = [experiments.get(name) for name in only or experiments.names()]
    for experiment in drawn_from:
        if only and experiment.model_only:
            raise KnobError(f"soak: {experiment.name} runs on the model alone ({experiment.model_only}). Name another experiment.")
    if bootstrap := kafka_server.external_bootstrap():
        raise LabError(f"soak: the brokers at {bootstrap} are not the kit's to kill. Unset KIT_KAFKA_BOOTSTRAP.")
    names = [experiment.name for experiment in drawn_from if not experiment.model_only]
    chance = random.Random(seed)
    cluster = kafka_server.ensure()
    deadline, number = time.monotonic() + minutes * 60, 0
    with _remembered_as(NAME), _cleared():
        while time.monotonic() < deadline:
            number += 1
            begun = time.monotonic()
            name = chance.choice(names)
            drawn = Search(Grid.of(name), lambda row: True, ()).draw(chance)
            script = Script.made(name, drawn.pop("seed"), drawn)
            outcome, sentence = _both(script)
            _take_back(cluster)
            seconds = round(time.monotonic() - begun, 2)
            yield Round(number, str(script).splitlines()[1], outcome, sentence, seconds, Footprint.now(cluster))
            if number % EVERY == 0:
                begun, fault = time.monotonic(), chance.choice(FAULTS)
                cluster, outcome, sentence = _fault(fault, number)
                yield Round(number, fault, outcome, sentence, round(time.monotonic() - begun, 2), Footprint.now(cluster))


def growth(rounds: list[Round]) -> dict[str, float]:
    """How much more memory (MB), files and processes the last third of the rounds held than the second, in their medians.

    The first third is left out: a JVM takes what it is allowed to before it collects. {} for fewer than nine rounds.
    """
    third = len(rounds) // 3
    if third < 3:
        return {}

    def middle(some: list[Round], what: str) -> float:
        return float(sorted(getattr(each.footprint, what) for each in some)[len(some) // 2])

    return {
        what: round(middle(rounds[-third:], what) - middle(rounds[third : 2 * third], what), 1)
        for what in ("memory_mb", "files", "processes")
    }


def _both(script: Script) -> tuple[str, str]:
    """How the script ends on both sides: an outcome of a `Round`, and a sentence."""
    experiment = experiments.get(script.experiment)

    def on_broker() -> Verdict:
        return judge(experiment.run(backend="kafka", script=script))

    try:
        model = experiment.run(script=script)
        if len(model) > MOST_STEPS:
            return "refused", f"The model took {len(model):,} steps, more than a round has time for."
        verdict = judge(model)
        try:
            real = on_broker()
        except LateError:  # on a busy machine this may be so for once
            real = on_broker()
        again = on_broker() if verdict.parts_from(real) else real
    except KnobError as error:
        return "refused", str(error)
    except LateError as error:
        return "late", str(error)
    except LabError as error:
        return "refused" if kafka_server.status().is_running else "failed", str(error)  # such as: this needs three brokers
    except Exception as error:  # a bug of the kit's: told with the script that shows it, and the hour goes on
        log.exception("soak: %s", script)
        return "failed", f"A bug of the kit's: {type(error).__name__}: {error}. Run this script again, with --debug."
    where = verdict.parts_from(real)
    if not where:
        return "agrees", f"Model and broker agree: {real.found}."
    if verdict.violations != real.violations:
        return "differs", where
    if model.domain == BY_THE_CLOCK or not verdict.parts_from(again):
        return "races", where
    if model.domain not in RACING:
        return "differs", where
    ours, first, second = ({kind for kind, count in each.counts.items() if count} for each in (verdict, real, again))
    return ("races", where) if ours in (first, second) else ("unalike", f"{where} {NEAR}")


def _fault(fault: str, number: int) -> tuple[Cluster, str, str]:
    """Have records acknowledged, end the broker, and count them again: the broker afterwards, and how it went."""
    cluster = kafka_server.ensure()
    topic = f"kit.{NAME}.{os.getpid()}-{number}"
    producer = Producer(client_config(cluster, acks="all"))
    kafka_backend.create_topic(AdminClient(client_config(cluster)), topic, replicas=1)
    kafka_backend.write(producer, topic, [(None, b"%d" % index) for index in range(WRITTEN)])
    if fault == "freeze":
        _freeze(cluster.pids, FROZEN_S)
    else:
        cluster = kafka_server.restart(fault)

    def counted() -> int | None:
        """None while there is no leader; a client that asked too early is not told of one, so each question has a new client."""
        with suppress(LabError):
            return LogEnds.of(cluster).ends([(topic, 0)]).offsets.get((topic, 0))
        return None

    there = wait_until(counted, LEADER_S, f"{topic} has a leader again")
    _take_back(cluster)
    sentence = f"{there} of {WRITTEN} acknowledged records are there after {_TOLD[fault]}."
    return cluster, "recovered" if there == WRITTEN else "lost", sentence


_TOLD = {"clean": "a clean restart", "kill": "SIGKILL and a restart", "freeze": f"{FROZEN_S:g} s of SIGSTOP"}


def _freeze(pids: tuple[int, ...], seconds: float) -> None:
    processes = [psutil.Process(pid) for pid in pids]
    try:
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


def _take_back(cluster: Cluster) -> bool:
    """Delete what the rounds have made; True if nothing is left.

    What cannot go yet (a group whose killed members have not timed out, a topic of a broker that is still starting) goes with
    the next round.
    """
    made = created_resources.read(NAME)
    gone, _ = created_resources.take_back(made, client_config(cluster))
    created_resources.forget(NAME, gone)
    return len(gone) == len(made)


@contextmanager
def _cleared() -> Iterator[None]:
    """At the end, wait until what the last rounds have made is gone. `kit reset soak` deletes what stays all the same."""
    try:
        yield
    finally:
        with suppress(LabError):
            wait_until(lambda: _take_back(kafka_server.ensure()), CLEARED_S, "what the soak has made is gone")


@contextmanager
def _remembered_as(name: str) -> Iterator[None]:
    before = os.environ.get("KIT_NOTEBOOK")
    os.environ["KIT_NOTEBOOK"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["KIT_NOTEBOOK"]
        else:
            os.environ["KIT_NOTEBOOK"] = before

"""A producer's trace, read once from its first step to its last: which messages crossed, and how each ended.

What a step does not say is worked out here: that an answer was on its way when the connection broke,
which copy of a record a write makes, which batch the broker has just forgotten. A trace without a
producer's words has no such picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log2
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.producer.diagram import (
    BROKER,
    CHAR,
    CLIENT,
    LABEL_GAP,
    LOST,
    MARKERS,
    NEVER,
    OPEN_WAY,
    SECOND,
    LogView,
    Mark,
    SequenceDiagram,
    Way,
    numbers,
    owner_of,
    part,
    ticks_of,
    whole,
)
from kitlib.views.producer.log import LogReader
from kitlib.views.producer.rows import RowReader
from kitlib.words.idempotence import is_side

STEP_WIDE, SEND_WIDE = 18, 7  # the least way from one step to the next
MOST_WAIT = 46  # how much a wait, however long, adds to that
OF_BATCHES, OF_ANSWERS = "swWkxqdf", "aen"  # marks that are about a batch, or about an answer; others are about requests
Key = tuple[Any, ...]


def to_diagram(trace: Trace) -> SequenceDiagram:
    """The sequence diagram of a producer's trace."""
    reader = _Reader(trace)
    for step in trace.steps:
        reader.take(step)
    return reader.finish()


@dataclass(slots=True)
class _Flight:
    """One request's batch: its way to the broker and the answer's way back."""

    client: int  # height of its producer's lane
    actor: str
    numbers: tuple[Any, ...]  # producer id, epoch, sequence
    way: Way
    is_under_way: bool = True  # to the broker
    arrivals: list[tuple[int, int]] = field(default_factory=list)  # step and place of each at the broker
    answered: int = 0  # of them
    forks: list[int] = field(default_factory=list)  # steps at which the network sent it on twice
    ways: list[Way] = field(default_factory=list)

    @property
    def answer(self) -> str | None:
        """By which a page asks for its answer's life."""
        return self.way.ref and self.way.ref.replace("request:", "answer:", 1)


class _Reader:
    """What is known while the steps go by."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.scene = SequenceDiagram()
        actors = dict.fromkeys(step.actor for step in trace.steps if step.actor.startswith("producer"))
        self.actors = list(actors)[:2] or ["producer"]
        self.scene.clients = [plain_text(actor, 12) for actor in self.actors]
        self.flights: dict[Key, list[_Flight]] = {}
        self.logs: dict[tuple[Any, Any], LogReader] = {}
        self.rows = RowReader(self.scene, trace, self.actors)
        self.x = 0
        self.is_small = True  # whether the last step's sign is a small one, or none
        self.last_ms = trace.steps[0].at_ms if trace.steps else 0
        self.label_ends: dict[tuple[int, bool], float] = {}  # lane and side -> where its last label ends
        self.cuts: list[tuple[int, int]] = []  # step and place
        self.restarts: list[tuple[int, int]] = []
        self.broken: dict[tuple[int, int, int], list[Way]] = {}  # those that a cut ended, of one direction each
        self.held: list[tuple[int, _Flight]] = []  # steps whose mark lies on a way that is not known yet
        self.arrived: dict[Key, int] = {}  # (topic, partition, batch) -> how often it came to the broker
        self.acknowledged = 0
        self.counts: dict[str, list[int]] = {name: [] for name in ("in flight", "waiting", "acked", "second copies")}

    def take(self, step: Step) -> None:
        """Take one step."""
        data = self._known(step)
        flight = self._flight(step)
        self._place(step, self._mark(step, data, flight))
        self.scene.spots.append(None)
        act: Callable[[Step, dict[str, Any]], None] | None = getattr(self, f"_on_{step.what}", None)
        if act is not None:
            act(step, data)
        self.rows.take(step, step.actor if flight is None or step.actor in self.actors else flight.actor)
        self._follow_log(step)
        counts = self.rows.in_flight, self.rows.waiting, self.acknowledged, sum(log.extra for log in self.logs.values())
        for values, count in zip(self.counts.values(), counts, strict=True):
            values.append(count)
        self.scene.data.append(data)

    def _known(self, step: Step) -> dict[str, Any]:
        """The step's data, and of what arrives at the broker: how often it came, and what its writing would make."""
        if step.what not in ("write", "recognise", "refuse"):
            return step.data
        data = dict(step.data)
        batch = (*self._key(data)[:2], str(data.get("batch")))
        data["arrival"] = self.arrived[batch] = self.arrived.get(batch, 0) + 1
        if log := self._log(data):
            first = whole(data.get("first"), 0)
            data["copy"] = log.copy_of(first)
            data["is_late"] = data["copy"] == 1 and first < log.highest
        return data

    def _mark(self, step: Step, data: dict[str, Any], flight: _Flight | None) -> Mark | None:
        """The sign of a step: on its actor's lane, or for the network half way between two."""
        if step.what not in MARKERS or not is_side(step.actor):
            return None
        code, lines = MARKERS[step.what](data)
        ref = self._ref("batch" if code in OF_BATCHES else "answer" if code in OF_ANSWERS else "request", step, flight)
        if step.actor.startswith("producer"):
            lane = self._lane_of(step.actor)
            return Mark(code, lane, lines, lane == CLIENT, ref)
        if step.actor == "network":
            return Mark(code, (BROKER + (flight.client if flight else CLIENT)) // 2, lines, ref=ref)
        return Mark(code, BROKER, lines, flight is not None and flight.client == SECOND, ref)

    def _ref(self, kind: str, step: Step, flight: _Flight | None = None) -> str | None:
        """By which a page asks for the life of a step's batch, request or answer."""
        number = step.data.get("batch" if kind == "batch" else "request")
        actor = flight.actor if flight else step.actor
        return None if number is None else f"{kind}:{owner_of(actor, self.actors)}{plain_text(number, 40)}"

    def _place(self, step: Step, mark: Mark | None) -> None:
        """Give the step its place on the time axis: waits are told apart, and labels do not touch."""
        scene = self.scene
        wait = max(0, step.at_ms - self.last_ms)
        self.last_ms = step.at_ms
        is_small = mark is None or step.what == "send"
        after_small = self.is_small
        self.is_small = is_small
        least, most = (SEND_WIDE, SEND_WIDE // 2) if is_small and after_small else (STEP_WIDE, MOST_WAIT)
        x = self.x + least + min(most, round(7 * log2(1 + wait)))
        if mark is not None and mark.lines and mark.y in (CLIENT, BROKER, SECOND):
            half, side = max(len(line) for line in mark.lines) * CHAR / 2, (mark.y, mark.is_above)
            x = max(x, round(self.label_ends.get(side, 0) + LABEL_GAP + half))
            self.label_ends[side] = x + half
        self.x = x
        scene.x.append(x)
        scene.marks.append(mark)

    def _lane_of(self, actor: str) -> int:
        return SECOND if len(self.actors) > 1 and actor == self.actors[1] else CLIENT

    def _key(self, data: dict[str, Any]) -> Key:
        told = data.get
        return str(told("topic")), str(told("partition")), str(told("request")), str(told("batch"))

    def _flight(self, step: Step) -> _Flight | None:
        """The request that a step is about: the newest that fits."""
        if "request" not in step.data:
            return None
        found = self.flights.get(self._key(step.data), [])
        if step.actor.startswith("producer"):
            found = [flight for flight in found if flight.actor == step.actor]
        elif len(found) > 1 and (same := [one for one in found if one.numbers == numbers(step.data)]):
            found = same
        return found[-1] if found else None

    def _on_request(self, step: Step, data: dict[str, Any]) -> None:
        lane = self._lane_of(step.actor)
        way = Way(self.x, lane, self.x, BROKER, step.number, "R", ref=self._ref("request", step))
        flight = _Flight(lane, step.actor, numbers(data), way, ways=[way])
        self.scene.ways.append(way)
        self.flights.setdefault(self._key(data), []).append(flight)

    def _on_lose_request(self, step: Step, data: dict[str, Any]) -> None:
        flight = self._flight(step)
        if flight and flight.is_under_way:
            self._lose(flight.way, flight, self.x)

    def _on_duplicate_request(self, step: Step, data: dict[str, Any]) -> None:
        if flight := self._flight(step):
            flight.forks.append(step.number)
            self.held.append((step.number, flight))

    def _on_delay(self, step: Step, data: dict[str, Any]) -> None:
        if flight := self._flight(step):
            self.held.append((step.number, flight))

    def _on_cut(self, step: Step, data: dict[str, Any]) -> None:
        self.cuts.append((step.number, self.x))

    _on_down = _on_cut

    def _on_restart(self, step: Step, data: dict[str, Any]) -> None:
        self.restarts.append((step.number, self.x))
        self._on_fail_over(step, data)

    def _on_fail_over(self, step: Step, data: dict[str, Any]) -> None:
        for log in self.logs.values():
            end = whole(part(step.state, "broker").get("log_end"), log.end)
            if len(self.logs) == 1 and end < log.end:
                log.cut(step.number, end)

    def _arrive(self, step: Step) -> None:
        """A request reaches the broker."""
        flight = self._flight(step)
        if flight is None:
            return
        if flight.is_under_way:
            flight.is_under_way = False
            flight.way.x1 = self.x
        elif flight.forks:
            at = flight.forks.pop(0)
            way = Way(self.scene.x[at], NEVER, self.x, BROKER, at, "C", ref=flight.way.ref)
            flight.ways.append(way)
            self.scene.ways.append(way)
        flight.arrivals.append((step.number, self.x))

    def _on_write(self, step: Step, data: dict[str, Any]) -> None:
        self._arrive(step)
        log = self._log(data)
        if log is None:
            return
        first = whole(data.get("first"), 0)
        last = max(first, min(whole(data.get("last"), first), first + 100_000))
        offset = max(0, whole(data.get("offset"), log.end))
        log.write(step.number, offset, first, last)
        self._spot(step, log, offset, last - first + 1)

    def _on_recognise(self, step: Step, data: dict[str, Any]) -> None:
        self._arrive(step)
        log, offset = self._log(data), whole(data.get("offset"), NEVER)
        if log is not None and offset >= 0:
            self._spot(step, log, offset, whole(data.get("last"), 0) - whole(data.get("first"), 0) + 1)

    def _on_refuse(self, step: Step, data: dict[str, Any]) -> None:
        self._arrive(step)

    def _back(self, flight: _Flight, x: int) -> tuple[int, int]:
        """Where and when the answer set out that arrives, or is lost, at `x`."""
        if flight.is_under_way:  # nobody told when it reached the broker
            flight.is_under_way = False
            flight.way.x1 = (flight.way.x0 + x) // 2
            flight.arrivals.append((flight.way.born, flight.way.x1))
        at = min(flight.answered, len(flight.arrivals) - 1)
        flight.answered += 1
        return flight.arrivals[at] if at >= 0 else (flight.way.born, flight.way.x1)

    def _on_answer(self, step: Step, data: dict[str, Any]) -> None:
        if flight := self._flight(step):
            born, x0 = self._back(flight, self.x)
            way = Way(x0, BROKER, self.x, flight.client, born, "A" if data.get("error") == "NONE" else "E", ref=flight.answer)
            flight.ways.append(way)
            self.scene.ways.append(way)

    def _on_lose_answer(self, step: Step, data: dict[str, Any]) -> None:
        if flight := self._flight(step):
            self._lose_answer(flight, self.x)

    def _lose_answer(self, flight: _Flight, x: int) -> None:
        born, x0 = self._back(flight, x)
        way = Way(x0, BROKER, x, flight.client, born, LOST, ref=flight.answer)
        flight.ways.append(way)
        self.scene.ways.append(way)
        self._lose(way, flight, x)

    def _lose(self, way: Way, flight: _Flight, x: int) -> None:
        """A message vanishes: half way, or where it was when its connection broke, which may have been earlier."""
        flight.is_under_way = flight.is_under_way and way is not flight.way
        breaks = (*self.cuts, *self.restarts)  # a restart that says of no cut has cut the connection itself
        cut = next((place for number, place in breaks if number > way.born and place > way.x0), None)
        if cut is None:
            way.x1, way.y1, way.code = x, (way.y0 + way.y1) // 2, LOST
        else:
            way.x1, way.code = cut, LOST
            self.broken.setdefault((cut, way.y0, way.y1), []).append(way)
        mark = self.scene.marks[-1]
        is_here = mark is not None and mark.code == "L"
        way.has_cross = cut is not None or not is_here
        if is_here and way.has_cross:
            self.scene.marks[-1] = None

    def _on_no_answer(self, step: Step, data: dict[str, Any]) -> None:
        """What was under way then, in either direction, is lost."""
        flight = self._flight(step)
        if flight is None:
            return
        if flight.is_under_way:
            self._lose(flight.way, flight, self.x)
        elif flight.answered < len(flight.arrivals):
            self._lose_answer(flight, self.x)

    def _on_delivered(self, step: Step, data: dict[str, Any]) -> None:
        self._tell(step, data, True)

    def _on_undelivered(self, step: Step, data: dict[str, Any]) -> None:
        self._tell(step, data, False)

    def _tell(self, step: Step, data: dict[str, Any], is_stored: bool) -> None:
        first = whole(data.get("first"), 0)
        last = max(first, min(whole(data.get("last"), first), first + 100_000))
        self.acknowledged += last - first + 1 if is_stored else 0
        if (log := self._log(data)) is not None:
            log.tell(step.number, first, last, is_stored)

    def _log(self, data: dict[str, Any]) -> LogReader | None:
        if "topic" not in data or "partition" not in data:
            return None
        key = (str(data["topic"]), str(data["partition"]))
        if key not in self.logs:
            topic = str(data["topic"]).removeprefix(f"kit.{self.trace.run}.")
            view = LogView(f"{plain_text(topic, 60)}, partition {plain_text(data['partition'], 12)}")
            self.logs[key] = LogReader(view)
            self.scene.logs.append(view)
            self.scene.places.add((data["topic"], data["partition"]))
        return self.logs[key]

    def _spot(self, step: Step, log: LogReader, offset: int, count: int) -> None:
        self.scene.spots[-1] = (self.scene.logs.index(log.view), offset, max(1, count))

    def _on_read(self, step: Step, data: dict[str, Any]) -> None:
        log = self._log(data)
        ranges = [(whole(first, 0), whole(last, NEVER)) for first, last in data.get("records", [])]
        if log is not None:
            log.read(step.number, whole(data.get("first_offset"), 0), ranges)

    def _follow_log(self, step: Step) -> None:
        start = part(step.state, "broker").get("log_start")
        log = self._log(step.data) if start is not None else None
        if log is not None and isinstance(start, int) and log.view.start.last != start:
            log.delete(step.number, start)

    def finish(self) -> SequenceDiagram:
        """What is still under way stays so; marks and forks find their place on their way."""
        scene = self.scene
        is_answered = self.trace.settings.acks not in (0, "0")
        for flight in (flight for flights in self.flights.values() for flight in flights):
            if flight.is_under_way:
                flight.way.x1, flight.way.is_open = flight.way.x0 + OPEN_WAY, True
            elif is_answered and flight.arrivals and not flight.answered:
                born, x0 = flight.arrivals[0]
                scene.ways.append(Way(x0, BROKER, x0 + OPEN_WAY, flight.client, born, "A", True, ref=flight.answer))
                flight.ways.append(scene.ways[-1])
        for (_, y0, y1), broken in self.broken.items():  # the earlier one set out, the farther it came
            for place, lost in enumerate(sorted(broken, key=lambda one: -one.x0), start=1):
                lost.y1 = y0 + (y1 - y0) * place // (len(broken) + 1)
        for number, flight in self.held:
            mark, x = scene.marks[number], scene.x[number]
            way = next((one for one in reversed(flight.ways) if one.y0 != NEVER and one.x0 <= x <= one.x1), None)
            if mark is not None and way is not None:
                scene.marks[number] = mark._replace(y=way.y_at(x))
            for fork in flight.ways:
                if fork.y0 == NEVER and fork.born == number:
                    fork.y0 = mark.y if way is None and mark is not None else way.y_at(x) if way else BROKER
        scene.ways.sort(key=lambda way: way.born)
        scene.ticks = ticks_of(scene.x, [step.at_ms for step in self.trace.steps])
        scene.curves = self.counts
        logs = list(self.logs.values())
        for step, spot in enumerate(scene.spots):
            if spot is not None:
                logs[spot[0]].look_at(step, *spot[1:])
        self.rows.finish()
        return scene

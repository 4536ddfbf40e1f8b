"""The rows of batches below a producer's lanes: what waits, what is in flight, what the broker remembers.

The steps' states say what is in each row; here equal boxes become one, and what has fallen out of the
broker's memory is shown beside it until the memory changes again.
"""

from __future__ import annotations

from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.producer.diagram import (
    BOX_PITCH,
    BOX_WIDE,
    MOST_BOXES,
    NO_NUMBER,
    ROW_TALL,
    Box,
    LazyHistory,
    Row,
    SequenceDiagram,
    batch_name,
    owner_of,
    part,
    rows_of,
    sequence_word,
    whole,
)

Entry = tuple[int, int, int, int]  # first and last sequence, first and last offset
HALF = MOST_BOXES // 2  # where so many fit in flight at most, what waits stands beside them
KIND_WAITING, KIND_IN_FLIGHT, KIND_REMEMBERED = "waiting", "in flight", "remembered"


class RowReader:
    """What is in each row while the steps go by."""

    def __init__(self, scene: SequenceDiagram, trace: Trace, actors: list[str]) -> None:
        self.scene = scene
        self.actors = actors
        self.most = max(1, min(whole(trace.settings.max_in_flight, 1), 1_000))
        self.slots = max(1, min(whole(trace.settings.remembered_batches, 1), 1_000))
        self.has_ids = trace.settings.idempotence is not False
        self.tries: dict[tuple[str, int, int], int] = {}  # (producer, request, batch) -> attempts before
        self.next_y = 0
        self.rows = {actor: (self._row(actor, KIND_WAITING), self._row(actor, KIND_IN_FLIGHT)) for actor in actors}
        self.seen: dict[str, tuple[Any, Any]] = dict.fromkeys(actors, (None, None))
        self.counts = dict.fromkeys(actors, (0, 0))
        self.memories: dict[tuple[str, str], _Memory] = {}
        self.ids: tuple[int, int] = (NO_NUMBER, NO_NUMBER)

    @property
    def waiting(self) -> int:
        """Batches that wait, of all producers."""
        return sum(waiting for waiting, _ in self.counts.values())

    @property
    def in_flight(self) -> int:
        """Batches in flight, of all producers."""
        return sum(in_flight for _, in_flight in self.counts.values())

    def _row(self, actor: str, kind: str) -> Row:
        told = {KIND_WAITING: "In the accumulator", KIND_IN_FLIGHT: "In flight"}[kind]
        row = Row(told if len(self.actors) == 1 else f"{plain_text(actor, 12)}: {kind}", kind)
        words, boxes = (_waiting_words, self._queued) if kind == KIND_WAITING else (self._flying_words, self._flying)
        row.words = LazyHistory(work_out=lambda found: words(found) + _hidden(found, row.room))
        row.boxes = LazyHistory(work_out=lambda found: boxes(actor, found, row.room))
        row.words.put(0, [])
        is_beside = kind == KIND_IN_FLIGHT and self.most <= HALF
        row.y = self.next_y - (ROW_TALL if is_beside else 0)
        self.next_y = row.y + ROW_TALL
        if self.most <= HALF:
            row.room = HALF
            row.x = WIDTH - LEFT - HALF * BOX_PITCH + BOX_PITCH - BOX_WIDE if is_beside else row.x
        self.scene.rows.append(row)
        return row

    def take(self, step: Step, actor: str) -> None:
        """Follow one step, whose producer is `actor`."""
        if step.what == "request":
            data = step.data
            key = actor, whole(data.get("request"), NO_NUMBER), whole(data.get("batch"), NO_NUMBER)
            self.tries[key] = whole(data.get("attempt"), 0)
        owner = actor if actor in self.rows else self.actors[0]
        if found := part(step.state, "producer"):
            self._follow(step.number, owner, found)
        if found := part(step.state, "broker"):
            self._remember(step, found)
        self.scene.rings.append(self._ring(step, owner))

    def _follow(self, step: int, actor: str, state: dict[str, Any]) -> None:
        waiting, in_flight = self.rows[actor]
        queue, flying = state.get("queue"), state.get("in_flight")
        self.ids = whole(state.get("pid"), self.ids[0]), whole(state.get("epoch"), self.ids[1])
        if queue != self.seen[actor][0]:
            found = rows_of(queue, 3)
            waiting.put(step, found, len(found))
            self.counts[actor] = len(found), self.counts[actor][1]
        if flying != self.seen[actor][1]:
            found = rows_of(flying, 4)
            in_flight.put(step, found, max(len(found), self.most))
            self.counts[actor] = self.counts[actor][0], len(found)
        elif not in_flight.boxes.steps:
            in_flight.put(step, [], self.most)
        self.seen[actor] = queue, flying

    def _queued(self, actor: str, found: list[list[Any]], room: int) -> list[Box]:
        """The boxes of batches that wait."""
        boxes = []
        for row in found[:room]:
            number, count = whole(row[0], NO_NUMBER), whole(row[2], 1)
            attempts = whole(row[3], 0) if len(row) > 3 else 0
            told = sequence_word(row[1], count) if row[1] is not None and row[1] != NO_NUMBER else "no number"
            code = "N" if attempts else "w" if told == "no number" and self.has_ids else "n"
            boxes.append(self._box(code, number, told if self.has_ids else f"{count:,} rec.", KIND_WAITING, actor))
        return boxes

    def _flying(self, actor: str, found: list[list[Any]], room: int) -> list[Box]:
        """The boxes of batches in flight, and behind them the places that are free."""
        boxes = []
        for row in found[:room]:
            request, number, count = whole(row[0], NO_NUMBER), whole(row[1], NO_NUMBER), whole(row[3], 1)
            code = "P" if self.tries.get((actor, request, number), 0) > 0 else "p"
            boxes.append(self._box(code, number, sequence_word(row[2], count), KIND_IN_FLIGHT, actor))
        return boxes + free(self.most - len(found), room - len(boxes))

    def _box(self, code: str, number: int, told: str, kind: str, actor: str) -> Box:
        ref = f"batch:{owner_of(actor, self.actors)}{plain_text(number, 40)}"
        return Box(code, batch_name(number), told, (kind, actor, number), ref)

    def _flying_words(self, found: list[list[Any]]) -> str:
        requests = len({str(row[0]) for row in found})
        told = f"{requests} of at most {self.most}"
        return told if requests == len(found) else f"{told}, with {len(found)} batches"

    def _remember(self, step: Step, state: dict[str, Any]) -> None:
        data = step.data
        if "remembered" not in state or "topic" not in data or "partition" not in data:
            if "remembered" not in state or len(self.memories) != 1:
                return
            memory = next(iter(self.memories.values()))
        else:
            key = str(data["topic"]), str(data["partition"])
            if key not in self.memories:
                row = Row("The broker remembers", KIND_REMEMBERED, y=self.next_y)
                self.next_y += ROW_TALL
                self.scene.rows.append(row)
                self.memories[key] = _Memory(row, key, f"partition {plain_text(data['partition'], 12)}")
            memory = self.memories[key]
        memory.take(step.number, state, self)

    def _ring(self, step: Step, actor: str) -> tuple[Any, ...]:
        """The boxes of the batch that the step is about."""
        number, seq = step.data.get("batch"), step.data.get("seq")
        rings = () if number is None else ((KIND_WAITING, actor, number), (KIND_IN_FLIGHT, actor, number))
        if seq is not None and seq != NO_NUMBER and step.actor == "broker":
            return (*rings, (KIND_REMEMBERED, str(step.data.get("topic")), str(step.data.get("partition")), seq))
        return rings

    def finish(self) -> None:
        """Rows of several partitions say whose they are."""
        for memory in self.memories.values() if len(self.memories) > 1 else ():
            memory.row.title = f"The broker remembers of {memory.place}"


class _Memory:
    """What the broker remembers of the producer in one partition."""

    def __init__(self, row: Row, key: tuple[str, str], place: str) -> None:
        self.row = row
        self.key = key  # topic and partition
        self.place = place
        self.raw: object = None  # as the last step told it
        self.known: list[Entry] | None = None
        self.ids: tuple[int, int] | None = None

    def take(self, step: int, state: dict[str, Any], reader: RowReader) -> None:
        """Compare with what it remembered before this step."""
        raw = state["remembered"]
        if raw == self.raw and self.ids == (state.get("pid", reader.ids[0]), state.get("epoch", reader.ids[1])):
            return
        self.raw = raw
        now = [_entry(row) for row in rows_of(raw, 4)]
        ids = whole(state.get("pid"), reader.ids[0]), whole(state.get("epoch"), reader.ids[1])
        if now == self.known and ids == self.ids:
            return
        is_news = self.known is not None and now != self.known
        gone = [entry for entry in self.known or () if entry not in now] if is_news else []
        self.known, self.ids = now, ids
        slots = max(reader.slots, len(now))
        ghosts = gone[-max(1, MOST_BOXES - slots) :]
        shown = now[-(MOST_BOXES - len(ghosts)) :]
        boxes = [self._box(entry, "g") for entry in ghosts] + [self._box(entry, "m") for entry in shown]
        if reader.has_ids:
            boxes += free(slots - len(now), MOST_BOXES - len(boxes))
        self.row.boxes.put(step, boxes)
        self.row.wide = max(self.row.wide, len(boxes))
        self.row.words.put(step, self._words(now, gone, ids, reader) + _hidden(now, len(shown)))

    def _box(self, entry: Entry, code: str) -> Box:
        first, last, offset, _ = entry
        words = sequence_word(first, last - first + 1 if last >= first else 1)
        return Box(code, words, f"at {offset}" if code == "m" else "forgotten", (KIND_REMEMBERED, *self.key, first))

    def _words(self, now: list[Entry], gone: list[Entry], ids: tuple[int, int], reader: RowReader) -> str:
        if not reader.has_ids:
            return "nothing: without a producer id it cannot tell one batch from another"
        if not now and not gone:
            return "nothing of this producer yet"
        of = f" of producer id {ids[0]}, epoch {ids[1]}" if ids[0] >= 0 else ""
        told = f"{len(now)} {'batch' if len(now) == 1 else 'batches'}{of}, at most {reader.slots}"
        forgot = f"; it has just forgotten {len(gone)}" if gone else ""
        return told + forgot


def _entry(row: list[Any]) -> Entry:
    first, last, offset, end = (whole(value, NO_NUMBER) for value in row[:4])
    return first, last, offset, end


def free(number: int, room: int) -> list[Box]:
    """So many free places, as far as there is room."""
    return [Box("-", "", "")] * max(0, min(number, room))


def _waiting_words(found: list[list[Any]]) -> str:
    if not found:
        return "nothing"
    records = sum(whole(row[2], 0) for row in found)
    batches = f"{len(found):,} {'batch' if len(found) == 1 else 'batches'}"
    return f"{batches}, {records:,} {'record' if records == 1 else 'records'}"


def _hidden(found: list[Any], room: int) -> str:
    return f"; {len(found) - room:,} more" if len(found) > room else ""

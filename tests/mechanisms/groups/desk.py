"""A coordinator with a clock, and members that ask it one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kitlib.mechanisms.groups.coordinator import GroupConfig, GroupCoordinator
from kitlib.mechanisms.groups.group_protocol import (
    Answer,
    Answered,
    Committed,
    CoordinatorEvent,
    Heartbeat,
    HeartbeatResponse,
    Joined,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Request,
    Synced,
    SyncGroup,
)
from kitlib.mechanisms.protocol import ErrorCode

NOW = GroupConfig(group_initial_rebalance_delay_ms=0)  # the first member waits for nobody


@dataclass
class Desk:
    """The coordinator, what it answered by the requests' numbers, and what happened."""

    config: GroupConfig = NOW
    group_id: str = "g"
    now_ms: int = 0
    numbers: Any = field(default_factory=count)
    answers: dict[int, Answer] = field(default_factory=dict)
    notes: list[CoordinatorEvent] = field(default_factory=list)
    coordinator: GroupCoordinator = field(init=False)

    def __post_init__(self) -> None:
        self.coordinator = GroupCoordinator(self.group_id, self.config)

    def ask(self, request: Request) -> int:
        self._take(self.coordinator.handle(request, self.now_ms))
        self.wait(0)
        return request.asked

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self._take(self.coordinator.advance(self.now_ms))

    def _take(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Answered):
                assert effect.asked not in self.answers, f"request {effect.asked} is answered twice"
                self.answers[effect.asked] = effect.answer
            else:
                self.notes.append(effect)

    @property
    def state(self) -> str:
        return "none" if self.coordinator.group is None else self.coordinator.group.state.value

    def happened(self) -> list[str]:
        """What happened since the last call: the words, with who was evicted and why."""
        notes, self.notes = self.notes, []
        return [
            f"evict {note.data['member']}: {note.data['why']}" if note.what == "evict" else note.what for note in notes
        ]


@dataclass
class Person:
    """One member, with the settings of its joins and what it was told last."""

    desk: Desk
    name: str
    strategies: tuple[str, ...] = ("range",)
    instance_id: str | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    asked: int = -1  # its last join

    def join(self) -> Joined | None:
        """Ask to join, with the id that it was told; None while it has to wait."""
        protocols = tuple((name, self.name) for name in self.strategies)
        request = JoinGroup(
            next(self.desk.numbers), self.name, protocols, self.member_id, self.instance_id, self.session_ms,
            self.rebalance_ms,
        )  # fmt: skip
        self.asked = self.desk.ask(request)
        return self.joined()

    def joined(self) -> Joined | None:
        """What its last join was answered."""
        answer = self.desk.answers.get(self.asked)
        assert answer is None or isinstance(answer, Joined)
        if answer is not None and answer.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        if answer is not None and answer.error is ErrorCode.NONE:
            self.generation, self.leader = answer.generation, answer.leader
        return answer

    def enter(self) -> Joined | None:
        """Join, and once more with the id that it is told."""
        answer = self.join()
        return self.join() if answer is not None and answer.error is ErrorCode.MEMBER_ID_REQUIRED else answer

    def sync(self, assignments: dict[str, Any] | None = None, **more: Any) -> Synced | None:
        fields = {"generation": self.generation, "group_instance_id": self.instance_id} | more
        number = self.desk.ask(
            SyncGroup(next(self.desk.numbers), self.member_id, assignments=tuple((assignments or {}).items()), **fields)
        )
        answer = self.desk.answers.get(number)
        assert answer is None or isinstance(answer, Synced)
        return answer

    def beat(self, **more: Any) -> ErrorCode:
        fields = {"generation": self.generation, "group_instance_id": self.instance_id} | more
        answer = self.desk.answers[self.desk.ask(Heartbeat(next(self.desk.numbers), self.member_id, **fields))]
        assert isinstance(answer, HeartbeatResponse)
        return answer.error

    def commit(self, offset: int, **more: Any) -> ErrorCode:
        fields = {
            "member_id": self.member_id,
            "generation": self.generation,
            "group_instance_id": self.instance_id,
        } | more
        number = self.desk.ask(OffsetCommit(next(self.desk.numbers), ((("t", 0), offset),), **fields))
        answer = self.desk.answers[number]
        assert isinstance(answer, Committed)
        return answer.error

    def leave(self, **more: Any) -> ErrorCode:
        fields = {"member_id": self.member_id, "group_instance_id": self.instance_id} | more
        answer = self.desk.answers[self.desk.ask(LeaveGroup(next(self.desk.numbers), **fields))]
        assert isinstance(answer, HeartbeatResponse)
        return answer.error


def stable(desk: Desk, *people: Person) -> None:
    """Let these people join one after the other, each time until the group is stable; the first one leads."""
    for number, person in enumerate(people, start=1):
        person.enter()
        present = people[:number]
        for other in people[: number - 1]:
            other.join()
        for other in present:
            other.joined()
        for other in sorted(present, key=lambda each: each.member_id == each.leader):
            other.sync({each.member_id: (place,) for place, each in enumerate(present)})
    desk.happened()

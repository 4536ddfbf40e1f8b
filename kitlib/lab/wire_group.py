"""Speaks a group's protocol to its coordinator: join, sync, heartbeat, leave, under any protocol type.

A group's coordinator passes on what members write for each other and understands none of it. So one may be
a member of any kind: this one has a connection, a member id and a generation, and leaves the meaning of
the bytes to its caller. Joining waits for the others, so it is asked in two steps.

Left out: static members, and a coordinator that moves; one broker is the coordinator of every group.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kitlib.errors import LabError
from kitlib.lab.wire_library import for_code  # first: it keeps the library's warnings away
from kitlib.lab.wire_session import LONGEST_ANSWER_BYTES, WireSession

from kafka.protocol.consumer import (  # isort: skip
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

__all__ = ["GroupWire", "Joined"]

JOIN, SYNC, HEARTBEAT, LEAVE = 5, 3, 3, 2  # versions: the last ones without tagged fields
NONE, NOT_YET, UNKNOWN_MEMBER, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 0, (14, 15, 16), 25, 27, 79
INCONSISTENT_PROTOCOL = 23
ASK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Joined:
    """The coordinator's answer to a join. `members` has everybody's bytes for the leader, and nobody's for others."""

    error: int
    member_id: str
    generation: int
    leader: str
    protocol: str
    members: Mapping[str, bytes]

    @property
    def leads(self) -> bool:
        return self.error == NONE and self.member_id == self.leader


class GroupWire(WireSession):
    """One member's connection. LabError where nothing comes in time, or the connection ends."""

    group: str = ""
    member_id: str = ""
    generation: int = -1
    asked: int = -1  # the join that has no answer yet
    joining: tuple[str, str, Sequence[tuple[str, bytes]], int, int] = ("", "", (), 0, 0)  # what it was asked with

    def send_join(
        self, group: str, protocol_type: str, protocols: Sequence[tuple[str, bytes]], session_ms: int, rebalance_ms: int
    ) -> None:
        """Ask to join, with this member's bytes under each protocol; a new member first gets its id.

        LabError with the broker's error when the group refuses this kind of member.
        """
        self.group, self.joining = group, (group, protocol_type, protocols, session_ms, rebalance_ms)
        request = {
            "group_id": group, "session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms, "group_instance_id": None,
            "protocol_type": protocol_type, "protocols": [(name, data) for name, data in protocols],
        }  # fmt: skip
        deadline = self._deadline(None)
        while not self.member_id:
            first = self._ask(self._request(JoinGroupRequest, JOIN, member_id="", **request), deadline, _joined)
            if first.error in NOT_YET and time.monotonic() + ASK_AGAIN_S < deadline:
                time.sleep(ASK_AGAIN_S)
                continue
            if first.error != MEMBER_ID_REQUIRED:
                raise self._refused_member("JoinGroup", first.error)
            self.member_id = first.member_id
        self.asked = self._send(
            self._request(JoinGroupRequest, JOIN, member_id=self.member_id, **request), LONGEST_ANSWER_BYTES
        )

    def receive_join(self, timeout_s: float | None = None) -> Joined:
        """The answer to the join, which comes when all have joined. LabError when it does not come, or refuses.

        A coordinator that looks for expired groups just then forgets one without offsets, and with it the id it has
        given to its first member: that one asks for another, as Java's client and librdkafka do.
        """
        deadline = self._deadline(timeout_s)
        while True:
            frame = self.connection.receive(deadline)
            if frame is None:
                raise self._silent(self.asked, "JoinGroup")
            found = self._take(frame)
            if found is not None and found[0] == self.asked:
                joined = _joined(found[1])
                if joined.error == UNKNOWN_MEMBER and self.generation < 0 and time.monotonic() < deadline:
                    self.member_id = ""
                    self.send_join(*self.joining)
                    continue
                if joined.error != NONE:
                    raise self._refused_member("JoinGroup", joined.error)
                self.generation = joined.generation
                return joined

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> bytes:
        """This member's assignment; the leader brings everybody's. It waits for the leader."""
        request = self._request(
            SyncGroupRequest, SYNC, group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=None, assignments=list((assignments or {}).items()),
        )  # fmt: skip
        error, data = self._ask(
            request, self._deadline(None), lambda answer: (answer.error_code, bytes(answer.assignment))
        )
        if error != NONE:
            raise self._refused_member("SyncGroup", error)
        return data

    def heartbeat(self) -> int:
        """The coordinator's word: 0, or 27 when a rebalance is under way, or that it does not know this member."""
        request = self._request(
            HeartbeatRequest, HEARTBEAT, group_id=self.group, generation_id=self.generation, member_id=self.member_id,
            group_instance_id=None,
        )  # fmt: skip
        return self._ask(request, self._deadline(None), lambda answer: int(answer.error_code))

    def wait_for_rebalance(self, timeout_s: float) -> None:
        """Beat until the coordinator says that a rebalance is under way. LabError when it does not."""
        deadline = time.monotonic() + timeout_s
        while self.heartbeat() != REBALANCE_IN_PROGRESS:
            if time.monotonic() > deadline:
                raise LabError(f"group {self.group}: no rebalance began within {timeout_s:g} s. Look at `kit status`.")
            time.sleep(ASK_AGAIN_S / 5)

    def leave(self) -> int:
        """Leave the group; the error."""
        request = self._request(LeaveGroupRequest, LEAVE, group_id=self.group, member_id=self.member_id)
        return self._ask(request, self._deadline(None), lambda answer: int(answer.error_code))

    def _refused_member(self, api: str, error: int) -> LabError:
        other = error == INCONSISTENT_PROTOCOL
        advice = (
            "Members of another kind use it; choose another group id."
            if other
            else "Join again, or look at `kit status`."
        )
        return LabError(
            f"{api} of group {self.group}: the broker answers error {error} ({for_code(error).__name__}). {advice}"
        )


def _joined(answer: Any) -> Joined:
    members = {each.member_id: bytes(each.metadata) for each in answer.members or ()}
    return Joined(
        int(answer.error_code), str(answer.member_id), int(answer.generation_id), str(answer.leader or ""),
        str(answer.protocol_name or ""), members,
    )  # fmt: skip

"""What a step of a consumer group's run says to a learner: a sentence for each word of member and coordinator.

The words and their data are listed in `kitlib.experiments.groups.group_run`. A step whose data are not what its
word promises is told as it stands (`kitlib.views.scene`).
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step
from kitlib.views.scene import Teller, tell_by
from kitlib.views.sentences import count, span
from kitlib.views.text import plain_text

Data = dict[str, Any]


def tell_group(step: Step) -> str:
    """The step's sentence: printable text on one line, not escaped for HTML."""
    return tell_by(GROUP_TELLERS, step)


def partitions(data: Data) -> str:
    """`partition 0`, `partitions 0, 1 and 2`; the topic is told where there are several."""
    held = [(str(topic), number) for topic, number, *_ in data["partitions"]]
    if not held:
        return "no partition"
    is_one_topic = len({topic for topic, _ in held}) == 1
    names = [plain_text(number if is_one_topic else f"{topic}-{number}", 40) for topic, number in held[:9]]
    names += [f"{len(held) - 9} more"] if len(held) > 9 else []
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return f"{'partition' if len(held) == 1 else 'partitions'} {listed}"


def _generation(data: Data) -> str:
    number = data.get("generation")
    return f" of generation {number:d}" if isinstance(number, int) and number >= 0 else ""


def _error(data: Data) -> str:
    error = str(data.get("error") or "NONE")
    return "" if error == "NONE" else plain_text(error, 50)


WHY_REFUSED = {
    "REBALANCE_IN_PROGRESS": "the group is being dealt anew",
    "UNKNOWN_MEMBER_ID": "the coordinator does not know this member any more",
    "ILLEGAL_GENERATION": "the group is in another generation by now",
    "FENCED_INSTANCE_ID": "another one runs under its name",
    "COMMIT_FAILED": "the group was dealt anew meanwhile",
    "STATE": "the partition is not its own any more",
}


def _refused(error: str) -> str:
    return f"{error}, {WHY_REFUSED[error]}" if error in WHY_REFUSED else error


def _append(who: str, data: Data) -> str:
    first, last = data["first"], data["last"]
    number = last - first + 1
    return f"{count(number, 'record')} {'arrives' if number == 1 else 'arrive'} in partition {data['partition']:d}: {span(first, last)}."


def _start(who: str, data: Data) -> str:
    why = plain_text(data.get("why", ""), 80)
    return f"{who} begins partition {data['partition']:d} at offset {data['offset']:d}" + (f" ({why})." if why else ".")


def _commit(who: str, data: Data) -> str:
    place = f"offset {data['offset']:d} of partition {data['partition']:d}"
    if error := _error(data):
        return f"{who} may not commit {place}: {_refused(error)}."
    if data.get("written", True):
        return f"{who} commits {place}: whoever has the partition next begins there."
    return f"{who} commits {place}, which was committed already."


def _store(who: str, data: Data) -> str:
    place = f"offset {data['offset']:d} of partition {data['partition']:d}"
    if error := _error(data):
        return f"{who} may not store {place}: {_refused(error)}."
    return f"{who} stores {place}, for the next commit in the background."


def _join(who: str, data: Data) -> str:
    wanted = ", ".join(plain_text(name, 40) for name in data.get("strategies", ()))
    return f"{who} joins the group" + (f", and offers {wanted}." if wanted else ".")


def _assigned(who: str, data: Data) -> str:
    if not data["partitions"]:
        return f"{who} is given no partition{_generation(data)}."
    return f"{who} is given {partitions(data)}{_generation(data)}."


EVICTED = {
    "session": "its heartbeats have stopped for the session time-out",
    "poll": "it has not polled for max.poll.interval.ms",
    "leave": "it left",
    "fenced": "another one runs under its name",
}


def _evict(who: str, data: Data) -> str:
    why = EVICTED.get(str(data.get("why")), plain_text(data.get("why", ""), 80))
    by = "ZooKeeper" if who == "zookeeper" else "The coordinator"
    return f"{by} strikes {plain_text(data['member'], 40)} off the group" + (f": {why}." if why else ".")


def _not_taken(who: str, data: Data) -> str:
    if "partitions" in data:
        return f"{who} wants {partitions(data)}, but another member's node is still there."
    return f"{who} is not taken into the group: {_error(data)}."


def _names(names: list[object]) -> str:
    told = [plain_text(name, 20) for name in names[:8]]
    told += [f"{len(names) - 8} more"] if len(names) > 8 else []
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told) or "nobody"


def _traffic(who: str, data: Data) -> str:
    return (
        f"In all {count(data['messages'], 'message')} to and from ZooKeeper for {count(data['members'], 'member')}; "
        f"a coordinator would have needed {data['coordinator_messages']:,}."
    )


def _restarted(who: str, data: Data) -> str:
    wanted = ", ".join(plain_text(name, 40) for name in data["strategies"])
    stood = f"; {count(data['paused'], 'partition')} stood still meanwhile" if "paused" in data else ""
    now = f" The group deals by {plain_text(data['protocol'], 40)} now." if data.get("protocol") else ""
    return f"{who} has been started again and offers {wanted}{stood}.{now}"


def _prepare(who: str, data: Data) -> str:
    why = plain_text(data.get("why") or "", 120)
    return "A rebalance begins" + (f": {why}." if why else ".") + " All members must join again."


def _sync(who: str, data: Data) -> str:
    leader = data.get("leader")
    who_deals = (
        f"{plain_text(leader, 40)} deals the partitions out" if leader else "the leader deals the partitions out"
    )
    by = f" by {plain_text(data['protocol'], 40)}" if data.get("protocol") else ""
    number = data.get("generation")
    joined = f"generation {number:d}" if isinstance(number, int) else "the group"
    return f"All have joined {joined}; {who_deals}{by}."


def _stable(who: str, data: Data) -> str:
    held: dict[str, int] = {}
    for _, _, name in data.get("owners") or ():
        if name is not None:
            held[plain_text(name, 20)] = held.get(plain_text(name, 20), 0) + 1
    told = ", ".join(f"{name} holds {number}" for name, number in list(held.items())[:8])
    number = data.get("generation")
    begin = f"Generation {number:d}" if isinstance(number, int) else "The group"
    return f"{begin} is stable" + (f": {told}." if told else ".")


def _alter(who: str, data: Data) -> str:
    of = f"partition {data['partition']:d}"
    if _error(data):
        return f"An operator wants to set the committed offset of {of} by hand and is refused: {_error(data)}."
    before = data.get("before")
    was = "there was none" if before is None else f"it was {before:d}"
    return f"An operator sets the committed offset of {of} to {data['offset']:d} by hand; {was}."


def _forget(who: str, data: Data) -> str:
    of = f"partition {data['partition']:d}"
    if _error(data):
        return f"An operator wants to delete the committed offset of {of} and is refused: {_error(data)}."
    before = data.get("before")
    was = "there was none" if before is None else f"it was {before:d}"
    return f"An operator deletes the committed offset of {of}; {was}. A tombstone is written, and the reset policy decides next time."


def _reset(who: str, data: Data) -> str:
    why = f": {plain_text(data['why'], 100)}" if data.get("why") else ""
    return f"{who}'s position {data['from']} is none of the log's; its reset policy sends it to {data['to']}{why}."


def _lag(who: str, data: Data) -> str:
    """What a monitor shows of one partition, beside what it cannot know."""
    end, committed = data.get("end", data.get("log_end")), data.get("committed")
    when = f"{plain_text(data['when'], 40)[:1].upper()}{plain_text(data['when'], 40)[1:]}: the" if data.get("when") else "The"
    place = f" of partition {data['partition']:d}" if "log_end" in data else ""
    if data["lag"] is None:
        told = f"{when} log{place} ends at {end:d}, nothing is committed: the monitor has no lag to show"
    else:
        told = f"{when} log{place} ends at {end:d}, committed is {committed:d}: a lag of {data['lag']:d}"
    if not isinstance(data.get("unprocessed"), int):
        return f"{told}."
    return f"{told}. What it cannot see: {count(data['unprocessed'], 'record')} {_are(data['unprocessed'])} not worked on."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


GROUP_TELLERS: dict[str, Teller] = {
    "append": _append,
    "start": _start,
    "emit": lambda who, data: f"{who}'s poll hands out offset {data['offset']:d} of partition {data['partition']:d}.",
    "process": lambda who, data: (
        f"{who} works on offset {data['offset']:d} of partition {data['partition']:d}: the effect happens now."
    ),
    "commit": _commit,
    "store": _store,
    "join": _join,
    "assigned": _assigned,
    "revoked": lambda who, data: f"{who} gives {partitions(data)} back; it may still commit them.",
    "lost": lambda who, data: f"{who} has lost {partitions(data)}: another member may have them already.",
    "leave": lambda who, data: f"{who} leaves the group.",
    "kill": lambda who, data: f"{who} is killed: it can say nothing to anybody.",
    "share": lambda who, data: (
        f"{data['consumers']} consumers: {data['at_work']} have partitions, {data['idle']} have none; nobody "
        f"has more than {data['most_partitions']}, so all is done {data['speed']:g} times as fast as by one."
    ),
    "freeze": lambda who, data: f"{who} is frozen: it does nothing, its heartbeats neither, and knows nothing of it.",
    "thaw": lambda who, data: f"{who} goes on as if nothing had happened.",
    "late": lambda who, data: f"{who} has not polled for max.poll.interval.ms and leaves the group by itself.",
    "cut_off": lambda who, data: f"{who} is cut off: nothing of it reaches the broker, and nothing comes back.",
    "reconnect": lambda who, data: f"{who} reaches the broker again.",
    "error": lambda who, data: f"{who} is told {_error(data)}, and cannot go on.",
    "alter": _alter,
    "forget": _forget,
    "reset": _reset,
    "refuse": lambda who, data: f"The {who} has a row for offset {data['offset']:d} already: the effect is not made again.",
    "rows": lambda who, data: (
        f"In the end the {who} has {count(data['rows'], 'row')} for {count(data['records'], 'record')}, "
        f"from {count(data['effects'], 'try', 'tries')}; {data['refused']:,} were not made again."
    ),
    "partitions": lambda who, data: f"The topic has {count(data['count'], 'partition')} now.",
    "throw": lambda who, data: (
        f"{who} fails at offset {data['offset']:d} of partition {data['partition']:d}, and nobody catches the error."
    ),
    "lag": _lag,
    "judge": lambda who, data: (
        f"The monitor says {plain_text(data['status'], 20)}: {plain_text(data['why'], 220).removeprefix(str(data['status']) + ': ')}."
    ),
    "delete": lambda who, data: f"The log now begins at offset {data['to']:d}: what lay below it is deleted.",
    "prepare": _prepare,
    "sync": _sync,
    "stable": _stable,
    "evict": _evict,
    "empty": lambda who, data: "The group has no member any more; its committed offsets stay.",
    "restarted": _restarted,
    # a group whose members watch ZooKeeper
    "notify": lambda who, data: (
        f"ZooKeeper tells {_names(data['members'])} that something has changed; nobody says what."
    ),
    "heard": lambda who, data: (
        f"{who} hears of it: it gives up what it has, reads the whole group's state, and deals for itself."
    ),
    "refused": _not_taken,
    "failed": lambda who, data: (
        f"{who} gives up after {count(data['tries'], 'try', 'tries')}: what it should read nobody reads."
    ),
    "expired": lambda who, data: f"{who} learns that its session has ended: its nodes are gone.",
    "traffic": _traffic,
}

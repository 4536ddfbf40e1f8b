"""Words of a consumer group: what members, the coordinator (or ZooKeeper), operators and monitors do."""

from __future__ import annotations

from kitlib.text import plain_text
from kitlib.words.glyphs import (
    ALARM,
    BRACKET,
    CLOCK,
    CROSSED_DISC,
    CROSSED_SQUARE,
    DIAMOND,
    EXIT,
    GOES_ON,
    IS_KILLED,
    PAUSE,
    PLAY,
    PLUS,
    RED,
    Glyph,
)
from kitlib.words.word import Data, Domain, Rule, Word, count, span, with_room


def partitions(data: Data) -> str:
    """`partition 0`, `partitions 0, 1 and 2`; with the topic where there are several."""
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
    return f" in generation {number:d}" if isinstance(number, int) and number >= 0 else ""


def _error(data: Data) -> str:
    error = str(data.get("error") or "NONE")
    return "" if error == "NONE" else plain_text(error, 50)


WHY_REFUSED = {
    "REBALANCE_IN_PROGRESS": "the group is rebalancing",
    "UNKNOWN_MEMBER_ID": "the coordinator no longer knows this member",
    "ILLEGAL_GENERATION": "the group has moved on to another generation",
    "FENCED_INSTANCE_ID": "another member has taken over its group.instance.id",
    "COMMIT_FAILED": "the group rebalanced in the meantime",
    "STATE": "it no longer owns the partition",
}


def _refused(error: str) -> str:
    return f"{error}, {WHY_REFUSED[error]}" if error in WHY_REFUSED else error


def _append(who: str, data: Data) -> str:
    first, last = data["first"], data["last"]
    number = last - first + 1
    return f"{count(number, 'record')} {'arrives' if number == 1 else 'arrive'} in partition {data['partition']:d}: {span(first, last)}."


def _start(who: str, data: Data) -> str:
    why = plain_text(data.get("why", ""), 80)
    return f"{who} starts reading partition {data['partition']:d} at offset {data['offset']:d}" + (f" ({why})." if why else ".")


def _commit(who: str, data: Data) -> str:
    place = f"offset {data['offset']:d} of partition {data['partition']:d}"
    if error := _error(data):
        return f"{who} cannot commit {place}: {_refused(error)}."
    if data.get("written", True):
        return f"{who} commits {place}: the next owner of the partition starts there."
    return f"{who} commits {place}, which was already committed."


def _store(who: str, data: Data) -> str:
    place = f"offset {data['offset']:d} of partition {data['partition']:d}"
    if error := _error(data):
        return f"{who} cannot store {place}: {_refused(error)}."
    return f"{who} stores {place} for the next background commit."


def _join(who: str, data: Data) -> str:
    wanted = ", ".join(plain_text(name, 40) for name in data.get("strategies", ()))
    return f"{who} joins the group" + (f" and supports {wanted}." if wanted else ".")


def _assigned(who: str, data: Data) -> str:
    if not data["partitions"]:
        return f"{who} is assigned no partition{_generation(data)}."
    return f"{who} is assigned {partitions(data)}{_generation(data)}."


EVICTED = {
    "session": "it sent no heartbeat within the session timeout",
    "poll": "it did not poll within max.poll.interval.ms",
    "leave": "it left",
    "fenced": "another member has taken over its group.instance.id",
}


def _evict(who: str, data: Data) -> str:
    why = EVICTED.get(str(data.get("why")), plain_text(data.get("why", ""), 80))
    by = "ZooKeeper" if who == "zookeeper" else "The coordinator"
    return f"{by} removes {data['member']} from the group" + (f": {why}." if why else ".")


def _not_taken(who: str, data: Data) -> str:
    if "partitions" in data:
        return f"{who} cannot claim {partitions(data)} yet: another member's node is still there."
    return f"{who} is not admitted to the group: {_error(data)}."


def _names(names: list[object]) -> str:
    told = [plain_text(name, 20) for name in names[:8]]
    told += [f"{len(names) - 8} more"] if len(names) > 8 else []
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told) or "no one"


def _traffic(who: str, data: Data) -> str:
    return (
        f"In total, {count(data['messages'], 'message')} to and from ZooKeeper for {count(data['members'], 'member')}; "
        f"a coordinator would have needed {data['coordinator_messages']:,}."
    )


def _restarted(who: str, data: Data) -> str:
    wanted = ", ".join(plain_text(name, 40) for name in data["strategies"])
    stood = f"; {count(data['paused'], 'partition')} stood still in the meantime" if "paused" in data else ""
    now = f" The group now uses {data['protocol']}." if data.get("protocol") else ""
    return f"{who} has restarted and supports {wanted}{stood}.{now}"


def _prepare(who: str, data: Data) -> str:
    why = plain_text(data.get("why") or "", 120)
    return "A rebalance begins" + (f": {why}." if why else ".") + " All members must rejoin."


def _sync(who: str, data: Data) -> str:
    leader = data.get("leader")
    who_deals = (
        f"{plain_text(leader, 40)} assigns the partitions" if leader else "the leader assigns the partitions"
    )
    by = f" with {data['protocol']}" if data.get("protocol") else ""
    number = data.get("generation")
    joined = f"generation {number:d}" if isinstance(number, int) else "the group"
    return f"All members have joined {joined}; {who_deals}{by}."


def _stable(who: str, data: Data) -> str:
    held: dict[str, int] = {}
    for _, _, name in data.get("owners") or ():
        if name is not None:
            held[plain_text(name, 20)] = held.get(plain_text(name, 20), 0) + 1
    told = ", ".join(f"{name} owns {number}" for name, number in list(held.items())[:8])
    number = data.get("generation")
    begin = f"Generation {number:d}" if isinstance(number, int) else "The group"
    return f"{begin} is stable" + (f": {told}." if told else ".")


def _alter(who: str, data: Data) -> str:
    of = f"partition {data['partition']:d}"
    if _error(data):
        return f"An operator tries to set the committed offset of {of} by hand and is refused: {_error(data)}."
    before = data.get("before")
    was = "there was none" if before is None else f"it was {before:d}"
    return f"An operator sets the committed offset of {of} to {data['offset']:d} by hand; {was}."


def _forget(who: str, data: Data) -> str:
    of = f"partition {data['partition']:d}"
    if _error(data):
        return f"An operator tries to delete the committed offset of {of} and is refused: {_error(data)}."
    before = data.get("before")
    was = "there was none" if before is None else f"it was {before:d}"
    after = "A tombstone is written; next time, auto.offset.reset decides where to start."
    return f"An operator deletes the committed offset of {of}; {was}. {after}"


def _reset(who: str, data: Data) -> str:
    why = f": {data['why']}" if data.get("why") else ""
    return f"{who}'s position {data['from']} is outside the log; auto.offset.reset moves it to {data['to']}{why}."


def _lag(who: str, data: Data) -> str:
    """What a monitor shows of one partition, beside what it cannot know."""
    end, committed = data.get("end", data.get("log_end")), data.get("committed")
    when = (
        f"{plain_text(data['when'], 40)[:1].upper()}{plain_text(data['when'], 40)[1:]}: the"
        if data.get("when")
        else "The"
    )
    place = f" of partition {data['partition']:d}" if "log_end" in data else ""
    if data["lag"] is None:
        told = f"{when} log{place} ends at {end:d} and nothing is committed: the monitor has no lag to show"
    else:
        told = f"{when} log{place} ends at {end:d}, and {committed:d} is committed: a lag of {data['lag']:d}"
    if not isinstance(data.get("unprocessed"), int):
        return f"{told}."
    return (
        f"{told}. What it cannot see: {count(data['unprocessed'], 'record')} {_are(data['unprocessed'])} not yet processed."
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _judge(who: str, data: Data) -> str:
    why = plain_text(data["why"], 220).removeprefix(f"{data['status']}: ")
    return f"The monitor says {data['status']}: {why}."


GROUPS = Domain(
    "groups",
    with_room(
        {
            "append": Word(
                _append, "first last", judged="append",
                about="record:first-last",
            ),
            "start": Word(
                _start, "offset", "why", judged="start", glyph=Glyph("starts reading", PLAY, "ink", 1.6, "paper"),
                about="partition:@",
                rule=Rule(
                    "A consumer starts at the committed offset; without one, auto.offset.reset decides.",
                    "mechanisms.positions:start_position",
                ),
            ),
            "emit": Word(
                "{who}'s poll returns offset {offset:d} of partition {partition:d}.", "offset", judged="emit",
                about="record:offset",
                rule=Rule(
                    "A poll returns records from the position on, max.poll.records at most.",
                    "mechanisms.groups.consumer:GroupConsumer.hand_out",
                ),
            ),
            "process": Word(
                "{who} processes offset {offset:d} of partition {partition:d}: the effect happens now.",
                "offset",
                judged="process",
                about="record:offset",
            ),
            "commit": Word(
                _commit, "offset", "error written", judged="commit",
                about="partition:@",
                rule=Rule(
                    "A commit is a claim: the next owner starts there, so everything below it counts as done.",
                    "mechanisms.groups.coordinator:GroupCoordinator._commit",
                ),
            ),
            "store": Word(
                _store, "offset", "error",
                about="partition:@",
                rule=Rule(
                    "A stored offset is committed with the next background commit.",
                    "mechanisms.groups.consumer:GroupConsumer.store",
                ),
            ),
            "join": Word(
                _join, "", "instance_id library member_id strategies", glyph=Glyph("joins the group", PLUS, "ink", 2.2),
                rule=Rule("A member that joins starts a rebalance.", "mechanisms.groups.coordinator:GroupCoordinator._join"),
            ),
            "assigned": Word(
                _assigned, "partitions", "generation",
                about="partition:partitions",
                rule=Rule(
                    "The group's leader assigns the partitions with the strategy that all members support.",
                    "more.assignors:assign",
                ),
            ),
            "revoked": Word(
                lambda who, data: f"{who} gives up {partitions(data)}; it may still commit.", "partitions",
                about="partition:partitions",
                rule=Rule(
                    "An eager member gives up everything before it rejoins; a cooperative one only what moves.",
                    "mechanisms.groups.member:GroupMembership._prepare",
                ),
            ),
            "lost": Word(
                lambda who, data: f"{who} has lost {partitions(data)}: another member may already have taken over.",
                "partitions",
                about="partition:partitions",
                rule=Rule(
                    "A member that the group has removed loses its partitions without being able to commit.",
                    "mechanisms.groups.member:GroupMembership._give_up",
                ),
            ),
            "leave": Word("{who} leaves the group.", glyph=Glyph("leaves the group", EXIT, "ink", 2)),
            "kill": Word("{who} is killed, with no chance to tell anyone.", "", "offset", glyph=IS_KILLED),
            "share": Word(
                lambda who, data: (
                    f"{count(data['consumers'], 'consumer')}: {data['at_work']} with partitions, {data['idle']} without. None has more "
                    f"than {count(data['most_partitions'], 'partition')}: {data['speed']:g} times the speed of one consumer."
                ),
                "at_work consumers idle most_partitions speed",
            ),
            "freeze": Word(
                "{who} is frozen: it does nothing, sends no heartbeats, and does not notice.",
                glyph=Glyph("is frozen", PAUSE, "ink", 2.6),
            ),
            "thaw": Word("{who} resumes as if nothing had happened.", glyph=GOES_ON),
            "lose_message": Word(
                "The network loses {message} {number:d} of {member}: the coordinator never sees it.", "member message number",
                glyph=Glyph("a message is lost", CROSSED_SQUARE, RED, 1.6, "paper"), about="process:member",
            ),
            "late": Word(
                "{who} has not polled within max.poll.interval.ms and leaves the group of its own accord.",
                glyph=Glyph("has not polled for too long", CLOCK, RED, 1.8, "paper"),
                rule=Rule(
                    "max.poll.interval.ms: a member that does not poll in time leaves the group.",
                    "mechanisms.groups.member:GroupMembership.tick",
                ),
            ),
            "cut_off": Word(
                "{who} is cut off: nothing it sends reaches the broker, and nothing comes back.",
                glyph=Glyph("is cut off from the broker", "M0 -8L-3 -4L3 0L-3 4L0 8", RED, 1.8),
            ),
            "reconnect": Word(
                "{who} reaches the broker again.",
                glyph=Glyph("reaches the broker again", "M-6 0A6 6 0 0 1 6 0M-3 0A3 3 0 0 1 3 0", "ink", 1.6),
            ),
            "error": Word(
                lambda who, data: f"{who} gets {_error(data)} and cannot continue.",
                "",
                "error offset",
                judged="error",
                glyph=Glyph("cannot continue", ALARM, RED, 1.8, "paper"),
            ),
            "alter": Word(
                _alter,
                "offset",
                "before error",
                judged="alter",
                glyph=Glyph("an operator sets the offset", "M0 -6L6 5H-6Z", RED, 1.8, "paper"),
                about="partition:@",
            ),
            "forget": Word(
                _forget,
                "",
                "before error",
                glyph=Glyph("an operator deletes the offset", "M0 -6L6 5H-6ZM-3 -1L3 5M3 -1L-3 5", RED, 1.6, "paper"),
                about="partition:@",
            ),
            "reset": Word(
                _reset,
                "from to",
                "why",
                judged="reset",
                glyph=Glyph("moved by auto.offset.reset", DIAMOND, RED, 1.8, "paper"),
                about="partition:@",
                rule=Rule(
                    "auto.offset.reset decides where a position outside the log moves to.",
                    "mechanisms.groups.consumer:GroupConsumer.check_positions",
                ),
            ),
            "refuse": Word(
                "The {who} already has a row for offset {offset:d}: the effect is not repeated.", "offset",
                about="record:offset",
            ),
            "rows": Word(
                lambda who, data: (
                    f"In the end, the {who} has {count(data['rows'], 'row')} for {count(data['records'], 'record')}, "
                    f"from {count(data['effects'], 'try', 'tries')}; {data['refused']:,} were not repeated."
                ),
                "effects records refused rows",
            ),
            "partitions": Word(lambda who, data: f"The topic now has {count(data['count'], 'partition')}.", "count"),
            "throw": Word(
                "{who} fails at offset {offset:d} of partition {partition:d}, and nothing catches the error.", "offset",
                about="record:offset partition:@",
            ),
            "lag": Word(
                _lag, "lag:whole?", "committed:whole? end log_end position unprocessed when",
                about="partition:@",
            ),
            "judge": Word(
                _judge, "status why", "lag rule silence_s stored_lag when",
                about="partition:@",
                rule=Rule(
                    "Burrow's rules are tried in order, and the first that holds decides.",
                    "mechanisms.lag:calculate",
                ),
            ),
            "delete": Word(
                "The log now begins at offset {to:d}: everything below it is deleted.",
                "to",
                judged="delete",
                glyph=Glyph("the start of the log is deleted", BRACKET, RED, 1.8),
                about="partition:@",
                aside=Rule(
                    "Retention deletes the oldest records, read or not.",
                    "experiments.groups.model_topic:ModelTopic.delete_before",
                ),
            ),
            "prepare": Word(
                _prepare, "", "state why",
                rule=Rule(
                    "A member that joins, leaves or times out starts a rebalance.",
                    "mechanisms.groups.coordinator:GroupCoordinator._maybe_prepare_rebalance",
                ),
            ),
            "sync": Word(
                _sync, "", "generation leader:text protocol",
                rule=Rule(
                    "When all members have rejoined, or the rebalance timeout is over, the next generation begins.",
                    "mechanisms.groups.coordinator:GroupCoordinator._complete_join",
                ),
            ),
            "stable": Word(
                _stable, "", "generation owners",
                about="partition:owners member:owners.2",
                rule=Rule(
                    "With the leader's assignment the group is stable.",
                    "mechanisms.groups.coordinator:GroupCoordinator._sync",
                ),
            ),
            "evict": Word(
                _evict, "member", "why", glyph=Glyph("removed from the group", CROSSED_DISC, RED, 1.8, "paper"),
                about="member:member",
                rule=Rule(
                    "A member that is silent for session.timeout.ms, or does not rejoin in time, is removed.",
                    "mechanisms.groups.coordinator:GroupCoordinator._remove",
                ),
            ),
            "empty": Word("The group has no members left; its committed offsets remain.", "", "generation"),
            "restarted": Word(_restarted, "strategies", "error paused protocol"),
            "notify": Word(
                lambda who, data: (
                    f"ZooKeeper notifies {_names(data['members'])} that something has changed, but not what."
                ),
                "members",
                about="member:members",
                rule=Rule(
                    "ZooKeeper notifies all who watch, once, that something has changed.",
                    "more.zookeeper:ZooKeeper.fire",
                ),
            ),
            "heard": Word(
                "{who} gets the notification: it gives up its partitions, reads the whole group's state, and picks its own share.",
                glyph=Glyph("notified that the group has changed", "M-5 -4H5V3H1L-2 6V3H-5Z", "ink", 1.4, "paper"),
                rule=Rule(
                    "Each consumer reads the whole group's state and computes its own share.",
                    "more.zookeeper:OldConsumer.decide",
                ),
            ),
            "known": Word(
                "{who} finds that offset {offset:d} of partition {partition:d} is already done, and skips it.",
                "offset",
                about="record:offset",
            ),
            "refused": Word(
                _not_taken,
                "",
                "error partitions says",
                glyph=Glyph("its commit is refused", CROSSED_SQUARE, RED, 1.6, "paper"),
                about="partition:partitions",
            ),
            "failed": Word(
                lambda who, data: (
                    f"{who} gives up after {count(data['tries'], 'try', 'tries')}: no one reads its share of the partitions."
                ),
                "tries",
                glyph=Glyph("gives up: cannot claim its partitions", CROSSED_SQUARE, "ink", 1.6, "paper"),
                rule=Rule(
                    "rebalance.max.retries: a consumer that cannot claim its partitions gives up.",
                    "more.zookeeper:OldConsumer.take",
                ),
            ),
            "expired": Word(
                "{who} learns that its session has expired: its nodes are gone.",
                glyph=Glyph("learns that its session expired", DIAMOND, "ink", 1.6, "paper"),
            ),
            "traffic": Word(_traffic, "coordinator_messages members:whole messages", "notifications reads refused writes"),
        },
        2.0,
        append=0.3,
        start=0.3,
        emit=0.3,
        process=0.3,
        commit=0.3,
        store=0.3,
    ),
    marks={
        "kill": "crash", "freeze": "frozen", "thaw": "resumes", "late": "time-out", "cut_off": "cut off", "reconnect": "back",
        "evict": lambda data: "" if data.get("why") in ("leave", None) else "time-out", "expired": "session expires",
        "alter": "offset set", "forget": "offset deleted", "reset": "reset", "delete": "log start moves", "error": "error",
        "throw": "error", "restarted": "restart", "lose_message": "message lost",
    },
)

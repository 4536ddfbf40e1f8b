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
from kitlib.words.template import phrase
from kitlib.words.word import Data, Domain, Rule, Word, rules, with_room

group_consumer = rules("mechanisms.groups.consumer:GroupConsumer.")
group_coordinator = rules("mechanisms.groups.coordinator:GroupCoordinator.")
group_membership = rules("mechanisms.groups.member:GroupMembership.")
old_consumer = rules("more.zookeeper:OldConsumer.")


@phrase
def partitions(places: list[list[object]]) -> str:
    """`partition 0`, `partitions 0, 1 and 2`; with the topic where there are several."""
    held = [(str(topic), number) for topic, number, *_ in places]
    if not held:
        return "no partition"
    is_one_topic = len({topic for topic, _ in held}) == 1
    names = [plain_text(number if is_one_topic else f"{topic}-{number}", 40) for topic, number in held[:9]]
    names += [f"{len(held) - 9} more"] if len(held) > 9 else []
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return f"{'partition' if len(held) == 1 else 'partitions'} {listed}"


WHY_REFUSED = {
    "REBALANCE_IN_PROGRESS": "the group is rebalancing",
    "UNKNOWN_MEMBER_ID": "the coordinator no longer knows this member",
    "ILLEGAL_GENERATION": "the group has moved on to another generation",
    "FENCED_INSTANCE_ID": "another member has taken over its group.instance.id",
    "COMMIT_FAILED": "the group rebalanced in the meantime",
    "STATE": "it no longer owns the partition",
}


@phrase
def _refused(error: str) -> str:
    return f"{error}, {WHY_REFUSED[error]}" if error in WHY_REFUSED else plain_text(error, 50)


EVICTED = {
    "session": "it sent no heartbeat within the session timeout",
    "poll": "it did not poll within max.poll.interval.ms",
    "leave": "it left",
    "fenced": "another member has taken over its group.instance.id",
}


@phrase
def _evicted(why: str) -> str:
    return EVICTED.get(why, plain_text(why, 80))


@phrase
def _people(names: list[object]) -> str:
    told = [plain_text(name, 20) for name in names[:8]]
    told += [f"{len(names) - 8} more"] if len(names) > 8 else []
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told) or "no one"


def _stable(who: str, data: Data) -> str:
    held: dict[str, int] = {}
    for _, _, name in data.get("owners") or ():
        if name is not None:
            held[plain_text(name, 20)] = held.get(plain_text(name, 20), 0) + 1
    told = ", ".join(f"{name} owns {number}" for name, number in list(held.items())[:8])
    number = data.get("generation")
    begin = f"Generation {number:d}" if isinstance(number, int) else "The group"
    return f"{begin} is stable" + (f": {told}." if told else ".")


def _judge(who: str, data: Data) -> str:
    why = plain_text(data["why"], 220).removeprefix(f"{data['status']}: ")
    return f"The monitor says {data['status']}: {why}."


GROUPS = Domain(
    "groups",
    with_room(
        {
            "append": Word("{arriving()} in partition {partition:d}: {span()}.", "first last", judged="append", about="record:first-last"),
            "start": Word(
                "{who} starts reading partition {partition:d} at offset {offset:d}[ ({why:80})].", "offset", "why", judged="start",
                glyph=Glyph("starts reading", PLAY, "ink", 1.6, "paper"), about="partition:@",
                rule=Rule(
                    "A consumer starts at the committed offset; without one, auto.offset.reset decides.",
                    "mechanisms.positions:start_position",
                ),
            ),
            "emit": Word(
                "{who}'s poll returns offset {offset:d} of partition {partition:d}.", "offset", judged="emit", about="record:offset",
                rule=group_consumer("hand_out", "A poll returns records from the position on, max.poll.records at most."),
            ),
            "process": Word(
                "{who} processes offset {offset:d} of partition {partition:d}: the effect happens now.",
                "offset",
                judged="process",
                about="record:offset",
            ),
            "commit": Word(
                "{who} [error?cannot commit|commits] offset {offset:d} of partition {partition:d}[error?: "
                "{error:refused()}|written=False?, which was already committed|: the next owner of the partition starts there].", "offset",
                "error written", judged="commit", about="partition:@",
                rule=group_coordinator(
                    "_commit", "A commit is a claim: the next owner starts there, so everything below it counts as done."
                ),
            ),
            "store": Word(
                "{who} [error?cannot store|stores] offset {offset:d} of partition {partition:d}[error?: {error:refused()}| for the next "
                "background commit].", "offset", "error", about="partition:@",
                rule=group_consumer("store", "A stored offset is committed with the next background commit."),
            ),
            "join": Word(
                "{who} joins the group[ and supports {strategies:listed()}].", "", "instance_id library member_id strategies",
                glyph=Glyph("joins the group", PLUS, "ink", 2.2),
                rule=group_coordinator("_join", "A member that joins starts a rebalance."),
            ),
            "assigned": Word(
                "{who} is assigned {partitions:partitions()}[generation>=0? in generation {generation:d}].", "partitions", "generation",
                about="partition:partitions",
                rule=Rule("The group's leader assigns the partitions with the strategy that all members support.", "more.assignors:assign"),
            ),
            "revoked": Word(
                "{who} gives up {partitions:partitions()}; it may still commit.", "partitions", about="partition:partitions",
                rule=group_membership(
                    "_prepare", "An eager member gives up everything before it rejoins; a cooperative one only what moves."
                ),
            ),
            "lost": Word(
                "{who} has lost {partitions:partitions()}: another member may already have taken over.", "partitions",
                about="partition:partitions",
                rule=group_membership("_give_up", "A member that the group has removed loses its partitions without being able to commit."),
            ),
            "leave": Word("{who} leaves the group.", glyph=Glyph("leaves the group", EXIT, "ink", 2)),
            "kill": Word("{who} is killed, with no chance to tell anyone.", "", "offset", glyph=IS_KILLED),
            "share": Word(
                "{consumers:consumer}: {at_work} with partitions, {idle} without. None has more than {most_partitions:partition}: "
                "{speed:g} times the speed of one consumer.", "at_work consumers idle most_partitions speed",
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
                rule=group_membership("tick", "max.poll.interval.ms: a member that does not poll in time leaves the group."),
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
                "{who} gets {error:50} and cannot continue.", "", "error offset", judged="error",
                glyph=Glyph("cannot continue", ALARM, RED, 1.8, "paper"),
            ),
            "alter": Word(
                "An operator [error?tries to set|sets] the committed offset of partition {partition:d} [error?by hand and is refused: "
                "{error:50}|to {offset:d} by hand; [before?it was {before:d}|there was none]].", "offset", "before error", judged="alter",
                glyph=Glyph("an operator sets the offset", "M0 -6L6 5H-6Z", RED, 1.8, "paper"), about="partition:@",
            ),
            "forget": Word(
                "An operator [error?tries to delete the committed offset of partition {partition:d} and is refused: {error:50}|deletes "
                "the committed offset of partition {partition:d}; [before?it was {before:d}|there was none]. A tombstone is written; next "
                "time, auto.offset.reset decides where to start].", "", "before error", judged="alter",
                glyph=Glyph("an operator deletes the offset", "M0 -6L6 5H-6ZM-3 -1L3 5M3 -1L-3 5", RED, 1.6, "paper"), about="partition:@",
            ),
            "reset": Word(
                "{who}'s position {from} is outside the log; auto.offset.reset moves it to {to}[: {why}].", "from to", "why",
                judged="reset", glyph=Glyph("moved by auto.offset.reset", DIAMOND, RED, 1.8, "paper"), about="partition:@",
                rule=group_consumer("check_positions", "auto.offset.reset decides where a position outside the log moves to."),
            ),
            "refuse": Word(
                "The {who} already has a row for offset {offset:d}: the effect is not repeated.", "offset",
                about="record:offset",
            ),
            "rows": Word(
                "In the end, the {who} has {rows:row} for {records:record}, from {effects:try/tries}; {refused:,} were not repeated.",
                "effects records refused rows",
            ),
            "partitions": Word("The topic now has {count:partition}.", "count"),
            "throw": Word(
                "{who} fails at offset {offset:d} of partition {partition:d}, and nothing catches the error.", "offset",
                about="record:offset partition:@",
            ),
            "lag": Word(
                "[when?{when:capital()}: the|The] log of partition {partition:d} ends at {log_end:d}[lag=None? and nothing is committed: "
                "the monitor has no lag to show|, and {committed:d} is committed: a lag of {lag:d}].[unprocessed>=0? What it cannot see: "
                "{unprocessed:record} {unprocessed:be()} not yet processed.]",
                "lag:whole? log_end", "committed:whole? position unprocessed when", about="partition:@",
            ),
            "judge": Word(
                _judge, "status why", "lag stored_lag when", about="partition:@",
                rule=Rule("Burrow's rules are tried in order, and the first that holds decides.", "mechanisms.lag:calculate"),
            ),
            "delete": Word(
                "The log now begins at offset {to:d}: everything below it is deleted.", "to", judged="delete",
                glyph=Glyph("the start of the log is deleted", BRACKET, RED, 1.8), about="partition:@",
                aside=Rule("Retention deletes the oldest records, read or not.", "experiments.groups.model_topic:ModelTopic.delete_before"),
            ),
            "prepare": Word(
                "A rebalance begins[: {why:120}]. All members must rejoin.", "", "state why",
                rule=group_coordinator("_maybe_prepare_rebalance", "A member that joins, leaves or times out starts a rebalance."),
            ),
            "sync": Word(
                "All members have joined [generation?generation {generation:d}|the group]; [leader?{leader:40}|the leader] assigns the "
                "partitions[ with {protocol}].", "", "generation leader:text protocol",
                rule=group_coordinator(
                    "_complete_join", "When all members have rejoined, or the rebalance timeout is over, the next generation begins."
                ),
            ),
            "stable": Word(
                _stable, "", "generation owners", about="partition:owners member:owners.2",
                rule=group_coordinator("_sync", "With the leader's assignment the group is stable."),
            ),
            "evict": Word(
                "[who=zookeeper?ZooKeeper|The coordinator] removes {member} from the group[: {why:evicted()}].", "member", "why",
                glyph=Glyph("removed from the group", CROSSED_DISC, RED, 1.8, "paper"), about="member:member",
                rule=group_coordinator(
                    "_remove", "A member that is silent for session.timeout.ms, or does not rejoin in time, is removed."
                ),
            ),
            "empty": Word("The group has no members left; its committed offsets remain.", "", "generation"),
            "restarted": Word(
                "{who} has restarted and supports {strategies:listed()}[paused?; {paused:partition} stood still in the meantime].[ The "
                "group now uses {protocol}.]", "strategies", "error paused protocol",
            ),
            "notify": Word(
                "ZooKeeper notifies [members?{members:people()}|no one] that something has changed, but not what.", "members",
                about="member:members",
                rule=Rule("ZooKeeper notifies all who watch, once, that something has changed.", "more.zookeeper:ZooKeeper.fire"),
            ),
            "heard": Word(
                "{who} gets the notification: it gives up its partitions, reads the whole group's state, and picks its own share.",
                glyph=Glyph("notified that the group has changed", "M-5 -4H5V3H1L-2 6V3H-5Z", "ink", 1.4, "paper"),
                rule=old_consumer("decide", "Each consumer reads the whole group's state and computes its own share."),
            ),
            "known": Word(
                "{who} finds that offset {offset:d} of partition {partition:d} is already done, and skips it.",
                "offset",
                about="record:offset",
            ),
            "refused": Word(
                "{who} is not admitted to the group: {error:50}.", "error", "says",
                glyph=Glyph("its commit is refused", CROSSED_SQUARE, RED, 1.6, "paper"),
            ),
            "expired": Word(
                "{who} learns that its session has expired: its nodes are gone.",
                glyph=Glyph("learns that its session expired", DIAMOND, "ink", 1.6, "paper"),
            ),
            "traffic": Word(
                "In total, {messages:message} to and from ZooKeeper for {members:member}; a coordinator would have needed "
                "{coordinator_messages:,}.", "coordinator_messages members:whole messages", "notifications reads writes",
            ),
        },
        2.0, **dict.fromkeys(("append", "start", "emit", "process", "commit", "store"), 0.3),
    ),
    marks={
        "kill": "crash", "freeze": "frozen", "thaw": "resumes", "late": "time-out", "cut_off": "cut off", "reconnect": "back",
        "evict": lambda data: "" if data.get("why") in ("leave", None) else "time-out", "expired": "session expires",
        "alter": "offset set", "forget": "offset deleted", "reset": "reset", "delete": "log start moves", "error": "error",
        "throw": "error", "restarted": "restart", "lose_message": "message lost",
    },
)

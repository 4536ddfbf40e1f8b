"""Words of a spout, its bolt and the log: the vocabulary of a PartitionManager's run.

log    append, delete, compact        spout  start, emit, ack, fail, reset, clear, give_up, commit, error, ...
bolt   process
"""

from __future__ import annotations

from kitlib.settings import Settings
from kitlib.words.template import count
from kitlib.words.word import Data, Domain, Rule, Word, rules

partition_log = rules("mechanisms.log:PartitionLog.")
partition_manager = rules("mechanisms.partition_manager:PartitionManager.")


def _reset(who: str, data: Data) -> str:
    before, after = data["from"], data["to"]
    asked, way = data.get("asked", before), "forward" if after > before else "back"
    if asked == before:
        return f"Offset {before:d} is out of range; the spout moves {way} to {after:d}."
    moves = f"stays at {after:d}" if after == before else f"moves {way} from {before:d} to {after:d}"
    return f"Failed offset {asked:d} is out of range; the spout's position {moves}."


# What a story adds


def _result(who: str, data: Data) -> str:
    counts, truth = data["counts"], data["truth"]
    wrong = sum(counts.get(word) != truth.get(word) for word in counts.keys() | truth.keys())
    told = f"{wrong:,} of them wrong" if wrong else "all of them right"
    return f"The table holds the counts of {count(len(counts), 'word')}, {told}."


MANAGER = "mechanisms.partition_manager:PartitionManager"


def _models(settings: Settings) -> dict[str, str]:
    """The PartitionManager of the release that a run's settings name."""
    if "max_uncommitted_offsets" in settings:
        return {MANAGER: "more.spout.uncommitted_cap:UncommittedCapManager"}
    if settings.release == "1.1.0" or "retry_limit" in settings:
        return {MANAGER: "more.spout.retry:BackoffPartitionManager"}
    return {MANAGER: "more.spout.earlier:EarlierPartitionManager"} if settings.release == "0.9.2" else {}


SPOUT = Domain(
    "spout",
    {
        "append": Word("{arriving()} in the log: {span()}.", "first last", "offsets parts", judged="append", about="record:first-last"),
        "delete": Word(
            "Retention deletes the start of the log: it now begins at offset {to:d}.", "to", judged="delete",
            aside=partition_log("delete_before", "Retention deletes the oldest records, read or not."),
        ),
        "compact": Word(
            "Compaction removes {offsets:record}; their offsets stay empty.", "offsets", judged="compact", about="record:offsets",
            rule=partition_log("compact", "Compaction removes a record; its offset stays empty."),
        ),
        "start": Word(
            "The spout starts at offset {offset:d}[: {why}].[stored!=@offset? Offset {stored:d} was stored.]", "offset",
            "stored topology_id why", judged="start",
            aside=partition_manager(
                "__post_init__", "A spout starts at its stored offset. If there is none, or it is too far behind, its settings choose."
            ),
        ),
        "emit": Word(
            "The spout emits offset {offset:d}[parts!=1? as {parts:d} tuples][attempt>1? again, attempt {attempt:d}].", "offset",
            "attempt parts:whole", judged="emit", about="record:offset",
            rule=partition_manager("next", "What was fetched is emitted in the order of offsets."),
            aside=partition_manager("fill", "When nothing is waiting, the spout fetches: failed offsets first, otherwise new ones."),
        ),
        "process": Word(
            "The bolt processes offset {offset:d}[part!=0?, part {part:d}]: the effect happens now.", "offset", "part", judged="process",
            about="record:offset",
        ),
        "ack": Word(
            "Offset {offset:d} is acked.", "offset", judged="ack", about="record:offset",
            rule=partition_manager("ack", "An ack takes the offset out of pending."),
        ),
        "fail": Word(
            "Offset {offset:d} fails[retry=False? and is NOT retried: the spout ignores the failure|; the spout will fetch it again].",
            "offset", "retry", judged="fail", about="record:offset",
            rule=partition_manager(
                "fail", "max_offset_behind: an offset that fails more than this far behind the end of what was fetched is not retried."
            ),
        ),
        "clear": Word(
            "That ack clears {ranges:spans()} from pending: too far behind, so the spout stops waiting.", "ranges", "by:whole",
            judged="clear", about="record:ranges",
            rule=partition_manager("ack", "max_offset_behind: an ack drops from pending what lies more than this far below it."),
        ),
        "give_up": Word(
            "The spout gives up on offset {offset:d}: no retries are left.", "offset", judged="give_up", about="record:offset",
            rule=Rule(
                "retry_limit: after this many retries, the spout gives up on the offset.", "more.spout.retry:BackoffPartitionManager.fail"
            ),
        ),
        "crash": Word("The worker dies; {on_their_way:in-flight tuple} [on_their_way=1?is|are] lost with it.", "", "lost on_their_way"),
        "lose": Word(
            "A tuple of offset {offset:d} is lost: the bolt never sees it, and the spout waits.", "offset", "attempt",
            about="record:offset",
        ),
        "lose_ack": Word(
            "The ack of offset {offset:d} is lost: its effect has happened, and the spout waits.", "offset", "attempt", judged="lose_ack",
            about="record:offset",
        ),
        "delay": Word("A tuple of offset {offset:d} is held back for {ms:,} ms.", "ms offset", "attempt", about="record:offset"),
        "double": Word("A tuple of offset {offset:d} is delivered twice.", "offset", "attempt", judged="double", about="record:offset"),
        "commit": Word(
            "[written=False?Nothing new to commit: still offset {offset:d}|The spout commits offset {offset:d}: everything below it "
            "counts as done].", "offset", "written", judged="commit",
            aside=partition_manager(
                "last_completed_offset",
                "The commit is the smallest pending offset, or else the end of what was fetched: everything below it counts as done.",
            ),
        ),
        "reset": Word(
            _reset, "from to", "asked", judged="reset",
            aside=partition_manager(
                "fill", "use_start_offset_time_if_offset_out_of_range: a fetch outside the log moves the position and nothing else."
            ),
        ),
        "idle": Word("The spout finds nothing to emit."),
        "error": Word(
            "The spout throws {error}[: {message:160}].", "error", "message", judged="error",
            rule=partition_manager(
                "check_tuple_failures", "A spout that has acked nothing and failed more than max_offset_behind offsets dies."
            ),
        ),
        "stop": Word("The spout stops."),
        "result": Word(_result, "counts truth"),
        "sample": Word(
            "So far {acked:tree} acked and {failed:,} failed; {wasted:,} of {executed:effect} wasted; {pending:,} trees pending, "
            "{queue:,} tuples queued.", "acked executed failed pending queue wasted", "late",
        ),
        "odds": Word(
            "{messages:message} arrived while a tree still had open tuples: its ack value was zero by chance {false_completions:time}; "
            "{predicted:g} were expected.", "false_completions messages predicted",
        ),
    },
    marks={
        "crash": "crash", "start": "restart", "reset": "reset", "clear": "clear", "give_up": "gives up", "lose": "tuple lost",
        "lose_ack": "ack lost", "double": "sent twice", "delay": "held back", "error": "error",
        "delete": "log start moves",
    },
    models=_models,
)

"""Words of a topology's tasks: those that only tasks use, or use differently from a spout and a bolt.

An id is shown bit by bit when it and those beside it have at most 16 bits, so that a reader can follow the
XOR; for a longer one, the last digits are enough to distinguish it from others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kitlib.text import plain_text
from kitlib.words.spout import SPOUT
from kitlib.words.word import Data, Domain, Rule, Word, count

MASK = 2**64 - 1
SIZES = (4, 8, 16, 64)  # bits of an id, as it is shown
FEW_ROOTS = 4  # more of them are counted
FAULTS = {
    "hang": "hangs", "raise": "exception", "fail": "fails", "drop": "drops", "ack_twice": "acks twice", "unanchored": "not anchored",
    "lose": "lost in transit",
    "delay": "held back",
    "double": "sent twice",
}  # fmt: skip


def bits_of(declared: object, values: Iterable[int]) -> int:
    """How many bits the ids are drawn with: those that the run declares, and as many as its values need."""
    high = max((value if value >= 0 else MASK for value in values), default=0)
    bits = declared if isinstance(declared, int) and declared in SIZES else SIZES[0] if high else SIZES[-1]
    return next((size for size in SIZES if size >= bits and high < 1 << size), SIZES[-1])


def to_id(value: int, bits: int) -> str:
    """An id as a learner reads it: its bits in groups of four, or of a wide one the last digits."""
    if bits > 16:
        return "…" + f"{value & MASK:016x}"[-4:]
    digits = f"{value & MASK:0{bits}b}"
    return " ".join(digits[at : at + 4] for at in range(0, len(digits), 4))


def to_root(root: int) -> str:
    """A root id, shortened."""
    digits = f"{root & MASK:x}"
    return digits if len(digits) <= 4 else "…" + digits[-4:]


def _task_emit(who: str, data: Data) -> str:
    attempt, sent, root = data.get("attempt", 1), data["tuples"], data["root"]
    again = f" again (attempt {attempt:d})" if attempt > 1 else ""
    to = " and ".join(dict.fromkeys(plain_text(task, 40) for _, task, _ in sent)) or "no one"
    what = f"offset {data['offset']:d}" if data.get("offset") is not None else "a tuple"
    begin = f"{who} emits {what}{again} to {to}"
    if root is None:
        return f"{begin}; it is not tracked."
    ids = [made for _, _, made in sent]
    told = f"with id {_id(ids[0], ids)}" if len(ids) == 1 else f"with {count(len(ids), 'tuple')}"
    return f"{begin}: the tree {to_root(root)} begins {told}."


def _execute(who: str, data: Data) -> str:
    return f"{who} executes tuple {data['tuple']:d}: {_values(data)}."


def _send(who: str, data: Data) -> str:
    begin = f"{who} sends tuple {data['tuple']:d} to {data['to']}: {_values(data)}"
    parents, ids = data["parents"], data["ids"]
    if not parents:
        return f"{begin}. It is not anchored, so no tree will miss it."
    to = " and ".join(f"{parent:d}" for parent in parents)
    if not ids:
        return f"{begin}. It is anchored to tuple {to}, which is not tracked."
    made = [value for _, value in ids]
    trees = " and ".join(f"{_id(value, made)} in the tree {to_root(root)}" for root, value in ids[:FEW_ROOTS])
    return f"{begin}. It is anchored to tuple {to}; its id is {trees}."


def _bolt_ack(who: str, data: Data) -> str:
    begin, vals = f"{who} acks tuple {data['tuple']:d}", data["vals"]
    if not vals:
        return f"{begin}, which is not tracked."
    shown = [value for _, value in vals]
    told = " and ".join(f"{_id(value, shown)} for the tree {to_root(root)}" for root, value in vals[:FEW_ROOTS])
    return f"{begin}: its id XOR the ids it sent is {told}."


def _bolt_fail(who: str, data: Data) -> str:
    begin, roots = f"{who} fails tuple {data['tuple']:d}", data["roots"]
    return f"{begin}, and with it {_trees(roots)}." if roots else f"{begin}, which is not tracked."


def _task_process(who: str, data: Data) -> str:
    part = data.get("part")
    which = f", part {part:d}" if part else ""
    return f"{who} processes offset {data['offset']:d}{which}: the effect happens now."


def _fault(who: str, data: Data) -> str:
    kind, number = data["kind"], data.get("tuple")
    which = "a message" if number is None else f"tuple {number:d}"
    if kind == "hang":
        ms = data.get("ms")
        return f"A fault: {who} hangs on {which}{' forever' if ms is None else f' for another {ms:,} ms'}."
    if kind == "raise":
        error = f" ({data['error']})" if "error" in data else ""
        return f"A fault: {who} throws an exception{f' on {which}' if number is not None else ''}{error}."
    told = {
        "fail": f"{who} fails {which}",
        "drop": f"{who} drops {which}; it will be neither acked nor failed",
        "ack_twice": f"{who} acks {which} a second time",
        "unanchored": f"{who} forgets to anchor the tuples it sends for {which}",
        "lose": f"{which} to {who} is lost in transit",
        "delay": f"{which} to {who} is held back for {data.get('ms', 0):,} ms",
        "double": f"{which} to {who} is delivered twice",
    }
    return f"A fault: {told[kind]}."


def _acker_entry(who: str, data: Data) -> str:
    """An init or an ack at the acker, with the number before and after."""
    before, val, end = data["before"], data["val"], data["end"]
    result = (before or 0) ^ val
    shown = [before or 0, val, result]
    what = "the init of the tree" if "spout_task" in data else "an ack in the tree"
    told = f"{_id(before, shown)} XOR {_id(val, shown)} = " if before is not None else "its ack value is "
    begin = f"{who} receives {what} {to_root(data['root'])}: {told}{_id(result, shown)}."
    if end == "ack":
        return f"{begin} Zero: the acker considers the tree complete."
    if end == "fail":
        return f"{begin} It had already failed: the acker notifies the spout."
    if result == 0:
        return f"{begin} Zero, but the acker does not know which spout to notify."
    return begin


def _acker_fail(who: str, data: Data) -> str:
    begin = f"{who} is notified that the tree {to_root(data['root'])} has failed"
    ends = {"fail": " and notifies the spout", "ack": ", but its ack value is zero: it considers the tree complete"}
    return begin + ends.get(data["end"], "; it does not yet know which spout to notify") + "."


def _acker_reset(who: str, data: Data) -> str:
    begin = f"{who} is notified that the tree {to_root(data['root'])} is still being processed"
    return begin + (" and notifies the spout." if data["end"] == "reset" else ".")


def _acker_tick(who: str, data: Data) -> str:
    dropped = data["dropped"]
    return f"One timeout interval has passed: {who} discards {_trees(dropped) if dropped else 'nothing'}."


def _spout_tick(who: str, data: Data) -> str:
    expired = data["expired"]
    told = count(expired, "tree") if expired else "no tree"
    return f"One timeout interval has passed: {told} of {who} timed out."


def _task_ack(who: str, data: Data) -> str:
    what = f"Offset {data['offset']:d}" if data.get("offset") is not None else "A tuple"
    root, open_tuples = data["root"], data.get("outstanding", 0)
    if root is None:
        return f"{what} is acked as soon as it is emitted: it is not tracked."
    if open_tuples:
        are = "tuple is" if open_tuples == 1 else "tuples are"
        return f"{what} is acked, but {open_tuples:,} {are} not: the tree {to_root(root)} looked complete by chance."
    return f"{what} is acked: the tree {to_root(root)} is complete."


def _task_fail(who: str, data: Data) -> str:
    what = f"Offset {data['offset']:d}" if data.get("offset") is not None else "A tuple"
    why = "timed out" if data["why"] == "timeout" else "has failed"
    begin = f"{what} fails because its tree {to_root(data['root'])} {why}"
    if data.get("retry", True):
        return f"{begin}; {who} will emit it again."
    return f"{begin}; it is NOT emitted again."


def _late(who: str, data: Data) -> str:
    answer = plain_text(data["answer"], 10)
    return f"The {answer} of the tree {to_root(data['root'])} arrives late: {who} is no longer waiting for it."


def _task_crash(who: str, data: Data) -> str:
    what = "tree" if who.startswith("__acker-") or "topic" in data else "tuple"
    lost = data["lost"]
    return f"{who} dies; {count(lost, what)} {'is' if lost == 1 else 'are'} lost with it."


def _id(value: int, beside: list[int]) -> str:
    """An id with as many bits as those beside it need: up to 16 bit by bit, else the last digits."""
    return to_id(value, bits_of(SIZES[0], beside))


def _trees(roots: list[int]) -> str:
    if len(roots) > FEW_ROOTS:
        return count(len(roots), "tree")
    return f"the {'tree' if len(roots) == 1 else 'trees'} {', '.join(to_root(root) for root in roots)}"


def _values(data: Data) -> str:
    return plain_text(", ".join(str(value) for value in data["values"]), 60) or "no values"


def _models(knobs: Mapping[str, Any]) -> dict[str, str]:
    """The acker of the release that a run's knobs name."""
    return {"mechanisms.acker:Acker": "more.topology.later_acker:LaterAcker"} if knobs.get("acker_release") == "2.4.0" else {}


TOPOLOGY = Domain(
    "topology",
    SPOUT.having(
        {
            "emit": Word(
                _task_emit, "root:whole? tuples", "attempt offset val values", judged="emit",
                about="record:offset tree:root tuple:tuples.0",
                rule=Rule(
                    "A spout tuple with a message id begins a tree: its acker gets the XOR of the ids sent.",
                    "more.topology.tasks:SpoutCollector.emit",
                ),
                aside=Rule(
                    "When nothing is waiting, the spout fetches: failed offsets first, otherwise new ones.",
                    "mechanisms.partition_manager:PartitionManager.fill",
                ),
            ),
            "execute": Word(
                _execute, "tuple values",
                about="tuple:tuple",
            ),
            "send": Word(
                _send, "ids parents to:text tuple values", judged="send",
                about="tuple:tuple tuple:parents tree:ids.0",
                rule=Rule(
                    "Anchoring: the new tuple gets one new id for each tree that its parents belong to.",
                    "more.topology.tasks:BoltCollector.emit",
                ),
            ),
            "bolt_ack": Word(
                _bolt_ack, "tuple vals",
                about="tuple:tuple tree:vals.0",
                rule=Rule(
                    "An ack sends the acker the tuple's id XOR the ids of the tuples sent for it.",
                    "more.topology.tasks:BoltCollector.ack",
                ),
            ),
            "bolt_fail": Word(
                _bolt_fail, "roots tuple",
                about="tuple:tuple tree:roots",
                rule=Rule(
                    "A tuple that fails fails every tree it belongs to.",
                    "more.topology.tasks:BoltCollector.fail",
                ),
            ),
            "process": Word(
                _task_process, "offset", "part", judged="process",
                about="record:offset",
            ),
            "fault": Word(
                _fault, "kind", "error ms:whole? tuple:whole?", judged="double",
                about="tuple:tuple",
            ),
            "acker_init": Word(
                _acker_entry, "before end:text? root val", "after spout_task",
                about="tree:root",
                rule=Rule(
                    "The acker XORs all ids of a tree into one number; zero means complete.",
                    "mechanisms.acker:Acker.init",
                ),
            ),
            "acker_ack": Word(
                _acker_entry, "before end:text? root val", "after",
                about="tree:root",
                rule=Rule(
                    "The acker XORs all ids of a tree into one number; zero means complete.",
                    "mechanisms.acker:Acker.ack",
                ),
            ),
            "acker_fail": Word(
                _acker_fail, "end:text? root", "after before",
                about="tree:root",
                rule=Rule(
                    "A tree with a failed tuple ends as failed once its spout is known.",
                    "mechanisms.acker:Acker.fail",
                ),
            ),
            "acker_reset": Word(
                _acker_reset, "end:text? root",
                about="tree:root",
                rule=Rule(
                    "A tree that is still being processed gets a new timeout.",
                    "mechanisms.acker:Acker.reset_timeout",
                ),
            ),
            "acker_tick": Word(
                _acker_tick, "dropped",
                about="tree:dropped",
                rule=Rule(
                    "The acker drops an entry that no message has renewed for a whole timeout interval.",
                    "mechanisms.rotating_map:RotatingMap.rotate",
                ),
            ),
            "spout_tick": Word(
                _spout_tick, "expired",
                rule=Rule(
                    "A tree that stays pending for a whole timeout interval fails.",
                    "more.topology.tasks:SpoutTask.tick",
                ),
            ),
            "ack": Word(
                _task_ack, "root:whole?", "offset outstanding", judged="ack",
                about="record:offset tree:root",
                rule=Rule(
                    "When the acker reports its tree as complete, the spout acks the offset.",
                    "more.topology.tasks:SpoutTask.hear",
                ),
            ),
            "fail": Word(
                _task_fail, "root why", "offset retry", judged="fail",
                about="record:offset tree:root",
                rule=Rule(
                    "A tree that fails or times out is emitted again, unless it lies more than max_offset_behind behind.",
                    "more.topology.tasks:SpoutTask._end",
                ),
            ),
            "late": Word(
                _late, "answer root",
                about="tree:root",
                rule=Rule(
                    "The spout forgets a tree when it ends, so a later answer changes nothing.",
                    "more.topology.tasks:SpoutTask.hear",
                ),
            ),
            "crash": Word(_task_crash, "lost"),
            "restart": Word("{who} is back, and remembers nothing."),
        }
    ),
    marks={
        "crash": "crash", "restart": "restart", "reset": "reset", "clear": "clear", "error": "error",
        "fault": lambda data: FAULTS[data["kind"]],
        "fail": lambda data: "time-out" if data["why"] == "timeout" else "",
    },
    models=_models,
)

"""Words of a topology's tasks: those that only tasks use, or use differently from a spout and a bolt.

An id is shown bit by bit when it and those beside it have at most 16 bits, so that a reader can follow the
XOR; for a longer one, the last digits are enough to distinguish it from others.
"""

from __future__ import annotations

from collections.abc import Iterable

from kitlib.settings import Settings
from kitlib.text import plain_text
from kitlib.words.spout import SPOUT
from kitlib.words.template import count, phrase
from kitlib.words.word import Data, Domain, Rule, Word, rules

bolt_collector = rules("more.topology.tasks:OutputCollector.")
acker = rules("mechanisms.acker:Acker.")
spout_task = rules("more.topology.tasks:SpoutTask.")

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


@phrase
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


def _send(who: str, data: Data) -> str:
    begin = f"{who} sends tuple {data['tuple']:d} to {data['to']}: {_values(data['values'])}"
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


@phrase
def _which(data: Data) -> str:
    number = data.get("tuple")
    return "a message" if number is None else f"tuple {number:d}"


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


def _task_crash(who: str, data: Data) -> str:
    what = "tree" if who.startswith("__acker-") or "topic" in data else "tuple"
    lost = data["lost"]
    return f"{who} dies; {count(lost, what)} {'is' if lost == 1 else 'are'} lost with it."


def _id(value: int, beside: list[int]) -> str:
    """An id with as many bits as those beside it need: up to 16 bit by bit, else the last digits."""
    return to_id(value, bits_of(SIZES[0], beside))


@phrase
def _trees(roots: list[int]) -> str:
    if len(roots) > FEW_ROOTS:
        return count(len(roots), "tree")
    return f"the {'tree' if len(roots) == 1 else 'trees'} {', '.join(to_root(root) for root in roots)}"


@phrase
def _values(values: list[object]) -> str:
    return plain_text(", ".join(map(str, values)), 60) or "no values"


def _models(settings: Settings) -> dict[str, str]:
    """The acker of the release that a run's settings name."""
    return {"mechanisms.acker:Acker": "more.topology.later_acker:LaterAcker"} if settings.acker_release == "2.4.0" else {}


TOPOLOGY = Domain(
    "topology",
    SPOUT.having(
        {
            "emit": Word(
                _task_emit, "root:whole? tuples", "attempt offset val values", judged="emit",
                about="record:offset tree:root tuple:tuples.0",
                rule=Rule(
                    "A spout tuple with a message id begins a tree: its acker gets the XOR of the ids sent.",
                    "more.topology.tasks:SpoutOutputCollector.emit",
                ),
                aside=Rule(
                    "When nothing is waiting, the spout fetches: failed offsets first, otherwise new ones.",
                    "mechanisms.partition_manager:PartitionManager.fill",
                ),
            ),
            "execute": Word("{who} executes tuple {tuple:d}: {values:values()}.", "tuple values", judged="execute", about="tuple:tuple"),
            "send": Word(
                _send, "ids parents to:text tuple values", judged="send", about="tuple:tuple tuple:parents tree:ids.0",
                rule=bolt_collector("emit", "Anchoring: the new tuple gets one new id for each tree that its parents belong to."),
            ),
            "bolt_ack": Word(
                _bolt_ack, "tuple vals", about="tuple:tuple tree:vals.0",
                rule=bolt_collector("ack", "An ack sends the acker the tuple's id XOR the ids of the tuples sent for it."),
            ),
            "bolt_fail": Word(
                "{who} fails tuple {tuple:d}, [roots?and with it {roots:trees()}|which is not tracked].", "roots tuple",
                about="tuple:tuple tree:roots", rule=bolt_collector("fail", "A tuple that fails fails every tree it belongs to."),
            ),
            "process": Word(
                "{who} processes offset {offset:d}[part!=0?, part {part:d}]: the effect happens now.", "offset", "part", judged="process",
                about="record:offset",
            ),
            "fault": Word(
                "A fault: [kind=hang?{who} hangs on {which()}[ms? for another {ms:,} ms| forever]|kind=raise?{who} throws an "
                "exception[tuple? on {which()}][ ({error})]|kind=fail?{who} fails {which()}|kind=drop?{who} drops {which()}; it will be "
                "neither acked nor failed|kind=ack_twice?{who} acks {which()} a second time|kind=unanchored?{who} forgets to anchor the "
                "tuples it sends for {which()}|{which()} to {who} is [kind=lose?lost in transit|kind=delay?held back for {ms:,} "
                "ms|kind=double?delivered twice|{kind}]].",
                "kind", "error ms:whole? tuple:whole?", judged="double", about="tuple:tuple",
            ),
            "acker_init": Word(
                _acker_entry, "before end:text? root val", "after spout_task", about="tree:root",
                rule=acker("init", "The acker XORs all ids of a tree into one number; zero means complete."),
            ),
            "acker_ack": Word(
                _acker_entry, "before end:text? root val", "after", about="tree:root",
                rule=acker("ack", "The acker XORs all ids of a tree into one number; zero means complete."),
            ),
            "acker_fail": Word(
                "{who} is notified that the tree {root:to_root()} has failed[end=fail? and notifies the spout|end=ack?, but its ack value "
                "is zero: it considers the tree complete|; it does not yet know which spout to notify].", "end:text? root", "after before",
                about="tree:root", rule=acker("fail", "A tree with a failed tuple ends as failed once its spout is known."),
            ),
            "acker_reset": Word(
                "{who} is notified that the tree {root:to_root()} is still being processed[end=reset? and notifies the spout].",
                "end:text? root", about="tree:root",
                rule=acker("reset_timeout", "A tree that is still being processed gets a new timeout."),
            ),
            "acker_tick": Word(
                "One timeout interval has passed: {who} discards [dropped?{dropped:trees()}|nothing].", "dropped", about="tree:dropped",
                rule=Rule(
                    "The acker drops an entry that no message has renewed for a whole timeout interval.",
                    "mechanisms.rotating_map:RotatingMap.rotate",
                ),
            ),
            "spout_tick": Word(
                "One timeout interval has passed: [expired=0?no tree|{expired:tree}] of {who} timed out.", "expired",
                rule=spout_task("tick", "A tree that stays pending for a whole timeout interval fails."),
            ),
            "ack": Word(
                "[offset?Offset {offset:d}|A tuple] is acked[root=None? as soon as it is emitted: it is not tracked|outstanding>0?, but "
                "{outstanding:,} [outstanding=1?tuple is|tuples are] not: the tree {root:to_root()} looked complete by chance|: the tree "
                "{root:to_root()} is complete].", "root:whole?", "offset outstanding", judged="ack", about="record:offset tree:root",
                rule=spout_task("hear", "When the acker reports its tree as complete, the spout acks the offset."),
            ),
            "fail": Word(
                "[offset?Offset {offset:d}|A tuple] fails because its tree {root:to_root()} [why=timeout?timed out|has failed]; "
                "[retry=False?it is NOT emitted again|{who} will emit it again].", "root why", "offset retry", judged="fail",
                about="record:offset tree:root",
                rule=spout_task(
                    "_end", "A tree that fails or times out is emitted again, unless it lies more than max_offset_behind behind."
                ),
            ),
            "late": Word(
                "The {answer:10} of the tree {root:to_root()} arrives late: {who} is no longer waiting for it.", "answer root",
                about="tree:root", rule=spout_task("hear", "The spout forgets a tree when it ends, so a later answer changes nothing."),
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

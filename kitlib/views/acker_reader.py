"""The messages to the ackers in a trace, read into ledgers: what each one told, and what became of the entry.

An acker's message does not say who sent it. But each one was sent by a bolt before, and messages of one
tree with one value are alike, so the oldest of them that is still on its way is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.text import plain_text
from kitlib.trace import Step
from kitlib.views.forest import GONE, NEVER, EntryView, Forest
from kitlib.views.ledger_rows import LedgerRow, Told, listed, to_hex, to_short_id, verdict_on, wrapped
from kitlib.words.topology import to_id

Line = tuple[str, str]
ENDS = ("ack", "fail")  # of a tree; "reset" is none


@dataclass(slots=True)
class GivenTuple:
    """A tuple while the trace is read."""

    task: int
    ids: dict[int, int]  # tree -> id
    parents: list[int]
    children: list[int] = field(default_factory=list)  # anchored to it
    last_heard: int = NEVER  # the last step of the whole trace in which its task did something with it


@dataclass(slots=True)
class Growth:
    """The trees as far as they have grown: what both readers need."""

    forest: Forest
    tuples: list[GivenTuple] = field(default_factory=list)
    open_counts: list[int] = field(default_factory=list)  # per tree: its tuples of whose ack no acker has heard
    heard: set[tuple[int, int]] = field(default_factory=set)  # (tuple, tree) of those acks that an acker heard
    first_edges: dict[int, list[int]] = field(default_factory=dict)  # tree -> the tuples that the spout sent
    messages: dict[int, list[tuple[int | None, int, list[int]]]] = field(default_factory=dict)
    # root -> what bolts sent to its acker and did not arrive yet: (value, or None for a fail; tuple; its children)

    def ids_of(self, tuples: list[int], tree: int) -> list[tuple[int, int]]:
        """The ids that these tuples have in a tree; those that are not in it are left out."""
        return [(place, self.tuples[place].ids[tree]) for place in tuples if tree in self.tuples[place].ids]

    def task_of(self, place: int) -> str:
        """The name of the task that a tuple was sent to."""
        return self.forest.tasks[self.tuples[place].task]


@dataclass(slots=True)
class _Entry:
    """An acker's entry while the trace is read."""

    view: EntryView
    told: Told = field(default_factory=Told)
    is_claimed: bool = False  # an init came, so somebody waits for its end


class AckerReader:
    """The ackers' entries while the steps go by."""

    def __init__(self, growth: Growth, *, is_renewing: bool) -> None:
        """`is_renewing`: whether init and ack put an entry into the newest bucket, as in Storm 0.9.3."""
        self.growth, self.forest, self.bits = growth, growth.forest, growth.forest.bits
        self.is_renewing = is_renewing
        self.entries: dict[int, dict[int, _Entry]] = {}  # acker task -> root -> entry
        self.swept: list[EntryView] = []  # dropped by the last tick, to be cleared at the next step

    def sweep(self, step: Step) -> None:
        """What the last tick dropped is shown until the next step."""
        for view in self.swept:
            view.bucket.put(step.number, GONE)
        self.swept.clear()

    def init(self, step: Step, acker: int, tree: int) -> None:
        """`__ack_init` came from the spout."""
        ids = self.growth.ids_of(self.growth.first_edges.get(tree, []), tree)
        shown = listed((value for _, value in ids), self.bits)
        told = f"The XOR of the ids sent: {shown}." if len(ids) > 1 else "The id of the tuple sent."
        spout = self.forest.trees[tree].spout
        sender = self.forest.tasks[spout] if spout != NEVER else f"task {plain_text(step.data['spout_task'], 20)}"
        entry = self._entry(step, acker, tree)
        entry.is_claimed, entry.view.tree = True, tree
        is_told = _xor(ids) == step.data["val"]
        self._note(
            step, entry, tree, f"init from {sender}", ids if is_told else None, wrapped(told, "ink") if ids else []
        )

    def ack(self, step: Step, acker: int, tree: int) -> int:
        """`__ack_ack` came from a bolt; the tuple that it acked."""
        entry, val = self._entry(step, acker, tree), step.data["val"]
        place, children = self._sender(step.data["root"], val)
        if place == NEVER or tree not in self.growth.tuples[place].ids:
            self._note(step, entry, tree, "ack", None, [])
            return place
        if (place, tree) not in self.growth.heard:
            self.growth.heard.add((place, tree))
            self.growth.open_counts[tree] -= 1
        own, sent = self.growth.tuples[place].ids[tree], self.growth.ids_of(children, tree)
        is_told = own ^ _xor(sent) == val
        shown = listed((value for _, value in sent), self.bits) if is_told else to_id(own ^ val, self.bits)
        more = f" ⊕ sent {shown}." if own != val else ", and it sent nothing."
        lines = wrapped(f"Its own id {to_id(own, self.bits).replace(' ', '')}{more}", "ink")
        ids = [(place, own), *sent] if is_told else None
        self._note(step, entry, tree, f"ack of {self.growth.task_of(place)}", ids, lines)
        return place

    def fail(self, step: Step, acker: int, tree: int) -> int:
        """`__ack_fail` came from a bolt; the tuple that it failed."""
        entry = self._entry(step, acker, tree)
        place, _ = self._sender(step.data["root"], None)
        title = f"fail from {self.growth.task_of(place)}" if place != NEVER else "fail"
        self._note(step, entry, tree, title, [], wrapped("A mark on the entry. The number stays.", "ink"), is_fail=True)
        return place

    def reset(self, step: Step, acker: int, tree: int) -> None:
        """`__ack_reset_timeout` came from a bolt: the entry is renewed, and the spout's, too."""
        entry, root = self._entry(step, acker, tree), step.data["root"]
        if step.data["end"] in ENDS:
            self._drop(entry, root, step)
            return
        entry.view.bucket.put(step.number, 0)
        bucket = self.forest.trees[tree].bucket
        if bucket.last not in (None, GONE):
            bucket.put(step.number, 0)

    def tick(self, step: Step, acker: int) -> None:
        """The acker's map rotated."""
        dropped = set(step.data["dropped"])
        for root, entry in list(self.entries.get(acker, {}).items()):
            bucket = entry.view.bucket
            if root in dropped:
                bucket.put(step.number, self.forest.acker_buckets)
                self.swept.append(entry.view)
                told = "Nothing renewed the entry in time: the acker forgets it, and tells nobody."
                self._wipe(entry, root, step, "dropped by a tick", told)
            else:
                bucket.put(step.number, min((bucket.last or 0) + 1, self.forest.acker_buckets - 1))

    def crash(self, step: Step, acker: int) -> None:
        """The acker died, and all its entries with it."""
        for root, entry in list(self.entries.get(acker, {}).items()):
            entry.view.bucket.put(step.number, GONE)
            self._wipe(entry, root, step, "the acker dies", "It starts again and knows nothing of this tree.")

    def _entry(self, step: Step, acker: int, tree: int) -> _Entry:
        entries, root = self.entries.setdefault(acker, {}), step.data["root"]
        self.forest.trees[tree].acker = acker
        if root not in entries:
            view = EntryView(acker, self.forest.trees[tree].short, tree)
            self.forest.entries.append(view)
            entries[root] = _Entry(view)
        return entries[root]

    def _sender(self, root: int, val: int | None) -> tuple[int, list[int]]:
        """The tuple whose ack or fail this is, and the children that the ack told of."""
        waiting = self.growth.messages.get(root, [])
        for at, (found, place, children) in enumerate(waiting):
            if found == val:
                del waiting[at]
                return place, children
        return NEVER, []

    def _note(
        self,
        step: Step,
        entry: _Entry,
        tree: int,
        title: str,
        ids: list[tuple[int, int]] | None,
        lines: list[Line],
        *,
        is_fail: bool = False,
    ) -> None:
        """A row of the tree's ledger. `ids` are those that the message told, or None when they do not explain it."""
        before, message, end = step.data["before"], step.data.get("val"), step.data["end"]
        after: int | None = step.data["after"]
        if after is None and (before is not None or message is not None):
            after = (before or 0) ^ (message or 0)
        if ids is None:
            entry.told.is_known = False
        else:
            entry.told.toggle(ids)
        count = self.growth.open_counts[tree]
        is_false = end == "ack" and count > 0
        told = verdict_on(after, end, count, entry.told, self.bits, is_claimed=entry.is_claimed, is_false=is_false)
        row = LedgerRow(step.number, title, to_hex(before), to_hex(message), to_hex(after), (*lines, *told), is_false)
        self.forest.trees[tree].ledger.append(row)
        if end is not None:
            self._drop(entry, step.data["root"], step)
            return
        if self.is_renewing or is_fail or entry.view.bucket.last is None:
            entry.view.bucket.put(step.number, 0)
        entry.view.value.put(step.number, "failed" if after is None else to_short_id(after, self.bits))

    def _drop(self, entry: _Entry, root: int, step: Step) -> None:
        if entry.view.bucket.last is not None:
            entry.view.bucket.put(step.number, GONE)
        del self.entries[entry.view.acker][root]

    def _wipe(self, entry: _Entry, root: int, step: Step, title: str, told: str) -> None:
        rows = self.forest.trees[entry.view.tree].ledger
        before = rows[-1].after if rows else None
        rows.append(LedgerRow(step.number, title, before, None, None, tuple(wrapped(told, "red"))))
        del self.entries[entry.view.acker][root]


def _xor(ids: list[tuple[int, int]]) -> int:
    found = 0
    for _, value in ids:
        found ^= value
    return found

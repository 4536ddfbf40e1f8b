"""A topology's trace, read once from its first step to its last: which trees grew, how each one ended, and the ackers' ledgers.

What a step does not say is worked out here: to which tuple an unanchored one belongs, and which tuples
a crashed task took with it. A trace without the words of a topology has no forest.

An acker's message does not say who sent it. But each one was sent by a bolt before, and messages of one
tree with one value are alike, so the oldest of them that is still on its way is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import xor
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.trees.forest import GONE, NEVER, EntryView, Forest, TreeView, TupleView
from kitlib.views.trees.layout import (
    FALSELY_ACKED,
    FORGOTTEN,
    OPEN,
    TIMED_OUT,
    TREE_ACKED,
    TREE_FAILED,
    UNTRACKED,
    Node,
    chip_rows_for,
    height_for,
    lay_out,
    rows_of,
)
from kitlib.views.trees.ledger_rows import LedgerRow, listed, to_short_id, unsigned, verdict_on, wrapped
from kitlib.words.topology import bits_of, to_id, to_root

Line = tuple[str, str]
ENDS = ("ack", "fail")  # of a tree; "reset" is none


# Words that only a trace with whole trees has; some runs are too long for them and keep the records' own.
WORDS = frozenset({"send", "execute", "bolt_ack", "bolt_fail", "acker_init", "acker_ack", "acker_fail"})
ACKER = "__acker-"
LATER_RELEASE = "2.4.0"  # of the acker: three buckets, and no renewal by init and ack
SPOUT_BUCKETS = 2

Subject = tuple[int, int]  # the tuple and the tree that a step is about, or NEVER
NOTHING: Subject = (NEVER, NEVER)


def to_forest(trace: Trace) -> Forest | None:
    """The forest of a trace, or None when the trace does not follow trees."""
    if not any(step.what in WORDS for step in trace.steps):
        return None
    reader = _Reader(trace)
    for step in trace.steps:
        reader.take(step)
    return reader.finish()


class _Reader:
    """What is known while the steps go by."""

    def __init__(self, trace: Trace) -> None:
        self.is_later = trace.settings.acker_release == LATER_RELEASE
        self.bits = bits_of(trace.settings.id_bits, (value for step in trace.steps for value in _values_of(step)))
        self.forest = Forest(self.bits, 0, SPOUT_BUCKETS, 3 if self.is_later else 2)
        self.tuples = self.forest.tuples
        self.last = len(trace) - 1
        self.open_counts: list[int] = []  # per tree: its tuples of whose ack no acker has heard
        self.first_edges: dict[int, list[int]] = {}  # tree -> the tuples that the spout sent
        self.messages: dict[int, list[tuple[int | None, int, list[int]]]] = {}
        # root -> what bolts sent to its acker and did not arrive yet: (value, or None for a fail; tuple; its children)
        self.tasks: dict[str, int] = {}
        self.by_root: dict[int, int] = {}  # root -> its newest tree
        self.heard: set[tuple[int, int]] = set()  # (tuple, tree) of those acks that an acker heard
        self.entries: dict[int, dict[int, EntryView]] = {}  # acker task -> root -> entry
        self.numbers: dict[Any, int] = {}  # a tuple's number in the trace -> its place in `tuples`
        self.by_record: dict[tuple[Any, ...], int] = {}  # (topic, partition, offset) -> its newest tree
        self.pending: dict[int, list[int]] = {}  # spout task -> trees in its map
        self.worked_on: dict[int, int] = {}  # task -> the tuple that it executed last
        self.subjects: list[Subject] = []  # per step
        self.last_heard = _last_heard(trace)
        self.most = 0  # trees in one spout task's map at once

    def take(self, step: Step) -> None:
        """Take one step."""
        handle: Callable[[Step], Subject] | None = getattr(self, f"_on_{step.what}", None)
        self.subjects.append(NOTHING if handle is None else handle(step))

    def _task(self, actor: object) -> int:
        name = plain_text(actor, 40)
        if name not in self.tasks:
            self.tasks[name] = len(self.tasks)
            self.forest.tasks.append(name)
        return self.tasks[name]

    def _new_tree(self, view: TreeView) -> int:
        number = len(self.forest.trees)
        self.forest.trees.append(view)
        self.open_counts.append(0)
        if view.root is not None:
            self.by_root[view.root] = number
        return number

    def _tree(self, root: int) -> int:
        """The newest tree of a root. One that nobody has emitted is a tree without tuples."""
        if root not in self.by_root:
            shown = to_root(root)
            self._new_tree(TreeView(f"root {shown}", shown, "never emitted", NEVER, root))
        return self.by_root[root]

    # The ackers' entries. Storm 0.9.3's init and ack put an entry into the newest bucket, a later one's do not

    def _ids_of(self, tuples: list[int], tree: int) -> list[tuple[int, int]]:
        """The ids that these tuples have in a tree; those that are not in it are left out."""
        return [(place, self.tuples[place].ids[tree]) for place in tuples if tree in self.tuples[place].ids]

    def _task_of(self, place: int) -> str:
        """The name of the task that a tuple was sent to."""
        return self.forest.tasks[self.tuples[place].task]

    def _on_acker_init(self, step: Step) -> Subject:
        """`__ack_init` came from the spout."""
        tree, entry = self._entry(step)
        ids = self._ids_of(self.first_edges.get(tree, []), tree)
        shown = listed((value for _, value in ids), self.bits)
        told = f"The XOR of the ids sent: {shown}." if len(ids) > 1 else "The id of the tuple sent."
        spout = self.forest.trees[tree].spout
        sender = self.forest.tasks[spout] if spout != NEVER else f"task {plain_text(step.data['spout_task'], 20)}"
        entry.is_claimed, entry.tree = True, tree
        is_told = _xor(ids) == step.data["val"]
        self._note(
            step, entry, tree, f"init from {sender}", ids if is_told else None, wrapped(told, "ink") if ids else []
        )
        return NEVER, tree

    def _on_acker_ack(self, step: Step) -> Subject:
        """`__ack_ack` came from a bolt; the tuple that it acked."""
        (tree, entry), val = self._entry(step), step.data["val"]
        place, children = self._sender(step.data["root"], val)
        if place == NEVER or tree not in self.tuples[place].ids:
            self._note(step, entry, tree, "ack", None, [])
            return place, tree
        if (place, tree) not in self.heard:
            self.heard.add((place, tree))
            self.open_counts[tree] -= 1
        own, sent = self.tuples[place].ids[tree], self._ids_of(children, tree)
        is_told = own ^ _xor(sent) == val
        shown = listed((value for _, value in sent), self.bits) if is_told else to_id(own ^ val, self.bits)
        more = f" ⊕ sent {shown}." if own != val else ", and it sent nothing."
        lines = wrapped(f"Its own id {to_id(own, self.bits).replace(' ', '')}{more}", "ink")
        ids = [(place, own), *sent] if is_told else None
        self._note(step, entry, tree, f"ack of {self._task_of(place)}", ids, lines)
        return place, tree

    def _on_acker_fail(self, step: Step) -> Subject:
        """`__ack_fail` came from a bolt; the tuple that it failed."""
        tree, entry = self._entry(step)
        place, _ = self._sender(step.data["root"], None)
        title = f"fail from {self._task_of(place)}" if place != NEVER else "fail"
        self._note(step, entry, tree, title, [], wrapped("A mark on the entry. The number stays.", "ink"), is_fail=True)
        return place, tree

    def _on_acker_reset(self, step: Step) -> Subject:
        """`__ack_reset_timeout` came from a bolt: the entry is renewed, and the spout's, too."""
        tree, entry = self._entry(step)
        if step.data["end"] in ENDS:
            self._drop(entry, step.data["root"], step)
            return NEVER, tree
        entry.bucket.put(step.number, 0)
        bucket = self.forest.trees[tree].bucket
        if bucket.last not in (None, GONE):
            bucket.put(step.number, 0)
        return NEVER, tree

    def _on_acker_tick(self, step: Step) -> Subject:
        """The acker's map rotated."""
        dropped, acker = set(step.data["dropped"]), self._task(step.actor)
        for root, entry in list(self.entries.get(acker, {}).items()):
            bucket = entry.bucket
            if root in dropped:
                bucket.put(step.number, self.forest.acker_buckets)
                if step.number < self.last:  # it is shown until the next step
                    bucket.put(step.number + 1, GONE)
                told = "Nothing renewed the entry in time: the acker forgets it, and tells nobody."
                self._wipe(entry, root, step, "dropped by a tick", told)
            else:
                bucket.put(step.number, min((bucket.last or 0) + 1, self.forest.acker_buckets - 1))
        return NOTHING

    def _acker_dies(self, step: Step, acker: int) -> None:
        """The acker died, and all its entries with it."""
        for root, entry in list(self.entries.get(acker, {}).items()):
            entry.bucket.put(step.number, GONE)
            self._wipe(entry, root, step, "the acker dies", "It starts again and knows nothing of this tree.")

    def _entry(self, step: Step) -> tuple[int, EntryView]:
        """The tree that a message to an acker is about, and the acker's entry for it."""
        acker, root = self._task(step.actor), step.data["root"]
        tree, entries = self._tree(root), self.entries.setdefault(acker, {})
        self.forest.trees[tree].acker = acker
        if root not in entries:
            entries[root] = EntryView(acker, self.forest.trees[tree].short, tree)
            self.forest.entries.append(entries[root])
        return tree, entries[root]

    def _sender(self, root: int, val: int | None) -> tuple[int, list[int]]:
        """The tuple whose ack or fail this is, and the children that the ack told of."""
        waiting = self.messages.get(root, [])
        for at, (found, place, children) in enumerate(waiting):
            if found == val:
                del waiting[at]
                return place, children
        return NEVER, []

    def _note(
        self,
        step: Step,
        entry: EntryView,
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
        count = self.open_counts[tree]
        is_false = end == "ack" and count > 0
        told = verdict_on(after, end, count, entry.told, self.bits, is_claimed=entry.is_claimed, is_false=is_false)
        row = LedgerRow(step.number, title, unsigned(before), unsigned(message), unsigned(after), (*lines, *told), is_false)
        self.forest.trees[tree].ledger.append(row)
        if end is not None:
            self._drop(entry, step.data["root"], step)
            return
        if not self.is_later or is_fail or entry.bucket.last is None:
            entry.bucket.put(step.number, 0)
        entry.value.put(step.number, "failed" if after is None else to_short_id(after, self.bits))

    def _drop(self, entry: EntryView, root: int, step: Step) -> None:
        if entry.bucket.last is not None:
            entry.bucket.put(step.number, GONE)
        del self.entries[entry.acker][root]

    def _wipe(self, entry: EntryView, root: int, step: Step, title: str, told: str) -> None:
        rows = self.forest.trees[entry.tree].ledger
        before = rows[-1].after if rows else None
        rows.append(LedgerRow(step.number, title, before, None, None, tuple(wrapped(told, "red"))))
        del self.entries[entry.acker][root]

    # Trees and tuples

    def _new_tuple(self, step: Step, number: object, to: object, ids: dict[int, int], parents: list[int]) -> int:
        place = self.numbers[number] = len(self.tuples)
        values, heard = _told(step.data.get("values")), self.last_heard.get(number, NEVER)
        self.tuples.append(TupleView(number, values, self._task(to), ids, parents, heard))
        self._mark(place, "sent", step)
        for tree in ids:
            self.open_counts[tree] += 1
        for parent in parents if ids else ():
            self.tuples[parent].children.append(place)
        return place

    def _mark(self, place: int, name: str, step: Step) -> None:
        """Note that a tuple has come to a state, unless it had before."""
        steps = self.tuples[place].steps
        if steps[name] == NEVER:
            steps[name] = step.number

    def _on_emit(self, step: Step) -> Subject:
        data = step.data
        if "tuples" not in data:
            return NOTHING
        root, spout, offset = data["root"], self._task(step.actor), data.get("offset")
        is_tracked = root is not None
        short = plain_text(len(self.forest.trees) + 1 if offset is None else offset, 20)
        attempt = f"attempt {data['attempt']:d}, " if data.get("attempt", 1) > 1 else ""
        detail = f"root {to_root(root)}" if is_tracked else "no root id: nobody follows it"
        name = f"{'message' if offset is None else 'offset'} {short}"
        view = TreeView(name, short, attempt + detail, spout, root)
        tree = self.by_record[data.get("topic"), data.get("partition"), offset] = self._new_tree(view)
        view.status.put(step.number, OPEN if is_tracked else UNTRACKED)
        if is_tracked:
            view.bucket.put(step.number, 0)
            self.pending.setdefault(spout, []).append(tree)
            self.most = max(self.most, len(self.pending[spout]))
        self.first_edges[tree] = [
            self._new_tuple(step, number, task, {tree: value} if is_tracked else {}, [])
            for number, task, value in data["tuples"]
        ]
        return NEVER, tree

    def _on_send(self, step: Step) -> Subject:
        data = step.data
        parents = [self.numbers[number] for number in data["parents"] if number in self.numbers]
        ids = {}
        for root, value in data["ids"]:
            known = (tree for parent in parents for tree in self.tuples[parent].ids if self.forest.trees[tree].root == root)
            tree = next(known, NEVER)
            ids[self._tree(root) if tree == NEVER else tree] = value
        if not parents:  # unanchored: it came from the tuple that the bolt is working on
            working = self.worked_on.get(self._task(step.actor), NEVER)
            parents = [] if working == NEVER else [working]
        return self._new_tuple(step, data["tuple"], data["to"], ids, parents), NEVER

    def _on_execute(self, step: Step) -> Subject:
        place = self.numbers.get(step.data["tuple"], NEVER)
        if place != NEVER:
            self.worked_on[self._task(step.actor)] = place
            self._mark(place, "executed", step)
        return place, NEVER

    def _on_bolt_ack(self, step: Step) -> Subject:
        place = self.numbers.get(step.data["tuple"], NEVER)
        if place == NEVER:
            return NOTHING
        given = self.tuples[place]
        self._mark(place, "acked", step)
        for root, val in step.data["vals"]:
            self.messages.setdefault(root, []).append((val, place, list(given.children)))
        return place, NEVER

    def _on_bolt_fail(self, step: Step) -> Subject:
        place = self.numbers.get(step.data["tuple"], NEVER)
        if place != NEVER:
            self._mark(place, "failed", step)
            for root in step.data["roots"]:
                self.messages.setdefault(root, []).append((None, place, []))
        return place, NEVER

    def _on_process(self, step: Step) -> Subject:
        data = step.data
        return NEVER, self.by_record.get((data.get("topic"), data.get("partition"), data.get("offset")), NEVER)

    def _on_fault(self, step: Step) -> Subject:
        place = self.numbers.get(step.data.get("tuple"), NEVER)
        if place != NEVER:
            kind = plain_text(step.data.get("kind", "fault"), 12).replace("_", " ")
            given = self.tuples[place]
            given.fault = given.fault if given.fault[1] else (step.number, kind)
            if kind == "lose":
                self._mark(place, "lost", step)
        return place, NEVER

    # The spout's map

    def _end(self, step: Step, status: int) -> Subject:
        tree = self._tree(step.data["root"])
        view = self.forest.trees[tree]
        view.status.put(step.number, status)
        if view.bucket.last not in (None, GONE):
            view.bucket.put(step.number, GONE)
            self.pending[view.spout].remove(tree)
        return NEVER, tree

    def _on_ack(self, step: Step) -> Subject:
        if step.data.get("root") is None:
            return self._on_process(step)
        return self._end(step, FALSELY_ACKED if step.data.get("outstanding", 0) > 0 else TREE_ACKED)

    def _on_fail(self, step: Step) -> Subject:
        if step.data.get("root") is None:
            return self._on_process(step)
        return self._end(step, TIMED_OUT if step.data.get("why") == "timeout" else TREE_FAILED)

    def _on_late(self, step: Step) -> Subject:
        return NEVER, self._tree(step.data["root"])

    def _on_spout_tick(self, step: Step) -> Subject:
        spout = self._task(step.actor)
        for tree in list(self.pending.get(spout, ())):
            bucket = self.forest.trees[tree].bucket
            if bucket.last == SPOUT_BUCKETS:  # dropped by the tick before, and nothing came of it
                bucket.put(step.number, GONE)
                self.pending[spout].remove(tree)
            else:
                bucket.put(step.number, bucket.last + 1)
        return NOTHING

    # Crashes, and the end

    def _on_crash(self, step: Step) -> Subject:
        task = self._task(step.actor)
        for tree in self.pending.pop(task, []):
            self.forest.trees[tree].status.put(step.number, FORGOTTEN)
            self.forest.trees[tree].bucket.put(step.number, GONE)
        self._acker_dies(step, task)
        if not step.actor.startswith(ACKER):
            self._lose(task, step)
        return NOTHING

    def _lose(self, task: int, step: Step) -> None:
        """Mark the tuples that die with a task: sent to it, not finished, and never heard of again."""
        unfinished = [given for given in self.tuples if given.task == task and given.last_heard <= step.number and given.end == NEVER]
        # Those in its queue and the one being worked on first, then what it had finished or dropped.
        unfinished.sort(key=lambda given: given.steps["executed"] != NEVER or given.fault[1] == "drop")
        lost = step.data.get("lost")
        for given in unfinished[: lost if isinstance(lost, int) else None]:
            given.steps["lost"] = step.number

    def finish(self) -> Forest:
        """The forest, with every tuple in its place."""
        forest, trees_of = self.forest, self._trees_of_tuples()
        nodes = [
            [Node(NEVER, [], forest.tasks[view.spout] if view.spout != NEVER else "", view.name, not view.is_tracked)]
            for view in forest.trees
        ]
        places: list[dict[int, int]] = [{} for _ in nodes]  # per tree: tuple -> its node
        for number, given in enumerate(self.tuples):
            for tree in trees_of[number]:
                parents = [places[tree][parent] for parent in given.parents if parent in places[tree]]
                text = to_id(given.ids[tree], forest.bits) if tree in given.ids else "no id"
                places[tree][number] = len(nodes[tree])
                nodes[tree].append(Node(number, parents or [0], forest.tasks[given.task], text, tree not in given.ids))
        rows = [rows_of(found) for found in nodes]
        columns = 1 + max((node.depth for found in nodes for node in found), default=0)
        forest.tall = height_for(max(rows, default=1))
        for view, found in zip(forest.trees, nodes, strict=True):
            view.layout = lay_out(found, columns, forest.tall)
        forest.chip_rows = chip_rows_for(self.most, forest.bits)
        self._focus(trees_of)
        return forest

    def _trees_of_tuples(self) -> list[list[int]]:
        """The trees in whose pictures each tuple stands: its own, or if it is unanchored those of its parents."""
        untracked = {place: tree for tree, edges in self.first_edges.items() for place in edges}
        found: list[list[int]] = []
        for number, given in enumerate(self.tuples):
            if given.ids:
                found.append(sorted(given.ids))
            elif number in untracked:
                found.append([untracked[number]])
            else:
                found.append(sorted({tree for parent in given.parents for tree in found[parent]}))
        return found

    def _focus(self, trees_of: list[list[int]]) -> None:
        """The tree that each step is about; of a tuple's several the one shown before, if it is among them."""
        shown = NEVER
        for place, tree in self.subjects:
            if tree != NEVER:
                shown = tree
            elif place != NEVER and trees_of[place] and shown not in trees_of[place]:
                shown = trees_of[place][0]
            self.forest.focus.append(shown)
            self.forest.current.append(place)


def _xor(ids: list[tuple[int, int]]) -> int:
    return reduce(xor, (value for _, value in ids), 0)


def _values_of(step: Step) -> list[int]:
    """The ids and values in a step, to see how wide ids are."""
    data = step.data
    if step.what == "emit" and "tuples" in data:
        return [value for _, _, value in data["tuples"] if isinstance(value, int)]
    return [data["val"]] if step.what in ("acker_init", "acker_ack") else []


def _told(values: object) -> str:
    """A tuple's values in a few words."""
    told = ", ".join(map(str, values)) if isinstance(values, list) else "" if values is None else str(values)
    return plain_text(told, 60)


def _last_heard(trace: Trace) -> dict[Any, int]:
    """Each tuple's last step in which its task did something with it."""
    words = ("execute", "bolt_ack", "bolt_fail")
    return {step.data["tuple"]: step.number for step in trace.steps if step.what in words}

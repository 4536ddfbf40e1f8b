"""What a player was sent, read back: the drawing of any step as nested lists [tag, attributes, children ...]."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from kitlib.views.svg import Svg

Node = list[Any]
Leaf = tuple[float, float, str, str, str]  # where its groups lie, its tag, attributes and text


class Projector:
    """Reads the bytes that `kitlib.views.browser.played.played` makes."""

    def __init__(self, sent: bytes) -> None:
        self.row = json.loads(sent)
        self.reels = self.row["reels"]
        self.heads: list[tuple[str, dict[str, str]]] = self.row["heads"]
        self.nodes: list[list[Any]] = [
            [head, *(part if isinstance(part, str) else -1 - part if part < 0 else number - part for part in inside)]
            for number, (head, *inside) in enumerate(self.row["nodes"])
        ]

    def node(self, number: int) -> Node:
        """A node with all that is inside it."""
        head, *inside = self.nodes[number]
        tag, attributes = self.heads[head]
        return [tag, dict(attributes), *(one if isinstance(one, str) else self.node(one) for one in inside)]

    def track(self, track: Any, step: int, choice: int = 0) -> Node:
        """A track after a step."""
        head, rows, of, moved = track
        row = of[choice] if of else 0
        sums = [(_sums(steps), _sums(nodes)) for steps, nodes in (rows[row] if row >= 0 else ())]
        shown = [nodes[bisect_right(steps, step) - 1] for steps, nodes in sums if steps and steps[0] <= step]
        tag, attributes = self.node(head)
        place = {"transform": f"translate({_sums(moved)[min(step, len(moved) - 1)]} 0)"} if moved else {}
        return [tag, attributes | place, *map(self.node, shown)]

    def leaves(self, reel: int, step: int, choice: int | None = None) -> list[Leaf]:
        """What is drawn of a picture after a step, above what stays; without a choice what the step is about."""
        chosen = self.choice(reel, step) if choice is None else choice
        return [leaf for track in self.reels[reel]["tracks"] for leaf in leaves_of(self.track(track, step, chosen))]

    def choice(self, reel: int, step: int) -> int:
        """What a picture is about after a step."""
        chooser = self.reels[reel].get("chooser")
        return int(chooser["default"][step]) if chooser else 0

    def meanings(self, reel: int, step: int, choice: int | None = None) -> set[str]:
        """What the legend explains after a step."""
        row = self.reels[reel]
        if not row["legend"]:
            return set()
        steps, masks = row["seen"][self.choice(reel, step) if choice is None else choice]
        now = bisect_right(_sums(steps), step) - 1
        return {meaning for place, (_, meaning) in enumerate(row["legend"]) if now >= 0 and masks[now] >> place & 1}

    def all_nodes(self) -> Iterator[Node]:
        """Every node that was sent."""
        return map(self.node, range(len(self.nodes)))


def _sums(numbers: list[int]) -> list[int]:
    return list(accumulate(numbers))


def to_node(drawn: Svg | str) -> Node:
    """Markup as nested lists."""
    return _node(ET.fromstring(f"<g>{drawn}</g>"))


def _node(element: ET.Element) -> Node:
    tag = element.tag.rpartition("}")[2]
    node: Node = [tag, dict(element.attrib), *([element.text] if element.text else [])]
    for child in element:
        node.append(_node(child))
        node += [child.tail] if child.tail else []
    return node


def placed(node: Node, x: float = 0, y: float = 0) -> Iterator[tuple[float, float, Node]]:
    """The elements that are no groups, in order, with where their groups lie; how they are grouped does not matter."""
    tag, attributes, *inside = node
    if tag not in ("g", "svg"):
        yield round(x, 1), round(y, 1), node
        return
    moved = attributes.get("transform", "translate(0 0)").removeprefix("translate(").removesuffix(")").split()
    for one in inside:
        if not isinstance(one, str):
            yield from placed(one, x + float(moved[0]), y + float(moved[1]))


def leaves_of(node: Node) -> list[Leaf]:
    """The same with their attributes and text."""

    def told(attributes: dict[str, str]) -> str:
        return " ".join(
            f"{name}={value}" for name, value in sorted(attributes.items()) if not value.startswith("url(#")
        )

    return [
        (x, y, tag, told(attributes), text_of([tag, attributes, *inside]))
        for x, y, (tag, attributes, *inside) in placed(node)
    ]


def text_of(node: Node) -> str:
    """All text inside a node."""
    return "".join(one if isinstance(one, str) else text_of(one) for one in node[2:])

"""Java's PriorityQueue, whose iteration order, on which Streams relies, is not a sorted order.

Iterating over a PriorityQueue gives the elements in the order of its array, and a weight that changes
while its element is in the queue is noticed only where the element is touched. Both decide who gets a
task, so the heap is the same here.

Source: OpenJDK 17, java.util.PriorityQueue (`heapify`, `siftUp`, `siftDown`, `removeAt`, `poll`).
Differs: only what Streams needs; no growth, no iterator that survives a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class JavaHeap(Generic[T]):
    """A binary heap with the least element first; `key` is asked again at each comparison."""

    def __init__(self, elements: Iterable[T], key: Callable[[T], Any]) -> None:
        self.key = key
        self.queue: list[T] = []
        for element in elements:
            self.add(element)

    @classmethod
    def of_collection(cls, elements: Iterable[T], key: Callable[[T], Any]) -> JavaHeap[T]:
        """As `new PriorityQueue<>(collection)` makes it: put in order from the middle down, not one after another."""
        made = cls((), key)
        made.queue = list(elements)
        for at in reversed(range(len(made.queue) >> 1)):
            made._sift_down(at, made.queue[at])
        return made

    def __len__(self) -> int:
        return len(self.queue)

    def __iter__(self) -> Iterator[T]:
        """The elements as they lie in the array."""
        return iter(list(self.queue))

    def __contains__(self, element: object) -> bool:
        return element in self.queue

    def add(self, element: T) -> None:
        """Put an element in."""
        self.queue.append(element)
        self._sift_up(len(self.queue) - 1, element)

    def poll(self) -> T:
        """Take the first element out; there must be one."""
        first, last = self.queue[0], self.queue.pop()
        if self.queue:
            self._sift_down(0, last)
        return first

    def remove(self, element: T) -> None:
        """Take this element out, if it is there."""
        if element not in self.queue:
            return
        at, last = self.queue.index(element), self.queue.pop()
        if at < len(self.queue):
            self._sift_down(at, last)
            if self.queue[at] is last:
                self._sift_up(at, last)

    def _sift_up(self, at: int, element: T) -> None:
        while at > 0:
            parent = (at - 1) >> 1
            if self.key(element) >= self.key(self.queue[parent]):
                break
            self.queue[at] = self.queue[parent]
            at = parent
        self.queue[at] = element

    def _sift_down(self, at: int, element: T) -> None:
        half = len(self.queue) >> 1
        while at < half:
            child = 2 * at + 1
            right = child + 1
            if right < len(self.queue) and self.key(self.queue[child]) > self.key(self.queue[right]):
                child = right
            if self.key(element) <= self.key(self.queue[child]):
                break
            self.queue[at] = self.queue[child]
            at = child
        self.queue[at] = element

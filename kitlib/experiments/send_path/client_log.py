"""What a real client says of itself, line by line, and the nine steps of a send in it.

Both stock clients can be asked to tell what they do: librdkafka by its setting `debug`, Java's by the level of
its loggers. A step is known by a sign: a line of a certain matter, thread and text. Each sign is looked for by
itself, among the lines between one send and the next, and the order of the steps is the order of their lines;
nothing here puts them in order.

The nine steps are those of a trace of Java's client of 2017: (1) the user waits for the topic's metadata,
(2) a connection for asking, (3) the question, (4) the answer, (5) the record gets its partition and is
appended, (6) the sender is woken by a new batch, (7) the batch's broker is known and connected to,
(8) a Produce request leaves, (9) its answer comes.

Left out: lines that are no sign; `LogLine.text` has them for who wants to read on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

STAGES = range(1, 10)
SEND_MARK = "send"  # a line of the application's own: here a send begins
APPLICATION = "USER"  # the matter of such a line


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a client's log."""

    at_ms: int  # since the run began
    word: str  # the matter: "SEND", "METADATA", ...; of Java's client the class that speaks
    thread: str  # "app", "main", or a broker ("127.0.0.1:9092/1", "127.0.0.1:9092/bootstrap")
    text: str


@dataclass(frozen=True, slots=True)
class Sign:
    """How one of the nine steps is known in a log; `word`, `thread` and `text` are regular expressions."""

    stage: int
    actor: str
    what: str
    word: str
    text: str
    thread: str = ""
    data: dict[str, str] = field(default_factory=dict)
    after: int = 0  # the step before which such a line is something else

    def found_in(self, line: LogLine) -> dict[str, str] | None:
        """What the line tells besides, by the names of the text's groups; None when it is no such line."""
        text = re.search(self.text, line.text)
        if not text or not re.fullmatch(self.word, line.word) or not re.search(self.thread, line.thread):
            return None
        return {name: told for name, told in text.groupdict().items() if told is not None}


@dataclass(frozen=True, slots=True)
class Seen:
    """One of the nine steps, as a log tells it."""

    send: int  # from 1
    stage: int
    line: int  # its place in the log
    at_ms: int
    sign: Sign
    told: dict[str, str]


def sends_in(lines: Sequence[LogLine], signs: Iterable[Sign]) -> list[list[Seen]]:
    """For each send its steps, in the order of their lines; a step whose sign is not there is left out.

    Where several signs stand for one step, the first line counts that is one of them.
    """
    signs = list(signs)
    begins = [at for at, line in enumerate(lines) if line.word == APPLICATION and line.text == SEND_MARK]
    found = []
    for send, (begin, end) in enumerate(zip(begins, [*begins[1:], len(lines)], strict=True), 1):
        first: dict[int, Seen] = {}
        for at in range(begin, end):
            for sign in signs:
                told = sign.found_in(lines[at]) if sign.stage not in first and (not sign.after or sign.after in first) else None
                if told is not None:
                    first[sign.stage] = Seen(send, sign.stage, at, lines[at].at_ms, sign, told)
        found.append(sorted(first.values(), key=lambda seen: seen.line))
    return found

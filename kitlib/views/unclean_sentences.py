"""What a step about a replicated partition says to a learner: a sentence for each word of brokers and controller.

What consumers do is told by `kitlib.views.group_sentences`. A step whose data are not what its word promises is
told as it stands (`kitlib.views.scene`).
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step
from kitlib.views.group_sentences import GROUP_TELLERS
from kitlib.views.scene import Teller, tell_by
from kitlib.views.sentences import count, span, spans
from kitlib.views.text import plain_text

Data = dict[str, Any]


def tell_unclean(step: Step) -> str:
    """The step's sentence: printable text on one line, not escaped for HTML."""
    told = tell_by(GROUP_TELLERS | UNCLEAN_TELLERS, step)
    return told[:1].upper() + told[1:] if step.what in UNCLEAN_TELLERS else told


def _append(who: str, data: Data) -> str:
    number = data["last"] - data["first"] + 1
    return f"{who} writes {count(number, 'record')} to its log, {span(data['first'], data['last'])}: acknowledged."


def _isr(who: str, data: Data) -> str:
    brokers = [f"{each}" for each in data["in_sync"]]
    if not brokers:
        return "Nobody is in sync any more."
    listed = " and ".join(brokers[-2:]) if len(brokers) <= 2 else f"{', '.join(brokers[:-1])} and {brokers[-1]}"
    return f"In sync {'is only broker' if len(brokers) == 1 else 'are brokers'} {listed}."


def _elect(who: str, data: Data) -> str:
    if data["unclean"]:
        return (
            f"Broker {data['leader']} is elected, epoch {data['epoch']:d}, though it was not in sync: "
            "what it does not have is gone, acknowledged or not."
        )
    why = f": {plain_text(data['why'], 60)}" if data.get("why") else ""
    return f"Broker {data['leader']} is elected, epoch {data['epoch']:d}{why}. It has all that was acknowledged."


def _cut(who: str, data: Data) -> str:
    number = data["from"] - data["to"]
    why = f" ({plain_text(data['why'], 80)})" if data.get("why") else ""
    return f"For whoever reads, the log now ends at offset {data['to']:d} instead of {data['from']:d}: {count(number, 'record')} gone{why}."


def _truncate(who: str, data: Data) -> str:
    number = data["from"] - data["to"]
    return f"{who} cuts {count(number, 'record')} off its log, back to offset {data['to']:d}: its leader does not have them."


def _diverged(who: str, data: Data) -> str:
    return (
        f"{who} asks where epoch {data['epoch']} ends: at {data['end']}, below its committed {data['committed']}. "
        "So it knows that its offset is of records that are gone."
    )


UNCLEAN_TELLERS: dict[str, Teller] = {
    "append": _append,
    "refused": lambda who, data: (
        f"The producer's {count(data['count'], 'record')} are refused: {plain_text(data['error'], 80)}. Nothing is written."
    ),
    "kill": lambda who, data: f"{who} is killed. Its disk stays as it is.",
    "restart": lambda who, data: f"{who} comes back with the log that lies on its disk.",
    "pause": lambda who, data: f"{who} stands still: it copies nothing, and does not know it.",
    "wake": lambda who, data: f"{who} goes on.",
    "flip": lambda who, data: f"A bit flips on the disk of {who}, in the record at offset {data['offset']:d}.",
    "recover": lambda who, data: (
        f"{who} checks its log as it starts, and cuts it at offset {data['to']:d}, where a batch is broken; it ended at {data['from']:d}."
    ),
    "copy": lambda who, data: f"{who} copies from the leader, up to offset {data['to']:d}.",
    "truncate": _truncate,
    "lead": lambda who, data: f"{who} leads, epoch {data['epoch']:d}.",
    "follow": lambda who, data: f"{who} follows broker {data['leader']}, epoch {data['epoch']:d}.",
    "isr": _isr,
    "elect": _elect,
    "none": lambda who, data: "There is no leader: nobody who lives was in sync. Nothing can be written or read, and nothing is lost.",
    "differs": lambda who, data: f"The real brokers and the model differ: {plain_text(data['what'], 160)}.",
    "cut": _cut,
    "read": lambda who, data: (
        f"In the log lie at the end: the records that were sent as {spans(data['records']).replace('offset', 'number')}."
    ),
    "diverged": _diverged,
}

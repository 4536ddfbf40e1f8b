"""`draw_checkpoint`: the checkpoint folder of any query of Structured Streaming as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kitlib.lab.checkpoint_folder import CheckpointFolder, kafka_ends, named, read_checkpoint
from kitlib.text import plain_text
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.picture import Picture
from kitlib.views.pictures.checkpoint_table import ROWS, TABLE, Batches, batches_legend
from kitlib.views.svg import document, el, group, legend


def draw_checkpoint(
    folder: str | Path | CheckpointFolder, sink: str | Path | None = None, log_ends: Mapping[tuple[str, int], int] | None = None
) -> Picture:
    """What lies in the checkpoint folder of a query of Structured Streaming, batch by batch, and what the next start will do.

    `sink` is the folder that a query with a file sink writes to; `log_ends` says where the logs end now, {("orders", 0): 10}, as a
    folder does not know it. LabError as `read_checkpoint`.
    """
    found = folder if isinstance(folder, CheckpointFolder) else read_checkpoint(folder, sink)
    rows = tuple(row for row in ROWS if (row != "state" or found.state) and (row != "sink" or found.sink_batches))
    table = Batches(again=found.unfinished, rows=rows)
    for number, sources in found.offsets.items():
        table.put(number, "offsets", to_text(sources, found.offsets.get(number - 1)))
    versions = set.intersection(*map(set, found.state.values())) if found.state else set()
    for number in list(table.boxes):
        if number + 1 in versions:
            table.put(number, "state", f"v{number + 1}")
    for number in found.sink_batches:
        table.put(number, "sink", "files")
    for number in found.commits:
        table.put(number, "commits", "done")
    sentence = next_start(found, log_ends or {})
    parts = [el("text", "What has each batch written?", cls="ink", x=LEFT, y=22, font_size=14, font_weight="bold")]
    parts.append(el("text", found.beside, cls="grey", x=LEFT, y=42, font_size=11))
    parts.append(group(*TABLE.draw(table.lines), transform="translate(0 40)"))
    foot = 40 + TABLE.tall
    if found.troubles:
        parts.append(el("text", plain_text(f"not read: {found.troubles[0]}", 110), cls="grey", x=LEFT, y=foot + 14, font_size=11))
        foot += 20
    swatches, tall = legend(batches_legend(table.kinds), foot + 10)
    svg = document("The checkpoint of a query", f"{sentence} {table.words}", group(*parts, swatches), WIDTH, foot + tall + 18)
    return Picture(sentence, svg)


def next_start(found: CheckpointFolder, log_ends: Mapping[tuple[str, int], int]) -> str:
    """What the folder proves of each partition, and what Spark will do: it compares the last batch with the one before."""
    last, done = max(found.offsets, default=None), max(found.commits, default=-1)
    if last is None and found.commits:
        return f"commits names batch {done} and offsets none: Spark does not start. Copy the folder once more, as a whole."
    if last is None:
        return "No batch has been planned: the next start begins where startingOffsets says."
    proof = ", ".join(found.went_back[:3])
    proof = f"The folder proves that offsets went back, as when a topic is made anew: {plain_text(proof, 240)}. " if proof else ""
    if last and last - 1 not in found.offsets:
        return f"{proof}offsets/{last - 1} is not there or cannot be read: Spark does not start without it."
    before, now, far = found.ends(last - 1), found.ends(last), found.beyond(last, log_ends)
    back = named([f"{topic}-{number} from {end}" for (topic, number), end in now.items() if end < before.get((topic, number), end)])
    gone = named([f"{topic}-{number}" for topic, number in before if (topic, number) not in now])
    again = f" {gone} is read again from its beginning." if gone else ""
    if found.unfinished is None and far:
        return f"{proof}Batches 0 to {last} have read {far}: Spark does not start. With failOnDataLoss=false it goes on from that end."
    if found.unfinished is None:
        return f"{proof}Batches 0 to {last} are done: the next start plans batch {last + 1}{back and f', {back}'}.{again}"
    if back or gone:
        passed = f" With failOnDataLoss=false it passes that over{back and f', and goes on with {back}'}.{again}"
        return f"{proof}Batch {last} is not in commits, and its ends lie below its begins or are missing: Spark does not start.{passed}"
    if far:
        return f"{proof}Batch {last} is run again and takes {far}: Spark waits kafkaConsumer.pollTimeoutMs for the rest, and fails."
    if found.is_ahead:
        end = f", and ends at commits/{last}, which is there already (Concurrent update)" if last in found.commits else ""
        return f"{proof}commits/{done} has no offsets/{done}: the folder is not whole. Spark runs batch {last} again{end}."
    skips = f"Batch {done + 1} was never done and is passed over, with its records. " if done + 1 < last else ""
    return f"{proof}{skips}Batch {last} is in offsets and not in commits: the next start runs it again with the same records."


def to_text(sources: tuple[Any, ...], before: tuple[Any, ...] | None) -> str:
    """What a batch takes: the records of each Kafka source, "to 12" where its begin is not known, or a source's offset as it stands."""
    told = []
    for place, end in enumerate(sources):
        begin = before[place] if before is not None and place < len(before) else None
        ends, begins = kafka_ends(end), kafka_ends(begin)
        if ends is None:
            told.append(plain_text(end, 40))
        elif len(ends) == 1:
            [(where, to)] = ends.items()
            begin = (begins or {}).get(where, to)
            told.append(f"{begin}–{to - 1}" if begin < to else f"{to - begin:+,}" if begin > to else f"to {max(0, to - 1)}")
        else:
            steps = [to - (begins or {}).get(where, to) for where, to in ends.items()]
            total = f"{sum(ends.values()) - sum((begins or {}).values()):,} rec." if begins else f"to {sum(ends.values()):,}"
            told.append(total if min(steps) >= 0 else "/".join(f"{step:+}" for step in steps))
    return ", ".join(told)

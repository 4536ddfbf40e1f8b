"""`draw_checkpoint`: the checkpoint folder of any query of Structured Streaming as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kitlib.lab.checkpoint_folder import CheckpointFolder, kafka_ends, read_checkpoint
from kitlib.text import plain_text
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.picture import Picture
from kitlib.views.pictures.checkpoint_table import ROWS, Table, draw_table, table_legend, table_tall
from kitlib.views.svg import document, el, group, legend
from kitlib.words.template import count


def draw_checkpoint(folder: str | Path | CheckpointFolder, sink: str | Path | None = None) -> Picture:
    """What lies in the checkpoint folder of a query of Structured Streaming, batch by batch, and what the next start will do.

    `sink` is the folder that a query with a file sink writes to. LabError as `read_checkpoint`.
    """
    found = folder if isinstance(folder, CheckpointFolder) else read_checkpoint(folder, sink)
    rows = tuple(row for row in ROWS if (row != "state" or found.state) and (row != "sink" or found.sink_batches))
    table = Table(again=found.unfinished, rows=rows)
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
    sentence = sentence_of(found)
    parts = [el("text", "What has each batch written?", cls="ink", x=LEFT, y=22, font_size=14, font_weight="bold")]
    parts.append(el("text", beside_of(found), cls="grey", x=LEFT, y=42, font_size=11))
    parts.append(group(*draw_table(table), transform="translate(0 52)"))
    foot = 52 + table_tall(rows)
    if found.troubles:
        parts.append(el("text", plain_text(f"not read: {found.troubles[0]}", 110), cls="grey", x=LEFT, y=foot + 14, font_size=11))
        foot += 20
    swatches, tall = legend(table_legend(rows), foot + 10)
    svg = document("The checkpoint of a query", f"{sentence} {table.words}", group(*parts, swatches), WIDTH, foot + tall + 18)
    return Picture(sentence, svg)


def beside_of(found: CheckpointFolder) -> str:
    """What lies beside the batches."""
    own = count(sum(name.startswith("sources/") for name in found.files), "file")
    query = f"metadata: query {found.query_id}" if found.query_id else "no metadata, so the next start is another query"
    return plain_text(f"{query}; sources: {own}; state of {count(len(found.state), 'operator')}", 110)


def sentence_of(found: CheckpointFolder) -> str:
    """What the next start will do."""
    last = max(found.offsets, default=None)
    if last is None:
        return "No batch has been planned: the next start begins where startingOffsets says."
    if back := found.went_back:
        return f"The folder proves that offsets went back, as when a topic is made anew: {plain_text(', '.join(back[:3]), 240)}."
    if found.unfinished is None:
        return f"Batches 0 to {last} are done: the next start plans batch {last + 1}."
    return f"Batch {last} is in offsets and not in commits: the next start runs it again with the same records."


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

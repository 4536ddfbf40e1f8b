"""Words of a streaming query with a checkpoint: what it writes for each batch, and what the next start does with it."""

from __future__ import annotations

from kitlib.words.glyphs import BLUE, CROSS, CROSSED_SQUARE, DIAMOND, GREEN, ORANGE, PLAY, RED, SKY, SQUARE, Glyph
from kitlib.words.word import Data, Domain, Rule, Word, count, span

_MODEL = "more.micro_batch"


def _start(who: str, data: Data) -> str:
    if data["batch"] is None:
        return f"The query starts from offset {data['offset']}: {data['why']}."
    return f"The query starts: batch {data['batch']} is in offsets and not in commits, so it will run again from offset {data['offset']}."


def _offsets(who: str, data: Data) -> str:
    told = span(data["first"], data["last"])
    if data["again"]:
        return f"Batch {data['batch']} runs again with the same records, {told}: offsets/{data['batch']} is there."
    return f"offsets/{data['batch']} is written: batch {data['batch']} takes {told}."


def _sink(who: str, data: Data) -> str:
    told = f"Batch {data['batch']}: {count(data['written'], 'row')} of {data['rows']} can now be read in the sink"
    return f"{told}; {data['why']}." if data["why"] else f"{told}."


CHECKPOINT = Domain(
    "checkpoint",
    {
        "append": Word(
            lambda who, data: f"The topic receives {span(data['first'], data['last'])}.", "first last",
            judged="append", about="record:first-last",
        ),
        "start": Word(
            _start, "batch:whole? offset why", glyph=Glyph("a query starts", PLAY, "ink", 1.6, "paper"), judged="start",
            about="batch:batch",
            rule=Rule(
                "If the last batch in offsets is not in commits, it is done again.", f"{_MODEL}:Checkpoint.next_batch"
            ),
        ),
        "offsets": Word(
            _offsets, "again batch first last", glyph=Glyph("offsets are written", DIAMOND, ORANGE, 2, "paper"),
            judged="take", about="batch:batch record:first-last",
            rule=Rule("A batch's records are written down before anything is done with them.", f"{_MODEL}:Checkpoint.write_offsets"),
        ),
        "state": Word(
            "The state store gets version {version}, made from version {made_from}.", "batch made_from version",
            glyph=Glyph("a version of the state is written", SQUARE, SKY, 2, "paper"), about="batch:batch",
            rule=Rule("Batch N makes version N + 1 of the state from version N, whatever it finds.", f"{_MODEL}:Checkpoint.write_state"),
        ),
        "process": Word(
            "The row of record {offset} can be read in the sink.", "offset", "batch", room=0.3, judged="process",
            about="record:offset batch:batch",
        ),
        "sink": Word(
            _sink, "batch rows why written:whole", glyph=Glyph("the sink is written", SQUARE, GREEN, 2.4), about="batch:batch",
            rule=Rule("A sink with a key or with batch numbers can tell what it has already.", f"{_MODEL}:IdempotentSink.write"),
        ),
        "commit": Word(
            "commits/{batch} is written: batch {batch} is done, everything below offset {offset} too.", "batch offset written",
            glyph=Glyph("commits are written", DIAMOND, BLUE, 2.4), judged="commit", about="batch:batch",
            rule=Rule("A batch that is in commits is never done again.", f"{_MODEL}:Checkpoint.write_commit"),
        ),
        "kill": Word("The query is killed: {after}.", "after:text", glyph=Glyph("the query is killed", CROSS, RED, 2.6)),
        "forget": Word("The checkpoint is deleted.", glyph=Glyph("the checkpoint is deleted", CROSSED_SQUARE, RED, 1.8, "paper")),
        "end": Word("There is nothing left to do; the query ends."),
    },
    marks={"kill": "killed", "start": "start", "forget": "checkpoint deleted"},
)

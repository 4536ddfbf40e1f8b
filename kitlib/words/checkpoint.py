"""Words of a streaming query with a checkpoint: what it writes for each batch, and what the next start does with it."""

from __future__ import annotations

from kitlib.words.glyphs import BLUE, CROSS, CROSSED_SQUARE, DIAMOND, GREEN, ORANGE, PLAY, RED, SKY, SQUARE, Glyph
from kitlib.words.word import Domain, Rule, Word, rules

checkpoint = rules("more.micro_batch:Checkpoint.")


CHECKPOINT = Domain(
    "checkpoint",
    {
        "append": Word("The topic receives {span()}.", "first last", judged="append", about="record:first-last"),
        "start": Word(
            "The query starts[batch=None? from offset {offset}: {why}|: batch {batch} is in offsets and not in commits, so it will run "
            "again from offset {offset}].", "batch:whole? offset why", glyph=Glyph("a query starts", PLAY, "ink", 1.6, "paper"),
            judged="start", about="batch:batch",
            rule=checkpoint("next_batch", "If the last batch in offsets is not in commits, it is done again."),
        ),
        "offsets": Word(
            "[again?Batch {batch} runs again with the same records, {span()}: offsets/{batch} is there|offsets/{batch} is written: batch "
            "{batch} takes {span()}].", "again batch first last", glyph=Glyph("offsets are written", DIAMOND, ORANGE, 2, "paper"),
            judged="take", about="batch:batch record:first-last",
            rule=checkpoint("write_offsets", "A batch's records are written down before anything is done with them."),
        ),
        "state": Word(
            "The state store gets version {version}, made from version {made_from}.", "batch made_from version",
            glyph=Glyph("a version of the state is written", SQUARE, SKY, 2, "paper"), about="batch:batch",
            rule=checkpoint("write_state", "Batch N makes version N + 1 of the state from version N, whatever it finds."),
        ),
        "process": Word(
            "The row of record {offset} can be read in the sink.", "offset", "batch", room=0.3, judged="process",
            about="record:offset batch:batch",
        ),
        "sink": Word(
            "Batch {batch}: {written:row} of {rows} can now be read in the sink[; {why}].", "batch rows why written:whole",
            glyph=Glyph("the sink is written", SQUARE, GREEN, 2.4), about="batch:batch",
            rule=Rule("A sink with a key or with batch numbers can tell what it has already.", "more.micro_batch:IdempotentSink.write"),
        ),
        "commit": Word(
            "commits/{batch} is written: batch {batch} is done, everything below offset {offset} too.", "batch offset written",
            glyph=Glyph("commits are written", DIAMOND, BLUE, 2.4), judged="commit", about="batch:batch",
            rule=checkpoint("write_commit", "A batch that is in commits is never done again."),
        ),
        "kill": Word("The query is killed: {after}.", "after:text", glyph=Glyph("the query is killed", CROSS, RED, 2.6)),
        "forget": Word("The checkpoint is deleted.", glyph=Glyph("the checkpoint is deleted", CROSSED_SQUARE, RED, 1.8, "paper")),
        "end": Word("There is nothing left to do; the query ends."),
    },
    marks={"kill": "killed", "start": "start", "forget": "checkpoint deleted"},
)

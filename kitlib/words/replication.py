"""Words of a replicated partition: what brokers and the controller do; consumers use the words of groups."""

from __future__ import annotations

from dataclasses import replace

from kitlib.words.glyphs import CROSSED_SQUARE, CUT, DIAMOND, GOES_ON, IS_KILLED, PAUSE, RED, Glyph
from kitlib.words.groups import GROUPS
from kitlib.words.template import count, phrase
from kitlib.words.word import Data, Domain, Rule, Word, rules, spans, with_room

replicated_partition = rules("mechanisms.replication.partition:ReplicatedPartition.")
controller = rules("mechanisms.replication.controller:")


@phrase
def _number(data: Data) -> str:
    return count(data["last"] - data["first"] + 1, "record")


@phrase
def _gone(data: Data) -> str:
    return count(data["from"] - data["to"], "record")


def _isr(who: str, data: Data) -> str:
    brokers = [f"{each}" for each in data["in_sync"]]
    if not brokers:
        return "No replica is in sync any more."
    listed = " and ".join(brokers[-2:]) if len(brokers) <= 2 else f"{', '.join(brokers[:-1])} and {brokers[-1]}"
    return f"In-sync replicas: {'only broker' if len(brokers) == 1 else 'brokers'} {listed}."


def _truncate(who: str, data: Data) -> str:
    number = data["from"] - data["to"]
    them = "it" if number == 1 else "them"
    return f"{who} truncates its log by {count(number, 'record')}, back to offset {data['to']:d}: its leader does not have {them}."


_OWN = {
    "append": Word(
        "{who} appends {number()} to its log, {span()}: acknowledged.", "first last", judged="append",
        about="process:=producer record:first-last",
        rule=replicated_partition("append", "A write is acknowledged when all in-sync replicas have it."),
    ),
    "refused": Word(
        "The producer's {count:record} are refused: {error}. Nothing is written.", "count error",
        glyph=Glyph("the producer is refused", CROSSED_SQUARE, RED, 1.6, "paper"), about="process:=producer",
        rule=replicated_partition("is_under_min_isr", "min.insync.replicas: with fewer in-sync replicas, nothing is written."),
    ),
    "kill": Word("{who} is killed. Its disk stays as it is.", glyph=IS_KILLED),
    "restart": Word(
        "{who} comes back with the log on its disk.", glyph=replace(GOES_ON, meaning="comes back"),
        rule=replicated_partition("start", "A broker comes back with its log; at startup it truncates it at the first corrupt batch."),
    ),
    "pause": Word(
        "{who} is paused: it replicates nothing, and does not notice.", glyph=Glyph("paused", PAUSE, "ink", 2.6)
    ),
    "wake": Word("{who} resumes.", glyph=GOES_ON),
    "flip": Word(
        "A bit flips on the disk of {who}, in the record at offset {offset:d}.",
        "offset", judged="flip",
        glyph=Glyph("a bit flips on its disk", "M1 -7L-4 1H3L-1 7", RED, 2),
    ),
    "recover": Word(
        "{who} checks its log at startup and truncates it at offset {to:d}, where a batch is corrupt; it used to end at {from:d}.",
        "from to", glyph=Glyph("truncates its log at a corrupt batch", CUT, RED, 1.8),
        rule=replicated_partition("start", "At startup a broker truncates its log at the first corrupt batch."),
    ),
    "copy": Word(
        "{who} replicates from the leader, up to offset {to:d}.", "to",
        rule=replicated_partition("copy", "A follower fetches what follows its own log's end."),
    ),
    "truncate": Word(
        _truncate, "from to", glyph=Glyph("truncates what its leader does not have", CUT, RED, 1.8),
        rule=replicated_partition("_cut_off", "A follower truncates its log to where it agrees with its leader's, epoch by epoch."),
    ),
    "lead": Word(
        "{who} is the leader, epoch {epoch:d}.", "epoch",
        rule=controller("decide", "The controller elects the first live in-sync replica."),
    ),
    "follow": Word(
        "{who} follows broker {leader}, epoch {epoch:d}.", "epoch leader",
        rule=controller("decide", "The controller elects the first live in-sync replica."),
    ),
    "isr": Word(_isr, "in_sync", rule=controller("decide", "A replica that is dead or too far behind leaves the in-sync set.")),
    "elect": Word(
        "Broker {leader} is elected leader, epoch {epoch:d}[unclean?, although it was not in sync: any record it does not have is lost, "
        "acknowledged or not|[: {why}]. It has every acknowledged record].", "epoch leader unclean", "why", judged="elect",
        glyph=Glyph("a leader is elected", DIAMOND, "ink", 1.8, "paper"),
        rule=controller("decide", "unclean.leader.election.enable: only with it may a replica that was not in sync lead."),
    ),
    "none": Word(
        "There is no leader: no live replica was in sync. Nothing can be written or read, and nothing is lost.", "", "epoch",
        glyph=Glyph("there is no leader", "M-5.5 0A5.5 5.5 0 1 0 5.5 0A5.5 5.5 0 1 0 -5.5 0M-4 4L4 -4", RED, 1.8, "paper"),
        rule=controller("decide", "unclean.leader.election.enable: only with it may a replica that was not in sync lead."),
    ),
    "differs": Word(
        "The real brokers and the model disagree: {what}.", "what", glyph=Glyph("broker and model disagree", DIAMOND, RED, 2.6),
    ),
    "cut": Word(
        "To consumers, the log now ends at offset {to:d} instead of {from:d}: {gone()} gone[ ({why})].", "from to", "why", judged="cut",
        about="partition:@", aside=controller("decide", "A new leader's log is the log: what it does not have is gone."),
    ),
    "read": Word(
        lambda who, data: (
            f"At the end, the log holds the records sent as {spans(data['records']).replace('offset', 'number')}."
        ),
        "records:ranges",
    ),
    "diverged": Word(
        "{who} asks where epoch {epoch} ends: at {end}, below its committed offset {committed}. So it knows that its offset refers to "
        "records that are gone.", "committed end epoch", glyph=Glyph("learns that its records are gone", DIAMOND, RED, 1.8, "paper"),
        rule=Rule(
            "A consumer asks where its last epoch ended; below its offset, records are gone.", "mechanisms.replication.epochs:resume"
        ),
    ),
}


def _capital(who: str, what: str, data: Data, said: str) -> str:
    return said[:1].upper() + said[1:] if what in _OWN else said


REPLICATION = Domain(
    "replication",
    with_room(GROUPS.having(_OWN), emit=0.12, process=0.12),
    _capital,
    marks={
        **GROUPS.marks, "restart": "restart", "pause": "frozen", "wake": "resumes", "flip": "bit flips", "truncate": "truncated",
        "recover": "truncated", "cut": "log cut", "none": "no leader",
        "elect": lambda data: "unclean election" if data["unclean"] else "election",
    },
)

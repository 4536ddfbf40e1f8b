"""A ledger as a file, so that a stream can go on where it stopped: numbers as NumPy writes them, the rest as JSON.

A file is written beside its place and moved there, so a cut one is never seen under its name; one that is damaged
later is told as such. Nothing in a file is executed when it is read.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from kitlib.errors import LabError
from kitlib.kafka.offsets.records import BrokenRecord, Reading
from kitlib.monitor.commit_history import Committed, GroupNow, GroupPartition
from kitlib.monitor.rewinds import Excuse, Rewind, Vanished
from kitlib.monitor.running_signs import OpenRewind, RunningSigns
from kitlib.pipelines.offsets_ledger import Asked, LagRules, OffsetsLedger

NUMBERS = ("kind", "order", "at_ms", "offset", "commits")  # of LastCommit
PLAIN = ("outside", "clock_went_back", "newest_ms", "next_order", "last_commit_ms", "ends_ms")  # of the ledger, as they are


def save(ledger: OffsetsLedger, path: Path) -> None:
    """Write a ledger, whole or not at all. OSError when the disk is full."""
    rows = len(ledger.places)
    told = {name: getattr(ledger, name) for name in PLAIN} | {
        "places": [list(place) for place in ledger.places],
        "topic_ids": [raw.hex() for raw in ledger.last.topic_id[:rows]],
        "signs": [[row, told_signs(signs)] for row, signs in ledger.signs.items()],
        "groups": [
            [group, None if now.members is None else sorted(now.members), [[*where, by] for where, by in now.owners.items()]]
            for group, now in ledger.history.now.items()
        ],
        "reading": [ledger.reading.decoded, ledger.reading.broken, [[each.offset, each.reason] for each in ledger.reading.told]],
    }
    ledger.rings.grow(rows)
    ledger.last.grow(rows)
    out = io.BytesIO()
    np.savez(
        out,
        slots=ledger.rings.slots[:rows],
        filled=ledger.rings.filled[:rows],
        told=np.frombuffer(json.dumps(told).encode(), np.uint8),
        **{name: getattr(ledger.last, name)[:rows] for name in NUMBERS},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(out.getvalue())
    os.replace(beside, path)


def load(path: Path, rules: LagRules, asked: Asked) -> OffsetsLedger:
    """The ledger that was saved under the same rules; an empty one where there is no file. LabError for a damaged one."""
    ledger = OffsetsLedger(rules, asked)
    if not path.exists():
        return ledger
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        told = json.loads(found["told"].tobytes())
        fill(ledger, found, told)
    except (OSError, ValueError, LookupError, TypeError, zipfile.BadZipFile) as error:
        raise LabError(
            f"{path} is damaged ({type(error).__name__}). Put it back from a copy, or choose another checkpoint folder to "
            "read the topic from the beginning; nothing was changed or deleted."
        ) from error
    return ledger


def fill(ledger: OffsetsLedger, found: dict[str, Any], told: dict[str, Any]) -> None:
    """What was saved, into a new ledger. ValueError when it does not fit."""
    ledger.places = [GroupPartition(*place) for place in told["places"]]
    ledger.rows = {place: row for row, place in enumerate(ledger.places)}
    rows, intervals = len(ledger.places), ledger.rules.intervals
    if found["slots"].shape[::2] != (rows, intervals) or any(len(found[name]) != rows for name in ("filled", *NUMBERS)):
        raise ValueError("its arrays have other sizes than its names and its rules")
    ledger.rings.slots, ledger.rings.filled = found["slots"], found["filled"]
    for name in NUMBERS:
        setattr(ledger.last, name, found[name])
    ledger.last.topic_id = [bytes.fromhex(told_id) for told_id in told["topic_ids"]]
    ledger.signs = {row: signs_of(ledger.rules, signs) for row, signs in told["signs"]}
    for group, members, owners in told["groups"]:
        seats = {(topic, partition): by for topic, partition, by in owners}
        ledger.history.now[group] = GroupNow(None if members is None else set(members), seats)
    decoded, broken, reasons = told["reading"]
    ledger.reading = Reading(decoded, broken, [BrokenRecord(*each) for each in reasons])
    for name in PLAIN:
        setattr(ledger, name, told[name])


def told_signs(signs: RunningSigns) -> dict[str, Any]:
    """The findings of one partition as JSON values; its last commit is kept elsewhere."""
    return {
        "rewound": [
            [told_commit(each.found.before), told_commit(each.found.after), each.found.excuse.name,
             told_commit(each.found.made_good_at), each.later, each.is_closed]
            for each in signs.rewound
        ],
        "gone": [
            [told_commit(each.last), told_commit(each.tombstone), each.excuse.name, told_commit(each.begun_again)] for each in signs.gone
        ],
        "rewinds": {excuse.name: count for excuse, count in signs.rewinds.items()},
        "vanished": {excuse.name: count for excuse, count in signs.vanished.items()},
    }  # fmt: skip


def signs_of(rules: LagRules, told: dict[str, Any]) -> RunningSigns:
    """The findings again. ValueError or LookupError for what no ledger has written."""
    signs = RunningSigns(rules.made_good_within, rules.retention_ms)
    for before, after, excuse, good, later, is_closed in told["rewound"]:
        found = Rewind(Committed(*before), Committed(*after), Excuse[excuse], commit_or_none(good))
        signs.rewound.append(OpenRewind(found, later, is_closed))
    for last, tombstone, excuse, again in told["gone"]:
        signs.gone.append(Vanished(Committed(*last), Committed(*tombstone), Excuse[excuse], commit_or_none(again)))
    signs.rewinds = {Excuse[name]: count for name, count in told["rewinds"].items()}
    signs.vanished = {Excuse[name]: count for name, count in told["vanished"].items()}
    return signs


def told_commit(commit: Committed | None) -> list[Any] | None:
    """A commit as JSON values."""
    return None if commit is None else [commit.order, commit.at_ms, commit.offset, commit.topic_id, commit.by, commit.members]


def commit_or_none(told: list[Any] | None) -> Committed | None:
    """A commit again."""
    return None if told is None else Committed(*told)

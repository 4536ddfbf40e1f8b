"""What a field of a step holds, so that a trace from a stranger is checked once, where it is read.

A name means the same nearly everywhere, so the kinds stand in one table by name. Where a word's field is of another kind, the word
says so beside the name: `"offset to:text"`. A name that is not in the table may hold anything.

Left out: what the states of some mechanisms hold further in, and whether the steps fit together, which no field shows. Who judges or
draws a trace finds that out (`Trace.following`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeGuard

from kitlib.errors import TraceError
from kitlib.text import plain_text

MOST_RECORDS = 1_000_000  # that the steps of one trace may name as ranges; a run of ours names 30,000
LARGEST = 2**64  # of a whole number: an offset, a random id, a hash

Fits = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be, as JSON has it."""

    says: str  # "a whole number"
    fits: Fits

    def check(self, name: str, value: Any) -> None:
        """TraceError when the value of a field is of another kind."""
        if not self.fits(value):
            raise TraceError(f"{name} should be {self.says}, got {plain_text(json.dumps(value), 40)}")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether this is a whole number, and none that no program counts to."""
    return type(value) is int and -LARGEST < value < LARGEST


def _are_whole(values: Collection[Any]) -> bool:
    return not values or ({*map(type, values)} == {int} and min(values) > -LARGEST and max(values) < LARGEST)


def _is(*types: type) -> Fits:
    return lambda value: type(value) in types


def _list(*types: type) -> Fits:
    return lambda value: type(value) is list and {*map(type, value)} <= {*types}


def _rows(*kinds: Fits) -> Fits:
    def fits(row: Any) -> bool:
        return type(row) is list and len(row) == len(kinds) and all(kind(each) for kind, each in zip(kinds, row, strict=True))

    return lambda value: type(value) is list and all(map(fits, value))


def _are_ranges(value: Any) -> bool:
    return _PAIRS(value) and all(first <= last for first, last in value)


def _object(fits: Fits) -> Fits:
    return lambda value: type(value) is dict and fits([*value.values()])


_NONE = type(None)
_TEXT, _TEXT_OR_NONE = _is(str), _is(str, _NONE)
_PAIRS = _rows(is_whole, is_whole)
_WHOLES: Fits = lambda value: type(value) is list and _are_whole(value)  # noqa: E731 - as the others
_WHOLE_OR_NONE: Fits = lambda value: value is None or is_whole(value)  # noqa: E731
ANYTHING = Kind("anything", lambda value: True)
KINDS = {
    "whole": Kind("a whole number", is_whole),
    "whole?": Kind("a whole number or null", _WHOLE_OR_NONE),
    "number": Kind("a number", lambda value: type(value) is float or is_whole(value)),
    "flag": Kind("true or false", _is(bool)),
    "text": Kind("a text", _TEXT),
    "text?": Kind("a text or null", _TEXT_OR_NONE),
    "scalars": Kind("a list of texts and numbers", _list(str, int, float, bool, _NONE)),
    "texts": Kind("a list of texts", _list(str)),
    "wholes": Kind("a list of whole numbers", _WHOLES),
    "parts": Kind("a whole number, or a list of them", lambda value: is_whole(value) or _WHOLES(value)),
    "pairs": Kind("a list of pairs of whole numbers", _PAIRS),
    "ranges": Kind("a list of ranges, [first, last]", _are_ranges),
    "places": Kind("a list of [name, number]", _rows(_TEXT, is_whole)),
    "owners": Kind("a list of [topic, partition, member or null]", _rows(_TEXT, is_whole, _TEXT_OR_NONE)),
    "tuples": Kind("a list of [id, task, value or null]", _rows(is_whole, _TEXT, _WHOLE_OR_NONE)),
    "rows": Kind("a list of lists", _list(list)),
    "counts": Kind("an object of whole numbers", _object(_are_whole)),
    "counts?": Kind("an object of whole numbers and nulls", _object(lambda values: all(map(_WHOLE_OR_NONE, values)))),
    "words": Kind("an object of texts", _object(lambda values: all(map(_TEXT, values)))),
    "lists": Kind("an object of lists of texts", _object(lambda values: all(map(_list(str), values)))),
}


def _by_name(table: dict[str, str]) -> dict[str, Kind]:
    return {name: KINDS[kind] for kind, names in table.items() for name in names.split()}


FIELDS = _by_name({
    "whole": """acked answers arrival asked at at_work attempt attempts base batch behind broker cached_offsets committed
        consumers coordinator_messages copy count delay_ms delivery early_cancels effects end epoch executed expired failed
        false_completions first first_offset format from generation groups high_watermark idle inputs kept keys lag last late
        leader leader_epoch left_over limit load_ms locks log_end longest_ms lost made_from max_steps messages metadata
        missing most_ms most_partitions ms next node notifications number offset on_disk on_their_way orders outstanding part
        partition paused pending pid poll position queue reads record records refused request restored root rows
        seq shuffled since_cleaned_ms spout_task stage stored_lag threads threads_counting
        threads_idle timeout timestamp_ms to tuple unprocessed until_ms val version waited_ms waiting wasted
        writes""",
    "whole?": "after before stored tx value",
    "number": "commits_a_minute dirty_ratio predicted speed",
    "flag": """again charged fatal full held is_late must_abort need_update partial probing_needed retry stale unclean written""",
    "text": """address answer api by call cause deed effect error from_the_model group how instance_id key kind library member
        member_id message name on outcome protocol release said says state status task thread topic topology_id transactional_id
        tried what when why""",
    "texts": "columns connectors members moved names stateful strategies",
    "wholes": "dropped in_sync left nodes offsets parents removed roots",
    "rows": "batches stages",
    "scalars": "values",
    "parts": "parts",
    "ranges": "ranges",
    "pairs": "ids vals",
    "places": "partitions tasks",
    "owners": "owners",
    "tuples": "tuples",
    "counts": "counts truth",
    "words": "errors",
    "lists": "active standby",
})  # fmt: skip

STATES = _by_name({
    "whole": "committed_to emitted_to_offset epoch log_end log_start lso now_ms number_acked number_failed retries",
    "whole?": "committed_input high_watermark leader",
    "wholes": "in_sync",
    "texts": "members",
    "ranges": "failed pending processed waiting",
    "pairs": "sink",
    "rows": "aborted",
    "counts": "orders positions",
    "counts?": "source",
})  # fmt: skip

"""Errors a learner can act on.

Whatever goes wrong, the reader sees one or two sentences that name who complains, where, what was
found, what was expected and what to do next. `KitError.exit_code` is what the command line ends
with, so that scripts can tell a wrong knob from a broken broker.
"""

from __future__ import annotations


class KitError(Exception):
    """What the kit says when it cannot continue: one or two sentences, the last of which names the next action."""

    exit_code = 1


class KnobError(KitError):
    """A setting is outside its allowed range, or there is no such setting or experiment."""

    exit_code = 2


class LabError(KitError):
    """A part of the lab (broker, Jupyter, Spark) did not start, answer or stop."""

    exit_code = 3


class LateError(LabError):
    """What was waited for has not happened in the time that it was given."""


class TraceError(KitError):
    """A trace, a notebook or another file cannot be read, or holds something that does not belong in it."""

    exit_code = 4


class SupplyError(KitError):
    """Something that must be fetched or found (a jar, a Java, the network) is missing or damaged."""

    exit_code = 5


class DiskError(KitError):
    """A folder cannot be read or written, or there is no room left."""

    exit_code = 74  # EX_IOERR of sysexits.h

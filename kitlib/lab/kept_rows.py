"""One small file of rows in the workspace: what a learner has done so far, which no notebook may lose or stumble over.

A damaged file is put aside under a name of its own, which is said, because a score is not worth a notebook that stops; what can be
read of it is kept. It is written whole or not at all.
Where notebooks are run to be compared or saved anew, `FOLDER` names an empty folder instead: what a cell shows must not depend on
what a learner has done before, and such a run is no try of the learner's.

Left out: two kernels that write within the same millisecond; the later one wins.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kitlib.errors import DiskError
from kitlib.lab import workspace
from kitlib.lab.state import put_aside

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA = 1
MOST_BYTES = 50_000_000  # of a file; a whole course has a hundredth of it
FOLDER = "KIT_PROGRESS"  # the variable that names another folder than the workspace
Row = TypeVar("Row", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class KeptRows(Generic[Row]):
    """A file of dataclasses by key."""

    file: str  # its name in the workspace
    what: str  # "the predictions", for sentences
    read: Callable[[Any], Row]  # one row from JSON; TypeError, KeyError or ValueError for anything else

    def path(self) -> Path:
        """The file; it may not exist."""
        return Path(os.environ.get(FOLDER) or workspace.home()) / self.file

    def load(self) -> dict[str, Row]:
        """All rows, the oldest first. A damaged file is put aside, which is said; the rows that can be read are kept.

        DiskError when the file is there and may not be read or put aside, and when a newer kit wrote it.
        """
        place = self.path()
        try:
            with workspace.open_regular(place, MOST_BYTES) as file:
                text = file.read().decode(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            told = f"{place}: {self.what} cannot be read ({error.strerror or error})"
            raise DiskError(f"{told}. Set KIT_HOME to a folder of yours.") from error
        try:
            found, lost = json.loads(text), 0
        except (ValueError, RecursionError):
            found, lost = _whole_lines(text), 1
        schema, known = (found.get("schema"), found.get("answers")) if isinstance(found, dict) else (None, None)
        if type(schema) is int and schema > SCHEMA:
            raise DiskError(
                f"{place} was written by a newer kit (schema {schema}; this kit reads {SCHEMA}) and is left as it is. "
                "Update this kit, or set KIT_HOME to another folder."
            )
        if schema != SCHEMA or not isinstance(known, dict):
            known, lost = {}, 1
        rows: dict[str, Row] = {}
        for key, row in known.items():
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                rows[key] = self.read(row)
        if lost or len(rows) < len(known):
            self._put_aside(place, rows)
        return rows

    def _put_aside(self, place: Path, rows: dict[str, Row]) -> None:
        try:
            aside = put_aside(place)
        except FileNotFoundError:
            return  # another kernel has just done it
        except OSError as error:
            raise DiskError(f"{place} is damaged and cannot be put aside ({error.strerror}). Set KIT_HOME to a folder of yours.") from error
        if rows:
            self.save(rows)
        told = f"kit: {place} was damaged: {self.what} could be read in part only ({len(rows)} of them). The file is kept as {aside.name}."
        print(told, file=sys.stderr, flush=True)

    def save(self, rows: dict[str, Row]) -> None:
        """Replace the file. DiskError when it cannot be written."""
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(asdict(row), ensure_ascii=False)}" for key, row in rows.items()]
        workspace.write_atomic(self.path(), f'{{\n"schema": {SCHEMA},\n"answers": {{\n' + ",\n".join(lines) + "\n}}\n")

    def reset(self) -> int:
        """Forget all rows; how many there were. DiskError when the file cannot be removed."""
        count, place = len(self.load()), self.path()
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            raise DiskError(f"{place}: it cannot be removed ({error.strerror or error}). Set KIT_HOME to a folder of yours.") from error
        return count


def _whole_lines(text: str) -> dict[str, Any]:
    """What can be read of a file that was cut or overwritten in part, line by line: `save` gives each row one."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        with suppress(ValueError, RecursionError):
            found |= json.loads("{" + line.strip().removesuffix(",") + "}")
    return {"schema": found.pop("schema", None), "answers": found}

"""One small file of rows in the workspace: what a learner has done so far, which no notebook may lose or stumble over.

A damaged file is put aside under a name of its own, which is said, because a score is not worth a notebook that stops.
Where notebooks are run to be compared or saved anew, `FOLDER` names an empty folder instead: what a cell shows must not depend on
what a learner has done before, and such a run is no try of the learner's.

Left out: two kernels that write within the same millisecond; the later one wins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kitlib.errors import DiskError
from kitlib.lab import state, workspace

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FOLDER = "KIT_PROGRESS"  # the variable that names another folder than the workspace
Row = TypeVar("Row", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class KeptRows(Generic[Row]):
    """A file of dataclasses by key."""

    file: str  # its name in the workspace
    read: Callable[[Any], Row]  # one row from JSON; TypeError, KeyError or ValueError for anything else

    def path(self) -> Path:
        """The file; it may not exist."""
        return Path(os.environ.get(FOLDER) or workspace.home()) / self.file

    def load(self) -> dict[str, Row]:
        """All rows, the oldest first. DiskError when the file may not be read."""
        return state.read_as(self._rows, self.path(), state.say_on_stderr) or {}

    def _rows(self, found: dict[str, Any]) -> dict[str, Row]:
        return {key: self.read(row) for key, row in found["answers"].items()}

    def save(self, rows: dict[str, Row]) -> None:
        """Replace the file. DiskError when it cannot be written."""
        state.write_json(self.path(), {"answers": {key: asdict(row) for key, row in rows.items()}})

    def reset(self) -> int:
        """Forget all rows; how many there were. DiskError when the file cannot be removed."""
        count, place = len(self.load()), self.path()
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            raise DiskError(f"{place}: it cannot be removed ({error.strerror or error}). Set KIT_HOME to a folder of yours.") from error
        return count

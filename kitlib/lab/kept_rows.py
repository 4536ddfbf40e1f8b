"""One small file of rows in the workspace: what a learner has done so far, which no notebook may lose or stumble over.

A file that cannot be read is put aside, because a score is not worth a notebook that stops; it is written whole or not at all.
Where notebooks are run to be compared or saved anew, `FOLDER` names an empty folder instead: what a cell shows must not depend on
what a learner has done before, and such a run is no try of the learner's.

Left out: two kernels that write within the same millisecond; the later one wins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kitlib.errors import DiskError
from kitlib.lab import workspace

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SCHEMA = 1
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
        """All rows, the oldest first. A file that cannot be understood is put aside; then there are none.

        DiskError when the file is there and may not be read.
        """
        place = self.path()
        try:
            text = place.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except UnicodeDecodeError:
            text = ""
        except OSError as error:
            told = f"{place}: {self.what} cannot be read ({error.strerror or error})"
            raise DiskError(f"{told}. Set KIT_HOME to a folder of yours.") from error
        try:
            found = json.loads(text)
            if found["schema"] != SCHEMA:
                raise ValueError("another schema")
            return {str(key): self.read(row) for key, row in found["answers"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            try:
                os.replace(place, place.with_name(f"{place.name}.damaged"))
            except OSError:
                pass  # the next row replaces it
            return {}

    def save(self, rows: dict[str, Row]) -> None:
        """Replace the file. DiskError when it cannot be written."""
        told = {key: asdict(row) for key, row in rows.items()}
        workspace.write_atomic(self.path(), json.dumps({"schema": SCHEMA, "answers": told}, indent=1, ensure_ascii=False) + "\n")

    def reset(self) -> int:
        """Forget all rows; how many there were. DiskError when the file cannot be removed."""
        count, place = len(self.load()), self.path()
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            raise DiskError(f"{place}: it cannot be removed ({error.strerror or error}). Set KIT_HOME to a folder of yours.") from error
        return count

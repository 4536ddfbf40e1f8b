"""A streaming query that folds each batch into what the batches before it left, in a checkpoint folder of its own.

What the stream of the offsets topic and the desk's share: the folder is held by one of them at a time, what
it holds is looked at before the query begins, and a state is not read while a batch replaces it. Of offsets it holds

    .made-by-kit    says that `kit reset` may remove the folder
    offsets.json    the run, the topic and its identity, the query's id; named after the kind of job
    .lock           held by the job that uses the folder now
    query/          Spark's own checkpoint: offsets/N is written before batch N, commits/N after it
    state/N.json    what the job knows after batch N: the ends of logs, or the desk's counts; written last, whole or not at all
    state/facts-N   ... and what is too much for JSON: the ledgers of all groups

A batch that was interrupted is done again from the state before it, so two states are kept. Spark
trusts its files; a cut or foreign one gives a page of Java or, worse, a wrong answer. `check` looks at
all of them first. The kit never deletes or mends a checkpoint: its files are the only witness of what
was already read.
"""

from __future__ import annotations

import json
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from filelock import FileLock, Timeout
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from kitlib.errors import KitError, LabError
from kitlib.lab import created_resources, workspace
from kitlib.pipelines.topics import first_line, one_sentence
from kitlib.spark import sessions as kit_spark

SCHEMA = 2
STATES_KEPT = 2


class CheckpointError(LabError):
    """A checkpoint is damaged or belongs to something else; nothing in it was changed."""

    def __init__(self, folder: Path, trouble: str) -> None:
        super().__init__(
            f"checkpoint {folder}: {trouble}. Put the file back from a copy, or choose another checkpoint folder "
            "to begin again; nothing was changed or deleted."
        )


Kept = tuple[int, dict[str, Any]]  # the number of a batch, and the state that was kept with it


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose checkpoint it is."""

    run: str
    topic: str
    topic_id: str  # a topic made anew under the same name has another one


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One folder; see the module for its files."""

    folder: Path
    kind: str  # of the job

    @property
    def told(self) -> Path:
        """Where the folder says whose it is."""
        return self.folder / f"{self.kind}.json"

    @property
    def query(self) -> Path:
        """Spark's part."""
        return self.folder / "query"

    @property
    def state(self) -> Path:
        """The job's part."""
        return self.folder / "state"

    @property
    def lock(self) -> Path:
        """The file that the job which uses this folder has locked."""
        return self.folder / ".lock"

    def facts(self, batch: int) -> Path:
        """What is too much for JSON after a batch."""
        return self.state / f"facts-{batch}"

    def check(self, owner: Owner) -> None:
        """Raise CheckpointError unless the folder is new or a whole checkpoint of this owner."""
        inside = {entry.name for entry in self.folder.iterdir()} - {".lock", created_resources.MARKER}
        if not inside:
            return
        name, word = self.told.name, f"kit_{self.kind}"
        if name not in inside:
            trouble = f"it holds {', '.join(sorted(inside)[:3])} but no {name}, so it is not of this kind"
            raise CheckpointError(self.folder, trouble)
        told = self._json(name)
        if told.get(word) != SCHEMA:
            raise CheckpointError(self.folder, f"{name} should say {word!r}: {SCHEMA}, it says {told.get(word)!r}")
        if told.get("run") != owner.run:
            raise CheckpointError(self.folder, f"{name} says that it belongs to run {told.get('run')!r}, not {owner.run!r}")
        if told.get("topic_id") != owner.topic_id:
            raise CheckpointError(self.folder, f"topic {owner.topic} was deleted and recreated since, so {name} is about another one")
        if self.query.is_dir():
            self._check_query(told.get("query_id"))

    def claim(self, owner: Owner, query_id: str | None = None) -> None:
        """Say whose the folder is; the query's id is known once it runs."""
        told = {f"kit_{self.kind}": SCHEMA, "run": owner.run, "topic": owner.topic, "topic_id": owner.topic_id, "query_id": query_id}
        workspace.write_atomic(self.told, json.dumps(told))

    def latest(self) -> Kept | None:
        """The last state (batch, content); None when there is none."""
        last = max(self._numbers(self.state, ".json"), default=None)
        return None if last is None else (last, self._json(f"state/{last}.json"))

    def keep(self, batch: int, content: dict[str, Any]) -> None:
        """Make a batch's state the last one; its facts are already there. Forget the states before the last two."""
        workspace.write_atomic(self.state / f"{batch}.json", json.dumps(content))
        for old in sorted(self._numbers(self.state, ".json"))[:-STATES_KEPT]:
            (self.state / f"{old}.json").unlink(missing_ok=True)
            with suppress(OSError):
                shutil.rmtree(self.facts(old))

    def _check_query(self, query_id: str | None) -> None:
        found = self._json("query/metadata").get("id") if (self.query / "metadata").exists() else None
        if query_id is not None and found != query_id:
            raise CheckpointError(self.folder, "query/metadata is missing or of another query")
        offsets = self._checked("offsets", least_lines=3)
        commits = self._checked("commits", least_lines=2)
        last_offset, last_commit = max(offsets, default=-1), max(commits, default=-1)
        states = self._numbers(self.state, ".json")
        for missing, kind in ((range(last_commit + 1, last_offset), "commits"), (range(last_offset + 1, last_commit + 1), "offsets")):
            if missing:
                raise CheckpointError(self.folder, f"query/{kind}/{missing[0]} is missing")
        if max(states, default=-1) > last_offset:
            raise CheckpointError(self.folder, f"query/offsets/{max(states)} is missing")
        for batch in {last_commit, max(states, default=-1)} - {-1}:
            if batch not in states:
                raise CheckpointError(self.folder, f"state/{batch}.json is missing")
            self._json(f"state/{batch}.json")
            if not (self.facts(batch) / "_SUCCESS").exists():
                raise CheckpointError(self.folder, f"state/{self.facts(batch).name} is missing or was not written to its end")

    def _checked(self, kind: str, least_lines: int) -> list[int]:
        """The batches with a file in query/<kind>, each of which can be read."""
        batches = sorted(self._numbers(self.query / kind))
        for batch in batches:
            name = f"query/{kind}/{batch}"
            lines = self._text(name).splitlines()
            if len(lines) < least_lines or not lines[0].startswith("v"):
                raise CheckpointError(self.folder, f"{name} is cut short ({len(lines)} of at least {least_lines} lines)")
            for line in lines[1:]:
                self._parsed(name, line)
        if gaps := sorted(set(range(batches[0], batches[-1])) - set(batches)) if batches else []:
            raise CheckpointError(self.folder, f"query/{kind}/{gaps[0]} is missing")
        return batches

    def _numbers(self, folder: Path, suffix: str = "") -> list[int]:
        if not folder.is_dir():
            return []
        names = (entry.name.removesuffix(suffix) for entry in folder.iterdir() if entry.name.endswith(suffix))
        return [int(name) for name in names if name.isdecimal()]

    def _json(self, name: str) -> dict[str, Any]:
        content = self._parsed(name, self._text(name))
        if not isinstance(content, dict):
            raise CheckpointError(self.folder, f"{name} holds no JSON object")
        return content

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(self.folder, f"{name} cannot be read ({error})") from error

    def _parsed(self, name: str, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(self.folder, f"{name} is damaged: it is not JSON") from error


Result = TypeVar("Result")


class FoldedStream(ABC, Generic[Result]):
    """A query that runs, its checkpoint, and what ended it."""

    user = "stream"  # what the sentence calls another holder of the folder

    @property
    def advice(self) -> str:
        """What is safe to do when the query has ended with an error."""
        return f"Spark's log is {kit_spark.log_file()}. Start it again with another checkpoint folder; this one was left as it is."

    def __init__(self, what: str, checkpoint: Checkpoint) -> None:
        self.what = what  # begins its errors
        self.checkpoint = checkpoint
        self.query: StreamingQuery | None = None  # None before the start, and after the end
        self.lock = FileLock(checkpoint.lock, thread_local=False)
        self.folding = threading.RLock()  # a state is not read while a batch replaces it
        self.trouble: KitError | None = None  # what ended a batch

    @abstractmethod
    def _fold_batch(self, rows: DataFrame, batch: int, kept: Kept | None) -> None:
        """Batch `batch` joins what the batch before has left, None for the first, and is kept."""

    def catch_up(self) -> None:
        """Wait until everything that is in the topic by now is read. LabError when the query has ended with an error."""
        if self.query is None:
            raise LabError(f"{self.what}: it was stopped. Start it again to go on.")
        with one_sentence(self.what):
            try:
                self.query.processAllAvailable()
                ended = self.query.exception()
            except StreamingQueryException as error:
                ended = error
        if ended is not None:
            kit_spark.check_alive()
            raise self.trouble or LabError(f"{self.what}: it ended, {first_line(ended)}. {self.advice}") from ended

    @abstractmethod
    def result(self) -> Result:
        """What the rows come to that were read so far."""

    def finish(self) -> Result:
        """Wait until everything that is in the topic by now is read, stop, and give the result."""
        try:
            self.catch_up()
            return self.result()
        finally:
            self.stop()

    def _begin(self, owner: Owner, rows: Callable[[], DataFrame], every_ms: int) -> None:
        """Hold the folder and begin, or go on, with it. LabError when another holds it, or it is damaged or another's."""
        self._lock_folder()
        try:
            self.checkpoint.check(owner)
            if not self.checkpoint.told.exists():
                created_resources.remember("checkpoint", self.checkpoint.folder)
                self.checkpoint.claim(owner)
            with one_sentence(self.what):
                writer = rows().writeStream.trigger(processingTime=f"{every_ms} milliseconds")
                self.query = kit_spark.start(writer.option("checkpointLocation", str(self.checkpoint.query)), self._fold)
            self.checkpoint.claim(owner, str(self.query.id))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the query and let the checkpoint go; a later stream goes on from it."""
        query, self.query = self.query, None
        try:
            if query is not None and kit_spark.is_alive():
                with one_sentence(self.what):
                    query.stop()
        finally:
            with self.folding:  # a batch that was cut off has noticed by then
                self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _fold(self, rows: DataFrame, batch: int) -> None:
        """What Spark calls with each batch."""
        with self.folding:
            try:
                kept = self.checkpoint.latest()
                if kept is None or kept[0] < batch:  # else it is done already, and only Spark's note of it was lost
                    self._fold_batch(rows, batch, kept)
            except KitError as error:
                self.trouble = error
                raise

    def _lock_folder(self) -> None:
        folder = self.checkpoint.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.lock.acquire(timeout=0)
        except Timeout:
            raise LabError(f"checkpoint {folder}: another {self.user} uses it now. Stop that one, or choose another folder.") from None
        except OSError as error:
            raise workspace.disk_error(f"checkpoint {folder}: it cannot be used", error, folder) from error

"""Runs notebooks without a browser: to save their outputs anew, and to compare them.

Each notebook gets a kernel of its own, started like the lab's kernels and ended with everything that
came of it. What is saved depends on what the notebook computes and on nothing else: no times, no
versions, no identities of widgets. An output that differs from the saved one only in what is never
the same twice (an address in memory, a duration; see `VOLATILE`) is left as it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbclient.output_widget import OutputWidget
from nbformat import NotebookNode
from traitlets.config import Config

from kitlib.errors import KnobError, LabError, TraceError
from kitlib.lab import jupyter, kafka_server, workspace
from kitlib.lab.kept_rows import FOLDER
from kitlib.lab.processes import SPARK, TOKEN_NAME, find_all, is_server, sweep

FOLDERS = ("notebooks", "notebooks/exercises")
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}  # no version: it would change with every machine
KEPT_METADATA = ("course",)  # what a notebook of the course says of itself: its minutes, needs, objectives and key points
KEPT_CELL_METADATA = ("tags",)
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"  # names a widget that lives in one kernel
SECONDS_PER_CELL = 120  # one may start Spark on a busy laptop
MINUTES_PER_NOTEBOOK = 10

# What differs between two runs of the same code and means nothing. In this order; also given to nbval.
VOLATILE = (
    (r"\b0x[0-9a-f]{6,16}\b", "0xADDRESS"),
    (r"\b127\.0\.0\.1:\d{2,5}\b", "127.0.0.1:PORT"),
    (r"\b\d+(\.\d+)? (s|seconds)\b", "DURATION"),  # not ms: those are the model's, and the same every time
    (r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?", "TIME"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
    (r"\bkit\.([a-z_]+)\.[a-z0-9][a-z0-9_-]*", r"kit.\1.RUN"),
    (r"\b(process|pid) \d+", r"\1 PID"),
    (r"~\d[\d,]*(\.\d+)?", "~MEASURED"),  # a notebook writes a tilde before what it has measured on this machine
)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of running one notebook."""

    path: Path
    notebook: NotebookNode  # with the outputs as far as it came
    seconds: float
    problem: str | None  # one sentence, or None when every cell ran


def shipped_in(root: Path) -> list[Path]:
    """The notebooks that came with the project, in the order in which they are read; [] where there are none."""
    return [path for folder in FOLDERS for path in sorted((root / folder).glob("*.ipynb"))]


def find(root: Path) -> list[Path]:
    """The same; LabError if there are none."""
    found = shipped_in(root)
    if not found:
        raise LabError(f"There are no notebooks in {root}. Run this in the folder that holds `notebooks`.")
    return found


def choose(paths: list[Path], only: list[str]) -> list[Path]:
    """Those of `paths` that `only` names (a path, a name, or the beginning of one); all of them if it names none."""
    chosen: list[Path] = []
    for asked in only:
        name = Path(asked).name.removesuffix(".ipynb")
        matching = [path for path in paths if path.stem.startswith(name)]
        if not matching:
            raise KnobError(f"There is no notebook {asked}. Choose among {', '.join(path.stem for path in paths)}.")
        chosen += matching
    return chosen or paths


@contextlib.contextmanager
def broker(progress: Callable[[str], None]) -> Iterator[kafka_server.Cluster]:
    """A running cluster; what was started for this, and Spark, is ended afterwards."""
    was_running = kafka_server.status().phase not in ("stopped", "failed")
    try:
        with import_module(SPARK).lent():
            yield kafka_server.ensure(progress=progress)
    finally:
        if not was_running:
            kafka_server.down(progress)


def load(path: Path) -> NotebookNode:
    """The notebook of a file; LabError if it is none."""
    try:
        return cast(NotebookNode, nbformat.read(path, as_version=4))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise workspace.disk_error(f"{path} could not be read", error, path) from error
    except Exception as error:  # nbformat raises a different one for each way a file can be broken
        raise TraceError(f"{path} is not a notebook: {str(error).splitlines()[0][:200]}. Restore it.") from error


def run(path: Path, progress: Callable[[int, int], None] = lambda done, of: None) -> Result:
    """Run a notebook in a new kernel, from its first cell to its last or to the first that fails."""
    notebook, began = load(path), time.monotonic()
    count = sum(cell.cell_type == "code" for cell in notebook.cells)
    done = 0

    def executed(**_: Any) -> None:
        nonlocal done
        done += 1
        progress(done, count)
        if time.monotonic() - began > MINUTES_PER_NOTEBOOK * 60:
            raise TimeoutError(f"took longer than {MINUTES_PER_NOTEBOOK} minutes")

    ended = execute(notebook, path, {"TQDM_DISABLE": "1"}, timeout=SECONDS_PER_CELL, coalesce_streams=True, on_cell_executed=executed)
    problem = None if ended is None else describe(ended, done)
    return Result(path, notebook, time.monotonic() - began, problem)


class Output(OutputWidget):
    """An Output widget as nbclient plays the browser's part of it, without a stall of nbclient 0.11.

    It sends past the socket's event loop, which then may not see that an answer has come; asking for the events shows it.
    """

    def send(self, *arguments: Any, **settings: Any) -> None:
        super().send(*arguments, **settings)
        _ = self.kernel_client.shell_channel.socket.EVENTS


def execute(notebook: NotebookNode, path: Path, environment: Mapping[str, str] | None = None, **settings: Any) -> Exception | None:
    """Run the cells in a new kernel in the notebook's folder, as nbclient's `settings` say; what ended the run before its last cell.

    The kernel and all that came of it are gone at the end, also after Ctrl-C.
    """
    token = uuid.uuid4().hex
    jupyter.write_settings()
    client = NotebookClient(
        notebook, kernel_name=KERNELSPEC["name"], record_timing=False,
        resources={"metadata": {"path": str(path.resolve().parent)}},
        config=Config({"KernelManager": {
            "transport_encryption": "auto", "shutdown_wait_time": 3.0,
            "connection_file": str(jupyter.runtime_dir() / f"kernel-{token}.json"),  # not in the user's own folder
        }}), **settings,
    )  # fmt: skip
    client.widget_registry["@jupyter-widgets/output"]["OutputModel"] = Output
    with tempfile.TemporaryDirectory(prefix="kit-progress-") as folder, ThreadPoolExecutor(1) as thread:
        names = {"KIT_NOTEBOOK": path.stem, TOKEN_NAME: token, FOLDER: folder}
        try:  # in a thread: in this one nbclient would take Ctrl-C for itself
            thread.submit(asyncio.run, client.async_execute(env={**jupyter.environment(), **(environment or {}), **names})).result()
        except (CellExecutionError, CellTimeoutError, DeadKernelError, TimeoutError, RuntimeError) as error:
            return error
        finally:
            sweep(lambda: [process for process in find_all(token) if not is_server(process)])
    return None


def describe(error: Exception, done: int) -> str:
    """One sentence about why a notebook did not come to its end."""
    where = f"code cell {done + 1}"
    if isinstance(error, CellTimeoutError):
        return f"{where} ran longer than {SECONDS_PER_CELL} s"
    if isinstance(error, DeadKernelError):
        return f"the kernel died in {where}"
    if isinstance(error, CellExecutionError):
        return f"code cell {max(done, 1)}: {error.ename}: {error.evalue.splitlines()[0][:200] if error.evalue else ''}"
    return f"{where}: {error}"


def same(text: str) -> str:
    """`text` with everything replaced that differs between two runs of the same code."""
    for pattern, replacement in VOLATILE:
        text = re.sub(pattern, replacement, text)
    return text


def tidy(notebook: NotebookNode, before: NotebookNode | None = None) -> NotebookNode:
    """Take out of a run notebook what depends on the machine and the moment; returns the same object.

    With `before`, the notebook as it was saved, outputs that mean the same are taken from there.
    """
    course = {key: notebook.metadata[key] for key in KEPT_METADATA if key in notebook.metadata}
    notebook.metadata = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE, **course}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    older = {cell.get("id"): cell for cell in before.cells} if before else {}
    number = 0
    for position, cell in enumerate(notebook.cells):
        cell.metadata = {key: cell.metadata[key] for key in KEPT_CELL_METADATA if key in cell.metadata}
        if "id" not in cell:
            cell.id = hashlib.sha256(f"{position} {cell.source}".encode()).hexdigest()[:8]
        if cell.cell_type != "code":
            continue
        number += 1
        cell.execution_count = number
        for output in cell.outputs:
            if "data" in output:
                output.data.pop(WIDGET_VIEW, None)
                output.metadata = {}
            if output.output_type == "execute_result":
                output.execution_count = number
        old = older.get(cell.id)
        if old is not None and old.get("source") == cell.source and looks(old.outputs) == looks(cell.outputs):
            cell.outputs = old.outputs
    return notebook


def looks(outputs: list[NotebookNode]) -> str:
    """What a reader sees of a cell's outputs."""
    return same(json.dumps([{**output, "metadata": {}} for output in outputs], sort_keys=True))


def text_of(notebook: NotebookNode) -> str:
    """The notebook as its file holds it."""
    return str(nbformat.writes(notebook, version=4)).rstrip("\n") + "\n"  # type: ignore[no-untyped-call]


def save(notebook: NotebookNode, path: Path) -> bool:
    """Write the notebook if it differs from the file; whether it did."""
    text = text_of(notebook)
    if path.read_text(encoding="utf-8") == text:
        return False
    workspace.write_atomic(path, text)
    return True

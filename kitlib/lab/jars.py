"""The jars of Kafka and of Spark's Kafka connector: exactly the locked ones, or an error that names the bad one.

A jar cut short by a broken download gives a broker that dies of a missing class an hour later.
`jars.lock.json` therefore says for each jar its Maven coordinate and its sha256, and `ensure_jars`
reads every file at every call, because that takes a tenth of a second and a wrong jar costs an
evening. What is missing or wrong is fetched by its coordinate; nothing is resolved at that time, so
two learners never run different jars.

Source: jgo 3.2.0 downloads (it compares at best with a SHA-1 from the same server, and only warns).
Differs: the hash is ours, a bad file is never used, and files are moved, not linked, into place.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.resources
import json
import os
import queue
import shutil
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kitlib.errors import KitError, SupplyError
from kitlib.lab import java, workspace

SetName = Literal["kafka", "spark"]
Progress = Callable[[str], None]
SETS: tuple[SetName, ...] = ("kafka", "spark")

FETCHERS = 6  # connections at once
SILENCE_SECONDS = 20  # a server that sends nothing for so long is given up
LONGEST_FETCH_S = 3_600.0  # of another process
LINE_SECONDS = 2.0  # how often a line is printed where no bar can be drawn


@dataclass(frozen=True, slots=True)
class Jar:
    """One locked file."""

    coordinate: str  # group:artifact:version
    file: str  # its name in the jars folder; the version is part of it, so that two versions can live there
    sha256: str
    size: int

    @property
    def path(self) -> Path:
        return workspace.jars_dir() / self.file

    def state(self) -> Literal["good", "missing", "damaged"]:
        """What the file on the disk is, by reading all of it."""
        try:
            with self.path.open("rb") as file:
                return "good" if hashlib.file_digest(file, "sha256").hexdigest() == self.sha256 else "damaged"
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            raise workspace.disk_error(f"{self.path} cannot be read", error, self.path) from error


def _load() -> dict[str, tuple[Jar, ...]]:
    text = importlib.resources.files("kitlib.lab").joinpath("jars.lock.json").read_text(encoding="utf-8")
    return {name: tuple(Jar(**jar) for jar in jars) for name, jars in json.loads(text).items()}


LOCK = _load()


def _version(set_name: str, artifact: str) -> str:
    return next(
        jar.coordinate.rsplit(":", 1)[1] for jar in LOCK[set_name] if jar.coordinate.split(":")[1].startswith(artifact)
    )


SCALA_VERSION = "2.13"
KAFKA_VERSION = _version("kafka", f"kafka_{SCALA_VERSION}")
CONNECTOR_VERSION = _version("spark", "spark-sql-kafka")
CONNECTOR_KAFKA_VERSION = _version("spark", "kafka-clients")


def is_offline() -> bool:
    """Whether the user has forbidden all downloads with KIT_OFFLINE."""
    return os.environ.get("KIT_OFFLINE", "") not in ("", "0")


def check_jars(set_name: SetName) -> tuple[list[Jar], list[Jar]]:
    """(missing, damaged) jars of a set; changes nothing."""
    states = [(jar, jar.state()) for jar in LOCK[set_name]]
    return [jar for jar, state in states if state == "missing"], [jar for jar, state in states if state == "damaged"]


def ensure_jars(set_name: SetName, progress: Progress | None = None) -> list[Path]:
    """The paths of all jars of a set, each compared with its sha256 a moment ago.

    What is missing is fetched; what is damaged is named, removed and fetched again once. `progress`
    gets one line of text now and then; without it a bar or lines go to stderr. `SupplyError` if
    something cannot be had, `DiskError` if it cannot be kept. Any number of processes may call this
    at once: one fetches, the others wait for it.
    """
    jars = LOCK[set_name]
    if any(check_jars(set_name)):
        workspace.ensure()
        with workspace.holding(
            workspace.jars_dir() / ".lock", LONGEST_FETCH_S, "Another process has been fetching jars for an hour. End it, then try again.",
            lambda: _say(progress, "another process is fetching jars; waiting for it"),
        ):
            missing, damaged = check_jars(set_name)
            if missing or damaged:
                _repair(set_name, missing, damaged, progress)
    return [jar.path for jar in jars]


def _repair(set_name: str, missing: list[Jar], damaged: list[Jar], progress: Progress | None) -> None:
    wanted = missing + damaged
    for left in workspace.jars_dir().glob(".fetch-*"):  # of a process that was killed; the lock says there is no other
        shutil.rmtree(left, ignore_errors=True)
    if is_offline():
        raise SupplyError(f"KIT_OFFLINE is set; {_count(set_name, missing, damaged)}. {_recipe()}")
    for jar in damaged:
        _say(progress, f"{jar.file} is damaged (its sha256 is not the locked one); removed, fetching it again")
        jar.path.unlink()
    tries = {jar.file: 1 if jar in damaged else 2 for jar in wanted}
    workspace.keep_loopback_direct()
    with (
        tempfile.TemporaryDirectory(prefix=".fetch-", dir=workspace.jars_dir(), ignore_cleanup_errors=True) as folder,
        _shown(wanted, progress) as advance,
    ):
        todo: queue.SimpleQueue[Jar] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[Jar, Exception | None]] = queue.SimpleQueue()
        stop = threading.Event()
        for jar in wanted:
            todo.put(jar)

        def work() -> None:
            while not stop.is_set():
                try:
                    jar = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    _fetch(jar, tries[jar.file], Path(folder), stop, advance)
                    done.put((jar, None))
                except Exception as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
                    done.put((jar, error))
            shutil.rmtree(folder, ignore_errors=True)  # the caller has removed it, while this thread made a file there

        # Daemon threads: Ctrl-C must not wait for a server that has fallen silent.
        for _ in range(min(FETCHERS, len(wanted))):
            threading.Thread(target=work, daemon=True).start()
        try:
            for _ in wanted:
                jar, error = done.get()
                if error is not None:
                    still_missing = [jar for jar in wanted if not jar.path.exists()]
                    raise _explain(set_name, jar, error, still_missing) from error
        finally:
            stop.set()


class _Damaged(Exception):
    """What came over the network is not the locked file."""


def _fetch(jar: Jar, tries: int, folder: Path, stop: threading.Event, advance: Callable[[int], None]) -> None:
    """Download one jar into `folder`, compare it, and move it into place; at most `tries` downloads."""
    import requests
    from jgo.maven import MavenContext, PythonResolver

    @contextlib.contextmanager
    def count(_name: str, _size: int) -> Iterator[Callable[[int], None]]:
        def received(size_bytes: int) -> None:
            if stop.is_set():
                raise InterruptedError("nobody waits for this download any more")
            advance(size_bytes)

        yield received

    while True:
        trusted = os.environ.get("REQUESTS_CA_BUNDLE")
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as cache:
            context = MavenContext(
                resolver=PythonResolver(progress_callback=count),
                repo_cache=Path(cache),
                remote_repos=repositories(),
                timeout=SILENCE_SECONDS,
            )
            try:
                path = context.create_dependency(jar.coordinate).artifact.resolve()
                with path.open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found == jar.sha256:
                    os.replace(path, jar.path)
                    return
                problem: Exception = _Damaged(f"sha256 {found[:12]}..., {path.stat().st_size:,} bytes")
            except requests.exceptions.SSLError as error:
                if not trusted and _trust_the_system():
                    continue
                problem = error
            except requests.RequestException as error:
                problem = error
        tries -= 1
        if not tries or stop.is_set():
            raise problem


def repositories() -> dict[str, str]:
    """The Maven repositories to ask: KIT_MAVEN_REPOSITORY alone, else those of jgo and of its configuration file."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL

    if mirror := os.environ.get("KIT_MAVEN_REPOSITORY"):
        return {"mirror": mirror.rstrip("/")}
    return {**GlobalSettings.load().repositories, "central": MAVEN_CENTRAL_URL}


def _trust_the_system() -> bool:
    """Let downloads trust the system's certificate authorities, which a company's own may be among."""
    paths = ssl.get_default_verify_paths()
    if authorities := paths.cafile or paths.capath:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", authorities)
    return bool(authorities)


def _explain(set_name: str, jar: Jar, error: Exception, missing: list[Jar]) -> Exception:
    import requests

    if isinstance(error, _Damaged):
        return SupplyError(
            f"{jar.file} arrived damaged from the network ({error}; expected {jar.sha256[:12]}..., {jar.size:,} bytes) "
            f"and was not kept. Try `kit fetch` again; if it stays so, the mirror serves a wrong file."
        )
    if isinstance(error, requests.RequestException):
        proxies = [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]
        through = f", through the proxy that {' and '.join(proxies)} names" if proxies else ""
        return SupplyError(
            f"{_count(set_name, missing, [])}, and no Maven repository answers "
            f"({type(error).__name__} at {jar.file}{through}). {_recipe()}"
        )
    if isinstance(error, OSError):
        return workspace.disk_error(f"{jar.file} could not be kept", error, workspace.jars_dir())
    return SupplyError(
        f"{jar.file} ({jar.coordinate}) could not be fetched: {str(error)[:300]}. "
        f"Set KIT_MAVEN_REPOSITORY to a Maven repository that has it, or try `kit fetch` again later."
    )


def _count(set_name: str, missing: list[Jar], damaged: list[Jar]) -> str:
    names = [jar.file for jar in missing + damaged]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    what = "missing or damaged" if missing and damaged else "damaged" if damaged else "missing"
    return f"{what} jars for {set_name.capitalize()}: {len(names)} of {len(LOCK[set_name])} ({shown})"


def _recipe() -> str:
    return (
        f"Run `kit fetch` once with a network; or run it on another machine "
        f"and copy that machine's jars folder to {workspace.jars_dir()}"
    )


def _say(progress: Progress | None, line: str) -> None:
    if progress is not None:
        progress(line)
    else:
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _shown(wanted: list[Jar], progress: Progress | None) -> Iterator[Callable[[int], None]]:
    """Show how far the download is; yields what a worker calls with the bytes it has received."""
    total = sum(jar.size for jar in wanted)
    what = f"{len(wanted)} jar{'s' if len(wanted) > 1 else ''} ({total / 1e6:.0f} MB)"
    if progress is None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Bar(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(f"fetching {what}", total=total)
            yield lambda size_bytes: bar.advance(task, size_bytes)
        return
    received, said = 0, time.monotonic()
    guard = threading.Lock()

    def advance(size_bytes: int) -> None:
        nonlocal received, said
        with guard:
            received += size_bytes
            if time.monotonic() - said >= LINE_SECONDS:
                said = time.monotonic()
                _say(progress, f"fetched {received / 1e6:.0f} of {total / 1e6:.0f} MB")

    _say(progress, f"fetching {what} into {workspace.jars_dir()}")
    yield advance
    _say(progress, f"fetched {what}")


def main() -> int:
    """Have all jars in place; what `make setup` runs. Returns the exit code."""
    try:
        for set_name in SETS:
            ensure_jars(set_name)
        java.complete_wheel()
    except KitError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("setup: stopped; run `make setup` again to complete it", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

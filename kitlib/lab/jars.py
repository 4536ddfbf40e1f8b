"""The jars of Kafka and of Spark's Kafka connector: exactly the locked ones, or an error that names the bad one.

A jar cut short by a broken download gives a broker that dies of a missing class an hour later.
`jars.lock.json` therefore says for each jar its Maven coordinate and its sha256, and `ensure_jars`
reads every file at every call, because that takes a tenth of a second and a wrong jar costs an
evening. What is missing or wrong is fetched by its coordinate; nothing is resolved at that time, so
two learners never run different jars. A locked package of npm's registry is had in the same way (`ensure`).
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kitlib.errors import KitError, SupplyError
from kitlib.lab import java, workspace

SetName = Literal["kafka", "spark"]
Progress = Callable[[str], None]
SETS: tuple[SetName, ...] = ("kafka", "spark")

SILENCE_SECONDS = 20  # a server that sends nothing for so long is given up
LONGEST_FETCH_S = 3_600.0  # of another process
LINE_SECONDS = 2.0  # how often a line says how far it is
BLOCK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Jar:
    """One locked file."""

    coordinate: str  # group:artifact:version in a Maven repository, name@version in npm's registry
    file: str  # its name in the jars folder; the version is part of it, so that two versions can live there
    sha256: str
    size: int

    @property
    def path(self) -> Path:
        return workspace.jars_dir() / self.file

    @property
    def address(self) -> str:
        """Where it is fetched: from the mirror that KIT_MAVEN_REPOSITORY or KIT_NPM_REGISTRY names, or where everybody does."""
        if "@" in self.coordinate:
            place, folder = os.environ.get("KIT_NPM_REGISTRY") or _usual_npm(), f"{self.coordinate.rpartition('@')[0]}/-"
        else:
            group, artifact, version = self.coordinate.split(":")
            place, folder = os.environ.get("KIT_MAVEN_REPOSITORY") or _usual_maven(), f"{group.replace('.', '/')}/{artifact}/{version}"
        return f"{place.rstrip('/')}/{folder}/{self.file}"

    def state(self) -> Literal["good", "missing", "damaged"]:
        """What the file on the disk is, by reading all of it."""
        try:
            with self.path.open("rb") as file:
                return "good" if hashlib.file_digest(file, "sha256").hexdigest() == self.sha256 else "damaged"
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            raise workspace.disk_error(f"{self.path} cannot be read", error, self.path) from error


def _usual_maven() -> str:
    from jgo.constants import MAVEN_CENTRAL_URL  # a second

    return str(MAVEN_CENTRAL_URL)


def _usual_npm() -> str:
    from jupyter_builder.constants import JPBLD_NPM_URL

    return str(JPBLD_NPM_URL)


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


def check_jars(jars: Sequence[Jar]) -> tuple[list[Jar], list[Jar]]:
    """(missing, damaged) ones of them; changes nothing."""
    states = [(jar, jar.state()) for jar in jars]
    return [jar for jar, state in states if state == "missing"], [jar for jar, state in states if state == "damaged"]


def ensure_jars(set_name: SetName, progress: Progress | None = None) -> list[Path]:
    """The paths of all jars of a set, as `ensure` gives them."""
    return ensure(LOCK[set_name], set_name.capitalize(), progress)


def ensure(jars: Sequence[Jar], what: str, progress: Progress | None = None) -> list[Path]:
    """The paths of these files, for `what`, each compared with its sha256 a moment ago.

    What is missing is fetched; what is damaged is named, removed and fetched again once. `progress`
    gets one line of text now and then, stderr without it. `SupplyError` if
    something cannot be had, `DiskError` if it cannot be kept. Any number of processes may call this
    at once: one fetches, the others wait for it.
    """
    say = progress or (lambda line: print(line, file=sys.stderr, flush=True))
    if any(check_jars(jars)):
        workspace.ensure()
        with workspace.holding(
            workspace.jars_dir() / ".lock", LONGEST_FETCH_S, "Another process has been fetching jars for an hour. End it, then try again.",
            lambda: say("another process is fetching jars; waiting for it"),
        ):
            missing, damaged = check_jars(jars)
            if missing or damaged:
                _repair(jars, what, missing, damaged, say)
    return [jar.path for jar in jars]


def _repair(jars: Sequence[Jar], what: str, missing: list[Jar], damaged: list[Jar], say: Progress) -> None:
    import requests  # takes a while to load, and is seldom needed

    recipe = f"Run this once with a network; or run it on another machine and copy that machine's jars folder to {workspace.jars_dir()}"
    recipe += "; or set KIT_MAVEN_REPOSITORY or KIT_NPM_REGISTRY to a mirror that has it"
    for left in workspace.jars_dir().glob(".fetch-*"):  # of a process that was killed; the lock says there is no other
        left.unlink()
    if os.environ.get("KIT_OFFLINE", "") not in ("", "0"):
        raise SupplyError(f"KIT_OFFLINE is set; {_count(jars, what, missing, damaged)}. {recipe}")
    for jar in damaged:
        say(f"{jar.file} is damaged (its sha256 is not the locked one); removed, fetching it again")
        jar.path.unlink()
    workspace.keep_loopback_direct()
    wanted = missing + damaged
    total, received, said = sum(jar.size for jar in wanted), 0, time.monotonic()
    told = f"{len(wanted)} file{'s' * (len(wanted) > 1)} for {what} ({total / 1e6:.0f} MB)"

    def advance(size_bytes: int) -> None:
        nonlocal received, said
        received += size_bytes
        if time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            say(f"fetched {received / 1e6:.0f} of {total / 1e6:.0f} MB")

    say(f"fetching {told} into {workspace.jars_dir()}")
    with requests.Session() as session:
        for jar in wanted:
            try:
                _fetch(jar, 1 if jar in damaged else 2, session, advance)
            except requests.RequestException as error:
                proxies = [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]
                through = f", through the proxy that {' and '.join(proxies)} names" if proxies else ""
                why = str(error)[:300] if isinstance(error, requests.HTTPError) else type(error).__name__
                still = [jar for jar in wanted if not jar.path.exists()]
                told = f"{_count(jars, what, still, [])}, and {jar.address} does not answer ({why}{through})"
                raise SupplyError(f"{told}. {recipe}") from error
            except OSError as error:
                raise workspace.disk_error(f"{jar.file} could not be kept", error, workspace.jars_dir()) from error
    say(f"fetched {told}")


def _fetch(jar: Jar, tries: int, session: Any, advance: Callable[[int], None]) -> None:
    """Download one file beside its place, compare it, and move it there; at most `tries` downloads. SupplyError when each was another."""
    import requests

    draft = jar.path.with_name(f".fetch-{jar.file}")
    try:
        while True:
            tries -= 1
            found, digest = 0, hashlib.sha256()
            try:
                with session.get(jar.address, stream=True, timeout=SILENCE_SECONDS) as answer, draft.open("wb") as file:
                    answer.raise_for_status()
                    for block in answer.iter_content(BLOCK_BYTES):
                        file.write(block)
                        digest.update(block)
                        found += len(block)
                        advance(len(block))
            except requests.exceptions.SSLError:
                paths = ssl.get_default_verify_paths()
                authorities = paths.cafile or paths.capath
                if session.verify is not True or not authorities or os.environ.get("REQUESTS_CA_BUNDLE"):
                    raise
                session.verify, tries = authorities, tries + 1  # the system's, which a company's own may be among
            except requests.RequestException:
                if not tries:
                    raise
            else:
                if digest.hexdigest() == jar.sha256:
                    os.replace(draft, jar.path)
                    return
                if not tries:
                    raise SupplyError(
                        f"{jar.file} arrived damaged from the network (sha256 {digest.hexdigest()[:12]}..., {found:,} bytes; expected "
                        f"{jar.sha256[:12]}..., {jar.size:,} bytes) and was not kept. Try again; if it stays so, the mirror is wrong."
                    )
    finally:
        draft.unlink(missing_ok=True)


def _count(jars: Sequence[Jar], what: str, missing: list[Jar], damaged: list[Jar]) -> str:
    names = [jar.file for jar in missing + damaged]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    state = "missing or damaged" if missing and damaged else "damaged" if damaged else "missing"
    return f"{state} files for {what}: {len(names)} of {len(jars)} ({shown})"


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

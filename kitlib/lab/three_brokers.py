"""Three brokers for the length of a block, in a workspace of their own; the user's broker goes on beside them.

What happens between brokers needs more than one, and most notebooks live on a single one that all of them
share. So a notebook, or a test, borrows a set:

    with three_brokers() as cluster:
        run("unclean_election", backend="kafka")

Inside of the block everything of this process that asks for the kit's broker finds these three. A set of
three that runs already, by `kit up --brokers 3`, is used as it is and left alone. The borrowed one ends with the
block, and also when its owner is killed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kitlib.lab import jars, kafka_server, supervisor, workspace
from kitlib.lab.clients import Cluster
from kitlib.lab.state import Say

PREFIX = "three-"
VARIABLES = ("KIT_HOME", "KIT_KAFKA_BOOTSTRAP", "KIT_KAFKA_CONFIG")  # what says which brokers are meant


@contextmanager
def three_brokers(progress: Say | None = None) -> Iterator[Cluster]:
    """A set of three, up within seconds and gone with the block, its data with it.

    It is silent unless `progress` is given. Not for two threads of a process at once: the environment says which
    brokers are meant. LabError when they do not start; DiskError when there is no room for them.
    """
    if (found := _running()) is not None:
        yield found
        return
    jars.ensure_jars("kafka", progress)
    home, kept = _new_home(), {name: os.environ.get(name) for name in VARIABLES}
    guard = supervisor.guard(sys.executable, "-P", "-m", "kitlib.lab.three_brokers", str(home))
    try:
        _enter(home)
        yield kafka_server.ensure(3, progress or (lambda _: None))
    finally:
        try:
            end(home)
            supervisor.release(guard)  # if this is interrupted, it does the rest when its owner has ended
        finally:
            for name, value in kept.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def _running() -> Cluster | None:
    """The kit's own set of three, when all of it runs."""
    if kafka_server.external_bootstrap():
        return None
    status = kafka_server.status()
    return kafka_server.ensure(3) if status.is_running and len(status.nodes) == 3 else None


def _new_home() -> Path:
    """A workspace inside of the user's, with the same jars."""
    workspace.ensure()
    try:
        home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=workspace.run_dir()))
        (home / "jars").symlink_to(workspace.jars_dir().resolve(), target_is_directory=True)
    except OSError as error:
        raise workspace.disk_error("The folder of three brokers could not be made", error, workspace.run_dir()) from error
    return home


def _enter(home: Path) -> None:
    """Let the kit's broker of this process be that of a borrowed workspace."""
    for name in VARIABLES:
        os.environ.pop(name, None)
    os.environ["KIT_HOME"] = str(home)


def end(home: Path) -> None:
    """End the brokers of a borrowed workspace and remove it."""
    _enter(home)
    kafka_server.down(lambda _: None)
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    end(Path(sys.argv[1]))

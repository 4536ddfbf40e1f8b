"""Three brokers for the length of a block, in a workspace of their own; the user's broker goes on beside them.

What happens between brokers needs more than one, and most notebooks live on a single one that all of them
share. So a notebook, or a test, borrows a set:

    with three_brokers() as cluster:
        run("unclean_election", backend="kafka")

Inside of the block everything of this process that asks for the kit's broker finds these three. A set of
three that runs already, by `kit up --brokers 3`, is used as it is and left alone. The borrowed one is ended
by a process that sits at a pipe: it works when the block ends, and also when its owner is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kitlib.errors import LabError
from kitlib.lab import jars, kafka_server, supervisor, workspace
from kitlib.lab.clients import Cluster
from kitlib.lab.state import Say

PREFIX = "three-"
END_S = 40.0  # a stop in order, and more of it on a busy machine
VARIABLES = ("KIT_HOME", "KIT_KAFKA_BOOTSTRAP", "KIT_KAFKA_CONFIG")  # what says which brokers are meant


@contextmanager
def three_brokers(progress: Say | None = None) -> Iterator[Cluster]:
    """A set of three, up within seconds and gone with the block, its data with it.

    It is silent unless `progress` is given. Not for two threads of a process at once: the environment says which
    brokers are meant. LabError when they do not start, or cannot be ended; DiskError when there is no room for them.
    """
    if (found := _running()) is not None:
        yield found
        return
    jars.ensure_jars("kafka", progress)
    home, kept = _new_home(), {name: os.environ.get(name) for name in VARIABLES}
    watcher = _watcher(home)
    try:
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ["KIT_HOME"] = str(home)
        yield kafka_server.ensure(3, progress or (lambda _: None))
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        _end(watcher, home)


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


def _watcher(home: Path) -> subprocess.Popen[bytes]:
    """The process that ends the set when its pipe is closed."""
    return supervisor.start("kitlib.lab.three_brokers", str(home), output=subprocess.DEVNULL, errors=subprocess.DEVNULL)


def _end(watcher: subprocess.Popen[bytes], home: Path) -> None:
    assert watcher.stdin is not None
    watcher.send_signal(signal.SIGCONT)  # a learner's code may have stopped it
    with suppress(OSError):
        watcher.stdin.close()
    try:
        watcher.wait(END_S)
    except subprocess.TimeoutExpired:
        watcher.kill()
        watcher.wait()
        raise LabError(f"The three brokers of {home} have not ended within {END_S:g} s. Look: `KIT_HOME={home} kit status`.") from None


def main() -> None:
    """The watcher: waits for the end of its pipe, then ends the brokers of a workspace and removes it."""
    home = Path(sys.argv[1])
    if not home.name.startswith(PREFIX):
        sys.exit(f"{home} is no borrowed workspace: its name should begin with {PREFIX}.")
    os.environ["KIT_HOME"] = str(home)
    for name in VARIABLES[1:]:
        os.environ.pop(name, None)
    with suppress(OSError):
        sys.stdin.buffer.read()
    try:
        kafka_server.down(lambda _: None)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()

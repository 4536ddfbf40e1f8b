"""Where the kit keeps what: one folder of the user's, and the environment its child processes get.

A lab that leaves files all over a home folder cannot be removed, and one that writes into the
repository cannot be shared. Everything that outlives a command is therefore under `home()`: the jars
(worth keeping), what runs now (state files, locks, logs), Kafka's data and Spark's checkpoints.
Deleting the folder while nothing runs is safe, the next start makes it anew; but where the project cannot be
written to, the learner's own notebooks are here too, in `work` (`kitlib/lab/copies.py`).
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import platformdirs

from kitlib.errors import DiskError, LabError

# A Unix socket's or a log file's path below the workspace must stay under the 255 bytes that
# common file systems allow for a name and well under the 4,096 they allow for a path.
LONGEST_HOME_BYTES = 1024

# Java separates the folders of a class path by ':' (';' elsewhere), Kafka those of log.dirs by ','.
FORBIDDEN_CHARACTERS = {
    ":": "Java's class path",
    ";": "Java's class path",
    ",": "Kafka's log.dirs",
    "\n": "a configuration file",
    "\\": "a configuration file",
    '"': "Spark",
}

# All that the kit itself puts into the workspace, which is what `kit purge` removes. A learner's notebooks are not the kit's.
KEPT = ("jars", "run", "data", "spark", "sweeps", "jupyter", "ipython", "predictions.json", "exercises.json")

# With less room than this no part of the lab can tell what went wrong: a log, a state file, Kafka's segment.
FULL_BYTES = 1_000_000

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def home() -> Path:
    """The workspace: `KIT_HOME`, or `delivery-lab` in the user's cache folder. It may not exist yet."""
    asked = os.environ.get("KIT_HOME")
    return Path(asked).expanduser().absolute() if asked else platformdirs.user_cache_path("delivery-lab")


def jars_dir() -> Path:
    """The jars of Kafka and of Spark's Kafka connector; what `kit fetch` fills."""
    return home() / "jars"


def run_dir() -> Path:
    """What runs now: state files, locks, logs. Only the user can look into it."""
    return home() / "run"


def data_dir() -> Path:
    """Kafka's data."""
    return home() / "data"


def spark_dir() -> Path:
    """Spark's checkpoints, its warehouse and its scratch files."""
    return home() / "spark"


def ensure() -> Path:
    """Make the workspace, check that the lab can live in it, and return it.

    Raises `DiskError` for a path that Java or Kafka would cut in two, for one that is a file, and for
    a folder that cannot be read or written.
    """
    place = home()
    check_path(place)
    private = (run_dir(), data_dir(), spark_dir(), place / "jupyter", place / "ipython")  # what a learner typed is in all of them
    folders = (place, jars_dir(), *private)
    for folder in folders:
        _make(folder)
    for folder in private:
        with suppress(PermissionError):  # it belongs to another user: whether it can be used is tried in a moment
            folder.chmod(0o700)
    for folder in folders:
        _check_use(folder)
    return place


def home_mark() -> str:
    """The workspace's name in command lines: the same one, whichever way a caller spells its path."""
    return os.path.realpath(home())


def check_path(place: Path) -> None:
    """Raise `DiskError` if `place` holds a character or a length that a part of the lab cannot take."""
    text = str(place)
    for character, who in FORBIDDEN_CHARACTERS.items():
        if character in text:
            raise DiskError(
                f"the workspace {text!r} has {character!r} in its path, where {who} would cut it in two. "
                f"Set KIT_HOME to a folder without it (spaces and umlauts are fine)."
            )
    if (size := len(os.fsencode(text))) > LONGEST_HOME_BYTES:
        raise DiskError(
            f"the workspace's path is {size} bytes long, more than {LONGEST_HOME_BYTES}: {text[:60]}... "
            f"Set KIT_HOME to a shorter one."
        )


def write_atomic(path: Path, text: str) -> None:
    """Replace the file `path` by `text`, as `replacing` does it."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty file to fill, which then takes the place of the file `path`, whole or not at all; a new one only the user can read.

    Whoever reads at the same time sees the old content or the new one. A link stays, and what it points to is replaced.
    Raises `DiskError`, also for what is no regular file: a device, a FIFO, a folder.
    """
    target, draft = check_replaceable(path), None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        draft = Path(name)
        if target.exists():
            shutil.copymode(target, draft)
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
    except OSError as error:
        raise disk_error(f"{path} could not be written", error, target.parent) from error
    finally:
        if draft:  # it is still there after an error, and after Ctrl-C
            draft.unlink(missing_ok=True)


def check_replaceable(path: Path) -> Path:
    """Where the file is that `path` names, through all links. DiskError when something is there that is no regular file."""
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            kind = "a folder" if target.is_dir() else "no regular file, and is not replaced"
            raise DiskError(f"{path} is {kind}. Name another file.")
    except (OSError, RuntimeError) as error:
        raise DiskError(f"{path} leads nowhere ({getattr(error, 'strerror', None) or error}). Name another file.") from error
    return target


def open_regular(path: Path, most_bytes: int) -> BinaryIO:
    """Open a file that a user has named. OSError for what is no regular file (a FIFO would wait, a device never ends) or too large."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_size <= most_bytes:
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISREG(found.st_mode):
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, at most {most_bytes:,} are read")
    raise OSError(errno.EINVAL, os.strerror(errno.EISDIR) if stat.S_ISDIR(found.st_mode) else "it is no regular file")


def read_regular(path: Path, most_bytes: int) -> str:
    """The text of a file that a user has named. As `open_regular`, and UnicodeDecodeError for what is no UTF-8."""
    with open_regular(path, most_bytes) as file:
        return file.read(most_bytes).decode()


def last_lines(path: Path, count: int) -> list[str]:
    """The last `count` lines of a file, read from its last megabyte."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1_000_000))
        return file.read().decode("utf-8", "replace").splitlines()[-count:] if count > 0 else []


def disk_error(told: str, error: OSError, place: Path) -> DiskError:
    """What could not be done at `place`, as `told` says it, with the reason and the remedy of that reason."""
    remedy = "set KIT_HOME to a folder you can write to" if place.is_relative_to(home()) else "choose another place"
    why = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        why, remedy = no_room(why, place), f"make room there, or {remedy}"
    elif error.errno == errno.EFBIG:
        why, remedy = "a limit on file sizes is reached", f"raise it with `ulimit -f`, or {remedy}"
    elif isinstance(error, PermissionError):
        remedy = f"change its permissions, or {remedy}"
    return DiskError(f"{told}: {why}. {remedy[0].upper()}{remedy[1:]}.")


def no_room(words: str, place: Path) -> str:
    """That the disk is full; where it is not (a quota, no inodes), the system's `words` and how much is free all the same."""
    return full_disk(place) or f"{words}, {_room(place)}"


def full_disk(place: Path | None = None) -> str:
    """`the disk is full, 4,096 bytes free in FOLDER`; "" while there is room. For whoever finds no other reason, in the workspace."""
    place = place or home()
    return f"the disk is full, {_room(place)}" if _free_bytes(place) < FULL_BYTES else ""


def _room(place: Path) -> str:
    free = _free_bytes(place)
    return f"{free:,} bytes free in {place}" if free < FULL_BYTES else f"{free // 1_000_000:,} MB free in {place}"


def _free_bytes(place: Path) -> int:
    return shutil.disk_usage(next(folder for folder in (place, *place.parents) if folder.exists())).free


def check_writable(path: Path, who: str) -> None:
    """DiskError, in the name of `who`, when no file could be written at `path`; to be asked before long work."""
    if path.is_dir():
        raise DiskError(f"{who}: {path} is a folder. Name a file in it.")
    check_replaceable(path)
    if not path.parent.is_dir():
        raise DiskError(f"{who}: there is no folder {path.parent}. Make it first, or name another one.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise DiskError(f"{who}: nothing may be written in {path.parent}. Name a file in another folder.")


def remove(path: Path) -> None:
    """Remove one of the things of KEPT, or the link in its place; DiskError for one that stays."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(f"{error.filename or path} could not be removed", error, path) from error


@contextmanager
def holding(lock: Path, seconds: float, trouble: str, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold a lock that ends with its holder. `waiting` is called when somebody else has it; LabError with `trouble` after `seconds`."""
    from filelock import FileLock, Timeout  # here, because few of those who start with this module hold a lock

    file = FileLock(lock, mode=0o600, thread_local=False)  # a block may end in another thread than it began in
    quietly = min(2.0, seconds)
    try:
        try:
            held = file.acquire(timeout=quietly)
        except Timeout:
            waiting()
            held = file.acquire(timeout=seconds - quietly)
    except Timeout:
        raise LabError(trouble) from None
    with held:
        yield


def is_held(lock: Path) -> bool:
    """Whether somebody holds this lock now."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, mode=0o600).acquire(blocking=False):
            return False
    except Timeout:
        return True


def direct_loopback(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of `environment` in which no proxy is asked for connections to this machine itself."""
    result = dict(environment)
    for name in ("NO_PROXY", "no_proxy"):
        present = [entry.strip() for entry in result.get(name, "").split(",") if entry.strip()]
        if "*" not in present:
            result[name] = ",".join(present + [loopback for loopback in LOOPBACK_NAMES if loopback not in present])
    return result


def keep_loopback_direct() -> None:
    """Apply `direct_loopback` to this process, and so to everything it starts from now on."""
    os.environ.update(direct_loopback(os.environ))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise DiskError(f"{folder} is a file, but the kit needs a folder there. Move it or set KIT_HOME.") from error
    except OSError as error:
        raise disk_error(f"the folder {folder} could not be made", error, folder) from error


def _check_use(folder: Path) -> None:
    """Write and read back: permission bits say nothing about a read-only or full file system."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".kit-try-") as file:
            file.write(b"kit")
            file.flush()
            if Path(file.name).read_bytes() != b"kit":
                raise OSError(5, "what was written is not what is read")
        next(folder.iterdir(), None)
    except OSError as error:
        raise disk_error(f"the folder {folder} cannot be used", error, folder) from error

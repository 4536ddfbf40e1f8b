"""Make the environment that everything else runs in: .venv with the locked packages, the jars, the archive of their classes.

`make setup` calls this with any Python; it needs nothing but the standard library. The stages are:
a virtual environment; setuptools (pyspark comes as a source archive and is built with it); all
packages of requirements.lock, each compared with its hash, and with --dev those of requirements-dev.lock, which only
tests and tools need; this package itself; the jars; the archive of
Kafka's classes, from which its Java starts in three fifths of the time, and with --dev Spark's (`kitlib/lab/class_archive.py`). A stamp is
written after the packages, so an interrupted setup is never taken for a whole one: the next run
starts the environment afresh (what was downloaded is in the cache of uv or pip). What it does meanwhile, and how far it
is, is one line that is rewritten; the counts are those of pip, and of what it has written.

Differs from a plain `pip install`: nothing is resolved, nothing without a known hash is installed,
and a second run compares two files with the stamp, reads the jars and the archive, and is done.
"""

# Parsed by old Pythons too, which must get as far as the message in check_python.
from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / ".kit-ready"  # what was installed; absent while something is missing
BEGUN = ENVIRONMENT / ".kit-begun"  # there from the first file of the environment until the stamp
LOG = ENVIRONMENT / "setup.log"
LOCK = ROOT / "requirements.lock"
DEVELOPERS_LOCK = ROOT / "requirements-dev.lock"

OLDEST_PYTHON = (3, 11)
STEPS = 5
QUIET_SECONDS = 1.5  # a command that is shorter is not worth a line
# Where a line cannot be rewritten: how often one is printed when there is news, and when there is none.
NEWS_SECONDS, SAME_SECONDS = 10, 60

# In one process: to start Python is half of what a setup takes when nothing has changed.
JARS_AND_ARCHIVE = """
import sys
from kitlib.lab import class_archive_maker, jars
sys.exit(jars.main() or class_archive_maker.main(sys.argv[1:]))
"""

# Settings of the user's that would make pip install to somewhere else, or Python import from there.
FOREIGN_SETTINGS = ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV")


def main() -> None:
    check_python()
    check_platform()
    with only_one():
        locks = [LOCK, DEVELOPERS_LOCK] if "--dev" in sys.argv[1:] or has_developers_tools() else [LOCK]
        if not is_ready(locks):
            make_environment(locks)
        fetch_jars(["--spark"] if DEVELOPERS_LOCK in locks else [])


class Line:
    """The step that is being done, what it does now, how far it is, and for how long: one line, rewritten in its place.

    Where nothing can be rewritten (a file, a pipe, the log of a CI) it becomes lines, one for each step and one now and then.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.begun = clock()
        self.step = ""
        self.is_rewritten = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.is_shown = False  # whether the terminal's last line is ours
        self.said, self.said_at = "", self.begun  # what was printed last, and when

    def begin(self, number: int, step: str) -> None:
        self.step, self.said_at = f"{number}/{STEPS} {step}", -math.inf
        self.show("")

    def show(self, doing: str) -> None:
        """Say what is being done now. Call it as often as you like."""
        text = f"setup: {self.step}{': ' if doing else ''}{doing}"
        now = self.clock()
        passed = f"  {int(now - self.begun) // 60}:{int(now - self.begun) % 60:02d}"
        if self.is_rewritten:
            room = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            self.is_shown = True  # said first: Ctrl-C may come as soon as the line is there
            print("\r\033[K" + text[: max(room - 1 - len(passed), 0)] + passed, end="", file=sys.stderr, flush=True)
        elif now - self.said_at >= (NEWS_SECONDS if text != self.said else SAME_SECONDS):
            print(text + passed, file=sys.stderr, flush=True)
            self.said, self.said_at = text, now

    def clear(self) -> None:
        if self.is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self.is_shown = False


LINE = Line()


class Said:
    """What a command has printed last."""

    def __init__(self) -> None:
        self.last = ""

    def take(self, line: str) -> None:
        self.last = line

    def doing(self) -> str:
        return self.last


class Installed(Said):
    """What pip or uv says of its work, and how far it is in `count` packages.

    pip begins a line for each package that it collects, names the file that it downloads with its size, and writes a
    file into a folder of `room`; uv names what it downloads. A package is installed when its RECORD is there, which
    pip writes last.
    """

    def __init__(self, count: int, room: Path) -> None:
        super().__init__()
        self.count, self.room = count, room
        self.collected = 0
        self.name, self.verb = "", ""  # the package that was begun last, and what is done with it
        self.file, self.size = "", ""  # what is downloaded for it
        self.building = ""
        self.names: list[str] = []  # of the packages that are being installed, in pip's order
        self.installing_since = 0.0

    def take(self, line: str) -> None:
        super().take(line)
        if line.startswith("Ignoring "):  # a package for another system
            self.count -= 1
        elif found := re.match(r"(Collecting|Requirement already satisfied:) ([\w.-]+)", line):
            self.collected += 1
            self.verb = "fetching" if found.group(1) == "Collecting" else "found"
            self.name, self.file, self.size = found.group(2), "", ""
        elif found := re.match(r"Downloading (\S+) \((.+)\)$", line):
            self.file, self.size = found.group(1).rsplit("/", 1)[-1], found.group(2)
        elif line.startswith("Preparing metadata"):
            self.verb, self.size = "unpacking", ""
        elif found := re.match(r"Building (?:wheel for )?([\w.-]+)(?:==\S+| \(.*started)$", line):
            self.building = found.group(1)
        elif line.startswith("Installing collected packages: "):
            self.names = line.partition(": ")[2].split(", ")
            self.installing_since = time.time()

    def doing(self) -> str:
        if self.names:
            now = min(self.installed(), len(self.names) - 1)
            return f"installing {now + 1} of {len(self.names)}, {self.names[now]}"
        if self.building:
            return f"building {self.building}"
        if self.collected:
            return f"{self.verb} {self.collected} of {self.count}, {self.name}{self.received()}"
        return f"fetching {self.file} ({self.size})" if self.file else ""

    def installed(self) -> int:
        """How many packages are whole since pip began to install."""
        count = 0
        for record in ENVIRONMENT.glob("lib/python*/site-packages/*.dist-info/RECORD"):
            with suppress(OSError):  # an old one that pip removes just now
                count += record.stat().st_mtime >= self.installing_since
        return count

    def received(self) -> str:
        """How much of the file that is downloaded now has come, if it is a large one."""
        if not self.size.endswith("MB"):
            return ""
        with suppress(OSError):
            for path in self.room.glob(f"pip-unpack-*/{self.file}"):
                return f", {path.stat().st_size / 1e6:.1f} of {self.size}"
        return f", {self.size}"


def check_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        end(
            f"this is Python {platform.python_version()}, but {wanted} or newer is needed. "
            f"Install one, or name one: make PYTHON=/path/to/python3 setup"
        )


def check_platform() -> None:
    if sys.platform == "win32":
        end("Kafka does not run well on Windows. Use WSL2: `wsl --install`, then clone and run make inside it.")
    if sys.platform.startswith("linux") and not platform.libc_ver()[0]:
        say("this system has no GNU C library; some packages have no wheel for it and may fail to install")


@contextmanager
def only_one() -> Iterator[None]:
    """Hold a lock on this very file: two setups would write into one environment."""
    import fcntl

    with Path(__file__).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is running here; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks
        yield


def stamped() -> dict[str, object]:
    """What the last setup that came to its end has left; {} without one."""
    with suppress(OSError, ValueError):
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
        return stamp if isinstance(stamp, dict) else {}
    return {}


def has_developers_tools() -> bool:
    """Whether they were installed once: from then on every setup keeps them up to date."""
    return DEVELOPERS_LOCK.name in str(stamped().get("locks"))


def fingerprint(locks: list[Path]) -> dict[str, object]:
    """What the environment depends on: the locked packages, this package's own data, and the folder's place."""
    inputs = hashlib.sha256()
    for path in (*locks, ROOT / "pyproject.toml"):
        inputs.update(path.read_bytes() + b"\0")
    return {"inputs": inputs.hexdigest(), "locks": [lock.name for lock in locks], "root": str(ROOT)}


def is_ready(locks: list[Path]) -> bool:
    """Whether a setup of just this state came to its end, with whichever Python."""
    return stamped() == fingerprint(locks) and os.access(str(PYTHON), os.X_OK)


def make_environment(locks: list[Path]) -> None:
    names = " and ".join(lock.name for lock in locks)
    if os.environ.get("KIT_OFFLINE", "") not in ("", "0"):
        what = "lacks the developers' tools" if stamped() == fingerprint(locks[:1]) else f"is missing or older than {names}"
        end(f"KIT_OFFLINE is set, but .venv {what}. Run this once with a network.")
    say(f"the {sum(map(count_locked, locks))} packages of {names} go into .venv; pyspark alone is 450 MB: minutes the first time")
    whole = is_environment_usable() and not BEGUN.exists()
    remove(STAMP)
    if not whole:
        discard_environment()
        LINE.begin(1, f"a virtual environment in .venv, with Python {platform.python_version()}")
        ENVIRONMENT.mkdir()
        BEGUN.touch()
        create_environment()
    BEGUN.touch()
    with tempfile.TemporaryDirectory() as folder:
        builder = Path(folder, "setuptools.txt")
        builder.write_text(locked("setuptools"), encoding="utf-8")
        LINE.begin(2, "setuptools")
        install(1, folder, "--require-hashes", "-r", str(builder))
        LINE.begin(3, "packages")
        named = [word for lock in locks for word in ("-r", str(lock))]  # the locks name all
        install(sum(map(count_locked, locks)), folder, "--no-deps", "--require-hashes", "--no-build-isolation", *named)
        LINE.begin(4, "this package")
        install(1, folder, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    draft = STAMP.with_name(".kit-ready.new")
    draft.write_text(json.dumps(fingerprint(locks)), encoding="utf-8")
    os.replace(draft, STAMP)
    remove(BEGUN)
    say(f"the environment is ready after {time.monotonic() - LINE.begun:.0f} s")


def is_environment_usable() -> bool:
    """Whether .venv has a Python that starts, is new enough and has pip, and was not moved here from another folder."""
    if stamped().get("root", str(ROOT)) != str(ROOT):
        return False  # the programs in its bin folder still name the old place
    probe = (
        "import sys, importlib.util as u; print(sys.prefix); "
        f"sys.exit(sys.version_info < {OLDEST_PYTHON} or not u.find_spec('pip'))"
    )
    try:
        answer = subprocess.run([str(PYTHON), "-c", probe], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return False
    return answer.returncode == 0 and Path(os.fsdecode(answer.stdout).strip()).resolve() == ENVIRONMENT.resolve()


def discard_environment() -> None:
    """Remove .venv. It is renamed first, so that one whose removal was interrupted is not taken for whole."""
    old = ROOT / ".venv.old"
    shutil.rmtree(str(old), ignore_errors=True)
    if ENVIRONMENT.exists():
        say("the environment in .venv is unfinished, moved or does not start; making it anew")
        os.rename(ENVIRONMENT, old)
        shutil.rmtree(str(old), ignore_errors=True)


def create_environment() -> None:
    made = Said()
    if run([sys.executable, "-m", "venv", str(ENVIRONMENT)], made) == 0:
        return
    uv = shutil.which("uv")
    if uv:
        command = [uv, "venv", "--clear", "--quiet", "--seed", "--python", sys.executable, str(ENVIRONMENT)]
        if subprocess.run(command, check=False).returncode == 0:
            return
    reason = made.last[:200] or "it gave no reason"
    discard_environment()
    end(
        f"this Python cannot make a virtual environment ({reason}). "
        f"On Debian and Ubuntu `apt install python3-venv` helps, elsewhere installing uv; then run this again."
    )


def locked(name: str) -> str:
    """The lines of requirements.lock about one package: its version and its hashes."""
    found = re.search(rf"^{re.escape(name)}==.*\n(?:    .*\n)*", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise OSError(2, f"{name} is not in it", str(LOCK))
    return found.group(0)


def count_locked(lock: Path) -> int:
    return len(re.findall(r"^\w[\w.-]*==", lock.read_text(encoding="utf-8"), re.MULTILINE))


def install(count: int, room: str, *arguments: str) -> None:
    """Install `count` packages into .venv with uv, where there is one, else with pip. Ends the process if that fails."""
    uv = shutil.which("uv")
    if uv:
        command = [uv, "pip", "install", "--compile-bytecode", "--python", str(PYTHON), *arguments]
        if run(command, Installed(count, Path(room))) == 0:
            return
        say("uv could not do it (.venv/setup.log says why); trying pip")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off"]
    code = run([*pip, *arguments], Installed(count, Path(room)), TMPDIR=room)
    if code != 0:
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-12:]), file=sys.stderr)
        end(
            f"pip ended with {code}; its last lines are above, all of them in .venv/setup.log. "
            f"A network is needed the first time. Run this again when the cause is gone."
        )


def run(command: list[str], output: Said, **more: str) -> int:
    """Run `command`, give each line of its output to `output` and to LOG, show what it does, and return its exit code."""
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_SETTINGS}
    child = subprocess.Popen(
        command, cwd=str(ROOT), env={**environment, "PIP_USER": "0", **more},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip

    def read() -> None:
        assert child.stdout is not None
        for line in child.stdout:
            with LOG.open("ab") as log:
                log.write(line)
            if text := line.decode("utf-8", "replace").strip():
                output.take(text)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    begun = time.monotonic()
    try:
        while child.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=0.25)
            if time.monotonic() - begun > QUIET_SECONDS:
                LINE.show(output.doing())
    except BaseException:
        child.terminate()
        child.wait()  # it ends what it has started
        raise
    finally:
        LINE.clear()
    reader.join(timeout=5)
    return child.returncode


def fetch_jars(archives: list[str]) -> None:
    """Have the jars, and the archives of their classes that Java starts from: Kafka's, and the one that `archives` asks for.

    Both have a check of their own: every file is read at every call, and only what is missing is fetched or made.
    """
    LINE.step = f"{STEPS}/{STEPS} jars"
    output = Said()
    code = run([str(PYTHON), "-c", JARS_AND_ARCHIVE, *archives], output)
    if output.last:
        say(output.last.replace("setup: ", "", 1))
    if code != 0:
        sys.exit(code)


def remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def say(text: str) -> None:
    LINE.clear()
    print(f"setup: {text}", file=sys.stderr, flush=True)


def end(text: str) -> None:
    say(text)
    sys.exit(5)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("stopped; run `make setup` again to complete it")
        sys.exit(130)
    except OSError as error:
        end(f"{error.filename or ROOT}: {error.strerror}. Make room or mend the permissions, then run `make setup` again.")

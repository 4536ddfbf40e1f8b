"""Make the environment that everything else runs in: .venv with the locked packages, the jars, the archive of their classes.

`make setup` calls this with any Python; it needs nothing but the standard library. The stages are:
a virtual environment; setuptools (pyspark comes as a source archive and is built with it); all
packages of requirements.lock, each compared with its hash; this package itself; the jars; the archive of
Kafka's classes, from which its Java starts in three fifths of the time (`kitlib/lab/class_archive.py`). A stamp is
written after the packages, so an interrupted setup is never taken for a whole one: the next run
starts the environment afresh (what was downloaded is in the cache of uv or pip).

Differs from a plain `pip install`: nothing is resolved, nothing without a known hash is installed,
and a second run compares two files with the stamp, reads the jars and the archive, and is done.
"""

# Parsed by old Pythons too, which must get as far as the message in check_python.
from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / ".kit-ready"  # what was installed; absent while something is missing
BEGUN = ENVIRONMENT / ".kit-begun"  # there from the first file of the environment until the stamp
LOG = ENVIRONMENT / "setup.log"
LOCK = ROOT / "requirements.lock"

OLDEST_PYTHON = (3, 11)
LINE_SECONDS = 10  # how often a line is printed where a line cannot be rewritten

# In one process: to start Python is half of what a setup takes when nothing has changed.
JARS_AND_ARCHIVE = """
import sys
from kitlib.lab import class_archive_maker, jars
sys.exit(jars.main() or class_archive_maker.main([]))
"""

# Settings of the user's that would make pip install to somewhere else, or Python import from there.
FOREIGN_SETTINGS = ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV")
EVENTS = re.compile(r"(Collecting|Downloading|Building|Preparing|Installing|Attempting|Resolved|Prepared|Installed)\b")


def main() -> None:
    check_python()
    check_platform()
    with only_one():
        if not is_ready():
            make_environment()
        fetch_jars()


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


def fingerprint() -> dict[str, str]:
    """What the environment depends on: the locked packages, this package's own data, and the folder's place."""
    inputs = hashlib.sha256()
    for path in (LOCK, ROOT / "pyproject.toml"):
        inputs.update(path.read_bytes() + b"\0")
    return {"inputs": inputs.hexdigest(), "root": str(ROOT)}


def is_ready() -> bool:
    """Whether a setup of just this state came to its end, with whichever Python."""
    try:
        return bool(json.loads(STAMP.read_text(encoding="utf-8")) == fingerprint()) and os.access(str(PYTHON), os.X_OK)
    except (OSError, ValueError):
        return False


def make_environment() -> None:
    if os.environ.get("KIT_OFFLINE", "") not in ("", "0"):
        end("KIT_OFFLINE is set, but .venv is missing or older than requirements.lock. Run `make setup` once with a network.")
    begun = time.monotonic()
    whole = is_environment_usable() and not BEGUN.exists()
    remove(STAMP)
    if not whole:
        discard_environment()
        say(f"1/4 a virtual environment in .venv, with Python {platform.python_version()}")
        ENVIRONMENT.mkdir()
        BEGUN.touch()
        create_environment()
    BEGUN.touch()
    LOG.write_text("", encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        builder = Path(folder, "setuptools.txt")
        builder.write_text(locked("setuptools"), encoding="utf-8")
        say("2/4 setuptools")
        install("--require-hashes", "-r", str(builder))
    say(f"3/4 the {count_locked()} packages of requirements.lock (pyspark alone is 450 MB; minutes the first time)")
    install("--no-deps", "--require-hashes", "--no-build-isolation", "-r", str(LOCK))  # the lock names every package
    say("4/4 this package")
    install("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    draft = STAMP.with_name(".kit-ready.new")
    draft.write_text(json.dumps(fingerprint()), encoding="utf-8")
    os.replace(draft, STAMP)
    remove(BEGUN)
    say(f"the environment is ready after {time.monotonic() - begun:.0f} s")


def is_environment_usable() -> bool:
    """Whether .venv has a Python that starts, is new enough and has pip, and was not moved here from another folder."""
    with suppress(OSError, ValueError):
        if json.loads(STAMP.read_text(encoding="utf-8")).get("root") != str(ROOT):
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
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(ENVIRONMENT)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if made.returncode == 0:
        return
    uv = shutil.which("uv")
    if uv:
        command = [uv, "venv", "--clear", "--quiet", "--seed", "--python", sys.executable, str(ENVIRONMENT)]
        if subprocess.run(command, check=False).returncode == 0:
            return
    reason = (made.stdout.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"])[-1][:200]
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


def count_locked() -> int:
    return len(re.findall(r"^\w[\w.-]*==", LOCK.read_text(encoding="utf-8"), re.MULTILINE))


def install(*arguments: str) -> None:
    """Install into .venv with uv, where there is one, else with pip. Ends the process if that fails."""
    uv = shutil.which("uv")
    if uv:
        if run([uv, "pip", "install", "--compile-bytecode", "--python", str(PYTHON), *arguments]) == 0:
            return
        say("uv could not do it (.venv/setup.log says why); trying pip")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off"]
    code = run([*pip, *arguments])
    if code != 0:
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-12:]), file=sys.stderr)
        end(
            f"pip ended with {code}; its last lines are above, all of them in .venv/setup.log. "
            f"A network is needed the first time. Run this again when the cause is gone."
        )


def run(command: list[str]) -> int:
    """Run `command` with its output in LOG, show from time to time what it does, and return its exit code."""
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_SETTINGS}
    environment["PIP_USER"] = "0"
    seen: list[str] = []  # what it has begun, the newest last

    child = subprocess.Popen(
        command, cwd=str(ROOT), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )

    def read() -> None:
        assert child.stdout is not None
        with LOG.open("ab") as log:
            for line in child.stdout:
                log.write(line)
                log.flush()
                text = line.decode("utf-8", "replace").strip()
                if EVENTS.match(text):
                    seen.append(re.sub(r"\s*\(from .*|\S+://\S+/", "", text)[:60])

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    begun = said = time.monotonic()
    rewrite = sys.stderr.isatty()
    try:
        while child.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=0.5)
            now = time.monotonic()
            if now - begun > 1.5 and (rewrite or now - said > LINE_SECONDS):
                said = now
                text = f"    {now - begun:3.0f} s  {seen[-1] if seen else ''}"
                print("\r\033[K" + text if rewrite else text, end="" if rewrite else "\n", file=sys.stderr, flush=True)
    except BaseException:
        child.terminate()
        child.wait()
        raise
    finally:
        if rewrite:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    reader.join(timeout=5)
    return child.returncode


def fetch_jars() -> None:
    """Have the jars, and the archive of their classes that Java starts from.

    Both have a check of their own: every file is read at every call, and only what is missing is fetched or made.
    """
    child = subprocess.Popen([str(PYTHON), "-c", JARS_AND_ARCHIVE], cwd=str(ROOT))
    try:
        code = child.wait()
    except BaseException:
        child.terminate()
        child.wait()  # it ends what it has started
        raise
    if code != 0:
        sys.exit(code)


def remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def say(text: str) -> None:
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

"""Make the environment that everything else runs in: .venv with the locked packages, then the jars.

`make setup` calls this with any Python; it needs nothing but the standard library. pip fetches uv and setuptools, uv
installs the packages of requirements.lock (with --dev also those of requirements-dev.lock, which only tests and tools
need), each compared with its hash, and then this package. Where the package index has no uv, pip does it all.
A stamp is written last, so an interrupted setup is never taken for a complete one: the next run makes the
environment afresh, and what was downloaded is in a cache.
"""

# Parsed by old Pythons too, which must get as far as the message in check_python.
from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / ".kit-ready"  # what was installed; absent while something is missing
OURS = ENVIRONMENT / ".kit-begun"  # from its first moment: `make clean` removes no other environment
LOCK, DEVELOPERS_LOCK = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"
OLDEST_PYTHON = (3, 11)
# Ctrl-C during the imports ends it without a traceback.
JARS = """import signal, sys; own = signal.signal(signal.SIGINT, signal.SIG_DFL)
from kitlib.lab import jars; signal.signal(signal.SIGINT, own); sys.exit(jars.main())"""

# What would make pip or uv install to somewhere else, or Python import from there.
FOREIGN_SETTINGS = {"PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_REQUIRE_VIRTUALENV", "UV_TARGET"}
UV_NAMES = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS", "no-index": "UV_NO_INDEX",
            "cert": "SSL_CERT_FILE", "trusted-host": "UV_INSECURE_HOST", "timeout": "UV_HTTP_TIMEOUT"}  # fmt: skip


def main() -> None:
    if sys.version_info < OLDEST_PYTHON:
        end(f"this is Python {sys.version.split()[0]}, but {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed. "
            f"Install one, or name one: make PYTHON=/path/to/python3 setup")  # fmt: skip
    if sys.platform == "win32":
        end("Kafka does not run well on Windows. Use WSL2: `wsl --install`, then clone and run make inside it.")
    with open(__file__, "rb") as script:
        lock_out_others(script)
        wants_tools = "--dev" in sys.argv[1:] or DEVELOPERS_LOCK.name in str(stamped().get("locks"))
        locks = [LOCK, DEVELOPERS_LOCK] if wants_tools else [LOCK]  # once installed, the tools are kept up to date
        if stamped() != fingerprint(locks) or not os.access(str(PYTHON), os.X_OK):
            make_environment(locks)
        if code := run([str(PYTHON), "-c", JARS]):
            sys.exit(code)


def lock_out_others(script: BinaryIO) -> None:
    """Hold a lock on this very file while the process lives: two setups would write into one environment."""
    import fcntl

    with suppress(OSError):  # some file systems have no locks
        try:
            fcntl.flock(script, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is running here; waiting for it")
            fcntl.flock(script, fcntl.LOCK_EX)


def stamped() -> dict[str, object]:
    """What the last setup that finished has left; {} without one."""
    with suppress(OSError, ValueError):
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
        return stamp if isinstance(stamp, dict) else {}
    return {}


def fingerprint(locks: list[Path]) -> dict[str, object]:
    """What the environment depends on: the locked packages, this package's own data, and the folder's place."""
    inputs = b"\0".join(path.read_bytes() for path in (*locks, ROOT / "pyproject.toml"))
    return {"inputs": hashlib.sha256(inputs).hexdigest(), "locks": [lock.name for lock in locks], "root": str(ROOT)}


def make_environment(locks: list[Path]) -> None:
    began, names = time.monotonic(), " and ".join(lock.name for lock in locks)
    if os.environ.get("KIT_OFFLINE", "") not in ("", "0"):
        end(f"KIT_OFFLINE is set, but .venv lacks packages of {names}. Run this once with a network.")
    say(f"installing the packages of {names} into .venv; pyspark alone is 450 MB, so the first time takes a minute or more")
    is_complete = stamped().get("root") == str(ROOT) and os.access(str(PYTHON), os.X_OK)  # elsewhere its programs name the old place
    STAMP.unlink(missing_ok=True)
    if not is_complete:
        make_virtual_environment()
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    uv = [str(ENVIRONMENT / "bin" / "uv"), "pip", "install", "--compile-bytecode", "--python", str(PYTHON)]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("setuptools", "uv"):  # setuptools builds pyspark's source archive
            locked = re.search(rf"^{name}==.*\n(?:    .*\n)*", LOCK.read_text(encoding="utf-8"), re.MULTILINE)  # with its hashes
            Path(folder, name).write_text(locked.group(0) if locked else name, encoding="utf-8")
        fetch = [*pip, "--quiet", "--require-hashes", "-r"]
        failed, no_uv = (run([*fetch, f"{folder}/{name}"], is_quiet=True) for name in ("setuptools", "uv"))
    installer, settings = (pip, {}) if no_uv else (uv, uv_settings())
    named = [word for lock in locks for word in ("-r", str(lock))]
    for packages in (["--require-hashes", *named], ["-e", str(ROOT)]):
        failed = failed or run([*installer, "--no-deps", "--no-build-isolation", *packages], settings, is_quiet=bool(no_uv))
    if failed:
        end(f"{'pip' if no_uv else 'uv'} ended with {failed}; its reason is above. "
            f"A network is needed the first time. Run this again when the cause is gone.")  # fmt: skip
    STAMP.write_text(json.dumps(fingerprint(locks)), encoding="utf-8")
    say(f"the environment is ready after {time.monotonic() - began:.0f} s")


def make_virtual_environment() -> None:
    if ENVIRONMENT.exists():
        say("the environment in .venv is unfinished, moved or does not start; making it anew")
        shutil.rmtree(str(ENVIRONMENT))
    ENVIRONMENT.mkdir()
    OURS.touch()
    if run([sys.executable, "-m", "venv", str(ENVIRONMENT)], is_quiet=True):
        uv = shutil.which("uv")
        if not uv or run([uv, "venv", "--allow-existing", "--seed", "--python", sys.executable, str(ENVIRONMENT)], is_quiet=True):
            end("this Python cannot make a virtual environment (the reason is above). "
                "On Debian and Ubuntu `apt install python3-venv` helps, elsewhere installing uv; then run this again.")  # fmt: skip


def uv_settings() -> dict[str, str]:
    """The index, certificates and wheel folder that pip is configured with here, from its files and its environment."""
    answer = subprocess.run([str(PYTHON), "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    pairs = re.findall(r"^\S+\.([a-z-]+)='(.*)'$", answer.stdout, re.MULTILINE)
    return {UV_NAMES[name]: value for name, value in pairs if name in UV_NAMES}


def run(command: list[str], settings: Mapping[str, str] = {}, is_quiet: bool = False) -> int:
    """Run `command` and return its exit code; a quiet one shows what it has printed only if it failed, and nothing after Ctrl-C."""
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN_SETTINGS}
    answer = subprocess.run(
        command, cwd=str(ROOT), env={**settings, **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if is_quiet else sys.stderr, stderr=subprocess.STDOUT if is_quiet else None, check=False,
    )  # fmt: skip
    if is_quiet and answer.returncode:
        sys.stderr.write(answer.stdout.decode("utf-8", "replace"))
    return answer.returncode


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
        end(f"{error.filename or ROOT}: {error.strerror}. Make room or correct the permissions, then run `make setup` again.")

"""The kit's part of a pytest that runs nbval: `pytest --nbval -p kitlib.lab.nbval_plugin PATH...`.

Kernels are encrypted and know their notebook's name, and what never is the same twice (`kitlib.lab.notebooks.VOLATILE`) is not
compared. Where `ACCOUNT` names a file, that file says at every moment how many cells were begun, and after how many seconds.
Plain nbval gets a Kafka that runs: a notebook that had to start one would say so in its output. Without `--nbval` nothing is done.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kitlib.lab.kept_rows import FOLDER

ACCOUNT = "KIT_NBVAL_ACCOUNT"  # the variable with the name of the file
ONLY = "KIT_NBVAL_ONLY"  # the variable with the one notebook of the folder that is run: on a command line, `a[1].ipynb` is no name
SECONDS_TO_END = 10.0  # after the process that asked for the run has gone


class Account:
    """Counts cells and seconds; the seconds begin when the kernel is up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began: float | None = None
        self.cells = 0

    def pytest_runtest_call(self) -> None:
        self.began = self.began or time.monotonic()
        self.cells += 1
        self.write()

    def pytest_sessionfinish(self) -> None:
        self.write()

    def write(self) -> None:
        seconds = time.monotonic() - self.began if self.began else 0.0
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(json.dumps({"cells": self.cells, "seconds": seconds}), encoding="utf-8")
        os.replace(new, self.path)


def pytest_configure(config: Any) -> None:
    if not getattr(config.option, "nbval", False):
        return
    from jupyter_client.manager import KernelManager

    # As in the lab. Without it any local process can read a kernel's output, and the kernel warns of it.
    KernelManager.transport_encryption.default_value = "auto"
    rules = config.option.nbval_sanitize_with
    folder = tempfile.TemporaryDirectory(prefix="kit-nbval-rules-")
    config.add_cleanup(folder.cleanup)
    os.environ[FOLDER] = folder.name  # of what a learner has done, these runs neither know nor tell
    both = Path(folder.name) / "rules.cfg"
    both.write_text((Path(rules).read_text(encoding="utf-8") + "\n" if rules else "") + sanitize_rules(), encoding="utf-8")
    config.option.nbval_sanitize_with = str(both)
    if account := os.environ.get(ACCOUNT):
        config.pluginmanager.register(Account(Path(account)))
        threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    else:
        from kitlib.lab import notebooks
        from kitlib.lab.brokers.start import say_on_stderr

        running = ExitStack()
        running.enter_context(notebooks.broker(say_on_stderr))
        config.add_cleanup(running.close)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    only = os.environ.get(ONLY)
    return True if only and collection_path not in (Path(only), Path(only).parent) else None


def pytest_runtest_setup(item: Any) -> None:
    if item.path.suffix == ".ipynb":  # its kernel is started after this
        os.environ["KIT_NOTEBOOK"] = item.path.stem


def sanitize_rules() -> str:
    """The kit's list of what never is the same twice, as nbval wants it."""
    from kitlib.lab.notebooks import VOLATILE

    return "\n".join(
        f"[rule{number}]\nregex: {pattern}\nreplace: {replacement}\n"
        for number, (pattern, replacement) in enumerate(VOLATILE)
    )


def end_with_parent(parent: int) -> None:
    """Whoever asked for this run may be killed without a word: then end it as Ctrl-C does, which ends the kernel too."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(SECONDS_TO_END)
    os._exit(1)

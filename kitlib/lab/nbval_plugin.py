"""The kit's part of a pytest that runs nbval: `pytest --nbval -p kitlib.lab.nbval_plugin PATH...`.

Kernels are encrypted and know their notebook's name, and what never is the same twice (`kitlib.lab.notebooks.VOLATILE`) is not
compared. It gets a Kafka that runs: a notebook that had to start one would say so in its output. Without `--nbval` nothing is done.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kitlib.lab.kept_rows import FOLDER


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
    from kitlib.lab import notebooks
    from kitlib.lab.state import say_on_stderr

    running = ExitStack()
    running.enter_context(notebooks.broker(say_on_stderr))
    config.add_cleanup(running.close)


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

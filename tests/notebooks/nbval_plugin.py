"""Loaded into the pytest that runs nbval: encrypted kernels, and a file that says what really ran and how long."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

# As in the lab. Without it any local process can read a kernel's output, and the kernel warns of it.
KernelManager.transport_encryption.default_value = "auto"


class Account:
    """Counts cells and seconds; the seconds begin when the kernel is up."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.cells = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        self.began = self.began or time.monotonic()
        self.cells += 1

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        seconds = time.monotonic() - self.began if self.began else 0.0
        account: dict[str, Any] = {"cells": self.cells, "seconds": seconds, "exit": int(exitstatus)}
        Path(os.environ["KIT_NBVAL_ACCOUNT"]).write_text(json.dumps(account))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Account())

"""The command line, run in the process of the tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kitlib import cli

CommandLine = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Runs the command line in this process: exit code, stdout, stderr."""
    monkeypatch.setenv("KIT_DEBUG", "")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(arguments))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run

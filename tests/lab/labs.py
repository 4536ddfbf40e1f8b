"""A real `kit lab` as a child process, and what a browser would do with it, for the tests of the lab."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from tests.conftest import HEEDING, REPOSITORY, carries, mentions, our_processes, wait_for

KIT = [sys.executable, "-m", "kitlib"]
URL = re.compile(r"http://127\.0\.0\.1:(\d+)/lab\S*\?token=([0-9a-f]{40,})")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def project_of(home: Path) -> Path:
    """A project beside a workspace, with the notebooks of this one: no test touches the learner's own copies in `work`."""
    project = home.parent / "project"
    if not project.exists():
        shutil.copytree(REPOSITORY / "notebooks", project / "notebooks")
    return project


class Lab:
    """One `kit lab`: its process, what it has said so far, and its address once it has said it."""

    def __init__(
        self, home: Path, *options: str, command: list[str] | None = None, env: dict[str, str] | None = None, **more: Any
    ) -> None:
        self.home, self.project = home, project_of(home)
        self.said = ""
        self.process = subprocess.Popen(
            [*HEEDING, *(command or [*KIT, "lab", "--no-browser", *options])],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.project,
            env={**os.environ, "KIT_HOME": str(home), **(env or {})}, **more,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            while character := stdout.read(1):
                self.said += character

    def wait_for_words(self, words: str, seconds: float = 40) -> None:
        assert wait_for(lambda: words in self.said or self.process.poll() is not None, seconds), self.said
        assert words in self.said, self.said

    def open(self, seconds: float = 100) -> Lab:
        """Wait until the lab has printed its address; one that does not is killed, and the test says what it has said."""
        wait_for(lambda: URL.search(self.said) or not self.reader.is_alive(), seconds)
        found = URL.search(self.said)
        if found is None:
            self.process.kill()
            pytest.fail(f"no address within {seconds} s; exit code {self.wait()}; said: {self.said!r}")
        self.url, self.port, self.token = found.group(), int(found.group(1)), found.group(2)
        return self

    def note(self) -> dict[str, Any]:
        return dict(json.loads((self.home / "run" / "lab.json").read_text()))

    def end(self, number: int = signal.SIGINT, seconds: float = 40) -> int:
        """Send a signal, wait for the end, return the exit code."""
        self.process.send_signal(number)
        return self.wait(seconds)

    def wait(self, seconds: float = 40) -> int:
        """Wait for the end; a gentle one may take 6 s for JupyterLab and 8 s for the broker, and more on a busy machine."""
        code = self.process.wait(seconds)
        self.reader.join(5)
        return code

    def processes(self) -> list[psutil.Process]:
        """Every process that belongs to this lab's workspace: broker, JupyterLab, kernels and what they started."""
        return [process for process in our_processes() if carries(process, "KIT_HOME", str(self.home))]

    def find(self, *words: str) -> list[psutil.Process]:
        """This lab's processes that have all these words in their command lines."""
        return [process for process in self.processes() if all(mentions(process, word) for word in words)]

    def ask(self, path: str, body: Any = None, token: bool = True, host: str | None = None) -> tuple[int, Any]:
        """The status and the JSON of an HTTP request to JupyterLab."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"token {self.token}"
        if host:
            headers["Host"] = host
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", data, headers)
        try:
            with DIRECT.open(request, timeout=20) as answer:
                text = answer.read().decode()
                return answer.status, json.loads(text) if "json" in answer.headers.get_content_type() else text
        except urllib.error.HTTPError as error:
            return error.code, None

    def kernel(self, notebook: str = "probe.ipynb") -> Kernel:
        """A kernel as JupyterLab starts it for a notebook."""
        status, session = self.ask(
            "api/sessions", {"path": notebook, "name": Path(notebook).name, "type": "notebook", "kernel": {"name": "python3"}}
        )
        assert status == 201, (status, session)
        return Kernel(self, session["kernel"]["id"])


class Kernel:
    """A kernel of a lab, with a client that talks to it as a notebook page does."""

    def __init__(self, lab: Lab, kernel_id: str) -> None:
        self.lab, self.id = lab, kernel_id
        self.connect()

    def connect(self) -> None:
        path = self.lab.home / "run" / "jupyter" / f"kernel-{self.id}.json"
        self.client = BlockingKernelClient(connection_file=str(path))
        self.client.load_connection_file()
        self.client.hb_channel.time_to_dead = 20.0  # a busy machine is not a dead kernel
        self.client.start_channels()
        self.client.wait_for_ready(timeout=40)

    def run(self, code: str, seconds: float = 60) -> str:
        """What the code printed; an error in it is an error here."""
        printed: list[str] = []

        def note(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                printed.append(message["content"]["text"])

        reply = self.client.execute_interactive(code, timeout=seconds, output_hook=note)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed).strip()

    def start(self, code: str) -> None:
        """Run code without waiting for its end."""
        self.client.execute(code)

    @property
    def process(self) -> psutil.Process:
        (found,) = self.lab.find("ipykernel_launcher", self.id)
        return found

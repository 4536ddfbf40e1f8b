"""`kit lab` as its user meets it: it opens quickly, keeps its secrets, minds its neighbours, and says what is wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import websocket

from kitlib.errors import LabError
from kitlib.lab import kafka_server, session
from tests.conftest import check_loopback, describe, make_home, wait_for
from tests.lab.labs import Kernel, Lab

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, kit_home: Path) -> Iterator[Lab]:
    lab = Lab(make_home(tmp_path_factory.mktemp("lab") / "home", (kit_home / "jars").resolve())).open()
    yield lab
    assert lab.end() == 130
    assert not lab.processes()


@pytest.fixture(scope="module")
def kernel(lab: Lab) -> Kernel:
    return lab.kernel("notebooks/probe one.ipynb")


def test_lab_without_a_token_is_forbidden(lab: Lab) -> None:
    """Whoever has no token, or comes by another host name, gets 403."""
    assert lab.ask("api/contents", token=False)[0] == 403
    assert lab.ask("api/contents", host="evil.example")[0] == 403
    assert lab.ask("api/contents")[0] == 200


def test_lab_running_shows_its_token_on_no_command_line(lab: Lab) -> None:
    """Other users of the machine can read every command line, so the token is on none."""
    shown = [describe(p) for p in lab.processes() if any(lab.token in word for word in p.cmdline())]
    assert not shown
    for path in (lab.home / "run" / "lab.json", *(lab.home / "run" / "jupyter").glob("jpserver-*")):
        assert path.stat().st_mode & 0o077 == 0 or path.parent.parent.stat().st_mode & 0o077 == 0, path


def test_lab_opened_shows_the_learners_copy(lab: Lab) -> None:
    """The address is that of the copy, which is trusted and has no outputs; README and the shipped notebooks are within reach."""
    assert "/lab/tree/work/00_start_here.ipynb?token=" in lab.url
    _, copy = lab.ask("api/contents/work/00_start_here.ipynb")
    code = [cell for cell in copy["content"]["cells"] if cell["cell_type"] == "code"]
    assert code and all(cell["metadata"]["trusted"] and not cell["outputs"] for cell in code)
    assert lab.ask("api/contents/notebooks/00_start_here.ipynb")[0] == 200


def test_kernel_started_by_the_lab_finds_kitlib_and_its_notebooks_name(kernel: Kernel) -> None:
    """A notebook's kernel imports kitlib from any folder, runs in our Python, and knows its notebook's name."""
    assert kernel.run("import sys; print(sys.executable)") == sys.executable
    asked = "import os; os.chdir('/'); from kitlib.lab.created_resources import notebook; print(notebook())"
    assert kernel.run(asked) == "probe_one"


def test_terminal_in_jupyterlab_finds_the_command(lab: Lab, tmp_path: Path) -> None:
    """In a terminal of JupyterLab `kit` is the lab's own, and it speaks of the lab's own workspace."""
    _, terminal = lab.ask("api/terminals", {})
    address = f"ws://127.0.0.1:{lab.port}/terminals/websocket/{terminal['name']}?token={lab.token}"
    line = websocket.create_connection(address, timeout=20)
    line.send(json.dumps(["stdin", f"command -v kit > '{tmp_path}/kit'; echo $KIT_HOME > '{tmp_path}/home'\r"]))
    assert wait_for(lambda: (tmp_path / "home").exists() and (tmp_path / "home").read_text(), 40)
    line.close()
    assert (tmp_path / "kit").read_text().strip() == str(Path(sys.executable).parent / "kit")
    assert (tmp_path / "home").read_text().strip() == str(lab.home)


def test_kernel_channels_are_encrypted(lab: Lab, kernel: Kernel) -> None:
    """Another process of the machine cannot read a kernel's output by listening to its port."""
    connection = json.loads((lab.home / "run" / "jupyter" / f"kernel-{kernel.id}.json").read_text())
    assert connection["curve_publickey"]


@pytest.mark.alone
def test_kernel_killed_ends_nothing_else(lab: Lab, kernel: Kernel) -> None:
    """kill -9 of a kernel: the broker stays, the notebook gets a new kernel (row 4)."""
    before = [process.pid for process in lab.find("kafka.Kafka")]
    child = int(kernel.run("import subprocess; print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)"))
    kernel.process.kill()
    assert psutil.pid_exists(child)  # the lab's end finds it, as the fixture's last line says
    assert [process.pid for process in lab.find("kafka.Kafka")] == before
    assert wait_for(lambda: lab.find("ipykernel_launcher", kernel.id), 40), "JupyterLab did not start the kernel anew"
    kernel.client.stop_channels()
    kernel.connect()
    assert kernel.run("print(1 + 1)") == "2"


def test_second_lab_says_who_has_it_since_when_and_where(lab: Lab) -> None:
    """A second lab in the same workspace ends with the first one's process, start and address (row 13)."""
    second = Lab(lab.home)
    assert second.wait() == 3
    assert str(lab.note()["pid"]) in second.said and lab.url in second.said
    assert time.strftime("%Y-%m-%d %H:%M:", time.localtime(lab.note()["since"])) in second.said
    assert len(second.said.splitlines()) <= 2
    assert lab.ask("api/status")[0] == 200


def test_twenty_pairs_at_the_same_instant_give_one_lab_each(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two labs that start at the same instant just one gets the workspace, twenty times (row 13)."""
    (new_home / "run").mkdir()
    monkeypatch.setenv("KIT_HOME", str(new_home))
    monkeypatch.setenv("KIT_RUN", "0123456789abcdef")
    begin, told = threading.Barrier(2), threading.Barrier(2)

    def start(number: int) -> str:
        begin.wait(20)
        try:
            with session.only_lab(session.Printer()):
                session.write_note(time.time(), f"http://{number}")
                told.wait(20)
                session.note_path().unlink()
                return "mine"
        except LabError as error:
            told.wait(20)
            return "theirs" if f"http://{number}" in str(error) else str(error)

    with ThreadPoolExecutor(2) as pool:
        for number in range(20):
            assert sorted(pool.map(start, [number] * 2)) == ["mine", "theirs"]


def test_asked_port_taken_is_an_error_that_names_the_process(new_home: Path) -> None:
    """With --port the lab takes no other port; it names the process that has it and starts nothing (row 15)."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        lab = Lab(new_home, "--port", str(port))
        assert lab.wait() == 3
    assert f"Port {port} is in use by" in lab.said and str(os.getpid()) in lab.said
    assert "Traceback" not in lab.said and not lab.processes()


@pytest.mark.parametrize("options", [("--port", "0"), ("--port", "65536"), ("--port", "http"), ("--notebook", "no/such.ipynb")])
def test_option_without_sense_is_refused_before_anything_starts(options: tuple[str, str], new_home: Path) -> None:
    """A port outside of 1 to 65535 and a notebook that is not there are named, exit code 2."""
    lab = Lab(new_home, *options)
    assert lab.wait() == 2
    assert "Traceback" not in lab.said and options[0].strip("-") in lab.said and not (new_home / "run").exists()


def test_users_own_jupyter_configuration_changes_nothing(new_home: Path, tmp_path: Path) -> None:
    """A user's broken and dangerous Jupyter configuration neither stops nor opens the lab; nothing is added to it.

    SIGTERM ends the lab as Ctrl-C does, with the exit code a shell expects.
    """
    config = tmp_path / "user" / ".jupyter"
    config.mkdir(parents=True)
    (config / "jupyter_server_config.py").write_text("raise SystemExit('broken configuration')\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "jupyter_server_config.json").write_text(
        json.dumps({"ServerApp": {"ip": "0.0.0.0", "port": 9999}, "IdentityProvider": {"token": ""}})
    )
    user = {
        "HOME": str(config.parent), "JUPYTER_CONFIG_DIR": str(config), "JUPYTER_CONFIG_PATH": str(elsewhere),
        "JUPYTER_TOKEN": "guess", "JUPYTER_PORT": "9998", "IPYTHONDIR": str(elsewhere),
    }
    lab = Lab(new_home, env=user).open()
    assert lab.ask("api/contents", token=False)[0] == 403
    check_loopback(lab.processes())
    assert lab.kernel().run("print('fine')") == "fine"
    assert lab.end(signal.SIGTERM) == 143 and "Everything has ended" in lab.said
    assert not lab.processes() and not list((new_home / "run").glob("lab.json"))
    assert [path for path in config.parent.rglob("*") if path.is_file()] == [config / "jupyter_server_config.py"]


def test_lab_with_a_cluster_of_the_users_own_leaves_it_running(broker: Any, new_home: Path) -> None:
    """With KIT_KAFKA_BOOTSTRAP the lab starts no broker, and its end leaves the cluster as it was."""
    lab = Lab(new_home, env={"KIT_KAFKA_BOOTSTRAP": broker.bootstrap}).open()
    assert f"Kafka is yours and stays: {broker.bootstrap}" in lab.said
    assert not lab.find("kafka.Kafka")
    assert lab.end() == 130
    assert kafka_server.status().phase == "running"

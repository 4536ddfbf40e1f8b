"""JupyterLab as the lab runs it: on 127.0.0.1, with its token, with encrypted kernels, and without dialogs.

JupyterLab is started with a configuration folder of the kit's own, so that what a user has set up for
other work (a password, a theme, another kernel called python3, a news feed) neither breaks the
lessons nor is changed by them. Every safety-relevant setting is on the command line, which wins
over all configuration files. The token never is: Jupyter makes one up and writes it to a file that
only the user can read, and from there the lab takes it.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil

from kitlib.errors import LabError
from kitlib.lab import java, workspace
from kitlib.lab.processes import limits
from kitlib.lab.supervisor import with_kitlib

LOOPBACK = "127.0.0.1"
USUAL_PORT = 8888
START_NOTEBOOK = "notebooks/00_start_here.ipynb"

# In these files: silence where JupyterLab would ask or tell something in the first minute, no language servers (they are for writing code
# at length, and looking for them runs npm, which leaves files in the home folder), and a closed file list, as it leaves a player's knobs
# no room beside their picture on a small screen; one press opens it.
SETTINGS = Path(__file__).with_name("jupyter_settings")
PLACES = {"page_config": "labconfig", "default_setting_overrides": "labconfig", "kit": "jupyter_server_config.d"}


@dataclass(frozen=True, slots=True)
class Server:
    """A running JupyterLab, as its own runtime file describes it."""

    pid: int
    port: int  # the one it got, which is not the one asked for when that was taken
    token: str
    url: str  # http://127.0.0.1:PORT/

    def address(self, notebook: str) -> str:
        """Where a browser finds `notebook` (relative to what JupyterLab shows), token included."""
        return f"{self.url}lab/tree/{urllib.parse.quote(notebook)}?token={self.token}"

    def redirect_file(self) -> Path:
        """A page only the user can read, which sends a browser on: so no token is on a command line."""
        return runtime_dir() / f"jpserver-{self.pid}-open.html"


def config_dir() -> Path:
    """Jupyter's configuration for this kit alone; a learner's theme and open tabs live here too."""
    return workspace.home() / "jupyter"


def runtime_dir() -> Path:
    """Jupyter's connection files and the token; 0700."""
    return workspace.run_dir() / "jupyter"


# Where an installed wheel has put `notebooks`; nothing is written there.
INSTALLED = Path(sys.prefix) / "share" / "delivery-lab"


def project_dir() -> Path:
    """The folder that holds `notebooks`: here, in the checkout that kitlib comes from, or where its wheel was installed."""
    for folder in (Path.cwd(), Path(__file__).resolve().parents[2], INSTALLED):
        if (folder / START_NOTEBOOK).is_file():
            return folder
    return Path.cwd()


def write_settings() -> None:
    """Put the folders and the files in place that keep JupyterLab from asking and telling; the layout only before its first start."""
    runtime_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, folder in PLACES.items():
        workspace.write_atomic(config_dir() / folder / f"{name}.json", (SETTINGS / f"{name}.json").read_text(encoding="utf-8"))
    layouts = config_dir() / "lab" / "workspaces"
    if not layouts.is_dir():
        from jupyterlab_server.workspaces_handler import WorkspacesManager  # takes a second to load

        WorkspacesManager(str(layouts)).save("default", (SETTINGS / "default_layout.json").read_text(encoding="utf-8"))


def clear_leftovers() -> None:
    """Remove what a killed JupyterLab has left in the runtime folder; only for who holds the lab's lock."""
    for pattern in ("jpserver-*", "kernel-*.json"):
        for path in runtime_dir().glob(pattern):
            path.unlink(missing_ok=True)


def command(port: int, port_is_fixed: bool, root: Path, notebook: str, ip: str = LOOPBACK) -> list[str]:
    """The command line of JupyterLab. It holds no secret: everybody on the machine can read it."""
    settings = {
        "ServerApp.ip": ip,
        "ServerApp.port": port,
        "ServerApp.port_retries": 0 if port_is_fixed else 50,
        "ServerApp.open_browser": False,  # the lab does it, when everything is up
        "ServerApp.root_dir": root,
        "ServerApp.allow_remote_access": False,
        "ServerApp.allow_root": os.geteuid() == 0,  # in a container one is root
        # The user's shell, but not a login shell: that would forget where `kit` is.
        "ServerApp.terminado_settings": f"shell_command={shlex.quote(os.environ.get('SHELL') or 'sh')}",
        "LabApp.default_url": f"/lab/tree/{urllib.parse.quote(notebook)}",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.news_url": None,
        "LabApp.extension_manager": "readonly",
        "KernelManager.transport_encryption": "auto",
        "KernelManager.shutdown_wait_time": 2.0,
    }
    return [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in settings.items())]


def environment() -> dict[str, str]:
    """The environment of JupyterLab and of every kernel: the user's, without what would bend Jupyter or Java."""
    kept = {
        name: value for name, value in java.clean_java_env(os.environ).items()
        if not name.startswith(("JUPYTER", "JPY_", "IPYTHON"))
    }
    return with_kitlib(workspace.direct_loopback({
        **kept,
        "JUPYTER_CONFIG_DIR": str(config_dir()),
        "JUPYTER_CONFIG_PATH": str(config_dir()),  # before all others, those of this environment included
        "JUPYTER_DATA_DIR": str(config_dir() / "data"),
        "JUPYTER_RUNTIME_DIR": str(runtime_dir()),
        "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel called python3 is the one of this environment
        "IPYTHONDIR": str(workspace.home() / "ipython"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)]),  # so `kit` is found
        "PYTHONNOUSERSITE": "1",
        "KIT_HOME": str(workspace.home()),
    }))


def holder_of(port: int) -> str | None:
    """Who listens on `port` of this machine, in words; None if the port can be had."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            return None
        except PermissionError:
            return "the system (ports below 1024 are for root)"
        except (OSError, OverflowError):
            pass
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        pass
    return "another program"


def read_server(pid: int) -> Server | None:
    """The server that runs as process `pid`, or None as long as it has not written its runtime file."""
    try:
        said = json.loads((runtime_dir() / f"jpserver-{pid}.json").read_text(encoding="utf-8"))
        return Server(pid, int(said["port"]), said["token"], f"http://{LOOPBACK}:{int(said['port'])}/")
    except (OSError, ValueError, KeyError):
        return None


def answers(server: Server) -> bool:
    """Whether the server answers its version on the loopback interface, whatever proxies are set."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{server.url}api", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def wait_until_open(process: subprocess.Popen[bytes], seconds: float) -> Server:
    """The server of this process, once it answers; LabError with its last words if it ends or takes too long."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        server = read_server(process.pid)
        if server is not None and answers(server):
            return server
        time.sleep(0.05)
    how = f"did not answer within {seconds:.0f} s" if process.returncode is None else "ended while it was starting"
    raise LabError(f"JupyterLab {how}. {last_words()}")


def log_path() -> Path:
    return workspace.run_dir() / "logs" / "jupyter.log"


def last_words() -> str:
    """What JupyterLab wrote last that looks like a reason, and where the rest is."""
    if full := workspace.full_disk():
        return f"{full[0].upper()}{full[1:]}; make room there."
    try:
        lines = log_path().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"It wrote nothing to {log_path()}."
    reasons = [line for line in lines if line.strip() and "token=" not in line]
    wanted = [line for line in reasons if "Error" in line or "rror:" in line or line.startswith("[C")] or reasons
    said = f"Its last word: {wanted[-1].strip()[:300]}. " if wanted else ""
    return f"{said}{limits()}The log is {log_path()}."

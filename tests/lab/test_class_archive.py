"""The archives of Kafka's and Spark's classes: made once, used by every Java of theirs, and never a reason not to start."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from kitlib.errors import LabError
from kitlib.lab import class_archive_maker, jars, java, spark
from kitlib.lab.brokers.node import Machinery, java_command
from kitlib.lab.class_archive import UNUSED_S, ClassArchive, spark_class_path
from kitlib.lab.class_archive_maker import KAFKA, SPARK_LOCAL, Program
from tests.conftest import make_home, our_processes, wait_for
from tests.lab.conftest import all_gone
from tests.lab.labs import Lab

pytestmark = pytest.mark.kafka


def with_jars(home: Path) -> Path:
    """A workspace at `home` with jars of its own, so that nobody else's archive is there."""
    (home / "jars").mkdir(parents=True)
    for jar in [*jars.ensure_jars("kafka"), *jars.ensure_jars("spark")]:
        shutil.copy2(jar, home / "jars")
    return home


def start_maker(home: Path) -> subprocess.Popen[str]:
    """What `make setup` runs, in the workspace `home`."""
    return subprocess.Popen(
        [sys.executable, "-m", class_archive_maker.__name__], env={**os.environ, "KIT_HOME": str(home)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(kit_home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A workspace whose archive two makers have made at once, and what each of them said."""
    home = with_jars(tmp_path_factory.mktemp("archive") / "home")
    makers = [start_maker(home) for _ in range(2)]
    told = [maker.communicate(timeout=240)[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0], told
    return home, told


@pytest.fixture
def home(made: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new workspace that finds jars and archive where a link leads."""
    monkeypatch.setenv("KIT_HOME", str(make_home(tmp_path / "home", made[0] / "jars")))
    yield tmp_path / "home"


@pytest.fixture
def bare_home(kit_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new workspace with jars of its own, and without an archive."""
    bare = with_jars(tmp_path / "bare")
    monkeypatch.setenv("KIT_HOME", str(bare))
    return bare


def executable() -> Path:
    return java.find_java(needs_vector=False).executable


def class_path() -> list[Path]:
    return [jar.path for jar in jars.LOCK["kafka"]]


def archive(paths: list[Path]) -> ClassArchive:
    return ClassArchive("kafka", executable(), paths)


def kafkas() -> ClassArchive:
    return archive(class_path())


def run_a_tool(room: Path, *options: str) -> str:
    """What a Java of the broker's says when a tool of Kafka's runs in it as a broker would."""
    (room / "tmp").mkdir(exist_ok=True)  # where the tool's command line says that temporary files go
    machinery = Machinery(executable(), tuple(class_path()), room, room, "token", 128)
    command = java_command(machinery, 1, "kafka.tools.StorageTool", "random-uuid")
    answer = subprocess.run(
        [command[0], *options, *command[1:]], capture_output=True, text=True, timeout=120, check=False, cwd=room,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


@pytest.mark.slow
def test_archive_is_used_by_every_workspace_with_these_jars(home: Path) -> None:
    """Kafka's classes come from the archive, also where a link leads to the jars, and Java says nothing of it."""
    log = home / "classes.log"
    assert len(run_a_tool(home, f"-Xlog:class+load:file={log}").split()) == 1, "the tool prints one word"
    from_archive = [line for line in log.read_text().splitlines() if "shared objects file (top)" in line]
    assert any(" kafka." in line for line in from_archive)
    assert len(from_archive) > 100


@pytest.mark.slow
def test_archive_of_two_makers_at_once_is_made_by_one(made: tuple[Path, list[str]]) -> None:
    """Of two makers one makes the archive and the other waits for it; nothing else is left, in the folder or running."""
    home, told = made
    assert sorted("made an archive" in text for text in told) == [False, True]
    others = {path.name for path in (home / "jars").iterdir()} - {jar.file for name in jars.SETS for jar in jars.LOCK[name]}
    assert {name for name in others if not name.endswith(".lock")} == {path.name for path in (home / "jars").glob("kafka-classes-*")}
    assert len(list((home / "jars").glob("kafka-classes-*"))) == 1
    assert not (home / "run" / "classes").exists()
    assert not [process for process in our_processes() if str(home / "run" / "classes") in " ".join(process.cmdline())]


@pytest.mark.slow
def test_maker_finds_its_work_done(home: Path) -> None:
    """Where the archive is, the maker says nothing and starts nothing."""
    maker = start_maker(home)
    assert maker.communicate(timeout=60)[0] == ""
    assert maker.returncode == 0
    assert not (home / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage", "emptied"])
def test_archive_that_is_damaged_is_not_used(home: Path, bare_home: Path, damage: str) -> None:
    """An archive that is cut, has one bit flipped, is another file or empty is passed over; Kafka's Java starts and says nothing."""
    [whole] = home.joinpath("jars").resolve().glob("kafka-classes-*.jsa")
    content = bytearray(whole.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    else:
        content = {"cut": content[:9_000_000], "garbage": bytearray(b"garbage"), "emptied": bytearray()}[damage]
    wanted = kafkas().stem()
    assert wanted is not None
    (bare_home / "jars" / (wanted + whole.name[len(wanted) :])).write_bytes(content)
    assert kafkas().flags() == []
    assert len(run_a_tool(bare_home).split()) == 1


@pytest.mark.slow
def test_archive_that_java_refuses_is_refused_without_a_word(home: Path) -> None:
    """Should Java not like a whole archive (here: the class path is another one), it starts without it and prints no warning."""
    flags = kafkas().flags()
    assert len(flags) == 2
    plain, refused = (
        subprocess.run([executable(), *more, "-cp", str(home), "-version"], capture_output=True, text=True, check=True)
        for more in ([], flags)
    )
    assert (refused.stdout, refused.stderr) == (plain.stdout, plain.stderr)


def test_archive_is_looked_for_under_another_name_when_a_jar_changes(bare_home: Path) -> None:
    """The name follows each jar's size and time, their order and the Java; without a jar or a Java there is none."""
    paths = class_path()
    names = [archive(paths).stem(), archive(paths[::-1]).stem()]
    os.utime(paths[3], (1, 1))
    names.append(archive(paths).stem())
    paths[3].write_bytes(b"")
    os.utime(paths[3], (1, 1))
    names.append(archive(paths).stem())
    assert len(set(names)) == 4
    assert None not in names
    paths[3].unlink()
    assert archive(paths).stem() is None
    assert ClassArchive("kafka", bare_home / "bin" / "java", paths[:2]).flags() == []


def test_archive_that_is_new_replaces_the_old_ones(bare_home: Path) -> None:
    """A new archive comes to its place whole; those of another Java or of other jars go, and those that nobody used for long."""
    draft = bare_home / "draft"
    draft.write_bytes(b"classes")
    elsewhere = [bare_home / "jars" / f"kafka-classes-0123-{name}.jsa" for name in ("used", "forgotten")]
    for path in elsewhere:
        path.touch()
    before = kafkas().keep(draft)
    os.utime(class_path()[0], (1, 1))
    draft.write_bytes(b"others")
    os.utime(elsewhere[1], (time.time() - UNUSED_S - 60,) * 2)
    kept = kafkas().keep(draft)
    assert kafkas().find() == kept != before
    assert {*(bare_home / "jars").glob("kafka-classes-*")} == {kept, elsewhere[0]}


def test_archive_that_is_used_counts_as_used(home: Path) -> None:
    """Whoever finds an archive makes it young, so that another environment's maker leaves it."""
    found = kafkas().find()
    assert found is not None
    os.utime(found, (1, 1))
    kafkas().flags()
    assert found.stat().st_mtime > time.time() - 60


@pytest.mark.parametrize("program", [KAFKA, SPARK_LOCAL], ids=lambda program: program.name)
def test_maker_that_fails_says_one_sentence_once(program: Program, bare_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failure is one sentence and no error; the next setup does not try again, `kit fetch` does."""

    def fail(*_: object) -> None:
        raise LabError("it ended: out of memory")

    failing = replace(program, run=fail)
    assert class_archive_maker.is_wanted(failing)
    assert class_archive_maker.make(failing) is None
    assert f"could not be made (it ended: out of memory). {program.title} starts all the same" in capsys.readouterr().err
    assert not class_archive_maker.is_wanted(failing)
    assert class_archive_maker.make(failing) is None
    assert capsys.readouterr().err == ""
    assert class_archive_maker.make(failing, again=True) is None
    assert "could not be made" in capsys.readouterr().err
    assert ClassArchive(program.name, executable(), program.class_path()).flags() == []


def test_maker_whose_spark_job_fails_says_so(bare_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that ends with an error of Spark's is a sentence that names the log."""

    def fail(*_: object) -> None:
        raise PySparkException("[STATE_STORE]")

    ended: list[float] = []
    monkeypatch.setattr(spark, "session", lambda **_: None)
    monkeypatch.setattr(spark, "stop", ended.append)  # the session here is that of the tests
    monkeypatch.setattr(class_archive_maker, "_use_spark", fail)
    assert class_archive_maker.make(SPARK_LOCAL) is None
    assert "could not be made (a job of Spark's ended with PySparkException; its log is " in capsys.readouterr().err
    assert ended == [class_archive_maker.SECONDS]


@pytest.mark.parametrize("program", [KAFKA, SPARK_LOCAL], ids=lambda program: program.name)
def test_maker_starts_nothing_for_those_who_have_a_cluster(
    program: Program, bare_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With KIT_KAFKA_BOOTSTRAP the kit starts no Kafka, with KIT_SPARK_MASTER no Spark here, and needs no archive of their classes."""
    monkeypatch.setenv({"kafka": "KIT_KAFKA_BOOTSTRAP", "spark": "KIT_SPARK_MASTER"}[program.name], "127.0.0.1:1")
    assert class_archive_maker.make(program, again=True) is None
    assert capsys.readouterr().err == ""
    assert not (bare_home / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_maker_that_is_interrupted_leaves_nothing(bare_home: Path, number: signal.Signals) -> None:
    """Ctrl-C or SIGTERM in the middle ends the broker too, and leaves no file."""
    maker = start_maker(bare_home)
    assert wait_for(lambda: list((bare_home / "run" / "classes").glob("node-1/__cluster_metadata-0")), 60)
    maker.send_signal(number)
    told = maker.communicate(timeout=60)[0]
    assert maker.returncode == 130
    assert "Traceback" not in told
    assert all_gone(bare_home, 10)
    assert not (bare_home / "run" / "classes").exists()
    assert not [path for path in (bare_home / "jars").iterdir() if "classes" in path.name and path.suffix != ".lock"]


SESSION = """
import sys
from kitlib.lab import spark
session = spark.session(java_flags=(*spark.JAVA_FLAGS, f"-Xlog:class+load:file={sys.argv[1]}"))
session.range(10).groupBy("id").count().collect()
session.stop()
print(spark.log_file().with_suffix(".out").read_text())
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_session_takes_its_classes_from_the_archive(kit_home: Path, tmp_path: Path) -> None:
    """Spark's classes, without lambdas, come from the archive that these jars have, or are given now; Java says nothing of it."""
    assert class_archive_maker.make(SPARK_LOCAL)
    log = tmp_path / "classes.log"
    told = subprocess.run([sys.executable, "-c", SESSION, str(log)], capture_output=True, text=True, timeout=240, check=True).stdout
    assert "[cds]" not in told and "shared" not in told, told
    sparks = [line for line in log.read_text(errors="replace").splitlines() if " org.apache.spark." in line and "$$Lambda" not in line]
    shared = [line for line in sparks if "shared objects file (top)" in line]
    assert len(shared) > 2_000 and len(shared) > 0.9 * len(sparks)


@pytest.mark.spark
def test_session_has_each_jar_once_on_its_class_path(kit_home: Path) -> None:
    """Java 21 refuses an archive where a jar is named twice, as in the class path that Spark itself makes."""
    places = spark.session()._jvm.java.lang.System.getProperty("java.class.path").split(os.pathsep)
    assert len(places) == len(set(places))
    assert places == [str(path) for path in spark_class_path(jars.ensure_jars("spark"))]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_lab_has_the_archive_of_spark_made_aside_and_ends_its_maker(bare_home: Path) -> None:
    """Where there is none, a lab has it made at the lowest priority when it is open, and ends the maker with all the rest."""
    lab = Lab(bare_home)
    try:
        lab.open()
        sparks = wait_for(lambda: lab.find("org.apache.spark.deploy.SparkSubmit"), 60)
        makers = lab.find(class_archive_maker.__name__, class_archive_maker.ASIDE)
        assert sparks and makers and {process.nice() for process in (*makers, *sparks)} == {class_archive_maker.LOWEST_PRIORITY}
    finally:
        assert lab.end() == 130
    assert all_gone(bare_home, 10)
    assert not list((bare_home / "jars").glob("*.jsa"))

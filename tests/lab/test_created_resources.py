"""`kit reset`: what a notebook made goes, everything else stays, whatever the list says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kitlib.errors import DiskError, KnobError
from kitlib.lab import created_resources, workspace
from kitlib.lab.created_resources import Made, remember
from kitlib.lab.kafka_server import client_config
from tests.conftest import REPOSITORY, wait_for
from tests.lab.records import bounds


@pytest.fixture(autouse=True)
def one_notebook(kit_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test is notebook 01 of a workspace in which nothing was made."""
    workspace.ensure()
    monkeypatch.setenv("KIT_NOTEBOOK", "01_trial")
    yield
    for name in created_resources.notebooks():
        created_resources.path_of(name).unlink()


def kit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "kitlib", *arguments], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, cwd=REPOSITORY)


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "terminal"),
        ({"JPY_SESSION_NAME": "/home/a b/notebooks/02_max.ipynb"}, "02_max"),
        ({"JPY_SESSION_NAME": "x/02_max.ipynb", "KIT_NOTEBOOK": "03_out"}, "03_out"),
        ({"KIT_NOTEBOOK": "../../etc/passwd"}, "passwd"),
        ({"KIT_NOTEBOOK": "Übung 1; rm.ipynb"}, "Übung_1__rm"),
        ({"KIT_NOTEBOOK": ".."}, "terminal"),
    ],
)
def test_notebooks_name_comes_from_jupyter_or_the_tests(
    variables: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel knows its notebook's name, and the name is always that of a file in one folder."""
    for variable in ("KIT_NOTEBOOK", "JPY_SESSION_NAME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert created_resources.notebook() == name
    assert created_resources.path_of(created_resources.notebook()).parent == created_resources.folder()


def test_remembered_by_many_at_once_is_all_there() -> None:
    """Twenty threads that remember 25 things each lose none and mix none."""
    with ThreadPoolExecutor(20) as pool:
        for worker in range(20):
            pool.submit(lambda worker=worker: [remember("topic", f"kit.t.{worker}-{n}") for n in range(25)])
    assert len(created_resources.read("01_trial")) == 500


def test_list_with_a_cut_line_or_nonsense_keeps_the_rest() -> None:
    """A list that was cut short or written by somebody else names what can be read, and no more."""
    remember("topic", "kit.t.1")
    with created_resources.path_of("01_trial").open("ab") as file:
        file.write(b'[]\n{"kind": "file", "name": "/etc/passwd"}\n{"kind": "topic", "name": 7}\n\xff\xfe\n{"kind": "to')
    assert created_resources.read("01_trial") == [Made("topic", "kit.t.1")]


@pytest.mark.kafka
def test_reset_of_a_notebook_deletes_its_things_and_no_others(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kit reset 01` deletes what 01 made: topics, groups, stored offsets, checkpoints; those of 02 stay."""
    client = client_config(broker)
    admin = AdminClient(client)
    names = {"kit.reset.1", "kit.reset.2", "somebody.elses", "kit.offsets"} - set(admin.list_topics(timeout=10).topics)
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names], operation_timeout=10).values():
        future.result(15)
    checkpoint = workspace.spark_dir() / "checkpoints" / "one"
    remember("topic", "kit.reset.1")
    remember("topic", "kit.never.made")
    remember("topic", "somebody.elses")
    remember("group", "kit-reset-group")
    remember("offset", "/kit/1/partition_0", store="kit.offsets")
    remember("checkpoint", checkpoint)
    monkeypatch.setenv("KIT_NOTEBOOK", "02_other")
    remember("topic", "kit.reset.2")
    commit_as(client, "kit-reset-group", "kit.reset.2")

    refused = kit("reset", "01")
    assert refused.returncode == 2 and "--yes" in refused.stderr
    assert checkpoint.is_dir() and "kit.reset.1" in admin.list_topics(timeout=10).topics

    done = kit("reset", "notebooks/01_trial.ipynb", "--yes")
    assert done.returncode == 3, done.stderr  # for the topic that is not ours, which the list should not name
    assert "Topic somebody.elses does not begin with kit." in done.stderr and "5 of 6 deleted" in done.stderr
    assert wait_for(lambda: "kit.reset.1" not in admin.list_topics(timeout=10).topics, 30)
    assert {"kit.reset.2", "somebody.elses"} <= set(admin.list_topics(timeout=10).topics)
    assert not checkpoint.exists()
    assert "kit-reset-group" not in [g.group_id for g in admin.list_consumer_groups().result(10).valid]
    assert last_value(client, "kit.offsets", b"/kit/1/partition_0") is None
    assert created_resources.read("02_other") == [Made("topic", "kit.reset.2")]
    assert created_resources.read("01_trial") == [Made("topic", "somebody.elses")]

    created_resources.forget("01_trial", created_resources.read("01_trial"))
    assert kit("reset", "--all", "--yes").returncode == 0
    assert wait_for(lambda: "kit.reset.2" not in admin.list_topics(timeout=10).topics, 30)
    assert kit("reset", "--all", "--yes").returncode == 0 and not created_resources.notebooks()


def commit_as(client: dict[str, Any], group: str, topic: str) -> None:
    """Store an offset for a consumer group, so that the group exists."""
    producer = Producer(client)
    producer.produce(topic, b"1")
    assert producer.flush(10) == 0
    consumer = Consumer({**client, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = wait_for(lambda: consumer.poll(0.5), 20)
    consumer.commit(message, asynchronous=False)
    consumer.close()


def last_value(client: dict[str, Any], topic: str, key: bytes) -> bytes | None:
    """The value of the last record with this key, of which there must be one."""
    consumer = Consumer({**client, "group.id": "kit-reset-look", "enable.auto.commit": False})
    partition = TopicPartition(topic, 0, 0)
    _, end = bounds(consumer, partition)
    consumer.assign([partition])
    found: list[bytes | None] = []

    def is_read() -> bool:
        for message in consumer.consume(500, 0.2):
            assert message.error() is None
            if message.key() == key:
                found.append(message.value())
        return consumer.position([partition])[0].offset >= end

    assert wait_for(is_read, 20)
    consumer.close()
    return found[-1]


def test_reset_of_a_notebook_that_made_nothing_has_nothing_to_do() -> None:
    """A notebook that made nothing is not an error; two that fit are one that names both."""
    remember("topic", "kit.t.1")
    assert created_resources.chosen("99") == []
    created_resources.path_of("01_trail").write_text('{"kind": "topic", "name": "kit.t.1"}\n')
    with pytest.raises(KnobError, match="could be 01_trail, 01_trial"):
        created_resources.chosen("01_tr")
    assert created_resources.chosen("notebooks/01_trial.ipynb") == ["01_trial"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link to a folder is left alone, and so is a folder without our marker; a link inside of ours is removed but not followed."""
    below, precious = tmp_path / "spark", created_resources.mark(tmp_path / "precious")
    (precious / "file").touch()
    ours = created_resources.mark(below / "ours")
    (ours / "link").symlink_to(precious)
    (below / "data").mkdir()
    assert "no .made-by-kit" in str(created_resources.delete_folder(below / "data", below))
    (below / "data" / created_resources.MARKER).symlink_to("/dev/null")
    assert "no .made-by-kit" in str(created_resources.delete_folder(below / "data", below))
    (below / "link").symlink_to(precious)
    assert "is not a folder but a link" in str(created_resources.delete_folder(below / "link", below))
    assert "outside of" in str(created_resources.delete_folder(below / ".." / "precious", below))
    (below / "up").symlink_to(tmp_path)
    assert "outside of" in str(created_resources.delete_folder(below / "up" / "precious", below))
    assert "outside of" in str(created_resources.delete_folder(created_resources.mark(below), below))
    assert created_resources.delete_folder(ours, below) is None
    assert not ours.exists() and (precious / "file").is_file()


def test_list_that_cannot_be_written_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No room or no right to note what was made is a DiskError, before anything is made."""
    (tmp_path / "run").write_text("a file where a folder should be")
    monkeypatch.setenv("KIT_HOME", str(tmp_path))
    with pytest.raises(DiskError, match="could not be"):
        remember("topic", "kit.t.1")

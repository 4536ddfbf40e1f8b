"""A desk on the real broker and the real Spark: faults, three counts that agree, and nothing left behind."""

from __future__ import annotations

import threading
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from kitlib.desk.audit import EVERY_MS
from kitlib.desk.run import DeskRun
from kitlib.desk.widget import Desk
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab import created_resources, workspace
from kitlib.lab.clients import client_config
from kitlib.monitor.delivery import judge
from tests.conftest import wait_for, within

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def test_desk_three_counts_agree_and_nothing_is_left(broker: Any, spark: Any) -> None:
    """Lost answers double records, a small bound loses some, a dead spout's work is done again: all three witnesses say how often.

    Then the same desk goes on with another producer, drains again, and at its stop threads, topics, offset and checkpoint are gone.
    """
    threads, children = set(threading.enumerate()), set(psutil.Process().children())
    desk = DeskRun(rate=500, idempotence=False, lost_answers=10, max_offset_behind=20)
    with desk:
        name, results, path = desk.topic.name, desk.results, f"/{desk.run}/spout/partition_0"
        assert wait_for(lambda: desk.snapshot()["stored"] > 600 and desk.snapshot()["written"], within(20))
        # On a busy machine half a second may pass before a record fails that is too far behind.
        assert wait_for(lambda: desk.snapshot()["refused"] or desk.database_away(0.5), within(30))
        assert wait_for(lambda: desk.snapshot()["spark"]["lost"] > 0, within(30))
        desk.kill_spout()
        assert wait_for(lambda: desk.snapshot()["spark"]["duplicated_topic"] > 0, within(30))
        assert wait_for(lambda: len([said for _, said in desk.events if "spout starts" in said]) == 2, within(20))
        drained = desk.drain()
        assert drained.agree, drained.to_json()
        log = drained.witnesses[1]
        assert log.topic.duplicated > 0 and log.results.missing > 0
        assert log.topic.missing == 0
        assert log.topic.lines == drained.handed_over + log.topic.duplicated

        trace = desk.trace()
        assert {"emit", "process", "commit"} <= trace.words().keys()
        assert judge(trace).processed > 0

        desk.set(client="kit", idempotence=True, lost_answers=0, max_offset_behind="unlimited")
        desk.resume()
        assert wait_for(lambda: desk.snapshot()["handed_over"] > drained.handed_over + 200, within(20))
        again = desk.drain()
        assert again.agree, again.to_json()
        assert again.witnesses[1].topic.duplicated == log.topic.duplicated
        assert again.witnesses[1].results.missing == log.results.missing
        assert desk.audit is not None and desk.audit.query is not None
        batches_s = [each["durationMs"]["triggerExecution"] / 1000 for each in desk.audit.query.recentProgress if each.numInputRows]
        # A record waits for the batch before its own, and for its own.
        assert desk.audit.latencies[-1] < 3 * (max(batches_s) + EVERY_MS / 1000)
        folder = desk.folder
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert len(files) < 150 and sum(path.stat().st_size for path in files) < 200_000  # as after ten minutes

    assert desk.problems == []
    assert desk.phase == "stopped"
    assert not folder.exists()
    assert not [*workspace.spark_dir().glob("desks/*")]
    assert not {name, results} & AdminClient(client_config(broker)).list_topics(timeout=10).topics.keys()
    assert not [made for made in created_resources.read(created_resources.notebook()) if desk.run in made.name]
    backend = KafkaBackend.open("desk-looker")
    assert backend.store.read(path) is None
    backend.close()
    assert not spark.streams.active
    assert wait_for(lambda: not {each for each in set(threading.enumerate()) - threads if "desk" in each.name or "proxy" in each.name}, 10)
    ours = {child for child in set(psutil.Process().children()) - children if child.is_running()}
    assert not [child for child in ours if "spark" not in " ".join(child.cmdline())]
    desk.stop()  # a second one does nothing


def test_desk_that_is_not_waited_for_tells_how_long_spark_takes_and_then_runs(broker: Any, spark: Any) -> None:
    """It is there at once with a sentence that counts the seconds; what is asked of it before it runs is done when it does."""
    with Desk(wait=False, max_offset_behind=20, rate=300, bolt_rate=200, front=["max_offset_behind"], deeds=["database away"]) as desk:
        assert desk.sentence.startswith("Spark is starting, for ") or desk.run.phase == "running"
        above, buttons = desk.children[0].children, [button.description for button in desk.children[2].children]
        assert (above, buttons) == ((desk.knobs["max_offset_behind"],), ["Database away", "Drain and compare", "Stop"])
        desk.do("database away")
        assert wait_for(lambda: any("The database is away" in said for _, said in list(desk.run.events)), within(30))
    assert desk.run.phase == "stopped" and not desk.run.problems

"""The window of a spout's last steps: the same trace as that of all steps, from some step on."""

from __future__ import annotations

from random import Random

from kitlib.desk.recorder import Recorder
from kitlib.experiments import run
from kitlib.mechanisms.log import PartitionLog
from kitlib.mechanisms.offset_store import MemoryOffsetStore
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace, to_ranges
from kitlib.views.browser.player import Player


def spout_at_work(recorder: Recorder, records: int) -> None:
    """A PartitionManager whose every call is recorded as the desk does it; every seventh tuple fails once."""
    log = PartitionLog("records", max_fetch_records=10)
    log.append([b"%d" % number for number in range(records)])
    config = SpoutConfig("records", "spout", force_from_start=True)
    manager, chance, flying, failed = PartitionManager(config, log, MemoryOffsetStore()), Random(5), list[int](), set[int]()
    recorder.note(manager, "start", offset=0, stored=None, why="no stored offset")
    while manager.committed_to < records:
        was_waiting = bool(manager.waiting_to_emit)
        if len(flying) < 8 and (record := manager.next().record) is not None:
            if not was_waiting:
                recorder.fetched([record.offset, *(each.offset for each in manager.waiting_to_emit)])
            flying.append(record.offset)
            recorder.note(manager, "emit", offset=record.offset)
        if flying and chance.random() < 0.6:
            offset = flying.pop(chance.randrange(len(flying)))
            if offset % 7 == 0 and offset not in failed:
                failed.add(offset)
                recorder.note(manager, "fail", offset=offset, retry=manager.fail(offset))
            else:
                recorder.note(manager, "process", offset=offset)
                manager.ack(offset)
                recorder.note(manager, "ack", offset=offset)
        if chance.random() < 0.05 and manager.commit() is not None:
            recorder.note(manager, "commit", offset=manager.committed_to, written=True)
        last = recorder.trace("r", "records", {}).steps[-1].state
        assert (last["pending"], last["failed"]) == (to_ranges(manager.pending), to_ranges(manager.failed_offsets()))


def test_window_is_the_end_of_the_whole_run_and_is_judged_as_it() -> None:
    """Its steps and states are the same when most steps before it are forgotten, and are told in a spout's words and fields."""
    whole, window = Recorder(most=10_000), Recorder(most=60)
    for recorder in (whole, window):
        spout_at_work(recorder, 80)
    first, last = (recorder.trace("r", "records", {"max_offset_behind": 5}) for recorder in (whole, window))
    assert window.forgotten > 100
    assert [(each.what, each.state) for each in last.steps[-60:]] == [(each.what, each.state) for each in first.steps[-60:]]
    assert judge(first).counts["lost"] == judge(last).counts["lost"] == 0
    assert Player(first).verdict.processed == 80
    assert Trace.from_json_lines(last.to_json_lines()).steps == last.steps
    assert set(last.steps[-1].state) == set(run("happy_path").steps[-1].state)


def test_spout_that_dies_leaves_no_ledger() -> None:
    """And its window still begins with the log from the commit on."""
    recorder = Recorder(most=1)
    spout_at_work(recorder, 30)
    recorder.fetched([30, 31])
    recorder.note(None, "crash", on_their_way=2)
    recorder.note(None, "process", offset=30)
    trace = recorder.trace("r", "records", {})
    assert [step.what for step in trace] == ["append", "start", "process"]
    assert (trace.steps[-1].state["pending"], trace.steps[-1].state["committed_to"]) == ([], 30)

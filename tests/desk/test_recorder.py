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

SHOWN = ("log_end", "committed_to", "emitted_to_offset", "pending", "failed", "waiting", "number_acked", "number_failed")


def spout_at_work(recorder: Recorder, records: int) -> PartitionManager:
    """A PartitionManager whose every call is recorded as the desk does it; every seventh tuple fails once."""
    log = PartitionLog("records", max_fetch_records=10)
    log.append([b"%d" % number for number in range(records)])
    config = SpoutConfig("records", "spout", force_from_start=True)
    manager, chance, flying, failed = PartitionManager(config, log, MemoryOffsetStore()), Random(5), list[int](), set[int]()
    recorder.note("start", offset=0, stored=None, why="no stored offset")
    while manager.committed_to < records:
        was_waiting = bool(manager.waiting_to_emit)
        if len(flying) < 8 and (record := manager.next().record) is not None:
            if not was_waiting:
                recorder.fetched([record.offset, *(each.offset for each in manager.waiting_to_emit)])
            flying.append(record.offset)
            recorder.note("emit", offset=record.offset)
        if flying and chance.random() < 0.6:
            offset = flying.pop(chance.randrange(len(flying)))
            if offset % 7 == 0 and offset not in failed:
                failed.add(offset)
                recorder.note("fail", offset=offset, retry=manager.fail(offset))
            else:
                recorder.note("process", offset=offset)
                manager.ack(offset)
                recorder.note("ack", offset=offset)
        if chance.random() < 0.05 and manager.commit() is not None:
            recorder.note("commit", offset=manager.committed_to, written=True)
        state = {"pending": to_ranges(manager.pending), "failed": to_ranges(manager.failed_offsets())}
        last = recorder.trace("r", "records", {}).steps[-1].state
        assert {name: last[name] for name in state} == state
        assert last["waiting"] == to_ranges(record.offset for record in manager.waiting_to_emit)
    return manager


def test_window_shows_the_ledgers_that_the_whole_run_has() -> None:
    """The state after each step is the PartitionManager's own, and the same when most steps before it are forgotten."""
    whole, window = Recorder(most=10_000), Recorder(most=60)
    for recorder in (whole, window):
        manager = spout_at_work(recorder, 80)
        assert recorder.log_end == manager.committed_to == 80
    first, last = (recorder.trace("r", "records", {"max_offset_behind": 5}) for recorder in (whole, window))
    assert window.forgotten > 100
    kept = sum(what != "fetch" for _, what, _ in window.steps)
    for ours, theirs in zip(last.steps[-kept:], first.steps[-kept:], strict=True):
        assert (ours.what, {name: ours.state[name] for name in SHOWN}) == (theirs.what, {name: theirs.state[name] for name in SHOWN})
    assert judge(first).counts["lost"] == judge(last).counts["lost"] == 0
    assert judge(first).processed == 80


def test_trace_of_the_desk_has_the_words_of_a_spout() -> None:
    """It can be written and read again, and names fields as a spout's own run does."""
    recorder = Recorder(most=100)
    spout_at_work(recorder, 30)
    trace = recorder.trace("r", "records", {"max_offset_behind": 5})
    again = Trace.from_json_lines(trace.to_json_lines())
    assert again.steps == trace.steps
    assert Player(trace).verdict.processed == 30
    assert set(trace.steps[-1].state) == set(run("happy_path").steps[-1].state)

"""Two producers and one partition, in any order of calls, crashes and time: what readers are given, always."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kitlib.experiments.transactions.model_transactions import KitTransactionalProducer, ModelTransactions
from kitlib.mechanisms.transactions.reader import ISOLATION, Reader

PRODUCERS = st.sampled_from([0, 1, 2])  # 0 and 1 share a transactional id


class AnyOrder(RuleBasedStateMachine):
    """Each user believes what it was told, and keeps its own books.

    A transaction whose user was told that it is committed is seen as a whole, one that was told aborted, or
    whose producer was fenced before it was told anything, is never seen; nobody is given a record of a transaction that is open.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = ModelTransactions(delay_ms=1)
        self.producers: dict[int, KitTransactionalProducer] = {}
        self.open: dict[int, list[int]] = {}  # producer -> records of its open transaction that were stored
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.in_doubt: set[int] = set()  # open when the user heard of an error that ends everything
        self.records = 0
        self.readers = {isolation: Reader(isolation) for isolation in ISOLATION}
        self.seen: dict[str, list[int]] = {isolation: [] for isolation in ISOLATION}

    @initialize(versions=st.tuples(*[st.sampled_from([1, 2])] * 3), delay_ms=st.sampled_from([0, 0, 300]))
    def choose(self, versions: tuple[int, ...], delay_ms: int) -> None:
        """Each producer's version, and how long markers take."""
        self.versions, self.place.marker_delay_ms = versions, delay_ms

    @rule(who=PRODUCERS)
    def start(self, who: int) -> None:
        """A producer starts, or starts anew; what it had open is lost to it."""
        self.lose(who)
        producer = self.place.start("p", "shared" if who < 2 else "own", 2_000, self.versions[who])
        self.producers[who] = producer
        assert not producer.do("init").error

    @rule(who=PRODUCERS)
    def begin(self, who: int) -> None:
        """A transaction begins, if none is open."""
        if who in self.producers and not self.producers[who].do("begin").error:
            self.open[who] = []

    @rule(who=PRODUCERS, count=st.integers(1, 3))
    def send(self, who: int, count: int) -> None:
        """A batch, within a transaction or refused."""
        if who not in self.producers:
            return
        records = list(range(self.records, self.records + count))
        self.records += count
        told = self.producers[who].do("send", records)
        if not told.error:
            self.open[who] += records
        elif told.is_fatal:
            self.lose(who)

    @rule(who=PRODUCERS, commit=st.booleans())
    def end(self, who: int, commit: bool) -> None:
        """Commit or abort; the books follow what the user was told."""
        if who not in self.producers:
            return
        told = self.producers[who].do("commit" if commit else "abort")
        if not told.error and who in self.open:
            (self.committed if commit else self.aborted).update(self.open.pop(who))
        elif told.is_fatal:
            self.lose(who)

    @rule(ms=st.sampled_from([10, 400, 3_000]))
    def wait(self, ms: int) -> None:
        """Time passes; what is open for too long is aborted."""
        self.place.pass_ms(ms)

    @rule()
    def write_plainly(self) -> None:
        """A record outside of transactions is committed at once."""
        self.place.write_plainly([self.records])
        self.committed.add(self.records)
        self.records += 1

    def lose(self, who: int) -> None:
        """The user gives up on what was open."""
        self.in_doubt.update(self.open.pop(who, []))
        self.producers.pop(who, None)

    @invariant()
    def readers_are_given_what_they_may_be_given(self) -> None:
        """Nothing twice, in order; of the open and the aborted nothing; of the committed everything below the last stable offset."""
        log = self.place.output
        undecided = log.state.first_undecided_offset()
        for isolation, reader in self.readers.items():
            self.seen[isolation] += [int(record.value or b"") for record in reader.poll(log)]
            assert self.seen[isolation] == sorted(set(self.seen[isolation]))
        given = set(self.seen["read_committed"])
        assert not given & (self.aborted | self.in_doubt)
        assert undecided is None or self.readers["read_committed"].position <= undecided
        stored = {int(value) for each in log.batches for value in each.batch.values}
        assert set(self.seen["read_uncommitted"]) == stored
        if undecided is None and not self.place.coordinator.unsent:
            assert self.committed <= given

    def teardown(self) -> None:
        """Once the timeouts are over nothing is open, and all that was committed is seen."""
        self.place.pass_ms(6_000)
        self.readers_are_given_what_they_may_be_given()
        assert self.place.output.first_unstable_offset is None


AnyOrder.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase

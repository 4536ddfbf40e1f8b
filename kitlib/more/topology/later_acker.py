"""The acker of Storm 2: entries live longer, are not renewed by plain acks, and a slow bolt may ask for more time.

In 0.9.3 every message renews the acker's entry, so a large tree lives on in the acker while the spout
has long given it up. Here the age of an entry counts from its first message, in three buckets; only a
fail and a `__ack_reset_timeout` renew it. The latter is also passed on to the spout, whose pending
tuple it renews: the one way for a slow bolt to say "still working on it".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.mechanisms.acker import ACKER_RESET_TIMEOUT_STREAM_ID, Acker, AckerEntry, Completion
from kitlib.mechanisms.rotating_map import RotatingMap

TIMEOUT_BUCKET_NUM = 3


@dataclass(slots=True)
class LaterAcker(Acker):
    """As `Acker`, with three buckets, no renewal by init and ack, and reset-timeout.

    Source: Storm 2.4.0, `org.apache.storm.daemon.Acker`.
    Differs: the time since the init, which each completion carries there, is left out; ids as in `Acker`.
    """

    pending: RotatingMap[int, AckerEntry] = field(default_factory=lambda: RotatingMap(TIMEOUT_BUCKET_NUM))

    def keep(self, root: int, entry: AckerEntry) -> None:
        """A new entry goes into the newest bucket; others stay where they are."""
        if root not in self.pending:
            self.pending.put(root, entry)

    def fail(self, root: int) -> Completion | None:
        end = Acker.fail(self, root)
        self._renew(root)
        return end

    def reset_timeout(self, root: int) -> Completion | None:
        """Renew the tree's entry; the completion that was due, else a message that renews it at the spout, too.

        None while the spout task is not known.
        """
        self.check(root, 0)
        entry = self.entry(root)
        end = self.apply(root, entry)
        self._renew(root)
        if end is None and entry.spout_task is not None:
            return Completion(entry.spout_task, ACKER_RESET_TIMEOUT_STREAM_ID, root)
        return end

    def _renew(self, root: int) -> None:
        entry = self.pending.get(root)
        if entry is not None:
            self.pending.put(root, entry)

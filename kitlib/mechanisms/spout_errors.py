"""What ends a spout's call: which of them its loop survives, and what each says to do next."""

from __future__ import annotations

from kitlib.errors import KitError
from kitlib.mechanisms.log import FetchError

ASK_AGAIN = "Find the partition's leader again and call next() once more."


class FailedFetchError(KitError):
    """A fetch failed in a way that the spout's loop answers by asking for the leader again.

    Either the broker answered with `error`, or the network did not carry the answer (`error` None, `__cause__`).
    """

    def __init__(self, place: str, offset: int, trouble: FetchError | OSError) -> None:
        self.error = trouble if isinstance(trouble, FetchError) else None
        if self.error is None:
            happened, advice = f"failed ({type(trouble).__name__}: {trouble})", ASK_AGAIN
        elif self.error is FetchError.OFFSET_OUT_OF_RANGE:
            happened = f"was answered with {self.error.name}"
            advice = "Set use_start_offset_time_if_offset_out_of_range to move on, or start from an offset that exists."
        else:
            happened, advice = f"was answered with {self.error.name}", ASK_AGAIN
        super().__init__(f"{place}: the fetch from offset {offset} {happened}. {advice}")


class FetchCrashedError(KitError):
    """A fetch raised something that is no network trouble; in Storm the worker dies of it."""

    def __init__(self, place: str, offset: int, trouble: Exception) -> None:
        super().__init__(
            f"{place}: the fetch from offset {offset} raised {type(trouble).__name__}: {trouble}. Mend the log reader."
        )


class TooManyTupleFailuresError(KitError):
    """More failures than `max_offset_behind` before the first ack; in Storm the worker dies of it."""

    def __init__(self, spout: str, place: str, number_failed: int, max_offset_behind: int) -> None:
        super().__init__(
            f"spout {spout} on {place}: {number_failed} tuples failed and none was acked, max_offset_behind is "
            f"{max_offset_behind}. Mend the bolt, or raise max_offset_behind above the size of one fetch."
        )


class MissingTopologyNameError(KitError):
    """`commit` cannot write without a topology name; nothing is written."""

    def __init__(self, spout: str, offset: int) -> None:
        super().__init__(
            f"spout {spout}: commit of offset {offset} needs topology_name, got None. Set it in the SpoutConfig."
        )

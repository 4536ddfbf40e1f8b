"""What goes wrong between a producer and the broker in the table of guarantees: rules for the proxy, and an ending.

A fault begins when a few requests have passed, so that there is something to compare with. It is told
in frames and not in seconds: the sixth request is lost, or all answers from the sixth on are kept back until
as many requests are on their way as the producer sends at once, and then the connection is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kitlib.errors import KnobError
from kitlib.lab.proxy.chaos_proxy import Rule

PASS = 5  # so many requests, or answers, pass before anything goes wrong
# Of the producer where the fault is that no answer comes; else it waits as long as by default. librdkafka
# looks once a second for requests that have waited too long.
REQUEST_TIMEOUT_MS = 500
LATE_MS = 2_500
DEFAULT_REQUEST_TIMEOUT_MS = 30_000

Ending = Literal["", "cut", "kill"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong: the proxy's rules, and what happens once they have done `held` deeds."""

    name: str
    meaning: str
    rules: tuple[Rule, ...] = ()
    # What there is instead where the producer waits for no answer (acks=0).
    rules_without_answers: tuple[Rule, ...] | None = None
    # Once as many requests are on their way as may be, the connection is cut, or the broker killed and then it is cut.
    ending: Ending = ""
    request_timeout_ms: int = DEFAULT_REQUEST_TIMEOUT_MS

    def rules_for(self, acks: str) -> tuple[Rule, ...]:
        """The rules for a producer with these acks."""
        if acks == "0" and self.rules_without_answers is not None:
            return self.rules_without_answers
        return self.rules


_KEEP_BACK = (Rule("withhold", skip=PASS),)
_STAND_STILL = (Rule("stop_reading", skip=PASS, count=1),)

FAULTS = {
    fault.name: fault
    for fault in (
        Fault("none", "Nothing goes wrong."),
        Fault(
            "answers_lost",
            "From some answer on, none comes any more on this connection: the broker has written, the producer waits in vain.",
            (Rule("withhold", skip=PASS, count=1),),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ),
        Fault(
            "request_lost",
            "A request is lost, and what follows it on its connection: the producer waits for answers in vain.",
            (Rule("lose_request", skip=PASS, count=1),),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ),
        Fault(
            "request_refused",
            "A request is refused for now (NOT_ENOUGH_REPLICAS), those behind it are written.",
            (Rule("answer_error", skip=PASS, count=1, error="NOT_ENOUGH_REPLICAS"),),
            (Rule("cut", skip=PASS, count=1),),
        ),
        Fault(
            "answers_late",
            "From some answer on, all come later than the request timeout: the producer does not wait for them any more.",
            (Rule("delay_answer", skip=PASS, count=1, ms=LATE_MS),),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        ),
        Fault(
            "connection_cut",
            "The connection is cut while as many requests are on their way as the producer sends at once.",
            _KEEP_BACK,
            _STAND_STILL,
            "cut",
        ),
        Fault(
            "broker_killed",
            "The broker is killed and comes back while as many requests are on their way as the producer sends at once.",
            _KEEP_BACK,
            _STAND_STILL,
            "kill",
        ),
    )
}


def fault_named(name: str) -> Fault:
    """The fault with this name. KnobError when there is none."""
    if name not in FAULTS:
        raise KnobError(f"there is no fault '{str(name)[:40]}'. The faults are {', '.join(FAULTS)}.")
    return FAULTS[name]

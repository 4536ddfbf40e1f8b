"""How long to wait before trying again: twice as long each time, up to a limit, and a little by chance.

The random part keeps a crowd of clients that failed together from coming back together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kitlib.errors import KnobError

RETRY_EXP_BASE = 2
RETRY_JITTER = 0.2  # a wait is this much shorter or longer, by chance
MIDDLE = 0.5  # the luck that makes a wait neither shorter nor longer


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """The waits between attempts. All times are in ms. KnobError when a time is negative or the jitter is not in [0, 1].

    Source: Apache Kafka 4.3.1, `ExponentialBackoff`.
    Differs: chance is an argument.
    """

    initial_ms: int
    max_ms: int
    jitter: float = RETRY_JITTER
    exp_max: float = field(init=False)  # from so many attempts on the wait does not grow; 0: it never does

    def __post_init__(self) -> None:
        if self.initial_ms < 0 or self.max_ms < 0 or not 0 <= self.jitter <= 1:
            raise KnobError(
                f"a backoff from {self.initial_ms} to {self.max_ms} ms with jitter {self.jitter}: "
                "give times of at least 0 and a jitter from 0 to 1."
            )
        grows = self.max_ms > self.initial_ms
        exp_max = math.log(self.max_ms / max(self.initial_ms, 1)) / math.log(RETRY_EXP_BASE) if grows else 0.0
        object.__setattr__(self, "exp_max", exp_max)
        object.__setattr__(self, "initial_ms", min(self.initial_ms, self.max_ms))

    def backoff_ms(self, attempts: int, luck: float = MIDDLE) -> int:
        """The wait after `attempts` retries; `luck` from 0 (the shortest) to 1 (the longest)."""
        if self.exp_max == 0:
            return self.initial_ms
        term: float = self.initial_ms * RETRY_EXP_BASE ** min(attempts, self.exp_max)
        factor = 1 - self.jitter + 2 * self.jitter * luck if self.jitter else 1.0
        return min(int(factor * term), self.max_ms)

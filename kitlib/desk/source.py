"""The desk's application: it hands numbered records to a real producer, so many a second, through the chaos proxy.

Rate and share of lost answers act at once. A client's own settings are read when it is made: when one of them is changed, the old
client first sends what it has, and then another one takes its place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException

from kitlib.desk.ledgers import Ledgers
from kitlib.desk.settings import PRODUCERS, client_settings
from kitlib.errors import KitError, LabError
from kitlib.experiments.idempotence.client_run import CLIENTS, Client
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.settings import Settings

TURN_S = 0.02  # how often records are handed over
MOST_WAITING = 5_000  # records with the client; the application waits while there are more
CLOSE_S = 10.0


class Source:
    """The application and its producer, in a thread of their own."""

    def __init__(
        self, proxy: ChaosProxy, topic: str, ledgers: Ledgers, settings: Settings, say: Callable[[str], None]
    ) -> None:
        """`say` is told in a sentence when a producer reports its first failure, and when another one takes its place."""
        self.proxy, self.cluster, self.topic, self.ledgers, self.say = proxy, proxy.cluster, topic, ledgers, say
        self.client_id = f"{topic}.producer"
        self.settings = settings  # replaced as a whole, by whoever turns a knob
        self.made_with: dict[str, Any] = {}  # the settings of the present client
        self.client: Client | None = None
        self.rule: tuple[int, int] | None = None  # the proxy's rule in force, and its percentage
        self.has_failed = False  # whether the present client has reported a failure
        self.is_paused = False
        self.is_ending = False
        self.trouble: KitError | None = None  # what ended the thread
        self.thread = threading.Thread(target=self._run, name=f"kit-desk-source-{topic}", daemon=True)

    def start(self) -> None:
        """Begin to hand records over. LabError and KnobError when there is no such producer to be had."""
        self._open()
        self.thread.start()

    @property
    def waiting(self) -> int:
        """The records of which the application was told nothing yet."""
        client = self.client
        return client.unfinished if client is not None else 0

    def stop(self) -> None:
        """Hand nothing more over, and let the client go; what it has not sent by then is dropped."""
        self.is_ending = True
        if self.thread.is_alive():
            self.thread.join(CLOSE_S)

    # In the thread

    def _run(self) -> None:
        due, last_s = 0.0, time.monotonic()
        try:
            while not self.is_ending:
                settings = self.settings
                self._lose_answers(settings.lost_answers)
                if settings.given(*PRODUCERS) != self.made_with and self.waiting == 0:
                    self._open()
                now_s = time.monotonic()
                may_send = not self.is_paused and settings.given(*PRODUCERS) == self.made_with
                due = min(due + settings.rate * (now_s - last_s), settings.rate * 1.0) if may_send else 0.0
                last_s = now_s
                number = min(int(due), max(0, MOST_WAITING - self.waiting))
                if number:
                    due -= number
                    self._hand_over(number)
                assert self.client is not None
                self.client.work(max(0.001, TURN_S - (time.monotonic() - now_s)))
        except KitError as error:
            self.trouble = error
        except KafkaException as error:
            self.trouble = LabError(f"the desk's producer ended: {error.args[0].str()}. Stop the desk and start another one.")
        finally:
            self._close()

    def _hand_over(self, number: int) -> None:
        with self.ledgers.lock:
            first = self.ledgers.handed_over
            self.ledgers.handed_over += number
        assert self.client is not None
        self.client.hand_over(range(first, first + number))

    def _told(self, record: int, error: str, offset: int) -> None:
        self.ledgers.told(error, offset)
        if error and not self.has_failed:
            self.has_failed = True
            self.say(f"The producer reports record {record:,} as failed: {error}.")

    def _open(self) -> None:
        self._close()
        if self.made_with:
            self.say("Another producer takes the place of the one before.")
        settings, self.has_failed = self.settings, False
        self.made_with = settings.given(*PRODUCERS)
        try:
            self.client = CLIENTS[settings.client](self.cluster, self.topic, client_settings(settings), self.client_id, self._told)
        except KafkaException as error:
            raise LabError(f"librdkafka refuses these settings: {error.args[0].str()}. Change one of them.") from error

    def _close(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            client.close()

    def _lose_answers(self, percent: int) -> None:
        """Keep the proxy's rule at this percentage."""
        if self.rule is not None and self.rule[1] != percent:
            self.proxy.remove(self.rule[0])
            self.rule = None
        if self.rule is None and percent:
            self.rule = self.proxy.add(Rule("cut_after_answer", percent=percent, client_id=self.client_id)), percent

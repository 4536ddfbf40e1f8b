"""What a run was told: each setting is read as an attribute, by the story, the model, the verdict and the picture alike.

A story's knobs are its parameters, and a trace keeps their values. Much that a run or a verdict asks for only some stories have
a knob for; the others run with what stands here, once for all who ask.
"""

from __future__ import annotations

from typing import Any

from kitlib.errors import KnobError

# Of a run without such a knob, in the order of the domains. None: nothing is known of it, so it explains nothing.
WITHOUT_KNOB: dict[str, Any] = {
    "force_from_start": True, "use_start_offset_time_if_offset_out_of_range": None, "start_offset_time": "earliest",
    "max_offset_behind": 2**63 - 1, "max_spout_pending": None, "fail_percent": 0, "retry_limit": None, "topology_ackers": 1,
    "topology_message_timeout_secs": None, "message_ids": True, "topology_enable_message_timeouts": True, "id_bits": 64,
    "acker_release": "0.9.3", "anchored": True, "depth": 1, "join": False, "parallelism": 2, "fault": "none", "execute_ms": None,
    "acks": "all", "idempotence": True, "max_in_flight": 5, "max_steps": 20_000, "retry_backoff_ms": 100, "metadata_max_age_ms": 300_000,
    "record_bytes": 0, "remembered_batches": 5, "older_is_duplicate": False, "second_epoch": "next", "expires": False, "restart": "no",
    "delay_ms": 5, "round_trip_ms": 10, "request_cost_ms": 0, "names_new_leader": True, "numbered": "by partition",
    "partitions": 1, "release": "", "poll_records": 500, "library": "java", "strategy": "range",
    "session_ms": 6_000, "max_poll_ms": 60_000, "rule": "", "commits": "", "workers": 1, "keeper": "librdkafka",
    "coordinator_rules": "4.3.1", "rules": "4.3.1", "auto_offset_reset": "earliest", "retry_ms": 100,
    "delete_retention_ms": 86_400_000, "mode": "distributed", "consumers": 1,
    "acknowledge": "explicit", "renew": False, "delivery_limit": 5, "lock_ms": 30_000, "max_locks": 2_000, "isolation": "read_committed",
    "version": "2", "transactional": True, "offsets": "inside", "order": "output first", "ids": "same", "generation": True,
    "unique_key": True, "on_fenced": "go back", "cause": "slow", "late_marker": False, "marker_delay_ms": 0, "verification": True,
    "transaction_timeout_ms": 60_000, "replicas": None, "min_insync_replicas": 1, "leader_epoch": False, "unclean_leader_election": False,
    "checkpoint": "kept", "sink": None,
}  # fmt: skip


class Settings(dict[str, Any]):
    """A run's knobs by name, `settings.max_in_flight`; as a dict it holds those that the story has.

    The dict is its own attributes and `WITHOUT_KNOB` those of the class, so Python itself finds a value, as fast as it can.
    """

    def __new__(cls, *given: Any, **named: Any) -> Settings:
        self = super().__new__(cls)
        self.__dict__ = self
        return self

    def __getattr__(self, name: str) -> Any:
        """KnobError for a name that no run and no verdict knows."""
        error = AttributeError if name.startswith("_") else KnobError  # Python itself asks for such
        raise error(f"this run has no setting '{name}'. Its knobs are {', '.join(self) or 'none'}. Take one of them.")

    def given(self, *names: str, **named: str) -> dict[str, Any]:
        """Of these settings those that the story has a knob for, for what has its own defaults; `named` are called otherwise there."""
        return {name: self[knob] for name, knob in ({each: each for each in names} | named).items() if knob in self}


for knob, value in WITHOUT_KNOB.items():
    setattr(Settings, knob, value)

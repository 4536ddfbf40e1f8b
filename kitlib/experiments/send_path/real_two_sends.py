"""The nine steps of the first send, and those of the second, from librdkafka's own log and the proxy's frames."""

from __future__ import annotations

from kitlib.errors import KnobError, LabError
from kitlib.experiments import get
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.experiments.send_path.send_observed import two_sends as observe

CONFIRMED_BY_FRAMES = (2, 3, 4, 7, 8, 9)  # what a proxy can see of the nine
STAGE_OF_SEND = 5  # the record has a partition and lies in a batch: from here on it is the partition's affair


def two_sends(run: RealSend) -> None:
    """One step of the trace for each of the nine, in the order of the log; LabError when the frames tell another.

    As on the model the first send's steps have their number as `stage`; the second's have the same words.
    Of the knobs `pause_ms` alone is turned; `wait_ms` is not waited for: here nothing happens in it. KnobError when the topic
    is to have more partitions than the one, and they are not the model's default.
    """
    default = next(each.default for each in get("two_sends").knobs if each.name == "partitions")
    if run.knobs["partitions"] not in (1, default):
        raise KnobError(
            f"two_sends on a real broker: partitions is {run.knobs['partitions']}, and the topic has 1. Take 1, or run it on the model."
        )
    seen = observe("librdkafka", run.cluster, run.create_topic(), run.knobs["pause_ms"])
    run.note("client", "version", at_ms=0, name=seen.client)
    for record, (steps, frames) in enumerate(zip(seen.sends, seen.frames, strict=True)):
        visible = [step.stage for step in steps if step.stage in CONFIRMED_BY_FRAMES]
        if visible != frames:
            raise LabError(
                f"send {record + 1} of run {run.trace.run}: the log tells of the steps {visible} in this order, the proxy of "
                f"{frames}. Run it again; if it stays so, this release of librdkafka logs other lines."
            )
        for step in steps:
            data = {name: int(value) if value.isdigit() else value for name, value in (step.sign.data | step.told).items()}
            if step.stage == STAGE_OF_SEND or (step.stage > STAGE_OF_SEND and step.sign.actor != "network"):
                data |= {**run.lane, "first": record, "last": record, "batch": record}
            if not record:
                data["stage"] = step.stage
            run.note(step.sign.actor, step.sign.what, at_ms=step.at_ms, **data)
        run.told(record, seen.offsets[record], "", steps[-1].at_ms)
    run.note("network", "frames", stages=seen.frames)
    run.read()

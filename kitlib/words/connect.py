"""Words of Kafka Connect, of one source task, of Kafka Streams, and of a topic that partitions are added to."""

from __future__ import annotations

from dataclasses import replace

from kitlib.words.glyphs import (
    BAR,
    CLOCK,
    CROSS,
    CROSSED_DISC,
    ORANGE,
    PLUS,
    RED,
    Glyph,
)
from kitlib.words.template import phrase
from kitlib.words.word import Data, Domain, Rule, Word, rules

connect_cluster = rules("more.connect.cluster:ConnectCluster.")
incremental_cooperative_assignor = rules("more.connect.assignors:IncrementalCooperativeAssignor.")
high_availability_task_assignor = rules("more.streams.assignor:HighAvailabilityTaskAssignor.")
streams_app = rules("more.streams.app:StreamsApp.")
source_task = rules("more.connect.source_task:SourceTask.")

MOST_TOLD = 6  # tasks that a sentence names


@phrase
def _work(data: Data) -> str:
    names = [f"the connector {name}" for name in data["connectors"]]
    names += [f"task {name}-{number}" for name, number in data["tasks"]]
    return ", ".join(names) or "nothing"


@phrase
def _seconds(ms: int) -> str:
    return f"{ms / 1_000:g} s"


@phrase
def _with_tasks(connectors: dict[str, int]) -> str:
    return ", ".join(f"{name} with {tasks} tasks" for name, tasks in connectors.items())


@phrase
def _idle(data: Data) -> str:
    idle = [f"{name} {_seconds(ms)}" for name, ms in data["tasks"] if ms]
    told = idle[:MOST_TOLD] + ([f"and {len(idle) - MOST_TOLD} more"] if len(idle) > MOST_TOLD else [])
    moves = f" Number of times a task moved: {data['shuffled']}." if "shuffled" in data else ""
    return f"Time without an owner: {', '.join(told) or 'none, for any task'}.{moves}"


CONNECT = Domain(
    "connect",
    {
        "configure": Word("The connectors are configured: {connectors:with_tasks()}.", "connectors:counts"),
        "start": Word("[who=group?The group starts|{who} starts and joins the group].", glyph=Glyph("a worker starts", PLUS, "ink", 2.2)),
        "kill": Word(
            "{who} dies without leaving the group; it was running {work()}.", "connectors tasks", about="task:tasks",
            glyph=Glyph("a worker dies", CROSS, RED, 2.6),
        ),
        "evict": Word(
            "The coordinator removes {member}: no heartbeat within the session timeout.", "member", "why",
            glyph=Glyph("removed by the coordinator", CROSSED_DISC, RED, 1.8, "paper"), about="member:member",
            rule=connect_cluster("_step", "A worker that is silent for the session timeout is removed."),
        ),
        "prepare": Word(
            "A rebalance begins: {why}.", "why",
            rule=connect_cluster("prepare", "A worker that joins, leaves or times out starts a rebalance."),
        ),
        "assigned": Word(
            "{who} must start {work()}.", "connectors tasks", about="task:tasks",
            rule=incremental_cooperative_assignor("balance", "The leader balances connectors and tasks over the workers."),
        ),
        "revoked": Word(
            "{who} must stop {work()}.", "connectors tasks", about="task:tasks",
            rule=Rule("A worker with more than its share must stop some of its work.", "more.connect.assignors:balancing_revocations"),
        ),
        "delay": Word(
            "The lost work stays unassigned for {delay_ms:seconds()}, in case its worker comes back.", "delay_ms", "until_ms",
            glyph=Glyph("the scheduled delay begins", CLOCK, ORANGE, 1.8, "paper"),
            rule=incremental_cooperative_assignor(
                "handle_lost", "scheduled.rebalance.max.delay.ms: lost work waits this long for its worker."
            ),
        ),
        "sync": Word(
            "The rebalance ends: generation {generation} with [members?{members:listed()}|no members]; [leader?{leader}|no one] leads.",
            "generation leader:text? members", glyph=Glyph("a rebalance ends", BAR, "ink", 1.2),
        ),
        "idle": Word("{idle()}", "tasks", "longest_ms moved shuffled"),
    },
    marks={"kill": "crash", "evict": "time-out"},
)


@phrase
def _layout(active: dict[str, list[str]]) -> str:
    return "; ".join(f"{name}: {', '.join(tasks) or 'nothing'}" for name, tasks in active.items())


STREAMS = Domain(
    "streams",
    {
        "topology": Word(
            "The topology has {tasks:task}, {stateful:len()} of them with a state store.",
            "stateful tasks:texts",
        ),
        "start": Word(
            "{who} starts with {threads:thread}.", "threads", "on_disk",
            Glyph("an instance starts", PLUS, "ink", 2.2),
        ),
        "kill": Word(
            "{who} dies; it was processing [tasks?{tasks:listed()}|nothing].", "tasks:texts", about="task:tasks",
            glyph=Glyph("an instance dies", CROSS, RED, 2.6),
        ),
        "lose_thread": Word(
            "Thread {thread} dies; it was processing [tasks?{tasks:listed()}|nothing].", "tasks:texts thread",
            glyph=Glyph("a thread dies", CROSS, RED, 2.6), about="task:tasks",
        ),
        "evict": replace(CONNECT.words["evict"], may="why", needs="member"),
        "prepare": CONNECT.words["prepare"],
        "assigned": Word(
            "Generation {generation}: {active:layout()}.[probing_needed? A probing rebalance will follow.]",
            "active generation probing_needed", "standby", Glyph("a rebalance ends", BAR, "ink", 1.2),
            rule=high_availability_task_assignor("assign", "A task goes to an instance whose store has caught up, if there is one."),
        ),
        "restoring": Word(
            "{who} restores {task}: {behind:,} changelog records to read.", "behind task", about="task:task",
            rule=streams_app("_take", "A stateful task reads its changelog before it processes."),
        ),
        "running": Word(
            "{who} processes {task}[restored>0?, after restoring {restored:,} records].", "restored task", about="task:task",
            rule=streams_app("_read_changelogs", "A task processes once its store has caught up."),
        ),
        "standby": Word(
            "{who} keeps a standby of {task}, {behind:,} records behind.", "behind task", about="task:task",
            rule=high_availability_task_assignor("assign", "num.standby.replicas: other instances keep copies of the store."),
        ),
        "ask": Word(
            "{who} is asked for {key}[stale?, with stale stores allowed]: [outcome=value?{value}[behind>0?; the correct value is {truth}. "
            "The copy is {behind} records behind|, which is correct]|outcome=null?null, as if the key did not exist. {why}|{outcome}, "
            "{why}].", "behind key outcome stale truth:whole value why", "task", about="task:task",
            rule=Rule("A key belongs to one task; only its instance, or a standby, can answer.", "more.streams.app:query"),
        ),
        "idle": Word(
            "{idle()} {restored:,} records were restored; {threads_idle} of {threads} threads are idle.",
            "restored tasks threads threads_idle", "longest_ms threads_counting",
        ),
    },
    marks={"kill": "crash", "lose_thread": "crash", "evict": "time-out"},
)


SOURCE = Domain(
    "source",
    {
        "send": Word(
            "Records {first:,} to {last:,} are read from the source and produced.", "first last", judged="send", about="record:first-last",
            rule=source_task("poll", "A task reads from its position in the source on."),
        ),
        "write": Word(
            "Records {first:,} to {last:,} become readable in the topic, starting at offset {offset:,}.",
            "first last offset",
            judged="write",
            about="record:first-last",
        ),
        "flush": Word(
            "The source offset {offset:,} is stored.", "offset",
            rule=source_task("maybe_flush", "offset.flush.interval.ms: source offsets are stored this often."),
        ),
        "crash": Word("The worker dies at record {position:,}; the stored source offset is {stored:,}.", "position stored:whole"),
        "aborted": Word(
            "Its open transaction is aborted: records {first:,} to {last:,} never become readable.", "first last",
            about="record:first-last", rule=source_task("crash", "With exactly-once support, a crash aborts the open transaction."),
        ),
        "begins": Word(
            "The task restarts from record {position:,}.", "position",
            rule=source_task("start", "A task restarts at the stored source offset."),
        ),
    },
    marks={"crash": "crash", "begins": "restart", "aborted": "aborted"},
)


PARTITIONS = Domain(
    "partitions",
    {
        "partitions": Word("The topic has {count} partitions: {why}.", "count why"),
        "append": Word(
            "Partition {partition} receives records {first} to {last}.", "first last", room=0.2, judged="append",
            about="process:=producer record:first-last",
            rule=Rule("A record with a key goes to the partition of its key's hash.", "more.hashes:partition_of_key"),
        ),
        "process": Word(
            "{who:capital()} reads {value} of {key} at offset {offset}: {effect}.", "effect key offset value:text", judged="process",
            about="record:offset",
        ),
        "commit": Word("{who:capital()} commits {offset}.", "offset", "written", room=0.2, judged="commit", about="partition:@"),
        "result": Word(
            "{moved} of {orders} orders have moved to another partition; {early_cancels} were cancelled "
            "before they were created, {refused} records were refused, and {left_over} orders are left over.",
            "early_cancels left_over moved:whole orders refused",
        ),
    },
)

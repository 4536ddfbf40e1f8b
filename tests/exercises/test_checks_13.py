"""The exercises of notebook 13: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from tests.exercises.solutions import slips

BY_EPOCH = "epoch_end is not None and epoch_end < committed"
POLICY = '{"earliest": 0, "latest": end, "none": None}'
LOWER_END = "min(ends[0][common], ends[1][common])"

SOLUTIONS = [
    ("what_is_left", ..., "and its offsets are used again"),
    ("safe_follower", ..., "one may be away"),
    ("goes_on", ..., "first the epoch"),
    ("cut_to", ..., "each cut where it did"),
]
WRONG = [
    *slips(
        "what_is_left",
        ("(copied + new_records, alone) if unclean else ", "", "new_records=5, unclean=True) should return (45, 20); yours returns (65"),
        ("copied + new_records", "copied", "alone + new_records", "alone", "yours returns (40, 20)"),
        ("alone + new_records", "alone", "yours returns (60, 0)"),
    ),
    ("what_is_left", lambda copied, alone, new_records, unclean: (copied + new_records, alone), "unclean=False) should return (65, 0)"),
    ("safe_follower", {"replicas": 2}, "with these settings 10 acknowledged records are lost"),
    ("safe_follower", {"replicas": 2, "min_insync_replicas": 2}, "10 records are refused"),
    ("safe_follower", {"replicas": 3, "min_insync_replicas": 3}, "10 records are refused"),
    ("safe_follower", {"replicas": 3}, "by luck"),
    *slips(
        "goes_on",
        ("committed <= end", "committed < end", "goes_on(committed=40, end=40, epoch_end=None, policy='earliest') should return 40"),
        ("committed <= end", "committed <= end + 1", "goes_on(committed=41, end=40, epoch_end=None, policy='latest') should return 40"),
        ("epoch_end is not None and", "epoch_end and", "end=9, epoch_end=0, policy='latest') should return 0; yours returns 5"),
        (BY_EPOCH, "False", "goes_on(committed=50, end=55, epoch_end=40"),
        (BY_EPOCH, "False", "committed <= end", "False", "should return 50; yours returns 0"),
        ('None if policy == "none" else epoch_end', f"{POLICY}[policy]", "policy='latest') should return 40; yours returns 55"),
        ('None if policy == "none" else epoch_end', "epoch_end", "should return None; yours returns 40"),
        ('"earliest": 0, "latest": end', '"earliest": 1, "latest": end + 1', "policy='earliest') should return 0; yours returns 1"),
    ),
    *slips(
        "cut_to",
        ("(leader, leader_end), (follower, follower_end)", "(leader, follower_end), (follower, leader_end)",
         "your function cuts to 40, which is beyond the follower's own end; expected 30"),
        (LOWER_END, "min(ends[0][common], follower_end)", "cuts to 40 and keeps offset 30, which is a different record on the leader"),
        (LOWER_END, f"max(0, {LOWER_END} - 1)", "throws away records that both have"),
        (LOWER_END, "min(leader_end, follower_end)", "which is a different record on the leader"),
    ),
    ("cut_to", lambda leader, leader_end, follower, follower_end: follower_end, "which is a different record on the leader"),
    ("cut_to", lambda leader, leader_end, follower, follower_end: leader[-1][1], "the leader has"),
    ("cut_to", lambda leader, leader_end, follower, follower_end: 0, "throws away records that both have"),
]  # fmt: skip

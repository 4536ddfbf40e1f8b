"""The table of faults: every row says what the kit does, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "faults.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]

TESTS = {  # of each row: the tests that hold it
    1: [
        "lab/test_broker_faults.py::test_broker_killed_is_back_on_its_port_with_all_acknowledged_records",
    ],
    2: ["lab/test_broker_faults.py::test_broker_killed_while_producing_keeps_what_it_acknowledged"],
    3: [
        "lab/test_broker_faults.py::test_broker_paused_is_called_silent_and_not_restarted",
        "lab/test_hard_times.py::test_broker_that_stands_still_for_30_s_goes_on",
    ],
    4: ["lab/test_broker_faults.py::test_out_of_memory_is_named_with_the_heap_and_its_setting"],
    5: [
        "lab/test_broker_faults.py::test_disk_full_is_named_and_acknowledged_records_survive",
        "lab/test_broker_faults.py::test_disk_full_at_the_start_ends_with_the_exit_code_for_disks",
        "lab/test_hard_times.py::test_disk_that_fills_during_a_run_is_named",
    ],
    6: ["lab/test_hard_times.py::test_few_files_are_enough_and_too_few_are_named"],
    7: ["lab/test_broker_faults.py::test_data_folder_removed_while_running_is_noticed"],
    8: [
        "lab/test_broker_faults.py::test_half_written_format_is_put_aside_and_never_overwritten",
        "lab/test_broker_faults.py::test_format_tool_killed_leaves_nothing_that_looks_formatted",
    ],
    9: [
        "lab/test_broker_faults.py::test_foreign_data_are_refused_and_left_alone",
        "lab/test_state.py::test_read_of_a_newer_schema_refuses_and_changes_nothing",
    ],
    10: [
        "lab/test_damage.py::test_damaged_logs_lose_acknowledged_records_and_the_status_says_how_many",
        "experiments/test_real_leaders.py::test_flipped_bit_is_mended_from_the_other_broker",
    ],
    11: [
        "experiments/test_real_leaders.py::test_follower_that_is_stopped_leaves_the_in_sync_set_and_comes_back",
        "experiments/test_real_leaders.py::test_unclean_election_and_commits_of_another_history_are_the_models",
    ],
    12: [
        "experiments/test_on_kafka.py::test_each_partition_of_a_topic_that_was_made_has_a_leader_that_answers",
    ],
    13: ["lab/test_endings.py::test_lab_killed_leaves_nothing_and_opens_again_at_once"],
    14: [
        "lab/test_endings.py::test_reaper_killed_ends_the_lab_and_leaves_nothing",
        "lab/test_endings.py::test_lab_killed_with_its_reaper_or_while_that_was_stopped_is_cleared_by_the_next_lab",
        "lab/test_hard_times.py::test_lab_and_all_that_watches_it_killed_together_are_seen_by_status_and_ended_by_the_next_lab_or_down",
        "lab/test_broker_faults.py::test_warden_killed_leaves_an_orphan_that_the_next_start_ends",
    ],
    15: [
        "lab/test_endings.py::test_ctrl_c_at_each_stage_ends_with_130_and_leaves_nothing",
        "lab/test_endings.py::test_second_ctrl_c_ends_by_force",
        "test_bootstrap.py::test_setup_interrupted_is_completed_by_the_next_run",
    ],
    16: ["lab/test_endings.py::test_terminal_closed_ends_the_lab"],
    17: [
        "lab/test_lab.py::test_kernel_killed_ends_nothing_else",
        "lab/test_spark.py::test_kernel_that_is_killed_ends_its_queries_and_nobody_elses",
    ],
    18: ["lab/test_spark.py::test_session_in_a_hostile_environment_is_quiet_and_a_killed_warden_is_made_good"],
    19: [
        "pipelines/test_partition_manager_source.py::test_killed_anywhere_any_number_of_times_a_query_loses_nothing",
        "pipelines/test_acker_on_spark.py::test_trees_with_fails_and_open_ones_end_as_with_the_plain_acker_also_after_a_crash",
    ],
    20: [
        "lab/test_kafka_server.py::test_recycled_process_id_is_neither_believed_nor_killed",
        "lab/test_state.py::test_read_of_nonsense_puts_the_file_aside_and_goes_on",
    ],
    21: [
        "lab/test_lab.py::test_twenty_pairs_at_the_same_instant_give_one_lab_each",
        "lab/test_lab.py::test_second_lab_says_who_has_it_since_when_and_where",
    ],
    22: ["lab/test_kafka_server.py::test_workspaces_side_by_side_have_ports_and_clusters_of_their_own"],
    23: [
        "lab/test_kafka_server.py::test_port_taken_by_a_stranger_moves_the_broker_and_says_so",
        "lab/test_lab.py::test_asked_port_taken_is_an_error_that_names_the_process",
    ],
    24: [
        "lab/test_workspace.py::test_ensure_a_folder_without_permission_is_refused",
        "lab/test_workspace.py::test_ensure_an_odd_but_possible_path_works",
    ],
    25: ["lab/test_hard_times.py::test_two_hundred_runs_left_behind_are_gone_after_one_reset"],
    26: [
        "test_side_by_side.py::test_process_left_by_a_worker_is_ended_and_fails_the_run",
        "notebooks/test_harness.py::test_notebook_whose_kernel_dies_fails",
    ],
    27: ["lab/test_chaos_on_kafka.py::test_answers_lost_are_batches_stored_twice_unless_idempotent"],
    28: ["lab/test_chaos_on_kafka.py::test_answer_that_comes_too_late_is_a_lost_answer"],
    29: [
        "lab/test_chaos_on_kafka.py::test_black_hole_in_either_direction_ends_with_unknown_fates_and_no_hang",
    ],
    30: [
        "lab/test_chaos_on_kafka.py::test_resets_and_slices_cost_nothing_but_time",
        "lab/test_chaos_proxy.py::test_a_thousand_connections_leave_no_descriptor_task_or_thread",
    ],
    31: ["lab/test_chaos_on_kafka.py::test_request_sent_twice_is_stored_twice_unless_idempotent"],
    32: ["lab/test_chaos_on_kafka.py::test_error_is_retried_or_named"],
    33: ["lab/test_chaos_on_kafka.py::test_slow_network_has_the_same_verdict"],
    34: ["lab/test_chaos_on_kafka.py::test_one_consumer_cut_off_costs_one_rebalance_and_no_commit"],
    35: [
        "lab/test_chaos_on_kafka.py::test_proxy_killed_under_load_leaves_the_broker_alone_and_comes_back",
    ],
    36: [
        "lab/test_chaos_on_kafka.py::test_garbage_frames_leave_the_broker_alive",
        "lab/test_chaos_proxy.py::test_garbage_is_closed_counted_and_passes_not_one_byte",
        "lab/test_wire.py::test_wire_server_that_is_no_broker_is_told_within_the_deadline",
    ],
    37: [
        "lab/test_secured_cluster.py::test_who_is_not_let_in_is_told_why_at_once",
        "lab/test_secured_cluster.py::test_wire_that_is_not_let_in_is_told_why",
        "lab/test_secured_cluster.py::test_who_is_not_let_in_is_told_so_through_the_proxy_too",
    ],
    38: ["lab/test_secured_cluster.py::test_what_needs_the_kits_own_brokers_says_so_before_it_begins"],
    39: [
        "lab/test_jars.py::test_ensure_jars_without_a_network_says_what_is_missing_and_the_recipe",
        "lab/test_jars.py::test_ensure_jars_a_damaged_jar_is_named_and_fetched_again_once",
        "lab/test_jars.py::test_ensure_jars_a_server_that_falls_silent_is_given_up",
        "test_bootstrap.py::test_setup_a_wrong_hash_is_refused",
        "lab/test_java.py::test_find_java_a_bad_one_is_passed_over_with_the_reason",
    ],
    40: [
        "pipelines/test_audit.py::test_audit_of_a_damaged_checkpoint_names_the_file_and_changes_nothing",
        "lab/test_checkpoint_folder.py::test_a_file_that_is_no_offsets_is_a_trouble_and_no_error",
    ],
    41: [
        "pipelines/test_audit.py::test_audit_stream_whose_topic_is_deleted_and_made_anew_ends_with_a_sentence",
        "pipelines/test_partition_manager_source.py::test_what_left_the_log_is_counted_and_passed_over_or_ends_the_query",
    ],
    42: ["experiments/test_resets.py::test_experiment_on_resets_or_lag_shows_what_it_claims"],
    43: ["experiments/test_transactions_on_kafka.py"],
    44: [
        "experiments/test_groups.py::test_poll_too_late_which_time_out_fires",
        "experiments/test_model_members.py::test_frozen_member_is_out_after_its_session_and_hears_of_it_when_it_beats",
    ],
    45: [
        "lab/test_hard_times.py::test_record_of_50_mb_is_refused_in_a_sentence_and_the_next_is_stored",
        "views/test_text.py::test_show_hostile_content_gives_no_markup_and_no_control_character",
        "pipelines/test_production.py::test_audit_of_a_producer_with_hostile_lines_counts_them_and_goes_on",
        "experiments/test_protocol_producer.py::test_producer_record_that_is_too_large_fails_and_the_next_is_stored",
    ],
    46: [
        "browser/test_hostile_trace.py::test_hostile_text_in_every_field_is_text",
        "browser/test_saved_page.py::test_hostile_names_in_a_saved_run_do_nothing",
    ],
    47: [
        "experiments/test_on_kafka.py::test_topic_with_a_bad_name_is_a_kit_error",
        "experiments/test_knobs.py::test_run_with_a_bad_knob_is_refused_in_a_sentence",
    ],
    48: [
        "test_trace.py::test_json_lines_bad_step_names_its_line_and_keeps_what_was_good",
        "test_trace.py::test_json_lines_bad_header_leaves_nothing",
        "browser/test_saved_page.py::test_a_damaged_page_says_so_and_is_never_blank",
    ],
    49: ["lab/test_notebook_trust.py::test_sign_shipped_a_changed_notebook_stays_untrusted"],
    50: [
        "lab/test_hard_times.py::test_clock_that_goes_back_an_hour_during_a_run_changes_nothing",
        "experiments/test_commit_log.py::test_clock_that_goes_back_is_counted_and_changes_no_order",
        "lab/test_doctor.py::test_doctor_on_a_sound_machine_is_all_good",
    ],
    51: [
        "exercises/test_sandbox.py::test_call_breach_ends_in_a_sentence",
        "exercises/test_sandbox.py::test_check_dead_process_is_never_a_pass",
        "exercises/test_sandbox.py::test_call_orphans_that_changed_session_and_environment_are_ended",
    ],
    52: [
        "exercises/test_growth.py::test_what_grows_is_refused_with_its_figures",
        "exercises/test_growth.py::test_a_right_function_that_is_too_slow_for_all_cases_is_told_how_many_are_right",
    ],
}


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1][:40])
def test_each_fault_has_tests_that_exist(row: list[str]) -> None:
    """A row has a number, a fault and what the kit does, and there is a test or more that holds it."""
    number, fault, does = row
    assert fault and does and TESTS[int(number)]
    for named in TESTS[int(number)]:
        path, _, test = named.partition("::")
        assert names_in(f"tests/{path}") and (not test or test in names_in(f"tests/{path}")), named


def test_faults_are_numbered_through() -> None:
    """No row is lost."""
    assert [int(row[0]) for row in ROWS] == list(range(1, 53))

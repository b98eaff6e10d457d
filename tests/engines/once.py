"""Tests of the suites that run on one engine alone, each with its reason. What is not listed runs on both.

A name is that of a file, or of a test in it, below `tests/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

LISTED: Final[Mapping[str, tuple[str, ...]]] = {
    "asks for no store": (
        "runtime/test_host_policy.py::test_a_mistake_in_the_file_is_told_with_its_line",
        "runtime/call/test_utility.py::test_a_utility_is_written_in_one_way_that_reads_back",
        "runtime/call/test_what_records_hold.py::test_what_is_no_code_of_a_failure_cannot_be_raised_as_one",
        "verify/test_seal_status.py::test_a_run_of_a_plan_ended_as_its_steps_did",
        "verify/test_seal_status.py::test_a_session_does_not_fail_with_its_calls",
        "verify/test_seal_status.py::test_without_the_plan_a_failed_step_leaves_open_whether_it_ended_the_run",
        "verify/test_seal_status.py::test_what_repeats_a_run_names_it_and_nothing_else_does",
        "replay/modes/test_replay_invariants.py::test_a_policy_may_be_given_whole_where_it_may_be_given_in_part",
        "replay/modes/test_scheduler.py",
        "replay/unit/test_cost_calculation.py",
        "replay/unit/test_error_mapping.py",
        "replay/unit/test_retry_logic.py",
        "crash/test_collecting.py::test_every_point_outside_is_killed_at_by_a_test_of_this_file",
        "crash/test_readme_agent.py::test_it_is_an_agent_of_less_than_25_lines",
        "record/erasing/test_session_plans.py::test_sessions_whose_plans_repeat_their_calls_are_read_alike",
        "record/repair/test_repair.py::test_a_document_over_several_lines_is_no_file_of_lines_and_not_damaged",
        "record/repair/test_repair.py::test_a_file_that_is_being_written_is_left_alone",
        "record/repair/test_repair.py::test_a_line_longer_than_any_of_ours_is_damage_and_no_torn_tail",
        "record/repair/test_repair.py::test_damage_is_told_with_its_place_and_nothing_is_done",
        "record/repair/test_repair.py::test_integers_of_other_producers_are_no_damage",
        "record/repair/test_repair.py::test_lines_that_an_editor_ended_otherwise_are_told",
        "record/repair/test_repair.py::test_killed_anywhere_the_file_is_as_it_was_or_repaired",
        "record/repair/test_repair.py::test_of_what_has_no_whole_line_nothing_can_be_kept",
        "record/repair/test_repair.py::test_packed_payloads_are_cut_to_their_last_whole_line",
        "record/repair/test_repair.py::test_what_a_link_leads_to_is_repaired_and_the_link_stays",
        "record/repair/test_repair.py::test_what_was_cut_is_taken_off_and_kept",
        "record/repair/test_repair.py::test_zeros_at_the_end_are_a_torn_tail",
        "record/test_document.py::test_every_key_stands_on_its_page",
        "record/test_views.py::test_a_receipt_of_any_length_is_compared_piece_by_piece",
        "record/tga/test_hashing_vectors.py",
        "record/tga/test_shared_artifacts.py",
        "record/training/test_training.py::test_a_session_stays_in_its_part_however_the_others_are_cut",
        "replay/compare/test_field_stability.py",
        "replay/forecast/test_simulation.py::test_a_changed_definition_is_told_and_not_fatal",
        "replay/forecast/test_simulation.py::test_a_plan_that_can_be_run_is_feasible_and_adds_up",
        "replay/forecast/test_simulation.py::test_a_prompt_that_depends_on_another_step_may_cost_more",
        "replay/forecast/test_simulation.py::test_a_reference_inside_a_host_is_not_held_against_a_step",
        "replay/forecast/test_simulation.py::test_a_reference_to_what_a_skill_does_not_declare_is_a_risk",
        "replay/forecast/test_simulation.py::test_a_soft_budget_warns_nobody_off",
        "replay/forecast/test_simulation.py::test_a_step_that_is_too_dear_is_told_where_it_may_not_go_as_well",
        "replay/forecast/test_simulation.py::test_a_supervisor_that_is_not_there_is_a_problem_of_the_plan",
        "replay/forecast/test_simulation.py::test_every_mistake_is_told_also_behind_one_that_ends_the_run",
        "replay/forecast/test_simulation.py::test_external_calls_are_counted_against_the_profile",
        "replay/forecast/test_simulation.py::test_models_are_priced_by_what_they_may_answer",
        "replay/forecast/test_simulation.py::test_names_are_not_resolved_and_allowed_hosts_pass",
        "replay/forecast/test_simulation.py::test_only_failures_that_the_policy_retries_make_the_worst_case",
        "replay/forecast/test_simulation.py::test_persons_who_will_be_asked_are_told",
        "replay/forecast/test_simulation.py::test_the_worst_case_is_told_past_the_budget_that_would_stop_it",
        "replay/forecast/test_simulation.py::test_what_only_reads_is_not_counted_among_them",
        "replay/forecast/test_simulation.py::test_what_stands_behind_a_certain_end_is_not_reached_and_costs_nothing",
        "replay/forecast/test_simulation.py::test_what_was_spent_today_counts",
        "replay/forecast/test_simulation.py::test_writes_are_told_with_what_may_go_wrong",
        "runtime/effects/test_cancellation.py::test_a_read_back_that_swallows_its_cancellation_has_not_told",
        "runtime/effects/test_cancellation.py::test_so_can_one_with_a_synchronous_session",
        "runtime/effects/test_processes.py::test_a_fork_of_the_runtime_gets_its_own",
        "runtime/effects/test_processes.py::test_a_skill_does_not_outlive_the_runtime_that_called_it",
        "runtime/effects/test_processes.py::test_a_skill_of_the_script_itself_is_refused_with_advice",
        "runtime/effects/test_processes.py::test_a_skill_within_a_function_is_refused_with_advice",
        "runtime/effects/test_processes.py::test_nothing_is_forked_from_a_process_that_has_threads",
        "runtime/plans/test_known_effects.py::test_threads_that_read_their_first_plan_at_once_live",
        "runtime/plans/test_references.py::test_escaping_and_unescaping_a_value_from_outside_gives_it_back_and_asks_for_no_secret",
        "runtime/plans/test_skills_gone_at_recovery.py::test_a_process_that_died_and_was_not_collected_is_gone",
        "runtime/session/answering/test_hints.py",
        "runtime/session/test_checks.py::test_the_ends_of_what_is_printed_are_those_of_the_whole",
    ),
    "judges bundles, and asks for no store": (
        "verify/log/test_merkle.py",
        "verify/log/test_page.py",
        "verify/test_bundles.py",
        "verify/test_contradictions.py",
        "verify/test_hostile_bundles.py",
        "verify/test_keys.py",
        "verify/test_packed.py",
        "verify/test_reports.py",
        "verify/test_rules.py",
        "verify/test_scale.py",
        "verify/test_signed_note.py",
        "verify/test_tampering.py",
        "verify/test_times.py",
        "verify/test_trusted_keys.py",
        "verify/test_zips.py",
    ),
    "keeps its recordings in memory: it takes them apart, or goes through `reenact.testing`": (
        "record/test_what_is_signed.py",
        "replay/compare/test_forge.py",
        "replay/test_breakers.py",
        "replay/compare/test_mutations.py",
        "replay/integration/test_replay_behavior.py",
    ),
    "writes what no honest program writes into tables of SQLite: store/postgres/test_tampering.py does it there": (
        "crash/test_recovering_many.py::test_a_damaged_run_is_one_result_of_the_command_and_keeps_nobody",
        "record/test_bundle.py::test_a_lost_payload_is_counted_and_breaks_the_bundle",
        "record/tga/test_whole_traces.py::test_a_damaged_log_is_not_recovered",
        "runtime/call/test_keys.py::test_in_a_file_nobody_changes_the_secret_of_a_store",
        "runtime/call/test_keys.py::test_with_the_store_every_key_is_computed_again",
        "runtime/people/test_people.py::test_the_doctor_says_what_to_do",
        "runtime/session/test_long_sessions.py::test_duplicates_that_are_not_those_of_the_checkpoint_are_noticed",
        "verify/test_every_cell.py",
        "verify/test_guards.py",
    ),
    "looks into the writer of SQLite: what is committed together, by whom, and what is waited for": (
        "crash/test_signing.py::test_killed_at_every_note_a_run_is_sealed_with_its_signature_or_not_at_all",
        "record/erasing/test_erasing.py::test_a_reader_that_keeps_the_log_alive_is_told",
        "record/erasing/test_conversations_are_stored_once.py",
        "runtime/writing/test_committer.py",
        "runtime/writing/test_where_commits_run.py",
    ),
    "is about the files of a store: copied, restored, gone, or in a folder that is not the host's": (
        "crash/test_collecting.py::test_killed_before_a_contradiction_is_on_record",
        "crash/test_recovering_many.py::test_one_at_a_time_and_side_by_side_come_to_the_same",
        "crash/test_restored_copies.py",
        "record/test_bundle.py::test_a_bundle_appears_whole_or_not_at_all",
        "runtime/effects/test_live_dispatches.py::test_a_store_is_the_same_by_whatever_path_it_is_opened",
        "runtime/test_files_that_vanish.py",
    ),
    "goes by the clock of its own process, and in a database leases go by the server's": (
        "runtime/test_containers.py",
    ),
    "goes by the turns of one loop, and a commit at a server is not made in one": (
        "replay/sources/test_given_up_calls.py",
    ),
    "is about rows that were written before there was a second engine": (
        "runtime/writing/test_checkpoints.py::test_a_frontier_that_was_signed_before_there_were_macs_is_read",
    ),
    "has a server of its own": (
        "crash/test_crowd_on_postgres.py",
        "crash/test_on_postgres.py",
    ),
}


@cache
def reasons() -> Mapping[str, str]:
    return {f"tests/{name}": reason for reason, names in LISTED.items() for name in names}


def reason_for(node_id: str) -> str | None:
    """Why a test runs on SQLite alone; None where it runs on both engines. Its cases are not told apart."""
    path, _, test = node_id.partition("::")
    return reasons().get(path) or reasons().get(f"{path}::{test.partition('[')[0]}")

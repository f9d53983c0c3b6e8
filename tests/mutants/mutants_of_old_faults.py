"""Faults that hedgerow once had, put back: sums of guarantees, groups, people who say yes."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

CHOOSE: Final = "methods/test_model_selection.py::"
GROUPS: Final = "methods/test_evaluated_rows.py::"
HIDDEN: Final = "cli/test_console.py::"
VERIFY: Final = "deployment/test_verify.py::"
POLICY: Final = "federation/test_policy.py::"
PLAN: Final = "methods/test_plan.py::test_a_plan_asks_whether_the_rows_of_a_stand_in_are_public"
VOLUME: Final = f"{POLICY}test_what_a_study_takes_has_ceilings"
ONE_LINE: Final = f"{HIDDEN}test_lines_of_logs_and_events_are_one_line_each"
EPSILON: Final = (
    "deployment/test_study_file.py"
    "::test_a_study_s_epsilon_and_delta_are_plain_decimals_of_bounded_length"
)

OLD_FAULTS: Final = (
    Mutant(
        "choose says a sum of epsilons and the delta of one fit",
        "privacy/accounting/guarantee.py",
        "delta=of(a.delta, b.delta),",
        "delta=a.delta,",
        f"{CHOOSE}test_choose_keeps_the_deltas_of_its_candidates",
    ),
    Mutant(
        "choose adds what is kept for a record to what is kept for a person",
        "privacy/accounting/guarantee.py",
        "if len(set(units)) > 1:",
        "if not units:",
        f"{CHOOSE}test_choose_refuses_candidates_with_other_units",
    ),
    Mutant(
        "choose adds guarantees to labels and to whole records",
        "privacy/accounting/guarantee.py",
        "is_one_kind = a.protected is b.protected",
        "is_one_kind = Protected.NOTHING not in (a.protected, b.protected)",
        f"{CHOOSE}test_choose_promises_nothing_of_labels_and_whole_records_together",
    ),
    Mutant(
        "a plan reads any rows without a question",
        "methods/plan.py",
        "if proxy_rows is not None and public is not True:",
        "if proxy_rows is not None and public is Ellipsis:",
        PLAN,
    ),
    Mutant(
        "a plan does not say that its rows are public",
        "methods/plan.py",
        "the rows you named, public as you said",
        "the rows you named",
        PLAN,
    ),
    Mutant(
        "a number has a group for each cell of the method's grid",
        "methods/evaluated_rows.py",
        "usual_cuts(feature) if cuts is None else",
        "() if cuts is None else",
        f"{GROUPS}test_a_bare_number_has_four_groups_of_its_public_range",
    ),
    Mutant(
        "groups take nearly all of an evaluation's epsilon",
        "methods/blocks/evaluation.py",
        "ALL_FRACTION = constant(Fraction(1, 2)",
        "ALL_FRACTION = constant(Fraction(1, 100)",
        f"{GROUPS}test_all_records_have_a_part_of_their_own",
    ),
    Mutant(
        "verify passes a model that nobody signed",
        "deployment/verify.py",
        'unsigned_file = CheckResult("signatures", Outcome.UNSIGNED, words)',
        'unsigned_file = CheckResult("signatures", Outcome.PASSED, words)',
        f"{VERIFY}test_verify_says_of_a_check_that_it_did_not_make_that_it_was_skipped",
    ),
    Mutant(
        "verify passes signatures without the keys of those who signed",
        "deployment/verify.py",
        'skipped_check = CheckResult("signatures", Outcome.SKIPPED,',
        'skipped_check = CheckResult("signatures", Outcome.PASSED,',
        f"{VERIFY}test_verify_says_of_a_check_that_it_did_not_make_that_it_was_skipped",
    ),
    Mutant(
        "a schema may hold control characters",
        "schema/features.py",
        "if has_hidden(text):",
        "if not text:",
        f"{HIDDEN}test_a_schema_refuses_hidden_characters_in_names_categories_classes_and_marks",
    ),
    Mutant(
        "a page shows hidden characters as they are",
        "report/page/html.py",
        "return escape(visible_lines(words), quote=quote)",
        "return escape(words, quote=quote)",
        f"{HIDDEN}test_what_a_model_file_of_others_says_cannot_steer_the_terminal_or_a_page",
    ),
    Mutant(
        "a line of the audit log may be two",
        "federation/audit_log.py",
        'return visible(f"{when[11:19]}  {study:<16}  {words}")',
        'return f"{when[11:19]}  {study:<16}  {words}"',
        ONE_LINE,
    ),
    Mutant(
        "a line of a run's progress may be two",
        "deployment/progress.py",
        'return visible(f"{event[\'event\']}: {words}" if words else str(event["event"]))',
        'return f"{event[\'event\']}: {words}" if words else str(event["event"])',
        ONE_LINE,
    ),
    Mutant(
        "a policy has no ceiling for colluders",
        "federation/policy.py",
        '("colluders_per_study", "colluders", study.colluders),',
        "",
        f"{POLICY}test_each_ceiling_of_a_study_alone_can_say_no",
    ),
    Mutant(
        "a policy has no ceiling for records per person",
        "federation/policy.py",
        '("records_per_person", "records per person", study.records_per_person),',
        "",
        f"{POLICY}test_each_ceiling_of_a_study_alone_can_say_no",
    ),
    Mutant(
        "a policy has no ceiling for rounds that are known",
        "federation/policy.py",
        '("rounds_per_study", "rounds", rounds),',
        "",
        f"{POLICY}test_rounds_of_a_study_have_a_ceiling_where_they_are_known",
    ),
    Mutant(
        "a policy has no ceiling for bytes",
        "federation/policy.py",
        '("rounds_per_study", "bytes_per_study", "disk_per_study")',
        '("rounds_per_study", "message_bytes", "disk_per_study")',
        VOLUME,
    ),
    Mutant(
        "a policy has no ceiling for disk",
        "federation/policy.py",
        '("rounds_per_study", "bytes_per_study", "disk_per_study")',
        '("rounds_per_study", "bytes_per_study", "bytes_per_study")',
        VOLUME,
    ),
    Mutant(
        "numbers in a study file may have spaces and underscores",
        "privacy/declaration.py",
        "re.fullmatch(WRITTEN, plain_value)",
        're.fullmatch(WRITTEN, plain_value.strip().replace("_", ""))',
        EPSILON,
    ),
)

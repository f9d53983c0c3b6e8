"""Mistakes where files, names, numbers and callers come in, and where a person says yes."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

OVERWRITING: Final = "cli/test_writing.py::"
READ: Final = f"{OVERWRITING}test_no_command_writes_over_what_it_reads_not_even_by_force"
KEPT: Final = f"{OVERWRITING}test_what_was_paid_for_or_confirmed_is_kept_without_force"
HIDDEN: Final = "cli/test_console.py::"
STRANGERS: Final = "deployment/test_strangers.py::"
POLICY: Final = "federation/test_policy.py::"
NUMBERS: Final = "deployment/test_study_file.py::"
EPSILON: Final = f"{NUMBERS}test_a_study_s_epsilon_and_delta_are_plain_decimals_of_bounded_length"
TAKEN: Final = (
    "deployment/test_serve.py::test_a_study_that_takes_more_than_the_policy_says_is_ended_there"
)

EDGES: Final = (
    Mutant(
        "a file is an input by its path alone",
        "cli/console.py",
        "os.path.samefile(existing, output) for existing in _files_at(path)",
        "existing == output for existing in _files_at(path)",
        READ,
    ),
    Mutant(
        "force writes over an input",
        "cli/console.py",
        "if path is not None and any(",
        "if path is not None and not force and any(",
        READ,
    ),
    Mutant(
        "a schema with one confirmed column is a draft",
        "cli/console.py",
        "return len(schema.unconfirmed) == len(schema.features) + has_outcome",
        "return True",
        KEPT,
    ),
    Mutant(
        "the ledger of a fit may be written over",
        "cli/fit.py",
        "check_output(output, study, schema, ledger, *data, force=force)",
        "check_output(output, study, schema, *data, force=force)",
        READ,
    ),
    Mutant(
        "the study file is read again after the yes",
        "cli/site.py",
        "audit)\n        _decide(folder, study_file, place, audit, yes)\n",
        "audit)\n"
        "        again = {'__getattr__': lambda _, name: getattr(StudyFile.read(study), name)}\n"
        "        _decide(folder, type('ReadAgain', (), again)(), place, audit, yes)\n",
        "deployment/test_approve.py"
        "::test_a_study_file_that_changes_at_the_prompt_is_approved_as_it_was_shown",
    ),
    Mutant(
        "a schema that changed meanwhile is confirmed",
        "cli/schema.py",
        "if schema.read_bytes() != shown:",
        "if not shown:",
        "deployment/test_approve.py"
        "::test_a_schema_that_changes_while_it_is_confirmed_is_not_confirmed",
    ),
    Mutant(
        "marks of direction are letters",
        "schema/visible.py",
        "\\u2028-\\u202e",
        "\\u2028-\\u2029",
        f"{HIDDEN}test_every_control_separator_and_mark_of_direction_is_hidden_and_no_letter_is",
    ),
    Mutant(
        "an error shows what a file says as it is",
        "cli/console.py",
        "print(visible_lines(str(words)), **how)",
        "print(str(words), **how)",
        f"{HIDDEN}test_what_a_study_file_of_others_says_cannot_steer_the_terminal",
    ),
    Mutant(
        "a class that is a formula is one in a CSV",
        "cli/models.py",
        'return f"\'{value}" if is_formula else value',
        "return value",
        f"{HIDDEN}test_predictions_hold_no_cell_that_a_spreadsheet_computes",
    ),
    Mutant(
        "numbers in study files have any length",
        "privacy/accounting/budget.py",
        'DECIMAL = r"[0-9]{1,12}(\\.[0-9]{1,40})?"',
        'DECIMAL = r"[0-9]+(\\.[0-9]+)?"',
        EPSILON,
    ),
    Mutant(
        "digits of other scripts are digits",
        "privacy/accounting/budget.py",
        'DECIMAL = r"[0-9]{1,12}(\\.[0-9]{1,40})?"',
        'DECIMAL = r"\\d{1,12}(\\.\\d{1,40})?"',
        EPSILON,
    ),
    Mutant(
        "the ceiling for delta is that for epsilon",
        "federation/policy.py",
        '("delta_per_study", "delta", study.delta),',
        '("epsilon_per_study", "delta", study.delta),',
        f"{POLICY}test_each_ceiling_of_a_study_alone_can_say_no",
    ),
    Mutant(
        "rounds of a study are not counted",
        "federation/site_store.py",
        "totals = row[1] + 1, row[2]",
        "totals = row[1], row[2]",
        TAKEN,
    ),
    Mutant(
        "what a study takes is counted from zero at every round",
        "federation/site_store.py",
        "row = self._tables.volumes.get(study) or (study, 0, 0, 0)",
        "row = (study, 0, 0, 0)",
        TAKEN,
    ),
    Mutant(
        "a crowd of strangers ends a browser's line",
        "deployment/live.py",
        "is_known in self._callers.items() if not is_known)",
        "is_known in self._callers.items() if is_known)",
        f"{STRANGERS}test_a_browser_hears_the_end_while_strangers_hold_every_line",
    ),
    Mutant(
        "any number of strangers shake hands at once",
        "federation/transports/https.py",
        "if len(self._strangers) >= MOST_STRANGERS:",
        "if len(self._strangers) >= MOST_STRANGERS**2:",
        f"{STRANGERS}test_callers_without_certificates_are_few_at_a_time_and_a_site_comes_in",
    ),
    Mutant(
        "every caller without a certificate has a line",
        "federation/transports/https.py",
        "if self._n_lines >= self._most:",
        "if self._n_lines < 0:",
        f"{STRANGERS}test_callers_without_certificates_write_few_lines_and_no_traceback",
    ),
    Mutant(
        "a check that was not made is one that passed",
        "deployment/verify.py",
        "return CheckResult(FORMAT, Outcome.SKIPPED,",
        "return CheckResult(FORMAT, Outcome.PASSED,",
        "deployment/test_verify.py"
        "::test_verify_says_of_a_check_that_it_did_not_make_that_it_was_skipped",
    ),
    Mutant(
        "a plan takes rows of which nobody says that they are public",
        "methods/plan.py",
        "if proxy_rows is not None and public is not True:",
        "if proxy_rows is not None and public is None:",
        "methods/test_plan.py::test_a_plan_asks_whether_the_rows_of_a_stand_in_are_public",
    ),
)

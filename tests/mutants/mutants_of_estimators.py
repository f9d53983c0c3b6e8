"""Mistakes around several releases: whose records are trained on, evaluated, compared, charged."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

CHOOSING: Final = "methods/test_model_selection.py"
EVALUATION: Final = "methods/test_evaluate.py"
FIT_LEDGER: Final = "methods/test_ledger.py"
GROUPS: Final = "methods/test_evaluated_rows.py"
GUARANTEES: Final = "privacy/test_guarantee.py"
LARGER: Final = (
    f"{EVALUATION}::test_model_and_evaluation_of_held_out_records_keep_the_larger_of_each_number"
)
OTHERWISE: Final = f"{EVALUATION}::test_held_out_records_told_otherwise_are_refused"

SEVERAL: Final = (
    Mutant(
        "guarantees together are the larger of them",
        "privacy/accounting/guarantee.py",
        "lambda a, b: _combine(a, b, lambda x, y: x + y)",
        "lambda a, b: _combine(a, b, max)",
        f"{GUARANTEES}::test_together_is_never_below_either",
    ),
    Mutant(
        "deltas of several releases do not add",
        "privacy/accounting/guarantee.py",
        "delta=of(a.delta, b.delta),",
        "delta=max(a.delta, b.delta),",
        f"{GUARANTEES}::test_together_is_never_below_either",
    ),
    Mutant(
        "labels beside whole records are protected by the first of both",
        "privacy/accounting/guarantee.py",
        "common_protection = a.protected if is_one_kind else Protected.NOTHING",
        "common_protection = a.protected",
        f"{GUARANTEES}::test_of_labels_and_of_whole_records_nothing_is_kept_together",
    ),
    Mutant(
        "guarantees to a record and to a person add up",
        "privacy/accounting/guarantee.py",
        "    check_one_unit(a.unit, b.unit)\n",
        "    check_one_unit(a.unit)\n",
        f"{GUARANTEES}::test_other_units_do_not_add_up",
    ),
    Mutant(
        "parts by two draws are apart",
        "privacy/accounting/guarantee.py",
        "(other.name, other.by_person) != (self.name, self.by_person)",
        "other.by_person != self.by_person",
        f"{GUARANTEES}::test_without_a_proof_nothing_is_apart",
    ),
    Mutant(
        "two releases of one part are apart",
        "privacy/accounting/guarantee.py",
        "if first_sample.parts & second_sample.parts:",
        "if first_sample.parts & second_sample.parts and first_sample.by_person:",
        f"{GUARANTEES}::test_without_a_proof_nothing_is_apart",
    ),
    Mutant(
        "records of one person are apart though drawn one by one",
        "privacy/accounting/guarantee.py",
        "if first.unit.most > 1 and not first_sample.by_person:",
        "if first.unit.most > 1 and not first.unit.most:",
        f"{GUARANTEES}::test_without_a_proof_nothing_is_apart",
    ),
)

EVALUATING: Final = (
    Mutant(
        "an evaluation asks before it is charged",
        "methods/evaluate.py",
        "    total = None\n"
        "    if ledger is not None:\n"
        "        total = as_ledger(ledger).reserve(guarantee, name=method.EVALUATION)\n"
        "    federation = in_process.open_federation(study, site_rows)\n",
        "    federation = in_process.open_federation(study, site_rows)\n"
        "    total = None\n"
        "    if ledger is not None:\n"
        "        total = as_ledger(ledger).reserve(guarantee, name=method.EVALUATION)\n",
        f"{EVALUATION}::test_an_evaluation_is_charged_before_it_asks",
    ),
    Mutant(
        "an evaluation's delta is not charged",
        "methods/evaluate.py",
        "reserve(guarantee, name=method.EVALUATION)",
        "reserve(replace(guarantee, delta=guarantee.delta * 0), name=method.EVALUATION)",
        f"{EVALUATION}::test_an_evaluation_is_charged_with_epsilon_and_delta_to_its_unit",
    ),
    Mutant(
        "an evaluation is charged to a record though persons are told",
        "methods/evaluate.py",
        "guarantee = guarantee_of(study, by_person, sample=draw)",
        "guarantee = guarantee_of(study, sample=draw)",
        f"{EVALUATION}::test_an_evaluation_is_charged_with_epsilon_and_delta_to_its_unit",
    ),
    Mutant(
        "noise of an evaluation is made for one record of a person",
        "methods/evaluate.py",
        "        records_per_person=most,\n",
        "        records_per_person=min(most, 1),\n",
        f"{EVALUATION}::test_noise_of_an_evaluation_is_made_for_all_records_of_a_person",
    ),
    Mutant(
        "an evaluation is of one record whatever the model is of",
        "methods/evaluate.py",
        "return fitted_most if most is None else most",
        "return 1 if most is None else most",
        f"{EVALUATION}::test_an_evaluation_has_as_many_records_of_a_person_as_the_model",
    ),
    Mutant(
        "an evaluation forgets whose records these are",
        "methods/evaluated_rows.py",
        "y=self.y, person=self.person, check=",
        "y=self.y, person=None, check=",
        f"{EVALUATION}::test_an_evaluation_keeps_no_more_of_a_person_than_it_says",
    ),
    Mutant(
        "held-out records are drawn on the grid that groups need",
        "methods/evaluated_rows.py",
        "part.is_held_out(grid, own, held_out.one_in)",
        "part.is_held_out(study.schema, own, held_out.one_in)",
        f"{GROUPS}::test_held_out_records_stay_the_same_whatever_is_cut",
    ),
    Mutant(
        "a model is compared with one that was trained on the records it held out",
        "methods/evaluated_rows.py",
        "any(model._held_out_draws is not draws for model in models[1:])",
        "any(model._held_out_draws is not draws for model in models[:1])",
        f"{CHOOSING}::test_stages_share_the_records_that_were_held_out",
    ),
    Mutant(
        "an evaluation of held-out records says that they were trained on",
        "methods/evaluate.py",
        "left_by.part(HELD_OUT)",
        "left_by.part(TRAINED_ON)",
        LARGER,
    ),
    Mutant(
        "a model that held records out claims all of them",
        "methods/base.py",
        "drawn=None if held_out is None else held_out.part(TRAINED_ON),",
        "drawn=None,",
        LARGER,
    ),
    Mutant(
        "the smaller error is the worse one",
        "methods/evaluate.py",
        'return -value if name == "mean_absolute_error" else value',
        "return value",
        f"{EVALUATION}::test_the_better_of_two_numbers_is_the_one_with_the_smaller_error",
    ),
    Mutant(
        "groups that noise hides are asked",
        "methods/blocks/evaluation.py",
        "if not _stand_out(whole.values[0] / by.size, noise, schema):",
        "if by.size < 1:",
        f"{GROUPS}::test_groups_that_noise_hides_are_not_asked_and_not_paid",
    ),
    Mutant(
        "groups are planned as if each had all records",
        "methods/blocks/evaluation.py",
        "records / by.size / math.prod(table)",
        "records / math.prod(table)",
        f"{GROUPS}::test_groups_that_noise_hides_by_plan_are_refused_before_anything_is_charged",
    ),
)

HOLDING: Final = (
    Mutant(
        "secrets of held-out records go to sites by their place",
        "data/site_rows.py",
        "return [self.secrets[name] for name in names]",
        "return list(self.secrets.values())",
        f"{EVALUATION}::test_sites_in_another_order_evaluate_the_same_held_out_records",
    ),
    Mutant(
        "held-out records are evaluated with a site less",
        "data/site_rows.py",
        "if sorted(names) != sorted(self.secrets):",
        "if not set(names) <= set(self.secrets):",
        OTHERWISE,
    ),
    Mutant(
        "held-out records are evaluated with `person` left out",
        "data/site_rows.py",
        "if by_person != self.by_person:",
        "if by_person and not self.by_person:",
        OTHERWISE,
    ),
    Mutant(
        "held-out records are evaluated with more of a person",
        "data/site_rows.py",
        "if records_per_person != self.records_per_person:",
        "if records_per_person < self.records_per_person:",
        OTHERWISE,
    ),
    Mutant(
        "the draws of two fits have one name",
        "data/site_rows.py",
        'canonical_bytes(["held out", self.one_in, self.schema, sorted(keys)])',
        'canonical_bytes(["held out", self.one_in, self.schema, len(keys)])',
        f"{EVALUATION}::test_other_draws_prove_nothing",
    ),
    Mutant(
        "persons of one site are taken for those of another",
        "data/site_rows.py",
        "else ids[rows] for rows in _rows_of_each(y, site, names)]",
        "else ids[rows] for rows in _rows_of_each(y, site, None)]",
        "methods/test_persons.py"
        "::test_persons_go_with_their_rows_in_whatever_order_sites_are_named",
    ),
    Mutant(
        "a fit that fails leaves its draws with the model before it",
        "methods/base.py",
        "            train(self, rows.study, rows.method, server, around)\n        # set together",
        "            self._held_out_draws = held_out\n"
        "            train(self, rows.study, rows.method, server, around)\n        # set together",
        f"{EVALUATION}::test_a_fit_that_fails_leaves_model_and_held_out_records_as_they_were",
    ),
    Mutant(
        "a pickled model holds its sites' secrets",
        "methods/base.py",
        'OWNERS = ("data_report_", "_held_out_draws", "ledger_")',
        'OWNERS = ("data_report_", "ledger_")',
        f"{EVALUATION}::test_secrets_of_held_out_records_stay_with_their_holder",
    ),
)

COMPARING: Final = (
    Mutant(
        "candidates are trained on the records that compare them",
        "methods/model_selection.py",
        "rows, whose = part(~held_out)",
        "rows, whose = part(held_out | ~held_out)",
        f"{CHOOSING}::test_no_record_is_trained_on_by_one_candidate_and_compared_by_another",
    ),
    Mutant(
        "a choice parts the records of one person",
        "methods/model_selection.py",
        "y=mine, person=whose)",
        "y=mine, person=None)",
        f"{CHOOSING}::test_all_records_of_a_person_are_trained_on_or_compared",
    ),
    Mutant(
        "candidates and their comparison do not count persons",
        "methods/model_selection.py",
        'row_columns = {"site": site, "person": person}',
        'row_columns = {"site": site, "person": None}',
        f"{CHOOSING}::test_persons_are_counted_in_every_fit_and_in_the_comparison",
    ),
    Mutant(
        "candidates with other units are trained before they are refused",
        "methods/model_selection.py",
        "Unit(most=own.records_per_person, counted=persons_declared)",
        "Unit(most=1, counted=persons_declared)",
        f"{CHOOSING}::test_choose_refuses_candidates_with_other_units",
    ),
    Mutant(
        "stages of one fit are paid for as fits of their own",
        "methods/evaluate.py",
        "{id(model.privacy_): model.privacy_.guarantee for model in models}",
        "{id(model): model.privacy_.guarantee for model in models}",
        f"{CHOOSING}::test_stages_are_compared_in_the_same_query",
    ),
    Mutant(
        "a comparison is not charged to its ledger",
        "methods/model_selection.py",
        "        ledger=ledger,\n",
        "        ledger=None,\n",
        f"{CHOOSING}"
        "::test_the_command_writes_the_best_and_all_candidates_together_keep_the_promise",
    ),
    Mutant(
        "a ledger has room for the newest fit alone",
        "methods/ledger.py",
        "whole = add_guarantees(_total_guarantee(books), *to_make)",
        "whole = add_guarantees(*to_make)",
        f"{FIT_LEDGER}::test_a_fit_beyond_the_limit_is_refused_before_anything_is_asked",
    ),
    Mutant(
        "a ledger forgets the delta of a fit",
        "methods/ledger.py",
        "guarantee.epsilon, name, guarantee.delta)",
        "guarantee.epsilon, name, guarantee.delta * 0)",
        f"{FIT_LEDGER}::test_pure_and_gaussian_fits_add_up_side_by_side",
    ),
    Mutant(
        "a limit is raised with the other one lowered",
        "methods/ledger.py",
        "if not (limit <= lifetime.limit and failing <= lifetime.delta):",
        "if not (limit <= lifetime.limit or failing <= lifetime.delta):",
        f"{FIT_LEDGER}::test_a_limit_can_be_lowered_and_not_raised",
    ),
    Mutant(
        "a search is begun with room for its first fit",
        "methods/base.py",
        "to_come = 0 if search is None else search.left - 1",
        "to_come = 0",
        "methods/test_no_silence.py::test_a_search_that_a_ledger_has_no_room_for_spends_nothing",
    ),
    Mutant(
        "a search is told with one fold",
        "methods/ledger.py",
        "add_guarantees(*fold_guarantees * folds[1])",
        "add_guarantees(*fold_guarantees)",
        "methods/test_no_silence.py::test_a_search_is_told_with_its_fits_and_their_epsilon",
    ),
)

"""Mistakes in what a study derives from its numbers, and in what a coordinator says about it."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

SLACK: Final = "privacy/test_sampling_slack.py::test_every_draw_is_in_the_slack_of_the_statement"
PERSONS: Final = (
    "privacy/test_pipeline_noise.py"
    "::test_the_noise_of_a_study_of_persons_is_made_for_all_their_records"
)

STUDY: Final = (
    Mutant(
        "colluders are counted on for their noise",
        "privacy/study.py",
        "return self.threshold - self.colluders",
        "return self.threshold",
        "privacy/test_pipeline_noise.py::test_h_honest_shares_are_exactly_the_declared_noise",
    ),
    Mutant(
        "sites that may be lost are counted on for their noise",
        "privacy/study.py",
        "return self.threshold - self.colluders",
        "return self.n_sites - self.colluders",
        "privacy/test_pipeline_noise.py::test_h_honest_shares_are_exactly_the_declared_noise",
    ),
    Mutant(
        "a threshold may exceed the number of sites",
        "secagg/parameters.py",
        "if not 0 <= colluders < threshold <= n_sites:",
        "if not 0 <= colluders < threshold:",
        "privacy/test_study.py::test_a_study_counts_on_no_more_shares_of_noise_than_there_are",
    ),
    Mutant(
        "a person's records are ignored in sums",
        "privacy/study.py",
        "return query.sensitivity(self.unit(query)).of_person(self.records_per_person)",
        "return query.sensitivity(self.unit(query))",
        PERSONS,
    ),
    Mutant(
        "noise is not made for the finer units",
        "privacy/study.py",
        "whole = _law(measure, cost, sensitivity.of_person(factor))",
        "whole = _law(measure, cost, sensitivity)",
        "privacy/test_study.py::test_finer_units_carry_noise_that_is_as_much_finer",
    ),
    Mutant(
        "shares of a Gaussian are as rough as the whole may be",
        "privacy/study.py",
        "while law.sigma2 * factor**2 < SMOOTH_SHARE * shares:",
        "while law.sigma2 * factor**2 < SMOOTH_SHARE:",
        "privacy/test_study.py::test_every_gaussian_share_is_smooth",
    ),
    Mutant(
        "a silo divides its noise as if others added theirs",
        "privacy/study.py",
        "shares = self.honest if self.dp_model is DPModel.DISTRIBUTED else 1\n"
        "        return _noise_of",
        "shares = self.honest if self.n_sites > 1 else 1\n        return _noise_of",
        "privacy/test_pipeline_noise.py"
        "::test_every_placement_that_promises_something_adds_its_own_noise",
    ),
    Mutant(
        "the whole budget is divided among queries, with nothing kept for failures",
        "privacy/study.py",
        "return self.total * (1 - self.retry_budget)",
        "return self.total",
        "federation/test_failures.py"
        "::test_the_reserve_is_no_query_s_and_a_plan_still_ends_after_rounds_have_failed",
    ),
    Mutant(
        "a query may ask for less than nothing",
        "privacy/study.py",
        "        if query.fraction <= 0:\n",
        "        if query.fraction == 0:\n",
        "privacy/test_study.py::test_a_query_asks_for_a_part_of_the_budget",
    ),
    Mutant(
        "labels of one person are told as if they were of several",
        "privacy/study.py",
        "epsilon_per_record = self.epsilon / self.records_per_person",
        "epsilon_per_record = self.epsilon",
        "privacy/test_statement.py::test_several_labels_of_one_person_share_the_promise",
    ),
    Mutant(
        "bits of one person's labels are paid for once",
        "privacy/study.py",
        "return self.records_per_person * Fraction(self.label_reports.epsilon_forever)",
        "return Fraction(self.label_reports.epsilon_forever)",
        "federation/test_label_reports.py::test_bits_of_several_labels_of_a_person_all_count",
    ),
    Mutant(
        "noisy bits of labels may cost twice what was guaranteed",
        "privacy/study.py",
        "if study.entry_cost > study.epsilon:",
        "if study.entry_cost > 2 * study.epsilon:",
        "federation/test_label_reports.py"
        "::test_bits_are_refused_from_the_moment_they_cost_more_than_the_promise",
    ),
    Mutant(
        "the slack counts the draws of one site",
        "privacy/study.py",
        "distance = self.n_sites * size * _total_variation(self.site_law(query))",
        "distance = size * _total_variation(self.site_law(query))",
        SLACK,
    ),
    Mutant(
        "the slack counts one draw of each site",
        "privacy/study.py",
        "distance = self.n_sites * size * _total_variation(self.site_law(query))",
        "distance = self.n_sites * _total_variation(self.site_law(query))",
        SLACK,
    ),
    Mutant(
        "a coalition meets one record of a person",
        "privacy/study.py",
        "touched_coordinates=by_record * self.records_per_person,",
        "touched_coordinates=by_record,",
        "privacy/test_coalition.py"
        "::test_the_worst_placing_of_a_persons_records_costs_what_is_stated",
    ),
    Mutant(
        "records per person are not in the study's hash",
        "privacy/declaration.py",
        "for field_ in fields(Declaration)\n    }",
        "for field_ in fields(Declaration)\n        if field_.name != 'records_per_person'\n    }",
        "privacy/test_study.py::test_everything_that_was_approved_is_in_the_hash",
    ),
    Mutant(
        "keys of the sites are not in the study's hash",
        "privacy/declaration.py",
        "for field_ in fields(Declaration)\n    }",
        "for field_ in fields(Declaration)\n        if field_.name != 'sites'\n    }",
        "privacy/test_study.py::test_no_field_of_a_study_is_left_out_of_its_hash",
    ),
    Mutant(
        "floats are hashed as they are spelled",
        "privacy/declaration.py",
        "    if isinstance(value, float):\n",
        "    if isinstance(value, float) and value != value:\n",
        "privacy/test_study.py"
        "::test_a_float_is_hashed_as_the_ratio_it_is_and_order_does_not_matter",
    ),
    Mutant(
        "a query is charged to everyone's ledger but its own region",
        "privacy/pricing.py",
        "study.charge(query.region, study.cost(query), what, remainder)",
        "study.charge(query.region[:0], study.cost(query), what, remainder)",
        "methods/test_method_contract.py::test_a_run_spends_what_it_reserved_and_never_more",
    ),
    Mutant(
        "half of what a query costs is charged",
        "privacy/pricing.py",
        "study.charge(query.region, study.cost(query), what, remainder)",
        "study.charge(query.region, study.cost(query) / 2, what, remainder)",
        "privacy/test_charges.py::test_what_left_a_site_is_in_its_ledger",
    ),
)

COORDINATOR: Final = (
    Mutant(
        "the coordinator asks and does not charge",
        "federation/server.py",
        '        self.ledger.reserve([item.charge for item in bundle], f"round {number}")\n',
        "",
        "methods/test_method_contract.py::test_a_run_stops_before_it_would_spend_too_much",
    ),
    Mutant(
        "failed rounds are asked again without end of the budget",
        "federation/server.py",
        "return bool(total_cost(worst_path(void_queries)) <= self.study.reserve)",
        "return bool(total_cost(worst_path(void_queries)) <= self.study.total)",
        "federation/test_failures.py"
        "::test_a_failure_beyond_the_reserve_ends_the_run_before_later_rounds_lack_their_budget",
    ),
    Mutant(
        "a failed round is not told",
        "federation/server.py",
        "self.queries += [replace(record_query(number, item), void=True) for item in bundle]\n",
        "pass\n",
        "federation/test_failures.py"
        "::test_a_failure_beyond_the_reserve_ends_the_run_before_later_rounds_lack_their_budget",
    ),
    Mutant(
        "the sampler's slack is dropped",
        "federation/server.py",
        "self.slack += sum((item.noise.slack for item in bundle if item.noise), Fraction(0))",
        "pass",
        SLACK,
    ),
    Mutant(
        "the sampler's slack is that of the last round",
        "federation/server.py",
        "self.slack += sum(",
        "self.slack = sum(",
        SLACK,
    ),
    Mutant(
        "entering is free where labels are randomized",
        "federation/server.py",
        "            self.ledger.reserve_once(entry, ENTRY_ID)\n",
        "            _ = entry\n",
        "federation/test_dp_models.py::test_labels_are_paid_for_once_on_entering",
    ),
    Mutant(
        "an answer states the noise of the honest sites only",
        "privacy/study.py",
        "summands = self.n_sites if members is None else members",
        "summands = self.honest",
        "privacy/test_pipeline_noise.py::test_the_variance_an_answer_states_is_that_of_all_shares",
    ),
    Mutant(
        "the least charged record stands for all",
        "privacy/statement/spending.py",
        "path += max((worst_path(",
        "path += min((worst_path(",
        "privacy/test_statement.py::test_the_worst_path_costs_what_the_ledger_says",
    ),
    Mutant(
        "the slack is not multiplied for the other data set",
        "privacy/statement/statement.py",
        "factor = 1 + rounding.context().exp(epsilon)",
        "factor = rounding.context().exp(epsilon)",
        SLACK,
    ),
    Mutant(
        "one colluder more is no colluder more",
        "privacy/statement/wording.py",
        "_against(study, queries, study.colluders + 1)",
        "_against(study, queries, study.colluders)",
        "privacy/test_coalition.py::test_the_statement_prices_choices_and_every_record_of_a_person",
    ),
    Mutant(
        "choices are left out of the price of a coalition",
        "privacy/statement/wording.py",
        "dearer = [q if q.release is None else",
        "dearer = [replace(q, cost=0 * q.cost) if q.release is None else",
        "privacy/test_coalition.py::test_the_statement_prices_choices_and_every_record_of_a_person",
    ),
    Mutant(
        "a schema that was read from the rows costs nothing",
        "privacy/statement/wording.py",
        "is_open = study.dp_model is DPModel.NONE or bool(study.schema.unconfirmed)",
        "is_open = study.dp_model is DPModel.NONE",
        "privacy/test_statement.py::test_a_schema_read_from_rows_makes_epsilon_infinite_in_every_face",
    ),
    Mutant(
        "what a sparse graph may expose is not in delta",
        "privacy/study.py",
        "return self.delta - self.graph_delta",
        "return self.delta",
        "federation/test_sparse_studies.py"
        "::test_what_a_sparse_graph_may_expose_is_a_part_of_the_promised_delta",
    ),
)

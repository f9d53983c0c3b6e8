"""Mistakes in the papers' methods by name: in what makes them and in what they are said to cost."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

FACTOR: Final = (
    "methods/test_papers.py::test_the_honest_epsilon_is_the_printed_one_times_its_factor"
)
FORESTS: Final = "methods/test_paper_forests.py"
TREES: Final = "methods/test_paper_trees.py"

PAPERS: Final = (
    Mutant(
        "what makes a method can be changed under its name",
        "methods/presets.py",
        "if name in arguments and name not in self.own and arguments[name] != value:",
        "if name in arguments and name not in self.own and arguments[name] is None:",
        "methods/test_papers.py::test_what_makes_a_method_cannot_be_changed_under_its_name",
    ),
    Mutant(
        "the paper's numbers stand above what was typed",
        "methods/presets.py",
        "return kind(**{**self._used_values(kind, typed), **typed})",
        "return kind(**{**typed, **self._used_values(kind, typed)})",
        f"{TREES}::test_algorithm_5_without_noise_is_algorithm_2_and_spends_as_printed",
    ),
    Mutant(
        "a printed epsilon that does not hold can be claimed",
        "methods/presets.py",
        'if "epsilon" in arguments:',
        'if "epsilon" in arguments and factor < 1:',
        "methods/test_papers.py::test_a_printed_epsilon_that_does_not_hold_cannot_be_claimed",
    ),
    Mutant(
        "the statement of a printed method says the paper's epsilon",
        "methods/presets.py",
        'return {"epsilon": float(published_epsilon * factor)}',
        'return {"epsilon": float(published_epsilon)}',
        FACTOR,
    ),
    Mutant(
        "K medians are charged as one",
        "methods/consul.py",
        "return 1 - rho + rho * (k + Fraction(1, 2)) / 2",
        "return 1 - rho + rho * (1 + Fraction(1, 2)) / 2",
        FACTOR,
    ),
    Mutant(
        "a printed median forest pays for features that its schema does not have",
        "methods/consul.py",
        'k = min(values["max_features"] or n, n)',
        'k = values["max_features"] or n',
        f"{FORESTS}::test_what_is_printed_of_diprime_exp_keeps_the_paper_s_epsilons",
    ),
    Mutant(
        "leaves of a printed median forest have their part of the honest epsilon",
        "methods/consul.py",
        'return {"leaf_fraction": float(part / _printed_factor(schema, values))}',
        'return {"leaf_fraction": float(part)}',
        f"{FORESTS}::test_what_is_printed_of_diprime_exp_keeps_the_paper_s_epsilons",
    ),
    Mutant(
        "DiPriMeFlip is DiPriMeExp by another name",
        "methods/consul.py",
        'FLIP = {"split": "medians", "mechanism": "permute_and_flip"}',
        'FLIP = {"split": "medians", "mechanism": "exponential"}',
        f"{FORESTS}::test_diprime_exp_and_flip_take_the_median_that_the_target_likes_best",
    ),
    Mutant(
        "as released is as published",
        "methods/gubler.py",
        'fixed_parameters={"budget_saving": True, "accounting": "released"},',
        'fixed_parameters={"budget_saving": True, "accounting": "published"},',
        f"{TREES}::test_algorithm_6_as_released_has_bounds_of_zero_and_asks_for_none",
    ),
    Mutant(
        "bounds of Algorithm 6 have half of a node's budget",
        "methods/gubler.py",
        'BOUNDED = {**GUBLER_DEFAULTS, "bounds_fraction": 0.25}',
        'BOUNDED = {**GUBLER_DEFAULTS, "bounds_fraction": 0.5}',
        f"{TREES}::test_bounds_spend_what_each_account_gives_them",
    ),
    Mutant(
        "saved budget is spent again without its bounds",
        "methods/gubler.py",
        "below, slope = below + slope * level, bounds + hists * (1 - unspent + unspent * slope)",
        "below, slope = below + slope * level, bounds + hists",
        f"{TREES}::test_the_honest_epsilon_of_algorithm_6_is_that_of_its_dearest_path",
    ),
    Mutant(
        "entities of NoisyCounts share their noise",
        "methods/wang.py",
        'usual={**WANG_DEFAULTS, "dp_model": "per_site"},',
        "usual=WANG_DEFAULTS,",
        f"{TREES}::test_every_entity_adds_enough_noise_for_itself",
    ),
    Mutant(
        "LocalRNM runs no noisy max",
        "methods/wang.py",
        'fixed_parameters={"split": "local_choice", "mechanism": "report_noisy_max"},',
        'fixed_parameters={"split": "local_choice", "mechanism": "permute_and_flip"},',
        f"{TREES}::test_half_of_a_node_is_for_a_real_noisy_max_and_half_for_fresh_counts",
    ),
    Mutant(
        "a part p of all trees is one tree",
        "methods/maddock.py",
        'return {"trees_per_round": max(1, int(p * _trees(values)))}',
        'return {"trees_per_round": 1}',
        f"{FORESTS}::test_leaves_of_boosted_trees_are_the_steps_of_the_paper[dp_tr_batch]",
    ),
    Mutant(
        "leaves of the paper's boosted trees are pulled unasked",
        "methods/maddock.py",
        'steps = PublishedSteps if self.leaf_values == "published" else Steps',
        "steps = Steps",
        f"{FORESTS}::test_a_printed_leaf_whose_noisy_hessian_is_not_positive_says_nothing",
    ),
    Mutant(
        "a printed split is scored as if its steps had no clip",
        "methods/blocks/newton_steps.py",
        "-(2.0 * g * steps + whole * steps**2)",
        "g**2 / whole",
        f"{FORESTS}::test_a_side_of_a_printed_split_is_scored_by_the_step_it_takes",
    ),
    Mutant(
        "the tables of a published tree agree",
        "methods/maddock.py",
        'PUBLISHED_SPLITS = {"consistency": False, "noise_gate": False}',
        'PUBLISHED_SPLITS = {"consistency": True, "noise_gate": False}',
        "methods/test_papers.py::"
        "test_every_departure_is_off_under_the_paper_s_names_or_says_why_it_cannot_be",
    ),
    Mutant(
        "a published average has the noise of disjoint classes",
        "methods/maddock.py",
        'return self.leaf_values == "published" and n_classes in (0, 2)',
        "return n_classes == 99",
        "methods/test_maddock.py::test_published_averages_ask_a_pair_of_norm_root_two",
    ),
    Mutant(
        "a published node is not weighed",
        "methods/wang.py",
        "halves = 2 if self.weight_query and node.depth else 1",
        "halves = 1",
        f"{TREES}::test_depths_have_the_budgets_of_the_paper",
    ),
    Mutant(
        "records of the LDP baseline share their noise",
        "methods/maddock.py",
        '{**RANDOM, "dp_model": "per_site"},',
        '{**RANDOM, "dp_model": "distributed"},',
        f"{FORESTS}::test_every_record_of_the_ldp_baseline_adds_noise_for_all_trees",
    ),
    Mutant(
        "clients of FET-GDP share their noise",
        "methods/liu.py",
        'AT_EACH_SITE = {"split": "best", "dp_model": "per_site"}',
        'AT_EACH_SITE = {"split": "best", "dp_model": "distributed"}',
        f"{FORESTS}::test_every_client_of_fet_gdp_adds_laplace_noise_for_itself",
    ),
)

"""Mistakes in what a record adds to a sum, and in how far it is said to move one."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

MOVES: Final = "privacy/test_sensitivity.py::"
NEVER_MORE: Final = f"{MOVES}test_one_record_never_moves_a_sum_by_more_than_declared"
OF_BOUNDS: Final = f"{NEVER_MORE}[Schema-BoundQuery0]"

QUERIES: Final = (
    Mutant(
        "trees of a forest are taken for parallel",
        "privacy/queries/kinds.py",
        "return self.statistic.bound(unit).repeat(self.by.groups)",
        "return self.statistic.bound(unit)",
        f"{NEVER_MORE}[Schema-Fractions-by-Leaves]",
    ),
    Mutant(
        "bounds of all features are priced as one",
        "privacy/queries/kinds.py",
        ".repeat(len(self.features))",
        "",
        "privacy/test_charges.py::test_what_left_a_site_is_in_its_ledger",
    ),
    Mutant(
        "a bound's L2 norm is not squared",
        "privacy/queries/kinds.py",
        "Sensitivity(unit, unit**2, unit)",
        "Sensitivity(unit, unit, unit)",
        OF_BOUNDS,
    ),
    Mutant(
        "norms on the lattice are rounded down",
        "privacy/queries/statistics.py",
        "Sensitivity(ceil(l1 * unit), ceil(l2 * unit**2), ceil(linf * unit))",
        "Sensitivity(int(l1 * unit), int(l2 * unit**2) - 1, int(linf * unit))",
        "kernels/test_units.py::test_no_loss_needs_the_clamp_at_any_score",
    ),
    Mutant(
        "complementary fractions are declared as halves",
        "privacy/queries/statistics.py",
        "return Sensitivity(unit, unit**2, unit)",
        "return Sensitivity(unit, unit**2 // 2, unit)",
        "kernels/test_units.py::test_no_honest_record_meets_the_clamp",
    ),
    Mutant(
        "a target outside the asked range is not clipped",
        "privacy/queries/statistics.py",
        "(np.clip(records.target, self.low, self.high) - self.low)",
        "(records.target - self.low)",
        "kernels/test_units.py::test_no_honest_record_meets_the_clamp",
    ),
    Mutant(
        "the L1 norm of proportional odds is said to be 1",
        "models/losses.py",
        "norms: ClassVar[Norms] = Norms(Fraction(5, 4), ONE, ONE)",
        "norms: ClassVar[Norms] = Norms(ONE, Fraction(1), Fraction(1))",
        "models/test_model.py::test_no_record_of_any_odds_is_longer_than_one",
    ),
    Mutant(
        "a censored record has an event's gradient",
        "models/losses.py",
        "g = end + start - has_event",
        "g = end + start - 1.0",
        "models/test_model.py::test_gradients_are_those_of_the_likelihood",
    ),
    Mutant(
        "an event beyond the last edge counts as one at it",
        "models/losses.py",
        "has_event = (target > 0.0) & (target <= edges[-1])",
        "has_event = target > 0.0",
        "models/test_model.py::test_beyond_the_last_edge_a_record_is_censored_there",
    ),
    Mutant(
        "events and censored records share a channel",
        "privacy/queries/statistics.py",
        "has_event = (records.target > 0.0) * (len(self.edges) + 1)",
        "has_event = (records.target > 0.0) * len(self.edges)",
        "methods/test_survival.py::test_times_are_counted_by_interval_and_event",
    ),
    Mutant(
        "events of one interval are no pair of the C-index",
        "report/measures.py",
        "later = after + counts[:, :, :-1].sum(axis=1) / 2.0",
        "later = after + counts[:, 0, :-1] / 2.0",
        "report/test_page.py::test_groups_and_wide_intervals_flatter_nobody",
    ),
    Mutant(
        "odds of another schema are asked",
        "privacy/queries/statistics.py",
        "return loss_incompatibility(self.loss, schema) or model_incompatibility(start, schema)",
        "return model_incompatibility(start, schema)",
        "methods/test_survival.py::test_a_step_on_weights_is_refused_for_other_losses",
    ),
    Mutant(
        "the L1 norm of the log-loss is said to be 1",
        "models/losses.py",
        "Norms((1 + BINARY_SCALE) ** 2 / (4 * BINARY_SCALE), ONE, ONE)",
        "Norms(ONE, ONE, ONE)",
        f"{MOVES}test_the_l1_norm_of_the_log_loss_is_reached_and_a_norm_of_one_is_seen",
    ),
    Mutant(
        "the binary Hessian scale is a trace too large",
        "models/losses.py",
        "BINARY_HESSIAN_SCALE = 3.33\n",
        "BINARY_HESSIAN_SCALE = 3.34\n",
        f"{MOVES}test_the_log_loss_keeps_norm_one_at_its_hessian_scale",
    ),
    Mutant(
        "softmax has the Hessian scale of two classes",
        "models/losses.py",
        "SOFTMAX_HESSIAN_SCALE = 2.0\n",
        "SOFTMAX_HESSIAN_SCALE = 3.33\n",
        f"{MOVES}test_softmax_keeps_squared_norm_two",
    ),
    Mutant(
        "the count beside a gradient is free",
        "models/losses.py",
        "return Norms(classes + 1, classes + 1, ONE)",
        "return Norms(classes + 1, classes, ONE)",
        "methods/test_boosting_classes.py::test_gradients_with_a_count_or_a_plain_hessian_keep_their_norms",
    ),
    Mutant(
        "Hessians of many classes have the bound of two",
        "models/losses.py",
        "return Norms(1 - Fraction(1, self.n_classes), Fraction(4, 27), QUARTER)",
        "return Norms(QUARTER, QUARTER**2, QUARTER)",
        "methods/test_boosting_classes.py::test_hessians_alone_keep_their_own_norms",
    ),
    Mutant(
        "residuals are not clipped",
        "models/losses.py",
        "g = -np.clip(residual, -self.clip, self.clip) / self.clip",
        "g = -residual / self.clip",
        "kernels/test_units.py::test_no_loss_needs_the_clamp_at_any_score",
    ),
    Mutant(
        "the reach of the Gini score is halved",
        "privacy/queries/choices.py",
        "            case Score.GINI:\n                return 2 * LATTICE",
        "            case Score.GINI:\n                return LATTICE",
        f"{MOVES}test_the_range_of_score_changes_over_candidates_is_at_most_the_reach",
    ),
    Mutant(
        "the reach of the entropy lacks its last term",
        "privacy/queries/choices.py",
        "(np.log(self.rows_at_most + 1.0) + 1.0) * LATTICE",
        "np.log(self.rows_at_most + 1.0) * LATTICE",
        "methods/test_private_split.py"
        "::test_every_small_count_table_moves_the_entropy_within_its_reach_beyond_the_bound_too",
    ),
    Mutant(
        "the balance of a score is free",
        "privacy/queries/choices.py",
        "return self._reach_of_score + self.balance",
        "return self._reach_of_score",
        f"{MOVES}test_the_range_of_score_changes_over_candidates_is_at_most_the_reach",
    ),
    Mutant(
        "the squared error of a record is said to be a half",
        "privacy/queries/choices.py",
        "            case Score.SQUARED_ERROR:\n                return LATTICE",
        "            case Score.SQUARED_ERROR:\n                return LATTICE // 2",
        f"{MOVES}test_the_range_of_score_changes_over_candidates_is_at_most_the_reach",
    ),
    Mutant(
        "Newton vectors are held against no bound",
        "data/sums.py",
        "return min(bound.l2_squared, bound.linf**2, bound.l1**2 // statistic.channels)",
        "return bound.l2_squared << 40",
        "kernels/test_newton.py::test_no_record_adds_more_than_declared_whatever_the_query_says",
    ),
    Mutant(
        "a gradient of surfaces is held against no bound",
        "kernels/surfaces.py",
        "fits = squares * norm <= limit",
        "fits = np.isfinite(squares)",
        "kernels/test_surface_sums.py::test_no_record_adds_more_than_declared_whatever_the_query_says",
    ),
    Mutant(
        "a record's functions are not scaled to the radius",
        "kernels/surfaces.py",
        "scale = radius / np.sqrt(np.maximum(norm, radius**2))",
        "scale = np.ones_like(norm)",
        "kernels/test_surface_sums.py::test_the_sum_is_the_sum_of_the_records",
    ),
    Mutant(
        "of several classes the bound holds the last one's gradient alone",
        "kernels/surfaces.py",
        "            squares += own * own",
        "            squares = own * own",
        "kernels/test_surface_sums.py::test_no_record_adds_more_than_declared_whatever_the_query_says",
    ),
    Mutant(
        "a gradient of many classes is not scaled to its clip",
        "models/losses.py",
        "np.maximum(LONGER * np.sqrt(squares), clip)[:, None]",
        "clip",
        "kernels/test_surface_sums.py::test_honest_records_are_never_left_out",
    ),
    Mutant(
        "a gradient of surfaces declares half of its norm",
        "privacy/queries/statistics.py",
        "l2 = self.units(unit) * self.radius",
        "l2 = self.units(unit) * self.radius // 2",
        "kernels/test_surface_sums.py::test_no_record_adds_more_than_declared_whatever_the_query_says",
    ),
    Mutant(
        "a loss of two classes is asked of any number of them",
        "privacy/queries/statistics.py",
        "            return _other_classes(2, schema)\n",
        "            return None\n",
        "privacy/test_statistics.py::test_a_loss_is_asked_of_its_own_kind_of_target_only",
    ),
    Mutant(
        "a record may weigh more than 1, or less than nothing",
        "privacy/queries/statistics.py",
        "if not 0.0 < loss.weight <= 1.0:",
        "if loss.weight == 0.0:",
        "privacy/test_statistics.py::test_a_squared_loss_keeps_to_the_target_s_own_range",
    ),
    Mutant(
        "a model of one output is stretched over many",
        "privacy/queries/statistics.py",
        "and at.outputs != loss.outputs:",
        "and at.outputs > loss.outputs:",
        "privacy/test_statistics.py::test_a_model_has_as_many_outputs_as_the_loss",
    ),
    Mutant(
        "a radius may be as small as it likes",
        "privacy/queries/statistics.py",
        "if not SMALLEST_RADIUS <= self.radius <= LARGEST_RADIUS:",
        "if not 0.0 < self.radius <= LARGEST_RADIUS:",
        "privacy/test_statistics.py::test_a_radius_that_cannot_be_divided_by_is_refused",
    ),
)

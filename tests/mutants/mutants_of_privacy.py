"""Mistakes in noise, accounting and ledger."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

NOISE: Final = (
    Mutant(
        "a Laplace share is made for one more site than counted on",
        "privacy/mechanisms/mechanisms.py",
        "return self if h == 1 else PolyaDifference(self.rate, h)",
        "return self if h == 1 else PolyaDifference(self.rate, h + 1)",
        "privacy/test_laws.py::test_the_variances_of_the_shares_add_up",
    ),
    Mutant(
        "a Gaussian share divides the variance twice",
        "privacy/mechanisms/mechanisms.py",
        "return DiscreteGaussian(self.sigma2 / h)",
        "return DiscreteGaussian(self.sigma2 / h**2)",
        "privacy/test_laws.py::test_the_variances_of_the_shares_add_up",
    ),
    Mutant(
        "the Polya law falls too fast",
        "privacy/mechanisms/sampling.py",
        "(h * k + 1) // (h * (k + 1))",
        "(h * k + 1) // (h * (k + 1) + 1)",
        "privacy/test_sampling_slack.py::test_every_threshold_of_192_bits_is_within_two_units",
    ),
    Mutant(
        "the discrete Gaussian is too narrow",
        "privacy/mechanisms/sampling.py",
        "ratio = exp_bounds(1 / (2 * sigma2), LAW_BITS)[0]",
        "ratio = exp_bounds(1 / sigma2, LAW_BITS)[0]",
        "privacy/test_sampling_slack.py::test_every_threshold_of_192_bits_is_within_two_units",
    ),
    Mutant(
        "two-sided noise is a sum instead of a difference",
        "privacy/mechanisms/sampling.py",
        "np.asarray(pairs[:size] - pairs[size:])",
        "np.asarray(pairs[:size] + pairs[size:])",
        "privacy/test_laws.py::test_a_single_share_follows_its_own_law",
    ),
    Mutant(
        "Laplace noise knows a minus zero",
        "privacy/mechanisms/sampling.py",
        "rejected_places = np.flatnonzero((out == 0) & minus.view(np.bool_))",
        "rejected_places = np.flatnonzero((out < 0) & minus.view(np.bool_))",
        "privacy/test_sampling_slack.py"
        "::test_every_sign_of_a_geometric_number_is_one_value_and_minus_zero_is_none",
    ),
    Mutant(
        "a coin of a wide Gaussian is not looked at where it may be lost",
        "privacy/mechanisms/sampling.py",
        "return exp_at_least(most * (np.uint64(2) * coarse + most), 2 * sigma2)",
        "return exp_at_least(most * coarse, 2 * sigma2)",
        "privacy/test_sampling_slack.py"
        "::test_a_uniform_below_the_sure_chance_is_below_that_of_every_fine_part",
    ),
    Mutant(
        "the wide Gaussian's coin forgets the sign",
        "privacy/mechanisms/sampling.py",
        "excess = fine + negative  # |k| - coarse",
        "excess = fine",
        "privacy/test_laws.py::test_the_wide_sampler_gives_single_integers_their_probability",
    ),
    Mutant(
        "a tie goes to the lower value",
        "privacy/mechanisms/sampling.py",
        "if total >> (LAW_BITS - EXACT_BITS) > point:",
        "if total >> (LAW_BITS - EXACT_BITS) >= point:",
        "privacy/test_sampling_slack.py::test_a_word_on_a_threshold_is_settled_by_the_next_128_bits",
    ),
    Mutant(
        "the variation of one of the two draws is forgotten",
        "privacy/mechanisms/sampling.py",
        "return 2 * total_variation_of(Polya(law.rate, law.shares))",
        "return total_variation_of(Polya(law.rate, law.shares))",
        "privacy/test_sampling_slack.py::test_a_difference_is_as_far_from_its_law_as_both_of_its_draws",
    ),
    Mutant(
        "a forked child goes on with its parent's words",
        "privacy/mechanisms/coins.py",
        "if self._forks_seen != _forks:",
        "if self._forks_seen > _forks:",
        "privacy/test_randomness.py::test_a_forked_child_draws_other_words_than_its_parent",
    ),
    Mutant(
        "a uniform number reaches its bound",
        "privacy/mechanisms/coins.py",
        "if candidate < n:",
        "if candidate <= n:",
        "privacy/test_randomness.py::test_below_gives_every_value_for_exactly_as_many_bytes",
    ),
    Mutant(
        "the coin of exp shows its other side",
        "privacy/mechanisms/coins.py",
        "return k % 2 == 1",
        "return k % 2 == 0",
        "privacy/test_randomness.py::test_the_exp_coin_has_exactly_its_bias_as_far_as_enumerated",
    ),
    Mutant(
        "a coin on the edge is taken for heads",
        "privacy/mechanisms/coins.py",
        "heads = uniforms + np.uint64(1) + _UNSURE <= estimate",
        "heads = uniforms <= estimate + _UNSURE",
        "privacy/test_randomness.py::test_many_coins_agree_with_exact_bounds_near_every_edge",
    ),
    Mutant(
        "the exponential mechanism keeps one integer more than the weight",
        "privacy/mechanisms/selection.py",
        "if offset < low[chosen] or falls_below_exp(",
        "if offset <= low[chosen] or falls_below_exp(",
        "privacy/test_selection.py"
        "::test_the_integer_between_the_bounds_of_a_weight_is_settled_by_a_coin",
    ),
    Mutant(
        "permute-and-flip asks a candidate again that was turned down",
        "privacy/mechanisms/selection.py",
        "        waiting.pop()\n",
        "",
        "privacy/test_selection.py::test_draws_follow_the_exact_probabilities",
    ),
    Mutant(
        "a label is told too truthfully by rounding",
        "privacy/mechanisms/response.py",
        "odds = exp_bounds(epsilon, 128)[1]",
        "odds = exp_bounds(epsilon, 128)[0] * 99 // 100",
        "privacy/test_response.py::test_a_response_never_costs_more_than_asked",
    ),
    Mutant(
        "a lie about a label may be the truth",
        "privacy/mechanisms/response.py",
        "other_label + (other_label >= labels))",
        "other_label + (other_label > labels))",
        "privacy/test_response.py::test_label_counts_are_recovered_from_answers_of_records",
    ),
    Mutant(
        "permanent bits flip half as often as stated",
        "privacy/mechanisms/response.py",
        "self.code[labels] ^ (words < np.uint64(self._flip_words))",
        "self.code[labels] ^ (words < np.uint64(self._flip_words // 2))",
        "privacy/test_response.py::test_permanent_bits_flip_for_exactly_the_stated_words",
    ),
)

ACCOUNTING: Final = (
    Mutant(
        "a short rational is rounded down",
        "privacy/accounting/rounding.py",
        "return math.ceil(number * Fraction(2) ** shift) / Fraction(2) ** shift",
        "return math.floor(number * Fraction(2) ** shift) / Fraction(2) ** shift",
        "privacy/test_conversions.py::test_short_rationals_lie_on_the_promised_side",
    ),
    Mutant(
        "a Gaussian budget is rounded up",
        "privacy/accounting/gaussian.py",
        "return rounding.rounded_down(mu**2)",
        "return rounding.above(mu**2 * (1 + rounding.real(Fraction(1, 10**6))))",
        "privacy/test_conversions.py"
        "::test_a_budget_spent_to_the_end_keeps_its_promise_and_wastes_next_to_nothing",
    ),
    Mutant(
        "integer noise is priced as real-valued noise",
        "privacy/accounting/gaussian.py",
        "return w * (1 + w * (Fraction(1, 12) + w * (Fraction(13, 1440) + w / 750)))",
        "return w",
        "privacy/test_conversions.py::test_the_series_bounds_the_centre_step_from_above_and_closely",
    ),
    Mutant(
        "groups of a query are taken for parallel in the L1 norm",
        "models/losses.py",
        "Sensitivity(self.l1 * times, self.l2_squared * times, self.linf)",
        "Sensitivity(self.l1, self.l2_squared * times, self.linf)",
        "privacy/test_charges.py::test_what_left_a_site_is_in_its_ledger",
    ),
    Mutant(
        "groups of a query are taken for parallel in the L2 norm",
        "models/losses.py",
        "Sensitivity(self.l1 * times, self.l2_squared * times, self.linf)",
        "Sensitivity(self.l1 * times, self.l2_squared, self.linf)",
        "privacy/test_sensitivity.py::test_one_record_never_moves_a_sum_by_more_than_declared"
        "[Schema-Fractions-by-Leaves]",
    ),
    Mutant(
        "a person's records are taken for orthogonal",
        "models/losses.py",
        "self.l2_squared * records**2",
        "self.l2_squared * records",
        "privacy/test_study.py::test_a_person_moves_a_gaussian_sum_by_all_their_records_at_once",
    ),
    Mutant(
        "a coalition is counted without its colluders",
        "privacy/accounting/coalition.py",
        "return Fraction(max(0, self.t - self.colluders), self.h)",
        "return Fraction(max(0, self.t - 1), self.h)",
        "privacy/test_coalition.py::test_nothing_is_promised_when_every_survivor_may_collude",
    ),
    Mutant(
        "a coalition is priced for one coordinate",
        "privacy/accounting/coalition.py",
        "return min(self.touched_coordinates or self.sensitivity.l1, self.sensitivity.l1)",
        "return 1",
        "privacy/test_coalition.py"
        "::test_the_worst_placing_of_a_persons_records_costs_what_is_stated",
    ),
    Mutant(
        "permute-and-flip is priced as if its loss were ranged",
        "privacy/accounting/conversions.py",
        "return (2 if is_bounded_range else 1) * epsilon",
        "return 2 * epsilon",
        "privacy/test_conversions.py::test_randomized_response_meets_its_gaussian_curve_exactly"
        "_and_would_break_the_ranged_one",
    ),
    Mutant(
        "Laplace noise is made for the largest coordinate alone",
        "privacy/accounting/conversions.py",
        "return DiscreteLaplace(cost / sensitivity.l1)",
        "return DiscreteLaplace(cost / sensitivity.linf)",
        "privacy/test_conversions.py::test_laplace_noise_divides_the_cost_by_the_l1_norm",
    ),
    Mutant(
        "a Gaussian study takes half its rho from the lifetime",
        "privacy/accounting/conversions.py",
        "        return spent / 2\n",
        "        return spent / 4\n",
        "privacy/test_conversions.py::test_studies_enter_a_lifetime_in_rho",
    ),
    Mutant(
        "printed numbers are rounded to the nearest",
        "privacy/accounting/rounding.py",
        "Context(prec=digits, rounding=ROUND_CEILING)",
        'Context(prec=digits, rounding="ROUND_HALF_EVEN")',
        "privacy/test_statement.py::test_delta_is_never_printed_smaller_than_it_is",
    ),
    Mutant(
        "a sparse graph adds nothing to delta",
        "privacy/accounting/conversions.py",
        "return Fraction(rounds, 2**sigma)",
        "return Fraction(1, 2**sigma)",
        "federation/test_sparse_studies.py"
        "::test_what_a_sparse_graph_may_expose_is_a_part_of_the_promised_delta",
    ),
)

OF_FAILURES: Final = "federation/test_failures.py::"
SEEN_BY_THE_SECOND: Final = (
    "audit/test_shadow.py::test_whatever_is_asked_no_record_loses_more_than_it_was_charged_for"
)
REMAINDERS: Final = (
    Mutant(
        "a selection is priced as if the remainder had no end",
        "privacy/accounting/conversions.py",
        "square = cost * remainder / (cost + remainder)",
        "square = cost",
        "privacy/test_conversions.py"
        "::test_a_selection_among_sums_is_below_the_noise_that_it_is_priced_as[1.0-1.0]",
    ),
    Mutant(
        "a selection is priced by twice the remainder that it leaves",
        "privacy/study.py",
        "conversions.selection_epsilon(self.measure, cost, name, self.remainder(query))",
        "conversions.selection_epsilon(self.measure, cost, name, 2 * self.remainder(query))",
        SEEN_BY_THE_SECOND,
    ),
    Mutant(
        "a charge does not say what remainder it was priced by",
        "privacy/pricing.py",
        "charge = study.charge(query.region, study.cost(query), what, remainder)",
        "charge = study.charge(query.region, study.cost(query), what)",
        SEEN_BY_THE_SECOND,
    ),
    Mutant(
        "a ledger lets later selections use the remainder of earlier ones up",
        "privacy/ledger/charges.py",
        "        part.total = max(part.total, total)\n",
        "",
        "privacy/test_charges.py::test_a_selection_leaves_what_it_was_priced_by_or_is_refused",
    ),
    Mutant(
        "a remainder stands alone, whatever was spent before",
        "privacy/ledger/charges.py",
        "self._root.parts[charge.study].total + self._units(charge.remainder)",
        "self._units(charge.remainder)",
        "privacy/test_charges.py"
        "::test_what_remains_after_every_round_is_what_its_selections_were_priced_by",
    ),
    Mutant(
        "a refused round leaves its remainder behind",
        "privacy/ledger/charges.py",
        "        changes.append((part, part.total))\n",
        "",
        "privacy/test_charges.py"
        "::test_a_round_of_many_selections_leaves_the_largest_of_what_they_were_priced_by",
    ),
    Mutant(
        "a remainder is cut off at the units of the charges",
        "privacy/ledger/charges.py",
        "(cost for charge in charges for cost in (charge.cost, charge.remainder))",
        "(charge.cost for charge in charges)",
        "privacy/test_charges.py"
        "::test_what_remains_after_every_round_is_what_its_selections_were_priced_by",
    ),
    Mutant(
        "a remainder is not written into the ledger's file",
        "privacy/ledger/events.py",
        '{"remainder": cost_text(charge.remainder)} if charge.remainder else {}',
        "{}",
        "privacy/test_ledger_chain.py"
        "::test_what_a_selection_left_stays_spent_over_a_restart_and_a_close",
    ),
    Mutant(
        "a server tells a selection a remainder that is not there",
        "federation/server.py",
        "remaining = 1 - Fraction(self._tally.total) / study.spendable",
        "remaining = Fraction(1)",
        OF_FAILURES
        + "test_selections_among_sums_leave_what_is_left_whether_or_not_a_round_fails[failing0]",
    ),
    Mutant(
        "a statement leaves out the remainder that nobody used",
        "privacy/statement/spending.py",
        "    if not unused_cost > 0:\n",
        "    if unused_cost:\n",
        OF_FAILURES + "test_a_run_that_ends_early_has_spent_what_its_selections_were_priced_by",
    ),
    Mutant(
        "a remainder of pure epsilon is admitted",
        "privacy/admission.py",
        "if study.measure is Measure.PURE or query.remainder < 0:",
        "if query.remainder < 0:",
        "privacy/test_admission.py"
        "::test_what_no_recipe_would_ask_is_refused[a remainder of pure epsilon]",
    ),
)

LEDGER: Final = (
    Mutant(
        "a ledger has a little tolerance",
        "privacy/ledger/charges.py",
        "if not spent <= limit:",
        "if not spent <= limit + Fraction(1, 10**12):",
        "privacy/test_charges.py::test_the_limit_itself_is_allowed_and_the_least_above_it_is_not",
    ),
    Mutant(
        "what is not a number is within every limit",
        "privacy/ledger/charges.py",
        "if not spent <= limit:",
        "if spent > limit:",
        "privacy/test_charges.py::test_not_a_number_is_never_within_a_limit",
    ),
    Mutant(
        "different tests do not add",
        "privacy/ledger/charges.py",
        "node, parent.total = parent, before + gain",
        "node, parent.total = parent, max(before, test.total)",
        "privacy/test_charges.py::test_different_tests_add",
    ),
    Mutant(
        "a round is charged as often as it is asked",
        "privacy/ledger/charges.py",
        "    if is_used:\n",
        "    if is_used and not study:\n",
        "privacy/test_charges.py::test_a_round_is_charged_once_and_is_of_one_study",
    ),
    Mutant(
        "charges are taken back in the wrong order",
        "privacy/ledger/charges.py",
        "for part, before in reversed(changes):",
        "for part, before in changes:",
        "privacy/test_charges.py::test_charges_taken_back_were_never_there",
    ),
    Mutant(
        "a refused round leaves its charge in the tally",
        "privacy/ledger/charges.py",
        "            self._tally.undo(changes)\n",
        "",
        "privacy/test_charges.py::test_a_refused_round_leaves_no_trace",
    ),
    Mutant(
        "studies in disjoint regions share a budget",
        "privacy/ledger/charges.py",
        "node = self._part(self._part(self._root, study), 0)",
        "node = self._root",
        "privacy/test_charges.py::test_studies_add_even_where_their_regions_are_disjoint",
    ),
    Mutant(
        "the link to the entry before is not checked",
        "privacy/ledger/chain.py",
        "if entry.head != _digest(_ENTRY, str(entry.seq), end.everything, entry.body):",
        "if not entry.head:",
        "privacy/test_ledger_chain.py::test_tampering_is_noticed_and_stops_all_charges",
    ),
    Mutant(
        "the signature of an entry is not checked",
        "privacy/ledger/chain.py",
        "if not verify(entry.signature, entry.head):",
        "if not entry.signature:",
        "privacy/test_ledger_chain.py::test_entries_signed_with_another_key_are_not_believed",
    ),
    Mutant(
        "the number of an entry is not checked",
        "privacy/ledger/chain.py",
        "if entry.seq != next_seq:",
        "if entry.seq < next_seq:",
        "privacy/test_ledger_chain.py::test_a_signed_chain_that_skips_a_number_is_not_believed",
    ),
    Mutant(
        "the anchor does not move",
        "privacy/ledger/sqlite.py",
        "            self._anchor.append(self._end.position)\n",
        "            pass\n",
        "privacy/test_ledger_chain.py"
        "::test_a_restored_copy_is_older_than_the_anchor_and_may_not_charge",
    ),
    Mutant(
        "a missing anchor is forgiven",
        "privacy/ledger/sqlite.py",
        "if not latest and self._end.seq > 1:",
        "if not latest and self._end.seq < 1:",
        "privacy/test_ledger_chain.py::test_a_missing_anchor_stops_the_site",
    ),
    Mutant(
        "the books are not read before a charge",
        "privacy/ledger/sqlite.py",
        "            self._read_new()\n            self._check_anchor()\n",
        "            self._check_anchor()\n",
        "privacy/test_ledger_chain.py::test_two_ledgers_on_one_file_see_each_other_s_charges",
    ),
    Mutant(
        "an opened set is kept in memory and not chained",
        "privacy/ledger/sqlite.py",
        "self._append(SetOpened(study, round_id, members, account.spent))",
        "self._books.apply(SetOpened(study, round_id, members, account.spent))",
        "privacy/test_ledger_chain.py::test_a_copy_from_before_a_set_is_older_than_the_anchor",
    ),
    Mutant(
        "a round opens a second set",
        "privacy/ledger/rules.py",
        "if event.round_id not in account.rounds or event.round_id in account.sets:",
        "if event.round_id not in account.rounds:",
        "privacy/test_ledger_chain.py::test_a_round_opens_one_set_and_only_once_it_is_charged",
    ),
    Mutant(
        "a charge's measure is not compared with its budget's",
        "privacy/ledger/rules.py",
        "require_measure(measure, account.measure, event.round_id)",
        "require_measure(measure, measure, event.round_id)",
        "privacy/test_ledger_chain.py::test_a_cap_in_one_measure_accepts_no_charge_in_another",
    ),
    Mutant(
        "a closed study may charge",
        "privacy/ledger/rules.py",
        "        if not account.open:\n"
        '            raise ParameterError(f"study {event.study!r} is closed; ',
        "        if account.doubtful:\n"
        '            raise ParameterError(f"study {event.study!r} is closed; ',
        "privacy/test_ledger_chain.py::test_an_unknown_or_closed_study_cannot_charge",
    ),
    Mutant(
        "a restored study goes on from what the copy knows",
        "privacy/ledger/rules.py",
        "            _require_certain(account, event)\n",
        "",
        "privacy/test_ledger_chain.py::test_after_a_restore_open_studies_count_as_fully_spent",
    ),
    Mutant(
        "an open study holds only what it has spent of the lifetime",
        "privacy/ledger/rules.py",
        "return self.cap if self.open else self.spent",
        "return self.spent",
        "privacy/test_ledger_chain.py::test_approving_a_study_takes_its_whole_cap_from_the_lifetime",
    ),
    Mutant(
        "the code of a row beside the ledger is not checked",
        "privacy/ledger/sqlite.py",
        "if not isinstance(code, bytes) or not hmac.compare_digest(code, self._code(values)):",
        "if not isinstance(code, bytes):",
        "federation/test_site_store_files.py::test_rows_that_this_site_did_not_write_are_not_believed",
    ),
    Mutant(
        "a row's code covers its key and not its content",
        "privacy/ledger/sqlite.py",
        "for part in (self._name, *values):",
        "for part in (self._name, *values[: len(self._keys)]):",
        "federation/test_site_store_files.py::test_rows_that_this_site_did_not_write_are_not_believed",
    ),
    Mutant(
        "a site's file is for everybody to read",
        "privacy/ledger/store.py",
        "        path.chmod(0o600)\n",
        "        path.chmod(0o644)\n",
        "federation/test_site_store.py::test_only_the_owner_can_read_the_files",
    ),
)

"""Mistakes where the rows are: reading, selecting, summing, and what leaves."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

SITE: Final = (
    Mutant(
        "the finer units of Gaussian shares are forgotten",
        "federation/client.py",
        "x * item.refinement + z for item,",
        "x + z for item,",
        "federation/test_dp_models.py"
        "::test_counts_of_a_gaussian_study_come_back_from_its_finer_units",
    ),
    Mutant(
        "noise is left out where the answer is zero",
        "federation/client.py",
        "x * item.refinement + z for item,",
        "x * item.refinement + z * bool(x.any()) for item,",
        "privacy/test_pipeline_noise.py::test_an_answer_of_nothing_but_zeros_carries_its_noise",
    ),
    Mutant(
        "noise is drawn once and used again",
        "federation/client.py",
        "        together = draw(law, ends[-1], secret)\n",
        "        kept = sampling.__dict__.setdefault('kept', {})\n"
        "        key = law, ends[-1]\n"
        "        together = kept.setdefault(key, sampling.draw(*key, secret))\n",
        "privacy/test_pipeline_noise.py::test_equal_queries_of_one_run_have_noise_of_their_own",
    ),
    Mutant(
        "queries of one bundle share their noise",
        "federation/client.py",
        "result += np.split(together, ends[:-1])",
        "result += [together[: ends[0]]] * len(ends)",
        "privacy/test_pipeline_noise.py::test_equal_queries_of_one_bundle_have_noise_of_their_own",
    ),
    Mutant(
        "one site adds the noise of the sum instead of its own",
        "federation/client.py",
        "together = draw(law, ends[-1], secret)",
        "together = draw(law.share(2), ends[-1], secret)",
        "privacy/test_pipeline_noise.py::test_h_honest_shares_are_exactly_the_declared_noise",
    ),
    Mutant(
        "the coefficient of a choice is doubled",
        "federation/client.py",
        "coefficient = study.selection_epsilon(query) / (",
        "coefficient = 2 * study.selection_epsilon(query) / (",
        "federation/test_member_choices.py::test_a_holders_picks_follow_the_law_that_was_paid_for",
    ),
    Mutant(
        "a person's records are ignored in a choice",
        "federation/client.py",
        "(query.scoring.reach * study.records_per_person)",
        "query.scoring.reach",
        "federation/test_member_choices.py::test_a_holders_picks_follow_the_law_that_was_paid_for",
    ),
    Mutant(
        "the best candidate is picked without any draw",
        "federation/client.py",
        "if study.dp_model is DPModel.NONE:",
        "if study.dp_model is not DPModel.LABEL:",
        "federation/test_member_choices.py::test_a_sites_own_picks_follow_it_too",
    ),
    Mutant(
        "labels are told as they are",
        "data/prepared.py",
        "return rows.with_labels(noisy_labels.astype(np.uint8))",
        "return rows",
        "federation/test_dp_models.py::test_as_many_labels_are_told_wrong_as_the_response_says",
    ),
    Mutant(
        "true labels stay beside the permanent bits",
        "data/prepared.py",
        "            return without_labels(rows)\n",
        "            return rows\n",
        "federation/test_label_reports.py::test_a_site_refuses_class_counts_and_keeps_no_labels",
    ),
    Mutant(
        "records that are held out are trained on as well",
        "data/prepared.py",
        "rows, held_out = rows.part(test, TRAINED_ON), rows.part(test, 0)",
        "rows, held_out = rows, rows.part(test, 0)",
        "methods/test_evaluate.py::test_no_record_is_both_trained_on_and_evaluated",
    ),
    Mutant(
        "an evaluation is answered from the records that were trained on",
        "data/prepared.py",
        "return self._trained_on if outcome == TRAINED_ON else self._tested_on",
        "return self._trained_on",
        "deployment/test_held_out.py::test_without_its_part_a_query_would_count_everybody",
    ),
    Mutant(
        "all permanent bits of a record hang on one draw",
        "data/prepared.py",
        'rows.draw(f"label bit {b}")',
        'rows.draw("label bit")',
        "federation/test_label_reports.py::test_permanent_bits_have_draws_of_their_own",
    ),
    Mutant(
        "the cells of a region are flipped",
        "data/rows.py",
        "list(split_rows(self._cells_of(test), rows, test.left))",
        "list(split_rows(self._cells_of(test), rows, test.left))[::-1]",
        "data/test_rows.py::test_a_region_selects_exactly_the_rows_that_pass_its_tests",
    ),
    Mutant(
        "the outcome of a fold is ignored",
        "data/rows.py",
        "        return parts[last.outcome]\n",
        "        return parts[last.outcome] if isinstance(last.test, Split) else parts[0]\n",
        "data/test_rows.py::test_a_region_selects_exactly_the_rows_that_pass_its_tests",
    ),
    Mutant(
        "all outcomes of a fold hold all rows",
        "data/rows.py",
        "        outcome = self.fold(test)[rows]\n",
        "        return [rows] * test.n\n        outcome = self.fold(test)[rows]\n",
        "data/test_rows.py::test_a_region_selects_exactly_the_rows_that_pass_its_tests",
    ),
    Mutant(
        "a test on another grid is looked up on this one",
        "data/rows.py",
        "if test.grid != grid.digest or test.left >> grid.n_cells:",
        "if test.left >> grid.n_cells:",
        "data/test_rows.py::test_a_test_on_another_grid_is_refused",
    ),
    Mutant(
        "copies of a record share their draws",
        "data/rows.py",
        "        ids[:, 1] += places_among(ids) if self._copies is None else self._copies\n",
        "",
        "data/test_rows.py::test_copies_of_a_record_have_draws_of_their_own",
    ),
    Mutant(
        "a record's draw goes by its place in the file",
        "data/rows.py",
        "        ids[:, 1] += places_among(ids) if self._copies is None else self._copies\n",
        "        ids[:, 1] += np.arange(self.n, dtype=np.uint64)\n",
        "data/test_rows.py::test_one_record_more_changes_no_other_records_fold_or_draw",
    ),
    Mutant(
        "rows of one person share the draw of their labels",
        "data/rows.py",
        'return self._secret.words("draw", name, self._record_ids)',
        "ids = self._record_ids if self._persons is None else self._persons\n"
        '        return self._secret.words("draw", name, ids)',
        "data/test_rows.py::test_rows_with_one_id_share_their_fold_but_no_draw",
    ),
    Mutant(
        "two studies have the same draws",
        "data/rows.py",
        "for part in (purpose, self.study, name)]",
        "for part in (purpose, name)]",
        "data/test_rows.py::test_another_secret_study_or_name_is_another_draw",
    ),
    Mutant(
        "truncation is replaced by rounding",
        "kernels/units.py",
        "return np.clip(finite, -LARGEST_UNITS, LARGEST_UNITS).astype(np.int64)",
        "return np.clip(np.rint(finite), -LARGEST_UNITS, LARGEST_UNITS).astype(np.int64)",
        "privacy/test_sensitivity.py::test_rounding_to_nearest_would_break_the_joint_norm",
    ),
    Mutant(
        "the clamp of contributions is removed",
        "kernels/units.py",
        "return np.where(keeps[:, None], contributions, 0)",
        "return contributions",
        "kernels/test_units.py::test_a_statistic_that_lies_about_its_bound_is_stopped",
    ),
    Mutant(
        "the clamp looks at one norm less",
        "kernels/units.py",
        "keeps &= (l1 <= bound.l1) & (l2_squared <= bound.l2_squared)",
        "keeps &= l1 <= bound.l1",
        "kernels/test_units.py::test_one_unit_beyond_any_norm_is_too_much",
    ),
    Mutant(
        "the compiled clamp forgets one norm",
        "kernels/loops.c",
        "beyond += (total > l1) | (squares > l2_squared) | (largest > linf);",
        "beyond += (squares > l2_squared) | (largest > linf);",
        "kernels/test_units.py"
        "::test_a_record_that_exceeds_its_bound_adds_nothing_and_others_all_they_have",
    ),
    Mutant(
        "contributions that are no number are kept",
        "kernels/units.py",
        "finite = np.where(np.isfinite(multiples), multiples, 0.0)",
        "finite = np.nan_to_num(multiples, nan=1.0)",
        "kernels/test_units.py"
        "::test_a_record_that_exceeds_its_bound_adds_nothing_and_others_all_they_have",
    ),
    Mutant(
        "a sum of another shape is stretched over the noise",
        "data/sums.py",
        "if sums.size != prod(query.shape):",
        "if sums.size > prod(query.shape):",
        "kernels/test_units.py::test_one_sum_is_not_stretched_over_many_noises",
    ),
    Mutant(
        "half a Gini wraps around in int64",
        "data/sums.py",
        "return counts.astype(object) if unit * n * n >= 1 << 62 else counts",
        "return counts",
        "kernels/test_units.py::test_half_a_gini_does_not_leave_int64_at_any_unit",
    ),
    Mutant(
        "histograms of one kind are all in the unit of the first",
        "data/sums.py",
        "queries_in_units, key=lambda pair: (_kind(pair[0]), pair[1])\n",
        "queries_in_units, key=lambda pair: (_kind(pair[0]), queries_in_units[0][1])\n",
        "data/test_sums.py::test_histograms_of_one_kind_are_each_in_their_own_unit",
    ),
    Mutant(
        "contributions of another unit are used again",
        "data/sums.py",
        "if cache is None or cache[0] is not statistic or cache[1] != unit:",
        "if cache is None or cache[0] is not statistic:",
        "data/test_sums.py::test_what_a_site_kept_of_one_question_answers_no_other",
    ),
    Mutant(
        "predictions of another model are used again",
        "data/sums.py",
        "return n if model.trees[:n] == scored_model.trees else None",
        "return n if len(model.trees) >= n else None",
        "data/test_sums.py::test_what_a_site_kept_of_one_question_answers_no_other",
    ),
    Mutant(
        "bins of another binning are used again",
        "data/sums.py",
        "if self._recoded_bins is None or self._recoded_bins[0] != binning.digest:",
        "if self._recoded_bins is None:",
        "data/test_sums.py::test_what_a_site_kept_of_one_question_answers_no_other",
    ),
    Mutant(
        "a missing target makes a score that is no number",
        "data/sums.py",
        "u = np.rint(np.nan_to_num(rows.unit_target[index]) * LATTICE)",
        "u = np.rint(2.0 * np.nan_to_num(rows.unit_target[index]) * LATTICE)",
        "privacy/test_sensitivity.py"
        "::test_the_range_of_score_changes_over_candidates_is_at_most_the_reach",
    ),
    Mutant(
        "a store releases a record of another round",
        "federation/site_store.py",
        "_check_record(record, run_id, round, receipt)\n",
        "pass\n",
        "federation/test_site_store.py::test_a_record_of_another_round_than_the_one_charged_is_refused",
    ),
    Mutant(
        "a lost secret is drawn again",
        "federation/site_store.py",
        "                self._require_unspent(study)\n",
        "",
        "federation/test_site_store_files.py::test_a_secret_that_was_removed_is_not_drawn_again",
    ),
    Mutant(
        "a store opens a second set",
        "federation/site_store.py",
        "            require(result.members == target, Code.SECOND_SET)\n",
        "",
        "federation/test_site_store.py::test_a_memory_opens_one_set_a_round",
    ),
    Mutant(
        "a round stored before a restore is answered for",
        "federation/site_store.py",
        "return record if record.header.ledger.seq > self._ledger.restored() else None",
        "return record",
        "federation/test_site_store_restored.py"
        "::test_a_declared_restore_answers_for_no_round_that_was_stored_before",
    ),
    Mutant(
        "a backup holds the answers that may be sent again",
        "federation/site_store.py",
        '        copy.execute("DELETE FROM outbox")\n',
        "        pass\n",
        "federation/test_site_store_restored.py::test_a_backup_holds_nothing_that_could_open_a_round",
    ),
    Mutant(
        "all sites of a fit share one secret",
        "data/site_rows.py",
        "return [Draws(os.urandom(32), study) for _ in range(n_sites)]",
        "return [Draws(os.urandom(32), study)] * n_sites",
        "data/test_site_rows.py::test_labels_that_a_fit_tells_of_equal_records_are_independent",
    ),
    Mutant(
        "a site computes before it charges",
        "federation/transports/in_process.py",
        '        self.ledger.reserve([item.charge for item in bundle], f"round {number}")\n'
        "        response = client.respond(self.rows, bundle, SecretRandomness())\n",
        "        response = client.respond(self.rows, bundle, SecretRandomness())\n"
        '        self.ledger.reserve([item.charge for item in bundle], f"round {number}")\n',
        "privacy/test_charges.py::test_a_holder_without_budget_touches_no_row",
    ),
)

READING: Final = (
    Mutant(
        "a category goes by how its column's type prints it",
        "schema/tokens.py",
        "return str(int(number)) if number == int(number) else _token_of_fraction(number)",
        "return repr(number)",
        "data/test_values_alone.py::test_one_more_row_changes_no_code",
    ),
    Mutant(
        "a fraction goes by the width of its column",
        "schema/tokens.py",
        "return repr(number) if narrow == int(narrow) else repr(float(str(narrow)))",
        "return repr(number)",
        "data/test_values_alone.py::test_a_float32_is_known_alike_in_both_widths_and_as_text",
    ),
    Mutant(
        "a number too long for a float has a token",
        "schema/tokens.py",
        "        return Unusable.TOO_LARGE\n",
        "        return str(int(number))\n",
        "schema/test_schema.py::test_codes_of_many_digits_are_told_apart_as_text_and_unknown_as_numbers",
    ),
    Mutant(
        "a line with an open quote is let through",
        "data/reading/lines.py",
        "            elif dialect.opens.fullmatch(content):",
        "            elif dialect.opens.fullmatch(content) and (yield self._line, line):",
        "data/test_values_alone.py::test_a_line_of_a_file_changes_no_other",
    ),
    Mutant(
        "the type of a column of objects is what all of them make of it",
        "data/reading/containers.py",
        'return dtype.kind in "biufUS"',
        'return dtype.kind in "biufUSO"',
        "data/test_value_pairs.py::test_no_value_changes_the_code_of_another_in_any_container",
    ),
    Mutant(
        "what lies beneath a mask is read",
        "data/reading/containers.py",
        "    objects[np.ma.getmaskarray(values)] = None\n",
        "",
        "data/test_value_pairs.py"
        "::test_a_masked_value_is_missing_and_the_others_are_what_they_were",
    ),
    Mutant(
        "addresses of Polars' objects are read as bytes",
        "data/reading/sources.py",
        "if any(str(kind) == OF_POLARS for kind in",
        "if any(str(kind) == str() for kind in",
        "data/test_value_pairs.py::test_no_value_changes_the_code_of_another_in_any_container",
    ),
    Mutant(
        "a site goes by the type of its name",
        "data/site_rows.py",
        "place = {token_of(name): k for k, name in enumerate(names)}",
        "place = {name: k for k, name in enumerate(names)}",
        "data/test_value_pairs.py"
        "::test_a_site_is_known_by_its_token_whatever_the_type_of_the_column",
    ),
    Mutant(
        "targets are not clamped to their range",
        "data/reading/encoding.py",
        "return np.clip(values, bound.low, bound.high)",
        "return values",
        "data/test_sources.py::test_targets_are_clamped_and_counted",
    ),
    Mutant(
        "a row without a label is taken for the first class",
        "data/reading/encoding.py",
        "missing = np.array([code is None for code in class_codes], np.bool_)",
        "missing = np.array([False for code in class_codes], np.bool_)",
        "data/test_reading_bad_input.py::test_a_bad_row_is_no_error_once_joined",
    ),
)
